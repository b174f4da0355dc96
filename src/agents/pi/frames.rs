//! What pi writes on stdout, one JSON object a line. Releases before 0.84 repeat the whole message so far in
//! each delta (`partial`, `message`), so lines of megabytes are normal there: everything that is not read is
//! skipped in place, never copied.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::contract::result::usd_to_ticks;
use crate::contract::{ModelUsage, RawJson};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    /// session: pi's own id.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub assistant_message_event: Option<Update<'a>>,
    /// turn_end: the whole assistant message. error: a text.
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub will_retry: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub aborted: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub success: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub final_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub attempt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub max_attempts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub delay_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reason: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub struct Update<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(default)]
    pub delta: Option<String>,
}

/// The part of turn_end's message that counts.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnMessage<'a> {
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub stop_reason: Option<String>,
    #[serde(default)]
    pub error_message: Option<String>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    #[serde(default)]
    input: Option<u64>,
    #[serde(default)]
    output: Option<u64>,
    #[serde(default)]
    cache_read: Option<u64>,
    #[serde(default)]
    cache_write: Option<u64>,
    #[serde(default)]
    cost: Option<Cost>,
}

#[derive(Debug, Deserialize)]
struct Cost {
    #[serde(default)]
    total: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct ToolOutput<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
}

#[derive(Debug, Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
}

/// A JSON string's value; for anything else its JSON text.
pub fn text(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else { return String::new() };
    string(Some(raw)).unwrap_or_else(|| raw.get().to_owned())
}

/// The value of a JSON string.
pub fn string(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

pub fn boolean(raw: Option<&RawValue>) -> Option<bool> {
    serde_json::from_str(raw?.get()).ok()
}

pub fn number(raw: Option<&RawValue>) -> Option<u64> {
    serde_json::from_str(raw?.get()).ok()
}

/// The readable text of a tool's result: its text blocks, a plain string, else the JSON.
pub fn tool_output(result: Option<&RawValue>) -> String {
    let Some(result) = result else { return String::new() };
    if let Ok(ToolOutput { content }) = serde_json::from_str(result.get()) {
        if content.is_empty() {
            return String::new();
        }
        let texts: Vec<String> =
            content.into_iter().filter(|b| b.kind == "text").filter_map(|b| b.text).collect();
        if !texts.is_empty() {
            return texts.join("\n");
        }
    }
    text(Some(result))
}

/// The object with a tool's arguments, as pi wrote it.
pub fn object(raw: Option<&RawValue>) -> Option<RawJson> {
    raw.filter(|raw| raw.get().starts_with('{')).map(|raw| RawJson(raw.get().to_owned()))
}

/// pi counts cache tokens apart from the input and reasoning inside the output. It works the cost out from its
/// price list and gives 0 for models without a price, so 0 stands for "not known".
pub fn usage(raw: Option<&RawValue>) -> Option<ModelUsage> {
    let tokens: Tokens = serde_json::from_str(raw?.get()).ok()?;
    let cost = tokens.cost.and_then(|cost| cost.total).and_then(usd_to_ticks).filter(|ticks| *ticks > 0);
    let usage = ModelUsage {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
        cost_usd_ticks: cost,
    };
    (!usage.is_zero() || cost.is_some()).then_some(usage)
}
