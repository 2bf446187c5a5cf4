"""The columns of a frame, and what has to be decoded for them: decided once, on the driver.

A typed value stands in the column `value` as a struct, next to the columns of the record, or its fields are columns of
their own (`value.flatten`). The user's schema, from `.schema(...)`, wins; else options or a registry know one.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from ottla import Decoder, RegisteredSchema
from ottla.errors import ArgumentError, NotFoundError
from ottla.spark.plan.read_options import ReadOptions, Topics
from ottla.spark.read.columns import COLUMNS, HEADERS
from ottla.spark.read.layout import Layout, Side, Source
from ottla.spark.shared.arrow_types import ddl, is_stricter, nullable, quoted, to_arrow, to_spark
from ottla.spark.shared.formats import (
    DROPMALFORMED,
    FAILFAST,
    PERMISSIVE,
    Format,
    SideName,
    Typed,
    is_ddl,
    is_sparks_json,
)
from ottla.spark.shared.sql_columns import names_in

# What a registry has, by side.
Registered = Mapping[SideName, RegisteredSchema]

KAFKA = {column.name: column.dataType for column in (*COLUMNS, HEADERS)}
# Every record has these.
NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


def look_up(options: ReadOptions) -> dict[SideName, RegisteredSchema]:
    """Request the schemas that options name from registries.

    Raises:
        ValueError: The subject has no schema, or several topics make it ambiguous.
        KafkaError: The registry cannot be reached.
    """
    sides = options.typed.sides if options.typed else ()
    return {one.side: _ask(one, options.topics) for one in sides if one.registry and one.schema is None}


def _ask(wanted: Format, topics: Topics) -> RegisteredSchema:
    option = f"{wanted.side}.schema.registry.subject"
    registry = wanted.registry
    if registry is None:
        raise ValueError(f"format {wanted.name} of {wanted.side}s has no registry")
    subject = registry.subject
    if subject is None:
        named = topics.names or tuple(sorted({topic for topic, _ in topics.assigned}))
        if len(named) != 1:
            raise ValueError(
                f"option {topics.option} does not name one topic, whose subject TOPIC-{wanted.side} would have the "
                f"schema: name the subject with option {option}"
            )
        subject = f"{named[0]}-{wanted.side}"
    client = registry.client()
    try:
        return client.latest(subject) if registry.version is None else client.version(subject, registry.version)
    except NotFoundError as error:
        raise ValueError(f"{error}. Option {option} names the subject of the schema") from None


def schema(options: ReadOptions, registered: Registered) -> StructType | str:
    """The frame's columns if the user gives none; a Spark SQL text if an option defines some of them so.

    Raises:
        ValueError: The options do not define them.
    """
    typed = options.typed
    if typed is None:
        return StructType(COLUMNS + [HEADERS] * options.include_headers)
    made: list[StructField] = []
    texts: list[str] = []

    def add(name: str, kind: DataType) -> None:
        made.append(StructField(name, kind))
        texts.append(f"{quoted(name)} {ddl(kind)}")

    has_text = False
    for name, fields in _wanted(typed, headers=options.include_headers):
        side = _side_of(typed, name)
        if side is None:
            add(name, KAFKA.get(name, BinaryType()))
        elif not side.is_structured:
            add(name, StringType())
        elif isinstance(side.schema, str) and is_ddl(side.schema):
            if fields is not None:
                raise ValueError(
                    f"option columns cannot choose fields of option {side.side}.schema in Spark's SQL: name only the "
                    "wanted ones there, and in option columns the whole"
                )
            has_text = True
            texts.append(side.schema if _is_flat(typed, name) else f"{quoted(name)} struct<{side.schema}>")
        else:
            known = _chosen(side, _known(side, registered, fields), fields)
            if _is_flat(typed, name):
                for field in known:
                    add(field.name, field.dataType)
            else:
                add(name, known)
    _refuse_doubles([field.name for field in made], typed)
    return ", ".join(texts) if has_text else StructType(made)


def layout(options: ReadOptions, given: StructType, registered: Registered) -> Layout:
    """What tasks do to make these columns.

    Args:
        options: Of the read.
        given: The columns: the user's, or what Spark made of `schema`.
        registered: The schemas that were requested from registries.

    Raises:
        ValueError: A column cannot be made.
    """
    form = to_arrow(given)
    typed = options.typed
    if typed is None:
        return Layout(form, tuple(Source(None, name) for name in given.names))
    _refuse_doubles(given.names, typed)
    places = [_place(typed, column) for column in given]
    sides = _sides(typed, given, places, registered)
    numbers = {side.name: number for number, side in enumerate(sides)}

    def source(place: Place) -> Source:
        if place.side is None:
            return Source(None, place.field)
        number = numbers[place.side]
        return Source(number, sides[number].corrupt if place.is_corrupt else place.field)

    names_bad = typed.mode == FAILFAST or typed.dead_letters is not None
    return Layout(form, tuple(map(source, places)), sides, drop=typed.mode == DROPMALFORMED, names_bad=names_bad)


class Place(NamedTuple):
    """What a column of a frame shows.

    Attributes:
        side: What is decoded for it; None for a column of the records.
        field: The field of the side, or the column of the records; None for the side as a whole.
        is_corrupt: Whether it has the bytes that do not decode.
    """

    side: SideName | None
    field: str | None
    is_corrupt: bool = False


def _place(typed: Typed, column: StructField) -> Place:
    name = column.name
    corrupt = _corrupt(typed)
    if not column.nullable and name not in NEVER_NULL:
        raise ValueError(f"column {name} is NOT NULL, and has nulls where a record has none: declare it nullable")
    if name in corrupt:
        _check_column(column, BinaryType())
        return Place(corrupt[name], name, is_corrupt=True)
    if not _is_flat(typed, name):
        if side := _side_of(typed, name):
            return Place(side.side, None)
        if name in {wanted for wanted, _ in _wanted(typed, headers=True)}:
            _check_column(column, KAFKA[name])
            return Place(None, name)
    if typed.flatten:
        return Place("value", name)
    raise ValueError(
        f"the schema has column {name}, and records have {', '.join(KAFKA)}: declare the fields of a typed value as "
        f"value struct<{name}:{column.dataType.simpleString()}>, or set option value.flatten to true"
    )


def _sides(typed: Typed, given: StructType, places: list[Place], registered: Registered) -> tuple[Side, ...]:
    """The decoding of these columns: only the requested fields."""
    made = []
    for side in typed.sides:
        whole = [column for column, place in zip(given, places, strict=True) if place == Place(side.side, None)]
        fields = [
            column
            for column, place in zip(given, places, strict=True)
            if place.side == side.side and place.field is not None and not place.is_corrupt
        ]
        if whole or fields:
            made.append(_side(side, whole[0].dataType if whole else StructType(fields), registered))
        elif any(place.side == side.side for place in places):
            raise ValueError(
                f"column {typed.corrupt_of(side.side)} has the {side.side}s that do not decode: take a column of the "
                f"{side.side}, too"
            )
    return tuple(made)


def _wanted(typed: Typed, *, headers: bool) -> list[tuple[str, list[str] | None]]:
    """The columns of records that the options want, and the fields of each; None for all."""
    corrupt = list(_corrupt(typed))
    if typed.columns is None:
        names = [column.name for column in COLUMNS] + [HEADERS.name] * headers + corrupt
        return [(name, None) for name in names]
    found: dict[str, list[str] | None] = {}
    for entry in typed.columns:
        name, _, field = (entry, "", "") if entry in corrupt else entry.partition(".")
        side = _side_of(typed, name)
        if (name not in KAFKA and name not in corrupt) or (field and not (side and side.is_structured)):
            raise ValueError(
                f"option columns names {entry}, and there are {', '.join([*KAFKA, *corrupt])}, and fields of typed "
                "values as value.NAME"
            )
        fields = found.setdefault(name, [] if field else None)
        if (fields is None) != (not field):
            raise ValueError(f"option columns names {name} as a whole and fields of it: leave one of them")
        if fields is not None:
            fields.append(field)
    return list(found.items())


def _corrupt(typed: Typed) -> dict[str, SideName]:
    """The columns with bad keys and values."""
    if typed.mode != PERMISSIVE:
        return {}
    return {typed.corrupt_of(one.side): one.side for one in reversed(typed.sides) if one.name != "raw"}


def _side_of(typed: Typed, name: str) -> Format | None:
    """The format of a column that is decoded."""
    return next((one for one in typed.sides if one.side == name and one.name != "raw"), None)


def _is_flat(typed: Typed, name: str) -> bool:
    """Whether there is no such column, but its fields in its place."""
    return typed.flatten and name == "value"


def _known(side: Format, registered: Registered, wanted: list[str] | None = None) -> StructType:
    """The fields that the options or a registry know."""
    found = _natural(side, registered, wanted)
    if found is None:
        ways = {
            "protobuf": "option value.schema.file with descriptors, option value.schema with the same in base64",
            "csv": ".schema(...), option value.schema",
        }
        way = ways.get(side.name, ".schema(...), option value.schema").replace("value.", f"{side.side}.")
        registry = "" if side.name == "csv" else ", or a registry (option schema.registry.url)"
        raise ValueError(
            f"option {side.side}.format is {side.name}, which does not contain its fields: give {way}{registry}"
        )
    return found


def _natural(side: Format, registered: Registered, wanted: list[str] | None = None) -> StructType | None:
    """The fields of the schema of the format itself, or of a Spark JSON schema; None without such a schema.

    If one of the fields has no type in Spark, these are the wanted ones alone.
    """
    text = side.schema
    if isinstance(text, str) and is_sparks_json(text):
        try:
            return StructType.fromJson(json.loads(text))
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"option {side.side}.schema is not the JSON of a schema of Spark: {error!r}") from None
    own = _own(side, registered)
    if own is None:
        return None

    def of(select: list[str] | None) -> StructType:
        return to_spark(pa.schema(Decoder(own, side.name, column=side.side, message=side.message, select=select)))

    try:
        return of(None)
    except ArgumentError as error:
        if wanted:
            with suppress(ArgumentError):
                return of(wanted)
        raise ValueError(f"{_origin(side)}: {error}") from None


def _own(side: Format, registered: Registered) -> RegisteredSchema | str | bytes | None:
    """The schema in the format's own language."""
    if side.schema is None:
        return registered.get(side.side)
    return None if is_ddl(side.schema) or is_sparks_json(side.schema) else side.schema


def _origin(side: Format) -> str:
    return f"option {side.side}.schema" if side.schema is not None else f"the schema of option {side.side}.format"


def _chosen(side: Format, known: StructType, fields: list[str] | None) -> StructType:
    if fields is None:
        return known
    by_name = {field.name: field for field in known}
    if missing := [name for name in fields if name not in by_name]:
        raise ValueError(
            f"option columns names {side.side}.{missing[0]}, and the fields of the {side.side} are "
            f"{', '.join(known.names)}"
        )
    return StructType([by_name[name] for name in fields])


def _side(side: Format, wanted: DataType, registered: Registered) -> Side:
    """How the fields of a frame are decoded."""
    if not side.is_structured:
        _check_column(StructField(side.side, wanted), StringType())
        made = Side(side.side, side.name, None, (), None, "_corrupt")
    elif isinstance(wanted, StructType):
        made = _structured(side, wanted, registered)
    else:
        raise ValueError(
            f"column {side.side} has type {wanted.simpleString()}, and option {side.side}.format={side.name} makes a "
            "struct, such as struct<item:string>"
        )
    try:
        made.decoder()
    except ArgumentError as error:
        raise ValueError(f"{_origin(side)}: {error}") from None
    return made


def _structured(side: Format, wanted: StructType, registered: Registered) -> Side:
    natural, own = _natural(side, registered, wanted.names), _own(side, registered)
    options: dict[str, object] = {} if side.name == "csv" else {"framed": side.has_ids}
    schema: object = to_arrow(wanted)
    different = None if natural is None else _different(wanted, natural)
    if side.name == "csv":
        options["delimiter"] = side.delimiter
        if natural is not None:
            # Fields are known by their places in the whole.
            _refuse_other_type(side, different)
            schema, options["select"] = to_arrow(_in_its_place(wanted, natural)), tuple(wanted.names)
        else:
            _refuse_other_places(side, wanted)
    elif side.name == "protobuf":
        if own is None:
            _known(side, registered, wanted.names)
        # Arrays and maps of Protobuf hold no nulls.
        _refuse_other_type(side, different or _stricter(wanted, natural, in_arrays=False))
        schema, options["message"], options["select"] = own, side.message, tuple(wanted.names)
    elif side.name == "avro":
        if own is not None and different is None and _stricter(wanted, natural, in_arrays=True) is None:
            # The schema's own defaults stand in for what a writer did not have.
            schema, options["select"] = own, tuple(wanted.names)
        elif isinstance(own, str):
            options["writer_schema"] = own
    registry = side.registry if side.has_ids and side.name in ("avro", "protobuf") else None
    if registry is not None and registry.subject is not None:
        options["subject"] = registry.subject
    corrupt = "_corrupt"
    while corrupt in wanted.names:
        corrupt += "_"
    return Side(side.side, side.name, schema, tuple(sorted(options.items())), registry, corrupt)


def _different(wanted: StructType, natural: StructType) -> str | None:
    """The first field that the schema does not have, or has with another type."""
    known = {field.name: nullable(field.dataType) for field in natural}
    for field in wanted:
        if field.name not in known:
            return f"has no field {field.name}; its fields are {', '.join(known)}"
        if known[field.name] != nullable(field.dataType):
            return (
                f"has field {field.name} as {known[field.name].simpleString()}, and the frame's schema as "
                f"{field.dataType.simpleString()}"
            )
    return None


def _stricter(wanted: StructType, natural: StructType | None, *, in_arrays: bool) -> str | None:
    """The first field that must not be null, at any depth, although the schema does not guarantee it."""
    known = {} if natural is None else {field.name: field for field in natural}
    for field in wanted:
        if field.name in known and is_stricter(field, known[field.name], in_arrays=in_arrays):
            return (
                f"allows null for {field.name}, but the frame's schema has it, or something in it, as "
                "NOT NULL: leave that out, and filter afterwards"
            )
    return None


def _in_its_place(wanted: StructType, natural: StructType) -> StructType:
    """The whole with the nulls that both allow."""
    optional = {field.name: field.nullable for field in wanted}
    return StructType(
        [StructField(one.name, one.dataType, one.nullable and optional.get(one.name, True)) for one in natural]
    )


def _refuse_other_places(side: Format, wanted: StructType) -> None:
    """Fields of CSV are known by their places, and those are in a text that Spark has not read with `.schema(...)`."""
    if not isinstance(side.schema, str):
        return
    names = names_in(side.schema)
    if names != wanted.names:
        raise ValueError(
            f"option {side.side}.schema has the fields {', '.join(names)}, and .schema(...) has "
            f"{', '.join(wanted.names)}: fields of CSV are known by their places, which must be the same in both. "
            f"Leave out one of them, or give option {side.side}.schema as StructType.json(): .schema(...) may then "
            "name some of its fields"
        )


def _refuse_other_type(side: Format, different: str | None) -> None:
    if different is not None:
        raise ValueError(f"{_origin(side)} {different}")


def _check_column(column: StructField, kind: DataType) -> None:
    if nullable(column.dataType) != nullable(kind):
        raise ValueError(
            f"column {column.name} has type {column.dataType.simpleString()} in the schema, and is "
            f"{kind.simpleString()}"
        )


def _refuse_doubles(names: list[str], typed: Typed) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name or names.count(name) > 1:
            hint = (
                ": option columns names those that are wanted, or value.flatten=false leaves the fields in one column"
                if typed.flatten
                else ": option columnNameOfCorruptRecord names the column of bad records"
            )
            raise ValueError(f"two columns would be named {name}{hint}")
