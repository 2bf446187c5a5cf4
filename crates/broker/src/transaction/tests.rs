//! The coordinator with scripted time and a scripted log: steps, retries, fencing, timeouts, and moves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;

use super::*;

const HOME: Home = Home {
    partition: 0,
    epoch: 4,
};

/// A coordinator whose log stores everything at once, and whose markers are all written at once,
/// unless a test sets otherwise.
struct Bench {
    machine: Transactions<u32>,
    now: Now,
    replies: BTreeMap<u32, Reply>,
    /// The log: what each id was written with, in order.
    written: Vec<Metadata>,
    /// The markers that were asked for and not written.
    marks: Vec<Mark>,
    appends: Vec<Append>,
    log: BTreeMap<String, Metadata>,
    holds: bool,
    tickets: u32,
    next_id: i64,
}

impl Bench {
    fn new(broker: Protocol) -> Self {
        let mut machine = Transactions::new(TransactionConfig {
            max_timeout_ms: 900_000,
            expiration_ms: 10_000_000,
            expiration_check_ms: 3_600_000,
            two_phase: false,
        });
        let now = Now {
            instant: Instant::now(),
            unix_ms: 1_000_000,
        };
        machine.set(now, broker);
        machine.lead(HOME, BTreeMap::new());
        Self {
            machine,
            now,
            replies: BTreeMap::new(),
            written: Vec::new(),
            marks: Vec::new(),
            appends: Vec::new(),
            log: BTreeMap::new(),
            holds: false,
            tickets: 0,
            next_id: 100,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.unix_ms += i64::try_from(time.as_millis()).unwrap();
        let broker = self.machine.broker;
        self.machine.set(self.now, broker);
        self.machine.handle_timeout();
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(effect) = self.machine.take_effect() {
            match effect {
                Effect::Reply(ticket, reply) => drop(self.replies.insert(ticket, reply)),
                Effect::Append(append) if self.holds => self.appends.push(append),
                Effect::Append(append) => self.append(&append),
                Effect::Mark(mark) if self.holds => self.marks.push(mark),
                Effect::Mark(mark) => self.machine.marked(&mark.step, &mark.place),
            }
        }
    }

    fn append(&mut self, append: &Append) {
        let (key, value) = append.record.clone().unwrap();
        let (id, kept) = decode(&key, value.as_deref()).unwrap();
        match kept {
            Some(kept) => {
                self.written.push(kept.clone());
                self.log.insert(id, kept);
            }
            None => drop(self.log.remove(&id)),
        }
        self.machine.appended(&append.step);
    }

    fn release(&mut self) {
        self.holds = false;
        for append in std::mem::take(&mut self.appends) {
            self.append(&append);
        }
        for mark in std::mem::take(&mut self.marks) {
            self.machine.marked(&mark.step, &mark.place);
        }
        self.follow();
    }

    fn ticket(&mut self) -> u32 {
        self.tickets += 1;
        self.tickets
    }

    fn fresh_id(&mut self) -> Option<i64> {
        self.machine.needs_producer_id("id").then(|| {
            self.next_id += 1;
            self.next_id
        })
    }

    fn producer(&mut self, ticket: u32) -> Result<Identity, ErrorCode> {
        self.follow();
        match self.replies.remove(&ticket) {
            Some(Reply::Producer(producer)) => producer,
            other => panic!("{other:?}"),
        }
    }

    fn init_as(&mut self, expected: Option<Identity>) -> Result<Identity, ErrorCode> {
        let (ticket, fresh_id) = (self.ticket(), self.fresh_id());
        let init = Init {
            id: "id".to_owned(),
            timeout_ms: 60_000,
            expected,
            two_phase: false,
            keeps: false,
        };
        self.machine.init(init, HOME, fresh_id, ticket);
        self.producer(ticket)
    }

    fn init(&mut self) -> Identity {
        self.init_as(None).unwrap()
    }

    /// InitProducerId that keeps an open transaction: who the producer is, and whose transaction it may end.
    fn keep(&mut self, expected: Option<Identity>) -> Result<(Identity, Identity), ErrorCode> {
        let (ticket, fresh_id) = (self.ticket(), self.fresh_id());
        let init = Init {
            id: "id".to_owned(),
            timeout_ms: 60_000,
            expected,
            two_phase: true,
            keeps: true,
        };
        self.machine.config.two_phase = true;
        self.machine.init(init, HOME, fresh_id, ticket);
        self.follow();
        match self.replies.remove(&ticket) {
            Some(Reply::Kept { producer, ongoing }) => Ok((producer, ongoing)),
            Some(Reply::Producer(Err(code))) => Err(code),
            other => panic!("{other:?}"),
        }
    }

    /// Another coordinator takes over, with the content of the log.
    fn move_coordinator(&mut self) {
        self.machine.unload(|_| true);
        let kept = self.log.clone();
        self.machine.lead(HOME, kept);
        self.follow();
    }

    fn ask_add(&mut self, producer: Identity, index: i32, how: Adding) -> u32 {
        let ticket = self.ticket();
        let add = Add {
            id: "id".to_owned(),
            producer,
            partitions: vec![("t".to_owned(), index)],
            how,
        };
        self.machine.add(&add, HOME, ticket);
        self.follow();
        ticket
    }

    fn add(&mut self, producer: Identity, index: i32, how: Adding) -> ErrorCode {
        let ticket = self.ask_add(producer, index, how);
        match self.replies.remove(&ticket) {
            Some(Reply::Partitions(codes)) => codes[0],
            other => panic!("{other:?}"),
        }
    }

    fn end_by(
        &mut self,
        producer: Identity,
        commits: bool,
        client: Protocol,
    ) -> Result<Identity, ErrorCode> {
        let (ticket, fresh_id) = (self.ticket(), self.fresh_id());
        let end = End {
            id: "id".to_owned(),
            producer,
            commits,
            client,
        };
        self.machine.end(&end, HOME, fresh_id, ticket);
        self.producer(ticket)
    }

    fn status(&self) -> Status {
        self.machine.describe("id", HOME).unwrap().status
    }
}

fn after(producer: Identity, epochs: i16) -> Identity {
    Identity {
        epoch: producer.epoch + epochs,
        ..producer
    }
}

const CLASSIC: Adding = Adding::Add(Protocol::Classic);
const EACH: Adding = Adding::Add(Protocol::EpochEach);

#[test]
fn a_transaction_goes_through_its_states_and_each_is_written_first() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    assert_eq!(bench.add(producer, 0, CLASSIC), ErrorCode::NONE);
    assert_eq!(bench.add(producer, 1, CLASSIC), ErrorCode::NONE);
    assert_eq!(bench.add(producer, 1, CLASSIC), ErrorCode::NONE);
    let ended = bench.end_by(producer, true, Protocol::Classic);
    assert_eq!(ended, Ok(producer), "the epoch stays");
    let states: Vec<_> = bench.written.iter().map(|it| it.status).collect();
    let expected = [
        Status::Empty,
        Status::Ongoing,
        Status::Ongoing,
        Status::PrepareCommit,
        Status::CompleteCommit,
    ];
    assert_eq!(states, expected, "what was there already is not written");
    let again = bench.end_by(producer, true, Protocol::Classic);
    assert_eq!(again, Ok(producer));
    let other = bench.end_by(producer, false, Protocol::Classic);
    assert_eq!(other, Err(ErrorCode::INVALID_TXN_STATE));
}

#[test]
fn an_answer_comes_when_its_record_is_safe_and_others_wait_meanwhile() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.holds = true;
    let ticket = bench.ask_add(producer, 0, EACH);
    assert!(bench.replies.is_empty());
    assert_eq!(
        bench.add(producer, 1, EACH),
        ErrorCode::CONCURRENT_TRANSACTIONS
    );
    assert_eq!(
        bench.add(producer, 0, Adding::Verify),
        ErrorCode::TRANSACTION_ABORTABLE,
        "what is not safe does not count"
    );
    bench.release();
    let added = Reply::Partitions(vec![ErrorCode::NONE]);
    assert_eq!(bench.replies.get(&ticket), Some(&added));
    assert_eq!(bench.add(producer, 0, Adding::Verify), ErrorCode::NONE);
}

#[test]
fn the_next_transaction_waits_for_the_markers_of_the_one_before() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.add(producer, 0, EACH);
    bench.add(producer, 1, EACH);
    bench.holds = true;
    let ticket = bench.ticket();
    let end = End {
        id: "id".to_owned(),
        producer,
        commits: false,
        client: Protocol::EpochEach,
    };
    bench.machine.end(&end, HOME, None, ticket);
    bench.follow();
    let append = bench.appends.remove(0);
    bench.append(&append);
    bench.follow();
    let next = after(producer, 1);
    assert_eq!(bench.producer(ticket), Ok(next), "the decision is enough");
    let marker = Marker {
        producer_id: producer.producer_id,
        epoch: next.epoch,
        coordinator_epoch: HOME.epoch,
        commits: false,
    };
    assert!(bench.marks.iter().all(|mark| mark.marker == marker));
    assert_eq!(bench.marks.len(), 2);
    assert_eq!(bench.add(next, 0, EACH), ErrorCode::CONCURRENT_TRANSACTIONS);
    assert_eq!(
        bench.end_by(producer, false, Protocol::EpochEach),
        Err(ErrorCode::CONCURRENT_TRANSACTIONS),
        "it comes again, and is under way"
    );
    assert_eq!(
        bench.end_by(next, false, Protocol::EpochEach),
        Err(ErrorCode::CONCURRENT_TRANSACTIONS),
        "the next one is not fenced"
    );
    bench.release();
    assert_eq!(bench.status(), Status::CompleteAbort);
    assert_eq!(bench.add(next, 0, EACH), ErrorCode::NONE);
}

#[test]
fn with_an_epoch_each_an_end_that_comes_again_is_known_by_its_epoch() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let first = bench.init();
    bench.add(first, 0, EACH);
    let second = bench.end_by(first, true, Protocol::EpochEach).unwrap();
    assert_eq!(second, after(first, 1));
    assert_eq!(bench.end_by(first, true, Protocol::EpochEach), Ok(second));
    assert_eq!(
        bench.end_by(first, false, Protocol::EpochEach),
        Err(ErrorCode::INVALID_TXN_STATE)
    );
    assert_eq!(
        bench.end_by(second, true, Protocol::EpochEach),
        Err(ErrorCode::INVALID_TXN_STATE),
        "nothing was begun"
    );
    let third = bench.end_by(second, false, Protocol::EpochEach);
    assert_eq!(third, Ok(after(second, 1)), "an empty one can be aborted");
    assert_eq!(
        bench.end_by(first, true, Protocol::EpochEach),
        Err(ErrorCode::PRODUCER_FENCED)
    );
}

#[test]
fn another_producer_ends_the_open_transaction_and_fences_its_owner() {
    for broker in [Protocol::Classic, Protocol::EpochEach] {
        let mut bench = Bench::new(broker);
        let first = bench.init();
        bench.add(first, 0, CLASSIC);
        assert_eq!(
            bench.init_as(None),
            Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            "it must ask again"
        );
        assert_eq!(bench.status(), Status::CompleteAbort);
        assert_eq!(bench.init(), after(first, 2));
        assert_eq!(bench.add(first, 0, CLASSIC), ErrorCode::PRODUCER_FENCED);
        let stale = Identity {
            producer_id: 7,
            epoch: 0,
        };
        assert_eq!(
            bench.add(stale, 0, CLASSIC),
            ErrorCode::INVALID_PRODUCER_ID_MAPPING
        );
    }
}

#[test]
fn a_producer_raises_its_own_epoch_and_may_ask_again() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let first = bench.init();
    let second = bench.init_as(Some(first)).unwrap();
    assert_eq!(second, after(first, 1));
    assert_eq!(
        bench.init_as(Some(first)),
        Ok(second),
        "the answer was lost"
    );
    let third = bench.init_as(Some(second)).unwrap();
    assert_eq!(bench.init_as(Some(first)), Err(ErrorCode::PRODUCER_FENCED));
    bench.init();
    assert_eq!(
        bench.init_as(Some(third)),
        Err(ErrorCode::PRODUCER_FENCED),
        "another has come"
    );
}

#[test]
fn when_epochs_run_out_there_is_another_id() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let mut producer = bench.init();
    while producer.epoch < i16::MAX - 1 {
        producer = bench.init_as(Some(producer)).unwrap();
    }
    let next = bench.init_as(Some(producer)).unwrap();
    assert_ne!(next.producer_id, producer.producer_id);
    assert_eq!(next.epoch, 0);
    assert_eq!(bench.init_as(Some(producer)), Ok(next), "it asks again");

    let mut producer = next;
    while producer.epoch < i16::MAX - 1 {
        producer = bench.init_as(Some(producer)).unwrap();
    }
    bench.add(producer, 0, EACH);
    let next = bench.end_by(producer, true, Protocol::EpochEach).unwrap();
    assert_ne!(next.producer_id, producer.producer_id);
    assert_eq!(next.epoch, 0);
    assert_eq!(bench.end_by(producer, true, Protocol::EpochEach), Ok(next));
    assert_eq!(bench.add(next, 0, EACH), ErrorCode::NONE);
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.pass(Duration::from_secs(3600));
    bench.add(producer, 0, EACH);
    let due = bench.machine.next_timeout().unwrap();
    assert_eq!(due - bench.now.instant, Duration::from_secs(60));
    bench.pass(Duration::from_millis(59_999));
    assert_eq!(bench.status(), Status::Ongoing);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.status(), Status::CompleteAbort);
    assert_eq!(
        bench.end_by(producer, true, Protocol::Classic),
        Err(ErrorCode::PRODUCER_FENCED)
    );
}

#[test]
fn ids_that_nobody_uses_are_forgotten() {
    let mut bench = Bench::new(Protocol::EpochEach);
    bench.init();
    assert_eq!(bench.log.len(), 1);
    bench.pass(Duration::from_millis(10_000_000));
    assert_eq!(
        bench.log.len(),
        1,
        "the next look is the third, after 3 hours"
    );
    bench.pass(Duration::from_millis(3 * 3_600_000 - 10_000_000 - 1));
    assert_eq!(bench.log.len(), 1);
    bench.pass(Duration::from_millis(1));
    assert!(bench.log.is_empty());
    assert_eq!(
        bench.machine.describe("id", HOME).unwrap_err(),
        ErrorCode::TRANSACTIONAL_ID_NOT_FOUND
    );
}

#[test]
fn another_coordinator_goes_on_from_the_log() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.add(producer, 0, EACH);
    bench.holds = true;
    let ticket = bench.ticket();
    let end = End {
        id: "id".to_owned(),
        producer,
        commits: true,
        client: Protocol::EpochEach,
    };
    bench.machine.end(&end, HOME, None, ticket);
    bench.follow();
    let append = bench.appends.remove(0);
    bench.append(&append);
    bench.follow();
    let old_marks = std::mem::take(&mut bench.marks);

    bench.machine.unload(|_| true);
    let second = Home { epoch: 5, ..HOME };
    let code = bench.machine.describe("id", HOME).unwrap_err();
    assert_eq!(code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    let kept = bench.log.clone();
    bench.machine.lead(second, kept);
    bench.follow();
    assert_eq!(bench.marks.len(), 1, "the decision stands");
    assert_eq!(bench.marks[0].marker.coordinator_epoch, 5);
    for mark in old_marks {
        bench.machine.marked(&mark.step, &mark.place);
    }
    assert_eq!(
        bench.status(),
        Status::PrepareCommit,
        "news for the coordinator before are not heard"
    );
    bench.release();
    assert_eq!(bench.status(), Status::CompleteCommit);
}

#[test]
fn who_waits_for_a_coordinator_that_goes_is_told() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.holds = true;
    let ticket = bench.ask_add(producer, 0, EACH);
    bench.machine.unload(|_| true);
    bench.follow();
    let told = Reply::Partitions(vec![ErrorCode::NOT_COORDINATOR]);
    assert_eq!(bench.replies.get(&ticket), Some(&told));
}

#[test]
fn what_could_not_be_written_did_not_happen() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.holds = true;
    let ticket = bench.ask_add(producer, 0, EACH);
    let append = bench.appends.remove(0);
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    bench.machine.append_failed(&append.step, code);
    bench.follow();
    let told = Reply::Partitions(vec![code]);
    assert_eq!(bench.replies.get(&ticket), Some(&told));
    assert_eq!(bench.status(), Status::Empty);
    bench.holds = false;
    assert_eq!(bench.add(producer, 0, EACH), ErrorCode::NONE);
}

#[test]
fn two_phase_commit_is_for_those_who_may_and_has_no_timeout() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let init = Init {
        id: "id".to_owned(),
        timeout_ms: 5,
        expected: None,
        two_phase: true,
        keeps: false,
    };
    let ticket = bench.ticket();
    bench.machine.init(init.clone(), HOME, Some(1), ticket);
    let refused = Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_eq!(bench.producer(ticket), refused);
    bench.machine.config.two_phase = true;
    let ticket = bench.ticket();
    bench.machine.init(init, HOME, Some(1), ticket);
    let producer = bench.producer(ticket).unwrap();
    bench.add(producer, 0, EACH);
    bench.pass(Duration::from_secs(1_000_000));
    assert_eq!(bench.status(), Status::Ongoing);
}

#[test]
fn a_prepared_transaction_is_kept_for_the_producer_that_takes_over() {
    for commits in [true, false] {
        let mut bench = Bench::new(Protocol::EpochEach);
        let first = bench.init();
        bench.add(first, 0, EACH);
        let (second, ongoing) = bench.keep(None).unwrap();
        assert_eq!((second, ongoing), (after(first, 1), first));
        bench.move_coordinator();
        let (third, ongoing) = bench.keep(None).unwrap();
        assert_eq!((third, ongoing), (after(first, 2), first), "however often");
        bench.pass(Duration::from_secs(1_000_000));
        assert_eq!(bench.status(), Status::Ongoing, "nobody else ends it");
        for stale in [first, second] {
            assert_eq!(bench.add(stale, 1, EACH), ErrorCode::PRODUCER_FENCED);
            assert_eq!(
                bench.end_by(stale, commits, Protocol::EpochEach),
                Err(ErrorCode::PRODUCER_FENCED)
            );
        }
        let more = bench.add(third, 1, EACH);
        assert_eq!(more, ErrorCode::INVALID_TXN_STATE, "it was prepared");
        bench.holds = true;
        let ticket = bench.ticket();
        let end = End {
            id: "id".to_owned(),
            producer: third,
            commits,
            client: Protocol::EpochEach,
        };
        bench.machine.end(&end, HOME, None, ticket);
        bench.follow();
        let append = bench.appends.remove(0);
        bench.append(&append);
        bench.follow();
        assert_eq!(bench.producer(ticket), Ok(after(third, 1)));
        let marker = bench.marks[0].marker;
        assert_eq!((marker.epoch, marker.commits), (first.epoch + 1, commits));
        // The markers are written by whoever coordinates then.
        bench.holds = false;
        bench.move_coordinator();
        let next = after(third, 1);
        assert_eq!(
            bench.end_by(third, commits, Protocol::EpochEach),
            Ok(next),
            "the answer was lost"
        );
        assert_eq!(bench.add(next, 0, EACH), ErrorCode::NONE);
    }
}

#[test]
fn who_does_not_keep_a_kept_transaction_aborts_it() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let first = bench.init();
    bench.add(first, 0, EACH);
    let (second, _) = bench.keep(None).unwrap();
    let again = bench.init_as(None);
    assert_eq!(again, Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(bench.status(), Status::CompleteAbort);
    let third = bench.init();
    assert!(third.epoch > second.epoch, "{third:?}");
    let stale = bench.end_by(second, true, Protocol::EpochEach);
    assert_eq!(stale, Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn a_kept_transaction_whose_epochs_run_out_goes_on_with_another_id() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let mut first = bench.init();
    while first.epoch < i16::MAX - 1 {
        first = bench.init_as(Some(first)).unwrap();
    }
    bench.add(first, 0, EACH);
    let (second, ongoing) = bench.keep(None).unwrap();
    assert_eq!((second.epoch, ongoing), (0, first));
    assert_ne!(second.producer_id, first.producer_id);
    let (third, ongoing) = bench.keep(Some(second)).unwrap();
    assert_eq!((third, ongoing), (after(second, 1), first));
    assert_eq!(bench.keep(Some(second)), Err(ErrorCode::PRODUCER_FENCED));
    let next = bench.end_by(third, true, Protocol::EpochEach);
    assert_eq!(next, Ok(after(third, 1)));
    assert_eq!(bench.end_by(third, true, Protocol::EpochEach), next);
    assert_eq!(bench.status(), Status::CompleteCommit);
}

#[test]
fn where_nothing_is_open_nothing_is_kept() {
    let mut bench = Bench::new(Protocol::EpochEach);
    bench.machine.config.two_phase = true;
    let mut producers = Vec::new();
    for keeps in [true, false] {
        let (ticket, fresh_id) = (bench.ticket(), bench.fresh_id());
        let init = Init {
            id: "id".to_owned(),
            timeout_ms: 1,
            expected: None,
            two_phase: true,
            keeps,
        };
        bench.machine.init(init, HOME, fresh_id, ticket);
        producers.push(bench.producer(ticket).unwrap());
    }
    assert_eq!(producers[1], after(producers[0], 1));
}

#[test]
fn the_end_of_a_transaction_is_written_again_until_it_is() {
    let mut bench = Bench::new(Protocol::EpochEach);
    let producer = bench.init();
    bench.add(producer, 0, EACH);
    bench.holds = true;
    let ticket = bench.ticket();
    let end = End {
        id: "id".to_owned(),
        producer,
        commits: true,
        client: Protocol::EpochEach,
    };
    bench.machine.end(&end, HOME, None, ticket);
    bench.follow();
    let prepare = bench.appends.remove(0);
    bench.append(&prepare);
    bench.follow();
    for mark in std::mem::take(&mut bench.marks) {
        bench.machine.marked(&mark.step, &mark.place);
    }
    bench.follow();
    for _ in 0..2 {
        let complete = bench.appends.remove(0);
        let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        bench.machine.append_failed(&complete.step, code);
        bench.pass(Duration::from_millis(999));
        assert!(bench.appends.is_empty());
        bench.pass(Duration::from_millis(1));
        assert_eq!(bench.appends.len(), 1, "after a second, once more");
    }
    let complete = bench.appends.remove(0);
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    bench.machine.append_failed(&complete.step, code);
    bench.now.unix_ms -= 86_400_000;
    bench.machine.reschedule();
    bench.pass(Duration::ZERO);
    assert_eq!(
        bench.appends.len(),
        1,
        "a clock that was set back holds nothing up"
    );
    bench.release();
    assert_eq!(bench.status(), Status::CompleteCommit);
    assert!(bench.machine.next_timeout().unwrap() > bench.now.instant);
}
