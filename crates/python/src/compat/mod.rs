//! What each message of a program for confluent-kafka passes: the calls that are Python code elsewhere would cost more than Kafka.
//! Options, checks and rare calls are in `python/ottla/compat/confluent_kafka`.

pub(crate) mod consumer;
pub(crate) mod exceptions;
pub(crate) mod futures;
pub(crate) mod inbox;
pub(crate) mod message;
pub(crate) mod outbox;
pub(crate) mod producer;
pub(crate) mod record_future;
