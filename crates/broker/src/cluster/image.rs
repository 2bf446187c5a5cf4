//! The values that nodes and their controller exchange.

use ottla_protocol::{Str, Uuid};

use crate::config::Values;
use crate::storage::replica::Standing;

/// A partition: topic and number.
pub(crate) type PartitionId = (Str, i32);

/// Where clients of each listener reach a node, by the index of the listener.
pub(crate) type Host = Vec<Address>;

/// Where clients of one listener reach a node.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) host: Str,
    pub(crate) port: i32,
}

/// A topic, as all nodes know it.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) name: Str,
    pub(crate) id: Uuid,
    pub(crate) values: Values,
    /// Whether a replica may lead that was not in sync.
    pub(crate) unclean_elections: bool,
    pub(crate) partitions: Vec<Standing>,
}

/// What partitions are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) partitions: i32,
    /// `None`: as many as the broker's settings say.
    pub(crate) replication: Option<i32>,
    /// The replicas of each partition, if the client sends them.
    pub(crate) assignments: Option<Vec<Vec<i32>>>,
}

impl Layout {
    /// This many partitions, and the defaults of the broker's settings.
    pub(crate) fn of(partitions: i32) -> Self {
        Self {
            partitions,
            replication: None,
            assignments: None,
        }
    }
}
