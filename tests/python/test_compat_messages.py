"""The compiled half of `ottla.compat.confluent_kafka`: messages, the inbox of a consumer, the outbox of a producer."""

from __future__ import annotations

import gc
import time
import weakref

import pytest

import ottla
from ottla._ottla import Inbox, Message
from ottla.testing import Broker

pytest.importorskip("confluent_kafka")
from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException
from ottla.compat.confluent_kafka.producer import Producer

FIELDS = ("t", 1, 2, b"k", b"v", [("h", b"x")], None, (1, 3), 0.5, 4, 2)


@pytest.fixture(scope="module")
def servers():
    with Broker(topics={"records": 2, "sent": 1}) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            for number in range(300):
                headers = [("h", b"x")] if number == 0 else None
                producer.send("records", b"v%d" % number, key=b"k", partition=number % 2, headers=headers).result(20)
        yield broker.bootstrap_servers


def read(message):
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers(),
        message.error(),
        message.timestamp(),
        message.latency(),
        message.leader_epoch(),
        message.delivery_count(),
    )


def test_a_message_returns_what_it_was_made_of():
    message = Message(*FIELDS)
    assert read(message) == FIELDS
    assert len(message) == 1
    message.set_value([1, 2, 3])
    message.set_key("other")
    message.set_topic("u")
    message.set_headers(None)
    message.set_error(KafkaError(1))
    assert (message.value(), message.key(), message.topic(), message.headers()) == ([1, 2, 3], "other", "u", None)
    assert message.error() == 1
    assert len(message) == 3


def test_unknown_numbers_are_none():
    message = Message()
    assert [message.partition(), message.offset(), message.latency(), message.leader_epoch()] == [None] * 4
    assert message.delivery_count() is None
    assert message.timestamp() == (0, 0)
    assert len(message) == 0
    with pytest.raises(OverflowError, match="16 bits"):
        Message(delivery_count=1 << 15)


def test_messages_compare_pickle_and_do_not_hash():
    message = Message(*FIELDS)
    assert message == Message(*FIELDS)
    assert message != Message("t")
    assert message != 1
    with pytest.raises(TypeError):
        hash(message)


def test_a_subclass_is_usable_before_its_init():
    class Sub(Message):
        def __init__(self, value):
            self.before = self.value()
            super().__init__(value=value)

    made = Sub(b"x")
    assert (made.before, made.value()) == (None, b"x")
    with pytest.raises(TypeError):
        Message.value(object())


def test_the_cycle_collector_finds_what_was_put_into_a_consumed_message(servers):
    class Holder:
        pass

    holder = Holder()
    [message] = polled(servers, 1)
    holder.message = message
    message.set_value(holder)
    gone = weakref.ref(holder)
    del holder, message
    gc.collect()
    assert gone() is None


def polled(servers, count):
    with Consumer({"bootstrap.servers": servers, "group.id": f"polled-{count}-{time.time()}"}) as consumer:
        consumer.assign([partition(0), partition(1)])
        deadline = time.monotonic() + 30
        found = []
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None:
                found.append(message)
        return found


def partition(number):
    from ottla.compat.confluent_kafka.topic_partition import TopicPartition

    return TopicPartition("records", number, 0)


def test_poll_and_consume_return_the_same_records(servers):
    one_by_one = polled(servers, 300)
    with Consumer({"bootstrap.servers": servers, "group.id": "consumed"}) as consumer:
        consumer.assign([partition(0), partition(1)])
        at_once = consumer.consume(300, 30)
        assert [at.offset for at in consumer.position([partition(0), partition(1)])] == [150, 150]
    by_place = {(m.partition(), m.offset()): m for m in at_once}
    assert len(by_place) == len(one_by_one) == 300
    for message in one_by_one:
        assert message.error() is None
        assert message == by_place[message.partition(), message.offset()]
    first = by_place[0, 0]
    assert first.headers() == [("h", b"x")]
    assert first.value() == b"v0"


def test_positions_follow_what_was_returned_and_a_seek_drops_the_rest(servers):
    with Consumer({"bootstrap.servers": servers, "group.id": "positions"}) as consumer:
        consumer.assign([partition(0)])
        assert [m.offset() for m in consumer.consume(3, 30)] == [0, 1, 2]
        assert consumer.position([partition(0)])[0].offset == 3
        at = partition(0)
        at.offset = 100
        consumer.seek(at)
        assert [m.offset() for m in consumer.consume(2, 30)] == [100, 101]
        assert consumer.position([partition(0)])[0].offset == 102
        consumer.pause([partition(0)])
        assert consumer.poll(0.2) is None
        consumer.resume([partition(0)])
        assert [m.offset() for m in consumer.consume(1, 30)] == [102]


def test_an_inbox_without_messages_gives_none():
    inbox = Inbox(10.0)
    assert (len(inbox), inbox.take(5), inbox.discard({("t", 0)}), inbox.take_positions()) == (0, [], [], [])
    inbox.put_notice("t", 0, Message(error=KafkaError(1)))
    inbox.put_notice("t", 1, Message(error=KafkaError(2)))
    assert inbox.discard({("t", 0)}) == []
    assert [m.error().code() for m in inbox.take(5)] == [2]


def test_reports_come_in_the_order_of_the_records(servers):
    reports = []
    with Producer({"bootstrap.servers": servers, "linger.ms": 1}) as producer:
        for number in range(1000):
            producer.produce("sent", str(number), key="é", on_delivery=lambda e, m: reports.append((e, m)))
        assert len(producer) > 0
        assert producer.flush(30) == 0
        assert len(producer) == 0
    assert [error for error, _ in reports] == [None] * 1000
    assert [m.value() for _, m in reports] == [b"%d" % number for number in range(1000)]
    assert [m.offset() for _, m in reports] == list(range(1000))
    assert {m.key() for _, m in reports} == {"é".encode()}
    assert all(m.latency() > 0 and m.timestamp()[0] == 1 for _, m in reports)


def test_what_a_callback_raises_is_raised_and_the_others_wait(servers):
    reports = []

    def report(error, message):
        reports.append(message.value())
        if message.value() == b"1":
            raise RuntimeError("refused")

    producer = Producer({"bootstrap.servers": servers})
    for value in (b"0", b"1", b"2"):
        producer.produce("sent", value, callback=report)
    with pytest.raises(RuntimeError, match="refused"):
        producer.flush(30)
    assert reports == [b"0", b"1"]
    assert producer.flush(30) == 0
    assert reports == [b"0", b"1", b"2"]
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("sent", b"x")


def test_a_full_queue_and_a_large_record_are_refused():
    with Producer(
        {"queue.buffering.max.messages": 2, "message.max.bytes": 1000, "message.timeout.ms": 100}
    ) as producer:
        with pytest.raises(KafkaException) as refused:
            producer.produce("t", b"x" * 2000)
        assert refused.value.args[0] == KafkaError.MSG_SIZE_TOO_LARGE
        producer.produce("t", b"1")
        producer.produce("t", b"2")
        with pytest.raises(BufferError, match="Queue full"):
            producer.produce("t", b"3")


def test_records_without_a_broker_expire_and_are_purged():
    codes = []
    producer = Producer({"message.timeout.ms": 50, "on_delivery": lambda e, m: codes.append((e.name(), m.value()))})
    producer.produce("t", b"late")
    assert producer.flush(20) == 0
    producer.produce("t", b"purged")
    producer.purge()
    producer.poll(0)
    assert codes == [("_MSG_TIMED_OUT", b"late"), ("_PURGE_QUEUE", b"purged")]
    producer.close()


def test_only_errors_are_reported_where_that_is_wanted(servers):
    reports = []
    properties = {"bootstrap.servers": servers, "delivery.report.only.error": True}
    with Producer(properties) as producer:
        producer.produce("sent", b"x", on_delivery=lambda *_: reports.append(1))
        assert producer.flush(30) == 0
    assert reports == []
