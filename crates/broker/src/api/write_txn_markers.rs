//! WriteTxnMarkers, versions 0 to 2: ends transactions in partitions that this node leads. Coordinators of one embedded cluster need
//! no request for it; it is here for tools that end what no coordinator knows of any more (KIP-664).

use std::collections::BTreeMap;

use ottla_protocol::messages::write_txn_markers_request::WritableTxnMarker;
use ottla_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use ottla_protocol::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::coordinated::once_replicated;
use super::{Api, Cx, Outcome};
use crate::replicas::Unreplicated;
use crate::security::acl::{Operation, Resource};
use crate::storage::producers::Marker;
use crate::transaction::Place;

impl Api for WriteTxnMarkersRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<WriteTxnMarkersResponse> {
        let may = |operation| cx.may(operation, Resource::CLUSTER);
        if !may(Operation::Alter) && !may(Operation::ClusterAction) {
            let code = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
            return Outcome::Answer(self.refuse(cx.version, code));
        }
        let mut placed = Vec::new();
        let markers = self.markers.iter();
        let mut written: Vec<_> = markers.map(|asked| write(cx, asked, &mut placed)).collect();
        once_replicated(placed, cx.client.waker.clone(), cx.now, move |kept| {
            // Which of them is not on all replicas is not known; to write a marker again does no harm.
            if kept.is_err() {
                let codes = written
                    .iter_mut()
                    .flat_map(|written| written.places.values_mut());
                for code in codes.filter(|code| **code == ErrorCode::NONE) {
                    *code = ErrorCode::NOT_LEADER_OR_FOLLOWER;
                }
            }
            Outcome::Answer(WriteTxnMarkersResponse {
                markers: written.into_iter().map(Written::result).collect(),
                ..Default::default()
            })
        })
    }
}

/// What became of a marker.
struct Written {
    producer_id: i64,
    places: BTreeMap<Place, ErrorCode>,
}

fn write(cx: &Cx<'_>, asked: &WritableTxnMarker, placed: &mut Vec<Unreplicated>) -> Written {
    let marker = Marker {
        producer_id: asked.producer_id,
        epoch: asked.producer_epoch,
        coordinator_epoch: asked.coordinator_epoch,
        commits: asked.transaction_result,
    };
    let mut places = BTreeMap::new();
    for topic in &asked.topics {
        for index in &topic.partition_indexes {
            let place = (topic.name.to_string(), *index);
            let code = match cx.core.mark_here(&place, marker, cx.now) {
                Ok(unreplicated) => {
                    placed.push(unreplicated);
                    ErrorCode::NONE
                }
                Err(code) => code,
            };
            places.insert(place, code);
        }
    }
    Written {
        producer_id: asked.producer_id,
        places,
    }
}

impl Written {
    fn result(self) -> WritableTxnMarkerResult {
        let mut topics: BTreeMap<String, Vec<WritableTxnMarkerPartitionResult>> = BTreeMap::new();
        for ((topic, partition_index), code) in self.places {
            let partitions = topics.entry(topic).or_default();
            partitions.push(WritableTxnMarkerPartitionResult {
                partition_index,
                error_code: code.0,
                ..Default::default()
            });
        }
        let topics = topics.into_iter();
        WritableTxnMarkerResult {
            producer_id: self.producer_id,
            topics: topics
                .map(|(name, partitions)| WritableTxnMarkerTopicResult {
                    name: name.into(),
                    partitions,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }
}
