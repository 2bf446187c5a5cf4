//! What the machine allows a producer: Produce requests made beforehand, sent over plain sockets as fast as they are answered.
//!
//! `produce-limit HOST:PORT FILE CONNECTIONS IN_FLIGHT REQUESTS SECONDS`: FILE holds whole frames, one for each partition. Each
//! connection sends the frames of its own partitions in turn. Prints how many were answered, and in how many seconds.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, file, connections, in_flight, requests, seconds] = arguments.as_slice() else {
        return Err("HOST:PORT FILE CONNECTIONS IN_FLIGHT REQUESTS SECONDS".into());
    };
    let content = std::fs::read(file)?;
    let frames = frames(&content)?;
    let connections: usize = connections.parse()?;
    let work = Work {
        address,
        in_flight: in_flight.parse()?,
        left: AtomicUsize::new(requests.parse()?),
        budget: Duration::from_secs_f64(seconds.parse()?),
        begin: Instant::now(),
    };
    let answered = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| {
                let own: Vec<_> = frames
                    .iter()
                    .copied()
                    .skip(number)
                    .step_by(connections)
                    .collect();
                let work = &work;
                scope.spawn(move || work.send(&own))
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.unwrap_or_else(|_| Err("a connection's thread panicked".into())))
            .sum::<Result<usize, Failure>>()
    })?;
    let seconds = work.begin.elapsed().as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{{\"answered\": {answered}, \"seconds\": {seconds}}}"
    )?;
    Ok(())
}

/// The frames of a file, each with its length in front.
fn frames(mut content: &[u8]) -> Result<Vec<&[u8]>, Failure> {
    let mut all = Vec::new();
    while let Some((size, _)) = content.split_first_chunk::<4>() {
        let end = 4 + usize::try_from(u32::from_be_bytes(*size))?;
        let (frame, rest) = content.split_at_checked(end).ok_or("a frame is cut")?;
        all.push(frame);
        content = rest;
    }
    Ok(all)
}

struct Work<'a> {
    address: &'a str,
    in_flight: usize,
    /// Requests that nobody has begun yet.
    left: AtomicUsize,
    budget: Duration,
    begin: Instant,
}

impl Work<'_> {
    /// Sends these frames in turn over a connection of its own; returns how many were answered.
    fn send(&self, frames: &[&[u8]]) -> Result<usize, Failure> {
        if frames.is_empty() {
            return Ok(0);
        }
        let mut socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        let (mut sent, mut answered) = (0, 0);
        for frame in frames.iter().cycle() {
            if !self.wants_more() {
                break;
            }
            socket.write_all(frame)?;
            sent += 1;
            if sent - answered == self.in_flight {
                answered += receive(&mut socket)?;
            }
        }
        while answered < sent {
            answered += receive(&mut socket)?;
        }
        Ok(answered)
    }

    fn wants_more(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.begin.elapsed() < self.budget
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
    }
}

/// Reads the answer to a Produce of version 7 for one partition; returns 1, or the error that it tells.
fn receive(socket: &mut TcpStream) -> Result<usize, Failure> {
    let mut size = [0; 4];
    socket.read_exact(&mut size)?;
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(size))?];
    socket.read_exact(&mut answer)?;
    // The correlation id, the count of topics, the topic's name, the count of partitions, the partition, and its code.
    let name = answer.get(8..10).ok_or("the answer is cut")?;
    let name = usize::from(u16::from_be_bytes(name.try_into()?));
    let code = answer
        .get(name + 18..name + 20)
        .ok_or("the answer is cut")?;
    match i16::from_be_bytes(code.try_into()?) {
        0 => Ok(1),
        code => Err(format!("Produce failed with code {code}").into()),
    }
}
