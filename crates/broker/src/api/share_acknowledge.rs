//! ShareAcknowledge, versions 1 and 2 (KIP-932): acknowledgements of a member of a share group; it
//! may end its session.
//!
//! Since version 2 locks may be renewed (KIP-1222).

use ottla_protocol::messages::share_acknowledge_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareAcknowledgeTopicResponse,
};
use ottla_protocol::messages::{ShareAcknowledgeRequest, ShareAcknowledgeResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::shared::{Settled, Sharer, endpoints};
use super::{Api, Cx, Outcome};
use crate::sharing::{LAST_EPOCH, Said};

impl Api for ShareAcknowledgeRequest {
    const HANDLED: Versions = Versions { min: 1, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<ShareAcknowledgeResponse> {
        let sharer = Sharer::new(cx, self.group_id.as_ref(), self.member_id.as_ref());
        let sharer = match sharer {
            Ok(sharer) => sharer,
            Err(code) => return Outcome::Answer(self.refuse(cx.version, code)),
        };
        let epoch = self.share_session_epoch;
        let renews = self.is_renew_ack && sharer.rules.renews;
        let begun = match (self.is_renew_ack, renews) {
            (true, false) => Err(ErrorCode::INVALID_REQUEST),
            _ => cx.core.with_shares(cx.now, |shares| {
                let sessions = &mut shares.sessions;
                sessions.acknowledge(&sharer.group, &sharer.member, epoch)
            }),
        };
        if let Err(code) = begun {
            return Outcome::Answer(ShareAcknowledgeResponse {
                error_code: code.0,
                ..Default::default()
            });
        }
        let mut response = ShareAcknowledgeResponse {
            acquisition_lock_timeout_ms: sharer.lock_ms(),
            ..Default::default()
        };
        for topic in &self.topics {
            let partitions = topic.partitions.iter().map(|partition| {
                let place = (topic.topic_id, partition.partition_index);
                let said = partition.acknowledgement_batches.iter();
                let said = said.map(|batch| Said {
                    first: batch.first_offset,
                    last: batch.last_offset,
                    kinds: batch.acknowledge_types.to_vec(),
                });
                let said: Vec<Said> = said.collect();
                let settled = sharer.acknowledge(cx.core, place, &said, renews, cx.now);
                told(partition.partition_index, settled)
            });
            response.responses.push(ShareAcknowledgeTopicResponse {
                topic_id: topic.topic_id,
                partitions: partitions.collect(),
                ..Default::default()
            });
        }
        if epoch == LAST_EPOCH {
            sharer.leave(cx.core, cx.now);
        }
        let partitions = response.responses.iter().flat_map(|it| &it.partitions);
        let failed = partitions.filter(|it| it.error_code == ErrorCode::NOT_LEADER_OR_FOLLOWER.0);
        let leaders = failed.map(|it| it.current_leader.leader_id);
        let endpoints = endpoints(cx.core, cx.client.listener, leaders).into_iter();
        let endpoints = endpoints.map(|(node_id, address)| NodeEndpoint {
            node_id,
            host: address.host,
            port: address.port,
            ..Default::default()
        });
        response.node_endpoints = endpoints.collect();
        Outcome::Answer(response)
    }
}

fn told(partition_index: i32, settled: Settled) -> PartitionData {
    let mut data = PartitionData {
        partition_index,
        ..Default::default()
    };
    if let Err(((code, standing), message)) = settled {
        data.error_code = code.0;
        data.error_message = message.map(Into::into);
        if let Some(standing) = standing {
            data.current_leader = LeaderIdAndEpoch {
                leader_id: standing.leader,
                leader_epoch: standing.epoch,
                ..Default::default()
            };
        }
    }
    data
}
