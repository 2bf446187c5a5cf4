"""What changed between two Protobuf files, and whether the newer one reads what the older one wrote.

The names and the rules are those of Confluent's registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import descriptor_pb2

from ottla.testing._registry.protobuf_names import messages

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

Difference = tuple[str, str]
"""What changed, and where."""

_FIELD = descriptor_pb2.FieldDescriptorProto
_DESCRIPTIONS = {
    "PACKAGE_CHANGED": "The package at 'PATH' in the %s schema does not match the package in the %s schema",
    "MESSAGE_REMOVED": "The %s schema is missing a MESSAGE type at path 'PATH' in the %s schema",
    "FIELD_KIND_CHANGED": "The type of a field at path 'PATH' in the %s schema does not match the %s schema",
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path 'PATH' in the %s schema does not match its kind in the %s schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path 'PATH' in the %s schema does not match its type in the %s schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path 'PATH' in the %s schema does not match its label in the %s schema"
    ),
    "REQUIRED_FIELD_ADDED": "A required field at path 'PATH' in the %s schema is missing in the %s schema",
    "REQUIRED_FIELD_REMOVED": "The %s schema is missing a required field at path 'PATH' in the %s schema",
    "ONEOF_FIELD_REMOVED": "The %s schema is missing a oneof field at path 'PATH' in the %s schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path 'PATH' in the %s schema are outside a oneof in the %s schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path 'PATH' in the %s schema is outside the oneof in the %s schema"
    ),
}
"""The incompatible changes."""
_NUMBERS = {
    _FIELD.TYPE_INT32: "number",
    _FIELD.TYPE_INT64: "number",
    _FIELD.TYPE_UINT32: "number",
    _FIELD.TYPE_UINT64: "number",
    _FIELD.TYPE_BOOL: "number",
    _FIELD.TYPE_ENUM: "number",
    _FIELD.TYPE_SINT32: "zigzag",
    _FIELD.TYPE_SINT64: "zigzag",
    _FIELD.TYPE_STRING: "bytes",
    _FIELD.TYPE_BYTES: "bytes",
    _FIELD.TYPE_FIXED32: "fixed32",
    _FIELD.TYPE_SFIXED32: "fixed32",
    _FIELD.TYPE_FIXED64: "fixed64",
    _FIELD.TYPE_SFIXED64: "fixed64",
    _FIELD.TYPE_FLOAT: "float",
    _FIELD.TYPE_DOUBLE: "double",
}
"""How the value of a type is written: types with the same one can replace each other."""


class Types:
    """The messages of a file and of its imports, by name."""

    def __init__(self, file: FileDescriptorProto, imports: list[FileDescriptorProto]) -> None:
        self.file = file
        self.is_proto3 = file.syntax == "proto3"
        self.messages: dict[str, DescriptorProto] = {}
        self._packages: dict[str, str] = {}
        for one in [*imports, file]:
            for name, message in messages(one):
                self.messages[name] = message
                self._packages[name] = one.package

    def local(self, name: str) -> str:
        """A message's name without its package."""
        package = self._packages[name]
        return name.removeprefix(f"{package}.") if package else name

    def label(self, field: FieldDescriptorProto) -> int | None:
        """The label that is written; None without one."""
        if field.label != _FIELD.LABEL_OPTIONAL:
            return int(field.label)
        is_implicit = self.is_proto3 and not field.proto3_optional
        return (
            None if is_implicit or (field.HasField("oneof_index") and not field.proto3_optional) else int(field.label)
        )


def is_compatible(kind: str) -> bool:
    """Whether a change is compatible."""
    return kind not in _DESCRIPTIONS


def described(kind: str, path: str) -> str:
    """An incompatible change, as the registry reports it."""
    return f'{{errorType:"{kind}", description:"{_DESCRIPTIONS[kind].replace("PATH", path)}"}}'


def compare(original: Types, update: Types) -> list[Difference]:
    """What changed."""
    return _Comparison(original, update).files()


class _Comparison:
    def __init__(self, original: Types, update: Types) -> None:
        self._original, self._update = original, update
        # Pairs of messages that are compared: messages may contain themselves.
        self._begun: set[tuple[str, str]] = set()

    def files(self) -> list[Difference]:
        old, new = self._original.file, self._update.file
        found = [] if old.package == new.package else [("PACKAGE_CHANGED", "#/")]
        return found + self._elements(old, new, "#/", old.package, new.package)

    def _elements(
        self,
        old: FileDescriptorProto | DescriptorProto,
        new: FileDescriptorProto | DescriptorProto,
        path: str,
        old_scope: str,
        new_scope: str,
    ) -> list[Difference]:
        """The messages and enums of a file or in a message."""
        olds, news = _nested(old), _nested(new)
        found = []
        for name in [*olds, *(one for one in news if one not in olds)]:
            here = f"{path}{name}"
            if name not in news:
                found.append(("MESSAGE_REMOVED", here))
            elif name not in olds:
                found.append(("MESSAGE_ADDED", here))
            else:
                found += self._messages(_join(old_scope, name), _join(new_scope, name), here)
                if list(olds).index(name) != list(news).index(name):
                    found.append(("MESSAGE_MOVED", here))
        old_enums, new_enums = ({one.name: one for one in each.enum_type} for each in (old, new))
        for name in [*old_enums, *(one for one in new_enums if one not in old_enums)]:
            here = f"{path}{name}"
            if name not in new_enums or name not in old_enums:
                found.append((f"ENUM_{'REMOVED' if name in old_enums else 'ADDED'}", here))
            else:
                found += _enums(old_enums[name], new_enums[name], here)
        return found

    def _messages(self, old_name: str, new_name: str, path: str) -> list[Difference]:
        old, new = self._original.messages[old_name], self._update.messages[new_name]
        found = []
        if (old_name, new_name) not in self._begun:
            self._begun.add((old_name, new_name))
            found = self._fields(old, new, path)
        return found + self._elements(old, new, f"{path}/", old_name, new_name)

    def _fields(self, old: DescriptorProto, new: DescriptorProto, path: str) -> list[Difference]:
        olds, news = ({field.number: field for field in each.field} for each in (old, new))
        old_oneofs, new_oneofs = _oneofs(old), _oneofs(new)
        old_of, new_of = _oneof_of(old_oneofs), _oneof_of(new_oneofs)
        found = []
        for name, numbers in new_oneofs.items():
            moved = [number for number in numbers if number in olds and number not in old_of]
            origins = {old_of[number] for number in numbers if number in old_of}
            if len(moved) + len(origins) > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(moved) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                found.append((kind, f"{path}/{name}"))
        found += [
            (f"ONEOF_{'REMOVED' if name in old_oneofs else 'ADDED'}", f"{path}/{name}")
            for name in sorted(old_oneofs.keys() ^ new_oneofs.keys())
        ]
        # All members went with their oneof.
        gone = {name for name, numbers in old_oneofs.items() if name not in new_oneofs and not numbers & news.keys()}
        for number in sorted(olds.keys() | news.keys()):
            was, now = old_of.get(number), new_of.get(number)
            here = f"{path}/{number}" if now is None else f"{path}/{now}/{number}"
            if number not in news:
                if was is None:
                    found.append((f"{_required(olds[number])}FIELD_REMOVED", here))
                elif was not in gone:
                    found.append(("ONEOF_FIELD_REMOVED", f"{path}/{was}/{number}"))
            elif number not in olds:
                found.append((f"{_required(news[number]) if now is None else 'ONEOF_'}FIELD_ADDED", here))
            else:
                if was is not None and now is None:
                    found.append(("ONEOF_FIELD_MOVED_TO_TOP_LEVEL", here))
                found += self._field(olds[number], news[number], here)
        return found

    def _field(self, old: FieldDescriptorProto, new: FieldDescriptorProto, path: str) -> list[Difference]:
        found = [] if old.name == new.name else [("FIELD_NAME_CHANGED", path)]
        return found + self._types(old, new, path, labels=True)

    def _types(
        self, old: FieldDescriptorProto, new: FieldDescriptorProto, path: str, *, labels: bool
    ) -> list[Difference]:
        old_map, new_map = self._entry(self._original, old), self._entry(self._update, new)
        if (old_map is None) != (new_map is None) or (old.type in _NUMBERS) != (new.type in _NUMBERS):
            return [("FIELD_KIND_CHANGED", path)]
        if old_map is not None and new_map is not None:
            pairs = zip(old_map.field, new_map.field, strict=True)
            return [one for before, after in pairs for one in self._types(before, after, path, labels=False)]
        if old.type in _NUMBERS:
            return self._scalars(old, new, path, labels=labels)
        return self._named(old.type_name[1:], new.type_name[1:], path)

    @staticmethod
    def _entry(types: Types, field: FieldDescriptorProto) -> DescriptorProto | None:
        """The entries of a map."""
        message = types.messages.get(field.type_name[1:])
        return message if message is not None and message.options.map_entry else None

    def _scalars(
        self, old: FieldDescriptorProto, new: FieldDescriptorProto, path: str, *, labels: bool
    ) -> list[Difference]:
        kind = _NUMBERS[old.type]
        if kind != _NUMBERS[new.type]:
            return [("FIELD_SCALAR_KIND_CHANGED", path)]
        before, after = self._original.label(old), self._update.label(new)
        if not labels or before is None or after is None or before == after:
            return []
        return [(f"FIELD_{'STRING_OR_BYTES' if kind == 'bytes' else 'NUMERIC'}_LABEL_CHANGED", path)]

    def _named(self, old: str, new: str, path: str) -> list[Difference]:
        local = self._original.local(old)
        if local != self._update.local(new):
            return [("FIELD_NAMED_TYPE_CHANGED", path)]
        found = self._messages(old, new, f"#/{local.replace('.', '/')}")
        return found if all(is_compatible(kind) for kind, _ in found) else [*found, ("FIELD_NAMED_TYPE_CHANGED", path)]


def _nested(holder: FileDescriptorProto | DescriptorProto) -> dict[str, DescriptorProto]:
    inner = holder.nested_type if isinstance(holder, descriptor_pb2.DescriptorProto) else holder.message_type
    return {one.name: one for one in inner if not one.options.map_entry}


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _required(field: FieldDescriptorProto) -> str:
    return "REQUIRED_" if field.label == _FIELD.LABEL_REQUIRED else ""


def _oneofs(message: DescriptorProto) -> dict[str, set[int]]:
    """The numbers of the fields of each oneof that is written."""
    found: dict[str, set[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, set()).add(field.number)
    return found


def _oneof_of(oneofs: dict[str, set[int]]) -> dict[int, str]:
    return {number: name for name, numbers in oneofs.items() for number in numbers}


def _enums(old: EnumDescriptorProto, new: EnumDescriptorProto, path: str) -> list[Difference]:
    olds, news = ({value.number: value.name for value in each.value} for each in (old, new))
    found = []
    for number in sorted(olds.keys() | news.keys()):
        if number not in news or number not in olds:
            found.append((f"ENUM_CONST_{'REMOVED' if number in olds else 'ADDED'}", f"{path}/{number}"))
        elif olds[number] != news[number]:
            found.append(("ENUM_CONST_CHANGED", f"{path}/{number}"))
    return found
