"""Real Kafka of three nodes: a replica that lacks records is elected, and whoever read them is told (KIP-320)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.spark.plan.planner import DataLossError, DataLossWarning
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.read.client_pool import close_idle
from ottla.spark.read.schema import layout, schema
from ottla.spark.read.stream import UnlimitedStreamReader
from tests.integration.conftest import REAL
from tests.integration.peers.base import DEADLINE
from tests.integration.unclean import KEPT, LOST, READ, Log, three_nodes
from tests.python.conftest import Api, AsyncApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.brokers.brokers import Cluster

pytestmark = [REAL]
LATER = 60


@pytest.fixture(params=["4.4.0", "2.8.2"])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with three_nodes(tmp_path / "three", request.param) as cluster:
        yield cluster


def poll_until(api: Api, consumer: Any, count: int) -> list[ottla.Record]:
    """The records of polls until there are so many; whatever a poll raises."""
    found: list[ottla.Record] = []
    end = time.monotonic() + DEADLINE
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came"
        found += api(consumer.poll(1.0))
    return found


def streamed(options: ReadOptions) -> UnlimitedStreamReader:
    """What a query of Spark's has in its process, and its tasks."""
    return UnlimitedStreamReader(options, layout(options, schema(options, {}), {}))


def values(records: list[ottla.Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def test_whoever_read_what_is_lost_is_told(three: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Without a policy by an error with both offsets, else by an event; and reading goes on where the logs part."""
    log = Log(three, "truncated")
    log.fill()
    kept = [f"kept {n}" for n in range(KEPT)]
    lost = [f"lost {n}" for n in range(LOST)]
    later = [f"later {n}" for n in range(LATER)]
    bootstrap = log.controls.bootstrap
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": log.topic, "startingOffsets": "earliest"}
    checked = ReadOptions.parse(options)
    stream, lenient_stream = streamed(checked), streamed(ReadOptions.parse({**options, "failOnDataLoss": "false"}))
    for each_stream in (stream, lenient_stream):
        begun = each_stream.initialOffset()
        read = each_stream.latestOffset()
        each_stream.partitions(begun, read)
        assert read == {log.topic: {"0": READ}}
    for api in (Api(), AsyncApi()):
        with (
            api.consumer(bootstrap, group_id=f"g-{api.name}", auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([log.partition])
            assert values(poll_until(api, consumer, READ)) == kept + lost
            api(consumer.commit())
            (committed,) = api(consumer.committed([log.partition])).values()
            assert (committed.offset, committed.leader_epoch is not None) == (READ, True)
    sync, aio = Api(), AsyncApi()
    with (
        sync.consumer(bootstrap, auto_offset_reset="none") as strict,
        aio.consumer(bootstrap, auto_offset_reset="none") as strict_aio,
        sync.consumer(bootstrap, auto_offset_reset="latest") as lenient,
        aio.consumer(bootstrap, auto_offset_reset="earliest", client_id="lenient-aio") as lenient_aio,
    ):
        each = [(sync, strict), (aio, strict_aio), (sync, lenient), (aio, lenient_aio)]
        for api, consumer in each:
            consumer.assign([ottla.TopicPartition(log.topic, 0, 0)])
            assert values(poll_until(api, consumer, READ)) == kept + lost
        caplog.set_level(logging.WARNING, "ottla")
        log.lose()
        # Nothing was written since: the stream's log is shorter than what it has read.
        cut = {log.topic: {"0": KEPT}}
        with pytest.raises(DataLossError, match=rf"ends at offset {KEPT}, before offset {READ}"):
            stream.partitions(read, stream.latestOffset())
        assert stream.latestOffset() == cut
        log.write("later", LATER)
        # The stream's log has grown past what it has read, and is another one.
        (part,) = stream.partitions(read, stream.latestOffset())
        with pytest.raises(
            DataLossError, match=rf"offset {READ} was read \(leader epoch \d+\).* from offset {KEPT} on"
        ):
            list(stream.read(part))
        # The other one goes on with what stands after the offset that it has read, and tells what it did not see.
        (part,) = lenient_stream.partitions(read, lenient_stream.latestOffset())
        with pytest.warns(DataLossWarning, match=rf"offset {READ} was read .* from offset {KEPT} on"):
            rows = [value for batch in lenient_stream.read(part) for value in batch.column("value").to_pylist()]
        assert [value.decode() for value in rows] == later[READ - KEPT :]
        close_idle(checked)
        for api, consumer in each[:2]:
            with pytest.raises(errors.LogTruncatedError, match=f"offset {READ} was read") as caught:
                poll_until(api, consumer, 1)
            assert (caught.value.topic, caught.value.partition) == (log.topic, 0)
            assert (caught.value.offset, caught.value.divergent_offset) == (READ, KEPT)
            assert f"from offset {KEPT} on" in str(caught.value)
            assert str(caught.value).count("leader epoch") == 2
            assert isinstance(caught.value, errors.OffsetOutOfRangeError)
            consumer.seek(log.partition, KEPT)
        for api, consumer in each:
            assert values(poll_until(api, consumer, LATER)) == later
        told = [
            r.getMessage()
            for r in caplog.records
            if "was truncated" in r.getMessage() and "continues" in r.getMessage()
        ]
        assert len(told) == 2, told
        assert all(f"offset {READ}" in text and f"offset {KEPT}" in text for text in told)
    for api in (sync, aio):
        # What a group committed is compared, too.
        with api.consumer(bootstrap, group_id=f"g-{api.name}", auto_offset_reset="none") as consumer:
            consumer.assign([log.partition])
            with pytest.raises(errors.LogTruncatedError, match=f"offset {READ} was read"):
                poll_until(api, consumer, 1)
    aio.loop.close()
