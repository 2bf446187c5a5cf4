//! A consumer's membership in its group: subscriptions, rebalances, commits, and the way out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ottla_engine::call::{GroupMetadata, GroupOffset, OffsetFetch, TopicRead};
use ottla_engine::consumer::{CommitId, Consumer as Work, QuestionId, Rebalance, Selection};
use ottla_engine::engine::closed_error;
use ottla_engine::group::assignor::{Question, Reply};
use ottla_engine::{Change, Engine, Error, Kind};

use crate::consume::consumer::{Consumer, Decode, Following, Inner, Polling};
use crate::consume::pending_records::Unread;
use crate::consume::rebalances::{LastCommit, Listeners, Polled, Turn};
use crate::runtime::calls;

impl<D: Decode> Consumer<D> {
    /// Reads what the group assigns of these topics. Joining begins with the first poll;
    /// `listeners` lists the rebalances that a poll returns as [`Polled::Rebalance`].
    ///
    /// # Errors
    /// `Kind::Argument` without a group, or while partitions are assigned by hand.
    pub fn subscribe(&self, selection: Selection, listeners: Listeners) -> Result<(), Error> {
        let mut following = self.inner.following.lock();
        let driver = &self.inner.driver;
        driver.with(|engine, now| engine.subscribe(now, selection))?;
        *self.inner.listeners.lock() = listeners;
        *following = Following::default();
        Ok(())
    }

    /// Ends a subscription and leaves the group, or clears the manual assignment; at most within
    /// `timeout` (`None`: `default.api.timeout.ms`). Call it again after [`Polled::Rebalance`].
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub async fn unsubscribe(&self, timeout: Option<Duration>) -> Result<Polled<()>, Error> {
        let polled = self.leave_group(timeout).await?;
        if matches!(polled, Polled::Done(())) {
            let mut following = self.inner.following.lock();
            let is_subscribed = |engine: &mut Engine<Work>, _| engine.is_subscribed();
            // Another thread may have subscribed since.
            if !self.inner.driver.with(is_subscribed) {
                self.inner.assign(Vec::new())?;
                *following = Following::default();
            }
        }
        Ok(polled)
    }

    /// The first half of a close: commits `last_commit`, where polls commit, and leaves the group, at most within
    /// `timeout` (`None`: `default.api.timeout.ms`). Does nothing without a group. Call it again after [`Polled::Rebalance`].
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub async fn leave(
        &self,
        timeout: Option<Duration>,
        last_commit: LastCommit,
    ) -> Result<Polled<()>, Error> {
        *self.inner.last_commit.lock() = last_commit;
        self.inner.closing.store(true, Ordering::Relaxed);
        self.leave_group(timeout).await
    }

    async fn leave_group(&self, timeout: Option<Duration>) -> Result<Polled<()>, Error> {
        let wait = self.wait(timeout);
        let driver = &self.inner.driver;
        let begins = driver.with(|engine, now| {
            if engine.closed().is_some() {
                return Err(closed_error());
            }
            if !engine.is_leaving_group() {
                engine.leave_group(now, wait.deadline);
            }
            Ok(())
        });
        begins?;
        let _poll = Polling::new(driver);
        let waiter = driver.enter(&[Change::Group]);
        let mut is_late = false;
        loop {
            if let Turn::Tell = self.inner.rebalance() {
                return Ok(Polled::Rebalance);
            }
            if self.inner.has_left(is_late)? {
                return Ok(Polled::Done(()));
            }
            is_late = waiter.changed(wait.deadline).await.is_err();
        }
    }

    /// [`Consumer::leave`] without telling any listener.
    pub(crate) async fn leave_quietly(&self, timeout: Duration) {
        *self.inner.listeners.lock() = Listeners::default();
        self.inner.closing.store(true, Ordering::Relaxed);
        // It may be closed already.
        let _left = self.leave_group(Some(timeout)).await;
    }

    /// What an assignor of the caller's is asked, if a poll returned [`Polled::Rebalance`] for that; afterwards [`Consumer::answer`]
    /// goes on with it.
    pub fn take_question(&self) -> Option<(QuestionId, Question)> {
        let driver = &self.inner.driver;
        driver.with(|engine, _| engine.take_question())
    }

    /// What an assignor said, or why it said nothing: the member tries again after a pause.
    pub fn answer(&self, id: QuestionId, reply: Result<Reply, Error>) {
        let driver = &self.inner.driver;
        driver.with(|engine, now| engine.answer(now, id, reply));
    }

    /// The rebalance for which listeners have to be called next; [`Consumer::told_rebalance`]
    /// continues afterwards.
    pub fn take_rebalance(&self) -> Option<Rebalance> {
        let driver = &self.inner.driver;
        driver.with(|engine, now| engine.take_rebalance(now))
    }

    /// Listeners were called with the result of [`Consumer::take_rebalance`].
    pub fn told_rebalance(&self) {
        self.inner.told_rebalance();
    }

    /// Commits these offsets, or how far callers have read, and waits for the end of it at most `timeout` (`None`:
    /// `default.api.timeout.ms`).
    ///
    /// # Errors
    /// `Kind::CommitFailed`: the group goes on without this consumer, or rebalances. `Kind::Argument` without a group.
    pub async fn commit(
        &self,
        offsets: Option<Vec<GroupOffset>>,
        timeout: Option<Duration>,
    ) -> Result<(), Error> {
        let wait = self.wait(timeout);
        let Some(id) = self.start_commit(offsets, wait.deadline, true)? else {
            return Ok(());
        };
        let mut committing = Committing {
            consumer: self,
            id: Some(id),
        };
        let look = |engine: &mut Engine<Work>, now: Instant| {
            if now >= wait.deadline {
                // The engine times out at the same instant and has the reason.
                engine.handle_timeout(now);
            }
            if let Some(result) = engine.take_commit(id) {
                committing.id = None;
                return Some(result);
            }
            if engine.closed().is_some() {
                return Some(Err(closed_error()));
            }
            engine.hopeless().map(Err)
        };
        let late = |engine: &mut Engine<Work>, _: Instant| {
            Err(engine.trouble().unwrap_or_else(|| {
                let text = format!(
                    "the commit did not end within {} ms; it may still be carried out",
                    wait.timeout.as_millis()
                );
                Error::new(Kind::Timeout, text).calling("OffsetCommit")
            }))
        };
        let driver = &self.inner.driver;
        driver
            .wait(&[Change::Group], wait.deadline, look, late)
            .await
    }

    /// Commits these offsets, or how far callers have read, and does not wait; a failure is an event.
    ///
    /// # Errors
    /// As [`Consumer::commit`], as far as known at once.
    pub fn commit_later(&self, offsets: Option<Vec<GroupOffset>>) -> Result<(), Error> {
        let deadline = self.wait(None).deadline;
        self.start_commit(offsets, deadline, false).map(|_| ())
    }

    fn start_commit(
        &self,
        offsets: Option<Vec<GroupOffset>>,
        deadline: Instant,
        awaited: bool,
    ) -> Result<Option<CommitId>, Error> {
        let unread = self.inner.unread.lock();
        self.inner.driver.with(|engine, now| {
            let offsets = offsets.unwrap_or_else(|| self.inner.to_commit(engine, &unread));
            if offsets.is_empty() && engine.group_metadata().is_some() {
                return Ok(None);
            }
            engine.commit(now, offsets, deadline, awaited).map(Some)
        })
    }

    /// Sets the leader epoch of each offset that has none: the epoch of the record before it, if
    /// this consumer received that record (KIP-320).
    pub fn note_epochs(&self, offsets: &mut [GroupOffset]) {
        let driver = &self.inner.driver;
        driver.with(|engine, _| engine.note_epochs(offsets));
    }

    /// The offsets that the group has committed, in the order of `partitions`.
    ///
    /// # Errors
    /// `Kind::Argument` without a group; no response by the deadline; the first partition's
    /// failure.
    pub async fn committed(
        &self,
        partitions: Vec<(Arc<str>, i32)>,
        timeout: Option<Duration>,
    ) -> Result<Vec<Option<GroupOffset>>, Error> {
        let Some(member) = self.group_metadata() else {
            let text =
                "committed offsets need a consumer group: make the consumer with group_id=...";
            return Err(Error::new(Kind::Argument, text));
        };
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let call = OffsetFetch {
            storage: self.config().offsets_storage,
            group: member.group,
            partitions,
            // Java gives the ids of its metadata, and raises if they are old. A name is that of the topic which is there now:
            // brokers delete the offsets of a topic with it.
            topic_ids: BTreeMap::new(),
            require_stable: self.config().read_committed,
            member: None,
        };
        let found = calls::ask(&self.inner.driver, call, timeout).await?;
        found.into_iter().collect()
    }

    /// Who the consumer is in its group; `None` without one.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        self.inner.driver.with(|engine, _| engine.group_metadata())
    }

    /// The consumer's id in its group: with the consumer protocol it has one before it joins; `None` without a group.
    pub fn member_id(&self) -> Option<Arc<str>> {
        self.inner.driver.with(|engine, _| engine.member_id())
    }

    /// The topics that callers have read. [`TopicRead::note_in`] looks up the topics of offsets in them.
    pub fn topics_read(&self) -> Vec<TopicRead> {
        self.inner.driver.with(|engine, _| engine.topics_read())
    }
}

impl<D: Decode> Inner<D> {
    /// Whether the consumer has left its group; if the time is over, it has.
    ///
    /// # Errors
    /// `Kind::Closed`: another thread closed it.
    fn has_left(&self, is_late: bool) -> Result<bool, Error> {
        let mut unread = self.unread.lock();
        self.driver.with(|engine, now| {
            if engine.closed().is_some() {
                return Err(closed_error());
            }
            if is_late && engine.is_leaving_group() {
                engine.abandon_group(now);
                unread.clear();
            }
            Ok(!engine.is_leaving_group())
        })
    }

    /// How far callers have read, as offsets to commit. Once a close has begun, only the offsets in
    /// `last_commit` count: a listener that commits must not commit more.
    fn to_commit(&self, engine: &Engine<Work>, unread: &Unread<D::Chunk>) -> Vec<GroupOffset> {
        match *self.last_commit.lock() {
            LastCommit::Returned => {
                engine.given(|topic, partition| unread.position(topic, partition))
            }
            LastCommit::Earlier => engine.given(|topic, partition| unread.undone(topic, partition)),
            LastCommit::Nothing => Vec::new(),
        }
    }

    /// Reports how far callers have read, if a rebalance or a commit waits for that, and finishes
    /// rebalances without a listener.
    pub(crate) fn rebalance(&self) -> Turn {
        loop {
            let unread = self.unread.lock();
            let (is_asked, has_rebalance, is_held) = self.driver.with(|engine, now| {
                if engine.wants_given(now) {
                    let given = self.to_commit(engine, &unread);
                    engine.note_given(now, given);
                }
                let is_asked = engine.has_question();
                let has_rebalance = engine.next_rebalance().is_some();
                (is_asked, has_rebalance, engine.is_held())
            });
            drop(unread);
            if is_asked {
                return Turn::Tell;
            }
            if !has_rebalance {
                return if is_held { Turn::Wait } else { Turn::Go };
            }
            let listeners = *self.listeners.lock();
            let taken = self.driver.with(|engine, now| {
                let wants = engine
                    .next_rebalance()
                    .is_some_and(|next| listeners.want(next));
                if wants {
                    return Err(());
                }
                Ok(engine.take_rebalance(now))
            });
            match taken {
                Err(()) => return Turn::Tell,
                Ok(Some(_)) => self.told_rebalance(),
                // Another thread has it.
                Ok(None) => return Turn::Wait,
            }
        }
    }

    fn told_rebalance(&self) {
        let mut unread = self.unread.lock();
        let mut assigned = Vec::new();
        self.driver.with(|engine, now| {
            engine.told_rebalance(now);
            let each = engine.assignment();
            assigned.extend(each.map(|(topic, partition, _)| (Arc::clone(topic), partition)));
        });
        unread.retain(|topic, partition| {
            assigned
                .iter()
                .any(|(name, number)| **name == *topic && *number == partition)
        });
    }
}

/// A caller's wait for a commit. Who stops waiting does not take the result any more.
struct Committing<'a, D: Decode> {
    consumer: &'a Consumer<D>,
    id: Option<CommitId>,
}

impl<D: Decode> Drop for Committing<'_, D> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let driver = &self.consumer.inner.driver;
            driver.with(|engine, _| engine.give_up_commit(id));
        }
    }
}
