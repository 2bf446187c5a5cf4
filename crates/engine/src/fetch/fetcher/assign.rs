//! Changes by the caller: assignments, seeks, pauses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::{Fetcher, raise};
use crate::change::Change;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::fetch::position::{Position, Start};

impl Fetcher {
    pub(crate) fn assign(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        partitions: impl IntoIterator<Item = (Arc<str>, i32, Start)>,
    ) -> Result<(), Error> {
        let wanted: Vec<_> = partitions.into_iter().collect();
        for (topic, partition, start) in &wanted {
            start.check_in(topic, *partition)?;
        }
        let topics = wanted.iter().map(|(topic, _, _)| Arc::clone(topic));
        self.read_topics(now, cluster, topics, false);
        let named: BTreeSet<_> = wanted
            .iter()
            .map(|(topic, number, _)| (topic, *number))
            .collect();
        self.forget(cluster, |topic, partition| {
            !named.contains(&(topic, partition))
        });
        for (topic, partition, start) in &wanted {
            let is_kept = *start == Start::Reset && self.assignment.contains(topic, *partition);
            if !is_kept {
                let was_paused = self.is_paused(topic, *partition);
                self.add(cluster, topic, *partition, *start);
                self.assignment.touch(topic, *partition)?.paused = was_paused;
            }
        }
        Ok(())
    }

    pub(crate) fn follow(&mut self, now: Instant, cluster: &mut Cluster, topics: Vec<Arc<str>>) {
        let named: BTreeSet<_> = topics.iter().cloned().collect();
        self.read_topics(now, cluster, topics, true);
        self.forget(cluster, |topic, _| !named.contains(topic));
    }

    fn read_topics(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        topics: impl IntoIterator<Item = Arc<str>>,
        is_followed: bool,
    ) {
        let (new, gone) = self.subscription.replace(now, topics, is_followed);
        for topic in &new {
            cluster.want(now, topic);
        }
        for topic in &gone {
            cluster.unwant(topic);
        }
        self.must_look = true;
        // There may be nothing left to read, or nothing is known of an awaited topic.
        raise(cluster);
    }

    fn forget(&mut self, cluster: &mut Cluster, is_gone: impl Fn(&Arc<str>, i32) -> bool) {
        let each = self.assignment.each();
        let gone: Vec<_> = each
            .filter(|(topic, partition, _)| is_gone(topic, *partition))
            .map(|(topic, partition, _)| (Arc::clone(topic), partition))
            .collect();
        for (topic, partition) in gone {
            self.remove(cluster, &topic, partition);
        }
    }

    pub(super) fn remove(&mut self, cluster: &mut Cluster, topic: &str, partition: i32) {
        if let Some(generation) = self.assignment.remove(topic, partition) {
            self.buffer.drop_all(generation);
            cluster.context.changes.tell(Change::Position);
        }
    }

    pub(super) fn add(
        &mut self,
        cluster: &mut Cluster,
        topic: &Arc<str>,
        partition: i32,
        start: Start,
    ) {
        self.remove(cluster, topic, partition);
        tell_known(cluster, start);
        let position = Position::new(self.assignment.fresh_generation(), start);
        self.assignment.insert(topic, partition, position);
    }

    pub(crate) fn seek(
        &mut self,
        cluster: &mut Cluster,
        topic: &str,
        partition: i32,
        to: Start,
    ) -> Result<(), Error> {
        to.check_in(&topic.into(), partition)?;
        if !self.assignment.contains(topic, partition) && self.subscription.is_awaited(topic) {
            self.add(cluster, &topic.into(), partition, to);
            return Ok(());
        }
        let generation = self.assignment.fresh_generation();
        let position = self.assignment.touch(topic, partition)?;
        let old = position.generation;
        position.seek(generation, to);
        self.buffer.drop_all(old);
        tell_known(cluster, to);
        Ok(())
    }

    pub(crate) fn seek_all(&mut self, cluster: &mut Cluster, to: Start) -> Result<(), Error> {
        to.check()?;
        self.subscription.start_at(to);
        let each = self.assignment.each();
        let all: Vec<_> = each
            .map(|(topic, partition, _)| (Arc::clone(topic), partition))
            .collect();
        all.iter()
            .try_for_each(|(topic, partition)| self.seek(cluster, topic, *partition, to))
    }

    pub(crate) fn set_paused(
        &mut self,
        cluster: &mut Cluster,
        topic: &str,
        partition: i32,
        paused: bool,
    ) -> Result<(), Error> {
        let generation = self.assignment.fresh_generation();
        let position = self.assignment.touch(topic, partition)?;
        if position.paused == paused {
            return Ok(());
        }
        position.paused = paused;
        if !paused {
            // An error that the pause hid is raised now.
            cluster.context.changes.tell(Change::Records);
        }
        if paused && position.next.is_some() {
            // Buffered records would take space from other partitions during the pause; they are
            // fetched again after it.
            let old = position.generation;
            position.rewind(generation);
            self.buffer.drop_all(old);
        }
        Ok(())
    }
}

/// Wakes callers who wait for a position, if it is known from the start.
fn tell_known(cluster: &mut Cluster, start: Start) {
    if matches!(start, Start::Offset(_) | Start::After(..)) {
        cluster.context.changes.tell(Change::Position);
    }
}
