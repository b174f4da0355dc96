//! What was already streamed, so that a completed block is not sent a second time.
//!
//! In partial mode a CLI forwards the deltas of the model service and then prints each block once more, whole.
//! The ids do not always agree: one CLI gives every printed block but the first a fresh message id, another
//! prints thinking under an id of its own. So a printed block is matched by its message first, then by content.

use std::collections::HashMap;

use crate::contract::Message;

/// Text of one block kept for comparison and for the partial output; beyond it only the length is.
const KEPT_BYTES: usize = 4 * 1024 * 1024;
/// Streamed blocks that wait for their printed form. Old ones go first; at worst a block is then sent twice.
const MAX_WAITING: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Thinking,
}

impl Kind {
    pub fn message(self, content: String, parent: &str) -> Message {
        let parent_call_id = (!parent.is_empty()).then(|| parent.to_owned());
        match self {
            Kind::Text => Message::Text { content, parent_call_id },
            Kind::Thinking => Message::Thinking { content, parent_call_id },
        }
    }
}

/// The streams of the main loop and of each sub-agent: their lines interleave.
#[derive(Default)]
pub struct Streams {
    main: Stream,
    sub_agents: HashMap<String, Stream>,
}

impl Streams {
    pub fn of(&mut self, parent: &str) -> &mut Stream {
        if parent.is_empty() {
            return &mut self.main;
        }
        if !self.sub_agents.contains_key(parent) {
            self.sub_agents.insert(parent.to_owned(), Stream::default());
        }
        self.sub_agents.get_mut(parent).expect("inserted above")
    }

    /// Text of the main loop that is still being written.
    pub fn in_flight(&self) -> &str {
        self.main.blocks.iter().rev().find(|b| b.live && b.kind == Kind::Text).map_or("", |b| &b.text)
    }
}

#[derive(Default)]
pub struct Stream {
    message: String,
    model: String,
    /// Counts the messages; an index means something only within its own.
    generation: u32,
    blocks: Vec<Streamed>,
    /// Last delta of the text block that was printed last.
    printed_piece: String,
}

struct Streamed {
    message: String,
    generation: u32,
    index: u64,
    kind: Kind,
    text: String,
    length: usize,
    /// Where the last delta begins.
    piece: usize,
    /// No printed block came after it.
    live: bool,
}

impl Stream {
    pub fn start(&mut self, message: &str, model: &str) {
        self.message = message.to_owned();
        self.model = model.to_owned();
        self.generation += 1;
    }

    /// The id and the model of the message being streamed.
    pub fn current(&self) -> (&str, &str) {
        (&self.message, &self.model)
    }

    pub fn open(&mut self, index: u64, kind: Kind, text: &str) {
        if self.blocks.len() >= MAX_WAITING {
            self.blocks.remove(0);
        }
        let mut block = Streamed {
            message: self.message.clone(),
            generation: self.generation,
            index,
            kind,
            text: String::new(),
            length: 0,
            piece: 0,
            live: true,
        };
        block.push(text);
        self.blocks.push(block);
    }

    pub fn delta(&mut self, index: u64, kind: Kind, text: &str) {
        let generation = self.generation;
        let mut open = self.blocks.iter_mut().rev();
        match open.find(|b| b.generation == generation && b.index == index && b.kind == kind) {
            Some(block) => block.push(text),
            None => self.open(index, kind, text),
        }
    }

    /// An attempt broke off: its blocks from this index on will not be printed.
    pub fn abandon(&mut self, message: &str, from: u64) {
        self.blocks.retain(|b| b.message != message || b.index < from);
    }

    /// The message being streamed starts over from its beginning.
    pub fn start_over(&mut self) {
        self.blocks.retain(|b| b.generation != self.generation);
    }

    /// Where the streamed form of a printed block waits: of its own message and whole, if there is one.
    fn waiting(&self, kind: Kind, message: &str, text: &str) -> Option<usize> {
        [(true, true), (false, true), (true, false), (false, false)].iter().find_map(|(whole, of_message)| {
            self.blocks.iter().position(|b| {
                b.kind == kind
                    && b.length > 0
                    && b.is_of(message) == *of_message
                    && if *whole { b.is(text) } else { b.begins(text) }
            })
        })
    }

    /// Some of a printed block was streamed before.
    pub fn streamed(&self, kind: Kind, message: &str, text: &str) -> bool {
        self.waiting(kind, message, text).is_some()
    }

    /// What of a printed block was not streamed yet.
    pub fn settle<'t>(&mut self, kind: Kind, message: &str, text: &'t str) -> &'t str {
        let found = self.waiting(kind, message, text);
        if kind == Kind::Text {
            self.printed_piece.clear();
        }
        if let Some(at) = found {
            let block = self.blocks.remove(at);
            if kind == Kind::Text {
                self.printed_piece.push_str(block.text.get(block.piece..).unwrap_or_default());
            }
            return if block.begins(text) { &text[block.length..] } else { "" };
        }
        // Printed in several pieces.
        let longer = |b: &&mut Streamed| b.kind == kind && b.is_of(message) && b.text.starts_with(text);
        if let Some(block) = self.blocks.iter_mut().find(longer) {
            block.text.drain(..text.len());
            block.length -= text.len();
            block.piece = block.piece.saturating_sub(text.len());
            return "";
        }
        text
    }

    /// The last delta of text, printed by now or not.
    pub fn last_piece(&self) -> &str {
        let waiting = self.blocks.iter().rev().find(|b| b.kind == Kind::Text);
        waiting.map_or(&self.printed_piece, |b| b.text.get(b.piece..).unwrap_or_default())
    }

    /// A printed line came: what was streamed before it is no longer being written.
    pub fn printed(&mut self) {
        for block in &mut self.blocks {
            block.live = false;
        }
    }
}

impl Streamed {
    /// Where one side has no id, they may belong together.
    fn is_of(&self, message: &str) -> bool {
        self.message == message || self.message.is_empty() || message.is_empty()
    }

    fn push(&mut self, text: &str) {
        self.piece = self.length;
        self.length += text.len();
        // Nothing is kept after a gap: the kept text must stay a prefix.
        if self.text.len() + text.len() <= KEPT_BYTES && self.text.len() + text.len() == self.length {
            self.text.push_str(text);
        }
    }

    fn is(&self, text: &str) -> bool {
        let whole = self.text.len() == self.length;
        (self.length == text.len() && text.starts_with(&self.text))
            // Some CLIs trim what they print.
            || (whole && self.text.trim() == text.trim())
    }

    fn begins(&self, text: &str) -> bool {
        text.len() > self.length && text.is_char_boundary(self.length) && text.starts_with(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(blocks: &[(&str, u64, Kind, &[&str])]) -> Stream {
        let mut stream = Stream::default();
        for (message, index, kind, deltas) in blocks {
            if stream.message != *message {
                stream.start(message, "m");
            }
            stream.open(*index, *kind, "");
            for delta in *deltas {
                stream.delta(*index, *kind, delta);
            }
        }
        stream
    }

    #[test]
    fn a_streamed_block_is_not_sent_again_and_a_missing_tail_is_not_lost() {
        use Kind::{Text, Thinking};
        let one: &[&str] = &["Hel", "lo"];
        for (message, kind, printed, left) in [
            ("a", Text, "Hello", ""),
            ("a", Text, "Hello there", " there"),
            ("a", Text, "Hello\n", "\n"),
            ("a", Text, "\nHello", ""),
            ("a", Text, "Bye", "Bye"),
            ("a", Thinking, "Hello", "Hello"),
            // Another id, or none.
            ("b", Text, "Hello", ""),
            ("b", Text, "Hello there", " there"),
            ("", Text, "Hello", ""),
            ("b", Text, "Hel", "Hel"),
            // The beginning of it only.
            ("a", Text, "Hel", ""),
        ] {
            let mut stream = streamed(&[("a", 0, Text, one)]);
            assert_eq!(stream.settle(kind, message, printed), left, "{message} {printed}");
        }
    }

    #[test]
    fn each_streamed_block_is_used_once() {
        let mut stream = streamed(&[("a", 0, Kind::Text, &["x"])]);
        assert_eq!(stream.settle(Kind::Text, "a", "x"), "");
        assert_eq!(stream.settle(Kind::Text, "a", "x"), "x");
        let mut stream = streamed(&[("a", 0, Kind::Text, &["one two"])]);
        assert_eq!(stream.settle(Kind::Text, "a", "one "), "");
        assert_eq!(stream.settle(Kind::Text, "a", "two"), "");
        assert_eq!(stream.settle(Kind::Text, "a", "two"), "two");
    }

    #[test]
    fn the_own_message_comes_first() {
        let mut stream = streamed(&[("a", 0, Kind::Text, &["x"]), ("b", 0, Kind::Text, &["x", "y"])]);
        assert_eq!(stream.settle(Kind::Text, "b", "xyz"), "z");
        assert_eq!(stream.settle(Kind::Text, "a", "x"), "");
    }

    #[test]
    fn deltas_without_a_beginning_open_a_block() {
        let mut stream = Stream::default();
        stream.delta(0, Kind::Text, "a");
        stream.delta(0, Kind::Text, "b");
        stream.delta(0, Kind::Thinking, "t");
        assert_eq!(stream.settle(Kind::Text, "m", "ab"), "");
        assert_eq!(stream.settle(Kind::Thinking, "m", "t"), "");
    }

    #[test]
    fn an_abandoned_attempt_is_forgotten() {
        let mut stream = streamed(&[("a", 0, Kind::Thinking, &["t"]), ("a", 1, Kind::Text, &["x"])]);
        stream.abandon("a", 1);
        assert_eq!(stream.settle(Kind::Text, "b", "x"), "x");
        assert_eq!(stream.settle(Kind::Thinking, "a", "t"), "");
        let mut stream = streamed(&[("a", 0, Kind::Text, &["old"])]);
        stream.start_over();
        stream.delta(0, Kind::Text, "new");
        assert_eq!(stream.settle(Kind::Text, "a", "new"), "");
    }

    #[test]
    fn a_block_beyond_the_kept_text_is_compared_by_its_length() {
        let mut stream = streamed(&[("a", 0, Kind::Text, &["s"])]);
        let long = "x".repeat(KEPT_BYTES);
        stream.delta(0, Kind::Text, &long);
        stream.delta(0, Kind::Text, "y");
        let printed = format!("s{long}yz");
        assert_eq!(stream.settle(Kind::Text, "a", &printed), "z");
    }

    #[test]
    fn sub_agents_have_their_own_streams() {
        let mut streams = Streams::default();
        streams.of("").delta(0, Kind::Text, "main");
        streams.of("t1").delta(0, Kind::Text, "sub");
        assert_eq!(streams.of("t2").settle(Kind::Text, "", "sub"), "sub");
        assert_eq!(streams.of("t1").settle(Kind::Text, "", "sub"), "");
        assert_eq!(streams.in_flight(), "main");
        streams.of("").printed();
        assert_eq!(streams.in_flight(), "");
    }
}
