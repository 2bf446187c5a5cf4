"""The Python blocks of README and of the pages of docs/, as a reader would run them.

A page can have a comment `setup`, with Python that runs first. If it makes a `broker`, `localhost:9092` in the blocks is
that broker. A block that cannot run has a comment `not run: REASON` before it.
"""

import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

_PART = re.compile(
    r"<!-- not run: (?P<reason>[^\n]*) -->\n+```(?P<kind>python|py|sh|console)\n.*?^```$"
    r"|<!-- setup(?: after)?\n(?P<setup>.*?)-->"
    r"|^```python\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_PRINTS = re.compile(r"^\s*print\(.*\)  # (.+)$", re.MULTILINE)


@dataclass
class Page:
    """A page with its blocks.

    Attributes:
        path: The file.
        parts: Line and code of each block that runs, with those of setup.
        reasons: Why the other blocks do not run.
        printed: What the comments after `print` promise.
    """

    path: Path
    parts: list[tuple[int, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    shown: int = 0

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))


def read(path: Path) -> Page:
    page = Page(path)
    text = path.read_text()
    for match in _PART.finditer(text):
        if match["reason"] is not None:
            page.reasons.append(match["reason"])
            continue
        group = "setup" if match["setup"] is not None else "code"
        page.parts.append((text.count("\n", 0, match.start(group)), match[group]))
        if group == "code":
            page.shown += 1
            page.printed += _PRINTS.findall(match[group])
    return page


def pages() -> list[Page]:
    """All pages, README among them."""
    return [read(path) for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if "results" not in path.parts]


def run(page: Page, **names) -> None:
    """Run the blocks in order, in one namespace, in which a reader's `test_...` functions are called too."""
    scope = {"__name__": "__main__", **names}
    folder = Path.cwd()
    loggers = [logging.getLogger(name) for name in ("ottla", "ottla.connection")]
    kept = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    try:
        for line, code in page.parts:
            text = code
            if "localhost:9092" in code and "broker" in scope:
                text = code.replace("localhost:9092", scope["broker"].bootstrap_servers)
            exec(compile("\n" * line + text, str(page.path), "exec"), scope)
        for name, found in list(scope.items()):
            if name.startswith("test_") and callable(found):
                _with_fixture(found)
    finally:
        os.chdir(folder)
        for logger, level, handlers in kept:
            logger.setLevel(level)
            logger.handlers[:] = handlers
        for found in list(scope.values()):
            stop = getattr(found, "stop", None)
            if type(found).__module__.startswith("ottla.testing") and stop:
                stop()


def _with_fixture(function) -> None:
    from ottla.testing import Broker

    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    if arguments == ("ottla_broker",):
        with Broker() as broker:
            function(broker)


def missing(page: Page, output: str) -> list[str]:
    """What the page promises to print, and did not."""
    return [text for text in page.printed if text not in output]
