//! One line -> what it is, decided by the keys that are present.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON text as the other side wrote it; absent where the member was absent.
#[derive(Clone, Default)]
pub struct Payload(Option<Box<RawValue>>);

impl Payload {
    /// The raw text; `null` for an absent member.
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("null", |raw| raw.get())
    }

    /// `Null` for an absent member, and for text nested too deep to hold as a tree.
    pub fn value(&self) -> Value {
        self.parse().unwrap_or_default()
    }

    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.text())
    }
}

/// Length only: a payload may hold a prompt or a secret.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.text().len())
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

/// An error answer, kept apart by field so that callers never look for a code in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorObject {
    /// The method of the request it answers.
    pub method: String,
    /// 0 when it gave none.
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl ErrorObject {
    /// `data` for people: a string unquoted, anything else as compact JSON.
    pub fn data_text(&self) -> Option<String> {
        Some(match self.data.as_ref()? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// Each member on its own: a wrong type in one loses that member, never the error.
    fn read(raw: &RawValue) -> Self {
        let mut read = ErrorObject { method: String::new(), code: 0, message: String::new(), data: None };
        match serde_json::from_str(raw.get()) {
            Ok(Value::Object(mut object)) => {
                if let Some(code) = object.get("code") {
                    read.code = code.as_i64().or_else(|| code.as_f64().map(|f| f as i64)).unwrap_or(0);
                }
                if let Some(Value::String(text)) = object.remove("message") {
                    read.message = text;
                }
                read.data = object.remove("data").filter(|d| !d.is_null());
            }
            Ok(Value::String(text)) => read.message = text,
            Ok(Value::Null) | Err(_) => {}
            Ok(other) => read.data = Some(other),
        }
        read
    }
}

impl std::fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} (code={}", self.method, self.message, self.code)?;
        if let Some(data) = self.data_text() {
            write!(f, ", data={data}")?;
        }
        f.write_str(")")
    }
}

pub(super) enum Routed {
    /// `id`: `None` when it cannot be one of ours.
    Response {
        id: Option<u64>,
        outcome: Result<Payload, ErrorObject>,
    },
    Request {
        id: Box<RawValue>,
        method: String,
        params: Payload,
    },
    Notification {
        method: String,
        params: Payload,
    },
    Foreign {
        text: String,
        terminated: bool,
    },
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is `null` is present; serde's own `Option` would take it as absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Only an object can be a frame. A derived struct would also take an array of its fields in order.
pub(super) fn route(line: &str, terminated: bool) -> Option<Routed> {
    let foreign = || Routed::Foreign { text: line.to_owned(), terminated };
    if !line.starts_with('{') {
        return Some(foreign());
    }
    let Ok(frame) = serde_json::from_str::<Frame>(line) else { return Some(foreign()) };
    let owned = |raw: Option<&RawValue>| Payload(raw.map(ToOwned::to_owned));
    if let Some(id) = frame.id {
        if let Some(result) = frame.result {
            let outcome = match frame.error.filter(|e| e.get() != "null") {
                Some(error) => Err(ErrorObject::read(error)),
                None => Ok(owned(Some(result))),
            };
            return Some(Routed::Response { id: number(id), outcome });
        }
        if let Some(error) = frame.error {
            return Some(Routed::Response { id: number(id), outcome: Err(ErrorObject::read(error)) });
        }
    }
    let Some(method) = frame.method.and_then(|m| serde_json::from_str::<String>(m.get()).ok()) else {
        return Some(foreign());
    };
    let params = owned(frame.params);
    Some(match frame.id {
        Some(id) => Routed::Request { id: id.to_owned(), method, params },
        None => Routed::Notification { method, params },
    })
}

/// Our ids are integers; some servers give them back as `1.0` or `"1"`.
fn number(raw: &RawValue) -> Option<u64> {
    match serde_json::from_str(raw.get()).ok()? {
        Value::Number(n) => {
            n.as_u64().or_else(|| n.as_f64().filter(|f| *f >= 0.0 && f.is_finite()).map(|f| f as u64))
        }
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
