"""Kafka's own classes as oracles: the programs in `java/`, compiled against the jars of a release and run.

Maven resolves the jars once, into the cache of `tests/brokers`; from then on no network is needed.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

from tests.brokers import jars
from tests.brokers.brokers import quick
from tests.brokers.jars import fetch, libs, resolve, sh
from tests.conformance import refusals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SOURCES = Path(__file__).parent / "java"
NEWEST, OLDER = "4.4.0", "3.9.1"
# Clients that describe their messages by Schema objects. Of these the client jar is enough, not the whole broker.
CLIENTS = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1")
# The record classes that the oracles name stand where 4.4 has them.
PROGRAMS = {
    NEWEST: (
        "SchemaOracle",
        "RecordsOracle",
        "OldJarsOracle",
        "KafkaReader",
        "RecordsReader",
        "MetricsOracle",
        "AssignorOracle",
        "PartitionOracle",
    ),
    OLDER: ("SchemaOracle", "KafkaReader", "AssignorOracle"),
}
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>clients</groupId><artifactId>jars</artifactId><version>{version}</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""
ASSIGNORS = "assignors.jsonl.gz"
KEPT_GROUPS = 120  # for each assignor
DEADLINE = 100  # seconds a program may take

needs_kafka = pytest.mark.needs("java", "javac", "mvn")


def client(version: str) -> Path:
    """The folder of an old client's jars."""
    return resolve(libs(f"clients-{version}"), POM.format(version=version))


@functools.cache
def class_path(version: str) -> str:
    """The programs, compiled for the release, and its jars; compiled again where a source is newer."""
    kafka = jars.class_path(fetch(version))
    sources = [SOURCES / f"{program}.java" for program in PROGRAMS[version]]
    classes = Path(__file__).parents[2] / "target" / "conformance" / version
    stamp = classes / "stamp"
    classes.mkdir(parents=True, exist_ok=True)
    with FileLock(classes / "lock"):
        if not stamp.exists() or stamp.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            sh("javac", "-nowarn", "-cp", kafka, "-d", classes, *sources)
            stamp.touch()
    # The jars come first: an archive of their classes fits a class path that begins with them.
    return f"{kafka}{os.pathsep}{classes}"


def run(version: str, program: str, *args: object, lines: Iterable[str] = ()) -> str:
    """What a program writes to its standard output, given these lines; a failure raises with its errors."""
    done = subprocess.run(
        ["java", *quick(version, "java"), "-Xmx1g", "-cp", class_path(version), program, *map(str, args)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=DEADLINE,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{program} of {version}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def generate(seed: int, into: Path, groups: int = KEPT_GROUPS) -> None:
    """Write the corpora as the releases make them under this seed; `groups` for each assignor."""
    newest = into / f"schemas-{NEWEST}.jsonl.gz"
    run(NEWEST, "SchemaOracle", f"kafka-{NEWEST}", seed, newest)
    run(OLDER, "SchemaOracle", f"kafka-{OLDER}", seed, into / f"schemas-{OLDER}-only.jsonl.gz", newest)
    old = [f"{version}={client(version)}" for version in CLIENTS]
    schemas = Path(__file__).parents[2] / "schemas"
    run(NEWEST, "OldJarsOracle", schemas, seed, into / "schemas-old-jars.jsonl.gz", *old)
    run(NEWEST, "RecordsOracle", seed, into / f"records-{NEWEST}.jsonl.gz")
    run(NEWEST, "AssignorOracle", seed, groups, into / ASSIGNORS)
    refusals.main(["--corpus", str(into), "--out", str(into / "refusals.jsonl.gz")])


def read_messages(messages: Sequence[tuple[str, int, bytes]]) -> list[dict[str, Any]]:
    """What Kafka reads from (name, version, bytes): `json`, or `error`; by the older release what the newest lacks."""
    answers: list[dict[str, Any]] = [{"absent": True}] * len(messages)
    for version in (NEWEST, OLDER):
        places = [i for i, answer in enumerate(answers) if "absent" in answer]
        if not places:
            break
        lines = (f"{name} {v} {data.hex()}" for name, v, data in (messages[i] for i in places))
        read = run(version, "KafkaReader", lines=lines).split("\n")[:-1]
        for i, line in zip(places, read, strict=True):
            answers[i] = json.loads(line)
    return answers


def read_records(sets: Sequence[bytes]) -> list[dict[str, Any]]:
    """What Kafka reads from bytes of batches and message sets, in the form of the records corpus."""
    read = run(NEWEST, "RecordsReader", lines=(data.hex() for data in sets)).split("\n")[:-1]
    return [json.loads(line) for line in read]
