import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect } from 'vitest'
import { type ExecuteOptions, execute, type Message, type Provider, type Run } from '../../index.js'

const CLI = path.join(import.meta.dirname, 'cli.mjs')

/** One step of a stand-in: part of the conversation, or something that goes wrong. See cli.mjs. */
export type Step =
  | { session: true }
  | { text: string }
  | { thinking: string }
  | { tool: { id: string; name: string; input: object } }
  | { toolEnd: { id: string; output: string; isError?: boolean } }
  | { done: string }
  | { fail: string }
  | { raw: string }
  | { unterminated: string }
  | { stderr: string }
  | { huge: number }
  | { bytewise: boolean }
  | { exit: number }
  | { hang: true }
  | { ignoreSigterm: true }
  | { grandchild: 'attached' | 'detached' }
  | { env: true }

export interface StandIn {
  run: Run
  /** What the stand-in noted: its pid, arguments, the prompt, methods called. */
  notes(): Record<string, unknown>[]
  folder: string
}

const folders: string[] = []
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** A scratch folder that is gone after the tests of this file. */
export function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'contract-'))
  folders.push(folder)
  return folder
}

export const SESSION: Step = { session: true }
/** A short answer in two pieces. */
export const HELLO: Step[] = [SESSION, { text: 'Hello ' }, { text: 'world' }, { done: 'Hello world' }]
/** A turn that never ends. */
export const UP: Step[] = [SESSION, { text: 'up' }, { hang: true }]

export const isText = (message: Message) => message.type === 'text'

/** Waits until the stand-in runs. */
export async function started(notes: () => unknown[]): Promise<void> {
  await expect.poll(() => notes().length, { timeout: 30_000 }).toBeGreaterThan(0)
}

/** openclaw prints nothing before its one result. */
export const tellsText = (provider: Provider) => provider !== 'openclaw'

/** Runs a provider against a stand-in that follows `steps`. */
export function standIn(
  provider: Provider,
  steps: Step[],
  options: ExecuteOptions = {},
  prompt = 'Do it.',
): StandIn {
  const folder = scratch()
  const log = path.join(folder, 'notes.jsonl')
  let list = JSON.stringify(steps)
  if (list.length > 100_000) {
    // Linux takes at most 128 KiB in one environment entry.
    const file = path.join(scratch(), 'steps.json')
    writeFileSync(file, list)
    list = file
  }
  const run = execute(provider, prompt, {
    cwd: folder,
    executablePath: process.execPath,
    launchPrefix: [CLI],
    cancelGraceMs: 2000,
    ...options,
    env: {
      // What a CLI keeps beside its sessions stays in the scratch folder.
      HOME: folder,
      USERPROFILE: folder,
      XDG_DATA_HOME: folder,
      XDG_CONFIG_HOME: folder,
      LOCALAPPDATA: folder,
      IS_SANDBOX: '1',
      STAND_IN_PROVIDER: provider,
      STAND_IN_STEPS: list,
      STAND_IN_LOG: log,
      ...options.env,
    },
  })
  const notes = () => {
    try {
      return readFileSync(log, 'utf8')
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
    } catch {
      // Not there yet: nothing was started.
      return []
    }
  }
  return { run, notes, folder }
}

/** Every message of a run, in order. */
export async function collect(run: Run): Promise<Message[]> {
  const messages: Message[] = []
  for await (const message of run) messages.push(message)
  return messages
}

export const texts = (messages: Message[]) =>
  messages.flatMap(m => (m.type === 'text' ? [m.content] : [])).join('')

/** Reads until a message fits; the rest stays unread. */
export async function until(run: Run, fits: (message: Message) => boolean): Promise<Message> {
  for (;;) {
    const { value, done } = await run.next()
    if (done) throw new Error('the run ended before the message came')
    if (fits(value)) return value
  }
}

/** Whether a process is alive (a zombie counts as dead where that can be seen). */
export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return process.platform !== 'linux'
  }
}
