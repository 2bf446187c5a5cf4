//! A Produce request: one whose batches still must be finished, and what is kept of one that was sent.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::ProduceRequest;
use ottla_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use ottla_protocol::{ApiKey, Uuid};

use crate::api::Request;
use crate::cluster::LinkId;
use crate::dispatch::{Outgoing, Unfinished};
use crate::error::Error;
use crate::produce::batch::{BatchId, Format, Load};

/// A Produce request whose batches still have to be finished, which takes time and needs no engine.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(super) token: u64,
    pub(super) version: i16,
    pub(super) format: Format,
    pub(super) transactional_id: Option<Arc<str>>,
    pub(super) acks: i16,
    pub(super) timeout: Duration,
    pub(super) topics: Vec<ParcelTopic>,
}

#[derive(Debug)]
pub(super) struct ParcelTopic {
    pub(super) name: Arc<str>,
    pub(super) id: Uuid,
    pub(super) partitions: Vec<(i32, Load)>,
}

/// The batches of a request, by the index of their queue, until its response or its connection's
/// end.
#[derive(Debug)]
pub(super) struct SentRequest {
    pub(super) link: LinkId,
    /// The bytes of its batches when it was given to the connection.
    pub(super) bytes: usize,
    pub(super) format: Format,
    pub(super) batches: Vec<(usize, BatchId)>,
    /// Its topics by their ids, in order of these; none where it has names instead.
    pub(super) topics: Vec<(Uuid, Arc<str>)>,
}

impl SentRequest {
    /// The topic that had this id when the request was made.
    pub(super) fn topic(&self, id: Uuid) -> Option<&Arc<str>> {
        let at = self.topics.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.topics.get(at).map(|(_, name)| name)
    }
}

impl Unfinished for Parcel {
    fn token(&self) -> u64 {
        self.token
    }

    fn about(&self) -> (ApiKey, i16) {
        (ApiKey::Produce, self.version)
    }

    /// Compresses and sums what is new, and makes the request, without the batches that do not encode.
    fn finish(self: Box<Self>) -> Result<Outgoing, Error> {
        let Parcel {
            token,
            version,
            format,
            transactional_id,
            acks,
            timeout,
            topics,
        } = *self;
        let mut failure = None;
        let mut topic_data = Vec::with_capacity(topics.len());
        for topic in topics {
            let topic = topic.finish(format, &mut failure);
            if !topic.partition_data.is_empty() {
                topic_data.push(topic);
            }
        }
        if let Some(error) = failure.filter(|_| topic_data.is_empty()) {
            return Err(error);
        }
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let request = Request::Produce(ProduceRequest {
            transactional_id: transactional_id.map(|id| (&*id).into()),
            acks,
            timeout_ms,
            topic_data,
            ..Default::default()
        });
        Ok(Outgoing {
            token,
            request,
            version,
            timeout,
            answered: acks != 0,
            expected_bytes: 0,
        })
    }
}

impl ParcelTopic {
    /// The topic of the request. `failure` keeps the first error of a batch that is left out.
    fn finish(self, format: Format, failure: &mut Option<Error>) -> TopicProduceData {
        let name = self.name;
        let mut partition_data = Vec::with_capacity(self.partitions.len());
        for (index, load) in self.partitions {
            match load.finish(format) {
                Ok(records) => partition_data.push(PartitionProduceData {
                    index,
                    records: Some(records),
                    ..Default::default()
                }),
                Err(error) => {
                    failure.get_or_insert_with(|| error.with_partition(&name, index));
                }
            }
        }
        TopicProduceData {
            name: (&*name).into(),
            topic_id: self.id,
            partition_data,
            ..Default::default()
        }
    }
}
