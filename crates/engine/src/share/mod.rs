//! Share groups (KIP-932): members share the records of partitions one by one, each with a lock that ends.
//!
//! One record, as this member sees it:
//!
//! ```text
//!            ShareFetch                given              said: accept, release, reject      the next request
//!  (broker) ──────────▶ acquired ──────────────▶ held ──────────────────────────▶ outbox ──────────────▶ sent
//!                          │                      │ ▲                                │                     │ ├──▶ it counts
//!                          │ lock over,           │ └── renewed ◀──────── said: renew ┘                     │ └──▶ it does not,
//!                          ▼ session over         ▼ session over                                           ▼      or nobody knows
//!                        dropped              what is said of it does not count                     again, while the lock holds
//! ```
//!
//! Records are requested only while a caller waits for some, and none is buffered: other members
//! cannot get buffered records, whose lock runs meanwhile.
//!
//! Each file has one reason, and imports only files above it in this table:
//!
//! | file | its reason |
//! |---|---|
//! | `runs` | ranges of offsets, each with a value |
//! | `acknowledgement` | acknowledgements of records, and their results |
//! | `answer` | the content of a ShareFetch response for one partition |
//! | `lock` | what is held of what was acquired |
//! | `session` | what one broker and this member know of each other's requests |
//! | `commits` | callers who wait until what was said is settled |
//! | `errors` | the errors of acknowledgements that do not count |
//! | `member` | the membership: heartbeats, and what is assigned |
//! | `acquirer` | when each of them acts; its folder has the requests to brokers, and the results of acknowledgements |
//! | `part` | both as parts of a client |

mod acknowledgement;
mod acquirer;
mod answer;
mod commits;
mod errors;
mod lock;
mod member;
mod part;
mod runs;
mod session;
#[cfg(test)]
mod tests;

pub use acknowledgement::{AcknowledgeType, Acknowledged, LockId};
pub(crate) use acquirer::Acquirer;
pub use answer::{Acquired, AcquiredRange};
pub use commits::{CommitId, Committed};
pub(crate) use member::Member;
