// Where a CLI honestly differs: what is expected to fail, and why it is the CLI and not us. A line here that does
// not fail any more is reported, so that it goes.

/** provider -> `scenario.check`, or `*.check` in any scenario -> reason. */
export const KNOWN = {
  hermes: {
    'cut.status':
      'keeps what came before the connection broke, asks for the rest, and in the end calls that its answer',
    'cut.failure':
      'keeps what came before the connection broke, asks for the rest, and in the end calls that its answer',
  },
  codebuddy: {
    'cut.status':
      'tries a broken connection again for longer than a run may take here, and no setting limits that',
    'cut.failure':
      'tries a broken connection again for longer than a run may take here, and no setting limits that',
  },
  grok: {
    'long-prompt.arrives':
      'puts an excerpt of a very long prompt into the message and names a file with the whole',
  },
  qwen: {
    'error-500.status':
      'tries an HTTP 500 again for longer than a run may take here, and no setting limits that',
    'error-500.failure':
      'tries an HTTP 500 again for longer than a run may take here, and no setting limits that',
  },
  openclaw: {
    '*.tools': 'prints one document at the end of the turn, without the tool calls',
    'narrated-tool.text': 'prints one document at the end of the turn, with the final answer only',
  },
}
