//! Leaders that are elected, and replicas that move: ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments.

use std::sync::Arc;

use ottla_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use ottla_protocol::messages::elect_leaders_request::TopicPartitions;
use ottla_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use ottla_protocol::messages::{
    AlterPartitionReassignmentsRequest, ElectLeadersRequest, ListPartitionReassignmentsRequest,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::codes::ElectionType;
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::interface::only;
use crate::call::partitions::{by_topic, results};
use crate::call::{About, Asked, ByItem, Call, Retry, Target, TopicPartition, controller};
use crate::error::{Error, Item};

verbs! {
    elect_leaders: ElectLeaders,
    alter_partition_reassignments: AlterPartitionReassignments,
    list_partition_reassignments: ListPartitionReassignments,
}

/// The first version of ElectLeaders with unclean elections and errors of the whole request (KIP-460).
const UNCLEAN: i16 = 1;

fn items(partitions: Vec<TopicPartition>) -> Vec<Item> {
    let items = partitions.into_iter();
    items
        .map(|it| Item::Partition(it.topic, it.partition))
        .collect()
}

/// Elects leaders.
#[derive(Clone, Debug, Deserialize)]
pub struct ElectLeaders {
    /// Which replicas may be elected.
    pub election: ElectionType,
    /// The partitions; `None` for all.
    pub partitions: Option<Vec<TopicPartition>>,
}

impl Call for ElectLeaders {
    /// The partitions with their results: those that need no election are left out.
    type Found = Vec<(Item, Result<(), Error>)>;
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::ElectLeaders;

    fn versions(&self) -> (i16, i16) {
        let least = if self.election == ElectionType(0) {
            0
        } else {
            UNCLEAN
        };
        (least, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let topics = self.partitions.as_ref().map(|partitions| {
            let rows = partitions.iter().map(|it| (&it.topic, it.partition));
            let topics = by_topic(rows).into_iter();
            let topics = topics.map(|(topic, partitions)| TopicPartitions {
                topic: (&**topic).into(),
                partitions: partitions.into_iter().collect(),
                ..Default::default()
            });
            topics.collect()
        });
        Request::ElectLeaders(ElectLeadersRequest {
            election_type: self.election.0,
            topic_partitions: topics,
            timeout_ms: about.timeout_ms,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ElectLeaders(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return vec![Err(Error::from_code(code, None))];
        }
        let mut rows = Vec::new();
        for topic in &answer.replica_election_results {
            let name: Arc<str> = (&*topic.topic).into();
            for row in &topic.partition_result {
                let item = Item::Partition(Arc::clone(&name), row.partition_id);
                let result = match ErrorCode(row.error_code) {
                    // The partition has the leader that it is to have.
                    ErrorCode::ELECTION_NOT_NEEDED => Ok(()),
                    code if code.is_error() => {
                        let error = Error::from_code(code, row.error_message.as_deref());
                        let error = error.with_partition(&name, row.partition_id);
                        Err(error.calling(Self::API.name()))
                    }
                    _ => Ok(()),
                };
                rows.push((item, result));
            }
        }
        vec![Ok(rows)]
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        let (items, found): (Vec<_>, Vec<_>) = only(found, "the elections")?.into_iter().unzip();
        ByItem::new(items, found)
    }
}

/// The replicas that a partition is to have.
#[derive(Clone, Debug, Deserialize)]
pub struct Reassignment {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The ids of the brokers, the preferred leader first; `None` cancels a running reassignment.
    pub replicas: Option<Vec<i32>>,
}

/// Moves replicas (KIP-455). An item is a partition.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "AlterPartitionReassignmentsArguments")]
pub struct AlterPartitionReassignments {
    wanted: Vec<(Arc<str>, i32, Option<Vec<i32>>)>,
    allow_replication_factor_change: bool,
}

#[derive(Deserialize)]
struct AlterPartitionReassignmentsArguments {
    reassignments: Vec<Reassignment>,
    allow_replication_factor_change: bool,
}

impl From<AlterPartitionReassignmentsArguments> for AlterPartitionReassignments {
    fn from(arguments: AlterPartitionReassignmentsArguments) -> AlterPartitionReassignments {
        let rows = arguments.reassignments.into_iter();
        AlterPartitionReassignments {
            wanted: rows
                .map(|row| (row.topic.into(), row.partition, row.replicas))
                .collect(),
            allow_replication_factor_change: arguments.allow_replication_factor_change,
        }
    }
}

impl Call for AlterPartitionReassignments {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::AlterPartitionReassignments;

    fn versions(&self) -> (i16, i16) {
        // Brokers before 4.1 have no field that forbids a change of the number of replicas
        // (KIP-860).
        (i16::from(!self.allow_replication_factor_change), i16::MAX)
    }

    fn items(&self) -> usize {
        self.wanted.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, items: &[usize], about: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.wanted.get(*item));
        let rows = wanted.map(|(topic, partition, replicas)| {
            let row = ReassignablePartition {
                partition_index: *partition,
                replicas: replicas.as_ref().map(|it| it.iter().copied().collect()),
                ..Default::default()
            };
            (topic, row)
        });
        let topics = by_topic(rows).into_iter();
        let topics = topics.map(|(topic, partitions)| ReassignableTopic {
            name: (&**topic).into(),
            partitions,
            ..Default::default()
        });
        Request::AlterPartitionReassignments(AlterPartitionReassignmentsRequest {
            timeout_ms: about.timeout_ms,
            allow_replication_factor_change: self.allow_replication_factor_change,
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::AlterPartitionReassignments(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let error = Error::from_code(code, answer.error_message.as_deref());
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        let wanted = items.iter().filter_map(|asked| self.wanted.get(asked.item));
        let rows = answer.responses.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row))
        });
        let wanted = wanted.map(|(topic, partition, _)| (topic, *partition));
        results(wanted, rows, |row| match ErrorCode(row.error_code) {
            code if code.is_error() => Err(Error::from_code(code, row.error_message.as_deref())),
            _ => Ok(()),
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let wanted = self.wanted.into_iter();
        let wanted = wanted.map(|(topic, partition, _)| TopicPartition { topic, partition });
        ByItem::new(items(wanted.collect()), found)
    }
}

/// Replicas of a partition that are moving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionReassignment {
    /// The ids of all brokers that have a replica, or are to have one.
    pub replicas: Vec<i32>,
    /// Those that are to have one.
    pub adding: Vec<i32>,
    /// Those that are to lose theirs.
    pub removing: Vec<i32>,
}

/// Lists replicas that are moving.
#[derive(Clone, Debug, Deserialize)]
pub struct ListPartitionReassignments {
    /// Only those of these partitions; `None` for all.
    pub partitions: Option<Vec<TopicPartition>>,
}

impl Call for ListPartitionReassignments {
    type Found = ByItem<PartitionReassignment>;
    type Answer = ByItem<PartitionReassignment>;
    const API: ApiKey = ApiKey::ListPartitionReassignments;

    fn target(&self, _: usize) -> Target {
        Target::Controller
    }

    fn request(&self, _: &[usize], about: &About<'_>) -> Request {
        let topics = self.partitions.as_ref().map(|partitions| {
            let rows = partitions.iter().map(|it| (&it.topic, it.partition));
            let topics = by_topic(rows).into_iter();
            let topics = topics.map(|(topic, partitions)| ListPartitionReassignmentsTopics {
                name: (&**topic).into(),
                partition_indexes: partitions.into_iter().collect(),
                ..Default::default()
            });
            topics.collect()
        });
        Request::ListPartitionReassignments(ListPartitionReassignmentsRequest {
            timeout_ms: about.timeout_ms,
            topics,
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::ListPartitionReassignments(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let text = answer.error_message.as_deref();
            return vec![Err(Error::from_code(code, text))];
        }
        let mut rows = Vec::new();
        for topic in &answer.topics {
            let name: Arc<str> = (&*topic.name).into();
            for row in &topic.partitions {
                let moving = PartitionReassignment {
                    replicas: row.replicas.to_vec(),
                    adding: row.adding_replicas.to_vec(),
                    removing: row.removing_replicas.to_vec(),
                };
                rows.push(((Arc::clone(&name), row.partition_index), moving));
            }
        }
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        vec![Ok(ByItem::of(rows))]
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        controller::retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the reassignments")
    }
}
