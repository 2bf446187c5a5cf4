//! Coordinators that move at a chosen step of a transaction or of a member of a group: right before a request is handled, right after, or while the markers
//! of a transaction are written.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::ApiKey;

use super::{Event, Planned, World};
use crate::plan::{Fault, Stage};

/// Where transactional ids are kept, and the offsets of groups.
pub(super) const TRANSACTIONS: &str = "__transaction_state";
pub(super) const OFFSETS: &str = "__consumer_offsets";

/// The API of a request.
pub(super) fn api_of(frame: &Bytes) -> Option<ApiKey> {
    let head = frame.get(4..6)?;
    ApiKey::from_i16(i16::from_be_bytes(head.try_into().ok()?))
}

impl World {
    /// The coordinator moves when a transaction comes to this step next.
    pub(super) fn plan_move(&mut self, stage: Stage, after: bool) {
        self.moves.push(Planned { stage, after });
    }

    /// A request is about to be handled by a node, or was, if `after`.
    pub(super) fn move_at(&mut self, node: i32, api: ApiKey, after: bool) {
        let due = |planned: &Planned| planned.stage.api() == api && planned.after == after;
        while let Some(at) = self.moves.iter().position(due) {
            let planned = self.moves.remove(at);
            match planned.stage {
                Stage::Markers => self.awaits_markers = true,
                Stage::ShareFetch | Stage::ShareAcknowledge => {
                    self.move_leaders(node, planned.stage)
                }
                stage => self.move_coordinator(node, stage),
            }
        }
    }

    /// Moves the coordinator if one is writing markers, and that was waited for.
    pub(super) fn move_at_markers(&mut self) {
        if !self.awaits_markers || !self.brokers.ends_transaction(self.book.now) {
            return;
        }
        self.awaits_markers = false;
        self.move_coordinator(0, Stage::Markers);
    }

    /// Whatever partitions this node leads others lead now.
    fn move_leaders(&mut self, node: i32, stage: Stage) {
        let mut moved = false;
        for (topic, count) in &self.topics {
            for partition in 0..*count {
                let leads = self.brokers.leader(topic, partition) == Some(node);
                moved |= leads && self.brokers.move_leader(topic, partition, false);
            }
        }
        if moved {
            self.book.history.leaders_lost = true;
            self.book
                .say("fault", format_args!("leaders move at {stage:?}"));
            self.book.tally.strike(stage.name());
        }
    }

    fn move_coordinator(&mut self, node: i32, stage: Stage) {
        let topic = match stage {
            Stage::TxnOffsetCommit | Stage::ConsumerGroupHeartbeat => OFFSETS,
            stage if Stage::OF_GROUPS.contains(&stage) => OFFSETS,
            Stage::ShareGroupHeartbeat => OFFSETS,
            _ => TRANSACTIONS,
        };
        // Only these are asked of the coordinator itself.
        let of_node = !matches!(stage, Stage::Produce | Stage::Markers);
        let mut moved = false;
        for partition in 0.. {
            let Some(leader) = self.brokers.leader_or_none(topic, partition) else {
                break;
            };
            if !of_node || leader == node {
                moved |= self.brokers.move_leader(topic, partition, false);
            }
        }
        if moved {
            self.book
                .say("fault", format_args!("coordinators move at {stage:?}"));
            self.book.tally.strike(stage.name());
        }
    }

    /// The coordinators of a node get successors, and it does not hear of it for a time.
    pub(super) fn depose_coordinators(&mut self, node: i32, lasting: Duration) -> bool {
        let now = self.book.now;
        self.brokers.set_metadata_delay(now, node, lasting);
        let mut moved = false;
        for topic in [TRANSACTIONS, OFFSETS] {
            for partition in 0.. {
                let Some(leader) = self.brokers.leader_or_none(topic, partition) else {
                    break;
                };
                if leader == node {
                    moved |= self.brokers.move_leader(topic, partition, false);
                }
            }
        }
        if !moved {
            self.brokers.set_metadata_delay(now, node, Duration::ZERO);
            return false;
        }
        self.book.history.stale = true;
        self.wrong.deaf.insert(node, now + lasting);
        self.plan(
            now + lasting,
            Event::Heal(Fault::HearsLate(node, lasting, lasting)),
        );
        true
    }
}
