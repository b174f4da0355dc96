//! One plug for every coding-agent CLI. Modules depend downwards only:
//! node -> run, catalog -> agents -> wire, process -> contract.

pub mod agents;
pub mod contract;
pub mod process;
pub mod run;
pub mod wire;
