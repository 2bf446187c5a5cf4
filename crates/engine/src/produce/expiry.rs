//! Which batches are abandoned: those older than `delivery.timeout.ms`, those whose leader does not
//! accept the client, and all at the end of the client.

use std::collections::VecDeque;
use std::time::Instant;

use crate::cluster::{Cluster, Lane};
use crate::error::{Error, Kind};
use crate::produce::accumulator::Accumulator;

impl<T: Clone> Accumulator<T> {
    /// Fails batches that are older than `delivery.timeout.ms`, and sets the alarm for the time
    /// when the next one is.
    pub(super) fn expire(&mut self, now: Instant, cluster: &mut Cluster, index: usize) {
        let timeout = self.config.delivery_timeout;
        let Some(queue) = self.queues.get(index) else {
            return;
        };
        let Some(oldest) = queue.oldest_undecided() else {
            return;
        };
        if oldest + timeout > now {
            cluster.set_alarm(oldest + timeout);
            return;
        }
        let cause = self.why_waiting(cluster, queue);
        let error = self.late(cause);
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let is_late = |created: Instant| created + timeout <= now;
        let open = queue.open.as_ref();
        if open.is_some_and(|open| is_late(open.created)) {
            queue.close_open();
        }
        while queue
            .ready
            .front()
            .is_some_and(|batch| is_late(batch.created))
        {
            let Some(batch) = queue.ready.pop_front() else {
                break;
            };
            let error = queue.name(error.clone());
            self.outcomes.failed(&mut cluster.context, &batch, error);
        }
        for batch in &mut queue.sent {
            if !batch.decided && is_late(batch.created) {
                let error = Error::clone(&error).with_partition(&queue.topic, queue.partition);
                self.outcomes.abandoned(&mut cluster.context, batch, error);
            }
        }
        if let Some(oldest) = queue.oldest_undecided() {
            cluster.set_alarm(oldest + timeout);
        }
    }

    /// Fails batches that wait for a leader that does not accept the client, and has said so since they were begun: no waiting
    /// mends that. Those that a request still carries come back when its connection ends.
    pub(super) fn fail_refused(&mut self, cluster: &mut Cluster, index: usize, leader: i32) {
        let Some((cause, at)) = cluster.believed_refusal_of(leader, Lane::Control) else {
            return;
        };
        let text = "the partition's leader and this client do not accept each other";
        let error = cause.clone().wrap(cause.kind(), text).with_retriable(false);
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if queue.open.as_ref().is_some_and(|open| open.created <= at) {
            queue.close_open();
        }
        let (refused, kept) = std::mem::take(&mut queue.ready)
            .into_iter()
            .partition::<VecDeque<_>, _>(|batch| batch.created <= at);
        queue.ready = kept;
        for batch in refused {
            let error = queue.name(error.clone());
            self.outcomes.failed(&mut cluster.context, &batch, error);
        }
    }

    fn late(&self, cause: Option<Error>) -> Error {
        let text = format!(
            "not delivered within delivery.timeout.ms ({} ms)",
            self.config.delivery_timeout.as_millis()
        );
        match cause {
            Some(cause) if cause.kind() == Kind::Broker => cause.wrap(Kind::Broker, text),
            Some(cause) => cause.wrap(Kind::Timeout, text),
            None => Error::new(Kind::Timeout, text),
        }
    }

    /// The client closes: every batch fails with `cause`.
    pub(crate) fn abort(&mut self, cluster: &mut Cluster, cause: &Error) {
        for index in 0..self.queues.len() {
            self.fail_unsent(cluster, index, cause);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            for batch in queue.sent.iter_mut().filter(|batch| !batch.decided) {
                let error = cause.clone().with_partition(&queue.topic, queue.partition);
                self.outcomes.abandoned(&mut cluster.context, batch, error);
            }
        }
    }
}
