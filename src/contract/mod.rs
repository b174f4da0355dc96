//! What callers see: messages, results, failures, options, the provider table. No I/O.

pub mod duration;
pub mod error;
pub mod failure;
pub mod limits;
pub mod message;
pub mod options;
pub mod platform;
pub mod provider;
pub mod redact;
pub mod result;
pub mod utc;
pub mod version;

pub use error::{AgentplugError, ErrorCode};
pub use failure::{Failure, FailureKind};
pub use limits::Limit;
pub use message::{Message, RawJson};
pub use options::{ExecuteOptions, McpConfig};
pub use platform::Os;
pub use provider::{BlockedFlag, Capabilities, FlagShape};
pub use result::{ModelUsage, Outcome, RunResult, RunStatus, Usage};
