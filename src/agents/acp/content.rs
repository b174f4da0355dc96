//! Text of a tool call for people: its content blocks and its output.

use serde_json::value::RawValue;

use super::fields::Fields;
use crate::contract::RawJson;

/// The readable blocks of a `content` array, one per line group. Images, client terminals (never offered to
/// the agent) and unknown blocks have no text here.
pub fn text(update: &Fields) -> String {
    let pieces: Vec<String> =
        update.array("content").into_iter().filter_map(block).filter(|t| !t.is_empty()).collect();
    pieces.join("\n")
}

fn block(raw: &str) -> Option<String> {
    let block = Fields::read(raw)?;
    match block.text("type")?.as_str() {
        "content" => {
            let content = block.object("content")?;
            (content.text("type")? == "text").then(|| content.text("text"))?
        }
        "diff" => {
            let path = block.text("path").filter(|p| !p.is_empty())?;
            let old = block.text("oldText").unwrap_or_default().len();
            let new = block.text("newText").unwrap_or_default().len();
            // Sizes only: both texts whole would put every edited file into the transcript twice.
            let change = match old {
                0 => format!("(new file, {new} bytes)"),
                _ => format!("(edited: {old} → {new} bytes)"),
            };
            Some(format!("--- {path}\n+++ {path}\n{change}"))
        }
        _ => None,
    }
}

/// The output of a finished call: a string as it is; else the readable content; else the structure as JSON.
pub fn output(update: &Fields) -> String {
    let mut structure = None;
    for name in ["rawOutput", "output"] {
        match update.raw(name) {
            Some(raw) if raw.starts_with('"') => {
                if let Some(text) = update.text(name).filter(|t| !t.is_empty()) {
                    return text;
                }
            }
            Some(raw) => structure = structure.or(Some(raw)),
            None => {}
        }
    }
    let content = text(update);
    if content.is_empty() { structure.unwrap_or_default().to_owned() } else { content }
}

/// The arguments of a call, where the frame has them: an object as it is; a string by [`arguments_in`];
/// another value under `value`.
pub fn input(update: &Fields) -> Option<RawJson> {
    let raw = update.first_raw(&["rawInput", "input", "parameters"])?;
    match raw.as_bytes().first() {
        Some(b'{') => Some(RawJson(raw.to_owned())),
        Some(b'"') => arguments_in(&serde_json::from_str::<String>(raw).ok()?),
        _ => Some(RawJson(format!("{{\"value\":{raw}}}"))),
    }
}

/// Arguments that came as text: a JSON object as it is, any other text under `text`, blank text as none.
pub fn arguments_in(text: &str) -> Option<RawJson> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.starts_with('{') && serde_json::from_str::<&RawValue>(trimmed).is_ok() {
        return Some(RawJson(trimmed.to_owned()));
    }
    Some(RawJson(serde_json::json!({ "text": text }).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields<'_> {
        Fields::read(json).unwrap()
    }

    #[test]
    fn content_blocks_are_readable() {
        let diff = r#"{"content":[{"type":"diff","path":"a.rs","oldText":"abc","newText":"abcdé"}]}"#;
        assert_eq!(text(&fields(diff)), "--- a.rs\n+++ a.rs\n(edited: 3 → 6 bytes)");
        let mixed = r#"{"content":[
            {"type":"content","content":{"type":"text","text":"one"}},
            {"type":"content","content":{"type":"text","text":""}},
            {"type":"content","content":{"type":"image","data":"x"}},
            {"type":"content","content":{"type":"thing","text":"no"}},
            {"type":"terminal","terminalId":"t"}, 7, null,
            {"type":"diff","path":"","newText":"x"},
            {"type":"diff","path":"n","newText":"xy"}]}"#;
        assert_eq!(text(&fields(mixed)), "one\n--- n\n+++ n\n(new file, 2 bytes)");
        assert_eq!(text(&fields(r#"{"content":"x"}"#)), "");
    }

    #[test]
    fn output_prefers_what_people_can_read() {
        let block = r#""content":[{"type":"content","content":{"type":"text","text":"c"}}]"#;
        for (frame, want) in [
            (format!(r#"{{"rawOutput":"r","output":"o",{block}}}"#), "r"),
            (format!(r#"{{"rawOutput":"","output":"o",{block}}}"#), "o"),
            (format!(r#"{{"rawOutput":null,{block}}}"#), "c"),
            (format!(r#"{{"rawOutput":{{"items":[1]}},{block}}}"#), "c"),
            (r#"{"rawOutput":{"items":[1]}}"#.to_owned(), r#"{"items":[1]}"#),
            (r#"{"output":false}"#.to_owned(), "false"),
            ("{}".to_owned(), ""),
        ] {
            assert_eq!(output(&fields(&frame)), want, "{frame}");
        }
    }

    #[test]
    fn input_is_always_an_object() {
        for (frame, want) in [
            (r#"{"rawInput":{}}"#, Some("{}")),
            (r#"{"rawInput":null,"parameters":{"a": 1}}"#, Some(r#"{"a": 1}"#)),
            (r#"{"input":"{\"a\":1}"}"#, Some(r#"{"a":1}"#)),
            (r#"{"input":"ls"}"#, Some(r#"{"text":"ls"}"#)),
            (r#"{"rawInput":[1]}"#, Some(r#"{"value":[1]}"#)),
            (r#"{"rawInput":" "}"#, None),
            ("{}", None),
        ] {
            assert_eq!(input(&fields(frame)).map(|i| i.0).as_deref(), want, "{frame}");
        }
    }
}
