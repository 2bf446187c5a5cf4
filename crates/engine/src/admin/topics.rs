//! Topics: created, deleted, listed, described.

use std::collections::BTreeMap;

use ottla_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use ottla_protocol::messages::metadata_response::MetadataResponseTopic;
use serde::{Deserialize, Serialize};

use super::verb::{Ask, Verb, verbs};
pub use crate::call::TopicKey;
use crate::call::{self, ByItem, PartitionInfo, values};
use crate::error::{Error, Kind};

verbs! {
    create_topics: CreateTopics,
    delete_topics: DeleteTopics,
    list_topics: ListTopics,
    describe_topics: DescribeTopics,
}

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, expecting = "a topic to create is a NewTopic or its name")]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Its number of partitions; -1 is the broker's default.
    pub partitions: i32,
    /// Replicas of each partition; -1 is the broker's default.
    pub replication: i16,
    /// Topic properties, by Kafka's names.
    pub config: BTreeMap<String, String>,
    /// The brokers of each partition; `None` lets the controller choose.
    pub assignments: Option<Vec<Vec<i32>>>,
}

impl Default for NewTopic {
    fn default() -> NewTopic {
        NewTopic {
            name: String::new(),
            partitions: 1,
            replication: -1,
            config: BTreeMap::new(),
            assignments: None,
        }
    }
}

impl NewTopic {
    /// Refuses numbers that are not those of the assignments.
    fn check(&self) -> Result<(), Error> {
        let Some(assignments) = &self.assignments else {
            return Ok(());
        };
        let count = i32::try_from(assignments.len()).unwrap_or(i32::MAX);
        let text = if assignments.is_empty() {
            "assignments are empty: give the brokers of each partition, or None".to_owned()
        } else if ![-1, 1, count].contains(&self.partitions) {
            format!(
                "partitions is {}, and assignments have the brokers of {count}: leave partitions out",
                self.partitions
            )
        } else if self.replication != -1 {
            "replication is given, and assignments have the replicas: leave replication out"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(
            Kind::Argument,
            format!("topic {}: {text}", self.name),
        ))
    }
}

impl From<&NewTopic> for CreatableTopic {
    fn from(topic: &NewTopic) -> CreatableTopic {
        let configs = topic.config.iter();
        let assignments = topic.assignments.iter().flatten().zip(0..);
        CreatableTopic {
            name: topic.name.as_str().into(),
            // With assignments, brokers take no number.
            num_partitions: topic.assignments.as_ref().map_or(topic.partitions, |_| -1),
            replication_factor: topic.replication,
            assignments: assignments
                .map(|(brokers, partition_index)| CreatableReplicaAssignment {
                    partition_index,
                    broker_ids: brokers.iter().copied().collect(),
                    ..Default::default()
                })
                .collect(),
            configs: configs
                .map(|(name, value)| CreatableTopicConfig {
                    name: name.as_str().into(),
                    value: Some(value.as_str().into()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }
}

/// Creates topics, or only checks whether they could be created.
#[derive(Clone, Debug, Deserialize)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Whether nothing is created.
    pub validate_only: bool,
}

impl Verb for CreateTopics {
    type Outcome = ();

    async fn run(self, admin: &impl Ask) -> Result<(), Error> {
        self.topics.iter().try_for_each(NewTopic::check)?;
        let call = call::CreateTopics {
            topics: self.topics.iter().map(CreatableTopic::from).collect(),
            timeout_ms: admin.broker_timeout_ms(),
            validate_only: self.validate_only,
        };
        let names: Vec<String> = self.topics.into_iter().map(|topic| topic.name).collect();
        ByItem::new(names, admin.ask(call).await?).map(drop)
    }
}

/// Deletes topics.
#[derive(Clone, Debug, Deserialize)]
pub struct DeleteTopics {
    /// The topics.
    pub topics: Vec<TopicKey>,
}

impl Verb for DeleteTopics {
    type Outcome = ();

    async fn run(self, admin: &impl Ask) -> Result<(), Error> {
        let call = call::DeleteTopics {
            topics: self.topics.clone(),
            timeout_ms: admin.broker_timeout_ms(),
        };
        ByItem::new(self.topics, admin.ask(call).await?).map(drop)
    }
}

/// The names of all topics, sorted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ListTopics {
    /// Whether to list Kafka's internal topics too.
    pub internal: bool,
}

impl Verb for ListTopics {
    type Outcome = Vec<String>;

    async fn run(self, admin: &impl Ask) -> Result<Vec<String>, Error> {
        let answer = admin.ask(call::ListTopics).await?;
        let topics = answer.topics.iter();
        let shown = topics.filter(|topic| self.internal || !topic.is_internal);
        let mut names: Vec<String> = shown
            .filter_map(|topic| Some(topic.name.as_deref()?.to_owned()))
            .collect();
        names.sort();
        Ok(names)
    }
}

/// A topic as brokers describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// Its id; zero where brokers have none.
    #[serde(serialize_with = "values::topic_id")]
    pub id: [u8; 16],
    /// Whether it is one of Kafka's internal topics.
    pub internal: bool,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionInfo>,
    /// The operations that the client is authorized for: bit n is the operation with Kafka's code n. `None` if the call did not
    /// request them.
    #[serde(serialize_with = "values::operations")]
    pub authorized_operations: Option<i32>,
}

/// The bits of operations that were not requested.
const NOT_REQUESTED: i32 = i32::MIN;

impl TryFrom<MetadataResponseTopic> for TopicDescription {
    type Error = Error;

    fn try_from(row: MetadataResponseTopic) -> Result<TopicDescription, Error> {
        let unexpected = || Error::new(Kind::Protocol, "the response does not belong to this call");
        Ok(TopicDescription {
            name: row.name.as_deref().ok_or_else(unexpected)?.to_owned(),
            id: row.topic_id.0,
            internal: row.is_internal,
            partitions: PartitionInfo::of(&row),
            authorized_operations: Some(row.topic_authorized_operations)
                .filter(|bits| *bits != NOT_REQUESTED),
        })
    }
}

/// Topics with their partitions.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeTopics {
    /// The topics.
    pub topics: Vec<TopicKey>,
    /// Whether to return the operations that the client is authorized for (since Kafka 2.3).
    pub include_authorized_operations: bool,
}

impl Verb for DescribeTopics {
    type Outcome = ByItem<TopicDescription>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let topics = self.topics;
        if topics.is_empty() {
            return ByItem::new(topics, Vec::new());
        }
        let operations = self.include_authorized_operations;
        let call = call::DescribeTopics::by_keys(topics.clone(), operations);
        let found = admin.ask(call).await?.into_iter();
        let described = found.map(|row| row.and_then(TopicDescription::try_from));
        ByItem::new(topics, described.collect())
    }
}
