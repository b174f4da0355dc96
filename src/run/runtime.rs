//! The library's own tokio runtime.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Two threads parse for any number of runs. It lives as long as the process: a host environment (worker,
/// Electron window) may end while its runs are still being stopped, and the next one uses it again.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .thread_name("agentplug")
        .enable_all()
        .build()
        .expect("the operating system gives two threads")
});

pub fn handle() -> Handle {
    RUNTIME.handle().clone()
}
