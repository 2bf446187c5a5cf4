//! Rust source from resolved messages.
//!
//! A struct gets three functions for all its versions: `measure` (the exact size, and every check that can fail),
//! `write` (which cannot fail) and `read`. They compare the version directly, and leave out a comparison that has the same
//! result for every version of the struct. They call the primitives of `protocol/src/wire`.

mod code;
mod codec;
mod form;
mod internal;
mod refusal;

use std::fmt::Write;

use crate::resolve::Message;
use crate::schema::{ErrorCode, MessageType};

pub use codec::message;
pub use form::forms;
pub use internal::internal;
pub use refusal::refusals;

use code::Code;

/// Every message in a module of its name, the enum of API keys, and the pairs of requests and responses.
pub fn messages(messages: &[Message]) -> String {
    let mut out = String::new();
    for m in messages {
        let _ = write!(
            out,
            "/// `{}`, versions {}.\npub mod {} {{\n{}}}\n",
            m.name,
            m.versions,
            m.module,
            message(m)
        );
    }
    for m in messages {
        let _ = writeln!(out, "pub use {}::{};", m.module, m.name);
    }
    out.push('\n');
    out + &api_keys(messages)
}

/// The enum of API keys with its methods, and the traits that connect a request with its response.
fn api_keys(messages: &[Message]) -> String {
    let mut requests: Vec<(i16, &str, &Message)> = messages
        .iter()
        .filter(|m| m.kind == MessageType::Request)
        .filter_map(|m| Some((m.api_key?, m.name.strip_suffix("Request")?, m)))
        .collect();
    requests.sort_by_key(|(key, ..)| *key);
    let mut c = Code::new();
    c.line("/// The APIs of the protocol, by their keys.");
    c.line("#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]");
    c.line("#[repr(i16)]");
    c.line("#[non_exhaustive]");
    c.line("pub enum ApiKey {");
    for (key, name, m) in &requests {
        c.line(&format!("/// Key {key}, versions {}.", m.versions));
        c.line(&format!("{name} = {key},"));
    }
    c.line("}");
    c.line("impl ApiKey {");
    c.line("/// Every API, in the order of the keys.");
    let all: Vec<String> = requests
        .iter()
        .map(|(_, name, _)| format!("Self::{name}"))
        .collect();
    c.line(&format!(
        "pub const ALL: &'static [Self] = &[{}];",
        all.join(", ")
    ));
    c.line("/// The API of a key; `None` for a key that is unknown here.");
    c.line("pub const fn from_i16(key: i16) -> Option<Self> {");
    c.line("match key {");
    for (key, name, _) in &requests {
        c.line(&format!("{key} => Some(Self::{name}),"));
    }
    c.line("_ => None,");
    c.line("}");
    c.line("}");
    c.line("/// Kafka's name of the API.");
    c.line("pub const fn name(self) -> &'static str {");
    c.line("match self {");
    for (_, name, _) in &requests {
        c.line(&format!("Self::{name} => \"{name}\","));
    }
    c.line("}");
    c.line("}");
    c.line("/// Every version that this crate speaks.");
    c.line("pub const fn versions(self) -> w::Versions {");
    c.line("match self {");
    for (_, name, m) in &requests {
        c.line(&format!(
            "Self::{name} => w::Versions {{ min: {}, max: {} }},",
            m.versions.low, m.versions.high
        ));
    }
    c.line("}");
    c.line("}");
    c.line("/// Whether brokers serve the last version only if they are configured to.");
    c.line("pub const fn latest_version_unstable(self) -> bool {");
    let unstable: Vec<String> = requests
        .iter()
        .filter(|(.., m)| m.unstable)
        .map(|(_, name, _)| format!("Self::{name}"))
        .collect();
    let pattern = if unstable.is_empty() {
        "false".to_owned()
    } else {
        format!("matches!(self, {})", unstable.join(" | "))
    };
    c.line(&pattern);
    c.line("}");
    c.line("/// The listeners that serve it: `broker`, `controller`, `zkBroker` before 4.0; empty where Kafka has removed the API.");
    c.line("pub const fn listeners(self) -> &'static [&'static str] {");
    c.line("match self {");
    for (_, name, m) in &requests {
        c.line(&format!("Self::{name} => &{:?},", m.listeners));
    }
    c.line("}");
    c.line("}");
    c.line("/// The first version with compact lengths and tags.");
    c.line("pub const fn flexible_from(self) -> Option<i16> {");
    c.line("match self {");
    for (_, name, m) in &requests {
        c.line(&format!("Self::{name} => {},", codec::flexible_from(m)));
    }
    c.line("}");
    c.line("}");
    c.line("}");
    for (_, name, m) in &requests {
        let response = format!("{name}Response");
        if messages.iter().any(|m| m.name == response) {
            c.line(&format!("impl w::Request for {} {{", m.name));
            c.line(&format!("const KEY: ApiKey = ApiKey::{name};"));
            c.line(&format!("type Response = {response};"));
            c.line("}");
            c.line(&format!("impl w::Response for {response} {{"));
            c.line(&format!("const KEY: ApiKey = ApiKey::{name};"));
            c.line("}");
        }
    }
    c.finish()
}

/// The constants of the error codes, their names, and which are retriable.
pub fn errors(errors: &[ErrorCode]) -> String {
    let mut c = Code::new();
    c.line("impl ErrorCode {");
    for e in errors {
        let retriable = if e.retriable { ", retriable" } else { "" };
        c.line(&format!("/// Code {}{retriable}.", e.code));
        c.line(&format!("pub const {}: Self = Self({});", e.name, e.code));
    }
    let all: Vec<String> = errors.iter().map(|e| format!("Self::{}", e.name)).collect();
    c.line("/// Every code that is known here, ascending.");
    c.line(&format!("pub const ALL: &[Self] = &[{}];", all.join(", ")));
    c.line("}");
    c.line("const fn name_of(code: i16) -> Option<&'static str> {");
    c.line("Some(match code {");
    for e in errors {
        c.line(&format!("{} => \"{}\",", e.code, e.name));
    }
    c.line("_ => return None,");
    c.line("})");
    c.line("}");
    c.line("const fn retriable(code: i16) -> bool {");
    let codes: Vec<String> = errors
        .iter()
        .filter(|e| e.retriable)
        .map(|e| e.code.to_string())
        .collect();
    c.line(&format!("matches!(code, {})", codes.join(" | ")));
    c.line("}");
    c.finish()
}
