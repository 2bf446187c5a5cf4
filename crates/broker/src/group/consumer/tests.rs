//! Consumer groups on a simulated clock, through the coordinator that holds them.

mod classic;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use crate::group::{AsMember, Committed};
use crate::group::{
    Assignor, Beat, Beaten, Catalogue, Committing, ConsumerRules, GroupConfig, Groups, Join, Kept,
    Migration, Owned, Protocol, Refused, Reply, ShareRules, Stored, StoredConsumer, StoredMembers,
};
use crate::ids::Ids;

const SESSION: Duration = Duration::from_secs(45);
const REBALANCE: Duration = Duration::from_secs(300);
const T: Uuid = Uuid([1; 16]);
const U: Uuid = Uuid([2; 16]);

struct Bench {
    groups: Groups<u32>,
    now: Instant,
    version: u64,
    records: Vec<Kept>,
}

impl Bench {
    /// A coordinator of a cluster with the topic "t" of `partitions` partitions.
    fn new(partitions: i32) -> Self {
        Self::with_rules(partitions, |_| {})
    }

    fn with_rules(partitions: i32, change: impl Fn(&mut ConsumerRules)) -> Self {
        let mut consumer = ConsumerRules {
            session: SESSION,
            heartbeat: Duration::from_secs(5),
            assignment_interval: Duration::ZERO,
            most_members: 3,
            assignors: vec![Assignor::Uniform, Assignor::Range],
            migration: Migration::named("bidirectional"),
        };
        change(&mut consumer);
        let config = GroupConfig {
            initial_rebalance_delay: Duration::ZERO,
            min_session_timeout: Duration::from_secs(1),
            max_session_timeout: Duration::from_secs(100),
            consumer,
            share: ShareRules {
                session: SESSION,
                heartbeat: Duration::from_secs(5),
                assignment_interval: Duration::ZERO,
                most_members: 3,
            },
        };
        let mut bench = Self {
            groups: Groups::new(config, Arc::default(), Ids::new(1)),
            now: Instant::now(),
            version: 0,
            records: Vec::new(),
        };
        bench.topics(&[("t", T, partitions)]);
        bench
    }

    fn topics(&mut self, topics: &[(&'static str, Uuid, i32)]) {
        self.version += 1;
        let topics = topics
            .iter()
            .map(|(name, id, count)| ((*name).into(), *id, *count));
        self.groups
            .see(Arc::new(Catalogue::new(self.version, topics)));
    }

    fn send(&mut self, beat: &Beat) -> Result<Beaten, Refused> {
        self.groups
            .beat(beat, &|topic| topic != "secret", 7, self.now);
        self.keep();
        match self.groups.take_replies().pop() {
            Some((7, Reply::Beat(beaten))) => beaten,
            other => panic!("{other:?}"),
        }
    }

    fn keep(&mut self) {
        self.records.extend(self.groups.take_changed(0));
    }

    fn code(&mut self, beat: &Beat) -> ErrorCode {
        self.send(beat).unwrap_err().code
    }

    /// The member's epoch, and its partitions of "t" if it gets any.
    fn told(&mut self, beat: &Beat) -> (i32, Option<Vec<i32>>) {
        let beaten = self.send(beat).unwrap();
        (beaten.epoch, beaten.assignment.map(|it| of(&it, T)))
    }

    fn state(&self) -> &'static str {
        self.groups
            .list()
            .next()
            .map_or("none", |group| group.state)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.groups.handle_timeout(self.now);
    }

    /// Another coordinator, which has read back what this one kept.
    fn successor(&self) -> Self {
        let mut other = Self::new(0);
        other.groups.see(Arc::clone(self.groups.catalogue()));
        other.now = self.now;
        for record in &self.records {
            let (key, value) = record.encode(5).unwrap();
            let value = value.as_deref();
            if let Some(stored) = StoredMembers::decode(&key, value) {
                other.groups.restore(&stored.group, stored.kept.as_ref());
            } else {
                let record = StoredConsumer::decode(&key, value).unwrap();
                other.groups.restore_consumer(record);
            }
        }
        other.groups.forget_changed();
        other.groups.begin_sessions(other.now);
        other
    }
}

fn of(owned: &Owned, topic: Uuid) -> Vec<i32> {
    let topics = owned.iter().filter(|(id, _)| *id == topic);
    topics
        .flat_map(|(_, partitions)| partitions.clone())
        .collect()
}

/// What a member that has nothing to say sends.
fn beat(member: &str, epoch: i32) -> Beat {
    Beat {
        group: "g".to_owned(),
        member: member.to_owned(),
        epoch,
        instance: None,
        rack: None,
        rebalance_timeout_ms: None,
        names: None,
        pattern: None,
        assignor: None,
        owned: None,
        client_id: "c".to_owned(),
        client_host: "/h".to_owned(),
    }
}

fn join(member: &str) -> Beat {
    Beat {
        rebalance_timeout_ms: Some(REBALANCE.as_millis() as i32),
        names: Some(BTreeSet::from(["t".to_owned()])),
        owned: Some(Vec::new()),
        ..beat(member, 0)
    }
}

fn owning(member: &str, epoch: i32, partitions: &[i32]) -> Beat {
    Beat {
        owned: Some(vec![(T, partitions.to_vec())]),
        ..beat(member, epoch)
    }
}

fn static_join(member: &str) -> Beat {
    Beat {
        instance: Some("i".to_owned()),
        ..join(member)
    }
}

/// "a" has revoked half of its partitions for "b", which has them.
fn settled() -> Bench {
    let mut bench = Bench::new(4);
    bench.send(&join("a")).unwrap();
    bench.send(&join("b")).unwrap();
    bench.send(&beat("a", 2)).unwrap();
    bench.send(&owning("a", 2, &[0, 1])).unwrap();
    bench.send(&beat("b", 3)).unwrap();
    assert_eq!(bench.state(), "Stable");
    bench
}

#[test]
fn partitions_go_to_a_newcomer_when_they_are_given_up() {
    let mut bench = Bench::new(4);
    assert_eq!(bench.told(&join("a")), (2, Some(vec![0, 1, 2, 3])));
    assert_eq!(bench.told(&beat("a", 2)), (2, None));
    assert_eq!(bench.state(), "Stable");
    assert_eq!(bench.told(&join("b")), (3, Some(vec![])));
    assert_eq!(bench.state(), "Reconciling");
    assert_eq!(bench.told(&beat("a", 2)), (2, Some(vec![0, 1])));
    assert_eq!(
        bench.told(&owning("a", 2, &[0, 1, 2, 3])),
        (2, None),
        "it still has them"
    );
    assert_eq!(bench.told(&beat("b", 3)), (3, None));
    assert_eq!(bench.told(&owning("a", 2, &[0, 1])), (3, None));
    assert_eq!(bench.told(&beat("b", 3)), (3, Some(vec![2, 3])));
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn who_leaves_or_is_silent_is_out_and_the_others_get_its_partitions() {
    let mut bench = settled();
    let left = bench.send(&beat("b", -1)).unwrap();
    assert_eq!(
        (left.epoch, left.assignment, left.heartbeat),
        (-1, None, None)
    );
    assert_eq!(bench.state(), "Assigning");
    assert_eq!(bench.told(&beat("a", 3)), (4, Some(vec![0, 1, 2, 3])));
    assert_eq!(bench.code(&beat("b", 3)), ErrorCode::UNKNOWN_MEMBER_ID);
    bench.pass(SESSION - Duration::from_millis(1));
    assert_eq!(bench.state(), "Stable");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.state(), "Empty");
    assert_eq!(bench.groups.next_timeout(), None);
    // The epochs go on.
    assert_eq!(bench.told(&join("c")), (6, Some(vec![0, 1, 2, 3])));
}

#[test]
fn who_does_not_give_up_in_time_is_out() {
    let mut bench = Bench::new(4);
    bench.send(&join("a")).unwrap();
    bench.send(&join("b")).unwrap();
    bench.send(&beat("a", 2)).unwrap();
    for _ in 0..REBALANCE.as_secs() / 30 {
        assert_eq!(bench.state(), "Reconciling");
        bench.pass(Duration::from_secs(30));
        bench.send(&beat("b", 3)).unwrap();
        let _ = bench.send(&beat("a", 2));
    }
    assert_eq!(bench.code(&beat("a", 2)), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(bench.told(&beat("b", 4)), (4, None));
    assert_eq!(bench.state(), "Stable");
}

#[test]
fn an_epoch_that_is_not_the_members_own_is_fenced() {
    let mut bench = settled();
    assert_eq!(bench.code(&beat("a", 4)), ErrorCode::FENCED_MEMBER_EPOCH);
    assert_eq!(bench.code(&beat("a", 2)), ErrorCode::FENCED_MEMBER_EPOCH);
    // The response with the epoch was lost: what it has is what it was given.
    assert_eq!(bench.told(&owning("a", 2, &[0])).0, 3);
    assert_eq!(
        bench.code(&owning("a", 2, &[0, 2])),
        ErrorCode::FENCED_MEMBER_EPOCH
    );
    assert_eq!(bench.code(&beat("x", 2)), ErrorCode::UNKNOWN_MEMBER_ID);
    // It may always begin again.
    assert_eq!(bench.told(&join("a")), (3, Some(vec![0, 1])));
    let mut elsewhere = beat("a", 3);
    elsewhere.group = "other".to_owned();
    assert_eq!(bench.code(&elsewhere), ErrorCode::GROUP_ID_NOT_FOUND);
}

#[test]
fn a_static_member_that_is_away_gets_its_partitions_back() {
    let mut bench = Bench::new(4);
    bench.send(&static_join("a")).unwrap();
    assert_eq!(
        bench.code(&static_join("b")),
        ErrorCode::UNRELEASED_INSTANCE_ID
    );
    let mut away = beat("a", -2);
    away.instance = Some("i".to_owned());
    assert_eq!(bench.send(&away).unwrap().epoch, -2);
    assert_eq!(bench.state(), "Reconciling");
    assert_eq!(bench.told(&static_join("b")), (2, Some(vec![0, 1, 2, 3])));
    let mut late = beat("a", 2);
    late.instance = Some("i".to_owned());
    assert_eq!(bench.code(&late), ErrorCode::FENCED_INSTANCE_ID);
    late.instance = Some("j".to_owned());
    assert_eq!(bench.code(&late), ErrorCode::UNKNOWN_MEMBER_ID);
    // Away for too long, it is out.
    away.member = "b".to_owned();
    bench.send(&away).unwrap();
    bench.pass(SESSION);
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn administrators_remove_static_members() {
    let mut bench = Bench::new(4);
    bench.send(&static_join("a")).unwrap();
    let now = bench.now;
    let mut leave = |id, instance| bench.groups.leave("g", id, instance, now);
    assert_eq!(leave("", Some("j")), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(leave("b", Some("i")), Err(ErrorCode::FENCED_INSTANCE_ID));
    assert_eq!(leave("", Some("i")), Ok(()));
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn new_partitions_and_topics_are_noticed() {
    let mut bench = Bench::new(1);
    let mut both = join("a");
    both.names = Some(BTreeSet::from(["t".to_owned(), "u".to_owned()]));
    assert_eq!(bench.told(&both), (2, Some(vec![0])));
    bench.topics(&[("t", T, 3), ("other", Uuid([9; 16]), 1)]);
    assert_eq!(bench.told(&beat("a", 2)), (3, Some(vec![0, 1, 2])));
    bench.topics(&[("t", T, 3), ("u", U, 2)]);
    let beaten = bench.send(&beat("a", 3)).unwrap();
    assert_eq!(
        (beaten.epoch, of(&beaten.assignment.unwrap(), U)),
        (4, vec![0, 1])
    );
    // A topic that is gone is revoked.
    bench.topics(&[("t", T, 3)]);
    assert_eq!(bench.told(&beat("a", 4)), (4, Some(vec![0, 1, 2])));
    assert_eq!(bench.told(&owning("a", 4, &[0, 1, 2])), (5, None));
    bench.topics(&[("t", T, 3), ("other", Uuid([9; 16]), 2)]);
    assert_eq!(
        bench.told(&beat("a", 5)),
        (5, None),
        "it subscribes to no other topic"
    );
}

#[test]
fn a_subscription_by_expression_follows_the_topics() {
    let mut bench = Bench::new(2);
    let mut wants = join("a");
    wants.names = None;
    wants.pattern = Some("(".to_owned());
    assert_eq!(bench.code(&wants), ErrorCode::INVALID_REGULAR_EXPRESSION);
    assert_eq!(bench.state(), "none", "no group came of it");
    wants.pattern = Some("t|s.*".to_owned());
    assert_eq!(bench.told(&wants), (1, Some(vec![])));
    assert_eq!(bench.told(&wants), (2, Some(vec![0, 1])));
    bench.topics(&[("t", T, 2), ("s1", U, 1), ("secret", Uuid([3; 16]), 1)]);
    bench.send(&beat("a", 2)).unwrap();
    let beaten = bench.send(&beat("a", 2)).unwrap();
    let topics = beaten.assignment.unwrap();
    assert_eq!(
        (beaten.epoch, topics.len(), of(&topics, U)),
        (3, 2, vec![0])
    );
    // Names in its place.
    let mut other = beat("a", 3);
    other.pattern = Some(String::new());
    other.names = Some(BTreeSet::from(["s1".to_owned()]));
    assert_eq!(bench.told(&other), (3, Some(vec![])));
    assert_eq!(bench.told(&owning("a", 3, &[])).0, 4);
}

#[test]
fn a_group_has_room_for_so_many() {
    let mut bench = Bench::new(4);
    for member in ["a", "b", "c"] {
        bench.send(&join(member)).unwrap();
    }
    assert_eq!(bench.code(&join("d")), ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert!(bench.send(&join("c")).is_ok());
}

#[test]
fn the_assignor_that_most_ask_for_decides() {
    let mut bench = Bench::new(4);
    bench.send(&join("a")).unwrap();
    bench.send(&join("b")).unwrap();
    let assignor = |bench: &Bench| bench.groups.describe_consumer("g").unwrap().assignor;
    assert_eq!(assignor(&bench), "uniform");
    let mut asks = beat("b", 3);
    asks.assignor = Some("range".to_owned());
    assert_eq!(bench.told(&asks).0, 4, "the group is assigned anew");
    assert_eq!(assignor(&bench), "range");
}

#[test]
fn targets_wait_for_their_interval() {
    let mut bench = Bench::with_rules(2, |it| it.assignment_interval = Duration::from_secs(1));
    assert_eq!(bench.told(&join("a")).0, 2);
    assert_eq!(bench.told(&join("b")), (2, Some(vec![])));
    assert_eq!(bench.state(), "Assigning");
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.told(&beat("b", 2)).0, 3);
}

#[test]
fn commits_count_by_the_epoch_in_which_partitions_came() {
    let mut bench = settled();
    let mut check = |id: &str, generation, partition, how| {
        let as_member = AsMember {
            id: id.to_owned(),
            instance: None,
            generation,
        };
        let stored = Stored {
            group: "g".to_owned(),
            topic: "t".to_owned(),
            partition,
            committed: None,
        };
        bench
            .groups
            .check_commit("g", &as_member, how, &[stored], bench.now)
    };
    let stale = Err(ErrorCode::STALE_MEMBER_EPOCH);
    let with = Committing::WithEpochs;
    assert_eq!(check("a", 3, 0, with), Ok(()));
    assert_eq!(check("a", 2, 0, with), Ok(()), "it has had it since then");
    assert_eq!(check("a", 2, 2, with), stale, "it is another's now");
    assert_eq!(check("b", 2, 2, with), stale);
    assert_eq!(check("a", 4, 0, with), stale);
    assert_eq!(check("x", 3, 0, with), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(check("", -1, 0, with), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(check("", -1, 0, Committing::InTransaction), Ok(()));
    assert_eq!(
        check("a", 2, 2, Committing::InTransaction),
        Err(ErrorCode::ILLEGAL_GENERATION)
    );
    assert_eq!(
        check("a", 2, 2, Committing::BeforeEpochs),
        Err(ErrorCode::UNSUPPORTED_VERSION)
    );
    let fetch = |id, epoch| bench.groups.check_fetch("g", id, epoch);
    assert_eq!(fetch(Some("a"), 3), Ok(()));
    assert_eq!(fetch(None, -1), Ok(()));
    assert_eq!(fetch(Some("a"), 2), stale);
    assert_eq!(fetch(Some("x"), 3), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn members_go_on_with_the_coordinator_that_takes_over() {
    let mut bench = Bench::new(4);
    bench.send(&static_join("a")).unwrap();
    let mut other = join("b");
    other.assignor = Some("uniform".to_owned());
    other.rack = Some("r".to_owned());
    other.pattern = Some("x.*".to_owned());
    bench.send(&other).unwrap();
    let mut revokes = beat("a", 2);
    revokes.instance = Some("i".to_owned());
    assert_eq!(bench.told(&revokes), (2, Some(vec![0, 1])));
    let mut new = bench.successor();
    let described = bench.groups.describe_consumer("g");
    assert_eq!(new.groups.describe_consumer("g"), described);
    assert_eq!(
        new.told(&beat("b", 3)),
        (3, None),
        "the epoch does not grow"
    );
    revokes.owned = Some(vec![(T, vec![0, 1])]);
    assert_eq!(new.told(&revokes), (3, None));
    assert_eq!(new.told(&beat("b", 3)), (3, Some(vec![2, 3])));
    // Who does not find it is out.
    new.pass(SESSION);
    assert_eq!(new.state(), "Empty");
}

#[test]
fn a_member_that_was_giving_up_is_timed_anew() {
    let mut bench = Bench::new(4);
    let mut quick = join("a");
    quick.rebalance_timeout_ms = Some(10_000);
    bench.send(&quick).unwrap();
    bench.send(&join("b")).unwrap();
    bench.send(&beat("a", 2)).unwrap();
    let mut new = bench.successor();
    new.pass(Duration::from_secs(10));
    assert_eq!(new.code(&beat("a", 2)), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn an_empty_group_changes_its_protocol_and_keeps_its_offsets() {
    let mut bench = Bench::new(2);
    let committed = Committed {
        offset: 5,
        leader_epoch: -1,
        metadata: String::new(),
        at: 0,
    };
    bench.groups.commit("g", "t", 0, committed.clone());
    bench.send(&join("a")).unwrap();
    let classic = Join {
        group: "g".to_owned(),
        member: String::new(),
        instance: None,
        client_id: "c".to_owned(),
        client_host: "/h".to_owned(),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: REBALANCE,
        protocol_type: "other".to_owned(),
        protocols: vec![Protocol {
            name: "range".to_owned(),
            metadata: bytes::Bytes::new(),
        }],
        id_first: false,
        can_skip_assignment: true,
    };
    let joined = |bench: &mut Bench| {
        bench.groups.join(classic.clone(), 8, bench.now);
        match bench.groups.take_replies().pop() {
            Some((8, Reply::Join(joined))) => joined.map(|it| it.generation).map_err(|it| it.code),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        joined(&mut bench),
        Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
    );
    assert_eq!(bench.groups.delete("g"), Err(ErrorCode::NON_EMPTY_GROUP));
    bench.send(&beat("a", -1)).unwrap();
    assert_eq!(joined(&mut bench), Ok(1));
    // All that was kept of it goes.
    let kept = bench.groups.take_changed(0);
    assert!(
        kept.iter().all(|it| it.encode(0).unwrap().1.is_none()),
        "{kept:?}"
    );
    assert_eq!(bench.code(&join("a")), ErrorCode::GROUP_ID_NOT_FOUND);
    let offsets = bench.groups.offsets("g").unwrap();
    assert_eq!(offsets.committed("t", 0), Some(&committed));
}

#[test]
fn an_empty_group_is_there_when_a_transaction_takes_its_last_offsets_back() {
    let mut bench = settled();
    for member in ["a", "b"] {
        bench.send(&beat(member, -1)).unwrap();
    }
    let committed = Committed {
        offset: 5,
        leader_epoch: -1,
        metadata: String::new(),
        at: 0,
    };
    for group in ["g", "of nobody"] {
        bench
            .groups
            .commit_in_transaction(group, "t", 0, 3, committed.clone());
    }
    bench.groups.end_transaction(|_| true, 3, false);
    let names: Vec<String> = bench.groups.list().map(|it| it.group).collect();
    assert_eq!((names, bench.state()), (vec!["g".to_owned()], "Empty"));
    assert_eq!(bench.told(&join("c")).0, 6, "its epochs go on");
}

#[test]
fn a_deleted_group_is_not_read_back() {
    let mut bench = settled();
    for member in ["a", "b"] {
        bench.send(&beat(member, -1)).unwrap();
    }
    bench.groups.delete("g").unwrap();
    bench.send(&beat("a", 2)).unwrap_err();
    assert_eq!(bench.state(), "none");
    assert_eq!(bench.successor().state(), "none");
}

#[test]
fn old_offsets_expire_unless_a_member_reads_their_topic() {
    let mut bench = settled();
    let committed = |at| Committed {
        offset: 5,
        leader_epoch: -1,
        metadata: String::new(),
        at,
    };
    bench.groups.commit("g", "t", 0, committed(10));
    bench.groups.commit("g", "u", 0, committed(10));
    bench.groups.commit("g", "u", 1, committed(20));
    bench.groups.commit("alone", "t", 1, committed(10));
    let expired = |bench: &Bench, until| {
        let expired = bench.groups.expired(until).into_iter();
        expired
            .map(|it| (it.group, it.topic, it.partition))
            .collect::<Vec<_>>()
    };
    let row = |group: &str, topic: &str, partition| (group.to_owned(), topic.to_owned(), partition);
    assert_eq!(expired(&bench, 9), []);
    assert_eq!(
        expired(&bench, 10),
        [row("alone", "t", 1), row("g", "u", 0)]
    );
    for member in ["a", "b"] {
        bench.send(&beat(member, -1)).unwrap();
    }
    let all = [
        row("alone", "t", 1),
        row("g", "t", 0),
        row("g", "u", 0),
        row("g", "u", 1),
    ];
    assert_eq!(expired(&bench, 20), all);
}
