//! What a group keeps in the offsets topic, and a group that was read back from there.
//!
//! A group is written when its leader has assigned, when nobody is left, and when a static member
//! gets another id; so a coordinator that takes over knows the last generation that had its
//! assignments. A rebalance that was under way begins again: its waiting members get the new
//! coordinator, and join there.

use std::time::Duration;

use ottla_protocol::messages::GroupMetadataValue;
use ottla_protocol::messages::group_metadata_value::MemberMetadata;

use super::{Group, Member, Protocol, State};

impl<T> Group<T> {
    /// What a coordinator that takes over must know.
    pub(in crate::group) fn kept(&self) -> GroupMetadataValue {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|member| MemberMetadata {
            member_id: member.id.as_str().into(),
            group_instance_id: member.instance.as_deref().map(Into::into),
            client_id: member.client_id.as_str().into(),
            client_host: member.client_host.as_str().into(),
            rebalance_timeout: milliseconds(member.rebalance_timeout),
            session_timeout: milliseconds(member.session_timeout),
            subscription: member.metadata(protocol),
            assignment: member.assignment.clone(),
            ..MemberMetadata::default()
        });
        GroupMetadataValue {
            protocol_type: self.protocol_type().into(),
            generation: self.generation,
            protocol: self.protocol.as_deref().map(Into::into),
            leader: self.leader.as_deref().map(Into::into),
            members: members.collect(),
            ..GroupMetadataValue::default()
        }
    }

    /// The group as it was kept. Of what its members offer only the protocol in use is known, as in Kafka; their sessions
    /// begin with [`Group::begin_sessions`].
    pub(in crate::group) fn restored(initial_delay: Duration, kept: &GroupMetadataValue) -> Self {
        let protocol = kept.protocol.as_deref().map(ToOwned::to_owned);
        let members = kept.members.iter().map(|member| {
            let session_timeout = duration(member.session_timeout);
            let offered = protocol.as_ref().map(|name| Protocol {
                name: name.clone(),
                metadata: member.subscription.clone(),
            });
            Member {
                id: member.member_id.to_string(),
                instance: member.group_instance_id.as_ref().map(ToString::to_string),
                client_id: member.client_id.to_string(),
                client_host: member.client_host.to_string(),
                session_timeout,
                rebalance_timeout: match member.rebalance_timeout {
                    // A broker older than 0.10.1 wrote none.
                    ..0 => session_timeout,
                    timeout => duration(timeout),
                },
                protocols: offered.into_iter().collect(),
                assignment: member.assignment.clone(),
                joining: None,
                syncing: None,
                synced: true,
                is_new: false,
                session_ends: None,
            }
        });
        let members: Vec<_> = members.collect();
        let protocol_type = Some(kept.protocol_type.to_string());
        Self {
            state: match members.is_empty() {
                true => State::Empty,
                false => State::Stable,
            },
            generation: kept.generation,
            protocol_type: protocol_type.filter(|it| !it.is_empty()),
            leader: kept.leader.as_deref().map(ToOwned::to_owned),
            protocol,
            members,
            ..Self::new(initial_delay)
        }
    }
}

fn milliseconds(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}

fn duration(milliseconds: i32) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0).max(1))
}
