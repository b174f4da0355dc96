// Small helpers the wire formats share.

/** The text of a message content in any of its shapes: a string, a block, or a list of blocks. */
export function textOf(content) {
  if (typeof content === 'string') return content
  if (Array.isArray(content)) return content.map(textOf).filter(Boolean).join('\n')
  if (content && typeof content === 'object') return content.text ?? textOf(content.content ?? content.output)
  return ''
}

/** The whole text of one kind of part, as an answer that is not streamed gives it. */
export const joined = (plan, kind) => plan.parts.flatMap(part => part[kind] ?? []).join('')

export const callsOf = plan => plan.parts.flatMap(part => part.calls ?? [])

/** Yielded by a format in the middle of an answer: the connection breaks here, and nothing behind it is sent. */
export const CUT = Symbol('cut')

/** Retry hint of a rate limit, in seconds: short, so that agents which follow it do not make a run long. */
export const RETRY_AFTER_SECONDS = 1
