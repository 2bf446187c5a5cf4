//! Kafka's names of what a subscription to client metrics has (KIP-714), which admin clients change; see [`super::keys`].

use super::keys::*;

pub(crate) const INTERVAL: &str = "interval.ms";
pub(crate) const MATCH: &str = "match";
pub(crate) const METRICS: &str = "metrics";
pub(crate) const LEAST_INTERVAL_MS: i32 = 100;
pub(crate) const MOST_INTERVAL_MS: i32 = 3_600_000;

/// The configurations of a subscription, in Kafka's names and order.
pub(crate) const SUBSCRIPTION_KEYS: &[Key] = &[
    key(
        INTERVAL,
        ValueType::Int(LEAST_INTERVAL_MS as i64, MOST_INTERVAL_MS as i64),
        "300000",
        "Milliseconds between two pushes of a client.",
    ),
    key(
        MATCH,
        ValueType::Items,
        "",
        "What clients must match, as ATTRIBUTE=REGEX; none means all clients.",
    ),
    key(
        METRICS,
        ValueType::Items,
        "",
        "Beginnings of the names of metrics; * means all.",
    ),
];
