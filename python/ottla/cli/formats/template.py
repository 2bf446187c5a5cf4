r"""Templates: how `consume -f` writes records, in the language of kcl and rpk."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, TypeAlias

from ottla import Record
from ottla.cli.formats.rows import Rows

HELP = r"""%t topic  %p partition  %o offset  %e leader epoch  %d timestamp  %k key  %v value  %T %K %V their lengths
%H number of headers, %h{...} each header: %k %K %v %V in the braces, as in %h{%k=%v,}
%D how often a share group delivered it  %i number of the record, from 1  %% %{ %} these letters  \n \t \r \\ \xNN
numbers: %p{hex8} hex hex4 hex8 hex16 hex32 hex64, big8 big16 big32 big64, little8 to little64, byte, bool, ascii
text:    %v{hex} %v{base64} %v{base64raw} %v{unpack{>iq$}} by letters: b B h H i I q Q numbers, c s text,
         < (the default) and > for the byte order, $ for the end
time:    %d is milliseconds; %d{strftime[%F %T]} in UTC; any of ## [] {} in one or more surround a format"""

Write: TypeAlias = Callable[[Any], bytes]
_LETTERS = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_CLOSING = {"#": "#", "{": "}", "[": "]"}
_TEXTS: Mapping[str, Callable[[bytes], bytes]] = {
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "base64raw": lambda data: base64.b64encode(data).rstrip(b"="),
}
_STRUCTS = {"b": "b", "B": "B", "h": "h", "H": "H", "i": "i", "I": "I", "q": "q", "Q": "Q"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What brokers send but the consumer does not pass on, or what only Go has.
_MISSING = {
    "x": "the id of the record's producer: `ottla decode` shows it for segments",
    "y": "the epoch of the record's producer: `ottla decode` shows it for segments",
    "a": "attributes of batches, but for %a{timestamp-type}: `ottla decode` shows them for segments",
    "A": "the deadline of a share group's lock: it is share.record.lock.duration.ms of the group",
    "[": "the partition's first offset: `ottla topics offsets` shows it",
    "]": "the partition's end: `ottla topics offsets` shows it",
    "|": "the last stable offset: `ottla topics offsets` shows it",
}


class TemplateError(ValueError):
    """A text is not a template."""


class Text:
    """A template that is being read: its letters, and where the reader is."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def more(self) -> bool:
        """Whether letters are left."""
        return self.at < len(self.text)

    def take(self) -> str:
        """The next letter.

        Raises:
            TemplateError: There is no such field.
        """
        if not self.more():
            raise TemplateError(f"{self.text!r} ends in the middle of %, \\ or {{")
        self.at += 1
        return self.text[self.at - 1]

    def escape(self) -> bytes:
        r"""The byte after a backslash."""
        letter = self.take()
        if letter == "x":
            digits = self.take() + self.take()
            try:
                return bytes.fromhex(digits)
            except ValueError:
                raise TemplateError(f"\\x{digits} is not a byte: \\x and two hexadecimal digits") from None
        if letter not in _LETTERS:
            raise TemplateError(f"\\{letter} means nothing: \\n, \\t, \\r, \\\\, \\0 or \\xNN")
        return _LETTERS[letter]

    def braces(self) -> str | None:
        """What is in the braces that follow; None if none do. Braces in it are in pairs, or a run of other marks."""
        if self.text[self.at : self.at + 1] != "{":
            return None
        begin, depth = self.at + 1, 0
        while True:
            letter = self.take()
            if letter == "%" and self.text[self.at : self.at + 1] in {"{", "}"}:
                self.take()
            elif letter == "{":
                depth += 1
            elif letter == "}":
                depth -= 1
                if not depth:
                    return self.text[begin : self.at - 1]


def surrounded(text: str) -> str:
    """What is between equal runs of `#`, `[` or `{`."""
    mark = text[:1]
    run = len(text) - len(text.lstrip(mark)) if mark in _CLOSING else 0
    # A run of # alone is opening and closing at once.
    run = min(run, len(text) // 2)
    if not run or text[-run:] != _CLOSING[mark] * run:
        raise TemplateError(f"{text!r} is not surrounded by marks: ##...##, [...] or {{...}}")
    return text[run : len(text) - run]


def check(template: str) -> None:
    """Raise if a template is not valid.

    Raises:
        TemplateError: It is not. The message names the place.
    """
    TemplateSink(io.BytesIO(), template)


def unescaped(text: str) -> bytes:
    r"""A text whose backslashes are letters such as \n.

    Raises:
        TemplateError: A letter after a backslash means nothing.
    """
    found, reader = bytearray(), Text(text)
    while reader.more():
        letter = reader.take()
        found += reader.escape() if letter == "\\" else letter.encode()
    return bytes(found)


class TemplateSink:
    """Writes records by a template.

    Args:
        out: The file.
        template: The template.
        decoded: Gives the texts of keys and values of records that are decoded, by the name of their field; None to
            write the bytes.

    Raises:
        TemplateError: The template is not valid. The message names the place.
    """

    def __init__(
        self,
        out: IO[bytes],
        template: str,
        decoded: Callable[[Rows], Mapping[str, Sequence[bytes | None]]] | None = None,
    ) -> None:
        self._out = out
        self._decoded = decoded
        self._texts: Mapping[str, bytes | None] = {}
        self._count = 0
        self._parts = _compiled(template, self._verb)

    def write(self, rows: Rows) -> None:
        """Write some records."""
        parts = self._parts
        pieces: list[bytes] = []
        columns = {} if self._decoded is None else self._decoded(rows)
        for row, record in enumerate(rows):
            self._count += 1
            if columns:
                self._texts = {name: texts[row] for name, texts in columns.items()}
            pieces.extend([part(record) for part in parts])
        self._out.write(b"".join(pieces))

    def flush(self) -> None:
        """Let readers see what was written."""
        self._out.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()

    def _verb(self, verb: str, braces: str | None) -> Write:
        """How a verb is written."""
        texts: dict[str, Callable[[Record], bytes]] = {
            "t": lambda record: record.topic.encode(),
            "k": lambda record: self._texts.get("key", record.key) or b"",
            "v": lambda record: self._texts.get("value", record.value) or b"",
        }
        numbers: dict[str, Callable[[Record], int]] = {
            "T": lambda record: len(record.topic.encode()),
            "K": lambda record: len(texts["k"](record)),
            "V": lambda record: len(texts["v"](record)),
            "H": lambda record: len(record.headers),
            "p": lambda record: record.partition,
            "o": lambda record: record.offset,
            "e": lambda record: -1 if record.leader_epoch is None else record.leader_epoch,
            "D": lambda record: record.delivery_count or 0,
            "i": lambda _: self._count,
        }
        if verb in texts:
            return _text(texts[verb], braces)
        if verb in numbers:
            return _number(numbers[verb], braces)
        if verb == "d":
            return _time(braces)
        if verb == "h":
            if braces is None:
                raise TemplateError("%h needs braces, with a template for each header: %h{%k=%v }")
            inner = _compiled(braces, _header_verb)
            return lambda record: b"".join([part(header) for header in record.headers for part in inner])
        if verb == "a" and braces is not None and braces.partition(";")[0] == "timestamp-type":
            return _number(lambda record: record.timestamp_type, braces.partition(";")[2] or None)
        if verb in _MISSING:
            raise TemplateError(f"%{verb} is not there. It is {_MISSING[verb]}")
        raise TemplateError(f"%{verb} means nothing; `ottla consume --help` lists the verbs")


def _header_verb(verb: str, braces: str | None) -> Write:
    if verb == "k":
        return _text(lambda header: header[0].encode(), braces)
    if verb == "v":
        return _text(lambda header: header[1] or b"", braces)
    if verb == "K":
        return _number(lambda header: len(header[0].encode()), braces)
    if verb == "V":
        return _number(lambda header: len(header[1] or b""), braces)
    raise TemplateError(f"%{verb} is nothing of a header: %k, %v, %K or %V")


def _compiled(template: str, verb: Callable[[str, str | None], Write]) -> list[Write]:
    """The parts of a template, each of which writes something of a record."""
    parts: list[Write] = []
    text, fixed = Text(template), bytearray()

    def end() -> None:
        if fixed:
            data = bytes(fixed)
            parts.append(lambda _: data)
            fixed.clear()

    while text.more():
        letter = text.take()
        if letter == "\\":
            fixed += text.escape()
        elif letter != "%":
            fixed += letter.encode()
        elif (name := text.take()) in "%{}":
            fixed += name.encode()
        else:
            end()
            parts.append(verb(name, text.braces()))
    end()
    return parts


def _text(of: Callable[[Any], bytes], braces: str | None) -> Write:
    if braces is None:
        return of
    if braces.startswith("unpack"):
        unpack = unpacker(surrounded(braces.removeprefix("unpack")))
        return lambda record: unpack(of(record))
    if braces not in _TEXTS:
        raise TemplateError(f"{braces!r} is no way to write text: {', '.join(_TEXTS)} or unpack{{...}}")
    write = _TEXTS[braces]
    return lambda record: write(of(record))


def _number(of: Callable[[Any], int], braces: str | None) -> Write:
    write = number_format(braces)
    return lambda record: write(of(record))


def number_format(name: str | None) -> Callable[[int], bytes]:
    """How a number is written by the format of this name; None is digits.

    Raises:
        TemplateError: There is no such format.
    """
    if name in {None, "ascii", "number"}:
        return lambda value: b"%d" % value
    if name == "hex":
        return lambda value: b"%x" % (value % 2**64)
    if name == "bool":
        return lambda value: b"true" if value else b"false"
    if name == "byte":
        name = "big8"
    for order in ("hex", "big", "little"):
        bits = (name or "").removeprefix(order)
        if name == f"{order}{bits}" and bits in ("4", "8", "16", "32", "64")[0 if order == "hex" else 1 :]:
            return _sized(order, int(bits))
    raise TemplateError(f"{name!r} is no way to write numbers: ascii, hex, hex8, big32, little64, byte, bool, ...")


def _sized(order: str, bits: int) -> Callable[[int], bytes]:
    if order == "hex":
        return lambda value: b"%0*x" % (bits // 4, value % 2**bits)
    byte_order: Any = order
    return lambda value: (value % 2**bits).to_bytes(bits // 8, byte_order)


def _time(braces: str | None) -> Write:
    if braces is not None and braces.startswith("strftime"):
        form = surrounded(braces.removeprefix("strftime"))
        return lambda record: datetime.fromtimestamp(max(record.timestamp, 0) / 1000, UTC).strftime(form).encode()
    if braces is not None and braces.startswith("go"):
        raise TemplateError("Go's forms of times are not supported: %d{strftime[%Y-%m-%dT%H:%M:%SZ]}")
    return _number(lambda record: record.timestamp, braces)


def unpacker(form: str) -> Callable[[bytes], bytes]:
    """How bytes are shown by a form of `unpack`. What is missing or left is reported at the end of the text.

    Raises:
        TemplateError: A letter means nothing.
    """
    if unknown := sorted(set(form) - {*_STRUCTS, *"x<>c.s$"}):
        raise TemplateError(f"{unknown[0]!r} is no part of unpack: x < > b B h H i I q Q c . s $")

    def unpack(data: bytes) -> bytes:
        shown, at, order = bytearray(), 0, "<"
        for letter in form:
            if letter in "<>":
                order = letter
            elif letter == "x":
                # As in kcl and rpk, and not as in Python's struct, it takes no byte.
                continue
            elif letter == "$":
                if at < len(data):
                    shown += b" (%d bytes are left)" % (len(data) - at)
            elif letter == "s":
                shown += data[at:]
                at = len(data)
            else:
                size = 1 if letter in "c." else struct.calcsize(order + _STRUCTS[letter])
                if at + size > len(data):
                    return bytes(shown) + b" (%d bytes are missing)" % (at + size - len(data))
                part = data[at : at + size]
                shown += part if letter in "c." else b"%d" % struct.unpack(order + _STRUCTS[letter], part)[0]
                at += size
        return bytes(shown)

    return unpack
