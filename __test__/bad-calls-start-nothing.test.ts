import { readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { AgentplugError, capabilities, execute, launchHeader, providers, setLogger } from '../index.js'
import { HELLO, scratch, standIn } from './stand-in/run.js'

// biome-ignore lint/suspicious/noExplicitAny: wrong types are the point
const call = (...args: any[]) => {
  try {
    // biome-ignore lint/suspicious/noExplicitAny: as above
    ;(execute as any)(...args)
  } catch (error) {
    return error
  }
  throw new Error('the call was accepted')
}

test.each([
  ['unknown provider', ['nope', 'x'], 'unknown-provider', undefined, 'known providers: '],
  ['provider of another type', [7, 'x'], 'unknown-provider', undefined, 'got the number 7'],
  ['prompt of another type', ['pi', { a: 1 }], 'invalid-prompt', 'prompt', 'got an object'],
  ['empty prompt', ['pi', ' \n'], 'invalid-prompt', 'prompt', 'must not be empty'],
  ['NUL in the prompt', ['pi', 'a\0b'], 'invalid-prompt', 'prompt', 'offset 1'],
  ['options of another type', ['pi', 'x', 'y'], 'invalid-option', 'options', 'got a string'],
  ['an array for options', ['pi', 'x', []], 'invalid-option', 'options', 'got an array'],
  ['an unknown option', ['pi', 'x', { timeout: 1 }], 'invalid-option', 'timeout', 'did you mean timeoutMs'],
  ['a negative limit', ['pi', 'x', { timeoutMs: -1 }], 'invalid-option', 'timeoutMs', 'got the number -1'],
  ['NaN for a limit', ['pi', 'x', { idleTimeoutMs: Number.NaN }], 'invalid-option', 'idleTimeoutMs', 'NaN'],
  ['a limit as text', ['pi', 'x', { toolTimeoutMs: '5' }], 'invalid-option', 'toolTimeoutMs', 'got a string'],
  ['half a turn', ['pi', 'x', { maxTurns: 0.5 }], 'invalid-option', 'maxTurns', 'whole number'],
  ['a number for a string', ['pi', 'x', { model: 5 }], 'invalid-option', 'model', 'got the number 5'],
  ['NUL in an option', ['pi', 'x', { model: 'a\0' }], 'invalid-option', 'model', 'NUL'],
  [
    'a string for a list',
    ['pi', 'x', { customArgs: '-v' }],
    'invalid-option',
    'customArgs',
    'array of strings',
  ],
  ['a number in a list', ['pi', 'x', { extraArgs: ['a', 1] }], 'invalid-option', 'extraArgs', 'extraArgs[1]'],
  [
    'text for a boolean',
    ['pi', 'x', { resumeExpected: 'yes' }],
    'invalid-option',
    'resumeExpected',
    'boolean',
  ],
  ['a number in env', ['pi', 'x', { env: { A: 1 } }], 'invalid-option', 'env', 'env.A'],
  ['a list for env', ['pi', 'x', { env: [] }], 'invalid-option', 'env', 'got an array'],
  [
    'an impossible env name',
    ['pi', 'x', { env: { 'A=B': 'c' } }],
    'invalid-option',
    'env',
    'environment variable',
  ],
  [
    'a number for mcpConfig',
    ['pi', 'x', { mcpConfig: 5 }],
    'invalid-option',
    'mcpConfig',
    'got the number 5',
  ],
  ['no signal', ['pi', 'x', { signal: {} }], 'invalid-option', 'signal', 'AbortSignal'],
  [
    'a signal that cannot be let go',
    ['pi', 'x', { signal: { aborted: false, addEventListener() {} } }],
    'invalid-option',
    'signal',
    'AbortSignal',
  ],
  [
    'a relative executable',
    ['pi', 'x', { executablePath: 'bin/pi' }],
    'invalid-option',
    'executablePath',
    'absolute',
  ],
  [
    'a cwd that is not there',
    ['pi', 'x', { cwd: '/no/such/folder' }],
    'invalid-cwd',
    'cwd',
    '/no/such/folder',
  ],
  ['a cwd inside an archive', ['pi', 'x', { cwd: '/opt/app.asar/dist' }], 'invalid-cwd', 'cwd', '.asar'],
])('%s', (_, args, code, option, says) => {
  const error = call(...args)
  expect(error).toBeInstanceOf(AgentplugError)
  expect(error).toBeInstanceOf(Error)
  expect(error).toMatchObject({ name: 'AgentplugError', code })
  expect((error as AgentplugError).option).toBe(option)
  expect((error as Error).message).toContain(says)
})

test('a cwd that is a file', () => {
  const file = path.join(scratch(), 'file')
  writeFileSync(file, '')
  expect(call('pi', 'x', { cwd: file })).toMatchObject({ code: 'invalid-cwd', option: 'cwd' })
})

test('a value that may be a secret is never in the error', () => {
  const error = call('pi', 'x', { env: { TOKEN: { value: 's3cret' } }, mcpConfig: 's3cret' }) as Error
  expect(error.message).not.toContain('s3cret')
})

test('a circular mcpConfig', () => {
  const mcpConfig: Record<string, unknown> = {}
  mcpConfig.self = mcpConfig
  expect(call('pi', 'x', { mcpConfig })).toMatchObject({ code: 'invalid-option', option: 'mcpConfig' })
})

test.each(providers)('%s: MCP text that is no JSON object rejects and leaves no file', async provider => {
  for (const mcpConfig of ['{"mcpServers": s3cret', '[1]', '"text"']) {
    const { run, notes, folder } = standIn(provider, HELLO, { mcpConfig })
    const error = await run.result.catch(e => e)
    expect(error).toMatchObject({ name: 'AgentplugError', code: 'invalid-mcp-config', option: 'mcpConfig' })
    expect(error.message).not.toContain('s3cret')
    expect(notes()).toEqual([])
    expect(readdirSync(folder)).toEqual([])
  }
})

test('the other functions check their arguments too', () => {
  // biome-ignore lint/suspicious/noExplicitAny: wrong types are the point
  const any = (value: unknown) => value as any
  expect(() => capabilities(any('nope'))).toThrow(expect.objectContaining({ code: 'unknown-provider' }))
  expect(() => capabilities(any(5))).toThrow(expect.objectContaining({ code: 'invalid-option' }))
  expect(() => setLogger(any('loud'), () => {})).toThrow(expect.objectContaining({ option: 'level' }))
  expect(() => setLogger('info', any('x'))).toThrow(expect.objectContaining({ option: 'callback' }))
  expect(launchHeader(any('nope'))).toBe('')
})
