"""What README promises about losses and failures, on real Kafka and with both facades.

`tests/python` proves each promise with planted faults on the embedded broker. Here real Kafka stops, starts again, loses responses and
denies requests.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import TopicPartition, errors
from tests.integration.conftest import REAL
from tests.integration.test_permissions import user_of
from tests.python.test_closing import (
    INTERRUPTS,
    SOON,
    StopError,
    Worker,
    committed,
    forget,
    loop,
    notes,
    of_group,
    polls,
    raising,
    send,
    within,
)
from tests.python.test_outages import beaten, reader_of
from tests.waiting import PATIENCE, wait_until
from tests.wire import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers.brokers import Cluster
    from tests.python.conftest import Api

pytestmark = [REAL, pytest.mark.each_api, pytest.mark.timeout(120)]
PROTOCOLS = ["classic", "consumer"]
# In ACLs: topics, READ, and DENY.
TOPIC, READ, DENY = 2, 3, 2


@pytest.fixture(scope="module")
def cluster(start_kafka: Callable[..., Cluster]) -> Cluster:
    """A broker with ACLs, which a test may stop, and whose connections it may cut."""
    config = {"group.initial.rebalance.delay.ms": "0", "allow.everyone.if.no.acl.found": "true"}
    return start_kafka(proxy="PLAINTEXT", sasl="plain", acl=True, config=config)


@pytest.fixture
def address(cluster: Cluster) -> str:
    """The broker's own address."""
    return str(cluster.st["bootstrap"]["PLAINTEXT"])


@pytest.fixture
def proxied(cluster: Cluster) -> Iterator[str]:
    """The address of the fault proxy before the broker. It passes on everything before and after the test."""
    cluster.fault()
    yield str(cluster.st["bootstrap"]["PROXIED"])
    cluster.fault()


@pytest.fixture
def ten(address: str, new_topic: Callable[..., str]) -> str:
    """A topic with ten records."""
    topic = new_topic(address)
    with ottla.Producer(address) as producer:
        producer.send_many(topic, [b"%d" % value for value in range(10)], partitions=0)
    return topic


class Call(threading.Thread):
    """A call in a thread of its own, with its error."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.call = call
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.call()
        except BaseException as error:
            self.error = error

    def end(self) -> BaseException | None:
        self.join(PATIENCE)
        assert not self.is_alive(), "the call does not end"
        return self.error


# --- nothing unprocessed is committed


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [StopError, *INTERRUPTS])
def test_a_loop_that_raises_commits_what_is_processed(
    api: Api, address: str, ten: str, protocol: str, kind: type[BaseException]
) -> None:
    with pytest.raises(kind):
        within(
            api,
            lambda: of_group(api, address, ten, group_protocol=protocol),
            lambda consumer: loop(api, consumer, Worker(4, kind)),
        )
    assert committed(address, ten, ten) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_body_that_raises_commits_what_earlier_polls_returned(
    api: Api, address: str, ten: str, protocol: str
) -> None:
    with pytest.raises(StopError):
        within(
            api,
            lambda: of_group(api, address, ten, group_protocol=protocol),
            raising(StopError(), api, lambda consumer: polls(api, consumer, [4, 2])),
        )
    assert committed(address, ten, ten) == 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_that_nobody_closed_commits_nothing(api: Api, address: str, ten: str, protocol: str) -> None:
    forgotten = [of_group(api, address, ten, group_protocol=protocol)]
    api(polls(api, forgotten[0], [4, 2]))
    with pytest.warns(ResourceWarning, match="unclosed Consumer"):
        forget(forgotten)
    assert committed(address, ten, ten) == 0


# --- a `with` block never hides its body's exception


@pytest.mark.parametrize("kind", [ValueError, *INTERRUPTS])
def test_a_body_that_raises_while_no_record_is_delivered(
    api: Api, cluster: Cluster, proxied: str, ten: str, kind: type[BaseException]
) -> None:
    mine = kind("mine")

    def before(producer: Any) -> Any:
        if api.name == "sync":
            send(producer, ten).result(PATIENCE)
            cluster.fault(1, mode="hang")
            return send(producer, ten)

        async def each() -> None:
            await (await send(producer, ten))
            cluster.fault(1, mode="hang")
            await send(producer, ten)

        return each()

    begun = time.monotonic()
    with pytest.raises(kind) as raised:
        within(api, lambda: api.module.Producer(proxied, close_timeout_ms=300), raising(mine, api, before))
    assert raised.value is mine
    assert "undelivered" in notes(mine)
    assert time.monotonic() - begun < SOON


def test_a_block_whose_record_is_not_delivered_raises_within_its_time(
    api: Api, cluster: Cluster, proxied: str, ten: str
) -> None:
    """Also if the caller's own wait for the record ended before."""
    kept = []

    def body(producer: Any) -> None:
        send(producer, ten).result(PATIENCE)
        cluster.fault(1, mode="hang")
        kept.append(producer.send(ten, b"v", partition=0))
        with pytest.raises(errors.KafkaTimeoutError):
            kept[0].result(0.05)

    async def async_body(producer: Any) -> None:
        await (await send(producer, ten))
        cluster.fault(1, mode="hang")
        kept.append(await producer.send(ten, b"v", partition=0))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(kept[0], 0.05)

    begun = time.monotonic()
    with pytest.raises(errors.KafkaTimeoutError, match="undelivered"):
        within(
            api,
            lambda: api.module.Producer(proxied, close_timeout_ms=2000),
            body if api.name == "sync" else async_body,
        )
    assert time.monotonic() - begun < SOON


# --- outages and denials pass


@pytest.mark.parametrize("kind", [pytest.param("assigned", marks=pytest.mark.nightly), *PROTOCOLS])
def test_a_poll_goes_on_through_a_restart(
    api: Api, cluster: Cluster, address: str, new_topic: Callable[..., str], kind: str
) -> None:
    topic = new_topic(address)
    producer = api.module.Producer(address, linger_ms=0)
    consumer = reader_of(api, address, kind, topic)
    api.result(api(producer.send(topic, b"before")))
    assert beaten(api, consumer, 1) == [b"before"]
    restart = Call(lambda: cluster.restart(1, grace=10))
    while restart.is_alive():
        assert len(api(consumer.poll(0.2))) == 0
    assert restart.end() is None
    api.result(api(producer.send(topic, b"after")))
    assert beaten(api, consumer, 1) == [b"after"]
    api(producer.close())
    api(consumer.close())


@pytest.mark.parametrize("kind", ["assigned", *PROTOCOLS])
def test_a_denial_is_raised_once_and_passes(
    api: Api, cluster: Cluster, address: str, new_topic: Callable[..., str], kind: str
) -> None:
    topic = new_topic(address)
    alice = user_of(cluster, "alice")
    producer = api.module.Producer(linger_ms=0, **alice)
    consumer = reader_of(api, alice.pop("bootstrap_servers"), kind, topic, **alice)
    api.result(api(producer.send(topic, b"before")))
    assert beaten(api, consumer, 1) == [b"before"]
    acl = {"resource_name": topic, "principal": "User:alice", "host": "*", "operation": READ}
    with Connection(address) as root:
        made = acl | {"resource_type": TOPIC, "resource_pattern_type": 3, "permission_type": DENY}
        assert [each["error_code"] for each in root.ask("CreateAcls", 2, {"creations": [made]})["results"]] == [0]
        raised, end = [], time.monotonic() + 4
        while time.monotonic() < end or not raised:
            assert time.monotonic() < end + PATIENCE, "the denial is not raised"
            try:
                assert len(api(consumer.poll(0.2))) == 0
            except errors.AuthorizationError as error:
                raised.append(error.name)
        assert raised == ["TOPIC_AUTHORIZATION_FAILED"]
        each = {"resource_type_filter": TOPIC, "resource_name_filter": topic, "pattern_type_filter": 3}
        each |= {"principal_filter": None, "host_filter": None, "operation": READ, "permission_type": DENY}
        root.ask("DeleteAcls", 2, {"filters": [each]})

    def sent() -> bool:
        try:
            api.result(api(producer.send(topic, b"after")))
        except errors.AuthorizationError:
            return False
        return True

    wait_until(sent, "the broker allows the topic again")
    assert beaten(api, consumer, 1)[0] == b"after"
    api(producer.close())
    api(consumer.close())


# --- what may have been carried out is never reported as not done


def test_a_commit_whose_response_is_lost_is_of_unknown_outcome(
    api: Api, cluster: Cluster, proxied: str, address: str, new_topic: Callable[..., str]
) -> None:
    """The broker commits, the response is lost, and the retry is refused: another producer has the id by then."""
    topic = new_topic(address)
    with api.producer(proxied, transactional_id=topic) as producer:
        api(producer.begin_transaction())
        api.result(api(producer.send(topic, b"first", partition=0)))
        cluster.fault(1, cut_after=0)
        outcome = Call(lambda: api(producer.commit_transaction()))
        values = lambda: [r.value for r in ottla.read(address, topic, isolation_level="read_committed")]  # noqa: E731
        wait_until(lambda: values() == [b"first"], "the transaction is committed")
        with ottla.Admin(address) as admin:
            admin.fence_producers([topic])
        cluster.fault()
        error = outcome.end()
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert error.may_be_done
    assert values() == [b"first"]


@pytest.mark.parametrize("creates", [True, False], ids=["create", "delete"])
def test_a_topic_that_another_changed_first_is_no_success(
    api: Api, cluster: Cluster, proxied: str, address: str, new_topic: Callable[..., str], *, creates: bool
) -> None:
    """The first attempt does not arrive. Meanwhile somebody else creates or deletes the topic."""
    topic = new_topic(address)
    if creates:
        topic += "-more"
    with api.admin(proxied) as admin, ottla.Admin(address) as other:
        # The client knows the controller by then, so that the next request is the attempt itself.
        api(admin.create_topics([ottla.NewTopic(f"{topic}-before", 1)]))
        cluster.fault(1, mode="hang")
        call = admin.create_topics if creates else admin.delete_topics
        change = Call(lambda: api(call([ottla.NewTopic(topic, 3) if creates else topic])))
        time.sleep(1)
        cluster.fault(1, mode="refuse")
        if creates:
            other.create_topics([ottla.NewTopic(topic, 1)])
        else:
            other.delete_topics([topic])
        cluster.fault()
        error = change.end()
    kind = errors.AlreadyExistsError if creates else errors.NotFoundError
    assert isinstance(error, kind), repr(error)
    assert error.may_be_done
    assert "an earlier attempt of this call may have" in str(error)


# --- a topic that is deleted and created again


def test_a_producer_goes_on_in_a_topic_that_was_recreated(
    api: Api, address: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(address)
    with api.producer(address, linger_ms=0) as producer, ottla.Admin(address) as admin:
        for value in range(100):
            api.result(api(producer.send(topic, b"%d" % value, partition=0)))
        admin.delete_topics([topic])

        def created() -> bool:
            try:
                admin.create_topics([ottla.NewTopic(topic, 1)])
            except errors.AlreadyExistsError:
                return False
            return True

        wait_until(created, "the topic is there again")
        sent = [api(producer.send(topic, b"%d" % value, partition=0)) for value in range(100)]
        for delivery in sent:
            api.result(delivery)
    with ottla.Consumer(address) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert beaten_sync(consumer, 100) == [b"%d" % value for value in range(100)]


def beaten_sync(consumer: ottla.Consumer, least: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < least:
        batch = consumer.poll(PATIENCE)
        assert len(batch), f"{len(found)} of {least} records came"
        found += [record.value for record in batch]
    return found
