"""Records, and the batches and message sets that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ottla import _ottla
from ottla._types import Buffer
from ottla.errors import ArgumentError, ProtocolError

DECOMPRESS_LIMIT = 256 * 2**20
"""Bytes that records may decompress to, if no other limit is given."""


class Record(NamedTuple):
    """A record as it is in a batch.

    Attributes:
        value: Its value; None is a tombstone.
        key: Its key.
        timestamp: Milliseconds since 1970; -1 for none.
        headers: Its headers, in order; names may repeat.
        offset: Its offset in the partition; None before it has one.
    """

    value: bytes | None = None
    key: bytes | None = None
    timestamp: int = -1
    headers: Sequence[tuple[str, bytes | None]] = ()
    offset: int | None = None


@dataclass(frozen=True)
class RecordBatch:
    """A record batch (magic 2), or a message of magic 0 or 1: one record, or a compressed set of them.

    Attributes:
        magic: The version of its format: 0, 1 or 2.
        base_offset: Offset of the first record, even if compaction removed that record.
        last_offset: Offset of the last record, even if compaction removed that record.
        size: Its bytes in the log.
        crc: Its checksum as written: CRC-32C for magic 2, CRC-32 before.
        compression: `"none"`, `"gzip"`, `"snappy"`, `"lz4"` or `"zstd"`.
        timestamp_type: `"create"` if producers set the timestamps, `"append"` if the broker did; None for magic 0.
        max_timestamp: The greatest timestamp of its records; -1 for none.
        leader_epoch: Epoch of the leader that appended it; -1 if not known.
        producer_id: Id of the idempotent producer; -1 for none.
        producer_epoch: Its epoch; -1 for none.
        base_sequence: Its sequence number of the first record; -1 for none.
        transactional: Whether it is part of a transaction.
        control: Whether it holds control records instead of an application's.
        records: Its records.
        position: Where it begins, in bytes from the beginning of what was decoded.
    """

    magic: int
    base_offset: int
    last_offset: int
    size: int
    crc: int
    compression: str
    timestamp_type: str | None
    max_timestamp: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    records: list[Record]
    position: int = 0


def encode_records(
    records: Iterable[Record],
    *,
    magic: int = 2,
    compression: str = "none",
    level: int | None = None,
    base_offset: int = 0,
    timestamp_type: Literal["create", "append"] = "create",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Write records as one batch (magic 2), or as a message set (magic 0 and 1): what a Produce request carries.

    ```python
    >>> from ottla.protocol import Record, decode_records, encode_records
    >>> data = encode_records([Record(b"value", key=b"key", timestamp=1_700_000_000_000)], compression="gzip")
    >>> decode_records(data)[0].records
    [Record(value=b'value', key=b'key', timestamp=1700000000000, headers=(), offset=0)]

    ```

    Args:
        records: The records, in order. One without an offset gets the one after the last; offsets must ascend.
        magic: The format: 2 since Kafka 0.11, 1 for 0.10, 0 before. Headers need 2; timestamps need 1.
        compression: `"none"`, `"gzip"`, `"snappy"`, `"lz4"`, or, with magic 2, `"zstd"`.
        level: The codec's level; None is Kafka's default.
        base_offset: Offset of the first record, or below it.
        timestamp_type: `"append"` marks the timestamps as the broker's; all are then the greatest.
        producer_id: Id of the idempotent producer (KIP-98).
        producer_epoch: Its epoch.
        base_sequence: Its sequence number of the first record.
        leader_epoch: Epoch of the leader that appended them (KIP-101).
        transactional: Whether they are part of a transaction.
        control: Whether they are control records.

    Returns:
        The bytes; none for no records.

    Raises:
        ArgumentError: There is no such magic, codec, level or timestamp type, a number is out of range, or the magic
            has no place for something.
        ProtocolError: A record does not fit: its type, its size, its offset, or a field that the magic does not have.
            The error names it.
    """
    if magic not in (0, 1, 2):
        raise ArgumentError(f"magic is 0, 1 or 2, and was {magic!r}")
    if timestamp_type not in ("create", "append"):
        raise ArgumentError(f'timestamp_type is "create" or "append", and was {timestamp_type!r}')
    producer = (producer_id, producer_epoch, base_sequence)
    if magic < 2 and (producer != (-1, -1, -1) or leader_epoch != -1 or transactional or control):
        raise ArgumentError(f"magic {magic} has no place for producers, epochs, transactions and control records")
    for name, value, bits in (
        ("base_offset", base_offset, 64),
        ("producer_id", producer_id, 64),
        ("producer_epoch", producer_epoch, 16),
        ("base_sequence", base_sequence, 32),
        ("leader_epoch", leader_epoch, 32),
    ):
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ArgumentError(f"{name} is an int{bits}, and was {value}")
    given = [Record(*record) for record in records]
    if magic == 0:
        _check_timeless(given, timestamp_type)
    return _ottla.encode_records(
        given,
        magic,
        compression,
        level,
        base_offset,
        timestamp_type == "append",
        producer,
        leader_epoch,
        transactional,
        control,
    )


def _check_timeless(records: list[Record], timestamp_type: str) -> None:
    """Raise for timestamps, which would be lost in magic 0."""
    if timestamp_type != "create":
        raise ArgumentError("magic 0 has no timestamps: leave out timestamp_type")
    for i, record in enumerate(records):
        if record.timestamp != -1:
            raise ProtocolError(f"records[{i}].timestamp: magic 0 has no timestamps, magic 1 and 2 have")


def decode_records(data: Buffer, *, check_crcs: bool = True, limit: int = DECOMPRESS_LIMIT) -> list[RecordBatch]:
    """Read what the field `records` of a Fetch response or a Produce request holds: batches and messages of any age.

    A last batch that is cut short is left out, since a broker returns as many bytes as a fetch requests (KIP-74).

    Args:
        data: The bytes.
        check_crcs: Whether to check the checksums.
        limit: Bytes that the compressed ones may decompress to, together.

    Returns:
        The batches, in order.

    Raises:
        ArgumentError: The limit is negative.
        CorruptRecordError: They are damaged, or decompress to more than the limit; the text names the byte.
    """
    if limit < 0:
        raise ArgumentError(f"limit is 0 or more bytes, and was {limit}")
    decoded = _ottla.decode_records(data, check_crcs, limit)
    return [build(fields, position) for fields, position in decoded]


def build(fields: _ottla.BatchFields, position: int) -> RecordBatch:
    """Make a batch from the tuples of the compiled half."""
    about, state, records = fields
    return RecordBatch(*about, *state, records=list(map(Record._make, records)), position=position)
