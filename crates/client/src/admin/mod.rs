//! Managing a cluster: a file for each noun.

mod cluster;
mod handle;
mod offsets;
mod producers;
mod topics;

pub use cluster::{ClusterDescription, Node};
pub use handle::{Admin, Each};
pub use offsets::OffsetSpec;
pub use producers::ProducerState;
pub use topics::{NewTopic, TopicDescription, TopicListing};
