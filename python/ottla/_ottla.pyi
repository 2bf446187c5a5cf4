# Types of the compiled half of ottla. What users call has its docstring here too, since editors look here:
# scripts/stubs.py writes it from the compiled module.

import re
from array import array
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    NoReturn,
    NotRequired,
    Self,
    TypeAlias,
    TypedDict,
    Unpack,
    final,
    overload,
)

from typing_extensions import disjoint_base

from ottla._acknowledgement import Acknowledgement
from ottla._assignors import Assignor
from ottla._decoding import DecodeFormat, DecodeSchema
from ottla._hints import AcknowledgeKind, ArrowArray, ArrowStream, ConfigValue, Rows, Servers
from ottla._metrics import Metrics
from ottla._properties import (
    AdminProperties,
    ConsumerProperties,
    ProducerProperties,
    ShareConsumerProperties,
)
from ottla._registry import SchemaRegistry
from ottla._types import (
    BadRecord,
    Buffer,
    Data,
    GroupMetadata,
    Headers,
    OffsetAndMetadata,
    Offsets,
    Partition,
    RecordMetadata,
    SubscriptionPattern,
    TopicPartition,
)

DEBUG_BUILD: Final[bool]
__version__: Final[str]

_Form: TypeAlias = Literal["python", "json"]
RecordPart: TypeAlias = tuple[str | None, int, int]
RecordFields: TypeAlias = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...], int]
BatchFields: TypeAlias = tuple[
    tuple[int, int, int, int, int, str, str | None, int],
    tuple[int, int, int, int, bool, bool],
    list[RecordFields],
]

class Property(TypedDict):
    name: str
    roles: list[str]
    kind: Literal["bool", "int", "choice", "text", "secret"]
    default: str | None
    doc: str
    min: NotRequired[int]
    max: NotRequired[int]
    unit: NotRequired[str]
    choices: NotRequired[list[str]]

class MetricRow(TypedDict):
    role: Literal["producer", "consumer", "admin"]
    group: str
    name: str
    tags: list[str]
    kind: Literal["total", "gauge"]
    unit: str
    doc: str

def close_at_exit() -> None: ...
def error_kinds() -> list[str]: ...
def properties() -> list[Property]: ...
def metric_table() -> list[MetricRow]: ...
def broker_properties() -> list[Property]: ...
def messages() -> list[tuple[str, int, int]]: ...
def apis() -> list[tuple[int, str, int, int, int | None, bool, list[str]]]: ...
def header_versions(key: int, version: int) -> tuple[int, int]: ...
def error_codes() -> list[tuple[int, str, bool]]: ...
def encode_records(
    records: Sequence[tuple[Any, ...]],
    magic: int,
    compression: str,
    level: int | None,
    base_offset: int,
    append_time: bool,
    producer: tuple[int, int, int],
    leader_epoch: int,
    transactional: bool,
    control: bool,
) -> bytes: ...
def decode_records(data: Buffer, check_crcs: bool, limit: int) -> list[tuple[BatchFields, int]]: ...
def internal_topics() -> list[str]: ...
def identify_record(
    topic: str, key: bytes | None, value: bytes | None
) -> tuple[int | None, str | None, RecordPart | None, RecordPart | None]: ...
def identify_control(
    key: bytes | None, value: bytes | None
) -> tuple[int | None, str | None, RecordPart | None, RecordPart | None]: ...
def encode_message(name: str, version: int, message: Mapping[str, Any], form: _Form) -> bytes: ...
def decode_message(name: str, version: int, data: Buffer, form: _Form) -> dict[str, Any]: ...
def encode_request(
    key: int, version: int, message: Mapping[str, Any], correlation_id: int, client_id: str | None, form: _Form
) -> bytes: ...
def encode_response(key: int, version: int, message: Mapping[str, Any], correlation_id: int, form: _Form) -> bytes: ...
def error_response(
    key: int,
    version: int,
    request: Mapping[str, Any],
    code: int,
    message: str | None,
    throttle_time_ms: int,
    form: _Form,
) -> dict[str, Any]: ...
def decode_frame(
    data: Buffer, response_to: tuple[int, int] | None, form: _Form
) -> tuple[str, int, int, str | None, dict[str, Any]]: ...

@final
class SegmentWindow:
    def __new__(cls, data: bytes, check_crcs: bool, limit: int) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> tuple[int, int, BatchFields | None, str | None]: ...

# Producer, offset, and whether its transaction ends there.
_Step: TypeAlias = tuple[int, int, bool | None]

def outline_log(data: bytes, left: int, limit: int) -> tuple[int, int | None, int, list[_Step], bool, str | None]: ...

@final
class LineSplitter:
    """Splits what is read of a file into lines. A line ends with LF or CR LF; any other CR belongs to it."""
    def __new__(cls) -> Self: ...
    def split(self, data: bytes) -> Lines | None:
        """The lines that end in the bytes that were read next; none if no line does."""
    def finish(self) -> Lines | None:
        """The last line, if the file does not end with LF. A CR at its end is its own."""

@final
class Lines:
    """Lines of a file, without their ends: a column of bytes for `send_many`.

    But for the first one they are views of what was read.
    """
    def __len__(self) -> int: ...
    @property
    def longest(self) -> int:
        """The bytes of the longest line."""
    def to_list(self) -> list[bytes]:
        """The lines as a list of `bytes`."""
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

@final
class JoinedValues:
    """The values of a batch in pieces of bytes, each with the separator after it. A value that is null has no bytes."""
    def __new__(cls, batch: Batch, separator: bytes, rows: Sequence[int] | None = None) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...

@final
class LogDecoder:
    def __new__(
        cls,
        topic: str,
        partition: int,
        start: int,
        end: int,
        segment: tuple[int, int],
        aborted: list[tuple[int, int, int]],
        limit: int,
    ) -> Self: ...
    def decode(self, data: bytes) -> tuple[Batch, int, bool, tuple[int | None, str] | None]: ...

@final
class Operation:
    def wait(self) -> Any: ...
    def __await__(self) -> Generator[Any, None, Any]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> NoReturn: ...
    def poll(self, queue: CompletionQueue, token: int) -> bool: ...
    def take(self) -> Any: ...

@disjoint_base
class Message:
    """A record: consumed, or produced with its delivery's result; or the error of a consumer.

    The type of its timestamp is TIMESTAMP_NOT_AVAILABLE, TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME.

    Args:
        topic: The topic's name.
        partition: The partition's number.
        offset: The offset.
        key: The key.
        value: The value.
        headers: The headers.
        error: The error, if the message is one.
        timestamp: The timestamp's type and the timestamp in milliseconds.
        latency: Seconds from the call of produce to the delivery.
        leader_epoch: The epoch of the leader that wrote the record.
        delivery_count: How often a share group delivered the record.
    """
    def __init__(
        self,
        topic: Any = None,
        partition: int = -1,
        offset: int = -1001,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: Any = None,
        timestamp: tuple[int, int] | None = None,
        latency: float = -1.0,
        leader_epoch: int = -1,
        delivery_count: int = -1,
    ) -> None: ...
    def topic(self) -> Any:
        """Return the topic.

        Returns: The name, or None.
        """
    def partition(self) -> int | None:
        """Return the partition.

        Returns: The number, or None.
        """
    def offset(self) -> int | None:
        """Return the offset.

        Returns: The offset, or None.
        """
    def key(self) -> Any:
        """Return the key.

        Returns: The key, or None.
        """
    def value(self) -> Any:
        """Return the value.

        Returns: The value, the text of an error, or None.
        """
    def deserialized_key(self) -> Any:
        """Return the key as a deserializing consumer set it.

        Returns: The key, or None.
        """
    def deserialized_value(self) -> Any:
        """Return the value as a deserializing consumer set it.

        Returns: The value, or None.
        """
    def headers(self) -> Any:
        """Return the headers: a list of names and values, or None."""
    def error(self) -> Any:
        """Return the error.

        Returns: A KafkaError, or None for a record.
        """
    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp.

        Returns: The type of the timestamp, and the timestamp in milliseconds since 1970 UTC.
        """
    def latency(self) -> float | None:
        """Return the latency.

        Returns: Seconds from the call of produce to the delivery, or None.
        """
    def leader_epoch(self) -> int | None:
        """Return the leader epoch.

        Returns: The epoch of the leader that wrote the record, or None.
        """
    def delivery_count(self) -> int | None:
        """Return the delivery count.

        Returns: How often a share group delivered the record, or None.
        """
    def set_topic(self, topic: Any) -> None:
        """Set the topic.

        Args:
            topic: The name.
        """
    def set_key(self, key: Any) -> None:
        """Set the key.

        Args:
            key: Any object.
        """
    def set_value(self, value: Any) -> None:
        """Set the value.

        Args:
            value: Any object.
        """
    def set_headers(self, headers: Any) -> None:
        """Set the headers.

        Args:
            headers: A list of names and values.
        """
    def set_error(self, error: Any) -> None:
        """Set the error.

        Args:
            error: A KafkaError.
        """
    def __len__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]: ...

def messages_of(batch: Batch) -> list[Message]: ...

@final
class Inbox:
    """What a consumer's polls return: messages that are no records first, then records.

    Args:
        pause: Seconds without a poll of the client after which it is due, so that the group keeps the application.
    """
    def __new__(cls, pause: float) -> Self: ...
    def __len__(self) -> int: ...
    def take(self, most: int) -> list[Message]:
        """Return the next messages, at most `most`, as those of `consume`."""
    def polled(self) -> None:
        """The client is polled now."""
    def is_due(self) -> bool:
        """Return whether the client has to be polled, even if there are messages."""
    def put(self, batch: Batch) -> None:
        """Add the records of a poll."""
    def put_notice(self, topic: str | None, partition: int, message: Message) -> None:
        """Add a message that is no record."""
    def discard(self, partitions: set[tuple[str, int]]) -> list[tuple[str, int, int]]:
        """Drop what was not returned of partitions.

        It returns the offset of the first such record of each.
        """
    def take_positions(self) -> list[tuple[str, int, int, int | None]]:
        """What changed since the last time, by partition: offset after the last returned record, leader epoch."""
    def clear(self) -> None:
        """Drop everything."""

@disjoint_base
class PollingConsumer:
    """The compiled half of `Consumer`: what is called for each message."""
    def __new__(cls, *args: Any, **config: Any) -> Self: ...
    def _ottla_read(self, inbox: Inbox) -> None:
        """Let polls return what an inbox holds."""
    def poll(self, timeout: float | None = None) -> Any:
        """Return the next record or error, and call callbacks.

        Args:
            timeout: Seconds to wait at most; negative or None waits without end.

        Returns:
            A Message, or None when the time is up.
        """

@final
class FutureOutbox:
    """Queues records for an outbox, with futures that the outbox settles.

    Args:
        outbox: The outbox, whose reports are served on this thread.
        loop: The loop that runs on this thread.
    """
    def __new__(cls, outbox: Outbox, loop: Any) -> Self: ...
    def add(self, topic: Any, value: Any, key: Any, partition: int) -> Any:
        """Queue a record, if this is the loop.

        Returns:
            The future of the delivered message, or of a KafkaException; None if another loop runs or the queue is full.
        """
    def is_here(self) -> bool:
        """Whether this is the thread of the loop, and it runs."""
    def queue(self, future: Any, topic: Any, value: Any, key: Any, partition: int, timestamp: int) -> bool:
        """Queue a record that a future of the running loop is made for. If that fails, the future gets the exception.

        Returns:
            False if the queue is full.
        """

@final
class Outbox:
    """All records of a producer that have no delivery report, and the reports that no poll has called.

    A record of a topic that is not known yet waits in a queue of its topic, and later records of the topic behind it.
    A task of the runtime sends them. Topics do not wait for each other.

    Args:
        core: The producer, or None without brokers.
        max_messages: The most records that have no report.
        max_bytes: The most bytes of their keys and values.
        max_message_bytes: The most bytes of one record's key and value.
        timeout: Seconds until a record that cannot be sent expires.
        on_delivery: The callback of records that have none of their own.
        errors_only: Whether only failures are reported.
        is_watched: Whether each poll has events to look for besides the reports.
    """
    def __new__(
        cls,
        core: ProducerCore | None,
        *,
        max_messages: int,
        max_bytes: int,
        max_message_bytes: int,
        timeout: float,
        on_delivery: Callable[..., object] | None,
        errors_only: bool,
        is_watched: bool,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def has_unsent(self) -> bool:
        """Whether records wait until their topic is known: a flush that begins now does not send them."""
    def add(self, topic: Any, value: Any, key: Any, partition: int, on_delivery: Any, headers: Any) -> Any:
        """Queue a record.

        It returns the KafkaError of one that cannot be queued.
        """
    def serve(self) -> int:
        """Call the callbacks of reports that came in.

        What one raises is raised, and the others wait for the next call.

        Returns:
            The number of reports.
        """
    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there are reports."""
    def next_expiry(self) -> float | None:
        """Seconds until the next record without brokers expires, if there is one."""
    def purge(self, in_queue: bool, in_flight: bool) -> None:
        """Drop records: those that wait for their topic, and those that were handed to the client."""
    def close(self) -> None:
        """Queue no further record."""

@disjoint_base
class ReportingProducer:
    """The compiled half of `Producer`: what is called for each record."""
    def __new__(cls, *args: Any, **config: Any) -> Self: ...
    def _ottla_write(self, outbox: Outbox) -> None:
        """Let `produce` use an outbox."""
    def produce(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        partition: Any = ...,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: Any = 0,
        headers: Any = None,
    ) -> None:
        """Queue a record.

        Args:
            topic: The topic's name.
            value: bytes, str or None.
            key: bytes, str or None.
            partition: The partition; -1 lets the partitioner choose.
            callback: The same as on_delivery.
            on_delivery: Called by a poll as f(error, message).
            timestamp: Milliseconds since 1970 UTC; 0 is the current time.
            headers: A dict, or a list of pairs.

        Raises:
            BufferError: The queue is full: poll, and produce again.
            KafkaException: The record is too large.
        """
    def poll(self, timeout: float | None = None) -> Any:
        """Call callbacks of what happened.

        Args:
            timeout: Seconds to wait for the first event; negative or None waits without end.

        Returns:
            The number of callbacks that were called.
        """
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

@final
class CompletionQueue:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def pending(self) -> bool: ...
    def drain(self) -> list[int]: ...

@final
class SaslLogin:
    def __new__(cls, user: str, password: str) -> Self: ...
    def replace(self, user: str, password: str) -> None: ...

@final
class SaslQueue:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def drain(self) -> list[SaslRequest]: ...

@final
class SaslRequest:
    @property
    def provider(self) -> Any: ...
    @property
    def kind(self) -> str: ...
    @property
    def connection(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    def answer(self, data: bytes, complete: bool = False, extensions: Sequence[tuple[str, str]] = ...) -> None: ...
    def fail(self, text: str, passes: bool = False) -> None: ...

def sign_assertion(algorithm: str, key: bytes, message: bytes) -> bytes: ...

@final
class EventQueue:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def listen(self, level: int) -> None: ...
    def drain(self) -> tuple[list[tuple[int, str, str, dict[str, Any]]], int]: ...

@final
class Record:
    """One record of a batch.

    It is a view: each access to the key, the value or the headers makes a new Python object.
    """
    @property
    def topic(self) -> str:
        """The topic's name."""
    @property
    def partition(self) -> int:
        """The partition's number."""
    @property
    def offset(self) -> int:
        """The offset in the partition."""
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970 UTC; -1 if the record has none."""
    @property
    def timestamp_type(self) -> int:
        """Who set the timestamp: 0 is the producer (CreateTime), 1 the broker (LogAppendTime); -1 without one."""
    @property
    def key(self) -> bytes | None:
        """The key, if it has one."""
    @property
    def value(self) -> bytes | None:
        """The value; None is a tombstone."""
    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Names and values, in order; names may repeat."""
    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader that wrote the record, if the broker reports it (Kafka 0.11 and later)."""
    @property
    def delivery_count(self) -> int | None:
        """How often the record was delivered, this time included; None unless a `ShareConsumer` got it."""
    def __reduce__(self) -> NoReturn: ...

@final
class RecordIterator:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...

@final
class Batch:
    """Records as one poll returned them, kept as columns. Immutable; any thread may use it.

    `len()` counts the records, iteration yields a view of each record, an index returns one record, and a slice returns
    a batch without a copy. As Arrow data it is a table with the same columns as Spark's Kafka source: key binary, value
    binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC], timestampType int32, headers
    list<struct<key: string, value: binary>>, which is null for a record without headers. Any Arrow library accepts it,
    as in `polars.DataFrame(batch)`.
    """
    def __len__(self) -> int: ...
    def __iter__(self) -> RecordIterator: ...
    @overload
    def __getitem__(self, key: int, /) -> Record: ...
    @overload
    def __getitem__(self, key: slice, /) -> Batch: ...
    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """By partition, the offset after these records: commit it, or pass it to `send_offsets`."""
    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the records, each once, in the order of their first records."""
    @property
    def spans(self) -> dict[TopicPartition, range]:
        """By partition, a `range` from the lowest offset of its records to the one after the highest.

        Between them offsets may be missing, which the log does not hold or which are not records.
        """
    @property
    def delivery_count(self) -> array[int] | None:
        """How often each record was delivered, this one included: an `array` of int16, None without a `ShareConsumer`.

        Libraries that take buffers read it without a copy, such as `numpy.asarray(batch.delivery_count)`.
        """
    @staticmethod
    def concat(batches: Iterable[Batch]) -> Batch:
        """Concatenate batches, without a copy: the records of the first, then those of the next, and so on.

        `batch + batch` does it for two. `next_offsets` are those of the last batch that has the partition.

        Args:
            batches: Any number of them; of none, the result is empty.

        Returns:
            A batch with the records of all.
        """
    def __add__(self, value: Batch, /) -> Batch: ...
    def __radd__(self, value: Batch, /) -> Batch: ...
    def to_arrow(self, columns: Iterable[str] | None = None, *, view: bool = False) -> Any:
        """Return the batch as a `pyarrow.Table`, without a copy.

        Args:
            columns: Names of the columns that are wanted, in this order; the others are not built. None takes all.
            view: Give key and value as binary_view, which pyarrow, polars and DuckDB read, and which spares the copy:
                once a table of a consumer's records was made so, it decodes the next ones without copying keys and
                values, until a table is made otherwise. They then stay where they were received or, if compressed,
                decompressed. Batches and tables of such records keep all of that in memory, however little of it they
                show: the broker's whole response, of up to `fetch.max.bytes`. Make the tables that are kept for long
                without views.

        Returns:
            A `pyarrow.Table` with a row for each record, and the columns that the class describes.

        Raises:
            ArgumentError: There is no column of a name.
            ImportError: pyarrow is not installed.
        """
    def to_polars(self, columns: Iterable[str] | None = None) -> Any:
        """Return the batch as a `polars.DataFrame`, as `polars.DataFrame(batch)` makes it.

        Args:
            columns: As for `to_arrow`.

        Returns:
            A `polars.DataFrame` with the columns of `to_arrow`.

        Raises:
            ArgumentError: There is no column of a name.
            ImportError: polars is not installed.
        """
    def to_pandas(self, columns: Iterable[str] | None = None) -> Any:
        """Return the batch as a `pandas.DataFrame`, with a Python object for each key, value and list of headers.

        Args:
            columns: As for `to_arrow`.

        Returns:
            A `pandas.DataFrame` with the columns of `to_arrow`.

        Raises:
            ArgumentError: There is no column of a name.
            ImportError: pandas or pyarrow is not installed.
        """
    def decode(
        self,
        schema: DecodeSchema = None,
        format: DecodeFormat = "json",  # noqa: A002
        *,
        column: Literal["value", "key"] = "value",
        mode: Literal["fail", "permissive", "drop"] = "fail",
        keep: Iterable[str] | None = None,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        writer_schema: str | None = None,
        message: str | None = None,
        framed: bool | None = None,
        delimiter: str = ",",
        select: Iterable[str] | None = None,
        corrupt_column: str = "_corrupt",
    ) -> Decoded:
        """Decode keys or values into typed Arrow columns.

        It runs on this thread, without the GIL; under asyncio, `await asyncio.to_thread(batch.decode, schema)` leaves
        the loop free. To decode many batches, make an `ottla.Decoder` once and pass it as `schema`.

        Args:
            schema: What to decode to. Columns: a dict of names and types (`{"item": str, "n": "decimal(8,2)"}`), a
                Spark SQL text (`"item string, n decimal(8,2)"`), a `pyarrow.Schema` or another object with
                `__arrow_c_schema__`, or for json "infer", for those of the first records. A schema of the format: an
                Avro schema or a JSON Schema, as text or as a dict; Protobuf descriptors as bytes, or a generated
                message class; a `RegisteredSchema`. None takes the latest schema of the registry's subject. A `Decoder`
                brings its own format and options: other options raise an error.
            format: "json", "avro", "protobuf", "csv", "string" or "raw".
            column: What of the records: "value" or "key".
            mode: What becomes of records that do not decode. "fail" raises for the first; "permissive" makes their
                columns null and puts their bytes into `corrupt_column`; "drop" leaves them out. With the last two,
                `bad` of the result has them, with the reason.
            keep: Columns of the records to put before the typed ones, such as "key", "topic" and "offset".
            registry: A `SchemaRegistry`, or its URL. Values then begin with a schema id, or have it in a header, as
                Confluent's serializers write them.
            subject: The subject whose schemas the ids are; None for that of the record's topic, `TOPIC-value` or
                `TOPIC-key`. It decides the registry's context, as in `":.staging:orders-value"`.
            writer_schema: The Avro schema that the data was written with, if it is not `schema` and there is no
                registry.
            message: The Protobuf message's name; without it, the first of the descriptors' last file.
            framed: Whether values begin with a schema id; the default is whether there is a `registry`. JSON skips the
                ids.
            delimiter: The separator of CSV fields.
            select: Names of the wanted columns, in this order; others are skipped.
            corrupt_column: A name for the bytes of bad records.

        Returns:
            The typed columns and the bad records. A record without a value is null in all columns. If one of them
            is not nullable, it is bad, but with "permissive".

        Raises:
            DecodeError: A record does not decode, and the mode is "fail". It names the record, the column and the
                reason.
            ArgumentError: The schema or an option can never work.
            UnreachableError: The registry cannot be reached.
        """
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def _repr_html_(self) -> str: ...
    def __reduce__(self) -> NoReturn: ...

@final
class Decoded:
    """The records of a batch as typed columns, with those that do not decode apart. Immutable; any thread may use it.

    `len()` counts the rows. It is a table to any Arrow library, as in `polars.DataFrame(decoded)`.
    """
    def __len__(self) -> int: ...
    @property
    def bad(self) -> list[BadRecord]:
        """The records that do not decode, in order, as `BadRecord`."""
    def to_arrow(self) -> Any:
        """Return the columns as a `pyarrow.Table`, without a copy.

        Returns:
            A `pyarrow.Table` with a row for each decoded record.

        Raises:
            ImportError: pyarrow is not installed.
        """
    def to_polars(self) -> Any:
        """Return the columns as a `polars.DataFrame`, without a copy.

        Returns:
            A `polars.DataFrame` with a row for each decoded record.

        Raises:
            ImportError: polars is not installed.
        """
    def to_pandas(self) -> Any:
        """Return the columns as a `pandas.DataFrame`.

        Returns:
            A `pandas.DataFrame` with a row for each decoded record.

        Raises:
            ImportError: pandas or pyarrow is not installed.
        """
    def _repr_html_(self) -> str: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __reduce__(self) -> NoReturn: ...

@final
class TypedDecoder:
    def __new__(
        cls,
        kind: str,
        column: str,
        *,
        schema: Any = None,
        text: str | None = None,
        references: list[str] = ...,
        writer: str | None = None,
        descriptors: list[bytes] = ...,
        message: str | None = None,
        delimiter: str = ",",
        framed: bool = False,
        select: list[str] | None = None,
    ) -> Self: ...
    def __arrow_c_schema__(self) -> Any: ...
    @staticmethod
    def inferred(batch: Batch, column: str, framed: bool, select: list[str] | None) -> TypedDecoder: ...
    @staticmethod
    def topics(batch: Batch) -> list[str]: ...
    def unknown_ids(self, batch: Batch) -> list[tuple[str, int | bytes]]: ...
    def add_writer(self, topic: str, schema_id: int | bytes, text: str, references: list[str]) -> None: ...
    def add_descriptors(self, topic: str, schema_id: int | bytes, descriptors: list[bytes]) -> None: ...
    def refuse_writer(self, topic: str, schema_id: int | bytes, reason: str) -> None: ...
    @overload
    def decode(self, batch: Batch, mode: str, keep: list[str], corrupt: str, missing: None) -> Decoded | None: ...
    @overload
    def decode(
        self, batch: Batch, mode: str, keep: list[str], corrupt: str, missing: list[tuple[str, int | bytes, str]]
    ) -> Decoded: ...

@final
class Encoded:
    """Encoded rows: a column of bytes for any Arrow library, as in `pyarrow.array(encoded)`. Any thread may use it.

    `len()` counts the rows.
    """
    def __len__(self) -> int: ...
    def __getitem__(self, key: int, /) -> bytes | None:
        """The bytes of a row, or None where it has no value."""
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...
    def __reduce__(self) -> NoReturn: ...

@final
class TypedEncoder:
    def __new__(
        cls,
        kind: str,
        *,
        text: str | None = None,
        references: list[str] = ...,
        descriptors: list[bytes] = ...,
        message: str | None = None,
        schema_id: int | None = None,
    ) -> Self: ...
    @staticmethod
    def avro_schema(columns: Any) -> str: ...
    @staticmethod
    def registered_file(descriptors: list[bytes]) -> tuple[bytes, list[str]]: ...
    def message_indexes(self) -> bytes: ...
    def encode(self, data: Any, settle: Callable[[], TypedEncoder] | None = None) -> Encoded: ...

@final
class Watched:
    def done(self) -> bool: ...
    def _notify(self, queue: CompletionQueue, token: int) -> None: ...
    def found(self) -> RecordMetadata | Exception | None: ...

@final
class Delivery:
    """A handle to the outcome of one record. Threads may share it."""
    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is delivered.

        Args:
            timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.

        Returns:
            Where the record was written.

        Raises:
            KafkaTimeoutError: The delivery result was not known in time.
            KafkaError: The record was not delivered.
        """
    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the delivery result of the record.

        Args:
            timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.

        Returns:
            Why the record was not delivered; None if it was.

        Raises:
            KafkaTimeoutError: The delivery result was not known in time.
        """
    def done(self) -> bool:
        """Return whether the delivery result is known.

        Returns:
            True if the record was delivered, or has failed.
        """
    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(delivery)` once, when the delivery result is known.

        Callbacks run on ottla's thread, one after the other, in the order in which delivery results become known.
        Within a partition that is the order of the records, unless some fail or are sent again. If the result is known
        already, the callback runs at once on the calling thread, or after callbacks that are due or running.
        """
    def _notify(self, queue: CompletionQueue, token: int) -> None: ...
    def _watch(self) -> Watched: ...
    def __reduce__(self) -> NoReturn: ...

@final
class Deliveries:
    """A handle to the outcomes of many records, in columns. Threads may share it. `len()` counts the records."""
    def __len__(self) -> int: ...
    def result(self, timeout: float | None = None, *, check: bool = True) -> tuple[array[int], array[int]]:
        """Wait for the delivery results of all records.

        Args:
            timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.
            check: Whether to raise where a record was not delivered.

        Returns:
            Partitions and offsets by row, as arrays of 32 and 64 bits that numpy and others take without a copy.
            Without `check`, the offset of a row that was not delivered is -1.

        Raises:
            KafkaTimeoutError: Not every delivery result was known in time.
            KafkaError: A record was not delivered. This is the error of the first row that failed, with a note that
                counts the failed rows.
        """
    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the delivery results of all records.

        Args:
            timeout: Seconds to wait at most. 0 does not wait; None waits until `delivery.timeout.ms` decides.

        Returns:
            The error of the first row that failed, with a note that counts the failed rows; None if all were delivered.

        Raises:
            KafkaTimeoutError: Not every delivery result was known in time.
        """
    @property
    def errors(self) -> dict[int, Exception]:
        """The errors of rows that were not delivered, by row; empty if all were.

        It waits for all delivery results.
        """
    def done(self) -> bool:
        """Return whether all delivery results are known.

        Returns:
            True if each record was delivered, or has failed.
        """
    def add_done_callback(self, callback: Callable[[Deliveries], object]) -> None:
        """Call `callback(deliveries)` once, when all delivery results are known.

        Where, when and in which order callbacks run: see `Delivery.add_done_callback`.
        """
    def _notify(self, queue: CompletionQueue, token: int) -> None: ...
    def _watch(self) -> Watched: ...
    def __reduce__(self) -> NoReturn: ...

@final
class AsyncDelivery:
    """An awaitable handle to the outcome of one record, a `RecordMetadata` with the topic, partition and offset.

    `asyncio.gather`, `wait`, `wait_for`, `shield` and `as_completed` take it as it is. It is not a coroutine, which
    `asyncio.create_task` and task groups require: `asyncio.ensure_future(delivery)` makes a task of it.
    """
    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...
    def wait(self, timeout: float | None = None) -> Awaitable[RecordMetadata]:
        """Wait until the record is delivered.

        The error of a timeout names what delayed the record. The error of `asyncio.wait_for` does not.

        Args:
            timeout: Seconds to wait at most; None waits until `delivery.timeout.ms` decides.

        Returns:
            Where the record was written.

        Raises:
            KafkaTimeoutError: The time was up first. The record may still be delivered.
            KafkaError: The record was not delivered.
        """
    def result(self) -> RecordMetadata:
        """Return where the record was written, once that is known.

        It does not wait.

        Returns:
            The topic, partition and offset.

        Raises:
            asyncio.InvalidStateError: The delivery result is not known yet.
            KafkaError: The record was not delivered.
        """
    def exception(self) -> Exception | None:
        """Return why the record was not delivered, once that is known.

        It does not wait.

        Returns:
            The error; None if the record was delivered.

        Raises:
            asyncio.InvalidStateError: The delivery result is not known yet.
        """
    def done(self) -> bool:
        """Return whether the delivery result is known.

        Returns:
            True if the record was delivered, or has failed.
        """
    def add_done_callback(self, callback: Callable[[AsyncDelivery], object]) -> None:
        """Call `callback(delivery)` once on the running loop, soon after the delivery result is known.

        Callbacks run in the order in which delivery results become known. Within a partition that is the order of the
        records, unless some fail or are sent again.
        """
    def remove_done_callback(self, callback: Callable[[AsyncDelivery], object]) -> int:
        """Forget this callback on the running loop, however often it was added.

        Returns:
            How often it was added.
        """
    def cancelled(self) -> bool:
        """Return whether sending was cancelled.

        Returns:
            False: a record that was sent cannot be cancelled.
        """
    def _watch(self) -> Watched: ...
    def __reduce__(self) -> NoReturn: ...

@final
class AsyncDeliveries:
    """An awaitable handle to the outcomes of many records.

    Its value is the partitions and offsets by row, as `result` returns them. Functions of asyncio take it as they take
    a `Delivery`.
    """
    def __len__(self) -> int: ...
    def __await__(self) -> Generator[Any, None, tuple[array[int], array[int]]]: ...
    def wait(self, timeout: float | None = None, *, check: bool = True) -> Awaitable[tuple[array[int], array[int]]]:
        """Wait until every record is delivered.

        The error of a timeout names what delayed the records. The error of `asyncio.wait_for` does not.

        Args:
            timeout: Seconds to wait at most; None waits until `delivery.timeout.ms` decides.
            check: Whether to raise where a record was not delivered; without it, the offset of such a row is -1.

        Returns:
            Partitions and offsets by row, as `result` returns them.

        Raises:
            KafkaTimeoutError: The time was up first. The records may still be delivered.
            KafkaError: A record was not delivered. This is the error of the first row that failed, with a note that
                counts the failed rows.
        """
    def result(self, *, check: bool = True) -> tuple[array[int], array[int]]:
        """Return partitions and offsets by row, once all are known.

        It does not wait.

        Args:
            check: Whether to raise where a record was not delivered; without it, the offset of such a row is -1.

        Returns:
            Partitions and offsets by row, as arrays of 32 and 64 bits that numpy and others take without a copy.

        Raises:
            asyncio.InvalidStateError: Some delivery result is not known yet.
            KafkaError: A record was not delivered. This is the error of the first row that failed, with a note that
                counts the failed rows.
        """
    def exception(self) -> Exception | None:
        """Return why records were not delivered, once that is known.

        It does not wait.

        A note of the error counts the rows that failed.

        Returns:
            The error of the first row that was not delivered; None if all were.

        Raises:
            asyncio.InvalidStateError: Some delivery result is not known yet.
        """
    @property
    def errors(self) -> dict[int, Exception]:
        """The errors of rows that were not delivered, by row; empty if all were.

        It does not wait.

        Raises:
            asyncio.InvalidStateError: Some delivery result is not known yet.
        """
    def done(self) -> bool:
        """Return whether all delivery results are known.

        Returns:
            True if each record was delivered, or has failed.
        """
    def add_done_callback(self, callback: Callable[[AsyncDeliveries], object]) -> None:
        """Call `callback(deliveries)` once on the running loop, soon after all delivery results are known.

        In which order callbacks run: see `AsyncDelivery.add_done_callback`.
        """
    def remove_done_callback(self, callback: Callable[[AsyncDeliveries], object]) -> int:
        """Forget this callback on the running loop, however often it was added.

        Returns:
            How often it was added.
        """
    def cancelled(self) -> bool:
        """Return whether sending was cancelled.

        Returns:
            False: a record that was sent cannot be cancelled.
        """
    def _watch(self) -> Watched: ...
    def __reduce__(self) -> NoReturn: ...

@final
class AppMetric:
    """A metric of your program, which clients push to brokers with their own (KIP-1076). Threads may share it.

    Brokers get it as `org.apache.kafka.<group>.<name>`, in lower case, with dots for hyphens and without the group's
    `-metrics`. Its tags are attributes, with underscores for hyphens. An operator's subscription selects metrics by the
    beginning of that name.

    Args:
        name: Such as `"orders-open"`.
        group: What it is a part of, such as `"shop"`.
        tags: Tags and their values, such as `{"region": "eu"}`. `client-id` is left out, since brokers know it.
        kind: `"gauge"`, a current value; or `"counter"`, a total that never shrinks. Brokers may request how much a
            counter grew since the last push.

    Raises:
        ArgumentError: `kind` is unknown; the name, the group or a tag is empty; or two tags are the same for brokers.

    Example:
        ```python
        orders = ottla.AppMetric("orders-total", "shop", tags={"region": "eu"}, kind="counter")
        producer.register_metric_for_subscription(orders)
        orders.add(1)
        ```
    """
    def __new__(
        cls,
        name: str,
        group: str,
        *,
        tags: dict[str, str] | None = None,
        kind: Literal["gauge", "counter"] = "gauge",
    ) -> Self: ...
    @property
    def value(self) -> float:
        """The current value; 0 at first."""
    def set(self, value: float, /) -> None:
        """Set the value. Clients push the value that it has then.

        Args:
            value: The value. A gauge that is NaN or infinite is not pushed.

        Raises:
            ArgumentError: A counter would shrink, or the value is not a finite number.
        """
    def add(self, amount: float = 1.0, /) -> None:
        """Add to the value. No amount is lost if several threads do it at the same time.

        Args:
            amount: The amount; less than 0 only for a gauge.

        Raises:
            ArgumentError: A counter would shrink, or the sum is not a finite number.
        """

@final
class Keys:
    """The keys of records to place, as a partitioner gets them: a sequence, and an Arrow array of type large_binary.

    `numpy.array(keys, object)` and `pyarrow.array(keys)` take all of them at once.
    """
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bytes | None: ...
    def __iter__(self) -> Iterator[bytes | None]: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

@final
class ProducerCore:
    def __new__(
        cls,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[ProducerProperties],
    ) -> Self: ...
    def send(
        self,
        topic: str,
        value: Data | None,
        key: Data | None,
        partition: int | None,
        timestamp: int | datetime | None,
        headers: Headers | None,
    ) -> AsyncDelivery | Operation: ...
    def send_many(
        self,
        topic: str,
        values: Iterable[Data | None] | ArrowArray | ArrowStream,
        keys: Iterable[Data | None] | ArrowArray | ArrowStream | Data | None,
        partitions: Iterable[int | None] | int | None,
        timestamps: Iterable[int | datetime | None] | int | datetime | None,
        headers: Iterable[Headers | None] | Headers | None,
    ) -> Operation: ...
    def send_arrow(self, topic: str | None, data: ArrowArray | ArrowStream) -> Operation: ...
    def flush(self, timeout: float | None) -> Operation: ...
    def close(self, timeout: float | None) -> Operation: ...
    def init_transactions(self, timeout: float | None, keep_prepared: bool) -> Operation: ...
    def begin_transaction(self, timeout: float | None) -> Operation: ...
    def is_transaction_settled(self) -> bool: ...
    def send_offsets(self, offsets: Offsets, group: str | GroupMetadata, timeout: float | None) -> Operation: ...
    def commit_transaction(self, timeout: float | None) -> Operation: ...
    def abort_transaction(self, timeout: float | None) -> Operation: ...
    def prepare_transaction(self, timeout: float | None) -> Operation: ...
    def complete_transaction(self, producer_id: int, epoch: int, commit: bool, timeout: float | None) -> Operation: ...
    def partitions_for(self, topic: str, timeout: float | None) -> Operation: ...
    def metrics(self, *, even_closed: bool = False) -> Metrics: ...
    def register_metric(self, metric: AppMetric, /) -> None: ...
    def unregister_metric(self, metric: AppMetric, /) -> None: ...
    def client_instance_id(self, timeout: float | None) -> Operation: ...
    def metrics_interval(self) -> float: ...
    def interrupt_timeout(self) -> float: ...
    def check(self) -> None: ...

@disjoint_base
class SyncProducer:
    """The compiled half of `ottla.Producer`: what is called for each record."""
    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[ProducerProperties],
    ) -> None: ...
    @property
    def _core(self) -> ProducerCore: ...
    def send(
        self,
        topic: str,
        value: Data | None = None,
        *,
        key: Data | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: Headers | None = None,
    ) -> Delivery:
        """Put a record into its batch and return at once.

        It waits only while the buffer is full, or the topic or the partition is not known yet, up to `max.block.ms`.

        Args:
            topic: The topic's name.
            value: bytes, a bytes-like object, or a str, which is sent as UTF-8; None is a tombstone.
            key: As `value`. Records with the same key go to the same partition; unless `partitioner` is set, the one
                that Java's client chooses.
            partition: The partition's number; without it, the key or the partitioner chooses.
            timestamp: Milliseconds since 1970 UTC, or a datetime with a time zone; without it, the current time.
            headers: Pairs of a str and a value, or a dict of them.

        Returns:
            The record's delivery, a handle to its outcome.

        Raises:
            TypeError: A value is of another type.
            ArgumentError: The topic's name is empty or longer than 249 characters, or the timestamp is negative or a
                datetime without a time zone.
            TooLargeError: The record is larger than `max.request.size`.
            ClosedError: The producer is closed.
            KafkaError: The buffer stayed full or the topic unknown until the time was up; the cause names the reason.
        """

@final
class Records:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...

@final
class Batches:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...

@final
class AssignorQuestion:
    """A member's call of its assignors. Without a result the member tries again after a pause."""
    @property
    def subscribes(self) -> list[str]:
        """The names of the assignors whose `subscription_user_data` is called."""
    @property
    def assigns(self) -> str | None:
        """The name of the assignor whose `assign` is called."""
    @property
    def topics(self) -> dict[str, int]:
        """The topics, with their numbers of partitions; 0 for a call of `subscription_user_data`."""
    @property
    def members(
        self,
    ) -> list[tuple[str, str | None, list[str], list[TopicPartition], int, str | None, bytes | None]]:
        """What a `GroupMember` is made of, for each member."""
    def answer_subscription(self, user_data: list[bytes | None]) -> None:
        """Pass on the user data that the member sends to each assignor."""
    def answer_assignment(self, assigned: Mapping[str, Iterable[Partition]]) -> None:
        """Pass on the partitions of each member."""
    def fail(self, text: str) -> None:
        """Report why there is no result."""

@final
class Run:
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...
    def is_full(self) -> bool: ...

@final
class ConsumerCore:
    def __new__(
        cls,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[ConsumerProperties],
    ) -> Self: ...
    def poll_briefly(self) -> None: ...
    def assign(self, partitions: Iterable[Partition]) -> None: ...
    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        on_assign: Callable[[list[TopicPartition]], object] | None,
        on_revoke: Callable[[list[TopicPartition]], object] | None,
        on_lost: Callable[[list[TopicPartition]], object] | None,
    ) -> None: ...
    def unsubscribe(self, timeout: float | None) -> Operation: ...
    def leave(self, timeout: float | None, commit: Literal["returned", "earlier", "nothing"]) -> Operation: ...
    def is_telling(self) -> bool: ...
    def take_question(self) -> tuple[AssignorQuestion, dict[str, Assignor]] | None: ...
    def assignor_timeout(self) -> float: ...
    def take_rebalance(self) -> tuple[Callable[[list[TopicPartition]], object], list[TopicPartition]] | None: ...
    def told_rebalance(self) -> None: ...
    def commit(self, offsets: Offsets | None, timeout: float | None) -> Operation: ...
    def commit_later(self, offsets: Offsets | None) -> None: ...
    def committed(self, partitions: Iterable[Partition], timeout: float | None) -> Operation: ...
    def with_epochs(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]: ...
    def group_metadata(self) -> GroupMetadata | None: ...
    def member_id(self) -> str | None: ...
    def api_timeout(self) -> float: ...
    def listener_timeout(self) -> float: ...
    def assignment(self) -> list[TopicPartition]: ...
    def paused(self) -> list[TopicPartition]: ...
    def seek(self, partition: Partition, offset: int | OffsetAndMetadata | None) -> None: ...
    def seek_to(self, partitions: Iterable[Partition] | None, *, end: bool) -> None: ...
    def pause(self, partitions: Iterable[Partition]) -> None: ...
    def resume(self, partitions: Iterable[Partition]) -> None: ...
    def poll(self, timeout: float | None, max_records: int | None) -> Operation: ...
    def run(self, most: int) -> Run: ...
    def poll_to_iterate(self, timeout: float | None) -> Operation: ...
    def position(self, partition: Partition, timeout: float | None) -> Operation: ...
    def beginning_offsets(self, partitions: Iterable[Partition], timeout: float | None) -> Operation: ...
    def end_offsets(self, partitions: Iterable[Partition], timeout: float | None) -> Operation: ...
    def offsets_for_times(
        self,
        timestamps: Mapping[TopicPartition, int | datetime] | Mapping[tuple[str, int], int | datetime],
        timeout: float | None,
    ) -> Operation: ...
    def partitions_for(self, topic: str, timeout: float | None) -> Operation: ...
    def lag(self, timeout: float | None) -> Operation: ...
    def close(self, timeout: float | None) -> Operation: ...
    def metrics(self, *, even_closed: bool = False) -> Metrics: ...
    def register_metric(self, metric: AppMetric, /) -> None: ...
    def unregister_metric(self, metric: AppMetric, /) -> None: ...
    def client_instance_id(self, timeout: float | None) -> Operation: ...
    def metrics_interval(self) -> float: ...
    def interrupt_timeout(self) -> float: ...
    def check(self) -> None: ...

@disjoint_base
class SyncConsumer:
    """The compiled half of `ottla.Consumer`: what is called for each batch, and iteration."""
    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        on_metrics: Callable[[Metrics], object] | None = None,
        **properties: Unpack[ConsumerProperties],
    ) -> None: ...
    @property
    def _core(self) -> ConsumerCore: ...
    def poll(self, timeout: float | None = 1.0, *, max_records: int | None = None) -> Batch:
        """Wait for records, and return as soon as there is one.

        Args:
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.
            max_records: The most records to return; without it, `max.poll.records`.

        Returns:
            The records, as columns; an empty batch if there were none. During an outage it is empty, too.

        Raises:
            UnreachableError: No broker of the cluster was ever reached, and each address failed or timed out.
            AuthenticationError: A broker does not accept the client: the leader of a partition, if not all of them.
            AuthorizationError: The client may not read a topic, or not join the group.
            FencedError: Another member of the group has the same `group.instance.id`.
            OffsetOutOfRangeError: A position is not in the log, and `auto.offset.reset` is `none`; a
                `LogTruncatedError` if records were read there that are lost.
            NotFoundError: A topic does not exist.
            CorruptRecordError: Records do not decode. The records before them were returned first. The partition stays
                there until a seek to the error's `next_offset`; other partitions are read on. It is raised again when
                no other partition has records in time.
            ClosedError: The consumer is closed.
        """
    def _tell(self) -> None: ...
    def batches(self) -> Iterator[Batch]:
        """Iterate over batches without end; none of them is empty.

        It waits while there are no records.

        Yields:
            Batches of at least one record and at most `max.poll.records`.

        Raises:
            KafkaError: As `poll` raises it; the next loop continues.
        """
    def __iter__(self) -> Iterator[Record]: ...

@final
class ShareConsumerCore:
    def __new__(
        cls,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[ShareConsumerProperties],
    ) -> Self: ...
    def poll_briefly(self) -> None: ...
    def keep_batches(self) -> None: ...
    def subscribe(self, topics: str | Iterable[str]) -> None: ...
    def subscription(self) -> list[str]: ...
    def assignment(self) -> list[TopicPartition]: ...
    def lock_timeout(self) -> float | None: ...
    def unsubscribe(self, timeout: float | None) -> Operation: ...
    def poll(self, timeout: float | None, max_records: int | None) -> Operation: ...
    def next_record(self) -> Record | None: ...
    def poll_to_iterate(self) -> Operation: ...
    def acknowledge(self, records: Batch | Record, kind: AcknowledgeKind, rows: Rows | None) -> None: ...
    def commit(self, timeout: float | None) -> Operation: ...
    def commit_later(self) -> None: ...
    def keep_outcomes(self, keep: bool) -> None: ...
    def take_outcomes(self) -> list[Acknowledgement]: ...
    def close(self, timeout: float | None) -> Operation: ...
    def metrics(self, *, even_closed: bool = False) -> Metrics: ...
    def register_metric(self, metric: AppMetric, /) -> None: ...
    def unregister_metric(self, metric: AppMetric, /) -> None: ...
    def client_instance_id(self, timeout: float | None) -> Operation: ...
    def metrics_interval(self) -> float: ...
    def interrupt_timeout(self) -> float: ...
    def check(self) -> None: ...

@final
class AdminCore:
    def __new__(
        cls,
        bootstrap_servers: Servers | Mapping[str, ConfigValue] | None = None,
        *,
        config: Mapping[str, ConfigValue] | None = None,
        **properties: Unpack[AdminProperties],
    ) -> Self: ...
    def call(self, name: str, timeout: float | None, /, **arguments: object) -> Operation: ...
    def close(self, timeout: float | None) -> Operation: ...
    def metrics(self, *, even_closed: bool = False) -> Metrics: ...
    def register_metric(self, metric: AppMetric, /) -> None: ...
    def unregister_metric(self, metric: AppMetric, /) -> None: ...
    def client_instance_id(self, timeout: float | None) -> Operation: ...
    def metrics_interval(self) -> float: ...
    def interrupt_timeout(self) -> float: ...
    def check(self) -> None: ...

@final
class Broker:
    def __new__(
        cls,
        *,
        nodes: int,
        as_version: str | None,
        host: str,
        port: int,
        listeners: Sequence[Mapping[str, object]],
        security: Mapping[str, object],
        data_dir: str | PathLike[str] | None,
        topics: list[tuple[str, int]],
        config: Mapping[str, ConfigValue] | None,
        print_events: bool,
    ) -> Self: ...
    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def listeners(self) -> list[tuple[str, str, str, list[str], str]]: ...
    def fail(self, api: str, count: int, node: int | None, error: str, applied: bool, after: float) -> None: ...
    def delay(self, api: str, count: int, node: int | None, seconds: float) -> None: ...
    def disconnect(self, api: str, count: int, node: int | None, when: str) -> None: ...
    def ignore(self, api: str, count: int, node: int | None, applied: bool) -> None: ...
    def hang(self, api: str, count: int, node: int | None) -> None: ...
    def cut(self, api: str, count: int, node: int | None, after: int) -> None: ...
    def trickle(self, api: str, count: int, node: int | None) -> None: ...
    def throttle(self, api: str, count: int, node: int | None, seconds: float) -> None: ...
    def answer_twice(self, api: str, count: int, node: int | None) -> None: ...
    def answer_another(self, api: str, count: int, node: int | None) -> None: ...
    def withhold(self, api: str, count: int, node: int | None) -> None: ...
    def clear_faults(self) -> None: ...
    def telemetry(self) -> list[tuple[str | None, bytes, bool, str, bytes]]: ...
    @property
    def nodes_up(self) -> list[int]: ...
    @property
    def controller(self) -> int: ...
    def stop_node(self, node: int, how: str) -> None: ...
    def start_node(self, node: int) -> None: ...
    def partition(self, topic: str, partition: int) -> tuple[int, int, list[int], list[int]] | None: ...
    def coordinator(self, group: str) -> int | None: ...
    def move_leader(self, topic: str, partition: int, to: int, unclean: bool) -> None: ...
    def move_coordinator(self, group: str, to: int) -> None: ...
    def move_controller(self, to: int) -> None: ...
    def set_following(self, node: int, follows: bool) -> None: ...
    def set_hearing(self, node: int, hears: bool) -> None: ...
    def set_logins(self, node: int, accepted: bool) -> None: ...
    def set_release(self, node: int | None, release: str) -> None: ...
    def move_clock(self, node: int | None, seconds: float) -> None: ...
    def create_partitions(self, topic: str, total: int) -> None: ...
    def delete_records(self, topic: str, partition: int, before: int) -> int: ...
    def stop(self) -> None: ...

@final
class CertificateAuthority:
    def __new__(cls, name: str, not_before: int, not_after: int) -> Self: ...
    @property
    def certificate(self) -> str: ...
    def server(self, hosts: list[str], not_before: int, not_after: int) -> tuple[str, str]: ...
    def client(self, name: str, not_before: int, not_after: int) -> tuple[str, str]: ...
