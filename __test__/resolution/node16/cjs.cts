import agentplug = require('agentplug')

import { execute, type Result } from 'agentplug'

async function main(): Promise<Result> {
  const run: agentplug.Run = execute('claude', 'Hello')
  for await (const batch of run.batches()) void batch.length
  return run.unref().cancel()
}
void main
