// What must hold of a run. Each check gives undefined when it holds and a sentence when it does not.
import { USAGE } from '../model/scenarios.mjs'
import { textOf, turnRequests } from './observe.mjs'

const short = value => {
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value)
  return text.length > 160 ? `${text.slice(0, 160)}…` : text
}

const toolUses = seen => seen.messages.filter(message => message.type === 'tool-use')
const toolResults = seen => seen.messages.filter(message => message.type === 'tool-result')

/** Holds of every run, whatever happened in it. */
export const ALWAYS = {
  'one-result': ({ result, results, thrown, refused }) => {
    if (refused) return undefined
    if (thrown) return `it threw ${thrown.code ?? ''} ${thrown.message}`
    if (!result) return 'there is no Result'
    return results.length === 1 ? undefined : `the Result settled ${results.length} times`
  },
  'messages-first': ({ late }) => (late === 0 ? undefined : `${late} Messages came after the Result`),
  'honest-output': ({ result }) => {
    if (!result || result.status === 'completed') return undefined
    if (result.output !== '') return `status ${result.status} with output ${short(result.output)}`
    return result.error ? undefined : `status ${result.status} without an error text`
  },
  'failure-kind': ({ result }) => {
    if (!result) return undefined
    const has = result.failure !== undefined
    const wants = result.status === 'failed' || result.status === 'timeout'
    return has === wants ? undefined : `status ${result.status} ${has ? 'with' : 'without'} a failure`
  },
  'session-id': ({ result, sessionId, messages }) => {
    if (result?.sessionId === undefined) return undefined
    if (sessionId !== result.sessionId)
      return `run.sessionId is ${sessionId}, the Result says ${result.sessionId}`
    const told = messages.filter(message => message.type === 'status').map(message => message.sessionId)
    if (told.length === 0) return 'no status Message came'
    return told.length === new Set(told).size
      ? undefined
      : `the same status came again (${told.length} in all)`
  },
  'tool-pairs': ({ messages, result }) => {
    const open = new Map()
    for (const message of messages) {
      if (message.type === 'tool-use') {
        if (open.has(message.callId)) return `call ${message.callId} started twice`
        open.set(message.callId, false)
      } else if (message.type === 'tool-result') {
        if (!open.has(message.callId)) return `a result for ${message.callId}, which never started`
        if (open.get(message.callId)) return `a second result for ${message.callId}`
        open.set(message.callId, true)
      }
    }
    const unanswered = [...open.values()].filter(answered => !answered).length
    return result?.status === 'completed' && unanswered > 0
      ? `${unanswered} calls without a result`
      : undefined
  },
  'no-empty-text': ({ messages }) => {
    const empty = messages.filter(m => (m.type === 'text' || m.type === 'thinking') && m.content === '')
    return empty.length === 0 ? undefined : `${empty.length} empty pieces of text`
  },
  'no-process-left': ({ leftProcesses }) =>
    !leftProcesses?.length ? undefined : `still alive: ${leftProcesses.join('; ')}`,
  'no-temp-left': ({ leftTemps }) =>
    leftTemps.length === 0 ? undefined : `left in temp: ${leftTemps.join(', ')}`,
}

// ---- checks a scenario names, some made for it

export const status =
  (...wanted) =>
  ({ result }) =>
    wanted.includes(result?.status)
      ? undefined
      : `status ${result?.status} (${short(result?.error ?? '')}), not ${wanted.join(' or ')}`

/** The answer, exactly. */
export const output =
  wanted =>
  ({ result }) =>
    result?.output.trim() === wanted.trim()
      ? undefined
      : `output is ${short(result?.output)}, not ${short(wanted)}`

const squeezed = text => text.replace(/\s+/g, ' ').trim()

/** All pieces of text together say this and say it once; white space between blocks is the CLI's own. */
export const text =
  (wanted, type = 'text') =>
  seen =>
    squeezed(textOf(seen, type)) === squeezed(wanted)
      ? undefined
      : `${type} Messages say ${short(textOf(seen, type))}, not ${short(wanted)}`

/** Each call: what was run, and a word that its output must hold. */
export const tools =
  (...wanted) =>
  seen => {
    const uses = toolUses(seen)
    if (uses.length !== wanted.length) return `${uses.length} tool-use Messages, not ${wanted.length}`
    for (const { command, output: word, isError } of wanted) {
      const use = uses.find(each => JSON.stringify(each.input ?? '').includes(command))
      if (!use)
        return `no tool-use with ${command} in its input: ${short(JSON.stringify(uses.map(each => each.input)))}`
      const result = toolResults(seen).find(each => each.callId === use.callId)
      if (!result?.output.includes(word)) return `the output of ${command} is ${short(result?.output)}`
      if (/^\s*[{[]/.test(result.output))
        return `the output of ${command} is raw JSON: ${short(result.output)}`
      if ((result.isError === true) !== isError) return `isError of ${command} is ${result.isError}`
    }
    return undefined
  }

const SHAPES = {
  // Cached tokens are part of the input on the wire, and must not be in ours.
  openai: {
    inputTokens: USAGE.input - USAGE.cacheRead,
    cacheReadTokens: USAGE.cacheRead,
    cacheWriteTokens: 0,
  },
  anthropic: {
    inputTokens: USAGE.input,
    cacheReadTokens: USAGE.cacheRead,
    cacheWriteTokens: USAGE.cacheWrite,
  },
}

/**
 * The counts of exactly the requests this run made, not of the session before. Some CLIs count their side requests
 * in, some do not: both are right.
 */
export const usage = shape => seen => {
  const models = Object.values(seen.result?.usage ?? {})
  if (shape === 'none') return models.length === 0 ? undefined : 'usage came from a CLI that tells none'
  if (models.length === 0) return 'no usage'
  const sum = key => models.reduce((total, each) => total + (each[key] ?? 0), 0)
  const counts = { outputTokens: USAGE.output, ...SHAPES[shape] }
  const turn = turnRequests(seen)
  // An answer, or a tool call and the answer to it; then whatever else looks like it, then all.
  const own = turn.some(request => request.toolAnswered) ? 2 : 1
  const times = [...new Set([own, turn.length, seen.requests.filter(request => request.format).length])]
  const fits = n => Object.entries(counts).every(([key, each]) => sum(key) === each * n)
  if (times.some(fits)) return undefined
  const got = Object.keys(counts).map(key => `${key} ${sum(key)}`)
  return `${got.join(', ')} for ${times.join(' or ')} requests of ${Object.values(counts).join('/')}`
}

/** @param {string[]} kinds any of these; @param {boolean} [retryable] */
export const failure = (kinds, retryable) => seen => {
  const got = seen.result?.failure
  if (!kinds.includes(got?.kind))
    return `failure ${got?.kind} (${short(seen.result?.error)}), not ${kinds.join(' or ')}`
  if (retryable !== undefined && got.retryable !== retryable) return `retryable is ${got.retryable}`
  return undefined
}

export const limit = wanted => seen => {
  const got = seen.result?.failure?.limit
  return got === wanted ? undefined : `the limit named is ${got}, not ${wanted}`
}

export const hasSession = seen => (seen.result?.sessionId ? undefined : 'no sessionId to resume with')
