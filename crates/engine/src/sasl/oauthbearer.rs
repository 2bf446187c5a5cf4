//! OAUTHBEARER (RFC 7628, KIP-255, KIP-342): a bearer token and extensions.
//!
//! ```text
//! begin() ── token ──▶ client response ──▶ nothing: accepted
//!                                     └──▶ an error in JSON ──▶ \x01 ──▶ the broker's refusal
//! ```

use bytes::Bytes;

use super::outside::{Given, Need};
use super::{Mechanism, Step, out_of_turn, quoted, refused};
use crate::credentials::{Question, Reply};
use crate::error::Error;

/// The separator in a message, and the whole response to an error.
const SEPARATOR: &str = "\x01";
/// The most bytes of a token with its extensions: brokers take no larger request before authentication.
const LONGEST: usize = 256 << 10;

/// A client with a source of tokens.
#[derive(Debug, Default)]
pub(super) struct OauthBearer {
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Token,
    Sent,
    /// The broker's error, whose reading was confirmed.
    Refused(String),
}

impl Mechanism for OauthBearer {
    fn name(&self) -> &'static str {
        "OAUTHBEARER"
    }

    fn advice(&self) -> &'static str {
        "check the token's lifetime, issuer, audience and scope against the broker's settings"
    }

    fn begin(&mut self) -> Result<Step, Error> {
        self.stage = Stage::Token;
        Ok(Step::Need(Need::Outside(Question::Token)))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        match std::mem::take(&mut self.stage) {
            Stage::Sent if challenge.is_empty() => Ok(Step::Done),
            Stage::Sent => {
                let why = quoted(&String::from_utf8_lossy(&challenge));
                self.stage = Stage::Refused(why);
                Ok(Step::Send(Bytes::from_static(SEPARATOR.as_bytes())))
            }
            // Brokers respond to the confirmation with an error code. A broker that does not has
            // still refused the token.
            Stage::Refused(why) => Err(refused(format!("the broker refused the token: {why}"))),
            Stage::Idle | Stage::Token => Err(out_of_turn()),
        }
    }

    fn take(&mut self, given: Given) -> Result<Step, Error> {
        let (Stage::Token, Given::Reply(reply)) = (std::mem::take(&mut self.stage), given) else {
            return Err(out_of_turn());
        };
        let message = response(&reply)?;
        self.stage = Stage::Sent;
        Ok(Step::Send(message.into()))
    }
}

fn response(reply: &Reply) -> Result<String, Error> {
    let token = std::str::from_utf8(&reply.bytes)
        .ok()
        .filter(|token| !token.is_empty() && token.bytes().all(|b| (0x21..=0x7e).contains(&b)))
        .ok_or_else(|| {
            refused("the token is not one: a bearer token is printable ASCII without spaces")
        })?;
    let mut message = format!("n,,{SEPARATOR}auth=Bearer {token}{SEPARATOR}");
    for (name, value) in &reply.extensions {
        check(name, value)?;
        message.push_str(&format!("{name}={value}{SEPARATOR}"));
    }
    message.push_str(SEPARATOR);
    if message.len() > LONGEST {
        let length = message.len();
        return Err(refused(format!(
            "the token with its extensions has {length} bytes; {LONGEST} are allowed"
        )));
    }
    Ok(message)
}

/// Names are letters; values are printable, with spaces, tabs and line ends (RFC 7628, 3.1).
fn check(name: &str, value: &str) -> Result<(), Error> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(refused(format!(
            "{name:?} cannot name an extension of OAUTHBEARER: it takes letters A to Z only"
        )));
    }
    if name.eq_ignore_ascii_case("auth") {
        return Err(refused(
            "auth cannot name an extension of OAUTHBEARER: it is the token's own name",
        ));
    }
    let allowed = |byte: u8| matches!(byte, 0x20..=0x7e | b'\t' | b'\r' | b'\n');
    if !value.bytes().all(allowed) {
        return Err(refused(format!(
            "the extension {name} of OAUTHBEARER has a value that is not printable ASCII"
        )));
    }
    Ok(())
}
