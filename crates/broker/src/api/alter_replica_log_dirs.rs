//! AlterReplicaLogDirs, versions 0 to 2 (KIP-113): the broker has one folder, so that replicas stay where they are.

use ottla_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use ottla_protocol::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for AlterReplicaLogDirsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<AlterReplicaLogDirsResponse> {
        let allowed = cx.check(Operation::Alter, Resource::CLUSTER);
        let topics = self.dirs.iter().flat_map(|dir| {
            let is_known = dir.path == cx.core.log_dir();
            let topics = dir.topics.iter();
            topics.map(move |topic| {
                let rows = topic.partitions.iter().map(|index| {
                    let is_there = || {
                        let found = cx.core.topic(&topic.name);
                        found.is_ok_and(|topic| topic.partition(*index).is_ok())
                    };
                    let code = match allowed {
                        Err(code) => code,
                        Ok(()) if !is_known => ErrorCode::LOG_DIR_NOT_FOUND,
                        // A replica that comes later would be put there.
                        Ok(()) if !is_there() => ErrorCode::REPLICA_NOT_AVAILABLE,
                        Ok(()) => ErrorCode::NONE,
                    };
                    AlterReplicaLogDirPartitionResult {
                        partition_index: *index,
                        error_code: code.0,
                        ..Default::default()
                    }
                });
                AlterReplicaLogDirTopicResult {
                    topic_name: topic.name.clone(),
                    partitions: rows.collect(),
                    ..Default::default()
                }
            })
        });
        Outcome::Answer(AlterReplicaLogDirsResponse {
            results: topics.collect(),
            ..Default::default()
        })
    }
}
