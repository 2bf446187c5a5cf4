//! The crate kafka-protocol.

use anyhow::Result;
use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::messages::{
    ApiVersionsResponse, FetchResponse, JoinGroupResponse, MetadataResponse, ProduceRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record,
    RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use ottla_protocol::compression::Compression as Codec;

use crate::Work;
use crate::samples::{self, Row, Samples, Way};

pub fn work(row: &Row, samples: &Samples) -> Result<Option<Work>> {
    let (size, codec, way) = match row {
        Row::Message(name, way) => return message(name, *way, samples.message(name)?).map(Some),
        Row::Records(size, codec, way) => (*size, *codec, *way),
    };
    if way == Way::In {
        let bytes = samples.batch(size, codec)?;
        return Ok(Some(Box::new(move || {
            let set = RecordBatchDecoder::decode(&mut bytes.clone())?;
            Ok(set
                .records
                .iter()
                .map(|r| r.value.as_ref().map_or(0, Bytes::len))
                .sum())
        })));
    }
    let records: Vec<Record> = samples
        .records(size)?
        .into_iter()
        .zip(0..)
        .map(|(plain, i)| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            timestamp_type: TimestampType::Creation,
            offset: i64::from(i),
            // It begins a new batch where sequence and offset do not go together.
            sequence: i,
            timestamp: plain.timestamp,
            key: Some(plain.key),
            value: Some(plain.value),
            headers: IndexMap::new(),
        })
        .collect();
    let options = RecordEncodeOptions {
        version: 2,
        compression: match codec {
            Codec::None => Compression::None,
            Codec::Gzip => Compression::Gzip,
            Codec::Snappy => Compression::Snappy,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        },
    };
    Ok(Some(Box::new(move || {
        let mut out = BytesMut::new();
        RecordBatchEncoder::encode(&mut out, &records, &options)?;
        Ok(out.freeze().len())
    })))
}

fn message(name: &str, way: Way, bytes: Bytes) -> Result<Work> {
    match name {
        "metadata" => both(bytes, samples::METADATA, way, |m: &MetadataResponse| {
            m.topics.iter().map(|t| t.partitions.len()).sum()
        }),
        "fetch" => both(bytes, samples::FETCH, way, |m: &FetchResponse| {
            m.responses.iter().map(|t| t.partitions.len()).sum()
        }),
        "produce" => both(bytes, samples::PRODUCE, way, |m: &ProduceRequest| {
            m.topic_data.iter().map(|t| t.partition_data.len()).sum()
        }),
        "api_versions" => both(
            bytes,
            samples::API_VERSIONS,
            way,
            |m: &ApiVersionsResponse| m.api_keys.len(),
        ),
        _ => both(bytes, samples::JOIN_GROUP, way, |m: &JoinGroupResponse| {
            m.members.len()
        }),
    }
}

fn both<M: Decodable + Encodable + 'static>(
    bytes: Bytes,
    version: i16,
    way: Way,
    count: fn(&M) -> usize,
) -> Result<Work> {
    let decode = move || M::decode(&mut bytes.clone(), version);
    if way == Way::In {
        return Ok(Box::new(move || Ok(count(&decode()?))));
    }
    let message = decode()?;
    // The quicker of its two ways: growing the buffer costs it less than its own pass for the size.
    Ok(Box::new(move || {
        let mut out = BytesMut::new();
        message.encode(&mut out, version)?;
        Ok(out.freeze().len())
    }))
}
