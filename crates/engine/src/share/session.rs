//! A share session: what one broker and this member know of each other's requests (KIP-932).
//!
//! ```text
//!  epoch 0: ShareFetch opens it ──▶ epoch 1, 2, 3 ...: one request at a time ──▶ epoch -1 ends it
//!     ▲                                  │
//!     └── unknown to the broker, out of step, or its connection is gone: what was acquired in it is free again
//! ```
//!
//! Acknowledgements go to the broker that gave the lock and to no other: a partition's next leader knows nothing of locks. They go
//! with the next ShareFetch where there is one, and by ShareAcknowledge where none is due, or a lock is to be renewed: such a request
//! fetches nothing (KIP-1222).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ottla_protocol::Uuid;
use ottla_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch as Acknowledgement,
};
use ottla_protocol::messages::share_fetch_request::{
    AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic,
};
use ottla_protocol::messages::{ShareAcknowledgeRequest, ShareFetchRequest};

use crate::cluster::LinkId;
use crate::config::{AcquireMode, Config};
use crate::share::acknowledgement::{ByPartition, Key, Pending, Verdict};
use crate::share::runs::{Run, Runs};

/// The epochs that open and that end a session.
pub(super) const OPENS: i32 = 0;
const ENDS: i32 = -1;

/// The purpose of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Records, of these partitions from now on.
    Fetch(BTreeSet<Key>),
    Acknowledge,
    End,
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) token: u64,
    pub(super) purpose: Purpose,
    pub(super) acknowledged: ByPartition,
}

/// The session with one broker.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Counts the sessions of this client: locks belong to one of them.
    pub(super) number: u64,
    pub(super) link: Option<LinkId>,
    pub(super) epoch: i32,
    /// The partitions that the broker has in it.
    pub(super) known: BTreeSet<Key>,
    pub(super) sent: Option<Sent>,
    pub(super) outbox: ByPartition,
    /// The next request ends it.
    pub(super) must_end: bool,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Instant>,
}

impl Session {
    /// Whether the broker has it, as far as known.
    pub(super) fn is_open(&self) -> bool {
        self.epoch != OPENS
    }

    pub(super) fn renews(&self) -> bool {
        let mut pending = self.outbox.values().flat_map(Runs::iter);
        pending.any(|run| run.value.verdict == Verdict::RENEW)
    }

    /// A request got a response without an error.
    pub(super) fn answered(&mut self, purpose: Purpose) {
        self.failures = 0;
        self.epoch = match self.epoch {
            i32::MAX => 1,
            epoch => epoch + 1,
        };
        if let Purpose::Fetch(content) = purpose {
            self.known = content;
        }
    }

    /// The broker no longer has the session, or it is out of step. Returns the acknowledgements
    /// that were not sent in time.
    pub(super) fn end(&mut self, number: u64) -> (ByPartition, Option<Sent>) {
        self.number = number;
        self.link = None;
        self.epoch = OPENS;
        self.must_end = false;
        self.known.clear();
        (std::mem::take(&mut self.outbox), self.sent.take())
    }

    /// A ShareFetch for these partitions, with all acknowledgements that wait.
    pub(super) fn fetch(
        &mut self,
        config: &Config,
        (group, member): (&str, &str),
        token: u64,
        content: BTreeSet<Key>,
    ) -> ShareFetchRequest {
        let acknowledged = std::mem::take(&mut self.outbox);
        let mut rows: BTreeMap<Key, FetchPartition> = BTreeMap::new();
        let news = content.difference(&self.known).chain(acknowledged.keys());
        for key in news {
            rows.insert(
                *key,
                FetchPartition {
                    partition_index: key.1,
                    ..Default::default()
                },
            );
        }
        for (key, pending) in &acknowledged {
            if let Some(row) = rows.get_mut(key) {
                let batches = pending.iter().map(|run| AcknowledgementBatch {
                    first_offset: run.first,
                    last_offset: run.last,
                    acknowledge_types: vec![run.value.verdict.number()],
                    ..Default::default()
                });
                row.acknowledgement_batches = batches.collect();
            }
        }
        let mut topics: Vec<FetchTopic> = Vec::new();
        for ((topic_id, _), row) in rows {
            match topics.last_mut() {
                Some(topic) if topic.topic_id == topic_id => topic.partitions.push(row),
                _ => topics.push(FetchTopic {
                    topic_id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
        }
        let mut gone: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for (topic_id, partition) in self.known.difference(&content) {
            gone.entry(*topic_id).or_default().push(*partition);
        }
        let forgotten = gone
            .into_iter()
            .map(|(topic_id, partitions)| ForgottenTopic {
                topic_id,
                partitions: partitions.into(),
                ..Default::default()
            });
        let forgotten = forgotten.collect();
        let records = i32::try_from(config.max_poll_records).unwrap_or(i32::MAX);
        let request = ShareFetchRequest {
            group_id: Some(group.into()),
            member_id: Some(member.into()),
            share_session_epoch: self.epoch,
            max_wait_ms: i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
            min_bytes: config.fetch_min_bytes,
            max_bytes: config.fetch_max_bytes,
            max_records: records,
            batch_size: records,
            share_acquire_mode: match config.share_acquire_mode {
                AcquireMode::BatchOptimized => 0,
                AcquireMode::RecordLimit => 1,
            },
            topics,
            forgotten_topics_data: forgotten,
            ..Default::default()
        };
        self.sent = Some(Sent {
            token,
            purpose: Purpose::Fetch(content),
            acknowledged,
        });
        request
    }

    /// A ShareAcknowledge with all acknowledgements that wait; `ends` the session with them, and then frees what is acquired still.
    pub(super) fn acknowledge(
        &mut self,
        (group, member): (&str, &str),
        token: u64,
        ends: bool,
    ) -> ShareAcknowledgeRequest {
        let renews = !ends && self.renews();
        let acknowledged = std::mem::take(&mut self.outbox);
        let mut topics: Vec<AcknowledgeTopic> = Vec::new();
        for ((topic_id, partition_index), pending) in &acknowledged {
            let row = AcknowledgePartition {
                partition_index: *partition_index,
                acknowledgement_batches: pending.iter().map(|run| batch(&run)).collect(),
                ..Default::default()
            };
            match topics.last_mut() {
                Some(topic) if topic.topic_id == *topic_id => topic.partitions.push(row),
                _ => topics.push(AcknowledgeTopic {
                    topic_id: *topic_id,
                    partitions: vec![row],
                    ..Default::default()
                }),
            }
        }
        let request = ShareAcknowledgeRequest {
            group_id: Some(group.into()),
            member_id: Some(member.into()),
            share_session_epoch: if ends { ENDS } else { self.epoch },
            is_renew_ack: renews,
            topics,
            ..Default::default()
        };
        let purpose = if ends {
            Purpose::End
        } else {
            Purpose::Acknowledge
        };
        self.sent = Some(Sent {
            token,
            purpose,
            acknowledged,
        });
        request
    }
}

fn batch(run: &Run<Pending>) -> Acknowledgement {
    Acknowledgement {
        first_offset: run.first,
        last_offset: run.last,
        acknowledge_types: vec![run.value.verdict.number()],
        ..Default::default()
    }
}
