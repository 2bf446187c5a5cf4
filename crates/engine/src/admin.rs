//! A client that only makes calls.

use std::sync::Arc;

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
