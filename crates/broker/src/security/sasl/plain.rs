//! PLAIN (RFC 4616): `authorisation id NUL user NUL password`.

use super::step::{Authenticated, Step};
use crate::security::users::Users;

pub(super) fn step(token: &[u8], users: &Users) -> Step {
    let mut parts = token.split(|byte| *byte == 0);
    let (Some(acts_as), Some(name), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return failed("the message of PLAIN is not three texts with NUL between them");
    };
    let (Ok(acts_as), Ok(name)) = (std::str::from_utf8(acts_as), std::str::from_utf8(name)) else {
        return failed("the user's name is not UTF-8");
    };
    if name.is_empty() {
        return failed("the user's name is empty");
    }
    if password.is_empty() {
        return failed("the password is empty");
    }
    if !users.has_password(name, password) {
        return failed("Invalid username or password");
    }
    // Nobody acts for somebody else (CVE-2017-12610).
    if !acts_as.is_empty() && acts_as != name {
        return failed("Client requested an authorization id that is different from username");
    }
    let name = name.to_owned();
    Step::Done(
        Vec::new(),
        Authenticated {
            name,
            expires_ms: None,
            by_token: false,
        },
    )
}

fn failed(why: &str) -> Step {
    Step::Failed(format!("Authentication failed: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::nonce::Nonces;
    use crate::security::secret::Secret;

    /// Rule: CVE-2017-12610.
    #[test]
    fn only_the_right_password_of_oneself_is_let_in() {
        let given = [("alice".to_owned(), Secret::new("a-secret"))];
        let users = Users::new(&given, &Nonces::new([0; 32]));
        let alice =
            |token: &[u8]| matches!(step(token, &users), Step::Done(_, who) if who.name == "alice");
        assert!(alice(b"\0alice\0a-secret"));
        assert!(alice(b"alice\0alice\0a-secret"));
        for (token, reason) in [
            (&b"\0alice\0a-secreT"[..], "Invalid username or password"),
            (b"\0alice\0a-secre", "Invalid username or password"),
            (b"\0bob\0a-secret", "Invalid username or password"),
            (b"bob\0alice\0a-secret", "authorization id"),
            (b"\0alice\0", "password is empty"),
            (b"\0\0a-secret", "name is empty"),
            (b"alice\0a-secret", "three texts"),
            (b"\0alice\0a-secret\0", "three texts"),
            (b"\0\xFF\0a-secret", "UTF-8"),
            (b"", "three texts"),
        ] {
            match step(token, &users) {
                Step::Failed(said) => {
                    assert!(said.contains(reason), "{said}");
                    assert!(!said.contains("a-secre"), "{said}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
