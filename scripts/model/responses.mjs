// The OpenAI Responses wire format.
import { CUT, textOf } from './content.mjs'
import { USAGE } from './scenarios.mjs'
import { shellArguments } from './shell.mjs'

export { failure } from './openai.mjs'

export const name = 'openai-responses'
export const path = /\/responses$/
export const namedEvents = true
export const lastLine = undefined

const ENCRYPTED = 'c2NyaXB0ZWQ='

function readTool(tool) {
  if (tool.type === 'function') return [{ name: tool.name, schema: tool.parameters }]
  if (tool.type === 'local_shell') return [{ name: 'local_shell', kind: 'local_shell' }]
  if (tool.type === 'custom') return [{ name: tool.name, kind: 'custom' }]
  if (tool.type === 'namespace') {
    return (tool.tools ?? []).map(inner => ({
      name: inner.name,
      schema: inner.parameters,
      namespace: tool.name,
    }))
  }
  return []
}

function readItem(item) {
  if (/_output$/.test(item.type ?? '')) return { role: 'tool', text: textOf(item.output) }
  return { role: item.role ?? 'assistant', text: textOf(item.content) }
}

export function read(body) {
  const input = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : (body.input ?? [])
  return {
    entries: input.map(readItem),
    tools: (body.tools ?? []).flatMap(readTool),
    model: body.model,
    streaming: body.stream === true,
  }
}

const usage = {
  input_tokens: USAGE.input,
  input_tokens_details: { cached_tokens: USAGE.cacheRead },
  output_tokens: USAGE.output,
  output_tokens_details: { reasoning_tokens: USAGE.reasoning },
  total_tokens: USAGE.input + USAGE.output,
}

const response = (turn, id, rest) => ({
  id: `resp_${id}`,
  object: 'response',
  created_at: Math.floor(Date.now() / 1000),
  model: turn.model,
  parallel_tool_calls: true,
  tools: [],
  error: null,
  incomplete_details: null,
  ...rest,
})

/** One tool call in the shape that the kind of tool wants. */
function callItem(shell, id, call) {
  const call_id = `call_${id}_${call.id}`
  if (shell.kind === 'local_shell') {
    const action = { type: 'exec', command: ['bash', '-lc', call.command], env: {} }
    return { id: `lsh_${call_id}`, type: 'local_shell_call', call_id, action }
  }
  if (shell.kind === 'custom') {
    return { id: `ctc_${call_id}`, type: 'custom_tool_call', call_id, name: shell.name, input: call.command }
  }
  return {
    id: `fc_${call_id}`,
    type: 'function_call',
    call_id,
    name: shell.name,
    ...(shell.namespace && { namespace: shell.namespace }),
    arguments: JSON.stringify(shellArguments(shell, call.command)),
  }
}

function* reasoningItem(part, id, output_index) {
  const item = {
    id: `rs_${id}_${output_index}`,
    type: 'reasoning',
    summary: [],
    encrypted_content: ENCRYPTED,
  }
  const at = { item_id: item.id, output_index, summary_index: 0 }
  const text = part.thinking.join('')
  yield { data: { type: 'response.output_item.added', output_index, item } }
  yield {
    data: { type: 'response.reasoning_summary_part.added', ...at, part: { type: 'summary_text', text: '' } },
  }
  for (const delta of part.thinking) {
    yield { data: { type: 'response.reasoning_summary_text.delta', ...at, delta }, content: true }
  }
  yield { data: { type: 'response.reasoning_summary_text.done', ...at, text } }
  yield {
    data: { type: 'response.reasoning_summary_part.done', ...at, part: { type: 'summary_text', text } },
  }
  return { ...item, summary: [{ type: 'summary_text', text }] }
}

function* messageItem(part, id, output_index, cut) {
  const item = { id: `msg_${id}_${output_index}`, type: 'message', role: 'assistant' }
  const at = { item_id: item.id, output_index, content_index: 0 }
  const content = text => ({ type: 'output_text', text, annotations: [] })
  yield {
    data: {
      type: 'response.output_item.added',
      output_index,
      item: { ...item, status: 'in_progress', content: [] },
    },
  }
  yield { data: { type: 'response.content_part.added', ...at, part: content('') } }
  for (const delta of part.text) {
    yield { data: { type: 'response.output_text.delta', ...at, delta }, pauseMs: part.pauseMs, content: true }
  }
  if (cut) yield CUT
  const text = part.text.join('')
  yield { data: { type: 'response.output_text.done', ...at, text } }
  yield { data: { type: 'response.content_part.done', ...at, part: content(text) } }
  return { ...item, status: 'completed', content: [content(text)] }
}

function* toolItem(shell, id, call, output_index) {
  const item = callItem(shell, id, call)
  const { arguments: args } = item
  const added = { ...item, status: 'in_progress', ...(args && { arguments: '' }) }
  yield { data: { type: 'response.output_item.added', output_index, item: added }, content: true }
  if (args) {
    yield {
      data: { type: 'response.function_call_arguments.delta', item_id: item.id, output_index, delta: args },
    }
    yield {
      data: {
        type: 'response.function_call_arguments.done',
        item_id: item.id,
        output_index,
        arguments: args,
      },
    }
  }
  return { ...item, status: 'completed' }
}

/** Yields the events of all items; returns the finished items. */
function* items(plan, turn, id) {
  const output = []
  for (const part of plan.parts) {
    const run = part.thinking
      ? [reasoningItem(part, id, output.length)]
      : part.text
        ? [messageItem(part, id, output.length, plan.cut)]
        : part.calls.map((call, i) => toolItem(turn.shell, id, call, output.length + i))
    for (const item of run) {
      const done = yield* item
      yield { data: { type: 'response.output_item.done', output_index: output.length, item: done } }
      output.push(done)
    }
  }
  return output
}

export function body(plan, turn, id) {
  const run = items(plan, turn, id)
  let step = run.next()
  while (!step.done) step = run.next()
  return response(turn, id, { status: 'completed', output: step.value, usage })
}

export function* events(plan, turn, id) {
  let sequence_number = 0
  const numbered = event =>
    event === CUT ? CUT : { ...event, data: { ...event.data, sequence_number: sequence_number++ } }
  function* all() {
    const open = response(turn, id, { status: 'in_progress', output: [], usage: null })
    yield { data: { type: 'response.created', response: open } }
    yield { data: { type: 'response.in_progress', response: open } }
    const output = yield* items(plan, turn, id)
    yield {
      data: {
        type: 'response.completed',
        response: response(turn, id, { status: 'completed', output, usage }),
      },
    }
  }
  for (const event of all()) {
    yield numbered(event)
    if (event === CUT) return
  }
}
