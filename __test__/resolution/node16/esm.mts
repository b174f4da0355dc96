import agentplug, { AgentplugError, execute, type Message, type Result, type Run } from 'agentplug'

const run: Run = execute('claude', 'Hello', { cwd: '/', model: undefined })
for await (const message of run) {
  const seen: Message = message
  void seen
}
const result: Result = await run.result
const same: Run = agentplug.execute('codex', result.output)
await using disposed: Run = same
void disposed
void (new Error() instanceof AgentplugError)
