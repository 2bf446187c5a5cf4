//! Text that must not be shown.

use std::fmt;

use subtle::ConstantTimeEq;

/// A password, a key or a token: it is compared in constant time, and neither printed nor logged. There is no `==`
/// of two, which would take as long as they agree.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes the bytes of a secret.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into_boxed_slice())
    }

    /// Compares without telling by its duration where the difference is. Lengths are no secret.
    pub(crate) fn is(&self, claimed: &[u8]) -> bool {
        self.0.ct_eq(claimed).into()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: 2.4.16.
    #[test]
    fn a_secret_is_compared_and_never_shown() {
        let secret = Secret::new("hunter2");
        assert!(secret.is(b"hunter2"));
        for wrong in [&b"hunter3"[..], b"hunter", b"hunter22", b""] {
            assert!(!secret.is(wrong));
        }
        assert_eq!(format!("{secret:?} {secret:#?}"), "Secret(...) Secret(...)");
    }
}
