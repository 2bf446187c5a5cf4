//! ShareFetch, versions 1 and 2 (KIP-932): a long poll of a member of a share group, for records
//! that nobody else has. It may acknowledge earlier records, and begins, continues or ends a share
//! session.
//!
//! Since version 2 the number of records can be a limit (KIP-1206), and locks may be renewed, in a
//! request that wants no records (KIP-1222).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::messages::share_fetch_request::FetchPartition;
use ottla_protocol::messages::share_fetch_response::{
    AcquiredRecords, LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareFetchableTopicResponse,
};
use ottla_protocol::messages::{ShareFetchRequest, ShareFetchResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::shared::{Sharer, endpoints};
use super::{Api, Cx, Outcome, Wait};
use crate::bell::Awaited;
use crate::core::{Core, ShareAsk, ShareFailure};
use crate::now::Now;
use crate::sharing::{Claim, FIRST_EPOCH, LAST_EPOCH, Place, Said};
use crate::storage::replica::{Isolation, Standing, Watcher};

/// Cuts batches where the limit of records is.
const EXACT: i8 = 1;

impl Api for ShareFetchRequest {
    const HANDLED: Versions = Versions { min: 1, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ShareFetchResponse> {
        let sharer = Sharer::new(cx, self.group_id.as_ref(), self.member_id.as_ref());
        let sharer = match sharer {
            Ok(sharer) => sharer,
            Err(code) => return Outcome::Answer(self.refuse(cx.version, code)),
        };
        let begun = check(&self, &sharer).and_then(|()| begin(&self, cx, &sharer));
        let places = match begun {
            Ok(places) => places,
            Err(code) => {
                return Outcome::Answer(ShareFetchResponse {
                    error_code: code.0,
                    ..Default::default()
                });
            }
        };
        let mut told = BTreeMap::new();
        for topic in &self.topics {
            for partition in &topic.partitions {
                let place = (topic.topic_id, partition.partition_index);
                if let Some(data) = acknowledged(cx, &sharer, place, partition, self.is_renew_ack) {
                    told.insert(place, data);
                }
            }
        }
        let ends = self.share_session_epoch == LAST_EPOCH;
        if ends {
            sharer.leave(cx.core, cx.now);
        }
        let wait = Duration::from_millis(u64::try_from(self.max_wait_ms).unwrap_or(0));
        let poll = Poll {
            core: Arc::clone(cx.core),
            listener: cx.client.listener,
            waker: cx.client.waker.clone(),
            wanted: !ends && !self.is_renew_ack,
            places,
            bytes: usize::try_from(self.max_bytes)
                .unwrap_or(0)
                .min(cx.core.settings.fetch_max_bytes),
            most: usize::try_from(self.max_records).unwrap_or(0),
            is_exact: self.share_acquire_mode == EXACT,
            deadline: cx.now.instant + wait,
            told,
            sharer,
        };
        poll.look(cx.now)
    }
}

/// The result of the acknowledgements for a partition, if there are any.
fn acknowledged(
    cx: &Cx<'_>,
    sharer: &Sharer,
    place: Place,
    partition: &FetchPartition,
    renews: bool,
) -> Option<PartitionData> {
    let said = partition.acknowledgement_batches.iter();
    let said = said.map(|batch| Said {
        first: batch.first_offset,
        last: batch.last_offset,
        kinds: batch.acknowledge_types.to_vec(),
    });
    let said: Vec<Said> = said.collect();
    if said.is_empty() {
        return None;
    }
    let mut data = nothing(place);
    let settled = sharer.acknowledge(cx.core, place, &said, renews, cx.now);
    if let Err(((code, standing), message)) = settled {
        data.acknowledge_error_code = code.0;
        data.acknowledge_error_message = message.map(Into::into);
        data.current_leader = leader(standing);
    }
    Some(data)
}

/// What is refused as a whole, whatever the session.
fn check(request: &ShareFetchRequest, sharer: &Sharer) -> Result<(), ErrorCode> {
    let wants = request.max_wait_ms != 0
        || request.min_bytes != 0
        || request.max_bytes != 0
        || request.max_records != 0;
    let mut partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let acknowledges = partitions.any(|it| !it.acknowledgement_batches.is_empty());
    let begins = request.share_session_epoch == FIRST_EPOCH;
    if (begins && acknowledges) || (request.is_renew_ack && (wants || !sharer.rules.renews)) {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    Ok(())
}

/// The partitions of the session that the request is in.
fn begin(
    request: &ShareFetchRequest,
    cx: &Cx<'_>,
    sharer: &Sharer,
) -> Result<Vec<Place>, ErrorCode> {
    let topics = request.topics.iter();
    let added = topics.flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|it| (topic.topic_id, it.partition_index))
    });
    let added: Vec<Place> = added.collect();
    let topics = request.forgotten_topics_data.iter();
    let forgotten =
        topics.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, *it)));
    let forgotten: Vec<Place> = forgotten.collect();
    let epoch = request.share_session_epoch;
    let begun = cx.core.with_shares(cx.now, |shares| {
        let (group, member) = (&sharer.group, &sharer.member);
        shares
            .sessions
            .fetch(group, member, epoch, &added, &forgotten)
    })?;
    if epoch == FIRST_EPOCH {
        cx.client.shares.lock().push(begun.id);
    }
    Ok(begun.places)
}

/// A poll for records.
struct Poll {
    core: Arc<Core>,
    sharer: Sharer,
    listener: usize,
    waker: std::task::Waker,
    wanted: bool,
    places: Vec<Place>,
    bytes: usize,
    most: usize,
    is_exact: bool,
    deadline: Instant,
    /// What the client gets in any case.
    told: BTreeMap<Place, PartitionData>,
}

impl Poll {
    fn look(mut self, now: Now) -> Outcome<ShareFetchResponse> {
        if !self.wanted {
            return self.finish();
        }
        let watcher = Watcher::new(1, self.waker.clone());
        // Before it looks, so that nothing is missed that becomes free meanwhile.
        self.watch_others(&watcher, now);
        let seen = self.acquire(now);
        let has_news = self
            .told
            .values()
            .any(|data| data.error_code != 0 || !data.acquired_records.is_empty());
        if has_news || now.instant >= self.deadline {
            return self.finish();
        }
        self.watch_logs(&watcher, &seen);
        Outcome::Wait(Wait {
            awaited: Arc::<Watcher>::clone(&watcher),
            deadline: Some(self.deadline),
            resume: Box::new(move |now| {
                drop(watcher);
                self.look(now)
            }),
        })
    }

    /// Acquires what there is, up to the limits. Returns the offset up to which it looked in each
    /// partition.
    fn acquire(&mut self, now: Now) -> Vec<(Place, i64)> {
        let mut seen = Vec::new();
        let (mut bytes, mut most) = (self.bytes, self.most);
        for place in self.places.clone() {
            if most == 0 || bytes == 0 {
                break;
            }
            let data = match self.acquire_from(place, bytes, most, now) {
                Ok((data, end)) => {
                    seen.push((place, end));
                    data
                }
                Err((code, standing)) => {
                    let mut data = nothing(place);
                    data.error_code = code.0;
                    data.current_leader = leader(standing);
                    Some(data)
                }
            };
            let Some(data) = data else { continue };
            let counts = data.acquired_records.iter();
            let counts = counts.map(|it| it.last_offset - it.first_offset + 1);
            most = most.saturating_sub(usize::try_from(counts.sum::<i64>()).unwrap_or(most));
            bytes = bytes.saturating_sub(data.records.as_ref().map_or(0, bytes::Bytes::len));
            let told = self.told.remove(&place).unwrap_or_default();
            let data = PartitionData {
                acknowledge_error_code: told.acknowledge_error_code,
                acknowledge_error_message: told.acknowledge_error_message,
                ..data
            };
            self.told.insert(place, data);
        }
        seen
    }

    fn acquire_from(
        &self,
        place: Place,
        bytes: usize,
        most: usize,
        now: Now,
    ) -> Result<(Option<PartitionData>, i64), ShareFailure> {
        let sharer = &self.sharer;
        let topic = sharer.topic(&self.core, place.0);
        let topic = topic.map_err(|code| (code, None))?;
        let claim = Claim {
            member: sharer.member.as_str().into(),
            until: now.instant + sharer.rules.lock,
            most,
            is_exact: self.is_exact,
            most_locks: sharer.rules.most_locks,
        };
        let ask = ShareAsk {
            key: &sharer.key(place),
            topic: &topic,
            rules: &sharer.rules,
            claim: &claim,
            bytes,
        };
        let found = self.core.share(&ask, now)?;
        if found.acquired.is_empty() {
            return Ok((None, found.seen));
        }
        let acquired = found.acquired.iter().map(|it| AcquiredRecords {
            first_offset: it.first,
            last_offset: it.last,
            delivery_count: it.deliveries,
            ..Default::default()
        });
        let data = PartitionData {
            records: Some(found.records),
            acquired_records: acquired.collect(),
            ..nothing(place)
        };
        Ok((Some(data), found.seen))
    }

    /// Registers `watcher` for records that others give back.
    fn watch_others(&self, watcher: &Arc<Watcher>, now: Now) {
        let waiting: Arc<dyn Awaited> = Arc::<Watcher>::clone(watcher);
        self.core.with_shares(now, |shares| {
            for place in &self.places {
                shares.watch(self.sharer.key(*place), &waiting);
            }
        });
    }

    /// Registers `watcher` for records that are appended after [`Poll::acquire`] looked.
    fn watch_logs(&self, watcher: &Arc<Watcher>, seen: &[(Place, i64)]) {
        let isolation = if self.sharer.rules.committed {
            Isolation::Committed
        } else {
            Isolation::Uncommitted
        };
        for (place, seen) in seen {
            let Ok(topic) = self.core.topic_by_id(place.0) else {
                continue;
            };
            if let Ok(replica) = topic.partition(place.1) {
                replica.lock().watch(watcher, 0, isolation, *seen);
            }
        }
    }

    fn finish(self) -> Outcome<ShareFetchResponse> {
        let mut response = ShareFetchResponse {
            acquisition_lock_timeout_ms: self.sharer.lock_ms(),
            ..Default::default()
        };
        let failed = self.told.values().filter(|it| {
            let code = ErrorCode::NOT_LEADER_OR_FOLLOWER.0;
            it.error_code == code || it.acknowledge_error_code == code
        });
        let leaders = failed.map(|it| it.current_leader.leader_id);
        let endpoints = endpoints(&self.core, self.listener, leaders).into_iter();
        let endpoints = endpoints.map(|(node_id, address)| NodeEndpoint {
            node_id,
            host: address.host,
            port: address.port,
            ..Default::default()
        });
        response.node_endpoints = endpoints.collect();
        for ((topic_id, _), data) in self.told {
            match response.responses.last_mut() {
                Some(topic) if topic.topic_id == topic_id => topic.partitions.push(data),
                _ => response.responses.push(ShareFetchableTopicResponse {
                    topic_id,
                    partitions: vec![data],
                    ..Default::default()
                }),
            }
        }
        Outcome::Answer(response)
    }
}

/// The leader, where an error comes with it.
fn leader(standing: Option<Standing>) -> LeaderIdAndEpoch {
    standing.map_or_else(LeaderIdAndEpoch::default, |it| LeaderIdAndEpoch {
        leader_id: it.leader,
        leader_epoch: it.epoch,
        ..Default::default()
    })
}

fn nothing((_, partition_index): Place) -> PartitionData {
    PartitionData {
        partition_index,
        records: Some(bytes::Bytes::new()),
        ..Default::default()
    }
}
