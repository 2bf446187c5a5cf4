//! What a value is read as: the reader's schema as columns, with what only Avro knows about them.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Fields, TimeUnit};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::schema::{FieldOf, Kind, Logical, Place, Schema};
use crate::column::{self, Budget, Column, Values};
use crate::error::{Bad, Filled, SchemaError};
use crate::{number, time};

/// How deep a schema nests: types that are named, one by the next, take no depth in its text.
const DEEPEST: usize = 100;

/// The column of a value that is not a record.
const VALUE: &str = "value";

#[derive(Debug, Clone)]
pub(crate) struct Avro {
    pub(super) root: Target,
    /// The root is the only column, and not the struct of all columns.
    pub(super) is_one_column: bool,
    /// From an alias of a named type to its name.
    pub(super) aliases: FxHashMap<String, String>,
}

#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) data_type: DataType,
    pub(super) is_nullable: bool,
    pub(super) shape: Shape,
    /// The full one of a named Avro type.
    pub(super) name: Option<String>,
    /// Of the reader's schema, if that is Avro's.
    pub(super) logical: Option<Logical>,
}

#[derive(Debug, Clone)]
pub(super) enum Shape {
    Plain,
    Enum {
        symbols: Vec<String>,
        default: Option<String>,
    },
    /// Of this many bytes, by the reader's schema.
    Fixed(usize),
    Record(Vec<TargetField>),
    List(Box<Target>),
    Map(Box<Target>),
    /// Members of a union, each a field of a struct.
    Union(Vec<Target>),
}

#[derive(Debug, Clone)]
pub(super) struct TargetField {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) default: Option<Literal>,
    pub(super) target: Target,
}

/// A default, as the column takes it.
#[derive(Debug, Clone)]
pub(super) enum Literal {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Decimal(i128),
    Bytes(Vec<u8>),
    Struct(Vec<Literal>),
    List(Vec<Literal>),
    Map(Vec<(String, Literal)>),
}

impl Avro {
    /// The columns of a reader's schema, or those of them that are selected. All are nullable: a record may have no value.
    pub(crate) fn of_schema(
        schema: &Schema,
        select: Option<&[String]>,
    ) -> Result<(Fields, Self), SchemaError> {
        let targets = Targets {
            schema,
            select,
            budget: Budget::default(),
        };
        let root = targets.of(schema.root, &mut Vec::new(), 0)?;
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        match (&root.data_type, &root.shape) {
            (DataType::Struct(fields), Shape::Record(_)) => {
                let fields = fields.iter().map(nullable).collect();
                Ok((
                    fields,
                    Self {
                        root,
                        is_one_column: false,
                        aliases: schema.aliases.clone(),
                    },
                ))
            }
            _ => {
                let field = Field::new(VALUE, root.data_type.clone(), true);
                Ok((
                    Fields::from(vec![field]),
                    Self {
                        root,
                        is_one_column: true,
                        aliases: schema.aliases.clone(),
                    },
                ))
            }
        }
    }

    /// Columns that were given: a value has to be a record, and what it lacks is null.
    pub(crate) fn of_fields(fields: &Fields) -> Self {
        let root = Target::of_type(&DataType::Struct(fields.clone()), false);
        Self {
            root,
            is_one_column: false,
            aliases: FxHashMap::default(),
        }
    }

    /// Only the columns at these places, in this order; `fields` are what is left of them.
    pub(crate) fn select(&mut self, places: &[usize], fields: &Fields) {
        if let Shape::Record(all) = &self.root.shape {
            let left = places.iter().filter_map(|place| all.get(*place).cloned());
            self.root.shape = Shape::Record(left.collect());
            self.root.data_type = DataType::Struct(fields.clone());
        }
    }
}

impl Target {
    fn of_type(data_type: &DataType, is_nullable: bool) -> Self {
        let of_field = |field: &Arc<Field>| Self::of_type(field.data_type(), field.is_nullable());
        let shape = match data_type {
            DataType::Struct(fields) => Shape::Record(
                fields
                    .iter()
                    .map(|field| TargetField {
                        name: field.name().clone(),
                        aliases: Vec::new(),
                        default: field.is_nullable().then_some(Literal::Null),
                        target: of_field(field),
                    })
                    .collect(),
            ),
            DataType::List(item) | DataType::LargeList(item) => {
                Shape::List(Box::new(of_field(item)))
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(entry) if entry.len() == 2 => {
                    Shape::Map(Box::new(entry.last().map_or_else(Self::null, of_field)))
                }
                _ => Shape::Plain,
            },
            _ => Shape::Plain,
        };
        Self {
            data_type: data_type.clone(),
            is_nullable,
            shape,
            name: None,
            logical: None,
        }
    }

    fn null() -> Self {
        Self::plain(DataType::Null)
    }

    fn plain(data_type: DataType) -> Self {
        Self {
            is_nullable: data_type == DataType::Null,
            data_type,
            shape: Shape::Plain,
            name: None,
            logical: None,
        }
    }

    fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type.clone(), self.is_nullable)
    }
}

struct Targets<'a> {
    schema: &'a Schema,
    /// Of the record that is the root.
    select: Option<&'a [String]>,
    budget: Budget,
}

impl Targets<'_> {
    /// `above` are the records around it, `depth` is that of its column.
    fn of(
        &self,
        place: Place,
        above: &mut Vec<Place>,
        depth: usize,
    ) -> Result<Target, SchemaError> {
        self.budget.spend()?;
        if depth > DEEPEST {
            return Err(SchemaError(format!(
                "the Avro schema nests more than {DEEPEST} levels"
            )));
        }
        let node = self.schema.node(place);
        if let Some(logical) = node.logical {
            let (name, shape) = match &node.kind {
                Kind::Fixed { name, size } => (Some(name.clone()), Shape::Fixed(*size)),
                _ => (None, Shape::Plain),
            };
            return Ok(Target {
                shape,
                name,
                logical: Some(logical),
                ..Target::plain(logical_type(logical))
            });
        }
        Ok(match &node.kind {
            Kind::Null => Target::null(),
            Kind::Boolean => Target::plain(DataType::Boolean),
            Kind::Int => Target::plain(DataType::Int32),
            Kind::Long => Target::plain(DataType::Int64),
            Kind::Float => Target::plain(DataType::Float32),
            Kind::Double => Target::plain(DataType::Float64),
            Kind::Bytes => Target::plain(DataType::Binary),
            Kind::String => Target::plain(DataType::Utf8),
            Kind::Fixed { name, size } => Target {
                shape: Shape::Fixed(*size),
                name: Some(name.clone()),
                ..Target::plain(DataType::Binary)
            },
            Kind::Enum {
                name,
                symbols,
                default,
            } => Target {
                shape: Shape::Enum {
                    symbols: symbols.clone(),
                    default: default.clone(),
                },
                name: Some(name.clone()),
                ..Target::plain(DataType::Utf8)
            },
            Kind::Array(items) => {
                let items = self.of(*items, above, depth + 1)?;
                Target {
                    shape: Shape::List(Box::new(items.clone())),
                    ..Target::plain(DataType::List(Arc::new(items.field("element"))))
                }
            }
            Kind::Map(values) => {
                let values = self.of(*values, above, depth + 1)?;
                let data_type =
                    column::map(DataType::Utf8, values.data_type.clone(), values.is_nullable);
                Target {
                    shape: Shape::Map(Box::new(values)),
                    ..Target::plain(data_type)
                }
            }
            Kind::Record { name, fields } => {
                if above.contains(&place) {
                    return Err(SchemaError(format!(
                        "the Avro record {:?} contains itself, which no column holds",
                        name
                    )));
                }
                let select = self.select.filter(|_| self.is_root(place));
                column::check_selection(select, fields.iter().map(|field| &*field.name))?;
                above.push(place);
                let fields = fields
                    .iter()
                    .filter(|field| column::is_selected(select, &field.name))
                    .map(|field| self.field(field, above, depth + 1))
                    .collect::<Result<Vec<_>, _>>()?;
                above.pop();
                let columns: Fields = fields
                    .iter()
                    .map(|field| field.target.field(&field.name))
                    .collect();
                Target {
                    shape: Shape::Record(fields),
                    name: Some(name.clone()),
                    ..Target::plain(DataType::Struct(columns))
                }
            }
            Kind::Union(branches) => self.union(branches, above, depth)?,
        })
    }

    /// Whether the fields of a record are the columns: it is the root, or the root's only type
    /// besides null.
    fn is_root(&self, place: Place) -> bool {
        let root = self.schema.root;
        match &self.schema.node(root).kind {
            Kind::Union(branches) => {
                let mut types = branches.iter().filter(|branch| !self.is_null(**branch));
                types.next() == Some(&place) && types.next().is_none()
            }
            _ => place == root,
        }
    }

    fn field(
        &self,
        field: &FieldOf,
        above: &mut Vec<Place>,
        depth: usize,
    ) -> Result<TargetField, SchemaError> {
        let target = self.of(field.place, above, depth)?;
        let default = field.default.as_ref().map(|value| {
            literal(value, &target).ok_or_else(|| {
                SchemaError(format!(
                    "the default of field {:?} does not fit its type: {value}",
                    field.name
                ))
            })
        });
        Ok(TargetField {
            name: field.name.clone(),
            aliases: field.aliases.clone(),
            default: default.transpose()?,
            target,
        })
    }

    fn union(
        &self,
        branches: &[Place],
        above: &mut Vec<Place>,
        depth: usize,
    ) -> Result<Target, SchemaError> {
        // The null of a type that may be null makes no level of its own; several types make a struct.
        let types = branches.iter().filter(|place| !self.is_null(**place));
        let depth = depth + usize::from(types.count() != 1);
        let is_nullable = branches.iter().any(|place| self.is_null(*place));
        let mut members = branches
            .iter()
            .filter(|place| !self.is_null(**place))
            .map(|place| self.of(*place, above, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let both = |one, other| matches!(members.as_slice(), [a, b] if (&a.data_type, &b.data_type) == (&one, &other) || (&a.data_type, &b.data_type) == (&other, &one));
        // As Spark has it: the wider of two numbers holds both.
        let wide = if both(DataType::Int32, DataType::Int64) {
            Some(DataType::Int64)
        } else if both(DataType::Float32, DataType::Float64) {
            Some(DataType::Float64)
        } else {
            None
        };
        let mut target = match (wide, members.len()) {
            (Some(wide), _) => Target::plain(wide),
            (None, 0) => Target::null(),
            (None, 1) => members.pop().unwrap_or_else(Target::null),
            (None, _) => {
                for member in &mut members {
                    member.is_nullable = true;
                }
                let columns = members
                    .iter()
                    .enumerate()
                    .map(|(index, member)| member.field(&format!("member{index}")));
                Target {
                    data_type: DataType::Struct(columns.collect()),
                    shape: Shape::Union(members),
                    is_nullable,
                    name: None,
                    logical: None,
                }
            }
        };
        target.is_nullable |= is_nullable;
        Ok(target)
    }

    fn is_null(&self, place: Place) -> bool {
        matches!(self.schema.node(place).kind, Kind::Null)
    }
}

fn logical_type(logical: Logical) -> DataType {
    match logical {
        Logical::Decimal { precision, scale } => {
            match (u8::try_from(precision), i8::try_from(scale)) {
                (Ok(precision @ ..=DECIMAL128_MAX_PRECISION), Ok(scale)) => {
                    DataType::Decimal128(precision, scale)
                }
                // No column holds this many digits; the bytes are what was written.
                _ => DataType::Binary,
            }
        }
        Logical::Date => DataType::Date32,
        Logical::Time(TimeUnit::Millisecond) => DataType::Time32(TimeUnit::Millisecond),
        Logical::Time(unit) => DataType::Time64(unit),
        Logical::Timestamp { unit, is_local } => {
            DataType::Timestamp(unit, (!is_local).then(|| "UTC".into()))
        }
    }
}

/// A default in the JSON form that the specification gives to it.
fn literal(value: &Value, target: &Target) -> Option<Literal> {
    if value.is_null() {
        return target.is_nullable.then_some(Literal::Null);
    }
    match (&target.shape, &target.data_type) {
        (Shape::Record(fields), _) => {
            let object = value.as_object()?;
            let values = fields.iter().map(|field| match object.get(&field.name) {
                Some(value) => literal(value, &field.target),
                None => field.default.clone(),
            });
            values.collect::<Option<_>>().map(Literal::Struct)
        }
        (Shape::List(items), _) => {
            let items = value.as_array()?.iter().map(|item| literal(item, items));
            items.collect::<Option<_>>().map(Literal::List)
        }
        (Shape::Map(values), _) => {
            let entries = value
                .as_object()?
                .iter()
                .map(|(key, value)| Some((key.clone(), literal(value, values)?)));
            entries.collect::<Option<_>>().map(Literal::Map)
        }
        (Shape::Union(members), _) => {
            let fitting = members.iter().map(|member| literal(value, member));
            let (chosen, found) = fitting
                .enumerate()
                .find_map(|(index, found)| Some((index, found?)))?;
            let mut values = vec![Literal::Null; members.len()];
            if let Some(value) = values.get_mut(chosen) {
                *value = found;
            }
            Some(Literal::Struct(values))
        }
        (_, DataType::Boolean) => value.as_bool().map(Literal::Boolean),
        (_, DataType::Float32 | DataType::Float64) => value.as_f64().map(Literal::Float),
        (_, DataType::Utf8) => value
            .as_str()
            .map(|text| Literal::Bytes(text.as_bytes().to_vec())),
        (_, DataType::Binary) => latin(value.as_str()?).map(Literal::Bytes),
        (_, DataType::Decimal128(precision, _)) => unscaled(&latin(value.as_str()?)?)
            .and_then(|value| number::fits(value, *precision))
            .map(Literal::Decimal),
        (_, DataType::Time32(unit) | DataType::Time64(unit)) => {
            let time = time::of_day(value.as_i64()?, *unit).ok()?;
            Some(Literal::Integer(time))
        }
        (_, DataType::Int32) => i32::try_from(value.as_i64()?)
            .ok()
            .map(|value| Literal::Integer(value.into())),
        _ => value.as_i64().map(Literal::Integer),
    }
}

/// Bytes as the code points 0 to 255 of a text.
fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars()
        .map(|char| u8::try_from(u32::from(char)).ok())
        .collect()
}

/// Two's complement, big endian, of any length.
pub(super) fn unscaled(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) {
        0xff
    } else {
        0
    };
    let extra = bytes.len().saturating_sub(16);
    let (above, last) = bytes.split_at_checked(extra)?;
    if above.iter().any(|byte| *byte != sign) {
        return None;
    }
    let mut whole = [sign; 16];
    whole.get_mut(16 - last.len()..)?.copy_from_slice(last);
    let value = i128::from_be_bytes(whole);
    ((value < 0) == (sign == 0xff)).then_some(value)
}

/// Puts a default into a column.
pub(super) fn push(column: &mut Column, literal: &Literal) -> Filled {
    let unfit = || Bad::new("a default does not fit its column");
    let small = |value: i64| i32::try_from(value).map_err(|_| unfit());
    match (&mut column.values, literal) {
        (_, Literal::Null) => return column.push_found_null(),
        (Values::Boolean(values), Literal::Boolean(value)) => values.push(*value),
        (
            Values::Int32(values) | Values::Date(values) | Values::Time32(_, values),
            Literal::Integer(value),
        ) => {
            values.push(small(*value)?);
        }
        (
            Values::Int64(values) | Values::Timestamp(_, values) | Values::Time64(_, values),
            Literal::Integer(value),
        ) => {
            values.push(*value);
        }
        (Values::Float32(values), Literal::Float(value)) => values.push(*value as f32),
        (Values::Float64(values), Literal::Float(value)) => values.push(*value),
        (Values::Decimal(_, values), Literal::Decimal(value)) => values.push(*value),
        (Values::Text(slices) | Values::Binary(slices), Literal::Bytes(bytes)) => {
            slices.push(bytes)?
        }
        (Values::Struct(inner), Literal::Struct(literals)) => {
            for (column, literal) in inner.columns.iter_mut().zip(literals) {
                push(column, literal)?;
            }
        }
        (Values::List(list), Literal::List(literals)) => {
            for literal in literals {
                push(&mut list.child, literal)?;
            }
            list.end()?;
        }
        (Values::Map(list), Literal::Map(entries)) => {
            for (name, literal) in entries {
                let (key, value) = list.entry().ok_or_else(unfit)?;
                let Values::Text(keys) = &mut key.values else {
                    return Err(unfit());
                };
                keys.push(name.as_bytes())?;
                key.push_valid();
                push(value, literal)?;
                list.child.push_valid();
            }
            list.end()?;
        }
        _ => return Err(unfit()),
    }
    column.push_valid();
    Ok(())
}
