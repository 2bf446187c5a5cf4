//! Codes of the wire that callers know by Kafka's names.

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident { $wanted:literal, $($code:literal: $text:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i8);

        impl $name {
            const NAMES: &[(i8, &str)] = &[$(($code, $text),)*];

            /// Kafka's name; for a code that is not known here, its number.
            pub fn name(self) -> String {
                let known = Self::NAMES.iter().find(|(code, _)| *code == self.0);
                known.map_or_else(|| self.0.to_string(), |(_, name)| (*name).to_owned())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.name())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                let mut known = Self::NAMES.iter();
                let found = known.find(|(_, name)| name.eq_ignore_ascii_case(&text));
                match found {
                    Some((code, _)) => Ok($name(*code)),
                    None => Err(D::Error::invalid_value(Unexpected::Str(&text), &$wanted)),
                }
            }
        }
    )* };
}

codes! {
    /// The resources with a configuration.
    ConfigResourceType {
        "a type of resource with a configuration: TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS or GROUP",
        0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP",
    }
    /// Where the value of a configuration comes from.
    ConfigSource {
        "a source of a configuration",
        0: "UNKNOWN", 1: "DYNAMIC_TOPIC_CONFIG", 2: "DYNAMIC_BROKER_CONFIG", 3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
        4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG", 6: "DYNAMIC_BROKER_LOGGER_CONFIG",
        7: "DYNAMIC_CLIENT_METRICS_CONFIG", 8: "DYNAMIC_GROUP_CONFIG",
    }
    /// The type of a configuration's value.
    ConfigType {
        "a type of a configuration's value",
        0: "UNKNOWN", 1: "BOOLEAN", 2: "STRING", 3: "INT", 4: "SHORT", 5: "LONG", 6: "DOUBLE", 7: "LIST", 8: "CLASS",
        9: "PASSWORD",
    }
    /// How a configuration is changed.
    AlterOperation {
        "an operation on a configuration: SET, DELETE, APPEND or SUBTRACT",
        0: "SET", 1: "DELETE", 2: "APPEND", 3: "SUBTRACT",
    }
    /// The resources of ACLs.
    AclResourceType {
        "a type of resource with ACLs: TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER; or ANY in a filter",
        0: "UNKNOWN", 1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN",
        7: "USER",
    }
    /// How the name of an ACL matches the names of resources.
    AclPatternType {
        "a type of pattern: LITERAL or PREFIXED; or ANY or MATCH in a filter",
        0: "UNKNOWN", 1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED",
    }
    /// The operations that an ACL allows or denies.
    AclOperation {
        "an operation of Kafka's ACLs, such as READ, WRITE or ALL",
        0: "UNKNOWN", 1: "ANY", 2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE",
        9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS",
        14: "DESCRIBE_TOKENS", 15: "TWO_PHASE_COMMIT",
    }
    /// Whether an ACL allows or denies.
    AclPermission {
        "a permission: ALLOW or DENY; or ANY in a filter",
        0: "UNKNOWN", 1: "ANY", 2: "DENY", 3: "ALLOW",
    }
    /// A mechanism of SCRAM.
    ScramMechanism {
        "a mechanism: SCRAM-SHA-256 or SCRAM-SHA-512",
        0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512",
    }
    /// Which replicas may be elected.
    ElectionType {
        "a type of election: PREFERRED or UNCLEAN",
        0: "PREFERRED", 1: "UNCLEAN",
    }
    /// How the level of a feature may change.
    UpgradeType {
        "a type of upgrade: UPGRADE, SAFE_DOWNGRADE or UNSAFE_DOWNGRADE",
        1: "UPGRADE", 2: "SAFE_DOWNGRADE", 3: "UNSAFE_DOWNGRADE",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_have_kafkas_names() {
        let read = |text: &str| serde_json::from_value::<AclOperation>(json!(text));
        assert_eq!(read("READ").unwrap(), AclOperation(3));
        assert_eq!(read("read").unwrap(), AclOperation(3));
        let error = read("reading").unwrap_err().to_string();
        assert!(error.contains("an operation of Kafka's ACLs"), "{error}");
        let written = |code| serde_json::to_value(AclOperation(code)).unwrap();
        assert_eq!([written(2), written(99)], [json!("ALL"), json!("99")]);
    }
}
