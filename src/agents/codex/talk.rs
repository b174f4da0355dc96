//! What the server says, in order: which of it belongs to our turn, what Messages it becomes, and when the
//! turn is over.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::failure::TurnError;
use super::items::Items;
use super::usage::{Meter, Totals};
use super::watch::Watch;
use super::{approvals, patch};
use crate::agents::foreign::foreign;
use crate::agents::{Emitter, Line, Output};
use crate::contract::Message;
use crate::wire::rpc::{Event, Handler, Payload};

/// After a hint that the turn is over, its real end may take this long. The hint alone is no proof: an
/// interrupted turn goes idle, too.
const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// How the turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    Completed,
    Failed,
    Interrupted,
}

/// Which family of events the server speaks. The older one, once seen, is the only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Unknown,
    Current,
    Legacy,
}

pub struct Talk {
    emit: Option<Emitter>,
    out: Vec<Message>,
    pub thread: Option<String>,
    /// The thread is an older one that goes on.
    pub resumed: bool,
    pub turn: Option<String>,
    /// The turn was asked for: what comes now may be ours.
    armed: bool,
    /// The server said that the turn runs.
    pub started: bool,
    family: Family,
    /// Any notification at all came.
    pub notified: bool,
    /// The session id waits for the first sign that this attempt counts.
    status_due: bool,
    pub items: Items,
    pub meter: Meter,
    /// Threads of other agents that began in this run.
    foreign_threads: BTreeSet<String>,
    pub watch: Watch,
    /// A hint that the turn is over: what it would mean, and when it counts.
    hint: Option<(Instant, TurnEnd)>,
    pub end: Option<TurnEnd>,
    pub error: Option<TurnError>,
    error_told: bool,
    pub unsupported: Option<String>,
    pub rate_limits: Value,
    /// The server said that it does without the user's configuration.
    pub config_ignored: Option<String>,
    pub stopping: bool,
}

impl Talk {
    pub fn new(watch: Watch) -> Self {
        Talk {
            emit: None,
            out: Vec::new(),
            thread: None,
            resumed: false,
            turn: None,
            armed: false,
            started: false,
            family: Family::Unknown,
            notified: false,
            status_due: false,
            items: Items::default(),
            meter: Meter::default(),
            foreign_threads: BTreeSet::new(),
            watch,
            hint: None,
            end: None,
            error: None,
            error_told: false,
            unsupported: None,
            rate_limits: Value::Null,
            config_ignored: None,
            stopping: false,
        }
    }

    pub fn connect(&mut self, emit: Emitter) {
        self.emit = Some(emit);
    }

    pub fn log(&mut self, level: &str, text: impl Into<String>) {
        self.out.push(Message::log(level, text));
    }

    /// The thread of this run.
    pub fn enter(&mut self, thread: &str, resumed: bool) {
        self.thread = Some(thread.to_owned());
        self.resumed = resumed;
        if !resumed {
            self.meter.born(thread);
        }
    }

    /// From here on the server's events may belong to our turn, even before it has answered.
    pub fn arm(&mut self) {
        self.armed = true;
        self.status_due = true;
        self.watch.begin();
    }

    /// The answer to `turn/start`: from now on the turn's id is known for certain.
    pub fn accepted(&mut self, turn: &str) {
        if !turn.is_empty() && self.end.is_none() {
            self.turn = Some(turn.to_owned());
        }
    }

    /// When the hint counts as the end.
    pub fn settles_at(&self) -> Option<Instant> {
        self.hint.map(|(at, _)| at)
    }

    /// The real end did not come: the hint is all there is.
    pub fn settle(&mut self) {
        if let Some((_, end)) = self.hint {
            self.finish(end);
        }
    }

    /// Hands the messages over. Waits while a slow reader holds the queue full.
    pub async fn flush(&mut self) {
        let Some(emit) = &self.emit else { return };
        if self.out.is_empty() {
            return;
        }
        let from = Instant::now();
        for message in self.out.drain(..) {
            emit.send(message).await;
        }
        self.watch.pardon(from.elapsed());
    }

    /// The attempt counts: the session id goes out even if nothing came of the turn.
    pub fn release_status(&mut self) {
        if std::mem::take(&mut self.status_due) {
            self.out.insert(self.logs_in_front(), Message::running(self.thread.clone()));
        }
    }

    /// Logs said before stay before.
    fn logs_in_front(&self) -> usize {
        self.out.iter().take_while(|m| matches!(m, Message::Log { .. })).count()
    }

    fn progress(&mut self, label: String) {
        self.watch.progress(label);
        self.release_status();
    }

    fn finish(&mut self, end: TurnEnd) {
        if self.end.is_none() {
            self.end = Some(end);
            self.hint = None;
            if let Some(emit) = &self.emit {
                emit.terminal();
            }
        }
    }

    fn hint(&mut self, after: Duration, end: TurnEnd) {
        if self.hint.is_none() {
            self.hint = Some((Instant::now() + after, end));
        }
    }

    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Notification { method, params } => {
                self.notified = true;
                self.notification(&method, &params);
            }
            Event::Request(request) => {
                let label = format!("request:{}", request.method);
                let answered = approvals::answer(request, self.stopping);
                if self.armed {
                    self.progress(label);
                }
                self.out.extend(answered.log);
                if self.unsupported.is_none() {
                    self.unsupported = answered.unsupported;
                }
            }
            Event::Foreign { text, terminated } => {
                let mut out = Output::default();
                foreign(Line { text: &text, terminated }, &mut out);
                self.out.append(&mut out.messages);
            }
            Event::Response { .. } | Event::Closed(_) => {}
        }
    }

    fn notification(&mut self, method: &str, params: &Payload) {
        if method == "codex/event" || method.starts_with("codex/event/") {
            if self.armed && self.family != Family::Current {
                self.family = Family::Legacy;
                self.legacy(&params.value()["msg"]);
            }
            return;
        }
        let v = params.value();
        if let (Some(thread), Some(own)) = (v["threadId"].as_str(), &self.thread)
            && thread != own
        {
            self.foreign_thread(method, thread, &v);
            return;
        }
        match method {
            "account/rateLimits/updated" => return self.rate_limits = v["rateLimits"].clone(),
            "configWarning" => return self.config_warning(&v),
            "warning" | "guardianWarning" | "deprecationNotice" => return self.warning(&v),
            "mcpServer/startupStatus/updated" => return self.mcp_status(&v),
            "thread/tokenUsage/updated" => return self.token_usage(&v),
            "model/rerouted" => return self.rerouted(&v),
            "thread/started" => return self.thread_started(&v),
            _ => {}
        }
        if !self.armed || !self.ours(method, &v) {
            return;
        }
        if method == "error" {
            return self.error(&v);
        }
        let defines_family =
            matches!(method, "turn/started" | "turn/completed") || method.starts_with("item/");
        match self.family {
            Family::Legacy => return,
            Family::Unknown if defines_family => self.family = Family::Current,
            Family::Unknown => return,
            Family::Current => {}
        }
        self.current(method, &v, params);
    }

    /// Whether an event of our thread belongs to our turn. History of a resumed thread comes along, too.
    fn ours(&self, method: &str, v: &Value) -> bool {
        let id = match method {
            "turn/started" | "turn/completed" => v["turn"]["id"].as_str(),
            _ => v["turnId"].as_str(),
        };
        match (&self.turn, id) {
            (Some(own), Some(id)) if !id.is_empty() => own == id,
            _ => true,
        }
    }

    fn current(&mut self, method: &str, v: &Value, params: &Payload) {
        let item_id = v["itemId"].as_str().unwrap_or_default();
        let delta = v["delta"].as_str().unwrap_or_default();
        match method {
            "turn/started" => {
                self.started = true;
                if self.turn.is_none() {
                    self.accepted(v["turn"]["id"].as_str().unwrap_or_default());
                }
                self.watch.started();
            }
            "turn/completed" => self.turn_completed(&v["turn"]),
            "thread/status/changed" => match v["status"]["type"].as_str() {
                Some("idle") if self.started => self.hint(SETTLE, TurnEnd::Completed),
                Some("active") => self.withdraw_hint(),
                _ => {}
            },
            "item/started" => {
                let item = &v["item"];
                let effect = self.items.started(item, params, &mut self.out);
                if effect.opened {
                    self.watch.tool_open(item["id"].as_str().unwrap_or_default());
                }
                self.item_seen(method, item);
                // More work after what looked like the end.
                self.withdraw_hint();
            }
            "item/completed" => {
                let item = &v["item"];
                let effect = self.items.completed(item, params, &mut self.out);
                self.watch.tool_closed(item["id"].as_str().unwrap_or_default());
                self.item_seen(method, item);
                if effect.final_answer && self.started {
                    self.hint(SETTLE, TurnEnd::Completed);
                }
            }
            "item/agentMessage/delta" => {
                self.items.text_delta(item_id, delta, &mut self.out);
                self.progress(format!("{method}:{item_id}"));
            }
            "item/reasoning/summaryTextDelta" => {
                let part = v["summaryIndex"].as_u64().unwrap_or(0);
                self.items.thinking_delta(item_id, delta, part, true, &mut self.out);
                self.progress(format!("{method}:{item_id}"));
            }
            "item/reasoning/textDelta" => {
                let part = v["contentIndex"].as_u64().unwrap_or(0);
                self.items.thinking_delta(item_id, delta, part, false, &mut self.out);
                self.progress(format!("{method}:{item_id}"));
            }
            "item/commandExecution/outputDelta" => {
                self.items.output_delta(item_id, delta);
                self.progress(format!("{method}:{item_id}"));
            }
            "turn/plan/updated" => self.plan(v),
            "item/mcpToolCall/progress" => {
                self.log("info", v["message"].as_str().unwrap_or("progress of an MCP tool"));
                self.progress(format!("{method}:{item_id}"));
            }
            _ if method.starts_with("item/autoApprovalReview/") => {
                self.log("info", format!("codex: {method}"));
                self.progress(method.to_owned());
            }
            _ if method.starts_with("item/") => self.progress(format!("{method}:{item_id}")),
            _ => {}
        }
    }

    fn item_seen(&mut self, method: &str, item: &Value) {
        let kind = item["type"].as_str().filter(|k| !k.is_empty()).unwrap_or("unknown");
        let id = item["id"].as_str().filter(|id| !id.is_empty()).map(|id| format!(":{id}"));
        let label = format!("{method}:{kind}{}", id.unwrap_or_default());
        // The echo of our own prompt comes at once, whatever the model does.
        if kind == "userMessage" { self.watch.touch(label) } else { self.progress(label) }
    }

    /// The hint of an error stands: what comes after it is its own aftermath.
    fn withdraw_hint(&mut self) {
        if matches!(self.hint, Some((_, TurnEnd::Completed))) {
            self.hint = None;
        }
    }

    fn turn_completed(&mut self, turn: &Value) {
        if self.end.is_some() {
            return;
        }
        if self.meter.is_empty()
            && let Some(totals) = counts_in(turn)
        {
            self.meter.add(totals);
        }
        if self.items.answer.text().is_empty() {
            for item in turn["items"].as_array().into_iter().flatten() {
                if item["type"] == "agentMessage" {
                    let text = item["text"].as_str().unwrap_or_default();
                    self.items.answer.note(text, item["phase"] == "final_answer");
                }
            }
        }
        match turn["status"].as_str().unwrap_or_default() {
            "interrupted" | "cancelled" | "canceled" | "aborted" => self.finish(TurnEnd::Interrupted),
            "failed" => {
                let error = TurnError::read(&turn["error"]);
                if self.error.is_none() {
                    self.error = Some(error);
                }
                self.tell_error();
                self.finish(TurnEnd::Failed);
            }
            _ if self.error.is_some() => self.finish(TurnEnd::Failed),
            _ => self.finish(TurnEnd::Completed),
        }
    }

    /// One `error` message for the error that ends the turn.
    fn tell_error(&mut self) {
        if let Some(error) = &self.error
            && !error.message.is_empty()
            && !std::mem::replace(&mut self.error_told, true)
        {
            let message = Message::error(error.message.clone());
            self.release_status();
            self.out.push(message);
        }
    }

    fn error(&mut self, v: &Value) {
        let error = if v["error"].is_object() { TurnError::read(&v["error"]) } else { TurnError::read(v) };
        if error.message.is_empty() {
            return;
        }
        if v["willRetry"] == true {
            let cause = v["error"]["additionalDetails"].as_str().filter(|c| !c.is_empty());
            let cause = cause.map(|c| format!(": {c}")).unwrap_or_default();
            self.log("warn", format!("{}{cause}", error.message));
            self.watch.touch("error:retry".to_owned());
            return;
        }
        self.progress("error:terminal".to_owned());
        if self.error.is_none() {
            self.error = Some(error);
        }
        self.tell_error();
        self.hint = None;
        self.hint(SETTLE_AFTER_ERROR, TurnEnd::Failed);
    }

    fn plan(&mut self, v: &Value) {
        let mut lines: Vec<String> = v["explanation"].as_str().map(str::to_owned).into_iter().collect();
        for step in v["plan"].as_array().into_iter().flatten() {
            let text = step["step"].as_str().unwrap_or_default();
            lines.push(format!("[{}] {text}", step["status"].as_str().unwrap_or("pending")));
        }
        if !lines.is_empty() {
            self.log("info", format!("plan: {}", lines.join("\n")));
        }
    }

    fn config_warning(&mut self, v: &Value) {
        let summary = v["summary"].as_str().unwrap_or_default();
        if summary.starts_with("Invalid configuration; using defaults") {
            let details = v["details"].as_str().unwrap_or(summary);
            self.config_ignored = Some(details.to_owned());
        }
        self.warning(v);
    }

    fn warning(&mut self, v: &Value) {
        let text = [&v["message"], &v["summary"], &v["details"]];
        let text: Vec<&str> = text.iter().filter_map(|t| t.as_str()).filter(|t| !t.is_empty()).collect();
        if !text.is_empty() {
            self.log("warn", text.join(": "));
        }
    }

    fn mcp_status(&mut self, v: &Value) {
        let name = v["name"].as_str().unwrap_or_default();
        let status = v["status"].as_str().unwrap_or_default();
        if status == "failed" {
            let error = v["error"].as_str().unwrap_or("it did not start");
            self.log("warn", format!("MCP server {name}: {error}"));
        } else {
            self.log("debug", format!("MCP server {name}: {status}"));
        }
    }

    fn rerouted(&mut self, v: &Value) {
        let to = v["toModel"].as_str().unwrap_or_default();
        if to.is_empty() {
            return;
        }
        let from = v["fromModel"].as_str().unwrap_or("the model asked for");
        let reason = v["reason"].as_str().map(|r| format!(" ({r})")).unwrap_or_default();
        self.log("warn", format!("codex answers with {to} instead of {from}{reason}"));
        self.meter.model = Some(to.to_owned());
    }

    fn thread_started(&mut self, v: &Value) {
        let thread = &v["thread"];
        let id = thread["id"].as_str().unwrap_or_default();
        if self.thread.as_deref().is_some_and(|own| own != id) && thread["parentThreadId"].is_string() {
            self.foreign_threads.insert(id.to_owned());
            self.meter.born(id);
        }
    }

    /// Another agent on the same pipe. Its words are not ours, but it shows that work goes on, and it costs.
    fn foreign_thread(&mut self, method: &str, thread: &str, v: &Value) {
        if !self.armed {
            return;
        }
        if method == "thread/tokenUsage/updated" {
            let totals = &v["tokenUsage"];
            if let Some(total) = Totals::read(&totals["total"])
                && self.foreign_threads.contains(thread)
            {
                self.meter.count(thread, total, Totals::read(&totals["last"]));
            }
        }
        self.watch.touch(format!("sub-agent:{method}"));
    }

    fn token_usage(&mut self, v: &Value) {
        let Some(thread) = self.thread.clone() else { return };
        let Some(total) = Totals::read(&v["tokenUsage"]["total"]) else { return };
        let ours = match (&self.turn, v["turnId"].as_str()) {
            (Some(own), Some(id)) => own == id,
            // No turn of ours is known yet: a resumed thread tells the total of its past.
            (None, _) => !self.resumed,
            (Some(_), None) => true,
        };
        if ours && self.armed {
            self.meter.count(&thread, total, Totals::read(&v["tokenUsage"]["last"]));
        } else {
            self.meter.baseline(&thread, total);
        }
    }

    /// Events of servers before the item protocol.
    fn legacy(&mut self, msg: &Value) {
        let word = |key: &str| msg[key].as_str().unwrap_or_default();
        let id = word("call_id").to_owned();
        let kind = word("type").to_owned();
        match kind.as_str() {
            "task_started" => {
                self.started = true;
                self.watch.started();
                return;
            }
            "agent_message" => {
                let text = word("message").to_owned();
                if !text.is_empty() {
                    self.items.answer.note(&text, false);
                    self.out.push(Message::text(text));
                }
            }
            "exec_command_begin" => {
                let command = match &msg["command"] {
                    Value::Array(words) => {
                        words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
                    }
                    other => other.as_str().unwrap_or_default().to_owned(),
                };
                self.watch.tool_open(&id);
                self.items.legacy_use(&id, "exec_command", Some(json!({"command": command})), &mut self.out);
            }
            "exec_command_end" => {
                let first = ["output", "aggregated_output", "formatted_output"].map(word);
                let output = first.into_iter().find(|o| !o.is_empty()).map(str::to_owned);
                let output = output.unwrap_or_else(|| format!("{}{}", word("stdout"), word("stderr")));
                let failed = msg["exit_code"].as_i64().map(|code| code != 0);
                self.watch.tool_closed(&id);
                self.items.legacy_result(&id, "exec_command", output, failed, &mut self.out);
            }
            "patch_apply_begin" => {
                self.watch.tool_open(&id);
                let input = patch::input(&msg["changes"]);
                self.items.legacy_use(&id, "patch_apply", input, &mut self.out);
            }
            "patch_apply_end" => {
                let status = match (word("status"), msg["success"].as_bool()) {
                    ("", Some(true)) => "completed",
                    ("", Some(false)) => "failed",
                    (status, _) => status,
                };
                let output = patch::output(status, &msg["changes"], word("stdout"), word("stderr"));
                let failed = (!status.is_empty()).then_some(status != "completed");
                self.watch.tool_closed(&id);
                self.items.legacy_result(&id, "patch_apply", output, failed, &mut self.out);
            }
            "task_complete" => {
                if let Some(totals) = counts_in(msg) {
                    self.meter.add(totals);
                }
                self.finish(TurnEnd::Completed);
            }
            "turn_aborted" => self.finish(TurnEnd::Interrupted),
            _ => {}
        }
        self.progress(format!("codex/event:{kind}"));
    }
}

impl Handler for Talk {
    async fn event(&mut self, event: Event) {
        self.handle(event);
        self.flush().await;
    }
}

/// Counts that older servers put into the end of the turn.
fn counts_in(holder: &Value) -> Option<Totals> {
    ["usage", "token_usage", "tokens"]
        .iter()
        .map(|key| &holder[key])
        .find(|v| v.is_object())
        .and_then(Totals::read_any_spelling)
}
