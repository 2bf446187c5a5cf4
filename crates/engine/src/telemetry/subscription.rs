//! What a broker requested. Every value of it is bounded before use.

use std::time::Duration;

use ottla_protocol::compression::Compression;
use ottla_protocol::messages::GetTelemetrySubscriptionsResponse;

use super::otlp::Temporality;

/// The interval where a broker names none.
pub(super) const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);
/// No broker makes a client push more often. It is the least that Kafka lets an operator set.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// No broker makes a client push more bytes. It is Kafka's default of `telemetry.max.bytes`.
const MOST_BYTES: usize = 1 << 20;

/// The interval that a broker named, within bounds.
pub(super) fn interval(millis: i32) -> Duration {
    match u64::try_from(millis) {
        Ok(millis) if millis > 0 => Duration::from_millis(millis).max(SHORTEST_INTERVAL),
        _ => DEFAULT_INTERVAL,
    }
}

/// A broker's subscription.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) id: i32,
    pub(super) interval: Duration,
    pub(super) codec: Compression,
    pub(super) temporality: Temporality,
    /// The most bytes of a push.
    pub(super) most: usize,
    /// Beginnings of names; none means that nothing is wanted.
    prefixes: Vec<String>,
}

impl Subscription {
    /// `refused` are codecs that a broker did not take after all.
    pub(super) fn new(
        answer: &GetTelemetrySubscriptionsResponse,
        refused: &[Compression],
    ) -> Subscription {
        let most = usize::try_from(answer.telemetry_max_bytes).unwrap_or(0);
        let codecs = answer.accepted_compression_types.iter();
        let mut known = codecs.filter_map(|id| Compression::from_id(i16::from(*id)));
        Subscription {
            id: answer.subscription_id,
            interval: interval(answer.push_interval_ms),
            codec: known
                .find(|codec| !refused.contains(codec))
                .unwrap_or_default(),
            temporality: if answer.delta_temporality {
                Temporality::Delta
            } else {
                Temporality::Cumulative
            },
            most: if most == 0 {
                MOST_BYTES
            } else {
                most.min(MOST_BYTES)
            },
            prefixes: answer
                .requested_metrics
                .iter()
                .map(|prefix| prefix.to_string())
                .collect(),
        }
    }

    pub(super) fn wants_any(&self) -> bool {
        !self.prefixes.is_empty()
    }

    /// Whether the metric of this name is wanted. All are, by an empty beginning or an asterisk.
    pub(super) fn wants(&self, name: &str) -> bool {
        let mut prefixes = self.prefixes.iter();
        prefixes.any(|prefix| prefix == "*" || name.starts_with(prefix.as_str()))
    }
}
