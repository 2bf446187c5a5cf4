//! The parts of a client.
//!
//! A client is a list of parts: the fetcher and the membership of a consumer, the accumulator and the transactions of a producer.
//! Parts share the metadata of the cluster and the calls. The part that dispatched a request, or started a call, receives its
//! response. The client carries facts from one part to another (`Composition::exchange`); parts do not know each other.

use std::fmt;
use std::time::Instant;

use crate::api::Response;
use crate::call::{AnyCall, Asker, Call, CallId, Calls, Ended};
use crate::cluster::{Cluster, LinkId, Orphan, PartId};
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::metrics::Meters;
use crate::telemetry::Telemetry;

/// The state that all parts of a client share.
#[derive(Debug)]
pub struct Core {
    pub(crate) cluster: Cluster,
    pub(crate) calls: Calls,
    pub(crate) telemetry: Telemetry,
    /// The part whose turn it is.
    part: PartId,
}

impl Core {
    pub(crate) fn new(cluster: Cluster) -> Core {
        let pushes = cluster.config().metrics_push;
        Core {
            cluster,
            telemetry: Telemetry::new(pushes),
            calls: Calls::default(),
            part: PartId(0),
        }
    }

    /// Sets the part that starts the calls from here on.
    pub(crate) fn set_turn(&mut self, part: PartId) {
        self.part = part;
    }

    /// Starts a call. [`Part::handle_ended`] of the same part receives its end.
    pub(crate) fn start<C: Call>(&mut self, now: Instant, call: C, deadline: Instant) -> CallId {
        let asker = Asker::Part(self.part);
        self.calls
            .start(now, &mut self.cluster, AnyCall::of(call), asker, deadline)
    }

    /// Starts a call that requests each item once: a retriable error ends its item at once, and the part retries it.
    pub(crate) fn start_once<C: Call>(
        &mut self,
        now: Instant,
        call: C,
        deadline: Instant,
    ) -> CallId {
        let asker = Asker::PartOnce(self.part);
        self.calls
            .start(now, &mut self.cluster, AnyCall::of(call), asker, deadline)
    }
}

/// A request with its response.
#[derive(Debug)]
pub struct Reply {
    pub(crate) link: LinkId,
    pub(crate) token: u64,
    pub(crate) response: Box<Response>,
}

/// One thing that a client does. Nothing happens by default.
pub(crate) trait Part: fmt::Debug + Send {
    /// A request that this part dispatched got its response.
    fn handle_answer(&mut self, _now: Instant, _core: &mut Core, _reply: Reply) {}

    /// A request that this part dispatched will get no response.
    fn handle_orphan(&mut self, _now: Instant, _core: &mut Core, _orphan: Orphan) {}

    /// A request that gets no response was written.
    fn handle_written(&mut self, _now: Instant, _core: &mut Core, _token: u64) {}

    /// A call that this part started has ended.
    fn handle_ended(&mut self, _now: Instant, _core: &mut Core, _ended: Ended) {}

    /// Anything may have changed: request links, set alarms, fail what is late.
    fn pump(&mut self, _now: Instant, _core: &mut Core) {}

    /// The next request of this part for `link`.
    fn next_dispatch(
        &mut self,
        _now: Instant,
        _core: &mut Core,
        _link: LinkId,
    ) -> Option<Dispatch> {
        None
    }

    /// The metrics are about to be read: sets the gauges of this part.
    fn measure(&self, _meters: &mut Meters) {}

    /// The client closes: everything undecided fails with `cause`.
    fn abort(&mut self, _now: Instant, _core: &mut Core, _cause: &Error) {}
}

/// The parts of a client, of which none has more than two.
pub(crate) type Parts<'a> = [Option<&'a mut dyn Part>; 2];

pub(crate) mod sealed {
    use std::time::Instant;

    use super::{Core, Parts};

    /// The part of [`super::Client`] that only this crate sees.
    pub trait Composition {
        /// The parts, always in the same order: a part's place is its number.
        #[allow(private_interfaces, reason = "sealed: nobody else composes clients")]
        fn parts(&mut self) -> Parts<'_>;

        /// Carries facts from one part to another. Returns whether there were any.
        fn exchange(&mut self, _now: Instant, _core: &mut Core) -> bool {
            false
        }
    }
}

/// A composition of parts: a producer, a consumer, an admin client.
pub trait Client: sealed::Composition + fmt::Debug + Send + 'static {}
