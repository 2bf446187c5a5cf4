//! Offsets that a group has committed: OffsetCommit and OffsetFetch, to the group's coordinator;
//! or, at version 0, to any broker, which keeps them in ZooKeeper. Neither sees what is committed
//! in the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use ottla_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use ottla_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use ottla_protocol::messages::{OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use super::interface::{Retry, only};
use super::membership::GroupMetadata;
use super::partitions::results;
use super::topic_ids;
use super::transactional::GroupOffset;
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::config::OffsetsStorage;
use crate::error::{Error, Kind};

impl OffsetsStorage {
    /// The versions that reach it, if those from `least` on reach the coordinator.
    fn versions(self, least: i16) -> (i16, i16) {
        match self {
            OffsetsStorage::Kafka => (least, i16::MAX),
            OffsetsStorage::ZooKeeper => (0, 0),
        }
    }

    fn target(self, group: &Arc<str>) -> Target {
        match self {
            OffsetsStorage::Kafka => Target::Coordinator(CoordinatorType::Group, Arc::clone(group)),
            OffsetsStorage::ZooKeeper => Target::Any,
        }
    }

    /// What a caller can do about brokers that do not reach it.
    fn explained(self, error: Error) -> Error {
        let is_lacking = error.kind() == Kind::Unsupported
            || error.code() == Some(ErrorCode::UNSUPPORTED_VERSION);
        if self == OffsetsStorage::ZooKeeper && is_lacking {
            return error.wrap(
                Kind::Unsupported,
                "offsets.storage=zookeeper needs brokers before Kafka 4.0 that have a ZooKeeper: leave it out",
            );
        }
        error
    }
}

/// The highest version of OffsetCommit and of OffsetFetch with topic names.
const NAMED: i16 = 9;

/// OffsetCommit: commits these offsets for the group. Safe to repeat, as long as no later commit
/// was sent in between.
#[derive(Clone, Debug)]
pub(crate) struct OffsetCommit {
    pub(crate) storage: OffsetsStorage,
    pub(crate) member: GroupMetadata,
    pub(crate) offsets: Vec<GroupOffset>,
    /// A partition that is left out, because its offset belongs to a topic that was deleted.
    pub(crate) outdated: Option<(Arc<str>, i32)>,
}

impl Call for OffsetCommit {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::OffsetCommit;

    fn versions(&self) -> (i16, i16) {
        let ids = self.offsets.iter().map(|row| row.topic_id);
        let (least, most) = self.storage.versions(self.member.least(7).max(1));
        (least, most.min(topic_ids::most(NAMED, ids)))
    }

    fn target(&self, _: usize) -> Target {
        self.storage.target(&self.member.group)
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let rows = self.offsets.iter();
        let topics = topic_ids::by_topic(rows.map(|row| (&row.topic, row.topic_id, row)));
        Request::OffsetCommit(OffsetCommitRequest {
            group_id: (&*self.member.group).into(),
            generation_id_or_member_epoch: self.member.generation,
            member_id: (&*self.member.member_id).into(),
            group_instance_id: self.member.instance_id.as_deref().map(Into::into),
            topics: topics
                .into_iter()
                .map(|((topic, topic_id), rows)| OffsetCommitRequestTopic {
                    name: (&**topic).into(),
                    topic_id,
                    partitions: rows.into_iter().map(row).collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::OffsetCommit(answer) = response else {
            return Vec::new();
        };
        let rows = answer.topics.iter().flat_map(|topic| {
            let asked = self.offsets.iter().map(|row| (&row.topic, row.topic_id));
            let name = topic_ids::name(asked, &topic.name, topic.topic_id);
            let rows = topic.partitions.iter();
            rows.map(move |row| ((name, row.partition_index), row.error_code))
        });
        let wanted = self.offsets.iter();
        let wanted = wanted.map(|row| (&row.topic, row.partition));
        let each = results(wanted, rows, |code| {
            let code = ErrorCode(*code);
            match code.is_error() {
                true => Err(Error::from_code(code, None).with_group(&self.member.group)),
                false => Ok(()),
            }
        });
        vec![each.into_iter().collect()]
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        Retry::after_pause_if(error.is_retriable() && !topic_ids::is_deleted(error))
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the offsets")
            .map_err(|error| self.storage.explained(explained(error)))
            .and_then(|()| match &self.outdated {
                Some(partition) => {
                    let api = Self::API.name();
                    Err(topic_ids::outdated(api, &self.member.group, partition))
                }
                None => Ok(()),
            })
    }
}

fn row(offset: &GroupOffset) -> OffsetCommitRequestPartition {
    OffsetCommitRequestPartition {
        partition_index: offset.partition,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        committed_metadata: Some((&*offset.metadata).into()),
        ..Default::default()
    }
}

/// What a caller can do about a commit that was refused.
fn explained(error: Error) -> Error {
    let (kind, text) = match error.code() {
        Some(
            ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            // The coordinator lost the group, or an administrator deleted it: who joins creates it again.
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::FENCED_MEMBER_EPOCH,
        ) => (
            Kind::CommitFailed,
            "the group has gone on without this member, and others may read its partitions from the last commit on. Poll to \
             join again; if polls come rarely, raise max.poll.interval.ms or lower max.poll.records",
        ),
        Some(ErrorCode::STALE_MEMBER_EPOCH) => (
            Kind::CommitFailed,
            "the coordinator has given the member a new epoch, of which it has not heard in time. Commit again what it still \
             owns",
        ),
        Some(ErrorCode::REBALANCE_IN_PROGRESS) => (
            Kind::CommitFailed,
            "the group rebalances. Poll, and commit what is assigned then",
        ),
        Some(ErrorCode::FENCED_INSTANCE_ID) => (
            Kind::Fenced,
            "another member has the same group.instance.id. Stop one of them",
        ),
        Some(ErrorCode::OFFSET_METADATA_TOO_LARGE) => (
            Kind::TooLarge,
            "the metadata is longer than the brokers' offset.metadata.max.bytes",
        ),
        Some(ErrorCode::UNKNOWN_TOPIC_ID) => return topic_ids::deleted(error),
        _ => return error,
    };
    let outcome = match error.may_have_been_done() {
        true => "an attempt to commit may have been carried out, and this one was refused",
        false => "nothing was committed",
    };
    error.wrap(kind, format!("{outcome}: {text}"))
}

/// OffsetFetch: the offsets that a group has committed.
#[derive(Clone, Debug)]
pub struct OffsetFetch {
    /// Where they are kept.
    pub storage: OffsetsStorage,
    /// The group's id.
    pub group: Arc<str>,
    /// The partitions.
    pub partitions: Vec<(Arc<str>, i32)>,
    /// The ids of topics. If all are known, brokers that support version 10 look for these topics,
    /// not for others of their names.
    pub topic_ids: BTreeMap<Arc<str>, Uuid>,
    /// Whether offsets that an open transaction may still change are waited for (KIP-447).
    pub require_stable: bool,
    /// The requesting member, by its id and its epoch, if it is one of the consumer protocol
    /// (KIP-848): a broker that supports version 9 reports an epoch that is stale.
    pub member: Option<(Arc<str>, i32)>,
}

impl OffsetFetch {
    fn id_of(&self, topic: &str) -> Uuid {
        self.topic_ids.get(topic).copied().unwrap_or(Uuid::ZERO)
    }
}

impl Call for OffsetFetch {
    type Found = Vec<Result<Option<GroupOffset>, Error>>;
    /// For each partition in the order of the request; `None` if nothing is committed.
    type Answer = Vec<Result<Option<GroupOffset>, Error>>;
    const API: ApiKey = ApiKey::OffsetFetch;

    fn versions(&self) -> (i16, i16) {
        let (least, most) = self.storage.versions(1);
        let ids = self.partitions.iter().map(|(topic, _)| self.id_of(topic));
        (least, most.min(topic_ids::most(NAMED, ids)))
    }

    fn target(&self, _: usize) -> Target {
        self.storage.target(&self.group)
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let rows = self.partitions.iter();
        let rows = rows.map(|(topic, partition)| (topic, self.id_of(topic), *partition));
        let topics = topic_ids::by_topic(rows).into_iter();
        Request::OffsetFetch(OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: (&*self.group).into(),
                member_id: self.member.as_ref().map(|(id, _)| (&**id).into()),
                member_epoch: self.member.as_ref().map_or(-1, |(_, epoch)| *epoch),
                topics: Some(
                    topics
                        .map(|((topic, topic_id), partitions)| OffsetFetchRequestTopics {
                            name: (&**topic).into(),
                            topic_id,
                            partition_indexes: partitions.into_iter().collect(),
                            ..Default::default()
                        })
                        .collect(),
                ),
                ..Default::default()
            }],
            require_stable: self.require_stable,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::OffsetFetch(answer) = response else {
            return Vec::new();
        };
        let (code, rows) = rows(&answer, &self.topic_ids);
        let refused = |code: ErrorCode| Error::from_code(code, None).with_group(&self.group);
        if code.is_error() {
            return vec![Err(refused(code))];
        }
        // A partition that waits for a transaction is requested again, and with it all others.
        let stays = |row: &&Row<'_>| row.code == ErrorCode::UNSTABLE_OFFSET_COMMIT;
        if let Some(row) = rows.iter().find(stays) {
            return vec![Err(
                refused(row.code).with_partition(&row.topic.into(), row.partition)
            )];
        }
        let wanted = self.partitions.iter();
        let wanted = wanted.map(|(topic, partition)| (topic, *partition));
        let answered = rows.iter().map(|row| ((row.topic, row.partition), row));
        // A broker that finds nothing in ZooKeeper reports it as an error.
        let is_absent = |row: &Row<'_>| {
            self.storage == OffsetsStorage::ZooKeeper
                && row.code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        };
        vec![Ok(results(wanted, answered, |row| {
            if is_absent(row) {
                return Ok(None);
            }
            if row.code.is_error() {
                return Err(refused(row.code));
            }
            Ok((row.offset >= 0).then(|| GroupOffset {
                topic: row.topic.into(),
                partition: row.partition,
                offset: row.offset,
                leader_epoch: row.leader_epoch,
                metadata: row.metadata.into(),
                topic_id: self.id_of(row.topic),
            }))
        }))]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the group's offsets").map_err(|error| self.storage.explained(error))
    }
}

/// A partition of a response of any version.
struct Row<'a> {
    topic: &'a str,
    partition: i32,
    code: ErrorCode,
    offset: i64,
    leader_epoch: i32,
    metadata: &'a str,
}

/// The code of the whole response, and the partitions.
fn rows<'a>(
    answer: &'a OffsetFetchResponse,
    ids: &'a BTreeMap<Arc<str>, Uuid>,
) -> (ErrorCode, Vec<Row<'a>>) {
    if let Some(group) = answer.groups.first() {
        let rows = group.topics.iter().flat_map(|topic| {
            let asked = ids.iter().map(|(name, id)| (name, *id));
            let name = topic_ids::name(asked, &topic.name, topic.topic_id);
            topic.partitions.iter().map(move |row| Row {
                topic: name,
                partition: row.partition_index,
                code: ErrorCode(row.error_code),
                offset: row.committed_offset,
                leader_epoch: row.committed_leader_epoch,
                metadata: row.metadata.as_deref().unwrap_or(""),
            })
        });
        return (ErrorCode(group.error_code), rows.collect());
    }
    let rows = answer.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|row| Row {
            topic: &topic.name,
            partition: row.partition_index,
            code: ErrorCode(row.error_code),
            offset: row.committed_offset,
            leader_epoch: row.committed_leader_epoch,
            metadata: row.metadata.as_deref().unwrap_or(""),
        })
    });
    let rows: Vec<_> = rows.collect();
    // Before version 2 errors about the group stand at its partitions.
    let codes = rows.iter().map(|row| row.code);
    let about_all = codes.filter(|code| {
        matches!(
            *code,
            ErrorCode::NOT_COORDINATOR
                | ErrorCode::COORDINATOR_NOT_AVAILABLE
                | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode::GROUP_AUTHORIZATION_FAILED
        )
    });
    let code = about_all
        .into_iter()
        .next()
        .unwrap_or(ErrorCode(answer.error_code));
    (code, rows)
}
