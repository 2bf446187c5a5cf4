"""Real Kafka rejects offsets of a topic that was deleted, also after it was created again: OffsetCommit 10 carries its id."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from tests.integration.conftest import REAL
from tests.python.test_recreated_topics import fill
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.python.conftest import Api


def create(address: str, topic: str) -> bool:
    with ottla.Admin(address) as admin:
        try:
            admin.create_topics([ottla.NewTopic(topic, partitions=1)])
        except errors.AlreadyExistsError:
            return False
    return True


@REAL
@pytest.mark.each_api
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_offset_of_a_deleted_topic_is_not_committed(api: Api, kafka: str, protocol: str) -> None:
    topic = f"recreated-{uuid.uuid4()}"
    create(kafka, topic)
    fill(kafka, topic, 100)
    settings: dict[str, Any] = {
        "group_id": topic,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "metadata_max_age_ms": 300_000,
    }
    with api.consumer(kafka, **settings) as consumer:
        consumer.subscribe(topic)
        api.poll(consumer, 100)
        with ottla.Admin(kafka) as admin:
            admin.delete_topics([topic])
        wait_until(lambda: create(kafka, topic), "the topic is there again")
        fill(kafka, topic, 150)
        with pytest.raises(errors.NotFoundError, match="deleted after the records were read"):
            api(consumer.commit({(topic, 0): 100}))
    with api.consumer(kafka, **settings) as consumer:
        consumer.subscribe(topic)
        assert [record.offset for record in api.poll(consumer, 150)] == list(range(150))
