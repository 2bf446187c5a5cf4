//! Offsets of a group that join a transaction.
//!
//! ```text
//! V1: AddOffsetsToTxn ──▶ names
//! V2: all ids are known ──▶ TxnOffsetCommit 6, which carries ids ── the coordinator lacks it ──▶ names
//!     else ──▶ names
//!
//! names: no id is known ──▶ TxnOffsetCommit by names
//!        else ──▶ Metadata: a topic has another id, or is not there ──▶ only an abort helps
//!                           else ──▶ TxnOffsetCommit by names
//! ```
//!
//! An offset belongs to one topic of several that had its name. Without ids, the coordinator would
//! commit the offset of a topic that was deleted to the recreated one, whose first records no
//! consumer would read.

use std::collections::BTreeSet;
use std::time::Instant;

use ottla_protocol::messages::metadata_response::MetadataResponseTopic;
use ottla_protocol::{ErrorCode, Uuid};

use super::{Finished, Step, Transaction, Verb, errors};
use crate::call::{
    AddOffsetsToTxn, Call, DescribeTopics, GroupMetadata, GroupOffset, Member, Naming,
    TransactionProtocol, TxnOffsetCommit, offset_outdated,
};
use crate::error::{Error, Kind};
use crate::part::Core;

/// The topics as a broker describes them.
type Described = Result<Vec<Result<MetadataResponseTopic, Error>>, Error>;

impl Transaction {
    pub(super) fn send_offsets(
        &mut self,
        now: Instant,
        core: &mut Core,
        deadline: Instant,
        group: GroupMetadata,
        offsets: Vec<GroupOffset>,
    ) {
        if let Some(trouble) = self.trouble() {
            return self.finish(core, Err(trouble));
        }
        let Some(member) = self.member() else {
            return self.finish(core, Err(errors::none_open()));
        };
        self.touch();
        if self.protocol == TransactionProtocol::V1 {
            let group = group.group;
            let call = core.start(now, AddOffsetsToTxn { member, group }, deadline);
            self.set_step(Step::AddOffsets(call));
        } else if offsets.iter().all(has_topic) {
            let call = commit(member, group, offsets, Naming::Ids);
            self.commit_offsets(now, core, deadline, call);
        } else {
            self.check_topics(now, core, deadline, (member, group, offsets));
        }
    }

    /// Requests the topics of the offsets from a broker, if there is an id to compare, before they
    /// are committed by names.
    fn check_topics(
        &mut self,
        now: Instant,
        core: &mut Core,
        deadline: Instant,
        (member, group, offsets): (Member, GroupMetadata, Vec<GroupOffset>),
    ) {
        let known = offsets.iter().filter(|offset| has_topic(offset));
        let names: BTreeSet<_> = known.map(|offset| offset.topic.to_string()).collect();
        if names.is_empty() {
            let call = commit(member, group, offsets, Naming::Names);
            return self.commit_offsets(now, core, deadline, call);
        }
        let call = DescribeTopics::at_once(names.into_iter().collect());
        let call = core.start(now, call, deadline);
        self.set_step(Step::CheckTopics(call));
    }

    fn commit_offsets(
        &mut self,
        now: Instant,
        core: &mut Core,
        deadline: Instant,
        call: TxnOffsetCommit,
    ) {
        let naming = call.naming;
        let call = core.start(now, call, deadline);
        self.set_step(Step::CommitOffsets(call, naming));
    }

    // --- responses

    pub(super) fn handle_added(
        &mut self,
        now: Instant,
        core: &mut Core,
        running: (Instant, Verb),
        result: Result<(), Error>,
    ) {
        let (deadline, verb) = running;
        match (result, verb, self.member()) {
            (Ok(()), Verb::SendOffsets { group, offsets }, Some(member)) => {
                self.check_topics(now, core, deadline, (member, group, offsets));
            }
            (result, ..) => self.offsets_ended(core, result),
        }
    }

    pub(super) fn handle_checked(
        &mut self,
        now: Instant,
        core: &mut Core,
        running: (Instant, Verb),
        result: Described,
    ) {
        let (deadline, verb) = running;
        let (found, group, offsets, member) = match (result, verb, self.member()) {
            (Ok(found), Verb::SendOffsets { group, offsets }, Some(member)) => {
                (found, group, offsets, member)
            }
            (result, ..) => return self.offsets_ended(core, result.map(|_| ())),
        };
        let mut each = offsets.iter();
        if let Some(it) = each.find(|offset| is_outdated(offset, &found)) {
            let partition = (it.topic.clone(), it.partition);
            let error = offset_outdated(TxnOffsetCommit::API.name(), &group.group, &partition);
            return self.offsets_ended(core, Err(error));
        }
        let call = commit(member, group, offsets, Naming::Names);
        self.commit_offsets(now, core, deadline, call);
    }

    pub(super) fn handle_committed(
        &mut self,
        now: Instant,
        core: &mut Core,
        running: (Instant, Verb),
        (naming, result): (Naming, Result<(), Error>),
    ) {
        let (deadline, verb) = running;
        match (result, verb, self.member()) {
            (Err(error), Verb::SendOffsets { group, offsets }, Some(member))
                if naming == Naming::Ids && error.kind() == Kind::Unsupported =>
            {
                self.check_topics(now, core, deadline, (member, group, offsets));
            }
            (result, ..) => self.offsets_ended(core, result),
        }
    }

    /// The offsets have joined the transaction; or they have not, and it can only be aborted.
    fn offsets_ended(&mut self, core: &mut Core, result: Result<(), Error>) {
        let result = match result {
            Ok(()) => Ok(Finished::Done),
            // Even if only the response is missing: it is not known whether they are part of the
            // transaction.
            Err(error) => {
                self.doubt(error.code().is_none() || error.may_have_been_done());
                self.fail(error, "the offsets could not join the transaction");
                self.trouble().map_or(Ok(Finished::Done), Err)
            }
        };
        self.finish(core, result);
    }
}

fn commit(
    member: Member,
    group: GroupMetadata,
    offsets: Vec<GroupOffset>,
    naming: Naming,
) -> TxnOffsetCommit {
    TxnOffsetCommit {
        member,
        group,
        offsets,
        naming,
    }
}

fn has_topic(offset: &GroupOffset) -> bool {
    offset.topic_id != Uuid::ZERO
}

/// Whether the topic of the offset is gone, as a broker describes the topics. Of one that the client may not describe nothing is
/// known: the coordinator decides.
fn is_outdated(offset: &GroupOffset, found: &[Result<MetadataResponseTopic, Error>]) -> bool {
    let name = Some(&*offset.topic);
    has_topic(offset)
        && found.iter().any(|topic| match topic {
            Ok(row) => {
                let is_named = row.name.as_deref() == name;
                is_named && row.topic_id != Uuid::ZERO && row.topic_id != offset.topic_id
            }
            Err(error) => {
                let is_gone = error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                is_gone && error.topic() == name
            }
        })
}
