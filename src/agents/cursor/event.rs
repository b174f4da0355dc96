//! What cursor-agent writes on stdout with `--output-format stream-json`, older shapes included.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::contract::{ModelUsage, RawJson};

#[derive(Debug, Default, Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub subtype: Option<String>,
    #[serde(default)]
    pub session_id: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub call_id: Option<String>,
    #[serde(borrow, default)]
    pub tool_call: Option<&'a RawValue>,
    #[serde(default)]
    pub tool_name: Option<String>,
    #[serde(default)]
    pub tool_id: Option<String>,
    #[serde(borrow, default)]
    pub parameters: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub part: Option<&'a RawValue>,
    #[serde(default)]
    pub is_error: Option<bool>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    #[serde(default)]
    pub detail: Option<String>,
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(rename = "inputTokens", default)]
    input_tokens: Option<u64>,
    #[serde(rename = "outputTokens", default)]
    output_tokens: Option<u64>,
    #[serde(rename = "cacheReadTokens", default)]
    cache_read_tokens: Option<u64>,
    #[serde(rename = "cacheWriteTokens", default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
}

/// A content block of an assistant message.
#[derive(Debug, Deserialize)]
pub struct Block<'a> {
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub id: Option<String>,
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    tokens: Option<PartTokens>,
}

#[derive(Debug, Deserialize)]
struct PartTokens {
    #[serde(default)]
    input: Option<u64>,
    #[serde(default)]
    output: Option<u64>,
    #[serde(default)]
    cache: Option<PartCache>,
}

#[derive(Debug, Deserialize)]
struct PartCache {
    #[serde(default)]
    read: Option<u64>,
}

impl<'a> Event<'a> {
    /// The blocks of an assistant message; none when it cannot be read.
    pub fn blocks(&self) -> Vec<Block<'a>> {
        self.message
            .and_then(|message| serde_json::from_str::<Body>(message.get()).ok())
            .map_or_else(Vec::new, |body| body.content)
    }

    /// The first of `error`, `detail` and `result` that says something.
    pub fn error_text(&self) -> String {
        #[derive(Deserialize)]
        struct Object {
            message: String,
        }
        let error = self.error.map(|raw| {
            serde_json::from_str(raw.get())
                .or_else(|_| serde_json::from_str(raw.get()).map(|object: Object| object.message))
                .unwrap_or_else(|_| raw.get().to_owned())
        });
        [error, self.detail.clone(), self.result.map(|raw| text(Some(raw)))]
            .into_iter()
            .flatten()
            .find(|text| !text.trim().is_empty())
            .unwrap_or_default()
    }

    /// The text of the old `text` event.
    pub fn part_text(&self) -> Option<String> {
        self.part().text.filter(|text| !text.is_empty())
    }

    /// The counts of the old `step_finish` event.
    pub fn step_usage(&self) -> Option<ModelUsage> {
        let tokens = self.part().tokens?;
        Some(ModelUsage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cache_read_tokens: tokens.cache.and_then(|cache| cache.read),
            ..Default::default()
        })
    }

    fn part(&self) -> Part {
        self.part.and_then(|part| serde_json::from_str(part.get()).ok()).unwrap_or_default()
    }

    /// The counts of a result: its own, else those of its `usage` object. Counters go by several names.
    pub fn result_usage(&self) -> Option<ModelUsage> {
        let own = ModelUsage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
            cost_usd_ticks: None,
        };
        if !own.is_zero() {
            return Some(own);
        }
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(self.usage?.get()).ok()?;
        let count = |names: &[&str]| {
            let told = || names.iter().filter_map(|name| object.get(*name)?.as_u64());
            told().find(|n| *n > 0).or_else(|| told().next())
        };
        Some(ModelUsage {
            input_tokens: count(&["input_tokens", "inputTokens"]),
            output_tokens: count(&["output_tokens", "outputTokens"]),
            cache_read_tokens: count(&[
                "cached_input_tokens",
                "cachedInputTokens",
                "cacheReadTokens",
                "cache_read_input_tokens",
                "cacheReadInputTokens",
            ]),
            cache_write_tokens: count(&[
                "cacheWriteTokens",
                "cache_creation_input_tokens",
                "cacheCreationInputTokens",
            ]),
            cost_usd_ticks: None,
        })
    }
}

/// A JSON string's value; for anything else its JSON text.
pub fn text(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else { return String::new() };
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

pub fn object(raw: Option<&RawValue>) -> Option<RawJson> {
    raw.filter(|raw| raw.get().starts_with('{')).map(|raw| RawJson(raw.get().to_owned()))
}
