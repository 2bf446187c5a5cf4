//! Metrics in OTLP's protobuf (`opentelemetry.proto.metrics.v1.MetricsData`), under the names of KIP-714.

use std::collections::BTreeMap;

use super::protobuf::{fixed, integer, message, text};
use crate::metrics::{Kind, Metric};

/// The prefix of all names.
const PREFIX: &str = "org.apache.kafka";
/// The tag that brokers know from the request.
const LEFT_OUT: &str = "client-id";

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

/// The name of a metric for brokers: that of its group without `metrics`, then its own, with dots for hyphens.
pub(super) fn name(metric: &Metric) -> String {
    let group = metric.group.strip_suffix("-metrics");
    let group = group.unwrap_or(metric.group);
    format!("{PREFIX}.{group}.{}", metric.name).replace('-', ".")
}

/// Encodes points that were taken at `now_ns` since 1970 UTC. Points of one name are one metric.
pub(super) fn encode(points: &[Point], temporality: Temporality, now_ns: u64) -> Vec<u8> {
    let mut by_name: BTreeMap<String, Vec<&Point>> = BTreeMap::new();
    for point in points {
        by_name.entry(name(&point.metric)).or_default().push(point);
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
            for (name, points) in &by_name {
                message(out, 2, |out| metric(out, name, points, temporality, now_ns));
            }
        });
    };
    message(&mut out, 1, resource_metrics);
    out
}

fn metric(out: &mut Vec<u8>, name: &str, points: &[&Point], temporality: Temporality, now_ns: u64) {
    text(out, 1, name);
    let is_total = |point: &&Point| point.metric.kind == Kind::Total;
    let all_points = |out: &mut Vec<u8>| {
        for point in points {
            message(out, 1, |out| number(out, point, now_ns));
        }
    };
    if points.first().is_some_and(is_total) {
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
    for (tag, value) in point.metric.tags.iter() {
        if *tag != LEFT_OUT {
            message(out, 7, |out| {
                text(out, 1, &tag.replace('-', "_"));
                message(out, 2, |out| text(out, 1, value));
            });
        }
    }
    if point.metric.kind == Kind::Total {
        fixed(out, 2, point.since_ns);
    }
    fixed(out, 3, now_ns);
    fixed(out, 4, point.value.to_bits());
}
