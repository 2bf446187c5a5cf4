//! Share groups' records with their logs: what is read for members, and what is kept of it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use super::{Core, partition_of};
use crate::error::BrokerError;
use crate::now::Now;
use crate::sharing::{Acquired, Batch, Claim, Key, Reset, Shares, SharingRules, StoredState};
use crate::storage::batch::{self, Piece};
use crate::storage::replica::{Fetched, Isolation, Standing};
use crate::topics::{SHARE_STATE_TOPIC, Topic};

/// How often a member that found nothing it may have looks on at once, behind markers and what others were given meanwhile.
const ATTEMPTS: usize = 100;

/// A code, and who leads if another does.
pub(crate) type ShareFailure = (ErrorCode, Option<Standing>);

/// What a member wants of a partition.
#[derive(Debug)]
pub(crate) struct ShareAsk<'a> {
    pub(crate) key: &'a Key,
    pub(crate) topic: &'a Arc<Topic>,
    pub(crate) rules: &'a SharingRules,
    pub(crate) claim: &'a Claim,
    /// Bytes that there is space for; a first batch is given whole.
    pub(crate) bytes: usize,
}

/// What was found for a member.
#[derive(Debug)]
pub(crate) struct ShareFound {
    /// Whole batches, that may have other records too.
    pub(crate) records: Bytes,
    pub(crate) acquired: Vec<Acquired>,
    /// Up to where it looked.
    pub(crate) seen: i64,
}

impl Core {
    /// Runs `act` on what is shared, then writes down what changed, and has the timer looked at.
    pub(crate) fn with_shares<R>(&self, now: Now, act: impl FnOnce(&mut Shares) -> R) -> R {
        self.keep_shares(now, act).0
    }

    /// As [`Core::with_shares`], for results that clients get only if they were written down;
    /// returns whether all were.
    pub(crate) fn keep_shares<R>(
        &self,
        now: Now,
        act: impl FnOnce(&mut Shares) -> R,
    ) -> (R, Result<(), ErrorCode>) {
        let mut shares = self.shares.lock();
        let before = shares.next_timeout();
        let result = act(&mut shares);
        let changed = shares.take_changed();
        let mut written = Ok(());
        if !changed.is_empty() && self.membership.is_none() {
            written = self.write_shares(&changed, now);
            if let Err(code) = written {
                self.events.say(format_args!(
                    "what share groups are done with could not be stored: {code}"
                ));
                shares.put_back(changed);
            }
        }
        let is_other = shares.next_timeout() != before;
        drop(shares);
        if is_other {
            self.timer.wake_by_ref();
        }
        (result, written)
    }

    /// The connection is gone on which these share sessions were.
    pub(crate) fn end_share_sessions(&self, sessions: &[u64]) {
        let mut shares = self.shares.lock();
        for session in sessions {
            shares.disconnect(*session);
        }
    }

    fn write_shares(&self, changed: &[StoredState], now: Now) -> Result<(), ErrorCode> {
        let failed = |cause: &dyn Display| {
            self.events
                .say(format_args!("{SHARE_STATE_TOPIC}: {cause}"));
            ErrorCode::KAFKA_STORAGE_ERROR
        };
        let topic = self.internal_topic(SHARE_STATE_TOPIC);
        let topic = topic.map_err(|error| failed(&error.message))?;
        let wall_ms = self.wall.at(now);
        let mut by_partition: BTreeMap<i32, Vec<(Bytes, Option<Bytes>)>> = BTreeMap::new();
        for stored in changed {
            let record = stored.encode(wall_ms).map_err(|cause| failed(&cause))?;
            let partition = partition_of(&stored.place(), topic.partitions.len());
            by_partition.entry(partition).or_default().push(record);
        }
        for (index, records) in by_partition {
            let batch = batch::of_records(&records, wall_ms).map_err(|cause| failed(&cause))?;
            let mut replica = topic.partition(index)?.lock();
            let appended = replica.append(&batch, None);
            appended.map_err(|refusal| failed(&refusal.message))?;
        }
        Ok(())
    }

    /// Reads the share groups back from the data folder.
    pub(super) fn recover_shares(&self) -> Result<(), BrokerError> {
        let Ok(topic) = self.topic(SHARE_STATE_TOPIC) else {
            return Ok(());
        };
        let states = Arc::clone(self.shares.lock().states());
        for replica in &topic.partitions {
            let read = replica.lock().log().each_piece(|piece| {
                let Piece::Record(record) = piece else { return };
                let stored = record
                    .key
                    .and_then(|key| StoredState::decode(key, record.value));
                if let Some(stored) = stored {
                    states.restore(stored);
                }
            });
            read.map_err(|what| {
                BrokerError::Config(format!(
                    "share groups in {SHARE_STATE_TOPIC} cannot be read back: {what}"
                ))
            })?;
        }
        Ok(())
    }

    /// Acquires records of a partition for a member: none if there are none for it now.
    pub(crate) fn share(&self, ask: &ShareAsk<'_>, now: Now) -> Result<ShareFound, ShareFailure> {
        let (key, rules) = (ask.key, ask.rules);
        let replica = ask.topic.partition(key.partition);
        let replica = replica.map_err(|code| (code, None))?;
        let isolation = if rules.committed {
            Isolation::Committed
        } else {
            Isolation::Uncommitted
        };
        let begin = if self.shares.lock().knows(key) {
            0
        } else {
            let begin = self.share_begin(ask.topic, key.partition, rules.reset, now);
            begin.map_err(|code| (code, None))?
        };
        let mut found = ShareFound {
            records: Bytes::new(),
            acquired: Vec::new(),
            seen: 0,
        };
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (visible, epoch) = {
                let replica = replica.lock();
                if let Err(code) = replica.check(-1) {
                    return Err((code, Some(replica.standing().clone())));
                }
                (replica.visible(), replica.standing().epoch)
            };
            found.seen = visible.end(isolation);
            let reading = self.with_shares(now, |shares| {
                shares.next_offset(key, epoch, rules, visible.start, begin)
            });
            let Some(reading) = reading.filter(|it| last != Some(*it)) else {
                return Ok(found);
            };
            last = Some(reading);
            let failed = |cause: &dyn Display| {
                self.events.say(format_args!(
                    "{}-{} could not be read: {cause}",
                    ask.topic.name, key.partition
                ));
                (ErrorCode::KAFKA_STORAGE_ERROR, None)
            };
            let fetched = replica
                .lock()
                .fetch(reading.from, -1, isolation, ask.bytes, true);
            let Fetched::Read(visible, Some(span), aborted) =
                fetched.map_err(|cause| failed(&cause))?
            else {
                return Ok(found);
            };
            found.seen = visible.end(isolation);
            let stored = span.load().map_err(|cause| failed(&cause))?;
            let mut batches = Vec::new();
            let mut pieces = Vec::new();
            batch::each_batch(stored.clone(), |meta, bytes| {
                let is_aborted = meta.sequenced.is_some_and(|batch| {
                    let mut those = aborted.iter();
                    batch.is_transactional
                        && those.any(|it| {
                            it.producer_id == batch.producer_id
                                && (it.first..it.last).contains(&meta.base_offset)
                        })
                });
                batches.push(Batch {
                    first: meta.base_offset,
                    last: meta.last_offset,
                    is_hidden: meta.is_control || is_aborted,
                });
                pieces.push(bytes.len());
                Ok(())
            })
            .map_err(|cause| failed(&cause))?;
            let acquired = self.with_shares(now, |shares| {
                shares.acquire(key, reading, &batches, ask.claim)
            });
            if !acquired.is_empty() {
                found.records = cut(&stored, &batches, &pieces, &acquired);
                found.acquired = acquired;
                return Ok(found);
            }
        }
        Ok(found)
    }

    /// Where a group begins that is new to a partition.
    fn share_begin(
        &self,
        topic: &Topic,
        index: i32,
        reset: Reset,
        now: Now,
    ) -> Result<i64, ErrorCode> {
        let replica = topic.partition(index)?;
        let mut locked = replica.lock();
        let visible = locked.visible();
        let after = match reset {
            Reset::Earliest => return Ok(visible.start),
            Reset::Latest => return Ok(visible.high_watermark),
            Reset::ByDuration(age) => age.as_millis(),
        };
        let failed = |cause: &dyn Display| {
            self.events
                .say(format_args!("no offset could be found for a time: {cause}"));
            ErrorCode::KAFKA_STORAGE_ERROR
        };
        let age = i64::try_from(after).unwrap_or(i64::MAX);
        let timestamp = self.wall.at(now).saturating_sub(age);
        let span = locked.log().batch_at_time(timestamp);
        drop(locked);
        let Some(span) = span.map_err(|cause| failed(&cause))? else {
            return Ok(visible.high_watermark);
        };
        let bytes = span.load().map_err(|cause| failed(&cause))?;
        let found = batch::record_at_time(bytes, timestamp).map_err(|cause| failed(&cause))?;
        let offset = found.map_or(visible.high_watermark, |(_, offset)| offset);
        Ok(offset.min(visible.high_watermark))
    }
}

/// The batches from the first with an acquired record to the last.
fn cut(stored: &Bytes, batches: &[Batch], pieces: &[usize], acquired: &[Acquired]) -> Bytes {
    let (mut begin, mut end, mut at) = (None, 0, 0);
    for (batch, length) in batches.iter().zip(pieces) {
        let mut those = acquired.iter();
        if those.any(|it| it.first <= batch.last && it.last >= batch.first) {
            begin.get_or_insert(at);
            end = at + length;
        }
        at += length;
    }
    stored.slice(begin.unwrap_or(end)..end)
}
