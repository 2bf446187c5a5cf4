//! One transactional id: who its producer is, what its transaction holds, and what may follow, without clock or sockets.
//!
//! ```text
//!              partitions are added              EndTxn
//!   ┌───────┐ ─────────────────────▶ ┌─────────┐ ──────▶ ┌───────────────┐  all markers   ┌────────────────┐
//!   │ Empty │                        │ Ongoing │         │ PrepareCommit │ ─────────────▶ │ CompleteCommit │
//!   └───────┘ ◀───┐                  └─────────┘ ──────▶ │ PrepareAbort  │  are written   │ CompleteAbort  │
//!                 │                       ▲     timeout, └───────────────┘                └────────────────┘
//!                 │ InitProducerId        │     another producer                              │  │
//!                 └───────────────────────┼───────────────────────────────────────────────────┘  │
//!                                         └──────────────────────────────────────────────────────┘
//! ```
//!
//! Each step is made of two: the next state is worked out here and written to the log, and counts
//! when it is there. With KIP-890 each end of a transaction raises the epoch, so that nothing late
//! of it can come into the next; before, only another producer or a timeout does. KIP-360 lets a
//! producer raise its own epoch, if it sends its present one.
//!
//! A producer that takes over from one that had prepared its transaction keeps that open (KIP-939). It gets an identity of its own,
//! by which the transaction ends, while its records keep theirs:
//!
//! ```text
//!   Ongoing 42:3 ── InitProducerId, keeping ──▶ Ongoing 42:3, next 42:4 ── EndTxn by 42:4 ──▶ Prepare… 42:4, next 42:5 ──▶ Complete… 42:5
//! ```

use std::collections::{BTreeMap, BTreeSet};

use ottla_protocol::ErrorCode;

/// An epoch that no producer has yet.
pub(crate) const NO_EPOCH: i16 = -1;
pub(crate) const NO_PRODUCER: i64 = -1;
/// The highest epoch that a client gets; the one above it only fences.
const LAST_EPOCH: i16 = i16::MAX - 1;
/// The timeout of transactions that only their owner ends (KIP-939).
pub(super) const NO_TIMEOUT: i32 = i32::MAX;

/// A producer at one time: its id and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
}

/// Which protocol a client, or the broker, follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// The epoch stays from transaction to transaction (KIP-98).
    #[default]
    Classic,
    /// Each transaction has an epoch of its own (KIP-890).
    EpochEach,
}

impl Protocol {
    /// Kafka's `transaction.version`.
    pub(super) fn number(self) -> i16 {
        match self {
            Self::Classic => 0,
            Self::EpochEach => 2,
        }
    }

    pub(crate) fn of(number: i16) -> Self {
        if number >= 2 {
            Self::EpochEach
        } else {
            Self::Classic
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Empty = 0,
    Ongoing = 1,
    PrepareCommit = 2,
    PrepareAbort = 3,
    CompleteCommit = 4,
    CompleteAbort = 5,
}

impl Status {
    pub(crate) const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// The state with this number in the log.
    pub(super) fn of(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as i8 == number)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    fn prepare(commits: bool) -> Self {
        if commits {
            Self::PrepareCommit
        } else {
            Self::PrepareAbort
        }
    }

    pub(super) fn is_ending(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// What the coordinator knows of a transactional id, as its log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) producer_id: i64,
    /// The id before the epochs of that ran out.
    pub(super) previous_producer_id: i64,
    /// The id after this transaction, when the epochs run out with it.
    pub(super) next_producer_id: i64,
    pub(crate) epoch: i16,
    /// The epoch of the producer that took over and kept the transaction, with the next id if there is one (KIP-939).
    pub(super) next_epoch: i16,
    /// The epoch before, for a producer that did not learn of the new one.
    pub(super) last_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) status: Status,
    pub(crate) partitions: BTreeMap<String, BTreeSet<i32>>,
    /// When the transaction began, in milliseconds since 1970; -1 before the first.
    pub(crate) started_ms: i64,
    pub(super) updated_ms: i64,
    /// The protocol of the client that last changed something.
    pub(super) client: Protocol,
}

/// What InitProducerId leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Initialized {
    /// The producer may go on.
    Ready(Metadata),
    /// First its open transaction must end; the producer is to ask again.
    Aborting(Metadata),
    /// Its open transaction waits for it.
    Kept(Metadata),
}

/// What EndTxn leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has ended so before: this is who the producer is now.
    Already(Identity),
    Ending(Metadata),
}

impl Metadata {
    /// Of an id that nobody has used yet.
    pub(super) fn new(producer_id: i64, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer_id,
            previous_producer_id: NO_PRODUCER,
            next_producer_id: NO_PRODUCER,
            epoch: NO_EPOCH,
            next_epoch: NO_EPOCH,
            last_epoch: NO_EPOCH,
            timeout_ms,
            status: Status::Empty,
            partitions: BTreeMap::new(),
            started_ms: -1,
            updated_ms: now_ms,
            client: Protocol::Classic,
        }
    }

    /// Whose records are in the transaction.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            producer_id: self.producer_id,
            epoch: self.epoch,
        }
    }

    /// Who may end the transaction: whose it is, or who kept it.
    pub(super) fn owner(&self) -> Identity {
        match (self.next_epoch, self.next_producer_id) {
            (NO_EPOCH, _) => self.identity(),
            (epoch, NO_PRODUCER) => Identity {
                producer_id: self.producer_id,
                epoch,
            },
            (epoch, producer_id) => Identity { producer_id, epoch },
        }
    }

    fn is_kept(&self) -> bool {
        self.next_epoch != NO_EPOCH
    }

    /// Whether the next epoch needs another producer id.
    pub(super) fn is_exhausted(&self) -> bool {
        self.owner().epoch >= LAST_EPOCH
    }

    /// InitProducerId. `expected` is the identity that the producer sends, if it does; `keeps`
    /// whether an open transaction stays open; `fresh_id` an id for the case that epochs have run
    /// out.
    pub(super) fn init(
        &self,
        expected: Option<Identity>,
        keeps: bool,
        timeout_ms: i32,
        fresh_id: Option<i64>,
        broker: Protocol,
        now_ms: i64,
    ) -> Result<Initialized, ErrorCode> {
        if expected.is_some_and(|expected| !self.may_be(expected)) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        match self.status {
            Status::PrepareCommit | Status::PrepareAbort => {
                return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
            }
            Status::Ongoing if keeps => {
                return self.kept(expected, timeout_ms, fresh_id, now_ms);
            }
            Status::Ongoing => return Ok(Initialized::Aborting(self.fenced(broker, now_ms))),
            Status::Empty | Status::CompleteCommit | Status::CompleteAbort => {}
        }
        let mut next = Self {
            timeout_ms,
            status: Status::Empty,
            partitions: BTreeMap::new(),
            started_ms: -1,
            updated_ms: now_ms,
            ..self.clone()
        };
        if self.is_exhausted() && expected.is_none_or(|it| it.epoch == self.epoch) {
            next.producer_id = fresh_id.ok_or(ErrorCode::CONCURRENT_TRANSACTIONS)?;
            next.previous_producer_id = self.producer_id;
            next.epoch = 0;
            next.last_epoch = if expected.is_some() {
                self.epoch
            } else {
                NO_EPOCH
            };
            return Ok(Initialized::Ready(next));
        }
        (next.epoch, next.last_epoch) = match expected {
            None => (self.epoch + 1, NO_EPOCH),
            Some(it) if self.epoch == NO_EPOCH || it.epoch == self.epoch => {
                (self.epoch + 1, self.epoch)
            }
            // It repeats the request, for what it was given before.
            Some(it) if it.epoch == self.last_epoch => (self.epoch, self.last_epoch),
            Some(_) => return Err(ErrorCode::PRODUCER_FENCED),
        };
        Ok(Initialized::Ready(next))
    }

    /// The same transaction, with an owner that fences the one before.
    fn kept(
        &self,
        expected: Option<Identity>,
        timeout_ms: i32,
        fresh_id: Option<i64>,
        now_ms: i64,
    ) -> Result<Initialized, ErrorCode> {
        let owner = self.owner();
        if expected.is_some_and(|expected| expected != owner) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        let mut next = Self {
            timeout_ms,
            updated_ms: now_ms,
            ..self.clone()
        };
        if self.is_exhausted() {
            next.next_producer_id = fresh_id.ok_or(ErrorCode::CONCURRENT_TRANSACTIONS)?;
            next.next_epoch = 0;
        } else {
            next.next_epoch = owner.epoch + 1;
        }
        Ok(Initialized::Kept(next))
    }

    /// Whether a producer that sends `expected` as its identity can be this one.
    fn may_be(&self, expected: Identity) -> bool {
        let was_rotated =
            expected.producer_id == self.previous_producer_id && expected.epoch >= LAST_EPOCH;
        self.epoch == NO_EPOCH
            || expected.producer_id == self.producer_id
            || expected.producer_id == self.owner().producer_id
            || was_rotated
    }

    /// Is this the producer?
    fn check(&self, producer: Identity) -> Result<(), ErrorCode> {
        let owner = self.owner();
        if producer.producer_id != self.producer_id && producer.producer_id != owner.producer_id {
            Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
        } else if producer != owner {
            Err(ErrorCode::PRODUCER_FENCED)
        } else if self.is_kept() && self.status == Status::Ongoing {
            // It was prepared: nothing is left but its end.
            Err(ErrorCode::INVALID_TXN_STATE)
        } else if self.status.is_ending() {
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        } else {
            Ok(())
        }
    }

    /// The transaction with these partitions, and begun if there was none; `None` if it has them.
    pub(super) fn add(
        &self,
        producer: Identity,
        partitions: &[(String, i32)],
        client: Protocol,
        now_ms: i64,
    ) -> Result<Option<Self>, ErrorCode> {
        self.check(producer)?;
        let is_ongoing = self.status == Status::Ongoing;
        if is_ongoing && partitions.iter().all(|it| self.holds(it)) {
            return Ok(None);
        }
        let mut next = Self {
            status: Status::Ongoing,
            started_ms: if is_ongoing { self.started_ms } else { now_ms },
            updated_ms: now_ms,
            client,
            ..self.clone()
        };
        for (topic, partition) in partitions {
            let added = next.partitions.entry(topic.clone()).or_default();
            added.insert(*partition);
        }
        Ok(Some(next))
    }

    /// Is the partition in the producer's transaction?
    pub(super) fn verify(
        &self,
        producer: Identity,
        partition: &(String, i32),
    ) -> Result<(), ErrorCode> {
        self.check(producer)?;
        if self.holds(partition) {
            Ok(())
        } else {
            Err(ErrorCode::TRANSACTION_ABORTABLE)
        }
    }

    fn holds(&self, (topic, partition): &(String, i32)) -> bool {
        let held = self.partitions.get(topic);
        held.is_some_and(|held| held.contains(partition))
    }

    /// EndTxn. `fresh_id` is an id for the case that epochs run out.
    pub(super) fn end(
        &self,
        producer: Identity,
        commits: bool,
        client: Protocol,
        fresh_id: Option<i64>,
        now_ms: i64,
    ) -> Result<Ended, ErrorCode> {
        match client {
            Protocol::Classic => self.end_classic(producer, commits, now_ms),
            Protocol::EpochEach => self.end_with_epoch(producer, commits, fresh_id, now_ms),
        }
    }

    fn end_classic(
        &self,
        producer: Identity,
        commits: bool,
        now_ms: i64,
    ) -> Result<Ended, ErrorCode> {
        let owner = self.owner();
        if producer.producer_id != self.producer_id && producer.producer_id != owner.producer_id {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if self.status.is_ending() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if producer != owner {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        match (self.status, commits) {
            (Status::Ongoing, _) => Ok(Ended::Ending(Self {
                status: Status::prepare(commits),
                updated_ms: now_ms,
                client: Protocol::Classic,
                ..self.clone()
            })),
            (Status::CompleteCommit, true) | (Status::CompleteAbort, false) => {
                Ok(Ended::Already(self.identity()))
            }
            _ => Err(ErrorCode::INVALID_TXN_STATE),
        }
    }

    /// The epoch of a request shows whether it is the first or a retry: the end has raised the
    /// epoch.
    fn end_with_epoch(
        &self,
        producer: Identity,
        commits: bool,
        fresh_id: Option<i64>,
        now_ms: i64,
    ) -> Result<Ended, ErrorCode> {
        let again_after_rotation = producer.producer_id == self.previous_producer_id
            && producer.epoch == LAST_EPOCH
            && self.epoch == 0;
        let again = again_after_rotation
            || (self.client == Protocol::EpochEach
                && producer.epoch.checked_add(1) == Some(self.epoch));
        let owner = self.owner();
        let ids = [self.producer_id, owner.producer_id];
        if !ids.contains(&producer.producer_id) && !again_after_rotation {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        // Also of the next transaction, which may be aborted before the markers of this one are written (KAFKA-18464).
        if self.status.is_ending() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        let is_current = producer == owner;
        let is_complete = matches!(self.status, Status::CompleteCommit | Status::CompleteAbort);
        let is_known = is_current || is_complete && again;
        if !is_known {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        match (self.status, commits) {
            (Status::Ongoing, _) => {}
            (Status::CompleteCommit, true) | (Status::CompleteAbort, false) if again => {
                return Ok(Ended::Already(self.identity()));
            }
            // What was not begun can be aborted, to get another epoch.
            (Status::Empty, false) => {}
            (Status::CompleteCommit | Status::CompleteAbort, false) if !again => {}
            _ => return Err(ErrorCode::INVALID_TXN_STATE),
        }
        let is_begun = self.status == Status::Ongoing;
        let mut next = self.raised(Status::prepare(commits), now_ms);
        if !is_begun {
            next.started_ms = now_ms;
        }
        if self.is_exhausted() {
            next.next_producer_id = fresh_id.ok_or(ErrorCode::CONCURRENT_TRANSACTIONS)?;
            next.next_epoch = NO_EPOCH;
        }
        Ok(Ended::Ending(next))
    }

    /// The open transaction ends without its producer, who is fenced with it.
    pub(super) fn fenced(&self, broker: Protocol, now_ms: i64) -> Self {
        let mut next = self.raised(Status::PrepareAbort, now_ms);
        if broker == Protocol::Classic {
            next.last_epoch = NO_EPOCH;
            next.client = Protocol::Classic;
        }
        next
    }

    fn raised(&self, status: Status, now_ms: i64) -> Self {
        Self {
            epoch: self.epoch.saturating_add(1),
            next_epoch: if self.is_kept() {
                self.next_epoch.saturating_add(1)
            } else {
                NO_EPOCH
            },
            last_epoch: self.owner().epoch,
            status,
            updated_ms: now_ms,
            client: Protocol::EpochEach,
            ..self.clone()
        }
    }

    /// All markers are written.
    pub(super) fn completed(&self, now_ms: i64) -> Self {
        let mut next = Self {
            status: if self.status == Status::PrepareCommit {
                Status::CompleteCommit
            } else {
                Status::CompleteAbort
            },
            partitions: BTreeMap::new(),
            updated_ms: now_ms,
            ..self.clone()
        };
        if self.next_producer_id != NO_PRODUCER {
            next.producer_id = self.next_producer_id;
            next.previous_producer_id = self.producer_id;
            next.next_producer_id = NO_PRODUCER;
            next.epoch = 0;
        }
        if self.is_kept() {
            next.epoch = self.next_epoch;
            next.next_epoch = NO_EPOCH;
        }
        next
    }

    /// Who the producer is when the transaction that ends has ended.
    pub(super) fn identity_after(&self) -> Identity {
        self.completed(self.updated_ms).identity()
    }

    /// When something is due without a request: the end of a transaction that takes too long, or of an id that nobody uses.
    pub(super) fn deadline(&self, expiration_ms: i64) -> Option<i64> {
        match self.status {
            Status::Ongoing if self.timeout_ms == NO_TIMEOUT => None,
            Status::Ongoing => self.started_ms.checked_add(i64::from(self.timeout_ms)),
            Status::PrepareCommit | Status::PrepareAbort => None,
            Status::Empty | Status::CompleteCommit | Status::CompleteAbort => {
                self.updated_ms.checked_add(expiration_ms)
            }
        }
    }
}
