//! `AWS_MSK_IAM`: a request for `kafka-cluster:Connect` that is signed with an access key (Signature Version 4), as JSON; and
//! the same request as a presigned URL, which Amazon's signer libraries send as an OAUTHBEARER token.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use ring::{digest, hmac};
use serde_json::{Map, Value, json};

use super::step::{Authenticated, Step};
use crate::security::secret::Secret;

const VERSION: &str = "2020_10_22";
const ACTION: &str = "kafka-cluster:Connect";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kafka-cluster";
/// How far ahead a client's clock may be.
const CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;
/// The longest time that a signature may be valid.
const LONGEST_S: i64 = 900;

/// The signed parameters, in the order in which they are signed: by name.
const SIGNED: [&str; 7] = [
    "Action",
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-SignedHeaders",
];

pub(super) fn step(token: &[u8], keys: &[(String, Secret)], now_ms: i64, id: [u8; 32]) -> Step {
    let verified = Claim::of_payload(token)
        .map_err(str::to_owned)
        .and_then(|claim| claim.verify(keys, now_ms));
    match verified {
        Ok(who) => {
            let id = u128::from_be_bytes(id.first_chunk().copied().unwrap_or_default());
            let reply = json!({"version": VERSION, "request-id": format!("{id:032x}")});
            Step::Done(reply.to_string().into_bytes(), who)
        }
        Err(why) => Step::Failed(format!("Authentication failed: {why}")),
    }
}

/// The URL in a token, if it is one of the signer libraries'.
pub(super) fn presigned(token: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD
        .decode(token)
        .or_else(|_| URL_SAFE.decode(token))
        .ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.starts_with("https://").then_some(text)
}

pub(super) fn verify_url(
    url: &str,
    keys: &[(String, Secret)],
    now_ms: i64,
) -> Result<Authenticated, String> {
    let claim = Claim::of_url(url).ok_or("it is not a presigned URL")?;
    let expires_ms = claim.expires_ms();
    let who = claim.verify(keys, now_ms)?;
    Ok(Authenticated { expires_ms, ..who })
}

/// A signed request, as it claims to be.
struct Claim {
    host: String,
    parameters: BTreeMap<&'static str, String>,
    signature: String,
}

impl Claim {
    fn of_payload(token: &[u8]) -> Result<Self, &'static str> {
        let fields: Map<String, Value> = serde_json::from_slice(token)
            .map_err(|_| "the client's message is not the JSON of AWS_MSK_IAM")?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        if text("version") != Some(VERSION) {
            return Err("the version of the client's message is not 2020_10_22");
        }
        let parameters = SIGNED.into_iter().filter_map(|name| {
            text(&name.to_ascii_lowercase()).map(|value| (name, value.to_owned()))
        });
        Ok(Self {
            host: text("host")
                .ok_or("the client's message names no host")?
                .to_owned(),
            parameters: parameters.collect(),
            signature: text("x-amz-signature").unwrap_or_default().to_owned(),
        })
    }

    fn of_url(url: &str) -> Option<Self> {
        let (host, query) = url.strip_prefix("https://")?.split_once("/?")?;
        let mut pairs: BTreeMap<&str, String> = BTreeMap::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=')?;
            pairs.insert(name, percent_decoded(value)?);
        }
        let parameters = SIGNED
            .into_iter()
            .filter_map(|name| pairs.get(name).map(|value| (name, value.clone())));
        Some(Self {
            host: host.to_owned(),
            parameters: parameters.collect(),
            signature: pairs.get("X-Amz-Signature").cloned().unwrap_or_default(),
        })
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    fn expires_ms(&self) -> Option<i64> {
        let seconds: i64 = self.parameter("X-Amz-Expires").parse().ok()?;
        time_of(self.parameter("X-Amz-Date"))?.checked_add(seconds.checked_mul(1000)?)
    }

    fn verify(&self, keys: &[(String, Secret)], now_ms: i64) -> Result<Authenticated, String> {
        for (name, expected) in [
            ("Action", ACTION),
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-SignedHeaders", "host"),
        ] {
            if self.parameter(name) != expected {
                return Err(format!("{name} is not {expected}"));
            }
        }
        let credential = self.parameter("X-Amz-Credential");
        let (id, scope) = credential.split_once('/').unwrap_or((credential, ""));
        let date = self.parameter("X-Amz-Date");
        let mut parts = scope.split('/');
        let (day, region) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let is_scope = parts.eq([SERVICE, "aws4_request"]) && !region.is_empty();
        if !is_scope || day.len() != 8 || !date.starts_with(day) {
            return Err(format!(
                "X-Amz-Credential is not KEY/DAY/REGION/{SERVICE}/aws4_request"
            ));
        }
        let signed_ms = time_of(date).ok_or("X-Amz-Date is not a time such as 20260131T235959Z")?;
        let seconds: i64 = self.parameter("X-Amz-Expires").parse().unwrap_or(0);
        if !(1..=LONGEST_S).contains(&seconds) {
            return Err(format!(
                "X-Amz-Expires is not from 1 to {LONGEST_S} seconds"
            ));
        }
        if now_ms >= signed_ms + seconds * 1000 {
            return Err("the signature has expired".to_owned());
        }
        if signed_ms > now_ms + CLOCK_SKEW_MS {
            return Err("the signature is of the future".to_owned());
        }
        let secret = keys.iter().find(|(known, _)| known == id);
        let is_signed = secret.is_some_and(|(_, secret)| {
            let expected = self.sign(secret, day, region, scope, date);
            Secret::new(hex(&expected)).is(self.signature.as_bytes())
        });
        if !is_signed {
            return Err("no access key of the broker has signed the request".to_owned());
        }
        Ok(Authenticated {
            name: id.to_owned(),
            expires_ms: None,
            by_token: false,
        })
    }

    fn sign(&self, secret: &Secret, day: &str, region: &str, scope: &str, date: &str) -> Vec<u8> {
        let query: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
            .collect();
        let request = format!(
            "GET\n/\n{}\nhost:{}\n\nhost\n{}",
            query.join("&"),
            self.host,
            hex(digest::digest(&digest::SHA256, b"").as_ref())
        );
        let hashed = digest::digest(&digest::SHA256, request.as_bytes());
        let text = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex(hashed.as_ref()));
        let first = [b"AWS4", secret.bytes()].concat();
        [day, region, SERVICE, "aws4_request", &text]
            .iter()
            .fold(first, |key, part| {
                let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
                hmac::sign(&key, part.as_bytes()).as_ref().to_vec()
            })
    }
}

/// `20260131T235959Z` in ms since 1970.
fn time_of(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z')?;
    let (day, time) = digits.split_once('T')?;
    if day.len() != 8
        || time.len() != 6
        || !(day.bytes().chain(time.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let number = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, date) = (number(day, 0, 4)?, number(day, 4, 6)?, number(day, 6, 8)?);
    let (hour, minute, second) = (
        number(time, 0, 2)?,
        number(time, 2, 4)?,
        number(time, 4, 6)?,
    );
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&date)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + date - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let (digits, after) = tail.split_at_checked(2)?;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "AKIDEXAMPLE";

    fn keys() -> Vec<(String, Secret)> {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        vec![(ID.to_owned(), Secret::new(secret))]
    }

    /// Signed here; the tests of the broker with foreign clients have payloads that others signed.
    fn payload(change: impl Fn(&mut BTreeMap<&'static str, String>)) -> Vec<u8> {
        let mut parameters: BTreeMap<&'static str, String> = [
            ("Action", ACTION),
            ("X-Amz-Algorithm", ALGORITHM),
            (
                "X-Amz-Credential",
                "AKIDEXAMPLE/20150830/us-east-1/kafka-cluster/aws4_request",
            ),
            ("X-Amz-Date", "20150830T123600Z"),
            ("X-Amz-Expires", "900"),
            ("X-Amz-SignedHeaders", "host"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        change(&mut parameters);
        let mut claim = Claim {
            host: "broker.example".to_owned(),
            parameters,
            signature: String::new(),
        };
        let (_, secret) = &keys()[0];
        let scope = "20150830/us-east-1/kafka-cluster/aws4_request";
        let date = claim.parameter("X-Amz-Date").to_owned();
        claim.signature = hex(&claim.sign(secret, "20150830", "us-east-1", scope, &date));
        let mut fields = json!({"version": VERSION, "host": claim.host, "user-agent": "test", "x-amz-signature": claim.signature});
        for (name, value) in claim.parameters {
            fields[name.to_ascii_lowercase()] = value.into();
        }
        fields.to_string().into_bytes()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time_of("19700101T000000Z"), Some(0));
        assert_eq!(time_of("20150830T123600Z"), Some(1_440_938_160_000));
        assert_eq!(time_of("20000229T235959Z"), Some(951_868_799_000));
        for bad in [
            "",
            "Z",
            "20150830T123600",
            "20151330T123600Z",
            "2015-8-0T123600Z",
            "20150830T1236001Z",
        ] {
            assert_eq!(time_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_signed_request_is_taken_while_it_is_valid() {
        let at = time_of("20150830T123600Z").unwrap();
        let token = payload(|_| {});
        let step_at = |token: &[u8], now| step(token, &keys(), now, [0; 32]);
        match step_at(&token, at + 899_999) {
            Step::Done(reply, who) => {
                assert_eq!(who.name, ID);
                let reply: Value = serde_json::from_slice(&reply).unwrap();
                assert_eq!(reply["version"], VERSION);
            }
            other => panic!("{other:?}"),
        }
        let refused = |token: &[u8], now: i64, reason: &str| match step_at(token, now) {
            Step::Failed(why) => assert!(why.contains(reason), "{why}"),
            other => panic!("{other:?}"),
        };
        refused(&token, at + 900_000, "expired");
        refused(&token, at - CLOCK_SKEW_MS - 1, "future");
        let text = String::from_utf8(token).unwrap();
        refused(
            text.replace("broker.example", "other.example").as_bytes(),
            at,
            "has signed",
        );
        refused(
            text.replace("AKIDEXAMPLE", "AKIDOTHER").as_bytes(),
            at,
            "has signed",
        );
        refused(b"{}", at, "2020_10_22");
        refused(b"[", at, "JSON");
        refused(
            &payload(|p| drop(p.insert("X-Amz-Expires", "901".to_owned()))),
            at,
            "900",
        );
        refused(
            &payload(|p| drop(p.insert("Action", "kafka-cluster:Other".to_owned()))),
            at,
            "Action",
        );
        refused(
            &payload(|p| drop(p.insert("X-Amz-Date", "20150831T123600Z".to_owned()))),
            at,
            "X-Amz-Credential",
        );
    }

    #[test]
    fn a_session_token_is_signed_too() {
        let at = time_of("20150830T123600Z").unwrap();
        let token = payload(|p| drop(p.insert("X-Amz-Security-Token", "a/b+c=".to_owned())));
        assert!(matches!(step(&token, &keys(), at, [0; 32]), Step::Done(..)));
        let text = String::from_utf8(token)
            .unwrap()
            .replace("a/b+c=", "a/b+d=");
        assert!(matches!(
            step(text.as_bytes(), &keys(), at, [0; 32]),
            Step::Failed(_)
        ));
    }

    #[test]
    fn percent_encoding_is_undone() {
        let text = "a b/ü+~%";
        assert_eq!(percent_encoded(text), "a%20b%2F%C3%BC%2B~%25");
        assert_eq!(percent_decoded(&percent_encoded(text)).unwrap(), text);
        for bad in ["%", "%1", "%zz", "%FF"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
