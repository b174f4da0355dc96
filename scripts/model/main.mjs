#!/usr/bin/env node
// The scripted model on its own: `node scripts/model/main.mjs [--port N] [--scenario NAME]`. Ends on Ctrl-C.
import { parseArgs } from 'node:util'
import { startModel } from './server.mjs'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    scenario: { type: 'string' },
    'slow-ms': { type: 'string' },
  },
})
const model = await startModel({
  port: Number(values.port),
  scenario: values.scenario,
  slowMs: values['slow-ms'] === undefined ? undefined : Number(values['slow-ms']),
  onRequest: request => console.error(JSON.stringify(request)),
})
console.log(model.url)
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => model.close())
