//! A child process and its tree: find the executable, plan the command line, environment, spawn, stderr
//! tail, stop. Knows no CLI by name.

pub mod args;
pub mod env;
pub mod files;
pub mod probe;
pub mod stderr;
