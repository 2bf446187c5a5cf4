//! How threads of the runtime wake a thread or an event loop of Python's, which watches a socket with its selector.
//!
//! Whoever adds the first item to an empty queue rings. Whoever drains the queue silences the doorbell first and takes the items
//! then: an item that comes between the two leaves a byte behind, so the next drain finds nothing. In the other order an item
//! could stay in the queue without a byte that announces it.

use std::io::{self, ErrorKind, Read, Write};

#[cfg(unix)]
type Socket = std::os::unix::net::UnixStream;
#[cfg(windows)]
type Socket = std::net::TcpStream;

/// What `selectors` of Python take.
#[cfg(unix)]
pub(crate) type Descriptor = std::os::fd::RawFd;
#[cfg(windows)]
pub(crate) type Descriptor = std::os::windows::io::RawSocket;

/// One end of a pair of connected sockets; what rings at one end is heard at the other.
#[derive(Debug)]
pub(crate) struct Doorbell(Socket);

impl Doorbell {
    /// Both ends.
    pub(crate) fn pair() -> io::Result<(Doorbell, Doorbell)> {
        let (one, other) = connected()?;
        one.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        Ok((Doorbell(one), Doorbell(other)))
    }

    /// Makes the other end readable.
    pub(crate) fn ring(&self) {
        // A full socket has bytes to wake with; a closed one has nobody to wake.
        let _ = (&self.0).write(&[1]);
    }

    /// Takes what the other end rang with.
    pub(crate) fn silence(&self) {
        let mut bytes = [0; 16];
        loop {
            match (&self.0).read(&mut bytes) {
                Ok(read) if read == bytes.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }

    /// The descriptor that becomes readable when the other end rings.
    pub(crate) fn descriptor(&self) -> Descriptor {
        #[cfg(unix)]
        return std::os::fd::AsRawFd::as_raw_fd(&self.0);
        #[cfg(windows)]
        return std::os::windows::io::AsRawSocket::as_raw_socket(&self.0);
    }
}

#[cfg(unix)]
fn connected() -> io::Result<(Socket, Socket)> {
    Socket::pair()
}

/// `select` of Windows knows only sockets of networks.
#[cfg(windows)]
fn connected() -> io::Result<(Socket, Socket)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let one = Socket::connect(listener.local_addr()?)?;
    let expected = one.local_addr()?;
    // Any program of this machine may connect first.
    loop {
        let (other, peer) = listener.accept()?;
        if peer == expected {
            one.set_nodelay(true)?;
            other.set_nodelay(true)?;
            return Ok((one, other));
        }
    }
}
