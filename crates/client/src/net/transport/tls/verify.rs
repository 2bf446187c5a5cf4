//! Whether a broker is who it should be.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::fields;

/// Checks a broker's certificate: by whom it was issued, for when, and for which host.
pub(super) struct Verifier {
    pub(super) authorities: Arc<RootCertStore>,
    /// Certificates that are trusted as they stand, whoever issued them: a trust store may hold a broker's own.
    pub(super) trusted: Vec<CertificateDer<'static>>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    /// Whether anything but the key is checked.
    pub(super) verifies: bool,
    pub(super) checks_host: bool,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("authorities", &self.authorities.len())
            .field("verifies", &self.verifies)
            .field("checks_host", &self.checks_host)
            .finish_non_exhaustive()
    }
}

impl Verifier {
    /// Whether the certificate itself is one of those trusted, and valid now.
    fn is_trusted(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        if !self.trusted.iter().any(|trusted| trusted == certificate) {
            return Ok(false);
        }
        let damaged = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let (from, until) = fields(certificate).map_err(damaged)?.valid;
        let at = |seconds: i64| {
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(
                seconds.max(0).unsigned_abs(),
            ))
        };
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let problem = if now_s > until {
            CertificateError::ExpiredContext {
                time: now,
                not_after: at(until),
            }
        } else if now_s < from {
            CertificateError::NotValidYetContext {
                time: now,
                not_before: at(from),
            }
        } else {
            return Ok(true);
        };
        Err(Error::InvalidCertificate(problem))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.verifies {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !self.is_trusted(end_entity, now)? {
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &self.authorities,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        if self.checks_host {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
