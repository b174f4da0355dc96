//! One plug for every coding-agent CLI. Modules depend downwards only:
//! node -> run, catalog -> agents -> wire, process -> contract.

pub mod agents;
pub mod catalog;
pub mod contract;
// The macros leave their exports out of test builds, where everything in here would count as unused.
#[cfg(not(test))]
mod node;
pub mod process;
pub mod run;
pub mod wire;
