//! What a listener demands of those who connect to it.

use super::sasl::Mechanism;

/// What is spoken on a listener, under Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecurityProtocol {
    /// Neither encryption nor authentication.
    #[default]
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL over plaintext.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    const ALL: [Self; 4] = [
        Self::Plaintext,
        Self::Ssl,
        Self::SaslPlaintext,
        Self::SaslSsl,
    ];

    /// Kafka's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// The protocol of that name, whatever its case.
    ///
    /// # Errors
    /// A sentence that lists the names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            format!(
                "there is no security protocol \"{name}\"; there are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }

    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    pub(crate) fn is_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// Whether a TLS listener wants a certificate of the client (`ssl.client.auth`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// It does not ask for one.
    #[default]
    None,
    /// It requests a certificate, and takes clients without one too.
    Requested,
    /// It turns away clients without one.
    Required,
}

impl ClientAuth {
    /// Kafka's word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Requested => "requested",
            Self::Required => "required",
        }
    }

    /// Reads Kafka's word for it.
    ///
    /// # Errors
    /// A sentence that lists the words.
    pub fn parse(word: &str) -> Result<Self, String> {
        match word {
            "none" => Ok(Self::None),
            "requested" => Ok(Self::Requested),
            "required" => Ok(Self::Required),
            _ => Err(format!(
                "client_auth \"{word}\": must be none, requested or required"
            )),
        }
    }
}

/// One listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Its name; each listener has one of its own.
    pub name: String,
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes any free one.
    pub port: u16,
    /// The host and port that clients connect to, if they differ from the address listened on.
    pub advertised: Option<(String, u16)>,
    /// What is spoken.
    pub protocol: SecurityProtocol,
    /// SASL mechanisms offered; `None` offers all that the broker's settings make possible.
    pub mechanisms: Option<Vec<Mechanism>>,
    /// Client certificates over TLS.
    pub client_auth: ClientAuth,
    /// Whether a client certificate's principal is only its common name (`User:alice`), not the whole distinguished name
    /// (`User:CN=alice,O=Example`), which is Kafka's default.
    pub principal_is_common_name: bool,
}

impl ListenerConfig {
    /// A listener on any free port of the loopback, named after its protocol.
    #[must_use]
    pub fn new(protocol: SecurityProtocol) -> Self {
        Self {
            name: protocol.name().to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 0,
            advertised: None,
            protocol,
            mechanisms: None,
            client_auth: ClientAuth::None,
            principal_is_common_name: false,
        }
    }
}
