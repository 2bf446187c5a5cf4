"""Producers send to partitions that their topic got after they learned of it, without waiting for old metadata."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ottla
from ottla import TopicPartition, aio, errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = pa.table({"value": [b"new"], "partition": pa.array([2], pa.int32())})

# Each sends a record to partition 2, by either facade.
WAYS: dict[str, Callable[[Any], Any]] = {
    "send": lambda producer: producer.send("flights", b"new", partition=2),
    "send_many": lambda producer: producer.send_many("flights", [b"new"], partitions=[2]),
    "send_arrow": lambda producer: producer.send_arrow("flights", ROWS),
}


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics=["flights"]) as broker:
        yield broker


def ends(kafka: Broker) -> list[int]:
    """How many records each partition has."""
    with ottla.Consumer(kafka.bootstrap_servers) as consumer:
        found = consumer.end_offsets([TopicPartition("flights", number) for number in range(3)])
    return [found[at] for at in sorted(found)]


@pytest.mark.parametrize("way", WAYS)
def test_a_record_for_a_new_partition_is_sent(kafka, way):
    with ottla.Producer(kafka.bootstrap_servers) as producer:
        producer.send("flights", b"old", partition=0).result(PATIENCE)
        kafka.create_partitions("flights", 3)
        WAYS[way](producer).result(PATIENCE)
    assert ends(kafka) == [1, 0, 1]


@pytest.mark.parametrize("way", WAYS)
def test_a_record_for_a_new_partition_is_sent_by_asyncio(kafka, way):
    async def main() -> None:
        async with aio.Producer(kafka.bootstrap_servers) as producer:
            await (await producer.send("flights", b"old", partition=0))
            kafka.create_partitions("flights", 3)
            sent = asyncio.create_task(send(producer))
            await asyncio.wait_for(sent, PATIENCE)

    async def send(producer: aio.Producer) -> None:
        await (await WAYS[way](producer))

    asyncio.run(main())
    assert ends(kafka) == [1, 0, 1]


def test_a_partition_that_does_not_come_is_named_with_how_many_there_are(kafka):
    with ottla.Producer(kafka.bootstrap_servers, max_block_ms=300) as producer:
        producer.partitions_for("flights", PATIENCE)
        why = r"there is no partition 7: the topic has 1, numbered from 0; it did not come within \d+ ms"
        with pytest.raises(errors.ArgumentError, match=why) as raised:
            producer.send("flights", b"lost", partition=7).result(PATIENCE)
        assert (raised.value.topic, raised.value.partition) == ("flights", 7)
        # Only the rows of such partitions fail, and but one of them is waited for.
        sent = producer.send_many("flights", [b"lost", b"sent"] * 50, partitions=[7, 0] * 50)
        failed = sent.errors
        assert sorted(failed) == list(range(0, 100, 2))
        assert all("there is no partition 7: the topic has 1" in str(error) for error in failed.values())
        with pytest.raises(errors.KafkaError, match="there is no partition 2147483647"):
            producer.send_arrow("flights", ROWS.set_column(1, "partition", pa.array([2**31 - 1]))).result(PATIENCE)
        with pytest.raises(errors.ArgumentError):
            producer.send("flights", b"lost", partition=-1).result(PATIENCE)
