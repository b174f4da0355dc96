//! From a checked call to a started process: cwd, executable, version gate, launch plan, limits of the
//! command line, spawn.

use std::path::{Path, PathBuf};

use crate::agents::{Agent, Launch, LaunchContext, args};
use crate::contract::{AgentplugError, ErrorCode, ExecuteOptions, Os};
use crate::process::command_line;
use crate::process::env::{ChildEnv, RUN_ID};
use crate::process::exec_format;
use crate::process::files::RunFiles;
use crate::process::find;
use crate::process::probe::Prober;
use crate::process::shim;
use crate::process::spawn::{SpawnPlan, Spawned};

pub struct Prepared {
    pub plan: SpawnPlan,
    pub launch: Launch,
    pub files: RunFiles,
    pub version: Option<semver::Version>,
    pub program: PathBuf,
}

/// What is wrong with the call itself. Looks at nothing but the prompt, the options and the cwd.
pub fn check_call(agent: &Agent, prompt: &str, options: &ExecuteOptions) -> Result<(), AgentplugError> {
    let bad = |what: &str| {
        AgentplugError::new(ErrorCode::InvalidPrompt, format!("the prompt for {} {what}", agent.id))
            .about("prompt")
    };
    if prompt.trim().is_empty() {
        return Err(bad("must not be empty"));
    }
    if let Some(at) = prompt.find('\0') {
        return Err(bad(&format!("holds a NUL character at offset {at}; no CLI can take it")));
    }
    check_cwd(&options.cwd)?;
    (agent.check)(prompt, options)
}

fn check_cwd(cwd: &Path) -> Result<(), AgentplugError> {
    let bad = |what: String| {
        Err(AgentplugError::new(ErrorCode::InvalidCwd, format!("option cwd: {} {what}", cwd.display()))
            .about("cwd"))
    };
    // Electron shows the inside of an archive as folders to JavaScript; for a child process it is a file.
    let inside_archive =
        cwd.components().any(|c| c.as_os_str().to_string_lossy().to_lowercase().ends_with(".asar"));
    if inside_archive {
        return bad(
            "lies inside an .asar archive, where no process can run; use app.asar.unpacked or another folder"
                .into(),
        );
    }
    match std::fs::metadata(cwd) {
        Ok(m) if m.is_dir() => Ok(()),
        Ok(_) => bad("is not a directory".into()),
        Err(e) => bad(format!("cannot be used as a directory: {e}")),
    }
}

pub async fn prepare(
    agent: &'static Agent,
    prompt: &str,
    options: &ExecuteOptions,
    run_id: &str,
    attempt: u32,
) -> Result<Prepared, AgentplugError> {
    if let Some(error) = &options.mcp_error {
        return Err(error.clone());
    }
    let os = Os::current();
    let mut env = ChildEnv::new(&options.host_env, &options.env, os);
    let found = find::find(find::Query {
        name: agent.name,
        executables: agent.executables,
        known_paths: agent.known_paths,
        explicit: options.executable_path.as_deref(),
        env: &env,
        os,
    })
    .await?;
    if let Some(path) = &found.path_env {
        env.set("PATH", path);
    }
    let command = shim::plan(&found.path, &env, os)?;
    for (name, value) in &command.env {
        env.set(name, value);
    }
    let prefix = args::filter_prefix(&options.launch_prefix, agent.blocked);
    let prober = Prober::new(command.program.clone(), [&command.args[..], &prefix].concat(), env.clone());
    let version = prober.cached_version();
    crate::catalog::version::gate(agent, version.as_ref())?;
    let files = RunFiles::default();
    let mut launch = (agent.launch)(&LaunchContext {
        prompt,
        options,
        env: &env,
        program: &found.path,
        prober: &prober,
        files: &files,
        os,
        run_id,
        attempt,
    })
    .await?;
    let (program, mut args) = match launch.program.take() {
        Some(native) => (native, Vec::new()),
        None => (command.program, command.args),
    };
    args.extend(prefix);
    args.append(&mut launch.args);
    env.set(RUN_ID, run_id);
    for (name, value) in launch.env.drain(..) {
        env.set(&name, &value);
    }
    command_line::check(&program, &args, &env, os)?;
    tracing::debug!(provider = agent.id, argv = ?crate::process::args::loggable(&args, &[]), "prepared");
    let plan = SpawnPlan { program, args, env, cwd: options.cwd.clone() };
    Ok(Prepared { plan, launch, files, version, program: found.path })
}

pub fn spawn(agent: &Agent, plan: &SpawnPlan) -> Result<Spawned, AgentplugError> {
    crate::process::spawn::spawn(plan).map_err(|e| {
        // The folder may have gone since the call was checked; the system reports that as "not found".
        if let Err(cwd) = check_cwd(&plan.cwd) {
            return cwd;
        }
        let code = match e.kind() {
            std::io::ErrorKind::ArgumentListTooLong => ErrorCode::PromptTooLong,
            _ => ErrorCode::SpawnFailed,
        };
        AgentplugError::new(
            code,
            format!(
                "{} could not be started from {}: {}",
                agent.name,
                plan.program.display(),
                exec_format::explain(&e, &plan.program)
            ),
        )
    })
}
