//! The last bytes of stderr.

use std::sync::{Arc, Mutex};

use crate::contract::limits::STDERR_TAIL_BYTES;

/// A shared ring of the last [`STDERR_TAIL_BYTES`] bytes.
#[derive(Clone, Default)]
pub struct StderrTail(Arc<Mutex<Ring>>);

/// Sees each chunk as it comes; must not block.
type Tap = Box<dyn FnMut(&[u8]) + Send>;

#[derive(Default)]
struct Ring {
    bytes: Vec<u8>,
    total: u64,
    tap: Option<Tap>,
}

impl StderrTail {
    pub fn push(&self, chunk: &[u8]) {
        let mut ring = self.lock();
        if let Some(tap) = &mut ring.tap {
            tap(chunk);
        }
        ring.total += chunk.len() as u64;
        ring.bytes.extend_from_slice(chunk);
        let excess = ring.bytes.len().saturating_sub(STDERR_TAIL_BYTES);
        ring.bytes.drain(..excess);
    }

    /// Hands every byte to `tap` from now on, for an agent that reads more from stderr than its end. What is
    /// in the ring already comes first. One tap at a time.
    pub fn tap(&self, mut tap: impl FnMut(&[u8]) + Send + 'static) {
        let mut ring = self.lock();
        tap(&ring.bytes);
        ring.tap = Some(Box::new(tap));
    }

    /// Bytes seen in all.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// The tail as text: fragments of characters and terminal escape sequences removed, trimmed. When the front was cut off, everything up
    /// to the first white space goes too: it may be the second half of a secret whose key no rule sees any more.
    pub fn text(&self) -> String {
        let ring = self.lock();
        let mut bytes = &ring.bytes[..];
        if ring.total > bytes.len() as u64 {
            let cut = bytes.iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len());
            bytes = &bytes[cut..];
        }
        without_escapes(&String::from_utf8_lossy(bytes).replace('\u{fffd}', "")).trim().to_owned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// CLIs colour their logs also where no terminal reads them.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            out.push(c);
            continue;
        }
        match chars.next() {
            // CSI: up to its final byte.
            Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            // OSC: up to BEL, or to the escape that begins its terminator.
            Some(']') => while chars.next_if(|c| *c != '\x1b').is_some_and(|c| c != '\x07') {},
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_end_and_drops_a_cut_word() {
        let tail = StderrTail::default();
        tail.push(b"  short \xf0\x9f ");
        assert_eq!(tail.text(), "short");
        tail.push(&[b'x'; STDERR_TAIL_BYTES]);
        tail.push(b" end");
        assert_eq!(tail.text(), "end");
        assert_eq!(tail.total(), 11 + STDERR_TAIL_BYTES as u64 + 4);
    }

    #[test]
    fn colours_are_no_words() {
        for (raw, want) in [
            ("\x1b[2m12:00\x1b[0m \x1b[31mERROR\x1b[0m a: b", "12:00 ERROR a: b"),
            ("\x1b]0;title\x07x", "x"),
            ("\x1b]0;title\x1b\\x", "x"),
            ("a\x1b[3", "a"),
            ("a\x1b]b", "a"),
            ("a\x1b", "a"),
            ("no [2m escape", "no [2m escape"),
        ] {
            let tail = StderrTail::default();
            tail.push(raw.as_bytes());
            assert_eq!(tail.text(), want, "{raw:?}");
        }
    }

    #[test]
    fn a_tap_sees_every_byte() {
        let tail = StderrTail::default();
        tail.push(b"early ");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        tail.tap(move |chunk| sink.lock().unwrap().extend_from_slice(chunk));
        let long = [b'x'; STDERR_TAIL_BYTES * 2];
        tail.push(&long);
        tail.push(b" end");
        assert_eq!(*seen.lock().unwrap(), [&b"early "[..], &long, b" end"].concat());
    }
}
