import { copyFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { checkMinVersion, detect, execute, minVersions, providers } from '../index.js'
import { scratch } from './stand-in/run.js'

const CLI = path.join(import.meta.dirname, 'stand-in/cli.mjs')
const nowhere = { PATH: '/no/such/folder', SHELL: '/no/such/shell', HOME: '/no/such/home' }
const installed = { executablePath: process.execPath, launchPrefix: [CLI] }

test.each(providers)('%s: an executable that is there tells its version', async provider => {
  expect(await detect(provider, installed)).toEqual({
    provider,
    found: true,
    path: process.execPath,
    via: 'executable-path',
    version: '2026.12.1',
    versionOk: true,
  })
})

test('one that is not there is an answer, not an error', async () => {
  const found = await detect('claude', { env: nowhere })
  expect(found).toMatchObject({ provider: 'claude', found: false })
  expect(found.error).toContain('claude executable not found')
})

test('all providers at once, in their order', async () => {
  const all = await detect(undefined, { env: nowhere })
  expect(all.map(d => d.provider)).toEqual(providers)
})

test('a version that is too old keeps later runs from starting', async () => {
  // A copy of its own: what a probe found out is remembered for the executable.
  const folder = scratch()
  for (const file of ['cli.mjs', 'dialects.mjs']) {
    copyFileSync(path.join(path.dirname(CLI), file), path.join(folder, file))
  }
  const old = {
    executablePath: process.execPath,
    launchPrefix: [path.join(folder, 'cli.mjs')],
    env: { STAND_IN_VERSION: 'claude 1.9.99', IS_SANDBOX: '1' },
  }
  const found = await detect('claude', old)
  expect(found).toMatchObject({ found: true, version: '1.9.99', versionOk: false })
  expect(found.error).toContain(minVersions.claude)
  await expect(execute('claude', 'x', old).result).rejects.toMatchObject({ code: 'version-too-old' })
})

test('checkMinVersion tells old from unknown', () => {
  expect(checkMinVersion('codex', 'codex-cli 0.118.0')).toBe('ok')
  expect(checkMinVersion('codex', 'codex-cli 0.99.0')).toBe('too-old')
  expect(checkMinVersion('codex', 'nonsense')).toBe('unparsable')
  expect(checkMinVersion('pi', 'nonsense')).toBe('ok')
  // @ts-expect-error: no such provider
  expect(() => checkMinVersion('nope', '1.0.0')).toThrow(
    expect.objectContaining({ code: 'unknown-provider' }),
  )
})

test('a wrong call rejects', async () => {
  // @ts-expect-error: no such provider
  await expect(detect('nope')).rejects.toMatchObject({ code: 'unknown-provider' })
  // @ts-expect-error: an option of execute only
  await expect(detect('pi', { model: 'x' })).rejects.toMatchObject({
    code: 'invalid-option',
    option: 'model',
  })
})
