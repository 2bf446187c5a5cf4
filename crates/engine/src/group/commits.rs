//! Commits of offsets, one after the other: a retry never overtakes a later commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ErrorCode;
use rustc_hash::FxHashMap;

use crate::call::{Call, CallId, Ended, GroupMetadata, GroupOffset, OffsetCommit, offset_outdated};
use crate::change::Change;
use crate::error::Error;
use crate::group::assignor::TopicPartition;
use crate::observe::Observed;
use crate::part::Core;

/// Names one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitId(u64);

/// The commits of one group.
#[derive(Debug, Default)]
pub(super) struct Commits {
    next: u64,
    /// The pending commit, which is sent when the running one ends.
    waiting: Option<Commit>,
    running: Option<Running>,
    ended: FxHashMap<CommitId, Result<(), Error>>,
    stale: Option<Stale>,
}

/// An epoch that a commit named was stale: pending offsets are sent with the next epoch (KIP-848).
#[derive(Debug)]
struct Stale {
    epoch: i32,
    error: Error,
    /// The deadline of that commit. Offsets that have joined it since end then, too: otherwise a
    /// steady flow of commits would defer it forever.
    until: Instant,
}

#[derive(Debug)]
struct Running {
    id: CallId,
    commit: Commit,
    /// The committing member.
    member: GroupMetadata,
    /// The member has rejoined, or left, since.
    is_over: bool,
}

/// Offsets that are committed by one request.
#[derive(Debug)]
struct Commit {
    offsets: BTreeMap<TopicPartition, GroupOffset>,
    /// Callers who wait for its end.
    awaited: Vec<CommitId>,
    /// Whether a caller that does not wait requested it.
    is_unwatched: bool,
    deadline: Instant,
}

impl Commits {
    /// Commits these offsets by the deadline. `awaited` if a caller takes the result.
    pub(super) fn add(
        &mut self,
        offsets: Vec<GroupOffset>,
        deadline: Instant,
        awaited: bool,
    ) -> CommitId {
        self.next += 1;
        let id = CommitId(self.next);
        let commit = self.waiting.get_or_insert_with(|| Commit {
            offsets: BTreeMap::new(),
            awaited: Vec::new(),
            is_unwatched: false,
            deadline,
        });
        for offset in offsets {
            let partition = (Arc::clone(&offset.topic), offset.partition);
            commit.offsets.insert(partition, offset);
        }
        commit.deadline = commit.deadline.max(deadline);
        if awaited {
            commit.awaited.push(id);
        } else {
            commit.is_unwatched = true;
        }
        id
    }

    /// Sends pending offsets, as this member, unless a commit is in flight.
    pub(super) fn pump(&mut self, now: Instant, core: &mut Core, member: &GroupMetadata) {
        if self.running.is_some() {
            return;
        }
        let Some(commit) = self.waiting.take() else {
            return;
        };
        let stale = self.stale.take();
        if let Some(stale) = stale.filter(|it| it.epoch == member.generation) {
            if stale.until <= now {
                return self.finish(core, commit, &Err(stale.error));
            }
            core.cluster.set_alarm(stale.until);
            self.stale = Some(stale);
            self.waiting = Some(commit);
            return;
        }
        let view = core.cluster.view();
        let offsets = commit.offsets.values().cloned();
        let (outdated, offsets): (Vec<_>, Vec<_>) = offsets.partition(|it| it.is_outdated(view));
        let outdated = outdated.into_iter().next();
        let outdated = outdated.map(|it| (it.topic, it.partition));
        if let Some(partition) = outdated.as_ref().filter(|_| offsets.is_empty()) {
            let error = offset_outdated(OffsetCommit::API.name(), &member.group, partition);
            return self.finish(core, commit, &Err(error));
        }
        let call = OffsetCommit {
            storage: core.cluster.config().offsets_storage,
            member: member.clone(),
            offsets,
            outdated,
        };
        let id = core.start(now, call, commit.deadline);
        self.running = Some(Running {
            id,
            commit,
            member: member.clone(),
            is_over: false,
        });
    }

    /// Fails the pending commit: its partitions are no longer the member's. The running commit is
    /// not repeated either.
    pub(super) fn refuse_waiting(&mut self, core: &mut Core, error: &Error) {
        self.stale = None;
        if let Some(running) = &mut self.running {
            running.is_over = true;
        }
        if let Some(commit) = self.waiting.take() {
            self.finish(core, commit, &Err(error.clone()));
        }
    }

    /// Whether offsets of these partitions wait, or are in flight.
    pub(super) fn concern(&self, partitions: &BTreeSet<TopicPartition>) -> bool {
        let running = self.running.as_ref().map(|it| &it.commit);
        let mut commits = running.into_iter().chain(&self.waiting);
        commits.any(|it| it.offsets.keys().any(|it| partitions.contains(it)))
    }

    /// Fails the pending offsets of these partitions: they are no longer the member's.
    pub(super) fn refuse_waiting_of(
        &mut self,
        core: &mut Core,
        partitions: &BTreeSet<TopicPartition>,
        error: &Error,
    ) {
        if let Some(commit) = self.waiting.take() {
            self.waiting = self.keep(core, commit, |it| !partitions.contains(it), error);
        }
    }

    /// The rest of a commit without the offsets that are not kept. All its waiters get the error,
    /// as they waited for these, too.
    fn keep(
        &mut self,
        core: &mut Core,
        mut commit: Commit,
        keeps: impl Fn(&TopicPartition) -> bool,
        error: &Error,
    ) -> Option<Commit> {
        if commit.offsets.keys().all(&keeps) {
            return Some(commit);
        }
        let mut offsets = std::mem::take(&mut commit.offsets);
        offsets.retain(|partition, _| keeps(partition));
        let deadline = commit.deadline;
        self.finish(core, commit, &Err(error.clone()));
        (!offsets.is_empty()).then_some(Commit {
            offsets,
            awaited: Vec::new(),
            is_unwatched: true,
            deadline,
        })
    }

    /// Handles the end of a call; returns the member and the error of a failed commit. A commit
    /// whose epoch was stale waits for the next epoch, with the offsets of partitions that are
    /// still the member's: the new owners of the others may have committed them since.
    pub(super) fn handle_ended(
        &mut self,
        core: &mut Core,
        ended: Ended,
        is_ours: impl Fn(&TopicPartition) -> bool,
    ) -> Option<(GroupMetadata, Error)> {
        let id = ended.id;
        let running = self.running.take_if(|it| it.id == id)?;
        let Running { commit, member, .. } = running;
        let result = ended.answer::<OffsetCommit>()?;
        let stale = result.as_ref().err().filter(|error| is_stale(error));
        if let Some(error) = stale.filter(|_| !running.is_over) {
            let until = commit.deadline;
            if let Some(commit) = self.keep(core, commit, is_ours, error) {
                self.put_back(commit);
            }
            self.stale = self.waiting.is_some().then(|| Stale {
                epoch: member.generation,
                error: error.clone(),
                until,
            });
            return Some((member, error.clone()));
        }
        self.finish(core, commit, &result);
        result.err().map(|error| (member, error))
    }

    /// It is sent again with what came later, which stands.
    fn put_back(&mut self, mut commit: Commit) {
        if let Some(later) = self.waiting.take() {
            commit.offsets.extend(later.offsets);
            commit.awaited.extend(later.awaited);
            commit.is_unwatched |= later.is_unwatched;
            commit.deadline = commit.deadline.max(later.deadline);
        }
        self.waiting = Some(commit);
    }

    fn finish(&mut self, core: &mut Core, commit: Commit, result: &Result<(), Error>) {
        let context = &mut core.cluster.context;
        if let Err(cause) = result
            && commit.is_unwatched
        {
            context.observer.tell(Observed::CommitFailed {
                cause: cause.clone(),
            });
        }
        for id in commit.awaited {
            self.ended.insert(id, result.clone());
        }
        context.changes.tell(Change::Group);
    }

    /// Whether no commit waits or is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.running.is_none()
    }

    /// Whether this is the commit in flight.
    pub(super) fn is_running(&self, id: CallId) -> bool {
        self.running.as_ref().is_some_and(|it| it.id == id)
    }

    /// How a commit ended, once.
    pub(super) fn take(&mut self, id: CommitId) -> Option<Result<(), Error>> {
        self.ended.remove(&id)
    }

    /// The caller no longer waits for a commit. The commit continues.
    pub(super) fn give_up(&mut self, id: CommitId) {
        self.ended.remove(&id);
        let running = self.running.as_mut().map(|it| &mut it.commit);
        for commit in running.into_iter().chain(self.waiting.as_mut()) {
            if commit.awaited.contains(&id) {
                commit.awaited.retain(|awaited| *awaited != id);
                commit.is_unwatched = true;
            }
        }
    }

    /// The client closes.
    pub(super) fn abort(&mut self, core: &mut Core, cause: &Error) {
        let running = self.running.take().map(|it| it.commit);
        for commit in running.into_iter().chain(self.waiting.take()) {
            self.finish(core, commit, &Err(cause.clone()));
        }
    }
}

/// The member's epoch was increased while the commit was in flight.
fn is_stale(error: &Error) -> bool {
    error.code() == Some(ErrorCode::STALE_MEMBER_EPOCH)
}
