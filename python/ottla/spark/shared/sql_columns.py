"""Columns in Spark's SQL, such as `a int, b struct<c: int>`, read without Spark: only its JVM has a parser for them."""

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

# What columns in Spark's SQL consist of.
_TOKEN = re.compile(
    r"""(?P<ignored>\s+|--[^\n]*|/\*.*?\*/)|(?P<quoted>`(?:[^`]|``)*`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<sign>[<>(),:])|(?P<word>[^\s<>(),:`'"]+)|(?P<other>.)""",
    re.DOTALL,
)
# Of every release since 3.5.
_PLAIN = {
    "boolean",
    "tinyint",
    "byte",
    "smallint",
    "short",
    "int",
    "integer",
    "bigint",
    "long",
    "float",
    "real",
    "double",
}
_PLAIN |= {"date", "timestamp", "timestamp_ntz", "timestamp_ltz", "string", "binary", "void", "interval", "variant"}
# With numbers or a name in parentheses, or without.
_PRECISE = {"decimal", "dec", "numeric", "char", "character", "varchar", "time", "geometry", "geography"}
_HOLDERS = {"array": "array<string>", "map": "map<string, string>", "struct": "struct<a: string>"}
_TYPES = sorted(_PLAIN | _PRECISE | _HOLDERS.keys())
# The first words of what may follow a type.
_CLAUSES = {"not", "null", "comment", "collate", "default", "generated", "with", "without"}
_UNITS = {"year", "month", "day", "hour", "minute", "second"}


class SqlError(ValueError):
    """A text is not columns in Spark's SQL."""


class _Token(NamedTuple):
    kind: str
    text: str


def names_in(columns: str) -> list[str]:
    """The names of columns.

    Types of one word are as good as names here, and so are texts of comments.
    """
    depth, begins, found = 0, True, []
    for token in _tokens(columns):
        if begins:
            found.append(_name(token))
        depth += (token.text in "<(") - (token.text in ">)")
        begins = token.text == "," and depth == 0
    return found


def check(columns: str) -> None:
    """Refuse what Spark's parser surely refuses, in words about this text.

    Spark's own show another one.

    Raises:
        SqlError: It is not columns.
    """
    reading = _Reading(list(_tokens(columns)))
    if reading.begins("struct", "<"):
        raise SqlError("the fields are wanted alone: leave out struct< and its >")
    reading.fields("")
    if reading.token is not None:
        raise SqlError(f"{reading.shown()} has no place behind the last column")


def _tokens(columns: str) -> Iterator[_Token]:
    for token in _TOKEN.finditer(columns):
        if token.lastgroup != "ignored":
            yield _Token(str(token.lastgroup), token[0])


def _name(token: _Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


class _Reading:
    """Reads the tokens of a text, from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def token(self) -> _Token | None:
        """The next token; None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def shown(self) -> str:
        """The next token, for errors."""
        return "the end of the text" if self.token is None else repr(self.token.text)

    def begins(self, *texts: str) -> bool:
        """Whether these are the first tokens."""
        return [token.text.lower() for token in self._tokens[: len(texts)]] == list(texts)

    def fields(self, end: str) -> None:
        """Read fields up to a sign, or to the end of the text."""
        while True:
            name = self._field_name()
            self._take(":")
            self._type(name)
            self._clauses(name)
            if not self._take(","):
                break
        if end and not self._take(end):
            raise SqlError(f"{end} is missing where {self.shown()} stands, behind column {name}")

    def _field_name(self) -> str:
        token = self.token
        if token is None or token.kind not in ("word", "quoted"):
            raise SqlError(f"the name of a column is missing where {self.shown()} stands")
        if token.kind == "word" and not re.fullmatch(r"\w+", token.text):
            raise SqlError(f"the name {token.text} needs backquotes: `{token.text}`")
        self._at += 1
        return _name(token)

    def _type(self, name: str) -> None:
        token = self.token
        if token is None or token.kind != "word":
            raise SqlError(f"column {name} has no type where {self.shown()} stands: write it as in `{name} string`")
        kind = token.text.lower()
        if kind not in _TYPES:
            near = difflib.get_close_matches(kind, _TYPES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_TYPES)}"
            raise SqlError(f"column {name} has the type {token.text}, which Spark does not have; {hint}")
        self._at += 1
        if kind in _HOLDERS:
            self._inner(name, kind)
        elif kind in _PRECISE and self._take("("):
            while (token := self.token) is not None and token.text != ")":
                self._at += 1
            if not self._take(")"):
                raise SqlError(f"column {name} has a type whose parenthesis is not closed")

    def _inner(self, name: str, kind: str) -> None:
        if not self._take("<"):
            raise SqlError(f"column {name} has the type {kind} without what it holds, as in {_HOLDERS[kind]}")
        if kind == "struct":
            if not self._take(">"):
                self.fields(">")
            return
        self._type(name)
        self._clauses(name)
        if kind == "map":
            if not self._take(","):
                raise SqlError(f"column {name} has a map without a type of its values, as in map<string, string>")
            self._type(name)
            self._clauses(name)
        if not self._take(">"):
            raise SqlError(f"column {name} has the type {kind}, which is not closed where {self.shown()} stands")

    def _clauses(self, name: str) -> None:
        """Read what follows a type. What is right in it is Spark's business."""
        first = self.token
        if first is None or first.kind == "sign":
            return
        if first.kind != "word" or first.text.lower() not in _CLAUSES | _UNITS:
            raise SqlError(f"a comma is missing between column {name} and {self.shown()}")
        depth = 0
        while (token := self.token) is not None:
            if depth == 0 and token.text in ",>":
                return
            depth += (token.text == "(") - (token.text == ")")
            self._at += 1

    def _take(self, sign: str) -> bool:
        token = self.token
        if token is None or token != _Token("sign", sign):
            return False
        self._at += 1
        return True
