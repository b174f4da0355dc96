//! Reading versions out of what CLIs print.

use std::sync::LazyLock;

use regex::Regex;
use semver::Version;

/// The line of a `--version` output that holds the version: the first one with three numbers, since shells and
/// launchers print lines of their own before it. Without such a line the whole text, trimmed.
pub fn extract_line(output: &str) -> &str {
    output.lines().map(str::trim).find(|line| SEMVER.is_match(line)).unwrap_or(output.trim())
}

/// The first `1.2.3` or `v1.2.3` in the text. What follows it (a pre-release, a build) is left out: it says
/// nothing about minimum versions, and every CLI writes it in its own way.
pub fn parse_semver(text: &str) -> Option<Version> {
    let caps = SEMVER.captures(text)?;
    let part = |n| caps.get(n).and_then(|m: regex::Match| m.as_str().parse().ok());
    Some(Version::new(part(1)?, part(2)?, part(3)?))
}

static SEMVER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)").expect("constant pattern"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_version_is_found() {
        for (output, line) in [
            ("2.1.5 (Claude Code)\n", "2.1.5 (Claude Code)"),
            ("Active code page: 65001\n0.42.0\n", "0.42.0"),
            ("Active code page: 65001\r\n0.42.0\r\n", "0.42.0"),
            ("\n  v1.2.3-beta.1  \n9.9.9\n", "v1.2.3-beta.1"),
            ("  some-build-id  ", "some-build-id"),
            ("one\ntwo\n", "one\ntwo"),
            ("", ""),
        ] {
            assert_eq!(extract_line(output), line);
        }
    }

    #[test]
    fn three_numbers_make_a_version() {
        for (text, version) in [
            ("codex-cli 0.118.0", Some("0.118.0")),
            ("v2.1.5-rc.1+x", Some("2.1.5")),
            ("OpenClaw 2026.05.05 (abc)", Some("2026.5.5")),
            ("grok 0.2.93 (f00f) [stable]", Some("0.2.93")),
            ("1.2.3.4", Some("1.2.3")),
            ("1.2", None),
            ("99999999999999999999.0.0", None),
            ("invalid", None),
            ("", None),
        ] {
            assert_eq!(parse_semver(text).map(|v| v.to_string()).as_deref(), version, "{text}");
        }
    }
}
