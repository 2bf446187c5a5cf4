//! Positions that begin at the committed offset of a group. The owner of the group looks the
//! offsets up.

use std::sync::Arc;
use std::time::Instant;

use ottla_protocol::{ErrorCode, Uuid};

use crate::change::Change;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::fetch::fetcher::Fetcher;
use crate::fetch::position::Start;
use crate::fetch::retries::Retries;

impl Fetcher {
    /// Positions that begin at the committed offset of the group: each is returned once, with the
    /// number of its generation.
    pub(crate) fn take_uncommitted(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
    ) -> Vec<(Arc<str>, i32, u64)> {
        self.assignment.touch_due(now);
        self.review(now, cluster, false);
        let mut taken = Vec::new();
        for key in self.assignment.uncommitted() {
            if let Some(entry) = self.assignment.touch_key(key) {
                entry.position.looking_up = true;
                let number = entry.position.generation.number();
                taken.push((Arc::clone(&entry.topic), entry.partition, number));
            }
        }
        if !taken.is_empty() {
            self.review(now, cluster, false);
        }
        taken
    }

    /// The group has committed this offset, of this leader epoch or of -1, or none, in the topic
    /// that had this id when the request was sent to the group's coordinator; zero if it was not
    /// known.
    pub(crate) fn found_committed(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (topic, partition, number): (&Arc<str>, i32, u64),
        topic_id: Uuid,
        found: Result<Option<(i64, i32)>, Error>,
    ) {
        let latest_id = self.subscription.id_of(topic);
        let Ok(position) = self.assignment.touch(topic, partition) else {
            return;
        };
        if position.generation.number() != number {
            return;
        }
        position.looking_up = false;
        match found {
            Ok(Some(at)) => {
                position.found(
                    at,
                    if topic_id == Uuid::ZERO {
                        latest_id
                    } else {
                        topic_id
                    },
                );
                // The topic may have been created again since the request.
                position.note_topic(latest_id);
                cluster.context.changes.tell(Change::Position);
            }
            Ok(None) => position.start = Start::Reset,
            // The metadata has the id of a topic that was deleted. The new one is known soon.
            Err(error) if error.code() == Some(ErrorCode::UNKNOWN_TOPIC_ID) => {
                Retries::default().fail(now, cluster, position, error);
            }
            Err(error) => {
                Retries::default().deny(now, cluster, (topic, partition), position, error)
            }
        }
    }
}
