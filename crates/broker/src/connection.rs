//! One client's connection: frames in, answers out, in order.
//!
//! Requests are handled one after another, as Kafka does: what a client sends while an earlier request is still waiting
//! stays in the socket, but for a little that is read ahead to notice that the client has gone.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ottla_protocol::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use crate::api::{self, Ask, Opened, Outcome, Wait};
use crate::clock;
use crate::core::{Core, Now};
use crate::fault::Fault;

/// What is read at once where no large frame is expected, and at most ahead of its turn.
const READ_AHEAD: usize = 64 << 10;
/// What is set aside for a frame before any of it has come. Beyond, room grows with what was received, so that a length
/// that lies costs nothing.
const FIRST_ROOM: usize = 4 << 20;
/// Segments handed to the kernel at once.
const GATHERED: usize = 64;

/// Serves a connection until the client ends it, or something ends it for the client, which `core`'s events are told.
pub(crate) async fn serve(mut stream: TcpStream, peer: SocketAddr, core: Arc<Core>) {
    let (reader, writer) = stream.split();
    let limit = core.settings.request_max_bytes;
    let frames = Frames {
        reader,
        buffer: BytesMut::new(),
        last: Bytes::new(),
        limit,
    };
    let mut connection = Connection {
        frames,
        writer,
        core: &core,
        peer: peer.ip(),
    };
    match connection.run().await {
        Ok(()) | Err(End::Gone) => {}
        Err(End::Because(reason)) => core
            .events
            .say(format_args!("connection from {peer} closed: {reason}")),
    }
}

/// Why a connection ends.
enum End {
    /// The client went away.
    Gone,
    /// Something was wrong.
    Because(String),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        End::Gone
    }
}

struct Connection<'a> {
    frames: Frames<'a>,
    writer: WriteHalf<'a>,
    core: &'a Arc<Core>,
    peer: IpAddr,
}

impl Connection<'_> {
    async fn run(&mut self) -> Result<(), End> {
        while let Some(frame) = self.frames.next().await? {
            let opened = api::open(frame).map_err(End::Because)?;
            match self.core.faults.take(opened.api) {
                None => self.answer(opened, Ask::Answer).await?,
                Some(fault) => self.fail(opened, fault).await?,
            }
        }
        Ok(())
    }

    async fn answer(&mut self, opened: Opened, ask: Ask) -> Result<(), End> {
        match self.settle(opened, ask).await? {
            Some(frame) => Ok(write(&mut self.writer, frame).await?),
            None => Ok(()),
        }
    }

    /// Handles a request in the way a fault wants it.
    async fn fail(&mut self, opened: Opened, fault: Fault) -> Result<(), End> {
        let api = opened.api.name();
        let injected =
            |what: &str| End::Because(format!("{api}: an injected fault closed it {what}"));
        match fault {
            Fault::Error(code) => self.answer(opened, Ask::Refuse(code)).await,
            Fault::Delay(time) => {
                let answer = self.settle(opened, Ask::Answer).await?;
                self.pause(time).await?;
                match answer {
                    Some(frame) => Ok(write(&mut self.writer, frame).await?),
                    None => Ok(()),
                }
            }
            Fault::CloseBefore => Err(injected("before the request was applied")),
            Fault::CloseAfterApply => {
                self.settle(opened, Ask::Answer).await?;
                Err(injected("after the request was applied"))
            }
            Fault::Silence => Ok(()),
            Fault::CutAfter(bytes) => {
                if let Some(frame) = self.settle(opened, Ask::Answer).await? {
                    let mut bytes_of_frame = frame.into_bytes();
                    bytes_of_frame.truncate(bytes);
                    self.writer.write_all(&bytes_of_frame).await?;
                }
                Err(injected(&format!("after {bytes} bytes of the answer")))
            }
        }
    }

    /// Handles a request to its end, however long it waits; gives the answer, if one is due.
    async fn settle(&mut self, opened: Opened, ask: Ask) -> Result<Option<Frame>, End> {
        let (core, peer) = (Arc::clone(self.core), self.peer);
        let mut outcome = self
            .off_thread(move |now| api::handle(&core, opened, peer, now, ask))
            .await?;
        loop {
            outcome = match outcome {
                Outcome::Answer(frame) => return Ok(Some(frame)),
                Outcome::Silent => return Ok(None),
                Outcome::Close(reason) => return Err(End::Because(reason)),
                Outcome::Later(answer) => tokio::select! {
                    biased;
                    outcome = answer => outcome,
                    () = self.frames.gone() => return Err(End::Gone),
                },
                Outcome::Wait(Wait {
                    watcher,
                    deadline,
                    resume,
                }) => {
                    tokio::select! {
                        biased;
                        () = watcher.woken() => {}
                        () = tokio::time::sleep_until(deadline.into()) => {}
                        () = self.frames.gone() => return Err(End::Gone),
                    }
                    drop(watcher);
                    self.off_thread(resume).await?
                }
            };
        }
    }

    /// Runs `work` where it may block, if this broker's work does.
    async fn off_thread<R: Send + 'static>(
        &self,
        work: impl FnOnce(Now) -> R + Send + 'static,
    ) -> Result<R, End> {
        if !self.core.blocks() {
            return Ok(work(clock::now()));
        }
        let done = tokio::task::spawn_blocking(move || work(clock::now()));
        done.await
            .map_err(|error| End::Because(format!("the request could not be handled: {error}")))
    }

    async fn pause(&mut self, time: Duration) -> Result<(), End> {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = self.frames.gone() => Err(End::Gone),
        }
    }
}

/// Cuts what comes from the socket into frames.
struct Frames<'a> {
    reader: ReadHalf<'a>,
    buffer: BytesMut,
    /// The last large frame: its room is taken again for the next when nothing else holds on to it.
    last: Bytes,
    limit: usize,
}

impl Frames<'_> {
    /// The next frame without its length; `None` when the client has ended the connection between two.
    async fn next(&mut self) -> Result<Option<Bytes>, End> {
        while self.buffer.len() < 4 {
            self.buffer.reserve(READ_AHEAD);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(End::Gone)
                };
            }
        }
        let length = self.length()?;
        self.buffer.advance(4);
        if length <= READ_AHEAD {
            while self.buffer.len() < length {
                self.buffer.reserve(READ_AHEAD);
                if self.reader.read_buf(&mut self.buffer).await? == 0 {
                    return Err(End::Gone);
                }
            }
            return Ok(Some(self.buffer.split_to(length).freeze()));
        }
        let mut frame = mem::take(&mut self.last).try_into_mut().unwrap_or_default();
        frame.clear();
        frame.reserve(length.min(FIRST_ROOM));
        frame.extend_from_slice(&self.buffer.split_to(self.buffer.len().min(length)));
        while frame.len() < length {
            if frame.len() == frame.capacity() {
                frame.reserve(frame.len().min(length - frame.len()));
            }
            let room = frame.capacity().min(length) - frame.len();
            if self.reader.read_buf(&mut (&mut frame).limit(room)).await? == 0 {
                return Err(End::Gone);
            }
        }
        let frame = frame.freeze();
        if length <= FIRST_ROOM {
            self.last = frame.clone();
        }
        Ok(Some(frame))
    }

    fn length(&self) -> Result<usize, End> {
        let start: [u8; 4] = self.buffer.first_chunk().copied().unwrap_or_default();
        if start.starts_with(&[0x16, 0x03]) {
            return Err(End::Because(
                "it speaks TLS, and this port does not".to_owned(),
            ));
        }
        if [*b"GET ", *b"POST", *b"PUT ", *b"HEAD"].contains(&start) {
            return Err(End::Because(
                "it speaks HTTP, and this is a Kafka broker".to_owned(),
            ));
        }
        let length = i32::from_be_bytes(start);
        match usize::try_from(length) {
            Ok(length) if length <= self.limit => Ok(length),
            _ => Err(End::Because(format!(
                "a request of {length} bytes; from 0 to {} are allowed (socket.request.max.bytes)",
                self.limit
            ))),
        }
    }

    /// Completes when the client has gone, reading a little ahead to see that.
    async fn gone(&mut self) {
        while self.buffer.len() < READ_AHEAD {
            self.buffer.reserve(READ_AHEAD);
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        // It is sending, so it is there.
        std::future::pending().await
    }
}

/// Writes all segments of a frame, gathered.
async fn write(writer: &mut WriteHalf<'_>, frame: Frame) -> io::Result<()> {
    let mut rest = VecDeque::from(frame.into_segments());
    while !rest.is_empty() {
        let slices: Vec<IoSlice<'_>> = rest
            .iter()
            .take(GATHERED)
            .map(|segment| IoSlice::new(segment))
            .collect();
        let mut written = writer.write_vectored(&slices).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        while let Some(first) = rest.front_mut() {
            if written < first.len() {
                first.advance(written);
                break;
            }
            written -= first.len();
            rest.pop_front();
        }
    }
    Ok(())
}
