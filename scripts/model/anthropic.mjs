// The Anthropic Messages wire format.
import { CUT, callsOf, RETRY_AFTER_SECONDS, textOf } from './content.mjs'
import { USAGE } from './scenarios.mjs'
import { shellArguments } from './shell.mjs'

export const name = 'anthropic-messages'
export const path = /\/messages$/
export const namedEvents = true
export const lastLine = undefined

const SIGNATURE = 'c2NyaXB0ZWQ='

export function read(body) {
  const entries = (body.messages ?? []).flatMap(message => {
    const blocks = [message.content].flat()
    const results = blocks.filter(block => block?.type === 'tool_result')
    const rest = blocks.filter(block => block?.type !== 'tool_result')
    return [
      ...results.map(block => ({ role: 'tool', text: textOf(block.content) })),
      ...(rest.length ? [{ role: message.role, text: textOf(rest) }] : []),
    ]
  })
  return {
    entries,
    tools: (body.tools ?? []).map(tool => ({ name: tool.name, schema: tool.input_schema })),
    model: body.model,
    streaming: body.stream === true,
  }
}

const usage = output => ({
  input_tokens: USAGE.input,
  cache_creation_input_tokens: USAGE.cacheWrite,
  cache_read_input_tokens: USAGE.cacheRead,
  output_tokens: output,
})

const stopReason = plan => (callsOf(plan).length ? 'tool_use' : 'end_turn')

/** The content blocks of a plan, each with the deltas that build it. */
function blocks(plan, turn, id) {
  return plan.parts.flatMap(part => {
    if (part.thinking) {
      return [
        {
          start: { type: 'thinking', thinking: '', signature: '' },
          deltas: [
            ...part.thinking.map(thinking => ({ type: 'thinking_delta', thinking })),
            { type: 'signature_delta', signature: SIGNATURE },
          ],
          whole: { type: 'thinking', thinking: part.thinking.join(''), signature: SIGNATURE },
        },
      ]
    }
    if (part.text) {
      return [
        {
          start: { type: 'text', text: '' },
          deltas: part.text.map(text => ({ type: 'text_delta', text })),
          pauseMs: part.pauseMs,
          cut: plan.cut,
          whole: { type: 'text', text: part.text.join('') },
        },
      ]
    }
    return part.calls.map(call => {
      const input = shellArguments(turn.shell, call.command)
      const json = JSON.stringify(input)
      const tool = { type: 'tool_use', id: `toolu_${id}_${call.id}`, name: turn.shell.name }
      return {
        start: { ...tool, input: {} },
        deltas: [json.slice(0, 5), json.slice(5)].map(partial_json => ({
          type: 'input_json_delta',
          partial_json,
        })),
        whole: { ...tool, input },
      }
    })
  })
}

const message = (turn, id, rest) => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  model: turn.model,
  stop_sequence: null,
  ...rest,
})

export function body(plan, turn, id) {
  const content = blocks(plan, turn, id).map(block => block.whole)
  return message(turn, id, { content, stop_reason: stopReason(plan), usage: usage(USAGE.output) })
}

export function* events(plan, turn, id) {
  // The count of the start event is a placeholder here as at the real service: the true one comes at the end.
  yield {
    data: {
      type: 'message_start',
      message: message(turn, id, { content: [], stop_reason: null, usage: usage(1) }),
    },
  }
  for (const [index, block] of blocks(plan, turn, id).entries()) {
    yield { data: { type: 'content_block_start', index, content_block: block.start } }
    for (const delta of block.deltas) {
      yield { data: { type: 'content_block_delta', index, delta }, pauseMs: block.pauseMs, content: true }
    }
    if (block.cut) yield CUT
    yield { data: { type: 'content_block_stop', index } }
  }
  yield {
    data: {
      type: 'message_delta',
      delta: { stop_reason: stopReason(plan), stop_sequence: null },
      usage: { output_tokens: USAGE.output },
    },
  }
  yield { data: { type: 'message_stop' } }
}

const FAILURES = {
  'invalid-request': [400, 'invalid_request_error', 'messages: the scripted model refuses this request'],
  auth: [401, 'authentication_error', 'invalid x-api-key'],
  permission: [
    403,
    'permission_error',
    'Your API key does not have permission to use the specified resource.',
  ],
  'rate-limit': [
    429,
    'rate_limit_error',
    "This request would exceed your account's rate limit. Please try again later.",
  ],
  server: [500, 'api_error', 'Internal server error'],
  overloaded: [529, 'overloaded_error', 'Overloaded'],
  overflow: [400, 'invalid_request_error', 'prompt is too long: 208310 tokens > 200000 maximum'],
}

export function failure({ failure: kind, detail }, id) {
  const [status, type, text] = FAILURES[kind]
  return {
    status,
    headers: kind === 'rate-limit' ? { 'retry-after': String(RETRY_AFTER_SECONDS) } : {},
    body: { type: 'error', error: { type, message: detail ?? text }, request_id: `req_${id}` },
  }
}
