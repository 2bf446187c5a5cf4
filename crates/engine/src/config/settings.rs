//! Makes [`Config`] and [`PROPERTIES`] of the rows in [`super::tables`].

use std::time::Duration;

use ottla_protocol::compression::Compression;

use super::jaas::Jaas;
use super::network::{AddressMap, DnsLookup, Proxy, address_map, proxy};
use super::property::{FromWhole, Property, Role, Value};
use super::secret::Secret;
use super::tables::{AcknowledgementMode, AcquireMode};
use super::tables::{CustomAssignor, GroupProtocol, OffsetsStorage, strategies};
use super::tables::{OffsetReset, Partitioner, SaslMechanism, SecurityProtocol, StoreType};
use super::tables::{TlsVersion, addresses, client_id, security_protocol};
use super::tables::{algorithm, grant, jaas, mechanism, optional, text, whole_secret};
use super::tables::{common, consumer, group, network, producer, sasl, security, share};
use super::tables::{hidden, offset_reset, path, pem, versions, words};
use crate::credentials::Credentials;
use crate::release::Fallback;

const ALL: &[Role] = &[
    Role::Producer,
    Role::Consumer,
    Role::ShareConsumer,
    Role::Admin,
];
const PRODUCER: &[Role] = &[Role::Producer];
const CONSUMER: &[Role] = &[Role::Consumer];
const SHARE_CONSUMER: &[Role] = &[Role::ShareConsumer];
const BOTH_CONSUMERS: &[Role] = &[Role::Consumer, Role::ShareConsumer];
const PRODUCER_AND_CONSUMERS: &[Role] = &[Role::Producer, Role::Consumer, Role::ShareConsumer];

/// Writes the struct, its empty state and the table from the rows.
macro_rules! settings {
    (=> $( $roles:ident { $(
        $(#[doc = $doc:literal])+
        $name:literal => $field:ident: $type:ty $(= $default:literal)?, $kind:ident $allowed:tt;
    )+ } )+) => {
        /// The settings of one client. Which of them matter depends on the [`Role`].
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct Config {
            /// The client these settings are for.
            pub role: Role,
            /// The level of the codec in use, if its property was given.
            pub compression_level: Option<i32>,
            /// Whether the user is a delegation token (KIP-48).
            pub token_auth: bool,
            /// The properties of authentication that were given, for a provider.
            pub sasl_given: Vec<(&'static str, Secret)>,
            /// The provider of tokens, signed documents and tickets, where the mechanism needs
            /// some.
            pub credentials: Credentials,
            /// Assignors of the caller's, which `partition_assignment_strategy` lists with the others.
            pub assignors: Vec<CustomAssignor>,
            /// Whether the caller set idempotence explicitly: then a broker without it is an error.
            pub requires_idempotence: bool,
            $($( $(#[doc = $doc])+ pub $field: $type, )+)+
        }

        impl Config {
            /// Everything empty: the table's defaults come on top.
            pub(super) fn blank(role: Role) -> Config {
                Config {
                    role,
                    compression_level: None,
                    token_auth: false,
                    sasl_given: Vec::new(),
                    credentials: Credentials::default(),
                    assignors: Vec::new(),
                    requires_idempotence: false,
                    $($( $field: Default::default(), )+)+
                }
            }
        }

        /// Every property there is. Numbers that differ from Java's defaults are chosen for throughput: few large batches
        /// carry three times as many records a second as many small ones.
        pub static PROPERTIES: &[Property<Config>] = &[$($(
            Property {
                name: $name,
                roles: $roles,
                value: value!($field, $kind $allowed),
                default: default!($($default)?),
                doc: concat!($($doc),+).trim_ascii_start(),
            },
        )+)+];
    };
}

/// What the text of a row may be: the words that a row may use.
macro_rules! value {
    ($field:ident, bool()) => {
        Value::Bool(|config, value| config.$field = value)
    };
    ($field:ident, millis($min:literal)) => {
        value!($field, whole($min, i32::MAX as i64, "ms"))
    };
    ($field:ident, bytes($min:expr)) => {
        value!($field, whole($min, i32::MAX as i64, "bytes"))
    };
    ($field:ident, bytes($min:expr, $max:expr)) => {
        value!($field, whole($min, $max, "bytes"))
    };
    ($field:ident, whole($min:expr, $max:expr)) => {
        value!($field, whole($min, $max, ""))
    };
    ($field:ident, whole($min:expr, $max:expr, $unit:literal)) => {
        Value::Int {
            min: $min,
            max: $max,
            unit: $unit,
            set: |config, number| config.$field = FromWhole::from_whole(number),
        }
    };
    ($field:ident, choice($($word:literal => $value:expr),+)) => {
        Value::Choice {
            of: &[$($word),+],
            set: |config, word| match word {
                $($word => config.$field = $value,)+
                _ => {}
            },
        }
    };
    ($field:ident, text($read:path)) => {
        Value::Text(|config, text| {
            config.$field = $read(text)?;
            Ok(())
        })
    };
    ($field:ident, secret($read:path)) => {
        Value::Secret(|config, text| {
            config.$field = $read(text)?;
            Ok(())
        })
    };
}

macro_rules! default {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

// Each table adds its rows and hands over to the next one; the last is `settings`.
common!(sasl security network producer consumer group share settings =>);
