"""A commit or an abort that may have been carried out is never reported as not done, and the producer finds out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import errors
from ottla.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.python.conftest import Api

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


def commit(broker: Broker, api: Api, spoil: Callable[[], None], *, aborts: bool = False) -> Exception:
    """End a transaction while `spoil` makes it fail, then commit another one. Return the error of the first."""
    with api.producer(**options(broker), transactional_id="tx") as producer:
        api(producer.begin_transaction())
        api(producer.send(TOPIC, b"first"))
        api(producer.flush())
        spoil()
        end = producer.abort_transaction if aborts else producer.commit_transaction
        with pytest.raises(errors.KafkaError) as failure:
            api(end())
        broker.clear_faults()
        commit_second(api, producer)
    return failure.value


def commit_second(api: Api, producer: Any) -> None:
    api(producer.begin_transaction())
    api(producer.send(TOPIC, b"second"))
    api(producer.commit_transaction())


@pytest.mark.parametrize("code", REFUSALS)
def test_a_commit_whose_retry_is_refused_is_of_unknown_outcome(broker: Broker, code: str, api: Api) -> None:
    def spoil() -> None:
        broker.disconnect("EndTxn", applied=True)
        broker.fail("EndTxn", code)

    error = commit(broker, api, spoil)
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert committed(broker) == [b"first", b"second"]


@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_that_fails_inside_the_broker_is_of_unknown_outcome(
    broker: Broker, api: Api, *, applied: bool
) -> None:
    error = commit(broker, api, lambda: broker.fail("EndTxn", "UNKNOWN_SERVER_ERROR", applied=applied))
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert committed(broker) == ([b"first"] if applied else []) + [b"second"]


def test_a_commit_whose_retry_is_refused_at_login_is_of_unknown_outcome(broker: Broker, api: Api) -> None:
    def spoil() -> None:
        broker.disconnect("EndTxn", applied=True)
        broker.fail("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED", count=1000)

    error = commit(broker, api, spoil)
    assert isinstance(error, errors.UnknownOutcomeError), repr(error)
    assert committed(broker) == [b"first", b"second"]


@pytest.mark.parametrize("applied", [True, False])
def test_an_abort_whose_retry_is_refused_at_login_does_not_end_the_producer(
    broker: Broker, api: Api, *, applied: bool
) -> None:
    def spoil() -> None:
        broker.disconnect("EndTxn", applied=applied)
        broker.fail("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED", count=1000)

    error = commit(broker, api, spoil, aborts=True)
    assert isinstance(error, errors.AuthenticationError), repr(error)
    assert "abort_transaction()" in str(error)
    assert committed(broker) == [b"second"]


def test_an_abort_after_a_commit_that_was_carried_out_raises(broker: Broker, api: Api) -> None:
    def lose() -> None:
        broker.disconnect("EndTxn", applied=True)
        broker.fail("EndTxn", "PRODUCER_FENCED")

    with api.producer(**options(broker), transactional_id="tx") as producer:
        api(producer.begin_transaction())
        api(producer.send(TOPIC, b"first"))
        api(producer.flush())
        lose()
        with pytest.raises(errors.UnknownOutcomeError) as failure:
            api(producer.commit_transaction())
        assert failure.value.may_be_done
        for _ in range(2):
            with pytest.raises(errors.ArgumentError, match="the last commit was carried out"):
                api(producer.abort_transaction())
        commit_second(api, producer)
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
