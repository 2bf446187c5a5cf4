"""What Spark's plans show of options.

Plans contain all options of a query, and so do the web interface and the event logs of Spark. Spark hides the values of
options whose name or value contains a word for a secret (`spark.redaction.regex`), but shows a private key. It makes a
plan before ottla's code runs, so a secret must have a name that Spark hides.
"""

import re
from collections.abc import Iterator, Mapping

# Goes before the name of any option.
HIDING = "secret."

# What Spark hides by default.
_HIDDEN = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
# Options whose values are secret, and which it shows.
_NAMES = ("ssl.keystore.key", "ssl.key.pem", "basic.auth.user.info")
# A URL with a user and a password: a password may have any character, since not everybody escapes it.
LOGIN = r"://[^/\s]*:\S*@"


def bare(name: str) -> str:
    """An option's name without what hides it."""
    return name[len(HIDING) :] if name.lower().startswith(HIDING) else name


def check(options: Mapping[str, str]) -> None:
    """Refuse what Spark would show.

    Raises:
        ValueError: An option holds a secret and has a name that Spark does not hide.
    """
    for name in _shown(options):
        raise ValueError(
            f"option {name} holds a secret that Spark shows in its plans, its web interface and its event logs: "
            f"name it {HIDING}{name}, since Spark hides an option with this word in its name"
        )


def hide(options: Mapping[str, str]) -> dict[str, str]:
    """The options, and those that Spark would show by names that it hides."""
    shown = set(_shown(options))
    return {HIDING + name if name in shown else name: value for name, value in options.items()}


def _shown(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        small = name.lower()
        secret = small.endswith(_NAMES) or (small.endswith(".url") and re.search(LOGIN, value))
        if secret and not _HIDDEN.search(name) and not _HIDDEN.search(value):
            yield name
