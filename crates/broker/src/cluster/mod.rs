//! A cluster of nodes: [`controller`] is what they share, [`image`] the values that they exchange, [`way`] how those reach a node.

pub(crate) mod controller;
pub(crate) mod image;
mod way;
