//! Refusing a request: the response of its API and version that says an error code wherever it has a place for one.
//!
//! A response carries the code at its top, or in an element for each topic, partition, group or resource that was asked
//! about; the elements name what was asked, and hold no data. Which it is follows from the schemas, and where Kafka does
//! something else from `schemas/refusals.json`. The model is Kafka's `AbstractRequest.getErrorResponse`.
//!
//! A few versions have no place for an error, such as DescribeLogDirs 0 to 2; and a request that asks about nothing may get
//! an answer about nothing. The response is made all the same: it is well formed and says no error.

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
    /// What is said about it, where the response has a place for that. Where that place takes no null, `None` is empty.
    pub message: Option<Str>,
    /// How long the client is asked to wait, in milliseconds, where the response has a place for that.
    pub throttle_time_ms: i32,
}

impl From<ErrorCode> for Refusal {
    /// A refusal by a bare code.
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }
}

/// A request that can be refused: all can.
pub trait Refuse: Request {
    /// The response of this version that says the error wherever it has a place for it. A version that is not in
    /// [`Message::VERSIONS`] gives a response that cannot be encoded.
    ///
    /// A Produce request with acks 0 is answered too; whether its sender waits for an answer is for the caller to look at.
    fn error_response(&self, version: i16, refusal: &Refusal) -> Self::Response;
}

/// A request that could not be refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusalError {
    /// The API is unknown here.
    #[error("no API has the key {0}")]
    UnknownApi(i16),
    /// The request cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The response cannot be written: the message is above 32,767 bytes.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// The bytes of the response that refuses a request, without headers; `body` are those of the request.
///
/// # Errors
/// The version is not one of the API, the bytes are not a request of it, or the response cannot be written.
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

/// The frame of the response that refuses a request, for a frame whose API is known only by what it says. The length in
/// front is taken off `frame`, and put in front of what comes.
///
/// # Errors
/// The API or the version is unknown here, the bytes are not a request of it, or the response cannot be written.
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

/// Something to do with a request type that is only known by its API.
trait Visitor {
    type Output;
    fn visit<R: Refuse>(self) -> Self::Output;
}

struct Answer<'a> {
    version: i16,
    body: Reader,
    /// Where there is one, a whole frame is wanted.
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
