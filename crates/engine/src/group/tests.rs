//! A member stepped through scripts.

mod assignors;
mod consumer;
mod generations;
mod heirs;
mod reconciliation;
mod zookeeper;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::messages::find_coordinator_response::Coordinator;
use ottla_protocol::messages::join_group_response::JoinGroupResponseMember;
use ottla_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use ottla_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use ottla_protocol::messages::{
    FindCoordinatorResponse, HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse,
    OffsetCommitResponse, OffsetFetchResponse, SyncGroupResponse,
};
use ottla_protocol::{ErrorCode, Uuid};

use crate::api::{Request, Response};
use crate::call::GroupOffset;
use crate::config::Role;
use crate::consumer::{Consumer, Pattern, Rebalance, Selection};
use crate::engine::Engine;
use crate::error::Kind;
use crate::fetch::Start;
use crate::group::assignor::{Assignment, Subscription};
use crate::script::{Asked, Script, config};

type Member = Script<Consumer>;

const EAGER: &[(&str, &str)] = &[("group.id", "g")];
const COOPERATIVE: &[(&str, &str)] = &[
    ("group.id", "g"),
    ("partition.assignment.strategy", "cooperative-sticky"),
];

fn member(pairs: &[(&'static str, &'static str)]) -> Member {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, pairs), 7));
    let names = BTreeSet::from([Arc::from("t")]);
    let now = script.now;
    script
        .engine
        .subscribe(now, Selection::Names(names))
        .unwrap();
    script
}

/// Respond to FindCoordinator, and return the other requests without fetches and lookups.
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
        match &asked.request {
            Request::FindCoordinator(request) => {
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
            }
            Request::Fetch(_) | Request::ListOffsets(_) => {}
            _ => rest.push(asked),
        }
    }
    rest
}

/// A caller polls, and is given nothing; gives what is asked meanwhile.
fn poll(script: &mut Member) -> Vec<Asked> {
    let now = script.now;
    script.engine.poll_began(now);
    if script.engine.wants_given(now) {
        let given = script.engine.given(|_, _| None);
        script.engine.note_given(now, given);
    }
    let asked = asked(script);
    script.engine.poll_ended(now);
    asked
}

fn only(mut asked: Vec<Asked>) -> Asked {
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked.remove(0)
}

fn answer_join(script: &mut Member, join: &Asked, leader: &str, members: &[(&str, Bytes)]) {
    let members = members
        .iter()
        .map(|(id, metadata)| JoinGroupResponseMember {
            member_id: (*id).into(),
            metadata: metadata.clone(),
            ..Default::default()
        });
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    let answer = JoinGroupResponse {
        generation_id: 5,
        protocol_name: Some(request.protocols[0].name.clone()),
        leader: leader.into(),
        member_id: "me".into(),
        members: members.collect(),
        ..Default::default()
    };
    script.answer(join, Response::JoinGroup(answer));
}

fn refuse_join(script: &mut Member, join: &Asked, code: ErrorCode) {
    let answer = JoinGroupResponse {
        error_code: code.0,
        member_id: "given".into(),
        ..Default::default()
    };
    script.answer(join, Response::JoinGroup(answer));
}

fn assignment(partitions: &[i32]) -> Bytes {
    let partitions = partitions.iter().map(|number| ("t".into(), *number));
    let assignment = Assignment {
        partitions: partitions.collect(),
        user_data: None,
    };
    assignment.encode().unwrap()
}

fn answer_sync(script: &mut Member, sync: &Asked, code: ErrorCode, assignment: Bytes) {
    assert!(matches!(sync.request, Request::SyncGroup(_)), "{sync:?}");
    let answer = SyncGroupResponse {
        error_code: code.0,
        assignment,
        ..Default::default()
    };
    script.answer(sync, Response::SyncGroup(answer));
}

fn answer_heartbeat(script: &mut Member, heartbeat: &Asked, code: ErrorCode) {
    let answer = HeartbeatResponse {
        error_code: code.0,
        ..Default::default()
    };
    script.answer(heartbeat, Response::Heartbeat(answer));
}

fn answer_commit(script: &mut Member, commit: &Asked, code: ErrorCode) {
    let Request::OffsetCommit(request) = &commit.request else {
        panic!("{commit:?}")
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetCommitResponseTopic {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|row| OffsetCommitResponsePartition {
                    partition_index: row.partition_index,
                    error_code: code.0,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    let answer = OffsetCommitResponse {
        topics: topics.collect(),
        ..Default::default()
    };
    script.answer(commit, Response::OffsetCommit(answer));
}

/// Respond to an OffsetFetch: partition `n` was committed at `10 + n`.
fn answer_offsets(script: &mut Member, fetch: &Asked) {
    answer_offsets_with(script, fetch, ErrorCode::NONE, ErrorCode::NONE);
}

/// Respond to an OffsetFetch as [`answer_offsets`] does, with an error of the group or of each
/// partition.
fn answer_offsets_with(script: &mut Member, fetch: &Asked, whole: ErrorCode, each: ErrorCode) {
    let Request::OffsetFetch(request) = &fetch.request else {
        panic!("{fetch:?}")
    };
    let topics = request.groups[0].topics.iter().flatten();
    let topics = topics.map(|topic| OffsetFetchResponseTopics {
        name: topic.name.clone(),
        partitions: topic
            .partition_indexes
            .iter()
            .map(|number| OffsetFetchResponsePartitions {
                partition_index: *number,
                committed_offset: i64::from(*number) + 10,
                error_code: each.0,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    let group = OffsetFetchResponseGroup {
        group_id: "g".into(),
        topics: topics.collect(),
        error_code: whole.0,
        ..Default::default()
    };
    let answer = OffsetFetchResponse {
        groups: vec![group],
        ..Default::default()
    };
    script.answer(fetch, Response::OffsetFetch(answer));
}

/// Run the listeners for all pending changes.
fn tell(script: &mut Member) -> Vec<Rebalance> {
    let mut told = Vec::new();
    while let Some(change) = script.engine.take_rebalance(script.now) {
        told.push(change);
        script.engine.told_rebalance(script.now);
    }
    told
}

fn partitions(numbers: &[i32]) -> Vec<(Arc<str>, i32)> {
    numbers
        .iter()
        .map(|number| (Arc::from("t"), *number))
        .collect()
}

fn positions(script: &Member) -> Vec<(i32, Option<i64>)> {
    let positions = script.engine.positions();
    positions
        .map(|(_, partition, next)| (partition, next))
        .collect()
}

fn told(script: &mut Member) -> String {
    let observer = script.engine.observer();
    let told: Vec<_> = std::iter::from_fn(|| observer.poll())
        .map(|event| event.to_string())
        .collect();
    told.join("\n")
}

/// A member that was assigned these partitions, of which it knows the offsets.
fn stable(pairs: &[(&'static str, &'static str)], numbers: &[i32]) -> Member {
    let mut script = member(pairs);
    let join = only(poll(&mut script));
    answer_join(&mut script, &join, "other", &[]);
    let sync = only(asked(&mut script));
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(numbers));
    assert_eq!(
        tell(&mut script),
        [Rebalance::Assigned(partitions(numbers))]
    );
    for fetch in asked(&mut script) {
        answer_offsets(&mut script, &fetch);
    }
    script
}

#[test]
fn joins_with_the_id_that_it_is_given_and_begins_where_the_group_committed() {
    let mut script = member(EAGER);
    assert!(
        asked(&mut script).is_empty(),
        "nothing happens without a poll"
    );
    let join = only(poll(&mut script));
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    assert_eq!((&*request.group_id, &*request.member_id), ("g", ""));
    assert_eq!(request.rebalance_timeout_ms, 300_000);
    let names: Vec<_> = request.protocols.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["range", "cooperative-sticky"]);
    let told = Subscription::decode(request.protocols[0].metadata.clone()).unwrap();
    assert_eq!((told.topics, told.generation), (vec!["t".into()], -1));
    refuse_join(&mut script, &join, ErrorCode::MEMBER_ID_REQUIRED);
    let again = only(asked(&mut script));
    let Request::JoinGroup(request) = &again.request else {
        panic!("{again:?}")
    };
    assert_eq!(&*request.member_id, "given");
    answer_join(&mut script, &again, "other", &[]);
    let sync = only(asked(&mut script));
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0, 1]));
    assert!(
        positions(&script).is_empty(),
        "callers own nothing before they are told"
    );
    assert!(script.engine.is_held());
    assert_eq!(
        tell(&mut script),
        [Rebalance::Assigned(partitions(&[0, 1]))]
    );
    let fetch = only(asked(&mut script));
    assert_eq!(positions(&script), [(0, None), (1, None)]);
    answer_offsets(&mut script, &fetch);
    assert_eq!(positions(&script), [(0, Some(10)), (1, Some(11))]);
    let metadata = script.engine.group_metadata().unwrap();
    assert_eq!((metadata.generation, &*metadata.member_id), (5, "me"));
}

#[test]
fn beats_at_the_interval_without_any_poll() {
    let mut script = stable(EAGER, &[0]);
    for _ in 0..3 {
        assert!(passed(&mut script, 2_900).is_empty());
        let heartbeat = only(passed(&mut script, 100));
        let Request::Heartbeat(request) = &heartbeat.request else {
            panic!("{heartbeat:?}")
        };
        assert_eq!((request.generation_id, &*request.member_id), (5, "me"));
        answer_heartbeat(&mut script, &heartbeat, ErrorCode::NONE);
    }
}

#[test]
fn a_heartbeat_passes_a_fetch_that_waits() {
    let mut script = stable(EAGER, &[0]);
    // Its only partition is led by its coordinator: one broker has to do with both.
    let mut waiting = script.run();
    let mut heartbeat = Vec::new();
    let due = script.now + Duration::from_secs(4);
    while heartbeat.is_empty() && script.now < due {
        for asked in script.pass(Duration::from_millis(100)) {
            if let Request::Heartbeat(_) = &asked.request {
                heartbeat.push(asked);
            } else {
                waiting.push(asked);
            }
        }
    }
    let fetch = only(waiting);
    assert!(matches!(fetch.request, Request::Fetch(_)), "{fetch:?}");
    let heartbeat = only(heartbeat);
    assert_eq!(script.address(heartbeat.link), script.address(fetch.link));
    assert_ne!(heartbeat.link, fetch.link, "brokers answer in order");
    answer_heartbeat(&mut script, &heartbeat, ErrorCode::NONE);
    assert!(only(passed(&mut script, 3_000)).link == heartbeat.link);
}

/// A stable member whose heartbeat gets this response.
fn heard(pairs: &[(&'static str, &'static str)], code: ErrorCode) -> Member {
    let mut script = stable(pairs, &[0, 1]);
    let heartbeat = only(passed(&mut script, 3_000));
    answer_heartbeat(&mut script, &heartbeat, code);
    script
}

#[test]
fn an_eager_rebalance_commits_gives_up_everything_and_joins() {
    let mut script = heard(EAGER, ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(
        asked(&mut script).is_empty(),
        "a caller may be at work on records"
    );
    assert!(script.engine.pulse().needs_poll());
    let commit = only(poll(&mut script));
    let Request::OffsetCommit(request) = &commit.request else {
        panic!("{commit:?}")
    };
    let offsets = request.topics[0].partitions.iter();
    let offsets: Vec<_> = offsets.map(|row| row.committed_offset).collect();
    assert_eq!(
        (offsets, request.generation_id_or_member_epoch),
        (vec![10, 11], 5)
    );
    assert!(script.engine.is_held() && script.engine.take_rebalance(script.now).is_none());
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert_eq!(tell(&mut script), [Rebalance::Revoked(partitions(&[0, 1]))]);
    assert!(positions(&script).is_empty());
    let join = only(asked(&mut script));
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    assert_eq!(&*request.member_id, "me");
    let error = script
        .engine
        .commit(script.now, Vec::new(), script.now, true);
    assert_eq!(error.unwrap_err().kind(), Kind::CommitFailed);
}

#[test]
fn a_commit_that_fails_does_not_keep_a_rebalance() {
    let mut script = heard(EAGER, ErrorCode::REBALANCE_IN_PROGRESS);
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    assert_eq!(tell(&mut script), [Rebalance::Revoked(partitions(&[0, 1]))]);
    assert!(told(&mut script).contains("offsets were not committed"));
    only(asked(&mut script));
}

/// What a member sends to the leader when it joins.
fn subscription(join: &Asked) -> Subscription {
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    Subscription::decode(request.protocols[0].metadata.clone()).unwrap()
}

#[test]
fn a_pattern_that_is_subscribed_again_in_a_rebalance_gives_nothing_up() {
    let mut script = heard(COOPERATIVE, ErrorCode::REBALANCE_IN_PROGRESS);
    let commit = only(poll(&mut script));
    let now = script.now;
    let pattern = Pattern::parse("t|uu").unwrap();
    let subscribed = script.engine.subscribe(now, Selection::Pattern(pattern));
    subscribed.unwrap();
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert_eq!(tell(&mut script), []);
    let join = only(asked(&mut script));
    let told = subscription(&join);
    assert_eq!(told.owned, partitions(&[0, 1]));
    assert_eq!(told.topics, [Arc::from("t")]);
}

#[test]
fn a_cooperative_rebalance_gives_up_only_what_moves() {
    let mut script = heard(COOPERATIVE, ErrorCode::REBALANCE_IN_PROGRESS);
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert_eq!(tell(&mut script), []);
    let join = only(asked(&mut script));
    let told = subscription(&join);
    assert_eq!((told.owned, told.generation), (partitions(&[0, 1]), 5));
    assert!(!script.engine.is_held(), "the others go on");
    answer_join(&mut script, &join, "other", &[]);
    let sync = only(asked(&mut script));
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[1]));
    assert!(asked(&mut script).is_empty());
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    let change = script.engine.take_rebalance(script.now);
    assert_eq!(change, Some(Rebalance::Revoked(partitions(&[0]))));
    assert_eq!(
        positions(&script).len(),
        2,
        "its offset can still be asked for"
    );
    script.engine.told_rebalance(script.now);
    assert_eq!(tell(&mut script), [Rebalance::Assigned(Vec::new())]);
    assert_eq!(positions(&script), [(1, Some(11))]);
    // The revoked partition is assigned by the rebalance that follows.
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert!(matches!(
        only(asked(&mut script)).request,
        Request::JoinGroup(_)
    ));
}

#[test]
fn a_member_that_the_group_forgot_has_lost_its_partitions() {
    for (code, id) in [
        (ErrorCode::UNKNOWN_MEMBER_ID, ""),
        (ErrorCode::ILLEGAL_GENERATION, "me"),
    ] {
        let mut script = heard(EAGER, code);
        assert!(told(&mut script).contains("goes on without"));
        let error = script
            .engine
            .commit(script.now, Vec::new(), script.now, true);
        assert_eq!(error.unwrap_err().kind(), Kind::CommitFailed);
        assert!(poll(&mut script).is_empty(), "nothing is committed");
        assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0, 1]))]);
        let join = only(asked(&mut script));
        let Request::JoinGroup(request) = &join.request else {
            panic!("{join:?}")
        };
        assert_eq!(&*request.member_id, id);
    }
}

#[test]
fn a_fenced_member_says_so_for_good() {
    let pairs = [("group.id", "g"), ("group.instance.id", "i")];
    let mut script = heard(&pairs, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Fenced);
    poll(&mut script);
    assert!(passed(&mut script, 60_000).is_empty());
    assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Fenced);
}

#[test]
fn a_coordinator_that_moved_is_looked_up_again() {
    let mut script = heard(EAGER, ErrorCode::NOT_COORDINATOR);
    let all = script.pass(Duration::from_secs(1));
    assert!(
        all.iter()
            .any(|it| matches!(it.request, Request::FindCoordinator(_)))
    );
    let heartbeat = only(found(&mut script, all));
    answer_heartbeat(&mut script, &heartbeat, ErrorCode::NONE);
    assert_eq!(positions(&script).len(), 2, "nothing else has changed");
}

#[test]
fn a_broken_connection_loses_no_membership() {
    let mut script = stable(EAGER, &[0]);
    let heartbeat = only(passed(&mut script, 3_000));
    script.cut(heartbeat.link);
    // The coordinator is looked up again.
    assert!(passed(&mut script, 500).is_empty());
    let heartbeats = passed(&mut script, 3_000);
    assert!(matches!(heartbeats[0].request, Request::Heartbeat(_)));
    answer_heartbeat(&mut script, &heartbeats[0], ErrorCode::NONE);
    assert_eq!(script.engine.group_metadata().unwrap().generation, 5);
}

#[test]
fn a_refused_join_is_raised_and_tried_again() {
    for (code, says) in [
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, "GROUP_AUTHORIZATION"),
        (
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
            "partition.assignment.strategy",
        ),
        (
            ErrorCode::INVALID_SESSION_TIMEOUT,
            "group.min.session.timeout.ms",
        ),
        (ErrorCode::GROUP_MAX_SIZE_REACHED, "group.max.size"),
    ] {
        let mut script = member(EAGER);
        let join = only(poll(&mut script));
        refuse_join(&mut script, &join, code);
        let error = script.engine.stuck().unwrap().clone();
        assert!(error.to_string().contains(says), "{error}");
        assert!(poll(&mut script).is_empty(), "after a pause");
        assert!(
            passed(&mut script, 1_500).is_empty(),
            "while a caller polls"
        );
        let join = only(poll(&mut script));
        answer_join(&mut script, &join, "other", &[]);
        let sync = only(asked(&mut script));
        answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0]));
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
        ErrorCode::REBALANCE_IN_PROGRESS,
    ] {
        for at_sync in [false, true] {
            let mut script = member(EAGER);
            let join = only(poll(&mut script));
            if at_sync {
                answer_join(&mut script, &join, "other", &[]);
                let sync = only(asked(&mut script));
                answer_sync(&mut script, &sync, code, Bytes::new());
            } else {
                refuse_join(&mut script, &join, code);
            }
            assert_eq!(script.engine.stuck(), None, "{code:?}");
            passed(&mut script, 1_500);
            let join = only(poll(&mut script));
            assert!(matches!(join.request, Request::JoinGroup(_)), "{code:?}");
        }
    }
}

#[test]
fn a_rebalance_that_is_reported_over_and_over_is_joined_after_pauses() {
    let mut script = member(EAGER);
    let mut joins = 0;
    for _ in 0..200 {
        for join in poll(&mut script) {
            joins += 1;
            refuse_join(&mut script, &join, ErrorCode::REBALANCE_IN_PROGRESS);
        }
        passed(&mut script, 50);
    }
    assert!((5..=30).contains(&joins), "{joins} in 10 s");
}

#[test]
fn each_error_of_committed_offsets_is_retried_and_raised_at_most_once() {
    // The epoch of a member is of the consumer protocol; there heartbeats report the right one.
    let is_of_member = |code| {
        matches!(
            code,
            ErrorCode::STALE_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID
        )
    };
    let codes = (-1..200).map(ErrorCode).filter(|code| code.is_error());
    for code in codes.filter(|code| !is_of_member(*code)) {
        for (whole, each) in [(code, ErrorCode::NONE), (ErrorCode::NONE, code)] {
            let mut script = member(EAGER);
            let join = only(poll(&mut script));
            answer_join(&mut script, &join, "other", &[]);
            let sync = only(asked(&mut script));
            answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0, 1]));
            tell(&mut script);
            let (mut raises, mut requests) = (0, 0);
            for step in 0..80 {
                let mut pending = poll(&mut script);
                pending.extend(passed(&mut script, 250));
                for it in pending {
                    match &it.request {
                        Request::OffsetFetch(_) if step < 40 => {
                            requests += 1;
                            answer_offsets_with(&mut script, &it, whole, each);
                        }
                        Request::OffsetFetch(_) => answer_offsets(&mut script, &it),
                        Request::Heartbeat(_) => {
                            answer_heartbeat(&mut script, &it, ErrorCode::NONE);
                        }
                        _ => {}
                    }
                }
                if let Some(error) = script.engine.obstacle().cloned() {
                    script.engine.note_raised(&error);
                    raises += 1;
                }
            }
            assert!(raises <= 1, "{code:?} was raised {raises} times");
            assert!(requests >= 2, "{code:?}: {requests} in 10 s");
            assert_eq!(
                positions(&script),
                [(0, Some(10)), (1, Some(11))],
                "{code:?}"
            );
        }
    }
}

#[test]
fn an_application_that_does_not_poll_leaves_until_it_does() {
    let pairs = [("group.id", "g"), ("max.poll.interval.ms", "10000")];
    let mut script = stable(&pairs, &[0, 1]);
    poll(&mut script);
    let mut left = false;
    for _ in 0..20 {
        for asked in passed(&mut script, 1_000) {
            match &asked.request {
                Request::Heartbeat(_) => answer_heartbeat(&mut script, &asked, ErrorCode::NONE),
                Request::LeaveGroup(request) => {
                    assert_eq!(&*request.members[0].member_id, "me");
                    left = true;
                    let answer = LeaveGroupResponse::default();
                    script.answer(&asked, Response::LeaveGroup(answer));
                }
                _ => panic!("{asked:?}"),
            }
        }
    }
    assert!(left && told(&mut script).contains("max.poll.interval.ms"));
    assert_eq!(positions(&script).len(), 2, "until a caller polls");
    poll(&mut script);
    assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0, 1]))]);
    assert!(matches!(
        only(asked(&mut script)).request,
        Request::JoinGroup(_)
    ));
}

#[test]
fn a_loop_over_records_counts_as_polling() {
    let pairs = [("group.id", "g"), ("max.poll.interval.ms", "10000")];
    let mut script = stable(&pairs, &[0]);
    poll(&mut script);
    for _ in 0..12 {
        for asked in passed(&mut script, 3_000) {
            answer_heartbeat(&mut script, &asked, ErrorCode::NONE);
        }
        script.engine.pulse().beat();
    }
    assert_eq!(script.engine.group_metadata().unwrap().generation, 5);
}

#[test]
fn a_static_member_is_silent_when_it_goes() {
    for (pairs, leaves) in [
        (&[("group.id", "g"), ("group.instance.id", "i")][..], false),
        (EAGER, true),
    ] {
        let mut script = stable(pairs, &[0]);
        let deadline = script.now + Duration::from_secs(5);
        script.engine.leave_group(script.now, deadline);
        let commit = only(poll(&mut script));
        answer_commit(&mut script, &commit, ErrorCode::NONE);
        assert_eq!(tell(&mut script), [Rebalance::Revoked(partitions(&[0]))]);
        let left = asked(&mut script);
        assert_eq!(left.len(), usize::from(leaves), "{left:?}");
        for leave in left {
            assert!(script.engine.is_leaving_group());
            script.answer(&leave, Response::LeaveGroup(LeaveGroupResponse::default()));
        }
        assert!(!script.engine.is_leaving_group() && !script.engine.is_subscribed());
        assert!(passed(&mut script, 60_000).is_empty());
    }
}

#[test]
fn leaves_in_the_middle_of_a_rebalance() {
    let mut script = member(EAGER);
    let join = only(poll(&mut script));
    refuse_join(&mut script, &join, ErrorCode::MEMBER_ID_REQUIRED);
    let join = only(asked(&mut script));
    let deadline = script.now + Duration::from_secs(5);
    script.engine.leave_group(script.now, deadline);
    let leave = only(poll(&mut script));
    let Request::LeaveGroup(request) = &leave.request else {
        panic!("{leave:?}")
    };
    assert_eq!(&*request.members[0].member_id, "given");
    script.answer(&leave, Response::LeaveGroup(LeaveGroupResponse::default()));
    answer_join(&mut script, &join, "other", &[]);
    assert!(asked(&mut script).is_empty() && !script.engine.is_leaving_group());
}

fn offset(offset: i64) -> GroupOffset {
    GroupOffset {
        topic: "t".into(),
        partition: 0,
        offset,
        leader_epoch: 3,
        metadata: "m".into(),
        topic_id: Uuid::ZERO,
    }
}

#[test]
fn a_retry_never_overtakes_a_later_commit() {
    let mut script = stable(EAGER, &[0]);
    let deadline = script.now + Duration::from_secs(9);
    let commit = |script: &mut Member, at| {
        let offsets = vec![offset(at)];
        let now = script.now;
        script.engine.commit(now, offsets, deadline, true).unwrap()
    };
    let first = commit(&mut script, 1);
    let (second, third) = (commit(&mut script, 2), commit(&mut script, 3));
    let request = only(asked(&mut script));
    answer_commit(
        &mut script,
        &request,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    );
    let offsets = |asked: &Asked| match &asked.request {
        Request::OffsetCommit(request) => {
            let row = &request.topics[0].partitions[0];
            assert_eq!(row.committed_leader_epoch, 3);
            row.committed_offset
        }
        _ => panic!("{asked:?}"),
    };
    let request = only(passed(&mut script, 1_000));
    assert_eq!(offsets(&request), 1);
    answer_commit(&mut script, &request, ErrorCode::NONE);
    assert_eq!(script.engine.take_commit(first), Some(Ok(())));
    let request = only(asked(&mut script));
    assert_eq!(offsets(&request), 3);
    answer_commit(&mut script, &request, ErrorCode::ILLEGAL_GENERATION);
    for id in [second, third] {
        let error = script.engine.take_commit(id).unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::CommitFailed);
        assert!(error.to_string().contains("Poll to join again"), "{error}");
    }
    assert!(told(&mut script).contains("goes on without"));
}

#[test]
fn polls_commit_at_the_interval_and_never_what_they_give_out_themselves() {
    let mut script = stable(EAGER, &[0]);
    assert!(poll(&mut script).is_empty());
    for heartbeat in passed(&mut script, 5_000) {
        answer_heartbeat(&mut script, &heartbeat, ErrorCode::NONE);
    }
    assert!(
        script.engine.pulse().needs_poll(),
        "a loop has to poll for it"
    );
    let now = script.now;
    script.engine.poll_began(now);
    assert!(script.engine.wants_given(now));
    // Of what an earlier poll gave out, a loop has reached offset 12.
    let reached = |_: &str, partition| (partition == 0).then_some(12);
    let given = script.engine.given(reached);
    script.engine.note_given(now, given);
    let commit = only(asked(&mut script));
    let Request::OffsetCommit(request) = &commit.request else {
        panic!("{commit:?}")
    };
    assert_eq!(request.topics[0].partitions[0].committed_offset, 12);
    assert!(!script.engine.wants_given(now) && !script.engine.pulse().needs_poll());
}

#[test]
fn a_leader_assigns_to_whoever_can_be_understood() {
    let mut script = member(EAGER);
    let join = only(poll(&mut script));
    let subscription = |topics: &[&str]| {
        let topics = topics.iter().map(|topic| Arc::from(*topic)).collect();
        let told = Subscription {
            topics,
            ..Subscription::default()
        };
        told.encode().unwrap()
    };
    let absurd = [&[0, 0, 0x7f, 0xff, 0xff, 0xff][..], &[0; 9]].concat();
    let members = [
        ("me", subscription(&["t"])),
        ("other", subscription(&["t", "absent"])),
        ("absurd", Bytes::from(absurd)),
        ("empty", Bytes::new()),
        ("garbage", Bytes::from_static(b"\xff\xff\xff\xff\xff")),
    ];
    answer_join(&mut script, &join, "me", &members);
    let sync = only(passed(&mut script, 1_000));
    let Request::SyncGroup(request) = &sync.request else {
        panic!("{sync:?}")
    };
    let mut assigned: Vec<_> = request
        .assignments
        .iter()
        .map(|row| {
            let assignment = Assignment::decode(row.assignment.clone()).unwrap();
            (row.member_id.to_string(), assignment.partitions.len())
        })
        .collect();
    assigned.sort();
    let expected = [
        ("absurd", 0),
        ("empty", 0),
        ("garbage", 0),
        ("me", 1),
        ("other", 1),
    ];
    assert_eq!(
        assigned,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
    assert!(told(&mut script).contains("member garbage of group g is assigned nothing"));
}

#[test]
fn a_leader_notices_partitions_that_are_added() {
    let mut script = member(EAGER);
    let join = only(poll(&mut script));
    let mine = Subscription {
        topics: vec!["t".into()],
        ..Subscription::default()
    };
    answer_join(&mut script, &join, "me", &[("me", mine.encode().unwrap())]);
    let sync = only(asked(&mut script));
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0, 1]));
    tell(&mut script);
    for fetch in asked(&mut script) {
        answer_offsets(&mut script, &fetch);
    }
    assert!(!script.engine.wants_given(script.now));
    script.topics = vec![("t", vec![1, 2, 1])];
    for _ in 0..120 {
        for asked in passed(&mut script, 3_000) {
            if matches!(asked.request, Request::Heartbeat(_)) {
                answer_heartbeat(&mut script, &asked, ErrorCode::NONE);
            }
        }
        script.engine.pulse().beat();
        for commit in poll(&mut script) {
            answer_commit(&mut script, &commit, ErrorCode::NONE);
        }
        if told(&mut script).contains("the partitions of a topic have changed") {
            return;
        }
    }
    panic!("it never noticed");
}

/// Rule: 2.4.11.
#[test]
fn an_assignment_that_makes_no_sense_is_an_error_or_left_out() {
    for bytes in [
        Bytes::from_static(b"\x00"),
        Bytes::from_static(b"\x00\x00\x7f\xff\xff\xff"),
        Bytes::from_static(&[0xff; 40]),
    ] {
        let mut script = member(EAGER);
        let join = only(poll(&mut script));
        answer_join(&mut script, &join, "other", &[]);
        let sync = only(asked(&mut script));
        answer_sync(&mut script, &sync, ErrorCode::NONE, bytes);
        assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Protocol);
        assert!(tell(&mut script).is_empty());
    }
    let mut script = member(EAGER);
    let join = only(poll(&mut script));
    answer_join(&mut script, &join, "other", &[]);
    let sync = only(asked(&mut script));
    let foreign = Assignment {
        partitions: vec![
            ("foreign".into(), 0),
            ("t".into(), 0),
            ("t".into(), -3),
            ("t".into(), 0),
        ],
        user_data: None,
    };
    answer_sync(
        &mut script,
        &sync,
        ErrorCode::NONE,
        foreign.encode().unwrap(),
    );
    assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
}

#[test]
fn a_join_that_names_what_cannot_be_is_refused() {
    for (generation, id, protocol) in [(-1, "me", "range"), (3, "", "range"), (3, "me", "odd")] {
        let mut script = member(EAGER);
        let join = only(poll(&mut script));
        let answer = JoinGroupResponse {
            generation_id: generation,
            protocol_name: Some(protocol.into()),
            leader: "other".into(),
            member_id: id.into(),
            ..Default::default()
        };
        script.answer(&join, Response::JoinGroup(answer));
        assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Protocol);
        assert_eq!(script.engine.group_metadata().unwrap().generation, -1);
    }
}

#[test]
fn a_listener_that_takes_too_long_costs_the_membership() {
    let pairs = [("group.id", "g"), ("max.poll.interval.ms", "10000")];
    let mut script = member(&pairs);
    let join = only(poll(&mut script));
    answer_join(&mut script, &join, "other", &[]);
    let sync = only(asked(&mut script));
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0]));
    poll(&mut script);
    assert!(script.engine.take_rebalance(script.now).is_some());
    for _ in 0..12 {
        for asked in passed(&mut script, 1_000) {
            match &asked.request {
                Request::Heartbeat(_) => answer_heartbeat(&mut script, &asked, ErrorCode::NONE),
                Request::OffsetFetch(_) => answer_offsets(&mut script, &asked),
                _ => {}
            }
        }
    }
    assert!(told(&mut script).contains("goes on without"));
    script.engine.told_rebalance(script.now);
    poll(&mut script);
    assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0]))]);
}

#[test]
fn committed_offsets_of_partitions_assigned_by_hand_are_retried() {
    let mut script = Script::new(Engine::consumer(config(Role::Consumer, EAGER), 7));
    let now = script.now;
    let partition = (Arc::from("t"), 0, Start::Reset);
    script.engine.assign(now, [partition]).unwrap();
    for _ in 0..3 {
        let fetch = only(passed(&mut script, 2_000));
        let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        answer_offsets_with(&mut script, &fetch, code, ErrorCode::NONE);
        assert_eq!(positions(&script), [(0, None)]);
    }
    let fetch = only(passed(&mut script, 2_000));
    answer_offsets(&mut script, &fetch);
    assert_eq!(positions(&script), [(0, Some(10))]);
}
