//! Malformed members do no harm to others. That valid groups are assigned as by Kafka is tested in
//! `tests/assignors.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    ALL, Assignment, Assignments, Member, Owned, Subscription, TopicPartition, Topics, by_name,
};
use crate::error::Kind;

fn partitions(numbers: &[i32]) -> Vec<TopicPartition> {
    numbers.iter().map(|number| ("t".into(), *number)).collect()
}

fn member(id: &str, topics: &[&str], owned: &[i32]) -> Member {
    let mut member = Member {
        id: id.into(),
        instance_id: None,
        subscription: Subscription {
            topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
            owned: partitions(owned),
            generation: 1,
            ..Subscription::default()
        },
    };
    let claims = Owned {
        partitions: Some(partitions(owned)),
        generation: 1,
    };
    member.subscription.user_data = by_name("sticky").unwrap().user_data(&claims);
    member
}

/// Topic `t` with `count` partitions.
fn topics(count: usize) -> Topics {
    let mut topics = Topics::default();
    topics.insert("t".into(), vec![Vec::new(); count]);
    topics
}

/// Every partition that a member may have is assigned to one of these members, unless a cooperative
/// owner has yet to revoke it.
fn check(name: &str, members: &[Member], count: i32, assigned: &Assignments) {
    let mut given = BTreeSet::new();
    for member in members {
        for (topic, number) in &assigned[&member.id] {
            assert!(
                member.subscription.topics.contains(topic),
                "{name}: {assigned:?}"
            );
            assert!((0..count).contains(number), "{name}: {assigned:?}");
            assert!(
                given.insert(*number),
                "{name}: {number} twice in {assigned:?}"
            );
        }
    }
    let wanted = members.iter().any(|member| {
        member
            .subscription
            .topics
            .iter()
            .any(|topic| &**topic == "t")
    });
    for number in (0..count).filter(|_| wanted) {
        let claimed = members
            .iter()
            .any(|member| member.subscription.owned.contains(&("t".into(), number)));
        let withheld = name == "cooperative-sticky" && claimed;
        assert!(
            withheld || given.contains(&number),
            "{name}: {number} missing in {assigned:?}"
        );
    }
}

#[test]
fn claims_that_cannot_be_true_are_not_heard() {
    let topics = topics(3);
    // At the first two Kafka's assignors throw; at the next they assign partitions twice, and one that does not exist.
    for (claims, others) in [
        (vec![-1, 0], &["t"][..]),
        (vec![9, 0], &["t"]),
        (vec![-1, 0], &["t", "u"]),
        (vec![9, 0], &["t", "u"]),
        (vec![0, 0], &["t"]),
        (vec![i32::MAX, i32::MIN, 0], &["t"]),
    ] {
        let members = [member("a", &["t"], &claims), member("b", others, &[1])];
        for assignor in ALL {
            let assigned = assignor.assign(&topics, &members);
            check(assignor.name(), &members, 3, &assigned);
            if assignor.name().contains("sticky") {
                assert!(
                    assigned["a"].contains(&("t".into(), 0)),
                    "{claims:?} {assigned:?}"
                );
                assert!(
                    assigned["b"].contains(&("t".into(), 1)),
                    "{claims:?} {assigned:?}"
                );
            }
        }
    }
}

#[test]
fn a_member_without_topics_gets_nothing() {
    let members = [member("a", &[], &[]), member("b", &["t"], &[1])];
    for assignor in ALL {
        let assigned = assignor.assign(&topics(3), &members);
        assert!(assigned["a"].is_empty(), "{assigned:?}");
        assert_eq!(assigned["b"].len(), 3, "{assigned:?}");
        assert!(assignor.assign(&topics(3), &[]).is_empty());
    }
}

#[test]
fn of_members_with_the_same_id_the_last_one_counts() {
    let members = [
        member("a", &[], &[]),
        member("b", &["t"], &[]),
        member("a", &["t"], &[]),
    ];
    for assignor in ALL {
        let assigned = assignor.assign(&topics(2), &members);
        assert_eq!(
            (assigned["a"].len(), assigned["b"].len()),
            (1, 1),
            "{assigned:?}"
        );
    }
}

#[test]
fn a_partition_that_moves_is_with_nobody_until_it_was_given_up() {
    let assignor = by_name("cooperative-sticky").unwrap();
    let mut members = [member("a", &["t"], &[0, 1, 2, 3]), member("b", &["t"], &[])];
    let first = assignor.assign(&topics(4), &members);
    assert_eq!(
        (&first["a"], &first["b"]),
        (&partitions(&[0, 1]), &partitions(&[]))
    );
    members[0].subscription.owned = first["a"].clone();
    let second = assignor.assign(&topics(4), &members);
    assert_eq!(
        (&second["a"], &second["b"]),
        (&partitions(&[0, 1]), &partitions(&[2, 3]))
    );
}

#[test]
fn a_subscription_of_a_newer_version_is_read_as_the_newest_known() {
    let mut bytes = member("a", &["t"], &[2, 0])
        .subscription
        .encode()
        .unwrap()
        .to_vec();
    bytes[1] = 9;
    bytes.extend_from_slice(b"what later versions add");
    let read = Subscription::decode(bytes.into()).unwrap();
    assert_eq!((read.owned, read.generation), (partitions(&[0, 2]), 1));
}

#[test]
fn a_layout_older_than_its_version_is_read_if_it_is_whole() {
    let topics = b"\0\0\0\x01\0\x01t\xff\xff\xff\xff";
    for version in 0..=4_u8 {
        let bytes = [&[0, version][..], topics].concat();
        let read = Subscription::decode(bytes.into()).unwrap();
        assert_eq!(
            read,
            Subscription {
                topics: vec!["t".into()],
                ..Subscription::default()
            }
        );
    }
}

#[test]
fn damaged_bytes_are_refused_and_no_part_of_them_is_used() {
    let whole = member("a", &["t"], &[0, 7]).subscription.encode().unwrap();
    // Cut after a whole older layout, it is one: behind the owned partitions, and behind the generation.
    let layouts = [whole.len() - 2, whole.len() - 6];
    for cut in (0..whole.len()).filter(|cut| !layouts.contains(cut)) {
        match Subscription::decode(whole.slice(..cut)) {
            Err(error) => assert_eq!(error.kind(), Kind::Protocol),
            Ok(read) => assert_eq!(read.owned, [], "cut at {cut}"),
        }
    }
    for bytes in [
        &b"\xff\xff\0\0\0\0"[..],
        b"\0\x03\x7f\xff\xff\xff",
        b"\0\x03\xff\xff\xff\xff",
        b"",
    ] {
        let error = Subscription::decode(Bytes::from_static(bytes)).unwrap_err();
        assert!(error.to_string().contains("does not decode"), "{error}");
    }
}

/// Rule: 2.4.11.
#[test]
fn topics_and_partitions_that_are_named_twice_count_once() {
    let subscription = b"\0\0\0\0\0\x02\0\x01t\0\x01t\xff\xff\xff\xff";
    let read = Subscription::decode(Bytes::from_static(subscription)).unwrap();
    assert_eq!(read.topics, [Arc::from("t")]);
    let assignment = b"\0\0\0\0\0\x02\0\x01t\0\0\0\x03\0\0\0\x05\xff\xff\xff\xff\0\0\0\x05\0\x01t\0\0\0\x01\0\0\0\x05\xff\xff\xff\xff";
    let read = Assignment::decode(Bytes::from_static(assignment)).unwrap();
    assert_eq!(
        read,
        Assignment {
            partitions: partitions(&[5]),
            user_data: None
        }
    );
    assert!(
        Assignment::decode(Bytes::new())
            .unwrap()
            .partitions
            .is_empty()
    );
}

proptest! {
    #[test]
    fn whatever_members_tell_each_partition_is_with_one_of_them(
        count in 0..7_i32,
        told in prop::collection::vec(
            (
                prop::collection::vec(prop::sample::select(vec!["t", "u", "t"]), 0..3),
                prop::collection::vec(-2..9_i32, 0..9),
                -1..4_i32,
                prop::option::of(prop::collection::vec(any::<u8>(), 0..24)),
                prop::option::of(prop::sample::select(vec!["r1", "r2", "far"])),
            ),
            1..6,
        ),
        replicas in prop::collection::vec(prop::sample::select(vec!["r1", "r2"]), 7),
    ) {
        let members: Vec<Member> = told.into_iter().enumerate().map(|(number, (topics, owned, generation, data, rack))| {
            let mut member = member(&format!("m{number}"), &topics, &owned);
            member.subscription.generation = generation;
            member.subscription.rack = rack.map(Arc::from);
            if let Some(data) = data {
                member.subscription.user_data = Some(data.into());
            }
            member
        }).collect();
        let mut topics = Topics::default();
        let racks = replicas.iter().take(usize::try_from(count).unwrap());
        topics.insert("t".into(), racks.map(|rack| vec![Arc::from(*rack)]).collect());
        for assignor in ALL {
            check(assignor.name(), &members, count, &assignor.assign(&topics, &members));
        }
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Subscription::decode(bytes.clone().into());
        let _ = Assignment::decode(bytes.into());
    }
}
