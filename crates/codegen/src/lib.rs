//! Generates Rust source from schemas: [`schema`] parses them, [`resolve`] applies the rules, [`refusal`] plans error
//! responses, and [`emit`] writes the text.
//!
//! `protocol/build.rs` calls [`generate`]; `cargo run -p ottla-codegen -- show FetchRequest` prints the result.

pub mod emit;
pub mod refusal;
pub mod resolve;
pub mod schema;

use std::path::Path;

pub use schema::SchemaError;

/// The generated sources, each to be included in a module of `ottla-protocol`.
#[derive(Debug)]
pub struct Sources {
    /// One module per message, and the enum of API keys.
    pub messages: String,
    /// The constants of the error codes, with names and retriability.
    pub errors: String,
    /// The walk over every message's fields, for all forms.
    pub forms: String,
    /// The kinds of records in internal topics.
    pub internal: String,
    /// The error response of each request.
    pub refusals: String,
}

/// Reads the schemas of a folder and writes the Rust source of all of them.
pub fn generate(schemas: &Path) -> Result<Sources, SchemaError> {
    let messages = resolve::resolve(&schema::load(schemas)?)?;
    let refusals = schema::load_refusals(schemas)?;
    Ok(Sources {
        messages: emit::messages(&messages),
        errors: emit::errors(&schema::load_errors(schemas)?),
        forms: emit::forms(&messages),
        internal: emit::internal(&messages)?,
        refusals: emit::refusals(&refusal::plans(&messages, &refusals)?),
    })
}
