// node scripts/stage.mjs [addons]: lays out what gets published under target/npm: agentplug itself, with the
// platform packages of its own version as optional dependencies, and one package per addon found in the folder
// `addons` (default: the repository). They are not dependencies in the repository's own package.json because
// "npm ci" refuses a lockfile without them, and they cannot be locked before they are published.

import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ROOT } from './lib/setup.mjs'

const { fileName, packageName, PLATFORMS } = createRequire(import.meta.url)('../binding.js')

/** The published package.json: the repository's without what only its development needs. */
export function publishedManifest({ scripts: _, devDependencies: __, overrides: ___, ...manifest }) {
  return {
    ...manifest,
    optionalDependencies: Object.fromEntries(PLATFORMS.map(({ id }) => [packageName(id), manifest.version])),
  }
}

/** Gives the folders laid out, the addons' packages first: the order to publish them in. */
export function stage(addons = ROOT, out = path.join(ROOT, 'target/npm')) {
  rmSync(out, { recursive: true, force: true })
  const staged = []
  for (const { id } of PLATFORMS) {
    const addon = path.join(addons, fileName(id))
    if (!existsSync(addon)) continue
    const folder = path.join(out, id)
    cpSync(path.join(ROOT, 'npm', id), folder, { recursive: true })
    copyFileSync(addon, path.join(folder, fileName(id)))
    copyFileSync(path.join(ROOT, 'LICENSE'), path.join(folder, 'LICENSE'))
    staged.push(folder)
  }
  const main = path.join(out, 'agentplug')
  mkdirSync(main, { recursive: true })
  const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
  for (const file of [...manifest.files, 'README.md', 'LICENSE']) {
    cpSync(path.join(ROOT, file), path.join(main, file), { recursive: true })
  }
  writeFileSync(path.join(main, 'package.json'), `${JSON.stringify(publishedManifest(manifest), null, 2)}\n`)
  return [...staged, main]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const folder of stage(process.argv[2])) console.log(path.relative(ROOT, folder))
}
