//! Errors: their kind, their cause, and whether a retry can help.
//!
//! One type serves every operation: what differs between operations is which of the optional facts are known.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::ErrorCode;

use crate::release::Era;

/// The kind of an error, by which a handler decides its reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A property has an unknown name or a value that is not allowed.
    Config,
    /// The caller passed something that can never work: a partition that does not exist, a negative offset.
    Argument,
    /// A record, or a request that must hold it, is larger than a limit.
    TooLarge,
    /// No broker could be reached, or the connection broke.
    Unreachable,
    /// The name of a broker's host is not known to the DNS.
    Unresolved,
    /// The port is open, but the peer is not a Kafka broker, or not one with the chosen protocol.
    NotKafka,
    /// The broker does not accept who this client is, or the client does not accept who the broker is.
    Authentication,
    /// The deadline passed while a broker was reachable.
    Timeout,
    /// The broker responded with an error code.
    Broker,
    /// The broker does not support a version that the call needs.
    Unsupported,
    /// The peer broke the protocol: bytes that do not decode, responses out of step.
    Protocol,
    /// Records that do not decode, or whose checksum is wrong.
    Corrupt,
    /// A partition's log was truncated: records that were read are lost (KIP-320).
    Truncated,
    /// A transaction, or a record of one, takes no effect: it can only be aborted, or it was (KIP-1050).
    Abortable,
    /// Offsets were not committed, since the group has continued, or continues, without the
    /// committing member.
    CommitFailed,
    /// Another client took over this one's identity.
    Fenced,
    /// The client cannot continue; a new one can.
    Fatal,
    /// Whether a transaction was committed, or the acknowledgement of records counts, is not known.
    OutcomeUnknown,
    /// The client was closed.
    Closed,
}

/// What is known about a produced record whose delivery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The record is surely not in the log.
    No,
    /// A request that held the record was sent and its response never came: it may be in the log.
    Unknown,
}

/// Records of a partition that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first offset.
    pub offset: i64,
    /// The offset to seek to in order to skip them; `None` if the damaged bytes do not even show
    /// where they end.
    pub next_offset: Option<i64>,
    /// The batch that holds them, as the broker sent it, or the first 64 KiB of bytes that are not
    /// a batch: a copy, which keeps nothing else in memory.
    pub data: Bytes,
}

/// A position whose log was truncated below it: records before it are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The position: the offset after the last record that was read.
    pub offset: i64,
    /// The leader epoch of the record before `offset`, or -1.
    pub leader_epoch: i32,
    /// The first offset where the leader's log differs from what was read, and the leader epoch of the record before it, or -1.
    /// `None` if the leader does not know the epoch of `offset`.
    pub divergent: Option<(i64, i32)>,
}

/// What the end of a connection shows about the age of its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Brokers before 0.10 end it like this; others may, too.
    Suspect,
    /// It is a broker of this era.
    Proven(Era),
    /// It is not a broker of the era that it was taken for.
    Refuted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    kind: Kind,
    message: String,
    code: Option<ErrorCode>,
    retriable: bool,
    broker: Option<String>,
    api: Option<&'static str>,
    topic: Option<Arc<str>>,
    partition: Option<i32>,
    /// A further subject of the error, and its name.
    subject: Option<(&'static str, Arc<str>)>,
    attempts: u32,
    written: Option<Written>,
    damage: Option<Damage>,
    truncation: Option<Truncation>,
    /// The request, or an earlier attempt of it, may have been carried out.
    may_be_done: bool,
    evidence: Option<Evidence>,
    failures: Vec<(Item, Error)>,
    successes: Option<Successes>,
}

/// The values of the items of a call that did not fail, of the type that the call returns.
#[derive(Clone)]
struct Successes(Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Successes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Successes")
    }
}

/// They do not count when errors are compared.
impl PartialEq for Successes {
    fn eq(&self, _: &Successes) -> bool {
        true
    }
}

impl Eq for Successes {}

/// An item of a call about many: a topic, a group or the like by its name, a partition, or an object with some fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// By its name.
    Name(String),
    /// By its id.
    Number(i64),
    /// Nothing, as a part of an item.
    Nothing,
    /// A topic by its id.
    TopicId([u8; 16]),
    /// A partition of a topic.
    Partition(Arc<str>, i32),
    /// Several parts.
    Tuple(Vec<Item>),
    /// The name of its class, and its fields by their names.
    Object(&'static str, Vec<(&'static str, Item)>),
}

impl From<i32> for Item {
    fn from(number: i32) -> Item {
        Item::Number(number.into())
    }
}

impl From<String> for Item {
    fn from(name: String) -> Item {
        Item::Name(name)
    }
}

impl From<Arc<str>> for Item {
    fn from(name: Arc<str>) -> Item {
        Item::Name(name.to_string())
    }
}

impl From<(Arc<str>, i32)> for Item {
    fn from((topic, partition): (Arc<str>, i32)) -> Item {
        Item::Partition(topic, partition)
    }
}

/// An error of a client operation. Cheap to clone: one failure is often reported to many waiters.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Arc<Facts>);

impl Error {
    /// An error with the text `message`: the cause, and what to do where that is known.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error(Arc::new(Facts {
            kind,
            message: message.into(),
            code: None,
            retriable: matches!(kind, Kind::Unreachable | Kind::Unresolved | Kind::Timeout),
            broker: None,
            api: None,
            topic: None,
            partition: None,
            subject: None,
            attempts: 0,
            written: None,
            damage: None,
            truncation: None,
            may_be_done: false,
            evidence: None,
            failures: Vec::new(),
            successes: None,
        }))
    }

    /// The error that a broker returned. `detail` is the broker's own text, if it sent one.
    pub fn from_code(code: ErrorCode, detail: Option<&str>) -> Error {
        let message = match detail {
            // Some brokers begin their text with the name.
            Some(text) if text.starts_with(code.name()) => text.to_owned(),
            Some(text) if !text.is_empty() => format!("{}: {text}", code.name()),
            _ => code.name().to_owned(),
        };
        let mut error = Error::new(Kind::Broker, message);
        let facts = Arc::make_mut(&mut error.0);
        facts.code = Some(code);
        facts.retriable = code.is_retriable();
        error
    }

    /// Names the broker, as `host:port`.
    #[must_use]
    pub fn at(mut self, broker: impl fmt::Display) -> Error {
        Arc::make_mut(&mut self.0).broker = Some(broker.to_string());
        self
    }

    /// Names the API that was called.
    #[must_use]
    pub fn calling(mut self, api: &'static str) -> Error {
        Arc::make_mut(&mut self.0).api = Some(api);
        self
    }

    /// Names the topic.
    #[must_use]
    pub fn with_topic(mut self, topic: &Arc<str>) -> Error {
        Arc::make_mut(&mut self.0).topic = Some(Arc::clone(topic));
        self
    }

    /// Names the topic and the partition.
    #[must_use]
    pub fn with_partition(mut self, topic: &Arc<str>, partition: i32) -> Error {
        let facts = Arc::make_mut(&mut self.0);
        facts.topic = Some(Arc::clone(topic));
        facts.partition = Some(partition);
        self
    }

    /// Names the consumer group.
    #[must_use]
    pub fn with_group(self, group: &Arc<str>) -> Error {
        self.with_subject("group", group)
    }

    /// Names the transactional id.
    #[must_use]
    pub fn with_transactional_id(self, id: &Arc<str>) -> Error {
        self.with_subject("transactional id", id)
    }

    /// Names the id of the topic.
    #[must_use]
    pub(crate) fn with_topic_id(self, id: &Arc<str>) -> Error {
        self.with_subject("topic with the id", id)
    }

    fn with_subject(mut self, what: &'static str, name: &Arc<str>) -> Error {
        Arc::make_mut(&mut self.0).subject = Some((what, Arc::clone(name)));
        self
    }

    /// Adds how many attempts were made.
    #[must_use]
    pub fn after(mut self, attempts: u32) -> Error {
        Arc::make_mut(&mut self.0).attempts = attempts;
        self
    }

    /// Adds what is known about the record's delivery result.
    #[must_use]
    pub fn with_written(mut self, written: Written) -> Error {
        Arc::make_mut(&mut self.0).written = Some(written);
        self
    }

    /// Adds which records cannot be read.
    #[must_use]
    pub fn with_damage(mut self, damage: Damage) -> Error {
        Arc::make_mut(&mut self.0).damage = Some(damage);
        self
    }

    /// Adds the offsets of a truncated log.
    #[must_use]
    pub(crate) fn with_truncation(mut self, truncation: Truncation) -> Error {
        Arc::make_mut(&mut self.0).truncation = Some(truncation);
        self
    }

    /// Marks that the request, or an earlier attempt of it, may have been carried out, whatever the
    /// cause of this error.
    #[must_use]
    pub(crate) fn maybe_done(mut self) -> Error {
        Arc::make_mut(&mut self.0).may_be_done = true;
        self
    }

    /// Whether what failed may have been carried out. Every verdict on a failure reads this: a record that may be in the log, a
    /// transaction whose end is not known, a request whose response was lost. If it is false, nothing was changed.
    pub fn may_have_been_done(&self) -> bool {
        let facts = &*self.0;
        facts.may_be_done
            || facts.written == Some(Written::Unknown)
            || facts.kind == Kind::OutcomeUnknown
    }

    /// Adds what the error shows about the age of the broker.
    #[must_use]
    pub(crate) fn telling(mut self, evidence: Option<Evidence>) -> Error {
        Arc::make_mut(&mut self.0).evidence = evidence;
        self
    }

    /// The first of these errors, with all of them: `None` if there are none.
    pub(crate) fn first_of(failures: Vec<(Item, Error)>) -> Option<Error> {
        let (_, mut first) = failures.first()?.clone();
        Arc::make_mut(&mut first.0).failures = failures;
        Some(first)
    }

    /// Adds the values of the items that did not fail.
    #[must_use]
    pub(crate) fn with_successes(mut self, successes: impl Any + Send + Sync) -> Error {
        Arc::make_mut(&mut self.0).successes = Some(Successes(Arc::new(successes)));
        self
    }

    /// The values of the items that did not fail, if they are of this type.
    pub fn successes<T: Any>(&self) -> Option<&T> {
        self.0.successes.as_ref()?.0.downcast_ref()
    }

    /// What it shows about the age of the broker.
    pub(crate) fn evidence(&self) -> Option<Evidence> {
        self.0.evidence
    }

    /// Overrides whether trying again can help.
    #[must_use]
    pub fn with_retriable(mut self, retriable: bool) -> Error {
        Arc::make_mut(&mut self.0).retriable = retriable;
        self
    }

    /// The same facts under another kind, with `context` put before the message.
    #[must_use]
    pub fn wrap(mut self, kind: Kind, context: impl fmt::Display) -> Error {
        let facts = Arc::make_mut(&mut self.0);
        facts.kind = kind;
        facts.message = format!("{context}: {}", facts.message);
        self
    }

    /// The same facts, with `text` put after the message.
    #[must_use]
    pub fn adding(mut self, text: impl fmt::Display) -> Error {
        let facts = Arc::make_mut(&mut self.0);
        facts.message = format!("{}; {text}", facts.message);
        self
    }

    /// The same facts, with `more` appended to the message.
    #[must_use]
    pub fn and_say(mut self, more: &str) -> Error {
        Arc::make_mut(&mut self.0).message.push_str(more);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The cause alone, without the facts that the other methods give.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The broker's error code, if it responded with one.
    pub fn code(&self) -> Option<ErrorCode> {
        self.0.code
    }

    /// Whether a connection failed for a reason that no further attempt changes: the peer is not a broker, or one of the two does
    /// not accept the other.
    pub fn is_final(&self) -> bool {
        self.kind() == Kind::NotKafka || self.is_refusal()
    }

    /// Whether the broker does not accept who this client is, or the client does not accept who the broker is.
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind() == Kind::Authentication
            || matches!(
                self.code(),
                Some(
                    ErrorCode::SASL_AUTHENTICATION_FAILED
                        | ErrorCode::UNSUPPORTED_SASL_MECHANISM
                        | ErrorCode::ILLEGAL_SASL_STATE
                )
            )
    }

    /// Whether the same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        self.0.retriable
    }

    /// The broker, as `host:port`.
    pub fn broker(&self) -> Option<&str> {
        self.0.broker.as_deref()
    }

    /// The API that was called, by its name in the protocol.
    pub fn api(&self) -> Option<&'static str> {
        self.0.api
    }

    /// The topic concerned.
    pub fn topic(&self) -> Option<&str> {
        self.0.topic.as_deref()
    }

    /// The partition concerned.
    pub fn partition(&self) -> Option<i32> {
        self.0.partition
    }

    /// How many attempts were made; 0 where nothing was attempted or the number has no meaning.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The records that cannot be read, for `Kind::Corrupt` of a consumer.
    pub fn damage(&self) -> Option<&Damage> {
        self.0.damage.as_ref()
    }

    /// The offsets of a truncated log, for `Kind::Truncated`.
    pub fn truncation(&self) -> Option<Truncation> {
        self.0.truncation
    }

    /// The items of the call that failed, each with its own error. The first of them is this one. Empty if the call failed as a
    /// whole.
    pub fn failures(&self) -> &[(Item, Error)] {
        &self.0.failures
    }

    /// What is known about the delivery result of a produced record.
    pub fn written(&self) -> Option<Written> {
        self.0.written
    }
}

/// The first words of an authorization error. Brokers do not return the principal of a client.
const PRINCIPAL: &str = "the principal that this client authenticates as needs an ACL that allows";

/// The permission whose absence makes a broker respond to this API with such a code, in the words
/// of Kafka's ACLs; `None` for codes with another cause.
fn lacking(code: ErrorCode, api: Option<&'static str>) -> Option<&'static str> {
    Some(match (code, api) {
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Some("Produce")) => "WRITE on the topic",
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Some("Fetch" | "DescribeProducers")) => {
            "READ on the topic"
        }
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Some("CreateTopics")) => {
            "CREATE on the topic or the cluster"
        }
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Some("DeleteTopics")) => "DELETE on the topic",
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, _) => "DESCRIBE on the topic",
        (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, Some("InitProducerId")) => {
            "IDEMPOTENT_WRITE on the cluster or, with Kafka 2.8 or newer, WRITE on any topic; without it there is \
             enable.idempotence=false"
        }
        (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, _) => "this on the cluster",
        (
            ErrorCode::GROUP_AUTHORIZATION_FAILED,
            Some(
                "JoinGroup"
                | "SyncGroup"
                | "Heartbeat"
                | "LeaveGroup"
                | "OffsetCommit"
                | "ConsumerGroupHeartbeat"
                | "ShareGroupHeartbeat"
                | "ShareFetch"
                | "ShareAcknowledge"
                | "AddOffsetsToTxn"
                | "TxnOffsetCommit",
            ),
        ) => "READ on the group",
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, Some("DeleteGroups" | "OffsetDelete")) => {
            "DELETE on the group"
        }
        (
            ErrorCode::GROUP_AUTHORIZATION_FAILED,
            Some(
                "FindCoordinator"
                | "DescribeGroups"
                | "ListGroups"
                | "OffsetFetch"
                | "ConsumerGroupDescribe"
                | "ShareGroupDescribe",
            ),
        ) => "DESCRIBE on the group",
        (ErrorCode::GROUP_AUTHORIZATION_FAILED, _) => "this on the group",
        (
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Some("FindCoordinator" | "DescribeTransactions"),
        ) => "DESCRIBE on the transactional id",
        (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _) => "WRITE on the transactional id",
        (ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED, _) => "this on the delegation token",
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = &*self.0;
        f.write_str(&facts.message)?;
        if let Some(lacking) = facts.code.and_then(|code| lacking(code, facts.api)) {
            write!(f, "; {PRINCIPAL} {lacking}")?;
        }
        let mut open = " (";
        let mut fact = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            write!(f, "{open}{name} {value}")?;
            open = ", ";
            Ok::<(), fmt::Error>(())
        };
        if let Some(topic) = &facts.topic {
            fact(f, "topic", topic)?;
        }
        if let Some(partition) = facts.partition {
            fact(f, "partition", &partition)?;
        }
        if let Some((what, name)) = &facts.subject {
            fact(f, what, name)?;
        }
        if let Some(broker) = &facts.broker {
            fact(f, "broker", broker)?;
        }
        if let Some(api) = facts.api {
            fact(f, "api", &api)?;
        }
        if facts.attempts > 1 {
            fact(f, "attempts", &facts.attempts)?;
        }
        match facts.written {
            Some(Written::No) => fact(f, "record", &"not written")?,
            Some(Written::Unknown) => fact(f, "record", &"may have been written")?,
            None => {}
        }
        if facts.may_be_done {
            fact(f, "an attempt", &"may have been carried out")?;
        }
        if open == ", " {
            f.write_str(")")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_every_fact_it_knows() {
        let topic: Arc<str> = "flights".into();
        let error = Error::from_code(ErrorCode::NOT_LEADER_OR_FOLLOWER, None)
            .at("127.0.0.1:9092")
            .calling("Produce")
            .with_partition(&topic, 3)
            .after(4)
            .with_written(Written::No);
        assert_eq!(
            error.to_string(),
            "NOT_LEADER_OR_FOLLOWER (topic flights, partition 3, broker 127.0.0.1:9092, api Produce, attempts 4, \
             record not written)"
        );
        assert!(error.is_retriable());
        assert_eq!(Error::new(Kind::Closed, "closed").to_string(), "closed");
    }

    #[test]
    fn a_denial_says_what_must_be_allowed() {
        let topic: Arc<str> = "flights".into();
        for (api, operation) in [
            ("Produce", "WRITE"),
            ("Fetch", "READ"),
            ("Metadata", "DESCRIBE"),
            ("DeleteTopics", "DELETE"),
        ] {
            let error = Error::from_code(ErrorCode::TOPIC_AUTHORIZATION_FAILED, None);
            assert_eq!(
                error.calling(api).with_topic(&topic).to_string(),
                format!(
                    "TOPIC_AUTHORIZATION_FAILED; the principal that this client authenticates as needs an ACL that allows \
                     {operation} on the topic (topic flights, api {api})"
                )
            );
        }
    }

    #[test]
    fn a_denial_of_a_name_says_what_must_be_allowed_on_it() {
        let group = ErrorCode::GROUP_AUTHORIZATION_FAILED;
        let id = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
        for (code, api, lacking) in [
            (group, "JoinGroup", "READ on the group"),
            (group, "TxnOffsetCommit", "READ on the group"),
            (group, "OffsetFetch", "DESCRIBE on the group"),
            (group, "DeleteGroups", "DELETE on the group"),
            (id, "InitProducerId", "WRITE on the transactional id"),
            (id, "FindCoordinator", "DESCRIBE on the transactional id"),
        ] {
            let said = Error::from_code(code, None).calling(api).to_string();
            assert!(
                said.contains(&format!("an ACL that allows {lacking} (api {api})")),
                "{said}"
            );
        }
    }
}
