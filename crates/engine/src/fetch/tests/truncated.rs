//! Logs that were truncated below what was read (KIP-320).

use ottla_protocol::messages::OffsetForLeaderEpochResponse;
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::fetch_response::EpochEndOffset as Diverging;
use ottla_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use ottla_protocol::{ApiKey, messages::ApiVersionsResponse};

use super::*;
use crate::api::{HIGHEST, Versions};

/// The epoch of the records that [`batch`] makes.
const EPOCH: i32 = 4;

/// The versions of Kafka 2.4 to 2.6: Fetch requests do not have the epoch of the last record read.
fn without_diverging() -> Versions {
    let rows = HIGHEST
        .iter()
        .filter(|(api, _)| *api != ApiKey::GetTelemetrySubscriptions);
    let rows = rows.map(|&(api, max)| ApiVersion {
        api_key: api.as_i16(),
        max_version: match api {
            ApiKey::Fetch => 11,
            ApiKey::Metadata => 9,
            ApiKey::OffsetForLeaderEpoch => 3,
            _ => max,
        },
        ..Default::default()
    });
    Versions::new(&ApiVersionsResponse {
        api_keys: rows.collect(),
        ..Default::default()
    })
}

/// A consumer that was given records 0 to 9, and what comes next after leaders moved from broker 1 to broker 2.
fn read_to_ten(versions: Versions, policy: &'static str) -> (Reader, Asked) {
    let pairs = [
        ("metadata.max.age.ms", "1000"),
        ("auto.offset.reset", policy),
    ];
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
    script.versions = versions;
    script.topics = vec![("t", vec![1])];
    let wanted = [("t".into(), 0, Start::Offset(0))];
    script.engine.assign(script.now, wanted).unwrap();
    let asked = one(script.run());
    assert_eq!(epochs(&asked).1, -1, "nothing was read yet");
    reply(&mut script, &asked, ErrorCode::NONE, &[batch(0, 10)]);
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 10));
    let asked = one(script.run());
    script.topics = vec![("t", vec![2])];
    assert!(script.pass(Duration::from_millis(1100)).is_empty());
    reply(&mut script, &asked, ErrorCode::FENCED_LEADER_EPOCH, &[]);
    let asked = one(script.pass(Duration::from_secs(1)));
    assert_eq!(script.address(asked.link), "b2");
    (script, asked)
}

fn one(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

/// The leader epoch in a Fetch of one partition, and the epoch of the record before its offset.
fn epochs(asked: &Asked) -> (i32, i32) {
    let Request::Fetch(request) = &asked.request else {
        panic!("not a Fetch: {asked:?}")
    };
    let row = &request.topics[0].partitions[0];
    (row.current_leader_epoch, row.last_fetched_epoch)
}

/// The leader epoch in an OffsetForLeaderEpoch of one partition, and the epoch that it requests.
fn checked(asked: &Asked) -> (i32, i32) {
    let Request::OffsetForLeaderEpoch(request) = &asked.request else {
        panic!("not an OffsetForLeaderEpoch: {asked:?}")
    };
    assert_eq!(request.replica_id, -1);
    let row = &request.topics[0].partitions[0];
    (row.current_leader_epoch, row.leader_epoch)
}

/// The leader of the only partition responds that the requested epoch ends there.
fn ends(
    script: &mut Reader,
    asked: &Asked,
    code: ErrorCode,
    (leader_epoch, end_offset): (i32, i64),
) {
    let response = match &asked.request {
        Request::Fetch(request) => Response::Fetch(FetchResponse {
            responses: vec![FetchableTopicResponse {
                topic_id: request.topics[0].topic_id,
                partitions: vec![PartitionData {
                    error_code: code.0,
                    diverging_epoch: Diverging {
                        epoch: leader_epoch,
                        end_offset,
                        ..Default::default()
                    },
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }),
        _ => Response::OffsetForLeaderEpoch(OffsetForLeaderEpochResponse {
            topics: vec![OffsetForLeaderTopicResult {
                topic: "t".into(),
                partitions: vec![EpochEndOffset {
                    error_code: code.0,
                    leader_epoch,
                    end_offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }),
    };
    script.answer(asked, response);
}

fn truncations(script: &mut Reader) -> Vec<String> {
    let told = told(script).into_iter();
    told.filter(|text| text.contains("truncated")).collect()
}

fn both() -> [Versions; 2] {
    [crate::script::versions(), without_diverging()]
}

#[test]
fn a_new_leader_is_told_the_epoch_of_what_was_read_last() {
    let (_, asked) = read_to_ten(crate::script::versions(), "none");
    assert_eq!(epochs(&asked).1, EPOCH);
    let (mut script, asked) = read_to_ten(without_diverging(), "none");
    let (leader_epoch, epoch) = checked(&asked);
    assert_eq!(epoch, EPOCH);
    ends(&mut script, &asked, ErrorCode::NONE, (EPOCH, 12));
    let asked = one(script.run());
    assert_eq!(
        (wanted(&asked), epochs(&asked)),
        (vec![(0, 10)], (leader_epoch, -1))
    );
    reply(&mut script, &asked, ErrorCode::NONE, &[batch(10, 5)]);
    let asked = one(script.run());
    assert_eq!(
        wanted(&asked),
        [(0, 15)],
        "the same leader is not asked again"
    );
}

#[test]
fn reading_goes_on_where_the_log_was_cut() {
    for versions in both() {
        for policy in ["earliest", "latest", "by_duration:PT1H"] {
            let (mut script, asked) = read_to_ten(versions.clone(), policy);
            truncations(&mut script);
            ends(&mut script, &asked, ErrorCode::NONE, (EPOCH, 7));
            assert_eq!(script.engine.position("t", 0), Ok(Some(7)));
            assert_eq!(
                truncations(&mut script),
                [
                    "the log of t-0 was truncated, and records are lost that were read before offset 10 (leader epoch 4): the leader's \
                     log differs from offset 7 on (leader epoch 4), and reading continues there"
                ]
            );
            let mut asked = one(script.pass(Duration::from_secs(1)));
            if matches!(asked.request, Request::OffsetForLeaderEpoch(_)) {
                assert_eq!(checked(&asked).1, EPOCH);
                ends(&mut script, &asked, ErrorCode::NONE, (EPOCH, 7));
                asked = one(script.run());
            }
            assert_eq!(wanted(&asked), [(0, 7)]);
            assert_eq!(script.engine.stuck(), None);
        }
    }
}

#[test]
fn without_a_policy_both_offsets_are_told_until_a_seek() {
    for versions in both() {
        let (mut script, asked) = read_to_ten(versions, "none");
        ends(&mut script, &asked, ErrorCode::NONE, (3, 7));
        assert!(script.pass(Duration::from_secs(5)).is_empty());
        let error = script.engine.stuck().unwrap().clone();
        assert_eq!(error.kind(), Kind::Truncated);
        assert_eq!((error.topic(), error.partition()), (Some("t"), Some(0)));
        assert!(!error.is_retriable());
        let truncation = error.truncation().unwrap();
        assert_eq!((truncation.offset, truncation.leader_epoch), (10, 4));
        assert_eq!(truncation.divergent.map(|(offset, _)| offset), Some(0));
        for fact in [
            "offset 10 was read (leader epoch 4)",
            "from offset 0 on",
            "seek to 0 ",
        ] {
            assert!(
                error.message().contains(fact),
                "{fact}: {}",
                error.message()
            );
        }
        assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
        script
            .engine
            .seek(script.now, "t", 0, Start::Offset(10))
            .unwrap();
        let asked = one(script.run());
        assert_eq!((wanted(&asked), epochs(&asked).1), (vec![(0, 10)], -1));
        assert_eq!(script.engine.stuck(), None);
    }
}

#[test]
fn an_epoch_that_the_leader_does_not_know_is_reset() {
    let (mut script, asked) = read_to_ten(without_diverging(), "earliest");
    ends(&mut script, &asked, ErrorCode::NONE, (-1, -1));
    let asked = one(script.pass(Duration::from_secs(1)));
    assert_eq!(searched(std::slice::from_ref(&asked)), [(0, EARLIEST)]);
    reply_offsets(&mut script, &asked, ErrorCode::NONE, 3);
    assert_eq!(script.engine.position("t", 0), Ok(Some(3)));
    let told = truncations(&mut script);
    assert!(
        told.iter()
            .any(|text| text.ends_with("knows no such epoch")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|text| text.contains("was reset from 10 to 3: the log was truncated")),
        "{told:?}"
    );
}

#[test]
fn what_was_fetched_before_is_given_out_first() {
    let pairs = [("auto.offset.reset", "none")];
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
    script.topics = vec![("t", vec![1])];
    let wanted = [("t".into(), 0, Start::Offset(0))];
    script.engine.assign(script.now, wanted).unwrap();
    let asked = one(script.run());
    reply(&mut script, &asked, ErrorCode::NONE, &[batch(0, 10)]);
    let asked = one(script.run());
    ends(&mut script, &asked, ErrorCode::NONE, (EPOCH, 7));
    assert_eq!(script.engine.stuck(), None);
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 10));
    let asked = one(script.pass(Duration::from_secs(2)));
    ends(&mut script, &asked, ErrorCode::NONE, (EPOCH, 7));
    assert_eq!(
        script.engine.stuck().map(crate::Error::kind),
        Some(Kind::Truncated)
    );
}

#[test]
fn a_check_that_fails_is_repeated_and_one_that_brokers_do_not_take_left_out() {
    let (mut script, asked) = read_to_ten(without_diverging(), "none");
    ends(
        &mut script,
        &asked,
        ErrorCode::UNKNOWN_LEADER_EPOCH,
        (-1, -1),
    );
    let asked = one(script.pass(Duration::from_secs(1)));
    checked(&asked);
    ends(
        &mut script,
        &asked,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        (-1, -1),
    );
    assert_eq!(wanted(&one(script.run())), [(0, 10)]);
    assert_eq!(script.engine.stuck(), None);
}

#[test]
fn a_broker_that_says_so_of_the_same_log_is_not_asked_without_end() {
    let (mut script, mut asked) = read_to_ten(crate::script::versions(), "none");
    let mut times = 0;
    let begun = script.now;
    while script.now - begun < Duration::from_secs(5) {
        ends(&mut script, &asked, ErrorCode::NONE, (EPOCH, 10));
        assert!(script.run().is_empty());
        asked = one(script.pass(Duration::from_millis(200)));
        times += 1;
    }
    assert!(times < 60);
    assert_eq!(script.engine.stuck(), None);
}

#[test]
fn positions_are_committed_with_the_epoch_of_what_was_read() {
    let (script, _) = read_to_ten(crate::script::versions(), "none");
    let given = |unread: Option<i64>| {
        let given = script.engine.given(|_, _| unread);
        (given[0].offset, given[0].leader_epoch)
    };
    assert_eq!(given(None), (10, EPOCH));
    assert_eq!(given(Some(4)), (4, EPOCH));
    assert_eq!(given(Some(0)), (0, -1));
}

/// A consumer of a leader of epoch 1 that begins at offset 20, before which stands a record of this epoch, and the first request of its position.
fn begins_after(epoch: i32, versions: Versions) -> (Reader, Asked) {
    let none = [("auto.offset.reset", "none")];
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &none), 7));
    script.versions = versions;
    script.topics = vec![("t", vec![1])];
    let wanted = [("t".into(), 0, Start::After(20, epoch))];
    script.engine.assign(script.now, wanted).unwrap();
    let asked = one(script.pass(Duration::from_millis(1)));
    match &asked.request {
        Request::Fetch(_) => assert_eq!(epochs(&asked).1, epoch),
        _ => assert_eq!(checked(&asked).1, epoch),
    }
    (script, asked)
}

#[test]
fn an_offset_that_comes_with_its_epoch_is_compared_at_once() {
    for versions in both() {
        let (mut script, asked) = begins_after(1, versions);
        ends(&mut script, &asked, ErrorCode::NONE, (0, 13));
        let error = script.engine.stuck().unwrap();
        assert_eq!(error.kind(), Kind::Truncated);
        assert!(
            error
                .message()
                .contains("from offset 13 on (leader epoch 0"),
            "{error}"
        );
    }
}

#[test]
fn a_leader_older_than_the_epoch_that_an_offset_comes_with_is_not_believed_at_once() {
    for versions in both() {
        let (mut script, asked) = begins_after(2, versions);
        ends(&mut script, &asked, ErrorCode::NONE, (1, 13));
        assert_eq!(script.engine.stuck(), None);
    }
}

#[test]
fn a_log_may_be_read_from_so_long_ago() {
    let second = 1_000_000_000;
    let pairs = [("auto.offset.reset", "by_duration:PT10M")];
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
    script.topics = vec![("t", vec![1])];
    script
        .engine
        .set_time_of_day(script.now, 1_000_000 * second);
    let wanted = [("t".into(), 0, Start::Reset)];
    script.engine.assign(script.now, wanted).unwrap();
    script.now += Duration::from_secs(5);
    let asked = one(script.run());
    assert_eq!(
        searched(std::slice::from_ref(&asked)),
        [(0, 1_000_005_000 - 600_000)]
    );
    reply_offsets(&mut script, &asked, ErrorCode::NONE, -1);
    let asked = one(script.run());
    assert_eq!(
        searched(std::slice::from_ref(&asked)),
        [(0, LATEST)],
        "all are older"
    );
    reply_offsets(&mut script, &asked, ErrorCode::NONE, 33);
    assert_eq!(script.engine.position("t", 0), Ok(Some(33)));
}
