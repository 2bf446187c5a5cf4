//! Share groups on a simulated clock, through the coordinator that holds them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use super::{ShareBeat, ShareRules};
use crate::group::{
    AsMember, Assignor, Beaten, Catalogue, Committing, ConsumerRules, GroupConfig, Groups, Kept,
    Migration, Refused, Reply, StoredShare,
};
use crate::ids::Ids;

const SESSION: Duration = Duration::from_secs(45);
const T: Uuid = Uuid([1; 16]);

struct Bench {
    groups: Groups<u32>,
    now: Instant,
    version: u64,
    records: Vec<StoredShare>,
}

impl Bench {
    /// A coordinator of a cluster with the topic "t" of `partitions` partitions.
    fn new(partitions: i32) -> Self {
        let config = GroupConfig {
            initial_rebalance_delay: Duration::ZERO,
            min_session_timeout: Duration::from_secs(1),
            max_session_timeout: Duration::from_secs(100),
            consumer: ConsumerRules {
                session: SESSION,
                heartbeat: Duration::from_secs(5),
                assignment_interval: Duration::ZERO,
                most_members: 3,
                assignors: vec![Assignor::Uniform],
                migration: Migration::named("bidirectional"),
            },
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
        bench.topic(partitions);
        bench
    }

    fn topic(&mut self, partitions: i32) {
        self.version += 1;
        let topics = [("t".into(), T, partitions)].into_iter();
        self.groups
            .see(Arc::new(Catalogue::new(self.version, topics)));
    }

    fn beat(
        &mut self,
        member: &str,
        epoch: i32,
        names: Option<&[&str]>,
    ) -> Result<Beaten, Refused> {
        let beat = ShareBeat {
            group: "g".to_owned(),
            member: member.to_owned(),
            epoch,
            rack: None,
            names: names.map(|names| names.iter().map(ToString::to_string).collect()),
            client_id: "me".to_owned(),
            client_host: "/h".to_owned(),
        };
        self.groups.beat_share(&beat, 7, self.now);
        for kept in self.groups.take_changed(0) {
            if let Kept::Share(record) = kept {
                self.records.push(record);
            }
        }
        match self.groups.take_replies().pop() {
            Some((7, Reply::Beat(beaten))) => beaten,
            other => panic!("{other:?}"),
        }
    }

    fn join(&mut self, member: &str) -> Beaten {
        self.beat(member, 0, Some(&["t"])).unwrap()
    }

    fn code(&mut self, member: &str, epoch: i32) -> ErrorCode {
        self.beat(member, epoch, None).unwrap_err().code
    }

    fn partitions(beaten: &Beaten) -> Vec<i32> {
        let assignment = beaten.assignment.iter().flatten();
        assignment
            .flat_map(|(_, partitions)| partitions)
            .copied()
            .collect()
    }
}

/// The epochs are those that Kafka 4.4.0 returned in the same steps.
#[test]
fn members_come_to_the_epoch_of_the_group_and_go() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.code("a", 5), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(bench.code("a", -1), ErrorCode::GROUP_ID_NOT_FOUND);
    let a = bench.join("a");
    assert_eq!((a.epoch, Bench::partitions(&a)), (2, vec![0, 1]));
    assert_eq!(a.heartbeat, Some(Duration::from_secs(5)));
    let again = bench.beat("a", 2, None).unwrap();
    assert_eq!((again.epoch, again.assignment), (2, None));
    assert_eq!(bench.code("a", 9), ErrorCode::FENCED_MEMBER_EPOCH);
    assert_eq!(bench.code("a", 1), ErrorCode::FENCED_MEMBER_EPOCH);
    assert_eq!(bench.code("b", 2), ErrorCode::UNKNOWN_MEMBER_ID);
    let b = bench.join("b");
    assert_eq!((b.epoch, Bench::partitions(&b)), (3, vec![1]));
    let a = bench.beat("a", 2, None).unwrap();
    assert_eq!((a.epoch, Bench::partitions(&a)), (3, vec![0]));
    let lost = bench.beat("a", 2, None).unwrap();
    assert_eq!(
        (lost.epoch, Bench::partitions(&lost)),
        (3, vec![0]),
        "the answer was lost"
    );
    let rejoined = bench.join("a");
    assert_eq!((rejoined.epoch, Bench::partitions(&rejoined)), (3, vec![0]));
    let left = bench.beat("b", -1, None).unwrap();
    assert_eq!((left.epoch, left.heartbeat), (-1, None));
    assert_eq!(bench.code("b", -1), ErrorCode::UNKNOWN_MEMBER_ID);
    let a = bench.beat("a", 3, None).unwrap();
    assert_eq!((a.epoch, Bench::partitions(&a)), (4, vec![0, 1]));
}

#[test]
fn members_may_be_more_than_partitions_but_not_more_than_allowed() {
    let mut bench = Bench::new(1);
    for member in ["a", "b", "c"] {
        assert_eq!(Bench::partitions(&bench.join(member)), [0]);
    }
    let refused = bench.beat("d", 0, Some(&["t"])).unwrap_err();
    assert_eq!(refused.code, ErrorCode::GROUP_MAX_SIZE_REACHED);
}

#[test]
fn topics_that_come_and_grow_are_noticed() {
    let mut bench = Bench::new(1);
    bench.join("a");
    bench.topic(3);
    let a = bench.beat("a", 2, None).unwrap();
    assert_eq!((a.epoch, Bench::partitions(&a)), (3, vec![0, 1, 2]));
    let other = bench.beat("a", 3, Some(&["absent"])).unwrap();
    assert_eq!((other.epoch, Bench::partitions(&other)), (4, vec![]));
}

#[test]
fn who_is_not_heard_of_is_out() {
    let mut bench = Bench::new(2);
    bench.join("a");
    bench.now += Duration::from_secs(30);
    bench.join("b");
    assert!(bench.groups.next_timeout().is_some());
    bench.now += Duration::from_secs(15);
    bench.groups.handle_timeout(bench.now);
    assert_eq!(bench.code("a", 2), ErrorCode::UNKNOWN_MEMBER_ID);
    let b = bench.beat("b", 3, None).unwrap();
    assert_eq!((b.epoch, Bench::partitions(&b)), (4, vec![0, 1]));
}

#[test]
fn a_group_that_was_read_back_goes_on() {
    let mut bench = Bench::new(2);
    bench.join("a");
    bench.join("b");
    bench.beat("a", 2, None).unwrap();
    bench.beat("b", -1, None).unwrap();
    let records = std::mem::take(&mut bench.records);
    let mut later = Bench::new(2);
    for record in records {
        let (key, value) = record.encode(0).unwrap();
        let read = StoredShare::decode(&key, value.as_deref()).unwrap();
        later.groups.restore_share(read);
    }
    later.groups.begin_sessions(later.now);
    let found = later.groups.describe_share("g").unwrap();
    assert_eq!(
        (found.state, found.epoch, found.members.len()),
        ("Stable", 4, 1)
    );
    let a = later.beat("a", 3, None).unwrap();
    assert_eq!((a.epoch, Bench::partitions(&a)), (4, vec![0, 1]));
    later.now += SESSION;
    later.groups.handle_timeout(later.now);
    assert_eq!(later.groups.describe_share("g").unwrap().state, "Empty");
    later.groups.delete("g").unwrap();
    assert_eq!(later.groups.describe_share("g"), None);
}

#[test]
fn a_share_group_is_no_other_and_others_are_none() {
    let mut bench = Bench::new(2);
    bench.join("a");
    assert_eq!(
        bench.groups.delete("g").map(drop),
        Err(ErrorCode::NON_EMPTY_GROUP)
    );
    let listed: Vec<_> = bench.groups.list().collect();
    assert_eq!(
        (listed[0].kind, listed[0].protocol_type.as_str()),
        ("share", "share")
    );
    let nobody = AsMember {
        id: String::new(),
        generation: -1,
        instance: None,
    };
    let now = bench.now;
    let committed = bench
        .groups
        .check_commit("g", &nobody, Committing::WithEpochs, &[], now);
    assert_eq!(committed, Err(ErrorCode::GROUP_ID_NOT_FOUND));
    assert_eq!(bench.groups.describe_consumer("g"), None);
}
