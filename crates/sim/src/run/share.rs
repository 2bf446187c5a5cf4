//! What a run does with members of share groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Role;

use super::{CLOSE, Run, config};
use crate::book::Book;
use crate::client::Client;
use crate::history::Place;
use crate::plan::{self, share};
use crate::sharer::Sharer;

impl Run {
    /// Whether its members are those of share groups.
    pub(super) fn is_about_shares(&self) -> bool {
        !self.plan.shares.is_empty()
    }

    /// What holds for share groups holds from the beginning.
    pub(super) fn begin_shares(&mut self) {
        for (group, rules) in self.plan.shares.iter().enumerate() {
            let name = share::name(group);
            let found = self.world.set_share_rules(&name, rules);
            if !found {
                let text = format!("the settings of {name} were refused");
                self.world.book.history.complain("R15", "panic", text);
            }
            if rules.committed {
                let tally = &mut self.world.book.tally;
                tally.meet("sharer: gets only what is committed");
            }
        }
        self.world.book.history.share_rules = self.plan.shares.clone();
        self.sharers = vec![Vec::new(); self.plan.sharers.len()];
    }

    fn with_sharer<R>(
        &mut self,
        client: usize,
        f: impl FnOnce(&mut Sharer, &mut Book) -> R,
    ) -> Option<R> {
        self.world
            .with(client, |client, book| Some(f(client.sharer()?, book)))?
    }

    /// The newest process of a member of a share group that has not ended.
    fn sharing(&mut self, member: usize) -> Option<usize> {
        let client = self.sharers.get(member)?.last().copied()?;
        let found = self.world.clients.get_mut(client)?.sharer()?;
        (!found.is_over()).then_some(client)
    }

    /// Whether the newest process of a member of a share group is there, and is not about to close.
    fn shares_on(&mut self, member: usize) -> bool {
        let client = self.sharing(member);
        let found = client.and_then(|client| self.world.clients.get_mut(client));
        let found = found.and_then(Client::sharer);
        found.is_some_and(|sharer| !sharer.is_closing())
    }

    /// A process begins, unless there is one.
    pub(super) fn begin_sharing(&mut self, member: usize) {
        let Some(habits) = self.plan.sharers.get(member).cloned() else {
            return;
        };
        if self.shares_on(member) {
            return;
        }
        let settings = plan::Member {
            pairs: habits.pairs.clone(),
            rest: Duration::ZERO,
            most: 0,
        };
        let book = &mut self.world.book;
        let Some(config) = config(book, Role::ShareConsumer, &settings) else {
            return;
        };
        let is = |name: &str| habits.pairs.iter().any(|(_, value)| value == name);
        book.tally.meet(match is("record_limit") {
            true => "sharer: acquires as many records as it may",
            false => "sharer: acquires whole batches",
        });
        let topics = self.world.topics.iter();
        let topics = topics.map(|(name, _)| Arc::clone(name)).collect();
        let (births, plant) = (&mut self.births, self.options.plant);
        let born = Sharer::new(book, config, &habits, topics, births, plant);
        let client = self.world.join(Client::Sharer(born));
        if let Some(all) = self.sharers.get_mut(member) {
            all.push(client);
        }
        self.with_sharer(client, |_, _| ());
    }

    /// The application around one does something; one that stands still does not.
    pub(super) fn sharer_acts(&mut self, member: usize, which: u64) {
        let topics = self.world.topics.clone();
        if let Some(client) = self.sharing(member)
            && !self.world.is_asleep(client)
        {
            self.with_sharer(client, |sharer, book| sharer.act(book, which, &topics));
        }
    }

    /// A process ends at once.
    pub(super) fn sharer_dies(&mut self, member: usize) {
        if let Some(client) = self.sharing(member) {
            self.with_sharer(client, Sharer::die);
        }
    }

    /// Everything is well again: of each group somebody is there, and all accept what they get as fast as they can.
    pub(super) fn hurry_sharers(&mut self) {
        for group in 0..self.plan.shares.len() {
            let of_group = self.plan.sharers.iter().enumerate();
            let of_group = of_group.filter(|(_, habits)| habits.group == group);
            let of_group: Vec<usize> = of_group.map(|(member, _)| member).collect();
            if of_group.iter().all(|member| !self.shares_on(*member))
                && let Some(first) = of_group.first()
            {
                self.begin_sharing(*first);
            }
        }
        let topics = self.world.topics.clone();
        for client in self.sharers.concat() {
            self.with_sharer(client, |sharer, book| sharer.hurry(book, &topics));
        }
    }

    /// What share groups are not done with of what was acknowledged.
    pub(super) fn unshared(&mut self, ends: &BTreeMap<Place, i64>) -> Vec<String> {
        let mut behind = Vec::new();
        let now = self.world.book.now;
        for group in 0..self.plan.shares.len() {
            for (place, end) in ends {
                let name = share::name(group);
                let at = self.world.brokers.shared_from(now, &name, place);
                if at.is_none_or(|at| at < *end) {
                    behind.push(format!(
                        "{name} is at {at:?} of {}-{}, which ends at {end}",
                        place.0, place.1
                    ));
                }
            }
        }
        behind
    }

    /// All leave their groups and close.
    pub(super) fn close_sharers(&mut self) {
        for client in self.sharers.concat() {
            self.with_sharer(client, |sharer, book| sharer.close(book, CLOSE));
        }
    }
}
