//! Builds the codecs of every message from the schemas.

use std::path::Path;
use std::{env, fs};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let schemas = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../schemas");
    println!("cargo::rerun-if-changed={}", schemas.display());
    let sources = ottla_codegen::generate(&schemas)?;
    let out = env::var("OUT_DIR")?;
    for (name, text) in [
        ("messages", sources.messages),
        ("errors", sources.errors),
        ("json", sources.json),
    ] {
        fs::write(Path::new(&out).join(name).with_extension("rs"), text)?;
    }
    Ok(())
}
