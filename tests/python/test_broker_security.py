"""The embedded broker's security, byte by byte: what it takes before authentication, and what it answers to what."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ssl
import struct
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

import ottla
from ottla import errors, protocol
from ottla.testing import Broker, Certificates, Listener, bearer_token
from tests.wire import PATIENCE, Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SECRETS = ("a-secret", "b-secret", "wJalrXUtnFEMI", "shared-key")


ALICE, BOB = b"\0alice\0a-secret", b"\0bob\0b-secret"
USERS = {"alice": "a-secret", "bob": "b-secret"}


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with Certificates() as made:
        yield made


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    with Broker(
        topics=["t"],
        listeners=[
            "PLAINTEXT",
            "SASL_PLAINTEXT",
            "SASL_SSL mechanisms=PLAIN",
            "SSL client-auth=required name=MTLS",
            "SSL client-auth=requested principal=cn name=MAYBE",
            "SASL_PLAINTEXT name=TOKENS mechanisms=OAUTHBEARER",
        ],
        tls=certificates,
        users=USERS,
        super_users=["bob"],
        acls=["alice all topic:t", "User:CN=carol describe topic:t", "dora describe topic:t"],
        config={"connection.failed.authentication.delay.ms": 0},
    ) as running:
        yield running


def context(certificates: Certificates, client: str | None = None, **limits: Any) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(certificates.ca))
    if client:
        identity = certificates.client(client)
        made.load_cert_chain(identity.certificate, identity.key)
    for name, value in limits.items():
        setattr(made, name, value)
    return made


def topics_seen(connection: Connection) -> list[str]:
    return [topic["name"] for topic in connection.ask("Metadata", 9, {"topics": None})["topics"]]


# --- before authentication ---


@pytest.mark.parametrize("name", ["Metadata", "Produce", "CreateTopics", "SaslAuthenticate"])
def test_other_requests_before_authentication_close(broker, name):
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        version = protocol.APIS[name].versions.max if name != "SaslAuthenticate" else 1
        assert connection.try_to_ask(name, min(version, 7), {}) is None


def test_versions_may_be_asked_for_once_and_then_comes_the_handshake(broker):
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        known = {key["api_key"] for key in connection.ask("ApiVersions", 2, {})["api_keys"]}
        assert {17, 36} <= known
        assert connection.try_to_ask("ApiVersions", 2, {}) is None


def test_an_unknown_version_may_be_asked_for_again(broker):
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        request = protocol.encode_request("ApiVersions", 2, {}, correlation_id=9, client_id="x")
        # A header of today's form ends with the tags, of which there are none.
        unknown = request[4:6] + b"\0\x63" + request[8:] + b"\0"
        connection.send(struct.pack(">i", len(unknown)) + unknown)
        assert connection.receive()[8:10] == b"\0\x23"
        assert connection.ask("ApiVersions", 2, {})["error_code"] == 0


@pytest.mark.parametrize(("size", "is_taken"), [(524_288, True), (524_289, False), (2**31 - 1, False), (-1, False)])
def test_only_small_frames_come_before_authentication(broker, size, is_taken):
    """Rule: CVE-2022-34917."""
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        connection.send(struct.pack(">i", size))
        connection.socket.settimeout(0.3 if is_taken else PATIENCE)
        if is_taken:
            with pytest.raises(TimeoutError):
                connection.is_closed()
        else:
            assert connection.is_closed()


def test_plaintext_to_a_tls_port_closes_at_once(broker):
    for name in ("SASL_SSL", "MTLS"):
        with Connection(broker.bootstrap_of(name)) as connection:
            connection.send(b"\0")
            assert connection.is_closed()


def test_tls_to_a_plaintext_port_closes_at_once(broker, certificates):
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Connection(broker.bootstrap_of("PLAINTEXT"), context(certificates))


# --- SASL ---


def test_plain_over_plaintext_and_tls(broker, certificates):
    for name, tls in (("SASL_PLAINTEXT", None), ("SASL_SSL", context(certificates))):
        with Connection(broker.bootstrap_of(name), tls) as connection:
            answer = connection.authenticate("PLAIN", ALICE)
            assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, 0)
            assert topics_seen(connection) == ["t"]


def test_bare_tokens_after_the_first_handshake(broker):
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        assert connection.ask("SaslHandshake", 0, {"mechanism": "PLAIN"})["error_code"] == 0
        connection.send(struct.pack(">i", len(ALICE)) + ALICE)
        assert connection.receive() == b"\0\0\0\0"
        assert topics_seen(connection) == ["t"]
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        connection.ask("SaslHandshake", 0, {"mechanism": "PLAIN"})
        connection.send(struct.pack(">i", len(BOB)) + BOB[:-1] + b"T")
        assert connection.is_closed()


def test_a_wrong_password_is_answered_and_closes(broker):
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        answer = connection.authenticate("PLAIN", b"\0alice\0b-secret")
        assert answer["error_code"] == protocol.ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Invalid username or password" in answer["error_message"]
        assert connection.is_closed()


def test_an_unknown_mechanism_is_told_the_known_and_closes(broker):
    with Connection(broker.bootstrap_of("SASL_PLAINTEXT")) as connection:
        answer = connection.ask("SaslHandshake", 1, {"mechanism": "GSSAPI"})
        assert answer["error_code"] == protocol.ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer["mechanisms"] == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert connection.is_closed()


def test_sasl_on_an_open_connection_is_an_illegal_state(broker):
    with Connection(broker.bootstrap_servers) as connection:
        illegal = protocol.ErrorCode.ILLEGAL_SASL_STATE
        assert connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"}) == {"error_code": illegal, "mechanisms": []}
        assert connection.ask("SaslAuthenticate", 1, {"auth_bytes": ALICE})["error_code"] == illegal


def bearer(token: str, extensions: str = "") -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def test_a_token_says_how_long_the_session_lasts(broker):
    with Connection(broker.bootstrap_of("TOKENS")) as connection:
        answer = connection.authenticate("OAUTHBEARER", bearer(bearer_token("alice", lifetime=60), "trace=7\x01"))
        assert answer["error_code"] == 0
        assert 50_000 < answer["session_lifetime_ms"] <= 60_000
        assert topics_seen(connection) == ["t"]


def test_a_refused_token_is_a_challenge_first(broker):
    with Connection(broker.bootstrap_of("TOKENS")) as connection:
        connection.ask("SaslHandshake", 1, {"mechanism": "OAUTHBEARER"})
        expired = bearer(bearer_token("alice", lifetime=-60))
        first = connection.ask("SaslAuthenticate", 1, {"auth_bytes": expired})
        assert (first["error_code"], first["auth_bytes"]) == (0, b'{"status":"invalid_token"}')
        then = connection.ask("SaslAuthenticate", 1, {"auth_bytes": b"\x01"})
        assert then["error_code"] == protocol.ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "expired" in then["error_message"]
        assert connection.is_closed()


def test_with_a_key_only_signed_tokens_of_the_right_audience_are_taken():
    key = b"shared-key" * 4
    with Broker(
        token_key=key,
        config={
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.sub.claim.name": "client",
            "connection.failed.authentication.delay.ms": 0,
        },
    ) as broker:
        assert [each.protocol for each in broker.listeners] == ["SASL_PLAINTEXT"]

        def is_taken(token: str) -> bool:
            with Connection(broker.bootstrap_servers) as connection:
                return connection.authenticate("OAUTHBEARER", bearer(token))["auth_bytes"] == b""

        good = {"aud": ["kafka"], "client": "alice"}
        assert is_taken(bearer_token("x", key=key, **good))
        assert not is_taken(bearer_token("x", **good))
        assert not is_taken(bearer_token("x", key=key[1:], **good))
        assert not is_taken(bearer_token("x", key=key, client="alice"))
        assert not is_taken(bearer_token("x", key=key, aud="kafka"))


def presigned(secret: str, *, at: float, host: str = "kafka.eu-west-1.amazonaws.com") -> str:
    """A token as Amazon's signer libraries make it: a URL signed by Signature Version 4, in base64url."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    scope = f"{stamp[:8]}/eu-west-1/kafka-cluster/aws4_request"
    query = urlencode(
        {
            "Action": "kafka-cluster:Connect",
            "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
            "X-Amz-Credential": f"AKID/{scope}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": "900",
            "X-Amz-SignedHeaders": "host",
        }
    )
    request = f"GET\n/\n{query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    url = f"https://{host}/?{query}&X-Amz-Signature={key.hex()}&User-Agent=test"
    return urlsafe_b64encode(url.encode()).rstrip(b"=").decode()


def test_a_presigned_url_of_amazon_is_a_token_too():
    with Broker(
        listeners=["SASL_PLAINTEXT mechanisms=OAUTHBEARER"],
        aws_keys={"AKID": "wJalrXUtnFEMI/K7MDENG"},
        config={"connection.failed.authentication.delay.ms": 0},
    ) as broker:

        def answer(token: str) -> dict[str, Any]:
            with Connection(broker.bootstrap_servers) as connection:
                return connection.authenticate("OAUTHBEARER", bearer(token))

        taken = answer(presigned("wJalrXUtnFEMI/K7MDENG", at=time.time()))
        assert taken["auth_bytes"] == b""
        assert 800_000 < taken["session_lifetime_ms"] <= 900_000
        for token in (
            presigned("another", at=time.time()),
            presigned("wJalrXUtnFEMI/K7MDENG", at=time.time() - 901),
            presigned("wJalrXUtnFEMI/K7MDENG", at=time.time() + 600),
        ):
            assert answer(token)["auth_bytes"] == b'{"status":"invalid_token"}'


LIFETIME = 2


class TooLateError(Exception):
    """A session may have ended before a request came to the broker, as the machine was busy."""


@contextlib.contextmanager
def before(end: float) -> Iterator[None]:
    """A block that must succeed if it is over by then."""
    try:
        yield
    except (AssertionError, OSError) as error:
        if time.monotonic() < end:
            raise
        raise TooLateError from error


def outlive_a_session(connection: Connection) -> None:
    """Authenticate twice: the first session's end does not close the connection, and the second one's does."""
    first = time.monotonic()
    assert connection.authenticate("PLAIN", ALICE)["session_lifetime_ms"] == 1000 * LIFETIME
    first_ends = time.monotonic() + LIFETIME
    time.sleep(LIFETIME / 2)
    second = time.monotonic()
    with before(first + LIFETIME):
        assert connection.authenticate("PLAIN", ALICE)["error_code"] == 0
    second_ends = time.monotonic() + LIFETIME
    time.sleep(max(first_ends - time.monotonic(), 0) + 0.1)
    with before(second + LIFETIME):
        topics_seen(connection)
    time.sleep(max(second_ends - time.monotonic(), 0) + 0.1)
    assert connection.try_to_ask("Metadata", 9, {"topics": None}) is None


def test_a_session_ends_unless_it_is_authenticated_again():
    with Broker(users=USERS, config={"connections.max.reauth.ms": 1000 * LIFETIME}) as broker:
        for attempt in range(20):
            with Connection(broker.bootstrap_servers) as connection:
                try:
                    outlive_a_session(connection)
                    break
                except TooLateError:
                    assert attempt < 19, "each attempt was too late"
        with Connection(broker.bootstrap_servers) as connection:
            connection.authenticate("PLAIN", ALICE)
            answer = connection.authenticate("PLAIN", BOB)
            assert answer["error_code"] == protocol.ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "Cannot change principals" in answer["error_message"]
            assert connection.is_closed()


def test_a_connection_that_says_nothing_is_closed():
    with Broker(config={"connections.max.idle.ms": 1000}) as broker, Connection(broker.bootstrap_servers) as connection:
        connection.ask("ApiVersions", 0, {})
        assert connection.is_closed()


# --- TLS ---


def test_a_client_certificate_is_a_principal(broker, certificates):
    with Connection(broker.bootstrap_of("MTLS"), context(certificates, "carol")) as connection:
        assert topics_seen(connection) == ["t"]
    with Connection(broker.bootstrap_of("MTLS"), context(certificates, "mallory")) as connection:
        assert topics_seen(connection) == []
    with Connection(broker.bootstrap_of("MAYBE"), context(certificates, "dora")) as connection:
        assert topics_seen(connection) == ["t"]
    with Connection(broker.bootstrap_of("MAYBE"), context(certificates)) as connection:
        assert topics_seen(connection) == []


def test_without_or_with_a_foreign_certificate_nobody_comes_in(broker, certificates):
    with Certificates() as others:
        foreign = others.client("carol")
        expired = certificates.client("carol", valid_from=-200, valid_for=-100)
        for identity in (None, foreign, expired):
            tls = context(certificates)
            if identity:
                tls.load_cert_chain(identity.certificate, identity.key)
            # In TLS 1.3 a client learns of the refusal when it reads.
            with (
                contextlib.suppress(ssl.SSLError, ConnectionError),
                Connection(broker.bootstrap_of("MTLS"), tls) as connection,
            ):
                assert connection.try_to_ask("ApiVersions", 0, {}) is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls(broker, certificates, version):
    tls = context(certificates, minimum_version=version, maximum_version=version)
    with Connection(broker.bootstrap_of("SASL_SSL"), tls) as connection:
        connection.authenticate("PLAIN", ALICE)
        assert connection.socket.version() == version.name.replace("_", ".")


def test_a_large_answer_goes_through_tls(broker, certificates):
    batch = protocol.encode_records([protocol.Record(value=b"x" * 900_000)])
    topic = {"name": "t", "partition_data": [{"index": 0, "records": batch}]}
    with Connection(broker.bootstrap_of("SASL_SSL"), context(certificates)) as connection:
        connection.authenticate("PLAIN", ALICE)
        produced = connection.ask("Produce", 9, {"acks": -1, "timeout_ms": 1000, "topic_data": [topic]})
        row = produced["responses"][0]["partition_responses"][0]
        assert row["error_code"] == 0
        # Other tests write to the topic, too.
        offset = row["base_offset"]
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 21, "current_leader_epoch": -1}
        fetched = connection.ask(
            "Fetch",
            12,
            {"max_bytes": 1 << 21, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [partition]}]},
        )
        assert len(fetched["responses"][0]["partitions"][0]["records"]) > 900_000


def test_clients_see_a_wrong_host_and_an_expired_server(certificates):
    for identity, reason in (
        (certificates.server(hosts=["elsewhere.example"]), "Hostname mismatch"),
        (certificates.server(valid_from=-200, valid_for=-100), "expired"),
    ):
        with Broker(tls=identity) as broker, pytest.raises(ssl.SSLCertVerificationError, match=reason):
            Connection(broker.bootstrap_servers, context(certificates))


# --- listeners ---


def test_each_listener_advertises_itself(broker):
    for name in ("PLAINTEXT", "TOKENS"):
        with Connection(broker.bootstrap_of(name)) as connection:
            if name == "TOKENS":
                connection.authenticate("OAUTHBEARER", bearer(bearer_token("bob")))
            [node] = connection.ask("Metadata", 9, {"topics": None})["brokers"]
            assert f"{node['host']}:{node['port']}" == broker.bootstrap_of(name)


def test_an_advertised_address_is_told():
    listeners = [Listener("PLAINTEXT", advertised="kafka.example:9999"), Listener("PLAINTEXT", name="INSIDE")]
    with Broker(listeners=listeners) as broker:
        assert broker.bootstrap_servers == "kafka.example:9999"
        with Connection(broker.bootstrap_of("INSIDE")) as connection:
            [node] = connection.ask("DescribeCluster", 0, {})["brokers"]
            assert f"{node['host']}:{node['port']}" == broker.bootstrap_of("INSIDE")


def test_client_config_has_what_a_client_needs(broker, certificates):
    assert broker.client_config() == {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "PLAINTEXT",
    }
    sasl = broker.client_config("alice", listener="SASL_PLAINTEXT")
    assert (sasl["sasl.mechanism"], sasl["sasl.username"], sasl["sasl.password"]) == (
        "SCRAM-SHA-512",
        "alice",
        "a-secret",
    )
    mutual = broker.client_config("carol", listener="MTLS")
    assert mutual["ssl.ca.location"] == str(certificates.ca)
    assert mutual["ssl.key.location"].startswith(str(certificates.folder))
    with pytest.raises(errors.ArgumentError, match="it has alice, bob"):
        broker.client_config("carol", listener="SASL_SSL")
    with pytest.raises(errors.ArgumentError, match="there are PLAINTEXT, SASL_PLAINTEXT"):
        broker.client_config(listener="SSL")


def test_our_own_clients_take_it(broker):
    with ottla.Producer(broker.client_config("alice", listener="MAYBE")) as producer:
        assert producer.send("t", b"by certificate").result(PATIENCE).topic == "t"
    with (
        ottla.Producer(broker.client_config("dora", listener="MAYBE")) as producer,
        pytest.raises(errors.KafkaError, match="TOPIC_AUTHORIZATION_FAILED|CLUSTER_AUTHORIZATION_FAILED"),
    ):
        producer.send("t", b"never").result(PATIENCE)


# --- quotas ---


def test_a_fast_producer_is_told_and_kept_waiting():
    batch = protocol.encode_records([protocol.Record(value=b"x" * 2000)])
    topic = {"name": "t", "partition_data": [{"index": 0, "records": batch}]}
    request = {"acks": -1, "timeout_ms": 1000, "topic_data": [topic]}
    quotas = ["client-id:fast producer_byte_rate=4000", "client-id:fast consumer_byte_rate=4000"]
    window = {"quota.window.num": 2}
    with Broker(topics=["t"], quotas=quotas, config=window) as broker:
        with Connection(broker.bootstrap_servers) as connection:

            def produce(client_id: str) -> int:
                return int(connection.ask("Produce", 9, request, client_id)["throttle_time_ms"])

            assert [produce("slow") for _ in range(8)] == [0] * 8
            assert produce("fast") == 0
            throttled, end = 0, time.monotonic() + PATIENCE
            # A machine that stalls for a second is not too fast.
            while throttled == 0:
                assert time.monotonic() < end, "never throttled"
                begun = time.monotonic()
                throttled = produce("fast")
            connection.ask("ApiVersions", 0, {})
            waited = time.monotonic() - begun
            assert throttled <= 3000
            assert waited >= throttled / 1000, "the connection is muted"

        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2100, "current_leader_epoch": -1}
        fetch = {"max_bytes": 2100, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [partition]}]}
        with Connection(broker.bootstrap_servers) as connection:
            answer, end = connection.ask("Fetch", 12, fetch, "fast"), time.monotonic() + PATIENCE
            assert answer["responses"]
            while not answer["throttle_time_ms"]:
                assert time.monotonic() < end, "never throttled"
                answer = connection.ask("Fetch", 12, fetch, "fast")
            assert answer["responses"] == []


def test_a_share_of_the_brokers_time_is_a_quota_too():
    quotas = ["user:* request_percentage=0.000001"]
    with (
        Broker(quotas=quotas, config={"quota.window.num": 2}) as broker,
        Connection(broker.bootstrap_servers) as connection,
    ):
        waits = [connection.ask("ApiVersions", 3, software())["throttle_time_ms"] for _ in range(2)]
        assert waits == [1000, 1000], "no more than a sample"


def software() -> dict[str, str]:
    return {"client_software_name": "test", "client_software_version": "1"}


# --- what is wrong is said, and no secret is ---


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"listeners": ["TLS"]}, "there are PLAINTEXT, SSL"),
        ({"listeners": [""]}, "PROTOCOL"),
        ({"listeners": ["PLAINTEXT nome=A"]}, "'nome=A' is not understood"),
        ({"listeners": ["PLAINTEXT://9092"]}, "HOST:PORT"),
        ({"listeners": ["PLAINTEXT", "PLAINTEXT"]}, "names of their own"),
        ({"listeners": ["SSL"]}, "listener SSL: TLS needs a certificate"),
        ({"listeners": ["SASL_PLAINTEXT"]}, "needs users"),
        ({"listeners": ["SASL_PLAINTEXT mechanisms=PLAIN"]}, "PLAIN needs users"),
        ({"listeners": ["SASL_PLAINTEXT mechanisms=AWS_MSK_IAM"]}, "AWS keys"),
        ({"listeners": ["SASL_PLAINTEXT mechanisms=GSSAPI"]}, "has no Kerberos"),
        ({"listeners": ["SSL client-auth=maybe"]}, "none, requested or required"),
        ({"listeners": [Listener("SSL", principal="uid")]}, "dn or cn"),
        ({"acls": ["alice reads topic:t"]}, "PRINCIPAL OPERATION"),
        ({"quotas": ["alice producer_byte_rate=1"]}, "KEY=VALUE"),
        ({"jwks": "{"}, "JWKS"),
    ],
)
def test_a_wrong_setting_says_what_to_write(options, what):
    with pytest.raises(errors.ConfigError, match=what):
        Broker(**options).start()


@pytest.mark.parametrize("name", ["listeners", "acls", "super_users", "quotas"])
def test_one_text_is_no_list(name):
    with pytest.raises(errors.ArgumentError, match=f"{name} must be a list"):
        Broker(**{name: "alice"})


def test_a_broken_certificate_is_refused_without_its_key(certificates, tmp_path):
    identity = certificates.server()
    key = identity.key.read_text()
    for broken in (key.replace("PRIVATE", "PUBLIC"), key[:-60], certificates.server().key.read_text()):
        path = tmp_path / "broken.key"
        path.write_text(broken)
        with pytest.raises(errors.ConfigError) as caught:
            Broker(tls=type(identity)(identity.certificate, path, identity.ca)).start()
        assert not set(broken.split("\n")[1:-2]) & set(str(caught.value).split())


def test_no_secret_is_shown_or_printed():
    code = f"""
from ottla.testing import Broker, bearer_token
from tests.python.test_broker_security import bearer
from tests.wire import Connection
with Broker(users={USERS!r}, aws_keys={{"AKID": "wJalrXUtnFEMI"}}, token_key=b"shared-key", print_events=True) as broker:
    print(repr(broker), broker.listeners)
    for tokens in (b"\\0alice\\0b-secret", b"\\0nobody\\0a-secret", b"a-secret"):
        with Connection(broker.bootstrap_servers) as connection:
            print(connection.authenticate("PLAIN", tokens))
    with Connection(broker.bootstrap_servers) as connection:
        print(connection.authenticate("OAUTHBEARER", bearer(bearer_token("x", key=b"other"))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("closed: Authentication failed") == 3
    for secret in SECRETS:
        assert secret not in done.stdout + done.stderr


def test_certificates_go_with_their_folder(tmp_path):
    with Certificates() as made:
        folder = made.folder
        assert made.server().key.stat().st_mode & 0o77 == 0
    assert not folder.exists()
    kept = Certificates(tmp_path / "kept")
    kept.close()
    assert kept.ca.exists()


def test_fixtures(start_ottla_broker, ottla_certificates):
    one, other = start_ottla_broker(tls=ottla_certificates), start_ottla_broker(users=USERS)
    assert one.listeners[0].protocol == "SSL"
    assert other.listeners[0].protocol == "SASL_PLAINTEXT"
