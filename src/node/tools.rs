//! The functions beside `execute`. Structured values cross as JSON: none of them is on a hot path.

use napi_derive::napi;
use serde::Serialize;

use super::types::ErrorData;
use crate::agents::REGISTRY;
use crate::contract::{AgentplugError, redact};
use crate::run;

/// A value or an error as JSON: `{"ok": …}` or `{"error": …}`.
fn json<T: Serialize>(result: Result<T, AgentplugError>) -> String {
    match result {
        Ok(ok) => serde_json::json!({ "ok": ok }),
        Err(error) => serde_json::json!({ "error": ErrorData::from(error) }),
    }
    .to_string()
}

#[napi(skip_typescript, catch_unwind)]
pub fn provider_ids() -> Vec<&'static str> {
    REGISTRY.iter().map(|a| a.id).collect()
}

#[napi(skip_typescript, catch_unwind)]
pub fn provider_capabilities(provider: String) -> String {
    json(run::provider(&provider).map(|a| a.capabilities))
}

/// `[[id, minimum version], …]` of the providers that have one.
#[napi(skip_typescript, catch_unwind)]
pub fn provider_min_versions() -> Vec<Vec<&'static str>> {
    REGISTRY.iter().filter_map(|a| a.min_version.map(|v| vec![a.id, v])).collect()
}

#[napi(skip_typescript, catch_unwind)]
pub fn provider_launch_header(provider: String) -> Option<&'static str> {
    crate::agents::find(&provider).map(|a| a.launch_header)
}

#[napi(skip_typescript, catch_unwind)]
pub fn redact_text(text: String) -> String {
    redact::redact_here(&text)
}
