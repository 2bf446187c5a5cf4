"""What clients tell comes to Python's `logging`, under `ottla.*`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time

import pytest

import ottla
from tests.ports import held_port
from tests.waiting import wait_for_ours


@pytest.fixture
def nobody():
    """An address where nobody listens."""
    with held_port() as port:
        yield f"127.0.0.1:{port}"


def fail_to_connect(api, address, **options):
    with api.admin(address, default_api_timeout_ms=1500, **options) as admin, pytest.raises(ottla.KafkaError):
        api(admin.list_topics())


def test_a_dead_address_is_logged(api, caplog, nobody):
    """Before the close returns, with the client's id and what a handler may look at."""
    fail_to_connect(api, nobody, client_id="my-app")
    [record, *_] = caplog.records
    assert (record.name, record.levelname) == ("ottla.connection", "WARNING")
    assert record.getMessage().startswith(f"my-app: cannot connect to {nobody}: ")
    assert (record.kind, record.client, record.role, record.broker) == ("ConnectFailed", "my-app", "admin", nobody)


def polls(consumer):
    with pytest.raises(ottla.KafkaError):
        consumer.poll(20)


def test_it_is_logged_while_a_call_waits(caplog, nobody):
    """By a thread of Python's own: the caller's is busy."""
    heard = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record):
            threads.append(threading.current_thread().name)
            heard.set()

    threads: list[str] = []
    handler = Handler()
    logging.getLogger("ottla").addHandler(handler)
    try:
        with ottla.Consumer(nobody) as consumer:
            consumer.assign([("t", 0)])
            waiting = threading.Thread(target=polls, args=(consumer,))
            waiting.start()
            assert heard.wait(20)
            assert waiting.is_alive(), "the thread that polls still waits"
            consumer.close()
            waiting.join(20)
    finally:
        logging.getLogger("ottla").removeHandler(handler)
    assert threads[0] == "ottla-logging"


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        (logging.DEBUG, {"Connected", "Answered"}),
        (logging.INFO, {"Connected"}),
        (logging.WARNING, set()),
    ],
)
def test_only_what_a_logger_is_enabled_for(api, caplog, address, level, kinds):
    with caplog.at_level(level, "ottla"), api.admin(address) as admin:
        api(admin.list_topics())
    assert kinds <= {record.kind for record in caplog.records}
    assert {record.levelno >= level for record in caplog.records} <= {True}


def test_debug_events_that_nobody_is_enabled_for_are_not_even_made(address, monkeypatch):
    """Each request has some: none comes out of the queue that would then be thrown away."""
    from ottla import _logging

    drained = []
    monkeypatch.setattr(_logging, "_log", lambda level, *_: drained.append(level))
    for level, some in ((logging.WARNING, False), (logging.DEBUG, True)):
        logging.getLogger("ottla.connection").setLevel(level)
        try:
            with ottla.Admin(address) as admin:
                admin.list_topics()
        finally:
            logging.getLogger("ottla.connection").setLevel(logging.NOTSET)
        assert (logging.DEBUG in drained) == some


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_a_level_may_be_lowered_at_any_time(address, caplog, level):
    """Also after the first client was made, and while no event comes that would show it."""
    with ottla.Admin(address) as admin:
        admin.list_topics()
        with caplog.at_level(level, "ottla"):
            if level == logging.INFO:
                # From the next event on.
                with ottla.Admin(address) as other:
                    other.list_topics()
                assert "Connected" in {record.kind for record in caplog.records}
                return
            told = lambda: {record.kind for record in caplog.records if record.levelno == logging.DEBUG}  # noqa: E731
            wait_for_ours(lambda: admin.list_topics() is not None and "Answered" in told(), "events of requests")


class ClosesItsClient(logging.Handler):
    """As handlers that send records to Kafka do."""

    def __init__(self, address):
        super().__init__()
        self.producer = ottla.Producer(address)
        self.emitting = threading.Event()

    def handle(self, record):
        self.emitting.set()
        return super().handle(record)

    def close(self):
        with self.lock:
            self.producer.close()
        super().close()


@pytest.mark.parametrize("way", ["handler", "logging"])
def test_a_close_under_a_lock_of_logging_does_not_wait_for_the_thread_that_logs(nobody, monkeypatch, way):
    """That thread waits for the same lock."""
    from ottla import _logging

    monkeypatch.setattr(_logging, "_PATIENCE", 120.0)
    handler = ClosesItsClient(nobody)
    logger = logging.getLogger("ottla.connection")
    logger.addHandler(handler)
    try:
        handler.acquire()
        other = ottla.Consumer(nobody)
        other.assign([("t", 0)])
        waiting = threading.Thread(target=polls, args=(other,))
        waiting.start()
        assert handler.emitting.wait(20), "the thread that logs waits for the handler's lock"
        began = time.monotonic()
        if way == "handler":
            handler.close()
        else:
            logging.shutdown([lambda: handler])
        assert time.monotonic() - began < _logging._PATIENCE / 2
    finally:
        handler.release()
        logger.removeHandler(handler)
    other.close()
    waiting.join(20)
    assert not waiting.is_alive()


def test_a_handler_that_fails_hides_nothing(api, caplog, nobody, capsys):
    """Its error goes where Python sends those that nobody can catch; later events come."""

    class Handler(logging.Handler):
        def handle(self, record):
            raise RuntimeError("a handler of ours")

    handler = Handler()
    logging.getLogger("ottla.connection").addHandler(handler)
    try:
        fail_to_connect(api, nobody)
    finally:
        logging.getLogger("ottla.connection").removeHandler(handler)
    assert "a handler of ours" in capsys.readouterr().err
    caplog.clear()
    fail_to_connect(api, nobody)
    assert caplog.records


SCRIPT = """
import logging, sys, ottla
logging.basicConfig(format="%(name)s %(message)s", stream=sys.stdout, level=logging.WARNING)
producer = ottla.Producer("{address}", client_id="forgotten", delivery_timeout_ms=400, request_timeout_ms=200, linger_ms=0)
try:
    producer.partitions_for("t", timeout=2)
except ottla.KafkaError:
    pass
{end}
"""


@pytest.mark.parametrize("end", ["", "producer.close()"])
def test_nothing_is_lost_at_exit(nobody, end):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(address=nobody, end=end)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "ottla.connection forgotten: cannot connect to" in done.stdout, done


def test_a_forked_child_logs_for_itself(nobody):
    """It has a queue and a thread of its own: those of the parent did not cross."""
    with ottla.Admin(nobody):
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            logging.getLogger("ottla").handlers = [logging.StreamHandler(os.fdopen(send, "w"))]
            try:
                ottla.Admin(nobody, default_api_timeout_ms=2000).list_topics()
            except ottla.KafkaError:
                pass
            finally:
                from ottla import _logging

                _logging.drain()
                os._exit(0)
        os.close(send)
        with os.fdopen(receive) as pipe:
            said = pipe.read()
        assert os.waitpid(child, 0)[1] == 0
    assert "cannot connect to" in said


def test_who_logs_nothing_imports_nothing():
    """`import ottla` alone does not import `logging`."""
    script = "import sys, ottla; sys.exit('logging' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
