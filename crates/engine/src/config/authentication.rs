//! Rules about the properties of authentication that concern more than one of them.

use super::jaas::{Jaas, Module};
use super::secret::Secret;
use super::settings::Config;
use super::tables::{SaslMechanism, SecurityProtocol};
use crate::release::{self, Era, Fallback};

/// The property at fault, and what is wrong with it.
type Conflict = (&'static str, String);

const WITHOUT_SASL: [&str; 4] = [
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
];

impl Config {
    /// The mechanism to authenticate with, if the brokers' listener wants one.
    pub fn authenticates(&self) -> Option<SaslMechanism> {
        self.sasl_mechanism
            .filter(|_| uses_sasl(self.security_protocol))
    }

    /// Reads the login of a Java client, and checks that the mechanism has what it needs.
    pub(super) fn settle_authentication(
        &mut self,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<(), Conflict> {
        if !uses_sasl(self.security_protocol) {
            return match WITHOUT_SASL.into_iter().find(|name| is_given(name)) {
                Some(name) => Err((
                    name,
                    "has no effect without security.protocol=SASL_SSL (or SASL_PLAINTEXT)"
                        .to_owned(),
                )),
                None => Ok(()),
            };
        }
        if let Some(jaas) = self.sasl_jaas.clone() {
            self.settle_jaas(&jaas, is_given)?;
        }
        let Some(mechanism) = self.sasl_mechanism else {
            let text = "is required with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI";
            return Err(("sasl.mechanism", text.to_owned()));
        };
        let is_open = self.security_protocol == SecurityProtocol::SaslPlaintext;
        if is_open && mechanism.is_readable() && !self.sasl_allow_plaintext {
            return Err((
                "security.protocol",
                format!(
                    "{} over SASL_PLAINTEXT shows its {} to everybody on the way: use SASL_SSL, or say \
                     sasl.allow.plaintext=true",
                    mechanism.name(),
                    if mechanism == SaslMechanism::Plain {
                        "password"
                    } else {
                        "token"
                    },
                ),
            ));
        }
        if let (false, Some(era)) = (self.api_version_request, self.too_old_for(mechanism)) {
            let text = format!(
                "{} needs brokers of Kafka {} or newer, and broker.version.fallback with api.version.request=false means that \
                 they are of {}: remove these two if the brokers are newer",
                mechanism.name(),
                mechanism.since(),
                era.name(),
            );
            return Err(("sasl.mechanism", text));
        }
        self.settle_names(mechanism)
    }

    /// The version of brokers that do not return their versions, if the settings name one and it
    /// knows no such mechanism.
    fn too_old_for(&self, mechanism: SaslMechanism) -> Option<Era> {
        match self.broker_version_fallback {
            Fallback::Old(era) if release::is_before(era.name(), mechanism.since()) => Some(era),
            _ => None,
        }
    }

    /// The mechanism to authenticate with, and the version of brokers that do not return their
    /// versions, if that version knows no such mechanism.
    pub(crate) fn unknown_to_old(&self) -> Option<(SaslMechanism, Era)> {
        let mechanism = self.authenticates()?;
        Some((mechanism, self.too_old_for(mechanism)?))
    }

    fn settle_jaas(
        &mut self,
        jaas: &Jaas,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<(), Conflict> {
        if is_given("sasl.username") || is_given("sasl.password") {
            let text = "has a user of its own: give either it, or sasl.username and sasl.password";
            return Err(("sasl.jaas.config", text.to_owned()));
        }
        let of_module: &[SaslMechanism] = match jaas.module {
            Module::Plain => &[SaslMechanism::Plain],
            Module::Scram => &[SaslMechanism::ScramSha256, SaslMechanism::ScramSha512],
            Module::OauthBearer => &[SaslMechanism::OauthBearer],
            Module::Krb5 => &[SaslMechanism::Gssapi],
            Module::Iam => &[SaslMechanism::AwsMskIam],
        };
        match (self.sasl_mechanism, of_module) {
            (Some(given), _) if !of_module.contains(&given) => {
                let text = format!("has a login module that is not for {}", given.name());
                return Err(("sasl.jaas.config", text));
            }
            (None, [only]) => self.sasl_mechanism = Some(*only),
            _ => {}
        }
        let option = |name: &str| jaas.option(name).map(Secret::expose);
        match jaas.module {
            Module::Plain | Module::Scram => {
                self.sasl_username = option("username").unwrap_or_default().to_owned();
                self.sasl_password = jaas.option("password").cloned().unwrap_or_default();
                self.token_auth = jaas.module == Module::Scram
                    && option("tokenauth").is_some_and(|text| text.eq_ignore_ascii_case("true"));
            }
            Module::Krb5 => {
                let known = |name: &str| option(name).map(str::to_owned);
                self.kerberos_principal = self.kerberos_principal.take().or(known("principal"));
                self.kerberos_keytab = self.kerberos_keytab.take().or(known("keyTab"));
                if let Some(service) = option("serviceName")
                    && !is_given("sasl.kerberos.service.name")
                {
                    self.kerberos_service = service.to_owned();
                }
            }
            Module::OauthBearer | Module::Iam => {}
        }
        Ok(())
    }

    fn settle_names(&self, mechanism: SaslMechanism) -> Result<(), Conflict> {
        let needs = |name, what: &str| {
            let text = format!("is required for {}: {what}", mechanism.name());
            Err((name, text))
        };
        match mechanism {
            SaslMechanism::Plain | SaslMechanism::ScramSha256 | SaslMechanism::ScramSha512 => {
                if self.sasl_username.is_empty() {
                    return needs("sasl.username", "the user's name");
                }
                if self.sasl_password.expose().is_empty() {
                    return needs("sasl.password", "the user's password");
                }
            }
            SaslMechanism::Gssapi if self.kerberos_service.is_empty() => {
                return needs("sasl.kerberos.service.name", "usually kafka");
            }
            _ => {}
        }
        Ok(())
    }
}

fn uses_sasl(protocol: SecurityProtocol) -> bool {
    matches!(
        protocol,
        SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl
    )
}
