use std::time::Duration;

use serde_json::{Value, json};

use super::ask;
use crate::contract::{ErrorCode, FailureKind, Limit, McpConfig, Message, RunStatus};

#[tokio::test(start_paused = true)]
async fn what_was_not_asked_for_is_not_sent() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.done().await;
        })
        .await;
    assert_eq!(*ran.asked("thread/start"), json!({"cwd": "/proj", "approvalPolicy": "never"}));
    assert_eq!(
        *ran.asked("turn/start"),
        json!({"threadId": "T1", "input": [{"type": "text", "text": "Hi"}]})
    );
    assert_eq!(ran.methods(), ["initialize", "initialized", "thread/start", "turn/start"]);
    let hello = ran.asked("initialize");
    assert_eq!(
        (&hello["clientInfo"]["name"], &hello["capabilities"]["experimentalApi"]),
        (&json!("agentplug"), &json!(true))
    );
    let initialized = ran.heard.iter().find(|f| f["method"] == "initialized").unwrap();
    assert_eq!(*initialized, json!({"jsonrpc": "2.0", "method": "initialized"}));
}

#[tokio::test(start_paused = true)]
async fn options_reach_the_thread_and_the_turn() {
    let ran = ask()
        .with(|o| {
            o.model = Some("gpt".into());
            o.system_prompt = Some("be brief".into());
            o.thread_name = Some(" My thread ".into());
            o.thinking_level = Some("high".into());
            o.service_tier = Some("priority".into());
            o.resume_continuity_notice = Some("Notice. ".into());
        })
        .run(async |s| {
            s.begin().await;
            let named = s.expect("thread/name/set").await;
            assert_eq!(named["params"], json!({"threadId": "T1", "name": "My thread"}));
            s.refuse(&named, -32600, "no").await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.done().await;
        })
        .await;
    let want = json!({
        "cwd": "/proj", "approvalPolicy": "never", "model": "gpt", "developerInstructions": "be brief",
        "serviceTier": "priority", "config": {"model_reasoning_effort": "high"},
    });
    assert_eq!(*ran.asked("thread/start"), want);
    let turn = ran.asked("turn/start");
    assert_eq!((&turn["effort"], &turn["serviceTier"]), (&json!("high"), &json!("priority")));
    assert_eq!(turn["input"][0]["text"], "Hi", "no resume was expected");
    assert_eq!(ran.outcome.status, RunStatus::Completed);
    assert_eq!(ran.logs("warn"), ["codex did not take the thread name: thread/name/set: no (code=-32600)"]);
}

fn servers(text: &str) -> Option<McpConfig> {
    McpConfig::parse(text).expect("an object")
}

#[tokio::test(start_paused = true)]
async fn managed_servers_travel_in_the_request_and_the_users_are_switched_off() {
    let toy = json!({"command": "x", "env": {"K": "s3cret"}});
    let user = json!({
        "old": {"command": "o", "env": {"KEY": "users-s3cret"}, "environment_id": "local", "enabled": true},
        "we ird.name": {"url": "u"},
    });
    let mut ask = ask();
    ask.options.mcp_config = servers(&json!({"mcpServers": {"toy": toy}}).to_string());
    let ran = ask
        .run(async |s| {
            s.initialize().await;
            let asked = s.serve("config/read", json!({"config": {"mcp_servers": user}})).await;
            assert_eq!(asked["params"], json!({"cwd": "/proj"}));
            s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.done().await;
        })
        .await;
    let want =
        json!({"mcp_servers": {"toy": toy, "old": {"enabled": false}, "we ird.name": {"enabled": false}}});
    assert_eq!(ran.asked("thread/start")["config"], want);
    assert!(!format!("{:?}", ran.messages).contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn a_managed_empty_set_switches_everything_off() {
    for empty in ["{}", r#"{"mcpServers":{}}"#, r#"{"mcpServers":null}"#] {
        let mut ask = ask();
        ask.options.mcp_config = servers(empty);
        let ran = ask
            .run(async |s| {
                s.initialize().await;
                s.serve("config/read", json!({"config": {"mcp_servers": {"old": {"command": "o"}}}})).await;
                s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
                s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
                s.started().await;
                s.done().await;
            })
            .await;
        let want = json!({"mcp_servers": {"old": {"enabled": false}}});
        assert_eq!(ran.asked("thread/start")["config"], want, "{empty}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_of_the_same_name_are_not_mixed() {
    let user = json!({
        "same": {"command": "a", "args": ["1"], "env": {"A": "1"}, "environment_id": "local", "enabled": false, "tool_timeout_sec": null},
        "more": {"command": "a", "env": {"THEIRS": "1"}},
        "web": {"url": "http://x"},
    });
    let given = json!({"mcpServers": {
        "same": {"command": "b", "args": [], "env": {"A": "2"}},
        "more": {"command": "b", "env": {"OURS": "1"}},
        "web": {"command": "b"},
        "web_2": {"command": "c"},
    }});
    let mut ask = ask();
    ask.options.mcp_config = servers(&given.to_string());
    let ran = ask
        .run(async |s| {
            s.initialize().await;
            s.serve("config/read", json!({"config": {"mcp_servers": user}})).await;
            s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.done().await;
        })
        .await;
    let want = json!({
        "same": {"command": "b", "args": [], "env": {"A": "2"}, "enabled": true},
        "more": {"enabled": false}, "more_2": {"command": "b", "env": {"OURS": "1"}},
        "web": {"enabled": false}, "web_3": {"command": "b"}, "web_2": {"command": "c"},
    });
    assert_eq!(ran.asked("thread/start")["config"]["mcp_servers"], want);
    assert_eq!(ran.logs("warn").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_config_read_keeps_the_users_servers() {
    let mut ask = ask();
    ask.options.mcp_config = servers(r#"{"mcpServers":{"toy":{"command":"x"}}}"#);
    let ran = ask
        .run(async |s| {
            s.initialize().await;
            let asked = s.expect("config/read").await;
            s.refuse(&asked, -32600, "Invalid request: unknown variant").await;
            s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.asked("thread/start")["config"], json!({"mcp_servers": {"toy": {"command": "x"}}}));
    assert!(ran.logs("warn")[0].contains("stay on beside the given ones"));
}

#[test]
fn servers_are_spelled_the_way_codex_reads_them() {
    let spelled = |given: Value| {
        let mut ask = ask();
        ask.options.mcp_config = servers(&json!({"mcpServers": {"s": given}}).to_string());
        let mcp = ask.plan().unwrap().mcp.unwrap();
        (mcp.exclusive(&serde_json::Map::new()).0["s"].clone(), mcp.warnings)
    };
    for (given, want) in [
        (
            json!({"type": "http", "url": "https://h.example/m", "headers": {"Authorization": "Bearer T"}}),
            json!({"url": "https://h.example/m", "http_headers": {"Authorization": "Bearer T"}}),
        ),
        (json!({"type": "HTTP", "url": "u"}), json!({"url": "u"})),
        (json!({"url": "u", "http_headers": {"a": "b"}}), json!({"url": "u", "http_headers": {"a": "b"}})),
        (
            json!({"type": "stdio", "command": "c", "args": ["a"], "tools": ["x"], "enabled_tools": ["y"], "startup_timeout_sec": 5}),
            json!({"command": "c", "args": ["a"], "enabled_tools": ["y"], "startup_timeout_sec": 5}),
        ),
    ] {
        assert_eq!(spelled(given.clone()), (want, Vec::new()), "{given}");
    }
    // Each of these would make the CLI refuse its whole configuration, or be ignored by it.
    let (entry, warnings) =
        spelled(json!({"command": "c", "url": "u", "bearer_token": "t0ken", "timeout": 5}));
    assert_eq!(entry, json!({"command": "c"}));
    assert_eq!(warnings.len(), 3);
    assert!(!warnings.join(" ").contains("t0ken"));
}

#[test]
fn unusable_servers_fail_before_the_start() {
    for (given, says) in [
        (r#"{"mcpServers":{"has space":{"command":"x"}}}"#, "\"has space\""),
        (r#"{"mcpServers":{"":{"command":"x"}}}"#, "\"\""),
        (r#"{"mcpServers":{"s":[1]}}"#, "server s is an array"),
        (r#"{"mcpServers":{"s":{"env":{"A":null}}}}"#, "null is no value for \"env\""),
        (r#"{"mcpServers":[]}"#, "mcpServers is an array"),
    ] {
        let mut ask = ask();
        ask.options.mcp_config = servers(given);
        let error = ask.plan().err().expect("refused");
        assert_eq!(error.code, ErrorCode::InvalidMcpConfig);
        assert!(error.message.contains(says), "{}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_start_is_tried_once_more() {
    for (attempt, notice, retry) in [(1, false, true), (2, false, false), (1, true, false)] {
        let ran = ask()
            .with(|o| o.limits.handshake = Some(Duration::from_millis(200)))
            .attempt(attempt)
            .exit(0, "token=s3cret")
            .run(async |s| {
                s.expect("initialize").await;
                if notice {
                    s.say("configWarning", json!({"summary": "hm"})).await;
                }
                while s.hear().await.is_some() {}
            })
            .await;
        assert_eq!(
            ran.retry.map(|r| r.fresh_session),
            retry.then_some(false),
            "attempt {attempt}, notice {notice}"
        );
        let text = "codex initialize failed: codex app-server handshake timeout: initialize did not respond after 200ms";
        assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Timeout, text));
        assert_eq!(ran.outcome.failure.as_ref().unwrap().limit, Some(Limit::Handshake));
        assert_eq!(ran.outcome.session_id, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_of_the_handshake_limit_holds_for_every_step() {
    for (step, what) in [(0, "initialize"), (1, "thread/start"), (2, "turn/start")] {
        let ran = ask()
            .with(|o| o.limits.handshake = Some(Duration::ZERO))
            .run(async |s| {
                if step > 0 {
                    s.initialize().await;
                }
                if step > 1 {
                    s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
                }
                while s.hear().await.is_some() {}
            })
            .await;
        let text = format!(
            "codex {what} failed: codex app-server handshake timeout: {what} did not respond after 1m0s"
        );
        assert_eq!(ran.error(), text);
        assert_eq!(ran.retry.is_some(), step == 0);
        assert_eq!(ran.outcome.session_id, None, "a thread without a turn cannot be resumed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_exit_in_the_handshake_tells_what_stderr_said() {
    let ran = ask()
        .exit(2, "error: unexpected argument '-m' found")
        .run(async |s| {
            s.expect("initialize").await;
            s.exit();
        })
        .await;
    let text =
        "codex initialize failed: codex process exited; codex stderr: error: unexpected argument '-m' found";
    assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Failed, text));
    let failure = ran.outcome.failure.unwrap();
    let want = (FailureKind::InvalidRequest, false, Some(2));
    assert_eq!((failure.kind, failure.retryable, failure.exit_code), want);
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_does_not_start_fails_the_run() {
    let config = "failed to load configuration: /c.toml:1:1: bad";
    for (answer, text, kind) in [
        (
            Err((-32600, config)),
            format!("codex thread/start failed: thread/start: {config} (code=-32600)"),
            FailureKind::InvalidRequest,
        ),
        (
            Ok(json!({"thread": {}})),
            "codex thread/start returned no thread ID".to_owned(),
            FailureKind::Protocol,
        ),
        (
            Err((-32603, "401 unauthorized")),
            "codex thread/start failed: thread/start: 401 unauthorized (code=-32603)".to_owned(),
            FailureKind::Auth,
        ),
    ] {
        let ran = ask()
            .exit(0, "noise on stderr")
            .run(async |s| {
                s.initialize().await;
                let asked = s.expect("thread/start").await;
                match &answer {
                    Ok(result) => s.reply(&asked, result.clone()).await,
                    Err((code, message)) => s.refuse(&asked, *code, message).await,
                }
                while s.hear().await.is_some() {}
            })
            .await;
        assert_eq!((ran.outcome.status, ran.error()), (RunStatus::Failed, text.as_str()));
        assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, kind);
        assert!(ran.spoken().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drops_its_configuration_gets_no_prompt() {
    let ran = ask()
        .run(async |s| {
            s.initialize().await;
            let details = "/c.toml:1:11: invalid basic string";
            let warning = json!({"summary": "Invalid configuration; using defaults.", "details": details});
            s.say("configWarning", warning).await;
            s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
            while s.hear().await.is_some() {}
        })
        .await;
    assert_eq!(ran.error(), "codex ignores its invalid configuration: /c.toml:1:11: invalid basic string");
    assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, FailureKind::InvalidRequest);
    assert!(!ran.methods().contains(&"turn/start"));
    let harmless = ask()
        .run(async |s| {
            s.initialize().await;
            s.say("configWarning", json!({"summary": "no bubblewrap", "details": null})).await;
            s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.done().await;
        })
        .await;
    assert_eq!(harmless.outcome.status, RunStatus::Completed);
    assert_eq!(harmless.messages[0], Message::log("warn", "no bubblewrap"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_turn_tells_what_stderr_said() {
    let ran = ask()
        .exit(0, "why")
        .run(async |s| {
            s.begin().await;
            let asked = s.expect("turn/start").await;
            s.refuse(&asked, -32600, "model not found").await;
            while s.hear().await.is_some() {}
        })
        .await;
    let text = "codex turn/start failed: turn/start: model not found (code=-32600); codex stderr: why";
    assert_eq!(ran.error(), text);
    assert_eq!(ran.outcome.failure.as_ref().unwrap().kind, FailureKind::ModelNotFound);
    assert_eq!(ran.outcome.session_id, None);
}
