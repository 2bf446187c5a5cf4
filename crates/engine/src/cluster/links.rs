//! Connections: which there are, what is queued on them, and which failed.
//!
//! ```text
//!  dial ──▶ Dialing ── versions told ──▶ Up ── broken, or not wanted any more ──▶ gone
//!              └──────── failed ──▶ gone; the destination pauses, longer with each failure
//! ```
//!
//! A request is queued on a link by its owner and carried by it in order. If the link breaks, each owner gets its tokens back
//! as orphans, with the cause. A broker that throttles the client (KIP-219) gets nothing more on that link until the pause
//! is over.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ottla_protocol::ApiKey;
use rustc_hash::FxHashMap;

use super::context::Context;
use super::target::{Destination, Lane, LinkId, Owner};
use crate::api::{Request, Versions};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::observe::{Level, Observed};

/// If a bootstrap address does not answer for this long, the next one is tried as well.
pub(super) const IMPATIENCE: Duration = Duration::from_secs(1);

/// The longest pause of a broker that is kept: longer than any quota window, shorter than forever.
const LONGEST_THROTTLE: Duration = Duration::from_secs(60);

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect, negotiate, and report the result, within `timeout`.
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

/// What is queued on a link.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
pub(crate) enum Next {
    Send(Outgoing),
    /// The broker does not speak a version that is needed.
    Unsupported(Orphan),
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
enum State {
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
struct InFlight {
    token: u64,
    owner: Owner,
    api: ApiKey,
    version: i16,
    sent: Instant,
}

#[derive(Debug)]
struct Link {
    destination: Destination,
    host: String,
    port: u16,
    state: State,
    queue: VecDeque<Queued>,
    in_flight: VecDeque<InFlight>,
    woken: bool,
    /// The broker asked for a pause until then.
    throttled_until: Option<Instant>,
}

impl Link {
    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Takes a request out of what is under way.
    fn take(&mut self, token: u64) -> Option<InFlight> {
        let at = self
            .in_flight
            .iter()
            .position(|request| request.token == token)?;
        self.in_flight.remove(at)
    }

    /// Whether it carries requests that are answered at once.
    fn is_for_control(&self) -> bool {
        !matches!(self.destination, Destination::Node(_, Lane::Data(_)))
    }
}

#[derive(Debug)]
struct Failure {
    count: u32,
    retry_at: Instant,
    cause: Error,
}

/// An address to dial.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// All connections of one engine.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, Link>,
    by_destination: FxHashMap<Destination, LinkId>,
    failures: BTreeMap<Destination, Failure>,
    next_id: u64,
    next_bootstrap: usize,
    ever_up: bool,
    first_dial: Option<Instant>,
    actions: VecDeque<Action>,
    orphans: VecDeque<Orphan>,
    /// Nothing is dialled any more.
    closed: bool,
}

impl Links {
    pub(super) fn new(context: &mut Context) -> Links {
        Links {
            next_bootstrap: context.random.below(context.config.bootstrap.len()),
            ..Links::default()
        }
    }

    // --- which there are

    /// A link to this destination that is up; dials its address if there is none and the pause is over.
    pub(super) fn to(
        &mut self,
        now: Instant,
        context: &mut Context,
        destination: Destination,
        address: impl FnOnce() -> Option<Address>,
    ) -> Option<LinkId> {
        if let Some(link) = self.by_destination.get(&destination) {
            return self.is_up(*link).then_some(*link);
        }
        if self.may_dial(now, context, destination) {
            if let Some(address) = address() {
                self.dial(now, context, destination, address);
            }
        }
        None
    }

    /// The link to this broker, if it is up.
    pub(super) fn up(&self, node: i32, lane: Lane) -> Option<LinkId> {
        self.by_destination
            .get(&Destination::Node(node, lane))
            .copied()
            .filter(|link| self.is_up(*link))
    }

    /// The broker that a link leads to, if it is known to be one of the cluster.
    pub(super) fn node_of(&self, link: LinkId) -> Option<(i32, Lane)> {
        match self.links.get(&link)?.destination {
            Destination::Node(node, lane) => Some((node, lane)),
            Destination::Bootstrap(_) => None,
        }
    }

    /// `host:port` of a link.
    pub(super) fn address_of(&self, link: LinkId) -> Option<String> {
        self.links.get(&link).map(Link::address)
    }

    /// Why the broker cannot be reached at the moment, if an attempt failed.
    pub(super) fn failure_of(&self, node: i32, lane: Lane) -> Option<&Error> {
        self.failures
            .get(&Destination::Node(node, lane))
            .map(|failure| &failure.cause)
    }

    /// The least busy link that is up and answers at once, if possible one that is not throttled.
    pub(super) fn least_busy(&self) -> Option<LinkId> {
        self.links
            .iter()
            .filter(|(_, link)| link.is_up() && link.is_for_control())
            .min_by_key(|(_, link)| {
                let requests = link.in_flight.len() + link.queue.len();
                (link.throttled_until.is_some(), requests)
            })
            .map(|(id, _)| *id)
    }

    pub(super) fn contains(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    /// Whether any broker can take a request at once.
    pub(super) fn is_connected(&self) -> bool {
        self.links.values().any(Link::is_up)
    }

    fn is_up(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(Link::is_up)
    }

    // --- dialling

    /// Dials one of `nodes`, or else the next bootstrap address, unless a dial has just begun.
    pub(super) fn dial_any(
        &mut self,
        now: Instant,
        context: &mut Context,
        nodes: impl Iterator<Item = (i32, Address)>,
    ) {
        for link in self.links.values().filter(|link| link.is_for_control()) {
            if let State::Dialing { since } = link.state {
                let patience = since + IMPATIENCE;
                if now < patience {
                    context.set_alarm(patience);
                    return;
                }
            }
        }
        let ready: Vec<_> = nodes
            .map(|(node, address)| (Destination::Node(node, Lane::Control), address))
            .filter(|(destination, _)| {
                !self.by_destination.contains_key(destination)
                    && self.may_dial(now, context, *destination)
            })
            .collect();
        let chosen = context.random.below(ready.len());
        if let Some((destination, address)) = ready.into_iter().nth(chosen) {
            self.dial(now, context, destination, address);
            return;
        }
        let count = context.config.bootstrap.len();
        for step in 0..count {
            let index = (self.next_bootstrap + step) % count;
            let destination = Destination::Bootstrap(index);
            if self.by_destination.contains_key(&destination)
                || !self.may_dial(now, context, destination)
            {
                continue;
            }
            if let Some((host, port)) = context.config.bootstrap.get(index).cloned() {
                self.next_bootstrap = (index + 1) % count;
                self.dial(now, context, destination, Address { host, port });
                return;
            }
        }
    }

    /// Whether the pause after the last failure is over; if not, asks to be called when it is.
    fn may_dial(&self, now: Instant, context: &mut Context, destination: Destination) -> bool {
        match self
            .failures
            .get(&destination)
            .map(|failure| failure.retry_at)
        {
            Some(retry_at) if retry_at > now => {
                context.set_alarm(retry_at);
                false
            }
            _ => true,
        }
    }

    fn dial(
        &mut self,
        now: Instant,
        context: &mut Context,
        destination: Destination,
        Address { host, port }: Address,
    ) {
        if self.closed {
            return;
        }
        let failures = self.failures_at(destination);
        let doubled = context
            .config
            .setup_timeout
            .saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        let timeout = doubled.min(context.config.setup_timeout_max);
        self.first_dial.get_or_insert(now);
        context.set_alarm(now + IMPATIENCE);
        let link = LinkId(self.fresh_id());
        self.actions.push_back(Action::Dial {
            link,
            host: host.clone(),
            port,
            timeout,
        });
        self.by_destination.insert(destination, link);
        self.links.insert(
            link,
            Link {
                destination,
                host,
                port,
                state: State::Dialing { since: now },
                queue: VecDeque::new(),
                in_flight: VecDeque::new(),
                woken: false,
                throttled_until: None,
            },
        );
    }

    fn failures_at(&self, destination: Destination) -> u32 {
        self.failures
            .get(&destination)
            .map_or(0, |failure| failure.count)
    }

    // --- beginnings and ends

    pub(super) fn set_up(
        &mut self,
        now: Instant,
        context: &mut Context,
        id: LinkId,
        versions: Versions,
    ) {
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let took = match link.state {
            State::Dialing { since } => now.saturating_duration_since(since),
            State::Up(_) => Duration::ZERO,
        };
        link.state = State::Up(versions);
        self.failures.remove(&link.destination);
        self.ever_up = true;
        context.observer.tell(Observed::Connected {
            broker: link.address(),
            node: match link.destination {
                Destination::Node(node, _) => Some(node),
                Destination::Bootstrap(_) => None,
            },
            took,
        });
    }

    /// The connection broke, or could not be made.
    pub(super) fn set_down(
        &mut self,
        now: Instant,
        context: &mut Context,
        id: LinkId,
        cause: &Error,
    ) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let (destination, broker, was_up) = (link.destination, link.address(), link.is_up());
        let failed = if was_up {
            0
        } else {
            self.failures_at(destination)
        };
        let cause = cause.clone().at(&broker);
        let failures = failed.saturating_add(1);
        let pause = context.reconnect_pause(failures);
        context.observer.tell(if was_up {
            Observed::Disconnected {
                broker,
                cause: cause.clone(),
            }
        } else {
            Observed::ConnectFailed {
                broker,
                cause: cause.clone(),
                failures,
                pause,
            }
        });
        self.failures.insert(
            destination,
            Failure {
                count: failures,
                retry_at: now + pause,
                cause: cause.clone(),
            },
        );
        self.remove(id, &cause);
    }

    fn close(&mut self, id: LinkId, cause: &Error) {
        self.actions.push_back(Action::Close(id));
        self.remove(id, cause);
    }

    fn remove(&mut self, id: LinkId, cause: &Error) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        self.by_destination.remove(&link.destination);
        let in_flight = link
            .in_flight
            .into_iter()
            .map(|request| (request.token, request.owner, true));
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
    pub(super) fn close_all(&mut self, cause: &Error) {
        self.closed = true;
        let ids: Vec<_> = self.links.keys().copied().collect();
        for id in ids {
            self.close(id, cause);
        }
    }

    /// Closes links to brokers that left or moved. A bootstrap link that `answered` is a broker's own if the addresses agree.
    pub(super) fn settle(&mut self, answered: LinkId, nodes: &[(i32, &str, u16)]) {
        let moved = Error::new(
            Kind::Unreachable,
            "the broker left the cluster or moved to another address",
        );
        let homeless: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| match link.destination {
                Destination::Node(id, _) => !nodes.contains(&(id, link.host.as_str(), link.port)),
                Destination::Bootstrap(_) => false,
            })
            .map(|(id, _)| *id)
            .collect();
        for id in homeless {
            self.close(id, &moved);
        }
        let Some(link) = self.links.get_mut(&answered) else {
            return;
        };
        let Destination::Bootstrap(_) = link.destination else {
            return;
        };
        let adopted = nodes
            .iter()
            .find(|(_, host, port)| *host == link.host && *port == link.port)
            .map(|(id, ..)| Destination::Node(*id, Lane::Control))
            .filter(|destination| !self.by_destination.contains_key(destination));
        match adopted {
            Some(destination) => {
                self.by_destination.remove(&link.destination);
                self.by_destination.insert(destination, answered);
                link.destination = destination;
            }
            None if link.queue.is_empty() && link.in_flight.is_empty() => {
                let unused = Error::new(Kind::Unreachable, "the connection is not needed any more");
                self.close(answered, &unused);
            }
            None => {}
        }
    }

    // --- requests

    /// Queues a request; its answer, or its failure, comes with the token returned.
    pub(super) fn ask(
        &mut self,
        link: LinkId,
        owner: Owner,
        request: Request,
        timeout: Duration,
    ) -> u64 {
        let token = self.fresh_id();
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
            None => self.orphans.push_back(Orphan {
                token,
                owner,
                error: Error::new(Kind::Unreachable, "the connection is gone"),
                sent: false,
            }),
        }
        token
    }

    /// Takes requests back that were not sent yet.
    pub(super) fn withdraw(&mut self, tokens: &[u64]) {
        for link in self.links.values_mut() {
            link.queue.retain(|queued| !tokens.contains(&queued.token));
        }
    }

    /// A number that was never given before: a token, or a link's.
    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Makes the shell look for something to send on `link`.
    pub(super) fn wake(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            if !entry.woken && entry.is_up() {
                entry.woken = true;
                self.actions.push_back(Action::Wake(link));
            }
        }
    }

    /// The shell looks again without being told; until then nothing needs to wake it.
    pub(super) fn not_woken(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.woken = false;
        }
    }

    /// Whether the broker's pause on this link goes on; if so, asks to be called when it is over.
    pub(super) fn is_throttled(&self, now: Instant, context: &mut Context, link: LinkId) -> bool {
        let until = self.links.get(&link).and_then(|link| link.throttled_until);
        until.is_some_and(|until| {
            if until > now {
                context.set_alarm(until);
            }
            until > now
        })
    }

    /// Wakes links whose pause is over.
    pub(super) fn end_pauses(&mut self, now: Instant, context: &mut Context) {
        let mut over = Vec::new();
        for (id, link) in &mut self.links {
            match link.throttled_until {
                Some(until) if until <= now => {
                    link.throttled_until = None;
                    over.push(*id);
                }
                Some(until) => context.set_alarm(until),
                None => {}
            }
        }
        for link in over {
            self.wake(link);
        }
    }

    /// Keeps the pause that the broker asked for in an answer (KIP-219).
    pub(super) fn throttle(
        &mut self,
        now: Instant,
        context: &mut Context,
        link: LinkId,
        api: &'static str,
        pause: Duration,
    ) {
        let Some(entry) = self.links.get_mut(&link) else {
            return;
        };
        let until = now + pause.min(LONGEST_THROTTLE);
        entry.throttled_until = Some(entry.throttled_until.map_or(until, |at| at.max(until)));
        context.set_alarm(until);
        context.observer.tell(Observed::Throttled {
            broker: entry.address(),
            api,
            pause,
        });
    }

    /// The next queued request of `link`.
    pub(super) fn next_queued(&mut self, now: Instant, link: LinkId) -> Next {
        let Some(entry) = self.links.get_mut(&link) else {
            return Next::Nothing;
        };
        let State::Up(versions) = &entry.state else {
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
                entry.in_flight.push_back(InFlight {
                    token,
                    owner,
                    api: request.api(),
                    version,
                    sent: now,
                });
                Next::Send(Outgoing {
                    token,
                    request,
                    version,
                    timeout,
                    answered: true,
                    expected_bytes: 0,
                })
            }
            Err(error) => Next::Unsupported(Orphan {
                token,
                owner,
                error: error.at(entry.address()),
                sent: false,
            }),
        }
    }

    /// The version of `api` to use on `link`, at most `cap`.
    pub(super) fn version(&self, link: LinkId, api: ApiKey, cap: i16) -> Result<i16, Error> {
        match self.links.get(&link).map(|link| (link, &link.state)) {
            Some((link, State::Up(versions))) => versions
                .choose(api, cap)
                .map_err(|error| error.at(link.address())),
            _ => Err(Error::new(Kind::Unreachable, "the connection is not up")),
        }
    }

    /// Notes a request that its owner dispatched itself.
    pub(super) fn sent(
        &mut self,
        link: LinkId,
        token: u64,
        owner: Owner,
        api: ApiKey,
        version: i16,
        now: Instant,
    ) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.in_flight.push_back(InFlight {
                token,
                owner,
                api,
                version,
                sent: now,
            });
        }
    }

    /// The owner of an answered request, and the version of both.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        context: &mut Context,
        link: LinkId,
        token: u64,
    ) -> Option<(Owner, i16)> {
        let entry = self.links.get_mut(&link)?;
        let request = entry.take(token)?;
        if context.observer.wants(Level::Debug) {
            context.observer.tell(Observed::Answered {
                broker: entry.address(),
                api: request.api.name(),
                took: now.saturating_duration_since(request.sent),
            });
        }
        Some((request.owner, request.version))
    }

    /// The owner of a request that has no answer.
    pub(super) fn unanswered(&mut self, link: LinkId, token: u64) -> Option<Owner> {
        Some(self.links.get_mut(&link)?.take(token)?.owner)
    }

    pub(super) fn poll_orphan(&mut self) -> Option<Orphan> {
        self.orphans.pop_front()
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    // --- what to tell a caller whose deadline passed

    /// Why no broker can take a request at the moment: each address tried, and what happened. `None` if one is
    /// connected.
    pub(super) fn trouble(&self, context: &Context) -> Option<Error> {
        if self.is_connected() {
            return None;
        }
        if !self.failures.is_empty() {
            let kind = if self.is_hopeless(context) {
                Kind::NotKafka
            } else {
                Kind::Unreachable
            };
            return Some(Error::new(
                kind,
                format!("no broker could be reached: {}", self.causes()),
            ));
        }
        let dialing: Vec<_> = self.links.values().map(Link::address).collect();
        let text = match (dialing.is_empty(), context.config.bootstrap.first()) {
            (false, _) => format!(
                "still connecting to {}, no answer so far",
                dialing.join(", ")
            ),
            (true, Some((host, port))) => format!("not connected to {host}:{port}"),
            (true, None) => "not connected".to_owned(),
        };
        Some(Error::new(Kind::Unreachable, text))
    }

    /// The errors of the addresses that failed, the first three of them.
    fn causes(&self) -> String {
        let mut causes: Vec<String> = Vec::new();
        for cause in self.failures.values().map(|failure| &failure.cause) {
            let text = format!("{}: {}", cause.broker().unwrap_or("?"), cause.message());
            if !causes.contains(&text) {
                causes.push(text);
            }
        }
        let more = causes.len().saturating_sub(3);
        causes.truncate(3);
        let mut text = causes.join("; ");
        if more > 0 {
            text.push_str(&format!("; and {more} more"));
        }
        text
    }

    /// Whether the first connection is being made, for less than a moment, and nothing is wrong so far.
    pub(super) fn is_starting(&self, now: Instant) -> bool {
        let just_begun = self.first_dial.is_none_or(|at| now < at + IMPATIENCE);
        !self.ever_up && self.failures.is_empty() && just_begun
    }

    /// Whether waiting cannot help: every address given is answered by something that is not a broker.
    pub(super) fn is_hopeless(&self, context: &Context) -> bool {
        !self.ever_up
            && (0..context.config.bootstrap.len()).all(|index| {
                self.failures
                    .get(&Destination::Bootstrap(index))
                    .is_some_and(|failure| failure.cause.kind() == Kind::NotKafka)
            })
    }
}
