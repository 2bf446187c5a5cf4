//! The assignors of the classic group protocol, as pure functions.
//!
//! The leader of a group assigns, for all members, and any client may be the leader. So an assignment here is the one that Kafka's
//! own classes make, partition by partition: a group whose leader is now this client and now a Java client never moves a partition
//! for that reason. `tests/conformance` holds both against each other.
//!
//! What comes from other members is read in [`Subscription::decode`] and in the assignors, and
//! harms no member: entries that do not exist, are named twice or do not decode are ignored. There,
//! and only there, a result may differ from Kafka's, whose assignors throw, or hand out partitions
//! twice or to members that did not subscribe to them; `tests/conformance/README.md` lists the
//! cases.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | its reason |
//! |---|---|
//! | `consumer_protocol` | the metadata and the assignments of members, as bytes |
//! | `member` | who takes part, what there is to assign, and what an assignor is |
//! | `java` | orders of Java that show in an assignment |
//! | `user_data` | what the sticky assignors put into a subscription |
//! | `roster` | all of that as numbers |
//! | `racks` | which members are near to which partitions |
//! | `range`, `round_robin` | the assignors without memory |
//! | `claims` | the consistent part of what members claim to own |
//! | `constrained` | the sticky assignment where all subscribed to the same topics |
//! | `movements`, `general` | where they did not |
//! | `sticky` | both sticky assignors |
//! | `custom` | assignors of the caller: their requests, and the validation of their replies |

mod claims;
mod constrained;
mod consumer_protocol;
mod custom;
mod general;
mod java;
mod member;
mod movements;
mod racks;
mod range;
mod roster;
mod round_robin;
mod sticky;
#[cfg(test)]
mod tests;
mod user_data;

pub use self::consumer_protocol::{Assignment, Subscription};
pub(in crate::group) use self::custom::settle;
pub use self::custom::{Question, Reply};
pub use self::member::{
    Assignments, Assignor, Member, Owned, RebalanceProtocol, ReplicaRacks, TopicPartition, Topics,
};
pub use self::range::Range;
pub use self::round_robin::RoundRobin;
pub use self::sticky::{CooperativeSticky, Sticky};

/// All of them.
const ALL: [&dyn Assignor; 4] = [&Range, &RoundRobin, &Sticky, &CooperativeSticky];

/// The assignor with this name, in JoinGroup and in `partition.assignment.strategy`.
pub fn by_name(name: &str) -> Option<&'static dyn Assignor> {
    ALL.into_iter().find(|assignor| assignor.name() == name)
}
