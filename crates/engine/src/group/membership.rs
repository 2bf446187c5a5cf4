//! When a member joins, gives up partitions, commits and leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use crate::call::{
    Admission, CallId, Ended, GroupMetadata, GroupOffset, Heartbeat, JoinGroup, Joined, LeaveGroup,
    SyncGroup,
};
use crate::change::Change;
use crate::cluster::{Cluster, CoordinatorType};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::group::assignor::{
    Assignment, Assignor, Owned, RebalanceProtocol, Subscription, TopicPartition, by_name,
};
use crate::group::commits::{CommitId, Commits};
use crate::group::errors::{Consequence, consequence, explained, not_a_member, rebalancing};
use crate::group::heartbeats::Heartbeats;
use crate::group::holding::{Holding, Rebalance};
use crate::group::identity::Identity;
use crate::group::lead::Lead;
use crate::group::polls::Polls;
use crate::group::pulse::Pulse;
use crate::group::searches::{Found, Searches, Sought};
use crate::group::wanted::{Selection, Wanted};
use crate::observe::Observed;
use crate::part::Core;

/// The leader assigns what is known by then.
const LEAD_AT_MOST: Duration = Duration::from_secs(30);

/// With none at all, a loop over records would commit before each of them, and never come to it.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

const LEAVES: &str = "the consumer unsubscribed or is being closed";

#[derive(Debug)]
enum State {
    /// Not a member, or one that is to join again: nothing is under way.
    Unjoined,
    /// Offsets are committed before partitions are given up.
    Committing(After),
    /// Listeners are told what is given up.
    Revoking,
    Joining(CallId),
    /// As leader, until the topics of all members are known.
    Leading,
    Syncing(CallId),
    /// Partitions of the new assignment's predecessor have to go (KIP-429), once a caller says how far they were read.
    Dropping {
        dropped: Vec<TopicPartition>,
        added: Vec<TopicPartition>,
    },
    Stable,
    Leaving(CallId),
}

/// What follows a commit.
#[derive(Debug)]
enum After {
    GiveUp,
    Drop {
        dropped: Vec<TopicPartition>,
        added: Vec<TopicPartition>,
    },
}

/// A consumer's membership in its group, and its commits. Without a subscription it only commits.
#[derive(Debug)]
pub(crate) struct Membership {
    config: Arc<Config>,
    group: Arc<str>,
    identity: Identity,
    assignors: Vec<&'static dyn Assignor>,
    protocol: RebalanceProtocol,
    /// The assignor of this generation.
    assignor: usize,
    wanted: Option<Wanted>,
    state: State,
    /// The topics that this generation's assignment is about.
    joined: BTreeSet<Arc<str>>,
    holding: Holding,
    /// The last assignment and its generation, for assignors that keep to it.
    last: (Option<Vec<TopicPartition>>, i32),
    /// The group went on without this member, and the owned partitions are not its own any more.
    is_lost: bool,
    /// Why the member has to join again.
    rejoin: Option<&'static str>,
    lead: Option<Lead>,
    /// The topics wanted have changed.
    must_compare: bool,
    seen_view: u64,
    heartbeats: Heartbeats,
    commits: Commits,
    searches: Searches,
    polls: Polls,
    next_auto_commit: Option<Instant>,
    /// Partitions that are given up wait no longer for commits.
    commit_until: Option<Instant>,
    trouble: Option<Error>,
    failures: u32,
    retry_at: Option<Instant>,
    /// The member is to leave, and to be done by then.
    leaving: Option<Instant>,
    was_waiting: bool,
}

impl Membership {
    /// The membership of a consumer with these settings; `None` if it has no group.
    pub(crate) fn new(config: &Arc<Config>) -> Option<Membership> {
        let group: Arc<str> = config.group_id.as_deref()?.into();
        let instance_id = config.group_instance_id.as_deref().map(Arc::from);
        let names = config.partition_assignment_strategy.iter();
        let assignors: Vec<_> = names.filter_map(|name| by_name(name)).collect();
        let cooperates = |it: &&dyn Assignor| {
            let protocols = it.protocols();
            protocols.contains(&RebalanceProtocol::Cooperative)
        };
        // The best that all of them know: the group may agree on any of them.
        let protocol = if assignors.iter().all(cooperates) {
            RebalanceProtocol::Cooperative
        } else {
            RebalanceProtocol::Eager
        };
        Some(Membership {
            identity: Identity::new(Arc::clone(&group), instance_id),
            assignors,
            protocol,
            assignor: 0,
            wanted: None,
            state: State::Unjoined,
            joined: BTreeSet::new(),
            holding: Holding::default(),
            last: (None, -1),
            is_lost: false,
            rejoin: None,
            lead: None,
            must_compare: false,
            seen_view: 0,
            heartbeats: Heartbeats::new(config.heartbeat_interval, config.session_timeout),
            commits: Commits::default(),
            searches: Searches::default(),
            polls: Polls::new(config.max_poll_interval),
            next_auto_commit: None,
            commit_until: None,
            trouble: None,
            failures: 0,
            retry_at: None,
            leaving: None,
            was_waiting: false,
            config: Arc::clone(config),
            group,
        })
    }

    // --- what callers want

    pub(crate) fn subscribe(&mut self, now: Instant, cluster: &mut Cluster, selection: Selection) {
        let before = self.wanted.take();
        // First wanted anew, so that topics that stay are not forgotten in between.
        self.wanted = Some(Wanted::new(now, cluster, selection));
        if let Some(before) = before {
            before.release(cluster);
        }
        self.leaving = None;
        self.must_compare = true;
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.wanted.is_some()
    }

    /// Has the member leave: partitions are given up as for a rebalance, while a caller polls or waits for the end of this.
    pub(crate) fn leave(&mut self, core: &mut Core, deadline: Instant) {
        self.leaving = Some(deadline);
        match self.state {
            State::Joining(call) | State::Syncing(call) => {
                core.calls.cancel(&mut core.cluster, call);
                self.state = State::Unjoined;
            }
            State::Leading | State::Dropping { .. } => self.state = State::Unjoined,
            _ => {}
        }
        self.release_lead(&mut core.cluster);
        self.holding.drop_added();
    }

    /// The time to leave is over: the rest of it is left out, and callers own nothing any more.
    pub(crate) fn abandon(&mut self, now: Instant, core: &mut Core) {
        if self.leaving.is_none() {
            return;
        }
        if let State::Leaving(call) = self.state {
            core.calls.cancel(&mut core.cluster, call);
        } else if self.wanted.is_some() {
            self.say_goodbye(now, core, LEAVES);
        }
        self.holding.clear();
        self.left(core);
    }

    /// Whether the member is still leaving.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Who callers are in the group: the member of the last assignment, also after the group went on without it.
    pub(crate) fn metadata(&self) -> GroupMetadata {
        match self.wanted {
            Some(_) => self.identity.as_assigned(),
            None => GroupMetadata::outside(Arc::clone(&self.group)),
        }
    }

    /// Who requests to the coordinator name.
    fn present(&self) -> GroupMetadata {
        match self.wanted {
            Some(_) => self.identity.present(),
            None => GroupMetadata::outside(Arc::clone(&self.group)),
        }
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        self.polls.pulse()
    }

    /// Commits these offsets by the deadline.
    ///
    /// # Errors
    /// `Kind::CommitFailed`: the member has no say at the moment.
    pub(crate) fn commit(
        &mut self,
        offsets: Vec<GroupOffset>,
        deadline: Instant,
        awaited: bool,
    ) -> Result<CommitId, Error> {
        if self.wanted.is_some() {
            if self.protocol == RebalanceProtocol::Eager && self.is_between_generations() {
                return Err(rebalancing(&self.group));
            }
            if !self.identity.is_member() {
                return Err(not_a_member(&self.group));
            }
        }
        Ok(self.commits.add(offsets, deadline, awaited))
    }

    pub(crate) fn take_commit(&mut self, id: CommitId) -> Option<Result<(), Error>> {
        self.commits.take(id)
    }

    pub(crate) fn give_up_commit(&mut self, id: CommitId) {
        self.commits.give_up(id);
    }

    // --- polls

    pub(crate) fn poll_began(&mut self) {
        self.polls.begin();
    }

    pub(crate) fn poll_ended(&mut self, now: Instant) {
        self.polls.end(now);
    }

    /// When the next poll has to begin at the latest.
    pub(crate) fn poll_due(&self) -> Option<Instant> {
        self.polls.due()
    }

    /// Whether a caller that polls has to say how far it has read: a rebalance or a commit waits for it.
    pub(crate) fn wants_given(&self, now: Instant) -> bool {
        self.may_prepare(now) || self.is_auto_commit_due(now)
    }

    /// Takes in how far callers have read, in a poll: all that was given out before. It is used at once or not at all, as
    /// positions move on.
    pub(crate) fn note_given(&mut self, now: Instant, core: &mut Core, offsets: Vec<GroupOffset>) {
        if self.may_prepare(now) {
            self.prepare(now, core, offsets);
        } else if self.is_auto_commit_due(now) {
            self.next_auto_commit = self.auto_commit_after(now);
            self.auto_commit(now, offsets);
        }
    }

    /// Whether nothing may be given out until a listener was told, or offsets were committed.
    pub(crate) fn is_held(&self) -> bool {
        let prepares = matches!(self.state, State::Committing(_) | State::Revoking);
        prepares || !self.holding.is_told()
    }

    /// What [`Membership::take_rebalance`] would give.
    pub(crate) fn next_rebalance(&self) -> Option<&Rebalance> {
        self.holding.next()
    }

    /// The next change that listeners have to be told, after which [`Membership::told`] is called.
    pub(crate) fn take_rebalance(&mut self) -> Option<Rebalance> {
        self.holding.take()
    }

    /// Listeners were told what [`Membership::take_rebalance`] gave.
    pub(crate) fn told(&mut self) {
        self.holding.told();
    }

    /// What is owned, if that changed since the last call.
    pub(crate) fn take_news(&mut self) -> Option<Vec<TopicPartition>> {
        self.holding.take_news()
    }

    /// The error that polls raise.
    pub(crate) fn obstacle(&self) -> Option<&Error> {
        let refusal = || self.wanted.as_ref().and_then(Wanted::refusal);
        self.trouble.as_ref().or_else(refusal)
    }

    // --- offsets committed before

    pub(crate) fn seek_committed(&mut self, sought: Vec<Sought>) {
        self.searches.want(sought);
    }

    pub(crate) fn take_found(&mut self) -> Vec<Found> {
        self.searches.take_found()
    }

    // --- steps

    pub(super) fn step(&mut self, now: Instant, core: &mut Core) {
        if self.is_member() && self.polls.is_late(now) {
            self.stop(now, core);
        }
        if let Some(due) = self.polls.due().filter(|due| *due > now) {
            core.cluster.set_alarm(due);
        }
        if let Some(wanted) = &mut self.wanted {
            wanted.pump(now, core);
        }
        self.watch(&mut core.cluster);
        self.advance(now, core);
        if self.beats() {
            let member = self.present();
            self.heartbeats.pump(now, core, &member);
        }
        if !self.is_between_generations() {
            let member = self.present();
            self.commits.pump(now, core, &member);
        }
        self.searches.pump(now, core, &self.group);
        self.wait(now, core);
    }

    pub(super) fn ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        let id = ended.id;
        if self.commits.is_running(id) {
            if let Some((member, error)) = self.commits.handle_ended(core, ended) {
                self.commit_refused(core, &member, &error);
            }
        } else if self.searches.is_running(id) {
            self.searches.handle_ended(ended);
        } else if let Some(generation) = self.heartbeats.ended(id) {
            if let Some(result) = ended.answer::<Heartbeat>() {
                self.heard(now, core, generation, result);
            }
        } else if self.wanted.as_ref().is_some_and(|it| it.is_listing(id)) {
            if let Some(wanted) = &mut self.wanted {
                wanted.handle_listing(now, &mut core.cluster, ended);
                self.must_compare = true;
            }
        } else {
            match self.state {
                State::Joining(call) if call == id => {
                    if let Some(result) = ended.answer::<JoinGroup>() {
                        self.handle_join(now, core, result);
                    }
                }
                State::Syncing(call) if call == id => {
                    if let Some(result) = ended.answer::<SyncGroup>() {
                        self.handle_sync(now, core, result);
                    }
                }
                State::Leaving(call) if call == id => self.left(core),
                _ => {}
            }
        }
    }

    pub(super) fn close(&mut self, core: &mut Core, cause: &Error) {
        self.commits.abort(core, cause);
        self.searches.clear();
        self.polls.pulse().set_needs_poll(false);
    }

    /// Whether the coordinator takes it for a member, or soon will.
    fn is_member(&self) -> bool {
        self.identity.is_member() || matches!(self.state, State::Joining(_))
    }

    fn is_between_generations(&self) -> bool {
        matches!(
            self.state,
            State::Joining(_) | State::Leading | State::Syncing(_)
        )
    }

    /// Whether the coordinator has to hear of the member. One that joins is waited for.
    fn beats(&self) -> bool {
        self.identity.is_member() && !matches!(self.state, State::Joining(_) | State::Leaving(_))
    }

    fn may_prepare(&self, now: Instant) -> bool {
        if !self.holding.is_told() {
            return false;
        }
        if matches!(self.state, State::Dropping { .. }) {
            return true;
        }
        if self.leaving.is_some() {
            return matches!(self.state, State::Unjoined | State::Stable);
        }
        let Some(wanted) = &self.wanted else {
            return false;
        };
        let is_wished = match self.state {
            State::Unjoined => true,
            State::Stable => self.rejoin.is_some(),
            _ => false,
        };
        // Nothing follows, but for callers to hear of what is lost.
        let has_ended = self.has_ended() && !self.is_lost;
        let waits = self.retry_at.is_some_and(|at| at > now);
        is_wished && !has_ended && !waits && wanted.is_known()
    }

    /// Whether the member will never join again.
    fn has_ended(&self) -> bool {
        self.trouble.as_ref().map(Error::kind) == Some(Kind::Fenced)
    }

    fn is_auto_commit_due(&self, now: Instant) -> bool {
        let due = self.next_auto_commit.is_some_and(|at| at <= now);
        let is_settled = match self.wanted {
            Some(_) => matches!(self.state, State::Stable) && !self.is_held(),
            None => true,
        };
        due && is_settled && self.config.enable_auto_commit
    }

    fn auto_commit_after(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.config.auto_commit_interval.max(SHORTEST_INTERVAL))
    }

    /// Commits what of these offsets is still this consumer's.
    fn auto_commit(&mut self, now: Instant, mut offsets: Vec<GroupOffset>) {
        if self.wanted.is_some() {
            let owned = self.holding.owned();
            offsets.retain(|it| owned.contains(&(Arc::clone(&it.topic), it.partition)));
        }
        if offsets.is_empty() || !self.config.enable_auto_commit {
            return;
        }
        let deadline = self.commits_at_most(now);
        let deadline = deadline.min(now + self.config.default_api_timeout);
        self.commits.add(offsets, deadline, false);
    }

    fn advance(&mut self, now: Instant, core: &mut Core) {
        if self.next_auto_commit.is_none() {
            self.next_auto_commit = self.auto_commit_after(now);
        }
        let is_committing = matches!(self.state, State::Committing(_));
        if is_committing && self.has_committed(now, core) {
            let state = std::mem::replace(&mut self.state, State::Revoking);
            match state {
                State::Committing(After::Drop { dropped, added }) => {
                    self.rejoin = Some("partitions were given up for other members");
                    self.state = State::Stable;
                    self.tell(core, Rebalance::Revoked(dropped));
                    self.tell(core, Rebalance::Assigned(added));
                }
                _ => self.give_up(core),
            }
        }
        if matches!(self.state, State::Revoking)
            && self.holding.is_told()
            && (!self.identity.is_member() || self.has_committed(now, core))
        {
            core.cluster.context.changes.tell(Change::Group);
            if self.leaving.is_some() {
                self.depart(now, core);
            } else if self.has_ended() {
                self.state = State::Unjoined;
            } else {
                // What listeners committed is of the generation that ends here.
                let error = rebalancing(&self.group);
                self.commits.refuse_waiting(core, &error);
                self.join(now, core);
            }
        }
        if matches!(self.state, State::Leading) {
            self.assign(now, core);
        }
    }

    /// Whether no commit is under way, or the group can wait for it no longer.
    fn has_committed(&self, now: Instant, core: &mut Core) -> bool {
        let latest = self.commit_until.filter(|latest| *latest > now);
        if let Some(latest) = latest.filter(|_| !self.commits.is_idle()) {
            core.cluster.set_alarm(latest);
            return false;
        }
        true
    }

    /// Until when commits may take before partitions are given up: waiting for them must not use up the time in which the group
    /// waits for this member.
    fn commits_at_most(&self, now: Instant) -> Instant {
        let latest = now + self.config.max_poll_interval / 2;
        self.leaving.map_or(latest, |leaving| leaving.min(latest))
    }

    fn prepare(&mut self, now: Instant, core: &mut Core, given: Vec<GroupOffset>) {
        self.commit_until = Some(self.commits_at_most(now));
        if let State::Dropping { dropped, added } =
            std::mem::replace(&mut self.state, State::Unjoined)
        {
            self.auto_commit(now, given);
            self.state = State::Committing(After::Drop { dropped, added });
            return;
        }
        if std::mem::take(&mut self.is_lost) {
            self.state = State::Revoking;
            let owned: Vec<_> = self.holding.owned().iter().cloned().collect();
            if !owned.is_empty() {
                self.tell(core, Rebalance::Lost(owned));
            }
            return;
        }
        if self.wanted.is_none() || self.identity.is_member() {
            self.auto_commit(now, given);
        }
        if let Some(reason) = self.rejoin {
            core.cluster.context.observer.tell(Observed::Rebalancing {
                group: Arc::clone(&self.group),
                reason,
            });
        }
        self.state = State::Committing(After::GiveUp);
    }

    /// Tells what has to be given up before the member joins.
    fn give_up(&mut self, core: &mut Core) {
        self.state = State::Revoking;
        let all = self.leaving.is_some() || self.protocol == RebalanceProtocol::Eager;
        let is_unwanted = |topic: &str| {
            let wanted = self.wanted.as_ref();
            !wanted.is_some_and(|wanted| wanted.contains(topic))
        };
        let gone = self.holding.owned().iter();
        let gone = gone.filter(|(topic, _)| all || is_unwanted(topic));
        let gone: Vec<_> = gone.cloned().collect();
        if !gone.is_empty() {
            self.tell(core, Rebalance::Revoked(gone));
        }
    }

    fn tell(&mut self, core: &mut Core, change: Rebalance) {
        self.holding.tell(change);
        core.cluster.context.changes.tell(Change::Group);
    }

    fn join(&mut self, now: Instant, core: &mut Core) {
        let Some(wanted) = &self.wanted else {
            self.state = State::Unjoined;
            return;
        };
        self.joined = wanted.names().cloned().collect();
        let reason = self.rejoin.take();
        let last = Owned {
            partitions: self.last.0.clone(),
            generation: self.last.1,
        };
        let mut protocols = Vec::with_capacity(self.assignors.len());
        for assignor in &self.assignors {
            let subscription = Subscription {
                topics: self.joined.iter().cloned().collect(),
                user_data: assignor.user_data(&last),
                owned: self.holding.owned().iter().cloned().collect(),
                generation: self.identity.generation(),
                rack: self.config.client_rack.as_deref().map(Arc::from),
            };
            match subscription.encode() {
                Ok(metadata) => protocols.push((assignor.name(), metadata)),
                Err(error) => return self.refuse(now, core, error),
            }
        }
        let call = JoinGroup {
            member: self.present(),
            session_timeout: self.config.session_timeout,
            rebalance_timeout: self.config.max_poll_interval,
            protocols,
            reason,
        };
        let deadline = now + self.config.max_poll_interval + self.config.request_timeout * 2;
        self.state = State::Joining(core.start_once(now, call, deadline));
    }

    fn handle_join(&mut self, now: Instant, core: &mut Core, result: Result<Admission, Error>) {
        self.release_lead(&mut core.cluster);
        let joined = match result {
            Ok(Admission::Named(id)) => {
                let is_first = !self.identity.is_named();
                self.identity.name(id);
                if is_first {
                    return self.join(now, core);
                }
                let error = Error::from_code(ErrorCode::MEMBER_ID_REQUIRED, None);
                return self.pause(now, core, error.group_is(&self.group));
            }
            Ok(Admission::Joined(joined)) => joined,
            Err(error) => return self.failed(now, core, error),
        };
        let Joined {
            generation,
            member_id,
            protocol,
            is_leader,
            keeps_assignment,
            members,
        } = joined;
        let mut known = self.assignors.iter();
        let known = known.position(|assignor| assignor.name() == protocol);
        let Some(assignor) = known.filter(|_| generation >= 0 && !member_id.is_empty()) else {
            let text = format!(
                "the coordinator names generation {generation}, member {member_id:?} and assignor {protocol:?}, of which one \
                 cannot be"
            );
            let error = Error::new(Kind::Protocol, text).group_is(&self.group);
            return self.refuse(now, core, error);
        };
        self.assignor = assignor;
        self.identity.admit(generation, member_id);
        self.heartbeats.restart(now);
        if !is_leader {
            return self.sync(now, core, Vec::new());
        }
        let mut lead = Lead::new(now, &mut core.cluster, &self.group, members);
        if keeps_assignment {
            lead.note(core.cluster.view());
            self.lead = Some(lead);
            return self.sync(now, core, Vec::new());
        }
        self.lead = Some(lead);
        self.state = State::Leading;
    }

    fn assign(&mut self, now: Instant, core: &mut Core) {
        let Some(lead) = &mut self.lead else {
            return;
        };
        let latest = lead.since() + LEAD_AT_MOST.min(self.config.session_timeout);
        if !lead.is_ready(&core.cluster) && now < latest {
            return core.cluster.set_alarm(latest);
        }
        let Some(assignor) = self.assignors.get(self.assignor) else {
            return;
        };
        match lead.assign(core.cluster.view(), *assignor) {
            Ok(assignments) => self.sync(now, core, assignments),
            Err(error) => self.refuse(now, core, error),
        }
    }

    fn sync(&mut self, now: Instant, core: &mut Core, assignments: Vec<(Arc<str>, Bytes)>) {
        let Some(assignor) = self.assignors.get(self.assignor) else {
            return;
        };
        let call = SyncGroup {
            member: self.present(),
            rebalance_timeout: self.config.max_poll_interval,
            protocol: assignor.name(),
            assignments,
        };
        let deadline = now + self.config.max_poll_interval + self.config.request_timeout * 2;
        self.state = State::Syncing(core.start_once(now, call, deadline));
    }

    fn handle_sync(&mut self, now: Instant, core: &mut Core, result: Result<Bytes, Error>) {
        let assignment = result.and_then(|bytes| {
            Assignment::decode(bytes).map_err(|error| error.group_is(&self.group))
        });
        let assignment = match assignment {
            Ok(assignment) => assignment,
            Err(error) => return self.failed(now, core, error),
        };
        // Any client may have assigned it, and what the member wants may have changed since.
        let wanted = self.wanted.as_ref();
        let is_wanted = |topic: &str| wanted.is_some_and(|wanted| wanted.contains(topic));
        let partitions = assignment.partitions.into_iter();
        let assigned: BTreeSet<_> = partitions.filter(|(topic, _)| is_wanted(topic)).collect();
        self.identity.assign();
        let dropped: Vec<_> = self
            .holding
            .owned()
            .difference(&assigned)
            .cloned()
            .collect();
        let added: Vec<_> = assigned.difference(self.holding.owned()).cloned().collect();
        core.cluster.context.observer.tell(Observed::GroupJoined {
            group: Arc::clone(&self.group),
            member_id: Arc::clone(self.identity.member_id()),
            generation: self.identity.generation(),
            partitions: assigned.len(),
        });
        self.last = (
            Some(assigned.into_iter().collect()),
            self.identity.generation(),
        );
        self.failures = 0;
        self.retry_at = None;
        self.trouble = None;
        self.next_auto_commit = self.auto_commit_after(now);
        self.must_compare = true;
        if dropped.is_empty() {
            self.state = State::Stable;
            self.tell(core, Rebalance::Assigned(added));
        } else {
            self.state = State::Dropping { dropped, added };
            core.cluster.context.changes.tell(Change::Group);
        }
    }

    /// JoinGroup or SyncGroup failed.
    fn failed(&mut self, now: Instant, core: &mut Core, error: Error) {
        self.release_lead(&mut core.cluster);
        self.rejoin.get_or_insert("the last attempt to join failed");
        match consequence(&error) {
            Consequence::Tell => return self.refuse(now, core, error),
            Consequence::End => return self.end(core, error),
            Consequence::Elsewhere => {
                let kind = CoordinatorType::Group;
                core.cluster.forget_coordinator(kind, &self.group);
            }
            Consequence::Again => {}
            Consequence::Rejoin => {
                self.state = State::Unjoined;
                core.cluster.context.changes.tell(Change::Group);
                return;
            }
            Consequence::LoseGeneration => self.lose(core, false, &error.to_string()),
            Consequence::LoseId => self.lose(core, true, &error.to_string()),
        }
        self.pause(now, core, error);
    }

    /// Polls raise the error, and the member tries again.
    fn refuse(&mut self, now: Instant, core: &mut Core, error: Error) {
        let names: Vec<_> = self.assignors.iter().map(|it| it.name()).collect();
        self.trouble = Some(explained(error.clone(), &names).group_is(&self.group));
        core.cluster.context.changes.tell(Change::Records);
        self.pause(now, core, error);
    }

    /// Nothing helps any more.
    fn end(&mut self, core: &mut Core, error: Error) {
        let names: Vec<_> = self.assignors.iter().map(|it| it.name()).collect();
        self.lose(core, true, &error.to_string());
        self.trouble = Some(explained(error, &names).group_is(&self.group));
        core.cluster.context.changes.tell(Change::Records);
    }

    fn pause(&mut self, now: Instant, core: &mut Core, cause: Error) {
        self.state = State::Unjoined;
        self.failures = self.failures.saturating_add(1);
        let pause = core.cluster.retry_pause(self.failures);
        self.retry_at = Some(now + pause);
        core.cluster.context.observer.tell(Observed::Retried {
            cause,
            attempts: self.failures,
            pause,
        });
    }

    /// The group goes on without this member.
    fn lose(&mut self, core: &mut Core, id: bool, reason: &str) {
        if self.identity.is_member() {
            core.cluster
                .context
                .observer
                .tell(Observed::MembershipLost {
                    group: Arc::clone(&self.group),
                    reason: reason.to_owned(),
                });
        }
        self.identity.lose(!id);
        if let State::Joining(call) | State::Syncing(call) = self.state {
            core.calls.cancel(&mut core.cluster, call);
        }
        self.state = State::Unjoined;
        self.release_lead(&mut core.cluster);
        self.is_lost = true;
        self.rejoin = Some("the member is to join anew");
        // What was to be given up is given up with all the rest, and what was to be added is not its own any more.
        self.holding.drop_untold();
        let error = not_a_member(&self.group);
        self.commits.refuse_waiting(core, &error);
        core.cluster.context.changes.tell(Change::Group);
    }

    /// The application does not poll: its partitions go to members that do.
    fn stop(&mut self, now: Instant, core: &mut Core) {
        self.say_goodbye(
            now,
            core,
            "the application did not poll for max.poll.interval.ms",
        );
        let text = format!(
            "no poll came for {} ms (max.poll.interval.ms): raise it, or lower max.poll.records so that polls come sooner",
            self.config.max_poll_interval.as_millis()
        );
        self.lose(core, true, &text);
    }

    /// Leaves the group without waiting for the answer.
    fn say_goodbye(&mut self, now: Instant, core: &mut Core, reason: &'static str) {
        if !self.identity.is_static() && self.identity.is_named() {
            let call = LeaveGroup {
                member: self.present(),
                reason,
            };
            core.start_once(now, call, now + self.config.session_timeout);
        }
    }

    fn depart(&mut self, now: Instant, core: &mut Core) {
        let deadline = self.leaving.unwrap_or(now);
        if self.identity.is_static() || !self.identity.is_named() || self.wanted.is_none() {
            return self.left(core);
        }
        let call = LeaveGroup {
            member: self.present(),
            reason: LEAVES,
        };
        self.state = State::Leaving(core.start_once(now, call, deadline));
    }

    fn left(&mut self, core: &mut Core) {
        self.state = State::Unjoined;
        self.identity.forget();
        self.is_lost = false;
        self.rejoin = None;
        self.trouble = None;
        self.last = (None, -1);
        if self.wanted.is_some() {
            let error = not_a_member(&self.group);
            self.commits.refuse_waiting(core, &error);
        }
        // Unless something was subscribed to since.
        if self.leaving.take().is_some() {
            if let Some(wanted) = self.wanted.take() {
                wanted.release(&mut core.cluster);
            }
        }
        self.release_lead(&mut core.cluster);
        core.cluster.context.changes.tell(Change::Group);
    }

    fn release_lead(&mut self, cluster: &mut Cluster) {
        if let Some(lead) = self.lead.take() {
            lead.release(cluster);
        }
    }

    fn heard(&mut self, now: Instant, core: &mut Core, of: i32, result: Result<(), Error>) {
        if of != self.identity.generation() {
            return;
        }
        let Err(error) = result else {
            // What a caller had to mend is mended.
            self.trouble.take_if(|it| it.kind() != Kind::Fenced);
            return;
        };
        match consequence(&error) {
            // JoinGroup makes a generation out of date.
            Consequence::LoseGeneration if matches!(self.state, State::Joining(_)) => {}
            Consequence::Rejoin => {
                // While the leader assigns, the others are told this, too.
                if matches!(self.state, State::Stable) {
                    self.rejoin.get_or_insert("the group rebalances");
                }
            }
            Consequence::LoseGeneration => self.lose(core, false, &error.to_string()),
            Consequence::LoseId => self.lose(core, true, &error.to_string()),
            Consequence::End => self.end(core, error),
            Consequence::Tell => self.refuse_heartbeat(core, error),
            Consequence::Elsewhere | Consequence::Again => {
                if consequence(&error) == Consequence::Elsewhere {
                    let kind = CoordinatorType::Group;
                    core.cluster.forget_coordinator(kind, &self.group);
                }
                let pause = core.cluster.retry_pause(1);
                self.heartbeats.pause(now, pause);
            }
        }
    }

    fn refuse_heartbeat(&mut self, core: &mut Core, error: Error) {
        self.trouble = Some(error.group_is(&self.group));
        core.cluster.context.changes.tell(Change::Records);
    }

    /// A commit tells as much about the membership as a heartbeat does, unless it was one of an earlier generation.
    fn commit_refused(&mut self, core: &mut Core, member: &GroupMetadata, error: &Error) {
        let is_present = self.wanted.is_some() && *member == self.identity.present();
        if !is_present || self.is_between_generations() {
            return;
        }
        match consequence(error) {
            Consequence::Rejoin if matches!(self.state, State::Stable) => {
                self.rejoin.get_or_insert("the group rebalances");
            }
            Consequence::End => self.end(core, error.clone()),
            Consequence::LoseGeneration => self.lose(core, false, &error.to_string()),
            Consequence::LoseId => self.lose(core, true, &error.to_string()),
            _ => {}
        }
    }

    /// Looks whether the topics have changed.
    fn watch(&mut self, cluster: &mut Cluster) {
        let Some(wanted) = &mut self.wanted else {
            return;
        };
        let is_new = self.seen_view != cluster.view_version();
        if !is_new && !self.must_compare {
            return;
        }
        self.seen_view = cluster.view_version();
        if is_new && wanted.look(cluster) {
            cluster.context.changes.tell(Change::Records);
        }
        self.must_compare = true;
        if !matches!(self.state, State::Stable) || self.rejoin.is_some() {
            return;
        }
        self.must_compare = false;
        if !wanted.names().eq(self.joined.iter()) {
            self.rejoin = Some("the topics that this member wants have changed");
        } else if self.lead.as_ref().is_some_and(|it| it.is_outdated(cluster)) {
            self.rejoin = Some("the partitions of a topic have changed");
        }
    }

    /// Tells callers, and loops over records, what waits for a poll; asks to be called when something will.
    fn wait(&mut self, now: Instant, core: &mut Core) {
        let waits = self.wants_given(now);
        if waits && !self.was_waiting {
            core.cluster.context.changes.tell(Change::Group);
        }
        self.was_waiting = waits;
        self.polls.pulse().set_needs_poll(waits || self.is_held());
        let commits = self.next_auto_commit;
        let commits = commits.filter(|_| self.config.enable_auto_commit);
        for at in self.retry_at.into_iter().chain(commits) {
            if at > now {
                core.cluster.set_alarm(at);
            }
        }
    }
}
