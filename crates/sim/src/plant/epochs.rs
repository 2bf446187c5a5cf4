//! Planted defects of members with epochs of their own (KIP-848).

use ottla_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

/// A member declares that it has nothing, whatever it has.
pub(crate) fn own_nothing(request: &mut ConsumerGroupHeartbeatRequest) {
    if request.member_epoch > 0 {
        request.topic_partitions = Some(Vec::new());
    }
}

/// An error is taken for a response without news.
pub(super) fn overlook_error(answer: &mut ConsumerGroupHeartbeatResponse, last: &mut (i32, i32)) {
    if answer.error_code == 0 {
        *last = (answer.member_epoch, answer.heartbeat_interval_ms);
    } else if last.0 > 0 {
        answer.error_code = 0;
        (answer.member_epoch, answer.heartbeat_interval_ms) = *last;
    }
}
