//! Transactions of a producer: waits for the verbs of its engine.

use std::time::{Duration, Instant};

use ottla_engine::call::{GroupMetadata, GroupOffset};
use ottla_engine::engine::closed_error;
use ottla_engine::producer::{Finished, PreparedTransaction, Verb, VerbId, Waited};
use ottla_engine::{Change, Engine, Error, Kind};

use crate::net::transport::{deadline, now};
use crate::produce::producer::{Batches, Producer};

impl Producer {
    /// Gets the producer's identity, and ends what an earlier producer of the same transactional id
    /// left open, at most within `timeout` (`None`: `max.block.ms`).
    /// [`Producer::begin_transaction`] does it if needed.
    ///
    /// # Errors
    /// No transactional id, no permission, a transaction is open, or no response by the deadline.
    pub async fn init_transactions(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Init, timeout).await.map(|_| ())
    }

    /// As [`Producer::init_transactions`], but a transaction that an earlier producer of the same transactional id left prepared
    /// stays open, for this one to end (KIP-939).
    ///
    /// # Errors
    /// As [`Producer::init_transactions`]; `Kind::Unsupported`: the brokers cannot do that.
    pub async fn init_keeping_prepared(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Keep, timeout).await.map(|_| ())
    }

    /// Opens a transaction. It waits only where the producer has no identity yet, or the end of the last transaction is not
    /// known.
    ///
    /// # Errors
    /// As [`Producer::init_transactions`].
    pub async fn begin_transaction(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Begin, timeout).await.map(|_| ())
    }

    /// Makes offsets of a group part of the transaction, as this member of it, at most within `timeout` (`None`: `max.block.ms`).
    ///
    /// # Errors
    /// The transaction can only be aborted; `Kind::Argument`: none is open.
    pub async fn send_offsets(
        &self,
        group: GroupMetadata,
        offsets: Vec<GroupOffset>,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        self.transact(Verb::SendOffsets { group, offsets }, timeout)
            .await
            .map(|_| ())
    }

    /// Delivers the records of the transaction and commits it, at most within `timeout` (`None`: `max.block.ms`).
    ///
    /// # Errors
    /// `Kind::Abortable`: a record or the offsets failed, and it can only be aborted.
    /// `Kind::OutcomeUnknown`: no response. `Kind::Timeout`: records are still under way, and it is
    /// still open. `Kind::Fenced` and `Kind::Fatal` are for good.
    pub async fn commit_transaction(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Commit, timeout).await.map(|_| ())
    }

    /// Aborts the transaction, at most within `timeout` (`None`: `max.block.ms`). Records that were not sent yet fail.
    ///
    /// # Errors
    /// `Kind::Timeout`: it is not known to be aborted yet. `Kind::Fenced` and `Kind::Fatal` are for good.
    pub async fn abort_transaction(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Abort, timeout).await.map(|_| ())
    }

    /// Whether there is nothing that the end of a block would have to end: it is done, or prepared for its owner.
    pub fn is_transaction_settled(&self) -> bool {
        self.driver
            .with(|engine, _| engine.is_transaction_settled())
    }

    /// Delivers the records of the transaction, at most within `timeout` (`None`: `max.block.ms`); from then on it can only be
    /// ended (KIP-939).
    ///
    /// # Errors
    /// `Kind::Abortable`: a record or the offsets failed, and it can only be aborted. `Kind::Timeout`: records are still under
    /// way, and it is still open. `Kind::Config`: `transaction.two.phase.commit.enable` is false.
    pub async fn prepare_transaction(
        &self,
        timeout: Option<Duration>,
    ) -> Result<PreparedTransaction, Error> {
        match self.transact(Verb::Prepare, timeout).await? {
            Finished::Prepared(prepared) => Ok(prepared),
            _ => Err(Error::new(
                Kind::Argument,
                "there is no transaction to prepare",
            )),
        }
    }

    /// Ends the transaction that is prepared, at most within `timeout` (`None`: `max.block.ms`):
    /// commits it if it is `prepared` and `commits` is true, else aborts it. A producer without
    /// identity keeps first what an earlier one prepared (KIP-939).
    ///
    /// # Errors
    /// `Kind::OutcomeUnknown`: no response, and the same call can be made again. `Kind::Argument`:
    /// an open transaction is not prepared.
    pub async fn complete_transaction(
        &self,
        prepared: PreparedTransaction,
        commits: bool,
        timeout: Option<Duration>,
    ) -> Result<Finished, Error> {
        let verb = Verb::Complete { prepared, commits };
        self.transact(verb, timeout).await
    }

    /// Runs a verb, and measures it.
    async fn transact(&self, verb: Verb, timeout: Option<Duration>) -> Result<Finished, Error> {
        let begun = now();
        let (named, finished) = (measured(&verb), self.end_of(verb, timeout).await);
        let what = match finished {
            Ok(Finished::Aborted) => Waited::Abort,
            _ => named,
        };
        self.driver.with(|engine, now| {
            engine.waited(now, what, now.saturating_duration_since(begun));
        });
        finished
    }

    /// Waits until no other verb runs, then for the end of this one. A verb whose caller stops waiting goes on.
    async fn end_of(&self, verb: Verb, timeout: Option<Duration>) -> Result<Finished, Error> {
        let timeout = timeout.unwrap_or(self.config().max_block);
        let deadline = deadline(timeout);
        let mut waiting = Waiting {
            producer: self,
            id: None,
        };
        let look = |engine: &mut Engine<Batches>, now: Instant| {
            if waiting.id.is_none() {
                match engine.start_verb(now, &verb, deadline) {
                    Ok(id) => waiting.id = id,
                    Err(error) => return Some(Err(error)),
                }
            }
            if now >= deadline {
                // The engine times out at the same instant and has the reason.
                engine.handle_timeout(now);
            }
            if let Some(result) = waiting.id.and_then(|id| engine.take_verb(id)) {
                waiting.id = None;
                return Some(result);
            }
            if engine.closed().is_some() {
                return Some(Err(closed_error()));
            }
            engine.hopeless().map(Err)
        };
        let late = |engine: &mut Engine<Batches>, _: Instant| {
            Err(engine.trouble().unwrap_or_else(|| {
                let text = format!(
                    "another call about this producer's transactions did not end within {} ms",
                    timeout.as_millis()
                );
                Error::new(Kind::Timeout, text)
            }))
        };
        let changes = [Change::Transaction];
        self.driver.wait(&changes, deadline, look, late).await
    }
}

/// What the time of a verb counts as.
fn measured(verb: &Verb) -> Waited {
    match verb {
        Verb::Init | Verb::Keep => Waited::Init,
        Verb::Begin => Waited::Begin,
        Verb::SendOffsets { .. } => Waited::Offsets,
        Verb::Commit | Verb::Complete { .. } => Waited::Commit,
        Verb::Abort => Waited::Abort,
        Verb::Prepare => Waited::Prepare,
    }
}

/// A caller's wait for a verb. Who stops waiting does not take the result any more.
struct Waiting<'a> {
    producer: &'a Producer,
    id: Option<VerbId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.producer
                .driver
                .with(|engine, _| engine.give_up_verb(id));
        }
    }
}
