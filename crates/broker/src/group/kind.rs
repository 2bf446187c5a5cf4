//! A group of any kind, as far as they are alike.

use std::time::Instant;

use bytes::Bytes;

use super::consumer::ConsumerGroup;
use super::embedded::{CONSUMER, Subscription};
use super::kept::Kept;
use super::share::ShareGroup;
use super::state::Group;

/// What stands in its place for share groups.
const SHARE: &str = "share";

#[derive(Debug)]
pub(super) enum Kind<T> {
    Classic(Group<T>),
    Consumer(ConsumerGroup),
    Share(ShareGroup),
}

impl<T> Kind<T> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
            Self::Share(_) => "share",
        }
    }

    pub(super) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type(),
            Self::Consumer(_) => CONSUMER,
            Self::Share(_) => SHARE,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_empty(),
            Self::Consumer(group) => group.is_empty(),
            Self::Share(group) => group.is_empty(),
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self {
            Self::Classic(group) => group.state_name(),
            Self::Consumer(group) => group.state_name(),
            Self::Share(group) => group.state_name(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Classic(group) => group.deadline(),
            Self::Consumer(group) => group.deadline(),
            Self::Share(group) => group.deadline(),
        }
    }

    /// Whether anything is kept of its members, or of those that it had.
    pub(super) fn is_kept(&self) -> bool {
        match self {
            Self::Classic(group) => group.was_kept(),
            Self::Consumer(_) | Self::Share(_) => true,
        }
    }

    /// The records that make all of it be forgotten, for a group that keeps its members record by record.
    pub(super) fn tombstones(&self, name: &str) -> Vec<Kept> {
        match self {
            Self::Classic(_) => Vec::new(),
            Self::Consumer(group) => {
                let records = group.tombstones(name).into_iter();
                records.map(Kept::Consumer).collect()
            }
            Self::Share(group) => {
                let records = group.tombstones(name).into_iter();
                records.map(Kept::Share).collect()
            }
        }
    }

    /// Whether a member subscribes to the topic; `None` if its members are no consumers, so that nobody knows.
    pub(super) fn subscribes_to(&self, topic: &str) -> Option<bool> {
        match self {
            Self::Consumer(group) => Some(group.subscribes_to(topic)),
            Self::Share(group) => Some(group.subscribes_to(topic)),
            Self::Classic(group) if group.is_empty() => Some(false),
            Self::Classic(group) if group.protocol_type() != CONSUMER => None,
            Self::Classic(group) => {
                // Who is about to join may subscribe to it.
                let subscribes = |metadata: Bytes| {
                    let subscription = Subscription::read(&metadata);
                    subscription.is_none_or(|it| it.topics.contains(topic))
                };
                Some(group.metadata().any(subscribes))
            }
        }
    }
}
