//! The calls of a transactional producer (KIP-98, KIP-890). All are safe to repeat: brokers respond
//! to a repeated request as they responded to the first.

use std::sync::Arc;
use std::time::Duration;

use ottla_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use ottla_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use ottla_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest,
    TxnOffsetCommitRequest,
};
use ottla_protocol::{ApiKey, ErrorCode, Uuid};

use super::interface::{Retry, only};
use super::membership::GroupMetadata;
use super::outcome;
use super::partitions::{by_topic, results};
use super::topic_ids::{self, Naming};
use super::{About, Asked, Call, ProducerIdentity, Target};
use crate::api::{Request, Response};
use crate::cluster::CoordinatorType;
use crate::error::Error;
use crate::metadata::Metadata;

/// The first version of InitProducerId that proves which identity the producer had, and gives the next epoch only to that
/// one (KIP-360). Without it a producer that was fenced long ago would fence its successor.
const PROVING: i16 = 3;

/// How a cluster keeps transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionProtocol {
    /// Partitions join a transaction by a request of their own; an epoch lasts for many transactions (KIP-98).
    #[default]
    V1,
    /// Partitions join with their first batch, and each transaction has an epoch of its own (KIP-890).
    V2,
}

impl TransactionProtocol {
    /// The protocol of a cluster with this level of `transaction.version`.
    pub(crate) fn of_level(level: i16) -> TransactionProtocol {
        if level >= 2 {
            TransactionProtocol::V2
        } else {
            TransactionProtocol::V1
        }
    }

    /// 1 or 2.
    pub(crate) fn number(self) -> u8 {
        match self {
            TransactionProtocol::V1 => 1,
            TransactionProtocol::V2 => 2,
        }
    }
}

/// The sender: a transactional id, its producer's identity and the protocol.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) id: Arc<str>,
    pub(crate) identity: ProducerIdentity,
    pub(crate) protocol: TransactionProtocol,
}

impl Member {
    fn coordinator(&self) -> Target {
        Target::Coordinator(CoordinatorType::Transaction, Arc::clone(&self.id))
    }

    /// The versions for this member's protocol, of an API whose version `first` came with the second one.
    fn versions(&self, first: i16) -> (i16, i16) {
        match self.protocol {
            TransactionProtocol::V1 => (0, first - 1),
            TransactionProtocol::V2 => (first, i16::MAX),
        }
    }
}

/// While the markers of the previous transaction are still being written, a request is retried soon.
pub(super) fn retry(error: &Error) -> Retry {
    match error.code() {
        Some(ErrorCode::CONCURRENT_TRANSACTIONS) if error.is_retriable() => Retry::Soon,
        _ => Retry::after_pause_if(error.is_retriable()),
    }
}

/// What a code means for a transactional id, and for a group if one takes part: an error names whichever it is about.
fn outcome(code: i16, id: &Arc<str>, group: Option<&Arc<str>>) -> Result<(), Error> {
    let code = ErrorCode(code);
    if !code.is_error() {
        return Ok(());
    }
    let error = Error::from_code(code, None);
    Err(match group {
        Some(group) if code == ErrorCode::GROUP_AUTHORIZATION_FAILED => error.with_group(group),
        _ => error.with_transactional_id(id),
    })
}

/// The first version of InitProducerId that knows two-phase commits (KIP-939). It is not final, so nothing else uses it.
const TWO_PHASES: i16 = 6;

/// What a transactional producer receives when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Initialized {
    pub(crate) identity: ProducerIdentity,
    /// Whose transaction was kept, if one was.
    pub(crate) ongoing: Option<ProducerIdentity>,
}

/// InitProducerId: the identity of a transactional producer. It ends what an earlier producer of the same id left open, unless
/// that is kept.
#[derive(Clone, Debug)]
pub(crate) struct InitTransactions {
    pub(crate) id: Arc<str>,
    /// After this time the coordinator aborts a transaction that is still open.
    pub(crate) timeout: Duration,
    /// The identity so far, whose next epoch is wanted. No transaction of it may be open: the coordinator would abort it by fencing
    /// this identity.
    pub(crate) current: Option<ProducerIdentity>,
    /// The coordinator ends none of its transactions by itself.
    pub(crate) two_phase: bool,
    /// A transaction that an earlier producer left open stays open.
    pub(crate) keeps: bool,
}

impl InitTransactions {
    /// The versions that are final.
    pub(super) const FINAL: (i16, i16) = (0, TWO_PHASES - 1);
}

impl Call for InitTransactions {
    type Found = Initialized;
    type Answer = Initialized;
    const API: ApiKey = ApiKey::InitProducerId;

    fn changes(&self) -> bool {
        true
    }

    fn versions(&self) -> (i16, i16) {
        if self.two_phase {
            return (TWO_PHASES, i16::MAX);
        }
        let (_, most) = Self::FINAL;
        (self.current.map_or(0, |_| PROVING), most)
    }

    fn target(&self, _: usize) -> Target {
        Target::Coordinator(CoordinatorType::Transaction, Arc::clone(&self.id))
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let millis = match self.two_phase {
            true => i32::MAX,
            false => i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX),
        };
        let mut request = InitProducerIdRequest {
            transactional_id: Some((&*self.id).into()),
            transaction_timeout_ms: millis,
            enable2_pc: self.two_phase,
            keep_prepared_txn: self.keeps,
            ..Default::default()
        };
        if let Some(current) = self.current {
            request.producer_id = current.id;
            request.producer_epoch = current.epoch;
        }
        Request::InitProducerId(request)
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Initialized, Error>> {
        let Response::InitProducerId(answer) = response else {
            return Vec::new();
        };
        let kept = answer.ongoing_txn_producer_id >= 0;
        let found = Initialized {
            identity: ProducerIdentity {
                id: answer.producer_id,
                epoch: answer.producer_epoch,
            },
            ongoing: kept.then_some(ProducerIdentity {
                id: answer.ongoing_txn_producer_id,
                epoch: answer.ongoing_txn_producer_epoch,
            }),
        };
        vec![outcome(answer.error_code, &self.id, None).map(|()| found)]
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<Initialized, Error>>) -> Result<Initialized, Error> {
        only(found, "the producer id")
    }
}

/// AddPartitionsToTxn: partitions join the transaction, all or none.
#[derive(Clone, Debug)]
pub(crate) struct AddPartitionsToTxn {
    pub(crate) member: Member,
    pub(crate) partitions: Vec<(Arc<str>, i32)>,
}

impl Call for AddPartitionsToTxn {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::AddPartitionsToTxn;

    fn changes(&self) -> bool {
        true
    }

    fn target(&self, _: usize) -> Target {
        self.member.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let rows = self.partitions.iter();
        let rows = rows.map(|(topic, partition)| (topic, *partition));
        let topics = by_topic(rows).into_iter();
        Request::AddPartitionsToTxn(AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: (&*self.member.id).into(),
            v3_and_below_producer_id: self.member.identity.id,
            v3_and_below_producer_epoch: self.member.identity.epoch,
            v3_and_below_topics: topics
                .map(|(topic, partitions)| AddPartitionsToTxnTopic {
                    name: (&**topic).into(),
                    partitions: partitions.into_iter().collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::AddPartitionsToTxn(answer) = response else {
            return Vec::new();
        };
        let rows = answer.results_by_topic_v3_and_below.iter();
        let rows = rows.flat_map(|topic| {
            let rows = topic.results_by_partition.iter();
            rows.map(|row| {
                (
                    (&*topic.name, row.partition_index),
                    row.partition_error_code,
                )
            })
        });
        let wanted = self.partitions.iter();
        let wanted = wanted.map(|(topic, partition)| (topic, *partition));
        let each = results(wanted, rows, |code| outcome(*code, &self.member.id, None));
        let errors: Vec<_> = each.into_iter().filter_map(Result::err).collect();
        // Where one partition cannot join, the others are not even tried: only the error of the
        // first is reported.
        let tried = |error: &&Error| error.code() != Some(ErrorCode::OPERATION_NOT_ATTEMPTED);
        let error = errors.iter().find(tried).or(errors.first());
        vec![error.cloned().map_or(Ok(()), Err)]
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the partitions")
    }
}

/// AddOffsetsToTxn: the offsets of a group join the transaction, with the first protocol.
#[derive(Clone, Debug)]
pub(crate) struct AddOffsetsToTxn {
    pub(crate) member: Member,
    pub(crate) group: Arc<str>,
}

impl Call for AddOffsetsToTxn {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::AddOffsetsToTxn;

    fn changes(&self) -> bool {
        true
    }

    fn target(&self, _: usize) -> Target {
        self.member.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::AddOffsetsToTxn(AddOffsetsToTxnRequest {
            transactional_id: (&*self.member.id).into(),
            producer_id: self.member.identity.id,
            producer_epoch: self.member.identity.epoch,
            group_id: (&*self.group).into(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        match response {
            Response::AddOffsetsToTxn(answer) => {
                vec![outcome(
                    answer.error_code,
                    &self.member.id,
                    Some(&self.group),
                )]
            }
            _ => Vec::new(),
        }
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the group")
    }
}

/// An offset of a group, as a transaction commits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record to read.
    pub offset: i64,
    /// The leader epoch of the record before it; -1 if unknown.
    pub leader_epoch: i32,
    /// What else the group wants to keep.
    pub metadata: Arc<str>,
    /// The id of the topic that the offset belongs to; zero if unknown.
    pub topic_id: Uuid,
}

impl GroupOffset {
    /// Whether the offset belongs to a topic that was deleted, and another one has its name now.
    pub(crate) fn is_outdated(&self, view: &Metadata) -> bool {
        let current = view.topic(&self.topic).map_or(Uuid::ZERO, |topic| topic.id);
        self.topic_id != Uuid::ZERO && current != Uuid::ZERO && self.topic_id != current
    }
}

/// The highest version of TxnOffsetCommit with topic names.
const NAMED: i16 = 5;

/// TxnOffsetCommit: offsets of a group, which take effect when the transaction is committed. It
/// goes to the group's coordinator.
#[derive(Clone, Debug)]
pub(crate) struct TxnOffsetCommit {
    pub(crate) member: Member,
    pub(crate) group: GroupMetadata,
    pub(crate) offsets: Vec<GroupOffset>,
    pub(crate) naming: Naming,
}

impl Call for TxnOffsetCommit {
    type Found = ();
    type Answer = ();
    const API: ApiKey = ApiKey::TxnOffsetCommit;

    fn changes(&self) -> bool {
        true
    }

    fn versions(&self) -> (i16, i16) {
        let (least, most) = self.member.versions(5);
        // Without its generation, a member that was replaced would not be fenced (KIP-447).
        let names_member = !self.group.member_id.is_empty();
        let least = least.max(if names_member { 3 } else { 0 });
        match self.naming {
            Naming::Ids => (least.max(NAMED + 1), most),
            Naming::Names => (least, most.min(NAMED)),
        }
    }

    fn target(&self, _: usize) -> Target {
        self.group.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        let rows = self.offsets.iter();
        let topics = topic_ids::by_topic(rows.map(|row| (&row.topic, row.topic_id, row)));
        Request::TxnOffsetCommit(TxnOffsetCommitRequest {
            transactional_id: (&*self.member.id).into(),
            group_id: (&*self.group.group).into(),
            generation_id_or_member_epoch: self.group.generation,
            member_id: (&*self.group.member_id).into(),
            group_instance_id: self.group.instance_id.as_deref().map(Into::into),
            producer_id: self.member.identity.id,
            producer_epoch: self.member.identity.epoch,
            topics: topics
                .into_iter()
                .map(|((topic, topic_id), rows)| TxnOffsetCommitRequestTopic {
                    name: (&**topic).into(),
                    topic_id,
                    partitions: rows.into_iter().map(row).collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<(), Error>> {
        let Response::TxnOffsetCommit(answer) = response else {
            return Vec::new();
        };
        let rows = answer.topics.iter().flat_map(|topic| {
            let asked = self.offsets.iter().map(|row| (&row.topic, row.topic_id));
            let name = topic_ids::name(asked, &topic.name, topic.topic_id);
            let rows = topic.partitions.iter();
            rows.map(move |row| ((name, row.partition_index), row.error_code))
        });
        let wanted = self.offsets.iter();
        let wanted = wanted.map(|row| (&row.topic, row.partition));
        let group = Some(&self.group.group);
        let each = results(wanted, rows, |code| outcome(*code, &self.member.id, group));
        vec![each.into_iter().collect()]
    }

    /// A topic of which no id is known may be so new that the coordinator does not know it yet.
    fn retry(&self, error: &Error, _: u32) -> Retry {
        let id = |row: &&GroupOffset| error.topic() == Some(&*row.topic);
        let is_known = self.offsets.iter().find(id);
        let is_known = is_known.is_some_and(|row| row.topic_id != Uuid::ZERO);
        match is_known && topic_ids::is_deleted(error) {
            true => Retry::Never,
            false => retry(error),
        }
    }

    fn merge(self, found: Vec<Result<(), Error>>) -> Result<(), Error> {
        only(found, "the offsets").map_err(|error| match error.code() {
            Some(ErrorCode::UNKNOWN_TOPIC_ID) => topic_ids::deleted(error),
            _ => error,
        })
    }
}

fn row(offset: &GroupOffset) -> TxnOffsetCommitRequestPartition {
    TxnOffsetCommitRequestPartition {
        partition_index: offset.partition,
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        committed_metadata: Some((&*offset.metadata).into()),
        ..Default::default()
    }
}

/// EndTxn: the end of a transaction. With the second protocol the response contains the identity
/// for the next one.
#[derive(Clone, Debug)]
pub(crate) struct EndTxn {
    pub(crate) member: Member,
    pub(crate) commits: bool,
}

impl Call for EndTxn {
    type Found = Option<ProducerIdentity>;
    type Answer = Option<ProducerIdentity>;
    const API: ApiKey = ApiKey::EndTxn;

    fn versions(&self) -> (i16, i16) {
        self.member.versions(5)
    }

    fn target(&self, _: usize) -> Target {
        self.member.coordinator()
    }

    fn request(&self, _: &[usize], _: &About<'_>) -> Request {
        Request::EndTxn(EndTxnRequest {
            transactional_id: (&*self.member.id).into(),
            producer_id: self.member.identity.id,
            producer_epoch: self.member.identity.epoch,
            committed: self.commits,
            ..Default::default()
        })
    }

    /// A producer that is refused may have ended the transaction before: a successor also fences a producer whose commit was
    /// carried out and whose response was lost.
    fn changes(&self) -> bool {
        true
    }

    /// A coordinator also returns these codes when it wrote the end to its log, and then lost its place or the replicas that it
    /// needs: the next coordinator may find the end there, and carry it out.
    fn proves_nothing(&self, error: &Error) -> bool {
        let doubtful = [
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ];
        error.code().is_some_and(|code| doubtful.contains(&code)) || outcome::proves_nothing(error)
    }

    fn take(&self, _: &[Asked], response: Response) -> Vec<Result<Self::Found, Error>> {
        let Response::EndTxn(answer) = response else {
            return Vec::new();
        };
        let next = (answer.producer_id >= 0).then_some(ProducerIdentity {
            id: answer.producer_id,
            epoch: answer.producer_epoch,
        });
        vec![outcome(answer.error_code, &self.member.id, None).map(|()| next)]
    }

    fn retry(&self, error: &Error, _: u32) -> Retry {
        retry(error)
    }

    fn merge(self, found: Vec<Result<Self::Found, Error>>) -> Result<Self::Answer, Error> {
        only(found, "the transaction")
    }
}
