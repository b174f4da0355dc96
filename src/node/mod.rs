//! The only place that knows Node: exports, options out of JavaScript values, batches of messages back.
//!
//! Everything here is internal to the JavaScript shim; the public types are in `types` and `header.d.ts`.
//! Every export runs under `catch_unwind`: a panic in a plain one would abort the host process.

mod detect;
mod encode;
mod logger;
mod options;
mod run;
mod tools;
mod types;
