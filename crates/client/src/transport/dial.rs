//! Opens sockets and looks up names.

use std::io;
use std::net::SocketAddr;

use ottla_engine::{Config, Error, Kind};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use super::stream::{ReadHalf, WriteHalf, tcp};

/// Connects to the first address of `host` that takes the connection.
///
/// # Errors
/// `Kind::Unreachable`, with what each address said.
pub(crate) async fn dial(
    host: &str,
    port: u16,
    config: &Config,
) -> Result<(ReadHalf, WriteHalf), Error> {
    let addresses = lookup_host((host, port)).await.map_err(|cause| {
        Error::new(
            Kind::Unreachable,
            format!("the host name {host} cannot be looked up: {cause}"),
        )
    })?;
    let mut causes = Vec::new();
    for address in addresses {
        match connect(address, config).await {
            Ok(stream) => return Ok(tcp(stream)),
            Err(cause) => causes.push(format!("{} ({})", say(&cause), address.ip())),
        }
    }
    let text = if causes.is_empty() {
        format!("the host name {host} has no address")
    } else {
        causes.join(", ")
    };
    Err(Error::new(Kind::Unreachable, text))
}

async fn connect(address: SocketAddr, config: &Config) -> io::Result<TcpStream> {
    socket(address, config)?.connect(address).await
}

/// A socket as the settings want it, not yet connected.
fn socket(address: SocketAddr, config: &Config) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    if let Some(bytes) = config.receive_buffer {
        socket.set_recv_buffer_size(size(bytes))?;
    }
    if let Some(bytes) = config.send_buffer {
        socket.set_send_buffer_size(size(bytes))?;
    }
    socket.set_keepalive(config.keepalive)?;
    socket.set_nodelay(true)?;
    Ok(socket)
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
    use ottla_engine::Role;

    use super::*;

    #[test]
    fn idle_connections_are_probed_unless_the_setting_says_no() {
        let address = "127.0.0.1:9".parse().unwrap();
        let probed = |setting: Option<(&'static str, &'static str)>| {
            let pairs = [("bootstrap.servers", "127.0.0.1:9")];
            let config = Config::parse(Role::Admin, pairs.into_iter().chain(setting)).unwrap();
            socket(address, &config).unwrap().keepalive().unwrap()
        };
        assert!(probed(None));
        assert!(probed(Some(("socket.keepalive.enable", "true"))));
        assert!(!probed(Some(("socket.keepalive.enable", "false"))));
    }
}
