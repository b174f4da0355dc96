//! The JSON documents it ends with. Four shapes: the turn's result, the same inside a gateway's answer, the
//! envelope of `agent exec`, and an error of the command itself.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::contract::result::usd_to_ticks;
use crate::contract::{Failure, FailureKind, ModelUsage};

/// What a document says.
#[derive(Debug, Default)]
pub struct Document {
    pub pieces: Vec<Piece>,
    /// The final answer, where it is told apart from the pieces.
    pub answer: Option<String>,
    pub end: Ending,
    pub session_id: Option<String>,
    pub model: Option<String>,
    pub usage: ModelUsage,
    /// How long the turn took, where it says so.
    pub took: Option<Duration>,
}

#[derive(Debug, PartialEq)]
pub enum Piece {
    Text(String),
    /// Said on the way, no part of the answer.
    Comment(String),
    Thought(String),
}

#[derive(Debug, Default, PartialEq)]
pub enum Ending {
    #[default]
    Success,
    Failed(String, Option<Failure>),
    /// A deadline of its own ended the turn: that of the run, or that of a request to the model.
    TimedOut(String),
    /// The turn was aborted, by whomever.
    Aborted(String),
}

/// What a JSON object on stdout is.
pub enum Shape {
    Document(Box<Document>),
    /// A streamed event of this type (builds before the documents).
    Event(String),
    Other,
}

pub fn classify(object: &Map<String, Value>) -> Shape {
    if is_result(object) && !object.contains_key("ok") {
        return Shape::Document(Box::new(result(object)));
    }
    if let Some(ok) = object.get("ok").and_then(Value::as_bool) {
        return Shape::Document(Box::new(envelope(object, ok)));
    }
    if let Some(kind) = text(object.get("type")) {
        return Shape::Event(kind);
    }
    if object.contains_key("runId") || object.contains_key("status") {
        if let Some(Value::Object(inner)) = object.get("result").filter(|r| !r.is_null()) {
            return Shape::Document(Box::new(gateway(object, inner)));
        }
        if object.contains_key("runId") && object.contains_key("status") {
            return Shape::Document(Box::new(gateway(object, &Map::new())));
        }
    }
    Shape::Other
}

fn is_result(object: &Map<String, Value>) -> bool {
    object.get("payloads").is_some_and(Value::is_array)
        || object.get("meta").is_some_and(|m| m["durationMs"].as_f64().is_some_and(|ms| ms != 0.0))
}

fn result(object: &Map<String, Value>) -> Document {
    let none = Value::Null;
    let meta = object.get("meta").unwrap_or(&none);
    let agent = &meta["agentMeta"];
    let payloads = object.get("payloads").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut pieces, mut complaints) = (Vec::new(), Vec::new());
    for payload in payloads {
        let is = |flag: &str| payload[flag] == true;
        match text(payload.get("text")) {
            Some(text) if is("isError") => complaints.push(text),
            None if is("isError") => complaints.push("openclaw reported an error without a text".to_owned()),
            Some(text) if is("isReasoning") => pieces.push(Piece::Thought(text)),
            Some(text) if is("isCommentary") => pieces.push(Piece::Comment(text)),
            Some(text) => pieces.push(Piece::Text(text)),
            None => {}
        }
    }
    let error = &meta["error"];
    let aborted = meta["aborted"] == true;
    let end = if error.is_null() && complaints.is_empty() && !aborted {
        Ending::Success
    } else {
        let said = text(error.get("message")).or_else(|| text(Some(error))).or_else(|| complaints.pop());
        let said = said.unwrap_or_else(|| "openclaw aborted the turn".to_owned());
        if meta["timeoutPhase"].is_string() || meta["modelFallbackStopReason"] == "agent_run_terminal_timeout"
        {
            Ending::TimedOut(said)
        } else if aborted {
            Ending::Aborted(said)
        } else {
            let kind = error["kind"].as_str().unwrap_or_default();
            failed(said, kind)
        }
    };
    let mut usage = usage(&agent["usage"]);
    usage.cost_usd_ticks = cost(agent.get("costUsd"));
    Document {
        pieces,
        answer: None,
        end,
        session_id: text(agent.get("sessionId")),
        model: text(agent.get("model")),
        usage,
        took: meta["durationMs"].as_u64().map(Duration::from_millis),
    }
}

fn gateway(object: &Map<String, Value>, inner: &Map<String, Value>) -> Document {
    let mut document = result(inner);
    let summary = || text(object.get("summary"));
    match object.get("status").and_then(Value::as_str).unwrap_or_default() {
        "" | "ok" | "completed" => {}
        "timeout" => {
            document.end = Ending::TimedOut(summary().unwrap_or_else(|| "openclaw timed out".to_owned()))
        }
        "in_flight" => document.end = failed("run already in flight".to_owned(), "in_flight"),
        status if document.end == Ending::Success => {
            document.end =
                failed(summary().unwrap_or_else(|| format!("openclaw returned status {status}")), "");
        }
        _ => {}
    }
    document
}

fn envelope(object: &Map<String, Value>, ok: bool) -> Document {
    let mut document = result(object);
    document.session_id = text(object.get("sessionId")).or(document.session_id);
    document.model = text(object.get("model")).or(document.model);
    if let Some(counts) = object.get("usage") {
        document.usage = usage(counts);
    }
    document.usage.cost_usd_ticks = cost(object.get("costUsd")).or(document.usage.cost_usd_ticks);
    if ok {
        document.answer = text(object.get("final"));
        if document.pieces.is_empty() {
            document.pieces.extend(document.answer.clone().map(Piece::Text));
        }
        return document;
    }
    let none = Value::Null;
    let error = object.get("error").unwrap_or(&none);
    let said = text(error.get("message")).or_else(|| text(Some(error))).or_else(|| match &document.end {
        Ending::Failed(said, _) | Ending::TimedOut(said) | Ending::Aborted(said) => Some(said.clone()),
        Ending::Success => None,
    });
    let said = said.unwrap_or_else(|| "openclaw returned an error result without details".to_owned());
    let kind = error["kind"].as_str().unwrap_or_default();
    document.end = if object.get("status").is_some_and(|s| s == "timeout") {
        Ending::TimedOut(said)
    } else if kind == "aborted" {
        Ending::Aborted(said)
    } else {
        failed(said, kind)
    };
    document
}

/// Whether the state folder belongs to another process for the time being: nothing was started then.
pub fn state_is_owned(said: &str) -> bool {
    said.contains("failed to acquire gateway state ownership")
        || said.contains("A Gateway is running for this state directory")
}

fn failed(said: String, kind: &str) -> Ending {
    let has = |phrase: &str| said.contains(phrase);
    let failure = match kind {
        "context_overflow" => Some(Failure::of(FailureKind::ContextOverflow)),
        "in_flight" => Some(Failure::of(FailureKind::Overloaded)),
        _ if state_is_owned(&said) => Some(Failure::of(FailureKind::Overloaded).hint(
            "another openclaw run or a gateway owns the state folder: wait for it, use openclawMode \"gateway\", or \
             give each run its own folder with the environment variable OPENCLAW_STATE_DIR",
        )),
        // A key that was refused is put aside for about a minute.
        _ if has("temporarily disabled after a provider auth") => {
            Some(Failure { retryable: true, ..Failure::of(FailureKind::Auth) })
        }
        _ if has("gateway agent requires credentials") => Some(
            Failure::of(FailureKind::Auth).hint("openclawMode \"gateway\" needs a gateway that this machine may use"),
        ),
        _ if has("Unknown agent id") => Some(Failure::of(FailureKind::ModelNotFound)),
        _ => match FailureKind::from_text(&said) {
            FailureKind::Unknown if kind == "incomplete_turn" => Some(Failure::of(FailureKind::Provider)),
            FailureKind::Unknown => None,
            worded => Some(Failure::of(worded)),
        },
    };
    Ending::Failed(said, failure)
}

/// Counters under the names of all its versions; the first that is not zero counts.
pub fn usage(value: &Value) -> ModelUsage {
    let count = |names: &[&str]| {
        let found: Vec<u64> =
            names.iter().filter_map(|n| value.get(n)?.as_f64()).map(|n| n.max(0.0) as u64).collect();
        found.iter().find(|n| **n > 0).or(found.first()).copied()
    };
    ModelUsage {
        input_tokens: count(&["input", "inputTokens", "input_tokens"]),
        output_tokens: count(&["output", "outputTokens", "output_tokens"]),
        cache_read_tokens: count(&[
            "cacheRead",
            "cachedInputTokens",
            "cached_input_tokens",
            "cache_read",
            "cache_read_input_tokens",
        ]),
        cache_write_tokens: count(&[
            "cacheWrite",
            "cacheCreationInputTokens",
            "cache_creation_input_tokens",
            "cache_write",
        ]),
        cost_usd_ticks: None,
    }
}

fn cost(usd: Option<&Value>) -> Option<u64> {
    usd?.as_f64().filter(|usd| *usd > 0.0).and_then(usd_to_ticks)
}

/// A string with something in it.
pub fn text(value: Option<&Value>) -> Option<String> {
    value?.as_str().filter(|t| !t.trim().is_empty()).map(str::to_owned)
}
