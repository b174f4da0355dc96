import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { type ExecuteOptions, execute } from '../index.js'
import { collect, scratch } from './stand-in/run.js'

// A codex whose first start goes wrong in the way FAULT names. What it was asked goes to asked.jsonl.
const SERVER = `
import { appendFileSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
let attempt = 1
try {
  attempt = readFileSync('attempts', 'utf8').length + 1
} catch {}
appendFileSync('attempts', '.')
const say = frame => process.stdout.write(JSON.stringify(frame) + '\\n')
createInterface({ input: process.stdin }).on('line', line => {
  const { id, method, params } = JSON.parse(line)
  appendFileSync('asked.jsonl', JSON.stringify({ attempt, method, params }) + '\\n')
  if (process.env.FAULT === 'initialize' && attempt === 1) return
  if (method === 'initialize') say({ id, result: { userAgent: 'x/0.171.0 (y)' } })
  if (method === 'thread/resume') say({ id, result: { thread: { id: params.threadId } } })
  if (method === 'thread/start') say({ id, result: { thread: { id: 'T9' } } })
  if (method !== 'turn/start') return
  const threadId = params.threadId
  const turn = { id: 'U' + attempt }
  say({ id, result: { turn } })
  say({ method: 'turn/started', params: { threadId, turn } })
  if (process.env.FAULT === 'catalog' && attempt === 1) {
    process.stderr.write('ERROR failed to refresh available models: timeout\\n')
    return
  }
  const item = { type: 'agentMessage', id: 'm', text: 'Hello' }
  say({ method: 'item/completed', params: { threadId, turnId: turn.id, item } })
  say({ method: 'turn/completed', params: { threadId, turn: { ...turn, status: 'completed' } } })
})
`

async function run(fault: string, options: ExecuteOptions) {
  const folder = scratch()
  const server = path.join(folder, 'server.mjs')
  writeFileSync(server, SERVER)
  const started = execute('codex', 'Hi', {
    cwd: folder,
    executablePath: process.execPath,
    launchPrefix: [server],
    resumeSessionId: 'T1',
    resumeContinuityNotice: 'You forgot. ',
    ...options,
    env: { HOME: folder, USERPROFILE: folder, FAULT: fault },
  })
  const messages = await collect(started)
  const asked = readFileSync(path.join(folder, 'asked.jsonl'), 'utf8').trim().split('\n')
  return {
    messages: messages.filter(m => m.type !== 'log'),
    result: await started.result,
    asked: asked.map(line => JSON.parse(line)) as {
      attempt: number
      method: string
      params: { input: { text: string }[] }
    }[],
  }
}

test('after a model catalog that could not be loaded, a new thread gets the prompt', async () => {
  const { messages, result, asked } = await run('catalog', { firstTurnTimeoutMs: 500 })
  expect(messages).toEqual([
    { type: 'status', status: 'running', sessionId: 'T9' },
    { type: 'text', content: 'Hello' },
  ])
  expect(result).toMatchObject({ status: 'completed', output: 'Hello', sessionId: 'T9' })
  const second = asked.filter(a => a.attempt === 2)
  expect(second.map(a => a.method)).toEqual(['initialize', 'initialized', 'thread/start', 'turn/start'])
  expect(second[3]?.params.input[0]?.text).toBe('You forgot. Hi')
})

test('after a silent handshake, the second start resumes the same thread', async () => {
  const { messages, result, asked } = await run('initialize', { handshakeTimeoutMs: 4000 })
  expect(messages).toEqual([
    { type: 'status', status: 'running', sessionId: 'T1' },
    { type: 'text', content: 'Hello' },
  ])
  expect(result).toMatchObject({ status: 'completed', sessionId: 'T1', resumeRejected: false })
  expect(asked.map(a => `${a.attempt} ${a.method}`)).toEqual([
    '1 initialize',
    '2 initialize',
    '2 initialized',
    '2 thread/resume',
    '2 turn/start',
  ])
  expect(asked[4]?.params.input[0]?.text).toBe('Hi')
})
