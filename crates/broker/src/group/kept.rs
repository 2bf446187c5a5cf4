//! What a group of any kind keeps in the offsets topic.

use bytes::Bytes;
use ottla_protocol::EncodeError;

use super::consumer::kept::StoredConsumer;
use super::members::StoredMembers;
use super::share::kept::StoredShare;

/// A record of the offsets topic about a group's members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kept {
    Classic(StoredMembers),
    Consumer(StoredConsumer),
    Share(StoredShare),
}

impl Kept {
    pub(crate) fn group(&self) -> &str {
        match self {
            Self::Classic(stored) => &stored.group,
            Self::Consumer(stored) => &stored.group,
            Self::Share(stored) => &stored.group,
        }
    }

    /// The record's key and value, at this time in milliseconds since 1970.
    pub(crate) fn encode(&self, now: i64) -> Result<(Bytes, Option<Bytes>), EncodeError> {
        match self {
            Self::Classic(stored) => stored.encode(now),
            Self::Consumer(stored) => stored.encode(now),
            Self::Share(stored) => stored.encode(now),
        }
    }
}
