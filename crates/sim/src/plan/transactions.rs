//! The runs that are about transactions: small worlds with a few transactional ids, each with producers that succeed each other
//! while the ones before go on, and with readers that see all or only what was committed.

use std::time::Duration;

use ottla_broker::Release;
use ottla_broker::node::Stop;
use ottla_protocol::{ApiKey, ErrorCode};

use super::{
    Cluster, Fault, Member, Plan, SECOND, Stage, Step, Topic, Weather, What, common, millis, since,
};
use crate::chance::Chance;
use crate::keeper::Trouble;

/// A transactional seed has nothing to do with the other seed of its number.
const SALT: u64 = 0x7472_616e_7361_6374;

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "AddOffsetsToTxn: response late",
    "AddOffsetsToTxn: response lost",
    "AddOffsetsToTxn: refused",
    "AddOffsetsToTxn: request lost",
    "AddPartitionsToTxn: response late",
    "AddPartitionsToTxn: response lost",
    "AddPartitionsToTxn: refused",
    "AddPartitionsToTxn: request lost",
    "EndTxn: response late",
    "EndTxn: response lost",
    "EndTxn: refused",
    "EndTxn: request lost",
    "InitProducerId: response late",
    "InitProducerId: response lost",
    "InitProducerId: refused",
    "InitProducerId: request lost",
    "Produce: response late",
    "Produce: response lost",
    "Produce: refused",
    "Produce: request lost",
    "TxnOffsetCommit: response late",
    "TxnOffsetCommit: response lost",
    "TxnOffsetCommit: refused",
    "TxnOffsetCommit: request lost",
    "client: cut off",
    "client: stood still",
    "cluster: a follower stood still",
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
    "cluster: followers lagged",
    "coordinator: did not hear of its successor",
    "coordinator: moved at AddOffsetsToTxn",
    "coordinator: moved at AddPartitionsToTxn",
    "coordinator: moved at EndTxn",
    "coordinator: moved at InitProducerId",
    "coordinator: moved at Produce",
    "coordinator: moved at TxnOffsetCommit",
    "coordinator: moved while markers were written",
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
    "response: AddOffsetsToTxn CONCURRENT_TRANSACTIONS",
    "response: AddPartitionsToTxn CONCURRENT_TRANSACTIONS",
    "response: EndTxn CONCURRENT_TRANSACTIONS",
    "response: EndTxn INVALID_TXN_STATE",
    "response: EndTxn fenced",
    "response: InitProducerId CONCURRENT_TRANSACTIONS",
    "response: InitProducerId fenced",
    "response: Produce CONCURRENT_TRANSACTIONS",
    "response: Produce OUT_OF_ORDER_SEQUENCE_NUMBER",
    "response: Produce UNKNOWN_PRODUCER_ID",
    "response: Produce fenced",
    "response: TxnOffsetCommit fenced",
    "client: split a batch",
    "producer: a record with an unknown result was in the log",
    "producer: a record with an unknown result was not in the log",
    "reader: hid records of an aborted transaction",
    "transaction: a refused commit may have been carried out",
    "transaction: aborted",
    "transaction: an abort was not known to be done",
    "transaction: committed with protocol 1",
    "transaction: committed with protocol 2",
    "transaction: could only be aborted",
    "transaction: its producer got the next epoch",
    "transaction: its producer was fenced",
    "transaction: offsets were committed with it",
    "transaction: settled later as aborted",
    "transaction: settled later as committed",
    "transaction: took longer than its timeout",
    "transaction: was not flushed in time",
    "transaction: whether it was committed was not known",
    "zombie: tried to commit",
    "zombie: tried to write",
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
    let transactors = (0..1 + chance.below(3))
        .map(|number| transactor(&mut chance, &cluster, number))
        .collect();
    let producers = (0..chance.below(2))
        .map(|number| producer(&mut chance, &cluster, number))
        .collect();
    let levels = ["read_committed", "read_uncommitted"];
    let consumers = levels.iter().enumerate();
    let consumers = consumers
        .map(|(number, level)| reader(&mut chance, &cluster, number, level))
        .collect();
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
        consumers,
        members: Vec::new(),
        shares: Vec::new(),
        sharers: Vec::new(),
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
        group_settings: Vec::new(),
        releases,
        authenticated: false,
        chance: chance.fork(),
    };
    plan.begin(&mut chance);
    work(&mut plan, &mut chance);
    succeed(&mut plan, &mut chance);
    trouble(&mut plan, &mut chance);
    plan.steps.sort_by_key(|step| step.at);
    plan
}

/// All with the second protocol, or all before it: a cluster has one level of `transaction.version`.
fn releases(chance: &mut Chance, nodes: i32) -> Vec<Release> {
    let each = 0..nodes;
    match chance.below(10) {
        0..=3 => each.map(|_| Release::NEWEST).collect(),
        4 => each.map(|_| since("4.0")).collect(),
        5..=8 => {
            let release = first(chance);
            each.map(|_| release).collect()
        }
        _ => each.map(|_| first(chance)).collect(),
    }
}

/// A release that has the first protocol.
fn first(chance: &mut Chance) -> Release {
    let all = Release::all().filter(|it| *it >= since("0.11.0") && *it < since("4.0"));
    let all: Vec<_> = all.collect();
    // A producer can get its own next epoch only since 2.5.
    let recent = all.iter().copied().filter(|it| *it >= since("2.8"));
    let recent: Vec<_> = recent.collect();
    let of = if chance.percent(70) { &recent } else { &all };
    chance.pick(of).unwrap_or(Release::NEWEST)
}

/// What all who send have in common here: less patience than elsewhere.
fn sender(chance: &mut Chance, cluster: &Cluster, name: String) -> Vec<(&'static str, String)> {
    let mut pairs = common(chance, cluster, name);
    pairs.retain(|(name, _)| *name != "request.timeout.ms");
    pairs.extend([
        ("request.timeout.ms", millis(chance, &[1000, 2000])),
        ("delivery.timeout.ms", millis(chance, &[2500, 5000, 10_000])),
        ("linger.ms", millis(chance, &[0, 0, 1, 20])),
        ("batch.size", millis(chance, &[200, 2000, 100_000])),
        ("max.block.ms", millis(chance, &[2000, 5000])),
        (
            "max.in.flight.requests.per.connection",
            millis(chance, &[1, 2, 5]),
        ),
        (
            "compression.type",
            chance
                .pick(&["none", "none", "lz4"])
                .unwrap_or("none")
                .to_owned(),
        ),
    ]);
    pairs
}

fn member(pairs: Vec<(&'static str, String)>) -> Member {
    Member {
        pairs,
        rest: Duration::ZERO,
        most: 0,
    }
}

fn transactor(chance: &mut Chance, cluster: &Cluster, number: usize) -> Member {
    let mut pairs = sender(chance, cluster, format!("id-{number}"));
    pairs.extend([
        ("transactional.id", format!("id-{number}")),
        (
            "transaction.timeout.ms",
            millis(chance, &[1500, 4000, 10_000]),
        ),
    ]);
    member(pairs)
}

/// A producer without transactions, whose records stand between those of transactions.
fn producer(chance: &mut Chance, cluster: &Cluster, number: usize) -> Member {
    let mut pairs = sender(chance, cluster, format!("producer-{number}"));
    pairs.push(("enable.idempotence", "true".to_owned()));
    member(pairs)
}

fn reader(chance: &mut Chance, cluster: &Cluster, number: usize, level: &str) -> Member {
    let mut pairs = common(chance, cluster, format!("consumer-{number}"));
    pairs.extend([
        ("auto.offset.reset", "earliest".to_owned()),
        ("isolation.level", level.to_owned()),
        ("fetch.max.wait.ms", millis(chance, &[100, 500])),
        (
            "max.partition.fetch.bytes",
            millis(chance, &[300, 4000, 1_000_000]),
        ),
    ]);
    Member {
        pairs,
        rest: chance.millis(1, 200),
        most: chance.pick(&[1, 10, 500]).unwrap_or(500),
    }
}

/// Transactions, and concurrent work.
fn work(plan: &mut Plan, chance: &mut Chance) {
    for id in 0..plan.transactors.len() {
        for _ in 0..4 + chance.below(10) {
            let at = chance.time(Duration::ZERO, plan.end);
            let what = What::Transact(id, chance.number());
            plan.steps.push(Step { at, what });
        }
    }
    for producer in 0..plan.producers.len() {
        for _ in 0..4 + chance.below(8) {
            let at = chance.time(Duration::ZERO, plan.end);
            let what = plan.send(chance, producer);
            plan.steps.push(Step { at, what });
        }
    }
    for _ in 0..chance.below(4) {
        let at = chance.time(Duration::ZERO, plan.end);
        let consumer = chance.below(plan.consumers.len());
        let what = What::Seek(consumer, chance.number(), super::aim(chance));
        plan.steps.push(Step { at, what });
    }
}

/// Producers that take over: mostly while the one before is away, which goes on later and knows of nothing.
fn succeed(plan: &mut Plan, chance: &mut Chance) {
    for id in 0..plan.transactors.len() {
        for _ in 0..chance.below(4) {
            let at = chance.time(SECOND, plan.end);
            let lasting = chance.millis(200, 6000);
            let away = match chance.below(10) {
                0..=3 => Some(Fault::Sleeps(id, lasting)),
                4..=7 => Some(Fault::CutOff(id, lasting)),
                _ => None,
            };
            if let Some(fault) = away {
                let what = What::Strike(fault);
                plan.steps.push(Step { at, what });
            }
            let later = chance.time(Duration::ZERO, lasting);
            plan.steps.push(Step {
                at: at + later,
                what: What::Succeed(id),
            });
            // It is busy when it is away, and when it comes back.
            for at in [at.saturating_sub(chance.millis(0, 200)), at + lasting] {
                let what = What::Transact(id, chance.number());
                plan.steps.push(Step { at, what });
            }
        }
    }
}

fn trouble(plan: &mut Plan, chance: &mut Chance) {
    if chance.percent(8) {
        return;
    }
    let pause = chance.time(SECOND / 2, SECOND * 5);
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
    let partition = chance.from_to(0, 2);
    let id = chance.below(plan.transactors.len());
    Some(match chance.below(100) {
        0..=5 => {
            let how = chance.pick(&[Stop::Clean, Stop::Kill, Stop::Kill, Stop::PowerLoss])?;
            Fault::Dies(node, how, lasting)
        }
        6..=8 => Fault::Pauses(node, lasting),
        9..=10 => Fault::Unreachable(node, lasting),
        11..=12 => Fault::Vanishes(node, lasting),
        13..=15 => Fault::Resets(node),
        16 => Fault::Slow(chance.millis(20, 400), lasting),
        17..=18 => Fault::StandsStill(node, lasting),
        19..=22 => Fault::FollowersLag(chance.millis(20, 1500), lasting),
        23..=24 => Fault::Deposed(topic, partition, lasting),
        25..=27 => Fault::LeaderMoves(topic, partition),
        28 => Fault::HearsLate(node, chance.millis(1, 2000), lasting),
        29..=32 => Fault::Sleeps(id, lasting),
        33..=36 => Fault::CutOff(id, lasting),
        37..=58 => {
            Fault::CoordinatorMoves(chance.pick(&Stage::OF_TRANSACTIONS)?, chance.percent(60))
        }
        59..=62 => Fault::CoordinatorDeposed(node, lasting),
        _ => {
            let api = chance.pick(&APIS)?;
            let trouble = of_answer(chance, api)?;
            Fault::Answers(node, api, trouble, 1 + chance.below(3) as u32)
        }
    })
}

/// Whose exchanges get into trouble.
const APIS: [ApiKey; 14] = [
    ApiKey::InitProducerId,
    ApiKey::InitProducerId,
    ApiKey::AddPartitionsToTxn,
    ApiKey::AddOffsetsToTxn,
    ApiKey::TxnOffsetCommit,
    ApiKey::TxnOffsetCommit,
    ApiKey::EndTxn,
    ApiKey::EndTxn,
    ApiKey::EndTxn,
    ApiKey::Produce,
    ApiKey::Produce,
    ApiKey::Produce,
    ApiKey::Produce,
    ApiKey::FindCoordinator,
];

fn of_answer(chance: &mut Chance, api: ApiKey) -> Option<Trouble> {
    Some(match chance.below(10) {
        0..=1 if api == ApiKey::Produce => Trouble::Refused(chance.pick(&[
            ErrorCode::MESSAGE_TOO_LARGE,
            ErrorCode::MESSAGE_TOO_LARGE,
            ErrorCode::NOT_ENOUGH_REPLICAS,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::UNKNOWN_PRODUCER_ID,
            ErrorCode::CORRUPT_MESSAGE,
            ErrorCode::INVALID_RECORD,
        ])?),
        2 if api == ApiKey::Produce => Trouble::AppliedYet(chance.pick(&[
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ])?),
        // A coordinator that wrote the end, and then failed, lost its place or its replicas.
        2 if api == ApiKey::EndTxn => Trouble::AppliedYet(chance.pick(&[
            ErrorCode::UNKNOWN_SERVER_ERROR,
            ErrorCode::UNKNOWN_SERVER_ERROR,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
        ])?),
        0..=2 => Trouble::Refused(super::exchanges::refusal(chance, api)?),
        3..=4 => Trouble::Late(chance.millis(10, 5000)),
        5 => Trouble::CutAfter(chance.below(60)),
        6 => Trouble::Lost,
        7 => Trouble::ClosedBefore,
        8 => Trouble::Silence,
        _ => Trouble::Swallowed,
    })
}
