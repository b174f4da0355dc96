//! The payload of a `tool_call` event: `{"readToolCall":{"args":{…},"result":{…}},"toolCallId":"…"}`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::event::{Event, object, text};
use crate::contract::RawJson;

const SUFFIX: &str = "ToolCall";

#[derive(Debug, Default, PartialEq)]
pub struct ToolCall {
    pub call_id: String,
    /// Empty when the payload names none.
    pub tool: String,
    pub input: Option<RawJson>,
    pub output: String,
    pub is_error: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

/// How tools without a type of their own arrive.
#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Option<Value>,
}

impl ToolCall {
    /// Whatever the payload looks like, there is a call with its id, so that start and end stay a pair.
    pub fn read(event: &Event<'_>) -> ToolCall {
        let members: BTreeMap<String, &RawValue> =
            event.tool_call.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let mut call = ToolCall { call_id: first_line(event.call_id.as_deref()), ..Default::default() };
        if call.call_id.is_empty() {
            let id = members.get("toolCallId").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
            call.call_id = first_line(id.as_deref());
        }
        // Keys are in alphabetical order, and the first wins.
        let typed = members.iter().find_map(|(key, value)| {
            let tool = key.strip_suffix(SUFFIX).filter(|tool| !tool.is_empty())?;
            Some((tool, *value))
        });
        if let Some((tool, value)) = typed {
            call.tool = tool.to_owned();
            if let Ok(payload) = serde_json::from_str::<Payload>(value.get()) {
                call.input = object(payload.args);
                (call.output, call.is_error) = outcome(payload.result);
            }
        } else if let Some(function) =
            members.get("function").and_then(|raw| serde_json::from_str::<Function>(raw.get()).ok())
        {
            call.tool = function.name;
            call.input = match function.arguments {
                Some(Value::String(json)) if json.trim_start().starts_with('{') => Some(RawJson(json)),
                Some(arguments @ Value::Object(_)) => Some(RawJson(arguments.to_string())),
                _ => None,
            };
        }
        call
    }
}

/// The CLI packs two ids into one, with a line break between them.
fn first_line(id: Option<&str>) -> String {
    id.unwrap_or_default().trim().lines().next().unwrap_or_default().trim().to_owned()
}

/// The readable text of a result, and whether it is an error. Results are one-of objects (`success`, `error`,
/// `failure`, `rejected`, …); one that says neither stays JSON and leaves the question open.
fn outcome(result: Option<&RawValue>) -> (String, Option<bool>) {
    let Some(result) = result else { return (String::new(), None) };
    let raw = || text(Some(result));
    let Ok(Value::Object(object)) = serde_json::from_str(result.get()) else { return (raw(), None) };
    for (arm, is_error) in [
        ("success", false),
        ("error", true),
        ("failure", true),
        ("rejected", true),
        ("permissionDenied", true),
    ] {
        let Some(body) = object.get(arm) else { continue };
        let failed = body["isError"].as_bool() == Some(true)
            || body["exitCode"].as_i64().is_some_and(|code| code != 0);
        return (readable(body).unwrap_or_else(raw), Some(is_error || failed));
    }
    (raw(), None)
}

fn readable(body: &Value) -> Option<String> {
    if let Some(text) = body.as_str() {
        return Some(text.to_owned());
    }
    match &body["content"] {
        Value::String(content) => return Some(content.clone()),
        // MCP tools: a list of blocks.
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|b| b["text"].as_str().or_else(|| b["text"]["text"].as_str()))
                .collect();
            return (!texts.is_empty()).then(|| texts.join("\n"));
        }
        _ => {}
    }
    if body["stdout"].is_string() || body["stderr"].is_string() {
        let streams = ["stdout", "stderr"].map(|name| body[name].as_str().unwrap_or_default());
        let between = if streams[0].is_empty() || streams[0].ends_with('\n') || streams[1].is_empty() {
            ""
        } else {
            "\n"
        };
        return Some(streams.join(between));
    }
    ["errorMessage", "error", "message", "reason", "output"]
        .iter()
        .find_map(|name| body[*name].as_str())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(event: &str) -> ToolCall {
        ToolCall::read(&serde_json::from_str(event).unwrap())
    }
    fn result(result: &str) -> (String, Option<bool>) {
        let call = read(&format!(r#"{{"call_id":"k","tool_call":{{"xToolCall":{{"result":{result}}}}}}}"#));
        (call.output, call.is_error)
    }

    #[test]
    fn the_id_is_the_first_of_two() {
        for (event, want) in [
            (r#"{"call_id":" k1\nfc_2 "}"#, "k1"),
            (r#"{"call_id":"\n k2\r\nfc","tool_call":{}}"#, "k2"),
            (r#"{"call_id":" ","tool_call":{"toolCallId":"k3\nfc"}}"#, "k3"),
            (r#"{"tool_call":{"toolCallId":"k4"}}"#, "k4"),
            (r#"{"call_id":null,"tool_call":{"toolCallId":5}}"#, ""),
        ] {
            let call = read(event);
            assert_eq!((call.call_id.as_str(), call.tool.as_str()), (want, ""), "{event}");
        }
    }

    #[test]
    fn the_tool_is_named_by_its_key() {
        for (payload, tool, input) in [
            (
                r#"{"readToolCall":{"args":{"path":"/a", "n":1.0}}}"#,
                "read",
                Some(r#"{"path":"/a", "n":1.0}"#),
            ),
            (r#"{"zToolCall":{"args":{}},"aToolCall":{"args":{"x":1}}}"#, "a", Some(r#"{"x":1}"#)),
            (r#"{"ToolCall":{"args":{}},"toolCallId":"k"}"#, "", None),
            (r#"{"readToolCall":7}"#, "read", None),
            (r#"{"readToolCall":{"args":[1]}}"#, "read", None),
            (r#"{"function":{"name":"grep","arguments":"{\"q\":1}"}}"#, "grep", Some(r#"{"q":1}"#)),
            (r#"{"function":{"name":"grep","arguments":{"q":1}}}"#, "grep", Some(r#"{"q":1}"#)),
            (r#"{"function":{"name":"grep","arguments":"plain"}}"#, "grep", None),
            ("[]", "", None),
        ] {
            let call = read(&format!(r#"{{"call_id":"k","tool_call":{payload}}}"#));
            assert_eq!(
                (call.tool.as_str(), call.input.map(|i| i.0)),
                (tool, input.map(str::to_owned)),
                "{payload}"
            );
        }
    }

    #[test]
    fn results_become_text_where_they_can() {
        for (json, text, is_error) in [
            (r#"{"ok":1}"#, r#"{"ok":1}"#, None),
            (r#""plain""#, "plain", None),
            ("null", "", None),
            ("[1]", "[1]", None),
            (r#"{"success":{"content":"file\n","totalLines":1}}"#, "file\n", Some(false)),
            (r#"{"success":{"stdout":"out","stderr":"err","exitCode":0}}"#, "out\nerr", Some(false)),
            (r#"{"success":{"stdout":"","stderr":"err\n","exitCode":3}}"#, "err\n", Some(true)),
            (r#"{"failure":{"stdout":"out\n","stderr":"","exitCode":1}}"#, "out\n", Some(true)),
            (r#"{"error":{"errorMessage":"no such file"}}"#, "no such file", Some(true)),
            (r#"{"error":"flat"}"#, "flat", Some(true)),
            (r#"{"rejected":{"command":"rm","reason":"denied"}}"#, "denied", Some(true)),
            (
                r#"{"success":{"content":[{"text":{"text":"a"}},{"text":"b"}],"isError":true}}"#,
                "a\nb",
                Some(true),
            ),
            (r#"{"success":{"path":"/a"}}"#, r#"{"success":{"path":"/a"}}"#, Some(false)),
        ] {
            assert_eq!(result(json), (text.to_owned(), is_error), "{json}");
        }
    }
}
