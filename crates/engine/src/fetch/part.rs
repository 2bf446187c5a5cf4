//! The fetcher as a part of a client.

use std::time::Instant;

use crate::call::Ended;
use crate::cluster::{LinkId, Orphan};
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::fetch::fetcher::Fetcher;
use crate::metrics::Meters;
use crate::part::{Core, Part, Reply};

impl Part for Fetcher {
    fn handle_answer(&mut self, now: Instant, core: &mut Core, reply: Reply) {
        let Reply {
            link,
            token,
            response,
        } = reply;
        Fetcher::handle_answer(self, now, &mut core.cluster, link, token, *response);
    }

    fn handle_orphan(&mut self, now: Instant, core: &mut Core, orphan: Orphan) {
        Fetcher::handle_orphan(self, now, &mut core.cluster, &orphan);
    }

    fn handle_ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        Fetcher::handle_ended(self, now, &mut core.cluster, ended);
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        Fetcher::pump(self, now, core);
    }

    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch> {
        Fetcher::next_dispatch(self, now, &mut core.cluster, link)
            .map(|outgoing| Dispatch::Ready(Box::new(outgoing)))
    }

    fn measure(&self, meters: &mut Meters) {
        Fetcher::measure(self, meters);
    }

    fn abort(&mut self, _: Instant, _: &mut Core, _: &Error) {
        Fetcher::abort(self);
    }
}
