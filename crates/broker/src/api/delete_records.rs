//! DeleteRecords, versions 0 to 2: the records before an offset, on the partition's leader; -1 means all that are committed.

use ottla_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use ottla_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use ottla_protocol::{ErrorCode, Versions};

use super::{Api, Cx, Outcome};
use crate::security::acl::{Operation, Resource};

impl Api for DeleteRecordsRequest {
    const HANDLED: Versions = Versions { min: 0, max: 2 };

    fn answer(self, cx: &Cx<'_>) -> Outcome<DeleteRecordsResponse> {
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let deleted = delete(cx, &topic.name, asked.partition_index, asked.offset);
                DeleteRecordsPartitionResult {
                    partition_index: asked.partition_index,
                    low_watermark: deleted.unwrap_or(-1),
                    error_code: deleted.err().unwrap_or(ErrorCode::NONE).0,
                    ..Default::default()
                }
            });
            DeleteRecordsTopicResult {
                name: topic.name.clone(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        Outcome::Answer(DeleteRecordsResponse {
            topics: topics.collect(),
            ..Default::default()
        })
    }
}

/// Gives the first offset that is left.
fn delete(cx: &Cx<'_>, topic: &str, index: i32, offset: i64) -> Result<i64, ErrorCode> {
    cx.check(Operation::Delete, Resource::topic(topic))?;
    let topic = cx.core.topic(topic)?;
    if topic.is_internal() {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let mut replica = topic.partition(index)?.lock();
    replica.check(-1)?;
    replica.delete_before(offset)
}
