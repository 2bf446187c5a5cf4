//! DescribeProducers (KIP-664), asked of each partition's leader.

use std::sync::Arc;

use ottla_protocol::messages::DescribeProducersRequest;
use ottla_protocol::messages::describe_producers_request::TopicRequest;
use ottla_protocol::messages::describe_producers_response::{PartitionResponse, ProducerState};
use ottla_protocol::{ApiKey, ErrorCode};
use rustc_hash::FxHashMap;

use super::{About, Asked, Call, Target, left_out};
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
        match self.partitions.get(item) {
            Some((topic, partition)) => Target::Leader(Arc::clone(topic), *partition),
            None => Target::Any,
        }
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let mut topics: Vec<TopicRequest> = Vec::new();
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        for (topic, partition) in items.iter().filter_map(|item| self.partitions.get(*item)) {
            let place = *places.entry(topic).or_insert_with(|| {
                topics.push(TopicRequest {
                    name: (&**topic).into(),
                    ..Default::default()
                });
                topics.len() - 1
            });
            if let Some(entry) = topics.get_mut(place) {
                entry.partition_indexes.push(*partition);
            }
        }
        Request::DescribeProducers(DescribeProducersRequest {
            topics,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::DescribeProducers(answer) = response else {
            return Vec::new();
        };
        let mut rows = FxHashMap::default();
        for topic in &answer.topics {
            for row in &topic.partitions {
                rows.entry((&*topic.name, row.partition_index))
                    .or_insert(row);
            }
        }
        let result = |asked: &Asked| {
            let (topic, partition) = self.partitions.get(asked.item)?;
            let found = match rows.get(&(&**topic, *partition)) {
                Some(row) => producers(row),
                None => Err(left_out("a partition")),
            };
            Some(found.map_err(|error| error.partition_is(topic, *partition)))
        };
        items.iter().filter_map(result).collect()
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
