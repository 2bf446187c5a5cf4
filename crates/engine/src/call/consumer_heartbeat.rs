//! ConsumerGroupHeartbeat: the only request of a member of a group of the consumer protocol, and
//! its response (KIP-848). A part sends it without retries and handles errors itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use ottla_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use super::interface::only;
use super::membership::{GroupMetadata, millis};
use super::{About, Asked, Call, Target};
use crate::api::{Request, Response};
use crate::error::{Error, Kind};

/// A partition by its topic's id and its number.
pub(crate) type IdPartition = (Uuid, i32);

/// A member's declaration. A field is `None` if it has not changed for the coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// How long the coordinator waits for the member to give partitions up.
    pub(crate) rebalance_timeout: Option<Duration>,
    /// The topics that it wants, by their names.
    pub(crate) topics: Option<BTreeSet<Arc<str>>>,
    /// The expression that names of topics match which it wants; empty for none.
    pub(crate) regex: Option<Arc<str>>,
    pub(crate) assignor: Option<Arc<str>>,
    pub(crate) rack: Option<Arc<str>>,
    /// The partitions that it has.
    pub(crate) owned: Option<BTreeSet<IdPartition>>,
}

/// What a member sends to the coordinator of its group. The epoch is 0 to join, -1 to leave, and -2
/// to leave for a while as a static member.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerGroupHeartbeat {
    pub(crate) member: GroupMetadata,
    pub(crate) declared: Declaration,
}

/// The coordinator's response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The member's epoch.
    pub(crate) epoch: i32,
    /// Until the next heartbeat.
    pub(crate) interval: Duration,
    /// Its assignment; `None` if that has not changed.
    pub(crate) assigned: Option<BTreeSet<IdPartition>>,
}

impl Call for ConsumerGroupHeartbeat {
    type Found = Standing;
    type Answer = Standing;
    const API: ApiKey = ApiKey::ConsumerGroupHeartbeat;

    fn versions(&self) -> (i16, i16) {
        // Expressions came with version 1.
        let regex = self.declared.regex.as_deref();
        let has_regex = regex.is_some_and(|regex| !regex.is_empty());
        (i16::from(has_regex), i16::MAX)
    }

    fn target(&self, _: usize) -> Target {
        self.member.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let declared = &self.declared;
        let topics = declared.topics.as_ref();
        Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
            group_id: (&*self.member.group).into(),
            member_id: (&*self.member.member_id).into(),
            member_epoch: self.member.generation,
            instance_id: self.member.instance_id.as_deref().map(Into::into),
            rack_id: declared.rack.as_deref().map(Into::into),
            rebalance_timeout_ms: declared.rebalance_timeout.map_or(-1, millis),
            subscribed_topic_names: topics
                .map(|topics| topics.iter().map(|topic| (&**topic).into()).collect()),
            subscribed_topic_regex: declared.regex.as_deref().map(Into::into),
            server_assignor: declared.assignor.as_deref().map(Into::into),
            topic_partitions: declared.owned.as_ref().map(by_topic),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Standing, Error>> {
        match response {
            Response::ConsumerGroupHeartbeat(answer) => vec![self.standing(&answer)],
            _ => Vec::new(),
        }
    }

    fn merge(self, found: Vec<Result<Standing, Error>>) -> Result<Standing, Error> {
        only(found, "the member")
    }
}

/// The epochs of a member that leaves, and of a static member that leaves for a while.
const LEAVES: i32 = -1;
const LEAVES_FOR_A_WHILE: i32 = -2;

impl ConsumerGroupHeartbeat {
    /// The member goes; a static one keeps its partitions, and may come back.
    pub(crate) fn leaving(member: GroupMetadata) -> ConsumerGroupHeartbeat {
        let is_static = member.instance_id.is_some();
        ConsumerGroupHeartbeat {
            member: GroupMetadata {
                generation: if is_static {
                    LEAVES_FOR_A_WHILE
                } else {
                    LEAVES
                },
                ..member
            },
            declared: Declaration::default(),
        }
    }

    fn standing(&self, answer: &ConsumerGroupHeartbeatResponse) -> Result<Standing, Error> {
        let group = &self.member.group;
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            let detail = answer.error_message.as_deref();
            return Err(Error::from_code(code, detail).with_group(group));
        }
        let leaves = self.member.generation < 0;
        if !leaves && answer.member_epoch <= 0 {
            let epoch = answer.member_epoch;
            let text = format!("the coordinator names {epoch} as the member's epoch");
            return Err(Error::new(Kind::Protocol, text).with_group(group));
        }
        let interval = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(0);
        let assigned = answer.assignment.as_ref().map(|assignment| {
            let topics = assignment.topic_partitions.iter();
            let partitions = topics.flat_map(|topic| {
                let numbers = topic.partitions.iter().filter(|number| **number >= 0);
                numbers.map(|number| (topic.topic_id, *number))
            });
            partitions.filter(|(id, _)| !id.is_zero()).collect()
        });
        Ok(Standing {
            epoch: answer.member_epoch,
            interval: Duration::from_millis(interval),
            assigned,
        })
    }
}

fn by_topic(partitions: &BTreeSet<IdPartition>) -> Vec<TopicPartitions> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(*topic).or_default().push(*partition);
    }
    let topics = topics.into_iter();
    topics
        .map(|(topic_id, partitions)| TopicPartitions {
            topic_id,
            partitions: partitions.into_iter().collect(),
            ..Default::default()
        })
        .collect()
}
