//! Consumers and brokers before 0.10.1, whose answers have no bound of their own.

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

fn wanted_of(asked: &Asked) -> Vec<(i32, i64)> {
    wanted(asked)
}
