//! How a caller describes the security of a broker.

use super::secret::Secret;

/// Users, keys, ACLs and quotas. The default has none of them: everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct SecuritySettings {
    /// Names and passwords, for PLAIN and SCRAM.
    pub users: Vec<(String, Secret)>,
    /// AWS access key ids and secret access keys, for `AWS_MSK_IAM`; a key id is its owner's principal.
    pub aws_keys: Vec<(String, Secret)>,
    /// Keys that sign tokens, for OAUTHBEARER. The default takes unsecured tokens (`alg: none`), and nothing else.
    pub token_keys: TokenKeys,
    /// ACLs, one a line; `None` and no `super.users` mean that there is no authorizer.
    ///
    /// `[allow|deny] PRINCIPAL OPERATION[,OPERATION] TYPE:NAME [from HOST]`, as in `alice read,describe topic:flights-*`.
    pub acls: Option<Vec<String>>,
    /// Quotas, one a line: `[user:NAME] [client-id:NAME] KEY=VALUE`, where the name `*` is the default entity.
    pub quotas: Vec<String>,
    /// The certificate and key of TLS listeners.
    pub tls: Option<TlsFiles>,
}

/// What proves a bearer token.
#[derive(Debug, Clone, Default)]
pub struct TokenKeys {
    /// A JSON Web Key Set (RFC 7517) with public keys, as text.
    pub jwks: Option<String>,
    /// A shared key, for HS256, HS384 and HS512.
    pub shared: Option<Secret>,
}

/// PEM texts of a TLS server.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, and the chain above it.
    pub certificate: String,
    /// Its private key: PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub key: Secret,
    /// The authorities of client certificates; needed where a listener requests them.
    pub client_ca: Option<String>,
}

/// The authorizer's own settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct AclSettings {
    /// `super.users`.
    pub(crate) super_users: Vec<String>,
    /// `allow.everyone.if.no.acl.found`.
    pub(crate) allow_everyone_if_no_acl: bool,
}
