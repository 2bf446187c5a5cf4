//! Opens connections: straight to a host, or through a proxy; to all of a host's addresses, until
//! one connects.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ottla_engine::config::{Proxy, ProxyProtocol};
use ottla_engine::{Config, Dial, Error, Kind};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::clock::{deadline, timeout_at};
use super::stream::{ReadHalf, WriteHalf, say, tcp};
use super::{proxy, resolve};

/// After this time without a response from an address, the next address is tried in parallel (RFC
/// 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// A connection to a broker, as far as is known.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) halves: (ReadHalf, WriteHalf),
    /// The host that the broker's certificate, and its Kerberos principal, must name.
    pub(crate) name: String,
}

/// Connects to an address, or to where `address.map` and `proxy.url` lead it.
///
/// # Errors
/// `Kind::Unresolved` if the host's name is not known; `Kind::Unreachable`, with what each of its addresses said.
pub(crate) async fn dial(dial: &Dial, config: &Config) -> Result<Dialled, Error> {
    let (stream, name) = reach(dial, config).await?;
    let halves = tcp(stream);
    Ok(Dialled { halves, name })
}

/// A socket that is connected, and the broker's name.
async fn reach(dial: &Dial, config: &Config) -> Result<(TcpStream, String), Error> {
    let route = config.address_map.route(&dial.host, dial.port);
    if let Some(proxy) = &config.proxy {
        let stream = through(proxy, route.host, route.port, config).await;
        let stream = stream.map_err(|cause| {
            let kind = cause.kind();
            cause.wrap(kind, format_args!("through the proxy {proxy}"))
        })?;
        return Ok((stream, route.name.to_owned()));
    }
    let addresses = resolve::addresses(route.host, route.port).await?;
    let (stream, to) = any_of(addresses, config).await?;
    let canonical = resolve::is_canonical(config, dial.is_bootstrap && !route.is_mapped);
    let name = match canonical {
        true => resolve::canonical_name(to.ip()).await,
        false => None,
    };
    Ok((stream, name.unwrap_or_else(|| route.name.to_owned())))
}

/// A connection to `host` that goes through a proxy.
async fn through(
    proxy: &Proxy,
    host: &str,
    port: u16,
    config: &Config,
) -> Result<TcpStream, Error> {
    // Before the proxy is bothered.
    let target = match proxy.protocol {
        ProxyProtocol::Socks5 => proxy::Target::Addresses(resolve::addresses(host, port).await?),
        ProxyProtocol::Socks5h | ProxyProtocol::Http => proxy::Target::of(host, port),
    };
    let at = resolve::addresses(&proxy.host, proxy.port).await?;
    let (mut stream, _) = any_of(at, config).await?;
    proxy::connect(&mut stream, proxy, &target).await?;
    Ok(stream)
}

/// Connects to the first address that responds. They are tried in their order, one family after the
/// other; the next one begins when the last has failed, or after a moment.
async fn any_of(
    addresses: Vec<SocketAddr>,
    config: &Config,
) -> Result<(TcpStream, SocketAddr), Error> {
    if let [only] = *addresses {
        let connected = match socket(only, config) {
            Ok(socket) => socket.connect(only).await,
            Err(cause) => Err(cause),
        };
        return match connected {
            Ok(stream) => Ok((stream, only)),
            Err(cause) => Err(Error::new(Kind::Unreachable, told(only, &cause))),
        };
    }
    let mut waiting = resolve::alternating(addresses).into_iter();
    let mut attempts = JoinSet::new();
    let mut causes = Vec::new();
    loop {
        if let Some(address) = waiting.next() {
            match socket(address, config) {
                Ok(socket) => {
                    attempts.spawn(async move { (address, socket.connect(address).await) });
                }
                Err(cause) => causes.push(told(address, &cause)),
            }
        }
        let ended = match waiting.len() {
            0 => attempts.join_next().await,
            _ => match timeout_at(deadline(STAGGER), attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            },
        };
        match ended {
            Some(Ok((address, Ok(stream)))) => return Ok((stream, address)),
            Some(Ok((address, Err(cause)))) => causes.push(told(address, &cause)),
            // An attempt never panics, and nobody else ends it.
            Some(Err(_)) => {}
            None if waiting.len() > 0 => {}
            None => return Err(Error::new(Kind::Unreachable, causes.join(", "))),
        }
    }
}

fn told(address: SocketAddr, cause: &io::Error) -> String {
    format!("{} ({})", say(cause), address.ip())
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

#[cfg(test)]
mod tests {
    use ottla_engine::Role;
    use ottla_engine::release::Approach;
    use tokio::net::TcpListener;

    use super::*;

    fn config(more: &[(&'static str, &'static str)]) -> Config {
        let pairs = [("bootstrap.servers", "127.0.0.1:9")];
        Config::parse(Role::Admin, pairs.into_iter().chain(more.iter().copied())).unwrap()
    }

    fn address(host: &str, port: u16) -> Dial {
        Dial {
            host: host.to_owned(),
            port,
            is_bootstrap: true,
            approach: Approach::Ask,
            expected: None,
            timeout: Duration::from_secs(10),
        }
    }

    #[test]
    fn idle_connections_are_probed_unless_the_setting_says_no() {
        let address = "127.0.0.1:9".parse().unwrap();
        let probed = |settings: &[(&'static str, &'static str)]| {
            socket(address, &config(settings))
                .unwrap()
                .keepalive()
                .unwrap()
        };
        assert!(probed(&[]));
        assert!(probed(&[("socket.keepalive.enable", "true")]));
        assert!(!probed(&[("socket.keepalive.enable", "false")]));
    }

    #[tokio::test]
    async fn every_address_is_tried_until_one_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let mut addresses: Vec<SocketAddr> = (2..6)
            .map(|n| SocketAddr::from(([127, 0, 0, n], here.port())))
            .collect();
        addresses.push(SocketAddr::from((
            std::net::Ipv6Addr::LOCALHOST,
            here.port(),
        )));
        let error = any_of(addresses.clone(), &config(&[])).await.unwrap_err();
        for tried in ["127.0.0.2", "127.0.0.5", "::1"] {
            assert!(error.message().contains(tried), "{error}");
        }
        addresses.push(here);
        let (_, to) = any_of(addresses, &config(&[])).await.unwrap();
        assert_eq!(to, here);
    }

    #[tokio::test]
    async fn an_address_that_swallows_connections_holds_up_no_other() {
        // Its queue of connections is full, and nobody takes any out: what comes now is neither refused nor accepted.
        let full = TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = full.listen(1).unwrap();
        let silent = full.local_addr().unwrap();
        let mut kept = Vec::new();
        let soon = Duration::from_millis(200);
        while let Ok(stream) = timeout_at(deadline(soon), TcpStream::connect(silent)).await {
            kept.push(stream);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let settings = config(&[]);
        let both = any_of(vec![silent, here], &settings);
        let (_, to) = timeout_at(deadline(Duration::from_secs(10)), both)
            .await
            .expect("the second address was not tried")
            .unwrap();
        assert_eq!(to, here);
    }

    #[tokio::test]
    async fn a_mapped_address_leads_elsewhere_and_keeps_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        for (third, name) in [
            ("", "kafka-1.invalid"),
            ("=kafka.example.org", "kafka.example.org"),
        ] {
            let map = format!("kafka-1.invalid:9092={here}{third}");
            let settings = config(&[("address.map", map.leak())]);
            let dialled = reach(&address("kafka-1.invalid", 9092), &settings).await;
            let (stream, known) = dialled.unwrap();
            assert_eq!((stream.peer_addr().unwrap(), &*known), (here, name));
        }
    }

    #[tokio::test]
    async fn a_bootstrap_server_may_be_known_by_its_canonical_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let settings = config(&[(
            "client.dns.lookup",
            "resolve_canonical_bootstrap_servers_only",
        )]);
        let wanted = resolve::canonical_name(here.ip()).await;
        let wanted = wanted.unwrap_or_else(|| "127.0.0.1".to_owned());
        let mut asked = address("127.0.0.1", here.port());
        assert_eq!(reach(&asked, &settings).await.unwrap().1, wanted);
        assert_eq!(reach(&asked, &config(&[])).await.unwrap().1, "127.0.0.1");
        asked.is_bootstrap = false;
        assert_eq!(reach(&asked, &settings).await.unwrap().1, "127.0.0.1");
    }

    #[tokio::test]
    async fn a_name_that_nobody_knows_is_said() {
        let error = reach(&address("nobody.invalid", 1), &config(&[])).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), Kind::Unresolved);
        assert!(error.message().contains("nobody.invalid"), "{error}");
    }
}
