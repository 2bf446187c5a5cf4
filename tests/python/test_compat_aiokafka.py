"""`ottla.compat.aiokafka`: programs print the same on aiokafka and on ottla, by one line or by another import."""

from __future__ import annotations

import asyncio
import inspect
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from ottla.compat import aiokafka as compat
from ottla.compat.aiokafka import errors, helpers
from ottla.compat.aiokafka.admin.client import AIOKafkaAdminClient
from ottla.compat.aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from ottla.compat.aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from ottla.compat.aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from ottla.testing import Broker, Certificates, bearer_token

aiokafka = pytest.importorskip("aiokafka")
PROGRAMS = Path(__file__).parent / "aiokafka_programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem != "__init__")
# Seconds until a program has ended: it waits up to 20 for each thing.
PATIENCE = 120


@pytest.fixture(scope="module")
def servers():
    sides = ("theirs", "ours", "imported")
    with Broker(topics={f"{name}-{side}": 3 for name in NAMES for side in sides}) as broker:
        yield broker.bootstrap_servers


def run(name, servers, side, tmp_path):
    source = PROGRAMS / f"{name}.py"
    if side == "imported":
        source = tmp_path / f"{name}.py"
        text = (PROGRAMS / f"{name}.py").read_text()
        source.write_text(re.sub(r"^from aiokafka", "from ottla.compat.aiokafka", text, flags=re.MULTILINE))
    seam = ["-m", "ottla.compat"] if side == "ours" else []
    command = [sys.executable, *seam, str(source), servers, f"{name}-{side}", f"group-{name}-{side}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.replace(f"{name}-{side}", "TOPIC").splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_the_same_on_ottla(name, servers, tmp_path):
    theirs = run(name, servers, "theirs", tmp_path)
    assert theirs
    assert run(name, servers, "ours", tmp_path) == theirs
    assert run(name, servers, "imported", tmp_path) == theirs


def python(text, *arguments):
    command = [sys.executable, "-c", text, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_install_replaces_the_public_modules_and_leaves_the_others():
    ended = python(
        "from ottla.compat.aiokafka import install; install(); install()\n"
        "import aiokafka, aiokafka.admin, aiokafka.producer.producer, aiokafka.errors, aiokafka.util\n"
        "from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor\n"
        "from aiokafka.record.memory_records import MemoryRecords\n"
        "for each in (aiokafka.AIOKafkaConsumer, aiokafka.admin.AIOKafkaAdminClient, RoundRobinPartitionAssignor, MemoryRecords):\n"
        "    print(each.__module__.split('.')[0])\n"
        "print(aiokafka.errors.KafkaError is aiokafka.util.__dict__.get('KafkaError', aiokafka.errors.KafkaError), aiokafka.__version__)\n"
    )
    assert ended.stdout.split() == ["ottla", "ottla", "ottla", "aiokafka", "True", aiokafka.__version__], ended.stderr


def test_install_needs_no_aiokafka():
    ended = python(
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Hidden:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'aiokafka': raise ModuleNotFoundError(name)\n"
        "from ottla.compat.aiokafka import install\n"
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'aiokafka' else found(name)\n"
        "install()\n"
        "from aiokafka import AIOKafkaProducer\n"
        "import aiokafka.helpers\n"
        "try:\n    import aiokafka.record\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    assert ended.stdout.split() == ["aiokafka.record"], ended.stderr


def test_install_after_the_import_says_what_to_do():
    ended = python("import aiokafka\nfrom ottla.compat.aiokafka import install\ninstall()")
    assert ended.returncode == 1
    assert "call install() first, or start the program with `python -m ottla.compat PROGRAM`" in ended.stderr


def public(module):
    return {name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")}


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".abc",
        ".admin",
        ".admin.config_resource",
        ".consumer",
        ".errors",
        ".helpers",
        ".partitioner",
        ".producer",
        ".structs",
    ],
)
def test_the_names_are_aiokafkas(name):
    theirs = __import__(f"aiokafka{name}", fromlist=["x"])
    ours = __import__(f"ottla.compat.aiokafka{name}", fromlist=["x"])
    names = {n for n in public(theirs) if getattr(getattr(theirs, n), "__module__", "").startswith("aiokafka")}
    assert names
    assert sorted(n for n in names if not hasattr(ours, n)) == []


@pytest.mark.parametrize("name", ["AIOKafkaProducer", "AIOKafkaConsumer", "AIOKafkaClient"])
def test_methods_and_parameters_are_aiokafkas(name):
    compare(getattr(aiokafka, name), getattr(compat, name))


def test_the_admin_clients_methods_and_parameters_are_aiokafkas():
    from aiokafka.admin import AIOKafkaAdminClient as Theirs

    compare(Theirs, AIOKafkaAdminClient)


# Methods of aiokafka's client that only its own modules call.
INNER = {"api_version", "check_version", "coordinator_lookup", "get_random_node", "set_topics"}


def compare(theirs, ours):
    methods = [n for n, each in vars(theirs).items() if callable(each) and (not n.startswith("_") or n == "__init__")]
    methods = [n for n in methods if n not in INNER]
    assert methods
    for method in methods:
        wanted = inspect.signature(getattr(theirs, method)).parameters
        found = inspect.signature(getattr(ours, method)).parameters
        has_any = any(each.kind is each.VAR_KEYWORD for each in found.values())
        missing = [n for n in wanted if n not in found and n != "group" and not has_any]
        assert missing == [], f"{ours.__name__}.{method}"
        for parameter in wanted.keys() & found.keys():
            default = wanted[parameter].default
            if isinstance(default, int | str | bool | None):
                assert found[parameter].default == default, f"{ours.__name__}.{method}({parameter})"


def test_error_classes_and_codes_are_aiokafkas():
    from aiokafka import errors as theirs

    for name in theirs.__all__:
        mine, other = getattr(errors, name), getattr(theirs, name)
        assert [each.__name__ for each in mine.__mro__] == [each.__name__ for each in other.__mro__]
        for attribute in ("errno", "message", "retriable", "invalid_metadata"):
            assert getattr(mine, attribute, None) == getattr(other, attribute, None), (name, attribute)


class EvenOdd(AbstractPartitionAssignor):
    """Gives even partitions to the first member, and odd ones to the last."""

    name = "even-odd"
    told: ClassVar[list] = []

    @classmethod
    def assign(cls, cluster, members):
        ordered = sorted(members)
        topics = {topic for told in members.values() for topic in told.subscription}
        chosen = {member: [] for member in ordered}
        for topic in topics:
            for at, member in ((0, ordered[0]), (1, ordered[-1])):
                chosen[member].append((topic, sorted(n for n in cluster.partitions_for_topic(topic) if n % 2 == at)))
        return {m: ConsumerProtocolMemberAssignment(0, parts, b"") for m, parts in chosen.items()}

    @classmethod
    def metadata(cls, topics):
        return ConsumerProtocolMemberMetadata(0, list(topics), b"mine")

    @classmethod
    def on_assignment(cls, assignment):
        cls.told.append(assignment.partitions())


async def test_an_assignor_of_the_program_assigns():
    with Broker(topics={"t": 4}) as broker:
        async with compat.AIOKafkaConsumer(
            "t", bootstrap_servers=broker.bootstrap_servers, group_id="g", partition_assignment_strategy=[EvenOdd]
        ) as consumer:
            assert len(consumer.assignment()) == 4
            assert consumer._coordinator.member_id
    assert [sorted(each) for each in EvenOdd.told] == [[compat.TopicPartition("t", n) for n in range(4)]]


async def test_a_program_that_is_slow_leaves_its_group_and_comes_back():
    with Broker(topics={"t": 2}) as broker:
        common = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
        async with compat.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(2):
                await producer.send_and_wait("t", b"first", partition=number)
            slow = compat.AIOKafkaConsumer("t", max_poll_interval_ms=500, heartbeat_interval_ms=100, **common)
            await slow.start()
            assert len(slow.assignment()) == 2
            async with compat.AIOKafkaConsumer("t", heartbeat_interval_ms=100, **common) as other:
                async with asyncio.timeout(20):
                    while len(other.assignment()) < 2:  # noqa: ASYNC110 nothing tells it
                        await asyncio.sleep(0.05)
                    assert {(await other.getone()).partition for _ in range(2)} == {0, 1}
                await other.commit()
                waiting = asyncio.create_task(slow.getone())
                async with asyncio.timeout(20):
                    while not slow.assignment() or len(other.assignment()) != 1:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                for number in range(2):
                    await producer.send_and_wait("t", b"second", partition=number)
                async with asyncio.timeout(20):
                    assert (await waiting).value == b"second"
                await slow.stop()


async def test_mistakes_say_what_to_do():
    with Broker(topics=["t"]) as broker:
        consumer = compat.AIOKafkaConsumer("t", bootstrap_servers=broker.bootstrap_servers)
        for call in (consumer.getone, consumer.getmany, consumer.__anext__):
            with pytest.raises(errors.IllegalStateError, match=r"not started: call start\(\) first"):
                await call()
        await consumer.stop()
        async with compat.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            with pytest.raises(TypeError, match=r"pass list\(headers.items\(\)\)"):
                await producer.send("t", b"x", headers={"h": b"v"})


async def test_records_of_other_partitions_stay_for_later():
    with Broker(topics={"t": 2}) as broker:
        async with compat.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(6):
                await producer.send_and_wait("t", str(number).encode(), partition=number % 2)
        zero, one = (compat.TopicPartition("t", number) for number in range(2))
        async with (
            asyncio.timeout(20),
            compat.AIOKafkaConsumer("t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as c,
        ):
            both = [asyncio.create_task(each_of(c, tp)) for tp in (zero, one)]
            assert [await each for each in both] == [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]
            await c.seek_to_beginning()
            waiting = asyncio.create_task(c.getone(zero))
            assert (await c.getone(one)).value == b"1"
            assert (await waiting).value == b"0"
            rest = [(await c.getone()).value for _ in range(4)]
            assert sorted(rest) == [b"2", b"3", b"4", b"5"]
            assert c.paused() == set()


async def each_of(consumer, partition):
    return [(await consumer.getone(partition)).value for _ in range(3)]


async def test_contexts_carry_authorities_certificates_and_checks():
    with Certificates() as certificates:
        client = certificates.client("client")
        listeners = ["SSL client-auth=required"]
        with Broker(topics=["t"], listeners=listeners, tls=certificates) as broker:
            context = helpers.create_ssl_context(cafile=client.ca, certfile=client.certificate, keyfile=client.key)
            common = {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": "SSL"}
            async with compat.AIOKafkaProducer(ssl_context=context, **common) as producer:
                await producer.send_and_wait("t", b"x")
            # The standard library's context does not give back its client certificate.
            plain = ssl.create_default_context(cafile=client.ca)
            refused = compat.AIOKafkaClient(ssl_context=plain, request_timeout_ms=2000, **common)
            with pytest.raises(errors.KafkaConnectionError, match="client certificate"):
                await refused.bootstrap()
            await refused.close()
        with Broker(topics=["t"], listeners=["SSL"], tls=certificates) as broker:
            common["bootstrap_servers"] = broker.bootstrap_servers
            unverified = ssl.create_default_context()
            unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
            for context in (plain, unverified):
                async with compat.AIOKafkaProducer(ssl_context=context, **common) as producer:
                    await producer.send_and_wait("t", b"x")


class Tokens(compat.abc.AbstractTokenProvider):
    async def token(self):
        await asyncio.sleep(0)
        return bearer_token("alice", key=b"key")


@pytest.mark.parametrize(
    "parameters",
    [
        {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": "secret"},
        {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "alice", "sasl_plain_password": "secret"},
        {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "alice", "sasl_plain_password": "secret"},
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Tokens()},
    ],
    ids=lambda parameters: parameters["sasl_mechanism"],
)
async def test_mechanisms(parameters):
    with Broker(topics=["t"], listeners=["SASL_PLAINTEXT"], users={"alice": "secret"}, token_key=b"key") as broker:
        common = {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT", **parameters}
        async with compat.AIOKafkaProducer(**common) as producer:
            await producer.send_and_wait("t", b"x")
        async with compat.AIOKafkaConsumer("t", group_id="g", auto_offset_reset="earliest", **common) as consumer:
            assert (await consumer.getone()).value == b"x"


@pytest.mark.parametrize("release", [None, "1.1"])
async def test_alter_configs_replaces_what_was_set(release):
    """Brokers before Kafka 2.3 know AlterConfigs only."""
    with Broker(topics=["t"], as_version=release) as broker:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()

        async def alter(topic, **configs):
            wanted = {name.replace("_", "."): value for name, value in configs.items()}
            [response] = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, wanted)])
            [(code, _, kind, name)] = response.resources
            assert (kind, name) == (ConfigResourceType.TOPIC, topic)
            return code

        assert await alter("t", retention_ms="1000", cleanup_policy="compact") == 0
        assert await alter("t", retention_ms="2000") == 0
        assert await alter("t", no_such="1") == errors.InvalidConfigurationError.errno
        assert await alter("no-such", retention_ms="1") == errors.UnknownTopicOrPartitionError.errno
        both = {"retention.ms": "", "cleanup.policy": ""}
        [response] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "t", both)])
        values = {name: value for name, value, *_ in response.resources[0][4]}
        assert values == {"retention.ms": "2000", "cleanup.policy": "delete"}
        await admin.close()


async def test_a_client_sends_no_requests_of_aiokafka_protocol():
    client = compat.AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(NotImplementedError, match="sends no requests of aiokafka.protocol"):
        await client.send(1, object())
