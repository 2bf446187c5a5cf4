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

/// What a request carries, until its answer or its connection's end: the batches by the index of their queue.
#[derive(Debug)]
pub(super) struct SentRequest {
    pub(super) link: LinkId,
    /// What its batches had when it was given to the connection.
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

    /// Compresses and sums what is new, and makes the request.
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
        let topic_data = topics
            .into_iter()
            .map(|topic| topic.finish(format))
            .collect::<Result<_, Error>>()?;
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
    fn finish(self, format: Format) -> Result<TopicProduceData, Error> {
        let name = self.name;
        let partition_data = self
            .partitions
            .into_iter()
            .map(|(index, load)| {
                let records = load
                    .finish(format)
                    .map_err(|error| error.partition_is(&name, index))?;
                Ok(PartitionProduceData {
                    index,
                    records: Some(records),
                    ..Default::default()
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(TopicProduceData {
            name: (&*name).into(),
            topic_id: self.id,
            partition_data,
            ..Default::default()
        })
    }
}
