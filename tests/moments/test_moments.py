"""What only Python's side has, at moments that a seed chooses: cancelled tasks, loops that end early, threads that close,
Ctrl-C and forks, while the broker misbehaves. Every record's fate is told once, and the log agrees.

A failure names its seed; `pytest tests/moments -k '7-'` runs what the seed 7 does again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import aio, errors
from ottla.testing import Broker
from tests.integration.peers.confluent import Confluent
from tests.moments.fates import DEADLINE, PARTITIONS, QUICK, TOPIC, Fates, disturb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from tests.integration.messages import Message

    Run = Callable[[Coroutine[Any, Any, None]], None]

SEEDS = range(12)
# Each takes a process of its own.
FEW_SEEDS = range(6)
A_MOMENT = 0.25


def seeds(numbers: range) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seed", numbers, ids=lambda seed: f"{seed}-")


def seeds_of_loops(numbers: range) -> pytest.MarkDecorator:
    """As `seeds`, with what `run` needs."""
    marks = [], [pytest.mark.needs("uvloop")]
    params = [pytest.param(number, id=f"{number}-", marks=marks[number % 2]) for number in numbers]
    return pytest.mark.parametrize("seed", params)


@pytest.fixture
def run(seed: int) -> Run:
    """Run a coroutine, as `asyncio.run` does; seeds that are odd run it on uvloop."""
    if seed % 2:
        import uvloop

        return uvloop.run
    return asyncio.run


@pytest.fixture
def chance(seed: int) -> random.Random:
    return random.Random(seed)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={TOPIC: PARTITIONS}) as running:
        yield running


def log_of(broker: Broker) -> list[Message]:
    """The whole log, as a client reads it that is not ours."""
    broker.clear_faults()
    return Confluent().consume_all(broker.bootstrap_servers, TOPIC, PARTITIONS)


@seeds_of_loops(SEEDS)
def test_cancelled_tasks(broker: Broker, chance: random.Random, run: Run) -> None:
    """Tasks are cancelled while they send, await deliveries or flush; the others do not notice."""
    fates = Fates()

    async def work(producer: aio.Producer, name: int) -> None:
        for number in range(20):
            value = b"%d-%d" % (name, number)
            fates.unheard.add(value)
            with contextlib.suppress(errors.KafkaError):
                delivery = await producer.send(TOPIC, value)
                fates.add(value, delivery)
                if chance.random() < 0.5:
                    await delivery
                if chance.random() < 0.1:
                    await producer.flush()

    async def main() -> None:
        buffer = chance.choice([8_192, 1 << 20])
        options = {**QUICK, "buffer_memory": buffer, "batch_size": 4_096}
        async with aio.Producer(broker.bootstrap_servers, **options) as producer:
            tasks = [asyncio.create_task(work(producer, name)) for name in range(6)]
            for _ in range(8):
                disturb(broker, chance)
                await asyncio.sleep(chance.random() * A_MOMENT / 8)
                chance.choice(tasks).cancel()
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), DEADLINE)
            broker.clear_faults()
            with contextlib.suppress(errors.KafkaError):
                await producer.flush(DEADLINE)

    run(main())
    fates.check(log_of(broker))


@seeds_of_loops(SEEDS)
def test_polls_that_are_cancelled_lose_nothing(broker: Broker, chance: random.Random, run: Run) -> None:
    """Polls and iterations end at any moment; the next one goes on where the caller's last record was."""
    count = 120
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(TOPIC, [b"%d" % n for n in range(count)], partitions=[0] * count).result(DEADLINE)
    seen: list[int] = []

    async def iterate(consumer: aio.Consumer) -> None:
        async for record in consumer:
            seen.append(record.offset)
            if chance.random() < 0.1:
                await asyncio.sleep(0)

    async def poll(consumer: aio.Consumer) -> None:
        # A batch that a cancelled poll does not return stays with the consumer.
        seen.extend(record.offset for record in await consumer.poll(DEADLINE, max_records=chance.randint(1, 30)))

    async def main() -> None:
        async with aio.Consumer(broker.bootstrap_servers, fetch_max_wait_ms=20) as consumer:
            consumer.assign([ottla.TopicPartition(TOPIC, 0, 0)])
            # Each cut costs a pause before the next connection: a few, not one a poll.
            cuts = chance.randint(0, 3)
            end = time.monotonic() + DEADLINE
            while len(seen) < count:
                assert time.monotonic() < end, f"{len(seen)} of {count} records came"
                if cuts and chance.random() < 0.3:
                    broker.disconnect("Fetch")
                    cuts -= 1
                task = asyncio.create_task(chance.choice([iterate, poll])(consumer))
                await asyncio.sleep(chance.random() * 0.02)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, errors.KafkaError):
                    await task

    run(main())
    assert seen == list(range(count))


@seeds_of_loops(SEEDS)
def test_loops_that_end_early(broker: Broker, chance: random.Random, run: Run) -> None:
    """A loop ends while its tasks wait, and nobody closes the producer; another loop goes on with it."""
    fates = Fates()
    options = {**QUICK, "buffer_memory": 65_536, "batch_size": 4_096}
    producer = aio.Producer(broker.bootstrap_servers, **options)

    async def work(name: int) -> None:
        for number in range(30):
            value = b"%d-%d" % (name, number)
            fates.unheard.add(value)
            with contextlib.suppress(errors.KafkaError):
                delivery = await producer.send(TOPIC, value)
                fates.add(value, delivery)
                await delivery

    async def main(loop: int) -> None:
        tasks = [asyncio.create_task(work(10 * loop + name)) for name in range(3)]
        disturb(broker, chance)
        await asyncio.sleep(chance.random() * A_MOMENT / 3)
        assert tasks

    for loop in range(3):
        run(main(loop))
    broker.clear_faults()
    run(asyncio.wait_for(producer.close(DEADLINE), DEADLINE))
    fates.check(log_of(broker), heard=False)


@seeds(SEEDS)
def test_threads_share_a_producer_that_one_closes(broker: Broker, chance: random.Random) -> None:
    """A close in the middle: each send before it has a fate, each after it is refused."""
    fates = Fates()
    buffer = chance.choice([16_384, 1 << 20])
    producer = ottla.Producer(broker.bootstrap_servers, **QUICK, buffer_memory=buffer, batch_size=4_096)
    refused: list[BaseException] = []

    def work(name: int, waits: random.Random) -> None:
        for number in range(2_000):
            value = b"%d-%d" % (name, number)
            try:
                delivery = producer.send(TOPIC, value, partition=number % PARTITIONS)
            except errors.ClosedError as error:
                return refused.append(error)
            except errors.KafkaError:
                fates.unheard.add(value)
                continue
            fates.add(value, delivery)
            if waits.random() < 0.02:
                delivery.exception(DEADLINE)
        return None

    threads = [threading.Thread(target=work, args=(name, random.Random(chance.random()))) for name in range(4)]
    for thread in threads:
        thread.start()
    disturb(broker, chance)
    time.sleep(chance.random() * A_MOMENT)
    with contextlib.suppress(errors.KafkaError):
        producer.close(chance.choice([0, 0.01, 1, DEADLINE]))
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a send hangs after the close"
    fates.check(log_of(broker))


CHILD = """
import json, random, sys, threading, time
import ottla
address, seed = sys.argv[1], int(sys.argv[2])
chance, sent, told = random.Random(seed), {}, {}
lock = threading.Lock()
def tell(value, delivery):
    with lock:
        told[value] = told.get(value, 0) + 1
producer = ottla.Producer(address, request_timeout_ms=1000, delivery_timeout_ms=3000, max_block_ms=2000, linger_ms=0)
unheard, interrupted = [], False
try:
    print("ready", flush=True)
    for number in range(1_000_000):
        value = f"child-{number}"
        unheard = [value]
        delivery = producer.send("moments", value)
        sent[value] = delivery
        delivery.add_done_callback(lambda delivery, value=value: tell(value, delivery))
        if chance.random() < 0.3:
            delivery.exception(20)
        if chance.random() < 0.05:
            try:
                producer.flush(20)
            except ottla.KafkaError:
                pass
except KeyboardInterrupt:
    interrupted = True
try:
    producer.close(20)
except ottla.KafkaError:
    pass
fates = {}
for value, delivery in sent.items():
    error = delivery.exception(20)
    place = None if error else delivery.result(0)
    # The callback runs after the result is known, on another thread.
    end = time.monotonic() + 20
    while value not in told and value not in unheard and time.monotonic() < end:
        time.sleep(0.01)
    fates[value] = [told.get(value, 0), place and [place.partition, place.offset]]
print(json.dumps({"interrupted": interrupted, "unheard": unheard, "fates": fates}))
"""


@seeds(FEW_SEEDS)
def test_ctrl_c(broker: Broker, chance: random.Random, seed: int) -> None:
    """SIGINT at any moment of send, result, flush: KeyboardInterrupt at once, and what was sent keeps its one fate."""
    command = [sys.executable, "-X", "faulthandler", "-c", CHILD, broker.bootstrap_servers, str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        disturb(broker, chance)
        time.sleep(chance.random() * A_MOMENT)
        process.send_signal(signal.SIGINT)
        out, complaints = process.communicate(timeout=2 * DEADLINE)
    finally:
        process.kill()
        process.wait(DEADLINE)
    assert process.returncode == 0, complaints
    found = json.loads(out)
    assert found["interrupted"]
    log = {(r.partition, r.offset): (r.value or b"").decode() for r in log_of(broker)}
    assert len(set(log.values())) == len(log), "written twice"
    assert set(log.values()) <= set(found["fates"]) | set(found["unheard"])
    for value, (told, place) in found["fates"].items():
        # The interrupt may have come before the callback was added.
        fewest = 0 if value in found["unheard"] else 1
        assert fewest <= told <= 1, f"the fate of {value} was told {told} times"
        assert place is None or log[tuple(place)] == value


@seeds(FEW_SEEDS)
def test_forks(broker: Broker, chance: random.Random) -> None:
    """Children are forked while records are on their way; they are refused the parent's producer, which goes on."""
    fates, statuses = Fates(), list[int]()
    with ottla.Producer(broker.bootstrap_servers, **QUICK) as producer:
        for number in range(200):
            value = b"%d" % number
            fates.add(value, producer.send(TOPIC, value))
            if number % 50 == 25:
                disturb(broker, chance)
                time.sleep(chance.random() * A_MOMENT / 10)
                statuses.append(forked(producer))
        broker.clear_faults()
        with contextlib.suppress(errors.KafkaError):
            producer.flush(DEADLINE)
        fates.check(log_of(broker))
    assert statuses == [0] * len(statuses)


def forked(producer: ottla.Producer) -> int:
    """Fork a child that tries to send; its exit status, 0 if it was refused."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            producer.send(TOPIC, b"of the child")
        except errors.ForkedError:
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")
