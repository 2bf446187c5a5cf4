//! The bytes that all peers work on. They are made once, by ottla; every peer must read the same from them.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::join_group_response::JoinGroupResponseMember;
use ottla_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchResponse, JoinGroupResponse, MetadataResponse, ProduceRequest,
};
use ottla_protocol::records::{BatchBuilder, ProducerState, batches};
use ottla_protocol::{ApiKey, Message, Uuid, Writer};

/// Versions that every peer has.
pub const METADATA: i16 = 12;
pub const FETCH: i16 = 16;
pub const PRODUCE: i16 = 11;
pub const API_VERSIONS: i16 = 4;
pub const JOIN_GROUP: i16 = 9;

/// Records of a batch.
const RECORDS: usize = 1000;

/// What is measured: a message or record batches, and which way.
#[derive(Debug, Clone)]
pub enum Row {
    /// The name of the message's file.
    Message(String, Way),
    /// A batch of values of this size.
    Records(usize, Compression, Way),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From bytes.
    In,
    /// To bytes.
    Out,
}

impl Row {
    /// From its name: `metadata/decode`, `records-1000-lz4/write`.
    pub fn parse(name: &str) -> Result<Self> {
        let (what, way) = name.split_once('/').context("no way")?;
        let way = match way {
            "decode" | "read" => Way::In,
            "encode" | "write" => Way::Out,
            other => bail!("unknown way {other}"),
        };
        let Some(records) = what.strip_prefix("records-") else {
            return Ok(Self::Message(what.to_owned(), way));
        };
        let (size, codec) = records.split_once('-').context("no codec")?;
        Ok(Self::Records(size.parse()?, codec.parse()?, way))
    }
}

/// One record to be written.
#[derive(Debug, Clone)]
pub struct Plain {
    pub timestamp: i64,
    pub key: Bytes,
    pub value: Bytes,
}

/// The files of the folder, by their names.
pub struct Samples(HashMap<String, Bytes>);

impl Samples {
    pub fn load(folder: &Path) -> Result<Self> {
        let mut files = HashMap::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "bin") {
                let name = path.file_stem().context("no name")?.to_string_lossy();
                files.insert(name.into_owned(), Bytes::from(std::fs::read(&path)?));
            }
        }
        Ok(Self(files))
    }

    pub fn message(&self, name: &str) -> Result<Bytes> {
        self.0
            .get(name)
            .cloned()
            .with_context(|| format!("no {name}"))
    }

    pub fn batch(&self, size: usize, codec: Compression) -> Result<Bytes> {
        self.message(&format!("records-{size}-{codec}"))
    }

    /// The records of the batches of this size.
    pub fn records(&self, size: usize) -> Result<Vec<Plain>> {
        let bytes = self.batch(size, Compression::None)?;
        let batch = batches(bytes).next().context("no batch")??;
        let payload = batch.payload(usize::MAX)?;
        let slice = |part: Option<&[u8]>| payload.slice_ref(part.unwrap_or_default());
        batch
            .records(&payload)?
            .map(|record| {
                let record = record?;
                Ok(Plain {
                    timestamp: record.timestamp,
                    key: slice(record.key),
                    value: slice(record.value),
                })
            })
            .collect()
    }
}

pub fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name).with_extension("bin"), bytes).context(name.to_owned())
    };
    write("metadata", &encoded(&metadata(), METADATA)?)?;
    write("fetch", &encoded(&fetch()?, FETCH)?)?;
    write("produce", &encoded(&produce()?, PRODUCE)?)?;
    write("api_versions", &encoded(&api_versions(), API_VERSIONS)?)?;
    write("join_group", &encoded(&join_group(), JOIN_GROUP)?)?;
    for size in [100, 1000] {
        for codec in Compression::ALL {
            write(
                &format!("records-{size}-{codec}"),
                &batch(RECORDS, size, codec)?,
            )?;
        }
    }
    Ok(())
}

fn encoded<M: Message>(message: &M, version: i16) -> Result<Bytes> {
    let mut out = Writer::new();
    message.encode(version, &mut out)?;
    Ok(out.finish().into_bytes())
}

/// A cluster of three brokers with 1,000 topics of 3 partitions.
fn metadata() -> MetadataResponse {
    MetadataResponse {
        brokers: (1..=3)
            .map(|id| MetadataResponseBroker {
                node_id: id,
                host: format!("broker-{id}.kafka.internal.example.com").into(),
                port: 9092,
                rack: Some(format!("zone-{id}").into()),
                ..Default::default()
            })
            .collect(),
        cluster_id: Some("MDEyMzQ1Njc4OWFiY2RlZg".into()),
        controller_id: 1,
        topics: (0..1000)
            .map(|i| MetadataResponseTopic {
                name: Some(topic(i)),
                topic_id: id(i),
                partitions: (0..3)
                    .map(|partition| MetadataResponsePartition {
                        partition_index: partition,
                        leader_id: 1 + partition,
                        leader_epoch: 7,
                        replica_nodes: [1, 2, 3].into_iter().collect(),
                        isr_nodes: [1, 2, 3].into_iter().collect(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// 100 topics of 10 partitions, a batch with one record in each.
fn fetch() -> Result<FetchResponse> {
    let records = batch(1, 100, Compression::None)?;
    Ok(FetchResponse {
        session_id: 42,
        responses: (0..100)
            .map(|i| FetchableTopicResponse {
                topic_id: id(i),
                partitions: (0..10)
                    .map(|partition| PartitionData {
                        partition_index: partition,
                        high_watermark: 1_000_000,
                        last_stable_offset: 1_000_000,
                        log_start_offset: 0,
                        records: Some(records.clone()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

/// As [`fetch`], by the topics' names.
fn produce() -> Result<ProduceRequest> {
    let records = batch(1, 100, Compression::None)?;
    Ok(ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: (0..100)
            .map(|i| TopicProduceData {
                name: topic(i),
                partition_data: (0..10)
                    .map(|index| PartitionProduceData {
                        index,
                        records: Some(records.clone()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

/// Every API with all its versions.
fn api_versions() -> ApiVersionsResponse {
    ApiVersionsResponse {
        api_keys: ApiKey::ALL
            .iter()
            .map(|key| ApiVersion {
                api_key: key.as_i16(),
                min_version: key.versions().min,
                max_version: key.versions().max,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

/// What the leader of a group of 100 gets.
fn join_group() -> JoinGroupResponse {
    let member = |i: i32| format!("consumer-{i:04}-00000000-0000-0000-0000-{i:012}").into();
    JoinGroupResponse {
        generation_id: 3,
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        leader: member(0),
        member_id: member(0),
        members: (0..100)
            .map(|i| JoinGroupResponseMember {
                member_id: member(i),
                metadata: Bytes::from(vec![0x2a; 100]),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn topic(i: i32) -> ottla_protocol::Str {
    format!("orders.eu-west.{i:04}").into()
}

fn id(i: i32) -> Uuid {
    Uuid((0x4f74_746c_6100_4000_8000_0000_0000_0000_u128 + i as u128).to_be_bytes())
}

/// Records with keys of 8 digits and values as JSON lines have them: words that come again, numbers that do not.
fn batch(count: usize, size: usize, codec: Compression) -> Result<Bytes> {
    let mut builder = BatchBuilder::new(codec, None);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in 0..count {
        let mut value = Vec::with_capacity(size + 80);
        while value.len() < size {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let line = format!(
                "{{\"order\":{},\"price\":{}.{:02},\"status\":\"{}\"}}\n",
                state >> 40,
                state >> 8 & 0xfff,
                state & 63,
                ["open", "paid", "shipped", "returned"][state as usize >> 3 & 3],
            );
            value.extend_from_slice(line.as_bytes());
        }
        value.truncate(size);
        builder.append(
            1_700_000_000_000 + i as i64,
            Some(format!("{i:08}").as_bytes()),
            Some(&value),
            std::iter::empty(),
        )?;
    }
    Ok(builder.finish(ProducerState::NONE)?)
}
