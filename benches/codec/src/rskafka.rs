//! The crate rskafka: a client whose codec can be reached with the feature `unstable-fuzzing`. Its messages are of older
//! versions than the samples; record batches it has both ways.

use std::io::Cursor;

use anyhow::{Result, bail};
use ottla_protocol::compression::Compression as Codec;
use rskafka::protocol::record::{
    ControlBatchOrRecords, Record, RecordBatch, RecordBatchCompression, RecordBatchTimestampType,
};
use rskafka::protocol::traits::{ReadType, WriteType};

use crate::Work;
use crate::samples::{Row, Samples, Way};

pub fn work(row: &Row, samples: &Samples) -> Result<Option<Work>> {
    let Row::Records(size, codec, way) = *row else {
        return Ok(None);
    };
    if way == Way::In {
        let bytes = samples.batch(size, codec)?;
        return Ok(Some(Box::new(move || {
            let batch = RecordBatch::read(&mut Cursor::new(&bytes))?;
            let ControlBatchOrRecords::Records(records) = batch.records else {
                bail!("a control batch");
            };
            Ok(records
                .iter()
                .map(|r| r.value.as_ref().map_or(0, Vec::len))
                .sum())
        })));
    }
    let records = samples.records(size)?;
    let base = records.first().map_or(0, |first| first.timestamp);
    let last = records.last().map_or(0, |last| last.timestamp);
    let records: Vec<Record> = records
        .into_iter()
        .zip(0..)
        .map(|(plain, i)| Record {
            timestamp_delta: plain.timestamp - base,
            offset_delta: i,
            key: Some(plain.key.into()),
            value: Some(plain.value.into()),
            headers: Vec::new(),
        })
        .collect();
    let batch = RecordBatch {
        base_offset: 0,
        partition_leader_epoch: -1,
        last_offset_delta: i32::try_from(records.len())? - 1,
        first_timestamp: base,
        max_timestamp: last,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        records: ControlBatchOrRecords::Records(records),
        compression: match codec {
            Codec::None => RecordBatchCompression::NoCompression,
            Codec::Gzip => RecordBatchCompression::Gzip,
            Codec::Snappy => RecordBatchCompression::Snappy,
            Codec::Lz4 => RecordBatchCompression::Lz4,
            Codec::Zstd => RecordBatchCompression::Zstd,
        },
        is_transactional: false,
        timestamp_type: RecordBatchTimestampType::CreateTime,
    };
    Ok(Some(Box::new(move || {
        let mut out = Vec::new();
        batch.write(&mut out)?;
        Ok(out.len())
    })))
}
