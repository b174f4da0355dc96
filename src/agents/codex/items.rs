//! Items of a turn -> Messages: text, reasoning, and tools as one use and one result each.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::patch;
use crate::contract::redact::redact_credentials;
use crate::contract::{Message, RawJson};
use crate::wire::rpc::Payload;

/// Output of a running command kept for the case that its end brings none.
const LIVE_OUTPUT: usize = 256 * 1024;

#[derive(Default)]
pub struct Items {
    /// Tools that were announced and have no result yet.
    open: HashMap<String, Open>,
    finished: HashSet<String>,
    /// Text that was passed on piece by piece, of items that are not complete.
    streams: HashMap<String, Stream>,
    /// The item whose text came last.
    live: Option<String>,
    pub answer: Answer,
}

struct Open {
    tool: String,
    live_output: String,
}

#[derive(Default)]
struct Stream {
    text: String,
    part: u64,
    reasoning: bool,
    /// Summaries were streamed, so the raw reasoning of the same item is not.
    summary: bool,
}

/// The agent's words that count.
#[derive(Default)]
pub struct Answer {
    /// The last message that says it is the final one.
    pub last_final: Option<String>,
    pub last: Option<String>,
}

impl Answer {
    pub fn text(&self) -> &str {
        self.last_final.as_deref().or(self.last.as_deref()).unwrap_or_default()
    }
    pub fn note(&mut self, text: &str, is_final: bool) {
        if text.is_empty() {
            return;
        }
        if is_final {
            self.last_final = Some(text.to_owned());
        }
        self.last = Some(text.to_owned());
    }
}

/// What an item event means for the turn.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Effect {
    pub opened: bool,
    pub closed: bool,
    /// A message said that it is the final answer.
    pub final_answer: bool,
}

impl Items {
    /// The text of a message that was being written when the turn ended, else the last whole one.
    pub fn partial(&self) -> &str {
        let live = self.live.as_ref().and_then(|id| self.streams.get(id)).filter(|s| !s.reasoning);
        live.map(|s| s.text.as_str()).filter(|t| !t.is_empty()).unwrap_or(self.answer.text())
    }

    pub fn started(&mut self, item: &Value, params: &Payload, out: &mut Vec<Message>) -> Effect {
        let id = item["id"].as_str().unwrap_or_default();
        let Some((tool, input)) = tool(item, params) else { return Effect::default() };
        // What is searched for is known only at the end.
        if item["type"] == "webSearch" {
            return Effect { opened: true, ..Effect::default() };
        }
        Effect { opened: self.announce(id, tool, input, out), ..Effect::default() }
    }

    fn announce(&mut self, id: &str, tool: String, input: Option<RawJson>, out: &mut Vec<Message>) -> bool {
        if self.open.contains_key(id) || self.finished.contains(id) {
            return false;
        }
        self.open.insert(id.to_owned(), Open { tool: tool.clone(), live_output: String::new() });
        out.push(Message::tool_use(tool, id, input));
        true
    }

    pub fn completed(&mut self, item: &Value, params: &Payload, out: &mut Vec<Message>) -> Effect {
        let id = item["id"].as_str().unwrap_or_default();
        match item["type"].as_str().unwrap_or_default() {
            "agentMessage" => {
                let text = item["text"].as_str().unwrap_or_default();
                let is_final = item["phase"] == "final_answer";
                self.answer.note(text, is_final);
                let rest = self.unstreamed(id, text);
                if !rest.is_empty() {
                    out.push(Message::text(rest));
                }
                return Effect { final_answer: is_final && !text.is_empty(), ..Effect::default() };
            }
            "reasoning" => {
                let streamed = self.end_stream(id);
                let text =
                    [&item["summary"], &item["content"]].map(paragraphs).into_iter().find(|t| !t.is_empty());
                if let Some(text) = text.filter(|_| !streamed) {
                    out.push(Message::thinking(text));
                }
            }
            "plan" => log(out, "info", "plan", &item["text"]),
            "enteredReviewMode" => log(out, "info", "review started", &item["review"]),
            "exitedReviewMode" => log(out, "info", "review ended", &item["review"]),
            "contextCompaction" => out.push(Message::log("info", "codex compacted the context")),
            kind @ ("imageView" | "sleep" | "functionCallOutput" | "hookPrompt" | "subAgentActivity") => {
                out.push(Message::log("debug", format!("codex item: {kind}")));
            }
            _ => {
                if let Some((tool, input)) = tool(item, params) {
                    self.announce(id, tool, input, out);
                    return Effect { closed: self.finish(id, item, out), ..Effect::default() };
                }
            }
        }
        Effect::default()
    }

    fn finish(&mut self, id: &str, item: &Value, out: &mut Vec<Message>) -> bool {
        let Some(open) = self.open.remove(id) else { return false };
        self.finished.insert(id.to_owned());
        let (output, is_error) = result(item, &open.live_output);
        out.push(Message::ToolResult {
            call_id: id.to_owned(),
            tool: Some(open.tool),
            output,
            is_error,
            parent_call_id: None,
        });
        true
    }

    /// A tool of the older event family.
    pub fn legacy_use(&mut self, id: &str, tool: &str, input: Option<Value>, out: &mut Vec<Message>) {
        self.announce(id, tool.to_owned(), input.map(|i| RawJson(i.to_string())), out);
    }

    pub fn legacy_result(
        &mut self,
        id: &str,
        tool: &str,
        output: String,
        is_error: Option<bool>,
        out: &mut Vec<Message>,
    ) {
        self.announce(id, tool.to_owned(), None, out);
        if self.open.remove(id).is_some() {
            self.finished.insert(id.to_owned());
            out.push(Message::ToolResult {
                call_id: id.to_owned(),
                tool: Some(tool.to_owned()),
                output,
                is_error,
                parent_call_id: None,
            });
        }
    }

    /// A piece of a message that is being written.
    pub fn text_delta(&mut self, id: &str, delta: &str, out: &mut Vec<Message>) {
        if delta.is_empty() {
            return;
        }
        self.live = Some(id.to_owned());
        self.streams.entry(id.to_owned()).or_default().text.push_str(delta);
        out.push(Message::text(delta));
    }

    /// A piece of reasoning; `part` counts its paragraphs.
    pub fn thinking_delta(
        &mut self,
        id: &str,
        delta: &str,
        part: u64,
        summary: bool,
        out: &mut Vec<Message>,
    ) {
        if delta.is_empty() {
            return;
        }
        let stream = self.streams.entry(id.to_owned()).or_default();
        stream.reasoning = true;
        if stream.summary && !summary {
            return;
        }
        stream.summary |= summary;
        let gap = if part > stream.part && !stream.text.is_empty() { "\n\n" } else { "" };
        stream.part = part;
        stream.text.push_str(delta);
        out.push(Message::thinking(format!("{gap}{delta}")));
    }

    /// A piece of a running command's output. Its end normally brings all of it.
    pub fn output_delta(&mut self, id: &str, delta: &str) {
        if let Some(open) = self.open.get_mut(id)
            && open.live_output.len() + delta.len() <= LIVE_OUTPUT
        {
            open.live_output.push_str(delta);
        }
    }

    fn end_stream(&mut self, id: &str) -> bool {
        if self.live.as_deref() == Some(id) {
            self.live = None;
        }
        self.streams.remove(id).is_some_and(|s| !s.text.is_empty())
    }

    /// What of a whole text was not passed on yet. Nothing of a text that came out different from its pieces:
    /// it cannot be taken back, and to repeat it would be worse.
    fn unstreamed<'t>(&mut self, id: &str, text: &'t str) -> &'t str {
        if self.live.as_deref() == Some(id) {
            self.live = None;
        }
        match self.streams.remove(id) {
            Some(stream) if !stream.text.is_empty() => text.strip_prefix(&stream.text).unwrap_or_default(),
            _ => text,
        }
    }
}

/// Name and input of a tool item; `None` for other items.
fn tool(item: &Value, params: &Payload) -> Option<(String, Option<RawJson>)> {
    let word = |key: &str| item[key].as_str().map(str::trim).filter(|w| !w.is_empty());
    let picked = |keys: &[&str]| {
        let members: Map<String, Value> = keys
            .iter()
            .filter(|k| !item[**k].is_null() && item[**k] != "")
            .map(|k| (k.to_string(), item[*k].clone()))
            .collect();
        (!members.is_empty()).then(|| RawJson(Value::Object(members).to_string()))
    };
    Some(match item["type"].as_str().unwrap_or_default() {
        "commandExecution" => ("exec_command".to_owned(), picked(&["command", "cwd"])),
        "fileChange" => {
            ("patch_apply".to_owned(), patch::input(&item["changes"]).map(|i| RawJson(i.to_string())))
        }
        "mcpToolCall" => {
            let name = word("tool").unwrap_or("mcp_tool").to_owned();
            (name, call_input(word("server"), item, params))
        }
        "dynamicToolCall" => {
            let name = word("tool").unwrap_or("dynamic_tool").to_owned();
            (name, call_input(None, item, params))
        }
        "collabAgentToolCall" => (
            format!("collab:{}", word("tool").unwrap_or("unknown")),
            picked(&["prompt", "receiverThreadIds", "model"]),
        ),
        "webSearch" => ("web_search".to_owned(), picked(&["query", "action"])),
        "imageGeneration" => ("image_generation".to_owned(), picked(&["revisedPrompt"])),
        _ => return None,
    })
}

/// `{server?, arguments?}`; arguments as the model wrote them unless they hold a credential.
fn call_input(server: Option<&str>, item: &Value, params: &Payload) -> Option<RawJson> {
    #[derive(Deserialize)]
    struct Params {
        item: Item,
    }
    #[derive(Deserialize)]
    struct Item {
        arguments: Box<RawValue>,
    }
    let given = &item["arguments"];
    let cleaned = without_credentials(given, 0);
    let arguments = if *given == cleaned {
        params.parse::<Params>().map_or_else(|_| given.to_string(), |p| p.item.arguments.get().to_owned())
    } else {
        cleaned.to_string()
    };
    let server = server.map(|s| format!("\"server\":{}", json!(s)));
    let arguments = (!given.is_null()).then(|| format!("\"arguments\":{arguments}"));
    let members: Vec<String> = [server, arguments].into_iter().flatten().collect();
    (!members.is_empty()).then(|| RawJson(format!("{{{}}}", members.join(","))))
}

fn without_credentials(value: &Value, depth: usize) -> Value {
    const MAX_DEPTH: usize = 32;
    if depth > MAX_DEPTH {
        return json!("[REDACTED DEPTH LIMIT]");
    }
    match value {
        Value::String(text) => redact_credentials(text).into(),
        Value::Array(items) => items.iter().map(|v| without_credentials(v, depth + 1)).collect(),
        Value::Object(members) => {
            members.iter().map(|(k, v)| (k.clone(), without_credentials(v, depth + 1))).collect()
        }
        other => other.clone(),
    }
}

/// Output and error mark of a tool that ended.
fn result(item: &Value, live_output: &str) -> (String, Option<bool>) {
    let text = |key: &str| item[key].as_str().unwrap_or_default();
    let status = text("status");
    let failed = match status {
        "" => None,
        "completed" => Some(false),
        "failed" | "declined" => Some(true),
        _ => None,
    };
    match text("type") {
        "commandExecution" => {
            let output = [text("aggregatedOutput"), live_output].into_iter().find(|o| !o.is_empty());
            let output = output.map(str::to_owned).unwrap_or_else(|| match item["exitCode"].as_i64() {
                // A command that ran well and printed nothing.
                Some(0) => String::new(),
                Some(code) => format!("{status} (exit {code})"),
                None => status.to_owned(),
            });
            (output, failed)
        }
        "fileChange" => (patch::output(status, &item["changes"], "", ""), failed),
        "mcpToolCall" => {
            let error = item["error"]["message"].as_str().filter(|e| !e.is_empty());
            let content = content_text(&item["result"]["content"]);
            if error.is_none() && !content.is_empty() {
                return (content, failed);
            }
            let status = if status.is_empty() { "completed" } else { status };
            let duration = item["durationMs"].as_u64().filter(|ms| *ms > 0);
            let lines = [
                Some(status.to_owned()),
                duration.map(|ms| format!("duration: {ms} ms")),
                error.map(|e| format!("error: {}", redact_credentials(e))),
            ];
            (lines.into_iter().flatten().collect::<Vec<_>>().join("\n"), failed)
        }
        "dynamicToolCall" => {
            let content = content_text(&item["contentItems"]);
            let failed = item["success"].as_bool().map(|ok| !ok).or(failed);
            (if content.is_empty() { status.to_owned() } else { content }, failed)
        }
        "collabAgentToolCall" => {
            let mut lines = vec![status.to_owned()];
            for (thread, state) in item["agentsStates"].as_object().into_iter().flatten() {
                let status = state["status"].as_str().unwrap_or_default();
                let message = state["message"].as_str().unwrap_or_default();
                lines.push(format!("{thread}: {status} {message}").trim_end().to_owned());
            }
            lines.retain(|l| !l.is_empty());
            (lines.join("\n"), failed)
        }
        "webSearch" => {
            let results = item["results"].as_array().map_or(&[][..], Vec::as_slice);
            let line = |found: &Value| {
                let words = ["title", "url"].map(|key| found[key].as_str().unwrap_or_default());
                Some(words.join(" ").trim().to_owned()).filter(|line| !line.is_empty())
            };
            (results.iter().filter_map(line).collect::<Vec<_>>().join("\n"), failed)
        }
        "imageGeneration" => (item["savedPath"].as_str().unwrap_or(status).to_owned(), failed),
        _ => (status.to_owned(), failed),
    }
}

/// The text blocks of a tool's content, one a line; anything else as JSON.
fn content_text(content: &Value) -> String {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    let text = |block: &Value| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        // Images and sounds are long and no text.
        None => format!("[{}]", block["type"].as_str().unwrap_or("content")),
    };
    blocks.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn paragraphs(parts: &Value) -> String {
    let parts = parts.as_array().map_or(&[][..], Vec::as_slice);
    parts.iter().filter_map(Value::as_str).filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn log(out: &mut Vec<Message>, level: &str, what: &str, text: &Value) {
    let text = text.as_str().map(str::trim).unwrap_or_default();
    out.push(Message::log(level, if text.is_empty() { what.to_owned() } else { format!("{what}: {text}") }));
}
