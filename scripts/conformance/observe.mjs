// Drives one run through the public API and writes down all that can be seen of it from outside.
import { readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { leftProcesses } from './processes.mjs'

/**
 * @param {Function} execute The public function.
 * @param {{ provider: string, prompt: string, options: object, model: object, mayRefuse?: string }} task
 *   `model`: the scripted one. `mayRefuse`: the code of an AgentplugError that is a good answer as well.
 * @param {(run: object) => Promise<unknown>} [during] Runs beside the reading, to cancel for example.
 */
export async function observe(execute, { provider, prompt, options, model, mayRefuse }, during) {
  const firstRequest = model.requests.length
  const seen = {
    provider,
    messages: [],
    /** Messages that came when the Result was there already. */
    late: 0,
    /** The session ids the run named while it went on. */
    sessionId: undefined,
    results: [],
    result: undefined,
    thrown: undefined,
    during: undefined,
  }
  let run
  try {
    run = execute(provider, prompt, options)
    seen.runId = run.runId
    run.result.then(result => seen.results.push(result)).catch(() => {})
    const beside = during?.(run)
    // Observed below; without this an early failure would count as unhandled.
    beside?.catch(() => {})
    for await (const message of run) {
      if (seen.results.length > 0) seen.late += 1
      seen.messages.push(message)
    }
    seen.result = await run.result
    seen.during = await beside
    seen.sessionId = run.sessionId
  } catch (error) {
    seen.thrown = error
    seen.refused = error.code !== undefined && error.code === mayRefuse
    await run?.cancel().catch(() => {})
  }
  seen.requests = model.requests.slice(firstRequest)
  seen.leftProcesses = run && (await leftProcesses(run.runId))
  seen.leftTemps = await readdir(tmpdir())
  return seen
}

/** The requests that belong to the turn itself: titles and summaries offer no shell tool. */
export const turnRequests = seen => seen.requests.filter(request => request.shell)

export const textOf = (seen, type = 'text') =>
  seen.messages
    .filter(message => message.type === type && message.parentCallId === undefined)
    .map(message => message.content)
    .join('')
