import { expect, test } from 'vitest'
import { collect, SESSION, type Step, standIn, texts, UP, until } from './stand-in/run.js'

const LINE = 'x'.repeat(1000)
const flood = (n: number): Step[] => [
  SESSION,
  ...Array.from({ length: n }, (_, i) => ({ text: `${i} ${LINE}\n` })),
  { done: 'ok' },
]
const numbers = (text: string) => text.split('\n').flatMap(line => (line ? [Number(line.split(' ')[0])] : []))

test('a slow reader gets every message in order', async () => {
  const { run } = standIn('pi', flood(5000))
  const seen: number[] = []
  for await (const message of run) {
    if (message.type !== 'text') continue
    seen.push(...numbers(message.content))
    if (seen.length % 500 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  expect(seen).toEqual(Array.from({ length: 5000 }, (_, i) => i))
  expect(await run.result).toMatchObject({ status: 'completed' })
})

test('a reader that waits longer than the idle limit does not make the run time out', async () => {
  const { run } = standIn('pi', flood(5000), { idleTimeoutMs: 700 })
  await until(run, m => m.type === 'text')
  // Not a synchronisation: the pause itself is what is tested.
  await new Promise(resolve => setTimeout(resolve, 1500))
  const rest = await collect(run)
  expect(numbers(texts(rest)).at(-1)).toBe(4999)
  expect(await run.result).toMatchObject({ status: 'completed' })
})

test('without a reader the oldest messages go, and the first one read says how many', async () => {
  const { run } = standIn('pi', flood(2000), { messageBufferBytes: 100_000 })
  expect(await run.result).toMatchObject({ status: 'completed' })
  const messages = await collect(run)
  const [first] = messages
  expect(first).toMatchObject({ type: 'log', level: 'warn' })
  const dropped = Number(/^(\d+) earlier messages/.exec((first as { content: string }).content)?.[1])
  const kept = numbers(texts(messages))
  expect(kept.at(-1)).toBe(1999)
  // The status message went too.
  expect(dropped + kept.length).toBe(2001)
})

test('a whole big line arrives', async () => {
  const big = 'ü'.repeat(8 * 1024 * 1024)
  const { run } = standIn('pi', [SESSION, { text: big }, { done: '' }])
  const messages = await collect(run)
  expect(texts(messages)).toBe(big)
})

test('cancel ends a run whose reader has stopped reading', async () => {
  const { run } = standIn('pi', flood(5000))
  await until(run, m => m.type === 'text')
  expect(await run.cancel()).toMatchObject({ status: 'aborted' })
})

test('two readers of one run share its messages', async () => {
  const { run } = standIn('pi', UP)
  const pulls = [run.next(), run.next(), run.next()]
  await Promise.all(pulls.slice(0, 2))
  await run.cancel()
  expect(await pulls[2]).toEqual({ value: undefined, done: true })
})
