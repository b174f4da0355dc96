use serde_json::{Value, json};

use super::super::patch;
use super::{ask, raw, tool_result};
use crate::contract::{Message, RawJson};

/// The messages of these `started` / `completed` items.
async fn told(items: &[(&str, Value)]) -> Vec<Message> {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            for (what, item) in items {
                s.item(what, item.clone()).await;
            }
            s.done().await;
        })
        .await;
    ran.said()
}

fn command(status: &str, output: Value, exit: Value) -> Value {
    json!({"type": "commandExecution", "id": "c1", "command": "ls", "status": status, "aggregatedOutput": output, "exitCode": exit})
}

#[tokio::test(start_paused = true)]
async fn a_command_is_one_use_and_one_result() {
    let use_ = Message::tool_use("exec_command", "c1", raw(json!({"command": "ls"})));
    for (end, output, is_error) in [
        (command("completed", json!("a\n"), json!(0)), "a\n", Some(false)),
        (command("completed", json!(null), json!(0)), "", Some(false)),
        (command("failed", json!("oops\n"), json!(3)), "oops\n", Some(true)),
        (command("failed", json!(""), json!(3)), "failed (exit 3)", Some(true)),
        (command("declined", json!(null), json!(null)), "declined", Some(true)),
    ] {
        let want = [use_.clone(), tool_result("exec_command", "c1", output, is_error)];
        let start = command("inProgress", json!(null), json!(null));
        let twice = [
            ("started", start.clone()),
            ("started", start),
            ("completed", end.clone()),
            ("completed", end.clone()),
        ];
        assert_eq!(told(&twice).await, want);
        assert_eq!(told(&[("completed", end)]).await, want, "a start that was not told is made up for");
    }
}

#[tokio::test(start_paused = true)]
async fn output_that_came_live_stands_in_for_a_missing_one() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.item("started", command("inProgress", json!(null), json!(null))).await;
            for piece in ["a", "b\n"] {
                let delta = json!({"threadId": "T1", "turnId": "U1", "itemId": "c1", "delta": piece});
                s.say("item/commandExecution/outputDelta", delta).await;
            }
            s.item("completed", command("completed", json!(null), json!(0))).await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.said()[1], tool_result("exec_command", "c1", "ab\n", Some(false)));
}

#[tokio::test(start_paused = true)]
async fn file_changes_are_told_with_their_text() {
    let item = |status: &str, changes: Value| json!({"type": "fileChange", "id": "f", "status": status, "changes": changes});
    let changes = json!([
        {"path": "n.txt", "kind": {"type": "add"}, "diff": "hello\n-minus\n"},
        {"path": "o.txt", "kind": {"type": "update", "move_path": "m.txt"}, "diff": "@@ -1 +1 @@\n-1\n+2\n\n\nMoved to: m.txt"},
    ]);
    let want = json!({"changes": [
        {"path": "n.txt", "kind": "add", "content": "hello\n-minus\n"},
        {"path": "o.txt", "kind": "update", "move_path": "m.txt", "diff": "@@ -1 +1 @@\n-1\n+2\n"},
    ]});
    let got =
        told(&[("started", item("inProgress", changes.clone())), ("completed", item("completed", changes))])
            .await;
    assert_eq!(
        got,
        [
            Message::tool_use("patch_apply", "f", raw(want)),
            tool_result("patch_apply", "f", "completed (2 files)", Some(false))
        ]
    );
    for nothing in [json!("x"), json!([42, null]), Value::Null, json!([])] {
        let got = told(&[("started", item("inProgress", nothing))]).await;
        assert_eq!(got, [Message::tool_use("patch_apply", "f", None)]);
    }
}

#[test]
fn patches_are_normalized() {
    for (given, want) in [
        (
            json!([{"path": "e", "kind": {"type": "add"}, "diff": ""}]),
            json!([{"path": "e", "kind": "add", "content": ""}]),
        ),
        (
            json!([{"path": "d", "kind": "delete", "content": "x"}]),
            json!([{"path": "d", "kind": "delete", "content": "x"}]),
        ),
        (
            json!([{"path": "u", "kind": {"type": "update"}, "diff": "", "content": "c"}, {}, 4]),
            json!([{"path": "u", "kind": "update", "content": "c"}]),
        ),
        (
            json!({"b": {"type": "update", "unified_diff": "d", "move_path": "m"}, "a": {"type": "add", "content": ""}}),
            json!([{"path": "a", "kind": "add", "content": ""}, {"path": "b", "kind": "update", "diff": "d", "move_path": "m"}]),
        ),
    ] {
        assert_eq!(patch::input(&given), Some(json!({ "changes": want })), "{given}");
    }
    for (status, changes, stdout, stderr, want) in [
        ("completed", json!([{}]), "", "", "completed (1 file)"),
        ("", json!([{}, {}]), "", "", "2 files changed"),
        ("inProgress", json!(null), " a \n", "b", "in_progress\na\nb"),
        ("failed", json!({}), "", "bad hunk", "failed\nbad hunk"),
        ("", json!(null), "", "", ""),
    ] {
        assert_eq!(patch::output(status, &changes, stdout, stderr), want);
    }
}

#[test]
fn long_patches_are_cut_and_say_so() {
    let change = |path: &str, text: &str| json!({"path": path, "kind": {"type": "add"}, "diff": text});
    let given = json!([change("a", "x"), change("b", &"ä".repeat(35_000)), change("c", "later")]);
    let got = patch::input(&given).unwrap();
    assert_eq!((&got["truncated"], &got["original_bytes"]), (&json!(true), &json!(70_006)));
    let [a, b, c] = [0, 1, 2].map(|n| &got["changes"][n]);
    assert_eq!(*a, json!({"path": "a", "kind": "add", "content": "x"}));
    let cut = b["content"].as_str().unwrap();
    assert!(cut.len() > 65_500 && cut.len() < 65_536 && cut.chars().all(|c| c == 'ä'));
    assert_eq!(b["truncated"], true);
    assert_eq!(*c, json!({"path": "c", "kind": "add", "truncated": true}));
}

#[test]
fn a_key_across_the_cut_is_gone_before_the_cut() {
    let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", "QUJD".repeat(200));
    let text = format!("{}{key}{}", "x".repeat(65_400), "y".repeat(5_000));
    let given = json!([{"path": "k", "kind": {"type": "add"}, "diff": text}]);
    let got = patch::input(&given).unwrap();
    let body = got["changes"][0]["content"].as_str().unwrap();
    assert!(!body.contains("QUJD") && !body.contains("BEGIN"), "{}", &body[65_390..]);
    assert!(body.contains("[REDACTED PRIVATE KEY]"));
    assert_eq!(got["original_bytes"], text.len());
}

#[tokio::test(start_paused = true)]
async fn mcp_calls_keep_their_arguments_but_no_key() {
    let call = |extra: Value| {
        let mut item = json!({"type": "mcpToolCall", "id": "t", "server": "s", "tool": "t"});
        item.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        item
    };
    let got =
        told(&[("started", call(json!({"arguments": {"q": 1, "k": "sk-AAAAAAAAAAAAAAAAAAAAAAAA"}})))]).await;
    let Message::ToolUse { tool, input: Some(RawJson(input)), .. } = &got[0] else { panic!("{got:?}") };
    let input: Value = serde_json::from_str(input).unwrap();
    assert_eq!(
        (tool.as_str(), input),
        ("t", json!({"server": "s", "arguments": {"q": 1, "k": "[REDACTED API KEY]"}}))
    );
    for (end, output, is_error) in [
        (json!({"status": "completed", "durationMs": 12}), "completed\nduration: 12 ms", Some(false)),
        (
            json!({"status": "failed", "error": {"message": "Bearer abc"}}),
            "failed\nerror: Bearer [REDACTED]",
            Some(true),
        ),
        (json!({}), "completed", None),
        (
            json!({"status": "completed", "durationMs": 1, "result": {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "…"}]}}),
            "a\n[image]",
            Some(false),
        ),
    ] {
        let got = told(&[("completed", call(end))]).await;
        assert_eq!(got[1], tool_result("t", "t", output, is_error));
    }
    let blank = json!({"type": "mcpToolCall", "id": "t", "server": "", "tool": " "});
    assert_eq!(told(&[("started", blank)]).await, [Message::tool_use("mcp_tool", "t", None)]);
}

#[tokio::test(start_paused = true)]
async fn arguments_stay_as_the_model_wrote_them() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            let item = r#"{"type":"dynamicToolCall","id":"d","tool":"t","arguments":{"z":1.50,"a":12345678901234567890123}}"#;
            s.raw(&format!("{{\"method\":\"item/started\",\"params\":{{\"threadId\":\"T1\",\"item\":{item}}}}}\n")).await;
            s.done().await;
        })
        .await;
    let want = RawJson(r#"{"arguments":{"z":1.50,"a":12345678901234567890123}}"#.to_owned());
    assert_eq!(ran.said(), [Message::tool_use("t", "d", Some(want))]);
}

#[tokio::test(start_paused = true)]
async fn other_tools_have_a_use_and_a_result() {
    let action = json!({"type": "search", "query": "rust"});
    let search = |query: &str, action: Value| json!({"type": "webSearch", "id": "w", "query": query, "action": action, "results": [{"title": "R", "url": "https://r.example"}]});
    let got =
        told(&[("started", search("", Value::Null)), ("completed", search("rust", action.clone()))]).await;
    assert_eq!(
        got,
        [
            Message::tool_use("web_search", "w", raw(json!({"action": action, "query": "rust"}))),
            tool_result("web_search", "w", "R https://r.example", None)
        ]
    );
    let call = json!({"type": "dynamicToolCall", "id": "d", "tool": "t", "arguments": {}, "status": "completed", "success": false, "contentItems": [{"type": "inputText", "text": "no"}]});
    assert_eq!(told(&[("completed", call)]).await[1], tool_result("t", "d", "no", Some(true)));
    let agent = json!({"type": "collabAgentToolCall", "id": "a", "tool": "spawnAgent", "status": "completed", "prompt": "p", "receiverThreadIds": ["T2"], "model": null, "agentsStates": {"T2": {"status": "completed", "message": "done"}}});
    assert_eq!(
        told(&[("started", agent.clone()), ("completed", agent)]).await,
        [
            Message::tool_use(
                "collab:spawnAgent",
                "a",
                raw(json!({"prompt": "p", "receiverThreadIds": ["T2"]}))
            ),
            tool_result("collab:spawnAgent", "a", "completed\nT2: completed done", Some(false))
        ]
    );
    let image = json!({"type": "imageGeneration", "id": "i", "status": "completed", "revisedPrompt": "cat", "savedPath": "/p.png", "result": "…"});
    assert_eq!(
        told(&[("completed", image)]).await[1],
        tool_result("image_generation", "i", "/p.png", Some(false))
    );
}

#[tokio::test(start_paused = true)]
async fn notes_become_logs() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.item("completed", json!({"type": "plan", "id": "p", "text": "do it"})).await;
            s.item("completed", json!({"type": "contextCompaction", "id": "x"})).await;
            let plan = json!([{"step": "a", "status": "completed"}, {"step": "b", "status": "pending"}]);
            s.say("turn/plan/updated", json!({"threadId": "T1", "turnId": "U1", "explanation": null, "plan": plan})).await;
            s.say("turn/plan/updated", json!({"threadId": "T1", "turnId": "U0", "plan": [{"step": "old"}]})).await;
            s.say("model/rerouted", json!({"threadId": "T1", "fromModel": "m", "toModel": "n", "reason": "full"})).await;
            s.say("deprecationNotice", json!({"summary": "old", "details": "use new"})).await;
            let mcp = |status: &str, error: Value| json!({"threadId": "T1", "name": "toy", "status": status, "error": error});
            s.say("mcpServer/startupStatus/updated", mcp("ready", Value::Null)).await;
            s.say("mcpServer/startupStatus/updated", mcp("failed", json!("no such file"))).await;
            s.done().await;
        })
        .await;
    assert_eq!(
        ran.logs("info"),
        ["plan: do it", "codex compacted the context", "plan: [completed] a\n[pending] b"]
    );
    assert_eq!(
        ran.logs("warn"),
        ["codex answers with n instead of m (full)", "old: use new", "MCP server toy: no such file"]
    );
    assert_eq!(ran.logs("debug"), ["MCP server toy: ready"]);
}
