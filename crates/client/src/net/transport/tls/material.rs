//! Certificates and keys, from the files and texts that the settings name.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ottla_engine::config::{Config, Secret};
use ottla_engine::{Error, Kind};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};

use super::certificate::fields;
use super::der::{INTEGER, OCTETS, OID, SEQUENCE, context, read, write};
use super::pbe::{Locked, decrypt_by_header, decrypt_key};
use super::pem::{Section, sections};
use super::pkcs12::{self, Contents, Passwords};

/// Magic numbers of Java's own formats: JKS and JCEKS.
const JAVA: [[u8; 4]; 2] = [[0xfe, 0xed, 0xfe, 0xed], [0xce, 0xce, 0xce, 0xce]];

/// What a client shows, and whom it trusts.
pub(super) struct Material {
    pub(super) trust: Trust,
    /// The client's own certificate, those that link it to its authority, and its key.
    pub(super) identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

/// Certificates that are trusted.
pub(super) enum Trust {
    /// Those of one property.
    Named(&'static str, Vec<CertificateDer<'static>>),
    /// The system's.
    System,
}

/// Shows whether a file has changed: when it was written, and its size. `None` if it cannot be
/// looked at.
pub(super) type Stamp = Option<(Option<SystemTime>, u64)>;

/// The files that the settings name, as they are now.
pub(super) fn stamps(config: &Config) -> Vec<Stamp> {
    let files = [
        &config.ssl_ca_location,
        &config.ssl_truststore_location,
        &config.ssl_certificate_location,
        &config.ssl_key_location,
        &config.ssl_keystore_location,
    ];
    let mut stamps = Vec::new();
    for path in files.into_iter().flatten() {
        match folder(Path::new(path)) {
            Some(files) => {
                stamps.push(stamp(Path::new(path)));
                stamps.extend(files.iter().map(|file| stamp(file)));
            }
            None => stamps.push(stamp(Path::new(path))),
        }
    }
    stamps
}

fn stamp(path: &Path) -> Stamp {
    let facts = fs::metadata(path).ok()?;
    Some((facts.modified().ok(), facts.len()))
}

/// The files of a folder; `None` if the path is not a folder.
fn folder(path: &Path) -> Option<Vec<PathBuf>> {
    if !path.is_dir() {
        return None;
    }
    let entries = fs::read_dir(path).ok()?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    Some(files)
}

/// Reads what the settings name.
///
/// # Errors
/// `Kind::Config`, with the property, the file and what is wrong with it.
pub(super) fn load(config: &Config) -> Result<Material, Error> {
    Ok(Material {
        trust: trust(config)?,
        identity: identity(config)?,
    })
}

fn problem(property: &str, text: impl fmt::Display) -> Error {
    Error::new(Kind::Config, format!("{property}: {text}"))
}

fn trust(config: &Config) -> Result<Trust, Error> {
    let texts = [
        ("ssl.ca.pem", &config.ssl_ca_pem),
        (
            "ssl.truststore.certificates",
            &config.ssl_truststore_certificates,
        ),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            let found = certificates(text).map_err(|text| problem(name, text))?;
            return Ok(Trust::Named(name, found));
        }
    }
    if let Some(path) = &config.ssl_ca_location {
        let name = "ssl.ca.location";
        let mut found = Vec::new();
        match folder(Path::new(path)) {
            // A folder may hold other files as well.
            Some(files) => {
                let texts = files
                    .iter()
                    .filter_map(|file| fs::read_to_string(file).ok());
                found.extend(texts.filter_map(|text| certificates(&text).ok()).flatten());
                if found.is_empty() {
                    return Err(problem(
                        name,
                        format_args!("no file in the folder {path} holds a certificate"),
                    ));
                }
            }
            None => found = store(name, path, &password_of_trust(config))?,
        }
        return Ok(Trust::Named(name, found));
    }
    if let Some(path) = &config.ssl_truststore_location {
        let name = "ssl.truststore.location";
        let found = store(name, path, &password_of_trust(config))?;
        return Ok(Trust::Named(name, found));
    }
    Ok(Trust::System)
}

fn password_of_trust(config: &Config) -> Password<'_> {
    Password {
        name: "ssl.truststore.password",
        secret: config.ssl_truststore_password.as_ref(),
    }
}

/// A password, and the property that it comes from.
struct Password<'a> {
    name: &'static str,
    secret: Option<&'a Secret>,
}

impl Password<'_> {
    fn text(&self) -> &str {
        self.secret.map_or("", Secret::expose)
    }

    fn problem(&self, what: &str, cause: Locked) -> String {
        match (cause, self.secret) {
            (Locked::Wrong, Some(_)) => {
                format!(
                    "{what} cannot be decrypted: the password in {} is wrong",
                    self.name
                )
            }
            (Locked::Wrong, None) => {
                format!("{what} is encrypted, and {} is not given", self.name)
            }
            (Locked::Scheme, _) => format!(
                "{what} is encrypted in a way that is not supported; write it anew, with AES (PBES2): openssl pkcs8 -topk8 \
                 -v2 aes-256-cbc, or openssl pkcs12 -export"
            ),
            (Locked::Malformed, _) => format!("{what} is damaged"),
        }
    }
}

/// The certificates of a trust store.
fn store(
    name: &str,
    path: &str,
    password: &Password<'_>,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = file(name, path)?;
    let found = match text(&bytes) {
        Some(text) => {
            certificates(text).map_err(|text| problem(name, format_args!("{path}: {text}")))?
        }
        None if fields(&bytes).is_ok() => vec![CertificateDer::from(bytes)],
        None => {
            let passwords = Passwords {
                store: password.text(),
                keys: None,
            };
            let contents = pkcs12::contents(&bytes, &passwords)
                .map_err(|cause| problem(name, password.problem(path, cause)))?;
            let items = contents.certificates.into_iter();
            items.map(|item| CertificateDer::from(item.bytes)).collect()
        }
    };
    if found.is_empty() {
        return Err(problem(name, format_args!("{path} holds no certificate")));
    }
    Ok(found)
}

/// The bytes of a file that this client can read.
fn file(name: &str, path: &str) -> Result<Vec<u8>, Error> {
    let bytes = fs::read(path)
        .map_err(|cause| problem(name, format_args!("{path} cannot be read: {cause}")))?;
    if bytes
        .first_chunk()
        .is_some_and(|start| JAVA.contains(start))
    {
        let stem = Path::new(path).with_extension("p12");
        let text = format!(
            "{path} is a Java key store (JKS), which this client does not read. Convert it and name the new file: keytool \
             -importkeystore -srckeystore {path} -destkeystore {} -deststoretype PKCS12",
            stem.display()
        );
        return Err(problem(name, text));
    }
    Ok(bytes)
}

/// The bytes as a text, if they are PEM.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.contains("-----BEGIN ").then_some(text)
}

fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = sections(text)?.into_iter();
    let found: Vec<_> = sections
        .filter(is_certificate)
        .map(|section| CertificateDer::from(section.bytes))
        .collect();
    match found.iter().position(|der| fields(der).is_err()) {
        Some(at) => Err(format!("certificate {} is damaged", at + 1)),
        None if found.is_empty() => {
            Err("there is no certificate in it (BEGIN CERTIFICATE)".to_owned())
        }
        None => Ok(found),
    }
}

fn is_certificate(section: &Section) -> bool {
    matches!(
        section.label.as_str(),
        "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE"
    )
}

pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(config: &Config) -> Result<Option<Identity>, Error> {
    if let Some(path) = &config.ssl_keystore_location {
        return key_store(config, path).map(Some);
    }
    let chain = match (
        &config.ssl_certificate_location,
        &config.ssl_certificate_pem,
        &config.ssl_keystore_certificate_chain,
    ) {
        (Some(path), ..) => {
            let name = "ssl.certificate.location";
            let bytes = file(name, path)?;
            let text = text(&bytes).ok_or_else(|| {
                problem(
                    name,
                    format_args!(
                        "{path} is not PEM; a PKCS12 file goes into ssl.keystore.location"
                    ),
                )
            })?;
            certificates(text).map_err(|text| problem(name, format_args!("{path}: {text}")))?
        }
        (_, Some(text), _) => {
            certificates(text).map_err(|text| problem("ssl.certificate.pem", text))?
        }
        (.., Some(text)) => {
            certificates(text).map_err(|text| problem("ssl.keystore.certificate.chain", text))?
        }
        _ => return Ok(None),
    };
    let password = key_password(config);
    let key = match (
        &config.ssl_key_location,
        &config.ssl_key_pem,
        &config.ssl_keystore_key,
    ) {
        (Some(path), ..) => {
            let name = "ssl.key.location";
            let bytes = file(name, path)?;
            let text =
                text(&bytes).ok_or_else(|| problem(name, format_args!("{path} is not PEM")))?;
            key(text, path, &password).map_err(|text| problem(name, text))?
        }
        (_, Some(text), _) => {
            key(text.expose(), "the key", &password).map_err(|text| problem("ssl.key.pem", text))?
        }
        (.., Some(text)) => key(text.expose(), "the key", &password)
            .map_err(|text| problem("ssl.keystore.key", text))?,
        _ => return Ok(None),
    };
    Ok(Some((chain, key)))
}

fn key_password(config: &Config) -> Password<'_> {
    Password {
        name: "ssl.key.password",
        secret: config.ssl_key_password.as_ref(),
    }
}

/// Certificates and key of one file.
fn key_store(config: &Config, path: &str) -> Result<Identity, Error> {
    let name = "ssl.keystore.location";
    let bytes = file(name, path)?;
    if let Some(text) = text(&bytes) {
        let chain =
            certificates(text).map_err(|text| problem(name, format_args!("{path}: {text}")))?;
        let key = key(text, path, &key_password(config)).map_err(|text| problem(name, text))?;
        return Ok((chain, key));
    }
    let store = Password {
        name: "ssl.keystore.password",
        secret: config.ssl_keystore_password.as_ref(),
    };
    let keys = match config.ssl_key_password {
        Some(_) => key_password(config),
        None => Password { ..store },
    };
    // The certificates first: if they can be read, a wrong password is the key's.
    let mut passwords = Passwords {
        store: store.text(),
        keys: None,
    };
    pkcs12::contents(&bytes, &passwords)
        .map_err(|cause| problem(name, store.problem(path, cause)))?;
    passwords.keys = Some(keys.text());
    let contents = pkcs12::contents(&bytes, &passwords)
        .map_err(|cause| problem(name, keys.problem(&format!("the key in {path}"), cause)))?;
    chosen(contents).map_err(|text| problem(name, format_args!("{path} {text}")))
}

/// The key of a store, its certificate, and the others in the order of who issued whom.
pub(super) fn chosen(mut contents: Contents) -> Result<Identity, &'static str> {
    if contents.keys.len() > 1 {
        return Err("holds several private keys; name a store with the one to use");
    }
    let key = contents.keys.pop().ok_or("holds no private key")?;
    let mut others = contents.certificates;
    let own = others
        .iter()
        .position(|item| item.key_id.is_some() && item.key_id == key.key_id)
        .or_else(|| others.iter().position(|item| item.key_id.is_some()))
        .or((!others.is_empty()).then_some(0))
        .ok_or("holds no certificate")?;
    let mut chain = vec![others.swap_remove(own).bytes];
    while let Some(next) = chain.last().and_then(|last| {
        issuer(
            last,
            &others
                .iter()
                .map(|item| &item.bytes[..])
                .collect::<Vec<_>>(),
        )
    }) {
        chain.push(others.swap_remove(next).bytes);
    }
    let key =
        with_public_key(&key.bytes, chain.first().map_or(&[], |own| own)).unwrap_or(key.bytes);
    let chain = chain.into_iter().map(CertificateDer::from).collect();
    Ok((chain, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key))))
}

/// Which of the others issued a certificate; `None` for one that issued itself.
fn issuer(certificate: &[u8], others: &[&[u8]]) -> Option<usize> {
    let certificate = fields(certificate).ok()?;
    if certificate.issuer == certificate.subject {
        return None;
    }
    let is_issuer =
        |other: &&[u8]| fields(other).is_ok_and(|other| other.subject == certificate.issuer);
    others.iter().position(is_issuer)
}

/// Keys of elliptic curves that Java wrote lack the public key, which the signer needs besides the
/// private one: it is taken from the certificate. `None` if nothing is missing.
fn with_public_key(key: &[u8], certificate: &[u8]) -> Option<Vec<u8>> {
    const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    const BITS: u8 = 0x03;
    let mut parts = read(key, SEQUENCE).ok()?.parts();
    let version = parts.take(INTEGER).ok()?;
    let algorithm = parts.take(SEQUENCE).ok()?;
    if algorithm.parts().take(OID).ok()?.body != ELLIPTIC {
        return None;
    }
    let inner = parts.take(OCTETS).ok()?.body;
    let mut fields_of_key = read(inner, SEQUENCE).ok()?.parts();
    let mut kept = fields_of_key.take(INTEGER).ok()?.whole.to_vec();
    kept.extend(fields_of_key.take(OCTETS).ok()?.whole);
    fields_of_key.maybe(context(0)).ok()?;
    if fields_of_key.maybe(context(1)).ok()?.is_some() {
        return None;
    }
    let mut public = read(fields(certificate).ok()?.key, SEQUENCE).ok()?.parts();
    public.take(SEQUENCE).ok()?;
    kept.extend(write(context(1), public.take(BITS).ok()?.whole));
    let mut whole = version.whole.to_vec();
    whole.extend(algorithm.whole);
    whole.extend(write(OCTETS, &write(SEQUENCE, &kept)));
    Some(write(SEQUENCE, &whole))
}

/// The private key of a PEM text.
fn key(text: &str, what: &str, password: &Password<'_>) -> Result<PrivateKeyDer<'static>, String> {
    let found = sections(text)?
        .into_iter()
        .find(|section| section.label.ends_with("PRIVATE KEY"))
        .ok_or_else(|| format!("{what} holds no private key (BEGIN PRIVATE KEY)"))?;
    let Section {
        label,
        headers,
        mut bytes,
    } = found;
    let locked = |cause| password.problem(what, cause);
    if label == "ENCRYPTED PRIVATE KEY" {
        bytes = decrypt_key(&bytes, password.text()).map_err(locked)?;
    } else if let Some((_, value)) = headers.iter().find(|(name, _)| name == "DEK-Info") {
        bytes = decrypt_by_header(value, password.text(), &bytes).map_err(locked)?;
    }
    Ok(match label.as_str() {
        "PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" => PrivatePkcs8KeyDer::from(bytes).into(),
        "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(bytes).into(),
        "EC PRIVATE KEY" => PrivateSec1KeyDer::from(bytes).into(),
        _ => {
            return Err(format!(
                "{what} is a {label}, which is not supported: write it as PKCS #8 with openssl pkcs8 -topk8"
            ));
        }
    })
}
