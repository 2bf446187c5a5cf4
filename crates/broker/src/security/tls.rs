//! The configuration of a TLS listener: TLS 1.2 and 1.3, by rustls. It speaks neither here nor now; the shell does.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::listener::ClientAuth;
use super::settings::TlsFiles;

/// # Errors
/// A sentence about the certificate or key that cannot be used; it never holds a part of the key.
pub(crate) fn server_config(
    files: &TlsFiles,
    client_auth: ClientAuth,
) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&files.certificate, "the server's certificate")?;
    let key = PrivateKeyDer::from_pem_slice(files.key.bytes()).map_err(|_| {
        "the server's key holds no private key in PEM that is not encrypted".to_owned()
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if client_auth == ClientAuth::None {
        builder.with_no_client_auth()
    } else {
        let Some(authorities) = &files.client_ca else {
            return Err(
                "client certificates need the authority that signs them: client_ca".to_owned(),
            );
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities, "the authority of client certificates")? {
            let added = roots.add(certificate);
            added.map_err(|error| format!("the authority of client certificates: {error}"))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = if client_auth == ClientAuth::Requested {
            verifier.allow_unauthenticated()
        } else {
            verifier
        };
        builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
    };
    let config = builder.with_single_cert(chain, key);
    Ok(Arc::new(config.map_err(|error| {
        format!("the server's certificate and key cannot be used: {error}")
    })?))
}

fn certificates(pem: &str, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{what}: there is no certificate in PEM in it")),
        Err(error) => Err(format!("{what}: {error}")),
    }
}
