//! Arguments and outcomes that several admin calls share.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::Visitor;
use serde::ser::{SerializeMap, SerializeStruct, SerializeTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Item};

/// Values by name or partition, in the order of the call.
#[derive(Clone, Debug)]
pub struct ByItem<V>(pub Vec<(Item, V)>);

impl<V: Send + Sync + 'static> ByItem<V> {
    /// Each item with its value, if none failed.
    ///
    /// # Errors
    /// The error of the first item that failed, with those of all, and with the values of the others ([`Error::successes`]).
    pub(crate) fn new<I: Into<Item>>(
        items: Vec<I>,
        found: Vec<Result<V, Error>>,
    ) -> Result<ByItem<V>, Error> {
        let (mut values, mut failures) = (Vec::with_capacity(items.len()), Vec::new());
        for (item, result) in items.into_iter().zip(found) {
            match result {
                Ok(value) => values.push((item.into(), value)),
                Err(error) => failures.push((item.into(), error)),
            }
        }
        match Error::first_of(failures) {
            Some(error) => Err(error.with_successes(ByItem(values))),
            None => Ok(ByItem(values)),
        }
    }

    /// Each item with its value.
    pub(crate) fn of<I: Into<Item>>(values: impl IntoIterator<Item = (I, V)>) -> ByItem<V> {
        let values = values.into_iter();
        ByItem(values.map(|(item, value)| (item.into(), value)).collect())
    }
}

/// The name of a newtype around a list that callers get as a table.
pub const ROWS: &str = "Rows";

/// A list of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T>(pub Vec<T>);

impl<T: Serialize> Serialize for Rows<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(ROWS, &self.0)
    }
}

impl<V: Serialize> Serialize for ByItem<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (item, value) in &self.0 {
            map.serialize_entry(item, value)?;
        }
        map.end()
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Item::Name(name) => serializer.serialize_str(name),
            Item::Number(number) => serializer.serialize_i64(*number),
            Item::Nothing => serializer.serialize_none(),
            Item::TopicId(id) => topic_id(id, serializer),
            Item::Partition(topic, number) => partition(topic, *number, serializer),
            Item::Tuple(parts) => {
                let mut tuple = serializer.serialize_tuple(parts.len())?;
                for part in parts {
                    tuple.serialize_element(part)?;
                }
                tuple.end()
            }
            Item::Object(class, fields) => {
                let mut object = serializer.serialize_struct(class, fields.len())?;
                for (name, value) in fields {
                    object.serialize_field(name, value)?;
                }
                object.end()
            }
        }
    }
}

/// A partition, as an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct TopicPartition {
    /// The topic.
    #[serde(deserialize_with = "name")]
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
}

/// The name of a newtype around a list that callers get as a set.
pub const FROZENSET: &str = "frozenset";

/// The name of a newtype around 16 bytes that callers get as a UUID.
pub const UUID: &str = "UUID";

/// Kafka's operations of ACLs by their codes; the first code is 3.
const OPERATIONS: [&str; 13] = [
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
];

/// The operations of these bits, of which bit n is the operation with Kafka's code n: a set of their names.
pub(crate) fn operations<S: Serializer>(
    bits: &Option<i32>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Some(bits) = bits else {
        return serializer.serialize_none();
    };
    let named = (3..).zip(OPERATIONS);
    let allowed = named.filter(|(code, _)| bits & (1 << code) != 0);
    let names: Vec<&str> = allowed.map(|(_, name)| name).collect();
    serializer.serialize_newtype_struct(FROZENSET, &names)
}

/// The id of a topic; none where brokers have none.
pub(crate) fn topic_id<S: Serializer>(id: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
    if *id == [0; 16] {
        return serializer.serialize_none();
    }
    serializer.serialize_newtype_struct(UUID, &Raw(id))
}

struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

pub(crate) fn bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

type Partition = (Arc<str>, i32);

struct Pair<'a>(&'a Partition);

impl Serialize for Pair<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        partition(&self.0.0, self.0.1, serializer)
    }
}

fn partition<S: Serializer>(topic: &str, number: i32, serializer: S) -> Result<S::Ok, S::Error> {
    let mut pair = serializer.serialize_struct("TopicPartition", 2)?;
    pair.serialize_field("topic", topic)?;
    pair.serialize_field("partition", &number)?;
    pair.end()
}

pub(crate) fn partitions<S: Serializer>(
    all: &[Partition],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(Pair))
}

pub(crate) fn known_partitions<S: Serializer>(
    all: &Option<Vec<Partition>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match all {
        Some(all) => partitions(all, serializer),
        None => serializer.serialize_none(),
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Ok(String::deserialize(deserializer)?.into())
}

/// Names in an argument.
pub(crate) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<str>>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    Ok(names.into_iter().map(Arc::from).collect())
}

/// Bytes in an argument.
pub(crate) fn byte_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    struct Copied;
    impl Visitor<'_> for Copied {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
            Ok(Bytes::copy_from_slice(bytes))
        }
    }
    deserializer.deserialize_bytes(Copied)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::ClusterDescription;
    use crate::error::Kind;

    #[test]
    fn the_first_error_has_those_of_all_items() {
        let names = ["a", "b", "c"].map(String::from).to_vec();
        let error = |text| Err(Error::new(Kind::Broker, text));
        let found = ByItem::new(names.clone(), vec![Ok(1), error("one"), error("two")]);
        let error = found.unwrap_err();
        assert_eq!(error.message(), "one");
        let failures = error.failures().iter();
        let failures: Vec<_> = failures.map(|(item, it)| (item, it.message())).collect();
        let [b, c] = ["b", "c"].map(|name| Item::Name(name.to_owned()));
        assert_eq!(failures, [(&b, "one"), (&c, "two")]);
        let found = ByItem::new(names, vec![Ok(1), Ok(2), Ok(3)]).unwrap();
        let written = serde_json::to_value(found).unwrap();
        assert_eq!(written, json!({"a": 1, "b": 2, "c": 3}));
    }

    #[test]
    fn operations_are_written_by_their_names() {
        let described = |authorized_operations| ClusterDescription {
            cluster_id: None,
            controller: None,
            nodes: Vec::new(),
            authorized_operations,
        };
        let written = |bits| serde_json::to_value(described(bits)).unwrap();
        assert_eq!(written(None)["authorized_operations"], json!(null));
        let bits = Some(1 << 3 | 1 << 8);
        assert_eq!(
            written(bits)["authorized_operations"],
            json!(["READ", "DESCRIBE"])
        );
    }

    #[test]
    fn the_id_that_old_brokers_have_is_none() {
        let written = |id| topic_id(&id, serde_json::value::Serializer).unwrap();
        assert_eq!(written([0; 16]), json!(null));
        assert_eq!(written([1; 16]), json!(vec![1; 16]));
    }
}
