//! tracing events -> a JavaScript callback.

use std::fmt::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Mutex, Once};

use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Result, Status};
use napi_derive::napi;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

type Callback = ThreadsafeFunction<
    FnArgs<(String, String)>,
    (),
    FnArgs<(String, String)>,
    Status,
    false,
    true,
    LOG_QUEUE,
>;

/// Log lines waiting for the event loop; beyond it they are dropped, since logs must never hold up a run.
const LOG_QUEUE: usize = 4096;

struct Sink {
    environment: u64,
    level: Level,
    callback: Callback,
}

static SINKS: LazyLock<Mutex<Vec<Sink>>> = LazyLock::new(Mutex::default);
/// The most verbose level any sink wants, as a rank; 0 = no sink.
static WANTED: AtomicU8 = AtomicU8::new(0);

fn rank(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Sets or (level `off`) removes the callback of an environment. `false` = no such level.
#[napi(skip_typescript, catch_unwind)]
pub fn set_logger(
    env: Env,
    environment: f64,
    level: String,
    callback: Option<Function<FnArgs<(String, String)>, ()>>,
) -> Result<bool> {
    let environment = environment as u64;
    let sink = match (level.as_str(), callback) {
        ("off", _) | (_, None) => None,
        ("error" | "warn" | "info" | "debug" | "trace", Some(callback)) => Some(Sink {
            environment,
            level: level.parse().expect("one of the five"),
            callback: callback
                .build_threadsafe_function()
                .callee_handled::<false>()
                .weak::<true>()
                .max_queue_size::<LOG_QUEUE>()
                .build()?,
        }),
        _ => return Ok(false),
    };
    if sink.is_some() {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            // An error means that somebody linked us as a crate and has a subscriber of their own.
            let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Forward));
        });
        env.add_env_cleanup_hook(environment, |id| replace(id, None))?;
    }
    replace(environment, sink);
    Ok(true)
}

fn replace(environment: u64, sink: Option<Sink>) {
    let mut sinks = SINKS.lock().unwrap_or_else(|e| e.into_inner());
    sinks.retain(|s| s.environment != environment);
    sinks.extend(sink);
    WANTED.store(sinks.iter().map(|s| rank(&s.level)).max().unwrap_or(0), Ordering::Relaxed);
    drop(sinks);
    tracing::callsite::rebuild_interest_cache();
}

struct Forward;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Forward {
    fn register_callsite(
        &self,
        metadata: &'static tracing::Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        if rank(metadata.level()) <= WANTED.load(Ordering::Relaxed)
            && metadata.target().starts_with("agentplug")
        {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = event.metadata().level();
        let mut line = Line::default();
        event.record(&mut line);
        let text = crate::contract::redact::redact_here(&line.finish());
        for sink in SINKS.lock().unwrap_or_else(|e| e.into_inner()).iter().filter(|s| *level <= s.level) {
            let name = level.as_str().to_ascii_lowercase();
            // QueueFull and Closing both mean that nobody can take it now.
            let _: Status =
                sink.callback.call((name, text.clone()).into(), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

/// `message key=value …`
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn finish(self) -> String {
        self.message + &self.fields
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = if field.name() == "message" {
            write!(self.message, "{value}")
        } else {
            write!(self.fields, " {}={value}", field.name())
        };
    }
}
