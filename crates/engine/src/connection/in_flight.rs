//! Requests in flight, in the order in which they were written.
//!
//! Brokers respond in the order of requests, so a response always belongs to the oldest one.
//! Anything else means that the stream is out of step.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::{ApiKey, header};

use crate::error::{Error, Kind};

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) correlation: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) token: u64,
    pub(super) deadline: Instant,
    pub(super) timeout: Duration,
    pub(super) expected_bytes: usize,
    /// The size of its frame.
    pub(super) bytes: usize,
}

/// What is overdue.
pub(super) enum Overdue<'a> {
    /// The broker takes no bytes.
    Unwritten(&'a Sent),
    /// There is no response. Later responses could not be distinguished from it.
    Unanswered(&'a Sent),
}

#[derive(Debug, Default)]
pub(super) struct InFlight {
    answered: VecDeque<Sent>,
    /// Requests without a response: they are done when they are written, which has a deadline as
    /// well.
    unwritten: VecDeque<Sent>,
}

impl InFlight {
    /// A request that will be `answered`, or not.
    pub(super) fn push(&mut self, sent: Sent, answered: bool) {
        if answered {
            self.answered.push_back(sent);
        } else {
            self.unwritten.push_back(sent);
        }
    }

    /// The request that a frame responds to.
    ///
    /// # Errors
    /// The frame responds to no request, or not to the oldest.
    pub(super) fn take(&mut self, frame: &Bytes) -> Result<Sent, Error> {
        let correlation = header::correlation_id(frame).map_err(|cause| {
            Error::new(Kind::Protocol, format!("a response has no header: {cause}"))
        })?;
        let Some(oldest) = self.answered.pop_front() else {
            let text = format!(
                "a response with correlation id {correlation} came, but no request is in flight"
            );
            return Err(Error::new(Kind::Protocol, text));
        };
        if correlation != oldest.correlation {
            let text = format!(
                "a response has correlation id {correlation} instead of {}",
                oldest.correlation
            );
            return Err(Error::new(Kind::Protocol, text).calling(oldest.api.name()));
        }
        Ok(oldest)
    }

    /// Every frame was written: the tokens of the requests that have no response, and their sizes.
    pub(super) fn written(&mut self) -> Vec<(u64, usize)> {
        let written = self.unwritten.drain(..);
        written.map(|sent| (sent.token, sent.bytes)).collect()
    }

    /// Whether responses are outstanding.
    pub(super) fn owes_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Whether nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.answered.is_empty() && self.unwritten.is_empty()
    }

    /// Bytes that the client requested for the next response.
    pub(super) fn expected_bytes(&self) -> usize {
        self.answered.front().map_or(0, |sent| sent.expected_bytes)
    }

    /// When the first of them is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = self.answered.iter().chain(&self.unwritten);
        all.map(|sent| sent.deadline).min()
    }

    /// What is overdue at `now`.
    pub(super) fn overdue(&self, now: Instant) -> Option<Overdue<'_>> {
        let late = |sent: &&Sent| sent.deadline <= now;
        if let Some(unwritten) = self.unwritten.front().filter(late) {
            return Some(Overdue::Unwritten(unwritten));
        }
        self.answered.iter().find(late).map(Overdue::Unanswered)
    }
}
