//! Structs, and the functions that measure, write and read them.

use super::code::{Code, Condition};
use crate::resolve::{Default, Field, Message, Struct, fixed_size, least_of};
use crate::schema::{Type, Versions};

/// The source of one message: what its module holds.
pub fn message(m: &Message) -> String {
    let mut c = Code::new();
    c.line("use crate::wire as w;");
    c.line("");
    for s in &m.structs {
        Emitter { message: m, s }.emit(&mut c);
    }
    let root = &m.name;
    c.line(&format!("impl w::Message for {root} {{"));
    c.line(&format!("const NAME: &'static str = \"{root}\";"));
    c.line(&format!(
        "const VERSIONS: w::Versions = w::Versions {{ min: {}, max: {} }};",
        m.versions.low, m.versions.high
    ));
    c.line(&format!(
        "const FLEXIBLE_FROM: Option<i16> = {};",
        flexible_from(m)
    ));
    c.line("fn measure(&self, version: i16, size: &mut w::Size) -> Result<(), w::EncodeError> {");
    c.line("self.measure_at(version, size)");
    c.line("}");
    c.line("fn write(&self, version: i16, out: &mut w::Writer) {");
    c.line("self.write_at(version, out);");
    c.line("}");
    c.line("fn read(version: i16, input: &mut w::Reader) -> Result<Self, w::DecodeError> {");
    c.line("let mut message = Self::default();");
    c.line("message.read_at(version, input)?;");
    c.line("Ok(message)");
    c.line("}");
    c.line("}");
    c.finish()
}

/// The first flexible version as an expression of `Option<i16>`.
pub(super) fn flexible_from(m: &Message) -> String {
    if m.flexible.is_empty() {
        "None".to_owned()
    } else {
        format!("Some({})", m.flexible.low)
    }
}

/// Is a version in `range`, when it is known to be in `reached`?
pub(super) fn condition(range: Versions, reached: Versions) -> Condition {
    let both = range.and(reached);
    if both.is_empty() {
        return Condition::Never;
    }
    match (both.low > reached.low, both.high < reached.high) {
        (false, false) => Condition::Always,
        (true, false) => Condition::If(format!("version >= {}", both.low)),
        (false, true) => Condition::If(format!("version <= {}", both.high)),
        (true, true) if both.low == both.high => Condition::If(format!("version == {}", both.low)),
        (true, true) => Condition::If(format!("({}..={}).contains(&version)", both.low, both.high)),
    }
}

/// A type of the protocol as a type of Rust.
fn rust_type(kind: &Type) -> String {
    match kind {
        Type::Bool => "bool".to_owned(),
        Type::Int { bits, signed } => format!("{}{bits}", if *signed { 'i' } else { 'u' }),
        Type::Float64 => "f64".to_owned(),
        Type::Uuid => "w::Uuid".to_owned(),
        Type::String => "w::Str".to_owned(),
        Type::Bytes | Type::Records => "w::Bytes".to_owned(),
        Type::Struct(name) => name.clone(),
        Type::Array(element) if is_int32(element) => "w::Ints".to_owned(),
        Type::Array(element) => format!("Vec<{}>", rust_type(element)),
    }
}

/// Arrays of int32 are read and written in one piece.
fn is_int32(kind: &Type) -> bool {
    *kind
        == Type::Int {
            bits: 32,
            signed: true,
        }
}

/// The value where nothing was written.
pub(super) fn default_value(field: &Field) -> String {
    literal(&field.default, field)
}

/// A value as the value of a field.
pub(super) fn literal(value: &Default, field: &Field) -> String {
    let plain = match (value, &field.kind) {
        (Default::Null, _) => return "None".to_owned(),
        (Default::True, _) => "true".to_owned(),
        (Default::Integer(n), _) => n.to_string(),
        (Default::Float(x), _) => format!("{x:?}"),
        (Default::Text(text), _) => format!("w::Str::from_static({text:?})"),
        (Default::Natural, Type::Bool) => "false".to_owned(),
        (Default::Natural, Type::Int { .. }) => "0".to_owned(),
        (Default::Natural, Type::Float64) => "0.0".to_owned(),
        (Default::Natural, Type::Uuid) => "w::Uuid::ZERO".to_owned(),
        (Default::Natural, Type::String) => "w::Str::new()".to_owned(),
        (Default::Natural, Type::Bytes | Type::Records) => "w::Bytes::new()".to_owned(),
        (Default::Natural, Type::Struct(name)) => format!("{name}::default()"),
        (Default::Natural, kind @ Type::Array(_)) => match rust_type(kind).as_str() {
            ints @ "w::Ints" => format!("{ints}::new()"),
            _ => "Vec::new()".to_owned(),
        },
    };
    if field.optional {
        format!("Some({plain})")
    } else {
        plain
    }
}

/// Is `#[derive(Default)]` right for the field?
fn derives(field: &Field) -> bool {
    match field.default {
        Default::Null => true,
        Default::Natural => !field.optional,
        Default::Integer(0) => true,
        _ => false,
    }
}

/// An expression that is true where `self.field` is not its default.
pub(super) fn differs(field: &Field) -> String {
    let name = &field.name;
    let empty = matches!(
        field.kind,
        Type::String | Type::Bytes | Type::Records | Type::Array(_)
    );
    match (&field.default, field.optional) {
        (Default::Null, _) => format!("self.{name}.is_some()"),
        (Default::Natural, false) if empty => format!("!self.{name}.is_empty()"),
        (Default::Natural, true) if empty => {
            format!("self.{name}.as_ref().is_none_or(|x| !x.is_empty())")
        }
        (Default::Natural, false) if field.kind == Type::Bool => format!("self.{name}"),
        (Default::True, _) => format!("!self.{name}"),
        _ => format!("self.{name} != {}", default_value(field)),
    }
}

/// What is read or written in one step.
enum Run<'a> {
    /// Two fields or more that are there in the same versions and always take the same bytes.
    Fixed(Vec<&'a Field>, Condition),
    /// Any other field.
    One(&'a Field),
}

struct Emitter<'a> {
    message: &'a Message,
    s: &'a Struct,
}

impl Emitter<'_> {
    fn emit(&self, c: &mut Code) {
        self.declaration(c);
        c.line(&format!("impl {} {{", self.s.name));
        self.measure(c);
        self.write(c);
        self.read(c);
        c.line("}");
        c.line("");
    }

    /// The versions that are flexible among those that reach the struct.
    fn flexible(&self) -> Condition {
        condition(self.message.flexible, self.s.versions)
    }

    fn has_tags(&self) -> bool {
        !self.message.flexible.is_empty()
    }

    /// `true`, `false` or the local that holds it: is the value of a field written compactly?
    fn compact(&self, field: &Field) -> &'static str {
        match self.flexible() {
            _ if !field.compact => "false",
            Condition::Never => "false",
            Condition::Always => "true",
            Condition::If(_) => "flexible",
        }
    }

    fn flexible_local(&self, c: &mut Code) {
        if let Condition::If(text) = self.flexible() {
            c.line(&format!("let flexible = {text};"));
        }
    }

    fn declaration(&self, c: &mut Code) {
        c.line(&format!(
            "/// `{}`, in versions {} of `{}`.",
            self.s.name, self.s.versions, self.message.name
        ));
        let derived = self.s.fields.iter().all(derives);
        c.line(&format!(
            "#[derive(Debug, Clone, PartialEq{})]",
            if derived { ", Default" } else { "" }
        ));
        c.line(&format!("pub struct {} {{", self.s.name));
        for field in &self.s.fields {
            let mut facts = format!("Versions {}", field.versions);
            if !field.nullable.is_empty() {
                facts += &format!(", null in {}", field.nullable);
            }
            if let Some((tag, versions)) = field.tag {
                facts += &format!(", tag {tag} in {versions}");
            }
            c.line(&format!("/// {facts}."));
            let kind = rust_type(&field.kind);
            let kind = if field.optional {
                format!("Option<{kind}>")
            } else {
                kind
            };
            c.line(&format!("pub {}: {kind},", field.name));
        }
        if self.has_tags() {
            c.line("/// Tagged fields that this crate does not know, kept as they came.");
            c.line("pub unknown_tagged_fields: w::UnknownTags,");
        }
        c.line("}");
        if !derived {
            c.line(&format!("impl Default for {} {{", self.s.name));
            c.line("fn default() -> Self {");
            c.line("Self {");
            for field in &self.s.fields {
                c.line(&format!("{}: {},", field.name, default_value(field)));
            }
            if self.has_tags() {
                c.line("unknown_tagged_fields: w::UnknownTags::new(),");
            }
            c.line("}");
            c.line("}");
            c.line("}");
        }
    }

    /// The tagged fields, by ascending tags.
    fn tagged(&self) -> Vec<(&Field, u32, Versions)> {
        let mut tagged: Vec<_> = self
            .s
            .fields
            .iter()
            .filter_map(|f| f.tag.map(|(tag, versions)| (f, tag, versions)))
            .collect();
        tagged.sort_by_key(|(_, tag, _)| *tag);
        tagged
    }

    /// The fields in their order; those of fixed sizes that follow each other in the same versions come together.
    fn runs(&self) -> Vec<Run<'_>> {
        let mut runs: Vec<Run<'_>> = Vec::new();
        for field in &self.s.fields {
            let here = condition(field.versions, self.s.versions);
            let fixed = fixed_size(&field.kind).is_some() && !field.optional && field.tag.is_none();
            match runs.last_mut() {
                Some(Run::Fixed(fields, same)) if fixed && *same == here => fields.push(field),
                _ if fixed && here != Condition::Never => {
                    runs.push(Run::Fixed(vec![field], here));
                }
                _ => runs.push(Run::One(field)),
            }
        }
        // One alone needs no group.
        for run in &mut runs {
            if let Run::Fixed(fields, _) = run
                && let [field] = fields[..]
            {
                *run = Run::One(field);
            }
        }
        runs
    }

    // ------------------------------------------------------------------------------------------------------- measure

    fn measure(&self, c: &mut Code) {
        let mut body = Code::new();
        // What every version takes at the least is added at once.
        let always: usize = self
            .s
            .fields
            .iter()
            .filter(|f| {
                f.tag.is_none() && condition(f.versions, self.s.versions) == Condition::Always
            })
            .filter_map(|f| fixed_size(&f.kind))
            .sum();
        if always > 0 {
            body.line(&format!("size.add({always});"));
        }
        for field in &self.s.fields {
            self.measure_field(&mut body, field);
        }
        self.measure_tags(&mut body);
        let body = body.finish();
        c.line(&format!(
            "fn measure_at(&self, {}: i16, {}: &mut w::Size) -> Result<(), w::EncodeError> {{",
            used("version", &body, self.flexible_is_used(&body)),
            used("size", &body, false)
        ));
        if self.flexible_is_used(&body) {
            self.flexible_local(c);
        }
        lines(c, &body);
        c.line("Ok(())");
        c.line("}");
    }

    fn flexible_is_used(&self, body: &str) -> bool {
        matches!(self.flexible(), Condition::If(_)) && body.contains("flexible")
    }

    fn measure_field(&self, c: &mut Code, field: &Field) {
        let here = condition(field.versions, self.s.versions);
        // What is always there and always the same is counted already; a tag may have been plain before it became one.
        let counted = here == Condition::Always && fixed_size(&field.kind).is_some();
        let plain = untagged_versions(field, field.tagged());
        let measured = !(counted && field.tag.is_none())
            && condition(plain, self.s.versions) != Condition::Never;
        let refused = !field.ignorable && here != Condition::Always;
        match condition(plain, self.s.versions) {
            Condition::If(text) if measured && refused && plain == field.versions => {
                c.line(&format!("if {text} {{"));
                self.measure_value(c, field, plain);
                c.line(&format!("}} else if {} {{", differs(field)));
                self.refuse(c, field);
                c.line("}");
                return;
            }
            plainly if measured => c.when(&plainly, |c| self.measure_value(c, field, plain)),
            _ => {}
        }
        if refused {
            let elsewhere = match here {
                Condition::If(text) => format!("!({text}) && {}", differs(field)),
                _ => differs(field),
            };
            c.when(&Condition::If(elsewhere), |c| self.refuse(c, field));
        }
    }

    /// The error for a value in a field that the version lacks.
    fn refuse(&self, c: &mut Code, field: &Field) {
        c.line(&format!(
            "return Err(w::not_in_version(\"{}\", version));",
            field.json
        ));
    }

    /// The size of a field that is not tagged, in the versions given.
    fn measure_value(&self, c: &mut Code, field: &Field, reached: Versions) {
        let name = &field.name;
        if !field.optional {
            return self.measure_plain(c, field, &format!("self.{name}"), "&");
        }
        c.line(&format!("match &self.{name} {{"));
        c.line("Some(value) => {");
        if matches!(field.kind, Type::Struct(_)) {
            c.when(&condition(field.nullable, reached), |c| {
                c.line("size.add(1);")
            });
        }
        self.measure_plain(c, field, "value", "");
        c.line("}");
        self.measure_null(c, field, &self.null_size(field), reached);
        c.line("}");
    }

    /// The arms for null: its size where it is allowed, an error elsewhere.
    fn measure_null(&self, c: &mut Code, field: &Field, size: &str, reached: Versions) {
        let refuse = format!(
            "None => return Err(w::null_in_version(\"{}\", version)),",
            field.json
        );
        match condition(field.nullable, reached) {
            Condition::Always => c.line(&format!("None => {size},")),
            Condition::Never => c.line(&refuse),
            Condition::If(text) => {
                c.line(&format!("None if {text} => {size},"));
                c.line(&refuse);
            }
        }
    }

    fn null_size(&self, field: &Field) -> String {
        let long = match &field.kind {
            Type::Struct(_) => return "size.add(1)".to_owned(),
            Type::String => 2,
            _ => 4,
        };
        match self.compact(field) {
            "true" => "size.add(1)".to_owned(),
            "false" => format!("size.add({long})"),
            _ => format!("size.add(if flexible {{ 1 }} else {{ {long} }})"),
        }
    }

    /// The size of a value that is there. `by` makes a reference of `value`.
    fn measure_plain(&self, c: &mut Code, field: &Field, value: &str, by: &str) {
        let compact = self.compact(field);
        let shown = &field.json;
        match &field.kind {
            Type::String => c.line(&format!(
                "w::measure_string({by}{value}, {compact}, size, \"{shown}\")?;"
            )),
            Type::Bytes | Type::Records => c.line(&format!(
                "w::measure_bytes({by}{value}, {compact}, size, \"{shown}\")?;"
            )),
            Type::Struct(_) => c.line(&format!(
                "w::within({value}.measure_at(version, size), \"{shown}\")?;"
            )),
            Type::Array(element) => {
                c.line(&format!(
                    "w::measure_count({value}.len(), {compact}, size, \"{shown}\")?;"
                ));
                match element.as_ref() {
                    Type::Struct(_) => {
                        c.line(&format!(
                            "for (i, element) in {value}.iter().enumerate() {{"
                        ));
                        c.line(&format!(
                            "w::within_element(element.measure_at(version, size), \"{shown}\", i)?;"
                        ));
                        c.line("}");
                    }
                    Type::String | Type::Bytes => {
                        let measure = if **element == Type::String {
                            "string"
                        } else {
                            "bytes"
                        };
                        c.line(&format!(
                            "for (i, element) in {value}.iter().enumerate() {{"
                        ));
                        c.line(&format!(
                            "w::within_element(w::measure_{measure}(element, {compact}, size, \"\"), \"{shown}\", i)?;"
                        ));
                        c.line("}");
                    }
                    fixed => c.line(&format!(
                        "size.add({value}.len() * {});",
                        fixed_size(fixed).unwrap_or(0)
                    )),
                }
            }
            fixed => c.line(&format!("size.add({});", fixed_size(fixed).unwrap_or(0))),
        }
    }

    fn measure_tags(&self, c: &mut Code) {
        if !self.has_tags() {
            return;
        }
        let known: Vec<String> = self
            .tagged()
            .iter()
            .map(|(_, tag, _)| tag.to_string())
            .collect();
        let refuse = "return Err(w::tags_in_version(version));";
        let unknown = "!self.unknown_tagged_fields.is_empty()";
        match self.flexible() {
            Condition::Always => self.measure_known_tags(c, &known),
            Condition::Never => {
                c.line(&format!("if {unknown} {{"));
                c.line(refuse);
                c.line("}");
            }
            Condition::If(_) => {
                c.line("if flexible {");
                self.measure_known_tags(c, &known);
                c.line(&format!("}} else if {unknown} {{"));
                c.line(refuse);
                c.line("}");
            }
        }
    }

    fn measure_known_tags(&self, c: &mut Code, known: &[String]) {
        if known.is_empty() {
            c.line("w::measure_tags(&self.unknown_tagged_fields, 0, size, &[])?;");
            return;
        }
        c.line("let mut tags = 0;");
        for (field, tag, versions) in self.tagged() {
            self.when_tagged(c, field, versions, |c| {
                c.line("tags += 1;");
                c.line("let before = size.total();");
                self.measure_tagged_value(c, field);
                c.line(&format!("w::measure_tag({tag}, before, size);"));
            });
        }
        c.line(&format!(
            "w::measure_tags(&self.unknown_tagged_fields, tags, size, &[{}])?;",
            known.join(", ")
        ));
    }

    /// Lines for where a tagged field is in the version and not its default.
    fn when_tagged(
        &self,
        c: &mut Code,
        field: &Field,
        versions: Versions,
        lines: impl FnOnce(&mut Code),
    ) {
        let differs = differs(field);
        let text = match condition(versions, self.message.flexible.and(self.s.versions)) {
            Condition::Always => differs,
            Condition::Never => return,
            Condition::If(text) => format!("{text} && {differs}"),
        };
        c.when(&Condition::If(text), lines);
    }

    /// The size of a tagged field's value. Only a nullable struct needs a varint of its own to mark
    /// null.
    fn measure_tagged_value(&self, c: &mut Code, field: &Field) {
        let name = &field.name;
        if !field.optional {
            return self.measure_plain(c, field, &format!("self.{name}"), "&");
        }
        c.line(&format!("match &self.{name} {{"));
        c.line("Some(value) => {");
        if matches!(field.kind, Type::Struct(_)) {
            c.when(&condition(field.nullable, field.tagged()), |c| {
                c.line("size.add(1);")
            });
        }
        self.measure_plain(c, field, "value", "");
        c.line("}");
        self.measure_null(c, field, "size.add(1)", field.tagged());
        c.line("}");
    }

    // --------------------------------------------------------------------------------------------------------- write

    fn write(&self, c: &mut Code) {
        let mut body = Code::new();
        for run in self.runs() {
            match run {
                Run::Fixed(fields, here) => body.when(&here, |c| write_group(c, &fields)),
                Run::One(field) => {
                    let plain = untagged_versions(field, field.tagged());
                    body.when(&condition(plain, self.s.versions), |c| {
                        self.write_value(c, field, plain)
                    });
                }
            }
        }
        if self.has_tags() {
            match self.flexible() {
                Condition::Never => {}
                Condition::Always => self.write_tags(&mut body),
                Condition::If(_) => {
                    body.line("if flexible {");
                    self.write_tags(&mut body);
                    body.line("}");
                }
            }
        }
        let body = body.finish();
        let flexible = matches!(self.flexible(), Condition::If(_)) && body.contains("flexible");
        c.line(&format!(
            "fn write_at(&self, {}: i16, {}: &mut w::Writer) {{",
            used("version", &body, flexible),
            used("out", &body, false)
        ));
        if flexible {
            self.flexible_local(c);
        }
        lines(c, &body);
        c.line("}");
    }

    fn write_value(&self, c: &mut Code, field: &Field, reached: Versions) {
        let name = &field.name;
        if !field.optional {
            return self.write_plain(c, field, &format!("self.{name}"), "&");
        }
        c.line(&format!("match &self.{name} {{"));
        c.line("Some(value) => {");
        if matches!(field.kind, Type::Struct(_)) {
            c.when(&condition(field.nullable, reached), |c| {
                c.line("out.i8(1);")
            });
        }
        self.write_plain(c, field, "value", "");
        c.line("}");
        c.line(&format!("None => {},", self.write_null(field)));
        c.line("}");
    }

    fn write_null(&self, field: &Field) -> String {
        let compact = self.compact(field);
        match &field.kind {
            Type::Struct(_) => "out.i8(-1)".to_owned(),
            Type::String => format!("out.null_string({compact})"),
            _ => format!("out.null_bytes({compact})"),
        }
    }

    fn write_plain(&self, c: &mut Code, field: &Field, value: &str, by: &str) {
        let compact = self.compact(field);
        // Plain values are copied out of the reference that an Option gives.
        let copied = if by.is_empty() {
            format!("*{value}")
        } else {
            value.to_owned()
        };
        match &field.kind {
            Type::Struct(_) => c.line(&format!("{value}.write_at(version, out);")),
            Type::Array(element) if is_int32(element) => {
                c.line(&format!("out.ints({by}{value}, {compact});"));
            }
            Type::Array(element) => {
                c.line(&format!("out.count({value}.len(), {compact});"));
                c.line(&format!("for element in {by}{value} {{"));
                match element.as_ref() {
                    Type::Struct(_) => c.line("element.write_at(version, out);"),
                    kind => c.line(&write_primitive(kind, "element", "*element", compact)),
                }
                c.line("}");
            }
            kind => c.line(&write_primitive(
                kind,
                &format!("{by}{value}"),
                &copied,
                compact,
            )),
        }
    }

    fn write_tags(&self, c: &mut Code) {
        let tagged = self.tagged();
        if tagged.is_empty() {
            c.line("out.tags(&self.unknown_tagged_fields);");
            return;
        }
        c.line("let mut tags = self.unknown_tagged_fields.len();");
        for (field, _, versions) in &tagged {
            self.when_tagged(c, field, *versions, |c| c.line("tags += 1;"));
        }
        c.line("out.tag_count(tags);");
        c.line("let mut unknown = self.unknown_tagged_fields.iter();");
        for (field, tag, versions) in &tagged {
            self.when_tagged(c, field, *versions, |c| {
                c.line(&format!("out.tags_below({tag}, &mut unknown);"));
                self.write_tagged_value(c, field, *tag);
            });
        }
        c.line("out.tags_below(u32::MAX, &mut unknown);");
    }

    fn write_tagged_value(&self, c: &mut Code, field: &Field, tag: u32) {
        let name = &field.name;
        if let Some(size) = fixed_size(&field.kind) {
            c.line(&format!("out.tag({tag}, {size});"));
            return self.write_plain(c, field, &format!("self.{name}"), "&");
        }
        // Measured already, with every check; here only the number is wanted.
        c.line("let size = w::measured(|size| {");
        self.measure_tagged_value(c, field);
        c.line("Ok(())");
        c.line("});");
        c.line(&format!("out.tag({tag}, size);"));
        if field.optional {
            c.line(&format!("match &self.{name} {{"));
            c.line("Some(value) => {");
            if matches!(field.kind, Type::Struct(_)) {
                c.when(&condition(field.nullable, field.tagged()), |c| {
                    c.line("out.tag_count(1);")
                });
            }
            self.write_plain(c, field, "value", "");
            c.line("}");
            c.line("None => out.tag_count(0),");
            c.line("}");
        } else {
            self.write_plain(c, field, &format!("self.{name}"), "&");
        }
    }

    // ---------------------------------------------------------------------------------------------------------- read

    /// Reading fills a fresh value in its place: what a version lacks is there already, and nothing large is moved.
    fn read(&self, c: &mut Code) {
        let mut body = Code::new();
        for run in self.runs() {
            match run {
                Run::Fixed(fields, here) => body.when(&here, |c| read_group(c, &fields)),
                Run::One(field) => {
                    let plain = untagged_versions(field, field.tagged());
                    body.when(&condition(plain, self.s.versions), |c| {
                        c.line(&self.read_statement(field, plain, false));
                    });
                }
            }
        }
        if self.has_tags() {
            body.when(&self.flexible_condition(), |c| self.read_tags(c));
        }
        let body = body.finish();
        let flexible = self.flexible_is_used(&body);
        c.line(&format!(
            "fn read_at(&mut self, {}: i16, {}: &mut w::Reader) -> Result<(), w::DecodeError> {{",
            used("version", &body, flexible),
            used("input", &body, false)
        ));
        if flexible {
            self.flexible_local(c);
        }
        lines(c, &body);
        c.line("Ok(())");
        c.line("}");
    }

    /// As [`Self::flexible`], where the local that holds it is there.
    fn flexible_condition(&self) -> Condition {
        match self.flexible() {
            Condition::If(_) => Condition::If("flexible".to_owned()),
            known => known,
        }
    }

    /// The statement that fills a field; `reached` are the versions that come here.
    fn read_statement(&self, field: &Field, reached: Versions, in_tag: bool) -> String {
        let (name, shown) = (&field.name, &field.json);
        let compact = if in_tag { "true" } else { self.compact(field) };
        let at = |read: &str| format!("w::at({read}, \"{shown}\")?");
        if let Type::Struct(inner) = &field.kind {
            if !field.optional {
                return at(&format!("self.{name}.read_at(version, input)")) + ";";
            }
            let fill = fill(inner);
            let plain = format!("Some({})", at(&format!("input.of({fill})")));
            let nullable = at(&format!("input.nullable_struct({in_tag}, {fill})"));
            return match condition(field.nullable, reached) {
                Condition::Always => format!("self.{name} = {nullable};"),
                Condition::Never => format!("self.{name} = {plain};"),
                Condition::If(text) => {
                    format!("self.{name} = if {text} {{ {nullable} }} else {{ {plain} }};")
                }
            };
        }
        // The method of the reader, and what it takes after the field's place.
        let (method, arguments) = match &field.kind {
            Type::String => ("string", compact.to_owned()),
            Type::Bytes | Type::Records => ("bytes", compact.to_owned()),
            Type::Array(element) if is_int32(element) => ("ints", compact.to_owned()),
            Type::Array(element) => (
                "array",
                format!(
                    "{compact}, {}, {}",
                    self.least_element(element, reached, compact),
                    fill_element(element, compact)
                ),
            ),
            kind => {
                let read = at(&format!("input.{}()", primitive(kind)));
                return format!("self.{name} = {read};");
            }
        };
        let plain = |slot: &str| at(&format!("input.{method}({slot}, {arguments})")) + ";";
        if !field.optional {
            return plain(&format!("&mut self.{name}"));
        }
        let plain = plain(&format!("self.{name}.get_or_insert_default()"));
        let nullable = at(&format!(
            "input.nullable_{method}(&mut self.{name}, {arguments})"
        )) + ";";
        match condition(field.nullable, reached) {
            Condition::Always => nullable,
            Condition::Never => plain,
            Condition::If(text) => format!("if {text} {{ {nullable} }} else {{ {plain} }}"),
        }
    }

    /// The fewest bytes of an array's element, as an expression.
    fn least_element(&self, element: &Type, reached: Versions, compact: &str) -> String {
        let (short, long) = (least_of(element, true), least_of(element, false));
        match (element, compact) {
            (Type::Struct(name), _) => self.least(name, reached),
            (_, "true") => short.to_string(),
            (_, "false") => long.to_string(),
            _ if short == long => short.to_string(),
            _ => format!("if flexible {{ {short} }} else {{ {long} }}"),
        }
    }

    /// The fewest bytes that a struct takes, in the versions that come here.
    fn least(&self, name: &str, reached: Versions) -> String {
        let Some(inner) = self.message.find(name) else {
            return "0".to_owned();
        };
        let ranges: Vec<_> = inner
            .least
            .iter()
            .filter(|(versions, _)| !versions.and(reached).is_empty())
            .collect();
        let mut text = String::new();
        for (i, (versions, least)) in ranges.iter().enumerate() {
            if i + 1 == ranges.len() {
                text += &least.to_string();
            } else {
                text += &format!("if version <= {} {{ {least} }} else {{ ", versions.high);
            }
        }
        text + &" }".repeat(ranges.len().saturating_sub(1))
    }

    fn read_tags(&self, c: &mut Code) {
        let tagged = self.tagged();
        if tagged.is_empty() {
            c.line("input.unknown_tags(&mut self.unknown_tagged_fields)?;");
            return;
        }
        c.line("if input.has_tags() {");
        c.line("let mut tags = input.tags()?;");
        c.line("while let Some(tag) = input.next_tag(&mut tags)? {");
        c.line("match tag {");
        for (field, tag, versions) in &tagged {
            let read = self.read_statement(field, *versions, true);
            let guard = match condition(*versions, self.message.flexible.and(self.s.versions)) {
                Condition::Always => String::new(),
                Condition::Never => continue,
                Condition::If(text) => format!(" if {text}"),
            };
            c.line(&format!("{tag}{guard} => {{"));
            c.line(&read);
            c.line("}");
        }
        let elsewhere: Vec<String> = tagged
            .iter()
            .filter(|(_, _, versions)| {
                condition(*versions, self.message.flexible.and(self.s.versions))
                    != Condition::Always
            })
            .map(|(_, tag, _)| tag.to_string())
            .collect();
        if !elsewhere.is_empty() {
            c.line(&format!(
                "{} => return Err(w::tag_not_in_version(tag, version)),",
                elsewhere.join(" | ")
            ));
        }
        c.line("_ => self.unknown_tagged_fields.push(tag, input.rest()),");
        c.line("}");
        c.line("input.end_tag(&mut tags)?;");
        c.line("}");
        c.line("}");
    }
}

/// The bytes that all fields of a group take.
fn group_size(fields: &[&Field]) -> usize {
    fields.iter().filter_map(|f| fixed_size(&f.kind)).sum()
}

/// The fields of a group with their places in it.
fn placed<'a>(fields: &'a [&Field]) -> impl Iterator<Item = (&'a Field, usize)> {
    let mut next = 0;
    fields.iter().map(move |field| {
        let at = next;
        next += fixed_size(&field.kind).unwrap_or(0);
        (*field, at)
    })
}

fn write_group(c: &mut Code, fields: &[&Field]) {
    c.line(&format!(
        "let mut group = out.group::<{}>();",
        group_size(fields)
    ));
    for (field, at) in placed(fields) {
        c.line(&format!(
            "group.{}::<{at}>(self.{});",
            primitive(&field.kind),
            field.name
        ));
    }
}

fn read_group(c: &mut Code, fields: &[&Field]) {
    let sizes: Vec<String> = fields
        .iter()
        .filter_map(|f| Some(format!("(\"{}\", {})", f.json, fixed_size(&f.kind)?)))
        .collect();
    c.line(&format!(
        "let group = input.group::<{}>(&[{}])?;",
        group_size(fields),
        sizes.join(", ")
    ));
    for (field, at) in placed(fields) {
        c.line(&format!(
            "self.{} = group.{}::<{at}>();",
            field.name,
            primitive(&field.kind)
        ));
    }
    c.line(&format!("input.skip({});", group_size(fields)));
}

/// A function that fills a fresh struct.
fn fill(name: &str) -> String {
    format!("|value: &mut {name}, input| value.read_at(version, input)")
}

/// A function that fills an element of an array.
fn fill_element(element: &Type, compact: &str) -> String {
    match element {
        Type::Struct(name) => fill(name),
        Type::String => format!("|value, input| input.string(value, {compact})"),
        Type::Bytes | Type::Records => format!("|value, input| input.bytes(value, {compact})"),
        kind => format!(
            "|value, input| {{ *value = input.{}()?; Ok(()) }}",
            primitive(kind)
        ),
    }
}

/// The name of the function that reads a primitive of fixed size.
fn primitive(kind: &Type) -> String {
    match kind {
        Type::Bool => "bool".to_owned(),
        Type::Int { bits, signed } => format!("{}{bits}", if *signed { 'i' } else { 'u' }),
        Type::Float64 => "f64".to_owned(),
        _ => "uuid".to_owned(),
    }
}

/// The versions in which a field is there and not among the tags.
fn untagged_versions(field: &Field, tagged: Versions) -> Versions {
    if tagged.is_empty() {
        field.versions
    } else if field.versions.low < tagged.low {
        Versions {
            low: field.versions.low,
            high: tagged.low - 1,
        }
    } else {
        Versions::NONE
    }
}

fn write_primitive(kind: &Type, reference: &str, value: &str, compact: &str) -> String {
    match kind {
        Type::String => format!("out.string({reference}, {compact});"),
        Type::Bytes | Type::Records => format!("out.bytes({reference}, {compact});"),
        kind => format!("out.{}({value});", primitive(kind)),
    }
}

/// The name of an argument, with an underscore before it where the body does without.
pub(super) fn used(name: &str, body: &str, anyway: bool) -> String {
    let word = |at: usize| {
        let before = body[..at].chars().next_back();
        let after = body[at + name.len()..].chars().next();
        let part = |c: Option<char>| {
            c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"' || c == '.')
        };
        !part(before) && !after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '"')
    };
    if anyway || body.match_indices(name).any(|(at, _)| word(at)) {
        name.to_owned()
    } else {
        format!("_{name}")
    }
}

pub(super) fn lines(c: &mut Code, body: &str) {
    for line in body.lines() {
        c.line(line.trim_start());
    }
}
