//! Messages -> one flat JavaScript array.
//!
//! Element 0 is a string with one character per message for its kind; then come only the fields that kind
//! has. JavaScript builds the objects from it: creating strings here and objects there is far cheaper than
//! creating objects through Node-API. Upper case = the message has a parent call id as its last field.
//!
//! | kind | fields |
//! |---|---|
//! | `t` text, `h` thinking, `e` error | content |
//! | `u` tool-use | tool, call id, input as JSON text or undefined |
//! | `r` tool-result | call id, tool or undefined, output, is-error or undefined |
//! | `s` status | status, session id or undefined |
//! | `l` log | level, content |

// Raw Node-API calls: the safe wrappers create each value through a conversion trait with a scope check, which
// is measurable at hundreds of thousands of messages a second.
#![allow(unsafe_code)]

use std::ptr;

use napi::bindgen_prelude::{FromNapiValue, Null, ToNapiValue, Unknown};
use napi::{Env, Result, check_status, sys};

use crate::contract::Message;
use crate::run::queue::Drained;

pub fn drained<'env>(env: &'env Env, drained: Drained) -> Result<Unknown<'env>> {
    let raw = match drained {
        Drained::Messages(messages) => Batch::new(env.raw(), messages.len())?.encode(messages)?,
        Drained::Empty => unsafe { Null::to_napi_value(env.raw(), Null)? },
        Drained::Finished => undefined(env.raw())?,
    };
    unsafe { Unknown::from_napi_value(env.raw(), raw) }
}

struct Batch {
    env: sys::napi_env,
    array: sys::napi_value,
    next: u32,
    undefined: sys::napi_value,
}

impl Batch {
    fn new(env: sys::napi_env, messages: usize) -> Result<Self> {
        let mut array = ptr::null_mut();
        check_status!(unsafe { sys::napi_create_array_with_length(env, 1 + messages * 2, &mut array) })?;
        Ok(Batch { env, array, next: 1, undefined: undefined(env)? })
    }

    fn encode(mut self, messages: Vec<Message>) -> Result<sys::napi_value> {
        let mut kinds = String::with_capacity(messages.len());
        for message in &messages {
            let (kind, parent) = match message {
                Message::Text { content, parent_call_id } => {
                    self.text(content)?;
                    ('t', parent_call_id)
                }
                Message::Thinking { content, parent_call_id } => {
                    self.text(content)?;
                    ('h', parent_call_id)
                }
                Message::ToolUse { tool, call_id, input, parent_call_id } => {
                    self.text(tool)?;
                    self.text(call_id)?;
                    self.optional(input.as_ref().map(|i| i.0.as_str()))?;
                    ('u', parent_call_id)
                }
                Message::ToolResult { call_id, tool, output, is_error, parent_call_id } => {
                    self.text(call_id)?;
                    self.optional(tool.as_deref())?;
                    self.text(output)?;
                    self.boolean(*is_error)?;
                    ('r', parent_call_id)
                }
                Message::Status { status, session_id } => {
                    self.text(status)?;
                    self.optional(session_id.as_deref())?;
                    ('s', &None)
                }
                Message::Error { content } => {
                    self.text(content)?;
                    ('e', &None)
                }
                Message::Log { level, content } => {
                    self.text(level)?;
                    self.text(content)?;
                    ('l', &None)
                }
            };
            match parent {
                Some(parent) => {
                    self.text(parent)?;
                    kinds.push(kind.to_ascii_uppercase());
                }
                None => kinds.push(kind),
            }
        }
        let kinds = self.string(&kinds)?;
        check_status!(unsafe { sys::napi_set_element(self.env, self.array, 0, kinds) })?;
        Ok(self.array)
    }

    fn push(&mut self, value: sys::napi_value) -> Result<()> {
        check_status!(unsafe { sys::napi_set_element(self.env, self.array, self.next, value) })?;
        self.next += 1;
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<()> {
        let value = self.string(text)?;
        self.push(value)
    }

    fn optional(&mut self, text: Option<&str>) -> Result<()> {
        match text {
            Some(text) => self.text(text),
            None => self.push(self.undefined),
        }
    }

    fn boolean(&mut self, value: Option<bool>) -> Result<()> {
        let raw = match value {
            None => self.undefined,
            Some(b) => {
                let mut raw = ptr::null_mut();
                check_status!(unsafe { sys::napi_get_boolean(self.env, b, &mut raw) })?;
                raw
            }
        };
        self.push(raw)
    }

    fn string(&self, text: &str) -> Result<sys::napi_value> {
        let mut raw = ptr::null_mut();
        let (data, length) = (text.as_ptr().cast(), text.len() as isize);
        // ASCII needs no decoding on the other side and takes half the memory.
        check_status!(unsafe {
            if text.is_ascii() {
                sys::napi_create_string_latin1(self.env, data, length, &mut raw)
            } else {
                sys::napi_create_string_utf8(self.env, data, length, &mut raw)
            }
        })?;
        Ok(raw)
    }
}

fn undefined(env: sys::napi_env) -> Result<sys::napi_value> {
    let mut raw = ptr::null_mut();
    check_status!(unsafe { sys::napi_get_undefined(env, &mut raw) })?;
    Ok(raw)
}
