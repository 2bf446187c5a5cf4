//! The walk over every struct's fields, for all forms: Kafka's JSON, and Python's objects.
//!
//! `show` and `fill` use only the traits of `protocol/src/form`, so that one version of each serves all forms.

use super::code::{Code, Condition};
use super::codec::{condition, differs};
use crate::resolve::{Field, Message, Struct};

/// Both ways through every message, the names of all fields, and the way from a message's name to its type.
pub fn forms(messages: &[Message]) -> String {
    let mut c = Code::new();
    let names = Names::of(messages);
    c.line("/// The name of every field, in order; a [`super::Name`] is a place here.");
    c.line(&format!(
        "pub(super) const FIELDS: &[&str] = &{:?};",
        names.0
    ));
    for m in messages {
        for s in &m.structs {
            walks(&mut c, &names, m, s);
        }
    }
    let mut sorted: Vec<&str> = messages.iter().map(|m| m.name.as_str()).collect();
    sorted.sort_unstable();
    c.line("/// The names of all messages, in order.");
    c.line(&format!("pub const NAMES: &[&str] = &{sorted:?};"));
    c.line("/// Every message, in the order of the names.");
    c.line("pub static MESSAGES: &[f::MessageKind] = &[");
    for name in &sorted {
        c.line(&format!("f::MessageKind::of::<messages::{name}>(),"));
    }
    c.line("];");
    c.line("/// Calls a visitor with the message type of this name; `None` for an unknown name.");
    c.line("pub fn visit<V: f::Visitor>(name: &str, visitor: V) -> Option<V::Output> {");
    c.line("Some(match name {");
    for name in &sorted {
        c.line(&format!(
            "\"{name}\" => visitor.visit::<messages::{name}>(),"
        ));
    }
    c.line("_ => return None,");
    c.line("})");
    c.line("}");
    c.finish()
}

/// The names of all fields, each once, in order.
struct Names<'a>(Vec<&'a str>);

impl<'a> Names<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let structs = messages.iter().flat_map(|m| &m.structs);
        let mut names: Vec<&str> = structs
            .flat_map(|s| &s.fields)
            .map(|f| f.json.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    /// A field's name as an expression.
    fn place(&self, field: &Field) -> String {
        let at = self.0.partition_point(|name| *name < field.json.as_str());
        format!("f::Name({at} /* {} */)", field.json)
    }
}

fn walks(c: &mut Code, names: &Names<'_>, m: &Message, s: &Struct) {
    let has_tags = !m.flexible.is_empty();
    c.line("const _: () = {");
    c.line(&format!("use messages::{}::*;", m.module));
    c.line(&format!("impl f::Form for {} {{", s.name));

    c.line("fn show(&self, version: i16, out: &mut dyn f::Sink) {");
    c.line("out.begin_object();");
    for field in &s.fields {
        c.when(&condition(field.versions, s.versions), |c| {
            c.when(&shown(field), |c| {
                c.line(&format!("out.name({});", names.place(field)));
                c.line(&format!(
                    "f::Form::show(&self.{}, version, out);",
                    field.name
                ));
            });
        });
    }
    if has_tags {
        c.line("f::show_unknown(&self.unknown_tagged_fields, out);");
    }
    c.line("out.end_object();");
    c.line("}");

    c.line(
        "fn fill(&mut self, version: i16, from: &dyn f::FormValue) -> Result<(), f::FormError> {",
    );
    c.line("let mut fields = f::Fields::of(from, version);");
    for field in &s.fields {
        c.line(&format!(
            "fields.take({}, {}, &mut self.{});",
            names.place(field),
            needed(field, s),
            field.name
        ));
    }
    if has_tags {
        c.line("fields.take_unknown(&mut self.unknown_tagged_fields);");
    }
    let known: Vec<String> = s.fields.iter().map(|f| names.place(f)).collect();
    c.line(&format!("fields.end(&[{}])", known.join(", ")));
    c.line("}");
    c.line("}");
    c.line("};");
}

/// Where a field that the version has is shown: a tagged one with its default may be left out.
fn shown(field: &Field) -> Condition {
    let differs = format!("out.shows_defaults() || {}", differs(field));
    match condition(field.tagged(), field.versions) {
        Condition::Never => Condition::Always,
        Condition::Always => Condition::If(differs),
        Condition::If(tagged) => Condition::If(format!("!({tagged}) || {differs}")),
    }
}

/// Whether a form that leaves nothing out must have the field.
fn needed(field: &Field, s: &Struct) -> String {
    match (
        condition(field.versions, s.versions),
        condition(field.tagged(), field.versions),
    ) {
        (Condition::Never, _) | (_, Condition::Always) => "false".to_owned(),
        (Condition::Always, Condition::Never) => "true".to_owned(),
        (Condition::If(here), Condition::Never) => here,
        (Condition::Always, Condition::If(tagged)) => format!("!({tagged})"),
        (Condition::If(here), Condition::If(tagged)) => format!("{here} && !({tagged})"),
    }
}
