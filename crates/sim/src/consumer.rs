//! A consumer as an application uses it: it assigns, seeks, pauses and polls, as `ottla-client` does it above the engine, and
//! writes down what it gets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::consumer::{Consumer as Work, Start};
use ottla_engine::observe::Observed;
use ottla_engine::{Config, Engine, Error, ErrorCode, Kind};

use crate::book::Book;
use crate::chance::Chance;
use crate::history::{Origin, Place, Seen};
use crate::host::Host;
use crate::plant::Plant;
use crate::reading::{Chunk, decode};

/// An application that got an error does not poll again at once.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// A consumer and the application around it.
#[derive(Debug)]
pub struct Consumer {
    /// The client.
    pub host: Host<Work>,
    name: String,
    number: usize,
    plant: Option<Plant>,
    decoded: VecDeque<Chunk>,
    /// How long it rests between two polls, and the most records of one.
    rest: Duration,
    most: usize,
    next_poll: Option<Instant>,
    /// How far each partition was given out.
    positions: BTreeMap<Place, i64>,
    /// Topics that are followed, and where they are read from.
    followed: Option<(Vec<Arc<str>>, Origin)>,
    /// Where it is written down already from where they are read.
    begun: BTreeSet<Place>,
    /// It sees only what was committed.
    is_isolated: bool,
    /// Nothing is polled while this is set.
    closed: bool,
}

impl Consumer {
    /// A consumer that has done nothing. Its number is its place in [`crate::history::History::seen`].
    pub fn new(
        book: &mut Book,
        config: Config,
        chance: &mut Chance,
        plant: Option<Plant>,
        rest: Duration,
        most: usize,
    ) -> Consumer {
        let number = book.history.seen.len();
        book.history.seen.push(Vec::new());
        let is_isolated = config.read_committed;
        if is_isolated {
            book.history.isolated.push(number);
        }
        let name = config.client_id.clone();
        let engine = Engine::consumer(Arc::new(config), chance.number());
        Consumer {
            host: Host::new(engine, chance.fork(), plant),
            name,
            number,
            plant,
            decoded: VecDeque::new(),
            rest,
            most,
            next_poll: None,
            positions: BTreeMap::new(),
            followed: None,
            begun: BTreeSet::new(),
            is_isolated,
            closed: false,
        }
    }

    /// Its name in traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn note(&self, book: &mut Book, seen: Seen) {
        if let Some(list) = book.history.seen.get_mut(self.number) {
            list.push(seen);
        }
    }

    fn begin(&mut self, book: &mut Book, place: Place, start: Start) {
        let from = match start {
            Start::Offset(offset) | Start::After(offset, _) => Origin::Offset(offset),
            Start::Beginning => Origin::Beginning,
            Start::End | Start::Reset | Start::Committed => Origin::Anywhere,
        };
        self.positions.remove(&place);
        self.begun.insert(place.clone());
        self.note(book, Seen::Begin(place, from));
    }

    /// Reads these partitions and no others.
    pub fn assign(&mut self, book: &mut Book, wanted: Vec<(Arc<str>, i32, Start)>) {
        book.say(&self.name, format_args!("assign {wanted:?}"));
        let now = book.now;
        let places: Vec<Place> = self.assignment();
        let rows = wanted.clone();
        self.followed = None;
        if self
            .host
            .work(now, |engine| engine.assign(now, rows))
            .is_ok()
        {
            for place in places {
                if !wanted
                    .iter()
                    .any(|(topic, partition, _)| (topic, *partition) == (&place.0, place.1))
                {
                    self.positions.remove(&place);
                    self.note(book, Seen::Left(place));
                }
            }
            for (topic, partition, start) in wanted {
                let place = (topic, partition);
                self.begin(book, place.clone(), start);
                let paused = self.host.engine.is_paused(&place.0, partition);
                self.note(book, Seen::Paused(place, paused));
            }
        }
        self.ready(book);
    }

    /// Reads all partitions of these topics.
    pub fn follow(&mut self, book: &mut Book, topics: Vec<Arc<str>>, start: Start) {
        book.say(&self.name, format_args!("follow {topics:?} from {start:?}"));
        let now = book.now;
        let from = match start {
            Start::Beginning => Origin::Beginning,
            _ => Origin::Anywhere,
        };
        // A topic that is no longer followed is forgotten, with its pause.
        for place in self.assignment() {
            if !topics.contains(&place.0) {
                self.note(book, Seen::Left(place));
            }
        }
        self.followed = Some((topics.clone(), from));
        self.begun.clear();
        let _ = self.host.work(now, |engine| {
            engine.follow(now, topics)?;
            engine.seek_all(now, start)
        });
        self.ready(book);
    }

    /// Reads a partition from elsewhere.
    pub fn seek(&mut self, book: &mut Book, place: &Place, to: Start) {
        book.say(&self.name, format_args!("seek {place:?} to {to:?}"));
        let now = book.now;
        let known = self.assignment().contains(place);
        let sought = match self.plant {
            Some(Plant::SeekIgnored) => Ok(()),
            _ => self
                .host
                .work(now, |engine| engine.seek(now, &place.0, place.1, to)),
        };
        if sought.is_ok() && known {
            self.begin(book, place.clone(), to);
        }
        self.ready(book);
    }

    /// Stops or resumes a partition.
    pub fn pause(&mut self, book: &mut Book, place: &Place, paused: bool) {
        book.say(&self.name, format_args!("pause {place:?}: {paused}"));
        let now = book.now;
        let done = match self.plant {
            Some(Plant::PauseIgnored) => self.assignment().contains(place),
            _ => {
                let pausing =
                    |engine: &mut Engine<Work>| engine.set_paused(now, &place.0, place.1, paused);
                self.host.work(now, pausing).is_ok()
            }
        };
        if done {
            self.note(book, Seen::Paused(place.clone(), paused));
        }
        self.ready(book);
    }

    /// From now on it polls as fast as it can.
    pub fn hurry(&mut self) {
        self.rest = Duration::from_millis(1);
        self.most = self.most.max(100);
    }

    /// The assigned partitions.
    pub fn assignment(&self) -> Vec<Place> {
        let each = self.host.engine.assignment();
        each.map(|(topic, partition, _)| (Arc::clone(topic), partition))
            .collect()
    }

    /// The position of each partition, as the engine returns it.
    pub fn positions(&self) -> Vec<(Place, Option<i64>)> {
        let each = self.host.engine.positions();
        each.map(|(topic, partition, next)| ((Arc::clone(topic), partition), next))
            .collect()
    }

    /// Closes it.
    pub fn close(&mut self, book: &mut Book) {
        let now = book.now;
        self.closed = true;
        self.next_poll = None;
        if self.plant != Some(Plant::CloseHangs) {
            self.host.close(now);
        }
        self.settle(book);
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// When [`Consumer::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_poll
            .into_iter()
            .chain(self.host.next_timeout())
            .min()
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, book: &mut Book) {
        self.host.alarm(book.now);
        if self.next_poll.is_some_and(|at| at <= book.now) {
            self.next_poll = None;
            self.poll(book);
        }
        self.settle(book);
    }

    /// Handles the engine's output.
    pub fn settle(&mut self, book: &mut Book) {
        while let Some(event) = self.host.poll_observed() {
            if let Observed::OffsetReset {
                topic,
                partition,
                from,
                to,
                ..
            } = &event
            {
                let place = (Arc::clone(topic), *partition);
                if *from >= 0 {
                    self.begin_followed(book, &place);
                }
                if (0..*to).contains(from) {
                    let state = "consumer: what it was to read next was deleted";
                    book.tally.meet(state);
                }
                if self.plant != Some(Plant::ResetUntold) {
                    self.note(book, Seen::Reset(place, *from, *to));
                }
            }
            if let Observed::LogTruncated {
                topic,
                partition,
                position: (position, _),
                parting,
            } = &event
            {
                let place = (Arc::clone(topic), *partition);
                self.note_truncation(book, place, *position, parting.map(|(at, _)| at));
            }
            book.observe(&self.name, &event);
        }
        if !self.host.take_changes().is_empty() {
            self.ready(book);
        }
    }

    /// There may be something to poll.
    fn ready(&mut self, book: &Book) {
        if !self.closed && self.next_poll.is_none() {
            self.next_poll = Some(book.now + self.rest);
        }
    }

    /// The records of one poll, as the client's `gather` returns them.
    fn poll(&mut self, book: &mut Book) {
        if let Some(error) = self.host.engine.stuck().cloned() {
            return self.help(book, &error);
        }
        self.note(book, Seen::Polled);
        let mut left = self.most;
        while left > 0 {
            let Some(chunk) = self.decoded.pop_front() else {
                if !self.decode(book) {
                    break;
                }
                continue;
            };
            left -= self.give_out(book, chunk, left);
        }
        if left == 0 {
            book.tally.meet("consumer: a poll was full");
            self.ready(book);
        }
    }

    /// The first records of a partition that a followed topic brought.
    fn begin_followed(&mut self, book: &mut Book, place: &Place) {
        let Some((topics, from)) = self.followed.clone() else {
            return;
        };
        if topics.contains(&place.0) && self.begun.insert(place.clone()) {
            let paused = self.host.engine.is_paused(&place.0, place.1);
            self.note(book, Seen::Paused(place.clone(), paused));
            self.note(book, Seen::Begin(place.clone(), from));
        }
    }

    /// Records that were read from `parting` to `position` are lost.
    fn note_truncation(
        &mut self,
        book: &mut Book,
        place: Place,
        position: i64,
        parting: Option<i64>,
    ) {
        if self.plant == Some(Plant::TruncationPassedOver) {
            let now = book.now;
            let behind = Start::Offset(position);
            let seek = |engine: &mut Engine<Work>| engine.seek(now, &place.0, place.1, behind);
            let _ = self.host.work(now, seek);
            return;
        }
        self.note(book, Seen::Truncated(place, position, parting));
    }

    /// An error that a poll raises; an application would seek past it.
    fn help(&mut self, book: &mut Book, error: &Error) {
        book.say(&self.name, format_args!("poll raised {error}"));
        book.tally.meet("consumer: a poll raised an error");
        let place = error.topic().zip(error.partition());
        if let Some((topic, partition)) = place {
            let place = (Arc::from(topic), partition);
            let to = match error.kind() {
                Kind::Truncated => self.learn_truncation(book, &place, error),
                _ if error.code() == Some(ErrorCode::OFFSET_OUT_OF_RANGE) => {
                    self.note(book, Seen::Denied(place.clone()));
                    Start::Beginning
                }
                _ => Start::Beginning,
            };
            self.seek(book, &place, to);
        }
        self.next_poll = Some(book.now + self.rest.max(AFTER_ERROR));
    }

    /// Notes the content of a truncation error, and where the application continues: where the logs
    /// diverge, or after what is lost.
    fn learn_truncation(&mut self, book: &mut Book, place: &Place, error: &Error) -> Start {
        book.tally.meet("consumer: a truncation was raised");
        let Some(truncation) = error.truncation() else {
            let text = format!("{}: {error}", self.name);
            book.history.complain("R16", "wrong-truncation", text);
            return Start::Beginning;
        };
        let position = truncation.offset;
        let parting = truncation.divergent.map(|(at, _)| at);
        self.note_truncation(book, place.clone(), position, parting);
        match parting {
            None => Start::Beginning,
            // Some applications do the one, some the other.
            Some(parting) if parting % 2 == 0 => {
                book.tally
                    .meet("consumer: went back to where the logs part");
                Start::Offset(parting)
            }
            Some(_) => {
                book.tally.meet("consumer: went on behind what was lost");
                Start::Offset(position)
            }
        }
    }

    /// Decodes what comes next; false if there is nothing.
    fn decode(&mut self, book: &mut Book) -> bool {
        let now = book.now;
        let Some(taken) = self.host.work(now, |engine| engine.take(now)) else {
            return false;
        };
        let fetched = &taken.fetched;
        let place = (Arc::clone(&fetched.topic), fetched.partition);
        let mut markers = Vec::new();
        let decoded = decode(book, fetched, self.plant, &mut markers);
        for marker in markers {
            self.note(book, Seen::Marker(place.clone(), marker));
        }
        match decoded {
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
                self.host
                    .engine
                    .reject(&place.0, place.1, taken.generation, offset, error);
            }
        }
        true
    }

    /// Gives out at most `most` records of a chunk, and keeps the rest; returns how many.
    fn give_out(&mut self, book: &mut Book, mut chunk: Chunk, most: usize) -> usize {
        let rest = chunk.cut(most);
        let (count, next_offset) = (chunk.records.len(), chunk.next_offset);
        let (topic, partition) = (&chunk.place.0, chunk.place.1);
        let engine = &mut self.host.engine;
        let current = engine.advance(topic, partition, chunk.generation, next_offset);
        if !current {
            book.tally
                .meet("consumer: dropped records that a seek or reset made stale");
            if self.plant != Some(Plant::StaleAfterSeek) {
                return 0;
            }
        }
        let cut = rest.is_some();
        if cut {
            book.tally.meet("consumer: a poll cut a batch");
        }
        let mut given: Vec<_> = chunk.records.drain(..).collect();
        match self.plant {
            Some(Plant::SplitLoses) if cut => drop(given.pop()),
            Some(Plant::SplitRepeats) if cut => given.extend(given.last().cloned()),
            _ => {}
        }
        self.begin_followed(book, &chunk.place);
        for (offset, value) in given {
            let place = chunk.place.clone();
            self.positions
                .insert(place.clone(), offset.saturating_add(1));
            book.trace.say(
                book.at(),
                &self.name,
                format_args!("{}-{} {offset}: record {}", place.0, place.1, value.id),
            );
            if self.is_isolated {
                let at = book.at();
                book.history.first_read.entry(value.id).or_insert(at);
            }
            self.note(book, Seen::Record(place, offset, value));
        }
        if let Some(rest) = rest {
            self.decoded.push_front(rest);
        }
        count
    }
}
