"""Our members of groups of the consumer protocol (KIP-848) on real Kafka, among themselves and beside other clients' members."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer as Confluent
from confluent_kafka.admin import AdminClient

import ottla
from ottla import SubscriptionPattern, errors
from ottla.testing import Broker
from tests.brokers.brokers import java_tool
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.members import (
    PARTITIONS,
    RECORDS,
    Member,
    Read,
    all_once,
    fill,
    leaves_and_comes_back,
    read_by_one_who_is_killed,
    shares_with_franz,
    whole,
)
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.java import VERSION, Java
from tests.waiting import wait_for_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.peers.franz import Franz
    from tests.python.conftest import Api

pytestmark = [REAL]

# Milliseconds of a session, and between two heartbeats, as the broker says it.
SESSION, INTERVAL = 6000, 200
BROKER = {
    "auto.create.topics.enable": "true",
    "num.partitions": str(PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": str(INTERVAL),
    "group.consumer.heartbeat.interval.ms": str(INTERVAL),
    "group.consumer.min.session.timeout.ms": str(SESSION),
    "group.consumer.session.timeout.ms": str(SESSION),
}
OPTIONS: dict[str, Any] = {
    "group_protocol": "consumer",
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 100,
}
CLASSIC: dict[str, Any] = {
    "group_protocol": "classic",
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 100,
    "heartbeat_interval_ms": INTERVAL,
    "session_timeout_ms": SESSION,
}


# Members of several groups on one loop, which then stands still for some seconds.
BLOCKED = """
import asyncio, ctypes, json, sys
from ottla import aio
bootstrap, topic, groups, seconds = json.loads(sys.argv[1])
async def main():
    consumers, events = {}, {}
    for group, options in groups.items():
        told = events[group] = []
        consumer = consumers[group] = aio.Consumer(bootstrap, group_id=group, **options)
        consumer.subscribe(topic, **{
            f"on_{what}": lambda _, told=told, what=what: told.append(what) for what in ("assign", "revoke", "lost")
        })
        while not await consumer.poll(0.1):
            pass
    print("reads", flush=True)
    # libc's sleep by way of PyDLL, which keeps the interpreter's lock: no other thread runs Python either.
    left = seconds
    while left:
        left = ctypes.PyDLL(None).sleep(left)
    for consumer in consumers.values():
        await consumer.poll(1)
        await consumer.commit()
    print(json.dumps(events), flush=True)
    for consumer in consumers.values():
        await consumer.close()
asyncio.run(main())
"""
# Seconds: several sessions.
STILL = 30


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_for_a_while(tmp_path_factory.mktemp("kafka"), version=VERSION, config=BROKER) as cluster:
        yield str(cluster.st["bootstrap"]["PLAINTEXT"])


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """Real Kafka, or the embedded broker, as the parameter says."""
    if request.param == "kafka":
        yield request.getfixturevalue("bootstrap")
    else:
        with Broker(config=BROKER) as broker:
            yield broker.bootstrap_servers


def member(bootstrap: str, topic: str, **options: Any) -> Member:
    return Member(bootstrap, topic, **OPTIONS | options)


def protocol(bootstrap: str, group: str) -> str:
    """Which type of group the broker takes it for."""
    with ottla.Admin(bootstrap) as admin:
        return {listing.group_id: listing for listing in admin.list_groups()}[group].type


def poll_on(consumer: Any, api: Api) -> None:
    """Poll for longer than it takes a broker to refuse something."""
    for _ in range(100):
        api(consumer.poll(0.1))


@pytest.mark.uvloop
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_that_come_and_go_read_everything_once(bootstrap: str, api: Api, assignor: str) -> None:
    topic = f"shared-{assignor}-{api.name}"
    fill(bootstrap, topic, 0, RECORDS // 4)
    options = {"group_remote_assignor": assignor, "api": api}
    one = member(bootstrap, topic, **options)
    wait_for_ours(lambda: len(one.read) == RECORDS // 4, "the first reads all there is")
    two = member(bootstrap, topic, **options)
    wait_for_ours(lambda: one.has() == two.has() == PARTITIONS // 2, "the second has its half")
    fill(bootstrap, topic, RECORDS // 4, RECORDS // 4)
    wait_for_ours(lambda: len({*one.read, *two.read}) == RECORDS // 2, "both read all there is")
    assert len(two.read) >= RECORDS // 8
    three = member(bootstrap, topic, **options)
    wait_for_ours(lambda: three.has() >= 1, "the third has a part")
    first = one.leave()
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2)
    wait_for_ours(lambda: whole(first, two.read, three.read), "those who stay read the rest")
    assert protocol(bootstrap, topic).lower() == "consumer"
    all_once(first, two.leave(), three.leave())


@pytest.mark.each_api
def test_who_takes_over_from_a_killed_member_repeats_little_and_skips_nothing(bootstrap: str, api: Api) -> None:
    topic = f"killed-{api.name}"
    fill(bootstrap, topic)
    read = read_by_one_who_is_killed(bootstrap, topic, OPTIONS)
    with ottla.Consumer(bootstrap, group_id=topic) as reader:
        found = reader.committed([(topic, partition) for partition in range(PARTITIONS)])
    committed = {key.partition: value.offset if value else 0 for key, value in found.items()}
    assert sum(committed.values()) >= RECORDS // 4
    assert all((partition, offset - 1) in read for partition, offset in committed.items() if offset)
    heir = member(bootstrap, topic, api=api)
    wait_for_ours(lambda: whole(read, heir.read), "the rest is read")
    taken = heir.leave()
    repeated = {place for place in taken if place in read}
    assert all(offset >= committed[partition] for partition, offset in repeated)
    assert len(repeated) < RECORDS // 2


@pytest.mark.uvloop
def test_both_facades_share_and_take_over(api: Api, bootstrap: str) -> None:
    topic = f"facades-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    events: list[tuple[str, int]] = []
    with api.consumer(bootstrap, group_id=topic, **OPTIONS) as consumer:
        consumer.subscribe(
            topic,
            on_assign=lambda partitions: events.append(("assign", len(partitions))),
            on_revoke=lambda partitions: events.append(("revoke", len(partitions))),
        )
        records = api.poll(consumer, PARTITIONS)
        assert len(records) == PARTITIONS
        who = consumer.group_metadata()
        assert (who.group_id, len(who.member_id)) == (topic, 22)
        assert who.generation >= 1
        api(consumer.commit({(topic, 0): ottla.OffsetAndMetadata(1, "note")}))
        committed = api(consumer.committed([(topic, 0)]))
        assert committed[topic, 0] == ottla.OffsetAndMetadata(1, "note")
        other = member(bootstrap, topic)

        def shared() -> bool:
            api(consumer.poll(0.05))
            return len(consumer.assignment()) == other.has() == PARTITIONS // 2

        wait_for_ours(shared, "each has its half")
        other.leave()

        def alone() -> bool:
            api(consumer.poll(0.05))
            return len(consumer.assignment()) == PARTITIONS

        wait_for_ours(alone, "it takes over")
    kinds = [event for event in events if event[1]]
    assert kinds[-3:] == [("revoke", 2), ("assign", 2), ("revoke", 4)]


def test_a_static_member_comes_back_and_no_other_takes_its_name(bootstrap: str, api: Api) -> None:
    topic = f"static-{api.name}"
    fill(bootstrap, topic, 0, RECORDS // 2)
    name = {"group_instance_id": "one"}
    one = member(bootstrap, topic, api=api, **name)
    other = member(bootstrap, topic, api=api, group_instance_id="two")
    wait_for_ours(lambda: one.has() == other.has() == PARTITIONS // 2, "each has its half")
    wait_for_ours(lambda: len({*one.read, *other.read}) == RECORDS // 2, "all there is is read")
    with (
        api.consumer(bootstrap, topics=topic, group_id=topic, **OPTIONS, **name) as impostor,
        pytest.raises(errors.KafkaError, match="UNRELEASED_INSTANCE_ID.*group.instance.id"),
    ):
        poll_on(impostor, api)
    mine, gone = set(one.consumer.assignment()), set(other.gone)
    first = one.leave()
    again = member(bootstrap, topic, api=api, **name)
    wait_for_ours(lambda: again.has() == PARTITIONS // 2, "it has its half again")
    assert set(again.consumer.assignment()) == mine
    assert other.gone == gone, "nothing moved meanwhile"
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2)
    wait_for_ours(lambda: whole(first, other.read, again.read), "the rest is read")
    all_once(first, other.leave(), again.leave())


def test_topics_that_the_brokers_match(bootstrap: str, api: Api) -> None:
    prefix = f"matched-{api.name}"
    fill(bootstrap, f"{prefix}-a", 0, PARTITIONS)
    fill(bootstrap, f"other-{prefix}-a", 0, PARTITIONS)
    with api.consumer(bootstrap, group_id=prefix, **OPTIONS) as consumer:
        consumer.subscribe(SubscriptionPattern(f"{prefix}-[a-z]"))
        records = api.poll(consumer, PARTITIONS)
        assert {record.topic for record in records} == {f"{prefix}-a"}
        # Brokers match topics that are made later when 10 s have gone by.
        fill(bootstrap, f"{prefix}-b", 0, PARTITIONS)
        records = api.poll(consumer, PARTITIONS)
        assert {record.topic for record in records} == {f"{prefix}-b"}
        # Names take its place.
        consumer.subscribe([f"other-{prefix}-a"])
        records = api.poll(consumer, PARTITIONS)
        assert {record.topic for record in records} == {f"other-{prefix}-a"}
        consumer.subscribe(SubscriptionPattern("(unclosed"))
        with pytest.raises(errors.KafkaError, match="INVALID_REGULAR_EXPRESSION.*RE2"):
            poll_on(consumer, api)
        consumer.subscribe(re.compile(f"{prefix}-a"))
        end = time.monotonic() + DEADLINE
        while {it.topic for it in consumer.assignment()} != {f"{prefix}-a"}:
            assert time.monotonic() < end
            with contextlib.suppress(errors.KafkaError):
                api(consumer.poll(0.1))


def test_what_the_brokers_refuse_says_what_to_do(bootstrap: str, api: Api) -> None:
    with (
        api.consumer(
            bootstrap, topics="refused", group_id="refused", group_remote_assignor="best", **OPTIONS
        ) as consumer,
        pytest.raises(errors.KafkaError, match="UNSUPPORTED_ASSIGNOR.*group.remote.assignor"),
    ):
        poll_on(consumer, api)


def test_a_member_that_does_not_poll_leaves_and_comes_back(bootstrap: str, api: Api) -> None:
    topic = f"slow-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    leaves_and_comes_back(bootstrap, topic, api, lambda: member(bootstrap, topic), OPTIONS)


def test_a_loop_that_stands_still_keeps_its_memberships(bootstrap: str) -> None:
    """For five sessions of both protocols. A process that stands still as a whole does lose its membership meanwhile."""
    topic, control = "still", "stopped"
    fill(bootstrap, topic, 0, PARTITIONS)
    plain = {"group_protocol": "classic", "auto_offset_reset": "earliest"}
    groups = {"still-consumer": OPTIONS, "still-classic": CLASSIC, "still-defaults": plain}

    def child(groups: dict[str, Any]) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", BLOCKED, json.dumps([bootstrap, topic, groups, STILL])]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def described(admin: ottla.Admin, group: str) -> tuple[Any, ...]:
        found = admin.describe_groups(group)[group]
        return found.state, found.epoch, [each.member_id for each in found.members]

    with child(groups) as blocked, child({control: CLASSIC}) as stopped, ottla.Admin(bootstrap) as admin:
        try:
            assert blocked.stdout
            assert stopped.stdout
            assert (blocked.stdout.readline(), stopped.stdout.readline()) == ("reads\n", "reads\n")
            stopped.send_signal(signal.SIGSTOP)
            before = {group: described(admin, group) for group in groups}
            assert all(state == "Stable" and len(members) == 1 for state, _, members in before.values())
            end = time.monotonic() + STILL - 5
            while time.monotonic() < end:
                assert {group: described(admin, group) for group in groups} == before
                time.sleep(0.5)
            assert described(admin, control)[2] == []
            events = json.loads(blocked.stdout.readline())
            assert events == {group: ["assign"] for group in groups}
            assert blocked.wait(DEADLINE) == 0
        finally:
            blocked.kill()
            stopped.kill()


def test_a_group_with_members_of_confluent_kafka(bootstrap: str, api: Api) -> None:
    topic = f"mixed-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    options = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    options |= {"group.protocol": "consumer", "auto.commit.interval.ms": "100"}
    ours = member(bootstrap, topic, api=api)
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

    polled(lambda: len(theirs.assignment()) == ours.has() == PARTITIONS // 2, "each has its half")
    fill(bootstrap, topic, PARTITIONS, RECORDS // 2 - PARTITIONS)
    polled(lambda: len({*ours.read, *read}) == RECORDS // 2, "both read all there is")
    theirs.close()
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2)
    wait_for_ours(lambda: whole(ours.read, read), "ours reads the rest")
    all_once(ours.leave(), read)


@pytest.mark.parametrize(
    ("cluster", "options"),
    [("kafka", OPTIONS), ("embedded", OPTIONS), ("embedded", CLASSIC)],
    indirect=["cluster"],
    ids=["kafka", "embedded", "embedded-classic"],
)
def test_a_group_with_a_java_member(cluster: str, options: dict[str, Any]) -> None:
    bootstrap, topic = cluster, "with-java"
    fill(bootstrap, topic, 0, PARTITIONS)
    ours = Member(bootstrap, topic, **options)
    wait_for_ours(lambda: len(ours.read) == PARTITIONS, "ours reads all there is")
    theirs: Read = Counter()
    count = RECORDS // 4

    def java() -> None:
        for message in Java().consume_in_group(bootstrap, topic, topic, count, group_protocol="consumer"):
            theirs[message.partition or 0, message.offset or 0] += 1

    thread = threading.Thread(target=java, daemon=True)
    thread.start()
    wait_for_ours(lambda: ours.has() == PARTITIONS // 2, "each has its half")
    fill(bootstrap, topic, PARTITIONS, RECORDS - PARTITIONS)
    thread.join(DEADLINE)
    assert not thread.is_alive()
    # The console consumer goes back to the first message that it has not shown, commits that, and leaves.
    wait_for_ours(lambda: whole(ours.read, theirs), "ours reads the rest")
    all_once(ours.leave(), theirs)


@pytest.mark.needs("go")
def test_a_group_with_a_member_of_franz_go(bootstrap: str, api: Api, franz_program: Franz) -> None:
    topic = f"with-franz-{api.name}"
    fill(bootstrap, topic, 0, PARTITIONS)
    ours = member(bootstrap, topic, api=api)
    wait_for_ours(lambda: len(ours.read) == PARTITIONS, "ours reads all there is")
    theirs = franz_program.member(bootstrap, topic, topic, balancer="consumer")
    shares_with_franz(ours, theirs, bootstrap, topic)


@pytest.mark.parametrize("cluster", ["kafka", "embedded"], indirect=True)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_from_classic_to_consumer_member_by_member(cluster: str, strategy: str) -> None:
    bootstrap, topic = cluster, f"rolling-{strategy}"
    fill(bootstrap, topic, 0, RECORDS // 4)
    classic = CLASSIC | {"partition_assignment_strategy": strategy}
    one, two = Member(bootstrap, topic, **classic), Member(bootstrap, topic, **classic)
    wait_for_ours(lambda: one.has() == two.has() == PARTITIONS // 2, "each has its half")
    wait_for_ours(lambda: len({*one.read, *two.read}) == RECORDS // 4, "all there is is read")
    assert protocol(bootstrap, topic).lower() == "classic"
    # The first of the new ones takes the group over, with its classic members.
    new = member(bootstrap, topic)
    wait_for_ours(lambda: new.has() >= 1 and one.has() + two.has() + new.has() == PARTITIONS, "all three share")
    assert protocol(bootstrap, topic).lower() == "consumer"
    fill(bootstrap, topic, RECORDS // 4, RECORDS // 4)
    wait_for_ours(lambda: len({*one.read, *two.read, *new.read}) == RECORDS // 2, "all three read all there is")
    first = one.leave()
    newer = member(bootstrap, topic, group_protocol="auto")
    wait_for_ours(lambda: newer.has() >= 1, "the one that replaces the first has a part")
    second = two.leave()
    wait_for_ours(lambda: new.has() == newer.has() == PARTITIONS // 2, "the new ones share")
    fill(bootstrap, topic, RECORDS // 2, RECORDS // 2)
    wait_for_ours(lambda: whole(first, second, new.read, newer.read), "the new ones read the rest")
    assert (one.losses, two.losses, new.losses) == (0, 0, 0)
    all_once(first, second, new.leave(), newer.leave())


def test_a_transaction_is_fenced_by_the_member_that_has_left(bootstrap: str) -> None:
    topic, target = "transformed", "transformed-to"
    fill(bootstrap, topic, 0, PARTITIONS)
    # Committed offsets are waited for until the transaction has ended.
    options = OPTIONS | {"enable_auto_commit": False, "isolation_level": "read_committed"}
    with (
        ottla.Consumer(bootstrap, topics=topic, group_id=topic, **options) as consumer,
        ottla.Producer(bootstrap, transactional_id=topic) as producer,
    ):
        wait_for_ours(lambda: len(consumer.poll(0.1)) > 0, "it reads")
        who = consumer.group_metadata()
        with producer.transaction():
            producer.send(target, b"done")
            producer.send_offsets({(topic, 0): 1}, who)
        assert consumer.committed([(topic, 0)])[topic, 0] == ottla.OffsetAndMetadata(1)
        consumer.unsubscribe()
        producer.begin_transaction()
        producer.send(target, b"too late")
        with pytest.raises(errors.TransactionAbortableError):
            producer.send_offsets({(topic, 0): 2}, who)
        producer.abort_transaction()
        assert consumer.committed([(topic, 0)])[topic, 0] == ottla.OffsetAndMetadata(1)


def test_a_group_is_described_as_others_describe_it(bootstrap: str, api: Api) -> None:
    group = topic = f"described-{api.name}"
    fill(bootstrap, topic)
    one = member(bootstrap, topic, client_id="one", client_rack="r1")
    two = member(bootstrap, topic, client_id="two", group_instance_id="second")
    classic = Member(bootstrap, topic, **CLASSIC, client_id="classic")
    wait_for_ours(lambda: min(each.has() for each in (one, two, classic)) >= 1, "each has a part")
    with ottla.Admin(bootstrap) as ours:
        wait_for_ours(lambda: ours.describe_groups(group)[group].state == "Stable", "the group is stable")
    with api.admin(bootstrap) as admin:
        found = api(admin.describe_groups([group]))[group]
        with pytest.raises(errors.NotFoundError, match="none"):
            api(admin.describe_groups([group, "none"]))
    confluent = AdminClient({"bootstrap.servers": bootstrap})
    theirs = confluent.describe_consumer_groups([group])[group].result(DEADLINE)

    assert (found.group_id, found.type, found.state) == (group, "consumer", "Stable")
    assert (found.protocol_type, found.protocol) == ("consumer", theirs.partition_assignor)
    assert theirs.state.name == "STABLE"

    def placed(assignment: Any) -> list[tuple[str, int]]:
        return sorted((each.topic, each.partition) for each in assignment.topic_partitions)

    assert [
        (each.member_id, each.group_instance_id, each.client_id, each.client_host, each.assignment)
        for each in found.members
    ] == [
        (each.member_id, each.group_instance_id, each.client_id, each.host, placed(each.assignment))
        for each in sorted(theirs.members, key=lambda each: each.member_id)
    ]
    assert all(each.target_assignment == each.assignment for each in found.members)
    by_client = {each.client_id: each for each in found.members}
    assert by_client["one"].rack == "r1"
    assert all(each.subscribed_topics == [topic] for each in found.members)

    # Java's tool tells the epochs.
    described = ["--bootstrap-server", bootstrap, "--describe", "--group", group, "--verbose", "--timeout", "30000"]
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    rows = {row["GROUP"]: row for row in table(java_tool(VERSION, tool, *described, "--state"))}
    assert (str(found.epoch), str(found.assignment_epoch)) == (
        rows[group]["GROUP-EPOCH"],
        rows[group]["TARGET-ASSIGNMENT-EPOCH"],
    )
    members = {row["CONSUMER-ID"]: row for row in table(java_tool(VERSION, tool, *described, "--members"))}
    assert {each.member_id: str(each.epoch) for each in found.members} == {
        name: row["CURRENT-EPOCH"] for name, row in members.items()
    }
    for each in (one, two, classic):
        each.leave()


def table(printed: bytes) -> list[dict[str, str]]:
    """The rows of what Kafka's tool prints. A cell may be empty, and begins where the name of its column does."""
    lines = [line for line in printed.decode().splitlines() if line.strip()]
    while not lines[0].startswith("GROUP"):
        del lines[0]
    begins = [(found.start(), found[0]) for found in re.finditer(r"\S+(?: \(\S+\))?", lines[0])]
    ends = [begin for begin, _ in begins[1:]] + [None]
    return [
        {name: line[begin:end].strip() for (begin, name), end in zip(begins, ends, strict=True)} for line in lines[1:]
    ]
