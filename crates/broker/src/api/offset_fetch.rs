//! OffsetFetch, versions 0 to 10: version 0 looks into ZooKeeper, at any node; one group, or from version 8 several (KIP-709);
//! from version 10 topics go by id.
//!
//! Without a committed offset the response has -1 and no error, in version 0
//! UNKNOWN_TOPIC_OR_PARTITION. Since version 7 a client can request stable offsets only, and gets
//! an error for those that an open transaction may yet change (KIP-447).

use ottla_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use ottla_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use ottla_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};
use ottla_protocol::{ErrorCode, Ints, Str, Uuid, Versions};

use super::{Api, Cx, Outcome};
use crate::group::{Committed, Offsets};
use crate::security::acl::{Operation, Resource};

const FIRST_BATCHED: i16 = 8;
const FIRST_BY_ID: i16 = 10;

impl Api for OffsetFetchRequest {
    const HANDLED: Versions = Versions { min: 0, max: 10 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<OffsetFetchResponse> {
        if cx.version == 0 {
            return Outcome::Answer(from_zookeeper(&self, cx));
        }
        let describes = |group: &str| cx.check_group(Operation::Describe, group);
        Outcome::Answer(if cx.version < FIRST_BATCHED {
            if let Err(code) = describes(&self.group_id) {
                return Outcome::Answer(self.refuse(cx.version, code));
            }
            let asked = self.topics.as_ref().map(|topics| {
                let asked = topics.iter().map(|topic| {
                    (
                        Named::Name(topic.name.clone()),
                        topic.partition_indexes.clone(),
                    )
                });
                asked.collect()
            });
            let topics = fetch(cx, &self.group_id, asked, self.require_stable, false)
                .into_iter()
                .map(Found::into_single)
                .collect();
            OffsetFetchResponse {
                topics,
                ..Default::default()
            }
        } else {
            let by_id = cx.version >= FIRST_BY_ID;
            let group = |group: &OffsetFetchRequestGroup| {
                if let Err(code) = describes(&group.group_id) {
                    return OffsetFetchResponseGroup {
                        group_id: group.group_id.clone(),
                        error_code: code.0,
                        ..Default::default()
                    };
                }
                let asked = group.topics.as_ref().map(|topics| {
                    let named = |name: &Str, id| {
                        if by_id {
                            Named::Id(id)
                        } else {
                            Named::Name(name.clone())
                        }
                    };
                    let asked = topics.iter().map(|topic| {
                        (
                            named(&topic.name, topic.topic_id),
                            topic.partition_indexes.clone(),
                        )
                    });
                    asked.collect()
                });
                let member = group.member_id.as_deref();
                let checked = cx.core.with_groups(cx.now, |groups| {
                    groups.check_fetch(&group.group_id, member, group.member_epoch)
                });
                if let Err(code) = checked {
                    return OffsetFetchResponseGroup {
                        group_id: group.group_id.clone(),
                        error_code: code.0,
                        ..Default::default()
                    };
                }
                let found = fetch(cx, &group.group_id, asked, self.require_stable, by_id);
                OffsetFetchResponseGroup {
                    group_id: group.group_id.clone(),
                    topics: found.into_iter().map(Found::into_batched).collect(),
                    ..Default::default()
                }
            };
            OffsetFetchResponse {
                groups: self.groups.iter().map(group).collect(),
                ..Default::default()
            }
        })
    }
}

fn from_zookeeper(request: &OffsetFetchRequest, cx: &Cx<'_>) -> OffsetFetchResponse {
    let group = &*request.group_id;
    if let Err(code) = cx.check(Operation::Describe, Resource::group(group)) {
        return request.refuse(cx.version, code);
    }
    let committed = |topic: &str, partition: i32| {
        cx.check(Operation::Describe, Resource::topic(topic))?;
        cx.core.topic(topic)?;
        let committed = cx.core.zookeeper.committed(group, topic, partition);
        committed.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    };
    let topics = request.topics.iter().flatten().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|partition_index| {
            let committed = committed(&topic.name, *partition_index);
            OffsetFetchResponsePartition {
                partition_index: *partition_index,
                committed_offset: committed.unwrap_or(-1),
                metadata: Some(Str::default()),
                error_code: committed.err().unwrap_or(ErrorCode::NONE).0,
                ..Default::default()
            }
        });
        OffsetFetchResponseTopic {
            partitions: partitions.collect(),
            name: topic.name.clone(),
            ..Default::default()
        }
    });
    OffsetFetchResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

enum Named {
    Name(Str),
    Id(Uuid),
}

/// The response for one topic, whichever its version.
struct Found {
    name: Str,
    id: Uuid,
    partitions: Vec<(i32, Result<Option<Committed>, ErrorCode>)>,
}

/// The offsets `group` has committed: of what is asked for, or all.
fn fetch(
    cx: &Cx<'_>,
    group: &str,
    asked: Option<Vec<(Named, Ints)>>,
    stable: bool,
    by_id: bool,
) -> Vec<Found> {
    let core = cx.core;
    let offsets = core
        .with_groups(cx.now, |groups| groups.offsets(group).cloned())
        .unwrap_or_default();
    match asked {
        Some(asked) => asked
            .into_iter()
            .map(|(named, indexes)| of_topic(cx, &offsets, named, &indexes, stable))
            .collect(),
        None => {
            let seen = offsets
                .topics()
                .filter(|(name, _)| cx.may(Operation::Describe, Resource::topic(name)));
            let all = seen.map(|(name, partitions)| Found {
                name: name.to_owned().into(),
                // A deleted topic's offsets are gone, so every topic here has an id.
                id: if by_id {
                    core.topic(name).map_or(Uuid::ZERO, |topic| topic.id)
                } else {
                    Uuid::ZERO
                },
                partitions: partitions
                    .keys()
                    .map(|index| (*index, committed(&offsets, name, *index, stable)))
                    .collect(),
            });
            all.collect()
        }
    }
}

/// The committed offset of a partition, if no open transaction may change it, where that matters.
fn committed(
    offsets: &Offsets,
    topic: &str,
    index: i32,
    stable: bool,
) -> Result<Option<Committed>, ErrorCode> {
    if stable && offsets.is_unstable(topic, index) {
        return Err(ErrorCode::UNSTABLE_OFFSET_COMMIT);
    }
    Ok(offsets.committed(topic, index).cloned())
}

fn of_topic(cx: &Cx<'_>, offsets: &Offsets, named: Named, indexes: &[i32], stable: bool) -> Found {
    let (name, id, code) = match named {
        Named::Name(name) => (name, Uuid::ZERO, ErrorCode::NONE),
        Named::Id(id) => match cx.core.topic_by_id(id) {
            Ok(topic) => (topic.name.clone(), id, ErrorCode::NONE),
            Err(code) => (Str::default(), id, code),
        },
    };
    let code = match cx.check(Operation::Describe, Resource::topic(&name)) {
        Err(denied) if code == ErrorCode::NONE => denied,
        _ => code,
    };
    let found = |index: &i32| {
        let found = match code {
            ErrorCode::NONE => committed(offsets, &name, *index, stable),
            code => Err(code),
        };
        (*index, found)
    };
    let partitions = indexes.iter().map(found).collect();
    Found {
        name,
        id,
        partitions,
    }
}

impl Found {
    fn into_single(self) -> OffsetFetchResponseTopic {
        let partitions = self
            .partitions
            .into_iter()
            .map(|(partition_index, committed)| {
                let (committed_offset, committed_leader_epoch, metadata, code) = fields(committed);
                OffsetFetchResponsePartition {
                    partition_index,
                    committed_offset,
                    committed_leader_epoch,
                    metadata,
                    error_code: code.0,
                    ..Default::default()
                }
            });
        OffsetFetchResponseTopic {
            partitions: partitions.collect(),
            name: self.name,
            ..Default::default()
        }
    }

    fn into_batched(self) -> OffsetFetchResponseTopics {
        let partitions = self
            .partitions
            .into_iter()
            .map(|(partition_index, committed)| {
                let (committed_offset, committed_leader_epoch, metadata, code) = fields(committed);
                OffsetFetchResponsePartitions {
                    partition_index,
                    committed_offset,
                    committed_leader_epoch,
                    metadata,
                    error_code: code.0,
                    ..Default::default()
                }
            });
        // By id the name is left out.
        let name = if self.id == Uuid::ZERO {
            self.name
        } else {
            Str::default()
        };
        OffsetFetchResponseTopics {
            partitions: partitions.collect(),
            name,
            topic_id: self.id,
            ..Default::default()
        }
    }
}

/// Offset, leader epoch, metadata and code.
fn fields(committed: Result<Option<Committed>, ErrorCode>) -> (i64, i32, Option<Str>, ErrorCode) {
    match committed {
        Ok(Some(Committed {
            offset,
            leader_epoch,
            metadata,
            ..
        })) => (offset, leader_epoch, Some(metadata.into()), ErrorCode::NONE),
        Ok(None) => (-1, -1, Some(Str::default()), ErrorCode::NONE),
        Err(code) => (-1, -1, Some(Str::default()), code),
    }
}
