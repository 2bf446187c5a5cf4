"""A commit or an abort that may have been carried out is never reported as not done, and the producer finds out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import aio, errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOPIC = "flights"
LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_allow_plaintext": True,
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "right",
}
# With the first release transactions have the first protocol (KIP-98), with the second that of KIP-890.
RELEASES = ("3.9", "4.4")
REFUSALS = (
    "UNKNOWN_SERVER_ERROR",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "PRODUCER_FENCED",
)


@pytest.fixture(params=RELEASES)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(topics={TOPIC: 1}, users={"alice": "right"}, as_version=request.param) as broker:
        yield broker


def options(broker: Broker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap_servers, **LOGIN}


def committed(broker: Broker) -> list[bytes | None]:
    batch = ottla.read(broker.bootstrap_servers, TOPIC, isolation_level="read_committed", **LOGIN)
    return [record.value for record in batch]


def commit(broker: Broker, facade: str, spoil: Callable[[], None], *, aborts: bool = False) -> Exception:
    """End a transaction while `spoil` makes it fail, then commit another one. Return the error of the first."""

    def sync_run() -> Exception:
        with ottla.Producer(**options(broker), transactional_id="tx") as producer:
            producer.begin_transaction()
            producer.send(TOPIC, b"first")
            producer.flush()
            spoil()
            end = producer.abort_transaction if aborts else producer.commit_transaction
            with pytest.raises(errors.KafkaError) as failure:
                end()
            broker.clear_faults()
            with producer.transaction():
                producer.send(TOPIC, b"second")
        return failure.value

    async def async_run() -> Exception:
        async with aio.Producer(**options(broker), transactional_id="tx") as producer:
            await producer.begin_transaction()
            await producer.send(TOPIC, b"first")
            await producer.flush()
            spoil()
            end = producer.abort_transaction if aborts else producer.commit_transaction
            with pytest.raises(errors.KafkaError) as failure:
                await end()
            broker.clear_faults()
            async with producer.transaction():
                await producer.send(TOPIC, b"second")
        return failure.value

    return sync_run() if facade == "sync" else asyncio.run(async_run())


@pytest.mark.parametrize("facade", ["sync", "aio"])
@pytest.mark.parametrize("code", REFUSALS)
def test_a_commit_whose_retry_is_refused_is_of_unknown_outcome(broker: Broker, code: str, facade: str) -> None:
    def spoil() -> None:
        broker.disconnect("EndTxn", applied=True)
        broker.fail("EndTxn", code)

    error = commit(broker, facade, spoil)
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert committed(broker) == [b"first", b"second"]


@pytest.mark.parametrize("facade", ["sync", "aio"])
@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_that_fails_inside_the_broker_is_of_unknown_outcome(
    broker: Broker, facade: str, *, applied: bool
) -> None:
    error = commit(broker, facade, lambda: broker.fail("EndTxn", "UNKNOWN_SERVER_ERROR", applied=applied))
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert committed(broker) == ([b"first"] if applied else []) + [b"second"]


@pytest.mark.parametrize("facade", ["sync", "aio"])
def test_a_commit_whose_retry_is_refused_at_login_is_of_unknown_outcome(broker: Broker, facade: str) -> None:
    def spoil() -> None:
        broker.disconnect("EndTxn", applied=True)
        broker.fail("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED", count=1000)

    error = commit(broker, facade, spoil)
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert committed(broker) == [b"first", b"second"]


@pytest.mark.parametrize("facade", ["sync", "aio"])
@pytest.mark.parametrize("applied", [True, False])
def test_an_abort_whose_retry_is_refused_at_login_does_not_end_the_producer(
    broker: Broker, facade: str, *, applied: bool
) -> None:
    def spoil() -> None:
        broker.disconnect("EndTxn", applied=applied)
        broker.fail("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED", count=1000)

    error = commit(broker, facade, spoil, aborts=True)
    assert isinstance(error, errors.AuthenticationError), repr(error)
    assert "abort_transaction()" in str(error)
    assert committed(broker) == [b"second"]


@pytest.mark.parametrize("facade", ["sync", "aio"])
def test_an_abort_after_a_commit_that_was_carried_out_raises(broker: Broker, facade: str) -> None:
    def lose() -> None:
        broker.disconnect("EndTxn", applied=True)
        broker.fail("EndTxn", "PRODUCER_FENCED")

    def sync_run() -> None:
        with ottla.Producer(**options(broker), transactional_id="tx") as producer:
            producer.begin_transaction()
            producer.send(TOPIC, b"first")
            producer.flush()
            lose()
            with pytest.raises(errors.UnknownOutcomeError) as failure:
                producer.commit_transaction()
            assert failure.value.may_be_done
            for _ in range(2):
                with pytest.raises(errors.ArgumentError, match="the last commit was carried out"):
                    producer.abort_transaction()
            with producer.transaction():
                producer.send(TOPIC, b"second")

    async def async_run() -> None:
        async with aio.Producer(**options(broker), transactional_id="tx") as producer:
            await producer.begin_transaction()
            await producer.send(TOPIC, b"first")
            await producer.flush()
            lose()
            with pytest.raises(errors.UnknownOutcomeError) as failure:
                await producer.commit_transaction()
            assert failure.value.may_be_done
            for _ in range(2):
                with pytest.raises(errors.ArgumentError, match="the last commit was carried out"):
                    await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(TOPIC, b"second")

    if facade == "sync":
        sync_run()
    else:
        asyncio.run(async_run())
    assert committed(broker) == [b"first", b"second"]


@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_of_offsets_whose_retry_is_refused_may_be_done(broker: Broker, *, applied: bool) -> None:
    with ottla.Consumer(**options(broker), group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, 0)])
        broker.disconnect("OffsetCommit", applied=applied)
        broker.fail("OffsetCommit", "ILLEGAL_GENERATION")
        with pytest.raises(errors.CommitFailedError, match="an attempt to commit may have been carried out") as failure:
            consumer.commit({ottla.TopicPartition(TOPIC, 0): 7})
        assert failure.value.may_be_done
        found = consumer.committed([(TOPIC, 0)])[TOPIC, 0]
        assert (found and found.offset) == (7 if applied else None)
        broker.fail("OffsetCommit", "ILLEGAL_GENERATION")
        with pytest.raises(errors.CommitFailedError, match="nothing was committed") as failure:
            consumer.commit({ottla.TopicPartition(TOPIC, 0): 8})
        assert not failure.value.may_be_done
