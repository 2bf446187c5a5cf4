//! Asks a broker which versions of each API it speaks (KIP-35, KIP-511).
//!
//! A broker that does not know the requested version answers with an error in version 0, with the versions it knows;
//! then the client sends another request.

use bytes::Bytes;
use ottla_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::{ApiKey, ErrorCode, header};

use crate::api::{API_VERSIONS_MAX, Request, Versions};
use crate::error::{Error, Kind};

/// The version to begin with.
pub(super) const FIRST: i16 = API_VERSIONS_MAX;

/// What an answer leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Negotiated {
    /// Ask again, at this version.
    AskAt(i16),
    /// These are the broker's versions.
    Done(Versions),
}

/// The request, which also names the client's software.
pub(super) fn question() -> Request {
    Request::ApiVersions(ApiVersionsRequest {
        client_software_name: "ottla".into(),
        client_software_version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    })
}

/// Takes the answer to the question at version `asked`; also how many bytes follow it in its frame.
///
/// # Errors
/// The answer does not decode, or refuses.
pub(super) fn take(asked: i16, frame: Bytes) -> Result<(Negotiated, usize), Error> {
    let refused = frame.get(4..6) == Some(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes()[..]);
    let version = if refused { 0 } else { asked };
    let (_, answer, left) = header::decode_response_prefix::<ApiVersionsResponse>(version, frame)
        .map_err(|cause| {
        Error::new(
            Kind::NotKafka,
            format!("the answer to ApiVersions does not decode: {cause}"),
        )
    })?;
    if refused && asked > 0 {
        let mut rows = answer.api_keys.iter();
        let row = rows.find(|row| row.api_key == ApiKey::ApiVersions.as_i16());
        let lower = row.map_or(0, |row| row.max_version).clamp(0, asked - 1);
        return Ok((Negotiated::AskAt(lower), left));
    }
    let code = ErrorCode(answer.error_code);
    if code.is_error() {
        return Err(Error::from_code(code, None).calling(ApiKey::ApiVersions.name()));
    }
    Ok((Negotiated::Done(Versions::new(&answer)), left))
}
