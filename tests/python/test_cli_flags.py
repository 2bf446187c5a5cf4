"""The page of other tools' flags has a row for each flag, and each command of ottla on it is one that ottla takes.

`foreign_flags.json` lists the flags by tool and command, as the tools' sources of the named commits define them.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ottla import _ottla, cli
from ottla.cli import settings

PAGE = Path(__file__).parents[2] / "docs" / "command-line" / "flags.md"
TOOLS = json.loads(Path(__file__).with_name("foreign_flags.json").read_text())
ROW = re.compile(r"^\| `(?P<command>[^`]+)` \| (?P<flags>[^|]*) \| (?P<ottla>.+) \|$")
CODE = re.compile(r"`([^`]+)`")
# What ends a command of a shell.
ENDS = {"|", ">", "2>", "<", "&&"}
REASONS = ("none: ", "always: ")


def rows():
    """Tool, command, flags and what the page says about them."""
    tool = ""
    for line in PAGE.read_text().replace(r"\|", "\0").splitlines():
        if line.startswith("## "):
            tool = line.removeprefix("## ")
        if found := ROW.match(line):
            cell = found["ottla"].replace("\0", "|")
            yield tool, found["command"], " ".join(CODE.findall(found["flags"])), cell


ROWS = list(rows())


def commands():
    """The commands of ottla on the page, as words."""
    for *_, cell in ROWS:
        for code in CODE.findall(cell):
            words = shlex.split(code)
            if "ottla" in words:
                yield tuple(words[words.index("ottla") + 1 :])


def of_ottla(words):
    """A command without what the shell does with it."""
    end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
    return list(words[:end])


COMMANDS = sorted(set(commands()))


def test_each_flag_has_one_row():
    wanted = [
        (tool, command, flag)
        for tool, content in TOOLS.items()
        for command, flags in content["flags"].items()
        for flag in flags or [""]
    ]
    assert [row[:3] for row in ROWS] == wanted


def test_each_row_has_a_command_or_a_reason():
    without = [row for row in ROWS if not row[3].startswith((*REASONS, "`"))]
    assert without == []
    assert [row for row in ROWS if row[3].startswith("`") and "ottla " not in row[3]] == []
    assert [row for row in ROWS if row[3].startswith(REASONS) and len(row[3].split()) < 4] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_ottla_takes_the_command(words, capsys):
    words = of_ottla(words)
    if words in (["--version"], ["--help-json"]) or "--help" in words:
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
        return
    options = cli._parsed(words)
    known = {row["name"]: row["roles"] for row in _ottla.properties()}
    role = {"consume": "consumer", "produce": "producer"}.get(options.verb, "admin")
    assert [name for name in settings.properties(options) if role not in known.get(name, ())] == []
    assert capsys.readouterr() == ("", "")
