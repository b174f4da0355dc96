import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const require = createRequire(import.meta.url)
const { fileName, packageName, PLATFORMS, platformOf, thisHost } = require('../binding.js')
const { publishedManifest, stage } = await import('../scripts/stage.mjs')

type Platform = { id: string; os: string; cpu: string; libc?: string }
const root = path.resolve(import.meta.dirname, '..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const json = (file: string) => JSON.parse(read(file))
const manifest = json('package.json')

describe('platform packages', () => {
  it('exist for each entry of the loader and no other', () => {
    expect(readdirSync(path.join(root, 'npm')).sort()).toEqual(PLATFORMS.map((p: Platform) => p.id).sort())
  })

  it.each<Platform>(PLATFORMS)('$id says what the loader expects', ({ id, ...p }) => {
    const { name, version, os, cpu, libc, main, files, license, engines } = json(`npm/${id}/package.json`)
    expect({ name, version, os, cpu, libc, main, files, license, engines }).toEqual({
      name: packageName(id),
      version: manifest.version,
      os: [p.os],
      cpu: [p.cpu],
      libc: p.libc ? [p.libc] : undefined,
      main: fileName(id),
      files: [fileName(id)],
      license: manifest.license,
      engines: manifest.engines,
    })
    expect(read(`npm/${id}/README.md`)).toContain(packageName(id))
  })

  it('are optional dependencies of the published package, in its own version', () => {
    const published = publishedManifest(manifest)
    expect(published.optionalDependencies).toEqual(
      Object.fromEntries(PLATFORMS.map((p: Platform) => [packageName(p.id), manifest.version])),
    )
    expect(published).not.toHaveProperty('devDependencies')
    expect(published).not.toHaveProperty('scripts')
    expect(published).not.toHaveProperty('overrides')
  })
})

describe('the package', () => {
  it('has one version in npm, cargo and the changelog', () => {
    expect(read('Cargo.toml')).toContain(`\nversion = "${manifest.version}"\n`)
    expect(json('package-lock.json').version).toBe(manifest.version)
    expect(read('CHANGELOG.md')).toContain(`## ${manifest.version}`)
  })

  it('lists files that exist, one by one', () => {
    for (const file of manifest.files) {
      expect(file).not.toMatch(/[*!]/)
      expect(existsSync(path.join(root, file)), file).toBe(true)
    }
  })

  it('packs what it lists and nothing else', () => {
    const out = path.join(mkdtempSync(path.join(tmpdir(), 'agentplug-')), 'npm')
    stage(root, out)
    const main = path.join(out, 'agentplug')
    expect(readdirSync(main).sort()).toEqual(
      [...manifest.files, 'LICENSE', 'README.md', 'package.json'].sort(),
    )
    const { id } = platformOf(thisHost())
    expect(readdirSync(path.join(out, id)).sort()).toEqual(
      [fileName(id), 'LICENSE', 'README.md', 'package.json'].sort(),
    )
  })

  it('works installed, with the addon in its platform package, from ESM and CommonJS', () => {
    const project = mkdtempSync(path.join(tmpdir(), 'agentplug-'))
    const modules = path.join(project, 'node_modules')
    const { id } = platformOf(thisHost())
    // Laid out as npm would, without asking a registry.
    stage(root, path.join(project, 'staged'))
    const script = (code: string, flags: string[]) =>
      execFileSync(process.execPath, [...flags, '-e', code], {
        cwd: project,
        encoding: 'utf8',
        env: { ...process.env, AGENTPLUG_BINDING: '' },
      })
    cpSync(path.join(project, 'staged/agentplug'), path.join(modules, 'agentplug'), { recursive: true })
    cpSync(path.join(project, 'staged', id), path.join(modules, packageName(id)), { recursive: true })

    const names = 'execute, providers, capabilities, AgentplugError'
    const show =
      'console.log(typeof execute, typeof capabilities, providers.length, AgentplugError.prototype instanceof Error)'
    const said = `function function ${require('../index.js').providers.length} true\n`
    expect(script(`import { ${names} } from 'agentplug'; ${show}`, ['--input-type=module'])).toBe(said)
    expect(script(`const { ${names} } = require('agentplug'); ${show}`, [])).toBe(said)
  })

  it('has an example in the README that compiles as it stands', () => {
    const project = mkdtempSync(path.join(tmpdir(), 'agentplug-'))
    const [, example] = /^```ts\n(.*?)^```/ms.exec(read('README.md'))!
    writeFileSync(path.join(project, 'example.mts'), example!)
    const main = path.join(project, 'node_modules/agentplug')
    mkdirSync(main, { recursive: true })
    for (const file of ['package.json', 'index.d.ts']) cpSync(path.join(root, file), path.join(main, file))
    const flags = ['--noEmit', '--strict', '--module', 'node16', '--target', 'es2022', '--types', 'node']
    const types = ['--typeRoots', path.join(root, 'node_modules/@types')]
    const tsc = path.join(root, 'node_modules/typescript/bin/tsc')
    const compiled = spawnSync(process.execPath, [tsc, ...flags, ...types, 'example.mts'], {
      cwd: project,
      encoding: 'utf8',
    })
    expect(compiled).toMatchObject({ status: 0, stdout: '' })
  })
})
