//! Requests and responses of members of the classic protocol, of whichever kind their group is.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::ErrorCode;

/// Nobody offers more protocols than this, and comparing everybody's takes time.
pub(super) const MOST_PROTOCOLS: usize = 256;

/// A protocol a member offers, with its metadata for the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: String,
    pub(crate) metadata: Bytes,
}

/// A JoinGroup request.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(crate) group: String,
    /// Empty for a member that has none yet.
    pub(crate) member: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<Protocol>,
    /// From version 4 a member first gets an id and then joins with it (KIP-394).
    pub(crate) id_first: bool,
    /// Since version 9 the response can make a leader leave the assignment as it is (KIP-814).
    pub(crate) can_skip_assignment: bool,
}

/// The reply to a [`Join`] that went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    pub(crate) member: String,
    pub(crate) skip_assignment: bool,
    /// Everybody, for the leader; nobody, for the others.
    pub(crate) members: Vec<JoinedMember>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinedMember {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) metadata: Bytes,
}

/// A [`Join`] that did not go through, and the member id to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotJoined {
    pub(crate) code: ErrorCode,
    pub(crate) member: String,
}

/// A SyncGroup request.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    pub(crate) group: String,
    pub(crate) as_member: AsMember,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: Vec<(String, Bytes)>,
}

/// The sender of a request, by its own fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsMember {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
}

impl AsMember {
    /// Whether no member is named.
    pub(super) fn is_nobody(&self) -> bool {
        self.generation < 0 && self.id.is_empty() && self.instance.is_none()
    }
}

/// The reply to a [`Sync`] that went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Bytes,
}

/// A member of a group that changes its protocol, as the classic one knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClassicMember {
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Bytes,
}
