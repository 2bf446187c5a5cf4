//! When metadata is requested again, while assigned partitions have no leader.
//!
//! The pause grows with every round up to `retry.backoff.max.ms`, with jitter (KIP-580). A
//! partition that loses its leader meanwhile starts the rounds again: most elections take less than
//! a second, and one that never ends must not delay another.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;

/// The rounds of metadata requests for leaders.
#[derive(Debug, Default)]
pub(super) struct Leaders {
    /// How many partitions had lost theirs at the last look.
    lost: u64,
    rounds: u32,
    pause: Duration,
    at: Option<Instant>,
}

impl Leaders {
    /// Requests metadata if a round is due. `lost` is how many partitions have lost their leader so
    /// far; some still have none.
    pub(super) fn seek(&mut self, now: Instant, cluster: &mut Cluster, lost: u64) {
        if cluster.view().nodes().next().is_none() {
            return;
        }
        if lost != self.lost {
            *self = Leaders {
                lost,
                ..Leaders::default()
            };
        }
        if self.at.is_none_or(|at| at <= now) {
            // A topic with incomplete metadata is requested by itself, which counts as a round.
            let recent = now.checked_sub(self.pause / 2).unwrap_or(now);
            if self.rounds == 0 || !cluster.is_fresh(recent) {
                cluster.refresh(now);
            }
            self.rounds = self.rounds.saturating_add(1);
            self.pause = cluster.retry_pause(self.rounds);
            self.at = Some(now + self.pause);
        }
        if let Some(at) = self.at {
            cluster.set_alarm(at);
        }
    }
}
