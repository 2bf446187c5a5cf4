"""Encoders: made from a schema in any of its forms, with its id in a registry."""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ottla._columns import are_rows, rows_as_arrow, text_of
from ottla._decoding import TYPES, ArrowSchema, Decoder, descriptors
from ottla._ottla import Encoded, TypedDecoder, TypedEncoder
from ottla._registry import RegisteredSchema, SchemaRegistry, registry_of, unmarked
from ottla._subjects import STRATEGIES, Strategy, file_name, record_name, subject_by
from ottla.errors import ArgumentError, NotFoundError

EncodeFormat: TypeAlias = Literal["json", "avro", "protobuf"]
EncodeSchema: TypeAlias = str | bytes | type | Mapping[str, Any] | list[Any] | ArrowSchema | RegisteredSchema | None
_FORMATS = ("json", "avro", "protobuf")
# What every registry has of its own.
_GOOGLES = "google/protobuf/"
# A registry's names of the formats.
_OF_FORMATS = {name: kind for kind, name in TYPES.items()}


class ResolvedSchema(NamedTuple):
    """The schema that an encoder writes, with its id from a registry. It is plain data, and pickles.

    Attributes:
        format: The format.
        text: The schema's text; None if it is not needed to write.
        references: Texts of the schemas that it names.
        descriptors: Protobuf files, those that are imported first.
        message: The Protobuf message; None for the first of the last file.
        id: The schema id before each value; None for none.
        guid: The GUID in the header of each record; None for none.
    """

    format: EncodeFormat
    text: str | None = None
    references: tuple[str, ...] = ()
    descriptors: tuple[bytes, ...] = ()
    message: str | None = None
    id: int | None = None
    guid: str | None = None

    def encoder(self) -> Callable[[Any], Encoded]:
        """Return the function that encodes Arrow data, as `Encoder.encode` does.

        Raises:
            ArgumentError: The schema can never work.
        """
        return self.typed().encode

    def typed(self) -> TypedEncoder:
        """The same, as what has the schema.

        Raises:
            ArgumentError: The schema can never work.
        """
        # The columns determine the JSON.
        given: dict[str, Any] = {"schema_id": None if self.guid else self.id}
        if self.format == "avro":
            given |= {"text": self.text, "references": list(self.references)}
        elif self.format == "protobuf":
            given |= {"descriptors": list(self.descriptors), "message": self.message}
        return TypedEncoder(self.format, **given)


class Encoder:
    """Encodes rows of typed columns to keys or values of one schema. Threads may share it, and it pickles.

    It is the inverse of `Batch.decode`. Each subject is requested once from a registry.

    ```python
    encoder = ottla.Encoder(schema, "avro", registry=ottla.SchemaRegistry("http://localhost:8081"))
    values = encoder.encode(table, topic="orders")
    producer.send_many("orders", values)
    ```
    """

    def __init__(
        self,
        schema: EncodeSchema = None,
        format: EncodeFormat = "json",  # noqa: A002 - as `Decoder` names it
        *,
        column: Literal["value", "key"] = "value",
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        message: str | None = None,
        auto_register: bool = True,
        strategy: Strategy = "topic",
        references: Iterable[Mapping[str, Any]] = (),
        normalize: bool = False,
        id_in: Literal["value", "header"] = "value",
    ) -> None:
        """Set the schema; nothing is requested yet.

        Args:
            schema: An Avro schema or, for a registry alone, a JSON Schema, each as text or as a dict; for Protobuf a
                serialized `FileDescriptorSet` or a generated message class; or a `RegisteredSchema`. For Avro also
                columns: a dict of names and types, a Spark SQL text (`"item string, price double"`), an Arrow schema,
                or "infer" for those of the first rows that are encoded. None for the columns as they are ("json"), or
                with a registry for the latest schema of the subject.
            format: "json" writes what Spark's `to_json` writes, "avro" data without its schema, "protobuf" messages.
            column: Whether keys or values are encoded: it names the subject.
            registry: Where the schema is registered, or its URL. Each value then begins with the schema id, as
                Confluent's serializers write it.
            subject: The subject of the schema; None for that of the topic, `TOPIC-value` or `TOPIC-key`.
            message: The name of the Protobuf message; None for the first of its file, or that of the class.
            auto_register: Whether to register a schema that is not a version of the subject; False raises an error
                instead.
            strategy: How the subject is named without `subject`: "topic" for `TOPIC-value` or `TOPIC-key`, "record"
                for the name of the record, "topic_record" for `TOPIC-RECORD`. The name is that of an Avro schema or of
                a Protobuf message, or the title of a JSON Schema.
            references: Schemas of the registry that the schema names, each a `name`, `subject` and `version`. The files
                that a generated Protobuf class imports need none: each is registered under its own name.
            normalize: Whether the registry first brings the schema into its normal form.
            id_in: "value" to write the schema's id before each value, "header" to write none: `header` then returns
                the header that each record needs.

        Raises:
            ArgumentError: The schema or an option can never work.
        """
        if format not in _FORMATS:
            raise ArgumentError(f"format must be one of {', '.join(map(repr, _FORMATS))}, not {format!r}")
        if column not in {"value", "key"}:
            raise ArgumentError(f'column must be "key" or "value", not {column!r}')
        if message is not None and format != "protobuf":
            raise ArgumentError(f"message needs format 'protobuf', not {format!r}")
        known: SchemaRegistry | None = registry_of(registry)
        schema = self._as_text(schema, format)
        files: tuple[bytes, ...] = ()
        if format == "protobuf" and schema is not None and not isinstance(schema, RegisteredSchema):
            found, named = descriptors(schema)
            files, message = tuple(found), message or named
        elif schema is not None and not isinstance(schema, (str, RegisteredSchema)):
            raise ArgumentError(
                f"a schema for format {format!r} must be a text or a RegisteredSchema, not {type(schema).__name__}"
            )
        if schema is None and registry is None and format != "json":
            raise ArgumentError(f"format {format!r} needs a schema, or a registry that has one")
        if schema is not None and registry is None and format == "json":
            raise ArgumentError(
                "columns are written as JSON without a schema: leave it out, or pass the registry that has its id"
            )
        if registry is None and subject is not None:
            raise ArgumentError("subject needs a registry: pass registry=SchemaRegistry(url)")
        self._infers = schema == "infer"
        # A generated class would not pickle; its files do.
        self._schema = schema if isinstance(schema, (str, RegisteredSchema)) else None
        self._files, self._message = files, message
        self._format: EncodeFormat = format
        self._column: Literal["value", "key"] = column
        self._registry = known
        self._subject = subject
        self._auto_register = auto_register
        self._strategy: Strategy = strategy
        self._references = [dict(one) for one in references]
        self._normalize, self._in_header = normalize, id_in == "header"
        self._refuse_options(id_in)
        self._start()
        if registry is None and schema is not None and not self._infers:
            # Raise errors of the schema at once.
            self._encoder(None)

    def _refuse_options(self, id_in: str) -> None:
        if self._strategy not in STRATEGIES:
            raise ArgumentError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, not {self._strategy!r}")
        if id_in not in {"value", "header"}:
            raise ArgumentError(f'id_in must be "value" or "header", not {id_in!r}')
        if self._registry is None and (self._in_header or self._references or self._normalize):
            raise ArgumentError("id_in, references and normalize need a registry: pass registry=SchemaRegistry(url)")

    @staticmethod
    def _as_text(schema: Any, format: EncodeFormat) -> Any:  # noqa: A002
        """A schema that is declared as columns as that of the format."""
        schema = unmarked(text_of(schema, format))
        if schema == "infer" and format != "avro":
            raise ArgumentError(f"only Avro schemas can be inferred, not {format!r}: pass the schema")
        if format != "avro" or schema == "infer":
            return schema
        is_ddl = isinstance(schema, str) and schema.strip()[:1] not in {*'{["', ""}
        if is_ddl or hasattr(schema, "__arrow_c_schema__"):
            return TypedEncoder.avro_schema(schema)
        return schema

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._by_subject: dict[str | None, TypedEncoder] = {}
        self._latest: dict[str, RegisteredSchema] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in {"_lock", "_by_subject", "_latest"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def schema(self) -> str | None:
        """The text of the schema that is written; None if it is not text, or not known yet."""
        schema = self._schema
        text = schema.text if isinstance(schema, RegisteredSchema) else schema
        return None if text == "infer" else text

    def encode(self, data: Any, *, topic: str | None = None) -> Encoded:
        """Encode each row, on this thread and without the GIL.

        Args:
            data: A table, a record batch or a column of structs of any Arrow library, such as `pyarrow.Table`. All of
                its columns are encoded. Or dicts, one per row, through pyarrow: a list of them, in which None has no
                value, or a single one.
            topic: The topic that the rows go to, for a registry's subject.

        Returns:
            The bytes of each row, as a column: `producer.send_many(topic, encoded)` sends it, `pyarrow.array(encoded)`
            makes it a column of a table. A row of a column of structs that is null has no value.

        Raises:
            EncodeError: A row does not fit the schema. It names the row, the column and the reason.
            ArgumentError: The columns do not fit the schema.
            NotFoundError: The registry does not have the schema.
            UnreachableError: The registry cannot be reached.
        """
        subject = self._subject_of(topic)
        if are_rows(data):
            data = rows_as_arrow(data, self._columns(subject))
        if self._infers and self._schema == "infer":
            data = self._infer(data)
        if self._in_header:
            # Nothing is before the values, so they do not depend on the registry's response.
            encoded = (self._unregistered() if self._is_text() else self._resolve(subject)).typed().encode(data)
            self._encoder(subject)
            return encoded
        if subject is not None and subject not in self._by_subject and self._is_text():
            # Columns that do not fit a schema raise an error before it is registered.
            return self._unregistered()._replace(id=0).typed().encode(data, lambda: self._encoder(subject))
        return self._encoder(subject).encode(data)

    def header(self, *, topic: str | None = None) -> tuple[str, bytes]:
        """The header that each record needs whose value was encoded with `id_in="header"`.

        Args:
            topic: As for `encode`.

        Returns:
            The name, `__value_schema_id` or `__key_schema_id`, and the schema's GUID after the magic byte 1. For
            Protobuf the indexes of the message in its file follow.

        Raises:
            ArgumentError: The encoder writes the id before each value.
            NotFoundError: The registry does not have the schema, or reports no GUID.
            UnreachableError: The registry cannot be reached.
        """
        if not self._in_header:
            raise ArgumentError("the encoder writes the id before each value: make it with id_in='header'")
        resolved = self._resolve(self._subject_of(topic))
        indexes = resolved.typed().message_indexes()
        return f"__{self._column}_schema_id", b"\1" + uuid.UUID(resolved.guid).bytes + indexes

    def resolve(
        self, topic: str | None = None, check: Callable[[Callable[[Any], Encoded]], object] | None = None
    ) -> ResolvedSchema:
        """Return the schema and its id for the rows of a topic, from the registry.

        Args:
            topic: As for `encode`.
            check: Called once with the encoding function, before a schema is registered; it raises to prevent that.

        Returns:
            The format with the schema's text and references, or descriptors; and the id or GUID that the registry gave
            it, None without a registry.

        Raises:
            ArgumentError: The registry's schema is of another format, or the subject of a topic is needed and `topic`
                is None.
            NotFoundError: The registry does not have the schema, and automatic registration is off.
            UnreachableError: The registry cannot be reached.
            Exception: What `check` raises; nothing was registered.
        """
        return self._resolve(self._subject_of(topic), check)

    def _columns(self, subject: str | None) -> Any:
        """The columns that values of the schema are read as, in whose types dicts are written; None for any types."""
        if self._format == "json" or self._infers:
            return None
        if self._files:
            return TypedDecoder("protobuf", self._column, descriptors=list(self._files), message=self._message)
        schema: Any = self._schema
        if schema is None and self._registry is not None and subject is not None:
            if subject not in self._latest:
                self._latest[subject] = self._registry.latest(subject)
            schema = self._latest[subject]
        return Decoder(schema, self._format, message=self._message)

    def _infer(self, data: Any) -> Any:
        """Take the columns of the first rows as the schema.

        It returns the rows, of which a stream is read only once.
        """
        import pyarrow as pa

        table = pa.table(data) if not isinstance(data, pa.Array) else pa.Table.from_struct_array(data)
        with self._lock:
            if self._schema == "infer":
                self._schema = TypedEncoder.avro_schema(table.schema)
        return data if isinstance(data, pa.Array) else table

    def _subject_of(self, topic: str | None) -> str | None:
        if self._registry is None or self._subject is not None:
            return self._subject
        if isinstance(self._schema, RegisteredSchema):
            return None
        name = self._message if self._format == "protobuf" else record_name(self._format, self.schema)
        return subject_by(self._strategy, topic, self._column, name)

    def _is_text(self) -> bool:
        """Whether the schema may be registered: it is neither from a registry nor the latest one there."""
        return bool(self._files) or isinstance(self._schema, str)

    def _unregistered(self) -> ResolvedSchema:
        text = None if isinstance(self._schema, RegisteredSchema) else self._schema
        texts: dict[str, None] = {}
        if self._registry is not None and self._format == "avro":
            for one in self._references:
                found = self._registry.version(one["subject"], one["version"])
                texts |= dict.fromkeys((*found.references, found.text))
        return ResolvedSchema(self._format, text, tuple(texts), descriptors=self._files, message=self._message)

    def _encoder(self, subject: str | None) -> TypedEncoder:
        found = self._by_subject.get(subject)
        if found is None:
            with self._lock:
                found = self._by_subject.get(subject)
                if found is None:
                    found = self._by_subject[subject] = self._resolve(subject).typed()
        return found

    def _resolve(
        self, subject: str | None, check: Callable[[Callable[[Any], Encoded]], object] | None = None
    ) -> ResolvedSchema:
        registry, schema = self._registry, self._schema
        if registry is not None and subject is not None and not self._is_text():
            schema = schema or registry.latest(subject)
        is_known = isinstance(schema, RegisteredSchema)
        resolved = self._registered(schema) if isinstance(schema, RegisteredSchema) else self._unregistered()
        registers = registry is not None and subject is not None and not is_known
        # A schema that can never work is not registered.
        encoder = (resolved._replace(id=0) if registers else resolved).encoder()
        if check is not None:
            check(encoder)
        if registry is None or subject is None or is_known:
            return resolved
        found = self._in_registry(registry, subject, *self._text(registry), whole=self._in_header)
        return resolved._replace(id=found.id, guid=self._guid(found) if self._in_header else None)

    def _in_registry(
        self, registry: SchemaRegistry, subject: str, text: str, references: list[dict[str, Any]], *, whole: bool
    ) -> RegisteredSchema:
        """A schema in a subject, registered before if that is on; if `whole`, with its version and GUID."""
        kind = _OF_FORMATS[self._format]
        try:
            if self._auto_register:
                number = registry.register(subject, text, kind, references, normalize=self._normalize)
                if not whole:
                    return RegisteredSchema(kind, text, id=number)
            return registry.find(subject, text, kind, references, normalize=self._normalize)
        except NotFoundError as error:
            raise NotFoundError(
                f"{error}: subject {subject!r} does not have this schema, and automatic registration is off: "
                "register it, or turn that on (auto_register, auto.register.schemas)"
            ) from None

    @staticmethod
    def _guid(schema: RegisteredSchema) -> str:
        if schema.guid is None:
            raise NotFoundError(f"the registry reports no GUID of the schema with id {schema.id}: use id_in='value'")
        return schema.guid

    def _registered(self, schema: RegisteredSchema) -> ResolvedSchema:
        """The resolved form of a schema from a registry."""
        if TYPES.get(schema.type) != self._format:
            raise ArgumentError(
                f"the schema of subject {schema.subject!r} is of type {schema.type}, but the format is {self._format!r}"
            )
        number = None if self._registry is None else schema.id
        if number is None and self._registry is not None:
            raise ArgumentError("the schema from the registry has no id: use registry.latest(subject)")
        guid = self._guid(schema) if self._in_header else None
        if self._format == "protobuf":
            files = tuple(schema.descriptors())
            return ResolvedSchema(self._format, descriptors=files, message=self._message, id=number, guid=guid)
        return ResolvedSchema(self._format, schema.text, schema.references, id=number, guid=guid)

    def _text(self, registry: SchemaRegistry) -> tuple[str, list[dict[str, Any]]]:
        """The schema and its references as a registry takes them."""
        if not self._files:
            return str(self._schema), self._references
        # By name, what each file has that an earlier one was registered for.
        known: dict[str, dict[str, Any]] = {}
        for count in range(1, len(self._files)):
            name = file_name(self._files[count - 1])
            if not name.startswith(_GOOGLES):
                text, references = self._file(list(self._files[:count]), known)
                version = self._in_registry(registry, name, text, references, whole=True).version
                known[name] = {"name": name, "subject": name, "version": version}
        return self._file(list(self._files), known)

    def _file(self, files: list[bytes], known: dict[str, dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
        """The last of several Protobuf files in base64, and the references for what it imports."""
        file, imports = TypedEncoder.registered_file(files)
        known = {**known, **{one["name"]: one for one in self._references}}
        others = [name for name in imports if not name.startswith(_GOOGLES)]
        if missing := [name for name in others if name not in known]:
            raise ArgumentError(
                f"the Protobuf file imports {', '.join(missing)}, which a registry needs as separate schemas: "
                "pass the generated class, or references of schemas that are registered"
            )
        return base64.b64encode(file).decode(), [known[name] for name in others]
