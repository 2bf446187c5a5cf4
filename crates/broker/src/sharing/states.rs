//! What outlives the leader of a partition: how far share groups are in it.
//!
//! The nodes of a cluster have it in common, as they have the settings of groups. A broker of one node also writes it to
//! `__share_group_state`, one ShareSnapshot for each change, as Kafka's share coordinator has them (KIP-932), and reads it back.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_protocol::messages::{ShareSnapshotKey, ShareSnapshotValue, share_snapshot_value};
use ottla_protocol::{EncodeError, Message, Reader, Uuid, Writer};
use parking_lot::Mutex;

/// The type of the key, and the version of key and value.
const SNAPSHOT: i16 = 0;
const VERSION: i16 = 0;

/// A partition as a group reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) group: String,
    pub(crate) topic: Uuid,
    pub(crate) partition: i32,
}

/// Records of a partition with the same state, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptBatch {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) state: i8,
    pub(crate) deliveries: i16,
}

/// What is known of the records of a partition; before `start` all is done with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeptRecords {
    pub(crate) start: i64,
    pub(crate) batches: Vec<KeptBatch>,
}

/// What is known of a group in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// No other state, of this partition or another, has it.
    pub(crate) number: u64,
    /// Of the leader that wrote last.
    pub(crate) leader_epoch: i32,
    pub(crate) start: i64,
    pub(crate) batches: Vec<KeptBatch>,
}

impl State {
    /// How many records after `start` and before `end` the group is not done with.
    pub(crate) fn lag(&self, end: i64) -> i64 {
        let is_done = |it: &&KeptBatch| it.state != 0;
        let done = self.batches.iter().filter(is_done);
        // What was written down may be damaged, so that no sum is trusted.
        let counts = done.map(|it| it.last.saturating_sub(it.first).saturating_add(1));
        let done = counts.fold(0, i64::saturating_add);
        end.saturating_sub(self.start).saturating_sub(done).max(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct ShareStates(Mutex<States>);

#[derive(Debug, Default)]
struct States {
    last_number: u64,
    states: BTreeMap<Key, State>,
}

impl States {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl ShareStates {
    pub(crate) fn get(&self, key: &Key) -> Option<State> {
        self.0.lock().states.get(key).cloned()
    }

    pub(super) fn number(&self, key: &Key) -> Option<u64> {
        self.0.lock().states.get(key).map(|state| state.number)
    }

    /// The states of a group.
    pub(crate) fn of_group(&self, group: &str) -> Vec<(Key, State)> {
        let states = self.0.lock();
        let those = states.states.iter().filter(|(key, _)| key.group == group);
        those
            .map(|(key, state)| (key.clone(), state.clone()))
            .collect()
    }

    /// The leader of this epoch goes on from `kept`; gives the state's number, or `None` if a later leader was there.
    pub(super) fn take_over(
        &self,
        key: &Key,
        leader_epoch: i32,
        kept: &KeptRecords,
    ) -> Option<u64> {
        let mut states = self.0.lock();
        let known = states.states.get(key);
        if known.is_some_and(|known| known.leader_epoch > leader_epoch) {
            return None;
        }
        let number = states.next_number();
        let state = State {
            number,
            leader_epoch,
            start: kept.start,
            batches: kept.batches.clone(),
        };
        states.states.insert(key.clone(), state);
        Some(number)
    }

    /// Stores the state from the leader of this epoch. Returns whether it was new, and the leader
    /// still the right one.
    pub(super) fn put(&self, key: &Key, number: u64, leader_epoch: i32, kept: KeptRecords) -> bool {
        let mut states = self.0.lock();
        let Some(state) = states.states.get_mut(key) else {
            return false;
        };
        let is_its_own = (state.number, state.leader_epoch) == (number, leader_epoch);
        let is_new = (state.start, &state.batches) != (kept.start, &kept.batches);
        if is_its_own && is_new {
            state.start = kept.start;
            state.batches = kept.batches;
        }
        is_its_own && is_new
    }

    /// Has a group begin again at this offset.
    pub(super) fn set_start(&self, key: &Key, start: i64) {
        let mut states = self.0.lock();
        let number = states.next_number();
        let leader_epoch = states.states.get(key).map_or(0, |it| it.leader_epoch);
        let state = State {
            number,
            leader_epoch,
            start,
            batches: Vec::new(),
        };
        states.states.insert(key.clone(), state);
    }

    /// Forgets states; gives their keys.
    pub(super) fn forget(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<Key> {
        let mut states = self.0.lock();
        let keys = states.states.keys().filter(|key| is_meant(key));
        let keys: Vec<Key> = keys.cloned().collect();
        for key in &keys {
            states.states.remove(key);
        }
        keys
    }

    /// Takes over what was written down.
    pub(crate) fn restore(&self, stored: StoredState) {
        let mut states = self.0.lock();
        match stored.state {
            Some(mut state) => {
                state.number = states.next_number();
                states.states.insert(stored.key, state);
            }
            None => {
                states.states.remove(&stored.key);
            }
        }
    }
}

/// A record of `__share_group_state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredState {
    pub(crate) key: Key,
    /// `None`: it is forgotten.
    pub(crate) state: Option<State>,
}

impl StoredState {
    /// By what Kafka chooses the partition of the topic.
    pub(crate) fn place(&self) -> String {
        let Key {
            group,
            topic,
            partition,
        } = &self.key;
        format!("{group}:{topic}:{partition}")
    }

    /// The record's key and value, at this time in milliseconds since 1970.
    pub(crate) fn encode(&self, now: i64) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        let key = ShareSnapshotKey {
            group_id: self.key.group.as_str().into(),
            topic_id: self.key.topic,
            partition: self.key.partition,
        };
        let value = self.state.as_ref().map(|state| {
            let batch = |it: &KeptBatch| share_snapshot_value::StateBatch {
                first_offset: it.first,
                last_offset: it.last,
                delivery_state: it.state,
                delivery_count: it.deliveries,
                ..Default::default()
            };
            let value = ShareSnapshotValue {
                leader_epoch: state.leader_epoch,
                start_offset: state.start,
                create_timestamp: now,
                write_timestamp: now,
                state_batches: state.batches.iter().map(batch).collect(),
                ..Default::default()
            };
            versioned(VERSION, &value)
        });
        Ok((versioned(SNAPSHOT, &key)?, value.transpose()?))
    }

    /// Reads a record back; `None` if it is of another kind.
    pub(crate) fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let mut key = Reader::new(Bytes::copy_from_slice(key));
        (key.i16().ok()? == SNAPSHOT).then_some(())?;
        let key = ShareSnapshotKey::decode(VERSION, &mut key).ok()?;
        let state = match value {
            None => None,
            Some(value) => {
                let mut value = Reader::new(Bytes::copy_from_slice(value));
                (value.i16().ok()? == VERSION).then_some(())?;
                let value = ShareSnapshotValue::decode(VERSION, &mut value).ok()?;
                let batches = value.state_batches.iter().map(|it| KeptBatch {
                    first: it.first_offset,
                    last: it.last_offset,
                    state: it.delivery_state,
                    deliveries: it.delivery_count,
                });
                Some(State {
                    number: 0,
                    leader_epoch: value.leader_epoch,
                    start: value.start_offset,
                    batches: batches.collect(),
                })
            }
        };
        Some(Self {
            key: Key {
                group: key.group_id.to_string(),
                topic: key.topic_id,
                partition: key.partition,
            },
            state,
        })
    }
}

/// A key behind its type, or a value behind its version.
fn versioned<M: Message>(prefix: i16, message: &M) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::with_capacity(2);
    writer.i16(prefix);
    message.encode(VERSION, &mut writer)?;
    Ok(writer.finish().into_bytes())
}
