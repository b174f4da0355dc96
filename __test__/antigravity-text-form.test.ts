import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { type ExecuteOptions, execute } from '../index.js'
import { collect, scratch, texts } from './stand-in/run.js'

// An agy from before it had events: the answer is plain text on stdout, and the rest stands only in its log file.
const AGY = `
import { appendFileSync, writeFileSync } from 'node:fs'
const args = process.argv.slice(2)
const after = flag => args[args.indexOf(flag) + 1]
if (args[0] === '--help') console.log('Usage of agy:\\n  -p  print the answer')
else if (args[0] === '--version') console.log('1.0.14')
else if (args[0] === 'models') console.log('fast\\tFast One\\nslow\\tSlow One')
else {
  writeFileSync('args.json', JSON.stringify(args))
  process.stdout.write(process.env.SAYS ?? '')
  appendFileSync(after('--log-file'), process.env.LOGS ?? '')
  process.exitCode = Number(process.env.EXITS ?? 0)
}
`
const ID = '11111111-2222-4333-8444-555555555555'

async function run(env: Record<string, string>, options: ExecuteOptions = {}) {
  const folder = scratch()
  const agy = path.join(folder, 'agy.mjs')
  writeFileSync(agy, AGY)
  const started = execute('antigravity', 'Hi "there"', {
    cwd: folder,
    executablePath: process.execPath,
    launchPrefix: [agy],
    ...options,
    env: { HOME: folder, USERPROFILE: folder, ...env },
  })
  const messages = await collect(started)
  const result = await started.result
  const file = path.join(folder, 'args.json')
  const args: string[] = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
  return { messages, result, args, folder }
}

test('the lines on stdout are the answer, blank ones included, and the log names the conversation', async () => {
  const { messages, result, args, folder } = await run(
    { SAYS: '\nA\n\n  B \n', LOGS: `I0101 conversation=${ID} started\n` },
    { model: 'fast', resumeSessionId: ID, extraArgs: ['--settings', '/x', '--add-dir', '/extra'] },
  )
  expect(result).toMatchObject({ status: 'completed', output: 'A\n\n  B ', sessionId: ID })
  expect(texts(messages)).toBe('A\n\n  B ')
  const log = args[args.indexOf('--log-file') + 1]!
  expect(args).toEqual([
    ...['-p', 'Hi "there"', '--dangerously-skip-permissions', '--model', 'fast'],
    ...['--print-timeout', '24h0m0s', '--log-file', log, '--conversation', ID],
    ...['--add-dir', folder, '--add-dir', '/extra'],
  ])
  expect(existsSync(path.dirname(log))).toBe(false)
})

test('an answer that was not printed is read from the transcript of the last turn', async () => {
  const data = scratch()
  const logs = path.join(data, 'brain', ID, '.system_generated', 'logs')
  mkdirSync(logs, { recursive: true })
  const record = (type: string, content: string) =>
    `${JSON.stringify({ type, source: 'MODEL', status: 'DONE', content })}\n`
  writeFileSync(
    path.join(logs, 'transcript.jsonl'),
    ['USER_INPUT:one', 'PLANNER_RESPONSE:old', 'USER_INPUT:two', 'PLANNER_RESPONSE:new']
      .map(line => record(...(line.split(':') as [string, string])))
      .join(''),
  )
  const { messages, result } = await run({ LOGS: `CLI app data directory: ${data}\nconversation=${ID}\n` })
  expect(result).toMatchObject({ status: 'completed', output: 'new', sessionId: ID })
  expect(texts(messages)).toBe('new')
})

test('a clean exit hides neither its own time limit nor an error of the provider', async () => {
  const timedOut = await run({ SAYS: 'Looking.\n', LOGS: 'Print mode: timed out after 600 polls\n' })
  expect(timedOut.result).toMatchObject({
    status: 'timeout',
    output: '',
    partialOutput: 'Looking.',
    failure: { kind: 'timeout', limit: 'run' },
  })
  const refused = await run({ LOGS: 'agent executor error: HTTP 429 too many requests\n' })
  expect(refused.result).toMatchObject({
    status: 'failed',
    failure: { kind: 'rate-limit', retryable: true },
  })
  expect(refused.result.error).toContain('too many requests')
  const noise = await run({ SAYS: 'ok', LOGS: 'You are not logged into Antigravity\n' })
  expect(noise.result).toMatchObject({ status: 'completed', output: 'ok' })
  const crashed = await run({ SAYS: 'half', EXITS: '3' })
  expect(crashed.result).toMatchObject({ status: 'failed', partialOutput: 'half', failure: { exitCode: 3 } })
})

test('a model that it does not list starts nothing', async () => {
  const failed = run({ SAYS: 'never' }, { model: 'Fast One' })
  await expect(failed).rejects.toMatchObject({
    code: 'invalid-option',
    message: expect.stringContaining('pick one of: fast, slow'),
  })
})
