//! A throw-away certificate authority: it signs servers and clients for tests, and is trusted by nobody else.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use super::secret::Secret;

/// An authority with its key, in memory.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate in PEM.
    pub certificate: String,
    /// The certificate in DER.
    pub der: Vec<u8>,
    /// The private key: PKCS#8 in PEM.
    pub key: Secret,
}

impl Issued {
    /// The private key as text; where it goes is the caller's care.
    #[must_use]
    pub fn key_pem(&self) -> String {
        String::from_utf8_lossy(self.key.bytes()).into_owned()
    }
}

impl Authority {
    /// Makes an authority, valid between two times in seconds since 1970.
    ///
    /// # Errors
    /// A sentence about what went wrong.
    pub fn new(name: &str, not_before: i64, not_after: i64) -> Result<Self, String> {
        let mut params = params(name, Vec::new(), not_before, not_after)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(said)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(said)?;
        Ok(Self { issuer })
    }

    /// The authority's own certificate in PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a server's certificate for these host names and addresses.
    ///
    /// # Errors
    /// A name is no host name, or the times are out of range.
    pub fn server(
        &self,
        hosts: &[String],
        not_before: i64,
        not_after: i64,
    ) -> Result<Issued, String> {
        let name = hosts.first().map_or("server", String::as_str);
        let mut params = params(name, hosts.to_vec(), not_before, not_after)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// Signs a client's certificate, whose subject is `CN=name`.
    ///
    /// # Errors
    /// The times are out of range.
    pub fn client(&self, name: &str, not_before: i64, not_after: i64) -> Result<Issued, String> {
        let mut params = params(name, Vec::new(), not_before, not_after)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, params: CertificateParams) -> Result<Issued, String> {
        let key = KeyPair::generate().map_err(said)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(said)?;
        Ok(Issued {
            certificate: certificate.pem(),
            der: certificate.der().to_vec(),
            key: Secret::new(key.serialize_pem()),
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority(...)")
    }
}

fn params(
    common_name: &str,
    hosts: Vec<String>,
    not_before: i64,
    not_after: i64,
) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(hosts).map_err(said)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    params.not_before = date(not_before)?;
    params.not_after = date(not_after)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn date(seconds: i64) -> Result<time::OffsetDateTime, String> {
    time::OffsetDateTime::from_unix_timestamp(seconds)
        .map_err(|_| format!("{seconds} s since 1970 is no date that a certificate can have"))
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn said(error: rcgen::Error) -> String {
    error.to_string()
}
