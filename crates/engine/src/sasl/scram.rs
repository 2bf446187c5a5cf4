//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84), and delegation tokens by it (KIP-48).
//!
//! ```text
//! begin() ── nonce ──▶ client-first ──▶ server-first ── stretched password ──▶ client-final ──▶ server-final: it knows us too
//! ```
//!
//! Kafka's brokers and clients take passwords as they are, without SASLprep: so does this, or passwords that SASLprep
//! changes would never match. Without channel binding, which Kafka's brokers do not offer.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use ring::{digest, hmac};

use super::hash::Hash;
use super::outside::{Given, Need, Stretch};
use super::{Mechanism, Step, out_of_turn, quoted, refused};
use crate::config::Secret;
use crate::error::Error;

/// Fewer make guessing a password too cheap (RFC 7677 names them); Kafka's brokers refuse to store fewer.
const FEWEST_ITERATIONS: u32 = 4096;
/// More would let a broker keep the client busy.
const MOST_ITERATIONS: u32 = 1_000_000;
/// The most bytes of a broker's message.
const LONGEST_MESSAGE: usize = 4096;
/// The header of a client without channel binding, and the same as its final message repeats it.
const GS2: &str = "n,,";
const GS2_IN_BASE64: &str = "biws";

/// Name and password, or a delegation token's id and HMAC.
#[derive(Debug)]
pub(super) struct Scram {
    hash: Hash,
    user: String,
    password: Secret,
    /// Whether name and password are those of a delegation token.
    token: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Nonce,
    First {
        nonce: String,
        bare: String,
    },
    Stretching {
        /// The text that both sides sign, except its end.
        signed: String,
        /// The final message, but for its proof.
        last: String,
    },
    Final {
        key: hmac::Key,
        signed: String,
    },
}

impl Scram {
    pub(super) fn new(hash: Hash, user: &str, password: &Secret, token: bool) -> Scram {
        Scram {
            hash,
            user: user.to_owned(),
            password: password.clone(),
            token,
            stage: Stage::Idle,
        }
    }

    pub(super) fn name_of(hash: Hash) -> &'static str {
        match hash {
            Hash::Sha256 => "SCRAM-SHA-256",
            Hash::Sha512 => "SCRAM-SHA-512",
        }
    }

    pub(super) fn first(&mut self, nonce: &str) -> Step {
        let user = self.user.replace('=', "=3D").replace(',', "=2C");
        let extension = if self.token { ",tokenauth=true" } else { "" };
        let bare = format!("n={user},r={nonce}{extension}");
        let message = format!("{GS2}{bare}");
        self.stage = Stage::First {
            nonce: nonce.to_owned(),
            bare,
        };
        Step::Send(message.into())
    }

    fn server_first(&mut self, nonce: &str, bare: &str, message: &str) -> Result<Step, Error> {
        let first = ServerFirst::read(message)?;
        if first.nonce.len() <= nonce.len() || !first.nonce.starts_with(nonce) {
            return Err(refused(
                "the broker's SCRAM nonce does not continue the client's: something between the two may be at work",
            ));
        }
        let last = format!("c={GS2_IN_BASE64},r={}", first.nonce);
        self.stage = Stage::Stretching {
            signed: format!("{bare},{message},{last}"),
            last,
        };
        Ok(Step::Need(Need::Stretch(Stretch {
            hash: self.hash,
            password: self.password.clone(),
            salt: first.salt,
            iterations: first.iterations,
        })))
    }

    fn client_final(&mut self, stretched: &[u8], signed: String, last: &str) -> Step {
        let hash = self.hash;
        let client_key = hash.sign(stretched, b"Client Key");
        let stored_key = digest::digest(hash.digest(), client_key.as_ref());
        let signature = hash.sign(stored_key.as_ref(), signed.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, signature)| key ^ signature).collect();
        let server_key = hash.sign(stretched, b"Server Key");
        self.stage = Stage::Final {
            key: hmac::Key::new(hash.hmac(), server_key.as_ref()),
            signed,
        };
        Step::Send(format!("{last},p={}", BASE64.encode(proof)).into())
    }
}

impl Mechanism for Scram {
    fn name(&self) -> &'static str {
        Scram::name_of(self.hash)
    }

    fn user(&self) -> Option<&str> {
        Some(&self.user)
    }

    fn advice(&self) -> &'static str {
        if self.token {
            "check the delegation token's id and HMAC, and whether it expired"
        } else {
            "check sasl.username and sasl.password, and whether the user has a password for this mechanism"
        }
    }

    fn begin(&mut self) -> Result<Step, Error> {
        self.stage = Stage::Nonce;
        Ok(Step::Need(Need::Nonce))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        let message = text(&challenge)?;
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::First { nonce, bare } => self.server_first(&nonce, &bare, message),
            Stage::Final { key, signed } => {
                let signature = read_final(message)?;
                // In constant time.
                hmac::verify(&key, signed.as_bytes(), &signature).map_err(|_| {
                    refused(
                        "the broker did not prove that it knows the user: its SCRAM signature is wrong, so it may not be \
                         the broker that it claims to be",
                    )
                })?;
                Ok(Step::Done)
            }
            Stage::Idle | Stage::Nonce | Stage::Stretching { .. } => Err(out_of_turn()),
        }
    }

    fn take(&mut self, given: Given) -> Result<Step, Error> {
        match (std::mem::replace(&mut self.stage, Stage::Idle), given) {
            (Stage::Nonce, Given::Nonce(nonce)) => Ok(self.first(&BASE64.encode(nonce))),
            (Stage::Stretching { signed, last }, Given::Stretched(stretched)) => {
                Ok(self.client_final(&stretched, signed, &last))
            }
            _ => Err(out_of_turn()),
        }
    }
}

fn text(message: &[u8]) -> Result<&str, Error> {
    if message.len() > LONGEST_MESSAGE {
        return Err(refused(format!(
            "the broker's SCRAM message has {} bytes; {LONGEST_MESSAGE} are allowed",
            message.len()
        )));
    }
    std::str::from_utf8(message).map_err(|_| refused("the broker's SCRAM message is not UTF-8"))
}

/// The broker's first message: `r=nonce,s=salt,i=iterations`, and extensions, which mean nothing.
struct ServerFirst {
    nonce: String,
    salt: Vec<u8>,
    iterations: NonZeroU32,
}

impl ServerFirst {
    fn read(message: &str) -> Result<ServerFirst, Error> {
        let wrong = |what: &str| refused(format!("the broker's first SCRAM message {what}"));
        let mut attributes = message.split(',');
        let mut next = |name: &str| {
            let value = attributes.next().and_then(|part| part.strip_prefix(name));
            value.ok_or_else(|| match message.split_once('=') {
                Some(("e", why)) => refusal(why),
                Some(("m", _)) => wrong("has an extension that this client does not know"),
                _ => wrong("is not r=…,s=…,i=…"),
            })
        };
        let (nonce, salt, iterations) = (next("r=")?, next("s=")?, next("i=")?);
        let printable = |byte: u8| (0x21..=0x7e).contains(&byte);
        if !nonce.bytes().all(printable) {
            return Err(wrong("has a nonce that is not printable"));
        }
        let salt = BASE64
            .decode(salt)
            .ok()
            .filter(|salt| !salt.is_empty())
            .ok_or_else(|| wrong("has no salt in base64"))?;
        let digits = !iterations.is_empty() && iterations.bytes().all(|b| b.is_ascii_digit());
        let iterations = Some(iterations)
            .filter(|_| digits)
            .and_then(|text| text.parse::<u32>().ok())
            .filter(|count| (FEWEST_ITERATIONS..=MOST_ITERATIONS).contains(count))
            .and_then(NonZeroU32::new)
            .ok_or_else(|| {
                wrong(&format!(
                    "requires {} iterations; {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are allowed",
                    quoted(iterations)
                ))
            })?;
        Ok(ServerFirst {
            nonce: nonce.to_owned(),
            salt,
            iterations,
        })
    }
}

/// The broker's signature.
fn read_final(message: &str) -> Result<Vec<u8>, Error> {
    let first = message.split(',').next().unwrap_or_default();
    match first.split_once('=') {
        Some(("v", signature)) => BASE64
            .decode(signature)
            .map_err(|_| refused("the broker's SCRAM signature is not base64")),
        Some(("e", why)) => Err(refusal(why)),
        _ => Err(refused("the broker's last SCRAM message has no signature")),
    }
}

fn refusal(why: &str) -> Error {
    refused(format!(
        "the broker refused the SCRAM exchange: {}",
        quoted(why)
    ))
}
