//! Client quotas: how fast a user, a client id, or both may produce and fetch, and how much of the broker's time they may take.
//!
//! The nearest entity that has a value for a key counts, in Kafka's order (KIP-55): user and client id, user and any client id,
//! user, any user and client id, any user and any client id, any user, client id, any client id. A rate is measured over
//! `quota.window.num` samples of `quota.window.size.seconds`, as Kafka's `Rate` does: a client that was quiet may for a moment
//! go as far as the whole window allows. A client that goes further gets a throttle time (KIP-13,
//! KIP-124, KIP-219).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::session::Principal;

/// The measure of a rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) count: u32,
    pub(crate) size: Duration,
}

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QuotaKey {
    ProducerByteRate,
    ConsumerByteRate,
    RequestPercentage,
}

impl QuotaKey {
    const ALL: [Self; 3] = [
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::RequestPercentage,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ProducerByteRate => "producer_byte_rate",
            Self::ConsumerByteRate => "consumer_byte_rate",
            Self::RequestPercentage => "request_percentage",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }
}

/// A name of an entity, or the default for all that have no quota of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Default,
    Named(String),
}

/// Whom a quota is for; at least one part is set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Entity {
    pub(crate) user: Option<Part>,
    pub(crate) client_id: Option<Part>,
}

/// Who shares a rate: all that the same entity and its names are for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MeterKey {
    key: QuotaKey,
    user: Option<String>,
    client_id: Option<String>,
}

/// All quotas, and what was measured for them.
#[derive(Debug)]
pub(crate) struct Quotas {
    windows: Windows,
    limits: BTreeMap<Entity, BTreeMap<QuotaKey, f64>>,
    meters: BTreeMap<MeterKey, Meter>,
}

/// More than this are not kept: client ids are the clients' to choose.
const MOST_METERS: usize = 10_000;

impl Quotas {
    pub(crate) fn new(windows: Windows) -> Self {
        Self {
            windows,
            limits: BTreeMap::new(),
            meters: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The duration of a sample.
    pub(crate) fn sample(&self) -> Duration {
        self.windows.size
    }

    /// Sets or removes a limit.
    pub(crate) fn set(&mut self, entity: &Entity, key: QuotaKey, limit: Option<f64>) {
        let limits = self.limits.entry(entity.clone()).or_default();
        match limit {
            Some(limit) => limits.insert(key, limit),
            None => limits.remove(&key),
        };
        self.limits.retain(|_, limits| !limits.is_empty());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Entity, &BTreeMap<QuotaKey, f64>)> {
        self.limits.iter()
    }

    /// Sets the quota of a line: `[user:NAME] [client-id:NAME] KEY=VALUE...`, where the name `*` is
    /// the default entity.
    ///
    /// # Errors
    /// A sentence about the line, with its form.
    pub(crate) fn set_from_text(&mut self, line: &str) -> Result<(), String> {
        let said = |what: String| {
            format!(
                "quota \"{line}\": {what}; the form is `[user:NAME] [client-id:NAME] KEY=VALUE`, as in \"user:alice \
                 producer_byte_rate=1048576\""
            )
        };
        let (mut entity, mut limits) = (Entity::default(), Vec::new());
        for word in line.split_whitespace() {
            if let Some((key, value)) = word.split_once('=') {
                let keys = QuotaKey::ALL.map(QuotaKey::name).join(", ");
                let key = QuotaKey::from_name(key).ok_or_else(|| {
                    said(format!("there is no quota \"{key}\"; there are {keys}"))
                })?;
                match value.parse::<f64>() {
                    Ok(limit) if limit > 0.0 && limit.is_finite() => limits.push((key, limit)),
                    _ => return Err(said(format!("\"{value}\" is not a number above 0"))),
                }
                continue;
            }
            let (kind, name) = word.split_once(':').unwrap_or((word, ""));
            let part = match name {
                "" => return Err(said(format!("\"{word}\" names nobody"))),
                "*" => Part::Default,
                name => Part::Named(name.to_owned()),
            };
            let place = match kind {
                "user" => &mut entity.user,
                "client-id" => &mut entity.client_id,
                _ => return Err(said(format!("\"{kind}\" is neither user nor client-id"))),
            };
            if place.replace(part).is_some() {
                return Err(said(format!("it has two of {kind}")));
            }
        }
        if entity == Entity::default() {
            return Err(said("it is for nobody".to_owned()));
        }
        if limits.is_empty() {
            return Err(said("it limits nothing".to_owned()));
        }
        for (key, limit) in limits {
            self.set(&entity, key, Some(limit));
        }
        Ok(())
    }

    /// Counts an amount, and returns how long its client must be throttled.
    pub(crate) fn charge(
        &mut self,
        key: QuotaKey,
        principal: &Principal,
        client_id: &str,
        amount: f64,
        now: Instant,
    ) -> Duration {
        let Some((limit, meter)) = self.meter(key, principal, client_id) else {
            return Duration::ZERO;
        };
        meter.add(amount, now);
        meter.excess(0.0, limit, now)
    }

    /// As [`Quotas::charge`], but an amount that is too much is not counted: it will be asked for again. What comes after a
    /// whole quiet window always passes, or it never would.
    pub(crate) fn charge_if_within(
        &mut self,
        key: QuotaKey,
        principal: &Principal,
        client_id: &str,
        amount: f64,
        now: Instant,
    ) -> Duration {
        let Some((limit, meter)) = self.meter(key, principal, client_id) else {
            return Duration::ZERO;
        };
        meter.forget(now);
        let excess = meter.excess(amount, limit, now);
        if excess.is_zero() {
            meter.add(amount, now);
        }
        excess
    }

    /// What a quiet client may take at once.
    pub(crate) fn burst(
        &self,
        key: QuotaKey,
        principal: &Principal,
        client_id: &str,
    ) -> Option<f64> {
        let (limit, ..) = self.find(key, principal, client_id)?;
        let seconds = self.windows.size.as_secs_f64()
            * f64::from(self.windows.count.saturating_sub(1).max(1));
        Some(limit * seconds)
    }

    fn meter(
        &mut self,
        key: QuotaKey,
        principal: &Principal,
        client_id: &str,
    ) -> Option<(f64, &mut Meter)> {
        let (limit, has_user, has_client) = self.find(key, principal, client_id)?;
        let shared = MeterKey {
            key,
            user: has_user.then(|| principal.0.to_string()),
            client_id: has_client.then(|| client_id.to_owned()),
        };
        if self.meters.len() >= MOST_METERS && !self.meters.contains_key(&shared) {
            self.meters.clear();
        }
        let windows = self.windows;
        let meter = self
            .meters
            .entry(shared)
            .or_insert_with(|| Meter::new(windows));
        Some((limit, meter))
    }

    /// The limit of the nearest entity, and whether that one names or defaults the user and the client id.
    fn find(
        &self,
        key: QuotaKey,
        principal: &Principal,
        client_id: &str,
    ) -> Option<(f64, bool, bool)> {
        if self.limits.is_empty() {
            return None;
        }
        let user = || Some(Part::Named(principal.0.to_string()));
        let client = || Some(Part::Named(client_id.to_owned()));
        let any = || Some(Part::Default);
        let nearest = [
            (user(), client()),
            (user(), any()),
            (user(), None),
            (any(), client()),
            (any(), any()),
            (any(), None),
            (None, client()),
            (None, any()),
        ];
        nearest.into_iter().find_map(|(user, client_id)| {
            let (has_user, has_client) = (user.is_some(), client_id.is_some());
            let limit = self.limits.get(&Entity { user, client_id })?.get(&key)?;
            Some((*limit, has_user, has_client))
        })
    }
}

/// A rate over the last samples.
#[derive(Debug)]
struct Meter {
    windows: Windows,
    samples: VecDeque<(Instant, f64)>,
}

impl Meter {
    fn new(windows: Windows) -> Self {
        Self {
            windows,
            samples: VecDeque::new(),
        }
    }

    fn add(&mut self, amount: f64, now: Instant) {
        self.forget(now);
        match self.samples.back_mut() {
            Some((start, total)) if now.saturating_duration_since(*start) < self.windows.size => {
                *total += amount;
            }
            _ => self.samples.push_back((now, amount)),
        }
    }

    fn forget(&mut self, now: Instant) {
        let oldest = self.windows.size * self.windows.count;
        while self
            .samples
            .front()
            .is_some_and(|(start, _)| now.saturating_duration_since(*start) >= oldest)
        {
            self.samples.pop_front();
        }
    }

    /// How long to wait until the rate with `more` would be at `limit`, if it is above. A client that was quiet for a whole
    /// window never waits.
    fn excess(&self, more: f64, limit: f64, now: Instant) -> Duration {
        let Some((oldest, _)) = self.samples.front() else {
            return Duration::ZERO;
        };
        let size = self.windows.size.as_secs_f64();
        let mut elapsed = now.saturating_duration_since(*oldest).as_secs_f64();
        // A short time counts as nearly a whole window, so that a start is no burst.
        let missing = f64::from(self.windows.count.saturating_sub(1)) - (elapsed / size).floor();
        elapsed += missing.max(0.0) * size;
        let total: f64 = self.samples.iter().map(|(_, total)| total).sum();
        let rate = (total + more) / elapsed.max(f64::MIN_POSITIVE);
        if rate <= limit {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64((rate - limit) / limit * elapsed).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use QuotaKey::{ConsumerByteRate, ProducerByteRate};

    const KAFKAS: Windows = Windows {
        count: 11,
        size: Duration::from_secs(1),
    };

    fn quotas(lines: &[&str]) -> Quotas {
        let mut quotas = Quotas::new(KAFKAS);
        for line in lines {
            quotas.set_from_text(line).unwrap();
        }
        quotas
    }

    fn principal(name: &str) -> Principal {
        Principal(name.into())
    }

    #[test]
    fn a_whole_window_is_free_and_then_the_excess_is_waited_for() {
        let (mut quotas, start) = (
            quotas(&["user:alice producer_byte_rate=100"]),
            Instant::now(),
        );
        let mut charge = |bytes, ms| {
            let now = start + Duration::from_millis(ms);
            quotas
                .charge(ProducerByteRate, &principal("alice"), "app", bytes, now)
                .as_millis()
        };
        assert_eq!(charge(1000.0, 0), 0, "10 s at 100 bytes a second");
        assert_eq!(charge(1.0, 0), 10, "one byte is 10 ms too much");
        assert_eq!(charge(499.0, 0), 5000);
        // 1500 bytes in 15 s are within the limit.
        assert_eq!(charge(0.0, 10_999), 4001);
        assert_eq!(charge(1000.0, 11_000), 0, "the window has passed");
    }

    #[test]
    fn the_nearest_entity_counts() {
        let quotas = quotas(&[
            "client-id:* producer_byte_rate=8",
            "client-id:app producer_byte_rate=7",
            "user:* producer_byte_rate=6",
            "user:* client-id:* producer_byte_rate=5",
            "user:* client-id:app producer_byte_rate=4",
            "user:alice producer_byte_rate=3",
            "user:alice client-id:* producer_byte_rate=2",
            "user:alice client-id:app producer_byte_rate=1",
        ]);
        let order: Vec<f64> = {
            let mut quotas = quotas;
            let mut seen = Vec::new();
            while let Some((limit, ..)) = quotas.find(ProducerByteRate, &principal("alice"), "app")
            {
                seen.push(limit);
                quotas
                    .limits
                    .retain(|_, limits| limits[&ProducerByteRate] != limit);
            }
            seen
        };
        assert_eq!(order, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn a_user_shares_its_rate_among_client_ids_and_each_of_a_default_has_its_own() {
        let (mut quotas, now) = (
            quotas(&[
                "user:alice producer_byte_rate=1",
                "client-id:* producer_byte_rate=1",
            ]),
            Instant::now(),
        );
        let mut charge = |user, client| {
            quotas
                .charge(ProducerByteRate, &principal(user), client, 10.0, now)
                .is_zero()
        };
        assert!(charge("alice", "a") && !charge("alice", "b"));
        assert!(charge("bob", "a") && charge("bob", "b") && !charge("carol", "a"));
    }

    #[test]
    fn too_large_a_fetch_is_not_counted_and_passes_after_a_quiet_window() {
        let (mut quotas, start) = (quotas(&["user:alice consumer_byte_rate=1"]), Instant::now());
        let mut fetch = |s| {
            let now = start + Duration::from_secs(s);
            quotas
                .charge_if_within(ConsumerByteRate, &principal("alice"), "", 50.0, now)
                .as_secs()
        };
        assert_eq!(fetch(0), 0);
        assert_eq!(fetch(0), 90);
        assert_eq!(fetch(1), 90, "the refused one was not counted");
        assert_eq!(fetch(11), 0);
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_and_the_form() {
        for (line, what) in [
            ("", "for nobody"),
            ("producer_byte_rate=1", "for nobody"),
            ("user:alice", "limits nothing"),
            ("user: producer_byte_rate=1", "names nobody"),
            ("group:a producer_byte_rate=1", "neither user nor client-id"),
            ("user:a user:b producer_byte_rate=1", "two of user"),
            ("user:a produce=1", "producer_byte_rate, consumer_byte_rate"),
            ("user:a producer_byte_rate=0", "above 0"),
            ("user:a producer_byte_rate=inf", "above 0"),
        ] {
            let error = Quotas::new(KAFKAS).set_from_text(line).unwrap_err();
            assert!(
                error.contains(what) && error.contains("KEY=VALUE"),
                "{error}"
            );
        }
    }
}
