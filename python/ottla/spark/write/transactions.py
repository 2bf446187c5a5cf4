"""Exactly once, in a task: its rows and the mark of its batch in one transaction.

```text
take the shard's transactional id      fences every other task that has it, and ends what it left open
read the shard's mark ── of this batch ──▶ written already: count the rows, and be done
        │ of an earlier one, or none
        ▼
begin · send the rows · send the mark · commit
```

The mark takes effect with the rows or not at all, so it is correct even if a task, a worker, an executor or the driver
dies. A task that Spark has replaced but that still runs is fenced, and can commit nothing.
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla import Consumer, Producer
from ottla._properties import AdminProperties
from ottla.errors import AuthorizationError, ConfigError, FencedError, KafkaError, TransactionAbortableError
from ottla.spark.shared.idle_clients import IdleClients
from ottla.spark.shared.tokens import resolved
from ottla.spark.write.exactly_once import ExactlyOnceError, Mark, Once, Task, check_rows, written
from ottla.spark.write.options import WriteOptions
from ottla.spark.write.producers import CLIENT_ID, IDLE, TRANSACTION_TIMEOUT, transactional

if TYPE_CHECKING:
    import pyarrow as pa

LOG = logging.getLogger("ottla.spark")

# Properties of a write that consumers take too: those of connections.
_SHARED = frozenset(AdminProperties.__annotations__)

# The APIs that only an exactly-once write calls.
_OWN_APIS = frozenset({"FindCoordinator", "InitProducerId", "OffsetFetch", "AddOffsetsToTxn", "TxnOffsetCommit"})

# Clients that read marks are kept for the next task: by the addresses, the properties, the group
# and the timeout.
_Key = tuple[str, tuple[tuple[str, str], ...], str, str]
_readers: IdleClients[_Key, Consumer] = IdleClients(IDLE)


def send_once(
    options: WriteOptions, once: Once, given: Iterable["pa.RecordBatch"], deliver: Callable[[Producer], int]
) -> None:
    """Write the rows of a Spark task, unless an earlier attempt has written them.

    Args:
        options: The options of the write.
        once: Those of them that are about this.
        given: The rows; only their number counts where they are written already.
        deliver: Sends the rows by a producer, waits until they are delivered, and returns their number.

    Raises:
        ExactlyOnceError: The state in Kafka does not fit this write.
        FencedError: Another attempt of this task has begun, or the transaction was open for too long.
        KafkaError: A row could not be delivered, or the transaction not be committed: nothing of it takes effect.
    """
    task = Task.current(once)
    begin = time.monotonic()
    client = transactional(options.bootstrap, options.properties, once.transactional_id(task.shard))
    try:
        client.init_transactions()
        if mark := _mark(client, options, once, task):
            LOG.info("Shard %s of %s has written batch %s already, and leaves it out", task.shard, once.app, task.batch)
            check_rows(once, task, mark, sum(batch.num_rows for batch in given))
            return
        begin = time.monotonic()
        with client.transaction() as transaction:
            mark = Mark(task.batch, task.query, once.shards, deliver(client))
            transaction.send_offsets({(once.topic, task.shard): mark.to_offset()}, once.group)
    except KafkaError as error:
        raise _explained(error, options, once, task, time.monotonic() - begin) from error
    finally:
        # Either the transaction is committed, or the error that led here is the one to raise.
        with suppress(KafkaError):
            client.close(timeout=0)


def _mark(client: Producer, options: WriteOptions, once: Once, task: Task) -> Mark | None:
    """The shard's mark of the batch, if it is written."""
    partitions = client.partitions_for(once.topic)
    if len(partitions) < once.shards:
        raise ExactlyOnceError(
            f"option shards is {once.shards}, but topic {once.topic} has {len(partitions)} partitions, and each shard "
            "needs one to mark how far it is: set shards to that many at most, or option markerTopic to a topic with "
            "more, to which nothing is written"
        )
    # Those that a transaction is about to change are waited for: after a commit, it may not be carried out yet.
    settled = _marks(options, once, [task.shard], "read_committed")

    def others() -> list[Mark]:
        # Their transactions may be open for as long as their tasks take.
        return _marks(options, once, [shard for shard in partitions if shard != task.shard], "read_uncommitted")

    return written(once, task, settled[0] if settled else None, others)


def _marks(options: WriteOptions, once: Once, shards: list[int], isolation: str) -> list[Mark]:
    if not shards:
        return []
    key = (options.bootstrap, options.properties, once.group, isolation)
    reader = _readers.take(key) or _reader(*key)
    try:
        kept = reader.committed([(once.topic, shard) for shard in shards])
    except BaseException:
        with suppress(KafkaError):
            reader.close(timeout=0)
        raise
    _readers.keep(key, reader)
    return [Mark.read(once.group, offset) for offset in kept.values() if offset is not None]


def _reader(bootstrap: str, properties: tuple[tuple[str, str], ...], group: str, isolation: str) -> Consumer:
    shared = {name: value for name, value in properties if name.replace(".", "_") in _SHARED}
    given = {"client.id": CLIENT_ID, **shared, "group.id": group, "isolation.level": isolation}
    return Consumer(bootstrap, config=resolved({**given, "enable.auto.commit": "false"}))


def _explained(error: KafkaError, options: WriteOptions, once: Once, task: Task, took: float) -> KafkaError:
    """The error for a Spark task; most errors need no change."""
    shard = f"shard {task.shard} of {once.app}"
    limit = int(dict(options.properties).get("transaction.timeout.ms", TRANSACTION_TIMEOUT))
    if isinstance(error, FencedError | TransactionAbortableError) and took > limit / 1000:
        return FencedError(
            f"the transaction of {shard} was open for {took:.0f} s, and Kafka aborts those that are open for longer "
            f"than kafka.transaction.timeout.ms ({limit}): nothing of this task takes effect. Raise it, up to the "
            "brokers' transaction.max.timeout.ms, or write fewer rows in a task"
        )
    # A partition's leader may be the first to report it, and then the producer only knows that it
    # has to abort.
    if isinstance(error, FencedError) or error.name == "INVALID_PRODUCER_EPOCH":
        return FencedError(
            f"another attempt of this task has taken over {shard}, and writes batch {task.batch}, or another write "
            f"has the appId {once.app} too, which no two may share: nothing of this attempt takes effect"
        )
    if error.name == "INVALID_TRANSACTION_TIMEOUT":
        return ConfigError(
            f"kafka.transaction.timeout.ms is {limit}, which is longer than the brokers allow: set it to their "
            "transaction.max.timeout.ms at most"
        )
    if error.api in _OWN_APIS and str(error.name).endswith("_AUTHORIZATION_FAILED"):
        return AuthorizationError(
            f"{shard} may not be written exactly once: broker {error.broker} returned {error.name} to {error.api}. The "
            f"principal needs the permissions to WRITE on transactional ids that begin with {once.group}-, READ on "
            f"group {once.group}, and READ on topic {once.topic}"
        )
    return error
