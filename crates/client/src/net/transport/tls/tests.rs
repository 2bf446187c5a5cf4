//! Handshakes with a server of rustls, with certificates that are made on the spot; keys and key stores that OpenSSL and
//! keytool wrote (samples/make.sh).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ottla_engine::Role;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::net::transport::stream::broken;

const LIMIT: Duration = Duration::from_secs(20);

fn config(pairs: &[(&str, &str)]) -> Arc<Config> {
    let first = [
        ("bootstrap.servers", "localhost:9092"),
        ("security.protocol", "SSL"),
    ];
    let pairs = first.into_iter().chain(pairs.iter().copied());
    Arc::new(Config::parse(Role::Admin, pairs).unwrap())
}

fn refusal(pairs: &[(&str, &str)]) -> String {
    let error = Tls::new(&config(pairs)).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    error.to_string()
}

fn sample(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/transport/tls/samples");
    folder.join(name).to_str().unwrap().to_owned()
}

// --- certificates

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

struct Leaf {
    der: CertificateDer<'static>,
    pem: String,
    key: KeyPair,
}

impl Leaf {
    fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Authority { issuer, pem }
}

impl Authority {
    fn leaf(&self, names: &[&str]) -> Leaf {
        self.leaf_until(names, 2100)
    }

    fn leaf_until(&self, names: &[&str], year: i32) -> Leaf {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            der: made.der().clone(),
            pem: made.pem(),
            key,
        }
    }
}

// --- a server

/// What a server does after the handshake: it echoes this many bytes, and reports how the
/// connection ended.
struct Served {
    address: std::net::SocketAddr,
    ended: tokio::task::JoinHandle<io::Result<()>>,
}

async fn serve(config: ServerConfig, echoes: usize) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(config);
    let ended = tokio::spawn(async move {
        let (socket, _) = listener.accept().await?;
        // In a thread of its own, with rustls' simple stream.
        let socket = socket.into_std()?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(LIMIT))?;
        let work = move || -> io::Result<()> {
            use std::io::{Read, Write};
            let tls = ServerConnection::new(config).map_err(io::Error::other)?;
            let mut stream = rustls::StreamOwned::new(tls, socket);
            let mut left = echoes;
            let mut buffer = vec![0; 1 << 16];
            while left > 0 {
                let count = stream.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                stream.write_all(&buffer[..count])?;
                left = left.saturating_sub(count);
            }
            // The end without close_notify is an error of its own.
            stream.read(&mut buffer).map(drop)
        };
        tokio::task::spawn_blocking(work).await.unwrap()
    });
    Served { address, ended }
}

fn server(
    leaf: &Leaf,
    clients: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .unwrap();
    let builder = match clients {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            let pem = pem::sections(&authority.pem).unwrap().remove(0);
            roots.add(CertificateDer::from(pem.bytes)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    builder
        .with_single_cert(vec![leaf.der.clone()], leaf.key_der())
        .unwrap()
}

async fn connect(
    tls: &Tls,
    host: &str,
    address: std::net::SocketAddr,
) -> Result<(TlsReader, TlsWriter), Error> {
    let (reader, writer) = TcpStream::connect(address).await.unwrap().into_split();
    tokio::time::timeout(LIMIT, tls.shake(host, reader, writer))
        .await
        .unwrap()
}

/// Connects, sends a byte and reads it back: with TLS 1.3 a client's certificate is judged after the handshake.
async fn talk(
    pairs: &[(&str, &str)],
    host: &str,
    config_of_server: ServerConfig,
) -> Result<(), Error> {
    let served = serve(config_of_server, 1).await;
    let tls = Tls::new(&config(pairs)).unwrap().unwrap();
    let (mut reader, mut writer) = connect(&tls, host, served.address).await?;
    let talk = async {
        let written = async {
            let _ = writer.write_all(b"x").await;
            std::future::pending::<()>().await;
        };
        let mut byte = [0];
        tokio::select! {
            () = written => unreachable!(),
            read = reader.read_exact(&mut byte) => read,
        }
    };
    let read = tokio::time::timeout(LIMIT, talk).await.unwrap();
    read.map(drop).map_err(|cause| broken(&cause))
}

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_both_ways_and_the_end_is_said() {
    let authority = authority("a");
    let leaf = authority.leaf(&["localhost", "127.0.0.1"]);
    for (host, versions, suites) in [
        ("localhost", &[&TLS13][..], "TLS_AES_128_GCM_SHA256"),
        ("127.0.0.1", &[&TLS12][..], "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ] {
        let count = 3_000_000;
        let served = serve(server(&leaf, None, versions), count).await;
        let pairs = [
            ("ssl.ca.pem", &*authority.pem),
            ("ssl.cipher.suites", suites),
        ];
        let tls = Tls::new(&config(&pairs)).unwrap().unwrap();
        let (mut reader, mut writer) = connect(&tls, host, served.address).await.unwrap();
        let sent: Vec<u8> = (0..count).map(|at| (at * 7 / 5) as u8).collect();
        let bytes = sent.clone();
        let writing = tokio::spawn(async move {
            // In pieces, so that records end anywhere.
            for piece in bytes.chunks(100_001) {
                writer.write_all(piece).await.unwrap();
            }
            writer
        });
        let mut received = vec![0; count];
        let read = tokio::time::timeout(LIMIT, reader.read_exact(&mut received));
        read.await.unwrap().unwrap();
        assert!(sent == received, "{host}");
        drop((writing.await.unwrap(), reader));
        served.ended.await.unwrap().unwrap();
    }
}

/// Rule: 2.4.15.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_must_be_who_it_should_be() {
    let (trusted, other) = (authority("a"), authority("b"));
    let good = trusted.leaf(&["localhost", "127.0.0.1", "*.some.example"]);
    let ca = [("ssl.ca.pem", &*trusted.pem)];
    for host in ["localhost", "127.0.0.1", "x.some.example"] {
        talk(&ca, host, server(&good, None, BOTH)).await.unwrap();
    }
    for (leaf, host, said) in [
        (
            &other.leaf(&["localhost"]),
            "localhost",
            "an authority that is not trusted (those of ssl.ca.pem are)",
        ),
        (
            &trusted.leaf_until(&["localhost"], 2001),
            "localhost",
            "has expired, on 2001-01-01 00:00:00 UTC",
        ),
        (
            &good,
            "other.test",
            "is not for other.test but for localhost, 127.0.0.1, *.some.example",
        ),
        (
            &good,
            "127.0.0.2",
            "is not for 127.0.0.2 but for localhost, 127.0.0.1",
        ),
        (
            &trusted.leaf(&[]),
            "localhost",
            "it has no subject alternative names",
        ),
    ] {
        let error = talk(&ca, host, server(leaf, None, BOTH)).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Authentication, "{error}");
        assert!(!error.is_retriable() && error.is_final());
        assert!(error.message().contains(said), "{error}");
    }
    let unchecked = [ca[0], ("ssl.endpoint.identification.algorithm", "")];
    talk(&unchecked, "other.test", server(&good, None, BOTH))
        .await
        .unwrap();
    let bad = other.leaf(&["localhost"]);
    assert!(
        talk(&unchecked, "localhost", server(&bad, None, BOTH))
            .await
            .is_err()
    );
    let blind = [("enable.ssl.certificate.verification", "false")];
    talk(&blind, "localhost", server(&bad, None, BOTH))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_may_be_trusted_itself() {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    // As `openssl req -x509` makes them.
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    let leaf = Leaf {
        der: made.der().clone(),
        pem: made.pem(),
        key,
    };
    let ca = [("ssl.truststore.certificates", &*leaf.pem)];
    talk(&ca, "localhost", server(&leaf, None, BOTH))
        .await
        .unwrap();
    let error = talk(&ca, "other", server(&leaf, None, BOTH))
        .await
        .unwrap_err();
    assert!(error.message().contains("not for other"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_must_be_who_it_should_be() {
    let (trusted, other) = (authority("a"), authority("b"));
    let broker = trusted.leaf(&["localhost"]);
    let (good, bad) = (trusted.leaf(&["me"]), other.leaf(&["me"]));
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let accepts = || server(&broker, Some(&trusted), versions);
        let ca = ("ssl.ca.pem", &*trusted.pem);
        let (good_key, bad_key) = (good.key.serialize_pem(), bad.key.serialize_pem());
        let shown = [
            ca,
            ("ssl.certificate.pem", &*good.pem),
            ("ssl.key.pem", &*good_key),
        ];
        talk(&shown, "localhost", accepts()).await.unwrap();
        let java = [
            ca,
            ("ssl.keystore.certificate.chain", &*good.pem),
            ("ssl.keystore.key", &*good_key),
        ];
        talk(&java, "localhost", accepts()).await.unwrap();
        let error = talk(&[ca], "localhost", accepts()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Authentication, "{error}");
        assert!(
            error.message().contains("requires a client certificate"),
            "{error}"
        );
        let shown = [
            ca,
            ("ssl.certificate.pem", &*bad.pem),
            ("ssl.key.pem", &*bad_key),
        ];
        let error = talk(&shown, "localhost", accepts()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Authentication, "{error}");
        assert!(
            error
                .message()
                .contains("does not accept this client's certificate"),
            "{error}"
        );
    }
}

/// Rule: 2.4.15.
#[tokio::test(flavor = "multi_thread")]
async fn versions_must_agree() {
    let authority = authority("a");
    let leaf = authority.leaf(&["localhost"]);
    let ca = ("ssl.ca.pem", &*authority.pem);
    for (versions, wanted) in [(&[&TLS12][..], "TLSv1.3"), (&[&TLS13], "TLSv1.2")] {
        let pairs = [ca, ("ssl.enabled.protocols", wanted)];
        let error = talk(&pairs, "localhost", server(&leaf, None, versions))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Authentication);
        let said = format!("the broker does not speak {wanted}: see ssl.enabled.protocols");
        assert!(error.message().starts_with(&said), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_tls_is_told_apart() {
    for (answer, kind, said) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            Kind::NotKafka,
            "in HTTP",
        ),
        (b"SSH-2.0-x\r\n", Kind::NotKafka, "\"SSH-2.0-x"),
        (b"\0\0\0\x0a", Kind::NotKafka, "PLAINTEXT"),
        (b"", Kind::Unreachable, "PLAINTEXT"),
        (b"\x16\x03\x03\0\x01", Kind::Unreachable, "in the middle"),
        (
            b"\x15\x03\x01\0\x02\x02\x28",
            Kind::Authentication,
            "HandshakeFailure",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_exact(&mut [0; 5]).await.unwrap();
            let _ = socket.write_all(answer).await;
        });
        let blind = [("enable.ssl.certificate.verification", "false")];
        let tls = Tls::new(&config(&blind)).unwrap().unwrap();
        let error = connect(&tls, "localhost", address).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(said), "{error}");
        server.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_files_are_read_again_and_broken_ones_are_not_used() {
    let folder = std::env::temp_dir().join(format!("ottla-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file: PathBuf = folder.join("ca.pem");
    let path = file.to_str().unwrap().to_owned();
    let (first, second) = (authority("first"), authority("a second one"));
    let (old, new) = (first.leaf(&["localhost"]), second.leaf(&["localhost"]));
    std::fs::write(&file, &first.pem).unwrap();
    let tls = Tls::new(&config(&[("ssl.ca.location", &path)]))
        .unwrap()
        .unwrap();
    let accepts = async |leaf: &Leaf| {
        let served = serve(server(leaf, None, BOTH), 0).await;
        connect(&tls, "localhost", served.address).await.is_ok()
    };
    tls.refresh().await.unwrap();
    assert!(accepts(&old).await && !accepts(&new).await);
    std::fs::write(&file, "broken").unwrap();
    let error = tls.refresh().await.unwrap_err();
    assert!(error.message().contains(&path), "{error}");
    tls.refresh().await.unwrap();
    assert!(accepts(&old).await, "the earlier ones are kept");
    std::fs::write(&file, format!("{}\n", second.pem)).unwrap();
    tls.refresh().await.unwrap();
    assert!(!accepts(&old).await && accepts(&new).await);
    std::fs::remove_file(&file).unwrap();
    let error = tls.refresh().await.unwrap_err();
    assert!(error.message().contains("cannot be read"), "{error}");
    assert!(accepts(&new).await);
    std::fs::remove_dir_all(&folder).unwrap();
}

// --- keys and key stores

#[test]
fn keys_of_every_usual_form_are_read() {
    let certificate = sample("certificate.pem");
    for (name, password) in [
        ("plain.pem", None),
        ("sec1.pem", None),
        ("pbes2-aes256.pem", Some("changeit")),
        ("pbes2-aes128.pem", Some("changeit")),
        ("pbes2-des3.pem", Some("changeit")),
        ("pbe-sha1-3des.pem", Some("changeit")),
        ("pbe-sha1-rc2.pem", Some("changeit")),
        ("header-aes256.pem", Some("changeit")),
        ("header-des3.pem", Some("changeit")),
    ] {
        let key = sample(name);
        let mut pairs = vec![
            ("ssl.certificate.location", &*certificate),
            ("ssl.key.location", &*key),
            ("enable.ssl.certificate.verification", "false"),
        ];
        pairs.extend(password.map(|password| ("ssl.key.password", password)));
        // rustls holds the key against the certificate.
        Tls::new(&config(&pairs)).unwrap();
        if password.is_some() {
            pairs.pop();
            let said = refusal(&pairs);
            assert!(
                said.contains("is encrypted, and ssl.key.password is not given"),
                "{said}"
            );
            pairs.push(("ssl.key.password", "wrong"));
            let said = refusal(&pairs);
            assert!(
                said.contains("the password in ssl.key.password is wrong"),
                "{said}"
            );
            assert!(said.contains(&key) && !said.contains("changeit"), "{said}");
        }
    }
}

#[test]
fn key_stores_and_trust_stores_of_openssl_and_java_are_read() {
    for (name, password) in [
        ("modern.p12", "changeit"),
        ("legacy.p12", "changeit"),
        ("java.p12", "changeit"),
        ("open.p12", ""),
    ] {
        let store = sample(name);
        let pairs = |password| {
            [
                ("ssl.keystore.location", &*store),
                ("ssl.keystore.password", password),
                ("ssl.keystore.type", "PKCS12"),
                ("enable.ssl.certificate.verification", "false"),
            ]
        };
        Tls::new(&config(&pairs(password))).unwrap();
        if !password.is_empty() {
            let said = refusal(&pairs("wrong"));
            assert!(
                said.contains("the password in ssl.keystore.password is wrong"),
                "{said}"
            );
            let said = refusal(&pairs(""));
            assert!(
                said.contains("ssl.keystore.password is not given"),
                "{said}"
            );
        }
    }
    for (name, password) in [
        ("trust-openssl.p12", "changeit"),
        ("trust-java.p12", "changeit"),
        ("certificate.pem", ""),
        ("modern.p12", "changeit"),
    ] {
        let store = sample(name);
        let pairs = [
            ("ssl.truststore.location", &*store),
            ("ssl.truststore.password", password),
        ];
        let Trust::Named(_, found) = load(&config(&pairs)).unwrap().trust else {
            panic!("{name} was not read")
        };
        let text = std::fs::read_to_string(sample("certificate.pem")).unwrap();
        let wanted = pem::sections(&text).unwrap().remove(0).bytes;
        assert_eq!(found[0].as_ref(), wanted, "{name}");
    }
}

/// Rule: 2.4.15.
#[test]
fn what_cannot_be_used_is_said_with_what_to_do() {
    let (jks, p12, key) = (
        sample("java.jks"),
        sample("modern.p12"),
        sample("plain.pem"),
    );
    let (scrypt, md5) = (sample("scrypt.pem"), sample("pbe-md5-des.pem"));
    let certificate = sample("certificate.pem");
    let with_key = |key| {
        [
            ("ssl.certificate.location", &*certificate),
            ("ssl.key.location", key),
            ("ssl.key.password", "changeit"),
        ]
    };
    let said = refusal(&[("ssl.keystore.location", &jks)]);
    let command = format!(
        "keytool -importkeystore -srckeystore {jks} -destkeystore {} -deststoretype PKCS12",
        jks.replace(".jks", ".p12")
    );
    assert!(said.ends_with(&command), "{said}");
    assert!(refusal(&[("ssl.truststore.location", &jks)]).ends_with(&command));
    for (pairs, wanted) in [
        (
            &[("ssl.ca.location", "/nowhere/ca.pem")][..],
            "ssl.ca.location: /nowhere/ca.pem cannot be read",
        ),
        (&[("ssl.ca.location", &key)], "no certificate in it"),
        (
            &[(
                "ssl.ca.pem",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            )],
            "certificate 1 is damaged",
        ),
        (&with_key(&scrypt), "not supported; write it anew"),
        (&with_key(&md5), "not supported; write it anew"),
        (&with_key(&certificate), "holds no private key"),
        (&with_key(&p12), "is not PEM"),
        (&[("ssl.keystore.location", &key)], "no certificate in it"),
        (
            &[("ssl.cipher.suites", "TLS_RSA_WITH_AES_128_CBC_SHA")],
            "these are: TLS_AES_256_GCM_SHA384",
        ),
    ] {
        let said = refusal(pairs);
        assert!(said.contains(wanted), "{said}");
    }
    let other = KeyPair::generate().unwrap().serialize_pem();
    let pairs = [
        ("ssl.certificate.location", &*certificate),
        ("ssl.key.pem", &*other),
    ];
    assert!(refusal(&pairs).contains("the key does not belong to the certificate"));
}

#[test]
fn damaged_stores_are_errors_and_never_more() {
    use super::pkcs12::{Passwords, contents};
    for name in ["modern.p12", "legacy.p12", "java.p12", "trust-java.p12"] {
        let store = std::fs::read(sample(name)).unwrap();
        let passwords = Passwords {
            store: "changeit",
            keys: Some("changeit"),
        };
        assert!(contents(&store, &passwords).is_ok());
        for at in (0..store.len()).step_by(7) {
            assert!(
                contents(&store[..at], &passwords).is_err(),
                "{name} cut at {at}"
            );
        }
    }
    // Nothing protects this one, so that damage reaches every step.
    let open = std::fs::read(sample("open.p12")).unwrap();
    let passwords = Passwords {
        store: "",
        keys: Some(""),
    };
    for at in 0..open.len() {
        for flip in [0x01, 0x55, 0x80, 0xff] {
            let mut damaged = open.clone();
            damaged[at] ^= flip;
            if let Ok(found) = contents(&damaged, &passwords) {
                let _ = material::chosen(found);
            }
        }
    }
}
