// node scripts/readme-table.mjs [--check]: writes the table of providers in README.md from the capabilities the
// code declares; --check only compares and fails on a difference.

import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { ROOT } from './lib/setup.mjs'

const { capabilities, minVersions, providers } = createRequire(import.meta.url)('../index.js')

const yes = value => (value ? 'yes' : '')

/** Column title -> cell of one provider. A capability without a column here fails below. */
const COLUMNS = {
  'oldest version': (_, id) => minVersions[id] ?? '',
  prompt: c => c.promptVia,
  model: c => yes(c.model),
  systemPrompt: c => yes(c.systemPrompt),
  threadName: c => yes(c.threadName),
  maxTurns: c => yes(c.maxTurns),
  thinkingLevel: c => yes(c.thinkingLevel),
  serviceTier: c => yes(c.serviceTier),
  mcpConfig: c => (c.mcpConfig === 'none' ? '' : c.mcpConfig),
  extraArgs: c => yes(c.extraArgs),
  customArgs: c => yes(c.customArgs),
  resume: c => yes(c.resume),
  resumeRejected: c => yes(c.resumeRejection),
  'streams text': c => yes(c.streaming),
  thinking: c => yes(c.thinking),
  usage: c => yes(c.usage),
  cost: c => yes(c.cost),
}

function table() {
  const read = new Set()
  const rows = providers.map(id => {
    const watched = new Proxy(capabilities(id), {
      get(target, key) {
        read.add(key)
        return target[key]
      },
    })
    return `| ${[id, ...Object.values(COLUMNS).map(cell => cell(watched, id))].join(' | ')} |`
  })
  const forgotten = Object.keys(capabilities(providers[0])).filter(key => !read.has(key))
  if (forgotten.length > 0) throw new Error(`capabilities without a column in the README: ${forgotten}`)
  const head = ['provider', ...Object.keys(COLUMNS)]
  return [`| ${head.join(' | ')} |`, `|${' --- |'.repeat(head.length)}`, ...rows].join('\n')
}

const file = path.join(ROOT, 'README.md')
const [BEGIN, END] = ['<!-- providers: written by scripts/readme-table.mjs -->', '<!-- /providers -->']
const readme = readFileSync(file, 'utf8')
const [before, old, after] = readme.split(new RegExp(`(?<=${BEGIN}\n\n)([^]*?)(?=\n\n${END})`))
if (after === undefined) throw new Error(`README.md has lost its marks ${BEGIN} and ${END}`)
const now = table()
if (old === now) {
  console.log('README.md: the table of providers is up to date')
} else if (process.argv.includes('--check')) {
  console.error('README.md: the table of providers is out of date; run "node scripts/readme-table.mjs"')
  process.exitCode = 1
} else {
  writeFileSync(file, before + now + after)
  console.log('README.md: the table of providers was written')
}
