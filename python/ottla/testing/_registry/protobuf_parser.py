"""The text of a .proto file as a descriptor, in which types have the names that the text gives them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, text_encoding, text_format

from ottla.testing._registry.errors import SchemaError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

_FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    name: _FIELD.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "bytes",
        "uint32",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
    )
}
_LABELS = {
    "optional": _FIELD.LABEL_OPTIONAL,
    "required": _FIELD.LABEL_REQUIRED,
    "repeated": _FIELD.LABEL_REPEATED,
}
# Ends of ranges that `max` stands for.
_MOST_FIELD, _MOST_ENUM = 2**29, 2**31 - 1
_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DEEPEST = 64


class Word(str):
    """A name that is the value of an option."""

    __slots__ = ()


def parse(text: str) -> FileDescriptorProto:
    """Read a file.

    Raises:
        SchemaError: It is not Protobuf.
    """
    try:
        return _Parser(text).file()
    except (ValueError, TypeError) as error:
        # A number that does not fit, or an option with a value of another type.
        raise SchemaError(str(error)) from error


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text.removeprefix("\ufeff")):
            if match.lastgroup != "skip":
                self._tokens.append((str(match.lastgroup), match[0], line))
            line += match[0].count("\n")
        self._tokens.append(("end", "", line))
        self._at = 0
        self._made = descriptor_pb2.FileDescriptorProto()
        self._depth = 0

    # Tokens.

    def _peek(self) -> str:
        return self._tokens[self._at][1]

    def _next(self) -> str:
        token = self._tokens[self._at]
        if token[0] == "end":
            raise self._wrong("the end of the file")
        self._at += 1
        return token[1]

    def _wrong(self, found: str) -> SchemaError:
        line = self._tokens[min(self._at, len(self._tokens) - 1)][2]
        return SchemaError(f"Syntax error in line {line}: unexpected {found}")

    def _expect(self, symbol: str) -> None:
        if self._peek() != symbol:
            raise self._wrong(f"'{self._peek()}' instead of '{symbol}'")
        self._at += 1

    def _take(self, symbol: str) -> bool:
        if self._peek() == symbol and self._tokens[self._at][0] != "string":
            self._at += 1
            return True
        return False

    def _word(self) -> str:
        if self._tokens[self._at][0] != "word":
            raise self._wrong(f"'{self._peek()}' instead of a name")
        return self._next()

    def _dotted(self) -> str:
        found = "." if self._take(".") else ""
        found += self._word()
        while self._take("."):
            found += f".{self._word()}"
        return found

    def _string(self) -> str:
        return self._bytes().decode("utf-8", "surrogateescape")

    def _bytes(self) -> bytes:
        if self._tokens[self._at][0] != "string":
            raise self._wrong(f"'{self._peek()}' instead of a text")
        found = b""
        while self._tokens[self._at][0] == "string":
            found += text_encoding.CUnescape(self._next()[1:-1])
        return found

    def _int(self) -> int:
        sign = -1 if self._take("-") else 1
        if self._tokens[self._at][0] != "number":
            raise self._wrong(f"'{self._peek()}' instead of a number")
        text = self._next()
        is_octal = len(text) > 1 and text[0] == "0" and text.isdecimal()
        return sign * int(text, 8 if is_octal else 0)

    # Files.

    def file(self) -> FileDescriptorProto:  # noqa: C901 - one branch a statement
        """Read the whole file."""
        made = self._made
        while self._tokens[self._at][0] != "end":
            match self._next():
                case "syntax":
                    self._expect("=")
                    made.syntax = self._string()
                    if made.syntax not in {"proto2", "proto3"}:
                        raise self._wrong(f"syntax {made.syntax!r}")
                    if made.syntax == "proto2":
                        # Descriptors leave the default out.
                        made.ClearField("syntax")
                    self._expect(";")
                case "edition":
                    self._expect("=")
                    made.syntax = "editions"
                    made.edition = descriptor_pb2.Edition.Value(f"EDITION_{self._string()}")
                    self._expect(";")
                case "package":
                    made.package = self._dotted()
                    self._expect(";")
                case "import":
                    self._import()
                case "option":
                    self._option(made.options)
                    self._expect(";")
                case "message":
                    self._message(made.message_type.add())
                case "enum":
                    self._enum(made.enum_type.add())
                case "service":
                    self._service(made.service.add())
                case "extend":
                    self._extend(made.extension, made.message_type)
                case ";":
                    pass
                case other:
                    self._at -= 1
                    raise self._wrong(f"'{other}'")
        return made

    def _import(self) -> None:
        if self._peek() in {"public", "weak"}:
            kind = self._next()
            indexes = self._made.public_dependency if kind == "public" else self._made.weak_dependency
            indexes.append(len(self._made.dependency))
        self._made.dependency.append(self._string())
        self._expect(";")

    # Messages.

    def _message(self, made: DescriptorProto) -> None:
        made.name = self._word()
        self._body(made)

    def _body(self, made: DescriptorProto) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(f"more than {_DEEPEST} nested messages")
        self._expect("{")
        while not self._take("}"):
            self._member(made)
        # As protoc orders them: those that stand for `optional` come after the others.
        for field in made.field:
            if field.proto3_optional:
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=_free_name(f"_{field.name}", made))
        self._depth -= 1

    def _member(self, made: DescriptorProto) -> None:
        start = self._at
        word = self._next()
        following = self._tokens[self._at]
        # These words may also be the types of fields.
        if word == "message" and self._tokens[self._at + 1][1] == "{":
            self._message(made.nested_type.add())
        elif word == "enum" and self._tokens[self._at + 1][1] == "{":
            self._enum(made.enum_type.add())
        elif word == "extend" and (following[0] == "word" or following[1] == "."):
            self._extend(made.extension, made.nested_type)
        elif word == "oneof" and self._tokens[self._at + 1][1] == "{":
            self._oneof(made)
        elif word == "option" and (following[1] == "(" or self._tokens[self._at + 1][1] in {"=", "."}):
            self._option(made.options)
            self._expect(";")
        elif word == "reserved":
            self._reserved(made.reserved_range, made.reserved_name, _MOST_FIELD, inclusive=False)
        elif word == "extensions":
            self._extensions(made)
        elif word == "map" and following[1] == "<":
            self._map(made)
        elif word != ";":
            self._at = start
            self._field(made.field, made.nested_type)

    def _field(self, fields: Any, nested: Any, *, oneof: int | None = None, extendee: str | None = None) -> None:
        label = _LABELS[self._next()] if self._peek() in _LABELS and oneof is None else None
        kind = self._dotted()
        field = fields.add(label=label or _FIELD.LABEL_OPTIONAL)
        if extendee is not None:
            field.extendee = extendee
        if oneof is not None:
            field.oneof_index = oneof
        if kind in SCALARS:
            field.type = SCALARS[kind]
        elif kind == "group":
            field.type = _FIELD.TYPE_GROUP
        else:
            field.type_name = kind
        field.name = self._word()
        self._expect("=")
        field.number = self._int()
        if label == _FIELD.LABEL_OPTIONAL and self._made.syntax == "proto3":
            field.proto3_optional = True
        if self._take("["):
            self._field_options(field)
        if kind == "group":
            group = nested.add(name=field.name)
            field.type_name, field.name = field.name, field.name.lower()
            self._body(group)
        else:
            self._expect(";")

    def _field_options(self, field: FieldDescriptorProto) -> None:
        while True:
            name = self._peek()
            if name == "default" and self._tokens[self._at + 1][1] == "=":
                self._at += 2
                field.default_value = self._default(field)
            elif name == "json_name" and self._tokens[self._at + 1][1] == "=":
                self._at += 2
                field.json_name = self._string()
            else:
                self._option(field.options)
            if self._take("]"):
                return
            self._expect(",")

    def _default(self, field: FieldDescriptorProto) -> str:
        if self._tokens[self._at][0] == "string":
            found = self._bytes()
            return text_encoding.CEscape(found, as_utf8=False) if field.type == _FIELD.TYPE_BYTES else found.decode()
        value = self._value()
        if isinstance(value, bool) or value in {"true", "false"}:
            return str(value).lower()
        if field.type in {_FIELD.TYPE_FLOAT, _FIELD.TYPE_DOUBLE} and not isinstance(value, str):
            shown = repr(float(value))
            return shown.removesuffix(".0")
        return str(value)

    def _map(self, made: DescriptorProto) -> None:
        self._expect("<")
        key = self._dotted()
        self._expect(",")
        value = self._dotted()
        self._expect(">")
        name = self._word()
        self._expect("=")
        entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
        nested = made.nested_type.add(name=entry)
        nested.options.map_entry = True
        field = made.field.add(name=name, number=self._int(), label=_FIELD.LABEL_REPEATED, type_name=entry)
        for number, (part, kind) in enumerate((("key", key), ("value", value)), start=1):
            inner = nested.field.add(name=part, number=number, label=_FIELD.LABEL_OPTIONAL)
            if kind in SCALARS:
                inner.type = SCALARS[kind]
            else:
                inner.type_name = kind
        if self._take("["):
            self._field_options(field)
        self._expect(";")

    def _oneof(self, made: DescriptorProto) -> None:
        index = len(made.oneof_decl)
        oneof = made.oneof_decl.add(name=self._word())
        self._expect("{")
        while not self._take("}"):
            if self._begins_option():
                self._at += 1
                self._option(oneof.options)
                self._expect(";")
            elif not self._take(";"):
                self._field(made.field, made.nested_type, oneof=index)

    def _begins_option(self) -> bool:
        """Whether an option follows, not a field of a type with the name `option`."""
        following, second = (self._tokens[min(self._at + count, len(self._tokens) - 1)][1] for count in (1, 2))
        return self._peek() == "option" and (following == "(" or second in {"=", "."})

    def _extend(self, extensions: Any, nested: Any) -> None:
        extendee = self._dotted()
        self._expect("{")
        while not self._take("}"):
            if not self._take(";"):
                self._field(extensions, nested, extendee=extendee)

    def _reserved(self, ranges: Any, names: Any, most: int, *, inclusive: bool) -> None:
        while True:
            if self._tokens[self._at][0] == "string":
                names.append(self._string())
            elif self._tokens[self._at][0] == "word":
                names.append(self._word())
            else:
                self._range(ranges, most, inclusive=inclusive)
            if self._take(";"):
                return
            self._expect(",")

    def _range(self, ranges: Any, most: int, *, inclusive: bool) -> Any:
        start = self._int()
        end = start
        if self._take("to"):
            end = most - (0 if inclusive else 1) if self._take("max") else self._int()
        return ranges.add(start=start, end=end if inclusive else end + 1)

    def _extensions(self, made: DescriptorProto) -> None:
        first = len(made.extension_range)
        while True:
            self._range(made.extension_range, _MOST_FIELD, inclusive=False)
            if self._take("["):
                options = descriptor_pb2.ExtensionRangeOptions()
                while True:
                    self._option(options)
                    if self._take("]"):
                        break
                    self._expect(",")
                for one in made.extension_range[first:]:
                    one.options.CopyFrom(options)
            if self._take(";"):
                return
            self._expect(",")

    # Enums and services.

    def _enum(self, made: Any) -> None:
        made.name = self._word()
        self._expect("{")
        while not self._take("}"):
            following = self._tokens[self._at + 1][1]
            if self._take(";"):
                continue
            if self._peek() == "option" and following != "=":
                self._at += 1
                self._option(made.options)
                self._expect(";")
            elif self._peek() == "reserved" and following != "=":
                self._at += 1
                self._reserved(made.reserved_range, made.reserved_name, _MOST_ENUM, inclusive=True)
            else:
                value = made.value.add(name=self._word())
                self._expect("=")
                value.number = self._int()
                if self._take("["):
                    while True:
                        self._option(value.options)
                        if self._take("]"):
                            break
                        self._expect(",")
                self._expect(";")

    def _service(self, made: Any) -> None:
        made.name = self._word()
        self._expect("{")
        while not self._take("}"):
            if self._take("option"):
                self._option(made.options)
                self._expect(";")
            elif self._take("rpc"):
                self._method(made.method.add(name=self._word()))
            else:
                self._expect(";")

    def _method(self, made: Any) -> None:
        for part in ("input_type", "output_type"):
            if part == "output_type":
                self._expect("returns")
            self._expect("(")
            if self._peek() == "stream" and self._tokens[self._at + 1][1] != ")":
                self._at += 1
                setattr(made, "client_streaming" if part == "input_type" else "server_streaming", True)
            setattr(made, part, self._dotted())
            self._expect(")")
        if self._take("{"):
            made.options.SetInParent()
            while not self._take("}"):
                if not self._take(";"):
                    self._expect("option")
                    self._option(made.options)
                    self._expect(";")
        else:
            self._expect(";")

    # Options.

    def _option(self, options: Any) -> None:
        """Read `name = value`. Google's own options are set, others are kept as they are written."""
        parts: list[tuple[str, bool]] = []
        while True:
            if self._take("("):
                parts.append((self._dotted(), True))
                self._expect(")")
            else:
                parts.append((self._word(), False))
            if not self._take("."):
                break
        self._expect("=")
        if any(is_extension for _, is_extension in parts):
            self._uninterpreted(options, parts)
            return
        target = options
        for name, _ in parts[:-1]:
            target = getattr(target, name)
        self._set(target, parts[-1][0])

    def _set(self, target: Any, name: str) -> None:
        """Read the value of one of Google's options."""
        field = target.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise SchemaError(f'Option "{name}" unknown')
        if self._take("{"):
            holder = getattr(target, name)
            text_format.Parse(self._aggregate(), holder.add() if hasattr(holder, "add") else holder)
            return
        value = self._bytes() if self._tokens[self._at][0] == "string" else self._value()
        if field.enum_type is not None:
            value = field.enum_type.values_by_name[str(value)].number
        elif isinstance(value, bytes) and field.cpp_type == field.CPPTYPE_STRING:
            value = value.decode()
        elif value in {"true", "false"}:
            value = value == "true"
        if isinstance(getattr(target, name), (str, bytes, bool, int, float)):
            setattr(target, name, value)
        else:
            getattr(target, name).append(value)

    def _uninterpreted(self, options: Any, parts: list[tuple[str, bool]]) -> None:
        made = options.uninterpreted_option.add()
        for name, is_extension in parts:
            made.name.add(name_part=name, is_extension=is_extension)
        if self._take("{"):
            made.aggregate_value = self._aggregate()
        elif self._tokens[self._at][0] == "string":
            made.string_value = self._bytes()
        else:
            value = self._value()
            if isinstance(value, Word):
                made.identifier_value = value
            elif isinstance(value, float):
                made.double_value = value
            elif value < 0:
                made.negative_int_value = value
            else:
                made.positive_int_value = value

    def _value(self) -> Any:
        """A number or a name."""
        sign = -1 if self._take("-") else 1
        kind, text, _ = self._tokens[self._at]
        if kind == "word":
            self._at += 1
            return Word(f"-{text}" if sign < 0 else text)
        if kind != "number":
            raise self._wrong(f"'{text}' instead of a value")
        if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", text):
            return sign * self._int()
        self._at += 1
        return sign * float(text.rstrip("fF"))

    def _aggregate(self) -> str:
        """The text between braces, which have been opened."""
        depth = 1
        found: list[str] = []
        while True:
            token = self._next()
            depth += {"{": 1, "}": -1}.get(token, 0)
            if not depth:
                return " ".join(found)
            found.append(token)


def _free_name(name: str, made: DescriptorProto) -> str:
    taken = {one.name for one in [*made.field, *made.oneof_decl, *made.nested_type, *made.enum_type]}
    while name in taken:
        name = f"X{name}"
    return name
