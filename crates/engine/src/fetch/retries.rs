//! Partitions that are requested again after a pause.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_protocol::ErrorCode;

use crate::change::Change;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::fetch::position::Position;
use crate::observe::Observed;

/// Tries partitions again after a pause, with new metadata. An error of many partitions in one
/// response is reported once.
#[derive(Default)]
pub(super) struct Retries {
    told: Vec<Option<ErrorCode>>,
}

impl Retries {
    pub(super) fn fail(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        position: &mut Position,
        error: Error,
    ) {
        position.failures = position.failures.saturating_add(1);
        let pause: Duration = cluster.retry_pause(position.failures);
        position.retry_at = Some(now + pause);
        cluster.set_alarm(now + pause);
        cluster.refresh(now);
        if !self.told.contains(&error.code()) {
            self.told.push(error.code());
            cluster.context.observer.tell(Observed::Retried {
                cause: error.clone(),
                attempts: position.failures,
                pause,
            });
        }
        position.trouble = Some(error);
    }

    /// As [`Retries::fail`], for an error that polls report once, as retries may not heal it.
    pub(super) fn deny(
        &mut self,
        now: Instant,
        cluster: &mut Cluster,
        (topic, partition): (&Arc<str>, i32),
        position: &mut Position,
        error: Error,
    ) {
        let error = error.with_partition(topic, partition);
        if position.deny(error.clone()) {
            cluster.context.observer.tell(Observed::PartitionDenied {
                topic: Arc::clone(topic),
                partition,
                cause: error.clone(),
            });
            cluster.context.changes.tell(Change::Records);
            cluster.context.changes.tell(Change::Position);
        }
        self.fail(now, cluster, position, error);
    }
}
