//! Partitions' logs: in memory or in a folder, in Kafka's own segment format.
//!
//! [`log`] is a partition's log over [`segment`]s, each in [`memory`] or a [`file`] with its sparse [`index`];
//! [`producers`] is what a log knows of idempotent producers, [`batch`] what is looked at in a batch, [`folder`] the files
//! around the logs.

pub(crate) mod batch;
mod file;
pub(crate) mod folder;
mod index;
pub(crate) mod log;
mod memory;
mod producers;
pub(crate) mod segment;

#[cfg(test)]
mod tests;
