"""`ottla completion`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import ottla
from ottla.cli import arguments, commands, profiles, settings
from ottla.cli.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Milliseconds: a person who presses Tab does not wait longer.
PATIENCE_MS = 1500

# Each asks `ottla completion words`, which prints one candidate a line. `--` keeps its own options apart.
SCRIPTS = {
    "bash": """\
_ottla() {
    local IFS=$'\\n' line
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    # Bash splits words at colons, and = of its own: what it split is put together again.
    line="${COMP_LINE:0:COMP_POINT}"
    COMPREPLY=($(ottla completion words --line "$line" 2>/dev/null))
    local last="${line##* }" prefix=""
    case "$last" in *[:=]*) prefix="${last%"${last##*[:=]}"}" ;; esac
    if [ -n "$prefix" ]; then COMPREPLY=("${COMPREPLY[@]#"$prefix"}"); fi
    [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default 2>/dev/null
}
complete -F _ottla ottla
""",
    "zsh": """\
#compdef ottla
_ottla() {
    local -a found
    found=(${(f)"$(ottla completion words --line "${(j: :)words[1,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -U -Q -- $found; else _files; fi
}
compdef _ottla ottla
""",
    "fish": """\
complete -c ottla -f -a '(ottla completion words --line (commandline -cp) 2>/dev/null)'
""",
}


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = arguments.command(
        commands,
        "completion",
        "print the completion of commands, options, topics and groups for bash, zsh or fish",
        """
        source <(ottla completion bash)                                  # in ~/.bashrc
        source <(ottla completion zsh)                                   # in ~/.zshrc, behind compinit
        ottla completion fish > ~/.config/fish/completions/ottla.fish
        """,
    )
    parser.add_argument("shell", choices=[*SCRIPTS, "words"], help="words: what a line can go on with, for the scripts")
    parser.add_argument("--line", default="ottla ", metavar="TEXT", help="the line up to the cursor, for `words`")
    parser.set_defaults(run=_completion)


def _completion(options: argparse.Namespace) -> None:
    if options.shell != "words":
        print(SCRIPTS[options.shell], end="")
        return
    for word in words(options.line):
        print(word)


def words(line: str) -> list[str]:
    """List what the last word of a line can be."""
    *given, last = _split(line)
    parser = commands.root("", given)
    parser, rest = _innermost(parser, given[1:])
    options = {flag: action for action in parser._actions for flag in action.option_strings}  # noqa: SLF001
    flag, equals, value = last.partition("=")
    if equals and flag in options:
        return [f"{flag}={each}" for each in _values(options[flag], value, given)]
    before = given[-1] if given else ""
    if before in options and options[before].nargs != 0:
        return _values(options[before], last, given)
    if last.startswith("-"):
        return sorted(name for name in options if name.startswith(last) and (len(name) > 2 or last == name))
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return [name for name in action.choices if name.startswith(last)]
    positionals = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001
    if not positionals:
        return []
    typed = sum(not word.startswith("-") and not _is_value(word, rest, options) for word in rest)
    return _values(positionals[min(typed, len(positionals) - 1)], last, given)


def _split(line: str) -> list[str]:
    found = line.split()
    return [*found, ""] if not found or line[-1].isspace() else found


def _innermost(parser: Parser, given: list[str]) -> tuple[Any, list[str]]:
    """The parser of the command and the verb that a line has, and the words behind them."""
    rest: list[str] = []
    found: Any = parser
    for word in given:
        verbs = [each for each in found._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001
        if verbs and word in verbs[0].choices:
            found, rest = verbs[0].choices[word], []
        else:
            rest.append(word)
    return found, rest


def _is_value(word: str, rest: list[str], options: dict[str, Any]) -> bool:
    before = rest[rest.index(word) - 1] if rest.index(word) else ""
    return before in options and options[before].nargs != 0


def _values(action: argparse.Action, start: str, given: list[str]) -> list[str]:
    if action.choices is not None:
        return [name for name in map(str, action.choices) if name.startswith(start)]
    done, comma, part = start.rpartition(",")
    return [f"{done}{comma}{name}" for name in _names(action, given) if name.startswith(part)]


def _names(action: argparse.Action, given: list[str]) -> Iterable[str]:
    """What there is of the kind that an argument names, by the way its help shows it."""
    shown = f"{action.dest} {action.metavar}".lower()
    noun = next((word for word in given[1:] if not word.startswith("-")), "")
    if "profile" in shown:
        return sorted(profiles.read()[1])
    if "config" in shown and "key=value" in shown:
        return [f"{row['name']}=" for row in ottla._ottla.properties()]  # noqa: SLF001
    if "group" in shown:
        return _asked(given, lambda admin: [row.group_id for row in admin.list_groups()])
    if "topic" in shown or "partitions" in shown or (noun in ("topics", "consume", "produce") and "name" in shown):
        return _asked(given, lambda admin: admin.list_topics())
    if "id" in shown.split() and noun == "transactions":
        return _asked(given, lambda admin: [row.transactional_id for row in admin.list_transactions()])
    if "type/name" in shown:
        return [f"topic/{name}" for name in _asked(given, lambda admin: admin.list_topics())]
    return []


def _asked(given: list[str], call: Any) -> Iterator[str]:
    """The names that a cluster returns; none if it does not respond in time."""
    root = commands.root("", given)
    try:
        options, _ = root.parse_known_args([*_connection(given), "topics"])
        arguments.finish(options)
        config = {**settings.client_config(options, "admin"), "default.api.timeout.ms": str(PATIENCE_MS)}
        with ottla.Admin(settings.bootstrap(options), config=config) as admin:
            yield from call(admin)
    except (ottla.KafkaError, OSError, SystemExit):
        return


def _connection(given: list[str]) -> Iterator[str]:
    """The options of a line that say where the cluster is."""
    for number, word in enumerate(given):
        if word in ("-b", "--bootstrap", "--config", "--profile") and number + 1 < len(given):
            yield from (word, given[number + 1])
        elif word.startswith(("--bootstrap=", "--config=", "--profile=")):
            yield word
