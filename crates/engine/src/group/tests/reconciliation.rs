//! What a member of the consumer protocol owns, and when it reports that to the coordinator
//! (KIP-848).

use super::consumer::*;
use super::*;

/// A member of epoch 3 whose listener was called for partition 0, which goes to another member, and
/// the listener's commit of it.
fn revoked_with_a_commit(pairs: &[(&'static str, &'static str)]) -> (Member, CommitId, Asked) {
    let mut script = settled(pairs, &[0, 1]);
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[1])]));
    let commit = only(poll(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    let change = script.engine.take_rebalance(script.now);
    assert_eq!(change, Some(Rebalance::Revoked(partitions(&[0]))));
    let id = commit_at(&mut script, 17, 60);
    script.engine.told_rebalance(script.now);
    assert!(tell(&mut script).is_empty(), "a commit is under way");
    let (acknowledgement, mut commits) = beats(asked(&mut script));
    assert!(acknowledgement.is_empty(), "a commit is under way");
    (script, id, commits.remove(0))
}

/// The heartbeats among these.
fn beats_of(asked: Vec<Asked>) -> Vec<Asked> {
    beats(asked).0
}

#[test]
fn partitions_are_not_acknowledged_as_given_up_before_their_commits_have_ended() {
    let (mut script, id, commit) = revoked_with_a_commit(CONSUMER);
    let heartbeat = next_beat(&mut script);
    assert_eq!(owned(&heartbeat), None, "another would begin before it");
    assign(&mut script, &heartbeat, 3, None);
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert_eq!(script.engine.take_commit(id), Some(Ok(())));
    tell(&mut script);
    let acknowledgement = only(beats_of(asked(&mut script)));
    assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![1])]));
}

#[test]
fn a_stale_commit_of_what_is_not_acknowledged_as_given_up_is_repeated() {
    let (mut script, id, commit) = revoked_with_a_commit(CONSUMER);
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    let heartbeat = only(asked(&mut script));
    assert_eq!(owned(&heartbeat), None);
    assign(&mut script, &heartbeat, 4, None);
    let commit = only(asked(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert_eq!(script.engine.take_commit(id), Some(Ok(())));
    tell(&mut script);
    let acknowledgement = only(beats_of(asked(&mut script)));
    assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![1])]));
}

/// The partitions whose offsets are committed.
fn committed(asked: &[Asked]) -> Vec<i32> {
    let topics = asked.iter().flat_map(|asked| match &asked.request {
        Request::OffsetCommit(request) => &request.topics[..],
        _ => &[],
    });
    let rows = topics.flat_map(|topic| topic.partitions.iter());
    rows.map(|row| row.partition_index).collect()
}

const SHORT: &[(&str, &str)] = &[
    ("group.id", "g"),
    ("group.protocol", "consumer"),
    ("max.poll.interval.ms", "20000"),
];

/// Respond to heartbeats while time passes and callers poll, up to the heartbeat that declares the
/// owned partitions.
fn declared(script: &mut Member) -> Vec<(Uuid, Vec<i32>)> {
    for _ in 0..40 {
        let mut all = poll(script);
        all.extend(passed(script, 500));
        tell(script);
        for heartbeat in beats_of(all) {
            let epoch = beat(&heartbeat).member_epoch;
            assign(script, &heartbeat, epoch, None);
            if let Some(owned) = owned(&heartbeat) {
                return owned;
            }
        }
    }
    panic!("nothing was acknowledged");
}

#[test]
fn a_commit_that_takes_too_long_is_not_repeated_once_its_partition_was_given_up() {
    let (mut script, id, commit) = revoked_with_a_commit(SHORT);
    assert_eq!(declared(&mut script), [(T, vec![1])]);
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    let error = script.engine.take_commit(id).unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::STALE_MEMBER_EPOCH));
    let heartbeat = only(beats_of(asked(&mut script)));
    assign(&mut script, &heartbeat, 4, None);
    // Polls have committed the other one meanwhile.
    let committed = committed(&asked(&mut script));
    assert!(
        !committed.contains(&0),
        "it would set the offset back: {committed:?}"
    );
}

#[test]
fn a_commit_that_waits_too_long_is_sent_without_what_was_given_up() {
    let (mut script, _, commit) = revoked_with_a_commit(SHORT);
    let now = script.now;
    let both = vec![
        offset(18),
        GroupOffset {
            partition: 1,
            ..offset(19)
        },
    ];
    let deadline = now + Duration::from_secs(60);
    let id = script.engine.commit(now, both, deadline, true).unwrap();
    assert_eq!(declared(&mut script), [(T, vec![1])]);
    let error = script.engine.take_commit(id).unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::CommitFailed);
    assert!(error.to_string().contains("revoked"), "{error}");
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    assert_eq!(committed(&asked(&mut script)), [1]);
}

#[test]
fn a_plan_that_is_out_of_date_is_not_told() {
    let mut script = settled(CONSUMER, &[0]);
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 4, Some(&[(T, &[0, 1])]));
    assert!(asked(&mut script).is_empty(), "until a caller polls");
    let heartbeat = next_beat(&mut script);
    refuse(
        &mut script,
        &heartbeat,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    );
    let heartbeat = only(passed(&mut script, 1_000));
    assert_eq!(
        owned(&heartbeat),
        Some(vec![(T, vec![0, 1])]),
        "a caller may hear of it before the answer comes"
    );
    assign(&mut script, &heartbeat, 4, Some(&[(T, &[0])]));
    let acknowledgement = only(asked(&mut script));
    assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![0])]));
    poll(&mut script);
    assert!(tell(&mut script).is_empty());
    assert_eq!(positions(&script).len(), 1);
}

#[test]
fn the_first_assignment_is_told_even_if_another_that_is_empty_comes_before() {
    let mut script = member(CONSUMER);
    let join = only(poll(&mut script));
    assign(&mut script, &join, 3, Some(&[(T, &[0])]));
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 4, Some(&[]));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(Vec::new())]);
    let acknowledgement = only(asked(&mut script));
    assert_eq!(owned(&acknowledgement), Some(Vec::new()));
}

#[test]
fn what_comes_for_what_was_given_up_is_what_is_assigned_by_then() {
    let mut script = settled(CONSUMER, &[0]);
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[1])]));
    let commit = only(poll(&mut script));
    // The other one goes elsewhere while offsets are committed.
    let heartbeat = next_beat(&mut script);
    assign(&mut script, &heartbeat, 3, Some(&[]));
    answer_commit(&mut script, &commit, ErrorCode::NONE);
    let none = Rebalance::Assigned(Vec::new());
    assert_eq!(
        tell(&mut script),
        [Rebalance::Revoked(partitions(&[0])), none]
    );
    let acknowledgement = only(asked(&mut script));
    assert_eq!(owned(&acknowledgement), Some(Vec::new()));
}

/// A static member leaves for a while and gets this response. Returns the requests that follow.
fn frees_its_instance(script: &mut Member, leave: &Asked, code: ErrorCode, id: &str) -> Vec<Asked> {
    assert_eq!(
        (beat(leave).member_epoch, &*beat(leave).member_id),
        (-2, id)
    );
    match code {
        ErrorCode::NONE => assign(script, leave, -2, None),
        code => refuse(script, leave, code),
    }
    asked(script)
}

#[test]
fn a_static_member_that_was_fenced_frees_its_instance_before_it_joins() {
    for code in [
        ErrorCode::NONE,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::FENCED_INSTANCE_ID,
    ] {
        let mut script = settled(STATIC, &[0]);
        let heartbeat = next_beat(&mut script);
        let id = beat(&heartbeat).member_id.clone();
        refuse(&mut script, &heartbeat, ErrorCode::FENCED_MEMBER_EPOCH);
        poll(&mut script);
        assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0]))]);
        let leave = only(asked(&mut script));
        let join = only(frees_its_instance(&mut script, &leave, code, &id));
        assert_eq!(beat(&join).member_epoch, 0);
        assign(&mut script, &join, 5, Some(&[(T, &[0])]));
        assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
    }
}

/// What is asked while a caller polls, the first of it.
fn polled(script: &mut Member) -> Asked {
    for _ in 0..20 {
        let mut all = poll(script);
        all.extend(passed(script, 250));
        if !all.is_empty() {
            return only(all);
        }
    }
    panic!("nothing is asked");
}

#[test]
fn a_static_member_whose_request_to_join_was_not_answered_frees_its_instance() {
    let mut script = member(STATIC);
    let join = only(poll(&mut script));
    assert_eq!(beat(&join).member_epoch, 0, "nobody knows it");
    let id = beat(&join).member_id.clone();
    script.cut(join.link);
    let leave = polled(&mut script);
    let moved = ErrorCode::NOT_COORDINATOR;
    assert!(frees_its_instance(&mut script, &leave, moved, &id).is_empty());
    let leave = polled(&mut script);
    let join = frees_its_instance(&mut script, &leave, ErrorCode::NONE, &id);
    let join = only(join);
    assert_eq!((beat(&join).member_epoch, &beat(&join).member_id), (0, &id));
}

#[test]
fn a_commit_without_an_answer_is_not_repeated_by_a_later_membership() {
    // The member was fenced, and has joined again.
    let mut script = settled(CONSUMER, &[0]);
    let id = commit_at(&mut script, 1, 60);
    let commit = only(asked(&mut script));
    let heartbeat = next_beat(&mut script);
    refuse(&mut script, &heartbeat, ErrorCode::FENCED_MEMBER_EPOCH);
    poll(&mut script);
    assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0]))]);
    let join = only(asked(&mut script));
    assign(&mut script, &join, 4, Some(&[(T, &[0])]));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[0]))]);
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    let error = script.engine.take_commit(id).unwrap().unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::STALE_MEMBER_EPOCH));
    let all = passed(&mut script, 1_000);
    assert_eq!(committed(&all), [0; 0]);
    // It has left.
    let mut script = settled(SHORT, &[0]);
    let id = commit_at(&mut script, 1, 60);
    let commit = only(asked(&mut script));
    let deadline = script.now + Duration::from_secs(1);
    script.engine.leave_group(script.now, deadline);
    poll(&mut script);
    passed(&mut script, 1_000);
    tell(&mut script);
    let leave = asked(&mut script);
    assert_eq!(committed(&leave), [0; 0]);
    script.engine.abandon_group(script.now);
    assert!(!script.engine.is_subscribed());
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    assert!(script.engine.take_commit(id).unwrap().is_err());
    let all = passed(&mut script, 1_000);
    assert_eq!(committed(&all), [0; 0], "it would be nobody's");
}

#[test]
fn a_coordinator_that_assigns_in_every_answer_is_not_asked_without_a_pause() {
    let mut script = settled(CONSUMER, &[0]);
    let always: &[(Uuid, &[i32])] = &[(T, &[0])];
    for _ in 0..3 {
        let heartbeat = next_beat(&mut script);
        assert_eq!(owned(&heartbeat), None);
        assign(&mut script, &heartbeat, 3, Some(always));
        let acknowledgement = only(asked(&mut script));
        assert_eq!(owned(&acknowledgement), Some(vec![(T, vec![0])]));
        assign(&mut script, &acknowledgement, 3, Some(always));
        assert!(asked(&mut script).is_empty(), "until the interval is over");
    }
}

#[test]
fn commits_of_who_joins_anew_are_refused() {
    let mut script = settled(CONSUMER, &[0]);
    let (now, soon) = (script.now, script.now + Duration::from_secs(5));
    script.engine.leave_group(now, soon);
    let names = BTreeSet::from([Arc::from("t")]);
    let selection = Selection::Names(names);
    script.engine.subscribe(now, selection).unwrap();
    let (_, commits) = beats(poll(&mut script));
    answer_commit(&mut script, &only(commits), ErrorCode::NONE);
    assert_eq!(tell(&mut script), [Rebalance::Revoked(partitions(&[0]))]);
    let (joins, _) = beats(asked(&mut script));
    assert_eq!(beat(joins.last().unwrap()).member_epoch, 0);
    let refused = script.engine.commit(now, vec![offset(1)], soon, true);
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("rebalances"), "{error}");
}

#[test]
fn later_commits_do_not_defer_the_end_of_one_whose_epoch_never_comes() {
    let mut script = settled(CONSUMER, &[0]);
    let first = commit_at(&mut script, 1, 2);
    let commit = only(asked(&mut script));
    answer_commit(&mut script, &commit, ErrorCode::STALE_MEMBER_EPOCH);
    let second = commit_at(&mut script, 2, 60);
    passed(&mut script, 2_000);
    for id in [first, second] {
        let error = script.engine.take_commit(id).unwrap().unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::STALE_MEMBER_EPOCH));
    }
}

/// Whether a heartbeat declares everything, so that its response has the whole assignment.
fn is_full(asked: &Asked) -> bool {
    let request = beat(asked);
    let has_topics = request.subscribed_topic_names.is_some();
    request.rebalance_timeout_ms >= 0 && has_topics && request.topic_partitions.is_some()
}

#[test]
fn what_is_told_to_nobody_in_answer_to_a_stray_heartbeat_is_asked_for() {
    let mut script = settled(CONSUMER, &[0]);
    let stray = next_beat(&mut script);
    script.cut(stray.link);
    let mut heartbeats = passed(&mut script, 500);
    heartbeats.extend(passed(&mut script, 2_000));
    let heartbeat = only(heartbeats);
    assert!(is_full(&heartbeat));
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[0])]));
    // The coordinator receives the first one only now, and assigns another partition in its
    // response.
    let heartbeat = next_beat(&mut script);
    assert!(is_full(&heartbeat));
    assign(&mut script, &heartbeat, 3, Some(&[(T, &[0, 1])]));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(partitions(&[1]))]);
    let (acknowledgement, rest) = beats(asked(&mut script));
    for fetch in rest {
        answer_offsets(&mut script, &fetch);
    }
    assign(
        &mut script,
        &only(acknowledgement),
        3,
        Some(&[(T, &[0, 1])]),
    );
    let mut full = 0;
    loop {
        let heartbeat = next_beat(&mut script);
        if !is_full(&heartbeat) {
            break;
        }
        full += 1;
        assert!(full < 20, "the rest is known again after a time");
        assign(&mut script, &heartbeat, 3, Some(&[(T, &[0, 1])]));
    }
}

#[test]
fn who_joins_anew_asks_for_what_a_stray_heartbeat_was_told() {
    let mut script = settled(CONSUMER, &[0]);
    next_beat(&mut script);
    let commit = commit_at(&mut script, 1, 5);
    let commit_asked = only(asked(&mut script));
    answer_commit(&mut script, &commit_asked, ErrorCode::UNKNOWN_MEMBER_ID);
    assert!(script.engine.take_commit(commit).is_some());
    poll(&mut script);
    assert_eq!(tell(&mut script), [Rebalance::Lost(partitions(&[0]))]);
    let mut joins = beats_of(asked(&mut script));
    joins.extend(beats_of(poll(&mut script)));
    let join = only(joins);
    assert_eq!(beat(&join).member_epoch, 0);
    assign(&mut script, &join, 4, Some(&[]));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(Vec::new())]);
    for asked in beats_of(asked(&mut script)) {
        assign(&mut script, &asked, 4, None);
    }
    let heartbeat = next_beat(&mut script);
    assert!(is_full(&heartbeat));
}
