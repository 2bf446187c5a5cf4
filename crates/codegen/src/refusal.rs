//! Plans the error response of every request: which fields of the response it fills, and with what.
//!
//! The schemas decide nearly all of it. The plan sets every error code, message and throttle time of the response. If a struct
//! has no error code itself, the elements of its arrays have one: the plan finds the array of the request that names the same
//! things, and adds one element per requested one, with its name, partition or id. `schemas/refusals.json` has the cases where
//! Kafka differs, each with a reason; the oracle is Kafka's `AbstractRequest.getErrorResponse`.

use std::cell::Cell;

use crate::resolve::{Default, Field, Message, Struct, struct_name, value};
use crate::schema::{MessageType, RefusalRow, SchemaError, Type, Versions};

/// The error response of one request.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The request.
    pub request: &'a Message,
    /// Its response.
    pub response: &'a Message,
    /// The fields to set in the response.
    pub steps: Vec<Step<'a>>,
}

/// A field of the response to set, in some versions.
#[derive(Debug)]
pub struct Step<'a> {
    /// The field.
    pub field: &'a Field,
    /// The versions in which it has this value.
    pub versions: Versions,
    /// The value.
    pub value: FieldValue<'a>,
}

/// The value of a field in an error response.
#[derive(Debug)]
pub enum FieldValue<'a> {
    /// The error code.
    Code,
    /// The error message.
    Message,
    /// The throttle time.
    Throttle,
    /// A value of `refusals.json`.
    Value(Default),
    /// A value of the request.
    Request(RequestValue<'a>),
    /// One element per requested one, on each of these ways.
    Each(Vec<(Way<'a>, Vec<Step<'a>>)>),
}

/// A value of the request: of a struct on the way, or the element of an array of plain values itself.
#[derive(Debug, Clone, Copy)]
pub struct RequestValue<'a> {
    /// The number of arrays around it.
    pub depth: usize,
    /// The field; `None` for the element itself.
    pub field: Option<&'a Field>,
}

/// Arrays of the request, each inside the one before it.
pub type Way<'a> = Vec<&'a Field>;

/// The plans of all requests that have a response.
pub fn plans<'a>(
    messages: &'a [Message],
    rows: &'a [RefusalRow],
) -> Result<Vec<Plan<'a>>, SchemaError> {
    let rows: Vec<Row> = rows.iter().map(Row::new).collect();
    let mut plans = Vec::new();
    for request in messages {
        let Some(api) = request.name.strip_suffix("Request") else {
            continue;
        };
        let name = format!("{api}Response");
        let response = messages.iter().find(|m| m.name == name);
        let (MessageType::Request, Some(response)) = (request.kind, response) else {
            continue;
        };
        let planner = Planner {
            request,
            response,
            rows: &rows,
        };
        let (Some(root), Some(asked)) =
            (response.find(&response.name), request.find(&request.name))
        else {
            continue;
        };
        let scope = [Level::Struct(asked)];
        plans.push(Plan {
            request,
            response,
            steps: planner.steps(root, &scope, request.versions, &response.name)?,
        });
    }
    match rows.iter().find(|row| !row.used.get()) {
        Some(row) => Err(row.wrong("no response has this field in these versions")),
        None => Ok(plans),
    }
}

/// A row of `refusals.json`, and whether a plan used it.
struct Row<'a> {
    written: &'a RefusalRow,
    used: Cell<bool>,
}

impl<'a> Row<'a> {
    fn new(written: &'a RefusalRow) -> Self {
        Self {
            written,
            used: Cell::new(false),
        }
    }

    fn wrong(&self, reason: &str) -> SchemaError {
        SchemaError::Meaning {
            message: format!("refusals.json, {}", self.written.at),
            reason: reason.to_owned(),
        }
    }
}

/// One level of the request: the request itself, then the element of each array on the way.
#[derive(Debug, Clone, Copy)]
enum Level<'a> {
    Struct(&'a Struct),
    /// An element of this array of plain values.
    Plain(&'a Field),
}

/// The value of a field in one version.
#[derive(Debug, Clone, PartialEq)]
enum Choice {
    Nothing,
    Code,
    Message,
    Throttle,
    Value(Default),
    Asked(usize, Option<String>),
    Each(Vec<Vec<String>>),
}

struct Planner<'a, 'r> {
    request: &'a Message,
    response: &'a Message,
    rows: &'r [Row<'r>],
}

impl<'a> Planner<'a, '_> {
    /// What is set in a struct of the response, in the versions given. `path` is where it stands, in Kafka's names.
    fn steps(
        &self,
        s: &'a Struct,
        scope: &[Level<'a>],
        versions: Versions,
        path: &str,
    ) -> Result<Vec<Step<'a>>, SchemaError> {
        let mut steps = Vec::new();
        for field in &s.fields {
            let path = format!("{path}.{}", field.kafka);
            let here = field.versions.and(versions);
            let mut runs: Vec<(Versions, Choice)> = Vec::new();
            for version in here.low..=here.high {
                let choice = self.choice(s, field, scope, version, &path)?;
                match runs.last_mut() {
                    Some((run, same)) if *same == choice => run.high = version,
                    _ => runs.push((
                        Versions {
                            low: version,
                            high: version,
                        },
                        choice,
                    )),
                }
            }
            for (versions, choice) in runs {
                if let Some(value) = self.value(field, choice, scope, versions, &path)? {
                    steps.push(Step {
                        field,
                        versions,
                        value,
                    });
                }
            }
        }
        Ok(steps)
    }

    /// A choice with what it names looked up, and what stands inside it.
    fn value(
        &self,
        field: &'a Field,
        choice: Choice,
        scope: &[Level<'a>],
        versions: Versions,
        path: &str,
    ) -> Result<Option<FieldValue<'a>>, SchemaError> {
        Ok(Some(match choice {
            Choice::Nothing => return Ok(None),
            Choice::Code => FieldValue::Code,
            Choice::Message => FieldValue::Message,
            Choice::Throttle => FieldValue::Throttle,
            Choice::Value(value) => FieldValue::Value(value),
            Choice::Asked(depth, name) => FieldValue::Request(RequestValue {
                depth,
                field: match (scope.get(depth), name) {
                    (Some(Level::Struct(s)), Some(name)) => {
                        s.fields.iter().find(|f| f.kafka == name)
                    }
                    _ => None,
                },
            }),
            Choice::Each(ways) => {
                let Some(element) = struct_name(&field.kind).and_then(|n| self.response.find(n))
                else {
                    return Ok(None);
                };
                let mut each = Vec::new();
                for names in ways {
                    let (mut way, mut inner) = (Way::new(), scope.to_vec());
                    for name in &names {
                        let Some(array) = innermost(&inner)
                            .and_then(|s| s.fields.iter().find(|f| f.kafka == *name))
                        else {
                            break;
                        };
                        way.push(array);
                        inner.push(self.element(array));
                    }
                    let steps = self.steps(element, &inner, versions, path)?;
                    each.push((way, steps));
                }
                FieldValue::Each(each)
            }
        }))
    }

    /// What a field of the response is set to in a version.
    fn choice(
        &self,
        s: &Struct,
        field: &Field,
        scope: &[Level<'a>],
        version: i16,
        path: &str,
    ) -> Result<Choice, SchemaError> {
        let row = self.row(path, version);
        let is_root = scope.len() == 1;
        if let Some((row, written)) = row.and_then(|row| Some((row, row.written.value.as_ref()?))) {
            let value = value(&field.kind, Some(written), field.optional);
            return value
                .map(Choice::Value)
                .ok_or_else(|| row.wrong("this value does not fit the field's type"));
        }
        if let Type::Array(_) = field.kind {
            return self.array(s, field, scope, version, row);
        }
        let aliases = row
            .and_then(|row| row.written.from.as_deref())
            .unwrap_or_default();
        Ok(if is_code(field) {
            Choice::Code
        } else if is_message(field) {
            Choice::Message
        } else if is_root && field.kafka == "ThrottleTimeMs" {
            Choice::Throttle
        } else if !aliases.is_empty() || (!is_root && field.default == Default::Natural) {
            self.asked(s, field, aliases, scope, version)
                .map_or(Choice::Nothing, |(depth, name)| Choice::Asked(depth, name))
        } else {
            Choice::Nothing
        })
    }

    /// What an array of the response is set to: nothing, or elements for those of the request.
    fn array(
        &self,
        s: &Struct,
        field: &Field,
        scope: &[Level<'a>],
        version: i16,
        row: Option<&Row<'_>>,
    ) -> Result<Choice, SchemaError> {
        let (Some(element), Some(asked)) = (
            struct_name(&field.kind).and_then(|name| self.response.find(name)),
            innermost(scope),
        ) else {
            return Ok(Choice::Nothing);
        };
        if let Some((row, names)) = row.and_then(|row| Some((row, row.written.from.as_ref()?))) {
            if names
                .iter()
                .all(|name| asked.fields.iter().any(|f| f.kafka == *name))
            {
                return Ok(Choice::Each(
                    names.iter().map(|name| vec![name.clone()]).collect(),
                ));
            }
            return Err(row.wrong("the request has no such array here"));
        }
        let wanted = match row.and_then(|row| row.written.fill) {
            Some(fill) => fill,
            None => {
                let has_code = live(s, version).any(is_code);
                (!has_code && self.carries_code(element, version))
                    || self.is_name(field, element, asked, version)
            }
        };
        let way = self.way(element, asked, version).filter(|_| wanted);
        Ok(way.map_or(Choice::Nothing, |way| {
            Choice::Each(vec![way.iter().map(|f| f.kafka.clone()).collect()])
        }))
    }

    /// Does an array, as a whole, name what was asked about? One of the request has its name and all its plain fields.
    fn is_name(&self, field: &Field, element: &Struct, asked: &Struct, version: i16) -> bool {
        let inner = live(asked, version)
            .find(|f| f.kafka == field.kafka)
            .and_then(|f| self.request.find(struct_name(&f.kind)?));
        inner.is_some_and(|inner| {
            live(element, version).all(|f| {
                !is_code(f)
                    && struct_name(&f.kind).is_none()
                    && live(inner, version).any(|g| g.kafka == f.kafka && g.kind == f.kind)
            })
        })
    }

    /// Does a struct, or one inside it, have an error code?
    fn carries_code(&self, s: &Struct, version: i16) -> bool {
        live(s, version).any(|field| {
            is_code(field)
                || struct_name(&field.kind)
                    .and_then(|name| self.response.find(name))
                    .is_some_and(|inner| self.carries_code(inner, version))
        })
    }

    /// The arrays of the request, the outermost first, whose elements match an element of the
    /// response: those that fill most of its names, then the nearest. Where none fills any, the
    /// only array that there is.
    fn way(&self, element: &Struct, asked: &'a Struct, version: i16) -> Option<Way<'a>> {
        let mut ways = Vec::new();
        self.ways(asked, version, &Way::new(), &mut ways);
        let names = |way: &Way<'a>| {
            let levels: Vec<Level<'a>> = way.iter().map(|array| self.element(array)).collect();
            live(element, version)
                .filter(|f| self.asked(element, f, &[], &levels, version).is_some())
                .count()
        };
        let best = ways
            .iter()
            .rev() // Of equals the last is taken, which is to be the first.
            .map(|way| (names(way), way))
            .filter(|(names, _)| *names > 0)
            .max_by_key(|(names, way)| (*names, std::cmp::Reverse(way.len())));
        match (
            best,
            ways.iter()
                .filter(|way| way.len() == 1)
                .collect::<Vec<_>>()
                .as_slice(),
        ) {
            (Some((_, way)), _) => Some(way.clone()),
            (None, [only]) => Some((*only).clone()),
            _ => None,
        }
    }

    fn ways(&self, asked: &'a Struct, version: i16, before: &Way<'a>, out: &mut Vec<Way<'a>>) {
        for field in live(asked, version) {
            if let Type::Array(_) = field.kind {
                let mut way = before.clone();
                way.push(field);
                out.push(way.clone());
                if let Level::Struct(inner) = self.element(field) {
                    self.ways(inner, version, &way, out);
                }
            }
        }
    }

    fn element(&self, array: &'a Field) -> Level<'a> {
        match struct_name(&array.kind).and_then(|name| self.request.find(name)) {
            Some(inner) => Level::Struct(inner),
            None => Level::Plain(array),
        }
    }

    /// Where the request has the value for a plain field of the response: the level, and the field
    /// there.
    fn asked(
        &self,
        s: &Struct,
        field: &Field,
        aliases: &[String],
        scope: &[Level<'a>],
        version: i16,
    ) -> Option<(usize, Option<String>)> {
        if struct_name(&field.kind).is_some()
            || matches!(field.kind, Type::Array(_))
            || is_code(field)
            || is_message(field)
        {
            return None;
        }
        scope
            .iter()
            .enumerate()
            .rev()
            .find_map(|(depth, level)| match level {
                Level::Plain(array) => {
                    // The first field that such a value fits is its name.
                    let fits = |f: &&Field| {
                        matches!(&array.kind, Type::Array(kind) if **kind == f.kind)
                            && (array.entity.is_none()
                                || f.entity.is_none()
                                || array.entity == f.entity)
                    };
                    let first = live(s, version)
                        .filter(|f| !is_code(f) && !is_message(f))
                        .find(fits)?;
                    (first.kafka == field.kafka).then_some((depth, None))
                }
                Level::Struct(asked) => {
                    let alike = || live(asked, version).filter(|f| f.kind == field.kind);
                    let called = |f: &&Field| {
                        stem(&f.kafka) == stem(&field.kafka) || aliases.contains(&f.kafka)
                    };
                    let names = |f: &&Field| field.entity.is_some() && f.entity == field.entity;
                    let found = alike().find(called).or_else(|| alike().find(names))?;
                    Some((depth, Some(found.kafka.clone())))
                }
            })
    }

    fn row(&self, path: &str, version: i16) -> Option<&Row<'_>> {
        let row = self
            .rows
            .iter()
            .find(|row| row.written.at == path && row.written.versions.contains(version))?;
        row.used.set(true);
        Some(row)
    }
}

fn innermost<'a>(scope: &[Level<'a>]) -> Option<&'a Struct> {
    match scope.last() {
        Some(Level::Struct(s)) => Some(s),
        _ => None,
    }
}

/// The fields that a version has.
fn live(s: &Struct, version: i16) -> impl Iterator<Item = &Field> {
    s.fields
        .iter()
        .filter(move |f| f.versions.contains(version))
}

/// Is the field where an error code stands? A tagged code (`TopicConfigErrorCode`) is about something else.
fn is_code(field: &Field) -> bool {
    let int16 = Type::Int {
        bits: 16,
        signed: true,
    };
    field.kind == int16 && field.tag.is_none() && field.kafka.ends_with("ErrorCode")
}

/// Is the field where something is said about the error?
fn is_message(field: &Field) -> bool {
    field.kafka == "ErrorMessage" && field.kind == Type::String
}

/// A name without what only some messages add to it: `Partition` and `PartitionIndex` are one.
fn stem(name: &str) -> &str {
    match name.strip_suffix("Index") {
        Some(stem) if !stem.is_empty() => stem,
        _ => name,
    }
}
