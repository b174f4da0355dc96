//! Tool calls: one `tool-use` and one `tool-result` each, whatever the frames in between.

use std::collections::{HashMap, HashSet};

use super::content;
use super::fields::Fields;
use super::names;
use super::profile::ToolRules;
use crate::contract::{Message, RawJson};

pub struct ToolCalls {
    rules: &'static ToolRules,
    /// The start frame is the only one that tells about the input.
    start_is_final: bool,
    open: HashMap<String, Open>,
    /// A repeated end frame is no second call.
    finished: HashSet<String>,
    finishing: Option<bool>,
}

struct Open {
    name: String,
    /// The arguments as text so far; each frame repeats them from the beginning.
    arguments: String,
    announced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Going,
    Completed,
    Failed,
}

impl ToolCalls {
    pub fn new(rules: &'static ToolRules, built_in: bool) -> Self {
        ToolCalls {
            rules,
            start_is_final: rules.start_is_final && built_in,
            open: HashMap::new(),
            finished: HashSet::new(),
            finishing: None,
        }
    }

    /// Whether the latest finished call of a finishing tool succeeded.
    pub fn finishing(&self) -> Option<bool> {
        self.finishing
    }

    pub fn start(&mut self, frame: &Fields, out: &mut Vec<Message>) {
        let Some(id) = call_id(frame) else { return };
        if self.open.contains_key(&id) {
            return self.update(frame, out);
        }
        let name = self.name(frame);
        let text = content::text(frame);
        let mut input = content::input(frame);
        let mut announced = input.is_some();
        if input.is_none() && self.start_is_final {
            announced = true;
            // Of the display texts only a shell line is the input itself.
            if name == "terminal" && text.trim_start().starts_with("$ ") {
                input = content::arguments_in(&text);
            }
        }
        if announced {
            out.push(Message::tool_use(name.clone(), id.clone(), input));
        }
        self.open.insert(id, Open { name, arguments: text, announced });
        if status(frame) != Status::Going {
            self.update(frame, out);
        }
    }

    pub fn update(&mut self, frame: &Fields, out: &mut Vec<Message>) {
        let Some(id) = call_id(frame) else { return };
        let status = status(frame);
        if status != Status::Going {
            return self.finish(id, frame, status == Status::Failed, out);
        }
        let Some(open) = self.open.get_mut(&id).filter(|open| !open.announced) else { return };
        // Arguments as an object are complete; waiting for the end would hide a running tool.
        if let Some(input) = content::input(frame) {
            open.announced = true;
            out.push(Message::tool_use(open.name.clone(), id, Some(input)));
            return;
        }
        let text = content::text(frame);
        if !text.is_empty() {
            open.arguments = text;
        }
    }

    fn finish(&mut self, id: String, frame: &Fields, failed: bool, out: &mut Vec<Message>) {
        let known = self.open.remove(&id);
        if known.is_none() && self.finished.contains(&id) {
            return;
        }
        let (name, arguments, announced) = match known {
            Some(open) => (open.name, open.arguments, open.announced),
            None => (self.name(frame), String::new(), false),
        };
        if !announced {
            let input: Option<RawJson> = content::input(frame).or_else(|| content::arguments_in(&arguments));
            out.push(Message::tool_use(name.clone(), id.clone(), input));
        }
        let own = self.rules.output.and_then(|output| output(frame));
        let (text, failed) = match own {
            Some(own) => (own.text, failed || own.failed),
            None => (content::output(frame), failed),
        };
        if self.rules.finishing.contains(&name.as_str()) {
            self.finishing = Some(!failed);
        }
        self.finished.insert(id.clone());
        out.push(Message::ToolResult {
            call_id: id,
            tool: None,
            output: text,
            is_error: Some(failed),
            parent_call_id: None,
        });
    }

    fn name(&self, frame: &Fields) -> String {
        if let Some(own) = self.rules.name.and_then(|name| name(frame)) {
            return names::shared(&own, self.rules.names);
        }
        let word = |name: &str| frame.text(name).unwrap_or_default();
        let mut name = names::from_title(&word("title"), &word("kind"));
        if name.is_empty() {
            name = word("name");
        }
        if self.rules.shared_names { names::shared(&name, self.rules.names) } else { name }
    }
}

fn call_id(frame: &Fields) -> Option<String> {
    let id = match frame.raw("toolCallId")? {
        raw if raw.starts_with('"') => frame.text("toolCallId")?,
        raw => raw.to_owned(),
    };
    (!id.is_empty()).then_some(id)
}

fn status(frame: &Fields) -> Status {
    match frame.text("status").unwrap_or_default().trim().to_lowercase().as_str() {
        "completed" => Status::Completed,
        "failed" | "cancelled" | "canceled" => Status::Failed,
        _ => Status::Going,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    static SHARED: ToolRules = ToolRules::new();
    static FINAL: ToolRules =
        ToolRules { shared_names: false, start_is_final: true, finishing: &["done"], ..ToolRules::new() };

    fn text_block(text: &str) -> Value {
        json!([{"type":"content","content":{"type":"text","text":text}}])
    }

    /// (`s` start or `u` update, frame) -> `use name input` and `result text error` lines.
    fn feed(calls: &mut ToolCalls, frames: &[(char, Value)]) -> Vec<String> {
        let mut out = Vec::new();
        for (kind, frame) in frames {
            let json = frame.to_string();
            let fields = Fields::read(&json).unwrap();
            match kind {
                's' => calls.start(&fields, &mut out),
                _ => calls.update(&fields, &mut out),
            }
        }
        out.into_iter()
            .map(|m| match m {
                Message::ToolUse { tool, call_id, input, .. } => {
                    format!("use {call_id} {tool} {}", input.map_or("-".into(), |i| i.0))
                }
                Message::ToolResult { call_id, output, is_error, .. } => {
                    format!("result {call_id} {output:?} {}", is_error.unwrap())
                }
                other => format!("{other:?}"),
            })
            .collect()
    }

    fn shared(frames: &[(char, Value)]) -> Vec<String> {
        feed(&mut ToolCalls::new(&SHARED, true), frames)
    }

    #[test]
    fn arguments_that_stream_as_text_are_announced_whole() {
        let id = |mut v: Value| {
            v["toolCallId"] = json!("c1");
            v
        };
        let start = ('s', id(json!({"title":"Shell","content":text_block("")})));
        let part = |text: &str| ('u', id(json!({"status":"in_progress","content":text_block(text)})));
        let end = ('u', id(json!({"status":"completed","content":text_block("1\n")})));
        let cumulative =
            [start.clone(), part("{\""), part("{\"command\":\"ec"), part("{\"command\":\"echo 1\"}")];
        let mut calls = ToolCalls::new(&SHARED, true);
        assert_eq!(feed(&mut calls, &cumulative), [""; 0]);
        assert_eq!(
            feed(&mut calls, &[end.clone(), end.clone()]),
            [r#"use c1 terminal {"command":"echo 1"}"#, r#"result c1 "1\n" false"#]
        );
        assert_eq!(
            shared(&[start.clone(), part("oops"), end.clone()])[0],
            r#"use c1 terminal {"text":"oops"}"#
        );
        assert_eq!(shared(&[start.clone(), end.clone()])[0], "use c1 terminal -");
        let whole =
            ('u', id(json!({"status":"in_progress","rawInput":{"command":"x"},"title":"Running: x"})));
        let mut calls = ToolCalls::new(&SHARED, true);
        assert_eq!(
            feed(&mut calls, &[start, part("{\"co"), whole.clone()]),
            [r#"use c1 terminal {"command":"x"}"#]
        );
        assert_eq!(feed(&mut calls, &[whole, end]), [r#"result c1 "1\n" false"#]);
    }

    #[test]
    fn one_use_and_one_result_per_call() {
        let done = json!({"toolCallId":"c2","title":"terminal: ls","kind":"execute","rawInput":{"command":"ls"},
            "status":"completed","rawOutput":{"items":[1]}});
        let both = [r#"use c2 terminal {"command":"ls"}"#, r#"result c2 "{\"items\":[1]}" false"#];
        assert_eq!(shared(&[('u', done.clone()), ('u', done.clone())]), both);
        assert_eq!(shared(&[('s', done.clone())]), both, "a start frame that is also the end");
        let start = json!({"toolCallId":"c2","name":"Shell","parameters":{}});
        let failed = json!({"toolCallId":"c2","status":"failed","output":"no"});
        assert_eq!(
            shared(&[
                ('s', start.clone()),
                ('s', start.clone()),
                ('u', failed.clone()),
                ('s', start),
                ('u', failed)
            ]),
            ["use c2 terminal {}", r#"result c2 "no" true"#, "use c2 terminal {}", r#"result c2 "no" true"#],
            "an id may come again in a later step"
        );
    }

    #[test]
    fn broken_frames_cost_nothing() {
        let frames = [
            ('s', json!({"title":"x"})),
            ('s', json!({"toolCallId":"","rawInput":{}})),
            ('u', json!({"toolCallId":"late","status":"running"})),
            (
                's',
                json!({"toolCallId":7,"title":["x"],"kind":3,"name":"Grep","rawInput":"{\"q\":1}","content":9}),
            ),
            ('u', json!({"toolCallId":7,"status":"COMPLETED ","rawOutput":null,"output":3})),
        ];
        assert_eq!(shared(&frames), [r#"use 7 search_files {"q":1}"#, r#"result 7 "3" false"#]);
    }

    #[test]
    fn a_final_start_frame_is_announced_at_once() {
        let write = json!({"toolCallId":"w","title":"write: /tmp/q","kind":"edit","content":text_block("Preparing write to /tmp/q")});
        let shell =
            json!({"toolCallId":"s","title":"terminal: pwd","kind":"execute","content":text_block("$ pwd")});
        let end = json!({"toolCallId":"w","status":"completed","content":text_block("wrote 2 bytes")});
        let frames = [('s', write), ('s', shell), ('u', end)];
        assert_eq!(
            feed(&mut ToolCalls::new(&FINAL, true), &frames),
            ["use w write_file -", r#"use s terminal {"text":"$ pwd"}"#, r#"result w "wrote 2 bytes" false"#]
        );
        let other = feed(&mut ToolCalls::new(&FINAL, false), &frames);
        assert_eq!(
            other,
            [r#"use w write_file {"text":"Preparing write to /tmp/q"}"#, r#"result w "wrote 2 bytes" false"#]
        );
    }

    #[test]
    fn the_latest_finishing_call_decides() {
        let end = |id: &str, status: &str| ('u', json!({"toolCallId":id,"title":"done","status":status}));
        for (frames, want) in [
            (vec![end("a", "completed"), end("b", "failed")], Some(false)),
            (vec![end("a", "failed"), end("b", "completed")], Some(true)),
            (vec![('s', json!({"toolCallId":"a","title":"done"}))], None),
        ] {
            let mut calls = ToolCalls::new(&FINAL, false);
            feed(&mut calls, &frames);
            assert_eq!(calls.finishing(), want);
        }
    }
}
