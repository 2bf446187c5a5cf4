//! Prints generated source: `cargo run -p ottla-codegen -- show FetchRequest`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use ottla_codegen::{emit, resolve, schema};

const USAGE: &str =
    "usage: ottla-codegen show MESSAGE        prints the Rust source of a message, as FetchRequest
       ottla-codegen list                names every message with its versions";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<String, String> {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    let messages = schema::load(&schemas)
        .and_then(|s| resolve::resolve(&s))
        .map_err(|e| e.to_string())?;
    match arguments {
        ["show", name] => match messages.iter().find(|m| m.name == *name) {
            Some(message) => Ok(emit::message(message)),
            None => Err(format!("no message {name}; `list` names them all")),
        },
        ["list"] => Ok(messages
            .iter()
            .map(|m| format!("{} {}\n", m.name, m.versions))
            .collect()),
        _ => Err(USAGE.to_owned()),
    }
}
