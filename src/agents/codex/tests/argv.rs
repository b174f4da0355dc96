use super::super::{AGENT, argv};
use super::ask;
use crate::contract::McpConfig;

fn built(extra: &[&str], custom: &[&str], tier: Option<&str>, mcp: Option<&str>) -> Vec<String> {
    let owned = |args: &[&str]| args.iter().map(|a| a.to_string()).collect();
    let ask = ask().with(|o| {
        o.extra_args = owned(extra);
        o.custom_args = owned(custom);
        o.service_tier = tier.map(str::to_owned);
        o.mcp_config = mcp.and_then(|text| McpConfig::parse(text).expect("an object"));
    });
    let argv = argv::build(&ask.options, AGENT.blocked);
    assert_eq!(argv[..3], ["app-server", "--listen", "stdio://"]);
    argv[3..].to_vec()
}

#[test]
fn the_fast_tier_owns_its_switches() {
    let extra = [
        "--disable",
        "fast_mode",
        "--disable",
        "memories",
        "-c",
        "features.fast_mode=false",
        "-c",
        "features.memories=false",
    ];
    let custom = ["'--disable=fast_mode'", "--enable", "multi_agent"];
    let kept = ["--disable", "memories", "-c", "features.memories=false", "--enable", "multi_agent"];
    let fast = built(&extra, &custom, Some("priority"), None);
    assert_eq!(fast, [&kept[..], &["--enable", "fast_mode"]].concat());
    let other = built(&extra, &custom, Some("flex"), None);
    assert_eq!(other, [&extra[..], &["--disable=fast_mode", "--enable", "multi_agent"]].concat());
    let spaced = built(
        &[],
        &["-c", "features . \"fast_mode\" = false", "-c=features.fast_mode_x=1"],
        Some("priority"),
        None,
    );
    assert_eq!(spaced, ["-c=features.fast_mode_x=1", "--enable", "fast_mode"]);
}

#[test]
fn the_transport_is_ours() {
    let custom = ["--listen", "tcp://x", "--listen=bad", "--stdio", "-c", "model=\"o3\""];
    assert_eq!(built(&[], &custom, None, None), ["-c", "model=\"o3\""]);
}

#[test]
fn managed_servers_are_not_overridden() {
    let custom = [
        "-c",
        "mcp_servers.x={command=\"e\"}",
        "-c=mcp_servers.y=1",
        "--config",
        "mcp_servers={}",
        "-c",
        "model=\"o3\"",
    ];
    for managed in ["{}", r#"{"mcpServers":{}}"#] {
        assert_eq!(built(&[], &custom, None, Some(managed)), ["-c", "model=\"o3\""]);
    }
    for inherited in [None, Some(" null \n"), Some("")] {
        assert_eq!(built(&[], &custom, None, inherited), custom);
    }
    let look_alike = ["-c", "tools.mcp_servers=1", "-c", "mcp_servers_x=1", "--config"];
    assert_eq!(built(&[], &look_alike, None, Some("{}")), look_alike);
}
