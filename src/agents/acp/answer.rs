//! Which of the streamed text is the answer.

use super::stderr::gave_up;
use crate::contract::Message;

/// The text after the last tool call; when the turn ends with a tool call, the newest text before it.
#[derive(Debug, Default)]
pub struct Answer {
    block: String,
    last: String,
    tools: usize,
    any_text: bool,
    /// Words in any block that say the model call was given up: a block before a tool call is no answer, but
    /// its error still counts.
    gave_up: Option<String>,
}

impl Answer {
    pub fn add(&mut self, message: &Message) {
        match message {
            Message::Text { content, .. } => {
                self.any_text = true;
                self.block.push_str(content);
            }
            Message::ToolUse { .. } => {
                self.tools += 1;
                self.look();
                let block = std::mem::take(&mut self.block);
                if !block.trim().is_empty() {
                    self.last = block;
                }
            }
            _ => {}
        }
    }

    fn look(&mut self) {
        if self.gave_up.is_none() {
            self.gave_up = gave_up(&self.block).map(str::to_owned);
        }
    }

    /// Without line breaks in front: they only set it apart from a tool call.
    pub fn text(&self) -> &str {
        let block = if self.block.trim().is_empty() { &self.last } else { &self.block };
        if block.trim().is_empty() { "" } else { block.trim_start_matches(['\n', '\r']) }
    }

    pub fn is_empty(&self) -> bool {
        !self.any_text
    }

    /// Nothing but one block of text: no tool call broke it.
    pub fn sole_text(&self) -> Option<&str> {
        (self.any_text && self.tools == 0).then(|| self.block.trim())
    }

    pub fn gave_up(&mut self) -> Option<&str> {
        self.look();
        self.gave_up.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(parts: &[&str]) -> Answer {
        let mut answer = Answer::default();
        for part in parts {
            answer.add(&match *part {
                "#" => Message::tool_use("t", "c", None),
                text => Message::text(text),
            });
        }
        answer
    }

    #[test]
    fn the_answer_is_what_follows_the_last_tool_call() {
        for (parts, text) in [
            (&["A", "#", "B", "#", " \n"][..], "B"),
            (&["I look.", "#", "It ", "is."], "It is."),
            (&["Done.", "#"], "Done."),
            (&["#", "\n\nThe tool", " said"], "The tool said"),
            (&["A", "#", "#"], "A"),
            (&[" \n", "#"], ""),
            (&["#"], ""),
            (&[], ""),
        ] {
            assert_eq!(answer(parts).text(), text, "{parts:?}");
        }
    }

    #[test]
    fn a_give_up_before_a_tool_call_still_counts() {
        let mut a = answer(&["API call failed after 3 retries: HTTP 402", "#", "fine"]);
        assert_eq!(a.gave_up(), Some("API call failed after 3 retries"));
        assert_eq!(a.text(), "fine");
        assert_eq!(answer(&["fine"]).gave_up(), None);
        assert_eq!((answer(&[" a ", "b"]).sole_text(), answer(&["a", "#"]).sole_text()), (Some("a b"), None));
        assert!(answer(&["#"]).is_empty());
    }
}
