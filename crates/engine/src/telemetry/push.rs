//! A push that still has to be encoded and compressed. That takes processor time, and no engine.

use std::time::Duration;

use bytes::Bytes;
use ottla_protocol::compression::{self, Compression};
use ottla_protocol::messages::PushTelemetryRequest;
use ottla_protocol::{ApiKey, Uuid};

use super::otlp::{self, Point, Temporality};
use crate::api::Request;
use crate::dispatch::{Outgoing, Unfinished};
use crate::error::{Error, Kind};

/// A PushTelemetry whose metrics still have to be encoded.
#[derive(Debug)]
pub(super) struct Push {
    pub(super) token: u64,
    pub(super) version: i16,
    pub(super) timeout: Duration,
    pub(super) instance: Uuid,
    pub(super) subscription: i32,
    pub(super) codec: Compression,
    pub(super) temporality: Temporality,
    pub(super) terminating: bool,
    /// The most bytes of the metrics.
    pub(super) most: usize,
    pub(super) now_ns: u64,
    /// The client's own first, then those of its brokers, topics and partitions.
    pub(super) points: Vec<Point>,
}

impl Unfinished for Push {
    fn token(&self) -> u64 {
        self.token
    }

    fn about(&self) -> (ApiKey, i16) {
        (ApiKey::PushTelemetry, self.version)
    }

    fn finish(self: Box<Self>) -> Result<Outgoing, Error> {
        let (codec, metrics) = self.metrics()?;
        let compression_type = i8::try_from(codec.id()).unwrap_or(0);
        let request = Request::PushTelemetry(PushTelemetryRequest {
            client_instance_id: self.instance,
            subscription_id: self.subscription,
            terminating: self.terminating,
            compression_type,
            metrics,
            ..Default::default()
        });
        Ok(Outgoing {
            token: self.token,
            request,
            version: self.version,
            timeout: self.timeout,
            answered: true,
            expected_bytes: 0,
        })
    }
}

impl Push {
    /// The encoded metrics, with their codec: as many as the broker takes, half of the rest being left out at a time.
    fn metrics(&self) -> Result<(Compression, Bytes), Error> {
        let mut count = self.points.len();
        loop {
            let points = self.points.get(..count).unwrap_or_default();
            let (codec, bytes) = self.encoded(points)?;
            if bytes.len() <= self.most || count == 0 {
                return Ok((codec, bytes));
            }
            count /= 2;
        }
    }

    fn encoded(&self, points: &[Point]) -> Result<(Compression, Bytes), Error> {
        let plain = otlp::encode(points, self.temporality, self.now_ns);
        if self.codec == Compression::None {
            return Ok((Compression::None, plain.into()));
        }
        let mut out = Vec::new();
        compression::compress(self.codec, None, &plain, &mut out).map_err(|cause| {
            let text = format!("the metrics do not compress: {cause}");
            Error::new(Kind::Argument, text).calling(ApiKey::PushTelemetry.name())
        })?;
        Ok((self.codec, out.into()))
    }
}
