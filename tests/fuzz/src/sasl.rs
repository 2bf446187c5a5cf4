//! What a hostile broker says during an authentication, to each mechanism; and texts of `sasl.jaas.config`.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use ottla_engine::config::{Config, Role};
use ottla_engine::connection::{Authentication, Connection};
use ottla_engine::credentials::Reply;
use ottla_engine::messages::{
    ApiVersionsResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
    api_versions_response::ApiVersion,
};
use ottla_engine::sasl::{Given, Need, mechanism};
use ottla_protocol::header;

use crate::input::Input;

const MECHANISMS: [&str; 6] = [
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "AWS_MSK_IAM",
    "GSSAPI",
];

/// A mechanism and the handshake's version in one byte, then for each step its length and what the broker says.
pub fn exchange(data: &[u8]) {
    let now = Instant::now();
    let mut input = Input(data);
    let chosen = usize::from(input.u8());
    let name = MECHANISMS
        .get(chosen % MECHANISMS.len())
        .copied()
        .unwrap_or_default();
    let bare = chosen / MECHANISMS.len() % 2 == 1;
    let pairs = [
        ("bootstrap.servers", "b:1"),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.allow.plaintext", "true"),
        ("sasl.mechanism", name),
        ("sasl.username", "user"),
        ("sasl.password", "pencil-s3cret"),
    ];
    let config = Config::parse(Role::Admin, pairs).expect("settings");
    let authentication = Authentication {
        mechanism: mechanism(&config).expect("usable").expect("chosen"),
        again_within: Duration::from_secs(1),
        seed: 1,
    };
    let within = Duration::from_secs(1);
    let mut connection =
        Connection::authenticated(now, "fuzz", within, 1 << 20, Some(authentication))
            .expect("a connection");
    let mut correlation = 0;
    let mut said = answer(&versions(bare), 4, &mut correlation);
    said.extend_from_slice(&answer(
        &SaslHandshakeResponse::default(),
        i16::from(!bare),
        &mut correlation,
    ));
    while !connection.is_ready() {
        while connection.poll_transmit().is_some() {}
        if let Err(error) = connection.handle_bytes(now, &mut said) {
            assert!(!error.message().is_empty());
            assert!(!format!("{error} {error:?} {connection:?}").contains("pencil-s3cret"));
            return;
        }
        if let Some(need) = connection.poll_need() {
            let given = match need {
                Need::Nonce => Given::Nonce([b'n'; 24]),
                // It takes as long as the broker says, and no input could guess what it gives.
                Need::Stretch(_) => Given::Stretched(vec![7; 32]),
                Need::Outside(_) => Given::Reply(reply(&mut input)),
            };
            if connection.handle_given(now, Ok(given)).is_err() {
                return;
            }
            continue;
        }
        if input.0.is_empty() {
            return;
        }
        let length = usize::from(input.u8());
        let challenge = input.0.get(..length).unwrap_or(input.0).to_vec();
        input.0 = input.0.get(length..).unwrap_or_default();
        said = if bare {
            let mut frame = BytesMut::from(&(challenge.len() as u32).to_be_bytes()[..]);
            frame.extend_from_slice(&challenge);
            frame
        } else {
            let body = SaslAuthenticateResponse {
                auth_bytes: challenge.into(),
                ..Default::default()
            };
            answer(&body, 2, &mut correlation)
        };
    }
}

/// A text of `sasl.jaas.config`.
pub fn login(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let pairs = [
        ("bootstrap.servers", "b:1"),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.allow.plaintext", "true"),
        ("sasl.jaas.config", text),
    ];
    if let Err(error) = Config::parse(Role::Admin, pairs) {
        assert!(!error.problem.is_empty());
    }
}

/// First inputs of [`exchange`]: what sound brokers say.
pub fn exchanges() -> Vec<Vec<u8>> {
    let nonce = "bm5u".repeat(8);
    let first = format!("r={nonce}more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    let steps: [&[&[u8]]; 6] = [
        &[b""],
        &[
            first.as_bytes(),
            b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ],
        &[first.as_bytes(), b"e=invalid-proof"],
        &[b"{\"status\":\"invalid_token\"}", b""],
        &[b"{\"version\":\"2020_10_22\"}"],
        &[
            b"\x01\x03AP-REQ",
            b"\0\0",
            b"\x01\x04\x07\0\x10\0",
            b"\x01\x02ok",
        ],
    ];
    let with = |handshake: usize| {
        steps.iter().enumerate().map(move |(mechanism, said)| {
            let mut input = vec![(mechanism + handshake * MECHANISMS.len()) as u8];
            for step in *said {
                input.push(step.len() as u8);
                input.extend_from_slice(step);
            }
            input
        })
    };
    with(0).chain(with(1)).collect()
}

/// First inputs of [`login`].
pub fn logins() -> Vec<Vec<u8>> {
    [
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"a\" password=\"b\\\"c\";",
        "x.ScramLoginModule sufficient username='a' password=b tokenauth=true;",
        "Krb5LoginModule required useKeyTab=true keyTab=\"/k\" ;",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn reply(input: &mut Input<'_>) -> Reply {
    let (complete, length) = (input.u8().is_multiple_of(2), usize::from(input.u8() % 8));
    let bytes = input.0.get(..length).unwrap_or(input.0).to_vec();
    input.0 = input.0.get(length..).unwrap_or_default();
    Reply {
        bytes,
        complete,
        ..Default::default()
    }
}

fn versions(bare: bool) -> ApiVersionsResponse {
    let rows = [(18, 4), (17, i16::from(!bare)), (36, 2)];
    let api_keys = rows.map(|(api_key, max_version)| ApiVersion {
        api_key,
        max_version,
        ..Default::default()
    });
    ApiVersionsResponse {
        api_keys: api_keys.to_vec(),
        ..Default::default()
    }
}

fn answer<R: ottla_protocol::Response>(body: &R, version: i16, correlation: &mut i32) -> BytesMut {
    let frame = header::encode_response(body, version, *correlation).expect("it encodes");
    *correlation += 1;
    BytesMut::from(&frame.into_bytes()[..])
}
