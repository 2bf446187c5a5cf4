//! The checker by itself: a clean history passes, and each anomaly in a history made by hand is found under its name.

#![allow(clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use ottla_sim::check::check;
use ottla_sim::history::{Fate, History, Origin, Place, Promise, Seen, Sent, Value, parse, value};

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
