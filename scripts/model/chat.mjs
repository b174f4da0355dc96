// The OpenAI Chat Completions wire format, with the `reasoning_content` field that many compatible servers add.
import { CUT, callsOf, joined, textOf } from './content.mjs'
import { USAGE } from './scenarios.mjs'
import { shellArguments } from './shell.mjs'

export { failure } from './openai.mjs'

export const name = 'openai-chat'
export const path = /\/chat\/completions$/
export const namedEvents = false
export const lastLine = '[DONE]'

export function read(body) {
  return {
    entries: (body.messages ?? []).map(message => ({ role: message.role, text: textOf(message.content) })),
    tools: (body.tools ?? [])
      .filter(tool => tool.function)
      .map(tool => ({ name: tool.function.name, schema: tool.function.parameters })),
    model: body.model,
    streaming: body.stream === true,
  }
}

const usage = {
  prompt_tokens: USAGE.input,
  completion_tokens: USAGE.output,
  total_tokens: USAGE.input + USAGE.output,
  prompt_tokens_details: { cached_tokens: USAGE.cacheRead },
  completion_tokens_details: { reasoning_tokens: USAGE.reasoning },
}

const finishReason = plan => (callsOf(plan).length ? 'tool_calls' : 'stop')

const toolCall = (turn, id, call) => ({
  id: `call_${id}_${call.id}`,
  type: 'function',
  function: { name: turn.shell.name, arguments: JSON.stringify(shellArguments(turn.shell, call.command)) },
})

const envelope = (turn, id, object) => ({
  id: `chatcmpl-${id}`,
  object,
  created: Math.floor(Date.now() / 1000),
  model: turn.model,
})

export function body(plan, turn, id) {
  const reasoning = joined(plan, 'thinking')
  const calls = callsOf(plan).map(call => toolCall(turn, id, call))
  const message = {
    role: 'assistant',
    content: joined(plan, 'text') || null,
    ...(reasoning && { reasoning_content: reasoning }),
    ...(calls.length && { tool_calls: calls }),
  }
  const choices = [{ index: 0, finish_reason: finishReason(plan), message }]
  return { ...envelope(turn, id, 'chat.completion'), choices, usage }
}

export function* events(plan, turn, id) {
  const base = envelope(turn, id, 'chat.completion.chunk')
  const chunk = (delta, finish_reason = null) => ({ ...base, choices: [{ index: 0, delta, finish_reason }] })
  yield { data: chunk({ role: 'assistant', content: '' }) }
  let index = 0
  for (const part of plan.parts) {
    for (const piece of part.thinking ?? [])
      yield { data: chunk({ reasoning_content: piece }), content: true }
    for (const piece of part.text ?? [])
      yield { data: chunk({ content: piece }), pauseMs: part.pauseMs, content: true }
    for (const call of part.calls ?? []) {
      const { id: callId, type, function: fn } = toolCall(turn, id, call)
      yield {
        data: chunk({
          tool_calls: [{ index, id: callId, type, function: { name: fn.name, arguments: '' } }],
        }),
        content: true,
      }
      for (const piece of [fn.arguments.slice(0, 5), fn.arguments.slice(5)]) {
        yield { data: chunk({ tool_calls: [{ index, function: { arguments: piece } }] }) }
      }
      index += 1
    }
  }
  if (plan.cut) yield CUT
  yield { data: chunk({}, finishReason(plan)) }
  yield { data: { ...base, choices: [], usage } }
}
