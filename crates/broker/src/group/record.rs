//! Records of `__consumer_offsets` are Kafka's own: the key behind its type and the value behind its version, both an int16.
//! No value means that the key is forgotten. So Kafka's tools read the topic.

use bytes::Bytes;
use ottla_protocol::{EncodeError, Message, Writer};

/// A key behind its type, or a value behind its version.
pub(super) fn versioned<M: Message>(
    prefix: i16,
    message: &M,
    version: i16,
) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::with_capacity(2);
    writer.i16(prefix);
    message.encode(version, &mut writer)?;
    Ok(writer.finish().into_bytes())
}
