"""Committed offsets and topics that are deleted and created again: an offset of the old topic is not committed to the new one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker
from tests.python.test_transform import Worker, written
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.python.conftest import Api

# Metadata stays old, unless a response shows that it is.
SETTINGS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "metadata_max_age_ms": 300_000,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
# TxnOffsetCommit has topic ids; names, with the second protocol of transactions; names, with the first.
RELEASES = pytest.mark.parametrize("release", ["4.4", "4.0", "3.9"])


def fill(address: str, topic: str, count: int) -> None:
    with ottla.Producer(address) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode(), partition=0)


def create_again(address: str, topic: str, count: int) -> None:
    """Replace the topic with another one of the same name."""
    with ottla.Admin(address) as admin:
        admin.delete_topics([topic])
        admin.create_topics([ottla.NewTopic(topic, partitions=1)])
    fill(address, topic, count)


def committed(address: str) -> int | None:
    with ottla.Consumer(address, group_id="t") as consumer:
        (found,) = consumer.committed([("t", 0)]).values()
    return found.offset if found else None


@pytest.fixture
def topic(address: str, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(name, partitions=1)])
    fill(address, name, 100)
    return name


@PROTOCOLS
def test_an_offset_of_a_deleted_topic_is_not_committed(api: Api, address: str, topic: str, protocol: str) -> None:
    settings = SETTINGS | {"group_id": topic, "group_protocol": protocol}
    with api.consumer(address, **settings) as consumer:
        consumer.subscribe(topic)
        api.poll(consumer, 100)
        create_again(address, topic, 150)
        with pytest.raises(errors.NotFoundError, match="deleted after the records were read") as caught:
            api(consumer.commit({(topic, 0): 100}))
        assert not caught.value.retriable
        assert (caught.value.topic, caught.value.partition) == (topic, 0)
        assert api(consumer.committed([(topic, 0)])) == {(topic, 0): None}
    with api.consumer(address, **settings) as consumer:
        consumer.subscribe(topic)
        assert [record.offset for record in api.poll(consumer, 150)] == list(range(150))


def test_an_offset_of_a_deleted_topic_is_not_committed_once_its_partition_was_taken_away(
    api: Api, address: str, topic: str
) -> None:
    """A group takes away the partitions of a deleted topic. An offset that was read before must not count for the new one."""
    with api.consumer(address, **SETTINGS, group_id=topic) as consumer:
        api(consumer.assign([(topic, 0)]))
        api.poll(consumer, 100)
        api(consumer.assign([]))
        create_again(address, topic, 150)
        for again in ([], [(topic, 0)]):
            api(consumer.assign(again))
            with pytest.raises(errors.NotFoundError, match="deleted after the records were read"):
                api(consumer.commit({(topic, 0): 100}))
        assert len(api.poll(consumer, 150)) == 150
        api(consumer.commit({(topic, 0): 150}))
        found = api(consumer.committed([(topic, 0)]))[topic, 0]
        assert found
        assert found.offset == 150


@PROTOCOLS
def test_a_commit_of_all_positions_skips_nothing_of_a_new_topic(
    api: Api, address: str, topic: str, protocol: str
) -> None:
    settings = SETTINGS | {"group_id": topic, "group_protocol": protocol}
    with api.consumer(address, **settings) as consumer:
        consumer.subscribe(topic)
        api.poll(consumer, 100)
        create_again(address, topic, 150)
        try:
            api(consumer.commit())
        except errors.NotFoundError as error:
            assert "deleted after the records were read" in str(error)  # noqa: PT017 it may have found out before
    with api.consumer(address, **settings) as consumer:
        consumer.subscribe(topic)
        assert [record.offset for record in api.poll(consumer, 150)] == list(range(150))


def test_a_commit_for_several_topics_commits_those_that_are_there(api: Api, address: str, topic: str) -> None:
    other = f"{topic}-other"
    with ottla.Admin(address) as admin:
        admin.create_topics([ottla.NewTopic(other, partitions=1)])
    fill(address, other, 5)
    with api.consumer(address, **SETTINGS, group_id=topic) as consumer:
        consumer.assign([(topic, 0), (other, 0)])
        api.poll(consumer, 105)
        create_again(address, topic, 150)
        with pytest.raises(errors.NotFoundError, match="deleted after the records were read"):
            api(consumer.commit({(topic, 0): 100, (other, 0): 5}))
        committed = api(consumer.committed([(topic, 0), (other, 0)]))
        assert committed[topic, 0] is None
        assert committed[other, 0].offset == 5


def test_brokers_without_topic_ids_in_commits_get_no_offset_of_a_deleted_topic(api: Api) -> None:
    """OffsetCommit 9 of Kafka 3.9 has names only: the client compares the ids itself, once its metadata has the new topic. Fetch 17 has
    ids, so nothing is read of the new topic before."""
    with Broker(as_version="3.9") as broker:
        address = broker.bootstrap_servers
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic("t", partitions=1)])
        fill(address, "t", 100)
        with api.consumer(address, **SETTINGS, group_id="g") as consumer:
            consumer.assign([("t", 0)])
            api.poll(consumer, 100)
            create_again(address, "t", 150)
            assert api.poll(consumer, 1)[0].offset == 0
            with pytest.raises(errors.NotFoundError, match="deleted after the records were read"):
                api(consumer.commit({("t", 0): 100}))
            assert api(consumer.committed([("t", 0)])) == {("t", 0): None}
            api(consumer.commit({("t", 0): 1}))
            assert api(consumer.committed([("t", 0)]))["t", 0].offset == 1


@RELEASES
def test_a_transaction_gets_no_offset_of_a_deleted_topic(api: Api, release: str) -> None:
    """TxnOffsetCommit 6 carries the id. For the versions before the client compares it with the topic's id before the commit, though
    nothing was read of the new topic and the metadata is old."""
    with Broker(as_version=release) as broker:
        address = broker.bootstrap_servers
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic("t", partitions=1)])
        fill(address, "t", 100)
        with (
            api.consumer(address, **SETTINGS, group_id="g", topics=["t"]) as consumer,
            api.producer(address, transactional_id="tx") as producer,
        ):
            api.poll(consumer, 100)
            create_again(address, "t", 150)
            api(producer.begin_transaction())
            with pytest.raises(errors.TransactionAbortableError, match="deleted after the records were read") as caught:
                api(producer.send_offsets({("t", 0): 100}, consumer.group_metadata()))
            assert (caught.value.topic, caught.value.partition) == ("t", 0)
            assert caught.value.name == "UNKNOWN_TOPIC_ID"
            assert not caught.value.retriable
            with pytest.raises(errors.TransactionAbortableError):
                api(producer.commit_transaction())
            api(producer.abort_transaction())
            assert api(consumer.committed([("t", 0)])) == {("t", 0): None}
            assert [record.offset for record in api.poll(consumer, 150)] == list(range(150))
            member = pickle.loads(pickle.dumps(consumer.group_metadata()))
            assert member == consumer.group_metadata()
            api(producer.begin_transaction())
            api(producer.send_offsets({("t", 0): 150}, member))
            api(producer.commit_transaction())
            assert api(consumer.committed([("t", 0)]))["t", 0].offset == 150


def test_offsets_of_a_topic_that_is_gone_fail_at_once(api: Api) -> None:
    with Broker(as_version="3.9") as broker:
        address = broker.bootstrap_servers
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic("t", partitions=1)])
            fill(address, "t", 100)
            with (
                api.consumer(address, **SETTINGS, group_id="g", topics=["t"]) as consumer,
                api.producer(address, transactional_id="tx") as producer,
            ):
                api.poll(consumer, 100)
                admin.delete_topics(["t"])
                api(producer.begin_transaction())
                with pytest.raises(errors.TransactionAbortableError, match="deleted after the records were read"):
                    api(producer.send_offsets({("t", 0): 100}, consumer.group_metadata()))
                api(producer.abort_transaction())


@RELEASES
def test_a_transform_reads_a_topic_that_was_created_again_from_its_beginning(api: Api, release: str) -> None:
    """The transaction of the old records fails, and what is read next is the new topic, not where the old records began."""
    with Broker(as_version=release) as broker:
        address = broker.bootstrap_servers
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic("t", partitions=1), ottla.NewTopic("t-out", partitions=2)])
        fill(address, "t", 100)
        seen: list[int] = []

        def double(batch: ottla.Batch) -> Iterator[ottla.NewRecord]:
            for record in batch:
                seen.append(record.offset)
                if len(seen) == 60:
                    create_again(address, "t", 150)
                yield ottla.NewRecord(record.value)

        # The first transaction is committed with 40 records. The second one reads 40 more, while the topic is replaced.
        worker = Worker(api, address, "t", double, max_records=40)
        wait_for_ours(lambda: committed(address) == 150 or worker.failure is not None, "150 records are committed")
        worker.stop()
        assert sorted(int(value or -1) for value in written(address, "t")) == sorted([*range(40), *range(150)])
