//! The runs that are about logs that are truncated: replicas fall behind, are elected nevertheless,
//! and write other records at offsets of records that consumers were given. All nodes return leader
//! epochs; some return in a Fetch where logs diverge, and others only in an OffsetForLeaderEpoch.

use std::time::Duration;

use super::{Aim, Fault, LATE, Plan, SECOND, Step, What, any_since, since};
use crate::chance::Chance;

/// A seed of this theme has nothing to do with the other seeds of its number.
const SALT: u64 = 0x7472_756e_6361_7465;
/// This many worlds are drawn at most to find one that fits; of six, one does.
const WORLDS: usize = 200;
/// The first release whose Fetch returns where logs diverge.
const DIVERGING: &str = "2.8";

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "Fetch: response late",
    "Fetch: response lost",
    "Fetch: refused",
    "Fetch: request lost",
    "cluster: a follower stood still",
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
    "cluster: a replica that lacked records was elected",
    "cluster: an unclean election",
    "cluster: followers lagged",
    "network: half open",
    "network: packets held up",
    "network: reset",
    "node: paused",
    "node: supports no Fetch that returns where logs diverge",
    "node: stopped and came back",
    "node: was killed and came back",
];

/// Every state that some seed must enter.
pub const STATES: &[&str] = &[
    "response: Fetch FENCED_LEADER_EPOCH",
    "response: Fetch OFFSET_OUT_OF_RANGE",
    "response: Fetch UNKNOWN_LEADER_EPOCH",
    "response: Fetch returned where logs diverge",
    "response: OffsetForLeaderEpoch returned where an epoch ends",
    "client: could not read on without a seek",
    "client: learned that a log was truncated",
    "client: reset an offset",
    "client: saw a leader move",
    "cluster: a leader of the past was asked to read",
    "cluster: a leader of the past was asked to write",
    "consumer: a truncation was raised",
    "consumer: dropped records that a seek or reset made stale",
    "consumer: went back to where the logs part",
    "consumer: went on behind what was lost",
    "producer: a record that was acknowledged was cut off",
];

/// The run of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ SALT);
    let mut plan = world(&mut chance);
    plan.releases = (0..plan.nodes)
        .map(|_| any_since(&mut chance, DIVERGING))
        .collect();
    plan.steps
        .retain(|step| !matches!(step.what, What::Strike(Fault::Upgraded(..))));
    for node in 1..=plan.nodes {
        if chance.percent(30) {
            strike(&mut plan, Duration::ZERO, Fault::FetchesAsOld(node));
        }
    }
    // Whoever falls behind is soon out of sync, and what it lacks is shown to consumers.
    plan.min_in_sync = 1;
    plan.replica_lag = chance.millis(300, 2000);
    let mut at = chance.time(SECOND, SECOND * 3);
    while at < plan.end {
        cut(&mut plan, &mut chance, at);
        at += chance.time(SECOND * 2, SECOND * 8);
    }
    plan.steps.sort_by_key(|step| step.at);
    plan
}

/// A world of several nodes and few partitions, which live to the end, where nobody is asked who they are. Its clients do not
/// expect brokers that are silent about their versions.
fn world(chance: &mut Chance) -> Plan {
    let will_do = |plan: &Plan| {
        let mut topics = plan.topics.iter();
        let partitions: i32 = plan.topics.iter().map(|topic| topic.partitions).sum();
        let is_small = partitions <= 6 && topics.all(|topic| !topic.mortal);
        let is_new = plan.releases.iter().all(|it| *it >= since("0.11.0"));
        plan.nodes > 1 && !plan.authenticated && is_small && is_new
    };
    let worlds = std::iter::repeat_with(|| Plan::of(chance.number())).take(WORLDS);
    let mut worlds = worlds.filter(will_do);
    worlds.next().unwrap_or_else(|| Plan::of(0))
}

fn strike(plan: &mut Plan, at: Duration, fault: Fault) {
    let what = What::Strike(fault);
    plan.steps.push(Step { at, what });
}

/// A replica falls behind in a partition that is written to, and leads it then; others write there afterwards, and consumers
/// move about meanwhile.
fn cut(plan: &mut Plan, chance: &mut Chance, at: Duration) {
    let topic = chance.below(plan.topics.len());
    let partitions = plan.topics.get(topic).map_or(1, |topic| topic.partitions);
    let partition = chance.from_to(0, partitions - 1);
    let behind = plan.replica_lag + chance.millis(100, 3000);
    let nodes = 1 + chance.below(2);
    for _ in 0..nodes {
        let node = chance.from_to(1, plan.nodes);
        let lasting = behind + chance.millis(0, 2000);
        strike(plan, at, Fault::StandsStill(node, lasting));
    }
    if chance.percent(20) {
        let node = chance.from_to(1, plan.nodes);
        let deaf = chance.time(SECOND / 2, LATE);
        let fault = Fault::HearsLate(node, deaf, deaf);
        strike(plan, at + behind / 2, fault);
    }
    let elected = at + behind;
    let fault = match chance.below(6) {
        0 => Fault::UncleanElection(topic, partition),
        1 => Fault::LeaderMoves(topic, partition),
        _ => Fault::LaggardElected(topic, partition),
    };
    strike(plan, elected, fault);
    // Some of it is lost, and some is written in its place: less, as much, or more.
    for from in [at, at, elected, elected] {
        let at = from + chance.time(Duration::ZERO, behind);
        let what = What::Send {
            producer: chance.below(plan.producers.len()),
            topic,
            partition: Some(partition),
            count: 1 + chance.below(12),
            padding: chance.pick(&[0, 0, 200]).unwrap_or(0),
        };
        plan.steps.push(Step { at, what });
    }
    if chance.percent(30) {
        let consumer = chance.below(plan.consumers.len());
        let which = chance.number();
        let at = elected + chance.millis(0, 1000);
        let what = match chance.below(3) {
            0 => What::Seek(
                consumer,
                which,
                Aim::Offset(i64::from(chance.from_to(0, 60))),
            ),
            1 => What::Pause(consumer, which, true),
            _ => What::Assign(consumer, which),
        };
        plan.steps.push(Step { at, what });
    }
}
