//! The reset of a position whose offset is not in the log.

use std::time::Instant;

use crate::cluster::Cluster;
use crate::config::OffsetReset;
use crate::error::{Error, Kind};
use crate::fetch::position::{Generation, Position, Start};

/// Follows `auto.offset.reset`, since the offset is not in the log.
pub(super) fn leave_log(
    now: Instant,
    cluster: &mut Cluster,
    policy: OffsetReset,
    position: &mut Position,
    generation: Generation,
    error: Error,
) {
    if policy == OffsetReset::None {
        let offset = position.fetch_at.unwrap_or(-1);
        let text = format!("offset {offset} is not in the log, and auto.offset.reset=none: seek");
        position.stuck = Some(error.wrap(Kind::Broker, text));
        return;
    }
    position.reset(generation, Start::Reset, "it is not in the log");
    // A broker may return a beginning and then reject it as out of range: the pause prevents a busy
    // loop.
    position.retry_at = Some(now + cluster.retry_pause(1));
    position.trouble = Some(error);
    // The topic may be another one by now, which is read from its beginning.
    cluster.refresh(now);
}
