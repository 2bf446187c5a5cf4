//! Kafka's names of settings: the only place that declares them. Validation, typed values and DescribeConfigs use these rows.

use std::collections::BTreeMap;

use crate::sharing::Reset;

/// The type and the valid values of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// `true` or `false`.
    Bool,
    /// A whole number within the bounds, both included.
    Int(i64, i64),
    /// A fraction within 0 to 1.
    Ratio,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any of these words, separated by commas; may be empty.
    ListOf(&'static [&'static str]),
    /// Any texts but empty ones, separated by commas; may be empty.
    Items,
    /// `earliest`, `latest`, or `by_duration:` and a duration as ISO 8601 has it.
    Reset,
    /// Any text.
    Text,
}

/// One row of the tables below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Kafka's name.
    pub name: &'static str,
    /// The valid values.
    pub kind: ValueType,
    /// The default value.
    pub default: &'static str,
    /// A description in one line.
    pub doc: &'static str,
}

pub(super) const fn key(
    name: &'static str,
    kind: ValueType,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        doc,
    }
}

pub(super) const INT: i64 = i32::MAX as i64;
const LONG: i64 = i64::MAX;
const COMPRESSION_TYPES: ValueType =
    ValueType::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
const TIMESTAMP_TYPES: ValueType = ValueType::OneOf(&["CreateTime", "LogAppendTime"]);

/// The broker's settings, in Kafka's names.
pub const BROKER_KEYS: &[Key] = &[
    key(
        ALLOW_EVERYONE,
        ValueType::Bool,
        "false",
        "With ACLs: whether a resource that has none is open to all.",
    ),
    key(
        AUTO_CREATE,
        ValueType::Bool,
        "true",
        "Whether a request for the metadata of an unknown topic creates it.",
    ),
    key(
        TOKEN_EXPIRY,
        ValueType::Int(1, LONG),
        "86400000",
        "Milliseconds until a delegation token expires that is not renewed.",
    ),
    key(
        TOKEN_MAX_LIFETIME,
        ValueType::Int(1, LONG),
        "604800000",
        "Milliseconds until a delegation token cannot be renewed any more.",
    ),
    key(
        "compression.type",
        COMPRESSION_TYPES,
        "producer",
        "What batches are stored with; producer keeps what each producer used.",
    ),
    key(
        FAILED_AUTHENTICATION_DELAY,
        ValueType::Int(0, INT),
        "100",
        "Milliseconds before the response to a failed authentication; then the connection is closed.",
    ),
    key(
        MAX_IDLE,
        ValueType::Int(1, LONG),
        "600000",
        "Milliseconds without a request after which a connection is closed.",
    ),
    key(
        MAX_REAUTHENTICATION,
        ValueType::Int(0, LONG),
        "0",
        "Milliseconds after which a SASL client must authenticate again or is disconnected; 0 means never.",
    ),
    key(
        REPLICATION_FACTOR,
        ValueType::Int(-1, 1000),
        "-1",
        "Replicas of a new topic that names no count; -1 means one on each node, but 3 at most.",
    ),
    key(
        FETCH_MAX_BYTES,
        ValueType::Int(1024, INT),
        "57671680",
        "Maximum bytes of records in one Fetch response.",
    ),
    key(
        ALL_CONSUMER_ASSIGNMENT_INTERVAL,
        ValueType::Int(0, INT),
        "0",
        "Milliseconds between two assignments of a consumer group (KIP-848) at least; Kafka's default is 1000.",
    ),
    key(
        CONSUMER_ASSIGNORS,
        ValueType::ListOf(&["uniform", "range"]),
        "uniform,range",
        "The assignors of consumer groups (KIP-848); the first is for members that ask for none.",
    ),
    key(
        ALL_CONSUMER_HEARTBEAT,
        ValueType::Int(1, INT),
        "5000",
        "Milliseconds between two heartbeats of a member of a consumer group (KIP-848).",
    ),
    key(
        MAX_CONSUMER_HEARTBEAT,
        ValueType::Int(1, INT),
        "15000",
        "Maximum of consumer.heartbeat.interval.ms of a group.",
    ),
    key(
        MAX_CONSUMER_SESSION,
        ValueType::Int(1, INT),
        "60000",
        "Maximum of consumer.session.timeout.ms of a group.",
    ),
    key(
        MAX_CONSUMER_GROUP,
        ValueType::Int(1, INT),
        "2147483647",
        "Maximum number of members of a consumer group (KIP-848).",
    ),
    key(
        CONSUMER_MIGRATION,
        ValueType::OneOf(&["bidirectional", "disabled", "downgrade", "upgrade"]),
        "bidirectional",
        "How groups with members may change their protocol: to that of KIP-848 (upgrade), and back (downgrade).",
    ),
    key(
        MIN_CONSUMER_HEARTBEAT,
        ValueType::Int(1, INT),
        "5000",
        "Minimum of consumer.heartbeat.interval.ms of a group.",
    ),
    key(
        MIN_CONSUMER_SESSION,
        ValueType::Int(1, INT),
        "45000",
        "Minimum of consumer.session.timeout.ms of a group.",
    ),
    key(
        ALL_CONSUMER_SESSION,
        ValueType::Int(1, INT),
        "45000",
        "Milliseconds without a heartbeat after which a member of a consumer group (KIP-848) is out.",
    ),
    key(
        ALL_SHARE_ASSIGNMENT_INTERVAL,
        ValueType::Int(0, INT),
        "0",
        "Milliseconds between two assignments of a share group (KIP-932) at least; Kafka's default is 1000.",
    ),
    key(
        ALL_SHARE_DELIVERIES,
        ValueType::Int(2, i16::MAX as i64),
        "5",
        "How often a record is delivered to members of a share group at most.",
    ),
    key(
        ALL_SHARE_HEARTBEAT,
        ValueType::Int(1, INT),
        "5000",
        "Milliseconds between two heartbeats of a member of a share group.",
    ),
    key(
        MAX_SHARE_DELIVERIES,
        ValueType::Int(2, i16::MAX as i64),
        "10",
        "Maximum of share.delivery.count.limit of a group.",
    ),
    key(
        MAX_SHARE_HEARTBEAT,
        ValueType::Int(1, INT),
        "15000",
        "Maximum of share.heartbeat.interval.ms of a group.",
    ),
    key(
        MAX_SHARE_LOCKS,
        ValueType::Int(100, INT),
        "4000",
        "Maximum of share.partition.max.record.locks of a group.",
    ),
    key(
        MAX_SHARE_LOCK,
        ValueType::Int(1000, INT),
        "60000",
        "Maximum of share.record.lock.duration.ms of a group.",
    ),
    key(
        MAX_SHARE_SESSION,
        ValueType::Int(1, INT),
        "60000",
        "Maximum of share.session.timeout.ms of a group.",
    ),
    key(
        MAX_SHARE_SESSIONS,
        ValueType::Int(1, INT),
        "2000",
        "Maximum number of share sessions; a member beyond is refused.",
    ),
    key(
        MAX_SHARE_GROUP,
        ValueType::Int(1, INT),
        "200",
        "Maximum number of members of a share group.",
    ),
    key(
        MIN_SHARE_DELIVERIES,
        ValueType::Int(2, i16::MAX as i64),
        "2",
        "Minimum of share.delivery.count.limit of a group.",
    ),
    key(
        MIN_SHARE_HEARTBEAT,
        ValueType::Int(1, INT),
        "5000",
        "Minimum of share.heartbeat.interval.ms of a group.",
    ),
    key(
        MIN_SHARE_LOCKS,
        ValueType::Int(100, INT),
        "100",
        "Minimum of share.partition.max.record.locks of a group.",
    ),
    key(
        MIN_SHARE_LOCK,
        ValueType::Int(1000, INT),
        "15000",
        "Minimum of share.record.lock.duration.ms of a group.",
    ),
    key(
        MIN_SHARE_SESSION,
        ValueType::Int(1, INT),
        "45000",
        "Minimum of share.session.timeout.ms of a group.",
    ),
    key(
        ALL_SHARE_LOCKS,
        ValueType::Int(100, INT),
        "2000",
        "How many records of a partition a share group has under way at once.",
    ),
    key(
        ALL_SHARE_LOCK,
        ValueType::Int(1000, INT),
        "30000",
        "Milliseconds for which a member of a share group has a record.",
    ),
    key(
        ALL_SHARE_SESSION,
        ValueType::Int(1, INT),
        "45000",
        "Milliseconds without a heartbeat after which a member of a share group is out.",
    ),
    key(
        INITIAL_REBALANCE_DELAY,
        ValueType::Int(0, INT),
        "0",
        "Milliseconds that an empty group waits for more members before its first rebalance; Kafka's default is 3000.",
    ),
    key(
        MAX_SESSION_TIMEOUT,
        ValueType::Int(1, INT),
        "1800000",
        "Maximum session timeout of a group member, in ms.",
    ),
    key(
        MIN_SESSION_TIMEOUT,
        ValueType::Int(1, INT),
        "6000",
        "Minimum session timeout of a group member, in ms.",
    ),
    key(
        CLEANER_BACKOFF,
        ValueType::Int(1, LONG),
        "15000",
        "Milliseconds between two looks for logs that are worth being compacted.",
    ),
    key(
        "log.cleaner.delete.retention.ms",
        ValueType::Int(0, LONG),
        "86400000",
        "Milliseconds that a tombstone stays in a compacted log.",
    ),
    key(
        "log.cleaner.max.compaction.lag.ms",
        ValueType::Int(1, LONG),
        "9223372036854775807",
        "Milliseconds after which a record of a compacted topic is compacted, however little is worth it.",
    ),
    key(
        "log.cleaner.min.cleanable.ratio",
        ValueType::Ratio,
        "0.5",
        "The part of a log's bytes that must be new for it to be compacted.",
    ),
    key(
        "log.cleaner.min.compaction.lag.ms",
        ValueType::Int(0, LONG),
        "0",
        "Milliseconds that a record stays in a compacted log at least.",
    ),
    key(
        "log.cleanup.policy",
        ValueType::ListOf(&["compact", "delete"]),
        "delete",
        "What becomes of old records: delete by time and size, compact to the last of each key, or both.",
    ),
    key(
        "log.index.interval.bytes",
        ValueType::Int(0, INT),
        "4096",
        "Bytes of the log between two entries of its offset index.",
    ),
    key(
        "log.message.timestamp.after.max.ms",
        ValueType::Int(0, LONG),
        "3600000",
        "Maximum milliseconds that a record's timestamp may be in the future.",
    ),
    key(
        "log.message.timestamp.type",
        TIMESTAMP_TYPES,
        "CreateTime",
        "CreateTime keeps the producer's timestamps; LogAppendTime sets the broker's.",
    ),
    key(
        "log.retention.bytes",
        ValueType::Int(-1, LONG),
        "-1",
        "Bytes of a partition, beyond which whole segments are deleted; -1 means no limit.",
    ),
    key(
        RETENTION_CHECK,
        ValueType::Int(1, LONG),
        "300000",
        "Milliseconds between two looks for segments that are too old or too many.",
    ),
    key(
        "log.retention.ms",
        ValueType::Int(-1, LONG),
        "604800000",
        "Milliseconds after the newest record of a segment at which it is deleted; -1 means never.",
    ),
    key(
        "log.roll.ms",
        ValueType::Int(1, LONG),
        "604800000",
        "Milliseconds between the first records of a segment and those that begin the next one.",
    ),
    key(
        "log.segment.bytes",
        ValueType::Int(14, INT),
        "1073741824",
        "Maximum bytes of a log segment.",
    ),
    key(
        FETCH_SESSIONS,
        ValueType::Int(0, INT),
        "1000",
        "Maximum number of fetch sessions (KIP-227); a client without one names all its partitions each time.",
    ),
    key(
        "message.max.bytes",
        ValueType::Int(0, INT),
        "1048588",
        "Maximum bytes of a record batch.",
    ),
    key(
        "min.insync.replicas",
        ValueType::Int(1, INT),
        "1",
        "How many replicas must be in sync for acks=all.",
    ),
    key(
        "num.partitions",
        ValueType::Int(1, INT),
        "1",
        "Partitions of a new topic that names no count.",
    ),
    key(
        OFFSET_METADATA_MAX,
        ValueType::Int(0, INT),
        "4096",
        "Maximum bytes of the metadata of a committed offset.",
    ),
    key(
        OFFSETS_RETENTION_CHECK,
        ValueType::Int(1, LONG),
        "600000",
        "Milliseconds between two looks for committed offsets that are too old.",
    ),
    key(
        OFFSETS_RETENTION,
        ValueType::Int(1, INT),
        "10080",
        "Minutes that a committed offset is kept which no member of its group needs.",
    ),
    key(
        PRODUCER_EXPIRATION_CHECK,
        ValueType::Int(1, INT),
        "600000",
        "Milliseconds between two looks for idempotent producers that wrote nothing for long.",
    ),
    key(
        PRODUCER_EXPIRATION,
        ValueType::Int(1, INT),
        "86400000",
        "Milliseconds after the newest record of an idempotent producer at which a partition forgets it (KIP-854).",
    ),
    key(
        QUOTA_WINDOWS,
        ValueType::Int(1, INT),
        "11",
        "Samples that a rate is measured over for quotas.",
    ),
    key(
        QUOTA_WINDOW_SECONDS,
        ValueType::Int(1, INT),
        "1",
        "Seconds of each of these samples.",
    ),
    key(
        REPLICA_LAG,
        ValueType::Int(1, LONG),
        "30000",
        "Milliseconds after which a follower that does not catch up is out of sync.",
    ),
    key(
        CLOCK_SKEW,
        ValueType::Int(0, INT),
        "30",
        "Seconds that the clocks of a token's issuer and of the broker may differ.",
    ),
    key(
        EXPECTED_AUDIENCE,
        ValueType::Text,
        "",
        "Audiences, separated by commas, of which a token must name one (aud); empty means any.",
    ),
    key(
        EXPECTED_ISSUER,
        ValueType::Text,
        "",
        "The issuer that a token must name (iss); empty means any.",
    ),
    key(
        PRINCIPAL_CLAIM,
        ValueType::Text,
        "sub",
        "The claim of a token that names the user.",
    ),
    key(
        SASL_MAX_BYTES,
        ValueType::Int(1024, INT),
        "524288",
        "Maximum bytes of a request before the client has authenticated; a larger one closes the connection.",
    ),
    key(
        REQUEST_MAX_BYTES,
        ValueType::Int(1024, INT),
        "104857600",
        "Maximum bytes of a request; a larger one closes the connection.",
    ),
    key(
        SUPER_USERS,
        ValueType::Text,
        "",
        "Principals that may do everything, separated by semicolons, such as User:admin; they switch the authorizer on.",
    ),
    key(
        TELEMETRY_DELTA,
        ValueType::Bool,
        "false",
        "Whether clients push how much totals grew since the last push, instead of the totals.",
    ),
    key(
        TELEMETRY_INTERVAL,
        ValueType::Int(100, INT),
        "300000",
        "Milliseconds between two pushes of a client's metrics.",
    ),
    key(
        TELEMETRY_MAX_BYTES,
        ValueType::Int(1, INT),
        "1048576",
        "Maximum bytes of a push of metrics.",
    ),
    key(
        TELEMETRY_METRICS,
        ValueType::Text,
        "",
        "Beginnings of the names of metrics that clients are asked to push (KIP-714), separated by commas; * means all, and \
         without any, clients are not asked.",
    ),
    key(
        MAX_TRANSACTION_TIMEOUT,
        ValueType::Int(1, INT),
        "900000",
        "Maximum transaction timeout of a producer, in ms.",
    ),
    key(
        TRANSACTIONAL_ID_EXPIRATION_CHECK,
        ValueType::Int(1, INT),
        "3600000",
        "Milliseconds between two looks for transactional ids that nobody uses.",
    ),
    key(
        TWO_PHASE_COMMIT,
        ValueType::Bool,
        "false",
        "Whether producers may have transactions that do not time out (KIP-939).",
    ),
    key(
        TRANSACTIONAL_ID_EXPIRATION,
        ValueType::Int(1, INT),
        "604800000",
        "Milliseconds after which a transactional id is forgotten that nobody uses.",
    ),
    key(
        "unclean.leader.election.enable",
        ValueType::Bool,
        "false",
        "Whether a replica that was not in sync may lead when no other can; records are lost then.",
    ),
    key(
        UNSTABLE_VERSIONS,
        ValueType::Bool,
        "false",
        "Whether the newest release also speaks versions that are not final: InitProducerId 6 (KIP-939).",
    ),
];

pub(super) const ALLOW_EVERYONE: &str = "allow.everyone.if.no.acl.found";
pub(super) const AUTO_CREATE: &str = "auto.create.topics.enable";
pub(super) const FAILED_AUTHENTICATION_DELAY: &str = "connection.failed.authentication.delay.ms";
pub(super) const MAX_IDLE: &str = "connections.max.idle.ms";
pub(super) const MAX_REAUTHENTICATION: &str = "connections.max.reauth.ms";
pub(super) const PRODUCER_EXPIRATION: &str = "producer.id.expiration.ms";
pub(super) const PRODUCER_EXPIRATION_CHECK: &str = "producer.id.expiration.check.interval.ms";
pub(super) const QUOTA_WINDOWS: &str = "quota.window.num";
pub(super) const QUOTA_WINDOW_SECONDS: &str = "quota.window.size.seconds";
pub(super) const CLOCK_SKEW: &str = "sasl.oauthbearer.clock.skew.seconds";
pub(super) const EXPECTED_AUDIENCE: &str = "sasl.oauthbearer.expected.audience";
pub(super) const EXPECTED_ISSUER: &str = "sasl.oauthbearer.expected.issuer";
pub(super) const PRINCIPAL_CLAIM: &str = "sasl.oauthbearer.sub.claim.name";
pub(super) const CLEANER_BACKOFF: &str = "log.cleaner.backoff.ms";
pub(super) const RETENTION_CHECK: &str = "log.retention.check.interval.ms";
pub(super) const REPLICA_LAG: &str = "replica.lag.time.max.ms";
pub(super) const REPLICATION_FACTOR: &str = "default.replication.factor";
pub(super) const SASL_MAX_BYTES: &str = "sasl.server.max.receive.size";
pub(super) const SUPER_USERS: &str = "super.users";
pub(super) const TOKEN_EXPIRY: &str = "delegation.token.expiry.time.ms";
pub(super) const TOKEN_MAX_LIFETIME: &str = "delegation.token.max.lifetime.ms";
pub(super) const FETCH_SESSIONS: &str = "max.incremental.fetch.session.cache.slots";
pub(super) const FETCH_MAX_BYTES: &str = "fetch.max.bytes";
pub(super) const INITIAL_REBALANCE_DELAY: &str = "group.initial.rebalance.delay.ms";
pub(super) const MIN_SESSION_TIMEOUT: &str = "group.min.session.timeout.ms";
pub(super) const MAX_SESSION_TIMEOUT: &str = "group.max.session.timeout.ms";
pub(super) const OFFSET_METADATA_MAX: &str = "offset.metadata.max.bytes";
pub(super) const REQUEST_MAX_BYTES: &str = "socket.request.max.bytes";
pub(super) const TELEMETRY_DELTA: &str = "telemetry.delta.temporality";
pub(super) const TELEMETRY_INTERVAL: &str = "telemetry.interval.ms";
pub(super) const TELEMETRY_MAX_BYTES: &str = "telemetry.max.bytes";
pub(super) const TELEMETRY_METRICS: &str = "telemetry.metrics";
pub(super) const MAX_TRANSACTION_TIMEOUT: &str = "transaction.max.timeout.ms";
pub(super) const TRANSACTIONAL_ID_EXPIRATION: &str = "transactional.id.expiration.ms";
pub(super) const TRANSACTIONAL_ID_EXPIRATION_CHECK: &str =
    "transaction.remove.expired.transaction.cleanup.interval.ms";
pub(super) const TWO_PHASE_COMMIT: &str = "transaction.two.phase.commit.enable";
pub(super) const UNSTABLE_VERSIONS: &str = "unstable.api.versions.enable";

pub(super) const ALL_CONSUMER_ASSIGNMENT_INTERVAL: &str = "group.consumer.assignment.interval.ms";
pub(super) const ALL_CONSUMER_HEARTBEAT: &str = "group.consumer.heartbeat.interval.ms";
pub(super) const ALL_CONSUMER_SESSION: &str = "group.consumer.session.timeout.ms";
pub(super) const CONSUMER_ASSIGNORS: &str = "group.consumer.assignors";
pub(super) const CONSUMER_MIGRATION: &str = "group.consumer.migration.policy";
pub(super) const MAX_CONSUMER_GROUP: &str = "group.consumer.max.size";
pub(super) const MAX_CONSUMER_HEARTBEAT: &str = "group.consumer.max.heartbeat.interval.ms";
pub(super) const MAX_CONSUMER_SESSION: &str = "group.consumer.max.session.timeout.ms";
pub(super) const MIN_CONSUMER_HEARTBEAT: &str = "group.consumer.min.heartbeat.interval.ms";
pub(super) const MIN_CONSUMER_SESSION: &str = "group.consumer.min.session.timeout.ms";
pub(super) const ALL_SHARE_ASSIGNMENT_INTERVAL: &str = "group.share.assignment.interval.ms";
pub(super) const ALL_SHARE_DELIVERIES: &str = "group.share.delivery.count.limit";
pub(super) const ALL_SHARE_HEARTBEAT: &str = "group.share.heartbeat.interval.ms";
pub(super) const ALL_SHARE_LOCK: &str = "group.share.record.lock.duration.ms";
pub(super) const ALL_SHARE_LOCKS: &str = "group.share.partition.max.record.locks";
pub(super) const ALL_SHARE_SESSION: &str = "group.share.session.timeout.ms";
pub(super) const MAX_SHARE_DELIVERIES: &str = "group.share.max.delivery.count.limit";
pub(super) const MAX_SHARE_GROUP: &str = "group.share.max.size";
pub(super) const MAX_SHARE_HEARTBEAT: &str = "group.share.max.heartbeat.interval.ms";
pub(super) const MAX_SHARE_LOCK: &str = "group.share.max.record.lock.duration.ms";
pub(super) const MAX_SHARE_LOCKS: &str = "group.share.max.partition.max.record.locks";
pub(super) const MAX_SHARE_SESSION: &str = "group.share.max.session.timeout.ms";
pub(super) const MAX_SHARE_SESSIONS: &str = "group.share.max.share.sessions";
pub(super) const MIN_SHARE_DELIVERIES: &str = "group.share.min.delivery.count.limit";
pub(super) const MIN_SHARE_HEARTBEAT: &str = "group.share.min.heartbeat.interval.ms";
pub(super) const MIN_SHARE_LOCK: &str = "group.share.min.record.lock.duration.ms";
pub(super) const MIN_SHARE_LOCKS: &str = "group.share.min.partition.max.record.locks";
pub(super) const MIN_SHARE_SESSION: &str = "group.share.min.session.timeout.ms";
pub(super) const OFFSETS_RETENTION: &str = "offsets.retention.minutes";
pub(super) const OFFSETS_RETENTION_CHECK: &str = "offsets.retention.check.interval.ms";

/// A topic's settings, in Kafka's names. Rows that say "without effect" are stored and described, but change nothing.
pub const TOPIC_KEYS: &[Key] = &[
    key(
        "cleanup.policy",
        ValueType::ListOf(&["compact", "delete"]),
        "delete",
        "What becomes of old records: delete by time and size, compact to the last of each key, or both.",
    ),
    key(
        "compression.type",
        COMPRESSION_TYPES,
        "producer",
        "What batches are stored with; producer keeps what each producer used.",
    ),
    key(
        "delete.retention.ms",
        ValueType::Int(0, LONG),
        "86400000",
        "Milliseconds that a tombstone stays in a compacted log.",
    ),
    key(
        "file.delete.delay.ms",
        ValueType::Int(0, LONG),
        "60000",
        "Stored, without effect.",
    ),
    key(
        "flush.messages",
        ValueType::Int(1, LONG),
        "9223372036854775807",
        "Records after which a node of a cluster has them even if it loses its power.",
    ),
    key(
        "flush.ms",
        ValueType::Int(0, LONG),
        "9223372036854775807",
        "Stored, without effect.",
    ),
    key(
        "index.interval.bytes",
        ValueType::Int(0, INT),
        "4096",
        "Bytes of the log between two entries of its offset index.",
    ),
    key(
        "max.compaction.lag.ms",
        ValueType::Int(1, LONG),
        "9223372036854775807",
        "Milliseconds after which a record of a compacted topic is compacted, however little is worth it.",
    ),
    key(
        "max.message.bytes",
        ValueType::Int(0, INT),
        "1048588",
        "Maximum bytes of a record batch.",
    ),
    key(
        "message.timestamp.after.max.ms",
        ValueType::Int(0, LONG),
        "3600000",
        "Maximum milliseconds that a record's timestamp may be in the future.",
    ),
    key(
        "message.timestamp.before.max.ms",
        ValueType::Int(0, LONG),
        "9223372036854775807",
        "Stored, without effect.",
    ),
    key(
        "message.timestamp.type",
        TIMESTAMP_TYPES,
        "CreateTime",
        "CreateTime keeps the producer's timestamps; LogAppendTime sets the broker's.",
    ),
    key(
        "min.cleanable.dirty.ratio",
        ValueType::Ratio,
        "0.5",
        "The part of a log's bytes that must be new for it to be compacted.",
    ),
    key(
        "min.compaction.lag.ms",
        ValueType::Int(0, LONG),
        "0",
        "Milliseconds that a record stays in a compacted log at least.",
    ),
    key(
        "min.insync.replicas",
        ValueType::Int(1, INT),
        "1",
        "How many replicas must be in sync for acks=all.",
    ),
    key(
        "preallocate",
        ValueType::Bool,
        "false",
        "Stored, without effect.",
    ),
    key(
        "retention.bytes",
        ValueType::Int(-1, LONG),
        "-1",
        "Bytes of a partition, beyond which whole segments are deleted; -1 means no limit.",
    ),
    key(
        "retention.ms",
        ValueType::Int(-1, LONG),
        "604800000",
        "Milliseconds after the newest record of a segment at which it is deleted; -1 means never.",
    ),
    key(
        "segment.bytes",
        ValueType::Int(14, INT),
        "1073741824",
        "Maximum bytes of a log segment.",
    ),
    key(
        "segment.index.bytes",
        ValueType::Int(4, INT),
        "10485760",
        "Stored, without effect.",
    ),
    key(
        "segment.jitter.ms",
        ValueType::Int(0, LONG),
        "0",
        "Stored, without effect.",
    ),
    key(
        "segment.ms",
        ValueType::Int(1, LONG),
        "604800000",
        "Milliseconds between the first records of a segment and those that begin the next one.",
    ),
    key(
        "unclean.leader.election.enable",
        ValueType::Bool,
        "false",
        "Whether a replica that was not in sync may lead when no other can; records are lost then.",
    ),
    key(
        "leader.replication.throttled.replicas",
        ValueType::Text,
        "",
        "Stored, without effect.",
    ),
    key(
        "follower.replication.throttled.replicas",
        ValueType::Text,
        "",
        "Stored, without effect.",
    ),
];

/// Topic settings that fall back to a broker setting of another name.
pub(super) const INHERITED: &[(&str, &str)] = &[
    ("cleanup.policy", "log.cleanup.policy"),
    ("compression.type", "compression.type"),
    ("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    ("index.interval.bytes", "log.index.interval.bytes"),
    ("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("max.message.bytes", "message.max.bytes"),
    (
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
    ),
    ("message.timestamp.type", "log.message.timestamp.type"),
    (
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
    ),
    ("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    ("min.insync.replicas", "min.insync.replicas"),
    ("retention.bytes", "log.retention.bytes"),
    ("retention.ms", "log.retention.ms"),
    ("segment.bytes", "log.segment.bytes"),
    ("segment.ms", "log.roll.ms"),
    (
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
    ),
];

/// The values set for the names of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// Checks `name` and `value` against `table` and stores them.
    ///
    /// # Errors
    /// A sentence that names the key, the value and the valid values.
    pub(crate) fn set(
        &mut self,
        table: &'static [Key],
        name: &str,
        value: &str,
    ) -> Result<(), String> {
        let key = table.iter().find(|key| key.name == name).ok_or_else(|| {
            format!(
                "unknown setting \"{name}\"; the nearest is \"{}\"",
                nearest(name, table)
            )
        })?;
        key.kind
            .check(value)
            .map_err(|rule| format!("{name}={value}: {rule}"))?;
        self.0.insert(key.name, value.to_owned());
        Ok(())
    }

    /// Forgets the value set for `name`, if one was.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The value set for `name`, if one was.
    pub(crate) fn set_value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All that was set, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl ValueType {
    fn check(self, value: &str) -> Result<(), String> {
        match self {
            ValueType::Bool => value
                .parse::<bool>()
                .map(drop)
                .map_err(|_| "must be true or false".to_owned()),
            ValueType::Int(least, most) => match value.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(()),
                _ => Err(format!("must be a whole number from {least} to {most}")),
            },
            ValueType::Ratio => match value.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(()),
                _ => Err("must be a number from 0 to 1".to_owned()),
            },
            ValueType::Reset if Reset::parse(value).is_some() => Ok(()),
            ValueType::Reset => Err(
                "must be earliest, latest, or by_duration: and a duration such as PT1H".to_owned(),
            ),
            ValueType::OneOf(words) if words.contains(&value) => Ok(()),
            ValueType::OneOf(words) => Err(format!("must be one of {}", words.join(", "))),
            ValueType::ListOf(words)
                if value.is_empty()
                    || value.split(',').all(|word| words.contains(&word.trim())) =>
            {
                Ok(())
            }
            ValueType::ListOf(words) => Err(format!(
                "must be a list of {}, separated by commas",
                words.join(", ")
            )),
            ValueType::Items
                if value.is_empty() || value.split(',').all(|item| !item.trim().is_empty()) =>
            {
                Ok(())
            }
            ValueType::Items => Err("must be a list without empty items".to_owned()),
            ValueType::Text => Ok(()),
        }
    }
}

/// The name in the table with the fewest edits from `name`.
fn nearest(name: &str, table: &'static [Key]) -> &'static str {
    table
        .iter()
        .min_by_key(|key| strsim::levenshtein(name, key.name))
        .map_or("", |key| key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_passes_its_own_check() {
        for key in BROKER_KEYS.iter().chain(TOPIC_KEYS) {
            assert_eq!(key.kind.check(key.default), Ok(()), "{}", key.name);
        }
    }
}
