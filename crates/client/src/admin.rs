//! Managing topics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::engine::Questions;
use ottla_engine::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use ottla_engine::messages::delete_topics_request::DeleteTopicState;
use ottla_engine::messages::metadata_response::MetadataResponseTopic;
use ottla_engine::messages::{CreateTopicsRequest, DeleteTopicsRequest, MetadataResponse};
use ottla_engine::operation::{Answer, EARLIEST, LATEST, Question};
use ottla_engine::{Config, Engine, Error, ErrorCode, Role};
use tokio::runtime::Handle;

use crate::PartitionInfo;
use crate::consumer::OffsetAndTimestamp;
use crate::driver::Driver;
use crate::producer::JOIN_TIMEOUT;
use crate::questions::{ask, unexpected};

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
    driver: Arc<Driver<Questions>>,
}

impl Admin {
    /// An admin client that runs on `runtime`. Never connects: the first call does.
    ///
    /// # Errors
    /// `Kind::Config` if `config` is for another role.
    pub fn new(config: Config, runtime: &Handle) -> Result<Admin, Error> {
        let driver = Driver::start(config, Role::Admin, runtime, Engine::new)?;
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
        let request = CreateTopicsRequest {
            topics: rows,
            timeout_ms: self.millis(timeout),
            validate_only,
            ..Default::default()
        };
        let Answer::CreateTopics(answer) =
            ask(&self.driver, Question::CreateTopics(request), timeout).await?
        else {
            return Err(unexpected());
        };
        let result = |name: &str| {
            let row = answer.topics.iter().find(|row| *row.name == *name);
            verdict(
                "CreateTopics",
                name,
                row.map(|row| (row.error_code, row.error_message.as_deref())),
            )
        };
        Ok(topics
            .iter()
            .map(|topic| (topic.name.clone(), result(&topic.name)))
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
        let topics = names
            .iter()
            .map(|name| DeleteTopicState {
                name: Some(name.as_str().into()),
                ..Default::default()
            })
            .collect();
        let request = DeleteTopicsRequest {
            topics,
            timeout_ms: self.millis(timeout),
            ..Default::default()
        };
        let Answer::DeleteTopics(answer) =
            ask(&self.driver, Question::DeleteTopics(request), timeout).await?
        else {
            return Err(unexpected());
        };
        let result = |name: &str| {
            let row = answer
                .responses
                .iter()
                .find(|row| row.name.as_deref() == Some(name));
            verdict(
                "DeleteTopics",
                name,
                row.map(|row| (row.error_code, row.error_message.as_deref())),
            )
        };
        Ok(names
            .iter()
            .map(|name| (name.clone(), result(name)))
            .collect())
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
        let answer = self.metadata(None, timeout).await?;
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
        let answer = self.metadata(Some(names.to_vec()), timeout).await?;
        let result = |name: &str| {
            let row = answer
                .topics
                .iter()
                .find(|row| row.name.as_deref() == Some(name));
            verdict("Metadata", name, row.map(|row| (row.error_code, None)))?;
            let listing = row
                .and_then(TopicListing::answered)
                .ok_or_else(unexpected)?;
            let partitions = row.map(PartitionInfo::answered).unwrap_or_default();
            Ok(TopicDescription {
                listing,
                partitions,
            })
        };
        Ok(names
            .iter()
            .map(|name| (name.clone(), result(name)))
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
        let Answer::Offsets(found) = ask(&self.driver, Question::Offsets(wanted), timeout).await?
        else {
            return Err(unexpected());
        };
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
        let answer = self.metadata(Some(Vec::new()), timeout).await?;
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

    async fn metadata(
        &self,
        topics: Option<Vec<String>>,
        timeout: Option<Duration>,
    ) -> Result<MetadataResponse, Error> {
        match ask(
            &self.driver,
            Question::Metadata {
                topics,
                auto_create: false,
            },
            timeout,
        )
        .await?
        {
            Answer::Metadata(answer) => Ok(answer),
            _ => Err(unexpected()),
        }
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

/// One topic's result: the error code, and the broker's text about it.
fn verdict(
    api: &'static str,
    topic: &str,
    answer: Option<(i16, Option<&str>)>,
) -> Result<(), Error> {
    let (code, text) = answer.ok_or_else(|| unexpected().calling(api).topic_is(&topic.into()))?;
    let code = ErrorCode(code);
    if code.is_error() {
        Err(Error::from_code(code, text)
            .calling(api)
            .topic_is(&topic.into()))
    } else {
        Ok(())
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
