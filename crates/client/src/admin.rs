//! Managing topics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::{Config, Error};
use tokio::runtime::Handle;

use crate::PartitionInfo;
use crate::consumer::OffsetAndTimestamp;

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
pub struct Admin {}

impl Admin {
    /// An admin client that runs on `runtime`. Never connects: the first call does.
    pub fn new(config: Config, runtime: &Handle) -> Result<Admin, Error> {
        todo!()
    }

    /// Creates topics, or only checks whether they could be. Names come back in the order given.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
        timeout: Option<Duration>,
    ) -> Result<Each<String, ()>, Error> {
        todo!()
    }

    /// Deletes topics by name. Names come back in the order given.
    pub async fn delete_topics(
        &self,
        names: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, ()>, Error> {
        todo!()
    }

    /// All topics, sorted by name; with Kafka's own if `internal`.
    pub async fn list_topics(
        &self,
        internal: bool,
        timeout: Option<Duration>,
    ) -> Result<Vec<TopicListing>, Error> {
        todo!()
    }

    /// Topics with their partitions. Names come back in the order given.
    pub async fn describe_topics(
        &self,
        names: &[String],
        timeout: Option<Duration>,
    ) -> Result<Each<String, TopicDescription>, Error> {
        todo!()
    }

    /// Offsets of partitions; `None` if no record is at or after the time asked for. In the order given.
    pub async fn list_offsets(
        &self,
        partitions: &[(Arc<str>, i32, OffsetSpec)],
        timeout: Option<Duration>,
    ) -> Result<Vec<Result<Option<OffsetAndTimestamp>, Error>>, Error> {
        todo!()
    }

    /// The brokers and the controller.
    pub async fn describe_cluster(
        &self,
        timeout: Option<Duration>,
    ) -> Result<ClusterDescription, Error> {
        todo!()
    }

    /// Fails calls under way with `Kind::Closed`, joins every task within `timeout`. Idempotent.
    pub async fn close(&self, timeout: Option<Duration>) -> Result<(), Error> {
        todo!()
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        todo!()
    }
}
