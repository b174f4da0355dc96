// What the npm scripts need before they can work: packages from the lockfile and the addon of this machine.
// Only Node.js built-ins here, so that a fresh clone can start.

import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, renameSync, statSync, utimesSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)
const { fileName, PLATFORMS, platformOf, thisHost } = require('../../binding.js')

export const ROOT = path.resolve(fileURLToPath(import.meta.url), '../../..')

const readJson = file => JSON.parse(readFileSync(path.join(ROOT, file), 'utf8'))

/**
 * Runs a command in the repository and gives its exit code (128 + n after a signal would lose the name, so a
 * signal rejects). `onStdout` gets stdout as text; without it stdout is passed through.
 */
export function run(command, args, { env = {}, cwd = ROOT, onStdout, shell = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      shell,
      env: { ...process.env, ...env },
      stdio: ['ignore', onStdout ? 'pipe' : 'inherit', 'inherit'],
    })
    child.stdout?.setEncoding('utf8').on('data', onStdout)
    child.on('error', error =>
      reject(
        error.code === 'ENOENT'
          ? new Error(`${command} is not installed or not on PATH`, { cause: error })
          : error,
      ),
    )
    child.on('close', (code, signal) =>
      signal ? reject(new Error(`${command} was ended by ${signal}`)) : resolve(code),
    )
  })
}

/** Like `run`, but a failure throws. */
export async function must(command, args, options) {
  const code = await run(command, args, options)
  if (code !== 0) throw new Error(`${[command, ...args].join(' ')} failed with exit code ${code}`)
}

/** The entry point of biome, to be run by Node.js: node_modules/.bin holds shell scripts on Windows. */
export const biome = () => path.join(ROOT, 'node_modules/@biomejs/biome/bin/biome')

/** The version of a direct dev dependency in node_modules, or undefined. */
function installedVersion(name) {
  const file = `node_modules/${name}/package.json`
  return existsSync(path.join(ROOT, file)) ? readJson(file).version : undefined
}

/** Runs `npm ci` unless node_modules already holds what the lockfile asks for. */
export async function ensureInstalled() {
  const locked = readJson('package-lock.json').packages
  const wanted = Object.keys(readJson('package.json').devDependencies)
  // npm writes this file last: without it an installation was cut short.
  const whole = existsSync(path.join(ROOT, 'node_modules/.package-lock.json'))
  if (whole && wanted.every(name => installedVersion(name) === locked[`node_modules/${name}`].version)) return
  console.log('installing development packages (npm ci)')
  // npm is a .cmd file on Windows, which only a shell starts. The arguments are constants.
  await must('npm', ['ci'], { shell: process.platform === 'win32' })
}

/**
 * Builds the addon and puts it beside binding.js as `agentplug.<platform>.node`. Cargo decides what is out of
 * date. Gives the path of the addon.
 * @param {{ release?: boolean, target?: string, zig?: boolean }} options `target`: a Rust target of the platform
 * table; `zig`: link with cargo-zigbuild (a released addon for Linux, loadable where glibc is old)
 */
export async function ensureBuilt({ release = false, target, zig = false } = {}) {
  const platform = target ? PLATFORMS.find(p => p.target === target) : platformOf(thisHost())
  if (!platform)
    throw new Error(`no entry in the platform table of binding.js for ${target ?? 'this machine'}`)
  const args = [zig ? 'zigbuild' : 'build', '--lib', '--message-format=json-render-diagnostics']
  if (release) args.push('--release')
  if (target || zig)
    args.push('--target', platform.target + (zig && platform.libc === 'glibc' ? `.${GLIBC}` : ''))
  let stdout = ''
  await must('cargo', args, {
    env: buildEnv(platform),
    onStdout: text => {
      stdout += text
    },
  })
  const addon = path.join(ROOT, fileName(platform.id))
  replaceIfNewer(addonArtifact(stdout), addon)
  return addon
}

/** The oldest glibc that an addon linked with zig loads on. */
const GLIBC = '2.17'

function buildEnv(platform) {
  // Musl links the C library statically by default, which a library loaded into Node.js must not do.
  return platform.libc === 'musl'
    ? { RUSTFLAGS: `${process.env.RUSTFLAGS ?? ''} -C target-feature=-crt-static`.trim() }
    : {}
}

/** The dynamic library among the artifacts cargo reports. */
function addonArtifact(cargoJson) {
  for (const line of cargoJson.split('\n')) {
    if (!line.startsWith('{')) continue
    const message = JSON.parse(line)
    if (message.reason !== 'compiler-artifact' || message.target.name !== 'agentplug') continue
    const file = message.filenames.find(name => /\.(so|dylib|dll)$/.test(name))
    if (file) return file
  }
  throw new Error('cargo built no dynamic library: is "cdylib" still among the crate types?')
}

/** By rename, since a process may have the present file loaded: writing into that would crash it. */
function replaceIfNewer(from, to) {
  const source = statSync(from)
  const present = existsSync(to) ? statSync(to) : undefined
  if (present?.size === source.size && present.mtimeMs === source.mtimeMs) return
  const fresh = `${to}.${process.pid}.tmp`
  copyFileSync(from, fresh)
  utimesSync(fresh, source.atime, source.mtime)
  renameSync(fresh, to)
}
