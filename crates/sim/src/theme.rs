//! What runs are about: each theme has plans of its own, and faults and states that its runs must meet.

use crate::plan::{
    self, Plan, aging, consumer_groups, deposed, groups, share, transactions, truncated,
};
use crate::plant::Plant;

/// What a run is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Producers, consumers and admin clients of any kind, with brokers of any release.
    #[default]
    Everything,
    /// Transactions.
    Transactions,
    /// Groups of consumers.
    Groups,
    /// Groups of consumers whose coordinators assign (KIP-848).
    ConsumerGroups,
    /// Leaders of the past, which do not know that they are.
    Deposed,
    /// Logs that are truncated and written again.
    Truncated,
    /// Share groups.
    Share,
}

impl Theme {
    /// All themes.
    pub const ALL: [Theme; 7] = [
        Theme::Everything,
        Theme::Transactions,
        Theme::Groups,
        Theme::ConsumerGroups,
        Theme::Deposed,
        Theme::Truncated,
        Theme::Share,
    ];

    /// The theme of this name; `None` if no theme has it.
    pub fn named(name: &str) -> Option<Theme> {
        match name {
            "everything" => Some(Theme::Everything),
            "transactions" => Some(Theme::Transactions),
            "groups" => Some(Theme::Groups),
            "consumer-groups" => Some(Theme::ConsumerGroups),
            "deposed" => Some(Theme::Deposed),
            "truncated" => Some(Theme::Truncated),
            "share" => Some(Theme::Share),
            _ => None,
        }
    }

    /// What runs are about that can show a defect.
    pub fn showing(plant: Plant) -> Theme {
        if plant.is_about_consumer_groups() {
            Theme::ConsumerGroups
        } else if plant.is_about_groups() {
            Theme::Groups
        } else if plant.is_about_transactions() {
            Theme::Transactions
        } else if plant.is_about_truncation() {
            Theme::Truncated
        } else if plant.is_about_shares() {
            Theme::Share
        } else {
            Theme::Everything
        }
    }

    /// The run of a seed.
    pub fn plan(self, seed: u64) -> Plan {
        match self {
            Theme::Everything => aging::plan(seed),
            Theme::Transactions => transactions::plan(seed),
            Theme::Groups => groups::plan(seed),
            Theme::ConsumerGroups => consumer_groups::plan(seed),
            Theme::Deposed => deposed::plan(seed),
            Theme::Truncated => truncated::plan(seed),
            Theme::Share => share::plan(seed),
        }
    }

    /// Every fault that some seed must meet.
    pub fn faults(self) -> &'static [&'static str] {
        match self {
            Theme::Everything => plan::FAULTS,
            Theme::Transactions => transactions::FAULTS,
            Theme::Groups => groups::FAULTS,
            Theme::ConsumerGroups => consumer_groups::FAULTS,
            Theme::Deposed => deposed::FAULTS,
            Theme::Truncated => truncated::FAULTS,
            Theme::Share => share::FAULTS,
        }
    }

    /// Every state that some seed must enter.
    pub fn states(self) -> &'static [&'static str] {
        match self {
            Theme::Everything => plan::STATES,
            Theme::Transactions => transactions::STATES,
            Theme::Groups => groups::STATES,
            Theme::ConsumerGroups => consumer_groups::STATES,
            Theme::Deposed => deposed::STATES,
            Theme::Truncated => truncated::STATES,
            Theme::Share => share::STATES,
        }
    }
}
