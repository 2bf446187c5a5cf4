//! Where connections really lead: addresses that stand for others, and proxies.

use std::fmt;

use super::secret::Secret;

/// Which names and addresses a host name stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsLookup {
    /// Every address of the name is tried.
    #[default]
    UseAllDnsIps,
    /// The same; and a bootstrap address is known by the name that its IP address has in the DNS.
    ResolveCanonicalBootstrapServersOnly,
}

/// The addresses at which brokers are reached that advertise others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap(Vec<Mapped>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    from: (String, u16),
    to: (String, u16),
    name: Option<String>,
}

/// Where a connection to an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// The host to connect to.
    pub host: &'a str,
    /// The port to connect to.
    pub port: u16,
    /// The host that a certificate must name.
    pub name: &'a str,
    /// Whether that is another address than the requested one.
    pub is_mapped: bool,
}

impl AddressMap {
    /// Where a connection to this address leads: to itself, unless the map names another address.
    pub fn route<'a>(&'a self, host: &'a str, port: u16) -> Route<'a> {
        let mapped = self
            .0
            .iter()
            .find(|entry| entry.from.1 == port && entry.from.0.eq_ignore_ascii_case(host));
        match mapped {
            Some(entry) => Route {
                host: &entry.to.0,
                port: entry.to.1,
                name: entry.name.as_deref().unwrap_or(host),
                is_mapped: true,
            },
            None => Route {
                host,
                port,
                name: host,
                is_mapped: false,
            },
        }
    }
}

/// `advertised=reached` pairs of `host:port`, separated by commas; a third part names the host that certificates are for.
pub(super) fn address_map(text: &str) -> Result<AddressMap, String> {
    let mut map = Vec::<Mapped>::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let rule = || format!("must be host:port=host:port, separated by commas; {part:?} is not");
        let mut sides = part.split('=').map(str::trim);
        let (Some(from), Some(to)) = (sides.next(), sides.next()) else {
            return Err(rule());
        };
        let name = sides.next();
        if sides.next().is_some() || name.is_some_and(|name| !is_host(name)) {
            return Err(rule());
        }
        let entry = Mapped {
            from: address(from).ok_or_else(rule)?,
            to: address(to).ok_or_else(rule)?,
            name: name.map(str::to_owned),
        };
        if map.iter().any(|other| other.from == entry.from) {
            return Err(format!("maps {from} twice"));
        }
        map.push(entry);
    }
    Ok(AddressMap(map))
}

/// `host:port`, in which an IPv6 address stands in brackets.
pub(super) fn address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse::<u16>().ok().filter(|port| *port != 0)?;
    is_host(host).then(|| (host.to_owned(), port))
}

/// Whether a text may be a host name or an address: what brokers advertise is checked before use.
pub(crate) fn is_host(text: &str) -> bool {
    let fits = (1..=255).contains(&text.len());
    fits && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// A proxy through which every connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its protocol.
    pub protocol: ProxyProtocol,
    /// Its host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The client's login at the proxy, if needed: a user and a password.
    pub user: Option<(String, Secret)>,
}

/// The protocol of a proxy, and which side looks up the names of brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// SOCKS5 (RFC 1928); this machine looks names up.
    Socks5,
    /// SOCKS5; the proxy looks names up.
    Socks5h,
    /// HTTP's CONNECT (RFC 9110); the proxy looks names up.
    Http,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            ProxyProtocol::Socks5 => "socks5",
            ProxyProtocol::Socks5h => "socks5h",
            ProxyProtocol::Http => "http",
        };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// `scheme://user:password@host:port`, in which user and password may be left out; what is special in them is
/// percent-encoded. An empty text is no proxy.
pub(super) fn proxy(text: &str) -> Result<Option<Proxy>, String> {
    const RULE: &str = "must be socks5h://user:password@host:port, socks5://... or http://... (user and password may be left \
                        out, and are percent-encoded)";
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let (scheme, rest) = text.split_once("://").ok_or(RULE)?;
    let protocol = match scheme.to_ascii_lowercase().as_str() {
        "socks5" => ProxyProtocol::Socks5,
        "socks5h" => ProxyProtocol::Socks5h,
        "http" => ProxyProtocol::Http,
        "https" => {
            return Err(
                "must be http://: connections to the proxy itself are not encrypted".to_owned(),
            );
        }
        "socks4" | "socks4a" => {
            return Err("must be socks5:// or socks5h://: SOCKS4 is not supported".to_owned());
        }
        _ => return Err(RULE.to_owned()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    let (host, port) = address(place).ok_or(RULE)?;
    let user = match user {
        Some(user) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let (name, password) = decoded(name).zip(decoded(password)).ok_or(RULE)?;
            let fits = |text: &str| text.len() <= 255;
            if name.is_empty() || !fits(&name) || !fits(&password) {
                return Err(
                    "must have a user of 1 to 255 bytes and a password of 255 bytes at most"
                        .to_owned(),
                );
            }
            if protocol == ProxyProtocol::Http && name.contains(':') {
                return Err("must have a user without a colon".to_owned());
            }
            Some((name, Secret::new(&password)))
        }
        None => None,
    };
    Ok(Some(Proxy {
        protocol,
        host,
        port,
        user,
    }))
}

/// A text in which `%` and two hexadecimal digits stand for a byte.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_where_the_map_says() {
        let map =
            address_map("kafka-1:9092=localhost:19092, [::1]:9092=bastion:1=kafka.example.org,")
                .unwrap();
        let route = map.route("Kafka-1", 9092);
        assert_eq!(
            (route.host, route.port, route.name),
            ("localhost", 19092, "Kafka-1")
        );
        let route = map.route("::1", 9092);
        assert_eq!(
            (route.host, route.port, route.name),
            ("bastion", 1, "kafka.example.org")
        );
        for (host, port) in [("kafka-1", 9093), ("kafka-2", 9092)] {
            let route = map.route(host, port);
            assert_eq!(
                (route.host, route.port, route.is_mapped),
                (host, port, false)
            );
        }
        assert_eq!(address_map("").unwrap(), AddressMap::default());
    }

    #[test]
    fn a_map_that_is_none_is_said() {
        for text in [
            "a:1",
            "a=b:1",
            "a:1=b",
            "a:1=b:0",
            "a:1=b:2=",
            "a:1=b:2=c=d",
            "a:1=::1:2",
        ] {
            let said = address_map(text).unwrap_err();
            assert!(
                said.contains("must be host:port=host:port"),
                "{text}: {said}"
            );
        }
        assert_eq!(
            address_map("a:1=b:1,a:1=c:1").unwrap_err(),
            "maps a:1 twice"
        );
    }

    #[test]
    fn a_proxy_is_read_from_its_url() {
        let socks = proxy("socks5h://me:p%40ss:w%2Frd@bastion:1080/")
            .unwrap()
            .unwrap();
        assert_eq!(socks.protocol, ProxyProtocol::Socks5h);
        let (user, password) = socks.user.as_ref().unwrap();
        assert_eq!((user.as_str(), password.expose()), ("me", "p@ss:w/rd"));
        assert_eq!(socks.to_string(), "socks5h://bastion:1080");
        assert!(!format!("{socks:?}").contains("p@ss"));
        let http = proxy("HTTP://[::1]:3128").unwrap().unwrap();
        assert_eq!(
            (http.protocol, http.user.is_none()),
            (ProxyProtocol::Http, true)
        );
        assert_eq!(http.to_string(), "http://[::1]:3128");
        assert_eq!(proxy(" "), Ok(None));
    }

    #[test]
    fn a_proxy_that_is_none_is_said_without_its_password() {
        for text in [
            "bastion:1080",
            "ftp://me:hunter2@bastion:21",
            "socks5://me:hunter2@bastion",
            "socks5://me:hunter2%4@bastion:1",
            "socks5://:hunter2@bastion:1",
            "https://me:hunter2@bastion:1",
            "socks4://me:hunter2@bastion:1",
        ] {
            let said = proxy(text).unwrap_err();
            assert!(
                said.starts_with("must ") && !said.contains("hunter2"),
                "{said}"
            );
        }
    }
}
