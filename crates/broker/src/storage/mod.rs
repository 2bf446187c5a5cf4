//! Partitions' logs: in memory or in a folder, in Kafka's own segment format.
//!
//! [`replica`] is what one node has of a partition: its log, and its part in the cluster. A [`log`] is made of [`segment`]s,
//! each in [`memory`] or a [`file`] with its sparse [`index`]; [`epochs`] and [`producers`] are what it knows of leaders and of
//! idempotent producers, [`batch`] is what is looked at in a batch, [`retention`] which segments go, [`folder`] the files around the logs.

pub(crate) mod batch;
mod epochs;
mod file;
pub(crate) mod folder;
mod index;
pub(crate) mod log;
mod memory;
mod producers;
pub(crate) mod replica;
mod retention;
pub(crate) mod segment;

#[cfg(test)]
mod tests;
