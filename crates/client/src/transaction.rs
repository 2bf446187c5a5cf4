//! Transactions of a producer: waits for the verbs of its engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::call::GroupOffset;
use ottla_engine::engine::closed_error;
use ottla_engine::producer::{Verb, VerbId};
use ottla_engine::{Change, Engine, Error, Kind};

use crate::producer::{Batches, Producer};
use crate::transport::deadline;

impl Producer {
    /// Gets the producer's identity, and ends what an earlier producer of the same transactional id left open, at most within
    /// `timeout` (`None`: `max.block.ms`). [`Producer::begin_transaction`] does it if need be.
    ///
    /// # Errors
    /// No transactional id, no permission, a transaction is open, or no answer by the deadline.
    pub async fn init_transactions(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Init, timeout).await
    }

    /// Opens a transaction. It waits only where the producer has no identity yet, or the end of the last transaction is not
    /// known.
    ///
    /// # Errors
    /// As [`Producer::init_transactions`].
    pub async fn begin_transaction(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Begin, timeout).await
    }

    /// Makes offsets of a group part of the transaction, at most within `timeout` (`None`: `max.block.ms`).
    ///
    /// # Errors
    /// The transaction can only be aborted; `Kind::Argument`: none is open.
    pub async fn send_offsets(
        &self,
        group: &str,
        offsets: Vec<GroupOffset>,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        let group = Arc::from(group);
        self.transact(Verb::SendOffsets { group, offsets }, timeout)
            .await
    }

    /// Delivers the records of the transaction and commits it, at most within `timeout` (`None`: `max.block.ms`).
    ///
    /// # Errors
    /// `Kind::Abortable`: a record or the offsets failed, and it can only be aborted. `Kind::OutcomeUnknown`: no answer. `Kind::Timeout`:
    /// records are still under way, and it is still open. `Kind::Fenced` and `Kind::Fatal` are for good.
    pub async fn commit_transaction(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Commit, timeout).await
    }

    /// Aborts the transaction, at most within `timeout` (`None`: `max.block.ms`). Records that were not sent yet fail.
    ///
    /// # Errors
    /// `Kind::Timeout`: it is not known to be aborted yet. `Kind::Fenced` and `Kind::Fatal` are for good.
    pub async fn abort_transaction(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.transact(Verb::Abort, timeout).await
    }

    /// Waits until no other verb runs, then for the end of this one. A verb whose caller stops waiting goes on.
    async fn transact(&self, verb: Verb, timeout: Option<Duration>) -> Result<(), Error> {
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
                // The engine gives up at the same instant and says why.
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
