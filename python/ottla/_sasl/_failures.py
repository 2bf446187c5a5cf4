"""The reasons why an authentication lacks a token or credentials."""

from __future__ import annotations

# The most characters of a foreign text in an error.
_MOST = 300


class Refused(Exception):  # noqa: N818 not an error of Python code, but a result
    """A retry does not help: wrong credentials, wrong settings."""


class Unavailable(Exception):  # noqa: N818 as above
    """A retry may help: a server cannot be reached, or is busy."""


def short(text: object, secrets: tuple[str | None, ...] = ()) -> str:
    """Shorten a foreign text for an error: one line, without secrets."""
    line = str(text)
    for secret in secrets:
        if secret:
            line = line.replace(secret, "[hidden]")
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= _MOST else line[:_MOST] + "…"


def shown(error: BaseException, secrets: tuple[str | None, ...] = ()) -> str:
    """Show an exception in an error: its class and its message."""
    text = short(error, secrets)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
