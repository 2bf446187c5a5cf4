//! A decoder: a schema, a format, and the loop over rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::avro::{self, Avro};
use crate::column::{self, Struct, Values};
use crate::error::{Bad, BadRow, DecodeError, Filled, SchemaError};
use crate::frame::{Framed, Framing, SchemaId};
use crate::protobuf::{self, Protobuf};
use crate::{csv, json};

/// The most schemas that one batch makes a decoder request: any record can name any id, and each
/// costs a request.
pub const MOST_NEW_IDS: usize = 1_000;

/// How many rows the columns are inferred from.
const MOST_INFERRED: usize = 1_000;

/// Ids that have no schema now, and why: their rows are bad. A later batch may find that they have one.
pub type Missing = FxHashMap<SchemaId, String>;

/// What becomes of a row that does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It ends the decode with an error that names it.
    Fail,
    /// It is null in all columns, and its bytes stand in a column of their own.
    Permissive,
    /// It is left out.
    Drop,
}

/// What a decoder is given of a record.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The key or value; `None`, as of a tombstone, is null in all columns.
    pub value: Option<&'a [u8]>,
    /// The header of the record that holds a schema id, if it has it.
    pub schema_id: Option<&'a [u8]>,
}

/// Typed rows, and those that are not.
#[derive(Debug)]
pub struct Decoded {
    /// The columns of [`Decoder::schema`]; all rows, or with [`Mode::Drop`] the good ones.
    pub batch: RecordBatch,
    /// In order.
    pub bad: Vec<BadRow>,
}

/// Decodes bytes to the columns of one schema. Clones share what they know.
#[derive(Debug, Clone)]
pub struct Decoder {
    fields: Fields,
    framing: Framing,
    format: Arc<Format>,
    /// What a registry has, or why that cannot be used.
    writers: FxHashMap<SchemaId, Result<Arc<Writer>, Arc<str>>>,
}

#[derive(Debug, Clone)]
enum Format {
    Json,
    Csv {
        delimiter: u8,
        /// The column of each field of a line.
        places: Vec<Option<usize>>,
    },
    Text,
    Raw,
    Avro {
        reader: Avro,
        writer: Option<avro::Writer>,
    },
    Protobuf(Protobuf),
}

#[derive(Debug)]
enum Writer {
    Avro(avro::Writer),
    Protobuf(protobuf::File),
}

impl Decoder {
    /// JSON objects, a field for each column.
    ///
    /// # Errors
    /// [`SchemaError`] for a type without columns, or a map whose keys are not strings.
    pub fn json(fields: Fields, framing: Framing) -> Result<Self, SchemaError> {
        json::check(&Struct::new(&fields, 0)?)?;
        Self::of(fields, framing, Format::Json)
    }

    /// JSON objects, with the columns that a JSON Schema describes: all of them, or those that `select` names, in any order. What is
    /// wrong with the others is of no matter.
    ///
    /// # Errors
    /// [`SchemaError`] for a text that is no JSON Schema of an object, or holds what no column can.
    pub fn json_schema(
        schema: &str,
        framing: Framing,
        select: Option<&[String]>,
    ) -> Result<Self, SchemaError> {
        Self::json(json::fields(schema, select)?, framing)
    }

    /// Lines of values, a field for each column.
    ///
    /// # Errors
    /// [`SchemaError`] for nested types and bytes.
    pub fn csv(fields: Fields, delimiter: u8) -> Result<Self, SchemaError> {
        if !delimiter.is_ascii() || matches!(delimiter, b'"' | b'\n' | b'\r') {
            return Err(SchemaError::new(
                "the delimiter of CSV is one ASCII character other than a quote or a line end",
            ));
        }
        csv::check(&Struct::new(&fields, 0)?)?;
        let places = (0..fields.len()).map(Some).collect();
        Self::of(fields, Framing::Plain, Format::Csv { delimiter, places })
    }

    /// UTF-8 as it is, in one column of this name.
    ///
    /// # Errors
    /// None so far.
    pub fn text(name: &str) -> Result<Self, SchemaError> {
        let field = Field::new(name, DataType::Utf8, true);
        Self::of(Fields::from(vec![field]), Framing::Plain, Format::Text)
    }

    /// Bytes as they are, in one column of this name.
    ///
    /// # Errors
    /// None so far.
    pub fn raw(name: &str) -> Result<Self, SchemaError> {
        let field = Field::new(name, DataType::Binary, true);
        Self::of(Fields::from(vec![field]), Framing::Plain, Format::Raw)
    }

    /// JSON objects, with the columns that the first of these rows have.
    ///
    /// # Errors
    /// [`SchemaError`] if none of them is an object.
    pub fn inferred<'a>(
        rows: impl Iterator<Item = Row<'a>>,
        framing: Framing,
    ) -> Result<Self, SchemaError> {
        let payloads = rows.filter_map(|row| {
            let value = row.value?;
            match framing {
                Framing::Plain => Some(value),
                Framing::Confluent => Some(Framed::new(value, row.schema_id).ok()?.payload()),
            }
        });
        let fields = json::infer(payloads.take(MOST_INFERRED)).ok_or_else(|| {
            SchemaError::new(
                "no record is a JSON object with fields, whose columns could be inferred: pass a schema",
            )
        })?;
        Self::json(fields, framing)
    }

    /// Avro data, with the columns of a reader's schema in Avro's JSON. `references` are schemas that it names.
    ///
    /// `writer` is the schema that the data was written with, if it is another; with [`Framing::Confluent`] each value names its
    /// own, and [`Self::add_writer`] brings them. `select` as for [`Self::json_schema`].
    ///
    /// # Errors
    /// [`SchemaError`] for a text that is no Avro schema, a type without columns, or a writer's schema that does not resolve to
    /// the reader's.
    pub fn avro(
        reader: &str,
        references: &[String],
        writer: Option<&str>,
        framing: Framing,
        select: Option<&[String]>,
    ) -> Result<Self, SchemaError> {
        let reader_schema = avro::Schema::parse(reader, references)?;
        let (fields, reader) = Avro::of_schema(&reader_schema, select)?;
        let writer = match writer {
            Some(text) => avro::Schema::parse(text, &[])?,
            None => reader_schema,
        };
        let writer = Some(avro::Writer::new(writer, &reader)?);
        Self::of(fields, framing, Format::Avro { reader, writer })
    }

    /// Avro data, with the columns given. `writer` as for [`Self::avro`].
    ///
    /// # Errors
    /// [`SchemaError`] as there, and if without framing there is no `writer`.
    pub fn avro_to(
        fields: Fields,
        writer: Option<&str>,
        framing: Framing,
    ) -> Result<Self, SchemaError> {
        let reader = Avro::of_fields(&fields);
        let writer = match (writer, framing) {
            (Some(text), _) => Some(avro::Writer::new(avro::Schema::parse(text, &[])?, &reader)?),
            (None, Framing::Confluent) => None,
            (None, Framing::Plain) => {
                return Err(SchemaError::new(
                    "Avro data does not contain its schema: pass the writer's schema, or a registry if values begin with a schema id",
                ));
            }
        };
        Self::of(fields, framing, Format::Avro { reader, writer })
    }

    /// Protobuf messages, with a column for each field. `descriptors` is a `FileDescriptorSet` or a `FileDescriptorProto`,
    /// `message` the full name of a message in it; without it, the first message of the last file. `select` as for
    /// [`Self::json_schema`].
    ///
    /// # Errors
    /// [`SchemaError`] for descriptors that do not decode, a message that is not there, or that contains itself.
    pub fn protobuf(
        descriptors: &[Vec<u8>],
        message: Option<&str>,
        framing: Framing,
        select: Option<&[String]>,
    ) -> Result<Self, SchemaError> {
        let file = protobuf::File::parse(descriptors)?;
        let (fields, protobuf) = Protobuf::new(&file, message, select)?;
        Self::of(fields, framing, Format::Protobuf(protobuf))
    }

    fn of(fields: Fields, framing: Framing, format: Format) -> Result<Self, SchemaError> {
        Struct::new(&fields, 0)?;
        Ok(Self {
            fields,
            framing,
            format: Arc::new(format),
            writers: FxHashMap::default(),
        })
    }

    /// Only these columns, in this order. The others are passed over as cheaply as the format allows, and what is wrong with one of
    /// them makes a row bad only if the rest cannot be found behind it. To be called before writers are brought.
    ///
    /// # Errors
    /// [`SchemaError`] for a name that the schema does not have, or has twice here, and for no name at all.
    pub fn select(self, names: &[String]) -> Result<Self, SchemaError> {
        if names.is_empty() {
            return Err(SchemaError::new("no column is selected"));
        }
        let mut places = Vec::with_capacity(names.len());
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let known = self.fields.iter().map(|field| field.name().as_str());
            let (place, field) = self
                .fields
                .find(name)
                .ok_or_else(|| column::not_there(name, known))?;
            places.push(place);
            fields.push(Arc::clone(field));
        }
        let fields = Fields::from(fields);
        let format = match Arc::unwrap_or_clone(self.format) {
            Format::Csv {
                delimiter,
                places: all,
            } => {
                let selected = |old: usize| places.iter().position(|place| *place == old);
                Format::Csv {
                    delimiter,
                    places: all.into_iter().map(|old| old.and_then(selected)).collect(),
                }
            }
            Format::Avro { mut reader, writer } => {
                reader.select(&places, &fields);
                let writer = writer.map(|writer| writer.read_as(&reader)).transpose()?;
                Format::Avro { reader, writer }
            }
            Format::Protobuf(mut protobuf) => {
                protobuf.select(&places);
                Format::Protobuf(protobuf)
            }
            other @ (Format::Json | Format::Text | Format::Raw) => other,
        };
        Self::of(fields, self.framing, format)
    }

    /// Whether values have schema ids.
    #[must_use]
    pub fn is_framed(&self) -> bool {
        self.framing == Framing::Confluent
    }

    /// Whether rows name schemas that [`Self::add_writer`] has to bring.
    #[must_use]
    pub fn needs_writers(&self) -> bool {
        self.framing == Framing::Confluent
            && matches!(*self.format, Format::Avro { .. } | Format::Protobuf(_))
    }

    /// The schema ids in these rows that are not known yet, each once, and at most this many.
    pub fn unknown_ids<'a>(
        &self,
        rows: impl Iterator<Item = Row<'a>>,
        most: usize,
    ) -> Vec<SchemaId> {
        if !self.needs_writers() || most == 0 {
            return Vec::new();
        }
        let mut found: Vec<SchemaId> = Vec::new();
        let mut seen = FxHashSet::default();
        for row in rows {
            let framed = row
                .value
                .and_then(|value| Framed::new(value, row.schema_id).ok());
            if let Some(framed) = framed
                && found.last() != Some(&framed.id)
                && !self.writers.contains_key(&framed.id)
                && seen.insert(framed.id)
            {
                found.push(framed.id);
                if found.len() == most {
                    break;
                }
            }
        }
        found
    }

    /// Brings the schema of an id: Avro's JSON, and the schemas that it names. If it does not fit, rows with it are bad.
    pub fn add_writer(&mut self, id: SchemaId, schema: &str, references: &[String]) {
        let Format::Avro { reader, .. } = &*self.format else {
            return self.refuse_writer(id, "it is a schema of another format");
        };
        let writer = avro::Schema::parse(schema, references)
            .and_then(|schema| avro::Writer::new(schema, reader));
        self.bring(id, writer.map(Writer::Avro));
    }

    /// Brings the descriptors of an id, those that a file needs before it.
    pub fn add_descriptors(&mut self, id: SchemaId, descriptors: &[Vec<u8>]) {
        self.bring(id, protobuf::File::parse(descriptors).map(Writer::Protobuf));
    }

    fn bring(&mut self, id: SchemaId, writer: Result<Writer, SchemaError>) {
        let writer = writer.map(Arc::new);
        self.writers
            .insert(id, writer.map_err(|error| error.to_string().into()));
    }

    /// Rows of this id are bad from now on, for this reason: its schema can never be used.
    pub fn refuse_writer(&mut self, id: SchemaId, reason: &str) {
        self.writers.insert(id, Err(reason.into()));
    }

    /// The columns of what is decoded. `corrupt` names the last one with [`Mode::Permissive`], where all columns are nullable.
    ///
    /// # Errors
    /// [`SchemaError`] if the schema has a field of that name.
    pub fn schema(&self, mode: Mode, corrupt: &str) -> Result<SchemaRef, SchemaError> {
        if mode != Mode::Permissive {
            return Ok(Arc::new(Schema::new(self.fields.clone())));
        }
        if self.fields.find(corrupt).is_some() {
            return Err(SchemaError::new(format!(
                "the schema has a field {corrupt:?}, which is to hold bad rows: choose another name for those"
            )));
        }
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        let mut fields: Vec<Field> = self.fields.iter().map(nullable).collect();
        fields.push(Field::new(corrupt, DataType::Binary, true));
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Decodes rows to the columns of `schema`, which [`Self::schema`] made for this mode. `missing` are ids of
    /// [`Self::unknown_ids`] that have no schema, and rows with another unknown id are bad, too; without it, the first row whose
    /// schema is not known ends the decode.
    ///
    /// # Errors
    /// [`DecodeError::Row`] with [`Mode::Fail`]; [`DecodeError::TooLarge`] in every mode; [`DecodeError::UnknownSchema`] without
    /// `missing`.
    pub fn decode<'a>(
        &self,
        rows: impl Iterator<Item = Row<'a>>,
        schema: &SchemaRef,
        mode: Mode,
        missing: Option<&Missing>,
    ) -> Result<Decoded, DecodeError> {
        let invalid = |error: SchemaError| DecodeError::Arrow(error.to_string());
        let mut columns = Struct::new(&self.fields, 0).map_err(invalid)?;
        let mut writers = Writers::new(self, missing);
        let mut corrupt = Corrupt::default();
        let mut bad = Vec::new();
        let mut length = 0;
        for (index, row) in rows.enumerate() {
            let filled = match row.value {
                Some(value) => self.fill(&mut columns, length, value, row.schema_id, &mut writers),
                None if mode == Mode::Permissive => {
                    columns.push_nulls();
                    Ok(())
                }
                None => columns.fill_up(length),
            };
            let Err(reason) = filled else {
                length += 1;
                continue;
            };
            columns.truncate(length);
            let found = reason.at(index)?;
            match mode {
                Mode::Fail => return Err(DecodeError::Row(found)),
                Mode::Drop => {}
                Mode::Permissive => {
                    columns.push_nulls();
                    corrupt.push(length, row.value)?;
                    length += 1;
                }
            }
            bad.push(found);
        }
        let arrow = |error: arrow_schema::ArrowError| DecodeError::Arrow(error.to_string());
        let mut arrays = columns.finish(&self.fields).map_err(arrow)?;
        if mode == Mode::Permissive {
            arrays.push(corrupt.finish(length).map_err(arrow)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
            .map_err(arrow)?;
        Ok(Decoded { batch, bad })
    }

    fn fill(
        &self,
        columns: &mut Struct,
        row: usize,
        value: &[u8],
        header: Option<&[u8]>,
        writers: &mut Writers<'_>,
    ) -> Filled {
        let framed = match self.framing {
            Framing::Plain => None,
            Framing::Confluent => Some(Framed::new(value, header)?),
        };
        match (&*self.format, framed) {
            (Format::Json, None) => json::object(columns, row, value),
            (Format::Json, Some(framed)) => json::object(columns, row, framed.payload()),
            (Format::Csv { delimiter, places }, _) => csv::line(columns, value, *delimiter, places),
            (Format::Text | Format::Raw, _) => single(columns, value),
            (
                Format::Avro {
                    writer: Some(writer),
                    ..
                },
                None,
            ) => writer.fill(columns, row, value),
            (Format::Avro { .. }, None) => Err(Bad::new("there is no writer's schema")),
            (Format::Avro { .. }, Some(framed)) => match writers.get(framed.id)? {
                Writer::Avro(writer) => writer.fill_framed(columns, row, framed.payload()),
                Writer::Protobuf(_) => Err(other_format(framed.id)),
            },
            (Format::Protobuf(protobuf), None) => protobuf.fill(columns, row, value),
            (Format::Protobuf(protobuf), Some(framed)) => match writers.get(framed.id)? {
                Writer::Protobuf(file) => protobuf.fill_framed(columns, row, file, &framed),
                Writer::Avro(_) => Err(other_format(framed.id)),
            },
        }
    }
}

/// The writers of the rows of one decode, most of which have that of the row before.
struct Writers<'a> {
    known: &'a FxHashMap<SchemaId, Result<Arc<Writer>, Arc<str>>>,
    missing: Option<&'a Missing>,
    last: Option<(SchemaId, &'a Writer)>,
}

impl<'a> Writers<'a> {
    fn new(decoder: &'a Decoder, missing: Option<&'a Missing>) -> Self {
        Self {
            known: &decoder.writers,
            missing,
            last: None,
        }
    }

    #[inline]
    fn get(&mut self, id: SchemaId) -> Filled<&'a Writer> {
        match self.last {
            Some((last, writer)) if last == id => Ok(writer),
            _ => self.find(id),
        }
    }

    fn find(&mut self, id: SchemaId) -> Filled<&'a Writer> {
        let refused = |reason: &str| Bad::new(format!("its schema {id} cannot be used: {reason}"));
        match (self.known.get(&id), self.missing) {
            (Some(Ok(writer)), _) => {
                self.last = Some((id, writer));
                Ok(writer)
            }
            (Some(Err(reason)), _) => Err(refused(reason)),
            (None, None) => Err(Bad::unknown_schema()),
            (None, Some(missing)) => Err(match missing.get(&id) {
                Some(reason) => refused(reason),
                None => Bad::new(format!(
                    "its schema {id} is not known; of one batch, at most {MOST_NEW_IDS} new ids are asked for"
                )),
            }),
        }
    }
}

fn other_format(id: SchemaId) -> Bad {
    Bad::new(format!("its schema {id} is of another format"))
}

/// The whole value as text or bytes.
fn single(columns: &mut Struct, value: &[u8]) -> Filled {
    let [column] = columns.columns.as_mut_slice() else {
        return Err(Bad::new("one column is wanted"));
    };
    match &mut column.values {
        Values::Text(slices) => {
            if let Err(error) = std::str::from_utf8(value) {
                return Err(Bad::new(format!(
                    "byte {} is not UTF-8",
                    error.valid_up_to()
                )));
            }
            slices.push(value)?;
        }
        Values::Binary(slices) => slices.push(value)?,
        _ => return Err(Bad::new("text or bytes are wanted")),
    }
    column.push_valid();
    Ok(())
}

/// The bytes of bad rows, and null for the others: nothing is written for a row until a bad one follows.
struct Corrupt {
    ends: Vec<i32>,
    data: Vec<u8>,
    nulls: NullBufferBuilder,
}

impl Default for Corrupt {
    fn default() -> Self {
        Self {
            ends: vec![0],
            data: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }
}

impl Corrupt {
    fn push(&mut self, row: usize, value: Option<&[u8]>) -> Result<(), DecodeError> {
        self.fill_up(row);
        self.data.extend_from_slice(value.unwrap_or_default());
        let end = i32::try_from(self.data.len());
        self.ends
            .push(end.map_err(|_| DecodeError::TooLarge("of bad rows".to_owned()))?);
        self.nulls.append(value.is_some());
        Ok(())
    }

    /// Null in every row up to this one that has no value.
    fn fill_up(&mut self, row: usize) {
        self.nulls.append_n_nulls(row - self.nulls.len());
        let end = self.ends.last().copied().unwrap_or_default();
        self.ends.resize(row + 1, end);
    }

    fn finish(mut self, rows: usize) -> Result<ArrayRef, arrow_schema::ArrowError> {
        self.fill_up(rows);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        let array = BinaryArray::try_new(offsets, self.data.into(), self.nulls.finish())?;
        Ok(Arc::new(array))
    }
}

/// The rows of a batch that are not bad, so that columns of records go next to decoded ones with
/// [`Mode::Drop`].
///
/// # Errors
/// [`DecodeError::Arrow`] if the columns do not form a batch again.
pub fn rows_of(batch: &RecordBatch, bad: &[BadRow]) -> Result<RecordBatch, DecodeError> {
    if bad.is_empty() {
        return Ok(batch.clone());
    }
    let mut arrays = Vec::with_capacity(batch.num_columns());
    let kept = batch.num_rows().saturating_sub(bad.len());
    for column in batch.columns() {
        let data = column.to_data();
        let mut rows = MutableArrayData::new(vec![&data], false, kept);
        let mut start = 0;
        for bad in bad {
            rows.extend(0, start, bad.row);
            start = bad.row + 1;
        }
        rows.extend(0, start, batch.num_rows());
        arrays.push(arrow_array::make_array(rows.freeze()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(kept));
    RecordBatch::try_new_with_options(batch.schema(), arrays, &options)
        .map_err(|error| DecodeError::Arrow(error.to_string()))
}
