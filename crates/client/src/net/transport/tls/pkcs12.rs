//! Reads PKCS #12 files (RFC 7292), as keytool and OpenSSL write them. Own code, since p12-keystore 0.4 stands on pre-releases
//! (cms, pkcs12), and knows no key with a password of its own, no store without one and no bound on iterations.

use super::der::{Element, Malformed, OCTETS, OID, Parts, SEQUENCE, SET, context, read};
use super::pbe::{Locked, check_mac, decrypt, decrypt_key};

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 6];
const BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1];
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 21];

/// A key or certificate of a file, and the id that links a key and its certificate.
pub(super) struct Item {
    pub(super) bytes: Vec<u8>,
    pub(super) key_id: Option<Vec<u8>>,
}

/// What a file holds.
#[derive(Default)]
pub(super) struct Contents {
    /// X.509 certificates.
    pub(super) certificates: Vec<Item>,
    /// Private keys, in PKCS #8.
    pub(super) keys: Vec<Item>,
}

/// Passwords of a file.
pub(super) struct Passwords<'a> {
    pub(super) store: &'a str,
    /// Of its private keys; `None` to pass them over.
    pub(super) keys: Option<&'a str>,
}

/// Reads a file.
///
/// # Errors
/// It is damaged, or not encrypted with these passwords.
pub(super) fn contents(file: &[u8], passwords: &Passwords<'_>) -> Result<Contents, Locked> {
    let mut file = read(file, SEQUENCE)?.parts();
    file.any()?;
    let mut authenticated = file.take(SEQUENCE)?.parts();
    // Signed files have another type here.
    if authenticated.take(OID)?.body != DATA {
        return Err(Locked::Scheme);
    }
    let authenticated = explicit(&mut authenticated, 0, OCTETS)?.body;
    if let Some(mac) = file.maybe(SEQUENCE)? {
        check_mac(mac, passwords.store, authenticated)?;
    }
    let mut contents = Contents::default();
    let mut parts = read(authenticated, SEQUENCE)?.parts();
    while let Some(part) = parts.any()? {
        let mut part = part.parts();
        match part.take(OID)?.body {
            DATA => contents.take(explicit(&mut part, 0, OCTETS)?.body, passwords)?,
            ENCRYPTED_DATA => {
                let mut data = explicit(&mut part, 0, SEQUENCE)?.parts();
                data.any()?;
                let mut data = data.take(SEQUENCE)?.parts();
                data.take(OID)?;
                let algorithm = data.take(SEQUENCE)?;
                let bytes = data.take(0x80)?.body;
                let bags = decrypt(algorithm, passwords.store, bytes)?;
                contents.take(&bags, passwords)?;
            }
            _ => return Err(Locked::Scheme),
        }
    }
    Ok(contents)
}

impl Contents {
    fn take(&mut self, bags: &[u8], passwords: &Passwords<'_>) -> Result<(), Locked> {
        let mut bags = read(bags, SEQUENCE)?.parts();
        while let Some(bag) = bags.any()? {
            let mut bag = bag.parts();
            let kind = bag.take(OID)?.body.strip_prefix(BAG);
            let value = bag.take(context(0))?;
            let key_id = key_id(bag)?;
            match (kind, passwords.keys) {
                (Some([1]), Some(_)) => {
                    let bytes = value.body.to_vec();
                    self.keys.push(Item { bytes, key_id });
                }
                (Some([2]), Some(password)) => {
                    let bytes = decrypt_key(value.body, password)?;
                    self.keys.push(Item { bytes, key_id });
                }
                (Some([3]), _) => {
                    let mut certificate = value.parts().take(SEQUENCE)?.parts();
                    if certificate.take(OID)?.body == X509 {
                        let bytes = explicit(&mut certificate, 0, OCTETS)?.body.to_vec();
                        self.certificates.push(Item { bytes, key_id });
                    }
                }
                // Lists of revoked certificates, secrets, bags in bags: not for this client.
                _ => {}
            }
        }
        Ok(())
    }
}

/// The attribute with the id that links a key and its certificate.
fn key_id(mut bag: Parts<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    let Some(attributes) = bag.maybe(SET)? else {
        return Ok(None);
    };
    let mut attributes = attributes.parts();
    while let Some(attribute) = attributes.any()? {
        let mut attribute = attribute.parts();
        if attribute.take(OID)?.body == LOCAL_KEY_ID {
            let id = attribute.take(SET)?.parts().take(OCTETS)?;
            return Ok(Some(id.body.to_vec()));
        }
    }
    Ok(None)
}

fn explicit<'a>(parts: &mut Parts<'a>, number: u8, tag: u8) -> Result<Element<'a>, Malformed> {
    parts.take(context(number))?.parts().take(tag)
}
