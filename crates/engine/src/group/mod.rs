//! Groups of consumers that share the partitions of topics.
//!
//! * [`assignor`]: who gets which partition, in a group of the classic protocol.

pub mod assignor;
