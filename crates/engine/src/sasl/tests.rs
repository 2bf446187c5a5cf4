//! Published vectors, and brokers that do not keep to them.

use bytes::Bytes;

use super::gssapi::Gssapi;
use super::hash::Hash;
use super::login::{Login, Named};
use super::msk_iam::MskIam;
use super::oauthbearer::OauthBearer;
use super::plain::Plain;
use super::scram::Scram;
use super::*;
use crate::config::{Config, Role, Secret};
use crate::credentials::{Question, Reply};

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";

fn sent(step: Step) -> String {
    match step {
        Step::Send(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// An exchange up to the client's last message.
fn proven(scram: &mut Scram, server_first: &str) -> Result<String, Error> {
    scram.begin()?;
    scram.first(NONCE);
    match scram.step(Bytes::copy_from_slice(server_first.as_bytes()))? {
        Step::Need(Need::Stretch(stretch)) => Ok(sent(scram.take(stretch.run())?)),
        other => panic!("{other:?}"),
    }
}

/// RFC 4616, section 4.
#[test]
fn plain_is_that_of_rfc_4616() {
    let mut plain = Plain::new("tim", &Secret::new("tanstaaftanstaaf")).unwrap();
    assert_eq!(sent(plain.begin().unwrap()), "\0tim\0tanstaaftanstaaf");
    assert_eq!(plain.step(Bytes::new()).unwrap(), Step::Done);
    assert!(plain.step(Bytes::from_static(b"more")).is_err());
    for (user, password) in [("a\0b", "p"), ("a", "p\0q")] {
        let error = Plain::new(user, &Secret::new(password)).unwrap_err();
        assert!(error.message().contains("NUL"), "{error}");
    }
}

/// RFC 7677, section 3; the others were computed by Python's hashlib.
#[test]
fn scram_is_that_of_rfc_7677() {
    for (hash, user, password, token, first, server_first, last, proof) in [
        (
            Hash::Sha256,
            "user",
            "pencil",
            false,
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
        (
            Hash::Sha512,
            "user",
            "pencil",
            false,
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,p=Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja\
             +Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A==",
            "v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw==",
        ),
        (
            Hash::Sha256,
            "a=,b",
            "Pässwörd",
            true,
            "n,,n=a=3D=2Cb,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true",
            "r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=5000",
            "c=biws,r=rOprNGfwEbeRWgbNEkqOx,p=fTqcUKAmR1O/OPgL8VYOgH+4xSWNqLO7XwQ/qmYmmro=",
            "v=cZjJzJdJ7ZBa8X1eu8XOhqV5Lb6mQwywcZ5aK1RQvLI=",
        ),
    ] {
        let mut scram = Scram::new(hash, user, &Secret::new(password), token);
        scram.begin().unwrap();
        assert_eq!(sent(scram.first(NONCE)), first);
        assert_eq!(proven(&mut scram, server_first).unwrap(), last);
        let proof = Bytes::copy_from_slice(proof.as_bytes());
        assert_eq!(scram.step(proof).unwrap(), Step::Done);
    }
}

/// What a broker may say in SCRAM, and what not.
/// Rule: CVE-2024-56128, 2.4.14.
#[test]
fn scram_refuses_what_a_hostile_broker_says_first() {
    let salt = "s=W22ZaJ0SNY7soEsUEjb6gQ==";
    for (said, wanted) in [
        (format!("r={NONCE},{salt},i=4096"), "does not continue"),
        (format!("r=other,{salt},i=4096"), "does not continue"),
        (format!("r={NONCE}x,{salt},i=4095"), "4096 to 1000000"),
        (format!("r={NONCE}x,{salt},i=1000001"), "4096 to 1000000"),
        (format!("r={NONCE}x,{salt},i=-4096"), "4096 to 1000000"),
        (format!("r={NONCE}x,{salt},i=+4096"), "4096 to 1000000"),
        (
            format!("r={NONCE}x,{salt},i=99999999999"),
            "4096 to 1000000",
        ),
        (format!("r={NONCE}x,{salt},i="), "4096 to 1000000"),
        (format!("r={NONCE}x,s=,i=4096"), "no salt"),
        (format!("r={NONCE}x,s=%%,i=4096"), "no salt"),
        (format!("r={NONCE}\u{e9},{salt},i=4096"), "printable"),
        (format!("r={NONCE}x,{salt}"), "is not r="),
        (format!("m=x,r={NONCE}x,{salt},i=4096"), "extension"),
        (
            "e=unknown-user\u{1b}[31m".to_owned(),
            "refused the SCRAM exchange: unknown-user [",
        ),
        (String::new(), "is not r="),
        ("x".repeat(5000), "5000 bytes"),
    ] {
        let mut scram = Scram::new(Hash::Sha256, "user", &Secret::new("pencil"), false);
        let error = proven(&mut scram, &said).unwrap_err();
        assert!(error.message().contains(wanted), "{said}: {error}");
        assert_eq!(error.kind(), Kind::Authentication);
    }
    let mut scram = Scram::new(Hash::Sha256, "user", &Secret::new("pencil"), false);
    scram.begin().unwrap();
    scram.first(NONCE);
    assert!(scram.step(Bytes::from_static(&[0xff, 0xfe])).is_err());
}

/// Rule: 2.4.14.
#[test]
fn scram_refuses_a_broker_that_cannot_prove_itself() {
    for (said, wanted) in [
        ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "base64"),
        (
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G8=",
            "signature is wrong",
        ),
        ("v=", "signature is wrong"),
        ("v=6rriTRBi", "signature is wrong"),
        ("e=invalid-proof", "invalid-proof"),
        ("", "no signature"),
    ] {
        let mut scram = Scram::new(Hash::Sha256, "user", &Secret::new("pencil"), false);
        let first =
            format!("r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        proven(&mut scram, &first).unwrap();
        let error = scram.step(Bytes::from_static(said.as_bytes())).unwrap_err();
        assert!(error.message().contains(wanted), "{said}: {error}");
        assert!(scram.step(Bytes::from_static(b"v=again")).is_err());
    }
}

#[test]
fn each_nonce_is_the_one_that_was_given() {
    let mut scram = Scram::new(Hash::Sha512, "u", &Secret::new("p"), false);
    assert_eq!(scram.begin().unwrap(), Step::Need(Need::Nonce));
    let first = sent(scram.take(Given::Nonce([7; 24])).unwrap());
    assert_eq!(first, "n,,n=u,r=BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH");
    assert!(scram.take(Given::Nonce([7; 24])).is_err(), "out of turn");
}

fn reply(bytes: &[u8]) -> Given {
    Given::Reply(Reply {
        bytes: bytes.to_vec(),
        ..Default::default()
    })
}

/// RFC 7628, sections 3.1 and 3.2.3.
#[test]
fn oauthbearer_sends_a_token_and_confirms_an_error() {
    let mut oauth = OauthBearer::default();
    assert_eq!(
        oauth.begin().unwrap(),
        Step::Need(Need::Outside(Question::Token))
    );
    let given = Reply {
        bytes: b"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==".to_vec(),
        extensions: vec![("traceId".to_owned(), "1 2".to_owned())],
        ..Default::default()
    };
    assert_eq!(
        sent(oauth.take(Given::Reply(given)).unwrap()),
        "n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01traceId=1 2\x01\x01"
    );
    let refusal = Bytes::from_static(b"{\"status\":\"invalid_token\"}");
    assert_eq!(sent(oauth.step(refusal).unwrap()), "\x01");
    let error = oauth.step(Bytes::new()).unwrap_err();
    assert!(error.message().contains("invalid_token"), "{error}");
    oauth.begin().unwrap();
    oauth.take(reply(b"t")).unwrap();
    assert_eq!(oauth.step(Bytes::new()).unwrap(), Step::Done);
}

#[test]
fn a_token_that_would_end_its_message_is_refused() {
    let with = |bytes: &[u8], name: &str, value: &str| {
        let mut oauth = OauthBearer::default();
        oauth.begin().unwrap();
        oauth.take(Given::Reply(Reply {
            bytes: bytes.to_vec(),
            extensions: vec![(name.to_owned(), value.to_owned())],
            ..Default::default()
        }))
    };
    assert!(with(b"t", "a", "b").is_ok());
    for (bytes, name, value) in [
        (&b""[..], "a", "b"),
        (b"a b", "a", "b"),
        (b"a\x01b", "a", "b"),
        (b"\xff", "a", "b"),
        (&[b'x'; 300 << 10], "a", "b"),
        (b"t", "auth", "b"),
        (b"t", "", "b"),
        (b"t", "a1", "b"),
        (b"t", "a", "b\x01c"),
        (b"t", "a", "\u{e9}"),
    ] {
        assert!(with(bytes, name, value).is_err(), "{name} {value:?}");
    }
}

#[test]
fn aws_msk_iam_sends_the_document_and_wants_it_confirmed() {
    let mut iam = MskIam::default();
    assert_eq!(
        iam.begin().unwrap(),
        Step::Need(Need::Outside(Question::Payload))
    );
    assert_eq!(sent(iam.take(reply(b"{}")).unwrap()), "{}");
    assert!(iam.step(Bytes::new()).is_err());
    iam.begin().unwrap();
    iam.take(reply(b"{}")).unwrap();
    let confirmed = Bytes::from_static(b"{\"version\":\"2020_10_22\"}");
    assert_eq!(iam.step(confirmed).unwrap(), Step::Done);
}

#[test]
fn a_login_is_asked_for_by_each_authentication() {
    let mut login = Login::new(Named::Plain);
    assert_eq!(login.name(), "PLAIN");
    assert_eq!(login.user(), None);
    assert!(login.step(Bytes::new()).is_err(), "nothing was begun");
    for (user, password) in [("alice", "old"), ("bob", "new")] {
        assert_eq!(
            login.begin().unwrap(),
            Step::Need(Need::Outside(Question::Login))
        );
        let given = reply(format!("{user}\0{password}").as_bytes());
        assert_eq!(
            sent(login.take(given).unwrap()),
            format!("\0{user}\0{password}")
        );
        assert_eq!(login.user(), Some(user));
        assert_eq!(login.step(Bytes::new()).unwrap(), Step::Done);
    }
}

#[test]
fn a_login_goes_on_as_its_mechanism() {
    let mut login = Login::new(Named::Scram(Hash::Sha512, true));
    assert_eq!(login.name(), "SCRAM-SHA-512");
    login.begin().unwrap();
    let asks = login.take(reply(b"u\0p")).unwrap();
    assert_eq!(asks, Step::Need(Need::Nonce));
    let first = sent(login.take(Given::Nonce([7; 24])).unwrap());
    assert_eq!(
        first,
        "n,,n=u,r=BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH,tokenauth=true"
    );
    assert!(login.advice().contains("delegation token"));
}

#[test]
fn a_login_that_is_none_is_refused() {
    for bytes in [&b""[..], b"alice", b"\xff\0p"] {
        let mut login = Login::new(Named::Plain);
        login.begin().unwrap();
        let error = login.take(reply(bytes)).unwrap_err();
        assert_eq!(error.kind(), Kind::Authentication);
    }
    let mut login = Login::new(Named::Plain);
    login.begin().unwrap();
    assert!(login.take(Given::Nonce([7; 24])).is_err(), "out of turn");
}

fn context(bytes: &[u8], complete: bool) -> Given {
    Given::Reply(Reply {
        bytes: bytes.to_vec(),
        complete,
        ..Default::default()
    })
}

/// RFC 4752, section 3.1: what comes before the layers.
fn established() -> Gssapi {
    let mut gssapi = Gssapi::new(None);
    let ask = |question| Step::Need(Need::Outside(question));
    assert_eq!(
        gssapi.begin().unwrap(),
        ask(Question::Context(Bytes::new()))
    );
    assert_eq!(
        sent(gssapi.take(context(b"AP-REQ", false)).unwrap()),
        "AP-REQ"
    );
    let answer = Bytes::from_static(b"AP-REP");
    assert_eq!(
        gssapi.step(answer.clone()).unwrap(),
        ask(Question::Context(answer))
    );
    assert_eq!(sent(gssapi.take(context(b"", true)).unwrap()), "");
    let layers = Bytes::from_static(b"wrapped");
    assert_eq!(
        gssapi.step(layers.clone()).unwrap(),
        ask(Question::Unwrap(layers))
    );
    gssapi
}

#[test]
fn gssapi_chooses_no_security_layer() {
    let mut gssapi = established();
    let wrap = gssapi.take(reply(&[7, 0, 1, 0])).unwrap();
    let wanted = Question::Wrap(Bytes::from_static(&[1, 0, 0, 0]));
    assert_eq!(wrap, Step::Need(Need::Outside(wanted)));
    let last = gssapi.take(reply(b"sealed")).unwrap();
    assert_eq!(last, Step::Last(Bytes::from_static(b"sealed")));
    for (layers, wanted) in [
        (&[6, 0, 1, 0][..], "insists"),
        (&[][..], "4 bytes"),
        (&[1, 0, 0, 0, 0][..], "4 bytes"),
    ] {
        let error = established().take(reply(layers)).unwrap_err();
        assert!(error.message().contains(wanted), "{error}");
    }
}

#[test]
fn gssapi_does_not_go_on_for_ever() {
    let mut gssapi = Gssapi::new(Some("alice"));
    gssapi.begin().unwrap();
    let error = loop {
        gssapi.take(context(b"more", false)).unwrap();
        if let Err(error) = gssapi.step(Bytes::from_static(b"more")) {
            break error;
        }
    };
    assert!(error.message().contains("an end"), "{error}");
    let mut mute = Gssapi::new(None);
    mute.begin().unwrap();
    assert!(mute.take(context(b"", false)).is_err());
}

fn settings(pairs: &[(&'static str, &'static str)]) -> Result<Config, String> {
    let all = [("bootstrap.servers", "b:1")].into_iter();
    Config::parse(Role::Admin, all.chain(pairs.iter().copied())).map_err(|error| error.to_string())
}

#[test]
fn settings_name_a_mechanism_and_nothing_else_does() {
    const OPEN: (&str, &str) = ("security.protocol", "SASL_PLAINTEXT");
    const WORD: (&str, &str) = ("sasl.allow.plaintext", "true");
    assert!(mechanism(&settings(&[]).unwrap()).unwrap().is_none());
    let user = [("sasl.username", "alice"), ("sasl.password", "hunter2")];
    for (name, with_user) in [
        ("PLAIN", true),
        ("SCRAM-SHA-256", true),
        ("SCRAM-SHA-512", true),
        ("OAUTHBEARER", false),
        ("AWS_MSK_IAM", false),
        ("GSSAPI", false),
    ] {
        for key in ["sasl.mechanism", "sasl.mechanisms", "sasl_mechanism"] {
            let mut pairs = vec![OPEN, WORD, (key, name)];
            pairs.extend(user.iter().filter(|_| with_user));
            let config = settings(&pairs).unwrap();
            let chosen = mechanism(&config).unwrap().unwrap();
            assert_eq!(
                (chosen.name(), config.authenticates().unwrap().name()),
                (name, name)
            );
            assert!(!format!("{chosen:?} {config:?}").contains("hunter2"));
        }
    }
}

#[test]
fn a_java_login_is_understood() {
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"alice\" password=\"hunter2\";";
    let scram =
        "x.ScramLoginModule required username=\"id\" password=\"hunter2\" tokenauth=\"true\";";
    let krb5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=\"/k\" principal=\"a@B\" serviceName=\"kf\";";
    let open = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.allow.plaintext", "true"),
    ];
    let with = |jaas: &'static str, more: &[(&'static str, &'static str)]| {
        let mut pairs = open.to_vec();
        pairs.push(("sasl.jaas.config", jaas));
        pairs.extend(more);
        settings(&pairs)
    };
    let config = with(plain, &[]).unwrap();
    assert_eq!(
        (config.sasl_username.as_str(), config.sasl_password.expose()),
        ("alice", "hunter2")
    );
    assert_eq!(mechanism(&config).unwrap().unwrap().name(), "PLAIN");
    let config = with(scram, &[("sasl.mechanism", "SCRAM-SHA-512")]).unwrap();
    assert!(config.token_auth);
    let config = with(krb5, &[]).unwrap();
    assert_eq!(config.kerberos_keytab.as_deref(), Some("/k"));
    assert_eq!(config.kerberos_service, "kf");
    assert_eq!(mechanism(&config).unwrap().unwrap().user(), Some("a@B"));
    for (jaas, more, wanted) in [
        (scram, &[][..], "sasl.mechanism: is required"),
        (plain, &[("sasl.mechanism", "GSSAPI")][..], "not for GSSAPI"),
        (plain, &[("sasl.username", "bob")][..], "a user of its own"),
        (
            "x.LdapLoginModule required password=hunter2;",
            &[][..],
            "not known here",
        ),
    ] {
        let error = with(jaas, more).unwrap_err();
        assert!(
            error.contains(wanted) && !error.contains("hunter2"),
            "{error}"
        );
    }
}

/// Rule: 2.4.14, 2.4.16.
#[test]
fn settings_that_give_secrets_away_or_lack_some_are_refused() {
    let user = ("sasl.username", "alice");
    let password = ("sasl.password", "hunter2");
    let open = ("security.protocol", "SASL_PLAINTEXT");
    let plain = ("sasl.mechanism", "PLAIN");
    for (pairs, wanted) in [
        (
            &[open, plain, user, password][..],
            "sasl.allow.plaintext=true",
        ),
        (
            &[open, ("sasl.mechanism", "OAUTHBEARER")][..],
            "sasl.allow.plaintext=true",
        ),
        (
            &[open, ("sasl.mechanism", "AWS_MSK_IAM")][..],
            "sasl.allow.plaintext=true",
        ),
        (&[plain, user, password][..], "has no effect"),
        (&[open, user, password][..], "sasl.mechanism: is required"),
        (
            &[open, ("sasl.mechanism", "SCRAM-SHA-1")][..],
            "SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            &[open, ("sasl.mechanism", "SCRAM-SHA-256"), password][..],
            "sasl.username: is required",
        ),
        (
            &[open, ("sasl.mechanism", "SCRAM-SHA-256"), user][..],
            "sasl.password: is required",
        ),
        (
            &[open, plain, ("sasl.mechanisms", "GSSAPI")][..],
            "given twice",
        ),
        (
            &[("sasl.passwort", "hunter2")][..],
            "did you mean sasl.password?",
        ),
    ] {
        let error = settings(pairs).unwrap_err();
        assert!(
            error.contains(wanted) && !error.contains("hunter2"),
            "{error}"
        );
    }
}

/// Java's clients loaded the classes that `sasl.jaas.config` names, and so ran code from a remote
/// directory server.
///
/// Rule: CVE-2023-25194, CVE-2025-27818, CVE-2025-27819.
#[test]
fn no_class_is_loaded_because_a_setting_names_it() {
    let tls = ("security.protocol", "SASL_SSL");
    for module in [
        "com.sun.security.auth.module.JndiLoginModule required user.provider.url=\"ldap://x\";",
        "com.sun.security.auth.module.LdapLoginModule required userProvider=\"ldap://x\";",
        "org.example.MyLoginModule required;",
    ] {
        let error = settings(&[tls, ("sasl.jaas.config", module)]).unwrap_err();
        assert!(error.contains("not known here"), "{error}");
    }
    for name in [
        "config.providers",
        "interceptor.classes",
        "metric.reporters",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "ssl.engine.factory.class",
    ] {
        let error = settings(&[(name, "org.example.Mine")]).unwrap_err();
        assert!(error.contains("leave it out"), "{error}");
    }
}

/// What stands in `${}` was read from files and from the environment, for whoever set a property.
///
/// Rule: CVE-2024-31141.
#[test]
fn what_looks_like_a_reference_is_text_as_any_other() {
    const JAAS: &str = "x.PlainLoginModule required username=\"${env:HOME}\" password=\"${file:/etc/hostname:x}\";";
    let tls = ("security.protocol", "SASL_SSL");
    let plain = ("sasl.mechanism", "PLAIN");
    for text in [
        "${file:/etc/hostname:password}",
        "${directory:/etc:hostname}",
        "${env:HOME}",
        "${HOME}",
        "$HOME",
        "%HOME%",
    ] {
        let user = ("sasl.username", text);
        let config = settings(&[
            tls,
            plain,
            user,
            ("sasl.password", text),
            ("client.id", text),
        ]);
        let config = config.unwrap();
        assert_eq!(config.sasl_password.expose(), text);
        assert_eq!((&*config.client_id, &*config.sasl_username), (text, text));
    }
    let config = settings(&[tls, plain, ("sasl.jaas.config", JAAS)]).unwrap();
    assert_eq!(config.sasl_username, "${env:HOME}");
    assert_eq!(config.sasl_password.expose(), "${file:/etc/hostname:x}");
}
