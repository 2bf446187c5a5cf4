//! The invariants of transactions: R11, R12 and R13.
//!
//! The log was read twice after the end: as a whole, and with only what is committed. What was
//! reported to producers, and what readers got before, must agree with both.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::{
    Anomaly, Fate, History, Incarnation, Place, RecordId, Seen, Transaction, Verdict,
};

/// The anomalies of a history's transactions.
pub(super) fn check(history: &History) -> Vec<Anomaly> {
    let mut checker = Checker {
        history,
        visible: history.visible(),
        found: Vec::new(),
    };
    if history.incarnations.is_empty() {
        return checker.found;
    }
    checker.views();
    checker.readers();
    for (number, transaction) in history.transactions.iter().enumerate() {
        checker.atomicity(number, transaction);
        checker.fencing(number, transaction);
    }
    checker.succession();
    for ((id, place), offset) in &history.group_offsets {
        checker.offsets(*id, place, *offset);
    }
    checker.found
}

struct Checker<'a> {
    history: &'a History,
    /// The committed records.
    visible: BTreeSet<RecordId>,
    found: Vec<Anomaly>,
}

/// Whether a transaction was committed, as far as anybody can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Yes,
    No,
    Perhaps,
}

impl Checker<'_> {
    fn find(&mut self, invariant: &'static str, name: &'static str, text: String) {
        self.found.push(Anomaly {
            invariant,
            name,
            text,
        });
    }

    /// R11: what is committed is in the log under the same offsets, with every record that is in no transaction.
    fn views(&mut self) {
        let history = self.history;
        for (place, records) in &history.committed {
            let log: BTreeMap<i64, RecordId> =
                history.log.get(place).map_or_else(BTreeMap::new, |log| {
                    log.iter()
                        .map(|(offset, value)| (*offset, value.id))
                        .collect()
                });
            let other = records
                .iter()
                .find(|(offset, value)| log.get(offset) != Some(&value.id));
            if let Some((offset, value)) = other {
                let text = format!(
                    "{place:?} {offset} is record {} for who reads what is committed, and {:?} for who reads all",
                    value.id,
                    log.get(offset)
                );
                self.find("R11", "inconsistent-offsets", text);
            }
        }
        for (place, records) in &history.log {
            let plain = records.iter().find(|(_, value)| {
                let sent = history.sends.get(value.id);
                let is_plain = sent.is_some_and(|sent| sent.transaction.is_none());
                is_plain && !self.visible.contains(&value.id)
            });
            if let Some((offset, value)) = plain {
                let text = format!(
                    "record {} at {place:?} {offset} is in no transaction",
                    value.id
                );
                self.find("R11", "hidden-record", text);
            }
        }
    }

    /// R11: the records that `read_committed` consumers got during the run.
    fn readers(&mut self) {
        let history = self.history;
        for consumer in &history.isolated {
            let seen = history.seen.get(*consumer).into_iter().flatten();
            let read = seen.filter_map(|seen| match seen {
                Seen::Record(place, offset, value) => Some((place, offset, value.id)),
                _ => None,
            });
            for (place, offset, id) in read {
                if !self.visible.contains(&id) {
                    let text = format!("consumer {consumer} got record {id} at {place:?} {offset}");
                    self.find("R11", "aborted-read", text);
                }
            }
        }
        for (id, at) in &history.first_read {
            let sent = history.sends.get(*id);
            let number = sent.and_then(|sent| sent.transaction);
            let Some(transaction) = number.and_then(|number| history.transactions.get(number))
            else {
                continue;
            };
            if transaction.commit_asked.is_none_or(|asked| *at < asked) {
                let text = format!(
                    "record {id} was read at {at:?}, and transaction {number:?} was to be committed at {:?}",
                    transaction.commit_asked
                );
                self.find("R11", "dirty-read", text);
            }
        }
    }

    /// R11 and R12 of one transaction's records.
    fn atomicity(&mut self, number: usize, transaction: &Transaction) {
        let history = self.history;
        let ids = transaction.records.iter().map(|(_, id)| *id);
        let (shown, hidden): (Vec<_>, Vec<_>) = ids.partition(|id| self.visible.contains(id));
        let text = || {
            format!(
                "transaction {number}, reported {:?}: {shown:?} are there, {hidden:?} are not",
                transaction.verdict
            )
        };
        let wanted = transaction.commit_asked.is_some();
        match transaction.verdict {
            Some(Verdict::Committed) if !hidden.is_empty() => {
                let name = if shown.is_empty() {
                    "lost-commit"
                } else {
                    "torn-commit"
                };
                self.find("R12", name, text());
            }
            Some(Verdict::Committed) => {}
            Some(Verdict::NotCommitted) if !shown.is_empty() => {
                self.find("R11", "aborted-read", text());
            }
            None if !wanted && !shown.is_empty() => self.find("R11", "aborted-read", text()),
            _ if !shown.is_empty() && !hidden.is_empty() => {
                self.find("R12", "torn-commit", text());
            }
            _ => {}
        }
        let settled = transaction
            .settled
            .filter(|_| !transaction.records.is_empty());
        if settled.is_some_and(|committed| committed == shown.is_empty()) {
            let text = format!("{}, settled as {settled:?}", text());
            self.find("R12", "untrue-verdict", text);
        }
        let is_written = |id: &RecordId| {
            let fates = history.sends.get(*id).map(|sent| &sent.fates[..]);
            matches!(fates, Some([(_, Fate::Written(_)), ..]))
        };
        if transaction.verdict == Some(Verdict::Committed) {
            let ids = transaction.records.iter().map(|(_, id)| id);
            let unwritten: Vec<_> = ids.filter(|id| !is_written(id)).collect();
            if !unwritten.is_empty() {
                let text = format!("transaction {number} was committed without {unwritten:?}");
                self.find("R12", "incomplete-commit", text);
            }
        }
    }

    /// When a producer was surely succeeded.
    fn succeeded(&self, own: &Incarnation) -> Option<Duration> {
        let began = own.initialised?;
        let later = self.history.incarnations.iter().filter(|other| {
            other.id == own.id
                && other.producer != own.producer
                && other.asked.is_some_and(|asked| asked >= began)
        });
        later.filter_map(|other| other.initialised).min()
    }

    /// R13 of one transaction: no request for it was carried out that was sent after its producer
    /// was replaced.
    fn fencing(&mut self, number: usize, transaction: &Transaction) {
        let history = self.history;
        let own = history.incarnations.get(transaction.incarnation);
        let Some(ended) = own.and_then(|own| self.succeeded(own)) else {
            return;
        };
        for (at, id) in &transaction.records {
            let fates = history.sends.get(*id).map(|sent| &sent.fates[..]);
            if *at > ended && matches!(fates, Some([(_, Fate::Written(_)), ..])) {
                let text = format!(
                    "record {id} of transaction {number}, sent at {at:?}, was written; its producer was succeeded at {ended:?}"
                );
                self.find("R13", "zombie-write", text);
            }
        }
        let is_empty = transaction.records.is_empty() && transaction.offsets.is_empty();
        let asked = transaction.commit_asked_last.filter(|at| *at > ended);
        if let (Some(at), Some(Verdict::Committed), false) = (asked, transaction.verdict, is_empty)
        {
            let text = format!(
                "transaction {number} was committed at {at:?}; its producer was succeeded at {ended:?}"
            );
            self.find("R13", "zombie-commit", text);
        }
    }

    /// R13 in the log: no record of a producer comes after one of its successor.
    fn succession(&mut self) {
        let history = self.history;
        let by_producer: BTreeMap<usize, &Incarnation> = history
            .incarnations
            .iter()
            .map(|incarnation| (incarnation.producer, incarnation))
            .collect();
        for (place, records) in &history.log {
            // The latest that was asked for an identity, of those that have written here so far.
            let mut last: BTreeMap<usize, (&Incarnation, RecordId)> = BTreeMap::new();
            for (offset, value) in records {
                let sent = history.sends.get(value.id);
                let Some(own) = sent.and_then(|sent| by_producer.get(&sent.producer)) else {
                    continue;
                };
                let before = last.get(&own.id).copied();
                if let Some((other, id)) = before {
                    let is_late = other.producer != own.producer
                        && own
                            .initialised
                            .is_some_and(|began| other.asked >= Some(began));
                    if is_late {
                        let text = format!(
                            "record {} of producer {} at {place:?} {offset}, behind record {id} of its successor {}",
                            value.id, own.producer, other.producer
                        );
                        self.find("R13", "late-write", text);
                    }
                }
                if before.is_none_or(|(other, _)| other.asked <= own.asked) {
                    last.insert(own.id, (own, value.id));
                }
            }
        }
    }

    fn effect(&self, transaction: &Transaction) -> Effect {
        match transaction.verdict {
            Some(Verdict::Committed) => Effect::Yes,
            Some(Verdict::NotCommitted) => Effect::No,
            _ if transaction.commit_asked.is_none() => Effect::No,
            _ => match (transaction.records.first(), transaction.settled) {
                (Some((_, id)), _) if self.visible.contains(id) => Effect::Yes,
                (Some(_), _) | (None, Some(false)) => Effect::No,
                (None, Some(true)) => Effect::Yes,
                (None, None) => Effect::Perhaps,
            },
        }
    }

    /// R12 of offsets: those of the last transaction that was committed.
    fn offsets(&mut self, id: usize, place: &Place, found: i64) {
        let history = self.history;
        let mut possible = Vec::new();
        let mut aborted = Vec::new();
        let mut certain = None;
        for transaction in history.transactions.iter().rev() {
            let own = history.incarnations.get(transaction.incarnation);
            if own.is_none_or(|own| own.id != id) {
                continue;
            }
            let mut rows = transaction.offsets.iter().rev();
            let Some((_, offset)) = rows.find(|(other, _)| other == place) else {
                continue;
            };
            match self.effect(transaction) {
                Effect::No => aborted.push(*offset),
                Effect::Perhaps if certain.is_none() => possible.push(*offset),
                Effect::Yes if certain.is_none() => certain = Some(*offset),
                Effect::Perhaps | Effect::Yes => {}
            }
        }
        // Nothing, unless something was surely committed.
        possible.push(certain.unwrap_or(-1));
        if possible.contains(&found) {
            return;
        }
        let name = if aborted.contains(&found) {
            "aborted-offsets"
        } else {
            "lost-offsets"
        };
        let text = format!("group of id {id}, {place:?}: {found} instead of one of {possible:?}");
        self.find("R12", name, text);
    }
}
