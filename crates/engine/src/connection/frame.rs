//! Cuts a stream of bytes into frames: a 4-byte length, then that many bytes.
//!
//! A length is checked against a limit before it is used. Bytes that are not a valid length show
//! what else the peer may be.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Error, Kind};

/// The size limit of a response before the broker returned its versions: no conforming broker sends
/// a larger one. After that the limit is `receive.message.max.bytes`.
pub const LIMIT_AT_FIRST: usize = 1 << 20;

/// How much is read at once if the size of the response is unknown.
const READ: usize = 64 << 10;

/// Up to this size a frame is copied: as a slice it would keep the whole buffer that was read into from being used again.
const SMALL: usize = 4 << 10;

/// From this size on a frame is worth a buffer of its own.
const LARGE: usize = 256 << 10;

/// Takes the first whole frame off `buffer`, without copying it unless it is small; `None` where it is not whole yet.
///
/// # Errors
/// The length is negative or above `limit`, or the bytes are something else: TLS, HTTP, text.
pub fn next_frame(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Error> {
    let Some(length) = announced(buffer, limit)? else {
        return Ok(None);
    };
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    buffer.advance(4);
    if length > SMALL {
        return Ok(Some(buffer.split_to(length).freeze()));
    }
    let frame = buffer.get(..length).map(Bytes::copy_from_slice);
    buffer.advance(length);
    Ok(frame)
}

/// How many bytes to reserve in the buffer for the next read, when `trusted` bytes were requested.
///
/// A length that the peer merely claims is not trusted: the buffer grows with what has arrived, or
/// up to what was requested.
pub fn room(buffer: &BytesMut, limit: usize, trusted: usize) -> usize {
    match announced(buffer, limit) {
        Ok(Some(length)) => {
            let missing = (4 + length).saturating_sub(buffer.len());
            missing
                .min(trusted.max(buffer.len() * 3))
                .max(READ.min(missing.max(4096)))
        }
        _ => READ,
    }
}

/// The size of the frame that begins in `buffer`, if it is large and not whole.
pub(crate) fn large(buffer: &BytesMut) -> Option<usize> {
    let length = usize::try_from(i32::from_be_bytes(*buffer.first_chunk()?)).ok()?;
    (length >= LARGE && buffer.len() < 4 + length).then_some(length)
}

fn announced(buffer: &BytesMut, limit: usize) -> Result<Option<usize>, Error> {
    let Some(&start) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    match usize::try_from(i32::from_be_bytes(start)) {
        Ok(length) if length <= limit => Ok(Some(length)),
        _ => Err(misfit(start, limit)),
    }
}

/// Four bytes that cannot be a length mostly come from a peer with another protocol.
fn misfit(start: [u8; 4], limit: usize) -> Error {
    match &start {
        [0x15, 0x03, 0x00..=0x04, _] => Error::new(
            Kind::NotKafka,
            "the port speaks TLS and this connection does not: set security.protocol to SSL (with SASL: SASL_SSL), or use the \
             port of a PLAINTEXT listener",
        ),
        b"HTTP" => Error::new(
            Kind::NotKafka,
            "the port responds in HTTP: it is a web server, not a Kafka broker",
        ),
        _ if start
            .iter()
            .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) =>
        {
            Error::new(
                Kind::NotKafka,
                format!(
                    "the port responds with a text that begins with \"{}\": it is not a Kafka broker",
                    start.escape_ascii()
                ),
            )
        }
        _ => {
            let length = i32::from_be_bytes(start);
            let text = if limit > LIMIT_AT_FIRST {
                format!(
                    "a response claims {length} bytes; 0 to {limit} are allowed (receive.message.max.bytes)"
                )
            } else {
                format!(
                    "a response claims {length} bytes; 0 to {limit} are allowed, enough for the first responses of any \
                     broker: the port may be another server's"
                )
            };
            Error::new(Kind::Protocol, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100 << 20;

    #[test]
    fn cuts_frames_at_any_split() {
        let stream = b"\0\0\0\x02ab\0\0\0\0\0\0\0\x03cde";
        for cut in 0..=stream.len() {
            let mut buffer = BytesMut::new();
            let mut frames = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                buffer.extend_from_slice(part);
                while let Some(frame) = next_frame(&mut buffer, 3).unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames, [&b"ab"[..], b"", b"cde"]);
            assert!(buffer.is_empty());
        }
    }

    /// Rule: 2.4.1, KAFKA-4090, KIP-498.
    #[test]
    fn says_what_else_the_peer_speaks() {
        for (start, kind, text) in [
            (&b"\x15\x03\x03\0\x02"[..], Kind::NotKafka, "TLS"),
            (b"HTTP/1.1 400", Kind::NotKafka, "HTTP"),
            (b"SSH-2.0", Kind::NotKafka, "SSH-"),
            (b"\xff\xff\xff\xff", Kind::Protocol, "claims -1 bytes"),
            (
                b"\x7f\xff\xff\xff",
                Kind::Protocol,
                "claims 2147483647 bytes",
            ),
        ] {
            let error = next_frame(&mut BytesMut::from(start), LIMIT).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.message().contains(text), "{error}");
        }
    }

    #[test]
    fn room_grows_with_what_arrived_or_was_asked_for() {
        let mut buffer = BytesMut::new();
        assert_eq!(room(&buffer, LIMIT, 0), READ);
        buffer.extend_from_slice(&(50_i32 << 20).to_be_bytes());
        assert_eq!(room(&buffer, LIMIT, 0), READ);
        assert_eq!(room(&buffer, LIMIT, 16 << 20), 16 << 20);
        buffer.resize(1 << 20, 0);
        assert_eq!(room(&buffer, LIMIT, 0), 3 << 20);
        assert_eq!(room(&buffer, LIMIT, 64 << 20), (50 << 20) + 4 - (1 << 20));
    }
}
