//! Requests on connections: queued requests, requests in flight, and the pauses between them
//! (KIP-219).

use std::time::{Duration, Instant};

use ottla_protocol::ApiKey;

use super::super::context::Context;
use super::super::target::{LinkId, Owner};
use super::{Action, InFlight, Links, Next, Orphan, Queued, State};
use crate::api::{Request, Versions};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::metrics::Answered;
use crate::observe::{Level, Observed};

/// The longest pause of a broker that is kept: longer than any quota window, shorter than forever.
const LONGEST_THROTTLE: Duration = Duration::from_secs(60);

/// The limit of requests in flight on one connection; more requests wait in the queue. A producer's
/// batches have a limit of their own.
const MOST_IN_FLIGHT: usize = 100;

impl Links {
    /// Queues a request, to be sent at version `most` or below; its response, or its failure, comes
    /// with the token returned.
    pub(in crate::cluster) fn ask(
        &mut self,
        link: LinkId,
        owner: Owner,
        (request, most): (Request, i16),
        timeout: Duration,
    ) -> u64 {
        let token = self.fresh_id();
        match self.links.get_mut(&link) {
            Some(entry) => {
                entry.queue.push_back(Queued {
                    token,
                    owner,
                    request,
                    most,
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
    pub(in crate::cluster) fn withdraw(&mut self, tokens: &[u64]) {
        for link in self.links.values_mut() {
            link.queue.retain(|queued| !tokens.contains(&queued.token));
        }
    }

    /// A number that was never given before: a token, or a link's.
    pub(in crate::cluster) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Makes the shell look for something to send on `link`.
    pub(in crate::cluster) fn wake(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link)
            && !entry.woken
            && entry.is_up()
        {
            entry.woken = true;
            self.actions.push_back(Action::Wake(link));
        }
    }

    /// The shell polls this link without a wake-up; until it stops, no wake-up is needed.
    pub(in crate::cluster) fn not_woken(&mut self, link: LinkId) {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.woken = false;
        }
    }

    /// Whether the broker's throttle time on this link is not over; if so, sets the alarm for its
    /// end.
    pub(in crate::cluster) fn is_throttled(
        &self,
        now: Instant,
        context: &mut Context,
        link: LinkId,
    ) -> bool {
        let until = self.links.get(&link).and_then(|link| link.throttled_until);
        until.is_some_and(|until| {
            if until > now {
                context.set_alarm(until);
            }
            until > now
        })
    }

    /// Wakes links whose pause is over.
    pub(in crate::cluster) fn end_pauses(&mut self, now: Instant, context: &mut Context) {
        let Some(at) = self.pause_ends else {
            return;
        };
        if at > now {
            return context.set_alarm(at);
        }
        let (mut over, mut next) = (Vec::new(), None::<Instant>);
        for (id, link) in &mut self.links {
            match link.throttled_until {
                Some(until) if until <= now => {
                    link.throttled_until = None;
                    over.push(*id);
                }
                Some(until) => next = Some(next.map_or(until, |next| next.min(until))),
                None => {}
            }
        }
        self.pause_ends = next;
        if let Some(at) = next {
            context.set_alarm(at);
        }
        for link in over {
            self.wake(link);
        }
    }

    /// Keeps the throttle time that the broker requested in a response (KIP-219).
    pub(in crate::cluster) fn throttle(
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
        self.pause_ends = Some(self.pause_ends.map_or(until, |at| at.min(until)));
        context.set_alarm(until);
        context.observer.tell(Observed::Throttled {
            broker: entry.address(),
            api,
            pause,
        });
    }

    /// The next queued request of `link`.
    pub(in crate::cluster) fn next_queued(
        &mut self,
        now: Instant,
        context: &mut Context,
        link: LinkId,
    ) -> Next {
        let Some(entry) = self.links.get_mut(&link) else {
            return Next::Nothing;
        };
        let State::Up(versions) = &entry.state else {
            return Next::Nothing;
        };
        // Responses make space again; the shell polls after each.
        if entry.in_flight.len() >= MOST_IN_FLIGHT {
            return Next::Nothing;
        }
        let Some(queued) = entry.queue.pop_front() else {
            return Next::Nothing;
        };
        entry.used = now;
        let Queued {
            token,
            owner,
            request,
            most,
            timeout,
        } = queued;
        match versions.choose(request.api(), most) {
            Ok(version) => {
                context.meters.asked(now, entry.number());
                entry.in_flight.push_back(InFlight {
                    token,
                    owner,
                    api: request.api(),
                    version,
                    sent: now,
                });
                Next::Send(Box::new(Outgoing {
                    token,
                    request,
                    version,
                    timeout,
                    answered: true,
                    expected_bytes: 0,
                }))
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
    pub(in crate::cluster) fn version(
        &self,
        link: LinkId,
        api: ApiKey,
        cap: i16,
    ) -> Result<i16, Error> {
        match self.links.get(&link).map(|link| (link, &link.state)) {
            Some((link, State::Up(versions))) => versions
                .choose(api, cap)
                .map_err(|error| error.at(link.address())),
            _ => Err(Error::new(Kind::Unreachable, "the connection is not up")),
        }
    }

    /// The versions of the broker of `link`, if it is up, and else of the broker that was connected
    /// to last; with its address.
    pub(in crate::cluster) fn speaks(&self, link: Option<LinkId>) -> Option<(String, &Versions)> {
        let of_link = link.and_then(|link| self.links.get(&link));
        match of_link.map(|link| (link, &link.state)) {
            Some((link, State::Up(versions))) => Some((link.address(), versions)),
            _ => self
                .last_up
                .as_ref()
                .map(|(address, versions)| (address.clone(), versions)),
        }
    }

    /// Whether a broker speaks `api` below this version only, of those that are connected or were last.
    pub(in crate::cluster) fn any_lacks(&self, api: ApiKey, version: i16) -> bool {
        let up = self.links.values().filter_map(|link| match &link.state {
            State::Up(versions) => Some(versions),
            State::Dialing { .. } => None,
        });
        let last = self.last_up.iter().map(|(_, versions)| versions);
        let highest = |versions: &Versions| versions.choose(api, i16::MAX);
        up.chain(last)
            .any(|versions| highest(versions).is_ok_and(|max| max < version))
    }

    /// Notes a request that its owner dispatched itself.
    #[allow(clippy::too_many_arguments, reason = "what there is to know of it")]
    pub(in crate::cluster) fn sent(
        &mut self,
        context: &mut Context,
        link: LinkId,
        token: u64,
        owner: Owner,
        api: ApiKey,
        version: i16,
        now: Instant,
    ) {
        if let Some(entry) = self.links.get_mut(&link) {
            context.meters.asked(now, entry.number());
            entry.used = now;
            entry.in_flight.push_back(InFlight {
                token,
                owner,
                api,
                version,
                sent: now,
            });
        }
    }

    /// The owner of a request whose response came, and the version of both.
    pub(in crate::cluster) fn answered(
        &mut self,
        now: Instant,
        context: &mut Context,
        link: LinkId,
        token: u64,
        sizes: (usize, usize),
    ) -> Option<(Owner, i16)> {
        let entry = self.links.get_mut(&link)?;
        let request = entry.take(token)?;
        let took = now.saturating_duration_since(request.sent);
        let answered = Answered {
            node: entry.number(),
            api: request.api,
            took,
            sizes,
        };
        context.meters.answered(now, answered);
        entry.used = now;
        if context.observer.wants(Level::Debug) {
            context.observer.tell(Observed::Answered {
                broker: entry.address(),
                api: request.api.name(),
                version: request.version,
                took,
            });
        }
        Some((request.owner, request.version))
    }

    /// The owner of a request that has no response.
    pub(in crate::cluster) fn unanswered(&mut self, link: LinkId, token: u64) -> Option<Owner> {
        Some(self.links.get_mut(&link)?.take(token)?.owner)
    }
}
