//! What a response can leave out without being wrong, as those of brokers do that have just heard of a topic or of a new leader:
//! the ids of topics in Metadata (KIP-516), and who leads in the others (KIP-951).

use std::any::Any;

use ottla_protocol::Uuid;
use ottla_protocol::messages::{
    FetchResponse, MetadataResponse, ProduceResponse, ShareAcknowledgeResponse, ShareFetchResponse,
};

/// Leaves it out of a response that may have it.
pub(super) fn withhold(response: &mut dyn Any) {
    if let Some(metadata) = response.downcast_mut::<MetadataResponse>() {
        for topic in &mut metadata.topics {
            topic.topic_id = Uuid::ZERO;
        }
    } else if let Some(produced) = response.downcast_mut::<ProduceResponse>() {
        produced.node_endpoints.clear();
        let topics = produced.responses.iter_mut();
        for partition in topics.flat_map(|topic| &mut topic.partition_responses) {
            partition.current_leader = Default::default();
        }
    } else if let Some(fetched) = response.downcast_mut::<FetchResponse>() {
        fetched.node_endpoints.clear();
        let topics = fetched.responses.iter_mut();
        for partition in topics.flat_map(|topic| &mut topic.partitions) {
            partition.current_leader = Default::default();
        }
    } else if let Some(fetched) = response.downcast_mut::<ShareFetchResponse>() {
        fetched.node_endpoints.clear();
        let topics = fetched.responses.iter_mut();
        for partition in topics.flat_map(|topic| &mut topic.partitions) {
            partition.current_leader = Default::default();
        }
    } else if let Some(acknowledged) = response.downcast_mut::<ShareAcknowledgeResponse>() {
        acknowledged.node_endpoints.clear();
        let topics = acknowledged.responses.iter_mut();
        for partition in topics.flat_map(|topic| &mut topic.partitions) {
            partition.current_leader = Default::default();
        }
    }
}
