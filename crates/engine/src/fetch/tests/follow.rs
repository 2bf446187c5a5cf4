//! Topics that are followed: added partitions, topics that go and come back, topics that never were.

use super::*;
use crate::change::Change;

const STRICT: (&str, &str) = ("allow.auto.create.topics", "false");

fn follower(pairs: &[(&'static str, &'static str)]) -> Reader {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, pairs), 7));
    let now = script.now;
    script.engine.follow(now, vec!["t".into()]).unwrap();
    script
}

/// A follower that fetches from offset 10 on.
fn at_ten(pairs: &[(&'static str, &'static str)]) -> (Reader, Vec<Asked>) {
    let mut script = follower(pairs);
    let asked = script.run();
    find(&mut script, &asked, 10);
    let asked = script.run();
    assert_eq!(fetched(&asked), [(0, 10), (1, 10)]);
    (script, asked)
}

fn assigned(script: &Reader) -> Vec<i32> {
    let all = script.engine.assignment();
    all.map(|(_, partition, _)| partition).collect()
}

#[test]
fn added_partitions_are_read_from_their_beginning() {
    let mut script = follower(&[("metadata.max.age.ms", "1000")]);
    assert!(script.engine.has_topics() && assigned(&script).is_empty());
    assert_eq!(script.engine.position("t", 0), Ok(None));
    let asked = script.run();
    assert_eq!(searched(&asked), [(0, LATEST), (1, LATEST)]);
    find(&mut script, &asked, 10);
    assert_eq!(fetched(&script.run()), [(0, 10), (1, 10)]);
    script.topics = vec![("t", vec![1, 2, 1])];
    let asked = script.pass(Duration::from_millis(1100));
    assert_eq!(searched(&asked), [(2, EARLIEST)], "{asked:?}");
    find(&mut script, &asked, 0);
    assert_eq!(fetched(&script.run()), [(2, 0)]);
    assert_eq!(assigned(&script), [0, 1, 2]);
    assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
}

#[test]
fn an_assignment_ends_following_and_the_reverse() {
    let (mut script, _) = at_ten(&[("metadata.max.age.ms", "1000")]);
    let now = script.now;
    script
        .engine
        .assign(now, [("t".into(), 1, Start::Reset)])
        .unwrap();
    assert_eq!(script.engine.position("t", 1), Ok(Some(10)), "it goes on");
    script.topics = vec![("t", vec![1, 2, 1])];
    script.pass(Duration::from_millis(1100));
    assert_eq!(assigned(&script), [1]);
    let now = script.now;
    script.engine.follow(now, vec!["t".into()]).unwrap();
    assert_eq!(assigned(&script), [0, 1, 2]);
    let asked = script.run();
    assert_eq!(searched(&asked), [(0, LATEST), (2, LATEST)]);
    assert_eq!(script.engine.position("t", 1), Ok(Some(10)));
    let now = script.now;
    script.engine.follow(now, Vec::new()).unwrap();
    assert!(!script.engine.has_topics() && assigned(&script).is_empty());
}

#[test]
fn a_topic_made_anew_is_read_from_its_beginning_after_what_came_of_the_old_one() {
    let (mut script, asked) = at_ten(&[("metadata.max.age.ms", "1000")]);
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(10, 5)]);
    script.run();
    script.topic_id = Some(77);
    told(&mut script);
    let asked = script.pass(Duration::from_millis(1100));
    assert_eq!(searched(&asked), [(1, EARLIEST)], "t-0 has records left");
    find(&mut script, &asked, 0);
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 15));
    assert!(script.engine.take(script.now).is_none());
    assert_eq!(script.engine.position("t", 0), Ok(None));
    let asked = script.run();
    assert_eq!(searched(&asked), [(0, EARLIEST)]);
    find(&mut script, &asked, 2);
    assert_eq!(fetched(&script.run()), [(0, 2)]);
    assert_eq!(
        told(&mut script)
            .into_iter()
            .filter(|text| text.contains("created again"))
            .collect::<Vec<_>>(),
        [
            "topic t was deleted and created again",
            "offset of t-1 was reset from 10 to 0: the topic was deleted and created again",
            "offset of t-0 was reset from 15 to 2: the topic was deleted and created again",
        ]
    );
    // A broker that lags behind changes nothing.
    script.topic_id = None;
    assert!(searched(&script.pass(Duration::from_secs(2))).is_empty());
    assert_eq!(script.engine.position("t", 0), Ok(Some(2)));
}

#[test]
fn what_was_read_before_a_partition_was_taken_away_is_still_known() {
    let (mut script, asked) = at_ten(&[("metadata.max.age.ms", "1000")]);
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(10, 5)]);
    script.run();
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 15));
    let reads = |script: &Reader| -> Vec<_> {
        let reads = script.engine.topics_read().into_iter();
        let of_one = reads.filter(|read| read.partition == 0);
        of_one.map(|read| (read.topic_id, read.end)).collect()
    };
    let before = reads(&script);
    assert!(
        matches!(before[..], [(id, 15)] if id != ottla_protocol::Uuid::ZERO),
        "{before:?}"
    );
    // A group takes away what was deleted, and gives it back when it is there again.
    let now = script.now;
    script.engine.follow(now, Vec::new()).unwrap();
    assert_eq!(reads(&script), before);
    script.topic_id = Some(77);
    let now = script.now;
    script.engine.follow(now, vec!["t".into()]).unwrap();
    let asked = script.pass(Duration::from_millis(1100));
    assert_eq!(assigned(&script), [0, 1]);
    assert_eq!(reads(&script), before);
    // It does so once more while the metadata has the deleted topic, and before anything of the new one is read.
    find(&mut script, &asked, 0);
    script.run();
    let now = script.now;
    script.engine.follow(now, Vec::new()).unwrap();
    script.engine.follow(now, vec!["t".into()]).unwrap();
    assert_eq!(reads(&script), before);
}

#[test]
fn a_topic_made_anew_may_have_fewer_partitions() {
    let (mut script, _) = at_ten(&[("metadata.max.age.ms", "1000")]);
    script.topic_id = Some(77);
    script.topics = vec![("t", vec![2])];
    let asked = script.pass(Duration::from_millis(1100));
    assert_eq!(searched(&asked), [(0, EARLIEST)]);
    assert_eq!(assigned(&script), [0]);
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
}

#[test]
fn a_reset_to_the_end_does_not_skip_a_topic_made_anew() {
    let (mut script, asked) = at_ten(&[]);
    script.topic_id = Some(77);
    for asked in &asked {
        reply(&mut script, asked, ErrorCode::OFFSET_OUT_OF_RANGE, &[]);
    }
    let asked = script.pass(Duration::from_secs(1));
    let searched = searched(&asked);
    for partition in [0, 1] {
        assert!(searched.contains(&(partition, EARLIEST)), "{searched:?}");
    }
    find(&mut script, &asked, 3);
    let told = told(&mut script);
    let reset = "offset of t-0 was reset from 10 to 3: the topic was deleted and created again";
    assert!(told.iter().any(|text| text == reset), "{told:?}");
}

#[test]
fn without_a_reset_policy_a_topic_made_anew_is_an_error() {
    let mut script = reader(
        &[
            ("auto.offset.reset", "none"),
            ("metadata.max.age.ms", "1000"),
        ],
        Start::Offset(10),
    );
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(10, 5)]);
    script.run();
    script.topic_id = Some(77);
    script.pass(Duration::from_millis(1100));
    assert_eq!(
        script.engine.stuck(),
        None,
        "the caller gets what was fetched"
    );
    let taken = script.engine.take(script.now).unwrap();
    script.engine.advance("t", 0, taken.generation, 15);
    script.engine.take(script.now);
    let error = script.engine.stuck().unwrap();
    assert_eq!(error.code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
    assert!(error.message().contains("created again"), "{error}");
    assert_eq!(error.partition(), Some(0), "of t-1 nothing was ever read");
}

#[test]
fn a_topic_that_goes_is_told_once_and_waited_for() {
    let (mut script, asked) = at_ten(&[STRICT]);
    script.topics = Vec::new();
    told(&mut script);
    for asked in &asked {
        reply(&mut script, asked, ErrorCode::UNKNOWN_TOPIC_ID, &[]);
    }
    let asked = script.pass(Duration::from_secs(5));
    assert!(fetched(&asked).len() <= 2, "only before it was known");
    assert_eq!((script.engine.stuck(), script.engine.delay()), (None, None));
    let error = script.engine.partition_delay("t", 0).unwrap();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    let told = told(&mut script);
    let missing = "topic t is not available: UNKNOWN_TOPIC_OR_PARTITION";
    assert!(told.iter().any(|text| text == missing), "{told:?}");
    script.topics = vec![("t", vec![1, 2])];
    script.topic_id = Some(77);
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(searched(&asked), [(0, EARLIEST), (1, EARLIEST)]);
}

#[test]
fn a_topic_that_goes_while_its_offsets_are_looked_up_is_waited_for_too() {
    let mut script = follower(&[STRICT]);
    script.dead = ["b1", "b2"].map(str::to_owned).to_vec();
    script.pass(Duration::from_secs(1));
    assert_eq!(assigned(&script), [0, 1]);
    script.topics = Vec::new();
    script.pass(Duration::from_secs(10));
    assert_eq!(script.engine.stuck(), None);
    script.topics = vec![("t", vec![1, 2])];
    script.dead.clear();
    let asked = script.pass(Duration::from_secs(10));
    assert_eq!(searched(&asked), [(0, LATEST), (1, LATEST)]);
}

#[test]
fn a_topic_that_never_was_is_an_error_within_a_second() {
    let mut script = follower(&[STRICT]);
    script.topics = Vec::new();
    script.pass(Duration::from_millis(200));
    assert_eq!(
        script.engine.stuck(),
        None,
        "a broker may not know of it yet"
    );
    script.pass(Duration::from_millis(800));
    let error = script.engine.stuck().unwrap().clone();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(error.topic(), Some("t"));
    assert!(changes(&mut script).contains(&Change::Records));
    assert_eq!(script.engine.delay(), Some(error.clone()));
    assert_eq!(script.engine.position("t", 0), Err(error));
    script.topics = vec![("t", vec![1, 2])];
    let asked = script.pass(Duration::from_secs(2));
    assert_eq!(script.engine.stuck(), None);
    assert_eq!(
        searched(&asked),
        [(0, EARLIEST), (1, EARLIEST)],
        "all of it was written since"
    );
}

/// A reader whose metadata denies topic `t`.
fn denied(numbers: &[i32]) -> Reader {
    let mut script = follower(&[]);
    script.run();
    look(&mut script, numbers, true);
    script
}

/// The cluster's metadata has these partitions of topic `t`, or denies it.
fn look(script: &mut Reader, numbers: &[i32], is_denied: bool) {
    let mut answer = crate::metadata::tests::answer(2, &[("t", numbers)]);
    if is_denied {
        answer.topics[0].error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
    }
    let (now, cluster) = (script.now, &mut script.engine.core.cluster);
    let link = cluster.up_link(1, crate::cluster::Lane::Control);
    cluster.handle_metadata(now, link.unwrap(), &answer);
    script.engine.settle(now);
}

/// The error that a poll raises.
fn raised(script: &mut Reader) -> Option<ErrorCode> {
    let error = script.engine.obstacle()?.clone();
    script.engine.note_raised(&error);
    error.code()
}

#[test]
fn a_topic_that_may_not_be_read_is_an_error_at_once() {
    let script = denied(&[]);
    let error = script.engine.stuck().unwrap();
    assert_eq!(error.code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
}

#[test]
fn a_topic_that_the_metadata_denies_is_raised_once_until_it_is_allowed() {
    const DENIED: Option<ErrorCode> = Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let mut script = denied(&[]);
    assert_eq!(raised(&mut script), DENIED);
    assert_eq!(raised(&mut script), None);
    look(&mut script, &[], true);
    assert_eq!(raised(&mut script), None);
    assert_eq!(script.engine.stuck(), None);
    look(&mut script, &[1], false);
    assert_eq!(raised(&mut script), None);
    look(&mut script, &[], true);
    assert_eq!(raised(&mut script), DENIED);
}

#[test]
fn seeks_before_the_partitions_are_known_are_remembered() {
    let mut script = follower(&[]);
    script
        .engine
        .seek_all(script.now, Start::Beginning)
        .unwrap();
    let to = Start::Offset(5);
    script.engine.seek(script.now, "t", 1, to).unwrap();
    let asked = script.run();
    assert_eq!(searched(&asked), [(0, EARLIEST)]);
    assert_eq!(fetched(&asked), [(1, 5)]);
    assert!(script.engine.seek(script.now, "t", 2, to).is_err());
    let wrong = script.engine.seek_all(script.now, Start::Offset(-1));
    assert_eq!(wrong.unwrap_err().kind(), Kind::Argument);
    script.engine.seek_all(script.now, Start::End).unwrap();
    assert_eq!(searched(&script.run()), [(0, LATEST), (1, LATEST)]);
}

fn changes(script: &mut Reader) -> Vec<Change> {
    let changes = std::iter::from_fn(|| script.engine.poll_change());
    changes
        .filter(|change| matches!(change, Change::Records | Change::Position))
        .collect()
}

#[test]
fn who_waits_for_records_or_positions_is_woken() {
    let mut script = follower(&[]);
    changes(&mut script);
    let asked = script.run();
    assert_eq!(changes(&mut script), []);
    find(&mut script, &asked, 10);
    assert_eq!(changes(&mut script), [Change::Position]);
    let asked = script.run();
    reply(&mut script, &asked[0], ErrorCode::NONE, &[batch(10, 1)]);
    assert_eq!(changes(&mut script), [Change::Records]);
    let positions = script.engine.positions().map(|row| (row.1, row.2));
    assert_eq!(
        positions.collect::<Vec<_>>(),
        [(0, Some(10)), (1, Some(10))]
    );
    let asked = script.run();
    let broken = Bytes::from(vec![0xff; 100]);
    reply(&mut script, &asked[0], ErrorCode::NONE, &[broken]);
    assert_eq!(
        changes(&mut script),
        [Change::Records, Change::Position],
        "an error is for both"
    );
}

#[test]
fn who_waits_is_woken_by_what_another_thread_asks_for() {
    const BOTH: [Change; 2] = [Change::Records, Change::Position];
    let mut script = follower(&[]);
    assert_eq!(changes(&mut script), BOTH, "other topics");
    let now = script.now;
    script.engine.seek_all(now, Start::Offset(4)).unwrap();
    assert_eq!(changes(&mut script), []);
    script.run();
    assert_eq!(
        changes(&mut script),
        [Change::Position],
        "the topic is known"
    );
    script.engine.seek(now, "t", 0, Start::Beginning).unwrap();
    assert_eq!(changes(&mut script), [], "its offset is not known yet");
    script.engine.seek(now, "t", 0, Start::Offset(9)).unwrap();
    assert_eq!(changes(&mut script), [Change::Position]);
    script.engine.seek_all(now, Start::Offset(5)).unwrap();
    assert_eq!(changes(&mut script), [Change::Position]);
    script.engine.set_paused(now, "t", 0, true).unwrap();
    assert_eq!(changes(&mut script), []);
    script.engine.set_paused(now, "t", 0, false).unwrap();
    assert_eq!(changes(&mut script), [Change::Records]);
    script.engine.assign(now, []).unwrap();
    assert_eq!(changes(&mut script), BOTH, "nothing is assigned");
}

#[test]
fn a_topic_made_anew_during_the_first_fetch_is_read_from_its_beginning() {
    let pairs = [("metadata.max.age.ms", "1000")];
    let mut script = reader(&pairs, Start::Offset(10));
    let asked = script.run();
    let first = to(&asked, &script, "b1");
    script.topic_id = Some(77);
    script.pass(Duration::from_millis(1100));
    reply(&mut script, &asked[first], ErrorCode::NONE, &[batch(10, 5)]);
    assert!(fetched(&script.run()).is_empty(), "there is another topic");
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 15));
    assert!(script.engine.take(script.now).is_none());
    assert_eq!(searched(&script.run()), [(0, EARLIEST)]);
}

#[test]
fn a_topic_made_anew_during_a_lookup_is_read_from_its_beginning() {
    let mut script = follower(&[("metadata.max.age.ms", "1000")]);
    let asked = script.run();
    assert_eq!(searched(&asked), [(0, LATEST), (1, LATEST)]);
    script.topic_id = Some(77);
    script.pass(Duration::from_millis(1100));
    find(&mut script, &asked, 10);
    let asked = script.run();
    assert_eq!(searched(&asked), [(0, EARLIEST), (1, EARLIEST)]);
}

#[test]
fn a_view_that_lags_behind_does_not_reset_what_is_read_of_the_new_topic() {
    let (mut script, _) = at_ten(&[("metadata.max.age.ms", "1000")]);
    script.topic_id = Some(77);
    let asked = script.pass(Duration::from_millis(1100));
    find(&mut script, &asked, 2);
    let asked = script.run();
    script.topic_id = None;
    script.pass(Duration::from_millis(1100));
    for asked in &asked {
        reply(&mut script, asked, ErrorCode::NONE, &[]);
    }
    let asked = script.run();
    assert_eq!(fetched(&asked), [(0, 2), (1, 2)]);
    for asked in &asked {
        reply(&mut script, asked, ErrorCode::NONE, &[]);
    }
    assert_eq!(fetched(&script.run()), [(0, 2), (1, 2)]);
}
