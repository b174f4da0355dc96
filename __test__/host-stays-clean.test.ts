import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { setLogger } from '../index.js'
import { alive, collect, HELLO, SESSION, scratch, standIn, started, UP } from './stand-in/run.js'

const ROOT = path.resolve(import.meta.dirname, '..')
const CLI = path.join(import.meta.dirname, 'stand-in/cli.mjs')

/** Source of a script that starts a run of the pi stand-in as `run`. */
const script = (steps: unknown, body: string, log: string) => `
  const { execute } = require(${JSON.stringify(path.join(ROOT, 'index.js'))})
  const run = execute('pi', 'x', {
    executablePath: process.execPath,
    launchPrefix: [${JSON.stringify(CLI)}],
    env: {
      XDG_DATA_HOME: ${JSON.stringify(path.dirname(log))},
      STAND_IN_PROVIDER: 'pi',
      STAND_IN_STEPS: ${JSON.stringify(typeof steps === 'string' ? steps : JSON.stringify(steps))},
      STAND_IN_LOG: ${JSON.stringify(log)},
    },
  })
  ${body}
`

function hostScript(steps: unknown, body: string) {
  const folder = scratch()
  const log = path.join(folder, 'notes.jsonl')
  const file = path.join(folder, 'host.cjs')
  writeFileSync(file, script(steps, body, log))
  const host = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'ignore'] })
  let stdout = ''
  host.stdout.on('data', chunk => {
    stdout += chunk
  })
  const notes = () => {
    try {
      return readFileSync(log, 'utf8')
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
    } catch {
      // Not started yet.
      return []
    }
  }
  return { host, notes, stdout: () => stdout }
}

const gone = (pid: number) => expect.poll(() => alive(pid), { timeout: 30_000 }).toBe(false)

describe('a host process', () => {
  test('ends by itself after the result', async () => {
    const { host, stdout } = hostScript(HELLO, 'run.result.then(r => console.log(r.status))')
    const [code] = await once(host, 'exit')
    expect({ code, stdout: stdout() }).toEqual({ code: 0, stdout: 'completed\n' })
  })

  test('is kept alive by a live run that nobody awaits', async () => {
    const { host, notes } = hostScript(HELLO, "process.on('exit', () => run.runId)")
    await once(host, 'exit')
    expect(notes().some(n => 'prompt' in n)).toBe(true)
  })

  test('may end before a run that was unreferenced, and takes it along', async () => {
    const { host, notes } = hostScript(UP, 'run.next().then(() => run.next()).then(() => { run.unref() })')
    const [code] = await once(host, 'exit')
    expect(code).toBe(0)
    await gone(notes()[0].started)
  })

  test('takes its runs along on process.exit', async () => {
    const { host, notes } = hostScript(
      [{ grandchild: 'detached' }, ...UP],
      'run.next().then(() => run.next()).then(() => process.exit(7))',
    )
    const [code] = await once(host, 'exit')
    expect(code).toBe(7)
    for (const note of notes()) for (const pid of [note.started, note.grandchild]) if (pid) await gone(pid)
  })

  test.skipIf(process.platform !== 'linux')(
    'takes along what is only just starting on process.exit',
    async () => {
      const folder = scratch()
      const cli = path.join(folder, 'cli')
      writeFileSync(cli, '#!/bin/sh\nexec sleep 90\n', { mode: 0o755 })
      const ends = [0, 1, 2, 3, 5, 8].map(async ms => {
        const { host, stdout } = hostScript(
          UP,
          `for (const provider of ['pi', 'codex', 'kimi', 'cursor'])
          console.log(execute(provider, 'x', { executablePath: ${JSON.stringify(cli)} }).runId)
        setTimeout(() => process.exit(7), ${ms})`,
        )
        const [code] = await once(host, 'close')
        expect(code).toBe(7)
        return stdout().trim().split('\n')
      })
      const runIds = (await Promise.all(ends)).flat()
      expect(runIds).toHaveLength(24)
      await expect.poll(() => marked(runIds), { timeout: 30_000 }).toEqual([])
    },
    60_000,
  )

  test('takes its runs along on an uncaught exception', async () => {
    const { host, notes } = hostScript(
      UP,
      'run.next().then(() => run.next()).then(() => setImmediate(() => { throw 1 }))',
    )
    const [code] = await once(host, 'exit')
    expect(code).not.toBe(0)
    await gone(notes()[0].started)
  })

  test('sees no unhandled rejection when only one side is used', async () => {
    const body = (use: string) => `
      process.on('unhandledRejection', () => process.exit(9))
      const failed = execute('pi', 'x', { executablePath: '/no/such/cli' })
      ${use}
    `
    for (const use of ['failed.result.catch(() => {})', 'failed.next().catch(() => {})', '']) {
      const { host } = hostScript(HELLO, body(use))
      expect((await once(host, 'exit'))[0]).toBe(0)
    }
  })
})

describe('worker threads', () => {
  const worker = (steps: unknown, body: string) => {
    const log = path.join(scratch(), 'notes.jsonl')
    const thread = new Worker(
      script(steps, `const { parentPort } = require('node:worker_threads'); ${body}`, log),
      {
        eval: true,
      },
    )
    return { thread, log }
  }

  test('run side by side and one after the other', async () => {
    for (let round = 0; round < 3; round++) {
      const threads = [1, 2].map(
        () => worker(HELLO, 'run.result.then(r => parentPort.postMessage(r.status))').thread,
      )
      const statuses = await Promise.all(threads.map(async t => (await once(t, 'message'))[0]))
      expect(statuses).toEqual(['completed', 'completed'])
      await Promise.all(threads.map(t => t.terminate()))
    }
  })

  test('may be terminated with a run in flight, again and again, and the run ends', async () => {
    for (let round = 0; round < 25; round++) {
      const { thread, log } = worker(
        UP,
        `(async () => { for await (const m of run) if (m.type === 'text') parentPort.postMessage('up') })()`,
      )
      await once(thread, 'message')
      await thread.terminate()
      const { started } = JSON.parse(readFileSync(log, 'utf8').split('\n')[0]!)
      await gone(started)
    }
  }, 120_000)

  test('may be terminated while messages pour in', async () => {
    const steps = path.join(scratch(), 'steps.json')
    const flood = [
      SESSION,
      ...Array.from({ length: 20_000 }, (_, i) => ({ text: `${i} ${'x'.repeat(100)}` })),
      { hang: true },
    ]
    writeFileSync(steps, JSON.stringify(flood))
    for (let round = 0; round < 10; round++) {
      const { thread } = worker(
        steps,
        `(async () => { let n = 0; for await (const m of run) if (++n === 500) parentPort.postMessage('up') })()`,
      )
      await once(thread, 'message')
      await thread.terminate()
    }
  }, 120_000)
})

test('a hundred runs leave listeners, descriptors and zombies as they were', async () => {
  const count = () => ({
    exit: process.listenerCount('exit'),
    listeners: process.eventNames().reduce((n, name) => n + process.listenerCount(name), 0),
    zombies: zombies(),
  })
  const descriptors = () => (process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0)
  const one = async (i: number) => {
    const abort = new AbortController()
    const { run, notes } = standIn('pi', i % 3 === 0 ? UP : i % 3 === 1 ? HELLO : [{ exit: 1 }], {
      signal: abort.signal,
    })
    if (i % 3 === 0) {
      await started(notes)
      abort.abort()
    }
    await collect(run)
    await run.result
  }
  await one(0)
  await one(1)
  const before = count()
  const open = descriptors()
  for (let batch = 0; batch < 20; batch++) await Promise.all([0, 1, 2, 3, 4].map(i => one(batch * 5 + i)))
  expect(count()).toEqual(before)
  // The event loop and the thread pool may have opened one of their own in the meantime.
  expect(descriptors()).toBeLessThanOrEqual(open + 3)
}, 120_000)

function zombies(): number {
  if (process.platform !== 'linux') return 0
  return readdirSync('/proc').filter(pid => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
      return fields[0] === 'Z' && Number(fields[1]) === process.pid
    } catch {
      // Not a process, or gone.
      return false
    }
  }).length
}

/** Processes that carry the mark of one of these runs. */
function marked(runIds: string[]): string[] {
  return readdirSync('/proc').filter(pid => {
    try {
      const entries = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
      return entries.some(e => e.startsWith('AGENTPLUG_RUN_ID=') && runIds.includes(e.slice(17)))
    } catch {
      // Not a process, somebody else's, or gone.
      return false
    }
  })
}

test('the log callback gets events without prompts or secrets, and a throwing one is let go', async () => {
  const events: { level: string; message: string }[] = []
  setLogger('debug', event => events.push(event))
  await standIn('pi', HELLO, { env: { MY_TOKEN: 's3cret-0001' } }, 'the s3cret-0002 prompt').run.result
  await expect.poll(() => events.length).toBeGreaterThan(0)
  expect(JSON.stringify(events)).not.toContain('s3cret')
  const warned = once(process, 'warning')
  setLogger('debug', () => {
    throw new Error('broken logger')
  })
  await standIn('pi', HELLO).run.result
  expect((await warned)[0].message).toContain('broken logger')
  setLogger('off')
})
