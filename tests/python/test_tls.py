"""TLS without Kafka: peers that say nothing, and secrets that nobody may see. `tests/integration/test_tls.py` has the rest."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, errors
from ottla.testing import Broker, Certificates
from tests.certificates import Authority
from tests.python.conftest import PATIENCE
from tests.shown import Shown

if TYPE_CHECKING:
    from pathlib import Path

    from tests.python.conftest import Api

pytestmark = pytest.mark.needs("openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def test_a_peer_that_says_nothing_is_given_up_in_time(api: Api, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        options = {"socket_connection_setup_timeout_ms": 300, "socket_connection_setup_timeout_max_ms": 300}
        security = {"security_protocol": "SSL", "ssl_ca_location": authority.ca}
        with api.admin(f"127.0.0.1:{port}", **security, **options) as admin:
            begin = time.monotonic()
            with pytest.raises(errors.UnreachableError, match=r"TLS handshake was not done within \d+ ms"):
                api(admin.list_topics(timeout=4))
            assert time.monotonic() - begin < PATIENCE


def test_no_protocol_is_offered_beside_tls(authority: Authority) -> None:
    """Brokers speak Kafka alone, and some proxies refuse what they do not know: the ClientHello has no ALPN (RFC 7301)."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(PATIENCE)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        admin = Admin(address, security_protocol="SSL", ssl_ca_location=authority.ca)
        call = pool.submit(lambda: admin.list_topics(timeout=PATIENCE))
        peer, _ = server.accept()
        with peer, peer.makefile("rb") as hello, admin:
            hello.read(5 + 4 + 2 + 32)
            for length in (1, 2, 1):
                # The session, the cipher suites, the compressions.
                hello.read(int.from_bytes(hello.read(length)))
            left, kinds = int.from_bytes(hello.read(2)), set()
            while left > 0:
                kinds.add(int.from_bytes(hello.read(2)))
                length = int.from_bytes(hello.read(2))
                hello.read(length)
                left -= 4 + length
        assert isinstance(call.exception(PATIENCE), errors.KafkaError)
    server_name_or_versions = {0, 43}
    assert kinds & server_name_or_versions, kinds
    assert 16 not in kinds


def test_settings_of_tls_never_show_secrets(api: Api, authority: Authority, tmp_path: Path) -> None:
    """Rule: 2.4.15, 2.4.16."""
    me = authority.issue("me")
    secret = "a-secret-that-nobody-may-see"
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN PRIVATE KEY-----\n" + secret)
    for options in (
        {"ssl_key_pem": secret, "ssl_certificate_location": me.pem},
        {"ssl_key_password": secret, "ssl_certificate_location": me.pem, "ssl_key_location": me.encrypted_key},
        {"ssl_keystore_location": me.p12, "ssl_keystore_password": secret},
        {"ssl_truststore_location": me.p12, "ssl_truststore_password": secret},
        {"ssl_certificate_location": me.pem, "ssl_key_location": str(key)},
        {"ssl_key_password": secret.encode()},
        {"ssl_key_pasword": secret},
    ):
        with pytest.raises((errors.ConfigError, TypeError)) as caught:
            api.module.Consumer("127.0.0.1:1", security_protocol="SSL", **options)
        assert secret not in str(caught.value)
        assert secret not in repr(vars(caught.value))
    security = {"security_protocol": "SSL", "ssl_ca_location": authority.ca, "ssl_key_password": secret}
    with api.admin("127.0.0.1:1", **security) as admin:
        assert secret not in f"{admin!r} {admin} {getattr(admin, '__dict__', '')}"


def test_no_key_given_as_text_is_said_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    """A client that shows its certificate by a key in its settings, and clients that fail to.

    Rule: 2.4.15, 2.4.16.
    """
    with Certificates() as certificates, Broker(listeners=["SSL client-auth=required"], tls=certificates) as broker:
        mine, other = certificates.client("alice"), certificates.client("bob")
        key = mine.key.read_text()
        right = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SSL",
            "ssl_ca_pem": certificates.ca.read_text(),
            "ssl_certificate_pem": mine.certificate.read_text(),
            "ssl_key_pem": key,
            "default_api_timeout_ms": 5000,
        }
        shown = Shown(caplog)
        shown.of_every_client(**right)
        assert shown.has("connected"), "the key works"
        begin, *body, end = key.strip().splitlines()
        damaged = "\n".join([begin, *body[:-1], body[-1][:-8], end])
        for wrong in (other.key.read_text(), damaged, key.replace("PRIVATE", "SECRET"), "".join(body)):
            shown.of_client(**{**right, "ssl_key_pem": wrong})
        lines = [line for text in (key, other.key.read_text()) for line in text.strip().splitlines()[1:-1]]
        assert len(lines) >= 4
        assert shown.found([*lines, *(line[:16] for line in lines)]) == []
