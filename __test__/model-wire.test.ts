import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ANSWER, BIG_BYTES, marker, NARRATION, THOUGHT, USAGE } from '../scripts/model/scenarios.mjs'
import { startModel } from '../scripts/model/server.mjs'

// biome-ignore lint/suspicious/noExplicitAny: the wire is JSON of three formats
type Json = any

let model: Awaited<ReturnType<typeof startModel>>
beforeAll(async () => {
  model = await startModel({ slowMs: 1 })
})
afterAll(() => model.close())

const SHELL_SCHEMA = {
  type: 'object',
  properties: { command: { type: 'string' }, note: { type: 'string' } },
  required: ['command', 'note'],
}

/** One wire format as a client sees it. */
interface Format {
  path: string
  prompt(text: string): Json
  /** The request after the shell tool's output came in, with a reminder of the agent's own behind it. */
  afterTool(text: string): Json
  /** What an answer says, streamed or whole. */
  parse(events: Json[]): Seen
  parseWhole(body: Json): Seen
  usage: Json
}

interface Seen {
  text: string
  thinking: string
  calls: { name: string; args: Json }[]
  usage: Json
  stop: string | undefined
}

const emptySeen = (): Seen => ({ text: '', thinking: '', calls: [], usage: undefined, stop: undefined })

const formats: Record<string, Format> = {
  anthropic: {
    path: '/v1/messages',
    prompt: text => ({
      tools: [{ name: 'Bash', input_schema: SHELL_SCHEMA }],
      messages: [{ role: 'user', content: [{ type: 'text', text }] }],
    }),
    afterTool: text => ({
      tools: [{ name: 'Bash', input_schema: SHELL_SCHEMA }],
      messages: [
        { role: 'user', content: text },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'Bash', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'hi' }] },
        { role: 'user', content: 'A reminder.' },
      ],
    }),
    parse(events) {
      const seen = emptySeen()
      const blocks: Json[] = []
      for (const event of events) {
        if (event.type === 'message_start') seen.usage = { ...event.message.usage }
        if (event.type === 'content_block_start') blocks[event.index] = { ...event.content_block, json: '' }
        if (event.type === 'content_block_delta') {
          const { delta } = event
          if (delta.type === 'text_delta') seen.text += delta.text
          if (delta.type === 'thinking_delta') seen.thinking += delta.thinking
          if (delta.type === 'input_json_delta') blocks[event.index].json += delta.partial_json
        }
        if (event.type === 'message_delta') {
          seen.stop = event.delta.stop_reason
          seen.usage = { ...seen.usage, ...event.usage }
        }
      }
      seen.calls = blocks
        .filter(b => b.type === 'tool_use')
        .map(b => ({ name: b.name, args: JSON.parse(b.json) }))
      return seen
    },
    parseWhole(body) {
      const of = (type: string) => body.content.filter((b: Json) => b.type === type)
      return {
        text: of('text')
          .map((b: Json) => b.text)
          .join(''),
        thinking: of('thinking')
          .map((b: Json) => b.thinking)
          .join(''),
        calls: of('tool_use').map((b: Json) => ({ name: b.name, args: b.input })),
        usage: body.usage,
        stop: body.stop_reason,
      }
    },
    usage: {
      input_tokens: USAGE.input,
      cache_creation_input_tokens: USAGE.cacheWrite,
      cache_read_input_tokens: USAGE.cacheRead,
      output_tokens: USAGE.output,
    },
  },
  chat: {
    path: '/v1/chat/completions',
    prompt: text => ({
      tools: [{ type: 'function', function: { name: 'Bash', parameters: SHELL_SCHEMA } }],
      messages: [
        { role: 'system', content: 'x' },
        { role: 'user', content: text },
      ],
    }),
    afterTool: text => ({
      tools: [{ type: 'function', function: { name: 'Bash', parameters: SHELL_SCHEMA } }],
      messages: [
        { role: 'user', content: text },
        { role: 'assistant', content: null, tool_calls: [] },
        { role: 'tool', tool_call_id: 't', content: 'hi' },
        { role: 'user', content: 'A reminder.' },
      ],
    }),
    parse(events) {
      const seen = emptySeen()
      const calls: Json[] = []
      for (const event of events) {
        if (event.usage) seen.usage = event.usage
        const choice = event.choices[0]
        if (!choice) continue
        seen.text += choice.delta.content ?? ''
        seen.thinking += choice.delta.reasoning_content ?? ''
        for (const { index, function: fn } of choice.delta.tool_calls ?? []) {
          calls[index] ??= { name: fn.name, json: '' }
          calls[index].json += fn.arguments
        }
        seen.stop = choice.finish_reason ?? seen.stop
      }
      seen.calls = calls.map(c => ({ name: c.name, args: JSON.parse(c.json) }))
      return seen
    },
    parseWhole(body) {
      const [{ message, finish_reason: stop }] = body.choices
      return {
        text: message.content ?? '',
        thinking: message.reasoning_content ?? '',
        calls: (message.tool_calls ?? []).map((c: Json) => ({
          name: c.function.name,
          args: JSON.parse(c.function.arguments),
        })),
        usage: body.usage,
        stop,
      }
    },
    usage: {
      prompt_tokens: USAGE.input,
      completion_tokens: USAGE.output,
      total_tokens: USAGE.input + USAGE.output,
      prompt_tokens_details: { cached_tokens: USAGE.cacheRead },
      completion_tokens_details: { reasoning_tokens: USAGE.reasoning },
    },
  },
  responses: {
    path: '/v1/responses',
    prompt: text => ({
      tools: [{ type: 'function', name: 'Bash', parameters: SHELL_SCHEMA }],
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }],
    }),
    afterTool: text => ({
      tools: [{ type: 'function', name: 'Bash', parameters: SHELL_SCHEMA }],
      input: [
        { role: 'user', content: [{ type: 'input_text', text }] },
        { type: 'function_call', call_id: 't', name: 'Bash', arguments: '{}' },
        { type: 'function_call_output', call_id: 't', output: 'hi' },
        { role: 'user', content: 'A reminder.' },
      ],
    }),
    parse(events) {
      const done = events.find(e => e.type === 'response.completed')
      const deltas = (type: string) =>
        events
          .filter(e => e.type === type)
          .map(e => e.delta)
          .join('')
      const seen = done ? this.parseWhole(done.response) : emptySeen()
      // What was streamed and what the finished items say has to be the same.
      if (done) expect(seen.text).toBe(deltas('response.output_text.delta'))
      if (done) expect(seen.thinking).toBe(deltas('response.reasoning_summary_text.delta'))
      expect(events.map(e => e.sequence_number)).toEqual(events.map((_, i) => i))
      return { ...seen, text: deltas('response.output_text.delta') }
    },
    parseWhole(body) {
      const of = (type: string) => body.output.filter((i: Json) => i.type === type)
      return {
        text: of('message')
          .map((i: Json) => i.content[0].text)
          .join(''),
        thinking: of('reasoning')
          .map((i: Json) => i.summary[0].text)
          .join(''),
        calls: of('function_call').map((i: Json) => ({ name: i.name, args: JSON.parse(i.arguments) })),
        usage: body.usage,
        stop: body.status,
      }
    },
    usage: {
      input_tokens: USAGE.input,
      input_tokens_details: { cached_tokens: USAGE.cacheRead },
      output_tokens: USAGE.output,
      output_tokens_details: { reasoning_tokens: USAGE.reasoning },
      total_tokens: USAGE.input + USAGE.output,
    },
  },
}

const bodyOf = async (response: Response): Promise<Json> => response.json()

const post = (format: Format, body: Json, stream: boolean) =>
  fetch(model.url + format.path, { method: 'POST', body: JSON.stringify({ model: 'm', stream, ...body }) })

function parseSse(text: string): Json[] {
  return text
    .split('\n')
    .filter(line => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map(line => JSON.parse(line.slice(6)))
}

async function ask(format: Format, body: Json, stream: boolean): Promise<Seen> {
  const response = await post(format, body, stream)
  expect(response.status).toBe(200)
  return stream ? format.parse(parseSse(await response.text())) : format.parseWhole(await bodyOf(response))
}

describe.each(Object.entries(formats))('%s', (_, format) => {
  describe.each([
    ['streamed', true],
    ['whole', false],
  ])('%s', (_, stream) => {
    const run = (scenario: string) => ask(format, format.prompt(`Do it. ${marker(scenario)}`), stream)

    test('an answer says the text and the usage', async () => {
      expect(await run('text')).toMatchObject({ text: ANSWER, thinking: '', calls: [], usage: format.usage })
    })
    test('thinking comes before the text', async () => {
      expect(await run('thinking')).toMatchObject({ text: ANSWER, thinking: THOUGHT })
    })
    test('a tool call fills every required argument of the offered schema', async () => {
      const { calls, text } = await run('tool')
      expect(text).toBe('')
      expect(calls).toEqual([{ name: 'Bash', args: { command: 'echo hi', note: 'Run a command' } }])
    })
    test('a narrated tool call says something first', async () => {
      expect(await run('narrated-tool')).toMatchObject({ text: NARRATION, calls: [{ name: 'Bash' }] })
    })
    test('two calls come in one answer', async () => {
      expect((await run('multi')).calls.map(c => c.args.command)).toEqual(['echo one', 'echo two'])
    })
    test('a tool output anywhere behind the marked prompt answers the tool', async () => {
      const seen = await ask(format, format.afterTool(`Do it. ${marker('tool')}`), stream)
      expect(seen).toMatchObject({ text: 'The tool said: hi', calls: [] })
    })
    test('an empty answer has no text and still its usage', async () => {
      expect(await run('empty')).toMatchObject({ text: '', thinking: '', calls: [], usage: format.usage })
    })
    test('a big answer has the size it promises', async () => {
      expect((await run('big')).text).toHaveLength(BIG_BYTES)
    })
    test('a slow answer comes whole in the end', async () => {
      const { text } = await run('slow')
      expect(text.startsWith('tick 0 tick 1 ')).toBe(true)
      expect(text.trim().endsWith('tick 59')).toBe(true)
    })
    test('a cut answer breaks the connection after part of it', async () => {
      const response = await post(format, format.prompt(marker('cut')), stream)
      expect(response.status).toBe(200)
      const reader = response.body!.getReader()
      let got = ''
      const drain = async () => {
        for (;;) {
          const { done, value } = await reader.read()
          if (done) return
          got += new TextDecoder().decode(value)
        }
      }
      await expect(drain()).rejects.toThrow()
      expect(got).toContain('Hello')
      if (stream) expect(format.parse(parseSse(got)).stop).toBeUndefined()
    })
  })

  test.each([
    ['error-400', 400],
    ['error-401', 401],
    ['error-403', 403],
    ['error-429', 429],
    ['error-500', 500],
    ['overflow', 400],
  ])('%s is refused with status %i and a message', async (scenario, status) => {
    const response = await post(format, format.prompt(marker(scenario)), true)
    expect(response.status).toBe(status)
    expect(response.headers.get('retry-after')).toBe(status === 429 ? '1' : null)
    const { error } = await bodyOf(response)
    expect(error.message).toMatch(/\w{3}/)
    if (scenario === 'overflow') expect(error.message).toMatch(/maximum/)
  })

  test('without a shell tool a tool scenario answers with text', async () => {
    const { tools: _, ...body } = format.prompt(marker('tool'))
    expect(await ask(format, body, false)).toMatchObject({ text: 'No shell tool was offered.', calls: [] })
  })
})

describe('the tools of the responses format', () => {
  const tool = async (offered: Json) => {
    const body = { model: 'm', input: marker('tool'), tools: [offered] }
    const response = await fetch(`${model.url}/v1/responses`, { method: 'POST', body: JSON.stringify(body) })
    return (await bodyOf(response)).output[0]
  }
  test('a local shell gets an action', async () => {
    expect(await tool({ type: 'local_shell' })).toMatchObject({
      type: 'local_shell_call',
      action: { type: 'exec', command: ['bash', '-lc', 'echo hi'] },
    })
  })
  test('a custom tool gets plain input', async () => {
    expect(await tool({ type: 'custom', name: 'shell' })).toMatchObject({
      type: 'custom_tool_call',
      name: 'shell',
      input: 'echo hi',
    })
  })
  test('a tool in a namespace is called with it', async () => {
    const inner = { name: 'exec_command', parameters: { properties: { cmd: { type: 'array' } } } }
    const call = await tool({ type: 'namespace', name: 'builtin', tools: [inner] })
    expect(call).toMatchObject({ type: 'function_call', name: 'exec_command', namespace: 'builtin' })
    expect(JSON.parse(call.arguments)).toEqual({ cmd: ['bash', '-lc', 'echo hi'] })
  })
})
