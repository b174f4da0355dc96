//! The managed MCP set as a private file: its headers and environment values must not stand in argv.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::value::{RawValue, to_raw_value};

use super::frame::{RawObject, decode};
use crate::agents::LaunchContext;
use crate::contract::{AgentplugError, Os};

const FILE: &str = "mcp-config.json";
const SIDECAR: &str = "playwright-windows-browser.json";
/// Headless browsers started from a service session on Windows die in the GPU process.
const SIDECAR_TEXT: &str = r#"{"browser":{"launchOptions":{"args":["--disable-gpu"]}}}"#;
/// Names the browser for Chrome DevTools servers; used as it is.
const BROWSER_VARIABLE: &str = "AGENTPLUG_CHROME_DEVTOOLS_EXECUTABLE";

/// Writes the file and gives the two arguments that name it; none when the CLI keeps the user's own servers.
pub fn args(ctx: &LaunchContext<'_>) -> Result<Vec<String>, AgentplugError> {
    let Some(config) = &ctx.options.mcp_config else { return Ok(Vec::new()) };
    let sidecar = ctx.files.path(SIDECAR)?;
    let lookup = |name: &str| variable(ctx, name);
    let hardened =
        harden(config.text(), ctx.os, &sidecar.to_string_lossy(), || browser(lookup, Path::is_file));
    if hardened.needs_sidecar {
        ctx.files.write(SIDECAR, SIDECAR_TEXT.as_bytes())?;
    }
    let path = ctx.files.write(FILE, hardened.config.as_bytes())?;
    Ok(vec!["--mcp-config".to_owned(), path.to_string_lossy().into_owned()])
}

fn variable(ctx: &LaunchContext<'_>, name: &str) -> Option<String> {
    // The child does not inherit variables of ours, so ask the caller's and the host's own.
    let of = |list: &crate::contract::options::EnvList| {
        list.0.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    of(&ctx.options.env)
        .or_else(|| of(&ctx.options.host_env))
        .or_else(|| ctx.env.get(name).map(str::to_owned))
}

#[derive(Debug, PartialEq, Eq)]
pub struct Hardened<'a> {
    pub config: Cow<'a, str>,
    pub needs_sidecar: bool,
}

/// Adds to the browser servers of a set what they need on Windows. What does not look as expected stays as it
/// is, and so do the bytes when nothing was added.
pub fn harden<'a>(
    config: &'a str,
    os: Os,
    sidecar: &str,
    browser: impl FnOnce() -> Option<String>,
) -> Hardened<'a> {
    let unchanged = Hardened { config: Cow::Borrowed(config), needs_sidecar: false };
    if os != Os::Windows {
        return unchanged;
    }
    let Some(mut top) = RawObject::parse(config) else { return unchanged };
    let Some(servers) = top.get("mcpServers").map(str::to_owned) else { return unchanged };
    let Some(mut set) = RawObject::parse(&servers) else { return unchanged };
    let (mut changed, mut needs_sidecar, mut browser) = (false, false, Some(browser));
    let mut found = None;
    for (name, entry) in &mut set.0 {
        let Some(mut server) = RawObject::parse(entry.get()) else { continue };
        let Some(args) = server.get("args").and_then(decode::<Vec<String>>) else { continue };
        let added = if is_playwright(name, &args) && !has_flag(&args, PLAYWRIGHT_FLAGS) {
            needs_sidecar = true;
            vec!["--config".to_owned(), sidecar.to_owned()]
        } else if is_devtools(name, &args) && !has_flag(&args, DEVTOOLS_FLAGS) {
            if let Some(ask) = browser.take() {
                found = ask();
            }
            let Some(path) = &found else { continue };
            vec![format!("--executablePath={path}")]
        } else {
            continue;
        };
        let args: Vec<String> = args.into_iter().chain(added).collect();
        server.set("args", to_raw_value(&args).expect("strings are JSON"));
        let owned: Box<RawValue> = server.into_raw();
        *entry = Cow::Owned(owned);
        changed = true;
    }
    if !changed {
        return unchanged;
    }
    top.set("mcpServers", set.into_raw());
    Hardened { config: Cow::Owned(top.into_raw().get().to_owned()), needs_sidecar }
}

const PLAYWRIGHT_FLAGS: &[&str] = &["--config", "--cdp-endpoint", "--extension"];
const DEVTOOLS_FLAGS: &[&str] = &[
    "--executablePath",
    "--executable-path",
    "-e",
    "--channel",
    "--browserUrl",
    "--browser-url",
    "-u",
    "--wsEndpoint",
    "--ws-endpoint",
    "-w",
    "--autoConnect",
    "--auto-connect",
];

fn is_playwright(name: &str, args: &[String]) -> bool {
    name.eq_ignore_ascii_case("playwright")
        || mentions(args, "@playwright/mcp")
        || mentions(args, r"@playwright\mcp")
}

fn is_devtools(name: &str, args: &[String]) -> bool {
    name.eq_ignore_ascii_case("chrome-devtools") || mentions(args, "chrome-devtools-mcp")
}

fn mentions(args: &[String], what: &str) -> bool {
    args.iter().any(|a| a.to_lowercase().contains(what))
}

fn has_flag(args: &[String], flags: &[&str]) -> bool {
    args.iter().any(|a| flags.contains(&a.split_once('=').map_or(a.as_str(), |(name, _)| name)))
}

/// The browser the caller named, or Edge, which every Windows has.
fn browser(lookup: impl Fn(&str) -> Option<String>, exists: impl Fn(&Path) -> bool) -> Option<String> {
    let filled = |name: &str| lookup(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    filled(BROWSER_VARIABLE).or_else(|| {
        let roots = ["ProgramFiles(x86)", "ProgramFiles", "LocalAppData"].into_iter().filter_map(filled);
        roots
            .map(|root| format!(r"{root}\Microsoft\Edge\Application\msedge.exe"))
            .find(|path| exists(&PathBuf::from(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: &str = r"C:\t\side.json";
    const EDGE: &str = r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe";

    fn on(os: Os, config: &str) -> Hardened<'_> {
        harden(config, os, SIDE, || Some(EDGE.to_owned()))
    }
    fn server(name: &str, args: &[&str]) -> String {
        let args = serde_json::to_string(args).unwrap();
        format!(
            r#"{{"x":1.50,"mcpServers":{{"{name}":{{"command":"npx","args":{args},"env":{{"K":"v"}}}}}}}}"#
        )
    }

    #[test]
    fn nothing_changes_off_windows() {
        for config in
            [server("playwright", &[]), server("chrome-devtools", &[]), "not json".into(), "{}".into()]
        {
            for os in [Os::Linux, Os::MacOs] {
                let same = Hardened { config: Cow::Borrowed(&config), needs_sidecar: false };
                assert_eq!(on(os, &config), same);
            }
        }
    }

    #[test]
    fn browser_servers_get_what_they_need_on_windows() {
        for (name, args, added) in [
            ("Playwright", &["x"][..], &["--config", SIDE][..]),
            ("p", &["-y", "@Playwright/MCP@latest"], &["--config", SIDE]),
            ("p", &[r"C:\n\@playwright\mcp\cli.js"], &["--config", SIDE]),
            ("Chrome-DevTools", &[], &[&format!("--executablePath={EDGE}")]),
            ("c", &["chrome-devtools-mcp@latest"], &[&format!("--executablePath={EDGE}")]),
        ] {
            let config = server(name, args);
            let all: Vec<&str> = args.iter().chain(added).copied().collect();
            let hardened = on(Os::Windows, &config);
            assert_eq!(hardened.config, server(name, &all), "{name} {args:?}");
            assert_eq!(hardened.needs_sidecar, added[0] == "--config");
        }
    }

    #[test]
    fn the_callers_own_choice_and_odd_shapes_stay() {
        let mut configs = vec!["not json".to_owned(), "{}".into(), r#"{"mcpServers":[]}"#.into()];
        configs.push(r#"{"mcpServers":{"playwright":"x","chrome-devtools":{"args":"x"}}}"#.into());
        configs.push(r#"{"mcpServers":{"playwright":{"args":["a",1]}}}"#.into());
        configs.push(r#"{"mcpServers":{"playwright":{"command":"p"}}}"#.into());
        configs.push(server("other", &["x"]));
        for flag in ["--config=c.json", "--config", "--cdp-endpoint=x", "--extension"] {
            configs.push(server("p", &["@playwright/mcp@latest", flag]));
        }
        for flag in ["-e", "--executablePath=x", "--channel", "-u", "--wsEndpoint=w", "--auto-connect"] {
            configs.push(server("c", &["chrome-devtools-mcp", flag, "X"]));
        }
        for config in &configs {
            let same = Hardened { config: Cow::Borrowed(config), needs_sidecar: false };
            assert_eq!(on(Os::Windows, config), same);
        }
        let config = server("chrome-devtools", &[]);
        assert_eq!(harden(&config, Os::Windows, SIDE, || None).config, config);
    }

    #[test]
    fn the_browser_is_the_named_one_or_the_first_edge() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string())
        };
        let roots: &[_] = &[
            ("ProgramFiles(x86)", r"C:\Program Files (x86)"),
            ("ProgramFiles", r"C:\Program Files"),
            ("LocalAppData", " "),
        ];
        assert_eq!(browser(env(roots), |_| true).as_deref(), Some(EDGE));
        let second = r"C:\Program Files\Microsoft\Edge\Application\msedge.exe";
        assert_eq!(browser(env(roots), |p| p == Path::new(second)).as_deref(), Some(second));
        assert_eq!(browser(env(roots), |_| false), None);
        assert_eq!(browser(env(&[(BROWSER_VARIABLE, " mine.exe ")]), |_| false).as_deref(), Some("mine.exe"));
    }
}
