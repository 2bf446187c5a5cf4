"""Two-phase commits and what administrators end, on real Kafka: what 4.4 has of KIP-939, and how other releases say no."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import PreparedTransaction, errors
from tests.brokers.brokers import java_tool
from tests.integration.conftest import REAL, kafka_for_a_while
from tests.integration.peers.base import DEADLINE
from tests.integration.peers.java import VERSION
from tests.integration.test_transactions import QUICKLY, committed
from tests.python.test_two_phase_commit import CRASHES, TWO_PHASES
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.python.conftest import Api

pytestmark = [REAL]
PREPARED = Path(__file__).parent / "java" / "Prepared.java"


@pytest.fixture(scope="module")
def allowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kafka 4.4 that has switched on what is not final."""
    config = QUICKLY | {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
    with kafka_for_a_while(tmp_path_factory.mktemp("allowed"), config=config) as cluster:
        yield cluster.st["bootstrap"]["PLAINTEXT"]


@pytest.fixture(scope="module", params=["4.4.0", pytest.param("3.9.1", marks=pytest.mark.nightly), "2.8.2"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kafka as it comes."""
    with kafka_for_a_while(tmp_path_factory.mktemp("plain"), version=request.param, config=QUICKLY) as cluster:
        yield cluster.st["bootstrap"]["PLAINTEXT"]


def new_topic(bootstrap: str, name: str) -> str:
    with ottla.Admin(bootstrap) as admin:
        admin.create_topics([ottla.NewTopic(name, 1, 1)])
        wait_until(lambda: name in admin.list_topics(), f"the broker knows {name}")
    return name


def is_open(bootstrap: str, topic: str) -> bool:
    with ottla.Admin(bootstrap) as admin:
        (found,) = admin.describe_producers([(topic, 0)]).values()
    return any(state.current_transaction_start_offset is not None for state in found)


def begin(api: Api, producer: Any, topic: str, value: bytes) -> None:
    api(producer.begin_transaction())
    api.result(api(producer.send(topic, value, partition=0)))


def test_what_is_prepared_is_completed_by_who_prepared_it(api: Api, allowed: str) -> None:
    topic = new_topic(allowed, f"here-{api.name}")
    with api.producer(allowed, transactional_id=topic, **TWO_PHASES) as producer:
        begin(api, producer, topic, b"as prepared")
        prepared = api(producer.prepare_transaction())
        with pytest.raises(errors.ArgumentError, match="prepared"):
            api(producer.begin_transaction())
        assert api(producer.complete_transaction(prepared)) is True
        begin(api, producer, topic, b"another")
        api(producer.prepare_transaction())
        assert api(producer.complete_transaction(prepared)) is False
        begin(api, producer, topic, b"committed")
        assert api(producer.prepare_transaction()) != prepared
        api(producer.commit_transaction())
        api(producer.begin_transaction())
        empty = api(producer.prepare_transaction())
        assert api(producer.complete_transaction(empty)) is True
        begin(api, producer, topic, b"not the empty one")
        assert api(producer.prepare_transaction()) != empty
        assert api(producer.complete_transaction(empty)) is False
    assert committed(allowed, topic, 1) == [b"as prepared", b"committed"]


def test_tokens_are_texts_of_javas_class() -> None:
    given = [PreparedTransaction(42, 7), PreparedTransaction(0, 0), PreparedTransaction(2**63 - 1, 2**15 - 1)]
    refused = ["42", "a:b", "42:40000", "42:7:8", "-1:-1", "42:-1", "-1:7"]
    out = java_tool(VERSION, str(PREPARED), *map(str, given), *refused, timeout=DEADLINE).decode().splitlines()
    assert out == [f"{token} {token.producer_id} {token.epoch}" for token in given] + ["refused"] * len(refused)
    for text in refused:
        with pytest.raises(ValueError, match="prepared transaction"):
            PreparedTransaction.parse(text)


def test_kafka_4_4_hands_no_prepared_transaction_to_another_producer(api: Api, allowed: str) -> None:
    topic = new_topic(allowed, f"there-{api.name}")
    script = CRASHES.replace('"t"', repr(topic))
    done = subprocess.run(
        [sys.executable, "-c", script, allowed, topic], capture_output=True, text=True, timeout=60, check=False
    )
    token = PreparedTransaction.parse(done.stdout.strip())
    with api.producer(allowed, transactional_id=topic, **TWO_PHASES) as producer:
        for call in (
            lambda: producer.complete_transaction(token),
            lambda: producer.init_transactions(keep_prepared=True),
        ):
            with pytest.raises(errors.UnsupportedError, match=r"Kafka 4\.4.*force_terminate_transaction") as refused:
                api(call())
            assert refused.value.name == "UNSUPPORTED_VERSION"
    # It has no timeout, is not touched by that, and an administrator can end it.
    assert is_open(allowed, topic)
    with api.admin(allowed) as admin:
        api(admin.force_terminate_transaction(topic))
    wait_until(lambda: not is_open(allowed, topic), "the transaction is aborted")
    assert committed(allowed, topic, 1) == []


def test_kafka_as_it_comes_says_what_two_phase_commits_need(api: Api, plain: str) -> None:
    with api.producer(plain, transactional_id="two-phases", **TWO_PHASES) as producer:
        for call in (producer.begin_transaction, lambda: producer.complete_transaction("1:1")):
            with pytest.raises(errors.UnsupportedError, match=r"KIP-939.*Kafka 4\.4.*unstable\.api\.versions\.enable"):
                api(call())


def test_administrators_fence_producers(api: Api, plain: str) -> None:
    topic = new_topic(plain, f"fenced-{api.name}")
    with api.producer(plain, transactional_id=topic) as producer, api.admin(plain) as admin:
        begin(api, producer, topic, b"never")
        (state,) = api(admin.describe_producers([(topic, 0)])).popitem()[1]
        fenced = api(admin.fence_producers(topic))[topic]
        assert fenced.producer_id == state.producer_id
        assert fenced.producer_epoch > state.producer_epoch
        with pytest.raises(errors.FencedError):
            api(producer.commit_transaction())
        begin_again = api.producer(plain, transactional_id=topic)
        with begin_again as other:
            begin(api, other, topic, b"alive")
            api(admin.force_terminate_transaction(topic))
            with pytest.raises(errors.FencedError):
                api(other.commit_transaction())
    assert committed(plain, topic, 1) == []


def test_administrators_abort_what_hangs_in_a_partition(api: Api, plain: str) -> None:
    topic = new_topic(plain, f"hanging-{api.name}")
    with api.producer(plain, transactional_id=topic) as producer, api.admin(plain) as admin:
        begin(api, producer, topic, b"never")
        (state,) = api(admin.describe_producers([(topic, 0)])).popitem()[1]
        named = {"producer_id": state.producer_id, "producer_epoch": state.producer_epoch}
        api(admin.abort_transaction((topic, 0), coordinator_epoch=state.coordinator_epoch, **named))
        wait_until(lambda: not is_open(plain, topic), "the transaction is aborted")
        with pytest.raises(errors.ArgumentError, match="no such partition"):
            api(admin.abort_transaction((topic, 9), timeout=2, **named))
        api(producer.abort_transaction())
    assert committed(plain, topic, 1) == []
