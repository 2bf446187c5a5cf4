//! The state of a prepared transaction (KIP-939), its name and the name's text.

use std::fmt;
use std::str::FromStr;

use crate::call::ProducerIdentity;
use crate::error::{Error, Kind};

/// A prepared transaction: the identity of the producer whose records are in it. Its text is that
/// of `PreparedTxnState` in Java, `producerId:epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedTransaction(ProducerIdentity);

/// A prepared transaction of this producer, or of the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub(super) token: PreparedTransaction,
    /// The coordinator knows of the transaction.
    pub(super) touched: bool,
    /// How it is to end, once that was requested.
    pub(super) commits: Option<bool>,
    /// The coordinator may have ended it: a request for that was not confirmed.
    pub(super) may_be_done: bool,
}

impl PreparedTransaction {
    /// That of a producer with this id and epoch.
    ///
    /// # Errors
    /// `Kind::Argument`: one of them is negative.
    pub fn new(id: i64, epoch: i16) -> Result<PreparedTransaction, Error> {
        if id < 0 || epoch < 0 {
            return Err(Error::new(
                Kind::Argument,
                format!(
                    "a prepared transaction has no negative producer id or epoch: {id}:{epoch}"
                ),
            ));
        }
        Ok(PreparedTransaction(ProducerIdentity { id, epoch }))
    }

    /// The producer's id.
    pub fn producer_id(self) -> i64 {
        self.0.id
    }

    /// The producer's epoch.
    pub fn epoch(self) -> i16 {
        self.0.epoch
    }
}

impl From<ProducerIdentity> for PreparedTransaction {
    fn from(identity: ProducerIdentity) -> Self {
        PreparedTransaction(identity)
    }
}

impl fmt::Display for PreparedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.id, self.0.epoch)
    }
}

impl FromStr for PreparedTransaction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once(':');
        let found = parts.and_then(|(id, epoch)| Some((id.parse().ok()?, epoch.parse().ok()?)));
        match found {
            Some((id, epoch)) => PreparedTransaction::new(id, epoch),
            None => Err(Error::new(
                Kind::Argument,
                format!(
                    "a prepared transaction is written as producerId:epoch, such as 42:7, and not as {text:?}"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_text_is_javas() {
        for text in ["42:7", "0:0", "9223372036854775807:32767"] {
            let parsed: PreparedTransaction = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
        }
        // Java's class refuses these too, but for the empty text: that is its name for no transaction.
        for text in [
            "", "42", "a:b", "42:40000", " 42:7", "42:7:8", "-1:-1", "42:-1", "-1:7",
        ] {
            let error = text.parse::<PreparedTransaction>().unwrap_err();
            assert_eq!(error.kind(), Kind::Argument, "{text}");
        }
    }
}
