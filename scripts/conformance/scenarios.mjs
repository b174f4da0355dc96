// The situations every real CLI is put into, and what must hold in each.
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import * as model from '../model/scenarios.mjs'
import { failure, hasSession, limit, output, status, text, tools, usage } from './checks.mjs'
import { turnRequests } from './observe.mjs'
import { canScan, isAlive, processesOf } from './processes.mjs'

const POLL_MS = 50
const SYSTEM_PROMPT = 'Conformance check: this sentence stands in the system prompt.'

const prompt = (scenario, words = 'Please answer.') => `${words} ${model.marker(scenario)}`

/** A scenario of one plain run. `checks` may depend on the CLI. */
const plain = (name, checks) => ({ name, steps: [{ prompt: prompt(name), checks }] })

const fails = (name, kinds, retryable) =>
  plain(name, () => ({ status: status('failed'), failure: failure(kinds, retryable) }))

const answersOnce = cli => ({
  status: status('completed'),
  output: output(model.ANSWER),
  text: text(model.ANSWER),
  usage: usage(cli.usage),
  session: hasSession,
})

/** Resolves when the model has begun to say something in this run. */
const modelSpeaks = (context, scenario) =>
  context.model.answering(
    request => request.scenario === scenario && request.shell && !context.before.has(request),
  )

/** Cancels while the answer is being written. */
async function cancelInAnswer(run, context) {
  // A run that ended by itself never gets there.
  await Promise.race([modelSpeaks(context, 'slow'), run.result])
  return run.cancel()
}

/** Cancels while the tool's process runs; says which process it was. */
async function cancelInTool(run, context) {
  let over = false
  run.result
    .finally(() => {
      over = true
    })
    .catch(() => {})
  for (;;) {
    const pid = Number(await readFile(context.pidFile, 'utf8').catch(() => ''))
    if (pid > 0) {
      await run.cancel()
      return { pid }
    }
    if (over) return {}
    await delay(POLL_MS)
  }
}

/** Text of an answer that was stopped is the beginning of it, without gaps or repeats. */
function isBeginningOfTicks(seen) {
  const whole = Array.from({ length: 60 }, (_, i) => `tick ${i} `).join('')
  const said = seen.messages
    .filter(message => message.type === 'text')
    .map(message => message.content)
    .join('')
  return whole.startsWith(said)
    ? undefined
    : `the text is no beginning of the answer: ${JSON.stringify(said)}`
}

function toolIsGone(seen) {
  const pid = seen.during?.pid
  if (!pid) return 'the tool never ran'
  return isAlive(pid) ? `the tool's process ${pid} is still alive` : undefined
}

/** The model got the first prompt again: the session really went on. */
function sawHistory(seen) {
  const last = turnRequests(seen).at(-1)
  if (!last) return 'the model was not asked'
  return last.text.includes(FIRST_WORDS) ? undefined : 'the first prompt of the session is not in the request'
}

const FIRST_WORDS = 'Remember the harbour.'

/** Either the whole answer, or a failure: never part of it as if it were all. */
function wholeOrFailed(seen) {
  const { result } = seen
  if (result?.status !== 'completed') return status('failed')(seen)
  if (result.output.length < model.BIG_BYTES - 1)
    return `completed with ${result.output.length} of ${model.BIG_BYTES} characters`
  const said = seen.messages
    .filter(message => message.type === 'text')
    .reduce((sum, m) => sum + m.content.length, 0)
  return said < model.BIG_BYTES - 1 ? `the Messages hold ${said} of ${model.BIG_BYTES} characters` : undefined
}

function emptyOrFailed(seen) {
  const { result } = seen
  if (result?.status === 'failed') return undefined
  if (result?.status !== 'completed') return `status ${result?.status}`
  return result.output === '' ? undefined : `output ${JSON.stringify(result.output)} for an empty answer`
}

// What a shell, an argument parser or a template would eat.
const ODD = `--version "two  words" $HOME %PATH% \`x\` 'q' \\ ä 漢 🎉\n-n next line & | > ${model.marker('text')}`

const LONG_CHARACTERS = 300_000
const LONG = `${model.marker('text')} ${'long '.repeat(LONG_CHARACTERS / 5)}the end`

const arrives = text => seen => {
  if (seen.refused) return undefined
  const wanted = JSON.stringify(text).slice(1, -1)
  return turnRequests(seen).some(request => request.text.includes(wanted))
    ? undefined
    : 'the model did not get the prompt as it was given'
}

const MCP_SECRET = 'mcp-secret-5d1f0c'
const MCP_SERVER = fileURLToPath(new URL('mcp-server.mjs', import.meta.url))

/** Looks at the command lines of the run's processes again and again; gives those that show the secret. */
async function watchCommandLines(run) {
  if (!canScan) return []
  const shown = new Set()
  let over = false
  const end = () => {
    over = true
  }
  run.result.then(end, end)
  while (!over) {
    for (const { command } of await processesOf(run.runId)) {
      if (command.includes(MCP_SECRET)) shown.add(command)
    }
    await delay(POLL_MS)
  }
  return [...shown]
}

/**
 * Each scenario has steps, each a run: `prompt`, `mayRefuse`, `options(cli, earlier)`, `during(run, context)`, and
 * `checks(cli, earlier)` by name. `earlier`: what was seen in the step before.
 */
export const SCENARIOS = [
  plain('text', answersOnce),
  plain('thinking', cli => ({
    ...answersOnce(cli),
    ...(cli.capabilities.thinking && { thinking: text(model.THOUGHT, 'thinking') }),
  })),
  plain('tool', cli => ({
    status: status('completed'),
    output: output(model.ANSWER_AFTER_TOOL),
    text: text(model.ANSWER_AFTER_TOOL),
    tools: tools({ command: 'echo hi', output: 'hi', isError: false }),
    usage: usage(cli.usage),
  })),
  plain('narrated-tool', cli => ({
    status: status('completed'),
    output: output(model.ANSWER_AFTER_TOOL),
    text: text(model.NARRATION + model.ANSWER_AFTER_TOOL),
    tools: tools({ command: 'echo hi', output: 'hi', isError: false }),
    usage: usage(cli.usage),
  })),
  plain('multi', cli => ({
    status: status('completed'),
    output: output(model.ANSWER_AFTER_TOOL),
    tools: tools(
      { command: 'echo one', output: 'one', isError: false },
      { command: 'echo two', output: 'two', isError: false },
    ),
    usage: usage(cli.usage),
  })),
  plain('tool-fail', cli => ({
    status: status('completed'),
    tools: tools({ command: 'echo oops', output: 'oops', isError: true }),
    usage: usage(cli.usage),
  })),
  {
    name: 'system-prompt',
    steps: [
      {
        prompt: prompt('text'),
        options: () => ({ systemPrompt: SYSTEM_PROMPT }),
        checks: cli => ({
          status: status('completed'),
          'system-prompt': seen => {
            const got = turnRequests(seen).some(request => request.text.includes(SYSTEM_PROMPT))
            if (got === cli.capabilities.systemPrompt) return undefined
            return `capabilities say ${cli.capabilities.systemPrompt}, the model ${got ? 'got' : 'did not get'} it`
          },
        }),
      },
    ],
  },
  {
    name: 'odd-prompt',
    steps: [{ prompt: ODD, checks: cli => ({ ...answersOnce(cli), arrives: arrives(ODD) }) }],
  },
  {
    name: 'long-prompt',
    steps: [
      {
        prompt: LONG,
        mayRefuse: 'prompt-too-long',
        checks: () => ({
          status: seen => (seen.refused ? undefined : status('completed')(seen)),
          arrives: arrives(LONG),
        }),
      },
    ],
  },
  {
    name: 'mcp',
    steps: [
      {
        prompt: prompt('tool'),
        options: () => ({
          mcpConfig: {
            mcpServers: {
              plug_server: { command: process.execPath, args: [MCP_SERVER], env: { PROBE_KEY: MCP_SECRET } },
            },
          },
        }),
        during: watchCommandLines,
        checks: cli => ({
          status: status('completed'),
          'tool-offered': seen => {
            // The tool, or the server by name where a CLI connects it beside the turn.
            const wanted = cli.capabilities.mcpConfig !== 'none'
            const got = turnRequests(seen).some(request => /plug_(probe|server)/.test(request.text))
            if (got === wanted) return undefined
            return `capabilities say ${cli.capabilities.mcpConfig}, the model was ${got ? '' : 'not '}offered the tool`
          },
          'secret-hidden': seen =>
            seen.during?.length ? `a secret stands in a command line: ${seen.during}` : undefined,
        }),
      },
    ],
  },
  fails('error-400', ['invalid-request'], false),
  fails('error-401', ['auth'], false),
  fails('error-403', ['permission', 'auth'], false),
  fails('error-429', ['rate-limit'], true),
  fails('error-500', ['provider', 'overloaded'], true),
  fails('overflow', ['context-overflow'], false),
  plain('empty', () => ({ 'empty-or-failed': emptyOrFailed })),
  plain('cut', () => ({
    status: status('failed'),
    failure: failure(['network', 'provider', 'overloaded'], true),
  })),
  {
    name: 'slow-cancel',
    steps: [
      {
        prompt: prompt('slow'),
        during: cancelInAnswer,
        checks: () => ({ status: status('aborted'), beginning: isBeginningOfTicks }),
      },
    ],
  },
  {
    name: 'tool-slow-cancel',
    steps: [
      {
        prompt: prompt('tool-slow'),
        during: cancelInTool,
        checks: () => ({ status: status('aborted'), 'tool-gone': toolIsGone }),
      },
    ],
  },
  {
    name: 'hang-timeout',
    steps: [
      {
        prompt: prompt('hang'),
        options: cli => ({ idleTimeoutMs: cli.idleMs }),
        checks: () => ({
          status: status('timeout'),
          failure: failure(['timeout'], true),
          limit: limit('idle'),
        }),
      },
    ],
  },
  {
    name: 'resume',
    steps: [
      {
        prompt: prompt('tool', FIRST_WORDS),
        checks: () => ({ status: status('completed'), session: hasSession }),
      },
      {
        prompt: prompt('text'),
        options: (_, earlier) => ({ resumeSessionId: earlier.result?.sessionId ?? '' }),
        checks: cli => ({
          ...answersOnce(cli),
          history: sawHistory,
          rejected: seen => {
            const wanted = cli.capabilities.resumeRejection ? false : undefined
            const got = seen.result?.resumeRejected
            return got === wanted ? undefined : `resumeRejected is ${got}, not ${wanted}`
          },
        }),
      },
    ],
  },
  {
    name: 'resume-unknown',
    steps: [
      {
        prompt: prompt('text'),
        options: cli => ({ resumeSessionId: cli.unknownSession }),
        checks: cli => ({
          rejected: seen => {
            const wanted = cli.capabilities.resumeRejection ? true : undefined
            const got = seen.result?.resumeRejected
            return got === wanted ? undefined : `resumeRejected is ${got}, not ${wanted}`
          },
          ...(cli.capabilities.resumeRejection && {
            status: status('failed', 'completed'),
            kind: seen =>
              seen.result?.status === 'completed' ? undefined : failure(['resume-rejected'], false)(seen),
          }),
        }),
      },
    ],
  },
  plain('big', () => ({ 'whole-or-failed': wholeOrFailed })),
]

/** For a CLI that does nothing without an account: it has to say so. */
export const LOGIN_WALL = {
  name: 'login',
  steps: [
    {
      prompt: prompt('text'),
      checks: () => ({ status: status('failed'), failure: failure(['auth'], false) }),
    },
  ],
}
