//! The runs that are about share groups (KIP-932): small worlds with one group or two, whose members come, go, die, stand still, work
//! for longer than their locks last, and say of records all that can be said of them.

use std::time::Duration;

use ottla_broker::Release;
use ottla_broker::node::Stop;
use ottla_protocol::{ApiKey, ErrorCode};

use super::{
    Cluster, Fault, Member, Plan, SECOND, Sharer, Stage, Step, Topic, Weather, What, common, millis,
};
use crate::chance::Chance;
use crate::habits::Commits;
use crate::keeper::Trouble;
use crate::shared::Rules;

/// A seed of share groups has nothing to do with the other seeds of its number.
const SALT: u64 = 0x7368_6172_6536_3133;

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "ShareAcknowledge: response late",
    "ShareAcknowledge: response lost",
    "ShareAcknowledge: refused",
    "ShareAcknowledge: request lost",
    "ShareFetch: response late",
    "ShareFetch: response lost",
    "ShareFetch: refused",
    "ShareFetch: request lost",
    "ShareGroupHeartbeat: response late",
    "ShareGroupHeartbeat: response lost",
    "ShareGroupHeartbeat: refused",
    "ShareGroupHeartbeat: request lost",
    "client: cut off",
    "client: stood still",
    "cluster: a follower stood still",
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
    "cluster: a topic grew",
    "cluster: followers lagged",
    "coordinator: did not hear of its successor",
    "coordinator: moved at ShareGroupHeartbeat",
    "leader: moved at ShareAcknowledge",
    "leader: moved at ShareFetch",
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
    "response: ShareAcknowledge INVALID_RECORD_STATE",
    "response: ShareAcknowledge NOT_LEADER_OR_FOLLOWER",
    "response: ShareAcknowledge session refused",
    "response: ShareFetch INVALID_RECORD_STATE of what was acknowledged",
    "response: ShareFetch NOT_LEADER_OR_FOLLOWER",
    "response: ShareFetch session refused",
    "response: ShareGroupHeartbeat FENCED_MEMBER_EPOCH",
    "response: ShareGroupHeartbeat UNKNOWN_MEMBER_ID",
    "client: saw a leader move",
    "client: saw partitions added",
    "shared: a leader took over",
    "shared: a lock ended, and others got the records",
    "shared: a lock was renewed",
    "shared: a record was accepted",
    "shared: a record was delivered as often as it may be, and archived",
    "shared: a record was rejected",
    "shared: a record was released, and delivered again",
    "shared: records that members had were free when a connection ended",
    "shared: records that members had were free when a session ended",
    "sharer: a commit came too late",
    "sharer: a lock had ended before its records were given out",
    "sharer: accepted what it was given by its polls",
    "sharer: acquires as many records as it may",
    "sharer: acquires whole batches",
    "sharer: an acknowledgement did not count",
    "sharer: closed with records that it had said nothing of",
    "sharer: committed and waited for it",
    "sharer: committed without waiting",
    "sharer: gets only what is committed",
    "sharer: left and came back",
    "sharer: said of each record what becomes of it",
    "sharer: what it said came too late",
    "sharer: was expelled",
    "sharer: worked for longer than its lock",
];

/// A group's id.
pub fn name(group: usize) -> String {
    format!("share-{group}")
}

/// The run of a seed.
pub fn plan(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ SALT);
    let nodes = chance.pick(&[1, 2, 3, 3, 3]).unwrap_or(1);
    let cluster = Cluster {
        nodes,
        authenticated: false,
        is_old: false,
    };
    let has_transactions = chance.percent(25);
    let transactors = (0..usize::from(has_transactions))
        .map(|number| sender(&mut chance, &cluster, format!("id-{number}"), true))
        .collect();
    let producers = (0..1 + chance.below(2))
        .map(|number| sender(&mut chance, &cluster, format!("producer-{number}"), false))
        .collect();
    let (mut shares, mut sharers) = (Vec::new(), Vec::new());
    for group in 0..chance.pick(&[1, 1, 1, 2]).unwrap_or(1) {
        let rules = Rules {
            lock: Duration::from_millis(chance.pick(&[1000, 1500, 3000]).unwrap_or(1000)),
            deliveries: chance.pick(&[2, 3, 5, 10]).unwrap_or(5),
            locks: chance.pick(&[100, 100, 2000]).unwrap_or(100),
            committed: chance.percent(if has_transactions { 60 } else { 20 }),
        };
        shares.push(rules);
        for number in 0..chance.pick(&[1, 2, 2, 3, 3, 4]).unwrap_or(2) {
            sharers.push(sharer(&mut chance, &cluster, (group, number), &rules));
        }
    }
    let topics = (0..1 + chance.below(2)).map(|number| Topic {
        name: format!("t{number}").into(),
        partitions: chance.pick(&[1, 1, 2, 3]).unwrap_or(1),
        mortal: false,
    });
    let topics = topics.collect();
    let slow = chance.millis(0, 4);
    let mut plan = Plan {
        nodes,
        topics,
        producers,
        transactors,
        consumers: Vec::new(),
        members: Vec::new(),
        shares,
        sharers,
        admins: Vec::new(),
        weather: Weather {
            delay: (Duration::from_micros(50), Duration::from_micros(500) + slow),
            pieces: chance.pick(&[0, 0, 5]).unwrap_or(0),
        },
        steps: Vec::new(),
        end: chance.time(SECOND * 8, SECOND * 20),
        min_in_sync: chance.from_to(1, (nodes - 1).max(1)),
        replica_lag: chance.time(SECOND, SECOND * 6),
        first_rebalance: Duration::ZERO,
        // The first one with share groups that are no preview.
        releases: (0..nodes).map(|_| Release::NEWEST).collect(),
        group_settings: Vec::new(),
        authenticated: false,
        chance: chance.fork(),
    };
    work(&mut plan, &mut chance);
    come_and_go(&mut plan, &mut chance);
    trouble(&mut plan, &mut chance);
    plan.steps.sort_by_key(|step| step.at);
    plan
}

fn sender(chance: &mut Chance, cluster: &Cluster, name: String, in_transactions: bool) -> Member {
    let mut pairs = common(chance, cluster, name.clone());
    pairs.extend([
        ("linger.ms", millis(chance, &[0, 1, 20])),
        ("batch.size", millis(chance, &[200, 2000, 100_000])),
        ("max.block.ms", millis(chance, &[2000, 5000])),
        ("delivery.timeout.ms", millis(chance, &[9000, 15_000])),
    ]);
    if in_transactions {
        // A commit waits long enough for a connection that is half open to be found out.
        pairs.retain(|(name, _)| *name != "request.timeout.ms");
        pairs.extend([
            ("request.timeout.ms", millis(chance, &[1000, 2000])),
            ("transactional.id", name),
            (
                "transaction.timeout.ms",
                millis(chance, &[1500, 4000, 10_000]),
            ),
        ]);
    } else {
        pairs.push(("enable.idempotence", "true".to_owned()));
    }
    Member {
        pairs,
        rest: Duration::ZERO,
        most: 0,
    }
}

fn sharer(
    chance: &mut Chance,
    cluster: &Cluster,
    (group, number): (usize, usize),
    rules: &Rules,
) -> Sharer {
    let mut pairs = common(chance, cluster, format!("sharer-{group}-{number}"));
    let is_explicit = chance.percent(60);
    let mode = if is_explicit { "explicit" } else { "implicit" };
    let is_limited = chance.percent(50);
    // A limit holds for all brokers together, so that one after the other is asked, for as long as it has nothing.
    let (acquires, most, wait) = match is_limited {
        true => (
            "record_limit",
            chance.pick(&[3, 10, 500]),
            millis(chance, &[100, 250]),
        ),
        false => (
            "batch_optimized",
            chance.pick(&[1, 3, 10, 500]),
            millis(chance, &[250, 500, 1000]),
        ),
    };
    let most = most.unwrap_or(500);
    pairs.extend([
        ("group.id", name(group)),
        ("share.acknowledgement.mode", mode.to_owned()),
        ("share.acquire.mode", acquires.to_owned()),
        ("max.poll.records", most.to_string()),
        ("fetch.max.wait.ms", wait),
        (
            "fetch.max.bytes",
            millis(chance, &[1000, 20_000, 1_000_000]),
        ),
        ("default.api.timeout.ms", "8000".to_owned()),
    ]);
    let commits = chance.pick(&[Commits::ByPolls, Commits::Waiting, Commits::Later]);
    Sharer {
        group,
        pairs,
        is_explicit,
        commits: commits.unwrap_or(Commits::ByPolls),
        works: chance
            .pick(&[5, 50, 300, 1200])
            .map_or(Duration::ZERO, Duration::from_millis),
        most,
        lock: rules.lock,
    }
}

/// What applications do.
fn work(plan: &mut Plan, chance: &mut Chance) {
    for producer in 0..plan.producers.len() {
        for _ in 0..6 + chance.below(14) {
            let at = chance.time(Duration::ZERO, plan.end);
            let what = plan.send(chance, producer);
            plan.steps.push(Step { at, what });
        }
    }
    for id in 0..plan.transactors.len() {
        for _ in 0..3 + chance.below(6) {
            let at = chance.time(Duration::ZERO, plan.end);
            let what = What::Transact(id, chance.number());
            plan.steps.push(Step { at, what });
        }
    }
    for member in 0..plan.sharers.len() {
        for _ in 0..chance.below(6) {
            let at = chance.time(SECOND, plan.end);
            let what = What::Deed(member, chance.number());
            plan.steps.push(Step { at, what });
        }
    }
}

/// Processes begin, end, and begin again.
fn come_and_go(plan: &mut Plan, chance: &mut Chance) {
    let mut step = |at, what| plan.steps.push(Step { at, what });
    for member in 0..plan.sharers.len() {
        // Every prefix has one.
        let first = match member {
            0 => Duration::ZERO,
            _ => chance.time(Duration::ZERO, SECOND * 4),
        };
        step(first, What::Join(member));
        for _ in 0..chance.below(4) {
            let at = chance.time(SECOND, plan.end);
            let lasting = chance.millis(10, 6000);
            match chance.below(10) {
                0..=3 => step(at, What::Die(member)),
                4..=6 => step(at, What::Strike(Fault::Sleeps(member, lasting))),
                _ => step(at, What::Strike(Fault::CutOff(member, lasting))),
            }
            let back = chance.time(Duration::ZERO, lasting);
            step(at + back, What::Join(member));
        }
        step(chance.time(SECOND, plan.end), What::Join(member));
    }
}

fn trouble(plan: &mut Plan, chance: &mut Chance) {
    if chance.percent(8) {
        return;
    }
    let pause = chance.time(SECOND / 2, SECOND * 4);
    let mut at = chance.time(Duration::ZERO, pause);
    while at < plan.end {
        if let Some(fault) = fault(plan, chance) {
            let what = What::Strike(fault);
            plan.steps.push(Step { at, what });
        }
        at += chance.time(pause / 2, pause * 2);
    }
}

fn fault(plan: &Plan, chance: &mut Chance) -> Option<Fault> {
    let node = chance.from_to(1, plan.nodes);
    let lasting = match chance.percent(25) {
        true => chance.time(SECOND, SECOND * 8),
        false => chance.time(SECOND / 10, SECOND * 3),
    };
    let topic = chance.below(plan.topics.len());
    let partition = chance.from_to(0, 3);
    Some(match chance.below(100) {
        0..=5 => {
            let how = chance.pick(&[Stop::Clean, Stop::Kill, Stop::Kill, Stop::PowerLoss])?;
            Fault::Dies(node, how, lasting)
        }
        6..=8 => Fault::Pauses(node, lasting),
        9..=10 => Fault::Unreachable(node, lasting),
        11..=12 => Fault::Vanishes(node, lasting),
        13..=16 => Fault::Resets(node),
        17 => Fault::Slow(chance.millis(20, 400), lasting),
        18 => Fault::StandsStill(node, lasting),
        19..=20 => Fault::FollowersLag(chance.millis(20, 1500), lasting),
        21..=26 => Fault::Deposed(topic, partition, lasting),
        27..=32 => Fault::LeaderMoves(topic, partition),
        33 => Fault::HearsLate(node, chance.millis(1, 2000), lasting),
        // Who sends in transactions may not have heard of a new partition.
        34..=37 if plan.transactors.is_empty() => Fault::Grows(topic),
        34..=37 => Fault::LeaderMoves(topic, partition),
        38..=57 => Fault::CoordinatorMoves(chance.pick(&Stage::OF_SHARES)?, chance.percent(60)),
        58..=60 => Fault::CoordinatorDeposed(node, lasting),
        _ => {
            let api = chance.pick(&APIS)?;
            let trouble = of_answer(chance, api)?;
            Fault::Answers(node, api, trouble, 1 + chance.below(3) as u32)
        }
    })
}

/// Whose exchanges get into trouble.
const APIS: [ApiKey; 8] = [
    ApiKey::ShareFetch,
    ApiKey::ShareFetch,
    ApiKey::ShareFetch,
    ApiKey::ShareAcknowledge,
    ApiKey::ShareAcknowledge,
    ApiKey::ShareAcknowledge,
    ApiKey::ShareGroupHeartbeat,
    ApiKey::FindCoordinator,
];

fn of_answer(chance: &mut Chance, api: ApiKey) -> Option<Trouble> {
    Some(match chance.below(10) {
        0..=2 => Trouble::Refused(refusal(chance, api)?),
        3..=4 => Trouble::Late(chance.millis(10, 4000)),
        5 => Trouble::CutAfter(chance.below(60)),
        6 => Trouble::Lost,
        7 => Trouble::ClosedBefore,
        8 => Trouble::Silence,
        _ => Trouble::Swallowed,
    })
}

/// A code that a sound broker may refuse a request of this API with, whoever sends it.
fn refusal(chance: &mut Chance, api: ApiKey) -> Option<ErrorCode> {
    match api {
        ApiKey::ShareFetch => chance.pick(&[
            ErrorCode::SHARE_SESSION_NOT_FOUND,
            ErrorCode::INVALID_SHARE_SESSION_EPOCH,
            ErrorCode::SHARE_SESSION_LIMIT_REACHED,
        ]),
        ApiKey::ShareAcknowledge => chance.pick(&[
            ErrorCode::SHARE_SESSION_NOT_FOUND,
            ErrorCode::INVALID_SHARE_SESSION_EPOCH,
        ]),
        ApiKey::ShareGroupHeartbeat => chance.pick(&[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            // The group was forgotten meanwhile.
            ErrorCode::UNKNOWN_MEMBER_ID,
        ]),
        ApiKey::FindCoordinator => Some(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        _ => None,
    }
}
