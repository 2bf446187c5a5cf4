//! What a run does with consumers of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Role;

use super::{CLOSE, Run, config};
use crate::book::Book;
use crate::client::Client;
use crate::history::{Joint, Place};
use crate::member::Member;
use crate::plan::{self, groups};

/// So long a group stays as it is when nobody comes or goes: longer than any session.
const STEADY: Duration = Duration::from_secs(8);

impl Run {
    /// The newest process of a consumer of a group that has not ended.
    fn alive(&mut self, member: usize) -> Option<usize> {
        let client = self.members.get(member)?.last().copied()?;
        let found = self.world.clients.get_mut(client)?.member()?;
        (!found.is_over()).then_some(client)
    }

    /// Whether the newest process of a consumer of a group is there, and is not about to close.
    fn stays(&mut self, member: usize) -> bool {
        let Some(client) = self.alive(member) else {
            return false;
        };
        let found = self.world.clients.get_mut(client);
        let found = found.and_then(Client::member);
        found.is_some_and(|member| !member.is_closing())
    }

    fn with_member<R>(
        &mut self,
        client: usize,
        f: impl FnOnce(&mut Member, &mut Book) -> R,
    ) -> Option<R> {
        self.world
            .with(client, |client, book| Some(f(client.member()?, book)))?
    }

    /// The groups' numbers.
    fn groups(&self) -> BTreeSet<usize> {
        self.plan
            .members
            .iter()
            .map(|habits| habits.group)
            .collect()
    }

    /// Counts what the members of groups offer, or ask for.
    pub(super) fn count_strategies(&mut self) {
        let tally = &mut self.world.book.tally;
        let mut of_groups: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        let mut asked: BTreeMap<usize, BTreeSet<Option<&str>>> = BTreeMap::new();
        for habits in &self.plan.members {
            if habits.by_epoch {
                let mut pairs = habits.pairs.iter();
                let found = pairs.find(|(name, _)| *name == "group.remote.assignor");
                let own = found.map(|(_, value)| value.as_str());
                asked.entry(habits.group).or_default().insert(own);
                continue;
            }
            let mut pairs = habits.pairs.iter();
            let found = pairs.find(|(name, _)| *name == "partition.assignment.strategy");
            let own = found.map(|(_, value)| value.as_str());
            of_groups.entry(habits.group).or_default().extend(own);
        }
        for offered in of_groups.into_values() {
            let mut each = offered.into_iter();
            tally.meet(match (each.next(), each.next()) {
                (_, Some(_)) => "group: members that offer different assignors",
                (Some("range"), _) => "group: began with range",
                (Some("roundrobin"), _) => "group: began with roundrobin",
                (Some("sticky"), _) => "group: began with sticky",
                (Some("cooperative-sticky"), _) => "group: began with cooperative-sticky",
                _ => "group: began with several assignors",
            });
        }
        for asked in asked.into_values() {
            let mut each = asked.into_iter();
            tally.meet(match (each.next().flatten(), each.next()) {
                (_, Some(_)) => "group: its members asked for different assignors",
                (Some("uniform"), _) => "group: its members asked for uniform",
                (Some(_), _) => "group: its members asked for range",
                (None, _) => "group: its coordinator chose the assignor",
            });
        }
    }

    /// A process begins, unless there is one; one with an instance id also takes the place of one that there is.
    pub(super) fn join(&mut self, member: usize) {
        let Some(habits) = self.plan.members.get(member).cloned() else {
            return;
        };
        if self.stays(member) {
            if habits.instance.is_none() {
                return;
            }
            let text = "group: a process took the place of another with its instance id";
            self.world.book.tally.meet(text);
        }
        let settings = plan::Member {
            pairs: habits.pairs.clone(),
            rest: Duration::ZERO,
            most: 0,
        };
        let book = &mut self.world.book;
        let Some(config) = config(book, Role::Consumer, &settings) else {
            return;
        };
        let topics = self.world.topics.iter();
        let topics = topics.map(|(name, _)| Arc::clone(name)).collect();
        let (births, plant) = (&mut self.births, self.options.plant);
        let born = Member::new(book, config, &habits, topics, births, plant);
        let client = self.world.join(Client::Member(born));
        if let Some(all) = self.members.get_mut(member) {
            all.push(client);
        }
        self.with_member(client, |_, _| ());
    }

    /// The application around one does something; one that stands still does not.
    pub(super) fn deed(&mut self, member: usize, which: u64) {
        let topics = self.world.topics.clone();
        if let Some(client) = self.alive(member)
            && !self.world.is_asleep(client)
        {
            self.with_member(client, |member, book| member.act(book, which, &topics));
        }
    }

    /// A process ends at once.
    pub(super) fn die(&mut self, member: usize) {
        if let Some(client) = self.alive(member) {
            self.with_member(client, Member::die);
        }
    }

    /// Everything is well again: of each group somebody is there, and all read as fast as they can.
    pub(super) fn hurry_members(&mut self) {
        for group in self.groups() {
            let of_group = self.plan.members.iter().enumerate();
            let of_group = of_group.filter(|(_, habits)| habits.group == group);
            let of_group: Vec<usize> = of_group.map(|(member, _)| member).collect();
            if of_group.iter().all(|member| !self.stays(*member))
                && let Some(first) = of_group.first()
            {
                self.join(*first);
            }
        }
        let topics = self.world.topics.clone();
        for client in self.members.concat() {
            self.with_member(client, |member, book| member.hurry(book, &topics));
        }
    }

    /// What groups have not read of what was acknowledged.
    pub(super) fn unread(&self, ends: &BTreeMap<Place, i64>) -> Vec<String> {
        let history = &self.world.book.history;
        let mut read: BTreeMap<(usize, &Place), i64> = BTreeMap::new();
        for (_, process, joint) in &history.joint {
            let (Joint::Given(place, offset), Some(of)) = (joint, history.processes.get(*process))
            else {
                continue;
            };
            let furthest = read.entry((of.group, place)).or_default();
            *furthest = (*furthest).max(offset + 1);
        }
        let mut behind = Vec::new();
        for group in self.groups() {
            for (place, end) in ends {
                let at = read.get(&(group, place)).copied().unwrap_or(0);
                if at < *end {
                    behind.push(format!(
                        "group {group} is at {at} of {}-{}, which ends at {end}",
                        place.0, place.1
                    ));
                }
            }
        }
        behind
    }

    /// Nobody comes or goes for a time: groups stay as they are.
    pub(super) fn stay(&mut self) {
        if self.plan.members.is_empty() && self.plan.sharers.is_empty() {
            return;
        }
        let book = &mut self.world.book;
        book.history.steady = Some(book.at());
        self.pass(STEADY);
        for client in self.members.concat() {
            self.with_member(client, Member::stayed);
        }
    }

    /// All leave their groups and close.
    pub(super) fn close_members(&mut self) {
        for client in self.members.concat() {
            self.with_member(client, |member, book| member.close(book, CLOSE));
        }
    }

    /// What groups have committed.
    pub(super) fn look_up_committed(&mut self) {
        let now = self.world.book.now;
        for group in self.groups() {
            let name = groups::name(group);
            for (topic, count) in &self.world.topics {
                for partition in 0..*count {
                    let place = (Arc::clone(topic), partition);
                    let found = self.world.brokers.committed(now, &name, &place);
                    let history = &mut self.world.book.history;
                    match found {
                        Some(offset) => {
                            history.committed_after.insert((group, place), offset);
                        }
                        None => {
                            let text = format!("the offset of {name} for {place:?} is unknown");
                            history.complain("R14", "stuck", text);
                        }
                    }
                }
            }
        }
    }
}
