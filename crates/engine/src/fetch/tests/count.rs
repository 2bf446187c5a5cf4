//! What happens to one partition costs the same however many others there are that nothing happens to.

use ottla_protocol::Uuid;
use ottla_protocol::messages::fetch_response::LeaderIdAndEpoch;

use super::*;

/// Positions looked at by each of many events that concern one partition out of `partitions`.
fn looks(partitions: i32) -> Vec<(&'static str, usize)> {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &[]), 7));
    let leaders = (0..partitions).map(|_| 1);
    script.topics = vec![("t", leaders.collect())];
    let all = (0..partitions).map(|number| ("t".into(), number, Start::Offset(0)));
    script.engine.assign(script.now, all).unwrap();
    let asked = script.run();
    assert_eq!(fetched(&asked).len(), partitions as usize, "all in flight");
    script.engine.client.fetcher.looks().take();
    let mut looks = Vec::new();
    let mut count = |script: &Reader, event| {
        let counter = script.engine.client.fetcher.looks();
        looks.push((event, counter.take()));
    };
    let now = script.now;
    script.engine.seek(now, "t", 5, Start::Offset(7)).unwrap();
    count(&script, "seek");
    let one = script.run();
    assert_eq!(fetched(&one), [(5, 7)]);
    count(&script, "dispatch");
    reply(&mut script, &one[0], ErrorCode::NONE, &[batch(7, 2)]);
    count(&script, "answer");
    let one = script.run();
    count(&script, "dispatch again");
    let taken = script.engine.take(now).unwrap();
    assert!(script.engine.advance("t", 5, taken.generation, 9));
    count(&script, "take and advance");
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
    count(&script, "stuck and delay");
    let code = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    reply(&mut script, &one[0], code, &[]);
    count(&script, "error");
    let one = script.pass(Duration::from_secs(1));
    script.engine.client.fetcher.looks().take();
    script.answer(&one[0], hint());
    count(&script, "another leader");
    assert_eq!(fetched(&script.run()), []);
    script.engine.client.fetcher.looks().take();
    script.engine.set_paused(now, "t", 6, true).unwrap();
    script.engine.set_paused(now, "t", 6, false).unwrap();
    count(&script, "pause and resume");
    for _ in 0..3 {
        script.engine.settle(script.now);
    }
    count(&script, "nothing");
    looks
}

/// t-5 is led by broker 2 since epoch 9.
fn hint() -> Response {
    let partitions = vec![PartitionData {
        partition_index: 5,
        error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
        current_leader: LeaderIdAndEpoch {
            leader_id: 2,
            leader_epoch: 9,
            ..Default::default()
        },
        ..Default::default()
    }];
    let responses = vec![FetchableTopicResponse {
        topic_id: Uuid([1; 16]),
        partitions,
        ..Default::default()
    }];
    Response::Fetch(FetchResponse {
        responses,
        ..Default::default()
    })
}

#[test]
fn idle_partitions_cost_nothing() {
    let few = looks(10);
    assert_eq!(few, looks(1000));
    assert!(few.iter().all(|(_, looks)| *looks < 30), "{few:?}");
    assert_eq!(few.last(), Some(&("nothing", 0)));
}
