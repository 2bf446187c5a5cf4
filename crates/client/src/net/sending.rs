//! What is on its way to a broker on one connection.
//!
//! The connection's task sends. But if nothing is under way, the thread that gives the engine something to send also
//! sends it: waking the task takes about as long as the broker takes to respond.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use ottla_engine::connection::Connection;
use ottla_engine::dispatch::Dispatch;
use ottla_engine::engine::Event;
use ottla_engine::observe::Observed;
use ottla_engine::{Error, Frame, Kind};
use tokio::io::AsyncWrite;

use crate::net::transport::{now, say};

/// Bytes waiting for the socket at which no more requests are encoded, by the connection's task.
const ENOUGH_TO_WRITE: usize = 4 << 20;
/// The same limit, for a caller's thread.
const ENOUGH_AT_ONCE: usize = 64 << 10;
/// Segments given to one write.
const SEGMENTS: usize = 64;

/// The engine, as one connection sees it.
pub(crate) trait LinkEngine {
    /// The next thing to send on this connection.
    fn poll_send(&self, now: Instant) -> Option<Dispatch>;

    /// Takes in what happened to this connection.
    fn handle(&self, now: Instant, event: Event);

    /// Reports an event to the observer.
    fn tell(&self, event: Observed);
}

/// A connection's requests and its socket. What the engine gives is encoded and written with this locked, so that requests stay
/// in the order in which they came from it.
pub(crate) struct Sending<W> {
    pub(crate) connection: Connection,
    writer: W,
    output: VecDeque<Bytes>,
    unwritten: usize,
    ready: bool,
    /// Nothing is sent any more: the connection is at its end, and its requests are no longer its own.
    stopped: bool,
    /// When the connection's task looks at the clock, if nothing happens before.
    looks_at: Instant,
}

impl<W: AsyncWrite + Unpin> Sending<W> {
    pub(crate) fn new(connection: Connection, writer: W) -> Self {
        Sending {
            connection,
            writer,
            output: VecDeque::new(),
            unwritten: 0,
            ready: false,
            stopped: false,
            looks_at: now(),
        }
    }

    /// The broker's versions are known: requests may be sent.
    pub(crate) fn set_ready(&mut self) {
        self.ready = true;
    }

    /// Whether there are bytes that the socket did not take.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// When the connection's task has to look at the clock; `timeout` from now if nothing is under way, in case that
    /// [`Self::send_now`] changes that.
    pub(crate) fn next_look(&mut self, timeout: Duration) -> Instant {
        self.looks_at = self
            .connection
            .next_timeout()
            .unwrap_or_else(|| now() + timeout);
        self.looks_at
    }

    /// The connection ends.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Encodes what there is to send, as long as the socket keeps up.
    pub(crate) fn fill(&mut self, engine: &impl LinkEngine) {
        while let Some(frame) = self.connection.poll_transmit() {
            self.push(&frame);
        }
        self.encode(engine, ENOUGH_TO_WRITE);
    }

    /// Encodes requests until `enough` bytes wait for the socket; false if there may be more.
    fn encode(&mut self, engine: &impl LinkEngine, enough: usize) -> bool {
        while self.ready && self.connection.is_ready() && !self.stopped {
            if self.unwritten >= enough {
                return false;
            }
            let now = now();
            let Some(dispatch) = engine.poll_send(now) else {
                return true;
            };
            self.request(now, engine, dispatch);
        }
        false
    }

    fn request(&mut self, now: Instant, engine: &impl LinkEngine, dispatch: Dispatch) {
        let token = dispatch.token();
        let frame = dispatch
            .into_outgoing()
            .and_then(|outgoing| self.connection.send(now, outgoing));
        match frame {
            Ok(frame) => self.push(&frame),
            Err(error) => engine.handle(now, Event::Unsendable { token, error }),
        }
    }

    /// Sends what there is, if nothing is under way; false if the connection's task has to look after it.
    pub(crate) fn send_now(&mut self, engine: &impl LinkEngine) -> bool {
        if !self.ready || self.has_output() || !self.connection.is_idle() {
            return false;
        }
        let all = self.encode(engine, ENOUGH_AT_ONCE);
        let mut context = Context::from_waker(Waker::noop());
        while self.has_output() {
            // The task handles what the socket does not take now, and the socket's errors.
            let Poll::Ready(Ok(_)) = self.poll_write(&mut context) else {
                return false;
            };
        }
        let timeout = self.connection.next_timeout();
        all && timeout.is_none_or(|at| at >= self.looks_at)
    }

    /// All bytes were written: requests without a response are done.
    pub(crate) fn report_written(&mut self, engine: &impl LinkEngine) {
        for (token, bytes) in self.connection.handle_written() {
            engine.handle(now(), Event::Written { token, bytes });
        }
    }

    fn push(&mut self, frame: &Frame) {
        self.unwritten += frame.len();
        self.output.extend(frame.segments().iter().cloned());
    }

    /// Writes as much as the socket takes at once; true if that was all.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        let mut slices = [IoSlice::new(&[]); SEGMENTS];
        let mut count = 0;
        for (slice, segment) in slices.iter_mut().zip(&self.output) {
            *slice = IoSlice::new(segment);
            count += 1;
        }
        let slices = slices.get(..count).unwrap_or_default();
        if slices.is_empty() {
            return Poll::Ready(Ok(true));
        }
        let unreachable = |text: String| Error::new(Kind::Unreachable, text);
        Pin::new(&mut self.writer)
            .poll_write_vectored(context, slices)
            .map(|written| match written {
                Ok(0) => Err(unreachable("the connection takes no more bytes".to_owned())),
                Ok(written) => {
                    self.drain(written);
                    Ok(self.output.is_empty())
                }
                Err(cause) => Err(unreachable(say(&cause))),
            })
    }

    fn drain(&mut self, mut written: usize) {
        self.unwritten = self.unwritten.saturating_sub(written);
        while let Some(first) = self.output.front_mut() {
            if first.len() > written {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.output.pop_front();
        }
    }
}
