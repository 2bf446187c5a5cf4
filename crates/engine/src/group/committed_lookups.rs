//! Where partitions begin: at the offset that the group committed, if it did.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::{ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use crate::call::{CallId, Ended, OffsetFetch};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::part::Core;

/// A partition whose committed offset is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Sought {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    /// Which of the partition's assignments and seeks is to begin there.
    pub(crate) mark: u64,
    /// The id of the topic whose offset is wanted; zero if it is not known.
    pub(crate) topic_id: Uuid,
}

/// The result: the offset and its leader epoch, if one was committed.
pub(crate) type Found = (Sought, Result<Option<(i64, i32)>, Error>);

/// The lookups of one group.
#[derive(Debug, Default)]
pub(super) struct CommittedLookups {
    wanted: Vec<Sought>,
    running: FxHashMap<CallId, Vec<Sought>>,
    found: Vec<Found>,
    /// The member's epoch was over: they are repeated after a pause, by when the next one is known.
    again_at: Option<Instant>,
}

impl CommittedLookups {
    pub(super) fn want(&mut self, sought: Vec<Sought>) {
        self.wanted.extend(sought);
    }

    /// Requests the committed offsets that are wanted; as this member, if brokers know it by its
    /// epoch.
    pub(super) fn pump(
        &mut self,
        now: Instant,
        core: &mut Core,
        group: &Arc<str>,
        member: Option<(Arc<str>, i32)>,
    ) {
        if self.wanted.is_empty() {
            return;
        }
        if let Some(at) = self.again_at.filter(|at| *at > now) {
            return core.cluster.set_alarm(at);
        }
        let sought = std::mem::take(&mut self.wanted);
        let partitions = sought.iter();
        let call = OffsetFetch {
            storage: core.cluster.config().offsets_storage,
            group: Arc::clone(group),
            partitions: partitions
                .map(|it| (Arc::clone(&it.topic), it.partition))
                .collect(),
            topic_ids: sought
                .iter()
                .map(|it| (Arc::clone(&it.topic), it.topic_id))
                .collect(),
            require_stable: core.cluster.config().read_committed,
            member,
        };
        let deadline = now + core.cluster.config().default_api_timeout;
        let id = core.start(now, call, deadline);
        self.running.insert(id, sought);
    }

    /// Handles the end of a call, if it was one of these.
    pub(super) fn handle_ended(&mut self, now: Instant, cluster: &mut Cluster, ended: Ended) {
        let Some(sought) = self.running.remove(&ended.id) else {
            return;
        };
        match ended.answer::<OffsetFetch>() {
            Some(Ok(found)) => {
                let found = found.into_iter().map(|found| {
                    let offset = found?.map(|committed| (committed.offset, committed.leader_epoch));
                    Ok(offset)
                });
                self.found.extend(sought.into_iter().zip(found));
            }
            // The call has retried until its deadline; another one continues.
            Some(Err(error)) if error.is_retriable() => self.wanted.extend(sought),
            Some(Err(error)) if is_of_another_epoch(&error) => {
                self.again_at = Some(now + cluster.retry_pause(1));
                self.wanted.extend(sought);
            }
            Some(Err(error)) => {
                let failed = sought.into_iter().map(|it| {
                    let error = error.clone().with_partition(&it.topic, it.partition);
                    (it, Err(error))
                });
                self.found.extend(failed);
            }
            None => {}
        }
    }

    pub(super) fn is_running(&self, id: CallId) -> bool {
        self.running.contains_key(&id)
    }

    /// The results since the last call.
    pub(super) fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    pub(super) fn clear(&mut self) {
        *self = CommittedLookups::default();
    }
}

/// The coordinator knows the member by another epoch, or not any more: the next heartbeat shows
/// which.
fn is_of_another_epoch(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::STALE_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID)
    )
}
