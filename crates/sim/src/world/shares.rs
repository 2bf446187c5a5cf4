//! What passes between members of share groups and brokers: who said what of which records and when a broker took it, which records
//! it gave to whom, and when it saw a connection end.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_protocol::header::{decode_request_header, decode_response};
use ottla_protocol::messages::{
    ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, Message, Uuid};

use super::commits::correlation;
use super::coordinators::api_of;
use super::{Asked, World};
use crate::client::Client;
use crate::gate::frame;
use crate::history::Place;
use crate::plant::Plant;
use crate::shared::{Range, Reign, Rules, Session, Shared, Wire};

/// What a request with this epoch is to its session.
fn session(epoch: i32) -> Session {
    match epoch {
        0 => Session::Begins,
        ..0 => Session::Ends,
        _ => Session::GoesOn,
    }
}

impl World {
    fn share_note(&mut self, process: usize, shared: Shared) {
        let at = self.book.at();
        self.book
            .say("shares", format_args!("sharer {process}: {shared:?}"));
        self.book.history.shared.push((at, process, shared));
    }

    /// Sets what holds for a share group; false if brokers refuse it.
    pub fn set_share_rules(&mut self, group: &str, rules: &Rules) -> bool {
        let now = self.book.now;
        let mut rules = *rules;
        match self.keeper.plant {
            Some(Plant::LocksLastForever) => rules.lock = Duration::from_secs(3600),
            Some(Plant::DeliveriesUnlimited) => rules.deliveries = 50,
            _ => {}
        }
        self.brokers.set_share_rules(now, group, &rules)
    }

    fn named(&self, id: Uuid, partition: i32) -> Option<Place> {
        let mut known = self.topics.iter().map(|(name, _)| name);
        let found = known.find(|name| {
            let topic = self.brokers.topic(name);
            topic.is_some_and(|topic| topic.id == id.0)
        });
        Some((Arc::clone(found?), partition))
    }

    /// A broker takes a frame.
    pub(super) fn share_taken(&mut self, wire: u64, frame: &Bytes) {
        let api = match api_of(frame) {
            Some(api @ (ApiKey::ShareFetch | ApiKey::ShareAcknowledge)) => api,
            _ => return,
        };
        let Some((client, node)) = self.wires.get(&wire).map(|it| (it.client, it.node)) else {
            return;
        };
        let Some(Client::Sharer(sharer)) = self.clients.get(client) else {
            return;
        };
        let process = sharer.process();
        let Ok((header, mut body)) = decode_request_header(frame.slice(4..)) else {
            return;
        };
        let version = header.api_version;
        let mut rows: Vec<(Uuid, i32, i64, i64, Vec<i8>)> = Vec::new();
        let epoch = if api == ApiKey::ShareFetch {
            let Ok(request) = ShareFetchRequest::decode(version, &mut body) else {
                return;
            };
            for topic in &request.topics {
                for row in &topic.partitions {
                    rows.extend(row.acknowledgement_batches.iter().map(|batch| {
                        let kinds = batch.acknowledge_types.to_vec();
                        let offsets = (batch.first_offset, batch.last_offset);
                        (
                            topic.topic_id,
                            row.partition_index,
                            offsets.0,
                            offsets.1,
                            kinds,
                        )
                    }));
                }
            }
            request.share_session_epoch
        } else {
            let Ok(request) = ShareAcknowledgeRequest::decode(version, &mut body) else {
                return;
            };
            for topic in &request.topics {
                for row in &topic.partitions {
                    rows.extend(row.acknowledgement_batches.iter().map(|batch| {
                        let kinds = batch.acknowledge_types.to_vec();
                        let offsets = (batch.first_offset, batch.last_offset);
                        (
                            topic.topic_id,
                            row.partition_index,
                            offsets.0,
                            offsets.1,
                            kinds,
                        )
                    }));
                }
            }
            request.share_session_epoch
        };
        let number = self.book.history.shared.len();
        let asked = Asked {
            number,
            process,
            api,
            version,
        };
        self.shares
            .asked
            .insert((wire, header.correlation_id), asked);
        let mut said = Vec::new();
        for (id, partition, first, last, kinds) in rows {
            if let (Some(place), [kind]) = (self.named(id, partition), &kinds[..]) {
                said.push((Range { place, first, last }, *kind));
            }
        }
        let took = Shared::Took {
            number,
            wire: Wire { number: wire, node },
            said,
            session: session(epoch),
        };
        self.share_note(process, took);
    }

    /// A broker sends bytes: frames are passed on when they are whole, unchanged unless it is
    /// defective. Those of malicious brokers have no reliable lengths, and contain nothing to
    /// record.
    pub(super) fn share_answered(&mut self, wire: u64, bytes: Bytes) -> Bytes {
        if self.keeper.lies.is_some() {
            return bytes;
        }
        let client = self.wires.get(&wire).map(|wire| wire.client);
        let client = client.and_then(|client| self.clients.get(client));
        if !matches!(client, Some(Client::Sharer(_))) {
            return bytes;
        }
        let input = self.shares.input.entry(wire).or_default();
        input.extend_from_slice(&bytes);
        let mut input = std::mem::take(input);
        let mut whole = BytesMut::new();
        while let Some(one) = frame(&mut input) {
            whole.extend_from_slice(&self.share_answer(wire, one));
        }
        self.shares.input.insert(wire, input);
        whole.freeze()
    }

    fn share_answer(&mut self, wire: u64, frame: Bytes) -> Bytes {
        let key = correlation(&frame, 4).map(|id| (wire, id));
        let Some(asked) = key.and_then(|key| self.shares.asked.remove(&key)) else {
            return frame;
        };
        let group = self.book.history.sharers.get(asked.process).copied();
        let group = group.unwrap_or(0);
        let about = (group, asked.process, asked.version);
        let lock = self.book.history.share_rules.get(group);
        let lock = lock.map_or(0, |rules| rules.lock.as_millis());
        let lock = i32::try_from(lock).unwrap_or(i32::MAX);
        let memory = &mut self.shares.memory;
        let frame = match self.keeper.plant {
            Some(plant) => memory.spoiled(plant, asked.api, about, lock, frame),
            None => frame,
        };
        let body = frame.slice(4..);
        if asked.api == ApiKey::ShareFetch {
            if let Ok((_, answer)) = decode_response::<ShareFetchResponse>(asked.version, body) {
                self.share_fetched(wire, asked, &answer);
            }
        } else if let Ok((_, answer)) =
            decode_response::<ShareAcknowledgeResponse>(asked.version, body)
        {
            let mut codes = Vec::new();
            for topic in &answer.responses {
                for row in &topic.partitions {
                    let place = self.named(topic.topic_id, row.partition_index);
                    codes.extend(place.map(|place| (place, ErrorCode(row.error_code))));
                }
            }
            let answered = Shared::Answered {
                number: asked.number,
                code: ErrorCode(answer.error_code),
                codes,
            };
            self.share_note(asked.process, answered);
        }
        frame
    }

    fn share_fetched(&mut self, wire: u64, asked: Asked, answer: &ShareFetchResponse) {
        let number = wire;
        let Some((node, is_open)) = self.wires.get(&wire).map(|it| (it.node, it.node_open)) else {
            return;
        };
        let wire = Wire { number, node };
        let (mut codes, mut acquired) = (Vec::new(), Vec::new());
        for topic in &answer.responses {
            for row in &topic.partitions {
                let Some(place) = self.named(topic.topic_id, row.partition_index) else {
                    continue;
                };
                codes.push((place.clone(), ErrorCode(row.acknowledge_error_code)));
                for those in &row.acquired_records {
                    let range = Range {
                        place: place.clone(),
                        first: those.first_offset,
                        last: those.last_offset,
                    };
                    acquired.push((range, those.delivery_count));
                }
            }
        }
        let answered = Shared::Answered {
            number: asked.number,
            code: ErrorCode(answer.error_code),
            codes,
        };
        self.share_note(asked.process, answered);
        let millis = u64::try_from(answer.acquisition_lock_timeout_ms).unwrap_or(0);
        for (range, deliveries) in acquired {
            let reign = self.reign(node, &range.place);
            let lock = Duration::from_millis(millis);
            let acquired = Shared::Acquired {
                wire,
                reign,
                range,
                deliveries,
                lock,
            };
            self.share_note(asked.process, acquired);
        }
        // What one connection's end made free was given to a member whose connection ended in the same moment.
        if !is_open {
            self.share_note(asked.process, Shared::Parted(wire));
        }
    }

    /// Who leads as far as this node knows, if it knows what was decided.
    fn reign(&self, node: i32, place: &Place) -> Option<Reign> {
        let hears = !self.wrong.deaf.contains_key(&node);
        let epoch = self.brokers.leader_epoch(&place.0, place.1)?;
        let deaths = self.shares.deaths.get(&node).copied().unwrap_or(0);
        hears.then_some(Reign {
            node,
            epoch,
            deaths,
        })
    }

    /// A broker sees the end of a connection.
    pub(super) fn share_parted(&mut self, number: u64, node: i32, client: usize) {
        if let Some(Client::Sharer(sharer)) = self.clients.get(client) {
            let process = sharer.process();
            self.share_note(process, Shared::Parted(Wire { number, node }));
            self.shares.input.remove(&number);
        }
    }
}
