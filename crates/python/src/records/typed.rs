//! Keys and values as typed columns: a decoder, and what it makes of a batch. Which schemas a registry has is the business of
//! `ottla._decoding`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Fields, Schema, SchemaRef};
use ottla_columnar::Columns;
use ottla_typed::{
    BadRow, DecodeError, Decoder, Framing, MOST_NEW_IDS, Missing, Mode, Row, SchemaError, SchemaId,
    ddl_fields, is_ddl,
};
use parking_lot::RwLock;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::bridge::calls::Guarded;
use crate::bridge::{calls, errors};
use crate::records::arrow;
use crate::records::batch::{Batch, Chunk};
use crate::records::table::{pandas_frame, polars_frame, pyarrow_table};

/// A decoder of keys or values for one schema. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct TypedDecoder {
    /// A decode takes what is known as it is, and a schema that comes meanwhile makes another one. The lock is taken without the
    /// GIL, and let go before that is wanted again: who held both could wait for ever.
    known: RwLock<Arc<Known>>,
    side: Side,
}

/// Decoders of the same columns, which know different schemas of writers: an id means another schema in each context of a registry,
/// and the topic decides the context.
#[derive(Clone)]
struct Known {
    /// Of topics without schemas so far.
    none: Arc<Decoder>,
    by_topic: HashMap<Arc<str>, Arc<Decoder>>,
}

impl Known {
    fn of(&self, topic: &str) -> &Decoder {
        self.by_topic.get(topic).unwrap_or(&self.none)
    }

    fn of_mut(&mut self, topic: &str) -> &mut Decoder {
        let decoder = self
            .by_topic
            .entry(topic.into())
            .or_insert_with(|| Arc::clone(&self.none));
        Arc::make_mut(decoder)
    }
}

/// Ids of a batch that have no schema now, by topic.
type MissingOf = HashMap<String, Missing>;

/// What of a record is decoded.
#[derive(Clone, Copy)]
enum Side {
    Key,
    Value,
}

impl Side {
    fn named(column: &str) -> PyResult<Self> {
        match column {
            "key" => Ok(Side::Key),
            "value" => Ok(Side::Value),
            _ => Err(errors::argument(&format!(
                "column is \"key\" or \"value\", and was {column:?}"
            ))),
        }
    }

    fn of(self, columns: &Columns, row: usize) -> Option<&[u8]> {
        match self {
            Side::Key => columns.key(row),
            Side::Value => columns.value(row),
        }
    }

    /// The header in which Confluent's serializers put a schema id.
    fn header(self) -> &'static str {
        match self {
            Side::Key => "__key_schema_id",
            Side::Value => "__value_schema_id",
        }
    }

    fn rows(self, columns: &Columns, framed: bool) -> impl Iterator<Item = Row<'_>> {
        let header = self.header();
        let framed = framed && columns.has_headers();
        (0..columns.len()).map(move |row| Row {
            value: self.of(columns, row),
            schema_id: if framed {
                let named = columns.headers(row).filter(|(name, _)| *name == header);
                named.last().and_then(|(_, id)| id)
            } else {
                None
            },
        })
    }
}

#[pymethods]
impl TypedDecoder {
    #[new]
    #[pyo3(signature = (
        kind, column, *, schema = None, text = None, references = vec![], writer = None, descriptors = vec![], message = None,
        delimiter = ",", framed = false, select = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "each format takes some of them")]
    fn new(
        kind: &str,
        column: &str,
        schema: Option<&Bound<'_, PyAny>>,
        text: Option<&str>,
        references: Vec<String>,
        writer: Option<&str>,
        descriptors: Vec<Vec<u8>>,
        message: Option<&str>,
        delimiter: &str,
        framed: bool,
        select: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let side = Side::named(column)?;
        // The text of a schema declares columns, unless it is that of the format.
        let (fields, text) = match (schema, text) {
            (Some(schema), text) => (Some(fields_of(schema)?), text),
            (None, Some(text)) if is_ddl(text) => (Some(ddl_fields(text).map_err(invalid)?), None),
            (None, text) => (None, text),
        };
        let framing = framing(framed);
        let decoder = match (kind, fields, text) {
            ("json", Some(fields), _) => Decoder::json(fields, framing),
            ("json", None, Some(text)) => Decoder::json_schema(text, framing, select.as_deref()),
            ("avro", Some(fields), _) => Decoder::avro_to(fields, writer, framing),
            ("avro", None, Some(text)) => {
                Decoder::avro(text, &references, writer, framing, select.as_deref())
            }
            ("protobuf", None, None) => {
                Decoder::protobuf(&descriptors, message, framing, select.as_deref())
            }
            ("csv", Some(fields), _) => match delimiter.as_bytes() {
                [delimiter] => Decoder::csv(fields, *delimiter),
                _ => Err(SchemaError(format!(
                    "the delimiter of CSV is one ASCII character, and was {delimiter:?}"
                ))),
            },
            ("string", None, None) => Decoder::text(column),
            ("raw", None, None) => Decoder::raw(column),
            _ => Err(SchemaError(format!(
                "format {kind:?} does not take this schema"
            ))),
        };
        Self::of(decoder, side, select.as_deref())
    }

    /// A decoder of JSON with the columns of a batch's first records.
    #[staticmethod]
    fn inferred(
        py: Python<'_>,
        batch: &Bound<'_, Batch>,
        column: &str,
        framed: bool,
        select: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let side = Side::named(column)?;
        let chunks = batch.get().chunks();
        let decoder = py.detach(|| {
            let rows = chunks
                .iter()
                .flat_map(|chunk| side.rows(chunk.columns(), framed));
            Decoder::inferred(rows, framing(framed))
        });
        Self::of(decoder, side, select.as_deref())
    }

    /// The topics of a batch's records, each once.
    #[staticmethod]
    fn topics(batch: &Bound<'_, Batch>) -> Vec<String> {
        let mut found: Vec<&str> = Vec::new();
        for chunk in batch.get().chunks() {
            let columns = chunk.columns();
            if !columns.is_empty() && !found.contains(&&**columns.topic()) {
                found.push(columns.topic());
            }
        }
        found.into_iter().map(str::to_owned).collect()
    }

    /// The columns of what is decoded, as an `arrow_schema` capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let known = py.detach(|| self.known());
        let schema = known.none.schema(Mode::Fail, "").map_err(invalid)?;
        arrow::export_schema(py, &schema)
    }

    /// Ids of schemas in a batch that were not brought yet, with the topics of their records, as
    /// many as one batch needs: numbers, and GUIDs as 16 bytes.
    fn unknown_ids<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, Batch>,
    ) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let chunks = batch.get().chunks();
        let found = py.detach(|| {
            let known = self.known();
            let mut found = Vec::new();
            let mut topics: Vec<&str> = chunks
                .iter()
                .map(|chunk| &**chunk.columns().topic())
                .collect();
            topics.sort_unstable();
            topics.dedup();
            for topic in topics {
                let rows = chunks
                    .iter()
                    .map(|chunk| chunk.columns())
                    .filter(|columns| &**columns.topic() == topic)
                    .flat_map(|columns| self.side.rows(columns, true));
                let left = MOST_NEW_IDS - found.len();
                let ids = known.of(topic).unknown_ids(rows, left);
                found.extend(ids.into_iter().map(|id| (topic.to_owned(), id)));
            }
            found
        });
        let object = |(topic, id)| {
            let id = match id {
                SchemaId::Number(id) => id.into_pyobject(py)?.into_any(),
                SchemaId::Guid(guid) => PyBytes::new(py, &guid).into_any(),
            };
            Ok((topic, id))
        };
        found.into_iter().map(object).collect()
    }

    /// Brings an Avro schema for the records of a topic.
    fn add_writer(
        &self,
        py: Python<'_>,
        topic: &str,
        schema_id: Id,
        text: &str,
        references: Vec<String>,
    ) {
        self.learn(py, topic, |decoder| {
            decoder.add_writer(schema_id.0, text, &references);
        });
    }

    /// Brings Protobuf descriptors for the records of a topic.
    fn add_descriptors(
        &self,
        py: Python<'_>,
        topic: &str,
        schema_id: Id,
        descriptors: Vec<Vec<u8>>,
    ) {
        self.learn(py, topic, |decoder| {
            decoder.add_descriptors(schema_id.0, &descriptors);
        });
    }

    /// Marks a schema as unusable, with the reason: rows of the topic with this id are bad.
    fn refuse_writer(&self, py: Python<'_>, topic: &str, schema_id: Id, reason: &str) {
        self.learn(py, topic, |decoder| {
            decoder.refuse_writer(schema_id.0, reason);
        });
    }

    /// Decodes a batch, on this thread and without the interpreter. `missing` are ids that have no schema now, and why; without
    /// it, nothing is decoded of a batch that has an id which is not known.
    fn decode(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, Batch>,
        mode: &str,
        keep: Vec<String>,
        corrupt: &str,
        missing: Option<Vec<(String, Id, String)>>,
    ) -> PyResult<Option<Decoded>> {
        let mode = match mode {
            "fail" => Mode::Fail,
            "permissive" => Mode::Permissive,
            "drop" => Mode::Drop,
            _ => {
                return Err(errors::argument(&format!(
                    "mode is \"fail\", \"permissive\" or \"drop\", and was {mode:?}"
                )));
            }
        };
        let missing = missing.map(|ids| {
            let mut by_topic = MissingOf::new();
            for (topic, id, why) in ids {
                by_topic.entry(topic).or_default().insert(id.0, why);
            }
            by_topic
        });
        let known = py.detach(|| self.known());
        let typed = known.none.schema(mode, corrupt).map_err(invalid)?;
        let plan = Plan::new(typed, &keep)?;
        let chunks = batch.get().chunks();
        let decoded = py.detach(|| plan.decode(&known, self.side, chunks, mode, missing.as_ref()));
        match decoded {
            Ok(decoded) => Ok(Some(decoded)),
            Err(failure) if failure.error == DecodeError::UnknownSchema => Ok(None),
            Err(failure) => Err(failure.raise()),
        }
    }
}

impl TypedDecoder {
    fn of(
        decoder: Result<Decoder, SchemaError>,
        side: Side,
        select: Option<&[String]>,
    ) -> PyResult<Self> {
        let decoder = match select {
            Some(names) => decoder.and_then(|decoder| decoder.select(names)),
            None => decoder,
        };
        let known = Known {
            none: Arc::new(decoder.map_err(invalid)?),
            by_topic: HashMap::new(),
        };
        Ok(Self {
            known: RwLock::new(Arc::new(known)),
            side,
        })
    }

    /// What is known now. To be called without the GIL.
    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read())
    }

    fn learn(&self, py: Python<'_>, topic: &str, change: impl FnOnce(&mut Decoder) + Send) {
        py.detach(|| change(Arc::make_mut(&mut self.known.write()).of_mut(topic)));
    }
}

/// The id of a schema as Python has it.
struct Id(SchemaId);

impl FromPyObject<'_, '_> for Id {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(guid) = object.extract::<[u8; 16]>() {
            return Ok(Id(SchemaId::Guid(guid)));
        }
        Ok(Id(SchemaId::Number(object.extract()?)))
    }
}

/// The columns to be made: some of the records, then the typed ones.
struct Plan {
    kept: Vec<usize>,
    typed: SchemaRef,
    schema: SchemaRef,
}

impl Plan {
    fn new(typed: SchemaRef, keep: &[String]) -> PyResult<Self> {
        let records = ottla_columnar::schema();
        let mut kept = Vec::with_capacity(keep.len());
        for name in keep {
            kept.push(records.index_of(name).map_err(|_| {
                errors::argument(&format!(
                    "keep names the columns of records, such as key, topic, partition, offset, timestamp and headers; there \
                     is no column {name:?}"
                ))
            })?);
        }
        let mut fields: Vec<Arc<Field>> = Vec::new();
        for column in &kept {
            fields.extend(records.fields().get(*column).cloned());
        }
        fields.extend(typed.fields().iter().cloned());
        for (at, field) in fields.iter().enumerate() {
            let before = fields.iter().take(at);
            if before.clone().any(|other| other.name() == field.name()) {
                return Err(errors::argument(&format!(
                    "two columns would be named {:?}: leave it out of keep, or rename the field of the schema",
                    field.name()
                )));
            }
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Self {
            kept,
            typed,
            schema,
        })
    }

    fn decode(
        &self,
        known: &Known,
        side: Side,
        chunks: &[Arc<Chunk>],
        mode: Mode,
        missing: Option<&MissingOf>,
    ) -> Result<Decoded, Failure> {
        let none = Missing::default();
        let framed = known.none.is_framed();
        let mut batches = Vec::with_capacity(chunks.len());
        let mut bad = Vec::new();
        let mut first = 0;
        for chunk in chunks {
            let columns = chunk.columns();
            let fail = |error| Failure::new(columns, error);
            let missing = missing.map(|found| found.get(&**columns.topic()).unwrap_or(&none));
            let decoded = known
                .of(columns.topic())
                .decode(side.rows(columns, framed), &self.typed, mode, missing)
                .map_err(fail)?;
            let left_out: &[BadRow] = match mode {
                Mode::Drop => &decoded.bad,
                Mode::Fail | Mode::Permissive => &[],
            };
            batches.push(
                self.beside(columns, left_out, decoded.batch)
                    .map_err(fail)?,
            );
            bad.extend(decoded.bad.into_iter().map(|row| Bad {
                chunk: Arc::clone(chunk),
                first,
                row,
            }));
            first += columns.len();
        }
        Ok(Decoded {
            schema: Arc::clone(&self.schema),
            length: batches.iter().map(RecordBatch::num_rows).sum(),
            batches,
            side,
            bad,
        })
    }

    /// Columns of the records before the typed ones.
    fn beside(
        &self,
        columns: &Columns,
        left_out: &[BadRow],
        typed: RecordBatch,
    ) -> Result<RecordBatch, DecodeError> {
        let arrow = |text: String| DecodeError::Arrow(text);
        if self.kept.is_empty() {
            return Ok(typed);
        }
        let records = columns
            .record_batch_of(&self.kept)
            .map_err(|error| arrow(error.to_string()))?;
        let records = ottla_typed::rows_of(&records, left_out)?;
        let arrays: Vec<ArrayRef> = [records.columns(), typed.columns()].concat();
        let options = RecordBatchOptions::new().with_row_count(Some(typed.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| arrow(error.to_string()))
    }
}

/// Why a decode ended, and of which record.
struct Failure {
    topic: Arc<str>,
    partition: i32,
    offset: Option<i64>,
    error: DecodeError,
}

impl Failure {
    fn new(columns: &Columns, error: DecodeError) -> Self {
        let offset = match &error {
            DecodeError::Row(bad) => Some(columns.offset(bad.row)),
            _ => None,
        };
        Self {
            topic: Arc::clone(columns.topic()),
            partition: columns.partition(),
            offset,
            error,
        }
    }

    fn raise(self) -> PyErr {
        match (&self.error, self.offset) {
            (DecodeError::Row(bad), Some(offset)) => {
                errors::undecodable(&self.topic, self.partition, offset, &bad.column, bad)
            }
            (error, _) => errors::argument(&format!(
                "partition {} of topic {:?}: {error}",
                self.partition, self.topic
            )),
        }
    }
}

/// Where a bad row is.
struct Bad {
    chunk: Arc<Chunk>,
    /// The row of the batch with which the chunk begins.
    first: usize,
    row: BadRow,
}

/// The records of a batch as typed columns, with those that do not decode apart. Immutable; any thread may use it.
///
/// `len()` counts the rows. It is a table to any Arrow library, as in `polars.DataFrame(decoded)`.
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Decoded {
    schema: SchemaRef,
    length: usize,
    batches: Vec<RecordBatch>,
    side: Side,
    bad: Vec<Bad>,
}

#[pymethods]
impl Decoded {
    fn __len__(&self) -> usize {
        self.length
    }

    /// The records that do not decode, in order, as `BadRecord`.
    #[getter]
    fn bad<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let class = calls::class(&CLASS, py, "ottla._types", "BadRecord")?;
        let found = PyList::empty(py);
        for bad in &self.bad {
            let columns = bad.chunk.columns();
            let value = self.side.of(columns, bad.row.row);
            found.append(class.guarded_call((
                bad.first + bad.row.row,
                bad.chunk.topic(py),
                columns.partition(),
                columns.offset(bad.row.row),
                &bad.row.column,
                &bad.row.reason,
                value.map(|value| PyBytes::new(py, value)),
            ))?)?;
        }
        Ok(found)
    }

    /// Return the columns as a `pyarrow.Table`, without a copy.
    ///
    /// Returns:
    ///     A `pyarrow.Table` with a row for each decoded record.
    ///
    /// Raises:
    ///     ImportError: pyarrow is not installed.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        pyarrow_table(slf.as_any())
    }

    /// Return the columns as a `polars.DataFrame`, without a copy.
    ///
    /// Returns:
    ///     A `polars.DataFrame` with a row for each decoded record.
    ///
    /// Raises:
    ///     ImportError: polars is not installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        polars_frame(slf.as_any())
    }

    /// Return the columns as a `pandas.DataFrame`.
    ///
    /// Returns:
    ///     A `pandas.DataFrame` with a row for each decoded record.
    ///
    /// Raises:
    ///     ImportError: pandas or pyarrow is not installed.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        pandas_frame(slf.as_any())
    }

    /// What notebooks show: a table of the first and the last rows.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static TABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let table = calls::class(&TABLE, slf.py(), "ottla._notebook", "decoded_table")?;
        table.guarded_call((slf,))
    }

    /// The columns as an `arrow_array_stream` capsule, by the Arrow PyCapsule interface, in their own types.
    #[pyo3(signature = (requested_schema = None))]
    #[expect(unused_variables, reason = "best effort, as the interface has it")]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::export_stream(py, Arc::clone(&self.schema), self.batches.clone())
    }

    /// The schema as an `arrow_schema` capsule, by the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::export_schema(py, &self.schema)
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        format!(
            "Decoded({} rows: {}; {} bad)",
            self.length,
            names.join(", "),
            self.bad.len()
        )
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err(
            "Decoded cannot be pickled: send decoded.to_arrow(), which can",
        ))
    }
}

/// The fields of any object that speaks the PyCapsule interface for schemas.
pub(crate) fn fields_of(schema: &Bound<'_, PyAny>) -> PyResult<Fields> {
    let capsule = schema
        .guarded_method(intern!(schema.py(), "__arrow_c_schema__"), ())?
        .cast_into::<PyCapsule>()?;
    Ok(arrow::import_schema(&capsule)?.fields)
}

fn framing(is_framed: bool) -> Framing {
    match is_framed {
        true => Framing::Confluent,
        false => Framing::Plain,
    }
}

fn invalid(error: SchemaError) -> PyErr {
    errors::argument(&error.to_string())
}
