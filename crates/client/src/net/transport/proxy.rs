//! Requests a connection from a proxy: SOCKS5 (RFC 1928, RFC 1929) or HTTP's CONNECT (RFC 9110,
//! 9.3.6). Own code, since async-http-proxy reads a line without end into memory, and what follows
//! the response too; tokio-socks would save sixty lines.
//!
//! ```text
//!  SOCKS5   greeting ──▶ ◀── method ── (user, password ──▶ ◀── status) ── CONNECT ──▶ ◀── reply │ the broker's bytes
//!  CONNECT  request ──▶ ◀── status line and fields, to the empty line │ the broker's bytes
//! ```

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ottla_engine::config::{Proxy, ProxyProtocol};
use ottla_engine::{Error, Kind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::stream::say;

/// The most bytes of an HTTP proxy's response.
const MOST_OF_ANSWER: usize = 16 << 10;

/// Where the connection is to lead.
#[derive(Debug)]
pub(super) enum Target {
    /// To a host that the proxy looks up.
    Name(String, u16),
    /// To the first of these: a proxy takes one address, and the others are unused.
    Addresses(Vec<SocketAddr>),
}

impl Target {
    /// A host by its name, or by its address if that is what its name is.
    pub(super) fn of(host: &str, port: u16) -> Target {
        match host.parse::<IpAddr>() {
            Ok(ip) => Target::Addresses(vec![SocketAddr::new(ip, port)]),
            Err(_) => Target::Name(host.to_owned(), port),
        }
    }

    /// `host:port`, with an IPv6 address in brackets.
    fn authority(&self) -> String {
        match self {
            Target::Name(host, port) => format!("{host}:{port}"),
            Target::Addresses(all) => all.first().map(SocketAddr::to_string).unwrap_or_default(),
        }
    }
}

/// Has the proxy at the other end of `stream` connect to `target`. What comes afterwards is the target's.
///
/// # Errors
/// `Kind::Unreachable` if the proxy refuses, cannot reach the target, or is no such proxy.
pub(super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    proxy: &Proxy,
    target: &Target,
) -> Result<(), Error> {
    match proxy.protocol {
        ProxyProtocol::Socks5 | ProxyProtocol::Socks5h => socks5(stream, proxy, target).await,
        ProxyProtocol::Http => http(stream, proxy, target).await,
    }
}

fn unreachable(text: impl Into<String>) -> Error {
    Error::new(Kind::Unreachable, text)
}

async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> Result<(), Error> {
    let written = stream.write_all(bytes).await;
    written.map_err(|cause| unreachable(say(&cause)))
}

async fn read<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let read = stream.read_exact(&mut bytes).await;
    match read {
        Ok(_) => Ok(bytes),
        Err(_) => Err(unreachable("the proxy closed the connection")),
    }
}

// --- SOCKS5

const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;

async fn socks5<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    proxy: &Proxy,
    target: &Target,
) -> Result<(), Error> {
    let request = socks5_request(target)?;
    let greeting: &[u8] = match proxy.user {
        Some(_) => &[5, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
        None => &[5, 1, NO_AUTHENTICATION],
    };
    write(stream, greeting).await?;
    match (read::<2, _>(stream).await?, &proxy.user) {
        ([5, NO_AUTHENTICATION], _) => {}
        ([5, USER_AND_PASSWORD], Some((user, password))) => {
            let mut bytes = vec![1];
            push(&mut bytes, user)?;
            push(&mut bytes, password.expose())?;
            write(stream, &bytes).await?;
            let [_, status] = read::<2, _>(stream).await?;
            if status != 0 {
                return Err(unreachable(
                    "it does not accept the user and the password of proxy.url",
                ));
            }
        }
        ([5, 0xff], Some(_)) => {
            return Err(unreachable(
                "it takes neither a user and a password nor none",
            ));
        }
        ([5, 0xff], None) => {
            return Err(unreachable(
                "it wants to know the user: proxy.url=socks5h://USER:PASSWORD@HOST:PORT",
            ));
        }
        ([5, method], _) => {
            let text =
                format!("it chose the authentication method {method}, which was not offered");
            return Err(unreachable(text));
        }
        _ => return Err(unreachable("it is not a SOCKS5 proxy")),
    }
    write(stream, &request).await?;
    let [version, reply, _, kind] = read::<4, _>(stream).await?;
    if version != 5 {
        return Err(unreachable("it is not a SOCKS5 proxy"));
    }
    if reply != 0 {
        let to = target.authority();
        return Err(unreachable(format!(
            "no connection to {to}: {}",
            refusal(reply)
        )));
    }
    // The address that the proxy connects from, which nobody needs.
    match kind {
        1 => drop(read::<6, _>(stream).await?),
        4 => drop(read::<18, _>(stream).await?),
        3 => {
            let [length] = read::<1, _>(stream).await?;
            for _ in 0..u16::from(length) + 2 {
                read::<1, _>(stream).await?;
            }
        }
        _ => {
            return Err(unreachable("its reply has an address of an unknown type"));
        }
    }
    Ok(())
}

/// A text with its length before it.
fn push(bytes: &mut Vec<u8>, text: &str) -> Result<(), Error> {
    let length = u8::try_from(text.len())
        .map_err(|_| unreachable("a name is longer than 255 bytes, the limit of SOCKS5"))?;
    bytes.push(length);
    bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

fn socks5_request(target: &Target) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![5, 1, 0];
    let port = match target {
        Target::Name(host, port) => {
            bytes.push(3);
            push(&mut bytes, host)?;
            *port
        }
        Target::Addresses(all) => {
            let first = all.first();
            let address = first.ok_or_else(|| unreachable("the host has no address"))?;
            match address.ip() {
                IpAddr::V4(ip) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes.push(4);
                    bytes.extend_from_slice(&ip.octets());
                }
            }
            address.port()
        }
    };
    bytes.extend_from_slice(&port.to_be_bytes());
    Ok(bytes)
}

fn refusal(reply: u8) -> String {
    match reply {
        1 => "general failure".to_owned(),
        2 => "the proxy's rules do not allow it".to_owned(),
        3 => "the network cannot be reached".to_owned(),
        4 => "the host cannot be reached, or its name is not known".to_owned(),
        5 => "connection refused: nothing listens there".to_owned(),
        6 => "the TTL expired".to_owned(),
        7 => "the proxy does not connect".to_owned(),
        8 => "the proxy does not know this kind of address".to_owned(),
        other => format!("reply {other}"),
    }
}

// --- HTTP

async fn http<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    proxy: &Proxy,
    target: &Target,
) -> Result<(), Error> {
    let to = target.authority();
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some((user, password)) = &proxy.user {
        let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
        request.push_str(&format!("Proxy-Authorization: Basic {pair}\r\n"));
    }
    request.push_str("\r\n");
    write(stream, request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte: what comes after the empty line is the broker's.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == MOST_OF_ANSWER || (answer.len() == 5 && answer != b"HTTP/") {
            return Err(unreachable("it is not an HTTP proxy"));
        }
        answer.extend(read::<1, _>(stream).await?);
    }
    let line = answer.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse::<u16>().ok());
    match (status, &proxy.user) {
        (Some(200..=299), _) => Ok(()),
        (Some(407), None) => Err(unreachable(
            "it wants to know the user (407): proxy.url=http://USER:PASSWORD@HOST:PORT",
        )),
        (Some(407), Some(_)) => Err(unreachable(
            "it does not accept the user and the password of proxy.url (407)",
        )),
        _ => {
            let said: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
            Err(unreachable(format!(
                "no connection to {to}: it replied \"{said}\""
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use ottla_engine::{Config, Role};
    use tokio::io::duplex;

    use super::*;

    fn proxy(url: &'static str) -> Proxy {
        let pairs = [("bootstrap.servers", "a:1"), ("proxy.url", url)];
        Config::parse(Role::Admin, pairs).unwrap().proxy.unwrap()
    }

    /// What the client sends to a proxy with these replies, and how it ends.
    async fn talk(
        url: &'static str,
        target: &Target,
        answers: &[u8],
    ) -> (Vec<u8>, Result<(), Error>, Vec<u8>) {
        let (mut ours, mut theirs) = duplex(1 << 16);
        theirs.write_all(answers).await.unwrap();
        let (mut said, mut left) = (Vec::new(), Vec::new());
        let (mut theirs, mut answer_half) = tokio::io::split(theirs);
        answer_half.shutdown().await.unwrap();
        let ended = connect(&mut ours, &proxy(url), target).await;
        ours.shutdown().await.unwrap();
        ours.read_to_end(&mut left).await.unwrap();
        drop(ours);
        theirs.read_to_end(&mut said).await.unwrap();
        (said, ended, left)
    }

    #[tokio::test]
    async fn socks_gets_the_name_and_leaves_what_follows() {
        let target = Target::of("kafka-1", 9092);
        let answers = b"\x05\x00\x05\x00\x00\x03\x02xy\x00\x01rest";
        let (said, ended, left) = talk("socks5h://p:1", &target, answers).await;
        ended.unwrap();
        assert_eq!(said, b"\x05\x01\x00\x05\x01\x00\x03\x07kafka-1\x23\x84");
        assert_eq!(left, b"rest");
    }

    #[tokio::test]
    async fn socks_gets_user_and_password_if_it_asks() {
        let target = Target::of("::1", 1);
        let mut answers = b"\x05\x02\x01\x00\x05\x00\x00\x04".to_vec();
        answers.extend([0; 18]);
        let (said, ended, _) = talk("socks5://me:pass@p:1", &target, &answers).await;
        ended.unwrap();
        let mut wanted = b"\x05\x02\x00\x02\x01\x02me\x04pass\x05\x01\x00\x04".to_vec();
        wanted.extend([0; 15]);
        wanted.extend([1, 0, 1]);
        assert_eq!(said, wanted);
    }

    #[tokio::test]
    async fn what_socks_refuses_is_said() {
        for (url, answers, text) in [
            ("socks5h://p:1", &b"\x05\xff"[..], "wants to know the user"),
            ("socks5h://me:x@p:1", b"\x05\xff", "takes neither"),
            (
                "socks5h://me:x@p:1",
                b"\x05\x02\x01\x01",
                "does not accept the user",
            ),
            ("socks5h://p:1", b"\x05\x02", "was not offered"),
            ("socks5h://p:1", b"HT", "not a SOCKS5 proxy"),
            ("socks5h://p:1", b"\x05", "closed the connection"),
            (
                "socks5h://p:1",
                b"\x05\x00\x05\x05\x00\x01",
                "no connection to kafka-1:9092: connection refused",
            ),
            ("socks5h://p:1", b"\x05\x00\x05\x00\x00\x09", "unknown type"),
        ] {
            let (_, ended, _) = talk(url, &Target::of("kafka-1", 9092), answers).await;
            let error = ended.unwrap_err();
            assert!(
                error.message().contains(text) && error.is_retriable(),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn connect_is_asked_with_the_name_and_leaves_what_follows() {
        let target = Target::of("kafka-1", 9092);
        let answers = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nrest";
        let (said, ended, left) = talk("http://me:pass@p:1", &target, answers).await;
        ended.unwrap();
        assert_eq!(
            String::from_utf8(said).unwrap(),
            "CONNECT kafka-1:9092 HTTP/1.1\r\nHost: kafka-1:9092\r\nProxy-Authorization: Basic bWU6cGFzcw==\r\n\r\n"
        );
        assert_eq!(left, b"rest");
        let (said, ..) = talk("http://p:1", &Target::of("::1", 7), answers).await;
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said, "CONNECT [::1]:7 HTTP/1.1\r\nHost: [::1]:7\r\n\r\n");
    }

    #[tokio::test]
    async fn what_connect_refuses_is_said() {
        let endless = [&b"HTTP/1.1 200 "[..], &[b'x'; 20_000]].concat();
        for (url, answers, text) in [
            (
                "http://p:1",
                &b"HTTP/1.1 407 no\r\n\r\n"[..],
                "wants to know the user",
            ),
            (
                "http://me:x@p:1",
                b"HTTP/1.1 407 no\r\n\r\n",
                "does not accept the user",
            ),
            (
                "http://p:1",
                b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
                "replied \"HTTP/1.1 502 Bad Gateway\"",
            ),
            (
                "http://p:1",
                b"\x05\x00\x00\x00\x00\x00",
                "not an HTTP proxy",
            ),
            ("http://p:1", b"HTTP/1.1", "closed the connection"),
            ("http://p:1", &endless, "not an HTTP proxy"),
        ] {
            let (_, ended, _) = talk(url, &Target::of("kafka-1", 9092), answers).await;
            let error = ended.unwrap_err();
            assert!(
                error.message().contains(text) && error.is_retriable(),
                "{error}"
            );
        }
    }
}
