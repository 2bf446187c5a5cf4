//! When to request a subscription, when to push, and how each response is handled.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::compression::Compression;
use ottla_protocol::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};
use rustc_hash::FxHashMap;

use super::otlp::{self, Point, Temporality};
use super::push::Push;
use super::registered::{Registered, Registration, own_name};
use super::subscription::{DEFAULT_INTERVAL, Subscription, interval};
use crate::api::{Request, Response};
use crate::change::Change;
use crate::cluster::{Cluster, LinkId, Owner};
use crate::dispatch::Dispatch;
use crate::error::{Error, Kind};
use crate::metrics::{self, AppMetric, Metric, Tag};
use crate::observe::Observed;

/// A total, by which to report how much it grew since the last report.
type TotalOf = (Cow<'static, str>, Cow<'static, str>, Arc<[Tag]>);

fn total_of(metric: &Metric) -> TotalOf {
    let (group, name) = (metric.group.clone(), metric.name.clone());
    (group, name, Arc::clone(&metric.tags))
}

#[derive(Debug)]
enum State {
    /// No connected broker accepts metrics; `opened` is the number of connections opened until
    /// then.
    Idle { opened: f64 },
    /// A subscription is to be requested.
    Asking { at: Instant },
    /// It was requested.
    Asked { token: u64 },
    /// A push is due then; on this link, once it is.
    Waiting { at: Instant, link: Option<LinkId> },
    /// A push was given to a connection.
    Pushed { token: u64 },
    /// Nothing more will be reported.
    Off,
}

/// The metrics that the client reports to brokers.
#[derive(Debug)]
pub(crate) struct Telemetry {
    state: State,
    enabled: bool,
    /// The time of day at some instant, in ns since 1970 UTC.
    clock: Option<(Instant, u64)>,
    begun_ns: u64,
    /// The id by which brokers know this client; zero until one gave it.
    instance: Uuid,
    /// A caller waits for that id.
    wanted: bool,
    /// Why there will be no id.
    refusal: Option<Error>,
    subscription: Option<Subscription>,
    /// Codecs that a broker did not take after all.
    refused: Vec<Compression>,
    /// Where the last request went: a client stays with one broker while it can.
    link: Option<LinkId>,
    /// The client closes; the next push is the last.
    leaving: bool,
    /// The push in flight is the last.
    terminated: bool,
    /// Metrics of the program.
    registered: Registered,
    told: FxHashMap<TotalOf, f64>,
    told_ns: u64,
    /// The values that are reported once the response to the push comes.
    telling: Vec<(TotalOf, f64)>,
    telling_ns: u64,
}

impl Telemetry {
    pub(crate) fn new(enabled: bool) -> Telemetry {
        Telemetry {
            state: if enabled {
                State::Idle { opened: 0.0 }
            } else {
                State::Off
            },
            enabled,
            clock: None,
            begun_ns: 0,
            instance: Uuid::ZERO,
            wanted: false,
            refusal: None,
            subscription: None,
            refused: Vec::new(),
            link: None,
            leaving: false,
            terminated: false,
            registered: Registered::default(),
            told: FxHashMap::default(),
            told_ns: 0,
            telling: Vec::new(),
            telling_ns: 0,
        }
    }

    /// Sets the time of day, in ns since 1970 UTC: points of metrics carry it.
    pub(crate) fn set_time_of_day(&mut self, now: Instant, ns: u64) {
        self.clock = Some((now, ns));
        (self.begun_ns, self.told_ns) = (ns, ns);
    }

    /// The time of day `age` ago, in ms since 1970 UTC; 0 before that.
    pub(crate) fn millis_ago(&self, now: Instant, age: Duration) -> i64 {
        let now_ms = u128::from(self.time_of_day(now) / 1_000_000);
        i64::try_from(now_ms.saturating_sub(age.as_millis())).unwrap_or(i64::MAX)
    }

    fn time_of_day(&self, now: Instant) -> u64 {
        self.clock.map_or(0, |(then, ns)| {
            let since = now.saturating_duration_since(then).as_nanos();
            ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
        })
    }

    // --- the id

    /// A caller waits for the id by which brokers know the client: connects if needed.
    pub(crate) fn want_instance(&mut self) {
        self.wanted = true;
        self.refusal = None;
        if let State::Idle { opened } = &mut self.state {
            // Brokers that are connected already are looked at again.
            *opened = 0.0;
        }
    }

    /// The id by which brokers know the client, or why it has none; `None` while it may come.
    pub(crate) fn instance(&self) -> Option<Result<Uuid, Error>> {
        if self.instance != Uuid::ZERO {
            return Some(Ok(self.instance));
        }
        if !self.enabled {
            let text = "enable.metrics.push is false: brokers give an id only to clients that push metrics";
            return Some(Err(Error::new(Kind::Unsupported, text)));
        }
        self.refusal.clone().map(Err)
    }

    fn refuse(&mut self, cluster: &mut Cluster, error: Error) {
        if self.wanted {
            self.refusal = Some(error);
            cluster.context.changes.tell(Change::Telemetry);
        }
    }

    // --- metrics of the program

    /// Pushes this metric with the client's own from now on. It replaces one of the same name and tags, but none of the client's.
    pub(crate) fn register(&mut self, now: Instant, cluster: &mut Cluster, metric: Arc<AppMetric>) {
        if let Some(name) = own_name(cluster.config().role, &metric) {
            let event = Observed::MetricIgnored { name };
            cluster.context.observer.tell(event);
            return;
        }
        let since_ns = self.time_of_day(now);
        let replaced = self.registered.add(metric, since_ns);
        self.forget(replaced);
    }

    /// No longer pushes the registered metric of this name and these tags.
    pub(crate) fn unregister(&mut self, metric: &AppMetric) {
        let removed = self.registered.remove(metric);
        self.forget(removed);
    }

    /// What was reported of it is no part of another metric's growth, also if the response to the push is still to come.
    fn forget(&mut self, gone: Option<Registration>) {
        if let Some(gone) = gone {
            let total = total_of(&gone.read());
            self.told.remove(&total);
            self.telling.retain(|(told, _)| *told != total);
        }
    }

    // --- the end

    /// The client closes: pushes once more, if metrics are wanted. True if that takes a moment.
    pub(crate) fn take_leave(&mut self, now: Instant) -> bool {
        self.leaving = true;
        match self.state {
            State::Waiting { .. } => {
                self.state = State::Waiting {
                    at: now,
                    link: None,
                };
            }
            // Its response comes first, and the last push follows.
            State::Pushed { .. } => {}
            _ => self.state = State::Off,
        }
        self.is_leaving()
    }

    /// Whether a last push is in flight.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving && !matches!(self.state, State::Off)
    }

    /// Nothing more is reported.
    pub(crate) fn stop(&mut self, cluster: &mut Cluster) {
        self.state = State::Off;
        cluster.context.changes.tell(Change::Telemetry);
    }

    // --- steps

    /// Anything may have changed.
    pub(crate) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        match self.state {
            State::Off | State::Asked { .. } | State::Pushed { .. } => {}
            State::Idle { opened } => {
                if cluster.context.meters.connections_made() > opened {
                    self.state = State::Asking { at: now };
                    self.pump(now, cluster);
                } else if self.wanted && self.refusal.is_none() {
                    cluster.any_link(now);
                }
            }
            State::Asking { at } | State::Waiting { at, .. } if at > now => cluster.set_alarm(at),
            State::Asking { .. } => self.ask(now, cluster),
            State::Waiting { at, .. } => {
                let link = self.find_link(cluster, ApiKey::PushTelemetry);
                self.state = State::Waiting { at, link };
                match link {
                    Some(link) => cluster.wake(link),
                    None if self.leaving => self.stop(cluster),
                    None if cluster.up_link_of_any().is_some() => self.rest(cluster),
                    None => {
                        cluster.any_link(now);
                    }
                }
            }
        }
    }

    /// The connection that takes this request: the one that took the last, or else another one.
    fn find_link(&mut self, cluster: &Cluster, api: ApiKey) -> Option<LinkId> {
        let before = self
            .link
            .filter(|link| cluster.version(*link, api, i16::MAX).is_ok());
        self.link = before.or_else(|| cluster.link_that_speaks(api));
        self.link
    }

    /// No broker that is connected takes metrics: the next connection is looked at.
    fn rest(&mut self, cluster: &mut Cluster) {
        let opened = cluster.context.meters.connections_made();
        self.state = State::Idle { opened };
    }

    fn ask(&mut self, now: Instant, cluster: &mut Cluster) {
        let Some(link) = self.find_link(cluster, ApiKey::GetTelemetrySubscriptions) else {
            self.nobody_to_ask(now, cluster);
            return;
        };
        let request = Request::GetTelemetrySubscriptions(GetTelemetrySubscriptionsRequest {
            client_instance_id: self.instance,
            ..Default::default()
        });
        let token = cluster.ask(link, Owner::Telemetry, request);
        self.state = State::Asked { token };
    }

    fn nobody_to_ask(&mut self, now: Instant, cluster: &mut Cluster) {
        let Some(up) = cluster.up_link_of_any() else {
            if self.wanted || self.instance != Uuid::ZERO {
                cluster.any_link(now);
            } else {
                self.rest(cluster);
            }
            return;
        };
        self.rest(cluster);
        let why = cluster.version(up, ApiKey::GetTelemetrySubscriptions, i16::MAX);
        if let Err(error) = why {
            let text = "the brokers take no metrics of clients (KIP-714): they are older than 3.7, or have no plugin for it";
            self.refuse(cluster, error.wrap(Kind::Unsupported, text));
        }
    }

    /// Whether a push is to go over this link now.
    pub(crate) fn is_due_on(&self, link: LinkId) -> bool {
        matches!(self.state, State::Waiting { link: Some(due), .. } if due == link)
    }

    /// The push of these metrics, which is due on `link`.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        metrics: Vec<Metric>,
    ) -> Option<Dispatch> {
        let version = cluster.version(link, ApiKey::PushTelemetry, i16::MAX);
        let (Ok(version), Some(subscription)) = (version, self.subscription.clone()) else {
            self.rest(cluster);
            return None;
        };
        let token = cluster.token();
        let now_ns = self.time_of_day(now);
        let points = self.points(metrics, &subscription);
        self.telling_ns = now_ns;
        self.terminated = self.leaving;
        self.state = State::Pushed { token };
        let push = Push {
            token,
            version,
            timeout: cluster.config().request_timeout,
            instance: self.instance,
            subscription: subscription.id,
            codec: subscription.codec,
            temporality: subscription.temporality,
            terminating: self.leaving,
            most: subscription.most,
            now_ns,
            points,
        };
        Some(Dispatch::Unfinished(Box::new(push)))
    }

    fn points(&mut self, metrics: Vec<Metric>, subscription: &Subscription) -> Vec<Point> {
        self.telling.clear();
        let is_delta = subscription.temporality == Temporality::Delta;
        let own = metrics.into_iter();
        // The count of all metrics is about nothing that an operator runs.
        let own = own.filter(|metric| metric.group.ends_with("-metrics"));
        let own = own.map(|metric| (metric, self.begun_ns, self.told_ns));
        let registered = self.registered.iter();
        let registered = registered.map(|it| (it.read(), it.since_ns, it.since_ns));
        let mut points = Vec::new();
        for (metric, begun_ns, untold_ns) in own.chain(registered) {
            let name = otlp::name(&metric.group, &metric.name);
            // An average of nothing is not reported.
            if !metric.value.is_finite() || !subscription.wants(&name) {
                continue;
            }
            let mut point = Point {
                value: metric.value,
                since_ns: begun_ns,
                metric,
            };
            if is_delta && point.metric.kind == metrics::Kind::Total {
                let total = total_of(&point.metric);
                let before = self.told.get(&total).copied();
                point.value -= before.unwrap_or(0.0);
                point.since_ns = before.map_or(untold_ns, |_| self.told_ns);
                self.telling.push((total, point.metric.value));
            }
            points.push(point);
        }
        points
    }

    // --- responses

    pub(crate) fn handle_answer(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        token: u64,
        response: &Response,
    ) {
        match (&self.state, response) {
            (State::Asked { token: asked }, Response::GetTelemetrySubscriptions(answer))
                if *asked == token =>
            {
                self.handle_subscription(now, cluster, answer);
            }
            (State::Pushed { token: pushed }, Response::PushTelemetry(answer))
                if *pushed == token =>
            {
                self.handle_pushed(now, cluster, ErrorCode(answer.error_code));
            }
            _ => {}
        }
    }

    fn handle_subscription(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        answer: &GetTelemetrySubscriptionsResponse,
    ) {
        let code = ErrorCode(answer.error_code);
        let again = interval(answer.push_interval_ms);
        if code.is_error() {
            let error = Error::from_code(code, None).calling("GetTelemetrySubscriptions");
            self.refuse(cluster, error);
            self.state = if ends_it(code) {
                State::Off
            } else {
                State::Asking {
                    at: now + again.max(DEFAULT_INTERVAL),
                }
            };
            return;
        }
        if self.instance == Uuid::ZERO {
            self.instance = answer.client_instance_id;
        }
        if self.instance == Uuid::ZERO {
            let text = "the broker gave the client no id";
            self.refuse(cluster, Error::new(Kind::Protocol, text));
            self.state = State::Asking {
                at: now + again.max(DEFAULT_INTERVAL),
            };
            return;
        }
        cluster.context.changes.tell(Change::Telemetry);
        let subscription = Subscription::new(answer, &self.refused);
        if self.leaving || !subscription.wants_any() {
            self.subscription = None;
            self.state = State::Asking { at: now + again };
            return;
        }
        let before = self.subscription.as_ref();
        if before.is_some_and(|before| before.temporality != subscription.temporality) {
            self.told.clear();
            self.told_ns = self.begun_ns;
        }
        let at = now + spread(cluster, subscription.interval);
        self.subscription = Some(subscription);
        self.state = State::Waiting { at, link: None };
    }

    fn handle_pushed(&mut self, now: Instant, cluster: &mut Cluster, code: ErrorCode) {
        if code == ErrorCode::NONE {
            self.told.extend(self.telling.drain(..));
            self.told_ns = self.telling_ns;
        }
        if ends_it(code) {
            return self.stop(cluster);
        }
        match code {
            ErrorCode::UNKNOWN_SUBSCRIPTION_ID => self.state = State::Asking { at: now },
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => {
                self.refused
                    .extend(self.subscription.iter().map(|it| it.codec));
                self.state = State::Asking { at: now };
            }
            ErrorCode::TELEMETRY_TOO_LARGE => {
                if let Some(subscription) = &mut self.subscription {
                    subscription.most /= 2;
                }
                self.wait(now);
            }
            _ => self.wait(now),
        }
        self.leave_after(now, cluster, code);
    }

    /// Pushes again after the interval.
    fn wait(&mut self, now: Instant) {
        let subscription = self.subscription.as_ref();
        let interval = subscription.map_or(DEFAULT_INTERVAL, |it| it.interval);
        let at = now + interval;
        self.state = State::Waiting { at, link: None };
    }

    /// If the client closes: this was the last push, or it is the next one.
    fn leave_after(&mut self, now: Instant, cluster: &mut Cluster, code: ErrorCode) {
        if !self.leaving {
            return;
        }
        if self.terminated || code.is_error() {
            self.stop(cluster);
        } else {
            self.state = State::Waiting {
                at: now,
                link: None,
            };
        }
    }

    /// A request gets no response.
    pub(crate) fn handle_orphan(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        token: u64,
        error: &Error,
    ) {
        match self.state {
            State::Asked { token: asked } if asked == token => {
                let never = error.kind() == Kind::Unsupported;
                self.refuse(cluster, error.clone());
                if never || self.leaving {
                    self.rest(cluster);
                } else {
                    let at = now + cluster.retry_pause(u32::MAX);
                    self.state = State::Asking { at };
                }
            }
            State::Pushed { token: pushed } if pushed == token => {
                if self.leaving {
                    self.stop(cluster);
                } else {
                    self.wait(now);
                }
            }
            _ => {}
        }
    }
}

/// Whether a broker will never accept what this client reports.
fn ends_it(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::INVALID_REQUEST | ErrorCode::INVALID_RECORD | ErrorCode::UNSUPPORTED_VERSION
    )
}

/// From half of an interval to one and a half of it.
fn spread(cluster: &mut Cluster, interval: Duration) -> Duration {
    let percent = 50 + u32::try_from(cluster.context.random.below(101)).unwrap_or(50);
    interval.saturating_mul(percent) / 100
}
