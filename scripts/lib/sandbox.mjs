// A private place for one real CLI: an own home with its configuration, a work directory, and an environment in
// which it finds nothing of the user's own. Everything is below one folder, which goes away as a whole.
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { withPath } from './install.mjs'
import { REAL_CLIS } from './real-clis.mjs'

// Looked up once: a run of conformance points TMPDIR elsewhere.
const SYSTEM_TEMP = tmpdir()

const HOST_VARIABLES = [
  /^(PATH|HOME|USER|USERNAME|LOGNAME|SHELL|LANG|LC_\w+|TZ|TERM|TMPDIR|TEMP|TMP)$/i,
  /^(SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|OS|PROGRAMDATA|PROGRAMFILES.*|COMMONPROGRAMFILES.*|PROCESSOR_.*|NUMBER_OF_PROCESSORS|USERPROFILE|APPDATA|LOCALAPPDATA)$/i,
  /^AGENTPLUG_/,
]

/**
 * Removes from this process's environment all that is not plainly the system's. A CLI inherits it: keys, model
 * settings, proxies and configuration folders of the user would lead it away from the scripted model.
 * Install first, this after: package managers may need what goes here.
 */
export function forgetUserEnvironment() {
  for (const name of Object.keys(process.env)) {
    if (!HOST_VARIABLES.some(kept => kept.test(name))) delete process.env[name]
  }
}

/**
 * A new private folder below the system's temp folder. Resolved: where that is a link, a CLI reports the real path
 * as its working directory.
 */
export const makeRoot = async prefix => realpath(await mkdtemp(join(SYSTEM_TEMP, prefix)))

/** A process that is just ending may still write into it. */
export const removeRoot = root => rm(root, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })

/**
 * @param {{ id: string, executable: string, path: string[] }} cli What `installCli` gave.
 * @param {{ url: string, root: string }} options `url`: of the scripted model. `root`: from `makeRoot`.
 * @returns {Promise<{ home: string, work: string, options: { cwd: string, executablePath: string, env: { PATH: string, [name: string]: string } } }>} `options`: for `execute`
 */
export async function makeSandbox(cli, { url, root }) {
  const [home, work, temp] = ['home', 'work', 'tmp'].map(name => join(root, name))
  await Promise.all([home, work, temp].map(folder => mkdir(folder)))
  const { model, env, files, options } = REAL_CLIS[cli.id].configure({ home, url })
  for (const [name, text] of Object.entries(files)) {
    const file = join(home, name)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }
  return {
    home,
    work,
    options: {
      cwd: work,
      executablePath: cli.executable,
      ...(model && { model }),
      env: { ...homeVariables(home), TMPDIR: temp, TEMP: temp, TMP: temp, PATH: withPath(cli.path), ...env },
      ...options,
    },
  }
}

const homeVariables = home => ({
  HOME: home,
  USERPROFILE: home,
  APPDATA: join(home, 'AppData', 'Roaming'),
  LOCALAPPDATA: join(home, 'AppData', 'Local'),
  XDG_CONFIG_HOME: join(home, '.config'),
  XDG_DATA_HOME: join(home, '.local', 'share'),
  XDG_CACHE_HOME: join(home, '.cache'),
  XDG_STATE_HOME: join(home, '.local', 'state'),
  NO_PROXY: '127.0.0.1,localhost,::1',
})
