// A model service that follows a script: real coding-agent CLIs run whole turns against it, with no network and no
// account. It speaks Anthropic Messages, OpenAI Chat Completions and OpenAI Responses, streaming or not.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import * as anthropic from './anthropic.mjs'
import * as chat from './chat.mjs'
import { CUT } from './content.mjs'
import * as responses from './responses.mjs'
import { plan, readConversation, USAGE } from './scenarios.mjs'
import { findShell } from './shell.mjs'

const FORMATS = [anthropic, chat, responses]
const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])

/** The model names it answers to; any other name works as well. */
export const MODELS = ['scripted-model', 'scripted-small', 'claude-sonnet-4-5', 'gpt-5-codex']

/**
 * Starts the scripted model on a loopback address.
 *
 * @param {object} [options]
 * @param {number} [options.port] Default 0: any free port.
 * @param {string} [options.host] Default 127.0.0.1. Only loopback addresses are taken.
 * @param {string} [options.scenario] What prompts without a `[[scenario:NAME]]` marker get. Default `text`.
 * @param {number} [options.slowMs] Pause between the pieces of the `slow` scenario, in ms. Default 250.
 * @param {string} [options.pidFile] Where the tool of `tool-slow` leaves its process id. Default `slow-tool.pid` in
 *   the directory it runs in.
 * @param {Record<string, Function>} [options.scenarios] Further scenarios, see scenarios.mjs.
 * @param {(request: object) => void} [options.onRequest] Told of every request: format, scenario, model, tools…
 * @returns {Promise<{url: string, port: number, requests: object[], answering: Function, close: () => Promise<void>}>}
 */
export async function startModel({
  port = 0,
  host = '127.0.0.1',
  scenario = 'text',
  slowMs = 250,
  pidFile = 'slow-tool.pid',
  scenarios = {},
  onRequest,
} = {}) {
  if (!LOOPBACK.has(host)) throw new Error(`The scripted model listens on loopback only, not on ${host}.`)
  const requests = []
  const watchers = new Set()
  const closing = new AbortController()

  const announce = record => {
    for (const watcher of watchers) watcher(record)
  }

  const server = createServer((request, response) => {
    // A client that goes away in mid-answer is normal here: agents are stopped on purpose.
    response.on('error', () => {})
    route(request, response).catch(error => {
      if (response.headersSent) response.destroy()
      else sendJson(response, 500, { error: { type: 'server_error', message: String(error) } })
    })
  })

  async function route(request, response) {
    const body = await readBody(request)
    const path = new URL(request.url, 'http://model').pathname.replace(/\/+/g, '/').replace(/\/$/, '')
    const format = request.method === 'POST' && FORMATS.find(each => each.path.test(path))
    if (format) return answer(format, body, response)
    if (request.method === 'POST' && path.endsWith('/messages/count_tokens')) {
      return sendJson(response, 200, { input_tokens: USAGE.input })
    }
    requests.push({ method: request.method, path })
    if (path.endsWith('/models')) return sendJson(response, 200, modelList())
    if (path === '' || path === '/health') return sendJson(response, 200, {})
    return sendJson(response, 404, { error: { type: 'not_found_error', message: `No such route: ${path}` } })
  }

  async function answer(format, text, response) {
    const { entries, tools, model, streaming } = format.read(JSON.parse(text))
    const turn = { ...readConversation(entries, scenario), model, streaming, shell: findShell(tools) }
    const script = plan(turn, { slowMs, pidFile }, scenarios)
    const record = {
      format: format.name,
      scenario: turn.scenario,
      model,
      streaming,
      tools: tools.map(tool => tool.name),
      shell: turn.shell?.name,
      toolAnswered: turn.toolAnswered,
      answering: false,
    }
    // The whole request as it came; not enumerable, so that a printed record stays short.
    Object.defineProperty(record, 'text', { value: text })
    requests.push(record)
    onRequest?.(record)
    const id = `scripted_${requests.length}`
    const begin = () => {
      if (record.answering) return
      record.answering = true
      announce(record)
    }
    if (script.silent) return begin()
    if (script.failure) {
      const refusal = format.failure(script, id)
      begin()
      return sendJson(response, refusal.status, refusal.body, { 'request-id': id, ...refusal.headers })
    }
    if (!streaming) {
      begin()
      const whole = format.body(script, turn, id)
      return script.cut ? sendBroken(response, whole) : sendJson(response, 200, whole)
    }
    return stream(format, script, turn, id, response, begin)
  }

  async function stream(format, script, turn, id, response, begin) {
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    const signal = AbortSignal.any([gone.signal, closing.signal])
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      'request-id': id,
    })
    for (const event of format.events(script, turn, id)) {
      if (signal.aborted) return
      if (event === CUT) return response.socket.end()
      if (event.pauseMs) await delay(event.pauseMs, undefined, { signal }).catch(() => {})
      const name = format.namedEvents ? `event: ${event.data.type}\n` : ''
      if (!response.write(`${name}data: ${JSON.stringify(event.data)}\n\n`)) {
        await once(response, 'drain', { signal }).catch(() => {})
      }
      if (event.content) begin()
    }
    begin()
    response.end(format.lastLine ? `data: ${format.lastLine}\n\n` : undefined)
  }

  await new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const bound = server.address().port
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    port: bound,
    requests,
    /** Resolves with the first request, from now on or before, that matches and whose answer has begun. */
    answering(matches = () => true) {
      const before = requests.find(record => record.answering && matches(record))
      if (before) return Promise.resolve(before)
      return new Promise((resolve, reject) => {
        const watcher = record => {
          if (!matches(record)) return
          watchers.delete(watcher)
          resolve(record)
        }
        watchers.add(watcher)
        closing.signal.addEventListener('abort', () => reject(new Error('The scripted model was closed.')), {
          once: true,
        })
      })
    },
    async close() {
      closing.abort()
      const closed = new Promise(resolve => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

async function readBody(request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

function sendJson(response, status, body, headers = {}) {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': bytes.length,
    ...headers,
  })
  response.end(bytes)
}

/** An answer that breaks off: its length is announced, and the end does not come. */
function sendBroken(response, body) {
  const bytes = Buffer.from(JSON.stringify(body))
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length })
  response.write(bytes.subarray(0, -8))
  response.socket.end()
}

const modelList = () => ({
  object: 'list',
  has_more: false,
  data: MODELS.map(id => ({
    id,
    object: 'model',
    type: 'model',
    display_name: id,
    created: 1767225600,
    created_at: '2026-01-01T00:00:00Z',
    owned_by: 'scripted',
  })),
})
