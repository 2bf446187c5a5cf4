//! Offsets that groups have committed, as administrators see and change them: OffsetFetch, OffsetCommit and OffsetDelete.

use std::sync::Arc;

use ottla_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use ottla_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use ottla_protocol::messages::{
    OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetFetchResponse,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::groups::{retry, target};
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::partitions::{by_topic, results};
use crate::call::{About, Asked, ByItem, Call, Retry, Target, TopicPartition};
use crate::error::{Error, Item};

verbs! {
    list_group_offsets: ListGroupOffsets,
    alter_group_offsets: AlterGroupOffsets,
    delete_group_offsets: DeleteGroupOffsets,
}

/// The first versions of OffsetFetch that return all partitions of a group, and that wait for open transactions (KIP-447).
const ALL: i16 = 2;
const STABLE: i16 = 7;
/// The highest version of OffsetFetch and OffsetCommit with names of topics.
const NAMED: i16 = 9;

/// A group, and the partitions whose offsets are wanted.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupOffsetsQuery {
    /// The group.
    pub group: String,
    /// The partitions; `None` for all that have an offset.
    pub partitions: Option<Vec<TopicPartition>>,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetAndMetadata {
    /// The offset of the next record to read.
    pub offset: i64,
    /// Any text.
    pub metadata: String,
    /// The leader epoch of the record before it, if known.
    pub leader_epoch: Option<i32>,
}

/// Committed offsets of groups. An item is a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ListGroupOffsetsArguments")]
pub struct ListGroupOffsets {
    groups: Vec<(Arc<str>, Option<Vec<TopicPartition>>)>,
    require_stable: bool,
}

#[derive(Deserialize)]
struct ListGroupOffsetsArguments {
    groups: Vec<GroupOffsetsQuery>,
    require_stable: bool,
}

impl From<ListGroupOffsetsArguments> for ListGroupOffsets {
    fn from(arguments: ListGroupOffsetsArguments) -> ListGroupOffsets {
        let groups = arguments.groups.into_iter();
        ListGroupOffsets {
            groups: groups
                .map(|row| (row.group.into(), row.partitions))
                .collect(),
            require_stable: arguments.require_stable,
        }
    }
}

impl ListGroupOffsets {
    /// All offsets of a group.
    pub(super) fn all_of(group: Arc<str>) -> ListGroupOffsets {
        ListGroupOffsets {
            groups: vec![(group, None)],
            require_stable: false,
        }
    }
}

impl Call for ListGroupOffsets {
    type Found = ByItem<Option<OffsetAndMetadata>>;
    type Answer = ByItem<ByItem<Option<OffsetAndMetadata>>>;
    const API: ApiKey = ApiKey::OffsetFetch;

    fn versions(&self) -> (i16, i16) {
        let all = self
            .groups
            .iter()
            .any(|(_, partitions)| partitions.is_none());
        let least = match (self.require_stable, all) {
            (true, _) => STABLE,
            (false, true) => ALL,
            (false, false) => 1,
        };
        (least, NAMED)
    }

    fn items(&self) -> usize {
        self.groups.len()
    }

    /// Brokers before 3.0 take one group in a request.
    fn is_alone(&self) -> bool {
        true
    }

    fn target(&self, item: usize) -> Target {
        target(self.groups.get(item).map(|(group, _)| group))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        let groups = wanted.map(|(group, partitions)| {
            let topics = partitions.as_ref().map(|partitions| {
                let rows = partitions.iter().map(|it| (&it.topic, it.partition));
                let topics = by_topic(rows).into_iter();
                let topics = topics.map(|(topic, partitions)| OffsetFetchRequestTopics {
                    name: (&**topic).into(),
                    partition_indexes: partitions.into_iter().collect(),
                    ..Default::default()
                });
                topics.collect()
            });
            OffsetFetchRequestGroup {
                group_id: (&**group).into(),
                topics,
                ..Default::default()
            }
        });
        Request::OffsetFetch(OffsetFetchRequest {
            groups: groups.collect(),
            require_stable: self.require_stable,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::OffsetFetch(answer) = response else {
            return Vec::new();
        };
        let wanted = items.iter().filter_map(|asked| self.groups.get(asked.item));
        let found =
            wanted.map(|(group, _)| offsets(&answer).map_err(|error| error.with_group(group)));
        found.collect()
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        let waits = error.code() == Some(ErrorCode::UNSTABLE_OFFSET_COMMIT);
        if waits {
            Retry::AfterPause
        } else {
            retry(error)
        }
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        let groups = self.groups.into_iter().map(|(group, _)| group);
        ByItem::new(groups.collect(), found)
    }
}

/// The offsets of one group in a response.
fn offsets(answer: &OffsetFetchResponse) -> Result<ByItem<Option<OffsetAndMetadata>>, Error> {
    let row =
        |topic: &str, partition: i32, code: i16, offset: i64, epoch: i32, text: Option<&str>| {
            let topic: Arc<str> = topic.into();
            let code = ErrorCode(code);
            if code.is_error() {
                return Err(Error::from_code(code, None).with_partition(&topic, partition));
            }
            let found = (offset >= 0).then(|| OffsetAndMetadata {
                offset,
                metadata: text.unwrap_or("").to_owned(),
                leader_epoch: Some(epoch).filter(|epoch| *epoch >= 0),
            });
            Ok(((topic, partition), found))
        };
    let mut rows = Vec::new();
    let code = match answer.groups.first() {
        Some(group) => {
            for topic in &group.topics {
                rows.extend(topic.partitions.iter().map(|it| {
                    let text = it.metadata.as_deref();
                    let epoch = it.committed_leader_epoch;
                    row(
                        &topic.name,
                        it.partition_index,
                        it.error_code,
                        it.committed_offset,
                        epoch,
                        text,
                    )
                }));
            }
            group.error_code
        }
        None => {
            for topic in &answer.topics {
                rows.extend(topic.partitions.iter().map(|it| {
                    let text = it.metadata.as_deref();
                    let epoch = it.committed_leader_epoch;
                    row(
                        &topic.name,
                        it.partition_index,
                        it.error_code,
                        it.committed_offset,
                        epoch,
                        text,
                    )
                }));
            }
            answer.error_code
        }
    };
    let code = ErrorCode(code);
    if code.is_error() {
        return Err(Error::from_code(code, None));
    }
    let mut rows = rows.into_iter().collect::<Result<Vec<_>, Error>>()?;
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(ByItem::of(rows))
}

/// An offset to commit.
#[derive(Clone, Debug, Deserialize)]
pub struct NewGroupOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record to read.
    pub offset: i64,
    /// Any text.
    pub metadata: String,
    /// The leader epoch of the record before it, if known.
    pub leader_epoch: Option<i32>,
}

/// Commits offsets of a group without members. An item is a partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "AlterGroupOffsetsArguments")]
pub struct AlterGroupOffsets {
    pub(super) group: Arc<str>,
    pub(super) offsets: Vec<((Arc<str>, i32), OffsetAndMetadata)>,
}

#[derive(Deserialize)]
struct AlterGroupOffsetsArguments {
    group: String,
    offsets: Vec<NewGroupOffset>,
}

impl From<AlterGroupOffsetsArguments> for AlterGroupOffsets {
    fn from(arguments: AlterGroupOffsetsArguments) -> AlterGroupOffsets {
        let offsets = arguments.offsets.into_iter().map(|row| {
            let offset = OffsetAndMetadata {
                offset: row.offset,
                metadata: row.metadata,
                leader_epoch: row.leader_epoch,
            };
            ((row.topic.into(), row.partition), offset)
        });
        AlterGroupOffsets {
            group: arguments.group.into(),
            offsets: offsets.collect(),
        }
    }
}

impl Call for AlterGroupOffsets {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::OffsetCommit;

    fn versions(&self) -> (i16, i16) {
        (1, NAMED)
    }

    fn items(&self) -> usize {
        self.offsets.len()
    }

    fn target(&self, _: usize) -> Target {
        target(Some(&self.group))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.offsets.get(*item));
        let rows = wanted.map(|((topic, partition), offset)| {
            let row = OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
                committed_metadata: Some(offset.metadata.as_str().into()),
                ..Default::default()
            };
            (topic, row)
        });
        let topics = by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| OffsetCommitRequestTopic {
            name: (&**topic).into(),
            partitions,
            ..Default::default()
        });
        Request::OffsetCommit(OffsetCommitRequest {
            group_id: (&*self.group).into(),
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::OffsetCommit(answer) = response else {
            return Vec::new();
        };
        let wanted = items
            .iter()
            .filter_map(|asked| self.offsets.get(asked.item));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row.error_code))
        });
        let wanted = wanted.map(|((topic, partition), _)| (topic, *partition));
        results(wanted, rows, |code| match ErrorCode(*code) {
            ErrorCode::UNKNOWN_MEMBER_ID => {
                let text = "the group has members, whose commits would win: stop them first";
                let error = Error::from_code(ErrorCode::UNKNOWN_MEMBER_ID, Some(text));
                Err(error.with_group(&self.group))
            }
            code if code.is_error() => Err(Error::from_code(code, None).with_group(&self.group)),
            _ => Ok(()),
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        let rebalances = error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS);
        if rebalances {
            Retry::AfterPause
        } else {
            retry(error)
        }
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let partitions = self.offsets.into_iter().map(|(partition, _)| partition);
        ByItem::new(partitions.collect(), found)
    }
}

/// Deletes committed offsets of topics that no member subscribes to (KIP-496). An item is a partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "DeleteGroupOffsetsArguments")]
pub struct DeleteGroupOffsets {
    group: Arc<str>,
    partitions: Vec<TopicPartition>,
}

#[derive(Deserialize)]
struct DeleteGroupOffsetsArguments {
    group: String,
    partitions: Vec<TopicPartition>,
}

impl From<DeleteGroupOffsetsArguments> for DeleteGroupOffsets {
    fn from(arguments: DeleteGroupOffsetsArguments) -> DeleteGroupOffsets {
        DeleteGroupOffsets {
            group: arguments.group.into(),
            partitions: arguments.partitions,
        }
    }
}

impl Call for DeleteGroupOffsets {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::OffsetDelete;

    fn items(&self) -> usize {
        self.partitions.len()
    }

    fn target(&self, _: usize) -> Target {
        target(Some(&self.group))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.partitions.get(*item));
        let rows = wanted.map(|it| {
            let row = OffsetDeleteRequestPartition {
                partition_index: it.partition,
            };
            (&it.topic, row)
        });
        let topics = by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| OffsetDeleteRequestTopic {
            name: (&**topic).into(),
            partitions,
        });
        Request::OffsetDelete(OffsetDeleteRequest {
            group_id: (&*self.group).into(),
            topics: topics.collect(),
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::OffsetDelete(answer) = response else {
            return Vec::new();
        };
        let refused = |code: i16| match ErrorCode(code) {
            code if code.is_error() => Err(Error::from_code(code, None).with_group(&self.group)),
            _ => Ok(()),
        };
        if let Err(error) = refused(answer.error_code) {
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        let wanted = items
            .iter()
            .filter_map(|asked| self.partitions.get(asked.item));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row.error_code))
        });
        let wanted = wanted.map(|it| (&it.topic, it.partition));
        results(wanted, rows, |code| refused(*code))
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let partitions = self.partitions.into_iter();
        let partitions = partitions.map(|it| Item::Partition(it.topic, it.partition));
        ByItem::new(partitions.collect(), found)
    }
}
