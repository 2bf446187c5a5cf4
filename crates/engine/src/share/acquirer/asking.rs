//! The requests to brokers, and when they are sent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::ApiKey;

use super::{Acquirer, ENVELOPE, Key, LANE, RECORD_LIMIT};
use crate::api::Request;
use crate::change::Change;
use crate::cluster::{Cluster, LinkId};
use crate::config::AcquireMode;
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::share::member::NEEDS;
use crate::share::session::{Purpose, Session};

/// The next request of a session.
enum Due {
    Fetch(BTreeSet<Key>),
    Acknowledge,
    End,
}

impl Acquirer {
    pub(in crate::share) fn pump(&mut self, now: Instant, cluster: &mut Cluster) {
        self.drop_broken(cluster);
        self.place(now, cluster);
        self.check_commits(now, cluster);
        let nodes: BTreeSet<i32> = self
            .by_leader
            .keys()
            .chain(self.sessions.keys())
            .copied()
            .collect();
        for node in nodes {
            if self.due(now, cluster, node).is_none() {
                continue;
            }
            match cluster.up_link(node, LANE) {
                Some(link) => cluster.wake(link),
                None => {
                    cluster.node_link(now, node, LANE);
                }
            }
        }
    }

    /// Ends the sessions whose connection is gone.
    fn drop_broken(&mut self, cluster: &mut Cluster) {
        let broken = self.sessions.iter().filter(|(_, session)| {
            let link = session.link;
            session.sent.is_none() && link.is_some_and(|link| !cluster.has_link(link))
        });
        let broken: Vec<i32> = broken.map(|(node, _)| *node).collect();
        for node in broken {
            let cause = Error::new(Kind::Unreachable, "the connection to the broker broke");
            self.end_session(cluster, node, &cause);
            cluster.context.changes.tell(Change::Group);
        }
        // Records that were given before stay with the caller; a session without a partition and
        // without acknowledgements is useless.
        let led = &self.by_leader;
        self.sessions
            .retain(|node, it| it.is_open() || it.sent.is_some() || led.contains_key(node));
    }

    /// Finds the leaders of what is assigned.
    fn place(&mut self, now: Instant, cluster: &mut Cluster) {
        if self.must_place || self.seen_view != cluster.view_version() {
            self.must_place = false;
            self.seen_view = cluster.view_version();
            self.by_leader.clear();
            let mut found = 0;
            for (key, name) in &self.assigned {
                if let Some((leader, _)) = cluster.view().leader(name, key.1) {
                    self.by_leader.entry(leader).or_default().insert(*key);
                    found += 1;
                }
            }
            if found == self.assigned.len() {
                self.seeks = 0;
                self.seek_at = None;
            } else {
                self.seek_at.get_or_insert(now);
            }
        }
        if let Some(at) = self.seek_at {
            if at <= now {
                self.seeks = self.seeks.saturating_add(1);
                cluster.refresh(now);
                self.seek_at = Some(now + cluster.retry_pause(self.seeks));
            }
            cluster.set_alarm(self.seek_at.unwrap_or(at));
        }
    }

    /// The request to a broker that is due now; sets an alarm for one that is not due yet.
    fn due(&self, now: Instant, cluster: &mut Cluster, node: i32) -> Option<Due> {
        let session = self.sessions.get(&node);
        if session.is_some_and(|it| it.sent.is_some()) {
            return None;
        }
        if session.is_some_and(|it| it.must_end && it.is_open()) {
            return Some(Due::End);
        }
        if self.closing {
            return None;
        }
        if let Some(at) = session.and_then(|it| it.retry_at).filter(|at| *at > now) {
            cluster.set_alarm(at);
            return None;
        }
        let says = session.is_some_and(|it| it.is_open() && !it.outbox.is_empty());
        let renews = says && session.is_some_and(Session::renews);
        let content = self.content(now, cluster, node);
        // A fetch puts every partition that it names into the session; what is no part of it is acknowledged by itself.
        let is_apart = |content: &BTreeSet<Key>| {
            session.is_some_and(|it| it.outbox.keys().any(|key| !content.contains(key)))
        };
        match content {
            Some(content) if !renews && !is_apart(content) => Some(Due::Fetch(content.clone())),
            _ if says => Some(Due::Acknowledge),
            _ => None,
        }
    }

    /// The partitions to request from a broker, if its records are wanted now.
    fn content(&self, now: Instant, cluster: &Cluster, node: i32) -> Option<&BTreeSet<Key>> {
        let is_wanted = self.wanted && self.buffer.is_empty() && self.member.is_some();
        let content = self.by_leader.get(&node).filter(|_| is_wanted)?;
        if self.config.share_acquire_mode == AcquireMode::RecordLimit {
            // Each of several brokers would return as many records as the limit allows.
            let fetches = |it: &Session| {
                let sent = it.sent.as_ref();
                sent.is_some_and(|sent| matches!(sent.purpose, Purpose::Fetch(_)))
            };
            if self.sessions.values().any(fetches) {
                return None;
            }
            // A broker without a connection, or in a pause, gets no turn. Brokers without a
            // connection are dialled next to the others.
            let is_up = |node: &i32| cluster.up_link(*node, LANE).is_some();
            let pauses = |it: &Session| it.retry_at.is_some_and(|at| at > now);
            let nodes = self.by_leader.range(self.next_node..);
            let mut nodes = nodes.chain(&self.by_leader).map(|(node, _)| *node);
            let turn = nodes.find(|it| is_up(it) && !self.sessions.get(it).is_some_and(pauses));
            if is_up(&node) && turn != Some(node) {
                return None;
            }
        }
        Some(content)
    }

    pub(in crate::share) fn next_dispatch(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        link: LinkId,
    ) -> Option<Outgoing> {
        let (node, _) = cluster.node_of(link).filter(|(_, lane)| *lane == LANE)?;
        let other = self.sessions.get(&node).and_then(|it| it.link);
        if other.is_some_and(|other| other != link) {
            self.drop_broken(cluster);
        }
        let due = self.due(now, cluster, node)?;
        let api = match due {
            Due::Fetch(_) => ApiKey::ShareFetch,
            Due::Acknowledge | Due::End => ApiKey::ShareAcknowledge,
        };
        let version = match self.version(cluster, link, api) {
            Ok(version) => version,
            Err(error) => {
                self.trouble = Some(error);
                self.pause(now, cluster, node);
                cluster.context.changes.tell(Change::Records);
                return None;
            }
        };
        let member = self.member.clone().unwrap_or_default();
        let (config, group) = (Arc::clone(&self.config), Arc::clone(&self.group));
        let who = (&*group, &*member);
        let token = cluster.token();
        let session = self.session(node);
        session.link = Some(link);
        session.retry_at = None;
        let mut timeout = config.request_timeout;
        let mut expected_bytes = 0;
        let request = match due {
            Due::Fetch(content) => {
                timeout += config.fetch_max_wait;
                expected_bytes = usize::try_from(config.fetch_max_bytes).unwrap_or(0) + ENVELOPE;
                self.next_node = node.saturating_add(1);
                let session = self.session(node);
                Request::ShareFetch(session.fetch(&config, who, token, content))
            }
            Due::Acknowledge => Request::ShareAcknowledge(session.acknowledge(who, token, false)),
            Due::End => Request::ShareAcknowledge(session.acknowledge(who, token, true)),
        };
        Some(Outgoing {
            token,
            request,
            version,
            timeout,
            answered: true,
            expected_bytes,
        })
    }

    fn version(&self, cluster: &Cluster, link: LinkId, api: ApiKey) -> Result<i16, Error> {
        let version = cluster.version(link, api, i16::MAX);
        let version = version.map_err(|error| match error.kind() {
            Kind::Unsupported => error.adding(NEEDS),
            _ => error,
        })?;
        let limits = self.config.share_acquire_mode == AcquireMode::RecordLimit;
        if api == ApiKey::ShareFetch && limits && version < RECORD_LIMIT {
            let text = "share.acquire.mode=record_limit needs Kafka 4.2 or newer (KIP-1206): leave it out, or set batch_optimized";
            return Err(Error::new(Kind::Unsupported, text).calling(api.name()));
        }
        Ok(version)
    }
}
