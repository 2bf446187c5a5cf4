//! Which connections there are, which are wanted, and the view of the cluster that says so.
//!
//! ```text
//!  a link:   dial ──▶ Dialing ── versions told ──▶ Up ── broken, or not wanted any more ──▶ gone
//!                        └──────── failed ──▶ gone; the target pauses, longer with each failure
//!
//!  the view: Due ── a link is up ──▶ asked ── answer ──▶ fresh ── stale leader, new topic, age ──▶ Due
//!             ▲                         └── link broke ──┘│
//!             └──────── incomplete: after a pause ────────┘
//! ```
//!
//! Requests are queued on a link by their owner and carried by it in order. If a link breaks, each owner gets its tokens
//! back as orphans, with the cause.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::messages::metadata_request::MetadataRequestTopic;
use ottla_protocol::messages::{MetadataRequest, MetadataResponse};
use ottla_protocol::{ApiKey, ErrorCode};
use rustc_hash::FxHashMap;

use crate::api::{Request, Versions};
use crate::config::Config;
use crate::connection::Outgoing;
use crate::error::{Error, Kind};
use crate::metadata::Metadata;
use crate::observe::Observer;
use crate::random::Random;

/// Names one connection, from its dialling to its end. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(u64);

/// What a connection carries. Brokers answer in order, so requests that wait long have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Requests that are answered at once.
    Control,
    /// Fetches, which wait for records; numbered, for a seek must not wait for a fetch that waits.
    Data(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    Bootstrap(usize),
    Node(i32, Lane),
}

/// Who gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Metadata,
    Operation,
    Work,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect, negotiate, and say how it went, within `timeout`.
    Dial {
        /// The link to be.
        link: LinkId,
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
        /// For dialling and negotiation together.
        timeout: Duration,
    },
    /// Look for something to send on this link.
    Wake(LinkId),
    /// Close the connection; nothing more needs to be said about it.
    Close(LinkId),
}

/// What there is to send on a link.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
pub(crate) enum Next {
    Send(Outgoing),
    /// The broker does not speak a version that is needed.
    Refused(Orphan),
    Nothing,
}

/// A request that will not be answered.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) token: u64,
    pub(crate) owner: Owner,
    pub(crate) error: Error,
    /// Whether it may have reached the broker.
    pub(crate) sent: bool,
}

impl Orphan {
    /// Whether its connection broke, for whatever reason: another one may do better.
    pub(crate) fn may_be_repeated(&self) -> bool {
        matches!(
            self.error.kind(),
            Kind::Unreachable | Kind::Protocol | Kind::NotKafka
        )
    }
}

#[derive(Debug)]
enum LinkState {
    Dialing { since: Instant },
    Up(Versions),
}

#[derive(Debug)]
struct Queued {
    token: u64,
    owner: Owner,
    request: Request,
    timeout: Duration,
}

#[derive(Debug)]
struct Link {
    target: Target,
    host: String,
    port: u16,
    state: LinkState,
    queue: VecDeque<Queued>,
    in_flight: VecDeque<(u64, Owner)>,
    woken: bool,
}

#[derive(Debug)]
struct Failure {
    count: u32,
    retry_at: Instant,
    cause: Error,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: Arc<Config>,
    pub(crate) random: Random,
    pub(crate) observer: Observer,
    view: Metadata,
    view_version: u64,
    links: BTreeMap<LinkId, Link>,
    by_target: FxHashMap<Target, LinkId>,
    failures: BTreeMap<Target, Failure>,
    next_id: u64,
    next_bootstrap: usize,
    wanted: BTreeMap<Arc<str>, usize>,
    refresh_at: Option<Instant>,
    refresh_token: Option<u64>,
    refresh_asked: Option<Instant>,
    /// Why the last question for metadata had no answer.
    refresh_error: Option<Error>,
    fresh_as_of: Option<Instant>,
    incomplete: u32,
    ever_up: bool,
    first_dial: Option<Instant>,
    alarm: Option<Instant>,
    actions: VecDeque<Action>,
    orphans: VecDeque<Orphan>,
}

/// With no answer from one bootstrap address for this long, the next one is tried beside it.
const IMPATIENCE: Duration = Duration::from_secs(1);

impl Cluster {
    pub(crate) fn new(config: Arc<Config>, seed: u64) -> Cluster {
        let mut random = Random::new(seed);
        let next_bootstrap = random.below(config.bootstrap.len());
        Cluster {
            config,
            random,
            observer: Observer::default(),
            view: Metadata::default(),
            view_version: 0,
            links: BTreeMap::new(),
            by_target: FxHashMap::default(),
            failures: BTreeMap::new(),
            next_id: 0,
            next_bootstrap,
            wanted: BTreeMap::new(),
            refresh_at: None,
            refresh_token: None,
            refresh_asked: None,
            refresh_error: None,
            fresh_as_of: None,
            incomplete: 0,
            ever_up: false,
            first_dial: None,
            alarm: None,
            actions: VecDeque::new(),
            orphans: VecDeque::new(),
        }
    }

    pub(crate) fn view(&self) -> &Metadata {
        &self.view
    }

    pub(crate) fn hint(&mut self, topic: &str, partition: i32, leader: i32, epoch: i32) {
        self.view
            .hint(topic, partition, leader, epoch, &mut self.observer);
        self.view_version += 1;
    }

    /// Grows whenever the view may have changed.
    pub(crate) fn view_version(&self) -> u64 {
        self.view_version
    }

    // --- time

    /// Asks to be called at `at`, or earlier.
    pub(crate) fn set_alarm(&mut self, at: Instant) {
        self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// Forgets the alarm if it is due, so that everybody sets theirs again.
    pub(crate) fn take_alarm(&mut self, now: Instant) -> bool {
        let due = self.alarm.is_some_and(|alarm| alarm <= now);
        if due {
            self.alarm = None;
        }
        due
    }

    /// The pause before attempt `failures` + 1.
    pub(crate) fn retry_pause(&mut self, failures: u32) -> Duration {
        self.random.backoff(
            self.config.retry_backoff,
            self.config.retry_backoff_max,
            failures,
        )
    }

    // --- topics

    /// Keeps `topic` in the view until as many calls of [`Cluster::unwant`].
    pub(crate) fn want(&mut self, now: Instant, topic: &Arc<str>) {
        let count = self.wanted.entry(Arc::clone(topic)).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.refresh_at = Some(now);
            self.incomplete = 0;
        }
    }

    pub(crate) fn unwant(&mut self, topic: &str) {
        if let Some(count) = self.wanted.get_mut(topic) {
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(topic);
            }
        }
    }

    /// The view turned out to be old: asks again, after a pause since the last time.
    pub(crate) fn refresh(&mut self, now: Instant) {
        let earliest = self
            .refresh_asked
            .map_or(now, |asked| now.max(asked + self.config.retry_backoff));
        let at = self.refresh_at.map_or(earliest, |at| at.min(earliest));
        self.refresh_at = Some(at);
        self.set_alarm(at);
    }

    // --- links

    /// A link to this broker that is up; dials one if there is none and the pause is over.
    pub(crate) fn node_link(&mut self, now: Instant, node: i32, lane: Lane) -> Option<LinkId> {
        let target = Target::Node(node, lane);
        if let Some(link) = self.by_target.get(&target) {
            return self.is_up(*link).then_some(*link);
        }
        if self.may_dial(now, target) {
            if let Some(node) = self.view.node(node) {
                let (host, port) = (node.host.clone(), node.port);
                self.dial(now, target, host, port);
            }
        }
        None
    }

    /// The link to this broker, if it is up.
    pub(crate) fn up_link(&self, node: i32, lane: Lane) -> Option<LinkId> {
        self.by_target
            .get(&Target::Node(node, lane))
            .copied()
            .filter(|link| self.is_up(*link))
    }

    /// The broker that a link leads to, if it is known to be one of the cluster.
    pub(crate) fn node_of(&self, link: LinkId) -> Option<(i32, Lane)> {
        match self.links.get(&link)?.target {
            Target::Node(node, lane) => Some((node, lane)),
            Target::Bootstrap(_) => None,
        }
    }

    /// `host:port` of a link.
    pub(crate) fn address_of(&self, link: LinkId) -> Option<String> {
        self.links
            .get(&link)
            .map(|link| format!("{}:{}", link.host, link.port))
    }

    /// Why the broker cannot be reached at the moment, if an attempt failed.
    pub(crate) fn failure_of(&self, node: i32, lane: Lane) -> Option<&Error> {
        self.failures
            .get(&Target::Node(node, lane))
            .map(|failure| &failure.cause)
    }

    /// Any link that is up, the least busy first; dials the next candidate if there is none.
    pub(crate) fn any_link(&mut self, now: Instant) -> Option<LinkId> {
        let up = self
            .links
            .iter()
            .filter(|(_, link)| matches!(link.state, LinkState::Up(_)))
            .filter(|(_, link)| !matches!(link.target, Target::Node(_, Lane::Data(_))))
            .min_by_key(|(_, link)| link.in_flight.len() + link.queue.len());
        if let Some((id, _)) = up {
            return Some(*id);
        }
        self.dial_any(now);
        None
    }

    /// Dials a broker of the view, or else the next bootstrap address, unless one is being dialled since a moment ago.
    fn dial_any(&mut self, now: Instant) {
        for link in self.links.values() {
            match link.state {
                LinkState::Dialing { since }
                    if !matches!(link.target, Target::Node(_, Lane::Data(_))) =>
                {
                    let patience = since + IMPATIENCE;
                    if now < patience {
                        self.set_alarm(patience);
                        return;
                    }
                }
                _ => {}
            }
        }
        let nodes: Vec<_> = self
            .view
            .nodes()
            .map(|node| {
                (
                    Target::Node(node.id, Lane::Control),
                    node.host.clone(),
                    node.port,
                )
            })
            .filter(|(target, ..)| !self.by_target.contains_key(target))
            .collect();
        let ready: Vec<_> = nodes
            .into_iter()
            .filter(|(target, ..)| self.may_dial(now, *target))
            .collect();
        let chosen = self.random.below(ready.len());
        if let Some((target, host, port)) = ready.into_iter().nth(chosen) {
            self.dial(now, target, host, port);
            return;
        }
        let count = self.config.bootstrap.len();
        for step in 0..count {
            let index = (self.next_bootstrap + step) % count;
            let target = Target::Bootstrap(index);
            if self.by_target.contains_key(&target) || !self.may_dial(now, target) {
                continue;
            }
            if let Some((host, port)) = self.config.bootstrap.get(index).cloned() {
                self.next_bootstrap = (index + 1) % count;
                self.dial(now, target, host, port);
                return;
            }
        }
    }

    /// Whether the pause after the last failure is over; if not, asks to be called when it is.
    fn may_dial(&mut self, now: Instant, target: Target) -> bool {
        match self.failures.get(&target).map(|failure| failure.retry_at) {
            Some(retry_at) if retry_at > now => {
                self.set_alarm(retry_at);
                false
            }
            _ => true,
        }
    }

    fn dial(&mut self, now: Instant, target: Target, host: String, port: u16) {
        let failures = self
            .failures
            .get(&target)
            .map_or(0, |failure| failure.count);
        let doubled = self
            .config
            .setup_timeout
            .saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        let timeout = doubled.min(self.config.setup_timeout_max);
        self.first_dial.get_or_insert(now);
        self.set_alarm(now + IMPATIENCE);
        self.next_id += 1;
        let link = LinkId(self.next_id);
        self.actions.push_back(Action::Dial {
            link,
            host: host.clone(),
            port,
            timeout,
        });
        self.by_target.insert(target, link);
        self.links.insert(
            link,
            Link {
                target,
                host,
                port,
                state: LinkState::Dialing { since: now },
                queue: VecDeque::new(),
                in_flight: VecDeque::new(),
                woken: false,
            },
        );
    }

    pub(crate) fn has_link(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    fn is_up(&self, link: LinkId) -> bool {
        self.links
            .get(&link)
            .is_some_and(|link| matches!(link.state, LinkState::Up(_)))
    }

    /// Whether any broker can be asked something at once.
    pub(crate) fn is_connected(&self) -> bool {
        self.links
            .values()
            .any(|link| matches!(link.state, LinkState::Up(_)))
    }

    pub(crate) fn link_up(&mut self, id: LinkId, versions: Versions) {
        if let Some(link) = self.links.get_mut(&id) {
            link.state = LinkState::Up(versions);
            self.failures.remove(&link.target);
            self.ever_up = true;
        }
    }

    /// The connection broke or never came to be.
    pub(crate) fn link_down(&mut self, now: Instant, id: LinkId, cause: &Error) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let target = link.target;
        let failed = match link.state {
            LinkState::Dialing { .. } => self
                .failures
                .get(&target)
                .map_or(0, |failure| failure.count),
            LinkState::Up(_) => 0,
        };
        let cause = cause
            .clone()
            .at(format_args!("{}:{}", link.host, link.port));
        let count = failed.saturating_add(1);
        let pause = self.random.backoff(
            self.config.reconnect_backoff,
            self.config.reconnect_backoff_max,
            count,
        );
        self.failures.insert(
            target,
            Failure {
                count,
                retry_at: now + pause,
                cause: cause.clone(),
            },
        );
        self.remove(id, &cause);
        self.refresh(now);
    }

    fn close(&mut self, id: LinkId, cause: &Error) {
        self.actions.push_back(Action::Close(id));
        self.remove(id, cause);
    }

    fn remove(&mut self, id: LinkId, cause: &Error) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        self.by_target.remove(&link.target);
        let in_flight = link
            .in_flight
            .into_iter()
            .map(|(token, owner)| (token, owner, true));
        let queued = link
            .queue
            .into_iter()
            .map(|queued| (queued.token, queued.owner, false));
        self.orphans
            .extend(in_flight.chain(queued).map(|(token, owner, sent)| Orphan {
                token,
                owner,
                error: cause.clone(),
                sent,
            }));
    }

    /// Gives up every link.
    pub(crate) fn close_all(&mut self, cause: &Error) {
        let ids: Vec<_> = self.links.keys().copied().collect();
        for id in ids {
            self.close(id, cause);
        }
    }

    // --- requests

    /// Queues a request; its answer, or its failure, comes with the token returned.
    pub(crate) fn ask(
        &mut self,
        link: LinkId,
        owner: Owner,
        request: Request,
        timeout: Duration,
    ) -> u64 {
        let token = self.token();
        match self.links.get_mut(&link) {
            Some(entry) => {
                entry.queue.push_back(Queued {
                    token,
                    owner,
                    request,
                    timeout,
                });
                self.wake(link);
            }
            None => {
                let error = Error::new(Kind::Unreachable, "the connection is gone");
                self.orphans.push_back(Orphan {
                    token,
                    owner,
                    error,
                    sent: false,
                });
            }
        }
        token
    }

    /// A token for a request that its owner hands out itself.
    pub(crate) fn token(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Makes the shell look for something to send on `link`.
    pub(crate) fn wake(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            if !entry.woken && matches!(entry.state, LinkState::Up(_)) {
                entry.woken = true;
                self.actions.push_back(Action::Wake(link));
            }
        }
    }

    /// The shell looks again without being told; until then nothing needs to wake it.
    pub(crate) fn not_woken(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.woken = false;
        }
    }

    /// The next queued request of `link`.
    pub(crate) fn next_queued(&mut self, link: LinkId) -> Next {
        let Some(entry) = self.links.get_mut(&link) else {
            return Next::Nothing;
        };
        let LinkState::Up(versions) = &entry.state else {
            return Next::Nothing;
        };
        let Some(queued) = entry.queue.pop_front() else {
            return Next::Nothing;
        };
        let Queued {
            token,
            owner,
            request,
            timeout,
        } = queued;
        match versions.choose(request.api(), i16::MAX) {
            Ok(version) => {
                entry.in_flight.push_back((token, owner));
                Next::Send(Outgoing {
                    token,
                    request,
                    version,
                    timeout,
                    answered: true,
                    expected_bytes: 0,
                })
            }
            Err(error) => {
                let error = error.at(format_args!("{}:{}", entry.host, entry.port));
                Next::Refused(Orphan {
                    token,
                    owner,
                    error,
                    sent: false,
                })
            }
        }
    }

    /// The version of `api` to use on `link`, at most `cap`.
    pub(crate) fn version(&self, link: LinkId, api: ApiKey, cap: i16) -> Result<i16, Error> {
        match self.links.get(&link).map(|link| (link, &link.state)) {
            Some((link, LinkState::Up(versions))) => versions
                .choose(api, cap)
                .map_err(|error| error.at(format_args!("{}:{}", link.host, link.port))),
            _ => Err(Error::new(Kind::Unreachable, "the connection is not up")),
        }
    }

    /// Notes a request that its owner handed out itself.
    pub(crate) fn sent(&mut self, link: LinkId, token: u64) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.in_flight.push_back((token, Owner::Work));
        }
    }

    /// The owner of an answered request.
    pub(crate) fn answered(&mut self, link: LinkId, token: u64) -> Option<Owner> {
        let in_flight = &mut self.links.get_mut(&link)?.in_flight;
        let at = in_flight.iter().position(|(asked, _)| *asked == token)?;
        in_flight.remove(at).map(|(_, owner)| owner)
    }

    pub(crate) fn poll_orphan(&mut self) -> Option<Orphan> {
        self.orphans.pop_front()
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    // --- the view

    /// Asks for metadata if that is due. To be called after anything happened.
    pub(crate) fn pump(&mut self, now: Instant) {
        let Some(at) = self.refresh_at else { return };
        if self.refresh_token.is_some() {
            return;
        }
        if at > now {
            self.set_alarm(at);
            return;
        }
        let Some(link) = self.any_link(now) else {
            return;
        };
        let topics = self
            .wanted
            .keys()
            .map(|name| MetadataRequestTopic {
                name: Some((&**name).into()),
                ..Default::default()
            })
            .collect();
        let request = Request::Metadata(MetadataRequest {
            topics: Some(topics),
            allow_auto_topic_creation: self.config.allow_auto_create_topics,
            ..Default::default()
        });
        self.refresh_at = None;
        self.refresh_asked = Some(now);
        let timeout = self.config.request_timeout;
        self.refresh_token = Some(self.ask(link, Owner::Metadata, request, timeout));
    }

    /// Makes sure that the brokers are known, if nothing ever asked for them.
    pub(crate) fn need_view(&mut self, now: Instant) {
        if self.view.nodes().next().is_none()
            && self.refresh_token.is_none()
            && self.refresh_at.is_none()
        {
            self.refresh_at = Some(now);
        }
    }

    /// Takes in an answer that came over `link`.
    pub(crate) fn handle_metadata(
        &mut self,
        now: Instant,
        link: LinkId,
        answer: &MetadataResponse,
    ) {
        self.refresh_token = None;
        let code = ErrorCode(answer.error_code);
        let problem = if code.is_error() {
            Some(Error::from_code(code, None))
        } else if answer.brokers.is_empty() {
            let text = "the answer names no brokers";
            Some(Error::new(Kind::Protocol, text))
        } else {
            None
        };
        if let Some(mut error) = problem {
            if let Some(address) = self.address_of(link) {
                error = error.at(address);
            }
            self.refresh_failed(now, error);
            return;
        }
        self.refresh_error = None;
        self.fresh_as_of = self.refresh_asked;
        let version = self.version(link, ApiKey::Metadata, i16::MAX).unwrap_or(0);
        self.view.update(answer, version, &mut self.observer);
        self.view.keep(|name| self.wanted.contains_key(name));
        self.view_version += 1;
        self.settle_links(link);
        let complete = self.wanted.keys().all(|name| {
            self.view.topic(name).is_some_and(|topic| {
                topic
                    .partitions
                    .values()
                    .all(|partition| partition.leader >= 0)
            })
        });
        let next = if complete {
            self.incomplete = 0;
            now + self.config.metadata_max_age
        } else {
            self.incomplete = self.incomplete.saturating_add(1);
            now + self.retry_pause(self.incomplete)
        };
        // A topic that became wanted while the question was out has set its own time already.
        self.refresh_at = Some(self.refresh_at.map_or(next, |at| at.min(next)));
        self.set_alarm(self.refresh_at.unwrap_or(next));
    }

    /// Why the view is old or empty, if the last question for it failed.
    pub(crate) fn refresh_error(&self) -> Option<&Error> {
        self.refresh_error.as_ref()
    }

    /// Whether the view was asked for at `since` or later.
    pub(crate) fn is_fresh(&self, since: Instant) -> bool {
        self.fresh_as_of.is_some_and(|asked| asked >= since)
    }

    pub(crate) fn refresh_failed(&mut self, now: Instant, error: Error) {
        self.refresh_token = None;
        // It is asked again, maybe of another broker.
        self.refresh_error = Some(error.calling("Metadata").retriable_is(true));
        self.incomplete = self.incomplete.saturating_add(1);
        let at = now + self.retry_pause(self.incomplete);
        self.refresh_at = Some(self.refresh_at.map_or(at, |earlier| earlier.min(at)));
        self.set_alarm(at);
    }

    /// The link that answered is a broker's own if the addresses agree; links to brokers that left or moved are closed.
    fn settle_links(&mut self, answered: LinkId) {
        let homeless: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| match link.target {
                Target::Node(id, _) => !self
                    .view
                    .node(id)
                    .is_some_and(|node| node.host == link.host && node.port == link.port),
                Target::Bootstrap(_) => false,
            })
            .map(|(id, _)| *id)
            .collect();
        let moved = Error::new(
            Kind::Unreachable,
            "the broker left the cluster or moved to another address",
        );
        for id in homeless {
            self.close(id, &moved);
        }
        let Some(link) = self.links.get_mut(&answered) else {
            return;
        };
        let Target::Bootstrap(_) = link.target else {
            return;
        };
        let adopted = self
            .view
            .nodes()
            .find(|node| node.host == link.host && node.port == link.port)
            .map(|node| Target::Node(node.id, Lane::Control))
            .filter(|target| !self.by_target.contains_key(target));
        match adopted {
            Some(target) => {
                self.by_target.remove(&link.target);
                self.by_target.insert(target, answered);
                link.target = target;
            }
            None if link.queue.is_empty() && link.in_flight.is_empty() => {
                self.close(
                    answered,
                    &Error::new(Kind::Unreachable, "not needed any more"),
                );
            }
            None => {}
        }
    }

    // --- what to tell a caller whose deadline passed

    /// Why no broker can be asked at the moment: each address tried, and what happened. `None` if one is connected.
    pub(crate) fn trouble(&self) -> Option<Error> {
        if self.is_connected() {
            return None;
        }
        if !self.failures.is_empty() {
            let kind = if self.is_hopeless() {
                Kind::NotKafka
            } else {
                Kind::Unreachable
            };
            let mut causes: Vec<String> = Vec::new();
            for cause in self.failures.values().map(|failure| &failure.cause) {
                let text = format!("{}: {}", cause.broker().unwrap_or("?"), cause.message());
                if !causes.contains(&text) {
                    causes.push(text);
                }
            }
            let more = causes.len().saturating_sub(3);
            causes.truncate(3);
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            return Some(Error::new(
                kind,
                format!("no broker could be reached: {}{more}", causes.join("; ")),
            ));
        }
        let dialing: Vec<_> = self
            .links
            .values()
            .map(|link| format!("{}:{}", link.host, link.port))
            .collect();
        if dialing.is_empty() {
            let first = self
                .config
                .bootstrap
                .first()
                .map(|(host, port)| format!("{host}:{port}"))
                .unwrap_or_default();
            return Some(Error::new(
                Kind::Unreachable,
                format!("not connected to {first}"),
            ));
        }
        Some(Error::new(
            Kind::Unreachable,
            format!(
                "still connecting to {}, no answer so far",
                dialing.join(", ")
            ),
        ))
    }

    /// Whether the first connection is being made, for less than a moment, and nothing is wrong so far.
    pub(crate) fn is_starting(&self, now: Instant) -> bool {
        let just_begun = self.first_dial.is_none_or(|at| now < at + IMPATIENCE);
        !self.ever_up && self.failures.is_empty() && just_begun
    }

    /// Whether waiting cannot help: every address given is answered by something that is not a broker.
    pub(crate) fn is_hopeless(&self) -> bool {
        !self.ever_up
            && (0..self.config.bootstrap.len()).all(|index| {
                self.failures
                    .get(&Target::Bootstrap(index))
                    .is_some_and(|failure| failure.cause.kind() == Kind::NotKafka)
            })
    }
}
