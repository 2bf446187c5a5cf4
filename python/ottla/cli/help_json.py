"""`ottla --help-json`: the whole tree of commands, for programs."""

from __future__ import annotations

import argparse
import json
from typing import Any


def tree(parser: argparse.ArgumentParser, name: str) -> dict[str, Any]:
    """Describe a parser with its arguments, and the commands below it."""
    verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    return {
        "name": name,
        "usage": " ".join(parser.format_usage().removeprefix("usage: ").split()),
        "description": parser.description,
        "examples": parser.epilog,
        "arguments": [
            _argument(action)
            for action in parser._actions  # noqa: SLF001
            if not isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS  # noqa: SLF001
        ],
        "commands": [tree(child, child_name) for each in verbs for child_name, child in each.choices.items()],
    }


def _argument(action: argparse.Action) -> dict[str, Any]:
    name = action.option_strings[-1] if action.option_strings else action.metavar or action.dest
    default = None if action.default in (argparse.SUPPRESS, None) else action.default
    return {
        "name": name,
        "flags": list(action.option_strings),
        "metavar": action.metavar if isinstance(action.metavar, (str, type(None))) else " ".join(action.metavar),
        "required": action.required,
        "repeatable": isinstance(action, (argparse._AppendAction, argparse._ExtendAction))  # noqa: SLF001
        or action.nargs in ("*", "+"),
        "takes_value": action.nargs != 0,
        "choices": None if action.choices is None else [str(each) for each in action.choices],
        "default": default if isinstance(default, (str, int, float, bool, type(None))) else str(default),
        "help": action.help % {"default": default} if action.help and "%(default)s" in action.help else action.help,
    }


def show(parser: argparse.ArgumentParser) -> None:
    """Print the tree."""
    print(json.dumps(tree(parser, parser.prog), ensure_ascii=False))
