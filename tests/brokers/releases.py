"""Clients of this project on real brokers of each generation: one release is examined, or the table of all is printed.

    python -m tests.brokers.releases                      # every release of RELEASES, as Markdown
    python -m tests.brokers.releases 0.8.2.2 4.4.0        # these

A release's own console producer and consumer take part: they read what ours wrote, and ours read what they wrote.
"""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import ottla
from ottla import aio
from ottla.errors import UnsupportedError
from tests.brokers.brokers import BORROWED, ask, fetch, java_tool, vt
from tests.brokers.running import running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.brokers.brokers import Cluster

RELEASES = [
    "0.8.2.2",
    "0.9.0.1",
    "0.10.0.1",
    "0.10.2.2",
    "0.11.0.3",
    "1.1.1",
    "2.3.1",
    "2.8.2",
    "3.9.1",
    "4.0.2",
    "4.4.0",
]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NEGOTIATED = ["Produce", "Fetch", "ListOffsets", "Metadata"]
API_VERSIONS = 18
DEADLINE = 60.0
STEP = 1_000
BEGIN = 1_600_000_000_000
"""The timestamp of a topic's first record; each that follows is a second later."""
RECORDS = 3
"""Of each codec."""
ATTEMPTS = 5
"""The console producer of 0.9 sometimes ends, with success, before it has sent anything."""
YES, REFUSED = "yes", "refused"


@dataclass
class Findings:
    """What works on a release; each cell is what was seen."""

    release: str
    versions: dict[str, int] = field(default_factory=dict)
    """The negotiated version of each API."""
    codecs: dict[str, str] = field(default_factory=dict)
    """Written and read again by ours, byte for byte."""
    their_consumer: str = ""
    """How many of our records the release's own consumer printed."""
    their_producer: dict[str, str] = field(default_factory=dict)
    """By codec, whether ours read what the release's own producer wrote."""
    told: bytes = b""
    """The answer to ApiVersions 0, of releases that have one."""
    timestamps: str = ""
    headers: str = ""
    by_time: str = ""
    topics: str = ""
    asyncio: str = ""
    shell: str = ""


class Versions(logging.Handler):
    """Notes the version of every answered request."""

    LINE = re.compile(r"responded to (\w+) (\d+) in")

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if found := self.LINE.search(record.getMessage()):
            self.seen[found[1]] = int(found[2])


def has_timestamps(release: str) -> bool:
    return vt(release) >= (0, 10)


def tells_versions(release: str) -> bool:
    return vt(release) >= (0, 10)


def examine(release: str, folder: Path, theirs: Sequence[str] = CODECS) -> Findings:
    """Start a broker of the release, and use it in every way. `theirs`: the codecs that its own producer is tried with."""
    found, versions = Findings(release), Versions()
    logger = logging.getLogger("ottla.connection")
    before = logger.level
    logger.addHandler(versions)
    logger.setLevel(logging.DEBUG)
    try:
        with running(folder, version=release) as cluster:
            bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
            if tells_versions(release):
                found.told = ask(cluster.ports["PLAINTEXT"], API_VERSIONS, timeout=DEADLINE)
            found.topics = topics(bootstrap)
            for codec in CODECS:
                found.codecs[codec] = codec_works(bootstrap, codec, release)
            written = [codec for codec in CODECS if found.codecs[codec] == YES]
            found.timestamps = YES if has_timestamps(release) else "none"
            found.headers = headers(bootstrap)
            found.by_time = by_time(bootstrap)
            found.asyncio = asyncio.run(with_asyncio(bootstrap))
            found.shell = at_the_shell(bootstrap)
            found.their_consumer = consumed(cluster, release, len(written) * RECORDS)
            for codec in theirs:
                found.their_producer[codec] = produced(bootstrap, release, codec) if codec in written else "-"
    finally:
        logger.removeHandler(versions)
        logger.setLevel(before)
    found.versions = {api: versions.seen[api] for api in NEGOTIATED}
    return found


def topics(bootstrap: str) -> str:
    """Topics made by Admin; brokers that cannot are said so, and make one at the first send."""
    with ottla.Admin(bootstrap) as admin:
        try:
            admin.create_topics([ottla.NewTopic(name, 1, 1) for name in ("ours", "stamped", "theirs", "aio", "shell")])
        except UnsupportedError as error:
            assert "CreateTopics needs brokers of Kafka 0.10.1" in str(error)
            assert "ours" not in admin.list_topics()
            return REFUSED
        wait_until(lambda: "shell" in admin.list_topics(), "the topics are known")
    return YES


def codec_works(bootstrap: str, codec: str, release: str) -> str:
    """Records of this codec at the end of topic `ours`, read again from their first offset."""
    pairs = [(f"{codec}-{n}".encode(), f"{codec} {n} ".encode() + b"x" * 500) for n in range(RECORDS)]
    try:
        with ottla.Producer(bootstrap, compression_type=codec, linger_ms=50) as producer:
            sent = [producer.send("ours", v, key=k, timestamp=BEGIN + STEP * n) for n, (k, v) in enumerate(pairs)]
            stored = [delivery.result(DEADLINE) for delivery in sent]
    except UnsupportedError as error:
        assert f"compression.type={codec} needs brokers of Kafka 2.1" in str(error)
        return REFUSED
    offsets = [row.offset for row in stored]
    read = records(bootstrap, "ours", offsets[0], RECORDS)
    times = [BEGIN + STEP * n if has_timestamps(release) else -1 for n in range(RECORDS)]
    assert [row.timestamp for row in stored] == times
    assert [(r.offset, r.timestamp, r.key, r.value) for r in read] == [
        (o, t, k, v) for o, t, (k, v) in zip(offsets, times, pairs, strict=True)
    ]
    return YES


def headers(bootstrap: str) -> str:
    pairs = [("trace", b"\x00\xff"), ("empty", None)]
    with ottla.Producer(bootstrap) as producer:
        try:
            stored = producer.send("stamped", b"value", headers=pairs).result(DEADLINE)
        except UnsupportedError as error:
            assert "a record with headers needs brokers of Kafka 0.11" in str(error)
            assert error.topic == "stamped"
            return REFUSED
    assert list(records(bootstrap, "stamped", stored.offset, 1)[0].headers) == pairs
    return YES


def by_time(bootstrap: str) -> str:
    """The offset of a time: exact, or that of the file of the log that holds it."""
    with ottla.Producer(bootstrap) as producer:
        for n in range(10):
            stored = producer.send("times", b"%d" % n, timestamp=BEGIN + STEP * n).result(DEADLINE)
    place = ottla.TopicPartition("times", 0)
    with ottla.Consumer(bootstrap) as consumer:
        found = consumer.offsets_for_times({place: BEGIN + STEP * 7})[place]
        ends = consumer.end_offsets([place])[place], consumer.beginning_offsets([place])[place]
    assert ends == (stored.offset + 1, 0)
    assert found is not None
    if found.timestamp == -1:
        assert found.offset <= 7
        return "by file"
    assert (found.offset, found.timestamp) == (7, BEGIN + STEP * 7)
    return "exact"


async def with_asyncio(bootstrap: str) -> str:
    async with aio.Producer(bootstrap) as producer:
        stored = await (await producer.send("aio", b"value", key=b"key"))
    async with aio.Consumer(bootstrap) as consumer:
        consumer.assign([ottla.TopicPartition("aio", 0, stored.offset)])
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            for record in await consumer.poll(10):
                assert (record.key, record.value) == (b"key", b"value")
                return YES
    raise AssertionError("no record by asyncio")


def at_the_shell(bootstrap: str) -> str:
    ours = [sys.executable, "-m", "ottla"]
    send = [*ours, "produce", "-b", bootstrap, "-t", "shell"]
    subprocess.run(send, input=b"one\ntwo\n", check=True, timeout=DEADLINE, capture_output=True)
    read = [*ours, "consume", "-b", bootstrap, "-t", "shell", "--beginning", "--max", "2"]
    done = subprocess.run(read, check=True, timeout=DEADLINE, capture_output=True)
    assert done.stdout == b"one\ntwo\n", done
    return YES


# ------------------------------------------------------------------------------------- the release's own programs


@cache
def program(release: str, name: str) -> str:
    """The main class of a console program, which moved between releases."""
    folder = fetch(BORROWED.get(release, release))
    known = [f"kafka.tools.{name}", f"org.apache.kafka.tools.{name}", f"org.apache.kafka.tools.consumer.{name}"]
    for jar in [*folder.glob("kafka_*.jar"), *folder.glob("kafka-tools-*.jar")]:
        with zipfile.ZipFile(jar) as opened:
            inside = set(opened.namelist())
        for main in known:
            if main.replace(".", "/") + ".class" in inside:
                return main
    raise AssertionError(f"{release} has no {name}")


def consumed(cluster: Cluster, release: str, count: int) -> str:
    """How many of our records the release's own consumer reads."""
    bootstrap = cluster.st["bootstrap"]["PLAINTEXT"]
    where = (
        ("--zookeeper", f"127.0.0.1:{cluster.ports['ZOOKEEPER']}")
        if vt(release) < (0, 10, 1)
        else ("--bootstrap-server", bootstrap)
    )
    printed = java_tool(
        release,
        program(release, "ConsoleConsumer"),
        *(*where, "--topic", "ours", "--from-beginning", "--max-messages", str(count)),
        *("--property", "print.key=true", "--property", "key.separator=|"),
        timeout=DEADLINE,
    )
    lines = [line for line in printed.decode().splitlines() if "|" in line]
    wanted = [f"{c}-{n}|{c} {n} {'x' * 500}" for c in CODECS for n in range(RECORDS)][:count]
    assert lines == wanted, printed
    return f"{len(lines)} of {count}"


def produced(bootstrap: str, release: str, codec: str) -> str:
    """Whether ours read what the release's own producer writes with a codec."""
    servers = "--bootstrap-server" if vt(release) >= (2, 5) else "--broker-list"
    # Some old ones lose what they send first to a topic that is not there yet.
    with ottla.Producer(bootstrap) as producer:
        first = producer.send("theirs", b"ours").result(DEADLINE).offset + 1
    pairs = [(f"k{n}".encode(), f"{codec} {n} ".encode() + b"y" * 500) for n in range(RECORDS)]
    place = ottla.TopicPartition("theirs", 0)
    for _ in range(ATTEMPTS):
        java_tool(
            release,
            program(release, "ConsoleProducer"),
            *(servers, bootstrap, "--topic", "theirs"),
            *("--compression-codec", codec),
            *("--property", "parse.key=true", "--property", "key.separator=|"),
            data=b"".join(k + b"|" + v + b"\n" for k, v in pairs),
            timeout=DEADLINE,
        )
        with ottla.Consumer(bootstrap) as consumer:
            if consumer.end_offsets([place])[place] > first:
                break
    else:
        return "it wrote nothing"
    read = records(bootstrap, "theirs", first, RECORDS)
    assert [(r.offset, r.key, r.value) for r in read] == [(first + n, k, v) for n, (k, v) in enumerate(pairs)]
    assert all((r.timestamp > BEGIN) == has_timestamps(release) for r in read)
    return YES


# ------------------------------------------------------------------------------------------------------ small parts


def records(bootstrap: str, topic: str, offset: int, count: int) -> list[ottla.Record]:
    """So many records from an offset on."""
    found: list[ottla.Record] = []
    end = time.monotonic() + DEADLINE
    with ottla.Consumer(bootstrap) as consumer:
        consumer.assign([ottla.TopicPartition(topic, 0, offset)])
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count} records of {topic} in {DEADLINE:g} s"
            found.extend(consumer.poll(10))
    return found


def wait_until(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.05)


# ------------------------------------------------------------------------------------------------------- the table


def table(all_found: Sequence[Findings]) -> str:
    """The findings as Markdown, one line a release."""

    def codecs(of: dict[str, str]) -> str:
        return " ".join(codec for codec, cell in of.items() if cell == YES) + "".join(
            f" ({codec}: {cell})" for codec, cell in of.items() if cell not in {YES, REFUSED, "-"}
        )

    heads = ["Release", *NEGOTIATED, "Codecs", "Timestamps", "Headers", "Offsets by time", "Topics made"]
    heads += ["Its consumer reads ours", "Ours read its producer's", "asyncio", "Shell"]
    lines = [heads, ["---"] * len(heads)]
    for found in all_found:
        negotiated = [str(found.versions[api]) for api in NEGOTIATED]
        cells = [found.release, *negotiated, codecs(found.codecs), found.timestamps, found.headers, found.by_time]
        cells += [found.topics, found.their_consumer, codecs(found.their_producer), found.asyncio, found.shell]
        lines.append(cells)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def main() -> None:
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    all_found = []
    for release in sys.argv[1:] or RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            all_found.append(examine(release, Path(folder) / "kafka"))
        print(f"{release} is done", file=sys.stderr, flush=True)
    print(table(all_found), end="")


if __name__ == "__main__":
    main()
