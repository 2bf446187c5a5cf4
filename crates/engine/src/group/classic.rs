//! What a member of the classic protocol keeps of its generation.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::Config;
use crate::group::assignor::{Assignor, RebalanceProtocol, TopicPartition, by_name};
use crate::group::heartbeats::Heartbeats;
use crate::group::lead::Lead;

#[derive(Debug)]
pub(super) struct Classic {
    /// Those that it offers.
    pub(super) assignors: Vec<&'static dyn Assignor>,
    pub(super) rebalances: RebalanceProtocol,
    /// The assignor of this generation.
    pub(super) assignor: usize,
    /// The topics that this generation's assignment is about.
    pub(super) joined: BTreeSet<Arc<str>>,
    /// The last assignment and its generation, for assignors that keep to it.
    pub(super) last: (Option<Vec<TopicPartition>>, i32),
    pub(super) lead: Option<Lead>,
    pub(super) heartbeats: Heartbeats,
}

impl Classic {
    pub(super) fn new(config: &Config) -> Classic {
        let names = config.partition_assignment_strategy.iter();
        let assignors: Vec<_> = names.filter_map(|name| by_name(name)).collect();
        let cooperates = |it: &&dyn Assignor| {
            let protocols = it.protocols();
            protocols.contains(&RebalanceProtocol::Cooperative)
        };
        // The best that all of them know: the group may agree on any of them.
        let rebalances = if assignors.iter().all(cooperates) {
            RebalanceProtocol::Cooperative
        } else {
            RebalanceProtocol::Eager
        };
        Classic {
            assignors,
            rebalances,
            assignor: 0,
            joined: BTreeSet::new(),
            last: (None, -1),
            lead: None,
            heartbeats: Heartbeats::new(config.heartbeat_interval, config.session_timeout),
        }
    }

    /// The names of the assignors that it offers.
    pub(super) fn offers(&self) -> Vec<&'static str> {
        self.assignors.iter().map(|it| it.name()).collect()
    }
}
