//! Recordings of real runs against a scripted model service, message by message.

use super::*;

const SONNET: &str = "claude-sonnet-4-5";
const HELLO: [&str; 4] = ["text Hello", "text  from the", "text  mock model", "text ."];
const SAID: [&str; 3] = ["text The tool", "text  said: ", "text hi"];
const CALL: &str = r#"tool Bash mock_call_1 {"command":"echo hi"}"#;
const ONE: &str = r#"tool Bash mock_call_1 {"command":"echo one"}"#;
const TWO: &str = r#"tool Bash mock_call_2 {"command":"echo two"}"#;
const HELLO_TEXT: &str = "Hello from the mock model.";
const SAID_TEXT: &str = "The tool said: hi";

/// `n` model calls of the recording server, with their price.
fn calls(n: u64) -> Option<Usage> {
    let cost_usd_ticks = Some(n * 59_824_500);
    one(SONNET, ModelUsage { cost_usd_ticks, ..ModelUsage::tokens(n * 1234, n * 56, n * 789, n * 321) })
}

/// Messages behind the first `running`; the counters in the call ids are the recording server's.
fn replay(name: &str, resume: bool, baseline: Baseline, end: End) -> (Vec<String>, Driven) {
    let stdout = recording(name);
    let id = stdout.split(r#""session_id":""#).nth(1).and_then(|s| s.split('"').next()).map(str::to_owned);
    let plan = Plan { resume: id.clone().filter(|_| resume), baseline, ..plan() };
    let d = feed(plan, &stdout, end);
    let counter = regex::Regex::new(r"mock_call_(\d)_\d+").unwrap();
    let messages = shown(&d).iter().map(|l| counter.replace_all(l, "mock_call_$1").into_owned()).collect();
    if d.outcome.resume_rejected != Some(true) {
        assert_eq!(d.outcome.session_id, id, "{name}");
    }
    (messages, d)
}

/// Recording, resumed, messages, answer, usage.
type Completed<'a> = (&'a str, bool, Vec<&'a str>, &'a str, Option<Usage>);

#[test]
fn recorded_runs_that_complete() {
    let results = |a: &'static str, b: &'static str| vec![ONE, TWO, a, b];
    let (one, two) = ("result mock_call_1 false one", "result mock_call_2 false two");
    let hi = "result mock_call_1 false hi";
    let retry = "log warn claude tries the model service again in 593 ms (attempt 1 of 1): unknown";
    let thinking = ["thinking Let me", "thinking  think about", "thinking  it."];
    let fail = [
        r#"tool Bash mock_call_1 {"command":"echo oops >&2; exit 3"}"#,
        "result mock_call_1 true Exit code 3⏎oops",
        "text The tool said: hi",
    ];
    let aborted = ModelUsage {
        cost_usd_ticks: Some(164_773_500),
        ..ModelUsage::tokens(3 * 1234, 70, 3 * 789, 3 * 321)
    };
    let aborted = Some(Usage::from([(SONNET.to_owned(), aborted)]));
    let cases: Vec<Completed> = vec![
        ("claude-2.1.332/text-partial", false, HELLO.to_vec(), HELLO_TEXT, calls(1)),
        ("claude-2.1.332/thinking-partial", false, [&thinking[..], &HELLO].concat(), HELLO_TEXT, calls(1)),
        ("claude-2.1.332/tool-partial", false, [&[CALL, hi][..], &SAID].concat(), SAID_TEXT, calls(2)),
        (
            "claude-2.1.332/narrated-tool-partial",
            false,
            [&["text I will run it. ", CALL, hi][..], &SAID].concat(),
            SAID_TEXT,
            calls(2),
        ),
        (
            "claude-2.1.332/multi-partial",
            false,
            [&results(one, two)[..], &SAID].concat(),
            SAID_TEXT,
            calls(2),
        ),
        (
            "claude-2.1.332/multi",
            false,
            [&results(one, two)[..], &["text The tool said: hi"]].concat(),
            SAID_TEXT,
            calls(2),
        ),
        ("claude-2.1.332/tool-fail", false, fail.to_vec(), SAID_TEXT, calls(2)),
        ("claude-2.1.332/empty", false, vec![], "", calls(2)),
        // Two attempts broke off: their text was live, the third is the answer.
        (
            "claude-2.1.332/cut-1retry-partial",
            false,
            [&HELLO[..], &[retry], &HELLO, &["text Hello from the mock model."]].concat(),
            HELLO_TEXT,
            aborted,
        ),
        ("claude-2.1.332/resume-partial", true, HELLO.to_vec(), HELLO_TEXT, calls(1)),
        ("claude-2.1.332/resume", true, vec!["text Hello from the mock model."], HELLO_TEXT, calls(1)),
        // Counts per run: nothing to take away.
        ("claude-2.1.197/resume-partial", true, [&[CALL, hi][..], &SAID].concat(), SAID_TEXT, calls(2)),
        // The attempt that broke off is not marked here; its text is the beginning of the answer.
        ("claude-2.1.197/cut-partial", false, HELLO.to_vec(), HELLO_TEXT, calls(1)),
    ];
    for (name, resume, messages, answer, usage) in cases {
        let (got, d) = replay(name, resume, Baseline::Unknown, clean_exit());
        let want: Vec<&str> = std::iter::once("running S").chain(messages).collect();
        assert_eq!(got, want, "{name}");
        let o = &d.outcome;
        assert_eq!((o.status, o.output.as_str()), (RunStatus::Completed, answer), "{name}");
        assert_eq!((&o.error, &o.failure, &o.partial_output), (&None, &None, &None), "{name}");
        assert_eq!(o.usage, usage, "{name}");
        assert_eq!(o.resume_rejected, Some(false), "{name}");
        assert!(d.stdin_closed && d.terminal, "{name}");
    }
}

#[test]
fn a_resumed_session_is_not_billed_twice() {
    // As a version between the two would print it: over the whole session, with no share of its own.
    let cumulative = recording("claude-2.1.332/resume-partial").replace("model_usage_since_last_result", "x");
    let before = ModelUsage { cost_usd_ticks: Some(59_824_500), ..ModelUsage::tokens(1234, 56, 789, 321) };
    let known = Baseline::Known(one(SONNET, before).unwrap());
    let usage = |baseline| {
        let plan = Plan { resume: Some("12269e05-df0e-4009-9a8b-d02fca144e31".into()), baseline, ..plan() };
        feed(plan, &cumulative, clean_exit()).outcome.usage
    };
    assert_eq!(usage(known), calls(1));
    assert_eq!(usage(Baseline::Unknown), one(SONNET, ModelUsage::tokens(1234, 56, 789, 321)));
}

#[test]
fn recorded_runs_that_fail() {
    let bad = "API Error: 400 mock: bad request";
    let key = "Invalid API key · Fix external API key";
    let limited = "API Error: Request rejected (429) · mock: rate limited";
    let retry = |ms, what| {
        format!("log warn claude tries the model service again in {ms} ms (attempt 1 of 1): {what}")
    };
    let (auth, limit) = (retry(507, "authentication_failed, HTTP 401"), retry(1045, "rate_limit, HTTP 429"));
    let server = retry(597, "server_error, HTTP 500");
    for (scenario, log, error, kind) in [
        ("error-400", None, bad, FailureKind::InvalidRequest),
        ("error-401-1retry", Some(auth), key, FailureKind::Auth),
        ("error-429-1retry", Some(limit), limited, FailureKind::RateLimit),
        (
            "error-500-1retry",
            Some(server),
            "API Error: 500 mock: internal server error.",
            FailureKind::Provider,
        ),
        ("overflow", None, "Prompt is too long ·", FailureKind::ContextOverflow),
    ] {
        let (got, d) = replay(&format!("claude-2.1.332/{scenario}"), false, Baseline::Unknown, exit(1, ""));
        let (live, before) = got.split_last().unwrap();
        let want: Vec<String> = std::iter::once("running S".to_owned()).chain(log).collect();
        assert_eq!(before, want, "{scenario}");
        assert!(live.starts_with(&format!("error {error}")), "{scenario}: {live}");
        let o = &d.outcome;
        assert_eq!((o.status, failure_kind(o)), (RunStatus::Failed, Some(kind)), "{scenario}");
        assert!(o.error.as_deref().unwrap().contains(error), "{scenario}: {:?}", o.error);
        assert_eq!((&o.usage, &o.partial_output), (&None, &None), "{scenario}");
        assert_eq!(o.failure.as_ref().unwrap().exit_code, Some(1), "{scenario}");
    }
}

#[test]
fn a_recorded_resume_of_an_unknown_session() {
    // The id it emits is the requested one, so only its words tell.
    let stderr =
        include_str!("../../../../__test__/recordings/claude-2.1.332/resume-unknown.stderr.txt").trim();
    let (got, d) = replay("claude-2.1.332/resume-unknown", true, Baseline::Unknown, exit(1, stderr));
    assert!(got.is_empty());
    assert_eq!(
        ended(&d.outcome),
        (RunStatus::Failed, "", &*format!("{stderr}; claude stderr: {stderr}"), None)
    );
    assert_eq!(d.outcome.resume_rejected, Some(true));
    assert_eq!(failure_kind(&d.outcome), Some(FailureKind::ResumeRejected));
}

#[test]
fn recorded_runs_that_were_stopped() {
    let stopped = || End {
        stop: Some(Stop::cancelled()),
        exit: Exit { forced: true, ..Exit::code(143) },
        ..End::default()
    };
    let (got, d) = replay("claude-2.1.332/slow-sigterm-partial", false, Baseline::Unknown, stopped());
    let ticks: String = (0..23).map(|n| format!("tick {n} ")).collect();
    assert_eq!(got[1..].iter().map(|l| l.strip_prefix("text ").unwrap()).collect::<String>(), ticks);
    assert_eq!((d.outcome.status, d.outcome.output.as_str()), (RunStatus::Aborted, ""));
    assert_eq!(d.outcome.partial_output, Some(ticks));
    assert_eq!(d.outcome.usage, one(SONNET, unfinished(1234, 789, 321)));
    let (got, d) = replay("claude-2.1.332/tool-slow-sigterm", false, Baseline::Unknown, stopped());
    let tool = r#"tool Bash mock_call_1 {"command":"timeout 41 tail -f /dev/null"}"#;
    assert_eq!(got, ["running S", tool, "result mock_call_1 true Exit code 137"]);
    assert_eq!(ended(&d.outcome).0, RunStatus::Aborted);
}
