// Finds what a run left alive: every descendant of its CLI carries the run id in its environment.
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

const SETTLE_MS = 3000
const POLL_MS = 50

/** Whether this system lets a process read the environment of others. Only Linux's /proc is used here. */
export const canScan = process.platform === 'linux'

/** Ended and only not yet reaped. The state follows the command in parentheses, which may hold anything itself. */
const isZombie = stat => stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z')

/** The live processes of a run: `{ pid, command }`, the command line whole. */
export async function processesOf(runId) {
  const marker = `AGENTPLUG_RUN_ID=${runId}`
  const pids = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async pid => {
      try {
        const environment = await readFile(`/proc/${pid}/environ`, 'utf8')
        if (!environment.split('\0').includes(marker)) return undefined
        if (isZombie(await readFile(`/proc/${pid}/stat`, 'utf8'))) return undefined
        const command = await readFile(`/proc/${pid}/cmdline`, 'utf8')
        return { pid, command: command.replaceAll('\0', ' ').trim() }
      } catch {
        // It ended while it was looked at, or belongs to somebody else.
        return undefined
      }
    }),
  )
  return found.filter(Boolean)
}

/** The processes of a run that are still there a short while after its Result. */
export async function leftProcesses(runId) {
  if (!canScan) return undefined
  const until = Date.now() + SETTLE_MS
  for (;;) {
    const left = await processesOf(runId)
    if (left.length === 0 || Date.now() > until) {
      return left.map(({ pid, command }) => `${pid} ${command.slice(0, 120)}`)
    }
    await delay(POLL_MS)
  }
}

export function isAlive(pid) {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
  if (!canScan) return true
  try {
    return !isZombie(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
