//! The properties of consumers that are about their group.

use std::sync::Arc;

macro_rules! group {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* BOTH_CONSUMERS {
        /// The consumer group. Its members share the partitions of the topics that they subscribe to, and offsets are committed
        /// under its name. Of a share consumer it is the share group, which needs a name that no consumer group has.
        "group.id" => group_id: Option<String>, text(optional);
    } CONSUMER {
        /// The name of this member, which no other member of the group has: it keeps its partitions while it is away for less than
        /// session.timeout.ms (KIP-345).
        "group.instance.id" => group_instance_id: Option<String>, text(optional);
        /// The protocol by which the group assigns partitions: classic, where one of the members assigns; consumer, where the
        /// group's coordinator does (KIP-848; brokers since Kafka 4.0); or auto, which is consumer where the cluster
        /// has it, and classic elsewhere.
        "group.protocol" => group_protocol: GroupProtocol = "classic", choice("classic" => GroupProtocol::Classic,
            "consumer" => GroupProtocol::Consumer, "auto" => GroupProtocol::Auto);
        /// The coordinator's assignor, such as uniform or range, where it is to use another than its first one. Not with
        /// group.protocol=classic.
        "group.remote.assignor" => group_remote_assignor: Option<String>, text(optional);
        /// Assignors for the classic protocol, the preferred one first: range, roundrobin, sticky,
        /// cooperative-sticky, or Java's class names; in a list also assignors of your own, ottla.Assignor. The group uses one
        /// that all have.
        "partition.assignment.strategy" => partition_assignment_strategy: Vec<String> = "range,cooperative-sticky", text(strategies);
        /// The group removes a member that sends no heartbeat for this time. With group.protocol=consumer the brokers
        /// configure it.
        "session.timeout.ms" => session_timeout: Duration = "45000", millis(1);
        /// Interval of heartbeats to the group's coordinator. With group.protocol=consumer the brokers configure it.
        "heartbeat.interval.ms" => heartbeat_interval: Duration = "3000", millis(1);
        /// A consumer that is not polled for this time leaves the group, until it is polled again. The group also waits
        /// this long for its members in a rebalance.
        "max.poll.interval.ms" => max_poll_interval: Duration = "300000", millis(1);
        /// Whether polls commit what earlier polls returned. Only with a group.
        "enable.auto.commit" => enable_auto_commit: bool = "true", bool();
        /// How often polls commit.
        "auto.commit.interval.ms" => auto_commit_interval: Duration = "5000", millis(0);
        /// Where the offsets of group.id are kept: kafka, with the group's coordinator; or zookeeper, where consumers of Kafka 0.8
        /// kept them by default, and which brokers before 4.0 still reach if they have a ZooKeeper. Neither sees what is committed
        /// in the other. ZooKeeper keeps no metadata and no leader epochs, and knows no members: only for partitions that are
        /// assigned by hand.
        "offsets.storage" => offsets_storage: OffsetsStorage = "kafka", choice("kafka" => OffsetsStorage::Kafka,
            "zookeeper" => OffsetsStorage::ZooKeeper);
    } } };
}
pub(in crate::config) use group;

/// The protocol by which a group assigns partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupProtocol {
    /// A member, the leader, assigns.
    #[default]
    Classic,
    /// The group's coordinator assigns (KIP-848).
    Consumer,
    /// The consumer protocol where the cluster has it, else the classic one.
    Auto,
}

/// Where a group's offsets are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetsStorage {
    /// With the group's coordinator.
    #[default]
    Kafka,
    /// In ZooKeeper, which any broker accesses: version 0 of OffsetCommit and OffsetFetch.
    ZooKeeper,
}

const JAVA: &str = "org.apache.kafka.clients.consumer.";
/// Names of assignors, and those of Java's classes.
const STRATEGIES: [(&str, &str); 4] = [
    ("range", "RangeAssignor"),
    ("roundrobin", "RoundRobinAssignor"),
    ("sticky", "StickyAssignor"),
    ("cooperative-sticky", "CooperativeStickyAssignor"),
];

/// An assignor of the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomAssignor {
    /// Its name in JoinGroup, by which members agree on one.
    pub name: Arc<str>,
    /// Whether its members keep their partitions in a rebalance, and revoke only what the new
    /// assignment lacks (KIP-429).
    pub cooperates: bool,
}

/// What `partition.assignment.strategy` lists where it is more than text.
#[derive(Clone, Debug)]
pub enum OfferedAssignor {
    /// The name of an assignor of ottla, or of Java's class.
    Name(String),
    /// One of the caller's.
    Custom(CustomAssignor),
}

/// The names of all that a member offers, in their order, and those of the caller among them.
///
/// # Errors
/// What is wrong with them.
pub fn offered_assignors(
    offered: Vec<OfferedAssignor>,
) -> Result<(Vec<String>, Vec<CustomAssignor>), String> {
    let (mut names, mut customs) = (Vec::<String>::new(), Vec::new());
    for each in offered {
        let more = match each {
            OfferedAssignor::Name(name) => strategies(&name)?,
            OfferedAssignor::Custom(custom) => {
                let name = custom.name.to_string();
                if name.is_empty() || STRATEGIES.iter().any(|(own, _)| *own == name) {
                    return Err(format!(
                        "an assignor needs a name of its own, which {name:?} is not"
                    ));
                }
                customs.push(custom);
                vec![name]
            }
        };
        if let Some(name) = more.iter().find(|name| names.contains(name)) {
            return Err(format!(
                "must name each assignor once; {name} is there twice"
            ));
        }
        names.extend(more);
    }
    if names.is_empty() {
        return Err("must name one assignor at least, such as range".to_owned());
    }
    Ok((names, customs))
}

pub(in crate::config) fn strategies(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let class = part.strip_prefix(JAVA).unwrap_or(part);
        let mut known = STRATEGIES.iter();
        let known = known.find(|(name, java)| class.eq_ignore_ascii_case(name) || class == *java);
        let Some((name, _)) = known else {
            return Err(format!(
                "must be a list of range, roundrobin, sticky and cooperative-sticky; {part:?} is unknown"
            ));
        };
        if names.iter().any(|other| other == name) {
            return Err(format!(
                "must name each assignor once; {name} is there twice"
            ));
        }
        names.push((*name).to_owned());
    }
    if names.is_empty() {
        return Err("must name one assignor at least, such as range".to_owned());
    }
    Ok(names)
}
