//! The checker of share groups by itself: a clean history passes, and each anomaly in a history made by hand is found under its name.

use std::time::Duration;

use ottla_engine::ErrorCode;
use ottla_engine::share_consumer::AcknowledgeType;
use ottla_sim::check::{check, check_hostile};
use ottla_sim::history::{Fate, History, Place, Promise, Sent, Value};
use ottla_sim::shared::{Outcome, Range, Reign, Rules, Session, Shared, Wire};

const LOCK: Duration = Duration::from_secs(3);
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REIGN: Reign = Reign {
    node: 1,
    epoch: 1,
    deaths: 0,
};

fn place() -> Place {
    ("t".into(), 0)
}

fn one(offset: i64) -> Range {
    Range {
        place: place(),
        first: offset,
        last: offset,
    }
}

fn value(id: usize) -> Value {
    Value {
        id,
        topic: "t".to_owned(),
        sound: true,
    }
}

/// Each member has one connection.
fn wire(number: u64) -> Wire {
    Wire { number, node: 1 }
}

fn acquired(of: u64, offset: i64, deliveries: i16) -> Shared {
    Shared::Acquired {
        wire: wire(of),
        reign: Some(REIGN),
        range: one(offset),
        deliveries,
        lock: LOCK,
    }
}

fn given(offset: i64, deliveries: i16) -> Shared {
    let id = usize::try_from(offset).unwrap_or(0);
    Shared::Given(place(), offset, deliveries, value(id))
}

fn took(number: usize, of: u64, offset: i64, kind: i8) -> Shared {
    Shared::Took {
        number,
        wire: wire(of),
        said: vec![(one(offset), kind)],
        session: Session::GoesOn,
    }
}

fn answered(number: usize, code: ErrorCode) -> Shared {
    Shared::Answered {
        number,
        code: ErrorCode::NONE,
        codes: vec![(place(), code)],
    }
}

fn said(offset: i64, kind: AcknowledgeType) -> Shared {
    Shared::Said(one(offset), kind)
}

fn told(offset: i64, kind: AcknowledgeType, outcome: Outcome) -> Shared {
    Shared::Told(one(offset), Some(kind), outcome)
}

/// What happens to the two members of the group: when, to whom, and what.
type Steps = Vec<(u64, usize, Shared)>;

/// A member gets a record and accepts it.
fn accepts(at: u64, member: usize, offset: i64, deliveries: i16) -> Steps {
    let wire = member as u64;
    let number = 100 * member + usize::try_from(offset).unwrap_or(0) + 1000 * deliveries as usize;
    let accept = AcknowledgeType::Accept;
    [
        acquired(wire, offset, deliveries),
        given(offset, deliveries),
        said(offset, accept),
        Shared::Spoke,
        took(number, wire, offset, ACCEPT),
        answered(number, ErrorCode::NONE),
        told(offset, accept, Outcome::Counts),
    ]
    .map(|shared| (at, member, shared))
    .into()
}

/// Two records, one for each of two members.
fn history(steps: Steps) -> History {
    let sent = |id: usize| Sent {
        producer: 0,
        transaction: None,
        topic: "t".into(),
        asked: Some(0),
        placed: Some((0, id as u64)),
        due: Some(Duration::from_secs(10)),
        fates: vec![(Duration::from_secs(1), Fate::Written(Some(id as i64)))],
    };
    History {
        sends: (0..2).map(sent).collect(),
        promises: vec![Promise {
            idempotent: true,
            ordered: true,
            acks: -1,
            retried: true,
            patient: true,
        }],
        log: [(place(), vec![(0, value(0)), (1, value(1))])].into(),
        share_rules: vec![Rules {
            lock: LOCK,
            deliveries: 2,
            locks: 100,
            committed: false,
        }],
        sharers: vec![0, 0],
        shared: steps
            .into_iter()
            .map(|(at, member, shared)| (Duration::from_secs(at), member, shared))
            .collect(),
        ..History::default()
    }
}

/// The names of what is found.
fn names(steps: Steps) -> Vec<&'static str> {
    let found = check(&history(steps)).into_iter();
    let mut names: Vec<_> = found.map(|anomaly| anomaly.name).collect();
    names.dedup();
    names
}

/// What is found when the first record is accepted, and this happens to the second.
fn second(steps: Steps) -> Vec<&'static str> {
    names([accepts(1, 0, 0, 1), steps].concat())
}

#[test]
fn a_clean_history_passes() {
    assert_eq!(second(accepts(1, 1, 1, 1)), [""; 0]);
    // The lock of the first one ended.
    let late = vec![(1, 0, acquired(0, 1, 1)), (1, 0, given(1, 1))];
    assert_eq!(second([late, accepts(4, 1, 1, 2)].concat()), [""; 0]);
    // Its session did.
    let begins = Shared::Took {
        number: 0,
        wire: wire(0),
        said: Vec::new(),
        session: Session::Begins,
    };
    let parted = Shared::Parted(wire(0));
    let gone = vec![(1, 0, begins), (1, 0, acquired(0, 1, 1)), (1, 0, parted)];
    assert_eq!(second([gone, accepts(2, 1, 1, 2)].concat()), [""; 0]);
}

#[test]
fn a_record_has_one_holder() {
    let held = vec![(1, 0, acquired(0, 1, 1)), (1, 0, given(1, 1))];
    assert_eq!(
        second([held, accepts(3, 1, 1, 2)].concat()),
        ["two-holders"]
    );
}

#[test]
fn what_is_accepted_or_rejected_is_not_given_again() {
    let again = [accepts(1, 1, 1, 1), accepts(2, 0, 1, 2)].concat();
    assert_eq!(second(again), ["accepted-again"]);
    let kept = vec![(2, 1, given(1, 1))];
    let again = [vec![(1, 1, acquired(1, 1, 1))], accepts(1, 1, 1, 2), kept].concat();
    assert!(second(again).contains(&"accepted-again"));
}

#[test]
fn deliveries_are_counted_up_to_the_limit() {
    assert_eq!(second(accepts(1, 1, 1, 2)), ["wrong-count"]);
    let twice = [(1, 1), (5, 2)].map(|(at, count)| (at, 0, acquired(0, 1, count)));
    let third = accepts(9, 1, 1, 3);
    assert_eq!(second([twice.to_vec(), third].concat()), ["over-delivered"]);
    // Its client read another count.
    let misread = vec![(1, 1, acquired(1, 1, 1)), (1, 1, given(1, 2))];
    assert!(second(misread).contains(&"wrong-count"));
}

#[test]
fn who_has_no_lock_gives_nothing_out_and_says_nothing() {
    let twice = [accepts(1, 1, 1, 1), vec![(2, 0, given(1, 1))]].concat();
    assert_eq!(second(twice), ["ungranted-poll"]);
    let accept = AcknowledgeType::Accept;
    let foreign = vec![
        (1, 0, acquired(0, 1, 1)),
        (1, 0, given(1, 1)),
        (1, 1, said(1, accept)),
        (1, 1, Shared::Spoke),
        (1, 1, took(7, 1, 1, ACCEPT)),
        (1, 1, answered(7, ErrorCode::NONE)),
        (1, 1, told(1, accept, Outcome::Counts)),
    ];
    assert!(second(foreign).contains(&"foreign-ack"));
}

#[test]
fn each_record_is_given_and_done_with() {
    assert_eq!(second(Vec::new()), ["never-given"]);
    let open = vec![(1, 1, acquired(1, 1, 1)), (1, 1, given(1, 1))];
    assert_eq!(second(open), ["forgotten-record"]);
    // It was delivered as often as it may be.
    let archived = [(1, 1), (5, 2)].map(|(at, count)| (at, 1, acquired(1, 1, count)));
    assert_eq!(second(archived.to_vec()), [""; 0]);
}

#[test]
fn what_is_acquired_in_good_weather_is_given_out() {
    let mut history = history([accepts(1, 0, 0, 1), accepts(9, 1, 1, 1)].concat());
    history.well = Some(Duration::from_secs(2));
    assert!(check(&history).is_empty());
    let at = Duration::from_secs(3);
    history.shared.insert(7, (at, 1, acquired(1, 1, 1)));
    assert!(check(&history).iter().any(|it| it.name == "withheld"));
}

#[test]
fn brokers_are_told_what_was_said() {
    let other = vec![
        (1, 1, acquired(1, 1, 1)),
        (1, 1, given(1, 1)),
        (1, 1, said(1, AcknowledgeType::Accept)),
        (1, 1, Shared::Spoke),
        (1, 1, took(7, 1, 1, RELEASE)),
        (1, 1, answered(7, ErrorCode::NONE)),
        (1, 1, told(1, AcknowledgeType::Accept, Outcome::Fails)),
    ];
    assert!(second(other).contains(&"unsaid-ack"));
}

#[test]
fn what_is_told_of_an_acknowledgement_is_so_and_is_told_once_and_in_time() {
    let accept = AcknowledgeType::Accept;
    let begun = |code| {
        vec![
            (1, 1, acquired(1, 1, 1)),
            (1, 1, given(1, 1)),
            (1, 1, said(1, accept)),
            (1, 1, Shared::Spoke),
            (1, 1, took(7, 1, 1, ACCEPT)),
            (1, 1, answered(7, code)),
        ]
    };
    let counts = || told(1, accept, Outcome::Counts);
    let refused = [
        begun(ErrorCode::INVALID_RECORD_STATE),
        vec![(1, 1, counts())],
    ]
    .concat();
    assert!(second(refused).contains(&"untrue-ack"));
    let late = [begun(ErrorCode::NONE), vec![(40, 1, counts())]].concat();
    assert_eq!(second(late), ["ack-late"]);
    let twice = vec![(1, 1, counts()), (1, 1, counts())];
    assert_eq!(
        second([begun(ErrorCode::NONE), twice].concat()),
        ["ack-told-twice"]
    );
    let never = vec![(2, 1, Shared::Leaves), (2, 1, Shared::Left(true))];
    assert_eq!(
        second([begun(ErrorCode::NONE), never].concat()),
        ["ack-unresolved"]
    );
    // A member that dies receives no results.
    let dies = vec![(2, 1, Shared::Died)];
    assert_eq!(second([begun(ErrorCode::NONE), dies].concat()), [""; 0]);
}

#[test]
fn whatever_brokers_claim_members_are_told_how_what_they_said_ended() {
    let anomalies = |steps: Steps| -> Vec<String> {
        let found = check_hostile(&history(steps));
        let found = found.iter().filter(|it| it.invariant == "R20");
        found.map(|it| it.name.to_owned()).collect()
    };
    let accept = AcknowledgeType::Accept;
    // A broker claims more records than any client has space for.
    let claim = Shared::Acquired {
        wire: wire(0),
        reign: None,
        range: Range {
            place: place(),
            first: 0,
            last: i64::MAX,
        },
        deliveries: 1,
        lock: LOCK,
    };
    let begun = vec![(1, 0, claim), (1, 0, given(0, 1)), (1, 0, said(0, accept))];
    let with = |rest: Shared| anomalies([begun.clone(), vec![(2, 0, rest)]].concat());
    assert_eq!(with(Shared::Spoke), ["ack-unresolved"]);
    assert_eq!(with(Shared::Left(false)), ["ack-unresolved"]);
    assert_eq!(with(told(1, accept, Outcome::Fails)), ["ack-unresolved"]);
    let release = AcknowledgeType::Release;
    assert_eq!(with(told(0, release, Outcome::Counts)), ["ack-unresolved"]);
    assert_eq!(with(told(0, accept, Outcome::Fails)), [""; 0]);
    assert_eq!(with(Shared::Died), [""; 0]);
}
