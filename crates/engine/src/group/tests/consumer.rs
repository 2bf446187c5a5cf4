//! A member of the consumer protocol (KIP-848).

use ottla_protocol::ApiKey;
pub(super) use ottla_protocol::Uuid;
use ottla_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use ottla_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use ottla_protocol::messages::{
    ApiVersionsResponse, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};

use super::*;
use crate::api::{HIGHEST, Versions};
pub(super) use crate::consumer::CommitId;
use crate::error::Error;
use crate::group::Pattern;

pub(super) const CONSUMER: &[(&str, &str)] = &[("group.id", "g"), ("group.protocol", "consumer")];
pub(super) const STATIC: &[(&str, &str)] = &[
    ("group.id", "g"),
    ("group.protocol", "consumer"),
    ("group.instance.id", "i"),
];
const AUTO: &[(&str, &str)] = &[("group.id", "g"), ("group.protocol", "auto")];

/// The id that the script gives the topic `t`.
pub(super) const T: Uuid = Uuid([1; 16]);

pub(super) fn beat(asked: &Asked) -> &ConsumerGroupHeartbeatRequest {
    match &asked.request {
        Request::ConsumerGroupHeartbeat(request) => request,
        _ => panic!("{asked:?}"),
    }
}

/// The partitions that a heartbeat declares as owned.
pub(super) fn owned(asked: &Asked) -> Option<Vec<(Uuid, Vec<i32>)>> {
    let topics = beat(asked).topic_partitions.as_ref()?.iter();
    Some(
        topics
            .map(|it| (it.topic_id, it.partitions.to_vec()))
            .collect(),
    )
}

pub(super) fn assign(
    script: &mut Member,
    asked: &Asked,
    epoch: i32,
    assigned: Option<&[(Uuid, &[i32])]>,
) {
    beat(asked);
    let assignment = assigned.map(|topics| Assignment {
        topic_partitions: topics
            .iter()
            .map(|(topic_id, partitions)| TopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.to_vec().into(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    let answer = ConsumerGroupHeartbeatResponse {
        member_epoch: epoch,
        heartbeat_interval_ms: 5_000,
        assignment,
        ..Default::default()
    };
    script.answer(asked, Response::ConsumerGroupHeartbeat(answer));
}

pub(super) fn refuse(script: &mut Member, asked: &Asked, code: ErrorCode) {
    beat(asked);
    let answer = ConsumerGroupHeartbeatResponse {
        error_code: code.0,
        ..Default::default()
    };
    script.answer(asked, Response::ConsumerGroupHeartbeat(answer));
}

/// Splits heartbeats from the rest.
pub(super) fn beats(asked: Vec<Asked>) -> (Vec<Asked>, Vec<Asked>) {
    let is_beat = |it: &Asked| matches!(it.request, Request::ConsumerGroupHeartbeat(_));
    asked.into_iter().partition(is_beat)
}

/// A member of epoch 3 with these partitions, whose offsets it knows, and which it has acknowledged.
pub(super) fn settled(pairs: &[(&'static str, &'static str)], numbers: &[i32]) -> Member {
    let mut script = member(pairs);
    let join = only(poll(&mut script));
    assign(&mut script, &join, 3, Some(&[(T, numbers)]));
    assert_eq!(
        tell(&mut script),
        [Rebalance::Assigned(partitions(numbers))]
    );
    let (mut acknowledgement, rest) = beats(asked(&mut script));
    for fetch in rest {
        answer_offsets(&mut script, &fetch);
    }
    let acknowledgement = acknowledgement.remove(0);
    assign(&mut script, &acknowledgement, 3, None);
    assert!(asked(&mut script).is_empty());
    script
}

/// The next heartbeat of a settled member, when it is due.
pub(super) fn next_beat(script: &mut Member) -> Asked {
    only(passed(script, 5_000))
}

pub(super) fn commit_at(script: &mut Member, at: i64, seconds: u64) -> CommitId {
    let now = script.now;
    let deadline = now + Duration::from_secs(seconds);
    let offsets = vec![offset(at)];
    script.engine.commit(now, offsets, deadline, true).unwrap()
}

/// Brokers that have agreed on this level of `group.version`.
fn agreed(level: i16) -> Versions {
    let takes_metrics = |api: ApiKey| {
        matches!(
            api,
            ApiKey::GetTelemetrySubscriptions | ApiKey::PushTelemetry
        )
    };
    let spoken = HIGHEST.iter().filter(|(api, _)| !takes_metrics(*api));
    let api_keys = spoken.map(|&(api, max_version)| ApiVersion {
        api_key: api.as_i16(),
        max_version,
        ..Default::default()
    });
    Versions::new(&ApiVersionsResponse {
        api_keys: api_keys.collect(),
        finalized_features_epoch: 1,
        finalized_features: vec![FinalizedFeatureKey {
            name: "group.version".into(),
            max_version_level: level,
            min_version_level: level,
            ..Default::default()
        }],
        ..Default::default()
    })
}

#[test]
fn joins_with_an_id_of_its_own_and_acknowledges_what_listeners_know() {
    let pairs = [
        CONSUMER,
        &[
            ("group.remote.assignor", "range"),
            ("client.rack", "r"),
            ("max.poll.interval.ms", "70000"),
        ],
    ]
    .concat();
    let mut script = member(&pairs);
    assert!(
        asked(&mut script).is_empty(),
        "nothing happens without a poll"
    );
    let join = only(poll(&mut script));
    let request = beat(&join).clone();
    assert_eq!((&*request.group_id, request.member_epoch), ("g", 0));
    let id: Uuid = request.member_id.parse().unwrap();
    assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (4, 0b10), "a random UUID");
    assert_eq!(request.rebalance_timeout_ms, 70_000);
    assert_eq!(request.subscribed_topic_names, Some(vec!["t".into()]));
    assert_eq!(request.subscribed_topic_regex, None);
    assert_eq!(request.server_assignor.as_deref(), Some("range"));
    assert_eq!(request.rack_id.as_deref(), Some("r"));
    assert_eq!(owned(&join), Some(Vec::new()));
    assign(&mut script, &join, 3, Some(&[(T, &[0, 1])]));
    assert!(
        asked(&mut script).is_empty(),
        "callers own nothing before they are told"
    );
    assert!(script.engine.is_held() && positions(&script).is_empty());
    assert_eq!(
        tell(&mut script),
        [Rebalance::Assigned(partitions(&[0, 1]))]
    );
    let (acknowledgement, fetch) = beats(asked(&mut script));
    answer_offsets(&mut script, &only(fetch));
    assert_eq!(positions(&script), [(0, Some(10)), (1, Some(11))]);
    let acknowledgement = only(acknowledgement);
    assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![0, 1])]));
    let declared = ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: request.member_id.clone(),
        member_epoch: 3,
        topic_partitions: beat(&acknowledgement).topic_partitions.clone(),
        ..Default::default()
    };
    assert_eq!(*beat(&acknowledgement), declared, "the rest is known");
    let metadata = script.engine.group_metadata().unwrap();
    assert_eq!(
        (metadata.generation, &*metadata.member_id),
        (3, &*request.member_id)
    );
    assert!(told(&mut script).contains("joined group g"));
}

#[test]
fn beats_as_often_as_the_coordinator_wants_and_says_only_what_is_new() {
    let mut script = settled(CONSUMER, &[0]);
    for _ in 0..3 {
        assert!(passed(&mut script, 4_900).is_empty());
        let heartbeat = only(passed(&mut script, 100));
        let request = beat(&heartbeat);
        assert_eq!(request.member_epoch, 3);
        assert_eq!(request.rebalance_timeout_ms, -1);
        assert_eq!(
            (&request.subscribed_topic_names, owned(&heartbeat)),
            (&None, None)
        );
        assign(&mut script, &heartbeat, 3, None);
    }
}

#[test]
fn what_is_assigned_elsewhere_is_committed_given_up_and_then_acknowledged() {
    let mut script = settled(CONSUMER, &[0, 1]);
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[1])]));
    assert!(
        asked(&mut script).is_empty(),
        "a caller may be at work on records"
    );
    assert!(script.engine.pulse().needs_poll());
    let commit = only(poll(&mut script));
    let Request::OffsetCommit(request) = &commit.request else {
        panic!("{commit:?}")
    };
    assert_eq!(request.generation_id_or_member_epoch, 3);
    assert!(script.engine.is_held() && script.engine.take_rebalance(script.now).is_none());
    let heartbeat = next_beat(&mut script);
    assert_eq!(owned(&heartbeat), None, "it still owns them");
    assign(&mut script, &heartbeat, 3, None);
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    let change = script.engine.take_rebalance(script.now);
    assert_eq!(change, Some(Rebalance::Revoked(partitions(&[0]))));
    assert_eq!(
        positions(&script).len(),
        2,
        "its offset can still be asked for"
    );
    assert!(asked(&mut script).is_empty());
    script.engine.told_rebalance(script.now);
    assert_eq!(tell(&mut script), [Rebalance::Assigned(Vec::new())]);
    assert_eq!(positions(&script), [(1, Some(11))]);
    let acknowledgement = only(asked(&mut script));
    assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![1])]));
    // A partition that another member revoked comes with the epoch of the new assignment.
    assign(&mut script, &acknowledgement, 4, Some(&[(T, &[1])]));
    assert!(asked(&mut script).is_empty(), "it has heard that already");
    assert!(tell(&mut script).is_empty(), "nothing has changed");
}

#[test]
fn a_second_thought_of_the_coordinator_takes_nothing_away() {
    let mut script = settled(CONSUMER, &[0, 1]);
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[1])]));
    let heartbeat = next_beat(&mut script);
    assert_eq!(owned(&heartbeat), None);
    assign(&mut script, &heartbeat, 4, Some(&[(T, &[0, 1])]));
    let acknowledgement = only(asked(&mut script));
    assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![0, 1])]));
    poll(&mut script);
    assert!(tell(&mut script).is_empty());
    assert_eq!(positions(&script).len(), 2);
}

#[test]
fn a_member_that_is_fenced_has_lost_its_partitions_and_joins_under_its_name() {
    for code in [
        ErrorCode::FENCED_MEMBER_EPOCH,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::GROUP_ID_NOT_FOUND,
    ] {
        let mut script = settled(CONSUMER, &[0, 1]);
        let heartbeat = next_beat(&mut script);
        let id = beat(&heartbeat).member_id.clone();
        refuse(&mut script, &heartbeat, code);
        assert!(told(&mut script).contains("goes on without"));
        let error = script
            .engine
            .commit(script.now, Vec::new(), script.now, true);
        assert_eq!(error.unwrap_err().kind(), Kind::CommitFailed);
        assert_eq!(
            script.engine.group_metadata().unwrap().generation,
            3,
            "it is fenced"
        );
        assert!(poll(&mut script).is_empty(), "nothing is committed");
        assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0, 1]))]);
        let join = only(asked(&mut script));
        let request = beat(&join);
        assert_eq!((&request.member_id, request.member_epoch), (&id, 0));
        assert_eq!(owned(&join), Some(Vec::new()));
        assert!(request.subscribed_topic_names.is_some());
        assign(&mut script, &join, 9, Some(&[(T, &[0])]));
        assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
    }
}

#[test]
fn a_refused_join_is_raised_with_what_to_do_and_tried_again() {
    for (code, says) in [
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, "GROUP_AUTHORIZATION"),
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, "TOPIC_AUTHORIZATION"),
        (ErrorCode::GROUP_MAX_SIZE_REACHED, "group.max.size"),
        (ErrorCode::UNSUPPORTED_ASSIGNOR, "group.remote.assignor"),
        (ErrorCode::UNRELEASED_INSTANCE_ID, "group.instance.id"),
        (ErrorCode::INVALID_REGULAR_EXPRESSION, "RE2"),
        (ErrorCode::GROUP_ID_NOT_FOUND, "group.protocol=classic"),
        (ErrorCode::UNSUPPORTED_VERSION, "group.protocol=classic"),
        (ErrorCode::INVALID_REQUEST, "INVALID_REQUEST"),
    ] {
        let mut script = member(CONSUMER);
        let join = only(poll(&mut script));
        refuse(&mut script, &join, code);
        let error = script.engine.stuck().unwrap().clone();
        assert!(error.to_string().contains(says), "{error}");
        assert!(poll(&mut script).is_empty(), "after a pause");
        assert!(
            passed(&mut script, 1_500).is_empty(),
            "while a caller polls"
        );
        let join = only(poll(&mut script));
        assert_eq!(beat(&join).member_epoch, 0);
        assign(&mut script, &join, 1, Some(&[(T, &[0])]));
        assert_eq!(script.engine.stuck(), None);
    }
}

#[test]
fn what_may_pass_is_tried_again_in_silence() {
    for code in [
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_COORDINATOR,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::FENCED_MEMBER_EPOCH,
    ] {
        let mut script = member(CONSUMER);
        let join = only(poll(&mut script));
        refuse(&mut script, &join, code);
        assert_eq!(script.engine.stuck(), None, "{code:?}");
        passed(&mut script, 1_500);
        let join = only(poll(&mut script));
        assert_eq!(beat(&join).member_epoch, 0);
    }
}

#[test]
fn a_heartbeat_that_is_refused_is_repeated_with_everything() {
    for (code, is_told) in [
        (ErrorCode::NOT_COORDINATOR, false),
        (ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, false),
        (ErrorCode::INVALID_REGULAR_EXPRESSION, true),
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, true),
    ] {
        let mut script = settled(CONSUMER, &[0]);
        let heartbeat = next_beat(&mut script);
        refuse(&mut script, &heartbeat, code);
        assert_eq!(script.engine.stuck().is_some(), is_told, "{code:?}");
        let pause = if is_told { 5_000 } else { 1_000 };
        let heartbeat = only(passed(&mut script, pause));
        let request = beat(&heartbeat);
        assert_eq!(
            (request.member_epoch, request.rebalance_timeout_ms),
            (3, 300_000)
        );
        assert_eq!(request.subscribed_topic_names, Some(vec!["t".into()]));
        assert_eq!(owned(&heartbeat), Some(vec![(T, vec![0])]));
        assign(&mut script, &heartbeat, 3, Some(&[(T, &[0])]));
        assert_eq!(script.engine.stuck(), None);
        assert_eq!(positions(&script).len(), 1, "nothing else has changed");
    }
}

#[test]
fn a_broken_connection_loses_no_membership() {
    let mut script = settled(CONSUMER, &[0]);
    let heartbeat = next_beat(&mut script);
    script.cut(heartbeat.link);
    // The coordinator is looked up again.
    let mut heartbeats = passed(&mut script, 500);
    heartbeats.extend(passed(&mut script, 2_000));
    let heartbeat = only(heartbeats);
    assert_eq!(beat(&heartbeat).member_epoch, 3);
    assert_eq!(owned(&heartbeat), Some(vec![(T, vec![0])]));
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[0])]));
    assert_eq!(script.engine.group_metadata().unwrap().generation, 3);
}

#[test]
fn a_fenced_instance_says_so_for_good() {
    let mut script = settled(STATIC, &[0]);
    let heartbeat = next_beat(&mut script);
    refuse(&mut script, &heartbeat, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Fenced);
    poll(&mut script);
    assert!(passed(&mut script, 60_000).is_empty());
    assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Fenced);
}

#[test]
fn a_member_leaves_by_its_epoch_and_a_static_one_for_a_while() {
    for (pairs, epoch) in [(CONSUMER, -1), (STATIC, -2)] {
        let mut script = settled(pairs, &[0]);
        let deadline = script.now + Duration::from_secs(5);
        script.engine.leave_group(script.now, deadline);
        let commit = only(poll(&mut script));
        answer_commit(&mut script, &commit, ErrorCode::NONE);
        assert_eq!(tell(&mut script), [Rebalance::Revoked(partitions(&[0]))]);
        let leave = only(asked(&mut script));
        assert_eq!(beat(&leave).member_epoch, epoch);
        assert!(script.engine.is_leaving_group());
        assign(&mut script, &leave, epoch, None);
        assert!(!script.engine.is_leaving_group() && !script.engine.is_subscribed());
        assert!(passed(&mut script, 60_000).is_empty());
    }
}

#[test]
fn who_leaves_while_it_joins_says_so() {
    let mut script = member(CONSUMER);
    let join = only(poll(&mut script));
    let deadline = script.now + Duration::from_secs(5);
    script.engine.leave_group(script.now, deadline);
    let leave = only(poll(&mut script));
    assert_eq!(beat(&leave).member_epoch, -1);
    assert_eq!(beat(&leave).member_id, beat(&join).member_id);
    assign(&mut script, &join, 1, Some(&[(T, &[0])]));
    refuse(&mut script, &leave, ErrorCode::UNKNOWN_MEMBER_ID);
    assert!(asked(&mut script).is_empty() && !script.engine.is_leaving_group());
    assert!(tell(&mut script).is_empty());
    // A member that never joined has no coordinator to notify.
    let mut script = member(CONSUMER);
    script.engine.leave_group(script.now, deadline);
    assert!(poll(&mut script).is_empty() && !script.engine.is_leaving_group());
}

/// KIP-1082.
#[test]
fn the_id_of_a_member_is_known_before_it_joins() {
    let mut script = member(CONSUMER);
    let id = script.engine.member_id().unwrap();
    assert_eq!(script.engine.member_id().as_ref(), Some(&id));
    let asked = poll(&mut script).pop().unwrap();
    assert_eq!(beat(&asked).member_id.to_string(), id.to_string());
    let mut classic = member(&[("group.id", "g")]);
    assert_eq!(classic.engine.member_id(), None);
}

#[test]
fn who_was_never_let_in_leaves_at_once() {
    let mut script = member(CONSUMER);
    script.refusal = Some(Error::new(Kind::Authentication, "the password is wrong"));
    assert!(passed(&mut script, 1_000).is_empty());
    assert!(poll(&mut script).is_empty());
    assert_eq!(
        script.engine.hopeless().unwrap().kind(),
        Kind::Authentication
    );
    let deadline = script.now + Duration::from_secs(5);
    script.engine.leave_group(script.now, deadline);
    assert!(poll(&mut script).is_empty());
    assert!(!script.engine.is_leaving_group() && !script.engine.is_subscribed());
}

#[test]
fn an_application_that_does_not_poll_leaves_until_it_does() {
    for (pairs, epoch) in [(CONSUMER, -1), (STATIC, -2)] {
        let pairs = [pairs, &[("max.poll.interval.ms", "10000")]].concat();
        let mut script = settled(&pairs, &[0, 1]);
        poll(&mut script);
        let mut left = false;
        for _ in 0..20 {
            for asked in passed(&mut script, 1_000) {
                let is_leave = beat(&asked).member_epoch == epoch;
                left |= is_leave;
                assign(&mut script, &asked, if is_leave { epoch } else { 3 }, None);
            }
        }
        assert!(left && told(&mut script).contains("max.poll.interval.ms"));
        assert_eq!(positions(&script).len(), 2, "until a caller polls");
        poll(&mut script);
        assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0, 1]))]);
        let mut join = only(asked(&mut script));
        if epoch == -2 {
            // A static member does not know whether that was heard.
            assert_eq!(beat(&join).member_epoch, -2);
            assign(&mut script, &join, -2, None);
            join = only(asked(&mut script));
        }
        assert_eq!(beat(&join).member_epoch, 0);
    }
}

#[test]
fn a_commit_of_an_epoch_that_is_over_is_repeated_with_the_next() {
    let mut script = settled(CONSUMER, &[0]);
    let epoch_of = |asked: &Asked| match &asked.request {
        Request::OffsetCommit(request) => {
            let row = &request.topics[0].partitions[0];
            (request.generation_id_or_member_epoch, row.committed_offset)
        }
        _ => panic!("{asked:?}"),
    };
    let first = commit_at(&mut script, 1, 9);
    let commit = only(asked(&mut script));
    assert_eq!(epoch_of(&commit), (3, 1));
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    let second = commit_at(&mut script, 2, 9);
    // The epoch is asked for at once, and nothing is committed before.
    let heartbeat = only(asked(&mut script));
    assign(&mut script, &heartbeat, 4, None);
    let commit = only(asked(&mut script));
    assert_eq!(epoch_of(&commit), (4, 2), "what came later stands");
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    for id in [first, second] {
        assert_eq!(script.engine.take_commit(id), Some(Ok(())));
    }
}

#[test]
fn a_commit_whose_epoch_never_comes_ends_in_time() {
    let mut script = settled(CONSUMER, &[0]);
    let id = commit_at(&mut script, 1, 2);
    let commit = only(asked(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    only(passed(&mut script, 1_900));
    assert_eq!(script.engine.take_commit(id), None);
    passed(&mut script, 100);
    let error = script.engine.take_commit(id).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::CommitFailed);
    assert_eq!(error.code(), Some(ErrorCode::STALE_MEMBER_EPOCH));
    assert!(error.to_string().contains("Commit again"), "{error}");
}

#[test]
fn committed_offsets_are_asked_for_with_the_epoch() {
    let mut script = member(CONSUMER);
    let join = only(poll(&mut script));
    let id = beat(&join).member_id.clone();
    assign(&mut script, &join, 3, Some(&[(T, &[0])]));
    tell(&mut script);
    let (acknowledgement, fetch) = beats(asked(&mut script));
    let fetch = only(fetch);
    let Request::OffsetFetch(request) = &fetch.request else {
        panic!("{fetch:?}")
    };
    let group = &request.groups[0];
    assert_eq!(
        (group.member_id.as_ref(), group.member_epoch),
        (Some(&id), 3)
    );
    let answer = OffsetFetchResponse {
        groups: vec![OffsetFetchResponseGroup {
            group_id: "g".into(),
            error_code: ErrorCode::STALE_MEMBER_EPOCH.0,
            ..Default::default()
        }],
        ..Default::default()
    };
    script.answer(&fetch, Response::OffsetFetch(answer));
    assert!(asked(&mut script).is_empty(), "not at once");
    assign(&mut script, &only(acknowledgement), 4, None);
    let fetch = only(passed(&mut script, 1_000));
    let Request::OffsetFetch(request) = &fetch.request else {
        panic!("{fetch:?}")
    };
    assert_eq!(request.groups[0].member_epoch, 4);
    answer_offsets(&mut script, &fetch);
    assert_eq!(positions(&script), [(0, Some(10))]);
}

/// Run the listeners for all pending changes, and return what was assigned and what was revoked.
fn changes(script: &mut Member) -> Vec<Rebalance> {
    let none = Rebalance::Assigned(Vec::new());
    let mut told = tell(script);
    told.retain(|change| *change != none);
    told
}

#[test]
fn a_topic_that_is_not_known_yet_is_waited_for() {
    let mut script = member(CONSUMER);
    let now = script.now;
    let regex = Selection::Regex(Arc::from("t|uuu"));
    script.engine.subscribe(now, regex).unwrap();
    let join = only(poll(&mut script));
    let new = Uuid([3; 16]);
    let assigned: &[(Uuid, &[i32])] = &[(T, &[0]), (new, &[5])];
    assign(&mut script, &join, 3, Some(assigned));
    let mut told = changes(&mut script);
    let (mut last, _) = beats(asked(&mut script));
    for heartbeat in last.drain(..) {
        assign(&mut script, &heartbeat, 3, None);
    }
    told.extend(changes(&mut script));
    assert_eq!(told, [Rebalance::Assigned(partitions(&[0]))]);
    let (acknowledgement, _) = beats(asked(&mut script));
    let acknowledgement = only(acknowledgement);
    let all = Some(vec![(T, vec![0]), (new, vec![5])]);
    let text = "callers may be told of it at any moment, so that nobody else may get it";
    assert_eq!(owned(&acknowledgement), all, "{text}");
    assign(&mut script, &acknowledgement, 3, None);
    script.topics.push(("uuu", vec![1; 6]));
    let (early, _) = beats(passed(&mut script, 2_000));
    assert!(early.is_empty());
    let added = vec![("uuu".into(), 5)];
    assert_eq!(changes(&mut script), [Rebalance::Assigned(added)]);
    let (acknowledgement, _) = beats(asked(&mut script));
    assert_eq!(owned(&only(acknowledgement)), all);
}

#[test]
fn a_topic_that_is_made_anew_is_given_up_and_taken() {
    let mut script = settled(CONSUMER, &[0]);
    script.topic_id = Some(9);
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 4, Some(&[(Uuid([9; 16]), &[0])]));
    // Its name is looked up by its id, without waiting for the view.
    assert!(asked(&mut script).is_empty());
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    let events = tell(&mut script);
    assert_eq!(
        events,
        [
            Rebalance::Revoked(partitions(&[0])),
            Rebalance::Assigned(partitions(&[0]))
        ]
    );
    let (acknowledgement, _) = beats(asked(&mut script));
    assert_eq!(
        owned(&only(acknowledgement)),
        Some(vec![(Uuid([9; 16]), vec![0])])
    );
}

#[test]
fn another_subscription_is_said_at_once() {
    let mut script = settled(CONSUMER, &[0]);
    script.topics.push(("uu", vec![1]));
    let subscribe = |script: &mut Member, selection| {
        let now = script.now;
        script.engine.subscribe(now, selection).unwrap();
    };
    let names = BTreeSet::from([Arc::from("t"), Arc::from("uu")]);
    subscribe(&mut script, Selection::Names(names));
    let heartbeat = only(asked(&mut script));
    let request = beat(&heartbeat);
    let expected = Some(vec!["t".into(), "uu".into()]);
    assert_eq!(request.subscribed_topic_names, expected);
    assert_eq!(
        (request.rebalance_timeout_ms, owned(&heartbeat)),
        (-1, None)
    );
    let more: &[(Uuid, &[i32])] = &[(T, &[0]), (Uuid([2; 16]), &[0])];
    assign(&mut script, &heartbeat, 4, Some(more));
    let added = vec![("uu".into(), 0)];
    assert_eq!(tell(&mut script), [Rebalance::Assigned(added)]);
    let (acknowledgement, _) = beats(asked(&mut script));
    assign(&mut script, &only(acknowledgement), 4, None);
    // The next poll revokes the partitions of a topic that is no longer wanted, whether or not the
    // coordinator knows that already.
    let names = BTreeSet::from([Arc::from("t")]);
    subscribe(&mut script, Selection::Names(names));
    let (heartbeat, _) = beats(asked(&mut script));
    assert!(beat(&only(heartbeat)).subscribed_topic_names.is_some());
    let commit = poll(&mut script);
    for commit in &commit {
        answer_commit(&mut script, commit, ErrorCode::NONE);
    }
    let gone = vec![("uu".into(), 0)];
    assert_eq!(tell(&mut script)[0], Rebalance::Revoked(gone));
}

#[test]
fn a_pattern_takes_nothing_away_before_topics_were_listed() {
    let mut script = settled(CONSUMER, &[0]);
    script.topics.push(("uu", vec![1]));
    let now = script.now;
    let pattern = Pattern::parse("t|uu").unwrap();
    let subscribed = script.engine.subscribe(now, Selection::Pattern(pattern));
    subscribed.unwrap();
    let (heartbeat, _) = beats(asked(&mut script));
    let expected = Some(vec!["t".into(), "uu".into()]);
    assert_eq!(beat(&only(heartbeat)).subscribed_topic_names, expected);
    assert!(poll(&mut script).is_empty());
    assert_eq!(tell(&mut script), []);
}

#[test]
fn who_subscribes_again_while_it_leaves_joins_anew_with_nothing() {
    for (pairs, is_dropping) in [(CONSUMER, false), (CONSUMER, true), (STATIC, false)] {
        let mut script = settled(pairs, &[0, 1]);
        if is_dropping {
            let heartbeat = next_beat(&mut script);
            assign(&mut script, &heartbeat, 3, Some(&[(T, &[1])]));
        }
        let now = script.now;
        let deadline = now + Duration::from_secs(5);
        script.engine.leave_group(now, deadline);
        let names = BTreeSet::from([Arc::from("t")]);
        let selection = Selection::Names(names);
        script.engine.subscribe(now, selection).unwrap();
        let (_, commits) = beats(poll(&mut script));
        answer_commit(&mut script, &only(commits), ErrorCode::NONE);
        assert_eq!(tell(&mut script), [Rebalance::Revoked(partitions(&[0, 1]))]);
        let (mut joins, _) = beats(asked(&mut script));
        let mut join = joins.pop().unwrap();
        if pairs == STATIC {
            assert_eq!(beat(&join).member_epoch, -2);
            assign(&mut script, &join, -2, None);
            join = only(beats(asked(&mut script)).0);
        }
        assert_eq!(
            (beat(&join).member_epoch, owned(&join)),
            (0, Some(Vec::new()))
        );
        assign(&mut script, &join, 4, Some(&[(T, &[1])]));
        assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[1]))]);
        assert_eq!(positions(&script).len(), 1);
    }
}

#[test]
fn an_expression_is_matched_by_the_coordinator_and_taken_back() {
    let regex = || Selection::Regex(Arc::from("u+"));
    let mut script = member(CONSUMER);
    script.topics.push(("uu", vec![1]));
    script.engine.subscribe(script.now, regex()).unwrap();
    let join = only(poll(&mut script));
    assert_eq!(join.version, 1);
    assert_eq!(beat(&join).subscribed_topic_regex.as_deref(), Some("u+"));
    assert_eq!(beat(&join).subscribed_topic_names, Some(Vec::new()));
    // The name of a topic that nobody named is looked up by its id.
    assign(&mut script, &join, 3, Some(&[(Uuid([2; 16]), &[0])]));
    asked(&mut script);
    let added = vec![("uu".into(), 0)];
    assert_eq!(changes(&mut script), [Rebalance::Assigned(added)]);
    let (acknowledgement, _) = beats(asked(&mut script));
    for heartbeat in acknowledgement {
        assign(&mut script, &heartbeat, 3, None);
    }
    let (rest, _) = beats(asked(&mut script));
    for heartbeat in rest {
        assign(&mut script, &heartbeat, 3, None);
    }
    let names = BTreeSet::from([Arc::from("t")]);
    let now = script.now;
    script
        .engine
        .subscribe(now, Selection::Names(names))
        .unwrap();
    let (heartbeat, _) = beats(asked(&mut script));
    let heartbeat = only(heartbeat);
    assert_eq!(beat(&heartbeat).subscribed_topic_regex.as_deref(), Some(""));
    assert_eq!(
        beat(&heartbeat).subscribed_topic_names,
        Some(vec!["t".into()])
    );
    let mut classic = member(EAGER);
    let error = classic.engine.subscribe(classic.now, regex()).unwrap_err();
    assert!(
        error.to_string().contains("group.protocol=consumer"),
        "{error}"
    );
}

/// The first request of a member that has to learn first what brokers have.
fn first_join(script: &mut Member) -> Asked {
    assert!(poll(script).is_empty());
    only(poll(script))
}

#[test]
fn auto_takes_what_the_cluster_has_and_says_so() {
    for (level, is_consumer) in [(1, true), (0, false)] {
        let mut script = member(AUTO);
        script.versions = agreed(level);
        let join = first_join(&mut script);
        let joins_consumer = matches!(join.request, Request::ConsumerGroupHeartbeat(_));
        assert_eq!(joins_consumer, is_consumer, "{join:?}");
        let chosen = if is_consumer { "consumer" } else { "classic" };
        let said = told(&mut script);
        assert!(said.contains(&format!("group.protocol={chosen}")), "{said}");
    }
    // Brokers that report no features are too old.
    let mut script = member(AUTO);
    let join = first_join(&mut script);
    assert!(matches!(join.request, Request::JoinGroup(_)), "{join:?}");
}

#[test]
fn auto_joins_a_group_that_cannot_be_taken_over_as_its_members_did() {
    for code in [
        ErrorCode::GROUP_ID_NOT_FOUND,
        ErrorCode::UNSUPPORTED_VERSION,
    ] {
        let mut script = member(AUTO);
        script.versions = agreed(1);
        let join = first_join(&mut script);
        refuse(&mut script, &join, code);
        assert_eq!(script.engine.stuck(), None);
        let join = only(poll(&mut script));
        let Request::JoinGroup(request) = &join.request else {
            panic!("{join:?}")
        };
        assert_eq!(&*request.member_id, "", "the coordinator names it");
        answer_join(&mut script, &join, "other", &[]);
        let sync = only(asked(&mut script));
        answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0]));
        assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
    }
}

#[test]
fn auto_whose_group_was_taken_by_another_protocol_joins_with_that() {
    let mut script = member(AUTO);
    script.versions = agreed(1);
    let join = first_join(&mut script);
    assign(&mut script, &join, 3, Some(&[(T, &[0])]));
    tell(&mut script);
    let (acknowledgement, _) = beats(asked(&mut script));
    let gone = ErrorCode::GROUP_ID_NOT_FOUND;
    refuse(&mut script, &only(acknowledgement), gone);
    poll(&mut script);
    assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0]))]);
    let (join, _) = beats(asked(&mut script));
    let join = only(join);
    assert_eq!(beat(&join).member_epoch, 0);
    refuse(&mut script, &join, gone);
    let joins = poll(&mut script);
    let is_classic = |it: &Asked| matches!(it.request, Request::JoinGroup(_));
    assert!(joins.iter().any(is_classic), "{joins:?}");
    assert_eq!(script.engine.stuck(), None);
}

#[test]
fn answers_that_make_no_sense_do_no_harm() {
    let mut script = member(CONSUMER);
    let join = only(poll(&mut script));
    assign(&mut script, &join, 0, Some(&[(T, &[0])]));
    assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Protocol);
    assert!(tell(&mut script).is_empty());
    passed(&mut script, 1_500);
    let join = only(poll(&mut script));
    let strange: &[(Uuid, &[i32])] = &[(T, &[0, 0, -3]), (Uuid::ZERO, &[0])];
    assign(&mut script, &join, 1, Some(strange));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
    let (acknowledgement, _) = beats(asked(&mut script));
    let answer = ConsumerGroupHeartbeatResponse {
        member_epoch: 1,
        heartbeat_interval_ms: -1,
        ..Default::default()
    };
    let only_beat = only(acknowledgement);
    script.answer(&only_beat, Response::ConsumerGroupHeartbeat(answer));
    assert!(asked(&mut script).is_empty(), "heartbeats without a pause");
}
