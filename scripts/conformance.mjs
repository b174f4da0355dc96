// npm run conformance [-- provider…] [-- --scenario a,b] [-- --out FOLDER]: drives real CLIs through the public API
// against the scripted model, over every situation of conformance/scenarios.mjs. Needs no account. The CLIs are
// installed at exact versions into a cache outside the repository (AGENTPLUG_CLI_CACHE, else the user's cache folder).

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { ALWAYS } from './conformance/checks.mjs'
import { KNOWN } from './conformance/known.mjs'
import { observe } from './conformance/observe.mjs'
import { canScan } from './conformance/processes.mjs'
import { markdown, table } from './conformance/report.mjs'
import { LOGIN_WALL, SCENARIOS } from './conformance/scenarios.mjs'
import { defaultCache, installCli, SetupError } from './lib/install.mjs'
import { REAL_CLIS } from './lib/real-clis.mjs'
import { forgetUserEnvironment, makeRoot, makeSandbox, removeRoot } from './lib/sandbox.mjs'
import { ensureBuilt, ensureInstalled, ROOT } from './lib/setup.mjs'
import { makeMessageView, makePaint, wantsColour } from './lib/show.mjs'
import { startModel } from './model/server.mjs'

const USAGE = `Usage: npm run conformance -- [provider…] [--scenario a,b] [--out FOLDER] [--verbose]

  providers  ${Object.keys(REAL_CLIS).join(', ')} (default: all)
  scenarios  ${SCENARIOS.map(each => each.name).join(', ')} (default: all)
  --out      writes conformance.json and conformance.md there
  --verbose  shows every Message`

const RUN_LIMIT_MS = 60_000
const IDLE_LIMIT_MS = 12_000
const UNKNOWN_UUID = '00000000-0000-4000-8000-000000000000'

const paint = makePaint(wantsColour(process.stdout))
const write = text => process.stdout.write(text)
const leaving = new AbortController()
/** Undone at the end, newest first. */
const cleanups = []

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (leaving.signal.aborted) process.exit(130)
    write(`\n${paint.yellow('Stopping after the present run. Once more to stop at once.')}\n`)
    leaving.abort()
  })
}

try {
  process.exitCode = await main()
} catch (error) {
  if (leaving.signal.aborted) process.exitCode = 130
  else {
    process.exitCode = 1
    console.error(error instanceof SetupError ? error.message : error)
  }
} finally {
  for (const undo of cleanups.reverse()) await undo()
}

async function main() {
  const { values: flags, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      scenario: { type: 'string' },
      out: { type: 'string' },
      verbose: { type: 'boolean', short: 'v', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const ids = positionals.length > 0 ? positionals : Object.keys(REAL_CLIS)
  const names = flags.scenario?.split(',')
  const unknown = [
    ...ids.filter(id => !REAL_CLIS[id]),
    ...(names ?? []).filter(name => !SCENARIOS.some(each => each.name === name)),
  ]
  if (flags.help || unknown.length > 0) {
    if (unknown.length > 0) console.error(`Unknown: ${unknown.join(', ')}\n`)
    console.log(USAGE)
    return flags.help ? 0 : 2
  }

  await ensureInstalled()
  await ensureBuilt()
  const agentplug = await import('../index.js')
  const cache = defaultCache()
  const clis = []
  for (const id of ids) {
    clis.push(await installCli(id, { cache, log: line => write(`${line}\n`), signal: leaving.signal }))
  }
  forgetUserEnvironment()
  if (!canScan) write('Processes left behind cannot be seen on this system; that check is left out.\n')

  const report = {
    date: new Date().toISOString(),
    agentplug: JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')).version,
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    clis: [],
  }
  for (const cli of clis) {
    if (leaving.signal.aborted) break
    report.clis.push(await proveCli(cli, agentplug, { names, verbose: flags.verbose }))
  }
  write(`\n${table(report, paint)}\n`)
  if (flags.out) {
    mkdirSync(flags.out, { recursive: true })
    writeFileSync(path.join(flags.out, 'conformance.json'), `${JSON.stringify(report, null, 2)}\n`)
    writeFileSync(path.join(flags.out, 'conformance.md'), markdown(report))
  }
  if (leaving.signal.aborted) return 130
  const all = report.clis.flatMap(cli => cli.scenarios)
  const count = verdict => all.filter(each => each.verdict === verdict).length
  write(`${count('pass')} passed, ${count('known')} differ as known, ${count('fail')} failed\n`)
  return count('fail') > 0 ? 1 : 0
}

/** All scenarios on one CLI, with one home and one model unless the CLI carries something over between runs. */
async function proveCli(installed, agentplug, { names, verbose }) {
  const entry = REAL_CLIS[installed.id]
  const cli = {
    id: installed.id,
    provider: entry.provider,
    usage: entry.usage,
    capabilities: agentplug.capabilities(entry.provider),
    idleMs: entry.idleMs ?? IDLE_LIMIT_MS,
    limitMs: entry.limitMs ?? RUN_LIMIT_MS,
    unknownSession: entry.unknownSession ?? UNKNOWN_UUID,
  }
  write(`\n${paint.bold(`${installed.id} ${installed.version}`)}\n`)
  const wanted = entry.loginWall
    ? [LOGIN_WALL]
    : SCENARIOS.filter(each => !names || names.includes(each.name))
  const groups = entry.freshHomes ? wanted.map(each => [each]) : [wanted]
  const scenarios = []
  for (const group of groups) {
    await inPlace(installed, async place => {
      for (const scenario of group) {
        if (leaving.signal.aborted) return
        scenarios.push(await proveScenario(scenario, { cli, execute: agentplug.execute, verbose, ...place }))
      }
    })
  }
  return { id: installed.id, version: installed.version, scenarios }
}

/** A sandbox and a model that go away afterwards, also when the process is told to end. */
async function inPlace(installed, use) {
  // The URL of the model goes into the configuration, and a path of the sandbox into what the model says.
  const root = await makeRoot('conformance-agentplug-')
  const pidFile = path.join(root, 'slow-tool.pid')
  const model = await startModel({ pidFile })
  const undo = async () => {
    await model.close()
    await removeRoot(root)
  }
  cleanups.push(undo)
  const sandbox = await makeSandbox(installed, { url: model.url, root })
  // Ours alone, so that every temporary file of agentplug in it is one of these runs'.
  const hostTemp = path.join(root, 'host-tmp')
  await mkdir(hostTemp)
  for (const name of ['TMPDIR', 'TEMP', 'TMP']) process.env[name] = hostTemp
  await use({ model, sandbox, pidFile })
  cleanups.splice(cleanups.indexOf(undo), 1)
  await undo()
}

async function proveScenario(scenario, { cli, model, sandbox, pidFile, execute, verbose }) {
  const work = path.join(sandbox.work, scenario.name)
  await mkdir(work, { recursive: true })
  const checks = []
  const from = performance.now()
  let earlier
  for (const step of scenario.steps) {
    const context = { model, pidFile, before: new Set(model.requests) }
    const options = {
      ...sandbox.options,
      cwd: work,
      timeoutMs: cli.limitMs,
      signal: leaving.signal,
      ...step.options?.(cli, earlier),
    }
    const { prompt, mayRefuse } = step
    const task = { provider: cli.provider, prompt, mayRefuse, options, model }
    const seen = await observe(execute, task, step.during && (run => step.during(run, context)))
    if (verbose) showRun(seen)
    for (const [name, check] of Object.entries({ ...ALWAYS, ...step.checks(cli, earlier) })) {
      checks.push(judge(cli.id, scenario.name, name, check(seen)))
    }
    earlier = seen
  }
  const verdict = ['fail', 'known'].find(each => checks.some(check => check.verdict === each)) ?? 'pass'
  const seconds = (performance.now() - from) / 1000
  showVerdict(scenario.name, verdict, seconds, checks)
  return { name: scenario.name, verdict, seconds, checks }
}

function judge(id, scenario, name, problem) {
  const reason = KNOWN[id]?.[`${scenario}.${name}`] ?? KNOWN[id]?.[`*.${name}`]
  const gone = !problem && KNOWN[id]?.[`${scenario}.${name}`]
  const verdict = problem ? (reason ? 'known' : 'fail') : gone ? 'gone' : 'pass'
  return { name, verdict, ...(problem && { problem }), ...((problem || gone) && reason && { reason }) }
}

function showVerdict(name, verdict, seconds, checks) {
  const style = { pass: paint.green, known: paint.yellow, fail: paint.red }[verdict]
  const word = { pass: 'ok', known: 'known', fail: 'FAIL' }[verdict]
  write(`  ${style(word.padEnd(6))} ${name.padEnd(18)} ${seconds.toFixed(1).padStart(6)} s\n`)
  for (const check of checks) {
    if (check.verdict === 'fail') write(`         ${paint.red(check.name)}: ${check.problem}\n`)
    if (check.verdict === 'known') write(`         ${check.name}: ${paint.dim(check.reason)}\n`)
    if (check.verdict === 'gone') write(`         ${check.name}: known to differ, but it does not any more\n`)
  }
}

function showRun(seen) {
  const view = makeMessageView(write, paint)
  for (const message of seen.messages) {
    view.message(
      message.content?.length > 400 ? { ...message, content: `${message.content.slice(0, 400)}…` } : message,
    )
  }
  view.end()
  const { output, ...rest } = seen.result ?? {}
  write(`  ${paint.dim(JSON.stringify({ ...rest, output: output?.slice(0, 400) }))}\n`)
}
