//! What consumers embed in the classic protocol, as bytes: to what they subscribe, and what they are assigned.
//!
//! Two bytes of version, then the message. A newer version is read as the newest that is known here, as Kafka does: versions only
//! ever add to the end.

use std::collections::BTreeSet;

use bytes::Bytes;
use ottla_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, consumer_protocol_assignment,
};
use ottla_protocol::{EncodeError, Message, Reader, Str, Writer};

/// The type of protocol that consumers speak.
pub(super) const CONSUMER: &str = "consumer";

/// Partitions by the names of their topics.
pub(super) type Named = Vec<(String, Vec<i32>)>;

/// What a consumer sends to its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscription {
    /// The one that its assignments are written in.
    pub(super) version: i16,
    pub(super) topics: BTreeSet<String>,
    /// The partitions that it has not revoked.
    pub(super) owned: Named,
    pub(super) rack: Option<String>,
}

impl Subscription {
    /// `None` if these bytes are none.
    pub(super) fn read(metadata: &Bytes) -> Option<Self> {
        let (version, read) = read::<ConsumerProtocolSubscription>(metadata)?;
        let owned = read.owned_partitions.iter();
        let owned = owned.map(|it| (it.topic.to_string(), it.partitions.to_vec()));
        Some(Self {
            version,
            topics: read.topics.iter().map(ToString::to_string).collect(),
            owned: owned.collect(),
            rack: read.rack_id.as_ref().map(ToString::to_string),
        })
    }
}

/// What a leader assigned to a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) partitions: Named,
    /// Whether its assignor said anything besides, that another would not know to say.
    pub(super) has_user_data: bool,
}

impl Assignment {
    /// `None` if these bytes are none. No bytes are an assignment of nothing.
    pub(super) fn read(assignment: &Bytes) -> Option<Self> {
        if assignment.is_empty() {
            return Some(Self::default());
        }
        let (_, read) = read::<ConsumerProtocolAssignment>(assignment)?;
        let partitions = read.assigned_partitions.iter();
        let partitions = partitions.map(|it| (it.topic.to_string(), it.partitions.to_vec()));
        Some(Self {
            partitions: partitions.collect(),
            has_user_data: read.user_data.is_some_and(|it| !it.is_empty()),
        })
    }
}

/// The bytes of an assignment in this version of a subscription.
pub(super) fn assigned(
    version: i16,
    partitions: impl Iterator<Item = (Str, Vec<i32>)>,
) -> Result<Bytes, EncodeError> {
    let partitions =
        partitions.map(
            |(topic, partitions)| consumer_protocol_assignment::TopicPartition {
                topic,
                partitions: partitions.into(),
            },
        );
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: partitions.collect(),
        user_data: None,
    };
    let mut writer = Writer::new();
    writer.i16(version);
    assignment.encode(version, &mut writer)?;
    Ok(writer.finish().into_bytes())
}

/// A message and its version.
fn read<M: Message>(bytes: &Bytes) -> Option<(i16, M)> {
    let mut reader = Reader::new(bytes.clone());
    let version = reader.i16().ok().filter(|it| *it >= 0)?;
    let version = version.min(M::VERSIONS.max);
    Some((version, M::decode(version, &mut reader).ok()?))
}
