//! What the stream-json CLIs have in common: sessions, texts, tools and counts out of their lines.

use super::answer::LastAnswer;
use super::failure::Clues;
use super::frame::{Block, Body, Frame, Parsed, Part, Presence, Str, Tokens, decode, parse};
use super::partial::{Kind, Streams};
use super::tool_result;
use super::usage::{InputCount, Ledger};
use crate::agents::foreign::foreign;
use crate::agents::{Line, Output};
use crate::contract::{Message, RawJson};

use serde::Deserialize;
use serde_json::value::RawValue;

/// No model wrote these messages: the CLI itself did.
const SYNTHETIC: &str = "<synthetic>";

/// Where the CLIs differ in what they print.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    pub input: InputCount,
    /// Thinking may stand in `text` when `thinking` is empty.
    pub thinking_in_text: bool,
    /// The output count of a message is a placeholder until it has a stop reason.
    pub output_at_stop_only: bool,
    /// Every line tells the session and the model, not the `system` lines only.
    pub session_on_every_line: bool,
    /// Messages without an id are all different ones; else a later one replaces the one before.
    pub anonymous_messages_add_up: bool,
    /// Words about a request that failed and will be made again. One CLI prints them like a message of the
    /// model, but did not stream them and counts nothing for them.
    pub is_notice: Option<fn(&str) -> bool>,
    /// A tool result that means the run cannot end well.
    pub fatal_tool_result: Option<fn(&RawValue) -> bool>,
}

pub struct Transcript {
    dialect: Dialect,
    session_id: String,
    /// The model that wrote last, or the one asked for.
    model: String,
    streams: Streams,
    answer: LastAnswer,
    /// A model wrote the last text of the main loop; false as well while there is none.
    answer_by_model: bool,
    /// The last text was neither streamed nor counted.
    answer_is_bare: bool,
    pub ledger: Ledger,
    api_error: Option<Clues>,
    last_notice: Option<String>,
    fatal_tool_result: bool,
    seen: bool,
    cut: bool,
}

impl Transcript {
    pub fn new(dialect: Dialect, model: Option<&String>) -> Self {
        Transcript {
            dialect,
            session_id: String::new(),
            model: model.cloned().unwrap_or_default(),
            streams: Streams::default(),
            answer: LastAnswer::default(),
            answer_by_model: false,
            answer_is_bare: false,
            ledger: Ledger::default(),
            api_error: None,
            last_notice: None,
            fatal_tool_result: false,
            seen: false,
            cut: false,
        }
    }

    /// Handles a line if it is one of those all have; gives the others back.
    pub fn read<'a>(&mut self, line: Line<'a>, out: &mut Output) -> Option<Frame<'a>> {
        let frame = match parse(line.text) {
            Parsed::Frame(frame) => frame,
            Parsed::UnreadableAssistant { parent } => {
                self.seen = true;
                if parent.is_empty() {
                    self.answer.line(String::new(), 0, false);
                }
                return None;
            }
            Parsed::Unused => {
                self.seen = true;
                return None;
            }
            Parsed::Foreign => {
                self.cut |= !line.terminated && line.text.starts_with('{');
                foreign(line, out);
                return None;
            }
        };
        self.seen = true;
        let result = &*frame.kind == "result";
        if self.dialect.session_on_every_line {
            if !frame.model.is_empty() {
                self.model = frame.model.to_string();
            }
            self.session(&frame.session_id, result, out);
        } else if result || &*frame.kind == "system" {
            self.session(&frame.session_id, result, out);
        }
        match &*frame.kind {
            "stream_event" => self.stream_event(frame, out),
            "assistant" => self.assistant(line.text, frame, out),
            "user" => self.user(frame, out),
            "log" => log(line.text, out),
            _ => return Some(frame),
        }
        None
    }

    /// Nobody needs to hear "running" from the line that ends the run.
    fn session(&mut self, id: &str, terminal: bool, out: &mut Output) {
        if id.is_empty() || self.session_id == id {
            return;
        }
        id.clone_into(&mut self.session_id);
        if !terminal {
            out.emit(Message::running(Some(id.to_owned())));
        }
    }

    fn stream_event(&mut self, frame: Frame<'_>, out: &mut Output) {
        let parent = &*frame.parent_tool_use_id;
        let Some(event) = frame.event else { return };
        let index = event.index.unwrap_or_default();
        match &*event.kind {
            "content_block_delta" => {
                let Some((kind, text)) = event.delta.and_then(|d| d.piece("text_delta", "thinking_delta"))
                else {
                    return;
                };
                if !text.is_empty() {
                    self.streams.of(parent).delta(index, kind, &text);
                    out.emit(kind.message(text.0.into_owned(), parent));
                }
            }
            "content_block_start" => {
                let Some((kind, text)) = event.delta.and_then(|b| b.piece("text", "thinking")) else {
                    return;
                };
                self.streams.of(parent).open(index, kind, &text);
                if !text.is_empty() {
                    out.emit(kind.message(text.0.into_owned(), parent));
                }
            }
            "message_start" => {
                let Some(message) = event.message else { return };
                self.streams.of(parent).start(&message.id, &message.model);
                if let Some(usage) = message.usage {
                    let counts = Tokens { output_tokens: None, ..usage }.counts(self.dialect.input);
                    self.ledger.report(&message.id, &message.model, counts);
                }
            }
            "message_delta" => {
                let Some(usage) = event.usage else { return };
                let (id, model) = self.streams.of(parent).current();
                if id.is_empty() {
                    return;
                }
                self.ledger.report(id, model, usage.counts(self.dialect.input));
                if let Some(output) = usage.output_tokens {
                    self.ledger.output(id, output.0);
                }
            }
            "message_stop" => {
                if let Some(gone) = frame.abandoned_blocks {
                    self.streams.of(parent).abandon(&gone.api_message_id, gone.from_block_index);
                }
            }
            _ => {}
        }
    }

    fn assistant(&mut self, line: &str, frame: Frame<'_>, out: &mut Output) {
        let parent = frame.parent_tool_use_id;
        let main = parent.is_empty();
        let body = match frame.message {
            Presence::Is(body) => *body,
            Presence::Null => Body::default(),
            Presence::Missing => {
                if main {
                    self.answer.line(String::new(), 0, false);
                }
                return;
            }
        };
        let synthetic = &*body.model == SYNTHETIC;
        if synthetic && self.api_error(line, &body, &parent, out) {
            return;
        }
        let counted = self.count(&body);
        if main && !synthetic && !body.model.is_empty() {
            self.model = body.model.to_string();
        }
        let (mut said, mut tool_uses, mut understood) = (String::new(), 0, true);
        let sent = out.messages.len();
        for block in body.content.unwrap_or_default() {
            match &*block.kind {
                "text" if !counted && self.notice(&body.id, &block.text, &parent, out) => {}
                "text" => self.block(Kind::Text, &body.id, block.text, &parent, &mut said, out),
                "thinking" => {
                    let in_text = block.thinking.is_empty() && self.dialect.thinking_in_text;
                    let text = if in_text { block.text } else { block.thinking };
                    self.block(Kind::Thinking, &body.id, text, &parent, &mut String::new(), out);
                }
                "tool_use" => {
                    tool_uses += 1;
                    out.emit(tool_use(block, &parent));
                }
                _ => understood = false,
            }
        }
        if main {
            self.streams.of("").printed();
            if !said.is_empty() {
                self.answer_by_model = !synthetic;
                self.answer_is_bare = !counted && out.messages.len() > sent;
                // Whatever went wrong before, the run went on.
                self.api_error = None;
            }
            self.answer.line(said, tool_uses, understood);
        }
    }

    /// Words of the CLI itself about a retry are a log, not progress.
    fn notice(&mut self, message: &str, text: &str, parent: &str, out: &mut Output) -> bool {
        let worded = self.dialect.is_notice.is_some_and(|is| is(text));
        if !worded || self.streams.of(parent).streamed(Kind::Text, message, text) {
            return false;
        }
        out.emit(Message::log("warn", text));
        self.last_notice = Some(text.to_owned());
        true
    }

    /// Emits what of a printed block was not streamed yet, and adds the whole of it to `said`.
    fn block(
        &mut self,
        kind: Kind,
        message: &str,
        text: Str<'_>,
        parent: &str,
        said: &mut String,
        out: &mut Output,
    ) {
        if text.is_empty() {
            return;
        }
        let missing = self.streams.of(parent).settle(kind, message, &text);
        if !missing.is_empty() {
            out.emit(kind.message(missing.to_owned(), parent));
        }
        said.push_str(&text);
    }

    /// Sub-agents count too: their messages are calls of this run, under ids of their own. Gives whether there
    /// was any input.
    fn count(&mut self, body: &Body<'_>) -> bool {
        let Some(usage) = body.usage else { return false };
        let mut counts = usage.counts(self.dialect.input);
        if self.dialect.output_at_stop_only && body.stop_reason.is_empty() {
            counts.output_tokens = None;
        }
        let replaced = body.id.is_empty() && !self.dialect.anonymous_messages_add_up;
        let id = if replaced { "\0" } else { &*body.id };
        self.ledger.report(id, &body.model, counts)
    }

    /// A message that reports an error of the model service, marked as such. Without the mark it is plain text.
    fn api_error(&mut self, line: &str, body: &Body<'_>, parent: &str, out: &mut Output) -> bool {
        #[derive(Default, Deserialize)]
        struct Marks<'a> {
            #[serde(borrow, default)]
            error: Str<'a>,
            #[serde(default)]
            is_api_error_message: Option<bool>,
            #[serde(default)]
            api_error_status: Option<u16>,
            #[serde(borrow, default)]
            api_error_type: Str<'a>,
        }
        let marks = decode::<Marks>(line).unwrap_or_default();
        if marks.error.is_empty() && marks.is_api_error_message != Some(true) {
            return false;
        }
        let blocks = body.content.iter().flatten();
        let text: String = blocks.filter(|b| &*b.kind == "text").map(|b| &*b.text).collect();
        if !text.is_empty() {
            out.emit(Message::error(text.clone()));
        }
        if parent.is_empty() {
            let names = [&marks.error, &marks.api_error_type].map(|n| n.to_string());
            self.api_error = Some(Clues {
                text,
                status: marks.api_error_status,
                names: names.into_iter().filter(|n| !n.is_empty()).collect(),
                reset_at: None,
            });
        }
        true
    }

    fn user(&mut self, frame: Frame<'_>, out: &mut Output) {
        let Presence::Is(body) = frame.message else { return };
        for block in body.content.unwrap_or_default() {
            if &*block.kind != "tool_result" {
                continue;
            }
            if let (Some(fatal), Some(content)) = (self.dialect.fatal_tool_result, block.content) {
                self.fatal_tool_result |= fatal(content);
            }
            // One CLI names a result's own call as its parent.
            let parent =
                Some(&frame.parent_tool_use_id).filter(|p| !p.is_empty() && ***p != *block.tool_use_id);
            out.emit(Message::ToolResult {
                call_id: block.tool_use_id.to_string(),
                tool: None,
                output: tool_result::output(block.content),
                is_error: tool_result::is_error(&block),
                parent_call_id: parent.map(|p| p.to_string()),
            });
        }
    }

    pub fn session_id(&self) -> Option<String> {
        Some(self.session_id.clone()).filter(|id| !id.is_empty())
    }
    pub fn model(&self) -> &str {
        &self.model
    }
    /// The answer should the result line hold none.
    pub fn final_text(&self) -> &str {
        self.answer.final_text()
    }
    /// The last answer text of a run that did not complete, be it unfinished.
    pub fn partial(&self) -> String {
        let unfinished = self.streams.in_flight();
        if unfinished.is_empty() { self.answer.last_text() } else { unfinished }.to_owned()
    }
    /// Sends an answer that no line before held.
    pub fn say_unsaid(&mut self, answer: &str, out: &mut Output) {
        if answer.trim() == self.answer.last_text().trim() {
            return;
        }
        let missing = self.streams.of("").settle(Kind::Text, "", answer);
        if !missing.is_empty() {
            out.emit(Message::text(missing));
        }
    }
    /// The last piece of text the main loop streamed.
    pub fn last_piece(&mut self) -> &str {
        self.streams.of("").last_piece()
    }
    pub fn is_synthetic_answer(&self) -> bool {
        !self.answer_by_model
    }
    /// The last text came whole and without any count: the CLI may have written it itself.
    pub fn is_bare_answer(&self) -> bool {
        self.answer_is_bare
    }
    /// The error message the run has not gone on from.
    pub fn last_api_error(&self) -> Option<&Clues> {
        self.api_error.as_ref()
    }
    pub fn last_notice(&self) -> Option<&str> {
        self.last_notice.as_deref()
    }
    pub fn had_fatal_tool_result(&self) -> bool {
        self.fatal_tool_result
    }
    /// The message being streamed starts over from its beginning.
    pub fn start_over(&mut self, parent: &str) {
        self.streams.of(parent).start_over();
    }
    /// Any line of the protocol came.
    pub fn seen(&self) -> bool {
        self.seen
    }
    /// stdout ended within a frame.
    pub fn cut(&self) -> bool {
        self.cut
    }
}

impl<'a> Part<'a> {
    /// What it adds to the text or the thinking, by the names its types have.
    fn piece(self, text: &str, thinking: &str) -> Option<(Kind, Str<'a>)> {
        match &*self.kind {
            kind if kind == text => Some((Kind::Text, self.text)),
            kind if kind == thinking => Some((Kind::Thinking, self.thinking)),
            _ => None,
        }
    }
}

fn tool_use(block: Block<'_>, parent: &str) -> Message {
    let input = block.input.map(RawValue::get).filter(|json| json.starts_with('{'));
    Message::ToolUse {
        tool: block.name.to_string(),
        call_id: block.id.to_string(),
        input: input.map(|json| RawJson(json.to_owned())),
        parent_call_id: (!parent.is_empty()).then(|| parent.to_owned()),
    }
}

fn log(line: &str, out: &mut Output) {
    #[derive(Deserialize)]
    struct Wrapper<'a> {
        #[serde(borrow)]
        log: Option<Log<'a>>,
    }
    #[derive(Deserialize)]
    struct Log<'a> {
        #[serde(borrow, default)]
        level: Str<'a>,
        #[serde(borrow, default)]
        message: Str<'a>,
    }
    if let Some(Log { level, message }) = decode::<Wrapper>(line).and_then(|w| w.log) {
        out.emit(Message::log(level.to_string(), message.to_string()));
    }
}
