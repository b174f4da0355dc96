//! Secrets and the home folder taken out of diagnostics, before these reach a Result or a log.
//!
//! The steps run in order, each on the output of the one before: terminal sequences and control characters,
//! Authorization headers, JSON members, loose `key: value` pairs, credentials known by their shape, and the
//! home folder. Whoever truncates a text redacts it first: a cut secret has no shape any more.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, Replacer};

/// `text` without secrets; `home` is shown without the name of `user` (skipped where either is unknown).
pub fn redact(text: &str, home: Option<&str>, user: Option<&str>) -> String {
    let mut text: Cow<str> = if text.bytes().any(is_dropped_control) {
        let plain = TERMINAL_SEQUENCE.replace_all(text, "");
        plain.chars().filter(|c| !u8::try_from(*c).is_ok_and(is_dropped_control)).collect::<String>().into()
    } else {
        text.into()
    };
    for rule in RULES.iter() {
        if let Cow::Owned(changed) = rule.pattern.replace_all(&text, rule.replacement) {
            text = changed.into();
        }
    }
    match (home, user) {
        (Some(home), Some(user)) => hide_home(&text, home, user),
        _ => text.into_owned(),
    }
}

/// [`redact`] with the home folder and user name of this process.
pub fn redact_here(text: &str) -> String {
    static HERE: LazyLock<(Option<String>, Option<String>)> = LazyLock::new(|| {
        let first =
            |names: &[&str]| names.iter().find_map(|n| std::env::var(n).ok().filter(|v| !v.is_empty()));
        if cfg!(windows) {
            (first(&["USERPROFILE"]), first(&["USERNAME"]))
        } else {
            (first(&["HOME"]), first(&["USER", "LOGNAME"]))
        }
    });
    redact(text, HERE.0.as_deref(), HERE.1.as_deref())
}

/// `text` without credentials known by their shape. For text that is no diagnostic, such as the input of a
/// tool: the rules for loose `key: value` pairs would spoil code.
pub fn redact_credentials(text: &str) -> Cow<'_, str> {
    let mut text: Cow<str> = text.into();
    for rule in RULES.iter().filter(|r| r.by_shape) {
        if let Cow::Owned(changed) = rule.pattern.replace_all(&text, rule.replacement) {
            text = changed.into();
        }
    }
    text
}

/// Colours, cursor moves and titles: whole, since without its escape character the rest is noise, and a
/// sequence inside a secret must not hide its shape.
static TERMINAL_SEQUENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
        .expect("constant pattern")
});

fn is_dropped_control(b: u8) -> bool {
    b < 0x20 && b != b'\n' && b != b'\t'
}

struct Rule {
    pattern: Regex,
    /// The secret is known by its own form, not by what stands before it.
    by_shape: bool,
    replacement: Replacement,
}

/// A placeholder between the groups `pre` and `post`, where the pattern has them.
#[derive(Clone, Copy)]
struct Replacement(&'static str);

impl Replacer for Replacement {
    fn replace_append(&mut self, caps: &Captures<'_>, out: &mut String) {
        let group = |name| caps.name(name).map_or("", |m: regex::Match| m.as_str());
        out.push_str(group("pre"));
        out.push_str(self.0);
        out.push_str(group("post"));
    }
}

/// In the patterns `<_>` is any number of blanks, `<__>` at least one. Blanks and word boundaries are ASCII.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    const SHORTHANDS: &[(&str, &str)] = &[
        ("<_>", r"[ \t\n\x0c\r]*"),
        ("<__>", r"[ \t\n\x0c\r]+"),
        ("<word>", r"[^ \t\n\x0c\r]+"),
        ("<value>", r"[^ \t\n\x0c\r,;]+"),
        ("<key>", "(?:authorization|auth|api[_-]?key|token|secret|password)"),
        // With or without a word before it: `access_token`, `clientSecret`; but `auth` only by itself.
        ("<member>", "(?:auth|[a-z0-9_.-]*(?:authorization|api[_-]?key|token|secret|password))"),
        // Not a word boundary: a key may stand after a digit or an underscore (`%20sk-…`, `key_sk-…`), while
        // a letter before it makes another word (`task-…`, `disk-…`).
        ("<start>", "(?P<pre>^|[^A-Za-z])"),
    ];
    let rule = |pattern: &str, replacement: &'static str| {
        let mut pattern = pattern.to_owned();
        for (short, long) in SHORTHANDS {
            pattern = pattern.replace(short, long);
        }
        Rule {
            pattern: Regex::new(&pattern).expect("constant pattern"),
            replacement: Replacement(replacement),
            by_shape: false,
        }
    };
    let shape = |pattern: &str, replacement| Rule { by_shape: true, ..rule(pattern, replacement) };
    vec![
        rule(r"(?i)(?P<pre>(?-u:\b)authorization<_>:<_>)[^\n]*", "[REDACTED]"),
        // A string that was cut off has no closing quote.
        rule(r#"(?is)(?P<pre>"<member>"<_>:<_>)"(?:[^"\\]|\\.)*(?:"|\\?$)"#, r#""[REDACTED]""#),
        // JSON inside a JSON string.
        rule(
            r#"(?is)(?P<pre>\\"<member>\\"<_>:<_>)\\"(?:[^"\\]|\\\\\\"|\\[^"])*(?:\\"|\\?$)"#,
            r#"\"[REDACTED]\""#,
        ),
        // A scheme and a quoted phrase belong to the value: `auth: Bearer x`, `password="two words"`.
        rule(
            r#"(?i)(?P<pre><key><_>[:=]<_>)(?:(?:bearer|basic)<__><value>|(?:"[^"\n]*"|'[^'\n]*')(?:<value>)?|<value>)"#,
            "[REDACTED]",
        ),
        shape(r"(?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)", "[REDACTED AWS KEY]"),
        shape(
            r#"(?i)(?:aws_secret_access_key|secret_access_key|secretaccesskey)["']?<_>[=:]<_>["']?[a-z0-9/+=]{40,}"#,
            "[REDACTED AWS SECRET]",
        ),
        // The body holds no "--": a search for the end that runs on to the next key would take quadratic time.
        // Without its end, the lines that look like key material.
        shape(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?:-?[^-])*-----END [A-Z ]*PRIVATE KEY-----|(?:(?:\\n|<_>)[A-Za-z0-9+/=]{20,})*)",
            "[REDACTED PRIVATE KEY]",
        ),
        shape(r"gh[pousr]_[A-Za-z0-9_]{36,}", "[REDACTED GITHUB TOKEN]"),
        shape(r"github_pat_[A-Za-z0-9_]{20,}", "[REDACTED GITHUB TOKEN]"),
        shape(r"<start>sk-[A-Za-z0-9_-]{20,}", "[REDACTED API KEY]"),
        shape(r"xox[boprase]-[A-Za-z0-9-]{10,}", "[REDACTED SLACK TOKEN]"),
        shape(r"xapp-[A-Za-z0-9-]{10,}", "[REDACTED SLACK TOKEN]"),
        shape(r"glpat-[A-Za-z0-9_-]{20,}", "[REDACTED GITLAB TOKEN]"),
        shape(r"AIza[0-9A-Za-z_-]{35}(?P<post>[^0-9A-Za-z_-]|$)", "[REDACTED GOOGLE API KEY]"),
        shape(r"[sr]k_live_[A-Za-z0-9]{16,}", "[REDACTED STRIPE KEY]"),
        shape(r"<start>ey[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{10,}){2,}", "[REDACTED JWT]"),
        shape(r"(?i)(?-u:\b)bearer<__>[a-z0-9\-._~+/]+=*", "Bearer [REDACTED]"),
        shape(
            r"(?i)(?:postgres|mysql|mongodb|redis|amqp)(?:ql|s|\+srv)?://[^ \t\n\x0c\r:@/]*:[^ \t\n\x0c\r@]+@(?:[^ \t\n\x0c\r@/]+@)*",
            "[REDACTED CONNECTION STRING]@",
        ),
        // The password in any other URL: proxies, git remotes.
        shape(r"(?P<pre>://[^ \t\n\x0c\r:@/]*:)[^ \t\n\x0c\r@/]+(?P<post>@)", "[REDACTED]"),
        rule(
            r"(?i)(?:API_KEY|API_SECRET|SECRET_KEY|SECRET|ACCESS_TOKEN|AUTH_TOKEN|PRIVATE_KEY|DATABASE_URL|DB_PASSWORD|DB_URL|REDIS_URL|PASSWORD|TOKEN)<_>[=:]<_><word>",
            "[REDACTED CREDENTIAL]",
        ),
    ]
});

fn hide_home(text: &str, home: &str, user: &str) -> String {
    let home = home.trim_end_matches(['/', '\\']);
    if home.is_empty() || user.is_empty() {
        return text.to_owned();
    }
    // The folder of that name where there is one: `/home/me` has "me" in "home", too.
    let by_folder = home.rfind(['/', '\\']).map(|at| at + 1).filter(|at| &home[*at..] == user);
    let Some(at) = by_folder.or_else(|| home.find(user)) else { return text.to_owned() };
    let hidden = format!("{}****{}", &home[..at], &home[at + user.len()..]);
    let mut text = text.replace(home, &hidden);
    if home.contains('\\') {
        // The same Windows path as JSON strings and as URLs and Node spell it.
        for separator in ["\\\\", "/"] {
            text = text.replace(&home.replace('\\', separator), &hidden.replace('\\', separator));
        }
    }
    text
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
