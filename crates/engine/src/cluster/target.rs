//! The target of a connection, and the owners of its requests.

use std::sync::Arc;

/// Names one connection, from its dialling to its end. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub(super) u64);

/// The requests that a connection carries. Brokers respond in order, so requests that wait long
/// have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Requests to which brokers respond at once.
    Control,
    /// Requests to a coordinator: heartbeats must not wait for requests to the same broker that take long.
    Coordinator,
    /// Requests to a group's coordinator to which it responds when the other members have joined:
    /// commits and heartbeats must not wait for them.
    Rebalance,
    /// Fetches, which wait for records; numbered, for a seek must not wait for a fetch that waits. In a producer, batches that
    /// need not wait for those of another connection.
    Data(u8),
}

/// Where a connection leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Destination {
    /// An address that the user gave.
    Bootstrap(usize),
    /// A broker of the cluster.
    Node(i32, Lane),
}

/// Whom a connection is meant for (KIP-1242).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The cluster's id.
    pub cluster_id: Arc<str>,
    /// The broker's id.
    pub node: i32,
}

/// The kinds of coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CoordinatorType {
    /// A consumer group, by its id.
    Group,
    /// A transactional producer, by its transactional id.
    Transaction,
}

impl CoordinatorType {
    /// The type's number in FindCoordinator.
    pub(crate) fn key_type(self) -> i8 {
        match self {
            CoordinatorType::Group => 0,
            CoordinatorType::Transaction => 1,
        }
    }
}

/// Names one part of a client, in the order in which the client lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartId(pub(crate) u8);

/// The receiver of the response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The view, which is refreshed.
    View,
    /// The search for a coordinator.
    Coordinators,
    /// A call.
    Call,
    /// The metrics that the client sends to brokers.
    Telemetry,
    /// A part of the client.
    Part(PartId),
}
