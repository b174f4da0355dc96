// Shows a run to people: Messages as they come, then the Result. Colour only where a terminal wants it.

/** Whether colour is welcome on a stream. */
export function wantsColour(stream, env = process.env) {
  if (env.NO_COLOR) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0'
  return stream.isTTY === true && env.TERM !== 'dumb'
}

const CODES = { bold: '1', dim: '2', red: '31', green: '32', yellow: '33', cyan: '36' }

/** One function per style; plain text where colour is not wanted. */
export function makePaint(colour) {
  const paint = code => text => (colour ? `\x1b[${code}m${text}\x1b[0m` : text)
  return Object.fromEntries(Object.entries(CODES).map(([name, code]) => [name, paint(code)]))
}

const OUTPUT_LINES = 8

/** What a tool was asked, in one line. */
function inputText(input) {
  if (input === undefined) return ''
  const value = input?.command ?? input?.cmd ?? input?.text ?? input
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

function outputText(output) {
  const lines = output.trimEnd().split(/\r?\n/)
  if (lines.length > OUTPUT_LINES)
    lines.splice(OUTPUT_LINES, lines.length, `… ${lines.length - OUTPUT_LINES} more lines`)
  return lines
}

/**
 * Writes Messages as they come.
 * @param {(text: string) => void} write
 * @param {ReturnType<typeof makePaint>} paint
 */
export function makeMessageView(write, paint) {
  /** The kind whose text the current line holds, since pieces of text share a line. */
  let open
  const endLine = () => {
    if (open) write('\n')
    open = undefined
  }
  const flow = (kind, text) => {
    if (open !== kind) {
      endLine()
      write(`  ${paint.cyan(kind.padEnd(12))}`)
      open = kind
    }
    const styled = text.split('\n').map(piece => (kind === 'thinking' ? paint.dim(piece) : piece))
    write(styled.join(`\n  ${' '.repeat(12)}`))
  }
  const line = (kind, first, ...rest) => {
    endLine()
    write(`  ${paint.cyan(kind.padEnd(12))}${first}\n`)
    for (const more of rest) write(`  ${' '.repeat(12)}${more}\n`)
  }
  return {
    message(message) {
      switch (message.type) {
        case 'text':
        case 'thinking':
          return flow(message.type, message.content)
        case 'tool-use':
          return line('tool-use', `${paint.bold(message.tool)} ${inputText(message.input)}`)
        case 'tool-result':
          return line(
            'tool-result',
            ...outputText(message.output).map(message.isError ? paint.red : paint.dim),
          )
        case 'status':
          return line(
            'status',
            `${message.status}${message.sessionId ? paint.dim(`  session ${message.sessionId}`) : ''}`,
          )
        case 'error':
          return line('error', paint.red(message.content))
        case 'log':
          return line('log', paint.dim(`${message.level}: ${message.content}`))
      }
    },
    end: endLine,
  }
}

const STATUS_STYLE = { completed: 'green', aborted: 'yellow', cancelled: 'yellow' }

/** The lines of a Result. */
export function resultLines(result, paint) {
  const lines = []
  const add = (name, value) => {
    if (value !== undefined && value !== '') lines.push(`  ${paint.cyan(name.padEnd(12))}${value}`)
  }
  add('status', paint.bold(paint[STATUS_STYLE[result.status] ?? 'red'](result.status)))
  add(
    'answer',
    result.output
      .trim()
      .split('\n')
      .join(`\n  ${' '.repeat(12)}`),
  )
  add('so far', result.partialOutput)
  add('error', result.error && paint.red(result.error))
  if (result.failure) {
    const { kind, retryable, hint } = result.failure
    add('failure', `${kind}, ${retryable ? 'worth another try' : 'not worth another try as it is'}`)
    add('hint', hint)
  }
  for (const [model, usage] of Object.entries(result.usage ?? {})) {
    add('tokens', `${usageText(usage)} ${paint.dim(`(${model})`)}`)
  }
  add('time', `${(result.durationMs / 1000).toFixed(2)} s`)
  return lines
}

function usageText({ inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens, costUsdTicks }) {
  const parts = [
    [inputTokens, 'in'],
    [cacheReadTokens, 'from cache'],
    [cacheWriteTokens, 'to cache'],
    [outputTokens, 'out'],
  ]
  const text = parts.flatMap(([count, what]) => (count === undefined ? [] : [`${count} ${what}`]))
  if (costUsdTicks !== undefined) text.push(`$${(costUsdTicks / 1e10).toFixed(4)}`)
  return text.join(', ')
}
