import { describe, expectTypeOf, it } from 'vitest'
import type {
  Detection,
  ErrorCode,
  ExecuteOptions,
  Failure,
  FailureKind,
  Message,
  ModelUsage,
  Provider,
  Result,
  Run,
} from '../index.js'
import {
  AgentplugError,
  capabilities,
  checkMinVersion,
  detect,
  execute,
  minVersions,
  providers,
  setLogger,
} from '../index.js'

describe('execute', () => {
  it('takes a provider, a prompt and options', () => {
    expectTypeOf(execute).parameters.toEqualTypeOf<[Provider, string, (ExecuteOptions | undefined)?]>()
    expectTypeOf(execute).returns.toEqualTypeOf<Run>()
    // @ts-expect-error: no such provider
    execute('clippy', 'Hello')
    // @ts-expect-error: no such option
    execute('claude', 'Hello', { modle: 'opus' })
    // @ts-expect-error: milliseconds, not text
    execute('claude', 'Hello', { timeoutMs: '5s' })
  })

  it('takes options that are undefined, and readonly arrays', () => {
    const args: readonly string[] = ['--verbose']
    execute('claude', 'Hello', { cwd: undefined, extraArgs: args, env: { A: undefined }, mcpConfig: null })
    execute('openclaw', 'Hello', { openclawMode: 'gateway', signal: new AbortController().signal })
  })
})

describe('a Run', () => {
  const run = {} as Run

  it('is an async iterable of Messages and async disposable', () => {
    expectTypeOf(run).toExtend<AsyncIterableIterator<Message>>()
    expectTypeOf(run).toExtend<AsyncDisposable>()
    expectTypeOf(run[Symbol.asyncIterator]()).toExtend<AsyncIterator<Message>>()
    expectTypeOf(run.batches()).toEqualTypeOf<AsyncIterableIterator<Message[]>>()
  })

  it('has one Result', () => {
    expectTypeOf(run.result).toEqualTypeOf<Promise<Result>>()
    expectTypeOf(run.cancel).returns.toEqualTypeOf<Promise<Result>>()
    expectTypeOf(run.unref()).toEqualTypeOf<Run>()
    expectTypeOf(run.sessionId).toEqualTypeOf<string | undefined>()
  })
})

describe('Message', () => {
  it('is narrowed by its type', () => {
    const message = {} as Message
    switch (message.type) {
      case 'text':
      case 'thinking':
        expectTypeOf(message).toEqualTypeOf<Extract<Message, { type: 'text' | 'thinking' }>>()
        expectTypeOf(message.content).toEqualTypeOf<string>()
        expectTypeOf(message.parentCallId).toEqualTypeOf<string | undefined>()
        break
      case 'tool-use':
        expectTypeOf(message.tool).toEqualTypeOf<string>()
        expectTypeOf(message.callId).toEqualTypeOf<string>()
        expectTypeOf(message.input).toEqualTypeOf<unknown>()
        break
      case 'tool-result':
        expectTypeOf(message.output).toEqualTypeOf<string>()
        expectTypeOf(message.tool).toEqualTypeOf<string | undefined>()
        expectTypeOf(message.isError).toEqualTypeOf<boolean | undefined>()
        break
      case 'status':
        expectTypeOf(message.status).toEqualTypeOf<'running'>()
        expectTypeOf(message.sessionId).toEqualTypeOf<string | undefined>()
        break
      case 'error':
        expectTypeOf(message.content).toEqualTypeOf<string>()
        break
      case 'log':
        expectTypeOf(message.level).toExtend<string>()
        break
      default:
        expectTypeOf(message).toEqualTypeOf<never>()
    }
  })

  it('has no field of another type', () => {
    const message = {} as Message
    // @ts-expect-error: not every Message has content
    message.content
    if (message.type === 'text') {
      // @ts-expect-error: text is no tool call
      message.callId
    }
  })
})

describe('Result', () => {
  it('has a status, and an output that is always text', () => {
    expectTypeOf<Result['status']>().toEqualTypeOf<
      'completed' | 'failed' | 'timeout' | 'aborted' | 'cancelled'
    >()
    expectTypeOf<Result['output']>().toEqualTypeOf<string>()
    expectTypeOf<Result['partialOutput']>().toEqualTypeOf<string | undefined>()
    expectTypeOf<Result['durationMs']>().toEqualTypeOf<number>()
    expectTypeOf<Result['resumeRejected']>().toEqualTypeOf<boolean | undefined>()
    expectTypeOf<Result['usage']>().toEqualTypeOf<Record<string, ModelUsage> | undefined>()
  })

  it('names its failure', () => {
    expectTypeOf<Result['failure']>().toEqualTypeOf<Failure | undefined>()
    expectTypeOf<Failure['kind']>().toEqualTypeOf<FailureKind>()
    expectTypeOf<'rate-limit'>().toExtend<FailureKind>()
    expectTypeOf<Failure['resetAt']>().toEqualTypeOf<number | undefined>()
  })
})

describe('the rest', () => {
  it('has an error class with codes to switch on', () => {
    expectTypeOf<AgentplugError>().toExtend<Error>()
    expectTypeOf<AgentplugError['code']>().toEqualTypeOf<ErrorCode>()
    expectTypeOf<AgentplugError['option']>().toEqualTypeOf<string | undefined>()
    const error: unknown = undefined
    if (error instanceof AgentplugError) expectTypeOf(error.code).toEqualTypeOf<ErrorCode>()
  })

  it('has read-only tables', () => {
    expectTypeOf(providers).toEqualTypeOf<readonly Provider[]>()
    expectTypeOf(minVersions).toEqualTypeOf<Readonly<Partial<Record<Provider, string>>>>()
    expectTypeOf(capabilities('claude').mcpConfig).toEqualTypeOf<'none' | 'exclusive' | 'merged'>()
    // @ts-expect-error: the table is not the caller's to change
    capabilities('claude').model = false
  })

  it('detects one CLI or all', () => {
    expectTypeOf(detect('claude')).toEqualTypeOf<Promise<Detection>>()
    expectTypeOf(detect()).toEqualTypeOf<Promise<Detection[]>>()
    expectTypeOf(detect(undefined, { env: {} })).toEqualTypeOf<Promise<Detection[]>>()
    expectTypeOf(checkMinVersion).returns.toEqualTypeOf<'ok' | 'too-old' | 'unparsable'>()
  })

  it('has a logger', () => {
    setLogger('debug', ({ level, message }) => {
      expectTypeOf(level).toEqualTypeOf<'error' | 'warn' | 'info' | 'debug' | 'trace'>()
      expectTypeOf(message).toEqualTypeOf<string>()
    })
    setLogger('off')
  })
})
