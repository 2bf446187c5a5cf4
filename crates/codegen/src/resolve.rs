//! Resolves schemas: it decides every name, default, nullability and version of each struct.
//!
//! It has the rules of Kafka's generator that its notation does not state: when a default is null, which structs a
//! version can reach, how few bytes an element can take. [`crate::emit`] writes the text.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::schema::{self, MessageType, SchemaError, Type, Versions};

/// A message with its structs, the root first.
#[derive(Debug)]
pub struct Message {
    /// Kafka's name.
    pub name: String,
    /// The name of its module.
    pub module: String,
    /// Its type.
    pub kind: MessageType,
    /// Its API key.
    pub api_key: Option<i16>,
    /// The versions there are.
    pub versions: Versions,
    /// Those with compact lengths and tags, within `versions`.
    pub flexible: Versions,
    /// Does a broker serve the last version only if it is configured to?
    pub unstable: bool,
    /// The listeners that serve it: `broker`, `controller`; before 4.0 also `zkBroker`.
    pub listeners: Vec<String>,
    /// The structs, the root first, each before those that it holds.
    pub structs: Vec<Struct>,
}

/// A struct.
#[derive(Debug)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// The versions of the message that can reach it.
    pub versions: Versions,
    /// Its fields, in the order of the wire.
    pub fields: Vec<Field>,
    /// The fewest bytes it can take, by ranges of versions that cover `versions`.
    pub least: Vec<(Versions, usize)>,
}

/// A field.
#[derive(Debug)]
pub struct Field {
    /// Its name in Rust.
    pub name: String,
    /// Its name in Kafka's schema.
    pub kafka: String,
    /// Its name in Kafka's JSON form.
    pub json: String,
    /// Its type.
    pub kind: Type,
    /// The versions that have it, among those that reach the struct.
    pub versions: Versions,
    /// Those in which it may be null.
    pub nullable: Versions,
    /// Can it be null in any version?
    pub optional: bool,
    /// Its tag, and the versions in which it is tagged.
    pub tag: Option<(u32, Versions)>,
    /// Is it written compactly in flexible versions?
    pub compact: bool,
    /// Is it ignorable: may it be dropped silently if a version lacks it?
    pub ignorable: bool,
    /// The value where nothing was written.
    pub default: Default,
    /// What the value is the name of.
    pub entity: Option<String>,
}

/// The value of a field where nothing was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Default {
    /// Null.
    Null,
    /// Zero, false, empty, or a struct of defaults: the default of the type.
    Natural,
    /// True.
    True,
    /// A number.
    Integer(i64),
    /// A float, as written.
    Float(f64),
    /// A text.
    Text(String),
}

impl Message {
    /// A struct by its name.
    pub fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|s| s.name == name)
    }
}

impl Field {
    /// The versions in which it stands among the tags.
    pub fn tagged(&self) -> Versions {
        self.tag.map_or(Versions::NONE, |(_, versions)| versions)
    }
}

/// Settles what every schema of a set means.
pub fn resolve(messages: &[schema::Message]) -> Result<Vec<Message>, SchemaError> {
    let mut names = HashSet::new();
    for message in messages {
        if !names.insert(snake(&message.name)) {
            return Err(wrong(&message.name, "two messages have this name"));
        }
    }
    messages.iter().map(message).collect()
}

/// Settles what one schema means.
pub fn message(written: &schema::Message) -> Result<Message, SchemaError> {
    let versions = written.valid_versions;
    if versions.is_empty() || versions.high == i16::MAX {
        return Err(wrong(&written.name, "its versions must be a closed range"));
    }
    if !written.flexible_versions.is_empty() && written.flexible_versions.high != i16::MAX {
        return Err(wrong(
            &written.name,
            "its flexible versions must be open-ended",
        ));
    }
    let scope = Scope {
        message: written,
        declared: declarations(written)?,
    };
    let mut reached = Vec::new();
    scope.reach(&written.name, versions, &mut reached)?;
    let mut message = Message {
        name: written.name.clone(),
        module: snake(&written.name),
        kind: written.kind,
        api_key: written.api_key,
        versions,
        flexible: written.flexible_versions.and(versions),
        unstable: written.latest_version_unstable,
        listeners: written.listeners.clone(),
        structs: reached
            .iter()
            .map(|(name, versions)| scope.resolve(name, *versions))
            .collect::<Result<_, _>>()?,
    };
    let least: Vec<_> = message
        .structs
        .iter()
        .map(|s| least_ranges(&message, s))
        .collect();
    for (s, least) in message.structs.iter_mut().zip(least) {
        s.least = least;
    }
    Ok(message)
}

/// A struct as it is declared: its fields, and for a common struct the versions in which it may be used.
type Declared<'a> = (&'a [schema::Field], Option<Versions>);

/// Every struct that a message declares, the root included, by name.
fn declarations(message: &schema::Message) -> Result<HashMap<&str, Declared<'_>>, SchemaError> {
    let mut declared: HashMap<&str, Declared<'_>> = HashMap::new();
    let mut open: Vec<(&str, Declared<'_>)> = vec![(&message.name, (&message.fields, None))];
    open.extend(
        message
            .common_structs
            .iter()
            .map(|c| (c.name.as_str(), (c.fields.as_slice(), Some(c.versions)))),
    );
    while let Some((name, (fields, only))) = open.pop() {
        if declared.insert(name, (fields, only)).is_some() {
            return Err(wrong(
                &message.name,
                &format!("the struct {name} is declared twice; commonStructs is for that"),
            ));
        }
        for field in fields {
            if let (Some(inner), Some(own)) = (struct_name(&field.kind), &field.fields) {
                open.push((inner, (own, None)));
            }
        }
    }
    Ok(declared)
}

/// A message and the structs that its fields may name.
struct Scope<'a> {
    message: &'a schema::Message,
    declared: HashMap<&'a str, Declared<'a>>,
}

impl<'a> Scope<'a> {
    /// Notes the versions in which a struct is used, and those of the structs in it; each struct before what it holds.
    fn reach(
        &self,
        name: &'a str,
        versions: Versions,
        reached: &mut Vec<(&'a str, Versions)>,
    ) -> Result<(), SchemaError> {
        let Some((fields, _)) = self.declared.get(name) else {
            return Err(self.wrong(name, "this struct is not declared"));
        };
        match reached.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = known.hull(versions),
            None => reached.push((name, versions)),
        }
        for field in *fields {
            let used = field.versions.and(versions);
            if let Some(inner) = struct_name(&field.kind) {
                self.reach(inner, used, reached)?;
            }
        }
        Ok(())
    }

    fn resolve(&self, name: &str, versions: Versions) -> Result<Struct, SchemaError> {
        let Some((fields, only)) = self.declared.get(name) else {
            return Err(self.wrong(name, "this struct is not declared"));
        };
        self.check_tags(name, fields)?;
        if only.is_some_and(|only| only.and(versions) != versions) {
            return Err(self.wrong(name, "this struct is used in versions that it is not for"));
        }
        Ok(Struct {
            name: name.to_owned(),
            versions,
            fields: fields
                .iter()
                .map(|f| self.field(f, versions))
                .collect::<Result<_, _>>()?,
            least: Vec::new(),
        })
    }

    fn field(&self, field: &schema::Field, reached: Versions) -> Result<Field, SchemaError> {
        let versions = field.versions.and(reached);
        let nullable = field.nullable_versions.and(versions);
        let optional = !field.nullable_versions.is_empty();
        if optional && !can_be_null(&field.kind) {
            return Err(self.wrong(&field.name, "its type cannot be null"));
        }
        let tag = match (field.tag, field.tagged_versions.and(versions)) {
            (None, tagged) if tagged.is_empty() => None,
            (Some(tag), tagged) if !tagged.is_empty() => Some((tag, tagged)),
            (Some(_), _) if versions.is_empty() => None,
            _ => return Err(self.wrong(&field.name, "tag and taggedVersions go together")),
        };
        if let Some((_, tagged)) = tag
            && tagged.and(self.message.flexible_versions) != tagged
        {
            return Err(self.wrong(&field.name, "it is tagged in versions without tags"));
        }
        let default = self.default(field, optional)?;
        if default == Default::Null
            && field.nullable_versions.and(versions) != versions
            && field.kind != Type::Records
        {
            return Err(self.wrong(
                &field.name,
                "its default is null, so it must be nullable in all its versions",
            ));
        }
        Ok(Field {
            name: rust_name(&field.name),
            kafka: field.name.clone(),
            json: small_first(&field.name),
            kind: field.kind.clone(),
            versions,
            nullable,
            optional,
            tag,
            compact: field.flexible_versions.is_none_or(|v| !v.is_empty()),
            ignorable: field.ignorable,
            default,
            entity: field.entity_type.clone(),
        })
    }

    fn default(&self, field: &schema::Field, optional: bool) -> Result<Default, SchemaError> {
        // Kafka's generated classes begin with null records.
        let natural = match field.kind {
            Type::Records if optional => Some(Default::Null),
            _ => value(&field.kind, field.default.as_ref(), optional),
        };
        natural.ok_or_else(|| self.wrong(&field.name, "its default does not fit its type"))
    }

    /// Tags count from 0 without a gap within a struct.
    fn check_tags(&self, name: &str, fields: &[schema::Field]) -> Result<(), SchemaError> {
        let mut tags: Vec<u32> = fields.iter().filter_map(|f| f.tag).collect();
        tags.sort_unstable();
        if tags.iter().zip(0..).all(|(tag, expected)| *tag == expected) {
            Ok(())
        } else {
            Err(self.wrong(name, "its tags must count from 0 without a gap"))
        }
    }

    fn wrong(&self, part: &str, reason: &str) -> SchemaError {
        wrong(&format!("{}.{part}", self.message.name), reason)
    }
}

/// A value as it is written, where it fits the type; nothing written is the natural one.
pub fn value(kind: &Type, written: Option<&Value>, optional: bool) -> Option<Default> {
    match (kind, written) {
        (_, None) => Some(Default::Natural),
        (_, Some(Value::Null)) if optional => Some(Default::Null),
        (Type::Bool, Some(Value::Bool(true))) => Some(Default::True),
        (Type::Int { bits, signed }, Some(value)) => value
            .as_i64()
            .filter(|n| fits(*n, *bits, *signed))
            .map(Default::Integer),
        (Type::Float64, Some(value)) => value.as_f64().map(Default::Float),
        (Type::String, Some(Value::String(text))) => Some(Default::Text(text.clone())),
        (Type::Bytes | Type::Records, Some(Value::String(text))) if text.is_empty() => {
            Some(Default::Natural)
        }
        _ => None,
    }
}

fn wrong(message: &str, reason: &str) -> SchemaError {
    SchemaError::Meaning {
        message: message.to_owned(),
        reason: reason.to_owned(),
    }
}

fn fits(value: i64, bits: u8, signed: bool) -> bool {
    match (bits, signed) {
        (64, _) => true,
        (bits, true) => (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value),
        (bits, false) => (0..1i64 << bits).contains(&value),
    }
}

fn can_be_null(kind: &Type) -> bool {
    matches!(
        kind,
        Type::String | Type::Bytes | Type::Records | Type::Struct(_) | Type::Array(_)
    )
}

/// The struct that a type is, or is an array of.
pub fn struct_name(kind: &Type) -> Option<&str> {
    match kind {
        Type::Struct(name) => Some(name),
        Type::Array(element) => struct_name(element),
        _ => None,
    }
}

/// How many bytes a type takes, where it always takes the same.
pub fn fixed_size(kind: &Type) -> Option<usize> {
    match kind {
        Type::Bool => Some(1),
        Type::Int { bits, .. } => Some(usize::from(bits / 8)),
        Type::Float64 => Some(8),
        Type::Uuid => Some(16),
        _ => None,
    }
}

fn least_ranges(message: &Message, s: &Struct) -> Vec<(Versions, usize)> {
    let mut ranges: Vec<(Versions, usize)> = Vec::new();
    for version in s.versions.low..=s.versions.high {
        let least = least_of_struct(message, s, version);
        match ranges.last_mut() {
            Some((range, same)) if *same == least => range.high = version,
            _ => ranges.push((
                Versions {
                    low: version,
                    high: version,
                },
                least,
            )),
        }
    }
    ranges
}

fn least_of_struct(message: &Message, s: &Struct, version: i16) -> usize {
    let flexible = message.flexible.contains(version);
    let fields = s
        .fields
        .iter()
        .filter(|f| f.versions.contains(version) && !f.tagged().contains(version));
    let sum: usize = fields
        .map(|field| match &field.kind {
            Type::Struct(_) if field.nullable.contains(version) => 1,
            Type::Struct(name) => message
                .find(name)
                .map_or(0, |inner| least_of_struct(message, inner, version)),
            kind => least_of(kind, flexible && field.compact),
        })
        .sum();
    sum + usize::from(flexible)
}

/// The fewest bytes that a value of a type other than a struct can take.
pub fn least_of(kind: &Type, compact: bool) -> usize {
    match kind {
        _ if compact && fixed_size(kind).is_none() => 1,
        Type::String => 2,
        Type::Bytes | Type::Records | Type::Array(_) => 4,
        kind => fixed_size(kind).unwrap_or(0),
    }
}

/// `MaxWaitMs` to `max_wait_ms`, `isKRaftController` to `is_k_raft_controller`.
pub fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 4);
    for (i, &letter) in letters.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| letters.get(i));
        let after = letters.get(i + 1);
        let follows_small = before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let ends_run = before.is_some_and(char::is_ascii_uppercase)
            && after.is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && (follows_small || ends_run) {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn rust_name(name: &str) -> String {
    let name = snake(name);
    match name.as_str() {
        "type" | "match" | "ref" | "use" | "mod" | "move" | "where" | "enum" | "struct"
        | "trait" | "impl" | "fn" => format!("r#{name}"),
        _ => name,
    }
}

fn small_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_ascii_lowercase().to_string() + letters.as_str()
    })
}
