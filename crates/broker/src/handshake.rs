//! The TLS handshake of a client that has just connected.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The longest wait for a client that sends nothing.
const LONGEST: Duration = Duration::from_secs(20);
/// The first byte of TLS: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// A stream of bytes that is encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Shakes hands.
///
/// # Errors
/// Why the client is not let in.
pub(crate) async fn encrypt(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let handshake = async {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1) if first == [TLS_HANDSHAKE] => {}
            Ok(0) | Err(_) => return Err("the client has gone".to_owned()),
            Ok(_) => {
                return Err("it does not speak TLS, and this port does; is its security.protocol SSL or SASL_SSL?".to_owned());
            }
        }
        let accepted = TlsAcceptor::from(Arc::clone(config)).accept(stream).await;
        accepted.map_err(|cause| format!("the TLS handshake failed: {cause}"))
    };
    match tokio::time::timeout(LONGEST, handshake).await {
        Ok(result) => result,
        Err(_) => Err("the TLS handshake took too long".to_owned()),
    }
}
