/// <reference lib="es2018.asynciterable" />
/// <reference lib="esnext.disposable" />

/** The id of a coding-agent CLI. */
export type Provider =
  | 'claude'
  | 'codebuddy'
  | 'codex'
  | 'copilot'
  | 'opencode'
  | 'deveco'
  | 'openclaw'
  | 'hermes'
  | 'pi'
  | 'cursor'
  | 'kimi'
  | 'kiro'
  | 'antigravity'
  | 'qoder'
  | 'traecli'
  | 'grok'
  | 'qwen'

/** Every provider, in a fixed order. Frozen. */
export declare const providers: readonly Provider[]

/**
 * Runs a CLI once: one prompt, its Messages, its Result.
 *
 * Returns at once. What goes wrong before the CLI runs (it is not installed, it is too old, the command line
 * would be too long) rejects `run.result` and the iterator with an {@link AgentplugError}; nothing was started
 * then. Once the CLI runs, everything is a {@link Result}, and `run.result` never rejects.
 *
 * @throws {AgentplugError} when the call itself is wrong: an unknown provider, an option of the wrong type, a
 * combination that cannot work, a `cwd` that is no directory.
 *
 * @example
 * ```ts
 * const run = execute('claude', 'Fix the failing test', { cwd: '/project' })
 * for await (const message of run) {
 *   if (message.type === 'text') process.stdout.write(message.content)
 * }
 * const result = await run.result
 * ```
 */
export declare function execute(provider: Provider, prompt: string, options?: ExecuteOptions): Run

/**
 * One execution. Iterate it for the Messages, await `result` for the outcome, or do only one of the two.
 *
 * - Leaving a `for await` early (`break`, `return`, a throw), `await using`, {@link Run.cancel} and
 *   `options.signal` all stop the run: politely first, then by force, the whole process tree.
 * - All Messages come before the Result.
 * - While somebody iterates, a slow reader slows the CLI down instead of filling memory. While nobody does,
 *   unread Messages are kept up to `messageBufferBytes`; beyond it the oldest go, and the first Message read
 *   afterwards is a `log` of level `warn` that says how many.
 * - A live run keeps the process alive until its Result, unless {@link Run.unref} was called.
 */
export interface Run extends AsyncIterableIterator<Message>, AsyncDisposable {
  readonly provider: Provider
  /** A UUID; the CLI's process and its descendants carry it in their environment as `AGENTPLUG_RUN_ID`. */
  readonly runId: string
  /** The CLI's own session id, as soon as it tells it. Hand it to `resumeSessionId` to go on. */
  readonly sessionId: string | undefined
  /** The outcome. Rejects only with an {@link AgentplugError}, and only when the CLI was never started. */
  readonly result: Promise<Result>
  /** Stops the run and waits for its end. Safe at any time and any number of times. */
  cancel(): Promise<Result>
  /**
   * The same Messages in arrays of whatever has arrived: the cheap way for a busy consumer. Use either this or
   * the run itself.
   */
  batches(): AsyncIterableIterator<Message[]>
  /** Lets the process end although this run is still going. Gives the run itself. */
  unref(): this
  next(): Promise<IteratorResult<Message, undefined>>
  return(value?: unknown): Promise<IteratorResult<Message, undefined>>
  throw(error?: unknown): Promise<IteratorResult<Message, undefined>>
  [Symbol.asyncIterator](): this
}

/** A live event of a run. Narrow it by `type`. What a CLI does not tell is absent; nothing is invented. */
export type Message =
  | TextMessage
  | ThinkingMessage
  | ToolUseMessage
  | ToolResultMessage
  | StatusMessage
  | ErrorMessage
  | LogMessage

/** Text of the assistant: a piece of it where the CLI streams, else a block. */
export interface TextMessage {
  type: 'text'
  content: string
  /** The tool call whose sub-agent said this. */
  parentCallId?: string
}

/** Reasoning that the CLI shows: a piece of it where the CLI streams, else a block. */
export interface ThinkingMessage {
  type: 'thinking'
  content: string
  /** The tool call whose sub-agent thought this. */
  parentCallId?: string
}

/** A tool call starts. */
export interface ToolUseMessage {
  type: 'tool-use'
  /** The name the CLI gives the tool. */
  tool: string
  /** Pairs the call with its `tool-result`. */
  callId: string
  /** The arguments, parsed from the CLI's JSON. Their shape is the tool's. */
  input?: unknown
  /** The tool call whose sub-agent made this one. */
  parentCallId?: string
}

/** A tool call ended. */
export interface ToolResultMessage {
  type: 'tool-result'
  callId: string
  tool?: string
  /** Plain text where the CLI gives text, else JSON. */
  output: string
  isError?: boolean
  /** The tool call whose sub-agent made this one. */
  parentCallId?: string
}

/** The CLI works. Sent as soon as the session id is known, and again only if that changes. */
export interface StatusMessage {
  type: 'status'
  status: 'running'
  sessionId?: string
}

/** An error the CLI reported as such during the run. Whether the run failed is for the Result to say. */
export interface ErrorMessage {
  type: 'error'
  content: string
}

/** Diagnostics: notices of the CLI (a retry, for example) and lines on its stdout that are none of its events. */
export interface LogMessage {
  type: 'log'
  level: 'debug' | 'info' | 'warn' | 'error'
  content: string
}

/** The code of an {@link AgentplugError}. Stable; safe to switch on. */
export type ErrorCode =
  /** The provider is none of {@link providers}. */
  | 'unknown-provider'
  /** An option has the wrong type or value, or does not go with another one; see `option`. */
  | 'invalid-option'
  /** The prompt is no string, or one this CLI cannot take. */
  | 'invalid-prompt'
  /** `cwd` does not exist or is no directory. */
  | 'invalid-cwd'
  /** `mcpConfig` is no JSON object. */
  | 'invalid-mcp-config'
  /** The CLI is not installed, or not where the caller said. The message lists where it was looked for. */
  | 'executable-not-found'
  /** A Windows launcher script that only a shell could start, which would read its arguments again. */
  | 'unsupported-launcher'
  /** The installed CLI is older than {@link minVersions} asks for. */
  | 'version-too-old'
  /** The command line would exceed what the system takes. */
  | 'prompt-too-long'
  /** The CLI refuses to run with these privileges. */
  | 'permission-denied'
  /** The system could not start the process. */
  | 'spawn-failed'
  /** A file that the run needs could not be written or read. */
  | 'io'
  /** This CLI or this system cannot do what was asked. */
  | 'unsupported'
  /** A fault of agentplug itself. */
  | 'internal'

/**
 * Something is wrong with a call, or kept its CLI from being started. Its message says what, where and what to
 * do, and never holds the environment, the prompt or a secret.
 */
export declare class AgentplugError extends Error {
  readonly name: 'AgentplugError'
  readonly code: ErrorCode
  /** The option at fault, where one is. */
  readonly option?: string
}

/**
 * Which options a provider uses and what its CLI tells. The README has the table of all of them.
 * @throws {AgentplugError} `unknown-provider`
 */
export declare function capabilities(provider: Provider): Readonly<Capabilities>

/** The oldest version of each CLI that can be driven. A provider that is absent takes any version. Frozen. */
export declare const minVersions: Readonly<Partial<Record<Provider, string>>>

/** Where {@link detect} looks; as in {@link ExecuteOptions}. */
export type DetectOptions = Pick<ExecuteOptions, 'executablePath' | 'launchPrefix' | 'env'>

/**
 * Looks for an installed CLI and asks it for its version, which later runs of it then know without asking.
 * Never rejects because a CLI is missing or broken; that is what the answer says.
 *
 * @throws {AgentplugError} (as a rejection) when the call itself is wrong.
 */
export declare function detect(provider: Provider, options?: DetectOptions): Promise<Detection>
/** The same for every provider, in the order of {@link providers}. */
export declare function detect(provider?: undefined, options?: DetectOptions): Promise<Detection[]>

/**
 * Compares a version, or any text that holds one (`codex-cli 0.171.0`), with the provider's minimum. A provider
 * without a minimum takes any text. `unparsable` is no proof of an old version.
 *
 * @throws {AgentplugError} for an unknown provider.
 */
export declare function checkMinVersion(provider: Provider, version: string): 'ok' | 'too-old' | 'unparsable'

/**
 * What a run of the provider starts, in a few words for people: the command and subcommand that `extraArgs` and
 * `customArgs` are added to. Empty for an unknown provider.
 */
export declare function launchHeader(provider: Provider): string

/** The text with keys, tokens and credentials in URLs replaced, as in each error of a Result. */
export declare function redact(text: string): string

export type LogLevel = 'off' | 'error' | 'warn' | 'info' | 'debug' | 'trace'

/** A line about what agentplug itself does: starts, stops, limits. Redacted; never holds a prompt. */
export interface LogRecord {
  level: Exclude<LogLevel, 'off'>
  message: string
}

/**
 * Sends agentplug's own log lines of this level and above to a callback; nothing is logged without one. One per
 * thread: the last call counts, and `off` or no callback removes it. Lines are dropped rather than holding up a
 * run, and a callback that throws is removed with a warning of the process.
 * @throws {AgentplugError} `invalid-option`
 */
export declare function setLogger(level: LogLevel, callback?: ((record: LogRecord) => void) | null): void
