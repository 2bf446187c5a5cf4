//! What a run did, as the checker reads it: each record's place, its delivery result as reported to
//! its producer, and what each consumer got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ottla_engine::Config;
use ottla_protocol::ErrorCode;

pub use crate::record::{Place, RecordId, Value, at};
use crate::shared::{Rules, Shared};

/// The delivery result of a record, as an application would understand it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was written, at this offset where the broker said so.
    Written(Option<i64>),
    /// It was surely not written.
    NotWritten(String),
    /// It may have been written.
    Unknown(String),
}

/// A record that a producer had to send.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The producer's number.
    pub producer: usize,
    /// The transaction that it is a record of: its place in [`History::transactions`].
    pub transaction: Option<usize>,
    /// The topic.
    pub topic: Arc<str>,
    /// The requested partition.
    pub asked: Option<i32>,
    /// Where it was put in its producer's batches; `None` if it never was.
    pub placed: Option<(i32, u64)>,
    /// When its delivery result was due.
    pub due: Option<Duration>,
    /// Each delivery result that was reported, and when.
    pub fates: Vec<(Duration, Fate)>,
}

/// What a producer promised by its settings, and what happened to it.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// A record is never written twice.
    pub idempotent: bool,
    /// The offsets of records that were acknowledged grow in the order of their sends.
    pub ordered: bool,
    /// `acks`.
    pub acks: i16,
    /// Something was sent again.
    pub retried: bool,
    /// `retries` and `delivery.timeout.ms` suffice to prove that a batch is not written: see [`History::made_no_progress`].
    pub patient: bool,
}

impl Promise {
    /// Whether a producer with these settings has the time and the attempts to prove that a batch is not written.
    pub fn is_patient(config: &Config) -> bool {
        config.delivery_timeout >= Duration::from_secs(13) && config.retries >= 20
    }
}

/// One of the producers that had the same transactional id, one after the other.
#[derive(Clone, Debug)]
pub struct Incarnation {
    /// The transactional id's number.
    pub id: usize,
    /// The producer's number.
    pub producer: usize,
    /// When it first requested its identity, and when it got it.
    pub asked: Option<Duration>,
    /// See there.
    pub initialised: Option<Duration>,
}

/// The reported end of a transaction, as an application would understand it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is committed.
    Committed,
    /// It is surely not committed, and never will be.
    NotCommitted,
    /// It may be committed.
    Unknown,
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Whose it is: the place in [`History::incarnations`].
    pub incarnation: usize,
    /// When it was reported to have begun.
    pub begun: Duration,
    /// Its records that were put into batches, and when.
    pub records: Vec<(Duration, RecordId)>,
    /// The offsets that were reported to be part of it, in order.
    pub offsets: Vec<(Place, i64)>,
    /// When the application first wanted it committed.
    pub commit_asked: Option<Duration>,
    /// When it wanted that last.
    pub commit_asked_last: Option<Duration>,
    /// What was reported to the application.
    pub verdict: Option<Verdict>,
    /// The later result of a commit of unknown outcome.
    pub settled: Option<bool>,
}

/// The starting position of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// At this offset, which was in the log, or where `auto.offset.reset` selects if it was not.
    Offset(i64),
    /// At the beginning.
    Beginning,
    /// At the end, or anywhere that the checker does not know.
    #[default]
    Anywhere,
}

/// What happened to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It starts to read a partition from here.
    Begin(Place, Origin),
    /// Its position was reset.
    Reset(Place, i64, i64),
    /// A partition was paused, or resumed.
    Paused(Place, bool),
    /// A partition is not read any more.
    Left(Place),
    /// A poll returned. The records before this, up to the last poll, are its.
    Polled,
    /// A poll gave out a record.
    Record(Place, i64, Value),
    /// A marker ends a transaction at this offset.
    Marker(Place, i64),
    /// It was notified, by an event or an error, that the log was truncated: its position, and the
    /// offset since which the log differs, if that is known.
    Truncated(Place, i64, Option<i64>),
    /// An error reported that its position is not in the log, and nothing more.
    Denied(Place),
    /// A partition's leader was elected whatever it has; the consumer is not notified yet.
    Elected(Place),
}

/// A call of an admin client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A topic with this many partitions is made.
    Create(Arc<str>, i32),
    /// A topic is deleted.
    Delete(Arc<str>),
    /// A topic is described.
    Describe(Arc<str>),
    /// All topics are listed.
    List,
    /// The brokers are listed.
    Cluster,
    /// An offset is asked for, by the time that Kafka has for it.
    Offsets(Place, i64),
    /// A partition's producers are asked for.
    Producers(Place),
}

/// What an application knows of one of its own topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It was never made, or what was tried surely failed.
    Absent,
    /// It was made, with this many partitions, and nobody deletes it.
    Present(i32),
    /// A call is in flight, or ended without a known result.
    Unsure,
}

/// How a call ended, as an application would understand it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was done.
    Done,
    /// It was surely not done, and why.
    Refused(ErrorCode, String),
    /// It may have been done.
    Unknown(String),
    /// The topic has this many partitions.
    Topic(i32),
    /// There are these topics.
    Topics(Vec<String>),
    /// There are these brokers.
    Nodes(Vec<i32>),
    /// The offset.
    Offset(i64),
    /// There are this many producers.
    Producers(usize),
}

impl Told {
    /// Its name in the summary.
    pub fn state(&self) -> &'static str {
        match self {
            Told::Done => "admin: a change was made",
            Told::Refused(..) => "admin: a call was surely refused",
            Told::Unknown(_) => "admin: a call's result stayed unknown",
            Told::Topic(_) => "admin: described a topic",
            Told::Topics(_) => "admin: listed topics",
            Told::Nodes(_) => "admin: listed brokers",
            Told::Offset(_) => "admin: found an offset",
            Told::Producers(_) => "admin: listed producers",
        }
    }
}

/// A call of an admin client, from its beginning to its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// What was asked.
    pub act: Act,
    /// What the application knew of the topic.
    pub before: Before,
    /// When it began.
    pub begun: Duration,
    /// When it had to end.
    pub due: Duration,
    /// How it ended.
    pub ended: Option<Ended>,
}

impl Called {
    /// What the application knows of the topic afterwards; `None` if the call does not change it.
    pub fn after(&self, told: &Told) -> Option<Before> {
        Some(match (&self.act, told, self.before) {
            (Act::Create(_, count), Told::Done, Before::Absent) => Before::Present(*count),
            (Act::Create(..) | Act::Delete(_), Told::Refused(..), before) => before,
            // What was deleted is not made again: an attempt to delete it may still be on its way.
            (Act::Create(..) | Act::Delete(_), ..) => Before::Unsure,
            _ => return None,
        })
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When.
    pub at: Duration,
    /// The result that its caller received.
    pub told: Told,
    /// The topic at that moment as the cluster itself has it: its id and partitions.
    pub cluster: Option<([u8; 16], i32)>,
}

/// A consumer of a group, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The group's number.
    pub group: usize,
    /// Its `group.instance.id`.
    pub instance: Option<Arc<str>>,
    /// All that it offers is cooperative.
    pub cooperates: bool,
    /// Its coordinator assigns, and it has an epoch of its own (KIP-848).
    pub by_epoch: bool,
    /// Its polls commit.
    pub commits_itself: bool,
}

/// What happened to a consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joint {
    /// It subscribed to topics.
    Subscribed,
    /// Its listener was notified that these were added, in this generation.
    Assigned(i32, Vec<Place>),
    /// Its listener was notified that these go, in this generation.
    Revoked(i32, Vec<Place>),
    /// Its listener was notified that these are lost.
    Lost(Vec<Place>),
    /// The listener returned: what was revoked or lost is no longer owned.
    GaveUp,
    /// It is in this epoch now.
    InEpoch(i32),
    /// Nobody came or went for a time.
    Stayed,
    /// Its engine reports that the group continued without it.
    Expelled,
    /// It left the group, or its process ended.
    Ended,
    /// A poll began: what it was given before is done with.
    Polled,
    /// A poll gave out the record at this offset.
    Given(Place, i64),
    /// It sought this position.
    Sought(Place, i64),
    /// It went on elsewhere by itself: from where, and to where.
    Reset(Place, i64, i64),
    /// It asked for a commit of this number.
    Asked(usize, Vec<(Place, i64)>),
    /// That commit was reported to it as done.
    Committed(usize),
    /// Its engine sent an OffsetCommit of this number, in this generation.
    Sent(usize, i32, Vec<(Place, i64)>),
    /// A broker took that request, and was to handle it.
    Taken(usize),
    /// A broker responded to it: whether each offset was committed; `None` if that is unknown.
    Answered(usize, Option<bool>),
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anomaly {
    /// The invariant.
    pub invariant: &'static str,
    /// Jepsen's name, where it has one.
    pub name: &'static str,
    /// What was seen.
    pub text: String,
}

impl std::fmt::Display for Anomaly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.invariant, self.name, self.text)
    }
}

/// All that a run did.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By number.
    pub sends: Vec<Sent>,
    /// By the producers' numbers.
    pub promises: Vec<Promise>,
    /// By the consumers' numbers.
    pub seen: Vec<Vec<Seen>>,
    /// Which of them read only what was committed; those that are not here read all.
    pub isolated: Vec<usize>,
    /// What is in each partition after the end, as a consumer reads it in good weather.
    pub log: BTreeMap<Place, Vec<(i64, Value)>>,
    /// The offsets of markers there.
    pub markers: BTreeMap<Place, BTreeSet<i64>>,
    /// What of that is committed, as a consumer reads it that sees nothing else; empty where nobody asked.
    pub committed: BTreeMap<Place, Vec<(i64, Value)>>,
    /// Producers with a transactional id.
    pub incarnations: Vec<Incarnation>,
    /// Their transactions, in the order of their beginnings.
    pub transactions: Vec<Transaction>,
    /// When a reader of what is committed first got a record.
    pub first_read: BTreeMap<RecordId, Duration>,
    /// The offsets that are committed after the end for each transactional id's group, -1 where none is.
    pub group_offsets: BTreeMap<(usize, Place), i64>,
    /// Consumers of groups, and what happened to them in order: when, to whom, and what.
    pub processes: Vec<Process>,
    /// See there.
    pub joint: Vec<(Duration, usize, Joint)>,
    /// When everything was well again, and every group had read all there was.
    pub steady: Option<Duration>,
    /// The offsets that each group has committed after the end, -1 where none is.
    pub committed_after: BTreeMap<(usize, Place), i64>,
    /// What holds for share groups, by their numbers.
    pub share_rules: Vec<Rules>,
    /// Members of share groups by their groups, and what happened to them in order: when, to whom, and what.
    pub sharers: Vec<usize>,
    /// See there.
    pub shared: Vec<(Duration, usize, Shared)>,
    /// When everything was well again, and had been for a while.
    pub well: Option<Duration>,
    /// The keys of records of compacted topics.
    pub keys: BTreeMap<RecordId, usize>,
    /// Before which offset records were deleted on purpose, at most.
    pub trimmed: BTreeMap<Place, i64>,
    /// Topics that were deleted: only what a record contains about itself holds for them.
    pub mortal: Vec<Arc<str>>,
    /// Leaders were lost, and with them what only they had acknowledged.
    pub leaders_lost: bool,
    /// Partitions whose leader was elected whatever it has: records that were sent before this one
    /// may be lost, whatever was reported to their producers.
    pub lossy: BTreeMap<Place, RecordId>,
    /// Nodes did not receive every decision at once: their responses contain what was true before.
    pub stale: bool,
    /// Calls of admin clients.
    pub calls: Vec<Called>,
    /// The topics of admin clients after the end, as the cluster itself has them: id and partitions.
    pub topics: BTreeMap<Arc<str>, ([u8; 16], i32)>,
    /// The cluster's nodes.
    pub nodes: i32,
    /// What was seen to be wrong while the run was under way.
    pub complaints: Vec<Anomaly>,
}

impl History {
    /// Notes something wrong.
    pub fn complain(&mut self, invariant: &'static str, name: &'static str, text: String) {
        self.complaints.push(Anomaly {
            invariant,
            name,
            text,
        });
    }

    /// Whether what was reported to this producer as written stays written, whoever leads.
    pub fn keeps(&self, producer: usize) -> bool {
        let promise = self.promises.get(producer);
        promise.is_some_and(|it| it.acks < 0 || (it.acks == 1 && !self.leaders_lost))
    }

    /// Whether a record that was reported as written stays written.
    pub fn lasts(&self, id: RecordId) -> bool {
        let sent = self.sends.get(id);
        sent.is_some_and(|sent| self.keeps(sent.producer)) && !self.may_be_cut(id)
    }

    /// Whether a record was sent before the last unclean election of its partition was known to all nodes.
    pub fn may_be_cut(&self, id: RecordId) -> bool {
        let sent = self.sends.get(id);
        let place = sent.and_then(|sent| Some((Arc::clone(&sent.topic), sent.placed?.0)));
        let kept_from = place.and_then(|place| self.lossy.get(&place));
        kept_from.is_some_and(|from| id < *from)
    }

    /// Whether what was in a partition's log may be there no more.
    pub fn was_cut(&self, place: &Place) -> bool {
        self.lossy.contains_key(place)
    }

    /// Whether a record that was sent in good weather should be written, and is not.
    ///
    /// Where a log lost records, a leader reports OUT_OF_ORDER_SEQUENCE_NUMBER for the next batch of an idempotent producer. If
    /// another broker may have that batch, the producer waits 10 s, up to three responses, before it sends the batch under new
    /// numbers. A shorter `delivery.timeout.ms`, or few `retries`, leave the result unknown.
    pub fn made_no_progress(&self, id: RecordId) -> bool {
        let Some(sent) = self.sends.get(id) else {
            return false;
        };
        let place = sent
            .placed
            .map(|(partition, _)| (Arc::clone(&sent.topic), partition));
        let promise = self.promises.get(sent.producer);
        let is_short = promise.is_some_and(|it| it.idempotent && !it.patient);
        match &sent.fates[..] {
            [] | [(_, Fate::Written(_)), ..] => false,
            [(_, Fate::Unknown(_)), ..] => {
                !(is_short && place.is_some_and(|place| self.was_cut(&place)))
            }
            _ => true,
        }
    }

    /// The records that are committed, as a reader that sees nothing else got them.
    pub fn visible(&self) -> BTreeSet<RecordId> {
        let read = self.committed.values().flatten();
        read.map(|(_, value)| value.id).collect()
    }

    /// Whether the topic lives from the beginning to the end.
    pub fn lives(&self, topic: &str) -> bool {
        !self.mortal.iter().any(|mortal| **mortal == *topic)
    }
}

/// The bytes of a record's value: who it is, where it belongs, and a checksum over both.
pub fn value(id: RecordId, topic: &str, padding: usize) -> Vec<u8> {
    let mut text = format!("{id} {topic} ").into_bytes();
    text.resize(text.len() + padding, b'.');
    let sum = crc32c::crc32c(&text);
    text.extend_from_slice(format!(" {sum:08x}").as_bytes());
    text
}

/// Reads [`value`] back; `None` for bytes that it never made.
pub fn parse(bytes: &[u8]) -> Option<Value> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(9)?)?;
    let sound = format!(" {:08x}", crc32c::crc32c(body)).as_bytes() == sum;
    let text = String::from_utf8_lossy(body);
    let mut words = text.split(' ');
    let id = words.next()?.parse().ok()?;
    let topic = words.next()?.to_owned();
    Some(Value { id, topic, sound })
}
