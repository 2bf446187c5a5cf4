//! The positions of all assigned partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::fetch::position::{Generation, Position};

/// The assigned partitions, by topic and number.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    pub(super) topics: BTreeMap<Arc<str>, BTreeMap<i32, Position>>,
    next_generation: u64,
}

impl Assignment {
    pub(super) fn fresh_generation(&mut self) -> Generation {
        self.next_generation += 1;
        Generation(self.next_generation)
    }

    pub(super) fn find(&self, topic: &str, partition: i32) -> Option<&Position> {
        self.topics.get(topic)?.get(&partition)
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Result<&Position, Error> {
        self.find(topic, partition)
            .ok_or_else(|| not_assigned(topic, partition))
    }

    pub(super) fn get_mut(&mut self, topic: &str, partition: i32) -> Result<&mut Position, Error> {
        self.topics
            .get_mut(topic)
            .and_then(|positions| positions.get_mut(&partition))
            .ok_or_else(|| not_assigned(topic, partition))
    }

    /// The position, unless a seek or another assignment came since this generation.
    pub(super) fn current(
        &mut self,
        topic: &str,
        partition: i32,
        generation: Generation,
    ) -> Option<&mut Position> {
        let position = self.topics.get_mut(topic)?.get_mut(&partition)?;
        (position.generation == generation).then_some(position)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&Arc<str>, i32, &Position)> {
        let topics = self.topics.iter();
        topics.flat_map(|(topic, positions)| {
            positions
                .iter()
                .map(move |(partition, position)| (topic, *partition, position))
        })
    }
}

fn not_assigned(topic: &str, partition: i32) -> Error {
    let text = "the partition is not assigned to this consumer";
    Error::new(Kind::Argument, text).partition_is(&topic.into(), partition)
}
