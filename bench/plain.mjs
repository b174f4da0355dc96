// What the benchmark compares with: two plain Node.js ways to read the same stream into the same Messages.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { StringDecoder } from 'node:string_decoder'

const PROMPT = `${JSON.stringify({ type: 'user', message: { role: 'user', content: [{ type: 'text', text: 'Go.' }] } })}\n`

function start(command, env) {
  const args = ['-p', '--output-format', 'stream-json', '--input-format', 'stream-json', '--verbose']
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.write(PROMPT)
  child.stderr.resume()
  return child
}

/** Maps lines to Messages; text that came as deltas is not said again by the finished message. */
function makeMapper() {
  let current
  let streamed = false
  return function map(event, push) {
    switch (event.type) {
      case 'stream_event': {
        const inner = event.event
        if (inner.type === 'message_start') {
          current = inner.message.id
          streamed = false
        } else if (inner.type === 'content_block_delta' && inner.delta.type === 'text_delta') {
          streamed = true
          push({ type: 'text', content: inner.delta.text })
        }
        break
      }
      case 'assistant':
        for (const block of event.message.content) {
          if (block.type === 'text') {
            if (!(streamed && event.message.id === current)) push({ type: 'text', content: block.text })
          } else if (block.type === 'tool_use') {
            push({ type: 'tool-use', tool: block.name, callId: block.id, input: block.input })
          }
        }
        break
      case 'user':
        for (const block of event.message.content) {
          if (block.type === 'tool_result') {
            push({
              type: 'tool-result',
              callId: block.tool_use_id,
              output: block.content,
              isError: block.is_error,
            })
          }
        }
        break
    }
  }
}

/** The usual way: readline, JSON.parse, an async generator. */
export async function* withReadline(command, env) {
  const child = start(command, env)
  const map = makeMapper()
  for await (const line of createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY })) {
    const messages = []
    map(JSON.parse(line), message => messages.push(message))
    for (const message of messages) yield message
  }
}

/** The careful way: split by hand, a hand-written iterator, pause and resume at a mark. */
export function withHandSplit(command, env) {
  const HIGH_MESSAGES = 1024
  const child = start(command, env)
  const { stdout } = child
  const map = makeMapper()
  const decoder = new StringDecoder('utf8')
  let queue = []
  let head = 0
  let rest = ''
  let ended = false
  let waiter
  const push = message => queue.push(message)
  const wake = () => {
    if (!waiter) return
    if (head < queue.length) {
      const resolve = waiter
      waiter = undefined
      resolve({ value: queue[head++], done: false })
    } else if (ended) {
      waiter({ value: undefined, done: true })
      waiter = undefined
    }
  }
  stdout.on('data', chunk => {
    const text = rest + decoder.write(chunk)
    let from = 0
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', from)) {
      map(JSON.parse(text.slice(from, at)), push)
      from = at + 1
    }
    rest = text.slice(from)
    if (queue.length - head > HIGH_MESSAGES) stdout.pause()
    wake()
  })
  stdout.on('end', () => {
    ended = true
    wake()
  })
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    next() {
      if (head < queue.length) return Promise.resolve({ value: queue[head++], done: false })
      queue = []
      head = 0
      if (ended) return Promise.resolve({ value: undefined, done: true })
      if (stdout.isPaused()) stdout.resume()
      return new Promise(resolve => {
        waiter = resolve
      })
    },
  }
}
