//! Subscriptions to the metrics of clients, which admin clients change (resource CLIENT_METRICS, KIP-714).
//!
//! A subscription without any configuration is gone, as in Kafka.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ottla_protocol::ErrorCode;
use parking_lot::Mutex;
use regex_lite::Regex;

use super::Wanted;
use crate::config::subscription_keys::{
    INTERVAL, LEAST_INTERVAL_MS, MATCH, METRICS, MOST_INTERVAL_MS, SUBSCRIPTION_KEYS,
};
use crate::pattern::compile;

/// The interval of a subscription that has no other, and of clients that no subscription matches.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(300);

/// Requests all metrics. Kafka sends it alone.
const ALL: &str = "*";

/// What a subscription can match.
pub(crate) const CLIENT_INSTANCE_ID: &str = "client_instance_id";
pub(crate) const CLIENT_ID: &str = "client_id";
pub(crate) const CLIENT_SOFTWARE_NAME: &str = "client_software_name";
pub(crate) const CLIENT_SOFTWARE_VERSION: &str = "client_software_version";
pub(crate) const CLIENT_SOURCE_ADDRESS: &str = "client_source_address";
pub(crate) const CLIENT_SOURCE_PORT: &str = "client_source_port";
const ATTRIBUTES: [&str; 6] = [
    CLIENT_INSTANCE_ID,
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
];

/// A client, by the names above.
pub(crate) type Attributes = BTreeMap<&'static str, String>;

/// What is set for a subscription, by Kafka's names, in the form that DescribeConfigs returns.
pub(crate) type Configs = BTreeMap<&'static str, String>;

/// A subscription, checked and typed.
#[derive(Debug)]
pub(crate) struct Subscription {
    configs: Configs,
    metrics: Vec<String>,
    interval: Duration,
    /// What a client must match: all of them.
    patterns: BTreeMap<&'static str, Regex>,
}

impl Subscription {
    /// Checks configurations in Kafka's order.
    ///
    /// # Errors
    /// INVALID_REQUEST for an unknown name and an interval out of its range, INVALID_CONFIG for other invalid values.
    pub(crate) fn new(given: &BTreeMap<String, String>) -> Result<Self, (ErrorCode, String)> {
        let is_known = |name: &str| SUBSCRIPTION_KEYS.iter().any(|key| key.name == name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            let message = format!("unknown configuration of client metrics: {name}");
            return Err((ErrorCode::INVALID_REQUEST, message));
        }
        let mut configs = Configs::new();
        let mut list = |name| {
            let Some(text) = given.get(name) else {
                return Ok(Vec::new());
            };
            let items = items(name, text)?;
            configs.insert(name, items.join(","));
            Ok(items)
        };
        let metrics = list(METRICS)?;
        let criteria = list(MATCH)?;
        let mut interval = DEFAULT_INTERVAL;
        if let Some(text) = given.get(INTERVAL) {
            let ms = text.trim().parse::<i32>();
            let ms = ms.map_err(|_| invalid(INTERVAL, text, "must be a whole number"))?;
            if !(LEAST_INTERVAL_MS..=MOST_INTERVAL_MS).contains(&ms) {
                let message = format!(
                    "{INTERVAL}={ms}: must be from {LEAST_INTERVAL_MS} to {MOST_INTERVAL_MS} (1 hour)"
                );
                return Err((ErrorCode::INVALID_REQUEST, message));
            }
            interval = Duration::from_millis(u64::from(ms.unsigned_abs()));
            configs.insert(INTERVAL, ms.to_string());
        }
        let criteria = criteria.iter().map(|item| criterion(item));
        Ok(Self {
            patterns: criteria.collect::<Result<_, _>>()?,
            configs,
            metrics,
            interval,
        })
    }

    fn matches(&self, client: &Attributes) -> bool {
        let is_match = |(name, pattern): (&&str, &Regex)| {
            let value = client.get(name);
            value.is_some_and(|value| pattern.is_match(value))
        };
        self.patterns.iter().all(is_match)
    }
}

fn invalid(name: &str, value: &str, rule: &str) -> (ErrorCode, String) {
    (ErrorCode::INVALID_CONFIG, format!("{name}={value}: {rule}"))
}

/// The items of a list, each once.
fn items(name: &str, text: &str) -> Result<Vec<String>, (ErrorCode, String)> {
    let mut found: Vec<String> = Vec::new();
    if text.trim().is_empty() {
        return Ok(found);
    }
    for item in text.split(',').map(str::trim) {
        if item.is_empty() {
            return Err(invalid(name, text, "an item of the list is empty"));
        }
        if !found.iter().any(|known| known == item) {
            found.push(item.to_owned());
        }
    }
    Ok(found)
}

/// An attribute and what its whole value must match. No comma or equals sign can be in the expression; Kafka ignores equals
/// signs at its end.
fn criterion(item: &str) -> Result<(&'static str, Regex), (ErrorCode, String)> {
    let mut parts = item.trim_end_matches('=').split('=').map(str::trim);
    let (Some(name), Some(expression), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(invalid(MATCH, item, "must be ATTRIBUTE=REGEX"));
    };
    let Some(name) = ATTRIBUTES.into_iter().find(|known| *known == name) else {
        let rule = format!("the attribute must be one of {}", ATTRIBUTES.join(", "));
        return Err(invalid(MATCH, item, &rule));
    };
    let pattern = compile(expression).map_err(|cause| invalid(MATCH, item, &cause))?;
    Ok((name, pattern))
}

/// The subscriptions. All nodes of a cluster share them.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    all: BTreeMap<String, Subscription>,
    /// Whether there has been any: clients that know of telemetry keep it when the last subscription is gone.
    has_begun: bool,
}

impl Subscriptions {
    /// What is set for a subscription: nothing if it does not exist.
    pub(crate) fn configs(&self, name: &str) -> Configs {
        let known = self.0.lock();
        let found = known.all.get(name).map(|found| found.configs.clone());
        found.unwrap_or_default()
    }

    /// The names of all, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().all.keys().cloned().collect()
    }

    /// Whether there is a subscription, or has been one.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.lock().has_begun
    }

    /// Replaces a subscription. `keep` gets what is then set for each, and no other change comes in between.
    ///
    /// # Errors
    /// Those of `keep`.
    pub(crate) fn set<E>(
        &self,
        name: &str,
        subscription: Subscription,
        keep: impl FnOnce(&BTreeMap<&str, &Configs>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut known = self.0.lock();
        if subscription.configs.is_empty() {
            known.all.remove(name);
        } else {
            known.has_begun = true;
            known.all.insert(name.to_owned(), subscription);
        }
        let all = known.all.iter();
        keep(&all.map(|(name, it)| (&**name, &it.configs)).collect())
    }

    /// What is requested of a client: by `own`, and by the subscriptions that match the client.
    pub(crate) fn wanted(&self, own: &Wanted, client: &Attributes) -> Wanted {
        let known = self.0.lock();
        let all = known.all.values();
        let matching: Vec<_> = all.filter(|it| it.matches(client)).collect();
        let metrics: BTreeSet<_> = matching.iter().flat_map(|it| &it.metrics).collect();
        let mut prefixes = own.prefixes.clone();
        if metrics.iter().any(|metric| *metric == ALL) {
            prefixes = vec![ALL.to_owned()];
        } else {
            let more = metrics.into_iter();
            let more: Vec<_> = more.filter(|metric| !prefixes.contains(metric)).collect();
            prefixes.extend(more.into_iter().cloned());
        }
        let intervals = matching.iter().map(|it| it.interval);
        let intervals = intervals.chain(own.is_on().then_some(own.interval));
        Wanted {
            prefixes,
            interval: intervals.min().unwrap_or(DEFAULT_INTERVAL),
            ..own.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
        let rows = rows.iter();
        rows.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn refused(rows: &[(&str, &str)]) -> ErrorCode {
        Subscription::new(&given(rows)).unwrap_err().0
    }

    fn set(all: &Subscriptions, name: &str, rows: &[(&str, &str)]) {
        let subscription = Subscription::new(&given(rows)).unwrap();
        all.set(name, subscription, |_| Ok::<_, ()>(())).unwrap();
    }

    fn client(rows: &[(&'static str, &str)]) -> Attributes {
        let rows = rows.iter();
        rows.map(|(name, value)| (*name, (*value).to_owned()))
            .collect()
    }

    fn own(prefixes: &[&str], seconds: u64) -> Wanted {
        Wanted {
            prefixes: prefixes.iter().map(|it| (*it).to_owned()).collect(),
            interval: Duration::from_secs(seconds),
            max_bytes: 1,
            delta: true,
        }
    }

    fn found(all: &Subscriptions, own: &Wanted, client: &Attributes) -> (Vec<String>, u64) {
        let wanted = all.wanted(own, client);
        assert_eq!((wanted.max_bytes, wanted.delta), (1, true));
        (wanted.prefixes, wanted.interval.as_secs())
    }

    #[test]
    fn configurations_are_kept_as_kafka_describes_them() {
        let rows = [
            (METRICS, " org.a , org.b,org.a "),
            (INTERVAL, " +500 "),
            (MATCH, " client_id = a "),
        ];
        let subscription = Subscription::new(&given(&rows)).unwrap();
        let wanted = [
            (INTERVAL, "500"),
            (MATCH, "client_id = a"),
            (METRICS, "org.a,org.b"),
        ];
        assert_eq!(subscription.configs, client(&wanted));
        assert!(subscription.matches(&client(&[(CLIENT_ID, "a")])));
    }

    #[test]
    fn the_first_mistake_in_kafkas_order_decides() {
        let request = ErrorCode::INVALID_REQUEST;
        let config = ErrorCode::INVALID_CONFIG;
        assert_eq!(refused(&[("other", "1"), (INTERVAL, "soon")]), request);
        assert_eq!(refused(&[(INTERVAL, "99"), (METRICS, "a,")]), config);
        assert_eq!(refused(&[(INTERVAL, "99"), (MATCH, "a")]), request);
        assert_eq!(refused(&[(INTERVAL, "soon"), (MATCH, "a")]), config);
        assert_eq!(refused(&[(INTERVAL, "3600001")]), request);
        assert_eq!(refused(&[(INTERVAL, "9999999999")]), config);
    }

    #[test]
    fn a_criterion_is_an_attribute_and_an_expression() {
        for good in ["client_id=a=", "client_source_port=\\d+", "client_id=a|b"] {
            assert!(
                Subscription::new(&given(&[(MATCH, good)])).is_ok(),
                "{good}"
            );
        }
        for bad in [
            "client_id",
            "client_id=",
            "=a",
            "client_id=a=b",
            "client_id==a",
            "client_id=[",
            "client_id=a)(b",
            "client_id=*",
            "other=a",
            "CLIENT_ID=a",
        ] {
            assert_eq!(refused(&[(MATCH, bad)]), ErrorCode::INVALID_CONFIG, "{bad}");
        }
    }

    #[test]
    fn all_criteria_match_whole_values_and_the_last_of_an_attribute_counts() {
        let matches = |text: &str| {
            let subscription = Subscription::new(&given(&[(MATCH, text)])).unwrap();
            subscription.matches(&client(&[(CLIENT_ID, "abc"), (CLIENT_SOURCE_PORT, "9092")]))
        };
        assert!(matches("") && matches("client_id=a.*") && matches("client_id=ab|abc"));
        assert!(!matches("client_id=ab") && !matches("client_id=bc") && !matches("client_id=ABC"));
        assert!(matches("client_id=abc,client_source_port=90.*"));
        assert!(!matches("client_id=abc,client_source_port=80.*"));
        assert!(matches("client_id=x,client_id=abc") && !matches("client_id=abc,client_id=x"));
    }

    #[test]
    fn a_client_gets_the_union_and_the_smallest_interval() {
        let all = Subscriptions::default();
        let (nobody, me) = (own(&[], 1), client(&[(CLIENT_ID, "me")]));
        assert!(!all.has_begun());
        // An interval without metrics of the broker's own is nobody's.
        assert_eq!(found(&all, &nobody, &me), (vec![], 300));
        set(&all, "a", &[(METRICS, "b.,a."), (INTERVAL, "60000")]);
        set(&all, "b", &[(METRICS, "b.,c."), (MATCH, "client_id=me")]);
        set(
            &all,
            "c",
            &[
                (METRICS, "d."),
                (MATCH, "client_id=you"),
                (INTERVAL, "1000"),
            ],
        );
        let three = ["a.", "b.", "c."].map(str::to_owned).to_vec();
        assert_eq!(found(&all, &nobody, &me), (three.clone(), 60));
        let id = all.wanted(&nobody, &me).id();
        // Without metrics its interval counts still, as in Kafka.
        set(&all, "d", &[(INTERVAL, "20000")]);
        assert_eq!(found(&all, &nobody, &me), (three, 20));
        assert_ne!(all.wanted(&nobody, &me).id(), id);
        set(&all, "d", &[]);
        assert_eq!(all.wanted(&nobody, &me).id(), id);
        assert_eq!(all.names(), ["a", "b", "c"]);
        let both = ["c.", "a.", "b."].map(str::to_owned).to_vec();
        assert_eq!(found(&all, &own(&["c."], 10), &me), (both, 10));
        set(&all, "d", &[(METRICS, "*,q")]);
        let everything = (vec!["*".to_owned()], 60);
        assert_eq!(found(&all, &nobody, &me), everything);
        assert_eq!(found(&all, &own(&["c."], 500), &me), everything);
        for name in ["a", "b", "c", "d"] {
            set(&all, name, &[]);
        }
        assert_eq!(found(&all, &nobody, &me), (vec![], 300));
        assert!(all.names().is_empty() && all.has_begun());
    }
}
