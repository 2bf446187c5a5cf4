//! Managing a cluster: a file for each noun.

mod cluster;
mod delegation_tokens;
mod groups;
mod handle;
mod offsets;
mod producers;
mod topics;
mod transactions;

pub use cluster::{ClusterDescription, Node};
pub use delegation_tokens::{DelegationToken, Principal};
pub use groups::{Epochs, GroupDescription, GroupListing, MemberDescription};
pub use handle::{Admin, Each};
pub use offsets::OffsetSpec;
pub use producers::ProducerState;
pub use topics::{NewTopic, TopicDescription, TopicListing};
pub use transactions::{
    AbortTransaction, ProducerIdentity, TransactionDescription, TransactionListing,
};
