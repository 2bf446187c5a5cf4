//! The checker: which invariants of a history do not hold.
//!
//! | | invariant | anomalies |
//! |---|---|---|
//! | R1 | what was acknowledged is in the log | `lost-write` if something later was read, `unseen` if not |
//! | R2 | what a producer promised to write once is there once | `duplicate` |
//! | R3 | an offset means one record, and the one that its producer was told | `inconsistent-offsets` |
//! | R4 | acknowledged offsets of a producer grow in the order of its sends | `nonmonotonic-send`, within a batch `int-nonmonotonic-send`; `send-skip` |
//! | R5 | what surely was not written is not there | `aborted-read` |
//! | R6 | each record has one fate, in time | `unresolved`, `resolved-twice`, `resolved-late` |
//! | R7 | what is read is what was sent, there | `misplaced`, `corrupt`, `phantom` |
//! | R8 | a consumer gives out each offset once and in order, from where it was told | `poll-skip`, `nonmonotonic-poll`, within a poll `int-poll-skip`, `int-nonmonotonic-poll`; `paused-poll`, `unassigned-poll`, `external-reset` |
//! | R14 | after the faults everything goes on, closes in time and leaves nothing open | `stuck`, `no-progress`, `leak` (noted while the run is under way) |
//! | R15 | nothing panics | `panic` (noted likewise) |
//!
//! The names are Jepsen's where it has them (its Kafka workload and Elle).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::history::{Anomaly, Fate, History, Origin, Place, RecordId, Seen, Value};

/// How much later than its deadline a record may get its fate.
const MARGIN: Duration = Duration::from_secs(2);

/// All invariants of a history that do not hold, sorted.
pub fn check(history: &History) -> Vec<Anomaly> {
    let mut checker = Checker {
        history,
        found: history.complaints.clone(),
        offsets: BTreeMap::new(),
    };
    checker.contents();
    checker.fates();
    checker.log();
    checker.order();
    for (consumer, seen) in history.seen.iter().enumerate() {
        checker.polls(consumer, seen);
    }
    checker.found.sort();
    checker.found.dedup();
    checker.found
}

struct Checker<'a> {
    history: &'a History,
    found: Vec<Anomaly>,
    /// The record at each offset of the log.
    offsets: BTreeMap<&'a Place, BTreeMap<i64, RecordId>>,
}

fn at(place: &Place) -> String {
    format!("{}-{}", place.0, place.1)
}

impl<'a> Checker<'a> {
    fn find(&mut self, invariant: &'static str, name: &'static str, text: String) {
        self.found.push(Anomaly {
            invariant,
            name,
            text,
        });
    }

    /// R7 of everything that was read, and R3 among all readers.
    fn contents(&mut self) {
        let history = self.history;
        let logged = history.log.iter().flat_map(|(place, records)| {
            let records = records.iter();
            records.map(move |(offset, value)| (place, *offset, value))
        });
        let polled = history.seen.iter().flatten().filter_map(|seen| match seen {
            Seen::Record(place, offset, value) => Some((place, *offset, value)),
            _ => None,
        });
        for (place, offset, value) in logged.chain(polled) {
            if !self.is_at_home(place, offset, value) || !history.lives(&place.0) {
                continue;
            }
            let known = self.offsets.entry(place).or_default();
            let first = *known.entry(offset).or_insert(value.id);
            if first != value.id {
                let id = value.id;
                let text = format!("{} {offset} is record {first} and record {id}", at(place));
                self.find("R3", "inconsistent-offsets", text);
            }
        }
    }

    fn is_at_home(&mut self, place: &Place, offset: i64, value: &Value) -> bool {
        let id = value.id;
        let here = format!("{} {offset}", at(place));
        if !value.sound {
            self.find("R7", "corrupt", format!("record {id} at {here}"));
            return false;
        }
        let Some(sent) = self.history.sends.get(id) else {
            self.find("R7", "phantom", format!("record {id} at {here}"));
            return false;
        };
        let partition = sent.placed.map(|(partition, _)| partition);
        if *value.topic != *place.0 || *sent.topic != *place.0 || partition != Some(place.1) {
            let text = format!("record {id} of {}-{partition:?} at {here}", sent.topic);
            self.find("R7", "misplaced", text);
            return false;
        }
        true
    }

    /// R6, and what follows from each fate: R1, R3, R5.
    fn fates(&mut self) {
        let history = self.history;
        let mut places: BTreeMap<RecordId, Vec<i64>> = BTreeMap::new();
        for offsets in self.offsets.values() {
            for (offset, id) in offsets {
                places.entry(*id).or_default().push(*offset);
            }
        }
        for (id, sent) in history.sends.iter().enumerate() {
            let (time, fate) = match &sent.fates[..] {
                [] => {
                    self.find("R6", "unresolved", format!("record {id}"));
                    continue;
                }
                [one] => one,
                [_, _, ..] => {
                    let text = format!("record {id}: {:?}", sent.fates);
                    self.find("R6", "resolved-twice", text);
                    continue;
                }
            };
            if let Some(due) = sent.due.filter(|due| *time > *due + MARGIN) {
                let text = format!("record {id}: due at {due:?}, told at {time:?}");
                self.find("R6", "resolved-late", text);
            }
            if !history.lives(&sent.topic) {
                continue;
            }
            let found = places.get(&id);
            match fate {
                Fate::Written(offset) => self.acknowledged(id, *offset, found),
                Fate::NotWritten(why) => {
                    if let Some(offsets) = found {
                        let text = format!("record {id} at {offsets:?}, reported as {why}");
                        self.find("R5", "aborted-read", text);
                    }
                }
                Fate::Unknown(_) => {}
            }
        }
    }

    fn acknowledged(&mut self, id: RecordId, offset: Option<i64>, found: Option<&Vec<i64>>) {
        let history = self.history;
        let Some(sent) = history.sends.get(id) else {
            return;
        };
        let Some((partition, _)) = sent.placed else {
            return;
        };
        let place = (sent.topic.clone(), partition);
        match (found, offset) {
            (Some(found), Some(offset)) if !found.contains(&offset) => {
                let text = format!(
                    "record {id} told at {} {offset}, is at {found:?}",
                    at(&place)
                );
                self.find("R3", "inconsistent-offsets", text);
            }
            (Some(_), _) => {}
            (None, _) => {
                if history.keeps(sent.producer) {
                    let log = self.offsets.get(&place);
                    let last = log.and_then(|log| log.keys().next_back().copied());
                    let passed =
                        offset.is_some_and(|offset| last.is_some_and(|last| last > offset));
                    let name = if passed { "lost-write" } else { "unseen" };
                    let text = format!("record {id}, told at {} {offset:?}", at(&place));
                    self.find("R1", name, text);
                }
            }
        }
    }

    /// R2 and that offsets begin at 0 and have no gaps, in the final log.
    fn log(&mut self) {
        let history = self.history;
        for (place, records) in &history.log {
            if !history.lives(&place.0) {
                continue;
            }
            let mut first: BTreeMap<RecordId, i64> = BTreeMap::new();
            for (expected, (offset, value)) in (0..).zip(records) {
                if *offset != expected {
                    let text = format!("{}: {offset} follows {}", at(place), expected - 1);
                    self.find("R4", "send-skip", text);
                    break;
                }
                let Some(before) = first.insert(value.id, *offset) else {
                    continue;
                };
                let producer = history.sends.get(value.id).map(|sent| sent.producer);
                let promise = producer.and_then(|producer| history.promises.get(producer));
                if promise.is_some_and(|promise| promise.idempotent || !promise.retried) {
                    let text =
                        format!("record {} at {} {before} and {offset}", value.id, at(place));
                    self.find("R2", "duplicate", text);
                }
            }
        }
    }

    /// R4.
    fn order(&mut self) {
        let history = self.history;
        let mut last: BTreeMap<(usize, &str, i32), (RecordId, u64, i64)> = BTreeMap::new();
        for (id, sent) in history.sends.iter().enumerate() {
            let (Some((partition, batch)), [(_, Fate::Written(Some(offset)))]) =
                (sent.placed, &sent.fates[..])
            else {
                continue;
            };
            let promise = history.promises.get(sent.producer);
            if !promise.is_some_and(|promise| promise.ordered) || !history.lives(&sent.topic) {
                continue;
            }
            // Offsets that were lost with their leader are given again.
            let place = (Arc::clone(&sent.topic), partition);
            let logged = self.offsets.get(&place).and_then(|log| log.get(offset));
            if !history.keeps(sent.producer) && logged != Some(&id) {
                continue;
            }
            let key = (sent.producer, &*sent.topic, partition);
            if let Some((before, its_batch, its_offset)) = last.insert(key, (id, batch, *offset)) {
                if its_offset >= *offset {
                    let name = if its_batch == batch {
                        "int-nonmonotonic-send"
                    } else {
                        "nonmonotonic-send"
                    };
                    let text = format!(
                        "{}-{partition}: record {before} at {its_offset}, record {id} sent after it at {offset}",
                        sent.topic
                    );
                    self.find("R4", name, text);
                }
            }
        }
    }

    /// R8 of one consumer.
    fn polls(&mut self, consumer: usize, seen: &'a [Seen]) {
        let mut readings: BTreeMap<&Place, Reading> = BTreeMap::new();
        let mut poll = 0;
        for event in seen {
            match event {
                Seen::Polled => poll += 1,
                Seen::Begin(place, from) => {
                    let reading = readings.entry(place).or_default();
                    reading.assigned = true;
                    reading.from = *from;
                    reading.poll = None;
                    reading.next = match from {
                        Origin::Offset(offset) => Some(*offset),
                        Origin::Beginning => Some(0),
                        Origin::Anywhere => None,
                    };
                }
                Seen::Reset(place, from, to) => {
                    self.reset(consumer, place, *from, *to, &mut readings)
                }
                Seen::Paused(place, paused) => readings.entry(place).or_default().paused = *paused,
                Seen::Left(place) => {
                    readings.remove(place);
                }
                Seen::Record(place, offset, _) => {
                    let reading = readings.entry(place).or_default();
                    let here = format!("consumer {consumer}, {} {offset}", at(place));
                    if !reading.assigned {
                        self.find("R8", "unassigned-poll", here.clone());
                    }
                    if reading.paused {
                        self.find("R8", "paused-poll", here.clone());
                    }
                    if self.history.lives(&place.0) {
                        let within = reading.poll == Some(poll);
                        let name = match reading.next.map(|next| offset.cmp(&next)) {
                            Some(std::cmp::Ordering::Greater) if within => Some("int-poll-skip"),
                            Some(std::cmp::Ordering::Greater) => Some("poll-skip"),
                            Some(std::cmp::Ordering::Less) if within => {
                                Some("int-nonmonotonic-poll")
                            }
                            Some(std::cmp::Ordering::Less) => Some("nonmonotonic-poll"),
                            _ => None,
                        };
                        if let Some(name) = name {
                            let text = format!("{here} instead of {:?}", reading.next);
                            self.find("R8", name, text);
                        }
                    }
                    reading.next = Some(offset + 1);
                    reading.poll = Some(poll);
                }
            }
        }
    }

    /// A position that moved by itself: only one that was never in the log may.
    fn reset(
        &mut self,
        consumer: usize,
        place: &'a Place,
        from: i64,
        to: i64,
        readings: &mut BTreeMap<&'a Place, Reading>,
    ) {
        let reading = readings.entry(place).or_default();
        // The log may have been shorter than the offset that was asked for.
        let wanted =
            from < 0 || (reading.from == Origin::Offset(from) && reading.next == Some(from));
        if !wanted && self.history.lives(&place.0) {
            let text = format!("consumer {consumer}, {} from {from} to {to}", at(place));
            self.find("R8", "external-reset", text);
        }
        if reading.from != Origin::Beginning {
            reading.next = Some(to);
        }
    }
}

/// One partition, as one consumer reads it.
#[derive(Default)]
struct Reading {
    assigned: bool,
    paused: bool,
    from: Origin,
    /// The offset that must come next.
    next: Option<i64>,
    /// The last poll that gave out a record.
    poll: Option<u64>,
}
