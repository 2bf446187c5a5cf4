//! Encryption by password, as keys and key stores have it: PBES2 of RFC 8018; the older schemes of PKCS #12 (RFC 7292,
//! appendices B and C); and OpenSSL's oldest, in the headers of a PEM section. Own code, since pkcs8 and pkcs5 read PBES2 alone:
//! keys that Java 8 and OpenSSL 1 wrote (3DES and RC2 of PKCS #12, DEK-Info) have no reader there. The ciphers are RustCrypto's.

use std::num::NonZeroU32;

use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipher, BlockDecryptMut, InnerIvInit, KeyInit};
use md5::{Digest, Md5};
use ring::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};
use ring::{hmac, pbkdf2};

use super::der::{Element, INTEGER, Malformed, OCTETS, OID, Parts, SEQUENCE, read};

/// Iterations above this are no honest setting: they would keep the client busy for minutes.
const MOST_ITERATIONS: u32 = 10_000_000;

/// Why something encrypted cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// The password is wrong.
    Wrong,
    /// The scheme is not supported.
    Scheme,
    /// The bytes are damaged.
    Malformed,
}

impl From<Malformed> for Locked {
    fn from(Malformed: Malformed) -> Locked {
        Locked::Malformed
    }
}

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2];
const AES: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1];
const DES3: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7];
const OF_PKCS12: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    Des3,
    /// With a key of this many bytes.
    Rc2(usize),
}

impl Cipher {
    fn key_length(self) -> usize {
        match self {
            Cipher::Aes128 => 16,
            Cipher::Aes192 | Cipher::Des3 => 24,
            Cipher::Aes256 => 32,
            Cipher::Rc2(length) => length,
        }
    }

    fn decrypt(self, key: &[u8], iv: &[u8], bytes: &[u8]) -> Result<Vec<u8>, Locked> {
        match self {
            Cipher::Aes128 => cbc_decrypt::<aes::Aes128>(key, iv, bytes),
            Cipher::Aes192 => cbc_decrypt::<aes::Aes192>(key, iv, bytes),
            Cipher::Aes256 => cbc_decrypt::<aes::Aes256>(key, iv, bytes),
            Cipher::Des3 => cbc_decrypt::<des::TdesEde3>(key, iv, bytes),
            Cipher::Rc2(_) => cbc_decrypt::<rc2::Rc2>(key, iv, bytes),
        }
    }
}

fn cbc_decrypt<C>(key: &[u8], iv: &[u8], bytes: &[u8]) -> Result<Vec<u8>, Locked>
where
    C: BlockDecryptMut + BlockCipher + KeyInit,
{
    let cipher = C::new_from_slice(key).map_err(|_| Locked::Malformed)?;
    let cipher = Decryptor::inner_iv_slice_init(cipher, iv).map_err(|_| Locked::Malformed)?;
    cipher
        .decrypt_padded_vec_mut::<Pkcs7>(bytes)
        .map_err(|_| Locked::Wrong)
}

/// Decrypts data with the algorithm of an `AlgorithmIdentifier`.
pub(super) fn decrypt(
    algorithm: Element<'_>,
    password: &str,
    bytes: &[u8],
) -> Result<Vec<u8>, Locked> {
    let mut parts = algorithm.parts();
    let oid = parts.take(OID)?.body;
    let parameters = parts.take(SEQUENCE)?;
    if oid == PBES2 {
        return pbes2(parameters, password, bytes);
    }
    let cipher = match oid.strip_prefix(OF_PKCS12) {
        Some([3]) => Cipher::Des3,
        Some([5]) => Cipher::Rc2(16),
        Some([6]) => Cipher::Rc2(5),
        _ => return Err(Locked::Scheme),
    };
    let mut parts = parameters.parts();
    let salt = parts.take(OCTETS)?.body;
    let rounds = parts.take(INTEGER)?.number()?;
    let password = big_endian(password);
    let derive = |purpose, length| {
        pkcs12_derive(
            &SHA1_FOR_LEGACY_USE_ONLY,
            purpose,
            &password,
            salt,
            rounds,
            length,
        )
    };
    let key = derive(Purpose::Key, cipher.key_length())?;
    cipher.decrypt(&key, &derive(Purpose::Iv, 8)?, bytes)
}

fn pbes2(parameters: Element<'_>, password: &str, bytes: &[u8]) -> Result<Vec<u8>, Locked> {
    let mut parts = parameters.parts();
    let mut derivation = parts.take(SEQUENCE)?.parts();
    let mut encryption = parts.take(SEQUENCE)?.parts();
    let cipher = match encryption.take(OID)?.body {
        DES3 => Cipher::Des3,
        oid => match oid.strip_prefix(AES) {
            Some([2]) => Cipher::Aes128,
            Some([22]) => Cipher::Aes192,
            Some([42]) => Cipher::Aes256,
            _ => return Err(Locked::Scheme),
        },
    };
    let iv = encryption.take(OCTETS)?.body;
    if derivation.take(OID)?.body != PBKDF2 {
        return Err(Locked::Scheme);
    }
    let mut derivation = derivation.take(SEQUENCE)?.parts();
    let salt = derivation.take(OCTETS)?.body;
    let rounds = derivation.take(INTEGER)?.number()?;
    derivation.maybe(INTEGER)?;
    let algorithm = match derivation.maybe(SEQUENCE)? {
        None => pbkdf2::PBKDF2_HMAC_SHA1,
        Some(function) => match function.parts().take(OID)?.body.strip_prefix(HMAC) {
            Some([7]) => pbkdf2::PBKDF2_HMAC_SHA1,
            Some([9]) => pbkdf2::PBKDF2_HMAC_SHA256,
            Some([10]) => pbkdf2::PBKDF2_HMAC_SHA384,
            Some([11]) => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(Locked::Scheme),
        },
    };
    let rounds = NonZeroU32::new(rounds)
        .filter(|rounds| rounds.get() <= MOST_ITERATIONS)
        .ok_or(Locked::Malformed)?;
    let mut key = vec![0; cipher.key_length()];
    pbkdf2::derive(algorithm, rounds, salt, password.as_bytes(), &mut key);
    cipher.decrypt(&key, iv, bytes)
}

/// Decrypts a PEM section by its header `DEK-Info`.
pub(super) fn decrypt_by_header(
    header: &str,
    password: &str,
    bytes: &[u8],
) -> Result<Vec<u8>, Locked> {
    let (name, iv) = header.split_once(',').ok_or(Locked::Malformed)?;
    let cipher = match name.trim() {
        "AES-128-CBC" => Cipher::Aes128,
        "AES-192-CBC" => Cipher::Aes192,
        "AES-256-CBC" => Cipher::Aes256,
        "DES-EDE3-CBC" => Cipher::Des3,
        _ => return Err(Locked::Scheme),
    };
    let iv = unhex(iv.trim()).ok_or(Locked::Malformed)?;
    let salt = iv.get(..8).ok_or(Locked::Malformed)?;
    let (mut key, mut last) = (Vec::new(), Vec::new());
    while key.len() < cipher.key_length() {
        let mut hash = Md5::new();
        hash.update(&last);
        hash.update(password.as_bytes());
        hash.update(salt);
        last = hash.finalize().to_vec();
        key.extend(&last);
    }
    key.truncate(cipher.key_length());
    let plain = cipher.decrypt(&key, &iv, bytes)?;
    // One wrong password of 256 leaves a padding that looks right.
    read(&plain, SEQUENCE).map_err(|_| Locked::Wrong)?;
    Ok(plain)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    let pairs = digits.chunks_exact(2);
    Some(
        pairs
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

/// Checks the code that a PKCS #12 file has over its contents: `mac` is its `MacData`.
pub(super) fn check_mac(mac: Element<'_>, password: &str, contents: &[u8]) -> Result<(), Locked> {
    let mut parts = mac.parts();
    let mut digest_info = parts.take(SEQUENCE)?.parts();
    let salt = parts.take(OCTETS)?.body;
    let rounds = parts
        .maybe(INTEGER)?
        .map_or(Ok(1), |rounds| rounds.number())?;
    let oid = digest_info.take(SEQUENCE)?.parts().take(OID)?.body;
    let expected = digest_info.take(OCTETS)?.body;
    let (hash, code) = match oid {
        [0x2b, 0x0e, 3, 2, 26] => (
            &SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        ),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1] => (&SHA256, hmac::HMAC_SHA256),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2] => (&SHA384, hmac::HMAC_SHA384),
        [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3] => (&SHA512, hmac::HMAC_SHA512),
        _ => return Err(Locked::Scheme),
    };
    let password = big_endian(password);
    let key = pkcs12_derive(
        hash,
        Purpose::Mac,
        &password,
        salt,
        rounds,
        hash.output_len(),
    )?;
    hmac::verify(&hmac::Key::new(code, &key), contents, expected).map_err(|_| Locked::Wrong)
}

/// A password in UTF-16 with a 0 at its end.
fn big_endian(password: &str) -> Vec<u8> {
    let units = password.encode_utf16().chain([0]);
    units.flat_map(u16::to_be_bytes).collect()
}

#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// The derivation of RFC 7292, appendix B.2.
fn pkcs12_derive(
    hash: &'static digest::Algorithm,
    purpose: Purpose,
    password: &[u8],
    salt: &[u8],
    rounds: u32,
    length: usize,
) -> Result<Vec<u8>, Locked> {
    if rounds == 0 || rounds > MOST_ITERATIONS {
        return Err(Locked::Malformed);
    }
    let block = hash.block_len();
    let filled = |bytes: &[u8]| -> Vec<u8> {
        let length = bytes.len().next_multiple_of(block);
        bytes.iter().copied().cycle().take(length).collect()
    };
    let mut input = filled(salt);
    input.extend(filled(password));
    let mut derived = Vec::new();
    while derived.len() < length {
        let mut context = digest::Context::new(hash);
        context.update(&vec![purpose as u8; block]);
        context.update(&input);
        let mut output = context.finish();
        for _ in 1..rounds {
            output = digest::digest(hash, output.as_ref());
        }
        derived.extend(output.as_ref());
        let step: Vec<u8> = output
            .as_ref()
            .iter()
            .copied()
            .cycle()
            .take(block)
            .collect();
        for chunk in input.chunks_exact_mut(block) {
            let mut carry = 1_u16;
            for (byte, added) in chunk.iter_mut().zip(&step).rev() {
                let sum = u16::from(*byte) + u16::from(*added) + carry;
                let [high, low] = sum.to_be_bytes();
                *byte = low;
                carry = u16::from(high);
            }
        }
    }
    derived.truncate(length);
    Ok(derived)
}

/// Decrypts an `EncryptedPrivateKeyInfo` (PKCS #8).
pub(super) fn decrypt_key(encrypted: &[u8], password: &str) -> Result<Vec<u8>, Locked> {
    let mut parts = read(encrypted, SEQUENCE)?.parts();
    let algorithm = parts.take(SEQUENCE)?;
    let bytes = parts.take(OCTETS)?.body;
    let key = decrypt(algorithm, password, bytes)?;
    let is_key = |key: &[u8]| -> Result<(), Malformed> {
        Parts(key).take(SEQUENCE)?.parts().take(INTEGER).map(drop)
    };
    is_key(&key).map_err(|_| Locked::Wrong)?;
    Ok(key)
}
