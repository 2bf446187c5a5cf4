"""Where tokens and signatures come from: endpoints, callbacks, AWS's places, without a broker."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlsplit

import pytest

import ottla
from ottla._sasl import _aws, _http, _sigv4, provider
from ottla._sasl._failures import Refused, Unavailable
from ottla._sasl._oidc import Endpoint
from ottla._sasl._sigv4 import Credentials, Scope
from ottla._sasl._tokens import Callback, Token, Tokens, encoded, on_loop, read
from ottla.errors import ConfigError
from ottla.testing import Broker
from tests.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
# Of aws-msk-iam-sasl-signer-python 1.0.2, at 2026-03-04 05:06:07 UTC: its tokens are the signed URL in base64.
SIGNED = [
    (
        "us-east-1",
        Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None),
        (
            "aHR0cHM6Ly9rYWZrYS51cy1lYXN0LTEuYW1hem9uYXdzLmNvbS8_QWN0aW9uPWthZmthLWNsdXN0ZXIlM0FDb25uZWN0Jlgt"
            "QW16LUFsZ29yaXRobT1BV1M0LUhNQUMtU0hBMjU2JlgtQW16LUNyZWRlbnRpYWw9QUtJREVYQU1QTEUlMkYyMDI2MDMwNCUy"
            "RnVzLWVhc3QtMSUyRmthZmthLWNsdXN0ZXIlMkZhd3M0X3JlcXVlc3QmWC1BbXotRGF0ZT0yMDI2MDMwNFQwNTA2MDdaJlgt"
            "QW16LUV4cGlyZXM9OTAwJlgtQW16LVNpZ25lZEhlYWRlcnM9aG9zdCZYLUFtei1TaWduYXR1cmU9NDFhMTYyN2UyOTliYmJl"
            "OGJhMTJkMzZkZjk2ZWM1MGJmZjI1MjE4MzE4MjNmMTlhOGY2OTQyYmFiMGM1NDQ2ZiZVc2VyLUFnZW50PWF3cy1tc2staWFt"
            "LXNhc2wtc2lnbmVyLXB5dGhvbiUyRjEuMC4y"
        ),
    ),
    (
        "eu-central-1",
        Credentials("ASIAEXAMPLE", "sEcReT/+=~key", "FwoGZXIvYXdzEXAMPLE//token+with=signs=="),
        (
            "aHR0cHM6Ly9rYWZrYS5ldS1jZW50cmFsLTEuYW1hem9uYXdzLmNvbS8_QWN0aW9uPWthZmthLWNsdXN0ZXIlM0FDb25uZWN0"
            "JlgtQW16LUFsZ29yaXRobT1BV1M0LUhNQUMtU0hBMjU2JlgtQW16LUNyZWRlbnRpYWw9QVNJQUVYQU1QTEUlMkYyMDI2MDMw"
            "NCUyRmV1LWNlbnRyYWwtMSUyRmthZmthLWNsdXN0ZXIlMkZhd3M0X3JlcXVlc3QmWC1BbXotRGF0ZT0yMDI2MDMwNFQwNTA2"
            "MDdaJlgtQW16LUV4cGlyZXM9OTAwJlgtQW16LVNpZ25lZEhlYWRlcnM9aG9zdCZYLUFtei1TZWN1cml0eS1Ub2tlbj1Gd29H"
            "WlhJdllYZHpFWEFNUExFJTJGJTJGdG9rZW4lMkJ3aXRoJTNEc2lnbnMlM0QlM0QmWC1BbXotU2lnbmF0dXJlPTlhYTk3ZWNl"
            "MzdmMTQ5MWEzNDhhMTNiZjE3MGI2MTZkOWFmN2YwMTczZDQ5OTdhNDRjMmZkMjIwM2ZkZmQ3YzcmVXNlci1BZ2VudD1hd3Mt"
            "bXNrLWlhbS1zYXNsLXNpZ25lci1weXRob24lMkYxLjAuMg"
        ),
    ),
]


@pytest.mark.parametrize(("region", "credentials", "token"), SIGNED)
def test_documents_are_signed_as_the_published_signer_signs(region, credentials, token):
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    wanted = dict(parse_qsl(url.query))
    del wanted["User-Agent"]
    at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    scope = Scope(region, "kafka-cluster", at)
    host = str(url.hostname)
    assert _sigv4.presigned(host, {"Action": "kafka-cluster:Connect"}, credentials, scope, expires=900) == wanted
    document = json.loads(_aws.document(host, region, credentials, at))
    assert (document.pop("version"), document.pop("host"), document.pop("user-agent")) == ("2020_10_22", host, "ottla")
    assert document == {name.lower(): value for name, value in wanted.items()}


def test_signatures_are_those_of_the_published_vectors():
    """AWS's test suite for version 4, and the example of a presigned URL in S3's reference."""
    scope = Scope("us-east-1", "service", datetime(2015, 8, 30, 12, 36, tzinfo=UTC))
    host = {"host": "example.amazonaws.com"}
    for method, signature in [
        ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ]:
        headers = _sigv4.authorization(method, host, b"", EXAMPLE, scope)
        assert headers["authorization"] == (
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            f"SignedHeaders=host;x-amz-date, Signature={signature}"
        )
    credentials = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    scope = Scope("us-east-1", "s3", datetime(2013, 5, 24, tzinfo=UTC))
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"AKIAIOSFODNN7EXAMPLE/{scope}",
        "X-Amz-Date": "20130524T000000Z",
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
    }
    bucket = {"host": "examplebucket.s3.amazonaws.com"}
    request = _sigv4.canonical("GET", "/test.txt", query, bucket, "UNSIGNED-PAYLOAD")
    signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    assert _sigv4.signature(request, credentials, scope) == signature


# --- servers


class Server(ThreadingHTTPServer):
    """Answers by path, and keeps what it was asked."""

    answers: dict[str, tuple[int, Any]]
    asked: list[tuple[str, str, dict[str, str], bytes]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers, body))
        status, told = self.server.answers.get(self.path, (404, b"no"))
        if callable(told):
            told(self)
            return
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", data.decode())
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_GET  # noqa: N815 the names of http.server

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(**answers: tuple[int, Any]) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.answers = {"/" + path.replace("__", "/"): answer for path, answer in answers.items()}
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


PREFIX = "sasl.oauthbearer."
CLIENT = {
    PREFIX + "client.credentials.client.id": "me",
    PREFIX + "client.credentials.client.secret": "hunter2",
}


def endpoint(server: Server, **more: str) -> Endpoint:
    settings = {PREFIX + "token.endpoint.url": server.url + "/token", "sasl.allow.plaintext": "true", **CLIENT}
    return Endpoint(settings | {PREFIX + name.replace("_", "."): value for name, value in more.items()}, {})


def test_client_credentials_are_exchanged_for_a_token():
    """RFC 6749, section 4.4."""
    with serving(token=(200, {"access_token": "abc", "expires_in": 60, "token_type": "Bearer"})) as server:
        token = endpoint(server, scope="kafka", extensions="traceId=7, zone=eu")()
    assert token.value == "abc"
    assert token.extensions == {"traceId": "7", "zone": "eu"}
    assert token.expires == pytest.approx(time.time() + 60, abs=30)
    ((method, _, headers, body),) = server.asked
    assert method == "POST"
    assert headers["authorization"] == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert parse_qs(body.decode()) == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_what_looks_like_a_reference_is_the_secret_itself(monkeypatch):
    """Rule: CVE-2024-31141."""
    monkeypatch.setenv("OTTLA_TEST_SECRET", "from the environment")
    secret = "${env:OTTLA_TEST_SECRET}"
    with serving(token=(200, {"access_token": "abc"})) as server:
        endpoint(server, client_credentials_client_secret=secret)()
    # What stands before the colon of HTTP's Basic is form-encoded (RFC 6749, section 2.3.1).
    told = base64.b64decode(server.asked[0][2]["authorization"].removeprefix("Basic ")).decode()
    assert unquote_plus(told) == f"me:{secret}"


def test_a_java_login_names_the_client():
    login = {"clientId": "me", "clientSecret": "hunter2", "scope": "s", "extension_traceId": "9"}
    with serving(token=(200, {"access_token": "abc"})) as server:
        settings = {PREFIX + "token.endpoint.url": server.url + "/token", "sasl.allow.plaintext": "true"}
        token = Endpoint(settings, login)()
    assert (token.value, token.expires, token.extensions) == ("abc", None, {"traceId": "9"})
    assert b"scope=s" in server.asked[0][3]


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_signed_assertion_is_exchanged_for_a_token(tmp_path, algorithm):
    """RFC 7523, section 2.1; openssl made the key, and verifies what was signed."""
    kind = (
        ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
        if algorithm == "RS256"
        else ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    )
    key = tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", *kind, "-out", key], check=True, capture_output=True, timeout=60
    )
    more = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion_private_key_file": str(key),
        "assertion_algorithm": algorithm,
        "assertion_claim_iss": "me",
        "assertion_claim_sub": "app",
        "assertion_claim_aud": "https://idp",
        "assertion_claim_jti_include": "true",
    }
    with serving(token=(200, {"access_token": "abc", "expires_in": "60"})) as server:
        assert endpoint(server, **more)().value == "abc"
    form = dict(parse_qsl(server.asked[0][3].decode()))
    assert form["grant_type"] == more["grant_type"]
    head, claims, signature = form["assertion"].split(".")
    told = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (told["iss"], told["sub"], told["aud"]) == ("me", "app", "https://idp")
    assert told["nbf"] <= told["iat"] < told["exp"]
    assert told["jti"]
    signed = base64.urlsafe_b64decode(signature + "==")
    if algorithm == "ES256":
        assert len(signed) == 64
        signed = sequence(signed[:32], signed[32:])
    (tmp_path / "signature").write_bytes(signed)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", tmp_path / "pub"], check=True, timeout=60)
    subprocess.run(
        ["openssl", "dgst", "-sha256", "-verify", tmp_path / "pub", "-signature", tmp_path / "signature"],
        input=f"{head}.{claims}".encode(),
        check=True,
        capture_output=True,
        timeout=60,
    )


def sequence(*numbers: bytes) -> bytes:
    """Numbers without a sign as a DER sequence: the form of openssl's signatures, where RFC 7518 has their bytes alone."""
    told = b""
    for number in numbers:
        short = number.lstrip(b"\0")
        content = b"\0" * (short[0] >> 7) + short
        told += bytes([2, len(content)]) + content
    return bytes([0x30, len(told)]) + told


def trickle(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        ((401, {"error": "invalid_client", "error_description": "who? hunter2"}), Refused, "401 Unauthorized: who?"),
        ((400, b"<html>"), Refused, "400"),
        ((503, b"later"), Unavailable, "503"),
        ((429, b"later"), Unavailable, "429"),
        ((302, b"http://127.0.0.1:1/other"), Refused, "redirect"),
        ((200, b"x" * (2 << 20)), Refused, "more than 1048576 bytes"),
        ((200, b"not json"), Refused, "returned no access_token"),
        ((200, b"[" * 100_000), Refused, "returned no access_token"),
        ((200, {"access_token": 7}), Refused, "returned no access_token"),
        ((200, ["access_token"]), Refused, "returned no access_token"),
    ],
)
def test_an_endpoint_that_gives_no_token_says_why(answer, kind, said):
    with serving(token=answer) as server, pytest.raises(kind, match=re.escape(said)) as caught:
        endpoint(server)()
    assert "hunter2" not in str(caught.value)


def test_a_request_has_an_end():
    with serving(token=(200, trickle)) as server, pytest.raises(Unavailable, match="within|the request to"):
        _http.request("GET", server.url + "/token", timeout=0.5)
    with pytest.raises(Unavailable, match="the request to .* failed"):
        _http.request("GET", "http://127.0.0.1:1/", timeout=5)


@pytest.mark.needs("openssl")
def test_an_endpoint_of_an_unknown_authority_is_not_trusted(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    with serving(token=(200, {"access_token": "abc"})) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        settings = {PREFIX + "token.endpoint.url": server.url.replace("http:", "https:") + "/token", **CLIENT}
        with pytest.raises(Refused, match=r"https\.ca\.location"):
            Endpoint(settings, {})()
        assert Endpoint({**settings, "https.ca.location": str(cert)}, {})().value == "abc"


@pytest.mark.parametrize(
    ("url", "plain", "fine"),
    [
        ("https://idp.example/token", "", True),
        ("http://127.0.0.1:8080/token", "true", True),
        ("http://localhost/token", "true", True),
        ("http://[::1]:80/token", "true", True),
        ("http://127.0.0.1:8080/token", "", False),
        ("http://idp.example/token", "true", False),
        ("http://127.0.0.1.example/token", "true", False),
        ("file:///etc/passwd", "true", False),
        ("ftp://127.0.0.1/x", "true", False),
        ("https://me:hunter2@idp.example/", "", False),
        ("https://idp.example:99999/", "", False),
        ("token", "", False),
    ],
)
def test_endpoints_are_https(url, plain, fine):
    """A token's URL read files and reached inner hosts.

    Rule: CVE-2025-27817.
    """
    settings = {PREFIX + "token.endpoint.url": url, "sasl.allow.plaintext": plain, **CLIENT}
    if fine:
        Endpoint(settings, {})
        return
    with pytest.raises(ConfigError, match="token.endpoint.url") as caught:
        Endpoint(settings, {})
    assert "hunter2" not in str(caught.value)


# --- callbacks, and what is kept


class Asked:
    """A request of a connection."""

    kind = "token"
    connection = 1
    data = b""

    def __init__(self, host: str = "kafka-1") -> None:
        self.host = host
        self.given: list[tuple[bytes, Any]] = []

    def answer(self, data: bytes, **more: Any) -> None:
        self.given.append((data, more))


def jwt(**claims: object) -> str:
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def test_a_token_is_kept_for_most_of_its_life(monkeypatch):
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    made = iter(range(100))
    tokens = Tokens(lambda: Token(f"t{next(made)}", now + 100))

    def given() -> bytes:
        asked = Asked()
        tokens.answer(asked)
        return asked.given[0][0]

    assert [given(), given()] == [b"t0", b"t0"]
    now += 79
    assert given() == b"t0"
    now += 2
    assert given() == b"t1"
    tokens.forget()
    assert [given(), given()] == [b"t2", b"t2"]
    unknown = Tokens(lambda: Token(f"u{next(made)}"))
    tokens = unknown
    assert given() != given(), "of an unknown lifetime, none is kept"


def test_what_a_callback_returns_is_understood():
    now = time.time()
    for result, expires, extensions in [
        ("abc", None, {}),
        (b"abc", None, {}),
        (("abc", 60), now + 60, {}),
        (("abc", 60.5, {"traceId": "1"}), now + 60.5, {"traceId": "1"}),
        (("abc", {"traceId": "1"}), None, {"traceId": "1"}),
        (("abc", now + 60), now + 60, {}),
        (("abc", int(now * 1000) + 60_000), now + 60, {}),
        (("abc", None), None, {}),
    ]:
        token = read(result)
        assert token.value == "abc"
        assert token.expires == (expires and pytest.approx(expires, abs=30))
        assert token.extensions == extensions
    assert read(jwt(exp=now + 50)).expires == pytest.approx(now + 50)
    assert read("a.b.c").expires is None
    for wrong in [None, "", 7, (), ("abc", "soon"), ("abc", {"a": 1}), (b"\xff", 1), ("abc", float("nan"))]:
        with pytest.raises(Refused):
            read(wrong)


def test_tokens_show_no_secret():
    shown = [repr(Token("s3cret", 1.0)), repr(EXAMPLE), repr(_http.Response(200, "OK", b"s3cret"))]
    for text in shown:
        assert "s3cret" not in text
        assert EXAMPLE.secret_key not in text


def test_a_callback_of_a_loop_runs_on_it():
    async def main() -> None:
        seen = []

        async def token() -> str:
            seen.append(asyncio.get_running_loop())
            return "abc"

        wrapped = Callback(on_loop(token))
        assert (await asyncio.to_thread(wrapped)).value == "abc"
        assert seen == [asyncio.get_running_loop()]

    asyncio.run(main())
    assert on_loop("not callable") == "not callable"


@pytest.mark.parametrize(
    ("mechanism", "settings", "token", "said"),
    [
        ("OAUTHBEARER", {}, None, "sasl_token=callable"),
        ("OAUTHBEARER", {PREFIX + "method": "oidc"}, None, "token.endpoint.url: is required"),
        ("OAUTHBEARER", {PREFIX + "token.endpoint.url": "https://i/"}, None, "client.id: is required"),
        ("OAUTHBEARER", {PREFIX + "token.endpoint.url": "https://i/"}, str, "give either it or"),
        (
            "OAUTHBEARER",
            {
                PREFIX + "token.endpoint.url": "https://i/",
                PREFIX + "grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            },
            None,
            "private.key.file: is required",
        ),
        (
            "OAUTHBEARER",
            {PREFIX + "token.endpoint.url": "https://i/", **CLIENT, PREFIX + "extensions": "x"},
            None,
            "name=value",
        ),
        ("GSSAPI", {}, str, "not to GSSAPI"),
    ],
)
def test_settings_that_lead_nowhere_are_refused(mechanism, settings, token, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        provider(mechanism, settings, {}, token)


def test_a_callback_belongs_to_mechanisms_that_ask_for_one():
    for properties in [
        {},
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_username": "a",
            "sasl_password": "b",
        },
    ]:
        with pytest.raises(ConfigError, match="sasl_token: belongs to"):
            ottla.Admin("localhost:9092", sasl_token=lambda: "t", **properties)
    open_ = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match="not callable"):
        ottla.Admin("localhost:9092", sasl_token="t0ken", **open_)
    with pytest.raises(ConfigError, match="given twice"):
        ottla.Admin("localhost:9092", config={"sasl_token": str}, sasl_token=str, **open_)


# --- AWS


class Environment:
    ROLE: ClassVar = {
        "AccessKeyId": "ASIA1",
        "SecretAccessKey": "s3cret",
        "Token": "t0ken",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    FOUND: ClassVar = Credentials("ASIA1", "s3cret", "t0ken", 4070908800.0)


def find(environment: dict[str, str], profile: str | None = None, region: str | None = None) -> Credentials:
    alone = {"HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
    return _aws.Sources({**alone, **environment}, profile, region).find()


def test_aws_credentials_come_from_the_environment():
    pair = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    assert find(pair) == Credentials("AK", "s3cret")
    assert find({**pair, "AWS_SESSION_TOKEN": "t"}) == Credentials("AK", "s3cret", "t")
    with pytest.raises(Refused, match="without AWS_SECRET_ACCESS_KEY"):
        find({"AWS_ACCESS_KEY_ID": "AK"})
    with pytest.raises(Refused, match="no AWS credentials were found"):
        find({})


def test_aws_credentials_come_from_files(tmp_path):
    credentials, config = tmp_path / "credentials", tmp_path / "config"
    credentials.write_text(
        "[default]\naws_access_key_id = AK\naws_secret_access_key = s3%(x)cret\n"
        "[work]\naws_access_key_id=AW\naws_secret_access_key=w\naws_session_token=t\n"
    )
    config.write_text(
        "[profile run]\ncredential_process = touch /tmp/never\n[profile alone]\nrole_arn = arn:r\n"
        "[profile circle]\nrole_arn = arn:r\nsource_profile = circle2\n"
        "[profile circle2]\nrole_arn = arn:r\nsource_profile = circle\n"
    )
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_CONFIG_FILE": str(config)}
    assert find(files) == Credentials("AK", "s3%(x)cret")
    assert find({**files, "AWS_PROFILE": "work"}) == Credentials("AW", "w", "t")
    pair = {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "e"}
    assert find({**files, **pair}, "work") == Credentials("AW", "w", "t")
    for profile, said in [
        ("run", "credential_process"),
        ("alone", "source_profile"),
        ("circle", "source_profile"),
        ("absent", "no profile absent"),
    ]:
        with pytest.raises(Refused, match=said):
            find(files, profile, "eu-west-1")
    credentials.write_text("s3cret without a section")
    with pytest.raises(Refused, match="cannot be read") as caught:
        find(files)
    assert "s3cret" not in str(caught.value)


XML = (
    b"<R><Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s3cret</SecretAccessKey>"
    b"<SessionToken>t0ken</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></R>"
)


def test_aws_credentials_come_from_a_web_identity(tmp_path):
    identity = tmp_path / "identity"
    identity.write_text("j.w.t\n")
    environment = {"AWS_ROLE_ARN": "arn:r", "AWS_WEB_IDENTITY_TOKEN_FILE": str(identity), "AWS_REGION": "eu-west-1"}
    with serving(sts=(200, XML), no=(403, b"<E><Message>not you</Message></E>")) as server:
        assert find({**environment, "AWS_ENDPOINT_URL_STS": server.url + "/sts"}) == Environment.FOUND
        with pytest.raises(Refused, match="403 Forbidden: not you"):
            find({**environment, "AWS_ENDPOINT_URL_STS": server.url + "/no"})
        with pytest.raises(Refused, match="AWS_ENDPOINT_URL_STS must begin with https"):
            find({**environment, "AWS_ENDPOINT_URL_STS": "http://sts.example/"})
    form = parse_qs(server.asked[0][3].decode())
    assert (form["Action"], form["WebIdentityToken"]) == (["AssumeRoleWithWebIdentity"], ["j.w.t"])
    del environment["AWS_REGION"]
    with pytest.raises(Refused, match=r"sasl\.aws\.region"):
        find(environment)


def test_a_role_is_assumed_with_the_credentials_of_a_profile(tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "[profile role]\nrole_arn = arn:r\nsource_profile = base\n"
        "[profile base]\naws_access_key_id = AK\naws_secret_access_key = k\n"
    )
    with serving(**{"": (200, XML)}) as server:
        environment = {"AWS_CONFIG_FILE": str(config), "AWS_ENDPOINT_URL_STS": server.url + "/"}
        assert find(environment, "role", "eu-west-1") == Environment.FOUND
    _, _, headers, body = server.asked[0]
    assert b"Action=AssumeRole&" in body
    assert "Credential=AK/" in headers["authorization"]
    assert "content-type;host;x-amz-date" in headers["authorization"]


def test_aws_credentials_come_from_the_container():
    with serving(role=(200, Environment.ROLE), bad=(200, b"[]")) as server:
        environment = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/role",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "tk",
        }
        assert find(environment) == Environment.FOUND
        assert server.asked[0][2]["authorization"] == "tk"
        with pytest.raises(Refused, match="returned no JSON object"):
            find({"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/bad"})
    with pytest.raises(Refused, match="must begin with https"):
        find({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/role"})
    with pytest.raises(Refused, match="a header cannot contain"):
        find({**environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nb"})


def test_aws_credentials_come_from_the_machine():
    roles = "latest__meta-data__iam__security-credentials__"
    answers = {
        "latest__api__token": (200, b"session"),
        roles: (200, b"my-role"),
        roles + "my-role": (200, Environment.ROLE),
    }
    with serving(**answers) as server:
        environment = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url, "AWS_EC2_METADATA_DISABLED": ""}
        assert find(environment) == Environment.FOUND
        assert [asked[0] for asked in server.asked] == ["PUT", "GET", "GET"]
        assert server.asked[1][2]["x-aws-ec2-metadata-token"] == "session"
        server.answers["/" + roles.replace("__", "/")] = (200, b"../../elsewhere")
        with pytest.raises(Refused, match="an invalid role name"):
            find(environment)
    with pytest.raises(Refused, match="no AWS credentials were found"):
        find({**environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"})


def test_aws_iam_signs_for_each_broker_with_what_a_callback_gives():
    class Botocore:
        access_key, secret_key, token = "AK", "s3cret", None

    for token in (lambda: ("AK", "s3cret"), lambda: ["AK", "s3cret", None], Botocore):
        iam = provider("AWS_MSK_IAM", {}, {}, token)
        asked = Asked("b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com")
        iam.answer(asked)  # type: ignore[arg-type]
        document = json.loads(asked.given[0][0])
        assert document["host"] == asked.host
        assert "/eu-west-1/kafka-cluster/aws4_request" in document["x-amz-credential"]
        assert b"s3cret" not in asked.given[0][0]
    with pytest.raises(Refused, match=r"sasl\.aws\.region"):
        _aws.region_of("192.0.2.1", {})
    assert _aws.region_of("192.0.2.1", {"AWS_REGION": "us-east-2"}) == "us-east-2"
    for wrong in [None, ("a",), ("a", 7), ("a", "b", 7)]:
        with pytest.raises(Refused, match="sasl_token returned"):
            _aws.read(wrong)


def test_no_secret_of_aws_is_said_at_any_level(monkeypatch, caplog):
    """Rule: 2.4.16."""
    key, other, session = "wJalrXUtnFEMI/K7MDENG+bPxRfi", "je7MtGbClwBF/2Zp9Utk+h3yCo8n", "AQoDYXdzEPT//session=="
    shown = Shown(caplog)
    with Broker(listeners=["SASL_PLAINTEXT mechanisms=AWS_MSK_IAM"], aws_keys={"AKIDEXAMPLE": key}) as broker:
        options = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_allow_plaintext": True,
            "sasl_mechanism": "AWS_MSK_IAM",
            "sasl_aws_region": "eu-west-1",
            "default_api_timeout_ms": 5000,
        }
        for secret, token in ((key, None), (key, session), (other, None)):
            given = ("AKIDEXAMPLE", secret, token)
            shown.of_every_client(sasl_token=lambda given=given: given, **options)
        environment = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": key, "AWS_SESSION_TOKEN": session}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        shown.of_client(**options)
        login = f'x.IAMLoginModule required awsProfileName="{other}";'
        shown.of_client(sasl_jaas_config=login, **options)
    assert shown.has("AWS_MSK_IAM")
    assert shown.has("connected"), "the right key is let in"
    # A signature is 64 hexadecimal digits, and lets in whoever says it within its time.
    assert [text for text in shown.texts() if re.search(r"\b[0-9a-f]{64}\b", text)] == []
    assert shown.found([key, session]) == []


@pytest.mark.parametrize(
    ("mechanism", "waited_for"),
    [
        ("OAUTHBEARER", "a token, from sasl_token or from the token endpoint"),
        ("AWS_MSK_IAM", "AWS credentials, from sasl_token or from where they are looked up"),
    ],
)
def test_a_callback_that_hangs_is_named(mechanism, waited_for):
    released = threading.Event()
    keys = {"aws_keys": {"AKIDEXAMPLE": "key"}} if mechanism == "AWS_MSK_IAM" else {}
    with Broker(listeners=[f"SASL_PLAINTEXT mechanisms={mechanism}"], **keys) as broker:
        options = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_allow_plaintext": True,
            "sasl_mechanism": mechanism,
            **({"sasl_aws_region": "eu-west-1"} if mechanism == "AWS_MSK_IAM" else {}),
            "socket_connection_setup_timeout_ms": 500,
            "default_api_timeout_ms": 5000,
        }
        try:
            with (
                ottla.Admin(broker.bootstrap_servers, sasl_token=released.wait, **options) as admin,
                pytest.raises(ottla.errors.UnreachableError, match=f"the client still waits for {waited_for}"),
            ):
                admin.list_topics()
        finally:
            released.set()


class StubbedError(Exception):
    """As botocore's root of errors."""


class StubbedTransportError(StubbedError):
    pass


class StubbedClientError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class StubbedSession:
    """As `botocore.session.Session`: `results` are returned or raised, one after the other."""

    made: ClassVar[list[StubbedSession]] = []
    results: ClassVar[list[Any]] = []

    def __init__(self, profile: str | None) -> None:
        self.profile, self.variables = profile, {}
        self.made.append(self)

    def set_config_variable(self, name: str, value: str) -> None:
        self.variables[name] = value

    def get_credentials(self) -> Any:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result and SimpleNamespace(get_frozen_credentials=lambda: SimpleNamespace(**result))


@pytest.fixture
def botocore(monkeypatch) -> type[StubbedSession]:
    errors = {
        "BotoCoreError": StubbedError,
        "ClientError": StubbedClientError,
        "HTTPClientError": StubbedTransportError,
        "MetadataRetrievalError": StubbedTransportError,
        "SSLError": type("SSLError", (StubbedTransportError,), {}),
    }
    package, exceptions, session = (ModuleType(f"botocore{name}") for name in ("", ".exceptions", ".session"))
    exceptions.__dict__.update(errors)
    session.Session, package.exceptions = StubbedSession, exceptions
    for module in (package, exceptions, session):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "ottla._sasl._botocore", raising=False)
    StubbedSession.made, StubbedSession.results = [], []
    yield StubbedSession
    sys.modules.pop("ottla._sasl._botocore", None)


FIRST = {"access_key": "first", "secret_key": "s1", "token": None}
SECOND = {"access_key": "second", "secret_key": "s2", "token": "t2"}


def test_botocore_finds_credentials_where_it_is_installed(botocore, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ours")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    source = _aws.MskIam({"sasl.aws.profile": "dev", "sasl.aws.region": "eu-west-1"}, {}, None)
    assert not botocore.made, "a client that is made imports and asks nothing"
    botocore.results = [FIRST, SECOND, SECOND]
    # botocore keeps what it found, and refreshes it: it is asked each time.
    assert source._credentials() == _sigv4.Credentials("first", "s1", None)
    assert source._credentials() == _sigv4.Credentials("second", "s2", "t2")
    (session,) = botocore.made
    assert (session.profile, session.variables) == ("dev", {"region": "eu-west-1"})
    source.forget()
    source._credentials()
    assert len(botocore.made) == 2, "what a broker refused is found again"


def test_a_role_is_assumed_with_the_credentials_of_botocore(botocore, monkeypatch):
    botocore.results = [FIRST]
    source = _aws.MskIam({}, {"awsRoleArn": "arn:role", "awsStsRegion": "eu-west-1"}, None)
    monkeypatch.setattr(source._sources, "assumed", lambda role, base: (role, base.access_key))
    assert source._fetch() == ("arn:role", "first")


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (None, Refused),
        (StubbedError("the SSO session has expired"), Refused),
        (StubbedTransportError("no route"), Unavailable),
        (StubbedClientError(403), Refused),
        (StubbedClientError(429), Unavailable),
        (StubbedClientError(503), Unavailable),
    ],
)
def test_failures_of_botocore_are_told_apart(botocore, result, kind):
    botocore.results = [result]
    with pytest.raises(kind, match="botocore found no AWS credentials") as caught:
        _aws.MskIam({}, {}, None)._credentials()
    assert result is None or str(result) in str(caught.value)


def test_without_botocore_our_own_chain_finds_credentials(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.delitem(sys.modules, "ottla._sasl._botocore", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ours")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert _aws.MskIam({}, {}, None)._credentials() == _sigv4.Credentials("ours", "secret", None)
