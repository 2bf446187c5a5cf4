//! A batch of consumed records: Arrow columns, with records as views over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ottla_client::LockId;
use ottla_columnar::Columns;
use parking_lot::Mutex;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyRange, PySlice, PyString, PyTuple};

use crate::bridge::calls;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;
use crate::records::arrow;
use crate::records::table::{self, Part, Table};
use crate::values::partitions::topic_partition;

/// How much of a key or value a `repr` shows, in bytes.
const SHOWN: usize = 40;

fn bytes<'py>(py: Python<'py>, value: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    value.map(|value| PyBytes::new(py, value))
}

/// Records as one poll returned them, kept as columns. Immutable; any thread may use it.
///
/// `len()` counts the records, iteration yields a view of each record, an index returns one record, and a slice returns
/// a batch without a copy. As Arrow data it is a table with the same columns as Spark's Kafka source: key binary, value
/// binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC], timestampType int32, headers
/// list<struct<key: string, value: binary>>, which is null for a record without headers. Any Arrow library accepts it,
/// as in `polars.DataFrame(batch)`.
#[pyclass(frozen, module = "ottla", weakref)]
pub(crate) struct Batch {
    chunks: Arc<[Arc<Chunk>]>,
    length: usize,
}

/// Decoded records of one partition.
pub(crate) struct Chunk {
    columns: Columns,
    /// Made once, when it is first needed: all records of the chunk share it.
    topic: PyOnceLock<Py<PyString>>,
    /// Who acquired them, in a share group.
    shared: Option<Shared>,
    /// Where whoever decodes the next ones learns whether they are to be views.
    in_place: Option<Arc<AtomicBool>>,
}

/// What a share consumer knows of records that it acquired.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    /// The consumer's number.
    pub(crate) consumer: u64,
    pub(crate) lock: LockId,
    pub(crate) delivery_count: i16,
}

/// Consecutive offsets, both ends included, and who acquired them.
pub(crate) type Span = (Option<Shared>, i64, i64);

impl Chunk {
    pub(crate) fn new(columns: Columns) -> Self {
        Chunk {
            columns,
            topic: PyOnceLock::new(),
            shared: None,
            in_place: None,
        }
    }

    /// The same records, of which a decoder learns how they are read.
    pub(crate) fn liked(self, in_place: &Arc<AtomicBool>) -> Self {
        Chunk {
            in_place: Some(Arc::clone(in_place)),
            ..self
        }
    }

    /// The same records, acquired by a share consumer.
    pub(crate) fn shared(self, shared: Shared) -> Self {
        Chunk {
            shared: Some(shared),
            ..self
        }
    }

    fn part(&self, columns: Columns) -> Self {
        Chunk {
            columns,
            topic: PyOnceLock::new(),
            shared: self.shared,
            in_place: self.in_place.clone(),
        }
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    fn part_of_table(&self) -> Part {
        (self.columns.clone(), self.in_place.clone())
    }

    pub(crate) fn topic(&self, py: Python<'_>) -> Py<PyString> {
        let topic = || PyString::new(py, self.columns.topic()).unbind();
        self.topic.get_or_init(py, topic).clone_ref(py)
    }

    fn topic_partition<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        topic_partition(py, self.columns.topic(), self.columns.partition())
    }
}

impl ottla_client::Chunk for Chunk {
    fn len(&self) -> usize {
        self.columns.len()
    }

    fn split_to(&mut self, n: usize) -> Self {
        let first = self.columns.split_to(n);
        self.part(first)
    }

    fn slice(&self, start: usize, length: usize) -> Self {
        self.part(self.columns.slice(start, length))
    }

    fn offset(&self, row: usize) -> i64 {
        self.columns.offset(row)
    }

    fn next_offset(&self) -> i64 {
        self.columns.next_offset()
    }

    fn bytes(&self) -> usize {
        self.columns.bytes()
    }
}

impl Batch {
    pub(crate) fn new(chunks: Vec<Chunk>) -> Self {
        Self::of(chunks.into_iter().map(Arc::new).collect())
    }

    fn of(chunks: Arc<[Arc<Chunk>]>) -> Self {
        Batch {
            length: chunks.iter().map(|chunk| chunk.columns.len()).sum(),
            chunks,
        }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Rows `start` to `end`, without a copy.
    fn slice(&self, start: usize, end: usize) -> Self {
        let mut first = 0;
        let mut chunks = Vec::new();
        for chunk in &*self.chunks {
            let length = chunk.columns.len();
            let from = start.clamp(first, first + length) - first;
            let to = end.clamp(first, first + length) - first;
            if from < to {
                chunks.push(Arc::new(chunk.part(chunk.columns.slice(from, to - from))));
            }
            first += length;
        }
        Self::of(chunks.into())
    }

    /// The offsets of these rows, which ascend.
    pub(crate) fn spans_of(&self, rows: impl IntoIterator<Item = usize>) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut chunks = self.chunks.iter();
        let (mut first, mut current) = (0, chunks.next());
        let mut before = None;
        for row in rows {
            while let Some(chunk) = current.filter(|chunk| row - first >= chunk.columns.len()) {
                first += chunk.columns.len();
                current = chunks.next();
                before = None;
            }
            let Some(chunk) = current else { break };
            let offset = chunk.columns.offset(row - first);
            match spans.last_mut() {
                Some((_, _, last)) if before == Some(offset) => *last = offset,
                _ => spans.push((chunk.shared, offset, offset)),
            }
            before = offset.checked_add(1);
        }
        spans
    }

    fn parts(&self) -> Vec<Part> {
        let parts = self.chunks.iter();
        parts.map(|chunk| chunk.part_of_table()).collect()
    }

    /// Some of the columns, or all, for a library to read.
    fn table<'py>(
        &self,
        py: Python<'py>,
        columns: Option<&Bound<'py, PyAny>>,
        view: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = Table::new(self.parts(), columns, view)?;
        Ok(Bound::new(py, table)?.into_any())
    }

    /// All records, one after the other.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> + use<> {
        let mut cursor = Cursor::new(self);
        std::iter::from_fn(move || cursor.next())
    }

    /// The next records are to be views.
    pub(crate) fn like_views(&self) {
        let chunks = self.chunks.iter();
        for liked in chunks.filter_map(|chunk| chunk.in_place.as_ref()) {
            liked.store(true, Ordering::Relaxed);
        }
    }

    /// Visits the values from a row on, in order, until `visit` returns false. One that is null has no bytes.
    pub(crate) fn visit_values(&self, row: usize, mut visit: impl FnMut(&[u8]) -> bool) {
        let (mut before, mut goes_on) = (0, true);
        for chunk in &*self.chunks {
            let columns = &chunk.columns;
            columns.visit_values(row.saturating_sub(before), |value| {
                goes_on = visit(value);
                goes_on
            });
            if !goes_on {
                return;
            }
            before += columns.len();
        }
    }

    fn record(&self, mut row: usize) -> Option<Record> {
        for chunk in &*self.chunks {
            if row < chunk.columns.len() {
                return Some(Record {
                    shared: chunk.shared,
                    chunk: Arc::clone(chunk),
                    row,
                });
            }
            row -= chunk.columns.len();
        }
        None
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.length
    }

    fn __iter__(&self) -> RecordIterator {
        RecordIterator {
            cursor: Mutex::new(Cursor::new(self)),
        }
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let length = self.length;
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(isize::try_from(length)?)?;
            if range.step != 1 {
                return Err(errors::argument(
                    "a batch is sliced without a copy, so the step of a slice must be 1",
                ));
            }
            let start = usize::try_from(range.start)?;
            return Ok(Bound::new(py, self.slice(start, start + range.slicelength))?.into_any());
        }
        let index: isize = index.guarded_int()?;
        let row = if index < 0 {
            index.checked_add_unsigned(length)
        } else {
            Some(index)
        };
        let row = row.and_then(|row| usize::try_from(row).ok());
        match row.and_then(|row| self.record(row)) {
            Some(record) => Ok(Bound::new(py, record)?.into_any()),
            None => Err(PyIndexError::new_err(format!(
                "record {index} of a batch of {length}"
            ))),
        }
    }

    /// By partition, the offset after these records: commit it, or pass it to `send_offsets`.
    #[getter]
    fn next_offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let offsets = PyDict::new(py);
        for chunk in &*self.chunks {
            let next = chunk.columns.next_offset();
            offsets.set_item(chunk.topic_partition(py)?, next)?;
        }
        Ok(offsets)
    }

    /// The partitions of the records, each once, in the order of their first records.
    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        Ok(self.spans(py)?.keys())
    }

    /// By partition, a `range` from the lowest offset of its records to the one after the highest.
    ///
    /// Between them offsets may be missing, which the log does not hold or which are not records.
    #[getter]
    fn spans<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let spans = PyDict::new(py);
        for chunk in &*self.chunks {
            let Some(last) = chunk.columns.len().checked_sub(1) else {
                continue;
            };
            let partition = chunk.topic_partition(py)?;
            let mut first = chunk.columns.offset(0);
            let mut end = chunk.columns.offset(last) + 1;
            // Batches may have been put together in any order.
            if let Some(before) = spans.get_item(&partition)? {
                first = first.min(before.guarded_attribute(intern!(py, "start"))?.extract()?);
                end = end.max(before.guarded_attribute(intern!(py, "stop"))?.extract()?);
            }
            let span = py.get_type::<PyRange>().guarded_call((first, end))?;
            spans.set_item(partition, span)?;
        }
        Ok(spans)
    }

    /// How often each record was delivered, this one included: an `array` of int16, None without a `ShareConsumer`.
    ///
    /// Libraries that take buffers read it without a copy, such as `numpy.asarray(batch.delivery_count)`.
    #[getter]
    fn delivery_count<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let mut bytes = Vec::with_capacity(self.length * 2);
        for chunk in &*self.chunks {
            let Some(shared) = chunk.shared else {
                return Ok(None);
            };
            let count = shared.delivery_count.to_ne_bytes();
            bytes.extend(std::iter::repeat_n(count, chunk.columns.len()).flatten());
        }
        let array = calls::class(&ARRAY, py, "array", "array")?;
        Ok(Some(array.guarded_call(("h", PyBytes::new(py, &bytes)))?))
    }

    /// The records as an `arrow_array_stream` capsule, by the Arrow PyCapsule interface.
    ///
    /// Args:
    ///     requested_schema: Best effort, as the interface has it: columns can be left out and put in another order, and key
    ///         and value can be binary_view, as `to_arrow(view=True)` gives them; other types are kept.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        Table::requested(self.parts(), requested_schema)?.stream(py)
    }

    /// The columns as an `arrow_schema` capsule, by the Arrow PyCapsule interface.
    #[expect(clippy::unused_self, reason = "the interface calls it on an object")]
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::export_schema(py, &ottla_columnar::schema())
    }

    /// Concatenate batches, without a copy: the records of the first, then those of the next, and so on.
    ///
    /// `batch + batch` does it for two. `next_offsets` are those of the last batch that has the partition.
    ///
    /// Args:
    ///     batches: Any number of them; of none, the result is empty.
    ///
    /// Returns:
    ///     A batch with the records of all.
    #[staticmethod]
    fn concat(batches: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut chunks = Vec::new();
        for batch in batches.guarded_items()? {
            chunks.extend_from_slice(&batch?.cast::<Batch>()?.get().chunks);
        }
        Ok(Self::of(chunks.into()))
    }

    fn __add__(&self, other: &Bound<'_, Self>) -> Self {
        Self::of([&*self.chunks, &*other.get().chunks].concat().into())
    }

    /// Return the batch as a `pyarrow.Table`, without a copy.
    ///
    /// Args:
    ///     columns: Names of the columns that are wanted, in this order; the others are not built. None takes all.
    ///     view: Give key and value as binary_view, which pyarrow, polars and DuckDB read, and which spares the copy:
    ///         once a table of a consumer's records was made so, it decodes the next ones without copying keys and
    ///         values, until a table is made otherwise. They then stay where they were received or, if compressed,
    ///         decompressed. Batches and tables of such records keep all of that in memory, however little of it they
    ///         show: the broker's whole response, of up to `fetch.max.bytes`. Make the tables that are kept for long
    ///         without views.
    ///
    /// Returns:
    ///     A `pyarrow.Table` with a row for each record, and the columns that the class describes.
    ///
    /// Raises:
    ///     ArgumentError: There is no column of a name.
    ///     ImportError: pyarrow is not installed.
    #[pyo3(signature = (columns = None, *, view = false))]
    fn to_arrow<'py>(
        &self,
        py: Python<'py>,
        columns: Option<&Bound<'py, PyAny>>,
        view: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        table::pyarrow_table(&self.table(py, columns, view)?)
    }

    /// Return the batch as a `polars.DataFrame`, as `polars.DataFrame(batch)` makes it.
    ///
    /// Args:
    ///     columns: As for `to_arrow`.
    ///
    /// Returns:
    ///     A `polars.DataFrame` with the columns of `to_arrow`.
    ///
    /// Raises:
    ///     ArgumentError: There is no column of a name.
    ///     ImportError: polars is not installed.
    #[pyo3(signature = (columns = None))]
    fn to_polars<'py>(
        &self,
        py: Python<'py>,
        columns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        table::polars_frame(&self.table(py, columns, false)?)
    }

    /// Return the batch as a `pandas.DataFrame`, with a Python object for each key, value and list of headers.
    ///
    /// Args:
    ///     columns: As for `to_arrow`.
    ///
    /// Returns:
    ///     A `pandas.DataFrame` with the columns of `to_arrow`.
    ///
    /// Raises:
    ///     ArgumentError: There is no column of a name.
    ///     ImportError: pandas or pyarrow is not installed.
    #[pyo3(signature = (columns = None))]
    fn to_pandas<'py>(
        &self,
        py: Python<'py>,
        columns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        table::pandas_frame(&self.table(py, columns, false)?)
    }

    /// Decode keys or values into typed Arrow columns.
    ///
    /// It runs on this thread, without the GIL; under asyncio, `await asyncio.to_thread(batch.decode, schema)` leaves
    /// the loop free. To decode many batches, make an `ottla.Decoder` once and pass it as `schema`.
    ///
    /// Args:
    ///     schema: What to decode to. Columns: a dict of names and types (`{"item": str, "n": "decimal(8,2)"}`), a
    ///         Spark SQL text (`"item string, n decimal(8,2)"`), a `pyarrow.Schema` or another object with
    ///         `__arrow_c_schema__`, or for json "infer", for those of the first records. A schema of the format: an
    ///         Avro schema or a JSON Schema, as text or as a dict; Protobuf descriptors as bytes, or a generated
    ///         message class; a `RegisteredSchema`. None takes the latest schema of the registry's subject. A `Decoder`
    ///         brings its own format and options: other options raise an error.
    ///     format: "json", "avro", "protobuf", "csv", "string" or "raw".
    ///     column: What of the records: "value" or "key".
    ///     mode: What becomes of records that do not decode. "fail" raises for the first; "permissive" makes their
    ///         columns null and puts their bytes into `corrupt_column`; "drop" leaves them out. With the last two,
    ///         `bad` of the result has them, with the reason.
    ///     keep: Columns of the records to put before the typed ones, such as "key", "topic" and "offset".
    ///     registry: A `SchemaRegistry`, or its URL. Values then begin with a schema id, or have it in a header, as
    ///         Confluent's serializers write them.
    ///     subject: The subject whose schemas the ids are; None for that of the record's topic, `TOPIC-value` or
    ///         `TOPIC-key`. It decides the registry's context, as in `":.staging:orders-value"`.
    ///     writer_schema: The Avro schema that the data was written with, if it is not `schema` and there is no
    ///         registry.
    ///     message: The Protobuf message's name; without it, the first of the descriptors' last file.
    ///     framed: Whether values begin with a schema id; the default is whether there is a `registry`. JSON skips the
    ///         ids.
    ///     delimiter: The separator of CSV fields.
    ///     select: Names of the wanted columns, in this order; others are skipped.
    ///     corrupt_column: A name for the bytes of bad records.
    ///
    /// Returns:
    ///     The typed columns and the bad records. A record without a value is null in all columns. If one of them
    ///     is not nullable, it is bad, but with "permissive".
    ///
    /// Raises:
    ///     DecodeError: A record does not decode, and the mode is "fail". It names the record, the column and the
    ///         reason.
    ///     ArgumentError: The schema or an option can never work.
    ///     UnreachableError: The registry cannot be reached.
    #[pyo3(signature = (
        schema = None, format = "json", *, column = "value", mode = "fail", keep = None, registry = None, subject = None,
        writer_schema = None, message = None, framed = None, delimiter = ",", select = None, corrupt_column = "_corrupt"
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "each has a default, and formats take some of them"
    )]
    fn decode<'py>(
        slf: &Bound<'py, Self>,
        schema: Option<&Bound<'py, PyAny>>,
        format: &str,
        column: &str,
        mode: &str,
        keep: Option<&Bound<'py, PyAny>>,
        registry: Option<&Bound<'py, PyAny>>,
        subject: Option<&str>,
        writer_schema: Option<&str>,
        message: Option<&str>,
        framed: Option<bool>,
        delimiter: &str,
        select: Option<&Bound<'py, PyAny>>,
        corrupt_column: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = slf.py();
        let options = PyDict::new(py);
        options.set_item("column", column)?;
        options.set_item("registry", registry)?;
        options.set_item("subject", subject)?;
        options.set_item("writer_schema", writer_schema)?;
        options.set_item("message", message)?;
        options.set_item("framed", framed)?;
        options.set_item("delimiter", delimiter)?;
        options.set_item("select", select)?;
        let decode = calls::class(&DECODE, py, "ottla._decoding", "decode")?;
        decode.guarded_call((slf, schema, format, options, mode, keep, corrupt_column))
    }

    fn __repr__(&self) -> String {
        let shown: Vec<_> = self
            .chunks
            .iter()
            .map(|chunk| {
                let columns = &chunk.columns;
                let last = columns.len().saturating_sub(1);
                format!(
                    "{}[{}] {}..={}",
                    columns.topic(),
                    columns.partition(),
                    columns.offset(0),
                    columns.offset(last)
                )
            })
            .collect();
        match self.length {
            0 => "Batch(empty)".to_owned(),
            length => format!("Batch({length} records: {})", shown.join(", ")),
        }
    }

    /// What notebooks show: a table of the first and the last records.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static TABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let table = calls::class(&TABLE, slf.py(), "ottla._notebook", "table")?;
        table.guarded_call((slf,))
    }

    /// Raises for a missing name; for one that other clients have, the error has ottla's name for
    /// it.
    #[expect(clippy::unused_self, reason = "Python calls it on an object")]
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        static MISSING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let missing = calls::class(&MISSING, py, "ottla._habits", "missing")?;
        Err(PyErr::from_value(missing.guarded_call(("Batch", name))?))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a Batch cannot be pickled: send batch.to_arrow(), which can, or the values that are needed",
        ))
    }
}

/// A place in a batch: the records from it on, one after the other.
struct Cursor {
    chunks: Arc<[Arc<Chunk>]>,
    /// Chunk, and row of the chunk, of the next record.
    index: usize,
    row: usize,
}

impl Cursor {
    fn new(batch: &Batch) -> Self {
        Cursor {
            chunks: Arc::clone(&batch.chunks),
            index: 0,
            row: 0,
        }
    }

    fn next(&mut self) -> Option<Record> {
        loop {
            let chunk = self.chunks.get(self.index)?;
            let row = self.row;
            if row < chunk.columns.len() {
                self.row = row + 1;
                return Some(Record {
                    shared: chunk.shared,
                    chunk: Arc::clone(chunk),
                    row,
                });
            }
            self.index += 1;
            self.row = 0;
        }
    }
}

/// Records of a batch, one after the other. Everybody who iterates it shares its place.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct RecordIterator {
    cursor: Mutex<Cursor>,
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<Record> {
        self.cursor.lock().next()
    }
}

/// One record of a batch.
///
/// It is a view: each access to the key, the value or the headers makes a new Python object.
#[pyclass(frozen, module = "ottla")]
pub(crate) struct Record {
    chunk: Arc<Chunk>,
    row: usize,
    shared: Option<Shared>,
}

impl Record {
    pub(crate) fn new((chunk, row): (Arc<Chunk>, usize)) -> Self {
        Record {
            chunk,
            row,
            shared: None,
        }
    }

    /// A record that a share consumer acquired.
    pub(crate) fn shared(chunk: Arc<Chunk>, row: usize, shared: Shared) -> Self {
        Record {
            chunk,
            row,
            shared: Some(shared),
        }
    }

    /// A second view of it.
    pub(crate) fn again(&self) -> Self {
        Record {
            chunk: Arc::clone(&self.chunk),
            ..*self
        }
    }

    /// Its offset, and who acquired it.
    pub(crate) fn span(&self) -> Span {
        let offset = self.chunk.columns.offset(self.row);
        (self.shared, offset, offset)
    }
}

#[pymethods]
impl Record {
    /// The topic's name.
    #[getter]
    pub(crate) fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.chunk.topic(py)
    }

    /// The partition's number.
    #[getter]
    pub(crate) fn partition(&self) -> i32 {
        self.chunk.columns.partition()
    }

    /// The offset in the partition.
    #[getter]
    pub(crate) fn offset(&self) -> i64 {
        self.chunk.columns.offset(self.row)
    }

    /// Milliseconds since 1970 UTC; -1 if the record has none.
    #[getter]
    pub(crate) fn timestamp(&self) -> i64 {
        self.chunk.columns.timestamp_ms(self.row)
    }

    /// Who set the timestamp: 0 is the producer (CreateTime), 1 the broker (LogAppendTime); -1 without one.
    #[getter]
    pub(crate) fn timestamp_type(&self) -> i32 {
        self.chunk.columns.timestamp_type(self.row)
    }

    /// The key, if it has one.
    #[getter]
    pub(crate) fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes(py, self.chunk.columns.key(self.row))
    }

    /// The value; None is a tombstone.
    #[getter]
    pub(crate) fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes(py, self.chunk.columns.value(self.row))
    }

    /// Names and values, in order; names may repeat.
    #[getter]
    pub(crate) fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let headers = PyList::empty(py);
        for (key, value) in self.chunk.columns.headers(self.row) {
            let pair = (PyString::new(py, key), bytes(py, value));
            headers.append(PyTuple::new(
                py,
                [pair.0.into_any(), pair.1.into_pyobject(py)?.into_any()],
            )?)?;
        }
        Ok(headers)
    }

    /// The epoch of the leader that wrote the record, if the broker reports it (Kafka 0.11 and later).
    #[getter]
    pub(crate) fn leader_epoch(&self) -> Option<i32> {
        Some(self.chunk.columns.leader_epoch(self.row)).filter(|epoch| *epoch >= 0)
    }

    /// How often the record was delivered, this time included; None unless a `ShareConsumer` got it.
    #[getter]
    pub(crate) fn delivery_count(&self) -> Option<i16> {
        self.shared.map(|shared| shared.delivery_count)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let columns = &self.chunk.columns;
        let shown = |value: Option<&[u8]>| -> PyResult<String> {
            let Some(value) = value else {
                return Ok("None".to_owned());
            };
            let start = value.get(..SHOWN).unwrap_or(value);
            let text = PyBytes::new(py, start).guarded_repr()?;
            Ok(if start.len() < value.len() {
                format!("{text}... ({} bytes)", value.len())
            } else {
                text
            })
        };
        Ok(format!(
            "Record(topic={:?}, partition={}, offset={}, timestamp={}, key={}, value={}, headers={})",
            columns.topic(),
            columns.partition(),
            columns.offset(self.row),
            columns.timestamp_ms(self.row),
            shown(columns.key(self.row))?,
            shown(columns.value(self.row))?,
            self.headers(py)?.guarded_repr()?,
        ))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a Record is a view of its Batch and cannot be pickled: send the attributes that are needed, such as record.value",
        ))
    }
}
