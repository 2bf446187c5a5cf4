//! A schema as in its JSON. Named types are places in one list, so that a type may contain itself.

use arrow_schema::TimeUnit;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::error::SchemaError;

/// How deep the JSON of a schema may nest.
const DEEPEST: usize = 100;

#[derive(Debug, Clone)]
pub(crate) struct Schema {
    nodes: Vec<Node>,
    pub(crate) root: Place,
    /// From an alias of a named type to the type's name. Both are full names.
    pub(super) aliases: FxHashMap<String, String>,
}

/// Of a type in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) logical: Option<Logical>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// Names are full ones.
    Fixed {
        name: String,
        size: usize,
    },
    Enum {
        name: String,
        symbols: Vec<String>,
        default: Option<String>,
    },
    Record {
        name: String,
        fields: Vec<FieldOf>,
    },
    Array(Place),
    Map(Place),
    Union(Vec<Place>),
}

#[derive(Debug, Clone)]
pub(crate) struct FieldOf {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) place: Place,
    pub(crate) default: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    /// Of any precision: Connect writes 64 where it knows none.
    Decimal {
        precision: u32,
        scale: u32,
    },
    Date,
    Time(TimeUnit),
    /// In UTC, or local.
    Timestamp {
        unit: TimeUnit,
        is_local: bool,
    },
}

impl Node {
    /// The full name of a named type.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Fixed { name, .. } | Kind::Enum { name, .. } | Kind::Record { name, .. } => {
                Some(name)
            }
            _ => None,
        }
    }

    /// As an error names it.
    pub(crate) fn kind(&self) -> String {
        let kind = match &self.kind {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Int => "int",
            Kind::Long => "long",
            Kind::Float => "float",
            Kind::Double => "double",
            Kind::Bytes => "bytes",
            Kind::String => "string",
            Kind::Fixed { .. } => "fixed",
            Kind::Enum { .. } => "enum",
            Kind::Record { .. } => "record",
            Kind::Array(_) => "array",
            Kind::Map(_) => "map",
            Kind::Union(_) => "union",
        };
        match self.logical {
            Some(logical) => format!("{kind} ({})", logical.name()),
            None => kind.to_owned(),
        }
    }
}

impl Logical {
    /// As the specification writes it.
    pub(crate) fn name(self) -> String {
        let name = match self {
            Self::Decimal { precision, scale } => return format!("decimal({precision}, {scale})"),
            Self::Date => "date",
            Self::Time(TimeUnit::Millisecond) => "time-millis",
            Self::Time(_) => "time-micros",
            Self::Timestamp { unit, is_local } => {
                let unit = match unit {
                    TimeUnit::Second => "seconds",
                    TimeUnit::Millisecond => "millis",
                    TimeUnit::Microsecond => "micros",
                    TimeUnit::Nanosecond => "nanos",
                };
                let local = if is_local { "local-" } else { "" };
                return format!("{local}timestamp-{unit}");
            }
        };
        name.to_owned()
    }
}

impl Schema {
    /// Reads a schema; those of `references` are read before it, in this order, for the names that it uses.
    pub(crate) fn parse(text: &str, references: &[String]) -> Result<Self, SchemaError> {
        let mut parser = Parser::default();
        for reference in references {
            parser.text(reference)?;
        }
        let root = parser.text(text)?;
        let nodes = parser
            .nodes
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| SchemaError::new("a named type of the Avro schema has no end"))?;
        Ok(Self {
            nodes,
            root,
            aliases: parser.aliases,
        })
    }

    /// Whether it is a record, or a record and null: its fields are columns.
    pub(crate) fn is_record(&self, place: Place) -> bool {
        match &self.node(place).kind {
            Kind::Record { .. } => true,
            Kind::Union(branches) => {
                let mut types = branches
                    .iter()
                    .filter(|branch| !matches!(self.node(**branch).kind, Kind::Null));
                match (types.next(), types.next()) {
                    (Some(only), None) => self.is_record(*only),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Gives types the name of which theirs is an alias, as Avro's Java library does with the writer's schema.
    pub(super) fn rename(&mut self, aliases: &FxHashMap<String, String>) {
        if aliases.is_empty() {
            return;
        }
        for node in &mut self.nodes {
            if let Kind::Fixed { name, .. } | Kind::Enum { name, .. } | Kind::Record { name, .. } =
                &mut node.kind
                && let Some(renamed) = aliases.get(name)
            {
                name.clone_from(renamed);
            }
        }
    }

    pub(crate) fn node(&self, place: Place) -> &Node {
        const NULL: &Node = &Node {
            kind: Kind::Null,
            logical: None,
        };
        // Places are made by the parser, together with their nodes.
        self.nodes.get(place.0).unwrap_or(NULL)
    }
}

#[derive(Default)]
struct Parser {
    /// `None` while a named type is being read.
    nodes: Vec<Option<Node>>,
    /// By full name.
    names: FxHashMap<String, Place>,
    aliases: FxHashMap<String, String>,
}

impl Parser {
    fn text(&mut self, text: &str) -> Result<Place, SchemaError> {
        let parsed: Result<Value, _> = serde_json::from_str(text);
        match parsed {
            Ok(value) => self.schema(&value, "", 0),
            // The name of a primitive type may stand without quotes.
            Err(_) if primitive(text.trim()).is_some() => {
                self.schema(&Value::from(text.trim()), "", 0)
            }
            Err(error) => Err(SchemaError(format!("the Avro schema is not JSON: {error}"))),
        }
    }

    fn schema(
        &mut self,
        value: &Value,
        namespace: &str,
        depth: usize,
    ) -> Result<Place, SchemaError> {
        if depth > DEEPEST {
            return Err(SchemaError(format!(
                "the Avro schema nests more than {DEEPEST} levels"
            )));
        }
        match value {
            Value::String(name) => match primitive(name) {
                Some(kind) => Ok(self.add(kind, None)),
                None => self.known(name, namespace),
            },
            Value::Array(branches) => {
                let branches = branches
                    .iter()
                    .map(|branch| self.schema(branch, namespace, depth + 1))
                    .collect::<Result<Vec<_>, _>>()?;
                // Else the schema could be deeper than its records, arrays and maps are.
                if branches.iter().any(|branch| self.is_union(*branch)) {
                    return Err(SchemaError::new(
                        "a union of the Avro schema has a union among its types",
                    ));
                }
                Ok(self.add(Kind::Union(branches), None))
            }
            Value::Object(object) => self.object(object, namespace, depth),
            other => Err(SchemaError(format!("{other} is no Avro schema"))),
        }
    }

    fn object(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<Place, SchemaError> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(nested @ (Value::Object(_) | Value::Array(_))) => {
                return self.schema(nested, namespace, depth + 1);
            }
            _ => return Err(SchemaError::new("an Avro schema lacks its \"type\"")),
        };
        let part = |key: &str| {
            object.get(key).ok_or_else(|| {
                SchemaError(format!("an Avro schema of type {kind:?} lacks {key:?}"))
            })
        };
        match kind {
            "array" => {
                let items = self.schema(part("items")?, namespace, depth + 1)?;
                Ok(self.add(Kind::Array(items), None))
            }
            "map" => {
                let values = self.schema(part("values")?, namespace, depth + 1)?;
                Ok(self.add(Kind::Map(values), None))
            }
            "record" | "error" | "enum" | "fixed" => {
                let Value::String(name) = part("name")? else {
                    return Err(SchemaError::new("the name of an Avro type is not a string"));
                };
                let given = object.get("namespace").and_then(Value::as_str);
                let full = full_name(name, given.unwrap_or(namespace));
                let namespace = full
                    .rsplit_once('.')
                    .map_or("", |(namespace, _)| namespace)
                    .to_owned();
                let place = Place(self.nodes.len());
                self.nodes.push(None);
                if self.names.insert(full.clone(), place).is_some() {
                    return Err(SchemaError(format!(
                        "the Avro schema defines {full:?} twice"
                    )));
                }
                for alias in strings(object.get("aliases")) {
                    self.aliases
                        .insert(full_name(&alias, &namespace), full.clone());
                }
                let name = full.clone();
                let kind = match kind {
                    "enum" => Kind::Enum {
                        name,
                        symbols: strings(Some(part("symbols")?)),
                        default: object
                            .get("default")
                            .and_then(Value::as_str)
                            .map(str::to_owned),
                    },
                    "fixed" => {
                        let size = part("size")?
                            .as_u64()
                            .and_then(|size| i32::try_from(size).ok());
                        let size = size.ok_or_else(|| {
                            SchemaError(format!("the size of {full:?} is not a number of bytes"))
                        })?;
                        Kind::Fixed {
                            name,
                            size: size.unsigned_abs() as usize,
                        }
                    }
                    _ => {
                        let Value::Array(fields) = part("fields")? else {
                            return Err(SchemaError(format!(
                                "the fields of {full:?} are not a list"
                            )));
                        };
                        let fields = fields
                            .iter()
                            .map(|field| self.field(field, &full, &namespace, depth))
                            .collect::<Result<_, _>>()?;
                        Kind::Record { name, fields }
                    }
                };
                let logical = logical(object, &kind);
                if let Some(node) = self.nodes.get_mut(place.0) {
                    *node = Some(Node { kind, logical });
                }
                Ok(place)
            }
            name => match primitive(name) {
                Some(kind) => {
                    let logical = logical(object, &kind);
                    Ok(self.add(kind, logical))
                }
                None => self.known(name, namespace),
            },
        }
    }

    fn field(
        &mut self,
        field: &Value,
        record: &str,
        namespace: &str,
        depth: usize,
    ) -> Result<FieldOf, SchemaError> {
        let (Some(name), Some(schema)) =
            (field.get("name").and_then(Value::as_str), field.get("type"))
        else {
            return Err(SchemaError(format!(
                "a field of {record:?} lacks its name or type"
            )));
        };
        Ok(FieldOf {
            name: name.to_owned(),
            aliases: strings(field.get("aliases")),
            place: self.schema(schema, namespace, depth + 1)?,
            default: field.get("default").cloned(),
        })
    }

    fn is_union(&self, place: Place) -> bool {
        let node = self.nodes.get(place.0).and_then(Option::as_ref);
        node.is_some_and(|node| matches!(node.kind, Kind::Union(_)))
    }

    fn known(&self, name: &str, namespace: &str) -> Result<Place, SchemaError> {
        let found = self
            .names
            .get(&full_name(name, namespace))
            .or_else(|| self.names.get(name));
        found.copied().ok_or_else(|| {
            SchemaError(format!(
                "the Avro schema names the type {name:?} and does not define it"
            ))
        })
    }

    fn add(&mut self, kind: Kind, logical: Option<Logical>) -> Place {
        self.nodes.push(Some(Node { kind, logical }));
        Place(self.nodes.len() - 1)
    }
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

/// A logical type that fits what it stands on; the specification has others ignored.
fn logical(object: &Map<String, Value>, kind: &Kind) -> Option<Logical> {
    let name = object.get("logicalType")?.as_str()?;
    let timestamp = |unit, is_local| Some(Logical::Timestamp { unit, is_local });
    match (name, kind) {
        ("decimal", Kind::Bytes | Kind::Fixed { .. }) => {
            let number = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
            let precision = number(object.get("precision")?)?;
            let scale = object.get("scale").map_or(Some(0), number)?;
            (precision > 0 && scale <= precision).then_some(Logical::Decimal { precision, scale })
        }
        ("date", Kind::Int) => Some(Logical::Date),
        ("time-millis", Kind::Int) => Some(Logical::Time(TimeUnit::Millisecond)),
        ("time-micros", Kind::Long) => Some(Logical::Time(TimeUnit::Microsecond)),
        ("timestamp-millis", Kind::Long) => timestamp(TimeUnit::Millisecond, false),
        ("timestamp-micros", Kind::Long) => timestamp(TimeUnit::Microsecond, false),
        ("timestamp-nanos", Kind::Long) => timestamp(TimeUnit::Nanosecond, false),
        ("local-timestamp-millis", Kind::Long) => timestamp(TimeUnit::Millisecond, true),
        ("local-timestamp-micros", Kind::Long) => timestamp(TimeUnit::Microsecond, true),
        ("local-timestamp-nanos", Kind::Long) => timestamp(TimeUnit::Nanosecond, true),
        _ => None,
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

/// A name without its namespace.
pub(super) fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
