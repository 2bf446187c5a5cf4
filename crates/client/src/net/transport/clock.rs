//! Time, and where chance begins.

use std::time::{Duration, Instant, SystemTime};

use ottla_engine::{Error, Kind};
use ring::rand::{SecureRandom, SystemRandom};

/// The deadline came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late;

/// The time, for everything that measures or waits.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970 UTC, for what is written into records.
#[inline]
pub(crate) fn now_ms() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// Nanoseconds since 1970 UTC, for metrics that others read.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// The end of a wait that begins now. A wait too long for the clock is cut to a hundred years.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now() + timeout.min(LONG)
}

/// Waits until the deadline.
pub(crate) async fn sleep_until(deadline: Instant) {
    tokio::time::sleep_until(deadline.into()).await;
}

/// Holds this thread up, with all that runs on it. The runtime waits in whole milliseconds, and whatever arrives wakes it.
pub(crate) fn hold(time: Duration) {
    std::thread::sleep(time);
}

/// Waits for `future`, at most until the deadline. A future that is ready is preferred to a deadline that has passed.
pub(crate) async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Late> {
    let timeout = tokio::time::timeout_at(deadline.into(), future);
    timeout.await.map_err(|_| Late)
}

/// The seed of an engine's random numbers: the time of day and a place in memory, which is enough for jitter.
pub(crate) fn seed() -> u64 {
    let time = since_1970();
    let place = std::ptr::from_ref(&time) as u64;
    u64::from(time.subsec_nanos()) ^ time.as_secs().rotate_left(32) ^ place.rotate_left(17)
}

/// Bytes that nobody can guess, from the system.
pub(crate) fn nonce() -> Result<[u8; 24], Error> {
    let mut bytes = [0; 24];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::new(Kind::Authentication, "the system has no random bytes"))?;
    Ok(bytes)
}

#[inline]
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_deadline_that_has_passed_still_gives_what_is_ready() {
        let past = now();
        assert_eq!(timeout_at(past, async { 7 }).await, Ok(7));
        let never = std::future::pending::<()>();
        assert_eq!(timeout_at(past, never).await, Err(Late));
        sleep_until(past).await;
        assert!(deadline(Duration::MAX) > past);
    }
}
