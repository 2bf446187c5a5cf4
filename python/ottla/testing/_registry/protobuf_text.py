"""A Protobuf descriptor as the text of a .proto file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, message_factory, text_encoding, text_format

from ottla.testing._registry.protobuf_names import json_name
from ottla.testing._registry.protobuf_parser import SCALARS

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

_FIELD = descriptor_pb2.FieldDescriptorProto
_NAMES = {number: name for name, number in SCALARS.items()}
_LABELS = {_FIELD.LABEL_REQUIRED: "required ", _FIELD.LABEL_REPEATED: "repeated "}


def written(file: FileDescriptorProto, pool: DescriptorPool) -> str:
    """The text of a file; the pool has the options that it uses."""
    return _Writer(file, pool).text()


class _Writer:
    def __init__(self, file: FileDescriptorProto, pool: DescriptorPool) -> None:
        self._file, self._pool = file, pool
        self._syntax = file.syntax or "proto2"

    def text(self) -> str:
        file = self._file
        if self._syntax == "editions":
            head = [f'edition = "{descriptor_pb2.Edition.Name(file.edition).removeprefix("EDITION_")}";']
        else:
            head = [f'syntax = "{self._syntax}";']
        if file.package:
            head.append(f"package {file.package};")
        kinds = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
        imports = [f"import {kinds.get(index, '')}{_quoted(name)};" for index, name in enumerate(file.dependency)]
        blocks = [head, imports, [f"option {one};" for one in self._options(file.options)]]
        blocks += [list(self._message(one)) for one in file.message_type if not self._is_group(one, file.extension)]
        blocks += [list(self._enum(one)) for one in file.enum_type]
        blocks += [list(self._extensions(file.extension, file.message_type))]
        blocks += [list(self._service(one)) for one in file.service]
        return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"

    @staticmethod
    def _is_group(message: DescriptorProto, fields: Iterable[FieldDescriptorProto]) -> bool:
        return any(
            field.type == _FIELD.TYPE_GROUP and field.type_name.rpartition(".")[2] == message.name for field in fields
        )

    def _message(self, message: DescriptorProto, opening: str | None = None) -> Iterator[str]:
        yield f"{opening or f'message {message.name}'} {{"
        yield from _indented(self._members(message))
        yield "}"

    def _members(self, message: DescriptorProto) -> Iterator[str]:
        yield from (f"option {one};" for one in self._options(message.options))
        yield from _reserved(message.reserved_range, message.reserved_name, 2**29, inclusive=False)
        optional = {field.oneof_index for field in message.field if field.proto3_optional}
        begun: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.oneof_index in optional:
                yield from self._field(field, message)
            elif field.oneof_index not in begun:
                begun.add(field.oneof_index)
                yield from self._oneof(field.oneof_index, message)
        for one in message.extension_range:
            options = f" [{', '.join(found)}]" if (found := list(self._options(one.options))) else ""
            yield f"extensions {_range(one.start, one.end - 1, 2**29 - 1)}{options};"
        fields = [*message.field, *message.extension]
        for nested in message.nested_type:
            if not nested.options.map_entry and not self._is_group(nested, fields):
                yield from self._message(nested)
        for enum in message.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(message.extension, message.nested_type)

    def _oneof(self, index: int, message: DescriptorProto) -> Iterator[str]:
        oneof = message.oneof_decl[index]
        yield f"oneof {oneof.name} {{"
        yield from _indented(f"option {one};" for one in self._options(oneof.options))
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield from _indented(self._field(field, message, in_oneof=True))
        yield "}"

    def _field(self, field: FieldDescriptorProto, message: DescriptorProto, *, in_oneof: bool = False) -> Iterator[str]:
        entry = next(
            (
                one
                for one in message.nested_type
                if one.options.map_entry and field.type_name.rpartition(".")[2] == one.name
            ),
            None,
        )
        options = f" [{', '.join(found)}]" if (found := list(self._field_options(field))) else ""
        if entry is not None:
            key, value = (_type(one) for one in entry.field)
            yield f"map<{key}, {value}> {field.name} = {field.number}{options};"
            return
        label = "" if in_oneof else self._label(field)
        if field.type == _FIELD.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            group = next(one for one in message.nested_type if one.name == name)
            yield from self._message(group, f"{label}group {name} = {field.number}{options}")
            return
        yield f"{label}{_type(field)} {field.name} = {field.number}{options};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label in _LABELS:
            return _LABELS[field.label]
        return "optional " if field.proto3_optional or self._syntax == "proto2" else ""

    def _field_options(self, field: FieldDescriptorProto) -> Iterator[str]:
        if field.HasField("default_value"):
            if field.type == _FIELD.TYPE_STRING:
                yield f"default = {_quoted(field.default_value)}"
            elif field.type == _FIELD.TYPE_BYTES:
                yield f'default = "{field.default_value}"'
            else:
                yield f"default = {field.default_value}"
        if field.HasField("json_name") and field.json_name != json_name(field.name):
            yield f"json_name = {_quoted(field.json_name)}"
        yield from self._options(field.options)

    def _extensions(self, extensions: Iterable[FieldDescriptorProto], nested: Any) -> Iterator[str]:
        holder = descriptor_pb2.DescriptorProto(nested_type=nested)
        for field in extensions:
            yield f"extend {field.extendee} {{"
            yield from _indented(self._field(field, holder))
            yield "}"

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        yield from _indented(f"option {one};" for one in self._options(enum.options))
        yield from _indented(_reserved(enum.reserved_range, enum.reserved_name, 2**31 - 1, inclusive=True))
        for value in enum.value:
            options = f" [{', '.join(found)}]" if (found := list(self._options(value.options))) else ""
            yield f"  {value.name} = {value.number}{options};"
        yield "}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(f"option {one};" for one in self._options(service.options))
        for method in service.method:
            given = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            result = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = list(self._options(method.options))
            if options:
                yield f"  rpc {method.name} ({given}) returns ({result}) {{"
                yield from (f"    option {one};" for one in options)
                yield "  }"
            else:
                yield f"  rpc {method.name} ({given}) returns ({result});"
        yield "}"

    def _options(self, options: Any) -> Iterator[str]:
        """Options as `name = value`: those of Google, extensions that the pool has, and those that are only text."""
        for one in options.uninterpreted_option:
            name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in one.name)
            yield f"{name} = {_uninterpreted(one)}"
        known = options
        try:
            own = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            # The file imports no extensions of options.
            own = None
        if own is not None:
            known = message_factory.GetMessageClass(own)()
            known.ParseFromString(options.SerializeToString())
        for field, value in known.ListFields():
            if field.name == "uninterpreted_option" or (field.name == "map_entry" and not field.is_extension):
                continue
            name = f"({field.full_name})" if field.is_extension else field.name
            if field.is_repeated:
                yield from (f"{name} = {_plain(field, one)}" for one in value)
            else:
                yield f"{name} = {_plain(field, value)}"


def _plain(field: Any, value: Any) -> str:
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return str(value) if found is None else str(found.name)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f'"{text_encoding.CEscape(value, as_utf8=False)}"'
    return _quoted(value) if isinstance(value, str) else repr(value)


def _uninterpreted(one: Any) -> str:
    if one.HasField("aggregate_value"):
        return f"{{ {one.aggregate_value} }}"
    if one.HasField("string_value"):
        return f'"{text_encoding.CEscape(one.string_value, as_utf8=True)}"'
    for part in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if one.HasField(part):
            return str(getattr(one, part))
    return "true"


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or _NAMES[field.type]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _range(start: int, last: int, most: int) -> str:
    return str(start) if start == last else f"{start} to {'max' if last >= most else last}"


def _reserved(ranges: Any, names: Any, most: int, *, inclusive: bool) -> Iterator[str]:
    if ranges:
        ends = (one.end if inclusive else one.end - 1 for one in ranges)
        limit = most if inclusive else most - 1
        yield f"reserved {', '.join(_range(one.start, end, limit) for one, end in zip(ranges, ends, strict=True))};"
    if names:
        yield f"reserved {', '.join(map(_quoted, names))};"
