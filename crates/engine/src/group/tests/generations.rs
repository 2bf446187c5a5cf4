//! What belongs to one generation, and must not reach the next.

use super::*;
use crate::call::GroupMetadata;

fn who(script: &Member) -> (i32, String) {
    let GroupMetadata {
        generation,
        member_id,
        ..
    } = script.engine.group_metadata().unwrap();
    (generation, member_id.to_string())
}

fn commit(script: &mut Member, at: i64) -> crate::consumer::CommitId {
    let now = script.now;
    let deadline = now + Duration::from_secs(9);
    let offsets = vec![offset(at)];
    script.engine.commit(now, offsets, deadline, true).unwrap()
}

fn admit(script: &mut Member, join: &Asked, generation: i32, id: &str) -> Asked {
    let answer = JoinGroupResponse {
        generation_id: generation,
        protocol_name: Some("range".into()),
        leader: "other".into(),
        member_id: id.into(),
        ..Default::default()
    };
    script.answer(join, Response::JoinGroup(answer));
    only(asked(script))
}

fn is_join(asked: &Asked) -> bool {
    matches!(asked.request, Request::JoinGroup(_))
}

#[test]
fn callers_are_who_the_last_assignment_made_them() {
    for code in [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::ILLEGAL_GENERATION] {
        let mut script = heard(EAGER, code);
        assert_eq!(who(&script), (5, "me".into()), "a transaction is fenced");
        poll(&mut script);
        assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0, 1]))]);
        let join = only(asked(&mut script));
        let sync = admit(&mut script, &join, 8, "new");
        assert_eq!(who(&script), (5, "me".into()), "nothing is assigned yet");
        answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0]));
        assert_eq!(who(&script), (8, "new".into()));
    }
    let mut script = member(EAGER);
    let join = only(poll(&mut script));
    admit(&mut script, &join, 3, "me");
    assert_eq!(who(&script), (-1, String::new()));
}

/// A member whose listener commits while partitions are revoked, and the commit.
fn committing_listener(pairs: &[(&'static str, &'static str)], leaves: bool) -> (Member, Asked) {
    let mut script = stable(pairs, &[0]);
    if leaves {
        let deadline = script.now + Duration::from_secs(5);
        script.engine.leave_group(script.now, deadline);
    } else {
        let heartbeat = only(passed(&mut script, 3_000));
        answer_heartbeat(&mut script, &heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
    }
    assert!(poll(&mut script).is_empty());
    assert!(script.engine.take_rebalance(script.now).is_some());
    commit(&mut script, 7);
    script.engine.told_rebalance(script.now);
    let request = only(asked(&mut script));
    let Request::OffsetCommit(sent) = &request.request else {
        panic!("the group goes on before the commit: {request:?}")
    };
    assert_eq!(sent.generation_id_or_member_epoch, 5);
    (script, request)
}

const BY_HAND: &[(&str, &str)] = &[("group.id", "g"), ("enable.auto.commit", "false")];

#[test]
fn what_a_listener_commits_is_awaited() {
    for leaves in [false, true] {
        let (mut script, request) = committing_listener(BY_HAND, leaves);
        assert!(asked(&mut script).is_empty() && script.engine.is_held());
        answer_commit(&mut script, &request, ErrorCode::NONE);
        let next = only(asked(&mut script));
        let is_leave = matches!(next.request, Request::LeaveGroup(_));
        assert!(if leaves { is_leave } else { is_join(&next) }, "{next:?}");
        assert!(!script.engine.is_held());
    }
}

#[test]
fn the_group_does_not_wait_for_a_commit_that_does_not_end() {
    let pairs = [BY_HAND, &[("max.poll.interval.ms", "10000")]].concat();
    let (mut script, request) = committing_listener(&pairs, false);
    let second = commit(&mut script, 8);
    let late = passed(&mut script, 5_000);
    assert!(late.iter().any(is_join), "{late:?}");
    let refused = script.engine.take_commit(second);
    assert!(
        matches!(refused, Some(Err(error)) if error.kind() == Kind::CommitFailed),
        "it is of a generation that ends, and was not sent"
    );
    // The first comes back when its generation is over.
    let join = late.iter().find(|it| is_join(it)).unwrap();
    let sync = admit(&mut script, join, 6, "me");
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0]));
    answer_commit(&mut script, &request, ErrorCode::ILLEGAL_GENERATION);
    assert!(!told(&mut script).contains("goes on without"));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
}

#[test]
fn a_heartbeat_from_before_a_join_ends_no_membership() {
    let mut script = heard(COOPERATIVE, ErrorCode::REBALANCE_IN_PROGRESS);
    let heartbeat = only(passed(&mut script, 3_000));
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    let join = only(asked(&mut script));
    answer_heartbeat(&mut script, &heartbeat, ErrorCode::ILLEGAL_GENERATION);
    assert!(!told(&mut script).contains("goes on without"));
    answer_join(&mut script, &join, "other", &[]);
    let sync = only(asked(&mut script));
    assert!(matches!(sync.request, Request::SyncGroup(_)));
}

#[test]
fn a_heartbeat_of_another_member_of_the_same_generation_ends_no_membership() {
    for code in [
        ErrorCode::FENCED_INSTANCE_ID,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::ILLEGAL_GENERATION,
    ] {
        let mut script = stable(BY_HAND, &[0]);
        let heartbeat = only(passed(&mut script, 3_000));
        commit(&mut script, 7);
        let request = only(asked(&mut script));
        answer_commit(&mut script, &request, ErrorCode::UNKNOWN_MEMBER_ID);
        poll(&mut script);
        assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0]))]);
        let join = only(asked(&mut script));
        // A static member that joins again gets another id in the same generation (KIP-345).
        let sync = admit(&mut script, &join, 5, "new");
        answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[0]));
        assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
        told(&mut script);
        answer_heartbeat(&mut script, &heartbeat, code);
        poll(&mut script);
        assert!(!told(&mut script).contains("goes on without"), "{code:?}");
        assert_eq!(tell(&mut script), []);
        assert_eq!(who(&script), (5, "new".into()));
    }
}

#[test]
fn a_subscription_during_a_leave_stays() {
    let mut script = stable(BY_HAND, &[0]);
    let deadline = script.now + Duration::from_secs(5);
    script.engine.leave_group(script.now, deadline);
    poll(&mut script);
    tell(&mut script);
    let leave = only(asked(&mut script));
    let names = Selection::Names(BTreeSet::from([Arc::from("t")]));
    script.engine.subscribe(script.now, names).unwrap();
    script.answer(&leave, Response::LeaveGroup(LeaveGroupResponse::default()));
    assert!(script.engine.is_subscribed() && !script.engine.is_leaving_group());
    let join = only(poll(&mut script));
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    assert_eq!(&*request.member_id, "");
}

#[test]
fn a_leave_that_takes_too_long_is_cut_short() {
    // Before, during and after the calls of the listeners.
    for step in 0..3 {
        let mut script = stable(BY_HAND, &[0]);
        let deadline = script.now + Duration::from_secs(1);
        script.engine.leave_group(script.now, deadline);
        poll(&mut script);
        if step > 0 {
            assert!(script.engine.take_rebalance(script.now).is_some());
        }
        if step > 1 {
            script.engine.told_rebalance(script.now);
            assert!(matches!(
                only(asked(&mut script)).request,
                Request::LeaveGroup(_)
            ));
        }
        script.engine.abandon_group(script.now);
        assert!(!script.engine.is_leaving_group() && !script.engine.is_subscribed());
        assert!(!script.engine.is_held() && script.engine.take_rebalance(script.now).is_none());
        assert!(positions(&script).is_empty());
        let sent = asked(&mut script);
        assert_eq!(sent.len(), usize::from(step < 2), "{sent:?}");
        let nothing: [(Arc<str>, i32, Start); 0] = [];
        script.engine.assign(script.now, nothing).unwrap();
        script.engine.told_rebalance(script.now);
        assert!(passed(&mut script, 60_000).iter().all(|it| !is_join(it)));
    }
}

#[test]
fn a_fenced_member_loses_what_it_has_and_stays_away() {
    let pairs = [("group.id", "g"), ("group.instance.id", "i")];
    let mut script = heard(&pairs, ErrorCode::FENCED_INSTANCE_ID);
    assert!(
        script.engine.pulse().needs_poll(),
        "a loop gives out nothing more"
    );
    poll(&mut script);
    assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0, 1]))]);
    assert!(positions(&script).is_empty() && !script.engine.is_held());
    assert!(poll(&mut script).is_empty());
    assert!(passed(&mut script, 60_000).is_empty());
    assert_eq!(script.engine.stuck().unwrap().kind(), Kind::Fenced);
}

#[test]
fn a_revocation_commits_what_was_read_by_then() {
    let mut script = stable(EAGER, &[0]);
    poll(&mut script);
    for asked in passed(&mut script, 5_000) {
        answer_heartbeat(&mut script, &asked, ErrorCode::NONE);
    }
    // A poll that waits commits at the interval.
    let now = script.now;
    script.engine.poll_began(now);
    assert!(script.engine.wants_given(now));
    let given = script.engine.given(|_, _| Some(12));
    script.engine.note_given(now, given);
    let commit = only(asked(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    // Then records are read, and the group rebalances.
    let heartbeat = only(passed(&mut script, 3_000));
    answer_heartbeat(&mut script, &heartbeat, ErrorCode::REBALANCE_IN_PROGRESS);
    assert!(
        asked(&mut script).is_empty(),
        "callers have read more since"
    );
    let now = script.now;
    assert!(script.engine.wants_given(now));
    let given = script.engine.given(|_, _| Some(15));
    script.engine.note_given(now, given);
    let commit = only(asked(&mut script));
    let Request::OffsetCommit(request) = &commit.request else {
        panic!("{commit:?}")
    };
    assert_eq!(request.topics[0].partitions[0].committed_offset, 15);
}

#[test]
fn a_coordinator_that_never_lets_in_is_not_stormed() {
    let mut script = member(EAGER);
    let join = only(poll(&mut script));
    refuse_join(&mut script, &join, ErrorCode::MEMBER_ID_REQUIRED);
    let join = only(asked(&mut script));
    refuse_join(&mut script, &join, ErrorCode::MEMBER_ID_REQUIRED);
    assert!(poll(&mut script).is_empty(), "after a pause");
    assert_eq!(script.engine.stuck(), None);
    passed(&mut script, 1_500);
    assert!(is_join(&only(poll(&mut script))));
}
