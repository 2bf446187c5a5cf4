//! Metrics in OTLP's protobuf (`opentelemetry.proto.metrics.v1.MetricsData`), under the names of KIP-714.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::protobuf::{fixed, integer, message, text};
use crate::metrics::{Kind, Metric, attribute};

/// The prefix of all names.
const PREFIX: &str = "org.apache.kafka";
/// The attribute that brokers know from the request.
pub(super) const LEFT_OUT: &str = "client_id";

/// `AggregationTemporality` of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temporality {
    /// Totals since the last push.
    Delta = 1,
    /// Totals since the client was made.
    Cumulative = 2,
}

/// A value of a metric at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) metric: Metric,
    /// The value to report: of a total under delta temporality, how much it grew.
    pub(super) value: f64,
    /// When counting of that began, in ns since 1970 UTC.
    pub(super) since_ns: u64,
}

/// What identifies a metric for brokers: a name, and attributes in the order of their names.
pub(super) type Series = (String, Vec<(String, Arc<str>)>);

/// The name of a metric for brokers: that of its group without `metrics`, then its own, in lower case and with dots for hyphens.
pub(super) fn name(group: &str, name: &str) -> String {
    let clean = |text: &str| text.to_lowercase().replace('-', ".");
    let group = clean(group).replace(".metrics", "");
    format!("{PREFIX}.{group}.{}", clean(name))
}

/// What identifies this metric for brokers.
pub(super) fn series(metric: &Metric) -> Series {
    let name = name(&metric.group, &metric.name);
    let mut attributes: Vec<_> = attributes(metric).collect();
    attributes.sort_unstable();
    (name, attributes)
}

fn attributes(metric: &Metric) -> impl Iterator<Item = (String, Arc<str>)> {
    let tags = metric.tags.iter();
    let named = tags.map(|(tag, value)| (attribute(tag), Arc::clone(value)));
    named.filter(|(tag, _)| tag != LEFT_OUT)
}

/// Encodes points that were taken at `now_ns` since 1970 UTC. Points of one name and kind are one metric.
pub(super) fn encode(points: &[Point], temporality: Temporality, now_ns: u64) -> Vec<u8> {
    let mut by_name: BTreeMap<(String, bool), Vec<&Point>> = BTreeMap::new();
    for point in points {
        let metric = &point.metric;
        let is_total = metric.kind == Kind::Total;
        let key = (name(&metric.group, &metric.name), is_total);
        by_name.entry(key).or_default().push(point);
    }
    let mut out = Vec::new();
    let resource_metrics = |out: &mut Vec<u8>| {
        // The resource has no attributes: brokers add what they know of the client.
        message(out, 1, |_| {});
        message(out, 2, |out| {
            message(out, 1, |out| {
                text(out, 1, env!("CARGO_PKG_NAME"));
                text(out, 2, env!("CARGO_PKG_VERSION"));
            });
            for ((name, is_total), points) in &by_name {
                let temporality = is_total.then_some(temporality);
                message(out, 2, |out| metric(out, name, points, temporality, now_ns));
            }
        });
    };
    message(&mut out, 1, resource_metrics);
    out
}

/// A sum if it has a temporality, or else a gauge.
fn metric(
    out: &mut Vec<u8>,
    name: &str,
    points: &[&Point],
    temporality: Option<Temporality>,
    now_ns: u64,
) {
    text(out, 1, name);
    let all_points = |out: &mut Vec<u8>| {
        for point in points {
            message(out, 1, |out| number(out, point, now_ns));
        }
    };
    if let Some(temporality) = temporality {
        message(out, 7, |out| {
            all_points(out);
            integer(out, 2, temporality as u64);
            // It never shrinks.
            integer(out, 3, 1);
        });
    } else {
        message(out, 5, all_points);
    }
}

/// `NumberDataPoint`.
fn number(out: &mut Vec<u8>, point: &Point, now_ns: u64) {
    for (name, value) in attributes(&point.metric) {
        message(out, 7, |out| {
            text(out, 1, &name);
            message(out, 2, |out| text(out, 1, &value));
        });
    }
    if point.metric.kind == Kind::Total {
        fixed(out, 2, point.since_ns);
    }
    fixed(out, 3, now_ns);
    fixed(out, 4, point.value.to_bits());
}
