//! Which partitions the next Fetch to a broker requests.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::{ApiKey, Uuid};

use super::Fetcher;
use crate::api::{Request, TOPIC_IDS};
use crate::cluster::{Cluster, Lane, LinkId};
use crate::config::Config;
use crate::dispatch::Outgoing;
use crate::error::Error;
use crate::fetch::answer::heals;
use crate::fetch::lanes::{self, Wait};
use crate::fetch::position::{Leader, Need};
use crate::fetch::replica::Replica;
use crate::fetch::request::{self, BOUNDED, DIVERGING, EPOCHS, SentFetch, Span};

/// The most bytes that are expected around the records of a response.
const ENVELOPE: usize = 64 << 10;

impl Fetcher {
    /// Wakes the links that have something to request, and dials those that are missing.
    pub(super) fn wake_links(&self, now: Instant, cluster: &mut Cluster) {
        for leader in self.assignment.ready_leaders() {
            match self.lanes.free(cluster, leader) {
                Some(_) if self.buffer.is_full() => {}
                Some(link) => cluster.wake(link),
                None => lanes::dial(now, cluster, leader),
            }
        }
    }

    pub(crate) fn next_dispatch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
    ) -> Option<Outgoing> {
        let to @ (node, Lane::Data(_)) = cluster.node_of(link)? else {
            return None;
        };
        self.review(now, cluster, false);
        let connections = self.assignment.leaders().max(1) * lanes::COUNT;
        let allowance = self.buffer.allowance(connections);
        if allowance == 0 || self.lanes.is_busy(link) {
            return None;
        }
        let mut spans = self.spans(now, cluster, node);
        if spans.is_empty() {
            return None;
        }
        let has_ids = spans.iter().all(|span| span.topic_id != Uuid::ZERO);
        let cap = if has_ids { i16::MAX } else { TOPIC_IDS - 1 };
        let version = match cluster.version(link, ApiKey::Fetch, cap) {
            Ok(version) => version,
            Err(error) => {
                self.give_up(now, cluster, &spans, &error);
                return None;
            }
        };
        if version < DIVERGING {
            if version >= EPOCHS {
                self.leave_unchecked(now, cluster, &mut spans);
            }
            spans.iter_mut().for_each(|span| span.last_epoch = -1);
            if spans.is_empty() {
                return None;
            }
        }
        let longest = self.config.fetch_max_wait;
        let wait = match self.lanes.wait(now, cluster, node, longest) {
            Wait::AtMost(wait) => wait,
            Wait::Until(at) if spans.iter().all(Span::is_at_end) => {
                cluster.set_alarm(at);
                return None;
            }
            Wait::Until(_) => lanes::BRIEF,
        };
        if self.share(cluster, node, &mut spans) {
            // The others have the next free link, or one that is still to be dialled.
            cluster.set_alarm(now);
        }
        if version < EPOCHS {
            spans.iter_mut().for_each(|span| span.leader.epoch = -1);
        }
        if version < BOUNDED {
            let most = (allowance / per_partition(&self.config).max(1)).max(1);
            if spans.len() > most {
                spans.truncate(most);
                // The others have the next free link, or one that is still to be dialled.
                cluster.set_alarm(now);
            }
        }
        self.turn += 1;
        for span in &spans {
            self.assignment.request(span.key, self.turn);
        }
        let mut session = self.sessions.remove(&to).unwrap_or_default();
        let request = request::fetch(&self.config, &spans, &mut session, allowance, wait, version);
        let token = cluster.token();
        let waits = !spans.iter().any(Span::is_behind);
        self.lanes.occupy(link, waits.then(|| now + wait));
        let sent = SentFetch {
            link,
            to,
            spans,
            session,
        };
        self.sent.insert(token, sent);
        Some(Outgoing {
            token,
            request: Request::Fetch(request),
            version,
            timeout: self.config.request_timeout + wait,
            answered: true,
            expected_bytes: allowance + ENVELOPE,
        })
    }

    /// Leaves out the partitions whose leader must confirm first that it has what was read, since
    /// this version of Fetch cannot do that.
    fn leave_unchecked(&mut self, now: Instant, cluster: &mut Cluster, spans: &mut Vec<Span>) {
        spans.retain(|span| {
            let entry = self.assignment.entry(span.key);
            let is_due = entry.is_some_and(|it| it.position.is_unchecked(span.leader));
            if let Some(entry) = self.assignment.touch_key(span.key).filter(|_| is_due) {
                entry.position.must_check = true;
                cluster.set_alarm(now);
            }
            !is_due
        });
        self.review(now, cluster, false);
    }

    /// The partitions that may be requested from a broker now. It fills its response in the order
    /// of the request.
    fn spans(&self, now: Instant, cluster: &Cluster, node: i32) -> Vec<Span> {
        let view = cluster.view();
        let keys = self.assignment.ready(node);
        keys.filter_map(|key| {
            let entry = self.assignment.entry(key)?;
            let (topic, partition) = (&entry.topic, entry.partition);
            let (Need::Records(offset), Some((leader, epoch))) =
                (entry.position.need(now), view.leader(topic, partition))
            else {
                return None;
            };
            let source = entry.position.replica.nearer().unwrap_or(leader);
            (source == node).then(|| Span {
                key,
                topic: Arc::clone(topic),
                // Not the id of the metadata: a broker that lags behind may return an earlier one.
                topic_id: self.subscription.id_of(topic),
                partition,
                generation: entry.position.generation,
                offset,
                end: entry.position.bounds.1,
                leader: Leader {
                    node: leader,
                    epoch,
                },
                last_epoch: entry.position.epochs.epoch_before(offset),
                tells_rack: !matches!(entry.position.replica, Replica::Untold(_)),
            })
        })
        .collect()
    }

    /// Leaves half of the partitions to another connection, if the broker is known to have records
    /// of all of them: it then prepares one response while the client receives the other.
    fn share(&self, cluster: &Cluster, node: i32, spans: &mut Vec<Span>) -> bool {
        let is_due = spans.len() > 1 && spans.iter().all(Span::is_behind);
        if is_due && !self.lanes.is_any_busy(cluster, node) {
            spans.truncate(spans.len().div_ceil(lanes::COUNT));
            return true;
        }
        false
    }

    /// The broker does not support a version that is needed.
    fn give_up(&mut self, now: Instant, cluster: &mut Cluster, spans: &[Span], error: &Error) {
        if heals(error) {
            return;
        }
        for span in spans {
            if let Some(entry) = self.assignment.touch_key(span.key) {
                let error = error.clone().with_partition(&span.topic, span.partition);
                entry.position.stuck = Some(error);
            }
        }
        self.review(now, cluster, false);
    }
}

/// The most bytes of one partition in a response.
fn per_partition(config: &Config) -> usize {
    usize::try_from(config.max_partition_fetch_bytes).unwrap_or(1)
}
