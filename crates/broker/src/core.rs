//! The broker without its sockets: topics, groups and identifiers, and what the APIs do to them.
//!
//! # Locks
//! Always taken in this order, after that of a cluster's controller, and none is ever held while a
//! response is parked:
//! 1. `transactions`, one for all transactional ids, then `groups`, one for all groups; or `fetch_sessions`; or `shares`, and
//!    within it the states that nodes share;
//! 2. `topics`, read for lookups, written when topics come and go;
//! 3. one lock per partition's log, never two at once;
//! 4. `catalogue`, `ids`, `producer_ids`, `pushes` and `upkeep`, held for a draw, a push or a look at the time, those inside `security`,
//!    and that of `subscriptions`, which writes its file.
//!
//! Checking a batch, reading from files and encoding happen outside all of them.

mod coordinator;
mod due;
mod group_log;
mod member;
mod sharing;
mod subscriptions;
mod transactions;
mod upkeep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Instant;

use ottla_protocol::{ErrorCode, Str, Uuid};
use parking_lot::{Mutex, RwLock};

use self::coordinator::Coordinator;
use self::due::Upkeep;
pub(crate) use self::sharing::{ShareAsk, ShareFailure};
use crate::bell::Slot;
use crate::cluster::controller::{Controller, Decided};
use crate::cluster::image::{Host, Layout, PartitionId};
use crate::config::{BrokerConfig, EventSink, Settings, TOPIC_KEYS, Values};
use crate::error::BrokerError;
use crate::fault::Faults;
use crate::fetch_session::FetchSessions;
use crate::group::{
    Catalogue, GroupConfig, GroupSettings, Groups, Reply, Stored, ZooKeeperOffsets,
};
use crate::ids::Ids;
use crate::now::{Now, WallClock};
use crate::release::Release;
use crate::replicas::Unreplicated;
use crate::security::Security;
use crate::security::session::{Reply as SaslReply, Session};
use crate::sharing::{ShareStates, Shares};
use crate::storage::folder::Folder;
use crate::storage::log::Log;
use crate::storage::replica::{NO_LEADER, Replica};
use crate::telemetry::{Pushes, Subscriptions};
use crate::topics::{OFFSETS_TOPIC, Topic, Topics, check_name, is_internal};
use crate::transaction::Identity;

/// More partitions than this would be a mistake, and a costly one.
pub(crate) const MOST_PARTITIONS: i32 = 10_000;
const PRODUCER_ID_BLOCK: i64 = 1000;
/// Bytes of a segment of the internal topics, of which only full ones are compacted: on disk as Kafka's, and in memory, which
/// is less patient.
const INTERNAL_SEGMENT: [&str; 2] = ["104857600", "1048576"];

/// The number of a broker that is the only one of its cluster.
pub(crate) const ONLY_NODE: i32 = 1;

/// Where the group coordinator puts the reply to one request.
pub(crate) type Ticket = Arc<Slot<Replied>>;

/// A reply of the group coordinator, and what replicas must have before a client gets it.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) reply: Reply,
    pub(crate) unreplicated: Vec<Unreplicated>,
}

/// What the nodes of a cluster have in common.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) security: Arc<Security>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) zookeeper: Arc<ZooKeeperOffsets>,
    pub(crate) group_settings: Arc<GroupSettings>,
    pub(crate) share_states: Arc<ShareStates>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// `None`: the node draws one, or finds it in its folder.
    pub(crate) cluster_id: Option<String>,
}

/// A node's part in a cluster of several.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    pub(crate) node: i32,
    pub(crate) controller: Arc<Controller>,
    /// Woken when a partition has something for its followers.
    pub(crate) replication: Waker,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    release: Mutex<Release>,
    pub(crate) node: i32,
    /// By the index of the listener.
    pub(crate) addresses: Host,
    pub(crate) security: Arc<Security>,
    /// `None`: this is the only node.
    membership: Option<Membership>,
    /// What all of its time stamps, and what of it is too old, go by.
    pub(crate) wall: WallClock,
    /// Partitions with something for their followers.
    grown: Arc<Mutex<BTreeSet<PartitionId>>>,
    pub(crate) cluster_id: Str,
    pub(crate) faults: Faults,
    /// Those that strike whichever node comes first.
    pub(crate) shared_faults: Arc<Faults>,
    pub(crate) zookeeper: Arc<ZooKeeperOffsets>,
    pub(crate) group_settings: Arc<GroupSettings>,
    /// Whether it takes nobody's credentials, as a broker does whose own are out of date.
    refuses_logins: AtomicBool,
    pub(crate) pushes: Mutex<Pushes>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) events: EventSink,
    groups: Mutex<Groups<Ticket>>,
    /// The topics as groups see them, as of the last look.
    catalogue: Mutex<Arc<Catalogue>>,
    pub(crate) fetch_sessions: Mutex<FetchSessions>,
    shares: Mutex<Shares>,
    upkeep: Mutex<Upkeep>,
    transactions: Coordinator,
    /// Woken when [`Core::next_timeout`] has changed.
    timer: Waker,
    topics: RwLock<Topics>,
    ids: Mutex<Ids>,
    producer_ids: Mutex<ProducerIds>,
    folder: Option<Folder>,
}

#[derive(Debug)]
struct ProducerIds {
    next: i64,
    reserved_below: i64,
}

/// The transaction that offsets are committed in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within {
    pub(crate) producer: Identity,
    /// The number of the verification by the coordinator, if one was needed.
    pub(crate) question: Option<u64>,
}

/// Why a topic was not made, deleted or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl TopicError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    fn storage(cause: &BrokerError) -> Self {
        Self::new(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string())
    }
}

impl Core {
    /// What this node speaks as.
    pub(crate) fn release(&self) -> Release {
        *self.release.lock()
    }

    /// This node speaks as another release from now on.
    pub(crate) fn set_release(&self, release: Release) {
        *self.release.lock() = release;
    }

    /// Moves its wall clock, as when a clock is set: forward, or back.
    pub(crate) fn move_clock(&self, by_ms: i64) {
        self.wall.jump(by_ms);
        self.reschedule_transactions();
    }

    /// Whether it takes right credentials, or none at all.
    pub(crate) fn set_logins(&self, accepted: bool) {
        self.refuses_logins.store(!accepted, Ordering::Relaxed);
    }

    /// One token of a client that authenticates, as [`Session::token`].
    pub(crate) fn authenticate(
        &self,
        session: &mut Session,
        token: &[u8],
        now: Now,
    ) -> Result<SaslReply, (ErrorCode, String)> {
        if self.refuses_logins.load(Ordering::Relaxed) {
            return Err(session.refuse("Authentication failed: this broker accepts nobody"));
        }
        session.token(token, &self.security.verifiers, self.wall.read(now))
    }

    /// Reads the data folder, if there is one. `seed` is where identifiers come from;
    /// `timer` is woken when [`Core::next_timeout`] has changed.
    pub(crate) fn open(
        config: &BrokerConfig,
        settings: Settings,
        addresses: Host,
        shared: Shared,
        seed: u64,
        timer: Waker,
        membership: Option<Membership>,
    ) -> Result<Self, BrokerError> {
        let node = membership.as_ref().map_or(ONLY_NODE, |it| it.node);
        let mut ids = Ids::new(seed);
        let new_cluster_id = ids.uuid();
        let (folder, cluster_id) = match &config.data_dir {
            Some(root) => {
                let (folder, cluster_id) =
                    Folder::open(root.clone(), node, new_cluster_id, ids.uuid())?;
                (Some(folder), cluster_id)
            }
            None => (
                None,
                shared
                    .cluster_id
                    .unwrap_or_else(|| new_cluster_id.to_string()),
            ),
        };
        let group_config = GroupConfig {
            initial_rebalance_delay: settings.initial_rebalance_delay,
            min_session_timeout: settings.min_session_timeout,
            max_session_timeout: settings.max_session_timeout,
            consumer: settings.consumer_groups.clone(),
            share: settings.share_groups.clone(),
        };
        let groups = Groups::new(
            group_config,
            Arc::clone(&shared.group_settings),
            Ids::new(ids.next()),
        );
        let fetch_sessions = settings.fetch_sessions;
        let shares = Shares::new(settings.share_sessions, shared.share_states);
        let mut core = Self {
            release: Mutex::new(settings.release),
            node,
            addresses,
            security: shared.security,
            membership,
            wall: WallClock::default(),
            grown: Arc::default(),
            cluster_id: cluster_id.into(),
            faults: Faults::default(),
            shared_faults: shared.faults,
            zookeeper: shared.zookeeper,
            group_settings: shared.group_settings,
            refuses_logins: AtomicBool::new(false),
            pushes: Mutex::default(),
            subscriptions: shared.subscriptions,
            events: config.events.clone(),
            groups: Mutex::new(groups),
            catalogue: Mutex::default(),
            fetch_sessions: Mutex::new(FetchSessions::new(fetch_sessions, Ids::new(ids.next()))),
            shares: Mutex::new(shares),
            upkeep: Mutex::default(),
            transactions: Coordinator::new(settings.transactions, timer.clone()),
            timer,
            topics: RwLock::default(),
            ids: Mutex::new(ids),
            producer_ids: Mutex::new(ProducerIds {
                next: 0,
                reserved_below: 0,
            }),
            folder,
            settings,
        };
        core.recover()?;
        Ok(core)
    }

    /// Makes the topics that the configuration names.
    pub(crate) fn make_topics(&self, config: &BrokerConfig) -> Result<(), BrokerError> {
        let mut topics = config.topics.iter();
        topics.try_for_each(|(name, partitions)| self.make_configured(name, *partitions))
    }

    fn make_configured(&self, name: &str, partitions: i32) -> Result<(), BrokerError> {
        match self.create_topic(name, &Layout::of(partitions), Values::default(), false) {
            Err(error) if error.code != ErrorCode::TOPIC_ALREADY_EXISTS => Err(
                BrokerError::Config(format!("topic \"{name}\": {}", error.message)),
            ),
            _ => Ok(()),
        }
    }

    fn recover(&mut self) -> Result<(), BrokerError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let mut next_producer_id = folder.producer_ids()?;
        let topics = self.topics.get_mut();
        for (name, mut found) in folder.topics()? {
            if is_internal(&name) {
                // A folder of earlier versions does not say so.
                found.values = internal_settings(true).map_err(BrokerError::Config)?;
            }
            let config = self.settings.log_config(&found.values);
            let mut partitions = Vec::new();
            for index in 0..found.partitions {
                let dir = folder.partition(&name, found.id, index)?;
                let log = Log::open(&dir, config, &self.events)?;
                next_producer_id =
                    next_producer_id.max(log.highest_producer_id().map_or(0, |id| id + 1));
                partitions.push(Arc::new(Mutex::new(Replica::new(self.node, log))));
            }
            topics.insert(Topic {
                name: name.into(),
                id: found.id,
                values: found.values,
                partitions,
            });
        }
        *self.producer_ids.get_mut() = ProducerIds {
            next: next_producer_id,
            reserved_below: next_producer_id,
        };
        if let Some(offsets) = topics.by_name(OFFSETS_TOPIC).cloned() {
            let groups = self.groups.get_mut();
            let count = offsets.partitions.len();
            for (index, log) in (0..).zip(&offsets.partitions) {
                let is_here = |group: &str| partition_of(group, count) == index;
                Self::read_back(log.lock().log(), groups, is_here).map_err(|what| {
                    BrokerError::Config(format!(
                        "groups and committed offsets in {OFFSETS_TOPIC} cannot be read back: {what}"
                    ))
                })?;
            }
            groups.forget_changed();
        }
        self.recover_subscriptions()?;
        self.recover_shares()?;
        self.recover_transactions()
    }

    /// Whether requests read and write files, and so must not run where others wait for the thread.
    pub(crate) fn blocks(&self) -> bool {
        self.folder.is_some()
    }

    /// Makes everything appended so far last, and gives the data folder back.
    pub(crate) fn close(&self) -> Result<(), BrokerError> {
        for topic in self.topics() {
            for log in &topic.partitions {
                log.lock().flush()?;
            }
        }
        self.folder.as_ref().map_or(Ok(()), Folder::release)
    }

    // Topics.

    pub(crate) fn topics(&self) -> Vec<Arc<Topic>> {
        self.topics.read().iter().cloned().collect()
    }

    pub(crate) fn topic(&self, name: &str) -> Result<Arc<Topic>, ErrorCode> {
        self.topics
            .read()
            .by_name(name)
            .cloned()
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    }

    pub(crate) fn topic_by_id(&self, id: Uuid) -> Result<Arc<Topic>, ErrorCode> {
        self.topics
            .read()
            .by_id(id)
            .cloned()
            .ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
    }

    /// Creates a topic, or with `validate_only` checks whether it could be created. Returns how it
    /// is, or would be; a node of a cluster may need new metadata before [`Core::topic`] finds it.
    pub(crate) fn create_topic(
        &self,
        name: &str,
        layout: &Layout,
        values: Values,
        validate_only: bool,
    ) -> Result<Decided, TopicError> {
        check_name(name)
            .map_err(|what| TopicError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, what))?;
        let partitions = layout.partitions;
        check_partitions(partitions)?;
        if let Some(membership) = &self.membership {
            return self.create_in_cluster(membership, name, layout, values, validate_only);
        }
        let mut topics = self.topics.write();
        if topics.by_name(name).is_some() {
            let message = format!("topic \"{name}\" is there already");
            return Err(TopicError::new(ErrorCode::TOPIC_ALREADY_EXISTS, message));
        }
        if let Some(other) = topics.colliding(name) {
            let message = format!(
                "topic \"{name}\" collides with \"{other}\": \".\" and \"_\" count as the same"
            );
            return Err(TopicError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, message));
        }
        let id = self.ids.lock().uuid();
        let mut topic = Topic {
            name: name.to_owned().into(),
            id,
            values,
            partitions: Vec::new(),
        };
        let made = Decided {
            name: topic.name.clone(),
            id,
            partitions,
            replication: 1,
        };
        if validate_only {
            return Ok(made);
        }
        topic.partitions = self
            .new_logs(&topic, 0..partitions)
            .map_err(|cause| TopicError::storage(&cause))?;
        topics.insert(topic);
        self.write_settings(&topics)?;
        Ok(made)
    }

    fn create_in_cluster(
        &self,
        membership: &Membership,
        name: &str,
        layout: &Layout,
        values: Values,
        validate_only: bool,
    ) -> Result<Decided, TopicError> {
        if let Some(other) = self.topics.read().colliding(name) {
            let message = format!(
                "topic \"{name}\" collides with \"{other}\": \".\" and \"_\" count as the same"
            );
            return Err(TopicError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, message));
        }
        let unclean = self.settings.log_config(&values).unclean_elections;
        let controller = &membership.controller;
        controller
            .create_topic(name, layout, values, unclean, validate_only)
            .map_err(|(code, message)| TopicError::new(code, message))
    }

    /// Adds partitions until there are as many as in `layout`, or with `validate_only` checks
    /// whether that could be done.
    pub(crate) fn add_partitions(
        &self,
        name: &str,
        layout: &Layout,
        validate_only: bool,
    ) -> Result<(), TopicError> {
        let count = layout.partitions;
        let check = |present: i32| {
            if count <= present {
                let message =
                    format!("topic \"{name}\" has {present} partitions; {count} is not more");
                return Err(TopicError::new(ErrorCode::INVALID_PARTITIONS, message));
            }
            check_partitions(count)
        };
        if let Some(membership) = &self.membership {
            let controller = &membership.controller;
            let present = controller.topic(name).ok_or_else(|| unknown_topic(name))?;
            check(present.partitions)?;
            if validate_only {
                return Ok(());
            }
            let added = controller.add_partitions(name, layout);
            return added.map_err(|(code, message)| TopicError::new(code, message));
        }
        let mut topics = self.topics.write();
        let topic = topics
            .by_name(name)
            .cloned()
            .ok_or_else(|| unknown_topic(name))?;
        let present = topic.partitions.len() as i32;
        check(present)?;
        if validate_only {
            return Ok(());
        }
        let mut partitions = topic.partitions.clone();
        partitions.extend(
            self.new_logs(&topic, present..count)
                .map_err(|cause| TopicError::storage(&cause))?,
        );
        topics.insert(Topic {
            name: topic.name.clone(),
            id: topic.id,
            values: topic.values.clone(),
            partitions,
        });
        Ok(())
    }

    /// Puts other settings in the place of those of a topic. Nodes of a cluster of several keep theirs.
    pub(crate) fn alter_topic(&self, name: &str, values: Values) -> Result<(), TopicError> {
        if self.membership.is_some() {
            let message = "a cluster of several nodes keeps the settings of its topics";
            return Err(TopicError::new(ErrorCode::INVALID_REQUEST, message));
        }
        let mut topics = self.topics.write();
        let topic = topics.by_name(name).cloned();
        let topic = topic.ok_or_else(|| unknown_topic(name))?;
        for replica in &topic.partitions {
            let config = self.settings.log_config(&values);
            replica.lock().log().set_config(config);
        }
        topics.insert(Topic {
            name: topic.name.clone(),
            id: topic.id,
            values,
            partitions: topic.partitions.clone(),
        });
        self.write_settings(&topics)
    }

    /// Deletes a topic, its data and the offsets committed for it.
    pub(crate) fn delete_topic(&self, name: &str, now: Now) -> Result<(), TopicError> {
        if is_internal(name) {
            let message = format!("{name} is the broker's own and cannot be deleted");
            return Err(TopicError::new(ErrorCode::INVALID_REQUEST, message));
        }
        if let Some(membership) = &self.membership {
            return match membership.controller.delete_topic(name, now) {
                Ok(()) => Ok(()),
                Err(_) => Err(unknown_topic(name)),
            };
        }
        self.delete_own_topic(name, now)
    }

    fn delete_own_topic(&self, name: &str, now: Now) -> Result<(), TopicError> {
        let (id, settings) = {
            let mut topics = self.topics.write();
            let topic = topics
                .by_name(name)
                .cloned()
                .ok_or_else(|| unknown_topic(name))?;
            if let Some(folder) = &self.folder {
                let count = topic.partitions.len() as i32;
                let left = folder
                    .delete_topic(name, topic.id, count)
                    .map_err(|cause| TopicError::storage(&cause))?;
                if let Some(cause) = left {
                    self.events.say(format_args!(
                        "{name} is deleted, but not all of its files; they go at the next start: {cause}"
                    ));
                }
            }
            topics.remove(name);
            for log in &topic.partitions {
                log.lock().close_deleted();
            }
            (topic.id, self.write_settings(&topics))
        };
        self.with_shares(now, |shares| shares.forget_topic(id));
        let forgotten = self.with_groups(now, |groups| {
            let committed = groups.commits_of_topic(name).into_iter();
            let forgotten = committed.map(|(group, partition)| Stored {
                group,
                topic: name.to_owned(),
                partition,
                committed: None,
            });
            self.store(groups, forgotten.collect(), None, now)
        });
        forgotten.map_err(|code| TopicError::new(code, "its offsets are still there"))?;
        settings
    }

    fn new_logs(
        &self,
        topic: &Topic,
        indexes: std::ops::Range<i32>,
    ) -> Result<Vec<Arc<Mutex<Replica>>>, BrokerError> {
        let config = self.settings.log_config(&topic.values);
        let open = |index| {
            let log = match &self.folder {
                Some(folder) => Log::open(
                    &folder.partition(&topic.name, topic.id, index)?,
                    config,
                    &self.events,
                )?,
                None => Log::in_memory(config),
            };
            Ok(Arc::new(Mutex::new(Replica::new(self.node, log))))
        };
        indexes.map(open).collect()
    }

    fn write_settings(&self, topics: &Topics) -> Result<(), TopicError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let all = topics.iter().map(|topic| (&*topic.name, &topic.values));
        folder
            .write_settings(all)
            .map_err(|cause| TopicError::storage(&cause))
    }

    /// An id that nobody else has.
    pub(crate) fn new_uuid(&self) -> Uuid {
        self.ids.lock().uuid()
    }

    // Producers.

    /// A producer id nobody else has, nor will have after a restart.
    pub(crate) fn new_producer_id(&self) -> Result<i64, ErrorCode> {
        let mut ids = self.producer_ids.lock();
        if let Some(membership) = self
            .membership
            .as_ref()
            .filter(|_| ids.next >= ids.reserved_below)
        {
            let block = membership.controller.producer_ids();
            (ids.next, ids.reserved_below) = (block.start, block.end);
        }
        if ids.next >= ids.reserved_below {
            let Some(reserved_below) = ids.next.checked_add(PRODUCER_ID_BLOCK) else {
                self.events.say(format_args!("no producer id is left"));
                return Err(ErrorCode::UNKNOWN_SERVER_ERROR);
            };
            if let Some(folder) = &self.folder {
                folder
                    .reserve_producer_ids(reserved_below)
                    .map_err(|cause| {
                        self.events
                            .say(format_args!("no producer id could be given: {cause}"));
                        ErrorCode::KAFKA_STORAGE_ERROR
                    })?;
            }
            ids.reserved_below = reserved_below;
        }
        let id = ids.next;
        ids.next += 1;
        Ok(id)
    }

    // Groups.

    /// When [`Core::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let groups = self.groups.lock().next_timeout();
        groups
            .into_iter()
            .chain(self.transactions.next_timeout())
            .chain(self.shares.lock().next_timeout())
            .min()
    }

    /// Has the sessions run of group members that were read back.
    pub(crate) fn begin_sessions(&self, now: Now) {
        self.groups.lock().begin_sessions(now.instant);
    }

    /// Does what the timers of groups and transactions say.
    pub(crate) fn handle_timeout(&self, now: Now) {
        self.with_groups(now, |groups| groups.handle_timeout(now.instant));
        self.handle_transactions(now);
        self.with_shares(now, |shares| shares.handle_timeout(now.instant));
    }

    /// The topics as groups see them, made again if topics have changed.
    fn catalogue(&self) -> Arc<Catalogue> {
        let topics = self.topics.read();
        let mut catalogue = self.catalogue.lock();
        if catalogue.version != topics.version() {
            let all = topics.iter();
            let all = all.map(|it| (it.name.clone(), it.id, it.partitions.len() as i32));
            *catalogue = Arc::new(Catalogue::new(topics.version(), all));
        }
        Arc::clone(&catalogue)
    }

    fn offsets_topic(&self) -> Result<Arc<Topic>, TopicError> {
        self.internal_topic(OFFSETS_TOPIC)
    }

    /// A topic of the broker's own, created if needed.
    fn internal_topic(&self, name: &str) -> Result<Arc<Topic>, TopicError> {
        if let Ok(topic) = self.topic(name) {
            return Ok(topic);
        }
        let values = internal_settings(self.folder.is_some())
            .map_err(|what| TopicError::new(ErrorCode::INVALID_CONFIG, what))?;
        let layout = Layout::of(self.coordinators());
        match self.create_topic(name, &layout, values, false) {
            Err(error) if error.code != ErrorCode::TOPIC_ALREADY_EXISTS => Err(error),
            _ => self
                .topic(name)
                .map_err(|code| TopicError::new(code, "this node has not heard of it yet")),
        }
    }
}

/// The settings of a topic of the broker's own, as Kafka's.
fn internal_settings(on_disk: bool) -> Result<Values, String> {
    let [disk, memory] = INTERNAL_SEGMENT;
    let mut values = Values::default();
    values.set(TOPIC_KEYS, "cleanup.policy", "compact")?;
    let bytes = if on_disk { disk } else { memory };
    values.set(TOPIC_KEYS, "segment.bytes", bytes)?;
    Ok(values)
}

/// The partition of an internal topic that keeps what is known of a group or a transactional id, and whose leader coordinates
/// it. As in Kafka: by the hash that Java has of a text.
fn partition_of(key: &str, partitions: usize) -> i32 {
    let hash = key.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let partitions = u32::try_from(partitions).unwrap_or(1).max(1);
    (hash.checked_abs().unwrap_or(0) as u32 % partitions) as i32
}

/// The node that coordinates what an internal topic keeps under this key.
fn coordinator_in(topic: Result<Arc<Topic>, TopicError>, key: &str) -> Result<i32, ErrorCode> {
    let topic = topic.map_err(|_| ErrorCode::COORDINATOR_NOT_AVAILABLE)?;
    let partition = partition_of(key, topic.partitions.len());
    match topic.partition(partition)?.lock().standing().leader {
        NO_LEADER => Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        leader => Ok(leader),
    }
}

fn check_partitions(count: i32) -> Result<(), TopicError> {
    if (1..=MOST_PARTITIONS).contains(&count) {
        return Ok(());
    }
    let message = format!("{count} partitions; from 1 to {MOST_PARTITIONS} are possible");
    Err(TopicError::new(ErrorCode::INVALID_PARTITIONS, message))
}

fn unknown_topic(name: &str) -> TopicError {
    TopicError::new(
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        format!("there is no topic \"{name}\""),
    )
}
