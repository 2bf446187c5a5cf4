//! Idle connections are closed.

use std::time::Instant;

use super::super::context::Context;
use super::Links;
use crate::error::{Error, Kind};
use crate::observe::Observed;

impl Links {
    /// Closes connections that carried nothing for `connections.max.idle.ms`.
    pub(in crate::cluster) fn close_idle(&mut self, now: Instant, context: &mut Context) {
        let (Some(most), Some(at)) = (context.config.idle_max, self.idle_at) else {
            return;
        };
        if at > now {
            return context.set_alarm(at);
        }
        let (mut idle, mut next) = (Vec::new(), None::<Instant>);
        for (id, link) in self.links.iter().filter(|(_, link)| link.is_up()) {
            let at = if link.is_idle() {
                link.used + most
            } else {
                now + most
            };
            if at <= now {
                idle.push((*id, link.address()));
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        self.idle_at = next;
        if let Some(at) = next {
            context.set_alarm(at);
        }
        for (id, broker) in idle {
            let text = format!(
                "the connection was idle for connections.max.idle.ms ({} ms)",
                most.as_millis()
            );
            let cause = Error::new(Kind::Unreachable, text).at(&broker);
            self.close(now, context, id, &cause);
            context
                .observer
                .tell(Observed::Disconnected { broker, cause });
        }
    }
}
