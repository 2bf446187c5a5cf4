//! Partitions' logs: in memory or in a folder, in Kafka's own segment format.
//!
//! [`replica`] is what one node has of a partition: its log, and its part in the cluster. A [`log`] is made of [`segment`]s,
//! each in [`memory`] or a [`file`] with its sparse [`index`]; [`epochs`], [`producers`] and [`transactions`] are what it
//! knows of leaders, of idempotent producers and of what they have open here, [`batch`] is what is looked at in a batch,
//! [`retention`] is which segments go, and [`compaction`] what stays of others: each is a [`source`] then. [`naming`] and
//! [`swap`] are about files, [`folder`] the files around the logs.

pub(crate) mod batch;
pub(crate) mod compaction;
mod epochs;
mod file;
pub(crate) mod folder;
mod index;
pub(crate) mod log;
mod memory;
mod naming;
pub(crate) mod producers;
pub(crate) mod replica;
mod retention;
pub(crate) mod segment;
mod source;
mod swap;
pub(crate) mod transactions;

#[cfg(test)]
mod tests;
