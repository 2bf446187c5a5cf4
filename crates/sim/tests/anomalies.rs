//! The checker by itself: a clean history passes, and each anomaly in a history made by hand is found under its name.

#![allow(clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use ottla_engine::ErrorCode;
use ottla_engine::call::{EARLIEST, LATEST};
use ottla_sim::check::check;
use ottla_sim::history::{
    Act, Before, Called, Ended, Fate, History, Incarnation, Joint, Origin, Place, Process, Promise,
    Seen, Sent, Told, Transaction, Value, Verdict, parse, value,
};

fn place() -> Place {
    ("t".into(), 0)
}

fn read(id: usize) -> Value {
    Value {
        id,
        topic: "t".to_owned(),
        sound: true,
    }
}

fn record(offset: i64, id: usize) -> Seen {
    Seen::Record(place(), offset, read(id))
}

/// One producer writes four records in two batches, one consumer reads them in two polls.
fn clean() -> History {
    let sent = |id: usize| Sent {
        producer: 0,
        transaction: None,
        topic: "t".into(),
        asked: Some(0),
        placed: Some((0, id as u64 / 2)),
        due: Some(Duration::from_secs(10)),
        fates: vec![(Duration::from_secs(1), Fate::Written(Some(id as i64)))],
    };
    History {
        sends: (0..4).map(sent).collect(),
        promises: vec![Promise {
            idempotent: true,
            ordered: true,
            acks: -1,
            retried: true,
            patient: true,
        }],
        seen: vec![vec![
            Seen::Begin(place(), Origin::Beginning),
            Seen::Polled,
            record(0, 0),
            record(1, 1),
            Seen::Polled,
            record(2, 2),
            record(3, 3),
        ]],
        log: [(place(), (0..4).map(|id| (id as i64, read(id))).collect())].into(),
        ..History::default()
    }
}

fn names(history: &History) -> Vec<&'static str> {
    check(history)
        .into_iter()
        .map(|anomaly| anomaly.name)
        .collect()
}

/// What is found after a change of the clean history.
fn after(change: impl FnOnce(&mut History)) -> Vec<&'static str> {
    let mut history = clean();
    change(&mut history);
    let mut names = names(&history);
    names.dedup();
    names
}

fn fate(history: &mut History, id: usize, fate: Fate) {
    history.sends[id].fates[0].1 = fate;
}

fn log(history: &mut History) -> &mut Vec<(i64, Value)> {
    history.log.entry(place()).or_default()
}

#[test]
fn a_clean_history_passes() {
    assert_eq!(names(&clean()), [""; 0]);
}

#[test]
fn what_was_acknowledged_must_be_there() {
    let lost = after(|history| {
        log(history).remove(1);
        history.seen.clear();
    });
    assert_eq!(lost, ["lost-write", "send-skip"]);
    let unseen = after(|history| {
        log(history).pop();
        history.seen.clear();
    });
    assert_eq!(unseen, ["unseen"]);
    let one_ack = |leaders_lost: bool| {
        after(|history| {
            log(history).pop();
            history.seen.clear();
            history.promises[0].acks = 1;
            history.leaders_lost = leaders_lost;
        })
    };
    assert_eq!(one_ack(false), ["unseen"]);
    assert_eq!(one_ack(true), [""; 0]);
}

/// The clean history, where the first two records were deleted before the consumer had read the second.
fn trimmed() -> History {
    let mut history = clean();
    history.trimmed.insert(place(), 2);
    log(&mut history).drain(..2);
    history.seen = vec![vec![
        Seen::Begin(place(), Origin::Beginning),
        Seen::Polled,
        record(0, 0),
        Seen::Reset(place(), 1, 2),
        Seen::Polled,
        record(2, 2),
        record(3, 3),
    ]];
    history
}

#[test]
fn what_was_deleted_on_purpose_is_gone_and_its_readers_say_so() {
    let after = |change: fn(&mut History)| {
        let mut history = trimmed();
        change(&mut history);
        names(&history)
    };
    assert_eq!(after(|_| {}), [""; 0]);
    let late = |history: &mut History| drop(history.seen[0].drain(1..4));
    assert_eq!(after(late), [""; 0], "it begins where the log does");
    let by_time = |history: &mut History| history.seen[0][3] = Seen::Reset(place(), 1, 3);
    assert_eq!(after(by_time), ["nonmonotonic-poll"]);
    assert_eq!(
        after(|history| drop(history.seen[0].remove(3))),
        ["poll-skip"]
    );
    let too_far = |history: &mut History| history.seen[0][3] = Seen::Reset(place(), 2, 3);
    assert_eq!(after(too_far), ["external-reset", "poll-skip"]);
    let beyond = |history: &mut History| {
        history.seen[0].drain(1..4);
        history.seen[0].remove(2);
    };
    assert_eq!(after(beyond), ["poll-skip"]);
    assert_eq!(after(|history| drop(log(history).remove(0))), ["send-skip"]);
    let lost = |history: &mut History| {
        log(history).remove(0);
        history.seen.clear();
    };
    assert_eq!(after(lost), ["lost-write", "send-skip"]);
}

#[test]
fn what_newer_records_of_its_key_replaced_is_gone() {
    let compacted = |keys: [usize; 4], left: &[usize], read_by_one: &[usize]| {
        let mut history = clean();
        let place: Place = ("compacted0".into(), 0);
        for sent in &mut history.sends {
            sent.topic = Arc::clone(&place.0);
        }
        let value = |id: usize| Value {
            topic: place.0.to_string(),
            ..read(id)
        };
        history.keys = keys.into_iter().enumerate().collect();
        let records = |ids: &[usize]| -> Vec<(i64, Value)> {
            ids.iter().map(|id| (*id as i64, value(*id))).collect()
        };
        history.log = [(place.clone(), records(left))].into();
        let read = records(read_by_one).into_iter();
        let read = read.map(|(offset, value)| Seen::Record(place.clone(), offset, value));
        let begin = Seen::Begin(place.clone(), Origin::Beginning);
        history.seen = vec![[begin, Seen::Polled].into_iter().chain(read).collect()];
        names(&history)
    };
    assert_eq!(compacted([1, 1, 2, 1], &[2, 3], &[2, 3]), [""; 0]);
    assert_eq!(
        compacted([1, 1, 2, 1], &[0, 1, 3], &[0, 1, 3]),
        ["lost-write", "send-skip", "int-poll-skip"],
        "nothing replaced the third"
    );
    assert_eq!(compacted([1, 1, 1, 1], &[0, 1, 2], &[0, 1, 2]), ["unseen"]);
    // The leader that was read had compacted its log, the last one not yet.
    assert_eq!(compacted([1, 1, 2, 1], &[0, 1, 2, 3], &[2, 3]), [""; 0]);
    assert_eq!(
        compacted([1, 1, 2, 1], &[0, 1, 2, 3], &[0, 3]),
        ["int-poll-skip"],
        "nothing replaced the third"
    );
}

#[test]
fn an_idempotent_producer_writes_once() {
    let twice = |promise: fn(&mut Promise)| {
        after(|history| {
            log(history).push((4, read(3)));
            promise(&mut history.promises[0]);
        })
    };
    assert_eq!(twice(|_| {}), ["duplicate"]);
    assert_eq!(twice(|promise| promise.idempotent = false), [""; 0]);
    let unretried = |promise: &mut Promise| (promise.idempotent, promise.retried) = (false, false);
    assert_eq!(twice(unretried), ["duplicate"]);
}

#[test]
fn an_offset_is_one_record_for_everybody() {
    let told = after(|history| fate(history, 3, Fate::Written(Some(7))));
    assert_eq!(told, ["inconsistent-offsets"]);
    // Of acks=1, sent again: the copy that was acknowledged may have been lost with its leader.
    let copied = |leaders_lost: bool, retried: bool| {
        after(|history| {
            fate(history, 3, Fate::Written(Some(7)));
            history.leaders_lost = leaders_lost;
            let promise = &mut history.promises[0];
            (promise.acks, promise.idempotent, promise.retried) = (1, false, retried);
        })
    };
    assert_eq!(copied(true, true), [""; 0]);
    assert_eq!(copied(false, true), ["inconsistent-offsets"]);
    assert_eq!(copied(true, false), ["inconsistent-offsets"]);
    let among_readers = after(|history| {
        history.seen.push(vec![
            Seen::Begin(place(), Origin::Offset(2)),
            Seen::Polled,
            record(2, 1),
        ]);
    });
    assert_eq!(among_readers, ["inconsistent-offsets"]);
}

#[test]
fn acknowledged_offsets_grow_in_the_order_of_sends() {
    let swapped = |one: usize, other: usize| {
        after(|history| {
            let fates = history.sends[one].fates.clone();
            history.sends[one].fates = std::mem::replace(&mut history.sends[other].fates, fates);
            let records = log(history);
            (records[one].1, records[other].1) = (records[other].1.clone(), records[one].1.clone());
            history.seen.clear();
        })
    };
    assert_eq!(swapped(1, 2), ["nonmonotonic-send"]);
    assert_eq!(swapped(0, 1), ["int-nonmonotonic-send"]);
    let gap = after(|history| {
        log(history).push((5, read(3)));
        history.promises[0].idempotent = false;
        history.seen.clear();
    });
    assert_eq!(gap, ["send-skip"]);
}

#[test]
fn what_failed_is_not_there_and_what_is_unknown_may_be() {
    let failed = after(|history| fate(history, 3, Fate::NotWritten("refused".to_owned())));
    assert_eq!(failed, ["aborted-read"]);
    let unknown = after(|history| fate(history, 3, Fate::Unknown("late".to_owned())));
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn a_record_has_one_fate_in_time() {
    let unresolved = after(|history| history.sends[3].fates.clear());
    assert_eq!(unresolved, ["unresolved"]);
    let twice = after(|history| {
        let again = history.sends[3].fates[0].clone();
        history.sends[3].fates.push(again);
    });
    assert_eq!(twice, ["resolved-twice"]);
    let late = after(|history| history.sends[3].fates[0].0 = Duration::from_secs(13));
    assert_eq!(late, ["resolved-late"]);
}

#[test]
fn a_record_is_where_it_says_with_what_it_says() {
    let corrupt = after(|history| log(history)[3].1.sound = false);
    assert!(corrupt.contains(&"corrupt"), "{corrupt:?}");
    let phantom = after(|history| log(history).push((4, read(9))));
    assert_eq!(phantom, ["phantom"]);
    let misplaced = after(|history| {
        let other: Place = (Arc::from("t"), 1);
        history.log.insert(other, vec![(0, read(3))]);
    });
    assert_eq!(misplaced, ["misplaced"]);
}

#[test]
fn a_consumer_neither_skips_nor_steps_back() {
    let seen = |events: &[Seen]| {
        let mut all = vec![Seen::Begin(place(), Origin::Beginning), Seen::Polled];
        all.extend_from_slice(events);
        after(|history| history.seen = vec![all])
    };
    assert_eq!(seen(&[record(1, 1)]), ["poll-skip"]);
    assert_eq!(seen(&[record(0, 0), record(2, 2)]), ["int-poll-skip"]);
    assert_eq!(
        seen(&[record(0, 0), Seen::Polled, record(2, 2)]),
        ["poll-skip"]
    );
    assert_eq!(
        seen(&[record(0, 0), record(0, 0)]),
        ["int-nonmonotonic-poll"]
    );
    let again = [record(0, 0), record(1, 1), Seen::Polled, record(1, 1)];
    assert_eq!(seen(&again), ["nonmonotonic-poll"]);
    let sought = [
        record(0, 0),
        Seen::Begin(place(), Origin::Offset(3)),
        record(3, 3),
    ];
    assert_eq!(seen(&sought), [""; 0]);
    let paused = [record(0, 0), Seen::Paused(place(), true), record(1, 1)];
    assert_eq!(seen(&paused), ["paused-poll"]);
    let left = [record(0, 0), Seen::Left(place()), record(1, 1)];
    assert_eq!(seen(&left), ["unassigned-poll"]);
    let reset = [record(0, 0), Seen::Reset(place(), 1, 3), record(3, 3)];
    assert!(seen(&reset).contains(&"external-reset"));
    let beyond = [
        Seen::Begin(place(), Origin::Offset(99)),
        Seen::Reset(place(), 99, 0),
        record(0, 0),
    ];
    assert_eq!(seen(&beyond), [""; 0]);
}

#[test]
fn topics_that_were_deleted_only_say_where_their_records_are() {
    let mortal = |change: fn(&mut History)| {
        after(|history| {
            history.mortal.push("t".into());
            change(history);
        })
    };
    assert_eq!(mortal(|history| history.log.clear()), [""; 0]);
    assert_eq!(
        mortal(|history| log(history)[0].1.sound = false),
        ["corrupt"]
    );
}

const ID: [u8; 16] = [1; 16];

fn called(act: Act, before: Before, told: Told, cluster: Option<i32>) -> Called {
    let ended = Ended {
        at: Duration::from_secs(2),
        told,
        cluster: cluster.map(|count| (ID, count)),
    };
    Called {
        act,
        before,
        begun: Duration::from_secs(1),
        due: Duration::from_secs(3),
        ended: Some(ended),
    }
}

/// What is found of one call.
fn of_call(act: Act, before: Before, told: Told, cluster: Option<i32>) -> Vec<&'static str> {
    after(|history| {
        history.nodes = 3;
        let name: Arc<str> = "own".into();
        if let Some(count) = cluster {
            history.topics.insert(name, (ID, count));
        }
        history.calls = vec![called(act, before, told, cluster)];
    })
}

fn create() -> Act {
    Act::Create("own".into(), 2)
}

fn delete() -> Act {
    Act::Delete("own".into())
}

fn refused(code: ErrorCode) -> Told {
    Told::Refused(code, code.name().to_owned())
}

#[test]
fn what_a_caller_is_told_of_a_change_is_so() {
    use Before::{Absent, Present, Unsure};
    let exists = ErrorCode::TOPIC_ALREADY_EXISTS;
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let policy = ErrorCode::POLICY_VIOLATION;
    assert_eq!(of_call(create(), Absent, Told::Done, Some(2)), [""; 0]);
    assert!(of_call(create(), Absent, Told::Done, None).contains(&"untrue-success"));
    assert!(of_call(create(), Absent, Told::Done, Some(3)).contains(&"untrue-success"));
    assert_eq!(of_call(create(), Absent, refused(policy), None), [""; 0]);
    assert_eq!(
        of_call(create(), Absent, refused(policy), Some(2)),
        ["untrue-failure"]
    );
    assert_eq!(
        of_call(create(), Absent, refused(exists), Some(2)),
        ["own-success-refused"]
    );
    assert_eq!(
        of_call(create(), Present(2), refused(exists), Some(2)),
        [""; 0]
    );
    assert_eq!(
        of_call(create(), Absent, Told::Unknown(String::new()), Some(2)),
        [""; 0]
    );
    assert_eq!(of_call(delete(), Present(2), Told::Done, None), [""; 0]);
    assert_eq!(
        of_call(delete(), Present(2), Told::Done, Some(2)),
        ["untrue-success"]
    );
    assert_eq!(
        of_call(delete(), Present(2), refused(policy), None),
        ["lost-topic", "untrue-failure"]
    );
    assert_eq!(
        of_call(delete(), Present(2), refused(unknown), None),
        ["lost-topic", "own-success-refused"]
    );
    assert_eq!(of_call(delete(), Unsure, refused(unknown), None), [""; 0]);
}

#[test]
fn a_topic_is_made_once_and_stays() {
    let made = |change: fn(&mut History)| {
        after(|history| {
            history.calls = vec![called(create(), Before::Absent, Told::Done, Some(2))];
            history.topics.insert("own".into(), (ID, 2));
            change(history);
        })
    };
    assert_eq!(made(|_| {}), [""; 0]);
    assert_eq!(made(|history| history.topics.clear()), ["lost-topic"]);
    let other = |history: &mut History| {
        history.topics.insert("own".into(), ([2; 16], 2));
    };
    assert_eq!(made(other), ["made-twice"]);
    let grown = |history: &mut History| {
        history.topics.insert("own".into(), (ID, 3));
    };
    assert_eq!(made(grown), ["wrong-topic"]);
    assert_eq!(
        made(|history| history.calls[0].ended = None),
        ["call-unresolved"]
    );
    let late = |history: &mut History| {
        if let Some(ended) = &mut history.calls[0].ended {
            ended.at = Duration::from_secs(6);
        }
    };
    assert_eq!(made(late), ["call-late"]);
}

#[test]
fn an_answer_is_what_was_so() {
    let describe = || Act::Describe("own".into());
    let unknown = || refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let of = |act: Act, before: Before, told: Told| of_call(act, before, told, None);
    assert_eq!(of(describe(), Before::Present(2), Told::Topic(2)), [""; 0]);
    for (before, told) in [
        (Before::Present(2), Told::Topic(1)),
        (Before::Present(2), unknown()),
        (Before::Absent, Told::Topic(2)),
    ] {
        assert_eq!(of(describe(), before, told), ["wrong-answer"]);
    }
    assert_eq!(of(describe(), Before::Absent, unknown()), [""; 0]);
    let deleted_meanwhile = after(|history| {
        let describe = called(describe(), Before::Present(2), unknown(), None);
        let mut delete = called(delete(), Before::Present(2), Told::Done, None);
        history.calls = vec![describe.clone(), delete.clone()];
        assert_eq!(check(history), []);
        delete.begun = describe.due;
        history.calls = vec![describe, delete];
    });
    assert_eq!(deleted_meanwhile, ["wrong-answer"]);
    let offset = |time, offset| {
        of(
            Act::Offsets(place(), time),
            Before::Unsure,
            Told::Offset(offset),
        )
    };
    assert_eq!(offset(EARLIEST, 0), [""; 0]);
    assert_eq!(offset(EARLIEST, 1), ["wrong-answer"]);
    // All four were acknowledged by then.
    assert_eq!(offset(LATEST, 4), [""; 0]);
    assert_eq!(offset(LATEST, 3), ["wrong-answer"]);
    assert_eq!(offset(LATEST, 5), ["wrong-answer"]);
    let nodes = |nodes: &[i32]| of(Act::Cluster, Before::Unsure, Told::Nodes(nodes.to_vec()));
    assert_eq!(nodes(&[1, 2, 3]), [""; 0]);
    assert_eq!(nodes(&[1, 4]), ["wrong-answer"]);
    let listed = Told::Topics(vec!["own-9-9".to_owned()]);
    assert_eq!(of(Act::List, Before::Unsure, listed), ["wrong-answer"]);
}

/// Two producers of one transactional id. The first commits records 0 and 1 with offset 7, and aborts record 2; the second, which
/// took over at 5 s, commits record 3 with offset 9. Both partitions of the clean history's topic are read by one consumer that
/// sees what is committed.
fn transactional() -> History {
    let mut history = clean();
    let second = Duration::from_secs(1);
    let promise = history.promises[0];
    history.promises.push(promise);
    let incarnation = |producer: usize, at: u32| Incarnation {
        id: 0,
        producer,
        asked: Some(second * at),
        initialised: Some(second * at),
    };
    history.incarnations = vec![incarnation(0, 0), incarnation(1, 5)];
    let transaction = |incarnation, at: u32, records: &[usize], offset: Option<i64>| Transaction {
        incarnation,
        begun: second * at,
        records: records.iter().map(|id| (second * at, *id)).collect(),
        offsets: offset.map(|offset| (place(), offset)).into_iter().collect(),
        commit_asked: offset.map(|_| second * (at + 1)),
        commit_asked_last: offset.map(|_| second * (at + 1)),
        verdict: Some(match offset {
            Some(_) => Verdict::Committed,
            None => Verdict::NotCommitted,
        }),
        settled: None,
    };
    history.transactions = vec![
        transaction(0, 0, &[0, 1], Some(7)),
        transaction(0, 3, &[2], None),
        transaction(1, 6, &[3], Some(9)),
    ];
    for (id, (number, offset)) in [(0, 0), (0, 1), (1, 3), (2, 5)].into_iter().enumerate() {
        history.sends[id].transaction = Some(number);
        history.sends[id].producer = usize::from(id == 3);
        history.sends[id].placed = Some((0, number as u64));
        history.sends[id].fates[0].1 = Fate::Written(Some(offset));
    }
    history.log = [(
        place(),
        vec![(0, read(0)), (1, read(1)), (3, read(2)), (5, read(3))],
    )]
    .into();
    history.markers = [(place(), [2, 4, 6].into())].into();
    history.committed = [(place(), vec![(0, read(0)), (1, read(1)), (5, read(3))])].into();
    history.isolated = vec![0];
    history.seen = vec![vec![
        Seen::Begin(place(), Origin::Beginning),
        Seen::Polled,
        record(0, 0),
        record(1, 1),
        Seen::Polled,
        record(5, 3),
    ]];
    let read_at = |at: u32| second * at;
    history.first_read = [(0, read_at(2)), (1, read_at(2)), (3, read_at(8))].into();
    history.group_offsets = [((0, place()), 9)].into();
    history
}

/// What is found after a change of the transactional history.
fn of_transactions(change: impl FnOnce(&mut History)) -> Vec<&'static str> {
    let mut history = transactional();
    change(&mut history);
    let mut names = names(&history);
    names.dedup();
    names
}

fn hide(history: &mut History, ids: &[usize]) {
    let committed = history.committed.entry(place()).or_default();
    committed.retain(|(_, value)| !ids.contains(&value.id));
    history.seen.clear();
    history.isolated.clear();
    history.first_read.retain(|id, _| !ids.contains(id));
}

#[test]
fn a_transaction_is_committed_as_a_whole_or_not_at_all() {
    assert_eq!(of_transactions(|_| {}), [""; 0]);
    assert_eq!(
        of_transactions(|history| hide(history, &[0, 1])),
        ["lost-commit"]
    );
    assert_eq!(
        of_transactions(|history| hide(history, &[1])),
        ["torn-commit"]
    );
    let unknown = |hidden: &'static [usize]| {
        of_transactions(|history| {
            history.transactions[0].verdict = Some(Verdict::Unknown);
            hide(history, hidden);
        })
    };
    assert_eq!(unknown(&[]), [""; 0]);
    assert_eq!(unknown(&[0, 1]), [""; 0]);
    assert_eq!(unknown(&[1]), ["torn-commit"]);
    let incomplete = of_transactions(|history| {
        history.sends[1].fates[0].1 = Fate::Unknown("late".to_owned());
    });
    assert_eq!(incomplete, ["incomplete-commit"]);
    let settled = |committed: bool| {
        of_transactions(|history| {
            history.transactions[0].verdict = Some(Verdict::Unknown);
            history.transactions[0].settled = Some(committed);
        })
    };
    assert_eq!(settled(true), [""; 0]);
    assert_eq!(settled(false), ["untrue-verdict"]);
}

#[test]
fn nobody_sees_what_is_not_committed() {
    let shown = of_transactions(|history| {
        let committed = history.committed.entry(place()).or_default();
        committed.insert(2, (3, read(2)));
        history.seen.clear();
    });
    assert_eq!(shown, ["aborted-read"]);
    let never_wanted = of_transactions(|history| {
        let committed = history.committed.entry(place()).or_default();
        committed.insert(2, (3, read(2)));
        history.transactions[1].verdict = None;
        history.seen.clear();
    });
    assert_eq!(never_wanted, ["aborted-read"]);
    let got = of_transactions(|history| history.seen[0].insert(5, record(3, 2)));
    assert_eq!(got, ["aborted-read"]);
    let early = of_transactions(|history| {
        history.first_read.insert(3, Duration::from_secs(6));
    });
    assert_eq!(early, ["dirty-read"]);
}

#[test]
fn a_reader_of_what_is_committed_leaves_out_nothing_else() {
    let skipped = of_transactions(|history| {
        history.seen[0].remove(3);
    });
    assert_eq!(skipped, ["poll-skip"]);
    let reads_all = of_transactions(|history| history.isolated.clear());
    assert_eq!(reads_all, ["poll-skip"]);
    let no_marker = of_transactions(|history| history.markers.clear());
    assert_eq!(no_marker, ["send-skip", "poll-skip"]);
    let hidden = of_transactions(|history| {
        history.sends[1].transaction = None;
        history.transactions[0].records.pop();
        hide(history, &[1]);
    });
    assert_eq!(hidden, ["hidden-record"]);
    let elsewhere = of_transactions(|history| {
        let committed = history.committed.entry(place()).or_default();
        committed[2].0 = 3;
        history.seen.clear();
    });
    assert_eq!(elsewhere, ["inconsistent-offsets"]);
}

#[test]
fn whoever_was_succeeded_does_nothing_more() {
    let second = Duration::from_secs(1);
    let wrote = of_transactions(|history| history.transactions[1].records[0].0 = second * 6);
    assert_eq!(wrote, ["zombie-write"]);
    let committed = of_transactions(|history| {
        history.transactions[0].commit_asked_last = Some(second * 6);
    });
    assert_eq!(committed, ["zombie-commit"]);
    let refused = of_transactions(|history| {
        history.transactions[1].commit_asked = Some(second * 6);
        history.transactions[1].commit_asked_last = Some(second * 6);
    });
    assert_eq!(refused, [""; 0]);
    let late = of_transactions(|history| {
        (log(history)[2].1, log(history)[3].1) = (read(3), read(2));
        history.sends[2].fates[0].1 = Fate::Written(Some(5));
        history.sends[3].fates[0].1 = Fate::Written(Some(3));
        history.committed.entry(place()).or_default()[2].0 = 3;
        history.seen.clear();
    });
    assert_eq!(late, ["late-write"]);
}

#[test]
fn offsets_are_those_of_the_last_committed_transaction() {
    let found = |offset: i64| {
        of_transactions(|history| {
            history.group_offsets.insert((0, place()), offset);
        })
    };
    assert_eq!(found(7), ["lost-offsets"]);
    assert_eq!(found(-1), ["lost-offsets"]);
    let aborted = of_transactions(|history| {
        history.transactions[1].offsets = vec![(place(), 8)];
        history.group_offsets.insert((0, place()), 8);
    });
    assert_eq!(aborted, ["aborted-offsets"]);
    let unknown = |offset: i64| {
        of_transactions(|history| {
            let last = &mut history.transactions[2];
            last.verdict = Some(Verdict::Unknown);
            last.records.clear();
            history.sends[3].transaction = None;
            history.group_offsets.insert((0, place()), offset);
        })
    };
    assert_eq!(unknown(9), [""; 0]);
    assert_eq!(unknown(7), [""; 0]);
    assert_eq!(unknown(-1), ["lost-offsets"]);
}

#[test]
fn a_value_tells_any_change_of_it() {
    let bytes = value(7, "t", 20);
    assert_eq!(parse(&bytes), Some(read(7)));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(
            parse(&changed).is_none_or(|value| !value.sound),
            "byte {at}"
        );
    }
    assert_eq!(parse(b""), None);
}

/// A group of two. The first, whose polls commit, reads records 0 and 1 in generation 1, commits 2
/// and revokes the partition; the second reads the rest in generation 2, commits 4 at its
/// application's request, and closes.
fn shared() -> Vec<(usize, Joint)> {
    let all = || vec![place()];
    let mut steps = vec![
        (0, Joint::Assigned(1, all())),
        (0, Joint::Polled),
        (0, Joint::Given(place(), 0)),
        (0, Joint::Given(place(), 1)),
        (0, Joint::Polled),
    ];
    let sent = steps.len();
    steps.extend([
        (0, Joint::Sent(sent, 1, vec![(place(), 2)])),
        (0, Joint::Taken(sent)),
        (0, Joint::Answered(sent, Some(true))),
        (0, Joint::Revoked(1, all())),
        (0, Joint::GaveUp),
        (0, Joint::Assigned(2, vec![])),
        (1, Joint::Assigned(2, all())),
        (1, Joint::Polled),
        (1, Joint::Given(place(), 2)),
        (1, Joint::Given(place(), 3)),
    ]);
    let asked = steps.len();
    steps.extend([
        (1, Joint::Asked(asked, vec![(place(), 4)])),
        (1, Joint::Sent(asked + 1, 2, vec![(place(), 4)])),
        (1, Joint::Taken(asked + 1)),
        (1, Joint::Answered(asked + 1, Some(true))),
        (1, Joint::Committed(asked)),
        (1, Joint::Ended),
    ]);
    steps
}

/// What is found after a change of the clean group's history.
fn of_groups(change: impl FnOnce(&mut Vec<(usize, Joint)>, &mut History)) -> Vec<&'static str> {
    let mut steps = shared();
    after(|history| {
        let process = |commits_itself| Process {
            group: 0,
            instance: None,
            cooperates: true,
            by_epoch: false,
            commits_itself,
        };
        history.processes = vec![process(true), process(false)];
        history.committed_after.insert((0, place()), 4);
        change(&mut steps, history);
        let steps = steps.into_iter().enumerate();
        let timed = steps.map(|(at, (who, what))| (Duration::from_millis(at as u64), who, what));
        history.joint = timed.collect();
    })
}

fn at(steps: &[(usize, Joint)], wanted: &Joint) -> usize {
    let found = steps.iter().position(|(_, joint)| joint == wanted);
    found.unwrap_or(usize::MAX)
}

#[test]
fn a_partition_of_a_group_has_one_owner_who_goes_on_where_the_last_one_was() {
    assert_eq!(of_groups(|_, _| {}), [""; 0]);
    let two = of_groups(|steps, _| {
        let (_, assigned) = &mut steps[11];
        *assigned = Joint::Assigned(1, vec![place()]);
    });
    assert!(two.contains(&"two-owners"), "{two:?}");
    // The second is assigned it before the first, which is of the same generation, gave it up.
    let too_soon = of_groups(|steps, _| {
        let early = steps.remove(11);
        steps.insert(8, early);
        steps[9].1 = Joint::Revoked(2, vec![place()]);
    });
    assert_eq!(too_soon, ["two-owners"]);
    // The first member was expelled, before or after that. It is notified later, and joins the same
    // generation.
    for expelled_at in [8, 9] {
        let expelled = of_groups(|steps, _| {
            let early = steps.remove(11);
            steps.insert(8, early);
            steps[9].1 = Joint::Lost(vec![place()]);
            steps.insert(expelled_at, (0, Joint::Expelled));
        });
        assert_eq!(expelled, [""; 0]);
    }
    let revoked = of_groups(|steps, _| {
        let given = at(steps, &Joint::GaveUp);
        steps.insert(given, (0, Joint::Given(place(), 2)));
    });
    assert_eq!(revoked, ["revoked-poll"]);
    let skipped = of_groups(|steps, _| {
        let first = at(steps, &Joint::Given(place(), 2));
        steps.remove(first);
        steps.retain(|(_, joint)| !matches!(joint, Joint::Asked(..) | Joint::Committed(_)));
    });
    assert_eq!(skipped, ["ahead-commit", "never-given", "wrong-start"]);
    let repeated = of_groups(|steps, _| {
        let first = at(steps, &Joint::Given(place(), 2));
        steps.insert(first, (1, Joint::Given(place(), 0)));
    });
    assert!(repeated.contains(&"wrong-start"), "{repeated:?}");
    let reset = of_groups(|steps, _| {
        let first = at(steps, &Joint::Given(place(), 2));
        steps[first] = (1, Joint::Reset(place(), 2, 0));
        steps[first + 1] = (1, Joint::Given(place(), 0));
    });
    assert!(reset.contains(&"external-reset"), "{reset:?}");
    let unread = of_groups(|steps, _| {
        steps.retain(|(_, joint)| *joint != Joint::Given(place(), 3));
    });
    assert!(unread.contains(&"never-given"), "{unread:?}");
    // The member revoked in generation 1 what it gets back in generation 2: it need not have
    // stopped for that.
    let needless = of_groups(|steps, _| {
        steps[10].1 = Joint::Assigned(2, vec![place()]);
        steps.truncate(11);
    });
    assert!(needless.contains(&"needless-stop"), "{needless:?}");
}

#[test]
fn a_group_commits_what_was_given_and_asked_for() {
    let ahead = of_groups(|steps, _| {
        let sent = at(steps, &Joint::Taken(5)) - 1;
        let poll = steps.remove(sent - 1);
        steps.insert(sent, poll);
    });
    assert!(ahead.contains(&"ahead-commit"), "{ahead:?}");
    // A commit of a position that the application sought may be sent after the next seek.
    let again = of_groups(|steps, _| {
        let sought = |to| (0, Joint::Sought(place(), to));
        let sent = (0, Joint::Sent(99, 1, vec![(place(), 50)]));
        steps.splice(1..1, [sought(50), sought(0), sent]);
    });
    assert_eq!(again, [""; 0]);
    let refused = of_groups(|steps, history| {
        let answered = steps.len() - 3;
        if let (_, Joint::Answered(_, done)) = &mut steps[answered] {
            *done = Some(false);
        }
        history.committed_after.insert((0, place()), 2);
    });
    assert_eq!(refused, ["untrue-commit"]);
    let lost = |offset: i64| {
        of_groups(|_, history| {
            history.committed_after.insert((0, place()), offset);
        })
    };
    assert_eq!(lost(2), ["lost-commit"]);
    assert_eq!(lost(-1), ["lost-commit"]);
    let unknown = of_groups(|steps, history| {
        steps.retain(|(who, joint)| {
            let is_late = matches!(joint, Joint::Answered(..) | Joint::Committed(_));
            *who == 0 || !is_late
        });
        history.committed_after.insert((0, place()), 2);
    });
    assert_eq!(unknown, [""; 0]);
    let late = of_groups(|steps, history| {
        steps.retain(|(who, joint)| *who == 0 || !matches!(joint, Joint::Asked(..)));
        let first = at(steps, &Joint::Given(place(), 3)) + 1;
        steps.truncate(first);
        history.steady = Some(Duration::from_millis(steps.len() as u64 - 1));
        steps.extend([
            (1, Joint::Revoked(1, vec![place()])),
            (1, Joint::GaveUp),
            (1, Joint::Ended),
        ]);
        history.processes[1].commits_itself = true;
        history.committed_after.insert((0, place()), 2);
    });
    assert_eq!(late, ["late-commit"]);
    let stale = of_groups(|steps, _| {
        let last = steps.len();
        steps.extend([
            (0, Joint::Sent(last, 1, vec![(place(), 2)])),
            (0, Joint::Taken(last)),
            (0, Joint::Answered(last, Some(true))),
        ]);
    });
    assert!(stale.contains(&"stale-commit"), "{stale:?}");
}

#[test]
fn a_group_stays_as_it_is_in_good_weather() {
    let restless = of_groups(|steps, history| {
        history.steady = Some(Duration::ZERO);
        steps.push((0, Joint::Expelled));
    });
    assert!(restless.contains(&"restless-group"), "{restless:?}");
    let torn = of_groups(|steps, history| {
        history.steady = Some(Duration::from_secs(1));
        steps[10].1 = Joint::Subscribed;
        steps.pop();
    });
    assert_eq!(torn, ["torn-group"]);
}

/// As [`of_groups`], where each member has an epoch of its own: the second is given the partition when the first has let it go, and
/// comes to epoch 2 with that.
fn of_epochs(change: impl FnOnce(&mut Vec<(usize, Joint)>, &mut History)) -> Vec<&'static str> {
    of_groups(|steps, history| {
        for process in &mut history.processes {
            process.by_epoch = true;
        }
        steps.insert(0, (0, Joint::InEpoch(1)));
        let given_up = at(steps, &Joint::GaveUp) + 1;
        steps.insert(given_up, (0, Joint::InEpoch(2)));
        steps.insert(given_up + 1, (1, Joint::InEpoch(2)));
        change(steps, history);
    })
}

#[test]
fn who_comes_to_an_epoch_has_let_go_what_others_get_in_it() {
    assert_eq!(of_epochs(|_, _| {}), [""; 0]);
    // The second member receives the partition before its former owner has returned from its
    // listener, and the former owner comes to the epoch with it.
    let given = Joint::Assigned(2, vec![place()]);
    let too_soon = |epoch| {
        let given = given.clone();
        move |steps: &mut Vec<(usize, Joint)>, _: &mut History| {
            let given_up = at(steps, &Joint::GaveUp);
            steps.insert(given_up, (0, Joint::InEpoch(epoch)));
            steps.insert(given_up, (1, given));
        }
    };
    assert!(of_epochs(too_soon(2)).contains(&"two-owners"));
    assert!(of_epochs(too_soon(3)).contains(&"two-owners"));
    // The group has gone on without it meanwhile, and it has not heard so.
    assert_eq!(of_epochs(too_soon(1)), [""; 0]);
    let expelled = of_epochs(|steps, _| {
        let given_up = at(steps, &Joint::GaveUp);
        steps.insert(given_up, (0, Joint::Expelled));
        steps.insert(given_up, (1, given.clone()));
    });
    assert_eq!(expelled, [""; 0]);
}

#[test]
fn who_has_let_go_commits_nothing_any_more_and_all_come_to_one_epoch() {
    let late = |done| {
        of_epochs(|steps, _| {
            let last = steps.len();
            steps.extend([
                (0, Joint::Sent(last, 1, vec![(place(), 2)])),
                (0, Joint::Taken(last)),
                (0, Joint::Answered(last, Some(done))),
            ]);
        })
    };
    assert!(late(true).contains(&"stale-commit"));
    assert_eq!(late(false), [""; 0]);
    let torn = of_epochs(|steps, _| {
        let end = steps.len() - 1;
        steps.insert(end, (0, Joint::InEpoch(3)));
        steps.insert(end + 1, (0, Joint::Stayed));
        steps.insert(end + 2, (1, Joint::Stayed));
    });
    assert_eq!(torn, ["torn-group"]);
}

/// Of the four records of the clean history the last two are lost in an unclean election, after the consumer had read them; three others
/// stand there now. It is `told` something, and reads `later`.
fn truncated(told: &[Seen], later: &[(i64, usize)]) -> History {
    let mut history = clean();
    history.lossy.insert(place(), 4);
    log(&mut history).truncate(2);
    for (offset, id) in [(2, 4), (3, 5), (4, 6)] {
        let mut sent = history.sends[0].clone();
        sent.placed = Some((0, id as u64));
        sent.fates = vec![(Duration::from_secs(2), Fate::Written(Some(offset)))];
        history.sends.push(sent);
        log(&mut history).push((offset, read(id)));
    }
    let seen = &mut history.seen[0];
    seen.push(Seen::Elected(place()));
    seen.extend(told.iter().cloned());
    seen.push(Seen::Polled);
    seen.extend(later.iter().map(|(offset, id)| record(*offset, *id)));
    history
}

const REWRITTEN: [(i64, usize); 3] = [(2, 4), (3, 5), (4, 6)];

#[test]
fn whoever_read_what_is_lost_is_told_both_offsets() {
    let told = |position, parting| [Seen::Truncated(place(), position, parting)];
    assert_eq!(names(&truncated(&told(4, Some(2)), &REWRITTEN)), [""; 0]);

    let silent = ["silent-truncation"];
    assert_eq!(names(&truncated(&[], &[])), silent);
    // The log has grown past the position, where reading goes on as if nothing had been.
    assert_eq!(names(&truncated(&[], &REWRITTEN[2..])), silent);
    let too_late = truncated(&told(4, Some(3)), &REWRITTEN[1..]);
    assert_eq!(names(&too_late), silent);

    let wrong = truncated(&told(5, Some(2)), &REWRITTEN);
    assert_eq!(names(&wrong), ["wrong-truncation"]);
    let no_way_back = truncated(&told(4, Some(4)), &REWRITTEN[2..]);
    assert_eq!(names(&no_way_back), [silent[0], "wrong-truncation"]);

    let from_there = Seen::Begin(place(), Origin::Offset(0));
    let reset = [Seen::Reset(place(), 4, 2)];
    assert_eq!(names(&truncated(&reset, &REWRITTEN)), ["untold-truncation"]);
    let anew: Vec<_> = [(0, 0), (1, 1)].into_iter().chain(REWRITTEN).collect();
    let denied = [Seen::Denied(place()), from_there];
    assert_eq!(names(&truncated(&denied, &anew)), ["untold-truncation"]);
    // No broker knows where the logs part, and the consumer reads on where the reset policy points.
    let unknown = [told(4, None), reset].concat();
    assert_eq!(names(&truncated(&unknown, &REWRITTEN)), [""; 0]);
}

#[test]
fn what_was_told_of_a_truncation_holds_and_nothing_behind_it_is_passed_over() {
    let told = [Seen::Truncated(place(), 4, Some(2))];
    let skips = truncated(&told, &REWRITTEN[1..]);
    assert_eq!(names(&skips), ["poll-skip"]);
    let mut needless = truncated(&told, &REWRITTEN);
    needless.seen[0].retain(|seen| *seen != Seen::Elected(place()));
    assert_eq!(names(&needless), ["needless-truncation"]);
}

#[test]
fn only_what_was_sent_before_an_unclean_election_may_be_lost() {
    let told = [Seen::Truncated(place(), 4, Some(2))];
    let mut later = truncated(&told, &[]);
    log(&mut later).pop();
    assert_eq!(names(&later), ["unseen"]);
    later.lossy.insert(place(), 7);
    assert_eq!(names(&later), [""; 0]);
    let mut elsewhere = truncated(&told, &REWRITTEN);
    elsewhere.lossy = [(("u".into(), 0), 4)].into();
    assert!(names(&elsewhere).contains(&"lost-write"));
}
