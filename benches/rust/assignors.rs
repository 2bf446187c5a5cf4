//! Assignments of 10,000 partitions of 20 topics to 200 members; `AssignorOracle time` of `tests/conformance/java` measures Kafka's
//! own for the same groups.
#![allow(clippy::expect_used)] // a bench that cannot go on has no one to tell

use std::sync::Arc;

use divan::Bencher;
use ottla_engine::group::assignor::{
    Assignments, Assignor, Member, Owned, Subscription, Topics, by_name,
};

const NAMES: [&str; 4] = ["range", "roundrobin", "sticky", "cooperative-sticky"];

fn main() {
    divan::main();
}

/// All members subscribed to all topics.
#[divan::bench(args = NAMES)]
fn alike_fresh(bencher: Bencher, name: &str) {
    bench(bencher, name, true, false);
}

/// Ten of the members are new.
#[divan::bench(args = NAMES)]
fn alike_owning(bencher: Bencher, name: &str) {
    bench(bencher, name, true, true);
}

/// Each member subscribed to all topics but one.
#[divan::bench(args = NAMES)]
fn differing_fresh(bencher: Bencher, name: &str) {
    bench(bencher, name, false, false);
}

#[divan::bench(args = NAMES)]
fn differing_owning(bencher: Bencher, name: &str) {
    bench(bencher, name, false, true);
}

fn bench(bencher: Bencher, name: &str, alike: bool, owning: bool) {
    let assignor = by_name(name).expect("an assignor's name");
    let mut topics = Topics::default();
    for topic in 0..20 {
        topics.insert(format!("topic-{topic}").into(), vec![Vec::new(); 500]);
    }
    let before = if owning {
        assignor.assign(&topics, &group(assignor, alike, 190, &Assignments::new()))
    } else {
        Assignments::new()
    };
    let members = group(assignor, alike, 200, &before);
    bencher.bench(|| assignor.assign(&topics, &members));
}

fn group(assignor: &dyn Assignor, alike: bool, count: usize, owned: &Assignments) -> Vec<Member> {
    let members = 0..count;
    members
        .map(|number| {
            let id: Arc<str> = format!("consumer-{number:03}").into();
            let topics = (0..20).filter(|topic| alike || *topic != number % 20);
            let has = owned.get(&id).cloned();
            let generation = if has.is_some() { 3 } else { -1 };
            let subscription = Subscription {
                topics: topics
                    .map(|topic| format!("topic-{topic}").into())
                    .collect(),
                owned: has.clone().unwrap_or_default(),
                generation,
                user_data: assignor.user_data(&Owned {
                    partitions: has,
                    generation,
                }),
                rack: None,
            };
            Member {
                id,
                instance_id: None,
                subscription,
            }
        })
        .collect()
}
