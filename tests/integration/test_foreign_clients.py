"""The embedded broker under the clients of others: produce, consume, groups, and real Kafka's reader of its logs."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ottla.testing import Broker
from tests.brokers.brokers import java_tool
from tests.integration.conftest import PEERS, REAL, broker_process
from tests.integration.messages import CODECS, MESSAGES, PARTITIONS, Message, unordered
from tests.integration.peers.base import DEADLINE, until
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.java import VERSION, Java
from tests.integration.peers.ours import Ottla

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.peers.base import Member, Peer

GROUP_PEERS = [p for p in PEERS if p.values != ("java-console",)]  # whose assignment can be watched


@pytest.mark.parametrize("embedded", ["memory", "folder"], indirect=True, scope="module")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_reads_back_what_it_wrote(embedded: str, new_topic: Callable[..., str], peer: Peer, codec: str) -> None:
    topic = new_topic(embedded, PARTITIONS)
    sent = [m for message in MESSAGES if (m := peer.as_written(message))]
    peer.produce(embedded, topic, codec, sent)
    got = peer.consume(embedded, topic, PARTITIONS, len(sent))
    assert unordered(got, like=sent) == unordered(sent)
    for partition in range(PARTITIONS):
        offsets = [m.offset for m in got if m.partition == partition]
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_others_read_what_we_write(embedded: str, new_topic: Callable[..., str], peer: Peer) -> None:
    topic = new_topic(embedded, PARTITIONS)
    Ottla().produce(embedded, topic, "lz4", MESSAGES)
    assert unordered(peer.consume(embedded, topic, PARTITIONS, len(MESSAGES))) == unordered(MESSAGES)


class Reader(threading.Thread):
    """A group member that polls on a thread of its own until told to stop; then it leaves."""

    def __init__(self, join: Callable[[], Member]) -> None:
        super().__init__(daemon=True)
        self.join_group, self.got, self.owned = join, list[Message](), set[int]()
        self.stopping, self.failure = threading.Event(), list[BaseException]()
        self.start()

    def run(self) -> None:
        try:
            member = self.join_group()
            while not self.stopping.is_set():
                self.got += member.poll()
                self.owned = member.assignment()
            self.got += member.close()
        except BaseException as e:
            self.failure.append(e)

    def stop(self) -> list[Message]:
        """What it read in all, once it has left."""
        self.stopping.set()
        self.join(2 * DEADLINE)
        assert not self.is_alive(), "the member does not leave"
        if self.failure:
            raise self.failure[0]
        return self.got


def numbered(start: int, count: int, partitions: int) -> list[Message]:
    return [Message(b"%d" % i, b"value %d" % i, partition=i % partitions) for i in range(start, start + count)]


def values(messages: list[Message]) -> list[bytes | None]:
    return sorted((m.value for m in messages), key=lambda v: v or b"")


@pytest.mark.parametrize("peer", GROUP_PEERS, indirect=True)
def test_group_shares_partitions_and_goes_on_where_it_committed(
    embedded: str, new_topic: Callable[..., str], peer: Peer
) -> None:
    partitions, group = 4, f"group-{time.monotonic_ns()}"
    topic = new_topic(embedded, partitions)
    first, second = numbered(0, 400, partitions), numbered(400, 400, partitions)

    members = [Reader(lambda: peer.member(embedded, topic, group)) for _ in range(2)]
    for _ in until(DEADLINE, f"two members own all partitions; they have {[m.owned for m in members]}"):
        owned = [m.owned for m in members]
        if all(len(o) == partitions // 2 for o in owned) and set.union(*owned) == set(range(partitions)):
            break
        assert not any(m.failure for m in members), [m.failure for m in members]
        time.sleep(0.05)
    peer.produce(embedded, topic, "none", first)
    for _ in until(DEADLINE, "all messages are read"):
        if sum(len(m.got) for m in members) >= len(first):
            break
        time.sleep(0.05)
    read = [m.stop() for m in members]
    assert all(len(r) == len(first) // 2 for r in read)
    assert values(read[0] + read[1]) == values(first)

    peer.produce(embedded, topic, "none", second)
    later = Reader(lambda: peer.member(embedded, topic, group))
    for _ in until(DEADLINE, "the messages since the commit are read"):
        if len(later.got) >= len(second) or later.failure:
            break
        time.sleep(0.05)
    time.sleep(0.5)  # room for messages that must not come
    assert values(later.stop()) == values(second)


@REAL
@pytest.mark.parametrize(
    "embedded",
    # The other clients' groups go on in each of them.
    [*(pytest.param(where, marks=pytest.mark.nightly) for where in ("memory", "folder")), "process"],
    indirect=True,
    scope="module",
)
def test_java_goes_on_where_it_committed(embedded: str, new_topic: Callable[..., str]) -> None:
    java, topic = Java(), new_topic(embedded, 2)
    for start in (0, 50):
        sent = numbered(start, 50, 2)
        Confluent().produce(embedded, topic, "none", sent)
        got = java.consume_in_group(embedded, topic, "java", len(sent))
        assert values(got) == values(sent)


def test_committed_offsets_and_records_survive_a_restart(tmp_path: Path, new_topic: Callable[..., str]) -> None:
    client, first, second = Confluent(), numbered(0, 100, 2), numbered(100, 100, 2)

    def read(bootstrap: str, count: int) -> list[bytes | None]:
        reader = Reader(lambda: client.member(bootstrap, topic, "durable"))
        for _ in until(DEADLINE, f"{count} messages"):
            if len(reader.got) >= count or reader.failure:
                break
            time.sleep(0.05)
        return values(reader.stop())

    process = broker_process("--data-dir", tmp_path)
    bootstrap = next(process)
    topic = new_topic(bootstrap, 2)
    client.produce(bootstrap, topic, "zstd", first)
    assert read(bootstrap, len(first)) == values(first)
    process.close()

    with Broker(data_dir=tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        client.produce(bootstrap, topic, "zstd", second)
        assert read(bootstrap, len(second)) == values(second)
        assert len(client.consume(bootstrap, topic, 2, 200)) == 200


@REAL
@pytest.mark.parametrize("peer", GROUP_PEERS, indirect=True)
def test_kafka_reads_the_logs(tmp_path: Path, new_topic: Callable[..., str], peer: Peer) -> None:
    """Kafka's DumpLogSegments finds every batch valid, and the same records, in the folder of a stopped broker."""
    sent = [m for message in MESSAGES if (m := peer.as_written(message))]
    with Broker(data_dir=tmp_path) as broker:
        topic = new_topic(broker.bootstrap_servers, PARTITIONS)
        for codec in CODECS:
            peer.produce(broker.bootstrap_servers, topic, codec, sent)

    logs = sorted(str(log) for log in tmp_path.rglob(f"{topic}-*/*.log"))
    command = ["--files", ",".join(logs), "--deep-iteration"]
    printed = java_tool(VERSION, "org.apache.kafka.tools.DumpLogSegments", *command, timeout=DEADLINE).decode()
    assert "isvalid: false" not in printed
    dumps = printed.split("Dumping ")[1:]
    for partition in range(PARTITIONS):
        dump = "".join(each for each in dumps if f"/{topic}-{partition}/" in each.partition("\n")[0])
        assert set(re.findall(r"compresscodec: (\w+)", dump)) == set(CODECS)
        offsets = [int(x) for x in re.findall(r"^\| offset: (\d+)", dump, re.MULTILINE)]
        assert offsets == list(range(len(CODECS) * sum(m.partition == partition for m in sent)))
