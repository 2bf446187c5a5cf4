//! Brokers that deny an offset which was read already: leaders of the past, logs that were cut, logs whose beginning is deleted.

use ottla_protocol::ApiKey;
use ottla_protocol::messages::ApiVersionsResponse;
use ottla_protocol::messages::api_versions_response::ApiVersion;

use super::*;
use crate::api::{HIGHEST, Versions};
use crate::release::Era;

const AGE: (&str, &str) = ("metadata.max.age.ms", "1000");
const POLICIES: [&str; 3] = ["earliest", "latest", "none"];

/// A consumer that has read up to offset 10 at broker 1, and the fetch that comes then, which broker 2 gets.
fn read_to_ten(versions: Option<Versions>, policy: &'static str) -> (Reader, Asked) {
    let pairs = [AGE, ("auto.offset.reset", policy)];
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, &pairs), 7));
    script.topics = vec![("t", vec![1])];
    if let Some(versions) = versions {
        script.versions = versions;
    }
    let wanted = [("t".into(), 0, Start::Offset(0))];
    script.engine.assign(script.now, wanted).unwrap();
    let asked = one(script.run());
    assert_eq!(script.address(asked.link), "b1");
    reply(&mut script, &asked, ErrorCode::NONE, &[batch(0, 10)]);
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 10));
    let asked = one(script.run());
    script.topics = vec![("t", vec![2])];
    assert!(script.pass(Duration::from_millis(1100)).is_empty());
    reply(&mut script, &asked, ErrorCode::NONE, &[]);
    let asked = one(script.run());
    assert_eq!(script.address(asked.link), "b2");
    assert_eq!(wanted_of(&asked), [(0, 10)]);
    (script, asked)
}

fn without_epochs() -> Option<Versions> {
    Some(Versions::of(Era::V0_9))
}

fn wanted_of(asked: &Asked) -> Vec<(i32, i64)> {
    wanted(asked)
}

fn one(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

fn deny(script: &mut Reader, asked: &Asked) {
    reply(script, asked, ErrorCode::OFFSET_OUT_OF_RANGE, &[]);
}

/// Respond with the beginning of the log, after the pause, and return the fetch that follows.
fn begins_at(script: &mut Reader, beginning: i64) -> Vec<Asked> {
    let asked = one(script.pass(Duration::from_secs(2)));
    assert_eq!(searched(std::slice::from_ref(&asked)), [(0, EARLIEST)]);
    reply_beginning(script, &asked, beginning);
    script.run()
}

/// Respond as brokers before 0.10.1 do, or as all others.
fn reply_beginning(script: &mut Reader, asked: &Asked, beginning: i64) {
    if asked.version > 0 {
        return reply_offsets(script, asked, ErrorCode::NONE, beginning);
    }
    let row = ListOffsetsPartitionResponse {
        old_style_offsets: [beginning].into_iter().collect(),
        ..Default::default()
    };
    let topic = ListOffsetsTopicResponse {
        name: "t".into(),
        partitions: vec![row],
        ..Default::default()
    };
    let answer = ListOffsetsResponse {
        topics: vec![topic],
        ..Default::default()
    };
    script.answer(asked, Response::ListOffsets(answer));
}

fn resets(script: &mut Reader) -> Vec<String> {
    let told = told(script).into_iter();
    told.filter(|text| text.contains("was reset")).collect()
}

#[test]
fn a_leader_of_the_past_resets_nothing() {
    for policy in POLICIES {
        let (mut script, mut asked) = read_to_ten(without_epochs(), policy);
        for _ in 0..3 {
            deny(&mut script, &asked);
            asked = one(begins_at(&mut script, 0));
            assert_eq!(script.address(asked.link), "b2");
            assert_eq!(wanted_of(&asked), [(0, 10)]);
        }
        let error = script.engine.partition_delay("t", 0).unwrap();
        assert_eq!(error.code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
        // Its successor is known everywhere by now.
        script.topics = vec![("t", vec![1])];
        deny(&mut script, &asked);
        asked = one(begins_at(&mut script, 0));
        assert_eq!(script.address(asked.link), "b1");
        assert_eq!(wanted_of(&asked), [(0, 10)]);
        reply(&mut script, &asked, ErrorCode::NONE, &[batch(10, 5)]);
        assert_eq!(wanted_of(&one(script.run())), [(0, 15)]);
        assert_eq!(script.engine.stuck(), None, "{policy}");
        assert_eq!(script.engine.partition_delay("t", 0), None);
        assert!(resets(&mut script).is_empty());
    }
}

#[test]
fn a_log_that_was_cut_is_left_in_the_end() {
    for policy in POLICIES {
        let (mut script, mut asked) = read_to_ten(without_epochs(), policy);
        let begun = script.now;
        let mut denials = 0;
        let last = loop {
            deny(&mut script, &asked);
            denials += 1;
            if script.engine.stuck().is_some() {
                break None;
            }
            let next = one(script.pass(Duration::from_secs(2)));
            if script.engine.position("t", 0) == Ok(None) {
                break Some(next);
            }
            reply_beginning(&mut script, &next, 0);
            asked = one(script.run());
            assert!(denials < 100);
        };
        let lasted = script.now - begun;
        let seconds = |seconds| Duration::from_secs(seconds);
        assert!((seconds(10)..seconds(60)).contains(&lasted), "{lasted:?}");
        let Some(next) = last else {
            let error = script.engine.stuck().unwrap();
            assert_eq!(
                (policy, error.code()),
                ("none", Some(ErrorCode::OFFSET_OUT_OF_RANGE))
            );
            continue;
        };
        let time = match policy {
            "earliest" => EARLIEST,
            _ => LATEST,
        };
        assert_eq!(searched(std::slice::from_ref(&next)), [(0, time)]);
        reply_beginning(&mut script, &next, 7);
        assert_eq!(
            resets(&mut script),
            ["offset of t-0 was reset from 10 to 7: it is not in the log"]
        );
        assert_eq!(fetched(&script.run()), [(0, 7)]);
    }
}

#[test]
fn a_log_that_begins_behind_the_offset_is_left_at_once() {
    for policy in POLICIES {
        let (mut script, asked) = read_to_ten(without_epochs(), policy);
        deny(&mut script, &asked);
        assert!(begins_at(&mut script, 50).is_empty());
        if policy == "none" {
            let error = script.engine.stuck().unwrap();
            assert_eq!(error.code(), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
            let text = "offset 10 is not in the log, and auto.offset.reset=none: seek";
            assert!(error.message().contains(text), "{error}");
            assert!(error.message().contains("the log begins at 50"), "{error}");
            continue;
        }
        let next = one(script.pass(Duration::from_secs(1)));
        reply_beginning(&mut script, &next, 70);
        assert_eq!(fetched(&script.run()), [(0, 70)]);
        assert_eq!(resets(&mut script).len(), 1);
    }
}

#[test]
fn a_log_that_begins_at_the_offset_is_not_left() {
    let (mut script, asked) = read_to_ten(without_epochs(), "latest");
    deny(&mut script, &asked);
    assert_eq!(fetched(&begins_at(&mut script, 10)), [(0, 10)]);
}

#[test]
fn an_offset_that_no_broker_confirmed_is_left_at_once() {
    let (mut script, asked) = read_to_ten(without_epochs(), "latest");
    let now = script.now;
    script.engine.seek(now, "t", 0, Start::Offset(500)).unwrap();
    deny(&mut script, &asked);
    let asked = script.run();
    deny(&mut script, &one(asked));
    assert_eq!(script.engine.position("t", 0), Ok(None));
    let next = script.pass(Duration::from_secs(1));
    assert_eq!(searched(&next), [(0, LATEST)]);
}

#[test]
fn a_leader_whose_epoch_is_as_new_is_believed() {
    let (mut script, asked) = read_to_ten(None, "latest");
    deny(&mut script, &asked);
    assert_eq!(script.engine.position("t", 0), Ok(None));
    let next = script.pass(Duration::from_secs(1));
    assert_eq!(searched(&next), [(0, LATEST)]);
}

#[test]
fn an_epoch_that_the_broker_was_not_told_proves_nothing() {
    let rows = HIGHEST
        .iter()
        .filter(|(api, _)| *api != ApiKey::GetTelemetrySubscriptions);
    let rows = rows.map(|&(api, highest)| ApiVersion {
        api_key: api.as_i16(),
        max_version: match api {
            ApiKey::Fetch => 8,
            _ => highest,
        },
        ..Default::default()
    });
    let versions = Versions::new(&ApiVersionsResponse {
        api_keys: rows.collect(),
        ..Default::default()
    });
    let (mut script, asked) = read_to_ten(Some(versions), "latest");
    deny(&mut script, &asked);
    assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
    assert_eq!(fetched(&begins_at(&mut script, 0)), [(0, 10)]);
}

#[test]
fn a_pause_during_a_doubt_ends_it() {
    let (mut script, asked) = read_to_ten(without_epochs(), "earliest");
    deny(&mut script, &asked);
    let lookup = one(script.pass(Duration::from_secs(2)));
    let now = script.now;
    script.engine.set_paused(now, "t", 0, true).unwrap();
    // A response that arrives meanwhile is of no use any more.
    reply_beginning(&mut script, &lookup, 50);
    assert!(script.pass(Duration::from_secs(60)).is_empty());
    let now = script.now;
    script.engine.set_paused(now, "t", 0, false).unwrap();
    let asked = one(script.run());
    assert_eq!(wanted_of(&asked), [(0, 10)]);
    // The time of the pause counts for nothing.
    deny(&mut script, &asked);
    assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
}

#[test]
fn records_that_wait_are_given_out_before_a_denial_counts() {
    let (mut script, asked) = read_to_ten(without_epochs(), "earliest");
    reply(&mut script, &asked, ErrorCode::NONE, &[batch(10, 5)]);
    for _ in 0..20 {
        let asked = one(script.pass(Duration::from_secs(2)));
        assert_eq!(wanted_of(&asked), [(0, 15)]);
        deny(&mut script, &asked);
    }
    assert_eq!(script.engine.position("t", 0), Ok(Some(10)));
    let taken = script.engine.take(script.now).unwrap();
    assert!(script.engine.advance("t", 0, taken.generation, 15));
    assert_eq!(
        wanted_of(&one(script.pass(Duration::from_secs(2)))),
        [(0, 15)]
    );
    assert!(resets(&mut script).is_empty());
}

#[test]
fn metadata_is_asked_of_another_broker_after_a_denial() {
    let (mut script, mut asked) = read_to_ten(without_epochs(), "earliest");
    script.metadata_from.clear();
    for _ in 0..4 {
        deny(&mut script, &asked);
        asked = one(begins_at(&mut script, 0));
    }
    let mut askers = script.metadata_from.clone();
    askers.dedup();
    assert!(askers.len() >= 4, "in turn: {:?}", script.metadata_from);
}
