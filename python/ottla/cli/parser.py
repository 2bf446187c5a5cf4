"""The parser of the command line: its errors are short, and suggest the nearest names."""

from __future__ import annotations

import argparse
import re

TYPE_CHECKING = False  # as in `ottla`: help is printed without `typing`
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

# More choices than these are a wall of text, and the help lists them.
MANY = 12
# Releases of Python quote the choices, or do not.
INVALID_CHOICE = re.compile(r"invalid choice: '(?P<given>.*)' \(choose from (?P<choices>.*)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are two lines: what is wrong, and where the help is."""

    def error(self, message: str) -> NoReturn:
        """End the program with exit status 2."""
        from ottla.cli import elsewhere

        if found := INVALID_CHOICE.search(message):
            choices = [choice.strip("'") for choice in found["choices"].split(", ")]
            hint = elsewhere.hint(self.prog, found["given"]) or near(found["given"], choices)
            if hint or len(choices) > MANY:
                message = f"{message[: found.start()]}invalid choice: {found['given']!r}{hint}"
        self.exit(2, f"{self.prog}: {message}\n`{self.prog} --help` shows what it takes, with examples\n")

    def refuse(self, strays: list[str]) -> NoReturn:
        """End the program because of arguments that the command does not have."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        flag = next((stray for stray in strays if stray.startswith("-")), "").partition("=")[0]
        from ottla.cli import elsewhere

        self.error(f"unrecognized arguments: {' '.join(strays)}{elsewhere.hint(self.prog, flag) or near(flag, flags)}")


def near(given: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Suggest the name that a mistyped one probably means; empty if none is as near as `cutoff`, of 1."""
    import difflib  # only a mistake needs it

    found = difflib.get_close_matches(given, list(names), n=1, cutoff=cutoff)
    return f"; did you mean {found[0]}?" if found else ""
