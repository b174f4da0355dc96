// npm run build [-- [--debug] [--target <rust target>] [--zig]]: builds the addon, release unless --debug.

import path from 'node:path'
import { parseArgs } from 'node:util'
import { ensureBuilt, ROOT } from './lib/setup.mjs'

const { values } = parseArgs({
  options: {
    debug: { type: 'boolean', default: false },
    target: { type: 'string' },
    zig: { type: 'boolean' },
  },
})

const addon = await ensureBuilt({ release: !values.debug, target: values.target, zig: values.zig })
console.log(`${path.relative(ROOT, addon)} is up to date`)
