//! One client's connection: the socket's side of a [`Conversation`].
//!
//! What a client sends while an earlier request is still waiting stays in the socket, but for a little that is read ahead
//! to notice that the client has gone.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::api::Client;
use crate::clock;
use crate::conversation::{Conversation, FrameLimit, Need};
use crate::core::Core;
use crate::door::Door;
use crate::handshake::{Stream, encrypt};
use crate::now::Now;
use crate::security::session::Session;

/// What is read at once where no large frame is expected, and at most ahead of its turn.
const READ_AHEAD: usize = 64 << 10;
/// The memory that is reserved for a frame before any of it has come. Beyond, it grows with what
/// was received, so that a wrong length costs nothing.
const FIRST_ROOM: usize = 4 << 20;
/// How long the end of a stream may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// Segments handed to the kernel at once.
const GATHERED: usize = 64;

/// Wakes a task.
#[derive(Default)]
pub(crate) struct Alarm(Notify);

impl Alarm {
    /// Completes when the alarm was woken since this completed last.
    pub(crate) async fn woken(&self) {
        self.0.notified().await;
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify_one();
    }
}

/// Serves a connection until the client or the broker ends it, which is reported to `core`'s
/// events.
pub(crate) async fn serve(stream: TcpStream, peer: SocketAddr, core: Arc<Core>, door: Door) {
    match enter(stream, peer, &core, &door).await {
        Ok(()) | Err(End::Gone) => {}
        Err(End::Because(reason)) => core
            .events
            .say(format_args!("connection from {peer} closed: {reason}")),
    }
}

async fn enter(
    stream: TcpStream,
    peer: SocketAddr,
    core: &Arc<Core>,
    door: &Door,
) -> Result<(), End> {
    match &door.tls {
        None => {
            let session = door.session(&[]).map_err(End::Because)?;
            converse(stream, session, peer, core, door).await
        }
        Some(config) => {
            let stream = encrypt(stream, config).await.map_err(End::Because)?;
            let certificates = stream.get_ref().1.peer_certificates();
            let session = door.session(certificates.unwrap_or_default());
            converse(stream, session.map_err(End::Because)?, peer, core, door).await
        }
    }
}

async fn converse(
    mut stream: impl Stream,
    session: Session,
    peer: SocketAddr,
    core: &Arc<Core>,
    door: &Door,
) -> Result<(), End> {
    let (reader, writer) = tokio::io::split(&mut stream);
    let alarm = Arc::<Alarm>::default();
    let client = Client {
        host: peer.ip(),
        port: peer.port(),
        listener: door.listener,
        session: Mutex::new(session),
        waker: Waker::from(Arc::clone(&alarm)),
        shares: Mutex::default(),
        software: Mutex::default(),
    };
    let mut connection = Connection {
        frames: Frames {
            reader,
            buffer: BytesMut::new(),
            last: Bytes::new(),
        },
        writer,
        alarm,
        blocks: core.blocks(),
    };
    let conversation = Conversation::new(Arc::clone(core), client, clock::now());
    let ended = connection.run(Box::new(conversation)).await;
    // TLS sends close_notify, so that the client knows that nothing was cut off; nobody waits long
    // for a client that does not read.
    let _ = tokio::time::timeout(GOODBYE, connection.writer.shutdown()).await;
    ended
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

struct Connection<R, W> {
    frames: Frames<R>,
    writer: W,
    alarm: Arc<Alarm>,
    /// Whether requests read and write files.
    blocks: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    async fn run(&mut self, mut conversation: Box<Conversation>) -> Result<(), End> {
        loop {
            let output = conversation.take_output();
            if !output.is_empty() {
                write(&mut self.writer, output).await?;
            }
            let timeout = conversation.next_timeout();
            conversation = match conversation.need() {
                Need::Frame => {
                    match until(timeout, self.frames.next(conversation.frame_limit())).await {
                        Some(Ok(Some(frame))) => {
                            self.work(conversation, |it, now| it.handle(frame, now))
                                .await?
                        }
                        Some(Ok(None)) => return Ok(()),
                        Some(Err(end)) => return Err(end),
                        None => {
                            self.work(conversation, Conversation::handle_timeout)
                                .await?
                        }
                    }
                }
                Need::Time => {
                    tokio::select! {
                        biased;
                        _ = until(timeout, self.alarm.woken()) => {}
                        () = self.frames.gone() => {
                            let reason = conversation.farewell().map(str::to_owned);
                            return Err(reason.map_or(End::Gone, End::Because));
                        }
                    }
                    self.work(conversation, Conversation::handle_timeout)
                        .await?
                }
                Need::End(reason) => return reason.map_or(Ok(()), |why| Err(End::Because(why))),
            };
        }
    }

    /// Has the conversation do `work` where it may block, if this broker's work does.
    async fn work(
        &self,
        mut conversation: Box<Conversation>,
        work: impl FnOnce(&mut Conversation, Now) + Send + 'static,
    ) -> Result<Box<Conversation>, End> {
        let timed = move || {
            work(&mut conversation, clock::now());
            conversation.settle(clock::now());
            conversation
        };
        if !self.blocks {
            return Ok(timed());
        }
        let done = tokio::task::spawn_blocking(timed);
        done.await
            .map_err(|error| End::Because(format!("the request could not be handled: {error}")))
    }
}

/// The result of `work`, or `None` at the deadline.
async fn until<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.ok(),
        None => Some(work.await),
    }
}

/// Cuts what comes from the socket into frames.
struct Frames<R> {
    reader: R,
    buffer: BytesMut,
    /// The last large frame: its memory is used again for the next when nothing else holds on to
    /// it.
    last: Bytes,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// The next frame without its length; `None` when the client has ended the connection between two.
    async fn next(&mut self, limit: FrameLimit) -> Result<Option<Bytes>, End> {
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
        let start = self.buffer.first_chunk().copied().unwrap_or_default();
        let length = limit.check(start).map_err(End::Because)?;
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

/// Writes all segments, gathered.
async fn write<W: AsyncWrite + Unpin>(writer: &mut W, mut rest: VecDeque<Bytes>) -> io::Result<()> {
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
    // What TLS has buffered.
    writer.flush().await
}
