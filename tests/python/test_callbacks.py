"""Callbacks of deliveries run one after the other, whatever one of them raises."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import ottla

if TYPE_CHECKING:
    from collections.abc import Iterator

# Records wait for a flush, so that a callback that was added before it is not called on the thread that adds it.
HELD = {"linger_ms": 100_000, "delivery_timeout_ms": 200_000}


@contextlib.contextmanager
def flushing(producer: ottla.Producer) -> Iterator[None]:
    """Flush on another thread, which ends when all callbacks have run."""
    thread = threading.Thread(target=producer.flush, args=[60])
    thread.start()
    try:
        yield
    finally:
        thread.join(60)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_callback_that_raises_ends_nothing(address, topic, monkeypatch, error):
    """Not even one that says `sys.exit()`: later callbacks run, and flush waits for them."""
    raised, called = [], []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: raised.append(kind))

    def callback(delivery):
        called.append(delivery)
        raise error("of ours")

    with ottla.Producer(address, **HELD) as producer:
        for _ in range(3):
            delivery = producer.send(topic, b"v")
            delivery.add_done_callback(callback)
            producer.flush(20)
            assert called.pop() is delivery
    assert raised == [error] * 3


def test_a_hook_that_raises_ends_nothing(address, topic, monkeypatch):
    called = []
    monkeypatch.setattr(sys, "excepthook", lambda *_: sys.exit("of ours"))

    def callback(delivery):
        called.append(delivery)
        raise ValueError("of ours")

    with ottla.Producer(address, **HELD) as producer:
        for count in (1, 2):
            producer.send(topic, b"v").add_done_callback(callback)
            producer.flush(20)
            assert len(called) == count


def test_at_once_means_on_the_thread_that_asked(address, topic):
    """Where the fate is known already, `sys.exit()` is the caller's own."""
    with ottla.Producer(address) as producer:
        delivery = producer.send(topic, b"v")
        delivery.result(20)
        with pytest.raises(SystemExit):
            delivery.add_done_callback(lambda _: sys.exit())


def test_callbacks_come_in_the_order_of_fates(address, topic):
    """Also one that is asked for when its fate is known: it waits for those that are due, or under way."""
    called, go_on = [], threading.Event()

    def slow(delivery):
        go_on.wait(60)
        called.append(delivery)

    try:
        with ottla.Producer(address, **HELD) as producer:
            first = producer.send(topic, b"v", partition=0)
            first.add_done_callback(slow)
            second = producer.send_many(topic, [b"v"], partitions=0)
            with flushing(producer):
                second.result(20)
                second.add_done_callback(called.append)
                assert called == []
                go_on.set()
            producer.flush(20)
            assert called == [first, second]
    finally:
        go_on.set()


def test_ctrl_c_ends_the_wait_for_callbacks_at_every_moment(address, topic):
    """It is a `KeyboardInterrupt` wherever in that wait it comes, before each step of the interpreter, and nothing about a lock."""
    left = quiet = 0

    def interrupt(frame, event, _):
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            raise KeyboardInterrupt
        return interrupt

    go_on = threading.Event()
    try:
        with ottla.Producer(address, **HELD) as producer:
            delivery = producer.send(topic, b"v")
            delivery.add_done_callback(lambda _: go_on.wait(100))
            with flushing(producer):
                assert delivery.result(20)
                for steps in range(10_000):
                    left = steps
                    sys.settrace(interrupt)
                    try:
                        producer.flush(0.2)
                        quiet += 1
                    except KeyboardInterrupt:
                        quiet = 0
                    finally:
                        sys.settrace(None)
                    # One flush may end before its last step, where the thread was held up for 0.2 s.
                    if quiet == 5:
                        break
                assert 100 < steps < 9_999
                go_on.set()
            producer.flush(20)
    finally:
        go_on.set()
