//! Parses the JSON files of `schemas/` and checks their form; [`crate::resolve`] checks their meaning.
//!
//! The notation is Kafka's (`clients/src/main/resources/common/message/README.md` there): ranges of
//! versions such as `0-3` and `2+`, types such as `[]int32`. `schemas/README.md` describes where
//! the files come from.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// Errors of a set of schemas.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A file or folder could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not a schema.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A well-formed schema without a meaning.
    #[error("{message}: {reason}")]
    Meaning {
        /// The message, and where it is about one, the field.
        message: String,
        /// What is wrong.
        reason: String,
    },
}

/// A range of versions, both ends in it. [`Versions::NONE`] holds no version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub low: i16,
    /// The highest; [`i16::MAX`] where the range is open.
    pub high: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Self = Self { low: 0, high: -1 };

    /// Is the version in the range?
    pub fn contains(self, version: i16) -> bool {
        (self.low..=self.high).contains(&version)
    }

    /// Does the range hold no version?
    pub fn is_empty(self) -> bool {
        self.low > self.high
    }

    /// The versions that are in both.
    pub fn and(self, other: Self) -> Self {
        let both = Self {
            low: self.low.max(other.low),
            high: self.high.min(other.high),
        };
        if both.is_empty() { Self::NONE } else { both }
    }

    /// The smallest range that holds both.
    pub fn hull(self, other: Self) -> Self {
        if self.is_empty() {
            other
        } else if other.is_empty() {
            self
        } else {
            Self {
                low: self.low.min(other.low),
                high: self.high.max(other.high),
            }
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            v if v.is_empty() => f.write_str("none"),
            Self {
                low,
                high: i16::MAX,
            } => write!(f, "{low}+"),
            Self { low, high } if low == high => write!(f, "{low}"),
            Self { low, high } => write!(f, "{low}-{high}"),
        }
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| {
            digits
                .parse::<i16>()
                .map_err(|_| format!("not a range of versions: {text:?}"))
        };
        if text == "none" {
            return Ok(Self::NONE);
        }
        if let Some(low) = text.strip_suffix('+') {
            return Ok(Self {
                low: number(low)?,
                high: i16::MAX,
            });
        }
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let range = Self {
            low: number(low)?,
            high: number(high)?,
        };
        if range.is_empty() {
            Err(format!("the range {text:?} is upside down"))
        } else {
            Ok(range)
        }
    }
}

impl<'de> Deserialize<'de> for Versions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// The type of a field as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// One byte; any but 0 is true.
    Bool,
    /// A signed or unsigned integer, big-endian.
    Int {
        /// 8, 16, 32 or 64.
        bits: u8,
        /// Does it have a sign?
        signed: bool,
    },
    /// The bits of an IEEE 754 double.
    Float64,
    /// 16 bytes.
    Uuid,
    /// UTF-8 of 32,767 bytes at most.
    String,
    /// Bytes.
    Bytes,
    /// Record batches, opaque here.
    Records,
    /// A struct by its name.
    Struct(String),
    /// An array of another type.
    Array(Box<Type>),
}

impl FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(element) = text.strip_prefix("[]") {
            return match element.parse()? {
                Self::Array(_) | Self::Records => {
                    Err(format!("{text:?}: no array may hold arrays or records"))
                }
                element => Ok(Self::Array(Box::new(element))),
            };
        }
        let int = |bits, signed| Ok(Self::Int { bits, signed });
        match text {
            "bool" => Ok(Self::Bool),
            "int8" => int(8, true),
            "int16" => int(16, true),
            "uint16" => int(16, false),
            "int32" => int(32, true),
            "uint32" => int(32, false),
            "int64" => int(64, true),
            "float64" => Ok(Self::Float64),
            "uuid" => Ok(Self::Uuid),
            "string" => Ok(Self::String),
            "bytes" => Ok(Self::Bytes),
            "records" => Ok(Self::Records),
            name if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Ok(Self::Struct(name.to_owned()))
            }
            _ => Err(format!("unknown type {text:?}")),
        }
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageType {
    /// Sent by a client.
    Request,
    /// Sent by a broker.
    Response,
    /// What stands before each of these.
    Header,
    /// Anything else that is written with these rules.
    Data,
    /// A record of the metadata log.
    Metadata,
    /// The key of a record in an internal topic.
    CoordinatorKey,
    /// The value of such a record.
    CoordinatorValue,
}

/// A field as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Field {
    /// Its name, in Kafka's letters.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// The versions that have it.
    pub versions: Versions,
    /// Those in which it may be null.
    #[serde(default = "no_versions")]
    pub nullable_versions: Versions,
    /// Its tag, where it is tagged.
    pub tag: Option<u32>,
    /// The versions in which it is tagged.
    #[serde(default = "no_versions")]
    pub tagged_versions: Versions,
    /// The versions in which it is written compactly, where they are not the message's.
    pub flexible_versions: Option<Versions>,
    /// The value where nothing was written; `Some(Null)` is null.
    #[serde(default, deserialize_with = "present")]
    pub default: Option<serde_json::Value>,
    /// Is it ignorable: may it be dropped silently if a version lacks it?
    #[serde(default)]
    pub ignorable: bool,
    /// Part of the key, in Kafka's collections. Nothing on the wire.
    #[serde(default)]
    pub map_key: bool,
    /// What the value is the name of. Nothing on the wire.
    pub entity_type: Option<String>,
    /// Does Kafka hold the bytes without a copy? Nothing on the wire.
    #[serde(default)]
    pub zero_copy: bool,
    /// The fields of the struct, where it is declared here.
    pub fields: Option<Vec<Field>>,
}

/// A struct that several fields share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommonStruct {
    /// Its name.
    pub name: String,
    /// The versions in which it may be used.
    pub versions: Versions,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A message as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Message {
    /// Its name, as `FetchRequest`.
    pub name: String,
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: MessageType,
    /// Its API key; for records of internal topics their type number.
    pub api_key: Option<i16>,
    /// Who serves it. Nothing on the wire.
    #[serde(default)]
    pub listeners: Vec<String>,
    /// The versions there are.
    pub valid_versions: Versions,
    /// Those with compact lengths and tags.
    #[serde(default = "no_versions")]
    pub flexible_versions: Versions,
    /// Does a broker serve the last version only if it is configured to?
    #[serde(default)]
    pub latest_version_unstable: bool,
    /// Its fields, in the order of the wire.
    pub fields: Vec<Field>,
    /// The structs that its fields share.
    #[serde(default)]
    pub common_structs: Vec<CommonStruct>,
}

/// A row of `errors.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorCode {
    /// The number on the wire.
    pub code: i16,
    /// Kafka's name of it.
    pub name: String,
    /// May the same request succeed later?
    pub retriable: bool,
}

/// A row of `refusals.json`: what Kafka does with a field of a response when it refuses the request, beyond what follows
/// from the schemas. Exactly one of `value`, `from` and `fill` is there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusalRow {
    /// The field, from the response's name on: `FetchResponse.Responses.Partitions.HighWatermark`.
    pub at: String,
    /// The versions that the row is for; all where none are written.
    #[serde(default = "all_versions")]
    pub versions: Versions,
    /// What the field holds; `Some(Null)` is null.
    #[serde(default, deserialize_with = "present")]
    pub value: Option<serde_json::Value>,
    /// The fields or arrays of the request that it is taken from, by name.
    pub from: Option<Vec<String>>,
    /// Does the array have an element for each that was asked about?
    pub fill: Option<bool>,
    /// Why.
    pub reason: String,
}

fn no_versions() -> Versions {
    Versions::NONE
}

fn all_versions() -> Versions {
    Versions {
        low: 0,
        high: i16::MAX,
    }
}

/// Keeps a `null` that is written apart from nothing written.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(from).map(Some)
}

/// Every message schema under a folder, one file each in folders of one level, in the order of their names.
pub fn load(folder: &Path) -> Result<Vec<Message>, SchemaError> {
    let mut messages = Vec::new();
    for kind in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for file in entries(&kind)? {
            if file.extension().is_some_and(|e| e == "json") {
                messages.push(parse::<Message>(&file)?);
            }
        }
    }
    messages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(messages)
}

/// The error codes, in the order of the file.
pub fn load_errors(folder: &Path) -> Result<Vec<ErrorCode>, SchemaError> {
    parse(&folder.join("errors.json"))
}

/// What Kafka does beyond the schemas when it refuses a request.
pub fn load_refusals(folder: &Path) -> Result<Vec<RefusalRow>, SchemaError> {
    let rows: Vec<RefusalRow> = parse(&folder.join("refusals.json"))?;
    for row in &rows {
        let said = [row.value.is_some(), row.from.is_some(), row.fill.is_some()];
        if said.iter().filter(|said| **said).count() != 1 || row.reason.is_empty() {
            return Err(SchemaError::Meaning {
                message: format!("refusals.json, {}", row.at),
                reason: "a row has a reason and one of value, from and fill".to_owned(),
            });
        }
    }
    Ok(rows)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, SchemaError> {
    let read = |source| SchemaError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        paths.push(entry.map_err(read)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, SchemaError> {
    let text = fs::read(path).map_err(|source| SchemaError::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|source| SchemaError::Parse {
        path: path.to_owned(),
        source,
    })
}
