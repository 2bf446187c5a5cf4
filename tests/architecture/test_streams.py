"""A command's line for people is written whole, by `cli/streams.py`: `print` writes a text and its end apart."""

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "python" / "ottla"


def prints_to_a_file(source):
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and any(keyword.arg == "file" for keyword in node.keywords)
    ]


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_nothing_prints_to_standard_error(path):
    assert prints_to_a_file(path.read_text()) == []


def test_the_rule_finds_one():
    assert prints_to_a_file("import sys\nprint('sent', file=sys.stderr)\nprint('value')\n") == [2]
