//! What is done to logs from time to time: segments that are too old or too many are deleted.

use std::io;
use std::time::Instant;

use parking_lot::Mutex;

use super::Core;
use crate::now::Now;
use crate::storage::replica::Replica;

/// When the next look at all logs is due.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    retention: Option<Instant>,
}

impl Core {
    /// Begins to count the time to the first look, unless that was begun.
    pub(crate) fn begin_upkeep(&self, now: Now) {
        let mut upkeep = self.upkeep.lock();
        if upkeep.retention.is_none() {
            upkeep.retention = now.instant.checked_add(self.settings.retention_check);
        }
    }

    /// When [`Core::upkeep`] has something to do. Nobody is woken when that changes, and only [`Core::upkeep`] changes it.
    pub(crate) fn next_upkeep(&self) -> Option<Instant> {
        self.upkeep.lock().retention
    }

    /// Looks at all logs, if that is due. It reads and writes files.
    pub(crate) fn upkeep(&self, now: Now) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now.instant);
        let retains = {
            let mut upkeep = self.upkeep.lock();
            let retains = is_due(upkeep.retention);
            if retains {
                upkeep.retention = now.instant.checked_add(self.settings.retention_check);
            }
            retains
        };
        if retains {
            self.each_log(|replica| replica.lock().retain(now.unix_ms));
        }
    }

    fn each_log(&self, mut act: impl FnMut(&Mutex<Replica>) -> io::Result<()>) {
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
