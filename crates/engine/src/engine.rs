//! A whole client as one state machine: the cluster, calls, and the parts that make it a producer or
//! a consumer. [`Engine`] has the contract between it and its owner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::Uuid;

use crate::api::{Response, Versions};
use crate::call::{AnyAnswer, AnyCall, Asker, Call, CallId, Ticket};
use crate::change::Change;
use crate::cluster::{Action, Cluster, Context, LinkId, Next, Orphan, Owner, PartId};
use crate::config::Config;
use crate::dispatch::Dispatch;
use crate::error::{Error, Kind};
use crate::metadata::{Metadata, Topic};
use crate::metrics::{AppMetric, Metric};
use crate::observe::Observer;
use crate::part::{Client, Core, Part, Reply};

/// What happened to a link.
#[derive(Debug)]
pub enum Event {
    /// The broker returned its versions and accepted the client's identity.
    Up(Versions),
    /// The broker accepted the client's identity again, after this time.
    Renewed(Duration),
    /// A request got its response.
    Answer {
        /// The request's token.
        token: u64,
        /// The response.
        response: Box<Response>,
        /// The bytes of the request, and of the response.
        sizes: (usize, usize),
    },
    /// A request that gets no response was written to the socket.
    Written {
        /// The request's token.
        token: u64,
        /// Its bytes.
        bytes: usize,
    },
    /// A request could not be encoded; nothing of it was written.
    Unsendable {
        /// The request's token.
        token: u64,
        /// Why.
        error: Error,
    },
    /// The connection broke, or could not be made.
    Down(Error),
}

/// A client without sockets and clocks.
///
/// The owner moves bytes and keeps time, and does nothing else: `ottla-client` does it with tokio, `ottla-sim` under simulated
/// time. The owner keeps this contract:
///
/// * One call at a time. `now` never decreases.
/// * After each call, while [`Engine::has_output`], take everything: [`Engine::poll_action`], [`Engine::poll_change`],
///   [`Engine::observer`], and `poll_done` of a producer, each until nothing is left. Then look at [`Engine::next_timeout`].
/// * [`Engine::next_timeout`]: call [`Engine::handle_timeout`] at that time. A call that is too early does nothing.
/// * [`Action::Dial`]: connect, negotiate with [`crate::connection`], and report [`Event::Up`]. If either fails, report
///   [`Event::Down`].
/// * [`Action::Wake`]: call [`Engine::poll_send`] for this link until it returns `None`. Write the requests in this order.
///   After `None` the next wake-up comes when there is something to send.
/// * [`Dispatch::Unfinished`]: finish it without the engine's lock, as it compresses. Report a failure as
///   [`Event::Unsendable`].
/// * Report each response as [`Event::Answer`]. Report a request without response as [`Event::Written`].
/// * [`Event::Down`] is the last event of a link, and fails its requests in flight. Later events of the link are ignored.
/// * [`Action::Close`]: close the connection. Nothing has to be reported.
/// * [`Change`]: wake the callers that wait for it. A caller registers first, looks second and sleeps third, so that it
///   misses no change.
/// * [`Engine::ask`] starts a call. [`Change::Call`] comes when [`Engine::take_answer`] has the result. A caller that does not
///   wait for the result calls [`Engine::cancel`].
/// * [`Engine::take_leave`], then [`Engine::close`]: everything undecided fails with the cause, and every link is closed.
#[derive(Debug)]
pub struct Engine<C> {
    pub(crate) core: Core,
    pub(crate) client: C,
    closed: Option<Error>,
}

impl<C: Client> Engine<C> {
    /// `seed` seeds all random choices.
    pub(crate) fn with_client(config: Arc<Config>, seed: u64, client: C) -> Engine<C> {
        Engine {
            core: Core::new(Cluster::new(config, seed)),
            client,
            closed: None,
        }
    }

    /// Takes in what happened to a link.
    pub fn handle(&mut self, now: Instant, link: LinkId, event: Event) {
        self.core.cluster.context.meters.step(now);
        match event {
            Event::Up(versions) => self.core.cluster.link_up(now, link, versions),
            Event::Renewed(took) => self.core.cluster.context.meters.renewed(now, took),
            Event::Answer {
                token,
                response,
                sizes,
            } => self.handle_answer(now, link, token, response, sizes),
            Event::Written { token, bytes } => {
                self.core.cluster.written(now, link, bytes);
                if let Some(Owner::Part(part)) = self.core.cluster.unanswered(link, token) {
                    self.with_part(part, |part, core| part.handle_written(now, core, token));
                }
            }
            Event::Unsendable { token, error } => {
                if let Some(owner) = self.core.cluster.unanswered(link, token) {
                    self.handle_orphan(
                        now,
                        Orphan {
                            token,
                            owner,
                            error,
                            sent: false,
                        },
                    );
                }
            }
            Event::Down(cause) => self.core.cluster.link_down(now, link, &cause),
        }
        self.settle(now);
    }

    /// The owner calls this when [`Engine::next_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.core.cluster.context.take_alarm(now) {
            self.settle(now);
        }
    }

    /// When [`Engine::handle_timeout`] is due; may be early.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.core.cluster.context.alarm()
    }

    /// Whether there is an action, a change or an event to take.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.core.cluster.has_output()
    }

    /// The next thing to send on `link`. After `None`, wait for the next [`Action::Wake`] of the
    /// link.
    pub fn poll_send(&mut self, now: Instant, link: LinkId) -> Option<Dispatch> {
        self.core.cluster.context.meters.step(now);
        if self.core.cluster.is_throttled(now, link) {
            self.core.cluster.not_woken(link);
            return None;
        }
        loop {
            match self.core.cluster.next_queued(now, link) {
                Next::Send(outgoing) => return Some(Dispatch::Ready(outgoing)),
                Next::Unsupported(orphan) => {
                    self.handle_orphan(now, orphan);
                    self.settle(now);
                }
                Next::Nothing => break,
            }
        }
        if self.core.telemetry.is_due_on(link)
            && let Some(push) = self.next_push(now, link)
        {
            return Some(push);
        }
        for (number, part) in (0..).zip(self.client.parts().into_iter().flatten()) {
            let id = PartId(number);
            self.core.set_turn(id);
            if let Some(dispatch) = part.next_dispatch(now, &mut self.core, link) {
                let about = dispatch.about();
                self.core
                    .cluster
                    .sent(now, link, dispatch.token(), Owner::Part(id), about);
                return Some(dispatch);
            }
        }
        self.core.cluster.not_woken(link);
        None
    }

    /// Whether this link is still wanted: not closed since [`Action::Dial`].
    pub fn has_link(&self, link: LinkId) -> bool {
        self.core.cluster.has_link(link)
    }

    /// The next thing to do.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.core.cluster.poll_action()
    }

    /// The next change that a waiting caller may wait for.
    #[inline]
    pub fn poll_change(&mut self) -> Option<Change> {
        self.core.cluster.context.changes.poll()
    }

    /// The events since the last drain.
    #[inline]
    pub fn observer(&mut self) -> &mut Observer {
        &mut self.core.cluster.context.observer
    }

    /// Starts a call. [`Change::Call`] is emitted when [`Engine::take_answer`] has its result.
    pub fn ask<Q: Call>(&mut self, now: Instant, call: Q, deadline: Instant) -> Ticket<Q> {
        Ticket::new(self.ask_any(now, AnyCall::of(call), deadline))
    }

    /// As [`Engine::ask`], for a call of any type.
    pub fn ask_any(&mut self, now: Instant, call: AnyCall, deadline: Instant) -> CallId {
        let Core { cluster, calls, .. } = &mut self.core;
        let id = calls.start(now, cluster, call, Asker::Caller, deadline);
        if let Some(cause) = self.closed.clone() {
            calls.abort(cluster, &cause);
        }
        self.settle(now);
        id
    }

    /// The result of a call, once.
    pub fn take_answer<Q: Call>(&mut self, ticket: &Ticket<Q>) -> Option<Result<Q::Answer, Error>> {
        self.take_any_answer(ticket.id())
            .map(AnyAnswer::result::<Q>)
    }

    /// As [`Engine::take_answer`], for a call of any type.
    pub fn take_any_answer(&mut self, id: CallId) -> Option<AnyAnswer> {
        self.core.calls.take(id)
    }

    /// The caller no longer waits for the result.
    pub fn cancel(&mut self, id: CallId) {
        self.core.calls.cancel(&mut self.core.cluster, id);
    }

    /// Fails everything undecided with `cause` and closes every link. Nothing can be started afterwards.
    pub fn close(&mut self, now: Instant, cause: &Error) {
        self.core.cluster.context.meters.step(now);
        self.closed.get_or_insert_with(|| cause.clone());
        self.core.calls.abort(&mut self.core.cluster, cause);
        self.core.telemetry.stop(&mut self.core.cluster);
        self.each_part(|part, core| part.abort(now, core, cause));
        self.core.cluster.close_all(now, cause);
        self.settle(now);
    }

    /// The cause given to [`Engine::close`].
    #[inline]
    pub fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// All metrics of this client at this moment, named as Kafka's Java client names them.
    pub fn metrics(&mut self, now: Instant) -> Vec<Metric> {
        self.core.cluster.measure();
        self.each_part(|part, core| part.measure(&mut core.cluster.context.meters));
        let Context { meters, config, .. } = &mut self.core.cluster.context;
        meters.read(now, config)
    }

    /// Sets the time of day, in ns since 1970 UTC: metrics that are pushed to brokers carry it.
    pub fn set_time_of_day(&mut self, now: Instant, ns: u64) {
        self.core.telemetry.set_time_of_day(now, ns);
        self.core.cluster.context.meters.set_started(ns);
    }

    /// Requests the id by which brokers know this client (KIP-714), for a caller; connects if
    /// needed. After [`Change::Telemetry`], look at [`Engine::instance`] again.
    pub fn want_instance(&mut self, now: Instant) {
        self.core.telemetry.want_instance();
        self.settle(now);
    }

    /// The id by which brokers know this client, or why it has none; `None` while it may come.
    pub fn instance(&self) -> Option<Result<Uuid, Error>> {
        self.core.telemetry.instance()
    }

    /// Pushes a metric of the program to brokers with the client's own (KIP-1076). It replaces a registered one of the same
    /// name and tags; one of the client's own is not replaced, and an event reports that.
    pub fn register_metric(&mut self, now: Instant, metric: Arc<AppMetric>) {
        let Core {
            cluster, telemetry, ..
        } = &mut self.core;
        telemetry.register(now, cluster, metric);
    }

    /// No longer pushes the registered metric of this name and these tags, if there is one.
    pub fn unregister_metric(&mut self, metric: &AppMetric) {
        self.core.telemetry.unregister(metric);
    }

    /// The client is about to close: pushes metrics for the last time, if a broker wants any. True
    /// if that takes a moment: after [`Change::Telemetry`], look at [`Engine::is_leaving`] again.
    pub fn take_leave(&mut self, now: Instant) -> bool {
        if self.closed.is_some() {
            return false;
        }
        let leaves = self.core.telemetry.take_leave(now);
        if leaves {
            self.settle(now);
        }
        self.is_leaving()
    }

    /// Whether the last push is still on its way.
    pub fn is_leaving(&self) -> bool {
        self.core.telemetry.is_leaving()
    }

    fn next_push(&mut self, now: Instant, link: LinkId) -> Option<Dispatch> {
        let metrics = self.metrics(now);
        let Core {
            cluster, telemetry, ..
        } = &mut self.core;
        let push = telemetry.push(now, cluster, link, metrics)?;
        cluster.sent(now, link, push.token(), Owner::Telemetry, push.about());
        Some(push)
    }

    /// The cluster's metadata.
    pub fn metadata(&self) -> &Metadata {
        self.core.cluster.view()
    }

    /// The topic, if its partitions are known; else the reason, if one is known. Waiting does not help against an error
    /// that is not retriable.
    ///
    /// # Errors
    /// `Some` of the cause, or `None` while nothing is known.
    pub fn topic(&self, name: &str) -> Result<&Topic, Option<Error>> {
        let view = self.core.cluster.view();
        view.topic(name).ok_or_else(|| {
            let error = match view.problem(name) {
                Some(code) => Error::from_code(code, None).calling("Metadata"),
                None => self.core.cluster.refresh_error()?.clone(),
            };
            Some(error.with_topic(&name.into()))
        })
    }

    /// Why no broker can take a request at the moment; `None` if one is connected.
    pub fn trouble(&self) -> Option<Error> {
        self.core.cluster.trouble()
    }

    /// Whether the first connections are still being set up, and nothing is known to be wrong.
    pub fn is_starting(&self) -> bool {
        self.core.cluster.is_starting()
    }

    /// [`Engine::trouble`], if waiting cannot help.
    pub fn hopeless(&self) -> Option<Error> {
        if self.core.cluster.is_hopeless() {
            self.trouble()
        } else {
            None
        }
    }

    /// The settings.
    pub fn config(&self) -> &Arc<Config> {
        self.core.cluster.config()
    }

    fn handle_answer(
        &mut self,
        now: Instant,
        link: LinkId,
        token: u64,
        response: Box<Response>,
        sizes: (usize, usize),
    ) {
        let Core {
            cluster,
            calls,
            telemetry,
            ..
        } = &mut self.core;
        let Some((owner, version)) = cluster.answered(now, link, token, sizes) else {
            return;
        };
        let pause = response.throttle(version);
        cluster.context.meters.throttled(now, pause);
        if let Some(pause) = pause {
            cluster.throttle(now, link, response.api(), pause);
        }
        match (owner, &*response) {
            (Owner::View, Response::Metadata(answer)) => {
                cluster.handle_metadata(now, link, answer);
            }
            (Owner::Coordinators, Response::FindCoordinator(answer)) => {
                cluster.handle_coordinator(now, link, token, answer);
            }
            (Owner::Call, _) => calls.handle_answer(now, cluster, token, link, *response),
            (Owner::Telemetry, response) => {
                telemetry.handle_answer(now, cluster, token, response);
            }
            (Owner::Part(part), _) => {
                let reply = Reply {
                    link,
                    token,
                    response,
                };
                self.with_part(part, |part, core| part.handle_answer(now, core, reply));
            }
            (Owner::View | Owner::Coordinators, _) => {}
        }
    }

    fn handle_orphan(&mut self, now: Instant, orphan: Orphan) {
        let Core {
            cluster,
            calls,
            telemetry,
            ..
        } = &mut self.core;
        match orphan.owner {
            Owner::View => cluster.refresh_failed(now, orphan.error),
            Owner::Coordinators => cluster.coordinator_failed(now, orphan),
            Owner::Call => calls.handle_orphan(now, cluster, &orphan),
            Owner::Telemetry => {
                telemetry.handle_orphan(now, cluster, orphan.token, &orphan.error);
            }
            Owner::Part(part) => {
                self.with_part(part, |part, core| part.handle_orphan(now, core, orphan));
            }
        }
    }

    fn with_part(&mut self, id: PartId, f: impl FnOnce(&mut dyn Part, &mut Core)) {
        self.core.set_turn(id);
        if let Some(part) = self.client.parts().into_iter().flatten().nth(id.0.into()) {
            f(part, &mut self.core);
        }
    }

    fn each_part(&mut self, mut f: impl FnMut(&mut dyn Part, &mut Core)) {
        for (number, part) in (0..).zip(self.client.parts().into_iter().flatten()) {
            self.core.set_turn(PartId(number));
            f(part, &mut self.core);
        }
    }

    /// Follows up on what happened until nothing more follows from it.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.core.cluster.context.meters.step(now);
        self.hand_out(now);
        loop {
            let exchanged = self.closed.is_none() && self.pump(now);
            if !self.hand_out(now) && !exchanged {
                return;
            }
        }
    }

    /// Runs what is due in every part. Returns whether one part notified another.
    fn pump(&mut self, now: Instant) -> bool {
        self.core.cluster.pump(now);
        self.core.calls.pump(now, &mut self.core.cluster);
        self.core.telemetry.pump(now, &mut self.core.cluster);
        let exchanged = self.client.exchange(now, &mut self.core);
        self.each_part(|part, core| part.pump(now, core));
        // A part may have wanted a topic, or the coordinator of a call.
        self.core.cluster.pump_requests(now);
        exchanged
    }

    /// Hands orphans and ended calls to their parts. Returns whether there were any.
    fn hand_out(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            if let Some(orphan) = self.core.cluster.poll_orphan() {
                self.handle_orphan(now, orphan);
            } else if let Some(ended) = self.core.calls.poll_ended() {
                self.with_part(ended.part, |part, core| part.handle_ended(now, core, ended));
            } else {
                return any;
            }
            any = true;
        }
    }
}

/// The error of a closed client.
pub fn closed_error() -> Error {
    Error::new(Kind::Closed, "the client is closed")
}
