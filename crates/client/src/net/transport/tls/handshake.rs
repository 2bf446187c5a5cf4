//! From a connected socket to a secured one.

use std::sync::Arc;

use ottla_engine::{Error, Kind};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::super::stream::say;
use super::explain::{Wanted, explain};
use super::stream::{Received, TlsReader, TlsWriter, halves};

/// Shakes hands with `host` over a connected socket.
///
/// # Errors
/// See [`crate::net::transport::secure()`].
pub(super) async fn shake(
    host: &str,
    mut reader: OwnedReadHalf,
    mut writer: OwnedWriteHalf,
    config: Arc<ClientConfig>,
    wanted: Wanted,
) -> Result<(TlsReader, TlsWriter), Error> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        let text = format!(
            "{host} is not a name that a certificate can have: use a DNS name or an address"
        );
        Error::new(Kind::Authentication, text)
    })?;
    let mut tls = ClientConnection::new(config, name).map_err(|cause| explain(&cause, &wanted))?;
    let mut received = Received::default();
    loop {
        send(&mut tls, &mut writer).await?;
        if !tls.is_handshaking() {
            return Ok(halves(tls, reader, writer, received, wanted));
        }
        let begins = received.is_new();
        let read = reader.read(received.room()).await;
        match read {
            Ok(0) => return Err(closed(begins)),
            Ok(count) => received.fill(count),
            Err(cause) if cause.kind() == std::io::ErrorKind::ConnectionReset => {
                return Err(closed(begins));
            }
            Err(cause) => return Err(Error::new(Kind::Unreachable, say(&cause))),
        }
        if begins {
            looks_like_tls(received.bytes())?;
        }
        while tls.is_handshaking() && received.feed(&mut tls) {
            if let Err(cause) = tls.process_new_packets() {
                // The peer may want to know as well.
                let _ = send(&mut tls, &mut writer).await;
                return Err(explain(&cause, &wanted));
            }
        }
    }
}

async fn send(tls: &mut ClientConnection, writer: &mut OwnedWriteHalf) -> Result<(), Error> {
    let mut bytes = Vec::new();
    while tls.wants_write() {
        // A vector takes everything.
        if tls.write_tls(&mut bytes).is_err() {
            break;
        }
    }
    match writer.write_all(&bytes).await {
        Ok(()) => Ok(()),
        // Reading finds the reason.
        Err(cause) if is_broken(&cause) => Ok(()),
        Err(cause) => Err(Error::new(Kind::Unreachable, say(&cause))),
    }
}

fn is_broken(cause: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(cause.kind(), BrokenPipe | ConnectionReset)
}

fn closed(begins: bool) -> Error {
    let text = if begins {
        "the connection was closed at the beginning of the TLS handshake: the port is a PLAINTEXT listener's, it is no broker's, \
         or the broker is going down"
    } else {
        "the connection was closed in the middle of the TLS handshake: the broker does not accept what this client sent (see its \
         log), or is going down"
    };
    Error::new(Kind::Unreachable, text)
}

/// Refuses a response that is not a record of a handshake or an alert.
fn looks_like_tls(answer: &[u8]) -> Result<(), Error> {
    let text = match answer {
        [0x15 | 0x16, 3, ..] | [0x15 | 0x16] => return Ok(()),
        [b'H', b'T', b'T', b'P', ..] => {
            "the port responds in HTTP and not with TLS: it is a web server's, not a Kafka broker's".to_owned()
        }
        [0, ..] => "the port responds, but not with TLS: it may be a PLAINTEXT listener's; set security.protocol to PLAINTEXT \
                    (with SASL: SASL_PLAINTEXT), or use the port of an SSL listener"
            .to_owned(),
        _ => format!(
            "the port responds with \"{}\" and not with TLS: it is not a Kafka broker's SSL listener",
            answer.get(..answer.len().min(16)).unwrap_or_default().escape_ascii()
        ),
    };
    Err(Error::new(Kind::NotKafka, text))
}
