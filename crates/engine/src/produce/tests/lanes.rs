//! Which connection to its leader a partition's batches go over.

use std::collections::{BTreeMap, BTreeSet};

use super::partitions::spread;
use super::*;
use crate::cluster::LinkId;

const PARTITIONS: i32 = 4;
/// Records of 60 bytes: each fills a batch, and three of them a request.
const SMALL: [(&str, &str); 3] = [
    ("batch.size", "100"),
    ("max.request.size", "400"),
    ("max.in.flight.requests.per.connection", "2"),
];

/// A producer whose partitions are all led by one broker, with the first record of each acknowledged.
fn settled(pairs: &[(&'static str, &'static str)]) -> Sender {
    let mut script = spread(&[1; PARTITIONS as usize], pairs);
    for partition in 0..PARTITIONS {
        send(&mut script, partition, "0");
        for first in script.pass(Duration::from_millis(5)) {
            reply(&mut script, &first, ErrorCode::NONE, 0);
        }
    }
    script
}

fn fill(script: &mut Sender, batches: usize) {
    for _ in 0..batches {
        for partition in 0..PARTITIONS {
            send(script, partition, &"x".repeat(60));
        }
    }
}

fn connections(script: &Sender) -> usize {
    let connected = script.connected();
    connected.iter().filter(|host| **host == "b1").count()
}

/// Respond to each request in the order of sending, and return the connections that were used.
/// Batches of a partition that are in flight together share one connection, and their sequence
/// numbers have no gap.
fn answer_all(script: &mut Sender, next: &mut BTreeMap<i32, i32>) -> BTreeSet<LinkId> {
    let mut used = BTreeSet::new();
    let mut under_way: Vec<Asked> = script.run();
    let mut checked = 0;
    while !under_way.is_empty() {
        for asked in &under_way[checked..] {
            used.insert(asked.link);
            for part in seen(asked) {
                let expected = next.entry(part.partition).or_insert(1);
                assert_eq!(part.sequence, *expected);
                *expected += 1;
                for other in &under_way {
                    let shares = seen(other).iter().any(|it| it.partition == part.partition);
                    assert!(!shares || other.link == asked.link);
                }
            }
        }
        let first = under_way.remove(0);
        checked = under_way.len();
        reply(script, &first, ErrorCode::NONE, 1);
        under_way.append(&mut script.pass(Duration::from_millis(5)));
    }
    used
}

#[test]
fn partitions_with_much_to_send_use_more_connections_and_each_keeps_its_order() {
    let mut script = settled(&SMALL);
    assert_eq!(connections(&script), 1);
    fill(&mut script, 5);
    let used = answer_all(&mut script, &mut BTreeMap::new());
    assert!(used.len() > 1);
    assert_eq!(connections(&script), used.len());
    let delivered: u32 = fates(&mut script)
        .iter()
        .map(|(_, _, count, _)| count)
        .sum();
    assert_eq!(delivered, 6 * PARTITIONS as u32);
}

#[test]
fn a_little_of_many_partitions_goes_over_one_connection() {
    let mut script = settled(&[("linger.ms", "0")]);
    let mut next = BTreeMap::new();
    for _ in 0..4 {
        fill(&mut script, 1);
        let used = answer_all(&mut script, &mut next);
        assert_eq!((used.len(), connections(&script)), (1, 1));
    }
}

#[test]
fn what_was_under_way_on_a_connection_that_broke_comes_again_in_order() {
    let mut script = settled(&SMALL);
    fill(&mut script, 5);
    let sent = script.run();
    let links: BTreeSet<_> = sent.iter().map(|asked| asked.link).collect();
    let broken = *links.last().unwrap();
    let lost = sent.iter().filter(|asked| asked.link == broken);
    let lost: Vec<_> = lost.flat_map(seen).collect();
    assert!(!lost.is_empty());
    script.cut(broken);
    let kept = sent.iter().filter(|asked| asked.link != broken);
    for asked in kept {
        reply(&mut script, asked, ErrorCode::NONE, 1);
    }
    let mut again: Vec<Seen> = Vec::new();
    for _ in 0..20 {
        for asked in script.pass(Duration::from_millis(500)) {
            again.extend(seen(&asked));
            reply(&mut script, &asked, ErrorCode::NONE, 1);
        }
    }
    for partition in 0..PARTITIONS {
        let numbers = |batches: &[Seen]| -> Vec<i32> {
            let own = batches.iter().filter(|batch| batch.partition == partition);
            own.map(|batch| batch.sequence).collect()
        };
        let (lost, again) = (numbers(&lost), numbers(&again));
        assert!(again.starts_with(&lost), "{lost:?} {again:?}");
        assert_eq!(again.last(), Some(&5));
        assert!(again.is_sorted());
    }
}

#[test]
fn without_acknowledgements_there_is_one_connection_for_nobody_knows_what_arrived() {
    let mut script = settled(&[&SMALL[..], &[("acks", "0")]].concat());
    fill(&mut script, 5);
    assert_eq!(script.run().len(), 2);
    assert_eq!(connections(&script), 1);
}
