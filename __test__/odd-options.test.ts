import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { type ExecuteOptions, execute } from '../index.js'
import { alive, HELLO, SESSION, scratch, standIn, started } from './stand-in/run.js'

test('what a library put on Object.prototype is neither an option nor a variable', async () => {
  Object.defineProperty(Object.prototype, 'polluted', {
    value() {},
    enumerable: true,
    configurable: true,
    writable: true,
  })
  try {
    const { run } = standIn('pi', HELLO, { env: { MINE: 'yes' } })
    expect(await run.result).toMatchObject({ status: 'completed' })
  } finally {
    // biome-ignore lint/suspicious/noExplicitAny: put there above
    delete (Object.prototype as any).polluted
  }
})

test('inherited options count, with MCP servers as well as without', async () => {
  const defaults: ExecuteOptions = { signal: AbortSignal.abort(), executablePath: '/no/such/cli' }
  for (const own of [{}, { mcpConfig: { mcpServers: {} } }]) {
    const run = execute('pi', 'x', Object.assign(Object.create(defaults), own))
    expect(await run.result).toMatchObject({ status: 'aborted' })
    const other = execute('pi', 'x', Object.assign(Object.create(defaults), own, { signal: undefined }))
    await expect(other.result).rejects.toMatchObject({ code: 'executable-not-found' })
  }
})

test('symbols, null prototypes and proxies are options like any others', async () => {
  const base: ExecuteOptions = { executablePath: '/no/such/cli' }
  for (const options of [
    { ...base, [Symbol('mine')]: 1 },
    Object.assign(Object.create(null), base),
    new Proxy(base, {}),
  ]) {
    await expect(execute('pi', 'x', options).result).rejects.toMatchObject({ code: 'executable-not-found' })
  }
})

test('what a getter throws comes out of the call', () => {
  const thrown = new TypeError('mine')
  const options = {
    get model(): string {
      throw thrown
    },
  }
  expect(() => execute('pi', 'x', options)).toThrow(thrown)
})

test('an endless grace is no missing one', async () => {
  const folder = scratch()
  const mark = path.join(folder, 'cleaned')
  const cli = path.join(folder, 'cli')
  writeFileSync(
    cli,
    `#!/bin/sh\ntrap 'sleep 0.3; echo > ${mark}; exit 0' TERM\necho '{"up":1}'\nwhile :; do sleep 0.05; done\n`,
    { mode: 0o755 },
  )
  const run = execute('pi', 'x', { executablePath: cli, cancelGraceMs: Number.POSITIVE_INFINITY })
  await run.next()
  expect(await run.cancel()).toMatchObject({ status: 'aborted' })
  expect(readFileSync(mark, 'utf8')).toBe('\n')
})

test('endless limits are limits that never fire', async () => {
  const endless = Number.POSITIVE_INFINITY
  for (const provider of ['pi', 'codex', 'kimi'] as const) {
    const { run } = standIn(provider, HELLO, {
      timeoutMs: endless,
      idleTimeoutMs: 1e308,
      toolTimeoutMs: endless,
      semanticInactivityTimeoutMs: endless,
      firstTurnTimeoutMs: endless,
      handshakeTimeoutMs: endless,
    })
    expect(await run.result).toMatchObject({ status: 'completed' })
  }
})

test('half a character in the prompt or an option becomes a replacement character', async () => {
  const { run, notes } = standIn('pi', HELLO, { env: { HALF: 'a\ud800' } }, 'x\udc00y')
  expect(await run.result).toMatchObject({ status: 'completed' })
  expect(JSON.stringify(notes())).toContain('x\ufffdy')
})

test('a variable that JavaScript set reaches the CLI, and one it deleted does not', async () => {
  process.env.SET_BY_JAVASCRIPT = 'yes'
  try {
    const { run, notes } = standIn('pi', [SESSION, { env: true }, ...HELLO.slice(1)])
    await started(notes)
    await run.result
    expect(notes().find(n => 'env' in n)?.env).toMatchObject({ SET_BY_JAVASCRIPT: 'yes' })
    expect(alive(notes()[0]!.started as number)).toBe(false)
  } finally {
    delete process.env.SET_BY_JAVASCRIPT
  }
  const { run, notes } = standIn('pi', [SESSION, { env: true }, ...HELLO.slice(1)])
  await run.result
  expect(notes().find(n => 'env' in n)?.env).not.toHaveProperty('SET_BY_JAVASCRIPT')
})

test.skipIf(process.platform !== 'linux')(
  'a command line that only the system can measure is still told as too long',
  async () => {
    const { run } = standIn('pi', HELLO, {
      customArgs: Array.from({ length: 40 }, () => `--x=${'x'.repeat(130_000)}`),
    })
    await expect(run.result).rejects.toMatchObject({ code: 'prompt-too-long' })
  },
)
