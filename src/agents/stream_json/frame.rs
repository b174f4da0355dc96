//! The lines of stream-json. Borrowed throughout: a text delta costs one allocation, the one of its Message.
//!
//! Streams differ from what a plain derive accepts: `null` stands for a missing field, `type` may come last,
//! counters may be fractions. Fields that only some kinds of line have are decoded in a second pass over the
//! rare lines that have them, so that the frequent ones stay cheap.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A string that is empty when missing or `null`.
#[derive(Debug, Clone, Default)]
pub struct Str<'a>(pub Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Str<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or null")
            }
            fn visit_borrowed_str<E: de::Error>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Borrowed(v)))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Str(Cow::Owned(v.to_owned())))
            }
            fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Str::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
                d.deserialize_str(self)
            }
        }
        deserializer.deserialize_option(V)
    }
}

/// A counter: CLIs print whole numbers, fractions and now and then a negative one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Count, E> {
                Ok(Count(v))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Count, E> {
                Ok(Count(v.max(0) as u64))
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Count, E> {
                Ok(Count(v.max(0.0) as u64))
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// What every line is read as first. What a delta does not have is boxed: the frame is moved several times.
#[derive(Debug, Default, Deserialize)]
pub struct Frame<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Str<'a>,
    #[serde(borrow, default)]
    pub subtype: Str<'a>,
    #[serde(borrow, default)]
    pub session_id: Str<'a>,
    #[serde(borrow, default)]
    pub model: Str<'a>,
    /// The call of the sub-agent this line belongs to; empty in the main loop.
    #[serde(borrow, default)]
    pub parent_tool_use_id: Str<'a>,
    #[serde(borrow, default)]
    pub message: Presence<Box<Body<'a>>>,
    #[serde(borrow)]
    pub event: Option<StreamEvent<'a>>,
    #[serde(borrow)]
    pub abandoned_blocks: Option<Box<AbandonedBlocks<'a>>>,
}

/// Tells a missing field from `null`.
#[derive(Debug, Default)]
pub enum Presence<T> {
    #[default]
    Missing,
    Null,
    Is(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Presence<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Presence::Null, Presence::Is))
    }
}

/// `message` of assistant and user lines.
#[derive(Debug, Default, Deserialize)]
pub struct Body<'a> {
    #[serde(borrow, default)]
    pub id: Str<'a>,
    #[serde(borrow, default)]
    pub model: Str<'a>,
    /// Empty while the message is still being written, and in CLIs that never tell.
    #[serde(borrow, default)]
    pub stop_reason: Str<'a>,
    #[serde(borrow)]
    pub content: Option<Vec<Block<'a>>>,
    pub usage: Option<Tokens>,
}

/// One content block of any type.
#[derive(Debug, Default, Deserialize)]
pub struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Str<'a>,
    #[serde(borrow, default)]
    pub text: Str<'a>,
    #[serde(borrow, default)]
    pub thinking: Str<'a>,
    #[serde(borrow, default)]
    pub id: Str<'a>,
    #[serde(borrow, default)]
    pub name: Str<'a>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_use_id: Str<'a>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    pub is_error: Option<bool>,
    #[serde(rename = "_meta", borrow)]
    pub meta: Option<&'a RawValue>,
}

/// Token counts of one message or one result, as the CLI gives them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Tokens {
    pub input_tokens: Option<Count>,
    pub output_tokens: Option<Count>,
    pub cache_read_input_tokens: Option<Count>,
    pub cache_creation_input_tokens: Option<Count>,
}

/// One event of the model service, as the CLI forwards it in partial mode.
#[derive(Debug, Default, Deserialize)]
pub struct StreamEvent<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Str<'a>,
    #[serde(default)]
    pub index: Option<u64>,
    #[serde(alias = "content_block", borrow)]
    pub delta: Option<Part<'a>>,
    #[serde(borrow)]
    pub message: Option<Box<MessageStart<'a>>>,
    pub usage: Option<Box<Tokens>>,
}

/// A delta, or the beginning of a block.
#[derive(Debug, Default, Deserialize)]
pub struct Part<'a> {
    #[serde(rename = "type", borrow, default)]
    pub kind: Str<'a>,
    #[serde(borrow, default)]
    pub text: Str<'a>,
    #[serde(borrow, default)]
    pub thinking: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
pub struct MessageStart<'a> {
    #[serde(borrow, default)]
    pub id: Str<'a>,
    #[serde(borrow, default)]
    pub model: Str<'a>,
    pub usage: Option<Tokens>,
}

/// Blocks of an attempt that broke off: they will be written anew under another message id.
#[derive(Debug, Default, Deserialize)]
pub struct AbandonedBlocks<'a> {
    #[serde(borrow, default)]
    pub api_message_id: Str<'a>,
    #[serde(default)]
    pub from_block_index: u64,
}

/// One line, read.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost every delta an allocation"
)]
pub enum Parsed<'a> {
    Frame(Frame<'a>),
    /// An assistant line whose message is no message; which sub-agent it came from.
    UnreadableAssistant {
        parent: Str<'a>,
    },
    /// A line of a kind that is not used here, in a shape that is not known here.
    Unused,
    /// No frame, or a broken one.
    Foreign,
}

pub fn parse(text: &str) -> Parsed<'_> {
    if let Ok(frame) = serde_json::from_str(text) {
        return Parsed::Frame(frame);
    }
    // A field that matters to one kind of line only may be anything in the others.
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(rename = "type", borrow, default)]
        kind: Str<'a>,
        #[serde(borrow, default)]
        subtype: Str<'a>,
        #[serde(borrow, default)]
        session_id: Str<'a>,
        #[serde(borrow, default)]
        parent_tool_use_id: Str<'a>,
    }
    match serde_json::from_str::<Envelope>(text) {
        Ok(e) => match &*e.kind {
            "assistant" => Parsed::UnreadableAssistant { parent: e.parent_tool_use_id },
            "user" | "stream_event" => Parsed::Unused,
            _ => Parsed::Frame(Frame {
                kind: e.kind,
                subtype: e.subtype,
                session_id: e.session_id,
                parent_tool_use_id: e.parent_tool_use_id,
                ..Frame::default()
            }),
        },
        Err(_) => Parsed::Foreign,
    }
}

/// Reads the fields one kind of line has beyond [`Frame`]. `None`: a known field has the wrong type.
pub fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// A JSON object with its values as they were written, in order.
#[derive(Debug, Default)]
pub struct RawObject<'a>(pub Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> RawObject<'a> {
    /// `None` for anything but an object.
    pub fn parse(json: &'a str) -> Option<Self> {
        decode(json)
    }
    pub fn get(&self, key: &str) -> Option<&str> {
        // A repeated key: the last one counts, as in every JSON parser these CLIs use.
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.get())
    }
    /// Replaces the value of `key`, or adds it at the end.
    pub fn set(&mut self, key: &'a str, value: Box<RawValue>) {
        match self.0.iter_mut().rev().find(|(k, _)| k == key) {
            Some((_, old)) => *old = Cow::Owned(value),
            None => self.0.push((Cow::Borrowed(key), Cow::Owned(value))),
        }
    }
    pub fn into_raw(self) -> Box<RawValue> {
        serde_json::value::to_raw_value(&self).expect("raw values are JSON")
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = RawObject<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Str<'de>, &'de RawValue>()? {
                    entries.push((key.0, Cow::Borrowed(value)));
                }
                Ok(RawObject(entries))
            }
        }
        deserializer.deserialize_map(V)
    }
}

impl Serialize for RawObject<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(k, v)| (k, &**v)))
    }
}
