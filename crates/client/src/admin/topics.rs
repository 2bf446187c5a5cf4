//! Topics: created, deleted, listed, described.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Error;
use ottla_engine::call::{CreateTopics, DeleteTopics, DescribeTopics, ListTopics};
use ottla_engine::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_engine::messages::metadata_response::MetadataResponseTopic;

use crate::admin::handle::{Admin, Each};
use crate::metadata::PartitionInfo;
use crate::runtime::calls::unexpected;

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// Its number of partitions; -1 is the broker's default.
    pub partitions: i32,
    /// Replicas of each partition; -1 is the broker's default.
    pub replication: i16,
    /// Topic properties, by Kafka's names.
    pub config: BTreeMap<String, String>,
}

/// A topic as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicListing {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; zero where brokers have none.
    pub id: [u8; 16],
    /// Whether it is one of Kafka's internal topics.
    pub internal: bool,
}

/// A topic as described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name, id, and whether it is internal.
    pub listing: TopicListing,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionInfo>,
}

impl Admin {
    /// Creates topics, or only checks whether they could be. Names come back in the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Each<String, ()>, Error> {
        let rows = topics
            .iter()
            .map(|topic| CreatableTopic {
                name: topic.name.as_str().into(),
                num_partitions: topic.partitions,
                replication_factor: topic.replication,
                configs: topic
                    .config
                    .iter()
                    .map(|(name, value)| CreatableTopicConfig {
                        name: name.as_str().into(),
                        value: Some(value.as_str().into()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        let call = CreateTopics {
            topics: rows,
            timeout_ms: self.millis(timeout),
            validate_only,
        };
        let found = self.ask(call, timeout).await?;
        Ok(topics
            .iter()
            .map(|topic| topic.name.clone())
            .zip(found)
            .collect())
    }

    /// Deletes topics by name. Names come back in the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn delete_topics(
        &self,
        names: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, ()>, Error> {
        let call = DeleteTopics {
            names: names.to_vec(),
            timeout_ms: self.millis(timeout),
        };
        let found = self.ask(call, timeout).await?;
        Ok(names.iter().cloned().zip(found).collect())
    }

    /// All topics, sorted by name; with Kafka's own if `internal`.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn list_topics(
        &self,
        internal: bool,
        timeout: Option<Duration>,
    ) -> Result<Vec<TopicListing>, Error> {
        let answer = self.ask(ListTopics, timeout).await?;
        let mut topics: Vec<_> = answer
            .topics
            .iter()
            .filter_map(TopicListing::answered)
            .collect();
        topics.retain(|topic| internal || !topic.internal);
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Topics with their partitions. Names come back in the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_topics(
        &self,
        names: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, TopicDescription>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let call = DescribeTopics::at_once(names.to_vec());
        let found = self.ask(call, timeout).await?;
        let described = |row: Result<MetadataResponseTopic, Error>| {
            let row = row?;
            Ok(TopicDescription {
                listing: TopicListing::answered(&row).ok_or_else(unexpected)?,
                partitions: PartitionInfo::of(&row),
            })
        };
        Ok(names
            .iter()
            .cloned()
            .zip(found.into_iter().map(described))
            .collect())
    }
}

impl TopicListing {
    fn answered(row: &MetadataResponseTopic) -> Option<TopicListing> {
        Some(TopicListing {
            name: row.name.as_deref()?.into(),
            id: row.topic_id.0,
            internal: row.is_internal,
        })
    }
}
