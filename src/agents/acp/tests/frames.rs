//! Every kind of frame the client sends. `__test__/acp-schema` checks the recorded ones against the official
//! types of the protocol.

use serde_json::{Value, json};

use super::super::profile::{AcpProfile, Effort, Hooks, Resume};
use super::super::testing::Setting;
use crate::agents::Stop;

static EVERYTHING: AcpProfile = AcpProfile {
    effort: Effort::Option("thinking"),
    model_in_new: true,
    prompt_twice: true,
    hooks: Hooks { authenticate: Some(|_, _| Ok("key".into())), ..Hooks::NONE },
    ..AcpProfile::new("everything")
};
static LOADING: AcpProfile = AcpProfile { resume: Resume::Load, ..AcpProfile::new("loading") };
static RESUMING: AcpProfile = AcpProfile::new("resuming");

/// One run that uses every request, and answers every kind of question.
async fn frames_of(profile: &'static AcpProfile, resume: bool) -> Vec<Value> {
    let config = r#"{"mcpServers":{"p":{"command":"c","args":["-x"],"env":{"A":"1"}},
        "h":{"url":"http://127.0.0.1:1","headers":{"X":"y"}},"s":{"url":"http://127.0.0.1:1","type":"sse"}}}"#;
    let mut setting = Setting::new(profile).model("m").level("high").mcp(config);
    if resume {
        setting = setting.resume("s0");
    }
    let run = setting
        .play(async |a| {
            loop {
                let Some(next) = a.next().await else { return };
                a.last = next;
                match a.last["method"].as_str() {
                    Some("initialize") => {
                        a.reply(json!({"agentCapabilities":{"mcpCapabilities":{"http":true,"sse":true}}}))
                            .await;
                    }
                    Some("session/prompt") => break,
                    _ => a.reply(json!({"sessionId":"s1"})).await,
                }
            }
            let options = json!([{"optionId":"a","name":"x","kind":"allow_once"}]);
            a.ask(json!(0), "session/request_permission", json!({ "options": options })).await;
            a.ask(json!("r"), "session/request_permission", json!({})).await;
            a.ask(json!(2), "fs/read_text_file", json!({})).await;
            a.stop(Stop::cancelled());
            a.take("session/cancel").await;
            a.ask(json!(3), "session/request_permission", json!({ "options": options })).await;
        })
        .await;
    run.sent
}

#[tokio::test(start_paused = true)]
async fn frames_are_the_recorded_ones() {
    let mut sent = Vec::new();
    for (profile, resume) in [(&EVERYTHING, false), (&LOADING, true), (&RESUMING, true)] {
        for mut frame in frames_of(profile, resume).await {
            // The version of the library is no matter of the protocol.
            if let Some(version) = frame.pointer_mut("/params/clientInfo/version") {
                *version = json!("0.0.0");
            }
            sent.push(frame.to_string());
        }
    }
    let path = format!("{}/__test__/acp-schema/frames.jsonl", env!("CARGO_MANIFEST_DIR"));
    let sent = sent.join("\n") + "\n";
    if std::env::var_os("UPDATE_ACP_FRAMES").is_some() {
        std::fs::write(&path, &sent).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        recorded.replace("\r\n", "\n") == sent,
        "the frames changed: record them with UPDATE_ACP_FRAMES=1 and test __test__/acp-schema"
    );
}
