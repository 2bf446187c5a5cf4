//! One connection as a state machine: frames in, responses out, in order; no socket, task or clock.
//!
//! ```text
//!           frame                    response
//!   ready ─────────► handled ───────────────────────► ready, or held while quotas keep the client away
//!                      │  ▲                  └──────► held ──► over: faults, failed authentication
//!                      ▼  │ rung, or the deadline
//!                    parked
//! ```
//!
//! Requests are handled one after another, as Kafka does. The work of a request and what follows
//! from it are two calls, [`Conversation::handle`] and [`Conversation::settle`], so that the caller
//! can measure how long the work took.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use ottla_protocol::{ApiKey, Frame, Str};

use crate::api::{self, Answered, Ask, Client, Opened, Outcome, Wait};
use crate::core::Core;
use crate::fault::Fault;
use crate::now::Now;
use crate::security::Usage;

/// How long a client that could not authenticate may take to read that.
const FAREWELL: Duration = Duration::from_millis(200);

pub(crate) struct Conversation {
    core: Arc<Core>,
    client: Client,
    stage: Stage,
    /// What the client gets, cut as the responses are.
    output: VecDeque<Bytes>,
}

/// Where a conversation stands.
enum Stage {
    /// The next frame may come, until then.
    Ready(Option<Instant>),
    /// A response waits for an event.
    Parked(Exchange, Wait<Answered>),
    /// A request was handled, and must be settled. `None`: no response is due.
    Handled(Exchange, Option<Answered>),
    /// Nothing happens until then.
    Held(Option<Instant>, Then),
    Over(Option<String>),
}

/// What follows when a conversation was held.
enum Then {
    Ready,
    Reply(Settled),
    /// One byte after the other, and then this, when that time has passed.
    Trickle(Bytes, Duration, Box<Then>),
    Farewell(Option<Frame>, String),
    End(String),
}

impl Then {
    /// Why the connection ends, if it does.
    fn end(&self) -> Option<&str> {
        match self {
            Self::Farewell(_, reason) | Self::End(reason) => Some(reason),
            Self::Trickle(_, _, then) => then.end(),
            Self::Ready | Self::Reply(_) => None,
        }
    }
}

/// A request that is being handled.
struct Exchange {
    api: ApiKey,
    bytes: usize,
    client_id: Str,
    fault: Option<Fault>,
    /// When the work began that is not counted yet.
    begun: Instant,
    handled: Duration,
}

/// A request that was handled to its end.
struct Settled {
    /// The response, if one is due.
    frame: Option<Frame>,
    throttle: Duration,
}

/// What a conversation needs from its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// [`Conversation::handle`] with the next frame, or [`Conversation::handle_timeout`] at the timeout.
    Frame,
    /// [`Conversation::handle_timeout`] when its waker was woken, or at the timeout.
    Time,
    /// The end of the connection, for this reason if there is one.
    End(Option<String>),
}

/// The most bytes of a frame, and the setting of this limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameLimit {
    bytes: usize,
    setting: &'static str,
}

impl FrameLimit {
    /// The length of the frame that begins with these bytes.
    ///
    /// # Errors
    /// Why there can be none; the connection ends.
    pub(crate) fn check(self, start: [u8; 4]) -> Result<usize, String> {
        if start.starts_with(&[0x16, 0x03]) {
            return Err("it speaks TLS, and this port does not".to_owned());
        }
        if [*b"GET ", *b"POST", *b"PUT ", *b"HEAD"].contains(&start) {
            return Err("it speaks HTTP, and this is a Kafka broker".to_owned());
        }
        let length = i32::from_be_bytes(start);
        match usize::try_from(length) {
            Ok(length) if length <= self.bytes => Ok(length),
            _ => Err(format!(
                "a request of {length} bytes; from 0 to {} are allowed ({})",
                self.bytes, self.setting
            )),
        }
    }
}

impl Drop for Conversation {
    /// What a member of a share group has acquired here is free when its connection ends.
    fn drop(&mut self) {
        let sessions = mem::take(&mut *self.client.shares.lock());
        if !sessions.is_empty() {
            self.core.end_share_sessions(&sessions);
        }
    }
}

impl Conversation {
    pub(crate) fn new(core: Arc<Core>, client: Client, now: Now) -> Self {
        let mut conversation = Self {
            core,
            client,
            stage: Stage::Over(None),
            output: VecDeque::new(),
        };
        conversation.become_ready(now);
        conversation
    }

    /// What comes next.
    pub(crate) fn need(&self) -> Need {
        match &self.stage {
            Stage::Ready(_) => Need::Frame,
            Stage::Over(reason) => Need::End(reason.clone()),
            Stage::Parked(..) | Stage::Handled(..) | Stage::Held(..) => Need::Time,
        }
    }

    /// Why the connection has ended, now that the client has gone; `None` where that is nothing worth telling.
    pub(crate) fn farewell(&self) -> Option<&str> {
        match &self.stage {
            Stage::Held(_, then) => then.end(),
            _ => None,
        }
    }

    /// What is to be sent.
    pub(crate) fn take_output(&mut self) -> VecDeque<Bytes> {
        mem::take(&mut self.output)
    }

    /// How long the next frame may be.
    pub(crate) fn frame_limit(&self) -> FrameLimit {
        let settings = &self.core.settings;
        if self.client.session.lock().is_open() {
            FrameLimit {
                bytes: settings.request_max_bytes,
                setting: "socket.request.max.bytes",
            }
        } else {
            FrameLimit {
                bytes: settings.sasl_max_bytes,
                setting: "before it has authenticated: sasl.server.max.receive.size",
            }
        }
    }

    /// Ends the conversation for this reason.
    pub(crate) fn end(&mut self, reason: String) {
        self.stage = Stage::Over(Some(reason));
    }

    /// Handles a frame, without its length. [`Conversation::settle`] must follow.
    pub(crate) fn handle(&mut self, frame: Bytes, now: Now) {
        if let Err(reason) = self.try_handle(frame, now) {
            self.end(reason);
        }
    }

    fn try_handle(&mut self, frame: Bytes, now: Now) -> Result<(), String> {
        if self.client.session.lock().expects_bare_token() {
            self.bare_token(&frame, now);
            return Ok(());
        }
        let opened = api::open(frame)?;
        self.client.session.lock().admits(opened.api, now)?;
        let own = self.core.faults.take(opened.api);
        let fault = own.or_else(|| self.core.shared_faults.take(opened.api));
        let ask = match fault {
            Some(Fault::CloseBefore) => {
                return Err(injected(opened.api, "before the request was applied"));
            }
            Some(Fault::Silence) => {
                self.become_ready(now);
                return Ok(());
            }
            Some(Fault::Hang) => {
                self.stage = Stage::Held(None, Then::Ready);
                return Ok(());
            }
            Some(Fault::Error { code, applied, .. }) if applied => Ask::AnswerAndRefuse(code),
            Some(Fault::Error { code, .. }) => Ask::Refuse(code),
            Some(Fault::Withheld) => Ask::AnswerWithLess,
            _ => Ask::Answer,
        };
        let exchange = Exchange::new(&opened, fault, now);
        let outcome = api::handle(&self.core, opened, &self.client, now, ask);
        self.proceed(exchange, outcome);
        Ok(())
    }

    /// A SASL token without a header, as clients before 1.0 send them.
    fn bare_token(&mut self, token: &[u8], now: Now) {
        let mut session = self.client.session.lock();
        let reply = self.core.authenticate(&mut session, token, now);
        drop(session);
        match reply {
            Ok(reply) => {
                let mut bytes = BytesMut::with_capacity(4 + reply.token.len());
                bytes.put_u32(u32::try_from(reply.token.len()).unwrap_or(0));
                bytes.put_slice(&reply.token);
                self.output.push_back(bytes.freeze());
                self.become_ready(now);
            }
            // The end of the connection is all that such a client can get.
            Err((_, why)) => {
                let delay = self.core.settings.failed_authentication_delay;
                self.hold(delay, Then::End(why), now);
            }
        }
    }

    fn proceed(&mut self, exchange: Exchange, outcome: Outcome<Answered>) {
        self.stage = match outcome {
            // What is left to be done to it is done where it is encoded.
            Outcome::Answer(answered) | Outcome::Finish(answered, _) => {
                Stage::Handled(exchange, Some(answered))
            }
            Outcome::Silent => Stage::Handled(exchange, None),
            Outcome::Close(reason) => Stage::Over(Some(reason)),
            Outcome::Wait(wait) => Stage::Parked(exchange, wait),
        };
    }

    /// Follows the work of [`Conversation::handle`] and [`Conversation::handle_timeout`], which has
    /// ended `now`: charges quotas, and sends the response if there is one.
    pub(crate) fn settle(&mut self, now: Now) {
        match mem::replace(&mut self.stage, Stage::Over(None)) {
            Stage::Handled(mut exchange, answered) => {
                exchange.count(now);
                match self.charge(&exchange, answered, now) {
                    Ok(settled) => self.answer(exchange, settled, now),
                    Err(reason) => self.end(reason),
                }
            }
            Stage::Parked(mut exchange, wait) => {
                exchange.count(now);
                self.stage = Stage::Parked(exchange, wait);
            }
            stage => self.stage = stage,
        }
    }

    fn charge(
        &self,
        exchange: &Exchange,
        answered: Option<Answered>,
        now: Now,
    ) -> Result<Settled, String> {
        let usage = Usage {
            produced: if exchange.api == ApiKey::Produce {
                exchange.bytes
            } else {
                0
            },
            fetched: answered.as_ref().map_or(0, |answered| answered.fetched),
            handled: exchange.handled,
        };
        let principal = self.client.session.lock().principal().clone();
        let security = &self.core.security;
        let mut throttle = security.charge(&principal, &exchange.client_id, usage, now.instant);
        if let Some(Fault::Throttle(time)) = exchange.fault {
            throttle.time = throttle.time.max(time);
        }
        let frame = answered.map(|answered| (answered.encode)(throttle));
        Ok(Settled {
            frame: frame.transpose()?,
            throttle: throttle.time,
        })
    }

    /// Sends the response, in the way of a fault if there is one.
    fn answer(&mut self, exchange: Exchange, settled: Settled, now: Now) {
        match exchange.fault {
            Some(Fault::Delay(time)) => self.hold(time, Then::Reply(settled), now),
            Some(Fault::Error { delay, .. }) if !delay.is_zero() => {
                self.hold(delay, Then::Reply(settled), now);
            }
            Some(Fault::SilenceAfterApply) => self.become_ready(now),
            Some(Fault::CloseAfterAnswer) => {
                self.send(settled.frame);
                self.end(injected(exchange.api, "after the response"));
            }
            Some(Fault::ByteByByte) => {
                let whole = settled.frame.map(Frame::into_bytes).unwrap_or_default();
                let Some(reason) = self.failure() else {
                    return self.trickle(whole, settled.throttle, Then::Ready, now);
                };
                let farewell = Then::Trickle(whole, FAREWELL, Box::new(Then::End(reason)));
                let delay = self.core.settings.failed_authentication_delay;
                self.hold(delay, farewell, now);
            }
            Some(Fault::CloseAfterApply) => {
                self.end(injected(exchange.api, "after the request was applied"));
            }
            Some(Fault::CutAfter(length)) => {
                if let Some(frame) = settled.frame {
                    let mut bytes = frame.into_bytes();
                    bytes.truncate(length);
                    self.output.push_back(bytes);
                }
                let what = format!("after {length} bytes of the response");
                self.end(injected(exchange.api, &what));
            }
            Some(Fault::Twice) => {
                let bytes = settled.frame.map(Frame::into_bytes);
                self.output.extend(bytes.clone());
                self.output.extend(bytes);
                self.become_ready(now);
            }
            Some(Fault::WrongCorrelationId) => {
                if let Some(frame) = settled.frame {
                    let mut bytes = BytesMut::from(&*frame.into_bytes());
                    // It follows the length.
                    if let Some(byte) = bytes.get_mut(4) {
                        *byte ^= 0x40;
                    }
                    self.output.push_back(bytes.freeze());
                }
                self.become_ready(now);
            }
            _ => self.reply(settled, now),
        }
    }

    /// Sends a response, and throttles the client for as long as quotas require; a failed
    /// authentication ends the connection.
    fn reply(&mut self, settled: Settled, now: Now) {
        if let Some(reason) = self.failure() {
            let delay = self.core.settings.failed_authentication_delay;
            return self.hold(delay, Then::Farewell(settled.frame, reason), now);
        }
        self.send(settled.frame);
        if settled.throttle.is_zero() {
            self.become_ready(now);
        } else {
            self.hold(settled.throttle, Then::Ready, now);
        }
    }

    /// Why the client could not authenticate, if it tried.
    fn failure(&self) -> Option<String> {
        self.client.session.lock().failed().map(str::to_owned)
    }

    fn send(&mut self, frame: Option<Frame>) {
        if let Some(frame) = frame {
            self.output.extend(frame.into_segments());
        }
    }

    /// Sends the first byte of these, and those behind it when the caller has come again; after the last comes `then`, when
    /// `time` has passed.
    fn trickle(&mut self, mut rest: Bytes, time: Duration, then: Then, now: Now) {
        if rest.is_empty() {
            return match then {
                Then::Ready if time.is_zero() => self.become_ready(now),
                then => self.hold(time, then, now),
            };
        }
        self.output.push_back(rest.split_to(1));
        let more = Then::Trickle(rest, time, Box::new(then));
        self.hold(Duration::ZERO, more, now);
    }

    fn become_ready(&mut self, now: Now) {
        self.stage = Stage::Ready(now.instant.checked_add(self.core.settings.max_idle));
    }

    fn hold(&mut self, time: Duration, then: Then, now: Now) {
        self.stage = Stage::Held(now.instant.checked_add(time), then);
    }

    /// When [`Conversation::handle_timeout`] has something to do, unless a waker is woken before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Ready(until) | Stage::Held(until, _) => *until,
            Stage::Parked(_, wait) => wait.deadline,
            Stage::Handled(..) | Stage::Over(_) => None,
        }
    }

    /// Does what is due. [`Conversation::settle`] must follow.
    pub(crate) fn handle_timeout(&mut self, now: Now) {
        let is_due = match &self.stage {
            Stage::Parked(_, wait) if wait.awaited.bell().is_rung() => true,
            _ => self.next_timeout().is_some_and(|due| due <= now.instant),
        };
        if !is_due {
            return;
        }
        match mem::replace(&mut self.stage, Stage::Over(None)) {
            Stage::Parked(mut exchange, wait) => {
                exchange.begun = now.instant;
                let Wait {
                    awaited, resume, ..
                } = wait;
                // Nobody is to count what comes from here on.
                drop(awaited);
                let outcome = resume(now);
                self.proceed(exchange, outcome);
            }
            Stage::Held(_, then) => match then {
                Then::Ready => self.become_ready(now),
                Then::Reply(settled) => self.reply(settled, now),
                Then::Trickle(rest, time, then) => self.trickle(rest, time, *then, now),
                Then::Farewell(frame, reason) => {
                    self.send(frame);
                    // Some clients lose a response that comes together with the end of the stream,
                    // so they may close first.
                    self.hold(FAREWELL, Then::End(reason), now);
                }
                Then::End(reason) => self.end(reason),
            },
            Stage::Ready(_) => self.end(format!(
                "it sent nothing for {} ms (connections.max.idle.ms)",
                self.core.settings.max_idle.as_millis()
            )),
            stage => self.stage = stage,
        }
    }
}

impl Exchange {
    fn new(opened: &Opened, fault: Option<Fault>, now: Now) -> Self {
        Self {
            api: opened.api,
            bytes: opened.bytes,
            client_id: opened.client_id(),
            fault,
            begun: now.instant,
            handled: Duration::ZERO,
        }
    }

    /// Counts the work that ends `now`.
    fn count(&mut self, now: Now) {
        self.handled += now.instant.saturating_duration_since(self.begun);
        self.begun = now.instant;
    }
}

fn injected(api: ApiKey, what: &str) -> String {
    format!("{}: an injected fault closed it {what}", api.name())
}
