// npm run demo [-- --provider claude] [-- --real [--prompt "…"]]: agentplug drives a real CLI before your eyes.
// Without --real it needs no account and no model service: the CLI is installed into target/real-cli, gets a home
// of its own, and talks to the scripted model in this process. Nothing stays behind outside target/.

import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { installCli, SetupError } from './lib/install.mjs'
import { REAL_CLIS } from './lib/real-clis.mjs'
import { forgetUserEnvironment, makeRoot, makeSandbox, removeRoot } from './lib/sandbox.mjs'
import { ensureBuilt, ensureInstalled, ROOT } from './lib/setup.mjs'
import { makeMessageView, makePaint, resultLines, wantsColour } from './lib/show.mjs'
import { startModel } from './model/server.mjs'

const OFFLINE = Object.keys(REAL_CLIS).filter(id => !REAL_CLIS[id].loginWall)
const USAGE = `Usage: npm run demo -- [--provider NAME] [--real [--prompt TEXT]]

  --provider NAME  the CLI to drive (default pi). Without --real one of:
                   ${OFFLINE.join(', ')}
  --real           drive the CLI you have installed and logged in to, with your own configuration
  --prompt TEXT    with --real: what to ask (default: a short question about the number 17)`

const REAL_PROMPT = 'Reply with one short sentence: what is special about the number 17? Use no tools.'
const NOTE = 'note.txt'
const DEMO_TIMEOUT_MS = 180_000

const paint = makePaint(wantsColour(process.stdout))
const write = text => process.stdout.write(text)
const step = text => write(`${paint.bold(text)}\n`)

/** What is undone at the end, newest first, and at once when the second Ctrl-C comes. */
const cleanups = []
const leaving = new AbortController()

function onInterrupt() {
  if (leaving.signal.aborted) {
    for (const { atOnce } of cleanups.reverse()) atOnce?.()
    process.exit(130)
  }
  write(`\n${paint.yellow('Stopping. Once more to stop at once.')}\n`)
  leaving.abort()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, onInterrupt)

try {
  process.exitCode = await main()
} catch (error) {
  process.exitCode = leaving.signal.aborted ? 130 : 1
  if (!leaving.signal.aborted) console.error(`${paint.red('The demo could not run.')} ${advice(error)}`)
} finally {
  for (const { undo } of cleanups.reverse()) await undo()
}

async function main() {
  const flags = readFlags()
  if (typeof flags === 'number') return flags
  step('Building agentplug')
  await ensureInstalled()
  await ensureBuilt()
  const { execute } = await import('../index.js')
  const task = flags.real ? await realTask(flags) : await scriptedTask(flags)
  if (leaving.signal.aborted) return 130
  return show(execute, task)
}

function readFlags() {
  let values
  try {
    ;({ values } = parseArgs({
      options: {
        provider: { type: 'string', default: 'pi' },
        real: { type: 'boolean', default: false },
        prompt: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }))
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    return 2
  }
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  if (!values.real && !OFFLINE.includes(values.provider)) {
    console.error(
      `${values.provider} cannot be driven without an account. Log in to it and add --real, or take one of: ${OFFLINE.join(', ')}`,
    )
    return 2
  }
  if (values.prompt !== undefined && !values.real) {
    console.error('--prompt goes with --real: the scripted model knows one story only.')
    return 2
  }
  return values
}

/** A real CLI in a home of its own, on the scripted model. */
async function scriptedTask({ provider: id }) {
  step(`Installing the real ${id} CLI`)
  const cache = path.join(ROOT, 'target', 'real-cli')
  const cli = await installCli(id, { cache, log: line => write(`  ${line}\n`), signal: leaving.signal })
  write(`  ${id} ${cli.version} is in ${path.relative(ROOT, cache)}\n`)
  forgetUserEnvironment()

  const secret = `plug-${randomBytes(3).toString('hex')}`
  const model = await startModel({ scenario: 'demo', scenarios: { demo: demoScenario } })
  cleanups.push({ undo: () => model.close() })
  step(`Starting the scripted model on ${model.url}`)
  const sandbox = await makeSandbox(cli, { url: model.url, root: await scratch() })
  await writeFile(path.join(sandbox.work, NOTE), `The password of the day is ${secret}.\n`)
  return {
    provider: REAL_CLIS[id].provider,
    prompt: `What is the password of the day in ${NOTE}?`,
    options: sandbox.options,
    /** Only a tool that really ran in the work directory can know it. */
    expect: secret,
  }
}

/** Thinks, announces, has the note read by the agent's own shell tool, and answers from what the tool gave. */
function demoScenario({ toolAnswered, toolOutput, shell }) {
  const words = text => text.match(/\S+\s*/g)
  const say = text => ({ text: words(text), pauseMs: 40 })
  if (toolAnswered) {
    const secret = /password of the day is (plug-[0-9a-f]+)/.exec(toolOutput)?.[1]
    return {
      parts: [say(secret ? `The password of the day is ${secret}.` : 'The tool did not show the note.')],
    }
  }
  if (!shell) return { parts: [say('A note')] }
  return {
    parts: [
      { thinking: words('The note is a file. I should read it rather than guess.') },
      say(`I will read ${NOTE}. `),
      { calls: [{ id: 'call_1', command: `cat ${NOTE}` }] },
    ],
  }
}

/** The user's own CLI, configuration and account. */
async function realTask({ provider, prompt = REAL_PROMPT }) {
  return { provider, prompt, options: { cwd: await scratch() } }
}

/** A folder that goes away with the demo. */
async function scratch() {
  const root = await makeRoot('demo-agentplug-')
  cleanups.push({
    undo: () => removeRoot(root),
    atOnce: () => rmSync(root, { recursive: true, force: true }),
  })
  return root
}

async function show(execute, { provider, prompt, options, expect }) {
  step(`execute('${provider}', ${JSON.stringify(prompt)})`)
  const run = execute(provider, prompt, { ...options, signal: leaving.signal, timeoutMs: DEMO_TIMEOUT_MS })
  const view = makeMessageView(write, paint)
  for await (const message of run) view.message(message)
  view.end()
  const result = await run.result
  step('Result')
  write(`${resultLines(result, paint).join('\n')}\n`)
  if (leaving.signal.aborted) return 130
  if (result.status !== 'completed') return 1
  if (expect && !result.output.includes(expect)) {
    console.error(paint.red(`The answer does not hold "${expect}", which the tool should have read.`))
    return 1
  }
  return 0
}

/** What to do about an error, in words. */
function advice(error) {
  const text = error?.message ?? String(error)
  if (error instanceof SetupError || error?.name === 'AgentplugError') return text
  if (text.startsWith('cargo')) {
    return `${text}\nagentplug is built with Rust: install it with rustup (https://rustup.rs) and try again.`
  }
  if (text.startsWith('npm')) return `${text}\nCheck the network and npm's registry, then try again.`
  return error?.stack ?? text
}
