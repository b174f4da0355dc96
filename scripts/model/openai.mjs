// What the two OpenAI wire formats have in common: how they refuse.
import { RETRY_AFTER_SECONDS } from './content.mjs'

const FAILURES = {
  'invalid-request': [
    400,
    'invalid_request_error',
    null,
    'Invalid request: the scripted model refuses this request.',
  ],
  auth: [401, 'invalid_request_error', 'invalid_api_key', 'Incorrect API key provided: sk-fake.'],
  permission: [
    403,
    'invalid_request_error',
    'model_not_allowed',
    'You are not allowed to sample from this model.',
  ],
  'rate-limit': [
    429,
    'requests',
    'rate_limit_exceeded',
    'Rate limit reached for requests. Please try again in 1s.',
  ],
  server: [
    500,
    'server_error',
    null,
    'The server had an error while processing your request. Sorry about that!',
  ],
  overloaded: [503, 'service_unavailable', null, 'That model is currently overloaded with other requests.'],
  overflow: [
    400,
    'invalid_request_error',
    'context_length_exceeded',
    "This model's maximum context length is 200000 tokens. However, your messages resulted in 208310 tokens. Please reduce the length of the messages.",
  ],
}

export function failure({ failure: kind, detail }) {
  const [status, type, code, message] = FAILURES[kind]
  return {
    status,
    headers: kind === 'rate-limit' ? { 'retry-after': String(RETRY_AFTER_SECONDS) } : {},
    body: {
      error: { message: detail ?? message, type, param: kind === 'overflow' ? 'messages' : null, code },
    },
  }
}
