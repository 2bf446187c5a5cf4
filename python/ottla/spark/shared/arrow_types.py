"""Between Arrow's types and Spark's."""

import inspect
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

# By the names that Arrow gives its types. Unsigned numbers become the next wider one; a time of day is its count, as
# Spark's from_avro has it.
_PLAIN: dict[str, DataType] = {
    "null": NullType(),
    "bool": BooleanType(),
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "uint8": ShortType(),
    "uint16": IntegerType(),
    "uint32": LongType(),
    "uint64": DecimalType(20, 0),
    "float": FloatType(),
    "double": DoubleType(),
    "date32[day]": DateType(),
    "string": StringType(),
    "large_string": StringType(),
    "binary": BinaryType(),
    "large_binary": BinaryType(),
    "time32[s]": IntegerType(),
    "time32[ms]": IntegerType(),
    "time64[us]": LongType(),
    "time64[ns]": LongType(),
}


def to_arrow(schema: StructType) -> pa.Schema:
    """The form in which Spark takes these columns.

    Raises:
        ValueError: Spark takes one of the types from no source in Python.
    """
    for field in schema:
        if _has_variant(field.dataType):
            # Its Arrow form is two columns of bytes, which no record holds.
            raise ValueError(
                f"column {field.name} has the type {field.dataType.simpleString()}, and a variant is neither read from "
                "a record nor written to one: use string, with Spark's parse_json and to_json"
            )
    # Before Spark 4.2 UTC went without saying.
    zone: dict[str, Any] = {}
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        zone["timezone"] = "UTC"
    try:
        return to_arrow_schema(schema, **zone)
    except PySparkException as error:
        raise ValueError(f"the schema {schema.simpleString()} has a type that cannot be read: {error}") from None


def _has_variant(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_variant(kind.elementType)
    if isinstance(kind, MapType):
        return _has_variant(kind.keyType) or _has_variant(kind.valueType)
    if isinstance(kind, StructType):
        return any(_has_variant(field.dataType) for field in kind)
    # By its name, since Spark 3.5 does not have it.
    return kind.typeName() == "variant"


def to_spark(schema: pa.Schema) -> StructType:
    """The columns in Spark's types, all nullable."""
    return StructType([StructField(field.name, _to_spark(field.name, field.type)) for field in schema])


def _to_spark(name: str, kind: pa.DataType) -> DataType:
    if (plain := _PLAIN.get(str(kind))) is not None:
        return plain
    if pa.types.is_timestamp(kind):
        return TimestampNTZType() if kind.tz is None else TimestampType()
    if pa.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return BinaryType()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ArrayType(_to_spark(name, kind.value_type))
    if pa.types.is_map(kind):
        return MapType(_to_spark(name, kind.key_type), _to_spark(name, kind.item_type))
    if pa.types.is_struct(kind):
        return StructType([StructField(inner.name, _to_spark(inner.name, inner.type)) for inner in kind])
    raise ValueError(f"field {name} has type {kind}, which Spark does not have")


def nullable(kind: DataType) -> DataType:
    """The type with nulls allowed at every depth, to compare types without nullability."""
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType))
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, nullable(field.dataType)) for field in kind])
    return kind


def is_stricter(field: StructField, other: StructField, *, in_arrays: bool) -> bool:
    """Whether a field is never null where another of the same type may be, at any depth.

    Args:
        field: The field.
        other: The other one.
        in_arrays: Whether what arrays and maps hold counts too.
    """
    return (not field.nullable and other.nullable) or _is_stricter(field.dataType, other.dataType, in_arrays)


def _is_stricter(kind: DataType, other: DataType, in_arrays: bool) -> bool:
    if isinstance(kind, ArrayType) and isinstance(other, ArrayType):
        stricter = in_arrays and not kind.containsNull and other.containsNull
        return stricter or _is_stricter(kind.elementType, other.elementType, in_arrays)
    if isinstance(kind, MapType) and isinstance(other, MapType):
        stricter = in_arrays and not kind.valueContainsNull and other.valueContainsNull
        return stricter or _is_stricter(kind.valueType, other.valueType, in_arrays)
    if isinstance(kind, StructType) and isinstance(other, StructType):
        return any(is_stricter(*pair, in_arrays=in_arrays) for pair in zip(kind, other, strict=True))
    return False


def ddl(kind: DataType) -> str:
    """The type in Spark's SQL, with names of any letters."""
    if isinstance(kind, ArrayType):
        return f"array<{ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{ddl(kind.keyType)},{ddl(kind.valueType)}>"
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)} {ddl(field.dataType)}' for field in kind)}>"
    return kind.simpleString()


def quoted(name: str) -> str:
    """A name as Spark's SQL takes it, whatever its letters."""
    return "`" + name.replace("`", "``") + "`"
