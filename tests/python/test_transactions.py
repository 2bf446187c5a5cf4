"""What a transaction's block does, whoever keeps the transaction; and what is refused before a broker is asked."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import aio, errors
from ottla._sync._transaction import Transaction
from ottla.aio._transaction import Transaction as AsyncTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

NOWHERE = "127.0.0.1:1"


class Verbs:
    """Notes what it is asked for, and fails as it is told."""

    def __init__(self, **failures: BaseException) -> None:
        self.asked: list[str] = []
        self.failures = failures
        self.settled = False

    def is_transaction_settled(self) -> bool:
        return self.settled

    def interrupt_timeout(self) -> float:
        return 0.5

    def ask(self, name: str) -> None:
        self.asked.append(name)
        verb = name.split(maxsplit=1)[0]
        if verb in self.failures:
            raise self.failures[verb]

    def begin_transaction(self) -> None:
        self.ask("begin")

    def send_offsets(self, offsets: Any, group: str, timeout: float | None = None) -> None:
        self.ask(f"offsets {offsets} {group} {timeout}")

    def commit_transaction(self) -> None:
        self.ask("commit")

    def abort_transaction(self, timeout: float | None = None) -> None:
        self.ask("abort" if timeout is None else f"abort {timeout}")


class AsyncVerbs:
    def __init__(self, verbs: Verbs) -> None:
        self.verbs = verbs

    def __getattr__(self, name: str) -> Any:
        async def verb(*args: Any) -> None:
            await asyncio.sleep(0)
            getattr(self.verbs, name)(*args)

        return verb


def run_sync(verbs: Verbs, block: Callable[[], None]) -> None:
    with Transaction(verbs, verbs) as transaction:
        transaction.send_offsets({("t", 0): 1}, "g")
        block()


def run_asyncio(verbs: Verbs, block: Callable[[], None]) -> None:
    async def main() -> None:
        async with AsyncTransaction(AsyncVerbs(verbs), verbs) as transaction:
            await transaction.send_offsets({("t", 0): 1}, "g")
            block()

    asyncio.run(main())


def nothing() -> None:
    """A block that goes well."""


RUNS = pytest.mark.parametrize("run", [run_sync, run_asyncio])
OFFSETS = "offsets {('t', 0): 1} g None"


@RUNS
def test_a_block_that_goes_well_is_committed(run: Callable[..., None]) -> None:
    verbs = Verbs()
    run(verbs, nothing)
    assert verbs.asked == ["begin", OFFSETS, "commit"]


@RUNS
@pytest.mark.parametrize("raises", [False, True])
def test_what_is_ended_or_prepared_in_a_block_is_left_so(run: Callable[..., None], raises: bool) -> None:
    verbs = Verbs()

    def block() -> None:
        verbs.settled = True
        if raises:
            raise LookupError

    with pytest.raises(LookupError) if raises else contextlib.nullcontext():
        run(verbs, block)
    assert verbs.asked == ["begin", OFFSETS]


@RUNS
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_a_block_that_raises_is_aborted(run: Callable[..., None], kind: type[BaseException]) -> None:
    raised = kind("mine")

    def block() -> None:
        raise raised

    verbs = Verbs(abort=errors.KafkaTimeoutError("no coordinator"))
    with pytest.raises(kind):
        run(verbs, block)
    assert verbs.asked == ["begin", OFFSETS, "abort" if kind is ValueError else "abort 0.5"]
    assert raised.__notes__ == ["the transaction was not aborted: no coordinator"]


@RUNS
@pytest.mark.parametrize("kind", [errors.TransactionAbortableError, errors.KafkaTimeoutError])
def test_a_commit_that_leaves_the_transaction_open_is_followed_by_an_abort(
    run: Callable[..., None], kind: type[errors.KafkaError]
) -> None:
    verbs = Verbs(commit=kind("a record failed"))
    with pytest.raises(kind, match="a record failed"):
        run(verbs, nothing)
    assert verbs.asked == ["begin", OFFSETS, "commit", "abort"]


@RUNS
@pytest.mark.parametrize("kind", [errors.FencedError, errors.FatalError, errors.UnknownOutcomeError])
def test_a_commit_that_may_have_been_done_is_not(run: Callable[..., None], kind: type[errors.KafkaError]) -> None:
    verbs = Verbs(commit=kind("who knows"))
    with pytest.raises(kind):
        run(verbs, nothing)
    assert verbs.asked == ["begin", OFFSETS, "commit"]


def test_nothing_is_sent_outside_of_a_transaction() -> None:
    with ottla.Producer(NOWHERE, transactional_id="t", max_block_ms=100) as producer:
        for call in (
            lambda: producer.send("t", b"v"),
            lambda: producer.send_many("t", [b"v"]),
            producer.commit_transaction,
            producer.abort_transaction,
        ):
            with pytest.raises(errors.ArgumentError, match="begin_transaction") as refused:
                call()
        assert refused.value.retriable is False
        with pytest.raises(errors.KafkaError), producer.transaction():
            pytest.fail("no broker is there to begin it")

    async def main() -> None:
        async with aio.Producer(NOWHERE, transactional_id="t", max_block_ms=100) as producer:
            with pytest.raises(errors.ArgumentError, match="begin_transaction"):
                await producer.send("t", b"v")
            with pytest.raises(errors.KafkaError):
                await producer.begin_transaction()

    asyncio.run(main())


def test_offsets_are_checked_before_anybody_is_asked() -> None:
    with ottla.Producer(NOWHERE, transactional_id="t") as producer:
        with pytest.raises(errors.ArgumentError, match="0 or more"):
            producer.send_offsets({("t", 0): -1}, "g")
        with pytest.raises(TypeError, match='offset of topic "t" must be an int, not str'):
            producer.send_offsets({("t", 0): "1"}, "g")  # type: ignore[dict-item]
        with pytest.raises(TypeError, match="a partition is a TopicPartition"):
            producer.send_offsets({"t": 1}, "g")  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("properties", "needs"),
    [
        ({"acks": 1}, "acks=all"),
        ({"enable_idempotence": False}, "enable.idempotence=true"),
        ({"retries": 0}, "retries"),
    ],
)
def test_what_transactions_need(properties: dict[str, Any], needs: str) -> None:
    with pytest.raises(errors.ConfigError, match=rf"transactional\.id: needs {needs}"):
        ottla.Producer(NOWHERE, transactional_id="t", **properties)


def test_a_producer_without_an_id_says_what_is_missing() -> None:
    with ottla.Producer(NOWHERE) as producer:
        for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(errors.ConfigError, match=r"transactional\.id"):
                call()
