//! A peer of the embedded registry and of ottla's serdes: the crate schema_registry_converter.
//!
//! `converter URL TOPIC SCHEMAS` reads a line for each value and writes one back: `encode FORMAT JSON` registers the format's schema and
//! gives the record's value in hexadecimal digits, `decode FORMAT HEX` gives what a value holds, as JSON. SCHEMAS is an object: the schema
//! of each format. The Protobuf message is called `Order`.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};

use schema_registry_converter::blocking::avro::{AvroDecoder, AvroEncoder};
use schema_registry_converter::blocking::json::{JsonDecoder, JsonEncoder};
use schema_registry_converter::blocking::proto_decoder::ProtoDecoder;
use schema_registry_converter::blocking::proto_encoder::ProtoEncoder;
use schema_registry_converter::blocking::schema_registry::SrSettings;
use schema_registry_converter::schema_registry_common::{
    SchemaType, SubjectNameStrategy, SuppliedSchema,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

type Failure = Box<dyn Error>;

/// The record. As a `Value` its number has no sign, for which Avro has no type.
#[derive(Deserialize, Serialize)]
struct Order {
    item: String,
    count: i64,
}

struct Converter {
    settings: SrSettings,
    topic: String,
    schemas: HashMap<String, String>,
}

impl Converter {
    fn subject(&self, format: &str) -> Result<SubjectNameStrategy, Failure> {
        let (kind, name) = match format {
            "avro" => (SchemaType::Avro, None),
            "json" => (SchemaType::Json, None),
            "protobuf" => (SchemaType::Protobuf, Some("Order".to_owned())),
            _ => return Err(format!("no such format: {format}").into()),
        };
        let schema = self.schemas.get(format).ok_or("SCHEMAS lacks the format")?;
        let supplied = SuppliedSchema::new(name, kind, schema.clone());
        let topic = format!("{}-{format}", self.topic);
        Ok(SubjectNameStrategy::TopicNameStrategyWithSchema(
            topic, false, supplied,
        ))
    }

    fn encode(&self, format: &str, text: &str) -> Result<String, Failure> {
        let (order, subject): (Order, _) = (serde_json::from_str(text)?, self.subject(format)?);
        let value = serde_json::to_value(&order)?;
        let settings = self.settings.clone();
        let bytes = match format {
            "avro" => AvroEncoder::new(settings).encode_struct(order, &subject)?,
            "json" => JsonEncoder::new(settings).encode(&value, &subject)?,
            _ => ProtoEncoder::new(settings).encode_json(&value, "Order", &subject)?,
        };
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn decode(&self, format: &str, digits: &str) -> Result<String, Failure> {
        let pairs = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        let (bytes, settings) = (
            pairs.collect::<Result<Vec<u8>, _>>()?,
            self.settings.clone(),
        );
        let value = match format {
            "avro" => Value::try_from(AvroDecoder::new(settings).decode(Some(&bytes))?.value)?,
            "json" => {
                JsonDecoder::new(settings)
                    .decode(Some(&bytes))?
                    .ok_or("no value")?
                    .value
            }
            "protobuf" => {
                let found = ProtoDecoder::new(settings).decode_with_context(Some(&bytes))?;
                serde_json::to_value(found.ok_or("no value")?.value)?
            }
            _ => return Err(format!("no such format: {format}").into()),
        };
        Ok(value.to_string())
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: converter URL TOPIC SCHEMAS");
    let converter = Converter {
        settings: SrSettings::new(next()?),
        topic: next()?,
        schemas: serde_json::from_str(&next()?)?,
    };
    for line in stdin().lock().lines() {
        let line = line?;
        let mut words = line.splitn(3, ' ');
        let (verb, format, what) = (
            words.next(),
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let answer = match verb {
            Some("encode") => converter.encode(format, what)?,
            _ => converter.decode(format, what)?,
        };
        writeln!(stdout(), "{answer}")?;
    }
    Ok(())
}
