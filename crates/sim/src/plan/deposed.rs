//! The runs that are about stale leaders: leaders are replaced all the time and do not know it, and
//! clients often request metadata. Some nodes return leader epochs and topic ids, and some do not.

use std::time::Duration;

use ottla_broker::Release;

use super::{Fault, LATE, Plan, SECOND, Step, What, any_since, millis, since};
use crate::chance::Chance;

/// A seed of this theme has nothing to do with the other seeds of its number.
const SALT: u64 = 0x6465_706f_7365_6400;
/// This many worlds are drawn at most to find one that fits; of five, two do.
const WORLDS: usize = 100;

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
];

/// Every state that some seed must enter.
pub const STATES: &[&str] = &[
    "client: did not believe at once that an offset is out of range",
    "client: reset an offset",
    "client: saw a leader move",
    "cluster: a leader of the past was asked to read",
    "cluster: a leader of the past was asked to write",
];

/// The run of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ SALT);
    let mut plan = world(&mut chance);
    plan.releases = (0..plan.nodes).map(|_| release(&mut chance)).collect();
    for consumer in &mut plan.consumers {
        let age = "metadata.max.age.ms";
        consumer.pairs.retain(|(name, _)| *name != age);
        let pair = (age, millis(&mut chance, &[300, 1000, 3000]));
        consumer.pairs.push(pair);
    }
    let mut at = chance.time(SECOND, SECOND * 3);
    while at < plan.end {
        let topic = chance.below(plan.topics.len());
        let deaf = chance.time(SECOND, LATE);
        let fault = Fault::Deposed(topic, chance.from_to(0, 7), deaf);
        let what = What::Strike(fault);
        plan.steps.push(Step { at, what });
        at += chance.time(Duration::from_millis(500), SECOND * 4);
    }
    plan.steps.sort_by_key(|step| step.at);
    plan
}

/// A world of several nodes that have record batches, and ask nobody who they are.
fn world(chance: &mut Chance) -> Plan {
    let will_do = |plan: &Plan| {
        let batches = since("0.11.0");
        plan.nodes > 1 && !plan.authenticated && plan.releases.iter().all(|it| *it >= batches)
    };
    let worlds = std::iter::repeat_with(|| Plan::of(chance.number())).take(WORLDS);
    let mut worlds = worlds.filter(will_do);
    worlds.next().unwrap_or_else(|| Plan::of(0))
}

/// One that returns leader epochs, or one that does not.
fn release(chance: &mut Chance) -> Release {
    match chance.percent(50) {
        true => any_since(chance, "2.8"),
        false => {
            let all = Release::all();
            let old = all.filter(|it| (since("0.11.0")..since("2.8")).contains(it));
            let old: Vec<_> = old.collect();
            chance.pick(&old).unwrap_or(Release::NEWEST)
        }
    }
}
