"""OAUTHBEARER as companies run it: a token endpoint gives signed tokens, and real Kafka checks them against published keys."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

import ottla
from ottla import aio, errors
from tests.integration.conftest import REAL
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers.brokers import Cluster

pytestmark = [REAL, pytest.mark.needs("openssl")]
TOPIC = "signed"
SECRET = "the-cl1ents-secret"
Claims = dict[str, Any]


class Issuer(ThreadingHTTPServer):
    """A token endpoint of OAuth 2.0: client credentials (RFC 6749, section 4.4) for a token of the cluster's authority."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.cluster, self.given = cluster, 0
        self.claims: Claims = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class Exchange(BaseHTTPRequestHandler):
    """One exchange of credentials for a token."""

    server: Issuer

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        expected = "Basic " + base64.b64encode(f"alice:{SECRET}".encode()).decode()
        if self.headers["Authorization"] != expected or form.get("grant_type") != ["client_credentials"]:
            self._answer(401, {"error": "invalid_client", "error_description": "the issuer does not know this client"})
            return
        self.server.given += 1
        claims = {"lifetime": 3600, **self.server.claims}
        token = self.server.cluster.token("alice", **claims)
        self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": claims["lifetime"]})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def cluster(start_kafka: Callable[..., Cluster]) -> Cluster:
    """Kafka that takes tokens of one issuer, signed by a key of its key set."""
    made = start_kafka(version="4.4.0", sasl="oauth-jwks")
    with ottla.Admin(made.st["bootstrap"]["PLAINTEXT"]) as admin:
        admin.create_topics([ottla.NewTopic(TOPIC, 1, 1)])
        wait_until(lambda: TOPIC in admin.list_topics(), f"the broker knows {TOPIC}")
    return made


@pytest.fixture
def issuer(cluster: Cluster) -> Iterator[Issuer]:
    with Issuer(cluster) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def settings(issuer: Issuer, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": issuer.cluster.st["bootstrap"]["SASL_PLAINTEXT"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_allow_plaintext": True,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_token_endpoint_url": issuer.url,
        "sasl_oauthbearer_client_credentials_client_id": "alice",
        "sasl_oauthbearer_client_credentials_client_secret": SECRET,
        "default_api_timeout_ms": 20_000,
        **more,
    }


def test_records_go_with_tokens_that_the_issuer_signed(issuer: Issuer) -> None:
    options = settings(issuer)
    with ottla.Producer(**options) as producer:
        sent = producer.send(TOPIC, b"v").result(20)
    with ottla.Consumer(**options) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0, sent.offset)])
        assert [record.value for record in consumer.poll(20)] == [b"v"]
    assert issuer.given == 2, "a client needs one token for all its connections"

    async def on_a_loop() -> bytes | None:
        async with aio.Producer(**options) as producer:
            sent = await (await producer.send(TOPIC, b"aio"))
        async with aio.Consumer(**options) as consumer:
            consumer.assign([ottla.TopicPartition(TOPIC, 0, sent.offset)])
            return (await consumer.poll(20))[0].value

    assert asyncio.run(asyncio.wait_for(on_a_loop(), 60)) == b"aio"


@pytest.mark.parametrize(
    ("claims", "more", "said"),
    [
        ({"aud": "another"}, {}, "invalid_token"),
        ({"iss": "somebody"}, {}, "invalid_token"),
        ({}, {"sasl_oauthbearer_client_credentials_client_secret": "wr0ng"}, "the issuer does not know this client"),
    ],
    ids=["of another audience", "of another issuer", "with a wrong secret"],
)
def test_what_is_not_accepted_is_said_at_once(issuer: Issuer, claims: Claims, more: dict[str, Any], said: str) -> None:
    issuer.claims = claims
    options = settings(issuer, **more)
    begin = time.monotonic()
    with ottla.Admin(**options) as admin, pytest.raises(errors.AuthenticationError, match=said) as caught:
        admin.list_topics()
    assert time.monotonic() - begin < options["default_api_timeout_ms"] / 2000
    assert not caught.value.retriable
    for secret in (SECRET, "wr0ng"):
        assert secret not in str(caught.value)


def test_a_token_of_a_key_that_is_not_published_is_refused(issuer: Issuer) -> None:
    """Whoever takes the signature of one token and the claims of another gets nowhere."""
    head, _, signature = issuer.cluster.token("alice").split(".")
    claims = issuer.cluster.token("admin").split(".")[1]
    options = {name: value for name, value in settings(issuer).items() if "oauthbearer" not in name}
    options["sasl_token"] = lambda: f"{head}.{claims}.{signature}"
    with ottla.Admin(**options) as admin, pytest.raises(errors.AuthenticationError, match="invalid_token"):
        admin.list_topics()
