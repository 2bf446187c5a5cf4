//! Looks up names of hosts, and the names of addresses.

use std::net::{IpAddr, SocketAddr};

use ottla_engine::config::DnsLookup;
use ottla_engine::{Config, Error, Kind};
use tokio::net::lookup_host;
use tokio::task::spawn_blocking;

/// Every address of `host`; at least one.
///
/// # Errors
/// `Kind::Unresolved` if the name has no address.
pub(super) async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |text: String| Err(Error::new(Kind::Unresolved, text));
    match lookup_host((host, port)).await {
        Ok(found) => {
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                return unresolved(format!("the host name {host} has no address"));
            }
            Ok(found)
        }
        Err(cause) => unresolved(format!("the host name {host} cannot be looked up: {cause}")),
    }
}

/// The addresses in their order, but with the families (IPv4, IPv6) by turns, beginning with that of the first: where one
/// family leads nowhere, the other is not behind all of its addresses.
pub(super) fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv4() == first_is_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut all = Vec::new();
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return all;
        }
        all.extend(pair.into_iter().flatten());
    }
}

/// Whether a broker is known by the name that its IP address has in the DNS.
pub(super) fn is_canonical(config: &Config, is_bootstrap: bool) -> bool {
    is_bootstrap && config.dns_lookup == DnsLookup::ResolveCanonicalBootstrapServersOnly
}

/// The name that an address has in the DNS, if it has one.
pub(super) async fn canonical_name(address: IpAddr) -> Option<String> {
    let looked_up = spawn_blocking(move || dns_lookup::lookup_addr(&address));
    let name = looked_up.await.ok()?.ok()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_take_turns() {
        let parse = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let mixed = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "1.1.1.2:1"]);
        let wanted = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"]);
        assert_eq!(alternating(mixed), wanted);
        assert_eq!(alternating(Vec::new()), []);
    }

    #[tokio::test]
    async fn an_address_is_its_own() {
        let found = addresses("::1", 7).await.unwrap();
        assert_eq!(found, ["[::1]:7".parse().unwrap()]);
    }
}
