//! The client against a scripted agent: what every CLI on it has in common.

mod ending;
mod frames;
mod sessions;
mod tolerance;
mod turns;

use serde_json::{Value, json};

use super::profile::{AcpProfile, Effort, Resume};

pub static PLAIN: AcpProfile = AcpProfile { effort: Effort::Advertised, ..AcpProfile::new("plain") };
pub static LOADS: AcpProfile = AcpProfile {
    resume: Resume::Load,
    history_rejects_resume: true,
    effort: Effort::Option("thinking"),
    ..AcpProfile::new("loads")
};

pub fn chunk(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}
