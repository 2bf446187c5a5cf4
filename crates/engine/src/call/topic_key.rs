//! How a call names a topic: by its name, or by its id (KIP-516).

use std::sync::Arc;

use bytes::Bytes;
use ottla_protocol::Uuid;
use serde::Deserialize;

use super::values;
use crate::error::{Error, Item};

/// A topic of a call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Arguments")]
pub enum TopicKey {
    /// By its name.
    Name(String),
    /// By its id.
    Id(Uuid),
}

#[derive(Deserialize)]
struct Arguments {
    name: Option<String>,
    #[serde(deserialize_with = "values::byte_string")]
    id: Bytes,
}

impl TryFrom<Arguments> for TopicKey {
    type Error = &'static str;

    fn try_from(given: Arguments) -> Result<TopicKey, &'static str> {
        match given.name {
            Some(name) => Ok(TopicKey::Name(name)),
            None => match <[u8; 16]>::try_from(&*given.id) {
                Ok([0, ..]) if given.id.iter().all(|byte| *byte == 0) => {
                    Err("no topic has the id 0")
                }
                Ok(id) => Ok(TopicKey::Id(Uuid(id))),
                Err(_) => Err("the id of a topic has 16 bytes"),
            },
        }
    }
}

impl TopicKey {
    /// The topics with these names.
    pub fn named(names: Vec<String>) -> Vec<TopicKey> {
        names.into_iter().map(TopicKey::Name).collect()
    }

    /// The fields of a request that name the topic.
    pub(crate) fn fields(&self) -> (Option<ottla_protocol::Str>, Uuid) {
        match self {
            TopicKey::Name(name) => (Some(name.as_str().into()), Uuid::ZERO),
            TopicKey::Id(id) => (None, *id),
        }
    }

    /// Whether a row of a response is about the topic.
    pub(crate) fn is(&self, name: Option<&str>, id: Uuid) -> bool {
        match self {
            TopicKey::Name(own) => name == Some(own.as_str()),
            TopicKey::Id(own) => *own == id,
        }
    }

    /// The error with the topic that it is about.
    pub(crate) fn blame(&self, error: Error) -> Error {
        match self {
            TopicKey::Name(name) => error.with_topic(&name.as_str().into()),
            TopicKey::Id(id) => error.with_topic_id(&Arc::from(id.to_string())),
        }
    }
}

impl From<TopicKey> for Item {
    fn from(key: TopicKey) -> Item {
        match key {
            TopicKey::Name(name) => Item::Name(name),
            TopicKey::Id(id) => Item::TopicId(id.0),
        }
    }
}
