//! Columns to Avro's binary encoding, by a schema that has more than columns do: names of symbols,
//! sizes, units, branches.
//!
//! Fields are found by name. A field of the schema without a column is null where it may be; a
//! column without a field is an error, as in Spark's `to_avro`: its values would be lost. In a
//! union a column takes the branch of its own type, or else the first that takes it. arrow-avro is
//! not used: it writes the types that the columns have, its errors name no row, and the schema is
//! here already, as the decoder reads it.

use arrow_schema::TimeUnit;

use super::column::{Cells, Column, Slices, at};
use crate::avro::{Kind, Logical, Node, Place, Schema, put_long as long};
use crate::column::DecimalType;
use crate::error::{Bad, Filled, SchemaError};
use crate::{number, time};

/// How a column becomes values at a place of the schema.
#[derive(Debug)]
pub(super) struct Plan {
    column: Column,
    /// Of a union: the branch that is null, and that of the column's values.
    null: Option<usize>,
    branch: Option<usize>,
    write: Write,
}

#[derive(Debug)]
enum Write {
    Null,
    /// A column without values, where the schema has a type that is not null.
    Never,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Enum(Vec<String>),
    /// Of this many bytes, or of a length before them.
    Decimal {
        size: Option<usize>,
        precision: u32,
        scale: u32,
    },
    /// A time in this unit.
    Time {
        is_long: bool,
        unit: TimeUnit,
    },
    Record(Vec<Field>),
    Array(Box<Plan>),
    Map(Column, Box<Plan>),
    /// A struct with a column for each branch that is not null, one of which has a value.
    Members(Vec<Plan>),
}

#[derive(Debug)]
enum Field {
    Of(Box<Plan>),
    /// No column: the branch of the union that is null.
    Null(Option<usize>),
}

impl Plan {
    /// The columns as the fields of a record; for a schema of another type one column, as the decoder makes it.
    pub(super) fn new(schema: &Schema, columns: Vec<Column>) -> Result<Self, SchemaError> {
        let is_record = schema.is_record(schema.root);
        let is_union = matches!(schema.node(schema.root).kind, Kind::Union(_));
        let count = columns.len();
        let only = match columns.as_slice() {
            [only] if !is_record => Some(only.clone()),
            _ => None,
        };
        let of_rows = Self::at(schema, schema.root, Column::of_rows(columns));
        match (of_rows, only) {
            (Err(_), Some(only)) => Self::at(schema, schema.root, only),
            (Err(_), None) if !is_record && !is_union => Err(SchemaError(format!(
                "the Avro schema is of type {}, which takes one column, and there are {count}",
                schema.node(schema.root).kind()
            ))),
            (of_rows, _) => of_rows,
        }
    }

    /// Writes a value that follows a schema's id. Confluent's Java serializer writes one of type bytes as it is, without the length
    /// that Avro has.
    pub(super) fn write_framed(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        let start = out.len();
        self.write(row, out)?;
        let has_length = match &self.write {
            Write::Bytes => true,
            Write::Decimal { size, .. } => size.is_none(),
            _ => false,
        };
        if has_length && self.branch.is_none() {
            let value = out.get(start..).unwrap_or_default();
            let length = value.iter().take_while(|byte| **byte >= 0x80).count() + 1;
            out.drain(start..start + length);
        }
        Ok(())
    }

    fn at(schema: &Schema, place: Place, column: Column) -> Result<Self, SchemaError> {
        let node = schema.node(place);
        let Kind::Union(branches) = &node.kind else {
            return Ok(Self {
                write: Write::of(schema, node, &column)?,
                column,
                null: None,
                branch: None,
            });
        };
        let is_null = |place: &Place| matches!(schema.node(*place).kind, Kind::Null);
        let null = branches.iter().position(is_null);
        let others: Vec<usize> = (0..branches.len())
            .filter(|index| Some(*index) != null)
            .collect();
        let write_at = |index: usize, column: &Column| {
            let place = branches.get(index).copied().unwrap_or(schema.root);
            Write::of(schema, schema.node(place), column)
        };
        let (branch, write) = match (others.as_slice(), &column.cells) {
            ([], _) => (None, Write::Null),
            (_, Cells::Null) => (None, Write::Never),
            ([only], _) => (Some(*only), write_at(*only, &column)?),
            (several, Cells::Struct(members)) if is_members(members, several.len()) => {
                let plans = several.iter().zip(members).map(|(index, member)| {
                    Ok(Self {
                        write: write_at(*index, member)
                            .map_err(|error| within(&member.name, error))?,
                        column: member.clone(),
                        null: None,
                        branch: Some(*index),
                    })
                });
                (None, Write::Members(plans.collect::<Result<_, _>>()?))
            }
            (several, cells) => {
                let own = |index: &&usize| {
                    let place = branches.get(**index);
                    place.is_some_and(|place| is_own(schema.node(*place), cells))
                };
                several
                    .iter()
                    .filter(own)
                    .chain(several)
                    .find_map(|index| Some((Some(*index), write_at(*index, &column).ok()?)))
                    .ok_or_else(|| {
                        SchemaError(format!(
                            "none of the types of the union takes {}",
                            cells.kind()
                        ))
                    })?
            }
        };
        Ok(Self {
            column,
            null,
            branch,
            write,
        })
    }

    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        if self.column.is_null(row) {
            return match (self.null, &self.write) {
                (Some(branch), _) => {
                    long(branch as i64, out);
                    Ok(())
                }
                (None, Write::Null) => Ok(()),
                (None, _) => Err(Bad::new("it is null, and its Avro type is not")),
            };
        }
        if let Some(branch) = self.branch {
            long(branch as i64, out);
        }
        self.value(row, out)
    }

    fn value(&self, row: usize, out: &mut Vec<u8>) -> Filled {
        match (&self.write, &self.column.cells) {
            (Write::Boolean, Cells::Boolean(values)) => out.push(values.value(row).into()),
            (Write::Int, cells) => long(narrow(count(cells, row)?)?.into(), out),
            (Write::Long, cells) => long(count(cells, row)?, out),
            (Write::Float, Cells::Float(values)) => {
                out.extend_from_slice(&at(values, row).to_le_bytes());
            }
            (Write::Double, Cells::Float(values)) => {
                out.extend_from_slice(&f64::from(at(values, row)).to_le_bytes());
            }
            (Write::Double, Cells::Double(values)) => {
                out.extend_from_slice(&at(values, row).to_le_bytes());
            }
            (Write::Bytes, Cells::Binary(values)) => bytes(values.at(row), out),
            (Write::Text, Cells::Text(values)) => bytes(values.text(row)?.as_bytes(), out),
            (Write::Fixed(size), Cells::Binary(values)) => {
                let value = values.at(row);
                if value.len() != *size {
                    return Err(Bad::new(format!(
                        "it has {} bytes, and its fixed type {size}",
                        value.len()
                    )));
                }
                out.extend_from_slice(value);
            }
            (Write::Enum(symbols), Cells::Text(values)) => {
                let text = values.text(row)?;
                let index = symbols.iter().position(|symbol| symbol == text);
                let index = index.ok_or_else(|| Bad::wanted("a symbol of its enum", text))?;
                long(index as i64, out);
            }
            (
                Write::Decimal {
                    size,
                    precision,
                    scale,
                },
                Cells::Decimal(kind, values),
            ) => {
                let unscaled = rescaled(at(values, row), *kind, *precision, *scale)?;
                decimal(unscaled, *size, out)?;
            }
            (Write::Time { is_long, unit }, cells) => {
                let (value, from) = match cells {
                    Cells::Time(from, values) => (time::of_day(values.at(row), *from)?, *from),
                    Cells::Timestamp { unit, values, .. } => (at(values, row), *unit),
                    _ => return Err(unfit()),
                };
                let value = time::convert(value, from, *unit)?;
                if !is_long {
                    narrow(value)?;
                }
                long(value, out);
            }
            (Write::Record(fields), _) => {
                for field in fields {
                    match field {
                        Field::Of(plan) => plan
                            .write(row, out)
                            .map_err(|bad| bad.within(&plan.column.name))?,
                        Field::Null(Some(branch)) => long(*branch as i64, out),
                        Field::Null(None) => {}
                    }
                }
            }
            (Write::Array(element), Cells::List(offsets, _)) => {
                let places = offsets.at(row);
                block(places.len(), out);
                for (index, place) in places.clone().enumerate() {
                    element
                        .write(place, out)
                        .map_err(|bad| bad.element(index))?;
                }
                end_blocks(places.len(), out);
            }
            (Write::Map(keys, value), Cells::Map(offsets, ..)) => {
                let places = offsets.at(row);
                block(places.len(), out);
                for (index, place) in places.clone().enumerate() {
                    let Cells::Text(keys) = &keys.cells else {
                        return Err(unfit());
                    };
                    bytes(keys.text(place)?.as_bytes(), out);
                    value.write(place, out).map_err(|bad| bad.element(index))?;
                }
                end_blocks(places.len(), out);
            }
            (Write::Members(members), _) => {
                let mut there = members.iter().filter(|member| !member.column.is_null(row));
                match (there.next(), there.next()) {
                    (Some(member), None) => member
                        .write(row, out)
                        .map_err(|bad| bad.within(&member.column.name))?,
                    (None, _) => return Err(Bad::new("no member of its union has a value")),
                    (Some(_), Some(_)) => {
                        return Err(Bad::new("several members of its union have values"));
                    }
                }
            }
            (Write::Null, _) => return Err(Bad::new("it is not null, and its Avro type is")),
            _ => return Err(unfit()),
        }
        Ok(())
    }
}

impl Write {
    fn of(schema: &Schema, node: &Node, column: &Column) -> Result<Self, SchemaError> {
        let cells = &column.cells;
        let refused = || {
            SchemaError(format!(
                "{} does not become Avro's {}",
                cells.kind(),
                node.kind()
            ))
        };
        match (node.logical, cells) {
            (Some(Logical::Decimal { precision, scale }), Cells::Decimal(..)) => {
                let size = match node.kind {
                    Kind::Fixed { size, .. } => Some(size),
                    _ => None,
                };
                return Ok(Self::Decimal {
                    size,
                    precision,
                    scale,
                });
            }
            (Some(Logical::Time(unit)), Cells::Time(..))
            | (Some(Logical::Timestamp { unit, .. }), Cells::Timestamp { .. }) => {
                return Ok(Self::Time {
                    is_long: matches!(node.kind, Kind::Long),
                    unit,
                });
            }
            (Some(Logical::Date), Cells::Date(_)) => return Ok(Self::Int),
            _ => {}
        }
        Ok(match (&node.kind, cells) {
            (Kind::Null, _) => Self::Null,
            (_, Cells::Null) => Self::Never,
            (Kind::Boolean, Cells::Boolean(_)) => Self::Boolean,
            (Kind::Int, Cells::Integer(_)) => Self::Int,
            (Kind::Long, Cells::Integer(_) | Cells::UInt64(_)) => Self::Long,
            (Kind::Float, Cells::Float(_)) => Self::Float,
            (Kind::Double, Cells::Float(_) | Cells::Double(_)) => Self::Double,
            (Kind::Bytes, Cells::Binary(_)) => Self::Bytes,
            (Kind::String, Cells::Text(_)) => Self::Text,
            (Kind::Fixed { size, .. }, Cells::Binary(_)) => Self::Fixed(*size),
            (Kind::Enum { symbols, .. }, Cells::Text(_)) => Self::Enum(symbols.clone()),
            (Kind::Array(items), Cells::List(_, element)) => {
                let element = Plan::at(schema, *items, (**element).clone());
                Self::Array(Box::new(element.map_err(|error| within("[]", error))?))
            }
            (Kind::Map(values), Cells::Map(_, key, value)) => {
                if !matches!(key.cells, Cells::Text(_)) {
                    return Err(SchemaError(format!(
                        "the keys of an Avro map are strings, not {}",
                        key.cells.kind()
                    )));
                }
                let value = Plan::at(schema, *values, (**value).clone());
                let value = value.map_err(|error| within("{}", error))?;
                Self::Map((**key).clone(), Box::new(value))
            }
            (Kind::Record { fields, .. }, Cells::Struct(columns)) => {
                let plans = fields.iter().map(|field| {
                    match columns.iter().find(|column| column.name == field.name) {
                        Some(column) => Plan::at(schema, field.place, column.clone())
                            .map(|plan| Field::Of(Box::new(plan)))
                            .map_err(|error| within(&field.name, error)),
                        None => absent(schema, field.place).ok_or_else(|| {
                            SchemaError(format!(
                                "there is no column {:?}, which the Avro schema requires",
                                field.name
                            ))
                        }),
                    }
                });
                let plans = plans.collect::<Result<_, _>>()?;
                let other = |column: &&Column| fields.iter().all(|field| field.name != column.name);
                if let Some(column) = columns.iter().find(other) {
                    return Err(SchemaError(format!(
                        "the Avro schema has no field for column {:?}: drop the column, or add the field",
                        column.name
                    )));
                }
                Self::Record(plans)
            }
            _ => return Err(refused()),
        })
    }
}

/// A field without a column, if it may be null.
fn absent(schema: &Schema, place: Place) -> Option<Field> {
    match &schema.node(place).kind {
        Kind::Null => Some(Field::Null(None)),
        Kind::Union(branches) => {
            let is_null = |place: &Place| matches!(schema.node(*place).kind, Kind::Null);
            let null = branches.iter().position(is_null)?;
            Some(Field::Null(Some(null)))
        }
        _ => None,
    }
}

/// Whether a type is that of the column, and not one that takes only some of its values, or takes them for something else.
fn is_own(node: &Node, cells: &Cells) -> bool {
    match (node.logical, cells) {
        (Some(Logical::Decimal { precision, scale }), Cells::Decimal(kind, _)) => {
            (precision, i64::from(scale)) == (kind.precision.into(), i64::from(kind.scale))
        }
        (Some(Logical::Date), Cells::Date(_)) => true,
        (Some(Logical::Time(unit)), Cells::Time(from, _)) => unit == *from,
        (
            Some(Logical::Timestamp { unit, is_local }),
            Cells::Timestamp {
                unit: from,
                is_local: local,
                ..
            },
        ) => (unit, is_local) == (*from, *local),
        (Some(_), _) => false,
        (None, Cells::Integer(values)) => match node.kind {
            Kind::Int => !values.exceed_i32(),
            Kind::Long => values.exceed_i32(),
            _ => false,
        },
        (None, cells) => matches!(
            (&node.kind, cells),
            (Kind::Boolean, Cells::Boolean(_))
                | (Kind::Float, Cells::Float(_))
                | (Kind::Double, Cells::Double(_))
                | (Kind::String, Cells::Text(_))
                | (Kind::Fixed { .. }, Cells::Binary(Slices::Fixed(_)))
                | (
                    Kind::Bytes,
                    Cells::Binary(Slices::Small(_) | Slices::Large(_) | Slices::View(_))
                )
        ),
    }
}

/// What the decoder and Spark make of a union of several types.
fn is_members(columns: &[Column], count: usize) -> bool {
    let mut places = columns.iter().enumerate();
    columns.len() == count && places.all(|(place, column)| column.name == format!("member{place}"))
}

fn count(cells: &Cells, row: usize) -> Filled<i64> {
    match cells {
        Cells::Integer(values) => Ok(values.at(row)),
        Cells::Date(values) => Ok(at(values, row).into()),
        Cells::UInt64(values) => {
            let value = at(values, row);
            i64::try_from(value)
                .map_err(|_| Bad::new(format!("{value} is out of the range of Avro's long")))
        }
        _ => Err(unfit()),
    }
}

fn narrow(value: i64) -> Filled<i32> {
    i32::try_from(value).map_err(|_| Bad::new(format!("{value} is out of the range of Avro's int")))
}

/// The unscaled value at the schema's scale: digits are added, and never lost.
fn rescaled(value: i128, kind: DecimalType, precision: u32, scale: u32) -> Filled<i128> {
    let steps = i64::from(scale) - i64::from(kind.scale);
    let factor = u32::try_from(steps.unsigned_abs())
        .ok()
        .and_then(|steps| 10_i128.checked_pow(steps));
    let scaled = match factor {
        Some(factor) if steps >= 0 => value.checked_mul(factor),
        Some(factor) if value % factor == 0 => Some(value / factor),
        _ if value == 0 => Some(0),
        _ => None,
    };
    // A decimal of the columns never has more digits than the widest that is asked for here.
    let widest = u8::try_from(precision.min(38)).unwrap_or(38);
    scaled
        .and_then(|value| number::fits(value, widest))
        .ok_or_else(|| {
            let mut text = Vec::new();
            super::text::decimal(value, kind, &mut text);
            Bad::new(format!(
                "{} does not fit decimal({precision}, {scale})",
                String::from_utf8_lossy(&text)
            ))
        })
}

/// Big endian, in as few bytes as its sign allows, or in all of a fixed type.
fn decimal(unscaled: i128, size: Option<usize>, out: &mut Vec<u8>) -> Filled {
    let all = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xff } else { 0 };
    // A byte can go if the next one has the sign, too.
    let spare = all
        .windows(2)
        .take_while(|pair| matches!(pair, [first, next] if *first == sign && (next ^ sign) < 0x80))
        .count();
    let least = all.get(spare..).unwrap_or(&all);
    match size {
        None => bytes(least, out),
        Some(size) if size >= least.len() => {
            out.resize(out.len() + size - least.len(), sign);
            out.extend_from_slice(least);
        }
        Some(size) => {
            return Err(Bad::new(format!(
                "it takes {} bytes, and its fixed type has {size}",
                least.len()
            )));
        }
    }
    Ok(())
}

/// One block has all elements; none have none.
fn block(count: usize, out: &mut Vec<u8>) {
    long(count as i64, out);
}

fn end_blocks(count: usize, out: &mut Vec<u8>) {
    if count > 0 {
        out.push(0);
    }
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    long(value.len() as i64, out);
    out.extend_from_slice(value);
}

fn within(name: &str, error: SchemaError) -> SchemaError {
    SchemaError(format!("{name}: {error}"))
}

fn unfit() -> Bad {
    Bad::new("the plan does not fit the column")
}
