"""Brokers and clients for the integration tests: real Kafka, the embedded broker, and what speaks to both."""

from __future__ import annotations

import contextlib
import gc
import inspect
import re
import select
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.testing import Broker
from tests.brokers import tokens
from tests.brokers.running import EMBEDDED_KEPT, running
from tests.brokers.shared import shared
from tests.integration.peers import franz
from tests.integration.peers.aio_kafka import AioKafka
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.confluent import Confluent
from tests.integration.peers.java import VERSION, Java
from tests.integration.peers.kafka_python import KafkaPython
from tests.python.conftest import Api, AsyncApi, UvloopApi
from tests.python.conftest import api as api  # noqa: PLC0414 a fixture
from tests.python.conftest import each_api as pytest_generate_tests  # noqa: F401 a hook
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers.brokers import Cluster
    from tests.integration.peers.base import Peer

REAL = pytest.mark.needs("java", "mvn")
PEERS = [
    pytest.param("confluent-kafka"),
    pytest.param("aiokafka"),
    pytest.param("kafka-python"),
    pytest.param("java-console", marks=REAL),
    pytest.param("franz-go", marks=pytest.mark.needs("go")),
]


# Before what deselects tests by their marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents or not isinstance(item, pytest.Function):
            continue
        # kafka-python leaves sockets to the garbage collector; that is not what these tests are about.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        if is_real(item) and not has_its_turn(item):
            item.add_marker(pytest.mark.nightly)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave out modules, and the like, of the collections that `foreign_garbage` makes: 0.3 s after each test without this."""
    if any(Path(__file__).parent in item.path.parents for item in session.items):
        gc.collect()
        gc.freeze()


def is_real(item: pytest.Item) -> bool:
    """Whether the test needs real Kafka or a client that is not Python's."""
    return any({"java", "mvn", "go"} & set(mark.args) for mark in item.iter_markers("needs"))


def has_its_turn(item: pytest.Function) -> bool:
    """Whether a test with real Kafka or Java runs each time; `make nightly` runs the others, too.

    The tests of a file, and the parameters of a test, take the facades in turn, so that each facade meets the real Kafka of each
    file. On the embedded broker, and where the test is marked `each_api`, each facade runs each time. Java's console clients, of
    which each call starts a JVM, run with every second codec or broker: the other clients run with all of them.
    """
    if not hasattr(item, "callspec"):
        return True
    params = item.callspec.params
    if params.get("peer") == "java-console":
        return place(item, but="peer") % 2 == 0
    if "api" not in params or item.get_closest_marker("each_api"):
        return True
    facades = [Api, AsyncApi, UvloopApi] if item.get_closest_marker("uvloop") else [Api, AsyncApi]
    tests = [
        name
        for name, test in vars(item.module).items()
        if name.startswith("test_") and "api" in inspect.signature(test).parameters
    ]
    turn = tests.index(item.originalname) + place(item, but="api")
    return params["api"] is facades[turn % len(facades)]


def place(item: pytest.Function, but: str) -> int:
    """The sum of the positions that a test's parameters, but for one, have among their values."""
    positions = dict(item.callspec.indices)
    # Those that no fixture takes are numbered by pytest together.
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        rows = [value.values if hasattr(value, "marks") else value for value in mark.args[1]]
        row = tuple(item.callspec.params[name] for name in names)
        positions |= dict.fromkeys(names, 0)
        positions[names[0]] = [value if isinstance(value, tuple) else (value,) for value in rows].index(row)
    return sum(position for name, position in positions.items() if name != but)


@pytest.fixture(autouse=True)
def foreign_garbage() -> Iterator[None]:
    """Collect it while its warnings are ignored."""
    yield
    gc.collect()


# Of brokers whose death is to be noticed soon. With Kafka's usual heartbeat, every 2 s, one that stalls for a second is dead too.
SHORT_SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def start_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """Start real Kafka with the given harness options; all are stopped with the module: idle ones take time and memory."""
    with contextlib.ExitStack() as started:

        def start(**options: Any) -> Cluster:
            options = {"version": VERSION, "grace": 1.0} | options
            return started.enter_context(kafka_for_a_while(tmp_path_factory.mktemp("kafka"), **options))

        yield start


@contextlib.contextmanager
def kafka_for_a_while(folder: Path, **options: Any) -> Iterator[Cluster]:
    """Real Kafka that ends with the block: several nodes are too much to keep beside other tests."""
    config = {"auto.create.topics.enable": "false"} | options.pop("config", {})
    with running(folder, config=config, **options) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with shared(tmp_path_factory.mktemp("kafka"), VERSION) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def token(request: pytest.FixtureRequest) -> Iterator[None]:
    """One for a test that uses the shared cluster."""
    with tokens.held(tokens.NODE) if "shared_cluster" in request.fixturenames else contextlib.nullcontext():
        yield


@pytest.fixture(scope="package")
def cluster(shared_cluster: Cluster) -> Cluster:
    """A real Kafka of one node, shared by all tests of the run; for those marked `REAL`."""
    return shared_cluster


@pytest.fixture(scope="package")
def kafka(cluster: Cluster) -> str:
    """Its bootstrap address."""
    return str(cluster.st["bootstrap"]["PLAINTEXT"])


@pytest.fixture(scope="session")
def franz_program(tmp_path_factory: pytest.TempPathFactory) -> franz.Franz:
    return franz.Franz(franz.build(tmp_path_factory.mktemp("franz")))


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Peer:
    """The foreign client that the test's parameter names."""
    if request.param == "franz-go":
        return request.getfixturevalue("franz_program")  # type: ignore[no-any-return]
    return {p.name: p for p in (Confluent(), AioKafka(), KafkaPython(), Java())}[request.param]


def wait_for_markers(bootstrap: str, topic: str, partitions: int) -> None:
    """A broker answers the end of a transaction before its markers are in the log, and readers of what is committed end there."""
    every = [ottla.TopicPartition(topic, partition) for partition in range(partitions)]
    with (
        ottla.Consumer(bootstrap) as whole,
        ottla.Consumer(bootstrap, isolation_level="read_committed") as stable,
    ):
        wait_until(lambda: stable.end_offsets(every) == whole.end_offsets(every), f"no transaction of {topic} is open")


@pytest.fixture(scope="session")
def new_topic() -> Callable[..., str]:
    """Make a topic of a name of its own, through our Admin, and return the name."""

    def make(bootstrap: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        with ottla.Admin(bootstrap) as admin:
            admin.create_topics([ottla.NewTopic(name, partitions, 1, config=config)])
            wait_until(lambda: name in admin.list_topics(), f"the broker knows {name}")
        return name

    return make


@pytest.fixture(scope="module", params=["memory", "folder", "process"])
def embedded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of the embedded broker: in this process, in memory and on a folder, and as `ottla broker`."""
    if request.param == "process":
        yield from broker_process(*(f"--config={name}={value}" for name, value in EMBEDDED_KEPT.items()))
        return
    folder = tmp_path_factory.mktemp("embedded") if request.param == "folder" else None
    with Broker(data_dir=folder, config=EMBEDDED_KEPT) as broker:
        yield broker.bootstrap_servers


def broker_process(*options: object) -> Iterator[str]:
    """`python -m ottla broker` on a free port; ends it by its process id."""
    command = [sys.executable, "-m", "ottla", "broker", "--port", "0", *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield _address(process)
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE)
        finally:
            process.kill()
            process.wait(DEADLINE)
            if process.stdout:
                process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    """What the broker prints as its address."""
    assert process.stdout
    end, seen = time.monotonic() + DEADLINE, ""
    while time.monotonic() < end:
        if not select.select([process.stdout], [], [], 0.2)[0]:
            continue
        line = process.stdout.readline()
        seen += line
        if found := re.search(r"127\.0\.0\.1:\d+", line):
            return found[0]
        if not line:
            break
    raise AssertionError(f"ottla broker named no address: {seen}")
