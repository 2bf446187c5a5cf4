//! The two directions of a connection, whatever carries it.

use std::io::{self, IoSlice, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use ottla_engine::{Error, Kind};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::quiet;
use super::tls::{TlsReader, TlsWriter};

/// So many bytes are not few any more. Linux makes room in the socket for twice as many, which is there without that.
const FEW: i32 = 16 << 10;

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

impl ReadHalf {
    /// Reads what a plain socket has now, on whatever thread; the runtime need not know of it.
    ///
    /// # Errors
    /// `WouldBlock` if it has nothing, or is secured.
    pub(crate) fn read_now(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            ReadHalf::Tcp(half) => (&*SockRef::from(half.as_ref())).read(room),
            ReadHalf::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether a few bytes in a plain socket wake the task that waits for them. They do unless they may not; then many still
    /// do, and its end does. What came meanwhile wakes the task as soon as it may.
    pub(crate) fn wakes_its_task(&self, wakes: bool) {
        if let ReadHalf::Tcp(half) = self {
            quiet::set_low_water(half.as_ref(), if wakes { 1 } else { FEW });
        }
    }
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

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn few_bytes_wake_nobody_meanwhile_but_many_do_and_the_end_does() {
        use std::time::Duration;

        use tokio::io::AsyncWriteExt;
        use tokio::time::timeout;

        const A_WHILE: Duration = Duration::from_millis(30);
        const LONG: Duration = Duration::from_secs(20);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (mut reader, writer) = tcp(near.unwrap());
        let (mut far, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 1 << 20];

        reader.wakes_its_task(false);
        far.write_all(b"few").await.unwrap();
        let woken = timeout(A_WHILE, reader.read(&mut bytes)).await;
        assert!(woken.is_err(), "few bytes woke");
        assert_eq!(reader.read_now(&mut bytes[..2]).unwrap(), 2);
        reader.wakes_its_task(true);
        let woken = timeout(LONG, reader.read(&mut bytes)).await;
        assert_eq!((woken.unwrap().unwrap(), bytes[0]), (1, b'w'));
        let nothing = reader.read_now(&mut bytes).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);

        reader.wakes_its_task(false);
        far.write_all(&[1; 3 * FEW as usize]).await.unwrap();
        let woken = timeout(LONG, reader.read(&mut bytes)).await;
        let mut left = 3 * FEW as usize - woken.unwrap().unwrap();
        reader.wakes_its_task(true);
        while left > 0 {
            left -= timeout(LONG, reader.read(&mut bytes))
                .await
                .unwrap()
                .unwrap();
        }

        reader.wakes_its_task(false);
        drop(far);
        let woken = timeout(LONG, reader.read(&mut bytes)).await;
        assert_eq!(woken.unwrap().unwrap(), 0);
        drop(writer);
    }
}
