//! Requests and responses that are changed on their way.

use bytes::Bytes;
use ottla_protocol::header::{RequestHeader, decode_response, encode_request, encode_response};
use ottla_protocol::{Request, Response};

/// The handling of a request at the gate of a defective broker.
pub(super) enum Defect {
    /// The broker sees this instead.
    Changed(Bytes),
    /// The broker does not see the request, and this is the response.
    Answered(Bytes),
}

/// The request that the broker gets instead.
pub(super) fn request_instead<R: Request>(header: &RequestHeader, request: &R) -> Option<Defect> {
    let client = header.client_id.clone();
    let frame = encode_request(
        request,
        header.api_version,
        header.correlation_id,
        client.as_deref(),
    );
    Some(Defect::Changed(frame.ok()?.into_bytes()))
}

/// A response, changed; itself if it is not one of that type.
pub(super) fn changed<R: Response>(
    header: &RequestHeader,
    answer: &Bytes,
    change: impl FnOnce(&mut R),
) -> Bytes {
    let version = header.api_version;
    let decoded = decode_response::<R>(version, answer.slice(4..));
    let encoded = decoded.ok().and_then(|(id, mut body)| {
        change(&mut body);
        encode_response(&body, version, id).ok()
    });
    encoded.map_or_else(|| answer.clone(), |frame| frame.into_bytes())
}
