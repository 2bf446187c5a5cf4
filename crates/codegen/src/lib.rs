//! From schemas to Rust source: schema, merge, resolve, emit.
