//! The metadata of the topics that are read.
//!
//! ```text
//!   unheard of ── in the view ──▶ known ── another id ──▶ known, recreated
//!      │  ▲                        │  ▲
//!      │  ▲                        ▼  │
//!      ▼  │ turned up              missing, waited for
//!    refused: it may not be read, or is proven not to exist
//! ```
//!
//! All partitions of a followed topic are read: each joins the assignment when the metadata
//! contains it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use crate::cluster::{Cluster, TopicRefusals};
use crate::fetch::position::Start;

/// How long a topic that a request creates may take to appear.
const CREATION: Duration = Duration::from_secs(3);

/// What follows from metadata.
#[derive(Debug, PartialEq)]
pub(super) enum Finding {
    /// All partitions of a followed topic, some of which are new, and where those are read from.
    Partitions(Arc<str>, Vec<i32>, Start),
    /// The topic has another id than before.
    Recreated(Arc<str>),
    /// A topic cannot be read, and the caller must be notified.
    Refused,
}

/// The topics that are read, with all their partitions or some.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    topics: BTreeMap<Arc<str>, Topic>,
    refused: TopicRefusals,
}

#[derive(Debug)]
struct Topic {
    /// Whether all its partitions are read.
    is_followed: bool,
    /// Where the partitions that are found first are read from.
    first: Start,
    /// Partitions found so far, if any were.
    found: Option<usize>,
    id: Uuid,
    /// Earlier ids; a broker that lags behind may still return them.
    past: Vec<Uuid>,
    was_known: bool,
    /// When it was first wanted.
    since: Instant,
}

impl Topic {
    fn new(now: Instant, is_followed: bool) -> Topic {
        Topic {
            is_followed,
            first: Start::Reset,
            found: None,
            id: Uuid::ZERO,
            past: Vec::new(),
            was_known: false,
            since: now,
        }
    }
}

impl Subscription {
    /// Reads these topics and no others. Returns those that are new, and those that are no longer
    /// read.
    pub(super) fn replace(
        &mut self,
        now: Instant,
        topics: impl IntoIterator<Item = Arc<str>>,
        is_followed: bool,
    ) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let mut before = std::mem::take(&mut self.topics);
        let mut new = Vec::new();
        for name in topics {
            if self.topics.contains_key(&name) {
                continue;
            }
            let kept = before.remove(&name).map(|topic| Topic {
                is_followed,
                first: Start::Reset,
                found: topic.found.filter(|_| topic.is_followed && is_followed),
                ..topic
            });
            if kept.is_none() {
                new.push(Arc::clone(&name));
            }
            let topic = kept.unwrap_or_else(|| Topic::new(now, is_followed));
            self.topics.insert(name, topic);
        }
        let topics = &self.topics;
        self.refused.retain(|name| topics.contains_key(name));
        (new, before.into_keys().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Whether all its partitions are read.
    pub(super) fn is_followed(&self, topic: &str) -> bool {
        let topic = self.topics.get(topic);
        topic.is_some_and(|topic| topic.is_followed)
    }

    /// Whether it is followed, and nothing is known of its partitions so far.
    pub(super) fn is_awaited(&self, topic: &str) -> bool {
        let topic = self.topics.get(topic);
        topic.is_some_and(|topic| topic.is_followed && topic.found.is_none())
    }

    /// Sets where followed topics are read from whose partitions are not known yet.
    pub(super) fn start_at(&mut self, start: Start) {
        for topic in self.topics.values_mut() {
            topic.first = start;
        }
    }

    /// The topics that cannot be read, where waiting is not known to help.
    pub(super) fn refused(&self) -> &TopicRefusals {
        &self.refused
    }

    pub(super) fn refused_mut(&mut self) -> &mut TopicRefusals {
        &mut self.refused
    }

    /// When the topic was first wanted.
    pub(super) fn since(&self, topic: &str) -> Option<Instant> {
        self.topics.get(topic).map(|topic| topic.since)
    }

    /// The topic's id; zero if it is not known.
    pub(super) fn id_of(&self, topic: &str) -> Uuid {
        self.topics.get(topic).map_or(Uuid::ZERO, |topic| topic.id)
    }

    /// Handles the metadata; `is_new` is whether brokers responded since the last look.
    pub(super) fn look(&mut self, now: Instant, cluster: &Cluster, is_new: bool) -> Vec<Finding> {
        let view = cluster.view();
        let mut findings = Vec::new();
        for (name, topic) in &mut self.topics {
            if let Some(known) = view.topic(name) {
                self.refused.remove(name);
                topic.note_known(name, known, &mut findings);
            } else if let Some(code) = view.problem(name).filter(|_| is_new) {
                if topic.is_refused(now, cluster, name, code) {
                    self.refused.insert(name, code);
                    findings.push(Finding::Refused);
                } else {
                    self.refused.remove(name);
                }
            }
        }
        findings
    }
}

impl Topic {
    fn note_known(
        &mut self,
        name: &Arc<str>,
        known: &crate::metadata::Topic,
        findings: &mut Vec<Finding>,
    ) {
        if self.past.contains(&known.id) {
            return;
        }
        let is_new = self.id != Uuid::ZERO && known.id != Uuid::ZERO && self.id != known.id;
        if is_new {
            self.past.push(self.id);
            findings.push(Finding::Recreated(Arc::clone(name)));
        }
        if known.id != Uuid::ZERO {
            self.id = known.id;
        }
        self.was_known = true;
        let count = known.partitions.len();
        if self.is_followed && (is_new || self.found != Some(count)) {
            // A partition that was added since the first look may have unread records.
            let start = match self.found {
                Some(_) => Start::Beginning,
                None => self.first,
            };
            let numbers = known.partitions.keys().copied().collect();
            findings.push(Finding::Partitions(Arc::clone(name), numbers, start));
            self.found = Some(count);
        }
    }

    /// Whether a caller has to know that the topic is not in the view.
    fn is_refused(&mut self, now: Instant, cluster: &Cluster, name: &str, code: ErrorCode) -> bool {
        let is_unknown = matches!(
            code,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID
        );
        if !is_unknown {
            return !code.is_retriable();
        }
        let may_be_created =
            cluster.config().allow_auto_create_topics && now < self.since + CREATION;
        // A topic that was known may be recreated.
        if self.was_known || may_be_created || !cluster.is_absent(name, self.since) {
            return false;
        }
        if self.first == Start::Reset {
            // All its records will have been written after this consumer began to request it.
            self.first = Start::Beginning;
        }
        true
    }
}
