// @ts-check
'use strict'

// Finds and loads the native addon. Order: the path in AGENTPLUG_BINDING (nothing else is tried then), the
// file a build from source left beside this one, the platform package. The first that loads wins.

const { closeSync, openSync, readSync } = require('node:fs')
const { join } = require('node:path')

/**
 * Every platform with a package of its own: `npm/<id>` here, `@agentplug/binding-<id>` on the registry.
 * @typedef {{ id: string, os: string, cpu: string, libc?: 'glibc' | 'musl', target: string }} Platform
 * @type {readonly Platform[]}
 */
const PLATFORMS = [
  { id: 'linux-x64-gnu', os: 'linux', cpu: 'x64', libc: 'glibc', target: 'x86_64-unknown-linux-gnu' },
  { id: 'linux-x64-musl', os: 'linux', cpu: 'x64', libc: 'musl', target: 'x86_64-unknown-linux-musl' },
  { id: 'linux-arm64-gnu', os: 'linux', cpu: 'arm64', libc: 'glibc', target: 'aarch64-unknown-linux-gnu' },
  { id: 'linux-arm64-musl', os: 'linux', cpu: 'arm64', libc: 'musl', target: 'aarch64-unknown-linux-musl' },
  { id: 'darwin-x64', os: 'darwin', cpu: 'x64', target: 'x86_64-apple-darwin' },
  { id: 'darwin-arm64', os: 'darwin', cpu: 'arm64', target: 'aarch64-apple-darwin' },
  { id: 'win32-x64-msvc', os: 'win32', cpu: 'x64', target: 'x86_64-pc-windows-msvc' },
  { id: 'win32-arm64-msvc', os: 'win32', cpu: 'arm64', target: 'aarch64-pc-windows-msvc' },
]

/**
 * What the loader asks of its surroundings; tests pass their own.
 * @typedef {object} Host
 * @property {string} platform `process.platform`
 * @property {string} arch `process.arch`
 * @property {() => 'glibc' | 'musl'} libc asked on Linux only
 * @property {Record<string, string | undefined>} env
 * @property {string} directory where a build from source leaves the addon
 * @property {string} version the version a platform package must have
 * @property {(id: string) => any} require
 */

/** @returns {Host} */
function thisHost() {
  return {
    platform: process.platform,
    arch: process.arch,
    libc: currentLibc,
    env: process.env,
    directory: __dirname,
    version: require('./package.json').version,
    require,
  }
}

/**
 * The C library this process runs on. The program interpreter in the head of the executable tells it in a
 * fraction of a millisecond; `process.report`, some milliseconds slower, decides where that cannot be read.
 * @returns {'glibc' | 'musl'}
 */
function currentLibc(executable = process.execPath) {
  const interpreter = elfInterpreter(executable)
  if (interpreter !== undefined) return interpreter.includes('/ld-musl-') ? 'musl' : 'glibc'
  /** @type {any} */
  const report = process.report
  const { excludeNetwork } = report
  // Else the report resolves the host name of every open socket.
  report.excludeNetwork = true
  try {
    return report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'glibc'
  } finally {
    report.excludeNetwork = excludeNetwork
  }
}

/** @param {string} executable */
function elfInterpreter(executable) {
  const head = Buffer.alloc(4096)
  try {
    const file = openSync(executable, 'r')
    try {
      readSync(file, head, 0, head.length, 0)
    } finally {
      closeSync(file)
    }
  } catch {
    return undefined // an executable that may be run but not read: the report decides
  }
  return /\0(\/[^\0]*\/ld-(?:linux|musl)[^\0]*)\0/.exec(head.toString('latin1'))?.[1]
}

/**
 * The entry of the table that fits the host, if any.
 * @param {Pick<Host, 'platform' | 'arch' | 'libc'>} host
 */
function platformOf(host) {
  const fits = PLATFORMS.filter(p => p.os === host.platform && p.cpu === host.arch)
  if (fits.length < 2) return fits[0]
  const libc = host.libc()
  return fits.find(p => p.libc === libc)
}

/** The name of the addon of a platform. */
const fileName = (/** @type {string} */ id) => `agentplug.${id}.node`
/** The package that carries the addon of a platform. */
const packageName = (/** @type {string} */ id) => `@agentplug/binding-${id}`

/**
 * Loads the addon, or throws one error that lists each place tried, why it did not serve, and what to do.
 * @param {Host} host
 */
function loadBinding(host = thisHost()) {
  /** @type {{ source: string, reason: string }[]} */
  const tried = []
  /** @type {unknown} */
  let cause

  /** @param {string} source @param {() => any} load */
  const attempt = (source, load) => {
    try {
      return load()
    } catch (error) {
      tried.push({ source, reason: reasonOf(error) })
      if (!isMissing(error)) cause ??= error
      return undefined
    }
  }

  const explicit = host.env.AGENTPLUG_BINDING
  if (explicit) {
    const binding = attempt(explicit, () => host.require(explicit))
    if (binding) return binding
    throw bindingError(host, undefined, tried, cause)
  }

  const platform = platformOf(host)
  if (platform) {
    const local = join(host.directory, fileName(platform.id))
    const name = packageName(platform.id)
    const binding =
      attempt(local, () => host.require(local)) ??
      attempt(name, () => {
        const { version } = host.require(`${name}/package.json`)
        if (version !== host.version) {
          throw new Error(`its version is ${version}, agentplug's is ${host.version}`)
        }
        return host.require(name)
      })
    if (binding) return binding
  }
  throw bindingError(host, platform, tried, cause)
}

/** @param {any} error */
const isMissing = error => error?.code === 'MODULE_NOT_FOUND'

/** @param {any} error @returns {string} */
function reasonOf(error) {
  if (isMissing(error)) return 'not there'
  return String(error?.message ?? error).replace(/\n.*/s, '')
}

/**
 * @param {Host} host
 * @param {Platform | undefined} platform
 * @param {{ source: string, reason: string }[]} tried
 * @param {unknown} cause
 */
function bindingError(host, platform, tried, cause) {
  const explicit = host.env.AGENTPLUG_BINDING
  const machine = `${host.platform} ${host.arch}${host.platform === 'linux' ? ` ${host.libc()}` : ''}`
  const lines = [`agentplug has no native addon that loads on ${machine} (Node.js ${process.version}).`]
  if (tried.length > 0) {
    lines.push('Tried:', ...tried.map(({ source, reason }) => `  ${source}: ${reason}`))
  }
  const advice = []
  if (explicit) {
    advice.push('AGENTPLUG_BINDING is set, so nothing else was tried: correct it or unset it.')
  } else if (platform) {
    const name = packageName(platform.id)
    advice.push(
      `Install without --no-optional / --omit=optional (and "omit" in .npmrc): ${name} is an optional dependency.`,
      'If the lockfile or node_modules came from another system, remove both and install again (npm/cli#4828).',
    )
  } else {
    advice.push(`There are packages for ${PLATFORMS.map(p => p.id).join(', ')}.`)
  }
  if (!explicit) {
    advice.push(
      'Or build it: in a checkout of agentplug, with Rust installed, run "npm run build" and set',
      '  AGENTPLUG_BINDING to the absolute path of the .node file this makes.',
    )
  }
  lines.push('What helps:', ...advice.map(line => (line.startsWith('  ') ? `  ${line}` : `  - ${line}`)))
  return Object.assign(new Error(lines.join('\n'), cause === undefined ? undefined : { cause }), {
    code: 'binding-not-found',
    tried,
  })
}

module.exports = { PLATFORMS, currentLibc, fileName, loadBinding, packageName, platformOf, thisHost }
