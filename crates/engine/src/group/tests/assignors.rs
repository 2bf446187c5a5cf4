//! A member with an assignor of its caller's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::config::CustomAssignor;
use crate::error::Error;
use crate::group::QuestionId;
use crate::group::assignor::{Assignments, Question, Reply};

/// A member's id, and its partitions.
type Row<'a> = (&'a str, &'a [i32]);

/// A member that offers `mine` before range.
fn member(cooperates: bool) -> Member {
    let mut settings = (*config(Role::Consumer, EAGER)).clone();
    settings.partition_assignment_strategy = vec!["mine".to_owned()];
    if !cooperates {
        settings
            .partition_assignment_strategy
            .push("range".to_owned());
    }
    settings.assignors = vec![CustomAssignor {
        name: "mine".into(),
        cooperates,
    }];
    let mut script = Script::new(Engine::consumer(Arc::new(settings), 7));
    let names = BTreeSet::from([Arc::from("t")]);
    let now = script.now;
    let selection = Selection::Names(names);
    script.engine.subscribe(now, selection).unwrap();
    script
}

fn question(script: &mut Member) -> (QuestionId, Question) {
    assert!(script.engine.has_question());
    assert!(script.engine.pulse().needs_poll());
    let taken = script.engine.take_question().unwrap();
    assert!(!script.engine.has_question() && script.engine.take_question().is_none());
    taken
}

fn reply(script: &mut Member, id: QuestionId, reply: Result<Reply, Error>) -> Vec<Asked> {
    let now = script.now;
    script.engine.answer(now, id, reply);
    asked(script)
}

/// The JoinGroup that the member sends once its assignor has returned this user data.
fn joining(script: &mut Member, user_data: Option<&'static [u8]>) -> Asked {
    assert!(poll(script).is_empty(), "it asks its assignor first");
    let (id, asked) = question(script);
    let wanted = Question::Subscribe {
        topics: vec!["t".into()],
        assignors: vec!["mine".into()],
    };
    assert_eq!(asked, wanted);
    let told = Reply::Subscribe(vec![user_data.map(Bytes::from_static)]);
    only(reply(script, id, Ok(told)))
}

fn subscribed(owned: &[i32], generation: i32) -> Bytes {
    let subscription = Subscription {
        topics: vec!["t".into()],
        user_data: Some(Bytes::from_static(b"theirs")),
        owned: partitions(owned),
        generation,
        rack: None,
    };
    subscription.encode().unwrap()
}

/// What the leader requests of its assignor, after a join by these members.
fn leading(script: &mut Member, members: &[(&str, Bytes)]) -> (QuestionId, Question) {
    let join = joining(script, None);
    answer_join(script, &join, "me", members);
    assert!(asked(script).is_empty());
    question(script)
}

fn assigned(rows: &[Row<'_>]) -> Result<Reply, Error> {
    let rows = rows.iter();
    let rows = rows.map(|(member, numbers)| (Arc::from(*member), partitions(numbers)));
    Ok(Reply::Assign(rows.collect::<Assignments>()))
}

fn synced(sync: &Asked) -> Vec<(String, Vec<i32>)> {
    let Request::SyncGroup(request) = &sync.request else {
        panic!("{sync:?}")
    };
    let rows = request.assignments.iter().map(|row| {
        let assignment = Assignment::decode(row.assignment.clone()).unwrap();
        let numbers = assignment.partitions.iter().map(|(_, number)| *number);
        (row.member_id.to_string(), numbers.collect())
    });
    rows.collect()
}

#[test]
fn its_assignor_is_asked_before_it_joins_and_when_it_leads() {
    let mut script = member(false);
    let join = joining(&mut script, Some(b"ours"));
    let Request::JoinGroup(request) = &join.request else {
        panic!("{join:?}")
    };
    let names: Vec<_> = request.protocols.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["mine", "range"]);
    let told = |place: usize| {
        let metadata = request.protocols[place].metadata.clone();
        Subscription::decode(metadata).unwrap().user_data
    };
    assert_eq!(told(0).as_deref(), Some(&b"ours"[..]));
    assert_eq!(told(1), None);
    // With the id that it is given it joins by what was said.
    refuse_join(&mut script, &join, ErrorCode::MEMBER_ID_REQUIRED);
    let join = only(asked(&mut script));
    let members = [("me", subscribed(&[], -1)), ("you", subscribed(&[1], 3))];
    answer_join(&mut script, &join, "me", &members);
    assert!(asked(&mut script).is_empty());
    let (id, about) = question(&mut script);
    let Question::Assign {
        assignor,
        members,
        topics,
    } = about
    else {
        panic!("{about:?}")
    };
    assert_eq!((&*assignor, topics), ("mine", vec![("t".into(), 2)]));
    let you = &members[1];
    assert_eq!((&*you.id, you.subscription.generation), ("you", 3));
    assert_eq!(you.subscription.user_data.as_deref(), Some(&b"theirs"[..]));
    let sync = only(reply(&mut script, id, assigned(&[("you", &[1, 0])])));
    let Request::SyncGroup(request) = &sync.request else {
        panic!("{sync:?}")
    };
    assert_eq!(request.protocol_name.as_deref(), Some("mine"));
    let rows = [("me".to_owned(), vec![]), ("you".to_owned(), vec![1, 0])];
    assert_eq!(synced(&sync), rows);
    answer_sync(&mut script, &sync, ErrorCode::NONE, assignment(&[]));
    assert_eq!(tell(&mut script), [Rebalance::Assigned(Vec::new())]);
}

#[test]
fn what_moves_in_a_cooperative_group_waits_for_its_owner() {
    let mut script = member(true);
    let members = [("me", subscribed(&[], -1)), ("you", subscribed(&[0, 1], 4))];
    let (id, _) = leading(&mut script, &members);
    let reply = reply(&mut script, id, assigned(&[("me", &[0]), ("you", &[1])]));
    let rows = [("me".to_owned(), vec![]), ("you".to_owned(), vec![1])];
    assert_eq!(synced(&only(reply)), rows);
}

#[test]
fn of_claims_that_cannot_all_be_true_the_newest_counts() {
    let mut script = member(true);
    let members = [
        ("me", subscribed(&[0], 4)),
        ("old", subscribed(&[0, 1], 3)),
        ("you", subscribed(&[1], 4)),
        ("too", subscribed(&[1], 4)),
    ];
    let (id, _) = leading(&mut script, &members);
    let reply = reply(&mut script, id, assigned(&[("old", &[0, 1])]));
    let rows = synced(&only(reply));
    assert_eq!(rows[1], ("old".to_owned(), vec![1]));
}

#[test]
fn an_assignment_that_cannot_be_is_an_error_of_polls() {
    let wrong: [(&[Row<'_>], &str); 4] = [
        (&[("he", &[0])], "\"he\", which is no member"),
        (&[("me", &[2])], "partition 2 of topic t"),
        (&[("me", &[-1])], "partition -1 of topic t"),
        (
            &[("me", &[0]), ("you", &[0])],
            "partition 0 of topic t twice",
        ),
    ];
    for (rows, said) in wrong {
        let mut script = member(false);
        let members = [("me", subscribed(&[], -1)), ("you", subscribed(&[], -1))];
        let (id, _) = leading(&mut script, &members);
        assert!(reply(&mut script, id, assigned(rows)).is_empty());
        let error = script.engine.stuck().unwrap();
        assert_eq!(error.kind(), Kind::Argument);
        let text = error.to_string();
        assert!(text.contains("\"mine\"") && text.contains(said), "{text}");
    }
}

#[test]
fn a_topic_that_the_member_did_not_ask_for_is_refused() {
    let mut script = member(false);
    let other = Subscription::default().encode().unwrap();
    let (id, _) = leading(&mut script, &[("me", subscribed(&[], -1)), ("you", other)]);
    assert!(reply(&mut script, id, assigned(&[("you", &[0])])).is_empty());
    let error = script.engine.stuck().unwrap().to_string();
    assert!(error.contains("did not subscribe"), "{error}");
}

#[test]
fn the_member_tries_again_when_its_assignor_failed() {
    let mut script = member(false);
    let (id, _) = leading(&mut script, &[("me", subscribed(&[], -1))]);
    let failure = || Err(Error::new(Kind::Argument, "it raised"));
    assert!(reply(&mut script, id, failure()).is_empty());
    assert!(script.engine.stuck().is_none(), "the caller has raised it");
    script.pass(Duration::from_secs(2));
    let join = joining(&mut script, None);
    assert!(matches!(join.request, Request::JoinGroup(_)));
}

#[test]
fn a_reply_that_comes_too_late_changes_nothing() {
    let mut script = member(false);
    let (id, _) = leading(&mut script, &[("me", subscribed(&[], -1))]);
    let deadline = script.now + Duration::from_secs(5);
    let now = script.now;
    script.engine.leave_group(now, deadline);
    for each in poll(&mut script) {
        assert!(matches!(each.request, Request::LeaveGroup(_)), "{each:?}");
    }
    assert!(reply(&mut script, id, assigned(&[("me", &[0, 1])])).is_empty());
    assert!(!script.engine.has_question());
}
