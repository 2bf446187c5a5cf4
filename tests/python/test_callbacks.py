"""Callbacks of deliveries run one after the other, whatever one of them raises."""

from __future__ import annotations

import sys

import pytest

import ottla


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_a_callback_that_raises_ends_nothing(broker, address, topic, monkeypatch, error):
    """Not even one that says `sys.exit()`: later callbacks run, and flush waits for them."""
    raised, called = [], []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: raised.append(kind))

    def callback(delivery):
        called.append(delivery)
        raise error("of ours")

    with ottla.Producer(address) as producer:
        for _ in range(3):
            broker.delay("Produce", 0.1)
            delivery = producer.send(topic, b"v")
            delivery.add_done_callback(callback)
            producer.flush(20)
            assert called.pop() is delivery
    assert raised == [error] * 3


def test_a_hook_that_raises_ends_nothing(broker, address, topic, monkeypatch):
    called = []
    monkeypatch.setattr(sys, "excepthook", lambda *_: sys.exit("of ours"))

    def callback(delivery):
        called.append(delivery)
        raise ValueError("of ours")

    with ottla.Producer(address) as producer:
        for count in (1, 2):
            broker.delay("Produce", 0.1)
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
