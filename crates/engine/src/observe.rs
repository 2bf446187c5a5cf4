//! Typed events, from which logs are made. Metrics have a table of their own.
//!
//! The parts of an engine report events, and the shell takes them. Rare events (a connection, a
//! retry, a moved leader) are always kept; an event of each request is made only while a listener
//! wants [`Level::Debug`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Kind};

/// How much an event matters to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Each request and batch.
    Debug,
    /// Changes that a healthy cluster goes through.
    Info,
    /// Events that need attention: unreachable brokers, records passed over, records lost.
    Warning,
}

/// Something that happened in a client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Observed {
    /// The consumer is a member of a generation of its group.
    GroupJoined {
        /// The group.
        group: Arc<str>,
        /// The member's id.
        member_id: Arc<str>,
        /// The generation.
        generation: i32,
        /// How many partitions it was assigned.
        partitions: usize,
    },
    /// The consumer takes this protocol of groups, as `group.protocol=auto` lets it.
    GroupProtocolChosen {
        /// The group.
        group: Arc<str>,
        /// The protocol's name.
        protocol: &'static str,
        /// Why.
        reason: String,
    },
    /// The coordinator has another assignment for the consumer, which stays a member.
    Reassigned {
        /// The group.
        group: Arc<str>,
        /// The member's epoch.
        epoch: i32,
        /// How many partitions are new.
        added: usize,
        /// How many partitions go.
        dropped: usize,
    },
    /// The consumer joins its group again.
    Rebalancing {
        /// The group.
        group: Arc<str>,
        /// Why.
        reason: &'static str,
    },
    /// The group continued without the consumer.
    MembershipLost {
        /// The group.
        group: Arc<str>,
        /// Why, and what to do about it.
        reason: String,
    },
    /// The metadata of a member does not decode. It is assigned nothing.
    MemberUnreadable {
        /// The group.
        group: Arc<str>,
        /// The member's id.
        member_id: Arc<str>,
        /// What is wrong.
        cause: Error,
    },
    /// Acknowledgements of acquired records do not count, or their result is unknown, and no caller
    /// waited for it.
    AcknowledgeFailed {
        /// The first offset.
        first: i64,
        /// The last offset.
        last: i64,
        /// Why, with the partition.
        cause: Error,
    },
    /// Offsets were not committed, and no caller waited for the result.
    CommitFailed {
        /// Why.
        cause: Error,
    },
    /// A connection is ready for requests.
    Connected {
        /// `host:port`.
        broker: String,
        /// The broker's id, where it is known to be one of the cluster.
        node: Option<i32>,
        /// From dialling to ready.
        took: Duration,
    },
    /// A broker could not be connected to.
    ConnectFailed {
        /// `host:port`.
        broker: String,
        /// Why.
        cause: Error,
        /// Failures in a row.
        failures: u32,
        /// Until the next attempt.
        pause: Duration,
        /// Whether no warning of this address was reported for a minute.
        warns: bool,
    },
    /// A broker of the cluster does not accept the client, or the client does not accept it, as
    /// several attempts in a row show. Reported once until a connection to it is made.
    Refused {
        /// The broker's id.
        node: i32,
        /// Why, with the broker's address.
        cause: Error,
    },
    /// Files of certificates or keys changed, and what they hold now cannot be used: what they held before is kept.
    CertificatesKept {
        /// Why, with the file.
        cause: Error,
    },
    /// A broker does not return its versions. It is used as one of a release before 0.10.
    VersionsAssumed {
        /// `host:port`.
        broker: String,
        /// The release.
        release: &'static str,
        /// How that is known.
        reason: &'static str,
        /// How long that holds for new connections.
        lasts: Duration,
    },
    /// A connection that was ready broke.
    Disconnected {
        /// `host:port`.
        broker: String,
        /// Why.
        cause: Error,
    },
    /// A request got its response.
    Answered {
        /// `host:port`.
        broker: String,
        /// The API's name in the protocol.
        api: &'static str,
        /// The version of both.
        version: i16,
        /// From sending to the response.
        took: Duration,
    },
    /// A broker throttles the client, which keeps the pause (KIP-219).
    Throttled {
        /// `host:port`.
        broker: String,
        /// The API's name in the protocol.
        api: &'static str,
        /// The pause.
        pause: Duration,
    },
    /// A request or a batch is sent again after a pause.
    Retried {
        /// What failed, with the API, the broker and the partition where known.
        cause: Error,
        /// Attempts so far.
        attempts: u32,
        /// Until the next attempt.
        pause: Duration,
    },
    /// The client forgets the brokers that it knew, and begins again at the bootstrap servers (KIP-899, KIP-1102).
    Rebootstrapped {
        /// Why.
        cause: Error,
    },
    /// A partition has another leader.
    LeaderMoved {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The leader's id before; -1 if there was none.
        from: i32,
        /// The leader's id now; -1 if there is no leader.
        to: i32,
        /// The epoch of the leader now; -1 if unknown.
        epoch: i32,
    },
    /// A topic in use has more partitions than before.
    PartitionsAdded {
        /// The topic.
        topic: Arc<str>,
        /// Partitions before.
        before: usize,
        /// Partitions now.
        now: usize,
    },
    /// A topic in use was deleted and created again: its id changed.
    TopicRecreated {
        /// The topic.
        topic: Arc<str>,
    },
    /// A topic in use does not exist, or not yet.
    TopicMissing {
        /// The topic.
        topic: Arc<str>,
        /// The broker's error.
        cause: Error,
    },
    /// A consumer continues at another offset: because of `auto.offset.reset`, or because a topic was recreated.
    OffsetReset {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The offset it would have read next; -1 if there was none.
        from: i64,
        /// The offset it reads next.
        to: i64,
        /// Why.
        reason: &'static str,
    },
    /// A partition's log was truncated, as after an unclean election: what a consumer had read there is lost (KIP-320).
    LogTruncated {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The offset that the consumer would have read next, and the leader epoch of the record before it.
        position: (i64, i32),
        /// The offset from which on the leader's log differs from what was read, where the consumer
        /// continues, and the leader epoch of the record before it, or -1; `None` if that offset is
        /// unknown.
        parting: Option<(i64, i32)>,
    },
    /// A partition is read at a replica that is nearer than its leader (KIP-392).
    ReplicaChosen {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// The id of the broker that has it.
        node: i32,
    },
    /// A partition cannot be read until a seek.
    PartitionStuck {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// Why.
        cause: Error,
    },
    /// A broker denies a partition, or fails for it. The client retries with back-off; this is reported once until it succeeds.
    PartitionDenied {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// Why.
        cause: Error,
    },
    /// A batch was given to a connection.
    BatchSent {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// Its records.
        records: u32,
        /// Its size before compression.
        bytes: usize,
        /// Attempts, this one included.
        attempt: u32,
    },
    /// The records of a batch were abandoned.
    BatchFailed {
        /// Its records.
        records: u32,
        /// Why, with topic and partition, and whether they may have been written.
        cause: Error,
    },
    /// The brokers cannot recognize repeats, and idempotence was not set explicitly: the producer
    /// continues without it.
    IdempotenceOff {
        /// The error that names what the brokers lack.
        cause: Error,
    },
    /// The producer has an identity (KIP-98) or a new epoch of it (KIP-360).
    ProducerIdentified {
        /// The producer id.
        id: i64,
        /// The epoch.
        epoch: i16,
    },
    /// A metric of the program was not registered.
    MetricIgnored {
        /// Its name for brokers.
        name: String,
    },
    /// How the producer's transactions are kept from here on.
    TransactionProtocolChosen {
        /// The transactional id.
        id: Arc<str>,
        /// The protocol: 1 (KIP-98) or 2 (KIP-890).
        protocol: u8,
    },
    /// A commit got no response in time, and now it is known how the transaction ended.
    TransactionSettled {
        /// The transactional id.
        id: Arc<str>,
        /// Whether it was committed; else it was aborted.
        committed: bool,
    },
}

impl Observed {
    /// How much it matters.
    pub fn level(&self) -> Level {
        self.row().0
    }

    /// The logger it belongs to, below `ottla`.
    pub fn logger(&self) -> &'static str {
        self.row().1
    }

    /// The table of events: level and logger of each.
    fn row(&self) -> (Level, &'static str) {
        use Level::{Debug, Info, Warning};
        const CONNECTION: &str = "connection";
        const CLUSTER: &str = "cluster";
        const CONSUMER: &str = "consumer";
        const PRODUCER: &str = "producer";
        match self {
            Observed::Connected { .. } => (Info, CONNECTION),
            // One warning a minute for an address.
            Observed::ConnectFailed { warns: true, .. } => (Warning, CONNECTION),
            Observed::ConnectFailed { warns: false, .. } => (Debug, CONNECTION),
            Observed::Refused { .. } => (Warning, CONNECTION),
            Observed::CertificatesKept { .. } => (Warning, CONNECTION),
            Observed::VersionsAssumed { .. } => (Warning, CONNECTION),
            Observed::Disconnected { .. } => (Info, CONNECTION),
            Observed::Answered { .. } => (Debug, CONNECTION),
            Observed::Throttled { .. } => (Info, CONNECTION),
            Observed::Retried { .. } => (Info, CONNECTION),
            Observed::LeaderMoved { .. } => (Info, CLUSTER),
            Observed::MetricIgnored { .. } => (Warning, CLUSTER),
            Observed::Rebootstrapped { .. } => (Warning, CLUSTER),
            Observed::PartitionsAdded { .. } => (Info, CLUSTER),
            Observed::TopicRecreated { .. } => (Warning, CLUSTER),
            // It may be on its way.
            Observed::TopicMissing { cause, .. } if cause.is_retriable() => (Info, CLUSTER),
            Observed::TopicMissing { .. } => (Warning, CLUSTER),
            Observed::GroupJoined { .. } => (Info, CONSUMER),
            Observed::GroupProtocolChosen { .. } => (Info, CONSUMER),
            Observed::Reassigned { .. } => (Info, CONSUMER),
            Observed::Rebalancing { .. } => (Info, CONSUMER),
            Observed::MembershipLost { .. } => (Warning, CONSUMER),
            Observed::MemberUnreadable { .. } => (Warning, CONSUMER),
            Observed::AcknowledgeFailed { .. } => (Warning, CONSUMER),
            Observed::CommitFailed { .. } => (Warning, CONSUMER),
            Observed::OffsetReset { .. } => (Warning, CONSUMER),
            Observed::LogTruncated { .. } => (Warning, CONSUMER),
            Observed::ReplicaChosen { .. } => (Info, CONSUMER),
            Observed::PartitionStuck { .. } => (Warning, CONSUMER),
            Observed::PartitionDenied { .. } => (Warning, CONSUMER),
            Observed::BatchSent { .. } => (Debug, PRODUCER),
            // Its transaction was aborted.
            Observed::BatchFailed { cause, .. }
                if cause.kind() == Kind::Abortable && cause.code().is_none() =>
            {
                (Info, PRODUCER)
            }
            Observed::BatchFailed { .. } => (Warning, PRODUCER),
            Observed::IdempotenceOff { .. } => (Warning, PRODUCER),
            Observed::TransactionProtocolChosen { .. } => (Info, PRODUCER),
            Observed::TransactionSettled { .. } => (Warning, PRODUCER),
            Observed::ProducerIdentified { .. } => (Info, PRODUCER),
        }
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observed::GroupJoined {
                group,
                member_id,
                generation,
                partitions,
            } => write!(
                f,
                "joined group {group} as {member_id}, generation {generation}, with {partitions} partitions"
            ),
            Observed::GroupProtocolChosen {
                group,
                protocol,
                reason,
            } => write!(
                f,
                "group {group} is joined with group.protocol={protocol}: {reason}"
            ),
            Observed::Reassigned {
                group,
                epoch,
                added,
                dropped,
            } => write!(
                f,
                "group {group} gives this member {added} partitions more and {dropped} less, epoch {epoch}"
            ),
            Observed::Rebalancing { group, reason } => {
                write!(f, "joins group {group} again: {reason}")
            }
            Observed::MembershipLost { group, reason } => {
                write!(f, "group {group} goes on without this consumer: {reason}")
            }
            Observed::MemberUnreadable {
                group,
                member_id,
                cause,
            } => write!(
                f,
                "member {member_id} of group {group} is assigned nothing: {}",
                cause.message()
            ),
            Observed::AcknowledgeFailed { first, last, cause } => {
                write!(
                    f,
                    "what was said of offsets {first} to {last} does not count: {cause}"
                )
            }
            Observed::CommitFailed { cause } => {
                write!(f, "offsets were not committed: {cause}")
            }
            Observed::Connected { broker, node, took } => {
                write!(f, "connected to {broker}")?;
                if let Some(node) = node {
                    write!(f, " (broker {node})")?;
                }
                write!(f, " in {} ms", took.as_millis())
            }
            Observed::ConnectFailed {
                broker,
                cause,
                failures,
                pause,
                ..
            } => write!(
                f,
                "cannot connect to {broker}: {}; attempt {failures}, the next in {} ms",
                cause.message(),
                pause.as_millis()
            ),
            Observed::Refused { node, cause } => write!(
                f,
                "broker {node} ({}) and this client do not accept each other, and what only this broker can do fails until they \
                 do, such as sends to partitions that it leads, and reads of them: {}",
                cause.broker().unwrap_or("?"),
                cause.message()
            ),
            Observed::CertificatesKept { cause } => write!(
                f,
                "changed certificates or keys cannot be used, and the earlier ones are kept: {}",
                cause.message()
            ),
            Observed::VersionsAssumed {
                broker,
                release,
                reason,
                lasts,
            } => write!(
                f,
                "{broker} does not return its versions and is used as a broker of Kafka {release}: {reason}; new connections \
                 use this for {} ms (api.version.fallback.ms)",
                lasts.as_millis()
            ),
            Observed::Disconnected { broker, cause } => {
                write!(f, "disconnected from {broker}: {}", cause.message())
            }
            Observed::Answered {
                broker,
                api,
                version,
                took,
            } => {
                let micros = took.as_micros();
                write!(f, "{broker} responded to {api} {version} in {micros} us")
            }
            Observed::Throttled { broker, api, pause } => write!(
                f,
                "{broker} asked for a pause of {} ms after {api} (quota)",
                pause.as_millis()
            ),
            Observed::Retried {
                cause,
                attempts,
                pause,
            } => write!(
                f,
                "retry in {} ms after attempt {attempts}: {cause}",
                pause.as_millis()
            ),
            Observed::Rebootstrapped { cause } => {
                write!(
                    f,
                    "beginning again at the bootstrap servers: {}",
                    cause.message()
                )
            }
            Observed::LeaderMoved {
                topic,
                partition,
                from,
                to,
                epoch,
            } => {
                write!(f, "leader of {topic}-{partition} moved from ")?;
                node(f, *from)?;
                f.write_str(" to ")?;
                node(f, *to)?;
                write!(f, " (epoch {epoch})")
            }
            Observed::PartitionsAdded { topic, before, now } => {
                write!(
                    f,
                    "topic {topic} has {now} partitions now, and had {before} before"
                )
            }
            Observed::TopicRecreated { topic } => {
                write!(f, "topic {topic} was deleted and created again")
            }
            Observed::TopicMissing { topic, cause } => {
                write!(f, "topic {topic} is not available: {}", cause.message())
            }
            Observed::OffsetReset {
                topic,
                partition,
                from,
                to,
                reason,
            } => {
                write!(f, "offset of {topic}-{partition} was reset ")?;
                if *from >= 0 {
                    write!(f, "from {from} ")?;
                }
                write!(f, "to {to}: {reason}")
            }
            Observed::LogTruncated {
                topic,
                partition,
                position: (position, epoch),
                parting,
            } => {
                write!(
                    f,
                    "the log of {topic}-{partition} was truncated, and records are lost that were read before offset {position} \
                     (leader epoch {epoch}): "
                )?;
                match parting {
                    Some((offset, before)) => write!(
                        f,
                        "the leader's log differs from offset {offset} on (leader epoch {before}), and reading continues there"
                    ),
                    None => write!(f, "the leader's log knows no such epoch"),
                }
            }
            Observed::ReplicaChosen {
                topic,
                partition,
                node,
            } => write!(
                f,
                "{topic}-{partition} is read at broker {node}, which is nearer than its leader"
            ),
            Observed::PartitionStuck {
                topic,
                partition,
                cause,
            } => write!(
                f,
                "{topic}-{partition} cannot be read until a seek: {}",
                cause.message()
            ),
            Observed::PartitionDenied {
                topic,
                partition,
                cause,
            } => write!(
                f,
                "{topic}-{partition} cannot be read at the moment; the client retries: {}",
                cause.message()
            ),
            Observed::BatchSent {
                topic,
                partition,
                records,
                bytes,
                attempt,
            } => write!(
                f,
                "batch of {records} records ({bytes} bytes) sent to {topic}-{partition}, attempt {attempt}"
            ),
            Observed::BatchFailed { records, cause } => {
                write!(f, "batch of {records} records was abandoned: {cause}")
            }
            Observed::IdempotenceOff { cause } => write!(
                f,
                "idempotence is off, a retry may write a record twice: {}; enable.idempotence=false accepts \
                 this, enable.idempotence=true makes it an error",
                cause.message()
            ),
            Observed::ProducerIdentified { id, epoch } => {
                write!(f, "producer id {id}, epoch {epoch}")
            }
            Observed::MetricIgnored { name } => write!(
                f,
                "a metric of the application was not registered: {name} with these tags is a metric of the client itself; rename it"
            ),
            Observed::TransactionProtocolChosen { id, protocol } => {
                let kip = if *protocol >= 2 { "KIP-890" } else { "KIP-98" };
                write!(f, "transactions of {id} use protocol {protocol} ({kip})")
            }
            Observed::TransactionSettled { id, committed } => {
                let end = if *committed { "committed" } else { "aborted" };
                write!(
                    f,
                    "the transaction of {id} whose commit got no response was {end}"
                )
            }
        }
    }
}

fn node(f: &mut fmt::Formatter<'_>, id: i32) -> fmt::Result {
    if id < 0 {
        f.write_str("none")
    } else {
        write!(f, "broker {id}")
    }
}

/// The most events that wait to be drained; above it the oldest go, counted.
const MOST: usize = 1000;

/// Collects events until the shell drains them.
#[derive(Debug)]
pub struct Observer {
    level: Level,
    events: VecDeque<Observed>,
    dropped: u64,
}

impl Default for Observer {
    fn default() -> Observer {
        Observer {
            level: Level::Info,
            events: VecDeque::new(),
            dropped: 0,
        }
    }
}

impl Observer {
    /// Events below `level` are not even made.
    #[inline]
    pub fn listen(&mut self, level: Level) {
        self.level = level;
    }

    /// Whether events of `level` are kept. Check this before making an event for each request or batch.
    pub fn wants(&self, level: Level) -> bool {
        level >= self.level
    }

    /// Keeps an event, unless no listener wants its level.
    pub fn tell(&mut self, event: Observed) {
        if !self.wants(event.level()) {
            return;
        }
        if self.events.len() == MOST {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(event);
    }

    /// Whether all events were drained.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The oldest event that was not drained yet.
    pub fn poll(&mut self) -> Option<Observed> {
        self.events.pop_front()
    }

    /// How many events were lost since the last call, because they were not drained.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(partition: i32) -> Observed {
        Observed::LeaderMoved {
            topic: "t".into(),
            partition,
            from: 1,
            to: -1,
            epoch: 3,
        }
    }

    #[test]
    fn keeps_the_newest_and_counts_what_it_lost() {
        let mut observer = Observer::default();
        for partition in 0..1005 {
            observer.tell(moved(partition));
        }
        assert_eq!(observer.take_dropped(), 5);
        assert_eq!(observer.poll(), Some(moved(5)));
        assert_eq!(
            moved(5).to_string(),
            "leader of t-5 moved from broker 1 to none (epoch 3)"
        );
    }

    #[test]
    fn keeps_what_somebody_listens_to() {
        let mut observer = Observer::default();
        let answered = Observed::Answered {
            broker: "b:1".into(),
            api: "Fetch",
            version: 4,
            took: Duration::from_millis(2),
        };
        observer.tell(answered.clone());
        assert_eq!(observer.poll(), None);
        observer.listen(Level::Debug);
        observer.tell(answered.clone());
        assert_eq!(observer.poll(), Some(answered));
    }
}
