//! The cost of sending a batch does not depend on how many batches wait behind it.

use std::time::Instant;

use super::*;

/// Each record fills a batch, one batch is in flight, and all of them fit into the buffer.
const ONE_BY_ONE: [(&str, &str); 4] = [
    ("batch.size", "100"),
    ("linger.ms", "0"),
    ("max.in.flight.requests.per.connection", "1"),
    ("buffer.memory", "100000000"),
];
const SHORT: usize = 200;
const LONG: usize = 60_000;
/// Batches of one measurement, and measurements of which the fastest counts.
const SENT: usize = 20;
const REPEATS: usize = 5;

/// The time of one batch, from its request to the next one, while `waiting` batches wait.
fn time_of_a_batch(waiting: usize) -> Duration {
    let mut script = established(&ONE_BY_ONE);
    for _ in 0..waiting {
        send(&mut script, 0, &"x".repeat(60));
    }
    let mut asked = one(script.run());
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let begin = Instant::now();
        for _ in 0..SENT {
            reply(&mut script, &asked, ErrorCode::NONE, 1);
            asked = one(script.run());
        }
        times.push(begin.elapsed());
    }
    times.into_iter().min().unwrap()
}

#[test]
fn a_batch_costs_the_same_however_many_wait() {
    let (short, long) = (time_of_a_batch(SHORT), time_of_a_batch(LONG));
    assert!(long < 4 * short, "{long:?}, with few batches {short:?}");
}
