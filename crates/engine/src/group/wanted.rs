//! Which topics a member wants: by their names, or all those whose names match a pattern or the coordinator's expression.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;
use regex_lite::Regex;

use crate::call::{CallId, Ended, ListTopics};
use crate::cluster::{Cluster, TopicRefusals};
use crate::error::{Error, Kind};
use crate::part::Core;

/// Topics that brokers keep for themselves.
const INTERNAL: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// The topics that a caller subscribes to.
#[derive(Clone, Debug)]
pub enum Selection {
    /// These topics.
    Names(BTreeSet<Arc<str>>),
    /// All topics whose whole name matches, but for internal ones.
    Pattern(Pattern),
    /// All topics whose whole name matches, as the group's coordinator finds it (KIP-848): an expression of RE2, which only it reads.
    Regex(Arc<str>),
}

/// A regular expression that a topic's whole name has to match.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// # Errors
    /// `Kind::Argument`: it is no regular expression, or has what takes more than linear time, as a look around or back.
    pub fn parse(text: &str) -> Result<Pattern, Error> {
        match Regex::new(&format!("^(?:{text})$")) {
            Ok(regex) => Ok(Pattern(regex)),
            Err(error) => {
                let text = format!(
                    "the pattern {text:?} cannot be used: {error}; patterns have no look-around and no back-references, as the \
                     client matches the names of all topics in linear time, and so do brokers that match a SubscriptionPattern \
                     (RE2). Subscribe to the names, or to a pattern without them"
                );
                Err(Error::new(Kind::Argument, text))
            }
        }
    }

    fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// The topics that a member wants now.
#[derive(Debug)]
pub(crate) struct Wanted {
    selection: Selection,
    /// Each with the time since when it is wanted.
    topics: BTreeMap<Arc<str>, Instant>,
    /// Topics that were there once: they may come again.
    seen: BTreeSet<Arc<str>>,
    refused: TopicRefusals,
    listing: Option<CallId>,
    list_at: Instant,
    /// Whether all topics were listed, where that is needed.
    is_known: bool,
}

impl Wanted {
    /// `before` is what was wanted until now. Until all topics are listed, a pattern stands for the
    /// topics of `before` that it matches, so that no partition is revoked that is wanted again a
    /// moment later.
    pub(crate) fn new(
        now: Instant,
        cluster: &mut Cluster,
        selection: Selection,
        before: Option<&Wanted>,
    ) -> Wanted {
        let names = match &selection {
            Selection::Names(names) => names.clone(),
            Selection::Pattern(pattern) => {
                let known = before.into_iter().flat_map(Wanted::names);
                known
                    .filter(|name| pattern.matches(name))
                    .cloned()
                    .collect()
            }
            Selection::Regex(_) => BTreeSet::new(),
        };
        let mut wanted = Wanted {
            is_known: !matches!(selection, Selection::Pattern(_)),
            selection,
            topics: BTreeMap::new(),
            seen: BTreeSet::new(),
            refused: TopicRefusals::default(),
            listing: None,
            list_at: now,
        };
        wanted.set(now, cluster, &names);
        wanted
    }

    /// Gives back what it keeps in the view.
    pub(crate) fn release(self, cluster: &mut Cluster) {
        for topic in self.topics.keys() {
            cluster.unwant(topic);
        }
    }

    /// The names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    pub(crate) fn contains(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    /// Whether partitions of this topic may be assigned: the coordinator may give what matches an expression.
    pub(super) fn takes(&self, topic: &str) -> bool {
        self.regex().is_some() || self.contains(topic)
    }

    /// The expression that the coordinator matches.
    pub(super) fn regex(&self) -> Option<&Arc<str>> {
        match &self.selection {
            Selection::Regex(regex) => Some(regex),
            Selection::Names(_) | Selection::Pattern(_) => None,
        }
    }

    /// Whether it is known which topics they are.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The topics that cannot be read.
    pub(crate) fn refused(&self) -> &TopicRefusals {
        &self.refused
    }

    pub(crate) fn refused_mut(&mut self) -> &mut TopicRefusals {
        &mut self.refused
    }

    /// Lists topics if that is due.
    pub(super) fn pump(&mut self, now: Instant, core: &mut Core) {
        if self.listing.is_some() || !matches!(self.selection, Selection::Pattern(_)) {
            return;
        }
        if self.list_at > now {
            return core.cluster.set_alarm(self.list_at);
        }
        let deadline = now + core.cluster.config().default_api_timeout;
        self.listing = Some(core.start(now, ListTopics, deadline));
        self.list_at = now + core.cluster.config().metadata_max_age;
    }

    pub(super) fn is_listing(&self, id: CallId) -> bool {
        self.listing == Some(id)
    }

    /// Handles the list of topics.
    pub(super) fn handle_listing(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        self.listing = None;
        let Selection::Pattern(pattern) = &self.selection else {
            return;
        };
        match ended.answer::<ListTopics>() {
            Some(Ok(listed)) => {
                let listed = listed.topics.iter().filter(|topic| !topic.is_internal);
                let names = listed.filter_map(|topic| topic.name.as_deref());
                // Brokers before 0.10.1 do not return which topics are internal.
                let names = names.filter(|name| !INTERNAL.contains(name) && pattern.matches(name));
                let names = names.map(Arc::from).collect();
                self.is_known = true;
                self.set(now, cluster, &names);
            }
            // It may be for want of a broker: soon again.
            _ => self.list_at = now + cluster.retry_pause(1),
        }
    }

    fn set(&mut self, now: Instant, cluster: &mut Cluster, names: &BTreeSet<Arc<str>>) {
        for name in names {
            if !self.topics.contains_key(name) {
                cluster.want(now, name);
                self.topics.insert(Arc::clone(name), now);
            }
        }
        self.topics.retain(|name, _| {
            let stays = names.contains(name);
            if !stays {
                cluster.unwant(name);
            }
            stays
        });
        let topics = &self.topics;
        self.refused.retain(|name| topics.contains_key(name));
    }

    /// Handles the cluster's metadata; returns whether a caller has to be notified.
    pub(crate) fn look(&mut self, cluster: &Cluster) -> bool {
        let view = cluster.view();
        let before = self.refused.len();
        for (name, since) in &self.topics {
            if view.topic(name).is_some() {
                self.seen.insert(Arc::clone(name));
                self.refused.remove(name);
                continue;
            }
            let Some(code) = view.problem(name) else {
                continue;
            };
            let is_unknown = matches!(
                code,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID
            );
            let is_refused = if is_unknown {
                // A topic that a pattern matches existed a moment ago; a topic that may be created
                // will appear.
                matches!(self.selection, Selection::Names(_))
                    && !self.seen.contains(name)
                    && !cluster.config().allow_auto_create_topics
                    && cluster.is_absent(name, *since)
            } else {
                !code.is_retriable()
            };
            if is_refused {
                self.refused.insert(name, code);
            } else {
                self.refused.remove(name);
            }
        }
        self.refused.len() > before
    }
}
