"""A schema registry that is slow, down, strict or wrong, asked over HTTP and HTTPS."""

from __future__ import annotations

import json
import pickle
import threading
import uuid
from pathlib import Path

import pytest

import ottla
from ottla import errors
from tests import certificates
from tests.ports import held_port

INT = json.dumps("int")


def test_schemas_by_id_guid_version_and_subject(registry):
    guid = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    number = registry.add("a subject/with?signs", INT, guid=guid)
    asked = ottla.SchemaRegistry(registry.url + "/")
    latest = asked.latest("a subject/with?signs")
    assert (latest.type, latest.text, latest.id, latest.version) == ("AVRO", INT, number, 1)
    assert asked.version("a subject/with?signs", 1) == latest
    assert asked.schema(number).text == asked.schema(guid).text == asked.schema(guid.bytes).text == INT
    with pytest.raises(errors.NotFoundError, match="Schema not found"):
        asked.schema(99)


def test_what_has_an_id_is_asked_for_once_and_the_rest_travels(registry):
    number = registry.add("s", INT)
    asked = ottla.SchemaRegistry([registry.url])
    assert asked.schema(number) is asked.schema(number)
    assert registry.requests == [f"/schemas/ids/{number}"]
    again = pickle.loads(pickle.dumps(asked))
    assert again.schema(number) == asked.schema(number)
    assert len(registry.requests) == 2


def test_a_number_is_requested_with_its_subject_as_confluents_client_does(registry):
    """Each context counts its own numbers: without the subject, 1 is a schema of the default context."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    registry.add("orders-value", INT)
    registry.add(":.staging:orders-value", '"long"')
    registry.add(":.staging:lines-value", '"string"')
    theirs, asked = SchemaRegistryClient({"url": registry.url}), ottla.SchemaRegistry(registry.url)
    for number, subject in [
        (1, None),
        (1, "orders-value"),
        (1, ":.staging:orders-value"),
        (2, ":.staging:lines-value"),
        (2, "lines-value"),
        (2, ":.staging:"),
    ]:
        wanted = theirs.get_schema(number, subject_name=subject).schema_str
        of_theirs = registry.requests[-1]
        assert asked.schema(number, subject=subject).text == wanted
        assert registry.requests[-1] == of_theirs
        # What is known of one subject is no answer for another one.
        before = len(registry.requests)
        assert asked.schema(number, subject=subject).text == wanted
        assert len(registry.requests) == before
    with pytest.raises(errors.NotFoundError, match=r"subject=%3A.staging%3Aother"):
        asked.schema(1, subject=":.staging:other")


def test_a_guid_means_the_same_in_all_contexts(registry):
    guid = uuid.UUID(int=77)
    registry.add(":.staging:orders-value", INT, guid=guid)
    asked = ottla.SchemaRegistry(registry.url)
    assert asked.schema(guid, subject="orders-value") is asked.schema(guid)
    assert registry.requests == [f"/schemas/guids/{guid}"]


def test_the_descriptors_of_protobuf_are_those_of_the_subject(registry):
    registry.add("a", "syntax", kind="PROTOBUF", serialized="AAAA")
    registry.add(":.staging:a b", "syntax", kind="PROTOBUF", serialized="BBBB")
    asked = ottla.SchemaRegistry(registry.url)
    assert asked.schema(1, subject=":.staging:a b").text == "BBBB"
    path = "/schemas/ids/1?subject=%3A.staging%3Aa%20b"
    assert registry.requests == [path, f"{path}&format=serialized"]
    assert asked.schema(1).text == "AAAA"


def test_references_are_in_the_context_of_what_names_them(registry):
    """As Java's client resolves them, and with versions that were deleted."""
    reference = [{"name": "a", "subject": "a", "version": 1}]
    registry.add("a", '"default"')
    registry.add(":.staging:a", '"staging"')
    registry.add(":.staging:b", '"b"', references=reference)
    registry.add(":.staging:c", '"c"', references=[{"name": "a", "subject": ":.other:a", "version": 1}])
    registry.add(":.other:a", '"other"')
    asked = ottla.SchemaRegistry(registry.url)
    assert asked.latest(":.staging:b").references == ('"staging"',)
    assert registry.requests[-1] == "/subjects/%3A.staging%3Aa/versions/1?deleted=true"
    assert asked.schema(2, subject=":.staging:b").references == ('"staging"',)
    assert asked.latest(":.staging:c").references == ('"other"',)
    registry.add("b", '"b"', references=reference)
    assert asked.latest("b").references == ('"default"',)


def test_references_come_in_the_order_in_which_they_are_needed(registry):
    registry.add("a", '"a"')
    registry.add("b", '"b"', references=[{"name": "a", "subject": "a", "version": 1}])
    both = [{"name": name, "subject": name, "version": 1} for name in ("b", "a")]
    registry.add("c", '"c"', references=both)
    assert ottla.SchemaRegistry(registry.url).latest("c").references == ('"a"', '"b"')
    registry.add("loop", '"l"', references=[{"name": "l", "subject": "loop", "version": 1}])
    with pytest.raises(errors.ProtocolError, match="refers to itself"):
        ottla.SchemaRegistry(registry.url).latest("loop")


def test_credentials(registry):
    registry.add("s", INT)
    ottla.SchemaRegistry(registry.url, auth=("u", "pä"), headers={"target-sr-cluster": "c"}).latest("s")
    assert registry.seen["authorization"] == "Basic dTpww6Q="
    assert registry.seen["target-sr-cluster"] == "c"
    tokens = iter(["one", "two"])
    asked = ottla.SchemaRegistry(registry.url, token=lambda: next(tokens))
    asked.latest("s")
    asked.latest("s")
    assert registry.seen["authorization"] == "Bearer two"
    for status, expected in [(401, errors.AuthenticationError), (403, errors.AuthorizationError)]:
        registry.fault = lambda path, status=status: (status, b'{"message":"no"}')
        asked = ottla.SchemaRegistry(registry.url, auth=("u", "p"))
        with pytest.raises(expected, match="no"):
            asked.latest("s")
    assert "pä" not in repr(ottla.SchemaRegistry(registry.url, auth=("u", "pä")))


def test_servers_that_cannot_answer_now_are_asked_again(registry):
    registry.add("s", INT)
    answers = iter([(503, b"busy"), (429, b""), None])
    registry.fault = lambda path: next(answers)
    assert ottla.SchemaRegistry(registry.url).latest("s").text == INT
    assert len(registry.requests) == 3
    registry.fault = lambda path: (500, b'{"message":"disk"}')
    with pytest.raises(errors.UnreachableError, match="status 500: disk"):
        ottla.SchemaRegistry(registry.url, retries=1).latest("s")
    assert len(registry.requests) == 5


def test_another_server_is_asked_when_one_is_down(registry):
    registry.add("s", INT)
    with held_port() as port:
        dead = f"http://127.0.0.1:{port}"
        assert ottla.SchemaRegistry(f"{dead}, {registry.url}").latest("s").text == INT
        with pytest.raises(errors.UnreachableError, match="did not return /subjects/s"):
            ottla.SchemaRegistry(dead, retries=1).latest("s")


def test_every_wait_ends(registry):
    end = threading.Event()
    registry.fault = lambda path: end.wait(20) and None
    try:
        with pytest.raises(errors.KafkaTimeoutError, match="within 0.2 seconds"):
            ottla.SchemaRegistry(registry.url, timeout=0.2).latest("s")
    finally:
        end.set()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"schema":5}', b'{"schema":"x","references":[1]}'])
def test_what_is_no_registry_is_said_so(registry, body):
    registry.fault = lambda path: (200, body)
    with pytest.raises(errors.ProtocolError, match="schema registry"):
        ottla.SchemaRegistry(registry.url).latest("s")


def test_options_that_can_never_work():
    for arguments, text in [
        ({"url": "localhost:8081"}, "begin with http"),
        ({"url": ""}, "needs a URL"),
        ({"url": "http://h", "auth": ("a", "b"), "token": "t"}, "exclude each other"),
        ({"url": "http://h", "timeout": 0}, "above 0"),
        ({"url": "http://h", "headers": {"a: b": "c"}}, "name of a header"),
        ({"url": "https://h", "ca": "/nowhere.pem"}, "certificates"),
    ]:
        with pytest.raises(errors.ConfigError, match=text):
            ottla.SchemaRegistry(**arguments)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret@host",
        "https://secret@host:8081/path",
        "user:secret@host",
        "http://user:se,cret@host",
        "http://user:8081/secret@host",
        ["http://host", "http://user:secret@[::1"],
    ],
)
def test_a_password_in_a_url_is_refused_and_not_shown(url):
    with pytest.raises(errors.ConfigError, match="pass auth=") as raised:
        ottla.SchemaRegistry(url)
    assert "cret" not in "".join(map(repr, [raised.value, raised.value.__cause__, raised.value.__context__]))
    for wrong in ["http://host:port", "http://host:99999", "http://[::1", "http://"]:
        with pytest.raises(errors.ConfigError, match="begin with http"):
            ottla.SchemaRegistry(wrong)
    with pytest.raises(errors.ConfigError, match="end with its path") as raised:
        ottla.SchemaRegistry("http://host/?token=secret")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("value", ["secret\n", "secret\r\nHost: other", "secret\0", "secr€t", b"secret"])
def test_a_header_that_ends_its_line_is_refused_and_not_shown(registry, value):
    registry.add("s", INT)
    later = ottla.SchemaRegistry(registry.url, token=lambda: value)
    for refused in [
        lambda: ottla.SchemaRegistry(registry.url, token=value),
        lambda: ottla.SchemaRegistry(registry.url, headers={"X-Key": value}),
        lambda: later.latest("s"),
    ]:
        with pytest.raises(errors.ConfigError, match="the header '(Authorization|X-Key)'") as raised:
            refused()
        chain = [raised.value, raised.value.__cause__, raised.value.__context__]
        assert "secr" not in "".join(map(repr, chain))
    assert registry.requests == []


def test_https_with_an_authority_of_its_own(registry, tmp_path):
    registry.add("s", INT)
    authority = certificates.Authority(tmp_path / "tls")
    shown, ours = authority.issue("registry"), authority.issue("client")
    with certificates.front(registry.port, shown, clients=authority.ca) as port:
        url = f"https://localhost:{port}"
        pem = Path(authority.ca).read_text()
        for ca in (authority.ca, pem):
            asked = ottla.SchemaRegistry(
                url, ca=ca, certificate=ours.pem, key=ours.encrypted_key, key_password=certificates.PASSWORD
            )
            assert asked.latest("s").text == INT
        with pytest.raises(errors.UnreachableError, match="certificate verify failed"):
            ottla.SchemaRegistry(url, certificate=ours.pem, key=ours.key).latest("s")
        with pytest.raises(errors.UnreachableError):
            ottla.SchemaRegistry(url, ca=authority.ca, retries=0).latest("s")
