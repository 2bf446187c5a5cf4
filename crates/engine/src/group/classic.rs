//! The state of a generation of a member of the classic protocol.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::call::CallId;
use crate::config::Config;
use crate::group::asking::Asking;
use crate::group::assignor::{RebalanceProtocol, TopicPartition};
use crate::group::heartbeats::Heartbeats;
use crate::group::lead::Lead;
use crate::group::strategy::Strategy;

#[derive(Debug)]
pub(super) struct Classic {
    /// Those that it offers.
    pub(super) assignors: Vec<Strategy>,
    pub(super) rebalances: RebalanceProtocol,
    /// The assignor of this generation.
    pub(super) assignor: usize,
    /// The topics that this generation's assignment is about.
    pub(super) joined: BTreeSet<Arc<str>>,
    /// The last assignment and its generation, for assignors that keep to it.
    pub(super) last: (Option<Vec<TopicPartition>>, i32),
    pub(super) lead: Option<Lead>,
    /// The open request to the caller's assignors.
    pub(super) asking: Asking,
    /// The user data of the caller's assignors for the next JoinGroup, in their order; `None` until
    /// they were called.
    pub(super) user_data: Option<Vec<Option<Bytes>>>,
    /// The call that requests what members have, of a leader that did not assign it.
    pub(super) describing: Option<CallId>,
    pub(super) heartbeats: Heartbeats,
}

impl Classic {
    pub(super) fn new(config: &Config) -> Classic {
        let names = config.partition_assignment_strategy.iter();
        let assignors: Vec<_> = names
            .filter_map(|name| Strategy::find(name, &config.assignors))
            .collect();
        // The best that all of them know: the group may agree on any of them.
        let rebalances = if assignors.iter().all(Strategy::cooperates) {
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
            asking: Asking::default(),
            user_data: None,
            describing: None,
            heartbeats: Heartbeats::new(config.heartbeat_interval, config.session_timeout),
        }
    }

    /// The names of the assignors that it offers.
    pub(super) fn offers(&self) -> Vec<Arc<str>> {
        self.assignors.iter().map(Strategy::name).collect()
    }

    /// The names of those of the caller.
    pub(super) fn customs(&self) -> Vec<Arc<str>> {
        let customs = self.assignors.iter();
        let customs = customs.filter(|it| matches!(it, Strategy::Custom(_)));
        customs.map(Strategy::name).collect()
    }
}
