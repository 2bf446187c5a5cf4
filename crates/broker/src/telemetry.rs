//! Metrics that clients push (KIP-714): what is asked of them, and what they pushed.
//!
//! The broker's own settings (`telemetry.metrics`) are for all clients; [`subscriptions`] are for those that they match. As in
//! Kafka, a client is known by the id that it was given, pushes no more often than the interval, and nothing after its last push.

mod subscriptions;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_protocol::compression::{self, Compression};
use ottla_protocol::messages::PushTelemetryRequest;
use ottla_protocol::{ErrorCode, Str, Uuid};

pub(crate) use self::subscriptions::{
    Attributes, CLIENT_ID, CLIENT_INSTANCE_ID, CLIENT_SOFTWARE_NAME, CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS, CLIENT_SOURCE_PORT, Configs, Subscription, Subscriptions,
};

/// This many pushes are kept; above it the oldest go.
const MOST_PUSHES: usize = 1000;
/// This many clients are known; above it the ones that have been silent longest go.
const MOST_CLIENTS: usize = 10_000;
/// No push decompresses to more.
const MOST_BYTES: usize = 16 << 20;

/// The metrics that a client pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The client's `client.id`.
    pub client_id: Option<Str>,
    /// The id that the broker gave the client.
    pub client_instance_id: [u8; 16],
    /// Whether the client said that it is its last push.
    pub terminating: bool,
    /// The codec that it came in.
    pub compression: Compression,
    /// Decompressed: a `MetricsData` of OTLP, in protobuf.
    pub metrics: Bytes,
}

/// What is asked of clients.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Beginnings of names; none means that nothing is asked for.
    pub(crate) prefixes: Vec<String>,
    pub(crate) interval: Duration,
    pub(crate) max_bytes: usize,
    pub(crate) delta: bool,
}

impl Wanted {
    /// Whether clients are asked for anything.
    pub(crate) fn is_on(&self) -> bool {
        !self.prefixes.is_empty()
    }

    /// A number that changes with what is asked for.
    pub(crate) fn id(&self) -> i32 {
        let text = format!("{self:?}");
        let hash = fnv(text.as_bytes());
        i32::from_ne_bytes(hash.to_ne_bytes())
    }
}

/// FNV-1a: names a subscription, and protects nothing.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// What clients pushed.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    kept: VecDeque<Push>,
    clients: HashMap<Uuid, Client>,
}

#[derive(Debug)]
struct Client {
    seen: Instant,
    /// What was requested of it when it was seen.
    subscription: i32,
    /// When it pushed last.
    pushed: Option<Instant>,
    terminated: bool,
}

impl Pushes {
    /// A client requests its subscription; `id` is its own, or a new one.
    pub(crate) fn welcome(&mut self, now: Instant, id: Uuid, wanted: &Wanted) {
        self.client(now, id, wanted.id());
    }

    fn client(&mut self, now: Instant, id: Uuid, subscription: i32) -> &mut Client {
        if self.clients.len() >= MOST_CLIENTS && !self.clients.contains_key(&id) {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.seen);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.clients.remove(&oldest);
            }
        }
        let client = self.clients.entry(id).or_insert(Client {
            seen: now,
            subscription,
            pushed: None,
            terminated: false,
        });
        client.seen = now;
        // It learns of a change at once, however early it pushes.
        if client.subscription != subscription {
            client.subscription = subscription;
            client.pushed = None;
        }
        client
    }

    /// A client pushes.
    ///
    /// # Errors
    /// The code that refuses it.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        wanted: &Wanted,
        client_id: Option<Str>,
        request: &PushTelemetryRequest,
    ) -> Result<(), ErrorCode> {
        let id = request.client_instance_id;
        if id == Uuid::ZERO {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let client = self.client(now, id, wanted.id());
        if client.terminated {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let is_early = client.pushed.is_some_and(|at| now < at + wanted.interval);
        if is_early && !request.terminating {
            return Err(ErrorCode::THROTTLING_QUOTA_EXCEEDED);
        }
        // Kafka counts those that it refuses below, too.
        client.pushed = Some(now);
        if request.subscription_id != wanted.id() {
            return Err(ErrorCode::UNKNOWN_SUBSCRIPTION_ID);
        }
        let compression = Compression::from_id(i16::from(request.compression_type))
            .ok_or(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE)?;
        if request.metrics.len() > wanted.max_bytes {
            return Err(ErrorCode::TELEMETRY_TOO_LARGE);
        }
        client.terminated = request.terminating;
        let metrics = compression::decompress(compression, &request.metrics, MOST_BYTES)
            .map_err(|_| ErrorCode::INVALID_RECORD)?;
        if self.kept.len() == MOST_PUSHES {
            self.kept.pop_front();
        }
        self.kept.push_back(Push {
            client_id,
            client_instance_id: id.0,
            terminating: request.terminating,
            compression,
            metrics: metrics.into(),
        });
        Ok(())
    }

    /// All pushes that are kept, the oldest first.
    pub(crate) fn all(&self) -> Vec<Push> {
        self.kept.iter().cloned().collect()
    }
}
