//! The addresses that brokers advertise: which broker returned them, and the text of the error when
//! they cannot be reached.
//!
//! A broker behind a forwarded port, in a container or behind a bastion advertises an address that
//! means nothing here: the bootstrap server responds, and then no connection succeeds.

use std::collections::BTreeSet;

use crate::config::Config;
use crate::error::{Error, Kind};

#[derive(Debug, Default)]
pub(super) struct Advertised {
    /// The address of the broker that returned the addresses of the others.
    told_by: Option<String>,
    /// Addresses that led to a broker before: whatever is wrong with them now, they mean something here.
    reached: BTreeSet<(String, u16)>,
}

impl Advertised {
    /// The broker at the address `by` returned these addresses.
    pub(super) fn told(&mut self, by: String, nodes: &[(i32, &str, u16)]) {
        self.told_by = Some(by);
        self.reached.retain(|(host, port)| {
            nodes
                .iter()
                .any(|(_, known, at)| host == known && port == at)
        });
    }

    /// A connection to this address was made.
    pub(super) fn reached(&mut self, host: &str, port: u16) {
        if !self.reached.contains(&(host.to_owned(), port)) {
            self.reached.insert((host.to_owned(), port));
        }
    }

    /// `cause`, why the address of broker `node` leads nowhere; with what is behind it, if it never led to a broker.
    pub(super) fn explain(
        &self,
        config: &Config,
        cause: Error,
        node: i32,
        host: &str,
        port: u16,
    ) -> Error {
        let is_given = config
            .bootstrap
            .iter()
            .any(|(given, at)| given == host && *at == port);
        let leads_nowhere = matches!(
            cause.kind(),
            Kind::Unreachable | Kind::Unresolved | Kind::NotKafka
        );
        let (Some(by), true) = (&self.told_by, leads_nowhere && !is_given) else {
            return cause;
        };
        if self.reached.contains(&(host.to_owned(), port)) {
            return cause;
        }
        let route = config.address_map.route(host, port);
        if route.is_mapped {
            let (to, at) = (route.host, route.port);
            return cause.adding(format_args!(
                "this is the address that broker {node} advertises, according to {by}, and address.map leads it to {to}:{at}"
            ));
        }
        cause.adding(format_args!(
            "this is the address that broker {node} advertises, according to {by}: if it means nothing here, correct the \
             broker's advertised.listeners, or set address.map={host}:{port}=HOST:PORT to where it is reached"
        ))
    }
}
