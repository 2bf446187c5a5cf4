//! The crate krafka: a client, so that it has requests to encode and responses to decode, and lets nobody else build a
//! Produce request.

use anyhow::Result;
use bytes::Bytes;
use krafka::__private::protocol::{
    ApiVersionsResponse, Compression, FetchResponse, JoinGroupResponse, MetadataResponse, Record,
    RecordBatch, RecordBatchBuilder, VersionedDecode,
};
use ottla_protocol::compression::Compression as Codec;

use crate::Work;
use crate::samples::{self, Row, Samples, Way};

pub fn work(row: &Row, samples: &Samples) -> Result<Option<Work>> {
    let (size, codec, way) = match row {
        Row::Message(name, Way::In) => return message(name, samples.message(name)?),
        Row::Message(_, Way::Out) => return Ok(None),
        Row::Records(size, codec, way) => (*size, *codec, *way),
    };
    if way == Way::In {
        let bytes = samples.batch(size, codec)?;
        return Ok(Some(Box::new(move || {
            let batch = RecordBatch::decode(&mut bytes.clone())?;
            Ok(batch
                .records
                .iter()
                .map(|r| r.value.as_ref().map_or(0, Bytes::len))
                .sum())
        })));
    }
    let compression = match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    };
    let records = samples.records(size)?;
    let base = records.first().map_or(0, |first| first.timestamp);
    let mut batch = RecordBatchBuilder::new()
        .compression(compression)
        .base_timestamp(base)
        .build();
    for (plain, i) in records.into_iter().zip(0..) {
        batch.add_record(
            Record::new(Some(plain.key), Some(plain.value))
                .with_offset_delta(i)
                .with_timestamp_delta(plain.timestamp - base),
        );
        batch.last_offset_delta = i;
        batch.max_timestamp = plain.timestamp;
    }
    Ok(Some(Box::new(move || Ok(batch.encode()?.len()))))
}

fn message(name: &str, bytes: Bytes) -> Result<Option<Work>> {
    let work: Work = match name {
        "metadata" => decode(bytes, samples::METADATA, |m: &MetadataResponse| {
            m.topics.iter().map(|t| t.partitions.len()).sum()
        }),
        "fetch" => decode(bytes, samples::FETCH, |m: &FetchResponse| {
            m.responses.iter().map(|t| t.partitions.len()).sum()
        }),
        // Version 4 has the layout of 3.
        "api_versions" => Box::new(move || {
            Ok(ApiVersionsResponse::decode_v3(&mut bytes.clone())?
                .api_keys
                .len())
        }),
        "join_group" => decode(bytes, samples::JOIN_GROUP, |m: &JoinGroupResponse| {
            m.members.len()
        }),
        _ => return Ok(None),
    };
    Ok(Some(work))
}

fn decode<M: VersionedDecode + 'static>(
    bytes: Bytes,
    version: i16,
    count: fn(&M) -> usize,
) -> Work {
    Box::new(move || Ok(count(&M::decode_versioned(version, &mut bytes.clone())?)))
}
