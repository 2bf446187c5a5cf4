//! What the transaction coordinator wants done, and the partitions' part in transactions: records of `__transaction_state`
//! until they are safe, markers until they are.
//!
//! # Locks
//! The coordinator's is held while its log is appended to. Markers go out without it, since they may need the controller's.
//! Progress comes by wake-ups: a replica rings when something is safe, and then [`Core::has_news`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Wake;
use std::time::Duration;

use ottla_protocol::ErrorCode;

use super::coordinator::{Appending, Marking, Stage, State, TakingOver};
use super::{Core, TopicError, coordinator_in, partition_of};
use crate::bell::Slot;
use crate::cluster::controller::Asked;
use crate::error::BrokerError;
use crate::now::Now;
use crate::replicas::{Unreplicated, for_clients};
use crate::storage::batch::{self, Piece, Rejected};
use crate::storage::log::Log;
use crate::storage::producers::Marker;
use crate::topics::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic};
use crate::transaction::{
    Add, Append, Effect, End, Home, Identity, Init, Mark, Metadata, Place, Protocol, Reply,
    Transactions, decode,
};

/// How long a marker waits that could not be written.
const RETRY: Duration = Duration::from_millis(100);

impl Core {
    /// The protocol of transactions that this release follows.
    fn transaction_protocol(&self) -> Protocol {
        Protocol::of(self.release().transaction_version().unwrap_or_default())
    }

    /// The node that coordinates a transactional id.
    pub(crate) fn transaction_coordinator(&self, id: &str) -> Result<i32, ErrorCode> {
        if self.membership.is_none() {
            return Ok(self.node);
        }
        coordinator_in(self.transactions_topic(), id)
    }

    /// Where this node keeps an id, if it coordinates it.
    pub(crate) fn transaction_home(&self, id: &str) -> Result<Home, ErrorCode> {
        let topic = self
            .transactions_topic()
            .map_err(|_| ErrorCode::COORDINATOR_NOT_AVAILABLE)?;
        let partition = partition_of(id, topic.partitions.len());
        let replica = topic.partition(partition)?.lock();
        if replica.check(-1).is_err() {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let epoch = replica.standing().epoch;
        Ok(Home { partition, epoch })
    }

    fn transactions_topic(&self) -> Result<Arc<Topic>, TopicError> {
        let is_new = self.topic(TRANSACTIONS_TOPIC).is_err();
        let topic = self.internal_topic(TRANSACTIONS_TOPIC)?;
        if is_new && self.membership.is_none() {
            // In a cluster the nodes hear of it from the controller.
            let home = Home {
                partition: 0,
                epoch: 0,
            };
            let mut state = self.transactions.state.lock();
            if !state.machine.leads(home.partition) {
                state.machine.lead(home, BTreeMap::new());
            }
        }
        Ok(topic)
    }

    // Requests.

    /// InitProducerId with a transactional id.
    pub(crate) fn init_producer(&self, init: Init, ticket: Asked, now: Now) {
        let found = self.home_and_fresh_id(&init.id);
        self.with_transactions(ticket, found, now, |machine, (home, fresh_id), ticket| {
            machine.init(init, home, fresh_id, ticket);
        });
    }

    /// EndTxn.
    pub(crate) fn end_transaction(&self, end: &End, ticket: Asked, now: Now) {
        let found = self.home_and_fresh_id(&end.id);
        self.with_transactions(ticket, found, now, |machine, (home, fresh_id), ticket| {
            machine.end(end, home, fresh_id, ticket);
        });
    }

    /// Adds to a transaction, or verifies, wherever it is coordinated.
    pub(crate) fn add_to_transaction(&self, add: &Add, ticket: Asked, now: Now) {
        let coordinator = self.transaction_coordinator(&add.id);
        let elsewhere = coordinator.ok().filter(|node| *node != self.node);
        let membership = self.membership.as_ref();
        match elsewhere.zip(membership) {
            None => self.add_here(add, ticket, now),
            Some((node, membership)) => match membership.controller.member(node) {
                Some(member) => member.add_to_transaction(add, ticket, now),
                None => refuse(add, &ticket, ErrorCode::COORDINATOR_NOT_AVAILABLE),
            },
        }
    }

    /// Adds to a transaction that this node coordinates, or verifies.
    pub(crate) fn add_here(&self, add: &Add, ticket: Asked, now: Now) {
        match self.transaction_home(&add.id) {
            Ok(home) => self.with_transactions(ticket, Ok(home), now, |machine, home, ticket| {
                machine.add(add, home, ticket);
            }),
            Err(code) => refuse(add, &ticket, code),
        }
    }

    /// Whether the coordinator must verify before a producer commits a group's offsets; and the
    /// number of the verification if so.
    pub(crate) fn question_of_group(
        &self,
        (topic, index): &Place,
        producer: Identity,
    ) -> Result<Option<u64>, ErrorCode> {
        let topic = self.topic(topic)?;
        let mut replica = topic.partition(*index)?.lock();
        let producer = (producer.producer_id, producer.epoch);
        Ok(replica.log().question(producer))
    }

    /// Looks at what the coordinator knows.
    pub(crate) fn look_at_transactions<R>(
        &self,
        look: impl FnOnce(&Transactions<Asked>) -> R,
    ) -> R {
        look(&self.transactions.state.lock().machine)
    }

    /// Producer ids may come from the controller, which must not be asked with a lock held.
    fn home_and_fresh_id(&self, id: &str) -> Result<(Home, Option<i64>), ErrorCode> {
        let home = self.transaction_home(id)?;
        let needs = self.look_at_transactions(|machine| machine.needs_producer_id(id));
        let fresh_id = if needs && !id.is_empty() {
            Some(self.new_producer_id()?)
        } else {
            None
        };
        Ok((home, fresh_id))
    }

    fn with_transactions<F>(
        &self,
        ticket: Asked,
        found: Result<F, ErrorCode>,
        now: Now,
        act: impl FnOnce(&mut Transactions<Asked>, F, Asked),
    ) {
        match found {
            Ok(found) => {
                let mut state = self.transactions.state.lock();
                let now_here = self.wall.read(now);
                state.machine.set(now_here, self.transaction_protocol());
                act(&mut state.machine, found, ticket);
                drop(state);
                self.follow_transactions(now);
            }
            Err(code) => ticket.put(Reply::Producer(Err(code))),
        }
    }

    // What follows.

    /// Whether [`Core::handle_timeout`] has something to do at once.
    pub(crate) fn has_news(&self) -> bool {
        self.transactions.news.rung.load(Ordering::Acquire)
    }

    /// The wall clock was moved: transactions may be too old now, or have more time.
    pub(super) fn reschedule_transactions(&self) {
        self.transactions.state.lock().machine.reschedule();
        Arc::clone(&self.transactions.news).wake();
    }

    /// Does what the coordinator's timers say, and what has become possible.
    pub(super) fn handle_transactions(&self, now: Now) {
        let mut state = self.transactions.state.lock();
        let now_here = self.wall.read(now);
        state.machine.set(now_here, self.transaction_protocol());
        state.machine.handle_timeout();
        drop(state);
        self.follow_transactions(now);
    }

    /// Appends records, writes markers and hands out replies, until only work of other nodes is
    /// left.
    fn follow_transactions(&self, now: Now) {
        loop {
            self.transactions.news.rung.store(false, Ordering::Release);
            let mut state = self.transactions.state.lock();
            while self.settle(&mut state, now) {}
            let due = state.take_due(now.instant);
            let next = state.next_timeout();
            let told = std::mem::replace(&mut state.told, next);
            drop(state);
            if due.is_empty() {
                let is_sooner = next.is_some_and(|next| told.is_none_or(|told| next < told));
                if is_sooner || self.has_news() {
                    self.timer.wake_by_ref();
                }
                return;
            }
            let marked: Vec<_> = due
                .into_iter()
                .filter_map(|mark| self.send(mark, now))
                .collect();
            self.transactions.state.lock().marking.extend(marked);
        }
    }

    /// Does what is possible with the coordinator's lock alone. Returns whether it did anything.
    fn settle(&self, state: &mut State, now: Now) -> bool {
        let mut did = state.take_over();
        while let Some(effect) = state.machine.take_effect() {
            did = true;
            match effect {
                Effect::Reply(ticket, reply) => ticket.put(reply),
                Effect::Mark(mark) => state.marking.push(Marking {
                    mark,
                    stage: Stage::Due(Some(now.instant)),
                }),
                Effect::Append(append) => {
                    let step = append.step.clone();
                    match self.append_state(append, now) {
                        Ok(record) => state.appending.push(Appending {
                            step,
                            record,
                            watcher: self.transactions.watcher(),
                        }),
                        Err(code) => state.machine.append_failed(&step, code),
                    }
                }
            }
        }
        let State {
            machine,
            appending,
            marking,
            ..
        } = state;
        appending.retain(|it| match it.record.look(&it.watcher) {
            None => true,
            Some(Ok(())) => {
                did = true;
                machine.appended(&it.step);
                false
            }
            Some(Err(code)) => {
                did = true;
                machine.append_failed(&it.step, for_clients(code));
                false
            }
        });
        marking.retain_mut(|it| {
            let Stage::Placed(placed, watcher) = &it.stage else {
                return true;
            };
            match placed.look(watcher) {
                None => true,
                Some(Ok(())) => {
                    did = true;
                    machine.marked(&it.mark.step, &it.mark.place);
                    false
                }
                // Its leader has gone, and the next may not have it.
                Some(Err(_)) => {
                    it.stage = Stage::Due(Some(now.instant));
                    true
                }
            }
        });
        did
    }

    fn append_state(&self, append: Append, now: Now) -> Result<Unreplicated, ErrorCode> {
        let failed = |cause: &dyn std::fmt::Display| {
            self.events
                .say(format_args!("a transaction could not be stored: {cause}"));
            ErrorCode::COORDINATOR_NOT_AVAILABLE
        };
        let record = append.record.map_err(|cause| failed(&cause))?;
        let batch = batch::of_records(&[record], self.wall.at(now));
        let batch = batch.map_err(|cause| failed(&cause))?;
        let topic = self.topic(TRANSACTIONS_TOPIC)?;
        let placed = self.place(&topic, append.partition, &batch);
        placed.map_err(|refusal| match for_clients(refusal.code) {
            ErrorCode::UNKNOWN_SERVER_ERROR => failed(&refusal.message),
            code => code,
        })
    }

    /// Writes a marker, wherever the partition is led; gives what is left to do.
    fn send(&self, mark: Mark, now: Now) -> Option<Marking> {
        let stage = match self.mark(&mark.place, mark.marker, now) {
            Ok(placed) => Stage::Placed(placed, self.transactions.watcher()),
            Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
            | Err(ErrorCode::INVALID_PRODUCER_EPOCH)
            | Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED) => {
                // The partition is gone, or something newer has ended the transaction there.
                let mut state = self.transactions.state.lock();
                state.machine.marked(&mark.step, &mark.place);
                return None;
            }
            Err(_) => Stage::Due(now.instant.checked_add(RETRY)),
        };
        Some(Marking { mark, stage })
    }

    fn mark(&self, place: &Place, marker: Marker, now: Now) -> Result<Unreplicated, ErrorCode> {
        let topic = self.topic(&place.0)?;
        let leader = topic.partition(place.1)?.lock().standing().leader;
        match &self.membership {
            Some(membership) if leader != self.node => membership
                .controller
                .member(leader)
                .ok_or(ErrorCode::LEADER_NOT_AVAILABLE)?
                .mark(place, marker, now),
            _ => self.mark_here(place, marker, now),
        }
    }

    /// Writes a marker to a partition that this node leads.
    pub(crate) fn mark_here(
        &self,
        (topic, index): &Place,
        marker: Marker,
        now: Now,
    ) -> Result<Unreplicated, ErrorCode> {
        let batch = batch::of_marker(marker, self.wall.at(now)).map_err(|cause| {
            self.events
                .say(format_args!("a marker could not be made: {cause}"));
            ErrorCode::UNKNOWN_SERVER_ERROR
        })?;
        let topic = self.topic(topic)?;
        let write = || {
            self.place(&topic, *index, &batch).map_err(|refusal| {
                if refusal.code == ErrorCode::KAFKA_STORAGE_ERROR {
                    self.events.say(format_args!(
                        "a marker could not be written: {}",
                        refusal.message
                    ));
                }
                refusal.code
            })
        };
        if &*topic.name != OFFSETS_TOPIC {
            return write();
        }
        let count = topic.partitions.len();
        self.with_groups(now, |groups| {
            let placed = write()?;
            let is_here = |group: &str| partition_of(group, count) == *index;
            groups.end_transaction(is_here, marker.producer_id, marker.commits);
            Ok(placed)
        })
    }

    /// Appends the broker's own batch as the leader, for as many replicas as the topic requires.
    fn place(
        &self,
        topic: &Arc<Topic>,
        index: i32,
        batch: &batch::Checked,
    ) -> Result<Unreplicated, Rejected> {
        let unknown = || Rejected::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "no such partition");
        let least_in_sync = self.settings.log_config(&topic.values).least_in_sync;
        let mut replica = topic.partition(index).map_err(|_| unknown())?.lock();
        let appended = replica.append(batch, Some(least_in_sync))?;
        let epoch = replica.standing().epoch;
        drop(replica);
        Ok(Unreplicated {
            topic: Arc::clone(topic),
            index,
            epoch,
            end: appended.next_offset,
            least_in_sync,
        })
    }

    // Coordinators come and go.

    /// Reads the transactions back from the data folder.
    pub(super) fn recover_transactions(&self) -> Result<(), BrokerError> {
        let Ok(topic) = self.topic(TRANSACTIONS_TOPIC) else {
            return Ok(());
        };
        for (index, replica) in (0..).zip(&topic.partitions) {
            let mut replica = replica.lock();
            let home = Home {
                partition: index,
                epoch: replica.standing().epoch,
            };
            let kept = recover(replica.log()).map_err(|what| {
                BrokerError::Config(format!(
                    "transactions in {TRANSACTIONS_TOPIC} cannot be read back: {what}"
                ))
            })?;
            self.transactions.state.lock().machine.lead(home, kept);
        }
        // Markers may be due, but not while the node is opened.
        self.transactions.news.rung.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes over transactional ids, or lets them go, when the leader of their log has changed.
    pub(super) fn coordinate_transactions(&self, topic: &Arc<Topic>, changed: &[(i32, bool)]) {
        for (partition, leads) in changed {
            let mut state = self.transactions.state.lock();
            state.let_go(|it| it == *partition);
            let replica = topic.partition(*partition);
            if let Some(replica) = replica.ok().filter(|_| *leads) {
                let mut replica = replica.lock();
                let recovered = recover(replica.log());
                let end = replica.log().bounds().end;
                drop(replica);
                match recovered {
                    Ok(kept) => state.taking_over.push(TakingOver {
                        topic: Arc::clone(topic),
                        partition: *partition,
                        kept,
                        end,
                        watcher: self.transactions.watcher(),
                    }),
                    Err(what) => self
                        .events
                        .say(format_args!("transactions cannot be read back: {what}")),
                }
            }
            state.take_over();
            state.answer();
        }
        Arc::clone(&self.transactions.news).wake();
    }

    /// The node is down: another one coordinates.
    pub(super) fn forget_transactions(&self) {
        let mut state = self.transactions.state.lock();
        state.let_go(|_| true);
        state.answer();
        state.appending.clear();
        state.marking.clear();
    }
}

fn refuse(add: &Add, ticket: &Slot<Reply>, code: ErrorCode) {
    ticket.put(Reply::Partitions(vec![code; add.partitions.len()]));
}

/// The last state of each id in a part of the log.
fn recover(log: &mut Log) -> Result<BTreeMap<String, Metadata>, String> {
    let mut kept = BTreeMap::new();
    log.each_piece(|piece| {
        if let Piece::Record(record) = piece {
            match record.key.and_then(|key| decode(key, record.value)) {
                Some((id, Some(metadata))) => {
                    kept.insert(id, metadata);
                }
                Some((id, None)) => {
                    kept.remove(&id);
                }
                None => {}
            }
        }
    })?;
    Ok(kept)
}
