//! Records to bytes: a batch of magic 2, or a message set of magic 0 or 1.

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::{
    BatchBuilder, BatchHeader, MessageSetBuilder, NO_TIMESTAMP, OldMagic, ProducerState,
    RecordsError, TimestampType,
};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyTuple};

use super::data;
use crate::bridge::calls::Guarded;
use crate::bridge::errors;

/// The bytes of records.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub(crate) fn encode_records<'py>(
    py: Python<'py>,
    records: Vec<Bound<'py, PyTuple>>,
    magic: i8,
    compression: &str,
    level: Option<i32>,
    base_offset: i64,
    append_time: bool,
    producer: (i64, i16, i32),
    leader_epoch: i32,
    transactional: bool,
    control: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let codec: Compression = compression
        .parse()
        .and_then(|codec: Compression| codec.check_level(level).map(|()| codec))
        .map_err(|error| errors::argument(&error.to_string()))?;
    let mut given = Vec::with_capacity(records.len());
    for (i, record) in records.iter().enumerate() {
        given.push(Given::new(record, i)?);
    }
    let old = match magic {
        0 => OldMagic::Zero,
        1 => OldMagic::One,
        _ => {
            let (producer_id, epoch, base_sequence) = producer;
            let batch = Batch {
                base_offset,
                append_time,
                leader_epoch,
                transactional,
                control,
                state: ProducerState {
                    producer_id,
                    epoch,
                    base_sequence,
                },
            };
            return written(py, batch.build(py, &given, codec, level));
        }
    };
    written(
        py,
        message_set(py, &given, old, codec, level, base_offset, append_time),
    )
}

/// A record as it is given.
struct Given {
    value: Option<Bytes>,
    key: Option<Bytes>,
    timestamp: i64,
    headers: Vec<(PyBackedStr, Option<Bytes>)>,
    offset: Option<i64>,
}

impl Given {
    fn new(record: &Bound<'_, PyTuple>, i: usize) -> PyResult<Self> {
        let field = |at: usize| record.get_item(at);
        let bytes = |at: usize, what: &str| payload(&field(at)?, || format!("records[{i}].{what}"));
        let int = |at: usize, what: &str| {
            let number = field(at)?;
            number.guarded_int::<i64>().or_else(|_| {
                let shown = number.guarded_str()?;
                Err(errors::protocol(&format!(
                    "records[{i}].{what}: {shown} is not an int64"
                )))
            })
        };
        let mut headers = Vec::new();
        for (h, header) in field(3)?.guarded_items()?.enumerate() {
            let header = header?;
            let pair = PyTuple::type_object(record.py())
                .guarded_call((&header,))
                .and_then(|pair| pair.extract::<(PyBackedStr, Bound<'_, PyAny>)>());
            let Ok((name, value)) = pair else {
                let shown = header.guarded_repr()?;
                return Err(errors::protocol(&format!(
                    "records[{i}].headers[{h}]: a pair of a str and bytes or None wanted, {shown} given"
                )));
            };
            let value = payload(&value, || format!("records[{i}].headers[{h}]"))?;
            headers.push((name, value));
        }
        Ok(Self {
            value: bytes(0, "value")?,
            key: bytes(1, "key")?,
            timestamp: int(2, "timestamp")?,
            headers,
            offset: if field(4)?.is_none() {
                None
            } else {
                Some(int(4, "offset")?)
            },
        })
    }
}

/// Bytes that a record has, without a copy where they are `bytes`.
fn payload(value: &Bound<'_, PyAny>, place: impl Fn() -> String) -> PyResult<Option<Bytes>> {
    if value.is_none() {
        return Ok(None);
    }
    match data::from_buffer(value)? {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(errors::protocol(&format!(
            "{}: bytes or None wanted, {} given",
            place(),
            value.get_type().name()?
        ))),
    }
}

/// The fields of a batch of magic 2, without its records.
struct Batch {
    base_offset: i64,
    append_time: bool,
    leader_epoch: i32,
    transactional: bool,
    control: bool,
    state: ProducerState,
}

impl Batch {
    fn build(
        &self,
        py: Python<'_>,
        records: &[Given],
        codec: Compression,
        level: Option<i32>,
    ) -> Result<Bytes, Failure> {
        let mut builder = BatchBuilder::new(codec, level);
        let mut next = self.base_offset;
        for (i, record) in records.iter().enumerate() {
            let offset = record.offset.unwrap_or(next);
            let delta = offset
                .checked_sub(self.base_offset)
                .and_then(|delta| i32::try_from(delta).ok())
                .filter(|delta| *delta >= 0)
                .ok_or(Failure::Offset {
                    record: i,
                    offset,
                    base: self.base_offset,
                })?;
            let headers = record
                .headers
                .iter()
                .map(|(name, value)| (&**name, value.as_deref()));
            builder
                .append_at(
                    delta,
                    record.timestamp,
                    record.key.as_deref(),
                    record.value.as_deref(),
                    headers,
                )
                .map_err(|error| Failure::Record(i, error))?;
            next = offset.saturating_add(1);
        }
        let max_timestamp = builder.max_timestamp();
        let bytes = data::work(py, builder.size(), || builder.finish(self.state))?;
        let mut batch = Vec::from(bytes);
        if batch.is_empty() {
            return Ok(Bytes::new());
        }
        let mut header = BatchHeader::parse(&batch)?;
        header.base_offset = self.base_offset;
        header.partition_leader_epoch = self.leader_epoch;
        header.set_transactional(self.transactional);
        header.set_control(self.control);
        if self.append_time {
            header.set_timestamp_type(TimestampType::LogAppend);
            header.max_timestamp = max_timestamp;
        }
        header.seal(&mut batch)?;
        Ok(batch.into())
    }
}

fn message_set(
    py: Python<'_>,
    records: &[Given],
    magic: OldMagic,
    codec: Compression,
    level: Option<i32>,
    base_offset: i64,
    append_time: bool,
) -> Result<Bytes, Failure> {
    let mut builder = MessageSetBuilder::new(magic, codec, level, base_offset)?;
    if append_time {
        let latest = records.iter().map(|record| record.timestamp).max();
        builder.set_append_time(latest.unwrap_or(NO_TIMESTAMP));
    }
    let mut size = 0usize;
    let mut next = base_offset;
    for (i, record) in records.iter().enumerate() {
        if !record.headers.is_empty() {
            return Err(Failure::Headers {
                record: i,
                magic: magic.id(),
            });
        }
        let offset = record.offset.unwrap_or(next);
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder
            .append_at(offset, record.timestamp, key, value)
            .map_err(|error| Failure::Record(i, error))?;
        size = size.saturating_add(value.map_or(0, <[u8]>::len));
        next = offset.saturating_add(1);
    }
    Ok(data::work(py, size, || builder.finish())?)
}

/// Why records are not written.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("records[{0}]: {1}")]
    Record(usize, RecordsError),
    #[error(
        "records[{record}].offset: {offset} is not from base_offset {base} to 2147483647 above it"
    )]
    Offset {
        record: usize,
        offset: i64,
        base: i64,
    },
    #[error("records[{record}].headers: magic {magic} has no headers, magic 2 has")]
    Headers { record: usize, magic: i8 },
    #[error(transparent)]
    Whole(#[from] RecordsError),
}

fn written<'py>(py: Python<'py>, bytes: Result<Bytes, Failure>) -> PyResult<Bound<'py, PyBytes>> {
    match bytes {
        Ok(bytes) => Ok(PyBytes::new(py, &bytes)),
        Err(error) => Err(errors::protocol(&error)),
    }
}
