//! Logs that were truncated: a replica that lacked records was elected, and records that had been
//! read are gone (KIP-320).
//!
//! A leader receives the epoch of the record before the position: in each Fetch if it supports
//! [`super::request::DIVERGING`], else in an OffsetForLeaderEpoch after each change of leader
//! (`checks`). It returns where that epoch ends in its own log.
//!
//! ```text
//!  the leader returns that the epoch ends ─┬── at the position or later, as epoch e ─────▶ the same log
//!                                        ├── before the position ───────────────────────▶ truncated there
//!                                        ├── as an earlier epoch, and records of e were read ──▶ truncated where those began
//!                                        ├── as an earlier epoch, and none were read ───▶ e has no records: the earlier epoch counts
//!                                        └── nowhere: it knows no such epoch ───────────▶ truncated, at an unknown offset
//! ```
//!
//! Java looks at the offset alone, and so reads on where a log was truncated and has grown past the position since: in the case of
//! the third line, records that stand before the position now were never given to anybody. It holds for what this consumer read
//! itself: an epoch that a group committed, or that a caller sought with, may be one without records, so that a log that has grown
//! past such a position is read on, as Java does it.

use std::sync::Arc;
use std::time::Instant;

use crate::call::EpochEnd;
use crate::change::Change;
use crate::cluster::Cluster;
use crate::config::OffsetReset;
use crate::error::{Error, Kind, Truncation};
use crate::fetch::epochs::Epochs;
use crate::fetch::position::{Generation, Position, Start};
use crate::observe::Observed;

/// The meaning of an epoch's end for a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The leader has what was read.
    Same,
    /// Nothing was ever written in the epoch: what stands before the position is of this one.
    Unwritten(i32),
    /// Records that were read are not in the leader's log, from this offset on if it is known.
    Truncated(Option<i64>),
}

/// What follows for a position at `offset` from the end offset that the leader returned for the
/// epoch before it.
pub(super) fn judge(epochs: &Epochs, offset: i64, end: EpochEnd) -> Finding {
    let Some(run) = epochs.before(offset) else {
        return Finding::Same;
    };
    if end.epoch < 0 || end.offset < 0 {
        return Finding::Truncated(None);
    }
    if let Some(from) = epochs.read_above(end.epoch, offset) {
        return Finding::Truncated(Some(end.offset.min(from)));
    }
    if end.offset < offset {
        return Finding::Truncated(Some(end.offset));
    }
    match end.epoch < run.epoch {
        true => Finding::Unwritten(end.epoch),
        false => Finding::Same,
    }
}

/// A partition whose log was truncated, as reported by its leader of an epoch.
#[derive(Debug)]
pub(super) struct Truncated<'a> {
    pub(super) topic: &'a Arc<str>,
    pub(super) partition: i32,
    /// Where the logs part, if it is known, and the epoch of what stands before that.
    pub(super) parting: Option<(i64, i32)>,
    /// The leader's own epoch, -1 if it is not known.
    pub(super) leader_epoch: i32,
}

impl<'a> Truncated<'a> {
    /// The logs diverge at `offset`. The leader returned where the epoch before the position ends:
    /// from there on its epochs count.
    pub(super) fn at(
        (topic, partition): (&'a Arc<str>, i32),
        epochs: &Epochs,
        (offset, end): (Option<i64>, EpochEnd),
        leader_epoch: i32,
    ) -> Truncated<'a> {
        let epoch = |offset| match offset == end.offset {
            true => end.epoch,
            false => epochs.epoch_before(offset),
        };
        Truncated {
            topic,
            partition,
            parting: offset.map(|offset| (offset, epoch(offset))),
            leader_epoch,
        }
    }

    /// Follows `auto.offset.reset`, after the caller has received everything that was fetched: goes
    /// back to where the logs diverge, or, if that is unknown, to the offset that the policy
    /// selects. Under `none` it is an error until a seek.
    pub(super) fn leave(
        self,
        now: Instant,
        cluster: &mut Cluster,
        policy: OffsetReset,
        position: &mut Position,
        generation: Generation,
    ) {
        let offset = position.fetch_at.unwrap_or(-1);
        let epoch = position.epochs.epoch_before(offset);
        if policy == OffsetReset::None {
            position.stuck = Some(self.error(offset, epoch));
            return;
        }
        cluster.context.observer.tell(Observed::LogTruncated {
            topic: Arc::clone(self.topic),
            partition: self.partition,
            position: (offset, epoch),
            parting: self.parting,
        });
        match self.parting {
            Some(at) => position.go_back(generation, at, self.leader_epoch),
            None => position.reset(generation, Start::Reset, "the log was truncated"),
        }
        cluster.context.changes.tell(Change::Position);
        // A broker may return ever new ends: the pause prevents a busy loop.
        position.retry_at = Some(now + cluster.retry_pause(1));
    }

    fn error(&self, offset: i64, epoch: i32) -> Error {
        let text = match self.parting {
            Some((parting, before)) => format!(
                "the log was truncated: everything up to offset {offset} was read (leader epoch {epoch}), and the leader's log differs \
                 from offset {parting} on (leader epoch {before} before it). What was there is lost, as after an unclean election, \
                 and auto.offset.reset=none: seek to {parting} to read what is there now, or to {offset} to continue after it"
            ),
            None => format!(
                "the log was truncated: everything up to offset {offset} was read (leader epoch {epoch}), and the leader's log knows no \
                 such epoch. Where the logs diverge is not known, and auto.offset.reset=none: seek to the beginning to read what is \
                 there now, or to {offset} to continue after it"
            ),
        };
        let truncation = Truncation {
            offset,
            leader_epoch: epoch,
            divergent: self.parting,
        };
        Error::new(Kind::Truncated, text)
            .with_partition(self.topic, self.partition)
            .with_truncation(truncation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records 10 to 19 of epoch 3, and records of epoch 5 behind them.
    fn read() -> Epochs {
        let mut epochs = Epochs::default();
        epochs.read(10, 3, 10);
        epochs.read(20, 5, 10);
        epochs
    }

    fn judged(epochs: &Epochs, offset: i64, epoch: i32, end: i64) -> Finding {
        judge(epochs, offset, EpochEnd { epoch, offset: end })
    }

    #[test]
    fn what_was_read_is_compared_with_what_the_leader_has() {
        let epochs = read();
        for (offset, epoch, end, finding) in [
            (30, 5, 30, Finding::Same),
            (30, 5, 99, Finding::Same),
            (30, 5, 29, Finding::Truncated(Some(29))),
            (30, 5, 0, Finding::Truncated(Some(0))),
            (30, 4, 15, Finding::Truncated(Some(15))),
            // The log of epoch 3 goes on where epoch 5 stood.
            (30, 3, 25, Finding::Truncated(Some(20))),
            (30, 3, 99, Finding::Truncated(Some(20))),
            // Neither was written by this log: both are gone.
            (30, 2, 27, Finding::Truncated(Some(10))),
            (30, -1, -1, Finding::Truncated(None)),
            (30, 5, -1, Finding::Truncated(None)),
            (20, 3, 20, Finding::Same),
            (20, 2, 99, Finding::Truncated(Some(10))),
            // Nothing is known of what stands before it.
            (10, 0, 0, Finding::Same),
        ] {
            assert_eq!(
                judged(&epochs, offset, epoch, end),
                finding,
                "{offset}: {epoch} ends at {end}"
            );
        }
    }

    #[test]
    fn an_epoch_that_was_only_said_may_have_no_records() {
        let epochs = Epochs::said(30, 5);
        assert_eq!(judged(&epochs, 30, 5, 30), Finding::Same);
        assert_eq!(judged(&epochs, 30, 3, 30), Finding::Unwritten(3));
        assert_eq!(judged(&epochs, 30, 3, 29), Finding::Truncated(Some(29)));
        assert_eq!(judged(&epochs, 30, -1, -1), Finding::Truncated(None));
    }
}
