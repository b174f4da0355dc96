import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { expect, it } from 'vitest'

const agentplug = createRequire(import.meta.url)('../index.js')
const declarations = readFileSync(path.resolve(import.meta.dirname, '../index.d.ts'), 'utf8')

/** The names that exist at run time according to index.d.ts. */
const declared = [
  ...declarations.matchAll(/^export declare (?:abstract )?(function|class|const) (\w+)/gm),
].map(([, kind, name]) => ({ kind: kind!, name: name! }))

/** The string literals of a declared union. */
function literals(type: string) {
  const [, body] = new RegExp(`^export type ${type} =(.*?)(?=\\n(?:export|/\\*\\*|$))`, 'ms').exec(
    declarations,
  )!
  return [...body!.replace(/\/\*\*.*\*\//g, '').matchAll(/'([^']+)'/g)].map(([, literal]) => literal)
}

it('exports what it declares, and nothing else', () => {
  // A function with overloads is declared more than once.
  const names = new Set(declared.map(({ name }) => name))
  expect(Object.keys(agentplug).sort()).toEqual([...names].sort())
})

it('exports each name as what it is declared to be', () => {
  for (const { kind, name } of declared) {
    if (kind === 'const') expect(agentplug[name], name).toBeTypeOf('object')
    else expect(agentplug[name], name).toBeTypeOf('function')
  }
})

it('shows all names to importers that read them statically', async () => {
  const namespace = await import('../index.js')
  const named = Object.keys(namespace).filter(name => !['default', 'module.exports'].includes(name))
  expect(named.sort()).toEqual(Object.keys(agentplug).sort())
})

it('declares the providers there are', () => {
  expect(literals('Provider')).toEqual(agentplug.providers)
})

it('declares the capabilities there are', () => {
  const [, body] = /^export interface Capabilities \{\n(.*?)^\}/ms.exec(declarations)!
  const fields = [...body!.matchAll(/^ {2}(\w+): (.+)$/gm)].map(([, name, type]) => [name, type])
  expect(fields.map(([name]) => name).sort()).toEqual(
    Object.keys(agentplug.capabilities(agentplug.providers[0])).sort(),
  )
  for (const provider of agentplug.providers) {
    const found = agentplug.capabilities(provider)
    for (const [name, type] of fields) {
      if (type === 'boolean') expect(found[name!], `${provider}.${name}`).toBeTypeOf('boolean')
      else expect(literals(type!), `${provider}.${name}`).toContain(found[name!])
    }
  }
})

it('explains each code, status and kind of failure in the README', () => {
  const readme = readFileSync(path.resolve(import.meta.dirname, '../README.md'), 'utf8')
  for (const type of ['ErrorCode', 'RunStatus', 'FailureKind']) {
    const all = literals(type)
    expect(all.length).toBeGreaterThan(4)
    for (const literal of all) expect(readme).toMatch(new RegExp(`^\\| .*\`${literal}\`.* \\|`, 'm'))
  }
})

it('has tables nobody can change', () => {
  const { providers, minVersions, capabilities } = agentplug
  for (const table of [providers, minVersions, capabilities(providers[0])])
    expect(table).toSatisfy(Object.isFrozen)
})
