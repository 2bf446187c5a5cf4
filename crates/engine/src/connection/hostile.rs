//! The set-up of connections, versions and authentication, against random responses. Each failure
//! names its seed.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ottla_protocol::messages::api_versions_response::ApiVersion;
use ottla_protocol::messages::{
    ApiVersionsResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
};
use ottla_protocol::{ApiKey, header};

use super::{Authentication, Connection, Heard};
use crate::error::Error;
use crate::random::Random;
use crate::sasl::{Mechanism, Step};
use crate::script::start;

const SEEDS: u64 = 4000;
const SETUP: Duration = Duration::from_secs(10);

/// Returns every challenge unchanged, and never ends by itself unless it is set to.
#[derive(Debug)]
struct Echo;

impl Mechanism for Echo {
    fn name(&self) -> &'static str {
        "ECHO"
    }

    fn advice(&self) -> &'static str {
        "call louder"
    }

    fn begin(&mut self) -> Result<Step, Error> {
        Ok(Step::Send(Bytes::from_static(b"begin")))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        match &challenge[..] {
            b"done" => Ok(Step::Done),
            _ => Ok(Step::Send(challenge)),
        }
    }
}

/// Chance, and whether the mechanism's bytes come without headers from now on (SaslHandshake 0).
struct Broker(Random, bool);

impl Broker {
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len())]
    }

    fn code(&mut self) -> i16 {
        match self.0.below(4) {
            0 => self.of(&[33, 34, 35, 58, -1, 129, 999, i16::MIN]),
            _ => 0,
        }
    }

    /// The frame with the response to a request, or something else.
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        if self.1 {
            let token: &[u8] = self.of(&[b"done", b"more", b"", b"\0\xff"]);
            let mut frame = i32::try_from(token.len()).unwrap().to_be_bytes().to_vec();
            frame.extend_from_slice(token);
            if self.0.below(6) == 0 {
                self.damage(&mut frame);
            }
            return frame;
        }
        let short = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        let (api, mut version) = (short(4), short(6));
        self.1 = (api, version) == (ApiKey::SaslHandshake.as_i16(), 0);
        let mut correlation = i32::from_be_bytes(request[8..12].try_into().unwrap());
        let lie = self.0.below(3) == 0;
        if lie && self.0.below(6) == 0 {
            correlation += 1;
        }
        if lie && self.0.below(3) == 0 {
            version = self.of(&[0, 1, 2, 3, 4]);
        }
        let frame = match ApiKey::from_i16(api) {
            Some(ApiKey::ApiVersions) => {
                let answer = self.versions(lie);
                header::encode_response(&answer, version, correlation)
            }
            Some(ApiKey::SaslHandshake) => {
                let answer = SaslHandshakeResponse {
                    error_code: if lie { self.code() } else { 0 },
                    mechanisms: vec!["ECHO".into(); self.0.below(3)],
                };
                header::encode_response(&answer, version.min(1), correlation)
            }
            _ => {
                let answer = SaslAuthenticateResponse {
                    error_code: if lie { self.code() } else { 0 },
                    error_message: self.of(&[None, Some("no"), Some("")]).map(Into::into),
                    auth_bytes: Bytes::from_static(self.of(&[b"done", b"more", b"", b"\0\xff"])),
                    session_lifetime_ms: self.of(&[0, 1, 1000, -1, i64::MAX, i64::MIN]),
                    ..Default::default()
                };
                header::encode_response(&answer, version.min(2), correlation)
            }
        };
        let mut frame = frame.unwrap().into_bytes().to_vec();
        if lie && self.0.below(2) == 0 {
            self.damage(&mut frame);
        }
        frame
    }

    fn versions(&mut self, lie: bool) -> ApiVersionsResponse {
        let mut api_keys = Vec::new();
        for (api_key, max) in [(18, 4), (17, 1), (36, 2), (3, 13)] {
            let limits = [0, 1, max, -1, i16::MAX, i16::MIN];
            api_keys.push(ApiVersion {
                api_key,
                min_version: if lie { self.of(&limits) } else { 0 },
                max_version: if lie { self.of(&limits) } else { max },
                ..Default::default()
            });
        }
        ApiVersionsResponse {
            error_code: if lie { self.code() } else { 0 },
            api_keys,
            ..Default::default()
        }
    }

    fn damage(&mut self, frame: &mut Vec<u8>) {
        let at = self.0.below(frame.len());
        match self.0.below(4) {
            0 => frame.truncate(at),
            1 => frame[at] = self.of(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => frame.insert(at, 0xff),
            _ => frame.extend_from_slice(b"more"),
        }
    }
}

/// What the set-up led to: ready or not, and when.
fn set_up(seed: u64) -> (Result<(), Error>, Duration) {
    let begun = start();
    let mut now: Instant = begun;
    let mut broker = Broker(Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), false);
    let authentication = Authentication {
        mechanism: Box::new(Echo),
        again_within: SETUP,
        seed,
    };
    let authentication = (!seed.is_multiple_of(4)).then_some(authentication);
    let connection = Connection::authenticated(now, "test", SETUP, 100 << 20, authentication);
    let mut connection = connection.unwrap();
    let mut input = BytesMut::new();
    loop {
        let ended = loop {
            let Some(request) = connection.poll_transmit() else {
                break Ok(());
            };
            input.extend_from_slice(&broker.answer(&request.into_bytes()));
            if let Err(error) = connection.handle_bytes(now, &mut input) {
                break Err(error);
            }
            if let Some(Heard::Ready(_)) = connection.poll_heard() {
                return (Ok(()), now - begun);
            }
            now += Duration::from_millis(broker.of(&[0, 1, 20, 400, 3000]));
            if now >= begun + 3 * SETUP {
                break Ok(());
            }
            if let Err(error) = connection.handle_timeout(now) {
                break Err(error);
            }
        };
        if ended.is_err() {
            return (ended, now - begun);
        }
        // Nothing is to be sent: a response is missing, or arrived in part.
        assert!(
            connection.room(&input) <= (1 << 20) + 4,
            "seed {seed}: space for a length that was only claimed"
        );
        let at = connection.next_timeout();
        now = at
            .unwrap_or_else(|| panic!("seed {seed}: it waits for ever"))
            .max(now);
        if let Err(error) = connection.handle_timeout(now) {
            return (Err(error), now - begun);
        }
    }
}

#[test]
fn whatever_a_broker_answers_a_connection_is_ready_or_refused_in_time() {
    let (mut ready, mut refused) = (0, 0);
    for seed in 0..SEEDS {
        let (ended, took) = set_up(seed);
        // The last step of the clock may lead past the deadline.
        assert!(
            took <= SETUP + Duration::from_secs(3),
            "seed {seed} took {took:?}"
        );
        match ended {
            Ok(()) => ready += 1,
            Err(error) => {
                assert!(!error.message().is_empty(), "seed {seed}");
                refused += 1;
            }
        }
    }
    // Both happen, or this would test nothing.
    assert!(
        ready > 300 && refused > 300,
        "{ready} ready, {refused} refused"
    );
}
