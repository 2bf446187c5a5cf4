"""Clients inside Spark's Python processes.

Spark's workers are forked from a daemon and serve one task after another, so a client is made on first use, kept for
the next task with the same options, and never crosses a fork or a pickle.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ottla import Admin, Consumer, Producer
from ottla._properties import AdminProperties
from ottla.errors import ConfigError, KafkaError
from ottla.spark.plan.read_options import ReadOptions
from ottla.spark.shared.idle_clients import IdleClients
from ottla.spark.shared.tokens import resolved

CLIENT_ID = "ottla-spark"
# Bytes of one fetch of one partition; a task reads one partition, so the consumer's default would starve it.
FETCH_BYTES = 8 << 20
# Milliseconds that a broker waits at the end of a log. A range ends before that, so only a prefetch
# gets there. Brokers serve the requests of a connection one after the other, so the next task's
# request would wait behind it.
LONGEST_WAIT = 10
# Most bytes of a dead letter: a little less than brokers take as a request (`socket.request.max.bytes`), so that it is
# for the topic to refuse what is large.
LETTER_BYTES = 100_000_000
# Seconds without a task after which a client is closed: that of `spark.kafka.consumer.cache.timeout`.
IDLE = 300.0
# A query's properties are mostly the consumer's; the admin client has these too.
ADMIN_PROPERTIES = frozenset(AdminProperties.__annotations__)
C = TypeVar("C", Admin, Consumer, Producer)
# Connections are shared by all reads that name the same brokers and properties.
_Key = tuple[type, str, tuple[tuple[str, str], ...]]
_idle: IdleClients[_Key, Any] = IdleClients(IDLE)


@contextmanager
def consumer(options: ReadOptions) -> Iterator[Consumer]:
    """A consumer for one use.

    After an error it is closed, else kept for the next use in this process.
    """
    with _lent(Consumer, options, _consumer, lambda client: client.assign([])) as client:
        yield client


@contextmanager
def admin(options: ReadOptions) -> Iterator[Admin]:
    """An admin client for one use, in the same way."""
    with _lent(Admin, options, _admin, lambda _: None) as client:
        yield client


@contextmanager
def producer(options: ReadOptions) -> Iterator[Producer]:
    """A producer of dead letters for one use, in the same way."""
    with _lent(Producer, options, _producer, lambda _: None) as client:
        yield client


def close_idle(options: ReadOptions) -> None:
    """Close the clients that are kept for these brokers, if no task may need them again."""
    _idle.close(lambda key: key[1] == options.bootstrap)


@contextmanager
def _lent(kind: type, options: ReadOptions, make: Callable[[ReadOptions], C], tidy: Callable[[C], None]) -> Iterator[C]:
    key = (kind, options.bootstrap, options.properties)
    client: C = _idle.take(key) or make(options)
    failed = False
    try:
        yield client
    except Exception:
        failed = True
        raise
    finally:
        # This is not only the good end: if Spark wants no more rows (a LIMIT), it closes the reader in the middle.
        if failed:
            # The error that led here is the one to raise, not that the client's tasks took a moment longer to end.
            with suppress(KafkaError):
                client.close(timeout=0)
        else:
            tidy(client)
            _idle.keep(key, client)


def _consumer(options: ReadOptions) -> Consumer:
    properties = {
        "client.id": CLIENT_ID,
        # A mistyped name must not become a topic.
        "allow.auto.create.topics": "false",
        "max.partition.fetch.bytes": str(FETCH_BYTES),
        "fetch.max.wait.ms": str(LONGEST_WAIT),
        "auto.offset.reset": "none",
        **dict(options.properties),
    }
    try:
        return Consumer(options.bootstrap, config=resolved(properties))
    except ConfigError as error:
        raise ConfigError(f"option kafka.{error} (`ottla config consumer` lists all properties)") from None


def _admin(options: ReadOptions) -> Admin:
    return Admin(options.bootstrap, config=resolved({"client.id": CLIENT_ID, **_shared(options)}))


def _producer(options: ReadOptions) -> Producer:
    sizes = {"max.request.size": str(LETTER_BYTES), "buffer.memory": str(LETTER_BYTES)}
    # A producer has the properties of an admin client, too.
    return Producer(options.bootstrap, config=resolved({"client.id": CLIENT_ID, **sizes, **_shared(options)}))


def _shared(options: ReadOptions) -> dict[str, str]:
    """The properties that all clients have. The consumer reports errors in the others."""
    return {name: value for name, value in options.properties if name.replace(".", "_") in ADMIN_PROPERTIES}
