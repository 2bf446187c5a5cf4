//! Builds the codecs of every message from the schemas.

use std::path::Path;
use std::{env, fs};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let schemas = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../schemas");
    // The folders of schemas and the error table; the importer and its page next to them change
    // nothing here.
    for entry in fs::read_dir(&schemas)? {
        let path = entry?.path();
        if path.is_dir() || path.extension().is_some_and(|e| e == "json") {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let sources = ottla_codegen::generate(&schemas)?;
    let out = env::var("OUT_DIR")?;
    for (name, text) in [
        ("messages", sources.messages),
        ("errors", sources.errors),
        ("forms", sources.forms),
        ("internal", sources.internal),
        ("refusals", sources.refusals),
    ] {
        fs::write(Path::new(&out).join(name).with_extension("rs"), text)?;
    }
    Ok(())
}
