//! The settings of single groups, which admin clients change (resource GROUP of IncrementalAlterConfigs).

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::consumer::ConsumerRules;
use super::share::ShareRules;

pub(crate) const CONSUMER_ASSIGNMENT_INTERVAL: &str = "consumer.assignment.interval.ms";
pub(crate) const CONSUMER_HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
pub(crate) const CONSUMER_SESSION: &str = "consumer.session.timeout.ms";
pub(crate) const SHARE_ASSIGNMENT_INTERVAL: &str = "share.assignment.interval.ms";
pub(crate) const SHARE_HEARTBEAT: &str = "share.heartbeat.interval.ms";
pub(crate) const SHARE_SESSION: &str = "share.session.timeout.ms";

/// What was set for one group, by Kafka's names.
pub(crate) type OwnSettings = BTreeMap<&'static str, String>;

/// What was set for groups, by name. All nodes of a cluster share it. It is in memory only.
#[derive(Debug, Default)]
pub(crate) struct GroupSettings(Mutex<BTreeMap<String, OwnSettings>>);

impl GroupSettings {
    /// What was set for a group.
    pub(crate) fn of(&self, group: &str) -> OwnSettings {
        self.0.lock().get(group).cloned().unwrap_or_default()
    }

    /// The groups that something was set for, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let all = self.0.lock();
        let set = all.iter().filter(|(_, own)| !own.is_empty());
        set.map(|(name, _)| name.clone()).collect()
    }

    /// Puts `own` in the place of what was set.
    pub(crate) fn set(&self, group: &str, own: OwnSettings) {
        self.0.lock().insert(group.to_owned(), own);
    }

    /// What holds for a group, where `all` holds for those that have no settings of their own.
    pub(super) fn rules(&self, group: &str, all: &ConsumerRules) -> ConsumerRules {
        let own = self.of(group);
        let time = |name, default| own_time(&own, name, default);
        ConsumerRules {
            session: time(CONSUMER_SESSION, all.session),
            heartbeat: time(CONSUMER_HEARTBEAT, all.heartbeat),
            assignment_interval: time(CONSUMER_ASSIGNMENT_INTERVAL, all.assignment_interval),
            ..all.clone()
        }
    }

    /// As [`GroupSettings::rules`], for a share group.
    pub(super) fn share_rules(&self, group: &str, all: &ShareRules) -> ShareRules {
        let own = self.of(group);
        let time = |name, default| own_time(&own, name, default);
        ShareRules {
            session: time(SHARE_SESSION, all.session),
            heartbeat: time(SHARE_HEARTBEAT, all.heartbeat),
            assignment_interval: time(SHARE_ASSIGNMENT_INTERVAL, all.assignment_interval),
            ..all.clone()
        }
    }
}

/// A time that was checked when it was set.
fn own_time(own: &OwnSettings, name: &str, default: Duration) -> Duration {
    let own = own.get(name).and_then(|ms| ms.parse().ok());
    own.map_or(default, Duration::from_millis)
}
