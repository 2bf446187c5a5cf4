//! A producer as an application uses it: it sends one record after another, flushes and closes, and
//! records the results.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_engine::observe::Observed;
use ottla_engine::producer::{Done, NotAppended, Producer as Work};
use ottla_engine::{Config, Engine, Error, ErrorCode, Written};

use crate::batches::{Batches, Wish};
use crate::book::Book;
use crate::chance::Chance;
use crate::history::{Fate, Promise, RecordId, Sent};
use crate::host::Host;
use crate::plant::Plant;

/// How long a flush may take beyond the longest delivery.
const MARGIN: Duration = Duration::from_secs(2);

/// A producer and the application around it.
#[derive(Debug)]
pub struct Producer {
    /// The client.
    pub host: Host<Work<u64>>,
    name: String,
    number: usize,
    config: Arc<Config>,
    plant: Option<Plant>,
    /// Records that wait for their topic, for space, or for an earlier one that waits.
    waiting: VecDeque<(RecordId, Wish)>,
    /// When the first of them is abandoned, and whether its topic was requested.
    head: Option<(Instant, bool)>,
    batches: Batches,
    /// Flushes that have not ended: their marks and deadlines.
    flushes: Vec<(u64, Instant)>,
    closing: Option<Instant>,
    /// What a plant holds back.
    held: Option<(RecordId, Wish)>,
    told: u32,
}

impl Producer {
    /// A producer that has done nothing. Its number is its place in [`crate::history::History::promises`].
    pub fn new(
        book: &mut Book,
        config: Config,
        chance: &mut Chance,
        plant: Option<Plant>,
    ) -> Producer {
        let number = book.history.promises.len();
        book.history.promises.push(Promise {
            idempotent: config.idempotence,
            ordered: config.idempotence || config.max_in_flight == 1,
            acks: config.acks,
            retried: false,
            patient: Promise::is_patient(&config),
        });
        let config = Arc::new(config);
        let engine = Engine::producer(Arc::clone(&config), chance.number());
        Producer {
            host: Host::new(engine, chance.fork(), plant),
            name: config.client_id.clone(),
            number,
            config,
            plant,
            waiting: VecDeque::new(),
            head: None,
            batches: Batches::default(),
            flushes: Vec::new(),
            closing: None,
            held: None,
            told: 0,
        }
    }

    /// Its name in traces.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a record: now, or as soon as its topic is known and there is space.
    pub fn send(&mut self, book: &mut Book, wish: Wish) -> RecordId {
        let id = book.history.sends.len();
        book.history.sends.push(Sent {
            producer: self.number,
            transaction: None,
            topic: Arc::clone(&wish.topic),
            asked: wish.partition,
            placed: None,
            due: None,
            fates: Vec::new(),
        });
        self.waiting.push_back((id, wish));
        self.settle(book);
        id
    }

    /// Ends the lingering of all batches; the flush has a deadline.
    pub fn flush(&mut self, book: &mut Book) {
        let mark = self.host.work(book.now, |engine| engine.flush(book.now));
        let until = book.now + self.config.delivery_timeout + MARGIN;
        self.flushes.push((mark, until));
        self.settle(book);
    }

    /// Flushes for at most `timeout`, then fails what is left.
    pub fn close(&mut self, book: &mut Book, timeout: Duration) {
        while let Some((id, _)) = self.waiting.pop_front() {
            self.tell(
                book,
                id,
                Fate::NotWritten("the producer was closed".to_owned()),
            );
        }
        self.head = None;
        self.host.work(book.now, |engine| engine.flush(book.now));
        self.closing.get_or_insert(book.now + timeout);
        self.settle(book);
    }

    /// Its wall clock jumps by this many milliseconds.
    pub fn move_clock(&mut self, ms: i64) {
        self.batches.ahead_ms += ms;
    }

    /// Its wall clock shows what time it is.
    pub fn set_clock_right(&mut self) {
        self.batches.ahead_ms = 0;
    }

    /// Whether every record has its delivery result.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.batches.is_empty()
    }

    /// Whether it was closed to its end.
    pub fn is_closed(&self) -> bool {
        self.host.is_closed()
    }

    /// When [`Producer::alarm`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let head = self.head.map(|(until, _)| until);
        let flushes = self.flushes.iter().map(|(_, until)| *until);
        let all = flushes.chain(head).chain(self.host.next_timeout());
        all.chain(self.closing).min()
    }

    /// Looks at the clock.
    pub fn alarm(&mut self, book: &mut Book) {
        self.host.alarm(book.now);
        self.settle(book);
    }

    /// Takes in what the engine has to say, and goes on.
    pub fn settle(&mut self, book: &mut Book) {
        if self.is_closed() {
            self.closing = None;
        }
        loop {
            self.collect(book);
            if !self.append_next(book) {
                break;
            }
        }
        self.end_flushes(book);
        let closes = self
            .closing
            .is_some_and(|until| until <= book.now || self.batches.is_empty());
        if closes && self.plant != Some(Plant::CloseHangs) {
            self.closing = None;
            let now = book.now;
            self.host.close(now);
            self.collect(book);
        } else if closes {
            self.closing = None;
        }
    }

    /// Takes in delivery results and events.
    fn collect(&mut self, book: &mut Book) {
        self.host.take_changes();
        while let Some(done) = self.host.engine.poll_done() {
            self.resolve(book, done);
        }
        while let Some(event) = self.host.poll_observed() {
            let promise = book.history.promises.get_mut(self.number);
            match (&event, promise) {
                (Observed::Retried { .. }, Some(promise)) => promise.retried = true,
                (Observed::IdempotenceOff { .. }, Some(promise)) => {
                    promise.idempotent = false;
                    promise.ordered = self.config.max_in_flight == 1;
                }
                (Observed::Disconnected { .. }, _) if self.plant == Some(Plant::Panics) => {
                    panic_as_planted();
                }
                _ => {}
            }
            book.observe(&self.name, &event);
        }
    }

    /// Appends the first waiting record, or abandons it; false if it has to wait, or no record
    /// waits.
    fn append_next(&mut self, book: &mut Book) -> bool {
        let now = book.now;
        let Some((id, wish)) = self.waiting.front().cloned() else {
            return false;
        };
        if self.plant == Some(Plant::OrderSwapped) && self.swap(&wish) {
            return true;
        }
        match self.append(book, id, &wish) {
            Ok(()) => {
                if self.plant == Some(Plant::AppendedTwice) && id % 7 == 0 {
                    self.append_again(book, id, &wish);
                }
                self.next(&wish);
                if let Some((id, wish)) = self.held.take_if(|_| self.plant.is_some()) {
                    self.waiting.push_front((id, wish));
                }
                true
            }
            Err(NotAppended::Failed(error) | NotAppended::UnknownPartition(error)) => {
                self.tell(book, id, Fate::NotWritten(error.to_string()));
                self.next(&wish);
                true
            }
            Err(NotAppended::UnknownTopic) => {
                let (until, asked) = self.head.unwrap_or((now + self.config.max_block, false));
                self.head = Some((until, true));
                if !asked {
                    book.tally.meet("producer: waited for a topic");
                    let topic = &wish.topic;
                    self.host.work(now, |engine| engine.want_topic(now, topic));
                }
                let refusal = self.host.engine.topic(&wish.topic).err().flatten();
                match refusal.filter(|error| !error.is_retriable()) {
                    Some(error) => self.give_up(book, id, &wish, &error.to_string()),
                    _ if until <= now => self.give_up(book, id, &wish, "the topic is not known"),
                    // Asking may have made it known.
                    _ => !asked && self.host.engine.knows_topic(&wish.topic),
                }
            }
            Err(NotAppended::Full) => {
                let (until, asked) = self.head.unwrap_or((now + self.config.max_block, false));
                self.head = Some((until, asked));
                book.tally.meet("producer: waited for space");
                if until <= now {
                    return self.give_up(book, id, &wish, "there is no space");
                }
                false
            }
        }
    }

    /// The plant that sends the second of two records to a partition before the first.
    fn swap(&mut self, wish: &Wish) -> bool {
        let alike = |other: &Wish| other.topic == wish.topic && other.partition == wish.partition;
        let has_next = self.waiting.get(1).is_some_and(|(_, next)| alike(next));
        if self.held.is_none()
            && has_next
            && wish.partition.is_some()
            && self.told.is_multiple_of(3)
        {
            self.told += 1;
            self.held = self.waiting.pop_front();
            return true;
        }
        false
    }

    fn give_up(&mut self, book: &mut Book, id: RecordId, wish: &Wish, why: &str) -> bool {
        book.tally.meet("producer: stopped waiting");
        self.tell(book, id, Fate::NotWritten(why.to_owned()));
        self.next(wish);
        true
    }

    /// The first waiting record does not wait any more.
    fn next(&mut self, wish: &Wish) {
        self.waiting.pop_front();
        if self.head.take().is_some_and(|(_, asked)| asked) {
            self.host.engine.give_up_topic(&wish.topic);
        }
    }

    fn append(&mut self, book: &mut Book, id: RecordId, wish: &Wish) -> Result<(), NotAppended> {
        let patience = self.config.delivery_timeout;
        self.batches
            .append(book, &mut self.host, patience, id, wish)
    }

    /// The plant that puts a record into its batch twice; the caller gets the result of one.
    fn append_again(&mut self, book: &mut Book, id: RecordId, wish: &Wish) {
        let _ = self.append(book, id, wish);
    }

    fn resolve(&mut self, book: &mut Book, done: Done<u64>) {
        let Done {
            batch: number,
            first,
            count,
            result,
        } = done;
        let Some(records) = self.batches.records(book, number, first, count) else {
            return;
        };
        self.told += 1;
        if self.plant == Some(Plant::FatesDropped) && self.told.is_multiple_of(5) {
            self.batches.forget(number);
            return;
        }
        let times = match self.plant {
            Some(Plant::FatesTwice) if self.told.is_multiple_of(5) => 2,
            _ => 1,
        };
        for (index, id) in records.iter().enumerate() {
            let index = match self.plant {
                Some(Plant::FatesReversed) => records.len() - 1 - index,
                _ => index,
            };
            let fate = match &result {
                Ok(stored) if stored.base_offset >= 0 => {
                    Fate::Written(Some(stored.base_offset.saturating_add(index as i64)))
                }
                Ok(_) => Fate::Written(None),
                Err(error) => self.failure(book, error),
            };
            for _ in 0..times {
                self.tell(book, *id, fate.clone());
            }
        }
        self.batches.forget_if_decided(book, number);
    }

    fn failure(&self, book: &mut Book, error: &Error) -> Fate {
        let unsure = error.written() != Some(Written::No);
        book.tally.meet(if unsure {
            "producer: a record's delivery result stayed unknown"
        } else {
            "producer: a record was surely not written"
        });
        if error.code() == Some(ErrorCode::INVALID_TIMESTAMP) {
            book.tally.meet("producer: a record's time was refused");
        }
        match self.plant {
            Some(Plant::FailureTakenForSuccess) => Fate::Written(None),
            Some(Plant::UnknownTakenForFailed) => Fate::NotWritten(error.to_string()),
            _ if unsure => Fate::Unknown(error.to_string()),
            _ => Fate::NotWritten(error.to_string()),
        }
    }

    fn tell(&mut self, book: &mut Book, id: RecordId, fate: Fate) {
        book.say(&self.name, format_args!("record {id}: {fate:?}"));
        let at = book.at();
        if let Some(sent) = book.history.sends.get_mut(id) {
            sent.fates.push((at, fate));
        }
    }

    fn end_flushes(&mut self, book: &mut Book) {
        let engine = &self.host.engine;
        let now = book.now;
        let mut late = Vec::new();
        self.flushes.retain(|(mark, until)| {
            let ended = engine.is_flushed(*mark);
            if !ended && *until <= now {
                late.push(*mark);
            }
            !ended && *until > now
        });
        for mark in late {
            let text = format!(
                "{}: a flush (mark {mark}) outlasted delivery.timeout.ms",
                self.name
            );
            book.history.complain("R14", "stuck", text);
        }
    }
}

/// What the plant of that name does.
#[allow(clippy::panic, reason = "a defect that is planted")]
fn panic_as_planted() {
    panic!("planted");
}
