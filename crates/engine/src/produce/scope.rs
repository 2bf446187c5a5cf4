//! The transaction that batches belong to, as the accumulator sees it: which partitions are part of it, and what went wrong.

use std::sync::Arc;

use crate::call::TransactionProtocol;

/// The transaction that batches belong to.
#[derive(Debug)]
pub(super) struct Scope {
    /// The transactional id.
    pub(super) id: Arc<str>,
    /// Grows with each transaction.
    pub(super) number: u64,
    pub(super) protocol: TransactionProtocol,
    /// A batch was sent since the transaction began.
    pub(super) sent: bool,
}

impl Scope {
    pub(super) fn new(id: &str) -> Scope {
        Scope {
            id: id.into(),
            number: 0,
            protocol: TransactionProtocol::V1,
            sent: false,
        }
    }

    /// Whether a partition that joined the transaction of this number may have batches sent: with the second protocol, the first
    /// batch itself joins.
    pub(super) fn admits(&self, joined: u64) -> bool {
        self.protocol == TransactionProtocol::V2 || joined == self.number
    }

    /// The highest version of Produce for this protocol: since 12, a batch joins the transaction by
    /// itself.
    pub(super) fn highest_produce(&self) -> i16 {
        match self.protocol {
            TransactionProtocol::V1 => JOINING - 1,
            TransactionProtocol::V2 => i16::MAX,
        }
    }

    /// Whether a Produce request of this version has what the protocol needs.
    pub(super) fn can_use(&self, version: i16) -> bool {
        self.protocol == TransactionProtocol::V1 || version >= JOINING
    }
}

/// The first version of Produce whose batches join their transaction by themselves (KIP-890).
const JOINING: i16 = 12;
