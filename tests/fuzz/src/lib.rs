//! Attacks on everything that reads bytes: the targets, their first inputs, and the invariants.
//!
//! A target is a function of bytes that panics if an invariant is broken: the code panics, hangs, holds more memory than
//! the size of the input allows, or does not write again what it read. The binaries in `targets/` hand these functions to
//! libFuzzer; `tests/replay.rs` runs them with the seeds and with every stored finding, on stable Rust.

// A target says what is broken by a panic.
#![allow(clippy::panic, clippy::expect_used, clippy::print_stderr)]

pub mod certificates;
pub mod consumer_protocol;
pub mod corpus;
pub mod frames;
mod input;
pub mod memory;
pub mod messages;
pub mod records;
pub mod reference;
pub mod sasl;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its binary, and of its folder in `found/`.
    pub name: &'static str,
    /// The function to run on an input.
    pub run: fn(&[u8]),
    /// The first inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "request",
        run: messages::request,
        seeds: corpus::requests,
    },
    Target {
        name: "response",
        run: messages::response,
        seeds: corpus::responses,
    },
    Target {
        name: "message",
        run: messages::message,
        seeds: corpus::messages,
    },
    Target {
        name: "consumer_protocol",
        run: consumer_protocol::blob,
        seeds: corpus::blobs,
    },
    Target {
        name: "reference",
        run: reference::differential,
        seeds: corpus::messages,
    },
    Target {
        name: "records",
        run: records::stored,
        seeds: corpus::records,
    },
    Target {
        name: "batch",
        run: records::batch,
        seeds: corpus::sections,
    },
    Target {
        name: "message_set",
        run: records::message_set,
        seeds: corpus::sets,
    },
    Target {
        name: "segment",
        run: records::log_segment,
        seeds: corpus::segments,
    },
    Target {
        name: "internal",
        run: records::internal,
        seeds: corpus::internal,
    },
    Target {
        name: "frames",
        run: frames::split,
        seeds: corpus::streams,
    },
    Target {
        name: "connection",
        run: frames::connection,
        seeds: corpus::answers,
    },
    Target {
        name: "sasl",
        run: sasl::exchange,
        seeds: sasl::exchanges,
    },
    Target {
        name: "login",
        run: sasl::login,
        seeds: sasl::logins,
    },
    Target {
        name: "old_broker",
        run: frames::old_broker,
        seeds: corpus::old_answers,
    },
    Target {
        name: "certificates",
        run: certificates::material,
        seeds: certificates::seeds,
    },
];
