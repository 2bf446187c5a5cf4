//! ottla's codec.

use anyhow::Result;
use bytes::Bytes;
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchResponse, JoinGroupResponse, MetadataResponse, ProduceRequest,
};
use ottla_protocol::records::{BatchBuilder, ProducerState, batches};
use ottla_protocol::{Message, Reader, Writer};

use crate::Work;
use crate::samples::{self, Row, Samples, Way};

pub fn work(row: &Row, samples: &Samples) -> Result<Option<Work>> {
    let (size, codec, way) = match row {
        Row::Message(name, way) => return message(name, *way, samples.message(name)?).map(Some),
        Row::Records(size, codec, way) => (*size, *codec, *way),
    };
    if way == Way::Out {
        let records = samples.records(size)?;
        // A producer has one builder for batch after batch.
        let mut builder = BatchBuilder::new(codec, None);
        return Ok(Some(Box::new(move || {
            for record in &records {
                builder.append(
                    record.timestamp,
                    Some(&record.key),
                    Some(&record.value),
                    std::iter::empty(),
                )?;
            }
            Ok(builder.finish(ProducerState::NONE)?.len())
        })));
    }
    let bytes = samples.batch(size, codec)?;
    // A consumer has one buffer to decompress into.
    let mut scratch = Vec::new();
    Ok(Some(Box::new(move || {
        let mut seen = 0;
        for batch in batches(bytes.clone()) {
            let batch = batch?;
            batch.verify_crc()?;
            let payload = batch.payload_in(usize::MAX >> 1, &mut scratch)?;
            for record in batch.records(payload)? {
                seen += record?.value.map_or(0, <[u8]>::len);
            }
        }
        Ok(seen)
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

fn both<M: Message>(bytes: Bytes, version: i16, way: Way, count: fn(&M) -> usize) -> Result<Work> {
    let decode = move || M::decode(version, &mut Reader::new(bytes.clone()));
    if way == Way::In {
        return Ok(Box::new(move || Ok(count(&decode()?))));
    }
    let message = decode()?;
    Ok(Box::new(move || {
        let mut out = Writer::new();
        message.encode(version, &mut out)?;
        Ok(out.finish().len())
    }))
}
