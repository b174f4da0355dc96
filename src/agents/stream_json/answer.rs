//! The answer when the result line holds none: the last thing the main loop said.

#[derive(Debug, Default)]
pub struct LastAnswer {
    fallback: String,
    last: String,
}

impl LastAnswer {
    /// One printed assistant line. A tool call or a block nobody understands means that the text before it was
    /// narration, not the answer; silence (only thinking) changes nothing.
    pub fn line(&mut self, text: String, tool_uses: usize, understood: bool) {
        if !text.is_empty() {
            self.last.clone_from(&text);
        }
        if tool_uses > 0 || !understood {
            self.fallback.clear();
        } else if !text.is_empty() {
            self.fallback = text;
        }
    }

    /// Empty when the turn ended on something else than text.
    pub fn final_text(&self) -> &str {
        &self.fallback
    }

    /// The last text at all, narration included.
    pub fn last_text(&self) -> &str {
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_unknown_blocks_clear_the_answer_and_silence_keeps_it() {
        for (text, tool_uses, understood, answer, last) in [
            ("N", 0, true, "N", "N"),
            ("N", 1, true, "", "N"),
            ("", 1, true, "", "P"),
            ("N", 0, false, "", "N"),
            ("", 0, true, "P", "P"),
            ("", 0, false, "", "P"),
        ] {
            let mut a = LastAnswer::default();
            a.line("P".into(), 0, true);
            a.line(text.into(), tool_uses, understood);
            assert_eq!((a.final_text(), a.last_text()), (answer, last), "{text:?} {tool_uses} {understood}");
        }
    }
}
