//! What one turn gave so far. Fed with updates in order, and with the prompt's own answer.

use super::answer::Answer;
use super::fields::Fields;
use super::profile::ToolRules;
use super::tools::ToolCalls;
use super::usage::{Record, Tally};
use crate::contract::{Message, ModelUsage};

pub struct Turn {
    pub answer: Answer,
    tools: ToolCalls,
    tally: Tally,
    /// The first one that was told.
    pub stop_reason: Option<String>,
    /// The model a result names.
    pub model: Option<String>,
    /// Text, thinking or a tool came.
    pub active: bool,
}

/// The two names under which agents send updates.
pub fn is_update(method: &str) -> bool {
    matches!(method, "session/update" | "session/notification")
}

/// A piece of history that the agent marks as such.
pub fn is_replay(params: &str) -> bool {
    let marked = |fields: &Fields| {
        fields.object("_meta").is_some_and(|meta| meta.parse::<bool>("isReplay").unwrap_or_default())
    };
    Fields::read(params).is_some_and(|p| marked(&p) || p.object("update").is_some_and(|u| marked(&u)))
}

impl Turn {
    pub fn new(rules: &'static ToolRules, built_in: bool) -> Self {
        Turn {
            answer: Answer::default(),
            tools: ToolCalls::new(rules, built_in),
            tally: Tally::default(),
            stop_reason: None,
            model: None,
            active: false,
        }
    }

    /// One update; gives the Messages it stands for. The kind is under `sessionUpdate`, under `type`, or the
    /// only member's name; its spelling varies. Unknown kinds are nothing.
    pub fn update(&mut self, params: &str) -> Vec<Message> {
        let mut out = Vec::new();
        let Some(update) = Fields::read(params).and_then(|p| p.object("update")) else { return out };
        let named = update.text("sessionUpdate").or_else(|| update.text("type"));
        let (kind, body) = match (named, update.single()) {
            (Some(kind), _) => (kind, update),
            (None, Some((kind, body))) => match Fields::read(body) {
                Some(body) => (kind.to_owned(), body),
                None => return out,
            },
            (None, None) => return out,
        };
        match plain(&kind).as_str() {
            "agentmessagechunk" => out.extend(chunk(&body).map(Message::text)),
            "agentthoughtchunk" => out.extend(chunk(&body).map(Message::thinking)),
            "toolcall" => self.tools.start(&body, &mut out),
            "toolcallupdate" => self.tools.update(&body, &mut out),
            "usageupdate" => {
                if let Some(usage) = body.object("usage") {
                    self.tally.add(&Record::read(&usage));
                }
            }
            "turnend" | "endturn" => {
                self.result(&body);
            }
            "plan" => out.extend(plan(&body)),
            _ => {}
        }
        for message in &out {
            self.active |= !matches!(message, Message::Log { .. });
            self.answer.add(message);
        }
        out
    }

    /// The answer to the prompt, or an update that says the same.
    pub fn result(&mut self, result: &Fields) {
        if self.stop_reason.is_none() {
            self.stop_reason = result.word(&["stopReason", "stop_reason"]);
        }
        self.tally.add(&Record::of_result(result));
        if self.model.is_none() {
            self.model = result.object("_meta").and_then(|meta| meta.word(&["modelId", "model_id"]));
        }
    }

    pub fn usage(&self) -> Option<ModelUsage> {
        self.tally.usage()
    }

    pub fn finishing(&self) -> Option<bool> {
        self.tools.finishing()
    }
}

fn plain(kind: &str) -> String {
    kind.trim().chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

fn chunk(body: &Fields) -> Option<String> {
    body.object("content")?.text("text").filter(|t| !t.is_empty())
}

/// A plan is no answer: one line per step, for diagnostics.
fn plan(body: &Fields) -> Option<Message> {
    let steps: Vec<String> = body
        .array("entries")
        .into_iter()
        .filter_map(|raw| {
            let entry = Fields::read(raw)?;
            let content = entry.word(&["content"])?;
            Some(match entry.word(&["status"]) {
                Some(status) => format!("[{status}] {content}"),
                None => content,
            })
        })
        .collect();
    (!steps.is_empty()).then(|| Message::log("debug", format!("plan:\n{}", steps.join("\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    static RULES: ToolRules = ToolRules::new();

    fn updates(list: &[&str]) -> (Turn, Vec<Message>) {
        let mut turn = Turn::new(&RULES, false);
        let messages = list.iter().flat_map(|u| turn.update(&format!("{{\"update\":{u}}}"))).collect();
        (turn, messages)
    }

    #[test]
    fn every_dialect_of_a_chunk_is_read() {
        for update in [
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hey"}}"#,
            r#"{"type":"AgentMessageChunk","content":{"type":"text","text":"hey"}}"#,
            r#"{"sessionUpdate":" agentMessageChunk ","content":{"text":"hey","_meta":7},"extra":[]}"#,
            r#"{"agent-message-chunk":{"content":{"text":"hey"}}}"#,
        ] {
            assert_eq!(updates(&[update]).1, [Message::text("hey")], "{update}");
        }
        let (turn, got) = updates(&[r#"{"agent-thought-chunk":{"content":{"text":"hm"}}}"#]);
        assert_eq!((got, turn.active, turn.answer.is_empty()), (vec![Message::thinking("hm")], true, true));
    }

    #[test]
    fn what_is_no_output_gives_nothing() {
        for update in [
            "7",
            "null",
            "[]",
            "{}",
            r#"{"a":1,"b":2}"#,
            r#"{"agent_message_chunk":"x"}"#,
            r#"{"sessionUpdate":"agent_message_chunk"}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":"x"}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"text":""}}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"text":3}}"#,
            r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"me"}}"#,
            r#"{"sessionUpdate":"available_commands_update","availableCommands":[]}"#,
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"x"}"#,
            r#"{"sessionUpdate":"from_the_future","content":{"text":"x"}}"#,
            r#"{"sessionUpdate":"usage_update","used":1,"size":2}"#,
        ] {
            let (turn, got) = updates(&[update]);
            assert_eq!((got.len(), turn.active, turn.usage()), (0, false, None), "{update}");
        }
    }

    #[test]
    fn a_turn_end_and_the_answer_complete_each_other() {
        let (mut turn, _) = updates(&[
            r#"{"type":"TurnEnd","stopReason":"max_tokens","usage":{"inputTokens":5,"outputTokens":9}}"#,
            r#"{"sessionUpdate":"usage_update","usage":{"inputTokens":7}}"#,
        ]);
        turn.result(&Fields::read(r#"{"stopReason":"end_turn","usage":{"outputTokens":4}}"#).unwrap());
        let usage = turn.usage().unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(7), Some(9)));
        assert_eq!((turn.stop_reason.as_deref(), turn.active), (Some("max_tokens"), false));
    }

    #[test]
    fn a_plan_is_a_log() {
        let (turn, got) = updates(&[
            r#"{"sessionUpdate":"plan","entries":[{"content":"a","status":"pending"},{"content":"b"},{"x":1}]}"#,
        ]);
        assert_eq!((got, turn.active), (vec![Message::log("debug", "plan:\n[pending] a\nb")], false));
    }

    #[test]
    fn marked_history_is_known_as_such() {
        for (params, replay) in [
            (r#"{"update":{},"_meta":{"isReplay":true}}"#, true),
            (r#"{"update":{"_meta":{"isReplay":true}}}"#, true),
            (r#"{"update":{"_meta":{"isReplay":false}}}"#, false),
            (r#"{"update":{"_meta":{"isReplay":"x"}}}"#, false),
            ("[]", false),
        ] {
            assert_eq!(is_replay(params), replay, "{params}");
        }
    }
}
