"""The crate schema_registry_converter with the embedded registry and with ottla's serdes: each reads what the other has written.

Confluent's own serdes for Java are not on Maven Central; its Python client's tests are those of `python -m tests.judges registry`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import ottla
from ottla.testing import Broker, Registry

pytestmark = [pytest.mark.needs("cargo")]
SOURCE = Path(__file__).parent / "converter"
TARGET = Path(__file__).parents[2] / "target" / "converter"
# Seconds: for the program with what it depends on, and for a value.
BUILD, ANSWER = 900, 60
SCHEMAS = {
    "avro": json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "long"}],
        }
    ),
    "json": json.dumps(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Order",
            "type": "object",
            "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["item", "count"],
        }
    ),
    "protobuf": 'syntax = "proto3"; message Order { string item = 1; int32 count = 2; }',
}
ORDER = {"item": "pen", "count": 3}


@pytest.fixture(scope="module")
def program():
    command = ["cargo", "build", "--locked", "--manifest-path", SOURCE / "Cargo.toml"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    built = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD, check=False)
    assert built.returncode == 0, built.stderr
    return TARGET / "debug" / "converter"


def answered(program, registry, verb, form, what):
    command = [program, registry.url, "orders", json.dumps(SCHEMAS)]
    line = f"{verb} {form} {what}\n"
    ended = subprocess.run(command, input=line, capture_output=True, text=True, timeout=ANSWER, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("form", SCHEMAS)
def test_ottla_reads_what_the_crate_writes(program, form):
    topic = f"orders-{form}"
    with Broker(topics=[topic]) as broker, Registry() as registry:
        value = bytes.fromhex(answered(program, registry, "encode", form, json.dumps(ORDER)))
        assert ottla.SchemaRegistry(registry.url).latest(f"{topic}-value").version == 1
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many(topic, [value]).result(30)
        rows = ottla.read(broker.bootstrap_servers, topic).decode(format=form, registry=registry.url).to_arrow()
        assert rows.select(["item", "count"]).to_pylist() == [ORDER]


@pytest.mark.parametrize("form", SCHEMAS)
def test_the_crate_reads_what_ottla_writes(program, form):
    topic = f"orders-{form}"
    with Registry() as registry:
        client = ottla.SchemaRegistry(registry.url)
        client.register(f"{topic}-value", SCHEMAS[form], form.upper())
        (value,) = ottla.Encoder(format=form, registry=client).encode([ORDER], topic=topic)
        assert json.loads(answered(program, registry, "decode", form, bytes(value).hex())) == ORDER


def test_the_crate_gets_the_id_that_the_schema_has(program):
    """A schema that is registered already keeps its id, whoever registers it again."""
    with Registry() as registry:
        number = ottla.SchemaRegistry(registry.url).register("orders-avro-value", SCHEMAS["avro"])
        value = bytes.fromhex(answered(program, registry, "encode", "avro", json.dumps(ORDER)))
        assert int.from_bytes(value[1:5], "big") == number
