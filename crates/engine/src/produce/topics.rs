//! Which topics are in use, for how long, and what is known of their partitions.
//!
//! ```text
//!            a caller waits for it                  metadata has it
//!   unknown ───────────────────────▶ awaited ─────────────────────────▶ known
//!     ▲  ▲                              │                                │ │
//!     │  └──── its last caller left ◀───┘                                │ │
//!     └──────── nothing was sent for metadata.max.idle.ms, or it is gone ┘ │
//!                                              a record was appended: ◀────┘
//!                                              the time starts again
//! ```
//!
//! Only awaited and known topics are requested. A topic stays as long as it has batches or a caller
//! waits for it. A request for metadata may create topics only while a batch or a caller waits for
//! one that is not there: an idle producer must not recreate a topic that was deleted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cluster::Cluster;
use crate::produce::partitioner::Partitions;

#[derive(Debug, Default)]
pub(super) struct Topics {
    known: FxHashMap<Arc<str>, KnownTopic>,
    /// Topics that callers wait for, and how many callers.
    awaited: FxHashMap<Arc<str>, usize>,
    /// Known topics that the view lost while they had batches.
    lost: FxHashSet<Arc<str>>,
    /// When the next look for idle topics is due.
    idle_at: Option<Instant>,
    /// The versions of the view, and of what was in it, that were followed last.
    followed: Option<(u64, u64)>,
    /// The topics that callers wait for since then: the view may have them already.
    asked: Vec<Arc<str>>,
}

/// A topic whose partitions are known.
#[derive(Debug)]
pub(super) struct KnownTopic {
    pub(super) partitions: Partitions,
    /// When a batch was last opened for it.
    pub(super) used_at: Instant,
}

impl Topics {
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut KnownTopic> {
        self.known.get_mut(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&KnownTopic> {
        self.known.get(name)
    }

    /// The topic's queues by partition number; none if it is not known.
    pub(super) fn queues(&self, name: &str) -> &[usize] {
        let topic = self.known.get(name);
        topic.map_or(&[], |topic| &topic.partitions.queues)
    }

    /// One more caller waits for the topic.
    pub(super) fn want(&mut self, now: Instant, cluster: &mut Cluster, name: &str) {
        if let Some(callers) = self.awaited.get_mut(name) {
            *callers += 1;
            return;
        }
        let name: Arc<str> = name.into();
        cluster.want(now, &name);
        self.asked.push(Arc::clone(&name));
        self.awaited.insert(name, 1);
    }

    /// One caller less waits for the topic.
    pub(super) fn give_up(&mut self, cluster: &mut Cluster, name: &str) {
        let Some(callers) = self.awaited.get_mut(name) else {
            return;
        };
        *callers -= 1;
        if *callers == 0 {
            self.awaited.remove(name);
            cluster.unwant(name);
        }
    }

    /// Whether a caller waits for a topic that is not known.
    pub(super) fn awaits_unknown(&self) -> bool {
        self.awaited.keys().any(|name| !self.is_known(name))
    }

    /// Known topics that the view lost while they had batches.
    pub(super) fn lost(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lost.iter()
    }

    /// The names to look for in the view since the last call: all if what was in it may have changed; if others came, those that
    /// it lacked.
    pub(super) fn names_to_follow(&mut self, cluster: &Cluster) -> Vec<Arc<str>> {
        let mut asked = std::mem::take(&mut self.asked);
        let versions = (cluster.view_version(), cluster.known_version());
        let followed = self.followed.replace(versions);
        if followed == Some(versions) {
            asked.retain(|name| self.awaited.contains_key(name) && !self.is_known(name));
            return asked;
        }
        let lacked = self.awaited.keys().filter(|name| !self.is_known(name));
        match followed {
            Some((_, known)) if known == versions.1 => lacked.chain(&self.lost).cloned().collect(),
            _ => lacked.chain(self.known.keys()).cloned().collect(),
        }
    }

    /// The view has the topic: takes over its queues by partition number, at least one.
    pub(super) fn found(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        name: &Arc<str>,
        queues: Vec<usize>,
        max_idle: Duration,
    ) {
        self.lost.remove(name);
        if let Some(topic) = self.known.get_mut(name) {
            topic.partitions.queues = queues;
            return;
        }
        let first = cluster.context.random.below(queues.len());
        let topic = KnownTopic {
            partitions: Partitions::new(queues, first),
            used_at: now,
        };
        cluster.want(now, name);
        self.known.insert(Arc::clone(name), topic);
        let at = now + max_idle;
        self.idle_at = Some(self.idle_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// The view lost the topic, and batches wait for it.
    pub(super) fn lose(&mut self, name: &Arc<str>) {
        self.lost.insert(Arc::clone(name));
    }

    /// The topic is no longer in use.
    pub(super) fn forget(&mut self, cluster: &mut Cluster, name: &str) -> Option<KnownTopic> {
        let topic = self.known.remove(name)?;
        self.lost.remove(name);
        cluster.unwant(name);
        Some(topic)
    }

    /// Takes out of use the topics that nothing was sent to for `max_idle`, and gives their queues.
    /// `is_busy` is whether any of these queues has a batch.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        max_idle: Duration,
        is_busy: impl Fn(&[usize]) -> bool,
    ) -> Vec<usize> {
        match self.idle_at {
            None => return Vec::new(),
            Some(at) if at > now => {
                cluster.set_alarm(at);
                return Vec::new();
            }
            Some(_) => self.idle_at = None,
        }
        let mut idle = Vec::new();
        let mut next: Option<Instant> = None;
        for (name, topic) in &mut self.known {
            if topic.used_at + max_idle <= now {
                if !self.awaited.contains_key(name) && !is_busy(&topic.partitions.queues) {
                    idle.push(Arc::clone(name));
                    continue;
                }
                topic.used_at = now;
            }
            let end = topic.used_at + max_idle;
            next = Some(next.map_or(end, |next| next.min(end)));
        }
        if let Some(next) = next {
            self.idle_at = Some(next);
            cluster.set_alarm(next);
        }
        let forgotten = idle.iter().filter_map(|name| self.forget(cluster, name));
        forgotten
            .flat_map(|topic| topic.partitions.queues)
            .collect()
    }
}
