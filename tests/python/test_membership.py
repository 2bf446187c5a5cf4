"""Members of groups, both facades, on the embedded broker."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import TopicPartition, aio, errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE, Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.uvloop

# Seconds between two heartbeats, so that members learn soon of what others do.
QUICK = {"heartbeat_interval_ms": 50, "auto_offset_reset": "earliest"}


@pytest.fixture(scope="module")
def quick() -> Iterator[Broker]:
    """A broker whose groups wait for nobody."""
    config = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "auto.create.topics.enable": False,
    }
    with Broker(config=config) as broker:
        yield broker


@pytest.fixture
def address(quick: Broker) -> Iterator[str]:
    yield quick.bootstrap_servers
    quick.clear_faults()


def fill(address: str, topic: str, values: int = 10, partitions: int = 2) -> None:
    """So many records in each partition."""
    with ottla.Producer(address) as producer:
        for partition in range(partitions):
            for value in range(values):
                producer.send(topic, str(value), partition=partition)


def poll_until(api: Api, consumer: Any, is_done: Callable[[], bool]) -> list[ottla.Record]:
    """Polls until something is so, and gives what came meanwhile."""
    end = time.monotonic() + PATIENCE
    found: list[ottla.Record] = []
    while not is_done():
        assert time.monotonic() < end, "it never came to be"
        found += api(consumer.poll(0.05))
    return found


def names(partitions: list[TopicPartition]) -> list[int]:
    return sorted(partition.partition for partition in partitions)


class Heard:
    """What listeners were told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[int]]] = []

    def options(self) -> dict[str, Any]:
        return {f"on_{what}": self.listener(what) for what in ("assign", "revoke", "lost")}

    def listener(self, what: str) -> Callable[[list[TopicPartition]], None]:
        return lambda partitions: self.events.append((what, names(partitions)))


def test_a_group_goes_on_where_it_committed(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    heard = Heard()
    with api.consumer(address, group_id=topic, **QUICK) as consumer:
        consumer.subscribe([topic], **heard.options())
        assert len(api.poll(consumer, 20)) == 20
        assert names(consumer.assignment()) == [0, 1]
        who = consumer.group_metadata()
        assert (who.group_id, who.group_instance_id) == (topic, None)
        assert who.generation >= 1
        assert who.member_id
        api(consumer.commit({(topic, 0): 4, (topic, 1): ottla.OffsetAndMetadata(7, "note", 0)}))
        committed = api(consumer.committed())
        assert committed[topic, 0] == ottla.OffsetAndMetadata(4)
        assert committed[topic, 1] == ottla.OffsetAndMetadata(7, "note", 0)
        # What the close commits must not be more than this.
        consumer.seek((topic, 0), 5)
        consumer.seek((topic, 1), 8)
    assert heard.events == [("assign", [0, 1]), ("revoke", [0, 1])]
    with api.consumer(address, topics=topic, group_id=topic, **QUICK) as consumer:
        records = api.poll(consumer, 7)
    assert sorted((record.partition, record.offset) for record in records) == [
        *((0, offset) for offset in range(5, 10)),
        *((1, offset) for offset in range(8, 10)),
    ]


def test_members_share_and_take_over(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    first, second = Heard(), Heard()
    with api.consumer(address, group_id=topic, **QUICK) as one:
        one.subscribe(topic, **first.options())
        poll_until(api, one, lambda: len(first.events) == 1)
        with api.consumer(address, group_id=topic, **QUICK) as other:
            other.subscribe(topic, **second.options())
            with ThreadPoolExecutor(1) as threads:
                done = threads.submit(poll_while, address, topic, other, second) if api.name == "sync" else None
                if done is None:
                    both(api, one, other, first, second)
                else:
                    poll_until(api, one, lambda: len(first.events) == 3)
                    done.result(PATIENCE)
            assert len(one.assignment()) == len(other.assignment()) == 1
            assert {*one.assignment(), *other.assignment()} == {(topic, 0), (topic, 1)}
        poll_until(api, one, lambda: len(first.events) == 5)
        assert [what for what, _ in first.events] == ["assign", "revoke", "assign", "revoke", "assign"]
        assert first.events[-1] == ("assign", [0, 1])
    assert [what for what, _ in second.events] == ["assign", "revoke"]


def poll_while(address: str, topic: str, consumer: Any, heard: Heard) -> None:
    end = time.monotonic() + PATIENCE
    while len(heard.events) < 1 and time.monotonic() < end:
        consumer.poll(0.05)


def both(api: Api, one: Any, other: Any, first: Heard, second: Heard) -> None:
    async def poll(consumer: Any, is_done: Callable[[], bool]) -> None:
        while not is_done():
            await consumer.poll(0.05)

    async def run() -> None:
        await asyncio.gather(poll(one, lambda: len(first.events) == 3), poll(other, lambda: len(second.events) == 1))

    api(run())


def test_cooperative_members_keep_what_they_have(address: str, topic: str) -> None:
    fill(address, topic)
    options = {**QUICK, "partition_assignment_strategy": "cooperative-sticky"}
    first, second = Heard(), Heard()
    api = Api()
    with api.consumer(address, group_id=topic, **options) as one:
        one.subscribe(topic, **first.options())
        assert len(api.poll(one, 20)) == 20
        with api.consumer(address, group_id=topic, **options) as other:
            other.subscribe(topic, **second.options())
            with ThreadPoolExecutor(1) as threads:
                took = threads.submit(poll_until, api, other, lambda: len(other.assignment()) == 1)
                found = poll_until(api, one, took.done)
                found += took.result(PATIENCE)
            assert {*one.assignment(), *other.assignment()} == {(topic, 0), (topic, 1)}
        # Nothing was read twice: what moved was committed first, and what stayed went on.
        assert found == []
    revoked = [partitions for what, partitions in first.events if what == "revoke"]
    assert len(revoked[0]) == 1, "only what moves is given up"


def test_polls_commit_what_was_given_before(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    with api.consumer(address, topics=topic, group_id=topic, auto_commit_interval_ms=1, **QUICK) as consumer:
        partition = (topic, 0)
        assert api(consumer.committed([partition])) == {partition: None}
        assert len(api.poll(consumer, 5)) == 5
        before = {TopicPartition(topic, number): api(consumer.position((topic, number))) for number in (0, 1)}
        time.sleep(0.01)
        # The next poll commits exactly what the ones before it gave out.
        assert len(api.poll(consumer, 1)) == 1
        end = time.monotonic() + PATIENCE
        while {key: value.offset if value else 0 for key, value in api(consumer.committed()).items()} != before:
            assert time.monotonic() < end, "it was not committed"
    with ottla.Consumer(address, group_id=topic) as reader:
        at_close = reader.committed([(topic, 0), (topic, 1)])
    assert sum(value.offset for value in at_close.values() if value) == 6


def test_a_loop_is_committed_record_by_record(api: Api, address: str, topic: str) -> None:
    fill(address, topic, partitions=1)
    with api.consumer(address, topics=topic, group_id=topic, **QUICK) as consumer:
        for record in api.take(consumer, 4):
            assert record.offset < 4
    with ottla.Consumer(address, group_id=topic) as reader:
        assert reader.committed([(topic, 0)])[topic, 0].offset == 4


def test_without_automatic_commits_nothing_is_committed(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    with api.consumer(address, topics=topic, group_id=topic, enable_auto_commit=False, **QUICK) as consumer:
        api.poll(consumer, 20)
        assert not any(api(consumer.committed()).values())
        api(consumer.commit())
        assert {value.offset for value in api(consumer.committed()).values()} == {10}
        consumer.seek((topic, 0), 3)
        api(consumer.commit(wait=False))
        poll_until(api, consumer, lambda: api(consumer.committed([(topic, 0)]))[topic, 0].offset == 3)


def test_what_a_listener_raises_is_raised_once(api: Api, address: str, topic: str) -> None:
    fill(address, topic)

    def fail(_: list[TopicPartition]) -> None:
        raise LookupError("the listener's own")

    with api.consumer(address, group_id=topic, **QUICK) as consumer:
        consumer.subscribe(topic, on_assign=fail)
        with pytest.raises(LookupError, match="own"):
            api.poll(consumer, 1)
        assert len(api.poll(consumer, 20)) == 20


def test_a_listener_may_seek_and_be_async(address: str, topic: str) -> None:
    fill(address, topic)

    async def run() -> list[int]:
        async with aio.Consumer(address, group_id=topic, **QUICK) as consumer:

            async def start(partitions: list[TopicPartition]) -> None:
                await asyncio.sleep(0.01)
                for partition in partitions:
                    consumer.seek(partition, 8)
                assert await consumer.position(partitions[0]) == 8

            consumer.subscribe(topic, on_assign=start)
            found = []
            async for record in consumer:
                found.append(record.offset)
                if len(found) == 4:
                    return sorted(found)
            return []

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == [8, 8, 9, 9]


def test_a_pattern_finds_topics_that_are_made_later(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    pattern = re.compile(f"{re.escape(topic)}(-more)?", re.IGNORECASE)
    with api.consumer(address, group_id=topic, metadata_max_age_ms=100, **QUICK) as consumer:
        consumer.subscribe(pattern)
        api.poll(consumer, 20)
        with ottla.Admin(address) as admin:
            admin.create_topics([ottla.NewTopic(f"{topic}-more"), ottla.NewTopic(f"{topic}-moreover")])
        fill(address, f"{topic}-more", partitions=1)
        found = poll_until(api, consumer, lambda: len(consumer.assignment()) == 3)
        while len(found) < 10:
            found += api.poll(consumer, 1)
        assert {record.topic for record in found} == {f"{topic}-more"}
        api(consumer.unsubscribe())
        assert consumer.assignment() == []


def test_who_does_not_poll_leaves_and_joins_again(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    heard = Heard()
    options = {**QUICK, "max_poll_interval_ms": 5000, "enable_auto_commit": False}
    with api.consumer(address, group_id=topic, **options) as consumer:
        consumer.subscribe(topic, **heard.options())
        api.poll(consumer, 20)
        with ottla.Admin(address) as admin:
            end = time.monotonic() + PATIENCE
            while admin.describe_groups([topic])[topic].members:
                assert time.monotonic() < end, "it never left"
                time.sleep(0.02)
        with pytest.raises(errors.CommitFailedError, match="not a member"):
            api(consumer.commit())
        with api.producer(address, transactional_id=topic) as producer:
            # The group has replaced it, and so it is fenced.
            api(producer.begin_transaction())
            with pytest.raises(errors.TransactionAbortableError, match="UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
                api(producer.send_offsets({(topic, 0): 9}, consumer.group_metadata()))
            api(producer.abort_transaction())
        found = poll_until(api, consumer, lambda: len(heard.events) == 3)
        assert heard.events == [("assign", [0, 1]), ("lost", [0, 1]), ("assign", [0, 1])]
        # Nothing was committed: all of it comes again.
        assert len({(record.partition, record.offset) for record in found + api.poll(consumer, 20 - len(found))}) == 20


def test_a_blocked_loop_keeps_its_membership(address: str, topic: str) -> None:
    fill(address, topic)
    heard = Heard()

    async def run() -> None:
        options = {**QUICK, "session_timeout_ms": 6000}
        async with aio.Consumer(address, group_id=topic, **options) as consumer:
            consumer.subscribe(topic, **heard.options())
            while not await consumer.poll(1):
                pass
            time.sleep(8)  # noqa: ASYNC251 that is what it is about
            await consumer.poll(0.2)
            await consumer.commit()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert heard.events == [("assign", [0, 1]), ("revoke", [0, 1])]


def test_a_static_member_does_not_leave(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    options = {**QUICK, "group_instance_id": "one"}
    generations = set()
    for _ in range(2):
        with api.consumer(address, topics=topic, group_id=topic, **options) as consumer:
            poll_until(api, consumer, lambda consumer=consumer: len(consumer.assignment()) == 2)
            generations.add(consumer.group_metadata().generation)
    with ottla.Admin(address) as admin:
        members = admin.describe_groups([topic])[topic].members
    assert [member.group_instance_id for member in members] == ["one"]
    assert len(generations) == 1


def test_of_two_with_one_name_the_earlier_is_fenced(address: str, topic: str) -> None:
    api = Api()
    heard = Heard()
    options = {**QUICK, "group_instance_id": "one"}
    with api.consumer(address, group_id=topic, **options) as earlier:
        earlier.subscribe(topic, **heard.options())
        poll_until(api, earlier, lambda: len(earlier.assignment()) == 2)
        with api.consumer(address, topics=topic, group_id=topic, **options) as later:
            poll_until(api, later, lambda: len(later.assignment()) == 2)
            with pytest.raises(errors.FencedError, match=r"group\.instance\.id"):
                poll_until(api, earlier, lambda: False)
            with pytest.raises(errors.FencedError):
                earlier.poll(0)
            assert heard.events == [("assign", [0, 1]), ("lost", [0, 1])]
            assert earlier.assignment() == []


def test_assigned_partitions_begin_where_the_group_committed(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    options = {**QUICK, "enable_auto_commit": False}
    with api.consumer(address, group_id=topic, **options) as consumer:
        consumer.assign([(topic, 0), TopicPartition(topic, 1, 9)])
        api(consumer.commit({(topic, 0): 8}))
        with pytest.raises(errors.ArgumentError, match="by hand"):
            consumer.subscribe(topic)
    with api.consumer(address, group_id=topic, **options) as consumer:
        consumer.assign([(topic, 0)])
        assert api(consumer.position((topic, 0))) == 8


@pytest.mark.parametrize("release", ["0.8.2", "0.10.0", "3.9"])
def test_offsets_in_zookeeper_are_apart_from_those_in_kafka(api: Api, release: str) -> None:
    place, options = ("t", 0), {"group_id": "g", "auto_offset_reset": "earliest"}
    with Broker(topics=["t"], as_version=release) as broker:
        address = broker.bootstrap_servers
        fill(address, "t", partitions=1)
        for store, offset in [("zookeeper", 3), ("kafka", 7)]:
            with api.consumer(address, offsets_storage=store, **options) as consumer:
                assert api(consumer.committed([place])) == {place: None}
                consumer.assign([place])
                api.poll(consumer, offset)
                api(consumer.commit())
        for store, offset in [("zookeeper", 3), ("kafka", 7)]:
            with api.consumer(address, offsets_storage=store, **options) as consumer:
                assert api(consumer.committed([place]))[place].offset == offset
                consumer.assign([place])
                assert api(consumer.position(place)) == offset
        with api.consumer(address, offsets_storage="zookeeper", **options) as consumer:
            with pytest.raises(errors.ArgumentError, match="no metadata"):
                api(consumer.commit({place: ottla.OffsetAndMetadata(1, "note")}))
            with pytest.raises(errors.ArgumentError, match="assign partitions"):
                consumer.subscribe("t")


def test_brokers_without_a_zookeeper_say_so(api: Api) -> None:
    with (
        Broker(topics=["t"], as_version="4.4") as broker,
        api.consumer(broker.bootstrap_servers, group_id="g", offsets_storage="zookeeper") as consumer,
    ):
        for call in (lambda: consumer.committed([("t", 0)]), lambda: consumer.commit({("t", 0): 1})):
            with pytest.raises(
                errors.UnsupportedError, match=r"offsets\.storage=zookeeper needs brokers before Kafka 4\.0"
            ):
                api(call())


def test_what_needs_a_group_says_so(api: Api, address: str, topic: str) -> None:
    with api.consumer(address) as consumer:
        assert consumer.group_metadata() is None
        for call in (
            lambda: consumer.subscribe(topic),
            lambda: consumer.commit({(topic, 0): 1}),
            lambda: consumer.committed([(topic, 0)]),
        ):
            with pytest.raises(errors.ArgumentError, match="group_id"):
                api(call())
    with api.consumer(address, group_id=topic) as consumer:
        with pytest.raises(errors.ArgumentError, match=r"re\.compile"):
            consumer.subscribe("^a.*")
        with pytest.raises(errors.ArgumentError, match="look-around"):
            consumer.subscribe(re.compile("(?=a)b"))
        with pytest.raises(TypeError, match="on_assign"):
            consumer.subscribe(topic, on_assign=1)
        consumer.subscribe(topic)
        with pytest.raises(errors.ArgumentError, match="unsubscribe"):
            consumer.assign([(topic, 0)])
        consumer.subscribe(f"{topic}-absent")
        with pytest.raises(errors.NotFoundError, match="absent"):
            api.poll(consumer, 1)


def test_a_close_does_not_wait_for_a_broker_that_is_gone(api: Api, topic: str) -> None:
    with Broker(topics={topic: 1}, config={"group.initial.rebalance.delay.ms": 0}) as broker:
        fill(broker.bootstrap_servers, topic, partitions=1)
        consumer = api.module.Consumer(broker.bootstrap_servers, topics=topic, group_id=topic, **QUICK)
        api.poll(consumer, 10)
    begun = time.monotonic()
    api(consumer.close(1))
    assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
def test_a_close_after_a_wrong_password_waits_for_nobody(api: Api, topic: str, kind: str) -> None:
    """No broker has ever heard of the member."""
    secret: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
    }
    secret |= {"sasl_password": "wrong", "sasl_allow_plaintext": True}
    with Broker(topics={topic: 1}, users={"alice": "right"}) as broker:
        options = {"group_id": topic, "topics": topic, **secret}
        if kind == "share":
            member = api.module.ShareConsumer(broker.bootstrap_servers, **options)
        else:
            member = api.module.Consumer(broker.bootstrap_servers, group_protocol=kind, **options)
        with pytest.raises(errors.AuthenticationError):
            api(member.poll(PATIENCE))
        begun = time.monotonic()
        api(member.close(2 * PATIENCE))
        assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_close_that_is_cancelled_ends_at_once(topic: str, protocol: str) -> None:
    """Not when the brokers have answered, which these never do."""

    async def run(address: str, broker: Broker) -> float:
        consumer = aio.Consumer(address, topics=topic, group_id=topic, group_protocol=protocol)
        while not consumer.assignment():
            await consumer.poll(0.05)
        for api in ("LeaveGroup", "ConsumerGroupHeartbeat"):
            broker.ignore(api, count=1000)
        closing = asyncio.create_task(consumer.close(10 * PATIENCE))
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(errors.ClosedError):
            await consumer.poll(1)
        return time.monotonic() - begun

    with Broker(topics={topic: 1}, config={"group.initial.rebalance.delay.ms": 0}) as broker:
        took = asyncio.run(asyncio.wait_for(run(broker.bootstrap_servers, broker), 2 * PATIENCE))
    assert took < PATIENCE


def test_an_unsubscribe_ends_in_time(api: Api, topic: str) -> None:
    with Broker(topics={topic: 1}, config={"group.initial.rebalance.delay.ms": 0}) as broker:
        fill(broker.bootstrap_servers, topic, partitions=1)
        consumer = api.module.Consumer(broker.bootstrap_servers, topics=topic, group_id=topic, **QUICK)
        api.poll(consumer, 10)
    begun = time.monotonic()
    api(consumer.unsubscribe(1))
    assert time.monotonic() - begun < PATIENCE
    assert consumer.assignment() == []
    consumer.assign([(topic, 0)])
    api(consumer.close(0))


def test_a_poll_that_waits_is_told_of_a_close(address: str, topic: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        consumer = ottla.Consumer(address, topics=topic, group_id=topic, **QUICK)
        poll_until(Api(), consumer, lambda: len(consumer.assignment()) == 2)
        poll = pool.submit(consumer.poll, PATIENCE)
        time.sleep(0.1)
        consumer.close()
        with pytest.raises(errors.ClosedError):
            poll.result(PATIENCE)

    async def run() -> None:
        consumer = aio.Consumer(address, topics=topic, group_id=topic, **QUICK)
        while len(consumer.assignment()) < 2:
            await consumer.poll(0.05)
        poll = asyncio.create_task(consumer.poll(PATIENCE))
        await asyncio.sleep(0.1)
        await consumer.close()
        with pytest.raises(errors.ClosedError):
            await poll

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("verb", ["close", "unsubscribe"])
def test_a_listener_has_no_longer_than_the_call(address: str, topic: str, verb: str) -> None:
    async def wait(_: list[TopicPartition]) -> None:
        await asyncio.sleep(PATIENCE * 10)

    async def run() -> None:
        async with aio.Consumer(address, group_id=topic, **QUICK) as consumer:
            consumer.subscribe(topic, on_revoke=wait)
            while len(consumer.assignment()) < 2:
                await consumer.poll(0.05)
            with pytest.raises(asyncio.TimeoutError):
                await getattr(consumer, verb)(0.3)
            assert verb == "close" or consumer.assignment() == []

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_member_that_was_replaced_commits_nothing_by_a_transaction(api: Api, address: str, topic: str) -> None:
    fill(address, topic)
    options = {**QUICK, "enable_auto_commit": False}
    with (
        api.consumer(address, topics=topic, group_id=topic, **options) as consumer,
        api.producer(address, transactional_id=topic) as producer,
    ):
        api.poll(consumer, 20)
        stale = consumer.group_metadata()
        partition = (topic, 0)
        api(producer.begin_transaction())
        api(producer.send_offsets({partition: 4}, stale))
        api(producer.commit_transaction())
        assert api(consumer.committed([partition]))[partition].offset == 4
        api(consumer.unsubscribe())
        api(producer.begin_transaction())
        with pytest.raises(errors.TransactionAbortableError, match="UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            api(producer.send_offsets({partition: 9}, stale))
        api(producer.abort_transaction())
        with pytest.raises(errors.ArgumentError, match="not a member"):
            api(producer.send_offsets({partition: 9}, consumer.group_metadata()))
        with pytest.raises(TypeError, match="group_metadata"):
            api(producer.send_offsets({partition: 9}, 5))
        assert api(consumer.committed([partition]))[partition].offset == 4


def test_a_pattern_for_brokers_needs_a_protocol_that_has_them_match(api: Api, address: str) -> None:
    pattern = ottla.SubscriptionPattern("flights-.*")
    assert (pattern, repr(pattern)) == ("flights-.*", "SubscriptionPattern('flights-.*')")
    with (
        api.consumer(address, group_id="g") as consumer,
        pytest.raises(errors.ArgumentError, match="group.protocol=consumer or auto.*re.compile"),
    ):
        consumer.subscribe(pattern)
    with api.consumer(address, group_id="g", group_protocol="consumer") as consumer:
        with pytest.raises(errors.ArgumentError, match="matches no topic"):
            consumer.subscribe(ottla.SubscriptionPattern(""))
        consumer.subscribe(pattern)
    with pytest.raises(errors.ArgumentError, match="subscribe"):
        (ottla.Consumer if api.name == "sync" else aio.Consumer)(address, group_id="g", topics=pattern)
