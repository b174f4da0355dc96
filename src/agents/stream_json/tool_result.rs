//! What a tool gave back, as text.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::{Block, Str, decode};

/// A string is decoded, a list of texts is joined, anything else stays the JSON text it is.
pub fn output(content: Option<&RawValue>) -> String {
    let Some(content) = content else { return String::new() };
    let json = content.get();
    if let Some(text) = decode::<Str>(json) {
        return text.0.into_owned();
    }
    #[derive(Deserialize)]
    struct Text<'a> {
        #[serde(rename = "type", borrow)]
        kind: Str<'a>,
        #[serde(borrow)]
        text: Str<'a>,
    }
    match decode::<Vec<Text>>(json) {
        Some(parts) if parts.iter().all(|p| &*p.kind == "text") => {
            parts.iter().map(|p| &*p.text).collect::<Vec<_>>().join("\n")
        }
        _ => json.to_owned(),
    }
}

/// `is_error` of the block, or the tool's own verdict: one CLI says `is_error: false` on the block for a command
/// that failed, and the truth in `_meta.rawResponse`.
pub fn is_error(block: &Block<'_>) -> Option<bool> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        raw_response: RawResponse,
    }
    #[derive(Deserialize)]
    struct RawResponse {
        is_error: bool,
    }
    let own = block.meta.and_then(|m| decode::<Meta>(m.get())).map(|m| m.raw_response.is_error);
    if own == Some(true) { own } else { block.is_error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_text_comes_out() {
        for (json, want) in [
            (r#""ok""#, "ok"),
            (r#""a\nb \"q\"""#, "a\nb \"q\""),
            (r#"[{"type":"text","text":"a"}]"#, "a"),
            (r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, "a\nb"),
            ("[]", ""),
            ("null", ""),
            (
                r#"[{"type":"text","text":"a"},{"type":"image"}]"#,
                r#"[{"type":"text","text":"a"},{"type":"image"}]"#,
            ),
            (r#"{"a": 12345678901234567890.10}"#, r#"{"a": 12345678901234567890.10}"#),
            ("7", "7"),
            (r#"["x"]"#, r#"["x"]"#),
        ] {
            let raw = serde_json::from_str::<&RawValue>(json).expect(json);
            assert_eq!(output(Some(raw)), want, "{json}");
        }
        assert_eq!(output(None), "");
    }

    #[test]
    fn the_verdict_of_the_tool_beats_the_block() {
        for (block, want) in [
            ("{}", None),
            (r#"{"is_error":true}"#, Some(true)),
            (r#"{"is_error":false,"_meta":{"rawResponse":{"exitCode":0}}}"#, Some(false)),
            (r#"{"is_error":false,"_meta":{"rawResponse":{"exitCode":3,"is_error":true}}}"#, Some(true)),
            (r#"{"is_error":false,"_meta":"x"}"#, Some(false)),
        ] {
            assert_eq!(is_error(&decode::<Block>(block).expect(block)), want, "{block}");
        }
    }
}
