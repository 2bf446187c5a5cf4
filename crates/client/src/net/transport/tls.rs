//! TLS 1.2 and 1.3 beneath a connection, by rustls: who is trusted, who this client is, and the handshake.
//!
//! ```text
//!   settings ── material ──▶ certificates and keys ──▶ rustls' configuration ── handshake ──▶ secured halves of a socket
//!               pem, pkcs12, pbe, der                  verify                                   (stream)
//! ```
//!
//! What the settings name is read when a client is made, where mistakes are its caller's to see, and again before a connection
//! when a file changed: certificates that are renewed every few hours need no new client. A file that cannot be used then
//! leaves everything as it was.
//!
//! rustls takes its algorithms from *ring*: it is small and needs no tools but a C compiler, and its AES-GCM is not what limits a
//! consumer. Sessions are resumed, with tickets kept in memory. There is no ALPN, since Kafka has none.

mod certificate;
mod der;
mod explain;
mod handshake;
mod material;
mod pbe;
mod pem;
mod pkcs12;
mod stream;
mod verify;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use ottla_engine::config::{Config, TlsVersion};
use ottla_engine::{Error, Kind};
use parking_lot::Mutex;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use self::explain::Wanted;
use self::handshake::shake;
use self::material::{Material, Stamp, Trust, load, stamps};
pub(super) use self::stream::{TlsReader, TlsWriter};
use self::verify::Verifier;

/// The TLS of one client. All its connections share it, and the sessions that they may resume.
pub(crate) struct Tls {
    config: Arc<Config>,
    current: Mutex<Current>,
}

struct Current {
    made: Made,
    /// The files that it was made of.
    stamps: Vec<Stamp>,
}

/// rustls' configuration, and what its errors have to name.
#[derive(Clone)]
struct Made {
    rustls: Arc<ClientConfig>,
    wanted: Wanted,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// The TLS that the settings want; `None` for plaintext.
    ///
    /// # Errors
    /// `Kind::Config` for a file that cannot be read, a wrong password, and whatever else the settings name that cannot be used.
    pub(crate) fn new(config: &Arc<Config>) -> Result<Option<Arc<Tls>>, Error> {
        if !config.security_protocol.is_tls() {
            return Ok(None);
        }
        let stamps = stamps(config);
        let made = make(config)?;
        Ok(Some(Arc::new(Tls {
            config: Arc::clone(config),
            current: Mutex::new(Current { made, stamps }),
        })))
    }

    /// Reads files that changed. Nothing is known to have changed in what the system trusts.
    ///
    /// # Errors
    /// The files cannot be used: connections go on with what was there before. It is said once for each change.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<(), Error> {
        let found = stamps(&self.config);
        let is_new = std::mem::replace(&mut self.current.lock().stamps, found.clone()) != found;
        if !is_new {
            return Ok(());
        }
        let config = Arc::clone(&self.config);
        // Keys may be encrypted in a way that is slow to undo.
        let made = tokio::task::spawn_blocking(move || make(&config)).await;
        match made {
            Ok(Ok(made)) => {
                self.current.lock().made = made;
                Ok(())
            }
            Ok(Err(cause)) => Err(cause),
            // The runtime is at its end, and so is the connection.
            Err(_) => Ok(()),
        }
    }

    /// Shakes hands over a connected socket.
    ///
    /// # Errors
    /// See [`super::secure()`].
    pub(super) async fn shake(
        &self,
        host: &str,
        reader: OwnedReadHalf,
        writer: OwnedWriteHalf,
    ) -> Result<(TlsReader, TlsWriter), Error> {
        let made = self.current.lock().made.clone();
        shake(host, reader, writer, made.rustls, made.wanted).await
    }
}

fn make(config: &Config) -> Result<Made, Error> {
    let Material { trust, identity } = load(config)?;
    let provider = Arc::new(provider(config)?);
    let problem = |text: String| Error::new(Kind::Config, text);
    let mut authorities = RootCertStore::empty();
    let (named, trusted) = match trust {
        Trust::Named(property, certificates) => {
            for (at, certificate) in certificates.iter().enumerate() {
                authorities.add(certificate.clone()).map_err(|cause| {
                    problem(format!(
                        "{property}: certificate {} cannot be used: {cause}",
                        at + 1
                    ))
                })?;
            }
            (Some(property), certificates)
        }
        Trust::System if config.ssl_verifies => {
            let found = rustls_native_certs::load_native_certs();
            // Some of the system's are too old to be read by anybody.
            let (added, _) = authorities.add_parsable_certificates(found.certs);
            if added == 0 {
                let text = "ssl.ca.location: is not given, and the system has no certificates of authorities: name those to \
                            trust";
                return Err(problem(text.to_owned()));
            }
            (None, Vec::new())
        }
        Trust::System => (None, Vec::new()),
    };
    let wanted = Wanted {
        authorities: named,
        has_certificate: identity.is_some(),
        versions: config.ssl_versions.clone(),
    };
    let verifier = Verifier {
        authorities: Arc::new(authorities),
        trusted,
        algorithms: provider.signature_verification_algorithms,
        verifies: config.ssl_verifies,
        checks_host: config.ssl_checks_host,
    };
    let versions: Vec<&'static SupportedProtocolVersion> = config
        .ssl_versions
        .iter()
        .map(|version| match version {
            TlsVersion::V12 => &TLS12,
            TlsVersion::V13 => &TLS13,
        })
        .collect();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|cause| problem(format!("ssl.cipher.suites: {cause}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let rustls = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|cause| {
            problem(format!(
                "{}: the client's certificate and key cannot be used: {}",
                config
                    .ssl_keystore_location
                    .as_ref()
                    .map_or("ssl.key.location", |_| "ssl.keystore.location"),
                mismatch(&cause)
            ))
        })?,
        None => builder.with_no_client_auth(),
    };
    Ok(Made {
        rustls: Arc::new(rustls),
        wanted,
    })
}

fn mismatch(cause: &rustls::Error) -> String {
    match cause {
        rustls::Error::InconsistentKeys(_) => {
            "the key does not belong to the certificate".to_owned()
        }
        rustls::Error::General(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The algorithms that the settings allow.
fn provider(config: &Config) -> Result<CryptoProvider, Error> {
    let mut provider = ring::default_provider();
    if config.ssl_cipher_suites.is_empty() {
        return Ok(provider);
    }
    let mut chosen = Vec::new();
    for name in &config.ssl_cipher_suites {
        let mut suites = provider.cipher_suites.iter();
        match suites.find(|suite| {
            names(suite)
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        }) {
            Some(suite) => chosen.push(*suite),
            None => {
                let known: Vec<_> = provider
                    .cipher_suites
                    .iter()
                    .map(|suite| names(suite)[0].clone())
                    .collect();
                let text = format!(
                    "ssl.cipher.suites: {name} is not supported, or not safe; these are: {}",
                    known.join(", ")
                );
                return Err(Error::new(Kind::Config, text));
            }
        }
    }
    provider.cipher_suites = chosen;
    Ok(provider)
}

/// A suite's name in the standard, and OpenSSL's.
fn names(suite: &SupportedCipherSuite) -> [String; 2] {
    let standard = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    let short = standard
        .trim_start_matches("TLS_")
        .replace("WITH_", "")
        .replace('_', "-")
        .replace("AES-", "AES")
        .replace("POLY1305-SHA256", "POLY1305");
    [standard, short]
}
