//! Takes leaked tool syntax out of streamed text. Some models write their tool calls and control tokens
//! (`call:bash{…}`, `<|turn>`, `<tool_call|>`) into the answer; pi passes them on as text.

use memchr::{memchr_iter, memchr3};

const PREFIXES: [&str; 2] = ["call:", "response:"];
/// Between two of these, braces of a leaked call do not count.
const QUOTE: &str = r#"<|"|>"#;
/// A control token still unfinished after this many bytes is ordinary text.
const MAX_OPEN_TOKEN: usize = 64;

/// A filter over the pieces of one text: gives back what is certainly text and holds the rest. However the
/// text is cut into pieces, the same comes out.
#[derive(Debug, Default)]
pub struct Sanitizer {
    held: String,
    /// What came before `held` ends within a word, so no call can begin here.
    in_word: bool,
    /// `held` starts with a leaked call whose end has not come yet.
    open: Option<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    /// Scanned up to here, from the start of the call.
    at: usize,
    depth: usize,
    quoted: bool,
}

/// What a position in the text turns out to be.
enum Found {
    Text(usize),
    Drop(usize),
    /// Not decidable before more text has come.
    Open,
    Call(OpenCall),
}

impl Sanitizer {
    pub fn feed(&mut self, piece: String) -> String {
        if self.held.is_empty() {
            self.held = piece;
        } else {
            self.held.push_str(&piece);
        }
        self.drain(false)
    }

    /// Gives out what was held back; an unfinished call is text after all.
    pub fn flush(&mut self) -> String {
        self.drain(true)
    }

    fn drain(&mut self, end: bool) -> String {
        let text = std::mem::take(&mut self.held);
        let mut out = String::new();
        let mut at = 0;
        let mut open = self.open.take();
        // Right behind something dropped a call may begin, whatever its last letter was.
        let mut dropped_to = None;
        loop {
            if let Some(mut call) = open.take() {
                match call.close(&text[at..]) {
                    Some(length) => {
                        at += length;
                        dropped_to = Some(at);
                    }
                    None if end => {
                        without_tokens(&text[at..], &mut out);
                        return out;
                    }
                    None => {
                        self.hold(text, at, dropped_to);
                        self.open = Some(call);
                        return out;
                    }
                }
            }
            let Some(next) = memchr3(b'<', b'c', b'r', &text.as_bytes()[at..]) else { break };
            out.push_str(&text[at..at + next]);
            at += next;
            let in_word = self.in_word_at(&text, at, dropped_to);
            match look(&text[at..], in_word, end) {
                Found::Text(length) => {
                    out.push_str(&text[at..at + length]);
                    at += length;
                }
                Found::Drop(length) => {
                    at += length;
                    dropped_to = Some(at);
                }
                Found::Call(call) => open = Some(call),
                Found::Open => {
                    self.hold(text, at, dropped_to);
                    return out;
                }
            }
        }
        out.push_str(&text[at..]);
        self.in_word = self.in_word_at(&text, text.len(), dropped_to);
        out
    }

    fn in_word_at(&self, text: &str, at: usize, dropped_to: Option<usize>) -> bool {
        match at.checked_sub(1) {
            _ if dropped_to == Some(at) => false,
            Some(before) => is_name_byte(text.as_bytes()[before]),
            None => self.in_word,
        }
    }

    fn hold(&mut self, text: String, at: usize, dropped_to: Option<usize>) {
        self.in_word = self.in_word_at(&text, at, dropped_to);
        // A long call that stays open is held as it is, not copied for each piece.
        self.held = if at == 0 { text } else { text[at..].to_owned() };
    }
}

fn look(rest: &str, in_word: bool, end: bool) -> Found {
    if rest.starts_with('<') {
        return match token(rest, end) {
            Token::None => Found::Text(1),
            Token::Open => Found::Open,
            Token::Length { token, tail } => match call_in_tail(rest, token, tail, end) {
                CallStart::No => Found::Drop(token + tail),
                CallStart::Open => Found::Open,
                CallStart::Body(word) => Found::Drop(token + tail - word),
            },
        };
    }
    if in_word {
        return Found::Text(1);
    }
    match call_start(rest, end) {
        CallStart::No => Found::Text(1),
        CallStart::Open => Found::Open,
        CallStart::Body(at) => Found::Call(OpenCall { at, depth: 1, quoted: false }),
    }
}

enum CallStart {
    No,
    Open,
    /// It is one; for a call: the offset behind its `{`.
    Body(usize),
}

/// `call:NAME{` or `response:NAME{` at the front of `rest`.
fn call_start(rest: &str, end: bool) -> CallStart {
    let open = if end { CallStart::No } else { CallStart::Open };
    for prefix in PREFIXES {
        let Some(after) = rest.strip_prefix(prefix) else {
            if prefix.starts_with(rest) {
                return open;
            }
            continue;
        };
        let name = name_length(after);
        return match after.as_bytes().get(name) {
            None => open,
            Some(b'{') if name > 0 => CallStart::Body(prefix.len() + name + 1),
            Some(_) => CallStart::No,
        };
    }
    CallStart::No
}

/// The word behind a token (`<|turn>model`) goes with it, but not when it begins a call
/// (`<|tool_call>call:bash{…}`): then the length of that beginning.
fn call_in_tail(rest: &str, token: usize, tail: usize, end: bool) -> CallStart {
    if rest.as_bytes().get(token + tail) != Some(&b':') {
        return CallStart::No;
    }
    for word in ["call", "response"] {
        if rest[token..token + tail].ends_with(word) {
            return match call_start(&rest[token + tail - word.len()..], end) {
                CallStart::Body(_) => CallStart::Body(word.len()),
                other => other,
            };
        }
    }
    CallStart::No
}

enum Token {
    None,
    Open,
    Length { token: usize, tail: usize },
}

/// `<|NAME>` with the word behind it, or `<NAME|>`, at the front of `rest`.
fn token(rest: &str, end: bool) -> Token {
    let bytes = rest.as_bytes();
    let open = if end || rest.len() > MAX_OPEN_TOKEN { Token::None } else { Token::Open };
    let front_bar = bytes.get(1) == Some(&b'|');
    let name_at = if front_bar { 2 } else { 1 };
    let name = name_length(&rest[name_at..]);
    let after = name_at + name;
    match bytes.get(after) {
        None => open,
        Some(_) if name == 0 => Token::None,
        Some(b'>') if front_bar => {
            let token = after + 1;
            let tail = name_length(&rest[token..]);
            if token + tail == rest.len() && !end && rest.len() <= MAX_OPEN_TOKEN {
                return Token::Open;
            }
            Token::Length { token, tail }
        }
        Some(b'|') if !front_bar => match bytes.get(after + 1) {
            None => open,
            Some(b'>') => Token::Length { token: after + 2, tail: 0 },
            Some(_) => Token::None,
        },
        Some(_) => Token::None,
    }
}

fn name_length(text: &str) -> usize {
    text.bytes().take_while(|b| is_name_byte(*b)).count()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl OpenCall {
    /// The length of the whole call, if its closing brace is in `text`.
    fn close(&mut self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        while let Some(found) = memchr3(b'{', b'}', b'<', &bytes[self.at..]) {
            let at = self.at + found;
            self.at = at + 1;
            match bytes[at] {
                b'<' if text[at..].starts_with(QUOTE) => {
                    self.quoted = !self.quoted;
                    self.at = at + QUOTE.len();
                }
                b'<' if QUOTE.starts_with(&text[at..]) => {
                    self.at = at;
                    return None;
                }
                b'{' if !self.quoted => self.depth += 1,
                b'}' if !self.quoted => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        self.at = bytes.len();
        None
    }
}

/// The end of a text whose last call never closed: it stays, only control tokens go.
fn without_tokens(text: &str, out: &mut String) {
    let mut from = 0;
    for at in memchr_iter(b'<', text.as_bytes()) {
        if at < from {
            continue;
        }
        if let Token::Length { token, tail } = token(&text[at..], true) {
            out.push_str(&text[from..at]);
            from = at + token + tail;
        }
    }
    out.push_str(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pieces: &[&str]) -> String {
        let mut filter = Sanitizer::default();
        let mut out: String = pieces.iter().map(|p| filter.feed((*p).to_owned())).collect();
        out += &filter.flush();
        out
    }

    const CASES: &[(&str, &str)] = &[
        (r#"before call:bash{command:<|"|>cd a && ls<|"|>}<tool_call|> after"#, "before  after"),
        ("before <|turn>model after", "before  after"),
        (r#"before call:bash{command:<|"|>ls/x<|"|>} after"#, "before  after"),
        ("plain response: see below", "plain response: see below"),
        (r#"plain call:bash{x:<|"|>open"#, r#"plain call:bash{x:<|"|>open"#),
        (r#"call:bash{command:<|"|>printf '{"k":"v"}'<|"|>} z"#, " z"),
        ("a response:read{x:{y:1}} b", "a  b"),
        ("<|tool_call>call:bash{ls}<tool_call|>done", "done"),
        ("<|tool_call>call: me", ": me"),
        ("recall:x{1} syscall:open{} call:x{}y", "recall:x{1} syscall:open{} y"),
        ("<|turn>modelcall:x{1}y", "y"),
        ("call:{x} and call:a b{c}", "call:{x} and call:a b{c}"),
        (
            "if a < b && c > d { <div>text</div> } // <T|U> x|y",
            "if a < b && c > d { <div>text</div> } // <T|U> x|y",
        ),
        ("ends with call:bash", "ends with call:bash"),
        ("ends with <|tur", "ends with <|tur"),
        ("ends with <|turn>mod", "ends with "),
        ("unclosed call:a{ <|turn>model <x|> call:b{} y", "unclosed call:a{   call:b{} y"),
        ("ä<|x>ö call:y{ü}é", "äö é"),
        ("", ""),
        ("c", "c"),
    ];

    #[test]
    fn leaked_syntax_goes_and_text_stays() {
        for (text, want) in CASES {
            assert_eq!(run(&[text]), *want, "{text}");
        }
    }

    #[test]
    fn the_cut_into_pieces_makes_no_difference() {
        for (text, want) in CASES {
            let cuts: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
            for &a in &cuts {
                for &b in cuts.iter().filter(|&&b| b >= a) {
                    assert_eq!(run(&[&text[..a], &text[a..b], &text[b..]]), *want, "{text} cut at {a}, {b}");
                }
            }
            let chars: Vec<String> = text.chars().map(String::from).collect();
            assert_eq!(
                run(&chars.iter().map(String::as_str).collect::<Vec<_>>()),
                *want,
                "{text} by characters"
            );
        }
    }

    #[test]
    fn ordinary_text_is_not_held_back() {
        let mut filter = Sanitizer::default();
        for piece in [
            "The answer",
            "ar",
            " or more",
            " Please call: me, ",
            "a <b> tag, ",
            "response:\n",
            "call: x",
            " < ",
            "y call:go; ",
        ] {
            assert_eq!(filter.feed(piece.to_owned()), piece);
        }
        assert_eq!(
            filter.feed(format!("<{}", "a".repeat(MAX_OPEN_TOKEN))),
            format!("<{}", "a".repeat(MAX_OPEN_TOKEN))
        );
        assert_eq!(filter.flush(), "");
    }

    #[test]
    fn an_open_call_is_not_scanned_again() {
        let mut filter = Sanitizer::default();
        assert_eq!(filter.feed("call:write{".to_owned()), "");
        for _ in 0..1000 {
            assert_eq!(filter.feed("x{}".to_owned()), "");
        }
        assert_eq!(filter.open.as_ref().map(|o| o.at), Some(11 + 3000));
        assert_eq!(filter.feed("}end".to_owned()), "end");
    }
}
