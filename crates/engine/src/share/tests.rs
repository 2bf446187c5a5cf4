//! A member of a share group stepped through scripts.

mod hostile;
mod races;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::compression::Compression;
use ottla_protocol::messages::find_coordinator_response::Coordinator;
use ottla_protocol::messages::share_acknowledge_response as acknowledged;
use ottla_protocol::messages::share_fetch_response::{
    AcquiredRecords, LeaderIdAndEpoch, PartitionData, ShareFetchableTopicResponse,
};
use ottla_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};
use ottla_protocol::messages::{
    FindCoordinatorResponse, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
    ShareFetchResponse, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
};
use ottla_protocol::records::{BatchBuilder, ProducerState, assign_offsets};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use crate::api::{Request, Response};
use crate::config::Role;
use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::script::{Asked, Script, config};
use crate::share_consumer::{AcknowledgeType, Acquired, CommitId, Committed, ShareConsumer};

type Member = Script<ShareConsumer>;

/// The id that the script gives the topic `t`, whose partitions 0 and 1 brokers 1 and 2 lead.
const T: Uuid = Uuid([1; 16]);
const EXPLICIT: &[(&str, &str)] = &[
    ("group.id", "g"),
    ("share.acknowledgement.mode", "explicit"),
];

fn subscribed(pairs: &[(&'static str, &'static str)]) -> Member {
    let config = config(Role::ShareConsumer, pairs);
    let mut script = Script::new(Engine::share_consumer(config, 7));
    let now = script.now;
    let topics = BTreeSet::from([Arc::from("t")]);
    script.engine.subscribe(now, topics).unwrap();
    script
}

/// Respond to FindCoordinator, and return the other requests.
fn asked(script: &mut Member) -> Vec<Asked> {
    let all = script.run();
    found(script, all)
}

fn passed(script: &mut Member, millis: u64) -> Vec<Asked> {
    let all = script.pass(Duration::from_millis(millis));
    found(script, all)
}

fn found(script: &mut Member, all: Vec<Asked>) -> Vec<Asked> {
    let mut rest = Vec::new();
    for asked in all {
        if let Request::FindCoordinator(request) = &asked.request {
            let row = Coordinator {
                key: request.coordinator_keys[0].clone(),
                node_id: 1,
                ..Default::default()
            };
            let answer = FindCoordinatorResponse {
                coordinators: vec![row],
                ..Default::default()
            };
            script.answer(&asked, Response::FindCoordinator(answer));
            let more = script.run();
            rest.extend(found(script, more));
        } else {
            rest.push(asked);
        }
    }
    rest
}

#[track_caller]
fn only(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

#[track_caller]
fn beat(asked: &Asked) -> &ShareGroupHeartbeatRequest {
    match &asked.request {
        Request::ShareGroupHeartbeat(request) => request,
        _ => panic!("{asked:?}"),
    }
}

#[track_caller]
fn fetch(asked: &Asked) -> &ShareFetchRequest {
    match &asked.request {
        Request::ShareFetch(request) => request,
        _ => panic!("{asked:?}"),
    }
}

#[track_caller]
fn acknowledge(asked: &Asked) -> &ShareAcknowledgeRequest {
    match &asked.request {
        Request::ShareAcknowledge(request) => request,
        _ => panic!("{asked:?}"),
    }
}

fn assign(script: &mut Member, asked: &Asked, epoch: i32, partitions: Option<&[i32]>) {
    beat(asked);
    let assignment = partitions.map(|partitions| Assignment {
        topic_partitions: vec![TopicPartitions {
            topic_id: T,
            partitions: partitions.to_vec().into(),
            ..Default::default()
        }],
        ..Default::default()
    });
    let answer = ShareGroupHeartbeatResponse {
        member_epoch: epoch,
        heartbeat_interval_ms: 5_000,
        assignment,
        ..Default::default()
    };
    script.answer(asked, Response::ShareGroupHeartbeat(answer));
}

fn refuse_beat(script: &mut Member, asked: &Asked, code: ErrorCode) {
    beat(asked);
    let answer = ShareGroupHeartbeatResponse {
        error_code: code.0,
        ..Default::default()
    };
    script.answer(asked, Response::ShareGroupHeartbeat(answer));
}

fn batch(first: i64, records: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for _ in 0..records {
        builder
            .append(1, None, Some(b"value"), std::iter::empty())
            .unwrap();
    }
    let mut bytes = builder.finish(ProducerState::NONE).unwrap().to_vec();
    assign_offsets(&mut bytes, first, 4).unwrap();
    bytes
}

/// A row of a response for one partition: ten records, of which these were acquired.
fn row(partition: i32, acquired: &[(i64, i64, i16)]) -> PartitionData {
    let ranges = acquired.iter().map(|(first, last, count)| AcquiredRecords {
        first_offset: *first,
        last_offset: *last,
        delivery_count: *count,
        ..Default::default()
    });
    PartitionData {
        partition_index: partition,
        records: (!acquired.is_empty()).then(|| batch(0, 10).into()),
        acquired_records: ranges.collect(),
        ..Default::default()
    }
}

fn answer_fetch(script: &mut Member, asked: &Asked, code: ErrorCode, rows: Vec<PartitionData>) {
    fetch(asked);
    let answer = ShareFetchResponse {
        error_code: code.0,
        acquisition_lock_timeout_ms: 30_000,
        responses: vec![ShareFetchableTopicResponse {
            topic_id: T,
            partitions: rows,
            ..Default::default()
        }],
        ..Default::default()
    };
    script.answer(asked, Response::ShareFetch(answer));
}

fn answer_acknowledge(script: &mut Member, asked: &Asked, partitions: &[(i32, ErrorCode)]) {
    acknowledge(asked);
    let rows = partitions
        .iter()
        .map(|(number, code)| acknowledged::PartitionData {
            partition_index: *number,
            error_code: code.0,
            ..Default::default()
        });
    let answer = ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: 30_000,
        responses: vec![acknowledged::ShareAcknowledgeTopicResponse {
            topic_id: T,
            partitions: rows.collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    script.answer(asked, Response::ShareAcknowledge(answer));
}

/// The content of an acknowledgement: partition, first and last offset, type.
fn said(asked: &Asked) -> Vec<(i32, i64, i64, i8)> {
    let mut all = Vec::new();
    match &asked.request {
        Request::ShareFetch(request) => {
            for row in request.topics.iter().flat_map(|topic| &topic.partitions) {
                for it in &row.acknowledgement_batches {
                    let kind = it.acknowledge_types[0];
                    all.push((row.partition_index, it.first_offset, it.last_offset, kind));
                }
            }
        }
        Request::ShareAcknowledge(request) => {
            for row in request.topics.iter().flat_map(|topic| &topic.partitions) {
                for it in &row.acknowledgement_batches {
                    let kind = it.acknowledge_types[0];
                    all.push((row.partition_index, it.first_offset, it.last_offset, kind));
                }
            }
        }
        _ => panic!("{asked:?}"),
    }
    all
}

/// A member with these partitions.
fn joined(pairs: &[(&'static str, &'static str)], partitions: &[i32]) -> Member {
    let mut script = subscribed(pairs);
    let join = only(asked(&mut script));
    assert_eq!(beat(&join).member_epoch, 0);
    assign(&mut script, &join, 3, Some(partitions));
    assert!(asked(&mut script).is_empty(), "nobody polls");
    script
}

fn poll(script: &mut Member) -> Vec<Asked> {
    let now = script.now;
    script.engine.poll_began(now, true);
    asked(script)
}

/// A member of partition 0 that was given offsets 0 to 4.
fn holding(pairs: &[(&'static str, &'static str)]) -> (Member, Acquired) {
    let mut script = joined(pairs, &[0]);
    let open = only(poll(&mut script));
    answer_fetch(
        &mut script,
        &open,
        ErrorCode::NONE,
        vec![row(0, &[(0, 4, 1)])],
    );
    let acquired = script.engine.take().unwrap();
    let now = script.now;
    assert!(script.engine.give(now, acquired.lock, (0, 4), (5, 50)));
    script.engine.poll_ended(now);
    assert!(asked(&mut script).is_empty());
    (script, acquired)
}

fn commit(script: &mut Member) -> CommitId {
    let now = script.now;
    script
        .engine
        .commit(now, now + Duration::from_secs(20))
        .unwrap()
}

#[track_caller]
fn error_of(found: Option<Vec<Committed>>) -> Error {
    let found = found.expect("the commit has ended");
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].error.clone().expect("an error")
}

#[test]
fn a_member_joins_is_assigned_and_says_its_topics_once() {
    let mut script = joined(EXPLICIT, &[0, 1]);
    assert_eq!(
        script.engine.assignment(),
        [("t".into(), 0), ("t".into(), 1)]
    );
    let again = only(passed(&mut script, 5_000));
    assert_eq!(beat(&again).member_epoch, 3);
    assert_eq!(beat(&again).subscribed_topic_names, None);
    assign(&mut script, &again, 4, Some(&[1]));
    assert_eq!(script.engine.assignment(), [("t".into(), 1)]);
}

#[test]
fn a_fenced_member_joins_anew_under_its_name() {
    for code in [ErrorCode::FENCED_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID] {
        let mut script = joined(EXPLICIT, &[0]);
        let name = script.engine.member_id().cloned();
        let next = only(passed(&mut script, 5_000));
        refuse_beat(&mut script, &next, code);
        assert!(script.engine.assignment().is_empty());
        let join = only(passed(&mut script, 1_000));
        assert_eq!(beat(&join).member_epoch, 0);
        assert_eq!(script.engine.member_id().cloned(), name);
        let topics = beat(&join).subscribed_topic_names.as_ref().unwrap();
        assert_eq!(topics.len(), 1);
    }
}

#[test]
fn a_coordinator_that_moved_is_looked_for() {
    let mut script = joined(EXPLICIT, &[0]);
    let next = only(passed(&mut script, 5_000));
    refuse_beat(&mut script, &next, ErrorCode::NOT_COORDINATOR);
    let again = only(passed(&mut script, 1_000));
    assert_eq!(beat(&again).member_epoch, 3);
    assert_eq!(script.engine.assignment().len(), 1, "it is a member still");
}

#[test]
fn a_cluster_without_share_groups_names_the_release() {
    let mut script = subscribed(EXPLICIT);
    let join = only(asked(&mut script));
    refuse_beat(&mut script, &join, ErrorCode::UNSUPPORTED_VERSION);
    let error = script.engine.stuck().unwrap();
    assert!(error.message().contains("Kafka 4.1"), "{error}");
    assert!(error.message().contains("share.version=1"), "{error}");
}

#[test]
fn records_are_requested_while_somebody_polls_and_none_are_there() {
    let mut script = joined(EXPLICIT, &[0, 1]);
    let open = poll(&mut script);
    assert_eq!(open.len(), 2, "a session for each leader");
    for each in &open {
        assert_eq!(fetch(each).share_session_epoch, 0);
        assert_eq!(
            (fetch(each).max_records, fetch(each).batch_size),
            (500, 500)
        );
        assert_eq!(fetch(each).topics[0].partitions.len(), 1);
    }
    let number = fetch(&open[0]).topics[0].partitions[0].partition_index;
    answer_fetch(
        &mut script,
        &open[0],
        ErrorCode::NONE,
        vec![row(number, &[(2, 3, 1), (5, 6, 2)])],
    );
    assert!(asked(&mut script).is_empty(), "records wait");
    let acquired = script.engine.take().unwrap();
    let counts: Vec<_> = acquired
        .ranges
        .iter()
        .map(|it| (it.first, it.last, it.delivery_count))
        .collect();
    assert_eq!(counts, [(2, 3, 1), (5, 6, 2)]);
    assert_eq!(acquired.fetched.fetch_offset, 2);
    let now = script.now;
    script.engine.poll_goes_on(now);
    let next = only(asked(&mut script));
    assert_eq!(fetch(&next).share_session_epoch, 1);
    assert!(fetch(&next).topics.is_empty(), "the broker knows them");
}

#[test]
fn what_was_said_goes_with_the_next_fetch() {
    let (mut script, acquired) = holding(EXPLICIT);
    assert!(script.engine.has_unacknowledged());
    let lock = acquired.lock;
    script
        .engine
        .acknowledge(lock, (0, 4), AcknowledgeType::Accept)
        .unwrap();
    script
        .engine
        .acknowledge(lock, (1, 1), AcknowledgeType::Reject)
        .unwrap();
    script
        .engine
        .acknowledge(lock, (3, 4), AcknowledgeType::Release)
        .unwrap();
    assert!(!script.engine.has_unacknowledged());
    let next = only(poll(&mut script));
    assert_eq!(fetch(&next).share_session_epoch, 1);
    let wanted = [(0, 0, 0, 1), (0, 1, 1, 3), (0, 2, 2, 1), (0, 3, 4, 2)];
    assert_eq!(said(&next), wanted);
    let error = script
        .engine
        .acknowledge(lock, (1, 1), AcknowledgeType::Accept)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Argument, "it was said");
}

#[test]
fn a_commit_tells_the_end_of_each_partition() {
    let (mut script, _) = holding(&[("group.id", "g")]);
    script.engine.accept_given();
    let id = commit(&mut script);
    let sent = only(asked(&mut script));
    assert_eq!(said(&sent), [(0, 0, 4, 1)]);
    assert_eq!(acknowledge(&sent).share_session_epoch, 1);
    assert!(!acknowledge(&sent).is_renew_ack);
    assert_eq!(script.engine.take_commit(id), None);
    answer_acknowledge(&mut script, &sent, &[(0, ErrorCode::NONE)]);
    let found = script.engine.take_commit(id).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&*found[0].topic, found[0].partition, &found[0].error),
        ("t", 0, &None)
    );
    assert_eq!(script.engine.take_commit(id), None);
    let nothing = commit(&mut script);
    assert_eq!(script.engine.take_commit(nothing), Some(Vec::new()));
}

#[test]
fn an_acknowledgement_that_fails_is_told_for_its_partition_only() {
    let mut script = joined(EXPLICIT, &[0, 1]);
    script.engine.keep_outcomes(true);
    for open in poll(&mut script) {
        let number = fetch(&open).topics[0].partitions[0].partition_index;
        answer_fetch(
            &mut script,
            &open,
            ErrorCode::NONE,
            vec![row(number, &[(0, 4, 1)])],
        );
    }
    let now = script.now;
    for _ in 0..2 {
        let acquired = script.engine.take().unwrap();
        assert!(script.engine.give(now, acquired.lock, (0, 4), (5, 50)));
        let kind = AcknowledgeType::Accept;
        script
            .engine
            .acknowledge(acquired.lock, (0, 4), kind)
            .unwrap();
    }
    script.engine.poll_ended(now);
    let id = commit(&mut script);
    for sent in asked(&mut script) {
        let number = said(&sent)[0].0;
        let code = if number == 0 {
            ErrorCode::INVALID_RECORD_STATE
        } else {
            ErrorCode::NONE
        };
        answer_acknowledge(&mut script, &sent, &[(number, code)]);
    }
    let found = script.engine.take_commit(id).unwrap();
    let errors: Vec<_> = found
        .iter()
        .map(|it| it.error.as_ref().and_then(|it| it.code()))
        .collect();
    assert_eq!(errors, [Some(ErrorCode::INVALID_RECORD_STATE), None]);
    assert_eq!(script.engine.take_outcomes().len(), 2);
}

#[test]
fn a_commit_goes_on_while_the_group_state_has_no_coordinator() {
    let (mut script, _) = holding(&[("group.id", "g")]);
    script.engine.accept_given();
    let id = commit(&mut script);
    let sent = only(asked(&mut script));
    answer_acknowledge(
        &mut script,
        &sent,
        &[(0, ErrorCode::COORDINATOR_NOT_AVAILABLE)],
    );
    assert_eq!(script.engine.take_commit(id), None, "it is said again");
    let again = only(passed(&mut script, 1_000));
    assert_eq!(said(&again), [(0, 0, 4, 1)]);
    assert_eq!(acknowledge(&again).share_session_epoch, 2);
    answer_acknowledge(&mut script, &again, &[(0, ErrorCode::NONE)]);
    assert_eq!(script.engine.take_commit(id).unwrap()[0].error, None);
}

#[test]
fn a_leader_that_moved_ends_the_locks_it_gave() {
    let (mut script, _) = holding(&[("group.id", "g")]);
    script.engine.accept_given();
    let id = commit(&mut script);
    let sent = only(asked(&mut script));
    answer_acknowledge(
        &mut script,
        &sent,
        &[(0, ErrorCode::NOT_LEADER_OR_FOLLOWER)],
    );
    let error = error_of(script.engine.take_commit(id));
    assert_eq!(error.code(), Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    assert!(error.message().contains("delivered again"), "{error}");
}

#[test]
fn a_hint_leads_the_next_fetch_to_the_new_leader() {
    let mut script = joined(EXPLICIT, &[0]);
    let open = only(poll(&mut script));
    assert_eq!(script.address(open.link), "b1");
    let moved = PartitionData {
        error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
        current_leader: LeaderIdAndEpoch {
            leader_id: 2,
            leader_epoch: 9,
            ..Default::default()
        },
        ..row(0, &[])
    };
    script.topics = vec![("t", vec![2, 2])];
    answer_fetch(&mut script, &open, ErrorCode::NONE, vec![moved]);
    let next = only(asked(&mut script));
    assert_eq!(
        (script.address(next.link), fetch(&next).share_session_epoch),
        ("b2", 0)
    );
}

#[test]
fn a_lost_answer_leaves_the_fate_unknown_and_opens_a_new_session() {
    let (mut script, acquired) = holding(EXPLICIT);
    script
        .engine
        .acknowledge(acquired.lock, (0, 1), AcknowledgeType::Accept)
        .unwrap();
    let id = commit(&mut script);
    let sent = only(asked(&mut script));
    script.cut(sent.link);
    let error = error_of(script.engine.take_commit(id));
    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
    // A later acknowledgement of records of the old session does not count, and the error reports
    // that.
    script
        .engine
        .acknowledge(acquired.lock, (2, 4), AcknowledgeType::Accept)
        .unwrap();
    let late = commit(&mut script);
    let error = error_of(script.engine.take_commit(late));
    assert!(error.message().contains("delivered again"), "{error}");
    let now = script.now;
    script.engine.poll_began(now, true);
    let all = passed(&mut script, 2_000);
    let open = all
        .iter()
        .find(|it| matches!(it.request, Request::ShareFetch(_)))
        .unwrap();
    assert_eq!(fetch(open).share_session_epoch, 0);
    assert_eq!(fetch(open).topics.len(), 1);
    assert!(said(open).is_empty());
}

#[test]
fn a_session_that_the_broker_forgot_begins_anew() {
    for code in [
        ErrorCode::SHARE_SESSION_NOT_FOUND,
        ErrorCode::INVALID_SHARE_SESSION_EPOCH,
        ErrorCode::SHARE_SESSION_LIMIT_REACHED,
    ] {
        let (mut script, acquired) = holding(EXPLICIT);
        script
            .engine
            .acknowledge(acquired.lock, (0, 4), AcknowledgeType::Accept)
            .unwrap();
        let next = only(poll(&mut script));
        assert_eq!(said(&next).len(), 1);
        answer_fetch(&mut script, &next, code, Vec::new());
        assert_eq!(script.engine.take_failure(), None, "it passes");
        let open = only(passed(&mut script, 1_500));
        assert_eq!(fetch(&open).share_session_epoch, 0);
        assert_eq!(fetch(&open).topics.len(), 1);
        assert!(said(&open).is_empty(), "nothing is said in a first request");
    }
}

#[test]
fn a_renewal_fetches_nothing_and_an_accept_beside_it_counts() {
    let (mut script, acquired) = holding(EXPLICIT);
    let lock = acquired.lock;
    script
        .engine
        .acknowledge(lock, (0, 3), AcknowledgeType::Renew)
        .unwrap();
    script
        .engine
        .acknowledge(lock, (4, 4), AcknowledgeType::Accept)
        .unwrap();
    script.now += Duration::from_secs(25);
    let all = poll(&mut script);
    let sent = all
        .iter()
        .find(|it| matches!(it.request, Request::ShareAcknowledge(_)))
        .unwrap();
    assert!(acknowledge(sent).is_renew_ack);
    assert_eq!(said(sent), [(0, 0, 3, 4), (0, 4, 4, 1)]);
    assert!(
        !script.engine.has_unacknowledged(),
        "a poll goes on beside it"
    );
    // Its end is said while the renewal is under way.
    script
        .engine
        .acknowledge(lock, (0, 0), AcknowledgeType::Accept)
        .unwrap();
    answer_acknowledge(&mut script, sent, &[(0, ErrorCode::NONE)]);
    let now = script.now;
    script.engine.poll_ended(now);
    script.now += Duration::from_secs(20);
    script
        .engine
        .acknowledge(lock, (1, 3), AcknowledgeType::Accept)
        .unwrap();
    let next = script.now;
    let id = script
        .engine
        .commit(next, next + Duration::from_secs(9))
        .unwrap();
    let all = asked(&mut script);
    let mut told = Vec::new();
    for each in &all {
        if matches!(each.request, Request::ShareFetch(_)) {
            answer_fetch(&mut script, each, ErrorCode::NONE, Vec::new());
        }
    }
    let more = asked(&mut script);
    for each in all.iter().chain(&more) {
        if matches!(each.request, Request::ShareAcknowledge(_)) {
            told.extend(said(each));
            answer_acknowledge(&mut script, each, &[(0, ErrorCode::NONE)]);
        }
    }
    assert_eq!(told, [(0, 0, 3, 1)]);
    assert_eq!(script.engine.take_commit(id).unwrap()[0].error, None);
}

#[test]
fn a_broker_that_cannot_renew_is_not_asked_to() {
    let (mut script, acquired) = {
        let mut script = subscribed(EXPLICIT);
        script.versions = speaking_at_most(1);
        let join = only(asked(&mut script));
        assign(&mut script, &join, 3, Some(&[0]));
        let open = only(poll(&mut script));
        assert_eq!(open.version, 1);
        answer_fetch(
            &mut script,
            &open,
            ErrorCode::NONE,
            vec![row(0, &[(0, 4, 1)])],
        );
        let acquired = script.engine.take().unwrap();
        let now = script.now;
        script.engine.give(now, acquired.lock, (0, 4), (5, 50));
        (script, acquired)
    };
    let error = script
        .engine
        .acknowledge(acquired.lock, (0, 4), AcknowledgeType::Renew)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.message().contains("4.2"), "{error}");
    script
        .engine
        .acknowledge(acquired.lock, (0, 4), AcknowledgeType::Release)
        .unwrap();
}

#[test]
fn record_limits_ask_one_broker_at_a_time_and_need_version_2() {
    let pairs = &[
        ("group.id", "g"),
        ("share.acquire.mode", "record_limit"),
        ("max.poll.records", "7"),
    ];
    let mut script = joined(pairs, &[0, 1]);
    let one = only(poll(&mut script));
    assert_eq!(
        (fetch(&one).share_acquire_mode, fetch(&one).max_records),
        (1, 7)
    );
    let first = script.address(one.link).to_owned();
    answer_fetch(&mut script, &one, ErrorCode::NONE, Vec::new());
    let other = only(asked(&mut script));
    assert_ne!(script.address(other.link), first);

    let mut script = subscribed(pairs);
    script.versions = speaking_at_most(1);
    let join = only(asked(&mut script));
    assign(&mut script, &join, 3, Some(&[0]));
    assert!(poll(&mut script).is_empty());
    let error = script.engine.take_failure().unwrap();
    assert!(error.message().contains("4.2"), "{error}");
}

/// Brokers that speak these APIs at this version at most.
fn speaking_at_most(most: i16) -> crate::api::Versions {
    use ottla_protocol::messages::ApiVersionsResponse;
    use ottla_protocol::messages::api_versions_response::ApiVersion;
    let rows = crate::api::HIGHEST.iter();
    let rows = rows.filter(|(api, _)| {
        !matches!(
            api,
            ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
        )
    });
    let api_keys = rows.map(|&(api, highest)| ApiVersion {
        api_key: api.as_i16(),
        max_version: match api {
            ApiKey::ShareFetch | ApiKey::ShareAcknowledge => most,
            _ => highest,
        },
        ..Default::default()
    });
    crate::api::Versions::new(&ApiVersionsResponse {
        api_keys: api_keys.collect(),
        ..Default::default()
    })
}

#[test]
fn records_whose_lock_is_over_are_not_given_out() {
    let mut script = joined(EXPLICIT, &[0]);
    let open = only(poll(&mut script));
    answer_fetch(
        &mut script,
        &open,
        ErrorCode::NONE,
        vec![row(0, &[(0, 4, 1)])],
    );
    let acquired = script.engine.take().unwrap();
    script.now += Duration::from_secs(31);
    let now = script.now;
    assert!(!script.engine.give(now, acquired.lock, (0, 4), (5, 50)));
    assert!(!script.engine.has_unacknowledged());
}

#[test]
fn an_old_batch_does_not_speak_for_a_new_delivery() {
    let (mut script, old) = holding(EXPLICIT);
    script.now += Duration::from_secs(31);
    script
        .engine
        .acknowledge(old.lock, (4, 4), AcknowledgeType::Accept)
        .unwrap();
    let now = script.now;
    script.engine.poll_began(now, true);
    let all = asked(&mut script);
    let next = all
        .iter()
        .find(|it| matches!(it.request, Request::ShareFetch(_)))
        .unwrap();
    let late = PartitionData {
        acknowledge_error_code: ErrorCode::INVALID_RECORD_STATE.0,
        ..row(0, &[(0, 4, 2)])
    };
    answer_fetch(&mut script, next, ErrorCode::NONE, vec![late]);
    let anew = script.engine.take().unwrap();
    assert!(script.engine.give(now, anew.lock, (0, 4), (5, 50)));
    let error = script
        .engine
        .acknowledge(old.lock, (0, 3), AcknowledgeType::Accept)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Argument);
    script
        .engine
        .acknowledge(anew.lock, (0, 4), AcknowledgeType::Accept)
        .unwrap();
}

#[test]
fn leaving_tells_what_was_said_ends_the_session_and_then_the_membership() {
    let (mut script, acquired) = holding(EXPLICIT);
    script
        .engine
        .acknowledge(acquired.lock, (0, 1), AcknowledgeType::Accept)
        .unwrap();
    let now = script.now;
    script.engine.leave_group(now, now + Duration::from_secs(5));
    let end = only(asked(&mut script));
    assert_eq!(acknowledge(&end).share_session_epoch, -1);
    assert_eq!(
        said(&end),
        [(0, 0, 1, 1)],
        "the others are free by the end of the session"
    );
    assert!(script.engine.is_leaving_group());
    answer_acknowledge(&mut script, &end, &[(0, ErrorCode::NONE)]);
    let bye = only(asked(&mut script));
    assert_eq!(beat(&bye).member_epoch, -1);
    assign(&mut script, &bye, -1, None);
    assert!(!script.engine.is_leaving_group());
    assert!(!script.engine.is_subscribed());
    assert!(passed(&mut script, 60_000).is_empty());
}

#[test]
fn who_leaves_while_it_joins_says_so_unless_nobody_ever_let_it_in() {
    let mut script = subscribed(EXPLICIT);
    let join = only(asked(&mut script));
    let now = script.now;
    script.engine.leave_group(now, now + Duration::from_secs(5));
    let bye = only(asked(&mut script));
    assert_eq!((beat(&join).member_epoch, beat(&bye).member_epoch), (0, -1));
    assert!(script.engine.is_leaving_group());
    assign(&mut script, &bye, -1, None);
    assert!(!script.engine.is_leaving_group());
    let mut script = subscribed(EXPLICIT);
    script.refusal = Some(Error::new(Kind::Authentication, "the password is wrong"));
    assert!(passed(&mut script, 1_000).is_empty());
    let now = script.now;
    script.engine.leave_group(now, now + Duration::from_secs(5));
    assert!(!script.engine.is_leaving_group() && !script.engine.is_subscribed());
    assert!(asked(&mut script).is_empty());
}

#[test]
fn who_subscribes_while_leaving_is_a_member_again() {
    let (mut script, _) = holding(EXPLICIT);
    let now = script.now;
    script.engine.leave_group(now, now + Duration::from_secs(5));
    let end = only(asked(&mut script));
    let topics = BTreeSet::from([Arc::from("t")]);
    script.engine.subscribe(now, topics.clone()).unwrap();
    assert!(script.engine.is_subscribed());
    answer_acknowledge(&mut script, &end, &[]);
    // Once more, and the coordinator has heard of it already.
    script.engine.leave_group(now, now + Duration::from_secs(5));
    let all = asked(&mut script);
    let bye = all.iter().find(|it| beat(it).member_epoch == -1).unwrap();
    script.engine.subscribe(now, topics).unwrap();
    assign(&mut script, bye, -1, None);
    let join = only(asked(&mut script));
    assert_eq!(beat(&join).member_epoch, 0);
    assign(&mut script, &join, 9, Some(&[0]));
    let open = only(poll(&mut script));
    assert_eq!(fetch(&open).share_session_epoch, 0);
}

#[test]
fn a_commit_ends_at_its_deadline_and_says_what_is_open() {
    let (mut script, _) = holding(&[("group.id", "g")]);
    script.engine.accept_given();
    let id = commit(&mut script);
    only(asked(&mut script));
    passed(&mut script, 21_000);
    let error = error_of(script.engine.take_commit(id));
    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
}

#[test]
fn offsets_that_no_answer_holds_are_released() {
    let mut script = joined(EXPLICIT, &[0]);
    let open = only(poll(&mut script));
    let rows = vec![row(0, &[(5, 12, 1), (3, 4, 1), (40, 41, 1)])];
    answer_fetch(&mut script, &open, ErrorCode::NONE, rows);
    let acquired = script.engine.take().unwrap();
    let ranges: Vec<_> = acquired
        .ranges
        .iter()
        .map(|it| (it.first, it.last))
        .collect();
    assert_eq!(ranges, [(5, 9)], "one goes back, and one was never sent");
    let next = script.now;
    script.engine.poll_goes_on(next);
    let fetched = only(asked(&mut script));
    assert_eq!(said(&fetched), [(0, 10, 12, 2), (0, 40, 41, 2)]);
}
