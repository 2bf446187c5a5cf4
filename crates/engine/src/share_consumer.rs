//! A consumer in a share group: a [`Member`], and the [`Acquirer`] of what it is assigned, on one
//! set of metadata.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::change::Change;
use crate::cluster::PartId;
use crate::config::Config;
use crate::engine::{Engine, closed_error};
use crate::error::{Error, Kind};
use crate::part::sealed::Composition;
use crate::part::{Client, Core, Parts};
pub use crate::share::{
    AcknowledgeType, Acknowledged, Acquired, AcquiredRange, CommitId, Committed, LockId,
};
use crate::share::{Acquirer, Member};

/// The member's place among the parts.
const MEMBER: PartId = PartId(0);

/// The parts that make an [`Engine`] a consumer in a share group.
#[derive(Debug)]
pub struct ShareConsumer {
    member: Member,
    acquirer: Acquirer,
}

impl Engine<ShareConsumer> {
    /// A consumer in the share group `group.id`. `seed` seeds all random choices.
    pub fn share_consumer(config: Arc<Config>, seed: u64) -> Engine<ShareConsumer> {
        let client = ShareConsumer {
            member: Member::new(&config),
            acquirer: Acquirer::new(Arc::clone(&config)),
        };
        Engine::with_client(config, seed, client)
    }

    /// Joins the group, or wants other topics of it. The partitions are shared with all members.
    ///
    /// # Errors
    /// `Kind::Argument` without a topic; `Kind::Closed`.
    pub fn subscribe(&mut self, now: Instant, topics: BTreeSet<Arc<str>>) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        if topics.is_empty() {
            let text = "a subscription needs a topic: unsubscribe to leave the group";
            return Err(Error::new(Kind::Argument, text));
        }
        self.client.acquirer.reopen();
        let cluster = &mut self.core.cluster;
        self.client.member.subscribe(now, cluster, topics);
        self.settle(now);
        Ok(())
    }

    /// The topics subscribed to, sorted; none of them while the consumer leaves.
    pub fn subscription(&self) -> Vec<Arc<str>> {
        match self.is_leaving_group() {
            true => Vec::new(),
            false => self.client.member.subscription(),
        }
    }

    /// Whether there is something to poll for.
    pub fn is_subscribed(&self) -> bool {
        self.client.member.is_subscribed() && !self.is_leaving_group()
    }

    /// The partitions that the coordinator has assigned to this member, among others, sorted.
    pub fn assignment(&self) -> Vec<(Arc<str>, i32)> {
        self.client.member.assignment()
    }

    /// The name that the group knows this member by; `None` before it first joined.
    pub fn member_id(&self) -> Option<&Arc<str>> {
        self.client.member.id()
    }

    /// Makes the consumer leave its group by the deadline: acknowledgements of callers are sent,
    /// the other records are free for other members. After [`Change::Group`], look at
    /// [`Engine::is_leaving_group`] again.
    pub fn leave_group(&mut self, now: Instant, deadline: Instant) {
        self.client.acquirer.close(now, &mut self.core.cluster);
        self.client.member.leave(deadline);
        self.settle(now);
    }

    /// Ends what [`Engine::leave_group`] began, whether brokers know it or not.
    pub fn abandon_group(&mut self, now: Instant) {
        if self.is_leaving_group() {
            self.client.acquirer.abandon(&mut self.core.cluster);
            self.core.set_turn(MEMBER);
            self.client.member.abandon(now, &mut self.core);
            self.settle(now);
        }
    }

    /// Whether the consumer is still leaving.
    pub fn is_leaving_group(&self) -> bool {
        self.client.member.leaving().is_some() || self.client.acquirer.is_closing()
    }

    /// A caller begins to poll: pending acknowledgements are sent to brokers. With `wants`, records
    /// are requested until [`Engine::poll_ended`] or until there are some.
    pub fn poll_began(&mut self, now: Instant, wants: bool) {
        let cluster = &mut self.core.cluster;
        cluster.context.meters.poll_began(now);
        self.client.acquirer.want(wants);
        self.client.acquirer.tell(now, cluster);
        self.settle(now);
    }

    /// The poll finds that what was there is not to be had: records are requested after all.
    pub fn poll_goes_on(&mut self, now: Instant) {
        self.client.acquirer.want(true);
        self.settle(now);
    }

    /// A poll returns.
    pub fn poll_ended(&mut self, now: Instant) {
        self.client.acquirer.want(false);
        self.core.cluster.context.meters.poll_ended(now);
    }

    /// The oldest records that were not taken. [`Engine::give`] or [`Engine::dispose`] must be
    /// called for each of its ranges.
    pub fn take(&mut self) -> Option<Acquired> {
        self.client.acquirer.take()
    }

    /// The caller gets the records of these offsets: how many, and the bytes of their keys, values and headers. False if their
    /// lock has ended, so that others may have them: then it must not.
    pub fn give(
        &mut self,
        now: Instant,
        lock: LockId,
        (first, last): (i64, i64),
        (records, bytes): (usize, usize),
    ) -> bool {
        let is_live = self.client.acquirer.give(now, lock, first, last);
        if is_live {
            let meters = &mut self.core.cluster.context.meters;
            meters.shared_out(now, records, bytes);
        }
        is_live
    }

    /// Acknowledges records that the caller cannot get; `None` for offsets without a record.
    pub fn dispose(
        &mut self,
        now: Instant,
        lock: LockId,
        offsets: (i64, i64),
        kind: Option<AcknowledgeType>,
    ) {
        self.client.acquirer.dispose(now, lock, offsets, kind);
        self.settle(now);
    }

    /// Notes the caller's acknowledgement of records that it got, from the first of these offsets
    /// to the last. It is sent at the next poll or commit; until then it can be replaced.
    ///
    /// # Errors
    /// `Kind::Argument` if the caller does not have one of them any more; `Kind::Unsupported` for a renewal that the broker cannot
    /// do. Nothing was changed.
    pub fn acknowledge(
        &mut self,
        lock: LockId,
        offsets: (i64, i64),
        kind: AcknowledgeType,
    ) -> Result<(), Error> {
        let cluster = &self.core.cluster;
        self.client
            .acquirer
            .acknowledge(cluster, lock, offsets, kind)
    }

    /// Whether the caller has said nothing of some record that it got.
    pub fn has_unacknowledged(&self) -> bool {
        self.client.acquirer.has_unacknowledged()
    }

    /// All records that the caller got, and has said nothing of, are accepted.
    pub fn accept_given(&mut self) {
        self.client.acquirer.accept_given();
    }

    /// Sends the acknowledgements to brokers. After [`Change::Group`], look at
    /// [`Engine::take_commit`].
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub fn commit(&mut self, now: Instant, deadline: Instant) -> Result<CommitId, Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let cluster = &mut self.core.cluster;
        let id = self.client.acquirer.commit(now, cluster, deadline);
        self.settle(now);
        Ok(id)
    }

    /// How a commit ended, for each partition of which something was said, once.
    pub fn take_commit(&mut self, id: CommitId) -> Option<Vec<Committed>> {
        self.client.acquirer.take_commit(id)
    }

    /// The caller no longer waits for a commit. The commit continues.
    pub fn give_up_commit(&mut self, id: CommitId) {
        self.client.acquirer.give_up_commit(id);
    }

    /// Keeps how each acknowledgement ends for [`Engine::take_outcomes`], or no longer.
    pub fn keep_outcomes(&mut self, keep: bool) {
        self.client.acquirer.keep_outcomes(keep);
    }

    /// How acknowledgements ended since the last call.
    pub fn take_outcomes(&mut self) -> Vec<Acknowledged> {
        self.client.acquirer.take_outcomes()
    }

    /// How long a lock lasts, as brokers said last; `None` before the first records.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.client.acquirer.lock_timeout()
    }

    /// An error that a poll has to raise at once: the group does not take the consumer.
    pub fn stuck(&self) -> Option<&Error> {
        self.client.member.obstacle()
    }

    /// Notes that a poll raises this error: the denial of a topic is raised once, and the metadata is requested again.
    pub fn note_raised(&mut self, error: &Error) {
        self.client.member.note_raised(error);
    }

    /// An error that a poll without records has to raise: a topic may not be read, or a broker
    /// refuses requests. Each is returned once, and the request is sent again.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.client.acquirer.take_failure()
    }

    /// Why no records come, if a caller can act on it.
    pub fn delay(&self) -> Option<Error> {
        let cluster = &self.core.cluster;
        let unknown = || {
            let is_blind = cluster.view().nodes().next().is_none();
            cluster.refresh_error().filter(|_| is_blind).cloned()
        };
        cluster
            .poll_trouble()
            .or_else(|| self.stuck().cloned())
            .or_else(unknown)
            .or_else(|| self.client.acquirer.refusal(cluster))
    }
}

impl Composition for ShareConsumer {
    #[allow(private_interfaces, reason = "sealed: nobody else composes clients")]
    fn parts(&mut self) -> Parts<'_> {
        [Some(&mut self.member), Some(&mut self.acquirer)]
    }

    /// Carries what is assigned to who acquires it, and lets the member go once all sessions are ended.
    fn exchange(&mut self, now: Instant, core: &mut Core) -> bool {
        let id = self.member.id().cloned();
        let mut any = false;
        if let Some(named) = self.member.take_news() {
            self.acquirer.assign(id.as_ref(), named);
            any = true;
        }
        if self.acquirer.is_closing() && self.acquirer.is_done() {
            if self.member.leaving().is_some() {
                core.set_turn(MEMBER);
                self.member.go(now, core);
            }
            if self.member.leaving().is_none() {
                self.acquirer.reopen();
                core.cluster.context.changes.tell(Change::Group);
                any = true;
            }
        }
        any
    }
}

impl Client for ShareConsumer {}
