//! One connection to a broker: negotiates versions, pairs answers with requests, notices when either side falls out of step.
//!
//! ```text
//!            ApiVersions 4                 answer
//! new() ──────────────────▶ Negotiating ──────────▶ Ready ── send ⇄ answers
//!                            │   ▲   │                │
//!      error 35: lower version└───┘   └─▶ fail ◀───────┘  closed, timeout, bad frame, wrong correlation id
//! ```
//!
//! Brokers answer in the order of requests, so an answer always belongs to the oldest request in flight. Anything else
//! means that the stream is out of step; then the connection is given up, and the first cause is the one everybody gets.
//! Sources: the protocol guide, KIP-35 and KIP-511 (version negotiation).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::{ApiKey, ErrorCode, Frame, header};

use crate::api::{API_VERSIONS_MAX, Request, Response, Versions};
use crate::dispatch::Outgoing;
use crate::error::{Error, Kind};
use crate::frame::{LIMIT_AT_FIRST, large, next_frame, room};

/// What a connection tells its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The broker told its versions; requests may be sent.
    Ready(Versions),
    /// The answer to the request with this token.
    Answer {
        /// The request's token.
        token: u64,
        /// The version of both.
        version: i16,
        /// The answer.
        response: Response,
    },
}

#[derive(Debug)]
struct InFlight {
    correlation: i32,
    api: ApiKey,
    version: i16,
    token: u64,
    deadline: Instant,
    timeout: Duration,
    expected_bytes: usize,
}

#[derive(Debug, PartialEq)]
enum State {
    Negotiating,
    Ready,
}

/// The state of one connection. Bytes go in and come out; the owner moves them.
#[derive(Debug)]
pub struct Connection {
    client_id: String,
    /// The most bytes of an answer, once the broker told its versions.
    limit: usize,
    state: State,
    in_flight: VecDeque<InFlight>,
    /// Requests without an answer: they are done when they are written, which must not take for ever either.
    unwritten: VecDeque<InFlight>,
    next_correlation: i32,
    heard: VecDeque<Heard>,
    transmit: VecDeque<Frame>,
    passed_over: u64,
}

impl Connection {
    /// A connection whose socket has just been connected; the broker's versions must arrive within `setup`. No answer may
    /// have more than `limit` bytes.
    ///
    /// # Errors
    /// A client id that does not encode.
    pub fn new(
        now: Instant,
        client_id: &str,
        setup: Duration,
        limit: usize,
    ) -> Result<Connection, Error> {
        let mut connection = Connection {
            client_id: client_id.to_owned(),
            limit,
            state: State::Negotiating,
            in_flight: VecDeque::new(),
            unwritten: VecDeque::new(),
            next_correlation: 0,
            heard: VecDeque::new(),
            transmit: VecDeque::new(),
            passed_over: 0,
        };
        connection.ask_versions(now, API_VERSIONS_MAX, setup)?;
        Ok(connection)
    }

    /// Encodes a request and expects its answer. The frame is to be written after all earlier ones.
    ///
    /// # Errors
    /// A request that cannot be said at its version. The connection stays usable.
    pub fn send(&mut self, now: Instant, outgoing: Outgoing) -> Result<Frame, Error> {
        let Outgoing {
            token,
            mut request,
            version,
            timeout,
            answered,
            expected_bytes,
        } = outgoing;
        request.fit(version);
        let api = request.api();
        let correlation = self.next_correlation;
        let frame = request
            .encode(version, correlation, &self.client_id)
            .map_err(|cause| {
                Error::new(
                    Kind::Argument,
                    format!("the request does not encode at version {version}: {cause}"),
                )
                .calling(api.name())
            })?;
        self.next_correlation = correlation.wrapping_add(1);
        let waiting = if answered {
            &mut self.in_flight
        } else {
            &mut self.unwritten
        };
        waiting.push_back(InFlight {
            correlation,
            api,
            version,
            token,
            deadline: now + timeout,
            timeout,
            expected_bytes,
        });
        Ok(frame)
    }

    /// Takes whole frames off `buffer`.
    ///
    /// # Errors
    /// The stream is out of step or not Kafka's: the connection must be closed.
    pub fn handle_bytes(&mut self, now: Instant, buffer: &mut BytesMut) -> Result<(), Error> {
        while let Some(frame) = next_frame(buffer, self.limit())? {
            self.handle_frame(now, frame)?;
        }
        Ok(())
    }

    /// Takes one whole frame, without its length.
    ///
    /// # Errors
    /// The stream is out of step or not Kafka's: the connection must be closed.
    pub fn handle_frame(&mut self, now: Instant, frame: Bytes) -> Result<(), Error> {
        let correlation = header::correlation_id(&frame).map_err(|cause| {
            Error::new(Kind::Protocol, format!("an answer has no header: {cause}"))
        })?;
        let Some(oldest) = self.in_flight.pop_front() else {
            return Err(Error::new(
                Kind::Protocol,
                format!("an answer with correlation id {correlation} came, and nothing was asked"),
            ));
        };
        if correlation != oldest.correlation {
            return Err(Error::new(
                Kind::Protocol,
                format!(
                    "an answer has correlation id {correlation}, expected was {}",
                    oldest.correlation
                ),
            )
            .calling(oldest.api.name()));
        }
        match self.state {
            State::Negotiating => self.handle_versions(now, &oldest, frame),
            State::Ready => self.handle_answer(&oldest, frame),
        }
    }

    /// How much room to make in the read buffer before the next read.
    pub fn room(&self, buffer: &BytesMut) -> usize {
        room(buffer, self.limit(), self.expected())
    }

    /// The size of the frame that begins in `buffer`, if it is worth a buffer of its own: it is large and not whole, and no
    /// larger than what was asked for.
    pub fn large(&self, buffer: &BytesMut) -> Option<usize> {
        let length = large(buffer)?;
        (length <= self.expected().min(self.limit())).then_some(length)
    }

    /// Bytes that were asked for of the answer that comes next.
    fn expected(&self) -> usize {
        self.in_flight
            .front()
            .map_or(0, |oldest| oldest.expected_bytes)
    }

    /// The next bytes to write that no request asked for: negotiation.
    pub fn poll_transmit(&mut self) -> Option<Frame> {
        self.transmit.pop_front()
    }

    /// What happened since the last call.
    pub fn poll_heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    /// How many bytes stood after answers in their frames and were passed over. None do in what a sound broker sends.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.unwritten.is_empty()
    }

    /// Every frame was written: the tokens of the requests that have no answer.
    pub fn handle_written(&mut self) -> Vec<u64> {
        self.unwritten
            .drain(..)
            .map(|request| request.token)
            .collect()
    }

    /// When [`Connection::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let waiting = self.in_flight.iter().chain(&self.unwritten);
        waiting.map(|request| request.deadline).min()
    }

    /// Notices what is overdue.
    ///
    /// # Errors
    /// An answer is overdue: the connection must be closed, for the answers behind it can never be told apart from it.
    /// Or the broker takes no bytes.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), Error> {
        if let Some(late) = self
            .unwritten
            .front()
            .filter(|request| request.deadline <= now)
        {
            let text = format!(
                "the broker did not take the request within request.timeout.ms ({} ms)",
                late.timeout.as_millis()
            );
            return Err(Error::new(Kind::Unreachable, text).calling(late.api.name()));
        }
        match self.in_flight.iter().find(|request| request.deadline <= now) {
            Some(late) if self.state == State::Negotiating => Err(Error::new(
                Kind::Unreachable,
                format!(
                    "connected, but no answer to the question for versions within {} ms: not a Kafka broker, one older than \
                     0.10, or one that is overloaded",
                    late.timeout.as_millis()
                ),
            )
            .calling(late.api.name())),
            Some(late) => Err(Error::new(
                Kind::Unreachable,
                format!("no answer within request.timeout.ms ({} ms)", late.timeout.as_millis()),
            )
            .calling(late.api.name())),
            None => Ok(()),
        }
    }

    /// What it means that the peer closed the connection now, where an answer has begun or not.
    pub fn closed(&self, in_answer: bool) -> Error {
        let text = match (&self.state, in_answer) {
            (State::Negotiating, false) => {
                "the connection was closed at the question for versions: a broker older than 0.10, a port that wants TLS, or \
                 not a Kafka broker"
            }
            (_, true) => "the connection was closed in the middle of an answer",
            (State::Ready, false) => "the broker closed the connection",
        };
        Error::new(Kind::Unreachable, text)
    }

    fn limit(&self) -> usize {
        if self.state == State::Ready {
            self.limit
        } else {
            LIMIT_AT_FIRST.min(self.limit)
        }
    }

    fn ask_versions(&mut self, now: Instant, version: i16, timeout: Duration) -> Result<(), Error> {
        let request = Request::ApiVersions(ApiVersionsRequest {
            client_software_name: "ottla".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        });
        let outgoing = Outgoing {
            token: 0,
            request,
            version,
            timeout,
            answered: true,
            expected_bytes: 0,
        };
        let frame = self.send(now, outgoing)?;
        self.transmit.push_back(frame);
        Ok(())
    }

    /// A broker that does not know the version asked for says so in version 0, with the versions it knows.
    fn handle_versions(
        &mut self,
        now: Instant,
        asked: &InFlight,
        frame: Bytes,
    ) -> Result<(), Error> {
        let undecodable = |cause| {
            Error::new(
                Kind::NotKafka,
                format!("the answer to the question for versions does not decode: {cause}"),
            )
        };
        let refused = frame.get(4..6) == Some(&ErrorCode::UNSUPPORTED_VERSION.0.to_be_bytes()[..]);
        let version = if refused { 0 } else { asked.version };
        let (_, answer, left) =
            header::decode_response_prefix::<ApiVersionsResponse>(version, frame)
                .map_err(undecodable)?;
        self.passed_over += left as u64;
        if refused && asked.version > 0 {
            let highest = answer
                .api_keys
                .iter()
                .find(|row| row.api_key == ApiKey::ApiVersions.as_i16());
            let lower = highest
                .map_or(0, |row| row.max_version)
                .clamp(0, asked.version - 1);
            let left = asked.deadline.saturating_duration_since(now);
            return self.ask_versions(now, lower, left);
        }
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return Err(Error::from_code(code, None).calling(asked.api.name()));
        }
        self.state = State::Ready;
        self.heard.push_back(Heard::Ready(Versions::new(&answer)));
        Ok(())
    }

    fn handle_answer(&mut self, asked: &InFlight, frame: Bytes) -> Result<(), Error> {
        let response = match Response::decode(asked.api, asked.version, frame) {
            Some(Ok((response, left))) => {
                self.passed_over += left as u64;
                response
            }
            Some(Err(cause)) => {
                return Err(Error::new(
                    Kind::Protocol,
                    format!(
                        "the answer at version {} does not decode: {cause}",
                        asked.version
                    ),
                )
                .calling(asked.api.name()));
            }
            None => {
                return Err(Error::new(
                    Kind::Protocol,
                    "an answer came to a request that is never sent",
                ));
            }
        };
        self.heard.push_back(Heard::Answer {
            token: asked.token,
            version: asked.version,
            response,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::messages::api_versions_response::ApiVersion;
    use ottla_protocol::messages::{MetadataRequest, MetadataResponse};

    use super::*;
    use crate::script::start;

    const SETUP: Duration = Duration::from_secs(10);
    const LIMIT: usize = 100 << 20;

    fn metadata(token: u64) -> Outgoing {
        Outgoing {
            token,
            request: Request::Metadata(MetadataRequest::default()),
            version: 9,
            timeout: Duration::from_secs(30),
            answered: true,
            expected_bytes: 0,
        }
    }

    fn versions(error: i16, max: i16) -> ApiVersionsResponse {
        let api_keys = [(18, max), (3, 9)]
            .map(|(api_key, max_version)| ApiVersion {
                api_key,
                max_version,
                ..Default::default()
            })
            .to_vec();
        ApiVersionsResponse {
            error_code: error,
            api_keys,
            ..Default::default()
        }
    }

    fn answer<R: ottla_protocol::Response>(body: &R, version: i16, correlation: i32) -> BytesMut {
        BytesMut::from(
            &header::encode_response(body, version, correlation)
                .unwrap()
                .into_bytes()[..],
        )
    }

    fn ready(now: Instant) -> Connection {
        let mut connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
        assert!(connection.poll_transmit().is_some());
        connection
            .handle_bytes(now, &mut answer(&versions(0, 4), 4, 0))
            .unwrap();
        assert!(matches!(connection.poll_heard(), Some(Heard::Ready(_))));
        connection
    }

    #[test]
    fn asks_again_at_a_version_the_broker_knows() {
        let now = start();
        let mut connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
        let first = connection.poll_transmit().unwrap().into_bytes();
        assert_eq!(&first[4..8], &[0, 18, 0, 4]);
        connection
            .handle_bytes(now, &mut answer(&versions(35, 2), 0, 0))
            .unwrap();
        assert_eq!(connection.poll_heard(), None);
        let second = connection.poll_transmit().unwrap().into_bytes();
        assert_eq!(&second[4..8], &[0, 18, 0, 2]);
        connection
            .handle_bytes(now, &mut answer(&versions(0, 2), 2, 1))
            .unwrap();
        let Some(Heard::Ready(versions)) = connection.poll_heard() else {
            panic!("not ready")
        };
        assert_eq!(versions.choose(ApiKey::Metadata, i16::MAX), Ok(9));
    }

    #[test]
    fn pairs_answers_with_requests_in_order() {
        let now = start();
        let mut connection = ready(now);
        for token in [7, 8] {
            connection.send(now, metadata(token)).unwrap();
        }
        let mut bytes = answer(&MetadataResponse::default(), 9, 1);
        bytes.extend_from_slice(&answer(
            &MetadataResponse {
                controller_id: 5,
                ..Default::default()
            },
            9,
            2,
        ));
        connection.handle_bytes(now, &mut bytes).unwrap();
        for wanted in [7, 8] {
            assert!(
                matches!(connection.poll_heard(), Some(Heard::Answer { token, .. }) if token == wanted)
            );
        }
        assert_eq!(connection.next_timeout(), None);
    }

    #[test]
    fn a_stream_out_of_step_is_given_up() {
        let now = start();
        let mut connection = ready(now);
        connection.send(now, metadata(1)).unwrap();
        let error = connection
            .handle_bytes(now, &mut answer(&MetadataResponse::default(), 9, 6))
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Protocol);
        assert!(error.message().contains("id 6, expected was 1"), "{error}");
        let error = ready(now)
            .handle_bytes(now, &mut answer(&MetadataResponse::default(), 9, 1))
            .unwrap_err();
        assert!(error.message().contains("nothing was asked"), "{error}");
    }

    #[test]
    fn an_answer_that_does_not_decode_is_given_up() {
        let now = start();
        let mut connection = ready(now);
        connection.send(now, metadata(1)).unwrap();
        let error = connection
            .handle_bytes(now, &mut BytesMut::from(&b"\0\0\0\x05\0\0\0\x01\x80"[..]))
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.api()),
            (Kind::Protocol, Some("Metadata"))
        );
    }

    #[test]
    fn a_late_answer_is_an_error_that_says_so() {
        let now = start();
        let mut connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
        assert_eq!(connection.next_timeout(), Some(now + SETUP));
        assert!(connection.handle_timeout(now).is_ok());
        assert!(
            connection
                .handle_timeout(now + SETUP)
                .unwrap_err()
                .message()
                .contains("older than 0.10")
        );
        let mut connection = ready(now);
        connection.send(now, metadata(1)).unwrap();
        let error = connection
            .handle_timeout(now + Duration::from_secs(30))
            .unwrap_err();
        assert!(
            error.message().contains("30000 ms") && error.is_retriable(),
            "{error}"
        );
    }

    #[test]
    fn a_request_without_answer_must_be_written_in_time() {
        let now = start();
        let mut connection = ready(now);
        let unanswered = |token| Outgoing {
            answered: false,
            ..metadata(token)
        };
        connection.send(now, unanswered(1)).unwrap();
        connection.send(now, unanswered(2)).unwrap();
        assert_eq!(connection.handle_written(), [1, 2]);
        assert_eq!(connection.next_timeout(), None);
        connection.send(now, unanswered(3)).unwrap();
        let late = connection.next_timeout().unwrap();
        assert_eq!(late, now + Duration::from_secs(30));
        let error = connection.handle_timeout(late).unwrap_err();
        assert!(error.message().contains("did not take"), "{error}");
    }

    #[test]
    fn bytes_after_an_answer_are_passed_over_and_counted() {
        let now = start();
        let mut connection = ready(now);
        connection.send(now, metadata(1)).unwrap();
        let mut bytes = answer(&MetadataResponse::default(), 9, 1);
        let length = i32::try_from(bytes.len() - 4 + 3).unwrap();
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(b"abc");
        connection.handle_bytes(now, &mut bytes).unwrap();
        assert!(matches!(
            connection.poll_heard(),
            Some(Heard::Answer { token: 1, .. })
        ));
        assert_eq!(connection.passed_over(), 3);
    }

    #[test]
    fn an_answer_to_a_request_that_has_none_is_given_up() {
        let now = start();
        let mut connection = ready(now);
        let produce = Outgoing {
            answered: false,
            ..metadata(1)
        };
        connection.send(now, produce).unwrap();
        let error = connection
            .handle_bytes(now, &mut answer(&MetadataResponse::default(), 9, 1))
            .unwrap_err();
        assert!(error.message().contains("nothing was asked"), "{error}");
    }

    #[test]
    fn an_answer_above_the_limit_is_refused_by_its_length() {
        let now = start();
        let mut connection = ready(now);
        connection.send(now, metadata(1)).unwrap();
        let claim = i32::try_from(LIMIT + 1).unwrap().to_be_bytes();
        let error = connection
            .handle_bytes(now, &mut BytesMut::from(&claim[..]))
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Protocol);
        assert!(
            error.message().contains(
                "claims 104857601 bytes, allowed are 0 to 104857600 (receive.message.max.bytes)"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_large_answer_has_a_buffer_of_its_own_as_far_as_it_was_asked_for() {
        let now = start();
        let mut connection = ready(now);
        let begins = BytesMut::from(&(8_i32 << 20).to_be_bytes()[..]);
        assert_eq!(connection.large(&begins), None);
        for (token, expected_bytes) in [(1, (8 << 20) - 1), (2, 8 << 20)] {
            let outgoing = Outgoing {
                expected_bytes,
                ..metadata(token)
            };
            connection.send(now, outgoing).unwrap();
        }
        assert_eq!(connection.large(&begins), None);
        let whole = answer(&MetadataResponse::default(), 9, 1).split_off(4);
        connection.handle_frame(now, whole.freeze()).unwrap();
        assert!(matches!(
            connection.poll_heard(),
            Some(Heard::Answer { token: 1, .. })
        ));
        assert_eq!(connection.large(&begins), Some(8 << 20));
        assert_eq!(connection.large(&BytesMut::from(&[0, 0, 9][..])), None);
    }

    #[test]
    fn no_room_for_large_frames_before_the_versions_are_known() {
        let now = start();
        let mut connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
        let mut bytes = BytesMut::from(&(2_i32 << 20).to_be_bytes()[..]);
        assert_eq!(
            connection.handle_bytes(now, &mut bytes).unwrap_err().kind(),
            Kind::Protocol
        );
    }

    #[test]
    fn says_when_a_peer_closes() {
        let now = start();
        let connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
        assert!(
            connection
                .closed(false)
                .message()
                .contains("older than 0.10")
        );
        assert!(ready(now).closed(true).message().contains("middle"));
    }
}
