// A tiny MCP server over stdio with one tool, to see whether a CLI really got the servers it was given.
import { createInterface } from 'node:readline'

const TOOL = {
  name: 'plug_probe',
  description: 'Gives a word.',
  inputSchema: { type: 'object', properties: {} },
}

const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'probe', version: '1.0.0' },
  }),
  'tools/list': () => ({ tools: [TOOL] }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'plugged' }] }),
  ping: () => ({}),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) continue
  const answer = ANSWERS[method]
  const outcome = answer
    ? { result: answer(params ?? {}) }
    : { error: { code: -32601, message: `No ${method}` } }
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }))
}
