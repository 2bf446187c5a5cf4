"""The decoding of keys and values to typed columns, from the options of a read.

All of it is plain data, which is pickled for executors. `read.schema` makes the frame's columns of it.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from ottla._registry import unmarked
from ottla.errors import ConfigError
from ottla.spark.shared import sql_columns
from ottla.spark.shared.option_values import boolean, choice, positive

if TYPE_CHECKING:
    from ottla import SchemaRegistry

SideName: TypeAlias = Literal["key", "value"]
FormatName: TypeAlias = Literal["json", "avro", "protobuf", "csv", "string", "raw"]
SIDES: tuple[SideName, SideName] = ("key", "value")
FORMATS: tuple[FormatName, ...] = ("json", "avro", "protobuf", "csv", "string", "raw")
# What has fields.
STRUCTURED = ("json", "avro", "protobuf", "csv")

# Spark's names of what becomes of bad records.
FAILFAST, PERMISSIVE, DROPMALFORMED = "FAILFAST", "PERMISSIVE", "DROPMALFORMED"
MODES = (FAILFAST, PERMISSIVE, DROPMALFORMED)

CORRUPT = "_corrupt"
# Behind the name of the column for bad values, the name of that for bad keys.
OF_KEYS = "_key"

# Characters of a schema that an error shows.
SHOWN = 200

# How to reach a registry, by the names of Confluent's clients in Python.
REGISTRY = "schema.registry."
CONNECTION = (
    "url",
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
# What of a registry is read, which keys and values never share.
SUBJECT = ("subject", "version")


def of_sides(*more: str, of_registry: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The options of keys and of values: those that reads and writes share, and more of one of them."""
    registry = (REGISTRY + name for name in (*CONNECTION, *SUBJECT, *of_registry))
    names = ("format", "schema", "schema.file", "message", *more, *registry)
    return tuple(f"{side}.{name}" for side in SIDES for name in names)


OF_SIDES = of_sides("delimiter", "framed")
OF_FRAMES = ("value.flatten", "columns", "mode", "columnNameOfCorruptRecord", "deadLetterTopic")
KNOWN = (*OF_SIDES, *(REGISTRY + name for name in CONNECTION), *OF_FRAMES)


@dataclass(frozen=True)
class Registry:
    """A schema registry's address, and the wanted schemas. A repr leaves out secrets.

    Attributes:
        url: Of its servers, with commas.
        subject: The subject of the schema that is read; None for that of the topic.
        version: The version of that schema; None for the latest.
        user_info: `user:password`.
        token: A bearer token.
        ca: Certificates, as a path or PEM.
        certificate: Path of a client certificate.
        key: Path of its private key.
        key_password: Password of the key.
    """

    url: str
    subject: str | None = None
    version: int | None = None
    user_info: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = field(default=None, repr=False)
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def client(self) -> "SchemaRegistry":
        """The client of the registry.

        Raises:
            ValueError: An option of the registry cannot be used.
        """
        from ottla import SchemaRegistry

        user, _, password = (self.user_info or "").partition(":")
        try:
            return SchemaRegistry(
                self.url,
                auth=(user, password) if self.user_info else None,
                token=self.token,
                ca=self.ca,
                certificate=self.certificate,
                key=self.key,
                key_password=self.key_password,
            )
        except ConfigError as error:
            raise ValueError(f"options {REGISTRY}*: {error}") from None


@dataclass(frozen=True)
class Format:
    """How keys or values are written.

    Attributes:
        side: Which of the two.
        name: The format.
        schema: Given in the options: a text, or the descriptors of Protobuf.
        message: The Protobuf message; None for the first.
        delimiter: What stands between the fields of CSV.
        framed: Whether schema ids stand in front or in headers; None if there are such where there is a registry.
        registry: Where schemas are looked up.
    """

    side: SideName
    name: FormatName = "raw"
    schema: str | bytes | None = field(default=None, repr=False)
    message: str | None = None
    delimiter: str = ","
    framed: bool | None = None
    registry: Registry | None = None

    @property
    def is_structured(self) -> bool:
        """Whether it has fields."""
        return self.name in STRUCTURED

    @property
    def has_ids(self) -> bool:
        """Whether schema ids stand in front or in headers."""
        return self.registry is not None if self.framed is None else self.framed


@dataclass(frozen=True)
class Typed:
    """What a read makes of keys and values, and which columns it has.

    Attributes:
        key: How keys are written.
        value: How values are written.
        flatten: Whether the fields of the value are columns of their own.
        columns: The columns that are wanted, such as `offset` and `value.price`; None for all.
        mode: What becomes of bad records: `FAILFAST`, `PERMISSIVE` or `DROPMALFORMED`.
        corrupt: The name of the column with the bytes of bad values; that of bad keys has `OF_KEYS` behind it.
        dead_letters: The topic that takes bad records; None without one.
    """

    key: Format
    value: Format
    flatten: bool = False
    columns: tuple[str, ...] | None = None
    mode: str = FAILFAST
    corrupt: str = CORRUPT
    dead_letters: str | None = None

    @property
    def sides(self) -> tuple[Format, Format]:
        """The two formats."""
        return self.key, self.value

    def corrupt_of(self, side: SideName) -> str:
        """The name of the column with bad keys or values."""
        return self.corrupt if side == "value" else self.corrupt + OF_KEYS


def parse(given: Mapping[str, str]) -> Typed | None:
    """The options for the columns of keys and values; None without such options.

    Args:
        given: Options by their names in lower case.

    Raises:
        ValueError: One is missing, without meaning or has a bad value; the message names it.
    """
    named = {name.lower(): name for name in KNOWN}
    if not named.keys() & given.keys():
        return None
    key, value = (of_side(side, given) for side in SIDES)
    for side in (key, value):
        _check_columns(side)
    decoded = [one for one in (key, value) if one.name != "raw"]
    if not decoded:
        useless = [
            named[name] for name in given if name in named and not name.endswith(".format") and name != "columns"
        ]
        if useless:
            raise ValueError(
                f"option {useless[0]} has no meaning while keys and values are raw bytes: set option value.format or "
                f"key.format to {', '.join(FORMATS[:-1])}"
            )
    flatten = boolean("value.flatten", given, default=False)
    if flatten and not value.is_structured:
        raise ValueError(f"option value.flatten wants fields, and option value.format is {value.name}")
    corrupt = given.get("columnnameofcorruptrecord", CORRUPT).strip()
    if not corrupt:
        raise ValueError("option columnNameOfCorruptRecord is empty: name a column, or leave the option out")
    return Typed(
        key=key,
        value=value,
        flatten=flatten,
        columns=_columns(given),
        mode=_mode(given),
        corrupt=corrupt,
        dead_letters=_dead_letters(given),
    )


def of_side(side: SideName, given: Mapping[str, str], formats: tuple[str, ...] = FORMATS) -> Format:
    """The options for keys or for values.

    Args:
        side: Which of the two.
        given: Options by their names in lower case.
        formats: Those that can be chosen.

    Raises:
        ValueError: One is missing, without meaning or has a bad value; the message names it.
    """
    chosen = choice(f"{side}.format", given, formats) or "raw"
    name = next(name for name in FORMATS if name == chosen)
    format_ = Format(
        side=side,
        name=name,
        schema=_schema(side, name, given),
        message=given.get(f"{side}.message"),
        delimiter=given.get(f"{side}.delimiter", ","),
        framed=boolean(f"{side}.framed", given, default=False) if f"{side}.framed" in given else None,
        registry=_registry(side, name, given),
    )
    for option, takers in (
        ("schema", STRUCTURED),
        ("schema.file", STRUCTURED),
        ("message", ("protobuf",)),
        ("delimiter", ("csv",)),
        ("framed", ("json", "avro", "protobuf")),
        *((REGISTRY + name, ("json", "avro", "protobuf")) for name in (*CONNECTION, *SUBJECT)),
    ):
        if f"{side}.{option}" in given and name not in takers:
            raise ValueError(
                f"option {side}.{option} is for {' and '.join(takers)}, and option {side}.format is {name}"
            )
    return format_


def _schema(side: SideName, name: str, given: Mapping[str, str]) -> str | bytes | None:
    text, path = given.get(f"{side}.schema"), given.get(f"{side}.schema.file")
    if text is not None and path is not None:
        raise ValueError(f"options {side}.schema and {side}.schema.file exclude each other: leave one of them")
    if path is not None:
        try:
            held = Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"option {side}.schema.file cannot be read where the query starts: {error}") from None
        if name == "protobuf":
            return held
        try:
            # Editors on Windows write a byte order mark in front.
            return held.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"option {side}.schema.file names a file that is not text: {path}") from None
    if text is None or name != "protobuf":
        return unmarked(text)
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ValueError(
            f"option {side}.schema is a FileDescriptorSet in base64 for protobuf; option {side}.schema.file takes the "
            "path of what protoc --descriptor_set_out --include_imports writes"
        ) from None


def _check_columns(side: Format) -> None:
    """Refuse columns in Spark's SQL that Spark cannot read: its own error shows a text that the user never wrote."""
    if not isinstance(side.schema, str) or not is_ddl(side.schema):
        return
    try:
        if side.schema.lstrip().startswith(("{", "[")):
            json.loads(side.schema)
        sql_columns.check(side.schema)
    except json.JSONDecodeError as error:
        raise ValueError(f"option {side.side}.schema is {_short(side.schema)}, which is not JSON: {error}") from None
    except sql_columns.SqlError as error:
        raise ValueError(
            f"option {side.side}.schema is {_short(side.schema)}, which is not columns in Spark's SQL: {error}"
        ) from None


def _short(schema: str) -> str:
    return repr(schema) if len(schema) <= SHOWN else f"{schema[:SHOWN]!r}..."


def _registry(side: SideName, name: str, given: Mapping[str, str]) -> Registry | None:
    def value_of(option: str) -> str | None:
        return given.get(f"{side}.{REGISTRY}{option}", given.get(REGISTRY + option))

    url = value_of("url")
    if url is None or name not in ("json", "avro", "protobuf"):
        lonely = next((o for o in (*CONNECTION, *SUBJECT) if f"{side}.{REGISTRY}{o}" in given and o != "url"), None)
        if lonely is not None and url is None:
            raise ValueError(f"option {side}.{REGISTRY}{lonely} needs a registry: set option {REGISTRY}url")
        return None
    version = given.get(f"{side}.{REGISTRY}version", "latest").strip().lower()
    user_info = value_of("basic.auth.user.info")
    if user_info is not None and ":" not in user_info:
        raise ValueError(
            f"option {REGISTRY}basic.auth.user.info must be a user and a password with a colon between them"
        )
    return Registry(
        url=url,
        subject=given.get(f"{side}.{REGISTRY}subject"),
        version=None if version == "latest" else positive(f"{side}.{REGISTRY}version", given),
        user_info=user_info,
        token=value_of("bearer.auth.token"),
        ca=value_of("ssl.ca.location"),
        certificate=value_of("ssl.certificate.location"),
        key=value_of("ssl.key.location"),
        key_password=value_of("ssl.key.password"),
    )


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    text = given.get("columns")
    if text is None:
        return None
    names = tuple(name for name in map(str.strip, text.split(",")) if name)
    if not names:
        raise ValueError('option columns names none: name them with commas, such as "offset,value.price"')
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"option columns names {', '.join(twice)} twice")
    return names


def _mode(given: Mapping[str, str]) -> str:
    chosen = choice("mode", given, tuple(map(str.lower, MODES)))
    letters = "deadlettertopic" in given
    if chosen is None:
        return DROPMALFORMED if letters else FAILFAST
    if letters and chosen == FAILFAST.lower():
        raise ValueError(
            f"options mode={FAILFAST} and deadLetterTopic exclude each other: the first bad record would end the "
            f"query. {DROPMALFORMED} leaves bad records out of the frame, {PERMISSIVE} keeps them with nulls"
        )
    return chosen.upper()


def _dead_letters(given: Mapping[str, str]) -> str | None:
    topic = given.get("deadlettertopic")
    if topic is not None and not topic.strip():
        raise ValueError("option deadLetterTopic is empty: name a topic, or leave the option out")
    return topic and topic.strip()


def is_ddl(schema: str | bytes | None) -> bool:
    """Whether a schema of an option is columns in Spark's SQL, which only Spark reads."""
    return isinstance(schema, str) and _json(schema) is None


def is_sparks_json(schema: str | bytes | None) -> bool:
    """Whether a schema of an option is what `StructType.json()` writes."""
    content = _json(schema) if isinstance(schema, str) else None
    return isinstance(content, dict) and content.get("type") == "struct"


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
