//! Control requests of the CLI: it waits for the answer, so each gets exactly one.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::frame::{RawObject, Str, decode};

/// What an allowed permission request is answered with, besides the input.
#[derive(Debug, Clone, Copy)]
pub struct Approval {
    /// Also answer with `allowed`, which one fork reads instead of `behavior`.
    pub allowed: bool,
    /// Ask for the foreground: a background task outlives the run and its result is lost.
    pub foreground: bool,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Inner<'a> {
    #[serde(borrow, default)]
    subtype: Str<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Reply<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
struct Response<'a> {
    subtype: &'a str,
    request_id: Cow<'a, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Decision<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize, Default)]
struct Decision<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    behavior: Option<&'a str>,
    #[serde(rename = "updatedInput", skip_serializing_if = "Option::is_none")]
    updated_input: Option<Cow<'a, RawValue>>,
}

/// The frame that answers `line`. `None` when the line asks nothing.
pub fn answer(line: &str, approval: Approval) -> Option<Vec<u8>> {
    let request = decode::<Request>(line)?;
    let inner =
        request.request.map(RawValue::get).filter(|r| r.starts_with('{')).and_then(decode::<Inner>)?;
    let request_id = request.request_id.map_or_else(|| Cow::Owned(raw("\"\"")), Cow::Borrowed);
    let success = |decision| Response {
        subtype: "success",
        request_id: request_id.clone(),
        response: Some(decision),
        error: None,
    };
    let response = match &*inner.subtype {
        "can_use_tool" | "" => success(Decision {
            allowed: approval.allowed.then_some(true),
            behavior: Some("allow"),
            updated_input: Some(input(inner.input, approval.foreground)),
        }),
        "hook_callback" => success(Decision::default()),
        _ => Response {
            subtype: "error",
            request_id: request_id.clone(),
            response: None,
            error: Some("unsupported"),
        },
    };
    let mut bytes =
        serde_json::to_vec(&Reply { kind: "control_response", response }).expect("our own frames serialize");
    bytes.push(b'\n');
    Some(bytes)
}

/// The tool's input as it was written: no number loses a digit.
fn input(input: Option<&RawValue>, foreground: bool) -> Cow<'_, RawValue> {
    let Some(input) = input.filter(|i| i.get().starts_with('{')) else { return Cow::Owned(raw("{}")) };
    if foreground
        && let Some(mut object) = RawObject::parse(input.get())
        && object.get("run_in_background") == Some("true")
    {
        object.set("run_in_background", raw("false"));
        return Cow::Owned(object.into_raw());
    }
    Cow::Borrowed(input)
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("constant JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Approval = Approval { allowed: false, foreground: false };

    fn ask(request: &str) -> String {
        format!(r#"{{"type":"control_request","request_id":"r1","request":{request}}}"#)
    }
    fn reply(request: &str, approval: Approval) -> Option<String> {
        answer(&ask(request), approval).map(|b| String::from_utf8(b).unwrap())
    }
    fn allowed(input: &str) -> Option<String> {
        let response = format!(r#"{{"behavior":"allow","updatedInput":{input}}}"#);
        Some(format!(
            "{{\"type\":\"control_response\",\"response\":{{\"subtype\":\"success\",\"request_id\":\"r1\",\"response\":{response}}}}}\n"
        ))
    }

    #[test]
    fn permissions_are_given_with_the_input_untouched() {
        let big = r#"{"n":12345678901234567890.0100,"s":"é\n","o": { "k" : [1 , 2] }}"#;
        let request = |input| format!(r#"{{"subtype":"can_use_tool","tool_name":"Bash","input":{input}}}"#);
        assert_eq!(reply(&request(big), PLAIN), allowed(big));
        for odd in ["[1]", "null", "\"x\"", "7"] {
            assert_eq!(reply(&request(odd), PLAIN), allowed("{}"), "{odd}");
        }
        assert_eq!(reply(r#"{"tool_name":"Bash","input":{"a":1}}"#, PLAIN), allowed(r#"{"a":1}"#));
        assert_eq!(reply("{}", PLAIN), allowed("{}"));
    }

    #[test]
    fn a_background_start_is_turned_into_a_foreground_one() {
        let foreground = Approval { foreground: true, ..PLAIN };
        for (input, updated) in [
            (
                r#"{"command":"pwd","run_in_background":true}"#,
                r#"{"command":"pwd","run_in_background":false}"#,
            ),
            (r#"{"run_in_background":true,"n":1.50}"#, r#"{"run_in_background":false,"n":1.50}"#),
            (r#"{"command":"pwd"}"#, r#"{"command":"pwd"}"#),
            (r#"{"run_in_background":"true"}"#, r#"{"run_in_background":"true"}"#),
            (r#"{"x":{"run_in_background":true}}"#, r#"{"x":{"run_in_background":true}}"#),
        ] {
            let request = format!(r#"{{"subtype":"can_use_tool","input":{input}}}"#);
            assert_eq!(reply(&request, foreground), allowed(updated));
            assert_eq!(reply(&request, PLAIN), allowed(input));
        }
    }

    #[test]
    fn every_other_request_gets_an_answer_too() {
        let hook =
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{}}}"#;
        assert_eq!(reply(r#"{"subtype":"hook_callback","callback_id":"c"}"#, PLAIN).unwrap().trim(), hook);
        let no = r#"{"type":"control_response","response":{"subtype":"error","request_id":"r1","error":"unsupported"}}"#;
        for subtype in ["mcp_message", "elicitation", "something_new"] {
            assert_eq!(reply(&format!(r#"{{"subtype":"{subtype}"}}"#), PLAIN).unwrap().trim(), no);
        }
    }

    #[test]
    fn the_request_id_comes_back_as_it_is() {
        for id in ["7", "\"perm_1_2\"", "\"\\u00e4\"", "null"] {
            let line = format!(r#"{{"request_id":{id},"request":{{"subtype":"hook_callback"}}}}"#);
            let reply = String::from_utf8(answer(&line, PLAIN).unwrap()).unwrap();
            let echoed = if id == "null" { "\"\"" } else { id };
            assert!(reply.contains(&format!("\"request_id\":{echoed},")), "{reply}");
        }
    }

    #[test]
    fn what_asks_nothing_gets_no_answer() {
        for line in [r#"{"request_id":"r"}"#, r#"{"request_id":"r","request":"x"}"#, r#"{"request":[]}"#, "x"]
        {
            assert_eq!(answer(line, PLAIN), None, "{line}");
        }
    }
}
