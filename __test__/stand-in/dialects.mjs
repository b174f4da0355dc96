// How each CLI says the same few things on its wire. A dialect waits for the prompt, plays the steps and ends.
//
// Steps of the conversation: {session}, {text}, {thinking}, {tool: {id, name, input}}, {toolEnd: {id, output,
// isError}}, {done: answer}, {fail: error text}.

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

export const SESSION = 'session-0001'
const MODEL = 'stand-in-model'

/** What some adapters look for before they use a newer flag. */
export const HELP = `Usage: stand-in [options]     stand-in agent exec [options]
  --thinking  --auto  --dangerously-skip-permissions  --format  --input-format  --output-format  --effort
  --usage-output-file  --session-id  --additional-mcp-config  exec  --json  --cwd  --message-file  --print  --print-timeout  --include-partial-messages
  The prompt can be given by piped stdin.
`

async function wholeStdin() {
  let text = ''
  for await (const chunk of process.stdin) text += chunk
  return text
}

const stdinLines = () => createInterface({ input: process.stdin })[Symbol.asyncIterator]()

/** A dialect of one-way lines: `wait` for the prompt, then `say` each step. */
const lines = (wait, vocabulary) => async io => {
  io.note({ prompt: await wait(io) })
  const say = vocabulary(io)
  await io.play(step => {
    const [kind, value] = Object.entries(step)[0]
    return [say[kind]?.(value) ?? []].flat().map(event => JSON.stringify(event))
  })
}

// ---- stream-json ------------------------------------------------------------------------------------------

function streamJson() {
  let id = 0
  const assistant = block => ({
    type: 'assistant',
    session_id: SESSION,
    message: {
      id: `msg_${++id}`,
      role: 'assistant',
      model: MODEL,
      content: [block],
      usage: { input_tokens: 5, output_tokens: 3 },
    },
  })
  return {
    session: () => ({ type: 'system', subtype: 'init', session_id: SESSION, model: MODEL }),
    text: text => assistant({ type: 'text', text }),
    thinking: thinking => assistant({ type: 'thinking', thinking, signature: '' }),
    tool: ({ id, name, input }) => assistant({ type: 'tool_use', id, name, input }),
    toolEnd: ({ id, output, isError }) => ({
      type: 'user',
      session_id: SESSION,
      message: {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: id, content: output, is_error: isError === true }],
      },
    }),
    done: result => ({
      type: 'result',
      subtype: 'success',
      is_error: false,
      result,
      session_id: SESSION,
      usage: { input_tokens: 10, output_tokens: 4 },
    }),
    fail: text => ({
      type: 'result',
      subtype: 'error_during_execution',
      is_error: true,
      result: text,
      errors: [text],
      error: { message: text },
      session_id: SESSION,
    }),
  }
}

/** One user frame; stdin stays open for answers. */
const userFrame = async () => {
  const { value } = await stdinLines().next()
  return JSON.parse(value).message.content[0].text
}
const bidirectional = lines(userFrame, streamJson)

// ---- cursor -----------------------------------------------------------------------------------------------

const cursor = lines(wholeStdin, () => ({
  session: () => ({ type: 'system', subtype: 'init', session_id: SESSION }),
  text: text => ({ type: 'assistant', message: { content: [{ type: 'text', text }] }, session_id: SESSION }),
  thinking: text => [
    { type: 'thinking', subtype: 'delta', text },
    { type: 'thinking', subtype: 'completed' },
  ],
  tool: ({ id, name, input }) => ({
    type: 'tool_call',
    subtype: 'started',
    call_id: id,
    tool_call: { [`${name}ToolCall`]: { args: input } },
  }),
  toolEnd: ({ id, output }) => ({
    type: 'tool_call',
    subtype: 'completed',
    call_id: id,
    tool_call: { bashToolCall: { args: {}, result: output } },
  }),
  done: result => ({ type: 'result', subtype: 'success', is_error: false, result, session_id: SESSION }),
  fail: text => ({ type: 'result', subtype: 'error', is_error: true, result: text, session_id: SESSION }),
}))

// ---- pi ---------------------------------------------------------------------------------------------------

const piTurn = extra => ({
  type: 'turn_end',
  message: { model: MODEL, usage: { input: 10, output: 4, cacheRead: 0, cacheWrite: 0 }, ...extra },
})
const pi = lines(wholeStdin, () => ({
  session: () => [{ type: 'session', id: SESSION }, { type: 'agent_start' }, { type: 'turn_start' }],
  text: delta => ({ type: 'message_update', assistantMessageEvent: { type: 'text_delta', delta } }),
  thinking: delta => ({ type: 'message_update', assistantMessageEvent: { type: 'thinking_delta', delta } }),
  tool: ({ id, name, input }) => ({
    type: 'tool_execution_start',
    toolCallId: id,
    toolName: name,
    args: input,
  }),
  toolEnd: ({ id, output, isError }) => [
    {
      type: 'tool_execution_end',
      toolCallId: id,
      result: { content: [{ type: 'text', text: output }] },
      isError: isError === true,
    },
    piTurn({ stopReason: 'toolUse' }),
    { type: 'turn_start' },
  ],
  done: () => [piTurn({ stopReason: 'stop' }), { type: 'agent_end', messages: [] }],
  fail: errorMessage => [piTurn({ stopReason: 'error', errorMessage }), { type: 'agent_end', messages: [] }],
}))

// ---- opencode and its fork --------------------------------------------------------------------------------

const opencode = lines(
  ({ args }) => (process.stdin.isTTY ? args.at(-1) : wholeStdin()),
  () => {
    const event = (type, part) => ({ type, sessionID: SESSION, part: { sessionID: SESSION, ...part } })
    const start = () => event('step_start', { type: 'step-start' })
    const finish = reason =>
      event('step_finish', {
        type: 'step-finish',
        reason,
        cost: 0,
        tokens: { input: 10, output: 4, reasoning: 0, cache: { read: 0, write: 0 } },
      })
    let open
    return {
      session: start,
      text: text => event('text', { type: 'text', text }),
      thinking: text => event('reasoning', { type: 'reasoning', text }),
      // The CLI prints a tool call once, when it is over.
      tool: call => {
        open = call
        return []
      },
      toolEnd: ({ id, output }) => [
        event('tool_use', {
          type: 'tool',
          tool: open.name,
          callID: id,
          state: { status: 'completed', input: open.input, output, metadata: {} },
        }),
        finish('tool-calls'),
        start(),
      ],
      done: () => finish('stop'),
      fail: message => ({
        type: 'error',
        sessionID: SESSION,
        error: { name: 'APIError', data: { message, isRetryable: false } },
      }),
    }
  },
)

// ---- copilot ----------------------------------------------------------------------------------------------

const copilot = lines(wholeStdin, ({ args }) => {
  const sessionId = args[args.indexOf('--session-id') + 1] ?? SESSION
  let id = 0
  let open
  return {
    session: () => ({ type: 'assistant.turn_start', data: { turnId: '0' } }),
    text: deltaContent => [
      { type: 'assistant.message_start', data: { messageId: `m${++id}` } },
      { type: 'assistant.message_delta', data: { messageId: `m${id}`, deltaContent } },
      { type: 'assistant.message', data: { messageId: `m${id}`, content: deltaContent, toolRequests: [] } },
    ],
    thinking: deltaContent => ({
      type: 'assistant.reasoning_delta',
      data: { reasoningId: 'r', deltaContent },
    }),
    tool: call => {
      open = call
      return {
        type: 'tool.execution_start',
        data: { toolCallId: call.id, toolName: call.name, arguments: call.input },
      }
    },
    toolEnd: ({ id, output, isError }) => [
      {
        type: 'tool.execution_complete',
        data: { toolCallId: id, toolName: open.name, success: isError !== true, result: { content: output } },
      },
      { type: 'assistant.turn_end', data: { turnId: '0' } },
    ],
    done: () => [
      { type: 'assistant.turn_end', data: { turnId: '1' } },
      { type: 'result', sessionId, exitCode: 0, usage: {} },
    ],
    fail: message => [
      { type: 'session.error', data: { errorType: 'query', message } },
      { type: 'result', sessionId, exitCode: 1, usage: {} },
    ],
  }
})

// ---- openclaw: nothing but one JSON value at the end -------------------------------------------------------

const openclaw = async io => {
  const { args } = io
  const file = args[args.indexOf('--message-file') + 1]
  io.note({ prompt: file === '-' ? await wholeStdin() : readFileSync(file, 'utf8') })
  const say = {
    done: final => ({
      ok: true,
      status: 'ok',
      final,
      payloads: [{ text: final, mediaUrl: null }],
      usage: { input: 10, output: 4, cacheRead: 0, cacheWrite: 0, total: 14 },
      model: MODEL,
      provider: 'stand-in',
      sessionId: SESSION,
    }),
    fail: message => ({ ok: false, error: { type: 'cli_error', message } }),
  }
  let code = 0
  await io.play(step => {
    const [kind, value] = Object.entries(step)[0]
    if (kind === 'fail') code = 1
    return say[kind] ? [JSON.stringify(say[kind](value), null, 2)] : []
  })
  process.exit(code)
}

// ---- antigravity ------------------------------------------------------------------------------------------

const antigravity = lines(
  async ({ args }) =>
    args.includes('--input-format')
      ? JSON.parse((await stdinLines().next()).value).message.content
      : args[args.indexOf('-p') + 1],
  () => {
    let step = 0
    const update = fields => ({ event: 'step_update', step_update: { conversation_id: SESSION, ...fields } })
    const answer = fields => update({ step_type: 'agent_response', state: 'ACTIVE', ...fields })
    let open
    return {
      session: () => ({ event: 'init', conversation_id: SESSION, init: { model: MODEL } }),
      text: text_delta => answer({ step_index: step, text_delta }),
      thinking: thinking_delta => answer({ step_index: step, thinking_delta }),
      tool: ({ id, name, input }) => {
        open = {
          step_index: ++step,
          step_type: 'tool',
          tool_name: name,
          tool_info: { name, parameters: input, id },
        }
        return update({ ...open, state: 'ACTIVE' })
      },
      toolEnd: ({ output, isError }) => {
        step++
        return update({
          ...open,
          state: isError ? 'ERROR' : 'DONE',
          tool_info: { ...open.tool_info, output },
        })
      },
      done: response => [
        answer({ step_index: step, state: 'DONE', usage: { input_tokens: 10, output_tokens: 4 } }),
        { event: 'result', result: { conversation_id: SESSION, status: 'SUCCESS', response } },
      ],
      fail: error => ({
        event: 'result',
        result: { conversation_id: SESSION, status: 'ERROR', error, response: '' },
      }),
    }
  },
)

// ---- JSON-RPC ---------------------------------------------------------------------------------------------

/** Answers requests with `handle`; what it returns is the result. */
async function rpc(io, handle) {
  for await (const line of stdinLines()) {
    const { id, method, params } = JSON.parse(line)
    if (method === undefined) continue
    io.note({ method })
    const answer = await handle(method, params ?? {}, id)
    if (id !== undefined && answer !== undefined) io.out({ jsonrpc: '2.0', id, ...answer })
  }
}
const notify = (method, params) => ({ jsonrpc: '2.0', method, params })

const codex = io => {
  const threadId = SESSION
  const turnId = 'turn-1'
  const at = params => ({ threadId, turnId, ...params })
  let n = 0
  const command = (call, extra) => ({
    type: 'commandExecution',
    id: call.id,
    command: call.input.command,
    cwd: process.cwd(),
    ...extra,
  })
  let open
  let last = ''
  const completed = (status, error = null) =>
    notify('turn/completed', {
      threadId,
      turn: {
        id: turnId,
        status,
        error,
        items: last ? [{ type: 'agentMessage', id: `i${n}`, text: last }] : [],
      },
    })
  const say = {
    session: () => [
      notify('turn/started', { threadId, turn: { id: turnId, status: 'inProgress', items: [] } }),
    ],
    text: text => {
      last = text
      const item = { type: 'agentMessage', id: `i${++n}`, text: '', phase: null }
      return [
        notify('item/started', at({ item })),
        notify('item/agentMessage/delta', at({ itemId: item.id, delta: text })),
        notify('item/completed', at({ item: { ...item, text } })),
      ]
    },
    thinking: delta => {
      const item = { type: 'reasoning', id: `r${++n}`, summary: [], content: [] }
      return [
        notify('item/started', at({ item })),
        notify('item/reasoning/summaryTextDelta', at({ itemId: item.id, summaryIndex: 0, delta })),
        notify('item/completed', at({ item: { ...item, summary: [delta] } })),
      ]
    },
    tool: call => {
      open = call
      return [notify('item/started', at({ item: command(call, { status: 'inProgress' }) }))]
    },
    toolEnd: ({ output, isError }) => [
      notify(
        'item/completed',
        at({
          item: command(open, { status: 'completed', aggregatedOutput: output, exitCode: isError ? 1 : 0 }),
        }),
      ),
    ],
    done: () => [
      notify('thread/tokenUsage/updated', {
        threadId,
        turnId,
        tokenUsage: {
          total: {
            inputTokens: 10,
            cachedInputTokens: 0,
            outputTokens: 4,
            reasoningOutputTokens: 0,
            totalTokens: 14,
          },
          last: {
            inputTokens: 10,
            cachedInputTokens: 0,
            outputTokens: 4,
            reasoningOutputTokens: 0,
            totalTokens: 14,
          },
        },
      }),
      notify('thread/status/changed', { threadId, status: { type: 'idle' } }),
      completed('completed'),
    ],
    fail: message => [
      notify('error', at({ error: { message, codexErrorInfo: 'other' }, willRetry: false })),
      completed('failed', { message, codexErrorInfo: 'other' }),
    ],
  }
  const speak = step => {
    const [kind, value] = Object.entries(step)[0]
    return (say[kind]?.(value) ?? []).map(event => JSON.stringify(event))
  }
  return rpc(io, (method, params) => {
    switch (method) {
      case 'initialize':
        return { result: { userAgent: 'stand-in/0.171.0', codexHome: '/nowhere', platformFamily: 'unix' } }
      case 'thread/start':
      case 'thread/resume':
        return { result: { thread: { id: threadId }, model: MODEL } }
      case 'turn/start':
        io.note({ prompt: params.input?.[0]?.text })
        setImmediate(() => io.play(speak))
        return { result: { turn: { id: turnId, status: 'inProgress', items: [] } } }
      case 'turn/interrupt':
        setImmediate(() => io.out(completed('interrupted')))
        return { result: {} }
      default:
        return { result: {} }
    }
  })
}

const acp = io => {
  const update = fields => notify('session/update', { sessionId: SESSION, update: fields })
  let answer
  const say = {
    text: text => [update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } })],
    thinking: text => [update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } })],
    tool: ({ id, name, input }) => [
      update({
        sessionUpdate: 'tool_call',
        toolCallId: id,
        title: name,
        kind: 'execute',
        status: 'in_progress',
        rawInput: input,
      }),
    ],
    toolEnd: ({ id, output, isError }) => [
      update({
        sessionUpdate: 'tool_call_update',
        toolCallId: id,
        status: isError ? 'failed' : 'completed',
        content: [{ type: 'content', content: { type: 'text', text: output } }],
      }),
    ],
    done: () => {
      answer({
        result: { stopReason: 'end_turn', usage: { inputTokens: 10, outputTokens: 4, totalTokens: 14 } },
      })
      return []
    },
    fail: message => {
      answer({ error: { code: -32603, message: 'Internal error', data: { details: message } } })
      return []
    },
  }
  const speak = step => {
    const [kind, value] = Object.entries(step)[0]
    return (say[kind]?.(value) ?? []).map(event => JSON.stringify(event))
  }
  return rpc(io, (method, params, id) => {
    switch (method) {
      case 'initialize':
        return {
          result: {
            protocolVersion: 1,
            agentCapabilities: { loadSession: true, mcpCapabilities: { http: true, sse: true } },
            authMethods: [{ id: 'cached_token', name: 'cached' }],
          },
        }
      case 'session/new':
        return { result: { sessionId: SESSION } }
      case 'session/prompt':
        io.note({ prompt: params.prompt?.[0]?.text })
        answer = fields => io.out({ jsonrpc: '2.0', id, ...fields })
        setImmediate(() => io.play(speak))
        return undefined
      case 'session/cancel':
        answer?.({ result: { stopReason: 'cancelled' } })
        return undefined
      default:
        return { result: {} }
    }
  })
}

export const dialects = {
  claude: bidirectional,
  codebuddy: bidirectional,
  qwen: lines(wholeStdin, streamJson),
  cursor,
  pi,
  opencode,
  deveco: opencode,
  copilot,
  openclaw,
  antigravity,
  codex,
  hermes: acp,
  kimi: acp,
  kiro: acp,
  qoder: acp,
  traecli: acp,
  grok: acp,
}
