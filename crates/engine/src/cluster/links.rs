//! Connections: which there are, what is queued on them, and which failed.
//!
//! ```text
//!  dial ──▶ Dialing ── versions known ──▶ Up ── broken, or not wanted any more ──▶ gone
//!              └──────── failed ──▶ gone; the destination pauses, longer with each failure
//! ```
//!
//! A request is queued on a link by its owner and carried by it in order. If the link breaks, each owner gets its tokens back
//! as orphans, with the cause. A broker that throttles the client (KIP-219) gets nothing more on that link until the pause
//! is over.

mod idle;
mod requests;
mod trouble;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ApiKey;
use rustc_hash::FxHashMap;

use super::advertised::Advertised;
use super::context::Context;
use super::eras::Eras;
use super::target::{Destination, Expected, Lane, LinkId, Owner};
use crate::api::{Request, Versions};
use crate::config::SecurityProtocol;
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::release::Approach;

/// If a bootstrap address does not respond for this long, the next one is tried as well.
pub(super) const IMPATIENCE: Duration = Duration::from_secs(1);

/// The first version of ApiVersions that names the intended receiver of the connection.
const CHECKS: i16 = 5;

/// A task of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect, negotiate, and report the result as this link's.
    Dial(LinkId, Box<Dial>),
    /// Look for something to send on this link.
    Wake(LinkId),
    /// Close the connection; nothing more needs to be said about it.
    Close(LinkId),
}

/// A connection to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// How to negotiate.
    pub approach: Approach,
    /// Whether the user gave this address; else the cluster did.
    pub is_bootstrap: bool,
    /// The intended receiver, if the cluster's brokers check it.
    pub expected: Option<Expected>,
    /// For dialling and negotiation together.
    pub timeout: Duration,
}

/// The next request that is queued on a link.
#[derive(Debug)]
pub(crate) enum Next {
    Send(Box<Outgoing>),
    /// The broker does not support a version that is needed.
    Unsupported(Orphan),
    Nothing,
}

/// A request that will get no response.
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
        self.error.is_final()
            || matches!(
                self.error.kind(),
                Kind::Unreachable | Kind::Unresolved | Kind::Protocol
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
    /// The highest version that it may be sent at.
    most: i16,
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
    /// The broker throttles the client until then.
    throttled_until: Option<Instant>,
    /// When a request was last sent or a response received, or the connection made.
    used: Instant,
    /// The version of the credentials when it was dialled.
    credentials: u64,
}

impl Link {
    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// The number of the broker, as metrics name it; below 0 for an address that the user gave.
    fn number(&self) -> i32 {
        match self.destination {
            Destination::Node(node, _) => node,
            Destination::Bootstrap(index) => {
                i32::try_from(index).map_or(i32::MIN, |index| -1 - index)
            }
        }
    }

    /// Removes a request from those in flight.
    fn take(&mut self, token: u64) -> Option<InFlight> {
        let at = self
            .in_flight
            .iter()
            .position(|request| request.token == token)?;
        self.in_flight.remove(at)
    }

    /// Whether it carries requests to which brokers respond at once.
    fn is_for_control(&self) -> bool {
        matches!(
            self.destination,
            Destination::Bootstrap(_) | Destination::Node(_, Lane::Control)
        )
    }

    /// Whether no request is in flight on it or waits for it.
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }
}

#[derive(Debug)]
struct Failure {
    count: u32,
    /// How many of the last failures in a row were refusals.
    refusals: u32,
    at: Instant,
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
    /// The version of the credentials that the refusals among the failures are of.
    credentials: u64,
    /// Brokers of the cluster that do not accept the client, and that were reported as such.
    refusing: BTreeSet<i32>,
    next_id: u64,
    next_bootstrap: usize,
    ever_up: bool,
    /// A broker was connected at the address that the cluster advertises for it.
    in_contact: bool,
    /// Addresses that cannot be connected to, and when a warning said so last.
    warned: FxHashMap<String, Instant>,
    first_dial: Option<Instant>,
    pub(super) eras: Eras,
    /// The broker that was connected to last, and its versions.
    last_up: Option<(String, Versions)>,
    /// When to look for idle connections next.
    idle_at: Option<Instant>,
    /// When the first throttle time ends, or earlier.
    pause_ends: Option<Instant>,
    advertised: Advertised,
    cluster_id: Option<Arc<str>>,
    /// A broker of the cluster can check whether a connection is meant for it (ApiVersions 5).
    can_check: bool,
    /// The newest features that a broker reported: their epoch, and the level of
    /// `transaction.version`.
    transactions: Option<(i64, i16)>,
    /// The DNS did not know any bootstrap server for `bootstrap.resolve.timeout.ms`.
    unresolved: bool,
    actions: VecDeque<Action>,
    orphans: VecDeque<Orphan>,
    /// No connection is dialled any more.
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

    /// The finalized level of `transaction.version`; 0 where brokers report none.
    pub(super) fn transaction_version(&self) -> i16 {
        self.transactions.map_or(0, |(_, level)| level)
    }

    /// A link to this destination that is up; dials its address if there is no link and the pause is over.
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
        if self.may_dial(now, context, destination)
            && let Some(address) = address()
        {
            self.dial(now, context, destination, address);
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

    /// The number of the broker that a link leads to, as metrics name it.
    pub(super) fn number_of(&self, link: LinkId) -> Option<i32> {
        self.links.get(&link).map(Link::number)
    }

    /// How many connections are up, and how many requests have no response yet.
    pub(super) fn counts(&self) -> (usize, usize) {
        let links = self.links.values();
        let up = links.clone().filter(|link| link.is_up()).count();
        (up, links.map(|link| link.in_flight.len()).sum())
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

    /// Why the broker and this client do not accept each other, if that was found at `since` or later.
    pub(super) fn refusal_of(&self, node: i32, lane: Lane, since: Instant) -> Option<&Error> {
        let failure = self.failures.get(&Destination::Node(node, lane));
        failure
            .filter(|failure| failure.at >= since && failure.cause.is_refusal())
            .map(|failure| &failure.cause)
    }

    /// The least busy link that is up and is for control requests, if possible one that is not
    /// throttled.
    pub(super) fn least_busy(&self) -> Option<LinkId> {
        self.least_busy_but(&[])
    }

    /// As [`Links::least_busy`], but none of these.
    pub(super) fn least_busy_but(&self, but: &[LinkId]) -> Option<LinkId> {
        self.links
            .iter()
            .filter(|(id, link)| link.is_up() && link.is_for_control() && !but.contains(id))
            .min_by_key(|(_, link)| {
                let requests = link.in_flight.len() + link.queue.len();
                (link.throttled_until.is_some(), requests)
            })
            .map(|(id, _)| *id)
    }

    /// The least busy link that is up and whose broker supports this API, if possible one for
    /// control requests.
    pub(super) fn that_speaks(&self, api: ApiKey) -> Option<LinkId> {
        let speaks = |link: &Link| match &link.state {
            State::Up(versions) => versions.choose(api, i16::MAX).is_ok(),
            State::Dialing { .. } => false,
        };
        self.links
            .iter()
            .filter(|(_, link)| speaks(link))
            .min_by_key(|(_, link)| {
                let requests = link.in_flight.len() + link.queue.len();
                (!link.is_for_control(), requests)
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
        let mut knows_brokers = false;
        let ready: Vec<_> = nodes
            .inspect(|_| knows_brokers = true)
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
        if knows_brokers && !context.config.rebootstrap {
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

    /// Forgets that brokers refused the client, once its credentials are other ones: they may be accepted, and at once.
    pub(super) fn follow_credentials(&mut self, context: &Context) {
        if self.has_other_credentials(context) {
            self.credentials = context.config.credentials.version();
            self.failures
                .retain(|_, failure| !failure.cause.is_refusal());
        }
    }

    /// Whether the failures are of credentials that were replaced.
    fn has_other_credentials(&self, context: &Context) -> bool {
        self.credentials != context.config.credentials.version()
    }

    /// Whether the pause after the last failure is over; if not, sets the alarm for its end.
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
        let timeout = context.setup_timeout(self.failures_at(destination));
        self.first_dial.get_or_insert(now);
        context.set_alarm(now + IMPATIENCE);
        let link = LinkId(self.fresh_id());
        let approach = self
            .eras
            .approach(now, &context.config, &format!("{host}:{port}"));
        let dial = Dial {
            host: host.clone(),
            port,
            approach,
            is_bootstrap: matches!(destination, Destination::Bootstrap(_)),
            expected: self.expected(context, destination),
            timeout,
        };
        self.actions.push_back(Action::Dial(link, Box::new(dial)));
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
                used: now,
                credentials: context.config.credentials.version(),
            },
        );
    }

    fn expected(&self, context: &Context, destination: Destination) -> Option<Expected> {
        let Destination::Node(node, _) = destination else {
            return None;
        };
        let config = &context.config;
        let checks = self.can_check && config.rebootstrap && config.cluster_check;
        let cluster_id = self.cluster_id.as_ref().filter(|_| checks)?;
        Some(Expected {
            cluster_id: Arc::clone(cluster_id),
            node,
        })
    }

    /// Sets the id of the cluster, if that is known.
    pub(super) fn set_cluster(&mut self, id: Option<&str>) {
        if self.cluster_id.as_deref() != id {
            self.cluster_id = id.map(Arc::from);
        }
    }

    fn failures_at(&self, destination: Destination) -> u32 {
        self.failures
            .get(&destination)
            .map_or(0, |failure| failure.count)
    }

    fn refusals_at(&self, destination: Destination) -> u32 {
        self.failures
            .get(&destination)
            .map_or(0, |failure| failure.refusals)
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
        self.can_check |= versions.highest(ApiKey::ApiVersions) >= Some(CHECKS);
        self.transactions = self.transactions.max(versions.transactions());
        self.last_up = Some((link.address(), versions.clone()));
        let doubted = if versions.is_assumed() {
            self.eras.authenticated(now, context, &link.address());
            Vec::new()
        } else {
            self.eras.told(&context.config, &link.address())
        };
        link.state = State::Up(versions);
        link.used = now;
        self.failures.remove(&link.destination);
        self.warned.remove(&link.address());
        if let Destination::Node(node, _) = link.destination {
            self.refusing.remove(&node);
            self.in_contact = true;
        }
        self.ever_up = true;
        self.unresolved = false;
        self.advertised.reached(&link.host, link.port);
        if let Some(most) = context.config.idle_max {
            self.idle_at.get_or_insert(now + most);
        }
        let at = context.meters.at(now);
        context.meters.network.opened.count(&at);
        if context.config.security_protocol != SecurityProtocol::Plaintext {
            context.meters.network.authenticated.count(&at);
        }
        context.observer.tell(Observed::Connected {
            broker: link.address(),
            node: match link.destination {
                Destination::Node(node, _) => Some(node),
                Destination::Bootstrap(_) => None,
            },
            took,
        });
        for address in doubted {
            self.close_assumed(now, context, &address);
        }
    }

    /// Closes the links to a broker whose versions were assumed.
    fn close_assumed(&mut self, now: Instant, context: &mut Context, address: &str) {
        let text = "another broker reported its versions, so that this one is probably not as old as it looked: it is probed again";
        let cause = Error::new(Kind::Unreachable, text).at(address);
        self.close_where(now, context, &cause, |link| {
            link.address() == address
                && matches!(&link.state, State::Up(versions) if versions.is_assumed())
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
        let mut cause = self.eras.explain(&context.config, &broker, cause);
        if cause.is_refusal() && link.credentials != context.config.credentials.version() {
            // It may be of the credentials before: the next attempt shows.
            cause = cause.wrap(Kind::Unreachable, "the credentials were replaced");
        }
        if cause.is_refusal() {
            context.meters.refused(now, was_up);
        }
        if !was_up && self.eras.learn(now, context, &broker, &cause) {
            // The next connection knows better how to begin.
            let failure = Failure {
                count: failed,
                refusals: 0,
                at: now,
                retry_at: now,
                cause: cause.clone(),
            };
            self.failures.insert(destination, failure);
            return self.remove(now, context, id, &cause);
        }
        if let (false, Destination::Node(node, _)) = (was_up, destination) {
            let (host, port) = (&link.host, link.port);
            cause = self
                .advertised
                .explain(&context.config, cause, node, host, port);
        }
        let failures = failed.saturating_add(1);
        let refusals = if cause.is_refusal() {
            self.refusals_at(destination).saturating_add(1)
        } else {
            0
        };
        let pause = context.reconnect_pause(failures);
        let warns = !was_up && self.warns(now, &broker);
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
                warns,
            }
        });
        self.failures.insert(
            destination,
            Failure {
                count: failures,
                refusals,
                at: now,
                retry_at: now + pause,
                cause: cause.clone(),
            },
        );
        self.tell_refusal(context, destination);
        self.remove(now, context, id, &cause);
        self.note_unresolved(now, context);
    }

    /// Closes every link to a broker of the cluster, and forgets what is known about the brokers:
    /// the next dial is of a bootstrap server.
    pub(super) fn begin_again(&mut self, now: Instant, context: &mut Context, cause: &Error) {
        self.close_where(now, context, cause, |link| {
            matches!(link.destination, Destination::Node(..))
        });
        self.failures
            .retain(|destination, _| matches!(destination, Destination::Bootstrap(_)));
        self.refusing.clear();
    }

    fn close_where(
        &mut self,
        now: Instant,
        context: &mut Context,
        cause: &Error,
        wanted: impl Fn(&Link) -> bool,
    ) {
        let links = self.links.iter();
        let ids: Vec<_> = links
            .filter(|(_, link)| wanted(link))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.close(now, context, id, cause);
        }
    }

    fn close(&mut self, now: Instant, context: &mut Context, id: LinkId, cause: &Error) {
        self.actions.push_back(Action::Close(id));
        self.remove(now, context, id, cause);
    }

    fn remove(&mut self, now: Instant, context: &mut Context, id: LinkId, cause: &Error) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        if link.is_up() {
            let at = context.meters.at(now);
            context.meters.network.closed.count(&at);
        }
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

    /// Closes every link.
    pub(super) fn close_all(&mut self, now: Instant, context: &mut Context, cause: &Error) {
        self.closed = true;
        self.close_where(now, context, cause, |_| true);
    }

    /// Takes in the brokers of the cluster, as returned by the broker of `answered`. A bootstrap
    /// link becomes the link of a broker if the addresses agree.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        context: &mut Context,
        answered: LinkId,
        nodes: &[(i32, &str, u16)],
    ) {
        self.follow(now, context, nodes);
        let Some(link) = self.links.get_mut(&answered) else {
            return;
        };
        self.advertised.told(link.address(), nodes);
        self.adopt(now, context, answered, nodes);
    }

    /// Closes links to brokers that left or moved, and forgets why they could not be reached.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        context: &mut Context,
        nodes: &[(i32, &str, u16)],
    ) {
        self.failures.retain(|destination, _| match destination {
            Destination::Node(id, _) => nodes.iter().any(|(known, ..)| known == id),
            Destination::Bootstrap(_) => true,
        });
        self.refusing
            .retain(|id| nodes.iter().any(|(known, ..)| known == id));
        let moved = Error::new(
            Kind::Unreachable,
            "the broker left the cluster or moved to another address",
        );
        self.close_where(now, context, &moved, |link| match link.destination {
            Destination::Node(id, _) => !nodes.contains(&(id, link.host.as_str(), link.port)),
            Destination::Bootstrap(_) => false,
        });
    }

    fn adopt(
        &mut self,
        now: Instant,
        context: &mut Context,
        answered: LinkId,
        nodes: &[(i32, &str, u16)],
    ) {
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
                self.in_contact = true;
            }
            None if link.is_idle() => {
                let unused = Error::new(Kind::Unreachable, "the connection is not needed any more");
                self.close(now, context, answered, &unused);
            }
            None => {}
        }
    }

    pub(super) fn poll_orphan(&mut self) -> Option<Orphan> {
        self.orphans.pop_front()
    }

    #[inline]
    pub(super) fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
