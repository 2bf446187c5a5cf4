"""Real Kafka between ottla and every other client, both ways: what one writes, the other reads unharmed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.integration.conftest import PEERS, REAL
from tests.integration.messages import CODECS, MESSAGES, PARTITIONS, Message, unordered
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.ours import Ottla, from_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.brokers.brokers import Cluster
    from tests.integration.peers.base import Peer

pytestmark = REAL
OURS = Ottla()


@pytest.fixture(scope="module", params=list(CODECS))
def written(request: pytest.FixtureRequest, kafka: str, new_topic: Callable[..., str]) -> str:
    """A topic that ottla wrote all messages to, once per codec."""
    topic = new_topic(kafka, PARTITIONS)
    OURS.produce(kafka, topic, request.param, MESSAGES)
    return topic


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_others_read_what_we_write(kafka: str, written: str, peer: Peer) -> None:
    got = peer.consume(kafka, written, PARTITIONS, len(MESSAGES))
    assert unordered(got) == unordered(MESSAGES)
    for partition in range(PARTITIONS):
        mine = [m for m in got if m.partition == partition]
        assert [m.offset for m in mine] == list(range(len(mine)))
        assert [(m.key, m.value) for m in mine] == [(m.key, m.value) for m in MESSAGES if m.partition == partition]


def test_we_read_what_we_write(kafka: str, written: str) -> None:
    assert unordered(OURS.consume(kafka, written, PARTITIONS, len(MESSAGES))) == unordered(MESSAGES)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_we_read_what_others_write(kafka: str, new_topic: Callable[..., str], peer: Peer, codec: str) -> None:
    topic = new_topic(kafka, PARTITIONS)
    sent = [m for message in MESSAGES if (m := peer.as_written(message))]
    assert len(sent) > len(MESSAGES) / 2
    peer.produce(kafka, topic, codec, sent)

    records = OURS.consume(kafka, topic, PARTITIONS, len(sent))
    columns = from_columns(OURS.consume_columns(kafka, topic, PARTITIONS, len(sent)))

    assert unordered(records, like=sent) == unordered(sent)
    assert sorted(map(repr, columns)) == sorted(map(repr, records))


@pytest.mark.parametrize(("codec", "code"), CODECS.items())
def test_our_batches_lie_compressed_in_the_log(
    cluster: Cluster, kafka: str, new_topic: Callable[..., str], codec: str, code: int
) -> None:
    """The broker keeps a producer's compression, so the attributes in its log are those that we sent."""
    topic = new_topic(kafka)
    OURS.produce(kafka, topic, codec, [Message(b"k", b"compressible " * 1000)])
    logs = cluster.dir.glob(f"node1/{topic}-0/*.log")
    batch = next(logs).read_bytes()
    assert batch[16] == 2  # magic
    assert int.from_bytes(batch[21:23], "big") & 7 == code
    assert (len(batch) < 5000) == (codec != "none")


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_keys_go_where_others_send_them(kafka: str, new_topic: Callable[..., str], peer: Peer) -> None:
    """Java's murmur2, its sign bit cleared, over the number of partitions; keys of every length up to 40."""
    partitions = 7
    keyed = [Message(f"{'x' * (i % 40)}{i}".encode(), b"v") for i in range(300)]
    ours, theirs = new_topic(kafka, partitions), new_topic(kafka, partitions)
    OURS.produce(kafka, ours, "none", keyed)
    peer.produce(kafka, theirs, "none", keyed)

    places = []
    for topic in (ours, theirs):
        place: dict[bytes | None, int | None] = {}
        for m in Confluent().consume(kafka, topic, partitions, len(keyed)):
            place[m.key] = m.partition
        places.append(place)

    assert places[0] == places[1]
    assert len(set(places[0].values())) == partitions


def test_records_without_key_are_spread(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, 3)
    OURS.produce(kafka, topic, "none", [Message(None, b"v" * 1000) for _ in range(3000)], batch_size=16384)
    counts: dict[int | None, int] = defaultdict(int)
    for m in OURS.consume(kafka, topic, 3, 3000):
        counts[m.partition] += 1
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 300


async def test_async_twin_writes_and_reads(kafka: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(kafka, PARTITIONS)
    async with ottla.aio.Producer(kafka, compression_type="zstd", linger_ms=20) as producer:
        sent = [
            await producer.send(
                topic, m.value, key=m.key, partition=m.partition, timestamp=m.timestamp, headers=list(m.headers)
            )
            for m in MESSAGES
        ]
        reports = [await delivery for delivery in sent]
    got: list[Message] = []
    async with ottla.aio.Consumer(kafka) as consumer:
        consumer.assign([ottla.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        async for batch in consumer.batches():
            got += [Message(r.key, r.value, tuple(r.headers), r.timestamp, r.partition, r.offset) for r in batch]
            if len(got) >= len(MESSAGES):
                break
    assert unordered(got) == unordered(MESSAGES)
    assert {(r.partition, r.offset) for r in reports} == {(m.partition, m.offset) for m in got}
