//! The settings of single groups, which admin clients change (resource GROUP of IncrementalAlterConfigs).

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::consumer::ConsumerRules;

pub(crate) const CONSUMER_ASSIGNMENT_INTERVAL: &str = "consumer.assignment.interval.ms";
pub(crate) const CONSUMER_HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
pub(crate) const CONSUMER_SESSION: &str = "consumer.session.timeout.ms";

/// What was set for one group: milliseconds, by Kafka's names.
pub(crate) type OwnSettings = BTreeMap<&'static str, u64>;

/// What was set for groups, by name. All nodes of a cluster share it. It is in memory only.
#[derive(Debug, Default)]
pub(crate) struct GroupSettings(Mutex<BTreeMap<String, OwnSettings>>);

impl GroupSettings {
    /// What was set for a group.
    pub(crate) fn of(&self, group: &str) -> OwnSettings {
        self.0.lock().get(group).cloned().unwrap_or_default()
    }

    /// Puts `own` in the place of what was set.
    pub(crate) fn set(&self, group: &str, own: OwnSettings) {
        self.0.lock().insert(group.to_owned(), own);
    }

    /// What holds for a group, where `all` holds for those that have no settings of their own.
    pub(super) fn rules(&self, group: &str, all: &ConsumerRules) -> ConsumerRules {
        let own = self.of(group);
        let time = |name, default| {
            own.get(name)
                .map_or(default, |ms| Duration::from_millis(*ms))
        };
        ConsumerRules {
            session: time(CONSUMER_SESSION, all.session),
            heartbeat: time(CONSUMER_HEARTBEAT, all.heartbeat),
            assignment_interval: time(CONSUMER_ASSIGNMENT_INTERVAL, all.assignment_interval),
            ..all.clone()
        }
    }
}
