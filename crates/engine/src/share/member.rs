//! A member of a share group and its coordinator (KIP-932): it joins by a heartbeat of epoch 0,
//! receives its partitions in the responses, and leaves by a heartbeat of epoch -1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use crate::call::{CallId, Ended, IdPartition, ShareGroupHeartbeat, Standing};
use crate::change::Change;
use crate::cluster::{Cluster, CoordinatorType, is_denial};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::group::{Consequence, Selection, Wanted, consequence, consequence_inside, member_id};
use crate::observe::Observed;
use crate::part::Core;

/// A coordinator that requests shorter intervals is not obeyed.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

const JOINS: i32 = 0;
const LEAVES: i32 = -1;

/// The requirements of share groups, for the error of brokers without them.
pub(super) const NEEDS: &str = "share groups need Kafka 4.1 or newer (4.0 only has a preview of another protocol), with \
    the feature share.version=1, and share in group.coordinator.rebalance.protocols where that is set";

#[derive(Debug)]
pub(crate) struct Member {
    config: Arc<Config>,
    group: Arc<str>,
    /// Chosen at the first join, and kept for good: brokers know what was acquired by it.
    member_id: Option<Arc<str>>,
    wanted: Option<Wanted>,
    /// 0 while it is no member.
    epoch: i32,
    /// The topics that the coordinator has from this member; `None` if that is uncertain.
    declared: Option<BTreeSet<Arc<str>>>,
    running: Option<(CallId, Said)>,
    interval: Duration,
    next_beat: Option<Instant>,
    target: BTreeSet<IdPartition>,
    /// The assigned partitions whose topics have names; the acquirer is notified when they change.
    named: BTreeMap<IdPartition, Arc<str>>,
    news: bool,
    seen_view: u64,
    nameless: u32,
    name_at: Option<Instant>,
    failures: u32,
    trouble: Option<Error>,
    /// A poll raised that the coordinator denies topics: an administrator can lift it.
    denial_raised: bool,
    /// It is to leave, by then.
    leaving: Option<Instant>,
}

/// The content of a heartbeat in flight.
#[derive(Debug)]
enum Said {
    /// The member lives, with its epoch, and wants these topics, if the heartbeat contains them.
    Lives(i32, Option<BTreeSet<Arc<str>>>),
    Leaves,
}

impl Member {
    pub(crate) fn new(config: &Arc<Config>) -> Member {
        Member {
            group: config.group_id.as_deref().unwrap_or_default().into(),
            config: Arc::clone(config),
            member_id: None,
            wanted: None,
            epoch: JOINS,
            declared: None,
            running: None,
            interval: Duration::ZERO,
            next_beat: None,
            target: BTreeSet::new(),
            named: BTreeMap::new(),
            news: false,
            seen_view: 0,
            nameless: 0,
            name_at: None,
            failures: 0,
            trouble: None,
            denial_raised: false,
            leaving: None,
        }
    }

    /// The member's id; `None` before it first joined.
    pub(crate) fn id(&self) -> Option<&Arc<str>> {
        self.member_id.as_ref()
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.wanted.is_some()
    }

    /// The topics subscribed to, sorted.
    pub(crate) fn subscription(&self) -> Vec<Arc<str>> {
        let names = self.wanted.iter().flat_map(Wanted::names);
        names.cloned().collect()
    }

    pub(crate) fn subscribe(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        topics: BTreeSet<Arc<str>>,
    ) {
        let before = self.wanted.take();
        // The new topics are wanted before the old ones are released, so that topics in both are
        // not forgotten in between.
        self.wanted = Some(Wanted::new(now, cluster, Selection::Names(topics), None));
        if let Some(before) = before {
            before.release(cluster);
        }
        self.leaving = None;
        self.trouble = None;
        self.denial_raised = false;
        self.next_beat = Some(now);
        // A caller that polls waits for other topics now.
        cluster.context.changes.tell(Change::Records);
        cluster.context.changes.tell(Change::Group);
    }

    /// Has the member leave once nothing else is to be said of what it acquired: [`Member::go`].
    pub(crate) fn leave(&mut self, deadline: Instant) {
        if self.wanted.is_some() {
            self.leaving = Some(deadline);
        }
    }

    /// Until when it is leaving.
    pub(crate) fn leaving(&self) -> Option<Instant> {
        self.leaving
    }

    /// The member leaves: the coordinator is notified, if it has the member.
    pub(crate) fn go(&mut self, now: Instant, core: &mut Core) {
        let Some(deadline) = self.leaving.filter(|_| !self.is_saying_goodbye()) else {
            return;
        };
        let running = self.running.take();
        if let Some((call, _)) = &running {
            core.calls.cancel(&mut core.cluster, *call);
        }
        // It may have become a member by the heartbeat in flight, if that reached a broker.
        let may_be_known = running.is_some() && core.cluster.was_ever_up();
        if self.epoch == JOINS && !may_be_known {
            return self.forget(&mut core.cluster);
        }
        let call = self.says(LEAVES, None);
        let id = core.start_once(now, call, deadline.max(now));
        self.running = Some((id, Said::Leaves));
    }

    fn is_saying_goodbye(&self) -> bool {
        matches!(self.running, Some((_, Said::Leaves)))
    }

    /// Ends the membership, whether the coordinator knows it or not.
    pub(crate) fn abandon(&mut self, now: Instant, core: &mut Core) {
        if self.leaving.is_none() {
            return;
        }
        self.leaving = Some(now + self.config.request_timeout);
        // The heartbeat is still sent: nobody waits for the response.
        self.go(now, core);
        self.forget(&mut core.cluster);
    }

    fn forget(&mut self, cluster: &mut Cluster) {
        if let Some(wanted) = self.wanted.take() {
            wanted.release(cluster);
        }
        self.leaving = None;
        self.lose();
        self.trouble = None;
        self.denial_raised = false;
        cluster.context.changes.tell(Change::Group);
        cluster.context.changes.tell(Change::Records);
    }

    /// It is no longer a member, or not yet again.
    fn lose(&mut self) {
        self.epoch = JOINS;
        self.declared = None;
        self.target.clear();
        self.news |= !self.named.is_empty();
        self.named.clear();
    }

    /// The assignment, if it changed since the last call.
    pub(crate) fn take_news(&mut self) -> Option<&BTreeMap<IdPartition, Arc<str>>> {
        std::mem::take(&mut self.news).then_some(&self.named)
    }

    /// The assigned partitions, sorted.
    pub(crate) fn assignment(&self) -> Vec<(Arc<str>, i32)> {
        let each = self.named.iter();
        let mut all: Vec<_> = each
            .map(|((_, number), topic)| (Arc::clone(topic), *number))
            .collect();
        all.sort();
        all
    }

    /// The error that polls raise.
    pub(crate) fn obstacle(&self) -> Option<&Error> {
        let refused = || Some(self.wanted.as_ref()?.refused().next()?.0);
        let trouble = self.trouble.as_ref();
        trouble
            .filter(|error| !self.denial_raised || !is_denial(error))
            .or_else(refused)
    }

    /// Notes that a poll raises this error. A heartbeat that is denied names no topic.
    pub(crate) fn note_raised(&mut self, error: &Error) {
        self.denial_raised |= is_denial(error) && self.trouble.as_ref().is_some_and(is_denial);
        if let (Some(wanted), Some(topic)) = (&mut self.wanted, error.topic()) {
            wanted.refused_mut().note_raised(topic);
        }
    }

    // --- steps

    pub(super) fn step(&mut self, now: Instant, core: &mut Core) {
        self.look(&mut core.cluster);
        self.find_names(now, &mut core.cluster);
        self.beat(now, core);
    }

    /// Handles the cluster's metadata.
    fn look(&mut self, cluster: &mut Cluster) {
        if self.seen_view == cluster.view_version() {
            return;
        }
        self.seen_view = cluster.view_version();
        if let Some(wanted) = &mut self.wanted
            && wanted.look(cluster)
        {
            cluster.context.changes.tell(Change::Records);
        }
        self.name(cluster);
    }

    /// Finds the names of the assigned partitions' topics in the view.
    fn name(&mut self, cluster: &Cluster) {
        let view = cluster.view();
        let each = self.target.iter();
        let named: BTreeMap<_, _> = each
            .filter_map(|it| Some((*it, Arc::clone(view.name_of(it.0)?))))
            .filter(|(_, name)| self.wanted.as_ref().is_some_and(|it| it.contains(name)))
            .collect();
        if named != self.named {
            self.named = named;
            self.news = true;
        }
    }

    /// Refreshes the metadata while it lacks the name of a topic: a broker may not know the topic
    /// yet.
    fn find_names(&mut self, now: Instant, cluster: &mut Cluster) {
        let unknown: BTreeSet<Uuid> = self.target.iter().map(|it| it.0).collect();
        let is_known = |id: &Uuid| cluster.view().name_of(*id).is_some();
        if unknown.iter().all(is_known) {
            self.nameless = 0;
            self.name_at = None;
            return;
        }
        if let Some(at) = self.name_at.filter(|at| *at > now) {
            return cluster.set_alarm(at);
        }
        self.nameless = self.nameless.saturating_add(1);
        cluster.refresh(now);
        let at = now + cluster.retry_pause(self.nameless);
        self.name_at = Some(at);
        cluster.set_alarm(at);
    }

    /// Sends a heartbeat if one is due, or has changes to declare.
    fn beat(&mut self, now: Instant, core: &mut Core) {
        let Some(wanted) = self.wanted.as_ref().filter(|_| self.leaving.is_none()) else {
            return;
        };
        if self.running.is_some() {
            return;
        }
        let next = *self.next_beat.get_or_insert(now);
        if next > now {
            return core.cluster.set_alarm(next);
        }
        let names = || wanted.names().cloned().collect::<BTreeSet<_>>();
        let is_known = self.epoch != JOINS
            && self
                .declared
                .as_ref()
                .is_some_and(|it| wanted.names().eq(it));
        let topics = (!is_known).then(names);
        if self.member_id.is_none() {
            self.member_id = Some(member_id(&mut core.cluster.context.random));
        }
        let epoch = self.epoch;
        let call = self.says(epoch, topics.clone());
        let id = core.start_once(now, call, now + self.config.request_timeout);
        self.running = Some((id, Said::Lives(epoch, topics)));
    }

    fn says(&self, epoch: i32, topics: Option<BTreeSet<Arc<str>>>) -> ShareGroupHeartbeat {
        let rack = self
            .config
            .client_rack
            .as_deref()
            .filter(|_| epoch == JOINS);
        ShareGroupHeartbeat {
            group: Arc::clone(&self.group),
            member_id: self.member_id.clone().unwrap_or_default(),
            epoch,
            rack: rack.map(Arc::from),
            topics,
        }
    }

    pub(super) fn ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        let Some((_, said)) = self.running.take_if(|(id, _)| *id == ended.id) else {
            return;
        };
        let Some(result) = ended.answer::<ShareGroupHeartbeat>() else {
            return;
        };
        match said {
            Said::Lives(epoch, topics) => match result {
                Ok(standing) => self.heard(now, &mut core.cluster, epoch, topics, standing),
                Err(error) => self.unheard(now, &mut core.cluster, epoch, error),
            },
            // A member that subscribed again meanwhile rejoins; others are done, whatever the
            // response was.
            Said::Leaves if self.leaving.is_none() => {
                self.lose();
                self.next_beat = Some(now);
            }
            Said::Leaves => match result {
                Err(error) if is_elsewhere(&error) && self.leaving.is_some_and(|at| at > now) => {
                    self.look_elsewhere(&mut core.cluster);
                    self.go(now, core);
                }
                _ => self.forget(&mut core.cluster),
            },
        }
    }

    fn heard(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        epoch: i32,
        topics: Option<BTreeSet<Arc<str>>>,
        standing: Standing,
    ) {
        self.epoch = standing.epoch;
        self.interval = standing.interval;
        self.failures = 0;
        self.declared = topics.or(self.declared.take());
        self.denial_raised = false;
        if self.trouble.take().is_some() {
            cluster.context.changes.tell(Change::Records);
        }
        let is_same = |wanted: &Wanted| {
            self.declared
                .as_ref()
                .is_some_and(|it| wanted.names().eq(it))
        };
        self.next_beat = match &self.wanted {
            // It was subscribed to others meanwhile.
            Some(wanted) if !is_same(wanted) => Some(now),
            _ => now.checked_add(self.interval.max(SHORTEST_INTERVAL)),
        };
        if let Some(assigned) = standing.assigned {
            if self.target != assigned {
                // Nothing is revoked first, so it takes no time.
                cluster.context.meters.rebalanced(now, Duration::ZERO);
            }
            self.target = assigned;
            self.name(cluster);
        }
        if epoch == JOINS {
            cluster.context.observer.tell(Observed::GroupJoined {
                group: Arc::clone(&self.group),
                member_id: self.member_id.clone().unwrap_or_default(),
                generation: self.epoch,
                partitions: self.target.len(),
            });
        }
        if let Some(at) = self.next_beat {
            cluster.set_alarm(at);
        }
    }

    fn unheard(&mut self, now: Instant, cluster: &mut Cluster, epoch: i32, error: Error) {
        // It is not known whether the coordinator handled the heartbeat.
        self.declared = None;
        self.failures = self.failures.saturating_add(1);
        let mut pause = cluster.retry_pause(self.failures);
        let follows = match epoch {
            JOINS => consequence(&error),
            _ => consequence_inside(&error),
        };
        match follows {
            Consequence::Elsewhere => self.look_elsewhere(cluster),
            Consequence::Again | Consequence::Rejoin => {}
            Consequence::LoseGeneration | Consequence::LoseId => {
                self.lose();
                cluster.context.observer.tell(Observed::MembershipLost {
                    group: Arc::clone(&self.group),
                    reason: format!("{error}; it joins again"),
                });
            }
            Consequence::Tell | Consequence::End => {
                pause = pause.max(self.interval);
                self.trouble = Some(explained(error));
                cluster.context.changes.tell(Change::Records);
            }
        }
        self.next_beat = Some(now + pause);
        cluster.set_alarm(now + pause);
    }

    fn look_elsewhere(&self, cluster: &mut Cluster) {
        cluster.forget_coordinator(CoordinatorType::Group, &self.group);
    }

    /// The client closes.
    pub(super) fn abort(&mut self, cluster: &mut Cluster) {
        self.running = None;
        self.forget(cluster);
    }
}

/// Whether another broker coordinates the group, or will.
fn is_elsewhere(error: &Error) -> bool {
    consequence(error) == Consequence::Elsewhere
}

/// The error that polls raise.
fn explained(error: Error) -> Error {
    let is_old = error.api() == Some(ApiKey::ShareGroupHeartbeat.name())
        && error.kind() == Kind::Unsupported;
    match error.code() {
        _ if is_old => error.adding(NEEDS),
        Some(ErrorCode::UNSUPPORTED_VERSION) => error.adding(NEEDS),
        Some(ErrorCode::GROUP_ID_NOT_FOUND | ErrorCode::INCONSISTENT_GROUP_PROTOCOL) => error.adding(
            "the group has members of another kind, such as an ordinary consumer: give the share group a group.id of its own",
        ),
        Some(ErrorCode::GROUP_MAX_SIZE_REACHED) => {
            error.adding("the brokers' group.share.max.size allows no further member")
        }
        _ => error,
    }
}
