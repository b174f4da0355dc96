//! File changes as tool input and tool result.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::contract::redact::redact_credentials;

/// Bytes of diffs and file texts passed on for one event. The paths always stay.
const BODY_BUDGET: usize = 64 * 1024;

/// `{changes: [{path, kind, diff | content, move_path?}]}`; `None` when nothing is usable.
pub fn input(changes: &Value) -> Option<Value> {
    let entries: Vec<Map<String, Value>> = match changes {
        Value::Array(entries) => entries.iter().filter_map(entry).collect(),
        Value::Object(by_path) => {
            let mut sorted: Vec<_> = by_path.iter().collect();
            sorted.sort_by_key(|(path, _)| path.as_str());
            sorted.into_iter().filter_map(|(path, change)| legacy_entry(path, change)).collect()
        }
        _ => return None,
    };
    (!entries.is_empty()).then(|| within_budget(entries))
}

fn entry(change: &Value) -> Option<Map<String, Value>> {
    let change = change.as_object()?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let mut out = Map::new();
    let path = text(change.get("path")).filter(|p| !p.is_empty());
    let kind_object = change.get("kind").and_then(Value::as_object);
    let kind = text(kind_object.and_then(|k| k.get("type")).or(change.get("kind"))).filter(|k| !k.is_empty());
    let move_path = text(kind_object.and_then(|k| k.get("move_path")).or(change.get("move_path")))
        .filter(|p| !p.is_empty());
    let diff = text(change.get("diff"));
    let content = text(change.get("content"));
    if matches!(kind.as_deref(), Some("add" | "delete")) {
        // For these the CLI puts the whole text of the file where the diff belongs.
        if let Some(content) = diff.or(content) {
            out.insert("content".to_owned(), content.into());
        }
    } else if let Some(mut diff) = diff.filter(|d| !d.is_empty()) {
        let moved = move_path.as_ref().map(|to| format!("\n\nMoved to: {to}"));
        if let Some(cut) = moved.and_then(|note| diff.strip_suffix(&note).map(str::len)) {
            diff.truncate(cut);
        }
        out.insert("diff".to_owned(), diff.into());
    } else if let Some(content) = content {
        out.insert("content".to_owned(), content.into());
    }
    insert(&mut out, "path", path);
    insert(&mut out, "kind", kind);
    insert(&mut out, "move_path", move_path);
    (!out.is_empty()).then_some(out)
}

fn legacy_entry(path: &str, change: &Value) -> Option<Map<String, Value>> {
    let change = change.as_object()?;
    let text = |key: &str| change.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut out = Map::new();
    insert(&mut out, "path", Some(path.to_owned()).filter(|p| !p.is_empty()));
    insert(&mut out, "kind", text("type").filter(|k| !k.is_empty()));
    insert(&mut out, "diff", text("unified_diff").filter(|d| !d.is_empty()));
    insert(&mut out, "content", text("content"));
    insert(&mut out, "move_path", text("move_path").filter(|p| !p.is_empty()));
    (!out.is_empty()).then_some(out)
}

fn insert(out: &mut Map<String, Value>, key: &str, value: Option<String>) {
    if let Some(value) = value {
        out.insert(key.to_owned(), value.into());
    }
}

/// Credentials go first: one that the cut goes through has no shape any more.
fn within_budget(mut entries: Vec<Map<String, Value>>) -> Value {
    let mut original = 0;
    let mut total = 0;
    for body in entries.iter_mut().flat_map(bodies) {
        original += body.len();
        if let Cow::Owned(clean) = redact_credentials(body) {
            *body = clean;
        }
        total += body.len();
    }
    if total <= BODY_BUDGET {
        return json!({ "changes": entries });
    }
    let mut left = BODY_BUDGET;
    for entry in &mut entries {
        let mut touched = false;
        for body in bodies(entry) {
            if body.len() > left {
                let mut cut = left;
                while !body.is_char_boundary(cut) {
                    cut -= 1;
                }
                body.truncate(cut);
                left = 0;
                touched = true;
            } else {
                left -= body.len();
            }
        }
        if touched {
            entry.retain(|key, value| !(matches!(key.as_str(), "diff" | "content") && *value == ""));
            entry.insert("truncated".to_owned(), true.into());
        }
    }
    json!({ "changes": entries, "truncated": true, "original_bytes": original })
}

fn bodies(entry: &mut Map<String, Value>) -> impl Iterator<Item = &mut String> {
    entry.iter_mut().filter_map(|(key, value)| match value {
        Value::String(text) if matches!(key.as_str(), "diff" | "content") => Some(text),
        _ => None,
    })
}

/// `completed (2 files)`, then what the patch tool printed.
pub fn output(status: &str, changes: &Value, stdout: &str, stderr: &str) -> String {
    let count = match changes {
        Value::Array(entries) => entries.iter().filter(|e| e.is_object()).count(),
        Value::Object(by_path) => by_path.len(),
        _ => 0,
    };
    let status = if status == "inProgress" { "in_progress" } else { status };
    let files = if count == 1 { "file" } else { "files" };
    let headline = match (status.is_empty(), count) {
        (false, 0) => status.to_owned(),
        (false, n) => format!("{status} ({n} {files})"),
        (true, 0) => String::new(),
        (true, n) => format!("{n} {files} changed"),
    };
    [headline.as_str(), stdout.trim(), stderr.trim()]
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
