"""Full names of the types in a Protobuf file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pb2

from ottla.testing._registry.errors import SchemaError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

_FIELD = descriptor_pb2.FieldDescriptorProto


def resolve(file: FileDescriptorProto, known: list[FileDescriptorProto]) -> FileDescriptorProto:
    """A copy of a file whose types have their full names and are known to be messages or enums.

    Raises:
        SchemaError: A type is unknown.
    """
    made = descriptor_pb2.FileDescriptorProto()
    made.CopyFrom(file)
    kinds: dict[str, FieldDescriptorProto.Type.ValueType] = {}
    for one in [*known, file]:
        kinds |= dict(_kinds(one))
    for scope, message in messages(made):
        for field in [*message.field, *message.extension]:
            _resolve(field, scope, kinds)
    for field in made.extension:
        _resolve(field, made.package, kinds)
    for service in made.service:
        for method in service.method:
            method.input_type = _full(method.input_type, made.package, kinds)
            method.output_type = _full(method.output_type, made.package, kinds)
    return made


def messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """The messages of a file with their full names, each before those in it."""

    def below(message: DescriptorProto, scope: str) -> Iterator[tuple[str, DescriptorProto]]:
        name = f"{scope}.{message.name}" if scope else message.name
        yield name, message
        for nested in message.nested_type:
            yield from below(nested, name)

    for message in file.message_type:
        yield from below(message, file.package)


def _kinds(file: FileDescriptorProto) -> Iterator[tuple[str, FieldDescriptorProto.Type.ValueType]]:
    prefix = f"{file.package}." if file.package else ""
    for enum in file.enum_type:
        yield f"{prefix}{enum.name}", _FIELD.TYPE_ENUM
    for name, message in messages(file):
        yield name, _FIELD.TYPE_MESSAGE
        for enum in message.enum_type:
            yield f"{name}.{enum.name}", _FIELD.TYPE_ENUM


def _resolve(field: FieldDescriptorProto, scope: str, kinds: dict[str, FieldDescriptorProto.Type.ValueType]) -> None:
    if field.type_name:
        field.type_name = _full(field.type_name, scope, kinds)
        if field.type != _FIELD.TYPE_GROUP:
            field.type = kinds[field.type_name[1:]]
    if field.extendee:
        field.extendee = _full(field.extendee, scope, kinds)


def _full(name: str, scope: str, kinds: dict[str, FieldDescriptorProto.Type.ValueType]) -> str:
    """The full name of a type, with a dot before it: that of the innermost scope that has the type."""
    if name.startswith("."):
        if name[1:] in kinds:
            return name
    else:
        parts = scope.split(".") if scope else []
        for count in range(len(parts), -1, -1):
            full = ".".join([*parts[:count], name])
            if full in kinds:
                return f".{full}"
    raise SchemaError(f'"{name}" is not defined')


def json_name(name: str) -> str:
    """The name in JSON that a field has by default."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)
