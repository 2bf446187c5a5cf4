"""Random messages of every schema at every version: through ottla and back, and read by codecs that others wrote.

Without `OTTLA_SEED` the messages are the same in every run; `OTTLA_SEED=N pytest tests/property` tries others.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from typing import Any, NamedTuple

import kafka.protocol
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from kafka.protocol.api_message import ApiMessage

from ottla import protocol
from tests.conformance import kafka as java
from tests.property import schemas

SEED = os.environ.get("OTTLA_SEED")
EXAMPLES = 6
# The first example of a strategy is its simplest; of the others, how many a pair gives to other codecs.
SHARED = 4


class Sample(NamedTuple):
    name: str
    version: int
    message: dict[str, Any]
    data: bytes


def explore(name: str, version: int) -> list[Sample]:
    """Messages of one schema at one version, each of which came through ottla and back."""
    known = schemas.fields(name, version)
    samples = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=SEED is None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        # Large messages are wanted.
        suppress_health_check=list(HealthCheck),
    )
    @given(schemas.message(name, version))
    def round_trip(message: dict[str, Any]) -> None:
        data = protocol.encode(name, version, message)
        assert protocol.decode(name, version, data) == message
        as_json = schemas.to_json(known, message)
        assert protocol.decode(name, version, data, form="json") == as_json
        assert protocol.encode(name, version, as_json, form="json") == data
        samples.append(Sample(name, version, message, data))

    (round_trip if SEED is None else seed(int(SEED))(round_trip))()
    return samples


@functools.cache
def explored(name: str) -> list[Sample]:
    """Messages of one schema at all its versions."""
    found = schemas.versions(schemas.written()[name]["validVersions"])
    return [sample for version in found for sample in explore(name, version)]


@functools.cache
def shared() -> list[Sample]:
    """A few samples of every pair, the largest first: the simplest of all are alike."""
    found: dict[tuple[str, int], list[Sample]] = {}
    for name in schemas.written():
        for sample in explored(name):
            found.setdefault((sample.name, sample.version), []).append(sample)
    assert sorted(found) == sorted(schemas.pairs())
    return [s for of_pair in found.values() for s in sorted(of_pair, key=lambda s: -len(s.data))[:SHARED]]


def test_ottla_knows_every_schema_and_version_and_no_other():
    known = sorted((name, version) for name, spoken in protocol.MESSAGES.items() for version in spoken)
    assert known == sorted(schemas.pairs())


@pytest.mark.parametrize("name", sorted(schemas.written()))
def test_random_messages_round_trip(name):
    tried = {sample.version for sample in explored(name)}
    assert tried == set(schemas.versions(schemas.written()[name]["validVersions"]))


@java.needs_kafka
@pytest.mark.timeout(300)
def test_kafka_reads_what_ottla_writes():
    samples = shared()
    answers = java.read_messages([(s.name, s.version, s.data) for s in samples])
    absent, wrong = set(), []
    for sample, answer in zip(samples, answers, strict=True):
        if "absent" in answer:
            absent.add((sample.name, sample.version))
        elif answer.get("json") != schemas.to_json(schemas.fields(sample.name, sample.version), sample.message):
            wrong.append((sample.name, sample.version, sample.data.hex(), answer))
    assert not wrong, f"{len(wrong)} of {len(samples)} are read otherwise, such as {wrong[0]}"
    # What no jar has as JSON; tests/conformance has it from the jar of 0.8.2.
    assert absent == {("JoinGroup082Request", 0), ("JoinGroup082Response", 0)}


def kafka_python() -> dict[str, Any]:
    """The messages of kafka-python, by Kafka's names."""
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            importlib.import_module(module.name)
    found, rest = {}, [ApiMessage]
    while rest:
        for cls in rest.pop().__subclasses__():
            rest.append(cls)
            if getattr(cls, "_json", None) is not None and cls._class_version is None:
                found[cls._json["name"]] = cls
    return found


def without_unknown_tags(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_unknown_tags(v) for k, v in value.items() if k != schemas.UNKNOWN}
    return [without_unknown_tags(v) for v in value] if isinstance(value, list) else value


def test_kafka_python_reads_and_writes_the_same_bytes():
    codecs, compared, wrong = kafka_python(), set(), []
    for name, version, message, _ in shared():
        codec = codecs.get(name)
        # It reads ApiVersions responses in a way of its own, which gives up where there is an error code.
        if codec is None or version > codec.max_version or name == "ApiVersionsResponse":
            continue
        # It drops tagged fields that it does not know.
        data = protocol.encode(name, version, without_unknown_tags(message))
        read = codec.decode(data, version=version)
        read._header = None
        if bytes(read.encode(version=version)) != data:
            wrong.append((name, version, data.hex()))
        compared.add((name, version))
    assert not wrong, f"{len(wrong)} messages are written otherwise, such as {wrong[0]}"
    assert len(compared) > 500
