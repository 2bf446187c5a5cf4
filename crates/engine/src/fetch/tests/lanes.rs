//! Which connection asks for what.

use super::*;

/// A reader of six partitions at one broker, and the fetch that it sent for all of them.
fn of_six() -> (Reader, Asked) {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &[]), 7));
    script.topics = vec![("t", vec![1; 6])];
    let all = (0..6).map(|number| ("t".into(), number, Start::Offset(10)));
    script.engine.assign(script.now, all).unwrap();
    let mut asked = script.run();
    assert_eq!(asked.len(), 1, "nothing is known of the logs yet");
    assert_eq!(wanted(&asked[0]).len(), 6);
    (script, asked.remove(0))
}

#[test]
fn partitions_with_records_to_come_are_shared_by_the_connections_of_their_broker() {
    let (mut script, first) = of_six();
    reply(&mut script, &first, ErrorCode::NONE, &[batch(10, 2)]);
    let asked = script.pass(Duration::from_millis(1));
    let halves: Vec<_> = asked.iter().map(wanted).collect();
    assert_eq!(
        halves,
        [[(0, 12), (1, 12), (2, 12)], [(3, 12), (4, 12), (5, 12)]]
    );
    assert_ne!(asked[0].link, asked[1].link);
    reply(&mut script, &asked[1], ErrorCode::NONE, &[batch(12, 2)]);
    let next = script.run();
    assert_eq!(fetched(&next), [(3, 14), (4, 14), (5, 14)]);
    assert_eq!(next.len(), 1, "the other half is on its way");
}

#[test]
fn partitions_at_their_ends_stay_in_one_request() {
    let (mut script, first) = of_six();
    reply(&mut script, &first, ErrorCode::NONE, &[batch(10, 90)]);
    let asked = script.run();
    assert_eq!(
        asked.len(),
        1,
        "the broker keeps it until there are records"
    );
    assert_eq!(wanted(&asked[0]).len(), 6);
}
