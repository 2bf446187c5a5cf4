//! The lag of groups, and changes of their offsets.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::group_offsets::{AlterGroupOffsets, ListGroupOffsets, OffsetAndMetadata};
use super::groups::DescribeGroups;
use super::partitions::{ListOffsets, ListedOffset};
use super::verb::{Ask, Verb, verbs};
use crate::call::{
    ByItem, DescribeTopics, EARLIEST, LATEST, PartitionInfo, Rows, TopicPartition, values,
};
use crate::error::{Error, Item, Kind};

verbs! {
    lag: Lag,
    reset_group_offsets: ResetGroupOffsets,
}

type Place = (Arc<str>, i32);

/// The values of partitions.
fn by_partition<V>(found: ByItem<V>) -> BTreeMap<Place, V> {
    let rows = found.0.into_iter().filter_map(|(item, value)| match item {
        Item::Partition(topic, partition) => Some(((topic, partition), value)),
        _ => None,
    });
    rows.collect()
}

/// The committed offsets of a group.
async fn committed(
    admin: &impl Ask,
    group: &Arc<str>,
) -> Result<BTreeMap<Place, OffsetAndMetadata>, Error> {
    let call = ListGroupOffsets::all_of(Arc::clone(group));
    let mut found = admin.ask(call).await?.0.into_iter();
    let offsets = found.next().map(|(_, offsets)| by_partition(offsets));
    let offsets = offsets.unwrap_or_default().into_iter();
    let known = offsets.filter_map(|(place, offset)| offset.map(|offset| (place, offset)));
    Ok(known.collect())
}

/// Offsets of partitions' logs, each by a time.
async fn listed(
    admin: &impl Ask,
    places: impl Iterator<Item = &Place>,
    timestamp: i64,
    read_committed: bool,
) -> Result<BTreeMap<Place, ListedOffset>, Error> {
    let wanted = places.map(|(topic, partition)| (Arc::clone(topic), *partition, timestamp));
    let call = ListOffsets::new(wanted.collect(), read_committed);
    admin.ask(call).await.map(by_partition)
}

/// The lag of a group in a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupLag {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record that the group reads; `None` if it committed none.
    pub committed: Option<i64>,
    /// The first offset of the log.
    pub start_offset: i64,
    /// The offset after the last record.
    pub end_offset: i64,
    /// How many offsets are between.
    pub lag: Option<i64>,
    /// The member that reads the partition.
    pub member_id: Option<String>,
    /// Its `client.id`.
    pub client_id: Option<String>,
    /// Where it connects from.
    pub client_host: Option<String>,
}

/// The lag of groups: all partitions that a group has committed an offset for, or has assigned.
#[derive(Clone, Debug, Deserialize)]
pub struct Lag {
    /// Their ids.
    #[serde(deserialize_with = "values::names")]
    pub groups: Vec<Arc<str>>,
    /// Whether records of open transactions, and what is after them, do not count.
    pub read_committed: bool,
}

impl Verb for Lag {
    type Outcome = Rows<GroupLag>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let mut rows = Vec::new();
        for group in &self.groups {
            let call = DescribeGroups {
                groups: vec![Arc::clone(group)],
                include_authorized_operations: false,
            };
            let described = call.run(admin).await?.0.into_iter().next();
            let members = described
                .map(|(_, group)| group.members)
                .unwrap_or_default();
            let mut owners = BTreeMap::new();
            for member in &members {
                for place in member.assignment.iter().flatten() {
                    owners.insert(place.clone(), member);
                }
            }
            let offsets = committed(admin, group).await?;
            let mut places: Vec<Place> = offsets.keys().chain(owners.keys()).cloned().collect();
            places.sort();
            places.dedup();
            let starts = listed(admin, places.iter(), EARLIEST, false).await?;
            let ends = listed(admin, places.iter(), LATEST, self.read_committed).await?;
            for place in &places {
                let offset = |of: &BTreeMap<Place, ListedOffset>| {
                    of.get(place).and_then(|it| it.offset).unwrap_or(0)
                };
                let (start_offset, end_offset) = (offset(&starts), offset(&ends));
                let committed = offsets.get(place).map(|it| it.offset);
                let owner = owners.get(place);
                rows.push(GroupLag {
                    group: group.to_string(),
                    topic: place.0.to_string(),
                    partition: place.1,
                    committed,
                    start_offset,
                    end_offset,
                    lag: committed.map(|it| end_offset.saturating_sub(it).max(0)),
                    member_id: owner.map(|it| it.member_id.clone()),
                    client_id: owner.map(|it| it.client_id.clone()),
                    client_host: owner.map(|it| it.client_host.clone()),
                });
            }
        }
        Ok(Rows(rows))
    }
}

/// An offset that moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetReset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset before; `None` if there was none.
    pub old_offset: Option<i64>,
    /// The offset by then.
    pub new_offset: i64,
}

/// An offset that a caller names.
#[derive(Clone, Debug, Deserialize)]
pub struct NamedOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Moves the offsets of a group without members. One of `timestamp`, `shift` and `offsets` is the
/// target; an offset outside of the log moves to the nearest end of the log.
#[derive(Clone, Debug, Deserialize)]
pub struct ResetGroupOffsets {
    /// The group.
    pub group: String,
    /// Only these topics; none for those that the group has offsets of.
    pub topics: Vec<String>,
    /// Only these partitions too.
    pub partitions: Vec<TopicPartition>,
    /// To the first record of this time or later, in ms since 1970 UTC; or to the beginning, -2, or to the end, -1.
    pub timestamp: Option<i64>,
    /// By this many offsets.
    pub shift: Option<i64>,
    /// To these offsets.
    pub offsets: Vec<NamedOffset>,
    /// Whether nothing is changed.
    pub dry_run: bool,
}

impl ResetGroupOffsets {
    /// The partitions whose offsets move.
    async fn places(
        &self,
        admin: &impl Ask,
        current: &BTreeMap<Place, OffsetAndMetadata>,
    ) -> Result<Vec<Place>, Error> {
        let named = self.partitions.iter();
        let mut places: Vec<Place> = named
            .map(|it| (Arc::clone(&it.topic), it.partition))
            .collect();
        let offsets = self.offsets.iter();
        places.extend(offsets.map(|row| (Arc::from(&*row.topic), row.partition)));
        if !self.topics.is_empty() {
            let call = DescribeTopics::at_once(self.topics.clone());
            for (name, found) in self.topics.iter().zip(admin.ask(call).await?) {
                let name: Arc<str> = name.as_str().into();
                let partitions = PartitionInfo::of(&found?);
                places.extend(
                    partitions
                        .iter()
                        .map(|it| (Arc::clone(&name), it.partition)),
                );
            }
        }
        if places.is_empty() {
            places.extend(current.keys().cloned());
        }
        places.sort();
        places.dedup();
        Ok(places)
    }
}

impl Verb for ResetGroupOffsets {
    type Outcome = Rows<OffsetReset>;

    async fn run(self, admin: &impl Ask) -> Result<Self::Outcome, Error> {
        let group: Arc<str> = self.group.as_str().into();
        let current = committed(admin, &group).await?;
        let places = self.places(admin, &current).await?;
        let starts = listed(admin, places.iter(), EARLIEST, false).await?;
        let ends = listed(admin, places.iter(), LATEST, false).await?;
        let times = match self.timestamp {
            Some(time) => listed(admin, places.iter(), time, false).await?,
            None => BTreeMap::new(),
        };
        let mut rows = Vec::new();
        let mut moved = Vec::new();
        for place in places {
            let offset =
                |of: &BTreeMap<Place, ListedOffset>| of.get(&place).and_then(|it| it.offset);
            let (start, end) = (offset(&starts).unwrap_or(0), offset(&ends).unwrap_or(0));
            let old = current.get(&place).map(|it| it.offset);
            let named = self.offsets.iter();
            let mut named =
                named.filter(|row| (&*row.topic, row.partition) == (&*place.0, place.1));
            let target = match (self.timestamp, self.shift, named.next()) {
                (_, _, Some(row)) => row.offset,
                (_, Some(shift), None) => match old {
                    Some(old) => old.saturating_add(shift),
                    None => {
                        let text = "the group has no offset that could be shifted";
                        let error = Error::new(Kind::Argument, text).with_group(&group);
                        return Err(error.with_partition(&place.0, place.1));
                    }
                },
                // Without a record of that time the end is next.
                (Some(_), None, None) => offset(&times).unwrap_or(end),
                (None, None, None) => continue,
            };
            let new_offset = target.max(start).min(end.max(start));
            rows.push(OffsetReset {
                topic: place.0.to_string(),
                partition: place.1,
                old_offset: old,
                new_offset,
            });
            let offset = OffsetAndMetadata {
                offset: new_offset,
                metadata: String::new(),
                leader_epoch: None,
            };
            moved.push((place, offset));
        }
        if !self.dry_run && !moved.is_empty() {
            let offsets = moved;
            admin.ask(AlterGroupOffsets { group, offsets }).await?;
        }
        Ok(Rows(rows))
    }
}
