"""Contexts of Kerberos are released once, whichever thread is the last to use them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from ottla._sasl import _gssapi


class Library:
    """Count releases, and let a test hold a step."""

    def __init__(self):
        self.released = 0
        self.names = []
        self.step_begun, self.step_may_end = threading.Event(), threading.Event()

    def name(self, text, kind):
        self.names.append(text)

    def step(self, context, credentials, target, token):
        self.step_begun.set()
        assert self.step_may_end.wait(60)
        return b"token", False

    def release(self, context, target, credentials):
        self.released += 1


class Lock:
    """A lock that runs `after` once, right after the release that the thread `of` makes."""

    def __init__(self, of, after):
        self.lock, self.of, self.after = threading.Lock(), of, after

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *raised):
        self.lock.release()
        if threading.current_thread() is self.of and self.after is not None:
            after, self.after = self.after, None
            after()


@pytest.mark.timeout(120)
def test_a_context_whose_step_ends_while_its_connection_ends_is_released_once(monkeypatch):
    library = Library()
    monkeypatch.setattr(_gssapi, "Library", lambda: library)
    kerberos = _gssapi.Kerberos({})
    request = SimpleNamespace(kind="context", data=b"", connection=1, host="h", answer=lambda *_, **__: None)
    step = threading.Thread(target=kerberos.answer, args=[request])
    step.start()
    assert library.step_begun.wait(60)

    # The step ends between the moment at which `end` releases the lock and its look at the step.
    def finish_step():
        library.step_may_end.set()
        step.join(60)

    kerberos._lock = Lock(threading.current_thread(), finish_step)
    kerberos.end(1)
    assert not step.is_alive()
    assert library.released == 1


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "kafka@b1.example"),
        ({"sasl.kerberos.service.name": "bus"}, "bus@b1.example"),
        ({"sasl.kerberos.domain.name": "kafka.example"}, "kafka@kafka.example"),
    ],
)
def test_the_principal_of_a_broker_has_the_host_of_its_address_or_the_one_that_is_set(monkeypatch, settings, name):
    library = Library()
    library.step_may_end.set()
    monkeypatch.setattr(_gssapi, "Library", lambda: library)
    request = SimpleNamespace(kind="context", data=b"", connection=1, host="b1.example", answer=lambda *_, **__: None)
    _gssapi.Kerberos(settings).answer(request)
    assert library.names == [name]
