//! DescribeShareGroupOffsets, versions 0 and 1 (KIP-932): where share groups are in partitions; from version 1 how many records
//! are left (KIP-1226).

use std::collections::BTreeMap;

use ottla_protocol::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use ottla_protocol::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
};
use ottla_protocol::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
};
use ottla_protocol::{ErrorCode, Str, Uuid, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::sharing::Key;

/// Nothing is known of the partition.
const UNKNOWN: i64 = -1;

impl Api for DescribeShareGroupOffsetsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 1 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeShareGroupOffsetsResponse> {
        let describe = |group: &DescribeShareGroupOffsetsRequestGroup| {
            let mut answer = DescribeShareGroupOffsetsResponseGroup {
                group_id: group.group_id.clone(),
                ..Default::default()
            };
            match cx.check_group(Operation::Describe, &group.group_id) {
                Ok(()) => answer.topics = topics(cx, group),
                Err(code) => {
                    answer.error_code = code.0;
                    answer.error_message = Some(Str::from_static(code.name()));
                }
            }
            answer
        };
        Outcome::Answer(DescribeShareGroupOffsetsResponse {
            groups: self.groups.iter().map(describe).collect(),
            ..Default::default()
        })
    }
}

fn topics(
    cx: &Cx<'_>,
    group: &DescribeShareGroupOffsetsRequestGroup,
) -> Vec<DescribeShareGroupOffsetsResponseTopic> {
    let asked: Vec<(Str, Vec<i32>)> = match &group.topics {
        Some(topics) => {
            let topics = topics.iter();
            let topics = topics.map(|it| (it.topic_name.clone(), it.partitions.to_vec()));
            topics.collect()
        }
        None => read_by(cx, &group.group_id),
    };
    let visible = asked
        .into_iter()
        .filter(|(name, _)| group.topics.is_some() || may_describe(cx, name));
    visible
        .map(|(name, partitions)| {
            let id = cx.core.topic(&name).map(|topic| topic.id);
            let each = partitions
                .into_iter()
                .map(|index| partition(cx, &group.group_id, &name, index));
            DescribeShareGroupOffsetsResponseTopic {
                partitions: each.collect(),
                topic_id: id.unwrap_or(Uuid::ZERO),
                topic_name: name,
                ..Default::default()
            }
        })
        .collect()
}

fn may_describe(cx: &Cx<'_>, topic: &str) -> bool {
    cx.may(Operation::Describe, Resource::topic(topic))
}

/// The partitions that a group has begun to read.
fn read_by(cx: &Cx<'_>, group: &str) -> Vec<(Str, Vec<i32>)> {
    let states = cx
        .core
        .with_shares(cx.now, |shares| shares.states().of_group(group));
    let mut found: BTreeMap<Str, Vec<i32>> = BTreeMap::new();
    for (key, _) in states {
        if let Ok(topic) = cx.core.topic_by_id(key.topic) {
            found
                .entry(topic.name.clone())
                .or_default()
                .push(key.partition);
        }
    }
    found.into_iter().collect()
}

fn partition(
    cx: &Cx<'_>,
    group: &str,
    name: &str,
    index: i32,
) -> DescribeShareGroupOffsetsResponsePartition {
    let mut answer = DescribeShareGroupOffsetsResponsePartition {
        partition_index: index,
        start_offset: UNKNOWN,
        lag: UNKNOWN,
        ..Default::default()
    };
    let found = if may_describe(cx, name) {
        cx.core.topic(name)
    } else {
        Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    };
    let placed = found.and_then(|topic| match topic.partition(index).err() {
        None => Ok(topic),
        Some(code) => Err(code),
    });
    let topic = match placed {
        Ok(topic) => topic,
        Err(code) => {
            answer.error_code = code.0;
            answer.error_message = Some(Str::from_static(code.name()));
            return answer;
        }
    };
    let key = Key {
        group: group.to_owned(),
        topic: topic.id,
        partition: index,
    };
    let state = cx
        .core
        .with_shares(cx.now, |shares| shares.states().get(&key));
    if let Some(state) = state {
        let replica = topic.partition(index);
        let end = replica.map_or(0, |replica| replica.lock().visible().high_watermark);
        answer.start_offset = state.start;
        answer.leader_epoch = state.leader_epoch;
        if cx.version > 0 {
            answer.lag = state.lag(end);
        }
    }
    answer
}
