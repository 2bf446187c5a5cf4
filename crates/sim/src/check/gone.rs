//! Records that may be missing in a log: deleted ones, and in compacted topics those that newer
//! records of their key replaced.

use std::collections::BTreeMap;

use crate::history::{Fate, History, Place, RecordId};
use crate::plan::aging::is_compacted;

/// The facts about compacted logs, and where others were cut.
pub(super) struct Gone<'a> {
    history: &'a History,
    /// The last offset of each key.
    newest: BTreeMap<(&'a Place, usize), i64>,
    /// The records that were acknowledged for good, by topic, partition and offset.
    acknowledged: BTreeMap<(&'a str, i32, i64), RecordId>,
}

impl<'a> Gone<'a> {
    pub(super) fn new(history: &'a History) -> Gone<'a> {
        let mut gone = Gone {
            history,
            newest: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
        };
        for (place, records) in history
            .log
            .iter()
            .filter(|(place, _)| is_compacted(&place.0))
        {
            for (offset, value) in records {
                if let Some(key) = history.keys.get(&value.id) {
                    let newest = gone.newest.entry((place, *key)).or_insert(*offset);
                    *newest = (*newest).max(*offset);
                }
            }
        }
        for (id, sent) in history.sends.iter().enumerate() {
            if let (Some((partition, _)), [(_, Fate::Written(Some(offset)))]) =
                (sent.placed, &sent.fates[..])
                && is_compacted(&sent.topic)
                && history.keeps(sent.producer)
            {
                let place = (&*sent.topic, partition, *offset);
                gone.acknowledged.insert(place, id);
            }
        }
        gone
    }

    /// Before which offset records of a partition were deleted, at most.
    pub(super) fn trimmed(&self, place: &Place) -> i64 {
        self.history.trimmed.get(place).copied().unwrap_or(0)
    }

    /// Whether a record that was at this offset may be gone.
    pub(super) fn is_gone(&self, place: &Place, offset: i64, id: RecordId) -> bool {
        offset < self.trimmed(place) || self.is_replaced(place, offset, id)
    }

    fn is_replaced(&self, place: &Place, offset: i64, id: RecordId) -> bool {
        let key = self.history.keys.get(&id);
        let newest = key.and_then(|key| self.newest.get(&(place, *key)));
        newest.is_some_and(|newest| *newest > offset)
    }

    /// Whether a reader may find nothing at an offset, where others have read this record. Nodes compact each for itself: the
    /// next leader may still have what this one has not, and have it in the end.
    pub(super) fn may_lack(&self, place: &Place, offset: i64, read: Option<RecordId>) -> bool {
        if !is_compacted(&place.0) {
            return false;
        }
        let told = || {
            self.acknowledged
                .get(&(&*place.0, place.1, offset))
                .copied()
        };
        // Nobody knows the key of a record that was not reported as written. What replaced a record
        // may be lost in an unclean election.
        let known = read.or_else(told);
        known.is_none_or(|id| self.is_replaced(place, offset, id) || self.history.may_be_cut(id))
    }
}
