//! Detection of installed CLIs, answered through a callback.

use std::sync::Arc;

use napi::bindgen_prelude::{Function, Object, Unknown};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Result, Status};
use napi_derive::napi;

use super::options;
use super::types::ErrorData;
use crate::agents::{Agent, REGISTRY};
use crate::catalog::detect::{Look, detect};
use crate::catalog::version::{MinVersion, check_min};
use crate::contract::{ExecuteOptions, Os};
use crate::process::env::ChildEnv;
use crate::run::runtime;

/// Looks for one provider, or for all where `provider` is undefined. `done` is called once with a JSON array.
/// Gives what is wrong with the call as JSON, or undefined.
#[napi(skip_typescript, catch_unwind)]
pub fn detect_installed(
    provider: Unknown,
    options: Unknown,
    host_env: Object,
    done: Function<String, ()>,
) -> Result<Option<String>> {
    let started = options::optional_provider(&provider).and_then(|agent| {
        let options = options::read_lookup(&options, &host_env)?;
        // Strong: a pending detection keeps the event loop alive, as a pending promise of Node's own does.
        let done =
            done.build_threadsafe_function().callee_handled::<false>().build().map_err(options::internal)?;
        let agents = agent.map_or_else(|| REGISTRY.to_vec(), |a| vec![a]);
        runtime::handle().spawn(async move {
            let found = look(agents, Arc::new(options)).await;
            // Closing: the environment is gone and nobody waits any more.
            let _: Status = done.call(found, ThreadsafeFunctionCallMode::NonBlocking);
        });
        Ok(())
    });
    Ok(started.err().map(|error| serde_json::json!(ErrorData::from(error)).to_string()))
}

async fn look(agents: Vec<&'static Agent>, options: Arc<ExecuteOptions>) -> String {
    let tasks: Vec<_> = agents
        .into_iter()
        .map(|agent| {
            let options = options.clone();
            tokio::spawn(async move {
                let os = Os::current();
                let env = ChildEnv::new(&options.host_env, &options.env, os);
                let explicit = options.executable_path.as_deref();
                detect(agent, Look { explicit, prefix: &options.launch_prefix, env: &env, os }).await
            })
        })
        .collect();
    let mut found = Vec::new();
    for task in tasks {
        match task.await {
            Ok(detection) => found.push(detection),
            Err(e) => tracing::error!(error = %e, "a detection panicked"),
        }
    }
    serde_json::to_string(&found).expect("detections serialize")
}

/// `ok`, `too-old` or `unparsable`; undefined = no such provider.
#[napi(skip_typescript, catch_unwind)]
pub fn compare_min_version(provider: String, version: String) -> Option<&'static str> {
    crate::agents::find(&provider).map(|agent| match check_min(agent, &version) {
        MinVersion::Ok => "ok",
        MinVersion::TooOld { .. } => "too-old",
        MinVersion::Unparsable { .. } => "unparsable",
    })
}
