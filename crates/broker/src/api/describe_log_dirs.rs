//! DescribeLogDirs, versions 0 to 5 (KIP-113, KIP-827): the broker's folder, or its memory, with the sizes of the logs in it.

use std::collections::BTreeMap;

use ottla_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use ottla_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use ottla_protocol::{ErrorCode, Str, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

/// What is said of the volume, whose size no standard interface returns: the largest that a file can have, half of it used.
const TOTAL: i64 = i64::MAX;
const USABLE: i64 = i64::MAX / 2;

impl Api for DescribeLogDirsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 5 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DescribeLogDirsResponse> {
        if let Err(code) = cx.check(Operation::Describe, Resource::CLUSTER) {
            let error_code = if cx.version >= 3 {
                code.0
            } else {
                ErrorCode::NONE.0
            };
            return Outcome::Answer(DescribeLogDirsResponse {
                error_code,
                ..Default::default()
            });
        }
        let wanted = |name: &str, index: i32| {
            let topics = self.topics.as_ref();
            topics.is_none_or(|topics| {
                let mut topics = topics.iter();
                topics.any(|topic| *topic.topic == *name && topic.partitions.contains(&index))
            })
        };
        let mut topics: BTreeMap<Str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
        for topic in cx.core.topics() {
            for (index, replica) in (0..).zip(&topic.partitions) {
                let mut replica = replica.lock();
                let is_here = replica.standing().replicas.contains(&cx.core.node);
                if is_here && wanted(&topic.name, index) {
                    let end = replica.log().bounds().end;
                    let watermark = replica.visible().high_watermark;
                    let row = DescribeLogDirsPartition {
                        partition_index: index,
                        partition_size: i64::try_from(replica.log().bytes()).unwrap_or(i64::MAX),
                        offset_lag: watermark.saturating_sub(end).max(0),
                        ..Default::default()
                    };
                    topics.entry(topic.name.clone()).or_default().push(row);
                }
            }
        }
        let topics = topics.into_iter();
        let topics = topics.map(|(name, partitions)| DescribeLogDirsTopic {
            name,
            partitions,
            ..Default::default()
        });
        let has_volume = cx.version >= 4;
        Outcome::Answer(DescribeLogDirsResponse {
            results: vec![DescribeLogDirsResult {
                log_dir: cx.core.log_dir(),
                topics: topics.collect(),
                total_bytes: if has_volume { TOTAL } else { -1 },
                usable_bytes: if has_volume { USABLE } else { -1 },
                ..Default::default()
            }],
            ..Default::default()
        })
    }
}
