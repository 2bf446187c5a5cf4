//! Questions that any client can ask: a wait for an operation of the engine.

use std::time::{Duration, Instant};

use ottla_engine::operation::{Answer, OperationId, Question};
use ottla_engine::{Engine, Error, ErrorCode, Kind};

use crate::PartitionInfo;
use crate::driver::{Driver, Publish, deadline};

/// Cancels the operation when the caller stops waiting for it.
struct Waiting<'a, W: Publish> {
    driver: &'a Driver<W>,
    id: OperationId,
}

impl<W: Publish> Drop for Waiting<'_, W> {
    fn drop(&mut self) {
        self.driver.with(|engine, _| engine.cancel(self.id));
    }
}

/// Asks and waits, at most `timeout` (`None`: `default.api.timeout.ms`).
pub(crate) async fn ask<W: Publish>(
    driver: &Driver<W>,
    question: Question,
    timeout: Option<Duration>,
) -> Result<Answer, Error> {
    let deadline = deadline(timeout.unwrap_or(driver.config().default_api_timeout));
    let waiting = Waiting {
        driver,
        id: driver.with(|engine, now| engine.ask(now, question, deadline)),
    };
    let look = |engine: &mut Engine<W>, _: Instant| {
        engine
            .take_answer(waiting.id)
            .or_else(|| engine.hopeless().map(Err))
    };
    let late = |engine: &mut Engine<W>, now: Instant| {
        // The engine gives up at the same instant and says why.
        engine.handle_timeout(now);
        engine.take_answer(waiting.id).unwrap_or_else(|| {
            Err(engine
                .trouble()
                .unwrap_or_else(|| Error::new(Kind::Timeout, "no answer by the deadline")))
        })
    };
    driver.wait(deadline, look, late).await
}

/// The topic's partitions, in order. A topic that is unknown may be on its way: it is asked for until the deadline.
pub(crate) async fn partitions_for<W: Publish>(
    driver: &Driver<W>,
    topic: &str,
    auto_create: bool,
    timeout: Option<Duration>,
) -> Result<Vec<PartitionInfo>, Error> {
    let deadline = deadline(timeout.unwrap_or(driver.config().default_api_timeout));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let question = Question::Metadata {
            topics: Some(vec![topic.to_owned()]),
            auto_create,
        };
        let Answer::Metadata(answer) = ask(driver, question, Some(left)).await? else {
            return Err(unexpected());
        };
        let Some(found) = answer.topics.first() else {
            return Err(unexpected());
        };
        let code = ErrorCode(found.error_code);
        if !code.is_error() {
            return Ok(PartitionInfo::answered(found));
        }
        let error = Error::from_code(code, None)
            .calling("Metadata")
            .topic_is(&topic.into());
        let pause = driver.config().retry_backoff_max;
        if !code.is_retriable() || Instant::now() + pause >= deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

/// The engine answers each question with its own answer; anything else is a fault of ours.
pub(crate) fn unexpected() -> Error {
    Error::new(Kind::Protocol, "the answer is not the one to this question")
}
