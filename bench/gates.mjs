// What is measured and which ratios count as good: each gate is "at least so many times better than this way".

export const WAYS = ['readline', 'handsplit', 'agentplug', 'batches']

export const WAY_TEXT = {
  readline: 'plain Node: spawn, readline, JSON.parse, async generator',
  handsplit: 'plain Node: hand-split lines, JSON.parse, hand-written iterator with pause and resume',
  agentplug: 'agentplug, one Message at a time',
  batches: 'agentplug, run.batches()',
}

/** `better`: whether more or less of the value is better. `gates`: for agentplug, against each plain way. */
const more = (key, text, unit, gates) => ({ key, text, unit, better: 'more', gates })
const less = (key, text, unit, gates) => ({ key, text, unit, better: 'less', gates })

const cpu = gates => less('mainCpuUs', 'main-thread CPU per Message', 'µs', gates)
const throughput = gates => more('perSecond', 'Messages per second', '/s', gates)
const loop = gates => less('loopP99Ms', 'event-loop delay, p99', 'ms', gates)
const wholeCpu = less('processCpuUs', 'CPU of the whole process per Message', 'µs', {})
const rss = less('peakRssMb', 'peak memory', 'MB', {})

const streams = (mix, mode, count = 1) => ({ file: mix, mode, streams: count })

/** `lines`: size of each workload file at full and at quick length. */
export const FILES = {
  small: { mix: 'small', lines: 120_000, quick: 40_000 },
  full: { mix: 'full', lines: 60_000, quick: 25_000 },
  share: { mix: 'small', lines: 10_000, quick: 4_000 },
  one: { mix: 'small', lines: 1, quick: 1 },
}

export const CASES = [
  {
    id: 'small-lines',
    title: 'One stream of small events, one write per line',
    job: 'streams',
    settings: streams('small', 'lines'),
    values: [
      cpu({ readline: 5, handsplit: 3 }),
      throughput({ readline: 2.5, handsplit: 1.5 }),
      loop({}),
      wholeCpu,
      rss,
    ],
  },
  {
    id: 'small-chunks',
    title: 'One stream of small events, in 64 KB writes',
    job: 'streams',
    settings: streams('small', 'chunks'),
    values: [cpu({}), throughput({ readline: 2.5 }), loop({}), wholeCpu, rss],
  },
  {
    id: 'full-chunks',
    title: 'One stream with 4 KB tool results and lines of 1 MB, in 64 KB writes',
    job: 'streams',
    settings: streams('full', 'chunks'),
    values: [cpu({ readline: 4.5, handsplit: 2.5 }), throughput({ readline: 2.5 }), loop({}), wholeCpu, rss],
  },
  {
    id: 'many',
    title: '32 streams at once, flat out, one write per line',
    job: 'streams',
    settings: streams('share', 'lines', 32),
    values: [
      throughput({ readline: 3, handsplit: 1.8 }),
      loop({ readline: 3, handsplit: 2 }),
      cpu({}),
      wholeCpu,
      rss,
    ],
  },
  {
    id: 'spawn',
    title: 'Starting a run from a process of 1 GB',
    job: 'spawn',
    // Both plain ways start the child alike.
    ways: ['readline', 'agentplug'],
    settings: { file: 'one', mode: 'lines', parentMb: 1024, count: 10 },
    values: [
      less('blockedMs', 'main thread blocked, p50', 'ms', { readline: 100 }),
      less('firstMs', 'time to the first Message, p50', 'ms', { readline: 10 }),
    ],
  },
  {
    id: 'latency',
    title: 'A single event each 5 ms, from the write in the child to the body of the loop',
    job: 'latency',
    settings: { count: 200, gapMs: 5 },
    values: [
      less('p50Us', 'latency, p50', 'µs', { readline: 1 / 1.2, handsplit: 1 / 1.2 }),
      less('p99Us', 'latency, p99', 'µs', {}),
    ],
  },
  {
    id: 'slow-reader',
    title: 'A reader that rests 1 ms after every 50 Messages',
    job: 'slowReader',
    rounds: 1,
    settings: { ...streams('full', 'chunks'), every: 50 },
    values: [less('peakRssMb', 'peak memory', 'MB', { handsplit: 1 })],
  },
]

export function median(values) {
  const sorted = values.filter(value => value !== undefined).sort((a, b) => a - b)
  if (sorted.length === 0) return undefined
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/**
 * How many times better `way` is than `plain`: the median over the rounds of each round's own ratio, so that what
 * disturbs one round disturbs both sides of it.
 */
export function ratio(rounds, value, way, plain) {
  return median(
    rounds.map(round => {
      const [mine, other] = [round[way]?.[value.key], round[plain]?.[value.key]]
      if (mine === undefined || other === undefined) return undefined
      return value.better === 'more' ? mine / other : other / mine
    }),
  )
}
