//! What members of a classic group tell each other through the broker: any client of the group may have written it.

use bytes::Bytes;
use ottla_protocol::{Reader, json};

use crate::input::Input;
use crate::messages::round_trip;

/// Which of the two messages, then a blob: its version, then the message. A version above the known ones is read as the
/// highest of them.
pub fn blob(data: &[u8]) {
    let mut input = Input(data);
    let name = match input.u8() & 1 {
        0 => "ConsumerProtocolSubscription",
        _ => "ConsumerProtocolAssignment",
    };
    let known = json::versions(name).expect("a message of the protocol");
    let version = input.i16();
    if version >= known.min {
        let body = Reader::new(Bytes::copy_from_slice(input.0));
        round_trip(name, version.min(known.max), body);
    }
}
