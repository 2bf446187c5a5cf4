//! The Rust client krafka on one topic, as `benches/python/clients/krafka.py` asks.
//!
//!     ottla-krafka-bench consume|produce BOOTSTRAP TOPIC PARTITIONS RECORDS SIZE SECONDS [NAME=VALUE...]
//!
//! It stops after RECORDS or SECONDS, whichever comes first, and prints as JSON: `records`, `bytes` of values, `seconds`,
//! `cpu_seconds` and `peak_bytes`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use krafka::consumer::AutoOffsetReset;
use krafka::{Kafka, Record};

/// Records queued between two looks at the clock.
const CHUNK: usize = 10_000;

/// What is asked for.
struct Job {
    bootstrap: String,
    topic: String,
    partitions: i32,
    records: usize,
    size: usize,
    budget: Duration,
    settings: HashMap<String, i32>,
}

/// What was done until the watch stopped.
struct Done {
    records: usize,
    bytes: usize,
    wall: Duration,
    cpu: f64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [
        what,
        bootstrap,
        topic,
        partitions,
        records,
        size,
        seconds,
        settings @ ..,
    ] = arguments.as_slice()
    else {
        bail!(
            "usage: consume|produce BOOTSTRAP TOPIC PARTITIONS RECORDS SIZE SECONDS [NAME=VALUE...]"
        );
    };
    let job = Job {
        bootstrap: bootstrap.clone(),
        topic: topic.clone(),
        partitions: partitions.parse()?,
        records: records.parse()?,
        size: size.parse()?,
        budget: Duration::from_secs_f64(seconds.parse()?),
        settings: settings
            .iter()
            .map(|s| {
                let (name, value) = s.split_once('=').context("a setting is NAME=VALUE")?;
                Ok((name.to_owned(), value.parse()?))
            })
            .collect::<Result<_>>()?,
    };
    let done = match what.as_str() {
        "consume" => consume(&job).await?,
        "produce" => produce(&job).await?,
        other => bail!("neither consume nor produce: {other}"),
    };
    println!(
        r#"{{"records": {}, "bytes": {}, "seconds": {}, "cpu_seconds": {}, "peak_bytes": {}}}"#,
        done.records,
        done.bytes,
        done.wall.as_secs_f64(),
        done.cpu,
        peak_bytes()?,
    );
    Ok(())
}

async fn consume(job: &Job) -> Result<Done> {
    let kafka = Kafka::builder(job.bootstrap.clone()).connect().await?;
    let mut builder = kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::Earliest);
    for (name, &value) in &job.settings {
        builder = match name.as_str() {
            "max_poll_records" => builder.max_poll_records(value),
            "max_buffered_records" => builder.max_buffered_records(value),
            "max_partition_fetch_bytes" => builder.max_partition_fetch_bytes(value),
            other => bail!("no such setting: {other}"),
        };
    }
    let consumer = builder.build().await?;
    let (mut records, mut bytes) = (0, 0);
    let (wall, cpu) = (Instant::now(), cpu_seconds()?);
    consumer
        .assign(&job.topic, (0..job.partitions).collect())
        .await?;
    while records < job.records && (wall.elapsed() < job.budget || records == 0) {
        let polled = consumer.poll(Duration::from_secs(1)).await?;
        records += polled.len();
        bytes += polled
            .iter()
            .map(|r| r.value.as_ref().map_or(0, Bytes::len))
            .sum::<usize>();
    }
    Ok(Done {
        records,
        bytes,
        wall: wall.elapsed(),
        cpu: cpu_seconds()? - cpu,
    })
}

async fn produce(job: &Job) -> Result<Done> {
    let kafka = Kafka::builder(job.bootstrap.clone()).connect().await?;
    let mut builder = kafka.producer();
    for (name, &value) in &job.settings {
        builder = match name.as_str() {
            "batch_size" => builder.batch_size(usize::try_from(value)?),
            "linger_ms" => builder.linger(Duration::from_millis(u64::try_from(value)?)),
            other => bail!("no such setting: {other}"),
        };
    }
    let producer = builder.build().await?;
    producer.partitions_for(&job.topic).await?;
    let value: Bytes = b"2654435761 "
        .iter()
        .copied()
        .cycle()
        .take(job.size)
        .collect();
    let mut handles = Vec::with_capacity(job.records);
    let (wall, cpu) = (Instant::now(), cpu_seconds()?);
    while handles.len() < job.records && wall.elapsed() < job.budget {
        for _ in 0..CHUNK.min(job.records - handles.len()) {
            handles.push(
                producer
                    .enqueue(Record::new(job.topic.as_str(), value.clone()))
                    .await?,
            );
        }
    }
    producer.flush().await?;
    let records = handles.len();
    for handle in handles {
        ensure!(handle.await?.offset >= 0, "a record has no offset");
    }
    Ok(Done {
        records,
        bytes: records * job.size,
        wall: wall.elapsed(),
        cpu: cpu_seconds()? - cpu,
    })
}

/// Processor time of this process, user and system; /proc counts it in hundredths of a second.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat
        .rsplit_once(')')
        .context("no name in /proc/self/stat")?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u32>);
    Ok(f64::from(ticks.sum::<Result<u32, _>>()?) / 100.0)
}

/// The most memory that was resident.
fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
