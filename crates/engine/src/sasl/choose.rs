//! From settings to a mechanism.

use super::Mechanism;
use super::gssapi::Gssapi;
use super::hash::Hash;
use super::login::{Login, Named};
use super::msk_iam::MskIam;
use super::oauthbearer::OauthBearer;
use crate::config::{Config, SaslMechanism};
use crate::error::Error;

/// The mechanism that the settings select; `None` where they select none.
///
/// # Errors
/// The mechanism cannot carry the name or the password.
pub fn mechanism(config: &Config) -> Result<Option<Box<dyn Mechanism>>, Error> {
    let Some(chosen) = config.authenticates() else {
        return Ok(None);
    };
    let named = match chosen {
        SaslMechanism::Plain => Named::Plain,
        SaslMechanism::ScramSha256 => Named::Scram(Hash::Sha256, config.token_auth),
        SaslMechanism::ScramSha512 => Named::Scram(Hash::Sha512, config.token_auth),
        SaslMechanism::OauthBearer => return Ok(Some(Box::new(OauthBearer::default()))),
        SaslMechanism::AwsMskIam => return Ok(Some(Box::new(MskIam::default()))),
        SaslMechanism::Gssapi => {
            let principal = config.kerberos_principal.as_deref();
            return Ok(Some(Box::new(Gssapi::new(principal))));
        }
    };
    Ok(Some(if config.credentials.0.is_some() {
        Box::new(Login::new(named))
    } else {
        named.with(&config.sasl_username, &config.sasl_password)?
    }))
}
