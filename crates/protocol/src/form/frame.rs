//! Frames for messages that are known only by their API: a length, a header, a message.
//!
//! [`crate::header`] does the same for messages of a known type.

use bytes::Bytes;

use super::{Body, FormError, MessageKind, find};
use crate::messages::{RequestHeader, ResponseHeader};
use crate::wire::{Message, Reader, Str, Writer};
use crate::{ApiKey, ErrorCode};

/// The contents of a frame.
#[allow(missing_debug_implementations)]
pub struct Framed {
    /// Its API.
    pub api: ApiKey,
    /// The version of the message.
    pub version: i16,
    /// The number that matches a response to its request.
    pub correlation_id: i32,
    /// The client id; absent in responses.
    pub client_id: Option<Str>,
    /// The message.
    pub body: Box<dyn Body>,
}

/// Finds an API and its request by the API's key.
///
/// # Errors
/// No API has the key.
pub fn request(key: i16) -> Result<(ApiKey, &'static MessageKind), FormError> {
    let api = api(key)?;
    Ok((api, find(&format!("{api}Request"))?))
}

/// Finds an API and its response by the API's key.
///
/// # Errors
/// No API has the key.
pub fn response(key: i16) -> Result<(ApiKey, &'static MessageKind), FormError> {
    let api = api(key)?;
    Ok((api, find(&format!("{api}Response"))?))
}

fn api(key: i16) -> Result<ApiKey, FormError> {
    ApiKey::from_i16(key).ok_or_else(|| {
        let last = ApiKey::ALL.last().map_or(0, |api| api.as_i16());
        FormError::value(format!(
            "no API has the key {key}, only 0 to {last} are known"
        ))
        .at("RequestHeader")
    })
}

/// Encodes a whole request frame, as segments.
///
/// # Errors
/// As for [`Message::encode`].
pub fn encode_request(
    api: ApiKey,
    version: i16,
    body: &dyn Body,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Vec<Bytes>, FormError> {
    let header = RequestHeader {
        request_api_key: api.as_i16(),
        request_api_version: version,
        correlation_id,
        client_id: client_id.map(Str::from),
        ..Default::default()
    };
    framed(&header, api.request_header_version(version), body, version)
}

/// Encodes a whole response frame, as segments.
///
/// # Errors
/// As for [`Message::encode`].
pub fn encode_response(
    api: ApiKey,
    version: i16,
    body: &dyn Body,
    correlation_id: i32,
) -> Result<Vec<Bytes>, FormError> {
    let header = ResponseHeader {
        correlation_id,
        ..Default::default()
    };
    framed(&header, api.response_header_version(version), body, version)
}

fn framed<H: Message>(
    header: &H,
    header_version: i16,
    body: &dyn Body,
    version: i16,
) -> Result<Vec<Bytes>, FormError> {
    let body = body.encode(version)?;
    let length = header.size(header_version)?.saturating_add(body.len());
    let length = i32::try_from(length).map_err(|_| crate::wire::too_large(length))?;
    let mut start = Writer::new();
    start.i32(length);
    header.encode(header_version, &mut start)?;
    let mut segments = start.finish().into_segments();
    segments.extend(body.into_segments());
    Ok(segments)
}

/// Decodes a request frame, including its length.
///
/// # Errors
/// The bytes are not one whole frame, the API or its version is unknown, or the frame does not hold a request of it.
pub fn decode_request(frame: Bytes) -> Result<Framed, FormError> {
    let (header, mut input) = crate::header::decode_request_header(content(frame)?)?;
    let (api, kind) = request(header.api_key)?;
    Ok(Framed {
        api,
        version: header.api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id,
        body: kind.decode_whole(header.api_version, input.rest())?,
    })
}

/// Decodes a response frame, including its length.
///
/// A broker that does not know the version of an ApiVersions request returns error 35 in a body of
/// version 0; such a body is read as version 0, whatever version was requested (KIP-511).
///
/// # Errors
/// The bytes are not one whole frame, or the frame does not hold a response of the API in this version.
pub fn decode_response(api: ApiKey, version: i16, frame: Bytes) -> Result<Framed, FormError> {
    let (_, kind) = response(api.as_i16())?;
    // Before the header, whose version follows from this one.
    if !kind.versions.contains(version) {
        return Err(crate::wire::decode_version(kind.name, version, kind.versions).into());
    }
    let mut input = Reader::new(content(frame)?);
    let header = ResponseHeader::decode(api.response_header_version(version), &mut input)?;
    let refused = api == ApiKey::ApiVersions
        && input
            .clone()
            .i16()
            .is_ok_and(|code| ErrorCode(code) == ErrorCode::UNSUPPORTED_VERSION);
    let version = if refused { 0 } else { version };
    Ok(Framed {
        api,
        version,
        correlation_id: header.correlation_id,
        client_id: None,
        body: kind.decode_whole(version, input.rest())?,
    })
}

/// The bytes after the length; there must be exactly as many as the length.
fn content(frame: Bytes) -> Result<Bytes, FormError> {
    let mut input = Reader::new(frame);
    let wrong = |reason: String| FormError::value(reason).at("frame");
    let there = input.remaining();
    let length = input
        .i32()
        .map_err(|_| wrong(format!("4 bytes of length wanted, {there} there")))?;
    match usize::try_from(length) {
        Ok(length) if length == input.remaining() => Ok(input.rest()),
        Ok(length) if length < input.remaining() => Err(wrong(format!(
            "its length is {length}, and {} bytes are left over after it: decode one frame at a time",
            input.remaining() - length
        ))),
        Ok(length) => Err(wrong(format!(
            "its length is {length}, and only {} bytes follow",
            input.remaining()
        ))),
        Err(_) => Err(wrong(format!("its length is negative: {length}"))),
    }
}
