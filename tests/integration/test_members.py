"""Our members of groups on real Kafka of three generations, among themselves and beside other clients' members."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer as Confluent

import ottla
from ottla import errors
from tests.integration import members
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.members import (
    PARTITIONS,
    RECORDS,
    Member,
    Read,
    all_once,
    leaves_and_comes_back,
    read_by_one_who_is_killed,
    shares_with_franz,
    whole,
)
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.java import Java
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.peers.franz import Franz
    from tests.python.conftest import Api

pytestmark = [REAL]

# Seconds of a session: the least that brokers allow by themselves.
SESSION = 6
OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 200,
    "session_timeout_ms": SESSION * 1000,
    "auto_commit_interval_ms": 100,
}
WRITING: dict[str, Any] = {}
# Java's names of assignors.
JAVA = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}


@pytest.fixture(scope="module", params=["4.4.0", pytest.param("2.8.2", marks=pytest.mark.nightly), "0.9.0.1"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = {"auto.create.topics.enable": "true", "num.partitions": str(PARTITIONS)}
    if request.param != "0.9.0.1":
        config |= {"group.initial.rebalance.delay.ms": "0"}
    folder = tmp_path_factory.mktemp("kafka")
    # Brokers of 0.9 do not tell their versions; to find that out takes seconds for each new connection.
    old = {"broker_version_fallback": "0.9.0", "api_version_request": False} if request.param == "0.9.0.1" else {}
    with (
        kafka_for_a_while(folder, version=request.param, config=config) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in old.items():
            patch.setitem(OPTIONS, name, value)
            patch.setitem(WRITING, name, value)
        yield str(cluster.st["bootstrap"]["PLAINTEXT"])


def fill(bootstrap: str, topic: str, begin: int = 0, count: int = RECORDS) -> None:
    members.fill(bootstrap, topic, begin, count, **WRITING)


def member(bootstrap: str, topic: str, **options: Any) -> Member:
    return Member(bootstrap, topic, **OPTIONS | options)


@pytest.mark.uvloop
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_that_come_and_go_read_everything_once(bootstrap: str, api: Api, strategy: str) -> None:
    topic = f"shared-{strategy}-{api.name}"
    fill(bootstrap, topic, 0, RECORDS // 4)
    options = {"partition_assignment_strategy": strategy, "api": api}
    one = member(bootstrap, topic, **options)
    wait_for_ours(lambda: len(one.read) == RECORDS // 4, "the first reads all there is")
    two = member(bootstrap, topic, **options)
    wait_for_ours(lambda: len(two.consumer.assignment()) == 2, "the second has its half")
    fill(bootstrap, topic, RECORDS // 4, RECORDS // 4)
    wait_for_ours(lambda: len({*one.read, *two.read}) == RECORDS // 2, "both read all there is")
    assert len(two.read) >= RECORDS // 8
    three = member(bootstrap, topic, **options)
    wait_for_ours(lambda: len(three.consumer.assignment()) >= 1, "the third has a part")
    first = one.leave()
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2)
    wait_for_ours(lambda: whole(first, two.read, three.read), "those who stay read the rest")
    all_once(first, two.leave(), three.leave())


@pytest.mark.each_api
def test_who_takes_over_from_a_killed_member_repeats_little_and_skips_nothing(bootstrap: str, api: Api) -> None:
    topic = f"killed-{api.name}"
    fill(bootstrap, topic)
    read = read_by_one_who_is_killed(bootstrap, topic, OPTIONS)
    with ottla.Consumer(bootstrap, group_id=topic, **WRITING) as reader:
        found = reader.committed([(topic, partition) for partition in range(PARTITIONS)])
    committed = {key.partition: value.offset if value else 0 for key, value in found.items()}
    # A commit every 100 ms, and at most 5 records every 50 ms: 2 s for the half that is read.
    assert sum(committed.values()) >= RECORDS // 4
    assert all((partition, offset - 1) in read for partition, offset in committed.items() if offset)
    heir = member(bootstrap, topic, api=api)
    wait_for_ours(lambda: whole(read, heir.read), "the rest is read")
    taken = heir.leave()
    repeated = {place for place in taken if place in read}
    assert all(offset >= committed[partition] for partition, offset in repeated)
    assert len(repeated) < RECORDS // 2


def test_a_member_that_does_not_poll_leaves_and_comes_back(bootstrap: str, api: Api) -> None:
    topic = f"slow-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    leaves_and_comes_back(bootstrap, topic, api, lambda: member(bootstrap, topic), OPTIONS)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_with_members_of_confluent_kafka(bootstrap: str, api: Api, strategy: str) -> None:
    topic = f"mixed-{strategy}-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    options = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    options |= {"partition.assignment.strategy": strategy, "session.timeout.ms": str(SESSION * 1000)}
    options |= {"heartbeat.interval.ms": "200", "auto.commit.interval.ms": "100"}
    options |= {name.replace("_", "."): str(value).lower() for name, value in WRITING.items()}
    ours = member(bootstrap, topic, api=api, partition_assignment_strategy=strategy)
    wait_for_ours(lambda: len(ours.read) == PARTITIONS, "ours reads all there is")
    theirs, read = Confluent(options), Counter[tuple[int, int]]()
    theirs.subscribe([topic])

    def polled(is_done: Callable[[], bool], what: str) -> None:
        def step() -> bool:
            for message in theirs.consume(100, 0.1):
                assert not message.error()
                read[message.partition(), message.offset()] += 1
            return is_done()

        wait_for_ours(step, what)

    polled(lambda: len(theirs.assignment()) == len(ours.consumer.assignment()) == 2, "each has its half")
    fill(bootstrap, topic, PARTITIONS, RECORDS // 2 - PARTITIONS)
    polled(lambda: len({*ours.read, *read}) == RECORDS // 2, "both read all there is")
    theirs.close()
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2)
    wait_for_ours(lambda: whole(ours.read, read), "ours reads the rest")
    all_once(ours.leave(), read)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_with_a_java_member(bootstrap: str, request: pytest.FixtureRequest, strategy: str) -> None:
    if "0.9.0.1" in request.node.name:
        pytest.skip("Java's client of today speaks to no broker of 0.9")
    topic = f"with-java-{strategy}"
    fill(bootstrap, topic, 0, PARTITIONS)
    ours = member(bootstrap, topic, partition_assignment_strategy=strategy)
    wait_for_ours(lambda: len(ours.read) == PARTITIONS, "ours reads all there is")
    theirs: Read = Counter()
    count = RECORDS // 4

    def java() -> None:
        how = {"partition_assignment_strategy": f"org.apache.kafka.clients.consumer.{JAVA[strategy]}"}
        for message in Java().consume_in_group(bootstrap, topic, topic, count, **how):
            theirs[message.partition or 0, message.offset or 0] += 1

    thread = threading.Thread(target=java, daemon=True)
    thread.start()
    wait_for_ours(lambda: len(ours.consumer.assignment()) == 2, "each has its half")
    fill(bootstrap, topic, PARTITIONS, RECORDS - PARTITIONS)
    thread.join(DEADLINE)
    assert not thread.is_alive()
    # The console consumer goes back to the first message that it has not shown, commits that, and leaves.
    wait_for_ours(lambda: whole(ours.read, theirs), "ours reads the rest")
    all_once(ours.leave(), theirs)


@pytest.mark.needs("go")
@pytest.mark.parametrize("bootstrap", ["4.4.0"], indirect=True, scope="module")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_with_a_member_of_franz_go(bootstrap: str, api: Api, strategy: str, franz_program: Franz) -> None:
    topic = f"with-franz-{strategy}-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    ours = member(bootstrap, topic, api=api, partition_assignment_strategy=strategy)
    wait_for_ours(lambda: len(ours.read) == PARTITIONS, "ours reads all there is")
    theirs = franz_program.member(bootstrap, topic, topic, balancer=strategy)
    shares_with_franz(ours, theirs, bootstrap, topic, **WRITING)


def test_auto_takes_the_protocol_that_brokers_have_and_says_so(
    bootstrap: str, api: Api, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"auto-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    expected = "consumer" if "4.4.0" in request.node.name else "classic"
    with caplog.at_level(logging.INFO, "ottla.consumer"):
        ours = member(bootstrap, topic, api=api, group_protocol="auto")
        wait_for_ours(lambda: len(ours.read) == PARTITIONS, "it reads all there is")
        ours.leave()
        wait_for_ours(lambda: f"group.protocol={expected}" in caplog.text, "it says so")
    if expected == "consumer":
        return
    others = {
        name: value for name, value in OPTIONS.items() if name not in {"heartbeat_interval_ms", "session_timeout_ms"}
    }
    with (
        api.consumer(bootstrap, topics=topic, group_id="other", group_protocol="consumer", **others) as consumer,
        pytest.raises(errors.UnsupportedError, match="group.protocol=classic or auto"),
    ):
        poll_on(api, consumer)


def poll_on(api: Api, consumer: Any) -> None:
    """Poll for longer than it takes to find out what a broker lacks."""
    for _ in range(100):
        api(consumer.poll(0.1))
