//! A run as JavaScript holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use napi::bindgen_prelude::{Either, Function, Object, Unknown};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Env, Result, Status};
use napi_derive::napi;
use serde::Serialize;

use super::encode;
use super::options;
use super::types::ErrorData;
use crate::contract::RunResult;
use crate::run::{self, Run};

/// Names a host environment (main thread, worker, Electron window).
#[napi(skip_typescript, catch_unwind)]
pub fn open_environment(env: Env) -> Result<f64> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    // The environment ends while the process may live on: its runs are asked to stop, and stop on our own
    // threads. No JavaScript can run any more.
    env.add_env_cleanup_hook(id, run::cancel_all)?;
    Ok(id as f64)
}

/// Ends every process tree of this environment at once: the process is about to exit.
#[napi(skip_typescript, catch_unwind)]
pub fn kill_all(environment: f64) {
    run::kill_all(environment as u64);
}

/// Starts a run, or gives what is wrong with the call as JSON.
// Called from one place of the shim: a struct would only be built to be taken apart.
#[allow(clippy::too_many_arguments)]
#[napi(skip_typescript, catch_unwind)]
pub fn start(
    environment: f64,
    provider: Unknown,
    prompt: Unknown,
    options: Unknown,
    mcp_json: Option<String>,
    host_env: Object,
    aborted: bool,
    wake: Function<bool, ()>,
) -> Result<Either<NativeRun, String>> {
    let started = options::provider(&provider).and_then(|agent| {
        let prompt = options::prompt(&prompt)?;
        let options = options::read(&options, mcp_json, &host_env)?;
        // Weak: what keeps the event loop alive is a handle of the shim's own, which `unref()` releases.
        let wake = wake
            .build_threadsafe_function()
            .callee_handled::<false>()
            .weak::<true>()
            .build()
            .map_err(options::internal)?;
        let wake = Arc::new(move |ended| {
            // Closing: the environment is gone and nobody waits any more.
            let _: Status = wake.call(ended, ThreadsafeFunctionCallMode::NonBlocking);
        });
        Run::start(agent, prompt, options, environment as u64, aborted, wake)
    });
    Ok(match started {
        Ok(run) => Either::A(NativeRun { run }),
        Err(error) => Either::B(serde_json::json!(ErrorData::from(error)).to_string()),
    })
}

#[napi]
pub struct NativeRun {
    run: Run,
}

#[napi]
impl NativeRun {
    #[napi(getter, catch_unwind)]
    pub fn run_id(&self) -> &str {
        self.run.id()
    }

    #[napi(getter, catch_unwind)]
    pub fn session_id(&self) -> Option<String> {
        self.run.session_id()
    }

    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.run.cancel();
    }

    /// From now on a full queue stops the reading of stdout.
    #[napi(catch_unwind)]
    pub fn attach(&self) {
        self.run.attach_reader();
    }

    /// `[kinds, ...fields]`, null = nothing now (the wake function follows), undefined = nothing any more.
    #[napi(catch_unwind)]
    pub fn drain<'env>(&self, env: &'env Env, max: u32, max_bytes: u32) -> Result<Unknown<'env>> {
        encode::drained(env, self.run.drain(max as usize, max_bytes as usize))
    }

    /// The end as JSON, once there is one: `{"result": …}` or `{"error": …}`.
    #[napi(catch_unwind)]
    pub fn end(&self) -> Option<String> {
        let end = match self.run.end()? {
            Ok(result) => End::Result(result),
            Err(error) => End::Error(error.into()),
        };
        Some(serde_json::to_string(&end).expect("results serialize"))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum End {
    Result(RunResult),
    Error(ErrorData),
}
