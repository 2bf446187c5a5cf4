//! Responses to Fetch, lookups and checks, and requests that get no response.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::FetchResponse;

use super::Fetcher;
use crate::api::Response;
use crate::call::{Ended, EpochEnd};
use crate::change::Change;
use crate::cluster::{Cluster, LinkId, Orphan};
use crate::error::{Error, Kind};
use crate::fetch::answer::{self, Refused, Verdict, heals};
use crate::fetch::assignment::Key;
use crate::fetch::epochs::Epochs;
use crate::fetch::lookup::{Found, Searched};
use crate::fetch::position::{Generation, Leader};
use crate::fetch::replica::Replica;
use crate::fetch::request::{SentFetch, Span};
use crate::fetch::reset::leave_log;
use crate::fetch::retries::Retries;
use crate::fetch::truncation::{self, Truncated, judge};
use crate::observe::Observed;

impl Fetcher {
    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        token: u64,
        response: Response,
    ) {
        let Some(sent) = self.sent.remove(&token) else {
            return;
        };
        self.lanes.release(link);
        if let Response::Fetch(answer) = response {
            self.handle_fetch(now, cluster, sent, answer);
        }
    }

    fn handle_fetch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        mut sent: SentFetch,
        answer: FetchResponse,
    ) {
        let brokers = answer.node_endpoints.iter();
        cluster.meet(
            now,
            brokers.map(|node| (node.node_id, node.host.as_str(), node.port)),
        );
        let mut retries = Retries::default();
        let mut sizes: Vec<(Arc<str>, usize)> = Vec::new();
        let read_committed = self.config.read_committed;
        let session = &mut sent.session;
        for (span, bounds, verdict) in answer::read(sent.spans, answer, read_committed, session) {
            let latest_id = self.subscription.id_of(&span.topic);
            let Some(position) = self.assignment.touch_current(span.key, span.generation) else {
                continue;
            };
            position.in_flight = false;
            if matches!(
                verdict,
                Verdict::Nothing | Verdict::Nearer(_) | Verdict::Records(..) | Verdict::Stuck(_)
            ) {
                position.answered();
                position.evidence.confirm(span.leader.epoch);
                position.passed(span.leader);
                position.topic_id = span.topic_id;
                // The topic may have been recreated since the request.
                position.note_topic(latest_id);
                position.bounds = (bounds.begin, bounds.end);
            }
            match verdict {
                Verdict::Nothing | Verdict::Unsaid => {}
                Verdict::Nearer(node) => {
                    let until = now + self.config.metadata_max_age;
                    let is_known = cluster.view().node(node).is_some();
                    // Only a leader may send the client elsewhere, so that two brokers cannot send it to and fro.
                    let was_leader = position.replica.nearer().is_none();
                    position.replica = if is_known && was_leader && span.tells_rack {
                        cluster.context.observer.tell(Observed::ReplicaChosen {
                            topic: span.topic,
                            partition: span.partition,
                            node,
                        });
                        Replica::Nearer(node, until)
                    } else {
                        Replica::Untold(until)
                    };
                }
                Verdict::Records(fetched, epochs) => {
                    let next = position.next.unwrap_or(span.offset);
                    for (from, epoch) in epochs {
                        position.epochs.read(from, epoch, next);
                    }
                    position.fetch_at = Some(fetched.next_offset);
                    let bytes = fetched.records.len();
                    match sizes.last_mut() {
                        Some((topic, all)) if *topic == fetched.topic => *all += bytes,
                        _ => sizes.push((Arc::clone(&fetched.topic), bytes)),
                    }
                    self.buffer.push(span.generation, fetched);
                    cluster.context.changes.tell(Change::Records);
                }
                Verdict::Stuck(error) => position.stuck = Some(error),
                Verdict::Diverging(end) => {
                    // A broker that returns this for an unchanged log does not get the request
                    // again at once.
                    position.retry_at = Some(now + cluster.retry_pause(1));
                    let told = (span.key, span.generation, span.leader);
                    self.compare(now, cluster, told, end, &mut retries);
                }
                Verdict::Failed(refused) => {
                    let refused = refused.by(cluster.address_of(sent.link));
                    self.handle_refused(now, cluster, &span, refused, &mut retries);
                }
            }
        }
        self.sessions.insert(sent.to, sent.session);
        cluster.context.meters.fetched(now, &sizes);
    }

    fn handle_refused(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        span: &Span,
        refused: Refused,
        retries: &mut Retries,
    ) {
        let Refused {
            code,
            error,
            leader,
        } = refused;
        if let Some((leader, epoch)) = leader {
            self.hint(cluster, span, leader, epoch);
        }
        let generation = self.assignment.fresh_generation();
        let Some(position) = self.assignment.touch_current(span.key, span.generation) else {
            return;
        };
        if position.replica.nearer().is_some() {
            // It may lag behind, or no longer be a replica: the leader's data is reliable.
            position.replica = Replica::Told;
            return retries.fail(now, cluster, position, error);
        }
        let out_of_range = code == ErrorCode::OFFSET_OUT_OF_RANGE;
        if out_of_range && position.is_lost(now, span.leader.epoch) {
            let policy = self.config.auto_offset_reset;
            leave_log(now, cluster, policy, position, generation, error);
        } else if out_of_range {
            // A broker that names a stale leader does not know the present one either.
            cluster.doubt_view();
            retries.fail(now, cluster, position, error);
        } else if heals(&error) {
            retries.fail(now, cluster, position, error);
        } else {
            retries.deny(now, cluster, (&span.topic, span.partition), position, error);
        }
    }

    /// Handles the end offset, in the leader's log, of the epoch of the last record read.
    fn compare(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (key, asked, leader): (Key, Generation, Leader),
        end: EpochEnd,
        retries: &mut Retries,
    ) {
        let generation = self.assignment.fresh_generation();
        if self.assignment.touch_current(key, asked).is_none() {
            return;
        }
        let Some(entry) = self.assignment.entry_mut(key) else {
            return;
        };
        let (topic, partition) = (&entry.topic, entry.partition);
        let position = &mut entry.position;
        let offset = position.fetch_at.unwrap_or(0);
        let parting = match judge(&position.epochs, offset, end) {
            truncation::Finding::Same => return position.passed(leader),
            truncation::Finding::Unwritten(epoch) => {
                position.epochs = Epochs::said(offset, epoch);
                return position.passed(leader);
            }
            truncation::Finding::Truncated(parting) => parting,
        };
        let is_leader = position.replica.nearer().is_none();
        if is_leader && position.is_lost(now, leader.epoch) {
            let named = (topic, partition);
            let truncated = Truncated::at(named, &position.epochs, (parting, end), leader.epoch);
            let policy = self.config.auto_offset_reset;
            return truncated.leave(now, cluster, policy, position, generation);
        }
        // A replica that lags behind, or a stale leader, has fewer records than the leader; or the
        // caller has not received everything yet.
        position.replica = Replica::Told;
        cluster.doubt_view();
        let text = format!("its log is another one than was read before offset {offset}");
        let error = Error::from_code(ErrorCode::OFFSET_OUT_OF_RANGE, Some(&text));
        retries.fail(
            now,
            cluster,
            position,
            error.with_partition(topic, partition),
        );
    }

    fn handle_checked(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        let mut retries = Retries::default();
        for (checked, found) in self.checks.finish(ended) {
            let (key, generation) = (checked.key, checked.generation);
            let Some(position) = self.assignment.touch_current(key, generation) else {
                continue;
            };
            position.looking_up = false;
            match found {
                Ok(end) => {
                    let told = (key, generation, checked.leader);
                    self.compare(now, cluster, told, end, &mut retries);
                }
                Err(error) if heals(&error) => retries.fail(now, cluster, position, error),
                // The broker does not support epochs, or not for this client: a Fetch reports other
                // errors.
                Err(_) => position.passed(checked.leader),
            }
        }
        self.review(now, cluster, false);
        self.wake_links(now, cluster);
    }

    /// Handles a leader that a broker returned. Only this partition is reviewed again.
    fn hint(&mut self, cluster: &mut Cluster, span: &Span, leader: i32, epoch: i32) {
        let is_seen = cluster.view_version() == self.seen_view;
        let topic = (&*span.topic, span.topic_id);
        cluster.hint(topic, span.partition, (leader, epoch));
        if is_seen {
            self.seen_view = cluster.view_version();
        }
    }

    pub(crate) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: &Orphan) {
        let Some(mut sent) = self.sent.remove(&orphan.token) else {
            return;
        };
        sent.session.lose();
        self.sessions.insert(sent.to, sent.session);
        self.lanes.release(sent.link);
        let mut retries = Retries::default();
        for span in &sent.spans {
            let current = self.assignment.touch_current(span.key, span.generation);
            let Some(position) = current else { continue };
            position.in_flight = false;
            let error = orphan.error.clone();
            let refused = Refused {
                code: ErrorCode::NONE,
                error: error.with_partition(&span.topic, span.partition),
                leader: None,
            };
            self.handle_refused(now, cluster, span, refused, &mut retries);
        }
        self.review(now, cluster, false);
    }

    pub(crate) fn handle_ended(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        if self.checks.is_one(&ended) {
            return self.handle_checked(now, cluster, ended);
        }
        let ended = self.lookups.finish(ended);
        if ended.is_empty() {
            // The client closes: it opens no connection any more.
            return;
        }
        let mut retries = Retries::default();
        for (searched, found) in ended {
            let Searched {
                key,
                topic,
                partition,
                generation,
                topic_id,
                ..
            } = searched;
            let latest_id = self.subscription.id_of(&topic);
            let fresh = self.assignment.fresh_generation();
            let Some(position) = self.assignment.touch_current(key, generation) else {
                continue;
            };
            position.looking_up = false;
            match found {
                Ok(Found::Offset((beginning, _))) if position.evidence.asks() => {
                    if position.begins_behind(beginning) {
                        let text = format!("the log begins at {beginning}");
                        let code = ErrorCode::OFFSET_OUT_OF_RANGE;
                        let error = Error::from_code(code, Some(&text));
                        let error = error.with_partition(&topic, partition);
                        let policy = self.config.auto_offset_reset;
                        leave_log(now, cluster, policy, position, fresh, error);
                    }
                }
                Ok(Found::Elsewhere(start)) => position.start = start,
                Ok(Found::Offset(at)) => {
                    position.found(at, topic_id);
                    position.note_topic(latest_id);
                    if position.is_outdated {
                        // The review looks up the beginning of the new topic.
                        continue;
                    }
                    cluster.context.changes.tell(Change::Position);
                    if let Some(reset) = position.reset.take() {
                        cluster.context.observer.tell(Observed::OffsetReset {
                            topic,
                            partition,
                            from: reset.from,
                            to: at.0,
                            reason: reset.reason,
                        });
                    }
                }
                // A topic that the call reports as absent for good may be created again: the view decides.
                Err(error) if heals(&error) || error.kind() == Kind::Argument => {
                    let error = error.with_partition(&topic, partition);
                    retries.fail(now, cluster, position, error);
                }
                Err(error) => retries.deny(now, cluster, (&topic, partition), position, error),
            }
        }
        // Partitions whose offset was found can be fetched at once.
        self.review(now, cluster, false);
        self.wake_links(now, cluster);
    }
}
