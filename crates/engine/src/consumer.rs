//! A consumer: a [`Fetcher`], and the membership in a group if it has one, on one set of metadata.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;

use crate::call::{GroupMetadata, GroupOffset, TopicRead};
use crate::change::Change;
use crate::config::Config;
use crate::engine::{Engine, closed_error};
use crate::error::{Error, Kind};
use crate::fetch::Fetcher;
pub use crate::fetch::{Generation, Sharers, Start, Taken};
use crate::group::assignor::{Question, Reply};
pub use crate::group::{CommitId, Pattern, Pulse, QuestionId, Rebalance, Selection};
use crate::group::{Membership, Sought, no_group};
use crate::part::sealed::Composition;
use crate::part::{Client, Core, Part, Parts};

/// The parts that make an [`Engine`] a consumer.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) fetcher: Fetcher,
    /// `None` without a group.
    membership: Option<Membership>,
    /// For loops over records of a consumer without a group.
    pulse: Arc<Pulse>,
}

impl Engine<Consumer> {
    /// A consumer. `seed` seeds all random choices.
    pub fn consumer(config: Arc<Config>, seed: u64) -> Engine<Consumer> {
        let fetcher = Fetcher::new(Arc::clone(&config));
        let membership = Membership::new(&config);
        let pulse = membership.as_ref().map(|it| Arc::clone(it.pulse()));
        let client = Consumer {
            fetcher,
            membership,
            pulse: pulse.unwrap_or_default(),
        };
        Engine::with_client(config, seed, client)
    }

    /// Has `prefetch.total.max.bytes` in common with these other consumers of the process, until it is closed.
    pub fn share_prefetch(&mut self, sharers: &Sharers) {
        self.client.fetcher.share_prefetch(sharers);
    }

    /// Reads these partitions and no others. A partition that was assigned before keeps its position if it comes with
    /// [`Start::Reset`]; another one then begins where the group has committed, if there is a group.
    ///
    /// # Errors
    /// `Kind::Argument` for a negative partition or offset, or if the group assigns; nothing was changed.
    pub fn assign(
        &mut self,
        now: Instant,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        if self.is_subscribed() {
            let text = "the group assigns the partitions of what the consumer subscribes to: unsubscribe before assigning some";
            return Err(Error::new(Kind::Argument, text));
        }
        self.client.assign(now, &mut self.core, partitions)?;
        self.settle(now);
        Ok(())
    }

    /// Reads what the group assigns of these topics. The partitions come with [`Rebalance::Assigned`], while a caller polls.
    ///
    /// # Errors
    /// `Kind::Argument` without a group, while partitions are assigned by hand, or for an expression that the coordinator is to match
    /// if the settings say that it does not assign.
    pub fn subscribe(&mut self, now: Instant, selection: Selection) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let has_topics = self.client.fetcher.has_topics();
        let Some(membership) = &mut self.client.membership else {
            return Err(no_group("a subscription"));
        };
        if has_topics && !membership.is_subscribed() {
            let text = "partitions were assigned by hand: unsubscribe before subscribing";
            return Err(Error::new(Kind::Argument, text));
        }
        membership.subscribe(now, &mut self.core.cluster, selection)?;
        self.settle(now);
        Ok(())
    }

    /// Whether the group assigns partitions.
    pub fn is_subscribed(&self) -> bool {
        let membership = self.client.membership.as_ref();
        membership.is_some_and(Membership::is_subscribed)
    }

    /// Makes the consumer leave its group by the deadline, after the last commit.
    /// [`Engine::is_leaving_group`] is true until that is done; until then, rebalances must be
    /// taken as in a poll.
    pub fn leave_group(&mut self, now: Instant, deadline: Instant) {
        if let Some(membership) = &mut self.client.membership {
            membership.leave(&mut self.core, deadline);
            self.settle(now);
        }
    }

    /// Ends what [`Engine::leave_group`] began, whether the coordinator knows it or not: nothing is
    /// subscribed to or assigned afterwards.
    pub fn abandon_group(&mut self, now: Instant) {
        if let Some(membership) = &mut self.client.membership {
            membership.abandon(now, &mut self.core);
            self.settle(now);
        }
    }

    /// Whether the consumer is still leaving.
    pub fn is_leaving_group(&self) -> bool {
        let membership = self.client.membership.as_ref();
        membership.is_some_and(Membership::is_leaving)
    }

    /// The consumer's membership by the last assignment, even if the group has continued without it
    /// since; `None` without a group.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        self.client.membership.as_ref().map(Membership::metadata)
    }

    /// The id of the consumer in its group: with the consumer protocol it has one before it joins; `None` without a
    /// group.
    pub fn member_id(&mut self) -> Option<Arc<str>> {
        let membership = self.client.membership.as_mut()?;
        membership.member_id(&mut self.core.cluster.context.random)
    }

    /// Commits offsets of the group by the deadline. If `awaited`, look at [`Engine::take_commit`]
    /// after [`crate::Change::Group`]; else a failure is an event.
    ///
    /// # Errors
    /// `Kind::Argument` without a group; `Kind::CommitFailed` if the consumer is no member at the moment.
    pub fn commit(
        &mut self,
        now: Instant,
        mut offsets: Vec<GroupOffset>,
        deadline: Instant,
        awaited: bool,
    ) -> Result<CommitId, Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let fetcher = &self.client.fetcher;
        for it in offsets.iter_mut().filter(|it| it.topic_id == Uuid::ZERO) {
            it.topic_id = fetcher.topic_read(&it.topic, it.partition, it.offset);
        }
        let Some(membership) = &mut self.client.membership else {
            return Err(no_group("a commit"));
        };
        let id = membership.commit(offsets, deadline, awaited)?;
        self.settle(now);
        Ok(id)
    }

    /// How a commit ended, once.
    pub fn take_commit(&mut self, id: CommitId) -> Option<Result<(), Error>> {
        self.client.membership.as_mut()?.take_commit(id)
    }

    /// The caller no longer waits for a commit. The commit continues.
    pub fn give_up_commit(&mut self, id: CommitId) {
        if let Some(membership) = &mut self.client.membership {
            membership.give_up_commit(id);
        }
    }

    /// Whether a caller that polls has to report its positions, by [`Engine::note_given`], before
    /// it gets anything else.
    pub fn wants_given(&self, now: Instant) -> bool {
        let membership = self.client.membership.as_ref();
        membership.is_some_and(|it| it.wants_given(now))
    }

    /// Takes in the positions of callers, from [`Engine::given`], or lower ones if not all may be
    /// committed.
    pub fn note_given(&mut self, now: Instant, given: Vec<GroupOffset>) {
        if let Some(membership) = &mut self.client.membership {
            membership.note_given(now, &mut self.core, given);
            self.settle(now);
        }
    }

    /// How far callers have read, as offsets to commit; `unread` gives the offset of the next record of a partition of which an
    /// iteration still has some.
    pub fn given(&self, unread: impl Fn(&str, i32) -> Option<i64>) -> Vec<GroupOffset> {
        let each = self.client.fetcher.each();
        let each = each.filter_map(|(topic, partition, next, _)| {
            let offset = unread(topic, partition).or(next)?;
            let fetcher = &self.client.fetcher;
            Some(GroupOffset {
                topic: Arc::clone(topic),
                partition,
                offset,
                leader_epoch: fetcher.epoch_before(topic, partition, offset),
                metadata: Arc::default(),
                topic_id: fetcher.topic_read(topic, partition, offset),
            })
        });
        each.collect()
    }

    /// The topics of which callers have read. An offset that a transaction of another client commits belongs to one of them.
    pub fn topics_read(&self) -> Vec<TopicRead> {
        self.client.fetcher.topics_read()
    }

    /// Adds the leader epoch of the record before each offset that has none, as far as the consumer
    /// was given that record.
    pub fn note_epochs(&self, offsets: &mut [GroupOffset]) {
        let fetcher = &self.client.fetcher;
        for it in offsets.iter_mut().filter(|it| it.leader_epoch < 0) {
            it.leader_epoch = fetcher.epoch_before(&it.topic, it.partition, it.offset);
        }
    }

    /// Whether no records may be returned at the moment, because of a rebalance. After
    /// [`crate::Change::Group`], look again.
    pub fn is_held(&self) -> bool {
        let membership = self.client.membership.as_ref();
        membership.is_some_and(Membership::is_held)
    }

    /// The change that [`Engine::take_rebalance`] would return.
    pub fn next_rebalance(&self) -> Option<&Rebalance> {
        self.client.membership.as_ref()?.next_rebalance()
    }

    /// The next change that listeners must receive, after which [`Engine::told_rebalance`] is
    /// called.
    pub fn take_rebalance(&mut self, now: Instant) -> Option<Rebalance> {
        let change = self.client.membership.as_mut()?.take_rebalance(now)?;
        self.settle(now);
        Some(change)
    }

    /// Listeners were notified of the change from [`Engine::take_rebalance`]: partitions that were
    /// revoked or lost are not assigned any more.
    pub fn told_rebalance(&mut self, now: Instant) {
        if let Some(membership) = &mut self.client.membership {
            membership.told(now, &mut self.core.cluster.context.meters);
            self.core.cluster.context.changes.tell(Change::Group);
            self.settle(now);
        }
    }

    /// Whether an assignor of the caller has to be called: [`Engine::take_question`].
    pub fn has_question(&self) -> bool {
        let membership = self.client.membership.as_ref();
        membership.is_some_and(Membership::has_question)
    }

    /// The request to an assignor of the caller, once. [`Engine::answer`] must follow, since the
    /// group waits for it.
    pub fn take_question(&mut self) -> Option<(QuestionId, Question)> {
        self.client.membership.as_mut()?.take_question()
    }

    /// Handles the reply of the caller's assignor, or its error, which the caller raises itself:
    /// the member tries again.
    pub fn answer(&mut self, now: Instant, id: QuestionId, reply: Result<Reply, Error>) {
        if let Some(membership) = &mut self.client.membership {
            membership.answer(now, &mut self.core, id, reply);
            self.settle(now);
        }
    }

    /// The flags that a loop over records checks for each record.
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.client.pulse)
    }

    /// Reads all partitions of these topics and nothing else, also partitions that are added later.
    /// The first ones start where `auto.offset.reset` selects, added ones at their beginning.
    /// Partitions that were read before keep their position. A topic that is deleted and recreated
    /// is read from its beginning (where brokers return topic ids, KIP-516); while it is missing,
    /// the consumer waits for it.
    ///
    /// # Errors
    /// `Kind::Closed`.
    pub fn follow(&mut self, now: Instant, topics: Vec<Arc<str>>) -> Result<(), Error> {
        if self.closed().is_some() {
            return Err(closed_error());
        }
        let cluster = &mut self.core.cluster;
        self.client.fetcher.follow(now, cluster, topics);
        self.settle(now);
        Ok(())
    }

    /// [`Engine::seek`] of all assigned partitions, and of the partitions of followed topics that
    /// are not known yet.
    ///
    /// # Errors
    /// `Kind::Argument` for a negative offset, or before the first assignment of the group; nothing was changed.
    pub fn seek_all(&mut self, now: Instant, to: Start) -> Result<(), Error> {
        if self.is_subscribed() && self.group_metadata().is_some_and(|it| it.generation < 0) {
            let text = "the group has not assigned partitions yet, so there is nothing to seek: the first polls bring the assignment. \
                        Seek after them, or in the listener on_assign of subscribe()";
            return Err(Error::new(Kind::Argument, text));
        }
        self.client.fetcher.seek_all(&mut self.core.cluster, to)?;
        self.settle(now);
        Ok(())
    }

    /// Sets the next offset to read. Fetched records that were not taken are dropped.
    ///
    /// # Errors
    /// `Kind::Argument` if the partition is not assigned or the offset negative.
    pub fn seek(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        to: Start,
    ) -> Result<(), Error> {
        let cluster = &mut self.core.cluster;
        self.client.fetcher.seek(cluster, topic, partition, to)?;
        self.settle(now);
        Ok(())
    }

    /// The offset of the next record that the caller gets; `None` until it was looked up.
    ///
    /// # Errors
    /// The partition is not assigned, or what keeps its offset from being known: for good, or until its leader accepts the
    /// client.
    pub fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let fetcher = &self.client.fetcher;
        match fetcher.position(topic, partition)? {
            Some(next) => Ok(Some(next)),
            None => match fetcher.refusal(&self.core.cluster, topic, partition) {
                Some(refusal) => Err(refusal),
                None => Ok(None),
            },
        }
    }

    /// Stops or resumes giving out records of a partition.
    ///
    /// # Errors
    /// The partition is not assigned.
    pub fn set_paused(
        &mut self,
        now: Instant,
        topic: &str,
        partition: i32,
        paused: bool,
    ) -> Result<(), Error> {
        let cluster = &mut self.core.cluster;
        self.client
            .fetcher
            .set_paused(cluster, topic, partition, paused)?;
        self.settle(now);
        Ok(())
    }

    /// Whether the partition is assigned and paused.
    pub fn is_paused(&self, topic: &str, partition: i32) -> bool {
        self.client.fetcher.is_paused(topic, partition)
    }

    /// The assigned partitions, sorted, and whether each is paused.
    pub fn assignment(&self) -> impl Iterator<Item = (&Arc<str>, i32, bool)> {
        let each = self.client.fetcher.each();
        each.map(|(topic, partition, _, paused)| (topic, partition, paused))
    }

    /// The assigned partitions, sorted, and [`Engine::position`] of each.
    pub fn positions(&self) -> impl Iterator<Item = (&Arc<str>, i32, Option<i64>)> {
        let each = self.client.fetcher.each();
        each.map(|(topic, partition, next, _)| (topic, partition, next))
    }

    /// Whether there is something to read: partitions that are assigned, or topics that are followed.
    pub fn has_topics(&self) -> bool {
        self.client.fetcher.has_topics() || self.is_subscribed()
    }

    /// The oldest buffered records. Makes space for the next fetch.
    pub fn take(&mut self, now: Instant) -> Option<Taken> {
        if self.client.fetcher.must_pump() {
            self.settle(now);
        }
        self.client.fetcher.take(now, &mut self.core.cluster)
    }

    /// Whether records of this generation may still be given to the caller.
    pub fn is_current(&self, topic: &str, partition: i32, generation: Generation) -> bool {
        self.client.fetcher.is_current(topic, partition, generation)
    }

    /// Notes that the caller gets everything before `next_offset`. False if a seek came in between: then the caller
    /// must not get it.
    pub fn advance(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        next_offset: i64,
    ) -> bool {
        let fetcher = &mut self.client.fetcher;
        fetcher.advance(topic, partition, generation, next_offset)
    }

    /// Notes what a poll returned of a partition, after [`Engine::advance`], for metrics.
    pub fn handed_out(
        &mut self,
        now: Instant,
        topic: &Arc<str>,
        partition: i32,
        records: usize,
        bytes: usize,
    ) {
        let meters = &mut self.core.cluster.context.meters;
        let fetcher = &self.client.fetcher;
        fetcher.handed_out(now, meters, (topic, partition), records, bytes);
    }

    /// Notes that a caller begins to poll.
    pub fn poll_began(&mut self, now: Instant) {
        if let Some(membership) = &mut self.client.membership {
            membership.poll_began();
        }
        self.core.cluster.context.meters.poll_began(now);
    }

    /// Notes that a poll returns.
    pub fn poll_ended(&mut self, now: Instant) {
        if let Some(membership) = &mut self.client.membership {
            membership.poll_ended(now);
            if let Some(due) = membership.poll_due() {
                self.core.cluster.set_alarm(due);
            }
        }
        self.core.cluster.context.meters.poll_ended(now);
    }

    /// Notes that the records at `offset` do not decode: the partition stays there and reports the error until a seek.
    pub fn reject(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
        offset: i64,
        error: Error,
    ) {
        let fetcher = &mut self.client.fetcher;
        fetcher.reject(topic, partition, generation, offset, error);
    }

    /// An error that a poll has to raise: a partition cannot be read until a seek or a new assignment, and the caller got
    /// everything that stands before it; or a topic may not be read, or does not exist. Of several partitions it is the one whose
    /// error was raised least often.
    pub fn stuck(&self) -> Option<&Error> {
        self.group_obstacle()
            .or_else(|| self.client.fetcher.stuck())
    }

    /// [`Engine::stuck`], if a poll has to raise it before it returns records. A partition stops
    /// only itself: an error that was raised once, by [`Engine::note_raised`], is raised again when
    /// no other partition has records, and before that only if no other one can be read.
    pub fn obstacle(&self) -> Option<&Error> {
        self.group_obstacle()
            .or_else(|| self.client.fetcher.obstacle())
    }

    /// The error that keeps the group from reading, unless a poll raised it for a partition.
    fn group_obstacle(&self) -> Option<&Error> {
        let membership = self.client.membership.as_ref();
        let obstacle = membership.and_then(Membership::obstacle);
        obstacle.filter(|error| !self.client.fetcher.is_denial_raised(error))
    }

    /// Notes that a poll raises this error.
    pub fn note_raised(&mut self, error: &Error) {
        self.client.fetcher.note_raised(error);
        if let (Some(membership), Some(topic)) = (&mut self.client.membership, error.topic()) {
            membership.note_raised(topic);
        }
    }

    /// Why no records come, if a caller can act on it: [`Engine::stuck`], no broker of the cluster was ever reached, or the
    /// leader of a partition does not accept the client. An outage, a leader that moves and a partition without a leader pass:
    /// they are events.
    pub fn delay(&self) -> Option<Error> {
        let cluster = &self.core.cluster;
        let unknown = || {
            let is_blind = cluster.view().nodes().next().is_none();
            cluster.refresh_error().filter(|_| is_blind).cloned()
        };
        let refused = || {
            // It is rare, and there may be many partitions.
            if !cluster.is_refused_by_a_node() {
                return None;
            }
            let fetcher = &self.client.fetcher;
            self.assignment()
                .filter(|(_, _, paused)| !paused)
                .filter_map(|(topic, number, _)| fetcher.partition_delay(cluster, topic, number))
                .find(Error::is_refusal)
        };
        cluster
            .poll_trouble()
            .or_else(|| self.stuck().cloned())
            .or_else(unknown)
            .or_else(refused)
    }

    /// Why one partition has no known offset or no records, whatever the reason is; `None` if it only has no new
    /// records.
    pub fn partition_delay(&self, topic: &str, partition: i32) -> Option<Error> {
        let cluster = &self.core.cluster;
        let fetcher = &self.client.fetcher;
        self.trouble()
            .or_else(|| fetcher.partition_delay(cluster, topic, partition))
    }
}

impl Composition for Consumer {
    #[allow(private_interfaces, reason = "sealed: nobody else composes clients")]
    fn parts(&mut self) -> Parts<'_> {
        let membership = self.membership.as_mut();
        let membership = membership.map(|membership| -> &mut dyn Part { membership });
        [Some(&mut self.fetcher), membership]
    }

    /// Carries what the group assigns to the fetcher, and committed offsets.
    fn exchange(&mut self, now: Instant, core: &mut Core) -> bool {
        let Some(membership) = &mut self.membership else {
            return false;
        };
        let mut any = false;
        for (sought, found) in membership.take_found() {
            let Sought {
                topic,
                partition,
                mark,
                topic_id,
            } = sought;
            let position = (&topic, partition, mark);
            let cluster = &mut core.cluster;
            self.fetcher
                .found_committed(now, cluster, position, topic_id, found);
            any = true;
        }
        if let Some(owned) = membership.take_news() {
            let owned = owned.into_iter();
            let owned = owned.map(|(topic, partition)| (topic, partition, Start::Reset));
            // They are checked: a partition's number is not negative.
            let _checked = self.assign(now, core, owned);
            any = true;
        }
        if let Some(membership) = &mut self.membership {
            let sought = self.fetcher.take_uncommitted(now, &mut core.cluster);
            any |= !sought.is_empty();
            let fetcher = &self.fetcher;
            let sought = sought.into_iter().map(|(topic, partition, mark)| Sought {
                topic_id: fetcher.topic_id(&topic),
                topic,
                partition,
                mark,
            });
            membership.seek_committed(sought.collect());
        }
        any
    }
}

impl Consumer {
    fn assign(
        &mut self,
        now: Instant,
        core: &mut Core,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        let (fetcher, has_group) = (&self.fetcher, self.membership.is_some());
        let partitions: Vec<_> = partitions
            .into_iter()
            .map(|(topic, partition, start)| {
                let is_new = start == Start::Reset && !fetcher.is_assigned(&topic, partition);
                match is_new && has_group {
                    true => (topic, partition, Start::Committed),
                    false => (topic, partition, start),
                }
            })
            .collect();
        self.fetcher.assign(now, &mut core.cluster, partitions)
    }
}

impl Client for Consumer {}
