//! A client that only makes calls, and the calls that its callers know by names, in a file for each noun.

pub mod acls;
pub mod cluster;
pub mod codes;
pub mod configs;
pub mod delegation_tokens;
pub mod features;
pub mod group_offsets;
pub mod groups;
pub mod hanging;
pub mod lag;
pub mod log_dirs;
pub mod partitions;
pub mod producers;
pub mod quorum;
pub mod quotas;
pub mod raw;
pub mod reassignments;
pub mod scram;
pub mod share_groups;
pub mod streams_groups;
pub mod topics;
pub mod transactions;
mod verb;

use std::sync::Arc;

pub use self::verb::{Ask, Verb, Visitor};
pub use crate::call::{FROZENSET, ROWS, UUID};

use crate::config::Config;
use crate::engine::Engine;
use crate::part::sealed::Composition;
use crate::part::{Client, Parts};

/// No part of its own: [`Engine::ask`] is all it does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admin;

impl Composition for Admin {
    #[allow(private_interfaces, reason = "sealed: nobody else composes clients")]
    fn parts(&mut self) -> Parts<'_> {
        [None, None]
    }
}

impl Client for Admin {}

impl Engine<Admin> {
    /// An admin client. `seed` seeds all random choices.
    pub fn admin(config: Arc<Config>, seed: u64) -> Engine<Admin> {
        Engine::with_client(config, seed, Admin)
    }
}

/// Calls `visitor` with the verb of this name; `None` if there is no such verb.
pub fn find<V: Visitor>(name: &str, visitor: V) -> Option<V::Value> {
    acls::find(name, visitor)
        .or_else(|visitor| cluster::find(name, visitor))
        .or_else(|visitor| configs::find(name, visitor))
        .or_else(|visitor| delegation_tokens::find(name, visitor))
        .or_else(|visitor| features::find(name, visitor))
        .or_else(|visitor| group_offsets::find(name, visitor))
        .or_else(|visitor| groups::find(name, visitor))
        .or_else(|visitor| hanging::find(name, visitor))
        .or_else(|visitor| lag::find(name, visitor))
        .or_else(|visitor| log_dirs::find(name, visitor))
        .or_else(|visitor| partitions::find(name, visitor))
        .or_else(|visitor| producers::find(name, visitor))
        .or_else(|visitor| quorum::find(name, visitor))
        .or_else(|visitor| quotas::find(name, visitor))
        .or_else(|visitor| raw::find(name, visitor))
        .or_else(|visitor| reassignments::find(name, visitor))
        .or_else(|visitor| scram::find(name, visitor))
        .or_else(|visitor| share_groups::find(name, visitor))
        .or_else(|visitor| streams_groups::find(name, visitor))
        .or_else(|visitor| topics::find(name, visitor))
        .or_else(|visitor| transactions::find(name, visitor))
        .ok()
}
