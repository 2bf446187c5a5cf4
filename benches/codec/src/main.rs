//! Measures one codec, row by row, as the driver in `benches/python` asks on standard input.
//!
//!     ottla-codec-bench make FOLDER     writes the bytes that all peers work on
//!     ottla-codec-bench PEER FOLDER     answers lines: `check ROW`, or `time ROW MILLISECONDS`
//!
//! Each answer is a line: a number, or `none` where the peer does not have the row.

mod krafka;
mod limit;
mod ottla;
mod protocol_rs;
mod rskafka;
mod samples;

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::samples::{Row, Samples};

/// Does a row's work once, and says how much it was: elements or bytes of values read, bytes written.
pub type Work = Box<dyn FnMut() -> Result<usize>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(what), Some(folder)) = (arguments.next(), arguments.next()) else {
        bail!("usage: ottla-codec-bench make|ottla|kafka-protocol|krafka|rskafka|limit FOLDER");
    };
    let folder = Path::new(&folder);
    if what == "make" {
        return samples::make(folder);
    }
    let samples = Samples::load(folder)?;
    let find = |row: &Row| match what.as_str() {
        "ottla" => ottla::work(row, &samples),
        "kafka-protocol" => protocol_rs::work(row, &samples),
        "krafka" => krafka::work(row, &samples),
        "rskafka" => rskafka::work(row, &samples),
        "limit" => limit::work(row, &samples),
        other => bail!("no peer {other}"),
    };
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split(' ');
        let (command, row) = (words.next(), words.next().context("no row")?);
        let answer = match (find(&Row::parse(row)?)?, command) {
            (None, _) => "none".to_owned(),
            (Some(mut work), Some("check")) => work()?.to_string(),
            (Some(work), Some("time")) => {
                let milliseconds = words.next().context("no time")?.parse()?;
                nanoseconds(work, Duration::from_millis(milliseconds))?.to_string()
            }
            _ => bail!("unknown command {line:?}"),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Nanoseconds of one piece of work: the best of many short stretches, so that a moment of other load does not count.
fn nanoseconds(mut work: Work, budget: Duration) -> Result<f64> {
    let begin = Instant::now();
    // The first ones fill caches and make the allocator ready.
    let mut times = 1u32;
    let mut best = f64::INFINITY;
    while begin.elapsed() < budget {
        let start = Instant::now();
        for _ in 0..times {
            black_box(work()?);
        }
        let took = start.elapsed();
        if took < Duration::from_micros(500) {
            times = times.saturating_mul(2);
        } else {
            best = best.min(took.as_nanos() as f64 / f64::from(times));
        }
    }
    if best.is_finite() {
        Ok(best)
    } else {
        // A single one takes longer than the budget.
        let start = Instant::now();
        black_box(work()?);
        Ok(start.elapsed().as_nanos() as f64)
    }
}
