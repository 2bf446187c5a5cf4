//! What runs are about: each theme has plans of its own, and faults and states that its runs must meet.

use crate::plan::{self, Plan, deposed, transactions};

/// What a run is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Producers, consumers and admin clients of any kind, with brokers of any release.
    #[default]
    Everything,
    /// Transactions.
    Transactions,
    /// Leaders of the past, which do not know that they are.
    Deposed,
}

impl Theme {
    /// The theme with this name.
    pub fn named(name: &str) -> Option<Theme> {
        match name {
            "transactions" => Some(Theme::Transactions),
            "deposed" => Some(Theme::Deposed),
            _ => None,
        }
    }

    /// The run of a seed.
    pub fn plan(self, seed: u64) -> Plan {
        match self {
            Theme::Everything => Plan::of(seed),
            Theme::Transactions => transactions::plan(seed),
            Theme::Deposed => deposed::plan(seed),
        }
    }

    /// Every fault that some seed must meet.
    pub fn faults(self) -> &'static [&'static str] {
        match self {
            Theme::Everything => plan::FAULTS,
            Theme::Transactions => transactions::FAULTS,
            Theme::Deposed => deposed::FAULTS,
        }
    }

    /// Every state that some seed must enter.
    pub fn states(self) -> &'static [&'static str] {
        match self {
            Theme::Everything => plan::STATES,
            Theme::Transactions => transactions::STATES,
            Theme::Deposed => deposed::STATES,
        }
    }
}
