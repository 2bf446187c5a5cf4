//! The membership as a part of a client.

use std::time::Instant;

use crate::call::Ended;
use crate::error::Error;
use crate::group::membership::Membership;
use crate::metrics::Meters;
use crate::part::{Core, Part};

impl Part for Membership {
    fn handle_ended(&mut self, now: Instant, core: &mut Core, ended: Ended) {
        self.ended(now, core, ended);
    }

    fn pump(&mut self, now: Instant, core: &mut Core) {
        self.step(now, core);
    }

    fn measure(&self, meters: &mut Meters) {
        Membership::measure(self, meters);
    }

    fn abort(&mut self, _: Instant, core: &mut Core, cause: &Error) {
        self.close(core, cause);
    }
}
