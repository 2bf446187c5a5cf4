//! No bytes make a decoder hold more than a small multiple of them, whatever counts and lengths they claim.
//!
//! [`PER_BYTE`] says the multiple for messages, [`records::PER_BYTE`] that for record data.
//! `cargo test -p ottla-fuzz --test memory -- --nocapture` prints the messages that come nearest.

// What stands outside the test function is test all the same.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use bytes::Bytes;
use ottla_fuzz::corpus;
use ottla_fuzz::memory::peak;
use ottla_fuzz::messages::{BESIDE, PER_BYTE};
use ottla_fuzz::records;
use ottla_protocol::compression::{self, Compression};
use ottla_protocol::json::{self, Json, Visitor};
use ottla_protocol::messages::{ResponseHeader, SaslAuthenticateResponse};
use ottla_protocol::{Message, Reader, Str, Writer};
use serde_json::{Map, Value};

/// One element more than a list gets room for at first, so that it grows.
const MANY: usize = 1025;

/// The most bytes that decoding held, or nothing where the bytes are no message.
struct Held(i16, Bytes);

impl Visitor for Held {
    type Output = (bool, usize);

    fn visit<M: Message + Json>(self) -> Self::Output {
        let (decoded, held) = peak(|| M::decode(self.0, &mut Reader::new(self.1)));
        (decoded.is_ok(), held)
    }
}

fn held(name: &str, version: i16, bytes: &[u8]) -> (bool, usize) {
    json::visit(name, Held(version, Bytes::copy_from_slice(bytes))).unwrap()
}

/// The paths of all lists in a message.
fn lists(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value {
        Value::Array(elements) => {
            found.push(path.clone());
            if let Some(first) = elements.first() {
                path.push("0".to_owned());
                lists(first, path, found);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with('_')) {
                path.push(name.clone());
                lists(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The same value in as few bytes as can be: no elements, no letters, no tags.
fn least(value: &Value) -> Value {
    match value {
        Value::Array(_) => Value::Array(Vec::new()),
        // A uuid has no shorter form.
        Value::String(text) if text.len() == 22 => Value::from("AAAAAAAAAAAAAAAAAAAAAA"),
        Value::String(_) => Value::from(""),
        Value::Object(fields) => {
            let known = fields.iter().filter(|(name, _)| !name.starts_with('_'));
            let least = known.map(|(name, value)| (name.clone(), least(value)));
            Value::Object(least.collect::<Map<_, _>>())
        }
        plain => plain.clone(),
    }
}

/// The least message with one list of many least elements.
fn stuffed(value: &Value, path: &[String]) -> Value {
    match (value, path) {
        (Value::Array(elements), []) => vec![least(&elements[0]); MANY].into(),
        (Value::Array(elements), [_, rest @ ..]) => vec![stuffed(&elements[0], rest)].into(),
        (Value::Object(fields), [name, rest @ ..]) => {
            let mut message = least(value);
            message[name] = stuffed(&fields[name], rest);
            message
        }
        _ => value.clone(),
    }
}

/// For each message at each version: the sample with every field.
fn full() -> impl Iterator<Item = (String, i16, Value, Vec<u8>)> {
    ["schemas-4.4.0.jsonl.gz", "schemas-3.9.1-only.jsonl.gz"]
        .into_iter()
        .flat_map(corpus::lines)
        .filter(|line| line["kind"] == "full")
        .filter_map(|line| {
            let (name, version) = (
                line["name"].as_str()?.to_owned(),
                line["v"].as_i64()? as i16,
            );
            // Names that a later release changed are under their new ones too.
            let known = json::versions(&name).is_ok_and(|known| known.contains(version));
            known.then(|| (name, version, line["json"].clone(), corpus::bytes(&line)))
        })
}

#[test]
fn lists_of_the_smallest_elements_stay_within_the_multiple() {
    let mut worst: BTreeMap<String, (usize, i16, String)> = BTreeMap::new();
    let mut tried = 0;
    for (name, version, value, _) in full() {
        let mut found = Vec::new();
        lists(&value, &mut Vec::new(), &mut found);
        for path in found {
            let bytes = json::encode(&name, version, &stuffed(&value, &path));
            // In a list of uuids an empty text is none: they are never small.
            let Ok(bytes) = bytes else { continue };
            let bytes = bytes.into_bytes();
            let (decoded, held) = held(&name, version, &bytes);
            assert!(decoded, "{name} {version} {path:?}");
            assert!(
                held <= PER_BYTE * bytes.len() + BESIDE,
                "{name} {version} {path:?}: {held} bytes held for {}",
                bytes.len()
            );
            tried += 1;
            let times = held / bytes.len();
            if worst.get(&name).is_none_or(|(most, ..)| times > *most) {
                worst.insert(name.clone(), (times, version, path.join(".")));
            }
        }
    }
    let mut worst: Vec<_> = worst.into_iter().collect();
    worst.sort_by_key(|(_, (times, ..))| std::cmp::Reverse(*times));
    for (name, (times, version, path)) in worst.iter().take(5) {
        println!("{times} times its bytes: {name} {version}, {path}");
    }
    assert!(tried > 1500, "{tried} lists");
}

#[test]
fn counts_at_every_place_stay_within_the_multiple() {
    // The greatest counts and lengths, and some that as many zeros as follow could hold.
    let claims: [&[u8]; 5] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0, 0, 0, 0x20],
        &[0x41],
        &[0x81, 0x02],
    ];
    let mut tried = 0;
    for (name, version, _, bytes) in full().filter(|(.., bytes)| bytes.len() <= 400) {
        for place in 0..bytes.len() {
            let claim = claims[place % claims.len()];
            let damaged = [&bytes[..place], claim, &[0; 300]].concat();
            let (_, held) = held(&name, version, &damaged);
            assert!(
                held <= PER_BYTE * damaged.len() + BESIDE,
                "{name} {version}: {held} bytes held for {} with {claim:?} at {place}",
                damaged.len()
            );
            tried += 1;
        }
    }
    assert!(tried > 50_000, "{tried} places");
}

#[test]
fn unknown_tags_stay_within_the_multiple() {
    const TAGS: u32 = 200_000;
    let mut frame = Writer::new();
    frame.raw(&[0; 4]);
    frame.uvarint(TAGS);
    for tag in 0..TAGS {
        frame.uvarint(tag);
        frame.uvarint(0);
    }
    let frame = frame.finish().into_bytes();
    let (header, held) = peak(|| ResponseHeader::decode(1, &mut Reader::new(frame.clone())));
    assert_eq!(header.unwrap().unknown_tagged_fields.len(), TAGS as usize);
    assert!(held < PER_BYTE * frame.len(), "{held}");
}

#[test]
fn bytes_are_not_copied_and_strings_once() {
    let message = SaslAuthenticateResponse {
        error_message: Some(Str::from("a".repeat(30_000))),
        auth_bytes: vec![1; 1 << 20].into(),
        ..Default::default()
    };
    for version in 0..=2 {
        let mut out = Writer::new();
        message.encode(version, &mut out).unwrap();
        let bytes = out.finish().into_bytes();
        let (decoded, held) = held("SaslAuthenticateResponse", version, &bytes);
        assert!(decoded);
        assert!(held < 31_000, "{version}: {held}");
    }
}

const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// The most that a decompressor may hold: its output while it grows, its input's share, and its tables.
fn most(limit: usize, input: usize) -> usize {
    3 * limit + 4 * input + records::BESIDE
}

#[test]
fn a_bomb_holds_a_small_multiple_of_the_limit() {
    for codec in CODECS {
        let mut bomb = Vec::new();
        compression::compress(codec, None, &vec![0; 64 << 20], &mut bomb).unwrap();
        for limit in [0, 1000, 100_000, 1 << 20, 10_000_000] {
            let (result, held) = peak(|| compression::decompress(codec, &bomb, limit));
            assert!(result.is_err());
            println!("{codec} to {limit}: {held} held, {} given", bomb.len());
            assert!(
                held <= most(limit, bomb.len().min(limit)),
                "{codec} to {limit}: {held} bytes held"
            );
        }
    }
}

#[test]
fn what_compressed_bytes_claim_is_not_believed() {
    // The largest sizes that each format can claim, with nothing behind them.
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let snappy = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let xerial = [
        &b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\x7f\xff\xff\xff"[..],
        &snappy,
    ]
    .concat();
    // Blocks of 4 MiB, and a content size of 2^63.
    let lz4 = [
        0x04, 0x22, 0x4d, 0x18, 0x6c, 0x70, 0, 0, 0, 0, 0, 0, 0, 0x80, 0xb6, 0xff, 0xff, 0xff, 0x7f,
    ];
    // A window of 128 MiB; and a content size of 2^63 in one segment.
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x01];
    let zstd_content = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80];
    let claims: [(Compression, &[u8]); 6] = [
        (Compression::Gzip, &gzip),
        (Compression::Snappy, &snappy),
        (Compression::Snappy, &xerial),
        (Compression::Lz4, &lz4),
        (Compression::Zstd, &zstd),
        (Compression::Zstd, &zstd_content),
    ];
    for (codec, claim) in claims {
        let (result, held) = peak(|| compression::decompress(codec, claim, 1 << 30));
        assert!(result.is_err(), "{codec} {claim:?}");
        println!("{codec}: {held} held, {result:?}");
        assert!(held <= records::BESIDE, "{codec} {claim:?}: {held}");
    }
}
