//! The lines of `run --format json`. Fields are optional throughout: which ones come depends on the version.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::contract::{Failure, FailureKind, ModelUsage, RawJson, result::usd_to_ticks};

#[derive(Deserialize)]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Milliseconds since the epoch.
    pub timestamp: Option<u64>,
    #[serde(rename = "sessionID")]
    pub session_id: Option<String>,
    pub part: Option<Part>,
    pub error: Option<Value>,
}

#[derive(Default, Deserialize)]
pub struct Part {
    pub text: Option<String>,
    pub tool: Option<String>,
    #[serde(rename = "callID")]
    pub call_id: Option<String>,
    pub state: Option<ToolState>,
    pub metadata: Option<Value>,
    pub reason: Option<String>,
    pub tokens: Option<Value>,
    pub cost: Option<f64>,
}

impl Part {
    /// The model service ran the tool itself: its result needs no further step.
    pub fn provider_executed(&self) -> bool {
        self.metadata.as_ref().is_some_and(|m| m["providerExecuted"] == true)
    }
}

#[derive(Deserialize)]
pub struct ToolState {
    pub status: Option<String>,
    pub input: Option<Box<RawValue>>,
    pub output: Option<Box<RawValue>>,
    pub error: Option<Value>,
    pub metadata: Option<Value>,
}

impl ToolState {
    pub fn input(&self) -> Option<RawJson> {
        self.input.as_ref().filter(|i| i.get().starts_with('{')).map(|i| RawJson(i.get().to_owned()))
    }

    /// `None` while the tool is still running.
    pub fn result(&self) -> Option<(String, Option<bool>)> {
        match self.status.as_deref()? {
            "completed" => Some((self.output_text(), self.exited_badly().then_some(true))),
            "error" => {
                let error = self.error.as_ref().and_then(Value::as_str).filter(|e| !e.is_empty());
                Some((error.map_or_else(|| self.output_text(), str::to_owned), Some(true)))
            }
            _ => None,
        }
    }

    /// A command that ran counts as `completed` here, whatever its exit code.
    fn exited_badly(&self) -> bool {
        self.metadata.as_ref().and_then(|m| m["exit"].as_i64()).is_some_and(|code| code != 0)
    }

    fn output_text(&self) -> String {
        let Some(output) = &self.output else { return String::new() };
        serde_json::from_str(output.get()).unwrap_or_else(|_| output.get().to_owned())
    }
}

/// The counters of one finished step.
pub struct StepUsage {
    pub counts: ModelUsage,
    /// Anything at all was counted, even what the totals leave out.
    pub reported: bool,
}

impl StepUsage {
    /// `output_lacks_reasoning`: what is known of this version when the counters do not decide it themselves.
    pub fn of(part: &Part, output_lacks_reasoning: bool) -> StepUsage {
        let count = |path: &str| -> Option<u64> {
            let value = part.tokens.as_ref()?.pointer(path)?;
            value.as_u64().or_else(|| value.as_f64().map(|n| n.max(0.0) as u64))
        };
        let (input, mut output) = (count("/input"), count("/output"));
        let (read, write) = (count("/cache/read"), count("/cache/write"));
        let (reasoning, total) = (count("/reasoning"), count("/total"));
        if let Some(thought) = reasoning.filter(|n| *n > 0) {
            let known: u64 = [input, output, read, write].iter().flatten().sum();
            let apart = match total {
                Some(total) if total == known + thought => true,
                Some(total) if total == known => false,
                _ => output_lacks_reasoning,
            };
            if apart {
                output = Some(output.unwrap_or(0) + thought);
            }
        }
        let cost = part.cost.filter(|usd| *usd > 0.0).and_then(usd_to_ticks);
        let reported =
            cost.is_some() || [input, output, read, write, reasoning, total].iter().flatten().any(|n| *n > 0);
        let counts = ModelUsage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_write_tokens: write,
            cost_usd_ticks: cost,
        };
        StepUsage { counts, reported }
    }
}

/// An `error` event: its sentence and what its structure says about the cause.
pub struct SessionError {
    pub text: String,
    pub failure: Option<Failure>,
    /// The turn was aborted, by whomever.
    pub aborted: bool,
}

impl SessionError {
    pub fn of(event: &Event, name: &str) -> SessionError {
        let none = Value::Null;
        let error = event.error.as_ref().unwrap_or(&none);
        let class = error["name"].as_str().unwrap_or_default();
        let data = &error["data"];
        let text = [data["message"].as_str(), error["message"].as_str(), Some(class), error.as_str()]
            .into_iter()
            .flatten()
            .find(|t| !t.is_empty())
            .map_or_else(|| format!("unknown {name} error"), str::to_owned);
        SessionError {
            failure: failure(event, class, data, &text),
            aborted: class == "MessageAbortedError",
            text,
        }
    }
}

fn failure(event: &Event, class: &str, data: &Value, text: &str) -> Option<Failure> {
    let status = data["statusCode"].as_u64().and_then(|s| u16::try_from(s).ok());
    let named = match class {
        "ContextOverflowError" => Some(FailureKind::ContextOverflow),
        "ProviderAuthError" => Some(FailureKind::Auth),
        "ProviderModelNotFoundError" => Some(FailureKind::ModelNotFound),
        _ => None,
    };
    let worded = |text: &str| Some(FailureKind::from_text(text)).filter(|k| *k != FailureKind::Unknown);
    let kind = named
        .or_else(|| status.and_then(FailureKind::from_http_status))
        .or_else(|| worded(text))
        .or_else(|| worded(data["responseBody"].as_str()?))
        .or_else(|| (status == Some(400)).then_some(FailureKind::InvalidRequest))?;
    let mut failure = Failure::of(kind);
    if let Some(retryable) = data["isRetryable"].as_bool() {
        failure.retryable = retryable;
    }
    if matches!(kind, FailureKind::RateLimit | FailureKind::Quota | FailureKind::Overloaded) {
        let wait = data["responseHeaders"]["retry-after"].as_str().and_then(|s| s.parse::<u64>().ok());
        failure.reset_at = wait.zip(event.timestamp).map(|(seconds, now)| now + seconds * 1000);
    }
    Some(failure)
}
