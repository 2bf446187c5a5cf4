//! Groups of consumers that share the partitions of topics.
//!
//! One member of the classic protocol:
//!
//! ```text
//!             a caller polls               JoinGroup           as leader, once the topics are known
//!  unjoined ───────────────▶ preparing ──▶ joining ──────────▶ leading ─────────────────────┐
//!     ▲                       ▲   │ ▲          │                                             ▼
//!     │                       │   │ │          └── not the leader ──────────────────────▶ syncing
//!     │        a caller polls │   │ └── offsets committed, listeners told                    │ SyncGroup
//!     │                       │   ▼                                                          ▼
//!     │                       │  leaving (close, unsubscribe) ──▶ unjoined        assigned: listeners told at the next poll
//!     │                       │                                                              │
//!     │                       └── rebalance wanted: by the coordinator, a changed topic ◀── stable, with heartbeats
//!     └── lost: the coordinator does not know the member, or no caller polled for max.poll.interval.ms ◀┘
//! ```
//!
//! Whatever changes what a caller owns happens while a caller polls, so that no partition goes to another member while its
//! records are being worked on. Heartbeats, commits and the rest of a rebalance that was begun need no caller; an attempt to join
//! that failed is repeated while one polls.
//! Preparing commits what callers were given, tells listeners of what is given up, and gives it up: everything in the eager
//! protocol, and in the cooperative one (KIP-429) only topics that are wanted no more; there a new assignment names the rest.
//!
//! With the consumer protocol (KIP-848) the coordinator assigns, and tells in answers to heartbeats:
//!
//! ```text
//!             a caller polls            heartbeat of epoch 0                      another assignment takes some away
//!  unjoined ───────────────▶ preparing ─────────────────────▶ joining ──▶ stable ───────────────────────────────────▶ dropping
//!     ▲                       ▲   │                                        ▲  │ another one only adds: listeners told   │
//!     │                       │   ▼                                        └──┤                       a caller polls    ▼
//!     │                       │  leaving: epoch -1 or -2                      └── acknowledged ◀── listeners told ◀── committing
//!     └── lost: fenced, not known, or no caller polled for max.poll.interval.ms ◀┘
//! ```
//!
//! A member stays one while it gives partitions up; `session` has what the two know of each other. With `group.protocol=auto` the first
//! broker that is connected decides which of both it is, once.
//!
//! Only one commit is under way at a time, and those that wait become one, so that no retry overtakes a later commit.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | its reason |
//! |---|---|
//! | `assignor` | who gets which partition |
//! | `pulse` | what the engine and a loop over records tell each other without a lock |
//! | `poll_deadline` | whether the application still polls |
//! | `wanted` | which topics the member wants |
//! | `commits` | commits of offsets, one after the other |
//! | `committed_lookups` | where partitions begin that were committed before |
//! | `ownership` | what callers own, and what listeners are still to be told of it |
//! | `identity` | who the member is, and who callers are told that it is |
//! | `strategy` | an assignor that a member offers: one of ottla's, or one of the caller's |
//! | `asking` | the question to the caller's assignors that is open |
//! | `lead` | what only the leader does |
//! | `heartbeats` | when the coordinator hears of the member |
//! | `classic` | what a member of the classic protocol keeps of its generation |
//! | `session` | what a member of the consumer protocol and its coordinator know of each other |
//! | `errors` | what an error of the coordinator means, and what to do about it |
//! | `membership` | when each of them acts; its folder has the steps of each protocol |
//! | `part` | the membership as a part of a client |

mod asking;
pub mod assignor;
mod classic;
mod commits;
mod committed_lookups;
mod errors;
mod heartbeats;
mod identity;
mod lead;
mod membership;
mod ownership;
mod part;
mod poll_deadline;
mod pulse;
mod session;
mod strategy;
#[cfg(test)]
mod tests;
mod wanted;

pub use asking::QuestionId;
pub use commits::CommitId;
pub(crate) use committed_lookups::Sought;
pub(crate) use errors::{Consequence, consequence, consequence_inside, no_group};
pub(crate) use membership::{Membership, member_id};
pub use ownership::Rebalance;
pub use pulse::Pulse;
pub(crate) use wanted::Wanted;
pub use wanted::{Pattern, Selection};
