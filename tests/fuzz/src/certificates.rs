//! Files and texts of certificates and keys, as users name them: key stores and trust stores in PKCS #12, certificates and keys in
//! PEM, encrypted ones with the right password and without one.

use std::fs;
use std::path::PathBuf;

use ottla_client::{Admin, Config, Role, Threads};

use crate::input::Input;

const PASSWORD: &str = "changeit";

macro_rules! samples {
    ($($name:literal)*) => {
        [$(&include_bytes!(concat!("../../../crates/client/src/net/transport/tls/samples/", $name))[..]),*]
    };
}

fn certificate() -> String {
    let [bytes] = samples!("certificate.pem");
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the bytes are given as in one byte: one of the first four kinds, with the password or not; then the bytes.
pub fn material(data: &[u8]) {
    let mut input = Input(data);
    let kind = input.u8();
    let bytes = with_few_rounds(input.0);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let certificate = certificate();
    let path = (kind % 4 < 2).then(|| kept(&bytes));
    let name = path.as_ref().and_then(|path| path.to_str()).unwrap_or("");
    let password = if kind / 4 % 2 == 0 { PASSWORD } else { "" };
    let mut pairs = vec![("bootstrap.servers", "b:1"), ("security.protocol", "SSL")];
    // Trust is named each time: what the system trusts takes long to read.
    pairs.extend(match kind % 4 {
        0 => vec![
            ("ssl.keystore.location", name),
            ("ssl.keystore.password", password),
            ("ssl.ca.pem", &certificate),
        ],
        1 => vec![
            ("ssl.truststore.location", name),
            ("ssl.truststore.password", password),
        ],
        2 => vec![
            ("ssl.certificate.pem", &*certificate),
            ("ssl.key.pem", &text),
            ("ssl.key.password", password),
            ("ssl.ca.pem", &certificate),
        ],
        _ => vec![("ssl.ca.pem", &*text)],
    });
    let Ok(config) = Config::parse(Role::Admin, pairs) else {
        return;
    };
    // Nothing runs on it: a client connects when it is used.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    if let Err(error) = Admin::new(config, &Threads::current(), None) {
        let said = format!("{error} {error:?}");
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

/// A file with these bytes, the same one each time.
fn kept(bytes: &[u8]) -> PathBuf {
    let name = format!("ottla-fuzz-{}.p12", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, bytes).expect("a file");
    path
}

/// The same bytes, where no number of more than two bytes is left that could make a key derivation take seconds: a file may ask for
/// millions of rounds.
fn with_few_rounds(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len() {
        if let Some([2, length @ 3..=4, rest @ ..]) = bytes.get_mut(at..) {
            let large = usize::from(*length) - 2;
            rest.iter_mut().take(large).for_each(|byte| *byte = 0);
        }
    }
    bytes
}

/// First inputs: one of each sample that the tests of the client read.
pub fn seeds() -> Vec<Vec<u8>> {
    let stores = samples!(
        "modern.p12" "legacy.p12" "java.p12" "open.p12" "trust-java.p12" "trust-openssl.p12" "java.jks" "certificate.pem"
    );
    let texts = samples!(
        "plain.pem" "sec1.pem" "pbes2-aes256.pem" "pbes2-aes128.pem" "pbes2-des3.pem" "pbe-sha1-3des.pem" "pbe-sha1-rc2.pem"
        "pbe-md5-des.pem" "scrypt.pem" "header-aes256.pem" "header-des3.pem" "certificate.pem"
    );
    let with = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    let stores = stores
        .iter()
        .flat_map(|bytes| [0, 1, 4, 5].map(|kind| with(kind, bytes)));
    let texts = texts
        .iter()
        .flat_map(|bytes| [2, 3, 6].map(|kind| with(kind, bytes)));
    stores.chain(texts).collect()
}
