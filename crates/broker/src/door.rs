//! What a listener demands of those who come in, and who a client is before it has said anything.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use crate::config::{BrokerConfig, Settings};
use crate::error::BrokerError;
use crate::security::Security;
use crate::security::listener::ListenerConfig;
use crate::security::sasl::Mechanism;
use crate::security::session::{Principal, Session};
use crate::security::{subject, tls};

/// The door of one listener.
#[derive(Clone)]
pub(crate) struct Door {
    /// The index of the listener.
    pub(crate) listener: usize,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// `None`: no SASL.
    pub(crate) mechanisms: Option<Arc<[Mechanism]>>,
    principal_is_common_name: bool,
    max_reauthentication: Option<Duration>,
}

impl Door {
    /// The doors of all listeners, in their order.
    ///
    /// # Errors
    /// A listener demands what is not there.
    pub(crate) fn all(
        config: &BrokerConfig,
        listeners: &[ListenerConfig],
        security: &Security,
        settings: &Settings,
    ) -> Result<Vec<Self>, BrokerError> {
        let door = |(index, listener): (usize, &ListenerConfig)| {
            let said =
                |what: String| BrokerError::Config(format!("listener {}: {what}", listener.name));
            let tls = match &config.security.tls {
                _ if !listener.protocol.is_tls() => None,
                Some(files) => Some(tls::server_config(files, listener.client_auth).map_err(said)?),
                None => return Err(said("TLS needs a certificate and its key".to_owned())),
            };
            let mechanisms = if listener.protocol.is_sasl() {
                let mechanisms = security
                    .verifiers
                    .mechanisms(listener.mechanisms.as_deref());
                Some(Arc::from(mechanisms.map_err(said)?))
            } else {
                None
            };
            Ok(Self {
                listener: index,
                tls,
                mechanisms,
                principal_is_common_name: listener.principal_is_common_name,
                max_reauthentication: settings.max_reauthentication,
            })
        };
        listeners.iter().enumerate().map(door).collect()
    }

    /// The session of a client whose TLS handshake, if there was one, is over; `certificates` are those that it showed.
    pub(crate) fn session(&self, certificates: &[CertificateDer<'_>]) -> Result<Session, String> {
        match &self.mechanisms {
            Some(mechanisms) => Ok(Session::sasl(
                Arc::clone(mechanisms),
                self.max_reauthentication,
            )),
            None => Ok(Session::open(self.principal(certificates)?)),
        }
    }

    fn principal(&self, certificates: &[CertificateDer<'_>]) -> Result<Principal, String> {
        let Some(certificate) = certificates.first() else {
            return Ok(Principal::anonymous());
        };
        let subject = subject::of_certificate(certificate)
            .ok_or("the subject of its certificate cannot be read")?;
        let name = if self.principal_is_common_name {
            let name = subject.common_name().map(str::to_owned);
            name.ok_or("the subject of its certificate has no common name")?
        } else {
            subject.to_string()
        };
        Ok(Principal(name.into()))
    }
}
