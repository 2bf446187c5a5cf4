//! The responses of the broker: the truth about a topic `t` with two partitions, or something else.

use bytes::Bytes;
use ottla_protocol::compression::Compression;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use ottla_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use ottla_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::produce_response::{
    self, PartitionProduceResponse, TopicProduceResponse,
};
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchRequest, FetchResponse, InitProducerIdResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse,
    SaslAuthenticateRequest, SaslHandshakeRequest,
};
use ottla_protocol::records::{BatchBuilder, ProducerState, assign_offsets};
use ottla_protocol::{ApiKey, Message, Response, Uuid, header};

use crate::broker::Asked;
use crate::login::Login;

const ID: Uuid = Uuid([7; 16]);
/// The records of each partition.
const END: i64 = 6;

/// Chance from a seed: the same for the same connection of the same seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64, connection: u64) -> Chance {
        Chance((seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ connection.rotate_left(40)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 33) as usize) % bound.max(1)
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// `truth`, mostly; else a number without a meaning here.
    fn int(&mut self, truth: i32) -> i32 {
        match self.below(3) {
            0 => self.of(&[-1, i32::MIN, i32::MAX, 0, 1, -2, 1 << 16, 7]),
            _ => truth,
        }
    }

    fn long(&mut self, truth: i64) -> i64 {
        match self.below(3) {
            0 => self.of(&[-1, i64::MIN, i64::MAX, 0, 1, -2, 1 << 40, 7]),
            _ => truth,
        }
    }

    /// No error, mostly; else any that there is, and some that there are not.
    pub(crate) fn code(&mut self) -> i16 {
        match self.below(2) {
            0 => self.below(145) as i16 - 5,
            _ => 0,
        }
    }
}

fn encoded(response: &impl Response, version: i16, correlation: i32) -> Option<Vec<u8>> {
    let frame = header::encode_response(response, version, correlation).ok()?;
    Some(frame.into_bytes().to_vec())
}

/// The frame of the response; `None` for a request without one.
pub(crate) fn answer(
    chance: &mut Chance,
    login: &mut Login,
    asked: &mut Asked,
    port: u16,
    falsified: bool,
) -> Option<Vec<u8>> {
    let (version, correlation) = (asked.version, asked.correlation);
    built(chance, login, asked, port, falsified, version, correlation)
}

/// The same, in the layout of a version that was not asked for.
pub(crate) fn at_another_version(
    chance: &mut Chance,
    login: &mut Login,
    asked: &mut Asked,
    port: u16,
) -> Option<Vec<u8>> {
    let version = chance.below(14) as i16;
    let correlation = asked.correlation;
    let body = asked.body.clone();
    let other = built(chance, login, asked, port, false, version, correlation);
    asked.body = body;
    other.or_else(|| answer(chance, login, asked, port, false))
}

fn built(
    chance: &mut Chance,
    login: &mut Login,
    asked: &mut Asked,
    port: u16,
    falsified: bool,
    version: i16,
    correlation: i32,
) -> Option<Vec<u8>> {
    match asked.api {
        ApiKey::ApiVersions => {
            let mut response = versions(chance, falsified);
            // A version that is not known gets a response of version 0.
            let (version, code) = if asked.version > 4 {
                (0, 35)
            } else {
                (version, 0)
            };
            response.error_code = if falsified { chance.code() } else { code };
            encoded(&response, version, correlation)
        }
        ApiKey::SaslHandshake => {
            let request = SaslHandshakeRequest::decode(asked.version, &mut asked.body).ok()?;
            let response = login.handshake(chance, &request, falsified);
            encoded(&response, version, correlation)
        }
        ApiKey::SaslAuthenticate => {
            let request = SaslAuthenticateRequest::decode(asked.version, &mut asked.body).ok()?;
            let response = login.answer(chance, &request, falsified);
            encoded(&response, version, correlation)
        }
        ApiKey::Metadata => {
            let request = MetadataRequest::decode(asked.version, &mut asked.body).ok()?;
            encoded(
                &metadata(chance, request, port, falsified),
                version,
                correlation,
            )
        }
        ApiKey::InitProducerId => {
            let mut response = InitProducerIdResponse {
                producer_id: 5,
                ..Default::default()
            };
            if falsified {
                response.error_code = chance.code();
                response.producer_id = chance.long(5);
                response.producer_epoch = chance.int(0) as i16;
                response.throttle_time_ms = chance.int(0);
            }
            encoded(&response, version, correlation)
        }
        ApiKey::Produce => {
            let request = ProduceRequest::decode(asked.version, &mut asked.body).ok()?;
            encoded(
                &produced(chance, request, port, falsified),
                version,
                correlation,
            )
        }
        ApiKey::ListOffsets => {
            let request = ListOffsetsRequest::decode(asked.version, &mut asked.body).ok()?;
            encoded(&offsets(chance, request, falsified), version, correlation)
        }
        ApiKey::Fetch => {
            let request = FetchRequest::decode(asked.version, &mut asked.body).ok()?;
            encoded(
                &fetched(chance, request, port, falsified),
                version,
                correlation,
            )
        }
        _ => None,
    }
}

fn versions(chance: &mut Chance, falsified: bool) -> ApiVersionsResponse {
    let mut api_keys: Vec<_> = [
        (0, 13),
        (1, 17),
        (2, 10),
        (3, 13),
        (17, 1),
        (18, 4),
        (19, 7),
        (22, 5),
        (36, 2),
    ]
    .map(|(api_key, max_version)| ApiVersion {
        api_key,
        max_version,
        ..Default::default()
    })
    .to_vec();
    if falsified {
        for _ in 0..=chance.below(3) {
            let row = ApiVersion {
                api_key: chance.of(&[0, 1, 2, 3, 18, 22, -1, 999]),
                min_version: chance.of(&[0, 3, 9, -1, i16::MAX, i16::MIN]),
                max_version: chance.of(&[0, 3, 9, -1, i16::MAX, i16::MIN]),
                ..Default::default()
            };
            match chance.below(3) {
                0 => api_keys.push(row),
                1 => api_keys.insert(0, row),
                _ => {
                    api_keys.remove(chance.below(api_keys.len()));
                }
            }
        }
    }
    ApiVersionsResponse {
        api_keys,
        throttle_time_ms: if falsified { chance.int(0) } else { 0 },
        ..Default::default()
    }
}

fn metadata(
    chance: &mut Chance,
    request: MetadataRequest,
    port: u16,
    falsified: bool,
) -> MetadataResponse {
    let mut brokers = vec![MetadataResponseBroker {
        node_id: 1,
        host: "127.0.0.1".into(),
        port: i32::from(port),
        ..Default::default()
    }];
    if falsified {
        for _ in 0..chance.below(4) {
            let long = "x".repeat(30_000);
            brokers.push(MetadataResponseBroker {
                node_id: chance.int(1),
                host: chance
                    .of(&[
                        "127.0.0.1",
                        "",
                        "a b",
                        "x\r\ny",
                        "\0",
                        "nobody.invalid",
                        &long,
                    ])
                    .into(),
                port: chance.int(i32::from(port)),
                ..Default::default()
            });
        }
        if chance.below(6) == 0 {
            brokers.remove(0);
        }
    }
    let partition = |partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: 1,
        leader_epoch: 3,
        replica_nodes: vec![1].into(),
        isr_nodes: vec![1].into(),
        ..Default::default()
    };
    let names: Vec<_> = match request.topics {
        Some(topics) => topics.into_iter().map(|topic| topic.name).collect(),
        None => vec![Some("t".into())],
    };
    let mut topics: Vec<_> = names
        .into_iter()
        .map(|name| MetadataResponseTopic {
            name,
            topic_id: ID,
            partitions: vec![partition(0), partition(1)],
            ..Default::default()
        })
        .collect();
    if falsified {
        for topic in &mut topics {
            topic.error_code = chance.code();
            topic.topic_id = chance.of(&[ID, ID, Uuid::ZERO, Uuid([9; 16])]);
            for row in &mut topic.partitions {
                row.error_code = chance.code();
                row.partition_index = chance.int(row.partition_index);
                row.leader_id = chance.int(1);
                row.leader_epoch = chance.int(3);
            }
            if chance.below(6) == 0 {
                topic.name = None;
            }
        }
        let twice = topics.clone();
        if chance.below(4) == 0 {
            topics.extend(twice);
        }
    }
    MetadataResponse {
        brokers,
        topics,
        cluster_id: Some("c".into()),
        controller_id: if falsified { chance.int(1) } else { 1 },
        error_code: if falsified { chance.code() } else { 0 },
        throttle_time_ms: if falsified {
            chance.below(400) as i32 - 9
        } else {
            0
        },
        ..Default::default()
    }
}

fn produced(
    chance: &mut Chance,
    request: ProduceRequest,
    port: u16,
    falsified: bool,
) -> ProduceResponse {
    let mut responses: Vec<_> = request
        .topic_data
        .into_iter()
        .map(|topic| TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: topic
                .partition_data
                .iter()
                .map(|part| PartitionProduceResponse {
                    index: part.index,
                    base_offset: 7,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    let mut node_endpoints = Vec::new();
    if falsified {
        for topic in &mut responses {
            for row in &mut topic.partition_responses {
                row.index = chance.int(row.index);
                row.error_code = chance.code();
                row.base_offset = chance.long(7);
                row.log_start_offset = chance.long(0);
                row.log_append_time_ms = chance.long(-1);
                row.current_leader = produce_response::LeaderIdAndEpoch {
                    leader_id: chance.int(1),
                    leader_epoch: chance.int(3),
                    ..Default::default()
                };
            }
            let twice = topic.partition_responses.clone();
            match chance.below(5) {
                0 => topic.partition_responses.clear(),
                1 => topic.partition_responses.extend(twice),
                _ => {}
            }
        }
        node_endpoints.push(produce_response::NodeEndpoint {
            node_id: chance.int(2),
            host: chance
                .of(&["127.0.0.1", "", "x\ny", "nobody.invalid"])
                .into(),
            port: chance.int(i32::from(port)),
            ..Default::default()
        });
    }
    ProduceResponse {
        responses,
        node_endpoints,
        throttle_time_ms: if falsified {
            chance.below(300) as i32 - 9
        } else {
            0
        },
        ..Default::default()
    }
}

fn offsets(
    chance: &mut Chance,
    request: ListOffsetsRequest,
    falsified: bool,
) -> ListOffsetsResponse {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| ListOffsetsTopicResponse {
            partitions: topic
                .partitions
                .iter()
                .map(|part| {
                    let mut row = ListOffsetsPartitionResponse {
                        partition_index: part.partition_index,
                        offset: if part.timestamp == -1 { END } else { 0 },
                        ..Default::default()
                    };
                    if falsified {
                        row.partition_index = chance.int(row.partition_index);
                        row.error_code = chance.code();
                        row.offset = chance.long(row.offset);
                        row.timestamp = chance.long(-1);
                    }
                    row
                })
                .collect(),
            name: topic.name,
            ..Default::default()
        })
        .collect();
    ListOffsetsResponse {
        topics,
        ..Default::default()
    }
}

/// A batch of the records from `offset` to the end.
fn batch(chance: &mut Chance, offset: i64, falsified: bool) -> Bytes {
    let codec = chance.of(&[
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ]);
    let mut batch = BatchBuilder::new(codec, None);
    for _ in offset..END {
        batch
            .append(0, Some(b"key"), Some(&[9; 200]), std::iter::empty())
            .unwrap();
    }
    let mut bytes = batch.finish(ProducerState::NONE).unwrap().to_vec();
    assign_offsets(&mut bytes, offset, 0).unwrap();
    if falsified {
        // Base offset, length, epoch, magic, checksum, attributes, last offset, timestamps, producer, sequence, count, records.
        let at = chance.of(&[
            0, 8, 11, 16, 17, 21, 22, 23, 26, 27, 35, 43, 51, 53, 57, 60, 61, 70,
        ]);
        for _ in 0..=chance.below(2) {
            let at = (at + chance.below(4)).min(bytes.len() - 1);
            bytes[at] = chance.of(&[0, 1, 2, 3, 0x7f, 0x80, 0xff]);
        }
        // With the right checksum the rest is looked at.
        if chance.below(4) > 0 && bytes.len() > 21 {
            let sum = crc32c::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&sum.to_be_bytes());
        }
        if chance.below(8) == 0 {
            bytes.truncate(chance.below(bytes.len()));
        }
    }
    bytes.into()
}

fn fetched(
    chance: &mut Chance,
    request: FetchRequest,
    port: u16,
    falsified: bool,
) -> FetchResponse {
    let mut responses = Vec::new();
    for topic in request.topics {
        let mut partitions = Vec::new();
        for part in &topic.partitions {
            let offset = part.fetch_offset;
            let is_there = (0..END).contains(&offset);
            let mut row = PartitionData {
                partition_index: part.partition,
                high_watermark: END,
                last_stable_offset: END,
                records: is_there.then(|| batch(chance, offset, falsified)),
                ..Default::default()
            };
            if falsified {
                row.partition_index = chance.int(part.partition);
                row.error_code = chance.code();
                row.high_watermark = chance.long(END);
                row.last_stable_offset = chance.long(END);
                row.log_start_offset = chance.long(0);
                row.preferred_read_replica = chance.int(-1);
                row.current_leader = LeaderIdAndEpoch {
                    leader_id: chance.int(1),
                    leader_epoch: chance.int(3),
                    ..Default::default()
                };
                row.aborted_transactions = Some(vec![
                    AbortedTransaction {
                        producer_id: chance.long(-1),
                        first_offset: chance.long(0),
                        ..Default::default()
                    };
                    chance.below(3)
                ]);
            }
            partitions.push(row);
        }
        if falsified && chance.below(5) == 0 {
            partitions.extend(partitions.clone());
        }
        responses.push(FetchableTopicResponse {
            topic: topic.topic,
            topic_id: topic.topic_id,
            partitions,
            ..Default::default()
        });
    }
    let mut response = FetchResponse {
        responses,
        ..Default::default()
    };
    if falsified {
        response.error_code = chance.code();
        response.session_id = chance.int(0);
        response.throttle_time_ms = chance.below(300) as i32 - 9;
        response.node_endpoints.push(NodeEndpoint {
            node_id: chance.int(2),
            host: chance
                .of(&["127.0.0.1", "", "x\ny", "nobody.invalid"])
                .into(),
            port: chance.int(i32::from(port)),
            ..Default::default()
        });
    }
    response
}
