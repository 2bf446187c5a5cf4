"""From a schema in one of its many forms to a decoder, and the schemas that a registry has for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from ottla._columns import text_of
from ottla._ottla import Batch, Decoded, TypedDecoder
from ottla._registry import RegisteredSchema, SchemaRegistry, registry_of, subject_of, unmarked
from ottla.errors import ArgumentError, NotFoundError, ProtocolError

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
    registry: NotRequired[SchemaRegistry | str | None]
    subject: NotRequired[str | None]
    writer_schema: NotRequired[str | None]
    message: NotRequired[str | None]
    framed: NotRequired[bool | None]
    delimiter: NotRequired[str]
    select: NotRequired[Iterable[str] | None]


_DEFAULTS: dict[str, object] = {
    "format": "json",
    "column": "value",
    "registry": None,
    "subject": None,
    "writer_schema": None,
    "message": None,
    "framed": None,
    "delimiter": ",",
    "select": None,
}


class Decoder:
    """Decodes keys or values of many batches to the typed columns of one schema. Threads may share it, and it pickles.

    `Batch.decode` makes one for one batch, and accepts one in place of a schema. Each schema is requested once from a
    registry; for what it does not have, with each batch. Without a schema, each topic has that of its subject.

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
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
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
            subject: As for `Batch.decode`.
            writer_schema: As for `Batch.decode`.
            message: As for `Batch.decode`.
            framed: As for `Batch.decode`.
            delimiter: As for `Batch.decode`.
            select: As for `Batch.decode`.

        Raises:
            ArgumentError: The schema or an option can never work.
        """
        if format not in _FORMATS:
            raise ArgumentError(f"format must be one of {', '.join(map(repr, _FORMATS))}, not {format!r}")
        if isinstance(schema, Decoder):
            raise ArgumentError("schema must be a schema, not a Decoder: pass the Decoder to batch.decode()")
        self._schema: Any = unmarked(text_of(schema, format))
        self._infers = self._schema == "infer"
        self._format: DecodeFormat = format
        self._column: Literal["value", "key"] = column
        self._registry: SchemaRegistry | None = registry_of(registry)
        self._subject = subject
        self._writer = unmarked(writer_schema)
        self._message = message
        self._framed = registry is not None if framed is None else framed
        self._delimiter = delimiter
        self._select = None if select is None else [select] if isinstance(select, str) else list(select)
        self._lock = threading.Lock()
        self._native: TypedDecoder | None = None
        self._by_subject: dict[str, TypedDecoder] = {}
        self._refuse_options()
        if (schema is not None and not self._infers) or format in {"string", "raw"}:
            self._native = self._make(self._schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_remake, (self._schema, self._format, self._options()))

    def __arrow_c_schema__(self) -> Any:
        """The columns, as a capsule that `pyarrow.schema(decoder)` and others take.

        Raises:
            ArgumentError: The decoder requests the schema of each topic from a registry.
        """
        if self._native is None:
            raise ArgumentError(
                "a decoder that infers its columns has none before the first batch: decode a batch first"
                if self._infers
                else "a decoder without a schema uses that of each topic: pass one, as registry.latest(subject)"
            )
        return self._native.__arrow_c_schema__()

    def _options(self) -> _Options:
        return {
            "column": self._column,
            "registry": self._registry,
            "subject": self._subject,
            "writer_schema": self._writer,
            "message": self._message,
            "framed": self._framed,
            "delimiter": self._delimiter,
            "select": self._select,
        }

    def _refuse_others(self, format: DecodeFormat, options: _Options) -> None:  # noqa: A002
        """Reject arguments of `Batch.decode` that this decoder would ignore."""
        own: dict[str, object] = {"format": self._format, **self._options()}
        if "registry" in options:
            options = {**options, "registry": registry_of(options["registry"])}
        for name, value in {"format": format, **options}.items():
            if value not in (_DEFAULTS[name], own[name]):
                raise ArgumentError(
                    f"the decoder has its own {name}: pass it to ottla.Decoder(), not together with a Decoder"
                )

    def _refuse_options(self) -> None:
        format, registry = self._format, self._registry  # noqa: A001
        if format in {"string", "raw"} and self._schema is not None:
            raise ArgumentError(f"format {format!r} has no schema, only one column, {self._column!r}: leave out schema")
        if format in {"csv", "string", "raw"} and self._framed:
            raise ArgumentError(f"format {format!r} has no schema ids: leave out registry and framed")
        if self._framed and registry is None and format in {"avro", "protobuf"}:
            raise ArgumentError(f"schema ids of format {format!r} need a registry: pass registry=SchemaRegistry(url)")
        if self._schema is None and registry is None and format not in {"string", "raw"}:
            raise ArgumentError(f"format {format!r} needs a schema, or a registry that has one")
        if self._subject is not None and registry is None:
            raise ArgumentError("subject needs a registry: pass registry=SchemaRegistry(url)")
        if self._infers and format != "json":
            raise ArgumentError(f"columns can be inferred only from JSON, not from {format!r}: pass a schema")
        if self._writer is not None and format != "avro":
            raise ArgumentError(f"writer_schema needs format 'avro', not {format!r}")
        if self._message is not None and format != "protobuf":
            raise ArgumentError(f"message needs format 'protobuf', not {format!r}")

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
        native = self._native or (self._inferred(batch) if self._infers else self._of_subject(batch))
        decoded = native.decode(batch, mode, kept, corrupt_column, None)
        if decoded is None:
            # Only a batch with schemas that are new is gone through for their ids.
            missing = self._bring_writers(native, batch)
            decoded = native.decode(batch, mode, kept, corrupt_column, missing)
        return decoded

    def _inferred(self, batch: Batch) -> TypedDecoder:
        """For the columns of the first batch, which those after it have, too."""
        with self._lock:
            if self._native is None:
                self._native = TypedDecoder.inferred(batch, self._column, self._framed, self._select)
            return self._native

    def _of_subject(self, batch: Batch) -> TypedDecoder:
        """For the registry's latest schema of the subject, which is that of the batch's topic unless it was passed."""
        if self._registry is None:
            raise ArgumentError("a decoder without a schema needs a registry that has one")
        subject = self._subject or self._subject_of_all(batch)
        native = self._by_subject.get(subject)
        if native is None:
            with self._lock:
                native = self._by_subject.get(subject)
                if native is None:
                    native = self._make(self._registry.latest(subject))
                    self._by_subject[subject] = native
        return native

    def _subject_of_all(self, batch: Batch) -> str:
        """The subject of a batch's records, by the name that Confluent's serializers give it by default."""
        topics = TypedDecoder.topics(batch)
        if len(topics) > 1:
            shown = ", ".join(map(repr, topics[:3])) + (", ..." if len(topics) > 3 else "")
            raise ArgumentError(
                f"a batch of several topics ({shown}) has no common schema: pass a schema or a subject, or decode "
                "each topic's records separately"
            )
        if topics:
            return subject_of(topics[0], self._column)
        # Of no record, the columns are those of the others, if there is one topic.
        known = list(self._by_subject)
        if len(known) != 1:
            raise ArgumentError("an empty batch has no topic, so its schema cannot be requested: pass a schema")
        return known[0]

    def _bring_writers(self, native: TypedDecoder, batch: Batch) -> list[tuple[str, int | bytes, str]]:
        """Request the schemas that the batch needs and the decoder does not have.

        Returns:
            The ids that the registry does not have, with their topics and what the registry reports.
        """
        missing: list[tuple[str, int | bytes, str]] = []
        registry = self._registry
        if registry is None:
            return missing
        for topic, schema_id in native.unknown_ids(batch):
            subject = self._subject or subject_of(topic, self._column, self._schema)
            try:
                schema = registry.schema(schema_id, subject=subject)
            except NotFoundError as error:
                # Any record can name any id; what it lacks is no reason to stop for the others. It may come later.
                missing.append((topic, schema_id, str(error)))
                continue
            if TYPES.get(schema.type) != self._format:
                reason = f"its type is {schema.type}, and the format is {self._format!r}"
                native.refuse_writer(topic, schema_id, reason)
            elif self._format == "avro":
                native.add_writer(topic, schema_id, schema.text, list(schema.references))
            else:
                native.add_descriptors(topic, schema_id, self._files_of(schema))
        return missing

    def _files_of(self, schema: RegisteredSchema) -> list[bytes]:
        """The Protobuf files in which the index of a message counts.

        Only the index needs the writer's files: fields have their numbers. So the caller's own files take the place of
        those that a registry has as texts alone.
        """
        try:
            return schema.descriptors()
        except ProtocolError:
            if self._schema is None or isinstance(self._schema, RegisteredSchema):
                raise
            return descriptors(self._schema)[0]

    def _make(self, schema: DecodeSchema) -> TypedDecoder:
        options: dict[str, Any] = {"framed": self._framed, "select": self._select}
        if isinstance(schema, RegisteredSchema):
            if TYPES.get(schema.type) != self._format:
                raise ArgumentError(f"the schema is of type {schema.type}, but the format is {self._format!r}")
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
                f"a schema for format {self._format!r} is a dict of columns, a pyarrow.Schema, another object with "
                f"__arrow_c_schema__, or the text of a schema, not {type(schema).__name__}"
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


DecodeSchema: TypeAlias = (
    ArrowSchema | str | bytes | type | Mapping[str, Any] | list[Any] | RegisteredSchema | Decoder | None
)


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
