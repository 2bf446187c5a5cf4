//! Look-ups by callers about positions, and why no records come.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::Uuid;

use crate::call::{Absence, TopicRead, why_no_leader};
use crate::cluster::{Cluster, Lane, is_denial};
use crate::error::Error;
use crate::fetch::fetcher::Fetcher;
use crate::fetch::lanes;
use crate::fetch::position::Position;
use crate::metrics::Meters;

impl Fetcher {
    pub(crate) fn position(&self, topic: &str, partition: i32) -> Result<Option<i64>, Error> {
        let position = match self.assignment.get(topic, partition) {
            Err(_) if self.subscription.is_awaited(topic) => {
                return match self.subscription.refused().get(topic) {
                    Some(error) => Err(error.clone()),
                    None => Ok(None),
                };
            }
            found => found?,
        };
        match (
            &position.next,
            position.stuck.as_ref().or(position.denied.as_ref()),
        ) {
            (Some(next), _) => Ok(Some(*next)),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => match self.subscription.refused().get(topic) {
                Some(error) => Err(error.clone().with_partition(&topic.into(), partition)),
                None => Ok(None),
            },
        }
    }

    pub(crate) fn is_paused(&self, topic: &str, partition: i32) -> bool {
        let position = self.assignment.get(topic, partition);
        position.is_ok_and(|position| position.paused)
    }

    /// The leader epoch of the record before `offset`, which the caller was given; -1 if it is not known.
    pub(crate) fn epoch_before(&self, topic: &str, partition: i32, offset: i64) -> i32 {
        let position = self.assignment.get(topic, partition);
        position.map_or(-1, |position| position.epochs.epoch_before(offset))
    }

    /// The id of the topic that the caller read this offset of; zero if it is not known.
    pub(crate) fn topic_read(&self, topic: &str, partition: i32, offset: i64) -> Uuid {
        self.assignment.topic_read(topic, partition, offset)
    }

    /// The topics that callers have read, as far as their ids are known, also of partitions that were taken away since.
    pub(crate) fn topics_read(&self) -> Vec<TopicRead> {
        let mut found = Vec::new();
        for (topic, partition, reads) in self.assignment.reads() {
            found.extend(reads.each().map(|(topic_id, end)| TopicRead {
                topic: Arc::clone(topic),
                partition,
                topic_id,
                end,
            }));
        }
        found
    }

    /// The topic's id in the metadata; zero if it is not known.
    pub(crate) fn topic_id(&self, topic: &str) -> Uuid {
        self.subscription.id_of(topic)
    }

    /// The assigned partitions, sorted, with their next offset and whether each is paused.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Arc<str>, i32, Option<i64>, bool)> {
        let each = self.assignment.each();
        each.map(|(topic, partition, position)| (topic, partition, position.next, position.paused))
    }

    /// Whether the partition is assigned.
    pub(crate) fn is_assigned(&self, topic: &str, partition: i32) -> bool {
        self.assignment.contains(topic, partition)
    }

    pub(crate) fn has_topics(&self) -> bool {
        !self.subscription.is_empty()
    }

    /// The caller got records of the partition.
    pub(crate) fn handed_out(
        &self,
        now: Instant,
        meters: &mut Meters,
        (topic, partition): (&Arc<str>, i32),
        records: usize,
        bytes: usize,
    ) {
        meters.handed_out(now, topic, records, bytes);
        let position = self.assignment.get(topic, partition).ok();
        if let Some(progress) = position.and_then(Position::progress) {
            meters.moved_to(now, (topic, partition), progress);
        }
    }

    pub(crate) fn measure(&self, meters: &mut Meters) {
        let each = self.assignment.each();
        meters.read_partitions(each.filter_map(|(topic, partition, position)| {
            Some(((Arc::clone(topic), partition), position.progress()?))
        }));
    }

    /// The error that keeps a topic or a partition from being read; of several partitions, the one
    /// that was raised least often.
    pub(crate) fn stuck(&self) -> Option<&Error> {
        let refused = self.refused().map(|(error, _)| error);
        refused.or_else(|| self.least_raised()?.obstacle())
    }

    /// As [`Fetcher::stuck`]; what was raised before stands back while other partitions can be read.
    pub(crate) fn obstacle(&self) -> Option<&Error> {
        let stuck = || {
            let position = self.least_raised()?;
            Some((position.obstacle()?, position.raised))
        };
        let (error, raised) = self.refused().or_else(stuck)?;
        let others = || {
            let mut each = self.assignment.each();
            each.any(|(topic, _, other)| {
                self.subscription.refused().get(topic).is_none() && other.is_readable()
            })
        };
        (raised == 0 || !others()).then_some(error)
    }

    /// A topic's error, unless a poll raised the same denial for one of its partitions.
    fn refused(&self) -> Option<(&Error, u32)> {
        let refused = self.subscription.refused().next();
        refused.filter(|(error, _)| !self.is_denial_raised(error))
    }

    fn least_raised(&self) -> Option<&Position> {
        let stuck = self.assignment.stuck();
        stuck
            .filter(|it| {
                it.obstacle()
                    .is_some_and(|error| !self.is_denial_raised(error))
            })
            .min_by_key(|position| position.raised)
    }

    /// Whether the error is a denial of a topic, and a poll raised that for the topic, or for one of its partitions.
    pub(crate) fn is_denial_raised(&self, error: &Error) -> bool {
        let Some(topic) = error.topic().filter(|_| is_denial(error)) else {
            return false;
        };
        let mut raised = self.assignment.stuck().filter(|it| it.raised > 0);
        let is_of_topic = |it: &Error| is_denial(it) && it.topic() == Some(topic);
        self.subscription.refused().is_denial_raised(topic)
            || raised.any(|it| it.denied.as_ref().is_some_and(is_of_topic))
    }

    /// A poll raises this error.
    pub(crate) fn note_raised(&mut self, error: &Error) {
        let Some(topic) = error.topic() else {
            return;
        };
        if is_denial(error) || error.partition().is_none() {
            self.subscription.refused_mut().note_raised(topic);
        }
        let Some(partition) = error.partition() else {
            return;
        };
        let Ok(raised) = self.assignment.get(topic, partition) else {
            return;
        };
        let generation = raised.generation;
        if raised.stuck.is_none() && raised.unreported() == Some(error) {
            // One report for all partitions with the same error, but one for each topic that is denied.
            let is_of_topic = is_denial(error);
            return self.assignment.note_denial_raised(|entry| {
                let denied = entry.position.denied.as_ref();
                let is_same = denied.is_some_and(|denied| denied.code() == error.code());
                is_same && (!is_of_topic || *entry.topic == *topic)
            });
        }
        let current = self.assignment.current(topic, partition, generation);
        if let Some((_, position)) = current.filter(|(_, it)| it.obstacle() == Some(error)) {
            position.raised = position.raised.saturating_add(1);
        }
    }

    /// Why the leader of a partition does not accept the client, if several attempts in a row show it. A position that needs
    /// nothing of the leader at the moment is not concerned.
    pub(crate) fn refusal(&self, cluster: &Cluster, topic: &str, partition: i32) -> Option<Error> {
        let (leader, _) = cluster.view().leader(topic, partition)?;
        let mut refusals = lanes::each()
            .chain([Lane::Control])
            .filter_map(|lane| cluster.believed_refusal_of(leader, lane));
        let (cause, _) = refusals.next()?;
        Some(cause.clone().with_partition(&topic.into(), partition))
    }

    pub(crate) fn partition_delay(
        &self,
        cluster: &Cluster,
        topic: &str,
        partition: i32,
    ) -> Option<Error> {
        let named = |error: &Error| error.clone().with_partition(&topic.into(), partition);
        let position = self.assignment.get(topic, partition).ok();
        if let Some(error) = position.and_then(|it| it.stuck.as_ref().or(it.denied.as_ref())) {
            return Some(named(error));
        }
        if let Some((leader, _)) = cluster.view().leader(topic, partition) {
            let failure = lanes::each()
                .chain([Lane::Control])
                .find_map(|lane| cluster.failure_of(leader, lane));
            let trouble = position.and_then(|position| position.trouble.as_ref());
            return failure.or(trouble).map(named);
        }
        let since = self.subscription.since(topic)?;
        match why_no_leader(cluster, &topic.into(), partition, since) {
            Absence::Proven(error) => Some(named(&error)),
            Absence::SoFar(error) => error.as_ref().map(named),
        }
    }
}
