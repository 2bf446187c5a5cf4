//! What a consumer group keeps in the offsets topic, record by record as Kafka's coordinator does (KIP-848), and a group that
//! is read back from there.

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_protocol::messages::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue, ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue, consumer_group_current_member_assignment_value,
    consumer_group_member_metadata_value, consumer_group_target_assignment_member_value,
};
use ottla_protocol::{EncodeError, Reader, Str};

use super::key::Key;
use super::member::{Classic, Held, Member, Stage};
use super::pattern::Resolved;
use super::{ConsumerGroup, Target, milliseconds};
use crate::group::classic::Protocol;
use crate::group::record::{About, Record, keyed, read, valued};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Group(ConsumerGroupMetadataValue),
    Member(ConsumerGroupMemberMetadataValue),
    TargetGroup(ConsumerGroupTargetAssignmentMetadataValue),
    Target(ConsumerGroupTargetAssignmentMemberValue),
    Current(ConsumerGroupCurrentMemberAssignmentValue),
    Pattern(ConsumerGroupRegularExpressionValue),
}

/// A record of a consumer group.
pub(crate) type StoredConsumer = Record<Key>;

impl About for Key {
    type Value = Value;
    const GROUP: Self = Self::Group;

    fn to_bytes(&self, group_id: Str) -> Result<Bytes, EncodeError> {
        match self {
            Self::Group => keyed(3, &ConsumerGroupMetadataKey { group_id }),
            Self::Member(id) => {
                let member_id = id.as_str().into();
                let key = ConsumerGroupMemberMetadataKey {
                    group_id,
                    member_id,
                };
                keyed(5, &key)
            }
            Self::TargetGroup => keyed(6, &ConsumerGroupTargetAssignmentMetadataKey { group_id }),
            Self::Target(id) => {
                let member_id = id.as_str().into();
                let key = ConsumerGroupTargetAssignmentMemberKey {
                    group_id,
                    member_id,
                };
                keyed(7, &key)
            }
            Self::Current(id) => {
                let member_id = id.as_str().into();
                let key = ConsumerGroupCurrentMemberAssignmentKey {
                    group_id,
                    member_id,
                };
                keyed(8, &key)
            }
            Self::Pattern(expression) => {
                let regular_expression = expression.as_str().into();
                let key = ConsumerGroupRegularExpressionKey {
                    group_id,
                    regular_expression,
                };
                keyed(16, &key)
            }
        }
    }

    fn read(number: i16, from: &mut Reader) -> Option<(Str, Self)> {
        Some(match number {
            3 => (
                read::<ConsumerGroupMetadataKey>(from)?.group_id,
                Self::Group,
            ),
            5 => {
                let key = read::<ConsumerGroupMemberMetadataKey>(from)?;
                (key.group_id, Self::Member(key.member_id.to_string()))
            }
            6 => {
                let key = read::<ConsumerGroupTargetAssignmentMetadataKey>(from)?;
                (key.group_id, Self::TargetGroup)
            }
            7 => {
                let key = read::<ConsumerGroupTargetAssignmentMemberKey>(from)?;
                (key.group_id, Self::Target(key.member_id.to_string()))
            }
            8 => {
                let key = read::<ConsumerGroupCurrentMemberAssignmentKey>(from)?;
                (key.group_id, Self::Current(key.member_id.to_string()))
            }
            16 => {
                let key = read::<ConsumerGroupRegularExpressionKey>(from)?;
                let expression = key.regular_expression.to_string();
                (key.group_id, Self::Pattern(expression))
            }
            _ => return None,
        })
    }

    fn value_to_bytes(value: &Value, now: i64) -> Result<Bytes, EncodeError> {
        match value {
            Value::Group(value) => valued(value),
            Value::Member(value) => valued(value),
            Value::TargetGroup(value) => {
                let mut value = value.clone();
                value.assignment_timestamp = now;
                valued(&value)
            }
            Value::Target(value) => valued(value),
            Value::Current(value) => valued(value),
            Value::Pattern(value) => {
                let mut value = value.clone();
                value.timestamp = now;
                valued(&value)
            }
        }
    }

    fn read_value(&self, from: &mut Reader) -> Option<Value> {
        Some(match self {
            Self::Group => Value::Group(read(from)?),
            Self::Member(_) => Value::Member(read(from)?),
            Self::TargetGroup => Value::TargetGroup(read(from)?),
            Self::Target(_) => Value::Target(read(from)?),
            Self::Current(_) => Value::Current(read(from)?),
            Self::Pattern(_) => Value::Pattern(read(from)?),
        })
    }
}

impl ConsumerGroup {
    /// The records of what changed since the last call.
    pub(in crate::group) fn take_changed(&mut self, group: &str) -> Vec<StoredConsumer> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let record = |key| StoredConsumer {
            group: group.to_owned(),
            value: self.value(&key),
            key,
        };
        changed.map(record).collect()
    }

    /// The records that make all of it be forgotten.
    pub(in crate::group) fn tombstones(&self, group: &str) -> Vec<StoredConsumer> {
        let members = self.members.keys().flat_map(|id| {
            let id = || id.clone();
            [Key::Current(id()), Key::Target(id()), Key::Member(id())]
        });
        let patterns = self.resolved.keys().cloned().map(Key::Pattern);
        let keys = members
            .chain(patterns)
            .chain([Key::TargetGroup, Key::Group]);
        let record = |key| StoredConsumer {
            group: group.to_owned(),
            key,
            value: None,
        };
        keys.map(record).collect()
    }

    fn value(&self, key: &Key) -> Option<Value> {
        Some(match key {
            Key::Group => Value::Group(ConsumerGroupMetadataValue {
                epoch: self.epoch,
                metadata_hash: self.topics_hash as i64,
                ..Default::default()
            }),
            Key::Member(id) => Value::Member(subscription(&self.members.get(id)?.member)),
            Key::TargetGroup => Value::TargetGroup(ConsumerGroupTargetAssignmentMetadataValue {
                assignment_epoch: self.assignment_epoch,
                ..Default::default()
            }),
            Key::Target(id) => Value::Target(shares(&self.members.get(id)?.target)),
            Key::Current(id) => Value::Current(current(&self.members.get(id)?.member)),
            Key::Pattern(expression) => {
                let resolved = self.resolved.get(expression)?;
                Value::Pattern(ConsumerGroupRegularExpressionValue {
                    topics: resolved
                        .topics
                        .iter()
                        .map(|it| it.as_str().into())
                        .collect(),
                    version: resolved.version as i64,
                    ..Default::default()
                })
            }
        })
    }

    /// Takes a record over. The sessions of members begin with [`ConsumerGroup::begin_sessions`].
    pub(in crate::group) fn restore(&mut self, record: StoredConsumer) {
        // What was read is stored already, although a new group is marked as not stored.
        self.changed.clear();
        match (record.key, record.value) {
            (_, Some(Value::Group(value))) => {
                self.epoch = value.epoch;
                self.topics_hash = value.metadata_hash as u64;
            }
            (_, Some(Value::TargetGroup(value))) => self.assignment_epoch = value.assignment_epoch,
            (Key::Member(id), Some(Value::Member(value))) => {
                subscribed(&mut self.members.entry(id).or_default().member, &value);
            }
            (Key::Target(id), Some(Value::Target(value))) => {
                let shares = value.topic_partitions.iter();
                let target =
                    shares.map(|it| (it.topic_id, it.partitions.iter().copied().collect()));
                self.members.entry(id).or_default().target = target.collect();
            }
            (Key::Current(id), Some(Value::Current(value))) => {
                assigned(&mut self.members.entry(id).or_default().member, &value);
            }
            (Key::Pattern(expression), Some(Value::Pattern(value))) => {
                let topics = value.topics.iter().map(ToString::to_string).collect();
                self.resolved
                    .insert(expression, Resolved { topics, version: 0 });
            }
            (Key::Member(id), _) => {
                self.members.remove(&id);
            }
            (Key::Pattern(expression), _) => {
                self.resolved.remove(&expression);
            }
            // A member that goes has its other records removed besides this one.
            (Key::Group | Key::TargetGroup | Key::Target(_) | Key::Current(_), _) => {}
        }
    }
}

fn subscription(member: &Member) -> ConsumerGroupMemberMetadataValue {
    ConsumerGroupMemberMetadataValue {
        instance_id: member.instance.as_deref().map(Into::into),
        rack_id: member.rack.as_deref().map(Into::into),
        client_id: member.client_id.as_str().into(),
        client_host: member.client_host.as_str().into(),
        subscribed_topic_names: member.names.iter().map(|it| it.as_str().into()).collect(),
        subscribed_topic_regex: member.pattern.as_deref().map(Into::into),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: member.assignor.as_deref().map(Into::into),
        classic_member_metadata: member.classic.as_ref().map(classic),
        ..Default::default()
    }
}

fn classic(classic: &Classic) -> consumer_group_member_metadata_value::ClassicMemberMetadata {
    use consumer_group_member_metadata_value::{ClassicMemberMetadata, ClassicProtocol};
    let protocol = |it: &Protocol| ClassicProtocol {
        name: it.name.as_str().into(),
        metadata: it.metadata.clone(),
        ..Default::default()
    };
    ClassicMemberMetadata {
        session_timeout_ms: i32::try_from(classic.session.as_millis()).unwrap_or(i32::MAX),
        supported_protocols: classic.protocols.iter().map(protocol).collect(),
        ..Default::default()
    }
}

fn subscribed(member: &mut Member, value: &ConsumerGroupMemberMetadataValue) {
    let owned = |text: &Option<Str>| text.as_ref().map(ToString::to_string);
    member.instance = owned(&value.instance_id);
    member.rack = owned(&value.rack_id);
    member.client_id = value.client_id.to_string();
    member.client_host = value.client_host.to_string();
    member.names = value
        .subscribed_topic_names
        .iter()
        .map(ToString::to_string)
        .collect();
    member.pattern = owned(&value.subscribed_topic_regex).filter(|it| !it.is_empty());
    member.rebalance_timeout_ms = value.rebalance_timeout_ms;
    member.assignor = owned(&value.server_assignor);
    member.classic = value.classic_member_metadata.as_ref().map(|classic| {
        let protocols = classic.supported_protocols.iter().map(|it| Protocol {
            name: it.name.to_string(),
            metadata: it.metadata.clone(),
        });
        Classic {
            session: milliseconds(classic.session_timeout_ms),
            protocols: protocols.collect(),
        }
    });
}

fn shares(target: &Target) -> ConsumerGroupTargetAssignmentMemberValue {
    use consumer_group_target_assignment_member_value::TopicPartition;
    let topics = target.iter().map(|(topic_id, partitions)| TopicPartition {
        topic_id: *topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: topics.collect(),
        ..Default::default()
    }
}

fn current(member: &Member) -> ConsumerGroupCurrentMemberAssignmentValue {
    use consumer_group_current_member_assignment_value::TopicPartitions;
    let listed = |held: &Held| {
        let topics = held.iter().filter(|(_, it)| !it.is_empty());
        let topics = topics.map(|(topic_id, partitions)| TopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.keys().copied().collect(),
            assignment_epochs: Some(partitions.values().copied().collect()),
            ..Default::default()
        });
        topics.collect()
    };
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: member.epoch,
        previous_member_epoch: member.previous_epoch,
        state: member.stage as i8,
        assigned_partitions: listed(&member.assigned),
        partitions_pending_revocation: listed(&member.revoking),
        ..Default::default()
    }
}

fn assigned(member: &mut Member, value: &ConsumerGroupCurrentMemberAssignmentValue) {
    use consumer_group_current_member_assignment_value::TopicPartitions;
    let held = |topics: &[TopicPartitions]| -> Held {
        let topics = topics.iter().map(|topic| {
            // Before Kafka 4.3 they were not written: then the member's own counts, as there.
            let epochs = topic.assignment_epochs.as_deref().unwrap_or_default();
            let epochs = epochs
                .iter()
                .copied()
                .chain(std::iter::repeat(value.member_epoch));
            let partitions = topic.partitions.iter().copied().zip(epochs);
            (topic.topic_id, partitions.collect::<BTreeMap<_, _>>())
        });
        topics.collect()
    };
    member.epoch = value.member_epoch;
    member.previous_epoch = value.previous_member_epoch;
    member.stage = Stage::of(value.state);
    member.assigned = held(&value.assigned_partitions);
    member.revoking = held(&value.partitions_pending_revocation);
}
