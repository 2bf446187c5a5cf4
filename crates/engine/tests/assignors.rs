//! Our assignors against Kafka's own, for random groups. The file is described in
//! `tests/conformance/README.md`.
//! `cargo test -p ottla-engine --test assignors -- --nocapture` prints the counts.
//!
//! `OTTLA_CORPUS=DIR` reads the corpus of another folder, which `tests/conformance/test_fresh.py` makes.

// Code outside the test functions is test code too.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ottla_engine::group::assignor::{
    Assignment, Assignments, Member, Owned, Subscription, TopicPartition, Topics, by_name,
};
use serde_json::Value;

const FILE: &str = "assignors.jsonl.gz";

/// A line of the corpus.
struct Case {
    assignor: String,
    topics: Topics,
    counts: BTreeMap<Arc<str>, i32>,
    members: Vec<Member>,
    /// What Kafka assigned; `None` if it threw.
    expected: Option<Assignments>,
    line: Value,
}

/// Where ours is not compared with Kafka's, which nobody should follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Different {
    /// It threw.
    Threw,
    /// A member got partitions of a topic that it did not subscribe to.
    Unsubscribed,
    /// Not equal, and a member subscribed to nothing, or listed owned partitions of a topic that it
    /// no longer subscribes to. Some partitions may have been meant for it, and moved on or were
    /// withheld.
    Meant,
}

#[test]
fn every_group_is_assigned_as_kafka_does() {
    let mut counts: BTreeMap<(String, Option<Different>), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in corpus() {
        let assignor = by_name(&case.assignor).unwrap();
        let ours = assignor.assign(&case.topics, &case.members);
        let different = case.difference(&ours);
        match (check(&case, &ours), different, &case.expected) {
            (Err(why), _, _) => wrong.push(format!("{why}: {}\nours {ours:?}", case.line)),
            (Ok(()), None, Some(expected)) if *expected != ours => {
                wrong.push(format!(
                    "{}\nours {ours:?}\nKafka's {expected:?}",
                    case.line
                ));
            }
            _ => {}
        }
        *counts.entry((case.assignor, different)).or_default() += 1;
    }
    println!("{counts:?}");
    assert!(
        wrong.is_empty(),
        "{} groups; the first: {}",
        wrong.len(),
        wrong[0]
    );
    let all: usize = counts.values().sum();
    let equal = counts.iter().filter(|((_, why), _)| why.is_none());
    let equal: usize = equal.map(|(_, count)| count).sum();
    assert!(
        equal * 100 >= all * 95,
        "only {equal} of {all} could be compared"
    );
}

#[test]
fn bytes_are_those_of_kafka() {
    let mut subscriptions = 0;
    for case in corpus() {
        for (member, row) in case
            .members
            .iter()
            .zip(case.line["members"].as_array().unwrap())
        {
            let told = bytes(&row[2]);
            // Of version 3, and with a rack that is not empty, which counts as none.
            if told.starts_with(&[0, 3]) && !told.ends_with(&[0, 0]) {
                assert_eq!(member.subscription.encode().unwrap(), told, "{}", row[0]);
                subscriptions += 1;
            }
        }
        let Some(expected) = &case.expected else {
            continue;
        };
        let (id, wire) = (
            case.line["wire"][0].as_str().unwrap(),
            bytes(&case.line["wire"][1]),
        );
        let partitions = expected[id].clone();
        let assignment = Assignment {
            partitions: partitions.clone(),
            user_data: None,
        };
        assert_eq!(assignment.encode().unwrap(), wire, "{}", case.line);
        let read = Assignment::decode(wire).unwrap();
        assert_eq!(sorted(&read.partitions), sorted(&partitions));
        let owned = Owned {
            partitions: Some(partitions),
            generation: 7,
        };
        let user_data = by_name(&case.assignor).unwrap().user_data(&owned);
        assert_eq!(
            user_data,
            optional_bytes(&case.line["user"]),
            "{}",
            case.line
        );
    }
    assert!(subscriptions > 300, "{subscriptions}");
}

impl Case {
    fn parse(line: &str) -> Case {
        let line: Value = serde_json::from_str(line).unwrap();
        let mut topics = Topics::default();
        let mut counts = BTreeMap::new();
        let mut names = Vec::new();
        for row in line["topics"].as_array().unwrap() {
            let name: Arc<str> = row[0].as_str().unwrap().into();
            let racks: Vec<Vec<Arc<str>>> = match &row[1] {
                Value::Array(partitions) => partitions
                    .iter()
                    .map(|racks| {
                        racks
                            .as_array()
                            .unwrap()
                            .iter()
                            .map(|rack| rack.as_str().unwrap().into())
                            .collect()
                    })
                    .collect(),
                count => vec![Vec::new(); usize::try_from(count.as_u64().unwrap()).unwrap()],
            };
            counts.insert(Arc::clone(&name), i32::try_from(racks.len()).unwrap());
            topics.insert(Arc::clone(&name), racks);
            names.push(name);
        }
        let rows = line["members"].as_array().unwrap();
        let members = rows.iter().map(|row| Member {
            id: row[0].as_str().unwrap().into(),
            instance_id: row[1].as_str().map(Arc::from),
            subscription: Subscription::decode(bytes(&row[2])).unwrap(),
        });
        let expected = line["throws"].is_null().then(|| {
            let got = rows.iter().map(|row| {
                let numbers: Vec<i64> = row[3]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|n| n.as_i64().unwrap())
                    .collect();
                let pairs = numbers.chunks(2).map(|pair| {
                    let topic = &names[usize::try_from(pair[0]).unwrap()];
                    (Arc::clone(topic), i32::try_from(pair[1]).unwrap())
                });
                (Arc::from(row[0].as_str().unwrap()), pairs.collect())
            });
            got.collect()
        });
        Case {
            assignor: line["kind"].as_str().unwrap().into(),
            members: members.collect(),
            topics,
            counts,
            expected,
            line,
        }
    }

    fn difference(&self, ours: &Assignments) -> Option<Different> {
        let Some(expected) = &self.expected else {
            return Some(Different::Threw);
        };
        let is_stray = |member: &Member| {
            let mut got = expected[&member.id].iter();
            got.any(|(topic, _)| !member.subscription.topics.contains(topic))
        };
        let is_stranger = |member: &Member| {
            let wanted = &member.subscription.topics;
            wanted.is_empty()
                || self
                    .told(member)
                    .iter()
                    .any(|topic| !wanted.contains(topic))
        };
        if self.members.iter().any(is_stray) {
            Some(Different::Unsubscribed)
        } else if expected != ours && self.members.iter().any(is_stranger) {
            Some(Different::Meant)
        } else {
            None
        }
    }

    /// The topics of the partitions that a member of a sticky assignor claims to have owned.
    fn told(&self, member: &Member) -> BTreeSet<Arc<str>> {
        let subscription = &member.subscription;
        match (self.assignor.as_str(), &subscription.user_data) {
            ("sticky", Some(data)) => topics_of_sticky(data).unwrap_or_default(),
            ("cooperative-sticky", _) => {
                let owned = subscription.owned.iter();
                owned.map(|(topic, _)| Arc::clone(topic)).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// The members that say they own a partition and keep it while they join.
    fn owners(&self, partition: &TopicPartition) -> Vec<&Arc<str>> {
        let cooperative = self.assignor == "cooperative-sticky";
        let members = self.members.iter().filter(|_| cooperative);
        let owning = members.filter(|member| member.subscription.owned.contains(partition));
        owning.map(|member| &member.id).collect()
    }
}

/// What holds for every assignment, whatever Kafka makes of the group.
fn check(case: &Case, ours: &Assignments) -> Result<(), String> {
    let ids: BTreeSet<_> = case
        .members
        .iter()
        .map(|member| Arc::clone(&member.id))
        .collect();
    if !ours.keys().eq(ids.iter()) {
        return Err("not every member has an entry".into());
    }
    let mut given = BTreeSet::new();
    for member in &case.members {
        for partition in &ours[&member.id] {
            let exists = case
                .counts
                .get(&partition.0)
                .is_some_and(|count| (0..*count).contains(&partition.1));
            if !exists || !member.subscription.topics.contains(&partition.0) {
                return Err(format!("{} should not have {partition:?}", member.id));
            }
            if !given.insert(partition.clone()) {
                return Err(format!("{partition:?} is assigned twice"));
            }
            let owners = case.owners(partition);
            if !owners.is_empty() && !owners.contains(&&member.id) {
                return Err(format!(
                    "{partition:?} is with another member than {} still",
                    member.id
                ));
            }
        }
    }
    let mut wanted = BTreeSet::new();
    for topic in case
        .members
        .iter()
        .flat_map(|member| &member.subscription.topics)
    {
        let count = case.counts.get(topic).copied().unwrap_or(0);
        wanted.extend((0..count).map(|number| (Arc::clone(topic), number)));
    }
    for partition in wanted.difference(&given) {
        if case.owners(partition).is_empty() {
            return Err(format!("{partition:?} is assigned to nobody"));
        }
    }
    Ok(())
}

fn corpus() -> impl Iterator<Item = Case> {
    let kept = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let folder = std::env::var_os("OTTLA_CORPUS").map_or_else(kept, PathBuf::from);
    let file = std::fs::File::open(folder.join(FILE)).unwrap();
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
    lines.map(|line| Case::parse(&line.unwrap()))
}

fn sorted(partitions: &[TopicPartition]) -> Vec<TopicPartition> {
    let mut partitions = partitions.to_vec();
    partitions.sort();
    partitions
}

/// The topics in the user data of `sticky`: a count of (name, count of int32), then what does not matter here.
fn topics_of_sticky(mut data: &[u8]) -> Option<BTreeSet<Arc<str>>> {
    let mut take = |length: usize| {
        let (taken, rest) = data.split_at_checked(length)?;
        data = rest;
        Some(taken)
    };
    let mut topics = BTreeSet::new();
    for _ in 0..u32::from_be_bytes(take(4)?.try_into().unwrap()) {
        let length = u16::from_be_bytes(take(2)?.try_into().unwrap());
        topics.insert(std::str::from_utf8(take(length.into())?).ok()?.into());
        let count = u32::from_be_bytes(take(4)?.try_into().unwrap());
        take(usize::try_from(count).ok()?.checked_mul(4)?)?;
    }
    Some(topics)
}

fn bytes(hex: &Value) -> Bytes {
    optional_bytes(hex).unwrap()
}

fn optional_bytes(hex: &Value) -> Option<Bytes> {
    let hex = hex.as_str()?;
    let bytes = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
    Some(bytes.collect())
}
