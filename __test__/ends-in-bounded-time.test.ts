// Each of these waits for one of the library's own time limits, so they all wait at once.

import { describe, expect, test } from 'vitest'
import { providers } from '../index.js'
import { alive, HELLO, standIn, UP } from './stand-in/run.js'

describe.concurrent.each(providers)('%s', provider => {
  test('stays completed when the CLI never exits after its result', async () => {
    const { run, notes } = standIn(provider, [...HELLO, { ignoreSigterm: true }, { hang: true }])
    expect(await run.result).toMatchObject({ status: 'completed' })
    expect(alive(notes()[0]!.started as number)).toBe(false)
  })

  test.skipIf(process.platform === 'win32')('is not held up by a grandchild that keeps stdout', async () => {
    const { run, notes } = standIn(provider, [{ grandchild: 'detached' }, ...HELLO])
    expect(await run.result).toMatchObject({ status: 'completed' })
    const grandchild = notes().find(n => 'grandchild' in n)?.grandchild as number
    expect(alive(grandchild)).toBe(false)
  })

  test('the run limit and the idle limit end as timeout and say which', async () => {
    const hard = standIn(provider, UP, { timeoutMs: 1500 }).run
    expect(await hard.result).toMatchObject({ status: 'timeout', failure: { kind: 'timeout', limit: 'run' } })
    const idle = standIn(provider, UP, { idleTimeoutMs: 1500 }).run
    expect(await idle.result).toMatchObject({
      status: 'timeout',
      failure: { kind: 'timeout', limit: 'idle' },
    })
  })
})
