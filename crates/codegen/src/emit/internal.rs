//! The table of records in Kafka's internal topics: which messages belong to the type number of a record.

use std::collections::HashSet;

use super::code::Code;
use crate::resolve::Message;
use crate::schema::{MessageType, SchemaError, Versions};

/// One kind of record.
struct RecordKind<'a> {
    topic: &'static str,
    number: i16,
    key: Option<&'a Message>,
    value: &'a Message,
}

/// The table, ordered by topic and number.
///
/// # Errors
/// A key without a value, a record without a number, two kinds of one number in a topic.
pub fn internal(messages: &[Message]) -> Result<String, SchemaError> {
    let mut kinds = Vec::new();
    for m in messages {
        kinds.extend(kind(messages, m)?);
    }
    kinds.sort_by_key(|kind| (kind.topic, kind.number));
    let mut taken = HashSet::new();
    for kind in &kinds {
        if !taken.insert((kind.topic, kind.number)) {
            return Err(wrong(
                kind.value,
                &format!(
                    "number {} of {} is another record's",
                    kind.number, kind.topic
                ),
            ));
        }
    }
    let mut c = Code::new();
    c.line("/// Every kind of record there is, by topic and number.");
    c.line("pub const RECORD_KINDS: &[RecordKind] = &[");
    for kind in &kinds {
        let key = kind
            .key
            .map_or("None".to_owned(), |m| format!("Some({})", schema(m)));
        c.line(&format!(
            "RecordKind {{ topic: Topic::{}, number: {}, name: \"{}\", key: {key}, value: {} }},",
            kind.topic,
            kind.number,
            name(kind),
            schema(kind.value)
        ));
    }
    c.line("];");
    Ok(c.finish())
}

fn kind<'a>(
    messages: &'a [Message],
    m: &'a Message,
) -> Result<Option<RecordKind<'a>>, SchemaError> {
    let number = || {
        m.api_key
            .ok_or_else(|| wrong(m, "a record of an internal topic needs an apiKey"))
    };
    let value = |stem: &str| {
        let name = format!("{stem}Value");
        messages
            .iter()
            .find(|m| m.name == name)
            .ok_or_else(|| wrong(m, &format!("there is no {name}")))
    };
    Ok(match (m.kind, m.name.strip_suffix("Key")) {
        (MessageType::Metadata, _) => Some(RecordKind {
            topic: metadata_topic(&m.name),
            number: number()?,
            key: None,
            value: m,
        }),
        (MessageType::CoordinatorKey, Some(stem)) => Some(RecordKind {
            topic: coordinator_topic(stem),
            number: number()?,
            key: Some(m),
            value: value(stem)?,
        }),
        (MessageType::CoordinatorKey, None) => return Err(wrong(m, "its name must end in Key")),
        // As releases before 4.0 have it: the number of a key is its version.
        (MessageType::Data, Some(stem)) => Some(RecordKind {
            topic: coordinator_topic(stem),
            number: only(m.versions).ok_or_else(|| wrong(m, "a key has one version"))?,
            key: Some(m),
            value: value(stem)?,
        }),
        _ => None,
    })
}

/// Schemas name no topic; the names of the records do, except those of the group coordinator.
fn coordinator_topic(stem: &str) -> &'static str {
    match stem {
        "TransactionLog" => "TransactionState",
        "ShareSnapshot" | "ShareUpdate" => "ShareGroupState",
        _ => "ConsumerOffsets",
    }
}

fn metadata_topic(name: &str) -> &'static str {
    if name.starts_with("RemoteLog") || name.starts_with("RemotePartition") {
        "RemoteLogMetadata"
    } else {
        "ClusterMetadata"
    }
}

fn only(versions: Versions) -> Option<i16> {
    (versions.low == versions.high).then_some(versions.low)
}

fn name<'a>(kind: &RecordKind<'a>) -> &'a str {
    let key = kind.key.and_then(|m| m.name.strip_suffix("Key"));
    key.unwrap_or(&kind.value.name)
}

fn schema(m: &Message) -> String {
    format!(
        "Schema {{ name: \"{}\", versions: Versions {{ min: {}, max: {} }} }}",
        m.name, m.versions.low, m.versions.high
    )
}

fn wrong(message: &Message, reason: &str) -> SchemaError {
    SchemaError::Meaning {
        message: message.name.clone(),
        reason: reason.to_owned(),
    }
}
