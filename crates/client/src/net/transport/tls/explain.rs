//! What a failure of TLS means, and what to do about it.

use ottla_engine::config::TlsVersion;
use ottla_engine::{Error, Kind};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, PeerIncompatible};

use super::certificate::say_time;

/// What a connection's owner wanted, as far as errors name it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Where the trusted authorities come from: a property, or `None` for the system's.
    pub(super) authorities: Option<&'static str>,
    /// Whether the client has a certificate to show.
    pub(super) has_certificate: bool,
    pub(super) versions: Vec<TlsVersion>,
}

/// The error of a connection whose TLS failed.
pub(super) fn explain(cause: &rustls::Error, wanted: &Wanted) -> Error {
    let refused = |text: String| Error::new(Kind::Authentication, text);
    match cause {
        rustls::Error::InvalidCertificate(problem) => refused(certificate(problem, wanted)),
        rustls::Error::AlertReceived(
            AlertDescription::CloseNotify | AlertDescription::UserCanceled,
        ) => Error::new(
            Kind::Unreachable,
            "the broker ended the connection during the TLS handshake",
        ),
        rustls::Error::AlertReceived(alert) => refused(alerted(*alert, wanted)),
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => refused(old(wanted)),
        // Measured: with TLS 1.3, Kafka 2.8.2 sends the alert about a client's certificate so that it cannot be decrypted.
        rustls::Error::DecryptError => refused(if wanted.has_certificate {
            "the broker most likely does not accept this client's certificate (its last message cannot be read): the certificate \
             must be valid, and of an authority that the broker trusts"
                .to_owned()
        } else {
            "the broker most likely requires a client certificate (its last message cannot be read): set \
             ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
                .to_owned()
        }),
        rustls::Error::NoCertificatesPresented => refused(
            "the broker showed no certificate: set ssl.keystore.location on the broker".to_owned(),
        ),
        rustls::Error::InvalidMessage(_) => Error::new(
            Kind::NotKafka,
            "the port does not speak TLS: use the port of one of the broker's SSL listeners, or set security.protocol to \
             PLAINTEXT",
        ),
        other => refused(format!("the TLS handshake failed: {other}")),
    }
}

fn certificate(problem: &CertificateError, wanted: &Wanted) -> String {
    match problem {
        CertificateError::UnknownIssuer => {
            let trusted = match wanted.authorities {
                Some(property) => format!("those of {property}"),
                None => "the system's".to_owned(),
            };
            format!(
                "the broker's certificate comes from an authority that is not trusted ({trusted} are): name the \
                 certificate of its authority with ssl.ca.location or ssl.truststore.location"
            )
        }
        CertificateError::Expired => "the broker's certificate has expired: it has to be renewed".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the broker's certificate has expired, on {}: renew it (the clock of this machine is at {})",
            date(*not_after),
            date(*time)
        ),
        CertificateError::NotValidYet => "the broker's certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the broker's certificate is not valid before {} (the clock of this machine is at {})",
            date(*not_before),
            date(*time)
        ),
        CertificateError::NotValidForName => "the broker's certificate is not for this host".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| plain(name)).collect();
            let names = match names.as_slice() {
                [] => "no host at all: it has no subject alternative names".to_owned(),
                names => names.join(", "),
            };
            format!(
                "the broker's certificate is not for {} but for {names}: connect by a name that it has, have it renewed for \
                 this one, or turn the check off with ssl.endpoint.identification.algorithm=none",
                say_name(expected)
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the broker's certificate is not for servers (extended key usage)".to_owned()
        }
        CertificateError::BadSignature => {
            "the broker's certificate is not signed by the authority that it names: another of the same name signed it, or it \
             was altered"
                .to_owned()
        }
        other => format!("the broker's certificate cannot be accepted: {other}"),
    }
}

fn alerted(alert: AlertDescription, wanted: &Wanted) -> String {
    let name = format!("{alert:?}");
    match alert {
        AlertDescription::ProtocolVersion => old(wanted),
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => format!(
            "the broker refused the TLS handshake ({name}): it has no version of TLS or cipher suite in common with this \
             client (see ssl.enabled.protocols and ssl.cipher.suites), or requires a client certificate"
        ),
        AlertDescription::CertificateRequired
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => {
            if wanted.has_certificate {
                format!(
                    "the broker does not accept this client's certificate ({name}): it must be valid, and of an authority \
                     that the broker trusts"
                )
            } else {
                format!(
                    "the broker requires a client certificate ({name}): set ssl.keystore.location, or \
                     ssl.certificate.location and ssl.key.location"
                )
            }
        }
        _ => format!("the broker ended TLS with the alert {name}"),
    }
}

fn old(wanted: &Wanted) -> String {
    let versions: Vec<_> = wanted
        .versions
        .iter()
        .map(|version| match version {
            TlsVersion::V12 => "TLSv1.2",
            TlsVersion::V13 => "TLSv1.3",
        })
        .collect();
    format!(
        "the broker does not speak {}: see ssl.enabled.protocols, here and on the broker",
        versions.join(" or ")
    )
}

/// A name of a certificate without what surrounds it in the library's text, as in `DnsName("a.example")`.
fn plain(name: &str) -> &str {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'))
        .unwrap_or(name);
    inner.trim_matches('\x22')
}

fn say_name(name: &ServerName<'_>) -> String {
    name.to_str().into_owned()
}

fn date(time: UnixTime) -> String {
    say_time(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}
