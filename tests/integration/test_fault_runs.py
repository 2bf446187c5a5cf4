"""The fault runs' own judge finds each kind of lie; and a short run of each kind passes. `make faults` has the long ones."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tqdm import tqdm

import ottla
from ottla.testing import Broker
from tests.integration.chain import check_order
from tests.integration.chain import run as chain
from tests.integration.conftest import REAL
from tests.integration.fault_runs import PARTITIONS, Told, judge, produce, send_all, three_nodes, transform
from tests.integration.messages import Message
from tests.integration.peers.confluent import Confluent
from tests.integration.stamps import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.brokers.brokers import Cluster

TOPIC = "t"


def at(partition: int, offset: int, sequence: int, run: str = "run", topic: str = TOPIC) -> Message:
    """A record of the log."""
    return Message(None, stamp(run, topic, partition, sequence), partition=partition, offset=offset)


LOG = [at(0, 0, 0), at(0, 1, 1), at(1, 0, 0)]
HONEST = {(0, 0): 0, (0, 1): 1, (1, 0): 0}


def told(
    offsets: dict[tuple[int, int], int],
    failed: dict[tuple[int, int], bool | None] | None = None,
    fates: dict[tuple[int, int], list[float]] | None = None,
) -> Told:
    """What a producer told, of each record once and in time but for those in `fates`."""
    once = {place: [0.1] for place in [*offsets, *(failed or {})]}
    return Told("run", offsets, failed or {}, {**once, **(fates or {})})


def test_the_truth_passes() -> None:
    judge(TOPIC, [told(HONEST)], LOG)
    judge(TOPIC, [told({(0, 0): 0, (1, 0): 0}, {(0, 1): None, (0, 2): None, (0, 3): False})], LOG)


@pytest.mark.parametrize(
    ("told", "log", "said"),
    [
        (told(HONEST), LOG[:2], r"R1"),
        (told(HONEST), [*LOG, at(1, 1, 0)], r"R2"),
        (told({**HONEST, (0, 1): 7}), LOG, r"R3"),
        (told(HONEST), [at(0, 0, 1), at(0, 1, 0), at(1, 0, 0)], r"R4"),
        (told({(0, 0): 0, (1, 0): 0}, {(0, 1): False}), LOG, r"R5"),
        (told(HONEST, {(5, 5): True}), LOG, r"R5"),
        (told(HONEST, fates={(0, 1): []}), LOG, r"told 0 times \(R6"),
        (told(HONEST, fates={(0, 1): [0.1, 0.2]}), LOG, r"told 2 times \(R6"),
        (told(HONEST, fates={(0, 1): [100.0]}), LOG, r"after 100 s \(R6"),
        (told(HONEST), [*LOG[:2], Message(None, LOG[2].value, partition=2, offset=0)], r"R7"),
        (told(HONEST), [*LOG, at(1, 1, 1)], "not sent"),
        (told(HONEST), [*LOG, at(1, 1, 1, run="other")], "nobody"),
    ],
)
def test_each_lie_is_found(told: Told, log: list[Message], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        judge(TOPIC, [told], log)


class Broken(ottla.Producer):
    """A producer that does its work, but for one record."""

    calls = 0
    WRONG = 100

    def send(self, topic: str, value: Any, **more: Any) -> Any:
        self.calls += 1
        if self.calls == self.WRONG:
            return self.wrong(topic, value, **more)
        return super().send(topic, value, **more)

    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        return super().send(topic, value, **more)


class Fate:
    """A delivery, as a broken producer tells it."""

    def __init__(self, true: ottla.Delivery) -> None:
        self.true = true

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)


class LosesOne(Broken):
    """It sends one record in place of another, and tells that both are written."""

    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        del value
        return super().wrong(topic, stamp("another", topic, more["partition"], 0), **more)


class Forgets(Broken):
    """It takes a record for sent whose place another one has."""

    def send(self, topic: str, value: Any, **more: Any) -> Any:
        self.last = super().send(topic, value, **more)
        return self.last

    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        return self.last


class SendsTwice(Broken):
    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        super().wrong(topic, value, **more)
        return super().wrong(topic, value, **more)


class TellsAnotherOffset(Broken):
    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        class Other(Fate):
            def result(self, timeout: float) -> Any:
                return SimpleNamespace(offset=self.true.result(timeout).offset + 1)

        return Other(super().wrong(topic, value, **more))


class SendsLate(Broken):
    """Records that came later go first."""

    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        class Late(Fate):
            def __init__(self) -> None:
                self.callbacks: list[Any] = []

            def add_done_callback(self, callback: Any) -> None:
                self.callbacks.append(callback)

        self.late, self.what = Late(), (topic, value, more)
        return self.late

    def flush(self, timeout: float | None = None) -> None:
        topic, value, more = self.what
        self.late.true = self.send(topic, value, **more)
        for callback in self.late.callbacks:
            self.late.true.add_done_callback(callback)
        super().flush(timeout)


class Denies(Broken):
    """It tells that a record is surely not written which is."""

    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        class Denied(Fate):
            def exception(self, timeout: float) -> Any:
                self.true.exception(timeout)
                return NotWrittenError()

        return Denied(super().wrong(topic, value, **more))


class NotWrittenError(ottla.KafkaError):
    """That a record was not written."""

    written = False


class TellsTwice(Broken):
    def wrong(self, topic: str, value: Any, **more: Any) -> Any:
        class Told(Fate):
            def add_done_callback(self, callback: Any) -> None:
                self.true.add_done_callback(callback)
                self.true.add_done_callback(callback)

        return Told(super().wrong(topic, value, **more))


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (ottla.Producer, None),
        (LosesOne, "nobody"),
        (Forgets, "R1"),
        (SendsTwice, "R2"),
        (TellsAnotherOffset, "R3"),
        (SendsLate, "R4"),
        (Denies, "R5"),
        (TellsTwice, "R6"),
    ],
)
def test_a_client_that_is_broken_on_purpose_is_found(client: type[ottla.Producer], said: str | None) -> None:
    with Broker(topics={TOPIC: PARTITIONS}) as broker, tqdm(disable=True) as progress:
        told = Told("run")
        send_all(broker.bootstrap_servers, TOPIC, told, 300, progress, client)
        log = Confluent().consume_all(broker.bootstrap_servers, TOPIC, PARTITIONS)
        finds = pytest.raises(AssertionError, match=said) if said else contextlib.nullcontext()
        with finds:
            judge(TOPIC, [told], log)


def copied(*places: tuple[int, int, int, int]) -> list[Message]:
    """Records of a chain's topic: partition, offset, number of the key, number in the key."""
    return [Message(b"key-%d" % key, b"%d" % number, partition=p, offset=o) for p, o, key, number in places]


def test_a_whole_chain_passes() -> None:
    check_order(3, copied((0, 0, 0, 0), (0, 2, 2, 0), (1, 0, 1, 0)), "t")


@pytest.mark.parametrize(
    "log",
    [
        copied((0, 0, 0, 0), (0, 1, 0, 1)),
        copied((0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 1, 0)),
        copied((0, 0, 0, 1), (0, 1, 0, 0), (1, 0, 1, 0)),
        copied((0, 0, 0, 0), (2, 0, 0, 1), (1, 0, 1, 0)),
        copied((0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 7, 0)),
    ],
    ids=["lost", "twice", "out of order", "a key in two partitions", "of nobody"],
)
def test_each_fault_of_a_chain_is_found(log: list[Message], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.integration.chain.KEYS", 2)
    check_order(3, copied((0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0)), "t")
    with pytest.raises(AssertionError, match="t: "):
        check_order(3, log, "t")


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with three_nodes(tmp_path_factory.mktemp("hurt"), "4.4.0") as cluster:
        yield cluster


@REAL
def test_producers_while_every_connection_dies_again_and_again(hurt: Cluster) -> None:
    assert "45,000 acknowledged" in produce(hurt, 45_000, "cut")


@REAL
def test_transactions_while_nodes_are_restarted(hurt: Cluster) -> None:
    assert "12,000 once each" in transform(hurt, 12_000, "rolled")


@REAL
@pytest.mark.parametrize("way", ["cooperative-sticky", "consumer"])
def test_groups_one_behind_the_other_while_members_come_and_go(hurt: Cluster, way: str) -> None:
    assert "4,000 once each and in order at each of 3 topics" in chain(hurt, way, 4_000, "cut")
