//! The tokio shell around ottla-engine: sockets, timers, tasks, and the handles that callers hold.
//!
//! ```text
//!   producer · consumer · share · admin    handles; each wait names the changes that end it
//!        │
//!      driver ──▶ shell              the engine behind its lock, and what follows from it
//!                   ├── threads      those that do the I/O, each with a runtime
//!                   ├── wait         waiting calls, each woken by its own change
//!                   ├── events       what happened, for whoever watches
//!                   ├── timer        a task that handles the engine's timeouts
//!                   └── link         a task per connection: reads, writes
//!                         ├── credentials_task  what authentication needs from outside
//!                         ├── sending    requests on their way to the socket, also by a caller's thread
//!                         └── receiving  responses on their way from it
//!   transport                        sockets, names, the clock, chance: nobody else knows them
//! ```

mod admin;
mod consume;
mod net;
mod produce;
mod runtime;

pub use admin::Admin;
pub use consume::consumer::{
    Aborted, Chunk, Consumer, Decode, Fetched, OffsetAndTimestamp, Rebalance, Start,
};
pub use consume::rebalances::{LastCommit, Listeners, Polled};
pub use consume::share::{AcknowledgeType, Acknowledged, Committed, Given, LockId, ShareConsumer};
pub use consume::{consumer, share};
pub use net::signing;
pub use ottla_engine::admin as verbs;
pub use ottla_engine::call::{GroupMetadata, GroupOffset, PartitionInfo, TopicRead};
pub use ottla_engine::config;
pub use ottla_engine::consumer::{Pattern, QuestionId, Selection};
pub use ottla_engine::credentials;
pub use ottla_engine::group::assignor;
pub use ottla_engine::metrics::{self, Metric};
pub use ottla_engine::observe::{Level, Observed};
pub use ottla_engine::producer::{Finished, PreparedTransaction};
pub use ottla_engine::{Config, ConfigError, Damage, Error, ErrorCode, Item, Kind, Role, Written};
pub use produce::deliveries::{Deliveries, Report};
pub use produce::delivery::{Delivery, RecordMetadata, UnobservedFailures};
pub use produce::producer::{NoHeaders, Producer, Row, Rows, TrySendError};
pub use produce::{delivery, producer};
pub use runtime::events;
pub use runtime::events::{Events, Logged};
pub use runtime::threads::Threads;
