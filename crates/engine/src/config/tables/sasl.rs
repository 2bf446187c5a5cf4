//! The properties of authentication (SASL), which every client has.

use crate::config::jaas::Jaas;
use crate::config::secret::Secret;

macro_rules! sasl {
    ($next:ident $($later:ident)* => $($before:tt)*) => { $next! { $($later)* => $($before)* ALL {
        /// Authentication mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI. Also
        /// written sasl.mechanisms.
        "sasl.mechanism" => sasl_mechanism: Option<SaslMechanism>, text(mechanism);
        /// User name for PLAIN and SCRAM.
        "sasl.username" => sasl_username: String, text(text);
        /// Password for PLAIN and SCRAM.
        "sasl.password" => sasl_password: Secret, secret(whole_secret);
        /// The login of a Java client: of PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, Krb5LoginModule or
        /// IAMLoginModule. It is read, and no class is loaded.
        "sasl.jaas.config" => sasl_jaas: Option<Jaas>, secret(jaas);
        /// Whether PLAIN, OAUTHBEARER and AWS_MSK_IAM may be used without TLS, where everybody on the way can read passwords and
        /// tokens.
        "sasl.allow.plaintext" => sasl_allow_plaintext: bool = "false", bool();
        /// The service name of the brokers' Kerberos principals.
        "sasl.kerberos.service.name" => kerberos_service: String = "kafka", text(text);
        /// The host in the brokers' Kerberos principals; left out, that of each broker's address.
        "sasl.kerberos.domain.name" => kerberos_domain: Option<String>, text(optional);
        /// The Kerberos principal of this client; left out, that of the credentials cache or the keytab.
        "sasl.kerberos.principal" => kerberos_principal: Option<String>, text(optional);
        /// A keytab to get tickets with; left out, the credentials cache must have some.
        "sasl.kerberos.keytab" => kerberos_keytab: Option<String>, text(optional);
        /// Source of OAUTHBEARER tokens: default (sasl_token, or the login of sasl.jaas.config) or oidc (a token
        /// endpoint).
        "sasl.oauthbearer.method" => oauth_oidc: bool = "default", choice("default" => false, "oidc" => true);
        /// The token endpoint, an https URL. Plain http is taken for loopback addresses, with sasl.allow.plaintext.
        "sasl.oauthbearer.token.endpoint.url" => oauth_endpoint: Option<String>, text(optional);
        /// Grant type for the token endpoint: client_credentials, or urn:ietf:params:oauth:grant-type:jwt-bearer.
        "sasl.oauthbearer.grant.type" => oauth_grant: Option<String>, text(grant);
        /// The client's id at the token endpoint.
        "sasl.oauthbearer.client.credentials.client.id" => oauth_client_id: Option<String>, text(optional);
        /// The client's secret at the token endpoint.
        "sasl.oauthbearer.client.credentials.client.secret" => oauth_client_secret: Secret, secret(whole_secret);
        /// The scope to request.
        "sasl.oauthbearer.scope" => oauth_scope: Option<String>, text(optional);
        /// Extensions that are sent to the broker with the token: name=value, separated by commas.
        "sasl.oauthbearer.extensions" => oauth_extensions: Option<String>, text(optional);
        /// A file with the assertion of a JWT bearer grant, made elsewhere.
        "sasl.oauthbearer.assertion.file" => oauth_assertion: Option<String>, text(optional);
        /// A file with the private key that signs assertions: PEM, PKCS #8, not encrypted.
        "sasl.oauthbearer.assertion.private.key.file" => oauth_key_file: Option<String>, text(optional);
        /// How assertions are signed.
        "sasl.oauthbearer.assertion.algorithm" => oauth_algorithm: String = "RS256", text(algorithm);
        /// The audience of assertions (aud).
        "sasl.oauthbearer.assertion.claim.aud" => oauth_audience: Option<String>, text(optional);
        /// The issuer of assertions (iss).
        "sasl.oauthbearer.assertion.claim.iss" => oauth_issuer: Option<String>, text(optional);
        /// The subject of assertions (sub).
        "sasl.oauthbearer.assertion.claim.sub" => oauth_subject: Option<String>, text(optional);
        /// Seconds for which assertions are valid.
        "sasl.oauthbearer.assertion.claim.exp.seconds" => oauth_assertion_seconds: u32 = "300", whole(1, 86_400);
        /// Seconds before now from which assertions are valid.
        "sasl.oauthbearer.assertion.claim.nbf.seconds" => oauth_assertion_early: u32 = "60", whole(0, 3_600);
        /// Whether each assertion has an id (jti).
        "sasl.oauthbearer.assertion.claim.jti.include" => oauth_assertion_id: bool = "false", bool();
        /// Authorities that the token endpoint's certificate may come from: a PEM file; left out, the system's.
        "https.ca.location" => https_ca: Option<String>, text(optional);
        /// The AWS region for AWS_MSK_IAM; left out, that of the broker's name or of the environment.
        "sasl.aws.region" => aws_region: Option<String>, text(optional);
        /// The profile in AWS's configuration files for AWS_MSK_IAM; left out, AWS_PROFILE or default.
        "sasl.aws.profile" => aws_profile: Option<String>, text(optional);
    } } };
}
pub(in crate::config) use sasl;

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    /// Name and password, as they are (RFC 4616).
    Plain,
    /// A proof of the password (RFC 5802, RFC 7677).
    ScramSha256,
    /// The same with the longer hash.
    ScramSha512,
    /// A bearer token (RFC 7628).
    OauthBearer,
    /// A signature with AWS credentials.
    AwsMskIam,
    /// Kerberos (RFC 4752).
    Gssapi,
}

impl SaslMechanism {
    const ALL: [(&'static str, SaslMechanism); 6] = [
        ("PLAIN", SaslMechanism::Plain),
        ("SCRAM-SHA-256", SaslMechanism::ScramSha256),
        ("SCRAM-SHA-512", SaslMechanism::ScramSha512),
        ("OAUTHBEARER", SaslMechanism::OauthBearer),
        ("AWS_MSK_IAM", SaslMechanism::AwsMskIam),
        ("GSSAPI", SaslMechanism::Gssapi),
    ];

    /// The registered name.
    pub fn name(self) -> &'static str {
        let mut all = SaslMechanism::ALL.iter();
        let found = all.find(|(_, mechanism)| *mechanism == self);
        found.map_or("", |(name, _)| name)
    }

    /// Whether it shows a password or a token, or what can be used like one, to who reads along.
    pub(in crate::config) fn is_readable(self) -> bool {
        matches!(
            self,
            SaslMechanism::Plain | SaslMechanism::OauthBearer | SaslMechanism::AwsMskIam
        )
    }

    /// The first release whose brokers can take it; that of AWS is theirs, on the callbacks of KIP-86.
    pub(crate) fn since(self) -> &'static str {
        match self {
            SaslMechanism::Gssapi => "0.9",
            SaslMechanism::Plain => "0.10",
            SaslMechanism::ScramSha256 | SaslMechanism::ScramSha512 => "0.10.2",
            SaslMechanism::OauthBearer | SaslMechanism::AwsMskIam => "2.0",
        }
    }

    /// Whether it needs data from a provider outside the engine.
    pub fn asks_outside(self) -> bool {
        matches!(
            self,
            SaslMechanism::OauthBearer | SaslMechanism::AwsMskIam | SaslMechanism::Gssapi
        )
    }
}

pub(in crate::config) fn mechanism(text: &str) -> Result<Option<SaslMechanism>, String> {
    let mut all = SaslMechanism::ALL.iter();
    let found = all.find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, mechanism)| Some(*mechanism)).ok_or_else(|| {
        let names: Vec<_> = SaslMechanism::ALL.iter().map(|(name, _)| *name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

pub(in crate::config) fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

pub(in crate::config) fn optional(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

pub(in crate::config) fn whole_secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

pub(in crate::config) fn jaas(text: &str) -> Result<Option<Jaas>, String> {
    Jaas::read(text).map(Some)
}

pub(in crate::config) fn grant(text: &str) -> Result<Option<String>, String> {
    const GRANTS: [&str; 2] = [
        "client_credentials",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
    ];
    if GRANTS.contains(&text) {
        Ok(Some(text.to_owned()))
    } else {
        Err(format!("must be one of {}", GRANTS.join(", ")))
    }
}

pub(in crate::config) fn algorithm(text: &str) -> Result<String, String> {
    match text.to_ascii_uppercase().as_str() {
        "RS256" => Ok("RS256".to_owned()),
        "ES256" => Ok("ES256".to_owned()),
        _ => Err("must be RS256 or ES256".to_owned()),
    }
}
