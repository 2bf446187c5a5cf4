//! A member of a share group as an application uses it: it subscribes, polls, works on what it got,
//! acknowledges each record, commits, leaves and comes back, as `ottla-client` does it above the
//! engine, and records the results.
//!
//! ```text
//!        a poll gave records            it acknowledges them
//!   polls ─────────────────▶ works ───────────────────────────────────▶ commits ──▶ polls
//!     ▲                        │ it is to leave                                       │
//!     └──── it comes back ◀── leaves ──▶ closed                                       └── nothing came in time: works
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::observe::Observed;
use ottla_engine::share_consumer::{
    AcknowledgeType, Acquired, CommitId, LockId, ShareConsumer as Work,
};
use ottla_engine::{Change, Config, Engine, Kind};

use crate::book::Book;
use crate::chance::Chance;
use crate::habits::Commits;
use crate::history::{Place, Value};
use crate::host::Host;
use crate::plan::Sharer as Habits;
use crate::plant::Plant;
use crate::reading::decode;
use crate::shared::{Outcome, Range, Shared};

/// How long one poll waits for records.
const POLL: Duration = Duration::from_secs(1);
/// An application that got an error does not poll again at once.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// How long a commit may take at most, and leaving the group.
const PATIENCE: Duration = Duration::from_secs(4);

/// What the application is about.
#[derive(Debug)]
enum Doing {
    /// It works on what it got, until then.
    Works(Instant),
    /// A poll is under way, until then.
    Polls(Instant),
    /// It waits for a commit, until then.
    Commits(CommitId, Instant),
    /// It leaves its group, until then, and closes afterwards; else it subscribes again.
    Leaves(Instant, bool),
    /// Its process has ended.
    Ended,
}

/// A record that was acquired.
#[derive(Clone, Debug)]
struct Record {
    lock: LockId,
    place: Place,
    offset: i64,
    deliveries: i16,
    value: Value,
}

/// A member of a share group and the application around it.
#[derive(Debug)]
pub struct Sharer {
    /// The client.
    pub host: Host<Work>,
    name: String,
    /// Its place in [`crate::history::History::sharers`].
    process: usize,
    habits: Habits,
    plant: Option<Plant>,
    chance: Chance,
    topics: Vec<Arc<str>>,
    doing: Doing,
    /// Acquired, and not given out.
    ready: VecDeque<Record>,
    /// Given out, and nothing final said.
    open: Vec<(LockId, Place, i64)>,
    /// It accepts all there is.
    hurries: bool,
    /// It works on the next records for so long.
    blocks: Option<Duration>,
    /// Something changed for a waiter.
    is_rung: bool,
}

impl Sharer {
    /// The next process of these habits, which subscribes to these topics.
    pub fn new(
        book: &mut Book,
        config: Config,
        habits: &Habits,
        topics: Vec<Arc<str>>,
        chance: &mut Chance,
        plant: Option<Plant>,
    ) -> Sharer {
        let process = book.history.sharers.len();
        book.history.sharers.push(habits.group);
        let name = format!("{}.{process}", config.client_id);
        let mut engine = Engine::share_consumer(Arc::new(config), chance.number());
        engine.keep_outcomes(true);
        let mut sharer = Sharer {
            host: Host::new(engine, chance.fork(), plant),
            name,
            process,
            habits: habits.clone(),
            plant,
            chance: chance.fork(),
            topics: Vec::new(),
            doing: Doing::Works(book.now),
            ready: VecDeque::new(),
            open: Vec::new(),
            hurries: false,
            blocks: None,
            is_rung: false,
        };
        sharer.subscribe(book, topics);
        sharer
    }

    /// Its name in traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in [`crate::history::History::sharers`].
    pub fn process(&self) -> usize {
        self.process
    }

    /// Whether its process has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Ended)
    }

    /// Whether it is about to leave its group for good.
    pub fn is_closing(&self) -> bool {
        matches!(self.doing, Doing::Leaves(_, true))
    }

    /// Subscribes to these topics and no others.
    fn subscribe(&mut self, book: &mut Book, topics: Vec<Arc<str>>) {
        book.say(&self.name, format_args!("subscribe {topics:?}"));
        let names: BTreeSet<Arc<str>> = topics.iter().cloned().collect();
        let now = book.now;
        let _closed = self.host.work(now, |engine| engine.subscribe(now, names));
        self.topics = topics;
    }

    /// Subscribes to all that there is, reads as fast as it can, and accepts all.
    pub fn hurry(&mut self, book: &mut Book, topics: &[(Arc<str>, i32)]) {
        if self.is_over() {
            return;
        }
        let now = book.now;
        self.hurries = true;
        self.habits.works = Duration::from_millis(1);
        self.habits.most = self.habits.most.max(100);
        self.blocks = None;
        if let Doing::Works(until) = &mut self.doing {
            *until = (*until).min(now);
        }
        let all: Vec<_> = topics.iter().map(|(topic, _)| Arc::clone(topic)).collect();
        match self.doing {
            // It subscribes again when it has left.
            Doing::Leaves(..) => self.topics = all,
            _ => self.subscribe(book, all),
        }
        self.settle(book);
    }

    /// Does something that `which` chooses.
    pub fn act(&mut self, book: &mut Book, which: u64, topics: &[(Arc<str>, i32)]) {
        if matches!(self.doing, Doing::Ended | Doing::Leaves(..)) {
            return;
        }
        let mut chance = Chance::new(which);
        match chance.below(100) {
            0..=24 => {
                let some = topics.iter().enumerate();
                let some = some.filter(|(number, _)| which >> (8 + number) & 1 == 0);
                let mut some: Vec<_> = some.map(|(_, (name, _))| Arc::clone(name)).collect();
                if some.is_empty() {
                    some.extend(topics.first().map(|(name, _)| Arc::clone(name)));
                }
                self.subscribe(book, some);
            }
            25..=44 => self.leave(book, false, PATIENCE),
            45..=59 => self.leave(book, true, PATIENCE),
            _ => self.blocks = Some(self.habits.lock + chance.millis(10, 2500)),
        }
        self.settle(book);
    }

    /// Its process ends at once: nobody is notified, and its connections break.
    pub fn die(&mut self, book: &mut Book) {
        if self.is_over() {
            return;
        }
        book.say(&self.name, "dies");
        book.tally.strike("member: was killed");
        self.host.die();
        self.end(book);
    }

    /// Acknowledges its records, leaves its group and closes, within `timeout`.
    pub fn close(&mut self, book: &mut Book, timeout: Duration) {
        match &mut self.doing {
            Doing::Ended => return,
            Doing::Leaves(_, closes) => *closes = true,
            _ => {
                // Half of them have something to say before.
                if self.hurries || self.chance.percent(50) {
                    self.decide(book);
                }
                self.leave(book, true, timeout);
            }
        }
        self.settle(book);
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.is_over() && (self.host.is_dead() || self.host.is_closed())
    }

    /// When [`Sharer::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let own = match &self.doing {
            Doing::Works(until)
            | Doing::Polls(until)
            | Doing::Commits(_, until)
            | Doing::Leaves(until, _) => Some(*until),
            Doing::Ended => None,
        };
        let host = self.host.next_timeout().filter(|_| !self.host.is_dead());
        own.into_iter().chain(host).min()
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, book: &mut Book) {
        if !self.host.is_dead() {
            self.host.alarm(book.now);
        }
        self.settle(book);
    }

    /// Takes in what the engine has to say, and goes on.
    pub fn settle(&mut self, book: &mut Book) {
        self.collect(book);
        while self.go_on(book) {
            self.collect(book);
        }
    }

    fn note(&self, book: &mut Book, shared: Shared) {
        let at = book.at();
        book.history.shared.push((at, self.process, shared));
    }

    /// Takes in events, and how acknowledgements ended.
    fn collect(&mut self, book: &mut Book) {
        let changes = self.host.take_changes();
        let is_its_own = |change: &Change| matches!(change, Change::Records | Change::Group);
        self.is_rung |= changes.iter().any(is_its_own);
        while let Some(event) = self.host.poll_observed() {
            if let Observed::MembershipLost { .. } = &event {
                self.note(book, Shared::Expelled);
                book.tally.meet("sharer: was expelled");
            }
            book.observe(&self.name, &event);
        }
        for ended in self.host.engine.take_outcomes() {
            let range = Range {
                place: (ended.topic, ended.partition),
                first: ended.first,
                last: ended.last,
            };
            let outcome = match &ended.error {
                None => Outcome::Counts,
                Some(_) => Outcome::Fails,
            };
            if let Some(error) = &ended.error {
                book.tally.meet("sharer: an acknowledgement did not count");
                book.say(
                    &self.name,
                    format_args!("{:?} of {range:?}: {error}", ended.kind),
                );
            }
            if self.plant == Some(Plant::OutcomesUntold) && self.chance.percent(20) {
                continue;
            }
            self.note(book, Shared::Told(range, ended.kind, outcome));
        }
    }

    /// Does the next thing; false if it has to wait.
    fn go_on(&mut self, book: &mut Book) -> bool {
        let now = book.now;
        match self.doing {
            Doing::Ended => false,
            Doing::Works(until) => {
                if until <= now {
                    self.worked(book);
                }
                until <= now
            }
            Doing::Commits(id, until) => self.wait(book, id, until),
            Doing::Polls(until) => {
                let looks = std::mem::take(&mut self.is_rung) || until <= now;
                looks && self.poll(book, until)
            }
            Doing::Leaves(until, closes) => self.left(book, until, closes),
        }
    }

    /// It has worked on its records: it acknowledges them.
    fn worked(&mut self, book: &mut Book) {
        let now = book.now;
        let says = self.decide(book);
        match self.habits.commits {
            Commits::ByPolls => self.begin_poll(book),
            _ if !says => self.begin_poll(book),
            commits => {
                self.note(book, Shared::Spoke);
                let until = now + PATIENCE;
                let asked = self.host.work(now, |engine| engine.commit(now, until));
                match asked {
                    Ok(id) if commits == Commits::Waiting => self.doing = Doing::Commits(id, until),
                    Ok(id) => {
                        book.tally.meet("sharer: committed without waiting");
                        self.host.engine.give_up_commit(id);
                        self.begin_poll(book);
                    }
                    Err(_) => self.begin_poll(book),
                }
            }
        }
    }

    /// Acknowledges the records that it has; false if it has none.
    fn decide(&mut self, book: &mut Book) -> bool {
        let open = std::mem::take(&mut self.open);
        let any = !open.is_empty();
        if !self.habits.is_explicit {
            self.host.engine.accept_given();
            if any {
                book.tally
                    .meet("sharer: accepted what it was given by its polls");
            }
        }
        for (lock, place, offset) in open {
            let mut kind = match self.chance.below(100) {
                _ if self.hurries || !self.habits.is_explicit => AcknowledgeType::Accept,
                0..=14 => AcknowledgeType::Release,
                15..=22 => AcknowledgeType::Reject,
                23..=34 => AcknowledgeType::Renew,
                _ => AcknowledgeType::Accept,
            };
            let range = Range {
                place: place.clone(),
                first: offset,
                last: offset,
            };
            if self.habits.is_explicit {
                let offsets = (offset, offset);
                let mut said = self.host.engine.acknowledge(lock, offsets, kind);
                if said
                    .as_ref()
                    .is_err_and(|it| it.kind() == Kind::Unsupported)
                {
                    // Its broker renews no locks.
                    kind = AcknowledgeType::Release;
                    said = self.host.engine.acknowledge(lock, offsets, kind);
                }
                if let Err(error) = said {
                    book.say(&self.name, format_args!("{kind:?} of {range:?}: {error}"));
                    book.tally.meet("sharer: what it said came too late");
                    continue;
                }
                book.tally
                    .meet("sharer: said of each record what becomes of it");
                if kind == AcknowledgeType::Renew {
                    self.open.push((lock, place, offset));
                }
            }
            self.note(book, Shared::Said(range, kind));
        }
        if self.host.engine.has_unacknowledged() {
            let text = format!("{} said something of all its records", self.name);
            book.history.complain("R14", "stuck-poll", text);
        }
        any
    }

    fn begin_poll(&mut self, book: &mut Book) {
        let now = book.now;
        self.note(book, Shared::Spoke);
        let is_dry = self.ready.is_empty();
        self.host.work(now, |engine| engine.poll_began(now, is_dry));
        self.is_rung = true;
        self.doing = Doing::Polls(now + POLL);
    }

    fn end_poll(&mut self, book: &Book, works_until: Instant) {
        let now = book.now;
        self.host.work(now, |engine| engine.poll_ended(now));
        self.doing = Doing::Works(works_until);
    }

    /// A poll goes on; false if there is nothing yet.
    fn poll(&mut self, book: &mut Book, until: Instant) -> bool {
        let now = book.now;
        if let Some(error) = self.host.engine.stuck() {
            let text = format!("poll raised {error}");
            book.say(&self.name, text);
            book.tally.meet("sharer: a poll raised an error");
            self.end_poll(book, now + AFTER_ERROR);
            return true;
        }
        loop {
            if self.gather(book) {
                let works = self.chance.time(Duration::ZERO, self.habits.works);
                let works = self.blocks.take().unwrap_or(works);
                if works > self.habits.lock {
                    book.tally.meet("sharer: worked for longer than its lock");
                }
                self.end_poll(book, now + works);
                return true;
            }
            let Some(acquired) = self.host.work(now, |engine| engine.take()) else {
                break;
            };
            self.take(book, &acquired);
        }
        let failure = self.host.work(now, |engine| engine.take_failure());
        if failure.is_some() || until <= now {
            if let Some(error) = failure.or_else(|| self.host.engine.delay()) {
                book.say(&self.name, format_args!("poll raised {error}"));
                book.tally.meet("sharer: a poll raised an error");
            }
            self.end_poll(book, now + AFTER_ERROR);
            return true;
        }
        self.host.work(now, |engine| engine.poll_goes_on(now));
        false
    }

    /// Queues acquired records, and acknowledges offsets without a record as gaps.
    fn take(&mut self, book: &mut Book, acquired: &Acquired) {
        let now = book.now;
        let (lock, fetched) = (acquired.lock, &acquired.fetched);
        let place = (Arc::clone(&fetched.topic), fetched.partition);
        let dispose = |sharer: &mut Sharer, first, last, kind| {
            sharer.host.work(now, |engine| {
                engine.dispose(now, lock, (first, last), kind);
            });
        };
        let records = match decode(book, fetched, self.plant, &mut Vec::new()) {
            Ok(records) => records,
            Err(cause) => {
                let text = format!("{place:?} from {}: {cause}", fetched.fetch_offset);
                book.history.complain("R7", "corrupt", text);
                for range in acquired.ranges.iter() {
                    let kind = Some(AcknowledgeType::Reject);
                    dispose(self, range.first, range.last, kind);
                }
                return;
            }
        };
        for range in acquired.ranges.iter() {
            let mut due = range.first;
            let within = records.iter();
            let within = within.filter(|(offset, _)| (range.first..=range.last).contains(offset));
            for (offset, value) in within {
                if *offset > due {
                    dispose(self, due, offset - 1, None);
                }
                due = offset + 1;
                self.ready.push_back(Record {
                    lock,
                    place: place.clone(),
                    offset: *offset,
                    deliveries: range.delivery_count,
                    value: value.clone(),
                });
            }
            if due <= range.last {
                dispose(self, due, range.last, None);
            }
        }
    }

    /// Gives out what there is, as much as one poll may; false if there is nothing.
    fn gather(&mut self, book: &mut Book) -> bool {
        let now = book.now;
        let mut given = 0;
        while given < self.habits.most {
            let Some(record) = self.ready.pop_front() else {
                break;
            };
            let Record { lock, offset, .. } = record;
            let is_live = self.host.work(now, |engine| {
                engine.give(now, lock, (offset, offset), (1, 1))
            });
            if !is_live {
                let text = "sharer: a lock had ended before its records were given out";
                book.tally.meet(text);
                continue;
            }
            given += 1;
            self.open.push((lock, record.place.clone(), offset));
            let text = format!(
                "{}-{} {offset}: record {}, delivery {}",
                record.place.0, record.place.1, record.value.id, record.deliveries
            );
            book.trace.say(book.at(), &self.name, text);
            let again = self.plant == Some(Plant::SharedGivenTwice) && self.chance.percent(10);
            for _ in 0..1 + usize::from(again) {
                let (place, value) = (record.place.clone(), record.value.clone());
                self.note(book, Shared::Given(place, offset, record.deliveries, value));
            }
        }
        given > 0
    }

    /// It waits for a commit, and then goes on.
    fn wait(&mut self, book: &mut Book, id: CommitId, until: Instant) -> bool {
        let now = book.now;
        let ended = self.host.engine.take_commit(id).or_else(|| {
            // The alarm of its deadline may come a moment later than this one.
            let is_late = until <= now;
            is_late.then(|| {
                self.host.work(now, |engine| {
                    engine.handle_timeout(now);
                    engine.take_commit(id)
                })
            })?
        });
        let Some(rows) = ended else {
            if until <= now {
                let text = format!("{}: a commit has no end at its deadline", self.name);
                book.history.complain("R14", "call-late", text);
                self.begin_poll(book);
            }
            return until <= now;
        };
        let mut errors = rows.iter().filter_map(|row| row.error.as_ref());
        book.tally
            .meet(match errors.next().map(|error| error.kind()) {
                None => "sharer: committed and waited for it",
                Some(Kind::OutcomeUnknown) => "sharer: a commit's outcome stayed unknown",
                Some(_) => "sharer: a commit came too late",
            });
        self.begin_poll(book);
        true
    }

    fn leave(&mut self, book: &mut Book, closes: bool, timeout: Duration) {
        let what = if closes { "close" } else { "unsubscribe" };
        book.say(&self.name, what);
        if closes && self.host.engine.has_unacknowledged() {
            book.tally
                .meet("sharer: closed with records that it had said nothing of");
        }
        let (now, until) = (book.now, book.now + timeout);
        match self.doing {
            Doing::Polls(_) => self.end_poll(book, now),
            Doing::Commits(id, _) => self.host.engine.give_up_commit(id),
            _ => {}
        }
        self.note(book, Shared::Leaves);
        self.host.work(now, |engine| engine.leave_group(now, until));
        self.ready.clear();
        self.open.clear();
        self.doing = Doing::Leaves(until, closes);
    }

    /// Whether it is done with leaving its group; if the time is over, it is.
    fn left(&mut self, book: &mut Book, until: Instant, closes: bool) -> bool {
        let now = book.now;
        let in_time = !self.host.engine.is_leaving_group();
        if !in_time && until > now {
            return false;
        }
        if !in_time {
            book.tally.meet("sharer: had no time to leave");
            self.host.work(now, |engine| engine.abandon_group(now));
        }
        self.collect(book);
        self.note(book, Shared::Left(in_time));
        if closes {
            self.host.close(now);
            self.collect(book);
            self.doing = Doing::Ended;
        } else {
            book.tally.meet("sharer: left and came back");
            let pause = self.chance.millis(1, 1000);
            let topics = std::mem::take(&mut self.topics);
            self.subscribe(book, topics);
            self.doing = Doing::Works(now + pause);
        }
        true
    }

    fn end(&mut self, book: &mut Book) {
        self.note(book, Shared::Died);
        self.doing = Doing::Ended;
        self.ready.clear();
        self.open.clear();
    }
}
