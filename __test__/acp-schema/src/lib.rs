//! The frames the library sends to ACP agents, checked against the official types of the protocol. The library's
//! own test `frames_are_the_recorded_ones` proves that they are what it sends.
#![cfg(test)]

use agent_client_protocol_schema::v1 as official;
use serde_json::Value;

#[test]
fn every_frame_parses_as_its_official_type() {
    let mut seen = Vec::new();
    for line in include_str!("../frames.jsonl").lines() {
        let frame: Value = serde_json::from_str(line).expect("one frame a line");
        assert_eq!(frame["jsonrpc"], "2.0", "{line}");
        let params = frame["params"].clone();
        let parsed = match frame["method"].as_str() {
            Some("initialize") => serde_json::from_value::<official::InitializeRequest>(params).err(),
            Some("authenticate") => serde_json::from_value::<official::AuthenticateRequest>(params).err(),
            Some("session/new") => serde_json::from_value::<official::NewSessionRequest>(params).err(),
            Some("session/load") => serde_json::from_value::<official::LoadSessionRequest>(params).err(),
            Some("session/resume") => serde_json::from_value::<official::ResumeSessionRequest>(params).err(),
            Some("session/set_config_option") => {
                serde_json::from_value::<official::SetSessionConfigOptionRequest>(params).err()
            }
            Some("session/prompt") => serde_json::from_value::<official::PromptRequest>(params).err(),
            Some("session/cancel") => serde_json::from_value::<official::CancelNotification>(params).err(),
            // Superseded in the protocol by set_config_option, and still what these agents take.
            Some("session/set_model") => None,
            Some(other) => panic!("unknown method {other}"),
            None if frame.get("result").is_some() => {
                serde_json::from_value::<official::RequestPermissionResponse>(frame["result"].clone()).err()
            }
            None => serde_json::from_value::<official::Error>(frame["error"].clone()).err(),
        };
        assert!(parsed.is_none(), "{}: {line}", parsed.unwrap());
        seen.push(frame["method"].as_str().unwrap_or("answer").to_owned());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(
        seen,
        [
            "answer",
            "authenticate",
            "initialize",
            "session/cancel",
            "session/load",
            "session/new",
            "session/prompt",
            "session/resume",
            "session/set_config_option",
            "session/set_model"
        ]
    );
}
