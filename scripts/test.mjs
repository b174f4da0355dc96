// npm test: everything from a fresh clone with only Node.js and Rust. Installs the development packages, builds
// the addon, then runs the Rust tests, the tests of the public API and the type checks, and ends with one
// closing line that counts them all. Arguments go to vitest.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { ensureBuilt, ensureInstalled, ROOT, run } from './lib/setup.mjs'

const totals = { passed: 0, failed: 0, skipped: 0 }

/** Adds a stage; one that fails without a failed test (it did not build, it crashed) counts as one failure. */
function count(stage, code, { passed, failed, skipped }) {
  const failures = code !== 0 && failed === 0 ? 1 : failed
  console.log(`${stage}: ${passed} passed, ${failures} failed, ${skipped} skipped (exit code ${code})`)
  totals.passed += passed
  totals.failed += failures
  totals.skipped += skipped
}

async function rust() {
  let text = ''
  const code = await run('cargo', ['test', '--no-fail-fast'], {
    onStdout: chunk => {
      process.stdout.write(chunk)
      text += chunk
    },
  })
  const sum = { passed: 0, failed: 0, skipped: 0 }
  for (const [, passed, failed, ignored] of text.matchAll(
    /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm,
  )) {
    sum.passed += Number(passed)
    sum.failed += Number(failed)
    sum.skipped += Number(ignored)
  }
  count('rust', code, sum)
}

async function vitest(args) {
  const folder = mkdtempSync(path.join(tmpdir(), 'agentplug-test-'))
  const report = path.join(folder, 'report.json')
  try {
    const code = await run(process.execPath, [
      path.join(ROOT, 'node_modules/vitest/vitest.mjs'),
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      ...args,
    ])
    const { numPassedTests, numFailedTests, numPendingTests, numTodoTests } = JSON.parse(
      readFileSync(report, 'utf8'),
    )
    count('api', code, {
      passed: numPassedTests,
      failed: numFailedTests,
      skipped: numPendingTests + numTodoTests,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Every importer's view of the declarations: this repository's own, ESM and CommonJS under node16, a bundler. */
async function types() {
  const sum = { passed: 0, failed: 0, skipped: 0 }
  for (const project of ['.', '__test__/resolution/node16', '__test__/resolution/bundler']) {
    const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
    const code = await run(process.execPath, [tsc, '-p', project])
    console.log(`tsc -p ${project}: ${code === 0 ? 'ok' : 'failed'}`)
    code === 0 ? sum.passed++ : sum.failed++
  }
  count('types', sum.failed, sum)
}

try {
  await ensureInstalled()
  await ensureBuilt()
  await rust()
  await vitest(process.argv.slice(2))
  await types()
} catch (error) {
  // What follows cannot run without it: a build that failed, a tool that is missing.
  console.error(error.message)
  totals.failed++
}
const skipped = totals.skipped > 0 ? `, ${totals.skipped} skipped` : ''
console.log(`${totals.passed} passed, ${totals.failed} failed${skipped}`)
process.exitCode = totals.failed > 0 ? 1 : 0
