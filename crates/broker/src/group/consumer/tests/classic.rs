//! Members of both protocols in one group, and groups that change theirs.

use bytes::Bytes;
use ottla_protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use ottla_protocol::messages::consumer_protocol_subscription::TopicPartition as Owned;
use ottla_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use ottla_protocol::{Message, Reader, Writer};

use super::*;
use crate::group::{Joined, Sync};

const SHORT: Duration = Duration::from_secs(10);

fn versioned(message: &impl Message) -> Bytes {
    let mut writer = Writer::new();
    writer.i16(1);
    message.encode(1, &mut writer).unwrap();
    writer.finish().into_bytes()
}

fn subscription(owned: &[i32]) -> Bytes {
    let owned = Owned {
        topic: "t".into(),
        partitions: owned.to_vec().into(),
    };
    versioned(&ConsumerProtocolSubscription {
        topics: vec!["t".into()],
        owned_partitions: vec![owned],
        ..Default::default()
    })
}

fn assignment(partitions: &[i32], user_data: &'static [u8]) -> Bytes {
    let partitions = Assigned {
        topic: "t".into(),
        partitions: partitions.to_vec().into(),
    };
    versioned(&ConsumerProtocolAssignment {
        assigned_partitions: vec![partitions],
        user_data: Some(Bytes::from_static(user_data)),
    })
}

fn partitions(assignment: &Bytes) -> Vec<i32> {
    let mut reader = Reader::new(assignment.clone());
    assert_eq!(reader.i16().unwrap(), 1, "the version of its subscription");
    let read = ConsumerProtocolAssignment::decode(1, &mut reader).unwrap();
    let topics = read.assigned_partitions.iter();
    topics.flat_map(|it| it.partitions.to_vec()).collect()
}

fn joining(member: &str, owned: &[i32]) -> Join {
    Join {
        group: "g".to_owned(),
        member: member.to_owned(),
        instance: None,
        client_id: "c".to_owned(),
        client_host: "/h".to_owned(),
        session_timeout: SHORT,
        rebalance_timeout: REBALANCE,
        protocol_type: "consumer".to_owned(),
        protocols: vec![Protocol {
            name: "range".to_owned(),
            metadata: subscription(owned),
        }],
        id_first: false,
        can_skip_assignment: true,
    }
}

fn static_joining(member: &str) -> Join {
    Join {
        instance: Some("i".to_owned()),
        ..joining(member, &[])
    }
}

impl Bench {
    /// The replies to classic members that came since the last call, in their order.
    fn answers(&mut self) -> Vec<Reply> {
        self.keep();
        let replies = self.groups.take_replies().into_iter();
        replies.map(|(_, reply)| reply).collect()
    }

    fn join_classic(&mut self, join: &Join) -> Result<Joined, ErrorCode> {
        self.groups.join(join.clone(), 8, self.now);
        match self.answers().pop() {
            Some(Reply::Join(joined)) => joined.map_err(|it| it.code),
            other => panic!("{other:?}"),
        }
    }

    /// The generation in which a member goes on.
    fn rejoin(&mut self, member: &str, owned: &[i32]) -> i32 {
        let joined = self.join_classic(&joining(member, owned)).unwrap();
        assert_eq!((joined.leader.as_str(), joined.members.len()), ("", 0));
        assert_eq!(joined.protocol.as_deref(), Some("range"));
        joined.generation
    }

    fn sync(&mut self, member: &str, generation: i32) -> Result<Vec<i32>, ErrorCode> {
        let sync = sync_of(member, generation, Vec::new());
        self.groups.sync(sync, 8, self.now);
        match self.answers().pop() {
            Some(Reply::Sync(synced)) => synced.map(|it| partitions(&it.assignment)),
            other => panic!("{other:?}"),
        }
    }

    fn beat_classic(&mut self, member: &str, generation: i32) -> Result<(), ErrorCode> {
        let as_member = as_member(member, generation);
        self.groups.heartbeat("g", &as_member, self.now)
    }

    fn leave(&mut self, member: &str) -> Result<(), ErrorCode> {
        let left = self.groups.leave("g", member, None, self.now);
        self.keep();
        left
    }

    fn kind(&self) -> (&'static str, &'static str) {
        let group = self.groups.list().next();
        group.map_or(("none", "none"), |it| (it.kind, it.state))
    }

    /// Two classic members in generation 2, with three partitions each: their ids.
    fn classic(
        change: impl Fn(&mut ConsumerRules),
        user_data: &'static [u8],
    ) -> (Self, [String; 2]) {
        let mut bench = Self::with_rules(6, change);
        let first = bench.join_classic(&joining("", &[])).unwrap().member;
        bench.groups.join(joining("", &[]), 8, bench.now);
        bench.groups.join(joining(&first, &[]), 8, bench.now);
        let joined = bench.answers().into_iter().map(|reply| match reply {
            Reply::Join(Ok(joined)) => joined.member,
            other => panic!("{other:?}"),
        });
        let mut ids: Vec<String> = joined.collect();
        ids.sort();
        let shares = ids.iter().zip([[0, 1, 2], [3, 4, 5]]);
        let shares = shares.map(|(id, it)| (id.clone(), assignment(&it, user_data)));
        let shares: Vec<_> = shares.collect();
        for id in &ids {
            let sync = sync_of(id, 2, shares.clone());
            bench.groups.sync(sync, 8, bench.now);
        }
        assert_eq!(bench.answers().len(), 2);
        assert_eq!(bench.kind(), ("classic", "Stable"));
        (bench, [ids[0].clone(), ids[1].clone()])
    }
}

fn sync_of(member: &str, generation: i32, assignments: Vec<(String, Bytes)>) -> Sync {
    Sync {
        group: "g".to_owned(),
        as_member: as_member(member, generation),
        protocol_type: Some("consumer".to_owned()),
        protocol: Some("range".to_owned()),
        assignments,
    }
}

fn as_member(id: &str, generation: i32) -> AsMember {
    AsMember {
        id: id.to_owned(),
        instance: None,
        generation,
    }
}

const REJOIN: Result<(), ErrorCode> = Err(ErrorCode::REBALANCE_IN_PROGRESS);

#[test]
fn a_group_changes_its_protocol_with_its_members_and_back() {
    let (mut bench, [a, b]) = Bench::classic(|_| {}, b"");
    // The newcomer waits for what the others have still.
    assert_eq!(bench.told(&join("n")), (3, Some(vec![])));
    assert_eq!(bench.kind(), ("consumer", "Reconciling"));
    assert_eq!(bench.beat_classic(&a, 2), REJOIN);
    assert_eq!(
        bench.beat_classic(&a, 1),
        Err(ErrorCode::ILLEGAL_GENERATION)
    );
    assert_eq!(bench.sync(&b, 2), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    // Who is to give something up stays in its generation until it joins without that.
    assert_eq!(bench.rejoin(&a, &[0, 1, 2]), 2);
    let left = bench.sync(&a, 2).unwrap();
    assert_eq!(left.len(), 2);
    assert_eq!(bench.beat_classic(&a, 2), REJOIN);
    assert_eq!(bench.rejoin(&a, &left), 3);
    assert_eq!(bench.sync(&a, 3), Ok(left.clone()));
    assert_eq!(bench.beat_classic(&a, 3), Ok(()));
    let of_a: Vec<i32> = (0..3).filter(|it| !left.contains(it)).collect();
    assert_eq!(bench.told(&beat("n", 3)), (3, Some(of_a.clone())));
    // An eager member revokes all, and has what it keeps again at once.
    assert_eq!(bench.rejoin(&b, &[]), 3);
    let kept = bench.sync(&b, 3).unwrap();
    assert_eq!(kept.len(), 2);
    let of_b = (3..6).filter(|it| !kept.contains(it));
    let new = of_a.into_iter().chain(of_b).collect();
    assert_eq!(bench.told(&beat("n", 3)), (3, Some(new)));
    assert_eq!(bench.kind(), ("consumer", "Stable"));
    let described = bench.groups.describe_consumer("g").unwrap().members;
    let classic = described.iter().filter(|it| it.is_classic).count();
    assert_eq!((described.len(), classic), (3, 2));
    let mut heir = bench.successor();
    assert_eq!(
        heir.groups.describe_consumer("g").unwrap().members,
        described
    );
    assert_eq!(heir.sync(&b, 3), Ok(kept.clone()));

    // It goes, and they are a classic group in the same generation.
    bench.send(&beat("n", -1)).unwrap();
    assert_eq!(bench.kind(), ("classic", "PreparingRebalance"));
    assert_eq!(bench.beat_classic(&a, 3), REJOIN);
    let mut heir = bench.successor();
    assert_eq!(heir.kind(), ("classic", "Stable"));
    assert_eq!(heir.beat_classic(&a, 3), Ok(()));
    assert_eq!(heir.sync(&b, 3), Ok(kept.clone()));
    bench.groups.join(joining(&a, &left), 8, bench.now);
    bench.groups.join(joining(&b, &kept), 8, bench.now);
    let generations = bench.answers().into_iter().map(|reply| match reply {
        Reply::Join(Ok(joined)) => joined.generation,
        other => panic!("{other:?}"),
    });
    assert_eq!(generations.collect::<Vec<_>>(), [4, 4]);
    assert_eq!(bench.kind(), ("classic", "CompletingRebalance"));
    // And once more to the other one, out of the middle of a rebalance: waiting members are
    // notified.
    bench.groups.sync(sync_of(&b, 4, Vec::new()), 8, bench.now);
    assert_eq!(bench.answers().len(), 0);
    bench.groups.beat(&join("n"), &|_| true, 7, bench.now);
    let answers = bench.answers();
    assert!(answers.contains(&Reply::Sync(Err(ErrorCode::REBALANCE_IN_PROGRESS))));
    assert_eq!(bench.kind().0, "consumer");
}

#[test]
fn a_classic_member_joins_a_consumer_group_and_gets_what_is_given_up() {
    let mut bench = Bench::new(4);
    bench.send(&join("n")).unwrap();
    let first = Join {
        id_first: true,
        ..joining("", &[])
    };
    assert_eq!(
        bench.join_classic(&first),
        Err(ErrorCode::MEMBER_ID_REQUIRED)
    );
    assert_eq!(bench.rejoin("m", &[]), 3);
    assert_eq!(bench.sync("m", 3), Ok(vec![]));
    assert_eq!(bench.beat_classic("m", 3), Ok(()), "others have it still");
    let kept = bench.told(&beat("n", 2)).1.unwrap();
    assert_eq!(bench.told(&owning("n", 2, &kept)), (3, None));
    assert_eq!(bench.beat_classic("m", 3), REJOIN, "it is free");
    assert_eq!(bench.rejoin("m", &[]), 3);
    assert_eq!(bench.sync("m", 3).unwrap().len(), 2);
    assert_eq!(bench.beat_classic("m", 3), Ok(()));
    // Each kind of member has its own requests.
    assert_eq!(
        bench.beat_classic("n", 3),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    assert_eq!(bench.sync("n", 3), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(bench.leave("x"), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    let mut commit = |id: &str, generation, how| {
        let as_member = as_member(id, generation);
        let now = bench.now;
        bench.groups.check_commit("g", &as_member, how, &[], now)
    };
    assert_eq!(commit("m", 3, Committing::BeforeEpochs), Ok(()));
    let old = Err(ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(commit("m", 4, Committing::WithEpochs), old);
    let unsupported = Err(ErrorCode::UNSUPPORTED_VERSION);
    assert_eq!(commit("n", 3, Committing::BeforeEpochs), unsupported);
    assert_eq!(bench.groups.check_fetch("g", Some("m"), 2), old);
    // Those that nobody could serve are refused.
    let other = Join {
        protocol_type: "connect".to_owned(),
        ..joining("", &[])
    };
    let inconsistent = Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(bench.join_classic(&other).map(drop), inconsistent);
    let mut other = joining("", &[]);
    other.protocols[0].name = "sticky".to_owned();
    assert_eq!(bench.join_classic(&other).map(drop), inconsistent);
    let mut broken = joining("", &[]);
    broken.protocols[0].metadata = Bytes::from_static(b"\0\0\x7f");
    assert_eq!(bench.join_classic(&broken).map(drop), inconsistent);
    assert_eq!(bench.leave("m"), Ok(()));
    assert_eq!(bench.told(&beat("n", 3)), (4, Some(vec![0, 1, 2, 3])));
    // But a member that requests to leave, leaves.
    assert_eq!(bench.leave("n"), Ok(()));
    assert_eq!(bench.kind(), ("consumer", "Empty"));
}

#[test]
fn a_classic_member_has_its_times_to_join_and_to_sync() {
    let mut bench = Bench::new(4);
    let quick = Join {
        rebalance_timeout: Duration::from_secs(3),
        ..joining("m", &[])
    };
    bench.send(&join("n")).unwrap();
    bench.join_classic(&quick).unwrap();
    bench.pass(Duration::from_secs(3));
    assert_eq!(
        bench.beat_classic("m", 3),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    let generation = bench.join_classic(&quick).unwrap().generation;
    bench.sync("m", generation).unwrap();
    bench.send(&join("o")).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.beat_classic("m", generation), REJOIN);
        bench.pass(Duration::from_secs(1));
    }
    assert_eq!(bench.beat_classic("m", generation), REJOIN);
    bench.pass(Duration::from_secs(1));
    assert_eq!(
        bench.beat_classic("m", generation),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    let generation = bench.rejoin("m", &[]);
    bench.sync("m", generation).unwrap();
    bench.pass(SHORT);
    assert_eq!(
        bench.beat_classic("m", generation),
        Err(ErrorCode::UNKNOWN_MEMBER_ID),
        "its session is its own"
    );
}

#[test]
fn who_is_silent_leaves_the_group_to_the_classic_members() {
    let (mut bench, [a, _]) = Bench::classic(|it| it.session = Duration::from_secs(5), b"");
    bench.send(&join("n")).unwrap();
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.kind(), ("classic", "PreparingRebalance"));
    assert_eq!(
        bench.beat_classic(&a, 2),
        Err(ErrorCode::ILLEGAL_GENERATION),
        "it had not come to the epoch that is the generation now"
    );
}

#[test]
fn a_static_member_changes_its_protocol_with_its_process() {
    let mut bench = Bench::new(4);
    let joined = bench.join_classic(&static_joining("")).unwrap();
    let sync = Sync {
        as_member: AsMember {
            instance: Some("i".to_owned()),
            ..as_member(&joined.member, 1)
        },
        ..sync_of(
            "",
            1,
            vec![(joined.member.clone(), assignment(&[0, 1, 2, 3], b""))],
        )
    };
    bench.groups.sync(sync, 8, bench.now);
    bench.answers();
    // Its group, and its place in it, in the same epoch.
    let told = bench.told(&static_join("n"));
    assert_eq!(told.0, 1);
    assert_eq!(
        (bench.kind(), told.1),
        (("consumer", "Stable"), Some(vec![0, 1, 2, 3]))
    );
    assert_eq!(
        bench.code(&static_join("o")),
        ErrorCode::UNRELEASED_INSTANCE_ID
    );
    // And back: nobody has to join again.
    let back = bench.join_classic(&static_joining("")).unwrap();
    assert_eq!(bench.kind(), ("classic", "Stable"));
    let as_instance = AsMember {
        instance: Some("i".to_owned()),
        ..as_member(&back.member, back.generation)
    };
    assert_eq!(bench.groups.heartbeat("g", &as_instance, bench.now), Ok(()));
    let sync = Sync {
        as_member: as_instance,
        ..sync_of("", 0, Vec::new())
    };
    bench.groups.sync(sync, 8, bench.now);
    let Some(Reply::Sync(Ok(synced))) = bench.answers().pop() else {
        panic!("it has its assignment");
    };
    assert_eq!(partitions(&synced.assignment), [0, 1, 2, 3]);
    assert_eq!(bench.successor().kind(), ("classic", "Stable"));
    // Under a name that another process has it is fenced.
    let fenced = Err(ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(bench.join_classic(&static_joining("n")).map(drop), fenced);
}

#[test]
fn a_group_keeps_its_protocol_where_the_policy_or_its_members_say_so() {
    let policy =
        |name: &'static str| move |it: &mut ConsumerRules| it.migration = Migration::named(name);
    for (name, goes, comes_back) in [
        ("bidirectional", true, true),
        ("upgrade", true, false),
        ("downgrade", false, true),
        ("disabled", false, false),
    ] {
        let (mut bench, _) = Bench::classic(policy(name), b"");
        let sent = bench.send(&join("n")).map(drop).map_err(|it| it.code);
        let expected = match goes {
            true => Ok(()),
            false => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        };
        assert_eq!(
            (sent, bench.kind().0 == "consumer"),
            (expected, goes),
            "{name}"
        );

        let mut bench = Bench::with_rules(4, policy(name));
        bench.send(&join("n")).unwrap();
        bench.rejoin("m", &[]);
        bench.send(&beat("n", -1)).unwrap();
        assert_eq!(bench.kind().0 == "classic", comes_back, "{name}");
        assert_eq!(bench.beat_classic("m", 3), REJOIN, "{name}");
    }
    let (mut bench, [a, _]) = Bench::classic(|_| {}, b"of an assignor of its own");
    assert_eq!(bench.code(&join("n")), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(bench.beat_classic(&a, 2), Ok(()), "nothing happened");
    let (mut bench, _) = Bench::classic(|it| it.most_members = 1, b"");
    assert_eq!(bench.code(&join("n")), ErrorCode::GROUP_ID_NOT_FOUND);
    let (mut bench, [a, _]) = Bench::classic(|it| it.most_members = 2, b"");
    assert_eq!(bench.code(&join("n")), ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(
        (bench.kind(), bench.beat_classic(&a, 2)),
        (("classic", "Stable"), Ok(()))
    );
}
