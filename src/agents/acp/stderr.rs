//! Provider errors that an agent tells only on stderr, while it ends the turn as if nothing was wrong.

use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::Regex;

use crate::contract::limits::MAX_LINE_BYTES;

/// Distinct lines kept.
const KEPT_LINES: usize = 8;
/// Longest message made of them, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// What a CLI's own rule says about a line.
pub struct OwnLine {
    /// The model call was given up, not merely tried again.
    pub terminal: bool,
    /// The message, should this be the last such line.
    pub tag: String,
}

/// Reads stderr as it comes.
#[derive(Default)]
pub struct Sniffer {
    own: Option<fn(&str) -> Option<OwnLine>>,
    partial: Vec<u8>,
    echo: Option<Echo>,
    kept: VecDeque<String>,
    terminal: bool,
    own_terminal: Option<String>,
}

/// Inside a conversation that the CLI logs as JSON over several lines.
struct Echo {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Echo {
    /// The state after `text`; `None` once every bracket is closed.
    fn after(mut self, text: &str) -> Option<Echo> {
        for c in text.chars() {
            match c {
                _ if self.escaped => self.escaped = false,
                '\\' if self.in_string => self.escaped = true,
                '"' => self.in_string = !self.in_string,
                '{' | '[' if !self.in_string => self.depth += 1,
                '}' | ']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        (self.depth > 0).then_some(self)
    }
}

/// A record of a Python log: time, level, logger, payload.
static RECORD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)? \[([A-Z]+)\] ([A-Za-z0-9_.-]+): (.*)$")
});
static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:⚠️|❌|\[ERROR\]).*(?:BadRequestError|AuthenticationError|RateLimitError|HTTP \d{3}|Non-retryable|API call failed)",
    )
});
static DETAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:Error:|detail:|Details:)\s*(\S.*)$"));
static TERMINAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"❌|\[ERROR\]|after \d+ retr|Non-retryable|BadRequestError|AuthenticationError")
});
static GAVE_UP: LazyLock<Regex> = LazyLock::new(|| pattern(r"API call failed after \d+ (?:retry|retries)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("constant pattern")
}

/// The words with which a CLI says in its answer that it gave the model call up.
pub fn gave_up(answer: &str) -> Option<&str> {
    GAVE_UP.find(answer).map(|m| m.as_str())
}

impl Sniffer {
    pub fn new(own: Option<fn(&str) -> Option<OwnLine>>) -> Self {
        Sniffer { own, ..Default::default() }
    }

    pub fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|b| *b == b'\n') {
            if self.partial.len() < MAX_LINE_BYTES {
                self.partial.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// The end of stderr: what came after the last line end is a line too.
    pub fn finish(&mut self) {
        self.end_line();
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.partial);
        self.line(String::from_utf8_lossy(&bytes).trim_end());
    }

    fn line(&mut self, raw: &str) {
        let line = raw.trim();
        if line.is_empty() {
            return;
        }
        if let Some(record) = RECORD.captures(line) {
            self.echo = None;
            let (level, logger, payload) = (&record[1], &record[2], &record[3]);
            if logger == "root" && matches!(level, "INFO" | "DEBUG") {
                if payload.starts_with(['{', '[']) {
                    self.echo = Echo { depth: 0, in_string: false, escaped: false }.after(payload);
                }
                return;
            }
        } else if let Some(echo) = self.echo.take() {
            // A cut echo must not swallow a real error after it.
            let indented = raw.starts_with(char::is_whitespace);
            let marked = ["⚠️", "❌", "[ERROR]"].iter().any(|m| line.starts_with(m));
            if indented || !marked || !HEADER.is_match(line) {
                self.echo = echo.after(line);
                return;
            }
        }
        self.judge(line);
    }

    fn judge(&mut self, line: &str) {
        if let Some(own) = self.own.and_then(|own| own(line)) {
            if own.terminal {
                self.terminal = true;
                self.own_terminal = Some(own.tag);
            }
        } else if !HEADER.is_match(line) && !DETAIL.is_match(line) {
            return;
        }
        self.terminal |= TERMINAL.is_match(line);
        if !self.kept.iter().any(|kept| kept == line) {
            self.kept.push_back(line.to_owned());
            if self.kept.len() > KEPT_LINES {
                self.kept.pop_front();
            }
        }
    }

    /// A model call was given up: the turn failed whatever its answer says.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// What went wrong, without a prefix: the last line of the CLI's own kind that was terminal, else the first
    /// detail, else the first header.
    pub fn message(&self) -> Option<String> {
        let text = match &self.own_terminal {
            Some(tag) => tag.clone(),
            None => self.kept.iter().find_map(|line| detail(line)).or_else(|| self.kept.front().cloned())?,
        };
        Some(cut(text))
    }
}

/// What follows `Error:` and the like on this line.
pub fn detail(line: &str) -> Option<String> {
    DETAIL.captures(line).map(|c| c[1].trim().to_owned())
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("…(truncated)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniff(text: &str) -> Sniffer {
        let mut sniffer = Sniffer::new(None);
        // One byte at a time: neither lines nor characters may depend on chunk edges.
        for byte in text.as_bytes() {
            sniffer.push(&[*byte]);
        }
        sniffer.finish();
        sniffer
    }

    #[test]
    fn a_warning_is_kept_and_a_give_up_is_terminal() {
        let warning = "⚠️ API call failed (attempt 1/3): RateLimitError [HTTP 429]";
        let s = sniff(warning);
        assert_eq!((s.is_terminal(), s.message().as_deref()), (false, Some(warning)));
        let s = sniff(&format!("{warning}\r\n❌ API call failed after 3 retries: HTTP 429\n"));
        assert!(s.is_terminal());
        let s = sniff(
            "⚠️  API call failed (attempt 1/3): BadRequestError [HTTP 400]\n   📝 Error: HTTP 400: no\n",
        );
        assert_eq!((s.is_terminal(), s.message().as_deref()), (true, Some("HTTP 400: no")));
    }

    #[test]
    fn other_lines_are_dropped() {
        for line in
            ["all is well", "BadRequestError [HTTP 400]", "⚠️ careful", "Error:", "  ", "❌ no header"]
        {
            let s = sniff(line);
            assert_eq!((s.is_terminal(), s.message()), (false, None), "{line}");
        }
        assert_eq!(sniff("KeyError: x").message().as_deref(), Some("x"));
    }

    #[test]
    fn a_logged_conversation_is_no_error() {
        let echo = "2031-01-02 03:04:05 [INFO] root: {\"x\":\"❌ Error: HTTP 500\n\"}\n";
        assert_eq!(sniff(echo).message(), None);
        let real = "❌ API call failed after 2 retries: HTTP 500";
        assert!(sniff(&format!("{echo}{real}")).is_terminal());
        let open = "2031-01-02 03:04:05,123 [DEBUG] root: [{\"x\":\"a \\\" ] b\",\n";
        assert!(!sniff(&format!("{open}  {real}\n")).is_terminal(), "an indented line is part of the echo");
        assert!(!sniff(&format!("{open}Error: HTTP 500\n")).is_terminal());
        assert!(sniff(&format!("{open}{real}\n")).is_terminal(), "a cut echo swallows no error");
        let next = format!("{open}2031-01-02 03:04:06 [ERROR] agent.loop: API call failed, HTTP 500\n");
        assert!(sniff(&next).is_terminal(), "a new record ends the echo");
        let plain = "2031-01-02 03:04:05 [INFO] root: ❌ Error: HTTP 500\n";
        assert_eq!(sniff(plain).message(), None);
        let other = "2031-01-02 03:04:05 [INFO] agent.loop: ❌ Error: HTTP 500\n";
        assert_eq!(sniff(other).message().as_deref(), Some("HTTP 500"));
    }

    #[test]
    fn the_last_lines_are_kept_once_and_the_message_is_bounded() {
        let many: String = (0..20).map(|i| format!("Error: e{}\n", i / 2)).collect();
        assert_eq!(sniff(&many).message().as_deref(), Some("e2"));
        let long = sniff(&format!("Error: {}", "ä".repeat(4000))).message().unwrap();
        assert!(long.len() <= MAX_MESSAGE_BYTES + "…(truncated)".len() && long.ends_with("ä…(truncated)"));
    }

    #[test]
    fn giving_up_is_found_in_the_answer() {
        assert_eq!(
            gave_up("x API call failed after 3 retries: HTTP 402"),
            Some("API call failed after 3 retries")
        );
        assert_eq!(gave_up("API call failed after 1 retry"), Some("API call failed after 1 retry"));
        assert_eq!(gave_up("API call failed"), None);
    }
}
