// npm run bench [-- --quick] [-- --only case,…] [-- --rounds N] [-- --json FILE]: agentplug beside plain Node.js in
// one run, interleaved, as ratios. It says which of the project's gates hold here and now. It is no test: on a busy
// machine numbers move.

import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { CASES, FILES, median, ratio, WAY_TEXT, WAYS } from '../bench/gates.mjs'
import { writeWorkload } from '../bench/workload.mjs'
import { ensureBuilt, ensureInstalled, must, ROOT } from './lib/setup.mjs'

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    json: { type: 'string' },
    // For work on the benchmark itself: measure the addon that is there.
    'no-build': { type: 'boolean', default: false },
  },
})
const rounds = Number(flags.rounds ?? (flags.quick ? 1 : 3))
const wanted = flags.only?.split(',')
const unknown = wanted?.filter(id => !CASES.some(each => each.id === id)) ?? []
if (unknown.length > 0 || !(rounds >= 1)) {
  console.error(
    `Usage: npm run bench -- [--quick] [--rounds N] [--only ${CASES.map(each => each.id).join(',')}]`,
  )
  process.exit(2)
}
const cases = CASES.filter(each => !wanted || wanted.includes(each.id))

if (!flags['no-build']) {
  await ensureInstalled()
  await ensureBuilt({ release: true })
}
const emit = await buildEmitter()
const folder = await mkdtemp(path.join(tmpdir(), 'bench-agentplug-'))
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => stop.abort())
try {
  const results = await measureAll(await writeFiles())
  report(results)
  if (flags.json) writeFileSync(flags.json, `${JSON.stringify(results, null, 2)}\n`)
} catch (error) {
  if (!stop.signal.aborted) throw error
  console.error('Interrupted.')
  process.exitCode = 130
} finally {
  await rm(folder, { recursive: true, force: true })
}

async function buildEmitter() {
  const source = path.join(ROOT, 'bench/emit.rs')
  const target = path.join(ROOT, 'target/bench', process.platform === 'win32' ? 'emit.exe' : 'emit')
  if (!existsSync(target) || statSync(target).mtimeMs < statSync(source).mtimeMs) {
    mkdirSync(path.dirname(target), { recursive: true })
    await must('rustc', ['--edition', '2024', '-O', '-o', target, source])
  }
  return target
}

async function writeFiles() {
  const files = {}
  for (const [name, { mix, lines, quick }] of Object.entries(FILES)) {
    files[name] = await writeWorkload(path.join(folder, `${name}.jsonl`), mix, flags.quick ? quick : lines)
  }
  return files
}

/** Round by round, all ways beside each other in an order that changes. */
async function measureAll(files) {
  const paths = Object.fromEntries(Object.entries(files).map(([name, file]) => [name, file.file]))
  const results = []
  for (const each of cases) {
    const result = { id: each.id, rounds: [] }
    const count = each.rounds ?? rounds
    for (let round = 0; round < count; round += 1) {
      const measured = {}
      for (const way of shuffled(each.ways ?? WAYS)) {
        progress(`${each.id}, round ${round + 1} of ${count}, ${way}`)
        measured[way] = await measure({ way, job: each.job, settings: each.settings, files: paths, emit })
        checkSums(each, files, way, measured[way])
      }
      result.rounds.push(measured)
    }
    results.push(result)
  }
  progress('')
  return results
}

/** Speed counts only for what came whole. */
function checkSums({ id, settings }, files, way, { messages, textLength }) {
  const file = files[settings.file]
  if (!file || textLength === undefined) return
  const streams = settings.streams ?? 1
  if (messages === file.messages * streams && textLength === file.textLength * streams) return
  throw new Error(
    `${id}: ${way} gave ${messages} Messages with ${textLength} characters, not ` +
      `${file.messages * streams} with ${file.textLength * streams}`,
  )
}

function measure(task) {
  return new Promise((resolve, reject) => {
    const script = path.join(ROOT, 'bench/measure.mjs')
    const child = spawn(process.execPath, [script, JSON.stringify(task)], {
      signal: stop.signal,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.setEncoding('utf8').on('data', piece => {
      text += piece
    })
    child.on('error', reject)
    child.on('close', code =>
      code === 0
        ? resolve(JSON.parse(text))
        : reject(new Error(`measuring ${task.way} failed (exit ${code})`)),
    )
  })
}

function shuffled(list) {
  const copy = [...list]
  for (let i = copy.length - 1; i > 0; i -= 1) {
    const j = Math.floor(Math.random() * (i + 1))
    ;[copy[i], copy[j]] = [copy[j], copy[i]]
  }
  return copy
}

function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

// ---- report

function report(results) {
  console.log(
    `Node ${process.version}, ${process.platform}-${process.arch}, ${cpus().length} cores, load ${loadavg()[0].toFixed(1)}`,
  )
  for (const way of WAYS) console.log(`  ${way.padEnd(10)} ${WAY_TEXT[way]}`)
  const verdicts = []
  for (const { id, rounds: measured } of results) {
    const each = CASES.find(one => one.id === id)
    const ways = each.ways ?? WAYS
    console.log(`\n${each.title}`)
    console.log(row('', [...ways, 'x readline', 'x handsplit']))
    for (const value of each.values) {
      const cells = ways.map(way =>
        format(median(measured.map(round => round[way]?.[value.key])), value.unit),
      )
      const ratios = ['readline', 'handsplit'].map(plain => ratio(measured, value, 'agentplug', plain))
      console.log(row(`${value.text}`, [...cells, ...ratios.map(times)]))
      for (const [plain, gate] of Object.entries(value.gates)) {
        const reached = ratio(measured, value, 'agentplug', plain)
        verdicts.push({ text: `${each.title}: ${value.text}, against ${plain}`, gate, reached })
      }
    }
  }
  console.log('\nGates')
  for (const { text, gate, reached } of verdicts) {
    const verdict =
      reached === undefined ? 'not measurable here' : reached >= gate ? 'holds' : 'DOES NOT HOLD'
    console.log(`  ${verdict.padEnd(19)} ${times(reached).padStart(8)} (gate ${times(gate).trim()})  ${text}`)
  }
  const held = verdicts.filter(each => each.reached >= each.gate).length
  console.log(`${held} of ${verdicts.length} gates hold.`)
}

function row(name, cells) {
  return `  ${name.padEnd(38)}${cells.map(cell => cell.padStart(13)).join('')}`
}

function times(value) {
  return value === undefined ? '-' : `${value >= 100 ? value.toFixed(0) : value.toFixed(2)}x`
}

function format(value, unit) {
  if (value === undefined) return '-'
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2
  return `${value.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))/g, value >= 1000 ? ',' : '')} ${unit}`
}
