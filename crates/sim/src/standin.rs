//! A stand-in for a cluster: just enough of Kafka for producers and consumers, with logs that all nodes share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_protocol::header::{RequestHeader, decode_request_header, encode_response};
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use ottla_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchRequest, FetchResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, ProduceRequest, ProduceResponse, SaslAuthenticateResponse,
    SaslHandshakeResponse,
};
use ottla_protocol::records::{BatchHeader, assign_offsets, validate_batch};
use ottla_protocol::{ApiKey, ErrorCode, Message, Response, Uuid};

use crate::servers::{Served, Servers};

const SPOKEN: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 3, 12),
    (ApiKey::Fetch, 4, 12),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::Metadata, 4, 12),
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::SaslHandshake, 0, 1),
    (ApiKey::SaslAuthenticate, 0, 2),
];

/// Sequence, count and offset of batches.
type Remembered = VecDeque<(i32, i32, i64)>;

#[derive(Debug, Default)]
struct Log {
    batches: Vec<(i64, i64, Bytes)>,
    end: i64,
    leader: i32,
    epoch: i32,
    /// By producer id: its epoch and the last five batches, by sequence and offset.
    producers: BTreeMap<i64, (i16, Remembered)>,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    logs: Vec<Log>,
}

#[derive(Debug)]
struct Waiting {
    node: i32,
    header: RequestHeader,
    request: FetchRequest,
    until: Instant,
}

/// The cluster.
#[derive(Debug)]
pub struct StandIn {
    nodes: i32,
    dead: BTreeSet<i32>,
    topics: BTreeMap<String, Topic>,
    outs: VecDeque<Served>,
    waiting: BTreeMap<u64, Waiting>,
    queued: BTreeMap<u64, VecDeque<(i32, Bytes)>>,
    open: BTreeSet<u64>,
    next_producer: i64,
    next_topic: u8,
}

impl StandIn {
    /// A cluster of so many nodes.
    pub fn new(nodes: i32) -> StandIn {
        StandIn {
            nodes,
            dead: BTreeSet::new(),
            topics: BTreeMap::new(),
            outs: VecDeque::new(),
            waiting: BTreeMap::new(),
            queued: BTreeMap::new(),
            open: BTreeSet::new(),
            next_producer: 1,
            next_topic: 1,
        }
    }

    fn elect(&mut self) {
        let alive: Vec<i32> = (1..=self.nodes)
            .filter(|node| !self.dead.contains(node))
            .collect();
        let mut turn = 0;
        for topic in self.topics.values_mut() {
            for log in &mut topic.logs {
                turn += 1;
                if !alive.contains(&log.leader) {
                    log.leader = alive.get(turn % alive.len().max(1)).copied().unwrap_or(-1);
                    log.epoch += 1;
                }
            }
        }
    }

    fn answer<R: Response>(&mut self, connection: u64, header: &RequestHeader, body: &R) {
        match encode_response(body, header.api_version, header.correlation_id) {
            Ok(frame) => self
                .outs
                .push_back(Served::Bytes(connection, frame.into_bytes())),
            Err(_) => self.outs.push_back(Served::Close(connection)),
        }
    }

    fn request(&mut self, now: Instant, node: i32, connection: u64, frame: Bytes) {
        let Ok((header, mut rest)) = decode_request_header(frame.slice(4..)) else {
            return;
        };
        let version = header.api_version;
        let spoken = SPOKEN
            .iter()
            .find(|(api, ..)| api.as_i16() == header.api_key);
        if !spoken.is_some_and(|(_, min, max)| (*min..=*max).contains(&version)) {
            self.outs.push_back(Served::Close(connection));
            return;
        }
        match ApiKey::from_i16(header.api_key) {
            Some(ApiKey::ApiVersions) => {
                let api_keys = SPOKEN
                    .iter()
                    .map(|(api, min, max)| ApiVersion {
                        api_key: api.as_i16(),
                        min_version: *min,
                        max_version: *max,
                        ..Default::default()
                    })
                    .collect();
                let body = ApiVersionsResponse {
                    api_keys,
                    ..Default::default()
                };
                self.answer(connection, &header, &body);
            }
            Some(ApiKey::SaslHandshake) => {
                let body = SaslHandshakeResponse {
                    mechanisms: vec!["PLAIN".into()],
                    ..Default::default()
                };
                self.answer(connection, &header, &body);
            }
            Some(ApiKey::SaslAuthenticate) => {
                let body = SaslAuthenticateResponse {
                    session_lifetime_ms: 9000,
                    ..Default::default()
                };
                self.answer(connection, &header, &body);
            }
            Some(ApiKey::Metadata) => {
                if let Ok(request) = MetadataRequest::decode(version, &mut rest) {
                    let body = self.metadata(&request);
                    self.answer(connection, &header, &body);
                }
            }
            Some(ApiKey::InitProducerId) => {
                let _ = InitProducerIdRequest::decode(version, &mut rest);
                let body = InitProducerIdResponse {
                    producer_id: self.next_producer,
                    ..Default::default()
                };
                self.next_producer += 1;
                self.answer(connection, &header, &body);
            }
            Some(ApiKey::Produce) => {
                if let Ok(request) = ProduceRequest::decode(version, &mut rest) {
                    let body = self.produce(node, &request);
                    if request.acks != 0 {
                        self.answer(connection, &header, &body);
                    }
                    self.look(now);
                }
            }
            Some(ApiKey::ListOffsets) => {
                if let Ok(request) = ListOffsetsRequest::decode(version, &mut rest) {
                    let body = self.list_offsets(node, &request, version);
                    self.answer(connection, &header, &body);
                }
            }
            Some(ApiKey::Fetch) => {
                if let Ok(request) = FetchRequest::decode(version, &mut rest) {
                    let wait =
                        Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
                    let waiting = Waiting {
                        node,
                        header,
                        request,
                        until: now + wait,
                    };
                    self.waiting.insert(connection, waiting);
                    self.look(now);
                }
            }
            _ => self.outs.push_back(Served::Close(connection)),
        }
    }

    fn log(&mut self, topic: &str, partition: i32) -> Option<&mut Log> {
        let at = usize::try_from(partition).ok()?;
        self.topics.get_mut(topic)?.logs.get_mut(at)
    }

    fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let brokers = (1..=self.nodes).filter(|node| !self.dead.contains(node));
        let brokers = brokers
            .map(|node| MetadataResponseBroker {
                node_id: node,
                host: format!("n{node}").into(),
                port: 9092,
                ..Default::default()
            })
            .collect();
        let names: Vec<String> = match &request.topics {
            None => self.topics.keys().cloned().collect(),
            Some(topics) => {
                let names = topics.iter().filter_map(|topic| topic.name.as_deref());
                names.map(str::to_owned).collect()
            }
        };
        let topics = names
            .into_iter()
            .map(|name| {
                let mut row = MetadataResponseTopic {
                    name: Some((&*name).into()),
                    ..Default::default()
                };
                let Some(topic) = self.topics.get(&name) else {
                    row.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
                    return row;
                };
                row.topic_id = topic.id;
                row.partitions = (0..)
                    .zip(&topic.logs)
                    .map(|(index, log)| MetadataResponsePartition {
                        error_code: if log.leader < 0 {
                            ErrorCode::LEADER_NOT_AVAILABLE.0
                        } else {
                            0
                        },
                        partition_index: index,
                        leader_id: log.leader,
                        leader_epoch: log.epoch,
                        ..Default::default()
                    })
                    .collect();
                row
            })
            .collect();
        MetadataResponse {
            brokers,
            cluster_id: Some("stand-in".into()),
            controller_id: 1,
            topics,
            ..Default::default()
        }
    }

    fn produce(&mut self, node: i32, request: &ProduceRequest) -> ProduceResponse {
        let mut body = ProduceResponse::default();
        for topic in &request.topic_data {
            let mut rows = Vec::new();
            for partition in &topic.partition_data {
                let written = self.append(
                    node,
                    &topic.name,
                    partition.index,
                    partition.records.clone(),
                );
                let (code, offset) = match written {
                    Ok(offset) => (0, offset),
                    Err(code) => (code.0, -1),
                };
                rows.push(PartitionProduceResponse {
                    index: partition.index,
                    error_code: code,
                    base_offset: offset,
                    log_append_time_ms: -1,
                    ..Default::default()
                });
            }
            body.responses.push(TopicProduceResponse {
                name: topic.name.clone(),
                partition_responses: rows,
                ..Default::default()
            });
        }
        body
    }

    fn append(
        &mut self,
        node: i32,
        topic: &str,
        partition: i32,
        records: Option<Bytes>,
    ) -> Result<i64, ErrorCode> {
        let log = self
            .log(topic, partition)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        if log.leader != node {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        let records = records.ok_or(ErrorCode::INVALID_RECORD)?;
        let batch = validate_batch(records.clone()).map_err(|_| ErrorCode::CORRUPT_MESSAGE)?;
        let BatchHeader {
            producer_id,
            producer_epoch,
            base_sequence,
            count,
            ..
        } = batch.header;
        let end = log.end;
        if producer_id >= 0 {
            let is_known = log.producers.contains_key(&producer_id);
            let (epoch, last) = log
                .producers
                .entry(producer_id)
                .or_insert((producer_epoch, VecDeque::new()));
            if producer_epoch < *epoch {
                return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
            }
            if producer_epoch > *epoch {
                *epoch = producer_epoch;
                last.clear();
            }
            let same = last
                .iter()
                .find(|(sequence, many, _)| (*sequence, *many) == (base_sequence, count));
            if let Some((_, _, offset)) = same {
                return Ok(*offset);
            }
            let next = last.back().map(|(sequence, many, _)| sequence + many);
            if next.map_or(is_known && base_sequence != 0, |next| next != base_sequence) {
                return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            }
            last.push_back((base_sequence, count, end));
            if last.len() > 5 {
                last.pop_front();
            }
        }
        let mut bytes = BytesMut::from(&records[..]);
        let _ = assign_offsets(&mut bytes, end, log.epoch);
        log.end += i64::from(count);
        log.batches.push((end, log.end, bytes.freeze()));
        Ok(end)
    }

    fn list_offsets(
        &mut self,
        node: i32,
        request: &ListOffsetsRequest,
        version: i16,
    ) -> ListOffsetsResponse {
        let mut body = ListOffsetsResponse::default();
        for topic in &request.topics {
            let mut rows = Vec::new();
            for partition in &topic.partitions {
                let mut row = ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    timestamp: -1,
                    ..Default::default()
                };
                match self.log(&topic.name, partition.partition_index) {
                    None => row.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                    Some(log) if log.leader != node => {
                        row.error_code = ErrorCode::NOT_LEADER_OR_FOLLOWER.0
                    }
                    Some(log) => {
                        row.offset = if partition.timestamp == -2 {
                            0
                        } else {
                            log.end
                        };
                        row.leader_epoch = if version >= 4 { log.epoch } else { -1 };
                    }
                }
                rows.push(row);
            }
            body.topics.push(ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: rows,
                ..Default::default()
            });
        }
        body
    }

    /// Answers the fetches that have something, or waited long enough.
    fn look(&mut self, now: Instant) {
        let connections: Vec<u64> = self.waiting.keys().copied().collect();
        for connection in connections {
            let Some(Waiting {
                node,
                header,
                request,
                until,
            }) = self.waiting.remove(&connection)
            else {
                continue;
            };
            let (body, something) = self.fetch(node, &request);
            if !something && until > now {
                self.waiting.insert(
                    connection,
                    Waiting {
                        node,
                        header,
                        request,
                        until,
                    },
                );
                continue;
            }
            self.answer(connection, &header, &body);
            while !self.waiting.contains_key(&connection) {
                let next = self
                    .queued
                    .get_mut(&connection)
                    .and_then(VecDeque::pop_front);
                let Some((node, frame)) = next else { break };
                self.request(now, node, connection, frame);
            }
        }
    }

    fn fetch(&mut self, node: i32, request: &FetchRequest) -> (FetchResponse, bool) {
        let mut body = FetchResponse::default();
        let mut something = false;
        for topic in &request.topics {
            let mut rows = Vec::new();
            for partition in &topic.partitions {
                let mut row = PartitionData {
                    partition_index: partition.partition,
                    ..Default::default()
                };
                let most = usize::try_from(partition.partition_max_bytes).unwrap_or(0);
                match self.log(&topic.topic, partition.partition) {
                    None => row.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                    Some(log) if log.leader != node => {
                        row.error_code = ErrorCode::NOT_LEADER_OR_FOLLOWER.0
                    }
                    Some(log) if partition.fetch_offset > log.end || partition.fetch_offset < 0 => {
                        row.error_code = ErrorCode::OFFSET_OUT_OF_RANGE.0;
                    }
                    Some(log) => {
                        row.high_watermark = log.end;
                        let mut records = BytesMut::new();
                        let from = log
                            .batches
                            .iter()
                            .filter(|(_, end, _)| *end > partition.fetch_offset);
                        for (_, _, bytes) in from {
                            if !records.is_empty() && records.len() + bytes.len() > most {
                                break;
                            }
                            records.extend_from_slice(bytes);
                        }
                        something |= !records.is_empty();
                        row.records = Some(records.freeze());
                    }
                }
                something |= row.error_code != 0;
                rows.push(row);
            }
            body.responses.push(FetchableTopicResponse {
                topic: topic.topic.clone(),
                partitions: rows,
                ..Default::default()
            });
        }
        (body, something)
    }
}

impl Servers for StandIn {
    fn connect(&mut self, _: Instant, _: i32, connection: u64) {
        self.open.insert(connection);
    }

    fn handle(&mut self, now: Instant, node: i32, connection: u64, bytes: &[u8]) {
        if !self.open.contains(&connection) {
            return;
        }
        let frame = Bytes::copy_from_slice(bytes);
        if self.waiting.contains_key(&connection) {
            self.queued
                .entry(connection)
                .or_default()
                .push_back((node, frame));
            return;
        }
        self.request(now, node, connection, frame);
    }

    fn disconnect(&mut self, _: i32, connection: u64) {
        self.open.remove(&connection);
        self.waiting.remove(&connection);
        self.queued.remove(&connection);
    }

    fn poll(&mut self) -> Option<Served> {
        self.outs.pop_front()
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.look(now);
    }

    fn stop(&mut self, _: Instant, node: i32) {
        self.dead.insert(node);
        self.elect();
    }

    fn start(&mut self, _: Instant, node: i32) {
        self.dead.remove(&node);
        self.elect();
    }

    fn move_leader(&mut self, now: Instant, topic: &str, partition: i32) -> bool {
        let nodes = self.nodes;
        let dead = self.dead.clone();
        let Some(log) = self.log(topic, partition) else {
            return false;
        };
        let mut next = (1..nodes).map(|by| (log.leader - 1 + by) % nodes + 1);
        let Some(next) = next.find(|node| !dead.contains(node)) else {
            return false;
        };
        log.leader = next;
        log.epoch += 1;
        self.look(now);
        true
    }

    fn create(&mut self, _: Instant, topic: &str, partitions: i32) -> bool {
        if self.topics.contains_key(topic) {
            return false;
        }
        let id = Uuid([self.next_topic; 16]);
        self.next_topic += 1;
        let logs = (0..partitions)
            .map(|index| Log {
                leader: index % self.nodes + 1,
                ..Log::default()
            })
            .collect();
        self.topics.insert(topic.to_owned(), Topic { id, logs });
        self.elect();
        true
    }

    fn delete(&mut self, now: Instant, topic: &str) -> bool {
        let known = self.topics.remove(topic).is_some();
        self.look(now);
        known
    }

    fn grow(&mut self, _: Instant, topic: &str) -> i32 {
        let nodes = self.nodes;
        let Some(topic) = self.topics.get_mut(topic) else {
            return 0;
        };
        let count = topic.logs.len() as i32;
        topic.logs.push(Log {
            leader: count % nodes + 1,
            ..Log::default()
        });
        self.elect();
        count + 1
    }
}
