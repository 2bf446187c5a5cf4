//! Every message at every version against what Kafka's own classes write:
//! `tests/conformance/README.md` describes the files and the checks. `cargo test -p ottla-protocol
//! --test messages -- --nocapture` prints the counts.
//!
//! `OTTLA_CORPUS=DIR` reads the `schemas-*.jsonl.gz` of another folder, which `tests/conformance/test_fresh.py` makes.

// What is outside the test function is still test code.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_protocol::form::{self, Form, FormError, Visitor};
use ottla_protocol::json::{self, Json};
use ottla_protocol::{
    ApiKey, DecodeError, DecodeErrorKind, EncodeErrorKind, Message, Reader, Writer,
};
use serde_json::Value;

/// Prefixes are all tried up to this length, and some hundred of those of longer samples.
const SHORT: usize = 600;

type Counts = BTreeMap<String, usize>;

/// The files of lines: those of the folder that was asked for, or the ones that are kept.
fn corpus() -> Vec<PathBuf> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
    let folder = std::env::var_os("OTTLA_CORPUS").map_or(kept, PathBuf::from);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("schemas-") && name.ends_with(".jsonl.gz")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no schemas-*.jsonl.gz in {folder:?}");
    files
}

fn lines(file: &Path) -> impl Iterator<Item = Value> {
    let unpacked = BufReader::new(flate2::read::GzDecoder::new(
        std::fs::File::open(file).unwrap(),
    ));
    unpacked
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

fn unhex(text: &str) -> Bytes {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// What the sample is under the names of today.
fn today(line: &mut Value) -> (String, i16) {
    let (name, version) = (
        line["name"].as_str().unwrap().to_owned(),
        line["v"].as_i64().unwrap() as i16,
    );
    if let Some(direction) = name.strip_prefix("ListClientMetricsResources") {
        if let Some(mut list) = line["json"]
            .as_object_mut()
            .and_then(|o| o.remove("clientMetricsResources"))
        {
            for resource in list.as_array_mut().unwrap() {
                let name = resource.as_object_mut().unwrap().remove("name").unwrap();
                resource["resourceName"] = name;
            }
            line["json"]["configResources"] = list;
        }
        return (format!("ListConfigResources{direction}"), version);
    }
    let is_type_number = line["type"] == "data"
        && name.ends_with("Key")
        && !json::versions(&name).unwrap().contains(version);
    (name, if is_type_number { 0 } else { version })
}

fn encoded<M: Message>(message: &M, version: i16) -> Result<Bytes, FormError> {
    let mut out = Writer::new();
    message.encode(version, &mut out)?;
    let written = out.finish().into_bytes();
    assert_eq!(
        message.size(version)?,
        written.len(),
        "{} {version}: size",
        M::NAME
    );
    Ok(written)
}

/// One line, checked by the rules of its kind. What comes out is what to count it as.
struct Check<'a> {
    line: &'a Value,
    version: i16,
}

impl Check<'_> {
    fn hex(&self, key: &str) -> Bytes {
        unhex(self.line[key].as_str().unwrap())
    }

    fn sample<M: Message + Form>(&self) -> Result<String, String> {
        let (bytes, value) = (self.hex("hex"), &self.line["json"]);
        let mut input = Reader::new(bytes.clone());
        let message =
            M::decode(self.version, &mut input).map_err(|e| format!("not decoded: {e}"))?;
        input.finish().map_err(|e| e.to_string())?;
        same(
            "encode(decode(hex))",
            &encoded(&message, self.version).map_err(|e| e.to_string())?,
            &bytes,
        )?;
        let json = message.to_json(self.version);
        if json != *value {
            return Err(format!("decode(hex) is {json}, not {value}"));
        }
        let from_json =
            M::from_json(value, self.version).map_err(|e| format!("not from JSON: {e}"))?;
        same(
            "encode(json)",
            &encoded(&from_json, self.version).map_err(|e| e.to_string())?,
            &bytes,
        )?;
        let step = if bytes.len() <= SHORT {
            1
        } else {
            bytes.len() / 200
        };
        for cut in (0..bytes.len())
            .step_by(step)
            .chain(bytes.len().saturating_sub(50)..bytes.len())
        {
            if M::decode(self.version, &mut Reader::new(bytes.slice(..cut))).is_ok() {
                return Err(format!(
                    "the first {cut} of {} bytes are taken",
                    bytes.len()
                ));
            }
        }
        Ok("samples".to_owned())
    }

    fn encode<M: Message + Form>(&self) -> Result<Bytes, FormError> {
        encoded(
            &M::from_json(&self.line["json"], self.version)?,
            self.version,
        )
    }

    fn refused<M: Message + Form>(
        &self,
        expected: impl Fn(&FormError) -> bool,
    ) -> Result<String, String> {
        let field = self.line["field"].as_str().unwrap().to_lowercase();
        match self.encode::<M>() {
            Ok(_) => Err(format!("encoded in spite of {field}")),
            Err(error) if !expected(&error) => Err(format!("{error}, for {field}")),
            Err(error) if names(&error, &field) => Ok("refused".to_owned()),
            Err(error) => Err(format!("{error}: does not name {field}")),
        }
    }

    fn damaged<M: Message>(&self) -> Result<String, String> {
        let mut input = Reader::new(self.hex("hex"));
        let result = M::decode(self.version, &mut input);
        match (self.line["verdict"].as_str(), result) {
            (Some("error"), Err(_)) => Ok("damaged, refused as Kafka does".to_owned()),
            (Some("error"), Ok(message)) => Err(format!(
                "taken, Kafka says {}: {message:?}",
                self.line["err"]
            )),
            (_, Ok(message)) => {
                if Some(input.remaining() as u64) != self.line["left"].as_u64() {
                    return Err(format!(
                        "{} left over, Kafka leaves {}",
                        input.remaining(),
                        self.line["left"]
                    ));
                }
                same(
                    "rehex",
                    &encoded(&message, self.version).map_err(|e| e.to_string())?,
                    &self.hex(if self.line["rehex"].is_null() {
                        "hex"
                    } else {
                        "rehex"
                    }),
                )?;
                Ok("damaged, taken as Kafka does".to_owned())
            }
            (_, Err(error)) => stricter(&error).map(|why| format!("damaged, refused for {why}")),
        }
    }
}

/// Does the error say where the field is?
fn names(error: &FormError, field: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_ascii_alphabetic() || *c == '.')
            .collect()
    };
    letters(&error.to_string().to_lowercase()).contains(&letters(field))
}

/// Why we refuse what Kafka takes, where there is a reason to.
fn stricter(error: &DecodeError) -> Result<&'static str, String> {
    match error.kind() {
        DecodeErrorKind::InvalidUtf8 { .. } => Ok("invalid UTF-8"),
        DecodeErrorKind::TagOrder { .. } => Ok("tags out of order"),
        DecodeErrorKind::TagTooLong { .. }
        | DecodeErrorKind::EndOfTag { .. }
        | DecodeErrorKind::TagLeftOver { .. } => Ok("a tag's size"),
        DecodeErrorKind::VarintTooLong { .. } => Ok("a varint over 32 bits"),
        DecodeErrorKind::NegativeLength { .. } => Ok("a length below -1"),
        // A compact count has 32 bits without a sign, and Kafka takes it for a number with one.
        DecodeErrorKind::CountTooLarge { count, .. } if *count > i32::MAX as usize => {
            Ok("a length below -1")
        }
        _ => Err(format!("Kafka takes it: {error}")),
    }
}

fn same(what: &str, ours: &Bytes, theirs: &Bytes) -> Result<(), String> {
    if ours == theirs {
        Ok(())
    } else {
        Err(format!("{what} is {ours:?}, not {theirs:?}"))
    }
}

impl Visitor for Check<'_> {
    type Output = Result<String, String>;

    fn visit<M: Message + Form>(self) -> Self::Output {
        match self.line["kind"].as_str().unwrap() {
            "mut" => self.damaged::<M>(),
            "enc-ignorable" => {
                same("encode(json)", &self.encode::<M>().map_err(|e| e.to_string())?, &self.hex("hex"))?;
                Ok("dropped".to_owned())
            }
            "enc-unsupported" => self.refused::<M>(|error| {
                matches!(error, FormError::Encode(e) if matches!(e.kind(), EncodeErrorKind::NotInVersion { .. }))
            }),
            "enc-null" => self.refused::<M>(|error| match error {
                FormError::Encode(e) => matches!(e.kind(), EncodeErrorKind::NullNotAllowed { .. }),
                error => error.to_string().contains("null given"),
            }),
            _ => self.sample::<M>(),
        }
    }
}

fn header_version(line: &Value) -> Option<i16> {
    let (api, version) = (
        ApiKey::from_i16(i16::try_from(line["api"].as_i64()?).ok()?)?,
        line["v"].as_i64()? as i16,
    );
    match line["type"].as_str()? {
        "request" => Some(api.request_header_version(version)),
        "response" => Some(api.response_header_version(version)),
        _ => None,
    }
}

#[test]
fn every_line_of_kafkas_classes_holds() {
    let (mut kinds, mut verdicts) = (Counts::new(), Counts::new());
    let mut pairs = BTreeSet::new();
    let mut wrong = Vec::new();
    for mut line in corpus().iter().flat_map(|file| lines(file)) {
        let as_named = (
            line["name"].as_str().unwrap().to_owned(),
            line["v"].as_i64().unwrap(),
        );
        let (name, version) = today(&mut line);
        let kind = line["kind"].as_str().unwrap().to_owned();
        if line["hv"].as_i64() != header_version(&line).map(i64::from) {
            wrong.push(format!(
                "{name} {version}: header version {:?}, not {}",
                header_version(&line),
                line["hv"]
            ));
        }
        match form::visit(
            &name,
            Check {
                line: &line,
                version,
            },
        ) {
            Some(Ok(verdict)) => *verdicts.entry(verdict).or_default() += 1,
            Some(Err(why)) => wrong.push(format!("{name} {version} {kind} {}: {why}", line["i"])),
            None => wrong.push(format!("{name} is not a message")),
        }
        pairs.insert(as_named);
        *kinds.entry(kind).or_default() += 1;
    }
    println!(
        "{} pairs of message and version, {} lines",
        pairs.len(),
        kinds.values().sum::<usize>()
    );
    for (what, count) in kinds.iter().chain(&verdicts) {
        println!("{count:>7} {what}");
    }
    let shown: Vec<String> = wrong
        .iter()
        .take(10)
        .map(|w| w.chars().take(600).collect())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} lines do not hold, such as\n{}",
        wrong.len(),
        shown.join("\n")
    );
    // Whatever the seed, every pair that the releases have is there, and JoinGroup both ways as 0.8.2 had it.
    assert_eq!(pairs.len(), 877 + 2);
}
