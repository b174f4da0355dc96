// Synthetic stdout of a busy claude run, in its partial-messages mode: text deltas, then the finished message with
// its tool call, and for the full mix tool results and a few very long lines.
import { createWriteStream } from 'node:fs'
import { finished } from 'node:stream/promises'

const SESSION = '0b9f3a52-5c1e-4d0e-9a37-2f6f0c1d8e44'
const DELTA_TEXT = 'The next step is to read the file and see what it does. '.slice(0, 40)
const TOOL_RESULT_BYTES = 4 * 1024
const LONG_LINE_BYTES = 1024 * 1024

/** Share of lines per mix; the rest are text deltas. `longEvery`: one line of 1 MB per so many lines. */
export const MIXES = {
  small: { deltasPerTurn: 6, toolResultPerTurn: 0, longEvery: 0 },
  full: { deltasPerTurn: 6, toolResultPerTurn: 0.6, longEvery: 20000 },
}

const event = value => ({ type: 'stream_event', event: value, session_id: SESSION, parent_tool_use_id: null })

/** Yields lines of a turn and says what the right Messages of it are. */
function turn(n, mix, expected) {
  const id = `msg_${n}`
  const lines = [event({ type: 'message_start', message: { id, model: 'claude-sonnet-4-5', usage: USAGE } })]
  let text = ''
  for (let i = 0; i < mix.deltasPerTurn; i += 1) {
    const piece = `${DELTA_TEXT}${n}.${i} `
    text += piece
    lines.push(event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: piece } }))
    expected.messages += 1
    expected.textLength += piece.length
  }
  const input = {
    command: `sed -n ${n},${n + 40}p src/file_${n % 97}.ts`,
    description: 'Read the next part of the file',
  }
  const call = { type: 'tool_use', id: `toolu_${n}`, name: 'Bash', input }
  lines.push({
    type: 'assistant',
    message: {
      id,
      type: 'message',
      role: 'assistant',
      model: 'claude-sonnet-4-5',
      content: [{ type: 'text', text }, call],
      stop_reason: 'tool_use',
      usage: USAGE,
    },
    parent_tool_use_id: null,
    session_id: SESSION,
  })
  expected.messages += 1
  return lines
}

const USAGE = {
  input_tokens: 10,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 1000,
  output_tokens: 20,
}

function toolResult(n, bytes, expected) {
  const content = `${'const value = compute(input)\n'.repeat(Math.ceil(bytes / 29))}`.slice(0, bytes)
  expected.messages += 1
  expected.textLength += content.length
  return {
    type: 'user',
    message: {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: `toolu_${n}`, content, is_error: false }],
    },
    parent_tool_use_id: null,
    session_id: SESSION,
  }
}

/**
 * Writes about `lines` lines of a mix to `file`.
 * @returns {Promise<{ file: string, lines: number, bytes: number, messages: number, textLength: number }>} What any
 *   right reader reports: Messages of kinds text, tool-use and tool-result, and the summed length of their texts.
 */
export async function writeWorkload(file, mixName, lines) {
  const mix = MIXES[mixName]
  const expected = { file, lines: 0, bytes: 0, messages: 0, textLength: 0 }
  const out = createWriteStream(file)
  const put = async values => {
    const text = values.map(value => `${JSON.stringify(value)}\n`).join('')
    expected.lines += values.length
    expected.bytes += text.length
    if (!out.write(text)) await new Promise(resolve => out.once('drain', resolve))
  }
  await put([
    { type: 'system', subtype: 'init', session_id: SESSION, model: 'claude-sonnet-4-5', tools: ['Bash'] },
  ])
  let owed = 0
  let nextLong = mix.longEvery
  for (let n = 0; expected.lines < lines; n += 1) {
    await put(turn(n, mix, expected))
    owed += mix.toolResultPerTurn
    if (owed >= 1) {
      owed -= 1
      const long = nextLong > 0 && expected.lines >= nextLong
      if (long) nextLong += mix.longEvery
      await put([toolResult(n, long ? LONG_LINE_BYTES : TOOL_RESULT_BYTES, expected)])
    }
  }
  await put([
    {
      type: 'result',
      subtype: 'success',
      is_error: false,
      result: 'done',
      session_id: SESSION,
      usage: USAGE,
    },
  ])
  out.end()
  await finished(out)
  return expected
}
