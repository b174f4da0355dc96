// Finds the shell tool among the tools an agent offers, and fills in its arguments.

// What the agents call it, most specific first.
const NAMES = [
  'Bash',
  'bash',
  'shell',
  'exec_command',
  'shell_command',
  'local_shell',
  'run_shell_command',
  'run_terminal_command',
  'execute_command',
  'terminal',
  'exec',
]

/** @param tools `{ name, schema?, kind? }[]` as advertised; undefined when none of them runs commands. */
export function findShell(tools) {
  const byName = NAMES.map(name => tools.find(tool => tool.name === name)).find(Boolean)
  return byName ?? tools.find(tool => /shell|bash|exec|terminal/i.test(tool.name))
}

const typeOf = property => [property?.type].flat()[0]

// Numbers are mostly time limits, in seconds or milliseconds: long enough in both.
const FILLERS = { boolean: false, number: 60000, integer: 60000, array: [], object: {} }

const filler = property => property?.enum?.[0] ?? FILLERS[typeOf(property)] ?? 'Run a command'

/** Arguments for `command` that satisfy the tool's own JSON schema. */
export function shellArguments(shell, command) {
  const properties = shell.schema?.properties ?? {}
  const key = ['command', 'cmd', 'script', 'input'].find(name => name in properties) ?? 'command'
  const args = { [key]: typeOf(properties[key]) === 'array' ? ['bash', '-lc', command] : command }
  for (const name of shell.schema?.required ?? []) {
    if (!(name in args)) args[name] = filler(properties[name])
  }
  return args
}
