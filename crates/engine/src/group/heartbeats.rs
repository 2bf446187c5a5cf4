//! When to send heartbeats to the coordinator.

use std::time::{Duration, Instant};

use crate::call::{CallId, GroupMetadata, Heartbeat};
use crate::part::Core;

/// One heartbeat at a time.
#[derive(Debug)]
pub(super) struct Heartbeats {
    interval: Duration,
    /// The timeout for the response.
    patience: Duration,
    next: Option<Instant>,
    /// The one in flight, and its member. A static member that joins again gets another id in the
    /// same generation (KIP-345).
    running: Option<(CallId, GroupMetadata)>,
}

impl Heartbeats {
    pub(super) fn new(interval: Duration, session: Duration) -> Heartbeats {
        Heartbeats {
            interval,
            patience: session,
            next: None,
            running: None,
        }
    }

    /// The coordinator just received a request of the member.
    pub(super) fn restart(&mut self, now: Instant) {
        self.next = now.checked_add(self.interval);
    }

    /// Sends one if it is due.
    pub(super) fn pump(&mut self, now: Instant, core: &mut Core, member: &GroupMetadata) {
        if self.running.is_some() {
            return;
        }
        let next = *self.next.get_or_insert(now);
        if next > now {
            return core.cluster.set_alarm(next);
        }
        let call = Heartbeat {
            member: member.clone(),
        };
        let deadline = now.checked_add(self.patience).unwrap_or(now);
        let id = core.start_once(now, call, deadline);
        self.running = Some((id, member.clone()));
        self.restart(now);
    }

    /// Whose heartbeat has ended, if it was one.
    pub(super) fn ended(&mut self, id: CallId) -> Option<GroupMetadata> {
        let (_, member) = self.running.take_if(|(running, _)| *running == id)?;
        Some(member)
    }

    /// The last one failed: the next comes after this pause.
    pub(super) fn pause(&mut self, now: Instant, pause: Duration) {
        self.next = now.checked_add(pause.min(self.interval));
    }
}
