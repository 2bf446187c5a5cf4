//! What a share group keeps in the offsets topic, record by record as Kafka's coordinator does (KIP-932), and a group that is
//! read back from there. What becomes of its records is kept elsewhere ([`crate::sharing`]).

use bytes::Bytes;
use ottla_protocol::messages::{
    ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, ShareGroupMetadataKey,
    ShareGroupMetadataValue, ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue, ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue, share_group_current_member_assignment_value,
    share_group_target_assignment_member_value,
};
use ottla_protocol::{EncodeError, Reader, Str};

use super::assignor::Target;
use super::key::Key;
use super::{Member, ShareGroup};
use crate::group::record::{About, Record, keyed, read, valued};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Group(ShareGroupMetadataValue),
    Member(ShareGroupMemberMetadataValue),
    TargetGroup(ShareGroupTargetAssignmentMetadataValue),
    Target(ShareGroupTargetAssignmentMemberValue),
    Current(ShareGroupCurrentMemberAssignmentValue),
}

/// A record of a share group.
pub(crate) type StoredShare = Record<Key>;

impl About for Key {
    type Value = Value;
    const GROUP: Self = Self::Group;

    fn to_bytes(&self, group_id: Str) -> Result<Bytes, EncodeError> {
        match self {
            Self::Group => keyed(11, &ShareGroupMetadataKey { group_id }),
            Self::Member(id) => {
                let member_id = id.as_str().into();
                let key = ShareGroupMemberMetadataKey {
                    group_id,
                    member_id,
                };
                keyed(10, &key)
            }
            Self::TargetGroup => keyed(12, &ShareGroupTargetAssignmentMetadataKey { group_id }),
            Self::Target(id) => {
                let member_id = id.as_str().into();
                let key = ShareGroupTargetAssignmentMemberKey {
                    group_id,
                    member_id,
                };
                keyed(13, &key)
            }
            Self::Current(id) => {
                let member_id = id.as_str().into();
                let key = ShareGroupCurrentMemberAssignmentKey {
                    group_id,
                    member_id,
                };
                keyed(14, &key)
            }
        }
    }

    fn read(number: i16, from: &mut Reader) -> Option<(Str, Self)> {
        Some(match number {
            10 => {
                let key = read::<ShareGroupMemberMetadataKey>(from)?;
                (key.group_id, Self::Member(key.member_id.to_string()))
            }
            11 => (read::<ShareGroupMetadataKey>(from)?.group_id, Self::Group),
            12 => {
                let key = read::<ShareGroupTargetAssignmentMetadataKey>(from)?;
                (key.group_id, Self::TargetGroup)
            }
            13 => {
                let key = read::<ShareGroupTargetAssignmentMemberKey>(from)?;
                (key.group_id, Self::Target(key.member_id.to_string()))
            }
            14 => {
                let key = read::<ShareGroupCurrentMemberAssignmentKey>(from)?;
                (key.group_id, Self::Current(key.member_id.to_string()))
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
        }
    }

    fn read_value(&self, from: &mut Reader) -> Option<Value> {
        Some(match self {
            Self::Group => Value::Group(read(from)?),
            Self::Member(_) => Value::Member(read(from)?),
            Self::TargetGroup => Value::TargetGroup(read(from)?),
            Self::Target(_) => Value::Target(read(from)?),
            Self::Current(_) => Value::Current(read(from)?),
        })
    }
}

impl ShareGroup {
    /// The records of what changed since the last call.
    pub(in crate::group) fn take_changed(&mut self, group: &str) -> Vec<StoredShare> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let record = |key| StoredShare {
            group: group.to_owned(),
            value: self.value(&key),
            key,
        };
        changed.map(record).collect()
    }

    /// The records that make all of it be forgotten.
    pub(in crate::group) fn tombstones(&self, group: &str) -> Vec<StoredShare> {
        let members = self.members.keys().flat_map(|id| {
            let id = || id.clone();
            [Key::Current(id()), Key::Target(id()), Key::Member(id())]
        });
        let record = |key| StoredShare {
            group: group.to_owned(),
            key,
            value: None,
        };
        let keys = members.chain([Key::TargetGroup, Key::Group]);
        keys.map(record).collect()
    }

    fn value(&self, key: &Key) -> Option<Value> {
        Some(match key {
            Key::Group => Value::Group(ShareGroupMetadataValue {
                epoch: self.epoch,
                metadata_hash: self.topics_hash as i64,
                ..Default::default()
            }),
            Key::Member(id) => Value::Member(subscription(self.members.get(id)?)),
            Key::TargetGroup => Value::TargetGroup(ShareGroupTargetAssignmentMetadataValue {
                assignment_epoch: self.assignment_epoch,
                ..Default::default()
            }),
            Key::Target(id) => Value::Target(target(&self.members.get(id)?.target)),
            Key::Current(id) => Value::Current(current(self.members.get(id)?)),
        })
    }

    /// Takes a record over. The sessions of members begin with [`ShareGroup::begin_sessions`].
    pub(in crate::group) fn restore(&mut self, record: StoredShare) {
        // What was read is stored already, although a new group is marked as not stored.
        self.changed.clear();
        match (record.key, record.value) {
            (_, Some(Value::Group(value))) => {
                self.epoch = value.epoch;
                self.topics_hash = value.metadata_hash as u64;
            }
            (_, Some(Value::TargetGroup(value))) => self.assignment_epoch = value.assignment_epoch,
            (Key::Member(id), Some(Value::Member(value))) => {
                let member = self.members.entry(id).or_default();
                member.rack = value.rack_id.as_ref().map(ToString::to_string);
                member.client_id = value.client_id.to_string();
                member.client_host = value.client_host.to_string();
                let names = value.subscribed_topic_names.iter();
                member.names = names.map(ToString::to_string).collect();
            }
            (Key::Target(id), Some(Value::Target(value))) => {
                let topics = value.topic_partitions.iter();
                let topics =
                    topics.map(|it| (it.topic_id, it.partitions.iter().copied().collect()));
                self.members.entry(id).or_default().target = topics.collect();
            }
            (Key::Current(id), Some(Value::Current(value))) => {
                let topics = value.assigned_partitions.iter();
                let topics =
                    topics.map(|it| (it.topic_id, it.partitions.iter().copied().collect()));
                let member = self.members.entry(id).or_default();
                member.assigned = topics.collect();
                member.epoch = value.member_epoch;
                member.previous_epoch = value.previous_member_epoch;
            }
            (Key::Member(id), _) => {
                self.members.remove(&id);
            }
            // A member that goes has its other records removed besides this one.
            (Key::Group | Key::TargetGroup | Key::Target(_) | Key::Current(_), _) => {}
        }
    }
}

fn subscription(member: &Member) -> ShareGroupMemberMetadataValue {
    ShareGroupMemberMetadataValue {
        rack_id: member.rack.as_deref().map(Into::into),
        client_id: member.client_id.as_str().into(),
        client_host: member.client_host.as_str().into(),
        subscribed_topic_names: member.names.iter().map(|it| it.as_str().into()).collect(),
        ..Default::default()
    }
}

fn target(target: &Target) -> ShareGroupTargetAssignmentMemberValue {
    use share_group_target_assignment_member_value::TopicPartition;
    let topics = target.iter().map(|(topic_id, partitions)| TopicPartition {
        topic_id: *topic_id,
        partitions: partitions.iter().copied().collect(),
        ..Default::default()
    });
    ShareGroupTargetAssignmentMemberValue {
        topic_partitions: topics.collect(),
        ..Default::default()
    }
}

fn current(member: &Member) -> ShareGroupCurrentMemberAssignmentValue {
    use share_group_current_member_assignment_value::TopicPartitions;
    let topics = member
        .assigned
        .iter()
        .map(|(topic_id, partitions)| TopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
            ..Default::default()
        });
    ShareGroupCurrentMemberAssignmentValue {
        member_epoch: member.epoch,
        previous_member_epoch: member.previous_epoch,
        assigned_partitions: topics.collect(),
        ..Default::default()
    }
}
