use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::{
    ApiVersionsResponse, MetadataRequest, MetadataResponse, SaslAuthenticateResponse,
    SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, header};

use super::*;
use crate::sasl::Step;
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
    assert!(error.message().contains("id 6 instead of 1"), "{error}");
    let error = ready(now)
        .handle_bytes(now, &mut answer(&MetadataResponse::default(), 9, 1))
        .unwrap_err();
    assert!(
        error.message().contains("no request is in flight"),
        "{error}"
    );
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
    assert!(
        error.message().contains("no request is in flight"),
        "{error}"
    );
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
            "claims 104857601 bytes; 0 to 104857600 are allowed (receive.message.max.bytes)"
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

/// Says `hello`, answers a challenge with itself in capitals, and is done at `welcome`.
#[derive(Debug)]
struct Shouting {
    begun: u32,
}

impl Mechanism for Shouting {
    fn name(&self) -> &'static str {
        "SHOUTING"
    }

    fn begin(&mut self) -> Result<Bytes, Error> {
        self.begun += 1;
        Ok(format!("hello {}", self.begun).into())
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        match &challenge[..] {
            b"welcome" => Ok(Step::Done),
            b"" => Err(Error::new(Kind::Protocol, "the broker said nothing")),
            text => Ok(Step::Send(text.to_ascii_uppercase().into())),
        }
    }
}

const AGAIN: Duration = Duration::from_secs(7);

/// A connection to a broker that knows these versions of SaslHandshake and SaslAuthenticate; it has just heard of them.
fn authenticating(now: Instant, handshake: i16, authenticate: i16) -> Result<Connection, Error> {
    let authentication = Authentication {
        mechanism: Box::new(Shouting { begun: 0 }),
        again_within: AGAIN,
        seed: 3,
    };
    let mut connection =
        Connection::authenticated(now, "test", SETUP, LIMIT, Some(authentication)).unwrap();
    assert!(connection.poll_transmit().is_some());
    let mut told = versions(0, 4);
    for (api_key, max_version) in [(17, handshake), (36, authenticate)] {
        told.api_keys.push(ApiVersion {
            api_key,
            max_version,
            ..Default::default()
        });
    }
    connection.handle_bytes(now, &mut answer(&told, 4, 0))?;
    Ok(connection)
}

/// What is sent next: the API's key, its version, and the rest of the frame after the header's correlation id.
fn sent(connection: &mut Connection) -> Option<(i16, i16, Vec<u8>)> {
    let frame = connection.poll_transmit()?.into_bytes();
    let short = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
    Some((short(4), short(6), frame[12..].to_vec()))
}

fn names(code: ErrorCode, mechanisms: &[&str]) -> SaslHandshakeResponse {
    SaslHandshakeResponse {
        error_code: code.0,
        mechanisms: mechanisms.iter().map(|name| (*name).into()).collect(),
    }
}

fn challenge(bytes: &'static [u8], lifetime: i64) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        auth_bytes: Bytes::from_static(bytes),
        session_lifetime_ms: lifetime,
        ..Default::default()
    }
}

/// The whole exchange of an authentication whose first correlation id is `first`, at SaslAuthenticate 2.
fn authenticate(connection: &mut Connection, now: Instant, first: i32, lifetime: i64, hello: &str) {
    let (api, version, body) = sent(connection).unwrap();
    assert_eq!((api, version), (17, 1));
    assert!(body.ends_with(b"SHOUTING"), "{body:?}");
    let mut bytes = answer(&names(ErrorCode::NONE, &["PLAIN", "SHOUTING"]), 1, first);
    connection.handle_bytes(now, &mut bytes).unwrap();
    let (api, version, body) = sent(connection).unwrap();
    assert_eq!((api, version), (36, 2));
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains(hello), "{text}");
    let mut bytes = answer(&challenge(b"who", 0), 2, first + 1);
    connection.handle_bytes(now, &mut bytes).unwrap();
    let (_, _, body) = sent(connection).unwrap();
    assert!(String::from_utf8_lossy(&body).contains("WHO"));
    assert!(!connection.is_ready());
    let mut bytes = answer(&challenge(b"welcome", lifetime), 2, first + 2);
    connection.handle_bytes(now, &mut bytes).unwrap();
    assert!(connection.is_ready());
    assert_eq!(sent(connection), None);
}

#[test]
fn authenticates_between_the_versions_and_the_first_request() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    assert_eq!(connection.poll_heard(), None);
    assert_eq!(
        connection.send(now, metadata(1)).unwrap_err().kind(),
        Kind::Unreachable
    );
    authenticate(&mut connection, now, 1, 0, "hello 1");
    let Some(Heard::Ready(versions)) = connection.poll_heard() else {
        panic!("not ready")
    };
    assert_eq!(versions.choose(ApiKey::Metadata, i16::MAX), Ok(9));
    assert_eq!(connection.next_timeout(), None, "a session without end");
    connection.send(now, metadata(1)).unwrap();
}

#[test]
fn old_brokers_authenticate_at_the_versions_they_know() {
    let now = start();
    let mut connection = authenticating(now, 1, 0).unwrap();
    assert!(sent(&mut connection).is_some());
    connection
        .handle_bytes(now, &mut answer(&names(ErrorCode::NONE, &[]), 1, 1))
        .unwrap();
    assert_eq!(sent(&mut connection).unwrap().1, 0);
    let error = authenticating(now, 0, 0).unwrap_err();
    assert_eq!(
        (error.kind(), error.api()),
        (Kind::Unsupported, Some("SaslHandshake"))
    );
}

#[test]
fn a_mechanism_that_the_broker_does_not_take_names_those_it_takes() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    let refusal = names(
        ErrorCode::UNSUPPORTED_SASL_MECHANISM,
        &["PLAIN", "SCRAM-SHA-256"],
    );
    let error = connection
        .handle_bytes(now, &mut answer(&refusal, 1, 1))
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNSUPPORTED_SASL_MECHANISM));
    assert!(
        error
            .message()
            .contains("SHOUTING; it takes PLAIN, SCRAM-SHA-256"),
        "{error}"
    );
    assert!(!error.is_retriable());
}

#[test]
fn a_refusal_carries_the_brokers_words_and_code() {
    let now = start();
    for (said, wanted) in [
        (Some("no such user"), "no such user"),
        (None, "refused what SHOUTING sent"),
    ] {
        let mut connection = authenticating(now, 1, 2).unwrap();
        let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
        connection.handle_bytes(now, &mut bytes).unwrap();
        let refusal = SaslAuthenticateResponse {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED.0,
            error_message: said.map(Into::into),
            ..Default::default()
        };
        let error = connection
            .handle_bytes(now, &mut answer(&refusal, 2, 2))
            .unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::SASL_AUTHENTICATION_FAILED));
        assert_eq!(error.api(), Some("SaslAuthenticate"));
        assert!(error.message().contains(wanted), "{error}");
        assert!(!error.is_retriable());
    }
}

#[test]
fn what_the_mechanism_refuses_ends_the_connection() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
    connection.handle_bytes(now, &mut bytes).unwrap();
    let error = connection
        .handle_bytes(now, &mut answer(&challenge(b"", 0), 2, 2))
        .unwrap_err();
    assert!(error.message().contains("said nothing"), "{error}");
}

#[test]
fn the_whole_set_up_has_one_deadline_and_small_frames() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    let later = now + SETUP - Duration::from_secs(1);
    let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
    connection.handle_bytes(later, &mut bytes).unwrap();
    assert_eq!(connection.next_timeout(), Some(now + SETUP));
    let error = connection.handle_timeout(now + SETUP).unwrap_err();
    assert!(
        error
            .message()
            .contains("SHOUTING was not done within 10000 ms"),
        "{error}"
    );
    assert!(
        connection
            .closed(false)
            .message()
            .contains("authentication")
    );
    let mut claim = BytesMut::from(&(2_i32 << 20).to_be_bytes()[..]);
    let error = connection.handle_bytes(later, &mut claim).unwrap_err();
    assert!(
        error.message().contains("0 to 1048576 are allowed"),
        "{error}"
    );
}

#[test]
fn a_session_is_renewed_before_it_ends_and_requests_wait() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    authenticate(&mut connection, now, 1, 100_000, "hello 1");
    assert!(connection.poll_heard().is_some());
    let due = connection.next_timeout().unwrap();
    let after = due.duration_since(now);
    assert!(
        (85_000..=95_000).contains(&after.as_millis()),
        "{after:?} of 100 s"
    );

    connection.send(due, metadata(7)).unwrap();
    connection.send(due, metadata(8)).unwrap();
    connection.handle_timeout(due).unwrap();
    assert!(!connection.is_ready(), "requests are held back");
    assert_eq!(sent(&mut connection), None, "answers are owed");
    let mut large = BytesMut::from(&(8_i32 << 20).to_be_bytes()[..]);
    connection.handle_bytes(due, &mut large).unwrap();
    for (correlation, token) in [(4, 7), (5, 8)] {
        assert_eq!(sent(&mut connection), None, "an answer is owed");
        let mut bytes = answer(&MetadataResponse::default(), 9, correlation);
        connection.handle_bytes(due, &mut bytes).unwrap();
        assert!(
            matches!(connection.poll_heard(), Some(Heard::Answer { token: heard, .. }) if heard == token)
        );
    }
    assert_eq!(connection.next_timeout(), Some(due + AGAIN));
    assert!(connection.send(due, metadata(9)).is_err());
    authenticate(&mut connection, due, 6, 100_000, "hello 2");
    assert_eq!(connection.poll_heard(), None, "it was ready before");
    assert!(connection.next_timeout().unwrap() > due + Duration::from_secs(80));
    connection.send(due, metadata(9)).unwrap();
    let mut bytes = answer(&MetadataResponse::default(), 9, 9);
    connection.handle_bytes(due, &mut bytes).unwrap();
    assert!(matches!(
        connection.poll_heard(),
        Some(Heard::Answer { token: 9, .. })
    ));
}

#[test]
fn an_idle_connection_renews_its_session_at_once_and_in_time() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    authenticate(&mut connection, now, 1, 1000, "hello 1");
    let due = connection.next_timeout().unwrap();
    connection.handle_timeout(due).unwrap();
    assert_eq!(sent(&mut connection).unwrap().0, 17);
    let error = connection.handle_timeout(due + AGAIN).unwrap_err();
    assert!(error.message().contains("within 7000 ms"), "{error}");
}

#[test]
fn lifetimes_that_make_no_sense_do_no_harm() {
    let now = start();
    for (lifetime, earliest) in [
        (-5, None),
        (i64::MIN, None),
        (1, Some(Duration::from_millis(100))),
        (i64::MAX, Some(Duration::from_secs(1 << 40))),
    ] {
        let mut connection = authenticating(now, 1, 2).unwrap();
        authenticate(&mut connection, now, 1, lifetime, "hello 1");
        match (connection.next_timeout(), earliest) {
            (Some(at), Some(earliest)) => assert!(at >= now + earliest, "{lifetime}"),
            (at, _) => assert_eq!(at, None, "{lifetime}"),
        }
    }
}
