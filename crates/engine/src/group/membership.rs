//! State machine of a group member: join, revoke, commit, leave. The steps of each protocol are in the files of this folder.

mod classic;
mod consumer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::call::{
    CallId, ConsumerGroupHeartbeat, DescribeGroups, Ended, GroupMetadata, GroupOffset, Heartbeat,
    JoinGroup, LeaveGroup, SyncGroup, TopicNames,
};
use crate::change::Change;
use crate::cluster::{Cluster, CoordinatorType};
use crate::config::{Config, GroupProtocol, OffsetsStorage};
use crate::error::{Error, Kind};
use crate::group::assignor::{RebalanceProtocol, TopicPartition};
use crate::group::classic::Classic;
use crate::group::commits::{CommitId, Commits};
use crate::group::committed_lookups::{CommittedLookups, Found, Sought};
use crate::group::errors::{
    Consequence, consequence, consequence_inside, explained, no_members, no_metadata, no_regex,
    not_a_member, rebalancing,
};
use crate::group::identity::Identity;
use crate::group::ownership::{Ownership, Rebalance};
use crate::group::poll_deadline::PollDeadline;
use crate::group::pulse::Pulse;
use crate::group::session::Session;
use crate::group::wanted::{Selection, Wanted};
use crate::metrics::Meters;
use crate::observe::Observed;
use crate::part::Core;

pub(crate) use self::consumer::member_id;

/// With none at all, a loop over records would commit before each of them, and never come to it.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

const LEAVES: &str = "the consumer unsubscribed or is being closed";

const STOPS: &str = "the application did not poll for max.poll.interval.ms";

/// How the group shares partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// A member assigns.
    Classic,
    /// The coordinator assigns (KIP-848).
    Consumer,
}

#[derive(Debug)]
enum State {
    /// Not a member, or one that is to rejoin: no request is in flight.
    Unjoined,
    /// Offsets are committed before partitions are revoked.
    Committing(After),
    /// Listeners are notified of the revoked partitions.
    Revoking,
    Joining(CallId),
    /// As leader, until the topics of all members are known.
    Leading,
    /// An assignor of the caller is called, before the member joins or as leader.
    Asking,
    Syncing(CallId),
    /// Partitions that the new assignment lacks are dropped (KIP-429, KIP-848), once a caller reports their positions.
    Dropping {
        dropped: Vec<TopicPartition>,
        added: Vec<TopicPartition>,
    },
    Stable,
    Leaving(CallId),
}

/// The step after a commit.
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
    /// `None` until brokers return the protocols that they support, if that decides.
    protocol: Option<Protocol>,
    classic: Classic,
    session: Session,
    wanted: Option<Wanted>,
    state: State,
    ownership: Ownership,
    /// The group continued without this member, and it no longer owns its partitions.
    is_lost: bool,
    /// Why the member has to join again.
    rejoin: Option<&'static str>,
    /// The topics wanted have changed.
    must_compare: bool,
    seen_view: u64,
    commits: Commits,
    committed_lookups: CommittedLookups,
    poll_deadline: PollDeadline,
    next_auto_commit: Option<Instant>,
    /// The deadline of commits: after it, partitions are revoked without waiting for them.
    commit_until: Option<Instant>,
    trouble: Option<Error>,
    failures: u32,
    retry_at: Option<Instant>,
    /// The member is to leave, and to be done by then.
    leaving: Option<Instant>,
    was_waiting: bool,
    /// Since when what is owned is being changed.
    changing: Option<Instant>,
}

impl Membership {
    /// The membership of a consumer with these settings; `None` if it has no group.
    pub(crate) fn new(config: &Arc<Config>) -> Option<Membership> {
        let group: Arc<str> = config.group_id.as_deref()?.into();
        let instance_id = config.group_instance_id.as_deref().map(Arc::from);
        Some(Membership {
            identity: Identity::new(Arc::clone(&group), instance_id),
            protocol: match config.group_protocol {
                GroupProtocol::Classic => Some(Protocol::Classic),
                GroupProtocol::Consumer => Some(Protocol::Consumer),
                GroupProtocol::Auto => None,
            },
            classic: Classic::new(config),
            session: Session::new(),
            wanted: None,
            state: State::Unjoined,
            ownership: Ownership::default(),
            is_lost: false,
            rejoin: None,
            must_compare: false,
            seen_view: 0,
            commits: Commits::default(),
            committed_lookups: CommittedLookups::default(),
            poll_deadline: PollDeadline::new(config.max_poll_interval),
            next_auto_commit: None,
            commit_until: None,
            trouble: None,
            failures: 0,
            retry_at: None,
            leaving: None,
            was_waiting: false,
            changing: None,
            config: Arc::clone(config),
            group,
        })
    }

    // --- what callers want

    /// # Errors
    /// `Kind::Argument` for an expression that the coordinator is to match, where the settings say that it does not assign, or if
    /// offsets are kept in ZooKeeper; nothing was changed.
    pub(crate) fn subscribe(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        selection: Selection,
    ) -> Result<(), Error> {
        if self.config.offsets_storage == OffsetsStorage::ZooKeeper {
            return Err(no_members());
        }
        let never_matched = self.config.group_protocol == GroupProtocol::Classic;
        if never_matched && matches!(selection, Selection::Regex(_)) {
            return Err(no_regex());
        }
        let before = self.wanted.take();
        // The new topics are wanted before the old ones are released, so that topics in both are not forgotten in between.
        self.wanted = Some(Wanted::new(now, cluster, selection, before.as_ref()));
        if let Some(before) = before {
            before.release(cluster);
        }
        self.leaving = None;
        self.must_compare = true;
        self.session.hear_anew();
        Ok(())
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.wanted.is_some()
    }

    /// Makes the member leave: partitions are revoked as for a rebalance, while a caller polls or waits for the end of this.
    pub(crate) fn leave(&mut self, core: &mut Core, deadline: Instant) {
        self.leaving = Some(deadline);
        match self.state {
            State::Joining(call) | State::Syncing(call) => {
                core.calls.cancel(&mut core.cluster, call);
                self.state = State::Unjoined;
                self.session.begin_anew();
            }
            State::Leading | State::Asking | State::Dropping { .. } => {
                self.state = State::Unjoined;
            }
            _ => {}
        }
        self.classic.asking.drop_question();
        self.release_lead(&mut core.cluster);
        self.ownership.drop_added();
        if self.is_consumer() {
            // The coordinator's assignment is no longer valid.
            self.rejoin = Some("it subscribed again while it was leaving");
        }
    }

    /// The time to leave is over: the remaining steps are skipped, and callers own nothing.
    pub(crate) fn abandon(&mut self, now: Instant, core: &mut Core) {
        if self.leaving.is_none() {
            return;
        }
        if let State::Leaving(call) = self.state {
            core.calls.cancel(&mut core.cluster, call);
        } else if self.wanted.is_some() {
            self.say_goodbye(now, core, LEAVES, now + self.config.session_timeout);
        }
        self.ownership.clear();
        self.left(core);
    }

    /// Whether the member is still leaving.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// The identity of callers in the group: the member of the last assignment, also after the group continued without it.
    pub(crate) fn metadata(&self) -> GroupMetadata {
        match self.wanted {
            Some(_) => self.identity.as_assigned(),
            None => GroupMetadata::outside(Arc::clone(&self.group)),
        }
    }

    /// The member in requests to the coordinator.
    fn present(&self) -> GroupMetadata {
        match self.wanted {
            Some(_) => self.identity.present(),
            None => GroupMetadata::outside(Arc::clone(&self.group)),
        }
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        self.poll_deadline.pulse()
    }

    /// Commits these offsets by the deadline.
    ///
    /// # Errors
    /// `Kind::CommitFailed`: the member has no say at the moment. `Kind::Argument` for metadata that would not be kept.
    pub(crate) fn commit(
        &mut self,
        offsets: Vec<GroupOffset>,
        deadline: Instant,
        awaited: bool,
    ) -> Result<CommitId, Error> {
        if self.wanted.is_some() {
            // A member that joins has revoked everything.
            let joins_with_nothing = self.is_eager() || self.is_consumer();
            if joins_with_nothing && self.is_between_generations() {
                return Err(rebalancing(&self.group));
            }
            if !self.identity.is_member() {
                return Err(not_a_member(&self.group));
            }
        }
        let in_zookeeper = self.config.offsets_storage == OffsetsStorage::ZooKeeper;
        if in_zookeeper && offsets.iter().any(|it| !it.metadata.is_empty()) {
            return Err(no_metadata());
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
        self.poll_deadline.begin();
    }

    pub(crate) fn poll_ended(&mut self, now: Instant) {
        self.poll_deadline.end(now);
    }

    /// When the next poll has to begin at the latest.
    pub(crate) fn poll_due(&self) -> Option<Instant> {
        self.poll_deadline.due()
    }

    /// Whether a caller that polls has to report its positions: a rebalance or a commit waits for them.
    pub(crate) fn wants_given(&self, now: Instant) -> bool {
        self.may_prepare(now) || self.is_auto_commit_due(now)
    }

    /// Handles the positions of callers, in a poll: after all records that were returned before. They are used at once or not at all, as
    /// positions change.
    pub(crate) fn note_given(&mut self, now: Instant, core: &mut Core, offsets: Vec<GroupOffset>) {
        if self.may_prepare(now) {
            self.prepare(now, core, offsets);
        } else if self.is_auto_commit_due(now) {
            self.next_auto_commit = self.auto_commit_after(now);
            self.auto_commit(now, offsets);
        }
    }

    /// Whether no records may be returned until a listener was notified, or offsets were committed.
    pub(crate) fn is_held(&self) -> bool {
        let prepares = matches!(self.state, State::Committing(_) | State::Revoking);
        prepares || !self.ownership.is_told()
    }

    /// The change that [`Membership::take_rebalance`] would return.
    pub(crate) fn next_rebalance(&self) -> Option<&Rebalance> {
        self.ownership.next()
    }

    /// The next change for listeners, after which [`Membership::told`] is called.
    pub(crate) fn take_rebalance(&mut self, now: Instant) -> Option<Rebalance> {
        self.ownership.take(now)
    }

    /// Listeners were notified of the change from [`Membership::take_rebalance`].
    pub(crate) fn told(&mut self, now: Instant, meters: &mut Meters) {
        let Some((began, change)) = self.ownership.told() else {
            return;
        };
        let took = now.saturating_duration_since(began);
        meters.coordinated(now, took, |it| match change {
            Rebalance::Assigned(_) => &mut it.assigned,
            Rebalance::Revoked(_) => &mut it.revoked,
            Rebalance::Lost(_) => &mut it.lost,
        });
    }

    /// The owned partitions, if they changed since the last call.
    pub(crate) fn take_news(&mut self) -> Option<Vec<TopicPartition>> {
        self.ownership.take_news()
    }

    /// Whether an assignor of the caller has to be called: [`Membership::take_question`].
    pub(crate) fn has_question(&self) -> bool {
        self.classic.asking.has_question()
    }

    /// The error that polls raise.
    pub(crate) fn obstacle(&self) -> Option<&Error> {
        let refused = || Some(self.wanted.as_ref()?.refused().next()?.0);
        self.trouble.as_ref().or_else(refused)
    }

    /// A poll raises an error of this topic.
    pub(crate) fn note_raised(&mut self, topic: &str) {
        if let Some(wanted) = &mut self.wanted {
            wanted.refused_mut().note_raised(topic);
        }
    }

    // --- offsets committed before

    pub(crate) fn seek_committed(&mut self, sought: Vec<Sought>) {
        self.committed_lookups.want(sought);
    }

    pub(crate) fn take_found(&mut self) -> Vec<Found> {
        self.committed_lookups.take_found()
    }

    // --- steps

    pub(super) fn step(&mut self, now: Instant, core: &mut Core) {
        if self.is_member() && self.poll_deadline.is_late(now) {
            self.stop(now, core);
        }
        if let Some(due) = self.poll_deadline.due().filter(|due| *due > now) {
            core.cluster.set_alarm(due);
        }
        if let Some(wanted) = &mut self.wanted {
            wanted.pump(now, core);
        }
        self.watch(&mut core.cluster);
        self.share_withheld(now, &mut core.cluster);
        self.choose(now, core);
        self.advance(now, core);
        self.reconcile(now, core);
        if self.beats() {
            self.beat(now, core);
        }
        if !self.is_between_generations() {
            let member = self.present();
            self.commits.pump(now, core, &member);
        }
        let member = self.by_epoch();
        self.committed_lookups.pump(now, core, &self.group, member);
        self.time_rebalance(now, &mut core.cluster.context.meters);
        self.wait(now, core);
    }

    /// Notes when a rebalance begins, and how long it took once listeners know how it ended.
    fn time_rebalance(&mut self, now: Instant, meters: &mut Meters) {
        match self.state {
            // Before its first attempt, between two, or on the way out.
            State::Unjoined | State::Leaving(_) => {}
            State::Stable if self.ownership.is_told() => {
                if let Some(began) = self.changing.take() {
                    meters.rebalanced(now, now.saturating_duration_since(began));
                }
            }
            _ => {
                self.changing.get_or_insert(now);
            }
        }
    }

    /// Sets the gauges of the group.
    pub(super) fn measure(&self, meters: &mut Meters) {
        meters.coordinating.partitions = self.ownership.owned().len();
    }

    pub(super) fn ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        let id = ended.id;
        if self.commits.is_running(id) {
            let (ownership, session) = (&self.ownership, &self.session);
            let is_ours = |it: &TopicPartition| ownership.owned().contains(it) || session.owns(it);
            if let Some((member, error)) = self.commits.handle_ended(core, ended, is_ours) {
                self.commit_refused(now, core, &member, &error);
            }
        } else if self.committed_lookups.is_running(id) {
            self.committed_lookups
                .handle_ended(now, &mut core.cluster, ended);
        } else if let Some(member) = self.classic.heartbeats.ended(id) {
            if let Some(result) = ended.answer::<Heartbeat>() {
                self.heard(now, core, &member, result);
            }
        } else if self.classic.describing == Some(id) {
            if let Some(result) = ended.answer::<DescribeGroups>() {
                self.described(core, result);
            }
        } else if let Some(beat) = self.session.ended(id) {
            if let Some(result) = ended.answer::<ConsumerGroupHeartbeat>() {
                self.heard_as_consumer(now, core, beat, result);
            }
        } else if self.session.is_naming(id) {
            let found = ended.answer::<TopicNames>().and_then(Result::ok);
            self.session.name(now, &mut core.cluster, found);
        } else if self.wanted.as_ref().is_some_and(|it| it.is_listing(id)) {
            if let Some(wanted) = &mut self.wanted {
                wanted.handle_listing(now, &mut core.cluster, ended);
                self.must_compare = true;
            }
        } else {
            match self.state {
                State::Joining(call) if call == id && self.is_consumer() => {
                    if let Some(result) = ended.answer::<ConsumerGroupHeartbeat>() {
                        self.heard_goodbye(now, core, result);
                    }
                }
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
        self.committed_lookups.clear();
        self.poll_deadline.pulse().set_needs_poll(false);
    }

    /// Whether the coordinator takes it for a member, or soon will.
    fn is_member(&self) -> bool {
        self.identity.is_member() || matches!(self.state, State::Joining(_))
    }

    fn is_consumer(&self) -> bool {
        self.protocol == Some(Protocol::Consumer)
    }

    /// Whether a rebalance revokes everything.
    fn is_eager(&self) -> bool {
        !self.is_consumer() && self.classic.rebalances == RebalanceProtocol::Eager
    }

    fn is_between_generations(&self) -> bool {
        matches!(
            self.state,
            State::Joining(_) | State::Leading | State::Asking | State::Syncing(_)
        )
    }

    /// Whether the member must send heartbeats. The coordinator waits for one that joins.
    fn beats(&self) -> bool {
        self.identity.is_member() && !matches!(self.state, State::Joining(_) | State::Leaving(_))
    }

    fn beat(&mut self, now: Instant, core: &mut Core) {
        let member = self.present();
        match self.protocol {
            Some(Protocol::Consumer) => self.beat_as_consumer(now, core, member),
            _ => self.classic.heartbeats.pump(now, core, &member),
        }
    }

    fn may_prepare(&self, now: Instant) -> bool {
        if !self.ownership.is_told() {
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
        // Nothing follows, except that callers are notified of lost partitions.
        let has_ended = self.has_ended() && !self.is_lost;
        let waits = self.retry_at.is_some_and(|at| at > now);
        is_wished && !has_ended && !waits && wanted.is_known() && self.protocol.is_some()
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
            let owned = self.ownership.owned();
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
                    self.state = State::Stable;
                    self.tell(core, Rebalance::Revoked(dropped));
                    // A member that joins by the consumer protocol takes the assignment of that time.
                    if !self.is_consumer() {
                        self.rejoin = Some("partitions were revoked for other members");
                        self.tell(core, Rebalance::Assigned(added));
                    }
                }
                _ => self.give_up(core),
            }
        }
        if matches!(self.state, State::Revoking)
            && self.ownership.is_told()
            && (!self.identity.is_member() || self.has_committed(now, core))
        {
            core.cluster.context.changes.tell(Change::Group);
            if self.leaving.is_some() {
                self.depart(now, core);
            } else if self.has_ended() {
                self.state = State::Unjoined;
            } else {
                // Commits of listeners belong to the generation that ends here.
                let error = rebalancing(&self.group);
                self.commits.refuse_waiting(core, &error);
                self.join(now, core);
            }
        }
        if matches!(self.state, State::Leading) {
            self.assign(now, core);
        }
    }

    /// Whether no commit is in flight, or the group can no longer wait for it.
    fn has_committed(&self, now: Instant, core: &mut Core) -> bool {
        let latest = self.commit_until.filter(|latest| *latest > now);
        if let Some(latest) = latest.filter(|_| !self.commits.is_idle()) {
            core.cluster.set_alarm(latest);
            return false;
        }
        true
    }

    /// The deadline of commits before partitions are revoked: they must not use up the time in which the group waits for this member.
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
            let owned: Vec<_> = self.ownership.owned().iter().cloned().collect();
            if !owned.is_empty() {
                self.tell(core, Rebalance::Lost(owned));
            }
            return;
        }
        if self.wanted.is_none() || self.identity.is_member() {
            self.auto_commit(now, given);
        }
        if let Some(reason) = self.rejoin.filter(|_| self.leaving.is_none()) {
            core.cluster.context.observer.tell(Observed::Rebalancing {
                group: Arc::clone(&self.group),
                reason,
            });
        }
        self.state = State::Committing(After::GiveUp);
    }

    /// Notifies listeners of what is revoked before the member joins.
    fn give_up(&mut self, core: &mut Core) {
        self.state = State::Revoking;
        // A member that joins by the consumer protocol owns nothing.
        let all = self.leaving.is_some() || self.is_eager() || self.is_consumer();
        let is_unwanted = |topic: &str| {
            let wanted = self.wanted.as_ref();
            !wanted.is_some_and(|wanted| wanted.contains(topic))
        };
        let gone = self.ownership.owned().iter();
        let gone = gone.filter(|(topic, _)| all || is_unwanted(topic));
        let gone: Vec<_> = gone.cloned().collect();
        if !gone.is_empty() {
            self.tell(core, Rebalance::Revoked(gone));
        }
    }

    fn tell(&mut self, core: &mut Core, change: Rebalance) {
        self.ownership.tell(change);
        core.cluster.context.changes.tell(Change::Group);
    }

    fn join(&mut self, now: Instant, core: &mut Core) {
        match self.protocol {
            Some(Protocol::Classic) => {
                self.classic.user_data = None;
                self.join_classic(now, core);
            }
            Some(Protocol::Consumer) => self.join_as_consumer(now, core),
            None => self.state = State::Unjoined,
        }
    }

    /// An attempt to join, or to get the assignment, failed.
    fn failed(&mut self, now: Instant, core: &mut Core, error: Error) {
        core.cluster.context.meters.rebalance_failed(now);
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
            // A rebalance that began meanwhile is joined at once, but not over and over.
            Consequence::Rejoin if self.failures == 0 => {
                self.failures = 1;
                self.state = State::Unjoined;
                core.cluster.context.changes.tell(Change::Group);
                return;
            }
            Consequence::Rejoin => {}
            Consequence::LoseGeneration => self.lose(core, false, &error.to_string()),
            Consequence::LoseId => self.lose(core, true, &error.to_string()),
        }
        self.pause(now, core, error);
    }

    /// Polls raise the error, and the member tries again.
    fn refuse(&mut self, now: Instant, core: &mut Core, error: Error) {
        let offered = self.classic.offers();
        self.trouble = Some(explained(error.clone(), &offered).with_group(&self.group));
        core.cluster.context.changes.tell(Change::Records);
        self.pause(now, core, error);
    }

    /// The membership has ended for good.
    fn end(&mut self, core: &mut Core, error: Error) {
        let offered = self.classic.offers();
        self.lose(core, true, &error.to_string());
        self.trouble = Some(explained(error, &offered).with_group(&self.group));
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

    /// The group continues without this member.
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
        // A member that chose its id itself keeps it.
        self.identity.lose(!id || self.is_consumer());
        self.session.begin_anew();
        if let State::Joining(call) | State::Syncing(call) = self.state {
            core.calls.cancel(&mut core.cluster, call);
        }
        self.state = State::Unjoined;
        self.classic.asking.drop_question();
        self.release_lead(&mut core.cluster);
        self.is_lost = true;
        self.rejoin = Some("the member must rejoin");
        // All partitions are lost, also those that were to be revoked; and those that were to be added are not the member's any more.
        self.ownership.drop_untold();
        let error = not_a_member(&self.group);
        self.commits.refuse_waiting(core, &error);
        core.cluster.context.changes.tell(Change::Group);
    }

    /// The application does not poll: its partitions go to members that do.
    fn stop(&mut self, now: Instant, core: &mut Core) {
        self.say_goodbye(now, core, STOPS, now + self.config.session_timeout);
        let text = format!(
            "no poll came for {} ms (max.poll.interval.ms): raise it, or lower max.poll.records so that polls come sooner",
            self.config.max_poll_interval.as_millis()
        );
        self.lose(core, true, &text);
    }

    /// Notifies the coordinator that the member leaves, if it needs to know.
    fn say_goodbye(
        &mut self,
        now: Instant,
        core: &mut Core,
        reason: &'static str,
        deadline: Instant,
    ) -> Option<CallId> {
        // A coordinator that was never reached does not know a member that chose its id itself.
        if !self.identity.is_named() || !core.cluster.was_ever_up() {
            return None;
        }
        let member = self.present();
        if self.is_consumer() {
            let call = ConsumerGroupHeartbeat::leaving(member);
            return Some(core.start_once(now, call, deadline));
        }
        if self.identity.is_static() {
            return None;
        }
        let call = LeaveGroup { member, reason };
        Some(core.start_once(now, call, deadline))
    }

    fn depart(&mut self, now: Instant, core: &mut Core) {
        let deadline = self.leaving.unwrap_or(now);
        if self.wanted.is_none() {
            return self.left(core);
        }
        match self.say_goodbye(now, core, LEAVES, deadline) {
            Some(call) => {
                let error = not_a_member(&self.group);
                self.commits.refuse_waiting(core, &error);
                self.state = State::Leaving(call);
            }
            None => self.left(core),
        }
    }

    fn left(&mut self, core: &mut Core) {
        self.state = State::Unjoined;
        self.identity.forget();
        self.is_lost = false;
        self.rejoin = None;
        self.trouble = None;
        self.changing = None;
        self.classic.last = (None, -1);
        self.session = Session::new();
        if self.wanted.is_some() {
            let error = not_a_member(&self.group);
            self.commits.refuse_waiting(core, &error);
        }
        // Unless something was subscribed to since.
        if self.leaving.take().is_some()
            && let Some(wanted) = self.wanted.take()
        {
            wanted.release(&mut core.cluster);
        }
        self.release_lead(&mut core.cluster);
        core.cluster.context.changes.tell(Change::Group);
    }

    /// A heartbeat was refused, or got no response: whether it is to be repeated soon.
    fn unheard(&mut self, core: &mut Core, error: Error) -> bool {
        match consequence_inside(&error) {
            // JoinGroup makes a generation out of date.
            Consequence::LoseGeneration if matches!(self.state, State::Joining(_)) => {}
            Consequence::Rejoin => {
                // While the leader assigns, the coordinator returns this to the others, too.
                if matches!(self.state, State::Stable) && !self.is_consumer() {
                    self.rejoin.get_or_insert("the group rebalances");
                }
            }
            Consequence::LoseGeneration => self.lose(core, false, &error.to_string()),
            Consequence::LoseId => self.lose(core, true, &error.to_string()),
            Consequence::End => self.end(core, error),
            Consequence::Tell => self.refuse_heartbeat(core, error),
            Consequence::Elsewhere => {
                let kind = CoordinatorType::Group;
                core.cluster.forget_coordinator(kind, &self.group);
                return true;
            }
            Consequence::Again => return true,
        }
        false
    }

    fn refuse_heartbeat(&mut self, core: &mut Core, error: Error) {
        let offered = self.classic.offers();
        self.trouble = Some(explained(error, &offered).with_group(&self.group));
        core.cluster.context.changes.tell(Change::Records);
    }

    /// An error of a commit means as much for the membership as that of a heartbeat, unless the commit was one of an earlier generation.
    fn commit_refused(
        &mut self,
        now: Instant,
        core: &mut Core,
        member: &GroupMetadata,
        error: &Error,
    ) {
        let is_present = self.wanted.is_some() && *member == self.identity.present();
        if !is_present || self.is_between_generations() {
            return;
        }
        match consequence_inside(error) {
            Consequence::Rejoin if matches!(self.state, State::Stable) && !self.is_consumer() => {
                self.rejoin.get_or_insert("the group rebalances");
            }
            Consequence::End => self.end(core, error.clone()),
            Consequence::LoseGeneration => self.lose(core, false, &error.to_string()),
            Consequence::LoseId => self.lose(core, true, &error.to_string()),
            // The epoch has gone on.
            Consequence::Again if self.is_consumer() => self.session.hurry(now),
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
        if self.protocol == Some(Protocol::Consumer) {
            // The next heartbeat contains them.
            self.session.compare_again();
        } else if !wanted.names().eq(self.classic.joined.iter()) {
            self.rejoin = Some("the topics that this member wants have changed");
        } else if self
            .classic
            .lead
            .as_ref()
            .is_some_and(|it| it.is_outdated(cluster))
        {
            self.rejoin = Some("the partitions of a topic have changed");
        }
    }

    /// Notifies callers, and loops over records, that something needs a poll; sets the alarm for the time when something will.
    fn wait(&mut self, now: Instant, core: &mut Core) {
        let waits = self.wants_given(now);
        if waits && !self.was_waiting {
            core.cluster.context.changes.tell(Change::Group);
        }
        self.was_waiting = waits;
        let waits = waits || self.is_held() || self.has_question();
        self.poll_deadline.pulse().set_needs_poll(waits);
        let commits = self.next_auto_commit;
        let commits = commits.filter(|_| self.config.enable_auto_commit);
        for at in self.retry_at.into_iter().chain(commits) {
            if at > now {
                core.cluster.set_alarm(at);
            }
        }
    }
}
