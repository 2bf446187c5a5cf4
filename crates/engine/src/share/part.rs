//! The two parts of a client that consumes as a member of a share group.

use std::time::Instant;

use crate::call::Ended;
use crate::cluster::{LinkId, Orphan};
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::part::{Core, Part, Reply};
use crate::share::acquirer::Acquirer;
use crate::share::member::Member;

impl Part for Member {
    fn handle_ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        self.ended(now, core, ended);
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        self.step(now, core);
    }

    fn abort(&mut self, _: Instant, core: &mut Core, _: &Error) {
        Member::abort(self, &mut core.cluster);
    }
}

impl Part for Acquirer {
    fn handle_answer(&mut self, now: Instant, core: &mut Core, reply: Reply) {
        let Reply {
            token, response, ..
        } = reply;
        Acquirer::handle_answer(self, now, &mut core.cluster, token, *response);
    }

    fn handle_orphan(&mut self, now: Instant, core: &mut Core, orphan: Orphan) {
        Acquirer::handle_orphan(self, now, &mut core.cluster, &orphan);
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        Acquirer::pump(self, now, &mut core.cluster);
    }

    fn next_dispatch(&mut self, now: Instant, core: &mut Core, link: LinkId) -> Option<Dispatch> {
        Acquirer::next_dispatch(self, now, &mut core.cluster, link)
            .map(|outgoing| Dispatch::Ready(Box::new(outgoing)))
    }

    fn abort(&mut self, _: Instant, core: &mut Core, _: &Error) {
        Acquirer::abort(self, &mut core.cluster);
    }
}
