//! ElectLeaders, versions 0 to 2 (KIP-183, KIP-460).

use ottla_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use ottla_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};
use crate::storage::replica::NO_LEADER;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

type Result = std::result::Result<(), (ErrorCode, String)>;

impl Api for ElectLeadersRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ElectLeadersResponse> {
        if let Err(code) = cx.check(Operation::Alter, Resource::CLUSTER) {
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        if !matches!(self.election_type, PREFERRED | UNCLEAN) {
            return Outcome::Answer(self.refuse(cx.version, ErrorCode::INVALID_REQUEST));
        }
        let every = self.topic_partitions.is_none();
        let wanted: Vec<(Str, Vec<i32>)> = match &self.topic_partitions {
            Some(topics) => {
                let topics = topics.iter();
                topics
                    .map(|topic| (topic.topic.clone(), topic.partitions.to_vec()))
                    .collect()
            }
            None => {
                let topics = cx.core.topics().into_iter();
                let numbers = |count: usize| -> Vec<i32> { (0..).take(count).collect() };
                topics
                    .map(|topic| (topic.name.clone(), numbers(topic.partitions.len())))
                    .collect()
            }
        };
        let topics = wanted.into_iter().filter_map(|(topic, partitions)| {
            let rows = partitions.into_iter().filter_map(|index| {
                let elected = elect(cx, &topic, index, self.election_type);
                let is_needless =
                    |(code, _): &(ErrorCode, String)| *code == ErrorCode::ELECTION_NOT_NEEDED;
                // Of all partitions, those that have their leader are not listed.
                if every && elected.as_ref().is_err_and(is_needless) {
                    return None;
                }
                let (code, text) = match elected {
                    Ok(()) => (ErrorCode::NONE, None),
                    Err((code, text)) => (code, Some(text.into())),
                };
                Some(PartitionResult {
                    partition_id: index,
                    error_code: code.0,
                    error_message: text,
                    ..Default::default()
                })
            });
            let rows: Vec<_> = rows.collect();
            (!rows.is_empty()).then(|| ReplicaElectionResult {
                topic,
                partition_result: rows,
                ..Default::default()
            })
        });
        Outcome::Answer(ElectLeadersResponse {
            replica_election_results: topics.collect(),
            ..Default::default()
        })
    }
}

fn elect(cx: &Cx<'_>, topic: &str, index: i32, election: i8) -> Result {
    let unknown = |_| {
        let text = format!("there is no partition {index} of topic \"{topic}\"");
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text)
    };
    let found = cx.core.topic(topic).map_err(unknown)?;
    let standing = found
        .partition(index)
        .map_err(unknown)?
        .lock()
        .standing()
        .clone();
    let has_leader = standing.leader != NO_LEADER;
    let preferred = standing.replicas.first().copied().unwrap_or(NO_LEADER);
    let is_needed = match election {
        PREFERRED => standing.leader != preferred,
        _ => !has_leader,
    };
    if !is_needed {
        let text = "the partition has the leader that it is to have";
        return Err((ErrorCode::ELECTION_NOT_NEEDED, text.to_owned()));
    }
    match election {
        PREFERRED => cx
            .core
            .move_leader(topic, index, preferred)
            .map_err(|text| (ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, text)),
        _ => cx
            .core
            .elect_unclean(topic, index, &standing.replicas)
            .map_err(|text| (ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE, text)),
    }
}
