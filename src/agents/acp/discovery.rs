//! Which models a CLI offers, asked of a throw-away process: a session is opened and never prompted.

use std::time::Duration;

use serde_json::json;

use super::effort::{self, Choice};
use super::fields::Fields;
use super::incoming::{answer, hello};
use super::profile::AcpProfile;
use crate::process::env::ChildEnv;
use crate::wire::rpc::{Config, Event, Handler, Payload, Peer, RpcError, Sink, Source};

/// Bound on the whole conversation.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// Longest line of the answers, in bytes.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// What a session says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    pub version: Option<String>,
    /// In the agent's order, each id once. Empty = the agent offers no choice.
    pub models: Vec<Model>,
    /// Thinking levels of the current model. What other models take is not told.
    pub levels: Vec<Choice>,
    pub current_level: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// As `model` takes it.
    pub id: String,
    pub label: String,
    /// What stands before the first colon of the id.
    pub provider: Option<String>,
    /// The one in use when none is asked for.
    pub is_default: bool,
}

impl Model {
    fn new(id: String, label: Option<String>, current: Option<&str>) -> Self {
        let label = label.filter(|l| !l.eq_ignore_ascii_case("unknown")).unwrap_or_else(|| id.clone());
        let provider = id.split_once(':').map(|(p, _)| p.to_owned()).filter(|p| !p.is_empty());
        Model { is_default: current == Some(id.as_str()), id, label, provider }
    }
}

/// The arguments of the throw-away process, after the executable.
pub fn arguments(profile: &AcpProfile) -> Vec<String> {
    let all = profile.discovery.unwrap_or(profile.head).iter().chain(profile.tail);
    all.map(|a| (*a).to_owned()).collect()
}

/// The models every release of this CLI has, for when asking fails. The first is the default.
pub fn fallback(profile: &AcpProfile) -> Vec<Model> {
    let first = profile.fallback_models.first().copied();
    profile.fallback_models.iter().map(|id| Model::new((*id).to_owned(), None, first)).collect()
}

/// Asks the agent behind `source` and `sink`. The error says which step failed.
pub async fn discover(
    profile: &AcpProfile,
    env: &ChildEnv,
    cwd: &str,
    source: Source,
    sink: Sink,
) -> Result<Discovered, String> {
    let mut peer = Peer::new(source, sink, Config { max_line: MAX_LINE_BYTES, ..Config::default() });
    match tokio::time::timeout(TIMEOUT, ask(profile, env, cwd, &mut peer)).await {
        Ok(asked) => asked,
        Err(_) => Err(format!("{} did not list its models in {} s", profile.name, TIMEOUT.as_secs())),
    }
}

async fn ask(profile: &AcpProfile, env: &ChildEnv, cwd: &str, peer: &mut Peer) -> Result<Discovered, String> {
    let step = |result: Result<Payload, RpcError>| result.map_err(|e| format!("{}: {e}", profile.name));
    let initialize = step(peer.call(&mut OnlyAnswers, "initialize", &hello(), None).await)?;
    let agent = Fields::read(initialize.text()).unwrap_or_default();
    if let Some(choose) = profile.hooks.authenticate {
        let params = json!({ "methodId": choose(&agent, env)?, "_meta": { "headless": true } });
        step(peer.call(&mut OnlyAnswers, "authenticate", &params, None).await)?;
    }
    let params = json!({ "cwd": cwd, "mcpServers": [] });
    let session = step(peer.call(&mut OnlyAnswers, "session/new", &params, None).await)?;
    let session = Fields::read(session.text()).unwrap_or_default();
    let info = ["agentInfo", "agent_info"].iter().find_map(|name| agent.object(name));
    let option = effort::advertised(&session);
    let current_level = option.as_ref().and_then(|o| effort::current(&session, &o.id));
    let levels = option.map(|o| o.choices).unwrap_or_default();
    Ok(Discovered {
        version: info.and_then(|info| info.word(&["version"])),
        models: models(&session),
        current_level: current_level.filter(|c| levels.iter().any(|level| level.value == *c)),
        levels,
    })
}

/// The `models` block; without one, the option for the model.
fn models(session: &Fields) -> Vec<Model> {
    let current = effort::current_model(session);
    let block = session.object("models").unwrap_or_default();
    let listed = ["availableModels", "available_models"].iter().map(|name| block.array(name));
    let mut offered: Vec<(String, Option<String>)> = listed
        .flatten()
        .filter_map(|raw| {
            let model = Fields::read(raw)?;
            Some((model.word(&["modelId", "model_id"])?, model.word(&["name"])))
        })
        .collect();
    if offered.is_empty() {
        offered = effort::model_choices(session).into_iter().map(|c| (c.value, Some(c.label))).collect();
    }
    let mut models: Vec<Model> = Vec::new();
    for (id, label) in offered {
        if !models.iter().any(|known| known.id == id) {
            models.push(Model::new(id, label, current.as_deref()));
        }
    }
    models
}

/// Nothing that comes by itself matters here, but no request may stay without an answer.
struct OnlyAnswers;

impl Handler for OnlyAnswers {
    async fn event(&mut self, event: Event) {
        if let Event::Request(request) = event {
            answer(request, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeAgent, connect};
    use super::*;
    use crate::contract::Os;
    use crate::contract::options::EnvList;

    static PLAIN: AcpProfile = AcpProfile::new("plain");

    async fn asked(script: impl AsyncFnOnce(&mut FakeAgent)) -> Result<Discovered, String> {
        let env = ChildEnv::new(&EnvList::default(), &EnvList::default(), Os::Linux);
        connect(script, async |source, sink| discover(&PLAIN, &env, "/tmp/x", source, sink).await).await
    }

    fn model(id: &str, label: &str, is_default: bool) -> Model {
        let provider = id.split_once(':').map(|(p, _)| p.to_owned());
        Model { id: id.into(), label: label.into(), provider, is_default }
    }

    #[tokio::test(start_paused = true)]
    async fn models_come_from_the_block_or_the_option() {
        let option = json!([{"id":"model","currentValue":"b","options":[{"value":"a","name":"A"},{"value":"b"}]},
            {"id":"x","category":"thought_level","currentValue":"low","options":[{"value":"low"},{"value":"high","name":"High!"}]}]);
        let block = json!({"currentModelId":"p:m1","availableModels":[{"modelId":"p:m1","name":"Unknown"},
            {"model_id":"m2","name":" M2 "},{"modelId":"m2","name":"again"},{"name":"no id"},7]});
        for (session, models) in [
            (
                json!({"models":block,"configOptions":option}),
                vec![model("p:m1", "p:m1", true), model("m2", "M2", false)],
            ),
            (json!({"configOptions":option}), vec![model("a", "A", false), model("b", "B", true)]),
        ] {
            let got = asked(async |a| {
                a.take("initialize").await;
                a.line("Loading...").await;
                a.reply(json!({"agentInfo":{"version":" 1.2 "}})).await;
                let new = a.take("session/new").await;
                assert_eq!(new["params"], json!({"cwd":"/tmp/x","mcpServers":[]}));
                a.text("noise").await;
                let id = a.last["id"].clone();
                a.send(json!({"id":id,"result":session,"error":null})).await;
            })
            .await
            .unwrap();
            assert_eq!((got.models, got.version.as_deref()), (models, Some("1.2")));
            let levels: Vec<&str> = got.levels.iter().map(|l| l.label.as_str()).collect();
            assert_eq!((levels, got.current_level.as_deref()), (vec!["Low", "High!"], Some("low")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_step_is_named_and_silence_ends() {
        let error = asked(async |a| {
            a.take("initialize").await;
            a.reply(json!({})).await;
            a.take("session/new").await;
            a.fail(-32000, "Authentication required", json!(null)).await;
        })
        .await
        .unwrap_err();
        assert!(
            error.contains("plain")
                && error.contains("session/new")
                && error.contains("Authentication required")
        );
        let error = asked(async |a| a.rest().await).await.unwrap_err();
        assert!(error.contains("15 s"), "{error}");
        assert!(asked(async |_| {}).await.unwrap_err().contains("process exited"));
    }
}
