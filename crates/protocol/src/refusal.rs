//! Builds the error response to a request: it has the error code in every place that its API and version have for one.
//!
//! The code is at the top of the response, or in one element for each requested topic, partition, group or resource; such an
//! element names what was requested and has no data. The schemas decide which it is, and `schemas/refusals.json` has the cases
//! where Kafka differs. The model is Kafka's `AbstractRequest.getErrorResponse`.
//!
//! A few versions have no place for an error, such as DescribeLogDirs 0 to 2, and an empty request may get an empty response.
//! The response is then well formed but without the error.

use bytes::Bytes;

use crate::ErrorCode;
use crate::header;
use crate::messages::{self, ApiKey};
use crate::wire::{DecodeError, EncodeError, Frame, Message, Reader, Request, Str, Writer};

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
mod generated {
    use super::{ApiKey, Refusal, Refuse, Visitor, messages};
    use crate::wire as w;

    include!(concat!(env!("OUT_DIR"), "/refusals.rs"));
}

use generated::visit;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusal {
    /// The error.
    pub code: ErrorCode,
    /// The error message, if the response has a field for it. If that field cannot be null, `None` becomes the empty string.
    pub message: Option<Str>,
    /// The throttle time in milliseconds, if the response has a field for it.
    pub throttle_time_ms: i32,
}

impl From<ErrorCode> for Refusal {
    /// A refusal with only a code.
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }
}

/// A request that can be refused; all of them can.
pub trait Refuse: Request {
    /// The response of this version, with the error in every place for it. For a version outside of [`Message::VERSIONS`] the
    /// response cannot be encoded.
    ///
    /// It also makes a response to a Produce request with acks 0; the caller must know that its
    /// sender does not wait for one.
    fn error_response(&self, version: i16, refusal: &Refusal) -> Self::Response;
}

/// Why a request cannot be refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusalError {
    /// The API is unknown.
    #[error("no API has the key {0}")]
    UnknownApi(i16),
    /// The request cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The response cannot be written: the message is above 32,767 bytes.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The bytes of the error response to a request, without headers; `body` is the request.
///
/// # Errors
/// The API lacks the version, the bytes are not a request of it, or the response cannot be written.
pub fn error_response(
    api: ApiKey,
    version: i16,
    body: Bytes,
    refusal: &Refusal,
) -> Result<Frame, RefusalError> {
    visit(
        api,
        Answer {
            version,
            body: Reader::new(body),
            correlation_id: None,
            refusal,
        },
    )
}

/// The frame of the error response to a request frame. The API is that of the frame's header. `frame` comes without its length;
/// the result has one.
///
/// # Errors
/// The API or the version is unknown, the bytes are not a request of it, or the response cannot be written.
pub fn error_frame(frame: Bytes, refusal: &Refusal) -> Result<Frame, RefusalError> {
    let (header, body) = header::decode_request_header(frame)?;
    let api = ApiKey::from_i16(header.api_key).ok_or(RefusalError::UnknownApi(header.api_key))?;
    visit(
        api,
        Answer {
            version: header.api_version,
            body,
            correlation_id: Some(header.correlation_id),
            refusal,
        },
    )
}

/// A generic operation on a request type that is known only by its API.
trait Visitor {
    type Output;
    fn visit<R: Refuse>(self) -> Self::Output;
}

struct Answer<'a> {
    version: i16,
    body: Reader,
    /// The correlation id, if a whole frame is wanted.
    correlation_id: Option<i32>,
    refusal: &'a Refusal,
}

impl Visitor for Answer<'_> {
    type Output = Result<Frame, RefusalError>;

    fn visit<R: Refuse>(mut self) -> Self::Output {
        let request = R::decode(self.version, &mut self.body)?;
        let response = request.error_response(self.version, self.refusal);
        if let Some(id) = self.correlation_id {
            return Ok(header::encode_response(&response, self.version, id)?);
        }
        let mut out = Writer::new();
        response.encode(self.version, &mut out)?;
        Ok(out.finish())
    }
}
