//! Requests of the server. Every one is answered, whichever thread it belongs to: an agent that waits for an
//! answer hangs.

use serde_json::{Map, Value, json};

use crate::contract::Message;
use crate::wire::rpc::{ServerRequest, code};

/// What an answer leaves behind.
#[derive(Default)]
pub struct Answered {
    pub log: Option<Message>,
    /// The request is none we can serve. A turn that fails without its own words failed of this.
    pub unsupported: Option<String>,
}

/// `stopping`: the turn is being interrupted, so nothing new may start.
pub fn answer(request: ServerRequest, stopping: bool) -> Answered {
    let mut answered = Answered::default();
    match request.method.as_str() {
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            request.answer(&json!({"decision": if stopping { "cancel" } else { "accept" }}));
        }
        "execCommandApproval" | "applyPatchApproval" => {
            request.answer(&json!({"decision": if stopping { "abort" } else { "approved" }}));
        }
        "item/permissions/requestApproval" => {
            let (granted, refused) = grant(&request.params.value());
            if !refused.is_empty() {
                let keys = refused.join(", ");
                let text = format!("codex asks for permissions of unknown kinds, not granted: {keys}");
                answered.log = Some(Message::log("warn", text));
            }
            let granted = if stopping { Map::new() } else { granted };
            request.answer(&json!({"permissions": granted, "scope": "turn"}));
        }
        "mcpServer/elicitation/request" => {
            let tool_call = request.params.value()["_meta"]["codex_approval_kind"] == "mcp_tool_call";
            let accept = tool_call && !stopping;
            if !tool_call {
                let text = "an MCP server asks the user for input; declined, nobody is there to answer";
                answered.log = Some(Message::log("warn", text));
            }
            let action = if accept { "accept" } else { "decline" };
            request.answer(&json!({"action": action, "content": null, "_meta": null}));
        }
        "item/tool/requestUserInput" => {
            let answers = choose(&request.params.value());
            answered.log = Some(Message::log("info", "codex asks the user; answered with the first options"));
            request.answer(&json!({ "answers": answers }));
        }
        "item/tool/call" => {
            let text = "this client has no dynamic tools";
            let items = json!([{"type": "inputText", "text": text}]);
            request.answer(&json!({"contentItems": items, "success": false}));
        }
        other => {
            let text = format!("unsupported codex app-server request: {other}");
            answered.log = Some(Message::log("warn", text.clone()));
            // Of these only the request fails; the turn does not hang on it.
            let harmless = matches!(other, "account/chatgptAuthTokens/refresh" | "attestation/generate");
            if !harmless {
                answered.unsupported = Some(text.clone());
            }
            request.refuse(code::METHOD_NOT_FOUND, &text);
        }
    }
    answered
}

/// The kinds of permission that exist, as asked for; the names of all others.
fn grant(params: &Value) -> (Map<String, Value>, Vec<String>) {
    let mut granted = Map::new();
    let mut refused = Vec::new();
    for (kind, wanted) in params["permissions"].as_object().into_iter().flatten() {
        if !matches!(kind.as_str(), "network" | "fileSystem") {
            refused.push(kind.clone());
        } else if !wanted.is_null() {
            granted.insert(kind.clone(), wanted.clone());
        }
    }
    refused.sort();
    (granted, refused)
}

fn choose(params: &Value) -> Map<String, Value> {
    let questions = params["questions"].as_array().map_or(&[][..], Vec::as_slice);
    let answer = |question: &Value| {
        let id = question["id"].as_str()?.to_owned();
        let first: Vec<&str> = question["options"][0]["label"].as_str().into_iter().collect();
        Some((id, json!({ "answers": first })))
    };
    questions.iter().filter_map(answer).collect()
}
