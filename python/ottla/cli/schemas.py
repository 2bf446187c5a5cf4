"""Schemas that the command line names: `registry`, or a format and a file such as `avro:order.avsc`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import ottla
from ottla.cli.formats.rows import Rows
from ottla.errors import ArgumentError, NotFoundError

HELP = """\
registry                     the schema that the id in each record names, as Confluent's serializers write it
avro:FILE                    an Avro schema, for data without ids
json                         JSON whose fields are found in the first records
json:FILE                    a JSON Schema, or a text of columns: id bigint, name string
protobuf:FILE[:MESSAGE]      descriptors (protoc --include_imports --descriptor_set_out=FILE), or a .proto file if
                             protoc is installed
avro:FILE@registry           also for protobuf and json: the data has ids of a registry, and is read as this schema"""

_FORMATS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json"}
# Seconds that protoc may take.
_PATIENCE = 60
Column = Literal["key", "value"]


class Named(NamedTuple):
    """A schema of the command line.

    Attributes:
        format: `avro`, `json` or `protobuf`; `registry` for that of the subject.
        schema: The schema; None for that of the registry, or of the data.
        message: The message of a Protobuf schema.
        framed: Whether data begins with the id of a registry's schema.
    """

    format: str
    schema: Any = None
    message: str | None = None
    framed: bool = False


def named(text: str) -> Named:
    """Read what the command line names.

    Raises:
        ArgumentError: The text does not name a schema, or its file cannot be read.
    """
    if text == "registry":
        return Named("registry", framed=True)
    form, colon, rest = text.partition(":")
    if form not in {"avro", "json", "protobuf"} or (form != "json" and not rest) or (colon and not rest):
        raise ArgumentError(f"{text!r} names no schema; it is one of:\n{HELP}")
    path, framed = rest.removesuffix("@registry"), rest.endswith("@registry")
    message: str | None = None
    if form == "protobuf":
        before, found, after = path.rpartition(":")
        # The colon may be that of a drive.
        path, message = (before, after) if found and len(before) > 1 else (path, None)
        return Named(form, _descriptors(Path(path)), message, framed)
    return Named(form, _read(Path(path)).decode() if path else "infer", None, framed)


def decoder(text: str, column: Column, registry: str | None) -> Callable[[Rows], Any]:
    """How keys or values are decoded.

    Args:
        text: The schema, as the command line names it.
        column: Which of the two.
        registry: The URL of the registry.

    Returns:
        A function that gives a column of structs with an item for each record of the batch.

    Raises:
        ArgumentError: The schema is not valid, or there is no registry.
    """
    wanted = named(text)
    if wanted.framed and registry is None:
        raise ArgumentError(f"--decode-{column} {text} needs --registry URL")
    if wanted.format == "registry":
        return _ByRegistry(ottla.SchemaRegistry(str(registry)), column)
    made = ottla.Decoder(
        wanted.schema,
        wanted.format,  # type: ignore[arg-type] # one of the three
        column=column,
        registry=registry if wanted.framed else None,
        message=wanted.message,
    )
    return lambda rows: structs(made.decode(rows.batch), rows.batch, column)


class _ByRegistry:
    """Decodes by the subject of each topic, whose type is known when the first records are there."""

    def __init__(self, registry: ottla.SchemaRegistry, column: Column) -> None:
        self._registry = registry
        self._column: Column = column
        self._decoders: dict[str, ottla.Decoder] = {}

    def __call__(self, rows: Rows) -> Any:
        topics = sorted({at.topic for at in rows.batch.partitions})
        if len(topics) > 1:
            raise ArgumentError(
                f"--decode-{self._column} registry reads one topic at a time, and here are {', '.join(topics)}"
            )
        if not topics:
            return structs(None, rows.batch, self._column)
        (topic,) = topics
        if topic not in self._decoders:
            subject = f"{topic}-{self._column}"
            try:
                schema = self._registry.latest(subject)
            except NotFoundError as error:
                raise NotFoundError(f"the registry has no subject {subject} for topic {topic}: {error}") from error
            form: Any = _FORMATS.get(schema.type, schema.type)
            self._decoders[topic] = ottla.Decoder(schema, form, column=self._column, registry=self._registry)
        return structs(self._decoders[topic].decode(rows.batch), rows.batch, self._column)


def structs(decoded: Any, batch: ottla.Batch, column: Column) -> Any:
    """The typed columns as one column of structs, which is null for records without a key or value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decoded is None:
        return pa.nulls(len(batch))
    table = decoded.to_arrow().combine_chunks()
    arrays = [found.chunk(0) if found.num_chunks else pa.array([], found.type) for found in table.columns]
    missing = pc.is_null(batch.to_arrow([column]).column(0)).combine_chunks()
    return pa.StructArray.from_arrays(arrays, fields=list(table.schema), mask=missing)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArgumentError(f"the schema {path} cannot be read: {error.strerror}") from error


def _descriptors(path: Path) -> bytes:
    """The descriptors of a Protobuf file."""
    # `--help` needs none of them.
    import shutil
    import subprocess
    import tempfile

    data = _read(path)
    if path.suffix != ".proto":
        return data
    protoc = shutil.which("protoc")
    if protoc is None:
        raise ArgumentError(
            f"{path} is source, and protoc, which compiles it, is not installed; elsewhere, run "
            f"protoc --include_imports --descriptor_set_out={path.stem}.desc {path}, and pass that file"
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        command = [protoc, f"--proto_path={path.parent}", "--include_imports", f"--descriptor_set_out={out}", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)  # noqa: S603 a path of the user
        if done.returncode:
            raise ArgumentError(f"protoc does not accept {path}: {done.stderr.strip()}")
        return out.read_bytes()


def encoder(text: str, column: Column, registry: str | None) -> Callable[[Any, str], list[bytes | None]]:
    """How objects are encoded to keys or values.

    Args:
        text: The schema, as the command line names it.
        column: Which of the two.
        registry: The URL of the registry.

    Returns:
        A function that takes objects, or a column of structs, and a topic, and gives the bytes of each.

    Raises:
        ArgumentError: The schema is not valid, or there is no registry.
    """
    wanted = named(text)
    if wanted.framed and registry is None:
        raise ArgumentError(f"--encode-{column} {text} needs --registry URL")
    if wanted.format == "json" and not wanted.framed:
        raise ArgumentError(f"JSON without a registry is sent as it stands: leave --encode-{column} out")
    if wanted.format == "registry":
        known = ottla.SchemaRegistry(str(registry))
        made: dict[str, ottla.Encoder] = {}

        def by_subject(rows: Any, topic: str) -> list[bytes | None]:
            if topic not in made:
                schema = known.latest(f"{topic}-{column}")
                form: Any = _FORMATS.get(schema.type, schema.type)
                made[topic] = ottla.Encoder(schema, form, column=column, registry=known)
            return _encoded(made[topic], rows, topic)

        return by_subject
    form: Any = wanted.format
    fixed = ottla.Encoder(
        wanted.schema, form, column=column, registry=registry if wanted.framed else None, message=wanted.message
    )
    return lambda rows, topic: _encoded(fixed, rows, topic)


def _encoded(made: ottla.Encoder, rows: Any, topic: str) -> list[bytes | None]:
    encoded = made.encode(rows, topic=topic)
    return [encoded[row] for row in range(len(encoded))]
