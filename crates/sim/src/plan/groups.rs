//! The runs that are about groups: small worlds with one group or two, whose consumers come, go, die, come back, stand still and
//! work for too long, with every assignor of the classic protocol, static or not.

use std::sync::Arc;
use std::time::Duration;

use ottla_broker::Release;
use ottla_broker::node::Stop;
use ottla_protocol::{ApiKey, ErrorCode};

use super::{
    Cluster, Fault, Member, Plan, SECOND, Stage, Step, Topic, Weather, What, any_since, common,
    millis, since,
};
use crate::chance::Chance;
use crate::habits::{By, Commits, Habits};
use crate::keeper::Trouble;

/// A seed of groups has nothing to do with the other seeds of its number.
const SALT: u64 = 0x6772_6f75_7073_3135;

/// Every fault that some seed must meet.
pub const FAULTS: &[&str] = &[
    "Fetch: response late",
    "Fetch: response lost",
    "Fetch: refused",
    "Fetch: request lost",
    "Heartbeat: response late",
    "Heartbeat: response lost",
    "Heartbeat: refused",
    "Heartbeat: request lost",
    "JoinGroup: response late",
    "JoinGroup: response lost",
    "JoinGroup: refused",
    "JoinGroup: request lost",
    "LeaveGroup: response late",
    "LeaveGroup: response lost",
    "LeaveGroup: refused",
    "LeaveGroup: request lost",
    "OffsetCommit: response late",
    "OffsetCommit: response lost",
    "OffsetCommit: refused",
    "OffsetCommit: request lost",
    "OffsetFetch: response late",
    "OffsetFetch: response lost",
    "OffsetFetch: refused",
    "OffsetFetch: request lost",
    "SyncGroup: response late",
    "SyncGroup: response lost",
    "SyncGroup: refused",
    "SyncGroup: request lost",
    "client: cut off",
    "client: stood still",
    "cluster: a follower stood still",
    "cluster: a leader did not hear of its successor",
    "cluster: a leader moved",
    "cluster: a node heard late",
    "cluster: a topic grew",
    "cluster: followers lagged",
    "coordinator: did not hear of its successor",
    "coordinator: moved at Heartbeat",
    "coordinator: moved at JoinGroup",
    "coordinator: moved at LeaveGroup",
    "coordinator: moved at OffsetCommit",
    "coordinator: moved at OffsetFetch",
    "coordinator: moved at SyncGroup",
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
    "response: Fetch OFFSET_OUT_OF_RANGE",
    "response: Fetch session refused",
    "response: Heartbeat FENCED_INSTANCE_ID",
    "response: Heartbeat ILLEGAL_GENERATION",
    "response: Heartbeat REBALANCE_IN_PROGRESS",
    "response: Heartbeat UNKNOWN_MEMBER_ID",
    "response: JoinGroup FENCED_INSTANCE_ID",
    "response: JoinGroup MEMBER_ID_REQUIRED",
    "response: JoinGroup UNKNOWN_MEMBER_ID",
    "response: LeaveGroup UNKNOWN_MEMBER_ID",
    "response: OffsetCommit FENCED_INSTANCE_ID",
    "response: OffsetCommit ILLEGAL_GENERATION",
    "response: OffsetCommit REBALANCE_IN_PROGRESS",
    "response: OffsetCommit UNKNOWN_MEMBER_ID",
    "response: SyncGroup ILLEGAL_GENERATION",
    "response: SyncGroup REBALANCE_IN_PROGRESS",
    "response: SyncGroup UNKNOWN_MEMBER_ID",
    "client: reset an offset",
    "client: saw a leader move",
    "client: saw partitions added",
    "group: a process took the place of another with its instance id",
    "group: began with cooperative-sticky",
    "group: began with range",
    "group: began with roundrobin",
    "group: began with sticky",
    "group: members that offer different assignors",
    "member: a commit came too late",
    "member: a commit that nobody waited for failed",
    "member: a commit was refused at once",
    "member: a commit's outcome stayed unknown",
    "member: a poll raised an error",
    "member: all of its partitions were revoked",
    "member: committed and waited for it",
    "member: committed in its listener",
    "member: did not poll in time",
    "member: dropped records that were stale",
    "member: its partitions were lost",
    "member: joined a generation",
    "member: left and came back",
    "member: some of its partitions were revoked",
    "member: was assigned partitions",
    "member: was expelled between polls",
    "member: was expelled in a poll",
    "member: was expelled while it committed",
    "member: was expelled while its listener worked",
    "member: was fenced by another with its instance id",
    "session: a partition was forgotten",
    "session: all was as before",
    "session: began in place of another",
    "session: what changed was said",
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
    let producers = (0..1 + chance.below(2))
        .map(|number| producer(&mut chance, &cluster, number))
        .collect();
    // Static members came with 2.3, and leaders that restart learn that they are leaders since 3.2
    // (KIP-814).
    let oldest = releases.iter().min().copied();
    let oldest = oldest.unwrap_or(Release::NEWEST);
    let age = Age {
        knows_instances: oldest >= since("2.3"),
        knows_heirs: oldest >= since("3.2"),
    };
    let mut members = Vec::new();
    for group in 0..chance.pick(&[1, 1, 1, 2]).unwrap_or(1) {
        members.extend(group_of(&mut chance, &cluster, group, &age));
    }
    let mut plan = world(&mut chance, releases, producers, members);
    work(&mut plan, &mut chance);
    come_and_go(&mut plan, &mut chance);
    trouble(&mut plan, &mut chance, &CLASSIC);
    plan.steps.sort_by_key(|step| step.at);
    plan
}

/// A run in which nothing happens yet.
pub(super) fn world(
    chance: &mut Chance,
    releases: Vec<Release>,
    producers: Vec<Member>,
    members: Vec<Habits>,
) -> Plan {
    let nodes = i32::try_from(releases.len()).unwrap_or(1);
    let topics = (0..1 + chance.below(2)).map(|number| Topic {
        name: format!("t{number}").into(),
        partitions: chance.pick(&[1, 2, 3, 4]).unwrap_or(1),
        mortal: false,
    });
    let topics = topics.collect();
    let slow = chance.millis(0, 4);
    Plan {
        nodes,
        topics,
        producers,
        transactors: Vec::new(),
        consumers: Vec::new(),
        members,
        shares: Vec::new(),
        sharers: Vec::new(),
        admins: Vec::new(),
        weather: Weather {
            delay: (Duration::from_micros(50), Duration::from_micros(500) + slow),
            pieces: chance.pick(&[0, 0, 5]).unwrap_or(0),
        },
        steps: Vec::new(),
        end: chance.time(SECOND * 10, SECOND * 25),
        min_in_sync: chance.from_to(1, (nodes - 1).max(1)),
        replica_lag: chance.time(SECOND, SECOND * 6),
        first_rebalance: chance
            .pick(&[0, 0, 500, 3000])
            .map_or(Duration::ZERO, Duration::from_millis),
        group_settings: Vec::new(),
        releases,
        authenticated: false,
        chance: chance.fork(),
    }
}

/// Mostly new brokers, else all of one release, or each of another.
fn releases(chance: &mut Chance, nodes: i32) -> Vec<Release> {
    let each = 0..nodes;
    match chance.below(10) {
        0..=5 => each.map(|_| Release::NEWEST).collect(),
        6..=7 => {
            let release = any_since(chance, "0.11.0");
            each.map(|_| release).collect()
        }
        _ => each.map(|_| any_since(chance, "1.0")).collect(),
    }
}

pub(super) fn producer(chance: &mut Chance, cluster: &Cluster, number: usize) -> Member {
    let mut pairs = common(chance, cluster, format!("producer-{number}"));
    pairs.extend([
        ("enable.idempotence", "true".to_owned()),
        ("acks", "all".to_owned()),
        ("linger.ms", millis(chance, &[0, 1, 20])),
        ("batch.size", millis(chance, &[200, 2000, 100_000])),
        ("delivery.timeout.ms", millis(chance, &[9000, 15_000])),
        ("max.block.ms", millis(chance, &[2000, 5000])),
    ]);
    Member {
        pairs,
        rest: Duration::ZERO,
        most: 0,
    }
}

/// What the members of one group offer. All know one of them.
const STRATEGIES: [&str; 7] = [
    "range",
    "roundrobin",
    "sticky",
    "cooperative-sticky",
    "cooperative-sticky",
    "cooperative-sticky",
    // A change from one to the other, in the middle of it. Nobody may prefer what others lack: a coordinator that takes over knows
    // of each member only what the group had chosen, and refuses who does not offer that.
    "range|range,cooperative-sticky",
];

/// What all brokers know.
struct Age {
    knows_instances: bool,
    knows_heirs: bool,
}

fn group_of(chance: &mut Chance, cluster: &Cluster, group: usize, age: &Age) -> Vec<Habits> {
    let strategies = chance.pick(&STRATEGIES).unwrap_or("range");
    // A static member that restarts before it has rejoined leaves partitions that it revoked
    // unassigned. If it was the leader, nobody knows that, unless JoinGroup returns that it is the
    // leader.
    let may_lead = age.knows_heirs || strategies != "cooperative-sticky";
    let is_static = age.knows_instances && may_lead && chance.percent(60);
    let session = chance.pick(&[1500, 3000, 6000]).unwrap_or(3000);
    let interval = chance.pick(&[3000, 5000, 8000]).unwrap_or(5000);
    let reset = chance.pick(&["earliest", "earliest", "none"]);
    let count = chance.pick(&[1, 2, 2, 3, 3, 4]).unwrap_or(2);
    let of = Group {
        number: group,
        is_static,
        cooperates: strategies == "cooperative-sticky",
        by_epoch: false,
        poll_interval: Duration::from_millis(interval),
        reset: reset.unwrap_or("earliest"),
    };
    let members = (0..count).map(|number| {
        member(chance, cluster, &of, number, |chance| {
            let offered: Vec<&str> = strategies.split('|').collect();
            let strategy = chance.pick(&offered).unwrap_or("range");
            vec![
                ("partition.assignment.strategy", strategy.to_owned()),
                ("session.timeout.ms", session.to_string()),
                ("heartbeat.interval.ms", (session / 5).to_string()),
            ]
        })
    });
    members.collect()
}

/// What the members of a group have in common.
pub(super) struct Group {
    pub(super) number: usize,
    pub(super) is_static: bool,
    pub(super) cooperates: bool,
    pub(super) by_epoch: bool,
    pub(super) poll_interval: Duration,
    pub(super) reset: &'static str,
}

/// A member of a group, with the settings of its protocol.
pub(super) fn member(
    chance: &mut Chance,
    cluster: &Cluster,
    group: &Group,
    number: usize,
    protocol: impl FnOnce(&mut Chance) -> Vec<(&'static str, String)>,
) -> Habits {
    let Group {
        number: of,
        poll_interval,
        ..
    } = *group;
    let mut pairs = common(chance, cluster, format!("member-{of}-{number}"));
    // Who leads looks at the topics often enough to see one grow.
    for (name, value) in &mut pairs {
        if *name == "metadata.max.age.ms" && value == "300000" {
            "15000".clone_into(value);
        }
    }
    pairs.extend(protocol(chance));
    let commits = chance.pick(&[Commits::ByPolls, Commits::Waiting, Commits::Later]);
    let commits = commits.unwrap_or(Commits::ByPolls);
    let is_static = group.is_static && chance.percent(80);
    let instance = is_static.then(|| format!("i-{of}-{number}"));
    pairs.extend([
        ("group.id", name(of)),
        (
            "max.poll.interval.ms",
            poll_interval.as_millis().to_string(),
        ),
        ("auto.offset.reset", group.reset.to_owned()),
        (
            "enable.auto.commit",
            (commits == Commits::ByPolls).to_string(),
        ),
        (
            "auto.commit.interval.ms",
            millis(chance, &[250, 1000, 3000]),
        ),
        ("fetch.max.wait.ms", millis(chance, &[250, 500])),
        (
            "max.partition.fetch.bytes",
            millis(chance, &[300, 4000, 1_000_000]),
        ),
    ]);
    if let Some(instance) = &instance {
        pairs.push(("group.instance.id", instance.clone()));
    }
    Habits {
        group: of,
        pairs,
        instance: instance.map(Arc::from),
        cooperates: group.cooperates,
        by_epoch: group.by_epoch,
        commits,
        commits_in_listener: chance.percent(40),
        listens: chance
            .pick(&[0, 50, 1000, 6000])
            .map_or(Duration::ZERO, Duration::from_millis),
        works: chance
            .pick(&[5, 50, 500])
            .map_or(Duration::ZERO, Duration::from_millis),
        most: chance.pick(&[1, 3, 10, 500]).unwrap_or(500),
        subscribes: match chance.percent(20) {
            true => By::Pattern,
            false => By::Names,
        },
        poll_interval,
    }
}

/// A group's id.
pub fn name(group: usize) -> String {
    format!("group-{group}")
}

/// What applications do.
pub(super) fn work(plan: &mut Plan, chance: &mut Chance) {
    for producer in 0..plan.producers.len() {
        for _ in 0..8 + chance.below(16) {
            let at = chance.time(Duration::ZERO, plan.end);
            let what = plan.send(chance, producer);
            plan.steps.push(Step { at, what });
        }
    }
    for member in 0..plan.members.len() {
        for _ in 0..chance.below(7) {
            let at = chance.time(SECOND, plan.end);
            let what = What::Deed(member, chance.number());
            plan.steps.push(Step { at, what });
        }
    }
}

/// Processes begin, end, and begin again; with an instance id at times before the last one knows that it is gone.
pub(super) fn come_and_go(plan: &mut Plan, chance: &mut Chance) {
    let mut step = |at, what| plan.steps.push(Step { at, what });
    for member in 0..plan.members.len() {
        // Every prefix has one.
        let first = match member {
            0 => Duration::ZERO,
            _ => chance.time(Duration::ZERO, SECOND * 5),
        };
        step(first, What::Join(member));
        for _ in 0..chance.below(4) {
            let at = chance.time(SECOND, plan.end);
            let lasting = chance.millis(10, 7000);
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

/// Which steps of members coordinators move at, and whose exchanges get into trouble.
pub(super) struct Aims {
    pub(super) stages: &'static [Stage],
    pub(super) apis: &'static [ApiKey],
}

const CLASSIC: Aims = Aims {
    stages: &Stage::OF_GROUPS,
    apis: &APIS,
};

pub(super) fn trouble(plan: &mut Plan, chance: &mut Chance, aims: &Aims) {
    if chance.percent(8) {
        return;
    }
    let pause = chance.time(SECOND / 2, SECOND * 5);
    let mut at = chance.time(Duration::ZERO, pause);
    while at < plan.end {
        if let Some(fault) = fault(plan, chance, aims) {
            let what = What::Strike(fault);
            plan.steps.push(Step { at, what });
        }
        at += chance.time(pause / 2, pause * 2);
    }
}

fn fault(plan: &Plan, chance: &mut Chance, aims: &Aims) -> Option<Fault> {
    let node = chance.from_to(1, plan.nodes);
    let lasting = match chance.percent(25) {
        true => chance.time(SECOND, SECOND * 8),
        false => chance.time(SECOND / 10, SECOND * 3),
    };
    let topic = chance.below(plan.topics.len());
    let partition = chance.from_to(0, 3);
    // Nothing distinguishes a stale leader from the current one, where brokers return no epochs.
    let tells_epochs = plan.releases.iter().all(|release| *release >= since("2.4"));
    // A static leader that restarts and does not learn that it is the leader does not watch the
    // topics.
    let knows_heirs = plan.releases.iter().all(|release| *release >= since("3.2"));
    let may_grow = knows_heirs || plan.members.iter().all(|it| it.instance.is_none());
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
        19..=21 => Fault::FollowersLag(chance.millis(20, 1500), lasting),
        22..=23 if tells_epochs => Fault::Deposed(topic, partition, lasting),
        22..=26 => Fault::LeaderMoves(topic, partition),
        27 if tells_epochs => Fault::HearsLate(node, chance.millis(1, 2000), lasting),
        27..=30 if may_grow => Fault::Grows(topic),
        27..=30 => Fault::LeaderMoves(topic, partition),
        31..=52 => Fault::CoordinatorMoves(chance.pick(aims.stages)?, chance.percent(60)),
        53..=56 if tells_epochs => Fault::CoordinatorDeposed(node, lasting),
        _ => {
            let api = chance.pick(aims.apis)?;
            let trouble = of_answer(chance, api)?;
            Fault::Answers(node, api, trouble, 1 + chance.below(3) as u32)
        }
    })
}

/// Whose exchanges get into trouble.
const APIS: [ApiKey; 16] = [
    ApiKey::JoinGroup,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::SyncGroup,
    ApiKey::Heartbeat,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::LeaveGroup,
    ApiKey::OffsetCommit,
    ApiKey::OffsetCommit,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::OffsetFetch,
    ApiKey::Fetch,
    ApiKey::Fetch,
    ApiKey::FindCoordinator,
];

fn of_answer(chance: &mut Chance, api: ApiKey) -> Option<Trouble> {
    Some(match chance.below(10) {
        0..=2 => Trouble::Refused(refusal(chance, api)?),
        3..=4 => Trouble::Late(chance.millis(10, 5000)),
        5 => Trouble::CutAfter(chance.below(60)),
        6 => Trouble::Lost,
        7 => Trouble::ClosedBefore,
        8 => Trouble::Silence,
        _ => Trouble::Swallowed,
    })
}

/// A code that a sound broker may refuse a request of this API with, whoever sends it.
fn refusal(chance: &mut Chance, api: ApiKey) -> Option<ErrorCode> {
    let of_coordinators = [
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_COORDINATOR,
    ];
    match api {
        ApiKey::JoinGroup => chance.pick(&[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            // The group was forgotten meanwhile.
            ErrorCode::UNKNOWN_MEMBER_ID,
        ]),
        ApiKey::SyncGroup | ApiKey::Heartbeat => chance.pick(&[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::UNKNOWN_MEMBER_ID,
            // The group has continued with an instance that did not respond.
            ErrorCode::ILLEGAL_GENERATION,
        ]),
        ApiKey::ConsumerGroupHeartbeat => chance.pick(&[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::FENCED_MEMBER_EPOCH,
        ]),
        ApiKey::Fetch => chance.pick(&[
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode::INVALID_FETCH_SESSION_EPOCH,
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::KAFKA_STORAGE_ERROR,
        ]),
        ApiKey::FindCoordinator => Some(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        _ => chance.pick(&of_coordinators),
    }
}
