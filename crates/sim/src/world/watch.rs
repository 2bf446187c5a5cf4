//! What is noticed of requests on their way: lines of the trace, and what a run must meet.

use bytes::Bytes;
use ottla_protocol::messages::{FetchRequest, ProduceRequest};
use ottla_protocol::{ApiKey, Message, Str, Uuid};

use super::World;

impl World {
    /// Writes a request into the trace.
    pub(super) fn tell(&mut self, number: u64, frame: &Bytes) {
        if !self.book.trace.is_kept() {
            return;
        }
        let Some(wire) = self.wires.get(&number) else {
            return;
        };
        let name = self
            .clients
            .get(wire.client)
            .map_or("", |client| client.name());
        let head = ottla_protocol::header::decode_request_header(frame.slice(4..));
        let Ok((header, _)) = head else { return };
        let api = ApiKey::from_i16(header.api_key).map_or("?", ApiKey::name);
        let (version, id) = (header.api_version, header.correlation_id);
        let text = format!("{name} #{number}: {api} {version} ({id})");
        let who = format!("node {}", wire.node);
        self.book.say(who, text);
    }

    /// Counts what a leader is asked that has not heard of its successor.
    pub(super) fn meet_deposed(&mut self, node: i32, frame: &Bytes) {
        if self.deposed.keys().all(|(_, _, old)| *old != node) {
            return;
        }
        let head = ottla_protocol::header::decode_request_header(frame.slice(4..));
        let Ok((header, mut body)) = head else { return };
        let version = header.api_version;
        let places: Vec<(Str, Uuid, i32)> = match ApiKey::from_i16(header.api_key) {
            Some(ApiKey::Produce) => {
                let Ok(request) = ProduceRequest::decode(version, &mut body) else {
                    return;
                };
                let topics = request.topic_data.into_iter();
                let rows = topics.flat_map(|topic| {
                    let rows = topic.partition_data.into_iter();
                    rows.map(move |row| (topic.name.clone(), topic.topic_id, row.index))
                });
                rows.collect()
            }
            Some(ApiKey::Fetch) => {
                let Ok(request) = FetchRequest::decode(version, &mut body) else {
                    return;
                };
                let topics = request.topics.into_iter();
                let rows = topics.flat_map(|topic| {
                    let rows = topic.partitions.into_iter();
                    rows.map(move |row| (topic.topic.clone(), topic.topic_id, row.partition))
                });
                rows.collect()
            }
            _ => return,
        };
        let is_deposed = self.deposed.keys().any(|(topic, partition, old)| {
            let id = self.brokers.topic(topic).map(|topic| Uuid(topic.id));
            *old == node
                && places.iter().any(|(name, by_id, index)| {
                    index == partition && (**name == **topic || id == Some(*by_id))
                })
        });
        if is_deposed {
            self.book.tally.meet(match header.api_key {
                0 => "cluster: a leader of the past was asked to write",
                _ => "cluster: a leader of the past was asked to read",
            });
        }
    }

    /// Counts what is asked for in fetch sessions.
    pub(super) fn meet_sessions(&mut self, frame: &Bytes) {
        let head = ottla_protocol::header::decode_request_header(frame.slice(4..));
        let Ok((header, mut body)) = head else { return };
        if ApiKey::from_i16(header.api_key) != Some(ApiKey::Fetch) {
            return;
        }
        let Ok(request) = FetchRequest::decode(header.api_version, &mut body) else {
            return;
        };
        match (request.session_id, request.session_epoch) {
            (_, 1..) if request.topics.is_empty() => {
                self.book.tally.meet("session: all was as before");
            }
            (_, 1..) => self.book.tally.meet("session: what changed was said"),
            (0, _) => {}
            _ => self.book.tally.meet("session: began in place of another"),
        }
        if !request.forgotten_topics_data.is_empty() {
            self.book.tally.meet("session: a partition was forgotten");
        }
    }
}
