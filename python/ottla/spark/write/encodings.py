"""The encoding of rows to keys and values, from the options of a write: decided in the driver, done in the tasks.

Only the driver calls the registry. The tasks get the schemas as plain, pickled data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ottla import Encoder
from ottla._encoding import ResolvedSchema
from ottla.errors import ArgumentError, EncodeError
from ottla.spark.shared.arrow_types import to_arrow
from ottla.spark.shared.formats import CONNECTION, REGISTRY, SIDES, Format, of_side, of_sides
from ottla.spark.shared.option_values import boolean

if TYPE_CHECKING:
    from ottla.spark.shared.formats import SideName

# Formats that are made here; the others are bytes or text, which a record takes as they are.
FORMATS = ("json", "avro", "protobuf")
AS_THEY_ARE = ("string", "raw")
AUTO_REGISTER = "auto.register.schemas"

KNOWN = (
    *of_sides(of_registry=(AUTO_REGISTER,)),
    *(REGISTRY + name for name in (*CONNECTION, AUTO_REGISTER)),
)

# Bytes or characters of a key that an error shows.
KEY_SHOWN = 100

# Columns that are never fields of a value: those of a record.
OF_RECORDS = ("key", "headers", "topic", "partition")
# The brokers' or clients' own, as in Spark's Kafka sink.
LOST = "timestamp"


@dataclass(frozen=True)
class Encoded:
    """A key or value that is made of columns.

    Attributes:
        side: Which of the two.
        schema: What is written.
        place: The column of structs that is written; None where the fields are columns of the rows.
        fields: Name, place and type of each column that is a field.
    """

    side: "SideName"
    schema: ResolvedSchema
    place: int | None
    fields: tuple[tuple[str, int, pa.DataType], ...]

    def of_batch(self, batch: "pa.RecordBatch", encoder: Callable[[Any], Any]) -> "pa.Array":
        """The column of bytes of some rows, by the encoder of the schema.

        Raises:
            EncodeError: A row does not fit the schema.
        """
        return pa.array(encoder(self._rows(batch)))

    def _rows(self, batch: "pa.RecordBatch") -> "pa.RecordBatch | pa.Array":
        if self.place is not None:
            return batch.column(self.place)
        arrays = [batch.column(place) for _, place, _ in self.fields]
        if not arrays:
            return pa.array([{}] * batch.num_rows, pa.struct([]))
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in self.fields])

    def of_objects(self, rows: list[Any]) -> "pa.Array":
        """The columns, of rows as Spark has them in Python, as one of structs."""
        kind = pa.struct([(name, inner) for name, _, inner in self.fields])
        if self.place is None:
            return pa.array(
                [{name: _plain(row[place], inner) for name, place, inner in self.fields} for row in rows], kind
            )
        return pa.array([_plain(row[self.place], kind) for row in rows], kind)

    def at(self, place: int) -> "Encoded":
        """The same of a column of structs at this place."""
        return replace(self, place=place)


def _plain(value: Any, kind: "pa.DataType") -> Any:
    """A value as Arrow takes it: rows and maps with their names, and times of the session as those of UTC."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain(inner, field.type) for field, inner in zip(kind, value, strict=True)}
    if pa.types.is_map(kind):
        return [(_plain(key, kind.key_type), _plain(inner, kind.item_type)) for key, inner in value.items()]
    if pa.types.is_list(kind):
        return [_plain(inner, kind.value_type) for inner in value]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return value.astimezone(UTC)
    return value


def parse(given: Mapping[str, str]) -> tuple[tuple[Format, bool], ...]:
    """The sides that are encoded, each with whether its schema may be registered.

    Args:
        given: Options by their names in lower case.

    Raises:
        ValueError: One is missing, without meaning or has a bad value; the message names it.
    """
    found = []
    for side in SIDES:
        format_ = of_side(side, given, (*FORMATS, *AS_THEY_ARE))
        option = f"{side}.{REGISTRY}{AUTO_REGISTER}"
        registers = boolean(option, given, default=boolean(REGISTRY + AUTO_REGISTER, given, default=True))
        if format_.name in AS_THEY_ARE:
            if option in given:
                raise ValueError(f"option {option} is for {' and '.join(FORMATS)}: set option {side}.format")
            continue
        if format_.registry is None and format_.name == "json" and format_.schema is not None:
            raise ValueError(
                f"option {side}.schema has no meaning for json without a registry: the columns determine the JSON"
            )
        if format_.registry is None and format_.name != "json" and format_.schema is None:
            raise ValueError(
                f"option {side}.format={format_.name} needs option {side}.schema, {side}.schema.file or {REGISTRY}url"
            )
        if format_.registry is not None and format_.schema is not None and format_.registry.version is not None:
            raise ValueError(
                f"options {side}.schema and {side}.{REGISTRY}version exclude each other: the registry has the one, and "
                "is given the other"
            )
        found.append((format_, registers))
    useless = [name for name in KNOWN if name.lower() in given and not name.endswith(".format")]
    if useless and not found:
        raise ValueError(
            f"option {useless[0]} has no meaning while keys and values are bytes or text: set option value.format or "
            f"key.format to {', '.join(FORMATS)}"
        )
    return tuple(found)


def encoded(format_: Format, *, registers: bool, schema: StructType, topic: str | None) -> Encoded:
    """Decide how a side is made of columns, and request its id from the registry.

    Args:
        format_: How the side is written.
        registers: Whether its schema may be registered.
        schema: The columns of the data.
        topic: The topic of all rows, if it is known.

    Raises:
        ValueError: The columns do not fit the format and its schema.
        KafkaError: The registry did not respond, or does not have the schema.
    """
    side = format_.side
    place = schema.names.index(side) if side in schema.names else None
    if place is not None:
        of_structs = schema.fields[place].dataType
        if not isinstance(of_structs, StructType):
            raise ValueError(
                f"column {side} has type {of_structs.simpleString()}, and option {side}.format={format_.name} writes a "
                f"struct: make one, such as struct({side}) AS {side}"
            )
        names = of_structs
    elif side == "key":
        raise ValueError(f"column key is missing, and option key.format={format_.name} writes a struct of that name")
    elif LOST in schema.names:
        raise ValueError(
            f"column {LOST} is that of a record, which this sink does not set: its values would be lost. To write it "
            "as a field, make the column value a struct of the fields; else drop it"
        )
    else:
        names = StructType([column for column in schema if column.name not in OF_RECORDS])
    arrow = to_arrow(names)
    places = [0] * len(names) if place is not None else [schema.names.index(name) for name in names.names]
    fields = tuple((field.name, at, field.type) for field, at in zip(arrow, places, strict=True))

    def check(encoder: Callable[[Any], Any]) -> None:
        try:
            encoder(pa.array([], pa.struct(arrow)))
        except ArgumentError as error:
            raise ValueError(f"option {side}.format={format_.name}: {error}") from None

    # Rows that cannot fit the schema raise an error before any task runs.
    return Encoded(side, _resolved(format_, registers, topic, check), place, fields)


def _resolved(
    format_: Format, registers: bool, topic: str | None, check: Callable[[Callable[[Any], Any]], None]
) -> ResolvedSchema:
    side, registry = format_.side, format_.registry
    schema: Any = format_.schema
    client = None if registry is None else registry.client()
    subject = None if registry is None else registry.subject
    if client is not None and subject is None:
        if topic is None:
            raise ValueError(
                f"rows name their topics, so the subject of their schema is unknown: set option "
                f"{side}.{REGISTRY}subject"
            )
        subject = f"{topic}-{side}"
    if client is not None and registry is not None and registry.version is not None and subject is not None:
        schema = client.version(subject, registry.version)
    try:
        encoder = Encoder(
            schema,
            format_.name,  # type: ignore[arg-type] # `parse` has checked it
            column=side,
            registry=client,
            subject=subject,
            message=format_.message,
            auto_register=registers,
        )
        return encoder.resolve(topic, check)
    except ArgumentError as error:
        raise ValueError(f"option {side}.schema: {error}") from None


def failure(error: EncodeError, side: "SideName", keys: "pa.Array | None") -> EncodeError:
    """A task's error for a row that cannot be encoded: it names the row's key, where keys are text or bytes."""
    shown = None if keys is None else keys[error.row].as_py()
    which = (
        f"the row with the key {shown[:KEY_SHOWN]!r}" if shown is not None else f"row {error.row} of its record batch"
    )
    named = EncodeError(f"the {side} of {which} does not fit its schema: {error.cause}")
    named.__dict__.update(error.__dict__)
    return named
