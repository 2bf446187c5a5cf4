//! A cluster of nodes: [`controller`] is what they share, [`image`] the values that they exchange.

pub(crate) mod controller;
pub(crate) mod image;
