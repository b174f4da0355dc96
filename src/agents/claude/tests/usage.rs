//! What was counted, without totals and with them.

use super::*;

#[test]
fn messages_count_once_while_there_is_no_result() {
    let null = "null";
    let m1 = counted("m1", null, [100, 1, 200, 10]);
    let m2 = counted("m2", null, [30, 1, 60, 5]);
    let usage = |events: &[&str]| feed(plan(), &lines(events), exit(1, "")).outcome.usage;
    assert_eq!(usage(&[&m1, &m1]), one("m", unfinished(100, 200, 10)));
    assert_eq!(usage(&[&m1, &m2, &m1]), one("m", unfinished(130, 260, 15)));
    let sub = counted("m1", "\"t9\"", [100, 1, 200, 10]);
    assert_eq!(usage(&[&sub, &m1]), one("m", unfinished(100, 200, 10)));
    // Only a message with a stop reason says how long it is.
    let done =
        m2.replace(r#""content":[]"#, r#""content":[],"stop_reason":"end_turn""#).replace(":1,", ":9,");
    let want = ModelUsage { output_tokens: Some(9), ..unfinished(130, 260, 15) };
    assert_eq!(usage(&[&m1, &done]), one("m", want));
    // Messages of sub-agents with ids of their own are calls of this run.
    assert_eq!(usage(&[&m1, &counted("m7", "\"t9\"", [1, 1, 0, 0])]), one("m", unfinished(101, 200, 10)));
}

#[test]
fn the_result_has_the_last_word_on_usage() {
    let m1 = counted("m1", "null", [100, 1, 200, 10]);
    let models = r#""modelUsage":{"zz/plan":{"inputTokens":123,"outputTokens":45,"cacheReadInputTokens":7,"cacheCreationInputTokens":11}}"#;
    let zeros = r#""modelUsage":{"m":{}},"usage":{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}"#;
    let turn = r#""usage":{"input_tokens":5,"output_tokens":6,"cache_read_input_tokens":7,"cache_creation_input_tokens":8},"total_cost_usd":0.25"#;
    let usage = |fields: &str| run(&[&m1, &result(fields)]).outcome.usage;
    assert_eq!(usage(models), one("zz/plan", ModelUsage::tokens(123, 45, 7, 11)));
    assert_eq!(
        usage(&format!(r#""is_error":true,{models}"#)),
        one("zz/plan", ModelUsage::tokens(123, 45, 7, 11))
    );
    assert_eq!(usage(zeros), one("m", unfinished(100, 200, 10)));
    let priced = ModelUsage { cost_usd_ticks: Some(2_500_000_000), ..ModelUsage::tokens(5, 6, 7, 8) };
    assert_eq!(usage(turn), one("m", priced));
    // Nobody wrote, so the requested model has to do.
    let asked = Plan { model: Some("asked".into()), ..plan() };
    let d = feed(asked, &lines(&[&result(turn)]), clean_exit());
    assert_eq!(d.outcome.usage, one("asked", priced));
    assert_eq!(run(&[&result(turn)]).outcome.usage, None);
}
