// The outcome of a conformance run as a table for people and as Markdown.

const MARKS = { pass: 'ok', known: 'known', fail: 'FAIL', skip: '' }

/** One row per scenario, one column per CLI. */
function cells(report) {
  const names = [...new Set(report.clis.flatMap(cli => cli.scenarios.map(each => each.name)))]
  return names.map(name => [
    name,
    ...report.clis.map(cli => MARKS[cli.scenarios.find(each => each.name === name)?.verdict ?? 'skip']),
  ])
}

const title = cli => `${cli.id} ${cli.version}`

export function table(report, paint) {
  const head = ['', ...report.clis.map(cli => cli.id)]
  const rows = cells(report)
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map(row => row[column].length)) + 2)
  const styled = (text, width) => {
    const padded = text.padEnd(width)
    if (text === 'FAIL') return paint.red(padded)
    return text === 'known' ? paint.yellow(padded) : text === 'ok' ? paint.green(padded) : padded
  }
  return [head, ...rows]
    .map(row =>
      row
        .map((text, column) => styled(text, widths[column]))
        .join('')
        .trimEnd(),
    )
    .join('\n')
}

export function markdown(report) {
  const line = row => `| ${row.join(' | ')} |`
  const head = ['scenario', ...report.clis.map(title)]
  const parts = [
    `# Conformance, ${report.date.slice(0, 10)}`,
    '',
    `Real CLIs through the public API of agentplug ${report.agentplug}, against the scripted model. Node ${report.node}, ${report.platform}.`,
    '',
    line(head),
    line(head.map(() => '---')),
    ...cells(report).map(line),
  ]
  const list = (heading, verdict) => {
    const found = report.clis.flatMap(cli =>
      cli.scenarios.flatMap(each =>
        each.checks
          .filter(check => check.verdict === verdict)
          .map(check => `- ${title(cli)}, ${each.name}, ${check.name}: ${check.reason ?? check.problem}`),
      ),
    )
    if (found.length > 0) parts.push('', `## ${heading}`, '', ...found)
  }
  list('Known: the CLI differs', 'known')
  list('Failed', 'fail')
  list('Known, but not seen any more', 'gone')
  return `${parts.join('\n')}\n`
}
