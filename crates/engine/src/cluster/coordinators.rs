//! Which broker coordinates a group or a transaction.
//!
//! ```text
//!  wanted ── FindCoordinator, to any broker ──▶ asked ── response ──▶ known ── a call was sent away ──▶ wanted
//!     ▲                                           │
//!     └── after a pause ◀── retriable error ──────┘      an error that waiting cannot heal ──▶ every call that waits
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;
use ottla_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use rustc_hash::FxHashMap;

use super::context::Context;
use super::target::CoordinatorType;
use crate::error::{Error, Kind};
use crate::observe::Observed;

type Key = (CoordinatorType, Arc<str>);

/// A coordinator that was not needed for this long is no longer looked up.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// What is known about a coordinator.
#[derive(Clone, Debug)]
enum State {
    Wanted { after: Option<Instant> },
    Asked,
    Known(i32),
}

#[derive(Debug)]
struct Entry {
    state: State,
    failures: u32,
    /// When it was last needed.
    asked_for: Instant,
    /// Why it is not known, as far as known.
    error: Option<Error>,
}

/// Where a call that goes to a coordinator stands.
#[derive(Debug)]
pub(crate) enum Coordinator {
    /// This broker.
    Known(i32),
    /// It is being looked for; why it was not found so far.
    Sought(Option<Error>),
    /// Waiting cannot help.
    Refused(Error),
}

#[derive(Debug, Default)]
pub(super) struct Coordinators {
    entries: FxHashMap<Key, Entry>,
    asked: FxHashMap<u64, Key>,
}

impl Coordinators {
    /// The coordinator, if it is known; else makes sure that it is looked for.
    pub(super) fn find(
        &mut self,
        now: Instant,
        kind: CoordinatorType,
        key: &Arc<str>,
    ) -> Coordinator {
        let entry = self
            .entries
            .entry((kind, Arc::clone(key)))
            .or_insert(Entry {
                state: State::Wanted { after: None },
                failures: 0,
                asked_for: now,
                error: None,
            });
        entry.asked_for = now;
        match (&entry.state, &entry.error) {
            (State::Known(node), _) => Coordinator::Known(*node),
            // After the pause, the request is repeated: by then the client may have the permission.
            (State::Wanted { after: Some(at) }, Some(error))
                if *at > now && !error.is_retriable() =>
            {
                Coordinator::Refused(error.clone())
            }
            (_, error) => Coordinator::Sought(error.clone().filter(Error::is_retriable)),
        }
    }

    /// The broker said that it is not, or no longer, the coordinator.
    pub(super) fn forget(&mut self, kind: CoordinatorType, key: &Arc<str>) {
        self.entries.remove(&(kind, Arc::clone(key)));
    }

    /// The next request that is due.
    pub(super) fn next_question(
        &mut self,
        now: Instant,
        context: &mut Context,
    ) -> Option<(Key, FindCoordinatorRequest)> {
        self.entries.retain(|_, entry| {
            !matches!(entry.state, State::Wanted { .. }) || entry.asked_for + FORGOTTEN > now
        });
        for (key, entry) in &self.entries {
            let State::Wanted { after } = entry.state else {
                continue;
            };
            if let Some(at) = after.filter(|at| *at > now) {
                context.set_alarm(at);
                continue;
            }
            let request = FindCoordinatorRequest {
                key_type: key.0.key_type(),
                coordinator_keys: vec![(&*key.1).into()],
                ..Default::default()
            };
            return Some((key.clone(), request));
        }
        None
    }

    pub(super) fn set_asked(&mut self, key: Key, token: u64) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.state = State::Asked;
            self.asked.insert(token, key);
        }
    }

    /// Handles a response of any version.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        context: &mut Context,
        token: u64,
        broker: Option<String>,
        answer: &FindCoordinatorResponse,
    ) {
        let Some(key) = self.asked.remove(&token) else {
            return;
        };
        let (code, node, text) = match answer.coordinators.first() {
            Some(row) => (row.error_code, row.node_id, row.error_message.as_deref()),
            None => (
                answer.error_code,
                answer.node_id,
                answer.error_message.as_deref(),
            ),
        };
        let code = ErrorCode(code);
        if code.is_error() {
            let mut error = Error::from_code(code, text);
            if let Some(broker) = broker {
                error = error.at(broker);
            }
            return self.fail(now, context, key, error);
        }
        if node < 0 {
            let text = "the response names no broker";
            return self.fail(now, context, key, Error::new(Kind::Protocol, text));
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.state = State::Known(node);
            entry.failures = 0;
            entry.error = None;
        }
    }

    pub(super) fn handle_orphan(
        &mut self,
        now: Instant,
        context: &mut Context,
        token: u64,
        error: Error,
    ) {
        if let Some(key) = self.asked.remove(&token) {
            self.fail(now, context, key, error);
        }
    }

    fn fail(&mut self, now: Instant, context: &mut Context, key: Key, error: Error) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.failures = entry.failures.saturating_add(1);
        let error = match key.0 {
            CoordinatorType::Group => error.with_group(&key.1),
            CoordinatorType::Transaction => error.with_transactional_id(&key.1),
        };
        let error = error.calling("FindCoordinator").after(entry.failures);
        let pause = context.retry_pause(entry.failures);
        let at = now + pause;
        entry.state = State::Wanted { after: Some(at) };
        context.set_alarm(at);
        if error.is_retriable() {
            context.observer.tell(Observed::Retried {
                cause: error.clone(),
                attempts: entry.failures,
                pause,
            });
        }
        entry.error = Some(error);
    }
}
