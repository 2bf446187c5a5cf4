//! Messages: a decoded message encodes to the same bytes, and takes no more memory than its size allows.

use bytes::Bytes;
use ottla_protocol::json::{self, Json, NAMES, Visitor};
use ottla_protocol::messages::ResponseHeader;
use ottla_protocol::{ApiKey, ErrorCode, Message, Reader, Writer, header};

use crate::input::Input;
use crate::memory;

/// Maximum bytes of memory that a decoder holds per byte of input.
///
/// The worst there is are lists of structs of a few empty strings: a group in a ListGroups response takes 3 bytes on the
/// wire and a hundred in memory, and a list that grows is there twice while it is moved.
pub const PER_BYTE: usize = 96;
/// What the first elements of a list may take beside that, and the text of an error.
pub const BESIDE: usize = 4096;

/// A request frame without its length.
pub fn request(frame: &[u8]) {
    let frame = Bytes::copy_from_slice(frame);
    let (decoded, held) = memory::peak(|| header::decode_request_header(frame.clone()));
    within_bounds(held, frame.len());
    let Ok((header, body)) = decoded else { return };
    if let Some(api) = ApiKey::from_i16(header.api_key) {
        round_trip(&format!("{}Request", api.name()), header.api_version, body);
    }
}

/// The key and the version of a request, then the response frame that answers it, without its length.
pub fn response(data: &[u8]) {
    let mut input = Input(data);
    let (key, version) = (input.i16(), input.i16());
    let Some(api) = ApiKey::from_i16(key) else {
        return;
    };
    let mut body = Reader::new(Bytes::copy_from_slice(input.0));
    if ResponseHeader::decode(api.response_header_version(version), &mut body).is_err() {
        return;
    }
    // An ApiVersions that is refused is answered in version 0.
    let refused = api == ApiKey::ApiVersions
        && body
            .clone()
            .i16()
            .is_ok_and(|code| ErrorCode(code) == ErrorCode::UNSUPPORTED_VERSION);
    round_trip(
        &format!("{}Response", api.name()),
        if refused { 0 } else { version },
        body,
    );
}

/// Which of all messages, its version, then its bytes.
pub fn message(data: &[u8]) {
    let mut input = Input(data);
    let (which, version) = (input.u16(), input.u8());
    if let Some(name) = NAMES.get(usize::from(which) % NAMES.len()) {
        round_trip(
            name,
            i16::from(version),
            Reader::new(Bytes::copy_from_slice(input.0)),
        );
    }
}

/// Decodes a message; what decodes is written as many bytes as were measured, and these decode to the same again.
///
/// Gives what was written, and how many bytes were left; `None` where the bytes are no such message.
pub fn round_trip(name: &str, version: i16, body: Reader) -> Option<(Bytes, usize)> {
    json::visit(name, RoundTrip { version, body }).flatten()
}

struct RoundTrip {
    version: i16,
    body: Reader,
}

impl Visitor for RoundTrip {
    type Output = Option<(Bytes, usize)>;

    fn visit<M: Message + Json>(self) -> Self::Output {
        let Self { version, mut body } = self;
        let given = body.remaining();
        let (message, held) = memory::peak(|| M::decode(version, &mut body));
        within_bounds(held, given);
        let message = message.ok()?;
        let written = encoded(&message, version);
        let mut again = Reader::new(written.clone());
        let again = (M::decode(version, &mut again), again.remaining());
        // Bytes are compared, since a NaN is not equal to itself.
        assert_eq!(
            (again.0.map(|again| encoded(&again, version)), again.1),
            (Ok(written.clone()), 0),
            "{} {version} does not come back",
            M::NAME
        );
        Some((written, body.remaining()))
    }
}

fn encoded<M: Message>(message: &M, version: i16) -> Bytes {
    let mut out = Writer::new();
    assert_eq!(
        message.encode(version, &mut out),
        Ok(()),
        "{} {version} was read and cannot be written",
        M::NAME
    );
    let written = out.finish().into_bytes();
    assert_eq!(message.size(version), Ok(written.len()), "{}", M::NAME);
    written
}

/// A decoder that was given so many bytes may have held so many.
pub fn within_bounds(held: usize, given: usize) {
    let most = PER_BYTE * given + BESIDE;
    assert!(
        held <= most,
        "{held} bytes held for {given} bytes given, {most} at most"
    );
}
