//! The consumer protocol: the metadata that a member sends to its group in JoinGroup, and the
//! assignment that the leader sends in SyncGroup, as bytes.
//!
//! Two bytes of version, then `ConsumerProtocolSubscription` or `ConsumerProtocolAssignment`. Version 1 brought the owned partitions
//! (KIP-429), 2 the generation (KIP-792), 3 the rack (KIP-881). A newer version is read as the newest that is known here, as Kafka
//! does: versions only ever add to the end.

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, consumer_protocol_assignment,
    consumer_protocol_subscription,
};
use ottla_protocol::{DecodeError, Ints, Message, Reader, Writer};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, Kind};

/// The version that is written, as Kafka's client does, whatever the members of the group know: all of them read it.
const WRITTEN: i16 = 3;

/// The metadata that a member sends to its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The topics that it wants, each once.
    pub topics: Vec<Arc<str>>,
    /// Further data for its assignor.
    pub user_data: Option<Bytes>,
    /// The partitions that it owns and has not revoked. The number of a partition is not negative.
    pub owned: Vec<(Arc<str>, i32)>,
    /// The generation in which it got them; -1 if it has none, or sends none.
    pub generation: i32,
    /// Its `client.rack`.
    pub rack: Option<Arc<str>>,
}

/// The leader's assignment of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its partitions, each once. The number of a partition is not negative.
    pub partitions: Vec<(Arc<str>, i32)>,
    /// Further data from the assignor.
    pub user_data: Option<Bytes>,
}

impl Default for Subscription {
    fn default() -> Self {
        Subscription {
            topics: Vec::new(),
            user_data: None,
            owned: Vec::new(),
            generation: -1,
            rack: None,
        }
    }
}

impl Subscription {
    /// Reads the metadata that a member, which may be any client, sent to its group. A topic that
    /// is named twice counts once. Owned partitions are returned as they were sent, since assignors
    /// handle claims that contradict each other; only negative numbers are left out.
    ///
    /// # Errors
    /// `Kind::Protocol` if the bytes are no subscription. Nothing of them is used then.
    pub fn decode(bytes: Bytes) -> Result<Subscription, Error> {
        let decoded: ConsumerProtocolSubscription = read(bytes, "subscription")?;
        let mut seen = FxHashSet::default();
        let topics = decoded.topics.iter().filter(|topic| seen.insert(&***topic));
        let owned = decoded.owned_partitions.iter();
        Ok(Subscription {
            topics: topics.map(|topic| Arc::from(&**topic)).collect(),
            owned: owned
                .flat_map(|row| numbered(&row.topic, &row.partitions))
                .collect(),
            generation: decoded.generation_id.max(-1),
            rack: decoded
                .rack_id
                .filter(|rack| !rack.is_empty())
                .map(|rack| Arc::from(&*rack)),
            user_data: decoded.user_data,
        })
    }

    /// The bytes of it, in version 3: topics and owned partitions sorted, as Kafka's client writes them.
    ///
    /// # Errors
    /// `Kind::Argument` if a name has more than 32,767 bytes.
    pub fn encode(&self) -> Result<Bytes, Error> {
        let mut topics = self.topics.clone();
        topics.sort_unstable();
        let mut owned = self.owned.clone();
        owned.sort_unstable();
        let owned_partitions = by_topic(&owned).into_iter();
        let message = ConsumerProtocolSubscription {
            topics: topics.iter().map(|topic| (&**topic).into()).collect(),
            user_data: self.user_data.clone(),
            owned_partitions: owned_partitions
                .map(
                    |(topic, partitions)| consumer_protocol_subscription::TopicPartition {
                        topic: topic.into(),
                        partitions,
                    },
                )
                .collect(),
            generation_id: self.generation,
            rack_id: self.rack.as_deref().map(Into::into),
        };
        write(&message, "subscription")
    }
}

impl Assignment {
    /// Reads what the leader, which may be any client, assigned. No bytes are an assignment of nothing. A partition that is named
    /// twice counts once, one with a negative number does not.
    ///
    /// # Errors
    /// `Kind::Protocol` if the bytes are no assignment. Nothing of them is used then.
    pub fn decode(bytes: Bytes) -> Result<Assignment, Error> {
        if bytes.is_empty() {
            return Ok(Assignment {
                partitions: Vec::new(),
                user_data: None,
            });
        }
        let decoded: ConsumerProtocolAssignment = read(bytes, "assignment")?;
        let rows = decoded.assigned_partitions.iter();
        let mut partitions: Vec<_> = rows
            .flat_map(|row| numbered(&row.topic, &row.partitions))
            .collect();
        let mut seen = FxHashSet::default();
        partitions.retain(|partition| seen.insert(partition.clone()));
        Ok(Assignment {
            partitions,
            user_data: decoded.user_data,
        })
    }

    /// The bytes of it, in version 3, topics in the order in which they come first.
    ///
    /// # Errors
    /// `Kind::Argument` if a name has more than 32,767 bytes.
    pub fn encode(&self) -> Result<Bytes, Error> {
        let assigned = by_topic(&self.partitions).into_iter();
        let message = ConsumerProtocolAssignment {
            assigned_partitions: assigned
                .map(
                    |(topic, partitions)| consumer_protocol_assignment::TopicPartition {
                        topic: topic.into(),
                        partitions,
                    },
                )
                .collect(),
            user_data: self.user_data.clone(),
        };
        write(&message, "assignment")
    }
}

/// Reads the version and then the message. Some clients write one version and use the layout of an
/// older one: that is accepted if the layout accounts for every byte, so that no part of damaged
/// bytes is ever used.
fn read<M: Message>(bytes: Bytes, what: &str) -> Result<M, Error> {
    let bad = |why: &dyn std::fmt::Display| {
        let from = "the client that wrote it is not compatible with Kafka's consumer protocol";
        Error::new(
            Kind::Protocol,
            format!("a {what} of the group does not decode: {why}; {from}"),
        )
    };
    let mut input = Reader::new(bytes);
    let told = input.i16().map_err(|error| bad(&error))?;
    if told < 0 {
        return Err(bad(&format_args!("version {told} does not exist")));
    }
    let version = told.min(M::VERSIONS.max);
    let body = input.rest();
    let whole = M::decode(version, &mut Reader::new(body.clone()));
    let older = |error: DecodeError| {
        let layouts = (M::VERSIONS.min..version).rev();
        let mut exact = layouts.filter_map(|version| {
            let mut input = Reader::new(body.clone());
            let message = M::decode(version, &mut input).ok()?;
            input.finish().is_ok().then_some(message)
        });
        exact.next().ok_or_else(|| bad(&error))
    };
    whole.or_else(older)
}

fn write(message: &impl Message, what: &str) -> Result<Bytes, Error> {
    let mut out = Writer::new();
    out.i16(WRITTEN);
    match message.encode(WRITTEN, &mut out) {
        Ok(()) => Ok(out.finish().into_bytes()),
        Err(error) => Err(Error::new(
            Kind::Argument,
            format!("a {what} of the group cannot be written: {error}; use shorter names"),
        )),
    }
}

/// The partitions of one topic, without numbers that no partition has.
fn numbered(topic: &str, numbers: &Ints) -> impl Iterator<Item = (Arc<str>, i32)> {
    let topic: Arc<str> = Arc::from(topic);
    let valid = numbers.iter().copied().filter(|number| *number >= 0);
    // A copy: the message does not outlive this.
    let valid: Ints = valid.collect();
    valid
        .into_iter()
        .map(move |number| (Arc::clone(&topic), number))
}

/// The numbers of each topic, topics in the order in which they come first.
pub(super) fn by_topic(partitions: &[(Arc<str>, i32)]) -> Vec<(&str, Ints)> {
    let mut topics: Vec<(&str, Ints)> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    for (topic, number) in partitions {
        let place = *places.entry(topic).or_insert_with(|| {
            topics.push((topic, Ints::new()));
            topics.len() - 1
        });
        if let Some((_, numbers)) = topics.get_mut(place) {
            numbers.push(*number);
        }
    }
    topics
}
