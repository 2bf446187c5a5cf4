"""Committed offsets and topics that are deleted and created again: an offset of the old topic is not committed to the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from tests.python.conftest import Api

# Metadata stays old, unless a response shows that it is.
SETTINGS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "metadata_max_age_ms": 300_000,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


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
