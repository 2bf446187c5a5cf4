//! Managing a cluster: a file for each noun.

mod cluster;
mod delegation_tokens;
mod handle;
mod offsets;
mod producers;
mod topics;

pub use cluster::{ClusterDescription, Node};
pub use delegation_tokens::{DelegationToken, Principal};
pub use handle::{Admin, Each};
pub use offsets::OffsetSpec;
pub use producers::ProducerState;
pub use topics::{NewTopic, TopicDescription, TopicListing};
