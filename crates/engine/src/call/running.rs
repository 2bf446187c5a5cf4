//! A running call: which items were requested, which have their result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;

use super::any::{AnyAnswer, AnyCall, Methods};
use super::interface::{About, Asked, Effect, Retry, left_out};
use super::target::{Target, Way};
use super::ticket::Asker;
use crate::api::Response;
use crate::cluster::{Cluster, LinkId, Orphan, Owner};
use crate::error::{Error, Kind};
use crate::observe::Observed;
use crate::release;

/// The pauses before a repeated request to a broker that was not done with the earlier one: the
/// first pause, and the longest; each is twice the one before. Java's producer always waits for the
/// longest; most often the broker is done after the first.
const EARLY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// A running call.
#[derive(Debug)]
pub(super) struct Running {
    call: Box<dyn Methods>,
    asker: Asker,
    started: Instant,
    deadline: Instant,
    attempts: u32,
    answers: u32,
    /// The next pause of those for a broker that is not done.
    early: Duration,
    not_before: Instant,
    last_error: Option<Error>,
    slots: Vec<Slot>,
    /// Slots without a result.
    undone: usize,
    /// Topics that the view has to know for it.
    topics: BTreeSet<Arc<str>>,
    /// Brokers that do not know yet of a topic that this client made.
    unaware: Vec<LinkId>,
}

/// An item, or an item at one of all brokers.
#[derive(Debug)]
struct Slot {
    item: usize,
    target: Target,
    repeated: bool,
    state: State,
}

impl Slot {
    /// Whether a broker may carry it out, or have done so, without a response.
    fn is_doubtful(&self) -> bool {
        self.repeated || matches!(self.state, State::Asked)
    }
}

#[derive(Debug)]
enum State {
    Open,
    Asked,
    /// The call has what was found.
    Done(Result<(), Error>),
}

impl Running {
    pub(super) fn new(
        now: Instant,
        cluster: &mut Cluster,
        AnyCall(call): AnyCall,
        asker: Asker,
        deadline: Instant,
    ) -> Running {
        let slots: Vec<_> = (0..call.items())
            .map(|item| Slot {
                item,
                target: call.target(item),
                repeated: false,
                state: State::Open,
            })
            .collect();
        let topics: BTreeSet<_> = slots
            .iter()
            .filter_map(|slot| match &slot.target {
                Target::Leader(topic, _) => Some(Arc::clone(topic)),
                _ => None,
            })
            .collect();
        for topic in &topics {
            cluster.want(now, topic);
        }
        Running {
            call,
            asker,
            started: now,
            deadline,
            attempts: 0,
            answers: 0,
            early: EARLY.0,
            not_before: now,
            last_error: None,
            undone: slots.len(),
            slots,
            topics,
            unaware: Vec::new(),
        }
    }

    fn is_once(&self) -> bool {
        matches!(self.asker, Asker::PartOnce(_))
    }

    fn set_done(&mut self, slot: usize, result: Result<(), Error>) {
        let changes = self.call.changes();
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.state = State::Done(match result {
                Err(error) if changes && slot.repeated => Err(error.maybe_done()),
                result => result,
            });
            self.undone -= 1;
        }
    }

    /// Turns an item for every broker into one item for each, once the brokers are known.
    fn spread(&mut self, now: Instant, cluster: &mut Cluster) {
        if !self.is_to_spread() {
            return;
        }
        cluster.need_view(now);
        let nodes: Vec<_> = cluster.view().nodes().map(|node| node.id).collect();
        if nodes.is_empty() {
            return;
        }
        let slots = std::mem::take(&mut self.slots);
        for slot in slots {
            if slot.target != Target::EveryNode {
                self.slots.push(slot);
                continue;
            }
            self.slots.extend(nodes.iter().map(|node| Slot {
                item: slot.item,
                target: Target::Node(*node),
                repeated: false,
                state: State::Open,
            }));
        }
        self.undone = self.slots.len();
    }

    /// A broker responded with this error, or not at all: an item that may have been carried out is so for good.
    fn doubt(&mut self, slot: usize, may_be_done: bool) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.repeated |= may_be_done;
        }
    }

    /// Whether each item has its own error at the deadline: a caller then sees which of several items are done. The error of one
    /// item is not that of another.
    fn tells_each(&self) -> bool {
        self.asker == Asker::Caller && self.slots.len() > 1
    }

    /// The error of the whole call, which ends before all items have their results.
    fn ended_by(&self, error: Error) -> Error {
        match self.call.changes() && self.slots.iter().any(Slot::is_doubtful) {
            true => error.maybe_done(),
            false => error,
        }
    }

    /// Whether the brokers have to be known first: no request is sent before, so that slots keep
    /// their places.
    fn is_to_spread(&self) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|slot| slot.target == Target::EveryNode)
    }

    /// The open slots by the link that carries their request.
    fn by_link(&mut self, now: Instant, cluster: &mut Cluster) -> BTreeMap<LinkId, Vec<usize>> {
        let mut by_link: BTreeMap<LinkId, Vec<usize>> = BTreeMap::new();
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get(index) else {
                continue;
            };
            if !matches!(slot.state, State::Open) {
                continue;
            }
            let way = match slot.target {
                Target::Any if !self.unaware.is_empty() => {
                    match cluster.another_link(now, &self.unaware) {
                        Some(link) => Way::Up(link),
                        None => Way::NotYet(None),
                    }
                }
                _ => slot.target.way(now, cluster, self.started),
            };
            match way {
                Way::Up(link) => by_link.entry(link).or_default().push(index),
                Way::Never(error) => self.set_done(index, Err(error)),
                Way::NotYet(Some(error)) if self.is_once() => self.set_done(index, Err(error)),
                Way::NotYet(error) => self.last_error = error.or(self.last_error.take()),
            }
        }
        by_link
    }

    /// Whether a broker that does not know a topic merely lags behind: this client made the topic.
    /// The controller knows it.
    fn is_unaware(&self, now: Instant, cluster: &Cluster, slot: usize, error: &Error) -> bool {
        let target = self.slots.get(slot).map(|slot| &slot.target);
        let is_new = matches!(
            error.code(),
            Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::LEADER_NOT_AVAILABLE)
        );
        is_new
            && target.is_some_and(|target| *target != Target::Controller)
            && error
                .topic()
                .is_some_and(|topic| cluster.has_created(now, topic))
    }

    /// Whether and when an item is requested again after this error.
    fn retry(&self, now: Instant, cluster: &Cluster, slot: usize, error: &Error) -> Retry {
        if self.is_once() {
            Retry::Never
        } else if self.is_unaware(now, cluster, slot, error) {
            Retry::Elsewhere
        } else {
            self.call.retry(error, self.answers)
        }
    }

    /// The item is requested again.
    fn reopen(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.state = State::Open;
        }
    }

    /// The item is requested again, from the broker that is its target by then.
    fn look_up_again(&mut self, now: Instant, cluster: &mut Cluster, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.state = State::Open;
            slot.target.look_up_again(now, cluster);
        }
    }

    /// The next attempt goes to another broker, while there is one without a request so far.
    fn ask_another(&mut self, link: LinkId, cluster: &Cluster) {
        if self.unaware.len() >= cluster.view().nodes().count() {
            self.unaware.clear();
        }
        self.unaware.push(link);
    }

    /// The version to use on `link`.
    fn version(&self, cluster: &Cluster, link: LinkId) -> Result<i16, Error> {
        let (least, most) = self.call.versions();
        let version = cluster.version(link, self.call.api(), most)?;
        if version >= least {
            return Ok(version);
        }
        let what = format!("{} {least}", self.call.api().name());
        let needed = release::first_with_version(self.call.api(), least);
        Err(match cluster.speaks(Some(link)) {
            Some((address, versions)) => versions.lacks(&what, needed).at(address),
            None => Error::new(Kind::Unreachable, "the connection is not up"),
        }
        .calling(self.call.api().name()))
    }

    /// Retries after a pause, with targets that are looked up again.
    fn pause(&mut self, now: Instant, cluster: &mut Cluster, error: Error) {
        let pause = cluster.retry_pause(self.attempts);
        self.not_before = now + pause;
        cluster.set_alarm(self.not_before);
        cluster.context.observer.tell(Observed::Retried {
            cause: error.clone(),
            attempts: self.attempts,
            pause,
        });
        self.last_error = Some(error);
    }

    pub(super) fn asker(&self) -> Asker {
        self.asker
    }

    /// Whether the deadline has come; if not, sets the alarm for it.
    pub(super) fn is_late(&self, now: Instant, cluster: &mut Cluster) -> bool {
        if self.deadline > now {
            cluster.set_alarm(self.deadline);
        }
        self.deadline <= now
    }

    /// Why there is no result at the deadline.
    pub(super) fn late(&self, cluster: &Cluster) -> Error {
        if let Some(trouble) = cluster.trouble() {
            return trouble;
        }
        let waited = self
            .deadline
            .saturating_duration_since(self.started)
            .as_millis();
        let failed = self.slots.iter().find_map(|slot| match &slot.state {
            State::Done(Err(error)) if !self.tells_each() => Some(error),
            _ => None,
        });
        let last = self.last_error.as_ref();
        let last = last.filter(|error| !self.tells_each() || error.topic().is_none());
        match last.or(failed) {
            Some(error) => error.clone(),
            None => Error::new(Kind::Timeout, format!("no response within {waited} ms"))
                .calling(self.call.api().name()),
        }
    }

    /// Sends what can be sent. Returns the tokens, and the slots of each.
    pub(super) fn ask(&mut self, now: Instant, cluster: &mut Cluster) -> Vec<(u64, Vec<usize>)> {
        if self.not_before > now {
            cluster.set_alarm(self.not_before);
            return Vec::new();
        }
        self.spread(now, cluster);
        if self.is_to_spread() {
            return Vec::new();
        }
        let mut asked = Vec::new();
        let by_link = self.by_link(now, cluster).into_iter();
        let most = if self.call.is_alone() { 1 } else { usize::MAX };
        let requests: Vec<_> = by_link
            .flat_map(|(link, slots)| {
                let parts: Vec<_> = slots.chunks(most).map(<[usize]>::to_vec).collect();
                parts.into_iter().map(move |slots| (link, slots))
            })
            .collect();
        for (link, slots) in requests {
            let version = match self.version(cluster, link) {
                Ok(version) => version,
                Err(error) => {
                    for slot in slots {
                        self.set_done(slot, Err(error.clone()));
                    }
                    continue;
                }
            };
            let items: Vec<_> = slots
                .iter()
                .filter_map(|slot| self.slots.get(*slot).map(|slot| slot.item))
                .collect();
            let left = self.deadline.saturating_duration_since(now);
            let timeout = left.min(self.call.patience(cluster.config()));
            let about = About {
                version,
                view: cluster.view(),
                config: cluster.config(),
                timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            };
            let request = self.call.request(&items, &about);
            for slot in &slots {
                if let Some(slot) = self.slots.get_mut(*slot) {
                    slot.state = State::Asked;
                }
            }
            self.attempts += 1;
            let (_, most) = self.call.versions();
            let timeout = self.call.patience(cluster.config());
            let token = cluster.ask_at_most(link, Owner::Call, (request, most), timeout);
            asked.push((token, slots));
        }
        asked
    }

    pub(super) fn take(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
        slots: &[usize],
        response: Response,
    ) {
        let version = self.version(cluster, link).unwrap_or(0);
        let node = cluster.node_of(link).map(|(node, _)| node);
        let items: Vec<_> = slots
            .iter()
            .filter_map(|slot| self.slots.get(*slot))
            .map(|slot| Asked {
                item: slot.item,
                repeated: slot.repeated,
                version,
                node,
            })
            .collect();
        let broker = cluster.address_of(link);
        self.answers += 1;
        let attempts = self.attempts;
        let api = self.call.api().name();
        let named = |error: Error| {
            let error = error.calling(api).after(attempts);
            match &broker {
                Some(address) => error.at(address),
                None => error,
            }
        };
        let results = self.call.take(slots, &items, response);
        let mut again = None;
        for ((slot, asked), result) in slots.iter().zip(&items).zip(results) {
            match result.map_err(named) {
                Ok(()) => {
                    match self.call.effect(asked.item) {
                        Some(Effect::Created(topic)) => cluster.note_created(now, topic),
                        Some(Effect::Deleted(topic)) => cluster.note_deleted(topic),
                        None => {}
                    }
                    self.set_done(*slot, Ok(()));
                }
                Err(error) => {
                    let retry = self.retry(now, cluster, *slot, &error);
                    if retry != Retry::Elsewhere {
                        self.doubt(*slot, self.call.proves_nothing(&error));
                    }
                    match retry {
                        Retry::Never => {
                            self.set_done(*slot, Err(error));
                            continue;
                        }
                        Retry::Soon => self.reopen(*slot),
                        Retry::AfterPause => self.look_up_again(now, cluster, *slot),
                        Retry::Elsewhere => {
                            self.look_up_again(now, cluster, *slot);
                            self.ask_another(link, cluster);
                        }
                    }
                    again = Some(match retry {
                        Retry::Elsewhere => (retry, unheard(&error)),
                        _ => (retry, error),
                    });
                }
            }
        }
        match again {
            Some((Retry::Soon, error)) => {
                self.not_before = now + self.early.min(cluster.config().retry_backoff);
                self.early = EARLY.1.min(self.early * 2);
                cluster.set_alarm(self.not_before);
                self.last_error = Some(error);
            }
            Some((_, error)) => self.pause(now, cluster, error),
            None => {}
        }
    }

    /// There will be no response to a request.
    pub(super) fn lose(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        slots: &[usize],
        orphan: &Orphan,
    ) {
        let again = orphan.may_be_repeated() && !self.is_once();
        for slot in slots {
            self.doubt(*slot, orphan.sent);
            if !again {
                self.set_done(*slot, Err(orphan.error.clone()));
            } else {
                self.look_up_again(now, cluster, *slot);
            }
        }
        if again {
            self.pause(now, cluster, orphan.error.clone().after(self.attempts));
        }
    }

    pub(super) fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    pub(super) fn is_done(&self) -> bool {
        self.undone == 0
    }

    /// Gives back what it keeps in the view.
    pub(super) fn release(&self, cluster: &mut Cluster) {
        for topic in &self.topics {
            cluster.unwant(topic);
        }
    }

    /// The result; `error` if the call ended before it was done.
    pub(super) fn end(self, error: Option<Error>) -> AnyAnswer {
        match error {
            Some(error) if !self.tells_each() || error.kind() == Kind::Closed => {
                let error = self.ended_by(error);
                self.call.fail(error)
            }
            error => {
                let changes = self.call.changes();
                let error = error.unwrap_or_else(|| left_out("an item"));
                let found = self.slots.into_iter().map(|slot| {
                    let is_doubtful = changes && slot.is_doubtful();
                    match slot.state {
                        State::Done(result) => result,
                        State::Open | State::Asked if is_doubtful => {
                            Err(error.clone().maybe_done())
                        }
                        State::Open | State::Asked => Err(error.clone()),
                    }
                });
                self.call.merge(found.collect())
            }
        }
    }
}

/// The error at the deadline of a topic that this client made, and that brokers do not know yet.
fn unheard(error: &Error) -> Error {
    let text = "this client created the topic, and the brokers have not heard of it yet";
    let mut told = Error::new(Kind::Timeout, text).after(error.attempts());
    if let Some(topic) = error.topic() {
        told = told.with_topic(&topic.into());
    }
    if let Some(api) = error.api() {
        told = told.calling(api);
    }
    match error.broker() {
        Some(broker) => told.at(broker),
        None => told,
    }
}
