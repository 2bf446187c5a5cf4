"""Every SASL mechanism against real Kafka, old and new, with both facades; and what is said when it fails."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import re
import time
from base64 import b64encode
from ctypes import byref, c_char_p, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import aio, errors
from ottla._sasl._gssapi import Kerberos
from ottla.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.integration.conftest import REAL
from tests.shown import Shown
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster

pytestmark = REAL
KERBEROS = pytest.mark.needs("libgssapi")

# So long a session of SCRAM-SHA-512 lasts on these brokers, in milliseconds.
SESSION = 10_000
REAUTH = "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms"
TOPIC = "secured"
# Seconds in which an error must come that no waiting mends; the verb's own deadline is longer.
PROMPT = 8
ALICE = {"sasl_username": "alice", "sasl_password": "alice-secret"}


@pytest.fixture(scope="module", params=["4.4.0", "2.8.2"])
def brokers(request: pytest.FixtureRequest, start_kafka: Callable[..., Cluster]) -> Cluster:
    cluster = start_kafka(
        version=request.param, sasl="plain,scram,oauth,gssapi", tokens=True, tls=True, config={REAUTH: SESSION}
    )
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as admin:
        admin.create_topics(TOPIC)
        wait_until(lambda: TOPIC in admin.list_topics(), f"the broker knows {TOPIC}")
    return cluster


def settings(cluster: Cluster, mechanism: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.st["bootstrap"]["SASL_PLAINTEXT"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_allow_plaintext": True,
        "sasl_mechanism": mechanism,
        "default_api_timeout_ms": 20_000,
        **more,
    }


def credentials(cluster: Cluster, mechanism: str) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_token": lambda: (cluster.token("alice"), 3600)}
    if mechanism == "GSSAPI":
        kerberos = cluster.st["sasl"]["kerberos"]
        return {"sasl_kerberos_keytab": kerberos["keytab"], "sasl_kerberos_principal": kerberos["principal"]}
    return ALICE


@pytest.fixture
def kerberos(brokers: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = brokers.st["sasl"]["kerberos"]
    monkeypatch.setenv("KRB5_CONFIG", found["krb5_conf"])
    return found  # type: ignore[no-any-return]


def there_and_back(options: dict[str, Any], value: bytes) -> bool:
    """A record goes through a client of each kind."""
    with ottla.Producer(**options) as producer:
        sent = producer.send(TOPIC, value).result(20)
    with ottla.Consumer(**options) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0, sent.offset)])
        return consumer.poll(20, max_records=1)[0].value == value


async def there_and_back_on_a_loop(options: dict[str, Any], value: bytes) -> bool:
    async with aio.Producer(**options) as producer:
        sent = await (await producer.send(TOPIC, value))
    async with aio.Consumer(**options) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0, sent.offset)])
        return (await consumer.poll(20, max_records=1))[0].value == value


MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_carries_records(brokers, mechanism):
    options = settings(brokers, mechanism, **credentials(brokers, mechanism))
    assert there_and_back(options, mechanism.encode())
    assert asyncio.run(there_and_back_on_a_loop(options, b"aio " + mechanism.encode()))


@KERBEROS
@pytest.mark.usefixtures("kerberos")
def test_kerberos_carries_records(brokers):
    options = settings(brokers, "GSSAPI", **credentials(brokers, "GSSAPI"))
    assert there_and_back(options, b"GSSAPI")
    assert asyncio.run(there_and_back_on_a_loop(options, b"aio GSSAPI"))


@KERBEROS
@pytest.mark.usefixtures("kerberos")
async def test_a_program_for_aiokafka_names_the_host_of_the_principal(brokers, tmp_path, monkeypatch):
    """The system's library gets tickets for it. The bootstrap server has another name than the broker's principal."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", credentials(brokers, "GSSAPI")["sasl_kerberos_keytab"])
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    common = {
        "bootstrap_servers": brokers.st["bootstrap"]["SASL_PLAINTEXT"].replace("127.0.0.1", "localhost"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_domain_name": "127.0.0.1",
    }
    async with AIOKafkaProducer(**common) as producer:
        sent = await producer.send_and_wait(TOPIC, b"domain")
    async with AIOKafkaConsumer(**common) as consumer:
        consumer.assign([TopicPartition(TOPIC, sent.partition)])
        consumer.seek(TopicPartition(TOPIC, sent.partition), sent.offset)
        assert (await consumer.getone()).value == b"domain"


def over_tls(brokers, mechanism):
    options = settings(brokers, mechanism, **credentials(brokers, mechanism), ssl_ca_location=brokers.st["tls"]["ca"])
    options |= {"bootstrap_servers": brokers.st["bootstrap"]["SASL_SSL"], "security_protocol": "SASL_SSL"}
    del options["sasl_allow_plaintext"]
    return options


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tls_goes_beneath(brokers, mechanism):
    assert there_and_back(over_tls(brokers, mechanism), b"tls " + mechanism.encode())


@KERBEROS
@pytest.mark.usefixtures("kerberos")
def test_tls_goes_beneath_kerberos(brokers):
    assert there_and_back(over_tls(brokers, "GSSAPI"), b"tls GSSAPI")


def test_a_login_of_java_is_taken(brokers):
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="alice-secret";'
    options = settings(brokers, "SCRAM-SHA-256", sasl_jaas_config=login)
    assert there_and_back(options, b"jaas")
    unsecured = "x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub='alice';"
    options = settings(brokers, "OAUTHBEARER", sasl_jaas_config=unsecured)
    assert there_and_back(options, b"unsecured")


def test_delegation_tokens_live_and_end(brokers):
    """KIP-48: who has a token authenticates with it by SCRAM, and is its owner."""
    with ottla.Admin(**settings(brokers, "SCRAM-SHA-256", **ALICE)) as admin:
        token = admin.create_delegation_token(renewers=[("User", "bob")], max_lifetime=3600)
        assert token.owner == ("User", "alice")
        assert 3500_000 < token.ends - token.issued <= 3600_000
        secret = repr(token.hmac)[2:-1]
        assert secret not in repr(token)
        wait_until(lambda: token.id in {t.id for t in admin.describe_delegation_tokens()}, "the token is described")
        (described,) = admin.describe_delegation_tokens([("User", "alice")])
        assert (described.hmac, described.renewers) == (token.hmac, [("User", "bob")])
        options = settings(brokers, "SCRAM-SHA-256", sasl_jaas_config=token.login())
        assert there_and_back(options, b"by token")
        with ottla.Admin(**options) as by_token, pytest.raises(errors.KafkaError, match="NOT_ALLOWED"):
            by_token.create_delegation_token()
        assert admin.renew_delegation_token(token, 600) <= token.ends
        admin.expire_delegation_token(token)
        wait_until(lambda: not admin.describe_delegation_tokens(), "the token is gone")
    for error in refusals(options):
        assert isinstance(error, errors.AuthenticationError)
        assert "delegation token" in str(error)
    with ottla.Admin(brokers.st["bootstrap"]["PLAINTEXT"]) as nobody, pytest.raises(errors.KafkaError, match="SASL"):
        nobody.create_delegation_token()

    async def on_a_loop() -> None:
        async with aio.Admin(**settings(brokers, "PLAIN", **ALICE)) as admin:
            made = await admin.create_delegation_token()
            while made.id not in {token.id for token in await admin.describe_delegation_tokens()}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert await admin.renew_delegation_token(made.hmac) > 0
            await admin.expire_delegation_token(made)

    asyncio.run(asyncio.wait_for(on_a_loop(), 60))


def refusals(options: dict[str, Any]) -> list[errors.KafkaError]:
    """What each kind of client raises, which must come soon."""

    def admin() -> None:
        with ottla.Admin(**options) as client:
            client.list_topics()

    def consumer() -> None:
        with ottla.Consumer(**options) as client:
            client.end_offsets([(TOPIC, 0)])

    def producer() -> None:
        with ottla.Producer(**options) as client:
            client.send(TOPIC, b"x")

    async def on_a_loop() -> None:
        async with aio.Admin(**options) as client:
            await client.list_topics()

    raised = []
    for call in (admin, consumer, producer, lambda: asyncio.run(on_a_loop())):
        start = time.monotonic()
        with pytest.raises(errors.KafkaError) as caught:
            call()
        assert time.monotonic() - start < PROMPT
        raised.append(caught.value)
    return raised


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_wrong_credentials_are_said_at_once(brokers, mechanism):
    for user in ("alice", "nobody"):
        options = settings(brokers, mechanism, sasl_username=user, sasl_password="wr0ng-s3cret")
        for error in refusals(options):
            assert isinstance(error, errors.AuthenticationError)
            assert not error.retriable
            for word in (user, mechanism, options["bootstrap_servers"], "sasl.password"):
                assert word in str(error)
            assert "wr0ng-s3cret" not in str(error)


def test_a_mechanism_that_the_broker_lacks_is_answered_with_those_it_has(brokers):
    options = settings(brokers, "AWS_MSK_IAM", sasl_token=lambda: ("key", "s3cret"), sasl_aws_region="eu-west-1")
    for error in refusals(options):
        assert isinstance(error, errors.AuthenticationError)
        for word in ("AWS_MSK_IAM", "SCRAM-SHA-512", "OAUTHBEARER", "sasl.mechanism"):
            assert word in str(error)


def test_tokens_that_cannot_be_had_or_are_not_taken_say_so(brokers):
    async def raises() -> str:
        await asyncio.sleep(0)
        raise LookupError("the vault is closed")

    for token, said in [
        (lambda: brokers.token("alice", lifetime=-60), "expired 6"),
        (lambda: 1 / 0, "sasl_token raised ZeroDivisionError"),
        (raises, "sasl_token raised LookupError: the vault is closed"),
        (lambda: None, "returned NoneType for a token"),
        (lambda: ("t", "soon"), "returned str next to the token"),
        (lambda: "n0-such-token", "invalid_token"),
    ]:
        for error in refusals(settings(brokers, "OAUTHBEARER", sasl_token=token)):
            assert isinstance(error, errors.AuthenticationError)
            assert said in str(error)
            assert "n0-such-token" not in str(error)


def test_a_token_is_fetched_once_for_many_connections(brokers):
    calls = []

    async def token() -> tuple[str, int, dict[str, str]]:
        calls.append(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return brokers.token("alice"), 3600, {"traceId": "one"}

    async def main() -> None:
        assert await there_and_back_on_a_loop(settings(brokers, "OAUTHBEARER", sasl_token=token), b"token")
        # A client is made on a loop, and its callback runs there.
        assert set(calls) == {asyncio.get_running_loop()}
        assert len(calls) == 2, "the producer and the consumer fetch one each"

    asyncio.run(main())


@KERBEROS
def test_kerberos_that_fails_says_why(brokers, kerberos, tmp_path, monkeypatch):
    mine = credentials(brokers, "GSSAPI")
    for more, said in [
        ({**mine, "sasl_kerberos_service_name": "nosuch"}, "nosuch/127.0.0.1"),
        ({**mine, "sasl_kerberos_domain_name": "nosuch"}, "kafka/nosuch"),
        ({}, "klist"),
        ({**mine, "sasl_kerberos_keytab": str(tmp_path / "absent")}, "klist"),
    ]:
        for error in refusals(settings(brokers, "GSSAPI", **more)):
            assert isinstance(error, errors.AuthenticationError)
            assert said in str(error)
            assert "Kerberos failed" in str(error)
    # Nobody listens where the KDC should be.
    text = Path(kerberos["krb5_conf"]).read_text(encoding="utf-8")
    dead = tmp_path / "krb5.conf"
    ports = brokers.st["ports"]
    dead.write_text(text.replace(f":{ports['KDC']}", ":1"))
    monkeypatch.setenv("KRB5_CONFIG", str(dead))
    options = settings(brokers, "GSSAPI", **mine)
    with ottla.Admin(**options) as admin:
        start = time.monotonic()
        with pytest.raises(errors.KafkaError, match="GSSAPI"):
            admin.list_topics()
        assert time.monotonic() - start < 2 * options["default_api_timeout_ms"] / 1000


def owner(cache: bytes) -> str | None:
    """The principal whose tickets a cache of this process holds, by MIT's own library."""
    krb5 = ctypes.CDLL("libkrb5.so.3")
    context, handle, principal, name = c_void_p(), c_void_p(), c_void_p(), c_char_p()
    assert krb5.krb5_init_context(byref(context)) == 0
    assert krb5.krb5_cc_resolve(context, cache, byref(handle)) == 0
    if krb5.krb5_cc_get_principal(context, handle, byref(principal)) != 0:
        return None
    assert krb5.krb5_unparse_name(context, principal, byref(name)) == 0
    return (name.value or b"").decode()


# No broker takes part, but the KDC that the fixture starts.
@KERBEROS
@pytest.mark.parametrize("brokers", ["4.4.0"], indirect=True, scope="module")
def test_tickets_of_a_keytab_are_their_clients_alone_and_go_with_it(kerberos):
    """Also if the next client lies in the memory of one that is gone."""
    folder = Path(kerberos["keytab"]).parent

    def authenticated(user: str) -> Kerberos:
        of_user = Kerberos({"sasl.kerberos.keytab": str(folder / f"{user}.keytab")})
        answers: list[bytes] = []
        of_user.answer(
            SimpleNamespace(  # type: ignore[arg-type]
                kind="context", connection=1, host="127.0.0.1", data=b"", answer=lambda data, **_: answers.append(data)
            )
        )
        of_user.end(1)
        assert answers[0]
        return of_user

    caches = []
    for user in ("alice", "bob") * 20:
        client = authenticated(user)
        cache = client._cache
        assert owner(cache) == f"{user}@KAFKA.TEST"
        del client
        gc.collect()
        assert owner(cache) is None
        caches.append(cache)
    assert len(set(caches)) == len(caches)


def test_a_load_goes_on_while_connections_authenticate_again(brokers, caplog):
    """KIP-368: brokers close connections whose session has ended, at their next request."""
    options = settings(brokers, "SCRAM-SHA-512", **ALICE)
    count = 0
    caplog.set_level(logging.DEBUG, "ottla")
    with ottla.Producer(**options) as producer, ottla.Consumer(**options) as consumer:
        consumer.assign([(TOPIC, 0)])
        consumer.seek_to_end()
        consumer.position((TOPIC, 0))
        read = 0
        end = time.monotonic() + 1.5 * SESSION / 1000
        while time.monotonic() < end:
            producer.send(TOPIC, b"again %d" % count)
            count += 1
            read += sum(record.value.startswith(b"again") for record in consumer.poll(0.001))
        producer.flush(10)
        end = time.monotonic() + 20
        while read < count and time.monotonic() < end:
            read += sum(record.value.startswith(b"again") for record in consumer.poll(0.5))
    assert count == read
    said = [record.getMessage() for record in caplog.records]
    assert not [text for text in said if "isconnect" in text or "closed" in text]


@pytest.fixture(scope="module")
def before_authenticate(start_kafka: Callable[..., Cluster]) -> Cluster:
    """Of a version without SaslAuthenticate, where tokens have no headers."""
    cluster = start_kafka(version="0.11.0.3", sasl="plain,scram,gssapi")
    with ottla.Admin(cluster.st["bootstrap"]["PLAINTEXT"]) as admin:
        admin.create_topics(ottla.NewTopic(TOPIC, 1, 1))
        wait_until(lambda: TOPIC in admin.list_topics(), f"the broker knows {TOPIC}")
    return cluster


@KERBEROS
def test_brokers_before_1_0_are_authenticated_as_they_know_it(before_authenticate, monkeypatch):
    monkeypatch.setenv("KRB5_CONFIG", before_authenticate.st["sasl"]["kerberos"]["krb5_conf"])
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"):
        options = settings(before_authenticate, mechanism, **credentials(before_authenticate, mechanism))
        assert there_and_back(options, mechanism.encode())
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        options = settings(before_authenticate, mechanism, sasl_username="alice", sasl_password="wr0ng-s3cret")
        for error in refusals(options):
            assert isinstance(error, errors.AuthenticationError)
            assert "alice is not authenticated by" in str(error)
            assert "wr0ng-s3cret" not in str(error)
    for error in refusals(settings(before_authenticate, "OAUTHBEARER", sasl_token=lambda: "t")):
        assert "SCRAM-SHA-512" in str(error)


@pytest.fixture(scope="module")
def first_with_sasl(start_kafka: Callable[..., Cluster]) -> Cluster:
    """Of the first version with SASL, which has Kerberos alone and no SaslHandshake."""
    cluster = start_kafka(version="0.9.0.1", sasl="gssapi", config={"auto.create.topics.enable": "true"})
    with ottla.Producer(cluster.st["bootstrap"]["PLAINTEXT"]) as producer:
        producer.send(TOPIC, b"first").result(30)
    return cluster


@KERBEROS
def test_kerberos_carries_records_to_0_9(first_with_sasl, monkeypatch, caplog):
    """Its tokens are the first bytes of a connection; what is found out on one holds for the next."""
    monkeypatch.setenv("KRB5_CONFIG", first_with_sasl.st["sasl"]["kerberos"]["krb5_conf"])
    options = settings(first_with_sasl, "GSSAPI", **credentials(first_with_sasl, "GSSAPI"))
    caplog.set_level(logging.INFO, "ottla")
    assert there_and_back(options, b"GSSAPI")
    assert asyncio.run(there_and_back_on_a_loop(options, b"aio GSSAPI"))
    assert "is used as a broker of Kafka 0.9: it closes connections on ApiVersions, and takes GSSAPI" in caplog.text
    told = {"broker_version_fallback": "0.9.0", "api_version_request": False}
    caplog.clear()
    assert there_and_back({**options, **told}, b"told")
    assert "cannot connect" not in caplog.text


def test_what_0_9_cannot_authenticate_says_so(first_with_sasl):
    options = settings(first_with_sasl, "PLAIN", **ALICE, default_api_timeout_ms=3000)
    with ottla.Admin(**options) as admin, pytest.raises(errors.UnreachableError, match=r"older than 0\.10"):
        admin.list_topics()


def test_no_secret_is_said_at_any_level(brokers, caplog):
    """Logs at the finest level, and what clients and errors show of themselves.

    Rule: 2.4.16.
    """
    token = brokers.token("alice")
    login = "x.PlainLoginModule required username=alice password='alice-secret';"
    shown = Shown(caplog)
    for options in [
        settings(brokers, "PLAIN", **ALICE),
        settings(brokers, "PLAIN", sasl_jaas_config=login),
        settings(brokers, "SCRAM-SHA-512", **ALICE),
        settings(brokers, "PLAIN", sasl_username="alice", sasl_password="wr0ng-s3cret"),
        settings(brokers, "OAUTHBEARER", sasl_token=lambda: token),
        settings(brokers, "OAUTHBEARER", sasl_token=lambda: token + "x"),
    ]:
        shown.of_every_client(**options)
    assert shown.has("alice")
    assert shown.found(["alice-secret", "wr0ng-s3cret", token, token.split(".")[1]]) == []


def test_no_hmac_of_a_delegation_token_is_said_at_any_level(brokers, caplog):
    """Rule: 2.4.16."""
    shown = Shown(caplog)
    tokens = []

    def lives(admin: ottla.Admin) -> list[object]:
        made = admin.create_delegation_token(max_lifetime=3600)
        tokens.append(made)
        wait_until(lambda: made.id in {t.id for t in admin.describe_delegation_tokens()}, "the token is described")
        return [made, admin.describe_delegation_tokens(), admin.renew_delegation_token(made.hmac, 600)]

    shown.of_client(lives, **settings(brokers, "SCRAM-SHA-512", **ALICE))
    (token,) = tokens
    for login in (token.login(), token.login().replace(token.id, "another")):
        shown.of_client(**settings(brokers, "SCRAM-SHA-256", sasl_jaas_config=login))
    # It is asked for again once it has ended, which the broker refuses.
    for _ in range(2):
        shown.of_client(lambda admin: admin.expire_delegation_token(token), **settings(brokers, "PLAIN", **ALICE))
    assert shown.has(token.id)
    # A login has it in base64.
    assert shown.found([token.hmac, b64encode(token.hmac)]) == []


@KERBEROS
@pytest.mark.usefixtures("kerberos")
def test_nothing_of_kerberos_is_said_at_any_level(brokers, caplog):
    """Rule: 2.4.16."""
    shown = Shown(caplog)
    mine = credentials(brokers, "GSSAPI")
    for more in (mine, {**mine, "sasl_kerberos_service_name": "nosuch"}):
        shown.of_client(**settings(brokers, "GSSAPI", **more))
    assert shown.has(mine["sasl_kerberos_principal"])
    # A keytab ends with a key of 32 bytes at most, or with its number behind it.
    keytab = Path(mine["sasl_kerberos_keytab"]).read_bytes()
    assert shown.found(keytab[at : at + 12] for at in range(len(keytab) - 40, len(keytab) - 12)) == []
    # The exchange itself: hundreds of bytes, in whatever form they would be written.
    long = re.compile(r"[0-9A-Za-z+/_-]{200}|(?:\\+x[0-9a-f]{2}[^\\]{0,4}){20}|(?:\d{1,3}, ?){30}")
    assert [text for text in shown.texts() if long.search(text)] == []
