//! The walks that `ottla-codegen` writes.

#![allow(clippy::all, unused_variables)]

use crate::{form as f, messages, wire as w};

include!(concat!(env!("OUT_DIR"), "/forms.rs"));
