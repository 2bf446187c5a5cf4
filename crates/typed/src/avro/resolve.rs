//! How a value of one schema becomes a column of another, decided once for both.

use std::cell::Cell;

use arrow_schema::{DataType, TimeUnit};

use super::reader::{Literal, Shape, Target, TargetField};
use super::schema::{FieldOf, Kind, Logical, Node, Place, Schema, last_part};
use crate::error::SchemaError;

/// What to read, in the order of the writer's schema.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    /// The text of each symbol, or what is wrong with it.
    Enum(Vec<Result<String, String>>),
    /// Of this many bytes, or of a length before them; to be multiplied by a power of ten.
    Decimal {
        size: Option<usize>,
        factor: i128,
    },
    /// A time in this unit.
    Time {
        is_long: bool,
        unit: TimeUnit,
    },
    Record {
        steps: Vec<Step>,
        defaults: Vec<(usize, Literal)>,
    },
    Array(Box<Plan>),
    Map(Box<Plan>),
    /// A plan for each branch of the writer's union.
    Union(Vec<Plan>),
    /// Into a member of the reader's union.
    Member(usize, Box<Plan>),
    /// The reader has no place for it.
    Never(String),
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Fill(usize, Plan),
    Skip(Place),
}

/// How many pairs of a writer's and a reader's type are compared. Types that name others twice grow with each level.
const MOST_PAIRS: usize = 100_000;

/// Decides how the writer's values become the target.
pub(super) fn resolve(schema: &Schema, target: &Target) -> Result<Plan, SchemaError> {
    let resolver = Resolver {
        schema,
        pairs: Cell::new(0),
    };
    let plan = resolver.at(schema.root, target);
    // A branch of a union does not say why it does not resolve.
    resolver.spent()?;
    plan
}

struct Resolver<'a> {
    schema: &'a Schema,
    pairs: Cell<usize>,
}

impl Resolver<'_> {
    fn spent(&self) -> Result<(), SchemaError> {
        if self.pairs.get() > MOST_PAIRS {
            return Err(SchemaError(format!(
                "the writer's schema and the reader's have more than {MOST_PAIRS} pairs of types to compare"
            )));
        }
        Ok(())
    }

    fn at(&self, place: Place, target: &Target) -> Result<Plan, SchemaError> {
        self.pairs.set(self.pairs.get() + 1);
        self.spent()?;
        let node = self.schema.node(place);
        if let Kind::Union(branches) = &node.kind {
            let plans = branches.iter().map(|branch| {
                self.at(*branch, target)
                    .unwrap_or_else(|error| Plan::Never(error.to_string()))
            });
            return Ok(Plan::Union(plans.collect()));
        }
        if matches!(node.kind, Kind::Null) {
            if target.is_nullable {
                return Ok(Plan::Null);
            }
            return Err(SchemaError::new(
                "the writer's value is null, and the column is not nullable",
            ));
        }
        if let Shape::Union(members) = &target.shape {
            return self.member(place, members, target);
        }
        match logical(node, target)? {
            Some(plan) => Ok(plan),
            None => self.plain(node, target),
        }
    }

    /// The member of the reader's union that takes a type, by the rules of Avro's Java library: the
    /// same type, which of named types is the one with the full name. Otherwise a record takes the
    /// last of the same short name that it resolves to, or the first that it resolves to, and
    /// another type the first that it is promoted to. Java compares only the full names of enums
    /// and fixed; the specification requires the short ones.
    fn member(
        &self,
        place: Place,
        members: &[Target],
        target: &Target,
    ) -> Result<Plan, SchemaError> {
        let node = self.schema.node(place);
        let chosen = |index: usize| {
            let member = members.get(index).ok_or_else(|| mismatch(node, target))?;
            let plan = self.at(place, member)?;
            Ok(Plan::Member(index, Box::new(plan)))
        };
        let same = (0..members.len())
            .filter(|index| members.get(*index).is_some_and(|m| is_same(node, m)));
        let named = |index: &usize, is_named: fn(&str, &str) -> bool| {
            let name = members
                .get(*index)
                .and_then(|member| member.name.as_deref());
            name.zip(node.name())
                .is_none_or(|(name, wanted)| is_named(name, wanted))
        };
        if let Some(index) = same.clone().find(|index| named(index, |a, b| a == b)) {
            return chosen(index);
        }
        let is_taken = |index: &usize| {
            let shape = members.get(*index).map(|member| &member.shape);
            !matches!(shape, Some(Shape::Enum { .. } | Shape::Fixed(_)))
        };
        same.rev()
            .filter(|index| named(index, |a, b| last_part(a) == last_part(b)))
            .chain((0..members.len()).filter(is_taken))
            .find_map(|index| chosen(index).ok())
            .ok_or_else(|| mismatch(node, target))
    }

    fn plain(&self, node: &Node, target: &Target) -> Result<Plan, SchemaError> {
        use DataType as Column;
        if !is_named_alike(node, target) {
            return Err(mismatch(node, target));
        }
        let column = &target.data_type;
        let is_integer = matches!(
            column,
            Column::Int8
                | Column::Int16
                | Column::Int32
                | Column::Int64
                | Column::UInt8
                | Column::UInt16
                | Column::UInt32
                | Column::UInt64
        );
        let is_float = matches!(column, Column::Float32 | Column::Float64);
        let is_text = is_text(target);
        let is_binary = matches!(column, Column::Binary | Column::LargeBinary);
        // From Avro's int to a wider type; a narrower one can come from a schema of columns alone, and is checked value by value.
        Ok(match &node.kind {
            Kind::Boolean if *column == Column::Boolean => Plan::Boolean,
            Kind::Int
                if is_integer
                    || is_float
                    || matches!(column, Column::Date32 | Column::Time32(_)) =>
            {
                Plan::Int
            }
            Kind::Int if matches!(column, Column::Timestamp(..) | Column::Time64(_)) => Plan::Int,
            Kind::Long if (is_integer && *column != Column::Int32) || is_float => Plan::Long,
            Kind::Long if matches!(column, Column::Timestamp(..) | Column::Time64(_)) => Plan::Long,
            Kind::Float if is_float => Plan::Float,
            Kind::Double if *column == Column::Float64 => Plan::Double,
            Kind::Bytes if is_binary => Plan::Bytes,
            Kind::Bytes if is_text => Plan::Text,
            Kind::Bytes if matches!(column, Column::Decimal128(..)) => Plan::Decimal {
                size: None,
                factor: 1,
            },
            Kind::String if is_text => Plan::Text,
            Kind::String if is_binary => Plan::Bytes,
            Kind::Fixed { size, .. } => match column {
                _ if is_binary => Plan::Fixed(*size),
                Column::FixedSizeBinary(wanted) if usize::try_from(*wanted) == Ok(*size) => {
                    Plan::Fixed(*size)
                }
                Column::Decimal128(..) => Plan::Decimal {
                    size: Some(*size),
                    factor: 1,
                },
                _ => return Err(mismatch(node, target)),
            },
            Kind::Enum { symbols, .. } if is_text => Plan::Enum(read_symbols(symbols, target)),
            Kind::Array(items) => match &target.shape {
                Shape::List(inner) => Plan::Array(Box::new(within(self.at(*items, inner), "[]")?)),
                _ => return Err(mismatch(node, target)),
            },
            Kind::Map(values) => match &target.shape {
                Shape::Map(inner) => Plan::Map(Box::new(within(self.at(*values, inner), "{}")?)),
                _ => return Err(mismatch(node, target)),
            },
            Kind::Record { fields, .. } => match &target.shape {
                Shape::Record(wanted) => self.record(fields, wanted)?,
                _ => return Err(mismatch(node, target)),
            },
            _ => return Err(mismatch(node, target)),
        })
    }

    fn record(&self, fields: &[FieldOf], wanted: &[TargetField]) -> Result<Plan, SchemaError> {
        let named = |name: &String| fields.iter().position(|field| field.name == *name);
        let mut sources: Vec<Option<usize>> =
            wanted.iter().map(|field| named(&field.name)).collect();
        // An alias finds a field that no other one has: each is read once.
        for (index, target) in wanted.iter().enumerate() {
            if matches!(sources.get(index), Some(None)) {
                let mut aliased = target.aliases.iter().filter_map(named);
                let free = aliased.find(|place| !sources.contains(&Some(*place)));
                if let Some(source) = sources.get_mut(index) {
                    *source = free;
                }
            }
        }
        let mut steps = Vec::with_capacity(fields.len());
        for (place, field) in fields.iter().enumerate() {
            let read_as = sources.iter().position(|source| *source == Some(place));
            steps.push(
                match read_as.and_then(|index| Some((index, wanted.get(index)?))) {
                    Some((index, target)) => Step::Fill(
                        index,
                        within(self.at(field.place, &target.target), &field.name)?,
                    ),
                    None => Step::Skip(field.place),
                },
            );
        }
        let mut defaults = Vec::new();
        for (index, (target, source)) in wanted.iter().zip(&sources).enumerate() {
            if source.is_none() {
                let default = target.default.clone().ok_or_else(|| {
                    SchemaError(format!(
                        "field {:?} is not in the writer's schema, and has no default",
                        target.name
                    ))
                })?;
                defaults.push((index, default));
            }
        }
        Ok(Plan::Record { steps, defaults })
    }
}

/// A plan for a logical type whose meaning the column keeps; `None` if the column takes what it stands on. A column of another
/// meaning would show wrong values: it is refused.
fn logical(node: &Node, target: &Target) -> Result<Option<Plan>, SchemaError> {
    use DataType as Column;
    let Some(written) = node.logical else {
        return Ok(None);
    };
    let is_long = matches!(node.kind, Kind::Long);
    Ok(match (written, &target.data_type) {
        (Logical::Decimal { scale, .. }, Column::Decimal128(_, to)) => {
            let factor = u32::try_from(*to)
                .ok()
                .and_then(|to| to.checked_sub(scale))
                .and_then(|more| 10_i128.checked_pow(more));
            let Some(factor) = factor else {
                return Err(mismatch(node, target));
            };
            let size = match node.kind {
                Kind::Fixed { size, .. } => Some(size),
                _ => None,
            };
            Some(Plan::Decimal { size, factor })
        }
        // Bytes of a decimal whose scale is not the writer's would be another number.
        (Logical::Decimal { scale, .. }, _) => match target.logical {
            Some(Logical::Decimal { scale: wanted, .. }) if wanted != scale => {
                return Err(mismatch(node, target));
            }
            _ if is_text(target) => return Err(mismatch(node, target)),
            _ => None,
        },
        (Logical::Time(unit), Column::Time32(_) | Column::Time64(_))
        | (Logical::Timestamp { unit, .. }, Column::Timestamp(..)) => {
            Some(Plan::Time { is_long, unit })
        }
        (Logical::Date, Column::Date32) => None,
        (
            Logical::Date | Logical::Time(_) | Logical::Timestamp { .. },
            Column::Date32 | Column::Time32(_) | Column::Time64(_) | Column::Timestamp(..),
        ) => return Err(mismatch(node, target)),
        // A number is the count since 1970 or midnight in the writer's unit, as Avro promotes it.
        (Logical::Date | Logical::Time(_) | Logical::Timestamp { .. }, _) => None,
    })
}

fn is_text(target: &Target) -> bool {
    matches!(target.data_type, DataType::Utf8 | DataType::LargeUtf8)
}

fn within(plan: Result<Plan, SchemaError>, name: &str) -> Result<Plan, SchemaError> {
    plan.map_err(|error| SchemaError(format!("{name}: {error}")))
}

fn read_symbols(symbols: &[String], target: &Target) -> Vec<Result<String, String>> {
    symbols
        .iter()
        .map(|symbol| match &target.shape {
            Shape::Enum { symbols, default } if !symbols.contains(symbol) => {
                default.clone().ok_or_else(|| {
                    format!("the reader's enum has no symbol {symbol:?} and no default")
                })
            }
            _ => Ok(symbol.clone()),
        })
        .collect()
}

/// Whether the reader's enum or fixed type is the writer's: it has its short name and its size, as both the specification and Java
/// have it. Nothing is promoted to them, but decimals keep their meaning in either form. Columns that are no Avro schema take any.
fn is_named_alike(node: &Node, target: &Target) -> bool {
    let has_name = |name: &str| {
        let wanted = target.name.as_deref();
        wanted.is_some_and(|wanted| last_part(wanted) == last_part(name))
    };
    match (&target.shape, &node.kind) {
        (Shape::Enum { .. }, Kind::Enum { name, .. }) => has_name(name),
        (Shape::Fixed(wanted), Kind::Fixed { name, size }) => wanted == size && has_name(name),
        (Shape::Enum { .. } | Shape::Fixed(_), _) => false,
        _ => true,
    }
}

/// Whether a member of a union is of the writer's type, and not one that it is promoted to. Names and logical types are not
/// compared: a union has no two of the same type but for their names.
fn is_same(node: &Node, member: &Target) -> bool {
    use DataType as Column;
    matches!(
        (&node.kind, &member.shape, &member.data_type),
        (Kind::Enum { .. }, Shape::Enum { .. }, _)
            | (Kind::Fixed { .. }, Shape::Fixed(_), _)
            | (Kind::Record { .. }, Shape::Record(_), _)
            | (Kind::Array(_), Shape::List(_), _)
            | (Kind::Map(_), Shape::Map(_), _)
            | (Kind::Boolean, _, Column::Boolean)
            | (
                Kind::Int,
                _,
                Column::Int32 | Column::Date32 | Column::Time32(_)
            )
            | (
                Kind::Long,
                _,
                Column::Int64 | Column::Time64(_) | Column::Timestamp(..)
            )
            | (Kind::Float, _, Column::Float32)
            | (Kind::Double, _, Column::Float64)
            | (
                Kind::Bytes,
                Shape::Plain,
                Column::Binary | Column::Decimal128(..)
            )
            | (Kind::String, Shape::Plain, Column::Utf8)
    )
}

fn mismatch(node: &Node, target: &Target) -> SchemaError {
    let logical = |logical: Option<Logical>| {
        logical.map_or_else(String::new, |logical| format!(" ({})", logical.name()))
    };
    SchemaError(format!(
        "the writer's {} does not become {}{}",
        node.kind(),
        target.data_type,
        logical(target.logical)
    ))
}
