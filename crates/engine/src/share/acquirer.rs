//! When records are acquired, which are held, and which acknowledgements brokers receive.

mod asking;
mod saying;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::messages::{ShareAcknowledgeResponse, ShareFetchResponse};
use ottla_protocol::{ApiKey, ErrorCode};

use crate::api::Response;
use crate::change::Change;
use crate::cluster::{Cluster, Lane, Orphan};
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::share::acknowledgement::{
    AcknowledgeType, Acknowledged, ByPartition, Key, LockId, Pending, Verdict,
};
use crate::share::answer::{self, Acquired, AcquiredRange};
use crate::share::commits::{CommitId, Commits, Committed};
use crate::share::errors::{came_anew, explained, lost, not_held, unknown};
use crate::share::lock::{Held, Lock, State};
use crate::share::runs::{Run, Runs, cover};
use crate::share::session::{Purpose, Sent, Session};

/// One connection to each broker carries all requests of its session: the session ends with it.
const LANE: Lane = Lane::Data(0);
/// The first versions of ShareFetch that limit records exactly (KIP-1206), and of ShareAcknowledge that renew locks (KIP-1222).
const RECORD_LIMIT: i16 = 2;
const RENEWALS: i16 = 2;
/// The bytes of a response besides records.
const ENVELOPE: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Acquirer {
    config: Arc<Config>,
    group: Arc<str>,
    member: Option<Arc<str>>,
    assigned: BTreeMap<Key, Arc<str>>,
    /// Partitions that were reassigned while responses may still contain their records.
    former: BTreeMap<Key, Arc<str>>,
    by_leader: BTreeMap<i32, BTreeSet<Key>>,
    must_place: bool,
    seen_view: u64,
    /// Some partition has no leader: how often metadata was requested, and when it is requested
    /// next.
    seeks: u32,
    seek_at: Option<Instant>,
    sessions: BTreeMap<i32, Session>,
    /// Counts sessions, and the locks given in them.
    last_session: u64,
    last_lock: u64,
    locks: BTreeMap<LockId, Lock>,
    held: BTreeMap<Key, Runs<Held>>,
    buffer: VecDeque<Acquired>,
    lock_timeout: Option<Duration>,
    /// A caller waits for records.
    wanted: bool,
    /// With record limits, the broker of the next request.
    next_node: i32,
    closing: bool,
    /// Counts the times that something was said.
    turn: u64,
    commits: Commits,
    /// Acknowledgements whose lock had ended before they could be sent.
    unsaid: Vec<(Run<Pending>, Error)>,
    outcomes: Option<Vec<Acknowledged>>,
    /// Errors that keep partitions from being read until they are fixed.
    troubles: BTreeMap<Key, Error>,
    trouble: Option<Error>,
}

impl Acquirer {
    pub(crate) fn new(config: Arc<Config>) -> Acquirer {
        Acquirer {
            group: config.group_id.as_deref().unwrap_or_default().into(),
            config,
            member: None,
            assigned: BTreeMap::new(),
            former: BTreeMap::new(),
            by_leader: BTreeMap::new(),
            must_place: false,
            seen_view: 0,
            seeks: 0,
            seek_at: None,
            sessions: BTreeMap::new(),
            last_session: 0,
            last_lock: 0,
            locks: BTreeMap::new(),
            held: BTreeMap::new(),
            buffer: VecDeque::new(),
            lock_timeout: None,
            wanted: false,
            next_node: i32::MIN,
            closing: false,
            turn: 0,
            commits: Commits::default(),
            unsaid: Vec::new(),
            outcomes: None,
            troubles: BTreeMap::new(),
            trouble: None,
        }
    }

    // --- what callers want

    /// Sets the assignment, and the member.
    pub(crate) fn assign(&mut self, member: Option<&Arc<str>>, named: &BTreeMap<Key, Arc<str>>) {
        self.member = member.cloned();
        if !self.sessions.values().any(|it| it.sent.is_some()) {
            self.former.clear();
        }
        let before = std::mem::replace(&mut self.assigned, named.clone());
        self.former.extend(before);
        self.former.retain(|key, _| !named.contains_key(key));
        self.troubles.retain(|key, _| named.contains_key(key));
        self.must_place = true;
    }

    /// Sets whether records are requested while no records are buffered.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// The oldest records that were not taken.
    pub(crate) fn take(&mut self) -> Option<Acquired> {
        let taken = self.buffer.pop_front();
        // No caller waits for more until it calls [`Acquirer::want`].
        self.wanted &= taken.is_none();
        taken
    }

    /// Whether a lock still holds, as far as known.
    pub(crate) fn is_live(&self, now: Instant, lock: LockId) -> bool {
        let lock = self.locks.get(&lock);
        lock.is_some_and(|lock| {
            lock.until.is_none_or(|until| until > now) && self.session_of(lock).is_some()
        })
    }

    /// The caller gets these records. False if their lock has ended, or they are not acquired under it, or were given before: then it
    /// must not.
    pub(crate) fn give(&mut self, now: Instant, lock: LockId, first: i64, last: i64) -> bool {
        let waiting = self.take_acquired(lock, first, last);
        if self.is_live(now, lock)
            && cover(&waiting, first, last)
            && let Some(known) = self.locks.get(&lock)
        {
            let state = State::Given;
            let held = self.held.entry(known.key).or_default();
            held.set(first, last, Held { lock, state });
            return true;
        }
        for run in waiting {
            self.settle(lock, run.first, run.last);
        }
        false
    }

    /// Acknowledges records that the caller cannot get, as `kind`; `None` for offsets without a
    /// record.
    pub(crate) fn dispose(
        &mut self,
        now: Instant,
        lock: LockId,
        (first, last): (i64, i64),
        kind: Option<AcknowledgeType>,
    ) {
        let verdict = kind.map_or(Verdict::Gap, Verdict::Of);
        for run in self.take_acquired(lock, first, last) {
            self.say(now, lock, (run.first, run.last), verdict);
        }
    }

    /// Takes out those of these offsets that are acquired under this lock and not given to a caller
    /// yet: the caller of this method decides what happens to them. Records may claim offsets of
    /// other records, or one offset several times.
    fn take_acquired(&mut self, lock: LockId, first: i64, last: i64) -> Vec<Run<Held>> {
        let key = self.locks.get(&lock).map(|known| known.key);
        let Some(held) = key.and_then(|key| self.held.get_mut(&key)) else {
            return Vec::new();
        };
        let state = State::Acquired;
        let mut waiting = held.within(first, last);
        waiting.retain(|run| run.value == Held { lock, state });
        for run in &waiting {
            held.take(run.first, run.last);
        }
        waiting
    }

    /// The caller's acknowledgement of records that it has.
    ///
    /// # Errors
    /// `Kind::Argument` if it does not have some of them, or has said so before; `Kind::Unsupported` for a renewal that the broker
    /// cannot do. Nothing was changed.
    pub(crate) fn acknowledge(
        &mut self,
        cluster: &Cluster,
        lock: LockId,
        (first, last): (i64, i64),
        kind: AcknowledgeType,
    ) -> Result<(), Error> {
        let Some(known) = self.locks.get(&lock) else {
            return Err(not_held(first, last));
        };
        let (key, topic) = (known.key, Arc::clone(&known.topic));
        let named = |error: Error| error.with_partition(&topic, key.1);
        if kind == AcknowledgeType::Renew {
            self.check_renewal(cluster, known).map_err(named)?;
        }
        let held = self.held.entry(key).or_default();
        let mut within = held.within(first, last);
        within.retain(|run| run.value.lock == lock && run.value.state != State::Acquired);
        if !cover(&within, first, last) {
            return Err(named(not_held(first, last)));
        }
        let state = State::Said(kind);
        held.set(first, last, Held { lock, state });
        Ok(())
    }

    fn check_renewal(&self, cluster: &Cluster, lock: &Lock) -> Result<(), Error> {
        let Some(link) = self.session_of(lock).and_then(|session| session.link) else {
            // The lock ended with its session, and the broker's error describes that better.
            return Ok(());
        };
        match cluster.version(link, ApiKey::ShareAcknowledge, i16::MAX) {
            Ok(version) if version < RENEWALS => Err(Error::new(
                Kind::Unsupported,
                "locks are renewed by brokers of Kafka 4.2 or newer (KIP-1222): release the records instead, or have the group's \
                 share.record.lock.duration.ms raised",
            )
            .calling(ApiKey::ShareAcknowledge.name())),
            _ => Ok(()),
        }
    }

    /// Whether the caller has said nothing of some record that it has.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        let mut all = self.held.values().flat_map(Runs::iter);
        all.any(|run| run.value.state == State::Given)
    }

    /// Everything that the caller has and has said nothing of is accepted.
    pub(crate) fn accept_given(&mut self) {
        for held in self.held.values_mut() {
            for run in held.extract(|it| it.state == State::Given) {
                let state = State::Said(AcknowledgeType::Accept);
                held.set(run.first, run.last, Held { state, ..run.value });
            }
        }
    }

    /// Sends the acknowledgements of callers to brokers.
    pub(crate) fn tell(&mut self, now: Instant, cluster: &mut Cluster) {
        self.turn += 1;
        let keys: Vec<Key> = self.held.keys().copied().collect();
        for key in keys {
            let Some(held) = self.held.get_mut(&key) else {
                continue;
            };
            let said = held.extract(|it| matches!(it.state, State::Said(_)));
            for run in said {
                let State::Said(kind) = run.value.state else {
                    continue;
                };
                let lock = run.value.lock;
                if kind == AcknowledgeType::Renew {
                    let state = State::Renewed;
                    if let Some(held) = self.held.get_mut(&key) {
                        held.set(run.first, run.last, Held { lock, state });
                    }
                }
                self.say(now, lock, (run.first, run.last), Verdict::Of(kind));
            }
        }
        self.held.retain(|_, held| !held.is_empty());
        self.check_commits(now, cluster);
    }

    /// [`Acquirer::tell`], and waits for the end of it, and of what was said before.
    pub(crate) fn commit(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        deadline: Instant,
    ) -> CommitId {
        let id = self.commits.add(self.turn + 1, deadline);
        cluster.set_alarm(deadline);
        self.tell(now, cluster);
        id
    }

    pub(crate) fn take_commit(&mut self, id: CommitId) -> Option<Vec<Committed>> {
        self.commits.take(id)
    }

    pub(crate) fn give_up_commit(&mut self, id: CommitId) {
        self.commits.give_up(id);
    }

    /// Whether callers want to know how every acknowledgement ends.
    pub(crate) fn keep_outcomes(&mut self, keep: bool) {
        self.outcomes = keep.then(Vec::new);
    }

    pub(crate) fn take_outcomes(&mut self) -> Vec<Acknowledged> {
        self.outcomes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// How long locks last, as the broker said last.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout
    }

    /// The error that prevents the delivery of records, once: a caller that polls again waits for
    /// the broker's next response.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        let first = || self.troubles.pop_first().map(|(_, error)| error);
        self.trouble.take().or_else(first)
    }

    /// Why a broker that leads an assigned partition does not accept the client.
    pub(crate) fn refusal(&self, cluster: &Cluster) -> Option<Error> {
        let mut leaders = self.by_leader.keys();
        leaders.find_map(|node| Some(cluster.believed_refusal_of(*node, LANE)?.0.clone()))
    }

    // --- the end

    /// Ends all sessions, after what callers have said: what they have not is free for other members.
    pub(crate) fn close(&mut self, now: Instant, cluster: &mut Cluster) {
        self.closing = true;
        self.wanted = false;
        for held in self.held.values_mut() {
            // It ends with the session.
            let is_renewed = |it: Held| it.state == State::Said(AcknowledgeType::Renew);
            held.extract(is_renewed);
        }
        let sessions = self.sessions.values_mut();
        for outbox in sessions.flat_map(|session| session.outbox.values_mut()) {
            outbox.extract(|it| it.verdict == Verdict::RENEW);
        }
        for session in self.sessions.values_mut() {
            // Also if the caller subscribes before the end could be sent: records acquired in it no
            // longer belong to this member.
            session.must_end = session.is_open() || session.sent.is_some();
        }
        self.tell(now, cluster);
        self.buffer.clear();
        self.held.clear();
        self.troubles.clear();
        self.trouble = None;
        // A caller that polls has nothing to wait for.
        cluster.context.changes.tell(Change::Records);
    }

    /// The member continues after all: sessions are opened again.
    pub(crate) fn reopen(&mut self) {
        self.closing = false;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether no broker has a session.
    pub(crate) fn is_done(&self) -> bool {
        let mut sessions = self.sessions.values();
        sessions.all(|it| !it.is_open() && it.sent.is_none())
    }

    /// The time for the end is over.
    pub(crate) fn abandon(&mut self, cluster: &mut Cluster) {
        let nodes: Vec<i32> = self.sessions.keys().copied().collect();
        let cause = Error::new(Kind::Timeout, "the client had no time left to say it");
        for node in nodes {
            self.end_session(cluster, node, &cause);
        }
        self.closing = false;
        self.held.clear();
        self.buffer.clear();
        for (run, error) in std::mem::take(&mut self.unsaid) {
            self.resolve(cluster, run, Err(&error));
        }
        self.sessions.clear();
        self.locks.clear();
        self.commits.end_settled(None);
        cluster.context.changes.tell(Change::Group);
    }

    // --- what happened

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        token: u64,
        response: Response,
    ) {
        let Some((node, sent)) = self.take_sent(token) else {
            return;
        };
        match response {
            Response::ShareFetch(answer) => self.handle_fetch(now, cluster, node, sent, answer),
            Response::ShareAcknowledge(answer) => {
                self.handle_acknowledge(now, cluster, node, sent, answer);
            }
            _ => {}
        }
        self.check_commits(now, cluster);
    }

    fn take_sent(&mut self, token: u64) -> Option<(i32, Sent)> {
        let mut sessions = self.sessions.iter_mut();
        sessions.find_map(|(node, session)| {
            Some((*node, session.sent.take_if(|sent| sent.token == token)?))
        })
    }

    fn handle_fetch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        node: i32,
        mut sent: Sent,
        answer: ShareFetchResponse,
    ) {
        let brokers = answer.node_endpoints.iter();
        let brokers = brokers.map(|it| (it.node_id, it.host.as_str(), it.port));
        cluster.meet(now, brokers);
        let api = ApiKey::ShareFetch;
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let detail = answer.error_message.as_deref();
            return self.refused(now, cluster, (node, api), sent, code, detail);
        }
        self.note_lock_timeout(answer.acquisition_lock_timeout_ms);
        let session = self.session(node);
        let number = session.number;
        session.answered(sent.purpose);
        self.trouble = None;
        let mut pauses = false;
        let (mut records, mut bytes) = (0_u64, 0);
        for topic in answer.responses {
            for row in topic.partitions {
                let key = (topic.topic_id, row.partition_index);
                if let Some(pending) = sent.acknowledged.remove(&key) {
                    let code = ErrorCode(row.acknowledge_error_code);
                    let detail = row.acknowledge_error_message.as_deref();
                    self.judged(now, cluster, (node, api), (key, pending), code, detail);
                }
                if !self.session(node).known.contains(&key) {
                    // The partition was not requested from this broker: another one leads it, and
                    // has its locks.
                    continue;
                }
                let name = self.assigned.get(&key).or_else(|| self.former.get(&key));
                let Some(name) = name.cloned() else {
                    continue;
                };
                let code = ErrorCode(row.error_code);
                if code.is_error() && !self.assigned.contains_key(&key) {
                    continue;
                }
                if code.is_error() {
                    pauses = true;
                    let leader = (
                        row.current_leader.leader_id,
                        row.current_leader.leader_epoch,
                    );
                    let detail = row.error_message.as_deref();
                    let error = self.named(cluster, (node, api), Error::from_code(code, detail));
                    let error = error.with_partition(&name, key.1);
                    self.not_fetched(now, cluster, (key, &name), leader, error);
                    continue;
                }
                self.troubles.remove(&key);
                if let Some(came) = answer::read(&name, key.1, row) {
                    bytes += came.fetched.records.len();
                    for range in &came.ranges {
                        records = records.saturating_add(length(range.first, range.last));
                    }
                    self.acquired(now, cluster, (node, number), (key, name), came);
                }
            }
        }
        self.left_out(cluster, (node, api), sent.acknowledged);
        cluster.context.meters.acquired(now, records, bytes);
        if pauses {
            self.pause(now, cluster, node);
        }
        if !self.buffer.is_empty() {
            cluster.context.changes.tell(Change::Records);
        }
    }

    /// A partition was not fetched.
    fn not_fetched(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (key, name): (Key, &Arc<str>),
        (leader, epoch): (i32, i32),
        error: Error,
    ) {
        if leader >= 0 {
            cluster.hint((name, key.0), key.1, (leader, epoch));
        }
        if error.is_retriable() {
            cluster.refresh(now);
        } else {
            self.troubles.insert(key, error);
            cluster.context.changes.tell(Change::Records);
        }
    }

    fn acquired(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (node, session): (i32, u64),
        (key, topic): (Key, Arc<str>),
        mut came: answer::Came,
    ) {
        if !self.assigned.contains_key(&key) {
            // It went to other members meanwhile, and with it what comes of it.
            came.missing.append(&mut came.ranges);
        }
        self.last_lock += 1;
        let lock = LockId(self.last_lock);
        let all = came.ranges.iter().chain(&came.missing);
        // Exact: they ascend from 0, so that they are 2^63 at most.
        let left = all.map(|it| length(it.first, it.last)).sum();
        self.locks.insert(
            lock,
            Lock {
                key,
                topic,
                node,
                session,
                until: self.lock_timeout.and_then(|time| now.checked_add(time)),
                renewed_until: None,
                left,
            },
        );
        let anew: Vec<_> = came.ranges.iter().chain(&came.missing).copied().collect();
        for AcquiredRange { first, last, .. } in anew {
            self.unlock_before(now, cluster, (node, key), (first, last));
        }
        for AcquiredRange { first, last, .. } in came.missing {
            // The broker acquired them and did not send them: another member may get them.
            self.say(
                now,
                lock,
                (first, last),
                Verdict::Of(AcknowledgeType::Release),
            );
        }
        if !came.ranges.is_empty() && !self.session(node).must_end {
            let held = self.held.entry(key).or_default();
            for AcquiredRange { first, last, .. } in &came.ranges {
                let state = State::Acquired;
                held.set(*first, *last, Held { lock, state });
            }
            self.buffer.push_back(Acquired {
                lock,
                fetched: came.fetched,
                ranges: came.ranges.into(),
            });
        }
    }

    /// Records were delivered again, so the lock of the earlier delivery has ended, and
    /// acknowledgements under that lock do not count. They must not be sent: the broker knows
    /// members and not locks, and would apply them to the new lock.
    fn unlock_before(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (node, key): (i32, Key),
        (first, last): (i64, i64),
    ) {
        let held = self.held.get_mut(&key).map(|held| held.take(first, last));
        for run in held.into_iter().flatten() {
            let Held { lock, state } = run.value;
            match state {
                State::Said(kind) if kind != AcknowledgeType::Renew => {
                    self.not_said(now, lock, (run.first, run.last), kind);
                }
                _ => self.settle(lock, run.first, run.last),
            }
        }
        let outbox = &mut self.session(node).outbox;
        let late = outbox
            .get_mut(&key)
            .map(|waiting| waiting.take(first, last));
        outbox.retain(|_, waiting| !waiting.is_empty());
        for run in late.into_iter().flatten() {
            let error = self.in_partition(came_anew(), run.value.lock);
            self.resolve(cluster, run, Err(&error));
        }
    }

    fn handle_acknowledge(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        node: i32,
        mut sent: Sent,
        answer: ShareAcknowledgeResponse,
    ) {
        let brokers = answer.node_endpoints.iter();
        let brokers = brokers.map(|it| (it.node_id, it.host.as_str(), it.port));
        cluster.meet(now, brokers);
        let api = ApiKey::ShareAcknowledge;
        let code = ErrorCode(answer.error_code);
        let ends = sent.purpose == Purpose::End;
        if code.is_error() {
            let detail = answer.error_message.as_deref();
            self.refused(now, cluster, (node, api), sent, code, detail);
        } else {
            self.note_lock_timeout(answer.acquisition_lock_timeout_ms);
            self.session(node).answered(sent.purpose);
            for topic in answer.responses {
                for row in topic.partitions {
                    let key = (topic.topic_id, row.partition_index);
                    if let Some(pending) = sent.acknowledged.remove(&key) {
                        let leader = &row.current_leader;
                        let name = self.assigned.get(&key).filter(|_| leader.leader_id >= 0);
                        if let Some(name) = name {
                            let leader = (leader.leader_id, leader.leader_epoch);
                            cluster.hint((name, key.0), key.1, leader);
                        }
                        let code = ErrorCode(row.error_code);
                        let detail = row.error_message.as_deref();
                        self.judged(now, cluster, (node, api), (key, pending), code, detail);
                    }
                }
            }
            self.left_out(cluster, (node, api), sent.acknowledged);
        }
        if ends {
            let cause = Error::new(Kind::Closed, "the session was ended");
            self.end_session(cluster, node, &cause);
            self.sessions.remove(&node);
        }
    }

    /// The broker may have handled records that a response does not mention.
    fn left_out(&mut self, cluster: &mut Cluster, about: (i32, ApiKey), pending: ByPartition) {
        let error = Error::new(Kind::Protocol, "the response does not contain a partition");
        let error = unknown(self.named(cluster, about, error));
        self.fail(cluster, pending, &error);
    }

    /// Names the broker and the API.
    fn named(&self, cluster: &Cluster, (node, api): (i32, ApiKey), error: Error) -> Error {
        let link = self.sessions.get(&node).and_then(|session| session.link);
        let error = error.calling(api.name());
        match link.and_then(|link| cluster.address_of(link)) {
            Some(address) => error.at(address),
            None => error,
        }
    }

    /// A broker has judged the acknowledgements of one partition.
    fn judged(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        about: (i32, ApiKey),
        (key, pending): (Key, Runs<Pending>),
        code: ErrorCode,
        detail: Option<&str>,
    ) {
        if !code.is_error() {
            for run in pending.iter() {
                self.resolve(cluster, run, Ok(now));
            }
            return;
        }
        let error = self.named(cluster, about, explained(Error::from_code(code, detail)));
        let error = self.placed(&error, &pending);
        // The coordinator of the group's state is being elected, and the lock holds meanwhile.
        let passes = matches!(
            code,
            ErrorCode::COORDINATOR_NOT_AVAILABLE
                | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode::NOT_COORDINATOR
        );
        let mut again = false;
        let ends = self.session(about.0).must_end;
        for run in pending.iter() {
            if passes && now < run.value.until && !ends {
                let outbox = self.session(about.0).outbox.entry(key).or_default();
                // A newer acknowledgement counts, not the one that it replaced.
                let newer = outbox.within(run.first, run.last);
                outbox.set(run.first, run.last, run.value);
                for it in newer {
                    outbox.set(it.first, it.last, it.value);
                }
                again = true;
            } else {
                self.resolve(cluster, run, Err(&error));
            }
        }
        if again {
            cluster.context.observer.tell(Observed::Retried {
                cause: error,
                attempts: self.session(about.0).failures.saturating_add(1),
                pause: Duration::ZERO,
            });
            self.pause(now, cluster, about.0);
        } else if code == ErrorCode::NOT_LEADER_OR_FOLLOWER {
            cluster.refresh(now);
        }
    }

    /// A broker refused a request as a whole: a new session begins.
    fn refused(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        about: (i32, ApiKey),
        sent: Sent,
        code: ErrorCode,
        detail: Option<&str>,
    ) {
        let (node, _) = about;
        let error = self.named(cluster, about, explained(Error::from_code(code, detail)));
        self.fail(cluster, sent.acknowledged, &error);
        self.end_session(cluster, node, &error);
        let passes = error.is_retriable()
            || matches!(
                code,
                ErrorCode::SHARE_SESSION_NOT_FOUND
                    | ErrorCode::INVALID_SHARE_SESSION_EPOCH
                    | ErrorCode::SHARE_SESSION_LIMIT_REACHED
                    | ErrorCode::UNKNOWN_MEMBER_ID
            );
        let failures = self.session(node).failures;
        let pause = self.pause(now, cluster, node);
        if passes {
            cluster.context.observer.tell(Observed::Retried {
                cause: error,
                attempts: failures.saturating_add(1),
                pause,
            });
        } else if sent.purpose != Purpose::End {
            self.trouble = Some(error);
            cluster.context.changes.tell(Change::Records);
        }
    }

    pub(super) fn handle_orphan(&mut self, now: Instant, cluster: &mut Cluster, orphan: &Orphan) {
        let Some((node, sent)) = self.take_sent(orphan.token) else {
            return;
        };
        let error = match orphan.sent {
            true => unknown(orphan.error.clone()),
            false => lost(orphan.error.clone()),
        };
        self.fail(cluster, sent.acknowledged, &error);
        self.end_session(cluster, node, &orphan.error);
        if sent.purpose == Purpose::End {
            self.sessions.remove(&node);
        } else {
            self.pause(now, cluster, node);
            cluster.refresh(now);
        }
        self.check_commits(now, cluster);
    }

    /// A session is over, and with it what was acquired in it.
    fn end_session(&mut self, cluster: &mut Cluster, node: i32, cause: &Error) {
        self.last_session += 1;
        let number = self.last_session;
        let Some(session) = self.sessions.get_mut(&node) else {
            return;
        };
        let (outbox, sent) = session.end(number);
        self.fail(cluster, outbox, &lost(cause.clone()));
        if let Some(sent) = sent {
            self.fail(cluster, sent.acknowledged, &unknown(cause.clone()));
        }
        let (locks, sessions) = (&self.locks, &self.sessions);
        let goes_on = |lock: LockId| {
            locks.get(&lock).is_some_and(|lock| {
                let session = sessions.get(&lock.node);
                session.is_some_and(|session| session.number == lock.session)
            })
        };
        self.buffer.retain(|it| goes_on(it.lock));
        for held in self.held.values_mut() {
            held.extract(|it| it.state == State::Acquired && !goes_on(it.lock));
        }
        self.sweep();
    }

    /// Forgets locks of ended sessions, unless somebody has a record of them, or an error of theirs
    /// is still to be reported.
    fn sweep(&mut self) {
        let held = self.held.values().flat_map(Runs::iter);
        let held = held.map(|run| run.value.lock);
        let unsaid = self.unsaid.iter().map(|(run, _)| run.value.lock);
        let used: BTreeSet<LockId> = held.chain(unsaid).collect();
        let sessions = &self.sessions;
        self.locks.retain(|id, lock| {
            let session = sessions.get(&lock.node);
            let is_live = session.is_some_and(|session| session.number == lock.session);
            is_live || used.contains(id)
        });
    }

    fn note_lock_timeout(&mut self, millis: i32) {
        if let Some(millis) = u64::try_from(millis).ok().filter(|millis| *millis > 0) {
            self.lock_timeout = Some(Duration::from_millis(millis));
        }
    }

    /// The request to the broker is repeated after a pause.
    fn pause(&mut self, now: Instant, cluster: &mut Cluster, node: i32) -> Duration {
        let session = self.session(node);
        session.failures = session.failures.saturating_add(1);
        let pause = cluster.retry_pause(session.failures);
        session.retry_at = Some(now + pause);
        cluster.set_alarm(now + pause);
        pause
    }

    fn session(&mut self, node: i32) -> &mut Session {
        let last = &mut self.last_session;
        self.sessions.entry(node).or_insert_with(|| {
            *last += 1;
            Session {
                number: *last,
                ..Session::default()
            }
        })
    }

    /// The session in which a lock was given, if it is still open.
    fn session_of(&self, lock: &Lock) -> Option<&Session> {
        let session = self.sessions.get(&lock.node);
        session.filter(|session| session.number == lock.session)
    }

    /// The client closes.
    pub(super) fn abort(&mut self, cluster: &mut Cluster) {
        self.abandon(cluster);
        self.assigned.clear();
        self.by_leader.clear();
    }
}

/// How many offsets these are: the first is not negative, nor after the last.
fn length(first: i64, last: i64) -> u64 {
    last.abs_diff(first).saturating_add(1)
}
