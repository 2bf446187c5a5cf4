//! Values of one writer's schema, read by the plan for it.

use super::input::{Input, put_long};
use super::reader::{self, Avro};
use super::resolve::{Plan, Step, resolve};
use super::schema::{Kind, Place, Schema};
use crate::column::{Column, List, Struct, Values};
use crate::error::{Bad, Filled, SchemaError};
use crate::{number, time};

/// How deep a value nests that the reader passes over: its schema may contain itself.
const DEEPEST: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct Writer {
    schema: Schema,
    plan: Plan,
    is_one_column: bool,
}

impl Writer {
    pub(crate) fn new(mut schema: Schema, reader: &Avro) -> Result<Self, SchemaError> {
        schema.rename(&reader.aliases);
        Self::of(schema, reader)
    }

    /// The same writer for fewer columns of its reader.
    pub(crate) fn read_as(self, reader: &Avro) -> Result<Self, SchemaError> {
        Self::of(self.schema, reader)
    }

    fn of(schema: Schema, reader: &Avro) -> Result<Self, SchemaError> {
        Ok(Self {
            plan: resolve(&schema, &reader.root)?,
            is_one_column: reader.is_one_column,
            schema,
        })
    }

    /// Decodes one value into a row.
    pub(crate) fn fill(&self, columns: &mut Struct, row: usize, value: &[u8]) -> Filled {
        let mut input = Input::new(value);
        match (self.is_one_column, columns.columns.first_mut()) {
            (true, Some(column)) => self.value(&self.plan, column, &mut input)?,
            _ => self.root(&self.plan, columns, row, &mut input)?,
        }
        match input.left() {
            0 => Ok(()),
            left => Err(Bad::new(format!(
                "{left} bytes stand behind the value: it was written with another schema"
            ))),
        }
    }

    /// Decodes a value that follows a schema's id. Confluent's Java serializer writes one of type bytes as it is, without the
    /// length that Avro has.
    pub(crate) fn fill_framed(&self, columns: &mut Struct, row: usize, value: &[u8]) -> Filled {
        if !matches!(self.schema.node(self.schema.root).kind, Kind::Bytes) {
            return self.fill(columns, row, value);
        }
        let mut whole = Vec::with_capacity(value.len() + 10);
        put_long(value.len() as i64, &mut whole);
        whole.extend_from_slice(value);
        self.fill(columns, row, &whole)
    }

    /// A record whose fields are the columns themselves.
    fn root(&self, plan: &Plan, columns: &mut Struct, row: usize, input: &mut Input<'_>) -> Filled {
        match plan {
            Plan::Record { steps, defaults } => self.record(steps, defaults, columns, input),
            Plan::Union(branches) => self.root(branch(branches, input)?, columns, row, input),
            Plan::Null => columns.fill_up(row),
            Plan::Never(reason) => Err(Bad::new(reason.as_str())),
            _ => Err(Bad::new("the writer's value is no record")),
        }
    }

    fn record(
        &self,
        steps: &[Step],
        defaults: &[(usize, reader::Literal)],
        columns: &mut Struct,
        input: &mut Input<'_>,
    ) -> Filled {
        for step in steps {
            match step {
                Step::Fill(index, plan) => {
                    let Some(column) = columns.columns.get_mut(*index) else {
                        return Err(Bad::new("a field has no column"));
                    };
                    self.value(plan, column, input)
                        .map_err(|bad| bad.within(column.field.name()))?;
                }
                Step::Skip(place) => self.skip(*place, input, 0)?,
            }
        }
        for (index, literal) in defaults {
            if let Some(column) = columns.columns.get_mut(*index) {
                reader::push(column, literal).map_err(|bad| bad.within(column.field.name()))?;
            }
        }
        Ok(())
    }

    fn value(&self, plan: &Plan, column: &mut Column, input: &mut Input<'_>) -> Filled {
        match (plan, &mut column.values) {
            (Plan::Null, _) => return column.push_found_null(),
            (Plan::Union(branches), _) => {
                return self.value(branch(branches, input)?, column, input);
            }
            (Plan::Never(reason), _) => return Err(Bad::new(reason.as_str())),
            (Plan::Boolean, Values::Boolean(values)) => values.push(input.boolean()?),
            (Plan::Int, values) => integer(values, i64::from(input.int()?))?,
            (Plan::Long, values) => integer(values, input.long()?)?,
            (Plan::Float, values) => float(values, f32::from_le_bytes(input.chunk()?).into())?,
            (Plan::Double, values) => float(values, f64::from_le_bytes(input.chunk()?))?,
            (Plan::Bytes, Values::Binary(slices)) => slices.push(input.bytes()?)?,
            (Plan::Text, Values::Text(slices)) => slices.push(input.utf8()?)?,
            (Plan::Fixed(size), Values::Binary(slices)) => slices.push(input.take(*size)?)?,
            (Plan::Fixed(size), Values::Fixed(_, data)) => {
                data.extend_from_slice(input.take(*size)?)
            }
            (Plan::Enum(symbols), Values::Text(slices)) => {
                let index = input.long()?;
                let symbol = usize::try_from(index)
                    .ok()
                    .and_then(|index| symbols.get(index));
                match symbol {
                    Some(Ok(symbol)) => slices.push(symbol.as_bytes())?,
                    Some(Err(reason)) => return Err(Bad::new(reason.as_str())),
                    None => return Err(Bad::new(format!("the enum has no symbol {index}"))),
                }
            }
            (Plan::Decimal { size, factor }, Values::Decimal(wanted, values)) => {
                let bytes = match size {
                    Some(size) => input.take(*size)?,
                    None => input.bytes()?,
                };
                let unscaled = reader::unscaled(bytes)
                    .and_then(|value| value.checked_mul(*factor))
                    .and_then(|value| number::fits(value, wanted.precision));
                values.push(unscaled.ok_or_else(|| {
                    Bad::new(format!(
                        "it does not fit decimal({}, {})",
                        wanted.precision, wanted.scale
                    ))
                })?);
            }
            (Plan::Time { is_long, unit }, values) => {
                let read = if *is_long {
                    input.long()?
                } else {
                    input.int()?.into()
                };
                match values {
                    Values::Timestamp(wanted, values) => {
                        values.push(time::convert(read, *unit, wanted.unit)?);
                    }
                    Values::Time32(wanted, _) | Values::Time64(wanted, _) => {
                        let time = time::convert(time::of_day(read, *unit)?, *unit, *wanted)?;
                        integer(values, time)?;
                    }
                    _ => return Err(unfit()),
                }
            }
            (Plan::Record { steps, defaults }, Values::Struct(inner)) => {
                self.record(steps, defaults, inner, input)?
            }
            (Plan::Array(items), Values::List(list)) => self.elements(items, list, input)?,
            (Plan::Map(values), Values::Map(list)) => self.entries(values, list, input)?,
            (Plan::Member(index, plan), Values::Struct(inner)) => {
                for (place, member) in inner.columns.iter_mut().enumerate() {
                    if place == *index {
                        self.value(plan, member, input)?;
                    } else {
                        member.push_null();
                    }
                }
            }
            _ => return Err(unfit()),
        }
        column.push_valid();
        Ok(())
    }

    fn elements(&self, plan: &Plan, list: &mut List, input: &mut Input<'_>) -> Filled {
        let mut index = 0;
        loop {
            let count = input.block()?;
            if count == 0 {
                return list.end();
            }
            for _ in 0..count {
                let before = input.left();
                self.value(plan, &mut list.child, input)
                    .map_err(|bad| bad.element(index))?;
                if input.left() == before {
                    input.count_empty()?;
                }
                index += 1;
            }
        }
    }

    /// Entries of a map. Of several with one key the last counts, as in the maps of Avro's libraries.
    fn entries(&self, plan: &Plan, list: &mut List, input: &mut Input<'_>) -> Filled {
        let mut again = input.clone();
        self.entries_but(&[], plan, list, input)?;
        let superseded = list.superseded();
        if !superseded.is_empty() {
            list.child.truncate(list.start());
            self.entries_but(&superseded, plan, list, &mut again)?;
        }
        list.end()
    }

    /// The entries of a map but those at these places.
    fn entries_but(
        &self,
        left_out: &[usize],
        plan: &Plan,
        list: &mut List,
        input: &mut Input<'_>,
    ) -> Filled {
        let mut place = 0;
        loop {
            let count = input.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let before = list.next();
                let name = input.text()?;
                let (key, value) = list.entry().ok_or_else(unfit)?;
                let Values::Text(keys) = &mut key.values else {
                    return Err(Bad::new(
                        "the keys of an Avro map are strings, and those of the column are not",
                    ));
                };
                keys.push(name.as_bytes())?;
                key.push_valid();
                self.value(plan, value, input)
                    .map_err(|bad| bad.within(name))?;
                list.child.push_valid();
                if left_out.binary_search(&place).is_ok() {
                    list.child.truncate(before);
                }
                place += 1;
            }
        }
    }

    /// Passes over a value of the writer's.
    fn skip(&self, place: Place, input: &mut Input<'_>, depth: usize) -> Filled {
        if depth > DEEPEST {
            return Err(Bad::new(format!("it nests more than {DEEPEST} levels")));
        }
        match &self.schema.node(place).kind {
            Kind::Null => {}
            Kind::Boolean => drop(input.boolean()?),
            Kind::Int | Kind::Long | Kind::Enum { .. } => drop(input.long()?),
            Kind::Float => drop(input.take(4)?),
            Kind::Double => drop(input.take(8)?),
            Kind::Bytes | Kind::String => drop(input.bytes()?),
            Kind::Fixed { size, .. } => drop(input.take(*size)?),
            Kind::Record { fields, .. } => {
                let before = input.left();
                for field in fields {
                    self.skip(field.place, input, depth + 1)?;
                }
                if input.left() == before {
                    input.count_empty()?;
                }
            }
            Kind::Array(items) => {
                self.skip_blocks(input, |input| self.skip(*items, input, depth + 1))?
            }
            Kind::Map(values) => self.skip_blocks(input, |input| {
                input.bytes()?;
                self.skip(*values, input, depth + 1)
            })?,
            Kind::Union(branches) => {
                let index = input.long()?;
                let branch = usize::try_from(index)
                    .ok()
                    .and_then(|index| branches.get(index));
                let branch =
                    branch.ok_or_else(|| Bad::new(format!("the union has no branch {index}")))?;
                self.skip(*branch, input, depth + 1)?;
            }
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "it belongs to its caller")]
    fn skip_blocks<'a>(
        &self,
        input: &mut Input<'a>,
        mut skip: impl FnMut(&mut Input<'a>) -> Filled,
    ) -> Filled {
        loop {
            let count = input.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let before = input.left();
                skip(input)?;
                if input.left() == before {
                    input.count_empty()?;
                }
            }
        }
    }
}

fn branch<'p>(branches: &'p [Plan], input: &mut Input<'_>) -> Filled<&'p Plan> {
    let index = input.long()?;
    let branch = usize::try_from(index)
        .ok()
        .and_then(|index| branches.get(index));
    branch.ok_or_else(|| Bad::new(format!("the union has no branch {index}")))
}

#[inline]
fn integer(values: &mut Values, value: i64) -> Filled {
    fn narrow<T: TryFrom<i64>>(values: &mut Vec<T>, value: i64) -> Filled {
        let narrowed = T::try_from(value);
        values.push(
            narrowed.map_err(|_| Bad::new(format!("{value} is out of the range of the column")))?,
        );
        Ok(())
    }
    match values {
        Values::Int64(values) | Values::Timestamp(_, values) => values.push(value),
        Values::Int32(values) | Values::Date(values) => narrow(values, value)?,
        Values::Time32(unit, values) => narrow(values, time::of_day(value, *unit)?)?,
        Values::Time64(unit, values) => values.push(time::of_day(value, *unit)?),
        Values::Int16(values) => narrow(values, value)?,
        Values::Int8(values) => narrow(values, value)?,
        Values::UInt8(values) => narrow(values, value)?,
        Values::UInt16(values) => narrow(values, value)?,
        Values::UInt32(values) => narrow(values, value)?,
        Values::UInt64(values) => narrow(values, value)?,
        Values::Float32(values) => values.push(value as f32),
        Values::Float64(values) => values.push(value as f64),
        _ => return Err(unfit()),
    }
    Ok(())
}

fn float(values: &mut Values, value: f64) -> Filled {
    match values {
        Values::Float32(values) => values.push(value as f32),
        Values::Float64(values) => values.push(value),
        _ => return Err(unfit()),
    }
    Ok(())
}

fn unfit() -> Bad {
    Bad::new("the plan does not fit the column")
}
