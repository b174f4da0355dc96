//! One run from start to Result.
