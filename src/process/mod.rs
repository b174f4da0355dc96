//! A child process and its tree: find the executable, plan the command line, environment, spawn, stderr
//! tail, stop. Knows no CLI by name.

pub mod args;
pub mod batch;
pub mod capture;
pub mod command_line;
pub mod env;
pub mod exec_format;
pub mod files;
pub mod find;
pub mod login_shell;
pub mod probe;
pub mod shim;
pub mod spawn;
pub mod stderr;
pub mod tree;
