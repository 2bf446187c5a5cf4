//! The data folder around the logs, laid out as a real broker's.
//!
//! `meta.properties` names the cluster; each `topic-partition` folder holds `partition.metadata` with the topic's id and
//! `leader-epoch-checkpoint`. A real broker keeps topic settings and producer ids in its metadata log; here they are
//! small files of our own, `topic-settings` and `producer-ids`, which it ignores; `client-metrics` has subscriptions (KIP-714).
//!
//! A topic is deleted at once by its id in another, `deleted-topics`; its folders get other names, as Kafka's, and go. What a
//! crash or a failure leaves of them goes at the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use fs4::{FileExt, TryLockError};
use ottla_protocol::Uuid;

use crate::config::{TOPIC_KEYS, Values};
use crate::error::BrokerError;
use crate::telemetry::{Configs, Subscription};

#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    /// Held until [`Self::release`]; the system takes it back when the process ends, however it ends.
    lock: File,
}

/// A topic found at the start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundTopic {
    pub(crate) id: Uuid,
    /// One more than the highest partition found.
    pub(crate) partitions: i32,
    pub(crate) values: Values,
}

const LOCK: &str = ".lock";
const META: &str = "meta.properties";
const PARTITION_METADATA: &str = "partition.metadata";
const SETTINGS: &str = "topic-settings";
const PRODUCER_IDS: &str = "producer-ids";
const SUBSCRIPTIONS: &str = "client-metrics";
const DELETED: &str = "deleted-topics";
/// The end of the name of a folder that goes.
const GOES: &str = "-delete";
/// File systems take no longer names.
const LONGEST_NAME: usize = 255;

impl Folder {
    /// Opens the folder at `root`, made if needed, and gives the id of the cluster it belongs to:
    /// `new_cluster_id` where it was empty. Two brokers that write to one log would ruin it, so a
    /// second one is refused.
    pub(crate) fn open(
        root: PathBuf,
        node_id: i32,
        new_cluster_id: Uuid,
        directory_id: Uuid,
    ) -> Result<(Self, String), BrokerError> {
        fs::create_dir_all(&root).map_err(BrokerError::io(&root))?;
        let lock = lock(&root)?;
        let folder = Self { root, lock };
        let path = folder.root.join(META);
        let cluster_id = match read_if_there(&path)? {
            Some(text) => {
                let id = text
                    .lines()
                    .find_map(|line| line.strip_prefix("cluster.id="));
                id.ok_or_else(|| BrokerError::corrupt(&path, "it has no cluster.id"))?
                    .trim()
                    .to_owned()
            }
            None => {
                let text = format!(
                    "version=1\ncluster.id={new_cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
                );
                replace(&path, &text)?;
                new_cluster_id.to_string()
            }
        };
        Ok((folder, cluster_id))
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Lets another broker open the folder.
    pub(crate) fn release(&self) -> Result<(), BrokerError> {
        FileExt::unlock(&self.lock).map_err(BrokerError::io(&self.root))
    }

    /// The topics whose partitions have folders here, by name. Topics that were being deleted are deleted first.
    pub(crate) fn topics(&self) -> Result<BTreeMap<String, FoundTopic>, BrokerError> {
        self.finish_deletions()?;
        let mut topics: BTreeMap<String, FoundTopic> = BTreeMap::new();
        for path in self.paths()? {
            let Some((topic, partition)) = partition_of(&path) else {
                continue;
            };
            let Some(id) = topic_id(&path)? else {
                continue;
            };
            let found = topics.entry(topic).or_insert(FoundTopic {
                id,
                partitions: 0,
                values: Values::default(),
            });
            found.partitions = found.partitions.max(partition + 1);
        }
        self.read_settings(&mut topics)?;
        Ok(topics)
    }

    fn read_settings(&self, topics: &mut BTreeMap<String, FoundTopic>) -> Result<(), BrokerError> {
        let path = self.root.join(SETTINGS);
        for line in read_if_there(&path)?.unwrap_or_default().lines() {
            let parsed = line
                .split_once(' ')
                .and_then(|(topic, setting)| Some((topic, setting.split_once('=')?)));
            let (topic, (name, value)) = parsed.ok_or_else(|| {
                BrokerError::corrupt(&path, format!("\"{line}\" is not \"topic name=value\""))
            })?;
            if let Some(found) = topics.get_mut(topic) {
                found
                    .values
                    .set(TOPIC_KEYS, name, value)
                    .map_err(|what| BrokerError::corrupt(&path, what))?;
            }
        }
        Ok(())
    }

    /// Writes down the settings of all topics.
    pub(crate) fn write_settings<'a>(
        &self,
        topics: impl Iterator<Item = (&'a str, &'a Values)>,
    ) -> Result<(), BrokerError> {
        let mut text = String::new();
        for (topic, values) in topics {
            for (name, value) in values.iter() {
                text.push_str(&format!("{topic} {name}={value}\n"));
            }
        }
        replace(&self.root.join(SETTINGS), &text)
    }

    /// The folder of a partition, made with its metadata if needed.
    pub(crate) fn partition(
        &self,
        topic: &str,
        id: Uuid,
        partition: i32,
    ) -> Result<PathBuf, BrokerError> {
        let dir = self.root.join(format!("{topic}-{partition}"));
        fs::create_dir_all(&dir).map_err(BrokerError::io(&dir))?;
        let metadata = dir.join(PARTITION_METADATA);
        if read_if_there(&metadata)?.is_none() {
            replace(&dir.join("leader-epoch-checkpoint"), "0\n1\n0 0\n")?;
            replace(&metadata, &format!("version: 0\ntopic_id: {id}\n"))?;
        }
        Ok(dir)
    }

    /// Deletes a topic: when this has returned, it does not come back. Gives why folders of it are still there, if they are.
    pub(crate) fn delete_topic(
        &self,
        topic: &str,
        id: Uuid,
        partitions: i32,
    ) -> Result<Option<BrokerError>, BrokerError> {
        let deleted = self.deleted_topics()?;
        self.write_deleted(deleted.iter().copied().chain([id]))?;
        let mut left = None;
        for partition in 0..partitions {
            let dir = self.root.join(format!("{topic}-{partition}"));
            left = left.or(remove_folder(&dir, topic, partition, id).err());
        }
        if left.is_none() {
            self.write_deleted(deleted.into_iter())?;
        }
        Ok(left)
    }

    /// What is in the folder.
    fn paths(&self) -> Result<Vec<PathBuf>, BrokerError> {
        let failed = || BrokerError::io(&self.root);
        let entries = fs::read_dir(&self.root).map_err(failed())?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<Result<_, _>>().map_err(failed())
    }

    fn finish_deletions(&self) -> Result<(), BrokerError> {
        let deleted = self.deleted_topics()?;
        let paths = self.paths()?;
        let goes = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.ends_with(GOES)) && path.is_dir()
        };
        for path in paths.iter().filter(goes) {
            fs::remove_dir_all(path).map_err(BrokerError::io(path))?;
        }
        for path in &paths {
            if let Some((topic, partition)) = partition_of(path)
                && let Some(id) = topic_id(path)?.filter(|id| deleted.contains(id))
            {
                remove_folder(path, &topic, partition, id)?;
            }
        }
        self.write_deleted(std::iter::empty())
    }

    /// The topics that are being deleted.
    fn deleted_topics(&self) -> Result<BTreeSet<Uuid>, BrokerError> {
        let path = self.root.join(DELETED);
        let text = read_if_there(&path)?.unwrap_or_default();
        let ids = text.lines().map(|line| {
            let id = line.parse::<Uuid>();
            id.map_err(|_| BrokerError::corrupt(&path, format!("\"{line}\" is not a topic's id")))
        });
        ids.collect()
    }

    fn write_deleted(&self, ids: impl Iterator<Item = Uuid>) -> Result<(), BrokerError> {
        let path = self.root.join(DELETED);
        let text: String = ids.map(|id| format!("{id}\n")).collect();
        if !text.is_empty() {
            return replace(&path, &text);
        }
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(BrokerError::io(&path)(cause))
            }
            _ => Ok(()),
        }
    }

    /// The subscriptions to client metrics with their names.
    pub(crate) fn subscriptions(&self) -> Result<Vec<(String, Subscription)>, BrokerError> {
        let path = self.root.join(SUBSCRIPTIONS);
        let Some(text) = read_if_there(&path)? else {
            return Ok(Vec::new());
        };
        let all: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&text)
            .map_err(|cause| BrokerError::corrupt(&path, cause.to_string()))?;
        let checked = all.into_iter().map(|(name, configs)| {
            let subscription = Subscription::new(&configs).map_err(|(_, what)| {
                BrokerError::corrupt(&path, format!("subscription \"{name}\": {what}"))
            })?;
            Ok((name, subscription))
        });
        checked.collect()
    }

    /// Writes down what is set for each subscription. Their names are any texts: JSON.
    pub(crate) fn write_subscriptions(
        &self,
        all: &BTreeMap<&str, &Configs>,
    ) -> Result<(), BrokerError> {
        let path = self.root.join(SUBSCRIPTIONS);
        let text = serde_json::to_string(all);
        let text = text.map_err(|cause| BrokerError::corrupt(&path, cause.to_string()))?;
        replace(&path, &text)
    }

    /// The first producer id that was not reserved yet.
    pub(crate) fn producer_ids(&self) -> Result<i64, BrokerError> {
        let path = self.root.join(PRODUCER_IDS);
        match read_if_there(&path)? {
            None => Ok(0),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| BrokerError::corrupt(&path, "it does not hold a number")),
        }
    }

    /// Reserves the producer ids below `next`.
    pub(crate) fn reserve_producer_ids(&self, next: i64) -> Result<(), BrokerError> {
        replace(&self.root.join(PRODUCER_IDS), &format!("{next}\n"))
    }
}

/// Removes the folder of a partition, under another name first: one that is half removed is not taken for a partition, and does
/// not stand in the way of a new topic. Windows renames no folder that has open files, and removes open files one by one.
fn remove_folder(dir: &Path, topic: &str, partition: i32, id: Uuid) -> Result<(), BrokerError> {
    let unique: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let end = format!("-{partition}.{unique}{GOES}");
    let start = topic.get(..LONGEST_NAME.saturating_sub(end.len()));
    let goes = dir.with_file_name(format!("{}{end}", start.unwrap_or(topic)));
    match fs::rename(dir, &goes) {
        Ok(()) => fs::remove_dir_all(&goes).map_err(BrokerError::io(&goes)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => remove_in_place(dir).map_err(BrokerError::io(dir)),
    }
}

/// Removes the folder of a partition under its own name. The topic's id goes last: by it the next start knows what is left of the
/// folder as something to remove.
fn remove_in_place(dir: &Path) -> io::Result<()> {
    let metadata = dir.join(PARTITION_METADATA);
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path != metadata {
            fs::remove_file(path)?;
        }
    }
    fs::remove_file(metadata)?;
    fs::remove_dir(dir)
}

/// The id of the topic whose partition has its folder here; `None` where the folder was not made to its end.
fn topic_id(dir: &Path) -> Result<Option<Uuid>, BrokerError> {
    let metadata = dir.join(PARTITION_METADATA);
    let Some(text) = read_if_there(&metadata)? else {
        return Ok(None);
    };
    let id = text
        .lines()
        .find_map(|line| line.strip_prefix("topic_id:"))
        .and_then(|id| id.trim().parse().ok());
    id.map(Some)
        .ok_or_else(|| BrokerError::corrupt(&metadata, "it has no readable topic_id"))
}

/// The topic and partition in a folder's name.
fn partition_of(path: &Path) -> Option<(String, i32)> {
    let (topic, partition) = path.file_name()?.to_str()?.rsplit_once('-')?;
    let partition = partition.parse().ok().filter(|partition| *partition >= 0)?;
    path.is_dir().then(|| (topic.to_owned(), partition))
}

fn lock(root: &Path) -> Result<File, BrokerError> {
    let path = root.join(LOCK);
    // Not cut to nothing: Windows rejects that while another broker holds the lock.
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let file = opened.map_err(BrokerError::io(&path))?;
    match FileExt::try_lock(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BrokerError::InUse {
            path: root.to_owned(),
        }),
        Err(TryLockError::Error(cause)) => Err(BrokerError::io(&path)(cause)),
    }
}

fn read_if_there(path: &Path) -> Result<Option<String>, BrokerError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(BrokerError::io(path)(cause)),
    }
}

/// Writes a file so that after a crash either the old or the new text is there.
fn replace(path: &Path, text: &str) -> Result<(), BrokerError> {
    let new = path.with_extension("tmp");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .map_err(BrokerError::io(path))
}
