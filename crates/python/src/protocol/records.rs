//! Record batches and messages of any age, as plain values; `ottla.protocol` makes its classes of them.

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{self, Batch, Entry, NONE, Record, RecordsError, TimestampType};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::data;
use crate::bridge::errors;

/// Reads what a Fetch response or a Produce request holds. What is cut short at the end is left out.
#[pyfunction]
pub(crate) fn decode_records<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    check_crcs: bool,
    limit: usize,
) -> PyResult<Vec<(Bound<'py, PyTuple>, usize)>> {
    let mut left = limit;
    let mut position = 0;
    let mut decoded = Vec::new();
    for entry in records::entries(data::given("data", data)?) {
        let wrong = |error: RecordsError| errors::corrupt(&format!("at byte {position}: {error}"));
        let read = entry.and_then(|entry| {
            let payload = data::work(py, entry.size(), || {
                if check_crcs {
                    entry.verify_crc()?;
                }
                payload(&entry, &mut left)
            })?;
            Ok((entry, payload))
        });
        let (entry, payload) = read.map_err(wrong)?;
        let contents = Contents::read(&entry, &payload, check_crcs).map_err(wrong)?;
        decoded.push((contents.fields(py, &entry)?, position));
        position += entry.size();
    }
    Ok(decoded)
}

/// The records' bytes, decompressed; the decompressed size is taken off the rest of the limit.
pub(super) fn payload(entry: &Entry, left: &mut usize) -> Result<Bytes, RecordsError> {
    let payload = entry.payload(*left)?;
    if entry.compression()? != Compression::None {
        *left = left.saturating_sub(payload.len());
    }
    Ok(payload)
}

/// What an entry holds, read to its end.
pub(super) struct Contents<'a> {
    first_offset: i64,
    codec: Compression,
    records: Vec<Record<'a>>,
}

impl<'a> Contents<'a> {
    /// Reads all of it; `payload` is what [`payload`] gave.
    pub(super) fn read(
        entry: &Entry,
        payload: &'a [u8],
        check_crcs: bool,
    ) -> Result<Self, RecordsError> {
        let records = entry.records(payload)?;
        let records = if check_crcs {
            records
        } else {
            records.without_crcs()
        };
        Ok(Self {
            first_offset: entry.first_offset(payload)?,
            codec: entry.compression()?,
            records: records.collect::<Result<_, _>>()?,
        })
    }

    /// The fields of a `RecordBatch`: what every entry has, what only batches have, the records.
    pub(super) fn fields<'py>(
        &self,
        py: Python<'py>,
        entry: &Entry,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let about = (
            entry.magic(),
            self.first_offset,
            entry.last_offset(),
            entry.size(),
            entry.crc(),
            self.codec.name(),
            entry.timestamp_type().map(|kind| match kind {
                TimestampType::Create => "create",
                TimestampType::LogAppend => "append",
            }),
            entry.max_timestamp(),
        );
        let state = match entry {
            Entry::Batch(Batch { header, .. }) => (
                header.partition_leader_epoch,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.is_transactional(),
                header.is_control(),
            ),
            Entry::Message(_) => (NONE, i64::from(NONE), -1, NONE, false, false),
        };
        let records = self.records.iter().map(|read| record(py, read));
        let records = PyList::new(py, records.collect::<PyResult<Vec<_>>>()?)?;
        (about, state, records).into_pyobject(py)
    }
}

fn record<'py>(py: Python<'py>, record: &Record<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |value: Option<&[u8]>| value.map(|value| PyBytes::new(py, value));
    let headers = record
        .headers()
        .map(|(name, value)| (name, bytes(value)).into_pyobject(py));
    let headers = PyTuple::new(py, headers.collect::<PyResult<Vec<_>>>()?)?;
    (
        bytes(record.value),
        bytes(record.key),
        record.timestamp,
        headers,
        record.offset,
    )
        .into_pyobject(py)
}
