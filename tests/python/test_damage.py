"""Records that cannot be read: they stop their partition alone, are named, passed over by a seek, and had as bytes."""

from __future__ import annotations

import pickle
import time

import pytest

import ottla
from ottla import TopicPartition, protocol
from ottla.errors import CorruptRecordError
from ottla.testing import Broker
from tests.damage import Segment

# Of three records each, but for the last one: the batch at offset 3 is damaged, and at offset 7 stands a header whose key
# is not UTF-8.
DAMAGED, REFUSED, END = 3, 7, 12
READABLE = [0, 1, 2, 6, 8, 9, 10, 11]
OTHERS = 40
# Seconds of a poll.
POLL = 20


@pytest.fixture
def log(tmp_path):
    """A broker whose topic `t` has such a partition, and one that is sound; with the bytes of the two batches."""
    with Broker(topics={"t": 2}, data_dir=tmp_path) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for first in range(0, END, 3):
                headers = [[("clé", b"")] if first + n == REFUSED else [] for n in range(3)]
                values = [b"%d" % (first + n) for n in range(3)]
                producer.send_many("t", values, partitions=[0] * 3, headers=headers).result(20)
            producer.send_many("t", [b"v"] * OTHERS, partitions=[1] * OTHERS).result(20)
        segment = Segment(tmp_path, "t")
        assert [first for _, first, _ in segment.batches()] == list(range(0, END, 3))
        batches = {DAMAGED: segment.flip(DAMAGED), REFUSED: segment.replace(6, "clé".encode(), b"cl\xff\xfe")}
        yield broker.bootstrap_servers, batches


class Found:
    """What polls and loops gave out, and what they raised."""

    def __init__(self):
        self.offsets = {0: [], 1: []}
        self.errors = []

    def take(self, records):
        for record in records:
            self.offsets[record.partition].append(record.offset)

    def count(self):
        return sum(map(len, self.offsets.values()))


def polled(api, consumer, found):
    try:
        found.take(api(consumer.poll(POLL, max_records=4)))
    except CorruptRecordError as error:
        found.errors.append(error)


def looped(api, consumer, found):
    """A loop that ends with its first record, unless an error ends it."""
    try:
        found.take(api.take(consumer, 1))
    except CorruptRecordError as error:
        found.errors.append(error)


def check_damaged(error, batches):
    assert (error.topic, error.partition) == ("t", 0)
    assert (error.offset, error.next_offset) == (DAMAGED, 6)
    assert error.data == batches[DAMAGED]
    assert "seek to 6 to skip" in str(error)
    assert "CRC" in str(error)


def check_refused(error, batches):
    assert (error.topic, error.partition) == ("t", 0)
    assert (error.offset, error.next_offset) == (REFUSED, REFUSED + 1)
    assert error.data == batches[REFUSED]
    assert "the record at offset 7 cannot be shown: the key of a header is not valid UTF-8; seek to 8" in str(error)


@pytest.mark.parametrize("read", [polled, looped])
def test_other_partitions_are_read_and_nothing_is_passed_by_in_silence(api, log, read):
    address, batches = log
    found = Found()
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)])
        # The error does not come again while there is something else.
        while found.count() < 3 + OTHERS or not found.errors:
            read(api, consumer, found)
        assert (found.offsets[0], len(found.errors)) == ([0, 1, 2], 1)
        check_damaged(found.errors[0], batches)
        assert api(consumer.position(("t", 0))) == DAMAGED

        consumer.seek(("t", 0), found.errors[0].next_offset)
        while len(found.errors) < 2:
            read(api, consumer, found)
        assert found.offsets[0] == [0, 1, 2, 6]
        check_refused(found.errors[1], batches)
        assert api(consumer.position(("t", 0))) == REFUSED

        consumer.seek(("t", 0), found.errors[1].next_offset)
        while found.count() < len(READABLE) + OTHERS:
            read(api, consumer, found)
    assert found.offsets == {0: READABLE, 1: list(range(OTHERS))}
    assert len(found.errors) == 2


def test_it_is_raised_again_where_nothing_else_comes(api, log):
    """By then a caller that passed it over must hear of it: at the end of a poll's time, so that a loop over errors may rest."""
    address, batches = log
    found = Found()
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition("t", 0, DAMAGED), TopicPartition("t", 1, OTHERS)])
        polled(api, consumer, found)
        begin = time.monotonic()
        with pytest.raises(CorruptRecordError):
            api(consumer.poll(0.3))
        assert time.monotonic() - begin >= 0.3
        consumer.pause([("t", 1)])
        for _ in range(3):
            begin = time.monotonic()
            with pytest.raises(CorruptRecordError) as caught:
                api(consumer.poll(0.3))
            found.errors.append(caught.value)
            assert time.monotonic() - begin >= 0.3, "it was raised before"
        assert len(found.errors) == 4
        for error in found.errors:
            check_damaged(error, batches)
        # A seek into the batch finds it damaged, too.
        consumer.seek(("t", 0), DAMAGED + 1)
        polled(api, consumer, found)
        assert (found.errors[4].offset, found.errors[4].next_offset) == (DAMAGED + 1, 6)


def test_its_bytes_can_be_read_by_other_means(log):
    address, _ = log
    with ottla.Consumer(address) as consumer:
        consumer.assign([TopicPartition("t", 0, DAMAGED)])
        with pytest.raises(CorruptRecordError) as caught:
            consumer.poll(5)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.offset, error.next_offset, error.data) == (DAMAGED, 6, caught.value.data)
    [batch] = protocol.decode_records(error.data, check_crcs=False)
    assert [record.value for record in batch.records] == [b"3", b"4", b"4"]


def test_a_record_behind_one_that_cannot_be_shown_is_begun_at(api, log):
    """Whatever stands before the position of the same batch is no obstacle."""
    address, _ = log
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition("t", 0, REFUSED + 1)])
        assert [record.offset for record in api.poll(consumer, 4)] == [8, 9, 10, 11]
