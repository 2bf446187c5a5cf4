//! Record batches and messages of any age, as plain values; `ottla.protocol` makes its classes of them.

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{self, Entry, NONE, Record, RecordsError, TimestampType};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::errors;

/// Reads what a Fetch response or a Produce request holds. What is cut short at the end is left out.
#[pyfunction]
pub(crate) fn decode_records<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    check_crcs: bool,
    limit: usize,
) -> PyResult<Vec<(Bound<'py, PyTuple>, usize)>> {
    let mut left = limit;
    let mut position = 0;
    let mut decoded = Vec::new();
    for entry in records::entries(Bytes::from_owner(data)) {
        let read = entry.and_then(|entry| {
            if check_crcs {
                entry.verify_crc()?;
            }
            let payload = payload(&entry, &mut left)?;
            Ok((entry, payload))
        });
        let (entry, payload) = read.map_err(|error| corrupt(position, &error))?;
        decoded.push((batch(py, &entry, &payload, position, check_crcs)?, position));
        position += entry.size();
    }
    Ok(decoded)
}

/// What the records are in, decompressed; what decompression makes is taken off what is left of the limit.
pub(super) fn payload(entry: &Entry, left: &mut usize) -> Result<Bytes, RecordsError> {
    let payload = entry.payload(*left)?;
    if entry.compression()? != Compression::None {
        *left = left.saturating_sub(payload.len());
    }
    Ok(payload)
}

/// The fields of a `RecordBatch`: what every entry has, what only batches have, the records.
pub(super) fn batch<'py>(
    py: Python<'py>,
    entry: &Entry,
    payload: &[u8],
    position: usize,
    check_crcs: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let wrong = |error: RecordsError| corrupt(position, &error);
    let records = entry.records(payload).map_err(wrong)?;
    let records = if check_crcs {
        records
    } else {
        records.without_crcs()
    };
    let list = PyList::empty(py);
    for read in records {
        list.append(record(py, &read.map_err(wrong)?)?)?;
    }
    let header = match entry {
        Entry::Batch(batch) => Some(&batch.header),
        Entry::Message(_) => None,
    };
    let none = (NONE, i64::from(NONE), -1, NONE, false, false);
    let state = header.map_or(none, |header| {
        (
            header.partition_leader_epoch,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.is_transactional(),
            header.is_control(),
        )
    });
    let about = (
        entry.magic(),
        entry.first_offset(payload).map_err(wrong)?,
        entry.last_offset(),
        entry.size(),
        entry.crc(),
        entry.compression().map_err(wrong)?.name(),
        entry.timestamp_type().map(|kind| match kind {
            TimestampType::Create => "create",
            TimestampType::LogAppend => "append",
        }),
        entry.max_timestamp(),
    );
    (about, state, list).into_pyobject(py)
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

fn corrupt(position: usize, error: &RecordsError) -> PyErr {
    errors::corrupt(&format!("at byte {position}: {error}"))
}
