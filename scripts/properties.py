"""Write python/ottla/_properties.py, the typed dictionaries of properties, from the one table in crates/engine.

Run it after the table changed and the extension was built; a test holds the file against the table.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from ottla._ottla import properties

if TYPE_CHECKING:
    from ottla._ottla import Property

HEAD = '''"""The properties of each client, as keywords. Written by scripts/properties.py from crates/engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from ottla._assignors import Assignor
from ottla._ottla import Keys
'''


ROLES = ("admin", "consumer", "producer", "share-consumer")
# Sets of clients that have properties in common, and the names of the classes.
SHARED = {
    ROLES: "ClientProperties",
    ("consumer", "producer", "share-consumer"): "RecordProperties",
    ("consumer", "share-consumer"): "FetchProperties",
}

# The one property that is no text: it is not in the table, and every client has it.
_TOKEN = (
    "    sasl_token: Callable[[], Any] | None",
    '    """A function, or a coroutine function, that returns a token for OAUTHBEARER, or a tuple of a token, the',
    "    seconds for which it is valid and a dict of extensions. For AWS_MSK_IAM: (access_key, secret_key, token).",
    '    """',
)


def text() -> str:
    """The module's source."""
    rows = [row for row in properties() if row["name"] != "bootstrap.servers"]
    known = {*SHARED, *((role,) for role in ROLES)}
    for row in rows:
        if tuple(sorted(row["roles"])) not in known:
            raise ValueError(f"{row['name']} is a property of {row['roles']}: name their class in SHARED")
    return HEAD + "".join(
        [
            *(_dictionary(name, roles, rows, ["TypedDict"]) for roles, name in SHARED.items()),
            *(
                _dictionary(
                    f"{role.title().replace('-', '')}Properties",
                    (role,),
                    rows,
                    [name for roles, name in SHARED.items() if role in roles],
                )
                for role in ROLES
            ),
        ]
    )


def _dictionary(name: str, roles: tuple[str, ...], rows: list[Property], bases: list[str]) -> str:
    """A class: what exactly these clients have, and by its bases what they share with others."""
    of = "every client" if roles == ROLES else f"the {', '.join(roles)}"
    lines = ["", "", f"class {name}({', '.join(bases)}, total=False):"]
    lines += [f'    """Properties of {of}, with underscores where Kafka\'s names have dots."""']
    for row in rows:
        if set(roles) == set(row["roles"]):
            default = "" if not row["default"] else f" Default: {row['default']}."
            lines += [""] * (len(lines) == 4)
            lines.append(_field(row["name"].replace(".", "_"), _type(row)))
            lines.append(_wrapped(f'"""{row["doc"]}{default}"""'))
    return "\n".join([*lines, *(_TOKEN if roles == ROLES else ())]) + "\n"


def _field(name: str, kind: str) -> str:
    """A field, broken as the formatter breaks a line that is too long."""
    line = f"    {name}: {kind} | None"
    if len(line) <= 120:
        return line
    choices, _, other = kind.removeprefix("Literal[").partition("]")
    lines = [f"    {name}: (", "        Literal["]
    lines += [f"            {word}," for word in choices.split(", ")]
    lines += ["        ]", *(f"        | {part}" for part in other.split(" | ") if part), "        | None", "    )"]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, initial_indent=" " * 4, subsequent_indent=" " * 4)


def _type(row: Property) -> str:
    if row["kind"] == "choice":
        words = [repr(word).replace("'", '"') for word in row["choices"]]
        numbers = [word for word in row["choices"] if word.lstrip("-").isdecimal()]
        choices = f"Literal[{', '.join(words + numbers)}]"
        # The one choice that may also be a function: of a topic's name, the keys and the number of partitions.
        return f"{choices} | Callable[[str, Keys, int], Any]" if row["name"] == "partitioner" else choices
    if row["name"] == "partition.assignment.strategy":
        return "str | Assignor | Sequence[str | Assignor]"
    return {"bool": "bool", "int": "int", "text": "str", "secret": "str"}[row["kind"]]


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "python" / "ottla" / "_properties.py"
    target.write_text(text())
