//! How a member joins with the classic protocol: JoinGroup, what the leader assigns, SyncGroup, and heartbeats.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use super::{Membership, State};
use crate::call::{
    Admission, DescribeGroups, GroupDescription, GroupMetadata, JoinGroup, Joined, SyncGroup,
};
use crate::change::Change;
use crate::cluster::Cluster;
use crate::error::{Error, Kind};
use crate::group::asking::QuestionId;
use crate::group::assignor::{Assignment, Owned, Question, Reply, Subscription};
use crate::group::errors::no_regex;
use crate::group::lead::Lead;
use crate::group::ownership::Rebalance;
use crate::group::strategy::Strategy;
use crate::observe::Observed;
use crate::part::Core;

/// The state in which a description has all assignments.
const STABLE: &str = "Stable";
/// The leader assigns what is known by then.
const LEAD_AT_MOST: Duration = Duration::from_secs(30);

const ASSIGNOR_FAILED: &str = "the assignor of its leader failed";

impl Membership {
    pub(super) fn join_classic(&mut self, now: Instant, core: &mut Core) {
        let Some(wanted) = &self.wanted else {
            self.state = State::Unjoined;
            return;
        };
        if wanted.regex().is_some() {
            return self.refuse(now, core, no_regex());
        }
        self.classic.joined = wanted.names().cloned().collect();
        let customs = self.classic.customs();
        if self.classic.user_data.is_none() && !customs.is_empty() {
            let question = Question::Subscribe {
                topics: self.classic.joined.iter().cloned().collect(),
                assignors: customs,
            };
            return self.ask(core, question);
        }
        let mut told = self.classic.user_data.iter().flatten().cloned();
        let reason = self.rejoin.take();
        let last = Owned {
            partitions: self.classic.last.0.clone(),
            generation: self.classic.last.1,
        };
        let mut protocols = Vec::with_capacity(self.classic.assignors.len());
        for assignor in &self.classic.assignors {
            let subscription = Subscription {
                topics: self.classic.joined.iter().cloned().collect(),
                user_data: match assignor {
                    Strategy::Own(own) => own.user_data(&last),
                    Strategy::Custom(_) => told.next().flatten(),
                },
                owned: self.ownership.owned().iter().cloned().collect(),
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

    pub(super) fn handle_join(
        &mut self,
        now: Instant,
        core: &mut Core,
        result: Result<Admission, Error>,
    ) {
        self.release_lead(&mut core.cluster);
        let joined = match result {
            Ok(Admission::Named(id)) => {
                let is_first = !self.identity.is_named();
                self.identity.name(id);
                if is_first {
                    return self.join_classic(now, core);
                }
                let error = Error::from_code(ErrorCode::MEMBER_ID_REQUIRED, None);
                return self.pause(now, core, error.with_group(&self.group));
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
        let mut known = self.classic.assignors.iter();
        let known = known.position(|assignor| *assignor.name() == *protocol);
        let Some(assignor) = known.filter(|_| generation >= 0 && !member_id.is_empty()) else {
            let text = format!(
                "the coordinator names generation {generation}, member {member_id:?} and assignor {protocol:?}, of which one \
                 cannot be"
            );
            let error = Error::new(Kind::Protocol, text).with_group(&self.group);
            return self.refuse(now, core, error);
        };
        self.classic.assignor = assignor;
        self.identity.admit(generation, member_id);
        self.classic.heartbeats.restart(now);
        if !is_leader {
            return self.sync(now, core, Vec::new());
        }
        let mut lead = Lead::new(now, &mut core.cluster, &self.group, members);
        if keeps_assignment {
            lead.inherit(core.cluster.view());
            self.classic.lead = Some(lead);
            return self.sync(now, core, Vec::new());
        }
        self.classic.lead = Some(lead);
        self.state = State::Leading;
    }

    pub(super) fn assign(&mut self, now: Instant, core: &mut Core) {
        let Some(lead) = &mut self.classic.lead else {
            return;
        };
        let latest = lead.since() + LEAD_AT_MOST.min(self.config.session_timeout);
        if !lead.is_ready(&core.cluster) && now < latest {
            return core.cluster.set_alarm(latest);
        }
        let Some(assignor) = self.classic.assignors.get(self.classic.assignor) else {
            return;
        };
        match assignor {
            Strategy::Own(own) => match lead.assign(core.cluster.view(), *own) {
                Ok(assignments) => self.sync(now, core, assignments),
                Err(error) => self.refuse(now, core, error),
            },
            Strategy::Custom(custom) => {
                let question = lead.question(core.cluster.view(), custom);
                self.ask(core, question);
            }
        }
    }

    /// Waits for an assignor of the caller, which is called while a caller polls.
    fn ask(&mut self, core: &mut Core, question: Question) {
        self.state = State::Asking;
        self.classic.asking.ask(question);
        core.cluster.context.changes.tell(Change::Group);
    }

    /// The request to an assignor of the caller, once; [`Membership::answer`] follows.
    pub(crate) fn take_question(&mut self) -> Option<(QuestionId, Question)> {
        self.classic.asking.take()
    }

    /// Handles the reply of an assignor of the caller, or its error.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        core: &mut Core,
        id: QuestionId,
        reply: Result<Reply, Error>,
    ) {
        if !self.classic.asking.close(id) {
            return;
        }
        let assignments = match reply {
            Ok(Reply::Subscribe(user_data)) => {
                self.classic.user_data = Some(user_data);
                return self.join_classic(now, core);
            }
            Ok(Reply::Assign(assigned)) => {
                let chosen = self.classic.assignors.get(self.classic.assignor);
                let (Some(Strategy::Custom(custom)), Some(lead)) = (chosen, &mut self.classic.lead)
                else {
                    return;
                };
                lead.settle(custom, assigned)
            }
            Err(error) => {
                // The caller has raised it already.
                self.release_lead(&mut core.cluster);
                self.rejoin.get_or_insert(ASSIGNOR_FAILED);
                return self.pause(now, core, error.with_group(&self.group));
            }
        };
        match assignments {
            Ok(assignments) => self.sync(now, core, assignments),
            Err(error) => {
                self.release_lead(&mut core.cluster);
                self.rejoin.get_or_insert(ASSIGNOR_FAILED);
                self.refuse(now, core, error);
            }
        }
    }

    fn sync(&mut self, now: Instant, core: &mut Core, assignments: Vec<(Arc<str>, Bytes)>) {
        let Some(assignor) = self.classic.assignors.get(self.classic.assignor) else {
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

    pub(super) fn handle_sync(
        &mut self,
        now: Instant,
        core: &mut Core,
        result: Result<Bytes, Error>,
    ) {
        let assignment = result.and_then(|bytes| {
            Assignment::decode(bytes).map_err(|error| error.with_group(&self.group))
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
            .ownership
            .owned()
            .difference(&assigned)
            .cloned()
            .collect();
        let added: Vec<_> = assigned
            .difference(self.ownership.owned())
            .cloned()
            .collect();
        core.cluster.context.observer.tell(Observed::GroupJoined {
            group: Arc::clone(&self.group),
            member_id: Arc::clone(self.identity.member_id()),
            generation: self.identity.generation(),
            partitions: assigned.len(),
        });
        self.classic.last = (
            Some(assigned.into_iter().collect()),
            self.identity.generation(),
        );
        self.failures = 0;
        self.retry_at = None;
        self.trouble = None;
        self.next_auto_commit = self.auto_commit_after(now);
        self.must_compare = true;
        self.describe_inherited(now, core);
        if dropped.is_empty() {
            self.state = State::Stable;
            self.tell(core, Rebalance::Assigned(added));
        } else {
            self.state = State::Dropping { dropped, added };
            core.cluster.context.changes.tell(Change::Group);
        }
    }

    pub(super) fn heard(
        &mut self,
        now: Instant,
        core: &mut Core,
        member: &GroupMetadata,
        result: Result<(), Error>,
    ) {
        if *member != self.identity.present() {
            return;
        }
        let Err(error) = result else {
            // The error that a caller had to fix is fixed.
            self.trouble.take_if(|it| it.kind() != Kind::Fenced);
            return;
        };
        if self.unheard(core, error) {
            let pause = core.cluster.retry_pause(1);
            self.classic.heartbeats.pause(now, pause);
        }
    }

    /// Requests what all members have, if another process assigned it: topics may have grown since,
    /// and a member that was to revoke partitions may have restarted, too.
    fn describe_inherited(&mut self, now: Instant, core: &mut Core) {
        let lead = self.classic.lead.as_ref();
        if !lead.is_some_and(Lead::is_heir) {
            return;
        }
        let call = DescribeGroups {
            groups: vec![Arc::clone(&self.group)],
            operations: false,
        };
        let deadline = now + self.config.session_timeout;
        self.classic.describing = Some(core.start(now, call, deadline));
    }

    /// Takes in what all members have. Without a response nothing changes, as with Kafka's own
    /// clients: the next rebalance assigns the rest.
    pub(super) fn described(
        &mut self,
        core: &mut Core,
        result: Result<Vec<Result<GroupDescription, Error>>, Error>,
    ) {
        self.classic.describing = None;
        let (Ok([Ok(found)]), Some(lead)) = (result.as_deref(), &self.classic.lead) else {
            return;
        };
        let is_settled = lead.is_heir() && found.state == STABLE;
        if is_settled && !lead.is_covered(core.cluster.view(), &found.members) {
            self.rejoin
                .get_or_insert("partitions of its topics are nobody's");
        }
    }

    /// Assigns the partitions that were to be revoked for others, if no member has rejoined by now.
    /// A static member that restarts before it revoked them does not know that it was to revoke
    /// something: the coordinator returns its assignment without them, and no rebalance follows
    /// (KIP-345).
    pub(super) fn share_withheld(&mut self, now: Instant, cluster: &mut Cluster) {
        let lead = self.classic.lead.as_ref();
        let Some(lead) = lead.filter(|lead| lead.withholds()) else {
            return;
        };
        if !matches!(self.state, State::Stable) || self.rejoin.is_some() {
            return;
        }
        let due = lead.since() + self.config.max_poll_interval;
        if due > now {
            return cluster.set_alarm(due);
        }
        self.rejoin = Some("partitions that members were to revoke are not assigned");
    }

    pub(super) fn release_lead(&mut self, cluster: &mut Cluster) {
        self.classic.describing = None;
        if let Some(lead) = self.classic.lead.take() {
            lead.release(cluster);
        }
    }
}
