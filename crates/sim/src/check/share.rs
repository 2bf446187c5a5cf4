//! R19 and R20: what share groups do with records, and which results their members get for their
//! acknowledgements.
//!
//! It goes through what brokers took and gave in the order in which they did, and so knows of each record of a group who has it, until
//! when, how often it was delivered, and whether the group is done with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ottla_engine::ErrorCode;
use ottla_engine::share_consumer::AcknowledgeType;

use crate::history::{Anomaly, History, Place, at};
use crate::shared::{Outcome, Range, Reign, Session, Shared};

/// Within this time the result of an acknowledgement is reported: locks and requests last less.
const LONGEST: Duration = Duration::from_secs(20);
/// Kafka's acknowledgement number for offsets without a record.
const GAP: i8 = 0;

/// The anomalies, and the states that share groups were seen in.
pub(super) fn check(history: &History) -> (Vec<Anomaly>, BTreeSet<&'static str>) {
    let mut checker = Checker {
        history,
        found: Vec::new(),
        met: BTreeSet::new(),
        answers: BTreeMap::new(),
        records: BTreeMap::new(),
        own: BTreeMap::new(),
        unspoken: BTreeMap::new(),
        sessions: BTreeMap::new(),
    };
    checker.read_answers();
    let mut is_steady = false;
    for (now, process, shared) in &history.shared {
        if !is_steady && history.steady.is_some_and(|steady| *now > steady) {
            is_steady = true;
            checker.awaited();
        }
        checker.take(*now, *process, shared);
    }
    checker.ends();
    (checker.found, checker.met)
}

/// A broker's response: the code for the whole, and those of partitions.
type Answer<'a> = (ErrorCode, BTreeMap<&'a Place, ErrorCode>);

/// The result of an acknowledgement at a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Yes,
    No,
    /// No result was reported.
    Unknown,
}

/// The holder of a record.
#[derive(Clone, Debug)]
struct Holder {
    process: usize,
    node: i32,
    until: Duration,
}

/// The final state of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Rejected,
    /// A member acknowledged that there is no record.
    Missing,
}

/// A record, as a group has it.
#[derive(Debug, Default)]
struct Record {
    holder: Option<Holder>,
    reign: Option<Reign>,
    fate: Option<Fate>,
    /// The broker may have done something with it that was not reported.
    is_unsure: bool,
    deliveries: i16,
    was_given: bool,
    was_released: bool,
}

/// A record, as one member has it.
#[derive(Debug, Default)]
struct Own {
    /// Deliveries that nodes gave it, and its application did not get yet.
    granted: Vec<(i32, i16)>,
    /// In good weather, the node from which the last of them came.
    awaited: Option<i32>,
    said: Vec<AcknowledgeType>,
    /// The acknowledgements without a result, and since when they are due at brokers.
    pending: Vec<(AcknowledgeType, Option<Duration>)>,
    done: Vec<i8>,
    /// The node that reported it as done.
    done_at: Option<i32>,
    /// The node that took last what it said.
    told_at: i32,
}

struct Checker<'a> {
    history: &'a History,
    found: Vec<Anomaly>,
    met: BTreeSet<&'static str>,
    answers: BTreeMap<usize, Answer<'a>>,
    /// By group.
    records: BTreeMap<(usize, &'a Place, i64), Record>,
    /// By member.
    own: BTreeMap<(usize, &'a Place, i64), Own>,
    /// The acknowledgements that are due with the next poll or commit.
    unspoken: BTreeMap<usize, Vec<(&'a Place, i64)>>,
    /// The connections on which the sessions of members with nodes began.
    sessions: BTreeMap<(usize, i32), u64>,
}

fn number(kind: AcknowledgeType) -> i8 {
    match kind {
        AcknowledgeType::Accept => 1,
        AcknowledgeType::Release => 2,
        AcknowledgeType::Reject => 3,
        AcknowledgeType::Renew => 4,
    }
}

fn offsets(range: &Range) -> impl Iterator<Item = (&Place, i64)> {
    (range.first..=range.last).map(|offset| (&range.place, offset))
}

impl<'a> Checker<'a> {
    fn find(&mut self, invariant: &'static str, name: &'static str, text: String) {
        self.found.push(Anomaly {
            invariant,
            name,
            text,
        });
    }

    fn group_of(&self, process: usize) -> usize {
        self.history.sharers.get(process).copied().unwrap_or(0)
    }

    fn read_answers(&mut self) {
        for (_, _, shared) in &self.history.shared {
            if let Shared::Answered {
                number,
                code,
                codes,
            } = shared
            {
                let codes = codes.iter().map(|(place, code)| (place, *code));
                self.answers.insert(*number, (*code, codes.collect()));
            }
        }
    }

    fn take(&mut self, now: Duration, process: usize, shared: &'a Shared) {
        match shared {
            Shared::Took {
                number,
                wire,
                said,
                session,
            } => {
                for (range, kind) in said {
                    let done = self.done(*number, &range.place);
                    for (place, offset) in offsets(range) {
                        self.acknowledged(now, (process, wire.node), (place, offset), *kind, done);
                    }
                }
                let refused = self.answers.get(number);
                let is_refused = refused.is_some_and(|(code, _)| code.is_error());
                match session {
                    Session::Begins => {
                        self.sessions.insert((process, wire.node), wire.number);
                    }
                    Session::Ends if !is_refused => {
                        let text =
                            "shared: records that members had were free when a session ended";
                        self.free(process, wire.node, text);
                    }
                    _ => {}
                }
            }
            Shared::Acquired {
                wire,
                reign,
                range,
                deliveries,
                lock,
            } => {
                let holder = Holder {
                    process,
                    node: wire.node,
                    until: now + *lock,
                };
                for (place, offset) in offsets(range) {
                    self.acquired(now, (place, offset), &holder, *reign, *deliveries);
                }
            }
            Shared::Parted(wire) => {
                let key = (process, wire.node);
                if self.sessions.get(&key) == Some(&wire.number) {
                    let text = "shared: records that members had were free when a connection ended";
                    self.free(process, wire.node, text);
                }
            }
            Shared::Given(place, offset, deliveries, _) => {
                self.given(process, (place, *offset), *deliveries);
            }
            Shared::Said(range, kind) => {
                for (place, offset) in offsets(range) {
                    let own = self.own.entry((process, place, offset)).or_default();
                    own.said.push(*kind);
                    own.pending.retain(|(_, spoken)| spoken.is_some());
                    own.pending.push((*kind, None));
                    let unspoken = self.unspoken.entry(process).or_default();
                    unspoken.push((place, offset));
                }
            }
            Shared::Spoke => self.spoke(now, process),
            Shared::Told(range, kind, outcome) => self.told(now, process, range, *kind, *outcome),
            Shared::Leaves => {
                self.spoke(now, process);
            }
            Shared::Left(_) => self.ended(process, true),
            Shared::Died => self.ended(process, false),
            Shared::Expelled => {
                if self.history.steady.is_some_and(|since| now > since) {
                    let text = format!("process {process} was expelled at {now:?}");
                    self.find("R14", "restless-group", text);
                }
            }
            Shared::Answered { .. } => {}
        }
    }

    fn own_of(&mut self, process: usize) -> impl Iterator<Item = ((&'a Place, i64), &mut Own)> {
        let all = self.own.iter_mut();
        let those = all.filter(move |((of, ..), _)| *of == process);
        those.map(|((_, place, offset), own)| ((*place, *offset), own))
    }

    fn done(&self, number: usize, place: &Place) -> Done {
        match self.answers.get(&number) {
            None => Done::Unknown,
            Some((code, codes)) => match codes.get(place) {
                _ if code.is_error() => Done::No,
                Some(code) if code.is_error() => Done::No,
                Some(_) => Done::Yes,
                None => Done::Unknown,
            },
        }
    }

    /// A broker took an acknowledgement.
    fn acknowledged(
        &mut self,
        now: Duration,
        (process, node): (usize, i32),
        (place, offset): (&'a Place, i64),
        kind: i8,
        done: Done,
    ) {
        let group = self.group_of(process);
        let here = format!("process {process}, {} {offset}", at(place));
        let own = self.own.entry((process, place, offset)).or_default();
        let is_said = own.said.iter().any(|said| number(*said) == kind);
        // A record that was not given to any member is not checked.
        let is_granted = own.granted.iter().any(|(from, _)| *from == node);
        let by_itself = !is_said && matches!(kind, GAP | 2) && is_granted;
        if done != Done::No {
            own.done.push(kind);
            own.told_at = node;
            own.awaited = None;
        }
        if done != Done::No && by_itself {
            own.granted.retain(|(from, _)| *from != node);
        }
        if !is_said && !by_itself {
            let text = format!("{here}: a broker received {kind}");
            self.find("R20", "unsaid-ack", text);
        }
        let rules = self.history.share_rules.get(group);
        let limit = rules.map_or(i16::MAX, |rules| rules.deliveries);
        let lock = rules.map_or(Duration::ZERO, |rules| rules.lock);
        let record = self.records.entry((group, place, offset)).or_default();
        let is_its_own = record
            .holder
            .as_ref()
            .is_some_and(|it| it.process == process);
        let is_over = record.fate.is_some() || record.deliveries >= limit;
        match done {
            Done::No => return,
            // For a finished record, any acknowledgement counts.
            Done::Yes if !is_its_own && (is_over || record.is_unsure) => return,
            Done::Yes if !is_its_own => {
                let text = format!("{here}: {kind} counts, it has {:?}", record.holder);
                return self.find("R19", "foreign-ack", text);
            }
            Done::Yes => {}
            Done::Unknown => record.is_unsure = true,
        }
        match kind {
            1 | 3 | GAP if done == Done::Yes => {
                record.fate = Some(match kind {
                    1 => Fate::Accepted,
                    3 => Fate::Rejected,
                    _ => Fate::Missing,
                });
                record.holder = None;
                self.met.insert(match kind {
                    1 => "shared: a record was accepted",
                    3 => "shared: a record was rejected",
                    _ => "shared: an offset had no record",
                });
            }
            4 => {
                if let Some(holder) = &mut record.holder {
                    holder.until = now + lock;
                }
                self.met.insert("shared: a lock was renewed");
            }
            _ => {
                record.was_released = true;
                record.holder = None;
            }
        }
    }

    /// The session of a member with a node is over.
    fn free(&mut self, process: usize, node: i32, state: &'static str) {
        for record in self.records.values_mut() {
            let is_meant = |it: &mut Holder| (it.process, it.node) == (process, node);
            if record.holder.take_if(is_meant).is_some() {
                self.met.insert(state);
            }
        }
        for (_, own) in self.own_of(process) {
            own.awaited.take_if(|at| *at == node);
        }
    }

    /// R19: a broker gave a member a record that no other member holds, and that its group is not
    /// done with.
    fn acquired(
        &mut self,
        now: Duration,
        (place, offset): (&'a Place, i64),
        holder: &Holder,
        reign: Option<Reign>,
        deliveries: i16,
    ) {
        let process = holder.process;
        let group = self.group_of(process);
        let here = format!("process {process} at {now:?}, {} {offset}", at(place));
        let rules = self.history.share_rules.get(group);
        let limit = rules.map_or(i16::MAX, |rules| rules.deliveries);
        let record = self.records.entry((group, place, offset)).or_default();
        let mut found = Vec::new();
        match record.fate {
            Some(Fate::Accepted) => found.push(("accepted-again", here.clone())),
            Some(Fate::Rejected) => found.push(("rejected-again", here.clone())),
            _ => {}
        }
        let is_same = reign.is_some() && record.reign == reign;
        let before = record.holder.replace(holder.clone());
        if let Some(before) = before {
            if is_same && before.until > now {
                let text = format!(
                    "{here}: process {} has it until {:?}",
                    before.process, before.until
                );
                found.push(("two-holders", text));
            } else if is_same && before.process != process {
                self.met
                    .insert("shared: a lock ended, and others got the records");
            }
        } else if is_same && record.was_released {
            self.met
                .insert("shared: a record was released, and delivered again");
        }
        if record.deliveries > 0 && !is_same {
            self.met.insert("shared: a leader took over");
        }
        // A new leader does not count a delivery without an acknowledgement.
        let is_counted = deliveries == record.deliveries + 1
            || (!is_same && record.deliveries > 0 && deliveries == record.deliveries);
        if !is_counted {
            let text = format!("{here}: delivery {deliveries} after {}", record.deliveries);
            found.push(("wrong-count", text));
        }
        if deliveries > limit {
            let text = format!("{here}: delivery {deliveries}, of at most {limit}");
            found.push(("over-delivered", text));
        }
        record.deliveries = deliveries;
        record.reign = reign;
        record.was_released = false;
        let own = self.own.entry((process, place, offset)).or_default();
        own.granted.push((holder.node, deliveries));
        own.done_at = None;
        if self.history.well.is_some_and(|well| now > well) {
            let before = own.awaited.replace(holder.node);
            if before == Some(holder.node) {
                found.push(("withheld", here));
            }
        }
        for (name, text) in found {
            self.find("R19", name, text);
        }
    }

    /// R19: an application gets what its client got, once, with its count.
    fn given(&mut self, process: usize, (place, offset): (&'a Place, i64), deliveries: i16) {
        let group = self.group_of(process);
        let here = format!(
            "process {process}, {} {offset}, delivery {deliveries}",
            at(place)
        );
        let record = self.records.entry((group, place, offset)).or_default();
        record.was_given = true;
        let own = self.own.entry((process, place, offset)).or_default();
        own.awaited = None;
        let same = own.granted.iter().rposition(|(_, it)| *it == deliveries);
        let is_granted = !own.granted.is_empty();
        // The response of a stale leader may come late.
        let mut nodes = own.granted.iter().map(|(from, _)| *from);
        let is_final = own.done_at.is_some_and(|at| nodes.all(|from| from == at));
        if is_granted {
            own.granted.remove(same.unwrap_or(0));
        }
        if !is_granted {
            self.find("R19", "ungranted-poll", here.clone());
        } else if same.is_none() {
            self.find("R19", "wrong-count", here.clone());
        }
        if is_final {
            self.find("R19", "accepted-again", here);
        }
    }

    fn spoke(&mut self, now: Duration, process: usize) {
        for (place, offset) in self.unspoken.remove(&process).unwrap_or_default() {
            let own = self.own.entry((process, place, offset)).or_default();
            for (_, spoken) in &mut own.pending {
                spoken.get_or_insert(now);
            }
        }
    }

    /// R20: the result of each acknowledgement is reported, once and in time; and one that is
    /// reported to count does count.
    fn told(
        &mut self,
        now: Duration,
        process: usize,
        range: &'a Range,
        kind: Option<AcknowledgeType>,
        outcome: Outcome,
    ) {
        let Some(kind) = kind else { return };
        for (place, offset) in offsets(range) {
            let here = format!(
                "process {process} at {now:?}, {kind:?} of {} {offset}",
                at(place)
            );
            let own = self.own.entry((process, place, offset)).or_default();
            let mut pending = own.pending.iter();
            let found = pending.position(|(said, since)| *said == kind && since.is_some());
            let since = found.and_then(|found| own.pending.remove(found).1);
            let counts = outcome == Outcome::Counts;
            let is_true = !counts || own.done.contains(&number(kind));
            let is_final = matches!(kind, AcknowledgeType::Accept | AcknowledgeType::Reject);
            if counts && is_final {
                own.done_at = Some(own.told_at);
            }
            if !is_true {
                self.find("R20", "untrue-ack", here.clone());
            }
            match since {
                // The client itself releases records that its application did not get.
                None if kind == AcknowledgeType::Release => {}
                None => self.find("R20", "ack-told-twice", here),
                Some(since) if now > since + LONGEST => {
                    self.find("R20", "ack-late", format!("{here}, said at {since:?}"));
                }
                Some(_) => {}
            }
        }
    }

    /// A process ended. If it did so in order, it received the results of all its acknowledgements.
    fn ended(&mut self, process: usize, in_order: bool) {
        let mut open = Vec::new();
        for ((place, offset), own) in self.own_of(process) {
            own.awaited = None;
            own.pending
                .retain(|(kind, _)| *kind != AcknowledgeType::Renew);
            // A renewal ends with the session, whether it was sent or not.
            for (kind, _) in std::mem::take(&mut own.pending) {
                open.push(format!(
                    "process {process}, {kind:?} of {} {offset}",
                    at(place)
                ));
            }
        }
        self.unspoken.remove(&process);
        for text in open.into_iter().filter(|_| in_order) {
            self.find("R20", "ack-unresolved", text);
        }
    }

    /// R19: everything was read that there is, so that who got a record in good weather has given it out.
    fn awaited(&mut self) {
        let all = self.own.iter();
        let awaited = all.filter(|(_, own)| own.awaited.is_some());
        let here = awaited.map(|((process, place, offset), _)| {
            format!("process {process}, {} {offset}", at(place))
        });
        for text in here.collect::<Vec<_>>() {
            self.find("R19", "withheld", text);
        }
    }

    /// R19 after the end: each group was given each record, and is done with it because it was
    /// acknowledged, or because it was delivered as often as it may be.
    fn ends(&mut self) {
        let history = self.history;
        let has_transactions = !history.incarnations.is_empty();
        for (group, rules) in history.share_rules.iter().enumerate() {
            let is_isolated = rules.committed && has_transactions;
            for (place, log) in &history.log {
                let committed = history.committed.get(place).into_iter().flatten();
                let committed: BTreeSet<i64> = committed.map(|(offset, _)| *offset).collect();
                for (offset, value) in log {
                    let here = format!(
                        "group {group}, record {} at {} {offset}",
                        value.id,
                        at(place)
                    );
                    let record = self.records.remove(&(group, place, *offset));
                    let record = record.unwrap_or_default();
                    if is_isolated && !committed.contains(offset) {
                        if record.was_given {
                            self.find("R19", "aborted-read", here);
                        }
                        continue;
                    }
                    let is_archived = record.deliveries >= rules.deliveries;
                    if is_archived && record.fate.is_none() {
                        let text =
                            "shared: a record was delivered as often as it may be, and archived";
                        self.met.insert(text);
                    }
                    if record.fate == Some(Fate::Missing) {
                        self.find("R20", "unsaid-ack", here);
                    } else if !record.was_given && !is_archived {
                        self.find("R19", "never-given", here);
                    } else if record.fate.is_none() && !is_archived && !record.is_unsure {
                        self.find("R19", "forgotten-record", here);
                    }
                }
            }
        }
    }
}
