'use strict'

const { loadBinding } = require('./binding.js')

const native = loadBinding()

/** Messages handed out in one turn of the event loop over all runs, so that busy runs leave it air. */
const TURN_BUDGET = 512
const DRAIN_MESSAGES = 512
const DRAIN_BYTES = 256 * 1024
/** The longest delay a timer takes: its only purpose is to keep the event loop alive. */
const FOREVER_MS = 2 ** 31 - 1

class AgentplugError extends Error {
  constructor({ code, message, option }) {
    super(message)
    this.code = code
    if (option !== undefined) this.option = option
  }
}
Object.defineProperty(AgentplugError.prototype, 'name', {
  value: 'AgentplugError',
  configurable: true,
  writable: true,
})

// One per environment: this file is loaded once in each worker and each window.
const environment = native.openEnvironment()
process.once('exit', () => native.killAll(environment))

// ---- one budget of messages per loop turn, shared by all runs -------------------------------------------

let credit = TURN_BUDGET
let refillScheduled = false
/** Runs with a waiting reader that found the budget used up. */
const starved = new Set()

function spend(count) {
  credit -= count
  if (refillScheduled) return
  refillScheduled = true
  setImmediate(refill)
}

function refill() {
  refillScheduled = false
  credit = TURN_BUDGET
  for (const source of [...starved]) {
    starved.delete(source)
    source.wake(false)
  }
}

// ---- messages --------------------------------------------------------------------------------------------

/** Turns what the core drained into Messages; the layout is described in src/node/encode.rs. */
function decode(flat) {
  const kinds = flat[0]
  const messages = new Array(kinds.length)
  let at = 1
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds.charCodeAt(i)
    switch (kind) {
      case 116: // t
        messages[i] = { type: 'text', content: flat[at++] }
        break
      case 104: // h
        messages[i] = { type: 'thinking', content: flat[at++] }
        break
      case 84: // T
        messages[i] = { type: 'text', content: flat[at++], parentCallId: flat[at++] }
        break
      case 72: // H
        messages[i] = { type: 'thinking', content: flat[at++], parentCallId: flat[at++] }
        break
      case 117: // u
      case 85: {
        // U
        const message = { type: 'tool-use', tool: flat[at++], callId: flat[at++] }
        const input = flat[at++]
        if (input !== undefined) message.input = JSON.parse(input)
        if (kind === 85) message.parentCallId = flat[at++]
        messages[i] = message
        break
      }
      case 114: // r
      case 82: {
        // R
        const message = { type: 'tool-result', callId: flat[at++] }
        const tool = flat[at++]
        if (tool !== undefined) message.tool = tool
        message.output = flat[at++]
        const isError = flat[at++]
        if (isError !== undefined) message.isError = isError
        if (kind === 82) message.parentCallId = flat[at++]
        messages[i] = message
        break
      }
      case 115: {
        // s
        const message = { type: 'status', status: flat[at++] }
        const sessionId = flat[at++]
        if (sessionId !== undefined) message.sessionId = sessionId
        messages[i] = message
        break
      }
      case 101: // e
        messages[i] = { type: 'error', content: flat[at++] }
        break
      case 108: // l
        messages[i] = { type: 'log', level: flat[at++], content: flat[at++] }
        break
      default:
        throw new Error(`unknown message kind ${kinds[i]}; index.js and the binary are of different versions`)
    }
  }
  return messages
}

const END = Object.freeze({ value: undefined, done: true })

/** Messages of one run for its readers: one pull at a time, overlapping ones wait in line. */
class Source {
  #native
  #settle
  #waiting = []
  /** Messages drained but not handed out yet. */
  #batch = []
  #head = 0
  #ended = false
  #discarded = false
  #error

  constructor(settle) {
    this.#settle = settle
  }

  open(nativeRun) {
    this.#native = nativeRun
  }

  /** From the core: there may be something; `ended` = the run is over. */
  wake(ended) {
    if (ended) this.#settle()
    this.#flush()
  }

  /** The readers that come get this error once, then the end. */
  fail(error) {
    if (!this.#discarded) this.#error = { error }
  }

  next(whole) {
    // The common case, without the line: a message is at hand.
    if (!whole && this.#waiting.length === 0 && this.#head < this.#batch.length) {
      return Promise.resolve({ value: this.#batch[this.#head++], done: false })
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ whole, resolve, reject })
      if (this.#waiting.length === 1) this.#flush()
    })
  }

  /** Hands nothing more out; readers in line get the end. */
  discard() {
    this.#batch = []
    this.#head = 0
    this.#ended = true
    this.#discarded = true
    this.#error = undefined
    this.#flush()
  }

  #flush() {
    while (this.#waiting.length > 0) {
      if (this.#head === this.#batch.length && !this.#fill()) return
      const { whole, resolve, reject } = this.#waiting.shift()
      if (this.#head < this.#batch.length) {
        const value = whole ? this.#rest() : this.#batch[this.#head++]
        resolve({ value, done: false })
      } else if (this.#error) {
        const { error } = this.#error
        this.#error = undefined
        reject(error)
      } else {
        resolve(END)
      }
    }
  }

  #rest() {
    const messages = this.#head === 0 ? this.#batch : this.#batch.slice(this.#head)
    this.#batch = []
    this.#head = 0
    return messages
  }

  /** false = nothing to be had now; a wake follows. */
  #fill() {
    if (this.#ended || !this.#native) return this.#ended
    if (credit <= 0) {
      starved.add(this)
      return false
    }
    const flat = this.#native.drain(DRAIN_MESSAGES, DRAIN_BYTES)
    if (flat === null) return false
    if (flat === undefined) {
      this.#ended = true
      this.#settle()
      return true
    }
    this.#batch = decode(flat)
    this.#head = 0
    spend(this.#batch.length)
    return true
  }
}

// ---- runs ------------------------------------------------------------------------------------------------

class Run {
  #native
  #source
  #result = withResolvers()
  #settled = false
  #keepAlive
  #signal
  #onAbort

  constructor(provider, prompt, options) {
    const signal = checkedSignal(options)
    this.provider = provider
    // One of iterator and result may go unused; its rejection must not end the process.
    this.#result.promise.catch(() => {})
    this.#source = new Source(() => this.#settle())
    const wake = ended => this.#source.wake(ended)
    const started = native.start(
      environment,
      provider,
      prompt,
      options,
      mcpJson(options),
      process.env,
      signal?.aborted === true,
      wake,
    )
    if (typeof started === 'string') throw new AgentplugError(JSON.parse(started))
    this.#native = started
    this.runId = started.runId
    this.#source.open(started)
    this.#keepAlive = setInterval(() => {}, FOREVER_MS)
    if (signal && !signal.aborted) {
      this.#signal = signal
      this.#onAbort = () => this.#native.cancel()
      signal.addEventListener('abort', this.#onAbort, { once: true })
    }
  }

  get sessionId() {
    return this.#native.sessionId ?? undefined
  }

  get result() {
    return this.#result.promise
  }

  cancel() {
    this.#native.cancel()
    return this.#result.promise
  }

  next() {
    return this.#source.next(false)
  }

  async return(value) {
    await this.#stop()
    return { value, done: true }
  }

  async throw(error) {
    await this.#stop()
    throw error
  }

  batches() {
    return {
      next: () => this.#source.next(true),
      return: value => this.return(value),
      throw: error => this.throw(error),
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  unref() {
    this.#keepAlive.unref()
    return this
  }

  [Symbol.asyncIterator]() {
    return this
  }

  async #stop() {
    this.#native.cancel()
    this.#source.discard()
    // A run that never started has an error instead; who left the loop does not want it.
    await this.#result.promise.catch(() => {})
  }

  #settle() {
    if (this.#settled) return
    const end = this.#native?.end()
    if (typeof end !== 'string') return
    this.#settled = true
    clearInterval(this.#keepAlive)
    this.#signal?.removeEventListener('abort', this.#onAbort)
    const { result, error } = JSON.parse(end)
    if (error) {
      const failure = new AgentplugError(error)
      this.#source.fail(failure)
      this.#result.reject(failure)
    } else {
      this.#result.resolve(result)
    }
  }
}

// Node 20 knows the symbol but the language does not yet.
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')
Object.defineProperty(Run.prototype, asyncDispose, {
  async value() {
    await this.return()
  },
  configurable: true,
  writable: true,
})

function withResolvers() {
  let resolve
  let reject
  const promise = new Promise((ok, fail) => {
    resolve = ok
    reject = fail
  })
  return { promise, resolve, reject }
}

// ---- options ---------------------------------------------------------------------------------------------

const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value)

function checkedSignal(options) {
  const signal = isObject(options) ? options.signal : undefined
  if (signal === undefined || signal === null) return undefined
  if (
    typeof signal === 'object' &&
    typeof signal.aborted === 'boolean' &&
    typeof signal.addEventListener === 'function' &&
    typeof signal.removeEventListener === 'function'
  ) {
    return signal
  }
  throw new AgentplugError({
    code: 'invalid-option',
    message: `option signal must be an AbortSignal, got ${signal === null ? 'null' : `a value of type ${typeof signal}`}`,
    option: 'signal',
  })
}

/** The core takes MCP servers as JSON text. Everything else it checks itself. */
function mcpJson(options) {
  const value = isObject(options) ? options.mcpConfig : undefined
  if (typeof value !== 'object' || value === null) return undefined
  try {
    return JSON.stringify(value)
  } catch (cause) {
    const error = new AgentplugError({
      code: 'invalid-option',
      message: 'option mcpConfig cannot be written as JSON',
      option: 'mcpConfig',
    })
    error.cause = cause
    throw error
  }
}

// ---- beside execute --------------------------------------------------------------------------------------

const providers = Object.freeze(native.providerIds())
const minVersions = Object.freeze(Object.fromEntries(native.providerMinVersions()))

/** A value out of the core's JSON envelope, or its error thrown. */
function unwrap(json) {
  const { ok, error } = JSON.parse(json)
  if (error) throw new AgentplugError(error)
  return ok
}

function text(value, name) {
  if (typeof value === 'string') return value
  throw new AgentplugError({
    code: 'invalid-option',
    message: `${name} must be a string, got ${value === null ? 'null' : `a value of type ${typeof value}`}`,
    option: name,
  })
}

function execute(provider, prompt, options) {
  return new Run(provider, prompt, options)
}

function capabilities(provider) {
  return Object.freeze(unwrap(native.providerCapabilities(text(provider, 'provider'))))
}

function detect(provider, options) {
  return new Promise((resolve, reject) => {
    const wrong = native.detectInstalled(provider, options, process.env, found => {
      const detections = JSON.parse(found)
      resolve(provider === undefined || provider === null ? detections : detections[0])
    })
    if (wrong) reject(new AgentplugError(JSON.parse(wrong)))
  })
}

function checkMinVersion(provider, version) {
  const outcome = native.compareMinVersion(text(provider, 'provider'), text(version, 'version'))
  // Throws for an unknown provider.
  return outcome ?? capabilities(provider)
}

function launchHeader(provider) {
  return native.providerLaunchHeader(text(provider, 'provider')) ?? ''
}

function redact(value) {
  return native.redactText(text(value, 'text'))
}

function setLogger(level, callback) {
  if (callback !== undefined && callback !== null && typeof callback !== 'function') {
    throw new AgentplugError({
      code: 'invalid-option',
      message: `callback must be a function, got a value of type ${typeof callback}`,
      option: 'callback',
    })
  }
  const forward =
    callback &&
    ((at, message) => {
      try {
        callback({ level: at, message })
      } catch (error) {
        // A throwing logger must not end the process; it is told once and let go.
        native.setLogger(environment, 'off')
        process.emitWarning(`the callback of setLogger threw and was removed: ${error}`, 'AgentplugWarning')
      }
    })
  if (!native.setLogger(environment, text(level, 'level'), forward ?? undefined)) {
    throw new AgentplugError({
      code: 'invalid-option',
      message: `level must be one of off, error, warn, info, debug, trace, got "${level}"`,
      option: 'level',
    })
  }
}

module.exports = {
  AgentplugError,
  capabilities,
  checkMinVersion,
  detect,
  execute,
  launchHeader,
  minVersions,
  providers,
  redact,
  setLogger,
}
