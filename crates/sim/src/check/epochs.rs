//! What must hold of groups whose members have epochs of their own (KIP-848): R9 about who owns
//! what, in addition to the checks of all groups in `groups`.
//!
//! A member comes to an epoch when it has let go what others get in it. So whoever has a partition in the epoch in which another
//! was given it, or in a later one, was never asked to let it go, or said so too soon.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Anomaly, History, Joint, Place, at};

/// The anomalies of a history's members with epochs.
pub(super) fn check(history: &History) -> Vec<Anomaly> {
    let members = history.processes.iter().map(|_| Member::default());
    let mut checker = Checker {
        history,
        members: members.collect(),
        overlaps: Vec::new(),
        newest: BTreeMap::new(),
        stayed: BTreeMap::new(),
        sent: BTreeMap::new(),
        stale: BTreeMap::new(),
        found: Vec::new(),
    };
    for (_, process, joint) in &history.joint {
        let known = history.processes.get(*process);
        if let Some(known) = known.filter(|known| known.by_epoch) {
            checker.happen(*process, known.group, joint);
        }
    }
    for (group, epochs) in std::mem::take(&mut checker.stayed) {
        if epochs.len() > 1 {
            let text = format!("group {group} has members in epochs {epochs:?}");
            checker.find("torn-group", text);
        }
    }
    checker.found
}

/// A member, as far as it is known what happened to it.
#[derive(Default)]
struct Member<'a> {
    epoch: i32,
    /// What it owns, by the notifications of its listener, and its epoch then.
    owned: BTreeMap<&'a Place, i32>,
    /// What its listener is being notified to lose.
    going: Vec<&'a Place>,
    /// It has been assigned something, if only nothing, and the group has not gone on without it since.
    is_in: bool,
}

/// A member owned a partition when another was assigned it.
struct Overlap<'a> {
    holder: usize,
    place: &'a Place,
    by: usize,
    epoch: i32,
}

struct Checker<'a> {
    history: &'a History,
    members: Vec<Member<'a>>,
    overlaps: Vec<Overlap<'a>>,
    /// The last assignment of each partition of a group: the epoch, and the member.
    newest: BTreeMap<(usize, &'a Place), (i32, usize)>,
    /// The epochs that the members of each group were in when no member had joined or left for a
    /// time.
    stayed: BTreeMap<usize, BTreeSet<i32>>,
    /// By its number: the partitions of a commit in flight.
    sent: BTreeMap<usize, &'a [(Place, i64)]>,
    /// A partition that was another member's already when a broker received the commit, and that
    /// member.
    stale: BTreeMap<usize, (&'a Place, usize)>,
    found: Vec<Anomaly>,
}

impl<'a> Checker<'a> {
    fn find(&mut self, name: &'static str, text: String) {
        self.found.push(Anomaly {
            invariant: "R9",
            name,
            text,
        });
    }

    fn is_same(&self, one: usize, other: usize) -> bool {
        let instance = |process: usize| {
            let known = self.history.processes.get(process);
            known.and_then(|known| known.instance.as_ref())
        };
        one == other || (instance(one).is_some() && instance(one) == instance(other))
    }

    fn happen(&mut self, process: usize, group: usize, joint: &'a Joint) {
        let Some(own) = self.members.get_mut(process) else {
            return;
        };
        match joint {
            Joint::InEpoch(epoch) => {
                own.epoch = *epoch;
                self.overlapped(process);
            }
            Joint::Assigned(epoch, added) => {
                own.is_in = true;
                own.owned.extend(added.iter().map(|place| (place, *epoch)));
                self.assigned(process, group, *epoch, added);
            }
            Joint::Revoked(_, gone) | Joint::Lost(gone) => own.going = gone.iter().collect(),
            Joint::GaveUp => {
                let gone = std::mem::take(&mut own.going);
                own.owned.retain(|place, _| !gone.contains(place));
                self.overlaps
                    .retain(|it| it.holder != process || !gone.contains(&it.place));
            }
            Joint::Expelled => {
                own.is_in = false;
                self.overlaps.retain(|it| it.holder != process);
            }
            Joint::Ended => {
                *own = Member::default();
                self.overlaps.retain(|it| it.holder != process);
            }
            Joint::Stayed if own.is_in => {
                let epoch = own.epoch;
                self.stayed.entry(group).or_default().insert(epoch);
            }
            Joint::Sent(commit, _, offsets) => {
                self.sent.insert(*commit, offsets);
            }
            Joint::Taken(commit) => {
                for (place, _) in self.sent.get(commit).copied().unwrap_or_default() {
                    let newest = self.newest.get(&(group, place)).copied();
                    let other = newest.filter(|(_, newest)| !self.is_same(*newest, process));
                    if let Some((_, other)) = other {
                        self.stale.insert(*commit, (place, other));
                    }
                }
            }
            Joint::Answered(commit, Some(true)) => {
                if let Some((place, other)) = self.stale.remove(commit) {
                    let text = format!(
                        "process {process} committed {} when it was process {other}'s",
                        at(place)
                    );
                    self.find("stale-commit", text);
                }
            }
            _ => {}
        }
    }

    fn assigned(&mut self, process: usize, group: usize, epoch: i32, added: &'a [Place]) {
        for place in added {
            let newest = self.newest.entry((group, place)).or_default();
            *newest = (*newest).max((epoch, process));
        }
        for other in 0..self.members.len() {
            let known = self.history.processes.get(other);
            let is_of_group = known.is_some_and(|it| it.group == group);
            if !is_of_group || self.is_same(other, process) {
                continue;
            }
            let Some(member) = self.members.get(other).filter(|member| member.is_in) else {
                continue;
            };
            for place in added {
                // A member with an old epoch may be out of the group, and not know it.
                self.overlaps.extend(match member.owned.get(place) {
                    Some(since) if *since > epoch => Some(Overlap {
                        holder: process,
                        place,
                        by: other,
                        epoch: *since,
                    }),
                    Some(_) => Some(Overlap {
                        holder: other,
                        place,
                        by: process,
                        epoch,
                    }),
                    None => None,
                });
            }
            self.overlapped(other);
        }
        self.overlapped(process);
    }

    /// R9: no member owns what another was assigned in this epoch or an earlier one.
    fn overlapped(&mut self, holder: usize) {
        let epoch = self.members.get(holder).map_or(0, |member| member.epoch);
        let is_over = |it: &Overlap<'_>| it.holder == holder && it.epoch <= epoch;
        let (over, rest) = std::mem::take(&mut self.overlaps)
            .into_iter()
            .partition(is_over);
        self.overlaps = rest;
        let over: Vec<Overlap<'_>> = over;
        for it in over {
            let text = format!(
                "process {} was given {} in epoch {}, and process {holder} had it in epoch {epoch}",
                it.by,
                at(it.place),
                it.epoch
            );
            self.find("two-owners", text);
        }
    }
}
