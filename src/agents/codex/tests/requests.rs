use serde_json::{Value, json};

use super::ask;
use crate::agents::Stop;
use crate::contract::RunStatus;

/// What the client answers to one request in a running turn.
async fn answer(method: &str, params: Value) -> (Value, super::Ran) {
    let mut got = Value::Null;
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.frame(json!({"id": 0, "method": method, "params": params})).await;
            got = s.hear().await.expect("an answer");
            s.done().await;
        })
        .await;
    (got, ran)
}

#[tokio::test(start_paused = true)]
async fn every_request_gets_the_answer_its_method_allows() {
    let permissions = json!({"permissions": {"network": {"enabled": true}, "fileSystem": null, "gpu": {}}});
    let questions = json!({"questions": [
        {"id": "q1", "options": [{"label": "A"}, {"label": "B"}]},
        {"id": "q2", "options": null},
    ]});
    let elicit = json!({"action": "decline", "content": null, "_meta": null});
    for (method, params, want) in [
        ("item/commandExecution/requestApproval", json!({"threadId": "T1"}), json!({"decision": "accept"})),
        ("item/fileChange/requestApproval", json!({"threadId": "T2"}), json!({"decision": "accept"})),
        ("execCommandApproval", json!({}), json!({"decision": "approved"})),
        ("applyPatchApproval", json!({}), json!({"decision": "approved"})),
        (
            "item/permissions/requestApproval",
            permissions,
            json!({"permissions": {"network": {"enabled": true}}, "scope": "turn"}),
        ),
        ("item/permissions/requestApproval", json!("x"), json!({"permissions": {}, "scope": "turn"})),
        (
            "mcpServer/elicitation/request",
            json!({"mode": "form", "_meta": {"codex_approval_kind": "mcp_tool_call"}}),
            json!({"action": "accept", "content": null, "_meta": null}),
        ),
        ("mcpServer/elicitation/request", json!({"requestedSchema": {"required": ["ok"]}}), elicit.clone()),
        ("mcpServer/elicitation/request", json!({"mode": "url"}), elicit),
        (
            "item/tool/requestUserInput",
            questions,
            json!({"answers": {"q1": {"answers": ["A"]}, "q2": {"answers": []}}}),
        ),
    ] {
        let (got, ran) = answer(method, params).await;
        assert_eq!(got, json!({"jsonrpc": "2.0", "id": 0, "result": want}), "{method}");
        assert_eq!(ran.outcome.status, RunStatus::Completed);
    }
    let (got, _) = answer("item/tool/call", json!({"tool": "x"})).await;
    assert_eq!(got["result"]["success"], false);
    let (got, ran) = answer("item/permissions/requestApproval", json!({"permissions": {"gpu": {}}})).await;
    assert_eq!(got["result"]["permissions"], json!({}));
    assert_eq!(ran.logs("warn"), ["codex asks for permissions of unknown kinds, not granted: gpu"]);
}

#[tokio::test(start_paused = true)]
async fn ids_may_be_strings_and_requests_may_come_at_any_time() {
    let ran = ask()
        .run(async |s| {
            let asked = s.expect("initialize").await;
            s.frame(json!({"id": "q-7", "method": "execCommandApproval", "params": {}})).await;
            let want = json!({"jsonrpc": "2.0", "id": "q-7", "result": {"decision": "approved"}});
            assert_eq!(s.hear().await, Some(want));
            s.reply(&asked, json!({})).await;
            s.expect("initialized").await;
            s.serve("thread/start", json!({"thread": {"id": "T1"}})).await;
            s.serve("turn/start", json!({"turn": {"id": "U1"}})).await;
            s.started().await;
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_request_is_refused_and_does_not_poison_the_turn() {
    let refusal = "unsupported codex app-server request: foo/bar";
    for (status, want, error) in [
        ("completed", RunStatus::Completed, ""),
        ("interrupted", RunStatus::Cancelled, refusal),
        ("failed", RunStatus::Failed, refusal),
    ] {
        let ran = ask()
            .run(async |s| {
                s.turn().await;
                s.frame(json!({"id": 9, "method": "foo/bar"})).await;
                let got = s.hear().await.expect("an answer");
                assert_eq!(got["error"], json!({"code": -32601, "message": refusal}));
                s.completed(status, Value::Null).await;
            })
            .await;
        assert_eq!((ran.outcome.status, ran.error()), (want, error));
        assert_eq!(ran.logs("warn"), [refusal]);
    }
    let (got, _) = answer("account/chatgptAuthTokens/refresh", json!({})).await;
    assert_eq!(got["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_approved_while_the_turn_is_interrupted() {
    let ran = ask()
        .run(async |s| {
            s.turn().await;
            s.stop.send_replace(Some(Stop::cancelled()));
            s.serve("turn/interrupt", json!({})).await;
            for (method, want) in [
                ("item/commandExecution/requestApproval", json!({"decision": "cancel"})),
                ("applyPatchApproval", json!({"decision": "abort"})),
            ] {
                s.frame(json!({"id": 3, "method": method, "params": {}})).await;
                assert_eq!(s.hear().await.expect("an answer")["result"], want);
            }
            s.completed("interrupted", Value::Null).await;
        })
        .await;
    assert_eq!(ran.outcome.status, RunStatus::Aborted);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_a_sign_of_life() {
    let ran = ask()
        .with(|o| o.limits.semantic_inactivity = Some(std::time::Duration::from_millis(100)))
        .run(async |s| {
            s.turn().await;
            for id in 0..5 {
                s.pause(70).await;
                s.frame(json!({"id": id, "method": "execCommandApproval", "params": {}})).await;
                s.hear().await;
            }
            s.done().await;
        })
        .await;
    assert_eq!(ran.outcome.status, RunStatus::Completed);
}
