import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const require = createRequire(import.meta.url)
const { currentLibc, fileName, loadBinding, packageName, platformOf, thisHost } = require('../binding.js')

const NOT_FOUND = Object.assign(new Error("Cannot find module 'x'\nRequire stack:\n- y"), {
  code: 'MODULE_NOT_FOUND',
})

/** A host whose modules are the given map; a value that is an Error is thrown. */
function host(modules: Record<string, unknown>, changes: object = {}) {
  const asked: string[] = []
  return {
    asked,
    platform: 'linux',
    arch: 'x64',
    libc: () => 'glibc',
    env: {},
    directory: path.resolve('/package'),
    version: '1.2.3',
    require(id: string) {
      asked.push(id)
      const found = modules[id] ?? NOT_FOUND
      if (found instanceof Error) throw found
      return found
    },
    ...changes,
  }
}

function failure(from: object) {
  try {
    loadBinding(from)
  } catch (error) {
    return error as Error & { code: string; tried: { source: string; reason: string }[] }
  }
  throw new Error('loaded')
}

const local = (id: string) => path.join(path.resolve('/package'), fileName(id))
const gnu = packageName('linux-x64-gnu')
const binding = { drain() {} }

describe('the order of lookup', () => {
  it('takes the path in AGENTPLUG_BINDING and tries nothing else', () => {
    const from = host({ '/my.node': binding }, { env: { AGENTPLUG_BINDING: '/my.node' } })
    expect(loadBinding(from)).toBe(binding)
    expect(from.asked).toEqual(['/my.node'])
  })

  it('does not fall back when AGENTPLUG_BINDING names a file that does not load', () => {
    const from = host(
      { '/my.node': new Error('invalid ELF header'), [local('linux-x64-gnu')]: binding },
      { env: { AGENTPLUG_BINDING: '/my.node' } },
    )
    const error = failure(from)
    expect(from.asked).toEqual(['/my.node'])
    expect(error.tried).toEqual([{ source: '/my.node', reason: 'invalid ELF header' }])
    expect(error.message).toContain('nothing else was tried')
  })

  it('prefers the build from source to the platform package', () => {
    const from = host({
      [local('linux-x64-gnu')]: binding,
      [gnu]: {},
      [`${gnu}/package.json`]: { version: '1.2.3' },
    })
    expect(loadBinding(from)).toBe(binding)
    expect(from.asked).toEqual([local('linux-x64-gnu')])
  })

  it('takes the platform package of its own version', () => {
    const from = host({ [gnu]: binding, [`${gnu}/package.json`]: { version: '1.2.3' } })
    expect(loadBinding(from)).toBe(binding)
  })

  it('refuses a platform package of another version', () => {
    const from = host({ [gnu]: binding, [`${gnu}/package.json`]: { version: '1.2.2' } })
    expect(failure(from).tried.at(-1)).toEqual({
      source: gnu,
      reason: "its version is 1.2.2, agentplug's is 1.2.3",
    })
  })
})

describe('the platform', () => {
  it.each([
    ['linux', 'x64', 'glibc', 'linux-x64-gnu'],
    ['linux', 'x64', 'musl', 'linux-x64-musl'],
    ['linux', 'arm64', 'glibc', 'linux-arm64-gnu'],
    ['linux', 'arm64', 'musl', 'linux-arm64-musl'],
    ['darwin', 'x64', undefined, 'darwin-x64'],
    ['darwin', 'arm64', undefined, 'darwin-arm64'],
    ['win32', 'x64', undefined, 'win32-x64-msvc'],
    ['win32', 'arm64', undefined, 'win32-arm64-msvc'],
    ['win32', 'ia32', undefined, undefined],
    ['freebsd', 'x64', undefined, undefined],
  ])('%s %s %s is %s', (platform, arch, libc, id) => {
    const ask = () => {
      if (libc === undefined) throw new Error('asked for the C library')
      return libc
    }
    expect(platformOf({ platform, arch, libc: ask })?.id).toBe(id)
  })

  it.runIf(process.platform === 'linux')('tells the C library of this process from its interpreter', () => {
    const { header } = process.report.getReport() as unknown as { header: Record<string, unknown> }
    expect(currentLibc()).toBe(header.glibcVersionRuntime === undefined ? 'musl' : 'glibc')
  })

  it.each([
    ['/lib/ld-musl-x86_64.so.1', 'musl'],
    ['/lib64/ld-linux-x86-64.so.2', 'glibc'],
    ['/nix/store/abc-glibc-2.39/lib/ld-linux-aarch64.so.1', 'glibc'],
  ])('reads the interpreter %s as %s', (interpreter, libc) => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'agentplug-')), 'node')
    writeFileSync(file, `\x7fELF${'\0'.repeat(300)}${interpreter}\0GNU\0`, 'latin1')
    expect(currentLibc(file)).toBe(libc)
  })

  it.runIf(process.platform === 'linux')('asks the report where the executable tells nothing', () => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'agentplug-')), 'script')
    writeFileSync(file, '#!/bin/sh\n')
    expect(currentLibc(file)).toBe(currentLibc())
    expect(currentLibc(path.join(file, 'absent'))).toBe(currentLibc())
  })
})

describe('the error when nothing loads', () => {
  it('lists each place with its reason and says what helps', () => {
    const error = failure(host({ [local('linux-x64-gnu')]: new Error('GLIBC_2.38 not found\nmore') }))
    expect(error.code).toBe('binding-not-found')
    expect(error.cause).toMatchObject({ message: expect.stringContaining('GLIBC_2.38') })
    expect(error.tried).toEqual([
      { source: local('linux-x64-gnu'), reason: 'GLIBC_2.38 not found' },
      { source: gnu, reason: 'not there' },
    ])
    for (const words of [
      'linux x64 glibc',
      `${local('linux-x64-gnu')}: GLIBC_2.38 not found`,
      `${gnu}: not there`,
      '--no-optional',
      '--omit=optional',
      'npm/cli#4828',
      'npm run build',
      'AGENTPLUG_BINDING',
    ]) {
      expect(error.message).toContain(words)
    }
  })

  it('names the supported platforms on one that is none of them', () => {
    const error = failure(host({}, { platform: 'sunos' }))
    expect(error.tried).toEqual([])
    expect(error.message).toContain('sunos x64')
    expect(error.message).toContain('linux-arm64-musl')
    expect(error.message).toContain('AGENTPLUG_BINDING')
    expect(error.message).not.toContain('Tried')
  })
})

it('loads the real addon from an explicit path in a fresh process', () => {
  const addon = path.join(thisHost().directory, fileName(platformOf(thisHost()).id))
  const script = `console.log(typeof require('./binding.js').loadBinding())`
  const run = (value: string) =>
    execFileSync(process.execPath, ['-e', script], {
      cwd: thisHost().directory,
      encoding: 'utf8',
      env: { ...process.env, AGENTPLUG_BINDING: value },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  expect(run(addon)).toBe('object\n')
  expect(() => run(`${addon}.absent`)).toThrow(/binding-not-found/)
})
