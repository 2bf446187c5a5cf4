//! The first inputs, built from the samples of `tests/conformance`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use ottla_protocol::internal::{RECORD_KINDS, Topic};
use ottla_protocol::json::{self, NAMES};
use ottla_protocol::messages::{RequestHeader, ResponseHeader};
use ottla_protocol::records::{Entry, batches, entries};
use ottla_protocol::{ApiKey, Message, Str, Writer};
use serde_json::Value;

/// Larger samples are skipped: most of their bytes are one long string.
const LARGEST: usize = 2048;

/// The folder `tests`.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// The lines of a file of samples.
pub fn lines(file: &str) -> impl Iterator<Item = Value> {
    let path = tests().join("conformance").join(file);
    let file = std::fs::File::open(path).expect("the corpus is in tests/conformance");
    BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| serde_json::from_str(&line.expect("lines of text")).expect("a sample a line"))
}

/// The bytes of the sample.
pub fn bytes(line: &Value) -> Vec<u8> {
    let text = line.get("hex").and_then(Value::as_str).unwrap_or_default();
    let digit = |c: &u8| char::from(*c).to_digit(16).unwrap_or_default() as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, c| byte << 4 | digit(c)))
        .collect()
}

/// A sample of Kafka's classes.
#[derive(Debug)]
pub struct Sample {
    /// The message.
    pub name: String,
    /// Its version.
    pub version: i16,
    /// The key of its API.
    pub api: Option<ApiKey>,
    /// `request`, `response` or what else it is.
    pub kind: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The most useful samples of each message at each version: with all fields, with nulls, with tags, with damage.
pub fn samples() -> impl Iterator<Item = Sample> {
    let mut damaged = BTreeSet::new();
    ["schemas-4.4.0.jsonl.gz", "schemas-3.9.1-only.jsonl.gz"]
        .into_iter()
        .flat_map(lines)
        .filter_map(move |line| {
            let text = |key| Some(line.get(key)?.as_str()?.to_owned());
            let number = |key| i16::try_from(line.get(key)?.as_i64()?).ok();
            let (name, version) = (text("name")?, number("v")?);
            // Names that a later release changed are there under their new ones too.
            let known = json::versions(&name).is_ok_and(|known| known.contains(version));
            let wanted = match text("kind")?.as_str() {
                "full" | "nulls" | "tags" => true,
                "mut" => damaged.insert((name.clone(), version)),
                _ => false,
            };
            let bytes = bytes(&line);
            (known && wanted && bytes.len() <= LARGEST).then_some(Sample {
                api: number("api").and_then(ApiKey::from_i16),
                kind: text("type")?,
                name,
                version,
                bytes,
            })
        })
}

fn with_header<H: Message>(header: &H, version: i16, body: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    header.encode(version, &mut out).expect("a header");
    [&out.finish().into_bytes(), body].concat()
}

/// For [`crate::messages::request`].
pub fn requests() -> Vec<Vec<u8>> {
    let requests = samples().filter(|sample| sample.kind == "request");
    let frame = |sample: Sample| {
        let api = sample.api?;
        let header = RequestHeader {
            request_api_key: api.as_i16(),
            request_api_version: sample.version,
            client_id: Some(Str::from_static("c")),
            ..Default::default()
        };
        let version = api.request_header_version(sample.version);
        Some(with_header(&header, version, &sample.bytes))
    };
    requests.filter_map(frame).collect()
}

/// For [`crate::messages::response`].
pub fn responses() -> Vec<Vec<u8>> {
    let responses = samples().filter(|sample| sample.kind == "response");
    let frame = |sample: Sample| {
        let api = sample.api?;
        let version = api.response_header_version(sample.version);
        let frame = with_header(&ResponseHeader::default(), version, &sample.bytes);
        let key = [api.as_i16().to_be_bytes(), sample.version.to_be_bytes()].concat();
        Some([key, frame].concat())
    };
    responses.filter_map(frame).collect()
}

/// For [`crate::messages::message`] and [`crate::reference::differential`].
pub fn messages() -> Vec<Vec<u8>> {
    let input = |sample: Sample| {
        let which = NAMES.iter().position(|name| *name == sample.name)?;
        let above = sample.version - json::versions(&sample.name).ok()?.min;
        let mut input = u16::try_from(which).ok()?.to_be_bytes().to_vec();
        input.push(u8::try_from(above).ok()?);
        Some([input, sample.bytes].concat())
    };
    samples().filter_map(input).collect()
}

/// For [`crate::consumer_protocol::blob`].
pub fn blobs() -> Vec<Vec<u8>> {
    let input = |sample: Sample| {
        let which = match sample.name.as_str() {
            "ConsumerProtocolSubscription" => 0,
            "ConsumerProtocolAssignment" => 1,
            _ => return None,
        };
        Some([&[which], &sample.version.to_be_bytes()[..], &sample.bytes].concat())
    };
    samples().filter_map(input).collect()
}

fn record_data() -> impl Iterator<Item = Vec<u8>> {
    let lines = lines("records-4.4.0.jsonl.gz");
    lines
        .map(|line| bytes(&line))
        .filter(|bytes| bytes.len() <= LARGEST)
}

/// For [`crate::records::stored`].
pub fn records() -> Vec<Vec<u8>> {
    record_data().collect()
}

/// For [`crate::records::batch`]: the record sections of batches, as they are and decompressed.
pub fn sections() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for bytes in record_data() {
        let Some(Ok(batch)) = batches(bytes.into()).next() else {
            continue;
        };
        let header = batch.header;
        let mut input = |choice: i16, section: &[u8]| {
            let mut input = vec![choice as u8, (header.attributes & !7) as u8];
            input.extend_from_slice(&(header.count as i16).to_be_bytes());
            input.extend_from_slice(&header.last_offset_delta.to_be_bytes());
            input.extend_from_slice(section);
            inputs.push(input);
        };
        input(header.attributes & 7, &batch.section());
        if let Ok(payload) = batch.payload(crate::records::LIMIT) {
            input(header.attributes & 7 | 8, &payload);
        }
    }
    inputs
}

/// For [`crate::records::log_segment`].
pub fn segments() -> Vec<Vec<u8>> {
    let samples: Vec<_> = record_data().collect();
    let mut inputs = Vec::new();
    for (number, pair) in samples.windows(2).enumerate() {
        let damage = [0, number as u8, 0xff, 0, 17, 1, 0, 60, 2];
        inputs.push([&[number as u8 & 7], &damage[..], &pair.concat()].concat());
    }
    inputs
}

/// For [`crate::records::message_set`]: what is inside of wrappers, as it is and decompressed.
pub fn sets() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for entry in record_data().flat_map(|bytes| entries(bytes.into()).flatten()) {
        let Entry::Message(message) = entry else {
            continue;
        };
        let choice = message.attributes & 7 | (message.magic as u8) << 3;
        let offset = (message.offset as i16).to_be_bytes();
        // The lengths of a key that is null and of the value stand before it.
        let value = message
            .bytes
            .get(if message.magic == 0 { 26 } else { 34 }..);
        inputs.push([&[choice], &offset[..], value.unwrap_or_default()].concat());
        if let Ok(set) = message.payload(crate::records::LIMIT) {
            inputs.push([&[choice | 16], &offset[..], &set].concat());
        }
    }
    inputs
}

/// For [`crate::records::internal`].
pub fn internal() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for sample in samples() {
        let kind = RECORD_KINDS
            .iter()
            .find(|kind| kind.value.name == sample.name);
        let Some((kind, which)) = kind.and_then(|kind| {
            let which = Topic::ALL.iter().position(|topic| *topic == kind.topic)?;
            Some((kind, u8::try_from(which).ok()?))
        }) else {
            continue;
        };
        let (number, version) = (kind.number.to_be_bytes(), sample.version.to_be_bytes());
        let (key, prefix) = match kind.key {
            Some(_) => ([&number[..], &[0, 1, b'g']].concat(), version.to_vec()),
            None => (Vec::new(), vec![1, number[1], version[1]]),
        };
        let length = (key.len() as u16).to_be_bytes();
        inputs.push([&[which], &length[..], &key, &prefix, &sample.bytes].concat());
    }
    inputs
}

/// For [`crate::frames::split`].
pub fn streams() -> Vec<Vec<u8>> {
    [
        &b"\x10\x00\0\0\0\x02ab\0\0\0\0\0\0\0\x03cde"[..],
        b"\x10\x02\0\0\0\x02ab\xff\xff\xff\xff",
        b"\x10\x00\x15\x03\x03\0\x02\x02\x46",
        b"\xff\xffHTTP/1.1 400 Bad Request\r\n",
        b"\x00\x03\x7f\xff\xff\xff",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}

/// For [`crate::frames::connection`]: what answers the first request of a connection, whether it is ready or not.
pub fn answers() -> Vec<Vec<u8>> {
    let input = |sample: Sample| {
        let api = sample.api.filter(|_| sample.kind == "response")?;
        let header: &[u8] = match api.response_header_version(sample.version) {
            0 => &[],
            _ => &[0],
        };
        let choice = match (api, u8::try_from(sample.version).ok()?) {
            (ApiKey::ApiVersions, _) => 1,
            (ApiKey::Metadata, version @ 1..=10) => (version - 1) << 1,
            _ => return None,
        };
        let length = u16::try_from(header.len() + sample.bytes.len()).ok()?;
        Some([&[choice], &length.to_be_bytes()[..], header, &sample.bytes].concat())
    };
    samples().filter_map(input).collect()
}

/// For [`crate::frames::old_broker`]: answers of brokers of each age to what they are asked first, and to what follows.
pub fn old_answers() -> Vec<Vec<u8>> {
    // ListOffsets 0 and ListGroups 0 with nothing, and ApiVersions 0 with one row.
    let offsets = &[0, 0, 0, 0][..];
    let groups = &[0, 0, 0, 0, 0, 0][..];
    let versions = &[0, 0, 0, 0, 0, 1, 0, 18, 0, 0, 0, 0][..];
    // Metadata 0 with a broker, and with a topic that has no leader yet.
    let metadata =
        b"\0\0\0\x01\0\0\0\x01\0\x01b\0\0\x23\x84\0\0\0\x01\0\x05\0\x01t\0\0\0\0".as_slice();
    let fetch = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0".as_slice();
    let input = |choice: u8, bodies: &[&[u8]]| {
        let mut input = vec![choice];
        for body in bodies {
            input.extend((body.len() as u16).to_be_bytes());
            input.extend_from_slice(body);
        }
        input
    };
    vec![
        input(0, &[versions]),
        input(2, &[offsets]),
        input(2, &[offsets, groups]),
        input(2, &[offsets, groups, versions, metadata]),
        input(3, &[offsets, metadata, fetch]),
        input(4, &[offsets, metadata, fetch]),
    ]
}
