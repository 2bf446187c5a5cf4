"""The fault runs' own judge finds each kind of lie; and a short run of each kind passes. `make faults` has the long ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.chain import check_order
from tests.integration.chain import run as chain
from tests.integration.conftest import REAL
from tests.integration.fault_runs import Told, judge, produce, three_nodes, transform
from tests.integration.messages import Message
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


def test_the_truth_passes() -> None:
    judge(TOPIC, [Told("run", HONEST)], LOG)
    judge(TOPIC, [Told("run", {(0, 0): 0, (1, 0): 0}, {(0, 1): None, (0, 2): None, (0, 3): False})], LOG)


@pytest.mark.parametrize(
    ("told", "log", "said"),
    [
        (Told("run", HONEST), LOG[:2], r"R1"),
        (Told("run", HONEST), [*LOG, at(1, 1, 0)], r"R2"),
        (Told("run", {**HONEST, (0, 1): 7}), LOG, r"R3"),
        (Told("run", HONEST), [at(0, 0, 1), at(0, 1, 0), at(1, 0, 0)], r"R4"),
        (Told("run", {(0, 0): 0, (1, 0): 0}, {(0, 1): False}), LOG, r"R5"),
        (Told("run", HONEST, {(5, 5): True}), LOG, r"R5"),
        (Told("run", HONEST), [*LOG[:2], Message(None, LOG[2].value, partition=2, offset=0)], r"R7"),
        (Told("run", HONEST), [*LOG, at(1, 1, 1)], "not sent"),
        (Told("run", HONEST), [*LOG, at(1, 1, 1, run="other")], "nobody"),
    ],
)
def test_each_lie_is_found(told: Told, log: list[Message], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
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
@pytest.mark.timeout(180)
def test_producers_while_every_connection_dies_again_and_again(hurt: Cluster) -> None:
    assert "45,000 acknowledged" in produce(hurt, 45_000, "cut")


@REAL
@pytest.mark.timeout(180)
def test_transactions_while_nodes_are_restarted(hurt: Cluster) -> None:
    assert "12,000 once each" in transform(hurt, 12_000, "rolled")


@REAL
@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", ["cooperative-sticky", "consumer"])
def test_groups_one_behind_the_other_while_members_come_and_go(hurt: Cluster, way: str) -> None:
    assert "4,000 once each and in order at each of 3 topics" in chain(hurt, way, 4_000, "cut")
