//! A group that changes its protocol while it has members, as while a cluster of consumers is restarted one by one (KIP-848).
//!
//! ```text
//!             the first member of the consumer protocol comes
//!   ┌─────────┐ ────────────────────────────────────────────▶ ┌──────────────────────────────────┐
//!   │ classic │                                               │ consumer, with classic members   │
//!   └─────────┘ ◀──────────────────────────────────────────── │ until the last of them has gone  │
//!             the last member of the consumer protocol goes   └──────────────────────────────────┘
//! ```
//!
//! `group.consumer.migration.policy` sets which direction is open. The number of the generation
//! becomes the epoch, and back.

use std::time::{Duration, Instant};

use super::catalogue::Catalogue;
use super::consumer::{ConsumerGroup, ConsumerRules};
use super::embedded::CONSUMER;
use super::state::Group;

/// The consumer group that a classic one with members is from now on.
///
/// # Errors
/// Why it cannot be one.
pub(super) fn upgraded<T>(
    classic: &Group<T>,
    rules: &ConsumerRules,
    catalogue: &Catalogue,
    now: Instant,
) -> Result<ConsumerGroup, &'static str> {
    if !rules.migration.upgrades {
        return Err("group.consumer.migration.policy does not allow that it changes its protocol");
    }
    if classic.protocol_type() != CONSUMER {
        return Err("its members are no consumers");
    }
    let members = classic.classic_members();
    if members.len() > rules.most_members {
        return Err("it has more members than a consumer group may have");
    }
    ConsumerGroup::of_classic(classic.generation(), members, catalogue, now)
}

/// The classic group that a consumer group is from now on, which has only classic members left.
pub(super) fn downgraded<T>(
    consumer: &ConsumerGroup,
    initial_delay: Duration,
    catalogue: &Catalogue,
    now: Instant,
) -> Group<T> {
    let mut classic = Group::new(initial_delay);
    let members = consumer.classic_members(catalogue);
    classic.take_over(consumer.epoch(), members, CONSUMER, now);
    classic
}
