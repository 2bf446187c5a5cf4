//! Frames: a length, a header, a message.
//!
//! A request has its API key, its version, a correlation id and the client id before its body; a response has only
//! the correlation id. The version of the header follows from the API and its version
//! ([`ApiKey::request_header_version`], [`ApiKey::response_header_version`]).
//!
//! Two kinds of frame have no header: the SASL tokens of 0.9, which come first on a connection, and
//! those that follow a SaslHandshake of version 0 (since 0.10). Such a frame holds only the token,
//! in both directions, until the exchange ends; then frames are messages again. Since 1.0
//! SaslAuthenticate can carry the tokens instead (handshake 1).
//!
//! Reference: <https://kafka.apache.org/protocol#protocol_messages>, <https://kafka.apache.org/protocol#sasl_handshake>,
//! KIP-43, KIP-152, KIP-482, KIP-511.

use bytes::Bytes;

use crate::ErrorCode;
use crate::messages::{ApiKey, ApiVersionsRequest};
use crate::messages::{RequestHeader as HeaderMessage, ResponseHeader};
use crate::wire::{
    DecodeError, DecodeErrorKind, EncodeError, Frame, Message, Reader, Request, Response, Str,
    Writer,
};

/// The header of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestHeader {
    /// The key of the API; a number, because the API may be unknown.
    pub api_key: i16,
    /// The version of the request.
    pub api_version: i16,
    /// The number that the response repeats.
    pub correlation_id: i32,
    /// The client id.
    pub client_id: Option<Str>,
}

/// A whole frame: the length, the header, the request.
///
/// # Errors
/// As for [`Message::encode`].
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Frame, EncodeError> {
    let header = HeaderMessage {
        request_api_key: R::KEY.as_i16(),
        request_api_version: version,
        correlation_id,
        client_id: client_id.map(Str::from),
        ..Default::default()
    };
    frame(
        &header,
        R::KEY.request_header_version(version),
        request,
        version,
    )
}

/// A whole frame: the length, the header, the response.
///
/// # Errors
/// As for [`Message::encode`].
pub fn encode_response<R: Response>(
    response: &R,
    version: i16,
    correlation_id: i32,
) -> Result<Frame, EncodeError> {
    let header = ResponseHeader {
        correlation_id,
        ..Default::default()
    };
    frame(
        &header,
        R::KEY.response_header_version(version),
        response,
        version,
    )
}

/// A whole frame of a SASL token without a header: the length, the token. It may be empty.
///
/// # Errors
/// The token is too long for a frame.
pub fn encode_sasl_token(token: &[u8]) -> Result<Frame, EncodeError> {
    let length = i32::try_from(token.len()).map_err(|_| crate::wire::too_large(token.len()))?;
    let mut out = Writer::with_capacity(4 + token.len());
    out.i32(length);
    out.raw(token);
    Ok(out.finish())
}

/// Is the first frame of a connection (without its length) a GSSAPI token, as clients of 0.9 send it?
///
/// Such a token begins with the byte 0x60 (RFC 2743, 3.1). A request would have an API key above 24,000 there.
pub fn is_gssapi_token(frame: &[u8]) -> bool {
    frame.first() == Some(&0x60)
}

fn frame<H: Message, M: Message>(
    header: &H,
    header_version: i16,
    body: &M,
    version: i16,
) -> Result<Frame, EncodeError> {
    let (head, rest) = (header.measured(header_version)?, body.measured(version)?);
    let length = head.total().saturating_add(rest.total());
    let length = i32::try_from(length).map_err(|_| crate::wire::too_large(length))?;
    let mut out = Writer::with_capacity(4 + head.copied() + rest.copied());
    out.i32(length);
    header.write(header_version, &mut out);
    body.write(version, &mut out);
    Ok(out.finish())
}

/// Decodes the header of a request frame (without its length), and returns a reader at the body.
///
/// It also decodes the header of an unknown request, so that a broker can respond to it: for an
/// unknown key as header version 1, whose fields begin every later version, and for an unknown
/// version as the newest one of the API.
///
/// # Errors
/// The bytes are not a request header.
pub fn decode_request_header(frame: Bytes) -> Result<(RequestHeader, Reader), DecodeError> {
    let mut peek = Reader::new(frame.clone());
    let (key, version) = (peek.i16()?, peek.i16()?);
    let header_version = ApiKey::from_i16(key).map_or(1, |api| api.request_header_version(version));
    let mut input = Reader::new(frame);
    let header = HeaderMessage::decode(header_version, &mut input)?;
    let header = RequestHeader {
        api_key: header.request_api_key,
        api_version: header.request_api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id.filter(|_| header_version > 0),
    };
    Ok((header, input))
}

/// The correlation id of a response frame (without its length).
///
/// # Errors
/// There are fewer than four bytes.
pub fn correlation_id(frame: &Bytes) -> Result<i32, DecodeError> {
    Reader::new(frame.clone()).i32()
}

/// Decodes the correlation id and the response of a frame (without its length).
///
/// # Errors
/// As for [`decode_response_prefix`], or [`crate::DecodeErrorKind::LeftOver`] for bytes after the response.
pub fn decode_response<R: Response>(version: i16, frame: Bytes) -> Result<(i32, R), DecodeError> {
    match decode_response_prefix(version, frame)? {
        (correlation_id, body, 0) => Ok((correlation_id, body)),
        (_, _, left) => Err(DecodeError::from(DecodeErrorKind::LeftOver { left }).at(R::NAME)),
    }
}

/// Decodes the correlation id and the response at the start of a frame (without its length), and counts the bytes after them: a
/// client ignores those, because the response is complete.
///
/// A broker that does not know the version of an ApiVersions request returns error 35 in a body of
/// version 0; such a body is read as version 0 (KIP-511). The caller sends the request again with a
/// version that it names, or 0.
///
/// # Errors
/// As for [`Message::decode`].
pub fn decode_response_prefix<R: Response>(
    version: i16,
    frame: Bytes,
) -> Result<(i32, R, usize), DecodeError> {
    let mut input = Reader::new(frame);
    let header = ResponseHeader::decode(R::KEY.response_header_version(version), &mut input)?;
    let refused = R::KEY == ApiVersionsRequest::KEY
        && input
            .clone()
            .i16()
            .is_ok_and(|code| ErrorCode(code) == ErrorCode::UNSUPPORTED_VERSION);
    let body = R::decode(if refused { 0 } else { version }, &mut input)?;
    Ok((header.correlation_id, body, input.remaining()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{
        ApiVersionsResponse, ControlledShutdownRequest, FetchResponse, MetadataRequest,
    };

    fn body(frame: Frame) -> Bytes {
        let bytes = frame.into_bytes();
        assert_eq!(
            i32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize,
            bytes.len() - 4
        );
        bytes.slice(4..)
    }

    #[test]
    fn requests_come_back() {
        for version in [0, 9, 12] {
            let request = MetadataRequest {
                allow_auto_topic_creation: true,
                ..Default::default()
            };
            let frame = body(encode_request(&request, version, 7, Some("me")).unwrap());
            let (header, mut input) = decode_request_header(frame).unwrap();
            assert_eq!(
                (header.api_key, header.api_version, header.correlation_id),
                (3, version, 7)
            );
            assert_eq!(header.client_id, Some(Str::from("me")));
            assert_eq!(
                MetadataRequest::decode(version, &mut input).unwrap(),
                request
            );
            input.finish().unwrap();
        }
    }

    #[test]
    fn controlled_shutdown_0_has_no_client_id() {
        let request = ControlledShutdownRequest {
            broker_id: 5,
            ..Default::default()
        };
        let frame = body(encode_request(&request, 0, 1, Some("me")).unwrap());
        assert_eq!(&frame[..], [0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5]);
        let (header, _) = decode_request_header(frame).unwrap();
        assert_eq!(header.client_id, None);
    }

    #[test]
    fn a_request_of_tomorrow_still_has_a_header() {
        let (header, _) =
            decode_request_header(Bytes::from_static(b"\x7f\0\0\x05\0\0\0\x01\0\x01x\x01"))
                .unwrap();
        assert_eq!(
            (header.api_key, header.api_version, header.client_id),
            (0x7f00, 5, Some(Str::from("x")))
        );
        let (header, input) =
            decode_request_header(Bytes::from_static(b"\0\x12\0\x63\0\0\0\x01\0\x01x\0rest"))
                .unwrap();
        assert_eq!(
            (header.api_key, header.api_version, input.remaining()),
            (18, 99, 4)
        );
        assert!(decode_request_header(Bytes::from_static(b"\0")).is_err());
    }

    #[test]
    fn api_versions_is_answered_in_version_0_when_refused() {
        let refusal = ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION.0,
            ..Default::default()
        };
        let frame = body(encode_response(&refusal, 0, 3).unwrap());
        assert_eq!(&frame[..], [0, 0, 0, 3, 0, 35, 0, 0, 0, 0]);
        assert_eq!(decode_response(4, frame).unwrap(), (3, refusal));
    }

    #[test]
    fn bytes_after_a_response_are_refused_or_counted() {
        let answer = ApiVersionsResponse::default();
        let frame = body(encode_response(&answer, 0, 3).unwrap());
        let longer = Bytes::from([&frame[..], b"more"].concat());
        assert_eq!(
            decode_response::<ApiVersionsResponse>(0, longer.clone())
                .unwrap_err()
                .to_string(),
            "ApiVersionsResponse: 4 bytes left over"
        );
        assert_eq!(decode_response_prefix(0, longer).unwrap(), (3, answer, 4));
    }

    #[test]
    fn errors_say_where() {
        let mut frame = vec![0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1];
        frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 44, 1]);
        let frame = Bytes::from(frame);
        assert_eq!(correlation_id(&frame).unwrap(), 9);
        let error = decode_response::<FetchResponse>(3, frame).unwrap_err();
        assert_eq!(
            error.to_string(),
            "FetchResponse.responses[0].partitions[0].records: 812 bytes needed, 1 left"
        );
    }
}
