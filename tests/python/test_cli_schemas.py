"""`ottla produce --encode-value` and `ottla consume --decode-value`, by a registry and by files."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

import ottla
from ottla.testing import Broker
from tests.python.decoding import FakeRegistry
from tests.python.shell import run

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"], "default": None}],
}
ROWS = [{"id": 1, "item": "ü"}, {"id": 2, "item": None}]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


@pytest.fixture(scope="module")
def address():
    with Broker(topics=["avro", "registered", "proto", "keys", "json"]) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def registry():
    registry = FakeRegistry()
    registry.add("registered-value", json.dumps(AVRO))
    yield registry
    registry.close()


def consumed(address, topic, *arguments):
    done = run("consume", "-b", address, topic, "-o", ":end", *arguments)
    assert (done.code, done.err) == (0, "")
    return done


def decoded(address, topic, *arguments):
    return [json.loads(line)["value"] for line in consumed(address, topic, "--format", "json", *arguments).lines]


def test_avro_files(address, tmp_path):
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(AVRO))
    encode = ("--format", "json-values", "--encode-value", f"avro:{path}")
    done = run("produce", "-b", address, "avro", *encode, "--continue", data=LINES + b'{"id": "x"}\n[]\n')
    assert done.code == 1
    assert [line.partition(": ")[2].partition(":")[0] for line in done.err.splitlines()[:2]] == ["line 3", "line 4"]
    values = [record.value for record in ottla.read(address, "avro")]
    assert [fastavro.schemaless_reader(io.BytesIO(value), AVRO) for value in values] == ROWS
    decode = ("--decode-value", f"avro:{path}")
    assert decoded(address, "avro", *decode) == ROWS
    assert [json.loads(line) for line in consumed(address, "avro", *decode).lines] == ROWS
    assert decoded(address, "avro", *decode, "-G", "j:id=2") == ROWS[1:]
    assert consumed(address, "avro", *decode, "-f", "%v %V\n").lines[1] == b'{"id": 2, "item": null} 23'
    table = pa.ipc.open_stream(consumed(address, "avro", *decode, "--format", "arrow").out).read_all()
    assert table["value"].to_pylist() == ROWS
    (_, line, _) = consumed(address, "avro", *decode, "--format", "csv", "--columns", "value").lines
    assert line == b'"{""id"": 1, ""item"": ""\xc3\xbc""}"'


def test_a_registry(address, registry):
    service = ("--registry", registry.url)
    encode = ("--format", "json-values", "--encode-value", "registry", *service)
    assert run("produce", "-b", address, "registered", *encode, data=LINES).code == 0
    (first, _) = ottla.read(address, "registered")
    assert first.value[:5] == b"\0\0\0\0\1"
    assert decoded(address, "registered", "--decode-value", "registry", *service) == ROWS
    done = run("consume", "-b", address, "avro", "-o", ":end", "--decode-value", "registry", *service)
    assert done.code == 1
    assert "the registry has no subject avro-value" in done.err


def test_protobuf_descriptors(address, tmp_path):
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    message.field.add(name="item", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
    path = tmp_path / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    rows = [{"id": 1, "item": "a"}, {"id": 2, "item": "b"}]
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    encode = ("--format", "json-values", "--encode-value", f"protobuf:{path}:shop.Order")
    assert run("produce", "-b", address, "proto", *encode, data=data).code == 0
    assert [record.value for record in ottla.read(address, "proto")] == [b"\x08\x01\x12\x01a", b"\x08\x02\x12\x01b"]
    assert decoded(address, "proto", "--decode-value", f"protobuf:{path}:shop.Order") == rows


def test_keys(address, tmp_path):
    path = tmp_path / "key.avsc"
    path.write_text(json.dumps(AVRO))
    line = json.dumps({"key": ROWS[0], "value": None}).encode()
    encode = ("--format", "json", "--encode-key", f"avro:{path}")
    assert run("produce", "-b", address, "keys", *encode, data=line).code == 0
    (shown,) = consumed(address, "keys", "--format", "json", "--decode-key", f"avro:{path}").lines
    assert (json.loads(shown)["key"], json.loads(shown)["value"]) == (ROWS[0], None)


def test_json_of_columns(address, tmp_path):
    path = tmp_path / "columns"
    path.write_text("id bigint")
    assert run("produce", "-b", address, "json", data=LINES).code == 0
    assert decoded(address, "json", "--decode-value", f"json:{path}") == [{"id": 1}, {"id": 2}]
    assert decoded(address, "json", "--decode-value", "json") == ROWS
    nothing = consumed(address, "json", "-G", "v:none", "--decode-value", "json", "--format", "arrow").out
    assert pa.ipc.open_stream(nothing).read_all().num_rows == 0
