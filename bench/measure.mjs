// One measurement of one way to read, in a process of its own: `node measure.mjs '{"way":…,"job":…}'` prints JSON.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { withHandSplit, withReadline } from './plain.mjs'

const { way, job, emit, files, settings } = JSON.parse(process.argv[2])

/** The ways to read a run: each gives an async iterable of Messages, or of arrays of them. */
const WAYS = {
  readline: env => withReadline(emit, env),
  handsplit: env => withHandSplit(emit, env),
  agentplug: env => execute(env),
  batches: env => execute(env).batches(),
}

// Loading is no part of what is measured, for any way.
const agentplug =
  way === 'agentplug' || way === 'batches' ? createRequire(import.meta.url)('../index.js') : undefined

function execute(env) {
  // The stand-in needs no sandbox; claude refuses to run as root without being told of one.
  const run = agentplug.execute('claude', 'Go.', { executablePath: emit, env: { IS_SANDBOX: '1', ...env } })
  lastResult = run.result
  return run
}
let lastResult

// ---- instruments

/** CPU time of this thread in ns; undefined where the system does not tell. */
function threadCpu() {
  if (process.threadCpuUsage) {
    const { user, system } = process.threadCpuUsage()
    return (user + system) * 1000
  }
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0])
  } catch {
    return undefined
  }
}

function peakRssMb() {
  try {
    // Unlike the peak that getrusage tells, this one does not begin with the size of the parent.
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024
  } catch {
    return process.resourceUsage().maxRSS / 1024
  }
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))]

const KINDS = { text: 'content', 'tool-result': 'output' }

/** Reads a run to its end and sums up what came, the same for every way. */
async function consume(source, onMessage = () => {}) {
  let messages = 0
  let textLength = 0
  const take = message => {
    if (message.type !== 'text' && message.type !== 'tool-use' && message.type !== 'tool-result') return
    messages += 1
    const field = KINDS[message.type]
    if (field) textLength += message[field].length
    return onMessage(message, messages)
  }
  for await (const value of source) {
    if (Array.isArray(value)) {
      for (const message of value) {
        const wait = take(message)
        if (wait) await wait
      }
    } else {
      const wait = take(value)
      if (wait) await wait
    }
  }
  return { messages, textLength }
}

/** The Result has to be good: a fast wrong answer is worth nothing. */
async function checkResult() {
  if (!lastResult) return
  const result = await lastResult
  if (result.status !== 'completed') throw new Error(`The run ended ${result.status}: ${result.error}`)
}

// ---- jobs

const streamEnv = () => ({ EMIT_FILE: files[settings.file], EMIT_MODE: settings.mode })

const JOBS = {
  /** One or more streams flat out. */
  async streams() {
    const loop = monitorEventLoopDelay({ resolution: 1 })
    loop.enable()
    const cpu = threadCpu()
    const wholeCpu = process.cpuUsage()
    const from = performance.now()
    const sums = await Promise.all(
      Array.from({ length: settings.streams }, () => consume(WAYS[way](streamEnv()))),
    )
    const wallMs = performance.now() - from
    const cpuNs = cpu === undefined ? undefined : threadCpu() - cpu
    const { user, system } = process.cpuUsage(wholeCpu)
    loop.disable()
    await checkResult()
    const messages = sums.reduce((sum, each) => sum + each.messages, 0)
    return {
      messages,
      textLength: sums.reduce((sum, each) => sum + each.textLength, 0),
      perSecond: (messages / wallMs) * 1000,
      mainCpuUs: cpuNs === undefined ? undefined : cpuNs / 1000 / messages,
      processCpuUs: (user + system) / messages,
      loopP99Ms: loop.percentile(99) / 1e6,
      peakRssMb: peakRssMb(),
    }
  },

  /** How a start weighs on a big parent. */
  async spawn() {
    // Written to, so that the pages are there.
    const ballast = Buffer.alloc(settings.parentMb * 1024 * 1024, 1)
    const blocked = []
    const first = []
    for (let i = 0; i <= settings.count; i += 1) {
      const from = performance.now()
      const source = WAYS[way](streamEnv())
      const iterator = source[Symbol.asyncIterator]()
      // A generator does not start before its first pull.
      const pull = iterator.next()
      const back = performance.now()
      await pull
      const firstAt = performance.now()
      for (let step = await iterator.next(); !step.done; ) step = await iterator.next()
      await checkResult()
      // The first one warms up: code is loaded and the stand-in's version looked at once per process.
      if (i === 0) continue
      blocked.push(back - from)
      first.push(firstAt - from)
    }
    const p50 = values =>
      quantile(
        values.sort((a, b) => a - b),
        0.5,
      )
    return { blockedMs: p50(blocked), firstMs: p50(first), ballast: ballast.length }
  },

  /** From the write in the child to the body of the reader's loop. */
  async latency() {
    const env = {
      EMIT_MODE: 'paced',
      EMIT_COUNT: String(settings.count),
      EMIT_GAP_MS: String(settings.gapMs),
    }
    const took = []
    const { messages } = await consume(WAYS[way](env), message => {
      if (message.type === 'text')
        took.push((performance.timeOrigin + performance.now()) * 1000 - Number(message.content))
    })
    await checkResult()
    took.sort((a, b) => a - b)
    return { messages, p50Us: quantile(took, 0.5), p99Us: quantile(took, 0.99) }
  },

  /** A reader that is slower than the child. */
  async slowReader() {
    const sums = await consume(WAYS[way](streamEnv()), (_, n) =>
      n % settings.every === 0 ? delay(1) : undefined,
    )
    await checkResult()
    return { ...sums, peakRssMb: peakRssMb() }
  },
}

console.log(JSON.stringify(await JOBS[job]()))
