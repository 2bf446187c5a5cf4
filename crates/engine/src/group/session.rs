//! The state that a member of the consumer protocol and its coordinator share (KIP-848).
//!
//! The coordinator assigns, in its responses to heartbeats. The member applies the assignment, and
//! acknowledges it in a heartbeat of its own:
//!
//! ```text
//!  target ── names of its topics known ──▶ next: listeners notified, while a caller polls ──▶ owned ──▶ acknowledged
//! ```
//!
//! A heartbeat declares what changed since the last heartbeat that got a response, and everything
//! after one that got none. The coordinator returns the whole assignment to a member that declares
//! everything, and to other members once, when it changes. This sequence would lose an assignment:
//! a heartbeat gets no response in time, the next one declares only changes, the coordinator then
//! handles the first one late, and its response with the assignment is lost. So for a time after a
//! heartbeat without a response each one declares everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::Uuid;

use crate::call::{CallId, Declaration, IdPartition, Standing, TopicNames};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::group::assignor::TopicPartition;
use crate::group::wanted::Wanted;
use crate::part::Core;

/// A coordinator that requests shorter intervals is not obeyed.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// A heartbeat may be in flight for this many times its timeout.
const WAYS: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Session {
    /// The member's declaration as the coordinator has it; `None` if that is uncertain.
    declared: Option<Declaration>,
    /// The heartbeat in flight.
    running: Option<(CallId, Beat)>,
    /// Until then an abandoned heartbeat may reach the coordinator.
    strays_until: Option<Instant>,
    interval: Duration,
    next_beat: Option<Instant>,
    /// The next heartbeat is not sent before its time: the last one failed.
    is_paused: bool,
    /// The last assignment of the coordinator.
    target: BTreeSet<IdPartition>,
    /// It is to be compared with what is owned.
    is_new: bool,
    /// No heartbeat has acknowledged what callers own since the last assignment or change.
    must_acknowledge: bool,
    /// The wanted topics may differ from those that the coordinator knows.
    may_differ: bool,
    /// Callers are notified of the assignment even if it adds nothing: it is the first, or has
    /// taken partitions.
    owes_news: bool,
    /// The partitions that callers own, and listeners know.
    owned: BTreeSet<IdPartition>,
    /// The partitions that callers will own after listeners are notified.
    next: Option<BTreeSet<IdPartition>>,
    /// The names of the topics in all of these.
    names: BTreeMap<Uuid, Arc<str>>,
    /// Some may be missing.
    lacks_names: bool,
    /// Names are being looked up.
    naming: Option<CallId>,
    name_at: Option<Instant>,
    /// How often in a row some could not be found.
    nameless: u32,
}

/// A heartbeat that was sent.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) epoch: i32,
    /// What is declared once the response comes.
    pub(super) declared: Declaration,
    /// After this time it can no longer reach the coordinator, if it has not yet.
    pub(super) lost_at: Option<Instant>,
}

/// The change that makes callers own what is assigned.
pub(super) enum Changed {
    Dropped(Vec<TopicPartition>),
    Added(Vec<TopicPartition>),
}

impl Session {
    /// A member that is about to join, and has nothing.
    pub(super) fn new() -> Session {
        Session {
            owes_news: true,
            ..Session::default()
        }
    }

    /// The member is to rejoin, with nothing. Its earlier heartbeats may still be in flight.
    pub(super) fn begin_anew(&mut self) {
        if let Some((_, beat)) = self.running.take() {
            self.went_astray(beat.lost_at);
        }
        *self = Session {
            strays_until: self.strays_until,
            ..Session::new()
        };
    }

    // --- heartbeats

    /// What the next heartbeat declares; `None` if none is due at `now`, and then sets the alarm
    /// for the next.
    pub(super) fn due(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        wanted: &Wanted,
    ) -> Option<Declaration> {
        if self.running.is_some() {
            return None;
        }
        let next = *self.next_beat.get_or_insert(now);
        let has_news = self.declared.is_none() || self.may_differ || self.acknowledges();
        if next > now && (self.is_paused || !has_news) {
            cluster.set_alarm(next);
            return None;
        }
        let changes = self.changes(cluster.config(), wanted);
        self.may_differ = false;
        if next > now && changes == Declaration::default() {
            cluster.set_alarm(next);
            return None;
        }
        // The first heartbeat after that time declares what came until then.
        match self.strays_until {
            Some(until) => {
                self.strays_until = Some(until).filter(|until| *until > now);
                Some(self.all(cluster.config(), wanted))
            }
            None => Some(changes),
        }
    }

    /// Whether a heartbeat must acknowledge what callers own: until listeners are notified, they
    /// own what they owned.
    fn acknowledges(&self) -> bool {
        self.must_acknowledge && self.next.is_none() && !self.is_new
    }

    /// The changes that the coordinator does not know.
    fn changes(&self, config: &Config, wanted: &Wanted) -> Declaration {
        let Some(known) = &self.declared else {
            return self.all(config, wanted);
        };
        let topics = known.topics.as_ref();
        // Until topics were listed, the topics of a pattern are unknown: they count as unchanged.
        let is_same = !wanted.is_known() || topics.is_some_and(|topics| wanted.names().eq(topics));
        let regex = wanted.regex().cloned();
        let had_regex = known.regex.as_ref().is_some_and(|it| !it.is_empty());
        let is_other = match &regex {
            Some(_) => known.regex != regex,
            None => had_regex,
        };
        Declaration {
            topics: (!is_same).then(|| wanted.names().cloned().collect()),
            // An empty one takes it back.
            regex: is_other.then(|| regex.unwrap_or_default()),
            owned: self.acknowledges().then(|| self.held()),
            ..Declaration::default()
        }
    }

    /// The full declaration of a member, as when it joins.
    pub(super) fn all(&self, config: &Config, wanted: &Wanted) -> Declaration {
        // A static member may have had one before it came back.
        let is_static = config.group_instance_id.is_some();
        Declaration {
            rebalance_timeout: Some(config.max_poll_interval),
            topics: wanted.is_known().then(|| wanted.names().cloned().collect()),
            regex: wanted
                .regex()
                .cloned()
                .or_else(|| is_static.then(Arc::default)),
            assignor: config.group_remote_assignor.as_deref().map(Arc::from),
            rack: config.client_rack.as_deref().map(Arc::from),
            owned: Some(self.held()),
        }
    }

    /// What the member declares to have: also what is assigned to it, and may become a caller's at
    /// any moment, as when the name of its topic is found. The coordinator does not give it to
    /// another member before this one declares otherwise.
    fn held(&self) -> BTreeSet<IdPartition> {
        let next = self.next.iter().flatten();
        let all = self.owned.iter().chain(next).chain(&self.target);
        all.copied().collect()
    }

    /// A heartbeat of this epoch was sent, with this timeout.
    pub(super) fn sent(
        &mut self,
        now: Instant,
        (id, patience): (CallId, Duration),
        epoch: i32,
        declared: Declaration,
    ) {
        if declared.owned.is_some() {
            self.must_acknowledge = false;
        }
        self.is_paused = false;
        self.next_beat = now.checked_add(self.interval());
        let beat = Beat {
            epoch,
            declared,
            lost_at: now.checked_add(patience * WAYS),
        };
        self.running = Some((id, beat));
    }

    /// The heartbeat that has ended, if it was one.
    pub(super) fn ended(&mut self, id: CallId) -> Option<Beat> {
        let (_, beat) = self.running.take_if(|(running, _)| *running == id)?;
        Some(beat)
    }

    /// The response to a heartbeat is no longer awaited; the heartbeat may be in flight until then.
    pub(super) fn went_astray(&mut self, lost_at: Option<Instant>) {
        self.strays_until = self.strays_until.max(lost_at);
    }

    /// A heartbeat got its response.
    pub(super) fn heard(&mut self, now: Instant, declared: Declaration, standing: &mut Standing) {
        let told = declared.owned.clone();
        let known = self.declared.get_or_insert_default();
        known.topics = declared.topics.or(known.topics.take());
        known.regex = declared.regex.or(known.regex.take());
        known.owned = declared.owned.or(known.owned.take());
        self.interval = standing.interval;
        self.next_beat = now.checked_add(self.interval());
        if let Some(assigned) = standing.assigned.take() {
            self.target = assigned;
            self.is_new = true;
            // A coordinator that assigns in every response would get heartbeats without a pause.
            self.must_acknowledge |= told != Some(self.held());
            self.lacks_names = true;
            self.forget_names();
        }
    }

    /// A heartbeat got no response, or was refused: it is not known whether the coordinator handled
    /// it, and the next comes after this pause.
    pub(super) fn failed(&mut self, now: Instant, pause: Duration) {
        self.declared = None;
        self.is_paused = true;
        self.next_beat = now.checked_add(pause);
    }

    /// The pause between two heartbeats.
    pub(super) fn interval(&self) -> Duration {
        self.interval.max(SHORTEST_INTERVAL)
    }

    /// The next heartbeat is due at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        if !self.is_paused {
            self.next_beat = Some(now);
        }
    }

    // --- names of topics

    /// Looks up names of topics that are missing.
    pub(super) fn find_names(&mut self, now: Instant, core: &mut Core) {
        if !self.lacks_names || self.naming.is_some() {
            return;
        }
        let mut missing: Vec<Uuid> = self.target.iter().map(|(id, _)| *id).collect();
        missing.dedup();
        missing.retain(|id| {
            if self.names.contains_key(id) {
                return false;
            }
            let Some(name) = core.cluster.view().name_of(*id) else {
                return true;
            };
            self.names.insert(*id, Arc::clone(name));
            self.is_new = true;
            false
        });
        self.lacks_names = !missing.is_empty();
        if missing.is_empty() {
            return;
        }
        if let Some(at) = self.name_at.filter(|at| *at > now) {
            return core.cluster.set_alarm(at);
        }
        let deadline = now + core.cluster.config().default_api_timeout;
        let call = TopicNames { ids: missing };
        self.naming = Some(core.start(now, call, deadline));
    }

    pub(super) fn is_naming(&self, id: CallId) -> bool {
        self.naming == Some(id)
    }

    /// Handles looked-up names; `None` if the look-up failed.
    pub(super) fn name(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        found: Option<Vec<(Uuid, Arc<str>)>>,
    ) {
        self.naming = None;
        for (id, name) in found.into_iter().flatten() {
            if self
                .target
                .range((id, 0)..)
                .next()
                .is_some_and(|it| it.0 == id)
            {
                self.names.insert(id, name);
                self.is_new = true;
            }
        }
        let mut target = self.target.iter();
        self.lacks_names = !target.all(|(id, _)| self.names.contains_key(id));
        // A broker may not know a topic yet.
        self.nameless = if self.lacks_names {
            self.nameless.saturating_add(1)
        } else {
            0
        };
        self.name_at = Some(now + cluster.retry_pause(self.nameless.max(1)));
    }

    fn forget_names(&mut self) {
        let next = self.next.iter().flatten();
        let all = self.target.iter().chain(&self.owned).chain(next);
        let used: BTreeSet<Uuid> = all.map(|(id, _)| *id).collect();
        self.names.retain(|id, _| used.contains(id));
    }

    // --- assignments

    /// A caller wants something else: what was refused may be taken now.
    pub(super) fn hear_anew(&mut self) {
        self.is_paused = false;
        self.compare_again();
    }

    /// The topics that are wanted may have changed.
    pub(super) fn compare_again(&mut self) {
        self.is_new = true;
        self.may_differ = true;
    }

    /// Whether there is something to compare.
    pub(super) fn must_compare(&self) -> bool {
        self.is_new
    }

    /// Drops what was to be owned next: no listener was notified.
    pub(super) fn take_back(&mut self) {
        if self.next.take().is_some() {
            self.must_acknowledge = true;
        }
    }

    /// The partitions that listeners were notified to be revoked, and whose revocation the
    /// coordinator does not know yet.
    pub(super) fn given_up(&self) -> BTreeSet<TopicPartition> {
        let next = self.next.as_ref();
        let gone = next.map(|next| self.owned.difference(next));
        gone.into_iter()
            .flatten()
            .filter_map(|it| self.named(it))
            .collect()
    }

    /// Whether the coordinator considers it the member's: no heartbeat has declared yet that
    /// callers have revoked it.
    pub(super) fn owns(&self, (topic, number): &TopicPartition) -> bool {
        let mut owned = self.owned.iter();
        owned.any(|(id, it)| it == number && self.names.get(id) == Some(topic))
    }

    fn named(&self, (id, number): &IdPartition) -> Option<TopicPartition> {
        Some((Arc::clone(self.names.get(id)?), *number))
    }

    /// Listeners were notified: callers own what they were to own.
    pub(super) fn settle(&mut self) {
        if let Some(next) = self.next.take() {
            // The partitions that replace the revoked ones are looked up only now, as the
            // coordinator may have changed the assignment.
            self.owes_news = !self.owned.is_subset(&next);
            self.is_new |= self.owes_news;
            self.owned = next;
            self.must_acknowledge = true;
        }
    }

    /// The change that makes callers own what is assigned, as far as topics have names and are
    /// wanted; `None` if there is no change. Revoked partitions come first, and alone. After
    /// listeners were notified, [`Session::settle`] follows.
    pub(super) fn compare(&mut self, wanted: &Wanted) -> Option<Changed> {
        self.is_new = false;
        let target = self.target.iter();
        let target = target.filter(|(id, _)| {
            let name = self.names.get(id);
            name.is_some_and(|name| wanted.takes(name))
        });
        let target: BTreeSet<_> = target.copied().collect();
        let named = |it| self.named(it);
        let dropped: Vec<_> = self.owned.difference(&target).filter_map(named).collect();
        if !dropped.is_empty() {
            self.next = Some(self.owned.intersection(&target).copied().collect());
            return Some(Changed::Dropped(dropped));
        }
        let added: Vec<_> = target.difference(&self.owned).filter_map(named).collect();
        if added.is_empty() && !self.owes_news {
            return None;
        }
        self.next = Some(target);
        Some(Changed::Added(added))
    }

    /// How many partitions the coordinator has assigned.
    pub(super) fn assigned(&self) -> usize {
        self.target.len()
    }
}
