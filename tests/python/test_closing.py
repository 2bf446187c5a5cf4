"""What leaving a `with` block does, and what a consumer commits at its end: both facades, on the embedded broker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import _ottla, aio, errors
from ottla.testing import Broker
from tests.python.conftest import PATIENCE, Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROTOCOLS = ["classic", "consumer"]
INTERRUPTS = [KeyboardInterrupt, SystemExit, asyncio.CancelledError]
# Far less than the defaults of close.timeout.ms and delivery.timeout.ms.
SOON = 15


@pytest.fixture(scope="module")
def quick() -> Iterator[Broker]:
    """A broker whose groups wait for nobody."""
    with Broker(config={"group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def address(quick: Broker) -> Iterator[str]:
    yield quick.bootstrap_servers
    quick.clear_faults()


@pytest.fixture
def ten(address: str, topic: str) -> str:
    """A topic whose partition 0 has ten records."""
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"%d" % value for value in range(10)], partitions=0)
    return topic


@pytest.fixture
def frozen(quick: Broker, address: str, topic: str) -> str:
    """A topic whose records are never acknowledged."""
    with ottla.Producer(address) as producer:
        producer.partitions_for(topic)
    quick.ignore("Produce", count=100_000)
    return topic


def unwrapped(api: Api, call: Callable[[], Any]) -> None:
    """Make a call, on asyncio in the loop's only task: what another one raises like Ctrl-C is raised twice."""
    made = call()
    if api.name != "sync":
        api.loop.run_until_complete(made)  # type: ignore[attr-defined]


def within(api: Api, client: Callable[[], Any], body: Callable[[Any], Any]) -> None:
    """Run `body(client)` in a `with` block of the client."""
    if api.name == "sync":
        with client() as entered:
            body(entered)
        return

    async def main() -> None:
        async with client() as entered:
            result = body(entered)
            if inspect.isawaitable(result):
                await result

    unwrapped(api, main)


def send(producer: Any, topic: str) -> Any:
    """Send a record; on asyncio, to be awaited."""
    return producer.send(topic, b"v", partition=0)


def more(address: str, topic: str) -> None:
    """One record: a share group begins after the records that are there."""
    with ottla.Producer(address) as producer:
        producer.send(topic, b"v", partition=0)


def raising(error: BaseException, api: Api, before: Callable[[Any], Any] = lambda _: None) -> Callable[[Any], Any]:
    """A body that calls `before(client)` and raises."""

    def body(client: Any) -> None:
        before(client)
        raise error

    async def async_body(client: Any) -> None:
        result = before(client)
        if inspect.isawaitable(result):
            await result
        raise error

    return body if api.name == "sync" else async_body


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


# --- the exception of a body


@pytest.mark.parametrize("kind", [ValueError, *INTERRUPTS])
def test_a_producers_body_that_raises_is_not_replaced(
    api: Api, address: str, frozen: str, kind: type[BaseException]
) -> None:
    mine = kind("mine")

    def client() -> Any:
        return api.module.Producer(address, close_timeout_ms=300, close_interrupt_timeout_ms=300)

    begun = time.monotonic()
    with pytest.raises(kind) as raised:
        within(api, client, raising(mine, api, lambda producer: send(producer, frozen)))
    assert raised.value is mine
    assert "closing the client failed: " in notes(mine)
    assert "undelivered" in notes(mine)
    assert time.monotonic() - begun < SOON


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_leaves_little_time_to_flush(
    api: Api, address: str, frozen: str, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    begun = time.monotonic()
    with pytest.raises(kind):
        within(
            api,
            lambda: api.module.Producer(address),
            raising(kind("mine"), api, lambda producer: send(producer, frozen)),
        )
    assert time.monotonic() - begun < SOON
    assert "undelivered" in caplog.text, "nobody prints the notes of these exceptions"


@pytest.mark.parametrize("kind", [ValueError, *INTERRUPTS])
def test_a_consumers_body_that_raises_is_not_replaced(
    api: Api, address: str, ten: str, kind: type[BaseException]
) -> None:
    mine = kind("mine")

    def fail(_: object) -> None:
        raise LookupError("the listener's")

    def join(consumer: Any) -> Any:
        consumer.subscribe(ten, on_revoke=fail)
        return consumer.poll(PATIENCE)

    def client() -> Any:
        return api.module.Consumer(address, group_id=ten, auto_offset_reset="earliest")

    with pytest.raises(kind) as raised:
        within(api, client, raising(mine, api, join))
    assert raised.value is mine
    assert "the listener's" in notes(mine)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_a_share_consumers_body_that_raises_is_not_replaced(
    api: Api, address: str, ten: str, kind: type[BaseException]
) -> None:
    mine = kind("mine")

    def fail(_: object) -> None:
        raise LookupError("the callback's")

    def accept(consumer: Any) -> Any:
        if api.name == "sync":
            while not len(batch := consumer.poll(0.1)):
                more(address, ten)
            consumer.acknowledge(batch)
            consumer.set_acknowledgement_callback(fail)
            return None

        async def poll() -> None:
            while not len(batch := await consumer.poll(0.1)):
                more(address, ten)
            consumer.acknowledge(batch)
            consumer.set_acknowledgement_callback(fail)

        return poll()

    options = {"group_id": ten, "share_acknowledgement_mode": "explicit"}
    with pytest.raises(kind) as raised:
        within(api, lambda: api.module.ShareConsumer(address, topics=ten, **options), raising(mine, api, accept))
    assert raised.value is mine
    assert "the callback's" in notes(mine)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_admins_body_that_raises_is_not_replaced(
    api: Api, address: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = kind("mine")

    def fail(core: Any, timeout: float) -> None:
        core.close(timeout).wait()
        raise errors.KafkaTimeoutError("tasks did not end")

    async def async_fail(core: Any, timeout: float) -> None:
        await core.close(timeout)
        raise errors.KafkaTimeoutError("tasks did not end")

    monkeypatch.setattr("ottla._sync._admin.disconnect", fail)
    monkeypatch.setattr("ottla.aio._admin.disconnect", async_fail)
    with pytest.raises(kind) as raised:
        within(api, lambda: api.module.Admin(address), raising(mine, api))
    assert raised.value is mine
    assert "closing the client failed: tasks did not end" in notes(mine)


def test_a_close_that_fails_raises_if_the_body_did_not(api: Api, address: str, frozen: str) -> None:
    with pytest.raises(errors.KafkaTimeoutError, match="undelivered"):
        within(
            api,
            lambda: api.module.Producer(address, close_timeout_ms=300),
            lambda producer: send(producer, frozen),
        )


def test_a_generator_that_is_closed_hides_no_loss(address: str, frozen: str) -> None:
    def sends() -> Iterator[None]:
        with ottla.Producer(address, close_timeout_ms=300) as producer:
            producer.send(frozen, b"v", partition=0)
            yield

    generator = sends()
    next(generator)
    with pytest.raises(errors.KafkaTimeoutError, match="undelivered"):
        generator.close()


@pytest.mark.parametrize("kind", [ValueError, *INTERRUPTS])
def test_a_transactions_body_that_raises_is_not_replaced(
    api: Api, quick: Broker, address: str, topic: str, kind: type[BaseException]
) -> None:
    mine = kind("mine")
    begun = time.monotonic()

    def client() -> Any:
        return api.module.Producer(
            address, transactional_id=topic, max_block_ms=1_000, close_timeout_ms=300, close_interrupt_timeout_ms=300
        )

    def in_transaction(producer: Any) -> None:
        with producer.transaction():
            # Of a transaction that the broker has not heard of, nothing has to be aborted there.
            producer.send(topic, b"v", partition=0).result(20)
            quick.ignore("EndTxn", count=100_000)
            raise mine

    async def in_async_transaction(producer: Any) -> None:
        async with producer.transaction():
            await (await producer.send(topic, b"v", partition=0))
            quick.ignore("EndTxn", count=100_000)
            raise mine

    with pytest.raises(kind) as raised:
        within(api, client, in_transaction if api.name == "sync" else in_async_transaction)
    assert raised.value is mine
    assert "the transaction was not aborted: " in notes(mine)
    assert time.monotonic() - begun < SOON


def test_a_producer_that_is_closed_in_its_transaction_hides_nothing(api: Api, address: str, topic: str) -> None:
    mine = ValueError("mine")

    def client() -> Any:
        return api.module.Producer(address, transactional_id=topic)

    def body(producer: Any) -> None:
        with producer.transaction():
            producer.close()
            raise mine

    async def async_body(producer: Any) -> None:
        async with producer.transaction():
            await producer.close()
            raise mine

    with pytest.raises(ValueError, match="mine") as raised:
        within(api, client, body if api.name == "sync" else async_body)
    assert raised.value is mine


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_what_a_transforms_function_raises_is_not_replaced(
    api: Api, quick: Broker, address: str, ten: str, kind: type[BaseException]
) -> None:
    mine = kind("mine")
    begun = time.monotonic()

    def fail(_: object) -> None:
        quick.ignore("EndTxn", count=100_000)
        quick.ignore("LeaveGroup", count=100_000)
        raise mine

    def function(batch: Any) -> Any:
        yield ottla.NewRecord(batch[0].value)
        fail(batch)

    transform = api.module.transform(
        address,
        function,
        topics=ten,
        group_id=ten,
        to=ten,
        max_records=1,
        consumer={"auto.offset.reset": "earliest", "close.interrupt.timeout.ms": 200},
        producer={"max.block.ms": 1_000},
    )
    with pytest.raises(kind) as raised:
        unwrapped(api, transform.run)
    assert raised.value is mine
    assert "the transaction was not aborted: " in notes(mine)
    assert time.monotonic() - begun < 2 * SOON


# --- how long it takes


def test_a_cancel_takes_effect_while_a_block_is_left(address: str, frozen: str) -> None:
    async def main() -> None:
        async with aio.Producer(address) as producer:
            await producer.send(frozen, b"v", partition=0)

    begun = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(main(), 0.3))
    assert time.monotonic() - begun < SOON


def test_a_cancel_while_a_block_is_left_closes_the_client(address: str, frozen: str) -> None:
    clients = []

    async def leave() -> None:
        async with aio.Producer(address) as producer:
            clients.append(producer)
            await producer.send(frozen, b"v", partition=0)

    async def main() -> None:
        task = asyncio.create_task(leave())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert "undelivered" in notes(raised.value)
        with pytest.raises(errors.ClosedError):
            await clients[0].send(frozen, b"v")

    asyncio.run(main())


def test_the_default_of_a_close_is_bounded() -> None:
    defaults = {row["name"]: row["default"] for row in _ottla.properties()}
    assert defaults["close.timeout.ms"] == "30000"
    assert defaults["close.interrupt.timeout.ms"] == "1000"


# The caller's wait ends long before the producer gives up, also where the process stands still for 2 s.
ABANDONED: dict[str, Any] = {"delivery_timeout_ms": 3000, "request_timeout_ms": 500, "linger_ms": 0}


def test_a_record_that_nobody_heard_of_is_reported(api: Api, address: str, frozen: str) -> None:
    """A caller that waited, was not told, and keeps the delivery."""
    kept = []

    def body(producer: Any) -> None:
        kept.append(producer.send(frozen, b"v", partition=0))
        with pytest.raises(errors.KafkaTimeoutError):
            kept[0].result(0.05)

    async def async_body(producer: Any) -> None:
        kept.append(await producer.send(frozen, b"v", partition=0))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(kept[0], 0.05)

    def client() -> Any:
        return api.module.Producer(address, **ABANDONED)

    with pytest.raises(errors.KafkaError) as raised:
        within(api, client, body if api.name == "sync" else async_body)
    assert "1" in notes(raised.value)


def test_records_that_nobody_heard_of_are_reported(address: str, frozen: str) -> None:
    producer = ottla.Producer(address, **ABANDONED)
    many = producer.send_many(frozen, [b"v", b"w"], partitions=0)
    with pytest.raises(errors.KafkaTimeoutError):
        many.result(0.05)
    with pytest.raises(errors.KafkaError) as raised:
        producer.close()
    assert "2" in notes(raised.value)


def test_a_caller_that_asks_again_is_told_once(address: str, frozen: str) -> None:
    with ottla.Producer(address, **ABANDONED) as producer:
        delivery = producer.send(frozen, b"v", partition=0)
        with pytest.raises(errors.KafkaTimeoutError):
            delivery.result(0.05)
        with pytest.raises(errors.KafkaError):
            delivery.result()


# --- what is committed


def committed(address: str, group: str, topic: str) -> int:
    """The offset of partition 0 where the group goes on, once no member is left; 0 if there is none."""
    end = time.monotonic() + PATIENCE
    with ottla.Admin(address) as admin, ottla.Consumer(address, group_id=group) as consumer:
        while admin.describe_groups([group])[group].members:
            assert time.monotonic() < end, "a member did not leave"
            time.sleep(0.02)
        found = consumer.committed([(topic, 0)])[ottla.TopicPartition(topic, 0)]
    return 0 if found is None else found.offset


def of_group(api: Api, address: str, topic: str, **options: Any) -> Any:
    """A member that begins with the first record, and commits at intervals too long for a test."""
    return api.module.Consumer(address, topics=topic, group_id=topic, auto_offset_reset="earliest", **options)


def loop(api: Api, records: Any, work: Callable[[Any], None]) -> Any:
    """Work on each item of an iteration of the client."""
    if api.name == "sync":
        for record in records:
            work(record)
        return None

    async def each() -> None:
        async for record in records:
            work(record)

    return each()


class StopError(Exception):
    """What a body raises."""


class Worker:
    """Raises at the item with this number, from 1 on."""

    def __init__(self, last: int, error: type[BaseException] = StopError) -> None:
        self.last, self.error = last, error
        self.items: list[Any] = []

    def __call__(self, item: Any) -> None:
        self.items.append(item)
        if len(self.items) == self.last:
            raise self.error


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [StopError, *INTERRUPTS])
def test_the_record_that_a_loop_was_working_on_is_not_committed(
    api: Api, address: str, ten: str, protocol: str, kind: type[BaseException]
) -> None:
    with pytest.raises(kind):
        within(
            api,
            lambda: of_group(api, address, ten, group_protocol=protocol),
            lambda consumer: loop(api, consumer, Worker(4, kind)),
        )
    assert committed(address, ten, ten) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("last", "expected"), [(1, 0), (2, 3)])
def test_the_batch_that_a_loop_was_working_on_is_not_committed(
    api: Api, address: str, ten: str, protocol: str, last: int, expected: int
) -> None:
    options = {"group_protocol": protocol, "max_poll_records": 3}
    with pytest.raises(StopError):
        within(
            api,
            lambda: of_group(api, address, ten, **options),
            lambda consumer: loop(api, consumer.batches(), Worker(last)),
        )
    assert committed(address, ten, ten) == expected


def forget(clients: list[Any]) -> None:
    """Have clients garbage collected."""
    clients.clear()
    gc.collect()


def polls(api: Api, consumer: Any, counts: list[int]) -> Any:
    """Polls that each return so many records."""

    async def each() -> None:
        for count in counts:
            assert len(await consumer.poll(PATIENCE, max_records=count)) == count

    if api.name == "sync":
        for count in counts:
            assert len(consumer.poll(PATIENCE, max_records=count)) == count
        return None
    return each()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [StopError, *INTERRUPTS])
@pytest.mark.parametrize(("counts", "expected"), [([4], 0), ([4, 2], 4)])
def test_what_the_last_poll_returned_is_not_committed_if_the_body_raises(
    api: Api, address: str, ten: str, protocol: str, kind: type[BaseException], counts: list[int], expected: int
) -> None:
    with pytest.raises(kind):
        within(
            api,
            lambda: of_group(api, address, ten, group_protocol=protocol),
            raising(kind(), api, lambda consumer: polls(api, consumer, counts)),
        )
    assert committed(address, ten, ten) == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_block_that_goes_well_commits_what_was_returned(api: Api, address: str, ten: str, protocol: str) -> None:
    within(
        api,
        lambda: of_group(api, address, ten, group_protocol=protocol),
        lambda consumer: polls(api, consumer, [4, 2]),
    )
    assert committed(address, ten, ten) == 6


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_close_commits_what_was_returned(api: Api, address: str, ten: str, protocol: str) -> None:
    consumer = of_group(api, address, ten, group_protocol=protocol)
    assert len(api.take(consumer, 4)) == 4
    api(consumer.close())
    assert committed(address, ten, ten) == 4


def test_a_poll_after_a_loop_is_work_of_its_own(api: Api, address: str, ten: str) -> None:
    """The poll returns what the loop left; the records before it are done."""

    def before(consumer: Any) -> Any:
        if api.name == "sync":
            assert len(api.take(consumer, 2)) == 2
            return polls(api, consumer, [3])

        async def each() -> None:
            async for _ in consumer:
                break
            await consumer.poll(PATIENCE, max_records=1)
            await polls(api, consumer, [3])

        return each()

    with pytest.raises(StopError):
        within(api, lambda: of_group(api, address, ten), raising(StopError(), api, before))
    assert committed(address, ten, ten) == 2


def test_a_seek_says_itself_what_is_committed(api: Api, address: str, ten: str) -> None:
    """A caller that goes back to a record, and one that skips records."""
    for offset, expected in ((1, 1), (7, 7)):

        def before(consumer: Any, offset: int = offset) -> Any:
            async def each() -> None:
                await polls(api, consumer, [2, 2])
                consumer.seek((ten, 0), offset)

            if api.name == "sync":
                polls(api, consumer, [2, 2])
                consumer.seek((ten, 0), offset)
                return None
            return each()

        group = f"{ten}-{offset}"
        with pytest.raises(StopError):
            within(
                api,
                lambda group=group: api.module.Consumer(  # type: ignore[misc]
                    address, topics=ten, group_id=group, auto_offset_reset="earliest"
                ),
                raising(StopError(), api, before),
            )
        assert committed(address, group, ten) == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_listener_that_commits_at_the_end_commits_no_more(api: Api, address: str, ten: str, protocol: str) -> None:
    consumers: list[Any] = []

    def commit(_: object) -> Any:
        return consumers[0].commit()

    def before(consumer: Any) -> Any:
        consumers.append(consumer)
        consumer.subscribe(ten, on_revoke=commit)
        return polls(api, consumer, [4, 2])

    options = {"enable_auto_commit": False, "group_protocol": protocol}
    with pytest.raises(StopError):
        within(
            api,
            lambda: api.module.Consumer(address, group_id=ten, auto_offset_reset="earliest", **options),
            raising(StopError(), api, before),
        )
    assert committed(address, ten, ten) == 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_forgotten_consumer_leaves_and_commits_nothing(api: Api, address: str, ten: str, protocol: str) -> None:
    forgotten = [of_group(api, address, ten, group_protocol=protocol)]
    api(polls(api, forgotten[0], [4, 2]))
    with pytest.warns(ResourceWarning, match="unclosed Consumer"):
        forget(forgotten)
    assert committed(address, ten, ten) == 0


def test_a_generator_around_a_block_commits_no_record_that_its_user_works_on(address: str, ten: str) -> None:
    def records() -> Iterator[ottla.Record]:
        with of_group_sync(address, ten) as consumer:
            yield from consumer

    with contextlib.closing(records()) as each:  # type: ignore[type-var]
        for record in each:
            if record.offset == 3:
                break
    assert committed(address, ten, ten) == 3


def of_group_sync(address: str, topic: str) -> ottla.Consumer:
    return ottla.Consumer(address, topics=topic, group_id=topic, auto_offset_reset="earliest")


PROGRAM = """
import asyncio, os, signal, sys, ottla
from ottla import aio

address, topic, protocol, facade, how, end = sys.argv[1:]
options = dict(topics=topic, group_id=topic, auto_offset_reset="earliest", group_protocol=protocol)

def stop():
    if end == "error":
        raise ValueError("mine")
    if end == "exit":
        sys.exit(3)
    if end == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)

async def main():
    consumer = aio.Consumer(address, **options)
    if how == "loop":
        async for record in consumer:
            if record.offset == 3:
                stop()
                return
    else:
        for record in await consumer.poll(20):
            if record.offset == 3:
                stop()
                return

if facade == "aio":
    asyncio.run(main())
else:
    consumer = ottla.Consumer(address, **options)
    for record in consumer if how == "loop" else consumer.poll(20):
        if record.offset == 3:
            stop()
            break
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("facade", ["sync", "aio"])
@pytest.mark.parametrize(("how", "end"), [("loop", "error"), ("poll", "exit"), ("loop", "interrupt"), ("poll", "end")])
def test_a_program_that_ends_commits_nothing(
    address: str, ten: str, protocol: str, facade: str, how: str, end: str
) -> None:
    arguments = [sys.executable, "-c", PROGRAM, address, ten, protocol, facade, how, end]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert ("Traceback" in ran.stderr) == (end in ("error", "interrupt")), ran.stderr
    assert committed(address, ten, ten) == 0


def test_what_a_reader_that_has_gone_did_not_read_is_not_committed(address: str, topic: str) -> None:
    """`ottla consume | head -1`: more records than a pipe holds."""
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"x" * 1000] * 1000, partitions=0)
    settings = ["--config", f"group.id={topic}", "--config", "max.poll.records=10"]
    command = [sys.executable, "-m", "ottla", "consume", "-b", address, "-t", topic, "--beginning", *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
    assert committed(address, topic, topic) == 0


def take_shared(api: Api, consumer: Any, topic: str, produce: Callable[[], None], *, in_loop: bool) -> Any:
    """Take records twice; the second time in a loop, or by a poll. A share group begins after what is there."""

    async def each() -> None:
        while not len(await consumer.poll(0.1)):
            produce()
        produce()
        if not in_loop:
            assert len(await consumer.poll(PATIENCE))
            return
        async for record in consumer:
            assert record.topic == topic
            return

    if api.name != "sync":
        return each()
    while not len(consumer.poll(0.1)):
        produce()
    produce()
    assert next(iter(consumer)) if in_loop else len(consumer.poll(PATIENCE))
    return None


@pytest.mark.parametrize("end", ["raise", "forget"])
@pytest.mark.parametrize("how", ["loop", "poll"])
def test_a_share_consumer_releases_what_was_not_processed(
    api: Api, address: str, topic: str, end: str, how: str
) -> None:
    """The record is delivered again to another member."""

    def client() -> Any:
        return api.module.ShareConsumer(address, topics=topic, group_id=topic)

    def take(consumer: Any) -> Any:
        return take_shared(api, consumer, topic, lambda: more(address, topic), in_loop=how == "loop")

    if end == "raise":
        with pytest.raises(StopError):
            within(api, client, raising(StopError(), api, take))
    else:
        forgotten = [client()]
        api(take(forgotten[0]))
        with pytest.warns(ResourceWarning, match="unclosed ShareConsumer"):
            forget(forgotten)
    with ottla.ShareConsumer(address, topics=topic, group_id=topic) as other:
        again = next(iter(other))
    assert again.delivery_count == 2


# --- close() in odd places


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("verb", ["close", "unsubscribe"])
@pytest.mark.parametrize("way", ["call", "await", "await a task"])
def test_a_listener_that_closes_its_consumer_is_told_that_it_cannot(
    api: Api, address: str, ten: str, verb: str, way: str, protocol: str
) -> None:
    if api.name == "sync" and way != "call":
        pytest.skip("the sync facade has no async listeners")
    begun = time.monotonic()

    def listener(_: object) -> Any:
        return getattr(consumer, verb)()

    async def async_listener(_: object) -> None:
        call = getattr(consumer, verb)()
        # As wait_for has it before Python 3.12.
        await (call if way == "await" else asyncio.create_task(call))

    with api.consumer(address, group_id=ten, group_protocol=protocol) as consumer:
        consumer.subscribe(ten, on_assign=listener if way == "call" else async_listener)
        with pytest.raises(errors.ArgumentError, match="a listener cannot call it"):
            api(consumer.poll(PATIENCE))
        api(consumer.poll(0))
        assert time.monotonic() - begun < 4, "less than a close has"


def test_a_task_that_a_listener_leaves_behind_may_close_the_consumer(address: str, ten: str) -> None:
    async def main() -> None:
        closings: list[asyncio.Task[None]] = []

        async def listener(_: object) -> None:
            closings.append(asyncio.create_task(consumer.close(PATIENCE)))

        consumer = aio.Consumer(address, group_id=ten)
        consumer.subscribe(ten, on_assign=listener)
        # The poll that called the listener may meet the close.
        with contextlib.suppress(errors.ClosedError):
            while not closings:
                await consumer.poll(PATIENCE)
        await closings[0]
        with pytest.raises(errors.ClosedError):
            await consumer.poll(0)

    asyncio.run(main())


def test_an_acknowledgement_callback_may_close_its_share_consumer(api: Api, address: str, ten: str) -> None:
    def callback(_: object) -> Any:
        told.append(time.monotonic())
        return consumer.close(PATIENCE)

    told: list[float] = []
    with api.open("ShareConsumer", address, group_id=ten, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(ten)
        consumer.set_acknowledgement_callback(callback)
        while not len(batch := api(consumer.poll(0.1))):
            more(address, ten)
        consumer.acknowledge(batch)
        api(consumer.commit(timeout=PATIENCE))
        while not told:
            api(consumer.poll(0.1))
        assert time.monotonic() - told[0] < SOON
        with pytest.raises(errors.ClosedError):
            api(consumer.poll(0))


def test_a_close_does_not_wait_longer_than_its_timeout_for_metrics(address: str) -> None:
    async def never(_: object) -> None:
        await asyncio.sleep(600)

    async def main() -> None:
        for kind in ("Producer", "Admin", "Consumer"):
            client = getattr(aio, kind)(address, on_metrics=never)
            begun = time.monotonic()
            await client.close(0.2)
            assert time.monotonic() - begun < SOON

    asyncio.run(main())


@pytest.mark.parametrize("metrics", [False, True], ids=["plain", "metrics"])
@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin", "ShareConsumer"])
@pytest.mark.parametrize("facade", ["ottla", "aio"])
def test_a_close_in_a_finalizer_is_quiet_while_the_interpreter_ends(
    address: str, facade: str, kind: str, metrics: bool
) -> None:
    program = f"""
import asyncio, sys, ottla
from ottla import aio

class Holder:
    def __init__(self):
        options = {{"group_id": "finalized"}} if "Consumer" in {kind!r} else {{}}
        if {metrics}:
            options["on_metrics"] = lambda _: None
        self.client = {facade}.{kind}(sys.argv[1], **options)
        self.loop = asyncio.new_event_loop()

    def __del__(self):
        closing = self.client.close()
        if closing is not None:
            self.loop.run_until_complete(closing)
        self.loop.close()

holder = Holder()
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
