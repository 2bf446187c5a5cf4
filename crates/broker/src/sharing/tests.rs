//! Share groups' records on a simulated clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use ottla_protocol::{ErrorCode, Uuid};

use super::states::{KeptBatch, State};
use super::*;
use crate::storage::replica::Watcher;

const LOCK: Duration = Duration::from_secs(30);
const T: Uuid = Uuid([1; 16]);

fn key(group: &str) -> Key {
    Key {
        group: group.to_owned(),
        topic: T,
        partition: 0,
    }
}

fn rules() -> SharingRules {
    SharingRules {
        lock: LOCK,
        most_deliveries: 3,
        most_locks: 100,
        reset: Reset::Earliest,
        committed: false,
        renews: true,
    }
}

/// A leader whose log has batches of ten records.
struct Bench {
    shares: Shares,
    states: Arc<ShareStates>,
    epoch: i32,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let states: Arc<ShareStates> = Arc::default();
        Self {
            shares: Shares::new(2, Arc::clone(&states)),
            states,
            epoch: 0,
            now: Instant::now(),
        }
    }

    /// The leader that comes next.
    fn next_leader(&self) -> Self {
        Self {
            shares: Shares::new(2, Arc::clone(&self.states)),
            states: Arc::clone(&self.states),
            epoch: self.epoch + 1,
            now: self.now,
        }
    }

    fn reading(&mut self) -> Option<Reading> {
        let (epoch, rules) = (self.epoch, rules());
        self.shares.next_offset(&key("g"), epoch, &rules, 0, 0)
    }

    fn next_offset(&mut self) -> Option<i64> {
        self.reading().map(|it| it.from)
    }

    fn claim(&self, member: &str, most: usize, is_exact: bool) -> Claim {
        Claim {
            member: member.into(),
            until: self.now + LOCK,
            most,
            is_exact,
            most_locks: rules().most_locks,
        }
    }

    /// What a member gets of a log of `batches` batches: first, last, deliveries.
    fn acquire(
        &mut self,
        member: &str,
        batches: i64,
        most: usize,
        is_exact: bool,
    ) -> Vec<(i64, i64, i16)> {
        let Some(reading) = self.reading() else {
            return Vec::new();
        };
        let batches: Vec<Batch> = (reading.from / 10..batches)
            .map(|it| batch(it * 10, it * 10 + 9))
            .collect();
        let claim = self.claim(member, most, is_exact);
        let acquired = self.shares.acquire(&key("g"), reading, &batches, &claim);
        acquired
            .iter()
            .map(|it| (it.first, it.last, it.deliveries))
            .collect()
    }

    fn say(
        &mut self,
        member: &str,
        said: &[(i64, i64, &[i8])],
        renews: bool,
    ) -> Result<(), ErrorCode> {
        let said: Vec<Said> = said
            .iter()
            .map(|(first, last, kinds)| Said {
                first: *first,
                last: *last,
                kinds: kinds.to_vec(),
            })
            .collect();
        let until = renews.then(|| self.now + LOCK);
        let acknowledged = self.shares.acknowledge(&key("g"), member, &said, until);
        acknowledged.map_err(|(code, _)| code)
    }

    fn start(&self) -> i64 {
        self.states.get(&key("g")).unwrap().start
    }
}

fn batch(first: i64, last: i64) -> Batch {
    Batch {
        first,
        last,
        is_hidden: false,
    }
}

#[test]
fn a_batch_goes_whole_unless_the_number_of_records_is_a_limit() {
    let mut bench = Bench::new();
    assert_eq!(bench.acquire("a", 3, 4, false), [(0, 9, 1)]);
    assert_eq!(bench.acquire("b", 3, 4, true), [(10, 13, 1)]);
    assert_eq!(bench.acquire("a", 3, 4, true), [(14, 17, 1)]);
    assert_eq!(bench.acquire("b", 3, 11, false), [(18, 29, 1)]);
    assert_eq!(bench.acquire("a", 3, 4, false), []);
    assert_eq!(bench.acquire("a", 4, 0, false), []);
}

#[test]
fn what_is_said_of_records_decides_who_gets_them_next() {
    let mut bench = Bench::new();
    bench.acquire("a", 1, 10, false);
    assert_eq!(
        bench.say("a", &[(0, 2, &[1]), (3, 5, &[2, 3, 0])], false),
        Ok(())
    );
    assert_eq!(bench.start(), 3, "what comes first is done with");
    assert_eq!(bench.acquire("b", 1, 10, false), [(3, 3, 2)]);
    assert_eq!(bench.say("b", &[(3, 3, &[1])], false), Ok(()));
    assert_eq!(bench.start(), 6);
    assert_eq!(
        bench.say("a", &[(0, 3, &[1])], false),
        Ok(()),
        "it is done with, whatever is said"
    );
    assert_eq!(bench.say("a", &[(6, 9, &[1])], false), Ok(()));
    assert_eq!(bench.start(), 10);
    assert_eq!(bench.next_offset(), Some(10));
}

#[test]
fn what_is_wrong_counts_in_no_part() {
    let mut bench = Bench::new();
    bench.acquire("a", 1, 5, true);
    bench.acquire("b", 1, 5, true);
    let invalid = Err(ErrorCode::INVALID_REQUEST);
    let state = Err(ErrorCode::INVALID_RECORD_STATE);
    assert_eq!(bench.say("a", &[(0, 1, &[1]), (5, 5, &[1])], false), state);
    assert_eq!(
        bench.say("a", &[(0, 0, &[1]), (0, 0, &[1])], false),
        state,
        "what is said twice of one record"
    );
    let mut bench = Bench::new();
    bench.acquire("a", 1, 10, false);
    assert_eq!(bench.say("a", &[(7, 7, &[1]), (7, 7, &[1])], false), state);
    assert_eq!(bench.say("a", &[(7, 10, &[1])], false), invalid);
    assert_eq!(bench.say("a", &[(8, 7, &[1])], false), invalid);
    assert_eq!(bench.say("a", &[(7, 9, &[1, 1])], false), invalid);
    assert_eq!(bench.say("a", &[(7, 7, &[9])], false), invalid);
    assert_eq!(
        bench.say("a", &[(7, 7, &[4])], false),
        invalid,
        "locks begin anew only where asked for"
    );
    assert_eq!(bench.say("a", &[(7, 7, &[])], false), invalid);
    assert_eq!(
        bench.say("a", &[(0, 9, &[1])], false),
        Ok(()),
        "all were still acquired"
    );
}

#[test]
fn locks_end_by_themselves_or_begin_anew() {
    let mut bench = Bench::new();
    let begun = bench.now;
    bench.acquire("a", 1, 10, false);
    assert_eq!(bench.shares.next_timeout(), Some(begun + LOCK));
    bench.now += Duration::from_secs(20);
    assert_eq!(bench.say("a", &[(0, 4, &[4])], true), Ok(()));
    assert_eq!(bench.shares.next_timeout(), Some(begun + LOCK));
    bench.shares.handle_timeout(begun + LOCK);
    assert_eq!(bench.acquire("b", 1, 10, false), [(5, 9, 2)]);
    assert_eq!(
        bench.say("a", &[(5, 5, &[1])], false),
        Err(ErrorCode::INVALID_RECORD_STATE)
    );
    assert_eq!(bench.say("a", &[(0, 4, &[1])], false), Ok(()));
    assert_eq!(bench.start(), 5);
}

#[test]
fn after_the_last_delivery_nobody_gets_a_record() {
    let mut bench = Bench::new();
    for deliveries in 1..=3 {
        assert_eq!(bench.acquire("a", 1, 10, false), [(0, 9, deliveries)]);
        assert_eq!(bench.say("a", &[(0, 9, &[2])], false), Ok(()));
    }
    assert_eq!(bench.acquire("a", 1, 10, false), []);
    assert_eq!(bench.start(), 10);
}

#[test]
fn no_more_records_are_under_way_than_may_be() {
    let mut bench = Bench::new();
    assert_eq!(bench.acquire("a", 50, 1000, false), [(0, 99, 1)]);
    assert_eq!(bench.next_offset(), None);
    assert_eq!(bench.say("a", &[(50, 59, &[1])], false), Ok(()));
    assert_eq!(
        bench.next_offset(),
        Some(100),
        "what is done with does not count"
    );
    assert_eq!(bench.acquire("b", 50, 1000, true), [(100, 109, 1)]);
}

#[test]
fn a_record_that_was_given_back_and_compacted_away_holds_up_nobody() {
    let mut bench = Bench::new();
    assert_eq!(bench.acquire("a", 2, 1000, false), [(0, 19, 1)]);
    let said: [(i64, i64, &[i8]); 2] = [(0, 9, &[2]), (10, 19, &[1])];
    assert_eq!(bench.say("a", &said, false), Ok(()));
    let reading = bench.reading().unwrap();
    assert_eq!(reading.from, 0);
    let claim = bench.claim("b", 1000, false);
    let batches = [batch(10, 19), batch(20, 29)];
    let acquired = bench.shares.acquire(&key("g"), reading, &batches, &claim);
    let ranges: Vec<_> = acquired.iter().map(|it| (it.first, it.last)).collect();
    assert_eq!((ranges, bench.start()), (vec![(20, 29)], 20));
}

#[test]
fn what_was_read_before_another_beginning_was_set_is_given_to_nobody() {
    let mut bench = Bench::new();
    let reading = bench.reading().unwrap();
    let claim = bench.claim("a", 1000, false);
    let acquire = |bench: &mut Bench| {
        let batches = [batch(0, 9), batch(10, 19)];
        let acquired = bench
            .shares
            .acquire(&key("g"), reading, &batches, &claim)
            .len();
        (acquired, bench.start())
    };
    bench.shares.set_start(key("g"), 5);
    assert_eq!(acquire(&mut bench), (0, 5), "not known to its leader yet");
    assert_eq!(bench.next_offset(), Some(5));
    assert_eq!(acquire(&mut bench), (0, 5), "known");
    assert_eq!(bench.next_offset(), Some(5));
}

#[test]
fn what_was_read_in_an_earlier_epoch_is_given_to_nobody() {
    let mut bench = Bench::new();
    bench.acquire("a", 1, 10, false);
    let reading = bench.reading().unwrap();
    assert_eq!(reading.from, 10);
    // The log behind that is another one when the node leads again.
    bench.shares.leave(T, 0);
    bench.epoch += 2;
    assert_eq!(bench.next_offset(), Some(0));
    let claim = bench.claim("b", 1000, false);
    let batches = [batch(10, 19)];
    let acquired = bench.shares.acquire(&key("g"), reading, &batches, &claim);
    assert!(acquired.is_empty());
    assert_eq!(bench.acquire("b", 1, 10, false), [(0, 9, 1)]);
}

#[test]
fn a_damaged_state_is_read_as_far_as_it_makes_sense() {
    let kept = |first, last, state| KeptBatch {
        first,
        last,
        state,
        deliveries: 1,
    };
    let state = State {
        number: 0,
        leader_epoch: 0,
        start: 0,
        batches: vec![
            kept(i64::MIN, 3, 2),
            kept(5, 4, 2),
            kept(5, 6, 2),
            kept(6, 9, 4),
            kept(8, i64::MAX, 2),
            kept(9, i64::MAX, 4),
        ],
    };
    assert_eq!(state.lag(100), 0);
    assert_eq!(state.lag(i64::MIN), 0);
    let mut bench = Bench::new();
    bench.states.restore(StoredState {
        key: key("g"),
        state: Some(state),
    });
    assert_eq!(bench.acquire("a", 1, 10, false), [(0, 4, 1), (7, 9, 1)]);
}

#[test]
fn markers_and_what_was_compacted_away_are_given_to_nobody() {
    let mut bench = Bench::new();
    let reading = bench.reading().unwrap();
    assert_eq!(reading.from, 0);
    let marker = Batch {
        is_hidden: true,
        ..batch(5, 5)
    };
    let claim = bench.claim("a", 100, false);
    let batches = [batch(1, 2), marker, batch(6, 8)];
    let acquired = bench.shares.acquire(&key("g"), reading, &batches, &claim);
    let ranges: Vec<_> = acquired.iter().map(|it| (it.first, it.last)).collect();
    assert_eq!(ranges, [(1, 2), (6, 8)]);
    assert_eq!(bench.start(), 1);
    assert_eq!(bench.say("a", &[(1, 2, &[1]), (6, 8, &[1])], false), Ok(()));
    assert_eq!(bench.start(), 9);
}

#[test]
fn the_log_may_begin_later() {
    let mut bench = Bench::new();
    bench.acquire("a", 1, 10, false);
    let begins = |bench: &mut Bench, at| {
        let reading = bench.shares.next_offset(&key("g"), 0, &rules(), at, 0);
        reading.map(|it| it.from)
    };
    assert_eq!((begins(&mut bench, 4), bench.start()), (Some(10), 4));
    assert_eq!(bench.say("a", &[(0, 9, &[1])], false), Ok(()));
    assert_eq!(begins(&mut bench, 25), Some(25));
}

#[test]
fn a_new_leader_knows_what_is_done_with_and_nothing_of_locks() {
    let mut old = Bench::new();
    old.acquire("a", 2, 100, false);
    old.say("a", &[(0, 3, &[1]), (5, 6, &[3]), (8, 8, &[2])], false)
        .unwrap();
    old.acquire("b", 2, 1, true);
    let mut new = old.next_leader();
    assert_eq!(
        new.acquire("c", 2, 100, false),
        [(4, 4, 1), (7, 7, 1), (8, 8, 2), (9, 19, 1)]
    );
    assert_eq!(
        old.say("a", &[(4, 4, &[1])], false),
        Err(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        "nothing of it would be kept"
    );
    assert_eq!(new.start(), 4);
    assert_eq!(old.next_offset(), None, "it leads no more");
}

#[test]
fn a_group_that_was_deleted_or_set_back_begins_anew() {
    let mut bench = Bench::new();
    bench.acquire("a", 1, 10, false);
    bench.say("a", &[(0, 9, &[1])], false).unwrap();
    bench.shares.set_start(key("g"), 5);
    assert_eq!(bench.acquire("a", 1, 10, false), [(5, 9, 1)]);
    bench.shares.forget_group("other", None);
    assert!(bench.shares.knows(&key("g")));
    bench.shares.forget_group("g", None);
    assert!(!bench.shares.knows(&key("g")));
    assert_eq!(bench.acquire("a", 1, 10, false), [(0, 9, 1)]);
    bench.shares.forget_topic(T);
    assert!(bench.states.of_group("g").is_empty());
}

#[test]
fn what_changed_is_written_down_once_and_read_back() {
    let mut bench = Bench::new();
    bench.acquire("a", 1, 10, false);
    bench
        .say("a", &[(3, 4, &[1]), (6, 6, &[2])], false)
        .unwrap();
    let changed = bench.shares.take_changed();
    let [stored] = changed.as_slice() else {
        panic!("{changed:?}");
    };
    assert!(bench.shares.take_changed().is_empty());
    let (record_key, value) = stored.encode(7).unwrap();
    let read = StoredState::decode(&record_key, value.as_deref()).unwrap();
    let states = ShareStates::default();
    states.restore(read);
    let state = states.get(&key("g")).unwrap();
    assert_eq!(
        Some(&state.batches),
        stored.state.as_ref().map(|it| &it.batches)
    );
    assert_eq!((state.start, state.lag(10)), (0, 8));
    let end = StoredState {
        state: None,
        ..stored.clone()
    };
    let (record_key, value) = end.encode(7).unwrap();
    states.restore(StoredState::decode(&record_key, value.as_deref()).unwrap());
    assert_eq!(states.get(&key("g")), None);
}

#[derive(Default)]
struct Rings(AtomicU32);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_waits_is_rung_when_records_become_free() {
    let mut bench = Bench::new();
    let begun = bench
        .shares
        .sessions
        .fetch("g", "a", 0, &[(T, 0)], &[])
        .unwrap();
    bench.acquire("a", 1, 10, false);
    let rings: Arc<Rings> = Arc::default();
    let waiting: Arc<dyn Awaited> = Watcher::new(1, Waker::from(Arc::clone(&rings)));
    bench.shares.watch(key("g"), &waiting);
    bench.say("a", &[(0, 0, &[1])], false).unwrap();
    assert_eq!(rings.0.load(Ordering::Relaxed), 0);
    bench.shares.disconnect(begun.id);
    assert_eq!(rings.0.load(Ordering::Relaxed), 1);
    assert_eq!(bench.acquire("b", 1, 10, false), [(1, 9, 2)]);
    bench.shares.disconnect(begun.id);
    assert_eq!(bench.next_offset(), Some(10), "a session ends once");
    bench.shares.watch(key("g"), &waiting);
    bench.shares.set_start(key("g"), 3);
    assert_eq!(
        rings.0.load(Ordering::Relaxed),
        2,
        "what it was done with may be free again"
    );
}

#[test]
fn what_nobody_needs_any_more_is_let_go() {
    let mut bench = Bench::new();
    let rings: Arc<Rings> = Arc::default();
    let waits: Arc<dyn Awaited> = Watcher::new(1, Waker::from(Arc::clone(&rings)));
    bench.shares.watch(key("stays"), &waits);
    for number in 0..10_000 {
        let gone: Arc<dyn Awaited> = Watcher::new(1, Waker::from(Arc::clone(&rings)));
        bench.shares.watch(key(&format!("gone-{number}")), &gone);
        let read = key(&format!("read-{number}"));
        bench.shares.next_offset(&read, 0, &rules(), 0, 0);
        // As another node forgets it.
        bench.states.forget(|it| *it == read);
    }
    let left = bench.shares.waiting.len() + bench.shares.partitions.len();
    assert!(left <= SWEPT_FROM, "{left}");
    bench.shares.set_start(key("stays"), 1);
    assert_eq!(rings.0.load(Ordering::Relaxed), 1);
    bench.acquire("a", 1, 10, false);
    bench.shares.watch(key("g"), &waits);
    bench.shares.forget_group("g", None);
    assert!(!bench.shares.waiting.contains_key(&key("g")));
    assert!(!bench.shares.partitions.contains_key(&key("g")));
}

#[test]
fn a_session_goes_by_epochs() {
    let mut sessions = ShareSessions::new(2);
    let missing = Err(ErrorCode::SHARE_SESSION_NOT_FOUND);
    let wrong = Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH);
    let (p, q) = ((T, 0), (T, 1));
    let code = |it: Result<session::Begun, ErrorCode>| it.map(drop);
    assert_eq!(code(sessions.fetch("g", "a", 1, &[p], &[])), missing);
    assert_eq!(code(sessions.fetch("g", "a", -1, &[], &[])), missing);
    assert_eq!(sessions.acknowledge("g", "a", 0), wrong);
    let begun = sessions.fetch("g", "a", 0, &[p], &[]).unwrap();
    assert_eq!(begun.places, [p]);
    assert_eq!(code(sessions.fetch("g", "a", 2, &[], &[])), wrong);
    assert_eq!(sessions.acknowledge("g", "a", 1), Ok(()));
    let begun = sessions.fetch("g", "a", 2, &[q], &[]).unwrap();
    assert_eq!(begun.places, [q, p]);
    assert_eq!(sessions.fetch("g", "a", 3, &[], &[q]).unwrap().places, [p]);
    let again = sessions.fetch("g", "a", 0, &[q], &[]).unwrap();
    assert!(again.id != begun.id && again.places == [q]);
    assert_eq!(code(sessions.fetch("g", "b", 0, &[p], &[])), Ok(()));
    let full = Err(ErrorCode::SHARE_SESSION_LIMIT_REACHED);
    assert_eq!(code(sessions.fetch("g", "c", 0, &[p], &[])), full);
    sessions.close("g", "b");
    assert_eq!(code(sessions.fetch("g", "c", 0, &[p], &[])), Ok(()));
    assert_eq!(sessions.end(begun.id), None);
    assert_eq!(
        sessions.end(again.id),
        Some(("g".to_owned(), "a".to_owned()))
    );
}

/// How many records the first member gets, and then a second one, while the first keeps its locks, of new batches of these sizes:
/// what brokers of Kafka 4.4.0 gave with `share.partition.max.record.locks=100`.
#[test]
fn locks_have_a_limit_that_ends_with_a_batch_as_in_kafka() {
    let each: [(&[i64], i64, i64); 7] = [
        (&[200], 200, 100),
        (&[10; 20], 100, 0),
        (&[50; 4], 100, 0),
        (&[99; 3], 198, 98),
        (&[100; 2], 100, 0),
        (&[60; 3], 120, 20),
        (&[200, 200], 200, 100),
    ];
    let bench = Bench::new();
    for (sizes, whole, rest) in each {
        let mut next = 0;
        let batches = sizes.iter().map(|size| {
            next += size;
            batch(next - size, next - 1)
        });
        let batches: Vec<_> = batches.collect();
        for (is_exact, wanted) in [(false, (whole, 0)), (true, (100, rest))] {
            let mut partition = SharePartition::new(0);
            let mut take = |member: &str| {
                let claim = bench.claim(member, 500, is_exact);
                let Some(from) = partition.next_offset(claim.most_locks) else {
                    return 0;
                };
                let read: Vec<_> = batches
                    .iter()
                    .filter(|it| it.last >= from)
                    .copied()
                    .collect();
                let acquired = partition.acquire(from, &read, &claim).into_iter();
                acquired.map(|it| it.last - it.first + 1).sum::<i64>()
            };
            assert_eq!((take("a"), take("b")), wanted, "{sizes:?}, {is_exact}");
        }
    }
}
