//! Puts TLS between a connection and its socket.

use ottla_engine::{Error, Kind};

use super::stream::{ReadHalf, WriteHalf};
use super::tls::Tls;

/// Makes a connected plain socket secure; `host` is the name that the broker's certificate must have.
///
/// # Errors
/// `Kind::Authentication` if one side does not accept the other, `Kind::NotKafka` if the peer does not speak TLS,
/// `Kind::Unreachable` if the connection broke.
pub(crate) async fn secure(
    tls: &Tls,
    host: &str,
    halves: (ReadHalf, WriteHalf),
) -> Result<(ReadHalf, WriteHalf), Error> {
    let (ReadHalf::Tcp(reader), WriteHalf::Tcp(writer)) = halves else {
        return Err(Error::new(
            Kind::Config,
            "the connection is secured already",
        ));
    };
    let (reader, writer) = tls.shake(host, reader, writer).await?;
    Ok((ReadHalf::Tls(reader), WriteHalf::Tls(writer)))
}
