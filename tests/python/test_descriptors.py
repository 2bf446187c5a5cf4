"""A process without free descriptors gets an error, and threads that serve queues start at the next attempt."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Prints for each number of free descriptors whether the first attempt raised OSError. Ends with an error if a thread
# started and died, or if the attempt with enough descriptors failed.
PROGRAM = """
import contextlib, importlib, os, resource, sys, threading

module = importlib.import_module(sys.argv[1])
once, name = getattr(module, sys.argv[2]), sys.argv[3]
os.close(os.open(os.devnull, os.O_RDONLY))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def alive():
    return [thread for thread in threading.enumerate() if thread.name == name and thread not in before]


for free in range(6):
    before = [thread for thread in threading.enumerate() if thread.name == name]
    once.forget()
    held = []
    with contextlib.suppress(OSError):
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    for _ in range(free):
        os.close(held.pop())
    try:
        kept = once.get()
        raised = False
        for thread in alive():
            thread.join(0.3)  # a thread without its descriptor ends at once
        assert alive(), f"the thread died with {free} free descriptors"
    except OSError:
        raised = True
        assert not alive(), "a thread is left behind"
    for each in held:
        os.close(each)
    if raised:
        kept = once.get()
        for thread in alive():
            thread.join(0.3)
        assert alive(), "no recovery"
    print(raised)
"""


@pytest.mark.parametrize(
    ("module", "once", "name"),
    [
        ("ottla._callbacks", "_caller", "ottla-callbacks"),
        ("ottla._logging", "_listener", "ottla-logging"),
        ("ottla._sasl", "_server", "ottla-sasl"),
    ],
)
def test_a_thread_is_not_started_without_its_descriptors(module, once, name):
    """A queue takes two descriptors and its selector one: with two free ones, the thread died and nobody noticed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module, once, name], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 3 + ["False"] * 3


def test_callbacks_recover(address, topic):
    """The first callback raises `OSError`; the next one is called, and `flush` waits for it."""
    program = """
import contextlib, os, resource, sys
import ottla

address, topic = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
producer = ottla.Producer(address, linger_ms=100_000, delivery_timeout_ms=200_000)
deliveries = [producer.send(topic, b"v") for _ in range(2)]
held = []
with contextlib.suppress(OSError):
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
for _ in range(2):
    os.close(held.pop())
called = []
try:
    deliveries[0].add_done_callback(called.append)
except OSError as error:
    print(type(error).__name__)
for each in held:
    os.close(each)
deliveries[1].add_done_callback(called.append)
producer.flush(20)
print(called == [deliveries[1]])
producer.close(5)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, address, topic], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.split() == ["OSError", "True"], done.stderr
