"""What may be asked inside `for record in consumer`, and that nothing that was fetched is fetched again for it."""

from __future__ import annotations

import pytest

import ottla
from ottla import TopicPartition, errors

pytestmark = pytest.mark.uvloop

COUNT = 40


@pytest.fixture
def filled(address, topic):
    """Two partitions of so many records."""
    with ottla.Producer(address) as producer:
        for partition in (0, 1):
            producer.send_many(topic, [b"v"] * COUNT, partitions=[partition] * COUNT).result(20)
    return topic


@pytest.fixture
def loop(api, broker, address, filled):
    """A consumer in a loop that was given the first record: both partitions came with the same fetch, and no other is answered."""
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0), TopicPartition(filled, 1, 0)])
        loop = Loop(api, consumer)
        [(first, offset)] = loop.read(1)
        assert offset == 0
        broker.ignore("Fetch", count=1_000_000)
        yield loop, TopicPartition(filled, first), TopicPartition(filled, 1 - first)
        broker.clear_faults()


class Loop:
    """`for record in consumer` of either facade, a step at a time."""

    def __init__(self, api, consumer):
        self.api, self.consumer = api, consumer
        self.records = iter(consumer) if api.name == "sync" else aiter(consumer)

    def read(self, count):
        """Partition and offset of the next records."""
        step = self.records.__next__ if self.api.name == "sync" else lambda: self.api(anext(self.records))
        return [(record.partition, record.offset) for record in (step() for _ in range(count))]


def rest(partition, start):
    return [(partition.partition, offset) for offset in range(start, COUNT)]


def test_questions_cost_no_fetch(api, loop):
    """`position`, `lag` and the like leave what was polled where it is, and count from the record that comes next."""
    loop, first, other = loop
    consumer = loop.consumer
    for offset in range(1, COUNT):
        assert api(consumer.position(first)) == offset
        assert api(consumer.lag()) == {first: COUNT - offset, other: COUNT}
        assert consumer.assignment() == sorted([first, other])
        assert consumer.paused() == []
        assert loop.read(1) == [(first.partition, offset)]
    assert loop.read(COUNT) == rest(other, 0)
    assert api(consumer.lag()) == {first: 0, other: 0}


def test_a_seek_drops_the_records_of_its_partition_alone(api, broker, loop):
    loop, first, other = loop
    loop.consumer.seek(first, 30)
    assert api(loop.consumer.position(first)) == 30
    assert api(loop.consumer.position(other)) == 0
    assert loop.read(COUNT) == rest(other, 0)
    broker.clear_faults()


def test_a_pause_holds_back_the_records_of_its_partition_alone(api, loop):
    loop, first, other = loop
    loop.consumer.pause([first])
    assert loop.consumer.paused() == [first]
    assert api(loop.consumer.position(first)) == 1
    assert loop.read(COUNT) == rest(other, 0)


def test_after_a_pause_nothing_is_missing_or_comes_twice(api, address, filled):
    with api.consumer(address) as consumer:
        consumer.assign([TopicPartition(filled, 0, 0), TopicPartition(filled, 1, 0)])
        loop = Loop(api, consumer)
        begin = loop.read(5)
        consumer.pause([(filled, 0), (filled, 1)])
        assert len(api(consumer.poll(0.2))) == 0
        consumer.resume([(filled, 0), (filled, 1)])
        assert sorted(begin + loop.read(2 * COUNT - 5)) == [(p, o) for p in (0, 1) for o in range(COUNT)]


def test_a_poll_goes_on_where_the_loop_was_left(api, loop):
    """Without a fetch, with no more records than were asked for."""
    loop, first, other = loop
    polled = [api(loop.consumer.poll(20, max_records=most)) for most in (3, COUNT - 4, COUNT)]
    assert [len(batch) for batch in polled] == [3, COUNT - 4, COUNT]
    found = [(record.partition, record.offset) for batch in polled for record in batch]
    assert found == rest(first, 1) + rest(other, 0)


def test_an_assignment_drops_what_it_leaves_out(api, loop):
    loop, _, other = loop
    loop.consumer.assign([other])
    assert loop.read(COUNT) == rest(other, 0)


def test_an_assignment_with_an_offset_begins_there(api, broker, loop):
    loop, first, other = loop
    loop.consumer.assign([TopicPartition(*first, 30), other])
    assert loop.read(COUNT) == rest(other, 0)
    broker.clear_faults()
    assert api(loop.consumer.position(first)) == 30


@pytest.mark.parametrize(("to", "offset"), [("seek_to_beginning", 0), ("seek_to_end", COUNT)])
def test_a_seek_before_the_first_poll_is_kept(api, address, filled, to, offset):
    """The partitions of `topics` are not known yet, and begin there all the same."""
    reset = "latest" if to == "seek_to_beginning" else "earliest"
    with api.consumer(address, topics=filled, auto_offset_reset=reset) as consumer:
        getattr(consumer, to)()
        for partition in (0, 1):
            assert api(consumer.position((filled, partition))) == offset


@pytest.mark.parametrize("call", ["lag", "position"])
def test_the_deadline_is_one_for_the_whole_call(api, broker, address, filled, call):
    """A call asks for topics first and for offsets then: that each answer comes within the timeout is not enough."""
    for question in ("Metadata", "ListOffsets"):
        broker.delay(question, 0.7, count=1000)
    # Where the process stands still past the deadline, all answers are there before anybody looks. Calls whose steps have a
    # deadline each would never fail.
    for _ in range(5):
        with api.consumer(address, topics=filled) as consumer:
            try:
                api(consumer.lag(1.0) if call == "lag" else consumer.position((filled, 0), 1.0))
            except errors.KafkaError:
                return
    pytest.fail("each of five calls took longer than its deadline")
