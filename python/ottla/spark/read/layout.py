"""From records to the columns that a read has: what tasks do with each batch.

A layout is made on the driver (`ottla.spark.read.schema`) and travels to executors by pickle. Decoders, and the
schemas that they got from a registry, stay in a worker's process for later tasks.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla import BadRecord, Batch, Decoder, Record, RegisteredSchema, SchemaRegistry
from ottla._registry import subject_of
from ottla.spark.read import avro_nulls
from ottla.spark.shared.formats import SIDES, FormatName, Registry, SideName

# Decoders that a process keeps: as many as queries are likely to share a worker.
DECODERS = 32


@dataclass(frozen=True)
class Side:
    """How keys or values are decoded. Equal ones share a decoder.

    Attributes:
        name: Which of the two.
        format: The format.
        schema: As `ottla.Decoder` takes it.
        options: More arguments of `ottla.Decoder`, by name.
        registry: Where the schemas are that records name.
        corrupt: A name for the bytes of bad ones, which no field has.
    """

    name: SideName
    format: FormatName
    schema: Any
    options: tuple[tuple[str, Any], ...]
    registry: Registry | None
    corrupt: str

    def decoder(self) -> Decoder:
        """The decoder of this process.

        Raises:
            ValueError: The schema or an option can never work.
        """
        return _decoder(self)

    @property
    def written_with(self) -> str | None:
        """The text of the Avro schema that all values are written with, if there is one."""
        known = dict(self.options).get("writer_schema") or self.schema
        text = known.text if isinstance(known, RegisteredSchema) else known
        return text if isinstance(text, str) else None

    def may_be_null(self) -> bool:
        """Whether a value that is there may be null as a whole."""
        if self.format != "avro":
            return False
        return self.registry is not None or avro_nulls.null_of(self.written_with or "") is not None

    def is_null(self, record: Record) -> bool:
        """Whether the value of a record is there, and is null as a whole."""
        if self.registry is None:
            return avro_nulls.is_null(record, self.name, self.written_with)
        subject = dict(self.options).get("subject") or subject_of(record.topic, self.name, self.schema)
        schemas = partial(_client(self.registry).schema, subject=subject)
        return avro_nulls.is_null(record, self.name, self.written_with, schemas)


@lru_cache(maxsize=DECODERS)
def _decoder(side: Side) -> Decoder:
    registry = None if side.registry is None else _client(side.registry)
    return Decoder(side.schema, side.format, column=side.name, registry=registry, **dict(side.options))


@lru_cache(maxsize=DECODERS)
def _client(registry: Registry) -> SchemaRegistry:
    return registry.client()


class Source(NamedTuple):
    """Where a column comes from.

    Attributes:
        side: The place of a side; None for a column of the records.
        field: A decoded column, or one of the records; None for all of a side's as one column.
    """

    side: int | None
    field: str | None


class Bad(NamedTuple):
    """A key or value that does not decode."""

    side: SideName
    record: BadRecord


@dataclass(frozen=True)
class Layout:
    """The columns of a read.

    Attributes:
        schema: Spark's Arrow form of them; a batch of any other form is refused.
        sources: Where each comes from.
        sides: What is decoded.
        drop: Whether rows with a bad key or value are left out.
        names_bad: Whether the bad records are reported.
    """

    schema: pa.Schema
    sources: tuple[Source, ...]
    sides: tuple[Side, ...] = ()
    drop: bool = False
    names_bad: bool = False

    @property
    def of_records(self) -> frozenset[str]:
        """The columns that are the records' own."""
        named = zip(self.schema.names, self.sources, strict=True)
        return frozenset(name for name, source in named if source.side is None)

    def _records(self, batch: Batch) -> list[pa.RecordBatch]:
        """The columns of records that rows are made of, among them those that are decoded.

        Where no row has a key or value as it came, they stay where they were received: nothing is copied that is
        decoded anyway.
        """
        shown = self.of_records
        decoded = {side.name for side in self.sides}
        table = batch.to_arrow(sorted(shown | decoded), view=shown.isdisjoint(SIDES))
        records: list[pa.RecordBatch] = table.to_batches()
        return records

    def decode(self, batch: Batch) -> tuple[list[pa.RecordBatch], list[Bad]]:
        """The rows of a batch, and what of it does not decode, in order, if `names_bad`."""
        bad: list[Bad] = []
        chunks = [self._records(batch)]
        for number, side in enumerate(self.sides):
            decoded = side.decoder().decode(batch, mode="permissive", corrupt_column=side.corrupt)
            parts, unfit, first = [], [], 0
            for records, part in zip(chunks[0], decoded.to_arrow().to_batches(), strict=True):
                fitted, found = self._fit(number, records, part)
                parts.append(fitted)
                unfit += [one._replace(row=first + one.row) for one in found]
                first += part.num_rows
            chunks.append(parts)
            if self.names_bad:
                # One record an object: they cost more than all else if a topic is of another format.
                bad += [Bad(side.name, one) for one in decoded.bad]
                bad += [Bad(side.name, _named(batch, side.name, one)) for one in unfit]
        rows, first = [], 0
        for records, *parts in zip(*chunks, strict=True):
            rows.append(self._rows(batch, first, records, parts))
            first += records.num_rows
        return [made for made in rows if made.num_rows], sorted(bad, key=lambda one: one.record.row)

    def _fit(self, number: int, records: pa.RecordBatch, part: pa.RecordBatch) -> tuple[pa.RecordBatch, list["_Unfit"]]:
        """What is decoded of a side in Spark's types; rows that do not fit in them are bad ones."""
        side, types = self.sides[number], dict(self._types(number))
        with suppress(pa.ArrowInvalid):
            return _cast_all(part, types), []
        found: dict[int, _Unfit] = {}
        for name, kind in types.items():
            for one in _unfit(part.column(name), name, kind):
                found.setdefault(one.row, one)
        rows = pa.array([row in found for row in range(part.num_rows)])
        values = records.column(side.name)
        unfit = pa.array([values[row].as_py() if row in found else None for row in range(part.num_rows)], pa.binary())
        corrupt = pc.coalesce(unfit, part.column(side.corrupt))
        # What is taken from no row is null.
        part = part.take(pc.if_else(rows, pa.scalar(None, pa.int64()), pa.array(range(part.num_rows), pa.int64())))
        part = part.set_column(part.schema.get_field_index(side.corrupt), side.corrupt, corrupt)
        return _cast_all(part, types), list(found.values())

    def _types(self, number: int) -> Iterator[tuple[str, pa.DataType]]:
        """The columns of a side that the frame has, with Spark's types."""
        for source, field in zip(self.sources, self.schema, strict=True):
            if source.side == number and source.field is None and pa.types.is_struct(field.type):
                yield from ((inner.name, inner.type) for inner in field.type)
            elif source.side == number:
                yield source.field or self.sides[number].name, field.type

    def _rows(self, batch: Batch, first: int, records: pa.RecordBatch, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
        masks_of_all = (part.column(side.corrupt).is_valid() for side, part in zip(self.sides, parts, strict=True))
        bad = [rows if rows.true_count else None for rows in masks_of_all]
        arrays = []
        for source, field in zip(self.sources, self.schema, strict=True):
            if source.side is None:
                arrays.append(_cast(records.column(source.field), field.type))
                continue
            part, side = parts[source.side], self.sides[source.side]
            if source.field is None and pa.types.is_struct(field.type):
                absent = _or(records.column(side.name).is_null(), bad[source.side])
                if side.may_be_null():
                    absent = _or(absent, _null_rows(batch, first, side, part, absent))
                arrays.append(_struct(part, field.type, absent))
            else:
                arrays.append(part.column(source.field or side.name))
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if self.drop and (masks := [rows for rows in bad if rows is not None]):
            made = made.filter(pc.invert(reduce(pc.or_, masks)))
        return made


class _Unfit(NamedTuple):
    """A row of a decoded column that Spark's type does not hold."""

    row: int
    column: str
    reason: str


def _unfit(array: pa.Array, column: str, kind: pa.DataType, first: int = 0) -> Iterator[_Unfit]:
    """The rows that do not become this type, such as milliseconds that are too many in microseconds."""
    if array.type == kind:
        return
    try:
        _cast(array, kind)
    except pa.ArrowInvalid as error:
        if len(array) == 1:
            yield _Unfit(first, column, str(error))
            return
        # Taken, since of a slice with lists all values are cast, those of other rows too.
        half = len(array) // 2
        yield from _unfit(array.take(pa.array(range(half), pa.int64())), column, kind, first)
        yield from _unfit(array.take(pa.array(range(half, len(array)), pa.int64())), column, kind, first + half)


def _named(batch: Batch, side: SideName, unfit: _Unfit) -> BadRecord:
    record = batch[unfit.row]
    value = record.key if side == "key" else record.value
    return BadRecord(unfit.row, record.topic, record.partition, record.offset, unfit.column, unfit.reason, value)


def _null_rows(
    batch: Batch, first: int, side: Side, part: pa.RecordBatch, absent: pa.BooleanArray
) -> pa.BooleanArray | None:
    """The rows whose value is there and is null as a whole; None if there are none."""
    empty = pc.invert(absent)
    for name in part.schema.names:
        if name != side.corrupt:
            empty = pc.and_(empty, part.column(name).is_null())
            if not empty.true_count:
                return None
    # Only of these rows, of which a topic has few, the bytes are looked at.
    return pa.array([one is True and side.is_null(batch[first + row]) for row, one in enumerate(empty.to_pylist())])


def _cast_all(part: pa.RecordBatch, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """The columns in these types; other columns as they are."""
    arrays = [_cast(part.column(field.name), types.get(field.name, field.type)) for field in part.schema]
    return pa.RecordBatch.from_arrays(arrays, names=part.schema.names)


def _or(mask: pa.BooleanArray, other: pa.BooleanArray | None) -> pa.BooleanArray:
    return mask if other is None else pc.or_(mask, other)


def _struct(part: pa.RecordBatch, kind: pa.StructType, absent: pa.BooleanArray) -> pa.StructArray:
    """The fields as one column, which is null where there is no value or a bad one."""
    fields = [kind.field(place) for place in range(kind.num_fields)]
    arrays = [part.column(field.name) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent if absent.true_count else None)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if _has_nanoseconds(array.type):
        array = _in_microseconds(array)
    # A time of day of nanoseconds is cut off.
    return pc.cast(array, options=pc.CastOptions(target_type=kind, allow_time_truncate=True))


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(place).type) for place in range(kind.num_fields))


def _in_microseconds(array: pa.Array) -> pa.Array:
    """The same with microseconds in place of nanoseconds, rounded down: a cast rounds to 1970, as Spark never does."""
    kind = array.type
    if not _has_nanoseconds(kind):
        return array
    if pa.types.is_timestamp(kind):
        numbers = array.cast(pa.int64())
        towards_1970 = pc.divide(numbers, 1000)
        is_later = pc.greater(pc.multiply(towards_1970, 1000), numbers)
        return pc.subtract(towards_1970, is_later.cast(pa.int64())).cast(pa.timestamp("us", kind.tz))
    if array.offset:
        # What follows knows only whole columns.
        array = array.take(pa.array(range(len(array)), pa.int64()))
    if pa.types.is_struct(kind):
        arrays = [_in_microseconds(array.field(place)) for place in range(kind.num_fields)]
        fields = [kind.field(place).with_type(inner.type) for place, inner in enumerate(arrays)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())
    # A list that is null has no offset.
    absent = pa.concat_arrays([array.is_null(), pa.array([False])])
    offsets = pc.if_else(absent, pa.scalar(None, array.offsets.type), array.offsets)
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, array.keys, _in_microseconds(array.items))
    return type(array).from_arrays(offsets, _in_microseconds(array.values))
