"""`transform`: each record is written once, whatever fails, and a stop or an error leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ottla
from ottla import aio, errors
from ottla._transforming import Progress
from tests.python.conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.testing import Broker
    from tests.python.conftest import Api

pytestmark = pytest.mark.uvloop

COUNT = 200
EARLIEST = {"auto.offset.reset": "earliest"}


def shout(batch: ottla.Batch) -> Iterable[ottla.NewRecord]:
    for record in batch:
        yield ottla.NewRecord(record.value.upper(), key=record.key)


class Worker(threading.Thread):
    """A transform of either facade, in a thread of its own."""

    def __init__(self, api: Api, address: str, topic: str, function: Any = shout, **options: Any) -> None:
        super().__init__(daemon=True)
        options = {"to": f"{topic}-out", "group_id": topic, "consumer": EARLIEST} | options
        self.made = api.module.transform(address, function, topics=topic, **options)
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            result = self.made.run()
            if inspect.isawaitable(result):
                asyncio.run(await_it(result))
        except BaseException as error:
            self.failure = error

    def ended(self) -> BaseException | None:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.failure

    def stop(self) -> None:
        self.made.stop()
        assert self.ended() is None


async def await_it(result: Any) -> None:
    await result


@pytest.fixture
def filled(address: str, topic: str) -> str:
    """A topic with records in both partitions, and one to write to."""
    with ottla.Admin(address) as admin, ottla.Producer(address) as producer:
        admin.create_topics([ottla.NewTopic(f"{topic}-out", partitions=2)])
        values = [f"v{n}" for n in range(COUNT)]
        producer.send_many(topic, values, partitions=[n % 2 for n in range(COUNT)]).result(PATIENCE)
    return topic


def written(address: str, topic: str) -> list[bytes | None]:
    """What is committed of the topic written to."""
    with ottla.Consumer(address, topics=f"{topic}-out", isolation_level="read_committed", config=EARLIEST) as consumer:
        end = sum(consumer.end_offsets([(f"{topic}-out", 0), (f"{topic}-out", 1)]).values())
        found: list[bytes | None] = []
        seen = 0
        while seen < end:
            batch = consumer.poll(0.1)
            found += [record.value for record in batch]
            seen = sum(consumer.position((f"{topic}-out", p)) for p in range(2))
        return found


def committed(address: str, topic: str) -> int:
    with ottla.Consumer(address, group_id=topic) as consumer:
        found = consumer.committed([(topic, 0), (topic, 1)])
    return sum(each.offset for each in found.values() if each)


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


EXPECTED = sorted(f"V{n}".encode() for n in range(COUNT))


def test_each_record_is_written_once_and_its_offset_with_it(api: Api, address: str, filled: str) -> None:
    worker = Worker(api, address, filled, max_records=30)
    wait_until(lambda: committed(address, filled) == COUNT)
    worker.stop()
    assert sorted(written(address, filled)) == EXPECTED


def test_a_stop_commits_what_is_done(api: Api, address: str, filled: str) -> None:
    seen: list[int] = []

    def count(batch: ottla.Batch) -> Iterable[ottla.NewRecord]:
        seen.append(len(batch))
        return shout(batch)

    worker = Worker(api, address, filled, count, commit_interval=1000, max_records=150)
    wait_until(lambda: sum(seen) >= 150)
    worker.stop()
    assert len(written(address, filled)) == sum(seen) == committed(address, filled)


def test_a_stop_before_the_run_is_kept(api: Api, address: str, filled: str) -> None:
    made = api.module.transform(address, shout, topics=filled, group_id=filled, to="x")
    made.stop()
    api(made.run())
    assert written(address, filled) == []


@pytest.mark.parametrize("when", ["called", "iterated"])
def test_what_the_function_raises_ends_the_run_and_nothing_of_it_takes_effect(
    api: Api, address: str, filled: str, when: str
) -> None:
    done: list[int] = []

    def fail(batch: ottla.Batch) -> Iterable[ottla.NewRecord]:
        def some() -> Iterable[ottla.NewRecord]:
            yield from list(shout(batch))[:5]
            raise errors.KafkaTimeoutError("the database")

        if done:
            if when == "called":
                raise errors.KafkaTimeoutError("the database")
            return some()
        done.append(len(batch))
        return shout(batch)

    worker = Worker(api, address, filled, fail, max_records=50, commit_interval=0)
    error = worker.ended()
    assert isinstance(error, errors.KafkaTimeoutError)
    assert error.args == ("the database",)
    assert traceback.extract_tb(error.__traceback__)[-1].name == {"called": "fail", "iterated": "some"}[when]
    assert len(written(address, filled)) == committed(address, filled) == sum(done)
    # The next one goes on from there, sooner than a session ends: the failed one has left the group, and nothing is open.
    again = Worker(api, address, filled)
    wait_until(lambda: committed(address, filled) == COUNT)
    again.stop()
    assert sorted(written(address, filled)) == EXPECTED


@pytest.mark.parametrize(
    "fault",
    [
        lambda broker: broker.fail("TxnOffsetCommit", "ILLEGAL_GENERATION"),
        lambda broker: broker.fail("TxnOffsetCommit", "UNKNOWN_MEMBER_ID", count=3),
        lambda broker: broker.fail("EndTxn", "INVALID_PRODUCER_EPOCH"),
        lambda broker: broker.fail("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        lambda broker: broker.disconnect("EndTxn", applied=True, count=2),
        lambda broker: broker.disconnect("TxnOffsetCommit", count=2),
    ],
    ids=["generation", "member", "epoch", "sequence", "answer", "connection"],
)
def test_a_transaction_that_fails_is_done_again(
    api: Api, broker: Broker, address: str, filled: str, fault: Callable[[Broker], None]
) -> None:
    turns: list[int] = []

    def hurt(batch: ottla.Batch) -> Iterable[ottla.NewRecord]:
        turns.append(len(batch))
        if len(turns) == 3:
            fault(broker)
        return list(shout(batch))

    worker = Worker(api, address, filled, hurt, consumer=EARLIEST | {"heartbeat.interval.ms": 50}, max_records=20)
    wait_until(lambda: worker.failure is not None or committed(address, filled) == COUNT)
    if worker.failure:
        raise worker.failure
    worker.stop()
    assert sorted(written(address, filled)) == EXPECTED


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_transaction_ends_before_partitions_go_to_another_member(
    api: Api, broker: Broker, address: str, filled: str, strategy: str, fails: bool
) -> None:
    given: list[int] = []

    def count(batch: ottla.Batch) -> list[ottla.NewRecord]:
        given.append(len(batch))
        time.sleep(0.02)
        return list(shout(batch))

    small = {"max.poll.records": 5, "partition.assignment.strategy": strategy, "heartbeat.interval.ms": 50}
    first = Worker(api, address, filled, count, consumer=EARLIEST | small, commit_interval=1000)
    wait_until(lambda: sum(given) >= 30)
    # Nothing is committed yet, and in one of the cases the commit that the rebalance asks for fails.
    assert committed(address, filled) == 0
    if fails:
        broker.fail("TxnOffsetCommit", "ILLEGAL_GENERATION")
    second = Worker(api, address, filled, consumer=EARLIEST | small)
    wait_until(lambda: committed(address, filled) > 0)
    wait_until(lambda: sum(given) >= COUNT // 2 and committed(address, filled) >= COUNT // 2)
    first.stop()
    wait_until(lambda: committed(address, filled) == COUNT)
    second.stop()
    assert sorted(written(address, filled)) == EXPECTED


def test_a_record_that_is_refused_ends_the_run_with_its_reason(
    api: Api, broker: Broker, address: str, filled: str
) -> None:
    broker.fail("Produce", "MESSAGE_TOO_LARGE", count=100)
    error = Worker(api, address, filled).ended()
    broker.clear_faults()
    assert isinstance(error, errors.KafkaError)
    assert error.name == "MESSAGE_TOO_LARGE"
    assert written(address, filled) == []
    assert committed(address, filled) == 0


def test_failures_end_the_run_when_the_time_for_them_is_up(api: Api, broker: Broker, address: str, filled: str) -> None:
    broker.fail("TxnOffsetCommit", "UNKNOWN_MEMBER_ID", count=100)
    error = Worker(api, address, filled, retry_for=0.2).ended()
    broker.clear_faults()
    assert isinstance(error, errors.TransactionAbortableError)
    assert "no transaction was committed for 0.2 s" in "".join(error.__notes__)


def test_a_failure_is_over_when_nothing_happens_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("ottla._transforming.time.monotonic", lambda: now)
    settings = ottla.transform("x:1", shout, topics="t", group_id="g", retry_for=300)._settings
    for quiet in (6.0, 4.0):
        progress = Progress(settings)
        progress.failed(errors.KafkaTimeoutError("away"))
        progress.restarted()
        progress.read_nothing()
        now += quiet
        progress.read_nothing()
        now += 301
        if quiet > 5:
            progress.failed(errors.KafkaTimeoutError("away again"))
        else:
            with pytest.raises(errors.KafkaTimeoutError, match="away again"):
                progress.failed(errors.KafkaTimeoutError("away again"))


def test_who_starts_with_a_name_ends_at_once_what_was_left_open(api: Api, address: str, filled: str) -> None:
    """Nothing comes from the topic, and readers of what is written wait for the transaction."""
    left = ottla.Producer(address, transactional_id="heir", transaction_timeout_ms=300_000)
    left.begin_transaction()
    left.send(f"{filled}-out", "never", partition=0).result(PATIENCE)
    worker = Worker(api, address, filled, transactional_id="heir", consumer={"auto.offset.reset": "latest"})
    place = ottla.TopicPartition(f"{filled}-out", 0)
    with ottla.Consumer(address, isolation_level="read_committed") as consumer:
        wait_until(lambda: consumer.end_offsets([place])[place] > 1)
    worker.stop()
    with contextlib.suppress(errors.FencedError):
        left.close(0)


def test_a_stop_in_a_handler_that_interrupts_the_pause_after_a_failure(
    api: Api, broker: Broker, address: str, filled: str
) -> None:
    broker.fail("TxnOffsetCommit", "UNKNOWN_MEMBER_ID", count=1000)
    made = api.module.transform(address, shout, topics=filled, group_id=filled, to=f"{filled}-out", consumer=EARLIEST)

    def stop(*_: object) -> None:
        # Whatever the handler has interrupted, it ends.
        for _ in range(3):
            made.stop()

    def told() -> None:
        wait_until(lambda: bool(failed))
        os.kill(os.getpid(), signal.SIGUSR1)

    failed: list[logging.LogRecord] = []

    def note(record: logging.LogRecord) -> bool:
        failed.append(record)
        return True

    logger = logging.getLogger("ottla.transform")
    logger.addFilter(note)
    before = signal.signal(signal.SIGUSR1, stop)
    teller = threading.Thread(target=told)
    teller.start()
    try:
        api(made.run())
    finally:
        teller.join(PATIENCE)
        signal.signal(signal.SIGUSR1, before)
        logger.removeFilter(note)
        broker.clear_faults()
    assert committed(address, filled) == 0


def test_two_with_one_transactional_id_end_with_an_error_that_says_so(api: Api, address: str, filled: str) -> None:
    worker = Worker(api, address, filled, transactional_id="one", max_records=10)
    wait_until(lambda: committed(address, filled) >= 10)
    with ottla.Producer(address, transactional_id="one") as other:
        other.init_transactions()
        with ottla.Producer(address) as producer:
            for _ in range(100):
                producer.send(filled, "more", partition=0).result(PATIENCE)
                if not worker.is_alive():
                    break
        error = worker.ended()
    assert isinstance(error, errors.FencedError)
    assert "transactional_id='one'" in "".join(error.__notes__)


def test_tables_tombstones_and_topics_of_their_own(api: Api, address: str, filled: str) -> None:
    def table(batch: ottla.Batch) -> Any:
        values = [None if row % 2 else b"even" for row in range(len(batch))]
        return pa.table({"value": pa.array(values, pa.binary()), "partition": [1] * len(batch)})

    worker = Worker(api, address, filled, table)
    wait_until(lambda: committed(address, filled) == COUNT)
    worker.stop()
    assert {*written(address, filled)} == {None, b"even"}

    def named(batch: ottla.Batch) -> Iterable[ottla.NewRecord]:
        return [ottla.NewRecord(None, key="k", topic=f"{filled}-out", headers={"h": b"1"}, timestamp=7) for _ in batch]

    worker = Worker(api, address, filled, named, to=None, group_id=f"{filled}-2")
    wait_until(lambda: len(written(address, filled)) == 2 * COUNT)
    worker.stop()


@pytest.mark.parametrize(
    ("function", "to", "said"),
    [
        (lambda batch: [b"v"], "t", "not bytes"),
        (lambda batch: [ottla.NewRecord(b"v")], None, "no topic"),
        (lambda batch: 5, "t", "int"),
    ],
)
def test_what_cannot_be_written_is_told(
    api: Api, address: str, filled: str, function: Any, to: str | None, said: str
) -> None:
    error = Worker(api, address, filled, function, to=to).ended()
    assert isinstance(error, (TypeError, errors.ArgumentError))
    assert said in str(error)
    assert committed(address, filled) == 0


def test_settings_that_can_never_work(api: Api) -> None:
    make = lambda **options: api.module.transform("x:1", shout, topics="t", group_id="g", **options)  # noqa: E731
    for properties in ("config", "consumer", "producer"):
        with pytest.raises(errors.ConfigError, match=r"enable\.auto\.commit"):
            make(**{properties: {"enable.auto.commit": True}})
    with pytest.raises(errors.ConfigError, match=r"transactional\.id"):
        make(producer={"transactional_id": "x"})
    with pytest.raises(errors.ArgumentError, match="max_records is 0"):
        make(max_records=0)
    with pytest.raises(errors.ArgumentError, match="commit_interval"):
        make(commit_interval=-1)
    assert make().transactional_id != make().transactional_id
    assert make(transactional_id="mine").transactional_id == "mine"


def test_an_async_function_and_a_cancelled_run(address: str, filled: str) -> None:
    async def one_by_one(batch: ottla.Batch) -> Any:
        for record in shout(batch):
            await asyncio.sleep(0)
            yield record

    async def at_once(batch: ottla.Batch) -> Any:
        await asyncio.sleep(0)
        return list(shout(batch))

    async def stuck(batch: ottla.Batch) -> Any:
        yield ottla.NewRecord(b"never")
        seen.set()
        await asyncio.sleep(PATIENCE)

    seen = asyncio.Event()

    async def main() -> None:
        options: dict[str, Any] = {"topics": filled, "to": f"{filled}-out", "consumer": EARLIEST, "max_records": 100}
        running = asyncio.ensure_future(aio.transform(address, stuck, group_id=filled, **options).run())
        await asyncio.wait_for(seen.wait(), PATIENCE)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE)
        for function in (one_by_one, at_once):
            made = aio.transform(address, function, group_id=filled, **options)
            running = asyncio.ensure_future(made.run())
            end = 100 if function is one_by_one else COUNT
            while await asyncio.to_thread(committed, address, filled) < end:  # noqa: ASYNC110 what a broker has
                await asyncio.sleep(0.02)
            made.stop()
            await asyncio.wait_for(running, PATIENCE)

    asyncio.run(main())
    assert sorted(written(address, filled)) == EXPECTED


def test_batches_know_what_they_span(address: str, filled: str) -> None:
    with ottla.Consumer(address, config=EARLIEST) as consumer:
        consumer.assign([ottla.TopicPartition(filled, 1)])
        batch = consumer.poll(PATIENCE)
        partition = ottla.TopicPartition(filled, 1)
        assert batch.spans == {partition: range(COUNT // 2)}
        assert batch.next_offsets == {partition: COUNT // 2}
        part = batch[3:5]
        assert part.spans == {partition: range(3, 5)}
        assert part.next_offsets == {partition: 5}
        assert batch[:0].spans == batch[:0].next_offsets == {}
        consumer.assign([(filled, 0), ottla.TopicPartition(filled, 1, offset=0)])
        both: dict[ottla.TopicPartition, int] = {}
        while len(both) < 2:
            batch = consumer.poll(PATIENCE)
            both |= batch.next_offsets
            assert batch.next_offsets == {key: span.stop for key, span in batch.spans.items()}
        assert both == {partition: COUNT // 2, ottla.TopicPartition(filled, 0): COUNT // 2}
