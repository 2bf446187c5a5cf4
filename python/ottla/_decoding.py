"""From a schema in one of its many forms to a decoder, and the schemas that a registry has for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from ottla._ottla import Batch, Decoded, TypedDecoder
from ottla._registry import RegisteredSchema, SchemaRegistry, unmarked
from ottla.errors import ArgumentError, NotFoundError

DecodeFormat: TypeAlias = Literal["json", "avro", "protobuf", "csv", "string", "raw"]
_FORMATS = ("json", "avro", "protobuf", "csv", "string", "raw")
# By the names of a registry's types.
TYPES = {"AVRO": "avro", "JSON": "json", "PROTOBUF": "protobuf"}


class ArrowSchema(Protocol):
    """A schema of any Arrow library, such as `pyarrow.Schema`."""

    def __arrow_c_schema__(self) -> Any:
        """The schema as a capsule."""


class _Options(TypedDict):
    column: NotRequired[Literal["value", "key"]]
    registry: NotRequired[SchemaRegistry | None]
    writer_schema: NotRequired[str | None]
    message: NotRequired[str | None]
    framed: NotRequired[bool | None]
    delimiter: NotRequired[str]
    select: NotRequired[Iterable[str] | None]


_DEFAULTS: dict[str, object] = {
    "format": "json",
    "column": "value",
    "registry": None,
    "writer_schema": None,
    "message": None,
    "framed": None,
    "delimiter": ",",
    "select": None,
}


class Decoder:
    """Decodes keys or values of many batches to the typed columns of one schema. Threads may share it, and it pickles.

    It is what `Batch.decode` makes for one batch, and takes in place of a schema. A registry is asked once a schema;
    for what it does not have, with each batch. Without a schema, each topic has that of its subject.

    ```python
    decoder = ottla.Decoder(schema, "json")
    for batch in consumer.batches():
        table = batch.decode(decoder).to_arrow()
    ```
    """

    def __init__(
        self,
        schema: DecodeSchema = None,
        format: DecodeFormat = "json",  # noqa: A002 - the name that Spark and others give it
        *,
        column: Literal["value", "key"] = "value",
        registry: SchemaRegistry | None = None,
        writer_schema: str | None = None,
        message: str | None = None,
        framed: bool | None = None,
        delimiter: str = ",",
        select: Iterable[str] | None = None,
    ) -> None:
        """Take a schema.

        Args:
            schema: As for `Batch.decode`.
            format: As for `Batch.decode`.
            column: As for `Batch.decode`.
            registry: As for `Batch.decode`.
            writer_schema: As for `Batch.decode`.
            message: As for `Batch.decode`.
            framed: As for `Batch.decode`.
            delimiter: As for `Batch.decode`.
            select: As for `Batch.decode`.

        Raises:
            ArgumentError: The schema or an option can never work.
        """
        if format not in _FORMATS:
            raise ArgumentError(f"format is one of {', '.join(map(repr, _FORMATS))}, and was {format!r}")
        if isinstance(schema, Decoder):
            raise ArgumentError("a Decoder is made from a schema; pass this one to batch.decode() as it is")
        self._schema = unmarked(schema)
        self._format: DecodeFormat = format
        self._column: Literal["value", "key"] = column
        self._registry = registry
        self._writer = unmarked(writer_schema)
        self._message = message
        self._framed = registry is not None if framed is None else framed
        self._delimiter = delimiter
        self._select = None if select is None else [select] if isinstance(select, str) else list(select)
        self._lock = threading.Lock()
        self._native: TypedDecoder | None = None
        self._by_topic: dict[str, TypedDecoder] = {}
        self._refuse_options()
        if schema is not None or format in {"string", "raw"}:
            self._native = self._make(self._schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_remake, (self._schema, self._format, self._options()))

    def __arrow_c_schema__(self) -> Any:
        """The columns, as a capsule that `pyarrow.schema(decoder)` and others take.

        Raises:
            ArgumentError: The decoder asks a registry for the schema of each topic.
        """
        if self._native is None:
            raise ArgumentError(
                "a decoder without a schema has that of each topic: pass one, as registry.latest(subject)"
            )
        return self._native.__arrow_c_schema__()

    def _options(self) -> _Options:
        return {
            "column": self._column,
            "registry": self._registry,
            "writer_schema": self._writer,
            "message": self._message,
            "framed": self._framed,
            "delimiter": self._delimiter,
            "select": self._select,
        }

    def _refuse_others(self, format: DecodeFormat, options: _Options) -> None:  # noqa: A002
        """Refuse what was passed to `Batch.decode` beside this decoder, and would be ignored."""
        own: dict[str, object] = {"format": self._format, **self._options()}
        for name, value in {"format": format, **options}.items():
            if value not in (_DEFAULTS[name], own[name]):
                raise ArgumentError(f"the decoder has its own {name}: pass it to ottla.Decoder(), not beside a Decoder")

    def _refuse_options(self) -> None:
        format, registry = self._format, self._registry  # noqa: A001
        if format in {"string", "raw"} and self._schema is not None:
            raise ArgumentError(f"format {format!r} takes no schema: it has one column, {self._column!r}")
        if format in {"csv", "string", "raw"} and self._framed:
            raise ArgumentError(f"format {format!r} knows no schema ids: leave out registry and framed")
        if self._framed and registry is None and format in {"avro", "protobuf"}:
            raise ArgumentError(
                f"schema ids of format {format!r} lead to a registry: pass registry=SchemaRegistry(url)"
            )
        if self._schema is None and registry is None and format not in {"string", "raw"}:
            raise ArgumentError(f"format {format!r} needs a schema, or a registry that has one")
        if self._writer is not None and format != "avro":
            raise ArgumentError(f"writer_schema is for format 'avro', and this is {format!r}")
        if self._message is not None and format != "protobuf":
            raise ArgumentError(f"message is for format 'protobuf', and this is {format!r}")

    def decode(
        self,
        batch: Batch,
        *,
        mode: Literal["fail", "permissive", "drop"] = "fail",
        keep: Iterable[str] | None = None,
        corrupt_column: str = "_corrupt",
    ) -> Decoded:
        """Decode a batch, as `Batch.decode` does.

        Args:
            batch: The records.
            mode: As for `Batch.decode`.
            keep: As for `Batch.decode`.
            corrupt_column: As for `Batch.decode`.

        Returns:
            The typed columns and the bad records.

        Raises:
            DecodeError: A record does not decode, and the mode is "fail".
            ArgumentError: The schema or an option can never work.
            UnreachableError: The registry cannot be reached.
        """
        kept = [keep] if isinstance(keep, str) else list(keep or ())
        native = self._of_topic(batch) if self._native is None else self._native
        decoded = native.decode(batch, mode, kept, corrupt_column, None)
        if decoded is None:
            # Only a batch with schemas that are new is gone through for their ids.
            missing = self._bring_writers(native, batch)
            decoded = native.decode(batch, mode, kept, corrupt_column, missing)
        return decoded

    def _of_topic(self, batch: Batch) -> TypedDecoder:
        """For the registry's schema of the topic, by the subject that Confluent's serializers have by default."""
        # Of no record, the columns are those of the others, if there is one topic.
        topics = TypedDecoder.topics(batch) or list(self._by_topic)
        if len(batch) and len(topics) > 1:
            shown = ", ".join(map(repr, topics[:3])) + (", ..." if len(topics) > 3 else "")
            raise ArgumentError(
                f"a batch of the topics {shown} has no one schema: pass a schema, or decode each topic's records apart"
            )
        if len(topics) != 1 or self._registry is None:
            raise ArgumentError("an empty batch names no topic whose schema could be asked for: pass a schema")
        [topic] = topics
        native = self._by_topic.get(topic)
        if native is None:
            with self._lock:
                native = self._by_topic.get(topic)
                if native is None:
                    native = self._make(self._registry.latest(f"{topic}-{self._column}"))
                    self._by_topic[topic] = native
        return native

    def _bring_writers(self, native: TypedDecoder, batch: Batch) -> list[tuple[int | bytes, str]]:
        """What the batch needs and the decoder has not; returns the ids that the registry has not, and what it says."""
        missing: list[tuple[int | bytes, str]] = []
        registry = self._registry
        if registry is None:
            return missing
        for schema_id in native.unknown_ids(batch):
            try:
                schema = registry.schema(schema_id)
            except NotFoundError as error:
                # Any record can name any id; what it lacks is no reason to stop for the others. It may come later.
                missing.append((schema_id, str(error)))
                continue
            if TYPES.get(schema.type) != self._format:
                native.refuse_writer(schema_id, f"its type is {schema.type}, and the format is {self._format!r}")
            elif self._format == "avro":
                native.add_writer(schema_id, schema.text, list(schema.references))
            else:
                native.add_descriptors(schema_id, schema.descriptors())
        return missing

    def _make(self, schema: DecodeSchema) -> TypedDecoder:
        options: dict[str, Any] = {"framed": self._framed, "select": self._select}
        if isinstance(schema, RegisteredSchema):
            if TYPES.get(schema.type) != self._format:
                raise ArgumentError(f"the schema is of type {schema.type}, and the format is {self._format!r}")
            if self._format == "protobuf":
                options["descriptors"] = schema.descriptors()
            else:
                options |= {"text": schema.text, "references": list(schema.references)}
        elif self._format == "protobuf":
            options["descriptors"], message = descriptors(schema)
            options["message"] = self._message or message
        elif isinstance(schema, str):
            options["text"] = schema
        elif schema is not None and not hasattr(schema, "__arrow_c_schema__"):
            raise ArgumentError(
                f"a schema for format {self._format!r} is a pyarrow.Schema, another object with __arrow_c_schema__, or "
                f"the text of a schema, not {type(schema).__name__}"
            )
        else:
            options["schema"] = schema
        if self._message is not None:
            options["message"] = self._message
        if self._format == "avro":
            options["writer"] = self._writer
        if self._format == "csv":
            options["delimiter"] = self._delimiter
        return TypedDecoder(self._format, self._column, **options)


DecodeSchema: TypeAlias = ArrowSchema | str | bytes | type | RegisteredSchema | Decoder | None


def decode(
    batch: Batch,
    schema: DecodeSchema,
    format: DecodeFormat,  # noqa: A002
    options: _Options,
    mode: Literal["fail", "permissive", "drop"],
    keep: Iterable[str] | None,
    corrupt_column: str,
) -> Decoded:
    """What `Batch.decode` does; the compiled half calls it."""
    if isinstance(schema, Decoder):
        decoder = schema
        decoder._refuse_others(format, options)  # noqa: SLF001 - its own module
    else:
        decoder = _remake(schema, format, options)
    return decoder.decode(batch, mode=mode, keep=keep, corrupt_column=corrupt_column)


def _remake(schema: DecodeSchema, format: DecodeFormat, options: _Options) -> Decoder:  # noqa: A002
    return Decoder(schema, format, **options)


def descriptors(schema: Any) -> tuple[list[bytes], str | None]:
    """Serialized files, those that are imported first, and the name of a message that the schema stands for."""
    if isinstance(schema, (bytes, bytearray, memoryview)):
        return [bytes(schema)], None
    descriptor = getattr(schema, "DESCRIPTOR", schema)
    if not hasattr(descriptor, "file") or not hasattr(descriptor, "full_name"):
        raise ArgumentError(
            "a schema for format 'protobuf' is a serialized FileDescriptorSet, a generated message class or a "
            f"RegisteredSchema, not {type(schema).__name__}"
        )
    files: dict[str, bytes] = {}

    def add(file: Any) -> None:
        for imported in file.dependencies:
            if imported.name not in files:
                add(imported)
        files[file.name] = file.serialized_pb

    add(descriptor.file)
    return list(files.values()), descriptor.full_name
