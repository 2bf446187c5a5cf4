//! The checker: which invariants of a history do not hold.
//!
//! | | invariant | anomalies |
//! |---|---|---|
//! | R1 | what was acknowledged is in the log | `lost-write` if something later was read, `unseen` if not |
//! | R2 | what a producer promised to write once is there once | `duplicate` |
//! | R3 | an offset means one record, and the one that was reported to its producer | `inconsistent-offsets` |
//! | R4 | acknowledged offsets of a producer grow in the order of its sends | `nonmonotonic-send`, within a batch `int-nonmonotonic-send`; `send-skip` |
//! | R5 | what surely was not written is not there | `aborted-read` |
//! | R6 | each record has one delivery result, in time | `unresolved`, `resolved-twice`, `resolved-late` |
//! | R7 | what is read is what was sent, there | `misplaced`, `corrupt`, `phantom` |
//! | R8 | a consumer gives out each offset once and in order, from its starting position; if that was deleted, it reports where it continues | `poll-skip`, `nonmonotonic-poll`, within a poll `int-poll-skip`, `int-nonmonotonic-poll`; `paused-poll`, `unassigned-poll`, `external-reset` |
//! | R9 | a partition has one owner in a generation, or since the epoch in which it was assigned (`epochs`); the owner begins at the committed offset and gets nothing after it was revoked; a cooperative member revokes only what others get; every acknowledged record is returned to some member; a member of a past generation commits nothing | `two-owners`, `wrong-start`, `external-reset`, `revoked-poll`, `needless-stop`, `never-given`, `stale-commit`, `torn-group` |
//! | R10 | committed offsets are of records that were returned before the last poll, or are those that the application requested; a commit that was reported as done is done; a consumer that closes has committed what it returned | `ahead-commit`, `untrue-commit`, `lost-commit`, `late-commit` |
//! | R11 | a `read_committed` consumer gets no record of a transaction that was not committed, none before its commit was requested, and all others as they are in the log | `aborted-read`, `dirty-read`, `hidden-record`, `inconsistent-offsets` |
//! | R12 | a transaction takes effect as a whole or not at all, with its offsets, as reported to its producer | `lost-commit`, `torn-commit`, `incomplete-commit`, `untrue-verdict`, `lost-offsets`, `aborted-offsets` |
//! | R13 | a producer that was replaced under its transactional id writes and commits nothing any more | `zombie-write`, `zombie-commit`, `late-write` |
//! | R14 | after the faults everything goes on, closes in time and leaves nothing open | `stuck`, `no-progress`, `leak` (noted while the run is under way) |
//! | R15 | nothing panics | `panic` (noted likewise) |
//! | R16 | a consumer of records that the log lost is notified: of its position, and of the offset since which the log differs | `silent-truncation`, `untold-truncation`, `wrong-truncation`, `needless-truncation` |
//! | R17 | the result of an admin client's change is true: done, or surely not done; and it was done once | `untrue-success`, `untrue-failure`, `own-success-refused`, `lost-topic`, `wrong-topic`, `made-twice` |
//! | R18 | what an admin client's request returned was true, and the creator of a topic finds it | `wrong-answer` |
//! | R19 | a record of a share group is one member's until its lock ends, its session does, or somebody else leads; it is delivered until it is accepted or rejected, or as often as it may be, and deliveries are counted; each is given out once by its client | `two-holders`, `foreign-ack`, `accepted-again`, `rejected-again`, `over-delivered`, `wrong-count`, `ungranted-poll`, `withheld`, `never-given`, `forgotten-record`, `aborted-read` |
//! | R20 | brokers receive the application's acknowledgement of a share group's record, and the application receives its result, once and in time | `unsaid-ack`, `untrue-ack`, `ack-unresolved`, `ack-late`, `ack-told-twice` |
//!
//! R14 also wants groups to stay as they are while nobody comes or goes: `restless-group`. It holds each call to its deadline: `call-unresolved`, `call-late`.
//!
//! The names are Jepsen's where it has them (its Kafka workload and Elle).

mod epochs;
mod gone;
mod groups;
mod share;
mod told;
mod transactions;
mod truncation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::ErrorCode;
use ottla_engine::call::EARLIEST;

use self::gone::Gone;
use crate::history::{
    Act, Anomaly, Before, Called, Ended, Fate, History, Origin, Place, Promise, RecordId, Seen,
    Told, Value, at,
};
use crate::shared::Shared;

/// The states that share groups were seen in.
pub fn shared_states(history: &History) -> BTreeSet<&'static str> {
    share::check(history).1
}

/// How much later than its deadline a record may get its delivery result.
const MARGIN: Duration = Duration::from_secs(2);

/// All invariants of a history that do not hold, sorted.
pub fn check(history: &History) -> Vec<Anomaly> {
    let mut found = of_all_but_shares(history);
    found.extend(share::check(history).0);
    in_order(found)
}

fn of_all_but_shares(history: &History) -> Vec<Anomaly> {
    let mut checker = Checker {
        history,
        found: history.complaints.clone(),
        offsets: BTreeMap::new(),
        visible: history.visible(),
        gone: Gone::new(history),
    };
    checker.contents();
    checker.fates();
    checker.log();
    checker.order();
    checker.calls();
    for (consumer, seen) in history.seen.iter().enumerate() {
        checker.polls(consumer, seen);
    }
    checker.found.extend(transactions::check(history));
    checker.found.extend(groups::check(history));
    checker.found.extend(epochs::check(history));
    checker.found.extend(truncation::check(history));
    checker.found
}

fn in_order(mut found: Vec<Anomaly>) -> Vec<Anomaly> {
    found.sort();
    found.dedup();
    found
}

/// The invariants that do not hold, whatever brokers send. Their claims about the records of share
/// groups are ignored: they are not reliable.
pub fn check_hostile(history: &History) -> Vec<Anomaly> {
    let mut found = of_all_but_shares(history);
    found.retain(|it| matches!(it.invariant, "R6" | "R14" | "R15"));
    found.extend(told::check(history));
    in_order(found)
}

struct Checker<'a> {
    history: &'a History,
    found: Vec<Anomaly>,
    /// The record at each offset of the log.
    offsets: BTreeMap<&'a Place, BTreeMap<i64, RecordId>>,
    /// The committed records.
    visible: BTreeSet<RecordId>,
    /// The records that may be missing.
    gone: Gone<'a>,
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
            records.map(move |(offset, value)| (place, *offset, value, true))
        });
        let polled = history.seen.iter().flatten().filter_map(|seen| match seen {
            // Records that were cut off were read too: R16 checks by whom.
            Seen::Record(place, offset, value) => {
                Some((place, *offset, value, !history.was_cut(place)))
            }
            _ => None,
        });
        let shared = history
            .shared
            .iter()
            .filter_map(|(.., shared)| match shared {
                Shared::Given(place, offset, _, value) => Some((place, *offset, value, true)),
                _ => None,
            });
        for (place, offset, value, stays) in logged.chain(polled).chain(shared) {
            if !self.is_at_home(place, offset, value) || !history.lives(&place.0) || !stays {
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

    /// R6, and what follows from each delivery result: R1, R3, R5.
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
                let text = format!("record {id}: due at {due:?}, reported at {time:?}");
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
            // The copy that was acknowledged was lost with its leader, and another attempt's stayed.
            (Some(_), Some(_)) if self.may_lose_a_copy(id, sent.producer) => {}
            (_, Some(offset)) if self.gone.is_gone(&place, offset, id) => {}
            (Some(found), Some(offset)) if !found.contains(&offset) => {
                let text = format!(
                    "record {id} reported at {} {offset}, is at {found:?}",
                    at(&place)
                );
                self.find("R3", "inconsistent-offsets", text);
            }
            (Some(_), _) => {}
            (None, _) => {
                if history.lasts(id) {
                    let log = self.offsets.get(&place);
                    let last = log.and_then(|log| log.keys().next_back().copied());
                    let passed =
                        offset.is_some_and(|offset| last.is_some_and(|last| last > offset));
                    let name = if passed { "lost-write" } else { "unseen" };
                    let text = format!("record {id}, reported at {} {offset:?}", at(&place));
                    self.find("R1", name, text);
                }
            }
        }
    }

    /// Whether this record may have been written twice, and one of its copies lost though it was acknowledged.
    fn may_lose_a_copy(&self, id: RecordId, producer: usize) -> bool {
        let promise = self.history.promises.get(producer);
        let repeats = promise.is_some_and(|promise| promise.retried && !promise.idempotent);
        self.history.may_be_cut(id) || repeats && !self.history.keeps(producer)
    }

    /// R2 and that offsets begin at 0, or where records were deleted on purpose, and have no gaps, in the final log.
    fn log(&mut self) {
        let history = self.history;
        for (place, records) in &history.log {
            if !history.lives(&place.0) {
                continue;
            }
            let mut first: BTreeMap<RecordId, i64> = BTreeMap::new();
            let begins = records.first().map_or(0, |(first, _)| *first);
            let mut expected = begins.min(self.gone.trimmed(place));
            for (offset, value) in records {
                if !self.passes(place, expected, *offset, false) {
                    let text = format!("{}: {offset} follows {}", at(place), expected - 1);
                    self.find("R4", "send-skip", text);
                    break;
                }
                expected = offset + 1;
                let Some(before) = first.insert(value.id, *offset) else {
                    continue;
                };
                let producer = history.sends.get(value.id).map(|sent| sent.producer);
                let promise = producer.and_then(|producer| history.promises.get(producer));
                // An unclean election may bring back a copy of which the leader before it, and its memory of producers, knew nothing.
                let is_kept_apart = !history.may_be_cut(value.id);
                let once = |promise: &Promise| promise.idempotent || !promise.retried;
                if is_kept_apart && promise.is_some_and(once) {
                    let text =
                        format!("record {} at {} {before} and {offset}", value.id, at(place));
                    self.find("R2", "duplicate", text);
                }
            }
        }
    }

    /// Whether a reader comes from one offset to another without leaving out anything that it must see: markers are no records,
    /// of those only who reads all sees the ones that are not committed, and nobody those that newer ones of their keys replaced.
    fn passes(&self, place: &Place, from: i64, to: i64, is_isolated: bool) -> bool {
        if from >= to {
            return from == to;
        }
        let markers = self.history.markers.get(place);
        let logged = self.offsets.get(place);
        (from..to).all(|offset| {
            if markers.is_some_and(|markers| markers.contains(&offset)) {
                return true;
            }
            let record = logged.and_then(|logged| logged.get(&offset));
            let is_hidden = |id: &RecordId| !self.visible.contains(id);
            (is_isolated && record.is_some_and(is_hidden))
                || self.gone.may_lack(place, offset, record.copied())
        })
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
            let is_elsewhere = !history.keeps(sent.producer) && logged != Some(&id);
            if history.may_be_cut(id) || is_elsewhere {
                continue;
            }
            let key = (sent.producer, &*sent.topic, partition);
            if let Some((before, its_batch, its_offset)) = last.insert(key, (id, batch, *offset))
                && its_offset >= *offset
            {
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

    /// The results that admin clients received.
    fn calls(&mut self) {
        let history = self.history;
        for (number, call) in history.calls.iter().enumerate() {
            let what = format!("call {number}, {:?}", call.act);
            let Some(ended) = &call.ended else {
                self.find("R14", "call-unresolved", what);
                continue;
            };
            if ended.at > call.due + MARGIN {
                let text = format!("{what}: due at {:?}, ended at {:?}", call.due, ended.at);
                self.find("R14", "call-late", text);
            }
            if let Some(name) = wrong_verdict(call, ended) {
                let text = format!(
                    "{what}: {:?}, returned {:?}, the cluster has {:?}",
                    call.before, ended.told, ended.cluster
                );
                self.find("R17", name, text);
            }
            self.answer(&what, call, ended);
        }
        self.topics();
    }

    /// R18: whether a response about the cluster is true.
    fn answer(&mut self, what: &str, call: &Called, ended: &Ended) {
        let history = self.history;
        let is_right = match (&call.act, &ended.told) {
            (Act::Describe(name), _) if self.is_changed(name, call.begun, ended.at) => true,
            (Act::Describe(_), Told::Topic(count)) => match call.before {
                Before::Present(present) => *count == present,
                Before::Absent => false,
                Before::Unsure => true,
            },
            // The creator of a topic does not get the error that it does not exist.
            (Act::Describe(_), Told::Refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, _)) => {
                !matches!(call.before, Before::Present(_))
            }
            (Act::List, Told::Topics(names)) => {
                let made = |name: &str| {
                    let calls = history.calls.iter();
                    let mut begun = calls.filter(|other| other.begun <= ended.at);
                    begun.any(|other| matches!(&other.act, Act::Create(made, _) if **made == *name))
                };
                let own = names.iter().filter(|name| name.starts_with("own-"));
                own.clone().all(|name| made(name))
            }
            (Act::Cluster, Told::Nodes(nodes)) => {
                nodes.iter().all(|node| (1..=history.nodes).contains(node))
            }
            (Act::Offsets(place, time), Told::Offset(offset)) if history.lives(&place.0) => {
                match *time {
                    EARLIEST => (0..=self.gone.trimmed(place)).contains(offset),
                    _ if history.was_cut(place) => true,
                    _ => self.is_possible_end(place, *offset, call.begun),
                }
            }
            _ => true,
        };
        if !is_right {
            let text = format!("{what}: {:?}, returned {:?}", call.before, ended.told);
            self.find("R18", "wrong-answer", text);
        }
    }

    /// Whether a change of a topic began in this time.
    fn is_changed(&self, topic: &str, from: Duration, to: Duration) -> bool {
        let calls = self.history.calls.iter();
        let mut within = calls.filter(|call| (from..=to).contains(&call.begun));
        within.any(|call| match &call.act {
            Act::Create(name, _) | Act::Delete(name) => **name == *topic,
            _ => false,
        })
    }

    /// Whether a partition may have ended here at a time: not before what was acknowledged, nor after its end.
    fn is_possible_end(&self, place: &Place, offset: i64, since: Duration) -> bool {
        let history = self.history;
        let log = history.log.get(place).and_then(|log| log.last());
        let end = log.map_or(0, |(last, _)| last + 1);
        let end = end.max(self.gone.trimmed(place));
        let acknowledged = history.sends.iter().filter_map(|sent| {
            let here = *sent.topic == *place.0 && sent.placed?.0 == place.1;
            match &sent.fates[..] {
                [(at, Fate::Written(Some(offset)))] if here && *at <= since => {
                    let promise = history.promises.get(sent.producer)?;
                    // A record that only its leader has is not returned to consumers before the
                    // others have it.
                    (promise.acks < 0).then_some(offset.saturating_add(1))
                }
                _ => None,
            }
        });
        let least = acknowledged.max().filter(|_| !history.stale).unwrap_or(0);
        (least..=end).contains(&offset)
    }

    /// R17 of topics: what was made is there to the end, and was made once.
    fn topics(&mut self) {
        let history = self.history;
        let mut last: BTreeMap<&Arc<str>, Known> = BTreeMap::new();
        for (number, call) in history.calls.iter().enumerate() {
            let (Act::Create(name, _) | Act::Delete(name)) = &call.act else {
                continue;
            };
            let Some(ended) = &call.ended else {
                last.insert(name, (number, Before::Unsure, None));
                continue;
            };
            let Some(after) = call.after(&ended.told) else {
                continue;
            };
            let id = ended.cluster.map(|(id, _)| id);
            let id = last.get(name).and_then(|(_, _, first)| *first).or(id);
            last.insert(name, (number, after, id));
        }
        for (name, (number, state, id)) in last {
            let Before::Present(count) = state else {
                continue;
            };
            let text = |what: &str| format!("topic {name} after call {number} {what}");
            match history.topics.get(name) {
                None => self.find("R17", "lost-topic", text("is gone")),
                Some((_, found)) if *found != count => {
                    self.find("R17", "wrong-topic", text("has other partitions"));
                }
                Some((found, _)) if Some(*found) != id => {
                    self.find("R17", "made-twice", text("has another id"));
                }
                Some(_) => {}
            }
        }
    }

    /// R8 of one consumer.
    fn polls(&mut self, consumer: usize, seen: &'a [Seen]) {
        let is_isolated = self.history.isolated.contains(&consumer);
        let mut readings: BTreeMap<&Place, Reading> = BTreeMap::new();
        let mut poll = 0;
        for event in seen {
            match event {
                Seen::Polled => poll += 1,
                Seen::Marker(..) | Seen::Denied(_) | Seen::Elected(_) => {}
                Seen::Truncated(place, _, parting) => {
                    let reading = readings.entry(place).or_default();
                    (reading.next, reading.poll) = (*parting, None);
                }
                Seen::Begin(place, from) => {
                    let reading = readings.entry(place).or_default();
                    reading.assigned = true;
                    reading.from = *from;
                    reading.poll = None;
                    reading.next = match from {
                        Origin::Offset(offset) => Some(*offset),
                        Origin::Beginning if self.gone.trimmed(place) > 0 => None,
                        Origin::Beginning => Some(0),
                        Origin::Anywhere => None,
                    };
                    let begins = *from == Origin::Beginning && reading.next.is_none();
                    reading.by = begins.then(|| self.gone.trimmed(place));
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
                        // What is between may be nothing for this reader.
                        let passes = |next: i64| self.passes(place, next, *offset, is_isolated);
                        let is_next = match (reading.next, reading.by) {
                            (Some(next), _) => passes(next),
                            (None, Some(by)) => *offset <= by || passes(by),
                            (None, None) => true,
                        };
                        let due = reading.next.or(reading.by);
                        let name = match due.map(|due| offset.cmp(&due)) {
                            _ if is_next => None,
                            Some(std::cmp::Ordering::Greater) if within => Some("int-poll-skip"),
                            Some(std::cmp::Ordering::Greater) => Some("poll-skip"),
                            Some(std::cmp::Ordering::Less) if within => {
                                Some("int-nonmonotonic-poll")
                            }
                            Some(std::cmp::Ordering::Less) => Some("nonmonotonic-poll"),
                            _ => None,
                        };
                        if let Some(name) = name {
                            let text = format!("{here} instead of {due:?}");
                            self.find("R8", name, text);
                        }
                    }
                    reading.next = Some(offset.saturating_add(1));
                    reading.by = None;
                    reading.poll = Some(poll);
                }
            }
        }
    }

    /// A position that moved by itself: only one that was never in the log may, or whose records were deleted.
    fn reset(
        &mut self,
        consumer: usize,
        place: &'a Place,
        from: i64,
        to: i64,
        readings: &mut BTreeMap<&'a Place, Reading>,
    ) {
        let reading = readings.entry(place).or_default();
        // The log may have been shorter than the requested offset.
        let wanted =
            from < 0 || (reading.from == Origin::Offset(from) && reading.next == Some(from));
        // Or it is shorter now: R16 checks the report of that.
        let was_cut = self.history.was_cut(place);
        // It moves from where it was, so that nothing is left out before.
        let is_isolated = self.history.isolated.contains(&consumer);
        let passes = |next: i64| self.passes(place, next, from, is_isolated);
        let deleted = (0..self.gone.trimmed(place)).contains(&from);
        let deleted = deleted && reading.next.is_none_or(passes);
        if deleted || reading.from != Origin::Beginning || was_cut {
            reading.next = Some(to);
            reading.by = None;
        }
        if !wanted && !deleted && !was_cut && self.history.lives(&place.0) {
            let text = format!("consumer {consumer}, {} from {from} to {to}", at(place));
            self.find("R8", "external-reset", text);
        }
    }
}

/// A topic after the last change of it: the call, what its caller knows then, and the id that it had first.
type Known = (usize, Before, Option<[u8; 16]>);

/// The anomaly in the result that the caller of a change received, if any.
fn wrong_verdict(call: &Called, ended: &Ended) -> Option<&'static str> {
    let is_there = ended.cluster.is_some();
    match (&call.act, &ended.told, call.before) {
        (Act::Create(_, count), Told::Done, Before::Absent) => {
            let found = ended.cluster.map(|(_, found)| found);
            (found != Some(*count)).then_some("untrue-success")
        }
        (Act::Delete(_), Told::Done, Before::Present(_)) => is_there.then_some("untrue-success"),
        (Act::Create(..), Told::Refused(code, _), Before::Absent) => match *code {
            ErrorCode::TOPIC_ALREADY_EXISTS => Some("own-success-refused"),
            _ => is_there.then_some("untrue-failure"),
        },
        (Act::Delete(_), Told::Refused(code, _), Before::Present(_)) => match *code {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some("own-success-refused"),
            _ => (!is_there).then_some("untrue-failure"),
        },
        _ => None,
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
    /// The offset that must come next at the latest, where the first one may have been deleted.
    by: Option<i64>,
    /// The last poll that gave out a record.
    poll: Option<u64>,
}
