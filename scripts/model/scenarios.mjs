// What the scripted model says. A scenario is a pure function of the turn, so every wire format tells the same story.

/**
 * The token counts of every answer. They differ from each other on purpose: a field that lands in the wrong place
 * shows at once. OpenAI-shaped formats count the cached tokens into the input (1234 = 445 + 789) and the reasoning
 * into the output; the Anthropic format keeps input, cache reads and cache writes apart.
 */
export const USAGE = Object.freeze({
  input: 1234,
  output: 56,
  cacheRead: 789,
  cacheWrite: 321,
  reasoning: 17,
})

export const ANSWER = 'Hello from the scripted model.'
export const THOUGHT = 'Let me think about it.'
export const NARRATION = 'I will run it. '
export const ANSWER_AFTER_TOOL = 'The tool said: hi'
export const BIG_BYTES = 2 * 1024 * 1024

const SLOW_TICKS = 60
const MARKER = /\[\[scenario:([a-z0-9-]+)\]\]/g

/** The marker that makes a prompt ask for a scenario. */
export const marker = scenario => `[[scenario:${scenario}]]`

const words = text => text.match(/\S+\s*/g)
const say = (text, pauseMs = 0) => ({ text: Array.isArray(text) ? text : words(text), pauseMs })
const think = text => ({ thinking: words(text) })
const call = (...commands) => ({ calls: commands.map((command, i) => ({ id: `call_${i + 1}`, command })) })

// Portable where `timeout` is not, and not a bare `sleep`, which some agents refuse to run. The path has slashes on
// Windows too: it passes through a shell and a string.
const slowCommand = pidFile =>
  `node -e "require('fs').writeFileSync('${pidFile.replaceAll('\\', '/')}', String(process.pid)); setTimeout(() => 0, 60000)"`

function withTool(before, ...commands) {
  return ({ toolAnswered, shell }) => {
    if (toolAnswered) return { parts: [say(ANSWER_AFTER_TOOL)] }
    // Side requests (titles, summaries) repeat the prompt and offer no tools.
    if (!shell) return { parts: [say('No shell tool was offered.')] }
    return { parts: [...before, call(...commands)] }
  }
}

const fail = failure => () => ({ failure })
const answer =
  (...parts) =>
  () => ({ parts })

/** Each scenario: (turn, settings) -> `{ parts }`, `{ parts, cut }`, `{ failure }` or `{ silent }`. */
export const SCENARIOS = {
  text: answer(say(ANSWER)),
  thinking: answer(think(THOUGHT), say(ANSWER)),
  tool: withTool([], 'echo hi'),
  'narrated-tool': withTool([say(NARRATION)], 'echo hi'),
  multi: withTool([], 'echo one', 'echo two'),
  'tool-fail': withTool([], 'echo oops >&2; exit 3'),
  'tool-slow': (turn, { pidFile }) => withTool([], slowCommand(pidFile))(turn),
  slow: (_, { slowMs }) => ({
    parts: [
      say(
        Array.from({ length: SLOW_TICKS }, (_, i) => `tick ${i} `),
        slowMs,
      ),
    ],
  }),
  big: answer(
    say(
      Array.from(
        { length: BIG_BYTES / 4096 },
        (_, i) => `${String(i).padStart(6, '0')} ${'x'.repeat(4088)}\n`,
      ),
    ),
  ),
  empty: answer(),
  hang: () => ({ silent: true }),
  cut: () => ({ parts: [say(ANSWER)], cut: true }),
  'error-400': fail('invalid-request'),
  'error-401': fail('auth'),
  'error-403': fail('permission'),
  'error-429': fail('rate-limit'),
  'error-500': fail('server'),
  'error-529': fail('overloaded'),
  overflow: fail('overflow'),
}

/**
 * Reads the state of a conversation from its entries, oldest first: `{ role: 'user' | 'tool' | 'assistant', text }`.
 *
 * The last marked user message decides, so a resumed session follows its newest prompt. A tool counts as answered as
 * soon as any tool entry follows that message: some agents put reminders of their own behind the tool's output.
 */
export function readConversation(entries, fallback) {
  let scenario = fallback
  let from = 0
  entries.forEach((entry, i) => {
    if (entry.role !== 'user') return
    const found = [...entry.text.matchAll(MARKER)].at(-1)
    if (!found) return
    scenario = found[1]
    from = i + 1
  })
  const answers = entries.slice(from).filter(entry => entry.role === 'tool')
  return {
    scenario,
    toolAnswered: answers.length > 0,
    toolOutput: answers.map(entry => entry.text).join('\n'),
  }
}

/** The plan of one answer. `extra` holds scenarios of the caller's own. */
export function plan(turn, settings, extra = {}) {
  const scenario = extra[turn.scenario] ?? SCENARIOS[turn.scenario]
  if (scenario) return scenario(turn, settings)
  return { failure: 'invalid-request', detail: `Unknown scenario: ${turn.scenario}` }
}
