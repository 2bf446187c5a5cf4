//! A group that changes its protocol while it has members (KIP-848): what goes to the other kind, and what comes from there.

use std::time::Instant;

use super::{Group, Member, Replies, State};
use crate::group::classic::ClassicMember;

impl<T> Group<T> {
    pub(in crate::group) fn generation(&self) -> i32 {
        self.generation
    }

    /// Its members, with what they were last assigned.
    pub(in crate::group) fn classic_members(&self) -> Vec<ClassicMember> {
        let member = |member: &Member<T>| ClassicMember {
            id: member.id.clone(),
            instance: member.instance.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            session_timeout: member.session_timeout,
            rebalance_timeout: member.rebalance_timeout,
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        };
        self.members.iter().map(member).collect()
    }

    /// Has the group go on with these members, of consumers, in this generation.
    pub(in crate::group) fn take_over(
        &mut self,
        generation: i32,
        members: Vec<ClassicMember>,
        protocol_type: &str,
        now: Instant,
    ) {
        let members = members.into_iter().map(|member| Member {
            session_ends: Some(now + member.session_timeout),
            id: member.id,
            instance: member.instance,
            client_id: member.client_id,
            client_host: member.client_host,
            session_timeout: member.session_timeout,
            rebalance_timeout: member.rebalance_timeout,
            protocols: member.protocols,
            assignment: member.assignment,
            joining: None,
            syncing: None,
            synced: true,
            is_new: false,
        });
        self.members = members.collect();
        self.state = State::Stable;
        self.generation = generation;
        self.protocol_type = Some(protocol_type.to_owned());
        self.protocol = self.select_protocol();
        self.leader = self.members.first().map(|member| member.id.clone());
        self.changed = true;
    }

    /// Has all members join again.
    pub(in crate::group) fn gather(&mut self, now: Instant, out: &mut Replies<T>) {
        self.rebalance(now, out);
        self.advance(now, out);
    }
}
