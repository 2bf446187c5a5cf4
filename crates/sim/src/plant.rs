//! Planted defects: mistakes that a client or a broker could make, made on purpose, so that the checker can be shown to see each.
//!
//! A plant spoils what passes between two parts that are themselves left alone: between a connection and its engine
//! ([`ClientSpoil`]), between an engine and its caller (the roles look at [`Plant`] themselves), and between the network and a
//! broker (`gate`).

mod epochs;
pub(crate) mod share;
mod truncated;

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use ottla_engine::api::{Request, Response};
use ottla_engine::dispatch::Outgoing;
use ottla_protocol::messages::fetch_request::ForgottenTopic;
use ottla_protocol::messages::{
    ConsumerProtocolSubscription, FetchRequest, FetchResponse, ListOffsetsResponse,
    MetadataResponse, OffsetFetchResponse, ProduceRequest, ProduceResponse,
};
use ottla_protocol::records::{
    BatchHeader, Entry, ProducerState, assign_offsets, entries, set_producer_state,
};
use ottla_protocol::{ErrorCode, Message, Reader, Writer};

use crate::plan::aging::is_compacted;

pub(crate) use epochs::own_nothing;
pub(crate) use truncated::move_ends;

/// Declares the plants: variant, name, and the invariants of which one must see it.
macro_rules! plants {
    ($($variant:ident $name:literal $($invariant:literal)+;)*) => {
        /// A mistake made on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the name of each describes it")]
        pub enum Plant {
            $($variant,)*
        }

        impl Plant {
            /// All of them.
            pub const ALL: &[Plant] = &[$(Plant::$variant,)*];

            /// What the mistake is.
            pub fn name(self) -> &'static str {
                match self {
                    $(Plant::$variant => $name,)*
                }
            }

            /// The invariants that it breaks.
            pub fn breaks(self) -> &'static [&'static str] {
                match self {
                    $(Plant::$variant => &[$($invariant,)+],)*
                }
            }
        }
    };
}

plants! {
    // Between connection and engine.
    AnswersSwallowed "client: every third response to Produce is lost on its way to the engine" "R6" "R14";
    EndsNotTold "client: the engine does not hear that a connection broke" "R6" "R14";
    AlarmsSilent "client: the engine's alarm does not ring" "R6" "R14";
    WakesIgnored "client: a link that has something to send is not looked at" "R6" "R14";
    ClosesIgnored "client: connections that are not wanted any more stay open" "R14";
    OffsetsTooHigh "client: the base offset of a response to Produce is read one too high" "R3";
    OffsetsSwapped "client: the offsets of two partitions in one response to Produce are mixed up" "R3";
    RefusalsOverlooked "client: an error code in a response to Produce is overlooked" "R1" "R3";
    SuccessMistaken "client: a success of Produce is taken for a final refusal" "R5";
    PartitionsMixedUp "client: the records of two partitions in one response to Fetch are mixed up" "R7" "R3" "R8";
    FirstBatchDropped "client: the first of several fetched batches is dropped" "R8";
    BatchReadTwice "client: a fetched batch is read twice" "R8";
    BeginningTooHigh "client: the offset that ListOffsets found is read one too high" "R8";
    FetchedAhead "client: Fetch requests the offset after the next" "R8";
    SentElsewhere "client: Produce names the wrong partition" "R7" "R14";
    AcksWeakened "client: Produce with acks=all goes out with acks=1" "R1";
    IdentityLost "client: batches of an idempotent producer go out without its identity" "R2";
    ValuesDamaged "client: a byte of a fetched record changes, and the checksum with it" "R7";
    FetchedShifted "client: fetched records are taken for those of the next offset" "R3" "R8";
    LeftOutForgotten "client: a partition that a response of a fetch session left out is forgotten" "R8" "R14";
    SessionUntold "client: a fetch session does not get the next offsets of its partitions" "R8" "R14";
    // Between engine and caller.
    FatesTwice "client: the delivery result of a batch is reported twice" "R6";
    FatesDropped "client: the delivery result of a batch is not reported" "R6";
    UnknownTakenForFailed "client: a record with an unknown delivery result is reported as not written" "R5";
    FailureTakenForSuccess "client: a record that failed is reported as written" "R1";
    FatesReversed "client: the offsets of a batch are reported in the reverse order" "R3" "R4";
    SplitLoses "client: a poll that cuts a batch loses a record" "R8";
    SplitRepeats "client: a poll that cuts a batch gives a record twice" "R8";
    StaleAfterSeek "client: records that were fetched before a seek are given out after it" "R8";
    PauseIgnored "client: a paused partition gives out records" "R8";
    SeekIgnored "client: a seek changes nothing" "R8";
    StepsBack "client: records before the position are given out, if their batch holds it" "R8";
    BufferReused "client: a record's value is overwritten by the next one's" "R7";
    ResetUntold "client: a position that is out of range moves without an event" "R8";
    OffsetsCounted "client: the offsets of a batch are counted from its first record, though some are compacted away" "R3" "R8";
    AppendedTwice "client: a record is put into its batch twice" "R2";
    OrderSwapped "client: two records of one partition change places" "R4";
    CloseHangs "client: close() waits for ever" "R14";
    CallsUnanswered "client: the result of a call is not reported" "R14";
    CallErrorsOverlooked "client: an error code in a response to CreateTopics or DeleteTopics is overlooked" "R17";
    CallSuccessMistaken "client: a success of CreateTopics or DeleteTopics is taken for a refusal" "R17";
    AnswersKept "client: the bytes of every response are kept" "memory";
    ClaimsBelieved "client: as many bytes are reserved as a response's length claims" "memory";
    EpochForRepeat "client: a batch that may be written goes out again under the next epoch" "R2";
    // In transactions, between connection and engine, and between engine and caller.
    OutsideTransaction "client: a batch of a transaction goes out as one of none" "R11" "R12";
    AbortSentAsCommit "client: an abort is sent as a commit" "R11";
    CommitSentAsAbort "client: a commit is sent as an abort" "R12";
    EndErrorsOverlooked "client: an error code in a response to EndTxn is overlooked" "R12" "R13";
    OffsetErrorsOverlooked "client: an error code in a response to TxnOffsetCommit is overlooked" "R12";
    OffsetsMiscommitted "client: TxnOffsetCommit carries other offsets" "R12";
    UncommittedFetched "client: Fetch requests records that are not committed" "R11";
    UnknownCommitAssumed "client: a commit of unknown outcome is reported as done" "R12";
    UnknownCommitForgotten "client: a commit of unknown outcome is reported as not done" "R11";
    RefusedCommitForgotten "client: a commit whose retry was refused is reported as not done, whatever its first attempt did" "R11";
    AbortedGivenOut "client: records of aborted transactions are given out" "R11";
    // In groups.
    CommitErrorsOverlooked "client: an error code in a response to OffsetCommit is overlooked" "R10";
    CommitsAhead "client: OffsetCommit carries offsets that were not given out" "R10";
    CommitsReset "client: OffsetCommit carries the offsets of the beginning" "R10";
    CommitsTooSoon "client: polls commit what they are about to give out" "R10";
    CommittedTooHigh "client: the offset that OffsetFetch found is read one too high" "R9";
    CommittedOverlooked "client: the offset that OffsetFetch found is overlooked" "R9";
    GivenAfterRevoked "client: records of a partition are given out after it was revoked" "R9";
    AssignedTwice "client: the leader assigns partitions to two members" "R9";
    AssignedToNobody "client: the leader assigns a member's partitions to nobody" "R9" "R14";
    OwnedUntold "client: a member joins without the partitions that it owns" "R9";
    RebalancesOverlooked "client: error codes in responses to Heartbeat are overlooked" "R9" "R14";
    HeartbeatsEnd "client: it sends no second Heartbeat" "R14";
    // In groups whose coordinators assign.
    OwnedGivenUpTooSoon "client: a member declares that it owns nothing" "R9";
    MemberErrorsOverlooked "client: error codes in responses to ConsumerGroupHeartbeat are overlooked" "R9" "R14";
    EpochBeatsEnd "client: it sends no second ConsumerGroupHeartbeat" "R9" "R14";
    AssignmentOverlooked "client: every second assignment of a coordinator is overlooked" "R9" "R14";
    CommitEpochUntold "client: OffsetCommit omits the member's epoch" "R10" "R14";
    CommitEpochOld "client: OffsetCommit has the epoch before the member's" "R10" "R14";
    // In logs that are truncated.
    EpochUntold "client: Fetch omits the epoch of the last record read" "R16";
    PartingTooHigh "client: the offset at which logs part is read one too high" "R16";
    TruncationMadeUp "client: a log is taken for truncated that is not" "R16";
    TruncationPassedOver "client: reading continues after a truncation without an event or error" "R16";
    // In share groups.
    AcksDropped "client: every third acknowledgement is left out of its request" "R20";
    AcceptSentAsRelease "client: an accept is sent as a release" "R20";
    AcksMisplaced "client: acknowledgements name another partition" "R20";
    AcksShifted "client: acknowledgements name the next offsets" "R20";
    AckErrorsOverlooked "client: error codes of acknowledgements are overlooked" "R20";
    OutcomesUntold "client: the result of an acknowledgement is not reported" "R20";
    SharedGivenTwice "client: a record that was acquired is given out twice" "R19";
    AcquiredDropped "client: the first of what was acquired is not given out" "R19";
    DeliveriesMisread "client: what is delivered again is given out as new" "R19";
    ShareBeatsEnd "client: it ignores the responses to ShareGroupHeartbeat" "R14";
    Panics "client: it panics when a connection breaks" "R15";
    // Between network and broker.
    AckedNotWritten "broker: a batch is acknowledged and not written" "R1" "R3";
    WrongBaseOffset "broker: a batch is acknowledged under another's offset" "R3";
    WrittenThoughRefused "broker: a batch is written and refused" "R5";
    WrittenTwice "broker: a batch is written twice" "R2";
    BatchSkipped "broker: a response to Fetch leaves out its first batch" "R8";
    OtherPartitionServed "broker: Fetch returns another partition's records" "R7" "R3" "R8";
    StoredDamaged "broker: a byte of a stored record changes, and the checksum with it" "R7";
    OffsetsReused "broker: later records are served under earlier offsets" "R3" "R8";
    ProduceUnanswered "broker: Produce gets no response after the tenth" "R14" "R6";
    CreatedTwice "broker: CreateTopics is carried out twice, and the second result is returned" "R17";
    DeletedNot "broker: DeleteTopics is confirmed, and not carried out" "R17";
    LastPartitionHidden "broker: Metadata leaves out the last partition of a topic that has several" "R18";
    NewestCompacted "broker: compaction takes the newest record of a key, too" "R1" "R4" "R8";
    TrimmedTooFar "broker: DeleteRecords deletes all there is" "R1" "R8";
    CommitNotDone "broker: a commit is confirmed, and not carried out" "R12";
    AbortNotDone "broker: an abort is confirmed, and not carried out" "R11";
    GroupOffsetsForgotten "broker: TxnOffsetCommit is confirmed, and its offsets forgotten" "R12";
    AbortedNotTold "broker: Fetch does not return which transactions were aborted" "R11";
    AbortMarkersLost "broker: the markers of aborted transactions are lost" "R8" "R12" "R11";
    UnstableServed "broker: the last stable offset passes an open transaction" "R11";
    OldEpochWritten "broker: a batch of an epoch that was succeeded is written" "R13" "R11";
    EpochGivenTwice "broker: InitProducerId gives the epoch that it gave before" "R13" "R11" "R12";
    CommitsForgotten "broker: OffsetCommit is confirmed, and its offsets forgotten" "R9" "R10";
    OldGenerationCommits "broker: a commit of a generation that is over is carried out" "R9";
    OffsetsStoredAhead "broker: other offsets are committed than OffsetCommit contains" "R9" "R10";
    CommittedUntold "broker: OffsetFetch does not return what is committed" "R9";
    HeartbeatsUnheard "broker: Heartbeat is confirmed, and not counted" "R14";
    AssignmentsMixedUp "broker: SyncGroup gives a member another's assignment" "R9" "R14";
    GivenTooSoon "broker: a partition is given to a member before its former owner has let it go" "R9";
    StaleEpochCommits "broker: a commit of a member's epoch that is over is carried out" "R9";
    EpochBeatsUnheard "broker: ConsumerGroupHeartbeat is confirmed, and not counted" "R9" "R14";
    TargetsMixedUp "broker: ConsumerGroupHeartbeat gives a member another's assignment" "R9" "R14";
    DivergenceUntold "broker: Fetch looks at the offset, and not at the epoch of what was read" "R16";
    EpochEndsLate "broker: OffsetForLeaderEpoch returns later ends" "R16";
    AcquiredTwice "broker: two members get the same records at one time" "R19";
    LocksLastForever "broker: locks do not end" "R14";
    DeliveriesUncounted "broker: every delivery is reported as the first" "R19";
    DeliveriesUnlimited "broker: records are delivered more often than the limit allows" "R19";
    AcceptsTakenAsReleases "broker: what is accepted is released" "R19" "R20";
    AcksForgotten "broker: ShareAcknowledge is confirmed, and not carried out" "R20";
    AckedThoughRefused "broker: ShareAcknowledge is carried out, and refused" "R19";
    AcksUnkept "broker: a leader of the past takes acknowledgements, and the next one does not know of them" "R19";
    LeaderHidden "broker: Metadata never returns the leader of partition 0" "R14" "R6";
}

/// The most that [`Plant::ClaimsBelieved`] reserves.
const BELIEVED: usize = 64 << 20;

impl Plant {
    /// Whether only runs that are about transactions can show it.
    pub fn is_about_transactions(self) -> bool {
        let of_clients = Plant::OutsideTransaction..=Plant::AbortedGivenOut;
        let of_brokers = Plant::CommitNotDone..=Plant::EpochGivenTwice;
        of_clients.contains(&self) || of_brokers.contains(&self)
    }

    /// Whether only runs that are about truncated logs can show it.
    pub fn is_about_truncation(self) -> bool {
        let of_clients = Plant::EpochUntold..=Plant::TruncationPassedOver;
        let of_brokers = Plant::DivergenceUntold..=Plant::EpochEndsLate;
        of_clients.contains(&self) || of_brokers.contains(&self)
    }

    /// Whether only runs that are about share groups can show it.
    pub fn is_about_shares(self) -> bool {
        let of_clients = Plant::AcksDropped..=Plant::ShareBeatsEnd;
        let of_brokers = Plant::AcquiredTwice..=Plant::AcksUnkept;
        of_clients.contains(&self) || of_brokers.contains(&self)
    }

    /// Whether only runs that are about groups whose coordinators assign can show it.
    pub fn is_about_consumer_groups(self) -> bool {
        let of_clients = Plant::OwnedGivenUpTooSoon..=Plant::CommitEpochOld;
        let of_brokers = Plant::GivenTooSoon..=Plant::TargetsMixedUp;
        of_clients.contains(&self) || of_brokers.contains(&self)
    }

    /// Whether only runs that are about groups can show it.
    pub fn is_about_groups(self) -> bool {
        let of_clients = Plant::CommitErrorsOverlooked..=Plant::HeartbeatsEnd;
        let of_brokers = Plant::CommitsForgotten..=Plant::AssignmentsMixedUp;
        of_clients.contains(&self) || of_brokers.contains(&self)
    }
}

impl std::fmt::Display for Plant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Spoils what passes between a client's connections and its engine.
#[derive(Debug)]
pub struct ClientSpoil {
    plant: Option<Plant>,
    count: u32,
    /// What a plant keeps.
    kept: Vec<u8>,
    /// The last change of partitions that fetch sessions received.
    fetched: Vec<ForgottenTopic>,
    /// The member's epoch and the pause between heartbeats, as the coordinator said them last.
    standing: (i32, i32),
    /// Batches that went out: their partitions, producers, epochs and sequence numbers.
    sent: BTreeSet<(String, i32, (i64, i16, i32))>,
}

impl ClientSpoil {
    /// Spoils nothing without a plant, and nothing if the plant belongs elsewhere.
    pub fn new(plant: Option<Plant>) -> ClientSpoil {
        ClientSpoil {
            plant,
            count: 0,
            kept: Vec::new(),
            fetched: Vec::new(),
            standing: (0, 0),
            sent: BTreeSet::new(),
        }
    }

    fn is(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// Every `n`th time.
    fn every(&mut self, n: u32) -> bool {
        self.count = self.count.wrapping_add(1);
        self.count.is_multiple_of(n)
    }

    /// Wastes memory on what was received.
    pub fn received(&mut self, input: &mut BytesMut, bytes: &[u8]) {
        if self.is(Plant::AnswersKept) {
            self.kept.extend_from_slice(bytes);
        }
        let claimed = input.first_chunk().map(|start| u32::from_be_bytes(*start));
        if let Some(claimed) = claimed.filter(|_| self.is(Plant::ClaimsBelieved)) {
            let claimed = usize::try_from(claimed).unwrap_or(0);
            input.reserve(claimed.min(BELIEVED));
        }
    }

    /// Whether the engine's alarm rings.
    pub fn rings(&self) -> bool {
        !self.is(Plant::AlarmsSilent)
    }

    /// Whether the engine is notified of this connection's end.
    pub fn tells_end(&mut self) -> bool {
        !self.is(Plant::EndsNotTold)
    }

    /// Whether this link is looked at.
    pub fn wakes(&mut self) -> bool {
        !self.is(Plant::WakesIgnored) || !self.every(4)
    }

    /// Whether this connection is closed.
    pub fn closes(&self) -> bool {
        !self.is(Plant::ClosesIgnored)
    }

    /// Spoils a request.
    pub fn request(&mut self, outgoing: &mut Outgoing) {
        if let Some(plant) = self.plant.filter(|plant| plant.is_about_shares()) {
            share::spoil_request(plant, &mut outgoing.request, || self.every(3));
        }
        match (self.plant, &mut outgoing.request) {
            (Some(Plant::FetchedAhead), Request::Fetch(request)) => {
                let topics = request.topics.iter_mut();
                for partition in topics.flat_map(|topic| &mut topic.partitions) {
                    partition.fetch_offset += 1;
                }
            }
            (Some(Plant::EpochUntold), Request::Fetch(request)) => truncated::untell(request),
            (Some(Plant::LeftOutForgotten), Request::Fetch(request)) => self.forget(request),
            (Some(Plant::SessionUntold), Request::Fetch(request)) if request.session_epoch > 0 => {
                request.topics.clear();
            }
            (Some(Plant::SentElsewhere), Request::Produce(request)) if self.every(5) => {
                let topics = request.topic_data.iter_mut();
                for partition in topics.flat_map(|topic| &mut topic.partition_data) {
                    partition.index ^= 1;
                }
            }
            (Some(Plant::AcksWeakened), Request::Produce(request)) if request.acks < 0 => {
                request.acks = 1;
            }
            (Some(Plant::IdentityLost), Request::Produce(request)) => strip_identity(request),
            (Some(Plant::EpochForRepeat), Request::Produce(request)) => self.raise(request),
            (Some(Plant::OutsideTransaction), Request::Produce(request)) if self.every(3) => {
                outside_transaction(request, |_| true);
            }
            (Some(Plant::AbortSentAsCommit), Request::EndTxn(request)) => request.committed = true,
            (Some(Plant::CommitSentAsAbort), Request::EndTxn(request)) if self.every(4) => {
                request.committed = false;
            }
            (Some(Plant::OffsetsMiscommitted), Request::TxnOffsetCommit(request)) => {
                let topics = request.topics.iter_mut();
                for partition in topics.flat_map(|topic| &mut topic.partitions) {
                    partition.committed_offset += 50;
                }
            }
            (Some(Plant::CommitsAhead), Request::OffsetCommit(request)) => {
                let topics = request.topics.iter_mut();
                for partition in topics.flat_map(|topic| &mut topic.partitions) {
                    partition.committed_offset += 2;
                }
            }
            (Some(Plant::CommitsReset), Request::OffsetCommit(request)) => {
                let topics = request.topics.iter_mut();
                for partition in topics.flat_map(|topic| &mut topic.partitions) {
                    partition.committed_offset = 0;
                }
            }
            (Some(Plant::AssignedTwice), Request::SyncGroup(request)) => {
                let first = request.assignments.first();
                if let Some(first) = first.map(|row| row.assignment.clone()) {
                    let rows = request.assignments.iter_mut();
                    rows.for_each(|row| row.assignment = first.clone());
                }
            }
            (Some(Plant::AssignedToNobody), Request::SyncGroup(request)) => {
                if let Some(last) = request.assignments.last_mut() {
                    last.assignment = Bytes::new();
                }
            }
            (Some(Plant::OwnedUntold), Request::JoinGroup(request)) => {
                for protocol in &mut request.protocols {
                    if let Some(untold) = without_owned(&protocol.metadata) {
                        protocol.metadata = untold;
                    }
                }
            }
            (Some(Plant::OwnedGivenUpTooSoon), Request::ConsumerGroupHeartbeat(request)) => {
                own_nothing(request);
            }
            (Some(Plant::CommitEpochUntold), Request::OffsetCommit(request)) => {
                request.generation_id_or_member_epoch = -1;
            }
            (Some(Plant::CommitEpochOld), Request::OffsetCommit(request)) => {
                request.generation_id_or_member_epoch -= 1;
            }
            (Some(Plant::UncommittedFetched), Request::Fetch(request)) => {
                request.isolation_level = 0;
            }
            _ => {}
        }
    }

    /// The broker forgets all but one of a topic's partitions once a request moves none of them on.
    fn forget(&mut self, request: &mut FetchRequest) {
        if request.session_epoch == 0 {
            let topics = request.topics.iter().map(|topic| ForgottenTopic {
                topic: topic.topic.clone(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .skip(1)
                    .map(|row| row.partition)
                    .collect(),
                ..Default::default()
            });
            self.fetched = topics.collect();
        } else if request.session_epoch > 0 && request.topics.is_empty() {
            request.forgotten_topics_data = self.fetched.clone();
        }
    }

    /// Batches that go out again get the next epoch, in which they are the first.
    fn raise(&mut self, request: &mut ProduceRequest) {
        for topic in &mut request.topic_data {
            let name = format!("{}{}", &*topic.name, topic.topic_id);
            for partition in &mut topic.partition_data {
                let Some(records) = &mut partition.records else {
                    continue;
                };
                let mut bytes = BytesMut::from(&records[..]);
                let Ok(header) = BatchHeader::parse(&bytes) else {
                    continue;
                };
                let known = (
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                );
                if self.sent.insert((name.clone(), partition.index, known)) || known.0 < 0 {
                    continue;
                }
                let state = ProducerState {
                    producer_id: header.producer_id,
                    epoch: header.producer_epoch + 1,
                    base_sequence: 0,
                };
                if set_producer_state(&mut bytes, state).is_ok() {
                    *records = bytes.freeze();
                }
            }
        }
    }

    /// Changes a response on its way to the engine; `None` drops it.
    pub fn answer(&mut self, mut response: Box<Response>) -> Option<Box<Response>> {
        let Some(plant) = self.plant else {
            return Some(response);
        };
        if plant.is_about_shares() {
            let is_heard = share::spoil_answer(plant, &mut response, || self.every(3));
            return is_heard.then_some(response);
        }
        match (plant, &mut *response) {
            (Plant::AnswersSwallowed, Response::Produce(_)) if self.every(3) => return None,
            (Plant::OffsetsTooHigh, Response::Produce(answer)) => shift_bases(answer, 1),
            (Plant::OffsetsSwapped, Response::Produce(answer)) => swap_bases(answer),
            (Plant::RefusalsOverlooked, Response::Produce(answer)) => {
                for row in rows(answer) {
                    row.error_code = 0;
                }
            }
            (Plant::SuccessMistaken, Response::Produce(answer)) if self.every(4) => refuse(answer),
            (Plant::CallErrorsOverlooked, Response::CreateTopics(answer)) => {
                answer.topics.iter_mut().for_each(|row| row.error_code = 0);
            }
            (Plant::CallErrorsOverlooked, Response::DeleteTopics(answer)) => {
                answer
                    .responses
                    .iter_mut()
                    .for_each(|row| row.error_code = 0);
            }
            (Plant::CallSuccessMistaken, Response::CreateTopics(answer)) if self.every(3) => {
                let rows = answer.topics.iter_mut().filter(|row| row.error_code == 0);
                rows.for_each(|row| row.error_code = ErrorCode::POLICY_VIOLATION.0);
            }
            (Plant::CallSuccessMistaken, Response::DeleteTopics(answer)) if self.every(3) => {
                let rows = answer
                    .responses
                    .iter_mut()
                    .filter(|row| row.error_code == 0);
                rows.for_each(|row| row.error_code = ErrorCode::POLICY_VIOLATION.0);
            }
            (Plant::EndErrorsOverlooked, Response::EndTxn(answer)) => answer.error_code = 0,
            (Plant::OffsetErrorsOverlooked, Response::TxnOffsetCommit(answer)) => {
                let topics = answer.topics.iter_mut();
                let rows = topics.flat_map(|topic| &mut topic.partitions);
                rows.for_each(|row| row.error_code = 0);
            }
            (Plant::CommitErrorsOverlooked, Response::OffsetCommit(answer)) => {
                let topics = answer.topics.iter_mut();
                let rows = topics.flat_map(|topic| &mut topic.partitions);
                rows.for_each(|row| row.error_code = 0);
            }
            (Plant::CommittedTooHigh, Response::OffsetFetch(answer)) => {
                each_committed(answer, |offset| *offset += i64::from(*offset >= 0));
            }
            (Plant::CommittedOverlooked, Response::OffsetFetch(answer)) => {
                each_committed(answer, |offset| *offset = -1);
            }
            (Plant::RebalancesOverlooked, Response::Heartbeat(answer)) => answer.error_code = 0,
            (Plant::HeartbeatsEnd, Response::Heartbeat(_)) => return None,
            (Plant::MemberErrorsOverlooked, Response::ConsumerGroupHeartbeat(answer)) => {
                epochs::overlook_error(answer, &mut self.standing);
            }
            (Plant::EpochBeatsEnd, Response::ConsumerGroupHeartbeat(answer))
                if answer.assignment.is_none() =>
            {
                return None;
            }
            (Plant::AssignmentOverlooked, Response::ConsumerGroupHeartbeat(answer))
                if answer.assignment.is_some() && self.every(2) =>
            {
                answer.assignment = None;
            }
            (Plant::PartingTooHigh, Response::Fetch(answer)) => truncated::raise_parting(answer),
            (Plant::TruncationMadeUp, Response::Fetch(answer)) if self.every(7) => {
                truncated::make_up(answer);
            }
            (Plant::PartitionsMixedUp, Response::Fetch(answer)) => swap_records(answer),
            (Plant::FirstBatchDropped, Response::Fetch(answer)) => drop_first(answer),
            (Plant::BatchReadTwice, Response::Fetch(answer)) => repeat_last(answer),
            (Plant::BeginningTooHigh, Response::ListOffsets(answer)) => shift_found(answer),
            (Plant::ValuesDamaged, Response::Fetch(answer)) if self.every(5) => damage(answer),
            (Plant::FetchedShifted, Response::Fetch(answer)) if self.every(5) => {
                shift_records(answer, 1, 0);
            }
            _ => {}
        }
        Some(response)
    }
}

fn rows(
    answer: &mut ProduceResponse,
) -> impl Iterator<Item = &mut ottla_protocol::messages::produce_response::PartitionProduceResponse>
{
    let topics = answer.responses.iter_mut();
    topics.flat_map(|topic| &mut topic.partition_responses)
}

/// Adds to every base offset in a response.
pub(crate) fn shift_bases(answer: &mut ProduceResponse, by: i64) {
    for row in rows(answer) {
        if row.error_code == 0 && row.base_offset >= 0 && row.base_offset + by >= 0 {
            row.base_offset += by;
        }
    }
}

fn swap_bases(answer: &mut ProduceResponse) {
    let mut found: Vec<_> = rows(answer).collect();
    if let [first, second, ..] = &mut found[..] {
        std::mem::swap(&mut first.base_offset, &mut second.base_offset);
    }
}

/// Turns every success into a refusal for good.
pub(crate) fn refuse(answer: &mut ProduceResponse) {
    for row in rows(answer) {
        if row.error_code == 0 {
            row.error_code = ErrorCode::INVALID_RECORD.0;
            row.base_offset = -1;
        }
    }
}

/// Takes producer id, epoch and sequence out of all batches.
pub(crate) fn strip_identity(request: &mut ProduceRequest) {
    let topics = request.topic_data.iter_mut();
    for partition in topics.flat_map(|topic| &mut topic.partition_data) {
        let Some(records) = &mut partition.records else {
            continue;
        };
        let mut bytes = BytesMut::from(&records[..]);
        if set_producer_state(&mut bytes, ProducerState::NONE).is_ok() {
            *records = bytes.freeze();
        }
    }
}

/// Takes batches that are `meant` out of their transaction: they look as if written without one,
/// and without idempotence. Returns whether there were any.
pub(crate) fn outside_transaction(
    request: &mut ProduceRequest,
    meant: impl Fn(&BatchHeader) -> bool,
) -> bool {
    let mut any = false;
    let topics = request.topic_data.iter_mut();
    for partition in topics.flat_map(|topic| &mut topic.partition_data) {
        let Some(records) = &mut partition.records else {
            continue;
        };
        let mut bytes = BytesMut::from(&records[..]);
        let Some(mut header) = BatchHeader::parse(&bytes).ok().filter(&meant) else {
            continue;
        };
        header.set_transactional(false);
        (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        ) = (-1, -1, -1);
        if header.seal(&mut bytes).is_ok() {
            *records = bytes.freeze();
            any = true;
        }
    }
    any
}

/// Removes all aborted transactions from a response.
pub(crate) fn hide_aborted(answer: &mut FetchResponse) {
    let topics = answer.responses.iter_mut();
    for partition in topics.flat_map(|topic| &mut topic.partitions) {
        partition.aborted_transactions = None;
    }
}

/// The records of each partition that has some.
pub(crate) fn with_records(answer: &mut FetchResponse) -> Vec<&mut Bytes> {
    let topics = answer.responses.iter_mut();
    let partitions = topics.flat_map(|topic| &mut topic.partitions);
    let records = partitions.filter_map(|partition| partition.records.as_mut());
    records.filter(|records| !records.is_empty()).collect()
}

/// Leaves out of compacted topics the batches that begin with this key.
pub(crate) fn without_key(answer: &mut FetchResponse, key: &[u8]) {
    let begins = |entry: &Entry| {
        let payload = entry.payload(1 << 20).ok()?;
        let first = entry.records(&payload).ok()?.next()?.ok()?;
        Some(first.key == Some(key))
    };
    let topics = answer.responses.iter_mut();
    let topics = topics.filter(|topic| is_compacted(&topic.topic));
    let partitions = topics.flat_map(|topic| &mut topic.partitions);
    for records in partitions.filter_map(|partition| partition.records.as_mut()) {
        let mut kept = BytesMut::new();
        for entry in entries(records.clone()).map_while(Result::ok) {
            if begins(&entry) != Some(true) {
                kept.extend_from_slice(entry.bytes());
            }
        }
        *records = kept.freeze();
    }
}

/// Changes every committed offset in a response.
pub(crate) fn each_committed(answer: &mut OffsetFetchResponse, change: impl Fn(&mut i64)) {
    let rows = answer.topics.iter_mut();
    let rows = rows.flat_map(|topic| &mut topic.partitions);
    rows.for_each(|row| change(&mut row.committed_offset));
    let topics = answer.groups.iter_mut().flat_map(|group| &mut group.topics);
    let rows = topics.flat_map(|topic| &mut topic.partitions);
    rows.for_each(|row| change(&mut row.committed_offset));
}

/// A subscription without the partitions that its member owns; `None` if it has none of these
/// anyway.
fn without_owned(metadata: &Bytes) -> Option<Bytes> {
    let mut input = Reader::new(metadata.clone());
    let version = input.i16().ok()?;
    let mut told = ConsumerProtocolSubscription::decode(version, &mut input).ok()?;
    if told.owned_partitions.is_empty() {
        return None;
    }
    told.owned_partitions.clear();
    let mut out = Writer::new();
    out.i16(version);
    told.encode(version, &mut out).ok()?;
    Some(out.finish().into_bytes())
}

/// Exchanges the records of two partitions.
pub(crate) fn swap_records(answer: &mut FetchResponse) {
    if let [first, second, ..] = &mut with_records(answer)[..] {
        std::mem::swap(*first, *second);
    }
}

/// Takes the first batch away where there are several.
pub(crate) fn drop_first(answer: &mut FetchResponse) {
    for records in with_records(answer) {
        let all: Vec<Entry> = entries(records.clone()).map_while(Result::ok).collect();
        if let [first, _, ..] = &all[..] {
            *records = records.slice(first.size()..);
        }
    }
}

fn repeat_last(answer: &mut FetchResponse) {
    for records in with_records(answer) {
        let last = entries(records.clone()).map_while(Result::ok).last();
        if let Some(last) = last {
            let mut bytes = BytesMut::from(&records[..]);
            bytes.extend_from_slice(last.bytes());
            *records = bytes.freeze();
        }
    }
}

fn shift_found(answer: &mut ListOffsetsResponse) {
    let topics = answer.topics.iter_mut();
    for partition in topics.flat_map(|topic| &mut topic.partitions) {
        if partition.offset >= 0 {
            partition.offset += 1;
        }
        for offset in &mut partition.old_style_offsets {
            *offset += 1;
        }
    }
}

/// Changes the last byte of a value in each partition's first batch, and makes its checksum right again.
pub(crate) fn damage(answer: &mut FetchResponse) {
    for records in with_records(answer) {
        let Some(Ok(first)) = entries(records.clone()).next() else {
            continue;
        };
        let mut bytes = BytesMut::from(&records[..]);
        let (batch, _) = bytes.split_at_mut(first.size());
        // The last byte of a batch is the last record's count of headers, and the byte before it ends the value.
        let at = batch.len().saturating_sub(2);
        let Some(byte) = batch.get_mut(at) else {
            continue;
        };
        *byte ^= 1;
        let sealed = BatchHeader::parse(batch).and_then(|mut header| header.seal(batch));
        if sealed.is_ok() {
            *records = bytes.freeze();
        }
    }
}

/// Adds to the offsets of all fetched batches from an offset on.
pub(crate) fn shift_records(answer: &mut FetchResponse, by: i64, from: i64) {
    for records in with_records(answer) {
        let mut bytes = BytesMut::new();
        for entry in entries(records.clone()).map_while(Result::ok) {
            let mut copy = BytesMut::from(&entry.bytes()[..]);
            let base = entry.base_offset();
            if base >= from && base + by >= 0 && entry.magic() == 2 {
                // A batch is at least a header long, or it would not have been found.
                let _ = assign_offsets(&mut copy, base + by, entry.leader_epoch());
            }
            bytes.extend_from_slice(&copy);
        }
        *records = bytes.freeze();
    }
}

/// Leaves out the last partition of topics that have several, and that admin clients made.
pub(crate) fn hide_last(answer: &mut MetadataResponse) {
    let own = |name: &str| name.starts_with("own-");
    for topic in &mut answer.topics {
        if topic.partitions.len() > 1 && topic.name.as_deref().is_some_and(own) {
            topic.partitions.pop();
        }
    }
}

/// Changes a response so that partition 0 of every topic has no leader.
pub(crate) fn hide_leader(answer: &mut MetadataResponse) {
    let topics = answer.topics.iter_mut();
    for partition in topics.flat_map(|topic| &mut topic.partitions) {
        if partition.partition_index == 0 {
            partition.leader_id = -1;
            partition.error_code = ErrorCode::LEADER_NOT_AVAILABLE.0;
        }
    }
}
