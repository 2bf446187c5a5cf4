//! Kafka's JSON form of every struct, as its JsonConverter classes have it.

use super::code::{Code, Condition};
use super::codec::{condition, default_value, differs};
use crate::resolve::{Message, Struct};

/// The JSON form of every message, and the way from a name to its type.
pub fn json(messages: &[Message]) -> String {
    let mut c = Code::new();
    for m in messages {
        for s in &m.structs {
            conversions(&mut c, m, s);
        }
    }
    c.line("/// Calls a visitor with the message type of this name; `None` where there is none.");
    c.line("pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {");
    c.line("Some(match name {");
    for m in messages {
        c.line(&format!(
            "\"{0}\" => visitor.visit::<messages::{0}>(),",
            m.name
        ));
    }
    c.line("_ => return None,");
    c.line("})");
    c.line("}");
    c.line("/// The names of all messages, in order.");
    let names: Vec<String> = messages.iter().map(|m| format!("\"{}\"", m.name)).collect();
    c.line(&format!(
        "pub const NAMES: &[&str] = &[{}];",
        names.join(", ")
    ));
    c.finish()
}

fn conversions(c: &mut Code, m: &Message, s: &Struct) {
    let has_tags = !m.flexible.is_empty();
    c.line("const _: () = {");
    c.line(&format!("use messages::{}::*;", m.module));
    c.line(&format!("impl Json for {} {{", s.name));

    c.line("fn to_json(&self, version: i16) -> Value {");
    c.line("let mut object = Map::new();");
    for field in &s.fields {
        let put = format!(
            "object.insert(\"{}\".to_owned(), self.{}.to_json(version));",
            field.json, field.name
        );
        c.when(&condition(field.versions, s.versions), |c| {
            let present = match condition(field.tagged(), field.versions) {
                Condition::Never => Condition::Always,
                Condition::Always => Condition::If(differs(field)),
                Condition::If(tagged) => {
                    Condition::If(format!("!({tagged}) || {}", differs(field)))
                }
            };
            c.when(&present, |c| c.line(&put));
        });
    }
    if has_tags {
        c.line("unknown_to_json(&self.unknown_tagged_fields, &mut object);");
    }
    c.line("Value::Object(object)");
    c.line("}");

    c.line("fn from_json(value: &Value, version: i16) -> Result<Self, JsonError> {");
    c.line("let object = object(value)?;");
    c.line("Ok(Self {");
    for field in &s.fields {
        let needed = match (
            condition(field.versions, s.versions),
            condition(field.tagged(), field.versions),
        ) {
            (Condition::Never, _) | (_, Condition::Always) => "false".to_owned(),
            (Condition::Always, Condition::Never) => "true".to_owned(),
            (Condition::If(here), Condition::Never) => here,
            (Condition::Always, Condition::If(tagged)) => format!("!({tagged})"),
            (Condition::If(here), Condition::If(tagged)) => format!("{here} && !({tagged})"),
        };
        let default = default_value(field);
        c.line(&format!(
            "{}: field(object, \"{}\", version, {needed}, || {default})?,",
            field.name, field.json
        ));
    }
    if has_tags {
        c.line("unknown_tagged_fields: unknown_from_json(object)?,");
    }
    c.line("})");
    c.line("}");
    c.line("}");
    c.line("};");
}
