// Where a CLI honestly differs: what is expected to fail, and why it is the CLI and not us. A line here that does
// not fail any more is reported, so that it goes.

/** provider -> `scenario.check` -> reason. */
export const KNOWN = {}
