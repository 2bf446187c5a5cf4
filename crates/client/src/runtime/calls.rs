//! Calls that any client can make: a wait for the end of a call of the engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::call::{
    AnyAnswer, AnyCall, Call, CallId, DescribeTopics, EARLIEST, FoundOffset, ListOffsets,
    PartitionInfo,
};
use ottla_engine::{Change, Engine, Error, Kind};

use crate::net::transport::{deadline, now};
use crate::runtime::driver::Driver;
use crate::runtime::shell::Publish;

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
    let timeout = timeout.unwrap_or(driver.config().default_api_timeout);
    let answer = ask_until(driver, AnyCall::of(call), deadline(timeout)).await?;
    answer.result::<C>()
}

/// Makes a call of any type and waits for its end, at most until `deadline`.
pub(crate) async fn ask_until<W: Publish>(
    driver: &Driver<W>,
    call: AnyCall,
    deadline: Instant,
) -> Result<AnyAnswer, Error> {
    let id = driver.with(|engine, now| engine.ask_any(now, call, deadline));
    let waiting = Waiting { driver, id };
    let look = |engine: &mut Engine<W>, _: Instant| {
        let answer = engine.take_any_answer(id).map(Ok);
        answer.or_else(|| engine.hopeless().map(Err))
    };
    let late = |engine: &mut Engine<W>, now: Instant| {
        // The engine times out at the same instant and has the reason.
        engine.handle_timeout(now);
        engine.take_any_answer(id).ok_or_else(|| {
            engine
                .trouble()
                .unwrap_or_else(|| Error::new(Kind::Timeout, "no response by the deadline"))
        })
    };
    let changes = [Change::Call(id)];
    let answer = driver.wait(&changes, deadline, look, late).await;
    drop(waiting);
    answer
}

/// Offsets by topic, partition and time. Where a broker returns only that the whole log is younger
/// than the time, the offset is that of the log's beginning.
pub(crate) async fn list_offsets<W: Publish>(
    driver: &Driver<W>,
    wanted: Vec<(Arc<str>, i32, i64)>,
    timeout: Option<Duration>,
) -> Result<Vec<Result<FoundOffset, Error>>, Error> {
    let end = deadline(timeout.unwrap_or(driver.config().default_api_timeout));
    let call = ListOffsets {
        wanted: wanted.clone(),
    };
    let mut found = ask(driver, call, timeout).await?;
    let is_younger = |result: &Result<FoundOffset, Error>| {
        result.as_ref().is_ok_and(|found| found.log_is_younger)
    };
    let rows = wanted.into_iter().zip(&found);
    let younger: Vec<_> = rows
        .filter(|(_, result)| is_younger(result))
        .map(|((topic, partition, _), _)| (topic, partition, EARLIEST))
        .collect();
    if younger.is_empty() {
        return Ok(found);
    }
    let left = end.saturating_duration_since(now());
    let begins = ask(driver, ListOffsets { wanted: younger }, Some(left)).await?;
    let places = found.iter_mut().filter(|result| is_younger(result));
    for (place, begin) in places.zip(begins) {
        *place = begin;
    }
    Ok(found)
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
        Some(found) => Ok(PartitionInfo::of(&found?)),
        None => Err(unexpected()),
    }
}

/// The error for a response that lacks a part which every broker sends.
fn unexpected() -> Error {
    Error::new(
        Kind::Protocol,
        "the response does not belong to this request",
    )
}
