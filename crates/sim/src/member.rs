//! A consumer of a group as an application uses it: it subscribes, polls, works on what it got,
//! handles rebalances, commits, seeks, pauses and leaves, as `ottla-client` does it above the
//! engine, and records the results.
//!
//! ```text
//!        a poll gave records            it has worked on them
//!   polls ─────────────────▶ works ────────────────────────────▶ commits ──▶ polls
//!     │ ▲                                                           ▲
//!     │ └── the listener returned ◀── listens ◀── it may commit ────┘
//!     └── a rebalance ──────────────────▲
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::call::GroupOffset;
use ottla_engine::consumer::{CommitId, Consumer as Work, Pattern, Rebalance, Selection, Start};
use ottla_engine::observe::Observed;
use ottla_engine::{Config, Engine, Error, Kind};
use ottla_protocol::Uuid;

use crate::book::Book;
use crate::chance::Chance;
use crate::habits::{By, Commits, Habits};
use crate::history::{Joint, Origin, Place, Process, Seen};
use crate::host::Host;
use crate::plant::Plant;
use crate::reading::{Chunk, decode};

/// How long one poll waits for records.
const POLL: Duration = Duration::from_millis(500);
/// An application that got an error does not poll again at once.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// How long a commit may take at most, and leaving the group.
const PATIENCE: Duration = Duration::from_secs(4);
/// An offset that no log ever has.
pub const BEYOND: i64 = 1 << 40;

/// What the application is about.
#[derive(Debug)]
enum Doing {
    /// It works on what it got, until then.
    Works(Instant),
    /// A poll is under way, until then.
    Polls(Instant),
    /// Its listener handles a change, until then.
    Listens(Instant, Rebalance),
    /// It waits for a commit until then. Its listener may be the one.
    Commits(Asked, Instant, Option<(Instant, Rebalance)>),
    /// Its process has ended.
    Ended,
}

/// A commit that was asked for, by its number in the history.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: CommitId,
    number: usize,
}

/// How it leaves its group.
#[derive(Debug)]
struct Leaving {
    until: Instant,
    /// The engine knows.
    begun: bool,
    /// It closes afterwards; else it subscribes again.
    closes: bool,
}

/// A consumer of a group and the application around it.
#[derive(Debug)]
pub struct Member {
    /// The client.
    pub host: Host<Work>,
    name: String,
    /// Its places in [`crate::history::History::processes`] and in [`crate::history::History::seen`].
    process: usize,
    seen: usize,
    habits: Habits,
    plant: Option<Plant>,
    chance: Chance,
    topics: Vec<Arc<str>>,
    doing: Doing,
    leaving: Option<Leaving>,
    decoded: VecDeque<Chunk>,
    /// What it owns, by the notifications of its listener, and the offset after what it was given
    /// of each.
    owned: BTreeSet<Place>,
    given: BTreeMap<Place, i64>,
    /// What it was given and has not committed.
    is_fresh: bool,
    /// It works on the next records for so long.
    blocks: Option<Duration>,
    /// Its epoch that was noted last.
    epoch: i32,
}

impl Member {
    /// The next process of these habits, which subscribes to these topics.
    pub fn new(
        book: &mut Book,
        config: Config,
        habits: &Habits,
        topics: Vec<Arc<str>>,
        chance: &mut Chance,
        plant: Option<Plant>,
    ) -> Member {
        let process = book.history.processes.len();
        book.history.processes.push(Process {
            group: habits.group,
            instance: habits.instance.clone(),
            cooperates: habits.cooperates,
            by_epoch: habits.by_epoch,
            commits_itself: habits.commits == Commits::ByPolls,
        });
        let seen = book.history.seen.len();
        book.history.seen.push(Vec::new());
        let name = format!("{}.{process}", config.client_id);
        let engine = Engine::consumer(Arc::new(config), chance.number());
        let mut member = Member {
            host: Host::new(engine, chance.fork(), plant),
            name,
            process,
            seen,
            habits: habits.clone(),
            plant,
            chance: chance.fork(),
            topics: Vec::new(),
            doing: Doing::Works(book.now),
            leaving: None,
            decoded: VecDeque::new(),
            owned: BTreeSet::new(),
            given: BTreeMap::new(),
            is_fresh: false,
            blocks: None,
            epoch: -1,
        };
        member.subscribe(book, topics);
        member
    }

    /// Its name in traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its place in [`crate::history::History::processes`].
    pub fn process(&self) -> usize {
        self.process
    }

    /// Whether its process has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Ended)
    }

    /// Whether it is about to leave its group for good.
    pub fn is_closing(&self) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.closes)
    }

    /// Subscribes to these topics and no others.
    pub fn subscribe(&mut self, book: &mut Book, topics: Vec<Arc<str>>) {
        book.say(&self.name, format_args!("subscribe {topics:?}"));
        let names = topics.iter().cloned().collect();
        let pattern = topics.join("|");
        let selection = match (self.habits.subscribes, Pattern::parse(&pattern)) {
            (By::Pattern, Ok(pattern)) => Selection::Pattern(pattern),
            (By::Regex, _) => Selection::Regex(pattern.into()),
            _ => Selection::Names(names),
        };
        book.tally.meet(match selection {
            Selection::Names(_) => "member: subscribed by names",
            Selection::Pattern(_) => "member: subscribed by a pattern",
            Selection::Regex(_) => "member: subscribed by an expression",
        });
        let now = book.now;
        let _closed = self
            .host
            .work(now, |engine| engine.subscribe(now, selection));
        self.topics = topics;
        self.note(book, Joint::Subscribed);
    }

    /// Subscribes to all that there is, reads as fast as it can, and pauses nothing.
    pub fn hurry(&mut self, book: &mut Book, topics: &[(Arc<str>, i32)]) {
        if self.is_over() {
            return;
        }
        let now = book.now;
        for place in self.owned.clone() {
            if self.host.engine.is_paused(&place.0, place.1) {
                self.pause(book, &place, false);
            }
        }
        self.habits.works = Duration::from_millis(1);
        self.habits.listens = Duration::ZERO;
        self.habits.most = self.habits.most.max(100);
        self.blocks = None;
        if let Doing::Works(until) = &mut self.doing {
            *until = (*until).min(now);
        }
        let all: Vec<_> = topics.iter().map(|(topic, _)| Arc::clone(topic)).collect();
        match self.leaving {
            // It subscribes again when it has left.
            Some(_) => self.topics = all,
            None => self.subscribe(book, all),
        }
        self.settle(book);
    }

    /// Does something that `which` chooses.
    pub fn act(&mut self, book: &mut Book, which: u64, topics: &[(Arc<str>, i32)]) {
        if self.is_over() || self.leaving.is_some() {
            return;
        }
        let mut chance = Chance::new(which);
        let places: Vec<Place> = self.owned.iter().cloned().collect();
        let place = places.get(chance.below(places.len())).cloned();
        match (chance.below(100), place) {
            (0..=19, Some(place)) => {
                let given = self.given.get(&place).copied().unwrap_or(0);
                let back = chance.below(20) as i64;
                self.seek(book, &place, (given - back).max(0));
            }
            (20..=25, Some(place)) => self.seek(book, &place, 0),
            (26..=33, Some(place)) => self.seek(book, &place, BEYOND),
            (34..=44, Some(place)) => {
                let paused = self.host.engine.is_paused(&place.0, place.1);
                self.pause(book, &place, !paused);
            }
            (45..=54, _) => self.leave(book, false, PATIENCE),
            // A coordinator keeps the assignment for the next process of an instance (KIP-345), whatever that subscribes to; one that
            // assigns itself does not.
            (55..=66, _) if self.habits.instance.is_none() || self.habits.by_epoch => {
                let some = topics.iter().enumerate();
                let some = some.filter(|(number, _)| which >> (8 + number) & 1 == 0);
                let mut some: Vec<_> = some.map(|(_, (name, _))| Arc::clone(name)).collect();
                if some.is_empty() {
                    some.extend(topics.first().map(|(name, _)| Arc::clone(name)));
                }
                self.subscribe(book, some);
            }
            (67..=78, _) => self.leave(book, true, PATIENCE),
            (79..=88, _) => {
                self.blocks = Some(self.habits.poll_interval + chance.millis(500, 4000));
            }
            (89..=94, Some(place)) => {
                let given = self.given.get(&place).copied().unwrap_or(0);
                let back = (given - chance.below(10) as i64).max(0);
                self.commit(book, vec![(place, back)]);
            }
            _ => {
                let all = self.given.clone().into_iter().collect();
                self.commit(book, all);
            }
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

    /// Commits where it does that, leaves its group and closes, within `timeout`.
    pub fn close(&mut self, book: &mut Book, timeout: Duration) {
        if self.is_over() {
            return;
        }
        self.leave(book, true, timeout);
        if let Some(leaving) = &mut self.leaving {
            leaving.closes = true;
        }
        if let Doing::Works(until) = &mut self.doing {
            *until = (*until).min(book.now);
        }
        self.settle(book);
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.is_over() && (self.host.is_dead() || self.host.is_closed())
    }

    /// When [`Member::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let own = match &self.doing {
            Doing::Works(until)
            | Doing::Polls(until)
            | Doing::Listens(until, _)
            | Doing::Commits(_, until, _) => Some(*until),
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

    fn note(&self, book: &mut Book, joint: Joint) {
        let at = book.at();
        book.history.joint.push((at, self.process, joint));
    }

    fn saw(&self, book: &mut Book, seen: Seen) {
        if let Some(list) = book.history.seen.get_mut(self.seen) {
            list.push(seen);
        }
    }

    fn generation(&self) -> i32 {
        let metadata = self.host.engine.group_metadata();
        metadata.map_or(-1, |metadata| metadata.generation)
    }

    fn seek(&mut self, book: &mut Book, place: &Place, to: i64) {
        book.say(&self.name, format_args!("seek {place:?} to {to}"));
        let now = book.now;
        let sought = self.host.work(now, |engine| {
            engine.seek(now, &place.0, place.1, Start::Offset(to))
        });
        if sought.is_ok() {
            self.given.remove(place);
            self.note(book, Joint::Sought(place.clone(), to));
            self.saw(book, Seen::Begin(place.clone(), Origin::Anywhere));
        }
    }

    fn pause(&mut self, book: &mut Book, place: &Place, paused: bool) {
        book.say(&self.name, format_args!("pause {place:?}: {paused}"));
        let now = book.now;
        let done = self.host.work(now, |engine| {
            engine.set_paused(now, &place.0, place.1, paused)
        });
        if done.is_ok() {
            self.saw(book, Seen::Paused(place.clone(), paused));
        }
    }

    fn leave(&mut self, book: &mut Book, closes: bool, timeout: Duration) {
        let what = if closes { "close" } else { "unsubscribe" };
        book.say(&self.name, what);
        self.leaving.get_or_insert(Leaving {
            until: book.now + timeout,
            begun: false,
            closes,
        });
        if matches!(self.doing, Doing::Polls(_)) {
            self.end_poll(book, book.now);
        }
    }

    /// Takes in events.
    fn collect(&mut self, book: &mut Book) {
        self.host.take_changes();
        self.note_epoch(book);
        while let Some(event) = self.host.poll_observed() {
            match &event {
                Observed::OffsetReset {
                    topic,
                    partition,
                    from,
                    to,
                    ..
                } => {
                    let place = (Arc::clone(topic), *partition);
                    self.given.remove(&place);
                    self.note(book, Joint::Reset(place.clone(), *from, *to));
                    self.saw(book, Seen::Begin(place, Origin::Anywhere));
                }
                Observed::MembershipLost { reason, .. } => {
                    self.note(book, Joint::Expelled);
                    book.tally.meet(self.why_lost(reason));
                }
                Observed::GroupProtocolChosen { .. } => {
                    book.tally
                        .meet("member: took the protocol that brokers have");
                }
                _ => {}
            }
            book.observe(&self.name, &event);
        }
    }

    /// Notes if it came to another epoch.
    fn note_epoch(&mut self, book: &mut Book) {
        let epoch = self.generation();
        if self.habits.by_epoch && self.epoch != epoch {
            self.epoch = epoch;
            book.tally.meet("member: came to another epoch");
            self.note(book, Joint::InEpoch(epoch));
        }
    }

    /// Nobody came or went for a time.
    pub fn stayed(&mut self, book: &mut Book) {
        if !self.is_over() {
            self.note(book, Joint::Stayed);
        }
    }

    fn why_lost(&self, reason: &str) -> &'static str {
        match &self.doing {
            _ if reason.contains("max.poll.interval.ms") => "member: did not poll in time",
            Doing::Listens(..) => "member: was expelled while its listener worked",
            Doing::Commits(..) => "member: was expelled while it committed",
            Doing::Polls(_) => "member: was expelled in a poll",
            _ => "member: was expelled between polls",
        }
    }

    /// Does the next thing; false if it has to wait.
    fn go_on(&mut self, book: &mut Book) -> bool {
        let now = book.now;
        match std::mem::replace(&mut self.doing, Doing::Ended) {
            Doing::Ended => false,
            Doing::Works(until) if until > now => {
                self.doing = Doing::Works(until);
                false
            }
            Doing::Works(until) => {
                self.doing = Doing::Works(until);
                let commits = self.habits.commits != Commits::ByPolls && self.leaving.is_none();
                if commits && std::mem::take(&mut self.is_fresh) {
                    let all = self.given.clone().into_iter().collect();
                    self.commit(book, all);
                } else {
                    self.begin_poll(book);
                }
                true
            }
            Doing::Polls(until) => {
                self.doing = Doing::Polls(until);
                self.poll(book, until)
            }
            Doing::Listens(until, change) if until > now => {
                self.doing = Doing::Listens(until, change);
                false
            }
            Doing::Listens(_, change) => {
                self.returned(book, &change);
                self.begin_poll(book);
                true
            }
            Doing::Commits(asked, until, listens) => self.wait(book, asked, until, listens),
        }
    }

    /// It waits for a commit, and then goes on.
    fn wait(
        &mut self,
        book: &mut Book,
        asked: Asked,
        until: Instant,
        listens: Option<(Instant, Rebalance)>,
    ) -> bool {
        let now = book.now;
        let ended = self.host.engine.take_commit(asked.id);
        if ended.is_none() && until > now {
            self.doing = Doing::Commits(asked, until, listens);
            return false;
        }
        match ended {
            Some(Ok(())) => {
                book.tally.meet("member: committed and waited for it");
                self.note(book, Joint::Committed(asked.number));
            }
            Some(Err(error)) => {
                book.say(&self.name, format_args!("a commit failed: {error}"));
                book.tally.meet(match error.kind() {
                    Kind::CommitFailed => "member: a commit came too late",
                    _ => "member: a commit failed",
                });
            }
            None => {
                self.host.engine.give_up_commit(asked.id);
                book.tally.meet("member: a commit's outcome stayed unknown");
            }
        }
        match listens {
            Some((until, change)) => self.doing = Doing::Listens(until, change),
            None => self.begin_poll(book),
        }
        true
    }

    fn begin_poll(&mut self, book: &mut Book) {
        let now = book.now;
        self.note(book, Joint::Polled);
        self.saw(book, Seen::Polled);
        self.host.work(now, |engine| engine.poll_began(now));
        if let Some(leaving) = self.leaving.as_mut().filter(|leaving| !leaving.begun) {
            leaving.begun = true;
            let until = leaving.until;
            self.host.work(now, |engine| engine.leave_group(now, until));
        }
        let until = self.leaving.as_ref().map(|leaving| leaving.until);
        self.doing = Doing::Polls(until.unwrap_or(now + POLL));
    }

    fn end_poll(&mut self, book: &Book, works_until: Instant) {
        let now = book.now;
        self.host.work(now, |engine| engine.poll_ended(now));
        self.doing = Doing::Works(works_until);
    }

    /// A poll continues: it reports rebalances, then gives out records; false if there is nothing
    /// yet.
    fn poll(&mut self, book: &mut Book, until: Instant) -> bool {
        let now = book.now;
        if self.host.engine.wants_given(now) {
            let gives_first = self.plant == Some(Plant::CommitsTooSoon) && self.gather(book);
            self.host.work(now, |engine| {
                let given = engine.given(|_, _| None);
                engine.note_given(now, given);
            });
            if gives_first {
                self.end_poll(book, now + self.habits.works);
            }
            return true;
        }
        if let Some(change) = self.host.work(now, |engine| engine.take_rebalance(now)) {
            self.end_poll(book, now);
            self.tell(book, change);
            return true;
        }
        if self.leaving.is_some() {
            return self.left(book, until);
        }
        if !self.host.engine.is_held() {
            if let Some(error) = self.host.engine.stuck().cloned() {
                self.help(book, &error);
                return true;
            }
            if self.gather(book) {
                let works = self.chance.time(Duration::ZERO, self.habits.works);
                let works = self.blocks.take().unwrap_or(works);
                self.end_poll(book, now + works);
                return true;
            }
        }
        if until <= now {
            self.end_poll(book, now);
            return true;
        }
        false
    }

    /// Whether it is done with leaving its group; if the time is over, it is.
    fn left(&mut self, book: &mut Book, until: Instant) -> bool {
        let now = book.now;
        let in_time = !self.host.engine.is_leaving_group();
        if !in_time && until > now {
            return false;
        }
        if !in_time {
            book.tally.meet("member: had no time to leave");
            self.host.work(now, |engine| engine.abandon_group(now));
        }
        let Some(leaving) = self.leaving.take() else {
            return false;
        };
        self.host.work(now, |engine| engine.poll_ended(now));
        self.decoded.clear();
        self.note(book, Joint::Ended);
        self.owned.clear();
        self.given.clear();
        if leaving.closes {
            self.host.close(now);
            self.collect(book);
            self.doing = Doing::Ended;
        } else {
            book.tally.meet("member: left and came back");
            let pause = self.chance.millis(1, 1000);
            let topics = std::mem::take(&mut self.topics);
            self.subscribe(book, topics);
            self.doing = Doing::Works(now + pause);
        }
        true
    }

    fn end(&mut self, book: &mut Book) {
        self.note(book, Joint::Ended);
        self.doing = Doing::Ended;
        self.leaving = None;
        self.decoded.clear();
        self.owned.clear();
        self.given.clear();
    }

    /// Its listener is notified of a change.
    fn tell(&mut self, book: &mut Book, change: Rebalance) {
        let (now, generation) = (book.now, self.generation());
        book.say(
            &self.name,
            format_args!("listener: {change:?} in {generation}"),
        );
        let joint = match &change {
            Rebalance::Assigned(added) => {
                self.owned.extend(added.iter().cloned());
                for place in added {
                    self.saw(book, Seen::Paused(place.clone(), false));
                    self.saw(book, Seen::Begin(place.clone(), Origin::Anywhere));
                }
                book.tally.meet("member: was assigned partitions");
                Joint::Assigned(generation, added.clone())
            }
            Rebalance::Revoked(gone) => {
                book.tally.meet(match gone.len() < self.owned.len() {
                    true => "member: some of its partitions were revoked",
                    false => "member: all of its partitions were revoked",
                });
                Joint::Revoked(generation, gone.clone())
            }
            Rebalance::Lost(gone) => {
                book.tally.meet("member: its partitions were lost");
                Joint::Lost(gone.clone())
            }
        };
        self.note(book, joint);
        let listens = self.chance.time(Duration::ZERO, self.habits.listens);
        let until = self.within(now + listens);
        let is_revoked = matches!(change, Rebalance::Revoked(_));
        self.doing = Doing::Listens(until, change.clone());
        if is_revoked && self.habits.commits_in_listener && !self.given.is_empty() {
            let all = self.given.clone().into_iter().collect();
            if let Some(asked) = self.ask_for_commit(book, all, true) {
                book.tally.meet("member: committed in its listener");
                let patience = self.within(now + PATIENCE);
                self.doing = Doing::Commits(asked, patience, Some((until, change)));
            }
        }
    }

    /// Its application has no more time for anything than is left to leave the group.
    fn within(&self, until: Instant) -> Instant {
        let leaving = self.leaving.as_ref();
        leaving.map_or(until, |leaving| until.min(leaving.until))
    }

    /// Its listener returned.
    fn returned(&mut self, book: &mut Book, change: &Rebalance) {
        let now = book.now;
        if let Rebalance::Revoked(gone) | Rebalance::Lost(gone) = change {
            for place in gone {
                self.owned.remove(place);
                self.given.remove(place);
            }
            if self.plant != Some(Plant::GivenAfterRevoked) {
                let owned = &self.owned;
                self.decoded.retain(|chunk| owned.contains(&chunk.place));
            }
        }
        self.note(book, Joint::GaveUp);
        self.host.work(now, |engine| engine.told_rebalance(now));
    }

    /// Commits these offsets as its application does it.
    fn commit(&mut self, book: &mut Book, offsets: Vec<(Place, i64)>) {
        let waits =
            self.habits.commits == Commits::Waiting && matches!(self.doing, Doing::Works(_));
        let until = book.now + PATIENCE;
        if offsets.is_empty() {
            return;
        }
        if let Some(asked) = self.ask_for_commit(book, offsets, waits).filter(|_| waits) {
            self.doing = Doing::Commits(asked, until, None);
        }
    }

    fn ask_for_commit(
        &mut self,
        book: &mut Book,
        offsets: Vec<(Place, i64)>,
        waits: bool,
    ) -> Option<Asked> {
        let now = book.now;
        let number = book.history.joint.len();
        book.say(&self.name, format_args!("commit {number}: {offsets:?}"));
        self.note(book, Joint::Asked(number, offsets.clone()));
        let rows = offsets
            .into_iter()
            .map(|((topic, partition), offset)| GroupOffset {
                topic,
                partition,
                offset,
                leader_epoch: -1,
                metadata: Arc::default(),
                topic_id: Uuid::ZERO,
            });
        let rows = rows.collect();
        let until = now + PATIENCE;
        let asked = self
            .host
            .work(now, |engine| engine.commit(now, rows, until, waits));
        match asked {
            Ok(id) => Some(Asked { id, number }),
            Err(_) => {
                book.tally.meet("member: a commit was refused at once");
                None
            }
        }
    }

    /// An error that a poll raises.
    fn help(&mut self, book: &mut Book, error: &Error) {
        book.say(&self.name, format_args!("poll raised {error}"));
        let now = book.now;
        if error.kind() == Kind::Fenced {
            book.tally
                .meet("member: was fenced by another with its instance id");
            self.host.work(now, |engine| engine.poll_ended(now));
            self.host.close(now);
            self.collect(book);
            return self.end(book);
        }
        book.tally.meet("member: a poll raised an error");
        if let Some((topic, partition)) = error.topic().zip(error.partition()) {
            let place = (Arc::from(topic), partition);
            self.seek(book, &place, 0);
        }
        self.end_poll(book, now + AFTER_ERROR);
    }

    /// Gives out what there is, as much as one poll may; false if there is nothing.
    fn gather(&mut self, book: &mut Book) -> bool {
        let mut left = self.habits.most;
        while left > 0 {
            let Some(chunk) = self.decoded.pop_front() else {
                if !self.decode(book) {
                    break;
                }
                continue;
            };
            left -= self.give_out(book, chunk, left);
        }
        left < self.habits.most
    }

    /// Decodes what comes next; false if there is nothing.
    fn decode(&mut self, book: &mut Book) -> bool {
        let now = book.now;
        let Some(taken) = self.host.work(now, |engine| engine.take(now)) else {
            return false;
        };
        let fetched = &taken.fetched;
        let place = (Arc::clone(&fetched.topic), fetched.partition);
        match decode(book, fetched, self.plant, &mut Vec::new()) {
            Ok(records) => self.decoded.push_back(Chunk {
                place,
                generation: taken.generation,
                records,
                next_offset: fetched.next_offset,
            }),
            Err(cause) => {
                let text = format!("{place:?} from {}: {cause}", fetched.fetch_offset);
                book.history.complain("R7", "corrupt", text);
                let (offset, error) = (fetched.fetch_offset, fetched.corrupt(&cause));
                let (engine, generation) = (&mut self.host.engine, taken.generation);
                engine.reject(&place.0, place.1, generation, offset, error);
            }
        }
        true
    }

    /// Gives out at most `most` records of a chunk, and keeps the rest; returns how many.
    fn give_out(&mut self, book: &mut Book, mut chunk: Chunk, most: usize) -> usize {
        let rest = chunk.cut(most);
        let (topic, partition) = (&chunk.place.0, chunk.place.1);
        let engine = &mut self.host.engine;
        let current = engine.advance(topic, partition, chunk.generation, chunk.next_offset);
        if !current {
            book.tally.meet("member: dropped records that were stale");
            if self.plant != Some(Plant::GivenAfterRevoked) {
                return 0;
            }
        }
        let count = chunk.records.len();
        for (offset, value) in chunk.records {
            let place = chunk.place.clone();
            self.given.insert(place.clone(), offset.saturating_add(1));
            self.is_fresh = true;
            book.trace.say(
                book.at(),
                &self.name,
                format_args!("{}-{} {offset}: record {}", place.0, place.1, value.id),
            );
            self.note(book, Joint::Given(place.clone(), offset));
            self.saw(book, Seen::Record(place, offset, value));
        }
        if let Some(rest) = rest {
            self.decoded.push_front(rest);
        }
        count
    }
}
