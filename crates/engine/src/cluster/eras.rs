//! Brokers that do not return their versions: their age as it was found out, and which requests
//! they get.
//!
//! ```text
//!           no response to ApiVersions      probed        probed again, the same result     new connections use it
//!   unknown ─────────────────────────▶ Suspected ──────▶ Likely ─────────────────────────▶ Found ──▶ until it expires:
//!                                          │               │                                         Suspected
//!                                          └───────────────┴── it is not an old broker ──▶ Doubted: asked again
//! ```
//!
//! One proof is not enough: a newer broker that is about to stop, or whose network is cut twice, looks like an old one, and
//! would be used without idempotence for a long time. Where another broker is known to be of the same era, one proof is enough. A
//! broker that has reported its versions is never taken for an old one.
//!
//! Where other brokers of the cluster have reported their versions, an old one is unlikely: only an upgrade mixes them. Faults in a
//! row look like one (simulation, `deposed` seed 15727186: four within 50 ms). Faults pass and the age of a broker does not, so such
//! a broker must look old for [`PASSING`]. One that was taken for an old one before, on less evidence, is probed again as soon as
//! another broker reports its versions (seed 15740739).
//!
//! The evidence of a broker's age is found in `connection`; this remembers it by address, for all connections to it.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::context::Context;
use crate::config::{Config, SaslMechanism, SecurityProtocol};
use crate::error::{Error, Evidence, Kind};
use crate::observe::Observed;
use crate::release::{Approach, Era, Fallback};

/// How long a broker must look old where others of its cluster have reported their versions: longer than faults in a row.
const PASSING: Duration = Duration::from_secs(30);

/// The finding about a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// It ended a connection as old brokers do, and others, first at this time.
    Suspected(Instant),
    /// A probe showed this era, first at this time.
    Likely(Era, Instant),
    /// It is used as one of this era until then. It has looked old since the first time; that is proof if it was for long.
    Found {
        era: Era,
        since: Instant,
        until: Instant,
        is_proven: bool,
    },
    /// A probe showed no old broker.
    Doubted,
    /// It returned its versions once. If it looks old later, that is a fault, since no broker is
    /// downgraded that far.
    Told,
}

/// All brokers that do not return their versions, by address.
#[derive(Debug, Default)]
pub(super) struct Eras(FxHashMap<String, Finding>);

impl Eras {
    /// How a new connection to this address negotiates.
    pub(super) fn approach(&self, now: Instant, config: &Config, address: &str) -> Approach {
        let old = match config.broker_version_fallback {
            Fallback::Old(era) if !config.api_version_request => return Approach::Assume(era),
            Fallback::Old(_) => true,
            Fallback::Probe | Fallback::Never => false,
        };
        let has_sasl = has_sasl(config);
        match self.0.get(address) {
            Some(Finding::Found { era, until, .. }) if *until > now => Approach::Assume(*era),
            Some(Finding::Found { .. }) if old || has_sasl => Approach::Ask,
            Some(Finding::Suspected(since)) if has_sasl && !self.is_lasting(now, *since) => {
                Approach::Ask
            }
            Some(Finding::Found { .. } | Finding::Suspected(_) | Finding::Likely(..)) => {
                Approach::Probe
            }
            // Where one broker is old, others are as well, and a probe is quicker than silence.
            None if !old && self.any_found(|_| true) => Approach::Probe,
            None if config.broker_version_fallback == Fallback::Probe => Approach::AskBriefly,
            Some(Finding::Doubted | Finding::Told) | None => Approach::Ask,
        }
    }

    fn any_found(&self, wanted: impl Fn(Era) -> bool) -> bool {
        let mut findings = self.0.values();
        findings.any(|finding| matches!(finding, Finding::Found { era, .. } if wanted(*era)))
    }

    /// Whether a probe that shows this era is sufficient proof.
    fn is_believed(&self, now: Instant, address: &str, era: Era) -> bool {
        let again = match self.0.get(address) {
            Some(Finding::Likely(likely, since)) => *likely == era && self.is_lasting(now, *since),
            _ => false,
        };
        again || self.any_found(|found| found == era)
    }

    /// Whether a broker that has looked old since then is one.
    fn is_lasting(&self, now: Instant, since: Instant) -> bool {
        !self.is_mixed() || now >= since + PASSING
    }

    /// Whether a broker of the cluster has reported its versions.
    fn is_mixed(&self) -> bool {
        self.0.values().any(|finding| *finding == Finding::Told)
    }

    /// A broker that was suspected took the authentication of 0.9. It is used as one.
    pub(super) fn authenticated(&mut self, now: Instant, context: &mut Context, address: &str) {
        if matches!(self.0.get(address), Some(Finding::Suspected(_))) {
            self.find(now, context, address, Era::V0_9, AUTHENTICATED);
        }
    }

    /// A broker returned its versions. Returns the addresses of brokers that are used as old ones on short evidence: they are
    /// probed again, and their connections are of no use.
    pub(super) fn told(&mut self, config: &Config, address: &str) -> Vec<String> {
        self.0.insert(address.to_owned(), Finding::Told);
        let mut doubted = Vec::new();
        for (address, finding) in &mut self.0 {
            if let Finding::Found {
                era,
                since,
                is_proven: false,
                ..
            } = *finding
            {
                *finding = match has_sasl(config) {
                    true => Finding::Suspected(since),
                    false => Finding::Likely(era, since),
                };
                doubted.push(address.clone());
            }
        }
        doubted.sort();
        doubted
    }

    /// The error of a set-up that ended as with a broker that does not return its versions, where
    /// the settings name the version of such a broker, and that version cannot authenticate the
    /// client.
    pub(super) fn explain(&self, config: &Config, address: &str, cause: Error) -> Error {
        let is_silent = cause.evidence() == Some(Evidence::Suspect);
        let has_told = self.0.get(address) == Some(&Finding::Told);
        match config.unknown_to_old().filter(|_| is_silent && !has_told) {
            Some((mechanism, era)) => {
                let (name, era) = (mechanism.name(), era.name());
                let text = format!(
                    "the broker does not return its versions and is treated as Kafka {era} (broker.version.fallback), and {name} \
                     needs Kafka {} or newer: use security.protocol and sasl.mechanism of one of its listeners, or remove \
                     broker.version.fallback if the brokers are newer",
                    mechanism.since()
                );
                Error::new(Kind::Authentication, text).at(address)
            }
            None => cause,
        }
    }

    /// The set-up of a connection failed. True if another attempt at once is worth it.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        context: &mut Context,
        address: &str,
        cause: &Error,
    ) -> bool {
        // Where an authentication is wanted that 0.9 does not know, no probe can find anything out.
        let is_known = |mechanism| mechanism == SaslMechanism::Gssapi;
        if !context.config.authenticates().is_none_or(is_known) {
            return false;
        }
        let (era, reason) = match (cause.evidence(), context.config.broker_version_fallback) {
            _ if self.0.get(address) == Some(&Finding::Told) => return false,
            (Some(Evidence::Proven(era)), _) if self.is_believed(now, address, era) => {
                (era, reason(era))
            }
            (Some(Evidence::Proven(era)), _) => {
                let since = match self.0.get(address) {
                    Some(Finding::Likely(likely, since)) if *likely == era => *since,
                    _ => now,
                };
                self.0
                    .insert(address.to_owned(), Finding::Likely(era, since));
                // Only where the second proof is believed is it worth looking for at once.
                return self.is_lasting(now, since);
            }
            (Some(Evidence::Suspect), Fallback::Old(era)) => {
                (era, "broker.version.fallback sets it")
            }
            (Some(Evidence::Suspect), Fallback::Probe) => {
                let since = match self.0.get(address) {
                    Some(Finding::Suspected(since)) => *since,
                    _ => now,
                };
                self.0.insert(address.to_owned(), Finding::Suspected(since));
                return !has_sasl(&context.config) || self.is_lasting(now, since);
            }
            (Some(Evidence::Refuted), _) => {
                self.0.insert(address.to_owned(), Finding::Doubted);
                return false;
            }
            (Some(Evidence::Suspect), Fallback::Never) | (None, _) => {
                // One of which nothing is known was probed if another is old, and may be so new that it closes on probes.
                let was_probed = match self.0.get(address) {
                    Some(Finding::Suspected(_) | Finding::Likely(..)) => true,
                    None => self.any_found(|_| true),
                    _ => false,
                };
                if was_probed {
                    self.0.insert(address.to_owned(), Finding::Doubted);
                }
                return false;
            }
        };
        self.find(now, context, address, era, reason);
        true
    }

    fn find(
        &mut self,
        now: Instant,
        context: &mut Context,
        address: &str,
        era: Era,
        reason: &'static str,
    ) {
        let lasts = context.config.api_version_fallback;
        let since = match self.0.get(address) {
            Some(
                Finding::Suspected(since)
                | Finding::Likely(_, since)
                | Finding::Found { since, .. },
            ) => *since,
            _ => now,
        };
        let is_configured = matches!(context.config.broker_version_fallback, Fallback::Old(_));
        let finding = Finding::Found {
            era,
            since,
            until: now + lasts,
            is_proven: is_configured || now >= since + PASSING,
        };
        self.0.insert(address.to_owned(), finding);
        context.observer.tell(Observed::VersionsAssumed {
            broker: address.to_owned(),
            release: era.name(),
            reason,
            lasts,
        });
    }
}

/// Whether a probe authenticates: then it sends no request that only newer brokers respond to, and nothing refutes it.
fn has_sasl(config: &Config) -> bool {
    matches!(
        config.security_protocol,
        SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl
    )
}

const AUTHENTICATED: &str =
    "it closes connections on ApiVersions, and takes GSSAPI without SaslHandshake";

fn reason(era: Era) -> &'static str {
    match era {
        Era::V0_8 => {
            "it closes connections on ApiVersions and ListGroups, and responds to ListOffsets"
        }
        Era::V0_9 => {
            "it does not respond to ApiVersions, and responds to ListOffsets and ListGroups"
        }
    }
}
