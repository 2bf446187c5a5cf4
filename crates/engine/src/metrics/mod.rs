//! The metrics of a client, under the names, units and tags of Kafka's own clients.
//!
//! ```text
//!   cluster, produce, fetch ──▶ notes ──▶ meters (a sensor for each quantity) ◀── read, by the rows of a table ── the caller
//! ```
//!
//! * [`table`]: every metric: a row describes how it is read
//! * `notes`: what was measured and is not taken in yet
//! * `meters`: what is measured, of the client and of each broker, topic and partition
//! * `sensor`: a total, and statistics over a sliding window
//! * `snapshot`: all metrics of a client at one moment
//! * `application`: a metric of the program, which is pushed to brokers with the client's own
//!
//! A sensor takes in a value for each request, batch, poll or connection, never for each record.
//! Sources: the monitoring chapter of Kafka's documentation, KIP-188, KIP-613, KIP-714.

mod application;
mod meters;
mod notes;
mod sensor;
mod snapshot;
pub mod table;

pub use self::application::AppMetric;
pub(crate) use self::application::attribute;
pub(crate) use self::meters::Meters;
pub(crate) use self::notes::{Answered, BatchSize, Progress};
#[cfg(test)]
pub(crate) use self::sensor::RECORDED;
pub use self::snapshot::{Metric, Tag};
pub use self::table::{Described, Kind, describe};
