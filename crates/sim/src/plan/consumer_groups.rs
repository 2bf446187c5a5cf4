//! The runs that are about groups whose coordinators assign (KIP-848): members send in heartbeats
//! what they want and what they have, and each has an epoch of its own. Otherwise they are as those
//! of [`groups`].

use std::time::Duration;

use ottla_broker::Release;
use ottla_protocol::ApiKey;

use super::groups::{self, Aims, Group};
use super::{Cluster, Plan, Stage, any_since};
use crate::chance::Chance;
use crate::habits::{By, Habits};

/// A seed of these groups has nothing to do with the other seeds of its number.
const SALT: u64 = 0x6b69_7038_3438_3135;

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "ConsumerGroupHeartbeat: response late",
    "ConsumerGroupHeartbeat: response lost",
    "ConsumerGroupHeartbeat: refused",
    "ConsumerGroupHeartbeat: request lost",
    "Fetch: response late",
    "Fetch: response lost",
    "Fetch: refused",
    "Fetch: request lost",
    "OffsetCommit: response late",
    "OffsetCommit: response lost",
    "OffsetCommit: refused",
    "OffsetCommit: request lost",
    "OffsetFetch: response late",
    "OffsetFetch: response lost",
    "OffsetFetch: refused",
    "OffsetFetch: request lost",
    "client: cut off",
    "client: stood still",
    "cluster: a follower stood still",
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
    "cluster: a topic grew",
    "cluster: followers lagged",
    "coordinator: did not hear of its successor",
    "coordinator: moved at ConsumerGroupHeartbeat",
    "coordinator: moved at OffsetCommit",
    "coordinator: moved at OffsetFetch",
    "member: was killed",
    "network: bytes of a client held up",
    "network: half open",
    "network: packets held up",
    "network: reset",
    "network: slow",
    "node: lost power and came back",
    "node: paused",
    "node: stopped and came back",
    "node: was killed and came back",
];

/// Every state that some seed must enter.
pub const STATES: &[&str] = &[
    "response: ConsumerGroupHeartbeat FENCED_INSTANCE_ID",
    "response: ConsumerGroupHeartbeat FENCED_MEMBER_EPOCH",
    "response: ConsumerGroupHeartbeat UNKNOWN_MEMBER_ID",
    "response: ConsumerGroupHeartbeat UNRELEASED_INSTANCE_ID",
    "response: Fetch OFFSET_OUT_OF_RANGE",
    "response: Fetch session refused",
    "response: OffsetCommit STALE_MEMBER_EPOCH",
    "response: OffsetCommit UNKNOWN_MEMBER_ID",
    "response: OffsetFetch STALE_MEMBER_EPOCH",
    "response: OffsetFetch UNKNOWN_MEMBER_ID",
    "client: reset an offset",
    "client: saw a leader move",
    "client: saw partitions added",
    "group: a process took the place of another with its instance id",
    "group: its coordinator chose the assignor",
    "group: its members asked for different assignors",
    "group: its members asked for range",
    "group: its members asked for uniform",
    "member: a commit came too late",
    "member: a commit that nobody waited for failed",
    "member: a commit was refused at once",
    "member: a commit's outcome stayed unknown",
    "member: a poll raised an error",
    "member: all of its partitions were revoked",
    "member: came to another epoch",
    "member: committed and waited for it",
    "member: committed in its listener",
    "member: did not poll in time",
    "member: dropped records that were stale",
    "member: its partitions were lost",
    "member: joined a generation",
    "member: left and came back",
    "member: some of its partitions were revoked",
    "member: subscribed by a pattern",
    "member: subscribed by an expression",
    "member: subscribed by names",
    "member: took the protocol that brokers have",
    "member: was assigned partitions",
    "member: was expelled between polls",
    "member: was expelled in a poll",
    "member: was expelled while it committed",
    "member: was expelled while its listener worked",
    "member: was fenced by another with its instance id",
];

/// The run of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ SALT);
    let nodes = chance.pick(&[1, 2, 3, 3, 3]).unwrap_or(1);
    let releases = releases(&mut chance, nodes);
    let cluster = Cluster {
        nodes,
        authenticated: false,
        is_old: false,
    };
    let producers = 0..1 + chance.below(2);
    let producers = producers.map(|number| groups::producer(&mut chance, &cluster, number));
    let producers = producers.collect();
    let mut members = Vec::new();
    for group in 0..chance.pick(&[1, 1, 1, 2]).unwrap_or(1) {
        members.extend(group_of(&mut chance, &cluster, group));
    }
    let mut plan = groups::world(&mut chance, releases, producers, members);
    let session: u32 = chance.pick(&[1500, 3000, 6000]).unwrap_or(3000);
    let heartbeat = session / 5;
    plan.group_settings = vec![
        (
            "group.consumer.min.heartbeat.interval.ms",
            heartbeat.to_string(),
        ),
        (
            "group.consumer.heartbeat.interval.ms",
            heartbeat.to_string(),
        ),
        ("group.consumer.min.session.timeout.ms", session.to_string()),
        ("group.consumer.session.timeout.ms", session.to_string()),
        (
            "group.consumer.assignment.interval.ms",
            chance.pick(&["0", "0", "1000"]).unwrap_or("0").to_owned(),
        ),
    ];
    groups::work(&mut plan, &mut chance);
    groups::come_and_go(&mut plan, &mut chance);
    groups::trouble(&mut plan, &mut chance, &AIMS);
    plan.steps.sort_by_key(|step| step.at);
    plan
}

/// Mostly new brokers, else any that have the protocol.
fn releases(chance: &mut Chance, nodes: i32) -> Vec<Release> {
    let is_new = chance.percent(60);
    let each = 0..nodes;
    each.map(|_| match is_new {
        true => Release::NEWEST,
        false => any_since(chance, "4.0"),
    })
    .collect()
}

/// What the members of one group ask for; an empty one leaves it to the coordinator.
const ASSIGNORS: [&str; 5] = ["uniform", "range", "", "", "uniform|range"];

fn group_of(chance: &mut Chance, cluster: &Cluster, number: usize) -> Vec<Habits> {
    let assignors = chance.pick(&ASSIGNORS).unwrap_or("");
    let interval = chance.pick(&[3000, 5000, 8000]).unwrap_or(5000);
    let of = Group {
        number,
        is_static: chance.percent(60),
        cooperates: false,
        by_epoch: true,
        poll_interval: Duration::from_millis(interval),
        reset: chance
            .pick(&["earliest", "earliest", "none"])
            .unwrap_or("earliest"),
    };
    let protocol = |chance: &mut Chance| {
        let asked: Vec<&str> = assignors.split('|').collect();
        let assignor = chance.pick(&asked).unwrap_or("");
        let protocol = match chance.percent(15) {
            true => "auto",
            false => "consumer",
        };
        let mut pairs = vec![("group.protocol", protocol.to_owned())];
        if !assignor.is_empty() {
            pairs.push(("group.remote.assignor", assignor.to_owned()));
        }
        pairs
    };
    let count = chance.pick(&[1, 2, 2, 3, 3, 4]).unwrap_or(2);
    let members = (0..count).map(|number| {
        let mut habits = groups::member(chance, cluster, &of, number, protocol);
        if chance.percent(20) {
            habits.subscribes = By::Regex;
        }
        habits
    });
    members.collect()
}

const AIMS: Aims = Aims {
    stages: &Stage::OF_CONSUMER_GROUPS,
    apis: &[
        ApiKey::ConsumerGroupHeartbeat,
        ApiKey::ConsumerGroupHeartbeat,
        ApiKey::ConsumerGroupHeartbeat,
        ApiKey::ConsumerGroupHeartbeat,
        ApiKey::ConsumerGroupHeartbeat,
        ApiKey::OffsetCommit,
        ApiKey::OffsetCommit,
        ApiKey::OffsetCommit,
        ApiKey::OffsetFetch,
        ApiKey::OffsetFetch,
        ApiKey::Fetch,
        ApiKey::FindCoordinator,
    ],
};
