//! The properties of the ways to brokers, which every client has.

macro_rules! network {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* ALL {
        /// Brokers that are reached at another address than they advertise, behind forwarded ports or a bastion:
        /// advertised=reached, each host:port, separated by commas (broker-1:9092=localhost:19092,...). Certificates must still
        /// name the advertised host, or the host named as a third part (broker-1:9092=localhost:19092=kafka.example.org).
        "address.map" => address_map: AddressMap, text(address_map);
        /// Proxy for every connection: socks5h://user:password@host:port or http://... (CONNECT), where the proxy looks up the
        /// names of brokers, or socks5://..., where this machine does.
        "proxy.url" => proxy: Option<Proxy>, secret(proxy);
        /// What a host name leads to. Every address of it is tried (use_all_dns_ips); or that, and bootstrap servers are known by
        /// the names that their IP addresses have in the DNS (resolve_canonical_bootstrap_servers_only).
        "client.dns.lookup" => dns_lookup: DnsLookup = "use_all_dns_ips", choice(
            "use_all_dns_ips" => DnsLookup::UseAllDnsIps,
            "resolve_canonical_bootstrap_servers_only" => DnsLookup::ResolveCanonicalBootstrapServersOnly
        );
        /// How long the names of all bootstrap servers may be unknown to the DNS before calls fail at once; 0 lets each call
        /// wait until its own deadline (KIP-909).
        "bootstrap.resolve.timeout.ms" => resolve_timeout: Duration = "0", millis(0);
        /// Idle connections are closed after this; -1 keeps them.
        "connections.max.idle.ms" => idle_max: Option<Duration> = "540000", whole(-1, i32::MAX as i64, "ms");
        /// What to do when no known broker gives metadata: begin again at the bootstrap servers (rebootstrap), or go on with
        /// the known brokers (none).
        "metadata.recovery.strategy" => rebootstrap: bool = "rebootstrap", choice("rebootstrap" => true, "none" => false);
        /// How long known brokers may give no metadata before the client begins again at the bootstrap servers (KIP-1102).
        "metadata.recovery.rebootstrap.trigger.ms" => rebootstrap_trigger: Duration = "300000", millis(0);
        /// Whether connections to known brokers send the expected cluster id and broker id. A broker with other ids
        /// then rejects the connection, and the client begins again at the bootstrap servers (KIP-1242; brokers since
        /// 4.4).
        "metadata.cluster.check.enable" => cluster_check: bool = "true", bool();
    } } };
}
pub(in crate::config) use network;
