//! How failures are told apart.

use super::*;

#[test]
fn is_error_decides_and_not_the_subtype() {
    let overloaded = r#""is_error":true,"session_id":"s","result":"API Error: 529 overloaded","terminal_reason":"api_error""#;
    for (fields, status, error, kind) in [
        (overloaded, RunStatus::Failed, "API Error: 529 overloaded", Some(FailureKind::Overloaded)),
        (
            r#""is_error":true,"result":"""#,
            RunStatus::Failed,
            "claude returned an error result without details",
            Some(FailureKind::Unknown),
        ),
        (
            r#""is_error":true,"subtype":"success","errors":["a","b"]"#,
            RunStatus::Failed,
            "a; b",
            Some(FailureKind::Unknown),
        ),
        (r#""is_error":false,"subtype":"error_max_turns""#, RunStatus::Completed, "", None),
        (
            r#""subtype":"error_during_execution","errors":["a"]"#,
            RunStatus::Failed,
            "a",
            Some(FailureKind::Unknown),
        ),
        (r#""is_error":null,"subtype":"success""#, RunStatus::Completed, "", None),
    ] {
        let d = run(&[&result(fields)]);
        let session = fields.contains("\"s\"").then_some("s");
        assert_eq!(ended(&d.outcome), (status, "", error, session), "{fields}");
        assert_eq!(failure_kind(&d.outcome), kind, "{fields}");
    }
}

#[test]
fn a_used_up_context_window_is_no_rejection() {
    for (fields, says) in [
        (
            r#""subtype":"success","is_error":true,"terminal_reason":"prompt_too_long","session_id":"s","result":"""#,
            "recover",
        ),
        (
            r#""terminal_reason":" prompt_too_long ","is_error":false,"session_id":"s","result":"too big""#,
            "(too big)",
        ),
    ] {
        let d = resumed("s", &[&result(fields)]);
        let (status, output, error, session) = ended(&d.outcome);
        assert_eq!((status, output, session), (RunStatus::Failed, "", Some("s")));
        assert!(error.contains("prompt_too_long") && error.ends_with(says), "{error}");
        assert_eq!(d.outcome.resume_rejected, Some(false));
        assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ContextOverflow));
    }
    let d = run(&[&result(r#""is_error":true,"terminal_reason":"rapid_refill_breaker","result":"x""#)]);
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ContextOverflow));
}

#[test]
fn a_turn_that_the_agent_calls_aborted_is_cancelled() {
    let aborted =
        result(r#""subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools""#);
    let d = run(&[INIT, &assistant(&text("A")), &aborted]);
    assert_eq!(ended(&d.outcome), (RunStatus::Cancelled, "", "claude cancelled the turn", Some("s1")));
    assert_eq!(d.outcome.partial_output.as_deref(), Some("A"));
}

#[test]
fn a_refused_resume_is_told_apart_from_a_failure() {
    let old = r#"{"type":"system","session_id":"s-old"}"#;
    let d =
        resumed("s-old", &[old, &result(r#""is_error":true,"result":"400 此 session 已绑定另外的ai账号""#)]);
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", "400 此 session 已绑定另外的ai账号", None));
    assert_eq!(d.outcome.resume_rejected, Some(true));
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ResumeRejected));
    let closed =
        r#""is_error":true,"session_id":"s-old","result":"API Error: Connection closed mid-response""#;
    let d = resumed("s-old", &[old, &result(closed)]);
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id.as_deref()), (Some(false), Some("s-old")));
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::Network));
    // It went on elsewhere, and failed there.
    let d = resumed("s-old", &[INIT, &result(r#""is_error":true,"result":"x""#)]);
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id), (Some(true), None));
    let d = resumed("s-old", &[INIT, OK]);
    assert_eq!((d.outcome.resume_rejected, d.outcome.session_id.as_deref()), (Some(false), Some("s1")));
}

#[test]
fn an_error_that_came_as_an_answer_fails_the_run() {
    let synthetic = |t: &str| {
        format!(r#"{{"type":"assistant","message":{{"model":"<synthetic>","content":[{}]}}}}"#, text(t))
    };
    let ok = |t: &str| result(&format!(r#""is_error":false,"result":{t:?}"#));
    for (t, kind) in [
        ("API Error: 529 overloaded", FailureKind::Overloaded),
        ("Credit balance is too low", FailureKind::Quota),
        ("Claude AI usage limit reached|1749924000", FailureKind::RateLimit),
    ] {
        let d = run(&[INIT, &synthetic(t), &ok(t)]);
        assert_eq!(shown(&d), ["running S", &format!("text {t}")]);
        assert_eq!((d.outcome.status, d.outcome.error.as_deref()), (RunStatus::Failed, Some(t)));
        assert_eq!(failure_kind(&d.outcome), Some(kind), "{t}");
    }
    let t = "API Error: 529 means the service is overloaded.";
    let by_model = assistant(&text(t)).replace(r#""content""#, r#""model":"m","content""#);
    assert_eq!(run(&[&by_model, &ok(t)]).outcome.status, RunStatus::Completed);
    assert_eq!(run(&[&synthetic("No response requested."), &ok("")]).outcome.status, RunStatus::Completed);
}

#[test]
fn the_end_of_a_usage_limit_is_told() {
    let event = |status: &str, at: u64| {
        format!(
            r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"{status}","resetsAt":{at},"rateLimitType":"five_hour"}},"session_id":"s1"}}"#
        )
    };
    let limit = result(
        r#""is_error":true,"api_error_status":429,"result":"You've hit your session limit · resets 3pm""#,
    );
    let d = run(&[
        INIT,
        &event("allowed", 1),
        &event("allowed_warning", 2),
        &event("rejected", 1_780_000_000),
        &limit,
    ]);
    assert_eq!(
        shown(&d),
        [
            "running S",
            "log warn claude five_hour limit: allowed_warning, resets at 1970-01-01T00:00:02Z",
            "log warn claude five_hour limit: rejected, resets at 2026-05-28T20:26:40Z",
        ]
    );
    let failure = d.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.retryable), (FailureKind::RateLimit, true));
    assert_eq!(failure.reset_at, Some(1_780_000_000_000));
    // Without the event, and without a zone, the phrase is all there is.
    let failure = run(&[&limit]).outcome.failure.unwrap();
    assert_eq!((failure.reset_at, failure.hint.as_deref()), (None, Some("resets 3pm")));
    let zoned = limit.replace("3pm", "3pm (Asia/Tokyo)");
    assert!(run(&[&zoned]).outcome.failure.unwrap().reset_at.is_some());
    // The limit is over again.
    let d = run(&[
        &event("rejected", 9),
        &event("allowed", 9),
        &result(r#""is_error":true,"result":"429 rate_limit_error""#),
    ]);
    assert_eq!(d.outcome.failure.unwrap().reset_at, None);
}

#[test]
fn retries_are_logged_and_explain_a_limit_of_ours() {
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":1151.5,"error_status":null,"error":"unknown","session_id":"s1"}"#;
    let idle = End { stop: Some(Stop::limit(Limit::Idle, Duration::from_secs(1))), ..End::default() };
    let d = feed(plan(), &lines(&[INIT, retry]), idle);
    let text = "claude tries the model service again in 1151 ms (attempt 2 of 10): unknown";
    assert_eq!(shown(&d), ["running S", &format!("log warn {text}")]);
    let failure = d.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.limit), (FailureKind::Timeout, Some(Limit::Idle)));
    assert_eq!(failure.hint.as_deref(), Some(text));
}

#[test]
fn an_api_error_without_a_result_is_the_error() {
    let error = r#"{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"Not logged in"}]},"error":"authentication_failed"}"#;
    let d = feed(plan(), &lines(&[INIT, error]), exit(1, "bye"));
    assert_eq!(shown(&d), ["running S", "error Not logged in"]);
    assert_eq!(ended(&d.outcome), (RunStatus::Failed, "", "Not logged in; claude stderr: bye", Some("s1")));
    let failure = d.outcome.failure.unwrap();
    assert_eq!((failure.kind, failure.exit_code), (FailureKind::Auth, Some(1)));
    // It went on from it.
    let d = feed(plan(), &lines(&[INIT, error, &assistant(&text("A"))]), exit(1, ""));
    assert_eq!(d.outcome.error.as_deref(), Some("claude exited with error: exit status 1"));
}
