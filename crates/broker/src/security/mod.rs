//! Who may connect, and what they may do then: authentication, authorisation and quotas.
//!
//! Nothing in this folder knows sockets, tasks or the clock: bytes come in, decisions go out, `now` is an argument, and
//! chance is drawn from a [`nonce::Nonces`] that was seeded once. Only the keys of [`certificates`] come from the system.
//!
//! * [`listener`]: what a listener demands; [`tls`] and [`subject`]: keys, and the name in a client's certificate;
//!   [`certificates`]: a throw-away authority for tests.
//! * [`session`]: one connection's way through authentication, and its principal; [`sasl`] has the mechanisms, a file each.
//! * [`users`]: passwords and SCRAM credentials; [`tokens`]: delegation tokens. [`acl`]: who may do what. [`quota`]: how fast.
//!
//! [`settings`] is how a caller describes all of it, [`Security`] what a running broker has.

pub(crate) mod acl;
pub(crate) mod certificates;
pub(crate) mod listener;
pub(crate) mod nonce;
pub(crate) mod quota;
pub(crate) mod sasl;
pub(crate) mod secret;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod subject;
pub(crate) mod tls;
pub(crate) mod tokens;
pub(crate) mod users;

use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use self::acl::{Acls, Operation, Resource, ResourceType};
use self::nonce::Nonces;
use self::quota::{QuotaKey, Quotas, Windows};
use self::sasl::Verifiers;
use self::session::{Principal, Who};
use self::settings::{AclSettings, SecuritySettings};
use self::tokens::Lifetimes;

/// What a request took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Bytes of a Produce request.
    pub(crate) produced: usize,
    /// Bytes of records in a Fetch response.
    pub(crate) fetched: usize,
    /// How long it was handled.
    pub(crate) handled: Duration,
}

/// What quotas demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Throttle {
    /// How long the client must stay away.
    pub(crate) time: Duration,
    /// Whether the records that were fetched must be asked for again.
    pub(crate) withholds: bool,
}

/// All that decides about clients. Its locks are leaves: nothing else is taken while one of them is held.
#[derive(Debug)]
pub(crate) struct Security {
    pub(crate) verifiers: Verifiers,
    /// `None`: everybody may do everything, and the ACL APIs say that there is no authorizer.
    pub(crate) acls: Option<RwLock<Acls>>,
    pub(crate) quotas: Mutex<Quotas>,
}

impl Security {
    /// # Errors
    /// A sentence about the setting that is wrong.
    pub(crate) fn new(
        settings: &SecuritySettings,
        acls: AclSettings,
        oauth: sasl::oauth::Rules,
        lifetimes: Lifetimes,
        windows: Windows,
        seed: [u8; 32],
    ) -> Result<Self, String> {
        let verifiers = Verifiers::new(settings, oauth, lifetimes, Nonces::new(seed))?;
        let has_authorizer = settings.acls.is_some() || !acls.super_users.is_empty();
        let acls = if has_authorizer {
            let super_users = acls.super_users.into_iter().map(acl::text::principal);
            let mut known = Acls::new(super_users.collect(), acls.allow_everyone_if_no_acl);
            for line in settings.acls.iter().flatten() {
                for acl in acl::text::parse(line)? {
                    known.insert(acl);
                }
            }
            Some(RwLock::new(known))
        } else {
            None
        };
        let mut quotas = Quotas::new(windows);
        for line in &settings.quotas {
            quotas.set_from_text(line)?;
        }
        Ok(Self {
            verifiers,
            acls,
            quotas: Mutex::new(quotas),
        })
    }

    /// May `who` do this?
    pub(crate) fn authorizes(
        &self,
        who: &Who,
        operation: Operation,
        resource: Resource<'_>,
    ) -> bool {
        let allows = |acls: &RwLock<Acls>| {
            acls.read()
                .authorizes(&who.principal, who.host, operation, resource)
        };
        self.acls.as_ref().is_none_or(allows)
    }

    /// May `who` write to a topic, whichever it is? Then it may be idempotent too (KIP-679).
    pub(crate) fn may_write_any_topic(&self, who: &Who) -> bool {
        let allows = |acls: &RwLock<Acls>| {
            acls.read().authorizes_any(
                &who.principal,
                who.host,
                Operation::Write,
                ResourceType::Topic,
            )
        };
        self.acls.as_ref().is_none_or(allows)
    }

    /// The most bytes of records that a client gets at once.
    pub(crate) fn fetch_burst(&self, who: &Principal, client_id: &str) -> usize {
        let quotas = self.quotas.lock();
        match quotas.burst(QuotaKey::ConsumerByteRate, who, client_id) {
            // A limit above what memory can hold is no limit.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(bytes) => bytes as usize,
            None => usize::MAX,
        }
    }

    /// How long a client must stay away after what it used, and whether the records that it asked for are withheld.
    pub(crate) fn charge(
        &self,
        who: &Principal,
        client_id: &str,
        usage: Usage,
        now: Instant,
    ) -> Throttle {
        let mut quotas = self.quotas.lock();
        if quotas.is_empty() {
            return Throttle::default();
        }
        let bytes = |count: usize| count as f64;
        let mut time = Duration::ZERO;
        if usage.produced > 0 {
            let produced = bytes(usage.produced);
            time = quotas.charge(QuotaKey::ProducerByteRate, who, client_id, produced, now);
        }
        let mut withholds = false;
        if usage.fetched > 0 {
            let fetched = bytes(usage.fetched);
            let excess =
                quotas.charge_if_within(QuotaKey::ConsumerByteRate, who, client_id, fetched, now);
            withholds = !excess.is_zero();
            time = time.max(excess);
        }
        let percent = usage.handled.as_secs_f64() * 100.0;
        let excess = quotas.charge(QuotaKey::RequestPercentage, who, client_id, percent, now);
        // A request's time is measured, not chosen: nobody is kept away for longer than a sample for it, as in Kafka.
        time = time.max(excess.min(quotas.sample()));
        Throttle { time, withholds }
    }
}
