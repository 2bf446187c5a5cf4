use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::{
    ApiVersionsResponse, ListGroupsResponse, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, ErrorCode, header};

use super::*;
use crate::error::Evidence;
use crate::release::Era;
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
fn a_broker_that_is_not_the_one_meant_refuses() {
    let now = start();
    let meant = || {
        let connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
        let mut connection = connection.expecting(now, "cluster-7", 3).unwrap();
        let (api, version, rest) = sent(&mut connection).unwrap();
        assert_eq!((api, version), (18, 5));
        assert!(rest.windows(9).any(|at| at == b"cluster-7"));
        assert!(rest.ends_with(&[0, 0, 0, 3, 0]));
        assert!(connection.poll_transmit().is_none());
        connection
    };
    let error = meant()
        .handle_bytes(now, &mut answer(&versions(129, 5), 5, 0))
        .unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::REBOOTSTRAP_REQUIRED));
    assert!(error.message().contains("another cluster") && error.is_retriable());
    let mut accepted = meant();
    accepted
        .handle_bytes(now, &mut answer(&versions(0, 5), 5, 0))
        .unwrap();
    assert!(matches!(accepted.poll_heard(), Some(Heard::Ready(_))));
    // A broker that does not know this version of the request gets one that it knows.
    let mut old = meant();
    old.handle_bytes(now, &mut answer(&versions(35, 3), 0, 0))
        .unwrap();
    assert!(matches!(sent(&mut old), Some((18, 3, _))));
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

/// Rule: 2.4.2.
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
    let written = connection.handle_written();
    let tokens: Vec<_> = written.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, [1, 2]);
    assert!(written.iter().all(|(_, bytes)| *bytes > 4));
    assert_eq!(connection.next_timeout(), None);
    connection.send(now, unanswered(3)).unwrap();
    let late = connection.next_timeout().unwrap();
    assert_eq!(late, now + Duration::from_secs(30));
    let error = connection.handle_timeout(late).unwrap_err();
    assert!(error.message().contains("did not take"), "{error}");
}

/// Rule: 2.4.7.
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

/// Rule: 2.4.2.
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

/// Rule: 2.4.1.
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

/// Rule: 2.4.1.
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

fn approaching(now: Instant, approach: Approach) -> Connection {
    let connection = Connection::new(now, "test", SETUP, LIMIT).unwrap();
    let within = Duration::from_secs(4);
    connection.approaching(now, approach, within).unwrap()
}

/// API and version of the next frame to be sent.
fn asks(connection: &mut Connection) -> Option<(i16, i16)> {
    let frame = connection.poll_transmit()?.into_bytes();
    let number = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
    Some((number(4), number(6)))
}

const VERSIONS: (i16, i16) = (18, 4);
const VERSIONS_0: (i16, i16) = (18, 0);
const OFFSETS: (i16, i16) = (2, 0);
const GROUPS: (i16, i16) = (16, 0);

/// A probe whose first `answered` requests got their responses.
fn probing(now: Instant, answered: i32) -> Connection {
    let mut connection = approaching(now, Approach::Probe);
    assert_eq!(asks(&mut connection), Some(OFFSETS));
    if answered > 0 {
        let mut bytes = answer(&ListOffsetsResponse::default(), 0, 0);
        connection.handle_bytes(now, &mut bytes).unwrap();
        assert_eq!(asks(&mut connection), Some(GROUPS));
    }
    if answered > 1 {
        let mut bytes = answer(&ListGroupsResponse::default(), 0, 1);
        connection.handle_bytes(now, &mut bytes).unwrap();
        assert_eq!(asks(&mut connection), Some(VERSIONS_0));
    }
    assert_eq!(asks(&mut connection), None);
    assert_eq!(connection.poll_heard(), None);
    connection
}

#[test]
fn a_probe_of_0_8_ends_with_a_close_on_the_groups() {
    let now = start();
    let mut asked = approaching(now, Approach::Ask);
    assert_eq!(asks(&mut asked), Some(VERSIONS));
    assert_eq!(asked.closed(false).evidence(), Some(Evidence::Suspect));
    let error = probing(now, 1).closed(false);
    assert_eq!(error.evidence(), Some(Evidence::Proven(Era::V0_8)));
}

#[test]
fn a_probe_of_0_9_ends_with_silence_about_versions() {
    let now = start();
    let mut asked = approaching(now, Approach::Ask);
    let due = now + Duration::from_secs(4);
    assert_eq!(asked.next_timeout(), Some(due));
    let error = asked.handle_timeout(due).unwrap_err();
    assert_eq!(error.evidence(), Some(Evidence::Suspect));
    assert!(error.message().contains("within 4000 ms"), "{error}");
    let mut asked = approaching(now, Approach::AskBriefly);
    assert_eq!(asks(&mut asked), Some(VERSIONS));
    let due = now + Duration::from_secs(2);
    let error = asked.handle_timeout(due).unwrap_err();
    assert_eq!(error.evidence(), Some(Evidence::Suspect));
    assert!(error.message().contains("within 2000 ms"), "{error}");

    let mut probed = probing(now, 2);
    let due = now + Duration::from_secs(2);
    assert_eq!(probed.next_timeout(), Some(due));
    let error = probed.handle_timeout(due).unwrap_err();
    assert_eq!(error.evidence(), Some(Evidence::Proven(Era::V0_9)));
}

#[test]
fn a_probe_of_a_newer_broker_ends_with_its_versions() {
    let now = start();
    let mut connection = probing(now, 2);
    let mut bytes = answer(&versions(0, 0), 0, 2);
    connection.handle_bytes(now, &mut bytes).unwrap();
    let Some(Heard::Ready(versions)) = connection.poll_heard() else {
        panic!("not ready")
    };
    assert!(!versions.is_assumed());
    assert!(connection.is_ready());
}

/// The third response would have been as late as the two before it.
#[test]
fn silence_on_a_slow_way_proves_nothing() {
    for (each, proof) in [(400, Some(Evidence::Proven(Era::V0_9))), (900, None)] {
        let mut now = start();
        let mut connection = approaching(now, Approach::Probe);
        let answers = [
            answer(&ListOffsetsResponse::default(), 0, 0),
            answer(&ListGroupsResponse::default(), 0, 1),
        ];
        for mut bytes in answers {
            now += Duration::from_millis(each);
            connection.handle_bytes(now, &mut bytes).unwrap();
        }
        let due = connection.next_timeout().unwrap();
        let error = connection.handle_timeout(due).unwrap_err();
        assert_eq!(error.evidence(), proof, "{each}: {error}");
        assert_eq!(error.message().contains("responds slowly"), proof.is_none());
    }
}

#[test]
fn what_may_be_a_fault_proves_nothing() {
    let now = start();
    // Closed at the first and at the last request, or in the middle of a response.
    for (answered, in_answer) in [(0, false), (2, false), (0, true), (1, true), (2, true)] {
        let error = probing(now, answered).closed(in_answer);
        assert_eq!(error.evidence(), None, "{answered} {in_answer}: {error}");
        assert_eq!(error.kind(), Kind::Unreachable);
    }
    // No response to a request to which every old broker responds.
    for answered in 0..2 {
        let mut connection = probing(now, answered);
        assert_eq!(connection.next_timeout(), Some(now + SETUP));
        let error = connection.handle_timeout(now + SETUP).unwrap_err();
        assert_eq!(error.evidence(), None, "{error}");
    }
    // Bytes that are not a response.
    for answered in 0..3 {
        let mut bytes = BytesMut::from(&[0, 0, 0, 5, 0, 0, 0, answered, 7][..]);
        let mut connection = probing(now, i32::from(answered));
        let error = connection.handle_bytes(now, &mut bytes).unwrap_err();
        assert_eq!(error.evidence(), None, "{error}");
        assert_eq!(error.kind(), Kind::NotKafka);
    }
    let mut bytes = answer(&versions(35, 0), 0, 2);
    let error = probing(now, 2).handle_bytes(now, &mut bytes).unwrap_err();
    assert_eq!(error.evidence(), None, "{error}");
}

#[test]
fn a_broker_that_is_taken_for_old_has_to_answer_first() {
    let now = start();
    for (era, produce) in [(Era::V0_8, 0), (Era::V0_9, 1)] {
        let mut connection = approaching(now, Approach::Assume(era));
        assert_eq!(asks(&mut connection), Some(OFFSETS));
        assert!(!connection.is_ready());
        let closed = connection.closed(false);
        assert_eq!(closed.evidence(), Some(Evidence::Refuted));
        let mut bytes = answer(&ListOffsetsResponse::default(), 0, 0);
        connection.handle_bytes(now, &mut bytes).unwrap();
        let Some(Heard::Ready(versions)) = connection.poll_heard() else {
            panic!("not ready")
        };
        assert_eq!(versions.release(), era.name());
        assert_eq!(versions.choose(ApiKey::Produce, i16::MAX), Ok(produce));
        assert_eq!(asks(&mut connection), None);
        assert_eq!(connection.closed(false).evidence(), None);
        let sent = connection.send(
            now,
            Outgoing {
                version: 0,
                ..metadata(1)
            },
        );
        assert_eq!(&sent.unwrap().into_bytes()[4..8], &[0, 3, 0, 0]);
    }
    let mut stranger = approaching(now, Approach::Assume(Era::V0_9));
    let mut bytes = BytesMut::from(&b"\0\0\0\x05\0\0\0\0\x01"[..]);
    let error = stranger.handle_bytes(now, &mut bytes).unwrap_err();
    assert_eq!(error.evidence(), Some(Evidence::Refuted));
}

#[test]
fn where_authentication_is_wanted_that_0_9_does_not_know_no_broker_is_probed() {
    let now = start();
    for approach in [Approach::Probe, Approach::Assume(Era::V0_9), Approach::Ask] {
        let authentication = Authentication {
            mechanism: Box::new(Shouting::new("SHOUTING")),
            again_within: AGAIN,
            seed: 7,
        };
        let connection =
            Connection::authenticated(now, "test", SETUP, LIMIT, Some(authentication)).unwrap();
        let mut connection = connection.approaching(now, approach, SETUP).unwrap();
        assert_eq!(asks(&mut connection), Some(VERSIONS), "{approach:?}");
        let suspected = Some(Evidence::Suspect);
        assert_eq!(connection.closed(false).evidence(), suspected);
        let error = connection.handle_timeout(now + SETUP).unwrap_err();
        assert_eq!(error.evidence(), suspected);
    }
}

/// Sends `hello`, responds to a challenge with its text in capitals, and is done at `welcome`.
#[derive(Debug)]
struct Shouting {
    name: &'static str,
    begun: u32,
}

impl Shouting {
    fn new(name: &'static str) -> Shouting {
        Shouting { name, begun: 0 }
    }
}

impl Mechanism for Shouting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn advice(&self) -> &'static str {
        "speak up"
    }

    fn begin(&mut self) -> Result<Step, Error> {
        self.begun += 1;
        Ok(Step::Send(format!("hello {}", self.begun).into()))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        match &challenge[..] {
            b"welcome" => Ok(Step::Done),
            b"" => Err(Error::new(Kind::Protocol, "the broker said nothing")),
            b"chance?" => Ok(Step::Need(Need::Nonce)),
            b"farewell?" => Ok(Step::Last(Bytes::from_static(b"farewell"))),
            text => Ok(Step::Send(text.to_ascii_uppercase().into())),
        }
    }

    fn take(&mut self, given: Given) -> Result<Step, Error> {
        assert_eq!(given, Given::Nonce([1; 24]));
        Ok(Step::Send(Bytes::from_static(b"chance")))
    }
}

const AGAIN: Duration = Duration::from_secs(7);

/// A connection to a broker that knows these versions of SaslHandshake and SaslAuthenticate; it has just heard of them.
fn authenticating(now: Instant, handshake: i16, authenticate: i16) -> Result<Connection, Error> {
    let mut connection = unheard(now);
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

/// A connection that has just asked for versions.
fn unheard(now: Instant) -> Connection {
    let authentication = Authentication {
        mechanism: Box::new(Shouting::new("SHOUTING")),
        again_within: AGAIN,
        seed: 3,
    };
    let mut connection =
        Connection::authenticated(now, "test", SETUP, LIMIT, Some(authentication)).unwrap();
    assert!(connection.poll_transmit().is_some());
    connection
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
    let told = versions(0, 4);
    let mut connection = unheard(now);
    let error = connection
        .handle_bytes(now, &mut answer(&told, 4, 0))
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.api()),
        (Kind::Unsupported, Some("SaslHandshake"))
    );
}

/// A frame with nothing but its length before it.
fn bare(bytes: &[u8]) -> BytesMut {
    let mut frame = BytesMut::from(&(bytes.len() as u32).to_be_bytes()[..]);
    frame.extend_from_slice(bytes);
    frame
}

/// KIP-43, before KIP-152: 0.10 and 0.11.
#[test]
fn brokers_before_1_0_get_bare_bytes() {
    let now = start();
    let mut connection = authenticating(now, 0, 0).unwrap();
    assert_eq!(sent(&mut connection).unwrap().1, 0);
    let mut bytes = answer(&names(ErrorCode::NONE, &[]), 0, 1);
    connection.handle_bytes(now, &mut bytes).unwrap();
    let said = |connection: &mut Connection| connection.poll_transmit().unwrap().into_bytes();
    assert_eq!(said(&mut connection), bare(b"hello 1"));
    assert_eq!(connection.next_timeout(), Some(now + SETUP));
    assert!(!connection.is_idle());
    let closed = connection.closed(false);
    assert_eq!(closed.kind(), Kind::Authentication);
    assert!(closed.message().contains("before 1.0"), "{closed}");
    let late = connection.handle_timeout(now + SETUP).unwrap_err();
    assert!(late.message().contains("SHOUTING was not done"), "{late}");
    connection.handle_bytes(now, &mut bare(b"who")).unwrap();
    assert_eq!(said(&mut connection), bare(b"WHO"));
    connection.handle_bytes(now, &mut bare(b"chance?")).unwrap();
    assert_eq!(connection.poll_need(), Some(Need::Nonce));
    let given = connection.handle_given(now, Ok(Given::Nonce([1; 24])));
    given.unwrap();
    assert_eq!(said(&mut connection), bare(b"chance"));
    connection
        .handle_bytes(now, &mut bare(b"farewell?"))
        .unwrap();
    assert_eq!(said(&mut connection), bare(b"farewell"));
    assert!(connection.is_ready(), "the last bytes have no answer");
    assert!(matches!(connection.poll_heard(), Some(Heard::Ready(_))));
    assert_eq!(connection.next_timeout(), None);
    connection.send(now, metadata(1)).unwrap();
    let mut bytes = answer(&MetadataResponse::default(), 9, 2);
    connection.handle_bytes(now, &mut bytes).unwrap();
}

/// 0.9: no SaslHandshake, and GSSAPI's bytes are the first of the connection.
#[test]
fn a_suspected_broker_is_spoken_to_as_0_9_where_it_is_known_to_authenticate() {
    let now = start();
    let with = |name| {
        let authentication = Authentication {
            mechanism: Box::new(Shouting::new(name)),
            again_within: AGAIN,
            seed: 3,
        };
        Connection::authenticated(now, "test", SETUP, LIMIT, Some(authentication)).unwrap()
    };
    let said = |connection: &mut Connection| connection.poll_transmit().unwrap().into_bytes();
    let suspected = with("GSSAPI").closed(false);
    assert_eq!(suspected.evidence(), Some(Evidence::Suspect));
    for approach in [Approach::Probe, Approach::Assume(Era::V0_9)] {
        let mut connection = with("GSSAPI").approaching(now, approach, SETUP).unwrap();
        connection = connection.expecting(now, "cluster", 1).unwrap();
        assert_eq!(said(&mut connection), bare(b"hello 1"));
        assert_eq!(connection.next_timeout(), Some(now + SETUP));
        let closed = connection.closed(false);
        assert_eq!(closed.kind(), Kind::Unreachable);
        for word in ["0.9", "speak up", "SASL_SSL"] {
            assert!(closed.message().contains(word), "{closed}");
        }
        connection
            .handle_bytes(now, &mut bare(b"farewell?"))
            .unwrap();
        assert_eq!(said(&mut connection), bare(b"farewell"));
        let Some(Heard::Ready(versions)) = connection.poll_heard() else {
            panic!("not ready")
        };
        assert!(connection.is_ready());
        assert_eq!(versions.release(), "0.9");
        connection.send(now, metadata(1)).unwrap();
    }
    for (name, approach) in [
        ("GSSAPI", Approach::Assume(Era::V0_8)),
        ("GSSAPI", Approach::AskBriefly),
        ("PLAIN", Approach::Probe),
    ] {
        let mut connection = with(name).approaching(now, approach, SETUP).unwrap();
        let asked = sent(&mut connection).unwrap();
        assert_eq!(asked.0, ApiKey::ApiVersions.as_i16());
    }
}

#[test]
fn what_is_needed_from_outside_is_asked_for_once_and_awaited() {
    let now = start();
    let mut connection = authenticating(now, 1, 2).unwrap();
    let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
    connection.handle_bytes(now, &mut bytes).unwrap();
    let mut bytes = answer(&challenge(b"chance?", 0), 2, 2);
    connection.handle_bytes(now, &mut bytes).unwrap();
    assert_eq!(connection.poll_need(), Some(Need::Nonce));
    assert_eq!(connection.poll_need(), None);
    assert_eq!(connection.next_timeout(), Some(now + SETUP));
    let mut early = answer(&challenge(b"welcome", 0), 2, 3);
    let error = connection.handle_bytes(now, &mut early).unwrap_err();
    assert!(
        error.message().contains("no request is in flight"),
        "{error}"
    );
    let late = connection.handle_timeout(now + SETUP).unwrap_err();
    assert_eq!(late.kind(), Kind::Unreachable);
    connection
        .handle_given(now, Ok(Given::Nonce([1; 24])))
        .unwrap();
    while sent(&mut connection).is_some() {}
    let mut last = answer(&challenge(b"farewell?", 0), 2, 3);
    connection.handle_bytes(now, &mut last).unwrap();
    let mut accepted = answer(&challenge(b"", 60_000), 2, 4);
    connection.handle_bytes(now, &mut accepted).unwrap();
    assert!(connection.is_ready());
    assert!(connection.next_timeout().is_some(), "the session ends");
    let error = connection
        .handle_given(now, Ok(Given::Nonce([1; 24])))
        .unwrap_err();
    assert!(error.message().contains("does not need"), "{error}");
}

#[test]
fn what_cannot_be_had_ends_the_connection() {
    let now = start();
    for (kind, wanted) in [
        (Kind::Unreachable, Kind::Unreachable),
        (Kind::Broker, Kind::Authentication),
        (Kind::Authentication, Kind::Authentication),
    ] {
        let mut connection = authenticating(now, 1, 2).unwrap();
        let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
        connection.handle_bytes(now, &mut bytes).unwrap();
        let mut bytes = answer(&challenge(b"chance?", 0), 2, 2);
        connection.handle_bytes(now, &mut bytes).unwrap();
        let error = connection
            .handle_given(now, Err(Error::new(kind, "no dice")))
            .unwrap_err();
        assert_eq!(error.kind(), wanted);
        assert!(error.message().contains("by SHOUTING: no dice"), "{error}");
    }
}

/// Rule: 2.4.14.
#[test]
fn a_broker_that_never_ends_or_says_too_much_is_given_up() {
    let now = start();
    let begun = || {
        let mut connection = authenticating(now, 1, 2).unwrap();
        let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
        connection.handle_bytes(now, &mut bytes).unwrap();
        connection
    };
    let mut connection = begun();
    let error = (2..100)
        .find_map(|id| {
            let mut bytes = answer(&challenge(b"more", 0), 2, id);
            connection.handle_bytes(now, &mut bytes).err()
        })
        .unwrap();
    assert!(error.message().contains("an end"), "{error}");
    let mut long = answer(&challenge(&[b'x'; 70_000], 0), 2, 2);
    let error = begun().handle_bytes(now, &mut long).unwrap_err();
    assert!(error.message().contains("70000 bytes"), "{error}");
}

/// Rule: 2.4.14.
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
fn each_error_of_an_authentication_says_what_to_do() {
    let now = start();
    for (code, wanted) in [
        (
            ErrorCode::ILLEGAL_SASL_STATE,
            "set security.protocol to PLAINTEXT or SSL",
        ),
        (ErrorCode::SASL_AUTHENTICATION_FAILED, "speak up"),
        (ErrorCode::REQUEST_TIMED_OUT, "tries again"),
        (
            ErrorCode::UNKNOWN_SERVER_ERROR,
            "the broker's log has the reason",
        ),
    ] {
        let mut connection = authenticating(now, 1, 2).unwrap();
        let named = connection
            .handle_bytes(now, &mut answer(&names(code, &[]), 1, 1))
            .unwrap_err();
        let mut connection = authenticating(now, 1, 2).unwrap();
        let mut bytes = answer(&names(ErrorCode::NONE, &[]), 1, 1);
        connection.handle_bytes(now, &mut bytes).unwrap();
        let refusal = SaslAuthenticateResponse {
            error_code: code.0,
            ..Default::default()
        };
        let refused = connection
            .handle_bytes(now, &mut answer(&refusal, 2, 2))
            .unwrap_err();
        for (error, api) in [(named, "SaslHandshake"), (refused, "SaslAuthenticate")] {
            assert_eq!((error.code(), error.api()), (Some(code), Some(api)));
            assert_eq!(error.kind(), Kind::Authentication);
            assert!(error.message().contains(wanted), "{error}");
        }
    }
}

#[test]
fn a_refusal_carries_the_brokers_words_and_code() {
    let now = start();
    for (said, wanted) in [
        (Some("no such user"), "no such user"),
        (
            None,
            "is not authenticated by SHOUTING: SASL_AUTHENTICATION_FAILED: speak up",
        ),
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

/// Rule: 2.4.1.
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
    let late = due + Duration::from_millis(5);
    authenticate(&mut connection, late, 6, 100_000, "hello 2");
    let renewed = Heard::Renewed(Duration::from_millis(5));
    assert_eq!(connection.poll_heard(), Some(renewed));
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

/// Rule: 2.4.14.
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
