import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { execute, providers } from '../index.js'
import {
  alive,
  collect,
  HELLO,
  isText,
  SESSION,
  scratch,
  standIn,
  started,
  tellsText,
  texts,
  UP,
  until,
} from './stand-in/run.js'

describe.each(providers)('%s', provider => {
  test('gives messages, then one completed result, and the prompt arrives whole', async () => {
    const prompt = `line one\n"quoted" 'single' $HOME \\ ünï😀 -- -x ${'long '.repeat(2000)}end`
    const { run, notes } = standIn(provider, HELLO, {}, prompt)
    const messages = await collect(run)
    const result = await run.result
    expect(result).toMatchObject({ status: 'completed' })
    expect(result.error).toBeUndefined()
    expect(texts(messages)).toContain('world')
    expect(result.output).toContain('world')
    expect(result.durationMs).toBeGreaterThan(0)
    expect(run.sessionId).toBe(result.sessionId)
    // By stdin or protocol, or as an argument where the CLI knows no other way.
    const told = notes().find(n => 'prompt' in n)?.prompt
    const { args } = notes()[0] as { args: string[] }
    expect(told || args.find(a => a.includes('line one'))).toContain(prompt)
  })

  test.skipIf(!tellsText(provider))('pairs each tool call with one result', async () => {
    const { run } = standIn(provider, [
      SESSION,
      { tool: { id: 'c1', name: 'bash', input: { command: 'echo hi' } } },
      { toolEnd: { id: 'c1', output: 'hi there' } },
      { text: 'after' },
      { done: 'after' },
    ])
    const messages = await collect(run)
    expect(await run.result).toMatchObject({ status: 'completed', output: 'after' })
    const uses = messages.filter(m => m.type === 'tool-use')
    const results = messages.filter(m => m.type === 'tool-result')
    expect(uses).toHaveLength(1)
    expect(results).toHaveLength(1)
    expect(uses[0]!.tool).not.toBe('')
    expect(JSON.stringify(uses[0]!.input)).toContain('echo hi')
    expect(results[0]!).toMatchObject({ callId: uses[0]!.callId })
    expect(results[0]!.output).toContain('hi there')
    expect(results[0]!.output).not.toMatch(/^[{["]/)
  })

  test('turns an error the CLI states into a failed result with its words', async () => {
    const { run } = standIn(provider, [SESSION, { fail: 'mock: 401 unauthorized, please log in' }])
    await collect(run)
    const result = await run.result
    expect(result).toMatchObject({
      status: 'failed',
      output: '',
      failure: { kind: 'auth', retryable: false },
    })
    expect(result.error).toContain('please log in')
  })

  test('never completes without the terminal event', async () => {
    const { run } = standIn(provider, [SESSION, { text: 'part' }, { exit: 0 }])
    await collect(run)
    const result = await run.result
    expect(result).toMatchObject({ status: 'failed', output: '' })
    expect(result.failure).toBeDefined()
  })

  test('reports a crash with the end of stderr, redacted', async () => {
    const { run } = standIn(provider, [
      SESSION,
      { stderr: 'FATAL: it broke; api_key=sk-fake0fake0fake0fake0fake0\n' },
      { exit: 3 },
    ])
    await collect(run)
    const result = await run.result
    expect(result).toMatchObject({ status: 'failed', failure: { exitCode: 3 } })
    expect(result.error).toContain('FATAL: it broke')
    expect(result.error).not.toContain('sk-fake0')
  })

  test('passes lines that are no frames on as logs and goes on', async () => {
    const { run } = standIn(provider, [
      { raw: 'a banner line' },
      { raw: '\u001b[?25l' },
      { raw: '{"type":' },
      ...HELLO.slice(0, 2),
      { raw: 'another banner' },
      { raw: '{"type":"a_kind_nobody_knows","x":[1,2,{}]}' },
      ...HELLO.slice(2),
    ])
    const messages = await collect(run)
    expect(await run.result).toMatchObject({ status: 'completed' })
    const logs = messages.flatMap(m => (m.type === 'log' ? [m.content] : []))
    expect(logs.join('\n')).toContain('banner')
  })

  test('decodes characters that arrive byte by byte', async () => {
    const { run } = standIn(provider, [SESSION, { bytewise: true }, { text: 'ä😀漢' }, { done: 'ä😀漢' }])
    const messages = await collect(run)
    expect(texts(messages)).toContain('ä😀漢')
    expect((await run.result).output).toContain('ä😀漢')
  })

  test('fails on a line above the limit instead of cutting it', async () => {
    const { run } = standIn(provider, [SESSION, { text: 'before' }, { huge: 34_000_000 }, { hang: true }])
    await collect(run)
    expect(await run.result).toMatchObject({ status: 'failed', failure: { kind: 'protocol' } })
  })

  test('cancel in mid-turn ends the whole tree as aborted', async () => {
    const { run, notes } = standIn(provider, [{ grandchild: 'detached' }, ...UP])
    if (tellsText(provider)) await until(run, isText)
    else await started(notes)
    const result = await run.cancel()
    expect(result).toMatchObject({ status: 'aborted', output: '' })
    for (const note of notes()) {
      for (const pid of [note.started, note.grandchild])
        if (typeof pid === 'number') expect(alive(pid)).toBe(false)
    }
    await collect(run)
    expect(await run.next()).toEqual({ value: undefined, done: true })
  })

  test('cancel before the CLI said anything ends as aborted', async () => {
    const { run, notes } = standIn(provider, [{ hang: true }])
    await started(notes)
    expect(await run.cancel()).toMatchObject({ status: 'aborted' })
  })

  test('cancel at once, and again, ends as aborted', async () => {
    const { run } = standIn(provider, HELLO)
    const [first, second] = await Promise.all([run.cancel(), run.cancel()])
    expect(first).toMatchObject({ status: 'aborted' })
    expect(second).toBe(first)
  })

  test('cancel after the result changes nothing', async () => {
    const { run } = standIn(provider, HELLO)
    const result = await run.result
    expect(result.status).toBe('completed')
    expect(await run.cancel()).toBe(result)
  })

  test('a signal that is aborted already starts nothing', async () => {
    const { run, notes } = standIn(provider, HELLO, { signal: AbortSignal.abort() })
    expect(await collect(run)).toEqual([])
    expect(await run.result).toMatchObject({ status: 'aborted' })
    expect(notes()).toEqual([])
  })

  test('a signal that fires in mid-turn stops the run', async () => {
    const abort = new AbortController()
    const { run, notes } = standIn(provider, UP, { signal: abort.signal })
    await started(notes)
    abort.abort()
    expect(await run.result).toMatchObject({ status: 'aborted' })
  })

  test('leaving the loop stops the run', async () => {
    const { run, notes } = standIn(provider, UP)
    if (tellsText(provider)) {
      for await (const message of run) if (isText(message)) break
    } else {
      await started(notes)
      await run.return()
    }
    expect(await run.result).toMatchObject({ status: 'aborted' })
    expect(alive(notes()[0]!.started as number)).toBe(false)
  })

  test('await using stops the run', async () => {
    const { run, notes } = standIn(provider, UP)
    await started(notes)
    await run[Symbol.asyncDispose]()
    expect(await run.result).toMatchObject({ status: 'aborted' })
  })

  test('nobody has to read', async () => {
    const { run } = standIn(provider, HELLO)
    expect((await run.result).output).toContain('world')
  })

  test('batches hand out the same messages', async () => {
    const { run } = standIn(provider, HELLO)
    const messages = []
    for await (const batch of run.batches()) messages.push(...batch)
    expect(texts(messages)).toContain('world')
    expect(await run.result).toMatchObject({ status: 'completed' })
  })

  test('overlapping pulls are answered in order', async () => {
    const { run } = standIn(provider, HELLO)
    const pulls = await Promise.all(Array.from({ length: 12 }, () => run.next()))
    const end = pulls.findIndex(p => p.done)
    expect(end).toBeGreaterThan(0)
    expect(pulls.slice(end).every(p => p.done)).toBe(true)
    expect(texts(pulls.slice(0, end).map(p => p.value!))).toContain('world')
  })

  test('session markers of the host do not reach the child, and the run id does', async () => {
    process.env.CLAUDECODE = '1'
    process.env.NODE_OPTIONS ??= ''
    try {
      const { run, notes } = standIn(provider, [SESSION, { env: true }, ...HELLO.slice(1)], {
        env: { MINE: 'yes' },
      })
      await run.result
      const env = notes().find(n => 'env' in n)?.env as Record<string, string>
      expect(env.CLAUDECODE).toBeUndefined()
      expect(env.NODE_OPTIONS).toBeUndefined()
      expect(env.MINE).toBe('yes')
      expect(env.AGENTPLUG_RUN_ID).toBe(run.runId)
    } finally {
      delete process.env.CLAUDECODE
    }
  })

  test('a secret in the environment or the MCP servers is in no argument, message or error', async () => {
    const secret = 'xyzzy-super-secret-0001'
    const { run, notes } = standIn(provider, [SESSION, { stderr: 'gone wrong\n' }, { exit: 4 }], {
      env: { MY_TOKEN: secret },
      mcpConfig: { mcpServers: { s: { command: 'true', args: [], env: { TOKEN: secret } } } },
    })
    const messages = await collect(run)
    const result = await run.result
    expect(JSON.stringify([messages, result])).not.toContain(secret)
    const { args } = notes()[0] as { args: string[] }
    expect(args.join(' ')).not.toContain(secret)
    expect(
      readdirSync(process.env.TMPDIR ?? '/tmp').filter(f => f.startsWith('agentplug-') && holds(f, secret)),
    ).toEqual([])
  })

  test('an executable that is not there rejects both sides and starts nothing', async () => {
    const missing = `${scratch()}/no-such-cli`
    const run = execute(provider, 'x', { executablePath: missing, env: { IS_SANDBOX: '1' } })
    await expect(run.result).rejects.toMatchObject({ name: 'AgentplugError', code: 'executable-not-found' })
    await expect(run.next()).rejects.toMatchObject({ code: 'executable-not-found' })
    expect(await run.next()).toEqual({ value: undefined, done: true })
  })
})

function holds(folder: string, secret: string): boolean {
  const root = `${process.env.TMPDIR ?? '/tmp'}/${folder}`
  try {
    return readdirSync(root).some(f => readFileSync(`${root}/${f}`, 'utf8').includes(secret))
  } catch {
    // A file, or gone in the meantime: no temp folder of a run.
    return false
  }
}
