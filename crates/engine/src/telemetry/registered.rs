//! Metrics of the program that a client pushes with its own (KIP-1076).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::otlp::{self, Series};
use crate::config::Role;
use crate::metrics::{AppMetric, Described, Metric, attribute, describe};

/// A metric that was registered.
#[derive(Debug)]
pub(super) struct Registration {
    metric: Arc<AppMetric>,
    /// When it was registered, in ns since 1970 UTC.
    pub(super) since_ns: u64,
}

impl Registration {
    pub(super) fn read(&self) -> Metric {
        self.metric.read()
    }
}

/// All that are registered, by what identifies them for brokers.
#[derive(Debug, Default)]
pub(super) struct Registered(BTreeMap<Series, Registration>);

impl Registered {
    /// Adds a metric; returns the one that it replaces. The same metric again changes nothing.
    pub(super) fn add(&mut self, metric: Arc<AppMetric>, since_ns: u64) -> Option<Registration> {
        let series = otlp::series(&metric.read());
        let known = self.0.get(&series);
        if known.is_some_and(|known| Arc::ptr_eq(&known.metric, &metric)) {
            return None;
        }
        self.0.insert(series, Registration { metric, since_ns })
    }

    /// Removes the metric of the same name and tags.
    pub(super) fn remove(&mut self, metric: &AppMetric) -> Option<Registration> {
        self.0.remove(&otlp::series(&metric.read()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.0.values()
    }
}

/// The metric's name for brokers, if a client of this role has a metric of that name with the same tags, or may have it later.
pub(super) fn own_name(role: Role, metric: &AppMetric) -> Option<String> {
    let (name, attributes) = otlp::series(&metric.read());
    let is_own = |own: Described| {
        let tags = own.tags.iter().map(|tag| attribute(tag));
        let tags = tags.filter(|tag| tag != otlp::LEFT_OUT);
        otlp::name(own.group, own.name) == name
            && tags.eq(attributes.iter().map(|(tag, _)| tag.clone()))
    };
    describe(role).into_iter().any(is_own).then_some(name)
}
