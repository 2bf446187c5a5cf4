"""The options and columns of a write, checked in the driver before any task runs.

Names, meanings and rejected options are the same as in Spark's Kafka sink (`KafkaSourceProvider`, `KafkaWriter`). Names
of options are case-insensitive, names of columns are not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from ottla.spark.shared import tokens
from ottla.spark.shared.formats import Format
from ottla.spark.shared.option_values import boolean, kafka_properties, lowered
from ottla.spark.write import encodings
from ottla.spark.write.encodings import Encoded
from ottla.spark.write.exactly_once import NEEDS_IT, OPTION, Once

if TYPE_CHECKING:
    from ottla._sasl._tokens import Token

# Every option but kafka.*, by its canonical name. includeHeaders is of reads: a write sends the column headers if it is
# there. The last two are Spark's: it passes on where a stream's checkpoint is, and the name that a query has.
KNOWN = ("topic", "includeHeaders", *encodings.KNOWN, OPTION, *NEEDS_IT, "checkpointLocation", "queryName")

# Set by the sink itself, refused as Spark's Kafka sink refuses them.
REFUSED = {
    "key.serializer": "keys are bytes or text; cast or encode them, or set option key.format",
    "value.serializer": "values are bytes or text; cast or encode them, or set option value.format",
    "transactional.id": f"with {OPTION}=true each task has one of its own, which begins with option appId; without it "
    "there are no transactions",
}

# What is sent: the names of columns, each with its place in the data, or with how it is made of others.
Columns = tuple[tuple[str, int | Encoded], ...]

# The columns that a write sends, and their types; others are left out.
COLUMNS: dict[str, tuple[DataType, ...]] = {
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),),
    "partition": (IntegerType(),),
    "topic": (StringType(),),
}


@dataclass(frozen=True)
class WriteOptions:
    """The checked options of a write. They are plain data and travel to executors by pickle.

    Attributes:
        bootstrap: Addresses, `host:port` separated by commas.
        topic: The topic of all rows; None where the column `topic` names each row's.
        properties: Kafka's own properties, from the options that begin with `kafka.`. A repr leaves them out,
            since some are secret.
        once: How the write is exactly once; None where it is at least once.
        formats: How keys and values are encoded, and whether their schemas may be registered; none for those that are
            bytes or text.
        token: What tasks authenticate with, if the driver fetches it (`ottla.spark.shared.tokens`).
    """

    bootstrap: str
    topic: str | None
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    once: Once | None = None
    formats: tuple[tuple[Format, bool], ...] = ()
    token: "Token | None" = field(default=None, repr=False)

    def with_token(self) -> "WriteOptions":
        """The options as tasks get them.

        For the driver.

        Raises:
            AuthenticationError: There is no token.
        """
        return replace(self, token=tokens.fetch(self.properties))

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "WriteOptions":
        """Check options and give them their types.

        Args:
            options: As Spark hands them over.

        Raises:
            ValueError: One is missing, unknown or has a bad value; the message names it.
        """
        given = lowered(options, KNOWN, "property of a producer")
        bootstrap, properties = kafka_properties(given, REFUSED)
        topic = given.get("topic")
        if topic is not None and not topic.strip():
            raise ValueError(
                "option topic is empty: name the topic of all rows, or leave the option out and give the rows a "
                "column topic"
            )
        boolean("includeHeaders", given, default=False)
        topic = topic and topic.strip()
        once, formats = Once.parse(given, topic), encodings.parse(given)
        return cls(bootstrap, topic, tuple(sorted(properties.items())), once, formats)

    def columns(self, schema: StructType) -> Columns:
        """Find what is sent of the rows.

        Args:
            schema: The columns of the data.

        Returns:
            Each column's name and its place in the data, or what it is made of, in the order of `COLUMNS`.

        Raises:
            ValueError: A column is missing or has a type that a record cannot take.
            KafkaError: The registry did not respond, or does not have a schema.
        """
        found: dict[str, int | Encoded] = {}
        for place, column in enumerate(schema.fields):
            # Of columns with the same name the first counts, as in Spark's sink.
            found.setdefault(column.name, place)
        for format_, registers in self.formats:
            found[format_.side] = encodings.encoded(format_, registers=registers, schema=schema, topic=self.topic)
        if "value" not in found:
            there = ", ".join(schema.names) or "none"
            raise ValueError(
                f"column value is missing, which every record needs; the columns are: {there}. Make one, such as "
                '.selectExpr("to_json(struct(*)) AS value"), or set option value.format'
            )
        if self.topic is not None:
            found.pop("topic", None)
        elif "topic" not in found:
            raise ValueError(
                "no topic is given: set option topic for all rows, or give the rows a column topic of type string"
            )
        sent = tuple((name, found[name]) for name in COLUMNS if name in found)
        for name, made in sent:
            if isinstance(made, int):
                _check_type(name, schema.fields[made].dataType)
        return sent


def _check_type(name: str, found: DataType) -> None:
    wanted = COLUMNS[name]
    shapes = [_shape(kind) for kind in wanted]
    if _shape(found) not in shapes:
        choice = " or ".join(kind.simpleString() for kind in wanted)
        raise ValueError(f"column {name} has type {found.simpleString()} and must be of type {choice}: cast it")


def _shape(kind: DataType) -> object:
    """A type without what does not matter: whether there may be nulls."""
    if isinstance(kind, ArrayType):
        return ("array", _shape(kind.elementType))
    if isinstance(kind, StructType):
        return ("struct", *((column.name, _shape(column.dataType)) for column in kind.fields))
    return StringType if isinstance(kind, StringType) else type(kind)
