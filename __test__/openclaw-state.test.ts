import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { type ExecuteOptions, execute } from '../index.js'
import { collect, scratch } from './stand-in/run.js'

// An openclaw whose state folder belongs to one process at a time, as the real one's does.
const OPENCLAW = `
import { appendFileSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs'
const args = process.argv.slice(2)
const after = flag => args[args.indexOf(flag) + 1]
const end = (value, code = 0) => {
  process.stdout.write('[agents] a log line before\\n' + JSON.stringify(value, null, 2) + '\\n[agents] and one after\\n')
  process.exitCode = code
}
if (args.includes('--version')) console.log('OpenClaw 2026.9.6 (eb377ac)')
else if (args.includes('--help')) {
  console.log(args.includes('exec')
    ? 'Usage: openclaw agent exec [options]\\n --cwd --state-dir --message-file --timeout --model --config'
    : 'Usage: openclaw agent [options]\\n --message-file --timeout')
} else {
  const exec = args[1] === 'exec'
  const state = exec ? after('--state-dir') : process.env.HOME + '/.openclaw'
  const lock = state + '/lock'
  const file = after('--message-file')
  const message = readFileSync(file === '-' ? 0 : file, 'utf8')
  const config = process.env.OPENCLAW_CONFIG_PATH
  appendFileSync('starts.jsonl', JSON.stringify({ args, message, config: config && readFileSync(config, 'utf8') }) + '\\n')
  try {
    mkdirSync(lock)
    setTimeout(() => {
      rmdirSync(lock)
      end({ ok: true, status: 'ok', final: 'done', payloads: [{ text: 'done' }], sessionId: exec ? 'new' : after('--session-id') })
    }, 300)
  } catch {
    end({ ok: false, error: { type: 'cli_error', message: 'failed to acquire gateway state ownership' } }, 1)
  }
}
`

function place() {
  const folder = scratch()
  const state = path.join(folder, '.openclaw')
  mkdirSync(state)
  writeFileSync(path.join(state, 'openclaw.json'), '{}')
  writeFileSync(path.join(folder, 'openclaw.mjs'), OPENCLAW)
  const run = async (options: ExecuteOptions = {}) => {
    const started = execute('openclaw', 'Do it.', {
      cwd: folder,
      executablePath: process.execPath,
      launchPrefix: [path.join(folder, 'openclaw.mjs')],
      ...options,
      env: { HOME: folder, USERPROFILE: folder },
    })
    const messages = await collect(started)
    return { messages, result: await started.result }
  }
  const starts = () =>
    readFileSync(path.join(folder, 'starts.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map(line => JSON.parse(line) as { args: string[]; message: string; config?: string })
  return { folder, state, run, starts, own: () => mkdirSync(path.join(state, 'lock')) }
}

test('runs on one state take turns, and their sessions can be resumed', async () => {
  const { run, starts, state, folder } = place()
  const both = await Promise.all([run(), run({ systemPrompt: 'Be brief.' })])
  for (const { result } of both)
    expect(result).toMatchObject({ status: 'completed', output: 'done', sessionId: 'new' })
  expect(starts()).toHaveLength(2)
  expect(
    starts()
      .map(start => start.message)
      .sort(),
  ).toEqual(['Be brief.\n\nDo it.', 'Do it.'])
  expect(starts()[0]!.args.join(' ')).toBe(
    `agent exec --json --cwd ${folder} --state-dir ${state} --timeout 0 --message-file -`,
  )
  const { result } = await run({ resumeSessionId: 'new' })
  expect(result).toMatchObject({ status: 'completed', sessionId: 'new' })
  const last = starts().at(-1)!
  expect(last.args.slice(0, 7).join(' ')).toBe('agent --local --json --session-id new --timeout 0')
  expect(last.args.join(' ')).not.toContain('Do it.')
  // The cwd of the run goes over the user's configuration.
  expect(JSON.parse(last.config!)).toEqual({
    $include: [path.join(state, 'openclaw.json')],
    agents: { defaults: { workspace: folder, skipBootstrap: true } },
  })
})

test('a state that another process owns is left alone: the second try keeps no session', async () => {
  const { run, starts, own } = place()
  own()
  const { messages, result } = await run()
  expect(result).toMatchObject({ status: 'completed', output: 'done' })
  expect(result.sessionId).toBeUndefined()
  expect(messages.filter(m => m.type === 'error')).toEqual([])
  expect(messages).toContainEqual(expect.objectContaining({ type: 'log', level: 'warn' }))
  const [first, second] = starts().map(({ args }) => args[args.indexOf('--state-dir') + 1]!)
  expect(second).not.toBe(first)
  expect(existsSync(second!)).toBe(false)
})

test('a resume that cannot have the state says so and stays resumable', async () => {
  const { run, starts, own } = place()
  own()
  const { messages, result } = await run({ resumeSessionId: 'old' })
  expect(result).toMatchObject({
    status: 'failed',
    error: 'failed to acquire gateway state ownership',
    sessionId: 'old',
    failure: { kind: 'overloaded', retryable: true, exitCode: 1 },
  })
  expect(result.failure?.hint).toContain('OPENCLAW_STATE_DIR')
  expect(messages.filter(m => m.type === 'error')).toHaveLength(1)
  expect(starts()).toHaveLength(2)
})

test('MCP servers and the prompt of an isolated run are in no argument', async () => {
  const { run, starts } = place()
  const mcpConfig = { mcpServers: { probe: { command: 'x', env: { KEY: 's3cret' } } } }
  const { result } = await run({ openclawMode: 'exec', mcpConfig })
  expect(result.status).toBe('completed')
  expect(result.sessionId).toBeUndefined()
  const { args } = starts()[0]!
  expect(args).toContain('--config')
  expect(args.join(' ')).not.toMatch(/s3cret|Do it/)
})
