// The tools that prove agentplug on real CLIs have to be able to fail.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { ratio } from '../bench/gates.mjs'
import { writeWorkload } from '../bench/workload.mjs'
import * as checks from '../scripts/conformance/checks.mjs'
import { KNOWN } from '../scripts/conformance/known.mjs'
import { markdown } from '../scripts/conformance/report.mjs'
import { SCENARIOS } from '../scripts/conformance/scenarios.mjs'
import { atLeast, installCli, SetupError, sourceOf } from '../scripts/lib/install.mjs'
import { REAL_CLIS } from '../scripts/lib/real-clis.mjs'
import { makeRoot, makeSandbox, removeRoot } from '../scripts/lib/sandbox.mjs'
import { makeMessageView, makePaint, resultLines, wantsColour } from '../scripts/lib/show.mjs'

const folders: string[] = []
const scratch = async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'tools-test-'))
  folders.push(folder)
  return folder
}
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

describe('the table of CLIs', () => {
  test('versions compare by number', () => {
    expect(atLeast('22.19.0', '22.19.0')).toBe(true)
    expect(atLeast('v22.9.1', '22.19.0')).toBe(false)
    expect(atLeast('24.0.0', '22.19.0')).toBe(true)
  })

  test('the Node at hand decides which pi is installed', () => {
    expect(sourceOf('pi', '20.20.2').version).toBe('0.74.2')
    expect(sourceOf('pi', '22.18.0').version).toBe('0.74.2')
    expect(sourceOf('pi', '22.19.0').version).toBe('1.6.0')
    expect(() => sourceOf('pi', '18.0.0')).toThrow(SetupError)
  })

  test.each(Object.entries(REAL_CLIS))(
    '%s has exact versions and talks to the given address only',
    (_, cli) => {
      for (const source of cli.sources) expect(source.version).toMatch(/^\d+\.\d+\.\d+$/)
      const { env, files } = cli.configure({ home: '/home/x', url: 'http://127.0.0.1:1' })
      const text = JSON.stringify([env, files])
      for (const [url] of text.matchAll(/https?:\/\/[^/"\\]+/g)) expect(url).toBe('http://127.0.0.1:1')
    },
  )

  test('a sandbox holds home, work and configuration in one folder that goes as a whole', async () => {
    const root = await makeRoot('tools-test-')
    const cli = { id: 'pi', executable: '/x/pi', path: ['/node24'] }
    const { home, work, options } = await makeSandbox(cli, { url: 'http://127.0.0.1:1', root })
    expect([home, work].map(folder => path.dirname(folder))).toEqual([root, root])
    expect(await readFile(path.join(home, '.pi/agent/models.json'), 'utf8')).toContain(
      'http://127.0.0.1:1/v1',
    )
    expect(options).toMatchObject({ cwd: work, executablePath: '/x/pi', env: { HOME: home } })
    expect(options.env.PATH.startsWith(`/node24${path.delimiter}`)).toBe(true)
    await removeRoot(root)
    await expect(readFile(path.join(home, '.pi/agent/models.json'))).rejects.toThrow('ENOENT')
  })

  test('an installer that fails says what it printed and what to do', async () => {
    const cache = await scratch()
    const before = process.env.npm_execpath
    const npm = path.join(cache, 'npm.js')
    await writeFile(npm, 'console.error("no route"); process.exit(7)')
    process.env.npm_execpath = npm
    try {
      await expect(installCli('qwen', { cache })).rejects.toThrow(
        /exit 7[\s\S]*no route[\s\S]*run this again/,
      )
    } finally {
      if (before === undefined) delete process.env.npm_execpath
      else process.env.npm_execpath = before
    }
  })
})

describe('conformance checks', () => {
  // biome-ignore lint/suspicious/noExplicitAny: a run as the observer writes it down, partly
  const seen = (more: object): any => ({
    messages: [],
    late: 0,
    results: [{}],
    requests: [],
    leftTemps: [],
    leftProcesses: [],
    ...more,
    // biome-ignore lint/suspicious/noExplicitAny: partly
    result: { status: 'completed', output: '', ...(more as any).result },
  })
  const use = (callId: string, command = 'echo hi') => ({
    type: 'tool-use',
    callId,
    tool: 'sh',
    input: { command },
  })
  const result = (callId: string, output = 'hi') => ({ type: 'tool-result', callId, output })

  test('a run that ended well passes all that always holds', () => {
    const run = seen({ messages: [use('1'), result('1'), { type: 'text', content: 'a' }] })
    for (const [name, check] of Object.entries(checks.ALWAYS))
      expect([name, check(run)]).toEqual([name, undefined])
  })

  test.each([
    ['one-result', { results: [{}, {}] }],
    ['messages-first', { late: 1 }],
    ['honest-output', { result: { status: 'failed', output: 'x', error: 'e' } }],
    ['honest-output', { result: { status: 'failed' } }],
    ['failure-kind', { result: { failure: {} } }],
    ['failure-kind', { result: { status: 'failed' } }],
    [
      'session-id',
      { sessionId: 'a', result: { sessionId: 'b' }, messages: [{ type: 'status', sessionId: 'b' }] },
    ],
    ['session-id', { sessionId: 'a', result: { sessionId: 'a' } }],
    ['tool-pairs', { messages: [use('1')] }],
    ['tool-pairs', { messages: [result('1'), use('1')] }],
    ['tool-pairs', { messages: [use('1'), result('1'), result('1')] }],
    ['no-empty-text', { messages: [{ type: 'text', content: '' }] }],
    ['no-process-left', { leftProcesses: ['1 sh'] }],
    ['no-temp-left', { leftTemps: ['agentplug-x'] }],
  ])('%s can fail: %j', (name, more) => {
    expect(checks.ALWAYS[name as keyof typeof checks.ALWAYS](seen(more))).toMatch(/./)
  })

  test('usage is that of this run: cached tokens apart, side requests counted or not', () => {
    const openai = checks.usage('openai')
    const counts = { inputTokens: 445, cacheReadTokens: 789, outputTokens: 56 }
    const one = [{ format: 'f', shell: 'bash' }, { format: 'f' }]
    const usageOf = (usage: object) => seen({ result: { usage: { m: usage } }, requests: one })
    expect(openai(usageOf(counts))).toBeUndefined()
    expect(openai(usageOf({ inputTokens: 890, cacheReadTokens: 1578, outputTokens: 112 }))).toBeUndefined()
    expect(openai(usageOf({ ...counts, inputTokens: 1234 }))).toMatch('inputTokens 1234')
    expect(openai(usageOf({ inputTokens: 1335, cacheReadTokens: 2367, outputTokens: 168 }))).toMatch(
      '1 or 2 requests',
    )
    expect(openai(seen({ requests: one }))).toBe('no usage')
    expect(checks.usage('none')(usageOf(counts))).toMatch('tells none')
  })

  test('text said twice is found, white space between blocks is not', () => {
    const said = (...pieces: string[]) =>
      seen({ messages: pieces.map(content => ({ type: 'text', content })) })
    expect(checks.text('I run. Done')(said('I run. ', '\n\nDone'))).toBeUndefined()
    expect(checks.text('Done')(said('Done', 'Done'))).toMatch('say')
  })

  test('a tool call has its input, its readable output and its verdict', () => {
    const check = checks.tools({ command: 'echo hi', output: 'hi', isError: false })
    expect(check(seen({ messages: [use('1'), result('1')] }))).toBeUndefined()
    expect(check(seen({ messages: [use('1', 'ls'), result('1')] }))).toMatch('no tool-use')
    expect(check(seen({ messages: [use('1'), result('1', '{"output":"hi"}')] }))).toMatch('raw JSON')
    expect(check(seen({ messages: [use('1'), { ...result('1'), isError: true }] }))).toMatch('isError')
    expect(check(seen({ messages: [] }))).toMatch('0 tool-use')
  })

  test('what is known to differ names scenarios and checks that exist', () => {
    const names = new Set(SCENARIOS.map(each => each.name))
    for (const [id, known] of Object.entries<Record<string, string>>(KNOWN)) {
      expect(REAL_CLIS).toHaveProperty(id)
      for (const key of Object.keys(known)) {
        const scenario = key.split('.')[0]!
        expect(scenario === '*' || names.has(scenario), key).toBe(true)
      }
    }
  })

  test('the report lists what differs and what failed', () => {
    const check = (name: string, verdict: string, more: object) => ({ name, verdict, ...more })
    const text = markdown({
      date: '2026-01-02T00:00:00Z',
      agentplug: '0.1.0',
      node: '20',
      platform: 'p',
      clis: [
        {
          id: 'pi',
          version: '1.0.0',
          scenarios: [
            { name: 'text', verdict: 'pass', checks: [check('status', 'pass', {})] },
            { name: 'big', verdict: 'known', checks: [check('whole', 'known', { reason: 'it crashes' })] },
            {
              name: 'cut',
              verdict: 'fail',
              checks: [check('status', 'fail', { problem: 'status completed' })],
            },
          ],
        },
      ],
    })
    expect(text).toContain('| text | ok |')
    expect(text).toContain('- pi 1.0.0, big, whole: it crashes')
    expect(text).toContain('- pi 1.0.0, cut, status: status completed')
  })
})

describe('showing a run', () => {
  test('pieces of text share a line, other Messages have their own', () => {
    let text = ''
    const view = makeMessageView((piece: string) => {
      text += piece
    }, makePaint(false))
    view.message({ type: 'text', content: 'Hel' })
    view.message({ type: 'text', content: 'lo' })
    view.message({ type: 'tool-use', tool: 'bash', callId: '1', input: { command: 'ls' } })
    view.message({
      type: 'tool-result',
      callId: '1',
      output: Array.from({ length: 20 }, (_, i) => i).join('\n'),
    })
    view.end()
    expect(text).toContain('text        Hello\n')
    expect(text).toContain('tool-use    bash ls\n')
    expect(text).toContain('… 12 more lines')
  })

  test('colour needs a terminal and respects NO_COLOR', () => {
    const tty = { isTTY: true }
    expect(wantsColour(tty, {})).toBe(true)
    expect(wantsColour(tty, { NO_COLOR: '1' })).toBe(false)
    expect(wantsColour(tty, { TERM: 'dumb' })).toBe(false)
    expect(wantsColour({ isTTY: false }, {})).toBe(false)
  })

  test('a Result shows tokens, cost, failure and hint', () => {
    const lines = resultLines(
      {
        status: 'failed',
        output: '',
        error: 'no key',
        failure: { kind: 'auth', retryable: false, hint: 'log in' },
        durationMs: 1500,
        usage: { m: { inputTokens: 1, outputTokens: 2, costUsdTicks: 12_000_000_000 } },
      },
      makePaint(false),
    ).join('\n')
    for (const part of ['failed', 'no key', 'auth', 'log in', '1 in, 2 out, $1.2000', '1.50 s']) {
      expect(lines).toContain(part)
    }
  })
})

describe('the benchmark', () => {
  test('a workload says truly what is in it', async () => {
    const file = path.join(await scratch(), 'w.jsonl')
    const expected = await writeWorkload(file, 'full', 300)
    const events = (await readFile(file, 'utf8'))
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(events).toHaveLength(expected.lines)
    const deltas = events.filter(e => e.event?.type === 'content_block_delta').map(e => e.event.delta.text)
    const uses = events.filter(e => e.type === 'assistant')
    const results = events.filter(e => e.type === 'user').map(e => e.message.content[0].content)
    expect(expected.messages).toBe(deltas.length + uses.length + results.length)
    expect(expected.textLength).toBe([...deltas, ...results].join('').length)
    expect(results.length).toBeGreaterThan(5)
  })

  test('ratios say how many times better, whichever way better is', () => {
    const rounds = [
      { a: { v: 10 }, b: { v: 2 } },
      { a: { v: 30 }, b: { v: 3 } },
      { a: { v: 8 }, b: { v: 2 } },
    ]
    expect(ratio(rounds, { key: 'v', better: 'less' }, 'b', 'a')).toBe(5)
    expect(ratio(rounds, { key: 'v', better: 'more' }, 'a', 'b')).toBe(5)
    expect(ratio(rounds, { key: 'v', better: 'less' }, 'b', 'none')).toBeUndefined()
  })
})
