//! A metric of the program that uses a client: brokers get it with the client's own (KIP-1076).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::snapshot::{Metric, Tag};
use super::table::Kind;
use crate::error::{self, Error};

/// A metric whose value the program sets, on any thread. A client reads it when it makes a push.
#[derive(Debug)]
pub struct AppMetric {
    name: String,
    group: String,
    tags: Arc<[Tag]>,
    kind: Kind,
    /// The bits of the value.
    value: AtomicU64,
}

impl AppMetric {
    /// A metric with the value 0.
    ///
    /// # Errors
    /// `Kind::Argument` if the name, the group or a tag is empty, or if two tags have one name for brokers.
    pub fn new(
        name: &str,
        group: &str,
        tags: impl IntoIterator<Item = (String, String)>,
        kind: Kind,
    ) -> Result<AppMetric, Error> {
        let mut tags: Vec<Tag> = tags
            .into_iter()
            .map(|(tag, value)| (tag.into(), value.into()))
            .collect();
        tags.sort_unstable();
        let metric = AppMetric {
            name: name.to_owned(),
            group: group.to_owned(),
            tags: tags.into(),
            kind,
            value: AtomicU64::new(0),
        };
        let refuse = |problem: &str| {
            let text = format!("metric {metric} {problem}");
            Err(Error::new(error::Kind::Argument, text))
        };
        let mut tags: Vec<String> = metric.tags.iter().map(|(tag, _)| attribute(tag)).collect();
        tags.sort_unstable();
        if name.is_empty() || group.is_empty() || tags.iter().any(String::is_empty) {
            return refuse("has an empty name, group or tag: name it");
        }
        let count = tags.len();
        tags.dedup();
        if tags.len() < count {
            return refuse(
                "has two tags of one name for brokers: case does not matter, and - is _",
            );
        }
        Ok(metric)
    }

    /// The value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.value.load(Ordering::Relaxed))
    }

    /// Sets the value. A gauge takes any; brokers get only finite ones.
    ///
    /// # Errors
    /// `Kind::Argument` if a total would shrink, or not be a finite number.
    pub fn set(&self, value: f64) -> Result<(), Error> {
        self.change(|_| value)
    }

    /// Adds to the value.
    ///
    /// # Errors
    /// As [`AppMetric::set`].
    pub fn add(&self, amount: f64) -> Result<(), Error> {
        self.change(|before| before + amount)
    }

    fn change(&self, to: impl Fn(f64) -> f64) -> Result<(), Error> {
        let checked = |bits| {
            let before = f64::from_bits(bits);
            let after = to(before);
            let is_allowed = self.kind == Kind::Gauge || (after.is_finite() && after >= before);
            is_allowed.then(|| after.to_bits())
        };
        let changed = self
            .value
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, checked);
        changed.map(drop).map_err(|bits| {
            let before = f64::from_bits(bits);
            let text = format!(
                "counter {self} cannot go from {before} to {}: a counter is a finite number that never shrinks; use a gauge \
                 for other values",
                to(before)
            );
            Error::new(error::Kind::Argument, text)
        })
    }

    /// The metric with its current value.
    pub(crate) fn read(&self) -> Metric {
        Metric {
            name: self.name.clone().into(),
            group: self.group.clone().into(),
            tags: Arc::clone(&self.tags),
            kind: self.kind,
            value: self.value(),
        }
    }
}

impl fmt::Display for AppMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of group {:?}", self.name, self.group)
    }
}

/// The name of a tag as brokers get it (KIP-714).
pub(crate) fn attribute(tag: &str) -> String {
    tag.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(kind: Kind) -> AppMetric {
        AppMetric::new("orders-open", "shop", [], kind).unwrap()
    }

    #[test]
    fn a_gauge_takes_any_value_and_a_total_never_shrinks() {
        let gauge = metric(Kind::Gauge);
        gauge.set(3.0).unwrap();
        gauge.add(-4.5).unwrap();
        assert_eq!(gauge.value(), -1.5);
        gauge.set(f64::NAN).unwrap();
        assert!(gauge.value().is_nan());

        let total = metric(Kind::Total);
        total.add(2.0).unwrap();
        total.set(2.0).unwrap();
        for refused in [1.0, f64::NAN, f64::INFINITY] {
            let error = total.set(refused).unwrap_err();
            assert_eq!(error.kind(), error::Kind::Argument);
            assert!(error.message().contains("orders-open"), "{error}");
        }
        total.add(-1.0).unwrap_err();
        assert_eq!(total.value(), 2.0);
    }

    #[test]
    fn amounts_of_several_threads_all_count() {
        let total = metric(Kind::Total);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| total.add(1.0).unwrap()));
            }
        });
        assert_eq!(total.value(), 4000.0);
    }

    #[test]
    fn names_that_brokers_cannot_tell_apart_are_refused() {
        let tags = |names: &[&str]| -> Vec<_> {
            let named = names.iter().map(|tag| ((*tag).to_owned(), "v".to_owned()));
            named.collect()
        };
        for (name, group, names) in [
            ("", "g", &[][..]),
            ("n", "", &[]),
            ("n", "g", &[""]),
            ("n", "g", &["a-b", "A_b"]),
        ] {
            let made = AppMetric::new(name, group, tags(names), Kind::Gauge);
            assert_eq!(made.unwrap_err().kind(), error::Kind::Argument, "{names:?}");
        }
        let read = AppMetric::new("n", "g", tags(&["b", "a"]), Kind::Gauge);
        let names: Vec<_> = read
            .unwrap()
            .read()
            .tags
            .iter()
            .map(|tag| tag.0.clone())
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}
