"""The commands of `ottla` on README and the pages of docs/: in shell blocks, after `$`, and in running text.

A block that cannot run has a comment `not run: REASON` before it. The table of a page that is generated counts.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scripts.docs import tables

from tests.page_blocks import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCED = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]*) -->\n+)?^```(?:sh|console|bash)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_ANY_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_TYPED = re.compile(r"^    \$ (.*)$", re.MULTILINE)
_SPAN = re.compile(r"`(ottla [^`\n]+)`")
_ENDS = {"|", "&&", ";", "&", "||"}
# What a shell completes is no command yet.
_COMPLETED = "<TAB>"
_ERRORS = re.compile(r" 2> *\S+")
_REDIRECTS = {"<", ">", ">>", "<("}


@dataclass(frozen=True)
class Line:
    """A line of a shell.

    Attributes:
        page: The page's path in the repository.
        text: The line, with its comment.
        kind: "block", "typed" after `$`, or "span" of running text.
        reason: Why its block does not run; empty if it says nothing.
    """

    page: str
    text: str
    kind: str
    reason: str = ""


def lines() -> Iterator[Line]:
    """All lines of all pages."""
    for page in pages():
        text = page.path.read_text()
        for match in _FENCED.finditer(text):
            for line in match["text"].replace("\\\n", " ").splitlines():
                yield Line(page.name, line.removeprefix("$ "), "block", match["reason"] or "")
        text = re.sub(r"<!-- table: ([\w-]+) -->", lambda match: tables.TABLES[match[1]](), text)
        text = _ANY_FENCED.sub("", text)
        yield from (Line(page.name, line, "typed") for line in _TYPED.findall(text))
        yield from (Line(page.name, line.replace("\\|", "|"), "span") for line in _SPAN.findall(text))


def commands(line: str) -> list[list[str]]:
    """The arguments of each `ottla` in a line of a shell, without redirections."""
    if _COMPLETED in line:
        return []
    words = shlex.shlex(_ERRORS.sub("", line), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found: list[list[str]] = [[]]
    is_file = False
    for word in words:
        if word in _ENDS:
            found.append([])
        elif word in _REDIRECTS:
            is_file = True
        elif not is_file:
            found[-1].append(word)
        else:
            is_file = False
    return [command[1:] for command in found if command[:1] == ["ottla"]]
