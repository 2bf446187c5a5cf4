//! The properties of transport security: whom to trust, and who this client is. Names are those of Java's clients and of librdkafka.

macro_rules! security {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* ALL {
        /// File with the certificates of the authorities to trust (PEM), or a folder of such files. Without any of these
        /// properties the system's authorities are trusted.
        "ssl.ca.location" => ssl_ca_location: Option<String>, text(path);
        /// Certificates of the authorities to trust: the PEM text itself.
        "ssl.ca.pem" => ssl_ca_pem: Option<String>, text(pem);
        /// Trust store: a file with the certificates to trust, PEM or PKCS12.
        "ssl.truststore.location" => ssl_truststore_location: Option<String>, text(path);
        /// Password of the trust store, if it is PKCS12.
        "ssl.truststore.password" => ssl_truststore_password: Option<Secret>, secret(hidden);
        /// Certificates to trust: the PEM text itself.
        "ssl.truststore.certificates" => ssl_truststore_certificates: Option<String>, text(pem);
        /// Format of the trust store. Not given: detected from the file. JKS is an error that names the command to
        /// convert the file.
        "ssl.truststore.type" => ssl_truststore_type: Option<StoreType>, choice(
            "pem" => Some(StoreType::Pem),
            "pkcs12" => Some(StoreType::Pkcs12),
            "jks" => Some(StoreType::Jks)
        );
        /// File with this client's certificate and those that link it to its authority (PEM).
        "ssl.certificate.location" => ssl_certificate_location: Option<String>, text(path);
        /// This client's certificate and those that link it to its authority: the PEM text itself.
        "ssl.certificate.pem" => ssl_certificate_pem: Option<String>, text(pem);
        /// File with the private key of this client's certificate (PEM).
        "ssl.key.location" => ssl_key_location: Option<String>, text(path);
        /// Private key of this client's certificate: the PEM text itself.
        "ssl.key.pem" => ssl_key_pem: Option<Secret>, secret(hidden);
        /// Password of the private key, if it is encrypted. In a PKCS12 key store the key mostly has the store's password.
        "ssl.key.password" => ssl_key_password: Option<Secret>, secret(hidden);
        /// Key store: a file with this client's certificates and their private key, PEM or PKCS12.
        "ssl.keystore.location" => ssl_keystore_location: Option<String>, text(path);
        /// Password of the key store, if it is PKCS12.
        "ssl.keystore.password" => ssl_keystore_password: Option<Secret>, secret(hidden);
        /// This client's certificate and those that link it to its authority: the PEM text itself.
        "ssl.keystore.certificate.chain" => ssl_keystore_certificate_chain: Option<String>, text(pem);
        /// Private key of this client's certificate: the PEM text itself.
        "ssl.keystore.key" => ssl_keystore_key: Option<Secret>, secret(hidden);
        /// Format of the key store. Not given: detected from the file. JKS is an error that names the command to
        /// convert the file.
        "ssl.keystore.type" => ssl_keystore_type: Option<StoreType>, choice(
            "pem" => Some(StoreType::Pem),
            "pkcs12" => Some(StoreType::Pkcs12),
            "jks" => Some(StoreType::Jks)
        );
        /// Whether a broker's certificate must be for the host that was dialled: https, or none (an empty text does too).
        "ssl.endpoint.identification.algorithm" => ssl_checks_host: bool = "https", choice(
            "https" => true,
            "none" => false,
            "" => false
        );
        /// Whether a broker's certificate must come from a trusted authority. With false anybody can pose as the broker.
        "enable.ssl.certificate.verification" => ssl_verifies: bool = "true", bool();
        /// Versions of TLS that may be used, separated by commas: TLSv1.2, TLSv1.3.
        "ssl.enabled.protocols" => ssl_versions: Vec<TlsVersion> = "TLSv1.2,TLSv1.3", text(versions);
        /// Newest version of TLS that may be used. TLS stands for all of ssl.enabled.protocols.
        "ssl.protocol" => ssl_newest: TlsVersion = "TLSv1.3", choice(
            "tls" => TlsVersion::V13,
            "tlsv1.3" => TlsVersion::V13,
            "tlsv1.2" => TlsVersion::V12
        );
        /// Cipher suites that may be used, separated by commas, by their names in the standard or OpenSSL's. Not given: all that
        /// are safe.
        "ssl.cipher.suites" => ssl_cipher_suites: Vec<String>, text(words);
    } } };
}
pub(in crate::config) use security;

use crate::config::secret::Secret;

/// The format of a key store or trust store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreType {
    /// Text between BEGIN and END lines.
    Pem,
    /// PKCS #12 (RFC 7292).
    Pkcs12,
    /// Java's own old format.
    Jks,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// RFC 5246.
    V12,
    /// RFC 8446.
    #[default]
    V13,
}

const BEGIN: &str = "-----BEGIN ";

#[allow(
    clippy::unnecessary_wraps,
    reason = "rows want functions that may refuse"
)]
pub(in crate::config) fn hidden(text: &str) -> Result<Option<Secret>, String> {
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

pub(in crate::config) fn path(text: &str) -> Result<Option<String>, String> {
    if text.contains(BEGIN) {
        return Err(
            "must be the path of a file; the text itself goes into the property that ends in .pem"
                .to_owned(),
        );
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

pub(in crate::config) fn pem(text: &str) -> Result<Option<String>, String> {
    if !text.is_empty() && !text.contains(BEGIN) {
        return Err(
            "must be the text of PEM certificates, with its BEGIN and END lines; the path of a file goes into the property \
             that ends in .location"
                .to_owned(),
        );
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "rows want functions that may refuse"
)]
pub(in crate::config) fn words(text: &str) -> Result<Vec<String>, String> {
    Ok(parts(text).map(str::to_owned).collect())
}

pub(in crate::config) fn versions(text: &str) -> Result<Vec<TlsVersion>, String> {
    let mut versions = Vec::new();
    for name in parts(text) {
        versions.push(match name.to_ascii_lowercase().as_str() {
            "tlsv1.2" => TlsVersion::V12,
            "tlsv1.3" => TlsVersion::V13,
            "tlsv1" | "tlsv1.1" | "sslv2" | "sslv2hello" | "sslv3" => {
                return Err(format!(
                    "must be TLSv1.2, TLSv1.3 or both: {name} is no longer safe and not supported"
                ));
            }
            _ => return Err("must be TLSv1.2, TLSv1.3 or both, separated by a comma".to_owned()),
        });
    }
    if versions.is_empty() {
        return Err("must be TLSv1.2, TLSv1.3 or both, separated by a comma".to_owned());
    }
    Ok(versions)
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ':'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
}
