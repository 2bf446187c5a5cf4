//! DescribeProducers (KIP-664), to each partition's leader.

use std::sync::Arc;

use ottla_protocol::messages::DescribeProducersRequest;
use ottla_protocol::messages::describe_producers_request::TopicRequest;
use ottla_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState};
use ottla_protocol::{ApiKey, ErrorCode};

use super::{About, Asked, Call, Target, partitions};
use crate::api::{Request, Response};
use crate::error::Error;

/// The producers that write to partitions. An item is a partition.
#[derive(Clone, Debug)]
pub struct DescribeProducers {
    /// The partitions.
    pub partitions: Vec<(Arc<str>, i32)>,
}

impl Call for DescribeProducers {
    type Found = Vec<ProducerState>;
    /// In the order of the request.
    type Answer = Vec<Result<Vec<ProducerState>, Error>>;
    const API: ApiKey = ApiKey::DescribeProducers;

    fn items(&self) -> usize {
        self.partitions.len()
    }

    fn target(&self, item: usize) -> Target {
        let wanted = self.partitions.get(item);
        partitions::target(wanted.map(|(topic, partition)| (topic, *partition)))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.partitions.get(*item));
        let rows = wanted.map(|(topic, partition)| (topic, *partition));
        let topics = partitions::by_topic(rows)
            .into_iter()
            .map(|(topic, partitions)| TopicRequest {
                name: (&**topic).into(),
                partition_indexes: partitions.into_iter().collect(),
                ..Default::default()
            })
            .collect();
        Request::DescribeProducers(DescribeProducersRequest {
            topics,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeProducers(answer) = response else {
            return Vec::new();
        };
        let wanted = items
            .iter()
            .filter_map(|asked| self.partitions.get(asked.item));
        let rows = answer.topics.iter().flat_map(|topic| {
            let rows = topic.partitions.iter();
            rows.map(|row| ((&*topic.name, row.partition_index), row))
        });
        let wanted = wanted.map(|(topic, partition)| (topic, *partition));
        partitions::results(wanted, rows, |row| producers(row))
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        Ok(found)
    }
}

fn producers(row: &PartitionResponse) -> Result<Vec<ProducerState>, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, row.error_message.as_deref()));
    }
    Ok(row.active_producers.clone())
}
