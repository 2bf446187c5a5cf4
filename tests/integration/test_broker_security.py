"""The embedded broker's security under the clients of others and ours: TLS, each mechanism, wrong credentials, ACLs, quotas."""

from __future__ import annotations

import time
from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.protocol import ErrorCode
from ottla.testing import Broker, Certificates, bearer_token
from tests.integration.peers.access import (
    Access,
    AioKafkaGuest,
    ConfluentGuest,
    FranzGuest,
    Guest,
    JavaGuest,
    KafkaPythonGuest,
    OttlaGuest,
)
from tests.integration.peers.base import DEADLINE
from tests.pace import patience
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
AWS_KEYS = {"AKIDALICE": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
GUESTS = [
    pytest.param("confluent-kafka"),
    pytest.param("aiokafka"),
    pytest.param("kafka-python"),
    pytest.param("ottla"),
    pytest.param("franz-go", marks=pytest.mark.needs("go")),
]
IN_PROCESS = GUESTS[:4]


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with Certificates() as made:
        yield made


@pytest.fixture(scope="module")
def broker(certificates: Certificates) -> Iterator[Broker]:
    mechanisms = "mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM"
    with Broker(
        topics={"mine": 1, "others": 1},
        listeners=[
            "PLAINTEXT",
            f"SASL_PLAINTEXT {mechanisms}",
            f"SASL_SSL {mechanisms}",
            "SSL client-auth=required principal=cn",
        ],
        tls=certificates,
        users=USERS,
        aws_keys=AWS_KEYS,
        super_users=["ANONYMOUS"],
        acls=[
            f"{who} {what}"
            for who in ("alice", "AKIDALICE")
            for what in ("read,write topic:mine", "read group:*", "describe topic:others")
        ],
    ) as running:
        yield running


@pytest.fixture
def guest(request: pytest.FixtureRequest) -> Guest:
    if request.param == "franz-go":
        return FranzGuest(request.getfixturevalue("franz_program").program)
    return {g.name: g for g in (ConfluentGuest(), AioKafkaGuest(), KafkaPythonGuest(), OttlaGuest())}[request.param]


def access(broker: Broker, certificates: Certificates, listener: str, mechanism: str | None = None) -> Access:
    tls = "SSL" in listener
    user = "AKIDALICE" if mechanism == "AWS_MSK_IAM" else "alice"
    return Access(
        broker.bootstrap_of(listener),
        listener,
        mechanism,
        user,
        AWS_KEYS.get(user) or USERS[user],
        bearer_token("alice"),
        certificates.client("alice") if tls else None,
        is_mutual=listener == "SSL",
    )


def there_and_back(guest: Guest, way: Access) -> None:
    """What it writes it reads; the topic has messages of others, so that it reads the first there is."""
    guest.produce(way, "mine", b"from " + guest.name.encode())
    assert guest.consume(way, "mine").startswith(b"from ")


@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
@pytest.mark.parametrize("guest", IN_PROCESS, indirect=True)
def test_each_mechanism_over_each_listener(
    broker: Broker, certificates: Certificates, guest: Guest, listener: str
) -> None:
    for mechanism in sorted(guest.mechanisms) if "SASL" in listener else [None]:
        there_and_back(guest, access(broker, certificates, listener, mechanism))


@pytest.mark.needs("go")
@pytest.mark.parametrize("guest", ["franz-go"], indirect=True)
def test_franz_go_by_each_mechanism(broker: Broker, certificates: Certificates, guest: Guest) -> None:
    for mechanism in sorted(guest.mechanisms):
        there_and_back(guest, access(broker, certificates, "SASL_SSL", mechanism))
    there_and_back(guest, access(broker, certificates, "SSL"))


@pytest.mark.needs("go")
@pytest.mark.parametrize("guest", ["franz-go"], indirect=True)
def test_franz_go_by_a_delegation_token(broker: Broker, certificates: Certificates, guest: Guest) -> None:
    alice = access(broker, certificates, "SASL_PLAINTEXT", "SCRAM-SHA-256")
    with Connection(alice.bootstrap) as connection:
        connection.authenticate("PLAIN", f"\0alice\0{alice.password}".encode())
        request = {"owner_principal_type": None, "owner_principal_name": None, "renewers": [], "max_lifetime_ms": -1}
        made = connection.ask("CreateDelegationToken", 3, request)
        assert (made["error_code"], made["principal_name"]) == (0, "alice")
        token = replace(alice, user=made["token_id"], password=b64encode(made["hmac"]).decode(), is_delegated=True)
        there_and_back(guest, token)
        with pytest.raises(PermissionError, match="SASL_AUTHENTICATION_FAILED"):
            guest.produce(replace(token, is_delegated=False), "mine", b"never")
        listed = connection.ask("DescribeDelegationToken", 3, {"owners": None})["tokens"]
        assert [each["token_id"] for each in listed] == [made["token_id"]]
        ended = connection.ask("ExpireDelegationToken", 2, {"hmac": made["hmac"], "expiry_time_period_ms": -1})
        assert ended["error_code"] == 0
        with pytest.raises(PermissionError, match="SASL_AUTHENTICATION_FAILED"):
            guest.produce(token, "mine", b"never")
    with Connection(broker.bootstrap_servers) as nobody:
        made = nobody.ask("CreateDelegationToken", 3, request)
        assert made["error_code"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


WRONG = {
    "confluent-kafka": "Authentication failed",
    "aiokafka": "Authentication failed",
    "kafka-python": "SaslAuthenticationFailedError: Authentication failed",  # only its log says so
    "ottla": "Authentication failed",
    "franz-go": "SASL_AUTHENTICATION_FAILED",
}


@pytest.mark.parametrize("guest", GUESTS, indirect=True)
def test_a_wrong_password_is_said(
    broker: Broker, certificates: Certificates, guest: Guest, caplog: pytest.LogCaptureFixture
) -> None:
    mechanisms = PASSWORDS[:1] if isinstance(guest, KafkaPythonGuest) else PASSWORDS  # it asks again until it gives up
    for mechanism in mechanisms:
        wrong = replace(access(broker, certificates, "SASL_PLAINTEXT", mechanism), password="alice-secreT")
        with pytest.raises(Exception, match=".") as caught:
            guest.produce(wrong, "mine", b"never")
        said = f"{caught.value!r} {caplog.text}"
        assert WRONG[guest.name] in said
        assert "alice-secreT" not in said


DENIED = {
    "confluent-kafka": "TOPIC_AUTHORIZATION_FAILED",
    "aiokafka": "TopicAuthorizationFailed",
    "kafka-python": "TopicAuthorizationFailed",
    "ottla": "TOPIC_AUTHORIZATION_FAILED",
    "franz-go": "TOPIC_AUTHORIZATION_FAILED",
}


@pytest.mark.parametrize("guest", GUESTS, indirect=True)
def test_what_acls_deny_is_said(broker: Broker, certificates: Certificates, guest: Guest) -> None:
    alice = access(broker, certificates, "SASL_PLAINTEXT", "PLAIN")
    with pytest.raises(Exception, match=DENIED[guest.name]):
        guest.produce(alice, "others", b"never")
    guest.produce(
        replace(alice, bootstrap=broker.bootstrap_servers, protocol="PLAINTEXT", mechanism=None), "others", b"x"
    )
    if not isinstance(guest, (AioKafkaGuest, KafkaPythonGuest)):  # which ask again for ever
        with pytest.raises(Exception, match=DENIED[guest.name]):
            guest.consume(alice, "others")


def admin(broker: Broker, user: str | None = None) -> AdminClient:
    listener = "SASL_PLAINTEXT" if user else "PLAINTEXT"
    return AdminClient(broker.client_config(user, listener=listener, mechanism="PLAIN" if user else None))


def test_librdkafkas_admin_manages_acls(broker: Broker) -> None:
    def acl(cls: type, name: str | None, principal: str | None = None) -> AclBinding:
        pattern = ResourcePatternType.PREFIXED if cls is AclBinding else ResourcePatternType.MATCH
        return cls(
            ResourceType.TOPIC,
            name,
            pattern,
            principal,
            "*" if cls is AclBinding else None,
            AclOperation.READ if cls is AclBinding else AclOperation.ANY,
            AclPermissionType.ALLOW if cls is AclBinding else AclPermissionType.ANY,
        )

    root = admin(broker)
    binding = acl(AclBinding, "carols-", "User:carol")
    for future in root.create_acls([binding]).values():
        assert future.result(DEADLINE) is None
    find = acl(AclBindingFilter, "carols-topic")
    assert root.describe_acls(find).result(DEADLINE) == [binding]
    [deleted] = root.delete_acls([find]).values()
    assert deleted.result(DEADLINE) == [binding]
    assert root.describe_acls(find).result(DEADLINE) == []


def test_librdkafkas_admin_adds_and_removes_a_scram_user(broker: Broker, certificates: Certificates) -> None:
    root = admin(broker)
    dora = replace(access(broker, certificates, "SASL_PLAINTEXT", "SCRAM-SHA-512"), user="dora", password="dora-secret")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    upsertion = UserScramCredentialUpsertion("dora", info, b"dora-secret")
    root.alter_user_scram_credentials([upsertion])["dora"].result(DEADLINE)
    described = root.describe_user_scram_credentials(["dora"])["dora"].result(DEADLINE)
    assert [each.iterations for each in described.scram_credential_infos] == [4096]
    with pytest.raises(PermissionError, match="TOPIC_AUTHORIZATION_FAILED"):
        ConfluentGuest().produce(dora, "mine", b"she is in, and may not")
    deletion = UserScramCredentialDeletion("dora", ScramMechanism.SCRAM_SHA_512)
    root.alter_user_scram_credentials([deletion])["dora"].result(DEADLINE)
    with pytest.raises(KafkaException) as gone:
        root.describe_user_scram_credentials(["dora"])["dora"].result(DEADLINE)
    assert gone.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


@pytest.mark.needs("java", "javac", "mvn")
def test_java_by_each_way(broker: Broker, certificates: Certificates, tmp_path: Path) -> None:
    """In one process: each mechanism, a certificate, a wrong password, a denied topic, and a quota that its admin sets."""
    java = JavaGuest(tmp_path)
    for mechanism in sorted(java.mechanisms):
        java.ask(mechanism, "exchange", access(broker, certificates, "SASL_SSL", mechanism), "mine")
    java.ask("MTLS", "exchange", access(broker, certificates, "SSL"), "mine")
    alice = access(broker, certificates, "SASL_PLAINTEXT", "SCRAM-SHA-256")
    java.ask("wrong", "exchange", replace(alice, password="alice-secreT"), "mine")
    java.ask("denied", "consume", alice, "others")
    with Broker(topics=["t"], config={"quota.window.num": 2}) as other:
        java.ask("quota", "quota", Access(other.bootstrap_servers, "PLAINTEXT"), "t")
        answers = java.answers()
    for name in (*java.mechanisms, "MTLS"):
        assert answers[name].startswith(("ok from", f"ok {name}", "ok PLAIN", "ok OAUTHBEARER")), answers
    assert answers["wrong"].startswith("failed SaslAuthenticationException: Authentication failed"), answers
    assert "alice-secreT" not in answers["wrong"]
    assert answers["denied"].startswith("failed TopicAuthorizationException"), answers
    assert answers["quota"] == "ok {producer_byte_rate=20000.0} throttled", answers


# Seconds. Whoever cannot authenticate again must be able to do something in one session.
SESSION = patience(1.5)


@pytest.mark.parametrize("guest", GUESTS, indirect=True)
def test_a_session_is_authenticated_again_under_load(guest: Guest) -> None:
    """Whoever knows of re-authentication keeps its connection, and whoever does not makes another: all messages come."""
    with Broker(topics=["t"], users=USERS, config={"connections.max.reauth.ms": int(1000 * SESSION)}) as broker:
        way = Access(broker.bootstrap_servers, "SASL_PLAINTEXT", "SCRAM-SHA-256", "alice", "alice-secret")
        if not isinstance(guest, ConfluentGuest):
            guest.produce(way, "t", b"one")
            assert guest.consume(way, "t") == b"one"
            return
        from confluent_kafka import Producer

        failed: list[str] = []
        producer = Producer(broker.client_config("alice", mechanism="SCRAM-SHA-256"))
        # The first session ends while records are sent.
        sent, end = 0, time.monotonic() + SESSION + 0.7
        while time.monotonic() < end or sent <= 20:
            producer.produce(
                "t", b"x", partition=0, on_delivery=lambda error, _: failed.append(str(error)) if error else None
            )
            sent += 1
            producer.poll(0.01)
        assert producer.flush(DEADLINE) == 0
        assert not failed
