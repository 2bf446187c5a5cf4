//! Fetching: positions, a fetch in flight per connection, and a bounded buffer of what came.
//!
//! ```text
//!  assign, seek ──▶ no offset ── looked up ──▶ fetching ──▶ buffered ──▶ taken ──▶ position moves on
//!                      ▲                          │  ▲          │
//!                      │  out of range            │  └──────────┘ the next fetch starts at the buffer's end
//!                      └──────────────────────────┘
//!  any state ── error that waiting cannot heal ──▶ stuck, until seek or assign
//! ```
//!
//! Every seek, assignment and reset gives a partition a new generation. Answers, buffered records and positions that carry
//! an older one are dropped, so nothing fetched before a seek can appear after it.
//!
//! | file | its reason |
//! |---|---|
//! | `position` | one partition's state |
//! | `assignment` | the positions of all assigned partitions |
//! | `lookup` | offsets to be found out |
//! | `request` | what to ask one broker for |
//! | `answer` | what an answer means |
//! | `fetched` | records on their way out, and where they may be cut |
//! | `buffer` | records that wait to be taken, within the budget |
//! | `fetcher` | when each of them acts |

mod answer;
mod assignment;
mod buffer;
pub mod fetched;
mod fetcher;
mod lookup;
mod part;
mod position;
mod request;
#[cfg(test)]
mod tests;

pub use buffer::Taken;
pub use fetched::Fetched;
pub use fetcher::Fetcher;
pub use position::{Generation, Start};
