//! Managing topics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::admin::Admin as Composition;
use ottla_engine::call::{
    CreateTopics, DeleteTopics, DescribeCluster, DescribeTopics, EARLIEST, LATEST, ListOffsets,
    ListTopics,
};
use ottla_engine::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_engine::messages::metadata_response::MetadataResponseTopic;
use ottla_engine::{Config, Engine, Error, Role};
use tokio::runtime::Handle;

use crate::PartitionInfo;
use crate::calls::{ask, unexpected};
use crate::consumer::OffsetAndTimestamp;
use crate::driver::Driver;
use crate::producer::JOIN_TIMEOUT;

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
    /// Whether Kafka keeps it for itself.
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

/// Which offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first there is.
    Earliest,
    /// The one after the last.
    Latest,
    /// The first at or after this time, in ms since 1970 UTC.
    AtTime(i64),
}

/// A broker of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: u16,
    /// Its rack, if it names one.
    pub rack: Option<String>,
}

/// The cluster as described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id, where brokers tell it.
    pub cluster_id: Option<String>,
    /// The controller's id; -1 if there is none at the moment.
    pub controller: i32,
    /// Its brokers, by id.
    pub nodes: Vec<Node>,
}

/// Results by name or by position, each with its own error: one that failed does not hide the others.
pub type Each<K, V> = Vec<(K, Result<V, Error>)>;

/// An admin client: a cheap handle, to be cloned and shared. The outer error of each call means that no answer came at all.
#[derive(Clone, Debug)]
pub struct Admin {
    driver: Arc<Driver<Composition>>,
}

impl Admin {
    /// An admin client that runs on `runtime`. Never connects: the first call does.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(config: Config, runtime: &Handle) -> Result<Admin, Error> {
        let driver = Driver::start(config, Role::Admin, runtime, Engine::admin)?;
        Ok(Admin {
            driver: Arc::new(driver),
        })
    }

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
        let found = ask(&self.driver, call, timeout).await?;
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
        let found = ask(&self.driver, call, timeout).await?;
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
        let answer = ask(&self.driver, ListTopics, timeout).await?;
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
        let found = ask(&self.driver, call, timeout).await?;
        let described = |row: Result<MetadataResponseTopic, Error>| {
            let row = row?;
            Ok(TopicDescription {
                listing: TopicListing::answered(&row).ok_or_else(unexpected)?,
                partitions: PartitionInfo::answered(&row),
            })
        };
        Ok(names
            .iter()
            .cloned()
            .zip(found.into_iter().map(described))
            .collect())
    }

    /// Offsets of partitions; `None` if no record is at or after the time asked for. In the order given.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn list_offsets(
        &self,
        partitions: &[(Arc<str>, i32, OffsetSpec)],
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<Option<OffsetAndTimestamp>, Error>>, Error> {
        let wanted = partitions
            .iter()
            .map(|(topic, partition, spec)| {
                let time = match spec {
                    OffsetSpec::Earliest => EARLIEST,
                    OffsetSpec::Latest => LATEST,
                    OffsetSpec::AtTime(time) => *time,
                };
                (Arc::clone(topic), *partition, time)
            })
            .collect();
        let found = ask(&self.driver, ListOffsets { wanted }, timeout).await?;
        Ok(found
            .into_iter()
            .map(|result| result.map(OffsetAndTimestamp::of))
            .collect())
    }

    /// The brokers and the controller.
    ///
    /// # Errors
    /// No answer by the deadline.
    pub async fn describe_cluster(
        &self,
        timeout: Option<Duration>,
    ) -> Result<ClusterDescription, Error> {
        let answer = ask(&self.driver, DescribeCluster, timeout).await?;
        let mut nodes: Vec<_> = answer
            .brokers
            .iter()
            .map(|broker| Node {
                id: broker.node_id,
                host: broker.host.to_string(),
                port: u16::try_from(broker.port).unwrap_or(0),
                rack: broker.rack.as_ref().map(|rack| rack.to_string()),
            })
            .collect();
        nodes.sort_by_key(|node| node.id);
        let cluster_id = answer.cluster_id.as_ref().map(|id| id.to_string());
        Ok(ClusterDescription {
            cluster_id,
            controller: answer.controller_id,
            nodes,
        })
    }

    /// Fails calls under way with `Kind::Closed`, joins every task within `timeout`. Idempotent.
    ///
    /// # Errors
    /// `Kind::Timeout` if tasks did not end in time.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.driver.close(timeout.unwrap_or(JOIN_TIMEOUT)).await
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        self.driver.config()
    }

    /// What the broker is told: how long it may take itself.
    fn millis(&self, timeout: Option<Duration>) -> i32 {
        let config = self.config();
        let timeout = timeout
            .unwrap_or(config.default_api_timeout)
            .min(config.request_timeout);
        i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
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
