//! Which connection sends which requests.

use super::*;

/// A reader of six of seven partitions at one broker, and the fetch that it sent for all of them.
fn of_six() -> (Reader, Asked) {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &[]), 7));
    script.topics = vec![("t", vec![1; 7])];
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

/// How long the broker may keep a fetch, in milliseconds.
fn kept(asked: &Asked) -> i32 {
    match &asked.request {
        Request::Fetch(request) => request.max_wait_ms,
        _ => panic!("{asked:?}"),
    }
}

/// The same reader at the ends of its six partitions, and its fetches of both halves, which wait at the broker.
fn of_halves() -> (Reader, Asked, Asked) {
    let (mut script, first) = of_six();
    reply(&mut script, &first, ErrorCode::NONE, &[batch(10, 2)]);
    let asked = script.pass(Duration::from_millis(1));
    assert_eq!(asked.len(), 2);
    let halves = asked.iter().map(|asked| {
        reply(&mut script, asked, ErrorCode::NONE, &[batch(12, 88)]);
        let mut next = script.run();
        assert_eq!(next.len(), 1, "{next:?}");
        next.remove(0)
    });
    let mut halves: Vec<_> = halves.collect();
    let second = halves.remove(1);
    assert_eq!((kept(&halves[0]), kept(&second)), (500, 50));
    (script, halves.remove(0), second)
}

/// The seventh partition comes to the reader.
fn add_seventh(script: &mut Reader) -> Vec<Asked> {
    let all = (0..7).map(|number| ("t".into(), number, Start::Reset));
    let all = all.map(|(topic, number, start)| match number {
        6 => (topic, number, Start::Offset(10)),
        _ => (topic, number, start),
    });
    script.engine.assign(script.now, all).unwrap();
    script.run()
}

#[test]
fn a_partition_that_comes_while_others_wait_on_all_connections_waits_shortly() {
    let (mut script, first, second) = of_halves();
    assert!(add_seventh(&mut script).is_empty());
    assert!(script.pass(Duration::from_millis(50)).is_empty());
    reply(&mut script, &second, ErrorCode::NONE, &[]);
    let asked = script.run();
    assert_eq!(fetched(&asked), [(3, 100), (4, 100), (5, 100), (6, 10)]);
    assert_eq!(asked.len(), 1);
    assert_eq!(kept(&asked[0]), 50, "the other fetch still waits");
    assert_ne!(asked[0].link, first.link);
}

#[test]
fn fetches_that_wait_come_together_and_leave_a_connection_to_partitions_that_come() {
    let (mut script, first, mut second) = of_halves();
    let begun = script.now;
    while script.now < begun + Duration::from_millis(450) {
        assert!(script.pass(Duration::from_millis(50)).is_empty());
        reply(&mut script, &second, ErrorCode::NONE, &[]);
        let mut asked = script.run();
        assert_eq!(asked.len(), 1);
        second = asked.remove(0);
    }
    assert!(script.pass(Duration::from_millis(50)).is_empty());
    reply(&mut script, &second, ErrorCode::NONE, &[]);
    assert!(script.run().is_empty(), "the other answer is due");
    reply(&mut script, &first, ErrorCode::NONE, &[]);
    let asked = script.run();
    assert_eq!(asked.len(), 1);
    assert_eq!((wanted(&asked[0]).len(), kept(&asked[0])), (6, 500));
    let seventh = add_seventh(&mut script);
    assert_eq!(fetched(&seventh), [(6, 10)], "it waits for nobody");
    assert_ne!(seventh[0].link, asked[0].link);
}

#[test]
fn an_answer_that_is_late_is_not_waited_for_long() {
    let (mut script, _, second) = of_halves();
    assert!(script.pass(Duration::from_millis(495)).is_empty());
    reply(&mut script, &second, ErrorCode::NONE, &[]);
    assert!(script.pass(Duration::from_millis(50)).is_empty());
    let asked = script.pass(Duration::from_millis(10));
    assert_eq!(fetched(&asked), [(3, 100), (4, 100), (5, 100)]);
}
