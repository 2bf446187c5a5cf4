"""Producers inside Spark's Python processes.

Spark's workers are forked from a daemon and serve one task after another, in one thread. So a producer is made on first
use, kept for the next task with the same options, and never crosses a fork or a pickle.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ottla import Producer
from ottla.errors import ConfigError, KafkaError
from ottla.spark.shared.idle_clients import IdleClients
from ottla.spark.shared.tokens import resolved
from ottla.spark.write.exactly_once import OPTION
from ottla.spark.write.options import Columns, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

CLIENT_ID = "ottla-spark"
# Seconds without a task after which a producer is closed: that of `spark.kafka.producer.cache.timeout`.
IDLE = 600.0
# Milliseconds that a transaction, and so a task, may take: the brokers' default limit
# (`transaction.max.timeout.ms`).
TRANSACTION_TIMEOUT = 900_000

# What is about files and secrets, which may be there for the tasks and not for the driver.
_CHECKED_IN_TASKS = ("security.", "ssl.", "sasl.", "https.")

# Connections are shared by all tasks that name the same brokers and properties. Each task has flushed.
_Key = tuple[str, tuple[tuple[str, str], ...]]
_idle: IdleClients[_Key, Producer] = IdleClients(IDLE)


def check(options: WriteOptions) -> None:
    """Refuse properties that no producer takes, before tasks run.

    Properties of security are left to the tasks.

    Raises:
        ValueError: One is unknown or has a value that is not allowed; the message names it.
    """
    shown = tuple((name, value) for name, value in options.properties if not name.startswith(_CHECKED_IN_TASKS))
    try:
        if options.once is None:
            _make(options.bootstrap, shown).close(timeout=0)
        else:
            transactional(options.bootstrap, shown, options.once.transactional_id(0)).close(timeout=0)
    except ConfigError as error:
        # For the transactional id, which is not an option, the error names the other properties
        # that it needs.
        option = f"kafka.{error}".replace("kafka.transactional.id:", OPTION)
        raise ValueError(f"option {option} (`ottla config producer` lists all properties)") from None


def checked_batch(given: Mapping[str, str], schema: "StructType") -> tuple[WriteOptions, Columns]:
    """Check the options and columns of a batch; what its tasks get.

    For the driver.

    Raises:
        ValueError: An option is missing, unknown or has a bad value, or a column is missing or has a wrong type.
        KafkaError: The registry did not respond, or there is no token.
    """
    options = WriteOptions.parse(given)
    if options.once:
        options.once.check_batch()
    check(options)
    return options.with_token(), options.columns(schema)


@contextmanager
def producer(options: WriteOptions) -> Iterator[Producer]:
    """A producer for one task.

    After an error it is closed with what it holds, else kept for the next one.
    """
    key = (options.bootstrap, options.properties)
    client = _idle.take(key) or _make(*key)
    try:
        yield client
    except BaseException:
        # Raise the first error, and not that of the records that the close abandons.
        with suppress(KafkaError):
            client.close(timeout=0)
        raise
    _idle.keep(key, client)


def _make(bootstrap: str, properties: tuple[tuple[str, str], ...]) -> Producer:
    return Producer(bootstrap, config=resolved({"client.id": CLIENT_ID, **dict(properties)}))


def transactional(bootstrap: str, properties: tuple[tuple[str, str], ...], transactional_id: str) -> Producer:
    """A producer for one transaction, which the caller closes.

    It is never kept: another task may have taken its id, so it would have to initialize again anyway.
    """
    given = {"client.id": CLIENT_ID, "transaction.timeout.ms": str(TRANSACTION_TIMEOUT), **dict(properties)}
    return Producer(bootstrap, config=resolved({**given, "transactional.id": transactional_id}))
