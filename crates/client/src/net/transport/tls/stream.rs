//! The two directions of a secured socket. They share rustls' state, which is locked for a record or a write at a time.

use std::io::{self, BufRead, IoSlice, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ottla_engine::{Error, Kind};
use parking_lot::Mutex;
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::explain::{Wanted, explain};

/// How many bytes of the socket are read at once: a few records of up to 16 KiB.
const READ: usize = 128 << 10;

/// Both directions of a socket whose handshake is done.
pub(super) fn halves(
    tls: ClientConnection,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    received: Received,
    wanted: Wanted,
) -> (TlsReader, TlsWriter) {
    let tls = Arc::new(Mutex::new(tls));
    let reader = TlsReader {
        tls: Arc::clone(&tls),
        socket: reader,
        received,
        wanted,
        has_read: false,
        ended: false,
    };
    let writer = TlsWriter {
        tls,
        socket: writer,
        accepted: 0,
        broken: false,
    };
    (reader, writer)
}

/// Encrypted bytes that the socket gave.
#[derive(Debug, Default)]
pub(super) struct Received {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Received {
    /// Whether nothing was ever received.
    pub(super) fn is_new(&self) -> bool {
        self.buffer.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Where the next bytes go. There must be none.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = vec![0; READ];
        }
        &mut self.buffer
    }

    /// `count` bytes were written there.
    pub(super) fn fill(&mut self, count: usize) {
        (self.start, self.end) = (0, count);
    }

    /// Gives rustls as much as it has space for, a record and the beginning of the next; false if
    /// there was nothing, or it took nothing.
    ///
    /// It takes 4 KiB at first. While a beginning is left it keeps its buffer, and takes a record at once; emptied, it would
    /// make a new one for each record, in steps of 4 KiB.
    pub(super) fn feed(&mut self, tls: &mut ClientConnection) -> bool {
        let mut fed = false;
        loop {
            let mut bytes = self.bytes();
            if bytes.is_empty() {
                return fed;
            }
            // It refuses more when it is full.
            let taken = tls.read_tls(&mut bytes).unwrap_or(0);
            if taken == 0 {
                return fed;
            }
            self.start += taken;
            fed = true;
        }
    }
}

/// Where a secured connection's bytes come from.
#[derive(Debug)]
pub(crate) struct TlsReader {
    tls: Arc<Mutex<ClientConnection>>,
    socket: OwnedReadHalf,
    received: Received,
    wanted: Wanted,
    /// Whether the peer has sent anything for the connection's owner.
    has_read: bool,
    /// Whether the socket is at its end.
    ended: bool,
}

impl TlsReader {
    /// Decrypts what is there, until the buffer is full; true if more has to come from the socket.
    fn decrypt(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<bool> {
        loop {
            let mut tls = self.tls.lock();
            let mut plain = tls.reader();
            let count = match plain.fill_buf() {
                // The peer said that it is done.
                Ok([]) => return Ok(false),
                Ok(bytes) => {
                    let count = bytes.len().min(buffer.remaining());
                    buffer.put_slice(bytes.get(..count).unwrap_or_default());
                    count
                }
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => 0,
                // The peer closed without a close_notify. Kafka's frames show whether something is
                // missing.
                Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(cause) => return Err(cause),
            };
            plain.consume(count);
            self.has_read |= count > 0;
            if buffer.remaining() == 0 {
                return Ok(false);
            }
            if count > 0 {
                continue;
            }
            if !self.received.feed(&mut tls) {
                return Ok(true);
            }
            if let Err(cause) = tls.process_new_packets() {
                drop(tls);
                return Err(io::Error::other(self.failure(&cause)));
            }
        }
    }

    /// The peer closed the connection: an error of TLS if it had said nothing yet.
    fn end(&self) -> io::Result<()> {
        if self.has_read {
            return Ok(());
        }
        let text = if self.wanted.has_certificate {
            "the broker closed the connection right after the TLS handshake: it may not accept this client's certificate (see its \
             log)"
        } else {
            "the broker closed the connection right after the TLS handshake: it may require a client certificate \
             (ssl.keystore.location)"
        };
        Err(io::Error::other(Error::new(Kind::Unreachable, text)))
    }

    /// With TLS 1.3, a broker rejects the client's certificate only after the handshake. Later it
    /// has no reason to.
    fn failure(&self, cause: &rustls::Error) -> Error {
        let error = explain(cause, &self.wanted);
        if self.has_read {
            Error::new(Kind::Unreachable, format!("TLS failed: {cause}"))
        } else {
            error
        }
    }
}

impl AsyncRead for TlsReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        loop {
            let wants_more = this.decrypt(buffer)?;
            if buffer.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
            if !wants_more || this.ended {
                return Poll::Ready(this.end());
            }
            let mut space = ReadBuf::new(this.received.room());
            match ready!(Pin::new(&mut this.socket).poll_read(context, &mut space)) {
                Ok(()) => {}
                Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => {
                    return Poll::Ready(this.end());
                }
                Err(cause) => return Poll::Ready(Err(cause)),
            }
            let count = space.filled().len();
            this.received.fill(count);
            this.ended = count == 0;
        }
    }
}

/// Where a secured connection's bytes go.
#[derive(Debug)]
pub(crate) struct TlsWriter {
    tls: Arc<Mutex<ClientConnection>>,
    socket: OwnedWriteHalf,
    /// Bytes of the caller that were encrypted, and did not all reach the socket.
    accepted: usize,
    broken: bool,
}

impl TlsWriter {
    /// Writes encrypted bytes. If the socket is broken, the reader reports the error: it may find
    /// the alert with the reason.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut tls = self.tls.lock();
        while !self.broken && tls.wants_write() {
            let mut socket = Blocking {
                socket: &mut self.socket,
                context,
            };
            match tls.write_tls(&mut socket) {
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(_) => self.broken = true,
            }
        }
        if self.broken {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}

impl AsyncWrite for TlsWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    /// Encrypts bytes and writes them. It is ready when all of them reached the socket: a caller that it leaves pending comes again
    /// with the same bytes, and may add to them.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.accepted == 0 {
            this.accepted = this.tls.lock().writer().write_vectored(slices)?;
        }
        ready!(this.poll_drain(context));
        Poll::Ready(Ok(std::mem::take(&mut this.accepted)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.get_mut().poll_drain(context));
        Poll::Ready(Ok(()))
    }

    /// Sends close_notify: nothing more will come. Then closes this direction.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.tls.lock().send_close_notify();
        ready!(this.poll_drain(context));
        Pin::new(&mut this.socket).poll_shutdown(context)
    }
}

impl Drop for TlsWriter {
    /// Sends close_notify, if the socket takes it at once: connections also end where nobody can
    /// wait.
    fn drop(&mut self) {
        let mut tls = self.tls.lock();
        if self.broken || tls.wants_write() {
            return;
        }
        tls.send_close_notify();
        let mut farewell = Vec::new();
        if tls.write_tls(&mut farewell).is_ok() {
            // It is as good as sent, or the connection is broken anyway.
            let _ = self.socket.try_write(&farewell);
        }
    }
}

/// A socket as rustls wants it: one that returns an error when it would block.
struct Blocking<'a, 'b> {
    socket: &'a mut OwnedWriteHalf,
    context: &'a mut Context<'b>,
}

impl Blocking<'_, '_> {
    fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
        match poll {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::now(Pin::new(&mut *self.socket).poll_write(self.context, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Self::now(Pin::new(&mut *self.socket).poll_write_vectored(self.context, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
