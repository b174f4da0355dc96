//! Versions and detection.

pub mod version;
