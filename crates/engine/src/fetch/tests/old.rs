//! Consumers and brokers before 0.10.1, whose responses have no bound of their own.

use super::*;
use crate::api::Versions;
use crate::release::Era;

#[test]
fn a_request_is_for_as_many_partitions_as_its_answer_may_hold() {
    for (per_partition, most) in [("20000000", 1), ("1000000", 2)] {
        let pairs = [
            ("max.partition.fetch.bytes", per_partition),
            ("fetch.max.bytes", "30000000"),
        ];
        let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
        script.topics = vec![("t", vec![1, 1])];
        script.versions = Versions::of(Era::V0_9);
        let start = Start::Offset(0);
        let wanted = [("t".into(), 0, start), ("t".into(), 1, start)];
        script.engine.assign(script.now, wanted).unwrap();
        let mut asked = script.run();
        asked.extend(script.pass(Duration::from_millis(1)));
        let fetches: Vec<_> = asked.iter().map(wanted_of).collect();
        assert!(!fetches.is_empty());
        for fetch in &fetches {
            assert!(fetch.len() <= most, "{fetches:?}");
        }
        // No partition is forgotten: the other one comes on the other connection, or next.
        let mut all: Vec<_> = fetches.concat();
        all.sort_unstable();
        assert_eq!(all, [(0, 0), (1, 0)]);
        assert!(asked.iter().all(|asked| asked.version == 1));
    }
}

/// These brokers give the beginning of a message that is larger than was asked for, again and again.
#[test]
fn a_partition_alone_may_have_more_than_prefetch_holds() {
    for (era, most) in [(Some(Era::V0_9), 1_000_000), (None, 1000)] {
        let pairs = [
            ("max.partition.fetch.bytes", "1000000"),
            ("prefetch.max.bytes", "4000"),
        ];
        let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
        if let Some(era) = era {
            script.versions = Versions::of(era);
        }
        let wanted = [("t".into(), 0, Start::Offset(0))];
        script.engine.assign(script.now, wanted).unwrap();
        let asked = script.run();
        let Request::Fetch(fetch) = &asked[0].request else {
            panic!("{asked:?}")
        };
        let asked = fetch.topics[0].partitions[0].partition_max_bytes;
        assert_eq!(asked, most, "{era:?}");
    }
}

fn wanted_of(asked: &Asked) -> Vec<(i32, i64)> {
    wanted(asked)
}
