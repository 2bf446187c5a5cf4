//! Folders of brokers' logs: DescribeLogDirs and AlterReplicaLogDirs (KIP-113, KIP-827).

use std::sync::Arc;

use ottla_protocol::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use ottla_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use ottla_protocol::messages::{AlterReplicaLogDirsRequest, DescribeLogDirsRequest};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::verb::{Ask, Verb, verbs};
use crate::api::{Request, Response};
use crate::call::interface::{left_out, results};
use crate::call::partitions::by_topic;
use crate::call::{About, Asked, ByItem, Call, ClusterMetadata, Rows, Target};
use crate::error::{Error, Item};

verbs! {
    describe_log_dirs: DescribeLogDirs,
    describe_replica_log_dirs: DescribeReplicaLogDirs,
    alter_replica_log_dirs: AlterReplicaLogDirs,
    list_topic_sizes: ListTopicSizes,
}

/// A replica in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LogDirReplica {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The size of its log, in bytes.
    pub size: i64,
    /// How many records it is behind: the high watermark, or the replica that it replaces.
    pub offset_lag: i64,
    /// Whether it replaces the replica in another folder of the broker once it has caught up.
    pub is_future: bool,
}

/// A folder of a broker's logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogDir {
    /// Its path.
    pub path: String,
    /// Why it cannot be used, as Kafka names the error.
    pub error: Option<String>,
    /// Its replicas, by topic and partition.
    pub replicas: Rows<LogDirReplica>,
    /// The size of its volume, in bytes; brokers before 3.3 do not return it.
    pub total_bytes: Option<i64>,
    /// What is left of it, in bytes.
    pub usable_bytes: Option<i64>,
    /// Whether no new replica is put there (KIP-1066, Kafka 4.3).
    pub is_cordoned: bool,
}

/// Describes the folders of brokers. An item is a broker.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeLogDirs {
    /// The ids of the brokers; `None` for all.
    pub brokers: Option<Vec<i32>>,
}

impl Verb for DescribeLogDirs {
    type Outcome = ByItem<Vec<LogDir>>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let brokers = match self.brokers {
            Some(brokers) => brokers,
            None => all_brokers(admin).await?,
        };
        let partitions = None;
        let call = LogDirs {
            brokers: brokers.clone(),
            partitions,
        };
        ByItem::new(brokers, admin.ask(call).await?)
    }
}

async fn all_brokers(admin: &impl Ask) -> Result<Vec<i32>, Error> {
    let operations = false;
    let cluster = admin.ask(ClusterMetadata { operations }).await?;
    Ok(cluster.nodes.iter().map(|node| node.id).collect())
}

/// DescribeLogDirs. An item is a broker.
#[derive(Clone, Debug)]
struct LogDirs {
    brokers: Vec<i32>,
    partitions: Option<Vec<(Arc<str>, i32)>>,
}

impl Call for LogDirs {
    type Found = Vec<LogDir>;
    type Answer = Vec<Result<Vec<LogDir>, Error>>;
    const API: ApiKey = ApiKey::DescribeLogDirs;

    fn items(&self) -> usize {
        self.brokers.len()
    }

    fn target(&self, item: usize) -> Target {
        self.brokers
            .get(item)
            .map_or(Target::Any, |it| Target::Node(*it))
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let topics = self.partitions.as_ref().map(|partitions| {
            let rows = partitions
                .iter()
                .map(|(topic, partition)| (topic, *partition));
            let topics = by_topic(rows).into_iter();
            let topics = topics.map(|(topic, partitions)| DescribableLogDirTopic {
                topic: (&**topic).into(),
                partitions: partitions.into_iter().collect(),
                ..Default::default()
            });
            topics.collect()
        });
        Request::DescribeLogDirs(DescribeLogDirsRequest {
            topics,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeLogDirs(answer) = response else {
            return Vec::new();
        };
        let code = ErrorCode(answer.error_code);
        let is_denied = code.is_error()
            // Before version 3 brokers return no folders to clients that may not describe the cluster.
            || answer.results.is_empty() && items.iter().any(|asked| asked.version < 3);
        if is_denied {
            let code = if code.is_error() {
                code
            } else {
                ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            };
            let error = Error::from_code(code, None);
            return items.iter().map(|_| Err(error.clone())).collect();
        }
        let dirs = answer.results.iter().map(|dir| {
            let replicas = dir.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(|row| LogDirReplica {
                    topic: topic.name.to_string(),
                    partition: row.partition_index,
                    size: row.partition_size,
                    offset_lag: row.offset_lag,
                    is_future: row.is_future_key,
                })
            });
            let mut replicas: Vec<_> = replicas.collect();
            replicas.sort();
            let code = ErrorCode(dir.error_code);
            LogDir {
                path: dir.log_dir.to_string(),
                error: code.is_error().then(|| code.name().to_owned()),
                replicas: Rows(replicas),
                total_bytes: Some(dir.total_bytes).filter(|it| *it >= 0),
                usable_bytes: Some(dir.usable_bytes).filter(|it| *it >= 0),
                is_cordoned: dir.is_cordoned,
            }
        });
        let mut dirs: Vec<_> = dirs.collect();
        dirs.sort_by(|one, other| one.path.cmp(&other.path));
        items.iter().map(|_| Ok(dirs.clone())).collect()
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

/// A replica of a partition, as an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct TopicPartitionReplica {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The id of the broker.
    pub broker: i32,
}

impl From<TopicPartitionReplica> for Item {
    fn from(it: TopicPartitionReplica) -> Item {
        let fields = vec![
            ("topic", Item::Name(it.topic)),
            ("partition", it.partition.into()),
            ("broker", it.broker.into()),
        ];
        Item::Object("TopicPartitionReplica", fields)
    }
}

/// Where a replica is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicaLogDir {
    /// The folder; `None` if the broker has no such replica.
    pub path: Option<String>,
    /// How many records it is behind.
    pub offset_lag: Option<i64>,
    /// The folder that it moves to.
    pub future_path: Option<String>,
    /// How many records the replica there is behind this one.
    pub future_offset_lag: Option<i64>,
}

/// Finds the folders of replicas. An item is a replica.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeReplicaLogDirs {
    /// The replicas.
    pub replicas: Vec<TopicPartitionReplica>,
}

impl Verb for DescribeReplicaLogDirs {
    type Outcome = ByItem<ReplicaLogDir>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let wanted = self.replicas.iter();
        let mut brokers: Vec<i32> = wanted.map(|it| it.broker).collect();
        brokers.sort_unstable();
        brokers.dedup();
        let partitions = self.replicas.iter();
        let partitions = partitions.map(|it| (Arc::from(&*it.topic), it.partition));
        let call = LogDirs {
            brokers: brokers.clone(),
            partitions: Some(partitions.collect()),
        };
        let described = admin.ask(call).await?;
        let found = self.replicas.iter().map(|replica| {
            let mut each = brokers.iter().zip(&described);
            match each.find(|(broker, _)| **broker == replica.broker) {
                Some((_, Ok(dirs))) => Ok(place(replica, dirs)),
                Some((_, Err(error))) => Err(error.clone()),
                None => Err(left_out("a broker")),
            }
        });
        let found = found.collect();
        ByItem::new(self.replicas, found)
    }
}

fn place(replica: &TopicPartitionReplica, dirs: &[LogDir]) -> ReplicaLogDir {
    let mut found = ReplicaLogDir::default();
    for dir in dirs {
        for row in &dir.replicas.0 {
            if (&*row.topic, row.partition) != (&*replica.topic, replica.partition) {
                continue;
            }
            let (path, lag) = (Some(dir.path.clone()), Some(row.offset_lag));
            if row.is_future {
                (found.future_path, found.future_offset_lag) = (path, lag);
            } else {
                (found.path, found.offset_lag) = (path, lag);
            }
        }
    }
    found
}

/// The folder that a replica is to have.
#[derive(Clone, Debug, Deserialize)]
pub struct MovedReplica {
    /// The replica.
    pub replica: TopicPartitionReplica,
    /// The path of the folder, one of the broker's `log.dirs`.
    pub path: String,
}

/// Moves replicas to other folders of their brokers. An item is a replica.
#[derive(Clone, Debug, Deserialize)]
pub struct AlterReplicaLogDirs {
    /// The replicas with their folders.
    pub assignments: Vec<MovedReplica>,
}

impl Call for AlterReplicaLogDirs {
    type Found = ();
    type Answer = ByItem<()>;
    const API: ApiKey = ApiKey::AlterReplicaLogDirs;

    fn items(&self) -> usize {
        self.assignments.len()
    }

    fn target(&self, item: usize) -> Target {
        let moved = self.assignments.get(item);
        moved.map_or(Target::Any, |it| Target::Node(it.replica.broker))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let mut dirs: Vec<AlterReplicaLogDir> = Vec::new();
        let wanted = items.iter().filter_map(|item| self.assignments.get(*item));
        for moved in wanted {
            let place = match dirs.iter().position(|dir| *dir.path == *moved.path) {
                Some(place) => place,
                None => {
                    dirs.push(AlterReplicaLogDir {
                        path: moved.path.as_str().into(),
                        ..Default::default()
                    });
                    dirs.len() - 1
                }
            };
            if let Some(dir) = dirs.get_mut(place) {
                dir.topics.push(AlterReplicaLogDirTopic {
                    name: moved.replica.topic.as_str().into(),
                    partitions: std::iter::once(moved.replica.partition).collect(),
                    ..Default::default()
                });
            }
        }
        Request::AlterReplicaLogDirs(AlterReplicaLogDirsRequest {
            dirs,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::AlterReplicaLogDirs(answer) = response else {
            return Vec::new();
        };
        results(items, "a replica", |asked| {
            let replica = &self.assignments.get(asked.item)?.replica;
            let rows = answer.results.iter();
            let mut rows = rows
                .filter(|topic| *topic.topic_name == *replica.topic)
                .flat_map(|topic| &topic.partitions);
            let row = rows.find(|row| row.partition_index == replica.partition)?;
            Some(match ErrorCode(row.error_code) {
                code if code.is_error() => Err(Error::from_code(code, None)
                    .with_partition(&replica.topic.as_str().into(), replica.partition)),
                _ => Ok(()),
            })
        })
    }

    fn changes(&self) -> bool {
        true
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<Self::Answer, Error> {
        let replicas = self.assignments.into_iter().map(|moved| moved.replica);
        ByItem::new(replicas.collect(), found)
    }
}

/// What the logs of a topic take on all brokers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicSize {
    /// The topic.
    pub topic: String,
    /// Its number of partitions that have a replica.
    pub partitions: i64,
    /// Its number of replicas.
    pub replicas: i64,
    /// Bytes of all replicas.
    pub bytes: i64,
    /// Bytes of the largest replica of each partition, together.
    pub unique_bytes: i64,
}

/// Adds up the sizes of logs by topic.
#[derive(Clone, Debug, Deserialize)]
pub struct ListTopicSizes {
    /// Only these topics; `None` for all.
    pub topics: Option<Vec<String>>,
}

impl Verb for ListTopicSizes {
    type Outcome = Rows<TopicSize>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let brokers = all_brokers(admin).await?;
        let partitions = None;
        let call = LogDirs {
            brokers,
            partitions,
        };
        // A sum without one of the brokers would be wrong.
        let described = admin.ask(call).await?.into_iter();
        let described = described.collect::<Result<Vec<_>, Error>>()?;
        let dirs = described.iter().flatten();
        let mut rows: Vec<&LogDirReplica> = dirs.flat_map(|dir| &dir.replicas.0).collect();
        rows.retain(|row| match &self.topics {
            Some(topics) => topics.contains(&row.topic),
            None => true,
        });
        rows.sort();
        let mut sizes: Vec<TopicSize> = Vec::new();
        for partition in rows
            .chunk_by(|one, other| (&one.topic, one.partition) == (&other.topic, other.partition))
        {
            // The largest comes last.
            let Some(largest) = partition.last() else {
                continue;
            };
            if sizes.last().is_none_or(|size| size.topic != largest.topic) {
                sizes.push(TopicSize {
                    topic: largest.topic.clone(),
                    partitions: 0,
                    replicas: 0,
                    bytes: 0,
                    unique_bytes: 0,
                });
            }
            if let Some(size) = sizes.last_mut() {
                size.partitions += 1;
                size.replicas += i64::try_from(partition.len()).unwrap_or(i64::MAX);
                let bytes = partition.iter().map(|row| row.size);
                size.bytes = size
                    .bytes
                    .saturating_add(bytes.fold(0, i64::saturating_add));
                size.unique_bytes = size.unique_bytes.saturating_add(largest.size);
            }
        }
        Ok(Rows(sizes))
    }
}
