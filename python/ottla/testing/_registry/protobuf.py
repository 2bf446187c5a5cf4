"""Protobuf schemas, as text or as descriptors."""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from ottla.errors import ConfigError
from ottla.testing._registry.errors import SchemaError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError
except ImportError as error:
    raise ConfigError(
        "the embedded schema registry needs the package protobuf for Protobuf schemas: pip install 'ottla[registry]'"
    ) from error

from ottla.testing._registry.protobuf_names import json_name, messages, resolve
from ottla.testing._registry.protobuf_parser import parse
from ottla.testing._registry.protobuf_rules import Types, compare, described, is_compatible
from ottla.testing._registry.protobuf_text import written

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
# Confluent's own file of options, which every registry of theirs has, and its decimal.
_CONFLUENTS = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; int32 precision = 2; int32 scale = 3; }
    """,
}
_CONFLUENTS["confluent/types/decimal.proto"] = _CONFLUENTS["confluent/type/decimal.proto"]
_DEFAULT_NAME = "default"


class ProtobufSchema:
    """A Protobuf file, with the files that it imports."""

    def __init__(self, file: FileDescriptorProto, imports: dict[str, FileDescriptorProto]) -> None:
        self._imports = imports
        files = [*imports.values(), file]
        self._pool = _pool(files)
        self._resolved = resolve(file, files)
        self.text = written(file, self._pool)
        bare = descriptor_pb2.FileDescriptorProto()
        bare.CopyFrom(self._resolved)
        bare.ClearField("name")
        bare.ClearField("source_code_info")
        for _, message in messages(bare):
            for one in [*message.field, *message.extension]:
                # Compilers write the default name or leave it out.
                if one.json_name == json_name(one.name):
                    one.ClearField("json_name")
        self.identity = base64.b64encode(bare.SerializeToString(deterministic=True)).decode()

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> Self:
        """Read a schema."""
        imports: dict[str, FileDescriptorProto] = {}
        for name, reference in references.items():
            one = _read(reference, name)
            _add_known(one, imports, set(references))
            imports[name] = resolve(one, list(imports.values()))
        file = _read(text, "")
        file.name = file.name or _DEFAULT_NAME
        _add_known(file, imports, set(references))
        return cls(file, imports)

    def normalized(self) -> str:
        """The text with full names, and with fields and imports in order."""
        file = descriptor_pb2.FileDescriptorProto()
        file.CopyFrom(self._resolved)
        order = sorted(range(len(file.dependency)), key=lambda index: str(file.dependency[index]))
        names = [file.dependency[index] for index in order]
        for indexes in (file.public_dependency, file.weak_dependency):
            moved = sorted(order.index(index) for index in indexes)
            del indexes[:]
            indexes.extend(moved)
        file.dependency[:] = names
        for message in file.message_type:
            _sort(message)
        return written(file, self._pool)

    def formatted(self, format: str) -> str:  # noqa: A002 - as the query names it
        """The text; with `serialized`, the descriptor in base64."""
        if format == "serialized":
            return base64.b64encode(self._resolved.SerializeToString()).decode()
        return self.text

    def problems(self, writer: Self, *, lenient: bool) -> list[str]:  # noqa: ARG002 - a policy of JSON Schema
        """Why this schema cannot read what `writer` wrote."""
        found = self.differences(writer)
        return [described(kind, path) for kind, path in found if not is_compatible(kind)]

    def differences(self, writer: Self) -> list[tuple[str, str]]:
        """What changed since another schema, compatible changes too."""
        return compare(writer._types(), self._types())

    def _types(self) -> Types:
        return Types(self._resolved, list(self._imports.values()))


def _read(text: str, name: str) -> FileDescriptorProto:
    """A file as text, or its descriptor in base64."""
    if not _BASE64.fullmatch(text):
        file = parse(text)
    else:
        file = descriptor_pb2.FileDescriptorProto()
        try:
            file.ParseFromString(base64.b64decode(text, validate=True))
        except (binascii.Error, DecodeError) as error:
            raise SchemaError(f"the schema is neither the text of a .proto file nor a descriptor: {error}") from error
    if name:
        file.name = name
    return file


def _add_known(file: FileDescriptorProto, imports: dict[str, FileDescriptorProto], referred: set[str]) -> None:
    """Add the files that a file imports and that need no reference, those that others import first."""
    for name in file.dependency:
        if name in imports or name in referred:
            continue
        if name in _CONFLUENTS:
            one = parse(_CONFLUENTS[name])
            one.name = name
        elif (serialized := _googles(name)) is not None:
            one = descriptor_pb2.FileDescriptorProto.FromString(serialized)
        else:
            raise SchemaError(f'the import "{name}" has no reference')
        _add_known(one, imports, referred)
        imports[name] = resolve(one, list(imports.values()))


def _googles(name: str) -> bytes | None:
    """A file of Google's that is installed, such as `google/protobuf/timestamp.proto`."""
    if not re.fullmatch(r"google/[\w/]+\.proto", name):
        return None
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    serialized: bytes = module.DESCRIPTOR.serialized_pb
    return serialized


def _pool(files: list[FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    """Files that Google's library has checked."""
    pool = descriptor_pool.DescriptorPool()
    earlier: list[FileDescriptorProto] = []
    for file in files:
        earlier.append(file)
        try:
            pool.AddSerializedFile(resolve(file, earlier).SerializeToString())
        except (TypeError, KeyError) as error:
            raise SchemaError(f"{file.name}: {error}") from error
    return pool


def _sort(message: descriptor_pb2.DescriptorProto) -> None:
    message.field.sort(key=lambda field: field.number)
    for nested in message.nested_type:
        _sort(nested)
