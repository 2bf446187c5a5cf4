//! Commits of groups in flight: who sent which, when a broker received it, and its response.

use bytes::Bytes;
use ottla_protocol::header::{decode_request_header, decode_response};
use ottla_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use ottla_protocol::{ApiKey, ErrorCode, Message};

use super::coordinators::api_of;
use super::{Commit, World};
use crate::client::Client;
use crate::history::{Joint, Place};

/// The correlation id of a frame's body from this place on.
pub(super) fn correlation(frame: &[u8], at: usize) -> Option<i32> {
    let bytes = frame.get(at..at + 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

impl World {
    fn note(&mut self, process: usize, joint: Joint) {
        let at = self.book.at();
        self.book.history.joint.push((at, process, joint));
    }

    /// A client sends a frame.
    pub(super) fn note_sent(&mut self, wire: u64, client: usize, frame: &Bytes) {
        if api_of(frame) != Some(ApiKey::OffsetCommit) {
            return;
        }
        let Some(Client::Member(member)) = self.clients.get(client) else {
            return;
        };
        let process = member.process();
        let Ok((header, mut body)) = decode_request_header(frame.slice(4..)) else {
            return;
        };
        let version = header.api_version;
        let Ok(request) = OffsetCommitRequest::decode(version, &mut body) else {
            return;
        };
        let mut offsets = Vec::new();
        for topic in &request.topics {
            let mut known = self.topics.iter().map(|(name, _)| name);
            let found = known.find(|name| {
                let id = self.brokers.topic(name).map(|topic| topic.id);
                ***name == *topic.name || (version >= 10 && id == Some(topic.topic_id.0))
            });
            let Some(name) = found else { continue };
            for row in &topic.partitions {
                let place: Place = (name.clone(), row.partition_index);
                offsets.push((place, row.committed_offset));
            }
        }
        let number = self.book.history.joint.len();
        let commit = Commit {
            number,
            process,
            version,
        };
        self.commits.insert((wire, header.correlation_id), commit);
        let generation = request.generation_id_or_member_epoch;
        self.note(process, Joint::Sent(number, generation, offsets));
    }

    /// A broker takes a frame.
    pub(super) fn note_taken(&mut self, wire: u64, frame: &Bytes) {
        let key = correlation(frame, 8).map(|id| (wire, id));
        if let Some(commit) = key.and_then(|key| self.commits.get(&key)).copied() {
            self.note(commit.process, Joint::Taken(commit.number));
        }
    }

    /// A broker sends bytes: whole frames.
    pub(super) fn note_answered(&mut self, wire: u64, frame: &Bytes) {
        let key = correlation(frame, 4).map(|id| (wire, id));
        let Some(commit) = key.and_then(|key| self.commits.remove(&key)) else {
            return;
        };
        let answer = decode_response::<OffsetCommitResponse>(commit.version, frame.slice(4..));
        let Ok((_, answer)) = answer else { return };
        let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let codes: Vec<ErrorCode> = rows.map(|row| ErrorCode(row.error_code)).collect();
        let done = match codes.iter().find(|code| **code != ErrorCode::NONE) {
            None => Some(true),
            Some(code) if is_sure(*code) => Some(false),
            Some(_) => None,
        };
        self.note(commit.process, Joint::Answered(commit.number, done));
    }
}

/// Whether nothing was committed if a broker returns this.
fn is_sure(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::FENCED_MEMBER_EPOCH
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
    )
}
