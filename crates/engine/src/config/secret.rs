//! Secret texts: passwords, keys, tokens.

use std::fmt;
use std::sync::Arc;

/// The text that is shown instead of a secret.
const HIDDEN: &str = "[hidden]";

/// A text that is never shown: its `Debug` hides it, and it has no `Display`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps a text from sight.
    pub fn new(text: &str) -> Secret {
        Secret(Arc::from(text))
    }

    /// The text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Words in the name of a property whose value is hidden, in lower case and with dots. People also
/// misspell the names of secrets and bring those of other clients, so it goes by words.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passphrase",
    "secret",
    "credential",
    "token",
    "jaas",
    "user.info",
    "key.pem",
    "keystore.key",
    "proxy",
];

/// Whether the value of a property with this name is kept from errors and logs. Underscores may stand for dots.
pub fn is_secret(key: &str) -> bool {
    let dotted = key.replace('_', ".").to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| dotted.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: 2.4.16.
    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret:?} {:?}", Some(&secret)),
            "[hidden] Some([hidden])"
        );
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn names_that_sound_secret_are() {
        for name in [
            "ssl.key.password",
            "sasl_plain_password",
            "sasl.jaas.config",
            "Schema.Registry.Basic.Auth.User.Info",
            "sasl.oauthbearer.client.secret",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["linger.ms", "key.serializer", "ssl.key.location"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
