//! The accumulator as a part of a client.

use std::fmt;
use std::time::Instant;

use crate::api::Response;
use crate::cluster::{LinkId, Orphan};
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::metrics::Meters;
use crate::part::{Core, Part, Reply};
use crate::produce::accumulator::Accumulator;

impl<T: Clone + fmt::Debug + Send> Part for Accumulator<T> {
    fn handle_answer(&mut self, now: Instant, core: &mut Core, reply: Reply) {
        if let Response::Produce(answer) = &*reply.response {
            Accumulator::handle_answer(self, now, &mut core.cluster, reply.token, answer);
        }
    }

    fn handle_orphan(&mut self, now: Instant, core: &mut Core, orphan: Orphan) {
        Accumulator::handle_orphan(self, now, &mut core.cluster, &orphan);
    }

    fn handle_written(&mut self, now: Instant, core: &mut Core, token: u64) {
        Accumulator::handle_written(self, now, &mut core.cluster, token);
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        Accumulator::pump(self, now, &mut core.cluster);
    }

    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch> {
        let parcel = self.next_request(now, &mut core.cluster, link)?;
        Some(Dispatch::Unfinished(Box::new(parcel)))
    }

    fn measure(&self, meters: &mut Meters) {
        meters.sending.buffer_used = self.buffered_bytes();
    }

    fn abort(&mut self, _: Instant, core: &mut Core, cause: &Error) {
        Accumulator::abort(self, &mut core.cluster, cause);
    }
}
