//! How a member joins with the consumer protocol (KIP-848): heartbeats, and what the coordinator assigns by them.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;

use super::{Membership, Protocol, State};
use crate::call::{ConsumerGroupHeartbeat, GroupMetadata, Standing};
use crate::change::Change;
use crate::config::GroupProtocol;
use crate::error::{Error, Kind};
use crate::group::errors::{
    Consequence, consequence, consequence_inside, given_up, is_without_consumer_protocol,
};
use crate::group::ownership::Rebalance;
use crate::group::session::{Beat, Changed};
use crate::observe::Observed;
use crate::part::Core;
use crate::random::Random;

/// The epoch of who is to become a member.
const JOINS: i32 = 0;

const JOINS_ANEW: &str = "the consumer rejoins";

impl Membership {
    /// Chooses the protocol that the brokers support, once one of them has returned its versions.
    pub(super) fn choose(&mut self, now: Instant, core: &mut Core) {
        if self.protocol.is_some() || self.wanted.is_none() {
            return;
        }
        let link = core.cluster.any_link(now);
        let Some((broker, versions)) = link.and_then(|link| core.cluster.speaks(Some(link))) else {
            return;
        };
        let (protocol, reason) = match versions.has_consumer_protocol() {
            true => (Protocol::Consumer, format!("{broker} has it")),
            false => (
                Protocol::Classic,
                format!("{broker} has no groups of the consumer protocol (group.version)"),
            ),
        };
        self.take(core, protocol, reason);
    }

    fn take(&mut self, core: &mut Core, protocol: Protocol, reason: String) {
        self.protocol = Some(protocol);
        let changed = Observed::GroupProtocolChosen {
            group: Arc::clone(&self.group),
            protocol: match protocol {
                Protocol::Classic => "classic",
                Protocol::Consumer => "consumer",
            },
            reason,
        };
        core.cluster.context.observer.tell(changed);
        core.cluster.context.changes.tell(Change::Group);
    }

    /// The member for a request of committed offsets, if the coordinator knows members by their
    /// epochs.
    pub(super) fn by_epoch(&self) -> Option<(Arc<str>, i32)> {
        let is_known = self.is_consumer() && self.wanted.is_some() && self.identity.is_member();
        is_known.then(|| {
            (
                Arc::clone(self.identity.member_id()),
                self.identity.generation(),
            )
        })
    }

    pub(super) fn join_as_consumer(&mut self, now: Instant, core: &mut Core) {
        self.session.begin_anew();
        let deadline = now + self.config.request_timeout;
        // The coordinator may count on a static one still, and would refuse it as another one of its instance.
        let is_static = self.identity.is_static();
        match is_static.then(|| self.say_goodbye(now, core, JOINS_ANEW, deadline)) {
            Some(Some(call)) => self.state = State::Joining(call),
            _ => self.join_with_nothing(now, core),
        }
    }

    /// The last heartbeat of a static member before it rejoins has ended.
    pub(super) fn heard_goodbye(
        &mut self,
        now: Instant,
        core: &mut Core,
        result: Result<Standing, Error>,
    ) {
        if let Err(error) = result
            && matches!(
                consequence(&error),
                Consequence::Elsewhere | Consequence::Again
            )
        {
            return self.failed(now, core, error);
        }
        self.join_with_nothing(now, core);
    }

    /// The member's id, if it has one. With the consumer protocol the member chooses it, at the latest when it joins
    /// (KIP-1082).
    pub(crate) fn member_id(&mut self, random: &mut Random) -> Option<Arc<str>> {
        if self.is_consumer() && !self.identity.is_named() {
            self.identity.name(member_id(random));
        }
        let is_named = self.identity.is_named();
        is_named.then(|| Arc::clone(self.identity.member_id()))
    }

    fn join_with_nothing(&mut self, now: Instant, core: &mut Core) {
        let Some(wanted) = &self.wanted else {
            self.state = State::Unjoined;
            return;
        };
        if !self.identity.is_named() {
            let id = member_id(&mut core.cluster.context.random);
            self.identity.name(id);
        }
        self.rejoin = None;
        let declared = self.session.all(&self.config, wanted);
        let call = ConsumerGroupHeartbeat {
            member: GroupMetadata {
                generation: JOINS,
                ..self.present()
            },
            declared: declared.clone(),
        };
        let patience = self.config.request_timeout;
        let id = core.start_once(now, call, now + patience);
        self.session.sent(now, (id, patience), JOINS, declared);
        self.state = State::Joining(id);
    }

    /// Sends a heartbeat if one is due, or has changes to declare.
    pub(super) fn beat_as_consumer(
        &mut self,
        now: Instant,
        core: &mut Core,
        member: GroupMetadata,
    ) {
        let Some(wanted) = &self.wanted else {
            return;
        };
        let Some(declared) = self.session.due(now, &mut core.cluster, wanted) else {
            return;
        };
        let epoch = member.generation;
        let call = ConsumerGroupHeartbeat {
            member,
            declared: declared.clone(),
        };
        let patience = self.config.request_timeout;
        let id = core.start_once(now, call, now + patience);
        self.session.sent(now, (id, patience), epoch, declared);
    }

    pub(super) fn heard_as_consumer(
        &mut self,
        now: Instant,
        core: &mut Core,
        beat: Beat,
        result: Result<Standing, Error>,
    ) {
        let Beat {
            epoch,
            declared,
            lost_at,
        } = beat;
        if matches!(&result, Err(error) if error.code().is_none()) {
            self.session.went_astray(lost_at);
        }
        // The member leaves, whatever the response is.
        if matches!(self.state, State::Leaving(_)) {
            return;
        }
        let joins = matches!(self.state, State::Joining(_));
        let mut standing = match result {
            Ok(standing) => standing,
            Err(error) if joins => return self.not_joined(now, core, error),
            Err(error) => {
                let pause = match consequence_inside(&error) {
                    Consequence::Tell => self.session.interval(),
                    _ => core.cluster.retry_pause(1),
                };
                self.session.failed(now, pause);
                self.unheard(core, error);
                return;
            }
        };
        let id = Arc::clone(self.identity.member_id());
        self.identity.admit(standing.epoch, id);
        // What the member has stays its own until it declares otherwise, whatever the epoch.
        self.identity.assign();
        self.session.heard(now, declared, &mut standing);
        self.trouble.take_if(|it| it.kind() != Kind::Fenced);
        if epoch != JOINS {
            return;
        }
        self.failures = 0;
        self.retry_at = None;
        self.next_auto_commit = self.auto_commit_after(now);
        self.must_compare = true;
        self.state = State::Stable;
        core.cluster.context.observer.tell(Observed::GroupJoined {
            group: Arc::clone(&self.group),
            member_id: Arc::clone(self.identity.member_id()),
            generation: self.identity.generation(),
            partitions: self.session.assigned(),
        });
    }

    fn not_joined(&mut self, now: Instant, core: &mut Core, error: Error) {
        let is_free = self.config.group_protocol == GroupProtocol::Auto;
        if !is_free || !is_without_consumer_protocol(&error) {
            return self.failed(now, core, error);
        }
        self.identity.lose(false);
        self.state = State::Unjoined;
        self.take(core, Protocol::Classic, error.to_string());
    }

    /// Makes what callers own what the coordinator has assigned; what has to go waits for a caller that polls.
    pub(super) fn reconcile(&mut self, now: Instant, core: &mut Core) {
        if !self.is_consumer() || self.leaving.is_some() {
            return;
        }
        if matches!(self.state, State::Stable | State::Dropping { .. }) {
            self.session.find_names(now, core);
        }
        let is_outdated = self.session.must_compare();
        match self.state {
            State::Stable if self.ownership.is_told() => {
                if !self.has_let_go(now, core) {
                    return;
                }
                self.session.settle();
            }
            // The coordinator has changed the assignment again, and no listener was notified.
            State::Stable if is_outdated && self.ownership.only_adds() => {
                self.ownership.drop_added();
                self.session.take_back();
            }
            State::Dropping { .. } if is_outdated => {
                self.session.take_back();
                self.state = State::Stable;
            }
            _ => return,
        }
        let wanted = self.wanted.as_ref().filter(|wanted| wanted.is_known());
        let Some(wanted) = wanted.filter(|_| self.session.must_compare()) else {
            return;
        };
        let Some(changed) = self.session.compare(wanted) else {
            return;
        };
        let (added, dropped) = match &changed {
            Changed::Added(added) => (added.len(), 0),
            Changed::Dropped(dropped) => (0, dropped.len()),
        };
        if added + dropped > 0 {
            core.cluster.context.observer.tell(Observed::Reassigned {
                group: Arc::clone(&self.group),
                epoch: self.identity.generation(),
                added,
                dropped,
            });
        }
        match changed {
            Changed::Added(added) => self.tell(core, Rebalance::Assigned(added)),
            Changed::Dropped(dropped) => {
                let added = Vec::new();
                self.state = State::Dropping { dropped, added };
                core.cluster.context.changes.tell(Change::Group);
            }
        }
    }

    /// Whether no commit of revoked partitions is in flight, or the group can wait for it no
    /// longer. Such a commit must not arrive after the next owner of the partitions has committed:
    /// it would set the committed offset back.
    fn has_let_go(&mut self, now: Instant, core: &mut Core) -> bool {
        let gone = self.session.given_up();
        if gone.is_empty() || !self.commits.concern(&gone) {
            return true;
        }
        if !self.has_committed(now, core) {
            return false;
        }
        let error = given_up(&self.group);
        self.commits.refuse_waiting_of(core, &gone, &error);
        true
    }
}

/// An id that no other member has: a random UUID (version 4), as Kafka writes it (KIP-1082).
pub(crate) fn member_id(random: &mut Random) -> Arc<str> {
    loop {
        let bits = (u128::from(random.next()) << 64) | u128::from(random.next());
        let bits = (bits & !((0xf << 76) | (0b11 << 62))) | (4 << 76) | (0b10 << 62);
        let id = Uuid(bits.to_be_bytes()).to_string();
        // It would be taken for an option of a command.
        if !id.starts_with('-') {
            return id.into();
        }
    }
}
