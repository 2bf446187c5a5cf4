//! Unpredictable text, from one seed that the shell draws.

use parking_lot::Mutex;
use ring::hmac;

/// A counter under a keyed hash: the next value cannot be predicted without the seed.
pub(crate) struct Nonces {
    key: hmac::Key,
    drawn: Mutex<u64>,
}

impl Nonces {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &seed),
            drawn: Mutex::new(0),
        }
    }

    /// 32 bytes that nobody can guess.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        let mut drawn = self.drawn.lock();
        *drawn += 1;
        let tag = hmac::sign(&self.key, &drawn.to_be_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }
}

impl std::fmt::Debug for Nonces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nonces")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_run_and_no_number_twice() {
        let (one, same, other) = (
            Nonces::new([1; 32]),
            Nonces::new([1; 32]),
            Nonces::new([2; 32]),
        );
        let first = one.bytes();
        assert_eq!(first, same.bytes());
        assert_ne!(first, other.bytes());
        assert_ne!(first, one.bytes());
    }
}
