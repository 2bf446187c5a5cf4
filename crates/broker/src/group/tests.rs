//! The coordinator on a simulated clock: no sleeps, no sockets.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use super::*;

const SESSION: Duration = Duration::from_secs(10);
const REBALANCE: Duration = Duration::from_secs(60);

/// A coordinator with one group "g", and its clock.
struct Bench {
    groups: Groups<u32>,
    now: Instant,
    next_ticket: u32,
    answered: Vec<(u32, Reply)>,
}

impl Bench {
    fn new(initial_rebalance_delay: Duration) -> Self {
        let config = GroupConfig {
            initial_rebalance_delay,
            min_session_timeout: Duration::from_secs(1),
            max_session_timeout: Duration::from_secs(100),
            consumer: ConsumerRules {
                session: SESSION,
                heartbeat: Duration::from_secs(3),
                assignment_interval: Duration::ZERO,
                most_members: 3,
                assignors: vec![Assignor::Uniform, Assignor::Range],
                migration: Migration::named("bidirectional"),
            },
            share: ShareRules {
                session: SESSION,
                heartbeat: Duration::from_secs(5),
                assignment_interval: Duration::ZERO,
                most_members: 3,
            },
        };
        Self {
            groups: Groups::new(config, Arc::default(), Ids::new(1)),
            now: Instant::now(),
            next_ticket: 0,
            answered: Vec::new(),
        }
    }

    fn ticket(&mut self) -> u32 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn send_join(&mut self, join: Join) -> u32 {
        let ticket = self.ticket();
        self.groups.join(join, ticket, self.now);
        self.answered.extend(self.groups.take_replies());
        ticket
    }

    fn send_sync(
        &mut self,
        member: &str,
        generation: i32,
        assignments: &[(&str, &'static str)],
    ) -> u32 {
        let ticket = self.ticket();
        let sync = Sync {
            group: "g".to_owned(),
            as_member: as_member(member, generation),
            protocol_type: Some("consumer".to_owned()),
            protocol: None,
            assignments: assignments
                .iter()
                .map(|(id, text)| ((*id).to_owned(), Bytes::from_static(text.as_bytes())))
                .collect(),
        };
        self.groups.sync(sync, ticket, self.now);
        self.answered.extend(self.groups.take_replies());
        ticket
    }

    fn answer(&mut self, ticket: u32) -> Option<Reply> {
        let index = self.answered.iter().position(|(of, _)| *of == ticket)?;
        Some(self.answered.remove(index).1)
    }

    fn joined(&mut self, ticket: u32) -> Joined {
        match self.answer(ticket) {
            Some(Reply::Join(Ok(joined))) => joined,
            other => panic!("{other:?}"),
        }
    }

    fn not_joined(&mut self, ticket: u32) -> NotJoined {
        match self.answer(ticket) {
            Some(Reply::Join(Err(not_joined))) => not_joined,
            other => panic!("{other:?}"),
        }
    }

    fn synced(&mut self, ticket: u32) -> Result<Bytes, ErrorCode> {
        match self.answer(ticket) {
            Some(Reply::Sync(synced)) => synced.map(|synced| synced.assignment),
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass, stopping at each timer on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.groups.next_timeout().filter(|next| *next <= end) {
            self.now = next;
            self.groups.handle_timeout(next);
            assert!(
                self.groups.next_timeout().is_none_or(|later| later > next),
                "a timer that does not move on"
            );
        }
        self.now = end;
        self.answered.extend(self.groups.take_replies());
    }

    fn heartbeat(&mut self, member: &str, generation: i32) -> Result<(), ErrorCode> {
        self.groups
            .heartbeat("g", &as_member(member, generation), self.now)
    }

    /// One member that has joined and synced alone.
    fn alone() -> (Self, String) {
        let mut bench = Self::new(Duration::ZERO);
        let ticket = bench.send_join(join());
        let joined = bench.joined(ticket);
        let ticket = bench.send_sync(
            &joined.member,
            joined.generation,
            &[(&joined.member, "all")],
        );
        assert_eq!(bench.synced(ticket), Ok(Bytes::from_static(b"all")));
        (bench, joined.member)
    }

    fn state(&self) -> &'static str {
        self.groups
            .describe("g")
            .map_or("none", |group| group.state)
    }
}

fn join() -> Join {
    Join {
        group: "g".to_owned(),
        member: String::new(),
        instance: None,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout: SESSION,
        rebalance_timeout: REBALANCE,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol("range")],
        id_first: false,
        can_skip_assignment: false,
    }
}

fn rejoin(member: &str) -> Join {
    Join {
        member: member.to_owned(),
        ..join()
    }
}

fn static_join(instance: &str) -> Join {
    Join {
        instance: Some(instance.to_owned()),
        ..join()
    }
}

fn protocol(name: &str) -> Protocol {
    Protocol {
        name: name.to_owned(),
        metadata: Bytes::copy_from_slice(name.as_bytes()),
    }
}

fn as_member(id: &str, generation: i32) -> AsMember {
    AsMember {
        id: id.to_owned(),
        instance: None,
        generation,
    }
}

#[test]
fn the_first_member_leads_and_assigns() {
    let (mut bench, member) = Bench::alone();
    assert_eq!(bench.state(), "Stable");
    assert_eq!(bench.heartbeat(&member, 1), Ok(()));
    assert_eq!(
        bench.heartbeat(&member, 2),
        Err(ErrorCode::ILLEGAL_GENERATION)
    );
    assert_eq!(
        bench.heartbeat("stranger", 1),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    let described = bench.groups.describe("g").unwrap();
    assert_eq!(
        (
            described.protocol.as_str(),
            described.members[0].assignment.as_ref()
        ),
        ("range", &b"all"[..])
    );
}

#[test]
fn the_first_rebalance_waits_for_latecomers_up_to_the_rebalance_timeout() {
    let mut bench = Bench::new(Duration::from_secs(3));
    let a = bench.send_join(join());
    bench.pass(Duration::from_secs(2));
    let b = bench.send_join(join());
    bench.pass(Duration::from_secs(2));
    assert_eq!(
        bench.answer(a),
        None,
        "a member came, so it waits once more"
    );
    bench.pass(Duration::from_secs(2));
    let (a, b) = (bench.joined(a), bench.joined(b));
    assert_eq!(
        (a.generation, a.members.len(), a.leader.as_str()),
        (1, 2, a.member.as_str())
    );
    assert_eq!(
        (b.generation, b.members.len(), b.leader.as_str()),
        (1, 0, a.member.as_str())
    );

    let mut bench = Bench::new(Duration::from_secs(50));
    let first = bench.send_join(join());
    bench.pass(Duration::from_secs(40));
    bench.send_join(join());
    bench.pass(Duration::from_secs(19));
    assert_eq!(bench.answer(first), None);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.joined(first).members.len(), 2);
}

#[test]
fn a_second_member_makes_the_first_join_again() {
    let (mut bench, a) = Bench::alone();
    let joining_b = bench.send_join(join());
    assert_eq!(bench.state(), "PreparingRebalance");
    assert_eq!(
        bench.heartbeat(&a, 1),
        Err(ErrorCode::REBALANCE_IN_PROGRESS)
    );
    let joining_a = bench.send_join(rejoin(&a));
    let b = bench.joined(joining_b);
    let joined_a = bench.joined(joining_a);
    assert_eq!((joined_a.generation, b.generation), (2, 2));
    assert_eq!(joined_a.leader, a);
    assert_eq!(joined_a.members.len(), 2);

    let sync_b = bench.send_sync(&b.member, 2, &[]);
    assert_eq!(bench.answer(sync_b), None, "it waits for the leader");
    let sync_a = bench.send_sync(&a, 2, &[(&a, "0"), (&b.member, "1")]);
    assert_eq!(bench.synced(sync_a), Ok(Bytes::from_static(b"0")));
    assert_eq!(bench.synced(sync_b), Ok(Bytes::from_static(b"1")));
    let again = bench.send_sync(&b.member, 2, &[]);
    assert_eq!(
        bench.synced(again),
        Ok(Bytes::from_static(b"1")),
        "a lost answer can be asked for again"
    );
}

#[test]
fn a_member_that_does_not_rejoin_is_out_when_time_is_up() {
    let (mut bench, a) = Bench::alone();
    let long = Join {
        session_timeout: Duration::from_secs(90),
        ..rejoin(&a)
    };
    let ticket = bench.send_join(long);
    let generation = bench.joined(ticket).generation;
    let ticket = bench.send_sync(&a, generation, &[]);
    bench.synced(ticket).unwrap();

    let joining = bench.send_join(join());
    bench.pass(REBALANCE - Duration::from_millis(1));
    assert_eq!(bench.answer(joining), None);
    bench.pass(Duration::from_millis(1));
    let joined = bench.joined(joining);
    assert_eq!((joined.members.len(), &joined.leader), (1, &joined.member));
    assert_eq!(
        bench.heartbeat(&a, joined.generation),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
}

#[test]
fn a_session_without_heartbeats_ends() {
    let (mut bench, member) = Bench::alone();
    bench.pass(SESSION - Duration::from_millis(1));
    assert_eq!(bench.heartbeat(&member, 1), Ok(()));
    bench.pass(SESSION - Duration::from_millis(1));
    assert_eq!(bench.state(), "Stable");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.state(), "Empty");
    assert_eq!(
        bench.heartbeat(&member, 1),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    assert_eq!(bench.groups.next_timeout(), None);
}

#[test]
fn the_session_of_one_ending_makes_the_other_rebalance() {
    let (mut bench, a) = Bench::alone();
    let joining_b = bench.send_join(join());
    let joining_a = bench.send_join(rejoin(&a));
    let (a, b) = (bench.joined(joining_a), bench.joined(joining_b));
    bench.send_sync(&a.member, 2, &[]);
    bench.send_sync(&b.member, 2, &[]);
    for _ in 0..3 {
        bench.pass(SESSION / 2);
        let _ = bench.heartbeat(&b.member, 2);
    }
    assert_eq!(
        bench.heartbeat(&b.member, 2),
        Err(ErrorCode::REBALANCE_IN_PROGRESS)
    );
    let joining = bench.send_join(rejoin(&b.member));
    let joined = bench.joined(joining);
    assert_eq!(
        (joined.generation, joined.members.len(), joined.leader),
        (3, 1, b.member)
    );
}

#[test]
fn a_member_that_never_syncs_is_out_after_the_rebalance_timeout() {
    let mut bench = Bench::new(Duration::ZERO);
    let ticket = bench.send_join(join());
    let member = bench.joined(ticket).member;
    for _ in 0..11 {
        bench.pass(SESSION / 2);
        assert_eq!(
            bench.heartbeat(&member, 1),
            Ok(()),
            "the heartbeat thread is alive"
        );
    }
    bench.pass(SESSION / 2);
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn an_id_is_given_first_and_joins_then() {
    let mut bench = Bench::new(Duration::ZERO);
    let ticket = bench.send_join(Join {
        id_first: true,
        ..join()
    });
    let refused = bench.not_joined(ticket);
    assert_eq!(refused.code, ErrorCode::MEMBER_ID_REQUIRED);
    assert!(refused.member.starts_with("client-"), "{}", refused.member);
    assert_eq!(bench.state(), "Empty");
    let ticket = bench.send_join(Join {
        id_first: true,
        ..rejoin(&refused.member)
    });
    assert_eq!(bench.joined(ticket).member, refused.member);

    let ticket = bench.send_join(Join {
        id_first: true,
        ..join()
    });
    let unused = bench.not_joined(ticket).member;
    bench.pass(SESSION);
    let ticket = bench.send_join(rejoin(&unused));
    assert_eq!(
        bench.not_joined(ticket).code,
        ErrorCode::UNKNOWN_MEMBER_ID,
        "an id not used in time is void"
    );
}

#[test]
fn a_rebalance_waits_for_ids_given_out() {
    let (mut bench, a) = Bench::alone();
    let ticket = bench.send_join(Join {
        id_first: true,
        ..join()
    });
    let pending = bench.not_joined(ticket).member;
    let joining_a = bench.send_join(Join {
        protocols: vec![protocol("range"), protocol("other")],
        ..rejoin(&a)
    });
    assert_eq!(bench.answer(joining_a), None);
    let joining_b = bench.send_join(rejoin(&pending));
    assert_eq!(bench.joined(joining_a).members.len(), 2);
    bench.joined(joining_b);
}

#[test]
fn a_follower_that_joins_unchanged_is_told_again_and_a_leader_causes_a_rebalance() {
    let (mut bench, a) = Bench::alone();
    let joining_b = bench.send_join(join());
    let joining_a = bench.send_join(rejoin(&a));
    let b = bench.joined(joining_b).member;
    bench.joined(joining_a);
    bench.send_sync(&a, 2, &[]);
    bench.send_sync(&b, 2, &[]);
    let again = bench.send_join(rejoin(&b));
    assert_eq!(bench.joined(again).generation, 2);
    assert_eq!(bench.state(), "Stable");
    let again = bench.send_join(rejoin(&a));
    assert_eq!(bench.answer(again), None);
    assert_eq!(bench.state(), "PreparingRebalance");
}

#[test]
fn the_protocol_most_members_prefer_is_chosen() {
    let mut bench = Bench::new(Duration::from_secs(1));
    let offers = |names: &[&str]| Join {
        protocols: names.iter().map(|name| protocol(name)).collect(),
        ..join()
    };
    let a = bench.send_join(offers(&["range", "sticky", "only-a"]));
    let b = bench.send_join(offers(&["sticky", "range"]));
    let c = bench.send_join(offers(&["sticky", "range"]));
    bench.pass(Duration::from_secs(3));
    let a = bench.joined(a);
    assert_eq!(a.protocol.as_deref(), Some("sticky"));
    assert_eq!(a.members[0].metadata, Bytes::from_static(b"sticky"));
    bench.joined(b);
    bench.joined(c);
    let misfit = bench.send_join(offers(&["only-a"]));
    assert_eq!(
        bench.not_joined(misfit).code,
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL
    );
    let misfit = bench.send_join(Join {
        protocol_type: "connect".to_owned(),
        ..join()
    });
    assert_eq!(
        bench.not_joined(misfit).code,
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL
    );
}

#[test]
fn leaving_ends_membership_at_once() {
    let (mut bench, a) = Bench::alone();
    let joining_b = bench.send_join(join());
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.groups.leave("g", &a, None, bench.now), Ok(()));
    bench.pass(Duration::ZERO);
    let b = bench.joined(joining_b);
    assert_eq!(
        (b.members.len(), &b.leader),
        (1, &b.member),
        "nobody else is waited for"
    );
    assert_eq!(
        bench.groups.leave("g", &a, None, bench.now),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    assert_eq!(bench.groups.leave("g", &b.member, None, bench.now), Ok(()));
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn a_static_member_comes_back_without_a_rebalance_and_fences_its_past() {
    let mut bench = Bench::new(Duration::ZERO);
    let ticket = bench.send_join(static_join("i"));
    let old = bench.joined(ticket).member;
    assert!(old.starts_with("i-"), "{old}");
    bench.send_sync(&old, 1, &[(&old, "all")]);

    let ticket = bench.send_join(Join {
        can_skip_assignment: true,
        ..static_join("i")
    });
    let joined = bench.joined(ticket);
    assert_ne!(joined.member, old);
    assert_eq!(
        (joined.generation, joined.skip_assignment, &joined.leader),
        (1, true, &joined.member)
    );
    let ticket = bench.send_sync(&joined.member, 1, &[]);
    assert_eq!(bench.synced(ticket), Ok(Bytes::from_static(b"all")));

    let past = AsMember {
        id: old.clone(),
        instance: Some("i".to_owned()),
        generation: 1,
    };
    assert_eq!(
        bench.groups.heartbeat("g", &past, bench.now),
        Err(ErrorCode::FENCED_INSTANCE_ID)
    );
    let ticket = bench.send_join(Join {
        member: old,
        ..static_join("i")
    });
    assert_eq!(bench.not_joined(ticket).code, ErrorCode::FENCED_INSTANCE_ID);

    let ticket = bench.send_join(static_join("i"));
    let by_older_version = bench.joined(ticket);
    assert_eq!(
        by_older_version.leader, joined.member,
        "an older client must not take itself for the leader"
    );
    assert_eq!(bench.groups.leave("g", "", Some("i"), bench.now), Ok(()));
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn static_members_that_are_all_away_keep_their_places_until_their_sessions_end() {
    let mut bench = Bench::new(Duration::ZERO);
    let patient = Join {
        session_timeout: Duration::from_secs(100),
        ..static_join("i")
    };
    let ticket = bench.send_join(patient);
    let member = bench.joined(ticket).member;
    bench.send_sync(&member, 1, &[]);
    let joining = bench.send_join(join());
    assert_eq!(
        bench.groups.leave(
            "g",
            &bench.groups.describe("g").unwrap().members[1].id.clone(),
            None,
            bench.now
        ),
        Ok(())
    );
    bench.pass(Duration::ZERO);
    assert_eq!(bench.not_joined(joining).code, ErrorCode::UNKNOWN_MEMBER_ID);
    bench.pass(Duration::from_secs(70));
    assert_eq!(bench.groups.describe("g").unwrap().members.len(), 1);
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.state(), "Empty");
}

#[test]
fn commits_are_checked_against_member_and_generation() {
    let (mut bench, member) = Bench::alone();
    let now = bench.now;
    let nobody = as_member("", -1);
    assert_eq!(
        bench.groups.check_commit(
            "g",
            &as_member(&member, 1),
            Committing::BeforeEpochs,
            &[],
            now
        ),
        Ok(())
    );
    assert_eq!(
        bench.groups.check_commit(
            "g",
            &as_member(&member, 0),
            Committing::BeforeEpochs,
            &[],
            now
        ),
        Err(ErrorCode::ILLEGAL_GENERATION)
    );
    assert_eq!(
        bench
            .groups
            .check_commit("g", &as_member("x", 1), Committing::BeforeEpochs, &[], now),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    assert_eq!(
        bench
            .groups
            .check_commit("g", &nobody, Committing::BeforeEpochs, &[], now),
        Err(ErrorCode::UNKNOWN_MEMBER_ID),
        "the group is in use"
    );
    assert_eq!(
        bench
            .groups
            .check_commit("new", &nobody, Committing::BeforeEpochs, &[], now),
        Ok(())
    );
    assert_eq!(
        bench.groups.check_commit(
            "new",
            &as_member("x", 1),
            Committing::BeforeEpochs,
            &[],
            now
        ),
        Err(ErrorCode::ILLEGAL_GENERATION)
    );
    assert_eq!(
        bench
            .groups
            .check_commit("", &nobody, Committing::BeforeEpochs, &[], now),
        Err(ErrorCode::INVALID_GROUP_ID)
    );
    let ticket = bench.send_join(rejoin(&member));
    let generation = bench.joined(ticket).generation;
    let commit = bench.groups.check_commit(
        "g",
        &as_member(&member, generation),
        Committing::BeforeEpochs,
        &[],
        now,
    );
    assert_eq!(commit, Err(ErrorCode::REBALANCE_IN_PROGRESS));
}

#[test]
fn offsets_outlive_members_and_only_empty_groups_are_deleted() {
    let (mut bench, member) = Bench::alone();
    let committed = Committed {
        offset: 7,
        leader_epoch: 0,
        metadata: String::new(),
        at: 0,
    };
    bench.groups.commit("g", "t", 0, committed.clone());
    assert_eq!(bench.groups.delete("g"), Err(ErrorCode::NON_EMPTY_GROUP));
    bench.groups.leave("g", &member, None, bench.now).unwrap();
    assert_eq!(
        bench.groups.offsets("g").unwrap().committed("t", 0),
        Some(&committed)
    );
    assert_eq!(bench.groups.commits_of_topic("t"), [("g".to_owned(), 0)]);
    assert!(
        bench
            .groups
            .delete("g")
            .unwrap()
            .committed("t", 0)
            .is_some()
    );
    assert_eq!(bench.groups.delete("g"), Err(ErrorCode::GROUP_ID_NOT_FOUND));
    bench.groups.commit("h", "t", 1, committed);
    bench.groups.forget("h", "t", 1);
    assert_eq!(
        bench
            .groups
            .list()
            .map(|listed| listed.group)
            .collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}

#[test]
fn bad_session_timeouts_and_names_are_refused() {
    let mut bench = Bench::new(Duration::ZERO);
    let ticket = bench.send_join(Join {
        session_timeout: Duration::from_millis(1),
        ..join()
    });
    assert_eq!(
        bench.not_joined(ticket).code,
        ErrorCode::INVALID_SESSION_TIMEOUT
    );
    let ticket = bench.send_join(Join {
        group: String::new(),
        ..join()
    });
    assert_eq!(bench.not_joined(ticket).code, ErrorCode::INVALID_GROUP_ID);
    let ticket = bench.send_join(rejoin("made-up"));
    assert_eq!(bench.not_joined(ticket).code, ErrorCode::UNKNOWN_MEMBER_ID);
    let ticket = bench.send_join(Join {
        protocols: Vec::new(),
        ..join()
    });
    assert_eq!(
        bench.not_joined(ticket).code,
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL
    );
}

// A coordinator that takes over.

impl Bench {
    /// Another coordinator, which has read back what this one kept.
    fn successor(&mut self) -> Bench {
        let mut other = Bench::new(Duration::ZERO);
        other.now = self.now;
        other.groups.ids = Ids::new(2);
        for stored in self.changed() {
            other.groups.restore(&stored.group, stored.kept.as_ref());
        }
        other.groups.begin_sessions(other.now);
        other
    }

    /// What is to be kept now.
    fn changed(&mut self) -> Vec<StoredMembers> {
        let changed = self.groups.take_changed(0).into_iter();
        let classic = |kept| match kept {
            Kept::Classic(stored) => stored,
            Kept::Consumer(stored) => panic!("{stored:?}"),
            Kept::Share(stored) => panic!("{stored:?}"),
        };
        changed.map(classic).collect()
    }

    /// The generation that is to be kept now, and how many members.
    fn kept(&mut self) -> Option<(i32, usize)> {
        let mut changed = self.changed();
        assert!(changed.len() <= 1, "{changed:?}");
        let kept = changed.pop()?.kept.expect("the group is there");
        Some((kept.generation, kept.members.len()))
    }
}

#[test]
fn a_group_is_kept_when_it_is_assigned_and_when_nobody_is_left() {
    let mut bench = Bench::new(Duration::ZERO);
    let ticket = bench.send_join(join());
    let member = bench.joined(ticket).member;
    assert_eq!(bench.kept(), None, "nothing is assigned yet");
    bench.send_sync(&member, 1, &[(&member, "all")]);
    assert_eq!(bench.kept(), Some((1, 1)));
    bench.heartbeat(&member, 1).unwrap();
    bench.send_sync(&member, 1, &[]);
    assert_eq!(bench.kept(), None);
    bench.groups.leave("g", &member, None, bench.now).unwrap();
    assert_eq!(bench.kept(), Some((2, 0)));
    bench.groups.delete("g").unwrap();
    let changed = bench.changed();
    assert_eq!((changed.len(), &changed[0].kept), (1, &None));
}

#[test]
fn members_go_on_with_the_coordinator_that_takes_over() {
    let mut old = Bench::new(Duration::ZERO);
    let ticket = old.send_join(static_join("i"));
    let member = old.joined(ticket).member;
    old.send_sync(&member, 1, &[(&member, "all")]);
    let described = old.groups.describe("g");
    let mut new = old.successor();
    assert_eq!(new.groups.describe("g"), described);
    assert_eq!(new.heartbeat(&member, 1), Ok(()));
    assert_eq!(
        new.groups.check_commit(
            "g",
            &as_member(&member, 1),
            Committing::BeforeEpochs,
            &[],
            new.now
        ),
        Ok(())
    );
    let again = new.send_sync(&member, 1, &[]);
    assert_eq!(new.synced(again), Ok(Bytes::from_static(b"all")));
    assert_eq!(
        new.heartbeat(&member, 2),
        Err(ErrorCode::ILLEGAL_GENERATION)
    );
    // It leads, and requests another rebalance.
    let ticket = new.send_join(rejoin(&member));
    assert_eq!(new.joined(ticket).generation, 2);
}

#[test]
fn a_member_that_was_read_back_has_a_session_from_then_on() {
    let (mut old, member) = Bench::alone();
    let mut new = old.successor();
    new.pass(SESSION - Duration::from_millis(1));
    assert_eq!(new.state(), "Stable");
    new.pass(Duration::from_millis(1));
    assert_eq!(new.state(), "Empty");
    assert_eq!(new.heartbeat(&member, 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn a_rebalance_that_was_under_way_begins_anew_elsewhere() {
    let (mut old, a) = Bench::alone();
    let kept = old.changed();
    let waits = old.send_join(join());
    old.groups.unload(|_| true);
    old.answered.extend(old.groups.take_replies());
    let refused = old.not_joined(waits);
    assert_eq!(refused.code, ErrorCode::NOT_COORDINATOR);
    let mut new = Bench::new(Duration::ZERO);
    new.groups.restore("g", kept[0].kept.as_ref());
    new.groups.begin_sessions(new.now);
    // Nobody who was not assigned is known.
    let stranger = new.send_join(rejoin(&refused.member));
    assert_eq!(new.not_joined(stranger).code, ErrorCode::UNKNOWN_MEMBER_ID);
    let joining_b = new.send_join(join());
    let joining_a = new.send_join(rejoin(&a));
    assert_eq!(new.joined(joining_b).generation, 2);
    assert_eq!(new.joined(joining_a).members.len(), 2);
}

#[test]
fn the_new_id_of_a_static_member_is_kept() {
    let mut old = Bench::new(Duration::ZERO);
    let ticket = old.send_join(static_join("i"));
    let first = old.joined(ticket).member;
    old.send_sync(&first, 1, &[(&first, "all")]);
    let mut middle = old.successor();
    let ticket = middle.send_join(static_join("i"));
    let second = middle.joined(ticket).member;
    let mut new = middle.successor();
    assert_eq!(new.heartbeat(&second, 1), Ok(()));
    assert_eq!(new.heartbeat(&first, 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}
