"""What rows must have in common with the files of the Parquet folder that they are added to.

A folder of Parquet has no schema of its own: readers take it from some of the files, and partitions from the names of
folders. Files that do not fit are written without an error; then their rows are invisible, or no reader can read the
folder. Delta and Iceberg have a schema and refuse such rows themselves.
"""

from collections.abc import Iterator
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ottla.spark.ingest.settings import Table
from ottla.spark.ingest.spark_errors import IngestError, plain_errors
from ottla.spark.shared.storage import Folder


def check_folder(spark: SparkSession, table: Table, schema: StructType, place: str) -> None:
    """Refuse rows that readers could not read together with those that are in a Parquet folder.

    Args:
        spark: The session.
        table: The folder, of the settings.
        schema: The columns of the rows.
        place: The table of the settings, for errors.

    Raises:
        IngestError: The partitions of the files, or the type of a column, are other ones.
    """
    folder = Folder(spark, str(table.path))
    files: dict[str, list[str]] = {}
    for file in folder.files():
        found = partitions(file.name)
        if found is None or not file.size:
            continue
        if found != table.partition_by:
            raise IngestError(
                f"{place} partition-by is {_list(table.partition_by)}, and the files in {folder} are partitioned by "
                f"{_list(found)}, such as {file.name}. Readers would not find the rows of both. Nothing was written. "
                f"Set partition-by = {_list(found)}, or name another path"
            )
        # Names begin with the query, and then count its batches: a query has one schema from its start to its end.
        files.setdefault(file.name.rpartition("/")[2].partition("-")[0], []).append(file.name)
    # Values of partitions are texts in the names of folders, whatever their type.
    rows = StructType([field for field in schema.fields if field.name not in table.partition_by])
    for names in files.values():
        names.sort(key=lambda name: name.rpartition("/")[2])
        for name in dict.fromkeys((names[0], names[-1])):
            with plain_errors(f"{place} path: {folder}/{name} cannot be read:"):
                before = spark.read.parquet(f"{folder}/{name}").schema
            for change in changed(before, rows):
                raise IngestError(
                    f"{place} columns do not fit those of {folder}/{name}: {change}. Readers could not read both. "
                    "Nothing was written. Cast the column to the type in the folder with select, give it another "
                    "name, or name another path"
                )


def partitions(file: str) -> tuple[str, ...] | None:
    """The columns that the folders of a data file are, in order; None for a file that readers pass over."""
    *folders, name = file.split("/")
    if not name.endswith(".parquet") or any(_hidden(part) for part in (*folders, name)):
        return None
    return tuple(unquote(folder.partition("=")[0]) for folder in folders if "=" in folder)


def changed(before: DataType, now: DataType, name: str = "") -> Iterator[str]:
    """The columns, at any depth, that have another type now.

    Columns may come and go.
    """
    if isinstance(before, StructType) and isinstance(now, StructType):
        kept = {field.name: field.dataType for field in before.fields}
        for field in now.fields:
            if field.name in kept:
                yield from changed(kept[field.name], field.dataType, f"{name}.{field.name}".removeprefix("."))
    elif isinstance(before, ArrayType) and isinstance(now, ArrayType):
        yield from changed(before.elementType, now.elementType, f"{name}[]")
    elif isinstance(before, MapType) and isinstance(now, MapType):
        yield from changed(before.keyType, now.keyType, f"{name}{{}} key")
        yield from changed(before.valueType, now.valueType, f"{name}{{}}")
    elif before != now:
        yield f"{name} is {before.simpleString()} in the folder and {now.simpleString()} now"


def _hidden(part: str) -> bool:
    """Whether Spark skips a file or folder of this name: `_x=1` is a partition."""
    return part.startswith(".") or (part.startswith("_") and "=" not in part)


def _list(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
