//! JSON to columns: one walk over the text, without a tree in between.
//!
//! A token becomes what Spark's `from_json` makes of it; docs/guides/decoding.md has the rules, and in what they differ from Spark's.

mod cursor;
mod fill;
mod infer;
mod schema;

pub(crate) use fill::{check, object};
pub(crate) use infer::infer;
pub(crate) use schema::fields;
