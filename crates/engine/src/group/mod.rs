//! Groups of consumers that share the partitions of topics.
//!
//! One member of the classic protocol:
//!
//! ```text
//!             a caller polls               JoinGroup           as leader, once the topics are known
//!  unjoined ───────────────▶ preparing ──▶ joining ──────────▶ leading ─────────────────────┐
//!     ▲                       ▲   │ ▲          │                                             ▼
//!     │                       │   │ │          └── not the leader ──────────────────────▶ syncing
//!     │        a caller polls │   │ └── offsets committed, listeners notified                │ SyncGroup
//!     │                       │   ▼                                                          ▼
//!     │                       │  leaving (close, unsubscribe) ──▶ unjoined        assigned: listeners notified at the next poll
//!     │                       │                                                              │
//!     │                       └── rebalance wanted: by the coordinator, a changed topic ◀── stable, with heartbeats
//!     └── lost: the coordinator does not know the member, or no caller polled for max.poll.interval.ms ◀┘
//! ```
//!
//! The partitions that a caller owns change only while a caller polls, so that no partition goes to
//! another member while its records are being worked on. Heartbeats, commits and the rest of a
//! rebalance that was begun need no caller; a failed attempt to join is repeated while one polls.
//! The state `preparing` commits the positions of callers, notifies listeners of the revoked
//! partitions, and revokes them: all partitions in the eager protocol, and in the cooperative one
//! (KIP-429) only those of topics that are no longer wanted; there the new assignment decides about
//! the rest.
//!
//! With the consumer protocol (KIP-848) the coordinator assigns, in its responses to heartbeats:
//!
//! ```text
//!             a caller polls            heartbeat of epoch 0                      another assignment takes some away
//!  unjoined ───────────────▶ preparing ─────────────────────▶ joining ──▶ stable ───────────────────────────────────▶ dropping
//!     ▲                       ▲   │                                        ▲  │ only additions: listeners notified      │
//!     │                       │   ▼                                        └──┤                       a caller polls    ▼
//!     │                       │  leaving: epoch -1 or -2                      └── acknowledged ◀ listeners notified ◀ committing
//!     └── lost: fenced, not known, or no caller polled for max.poll.interval.ms ◀┘
//! ```
//!
//! A member stays one while it revokes partitions; `session` has what member and coordinator know of
//! each other. With `group.protocol=auto` the first broker that is connected decides which protocol it is, once.
//!
//! Only one commit is in flight at a time, and waiting commits are merged into one, so that no
//! retry overtakes a later commit.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | its reason |
//! |---|---|
//! | `assignor` | who gets which partition |
//! | `pulse` | two flags between the engine and a loop over records, without a lock |
//! | `poll_deadline` | whether the application still polls |
//! | `wanted` | which topics the member wants |
//! | `commits` | commits of offsets, one after the other |
//! | `committed_lookups` | where partitions begin that were committed before |
//! | `ownership` | what callers own, and the pending changes for listeners |
//! | `identity` | the identity of the member, and the one that is returned to callers |
//! | `strategy` | an assignor that a member offers: built in, or the caller's |
//! | `asking` | the open request to the caller's assignors |
//! | `lead` | what only the leader does |
//! | `heartbeats` | when to send heartbeats to the coordinator |
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
