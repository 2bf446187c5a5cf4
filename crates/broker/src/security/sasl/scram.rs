//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding, as Kafka has it.
//!
//! ```text
//! client-first   n,[a=NAME],n=NAME,r=NONCE        ->
//!                                                 <-  server-first   r=NONCE MORE,s=SALT,i=ITERATIONS
//! client-final   c=BINDING,r=NONCE MORE,p=PROOF   ->
//!                                                 <-  server-final   v=SIGNATURE
//! ```

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::step::{Authenticated, Step};
use crate::security::nonce::Nonces;
use crate::security::tokens::Tokens;
use crate::security::users::{Credential, ScramHash, Users};

/// Whose credentials there are.
#[derive(Clone, Copy)]
pub(crate) struct Credentials<'a> {
    pub(crate) users: &'a Users,
    pub(crate) tokens: &'a Tokens,
    pub(crate) nonces: &'a Nonces,
}

/// The server's side of one exchange.
#[derive(Debug)]
pub(crate) struct Server {
    hash: ScramHash,
    challenged: Option<Challenged>,
}

#[derive(Debug)]
struct Challenged {
    who: Authenticated,
    credential: Credential,
    binding: String,
    nonce: String,
    /// `client-first-message-bare , server-first-message`
    messages: String,
}

impl Server {
    pub(super) fn new(hash: ScramHash) -> Self {
        Self {
            hash,
            challenged: None,
        }
    }

    pub(super) fn step(&mut self, token: &[u8], known: Credentials<'_>, now_ms: i64) -> Step {
        let stepped = match self.challenged.take() {
            None => self.challenge(token, known, now_ms),
            Some(challenged) => finish(self.hash, &challenged, token),
        };
        stepped.unwrap_or_else(|why| Step::Failed(format!("Authentication failed: {why}")))
    }

    fn challenge(
        &mut self,
        token: &[u8],
        known: Credentials<'_>,
        now_ms: i64,
    ) -> Result<Step, &'static str> {
        let first = ClientFirst::parse(token).ok_or("the client's first message is not SCRAM's")?;
        let name = unescaped(first.name).ok_or("the user's name is not escaped as in SCRAM")?;
        // Nobody acts for somebody else (CVE-2017-12610).
        if first.acts_as.is_some_and(|acts_as| acts_as != first.name) {
            return Err("Client requested an authorization id that is different from username");
        }
        let nonces = known.nonces;
        let (credential, who) = if first.is_token() {
            let found = known.tokens.credential(&name, self.hash, nonces, now_ms);
            let (credential, token) = found.ok_or(INVALID)?;
            let who = Authenticated {
                name: token.owner,
                expires_ms: Some(token.expires_ms),
                by_token: true,
            };
            (credential, who)
        } else {
            let credential = known.users.credential(&name, self.hash).ok_or(INVALID)?;
            let who = Authenticated {
                name,
                expires_ms: None,
                by_token: false,
            };
            (credential, who)
        };
        let nonce = format!("{}{}", first.nonce, URL_SAFE_NO_PAD.encode(nonces.bytes()));
        let reply = format!(
            "r={nonce},s={},i={}",
            STANDARD.encode(&credential.salt),
            credential.iterations
        );
        self.challenged = Some(Challenged {
            who,
            credential,
            binding: STANDARD.encode(first.header),
            nonce,
            messages: format!("{},{reply}", first.bare),
        });
        Ok(Step::Continue(reply.into_bytes()))
    }
}

const INVALID: &str = "Invalid user credentials";

fn finish(hash: ScramHash, challenged: &Challenged, token: &[u8]) -> Result<Step, &'static str> {
    const NOT_SCRAM: &str = "the client's last message is not SCRAM's";
    let text = std::str::from_utf8(token).map_err(|_| NOT_SCRAM)?;
    let (without_proof, proof) = text.rsplit_once(",p=").ok_or(NOT_SCRAM)?;
    let mut attributes = without_proof.split(',');
    let binding = attributes.next().and_then(|part| part.strip_prefix("c="));
    let nonce = attributes.next().and_then(|part| part.strip_prefix("r="));
    if binding.ok_or(NOT_SCRAM)? != challenged.binding {
        return Err("the client's last message has another channel binding than its first");
    }
    // Without this a recorded last message could be played again (CVE-2024-56128).
    if nonce.ok_or(NOT_SCRAM)? != challenged.nonce {
        return Err("the client's last message does not have the nonce of this exchange");
    }
    let proof = STANDARD.decode(proof).map_err(|_| NOT_SCRAM)?;
    let credential = &challenged.credential;
    let signed = format!("{},{without_proof}", challenged.messages);
    let signature = hash.sign(credential.stored_key.bytes(), signed.as_bytes());
    if proof.len() != signature.len() {
        return Err(INVALID);
    }
    let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    if !credential.stored_key.is(&hash.hash(&client_key)) {
        return Err(INVALID);
    }
    let verifier = hash.sign(credential.server_key.bytes(), signed.as_bytes());
    Ok(Step::Done(
        format!("v={}", STANDARD.encode(verifier)).into_bytes(),
        challenged.who.clone(),
    ))
}

struct ClientFirst<'a> {
    /// `n,[a=NAME],`
    header: &'a str,
    bare: &'a str,
    acts_as: Option<&'a str>,
    name: &'a str,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    /// Kafka's extension: the name is that of a delegation token.
    fn is_token(&self) -> bool {
        let mut extensions = self.bare.split(',').skip(2);
        extensions.any(|extension| extension.eq_ignore_ascii_case("tokenauth=true"))
    }

    fn parse(token: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        let (acts_as, _) = text.strip_prefix("n,")?.split_once(',')?;
        let header = text.get(.."n,".len() + acts_as.len() + 1)?;
        let bare = text.get(header.len()..)?;
        let acts_as = if acts_as.is_empty() {
            None
        } else {
            Some(acts_as.strip_prefix("a=")?)
        };
        let mut attributes = bare.split(',');
        let name = attributes.next()?.strip_prefix("n=")?;
        let nonce = attributes.next()?.strip_prefix("r=")?;
        // Extensions follow; a mandatory one ("m=") would stand before the name, where it is refused.
        let is_printable = |byte: u8| (0x21..=0x7E).contains(&byte);
        (!name.is_empty() && !nonce.is_empty() && nonce.bytes().all(is_printable)).then_some(Self {
            header,
            bare,
            acts_as,
            name,
            nonce,
        })
    }
}

/// `=2C` is a comma and `=3D` an equals sign, which cannot stand for itself.
fn unescaped(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('=') {
        out.push_str(before);
        let (code, others) = after.split_at_checked(2)?;
        out.push(match code {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        rest = others;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3, with the server's nonce that stands there.
    fn published() -> Challenged {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let iterations = std::num::NonZeroU32::new(4096).unwrap();
        let credential = Credential::of_password(ScramHash::Sha256, b"pencil", salt, iterations);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        Challenged {
            who: Authenticated {
                name: "user".to_owned(),
                expires_ms: None,
                by_token: false,
            },
            credential,
            binding: "biws".to_owned(),
            nonce: nonce.to_owned(),
            messages: format!(
                "n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
            ),
        }
    }

    const FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    #[test]
    fn the_published_exchange_ends_as_published() {
        let Ok(Step::Done(reply, who)) = finish(ScramHash::Sha256, &published(), FINAL.as_bytes())
        else {
            panic!("refused");
        };
        assert_eq!(reply, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(who.name, "user");
    }

    /// Rule: CVE-2024-56128.
    #[test]
    fn another_nonce_binding_or_proof_is_refused() {
        for (from, to, reason) in [
            ("$k0", "$k1", "nonce"),
            ("r=rOprNGfw", "r=", "nonce"),
            ("biws", "eSws", "channel binding"),
            ("p=dHz", "p=dHy", INVALID),
            ("p=dHzbZapW", "p=", INVALID),
            ("p=dHzb", "p=?Hzb", "not SCRAM's"),
            (",p=", ",q=", "not SCRAM's"),
        ] {
            let token = FINAL.replace(from, to);
            assert_ne!(token, FINAL);
            let why = finish(ScramHash::Sha256, &published(), token.as_bytes()).unwrap_err();
            assert!(why.contains(reason), "{why}");
        }
    }

    /// Rule: CVE-2017-12610.
    #[test]
    fn a_first_message_is_read_and_a_bad_one_refused() {
        let nonces = Nonces::new([3; 32]);
        let secret = crate::security::secret::Secret::new("pw");
        let users = Users::new(&[("a,b=c".to_owned(), secret)], &nonces);
        let tokens = Tokens::new(crate::security::tokens::Lifetimes {
            expiry_ms: 1000,
            max_ms: 1000,
        });
        let known = Credentials {
            users: &users,
            tokens: &tokens,
            nonces: &nonces,
        };
        let step = |token: &str| Server::new(ScramHash::Sha512).step(token.as_bytes(), known, 0);
        let made = tokens.create("carol".into(), "carol".into(), Vec::new(), -1, 0, &nonces);
        let by_token = format!("n,,n={},r=abc,tokenauth=true", made.id);
        assert!(matches!(step(&by_token), Step::Continue(_)));
        assert!(matches!(
            step(&by_token.replace("true", "false")),
            Step::Failed(_)
        ));
        let Step::Continue(first) = step("n,,n=a=2Cb=3Dc,r=abc,tokenauth=false") else {
            panic!("refused");
        };
        let first = String::from_utf8(first).unwrap();
        assert!(
            first.starts_with("r=abc") && first.ends_with(",i=4096"),
            "{first}"
        );
        let (Step::Continue(one), Step::Continue(two)) = (
            step("n,,n=a=2Cb=3Dc,r=abc"),
            step("n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=abc"),
        ) else {
            panic!("refused");
        };
        assert_ne!(one, two, "the server's nonce is new each time");
        for bad in [
            "",
            "n",
            "n,",
            "n,,",
            "y,,n=a,r=b",
            "p=tls-unique,,n=a,r=b",
            "n,,n=,r=b",
            "n,,n=a,r=",
            "n,,m=x,n=a,r=b",
            "n,,n=a=2,r=b",
            "n,,n=a=2c,r=b",
            "n,b,n=a,r=b",
            "n,a=root,n=a=2Cb=3Dc,r=b",
            "n,,n=nobody,r=b",
        ] {
            assert!(matches!(step(bad), Step::Failed(_)), "{bad}");
        }
    }
}
