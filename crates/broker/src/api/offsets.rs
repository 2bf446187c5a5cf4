//! Offsets as clients commit them, within a transaction or not.

use ottla_protocol::{ErrorCode, Uuid};

use super::Cx;
use crate::group::{Committed, Stored};
use crate::security::acl::{Operation, Resource};

/// One offset of a request.
pub(super) struct Asked<'a> {
    pub(super) group: &'a str,
    pub(super) topic: &'a str,
    /// In versions where topics go by id.
    pub(super) topic_id: Option<Uuid>,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) metadata: Option<&'a str>,
}

/// What is to be stored of it, if the client may read the topic and the partition is there.
pub(super) fn to_store(cx: &Cx<'_>, asked: Asked<'_>) -> Result<Stored, ErrorCode> {
    let found = match asked.topic_id {
        None => {
            cx.check(Operation::Read, Resource::topic(asked.topic))?;
            cx.core.topic(asked.topic)?
        }
        Some(id) => {
            let found = cx.core.topic_by_id(id)?;
            cx.check(Operation::Read, Resource::topic(&found.name))?;
            found
        }
    };
    found.partition(asked.partition)?;
    let metadata = asked.metadata.unwrap_or_default();
    // Kafka compares the length of Java's string, although the setting's name has "bytes".
    if metadata.encode_utf16().count() > cx.core.settings.offset_metadata_max_bytes {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    Ok(Stored {
        group: asked.group.to_owned(),
        topic: found.name.to_string(),
        partition: asked.partition,
        committed: Some(Committed {
            offset: asked.offset,
            leader_epoch: asked.leader_epoch,
            metadata: metadata.to_owned(),
            at: cx.core.wall.at(cx.now),
        }),
    })
}
