//! Members of the classic protocol in a consumer group, as while a group changes over member by member (KIP-848).
//!
//! Such a member joins, syncs and sends heartbeats as ever. But the group has no leader, JoinGroup
//! gets its response at once, and the member's generation is its own epoch: the response to a
//! heartbeat makes it join again when there are partitions to revoke or to get. Instead of a
//! timeout to revoke partitions, it has one to join after such a response, and one to sync after it
//! has joined.

use std::time::Instant;

use ottla_protocol::{ErrorCode, Str, Uuid};

use super::assignor::Target;
use super::key::Key;
use super::member::{Classic, Held, Member, Owned, Stage};
use super::{ConsumerGroup, ConsumerRules, Seat, milliseconds};
use crate::group::catalogue::Catalogue;
use crate::group::classic::{
    AsMember, ClassicMember, Join, Joined, MOST_PROTOCOLS, NotJoined, Sync, Synced,
};
use crate::group::embedded::{Assignment, CONSUMER, Named, Subscription, assigned};

impl ConsumerGroup {
    /// The group that these members of a classic one are from now on, in the epoch with the number of its generation. Each has
    /// what it was assigned last.
    ///
    /// # Errors
    /// Why they cannot be one.
    pub(in crate::group) fn of_classic(
        generation: i32,
        members: Vec<ClassicMember>,
        catalogue: &Catalogue,
        now: Instant,
    ) -> Result<Self, &'static str> {
        let mut group = Self::in_epoch(generation);
        for member in members {
            let id = member.id.clone();
            let seat = Seat::of_classic(member, generation, catalogue, now)?;
            group.members.insert(id.clone(), seat);
            group.mark(&id);
        }
        // It is as it was: only who comes has the epoch grow.
        group.topics_hash = group.hash_topics(catalogue);
        group.compared = Some(catalogue.version);
        Ok(group)
    }

    /// Its members, as a group of the classic protocol goes on with them.
    pub(in crate::group) fn classic_members(&self, catalogue: &Catalogue) -> Vec<ClassicMember> {
        let member = |(id, seat): (&String, &Seat)| {
            let member = &seat.member;
            let classic = member.classic.as_ref()?;
            let target = seat.target.iter();
            let target = target.map(|(topic, it)| (*topic, it.iter().copied().collect()));
            let assignment = assigned(classic.version(), named(target, catalogue));
            Some(ClassicMember {
                id: id.clone(),
                instance: member.instance.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                session_timeout: classic.session,
                rebalance_timeout: milliseconds(member.rebalance_timeout_ms),
                protocols: classic.protocols.clone(),
                assignment: assignment.unwrap_or_default(),
            })
        };
        self.members.iter().filter_map(member).collect()
    }

    /// JoinGroup. `new_id` is taken for a member without one.
    pub(in crate::group) fn join(
        &mut self,
        join: &Join,
        new_id: String,
        rules: &ConsumerRules,
        catalogue: &Catalogue,
        now: Instant,
    ) -> Result<Joined, NotJoined> {
        let refused = |code| NotJoined {
            code,
            member: join.member.clone(),
        };
        self.check_join(join, rules).map_err(refused)?;
        let id = match join.member.is_empty() {
            true => new_id,
            false => join.member.clone(),
        };
        if join.member.is_empty() && join.instance.is_none() && join.id_first {
            let code = ErrorCode::MEMBER_ID_REQUIRED;
            return Err(NotJoined { code, member: id });
        }
        let first = join.protocols.first();
        let told = first.and_then(|it| Some((it, Subscription::read(&it.metadata)?)));
        let inconsistent = || refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        let (first, subscription) = told.ok_or_else(inconsistent)?;
        let protocol = first.name.clone();
        let owned = by_id(&subscription.owned, catalogue);
        self.replace(join.instance.as_deref(), &id);
        let changes = self.take_over(join, &id, subscription);
        self.notice_topics(catalogue, changes);
        self.make_target(rules, catalogue, now);
        self.reconcile(&id, Some(&owned), changes, catalogue, now);
        let seat = self.members.entry(id.clone()).or_default();
        seat.session_ends = Some(now + join.session_timeout);
        seat.join_by = None;
        seat.sync_by = Some(now + join.rebalance_timeout);
        Ok(Joined {
            generation: seat.member.epoch,
            protocol_type: Some(CONSUMER.to_owned()),
            protocol: Some(protocol),
            leader: String::new(),
            member: id,
            skip_assignment: false,
            members: Vec::new(),
        })
    }

    /// SyncGroup.
    pub(in crate::group) fn sync(
        &mut self,
        sync: &Sync,
        catalogue: &Catalogue,
        now: Instant,
    ) -> Result<Synced, ErrorCode> {
        let epoch = self.epoch;
        let seat = self.current_classic(&sync.as_member)?;
        let member = &seat.member;
        let classic = member.classic.as_ref();
        let classic = classic.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let in_use = classic.protocols.first().map(|it| it.name.as_str());
        if differs(sync.protocol_type.as_deref(), Some(CONSUMER))
            || differs(sync.protocol.as_deref(), in_use)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        // Who is giving partitions up has joined already, and first has to come to the end of that.
        if epoch > member.epoch && member.stage != Stage::Revoking {
            seat.must_join(now);
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        let partitions = member.assigned.iter();
        let partitions = partitions.map(|(topic, it)| (*topic, it.keys().copied().collect()));
        let assignment = assigned(classic.version(), named(partitions, catalogue));
        seat.session_ends = Some(now + classic.session);
        seat.sync_by = None;
        Ok(Synced {
            protocol_type: sync.protocol_type.clone(),
            protocol: sync.protocol.clone(),
            assignment: assignment.map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?,
        })
    }

    /// Heartbeat.
    pub(in crate::group) fn beat_classic(
        &mut self,
        as_member: &AsMember,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        let epoch = self.epoch;
        let seat = self.current_classic(as_member)?;
        let session = seat.member.classic.as_ref().map(|it| it.session);
        seat.session_ends = session.map(|session| now + session);
        let waits = seat.member.stage == Stage::Waiting;
        let mut is_due = seat.member.epoch < epoch || seat.member.stage == Stage::Revoking;
        if waits && !is_due {
            is_due = !self.waits_for_others(&as_member.id);
        }
        if !is_due {
            return Ok(());
        }
        self.current_classic(as_member)?.must_join(now);
        Err(ErrorCode::REBALANCE_IN_PROGRESS)
    }

    /// LeaveGroup of one member, of either protocol. Admin clients that remove static members name no id.
    pub(in crate::group) fn leave_classic(
        &mut self,
        id: &str,
        instance: Option<&str>,
        rules: &ConsumerRules,
        catalogue: &Catalogue,
    ) -> Result<(), ErrorCode> {
        let found = match instance {
            None => self.members.get_key_value(id),
            Some(instance) => self.instance(instance),
        };
        let (owner, _) = found.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if !id.is_empty() && owner != id {
            return Err(ErrorCode::FENCED_INSTANCE_ID);
        }
        let owner = owner.clone();
        self.remove(&owner, rules, catalogue);
        Ok(())
    }

    fn check_join(&self, join: &Join, rules: &ConsumerRules) -> Result<(), ErrorCode> {
        let present = join.instance.as_deref().and_then(|it| self.instance(it));
        let is_new = present.is_none() && !self.members.contains_key(&join.member);
        if is_new && self.members.len() >= rules.most_members {
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        let classic = || {
            let members = self.members.values();
            members.filter_map(|seat| seat.member.classic.as_ref())
        };
        let is_common = |name: &str| classic().all(|it| it.offers(name));
        if join.protocol_type != CONSUMER
            || join.protocols.len() > MOST_PROTOCOLS
            || !join.protocols.iter().any(|it| is_common(&it.name))
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match present {
            _ if join.member.is_empty() || join.instance.is_none() => Ok(()),
            None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            Some((owner, _)) if *owner != join.member => Err(ErrorCode::FENCED_INSTANCE_ID),
            Some(_) => Ok(()),
        }
    }

    /// A process came back under a static member's instance id: it has that member's place, under its own id.
    fn replace(&mut self, instance: Option<&str>, id: &str) {
        let known = instance.and_then(|it| self.instance(it));
        let known = known.map(|(known, _)| known.clone());
        let seat = known.filter(|known| known != id);
        if let Some(mut seat) = seat.and_then(|known| self.take(&known)) {
            // Its assignment is sent again, whatever the other process had come to.
            seat.member.epoch = 0;
            seat.member.previous_epoch = 0;
            self.members.insert(id.to_owned(), seat);
            self.mark(id);
        }
    }

    /// Takes over what a member sends about itself. Returns whether it subscribes to something else
    /// than before.
    fn take_over(&mut self, join: &Join, id: &str, subscription: Subscription) -> bool {
        let seat = self.members.entry(id.to_owned()).or_default();
        let member = &mut seat.member;
        let before = member.clone();
        member.client_id.clone_from(&join.client_id);
        member.client_host.clone_from(&join.client_host);
        if join.instance.is_some() {
            member.instance.clone_from(&join.instance);
        }
        if subscription.rack.is_some() {
            member.rack = subscription.rack;
        }
        member.rebalance_timeout_ms =
            i32::try_from(join.rebalance_timeout.as_millis()).unwrap_or(i32::MAX);
        member.names = subscription.topics;
        member.pattern = None;
        member.classic = Some(Classic {
            session: join.session_timeout,
            protocols: join.protocols.clone(),
        });
        seat.revoked_by = None;
        let changes = member.names != before.names || before.pattern.is_some();
        if *member != before {
            self.changed.insert(Key::Member(id.to_owned()));
        }
        if changes {
            self.drop_unused_patterns();
            self.compared = None;
        }
        changes
    }

    /// The classic member that a request comes from, in its generation.
    fn current_classic(&mut self, as_member: &AsMember) -> Result<&mut Seat, ErrorCode> {
        if let Some(instance) = &as_member.instance {
            match self.instance(instance) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some((owner, _)) if *owner != as_member.id => {
                    return Err(ErrorCode::FENCED_INSTANCE_ID);
                }
                Some(_) => {}
            }
        }
        let seat = self.members.get_mut(&as_member.id);
        let seat = seat.filter(|it| it.member.classic.is_some());
        let seat = seat.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        match seat.member.epoch == as_member.generation {
            true => Ok(seat),
            false => Err(ErrorCode::ILLEGAL_GENERATION),
        }
    }

    /// Whether others still have any of what a member is to get.
    fn waits_for_others(&self, id: &str) -> bool {
        let Some(seat) = self.members.get(id) else {
            return false;
        };
        let target = seat.target.iter();
        let mut lacks = target
            .flat_map(|(topic, partitions)| partitions.iter().map(|it| (*topic, *it)))
            .filter(|(topic, it)| !seat.member.holds(*topic, *it));
        let others = || self.members.iter().filter(|(other, _)| *other != id);
        lacks.any(|(topic, it)| others().any(|(_, other)| other.member.holds(topic, it)))
    }
}

impl Seat {
    fn of_classic(
        member: ClassicMember,
        generation: i32,
        catalogue: &Catalogue,
        now: Instant,
    ) -> Result<Self, &'static str> {
        let first = member.protocols.first();
        let subscription = first.and_then(|it| Subscription::read(&it.metadata));
        let subscription = subscription.ok_or("a member's subscription cannot be read")?;
        let assignment = Assignment::read(&member.assignment);
        let assignment = assignment.ok_or("a member's assignment cannot be read")?;
        if assignment.has_user_data {
            return Err("its assignor is a custom one, whose user data would be lost");
        }
        let mut target = Target::new();
        let mut held = Held::new();
        for (topic, partitions) in by_id(&assignment.partitions, catalogue) {
            let got = partitions.iter().map(|it| (*it, generation));
            held.entry(topic).or_default().extend(got);
            target.entry(topic).or_default().extend(partitions);
        }
        let rebalance_timeout = member.rebalance_timeout.as_millis();
        Ok(Self {
            session_ends: Some(now + member.session_timeout),
            target,
            member: Member {
                instance: member.instance,
                rack: subscription.rack,
                client_id: member.client_id,
                client_host: member.client_host,
                names: subscription.topics,
                rebalance_timeout_ms: i32::try_from(rebalance_timeout).unwrap_or(i32::MAX),
                epoch: generation,
                previous_epoch: generation,
                assigned: held,
                classic: Some(Classic {
                    session: member.session_timeout,
                    protocols: member.protocols,
                }),
                ..Member::default()
            },
            ..Self::default()
        })
    }

    /// It has to join again, and has its rebalance timeout for that, counted from the first notice
    /// on.
    fn must_join(&mut self, now: Instant) {
        let by = now + milliseconds(self.member.rebalance_timeout_ms);
        self.join_by.get_or_insert(by);
    }
}

/// Whether a request names another protocol than the member's own.
fn differs(told: Option<&str>, own: Option<&str>) -> bool {
    told.is_some() && told != own
}

/// The same by the topics' ids; what there is no topic for is left out.
fn by_id(partitions: &Named, catalogue: &Catalogue) -> Owned {
    let topics = partitions.iter();
    let known = topics.filter_map(|(name, partitions)| {
        let (id, _) = catalogue.topic(name)?;
        Some((id, partitions.clone()))
    });
    known.collect()
}

/// The same by the topics' names.
fn named(
    partitions: impl Iterator<Item = (Uuid, Vec<i32>)>,
    catalogue: &Catalogue,
) -> impl Iterator<Item = (Str, Vec<i32>)> {
    partitions.filter_map(|(topic, partitions)| {
        let name = catalogue.name(topic)?;
        Some((name.clone(), partitions)).filter(|(_, it)| !it.is_empty())
    })
}
