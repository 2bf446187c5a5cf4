//! Metadata for a caller; the engine's own view does not change.

use std::sync::Arc;

use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::metadata_response::MetadataResponseTopic;
use ottla_protocol::messages::{MetadataRequest, MetadataResponse};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use serde::Serialize;

use super::interface::{Retry, left_out, only, results};
use super::{About, Asked, Call, Target, TopicKey};
use crate::api::{Request, Response};
use crate::error::Error;

/// A partition as metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionInfo {
    /// The partition's number.
    pub partition: i32,
    /// The leader's broker id; -1 if the partition has none.
    pub leader: i32,
    /// Ids of the brokers that hold a replica.
    pub replicas: Vec<i32>,
    /// Ids of the brokers whose replica is in sync.
    pub in_sync: Vec<i32>,
}

impl PartitionInfo {
    /// The partitions of a topic, by their numbers.
    pub fn of(topic: &MetadataResponseTopic) -> Vec<PartitionInfo> {
        let mut partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|row| PartitionInfo {
                partition: row.partition_index,
                leader: row.leader_id,
                replicas: row.replica_nodes.to_vec(),
                in_sync: row.isr_nodes.to_vec(),
            })
            .collect();
        partitions.sort_by_key(|row| row.partition);
        partitions
    }
}

/// Topics with their partitions, as any broker knows them. An item is a topic.
#[derive(Clone, Debug)]
pub struct DescribeTopics {
    topics: Vec<TopicKey>,
    /// Whether to return the operations that the client is authorized for (KIP-430).
    operations: bool,
    /// How many responses in a row must report that a topic does not exist, or has no leaders yet,
    /// before the call fails.
    answers: u32,
}

/// The first version of Metadata with topic ids in the request.
const BY_ID: i16 = 12;

/// The first version of Metadata with the operations that the client is authorized for.
const WITH_OPERATIONS: i16 = 8;

/// How many responses must report that a topic does not exist: one that was just created is not known to every broker at once.
pub(crate) const CONFIRMED: u32 = 4;

impl DescribeTopics {
    /// As known by the broker that gets the first request.
    pub fn at_once(names: Vec<String>) -> DescribeTopics {
        DescribeTopics::by_keys(TopicKey::named(names), false)
    }

    /// As [`DescribeTopics::at_once`], by name or id, with the operations that the client is authorized for if they are wanted.
    pub fn by_keys(topics: Vec<TopicKey>, operations: bool) -> DescribeTopics {
        DescribeTopics {
            topics,
            operations,
            answers: 1,
        }
    }

    /// A topic that a broker does not know is requested again, a few times.
    pub fn confirmed(names: Vec<String>) -> DescribeTopics {
        DescribeTopics {
            answers: CONFIRMED,
            ..DescribeTopics::at_once(names)
        }
    }
}

impl Call for DescribeTopics {
    type Found = MetadataResponseTopic;
    type Answer = Vec<Result<MetadataResponseTopic, Error>>;
    const API: ApiKey = ApiKey::Metadata;

    fn versions(&self) -> (i16, i16) {
        let by_id = self.topics.iter().any(|it| matches!(it, TopicKey::Id(_)));
        let least = match (by_id, self.operations) {
            (true, _) => BY_ID,
            (false, true) => WITH_OPERATIONS,
            (false, false) => 0,
        };
        (least, i16::MAX)
    }

    fn items(&self) -> usize {
        self.topics.len()
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let topics = items.iter().filter_map(|item| self.topics.get(*item));
        let topics = topics.map(TopicKey::fields);
        let topics = topics.map(|(name, topic_id)| MetadataRequestTopic {
            name,
            topic_id,
            ..Default::default()
        });
        Request::Metadata(MetadataRequest {
            topics: Some(topics.collect()),
            allow_auto_topic_creation: false,
            include_topic_authorized_operations: self.operations,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let answer = match whole(response) {
            Ok(answer) => answer,
            Err(error) => return items.iter().map(|_| Err(error.clone())).collect(),
        };
        let result = |asked: &Asked| {
            let topic = self.topics.get(asked.item)?;
            let mut rows = answer.topics.iter();
            let Some(row) = rows.find(|row| topic.is(row.name.as_deref(), row.topic_id)) else {
                // Old brokers returned all topics.
                let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                return Some(Err(topic.blame(Error::from_code(code, None))));
            };
            let code = ErrorCode(row.error_code);
            Some(if code.is_error() {
                Err(topic.blame(Error::from_code(code, None)))
            } else {
                Ok(row.clone())
            })
        };
        results(items, "a topic", result)
    }

    /// A confirmed error of one topic is its result; an error of the broker is retried.
    fn retry(&self, error: &Error, answers: u32) -> Retry {
        let confirmed = answers >= self.answers;
        let of_topic = error.topic().is_some() || error.code() == Some(ErrorCode::UNKNOWN_TOPIC_ID);
        Retry::after_pause_if(error.is_retriable() && !(of_topic && confirmed))
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

/// All topics there are, with their partitions.
#[derive(Clone, Copy, Debug)]
pub struct ListTopics;

impl Call for ListTopics {
    type Found = MetadataResponse;
    type Answer = MetadataResponse;
    const API: ApiKey = ApiKey::Metadata;

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        metadata(None)
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<MetadataResponse, Error>> {
        vec![whole(response)]
    }

    fn merge(self, found: Vec<Result<MetadataResponse, Error>>) -> Result<MetadataResponse, Error> {
        only(found, "the cluster")
    }
}

/// The names of topics whose ids are known (KIP-516), as any broker knows them. Those that it does not know are left out.
#[derive(Clone, Debug)]
pub(crate) struct TopicNames {
    pub(crate) ids: Vec<Uuid>,
}

impl Call for TopicNames {
    type Found = Vec<(Uuid, Arc<str>)>;
    type Answer = Vec<(Uuid, Arc<str>)>;
    const API: ApiKey = ApiKey::Metadata;

    fn versions(&self) -> (i16, i16) {
        (BY_ID, i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        Target::Any
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let topics = self.ids.iter().map(|id| MetadataRequestTopic {
            topic_id: *id,
            name: None,
            ..Default::default()
        });
        metadata(Some(topics.collect()))
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        vec![whole(response).map(|answer| {
            let rows = answer.topics.iter();
            let known = rows.filter(|row| !ErrorCode(row.error_code).is_error());
            let named =
                known.filter_map(|row| Some((row.topic_id, Arc::from(row.name.as_deref()?))));
            named.collect()
        })]
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the topics")
    }
}

fn metadata(topics: Option<Vec<MetadataRequestTopic>>) -> Request {
    Request::Metadata(MetadataRequest {
        topics,
        allow_auto_topic_creation: false,
        ..Default::default()
    })
}

fn whole(response: Response) -> Result<MetadataResponse, Error> {
    let Response::Metadata(answer) = response else {
        return Err(left_out("the cluster"));
    };
    let code = ErrorCode(answer.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, None));
    }
    Ok(answer)
}
