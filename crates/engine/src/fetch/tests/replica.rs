//! Reading at a replica that is nearer than the leader (KIP-392).

use super::*;

/// A reader in a rack, of a partition that broker 1 leads.
fn in_a_rack(pairs: &[(&'static str, &'static str)]) -> Reader {
    let rack = [("client.rack", "east")];
    let pairs: Vec<_> = rack.iter().chain(pairs).copied().collect();
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
    let wanted = [("t".into(), 0, Start::Offset(10))];
    script.engine.assign(script.now, wanted).unwrap();
    script
}

fn rack(asked: &Asked) -> &str {
    match &asked.request {
        Request::Fetch(request) => &request.rack_id,
        other => panic!("not a Fetch: {other:?}"),
    }
}

/// Respond that the broker `node` is nearer.
fn send_to(script: &mut Reader, asked: &Asked, node: i32) {
    let Request::Fetch(request) = &asked.request else {
        panic!("not a Fetch")
    };
    let topics = request.topics.iter();
    let responses = topics.map(|topic| FetchableTopicResponse {
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|part| PartitionData {
                partition_index: part.partition,
                high_watermark: 100,
                preferred_read_replica: node,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    let answer = FetchResponse {
        responses: responses.collect(),
        ..Default::default()
    };
    script.answer(asked, Response::Fetch(answer));
}

fn one(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

/// The first fetch, to which the leader responded with the nearer broker 2, and the fetch that
/// follows from it.
fn sent_on(pairs: &[(&'static str, &'static str)]) -> (Reader, Asked) {
    let mut script = in_a_rack(pairs);
    let first = one(script.run());
    assert_eq!((script.address(first.link), rack(&first)), ("b1", "east"));
    send_to(&mut script, &first, 2);
    let second = one(script.run());
    (script, second)
}

#[test]
fn what_the_leader_says_is_nearer_is_read_there() {
    let (mut script, second) = sent_on(&[]);
    assert_eq!(script.address(second.link), "b2");
    assert_eq!(wanted(&second), [(0, 10)]);
    let text = "t-0 is read at broker 2, which is nearer than its leader".to_owned();
    assert!(told(&mut script).contains(&text));
    reply(&mut script, &second, ErrorCode::NONE, &[batch(10, 5)]);
    let third = one(script.run());
    assert_eq!(script.address(third.link), "b2");
    assert_eq!(wanted(&third), [(0, 15)]);
    let metrics = script.engine.metrics(script.now);
    let replicas = metrics
        .iter()
        .filter(|metric| metric.name == "preferred-read-replica");
    assert_eq!(replicas.map(|metric| metric.value).sum::<f64>(), 2.0);
}

#[test]
fn after_a_while_the_leader_is_asked_again() {
    let (mut script, second) = sent_on(&[("metadata.max.age.ms", "60000")]);
    script.now += Duration::from_secs(61);
    reply(&mut script, &second, ErrorCode::NONE, &[batch(10, 5)]);
    let third = one(script.run());
    assert_eq!((script.address(third.link), rack(&third)), ("b1", "east"));
}

#[test]
fn an_error_of_the_replica_leads_back_to_the_leader_and_resets_nothing() {
    for code in [
        ErrorCode::OFFSET_OUT_OF_RANGE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::REPLICA_NOT_AVAILABLE,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED,
    ] {
        let (mut script, second) = sent_on(&[("auto.offset.reset", "none")]);
        reply(&mut script, &second, code, &[]);
        assert_eq!(script.engine.stuck(), None, "{code:?}");
        assert!(script.run().is_empty(), "not without a pause");
        let again = script.pass(Duration::from_secs(1));
        assert_eq!(fetched(&again), [(0, 10)]);
        for asked in &again {
            assert_eq!((script.address(asked.link), rack(asked)), ("b1", "east"));
        }
    }
}

#[test]
fn a_replica_that_cannot_be_reached_stops_nothing() {
    let mut script = in_a_rack(&[]);
    let first = one(script.run());
    script.dead.push("b2".to_owned());
    send_to(&mut script, &first, 2);
    // With the rack in the request, the leader would name the same replica again.
    let second = one(script.run());
    assert_eq!((script.address(second.link), rack(&second)), ("b1", ""));
    reply(&mut script, &second, ErrorCode::NONE, &[batch(10, 5)]);
    let third = one(script.run());
    assert_eq!((script.address(third.link), rack(&third)), ("b1", ""));
}

#[test]
fn a_replica_whose_connection_breaks_stops_nothing() {
    let (mut script, second) = sent_on(&[]);
    script.dead.push("b2".to_owned());
    script.cut(second.link);
    for asked in script.pass(Duration::from_secs(1)) {
        assert_eq!((script.address(asked.link), rack(&asked)), ("b1", "east"));
        send_to(&mut script, &asked, 2);
        let next = one(script.run());
        assert_eq!((script.address(next.link), rack(&next)), ("b1", ""));
    }
}

#[test]
fn brokers_cannot_send_the_client_to_and_fro() {
    let (mut script, second) = sent_on(&[]);
    send_to(&mut script, &second, 1);
    let third = one(script.run());
    assert_eq!((script.address(third.link), rack(&third)), ("b1", ""));
    // A leader may not do that either if the request has no rack.
    send_to(&mut script, &third, 2);
    let fourth = one(script.run());
    assert_eq!((script.address(fourth.link), rack(&fourth)), ("b1", ""));
}

#[test]
fn a_replica_at_a_broker_that_is_not_known_is_not_sought() {
    let mut script = in_a_rack(&[]);
    let first = one(script.run());
    send_to(&mut script, &first, 77);
    let second = one(script.run());
    assert_eq!((script.address(second.link), rack(&second)), ("b1", ""));
}

#[test]
fn a_client_without_a_rack_tells_none() {
    let mut script = reader(&[], Start::Offset(10));
    script.topics = vec![("t", vec![1, 1])];
    assert_eq!(rack(&one(script.run())), "");
}
