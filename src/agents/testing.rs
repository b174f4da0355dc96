//! Feeds a decoder a transcript and gives what a run would have given. For the vector tests of every agent.

use super::{Decoder, End, Exit, Line, Output, converge};
use crate::contract::{Message, Outcome};
use crate::wire::lines::{normalize, verbatim};

/// Everything one fed transcript produced.
#[derive(Debug)]
pub struct Driven {
    pub messages: Vec<Message>,
    /// stdin frames as text.
    pub writes: Vec<String>,
    pub stdin_closed: bool,
    pub terminal: bool,
    pub stop_now: bool,
    pub outcome: Outcome,
}

/// A process end with exit code 0 and nothing else.
pub fn clean_exit() -> End {
    End { exit: Exit::code(0), ..Default::default() }
}

/// A process end with this exit code and stderr.
pub fn exit(code: i32, stderr: &str) -> End {
    End { exit: Exit::code(code), stderr: stderr.into(), ..Default::default() }
}

/// Runs `decoder` over whole stdout text, split the way the pump does.
pub fn drive(name: &str, label: &str, decoder: &mut dyn Decoder, stdout: &str, end: End) -> Driven {
    let mut end = end;
    let mut all = Output::default();
    decoder.open(&mut all);
    let mut rest = stdout;
    while !rest.is_empty() {
        let (raw, terminated) = match rest.split_once('\n') {
            Some((line, tail)) => {
                rest = tail;
                (line, true)
            }
            None => (std::mem::take(&mut rest), false),
        };
        let read =
            if decoder.verbatim() { Some(verbatim(raw.as_bytes())) } else { normalize(raw.as_bytes()) };
        let Some(text) = read else { continue };
        end.unterminated |= !terminated;
        decoder.line(Line { text: &text, terminated }, &mut all);
    }
    decoder.end_of_stdout(&mut all);
    let evidence = decoder.evidence(&end);
    let mut outcome = converge(name, label, evidence, &end);
    decoder.conclude(&mut outcome, &end);
    Driven {
        messages: all.messages,
        writes: all.writes.into_iter().map(|w| String::from_utf8(w).expect("frames are UTF-8")).collect(),
        stdin_closed: all.close_stdin,
        terminal: all.terminal,
        stop_now: all.stop_now,
        outcome,
    }
}

/// The messages without logs and status.
pub fn spoken(messages: &[Message]) -> Vec<Message> {
    messages.iter().filter(|m| !matches!(m, Message::Log { .. } | Message::Status { .. })).cloned().collect()
}
