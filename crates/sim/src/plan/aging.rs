//! What runs of everything have in addition: wall clocks that jump, records that are deleted before
//! they are read, and a topic that is compacted.

use std::time::Duration;

use super::{Fault, Plan, SECOND, Step, What};
use crate::chance::Chance;

/// What is drawn here leaves the rest of a plan as it is.
const SALT: u64 = 0x6167_696e_6700_0000;
/// Topics whose names begin so are compacted.
const COMPACTED: &str = "compacted";

const HOUR: i64 = 3_600_000;

/// Whether the topic of this name is compacted: all its records have keys.
pub fn is_compacted(topic: &str) -> bool {
    topic.starts_with(COMPACTED)
}

/// The run of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut plan = Plan::of(seed);
    let mut chance = Chance::new(seed ^ SALT);
    let chosen = chance.below(plan.topics.len());
    if let Some(topic) = plan.topics.get_mut(chosen)
        && !topic.mortal
        && chance.percent(30)
    {
        topic.name = format!("{COMPACTED}{chosen}").into();
    }
    let is_calm = !plan
        .steps
        .iter()
        .any(|step| matches!(step.what, What::Strike(_)));
    if is_calm {
        return plan;
    }
    let pause = chance.time(SECOND * 5, SECOND * 25);
    let mut at = chance.time(Duration::ZERO, pause);
    while at < plan.end {
        let what = What::Strike(fault(&mut chance, &plan));
        plan.steps.push(Step { at, what });
        at += chance.time(pause / 2, pause * 2);
    }
    plan.steps.sort_by_key(|step| step.at);
    plan
}

fn fault(chance: &mut Chance, plan: &Plan) -> Fault {
    match chance.below(3) {
        0 => Fault::ClockJumps(chance.from_to(1, plan.nodes), jump(chance)),
        1 => Fault::TimeJumps(chance.below(plan.producers.len()), jump(chance)),
        _ => {
            let topic = chance.below(plan.topics.len());
            let share = chance.pick(&[10, 50, 90, 100]).unwrap_or(50);
            Fault::Trims(topic, chance.from_to(0, 7), share)
        }
    }
}

/// A little, as clocks that are set right jump, or at times so far that the time stamps of others are refused; forward, or back.
fn jump(chance: &mut Chance) -> i64 {
    let far = match chance.percent(20) {
        true => chance.pick(&[2 * HOUR, 240 * HOUR]),
        false => chance.pick(&[40, 3000, 60_000]),
    };
    let far = far.unwrap_or(HOUR);
    match chance.percent(50) {
        true => far,
        false => -far,
    }
}
