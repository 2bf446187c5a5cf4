//! The group coordinator with its log: what it keeps in the offsets topic, and what it reads back from there when it takes
//! groups over.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Instant;

use bytes::Bytes;
use ottla_protocol::records::Record;
use ottla_protocol::{EncodeError, ErrorCode};
use parking_lot::MutexGuard;

use super::{Core, Replied, Ticket, offsets_partition};
use crate::group::{Groups, Stored, StoredMembers};
use crate::now::Now;
use crate::replicas::{Unreplicated, for_clients};
use crate::storage::batch;
use crate::storage::log::Log;

/// A record's key and value.
type Keyed = (Bytes, Option<Bytes>);

impl Core {
    /// Runs `act` on the group coordinator and keeps what it changed of groups' members, then hands out the answers that
    /// became due and has the timer looked at.
    pub(crate) fn with_groups<R>(&self, now: Now, act: impl FnOnce(&mut Groups<Ticket>) -> R) -> R {
        let mut groups = self.groups.lock();
        let before = groups.next_timeout();
        groups.begin_sessions(now.instant);
        let result = act(&mut groups);
        let changed = groups.take_changed();
        let kept = self.keep(&changed, now);
        self.hand_out(groups, before, &kept);
        result
    }

    /// Runs `act`, which takes groups over or lets them go: of that nothing is kept.
    pub(super) fn reload_groups<R>(&self, act: impl FnOnce(&mut Groups<Ticket>) -> R) -> R {
        let mut groups = self.groups.lock();
        let before = groups.next_timeout();
        let result = act(&mut groups);
        groups.take_changed();
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

    fn keep(&self, changed: &[StoredMembers], now: Now) -> Result<Vec<Unreplicated>, ErrorCode> {
        let encode =
            |stored: &StoredMembers| Ok((stored.group.clone(), stored.encode(now.unix_ms)?));
        self.write(changed.iter().map(encode), now)
    }

    /// Commits or forgets offsets: first in the offsets topic, then in the groups. Gives what replicas must have before
    /// clients are told.
    pub(crate) fn store(
        &self,
        groups: &mut Groups<Ticket>,
        stored: Vec<Stored>,
        now: Now,
    ) -> Result<Vec<Unreplicated>, ErrorCode> {
        let encode = |stored: &Stored| Ok((stored.group.clone(), stored.encode()?));
        let written = self.write(stored.iter().map(encode), now)?;
        for stored in stored {
            take(groups, stored);
        }
        Ok(written)
    }

    /// Writes records to the partitions of their groups.
    fn write(
        &self,
        records: impl Iterator<Item = Result<(String, Keyed), EncodeError>>,
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
            let partition = offsets_partition(&group, topic.partitions.len());
            by_partition.entry(partition).or_default().push(record);
        }
        let least_in_sync = self.settings.log_config(&topic.values).least_in_sync;
        let mut unreplicated = Vec::new();
        for (index, records) in by_partition {
            let batch = batch::of_records(&records, now.unix_ms).map_err(|cause| failed(&cause))?;
            let mut replica = topic.partition(index)?.lock();
            let appended = replica
                .append(&batch, Some(least_in_sync))
                .map_err(|refusal| match for_clients(refusal.code) {
                    ErrorCode::UNKNOWN_SERVER_ERROR => failed(&refusal.message),
                    code => code,
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

    /// Reads groups and their offsets from a partition of the offsets topic.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read_back(log: &mut Log, groups: &mut Groups<Ticket>) -> Result<(), String> {
        const STEP: usize = 1 << 20;
        let mut offset = log.bounds().start;
        while let Some(span) = log
            .read(offset, STEP, true, None)
            .map_err(|cause| cause.to_string())?
            .and_then(|read| read.span)
        {
            let bytes = span.load().map_err(|cause| cause.to_string())?;
            offset = batch::each_record(bytes, |record: &Record<'_>| {
                let Some(key) = record.key else { return };
                if let Some(stored) = Stored::decode(key, record.value) {
                    take(groups, stored);
                } else if let Some(stored) = StoredMembers::decode(key, record.value) {
                    groups.restore(&stored.group, stored.kept.as_ref());
                }
            })?;
        }
        Ok(())
    }
}

fn take(groups: &mut Groups<Ticket>, stored: Stored) {
    let Stored {
        group,
        topic,
        partition,
        committed,
    } = stored;
    match committed {
        Some(committed) => groups.commit(&group, &topic, partition, committed),
        None => groups.forget(&group, &topic, partition),
    }
}
