//! Fetching: positions, a fetch in flight per connection, and a bounded buffer of what came.
//!
//! One partition:
//!
//! ```text
//!  assign, seek, follow
//!        │
//!        ▼          offset known
//!    searching ──────────────────▶ ready ── asked ──▶ in flight ── records ──▶ ready, from the end of what came
//!     ▲     ▲                     ▲  │ ▲                 │
//!     │     │        pause is over│  │ └── view ──┐      ├── nothing new ──▶ ready
//!     │     └───── pausing ───────┘  └─ no leader ┘      ├── may heal ──▶ pausing
//!     │               ▲                                  │
//!     │               └──────────────────────────────────┤
//!     └── out of range, or topic recreated; drained ─────┤
//!                                                        ├── denied ──▶ pausing, and a poll raises it once
//!                                                        └── damaged, truncated, out of range ──▶ stuck, until a seek
//! ```
//!
//! Out of range: OFFSET_OUT_OF_RANGE counts as proof (`denial`). Until it does, the
//! partition goes through pausing to a lookup of where the log begins, and is fetched again.
//!
//! Drained: the caller got everything that was fetched, so that a reset or an error never hides records that stand before it.
//!
//! Every seek, assignment and reset gives a partition a new generation. Responses, buffered records
//! and positions that carry an older one are dropped, so nothing fetched before a seek can appear
//! after it.
//!
//! The cost of an event grows with the partitions that it concerns and with the leaders, not with all partitions: a
//! position that changed is *touched*, and only touched ones are *reviewed*, which notes where they stand. A new view
//! of the cluster touches all of them.
//!
//! Truncated: a leader receives the epoch of the record before the position, in each Fetch or, with
//! brokers that do not support that, in a check before the first Fetch after a change of leader.
//! Records that were read and are not in its log are reported: `truncation`.
//!
//! Transient trouble is an event, and no poll raises it: a leader that moves, a node that is gone,
//! a topic that is missing for a while. A poll raises errors that need an action of the caller: a
//! partition that is stuck, a topic that may not be read or that, by several responses in a row,
//! does not exist. A denial is raised once, and the partition is requested again after a pause,
//! since an administrator may grant the permission at any time.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | its reason |
//! |---|---|
//! | `denial` | when OFFSET_OUT_OF_RANGE counts as proof |
//! | `reads` | which topics were read under one name, and how far |
//! | `replica` | which replica of a partition is read |
//! | `epochs` | which leader wrote what was read |
//! | `position` | one partition's state |
//! | `fetched` | fetched records, and where they may be cut |
//! | `buffer` | records that wait to be taken, within the budget |
//! | `assignment` | all positions, and which of them need something |
//! | `subscription` | topics: whether they exist, were recreated, or have added partitions |
//! | `leaders` | when to request metadata again |
//! | `lanes` | the connections to a broker that carry fetches |
//! | `retries` | partitions that are tried again after a pause |
//! | `reset` | what follows for a position whose offset is not in the log |
//! | `lookup` | lookups of offsets; the only code of the fetcher for those calls |
//! | `checks` | checks with leaders whether their logs contain what was read; the only code of the fetcher for those calls |
//! | `truncation` | whether a log was truncated, and what follows |
//! | `session` | the fetch session: what a broker has received before, and need not receive again |
//! | `request` | the request to one broker |
//! | `answer` | the meaning of a response |
//! | `fetcher` | when each of them acts, in steps: `assign`, `review`, `dispatch`, `answer` |
//! | `inquiries` | look-ups by callers about positions, and why no records come |
//! | `committed` | positions that begin where a group has committed |
//! | `part` | the fetcher as a part of a client |

mod answer;
mod assignment;
mod buffer;
mod checks;
mod committed;
mod denial;
mod epochs;
pub mod fetched;
mod fetcher;
mod inquiries;
mod lanes;
mod leaders;
mod lookup;
mod part;
mod position;
mod reads;
mod replica;
mod request;
mod reset;
mod retries;
mod session;
mod subscription;
#[cfg(test)]
mod tests;
mod truncation;

pub use buffer::{Sharers, Taken};
pub use fetched::Fetched;
pub use fetcher::Fetcher;
pub use position::{Generation, Start};
