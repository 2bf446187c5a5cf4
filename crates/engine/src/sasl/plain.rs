//! PLAIN (RFC 4616): name and password, as they are.

use bytes::Bytes;

use super::{Mechanism, Step, refused};
use crate::config::Secret;
use crate::error::Error;

/// Name and password.
#[derive(Debug)]
pub(super) struct Plain {
    user: String,
    password: Secret,
}

impl Plain {
    pub(super) const NAME: &str = "PLAIN";

    /// # Errors
    /// A NUL stands in the name or the password: it would end the one and begin the other.
    pub(super) fn new(user: &str, password: &Secret) -> Result<Plain, Error> {
        if user.contains('\0') || password.expose().contains('\0') {
            return Err(refused(
                "PLAIN cannot carry a NUL in sasl.username or sasl.password",
            ));
        }
        Ok(Plain {
            user: user.to_owned(),
            password: password.clone(),
        })
    }
}

impl Mechanism for Plain {
    fn name(&self) -> &'static str {
        Plain::NAME
    }

    fn user(&self) -> Option<&str> {
        Some(&self.user)
    }

    fn advice(&self) -> &'static str {
        "check sasl.username and sasl.password"
    }

    fn begin(&mut self) -> Result<Step, Error> {
        // The authorization identity stays empty: the broker derives it from the name.
        let message = format!("\0{}\0{}", self.user, self.password.expose());
        Ok(Step::Send(message.into()))
    }

    fn step(&mut self, challenge: Bytes) -> Result<Step, Error> {
        if challenge.is_empty() {
            Ok(Step::Done)
        } else {
            Err(refused("the broker responded to PLAIN with a challenge"))
        }
    }
}
