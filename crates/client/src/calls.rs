//! Calls that any client can make: a wait for the end of a call of the engine.

use std::time::{Duration, Instant};

use ottla_engine::call::{Call, CallId, DescribeTopics};
use ottla_engine::{Change, Engine, Error, Kind};

use crate::PartitionInfo;
use crate::driver::Driver;
use crate::shell::Publish;
use crate::transport::deadline;

/// Cancels the call when the caller stops waiting for it.
struct Waiting<'a, W: Publish> {
    driver: &'a Driver<W>,
    id: CallId,
}

impl<W: Publish> Drop for Waiting<'_, W> {
    fn drop(&mut self) {
        self.driver.with(|engine, _| engine.cancel(self.id));
    }
}

/// Makes a call and waits for its end, at most `timeout` (`None`: `default.api.timeout.ms`).
pub(crate) async fn ask<W: Publish, C: Call>(
    driver: &Driver<W>,
    call: C,
    timeout: Option<Duration>,
) -> Result<C::Answer, Error> {
    let deadline = deadline(timeout.unwrap_or(driver.config().default_api_timeout));
    let ticket = driver.with(|engine, now| engine.ask(now, call, deadline));
    let waiting = Waiting {
        driver,
        id: ticket.id(),
    };
    let look = |engine: &mut Engine<W>, _: Instant| {
        engine
            .take_answer(&ticket)
            .or_else(|| engine.hopeless().map(Err))
    };
    let late = |engine: &mut Engine<W>, now: Instant| {
        // The engine gives up at the same instant and says why.
        engine.handle_timeout(now);
        engine.take_answer(&ticket).unwrap_or_else(|| {
            Err(engine
                .trouble()
                .unwrap_or_else(|| Error::new(Kind::Timeout, "no answer by the deadline")))
        })
    };
    let changes = [Change::Call(ticket.id())];
    let answer = driver.wait(&changes, deadline, look, late).await;
    drop(waiting);
    answer
}

/// The topic's partitions, in order. Creates nothing.
pub(crate) async fn partitions_for<W: Publish>(
    driver: &Driver<W>,
    topic: &str,
    timeout: Option<Duration>,
) -> Result<Vec<PartitionInfo>, Error> {
    let call = DescribeTopics::confirmed(vec![topic.to_owned()]);
    let found = ask(driver, call, timeout).await?;
    match found.into_iter().next() {
        Some(found) => Ok(PartitionInfo::answered(&found?)),
        None => Err(unexpected()),
    }
}

/// An answer that lacks what every broker's has.
pub(crate) fn unexpected() -> Error {
    Error::new(Kind::Protocol, "the answer is not the one to this call")
}
