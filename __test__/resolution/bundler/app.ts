import { type ExecuteOptions, execute, type Provider, providers } from 'agentplug'

const options: ExecuteOptions = { signal: new AbortController().signal, timeoutMs: undefined }
const provider: Provider | undefined = providers[0]
if (provider) void execute(provider, 'Hello', options).result.then(result => result.usage)
