//! The cluster as one client sees it: connections, the view of who leads what, coordinators.
//!
//! * `advertised`: the addresses that brokers advertise, and the errors when they cannot be reached
//! * `links`: connections, and what is queued on them
//! * `target`: where a connection leads, and whose requests go over it
//! * `eras`: brokers that do not return their versions, and their age as it was found out
//! * `refresh`: when the view is refreshed, and for which topics
//! * `coordinators`: which broker coordinates a group or a transaction
//! * `context`: settings, chance, the alarm, and who listens

mod advertised;
mod context;
mod coordinators;
mod eras;
mod links;
mod refresh;
mod target;
#[cfg(test)]
mod tests;
mod topic_refusals;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::messages::{FindCoordinatorResponse, MetadataResponse};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

pub(crate) use self::context::Context;
pub(crate) use self::coordinators::Coordinator;
use self::coordinators::Coordinators;
pub use self::links::{Action, Dial};
use self::links::{Address, Links};
pub(crate) use self::links::{Next, Orphan};
pub(crate) use self::refresh::HEARD;
use self::refresh::Refresh;
use self::target::Destination;
pub use self::target::{CoordinatorType, Expected, LinkId};
pub(crate) use self::target::{Lane, Owner, PartId};
pub(crate) use self::topic_refusals::{TopicRefusals, is_denial};
use crate::api::{Request, Versions};
use crate::change::Change;
use crate::config::Config;
use crate::error::{Error, Kind};
use crate::metadata::{Metadata, Node};
use crate::observe::Observed;
use crate::random::Random;

/// What all parts of a client share.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) context: Context,
    links: Links,
    view: Metadata,
    view_version: u64,
    known_version: u64,
    refresh: Refresh,
    coordinators: Coordinators,
}

fn addresses(view: &Metadata) -> Vec<(i32, &str, u16)> {
    view.nodes()
        .map(|node| (node.id, node.host.as_str(), node.port))
        .collect()
}

fn address(node: &Node) -> Address {
    Address {
        host: node.host.clone(),
        port: node.port,
    }
}

impl Cluster {
    pub(crate) fn new(config: Arc<Config>, seed: u64) -> Cluster {
        let mut context = Context::new(config, seed);
        Cluster {
            links: Links::new(&mut context),
            context,
            view: Metadata::default(),
            view_version: 0,
            known_version: 0,
            refresh: Refresh::default(),
            coordinators: Coordinators::default(),
        }
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.context.config
    }

    /// Set an alarm for `at`. An earlier alarm stays.
    pub(crate) fn set_alarm(&mut self, at: Instant) {
        self.context.set_alarm(at);
    }

    /// The pause before a request or a batch is sent again, after `failures` failures in a row.
    pub(crate) fn retry_pause(&mut self, failures: u32) -> Duration {
        self.context.retry_pause(failures)
    }

    /// Does what is due. To be called after anything happened.
    pub(crate) fn pump(&mut self, now: Instant) {
        self.links.follow_credentials(&self.context);
        self.links.end_pauses(now, &mut self.context);
        self.links.close_idle(now, &mut self.context);
        self.pump_requests(now);
    }

    /// Requests what is due. To be called after a topic or a coordinator may have become wanted.
    pub(crate) fn pump_requests(&mut self, now: Instant) {
        self.pump_view(now);
        self.pump_coordinators(now);
    }

    // --- the view

    pub(crate) fn view(&self) -> &Metadata {
        &self.view
    }

    /// The view, and what chooses among brokers that are as good as each other.
    pub(crate) fn view_and_random(&mut self) -> (&Metadata, &mut Random) {
        (&self.view, &mut self.context.random)
    }

    /// Grows whenever the view may have changed.
    pub(crate) fn view_version(&self) -> u64 {
        self.view_version
    }

    /// Grows whenever what was in the view may have changed, so not when topics come that were
    /// [requested alone](Cluster::ask_for_new_topics_alone).
    pub(crate) fn known_version(&self) -> u64 {
        self.known_version
    }

    fn changed(&mut self) {
        self.view_version += 1;
        self.known_version += 1;
    }

    /// Takes in a leader and its epoch that a response hinted at (KIP-951), for the topic of this name and id.
    pub(crate) fn hint(&mut self, topic: (&str, Uuid), partition: i32, leader: (i32, i32)) {
        let observer = &mut self.context.observer;
        self.view.hint(topic, partition, leader, observer);
        self.changed();
    }

    /// Take in the brokers that a Produce or Fetch response lists next to its leader hints: id,
    /// host and port (KIP-951).
    pub(crate) fn meet<'a>(
        &mut self,
        now: Instant,
        brokers: impl Iterator<Item = (i32, &'a str, i32)>,
    ) {
        let mut moved = false;
        for node in brokers.filter_map(|(id, host, port)| Node::new(id, host, port, None)) {
            let known = self.view.node(node.id);
            if known.is_none_or(|known| (&known.host, known.port) != (&node.host, node.port)) {
                self.view.meet(node);
                moved = true;
            }
        }
        if moved {
            let nodes = addresses(&self.view);
            self.links.follow(now, &mut self.context, &nodes);
            self.changed();
        }
    }

    /// Keeps `topic` in the view until as many calls of [`Cluster::unwant`].
    pub(crate) fn want(&mut self, now: Instant, topic: &Arc<str>) {
        self.refresh.want(now, topic);
    }

    pub(crate) fn unwant(&mut self, topic: &str) {
        self.refresh.unwant(topic);
    }

    /// Refresh until the metadata contains this partition of a wanted topic, or until
    /// [`Cluster::unwant_partition`] was called as often as this method.
    pub(crate) fn want_partition(&mut self, now: Instant, topic: &Arc<str>, partition: i32) {
        let context = &mut self.context;
        self.refresh.want_partition(now, context, topic, partition);
    }

    pub(crate) fn unwant_partition(&mut self, topic: &Arc<str>, partition: i32) {
        self.refresh.unwant_partition(topic, partition);
    }

    /// Whether requests for metadata may create wanted topics that are not there, if the settings allow it.
    pub(crate) fn set_may_create(&mut self, may_create: bool) {
        self.refresh.set_may_create(may_create);
    }

    /// From now on metadata of a new topic is requested alone (KIP-526).
    pub(crate) fn ask_for_new_topics_alone(&mut self) {
        self.refresh.set_asks_for_new_alone();
    }

    /// Request metadata again, after a pause since the last request, because it turned out to be
    /// old.
    pub(crate) fn refresh(&mut self, now: Instant) {
        self.refresh.request(now, &mut self.context);
    }

    /// Makes sure that the brokers are known, if no request was ever sent.
    pub(crate) fn need_view(&mut self, now: Instant) {
        if self.view.nodes().next().is_none() {
            self.refresh.request_first(now);
        }
    }

    /// Why the metadata is old or empty, if the last request for it failed.
    pub(crate) fn refresh_error(&self) -> Option<&Error> {
        self.refresh.error()
    }

    /// Whether the view was requested at `since` or later.
    pub(crate) fn is_fresh(&self, since: Instant) -> bool {
        self.refresh.is_fresh(since)
    }

    /// Whether it is proven that the topic is not there, as of `since` or later.
    pub(crate) fn is_absent(&self, topic: &str, since: Instant) -> bool {
        self.refresh.is_absent(topic, since)
    }

    /// This client made a topic: who does not know it has not heard of it yet.
    pub(crate) fn note_created(&mut self, now: Instant, topic: &str) {
        self.refresh.note_created(now, topic);
    }

    /// Who gave the view may not have heard of what came since: another broker is asked next, if a connection to one is up.
    pub(crate) fn doubt_view(&mut self) {
        self.refresh.doubt();
    }

    /// This client deleted a topic.
    pub(crate) fn note_deleted(&mut self, topic: &str) {
        self.refresh.note_deleted(topic);
    }

    /// Whether this client made the topic, so lately that brokers may not have heard of it.
    pub(crate) fn has_created(&self, now: Instant, topic: &str) -> bool {
        self.refresh.has_created(now, topic)
    }

    fn pump_view(&mut self, now: Instant) {
        let known = self.view.nodes().next().is_some();
        if let Some(cause) = self.refresh.gives_up(now, &mut self.context, known) {
            self.begin_again(now, &cause);
        }
        if !self.refresh.is_due(now, &mut self.context) {
            return;
        }
        let another = match self.refresh.doubted() {
            Some(link) => self.another_link(now, &[link]),
            None => None,
        };
        let Some(link) = another.or_else(|| self.any_link(now)) else {
            return;
        };
        let request = Request::Metadata(self.refresh.question(now, &self.context));
        let token = self.ask(link, Owner::View, request);
        self.refresh.set_asked(now, token, link);
    }

    /// Take in a metadata response that arrived over `link`.
    pub(crate) fn handle_metadata(
        &mut self,
        now: Instant,
        link: LinkId,
        answer: &MetadataResponse,
    ) {
        let code = ErrorCode(answer.error_code);
        if code == ErrorCode::REBOOTSTRAP_REQUIRED {
            self.begin_again(now, &Error::from_code(code, None).calling("Metadata"));
        }
        let problem = if code.is_error() {
            Some(Error::from_code(code, None))
        } else if answer.brokers.is_empty() {
            let text = "the response names no brokers";
            Some(Error::new(Kind::Protocol, text))
        } else {
            None
        };
        if let Some(mut error) = problem {
            if let Some(address) = self.address_of(link) {
                error = error.at(address);
            }
            return self.refresh_failed(now, error);
        }
        let version = self.version(link, ApiKey::Metadata, i16::MAX).unwrap_or(0);
        let answer = &*self.refresh.with_absent(answer, version);
        let changed = self
            .view
            .update(answer, version, &mut self.context.observer);
        self.view_version += 1;
        if changed || !self.refresh.asked_for_each_of(answer) {
            self.view.keep(|name| self.refresh.wants(name));
            self.known_version += 1;
        }
        self.links.set_cluster(self.view.cluster_id());
        let nodes = addresses(&self.view);
        self.links.settle(now, &mut self.context, link, &nodes);
        self.refresh
            .set_answered(now, &mut self.context, &self.view, answer);
        self.context.changes.tell(Change::Topics);
    }

    /// Forgets the brokers and begins again at the bootstrap servers, if the settings allow it (KIP-899, KIP-1102).
    fn begin_again(&mut self, now: Instant, cause: &Error) {
        if !self.context.config.rebootstrap {
            return;
        }
        let text = "the client began again at the bootstrap servers";
        let told = cause
            .clone()
            .wrap(Kind::Unreachable, text)
            .with_retriable(true);
        self.links.begin_again(now, &mut self.context, &told);
        self.view.forget_nodes();
        self.links.set_cluster(None);
        self.changed();
        self.context.observer.tell(Observed::Rebootstrapped {
            cause: cause.clone(),
        });
    }

    pub(crate) fn refresh_failed(&mut self, now: Instant, error: Error) {
        self.refresh.set_failed(now, &mut self.context, error);
        self.context.changes.tell(Change::Topics);
    }

    // --- coordinators

    /// The coordinator of a group or a transaction, if it is known; else it is looked for.
    pub(crate) fn coordinator(
        &mut self,
        now: Instant,
        kind: CoordinatorType,
        key: &Arc<str>,
    ) -> Coordinator {
        self.coordinators.find(now, kind, key)
    }

    /// The broker said that it is not, or no longer, the coordinator.
    pub(crate) fn forget_coordinator(&mut self, kind: CoordinatorType, key: &Arc<str>) {
        self.coordinators.forget(kind, key);
    }

    fn pump_coordinators(&mut self, now: Instant) {
        while let Some((key, request)) = self.coordinators.next_question(now, &mut self.context) {
            let Some(link) = self.any_link(now) else {
                return;
            };
            let token = self.ask(link, Owner::Coordinators, Request::FindCoordinator(request));
            self.coordinators.set_asked(key, token);
        }
    }

    /// Take in a FindCoordinator response that arrived over `link`.
    pub(crate) fn handle_coordinator(
        &mut self,
        now: Instant,
        link: LinkId,
        token: u64,
        answer: &FindCoordinatorResponse,
    ) {
        let broker = self.address_of(link);
        self.coordinators
            .handle_answer(now, &mut self.context, token, broker, answer);
    }

    pub(crate) fn coordinator_failed(&mut self, now: Instant, orphan: Orphan) {
        let Orphan { token, error, .. } = orphan;
        self.coordinators
            .handle_orphan(now, &mut self.context, token, error);
    }

    // --- links

    /// A connected link to this broker. Dial the broker if no link to it is up and the pause is
    /// over.
    pub(crate) fn node_link(&mut self, now: Instant, node: i32, lane: Lane) -> Option<LinkId> {
        let destination = Destination::Node(node, lane);
        let address = || self.view.node(node).map(address);
        self.links.to(now, &mut self.context, destination, address)
    }

    /// The link to this broker, if it is up.
    pub(crate) fn up_link(&self, node: i32, lane: Lane) -> Option<LinkId> {
        self.links.up(node, lane)
    }

    /// The least busy connected link. Dial the next candidate if no link is up.
    pub(crate) fn any_link(&mut self, now: Instant) -> Option<LinkId> {
        let up = self.links.least_busy();
        if up.is_none() {
            let nodes = self.view.nodes().map(|node| (node.id, address(node)));
            self.links.dial_any(now, &mut self.context, nodes);
        }
        up
    }

    /// A connected link other than these. If no other link is up, dial a broker that none of these
    /// leads to, unless dialling it failed.
    pub(crate) fn another_link(&mut self, now: Instant, but: &[LinkId]) -> Option<LinkId> {
        if let Some(link) = self.links.least_busy_but(but) {
            return Some(link);
        }
        let asked = but.iter().filter_map(|link| self.node_of(*link));
        let asked: Vec<i32> = asked.map(|(node, _)| node).collect();
        let nodes = self.view.nodes().map(|node| node.id);
        let mut others = nodes.filter(|node| {
            !asked.contains(node) && self.failure_of(*node, Lane::Control).is_none()
        });
        let other = others.next();
        drop(others);
        match other {
            Some(node) => self.node_link(now, node, Lane::Control),
            None => self.any_link(now),
        }
    }

    /// A link that is up and whose broker speaks this API, if there is one. Dials none.
    pub(crate) fn link_that_speaks(&self, api: ApiKey) -> Option<LinkId> {
        self.links.that_speaks(api)
    }

    /// Any link that is up, the least busy first. Dials none.
    pub(crate) fn up_link_of_any(&self) -> Option<LinkId> {
        self.links.least_busy()
    }

    /// The broker that a link leads to, if it is known to be one of the cluster.
    pub(crate) fn node_of(&self, link: LinkId) -> Option<(i32, Lane)> {
        self.links.node_of(link)
    }

    /// `host:port` of a link.
    pub(crate) fn address_of(&self, link: LinkId) -> Option<String> {
        self.links.address_of(link)
    }

    /// Why the broker cannot be reached at the moment, if an attempt failed.
    pub(crate) fn failure_of(&self, node: i32, lane: Lane) -> Option<&Error> {
        self.links.failure_of(node, lane)
    }

    /// Why the broker and this client do not accept each other, if that was found at `since` or later.
    pub(crate) fn refusal_of(&self, node: i32, lane: Lane, since: Instant) -> Option<&Error> {
        self.links.refusal_of(node, lane, since)
    }

    /// Why the broker refuses the client over this `lane`, and when it last refused. `None` unless
    /// several attempts in a row were refused.
    pub(crate) fn believed_refusal_of(&self, node: i32, lane: Lane) -> Option<(&Error, Instant)> {
        self.links.believed_refusal_of(node, lane)
    }

    pub(crate) fn has_link(&self, link: LinkId) -> bool {
        self.links.contains(link)
    }

    pub(crate) fn link_up(&mut self, now: Instant, link: LinkId, versions: Versions) {
        self.links.set_up(now, &mut self.context, link, versions);
    }

    /// The connection broke, or could not be made.
    pub(crate) fn link_down(&mut self, now: Instant, link: LinkId, cause: &Error) {
        self.links.set_down(now, &mut self.context, link, cause);
        if cause.code() == Some(ErrorCode::REBOOTSTRAP_REQUIRED) {
            self.begin_again(now, cause);
        }
        self.refresh(now);
        if self.is_hopeless() {
            self.context.changes.tell(Change::Closed);
        }
    }

    /// Close every link.
    pub(crate) fn close_all(&mut self, now: Instant, cause: &Error) {
        self.links.close_all(now, &mut self.context, cause);
        self.context.changes.tell(Change::Closed);
    }

    // --- requests

    /// Queue a request. Its response or its error comes with the returned token.
    pub(crate) fn ask(&mut self, link: LinkId, owner: Owner, request: Request) -> u64 {
        let timeout = self.context.config.request_timeout;
        self.ask_at_most(link, owner, (request, i16::MAX), timeout)
    }

    /// Queue a request as [`Cluster::ask`] does, but send it at version `most` or below and expect
    /// its response within `timeout`.
    pub(crate) fn ask_at_most(
        &mut self,
        link: LinkId,
        owner: Owner,
        (request, most): (Request, i16),
        timeout: Duration,
    ) -> u64 {
        self.links.ask(link, owner, (request, most), timeout)
    }

    /// Withdraw those of these requests that were not sent yet. Nobody waits for their responses.
    pub(crate) fn withdraw(&mut self, tokens: &[u64]) {
        self.links.withdraw(tokens);
    }

    /// A token for a request that its owner dispatches itself.
    pub(crate) fn token(&mut self) -> u64 {
        self.links.fresh_id()
    }

    /// Makes the shell look for something to send on `link`.
    pub(crate) fn wake(&mut self, link: LinkId) {
        self.links.wake(link);
    }

    /// The shell looks at `link` again by itself. Until then it needs no wake-up.
    pub(crate) fn not_woken(&mut self, link: LinkId) {
        self.links.not_woken(link);
    }

    /// Whether the broker's pause on this link goes on.
    pub(crate) fn is_throttled(&mut self, now: Instant, link: LinkId) -> bool {
        self.links.is_throttled(now, &mut self.context, link)
    }

    /// Keep the pause that the broker requested in a response (KIP-219).
    pub(crate) fn throttle(&mut self, now: Instant, link: LinkId, api: ApiKey, pause: Duration) {
        self.links
            .throttle(now, &mut self.context, link, api.name(), pause);
    }

    /// The next queued request of `link`.
    pub(crate) fn next_queued(&mut self, now: Instant, link: LinkId) -> Next {
        self.links.next_queued(now, &mut self.context, link)
    }

    /// The version of `api` to use on `link`, at most `cap`.
    pub(crate) fn version(&self, link: LinkId, api: ApiKey, cap: i16) -> Result<i16, Error> {
        self.links.version(link, api, cap)
    }

    /// The finalized level of `transaction.version` in the newest features that a broker reported
    /// (KIP-890).
    pub(crate) fn transaction_version(&self) -> i16 {
        self.links.transaction_version()
    }

    /// What the broker of `link` speaks, if it is up, and else the broker that was connected to last; with its address.
    pub(crate) fn speaks(&self, link: Option<LinkId>) -> Option<(String, &Versions)> {
        self.links.speaks(link)
    }

    /// Whether a broker speaks `api` below this version only, of those that are connected or were last.
    pub(crate) fn any_lacks(&self, api: ApiKey, version: i16) -> bool {
        self.links.any_lacks(api, version)
    }

    /// Notes a request that its owner dispatched itself.
    pub(crate) fn sent(
        &mut self,
        now: Instant,
        link: LinkId,
        token: u64,
        owner: Owner,
        (api, version): (ApiKey, i16),
    ) {
        let context = &mut self.context;
        self.links
            .sent(context, link, token, owner, api, version, now);
    }

    /// The owner of a request whose response arrived, and the version of both. `sizes` are their
    /// bytes.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        link: LinkId,
        token: u64,
        sizes: (usize, usize),
    ) -> Option<(Owner, i16)> {
        self.links
            .answered(now, &mut self.context, link, token, sizes)
    }

    /// Note that a request without a response was written.
    pub(crate) fn written(&mut self, now: Instant, link: LinkId, bytes: usize) {
        if let Some(node) = self.links.number_of(link) {
            self.context.meters.written(now, node, bytes);
        }
    }

    /// Sets the gauges that the cluster knows.
    pub(crate) fn measure(&mut self) {
        let network = &mut self.context.meters.network;
        (network.connections, network.in_flight) = self.links.counts();
        network.view_of = self.refresh.fresh_as_of();
    }

    /// The owner of a request that gets no response.
    pub(crate) fn unanswered(&mut self, link: LinkId, token: u64) -> Option<Owner> {
        self.links.unanswered(link, token)
    }

    pub(crate) fn poll_orphan(&mut self) -> Option<Orphan> {
        self.links.poll_orphan()
    }

    /// Whether there is an action, a change or an event to take.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        self.links.has_actions() || self.context.has_output()
    }

    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.links.poll_action()
    }

    // --- what to report to a caller whose deadline passed

    /// Why no broker can take a request at the moment: each address tried, and what happened. `None` if one is
    /// connected.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.links.trouble(&self.context)
    }

    /// Why a poll without records fails: no broker can be reached, and none ever was, or each refuses the client. An outage
    /// after the first contact is no failure; logs have it.
    pub(crate) fn poll_trouble(&self) -> Option<Error> {
        let passes =
            |error: &Error| error.kind() == Kind::Unreachable && self.links.was_in_contact();
        self.trouble().filter(|error| !passes(error))
    }

    /// Whether the first connections are still being set up, and nothing is known to be wrong.
    pub(crate) fn is_starting(&self) -> bool {
        self.links.is_starting(&self.context)
    }

    /// Whether a broker has ever taken the client in: if not, none has heard anything of it.
    pub(crate) fn was_ever_up(&self) -> bool {
        self.links.was_ever_up()
    }

    /// Whether any broker of the cluster and the client do not accept each other.
    pub(crate) fn is_refused_by_a_node(&self) -> bool {
        self.links.is_refused_by_a_node()
    }

    /// Whether waiting cannot help: no given address leads to a broker that accepts the client, or,
    /// after a first connection, every broker refuses the client.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.links.is_hopeless(&self.context)
    }
}
