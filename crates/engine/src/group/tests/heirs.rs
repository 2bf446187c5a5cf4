//! Partitions that are nobody's, since a static member began again before they were shared out: its leader finds them.

use ottla_protocol::messages::DescribeGroupsResponse;
use ottla_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};

use super::*;
use crate::group::assignor::TopicPartition;

const STATIC: &[(&str, &str)] = &[("group.id", "g"), ("group.instance.id", "i")];

fn subscription(owned: &[TopicPartition]) -> Bytes {
    let told = Subscription {
        topics: vec!["t".into()],
        owned: owned.to_vec(),
        generation: 4,
        ..Subscription::default()
    };
    told.encode().unwrap()
}

/// Become the leader after another leader has assigned partitions, partition 0 to the member
/// itself. Returns the DescribeGroups request for that assignment.
fn heir(script: &mut Member) -> Asked {
    let join = only(poll(script));
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    let row = |id: &str| JoinGroupResponseMember {
        member_id: id.into(),
        metadata: subscription(&[]),
        ..Default::default()
    };
    let answer = JoinGroupResponse {
        generation_id: 5,
        protocol_name: Some(request.protocols[0].name.clone()),
        leader: "me".into(),
        member_id: "me".into(),
        skip_assignment: true,
        members: vec![row("me"), row("other")],
        ..Default::default()
    };
    script.answer(&join, Response::JoinGroup(answer));
    let sync = only(asked(script));
    answer_sync(script, &sync, ErrorCode::NONE, assignment(&[0]));
    let mut all = asked(script);
    assert!(
        matches!(all[0].request, Request::DescribeGroups(_)),
        "{all:?}"
    );
    all.remove(0)
}

/// Respond that the other member has these partitions.
fn describe(script: &mut Member, question: &Asked, state: &str, others: Bytes) {
    let row = |id: &str, member_assignment: Bytes| DescribedGroupMember {
        member_id: id.into(),
        member_assignment,
        ..Default::default()
    };
    let group = DescribedGroup {
        group_id: "g".into(),
        group_state: state.into(),
        protocol_type: "consumer".into(),
        members: vec![row("me", assignment(&[0])), row("other", others)],
        ..Default::default()
    };
    let answer = DescribeGroupsResponse {
        groups: vec![group],
        ..Default::default()
    };
    script.answer(question, Response::DescribeGroups(answer));
}

#[test]
fn a_leader_that_did_not_assign_shares_out_what_nobody_has() {
    // Of t there are two partitions.
    let found = [
        ("Stable", assignment(&[1]), false),
        ("Stable", assignment(&[]), true),
        ("PreparingRebalance", assignment(&[]), false),
        // What cannot be read may be anything.
        ("Stable", Bytes::from_static(b"\x00"), false),
    ];
    for (state, others, is_missing) in found {
        let mut script = member(STATIC);
        let question = heir(&mut script);
        tell(&mut script);
        describe(&mut script, &question, state, others);
        assert_eq!(script.engine.wants_given(script.now), is_missing, "{state}");
    }
}

#[test]
fn a_leader_that_is_not_told_what_members_have_goes_on() {
    let mut script = member(STATIC);
    let question = heir(&mut script);
    tell(&mut script);
    let group = DescribedGroup {
        group_id: "g".into(),
        error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED.0,
        ..Default::default()
    };
    let answer = DescribeGroupsResponse {
        groups: vec![group],
        ..Default::default()
    };
    script.answer(&question, Response::DescribeGroups(answer));
    assert!(!script.engine.wants_given(script.now) && script.engine.stuck().is_none());
}

#[test]
fn what_nobody_gave_up_in_time_is_shared_out_anew() {
    // The other member owns both partitions and has to revoke one; or it claims partitions that do
    // not exist.
    for (owned, waits) in [(&[0, 1][..], true), (&[7, -3], false)] {
        let own = [
            ("max.poll.interval.ms", "20000"),
            ("enable.auto.commit", "false"),
        ];
        let pairs = [COOPERATIVE, &own].concat();
        let mut script = member(&pairs);
        let join = only(poll(&mut script));
        let owned = subscription(&partitions(owned));
        let members = [("me", subscription(&[])), ("other", owned)];
        answer_join(&mut script, &join, "me", &members);
        let sync = only(asked(&mut script));
        answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[]));
        tell(&mut script);
        for second in 1..30 {
            for asked in passed(&mut script, 1000) {
                if matches!(asked.request, Request::Heartbeat(_)) {
                    answer_heartbeat(&mut script, &asked, ErrorCode::NONE);
                }
            }
            let is_due = waits && second >= 20;
            assert_eq!(script.engine.wants_given(script.now), is_due, "{second} s");
            if is_due {
                break;
            }
            let now = script.now;
            script.engine.poll_began(now);
            script.engine.poll_ended(now);
        }
    }
}
