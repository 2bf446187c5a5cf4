//! The invariants of groups: R9, R10, and R14.
//!
//! All that happened to their consumers is read in order. What a group may have committed is known
//! from the responses of brokers: the newest commit that one of them confirmed, or one that it
//! received since then and did not refuse.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Anomaly, Fate, History, Joint, Place, at};

/// No member commits offsets from here on.
const BEYOND: i64 = 1 << 40;

/// The anomalies of a history's groups.
pub(super) fn check(history: &History) -> Vec<Anomaly> {
    let processes = history.processes.iter().map(|_| Process::default());
    let mut checker = Checker {
        history,
        processes: processes.collect(),
        groups: BTreeMap::new(),
        sent: BTreeMap::new(),
        asked: BTreeMap::new(),
        found: Vec::new(),
    };
    for (at, (_, process, joint)) in history.joint.iter().enumerate() {
        checker.happen(at, *process, joint);
    }
    checker.reading();
    checker.ends();
    checker.steady();
    checker.found
}

struct Checker<'a> {
    history: &'a History,
    processes: Vec<Process<'a>>,
    groups: BTreeMap<usize, Group<'a>>,
    /// By its number: the commits that a request carries, as places in [`Group::commits`].
    sent: BTreeMap<usize, Vec<(&'a Place, usize)>>,
    /// Commits that applications requested, by number.
    asked: BTreeMap<usize, &'a [(Place, i64)]>,
    found: Vec<Anomaly>,
}

/// A consumer, as far as it is known what happened to it.
#[derive(Default)]
struct Process<'a> {
    owned: BTreeMap<&'a Place, Reading>,
    /// What its listener is being notified to lose.
    going: Vec<&'a Place>,
    /// What it revoked without faults: only on its way out, as nothing else takes anything from it then.
    left: BTreeMap<&'a Place, Reading>,
    /// The highest position that it has finished working on.
    settled: BTreeMap<&'a Place, i64>,
    /// The commits that its application requested, and when.
    asks: Vec<(usize, &'a Place, i64)>,
    /// The partitions that were revoked in this generation, and must not come back in the next.
    stopped: Option<(i32, &'a [Place])>,
    /// The positions that its application sought.
    sought: BTreeSet<(&'a Place, i64)>,
    /// The offsets that it has sent in commits: a request may be repeated.
    sent: BTreeSet<(&'a Place, i64)>,
    /// The group continued without it after its last assignment.
    is_expelled: bool,
    ended: bool,
}

/// A partition that a consumer has.
#[derive(Default)]
struct Reading {
    /// When it was notified.
    since: usize,
    /// The offset after the last one that it was given.
    given: Option<i64>,
    /// Where it may begin, besides the committed offset.
    starts: Vec<i64>,
    /// Only there: it sought this position.
    is_sought: bool,
}

#[derive(Default)]
struct Group<'a> {
    /// The owners of each generation.
    owners: BTreeMap<i32, BTreeMap<&'a Place, usize>>,
    /// The newest generation that any member received.
    newest: i32,
    commits: BTreeMap<&'a Place, Vec<Commit>>,
    given: BTreeMap<&'a Place, BTreeSet<i64>>,
    /// Partitions that a member owned when another was assigned them: the owner, the generation,
    /// when, and the new owner.
    overlaps: Vec<(usize, i32, &'a Place, usize)>,
    /// How far the last owner of each, which commits in polls, was given it when it left in good weather.
    last: BTreeMap<&'a Place, i64>,
}

/// A commit of a partition's offset.
struct Commit {
    offset: i64,
    process: usize,
    generation: i32,
    sent: usize,
    /// When a broker received it, and the newest known generation then.
    taken: Option<(usize, i32)>,
    /// When its response came, and whether it was done.
    answered: Option<(usize, Option<bool>)>,
}

impl Commit {
    fn is_done_before(&self, at: usize) -> bool {
        let done = self.answered.filter(|(_, done)| *done == Some(true));
        done.is_some_and(|(answered, _)| answered < at)
    }

    fn may_be_done(&self) -> bool {
        self.taken.is_some() && self.answered.is_none_or(|(_, done)| done != Some(false))
    }
}

impl Group<'_> {
    /// The possible committed offsets of a partition for a look-up later than `at`; `None`: no
    /// offset.
    fn candidates(&self, place: &Place, at: usize, is_stale: bool) -> Vec<Option<i64>> {
        let none = Vec::new();
        let commits = self.commits.get(place).unwrap_or(&none);
        let done = commits.iter().filter(|commit| commit.is_done_before(at));
        // A stale coordinator returns what was true before.
        let last = done.max_by_key(|commit| commit.taken).filter(|_| !is_stale);
        let first = last.map(|commit| commit.offset);
        let taken = last.and_then(|commit| commit.taken);
        let later = commits.iter().filter(|commit| commit.taken > taken);
        let later = later.filter(|commit| commit.may_be_done());
        let later = later.map(|commit| Some(commit.offset));
        [first].into_iter().chain(later).collect()
    }
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
        let known = self.history.processes.get(process);
        known.map_or(usize::MAX, |known| known.group)
    }

    fn happen(&mut self, now: usize, process: usize, joint: &'a Joint) {
        let number = self.group_of(process);
        match joint {
            Joint::Assigned(generation, added) => self.assigned(now, process, *generation, added),
            Joint::Revoked(generation, gone) => self.revoked(process, *generation, gone),
            Joint::Lost(gone) => {
                if let Some(own) = self.processes.get_mut(process) {
                    own.going = gone.iter().collect();
                    own.stopped = None;
                }
            }
            Joint::GaveUp => {
                let is_steady = self.is_steady(now);
                if let Some(own) = self.processes.get_mut(process) {
                    for place in std::mem::take(&mut own.going) {
                        let reading = own.owned.remove(place).filter(|_| is_steady);
                        own.left.extend(reading.map(|reading| (place, reading)));
                    }
                }
            }
            Joint::Subscribed => {
                if let Some(own) = self.processes.get_mut(process) {
                    own.stopped = None;
                }
            }
            Joint::Expelled => {
                if let Some(own) = self.processes.get_mut(process) {
                    own.stopped = None;
                    own.is_expelled = true;
                }
                // It is notified later that it has lost what others get, and may join their
                // generation then.
                let group = self.groups.entry(number).or_default();
                group.overlaps.retain(|(other, ..)| *other != process);
            }
            // `check::epochs` knows what follows from them.
            Joint::InEpoch(_) | Joint::Stayed => {}
            Joint::Ended => self.ended(now, process),
            Joint::Polled => {
                let Some(own) = self.processes.get_mut(process) else {
                    return;
                };
                for (place, reading) in &own.owned {
                    if let Some(given) = reading.given {
                        let settled = own.settled.entry(place).or_default();
                        *settled = given.max(*settled);
                    }
                }
            }
            Joint::Given(place, offset) => self.given(process, place, *offset),
            Joint::Sought(place, to) => {
                let Some(own) = self.processes.get_mut(process) else {
                    return;
                };
                own.sought.insert((place, *to));
                if let Some(reading) = own.owned.get_mut(place) {
                    (reading.given, reading.starts) = (None, vec![*to]);
                    reading.is_sought = true;
                }
            }
            Joint::Reset(place, from, to) => self.reset(process, place, *from, *to),
            Joint::Asked(commit, offsets) => {
                self.asked.insert(*commit, offsets);
                if let Some(own) = self.processes.get_mut(process) {
                    let rows = offsets.iter();
                    own.asks
                        .extend(rows.map(|(place, offset)| (now, place, *offset)));
                }
            }
            Joint::Committed(commit) => self.committed(process, *commit),
            Joint::Sent(commit, generation, offsets) => {
                self.check_sent(process, offsets);
                let group = self.groups.entry(number).or_default();
                let mut rows = Vec::new();
                for (place, offset) in offsets {
                    let commits = group.commits.entry(place).or_default();
                    rows.push((place, commits.len()));
                    commits.push(Commit {
                        offset: *offset,
                        process,
                        generation: *generation,
                        sent: now,
                        taken: None,
                        answered: None,
                    });
                }
                self.sent.insert(*commit, rows);
            }
            Joint::Taken(commit) => self.each_sent(number, *commit, |commit, newest| {
                commit.taken = Some((now, newest));
            }),
            Joint::Answered(commit, done) => {
                let by_epoch = self.by_epoch(process);
                let mut stale = None;
                self.each_sent(number, *commit, |commit, _| {
                    commit.answered = Some((now, *done));
                    let (_, newest) = commit.taken.unwrap_or_default();
                    if *done == Some(true) && commit.generation < newest && !by_epoch {
                        stale = Some((commit.generation, newest));
                    }
                });
                if let Some((generation, newest)) = stale {
                    let text = format!(
                        "process {process} committed in generation {generation}, when others were in {newest}"
                    );
                    self.find("R9", "stale-commit", text);
                }
            }
        }
    }

    /// Whether the weather was good by then.
    fn is_steady(&self, now: usize) -> bool {
        let at = self.history.joint.get(now).map(|(at, ..)| *at);
        self.history.steady.is_some() && at > self.history.steady
    }

    /// Whether it has an epoch of its own: then the checks of generations do not apply.
    fn by_epoch(&self, process: usize) -> bool {
        let known = self.history.processes.get(process);
        known.is_some_and(|known| known.by_epoch)
    }

    fn each_sent(&mut self, group: usize, commit: usize, mut f: impl FnMut(&mut Commit, i32)) {
        let group = self.groups.entry(group).or_default();
        for (place, row) in self.sent.get(&commit).into_iter().flatten() {
            let commits = group.commits.get_mut(place);
            if let Some(commit) = commits.and_then(|commits| commits.get_mut(*row)) {
                f(commit, group.newest);
            }
        }
    }

    /// R9: one owner in a generation, and no partition is revoked without need.
    fn assigned(&mut self, now: usize, process: usize, generation: i32, added: &'a [Place]) {
        let number = self.group_of(process);
        let Some(own) = self.processes.get_mut(process) else {
            return;
        };
        let stopped = own.stopped.take();
        own.ended = false;
        own.is_expelled = false;
        for place in added {
            own.owned.insert(
                place,
                Reading {
                    since: now,
                    ..Reading::default()
                },
            );
        }
        let owned: Vec<&Place> = own.owned.keys().copied().collect();
        if self.by_epoch(process) {
            return;
        }
        let instance = |process: usize| {
            let known = self.history.processes.get(process);
            known.and_then(|known| known.instance.as_ref())
        };
        let is_same = |other: usize| {
            other == process || (instance(other).is_some() && instance(other) == instance(process))
        };
        let cooperates = self.history.processes.get(process);
        if let Some((before, gone)) = stopped.filter(|_| cooperates.is_some_and(|it| it.cooperates))
        {
            let back = added.iter().find(|place| gone.contains(place));
            if let Some(place) = back.filter(|_| before != generation) {
                let text = format!(
                    "process {process} revoked {} in generation {before} and got it back in {generation}",
                    at(place)
                );
                self.find("R9", "needless-stop", text);
            }
        }
        let mut twice = Vec::new();
        let mut overlaps = Vec::new();
        for (other, known) in self.processes.iter().enumerate() {
            let is_gone = known.ended || known.is_expelled;
            if self.group_of(other) != number || is_same(other) || is_gone {
                continue;
            }
            for place in added {
                if known.owned.contains_key(place) {
                    overlaps.push((other, generation, place, process));
                }
            }
        }
        let group = self.groups.entry(number).or_default();
        group.newest = group.newest.max(generation);
        let owners = group.owners.entry(generation).or_default();
        for place in owned {
            let before = owners.insert(place, process);
            if let Some(before) = before.filter(|before| !is_same(*before)) {
                twice.push((place, before));
            }
        }
        for (place, before) in twice {
            let text = format!(
                "{} is process {before}'s and process {process}'s in generation {generation}",
                at(place)
            );
            self.find("R9", "two-owners", text);
        }
        let group = self.groups.entry(number).or_default();
        group.overlaps.extend(overlaps);
        self.overlapped(process, generation);
    }

    fn revoked(&mut self, process: usize, generation: i32, gone: &'a [Place]) {
        if let Some(own) = self.processes.get_mut(process) {
            own.going = gone.iter().collect();
            own.stopped = Some((generation, gone));
        }
        self.overlapped(process, generation);
    }

    /// R9: a member of a generation no longer owned partitions that others were assigned in it.
    fn overlapped(&mut self, process: usize, generation: i32) {
        let number = self.group_of(process);
        let group = self.groups.entry(number).or_default();
        let known = group.overlaps.iter();
        let known = known.filter(|(other, of, ..)| (*other, *of) == (process, generation));
        let texts: Vec<String> = known
            .map(|(_, _, place, by)| {
                format!(
                    "process {by} was assigned {} in generation {generation} before process {process} of it gave it up",
                    at(place)
                )
            })
            .collect();
        group
            .overlaps
            .retain(|(other, of, ..)| (*other, *of) != (process, generation));
        for text in texts {
            self.find("R9", "two-owners", text);
        }
    }

    fn ended(&mut self, now: usize, process: usize) {
        let number = self.group_of(process);
        let known = self.history.processes.get(process);
        // In bad weather the last commit may fail.
        let commits_itself = known.is_some_and(|known| known.commits_itself) && self.is_steady(now);
        let Some(own) = self.processes.get_mut(process) else {
            return;
        };
        own.ended = true;
        own.stopped = None;
        own.going.clear();
        let group = self.groups.entry(number).or_default();
        // It no longer owns what others got meanwhile when it comes back.
        group.overlaps.retain(|(other, ..)| *other != process);
        let left = std::mem::take(&mut own.left).into_iter();
        for (place, reading) in left.chain(std::mem::take(&mut own.owned)) {
            match reading.given.filter(|_| commits_itself) {
                Some(given) => group.last.insert(place, given),
                None => group.last.remove(place),
            };
        }
    }

    /// R9: a record is given to an owner, from the committed offset on.
    fn given(&mut self, process: usize, place: &'a Place, offset: i64) {
        let (number, is_stale) = (self.group_of(process), self.history.stale);
        let here = format!("process {process}, {} {offset}", at(place));
        let group = self.groups.entry(number).or_default();
        group.given.entry(place).or_default().insert(offset);
        group.last.remove(place);
        let Some(own) = self.processes.get_mut(process) else {
            return;
        };
        let is_going = own.going.contains(&place);
        let Some(reading) = own.owned.get_mut(place).filter(|_| !is_going) else {
            return self.find("R9", "revoked-poll", here);
        };
        let is_first = reading.given.replace(offset.saturating_add(1)).is_none();
        if !is_first {
            return;
        }
        let mut starts: Vec<i64> = reading.starts.clone();
        if !reading.is_sought {
            let committed = group.candidates(place, reading.since, is_stale);
            starts.extend(committed.into_iter().map(|offset| offset.unwrap_or(0)));
        }
        if !starts.contains(&offset) {
            let text = format!("{here} is the first, which may be one of {starts:?}");
            self.find("R9", "wrong-start", text);
        }
    }

    /// R9: only a consumer without a sought position is reset.
    fn reset(&mut self, process: usize, place: &'a Place, from: i64, to: i64) {
        if (0..BEYOND).contains(&from) {
            let text = format!("process {process}, {} from {from} to {to}", at(place));
            self.find("R9", "external-reset", text);
        }
        let (number, is_stale) = (self.group_of(process), self.history.stale);
        let group = self.groups.entry(number).or_default();
        let own = self.processes.get_mut(process);
        let Some(reading) = own.and_then(|own| own.owned.get_mut(place)) else {
            return;
        };
        let committed = group.candidates(place, reading.since, is_stale);
        let is_fresh = reading.given.is_none() && !reading.is_sought;
        if from < 0 && is_fresh && !committed.contains(&None) {
            let text = format!(
                "process {process} began {} at {to}, as if nothing was committed: {committed:?}",
                at(place)
            );
            self.find("R9", "wrong-start", text);
        }
        let reading = self
            .processes
            .get_mut(process)
            .and_then(|own| own.owned.get_mut(place));
        if let Some(reading) = reading {
            (reading.given, reading.starts) = (None, vec![to]);
            reading.is_sought = true;
        }
    }

    /// R10: sent offsets are of records that were returned before the last poll, or are those that
    /// the application requested.
    fn check_sent(&mut self, process: usize, offsets: &'a [(Place, i64)]) {
        let (number, is_stale) = (self.group_of(process), self.history.stale);
        let group = self.groups.entry(number).or_default();
        let Some(own) = self.processes.get(process) else {
            return;
        };
        let mut ahead = Vec::new();
        for (place, offset) in offsets {
            let settled = own.settled.get(place).copied().unwrap_or(0);
            let is_asked = || {
                own.asks
                    .iter()
                    .any(|(_, of, it)| (*of, *it) == (place, *offset))
            };
            // Nothing was given of it: it is where reading begins.
            let is_start = || {
                own.owned.get(place).is_some_and(|reading| {
                    let committed = group.candidates(place, reading.since, is_stale);
                    reading.starts.contains(offset) || committed.contains(&Some(*offset))
                })
            };
            // A commit that is repeated is older than what was sought since, and may be older than the loss of the partition.
            let is_sought = own.sought.contains(&(place, *offset));
            let is_repeat = own.sent.contains(&(place, *offset));
            if *offset > settled && !is_sought && !is_repeat && !is_asked() && !is_start() {
                ahead.push(format!(
                    "process {process} commits {offset} of {}, and was done with {settled}",
                    at(place)
                ));
            }
        }
        for text in ahead {
            self.find("R10", "ahead-commit", text);
        }
        if let Some(own) = self.processes.get_mut(process) {
            own.sent
                .extend(offsets.iter().map(|(place, offset)| (place, *offset)));
        }
    }

    /// R10: a commit that was reported to an application as done is done, with the requested
    /// offsets.
    fn committed(&mut self, process: usize, number: usize) {
        let group = self.groups.entry(self.group_of(process)).or_default();
        let Some(own) = self.processes.get(process) else {
            return;
        };
        let mut untrue = Vec::new();
        for (place, offset) in self.asked.get(&number).copied().unwrap_or_default() {
            let asks = own.asks.iter();
            let later = asks.filter(|(at, of, _)| *of == place && *at > number);
            let later: Vec<i64> = later.map(|(_, _, offset)| *offset).collect();
            let commits = group.commits.get(place).into_iter().flatten();
            let mut own = commits.filter(|it| it.process == process && it.sent > number);
            let fits = |it: &Commit| it.offset == *offset || later.contains(&it.offset);
            if !own.any(|it| it.is_done_before(usize::MAX) && fits(it)) {
                untrue.push(format!("process {process}, {offset} of {}", at(place)));
            }
        }
        for text in untrue {
            self.find("R10", "untrue-commit", text);
        }
    }

    /// R9: each acknowledged record was given to a member of each group.
    fn reading(&mut self) {
        let history = self.history;
        let groups: BTreeSet<usize> = history.processes.iter().map(|it| it.group).collect();
        for number in groups {
            for (id, sent) in history.sends.iter().enumerate() {
                let (Some((partition, _)), [(_, Fate::Written(Some(offset)))]) =
                    (sent.placed, &sent.fates[..])
                else {
                    continue;
                };
                if !history.keeps(sent.producer) {
                    continue;
                }
                let place = (sent.topic.clone(), partition);
                let group = self.groups.entry(number).or_default();
                let given = group.given.get(&place);
                if !given.is_some_and(|given| given.contains(offset)) {
                    let text = format!("group {number}, record {id} at {} {offset}", at(&place));
                    self.find("R9", "never-given", text);
                }
            }
        }
    }

    /// R10: after the end, each group has committed what was reported as committed, and what its
    /// last owners were given.
    fn ends(&mut self) {
        let history = self.history;
        for ((number, place), found) in &history.committed_after {
            let group = self.groups.entry(*number).or_default();
            let found = (*found >= 0).then_some(*found);
            let possible = group.candidates(place, usize::MAX, false);
            let last = group.last.get(place).copied();
            if !possible.contains(&found) {
                let text = format!(
                    "group {number}, {}: {found:?} and not one of {possible:?}",
                    at(place)
                );
                self.find("R10", "lost-commit", text);
            } else if last.is_some() && found != last {
                let text = format!(
                    "group {number}, {}: {found:?}, records returned up to {last:?}",
                    at(place)
                );
                self.find("R10", "late-commit", text);
            }
        }
    }

    /// R14: without faults nobody is expelled, nothing is reassigned, and all are in one
    /// generation.
    fn steady(&mut self) {
        let history = self.history;
        let Some(since) = history.steady else {
            return;
        };
        let mut last: BTreeMap<usize, i32> = BTreeMap::new();
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        let mut restless = Vec::new();
        let all = history.joint.iter();
        let mut closing = false;
        for (at, process, joint) in all {
            closing |= *at > since && matches!(joint, Joint::Ended);
            match joint {
                Joint::Ended if *at < since => {
                    gone.insert(*process);
                }
                Joint::Assigned(..) | Joint::Expelled if *at > since && !closing => {
                    restless.push(format!("process {process} at {at:?}: {joint:?}"));
                }
                _ => {}
            }
            if self.by_epoch(*process) {
                continue;
            }
            if let (Joint::Assigned(generation, _), true) = (joint, *at < since) {
                gone.remove(process);
                last.insert(*process, *generation);
            }
        }
        for text in restless {
            self.find("R14", "restless-group", text);
        }
        let mut of_groups: BTreeMap<usize, BTreeSet<i32>> = BTreeMap::new();
        for (process, generation) in last {
            if !gone.contains(&process) {
                let group = self.group_of(process);
                of_groups.entry(group).or_default().insert(generation);
            }
        }
        for (group, generations) in of_groups {
            if generations.len() > 1 {
                let text = format!("group {group} has members in generations {generations:?}");
                self.find("R9", "torn-group", text);
            }
        }
    }
}
