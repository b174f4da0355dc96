//! Lines out of a byte stream, whole before they are decoded.

use std::borrow::Cow;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::contract::limits::MAX_LINE_BYTES;

const READ_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("token too long: a line exceeds {} MiB", .0 / (1024 * 1024))]
    LineTooLong(usize),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Splits a stream at `\n`. `fill` is cancel-safe: dropping its future loses no byte.
pub struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    /// Bytes up to here hold no line end.
    scanned: usize,
    max: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub fn new(source: R) -> Self {
        Self::with_limit(source, MAX_LINE_BYTES)
    }

    pub fn with_limit(source: R, max: usize) -> Self {
        LineReader { source, buffer: Vec::new(), start: 0, scanned: 0, max }
    }

    /// The next whole line already read, without its line end.
    pub fn take_line(&mut self) -> Option<&[u8]> {
        match memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            Some(found) => {
                let (from, to) = (self.start, self.scanned + found);
                self.start = to + 1;
                self.scanned = self.start;
                Some(&self.buffer[from..to])
            }
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    /// Reads once. `false` = end of the stream. Call it when `take_line` gave `None`.
    pub async fn fill(&mut self) -> Result<bool, ReadError> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.buffer.len() > self.max {
            return Err(ReadError::LineTooLong(self.max));
        }
        if self.buffer.capacity() > READ_BYTES * 16 && self.buffer.len() < READ_BYTES {
            self.buffer.shrink_to(READ_BYTES * 2);
        }
        self.buffer.reserve(READ_BYTES);
        Ok(self.source.read_buf(&mut self.buffer).await? > 0)
    }

    /// After the end of the stream: what came after the last line end, once.
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        let rest = self.buffer.split_off(self.start);
        self.buffer.clear();
        (self.start, self.scanned) = (0, 0);
        (!rest.is_empty()).then_some(rest)
    }
}

/// Bytes of a whole line -> text for a decoder: lossy UTF-8, trimmed, no escape sequences in front, no lone
/// surrogate escapes. `None` for a blank line.
pub fn normalize(raw: &[u8]) -> Option<Cow<'_, str>> {
    let text = match std::str::from_utf8(raw) {
        Ok(s) => Cow::Borrowed(strip_escapes(s.trim())),
        Err(_) => Cow::Owned(strip_escapes(String::from_utf8_lossy(raw).trim()).to_owned()),
    };
    if text.is_empty() {
        return None;
    }
    Some(match text {
        Cow::Borrowed(s) => super::json::repair_surrogates(s),
        Cow::Owned(s) => match super::json::repair_surrogates(&s) {
            Cow::Borrowed(_) => Cow::Owned(s),
            Cow::Owned(fixed) => Cow::Owned(fixed),
        },
    })
}

/// Bytes of a whole line -> text as it stands: lossy UTF-8, only a carriage return at its end cut off.
pub fn verbatim(raw: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(raw.strip_suffix(b"\r").unwrap_or(raw))
}

/// Cuts terminal escape sequences (CSI, OSC, two-character) off the front: CLIs switch cursor modes or set
/// window titles before their first frame.
pub fn strip_escapes(line: &str) -> &str {
    let mut rest = line;
    while let Some(after) = rest.strip_prefix('\x1b') {
        let bytes = after.as_bytes();
        let length = match bytes.first() {
            Some(b'[') => bytes[1..].iter().position(|b| (0x40..=0x7e).contains(b)).map(|i| i + 2),
            Some(b']') => memchr::memchr2(0x07, 0x1b, bytes)
                .map(|i| if bytes[i] == 0x1b && bytes.get(i + 1) == Some(&b'\\') { i + 2 } else { i + 1 }),
            Some(b) if b.is_ascii() => Some(1),
            _ => None,
        };
        let Some(length) = length else { break };
        let Some(tail) = after.get(length..) else { break };
        rest = tail.trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(
        chunks: Vec<&'static [u8]>,
        max: usize,
    ) -> (Vec<String>, Option<String>, Option<ReadError>) {
        let (client, mut server) = tokio::io::duplex(16);
        let writer = tokio::spawn(async move {
            for c in chunks {
                if tokio::io::AsyncWriteExt::write_all(&mut server, c).await.is_err() {
                    break;
                }
            }
        });
        let mut reader = LineReader::with_limit(client, max);
        let mut out = Vec::new();
        let mut error = None;
        loop {
            while let Some(l) = reader.take_line() {
                out.push(String::from_utf8_lossy(l).into_owned());
            }
            match reader.fill().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) => {
                    error = Some(e);
                    break;
                }
            }
        }
        let rest = reader.take_rest().map(|r| String::from_utf8_lossy(&r).into_owned());
        drop(reader);
        writer.await.unwrap();
        (out, rest, error)
    }

    #[tokio::test]
    async fn splits_across_chunk_edges_and_keeps_the_unterminated_rest() {
        let (got, rest, error) =
            lines(vec![b"ab", b"c\nde\n\nf", b"\xf0\x9f", b"\x98\x80\ntail"], 1000).await;
        assert_eq!(got, ["abc", "de", "", "f\u{1f600}"]);
        assert_eq!(rest.as_deref(), Some("tail"));
        assert!(error.is_none());
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_an_error_and_never_cut() {
        let (got, _, error) = lines(vec![b"ok\n", &[b'x'; 200], b"\n"], 100).await;
        assert_eq!(got, ["ok"]);
        assert!(error.unwrap().to_string().contains("token too long"));
    }

    #[test]
    fn normalizes_what_real_clis_print() {
        for (raw, want) in [
            (&b"  {\"a\":1}\r"[..], Some("{\"a\":1}")),
            (b"\x1b[?25l\x1b[2K{\"a\":1}", Some("{\"a\":1}")),
            (b"\x1b]0;title\x07{}", Some("{}")),
            (b"\x1b]0;title\x1b\\{}", Some("{}")),
            (b"\x1b7{}", Some("{}")),
            (b"bad \xff byte", Some("bad \u{fffd} byte")),
            (b" \t\r", None),
            (b"\x1b[0m", None),
            (b"\x1b", Some("\x1b")),
            (b"\x1b[12", Some("\x1b[12")),
        ] {
            assert_eq!(normalize(raw).as_deref(), want, "{:?}", String::from_utf8_lossy(raw));
        }
    }
}
