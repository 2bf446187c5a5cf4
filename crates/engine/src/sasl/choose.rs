//! From settings to a mechanism.

use super::Mechanism;
use super::gssapi::Gssapi;
use super::hash::Hash;
use super::msk_iam::MskIam;
use super::oauthbearer::OauthBearer;
use super::plain::Plain;
use super::scram::Scram;
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
    let (user, password) = (config.sasl_username.as_str(), &config.sasl_password);
    let scram = |hash| Scram::new(hash, user, password, config.token_auth);
    Ok(Some(match chosen {
        SaslMechanism::Plain => Box::new(Plain::new(user, password)?),
        SaslMechanism::ScramSha256 => Box::new(scram(Hash::Sha256)),
        SaslMechanism::ScramSha512 => Box::new(scram(Hash::Sha512)),
        SaslMechanism::OauthBearer => Box::new(OauthBearer::default()),
        SaslMechanism::AwsMskIam => Box::new(MskIam::default()),
        SaslMechanism::Gssapi => Box::new(Gssapi::new(config.kerberos_principal.as_deref())),
    }))
}
