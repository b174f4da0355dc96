// Installs real CLIs at exact versions into a folder of the caller's choice, never globally.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { NODE_PACKAGES, REAL_CLIS } from './real-clis.mjs'

const WINDOWS = process.platform === 'win32'
const STAMP = 'installed.json'
const OUTPUT_TAIL_LINES = 12

/** Something a person can mend. The message says what to do. */
export class SetupError extends Error {}

/** Where conformance keeps the CLIs: outside the repository, kept from run to run. */
export function defaultCache() {
  if (process.env.AGENTPLUG_CLI_CACHE) return process.env.AGENTPLUG_CLI_CACHE
  const base = WINDOWS
    ? (process.env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'))
    : process.platform === 'darwin'
      ? join(homedir(), 'Library', 'Caches')
      : (process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'))
  return join(base, 'agentplug-conformance')
}

/** Whether version `have` is at least `want`, number by number. */
export function atLeast(have, want) {
  const numbers = text => text.replace(/^v/, '').split('.').map(Number)
  const [a, b] = [numbers(have), numbers(want)]
  for (let i = 0; i < 3; i += 1) {
    if ((a[i] ?? 0) !== (b[i] ?? 0)) return (a[i] ?? 0) > (b[i] ?? 0)
  }
  return true
}

/** The source to install for the Node at hand. */
export function sourceOf(id, node = process.versions.node) {
  const source = REAL_CLIS[id].sources.find(each => !each.node || atLeast(node, each.node))
  if (source) return source
  const oldest = REAL_CLIS[id].sources.at(-1).node
  throw new SetupError(
    `${id} needs Node ${oldest} or newer; this is Node ${node}. Run this with a newer Node.`,
  )
}

/**
 * Installs one CLI unless it is there already. An interrupted install goes on where it stopped.
 *
 * @param {string} id A key of REAL_CLIS.
 * @param {object} options
 * @param {string} options.cache Folder that holds one sub-folder per CLI and version.
 * @param {(line: string) => void} [options.log] Progress for people.
 * @param {AbortSignal} [options.signal] Ends a running installer.
 * @returns {Promise<{id: string, version: string, executable: string, path: string[]}>} `path`: folders to put
 *   before PATH when the CLI runs.
 */
export async function installCli(id, { cache, log = () => {}, signal } = {}) {
  const source = sourceOf(id)
  const path = []
  if (source.run && !atLeast(process.versions.node, source.run)) {
    path.push(dirname(await installNode({ id, cache, log, signal, wanted: source.run })))
  }
  const executable = await installSource(id, source, { cache, log, signal })
  return { id, version: source.version, executable, path }
}

async function installNode({ id, cache, log, signal, wanted }) {
  const source = NODE_PACKAGES[`${process.platform}-${process.arch}`]
  if (!source || !atLeast(source.version, wanted)) {
    throw new SetupError(
      `${id} needs Node ${wanted} or newer; this is Node ${process.versions.node}, and there is no Node package for ` +
        `${process.platform}-${process.arch}. Run this with a newer Node.`,
    )
  }
  return installSource('node', source, { cache, log, signal })
}

async function installSource(id, source, { cache, log, signal }) {
  const folder = join(cache, `${id}-${source.version}`)
  const executable = join(folder, source.kind === 'pip' ? pipBin(source.bin) : npmBin(source))
  const stamp = join(folder, STAMP)
  // What was asked for then: a changed list of extras or flags is another installation.
  const wanted = JSON.stringify(source)
  if (existsSync(executable) && (await textOf(stamp)) === wanted) return executable
  await rm(stamp, { force: true })
  await mkdir(folder, { recursive: true })
  log(`Installing ${source.name} ${source.version} into ${folder}`)
  const steps = source.kind === 'pip' ? pipSteps(source, folder) : await npmSteps(source, folder)
  for (const step of steps) await runStep(step, { id, source, folder, signal })
  if (!existsSync(executable)) {
    throw new SetupError(
      `${source.name} ${source.version} was installed, but ${executable} is not there. ` +
        `Remove ${folder} and try again; install scripts must be allowed for this package.`,
    )
  }
  await writeFile(stamp, wanted)
  return executable
}

const npmBin = source => (WINDOWS && source.shim ? `${source.bin}.cmd` : source.bin)
const pipBin = name => (WINDOWS ? join('venv', 'Scripts', `${name}.exe`) : join('venv', 'bin', name))

async function npmSteps(source, folder) {
  // A manifest of its own keeps npm from climbing up to a surrounding project.
  const manifest = join(folder, 'package.json')
  if (!existsSync(manifest)) await writeFile(manifest, '{ "private": true }\n')
  const args = [
    'install',
    '--prefix',
    folder,
    `${source.name}@${source.version}`,
    '--save-exact',
    '--global=false',
  ]
  args.push('--no-audit', '--no-fund', '--engine-strict=false', ...(source.flags ?? []))
  // `npm run` tells where npm's own program is; without it the command of that name is used.
  const program = process.env.npm_execpath
  if (program?.endsWith('.js')) return [{ command: process.execPath, args: [program, ...args] }]
  return [{ command: 'npm', args, shell: WINDOWS }]
}

function pipSteps(source, folder) {
  const python = WINDOWS ? 'python' : 'python3'
  const inside = join(folder, pipBin('python'))
  const spec = `${source.name}${source.extras ? `[${source.extras}]` : ''}==${source.version}`
  return [
    { command: python, args: ['-m', 'venv', join(folder, 'venv')] },
    { command: inside, args: ['-m', 'pip', 'install', '--disable-pip-version-check', '--quiet', spec] },
  ]
}

async function runStep({ command, args, shell = false }, { id, source, folder, signal }) {
  const what = `${source.name} ${source.version}`
  const { code, output } = await new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: folder, shell, signal, stdio: ['ignore', 'pipe', 'pipe'] })
    const chunks = []
    for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => chunks.push(chunk))
    child.on('error', error => {
      if (error.name === 'AbortError') reject(error)
      else
        reject(
          new SetupError(
            `Cannot run ${command} to install ${what} (${error.code}). Put ${command} on PATH and try again.`,
          ),
        )
    })
    child.on('close', exit => resolve({ code: exit, output: Buffer.concat(chunks).toString('utf8') }))
  })
  if (code === 0) return
  const tail = output.trim().split(/\r?\n/).slice(-OUTPUT_TAIL_LINES).join('\n')
  throw new SetupError(
    `Installing ${what} for ${id} failed (exit ${code}).\n${tail}\n` +
      'Check the network and the package registry that npm and pip use, then run this again: finished parts are kept.',
  )
}

const textOf = file => readFile(file, 'utf8').catch(() => undefined)

/** `PATH` with the given folders first. */
export const withPath = (folders, path = process.env.PATH ?? '') =>
  [...folders, path].filter(Boolean).join(delimiter)
