//! Groups of Kafka Streams (KIP-1071) as their coordinators describe them.

use std::sync::Arc;

use ottla_protocol::messages::StreamsGroupDescribeRequest;
use ottla_protocol::messages::streams_group_describe_response::{
    Assignment, DescribedGroup, Member, Subtopology, TaskIds, TopicInfo,
};
use ottla_protocol::{ApiKey, ErrorCode};
use serde::{Deserialize, Serialize};

use super::groups::{retry, target};
use super::verb::verbs;
use crate::api::{Request, Response};
use crate::call::groups::authorized;
use crate::call::interface::results;
use crate::call::{About, Asked, ByItem, Call, Retry, Target, values};
use crate::error::Error;

verbs! {
    describe_streams_groups: DescribeStreamsGroups,
}

/// A topic that a subtopology writes for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsTopic {
    /// Its name.
    pub name: String,
    /// Its number of partitions; 0 lets the brokers decide.
    pub partitions: i32,
    /// Replicas of each partition; 0 is the broker's default.
    pub replication: i16,
}

/// A part of a topology whose tasks can run apart from those of other parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsSubtopology {
    /// Its id.
    pub id: String,
    /// The topics that it reads.
    pub source_topics: Vec<String>,
    /// The topics that it writes for other parts.
    pub repartition_sink_topics: Vec<String>,
    /// The topics that keep its state.
    pub state_changelog_topics: Vec<StreamsTopic>,
    /// The topics that it reads from other parts.
    pub repartition_source_topics: Vec<StreamsTopic>,
}

/// Tasks of a member: subtopologies and partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamsTasks {
    /// Tasks that it runs.
    pub active: Vec<(String, i32)>,
    /// Tasks whose state it keeps up to date.
    pub standby: Vec<(String, i32)>,
    /// Tasks whose state it builds, to run them later.
    pub warmup: Vec<(String, i32)>,
}

/// A member of a group of Kafka Streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsMember {
    /// The id that it gave itself.
    pub member_id: String,
    /// Its epoch.
    pub epoch: i32,
    /// Its `group.instance.id` if it is a static member.
    pub group_instance_id: Option<String>,
    /// Its `client.rack`.
    pub rack: Option<String>,
    /// Its `client.id`.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// The epoch of the topology that it runs.
    pub topology_epoch: i32,
    /// The id of its process.
    pub process_id: String,
    /// `host:port` that it offers for queries.
    pub endpoint: Option<String>,
    /// Its tasks.
    pub tasks: StreamsTasks,
    /// The tasks that it is to have.
    pub target_tasks: StreamsTasks,
}

/// A group of Kafka Streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamsGroupDescription {
    /// Its id.
    pub group_id: String,
    /// Its state.
    pub state: String,
    /// Its epoch.
    pub epoch: i32,
    /// The epoch that the target assignment is for.
    pub assignment_epoch: i32,
    /// The epoch of its topology; `None` until a member has sent it.
    pub topology_epoch: Option<i32>,
    /// Its topology's parts.
    pub subtopologies: Vec<StreamsSubtopology>,
    /// Its members, by their ids.
    pub members: Vec<StreamsMember>,
    /// The id of the broker that coordinates it.
    pub coordinator: Option<i32>,
    /// The operations that the client is authorized for, by Kafka's codes as bits.
    #[serde(serialize_with = "values::operations")]
    pub authorized_operations: Option<i32>,
}

/// Describes groups of Kafka Streams. An item is a group.
#[derive(Clone, Debug, Deserialize)]
pub struct DescribeStreamsGroups {
    /// Their ids.
    #[serde(deserialize_with = "values::names")]
    pub groups: Vec<Arc<str>>,
    /// Whether to return the operations that the client is authorized for.
    pub include_authorized_operations: bool,
}

impl Call for DescribeStreamsGroups {
    type Found = StreamsGroupDescription;
    type Answer = ByItem<StreamsGroupDescription>;
    const API: ApiKey = ApiKey::StreamsGroupDescribe;

    fn items(&self) -> usize {
        self.groups.len()
    }

    fn target(&self, item: usize) -> Target {
        target(self.groups.get(item))
    }

    fn request(&self, items: &[usize], _: &About<'_>) -> Request {
        let wanted = items.iter().filter_map(|item| self.groups.get(*item));
        Request::StreamsGroupDescribe(StreamsGroupDescribeRequest {
            group_ids: wanted.map(|group| (&**group).into()).collect(),
            include_authorized_operations: self.include_authorized_operations,
            ..Default::default()
        })
    }

    fn take(&self, items: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::StreamsGroupDescribe(answer) = response else {
            return Vec::new();
        };
        results(items, "a group", |asked| {
            let group = self.groups.get(asked.item)?;
            let row = answer.groups.iter().find(|row| *row.group_id == **group)?;
            Some(described(row, asked).map_err(|error| error.with_group(group)))
        })
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        ByItem::new(self.groups, found)
    }
}

fn described(row: &DescribedGroup, asked: &Asked) -> Result<StreamsGroupDescription, Error> {
    let code = ErrorCode(row.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, row.error_message.as_deref()));
    }
    let mut members: Vec<_> = row.members.iter().map(member).collect();
    members.sort_by(|one, other| one.member_id.cmp(&other.member_id));
    let topology = row.topology.as_ref();
    let parts = topology.and_then(|it| it.subtopologies.as_ref());
    Ok(StreamsGroupDescription {
        group_id: row.group_id.to_string(),
        state: row.group_state.to_string(),
        epoch: row.group_epoch,
        assignment_epoch: row.assignment_epoch,
        topology_epoch: topology.map(|it| it.epoch),
        subtopologies: parts.into_iter().flatten().map(subtopology).collect(),
        members,
        coordinator: asked.node,
        authorized_operations: authorized(row.authorized_operations),
    })
}

fn subtopology(row: &Subtopology) -> StreamsSubtopology {
    let topic = |row: &TopicInfo| StreamsTopic {
        name: row.name.to_string(),
        partitions: row.partitions,
        replication: row.replication_factor,
    };
    StreamsSubtopology {
        id: row.subtopology_id.to_string(),
        source_topics: row.source_topics.iter().map(|it| it.to_string()).collect(),
        repartition_sink_topics: row
            .repartition_sink_topics
            .iter()
            .map(|it| it.to_string())
            .collect(),
        state_changelog_topics: row.state_changelog_topics.iter().map(topic).collect(),
        repartition_source_topics: row.repartition_source_topics.iter().map(topic).collect(),
    }
}

fn member(row: &Member) -> StreamsMember {
    let endpoint = row.user_endpoint.as_ref();
    StreamsMember {
        member_id: row.member_id.to_string(),
        epoch: row.member_epoch,
        group_instance_id: row.instance_id.as_ref().map(|it| it.to_string()),
        rack: row.rack_id.as_ref().map(|it| it.to_string()),
        client_id: row.client_id.to_string(),
        client_host: row.client_host.to_string(),
        topology_epoch: row.topology_epoch,
        process_id: row.process_id.to_string(),
        endpoint: endpoint.map(|it| format!("{}:{}", &*it.host, it.port)),
        tasks: tasks(&row.assignment),
        target_tasks: tasks(&row.target_assignment),
    }
}

fn tasks(row: &Assignment) -> StreamsTasks {
    let pairs = |rows: &[TaskIds]| {
        let pairs = rows.iter().flat_map(|row| {
            let partitions = row.partitions.iter().copied();
            partitions.map(|partition| (row.subtopology_id.to_string(), partition))
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort();
        pairs
    };
    StreamsTasks {
        active: pairs(&row.active_tasks),
        standby: pairs(&row.standby_tasks),
        warmup: pairs(&row.warmup_tasks),
    }
}
