//! Metrics that brokers request (KIP-714): subscriptions, and pushes.
//!
//! ```text
//!            a connection is up whose broker takes them
//!   idle ──────────────────────────────────────────────▶ asking ◀───────────────────────────────┐
//!     ▲                                                    │ GetTelemetrySubscriptions          │
//!     │                                                    ▼                                    │
//!     │            nothing wanted: again in an interval ─ asked                                 │
//!     │                                                    │ metrics are wanted                 │ unknown subscription,
//!     │                                                    ▼                                    │ unknown compression
//!     └── that connection is gone, no other takes them ─ waiting ◀─ in an interval ─┐           │
//!                                                          │ PushTelemetry          │           │
//!                                                          ▼                        │           │
//!                                                        pushed ───────────────────-┴───────────┘
//!
//!   close ──▶ one last push, if any are wanted ──▶ off        refused for good ──▶ off
//! ```
//!
//! It opens no connection before a broker has requested something: a client without a connection
//! has no receiver for its metrics. Only [`Telemetry::want_instance`], a caller's request for the
//! id by which brokers know the client, opens the first connection. A first push comes after 0.5 to
//! 1.5 intervals, so that clients which start together do not push together. A value counts as
//! reported only after the response to its push.
//!
//! * `otlp`: metrics as OTLP's protobuf (`protobuf` writes its bytes), under KIP-714's names
//! * `push`: a push that still has to be encoded and compressed, which takes no engine
//! * `subscription`: what a broker requested, within the client's bounds
//! * `registered`: metrics of the program (KIP-1076)
//! * `reporter`: the states above

mod otlp;
mod protobuf;
mod push;
mod registered;
mod reporter;
mod subscription;
#[cfg(test)]
mod tests;

pub(crate) use self::reporter::Telemetry;
