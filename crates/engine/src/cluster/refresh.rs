//! When the metadata of the cluster is refreshed, and for which topics.
//!
//! ```text
//!  Due ── a link is up ──▶ asked ── response ──▶ fresh ── stale leader, new topic, age ──▶ Due
//!   ▲                         └── link broke ──┘│
//!   └──────── incomplete: after a pause ────────┘
//! ```
//!
//! A topic that was just created is not known to every broker at once, so the first response of a
//! broker that does not know a topic does not count. The topic is reported as absent after
//! [`BELIEVED`] such responses in a row, with pauses in between. A topic that this client created
//! itself is not reported as absent for [`HEARD`] (KIP-500: brokers receive the controller's
//! decisions with a delay).
//!
//! A producer requests a new topic alone (KIP-526), and looks at no other when the response comes: otherwise the first records of a
//! thousand topics would take half a million rows of metadata.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::metadata_response::MetadataResponseTopic;
use ottla_protocol::messages::{MetadataRequest, MetadataResponse};
use rustc_hash::{FxHashMap, FxHashSet};

use super::context::Context;
use super::links::IMPATIENCE;
use super::target::LinkId;
use crate::error::{Error, Kind};
use crate::metadata::Metadata;
use crate::observe::Observed;

/// This many responses in a row that do not know a topic prove that it does not exist.
const BELIEVED: u32 = 3;
/// A broker knows of a topic or a leader after this time: the controller fences a broker that
/// receives nothing for `broker.session.timeout.ms`, which is 9 s.
pub(crate) const HEARD: Duration = Duration::from_secs(10);
/// The first version of Metadata that can forbid the creation of topics (KIP-204).
const CREATES_NONE: i16 = 4;

#[derive(Debug, Default)]
pub(super) struct Refresh {
    wanted: BTreeMap<Arc<str>, usize>,
    /// Partitions of wanted topics that callers wait for, and how many callers.
    wanted_partitions: BTreeMap<(Arc<str>, i32), usize>,
    /// No caller needs a topic that does not exist, so none may be created even if the settings
    /// allow it.
    creates_none: bool,
    /// When all wanted topics are requested.
    at: Option<Instant>,
    /// Whether new topics are requested alone.
    asks_for_new_alone: bool,
    /// The topics to request alone, and when.
    new: BTreeSet<Arc<str>>,
    new_at: Option<Instant>,
    token: Option<u64>,
    /// When all wanted topics were requested.
    asked: Option<Instant>,
    /// Over which connection that request went.
    asked_over: Option<LinkId>,
    /// Its response may be stale.
    is_doubted: bool,
    /// The topics of the last request, and whether these were all that were wanted.
    asked_for: BTreeSet<Arc<str>>,
    asked_for_all: bool,
    /// Since when a response is wanted and none came.
    wanting: Option<Instant>,
    /// Why the last request failed.
    error: Option<Error>,
    fresh_as_of: Option<Instant>,
    incomplete: u32,
    /// How many responses in a row did not know a topic.
    absences: FxHashMap<Arc<str>, u32>,
    /// The topics that this client made lately, and when.
    created: FxHashMap<Arc<str>, Instant>,
}

impl Refresh {
    /// Keeps `topic` in the view until [`Refresh::unwant`] was called as often.
    pub(super) fn want(&mut self, now: Instant, topic: &Arc<str>) {
        let count = self.wanted.entry(Arc::clone(topic)).or_insert(0);
        *count += 1;
        if *count == 1 {
            if self.asks_for_new_alone && self.asked.is_some() {
                self.new.insert(Arc::clone(topic));
                self.new_at = Some(now);
            } else {
                self.at = Some(now);
            }
            self.incomplete = 0;
        }
    }

    pub(super) fn unwant(&mut self, topic: &str) {
        if let Some(count) = self.wanted.get_mut(topic) {
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(topic);
                self.absences.remove(topic);
                self.new.remove(topic);
            }
        }
    }

    /// Refreshes with growing pauses until the metadata contains this partition of a wanted topic,
    /// or until [`Refresh::unwant_partition`] was called as often as this method.
    pub(super) fn want_partition(
        &mut self,
        now: Instant,
        context: &mut Context,
        topic: &Arc<str>,
        partition: i32,
    ) {
        let named = (Arc::clone(topic), partition);
        *self.wanted_partitions.entry(named).or_insert(0) += 1;
        self.incomplete = 0;
        self.request(now, context);
    }

    pub(super) fn unwant_partition(&mut self, topic: &Arc<str>, partition: i32) {
        let named = (Arc::clone(topic), partition);
        if let Some(count) = self.wanted_partitions.get_mut(&named) {
            *count -= 1;
            if *count == 0 {
                self.wanted_partitions.remove(&named);
            }
        }
    }

    pub(super) fn set_may_create(&mut self, may_create: bool) {
        self.creates_none = !may_create;
    }

    /// From now on a new topic is requested alone: nothing that this client decides needs all topics to be of one moment.
    pub(super) fn set_asks_for_new_alone(&mut self) {
        self.asks_for_new_alone = true;
    }

    pub(super) fn wants(&self, topic: &str) -> bool {
        self.wanted.contains_key(topic)
    }

    /// The metadata turned out to be stale: refreshes it, after a pause since the last time.
    pub(super) fn request(&mut self, now: Instant, context: &mut Context) {
        let earliest = self
            .asked
            .map_or(now, |asked| now.max(asked + context.config.retry_backoff));
        let at = self.at.map_or(earliest, |at| at.min(earliest));
        self.at = Some(at);
        // If a request is in flight, or none can be sent, its response or a new connection comes
        // next.
        if self.token.is_none() && at > now {
            context.set_alarm(at);
        }
    }

    /// Requests the brokers if no request was ever sent.
    pub(super) fn request_first(&mut self, now: Instant) {
        if self.token.is_none() {
            self.at.get_or_insert(now);
        }
    }

    /// Whether a refresh is due; if not, sets the alarm for it.
    pub(super) fn is_due(&self, now: Instant, context: &mut Context) -> bool {
        match self.next() {
            Some(_) if self.token.is_some() => false,
            Some(at) if at > now => {
                context.set_alarm(at);
                false
            }
            at => at.is_some(),
        }
    }

    /// When the next request is due.
    fn next(&self) -> Option<Instant> {
        let new_at = self.new_at.filter(|_| !self.new.is_empty());
        [self.at, new_at].into_iter().flatten().min()
    }

    /// Why the known brokers are abandoned, if they returned no metadata for too long (KIP-1102).
    /// `knows_brokers` is whether there are any.
    pub(super) fn gives_up(
        &mut self,
        now: Instant,
        context: &mut Context,
        knows_brokers: bool,
    ) -> Option<Error> {
        let trigger = context.config.rebootstrap_trigger.max(IMPATIENCE);
        let is_due = self.token.is_some() || self.next().is_some_and(|at| at <= now);
        if !context.config.rebootstrap || !knows_brokers || !(is_due || self.wanting.is_some()) {
            self.wanting = None;
            return None;
        }
        let until = *self.wanting.get_or_insert(now) + trigger;
        if until > now {
            context.set_alarm(until);
            return None;
        }
        self.wanting = None;
        self.token = None;
        self.at = Some(now);
        let text = format!(
            "no known broker gave metadata for metadata.recovery.rebootstrap.trigger.ms ({} ms)",
            trigger.as_millis()
        );
        let error = Error::new(Kind::Unreachable, text);
        Some(match &self.error {
            Some(cause) => error.adding(cause.message()),
            None => error,
        })
    }

    /// The request that is due, whose topics are kept for its response.
    pub(super) fn question(&mut self, now: Instant, context: &Context) -> MetadataRequest {
        self.asked_for_all = self.new.is_empty() || self.at.is_some_and(|at| at <= now);
        self.asked_for = match self.asked_for_all {
            true => self.wanted.keys().cloned().collect(),
            false => self.new.clone(),
        };
        let topics = self.asked_for.iter().map(|name| MetadataRequestTopic {
            name: Some((&**name).into()),
            ..Default::default()
        });
        MetadataRequest {
            topics: Some(topics.collect()),
            allow_auto_topic_creation: context.config.allow_auto_create_topics
                && !self.creates_none,
            ..Default::default()
        }
    }

    /// The response with an error for each wanted topic that it does not name. A response in this
    /// `version` of Metadata may be about all topics, since a request for one by name might have
    /// created it.
    pub(super) fn with_absent<'a>(
        &self,
        answer: &'a MetadataResponse,
        version: i16,
    ) -> Cow<'a, MetadataResponse> {
        if version >= CREATES_NONE {
            return Cow::Borrowed(answer);
        }
        let named = answer.topics.iter();
        let named: FxHashSet<_> = named.filter_map(|topic| topic.name.as_deref()).collect();
        let mut whole = Cow::Borrowed(answer);
        for name in self.wanted.keys().filter(|name| !named.contains(&***name)) {
            // A topic that became wanted after the request is not in its response.
            if self.asked_for.contains(name) {
                whole.to_mut().topics.push(MetadataResponseTopic {
                    error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                    name: Some((&**name).into()),
                    ..Default::default()
                });
            }
        }
        whole
    }

    /// Whether the last request was for new topics alone, and the response names no others.
    pub(super) fn asked_for_each_of(&self, answer: &MetadataResponse) -> bool {
        let mut names = answer
            .topics
            .iter()
            .filter_map(|topic| topic.name.as_deref());
        !self.asked_for_all && names.all(|name| self.asked_for.contains(name))
    }

    /// The content of the last response may be stale.
    pub(super) fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// The connection to avoid for the next request.
    pub(super) fn doubted(&self) -> Option<LinkId> {
        self.asked_over.filter(|_| self.is_doubted)
    }

    pub(super) fn set_asked(&mut self, now: Instant, token: u64, link: LinkId) {
        self.token = Some(token);
        self.new.clear();
        self.new_at = None;
        if self.asked_for_all {
            self.at = None;
            self.asked = Some(now);
            self.asked_over = Some(link);
            self.is_doubted = false;
        }
    }

    pub(super) fn set_failed(&mut self, now: Instant, context: &mut Context, error: Error) {
        self.token = None;
        // It is sent again, maybe to another broker.
        self.error = Some(error.calling("Metadata").with_retriable(true));
        self.pause(now, context);
    }

    /// A response came, and `view` holds its content.
    pub(super) fn set_answered(
        &mut self,
        now: Instant,
        context: &mut Context,
        view: &Metadata,
        answer: &MetadataResponse,
    ) {
        self.token = None;
        self.wanting = None;
        self.error = None;
        self.count_absences(context, answer);
        if !self.asked_for_all {
            return self.set_new_answered(now, context, view);
        }
        self.fresh_as_of = self.asked;
        let mut partitions = self.wanted_partitions.keys();
        let has_all = partitions.all(|(name, number)| view.partition(name, *number).is_some());
        if has_all && self.wanted.keys().all(|name| is_complete(view, name)) {
            self.incomplete = 0;
            self.set_next(context, now + context.config.metadata_max_age);
        } else {
            self.pause(now, context);
        }
    }

    /// A response about new topics came. Those that are not complete are requested again, alone.
    fn set_new_answered(&mut self, now: Instant, context: &mut Context, view: &Metadata) {
        let asked = std::mem::take(&mut self.asked_for).into_iter();
        let missing = asked.filter(|name| self.wants(name) && !is_complete(view, name));
        let missing: Vec<_> = missing.collect();
        if !missing.is_empty() {
            let at = now + self.next_pause(context);
            self.new.extend(missing);
            self.new_at = Some(self.new_at.map_or(at, |earlier| earlier.min(at)));
            context.set_alarm(at);
        }
        self.set_next(context, now + context.config.metadata_max_age);
    }

    fn pause(&mut self, now: Instant, context: &mut Context) {
        let at = now + self.next_pause(context);
        self.set_next(context, at);
    }

    fn next_pause(&mut self, context: &mut Context) -> Duration {
        self.incomplete = self.incomplete.saturating_add(1);
        context.retry_pause(self.incomplete)
    }

    /// A topic that became wanted while the request was in flight has set its own time already.
    fn set_next(&mut self, context: &mut Context, at: Instant) {
        let at = self.at.map_or(at, |earlier| earlier.min(at));
        self.at = Some(at);
        context.set_alarm(at);
    }

    fn count_absences(&mut self, context: &mut Context, answer: &MetadataResponse) {
        for topic in &answer.topics {
            let Some((name, _)) = topic
                .name
                .as_deref()
                .and_then(|name| self.wanted.get_key_value(name))
            else {
                continue;
            };
            let code = ErrorCode(topic.error_code);
            if code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                self.absences.remove(name);
                continue;
            }
            let count = self.absences.entry(Arc::clone(name)).or_insert(0);
            *count = count.saturating_add(1);
            if *count == BELIEVED {
                context.observer.tell(Observed::TopicMissing {
                    topic: Arc::clone(name),
                    cause: Error::from_code(code, None)
                        .calling("Metadata")
                        .with_retriable(false),
                });
            }
        }
    }

    /// Why the metadata is stale or empty, if the last request for it failed.
    pub(super) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// When the view was requested that is in use.
    pub(super) fn fresh_as_of(&self) -> Option<Instant> {
        self.fresh_as_of
    }

    /// Whether the view was requested at `since` or later.
    pub(super) fn is_fresh(&self, since: Instant) -> bool {
        self.fresh_as_of.is_some_and(|asked| asked >= since)
    }

    /// Whether it is proven that the topic is not there, as of `since` or later.
    pub(super) fn is_absent(&self, topic: &str, since: Instant) -> bool {
        let believed = self
            .absences
            .get(topic)
            .is_some_and(|count| *count >= BELIEVED);
        let created = self
            .fresh_as_of
            .is_some_and(|asked| self.has_created(asked, topic));
        believed && !created && self.is_fresh(since)
    }

    /// This client made a topic: a broker that does not know it lags behind.
    pub(super) fn note_created(&mut self, now: Instant, topic: &str) {
        self.created.retain(|_, at| now < *at + HEARD);
        self.created.insert(topic.into(), now);
        self.absences.remove(topic);
    }

    /// This client deleted a topic.
    pub(super) fn note_deleted(&mut self, topic: &str) {
        self.created.remove(topic);
    }

    /// Whether this client made the topic, so lately that brokers may not know it yet.
    pub(super) fn has_created(&self, now: Instant, topic: &str) -> bool {
        self.created.get(topic).is_some_and(|at| now < *at + HEARD)
    }
}

/// Whether the topic is known, and has a leader for each partition.
fn is_complete(view: &Metadata, name: &str) -> bool {
    view.topic(name).is_some_and(|topic| {
        let mut partitions = topic.partitions.keys();
        partitions.all(|partition| view.leader(name, *partition).is_some())
    })
}
