//! The two directions of a connection, whatever carries it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use ottla_engine::{Error, Kind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::tls::{TlsReader, TlsWriter};

/// Where a connection's bytes come from.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    /// A plain socket.
    Tcp(OwnedReadHalf),
    /// A socket secured by TLS.
    Tls(TlsReader),
}

/// Where a connection's bytes go.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    /// A plain socket.
    Tcp(OwnedWriteHalf),
    /// A socket secured by TLS.
    Tls(TlsWriter),
}

/// Both directions of a plain socket.
pub(super) fn tcp(stream: TcpStream) -> (ReadHalf, WriteHalf) {
    let (reader, writer) = stream.into_split();
    (ReadHalf::Tcp(reader), WriteHalf::Tcp(writer))
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReadHalf::Tcp(half) => Pin::new(half).poll_read(context, buffer),
            ReadHalf::Tls(half) => Pin::new(half).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_write(context, bytes),
            WriteHalf::Tls(half) => Pin::new(half).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_write_vectored(context, slices),
            WriteHalf::Tls(half) => Pin::new(half).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            WriteHalf::Tcp(half) => half.is_write_vectored(),
            WriteHalf::Tls(half) => half.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_flush(context),
            WriteHalf::Tls(half) => Pin::new(half).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            WriteHalf::Tcp(half) => Pin::new(half).poll_shutdown(context),
            WriteHalf::Tls(half) => Pin::new(half).poll_shutdown(context),
        }
    }
}

/// The error of a connection that an I/O error ended. TLS brings an error of its own.
pub(crate) fn broken(cause: &io::Error) -> Error {
    let own = cause
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    own.cloned()
        .unwrap_or_else(|| Error::new(Kind::Unreachable, say(cause)))
}

/// What an I/O error means, without the platform's number.
pub(crate) fn say(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused: nothing listens there".to_owned(),
        io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        io::ErrorKind::BrokenPipe => "the connection is broken".to_owned(),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn one_write_takes_all_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_, mut writer) = tcp(TcpStream::connect(address).await.unwrap());
        assert!(writer.is_write_vectored());
        let slices = [IoSlice::new(b"one"), IoSlice::new(b"two")];
        let written =
            poll_fn(|context| Pin::new(&mut writer).poll_write_vectored(context, &slices));
        assert_eq!(written.await.unwrap(), 6);
        let (mut reader, _) = tcp(listener.accept().await.unwrap().0);
        let mut bytes = [0; 6];
        reader.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"onetwo");
    }
}
