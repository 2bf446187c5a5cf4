//! One consumer group of the classic protocol, as a state machine without clock or sockets.
//!
//! ```text
//!                    first member joins                     everybody joined, or time is up
//!          ┌───────┐ ──────────────────▶ ┌───────────────┐ ──────────────────────────────▶ ┌────────────┐
//!          │ Empty │                     │   Preparing   │                                 │ Completing │
//!          └───────┘ ◀────────────────── │ members hold  │ ◀────────────────────────────── │ the leader │
//!                    nobody is left      │ in JoinGroup  │  a member comes, goes, differs  │  assigns   │
//!                                        └───────────────┘  or did not sync in time        └────────────┘
//!                                                ▲                                               │
//!                                                │ a member comes, goes, differs,                │ the leader syncs
//!                                                │ or the leader joins again      ┌────────┐     │
//!                                                └─────────────────────────────── │ Stable │ ◀───┘
//!                                                                                 └────────┘
//! ```
//!
//! Timers, all in [`Group::deadline`]: the join phase (the initial delay of an empty group, extended while members keep
//! coming, else the longest rebalance timeout), the sync phase, each member's session, and each id given out but not yet
//! used (KIP-394). Sessions do not run while a member waits in JoinGroup or SyncGroup. Static members (KIP-345) outlive a
//! missed rebalance and are replaced by the next process with their instance id.

mod converted;
mod kept;

use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use super::classic::{
    AsMember, Join, Joined, JoinedMember, MOST_PROTOCOLS, NotJoined, Protocol, Sync, Synced,
};
use super::consumer::{Beaten, Refused};

/// How long a new member is held in JoinGroup: it cannot send heartbeats, so nothing else shows
/// that it is gone.
const NEW_MEMBER_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Group<T> {
    /// How long the first rebalance of an empty group waits, each time, for more members.
    initial_delay: Duration,
    state: State,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    /// In the order they joined.
    members: Vec<Member<T>>,
    /// Ids given out that have not joined yet, and until when they may.
    pending: Vec<(String, Instant)>,
    /// When members that have not synced are taken for gone.
    sync_by: Option<Instant>,
    /// Whether [`Group::kept`] has something new.
    changed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Preparing(Joining),
    Completing,
    Stable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Joining {
    deadline: Instant,
    /// Set in the first rebalance of an empty group, which waits for latecomers and not for members to be complete.
    initial: Option<Initial>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Initial {
    /// No extension goes beyond this.
    at_most: Instant,
    /// Whether a member came since the deadline was last set.
    grown: bool,
}

#[derive(Debug)]
struct Member<T> {
    id: String,
    instance: Option<String>,
    client_id: String,
    client_host: String,
    session_timeout: Duration,
    rebalance_timeout: Duration,
    protocols: Vec<Protocol>,
    assignment: Bytes,
    joining: Option<T>,
    syncing: Option<T>,
    synced: bool,
    is_new: bool,
    /// `None`: it was read back, and begins again.
    session_ends: Option<Instant>,
}

/// A reply to a request that waited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Join(Result<Joined, NotJoined>),
    Sync(Result<Synced, ErrorCode>),
    Beat(Result<Beaten, Refused>),
}

/// What DescribeGroups returns of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) members: Vec<MemberDescription>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberDescription {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) metadata: Bytes,
    pub(crate) assignment: Bytes,
}

impl Reply {
    /// The same, if nothing of it could be kept.
    pub(crate) fn refused(self, code: ErrorCode) -> Self {
        match self {
            Reply::Join(Ok(joined)) => Reply::Join(Err(NotJoined {
                code,
                member: joined.member,
            })),
            Reply::Sync(Ok(_)) => Reply::Sync(Err(code)),
            Reply::Beat(Ok(_)) => Reply::Beat(Err(Refused::new(code, code.name()))),
            refused => refused,
        }
    }
}

/// Replies that became due, each with the ticket of its request.
pub(super) type Replies<T> = Vec<(T, Reply)>;

impl<T> Group<T> {
    pub(super) fn new(initial_delay: Duration) -> Self {
        Self {
            initial_delay,
            state: State::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: Vec::new(),
            pending: Vec::new(),
            sync_by: None,
            changed: false,
        }
    }

    /// Whether there is something to keep since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Has the sessions run of members that were read back.
    pub(super) fn begin_sessions(&mut self, now: Instant) {
        for member in &mut self.members {
            let ends = now + member.session_timeout;
            member.session_ends.get_or_insert(ends);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// Whether it ever had members, and so is kept.
    pub(super) fn was_kept(&self) -> bool {
        self.generation > 0
    }

    /// What its members offer of the protocol in use, if they have one.
    pub(super) fn metadata(&self) -> impl Iterator<Item = Bytes> + '_ {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        self.members.iter().map(|member| member.metadata(protocol))
    }

    /// Sends this code to all pending requests: another node coordinates the group from here on, or
    /// it changes its protocol.
    pub(super) fn abandon(&mut self, code: ErrorCode, out: &mut Replies<T>) {
        for member in &mut self.members {
            if let Some(ticket) = member.joining.take() {
                refuse(ticket, code, member.id.clone(), out);
            }
            if let Some(ticket) = member.syncing.take() {
                out.push((ticket, Reply::Sync(Err(code))));
            }
        }
    }

    pub(super) fn state_name(&self) -> &'static str {
        match self.state {
            State::Empty => "Empty",
            State::Preparing(_) => "PreparingRebalance",
            State::Completing => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    pub(super) fn protocol_type(&self) -> &str {
        self.protocol_type.as_deref().unwrap_or_default()
    }

    pub(super) fn describe(&self) -> Description {
        let is_settled = self.state == State::Stable;
        let protocol = self
            .protocol
            .clone()
            .filter(|_| is_settled)
            .unwrap_or_default();
        let member = |member: &Member<T>| MemberDescription {
            id: member.id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: if is_settled {
                member.metadata(&protocol)
            } else {
                Bytes::new()
            },
            assignment: if is_settled {
                member.assignment.clone()
            } else {
                Bytes::new()
            },
        };
        Description {
            state: self.state_name(),
            protocol_type: self.protocol_type().to_owned(),
            members: self.members.iter().map(member).collect(),
            protocol,
        }
    }

    /// JoinGroup. `new_id` is taken for a member without one.
    pub(super) fn join(
        &mut self,
        join: Join,
        ticket: T,
        new_id: String,
        now: Instant,
        out: &mut Replies<T>,
    ) {
        if !self.can_join(&join) {
            return refuse(
                ticket,
                ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
                join.member,
                out,
            );
        }
        if join.member.is_empty() {
            self.join_without_id(join, ticket, new_id, now, out);
        } else {
            self.join_with_id(join, ticket, now, out);
        }
        self.advance(now, out);
    }

    fn join_without_id(
        &mut self,
        join: Join,
        ticket: T,
        new_id: String,
        now: Instant,
        out: &mut Replies<T>,
    ) {
        if let Some(known) = self.static_member(join.instance.as_deref()) {
            return self.replace_static(known, join, ticket, new_id, now, out);
        }
        if join.instance.is_none() && join.id_first {
            self.pending
                .push((new_id.clone(), now + join.session_timeout));
            return refuse(ticket, ErrorCode::MEMBER_ID_REQUIRED, new_id, out);
        }
        self.add(join, ticket, new_id, now, out);
    }

    fn join_with_id(&mut self, join: Join, ticket: T, now: Instant, out: &mut Replies<T>) {
        if let Some(index) = self.pending.iter().position(|(id, _)| *id == join.member) {
            self.pending.swap_remove(index);
            let id = join.member.clone();
            return self.add(join, ticket, id, now, out);
        }
        let index = match self.member_index(&join.member, join.instance.as_deref()) {
            Ok(index) => index,
            Err(code) => return refuse(ticket, code, join.member, out),
        };
        let is_leader = self.leader.as_ref() == Some(&join.member);
        let is_same = self
            .members
            .get(index)
            .is_some_and(|member| member.protocols == join.protocols);
        let needs_rebalance = match self.state {
            State::Preparing(_) => true,
            State::Completing => !is_same,
            State::Stable => is_leader || !is_same,
            State::Empty => return refuse(ticket, ErrorCode::UNKNOWN_MEMBER_ID, join.member, out),
        };
        if !needs_rebalance {
            // The response to its first request was lost, or it only wants to know.
            let joined = self.joined(&join.member, is_leader);
            if let Some(member) = self.members.get_mut(index) {
                member.session_ends = Some(now + member.session_timeout);
            }
            out.push((ticket, Reply::Join(Ok(joined))));
            return;
        }
        if let Some(member) = self.members.get_mut(index) {
            member.offer(join.protocols, join.session_timeout, join.rebalance_timeout);
            member.wait_in_join(ticket, out);
        }
        self.rebalance(now, out);
    }

    /// Whether a member with these protocols can be in this group.
    fn can_join(&self, join: &Join) -> bool {
        if join.protocol_type.is_empty() || !(1..=MOST_PROTOCOLS).contains(&join.protocols.len()) {
            return false;
        }
        // Of the others: a member that joins again may change what it offers.
        let mut others = self
            .members
            .iter()
            .filter(|member| member.id != join.member)
            .peekable();
        if others.peek().is_none() {
            return true;
        }
        let others: Vec<_> = others.collect();
        self.protocol_type.as_ref() == Some(&join.protocol_type)
            && join
                .protocols
                .iter()
                .any(|offered| others.iter().all(|other| other.offers(&offered.name)))
    }

    fn add(&mut self, join: Join, ticket: T, id: String, now: Instant, out: &mut Replies<T>) {
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        self.leader.get_or_insert_with(|| id.clone());
        self.members.push(Member {
            id,
            instance: join.instance,
            client_id: join.client_id,
            client_host: join.client_host,
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(ticket),
            syncing: None,
            synced: false,
            is_new: true,
            session_ends: Some(now + NEW_MEMBER_TIMEOUT),
        });
        if let State::Preparing(Joining {
            initial: Some(initial),
            ..
        }) = &mut self.state
        {
            initial.grown = true;
        }
        self.rebalance(now, out);
    }

    /// A process came back under a static member's instance id: it takes that member's place under a new id.
    fn replace_static(
        &mut self,
        index: usize,
        join: Join,
        ticket: T,
        new_id: String,
        now: Instant,
        out: &mut Replies<T>,
    ) {
        let old_leader = self.leader.clone().unwrap_or_default();
        let Some(member) = self.members.get_mut(index) else {
            return refuse(ticket, ErrorCode::UNKNOWN_MEMBER_ID, join.member, out);
        };
        let old_id = std::mem::replace(&mut member.id, new_id.clone());
        member.fence(&old_id, out);
        member.offer(join.protocols, join.session_timeout, join.rebalance_timeout);
        member.client_id = join.client_id;
        member.client_host = join.client_host;
        member.session_ends = Some(now + member.session_timeout);
        if self.leader.as_ref() == Some(&old_id) {
            self.leader = Some(new_id.clone());
        }
        if self.state == State::Stable && self.select_protocol() == self.protocol {
            // Only an id changes for the group. A leader whose JoinGroup has no `skip_assignment`
            // gets its old id as the leader's, and takes itself for a follower.
            self.changed = true;
            let is_leader = self.leader.as_ref() == Some(&new_id) && join.can_skip_assignment;
            let mut joined = self.joined(&new_id, is_leader);
            joined.skip_assignment = is_leader;
            if !join.can_skip_assignment {
                joined.leader = old_leader;
            }
            out.push((ticket, Reply::Join(Ok(joined))));
            return;
        }
        if let Some(member) = self.members.get_mut(index) {
            member.wait_in_join(ticket, out);
        }
        self.rebalance(now, out);
    }

    /// Begins to gather the members, unless that is under way.
    fn rebalance(&mut self, now: Instant, out: &mut Replies<T>) {
        let longest = self
            .members
            .iter()
            .map(|member| member.rebalance_timeout)
            .max()
            .unwrap_or_default();
        let at_most = now + longest;
        let joining = match self.state {
            State::Preparing(_) => return,
            State::Empty => {
                let initial = Some(Initial {
                    at_most,
                    grown: false,
                });
                Joining {
                    deadline: at_most.min(now + self.initial_delay),
                    initial,
                }
            }
            State::Completing | State::Stable => Joining {
                deadline: at_most,
                initial: None,
            },
        };
        for member in &mut self.members {
            if let Some(ticket) = member.syncing.take() {
                out.push((ticket, Reply::Sync(Err(ErrorCode::REBALANCE_IN_PROGRESS))));
                member.session_ends = Some(now + member.session_timeout);
            }
        }
        if self.state == State::Completing {
            for member in &mut self.members {
                member.assignment = Bytes::new();
            }
        }
        self.sync_by = None;
        self.state = State::Preparing(joining);
    }

    /// SyncGroup.
    pub(super) fn sync(&mut self, sync: Sync, ticket: T, now: Instant, out: &mut Replies<T>) {
        let index = match self.check_sync(&sync) {
            Ok(index) => index,
            Err(code) => return out.push((ticket, Reply::Sync(Err(code)))),
        };
        let is_leader = self.leader.as_ref() == Some(&sync.as_member.id);
        if let Some(member) = self.members.get_mut(index) {
            member.synced = true;
            if let Some(older) = member.syncing.replace(ticket) {
                out.push((older, Reply::Sync(Err(ErrorCode::REBALANCE_IN_PROGRESS))));
            }
        }
        if self.state == State::Completing && is_leader {
            for (id, assignment) in sync.assignments {
                if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
                    member.assignment = assignment;
                }
            }
            self.state = State::Stable;
            self.changed = true;
        }
        if self.state == State::Stable {
            self.answer_syncs(now, out);
        }
        self.advance(now, out);
    }

    fn check_sync(&self, sync: &Sync) -> Result<usize, ErrorCode> {
        let index = self.current_member(&sync.as_member)?;
        let differs = |told: &Option<String>, own: &Option<String>| told.is_some() && told != own;
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol, &self.protocol)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.state {
            State::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            State::Preparing(_) => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            State::Completing | State::Stable => Ok(index),
        }
    }

    fn answer_syncs(&mut self, now: Instant, out: &mut Replies<T>) {
        for member in &mut self.members {
            if let Some(ticket) = member.syncing.take() {
                member.session_ends = Some(now + member.session_timeout);
                let synced = Synced {
                    protocol_type: self.protocol_type.clone(),
                    protocol: self.protocol.clone(),
                    assignment: member.assignment.clone(),
                };
                out.push((ticket, Reply::Sync(Ok(synced))));
            }
        }
    }

    /// Heartbeat.
    pub(super) fn heartbeat(
        &mut self,
        as_member: &AsMember,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        let index = self.current_member(as_member)?;
        if self.state == State::Empty {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.extend_session(index, now);
        match self.state {
            State::Preparing(_) => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// LeaveGroup of one member, named by its id, its instance id, or both.
    pub(super) fn leave(
        &mut self,
        id: &str,
        instance: Option<&str>,
        now: Instant,
        out: &mut Replies<T>,
    ) -> Result<(), ErrorCode> {
        if let Some(index) = self.pending.iter().position(|(pending, _)| pending == id) {
            self.pending.swap_remove(index);
        } else {
            let index = match (id, self.static_member(instance)) {
                ("", Some(index)) => index,
                _ => self.member_index(id, instance)?,
            };
            self.remove(index, out);
            self.after_loss(now, out);
        }
        self.advance(now, out);
        Ok(())
    }

    /// Whether offsets may be committed by this member, or by nobody's (a generation below 0 and no member id).
    pub(super) fn check_commit(
        &mut self,
        as_member: &AsMember,
        in_transaction: bool,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        let is_anonymous = as_member.is_nobody();
        match self.state {
            State::Empty if as_member.generation < 0 => return Ok(()),
            // Old producers do not say whose offsets they commit.
            _ if is_anonymous && in_transaction => return Ok(()),
            _ if is_anonymous => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            _ => {}
        }
        let index = self.current_member(as_member)?;
        if self.state == State::Completing && !in_transaction {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        self.extend_session(index, now);
        Ok(())
    }

    /// The next moment at which [`Group::advance`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let joining = match &self.state {
            State::Preparing(joining) => Some(joining.deadline),
            _ => None,
        };
        let sessions = self
            .members
            .iter()
            .filter(|member| member.session_runs())
            .filter_map(|member| member.session_ends);
        let pending = self.pending.iter().map(|(_, until)| *until);
        sessions
            .chain(pending)
            .chain(joining)
            .chain(self.sync_by)
            .min()
    }

    /// Does all that is due by `now`.
    pub(super) fn advance(&mut self, now: Instant, out: &mut Replies<T>) {
        self.pending.retain(|(_, until)| *until > now);
        while let Some(gone) = self
            .members
            .iter()
            .position(|member| member.session_is_over(now))
        {
            self.remove(gone, out);
            self.after_loss(now, out);
        }
        if self.sync_by.is_some_and(|by| by <= now) {
            self.sync_by = None;
            while let Some(gone) = self.members.iter().position(|member| !member.synced) {
                self.remove(gone, out);
                self.after_loss(now, out);
            }
        }
        self.advance_join(now, out);
    }

    fn advance_join(&mut self, now: Instant, out: &mut Replies<T>) {
        let State::Preparing(joining) = &mut self.state else {
            return;
        };
        if let Some(initial) = &mut joining.initial
            && joining.deadline <= now
            && std::mem::take(&mut initial.grown)
        {
            joining.deadline = initial.at_most.min(joining.deadline + self.initial_delay);
        }
        let is_due = joining.deadline <= now;
        let waits_for_latecomers = joining.initial.is_some() && !self.members.is_empty();
        if is_due || (self.all_joined() && !waits_for_latecomers) {
            self.complete_join(now, out);
        }
    }

    fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.iter().all(|member| member.joining.is_some())
    }

    /// Ends the join phase: whoever did not come is out, the others become the next generation.
    fn complete_join(&mut self, now: Instant, out: &mut Replies<T>) {
        while let Some(gone) = self
            .members
            .iter()
            .position(|member| member.joining.is_none() && member.instance.is_none())
        {
            self.remove(gone, out);
        }
        let longest = self
            .members
            .iter()
            .map(|member| member.rebalance_timeout)
            .max()
            .unwrap_or_default();
        let joined = |id: &Option<String>| {
            let mut members = self.members.iter();
            members.any(|member| Some(&member.id) == id.as_ref() && member.joining.is_some())
        };
        if !joined(&self.leader) {
            let newcomer = self.members.iter().find(|member| member.joining.is_some());
            match newcomer {
                Some(member) => self.leader = Some(member.id.clone()),
                None if self.members.is_empty() => self.leader = None,
                None => {
                    // Only static members, all away: they keep their places for another round.
                    self.state = State::Preparing(Joining {
                        deadline: now + longest,
                        initial: None,
                    });
                    return;
                }
            }
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.protocol = None;
            self.state = State::Empty;
            self.changed = true;
            return;
        }
        self.protocol = self.select_protocol();
        self.state = State::Completing;
        self.sync_by = Some(now + longest);
        let leader = self.leader.clone();
        for index in 0..self.members.len() {
            let Some(member) = self.members.get_mut(index) else {
                break;
            };
            let (id, ticket) = (member.id.clone(), member.joining.take());
            member.is_new = false;
            member.synced = false;
            member.session_ends = Some(now + member.session_timeout);
            if let Some(ticket) = ticket {
                let joined = self.joined(&id, leader.as_ref() == Some(&id));
                out.push((ticket, Reply::Join(Ok(joined))));
            }
        }
    }

    /// The protocol that all members offer and most of them prefer; of equals, the one voted for first.
    fn select_protocol(&self) -> Option<String> {
        let mut votes: Vec<(&str, usize)> = Vec::new();
        for member in &self.members {
            let offered = member
                .protocols
                .iter()
                .map(|protocol| protocol.name.as_str());
            let choice = offered
                .into_iter()
                .find(|name| self.members.iter().all(|other| other.offers(name)));
            if let Some(choice) = choice {
                match votes.iter_mut().find(|(name, _)| *name == choice) {
                    Some((_, count)) => *count += 1,
                    None => votes.push((choice, 1)),
                }
            }
        }
        let most = votes.iter().map(|(_, count)| *count).max()?;
        votes
            .iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| (*name).to_owned())
    }

    fn joined(&self, id: &str, with_members: bool) -> Joined {
        let protocol = self.protocol.clone().unwrap_or_default();
        let members = self
            .members
            .iter()
            .filter(|_| with_members)
            .map(|member| JoinedMember {
                id: member.id.clone(),
                instance: member.instance.clone(),
                metadata: member.metadata(&protocol),
            });
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member: id.to_owned(),
            skip_assignment: false,
            members: members.collect(),
        }
    }

    fn remove(&mut self, index: usize, out: &mut Replies<T>) {
        if index >= self.members.len() {
            return;
        }
        let mut gone = self.members.remove(index);
        if let Some(ticket) = gone.joining.take() {
            refuse(ticket, ErrorCode::UNKNOWN_MEMBER_ID, gone.id.clone(), out);
        }
        if let Some(ticket) = gone.syncing.take() {
            out.push((ticket, Reply::Sync(Err(ErrorCode::UNKNOWN_MEMBER_ID))));
        }
        if self.leader.as_ref() == Some(&gone.id) {
            self.leader = self.members.first().map(|member| member.id.clone());
        }
    }

    fn after_loss(&mut self, now: Instant, out: &mut Replies<T>) {
        if matches!(self.state, State::Completing | State::Stable) {
            self.rebalance(now, out);
        }
    }

    fn extend_session(&mut self, index: usize, now: Instant) {
        if let Some(member) = self.members.get_mut(index) {
            member.session_ends = Some(now + member.session_timeout);
        }
    }

    fn static_member(&self, instance: Option<&str>) -> Option<usize> {
        let instance = instance?;
        self.members
            .iter()
            .position(|member| member.instance.as_deref() == Some(instance))
    }

    /// The member with this id, which if it names an instance must be that instance's present one.
    fn member_index(&self, id: &str, instance: Option<&str>) -> Result<usize, ErrorCode> {
        if instance.is_some() {
            let index = self
                .static_member(instance)
                .ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
            let is_current = self
                .members
                .get(index)
                .is_some_and(|member| member.id == id);
            return if is_current {
                Ok(index)
            } else {
                Err(ErrorCode::FENCED_INSTANCE_ID)
            };
        }
        self.members
            .iter()
            .position(|member| member.id == id)
            .ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    fn current_member(&self, as_member: &AsMember) -> Result<usize, ErrorCode> {
        let index = self.member_index(&as_member.id, as_member.instance.as_deref())?;
        if as_member.generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(index)
    }
}

impl<T> Member<T> {
    fn offers(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|own| own.name == protocol)
    }

    fn metadata(&self, protocol: &str) -> Bytes {
        let own = self.protocols.iter().find(|own| own.name == protocol);
        own.map(|own| own.metadata.clone()).unwrap_or_default()
    }

    fn offer(
        &mut self,
        protocols: Vec<Protocol>,
        session_timeout: Duration,
        rebalance_timeout: Duration,
    ) {
        self.protocols = protocols;
        self.session_timeout = session_timeout;
        self.rebalance_timeout = rebalance_timeout;
    }

    /// Holds `ticket` until the join phase ends; an older request of the same member is let go.
    fn wait_in_join(&mut self, ticket: T, out: &mut Replies<T>) {
        if let Some(older) = self.joining.replace(ticket) {
            refuse(
                older,
                ErrorCode::REBALANCE_IN_PROGRESS,
                self.id.clone(),
                out,
            );
        }
    }

    fn fence(&mut self, old_id: &str, out: &mut Replies<T>) {
        if let Some(ticket) = self.joining.take() {
            refuse(
                ticket,
                ErrorCode::FENCED_INSTANCE_ID,
                old_id.to_owned(),
                out,
            );
        }
        if let Some(ticket) = self.syncing.take() {
            out.push((ticket, Reply::Sync(Err(ErrorCode::FENCED_INSTANCE_ID))));
        }
    }

    fn session_runs(&self) -> bool {
        self.is_new || (self.joining.is_none() && self.syncing.is_none())
    }

    fn session_is_over(&self, now: Instant) -> bool {
        self.session_runs() && self.session_ends.is_some_and(|ends| ends <= now)
    }
}

fn refuse<T>(ticket: T, code: ErrorCode, member: String, out: &mut Replies<T>) {
    out.push((ticket, Reply::Join(Err(NotJoined { code, member }))));
}
