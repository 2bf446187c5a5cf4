//! The group coordinator with its log: what it keeps in the offsets topic, and what it reads back from there when it takes
//! groups over.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Instant;

use bytes::Bytes;
use ottla_protocol::{EncodeError, ErrorCode};
use parking_lot::MutexGuard;

use super::{Core, Replied, Ticket, Within, partition_of};
use crate::group::{Groups, Kept, Stored, StoredConsumer, StoredMembers, StoredShare};
use crate::now::Now;
use crate::replicas::{Unreplicated, for_clients};
use crate::storage::batch::{self, Piece};
use crate::storage::log::Log;
use crate::topics::{OFFSETS_TOPIC, Topic};

/// A record's key and value.
type Keyed = (Bytes, Option<Bytes>);

impl Core {
    /// Runs `act` on the group coordinator and stores what it changed of groups' members, then
    /// hands out the replies that became due and has the timer looked at.
    pub(crate) fn with_groups<R>(&self, now: Now, act: impl FnOnce(&mut Groups<Ticket>) -> R) -> R {
        self.act(None, now, act)
    }

    /// As [`Core::with_groups`], for replies with the assignment of a member of this group. They
    /// also wait for earlier changes of the group that are not on all replicas yet. A coordinator
    /// that takes over without these would assign otherwise in the same generation.
    pub(crate) fn with_group<R>(
        &self,
        group: &str,
        now: Now,
        act: impl FnOnce(&mut Groups<Ticket>) -> R,
    ) -> R {
        self.act(Some(group), now, act)
    }

    fn act<R>(
        &self,
        group: Option<&str>,
        now: Now,
        act: impl FnOnce(&mut Groups<Ticket>) -> R,
    ) -> R {
        let mut groups = self.groups.lock();
        let before = groups.next_timeout();
        groups.see(self.catalogue());
        groups.begin_sessions(now.instant);
        let result = act(&mut groups);
        let changed = groups.take_changed(self.wall.at(now));
        let kept = self.keep(&changed, now);
        if kept.is_err() {
            self.revert(&mut groups, &changed, now);
        }
        let kept = kept.map(|kept| match group {
            Some(group) if kept.is_empty() => self.unreplicated(group).into_iter().collect(),
            _ => kept,
        });
        self.hand_out(groups, before, &kept);
        result
    }

    /// Runs `act`, which takes groups over or lets them go: of that nothing is kept.
    pub(super) fn reload_groups<R>(&self, act: impl FnOnce(&mut Groups<Ticket>) -> R) -> R {
        let mut groups = self.groups.lock();
        let before = groups.next_timeout();
        let result = act(&mut groups);
        groups.forget_changed();
        self.hand_out(groups, before, &Ok(Vec::new()));
        // The sessions of members that were read back begin when the timer is looked at.
        self.timer.wake_by_ref();
        result
    }

    fn hand_out(
        &self,
        mut groups: MutexGuard<'_, Groups<Ticket>>,
        before: Option<Instant>,
        kept: &Result<Vec<Unreplicated>, ErrorCode>,
    ) {
        let replies = groups.take_replies();
        let is_sooner = groups.next_timeout() != before;
        drop(groups);
        if is_sooner {
            self.timer.wake_by_ref();
        }
        for (ticket, reply) in replies {
            ticket.put(match kept {
                Ok(unreplicated) => Replied {
                    reply,
                    unreplicated: unreplicated.clone(),
                },
                Err(code) => Replied {
                    reply: reply.refused(*code),
                    unreplicated: Vec::new(),
                },
            });
        }
    }

    fn keep(&self, changed: &[Kept], now: Now) -> Result<Vec<Unreplicated>, ErrorCode> {
        let wall_ms = self.wall.at(now);
        let encode = |kept: &Kept| Ok((kept.group().to_owned(), kept.encode(wall_ms)?));
        self.write(changed.iter().map(encode), None, now)
    }

    /// Reverts changes that could not be stored, as in Kafka: members would learn of them later,
    /// and a coordinator that takes over would not know. Groups whose members have epochs return to
    /// their stored state; the members of a classic group join again.
    fn revert(&self, groups: &mut Groups<Ticket>, unkept: &[Kept], now: Now) {
        let is_classic = |kept: &&Kept| matches!(kept, Kept::Classic(_));
        let (classic, others): (Vec<_>, Vec<_>) = unkept.iter().partition(is_classic);
        let others: BTreeSet<&str> = others.into_iter().map(Kept::group).collect();
        let is_other = |group: &str| others.contains(group);
        groups.unload(is_other);
        if let Ok(topic) = self.topic(OFFSETS_TOPIC) {
            let count = topic.partitions.len();
            let places: BTreeSet<i32> = others.iter().map(|it| partition_of(it, count)).collect();
            for index in places {
                self.read_back_from(&topic, index, groups, is_other);
            }
        }
        groups.forget_changed();
        for group in classic.into_iter().map(Kept::group) {
            if !is_other(group) {
                groups.gather(group, now.instant);
            }
        }
        // The sessions of members that were read back begin when the timer is looked at.
        self.timer.wake_by_ref();
    }

    /// Reads back groups that this node coordinates, as far as it leads their partition of the offsets topic.
    pub(super) fn read_back_from(
        &self,
        topic: &Topic,
        index: i32,
        groups: &mut Groups<Ticket>,
        is_here: impl Fn(&str) -> bool,
    ) {
        let Ok(replica) = topic.partition(index) else {
            return;
        };
        let mut replica = replica.lock();
        if !replica.leads() {
            return;
        }
        if let Err(what) = Self::read_back(replica.log(), groups, is_here) {
            self.events.say(format_args!(
                "groups and committed offsets cannot be read back: {what}"
            ));
        }
    }

    /// What is stored of a group, or of others that are stored with it, and is not on all replicas
    /// yet.
    fn unreplicated(&self, group: &str) -> Option<Unreplicated> {
        let topic = self.offsets_topic().ok()?;
        let index = partition_of(group, topic.partitions.len());
        let least_in_sync = self.settings.log_config(&topic.values).least_in_sync;
        let mut replica = topic.partition(index).ok()?.lock();
        let end = replica.log().bounds().end;
        (replica.visible().high_watermark < end).then(|| Unreplicated {
            epoch: replica.standing().epoch,
            topic: topic.clone(),
            index,
            end,
            least_in_sync,
        })
    }

    /// Commits or forgets offsets: first in the offsets topic, then in the groups. Those of a
    /// transaction count when it is committed. Returns what replicas must have before clients get
    /// the response.
    pub(crate) fn store(
        &self,
        groups: &mut Groups<Ticket>,
        stored: Vec<Stored>,
        within: Option<Within>,
        now: Now,
    ) -> Result<Vec<Unreplicated>, ErrorCode> {
        let encode = |stored: &Stored| Ok((stored.group.clone(), stored.encode()?));
        let written = self.write(stored.iter().map(encode), within, now)?;
        let producer = within.map(|within| within.producer.producer_id);
        for stored in stored {
            take(groups, stored, producer);
        }
        Ok(written)
    }

    /// Writes records to the partitions of their groups, as a part of a transaction if one is given.
    fn write(
        &self,
        records: impl Iterator<Item = Result<(String, Keyed), EncodeError>>,
        within: Option<Within>,
        now: Now,
    ) -> Result<Vec<Unreplicated>, ErrorCode> {
        let failed = |cause: &dyn Display| {
            self.events.say(format_args!(
                "groups or offsets could not be stored: {cause}"
            ));
            ErrorCode::KAFKA_STORAGE_ERROR
        };
        let mut records = records.peekable();
        if records.peek().is_none() {
            return Ok(Vec::new());
        }
        let topic = self
            .offsets_topic()
            .map_err(|error| failed(&error.message))?;
        let mut by_partition: BTreeMap<i32, Vec<Keyed>> = BTreeMap::new();
        for record in records {
            let (group, record) = record.map_err(|cause| failed(&cause))?;
            let partition = partition_of(&group, topic.partitions.len());
            by_partition.entry(partition).or_default().push(record);
        }
        let least_in_sync = self.settings.log_config(&topic.values).least_in_sync;
        let wall_ms = self.wall.at(now);
        let mut unreplicated = Vec::new();
        for (index, records) in by_partition {
            let batch = match within {
                None => batch::of_records(&records, wall_ms),
                Some(Within { producer, question }) => {
                    let producer = (producer.producer_id, producer.epoch);
                    batch::in_transaction(&records, producer, wall_ms)
                        .map(|batch| batch.verified(question))
                }
            };
            let batch = batch.map_err(|cause| failed(&cause))?;
            let mut replica = topic.partition(index)?.lock();
            let appended = replica
                .append(&batch, Some(least_in_sync))
                .map_err(|refusal| match refusal.code {
                    code @ (ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::INVALID_TXN_STATE) => {
                        code
                    }
                    code => match for_clients(code) {
                        ErrorCode::UNKNOWN_SERVER_ERROR => failed(&refusal.message),
                        code => code,
                    },
                })?;
            let end = appended.next_offset;
            if replica.visible().high_watermark < end {
                unreplicated.push(Unreplicated {
                    epoch: replica.standing().epoch,
                    topic: topic.clone(),
                    index,
                    end,
                    least_in_sync,
                });
            }
        }
        Ok(unreplicated)
    }

    /// Reads the groups for which `is_here` is true, with their offsets, from a partition of the
    /// offsets topic.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read_back(
        log: &mut Log,
        groups: &mut Groups<Ticket>,
        is_here: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        log.each_piece(|piece| {
            let (record, producer) = match piece {
                Piece::Record(record) => (record, None),
                Piece::InTransaction(producer, record) => (record, Some(*producer)),
                Piece::End(marker) => {
                    groups.end_transaction(&is_here, marker.producer_id, marker.commits);
                    return;
                }
            };
            let Some(key) = record.key else { return };
            if let Some(stored) = Stored::decode(key, record.value) {
                if is_here(&stored.group) {
                    take(groups, stored, producer);
                }
            } else if let Some(stored) = StoredMembers::decode(key, record.value) {
                if is_here(&stored.group) {
                    groups.restore(&stored.group, stored.kept.as_ref());
                }
            } else if let Some(record) = StoredConsumer::decode(key, record.value) {
                if is_here(&record.group) {
                    groups.restore_consumer(record);
                }
            } else if let Some(record) = StoredShare::decode(key, record.value)
                && is_here(&record.group)
            {
                groups.restore_share(record);
            }
        })
    }
}

/// Takes over what is in the offsets topic, if needed as part of this producer's transaction.
fn take(groups: &mut Groups<Ticket>, stored: Stored, producer: Option<i64>) {
    let Stored {
        group,
        topic,
        partition,
        committed,
    } = stored;
    match (committed, producer) {
        (Some(committed), None) => groups.commit(&group, &topic, partition, committed),
        (Some(committed), Some(producer)) => {
            groups.commit_in_transaction(&group, &topic, partition, producer, committed);
        }
        (None, _) => groups.forget(&group, &topic, partition),
    }
}
