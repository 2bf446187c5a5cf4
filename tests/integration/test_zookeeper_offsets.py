"""Offsets of a group in ZooKeeper and in Kafka, on real 0.8.2.2: what ours commit, Kafka's own consumer and its checker read, and
the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from tests.brokers.brokers import java_tool
from tests.integration.conftest import REAL, kafka_for_a_while

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster
    from tests.python.conftest import Api

pytestmark = [REAL]

RELEASE = "0.8.2.2"
RECORDS, COMMITTED, SHOWN = 10, 4, 3
# Where offsets are kept, by what a consumer is told; Kafka is the default of ours, ZooKeeper that of 0.8's own.
STORES: dict[str, dict[str, Any]] = {"kafka": {}, "zookeeper": {"offsets_storage": "zookeeper"}}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {"auto.create.topics.enable": "true", "num.partitions": "1"}
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=RELEASE, config=config) as cluster:
        yield cluster


def checked(cluster: Cluster, group: str, topic: str) -> int:
    """The group's offset as Kafka's tool tells it, which asks the coordinator, and ZooKeeper for what that does not know."""
    where = ("--zookeeper", f"127.0.0.1:{cluster.ports['ZOOKEEPER']}")
    said = java_tool(RELEASE, "kafka.tools.ConsumerOffsetChecker", *where, "--group", group, "--topic", topic).decode()
    rows = [line.split() for line in said.splitlines()]
    (row,) = [row for row in rows if row[:3] == [group, topic, "0"]]
    return int(row[3])


def shown(cluster: Cluster, group: str, topic: str, store: str, folder: Path) -> list[str]:
    """What Kafka's own consumer reads from the committed offset on; it commits that, and leaves."""
    settings = folder / f"{group}.properties"
    settings.write_text(f"group.id={group}\noffsets.storage={store}\n")
    where = ("--zookeeper", f"127.0.0.1:{cluster.ports['ZOOKEEPER']}", "--consumer.config", str(settings))
    said = java_tool(
        RELEASE, "kafka.tools.ConsoleConsumer", *where, "--topic", topic, "--max-messages", str(SHOWN)
    ).decode()
    return [line for line in said.splitlines() if line.isdigit()]


@pytest.mark.parametrize("store", STORES)
def test_both_stores_are_kafkas_own(old: Cluster, api: Api, store: str, tmp_path: Path) -> None:
    bootstrap = str(old.st["bootstrap"]["PLAINTEXT"])
    topic = group = f"{store}-{api.name}"
    place, (other,) = (topic, 0), STORES.keys() - {store}
    with ottla.Producer(bootstrap) as producer:
        for value in range(RECORDS):
            producer.send(topic, str(value)).result(30)
    options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with api.consumer(bootstrap, **options, **STORES[store]) as consumer:
        assert api(consumer.committed([place])) == {place: None}
        consumer.assign([place])
        api.poll(consumer, COMMITTED)
        api(consumer.commit())
        assert api(consumer.committed([place]))[place].offset == COMMITTED
    with api.consumer(bootstrap, **options, **STORES[other]) as consumer:
        assert api(consumer.committed([place])) == {place: None}, "neither sees the other"
    assert checked(old, group, topic) == COMMITTED
    assert shown(old, group, topic, store, tmp_path) == [str(COMMITTED + n) for n in range(SHOWN)]
    with api.consumer(bootstrap, **options, **STORES[store]) as consumer:
        assert api(consumer.committed([place]))[place].offset == COMMITTED + SHOWN
        consumer.assign([place])
        assert api.poll(consumer, 1)[0].value == str(COMMITTED + SHOWN).encode()


def test_members_have_no_offsets_in_zookeeper(old: Cluster, api: Api) -> None:
    bootstrap = str(old.st["bootstrap"]["PLAINTEXT"])
    with (
        api.consumer(bootstrap, group_id="g", **STORES["zookeeper"]) as consumer,
        pytest.raises(errors.ArgumentError, match="assign partitions"),
    ):
        consumer.subscribe("t")
