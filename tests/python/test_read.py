"""A part of a topic, in one call."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

import ottla
from ottla import TopicPartition
from ottla._reading import steps
from ottla.testing import Broker
from tests.pace import patience
from tests.python.test_cli import ottla_command

START = 1_700_000_000_000


@pytest.fixture
def numbers(address, topic):
    """Ten records, a second apart, to the two partitions in turn."""
    with ottla.Producer(address) as producer:
        for number in range(10):
            at = START + number * 1000
            producer.send(topic, str(number).encode(), partition=number % 2, timestamp=at).result(20)


def at(second):
    return datetime.fromtimestamp(START / 1000 + second, tz=UTC)


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ({}, "0246813579"),
        ({"last": 3}, "879"),
        ({"last": 0}, ""),
        ({"last": 100}, "0246813579"),
        ({"since": START + 6500}, "879"),
        ({"since": at(7)}, "879"),
        ({"until": at(3)}, "021"),
        ({"since": at(2), "until": at(5)}, "243"),
        ({"since": at(2), "until": START + 8000, "last": 2}, "67"),
        ({"since": at(8), "until": at(3)}, ""),
        ({"since": at(100)}, ""),
        ({"since": timedelta(days=1)}, ""),
        ({"until": timedelta(days=1)}, "0246813579"),
        ({"until": START}, ""),
    ],
    ids=str,
)
@pytest.mark.usefixtures("numbers")
def test_parts(api, address, topic, part, values):
    batch = api(api.module.read(address, topic, **part))
    assert b"".join(record.value for record in batch) == values.encode()
    assert isinstance(batch, ottla.Batch)


@pytest.mark.usefixtures("numbers")
def test_polls_bring_less_or_more_than_is_read(api, address, topic):
    whole = api(api.module.read(address, topic))
    assert whole.next_offsets == {(topic, 0): 5, (topic, 1): 5}
    assert api(api.module.read(address, topic, max_poll_records=2)).spans == whole.spans
    (before,) = (record for record in whole if record.value == b"4")
    cut = api(api.module.read(address, topic, until=before.timestamp, last=1))
    assert [record.value for record in cut] == [b"3"]


def test_markers_of_transactions_are_not_waited_for(api, address, topic):
    with ottla.Producer(address, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"committed", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    wait = 30
    began = time.monotonic()
    batch = api(api.module.read(address, topic, isolation_level="read_committed", default_api_timeout_ms=wait * 1000))
    assert [record.value for record in batch] == [b"committed"]
    # Offset 3 is the last marker's: a wait for records would take all of that, and raise.
    assert time.monotonic() - began < wait


def test_the_last_records_are_counted_without_what_is_no_record(api, address, topic):
    """Markers of transactions and records of aborted ones have offsets, too."""
    with ottla.Producer(address, transactional_id=topic) as producer:
        for number in range(4):
            with producer.transaction():
                producer.send(topic, b"%d" % number, partition=0)
        producer.begin_transaction()
        for _ in range(20):
            producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    for last in (1, 3, 4, 10):
        batch = api(api.module.read(address, topic, last=last, isolation_level="read_committed"))
        assert [record.value for record in batch] == [b"0", b"1", b"2", b"3"][-last:]


def test_partitions_with_equal_timestamps_take_turns(api, address, topic):
    with ottla.Producer(address) as producer:
        for partition in range(2):
            producer.send_many(topic, [b"%d" % partition] * 10, partitions=partition, timestamps=START).result(20)
    batch = api(api.module.read(address, topic, last=6))
    assert [record.value for record in batch] == [b"0"] * 3 + [b"1"] * 3


def test_what_cannot_be_read(api, address, topic):
    def read(topic, **options):
        return api(api.module.read(address, topic, **options))

    for options, text in [
        ({"last": -1}, "last is a number of records, from 0 up, and was -1"),
        ({"last": "10"}, "last is a number of records, from 0 up, and was '10'"),
        ({"last": True}, "last is a number of records"),
        ({"since": "1h"}, "since is milliseconds since 1970 UTC, .* and was '1h'"),
        ({"until": 1.5}, "until is milliseconds"),
        ({"since": -1}, "from 0 up"),
        ({"until": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the point
        ({"group_id": "g"}, "no group"),
        ({"config": {"group.id": "g"}}, "no group"),
    ]:
        with pytest.raises(ottla.errors.ArgumentError, match=text):
            read(topic, **options)
    with pytest.raises(ottla.errors.ArgumentError, match="topic is the name of one topic, and was "):
        read([topic])
    with pytest.raises(ottla.errors.ConfigError, match="lingerms"):
        read(topic, lingerms=5)
    with pytest.raises(ottla.errors.NotFoundError, match="no-such-topic"):
        read("no-such-topic", default_api_timeout_ms=20_000)


def test_a_broker_that_sends_nothing_ends_it(api):
    with Broker(topics=["t"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v").result(20)
        broker.ignore("Fetch", count=10_000)
        with pytest.raises(
            ottla.errors.KafkaTimeoutError, match=r"t\[0\] from offset 0 .* though it ends at 1"
        ) as caught:
            api(api.module.read(broker.bootstrap_servers, "t", default_api_timeout_ms=int(patience(4000))))
    assert (caught.value.topic, caught.value.partition) == ("t", 0)


class Scripted:
    """A consumer's core that answers as it is told, with functions for operations."""

    def __init__(self, *polls, patience, outage=None):
        self.polls, self.at, self.patience, self.outage = list(polls), 0, patience, outage

    def api_timeout(self):
        return self.patience

    def assign(self, partitions):
        self.assigned = partitions

    def partitions_for(self, topic, timeout):
        return lambda: [0]

    def beginning_offsets(self, partitions, timeout):
        return lambda: dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions, timeout):
        def ends():
            if self.outage and self.polls == []:
                raise self.outage
            return dict.fromkeys(partitions, 2)

        return ends

    def position(self, partition, timeout):
        return lambda: self.at

    def poll(self, timeout, max_records):
        def poll():
            self.at += self.polls.pop(0)
            return ottla.Batch.concat([])

        return poll


def drive(core):
    reading = steps(core, "t", None, None, None)
    operation = next(reading)
    while True:
        try:
            operation = reading.send(operation())
        except StopIteration as done:
            return done.value


def test_a_broker_may_come_back_while_it_reads():
    core = Scripted(1, 0, 0, 0, 1, patience=60)
    assert len(drive(core)) == 0
    assert core.polls == []
    assert core.assigned == [TopicPartition("t", 0, 0)]


def test_an_outage_that_outlasts_the_patience_is_the_error():
    """Polls return nothing during an outage. A request for the log's end then says why."""
    gone = ottla.errors.UnreachableError("gone")
    with pytest.raises(ottla.errors.UnreachableError, match="gone"):
        drive(Scripted(1, 0, patience=-1, outage=gone))
    with pytest.raises(ottla.errors.KafkaTimeoutError, match="though it ends at 2"):
        drive(Scripted(1, 0, patience=-1))


@pytest.mark.usefixtures("numbers")
def test_the_command_prints_the_last(address, topic):
    code, out, err = ottla_command("consume", "-b", address, "-t", topic, "--last", "3")
    assert (code, out.split(), err) == (0, ["8", "7", "9"], "")
    code, _, err = ottla_command("consume", "-b", address, "-t", topic, "--last", "3", "--max", "1")
    assert (code, "--last prints what is there" in err) == (1, True)
    code, _, err = ottla_command("consume", "-b", address, "-t", topic, "--last", "3", "--beginning")
    assert (code, "not allowed with" in err) == (2, True)


@pytest.mark.parametrize("facade", ["ottla", "aio"])
def test_a_topic_that_does_not_exist_is_told_with_the_nearest(facade):
    with Broker(topics=["flights", "planes"]) as broker:
        servers = broker.bootstrap_servers

        def read(topic, **properties):
            if facade == "ottla":
                return ottla.read(servers, topic, **properties)
            return asyncio.run(ottla.aio.read(servers, topic, **properties))

        with pytest.raises(
            ottla.errors.NotFoundError, match="topic 'flihgts' does not exist: .*; did you mean 'flights'"
        ) as caught:
            # A consumer's own properties are not the admin client's.
            read("flihgts", config={"fetch.min.bytes": 1, "client.id": "r"}, max_poll_records=10)
        assert (caught.value.topic, caught.value.name) == ("flihgts", "UNKNOWN_TOPIC_OR_PARTITION")
        with pytest.raises(ottla.errors.NotFoundError, match="lists the topics that exist"):
            read("nothing-like-it")
