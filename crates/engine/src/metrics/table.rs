//! The one table of metrics: every name there is, with its kind, its unit, a line of text, and how it is read.
//!
//! Names, groups and tags are those of Kafka's Java client. docs/reference/metrics.md lists the
//! metrics that the Java client has besides these, and why this client does not have them.

use std::time::Instant;

use super::meters::{
    App, Coordinating, Fetching, Network, Node, Partition, Polling, ReadTopic, Sending, SentTopic,
    Sharing,
};
use super::sensor::Reading;
use crate::config::Role;

/// What a metric's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count since the client was made, which never shrinks.
    Total,
    /// A value of the moment, or a statistic over the last samples.
    Gauge,
}

/// A row of the table, for what `M` measures.
pub(super) struct Row<M> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    unit: &'static str,
    doc: &'static str,
    pub(super) read: fn(&M, &Reading) -> f64,
}

/// The tag that all metrics have.
pub(super) const CLIENT: &str = "client-id";
pub(super) const NODE: &str = "node-id";
pub(super) const TOPIC: &str = "topic";
pub(super) const PARTITION: &str = "partition";

/// A metric, for documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Kafka's name.
    pub name: &'static str,
    /// Kafka's name of the group.
    pub group: &'static str,
    /// The tags, in the order of their names.
    pub tags: &'static [&'static str],
    /// What the value is.
    pub kind: Kind,
    /// What the value counts.
    pub unit: &'static str,
    /// A line of text.
    pub doc: &'static str,
}

macro_rules! rows {
    ($($name:literal $kind:ident $unit:literal $read:expr => $doc:literal;)*) => {
        &[$(Row { name: $name, kind: Kind::$kind, unit: $unit, doc: $doc, read: $read },)*]
    };
}

pub(super) static NETWORK: &[Row<Network>] = rows! {
    "connection-count" Gauge "connections" |m, _| m.connections as f64 => "Connections that are up.";
    "connection-creation-rate" Gauge "per second" |m, at| m.opened.rate(at) => "New connections.";
    "connection-creation-total" Total "connections" |m, _| m.opened.total() => "New connections.";
    "connection-close-rate" Gauge "per second" |m, at| m.closed.rate(at) => "Connections that ended.";
    "connection-close-total" Total "connections" |m, _| m.closed.total() => "Connections that ended.";
    "successful-authentication-rate" Gauge "per second" |m, at| m.authenticated.rate(at) => "Connections that authenticated, by TLS or SASL.";
    "successful-authentication-total" Total "connections" |m, _| m.authenticated.total() => "Connections that authenticated, by TLS or SASL.";
    "failed-authentication-rate" Gauge "per second" |m, at| m.refused.rate(at) => "Connections whose authentication failed.";
    "failed-authentication-total" Total "connections" |m, _| m.refused.total() => "Connections whose authentication failed.";
    "successful-reauthentication-rate" Gauge "per second" |m, at| m.renewed.times_rate(at) => "Connections that authenticated again (KIP-368).";
    "successful-reauthentication-total" Total "connections" |m, _| m.renewed.times() => "Connections that authenticated again (KIP-368).";
    "failed-reauthentication-rate" Gauge "per second" |m, at| m.not_renewed.rate(at) => "Connections that ended because they could not authenticate again.";
    "failed-reauthentication-total" Total "connections" |m, _| m.not_renewed.total() => "Connections that ended because they could not authenticate again.";
    "reauthentication-latency-avg" Gauge "ms" |m, at| m.renewed.average(at) => "Time that it took to authenticate again.";
    "reauthentication-latency-max" Gauge "ms" |m, at| m.renewed.max(at) => "Longest time that it took to authenticate again.";
    "request-rate" Gauge "per second" |m, at| m.requests.rate(at) => "Requests sent.";
    "request-total" Total "requests" |m, _| m.requests.total() => "Requests sent.";
    "request-size-avg" Gauge "bytes" |m, at| m.sent.average(at) => "Size of a request.";
    "request-size-max" Gauge "bytes" |m, at| m.sent.max(at) => "Size of the largest request.";
    "outgoing-byte-rate" Gauge "bytes per second" |m, at| m.sent.rate(at) => "Bytes of requests.";
    "outgoing-byte-total" Total "bytes" |m, _| m.sent.total() => "Bytes of requests.";
    "response-rate" Gauge "per second" |m, at| m.received.times_rate(at) => "Responses received.";
    "response-total" Total "responses" |m, _| m.received.times() => "Responses received.";
    "incoming-byte-rate" Gauge "bytes per second" |m, at| m.received.rate(at) => "Bytes of responses.";
    "incoming-byte-total" Total "bytes" |m, _| m.received.total() => "Bytes of responses.";
    "network-io-rate" Gauge "per second" |m, at| m.sent.times_rate(at) + m.received.times_rate(at) => "Requests sent and responses received.";
    "network-io-total" Total "operations" |m, _| m.sent.times() + m.received.times() => "Requests sent and responses received.";
};

pub(super) static NODES: &[Row<Node>] = rows! {
    "request-rate" Gauge "per second" |m, at| m.requests.rate(at) => "Requests sent to the broker.";
    "request-total" Total "requests" |m, _| m.requests.total() => "Requests sent to the broker.";
    "request-size-avg" Gauge "bytes" |m, at| m.sent.average(at) => "Size of a request to the broker.";
    "request-size-max" Gauge "bytes" |m, at| m.sent.max(at) => "Size of the largest request to the broker.";
    "request-latency-avg" Gauge "ms" |m, at| m.latency.average(at) => "Time from a request to its response.";
    "request-latency-max" Gauge "ms" |m, at| m.latency.max(at) => "Longest time from a request to its response.";
    "outgoing-byte-rate" Gauge "bytes per second" |m, at| m.sent.rate(at) => "Bytes of requests to the broker.";
    "outgoing-byte-total" Total "bytes" |m, _| m.sent.total() => "Bytes of requests to the broker.";
    "response-rate" Gauge "per second" |m, at| m.received.times_rate(at) => "Responses of the broker.";
    "response-total" Total "responses" |m, _| m.received.times() => "Responses of the broker.";
    "incoming-byte-rate" Gauge "bytes per second" |m, at| m.received.rate(at) => "Bytes of the broker's responses.";
    "incoming-byte-total" Total "bytes" |m, _| m.received.total() => "Bytes of the broker's responses.";
};

/// Those of the network that only a producer has.
pub(super) static PRODUCING: &[Row<Network>] = rows! {
    "produce-throttle-time-avg" Gauge "ms" |m, at| m.throttle.average(at) => "Throttle time in a response (quota).";
    "produce-throttle-time-max" Gauge "ms" |m, at| m.throttle.max(at) => "Longest throttle time in a response (quota).";
    "requests-in-flight" Gauge "requests" |m, _| m.in_flight as f64 => "Requests without a response so far.";
    "metadata-age" Gauge "s" |m, at| age(m, at) => "Age of the client's metadata; NaN before the first response.";
};

/// Those of the network that only a consumer has.
pub(super) static CONSUMING: &[Row<Network>] = rows! {
    "fetch-throttle-time-avg" Gauge "ms" |m, at| m.throttle.average(at) => "Throttle time in a response (quota).";
    "fetch-throttle-time-max" Gauge "ms" |m, at| m.throttle.max(at) => "Longest throttle time in a response (quota).";
};

pub(super) static SENDING: &[Row<Sending>] = rows! {
    "record-send-rate" Gauge "per second" |m, at| m.records.rate(at) => "Records given to connections; a repeat counts again.";
    "record-send-total" Total "records" |m, _| m.records.total() => "Records given to connections; a repeat counts again.";
    "record-retry-rate" Gauge "per second" |m, at| m.retries.rate(at) => "Records to be sent again.";
    "record-retry-total" Total "records" |m, _| m.retries.total() => "Records to be sent again.";
    "record-error-rate" Gauge "per second" |m, at| m.errors.rate(at) => "Records that were not delivered.";
    "record-error-total" Total "records" |m, _| m.errors.total() => "Records that were not delivered.";
    "record-size-avg" Gauge "bytes" |m, at| m.record_size.average(at) => "Size of the largest record of a batch.";
    "record-size-max" Gauge "bytes" |m, at| m.record_size.max(at) => "Size of the largest record.";
    "record-queue-time-avg" Gauge "ms" |m, at| m.queued.average(at) => "Time from a batch's first record until the batch is sent.";
    "record-queue-time-max" Gauge "ms" |m, at| m.queued.max(at) => "Longest time from a batch's first record until the batch is sent.";
    "records-per-request-avg" Gauge "records" |m, at| m.records_of_request.average(at) => "Records of a Produce request.";
    "batch-size-avg" Gauge "bytes" |m, at| m.batch.average(at) => "Size of a batch on the wire.";
    "batch-size-max" Gauge "bytes" |m, at| m.batch.max(at) => "Size of the largest batch on the wire.";
    "batch-split-rate" Gauge "per second" |m, at| m.splits.rate(at) => "Batches that were too large for the broker and became two.";
    "batch-split-total" Total "batches" |m, _| m.splits.total() => "Batches that were too large for the broker and became two.";
    "compression-rate-avg" Gauge "ratio" |m, at| m.compression.average(at) => "Size of a batch on the wire by its size before compression.";
    "request-latency-avg" Gauge "ms" |m, at| m.latency.average(at) => "Time from a Produce request to its response.";
    "request-latency-max" Gauge "ms" |m, at| m.latency.max(at) => "Longest time from a Produce request to its response.";
    "buffer-total-bytes" Gauge "bytes" |m, _| m.buffer as f64 => "buffer.memory.";
    "buffer-available-bytes" Gauge "bytes" |m, _| m.buffer.saturating_sub(m.buffer_used) as f64 => "The part of buffer.memory that no undelivered record uses.";
    "buffer-exhausted-rate" Gauge "per second" |m, at| m.exhausted.rate(at) => "Sends that failed because the buffer stayed full for max.block.ms.";
    "buffer-exhausted-total" Total "sends" |m, _| m.exhausted.total() => "Sends that failed because the buffer stayed full for max.block.ms.";
    "bufferpool-wait-ratio" Gauge "ratio" |m, at| m.waited_for_room.rate(at) / 1e9 => "Time that callers waited for buffer space, by the time that passed.";
    "bufferpool-wait-time-ns-total" Total "ns" |m, _| m.waited_for_room.total() => "Time that callers waited for buffer space.";
    "waiting-threads" Gauge "callers" |m, _| m.waiting as f64 => "Callers that wait for buffer space.";
    "metadata-wait-time-ns-total" Total "ns" |m, _| m.waited_for_topics.total() => "Time that callers waited for the partitions of a topic.";
    "flush-time-ns-total" Total "ns" |m, _| m.flushed.total() => "Time that callers spent in flush.";
    "txn-init-time-ns-total" Total "ns" |m, _| m.initialised.total() => "Time that callers spent in init_transactions.";
    "txn-begin-time-ns-total" Total "ns" |m, _| m.began.total() => "Time that callers spent in begin_transaction.";
    "txn-send-offsets-time-ns-total" Total "ns" |m, _| m.sent_offsets.total() => "Time that callers spent in send_offsets.";
    "txn-prepare-time-ns-total" Total "ns" |m, _| m.prepared.total() => "Time that callers spent in prepare_transaction.";
    "txn-commit-time-ns-total" Total "ns" |m, _| m.committed.total() => "Time that callers spent in commits of transactions.";
    "txn-abort-time-ns-total" Total "ns" |m, _| m.aborted.total() => "Time that callers spent in aborts of transactions.";
};

pub(super) static SENT_TOPICS: &[Row<SentTopic>] = rows! {
    "record-send-rate" Gauge "per second" |m, at| m.records.rate(at) => "Records of the topic given to connections.";
    "record-send-total" Total "records" |m, _| m.records.total() => "Records of the topic given to connections.";
    "record-retry-rate" Gauge "per second" |m, at| m.retries.rate(at) => "Records of the topic to be sent again.";
    "record-retry-total" Total "records" |m, _| m.retries.total() => "Records of the topic to be sent again.";
    "record-error-rate" Gauge "per second" |m, at| m.errors.rate(at) => "Records of the topic that were not delivered.";
    "record-error-total" Total "records" |m, _| m.errors.total() => "Records of the topic that were not delivered.";
    "byte-rate" Gauge "bytes per second" |m, at| m.bytes.rate(at) => "Bytes of the topic's batches on the wire.";
    "byte-total" Total "bytes" |m, _| m.bytes.total() => "Bytes of the topic's batches on the wire.";
    "compression-rate" Gauge "ratio" |m, at| m.compression.average(at) => "Size of a batch of the topic on the wire by its size before compression.";
};

pub(super) static POLLING: &[Row<Polling>] = rows! {
    "time-between-poll-avg" Gauge "ms" |m, at| m.between.average(at) => "Time from one poll to the next.";
    "time-between-poll-max" Gauge "ms" |m, at| m.between.max(at) => "Longest time from one poll to the next.";
    "poll-idle-ratio-avg" Gauge "ratio" |m, at| m.idle.average(at) => "The part of the time that callers spend inside of polls.";
    "last-poll-seconds-ago" Gauge "s" |m, at| since(m.began, at) => "Time since the last poll began, in whole seconds; -1 before the first.";
};

pub(super) static FETCHING: &[Row<Fetching>] = rows! {
    "fetch-rate" Gauge "per second" |m, at| m.latency.times_rate(at) => "Fetch requests with a response.";
    "fetch-total" Total "requests" |m, _| m.latency.times() => "Fetch requests with a response.";
    "fetch-latency-avg" Gauge "ms" |m, at| m.latency.average(at) => "Time from a Fetch to its response; fetch.max.wait.ms if there are no new records.";
    "fetch-latency-max" Gauge "ms" |m, at| m.latency.max(at) => "Longest time from a Fetch to its response.";
    "fetch-size-avg" Gauge "bytes" |m, at| m.size.average(at) => "Bytes of records in a response that has any.";
    "fetch-size-max" Gauge "bytes" |m, at| m.size.max(at) => "Most bytes of records in a response.";
    "records-consumed-rate" Gauge "per second" |m, at| m.records.rate(at) => "Records that polls returned.";
    "records-consumed-total" Total "records" |m, _| m.records.total() => "Records that polls returned.";
    "bytes-consumed-rate" Gauge "bytes per second" |m, at| m.bytes.rate(at) => "Keys, values and headers that polls returned.";
    "bytes-consumed-total" Total "bytes" |m, _| m.bytes.total() => "Keys, values and headers that polls returned.";
};

/// Those of a consumer of its own partitions.
pub(super) static FOLLOWING: &[Row<Fetching>] = rows! {
    "records-per-request-avg" Gauge "records" |m, at| m.records.recent(at) / m.size.recent_times(at) => "Records that polls returned, by responses that had any.";
    "records-lag-max" Gauge "records" |m, at| m.lag.max(at) => "Largest lag of any partition.";
    "records-lead-min" Gauge "records" |m, at| m.lead.min(at) => "Smallest lead of any partition.";
};

pub(super) static SHARING: &[Row<Sharing>] = rows! {
    "records-per-request-avg" Gauge "records" |m, at| m.records_of_request.average(at) => "Records that were acquired by a response that has any.";
    "records-per-request-max" Gauge "records" |m, at| m.records_of_request.max(at) => "Most records that were acquired by a response.";
    "acknowledgements-send-rate" Gauge "per second" |m, at| m.acknowledged.rate(at) => "Records whose acknowledgement was sent.";
    "acknowledgements-send-total" Total "records" |m, _| m.acknowledged.total() => "Records whose acknowledgement was sent.";
    "acknowledgements-error-rate" Gauge "per second" |m, at| m.refused.rate(at) => "Records whose acknowledgement failed, or may have failed.";
    "acknowledgements-error-total" Total "records" |m, _| m.refused.total() => "Records whose acknowledgement failed, or may have failed.";
};

/// What members of every kind of group have.
pub(super) static COORDINATING: &[Row<Coordinating>] = rows! {
    "heartbeat-rate" Gauge "per second" |m, at| m.heartbeat.times_rate(at) => "Heartbeats with a response of the group's coordinator.";
    "heartbeat-total" Total "heartbeats" |m, _| m.heartbeat.times() => "Heartbeats with a response of the group's coordinator.";
    "heartbeat-response-time-max" Gauge "ms" |m, at| m.heartbeat.max(at) => "Longest time from a heartbeat to its response.";
    "last-heartbeat-seconds-ago" Gauge "s" |m, at| since(m.beat, at) => "Time since the last heartbeat with a response was sent, in whole seconds; -1 before the first.";
    "rebalance-rate-per-hour" Gauge "per hour" |m, at| m.rebalance.times_rate(at) * HOUR => "Rebalances that ended well.";
    "rebalance-total" Total "rebalances" |m, _| m.rebalance.times() => "Rebalances that ended well.";
};

/// Those of a member of a group that shares partitions, which commits offsets.
pub(super) static MEMBERSHIP: &[Row<Coordinating>] = rows! {
    "rebalance-latency-avg" Gauge "ms" |m, at| m.rebalance.average(at) => "Time from when partitions are revoked, or the member joins, until listeners know what is assigned.";
    "rebalance-latency-max" Gauge "ms" |m, at| m.rebalance.max(at) => "Longest time of a rebalance.";
    "rebalance-latency-total" Total "ms" |m, _| m.rebalance.total() => "Time of all rebalances.";
    "last-rebalance-seconds-ago" Gauge "s" |m, at| since(m.rebalanced, at) => "Time since the last rebalance ended well, in whole seconds; -1 before the first.";
    "failed-rebalance-rate-per-hour" Gauge "per hour" |m, at| m.failed.rate(at) * HOUR => "Attempts to join, or to learn what is assigned, that failed.";
    "failed-rebalance-total" Total "attempts" |m, _| m.failed.total() => "Attempts to join, or to learn what is assigned, that failed.";
    "join-rate" Gauge "per second" |m, at| m.join.times_rate(at) => "JoinGroup requests with a response; none with group.protocol=consumer.";
    "join-total" Total "requests" |m, _| m.join.times() => "JoinGroup requests with a response; none with group.protocol=consumer.";
    "join-time-avg" Gauge "ms" |m, at| m.join.average(at) => "Time from a JoinGroup to its response, which waits for all members.";
    "join-time-max" Gauge "ms" |m, at| m.join.max(at) => "Longest time from a JoinGroup to its response.";
    "sync-rate" Gauge "per second" |m, at| m.sync.times_rate(at) => "SyncGroup requests with a response; none with group.protocol=consumer.";
    "sync-total" Total "requests" |m, _| m.sync.times() => "SyncGroup requests with a response; none with group.protocol=consumer.";
    "sync-time-avg" Gauge "ms" |m, at| m.sync.average(at) => "Time from a SyncGroup to its response, which waits for the leader.";
    "sync-time-max" Gauge "ms" |m, at| m.sync.max(at) => "Longest time from a SyncGroup to its response.";
    "commit-rate" Gauge "per second" |m, at| m.commit.times_rate(at) => "OffsetCommit requests with a response.";
    "commit-total" Total "requests" |m, _| m.commit.times() => "OffsetCommit requests with a response.";
    "commit-latency-avg" Gauge "ms" |m, at| m.commit.average(at) => "Time from an OffsetCommit to its response.";
    "commit-latency-max" Gauge "ms" |m, at| m.commit.max(at) => "Longest time from an OffsetCommit to its response.";
    "partition-assigned-latency-avg" Gauge "ms" |m, at| m.assigned.average(at) => "Time that on_assign took.";
    "partition-assigned-latency-max" Gauge "ms" |m, at| m.assigned.max(at) => "Longest time that on_assign took.";
    "partition-revoked-latency-avg" Gauge "ms" |m, at| m.revoked.average(at) => "Time that on_revoke took.";
    "partition-revoked-latency-max" Gauge "ms" |m, at| m.revoked.max(at) => "Longest time that on_revoke took.";
    "partition-lost-latency-avg" Gauge "ms" |m, at| m.lost.average(at) => "Time that on_lost took.";
    "partition-lost-latency-max" Gauge "ms" |m, at| m.lost.max(at) => "Longest time that on_lost took.";
    "assigned-partitions" Gauge "partitions" |m, _| m.partitions as f64 => "Partitions that the group has assigned to this member.";
};

pub(super) static READ_TOPICS: &[Row<ReadTopic>] = rows! {
    "fetch-size-avg" Gauge "bytes" |m, at| m.size.average(at) => "Bytes of the topic's records in a response that has any.";
    "fetch-size-max" Gauge "bytes" |m, at| m.size.max(at) => "Most bytes of the topic's records in a response.";
    "records-consumed-rate" Gauge "per second" |m, at| m.records.rate(at) => "Records of the topic that polls returned.";
    "records-consumed-total" Total "records" |m, _| m.records.total() => "Records of the topic that polls returned.";
    "bytes-consumed-rate" Gauge "bytes per second" |m, at| m.bytes.rate(at) => "Keys, values and headers of the topic that polls returned.";
    "bytes-consumed-total" Total "bytes" |m, _| m.bytes.total() => "Keys, values and headers of the topic that polls returned.";
    "records-per-request-avg" Gauge "records" |m, at| m.records.recent(at) / m.size.recent_times(at) => "Records of the topic that polls returned, by responses that had any.";
};

pub(super) static PARTITIONS: &[Row<Partition>] = rows! {
    "records-lag" Gauge "records" |m, _| known(m.latest_lag) => "Offsets between the next record and the end of the partition in the last response.";
    "records-lag-avg" Gauge "records" |m, at| m.lag.average(at) => "Average lag of the partition.";
    "records-lag-max" Gauge "records" |m, at| m.lag.max(at) => "Largest lag of the partition.";
    "records-lead" Gauge "records" |m, _| known(m.latest_lead) => "Offsets between the beginning of the partition and the next record: how far retention is from reaching it.";
    "records-lead-avg" Gauge "records" |m, at| m.lead.average(at) => "Average lead of the partition.";
    "records-lead-min" Gauge "records" |m, at| m.lead.min(at) => "Smallest lead of the partition.";
    "preferred-read-replica" Gauge "broker" |m, _| f64::from(m.replica.unwrap_or(-1)) => "The broker that is read instead of the leader (client.rack), by its id; -1 for the leader.";
};

pub(super) static APP: &[Row<App>] = rows! {
    "start-time-ms" Gauge "ms since 1970 UTC" |m, _| m.started_ms.unwrap_or(f64::NAN) => "When the client began.";
};

pub(super) static COUNT: &[Row<Network>] = rows! {
    "count" Gauge "metrics" |m, _| m.metrics as f64 => "How many metrics there are.";
};

fn age(network: &Network, at: &Reading) -> f64 {
    let age = network
        .view_of
        .map(|then| at.now.saturating_duration_since(then));
    age.map_or(f64::NAN, |age| age.as_secs_f64())
}

const HOUR: f64 = 3600.0;

/// Whole seconds since then; -1 if it never was.
fn since(then: Option<Instant>, at: &Reading) -> f64 {
    let since = then.map(|then| at.now.saturating_duration_since(then));
    since.map_or(-1.0, |since| since.as_secs() as f64)
}

fn known(offsets: Option<i64>) -> f64 {
    offsets.map_or(f64::NAN, |offsets| offsets as f64)
}

/// The groups of a client's metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    /// Of the client as a whole.
    pub(super) client: &'static str,
    /// Of each broker.
    pub(super) node: &'static str,
}

pub(super) const SENT: &str = "producer-topic-metrics";
pub(super) const FETCHED: &str = "consumer-fetch-manager-metrics";
pub(super) const MEMBER: &str = "consumer-coordinator-metrics";
pub(super) const SHARED: &str = "consumer-share-metrics";
pub(super) const ACQUIRED: &str = "consumer-share-fetch-manager-metrics";
pub(super) const SHARER: &str = "consumer-share-coordinator-metrics";
pub(super) const ALL: &str = "kafka-metrics-count";
pub(super) const BUILD: &str = "app-info";

pub(super) fn groups(role: Role) -> Groups {
    match role {
        Role::Producer => Groups {
            client: "producer-metrics",
            node: "producer-node-metrics",
        },
        Role::Consumer | Role::ShareConsumer => Groups {
            client: "consumer-metrics",
            node: "consumer-node-metrics",
        },
        Role::Admin => Groups {
            client: "admin-client-metrics",
            node: "admin-client-node-metrics",
        },
    }
}

/// Every metric of a client of this role, in the order in which a snapshot has them.
pub fn describe(role: Role) -> Vec<Described> {
    let mut all = Vec::new();
    let Groups { client, node } = groups(role);
    list(&mut all, client, &[CLIENT], NETWORK);
    match role {
        Role::Producer => {
            list(&mut all, client, &[CLIENT], PRODUCING);
            list(&mut all, client, &[CLIENT], SENDING);
            list(&mut all, SENT, &[CLIENT, TOPIC], SENT_TOPICS);
        }
        Role::Consumer => {
            list(&mut all, client, &[CLIENT], POLLING);
            list(&mut all, FETCHED, &[CLIENT], CONSUMING);
            list(&mut all, FETCHED, &[CLIENT], FETCHING);
            list(&mut all, FETCHED, &[CLIENT], FOLLOWING);
            list(&mut all, FETCHED, &[CLIENT, TOPIC], READ_TOPICS);
            list(&mut all, FETCHED, &[CLIENT, PARTITION, TOPIC], PARTITIONS);
            list(&mut all, MEMBER, &[CLIENT], COORDINATING);
            list(&mut all, MEMBER, &[CLIENT], MEMBERSHIP);
        }
        Role::ShareConsumer => {
            list(&mut all, SHARED, &[CLIENT], POLLING);
            list(&mut all, ACQUIRED, &[CLIENT], CONSUMING);
            list(&mut all, ACQUIRED, &[CLIENT], FETCHING);
            list(&mut all, ACQUIRED, &[CLIENT], SHARING);
            list(&mut all, SHARER, &[CLIENT], COORDINATING);
        }
        Role::Admin => {}
    }
    list(&mut all, node, &[CLIENT, NODE], NODES);
    list(&mut all, BUILD, &[CLIENT], APP);
    list(&mut all, ALL, &[CLIENT], COUNT);
    all
}

fn list<M>(
    all: &mut Vec<Described>,
    group: &'static str,
    tags: &'static [&'static str],
    rows: &[Row<M>],
) {
    all.extend(rows.iter().map(|row| Described {
        name: row.name,
        group,
        tags,
        kind: row.kind,
        unit: row.unit,
        doc: row.doc,
    }));
}
