//! What is done from time to time: segments that are too old or too many are deleted, others compacted, and producers and
//! committed offsets forgotten.

use std::io;
use std::time::Instant;

use parking_lot::Mutex;

use super::Core;
use super::due::take;
use crate::now::Now;
use crate::storage::replica::Replica;

impl Core {
    /// Begins to count the time to the first looks, unless that was begun.
    pub(crate) fn begin_upkeep(&self, now: Now) {
        let mut upkeep = self.upkeep.lock();
        if upkeep.retention.is_none() {
            let after = |pause| now.instant.checked_add(pause);
            upkeep.retention = after(self.settings.retention_check);
            upkeep.compaction = after(self.settings.cleaner_backoff);
            upkeep.producers = after(self.settings.producer_expiration_check);
            upkeep.offsets = after(self.settings.offsets_retention_check);
        }
    }

    /// When [`Core::upkeep`] has something to do. Nobody is woken when that changes, and only [`Core::upkeep`] changes it.
    pub(crate) fn next_upkeep(&self) -> Option<Instant> {
        let upkeep = self.upkeep.lock();
        let dues = [
            upkeep.retention,
            upkeep.compaction,
            upkeep.producers,
            upkeep.offsets,
        ];
        dues.into_iter().flatten().min()
    }

    /// Looks at all logs, if that is due. It reads and writes files.
    pub(crate) fn upkeep(&self, now: Now) {
        let settings = &self.settings;
        let (retains, compacts, forgets, expires) = {
            let mut upkeep = self.upkeep.lock();
            let now = now.instant;
            (
                take(&mut upkeep.retention, settings.retention_check, now),
                take(&mut upkeep.compaction, settings.cleaner_backoff, now),
                take(
                    &mut upkeep.producers,
                    settings.producer_expiration_check,
                    now,
                ),
                take(&mut upkeep.offsets, settings.offsets_retention_check, now),
            )
        };
        let wall_ms = self.wall.at(now);
        if retains {
            self.each_log(|replica| replica.lock().retain(wall_ms));
        }
        if forgets {
            let until = wall_ms.saturating_sub(settings.producer_expiration_ms);
            self.each_log(|replica| {
                replica.lock().log().expire_producers(until);
                Ok(())
            });
        }
        if expires {
            self.expire_offsets(now);
        }
        if compacts {
            self.each_log(|replica| compact(replica, wall_ms));
        }
    }

    /// Forgets committed offsets that nobody has needed for long.
    fn expire_offsets(&self, now: Now) {
        let kept_ms = self.settings.offsets_retention_ms;
        let until = self.wall.at(now).saturating_sub(kept_ms);
        let forgotten = self.with_groups(now, |groups| {
            let expired = groups.expired(until);
            self.store(groups, expired, None, now)
        });
        if let Err(code) = forgotten {
            self.events
                .say(format_args!("old offsets are still there: {code}"));
        }
    }

    fn each_log(&self, act: impl Fn(&Mutex<Replica>) -> io::Result<()>) {
        for topic in self.topics() {
            for (index, replica) in topic.partitions.iter().enumerate() {
                if let Err(cause) = act(replica) {
                    self.events.say(format_args!(
                        "{}-{index} could not be looked after: {cause}",
                        topic.name
                    ));
                }
            }
        }
    }
}

/// Compacts a log where that is worth it. Others can use it while that is done.
fn compact(replica: &Mutex<Replica>, now: i64) -> io::Result<()> {
    let work = replica.lock().compaction(now);
    match work {
        Some(work) => {
            let cleaned = work.clean()?;
            replica.lock().install(cleaned)
        }
        None => Ok(()),
    }
}
