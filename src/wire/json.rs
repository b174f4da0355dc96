//! Leniency that real streams need and serde_json does not give.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Built once: it is asked about every line.
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));

/// Replaces lone surrogate escapes (`\ud83d` without its partner) by `\ufffd`. serde_json refuses the whole
/// line for one of them while JSON.parse accepts it, so events would be lost.
pub fn repair_surrogates(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    // Most lines hold no \u escape at all: one fast search spares the walk over every `\n`.
    let Some(first) = ESCAPE.find(bytes) else { return Cow::Borrowed(line) };
    // An odd run of backslashes before it decides whether it is an escape: start at the run's beginning.
    let mut at = bytes[..first].iter().rposition(|b| *b != b'\\').map_or(0, |p| p + 1);
    let mut fixed: Option<Vec<u8>> = None;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let i = at + found;
        match surrogate(bytes, i) {
            Some(Half::High) if matches!(surrogate(bytes, i + 6), Some(Half::Low)) => at = i + 12,
            Some(_) => {
                fixed.get_or_insert_with(|| bytes.to_vec())[i + 2..i + 6].copy_from_slice(b"fffd");
                at = i + 6;
            }
            // Skip the escaped character too: `\\ud83d` is a backslash and text.
            None => at = i + 2,
        }
        if at >= bytes.len() {
            break;
        }
    }
    match fixed {
        None => Cow::Borrowed(line),
        Some(bytes) => Cow::Owned(String::from_utf8(bytes).expect("only ASCII was replaced")),
    }
}

enum Half {
    High,
    Low,
}

fn surrogate(bytes: &[u8], at: usize) -> Option<Half> {
    let escape = bytes.get(at..at + 6)?;
    if escape[0] != b'\\' || escape[1] != b'u' || !escape[2].eq_ignore_ascii_case(&b'd') {
        return None;
    }
    if !escape[3..].iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    match escape[3].to_ascii_lowercase() {
        b'8'..=b'9' | b'a'..=b'b' => Some(Half::High),
        b'c'..=b'f' => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (line, want) in [
            (r#"{"a":"ok"}"#, "ok"),
            (r#"{"a":"\ud83d\ude00"}"#, "\u{1f600}"),
            (r#"{"a":"x\ud83d"}"#, "x\u{fffd}"),
            (r#"{"a":"\ude00x"}"#, "\u{fffd}x"),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
            (r#"{"a":"\\ud83d"}"#, r"\ud83d"),
            (r#"{"a":"\\\ud83d"}"#, "\\\u{fffd}"),
            (r#"{"a":"\u00e4\n"}"#, "ä\n"),
        ] {
            let v: serde_json::Value = serde_json::from_str(&repair_surrogates(line)).expect(line);
            assert_eq!(v["a"], want, "{line}");
        }
    }

    #[test]
    fn a_cut_escape_is_left_alone() {
        for line in [r"\", r"a\u", r"\ud8", r"\\"] {
            assert_eq!(repair_surrogates(line), line);
        }
    }
}
