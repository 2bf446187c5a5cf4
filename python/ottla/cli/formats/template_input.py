"""Templates the other way: how `produce -f` finds records in its input, in the language of kcl and rpk."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.cli import signals
from ottla.cli.formats.envelope import Parsed
from ottla.cli.formats.template import TemplateError, Text, surrounded
from ottla.errors import ArgumentError

HELP = r"""%t topic  %k key  %v value  %p partition  %d timestamp (ms)  %T %K %V sizes of %t %k %v, before them
%H number of headers, then %h{...} with %K %k %V %v for each  %o %e %x %y numbers that are skipped  %% %{ %}  \n \t \xNN
A text is as long as its size, or goes up to the text that follows it in the template.
sizes:   %K{big32} ascii hex8 hex16 hex32 hex64 big8 big16 big32 big64, little8 to little64, byte, bool, {3} digits
text:    %v{hex} %v{base64} %v{json} %k{re[\d+]}"""

_CHUNK = 2**20
_TEXTS = {"t": "topic", "k": "key", "v": "value"}
_SIZES = {"T": "topic", "K": "key", "V": "value", "H": "headers"}
_NUMBERS = {"p": "partition", "d": "timestamp", "o": "offset", "e": "epoch", "x": "producer", "y": "producer epoch"}
# What is read up to a size or a text, and then decoded.
_BOUNDED = {None, "hex", "base64"}
_DIGITS = re.compile(rb"-?\d+")

Found: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[["Reader", Found], None]


class Reader:
    """Reads records.

    Args:
        template: The template.
        read: Gives at most that many of the next bytes, and none at the end.
        between: Lets signals in while it waits.

    Raises:
        TemplateError: The template is not valid.
    """

    def __init__(self, template: str, read: Callable[[int], bytes], between: signals.Between) -> None:
        self._steps = compiled(template)
        self._read = read
        self._between = between
        self._data = b""
        self._at = 0
        self._ended = False
        self.position = 0

    def next(self) -> Parsed | None:
        """The next record; None at the end.

        Raises:
            ArgumentError: The input does not fit the template.
        """
        if not self.has_more() and not self._more():
            return None
        found: Found = {}
        for step in self._steps:
            step(self, found)
        headers = tuple(
            (_text(header.get("key", b""), "header"), header.get("value")) for header in found.get("all", [])
        )
        topic = found.get("topic")
        return Parsed(
            None if topic is None else _text(topic, "topic"),
            found.get("value"),
            found.get("key"),
            found.get("number partition"),
            found.get("number timestamp"),
            headers,
        )

    def has_more(self) -> bool:
        """Whether bytes are there without waiting for input."""
        return self._at < len(self._data)

    def take(self, size: int, what: str) -> bytes:
        """That many bytes."""
        while len(self._data) - self._at < size:
            if not self._more():
                left = len(self._data) - self._at
                raise ArgumentError(f"the input ends in {what}: {left} of {size} bytes are there")
        self._at += size
        return self._data[self._at - size : self._at]

    def until(self, end: bytes | None, what: str, *, is_last: bool) -> bytes:
        """The bytes before a text, which is passed over. The last text of a template may be missing at the end."""
        start = self._at
        while True:
            place = -1 if end is None else self._data.find(end, start)
            if place >= 0 and end is not None:
                found = self._data[self._at : place]
                self._at = place + len(end)
                return found
            # A part of the text may be at the end.
            before = self._at
            start = max(before, len(self._data) - len(end or b""))
            start -= before
            if not self._more():
                if end is not None and not is_last:
                    raise ArgumentError(f"the input ends in {what}, before {end!r}")
                found = self._data[self._at :]
                self._at = len(self._data)
                return found
            start += self._at

    def expect(self, text: bytes) -> None:
        """Pass over a text of the template."""
        found = self.take(len(text), f"{text!r} of the template")
        if found != text:
            raise ArgumentError(f"the template has {text!r} here, and the input has {found!r}")

    def match(self, pattern: re.Pattern[bytes], what: str) -> bytes:
        """The longest match at this place."""
        while True:
            found = pattern.match(self._data, self._at)
            # More input may make it longer.
            if (found is None or found.end() == len(self._data)) and self._more():
                continue
            if found is None:
                raise ArgumentError(
                    f"{what} does not match {pattern.pattern.decode()!r}: {self._data[self._at :][:40]!r}"
                )
            self._at = found.end()
            return found[0]

    def json(self, what: str) -> bytes:
        """The JSON at this place."""
        decoder = json.JSONDecoder()
        while True:
            text = self._data[self._at :].decode(errors="surrogateescape")
            begin = len(text) - len(text.lstrip())
            try:
                value, end = decoder.raw_decode(text, begin)
            except ValueError as error:
                if self._more():
                    continue
                raise ArgumentError(f"{what} is not JSON: {error}") from None
            # Digits may go on.
            if end == len(text) and self._more():
                continue
            self._at += len(text[:end].encode(errors="surrogateescape"))
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def _more(self) -> bool:
        if self._ended:
            return False
        with self._between.waiting():
            data = self._read(_CHUNK)
        self.position += len(data)
        self._data, self._at = self._data[self._at :] + data, 0
        self._ended = not data
        return bool(data)


def compiled(template: str) -> list[Step]:
    """The steps that read a record.

    Raises:
        TemplateError: The template is not valid, or a text in it has no end.
    """
    return _steps(_parts(template), {})


def _parts(template: str) -> list[bytes | tuple[str, str | None]]:
    """Fixed texts, and verbs with what is in their braces."""
    parts: list[bytes | tuple[str, str | None]] = []
    text = Text(template)

    def fixed(data: bytes) -> None:
        if parts and isinstance(parts[-1], bytes):
            parts[-1] += data
        else:
            parts.append(data)

    while text.more():
        letter = text.take()
        if letter == "\\":
            fixed(text.escape())
        elif letter != "%":
            fixed(letter.encode())
        elif (verb := text.take()) in "%{}":
            fixed(verb.encode())
        else:
            parts.append((verb, text.braces()))
    return parts


def _steps(parts: list[bytes | tuple[str, str | None]], sized: dict[str, bool]) -> list[Step]:
    if not any(isinstance(part, tuple) for part in parts):
        raise TemplateError("the template reads nothing: %v is the value, as in '%k\\t%v\\n'")
    steps: list[Step] = []
    passed = False
    for place, part in enumerate(parts):
        if isinstance(part, bytes):
            if not passed:
                steps.append(_expecting(part))
            passed = False
            continue
        verb, braces = part
        after = parts[place + 1] if place + 1 < len(parts) else None
        if verb in _SIZES:
            sized[_SIZES[verb]] = True
            steps.append(_number(f"size {_SIZES[verb]}", braces))
        elif verb in _NUMBERS:
            steps.append(_number(f"number {_NUMBERS[verb]}", braces))
        elif verb == "h":
            if braces is None or not sized.get("headers"):
                raise TemplateError("%h needs %H before it, and braces with a template for each header")
            steps.append(_headers(_steps(_parts(braces), {})))
        elif verb in _TEXTS:
            is_sized = bool(sized.get(_TEXTS[verb]))
            steps.append(_text_step(verb, braces, after, is_sized=is_sized, is_last=place + 2 >= len(parts)))
            passed = isinstance(after, bytes) and not is_sized and braces in _BOUNDED
        else:
            raise TemplateError(f"%{verb} means nothing in input; `ottla produce --help` lists the verbs")
    return steps


def _expecting(text: bytes) -> Step:
    return lambda reader, _: reader.expect(text)


def _bounded(name: str, end: bytes | None, form: str | None, *, is_last: bool) -> Step:
    def step(reader: Reader, found: Found) -> None:
        found[name] = _decoded(reader.until(end, name, is_last=is_last), form, name)

    return step


def _text_step(
    verb: str, braces: str | None, after: bytes | tuple[str, str | None] | None, *, is_sized: bool, is_last: bool
) -> Step:
    """How a topic, a key or a value is read.

    Args:
        verb: Which of them.
        braces: How it is encoded.
        after: What follows it in the template.
        is_sized: Whether its size was read before.
        is_last: Whether only one text follows.
    """
    name = _TEXTS[verb]
    if braces in _BOUNDED and is_sized:
        return lambda reader, found: found.__setitem__(
            name, _decoded(reader.take(found[f"size {name}"], name), braces, name)
        )
    if braces in _BOUNDED:
        if isinstance(after, tuple):
            raise TemplateError(f"%{verb} has no end: put a text behind it, or its size %{verb.upper()} before it")
        return _bounded(name, after, braces, is_last=is_last)
    if is_sized:
        raise TemplateError(f"{braces!r} finds its own end: leave the size of the {name} out")
    if braces == "json":
        return lambda reader, found: found.__setitem__(name, reader.json(name))
    if braces is not None and braces.startswith("re"):
        try:
            pattern = re.compile(surrounded(braces.removeprefix("re")).encode())
        except re.error as error:
            raise TemplateError(f"{braces!r} is not a regular expression: {error}") from None
        return lambda reader, found: found.__setitem__(name, reader.match(pattern, name))
    raise TemplateError(f"{braces!r} is no way to read text: hex, base64, json or re[...]")


def _decoded(data: bytes, form: str | None, name: str) -> bytes:
    try:
        if form == "hex":
            return bytes.fromhex(data.decode("ascii"))
        return base64.b64decode(data, validate=True) if form == "base64" else data
    except (ValueError, binascii.Error) as error:
        raise ArgumentError(f"{name} is not {form}: {error}") from None


def _number(name: str, braces: str | None) -> Step:
    read = _number_reader(name, braces)

    def step(reader: Reader, found: Found) -> None:
        number = read(reader)
        if number < 0 and name.startswith("size"):
            raise ArgumentError(f"the {name} is {number}")
        found[name] = number

    return step


def _number_reader(name: str, form: str | None) -> Callable[[Reader], int]:
    if form in {None, "ascii", "number"}:
        return lambda reader: int(reader.match(_DIGITS, name))
    if form is not None and form.isdecimal():
        size = int(form)
        return lambda reader: _int(reader.take(size, name), 10, name)
    if form == "bool":
        return lambda reader: int(reader.match(re.compile(rb"true|false"), name) == b"true")
    if form == "byte":
        form = "big8"
    bits = re.fullmatch(r"(hex|big|little)(4|8|16|32|64)", form or "")
    if bits is None or (bits[1] != "hex" and bits[2] == "4"):
        raise TemplateError(f"{form!r} is no way to read numbers: ascii, hex8, big32, little64, byte, bool, 3, ...")
    length = int(bits[2])
    if bits[1] == "hex":
        return lambda reader: _int(reader.take(length // 4, name), 16, name)
    order: Any = bits[1]
    return lambda reader: int.from_bytes(reader.take(length // 8, name), order)


def _int(digits: bytes, base: int, name: str) -> int:
    try:
        return int(digits, base)
    except ValueError:
        raise ArgumentError(f"the {name} is not a number: {digits!r}") from None


def _headers(steps: list[Step]) -> Step:
    def step(reader: Reader, found: Found) -> None:
        found["all"] = []
        for _ in range(found["size headers"]):
            header: Found = {}
            for each in steps:
                each(reader, header)
            found["all"].append(header)

    return step


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ArgumentError(f"the {what} {data!r} is not UTF-8") from None
