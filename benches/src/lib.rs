//! Rust benches.
