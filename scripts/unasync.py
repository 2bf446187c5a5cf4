"""Write python/ottla/_sync, the facade for threads, from python/ottla/aio, which a person writes.

`await`, `async` and the names of asyncio go, a call of the core becomes an `Operation` to wait for, and what the
compiled base of a class has is left out. In the source, a comment above a statement says where threads need another:

    # For threads: `self._core.flush(timeout).wait()`
    # Not for threads.

Run it after a change in python/ottla/aio; a test holds the files against their sources.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import textwrap
import tokenize
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "python" / "ottla" / "aio"
TARGETS = ROOT / "python" / "ottla" / "_sync"
STUB = ROOT / "python" / "ottla" / "_ottla.pyi"
MODULES = (
    "_admin",
    "_calls/cluster",
    "_calls/configs",
    "_calls/groups",
    "_calls/reassignments",
    "_calls/security",
    "_calls/topics",
    "_calls/transactions",
    "_closing",
    "_consumer",
    "_producer",
    "_read",
    "_share",
    "_transaction",
    "_transform",
)

# Names of asyncio, wherever they stand in code, and what threads have for them.
NAMES = {
    "AsyncDeliveries": "Deliveries",
    "AsyncDelivery": "Delivery",
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclosing": "closing",
    "asynccontextmanager": "contextmanager",
    # Whether the caller is a listener: the core knows the thread that calls one.
    "_is_telling": "_core.is_telling",
}
# What an `Operation` or a function that makes one is called. To await it is to wait for it.
OPERATIONS = {"_core", "core", "leave", "operation"}
# Functions for asyncio alone: threads take the argument as it is.
TRANSPARENT = {"with_loop"}
# Modules of asyncio's with a twin of the same interface.
TWINS = {"asyncio": "time"}
# Facades whose calls for each record are compiled, and their bases.
COMPILED = {"Consumer": "SyncConsumer", "Producer": "SyncProducer"}
# Docstrings: what is said of asyncio, and what of threads. Each is looked for in what those before it left.
PHRASES = {
    "as an async context manager": "as a context manager",
    "is cancelled": "is interrupted, as by Ctrl-C",
    # All clients.
    ", for asyncio. Tasks may share it": ". Threads may share it",
    "A function, or an async one, that is called": "A function that is called",
    "It runs on the loop, from the moment at which the client is made or entered there.": (
        "It runs on a thread of ottla's, which all clients share; the last call runs on the thread that closes."
    ),
    # Producer.
    ", for asyncio. It belongs to no loop: several threads, with a loop each, may share it.": ". Threads may share it.",
    " It runs on the thread of the loop.": "",
    "After Ctrl-C, `sys.exit` or a cancelled task the": "After Ctrl-C or `sys.exit` the",
    "(await delivery)": "delivery.result()",
    "The callbacks of these records run on the loop, and are not waited for.": (
        "It also waits until the callbacks of these records that run on ottla's thread have returned."
    ),
    # Consumer.
    "such tasks need": "such threads need",
    "the caller's loop": "the caller's thread",
    "in the task that polls": "on the thread that polls",
    ", and may be async; `max.poll.interval.ms` is its deadline": "",
    ", but have no longer than is left of the call's time": "",
    # Share consumer.
    "Polls of several tasks": "Polls of several threads",
    "commit of one task": "commit of one thread",
    "let each task have": "let each thread have",
    "of all tasks are": "of all threads are",
    "Other tasks have their turn every few milliseconds.": "",
    "A function, or an async one, which is awaited.": "A function.",
    "loops call it, on the loop": "loops call it, on their thread",
    # Transform.
    "Work in this task until": "Work on this thread until",
    "such as `CancelledError`": "such as `KeyboardInterrupt`",
    "in order, in the task of `run`; it may be async. It returns": "in order, by the thread of `run`. It returns",
    # Examples and words of Python's grammar.
    "for asyncio": "for threads",
    "an `async with`": "a `with`",
    "An `async with`": "A `with`",
    "async with ": "with ",
    "async for ": "for ",
    "async def ": "def ",
    "await ": "",
    "aio.": "ottla.",
}

HEAD = "# Written by scripts/unasync.py from python/ottla/aio/{name}. Change that file, and run the script.\n"
WIDTH = 120

Edit: TypeAlias = tuple[int, int, str]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def text(name: str) -> str:
    """The source of a module for threads.

    Args:
        name: The module's name, without a suffix.

    Raises:
        SyntaxError: The source has what this script does not know.
    """
    file = f"{name}.py"
    made = _Rewriting((SOURCES / file).read_text()).text()
    return _tidied(HEAD.format(name=file) + made, TARGETS / file)


class _Rewriting:
    """The rewriting of one source, by edits at the places that its syntax tree names: comments and layout stay."""

    def __init__(self, source: str) -> None:
        # Positions of syntax trees count bytes.
        if not source.isascii():
            raise SyntaxError("a source of python/ottla/_sync has only ASCII")
        self._source = source
        self._tree = ast.parse(source)
        lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._edits: list[Edit] = []
        # Where statements are left out or replaced: no other edit counts there.
        self._gone: list[tuple[int, int]] = []

    def text(self) -> str:
        self._replace_statements()
        for node in ast.walk(self._tree):
            self._visit(node)
        self._edits += self._of_names()
        kept = sorted(edit for edit in self._edits if not self._is_gone(edit))
        for one, other in pairwise(kept):
            if one[1] > other[0]:
                raise SyntaxError(f"two changes of the same place: {one} and {other}")
        pieces, end = [], 0
        for start, stop, new in kept:
            pieces += [self._source[end:start], new]
            end = stop
        return "".join([*pieces, self._source[end:]])

    def _is_gone(self, edit: Edit) -> bool:
        """Whether the place of a change is replaced as a whole."""
        start, stop, _ = edit
        place = stop if start == stop else start + 1
        return any(first < place <= last and (start, stop) != (first, last) for first, last in self._gone)

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _start(self, node: ast.expr | ast.stmt | ast.alias) -> int:
        return self._at(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt | ast.alias) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.end_lineno, node.end_col_offset)

    def _tokens(self) -> Iterator[tokenize.TokenInfo]:
        return tokenize.generate_tokens(io.StringIO(self._source).readline)

    # --- statements that threads do not have, or have otherwise

    def _replace_statements(self) -> None:
        firsts: dict[int, ast.stmt] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.stmt):
                decorators = getattr(node, "decorator_list", [])
                firsts.setdefault(min([node.lineno, *(each.lineno for each in decorators)]), node)
        used = 0
        for token in self._tokens():
            if token.type == tokenize.COMMENT and (said := _of_threads(token.string)) is not None:
                statement = firsts.get(token.start[0] + 1)
                if statement is None:
                    raise SyntaxError(f"line {token.start[0]}: no statement is below {token.string!r}")
                self._replace(token.start[0], statement, said)
                used += 1
        if used != len(re.findall(r"# (?:For|Not for) threads", self._source)):
            raise SyntaxError("a comment about threads is not like the others")
        for cls in self._tree.body:
            if isinstance(cls, ast.ClassDef) and cls.name in COMPILED:
                self._base(cls)

    def _replace(self, line: int, statement: ast.stmt, new: str) -> None:
        """Replace the lines of a statement, and what is above it from `line` on."""
        assert statement.end_lineno is not None
        start, end = self._at(line, 0), self._at(statement.end_lineno + 1, 0)
        self._gone.append((start, end))
        self._edits.append((start, end, f"{' ' * statement.col_offset}{new}\n" if new else ""))

    def _base(self, cls: ast.ClassDef) -> None:
        """Give a class its compiled base before the others, and leave out what that has."""
        base = COMPILED[cls.name]
        first = self._start(cls.bases[0])
        self._edits.append((first, first, f"_ottla.{base}, "))
        compiled = _names_in_stub(base)
        for node in cls.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__":
                self._replace(node.lineno, node, "__slots__ = ()")
            elif isinstance(node, _FUNCTIONS) and NAMES.get(node.name, node.name) in compiled:
                self._replace(node.lineno, node, "")

    # --- expressions

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)):
            self._docstring(node)
        self._verb(node)
        self._module(node)

    def _verb(self, node: ast.AST) -> None:
        match node:
            case ast.AsyncFunctionDef() | ast.AsyncWith() | ast.AsyncFor():
                start = self._start(node)
                self._edits.append((start, start + len("async "), ""))
            case ast.comprehension(is_async=1):
                raise SyntaxError("an async comprehension is not known here")
            case ast.Await():
                start = self._start(node)
                self._edits.append((start, start + len("await "), ""))
                if _is_operation(node.value):
                    self._edits.append((self._end(node.value), self._end(node.value), ".wait()"))
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in TRANSPARENT:
                self._edits.append((self._start(node), self._start(argument), ""))
                self._edits.append((self._end(argument), self._end(node), ""))
            case ast.Constant(value=str(words)) if words.startswith("aio."):
                # The name of a class, for an error.
                self._edits.append((self._start(node) + 1, self._start(node) + len("'aio."), ""))

    def _module(self, node: ast.AST) -> None:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[:2] == ["ottla", "aio"]:
                start = self._source.index("ottla.aio", self._start(node))
                self._edits.append((start, start + len("ottla.aio"), "ottla._sync"))
            case ast.alias(name=name, asname=str(other)) if NAMES.get(name) == other:
                self._gone.append((self._start(node), self._end(node)))
                self._edits.append((self._start(node), self._end(node), other))
            case ast.Import(names=[ast.alias(name=name)]) if name in TWINS:
                self._gone.append((self._start(node), self._end(node)))
                self._edits.append((self._start(node), self._end(node), f"import {TWINS[name]}"))
            case ast.Attribute(value=ast.Name(id=name)) if name in TWINS:
                self._edits.append((self._start(node.value), self._end(node.value), TWINS[name]))

    def _docstring(self, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        match node.body[0]:
            case ast.Expr(value=ast.Constant(value=str()) as found):
                old = self._source[self._start(found) : self._end(found)]
                self._edits.append((self._start(found), self._end(found), _docstring(old, found.col_offset)))

    def _of_names(self) -> Iterator[Edit]:
        for token in self._tokens():
            if token.type == tokenize.NAME and token.string in NAMES:
                yield self._at(*token.start), self._at(*token.end), NAMES[token.string]


def _of_threads(comment: str) -> str | None:
    """The statement that threads have, by a comment; an empty one if they have none, and None for other comments."""
    if comment == "# Not for threads.":
        return ""
    found = re.fullmatch(r"# For threads: `(.*)`", comment)
    return None if found is None else found[1]


def _is_operation(awaited: ast.expr) -> bool:
    match awaited:
        case ast.Call(func=ast.Name(id=name)) | ast.Name(id=name):
            return name in OPERATIONS
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in OPERATIONS
    return False


def _names_in_stub(cls: str) -> set[str]:
    """What a compiled class has."""
    [found] = [n for n in ast.parse(STUB.read_text()).body if isinstance(n, ast.ClassDef) and n.name == cls]
    return {node.name for node in found.body if isinstance(node, ast.FunctionDef)}


# --- docstrings

# An argument, an exception or a point of a list.
_ITEM = re.compile(r"- |[*\w]+: ")


def _docstring(old: str, indent: int) -> str:
    """A docstring for threads. Paragraphs that change are wrapped again."""
    lines = [" " * indent + old.splitlines()[0], *old.splitlines()[1:]]
    made = [line for paragraph in _paragraphs(lines) for line in _paragraph(paragraph)]
    while len(made) > 2 and not made[-2].strip():
        del made[-2]
    if len(made) == 2 and made[1].strip() == '"""':
        made = [made[0] + '"""']
    return "\n".join(made)[indent:]


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Lines that are wrapped together: free text, or an item of a list with what is indented below it."""
    is_code = False
    paragraph: list[str] = []
    for line in lines:
        is_fence = line.strip().startswith("```")
        if paragraph and (is_code or is_fence or _begins(line, paragraph)):
            yield paragraph
            paragraph = []
        paragraph.append(line)
        is_code ^= is_fence
    yield paragraph


def _begins(line: str, paragraph: list[str]) -> bool:
    def depth(of: str) -> int:
        return len(of) - len(of.lstrip())

    last = paragraph[-1]
    is_item = _ITEM.match(line.lstrip()) is not None and depth(line) <= depth(paragraph[0])
    alone = {line.strip(), last.strip()} & {"", '"""', "```", "Args:", "Raises:", "Returns:"}
    return is_item or bool(alone)


def _paragraph(lines: list[str]) -> list[str]:
    joined = " ".join([lines[0], *(line.strip() for line in lines[1:])])
    made = joined
    for old, new in PHRASES.items():
        made = made.replace(old, new)
    if made == joined:
        return lines
    first = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    deeper = " " * 4 if _ITEM.match(made.lstrip()) else ""
    rest = lines[1][: len(lines[1]) - len(lines[1].lstrip())] if len(lines) > 1 else first + deeper
    return textwrap.wrap(
        made.strip(),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


# --- files


def _tidied(source: str, path: Path) -> str:
    """Without imports and marks for the linter that nothing needs, and as the formatter wants it."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (
        ["check", "--fix-only", "--quiet", "--fixable=F401,I001,RUF100"],
        ["format", "--quiet"],
    ):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", path, "-"],
            input=source,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        source = done.stdout
    return source


if __name__ == "__main__":
    for module in MODULES:
        (TARGETS / f"{module}.py").write_text(text(module))
