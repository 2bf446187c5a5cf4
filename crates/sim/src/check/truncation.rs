//! R16: logs that were truncated, because a replica that lacked records was elected.
//!
//! For each consumer it is known what it was given since its last starting position. Of that, the
//! log may have lost a part. The consumer must have been notified: of its position, and of the
//! offset since which the log differs. Everything else that it was given is in the log.
//!
//! | anomaly | what was seen |
//! |---|---|
//! | `silent-truncation` | at the end the log has something else than what a consumer was given, and nothing was ever said |
//! | `untold-truncation` | a consumer was sent elsewhere, or refused, without a report of what it had been given |
//! | `wrong-truncation` | it was notified of another offset than its position, or of a later one |
//! | `needless-truncation` | it was notified of a truncation that never happened |

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Anomaly, History, Place, RecordId, Seen, at};

/// What one consumer was given of each partition since its last starting position, by offset.
type Given<'a> = BTreeMap<&'a Place, BTreeMap<i64, RecordId>>;

/// The violations of R16.
pub(super) fn check(history: &History) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for (consumer, seen) in history.seen.iter().enumerate() {
        let mut reader = Reader {
            history,
            consumer,
            given: Given::new(),
            elected: BTreeSet::new(),
            found: &mut found,
        };
        seen.iter().for_each(|event| reader.see(event));
        reader.end();
    }
    found
}

struct Reader<'a> {
    history: &'a History,
    consumer: usize,
    given: Given<'a>,
    /// Partitions that had an unclean election by now.
    elected: BTreeSet<&'a Place>,
    found: &'a mut Vec<Anomaly>,
}

impl<'a> Reader<'a> {
    fn find(&mut self, name: &'static str, place: &Place, text: &str) {
        let (consumer, place) = (self.consumer, at(place));
        self.found.push(Anomaly {
            invariant: "R16",
            name,
            text: format!("consumer {consumer}, {place}: {text}"),
        });
    }

    fn see(&mut self, event: &'a Seen) {
        match event {
            Seen::Begin(place, _) => drop(self.given.insert(place, BTreeMap::new())),
            Seen::Left(place) => drop(self.given.remove(place)),
            Seen::Elected(place) => {
                self.elected.insert(place);
            }
            Seen::Record(place, offset, value) if self.history.lives(&place.0) => {
                let given = self.given.entry(place).or_default();
                given.insert(*offset, value.id);
            }
            Seen::Truncated(place, position, parting) => self.told(place, *position, *parting),
            Seen::Reset(place, from, to) => {
                self.sent_away(place, &format!("went from {from} to {to}"));
            }
            Seen::Denied(place) => self.sent_away(place, "was refused"),
            Seen::Record(..) | Seen::Paused(..) | Seen::Polled | Seen::Marker(..) => {}
        }
    }

    /// It was notified that everything from `parting` to its `position` is lost.
    fn told(&mut self, place: &'a Place, position: i64, parting: Option<i64>) {
        let given = self.given.entry(place).or_default();
        let read = given.keys().next_back().map(|last| last + 1);
        match parting {
            Some(parting) => drop(given.split_off(&parting)),
            None => given.clear(),
        }
        if read.is_some() && !self.elected.contains(place) {
            let text = format!("notified that all from {parting:?} on is lost, and no log was cut");
            self.find("needless-truncation", place, &text);
        }
        let is_other = read.is_some_and(|read| read != position);
        if is_other || parting.is_some_and(|parting| parting >= position) {
            let text = format!(
                "notified of {position} and {parting:?}, and was given all before {read:?} since it began"
            );
            self.find("wrong-truncation", place, &text);
        }
    }

    /// It does not read on, and was not notified of what it lost.
    fn sent_away(&mut self, place: &'a Place, how: &str) {
        let given = self.given.remove(place).unwrap_or_default();
        if let (Some(last), true) = (given.keys().next_back(), self.history.was_cut(place)) {
            let text = format!("{how} after {last}, and nothing was said of what it had");
            self.find("untold-truncation", place, &text);
        }
    }

    /// What it was given and not notified to be lost is there.
    fn end(&mut self) {
        let history = self.history;
        for (place, given) in std::mem::take(&mut self.given) {
            // A consumer that reads a topic from its beginning again starts with its first record:
            // there may be none any more.
            let Some(log) = history.log.get(place).filter(|_| history.was_cut(place)) else {
                continue;
            };
            let log: BTreeMap<i64, RecordId> = log.iter().map(|(at, it)| (*at, it.id)).collect();
            let lost = given.iter().find(|(at, id)| log.get(*at) != Some(*id));
            if let Some((offset, id)) = lost {
                let now = log.get(offset);
                let text = format!("was given record {id} at {offset}, where the log has {now:?}");
                self.find("silent-truncation", place, &text);
            }
        }
    }
}
