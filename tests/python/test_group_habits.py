"""What a consumer of a group does before its assignment, with paused partitions, and when the coordinator has lost the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.python.conftest import Api

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
SETTINGS: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("t", b"v", partition=number % 2)
        yield broker


@PROTOCOLS
@pytest.mark.parametrize("verb", ["seek_to_beginning", "seek_to_end"])
def test_a_seek_of_all_partitions_before_the_assignment_is_an_error(
    api: Api, broker: Broker, protocol: str, verb: str
) -> None:
    with api.consumer(broker.bootstrap_servers, **SETTINGS, group_protocol=protocol) as consumer:
        consumer.subscribe("t")
        with pytest.raises(errors.ArgumentError, match="has not assigned partitions yet.*on_assign"):
            getattr(consumer, verb)()
        # Java raises IllegalStateException for partitions that are named.
        with pytest.raises(errors.ArgumentError, match="not assigned"):
            getattr(consumer, verb)([("t", 0)])
        with pytest.raises(errors.ArgumentError, match="not assigned"):
            consumer.seek(("t", 0), 3)
        api.poll(consumer, 20)
        getattr(consumer, verb)()
        ends = {"seek_to_beginning": 0, "seek_to_end": 10}
        assert [api(consumer.position(("t", number))) for number in range(2)] == [ends[verb]] * 2


def test_topics_of_the_constructor_need_their_assignment_too(api: Api, broker: Broker) -> None:
    with (
        api.consumer(broker.bootstrap_servers, topics="t", **SETTINGS) as consumer,
        pytest.raises(errors.ArgumentError, match="has not assigned partitions yet"),
    ):
        consumer.seek_to_beginning()
    # Without a group they begin there.
    with api.consumer(broker.bootstrap_servers, topics="t") as consumer:
        consumer.seek_to_beginning()
        assert len(api.poll(consumer, 20)) == 20


def test_a_partition_that_is_assigned_again_with_an_offset_stays_paused(api: Api, broker: Broker) -> None:
    """As with Java, whose assign keeps what is still assigned, and whose seek does not resume."""
    with api.consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0), ("t", 1)])
        api.poll(consumer, 20)
        consumer.pause([("t", 0)])
        consumer.assign([ottla.TopicPartition("t", 0, 3), ottla.TopicPartition("t", 1, 7)])
        assert consumer.paused() == [ottla.TopicPartition("t", 0)]
        assert {(record.partition, record.offset) for record in api.poll(consumer, 3)} == {(1, 7), (1, 8), (1, 9)}
        consumer.resume([("t", 0)])
        assert [record.offset for record in api.poll(consumer, 7)] == list(range(3, 10))
        # Another partition in between is another assignment.
        consumer.pause([("t", 0)])
        consumer.assign([("t", 1)])
        consumer.assign([("t", 0)])
        assert consumer.paused() == []


@PROTOCOLS
@pytest.mark.parametrize("code", ["GROUP_ID_NOT_FOUND", "UNKNOWN_MEMBER_ID"])
def test_a_member_whose_group_is_gone_joins_again(api: Api, broker: Broker, protocol: str, code: str) -> None:
    """A coordinator that lost the group, or one that an administrator deleted, returns GROUP_ID_NOT_FOUND to OffsetCommit 9."""
    lost: list[list[ottla.TopicPartition]] = []
    with api.consumer(broker.bootstrap_servers, **SETTINGS, group_protocol=protocol) as consumer:
        consumer.subscribe("t", on_lost=lost.append)
        api.poll(consumer, 20)
        broker.fail("OffsetCommit", code)
        with pytest.raises(errors.CommitFailedError, match="Poll to join again") as caught:
            api(consumer.commit())
        assert caught.value.name == code
        api(consumer.poll(PATIENCE / 100))
        assert sorted(partition.partition for partition in lost[0]) == [0, 1]


def test_metadata_of_offsets_is_counted_in_characters(api: Api) -> None:
    """Kafka compares `String.length`, which counts UTF-16 units, with offset.metadata.max.bytes."""
    with (
        Broker(topics=["t"], config={"offset.metadata.max.bytes": 8}) as broker,
        api.consumer(broker.bootstrap_servers, **SETTINGS) as consumer,
        api.producer(broker.bootstrap_servers, transactional_id="tx") as producer,
    ):

        def commit(metadata: str) -> None:
            api(consumer.commit({("t", 0): ottla.OffsetAndMetadata(0, metadata)}))

        def send(metadata: str) -> None:
            api(producer.begin_transaction())
            try:
                api(producer.send_offsets({("t", 0): ottla.OffsetAndMetadata(0, metadata)}, "g"))
            finally:
                api(producer.abort_transaction())

        for attempt in (commit, send):
            for metadata in ("ä" * 8, "€" * 8, "😀" * 4):
                attempt(metadata)
            for metadata in ("a" * 9, "ä" * 9, "😀" * 4 + "a"):
                with pytest.raises(errors.KafkaError) as caught:
                    attempt(metadata)
                assert caught.value.name == "OFFSET_METADATA_TOO_LARGE"
