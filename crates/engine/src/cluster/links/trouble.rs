//! Why no broker can be reached, and whether waiting can help: the text of the error of a call
//! whose deadline passed.

use std::time::{Duration, Instant};

use super::super::context::Context;
use super::super::target::{Destination, Lane};
use super::{Failure, Link, Links};
use crate::change::Change;
use crate::error::{Error, Kind};
use crate::observe::Observed;

/// A broker that has just started, or whose list of users changes, may refuse a client once and
/// accept it later: only this many refusals in a row are reported.
const BELIEVED: u32 = 3;
/// How long an address that stays unreachable is not warned of again.
const REMINDER: Duration = Duration::from_secs(60);

impl Links {
    /// Why the broker does not accept the client on this connection, and when it last refused, if
    /// several attempts in a row were refused.
    pub(in crate::cluster) fn believed_refusal_of(
        &self,
        node: i32,
        lane: Lane,
    ) -> Option<(&Error, Instant)> {
        let failure = self.failures.get(&Destination::Node(node, lane))?;
        (failure.refusals >= BELIEVED).then_some((&failure.cause, failure.at))
    }

    /// Reports a broker of the cluster that does not accept the client, once until it does.
    pub(super) fn tell_refusal(&mut self, context: &mut Context, destination: Destination) {
        let Destination::Node(node, lane) = destination else {
            return;
        };
        if let Some((cause, _)) = self.believed_refusal_of(node, lane) {
            let cause = cause.clone();
            if self.refusing.insert(node) {
                context.observer.tell(Observed::Refused { node, cause });
                // A waiter for a position that only this broker can return stops waiting.
                context.changes.tell(Change::Position);
            }
        }
    }

    /// Notices that the DNS knew none of the bootstrap servers for too long (KIP-909).
    pub(super) fn note_unresolved(&mut self, now: Instant, context: &Context) {
        let timeout = context.config.resolve_timeout;
        let too_long = self.first_dial.is_some_and(|at| now >= at + timeout);
        self.unresolved = !timeout.is_zero()
            && too_long
            && !self.ever_up
            && self.every_bootstrap_failed(context, Kind::Unresolved);
    }

    fn every_bootstrap_failed(&self, context: &Context, kind: Kind) -> bool {
        (0..context.config.bootstrap.len()).all(|index| {
            self.failures
                .get(&Destination::Bootstrap(index))
                .is_some_and(|failure| failure.cause.kind() == kind)
        })
    }

    /// Why no broker can take a request at the moment: each address tried, and what happened. `None` if one is
    /// connected.
    pub(in crate::cluster) fn trouble(&self, context: &Context) -> Option<Error> {
        if self.is_connected() {
            return None;
        }
        if !self.failures.is_empty() {
            let kind = match self.failures.values().next() {
                _ if self.unresolved => Kind::Unresolved,
                Some(failure) if self.is_hopeless(context) => match failure.cause.kind() {
                    Kind::NotKafka => Kind::NotKafka,
                    _ => Kind::Authentication,
                },
                _ => Kind::Unreachable,
            };
            return Some(Error::new(
                kind,
                format!("no broker could be reached: {}", self.causes()),
            ));
        }
        let dialing: Vec<_> = self.links.values().map(Link::address).collect();
        let text = match (dialing.is_empty(), context.config.bootstrap.first()) {
            (false, _) => format!(
                "still connecting to {}, no response so far",
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

    /// Whether the first connections are still being set up, and no attempt has failed that leaves none to wait for. Each attempt
    /// fails after `socket.connection.setup.timeout.ms` at the latest.
    pub(in crate::cluster) fn is_starting(&self, context: &Context) -> bool {
        // Without a count it was an attempt that taught how to connect to this broker.
        let is_untried = |it: &Destination| self.failures.get(it).is_none_or(|it| it.count == 0);
        let mut bootstrap = (0..context.config.bootstrap.len()).map(Destination::Bootstrap);
        let has_untried = !self.ever_up && bootstrap.any(|it| is_untried(&it));
        let mut links = self.links.values();
        let is_first_attempt = links.any(|link| !link.is_up() && is_untried(&link.destination));
        !self.in_contact && (has_untried || is_first_attempt)
    }

    /// Whether a broker was ever connected at the address that the cluster advertises for it. Until then an unreachable
    /// broker may be a mistake in the settings; after that it is an outage.
    pub(in crate::cluster) fn was_in_contact(&self) -> bool {
        self.in_contact
    }

    /// Whether a failure to connect to this address is worth a warning: the first one, and one each minute.
    pub(super) fn warns(&mut self, now: Instant, address: &str) -> bool {
        self.warned.retain(|_, at| now < *at + REMINDER);
        let is_due = !self.warned.contains_key(address);
        if is_due {
            self.warned.insert(address.to_owned(), now);
        }
        is_due
    }

    /// Whether a broker has ever taken the client in.
    pub(in crate::cluster) fn was_ever_up(&self) -> bool {
        self.ever_up
    }

    /// Whether any broker of the cluster and the client do not accept each other.
    pub(in crate::cluster) fn is_refused_by_a_node(&self) -> bool {
        self.failures.iter().any(|(destination, failure)| {
            matches!(destination, Destination::Node(..)) && failure.cause.is_refusal()
        })
    }

    /// Whether waiting cannot help: at every address given stands something that is not a broker, or a broker and the client do
    /// not accept each other; or the DNS did not know any of their names for too long. After a first success: a refusal by every
    /// broker, and none is being dialled. Credentials that were replaced since then may be accepted.
    pub(in crate::cluster) fn is_hopeless(&self, context: &Context) -> bool {
        if self.has_other_credentials(context) {
            return false;
        }
        let is_final = |failure: &Failure| failure.cause.is_final();
        if self.ever_up {
            let mut failures = self.failures.values();
            return self.links.is_empty()
                && !self.failures.is_empty()
                && failures.all(|failure| failure.cause.is_refusal());
        }
        self.unresolved
            || (0..context.config.bootstrap.len()).all(|index| {
                self.failures
                    .get(&Destination::Bootstrap(index))
                    .is_some_and(is_final)
            })
    }
}
