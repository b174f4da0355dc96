// A stand-in for every CLI: a real child process that speaks one provider's dialect and follows a list of steps.
//
//   STAND_IN_PROVIDER   whose dialect
//   STAND_IN_STEPS      JSON: what to do once the prompt has arrived, see `act`; or the path of a file with it
//
// It is started as `node cli.mjs <the provider's own arguments>`.

import { spawn } from 'node:child_process'
import { appendFileSync, readFileSync, writeSync } from 'node:fs'
import { dialects, HELP } from './dialects.mjs'

const { STAND_IN_PROVIDER: provider, STAND_IN_STEPS: steps = '[]', STAND_IN_LOG: log } = process.env
const args = process.argv.slice(2)
const note = event => log && appendFileSync(log, `${JSON.stringify(event)}\n`)

if (args.includes('--version') || args.includes('--help')) {
  process.stdout.write(args.includes('--version') ? `${process.env.STAND_IN_VERSION ?? '2026.12.1'}\n` : HELP)
  process.exit(0)
}
note({ started: process.pid, args })

let bytewise = false
function out(text) {
  const bytes = Buffer.from(text)
  if (!bytewise) {
    // A pipe takes what fits: go on until everything is through.
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
    return
  }
  for (const byte of bytes) writeSync(1, Buffer.of(byte))
}

const forever = () => new Promise(() => setInterval(() => {}, 1 << 30))

/** Does one step. `say` turns a step of the conversation into lines of the dialect. */
async function act(step, say) {
  if ('raw' in step) out(`${step.raw}\n`)
  else if ('unterminated' in step) out(step.unterminated)
  else if ('stderr' in step) writeSync(2, step.stderr)
  else if ('huge' in step) out(`${'x'.repeat(step.huge)}\n`)
  else if ('bytewise' in step) bytewise = step.bytewise
  else if ('exit' in step) process.exit(step.exit)
  else if ('hang' in step) await forever()
  else if ('ignoreSigterm' in step) process.on('SIGTERM', () => note({ sigterm: true }))
  else if ('grandchild' in step) {
    // Inherits stdout and outlives us, as a dev server started by a shell tool does.
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1 << 30)'], {
      stdio: 'inherit',
      detached: step.grandchild === 'detached',
    })
    child.unref()
    note({ grandchild: child.pid })
  } else if ('env' in step) note({ env: process.env })
  else for (const line of say(step)) out(`${line}\n`)
}

async function play(say) {
  const list = steps.startsWith('[') ? steps : readFileSync(steps, 'utf8')
  for (const step of JSON.parse(list)) await act(step, say)
}

const dialect = dialects[provider]
if (!dialect) throw new Error(`no dialect for ${provider}`)
await dialect({ args, out: message => out(`${JSON.stringify(message)}\n`), play, note })
process.exit(0)
