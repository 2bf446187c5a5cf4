//! Every message of the protocol, generated from `schemas/` by `ottla-codegen`.
//!
//! Each message has a module with its structs ([`fetch_request`]); the root structs are here too
//! ([`FetchRequest`]). Fields have Kafka's names in snake case; errors use the names of Kafka's JSON. `Default` has the
//! schema's defaults, so that you can write `FetchRequest { max_wait_ms: 500, ..Default::default() }`.
//!
//! `cargo run -p ottla-codegen -- show FetchRequest` prints the source of one.

#![allow(clippy::all, clippy::pedantic, clippy::nursery)]

use crate::wire as w;

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl ApiKey {
    /// The key on the wire.
    pub const fn as_i16(self) -> i16 {
        self as i16
    }

    /// The version of the header before a request of this version.
    ///
    /// Only ControlledShutdown 0 has a header without a client id.
    pub const fn request_header_version(self, version: i16) -> i16 {
        match (self, self.flexible_from()) {
            (Self::ControlledShutdown, _) if version == 0 => 0,
            (_, Some(from)) if version >= from => 2,
            _ => 1,
        }
    }

    /// The version of the header before a response of this version.
    ///
    /// For ApiVersions it is always 0, so that a client can read the response of a broker that does not know the
    /// requested version (KIP-511).
    pub const fn response_header_version(self, version: i16) -> i16 {
        match (self, self.flexible_from()) {
            (Self::ApiVersions, _) => 0,
            (_, Some(from)) if version >= from => 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_from_0_to_94_is_known() {
        let keys: Vec<i16> = ApiKey::ALL.iter().map(|key| key.as_i16()).collect();
        assert_eq!(keys, (0..=94).collect::<Vec<i16>>());
        assert!(
            ApiKey::ALL
                .iter()
                .all(|key| ApiKey::from_i16(key.as_i16()) == Some(*key))
        );
        assert_eq!(ApiKey::from_i16(95), None);
        assert_eq!(ApiKey::Fetch.to_string(), "Fetch");
        assert_eq!(ApiKey::Produce.versions(), w::Versions { min: 0, max: 13 });
    }

    #[test]
    fn only_the_last_init_producer_id_is_unstable() {
        let unstable: Vec<_> = ApiKey::ALL
            .iter()
            .filter(|key| key.latest_version_unstable())
            .collect();
        assert_eq!(unstable, [&ApiKey::InitProducerId]);
    }
}
