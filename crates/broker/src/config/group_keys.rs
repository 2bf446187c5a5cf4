//! Kafka's names of the settings of groups, which admin clients change; see [`super::keys`].

use super::keys::*;
use crate::group::{
    CONSUMER_ASSIGNMENT_INTERVAL, CONSUMER_HEARTBEAT, CONSUMER_SESSION, SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT, SHARE_SESSION,
};
use crate::sharing::{
    SHARE_DELIVERIES, SHARE_ISOLATION, SHARE_LOCK, SHARE_LOCKS, SHARE_RENEW, SHARE_RESET,
};

/// The settings of groups, in Kafka's names. Their defaults are the broker's where it has them ([`GROUP_INHERITED`]).
pub(super) const GROUP_KEYS: &[Key] = &[
    key(
        CONSUMER_ASSIGNMENT_INTERVAL,
        ValueType::Int(0, INT),
        "0",
        "Milliseconds between two assignments at least.",
    ),
    key(
        CONSUMER_HEARTBEAT,
        ValueType::Int(1, INT),
        "5000",
        "Milliseconds between two heartbeats of a member.",
    ),
    key(
        CONSUMER_SESSION,
        ValueType::Int(1, INT),
        "45000",
        "Milliseconds without a heartbeat after which a member is out.",
    ),
    key(
        SHARE_ASSIGNMENT_INTERVAL,
        ValueType::Int(0, INT),
        "0",
        "Milliseconds between two assignments of a share group at least.",
    ),
    key(
        SHARE_RESET,
        ValueType::Reset,
        "latest",
        "Where a share group begins in a partition that is new to it.",
    ),
    key(
        SHARE_DELIVERIES,
        ValueType::Int(2, i16::MAX as i64),
        "5",
        "How often a record is delivered at most.",
    ),
    key(
        SHARE_HEARTBEAT,
        ValueType::Int(1, INT),
        "5000",
        "Milliseconds between two heartbeats of a member of a share group.",
    ),
    key(
        SHARE_ISOLATION,
        ValueType::OneOf(&["read_committed", "read_uncommitted"]),
        "read_uncommitted",
        "Whether a share group gets records of transactions that are open or aborted.",
    ),
    key(
        SHARE_LOCKS,
        ValueType::Int(100, INT),
        "2000",
        "How many records of a partition are under way at once.",
    ),
    key(
        SHARE_LOCK,
        ValueType::Int(1000, INT),
        "30000",
        "Milliseconds for which a member has a record.",
    ),
    key(
        SHARE_RENEW,
        ValueType::Bool,
        "true",
        "Whether members may renew the locks of records (KIP-1222).",
    ),
    key(
        SHARE_SESSION,
        ValueType::Int(1, INT),
        "45000",
        "Milliseconds without a heartbeat after which a member of a share group is out.",
    ),
];

/// The broker's setting that holds for groups without their own.
pub(super) const GROUP_INHERITED: &[(&str, &str)] = &[
    (
        CONSUMER_ASSIGNMENT_INTERVAL,
        ALL_CONSUMER_ASSIGNMENT_INTERVAL,
    ),
    (CONSUMER_HEARTBEAT, ALL_CONSUMER_HEARTBEAT),
    (CONSUMER_SESSION, ALL_CONSUMER_SESSION),
    (SHARE_ASSIGNMENT_INTERVAL, ALL_SHARE_ASSIGNMENT_INTERVAL),
    (SHARE_DELIVERIES, ALL_SHARE_DELIVERIES),
    (SHARE_HEARTBEAT, ALL_SHARE_HEARTBEAT),
    (SHARE_LOCK, ALL_SHARE_LOCK),
    (SHARE_LOCKS, ALL_SHARE_LOCKS),
    (SHARE_SESSION, ALL_SHARE_SESSION),
];

/// The row of a setting of groups, if `value` is one of its values.
///
/// # Errors
/// As [`Values::set`].
pub(crate) fn group_key(name: &str, value: &str) -> Result<&'static Key, String> {
    Values::default().set(GROUP_KEYS, name, value)?;
    let key = GROUP_KEYS.iter().find(|key| key.name == name);
    key.ok_or_else(|| format!("unknown setting \"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        for key in GROUP_KEYS {
            assert_eq!(group_key(key.name, key.default), Ok(key));
        }
        assert!(group_key("share.auto.offset.reset", "sometimes").is_err());
        // Deliveries are counted in 16 bits.
        assert!(group_key("share.delivery.count.limit", "32767").is_ok());
        assert!(group_key("share.delivery.count.limit", "32768").is_err());
    }
}
